"""Training on several ranks: the exchange of gradients against MPI's own all-reduce, and whole steps.

Every measurement is a job of its own: ``mpiexec -n 2 python benchmarks/mpi.py exchange`` prints its medians.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from harness import Figure, Settings

ELEMENTS = 10_000_000  # 40 MB of gradients
ROUNDS, LEAST_ROUNDS = 41, 11


def figures() -> dict[str, Callable[[Settings], Figure]]:
    """Measurements by name; none where there is no MPI."""
    if find_spec("mpi4py") is None:
        return {}
    return {
        "mpi/exchange of 40 MB on 2 ranks, of MPI's all-reduce": partial(_exchange, 2, "allreduce", 0.8),
        "mpi/exchange of 40 MB on 2 ranks, in local copies": partial(_exchange, 2, "copy", 2.6),
        "mpi/exchange of 40 MB on 4 ranks, of MPI's all-reduce": partial(_exchange, 4, "allreduce", None),
        "mpi/VGG-like step, 2 ranks with 1 thread, of 1 rank with 2": _steps,
    }


def _job(ranks: int, what: str, threads: int, rounds: int) -> dict[str, float]:
    beside = Path(sys.executable).with_name("mpiexec")
    mpiexec = str(beside) if beside.exists() else shutil.which("mpiexec")
    if mpiexec is None:
        raise RuntimeError("mpi4py is here, but no mpiexec. Install one: pip install mpich")
    command = [mpiexec, "-n", str(ranks), sys.executable, __file__, what, str(rounds)]
    environment = {**os.environ, "OPENBNNS_NUM_THREADS": str(threads)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stderr}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _rounds(settings: Settings) -> int:
    return ROUNDS if settings.seconds >= 1 else LEAST_ROUNDS


def _exchange(ranks: int, other: str, target: float | None, settings: Settings) -> Figure:
    found = _job(ranks, "exchange", 1, _rounds(settings))
    note = ", ".join(f"{name} {1000 * seconds:.1f} ms" for name, seconds in found.items())
    words = {"allreduce": "of MPI's all-reduce", "copy": "in local copies"}[other]
    name = f"mpi/exchange of 40 MB on {ranks} ranks, {words}"
    return Figure(name, found["exchange"] / found[other], "x", target, at_most=True, note=note)


def _steps(settings: Settings) -> Figure:
    two, one = (_job(ranks, "step", 3 - ranks, _rounds(settings)) for ranks in (2, 1))
    note = f"2 ranks {1000 * two['step']:.0f} ms, 1 rank {1000 * one['step']:.0f} ms, batch 64"
    name = "mpi/VGG-like step, 2 ranks with 1 thread, of 1 rank with 2"
    return Figure(name, two["step"] / one["step"], "x", 1.10, at_most=True, note=note)


# What a rank does.


def _alternate(comm: Any, calls: dict[str, Callable[[], None]], rounds: int) -> dict[str, float]:
    """The median time of each call, of the rank that took longest."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(rounds):
        for name, call in calls.items():
            comm.Barrier()
            began = perf_counter()
            call()
            times[name].append(max(comm.allgather(perf_counter() - began)))
    return {name: statistics.median(found) for name, found in times.items()}


def exchange(rounds: int) -> dict[str, float]:
    from mpi4py import MPI

    from openbnns import nn
    from openbnns.nn.distributed.exchange import Exchange
    from openbnns.nn.distributed.shards import Shards
    from openbnns.nn.distributed.sums import BLOCK

    comm = nn.distributed.Communicator()
    size = ELEMENTS // BLOCK * BLOCK
    vector, other = np.full(size, 1e-6, np.float32), np.empty(size, np.float32)
    buckets = comm.buckets_of(size)
    ours = Exchange(comm, Shards(16, comm.size, comm.rank), vector, buckets)
    theirs = np.full(size, 1e-6, np.float32)

    def run() -> None:
        for _ in buckets:
            ours.start([vector])
        ours.finish()

    calls = {
        "exchange": run,
        "allreduce": lambda: MPI.COMM_WORLD.Allreduce(MPI.IN_PLACE, theirs),
        "copy": lambda: np.copyto(other, vector),
    }
    with np.errstate(all="ignore"):
        return _alternate(MPI.COMM_WORLD, calls, rounds)


def step(rounds: int) -> dict[str, float]:
    """Seconds per step of a network of four convolutions, from the steps of a run."""
    from openbnns import nn

    net = nn.Sequential(
        nn.Conv2d(64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(128, 3, padding=1), nn.ReLU(), nn.Conv2d(128, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(10),
    )  # fmt: skip
    times: list[float] = []

    class Clock(nn.Callback):
        def on_step(self, trainer: Any, step: Any) -> None:
            times.append(perf_counter())

    random = np.random.RandomState(0)
    x, y = random.standard_normal((64, 3, 32, 32)).astype(np.float32), random.randint(0, 10, 64)
    trainer = nn.Trainer(net, "cross_entropy", "adam", batch_size=64, quiet=True, distributed=True)
    trainer.fit(np.tile(x, (rounds + 3, 1, 1, 1)), np.tile(y, rounds + 3), epochs=1, callbacks=[Clock()])
    return {"step": float(np.median(np.diff(times)[2:]))}


if __name__ == "__main__":
    from mpi4py import MPI

    result = {"exchange": exchange, "step": step}[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else LEAST_ROUNDS)
    if MPI.COMM_WORLD.Get_rank() == 0:
        print(json.dumps(result))
