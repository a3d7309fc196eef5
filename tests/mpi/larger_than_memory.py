"""Trains on a file that is larger than the memory that this process may take, by itself or as a rank of a job.

python larger_than_memory.py x.npy [distributed]
"""

from __future__ import annotations

import hashlib
import resource
import sys
from pathlib import Path
from typing import Any

import numpy as np

from openbnns import nn

ROOM = 192 * 2**20  # bytes beyond what the process has when it begins to read; a thread alone reserves 64 MiB or more


def sizes() -> tuple[int, int]:
    """Bytes of the address space of this process, and of what of it is data."""
    pages = Path("/proc/self/statm").read_text().split()
    return int(pages[0]) * resource.getpagesize(), int(pages[5]) * resource.getpagesize()


def limit(what: int, size: int) -> None:
    resource.setrlimit(what, (size + ROOM, resource.getrlimit(what)[1]))


def train(x: Any) -> str:
    y = (np.arange(len(x)) % 3).astype(np.int64)
    net = nn.Sequential(nn.Linear(3))
    trainer = nn.Trainer(
        net, batch_size=48, quiet=True, seed=1, distributed=True if "distributed" in sys.argv else None
    )
    trainer.fit(x, y, epochs=1)
    return hashlib.sha256(net.state_dict()["0.weight"].tobytes()).hexdigest()


path = sys.argv[1]
train(np.zeros((96, 8), np.float32))  # so that threads and MPI have what they need
weights = []
for what, size, read in (
    (resource.RLIMIT_AS, sizes()[0], lambda: nn.sources.open_npy(path)),
    (resource.RLIMIT_DATA, sizes()[1], lambda: np.load(path, mmap_mode="r")),  # mapped files do not count as data
)[: 1 if "distributed" in sys.argv else 2]:
    limit(what, size)
    try:
        np.load(path)
        sys.exit("The limit does not hold.")
    except MemoryError:
        pass
    weights.append(train(read()))
    resource.setrlimit(what, (resource.RLIM_INFINITY, resource.getrlimit(what)[1]))
assert len(set(weights)) == 1
sys.stdout.write(f"{weights[0]}\n")  # at once: ranks write to one pipe
