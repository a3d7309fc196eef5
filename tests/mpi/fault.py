"""One rank of a job in which something happens to one of them.

mpiexec -n 3 python fault.py FOLDER '{"rank": 1, "what": "kill", "when": "exchange", "epoch": 2}'

The folder gets the checkpoints, the time at which it happened, and, if the job ends well, the weights.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI
from problems import classes, numbers

from openbnns import nn
from openbnns.distributed.communicator import Communicator
from openbnns.distributed.exchange import Exchange
from openbnns.files import safetensors as weights

folder, told = Path(sys.argv[1]), json.loads(sys.argv[2])
RANK, EPOCHS, STEPS = MPI.COMM_WORLD.Get_rank(), 12, 3
here = told.get("rank") == RANK


def happen() -> None:
    """The fault of this rank."""
    (folder / "time").write_text(str(time.time()))
    what = told["what"]
    if what in ("SIGKILL", "SIGSTOP", "SIGTERM", "SIGINT"):
        os.kill(os.getpid(), signal.Signals[what])
    elif what == "raise":
        raise OSError("the disk is full")
    elif what == "missing":
        nn.sources.open_npy(folder / "nowhere.npy")
    elif what == "exit":
        sys.exit(0)


class Happening(nn.Callback):
    epoch, step = 1, 0

    def on_step(self, trainer: Any, step: Any) -> None:
        self.epoch, self.step = step["epoch"], step["step"]
        if "started" in told and RANK == 0:
            (folder / "started").touch()
        if "pause" in told:
            time.sleep(told["pause"])
        if here and told["when"] == "step" and self.epoch == told["epoch"] and self.step % STEPS == 1:
            happen()


watching = Happening()


def patched(owner: Any, name: str, due: Any) -> None:
    """Let it happen when a function is called and ``due``."""
    before = getattr(owner, name)

    def call(*arguments: Any, **named: Any) -> Any:
        if due():
            happen()
        return before(*arguments, **named)

    setattr(owner, name, call)


if here and told["when"] == "exchange":
    patched(Exchange, "sum", lambda: watching.epoch == told["epoch"])
if here and told["when"] == "checkpoint":
    due = lambda: watching.step == STEPS * told["epoch"]  # noqa: E731
    patched(weights.os, "replace", due) if RANK == 0 else patched(Communicator, "once", due)

trainer = nn.Trainer(
    nn.Sequential(nn.Linear(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(3)), "cross_entropy", nn.Adam(0.01), batch_size=32,
    seed=1, out=folder / "run", say=print, distributed=True,
)  # fmt: skip
if here and told["when"] == "outside":
    happen()
x = numbers(90, 5)
y = classes(3, 90)


class Failing(nn.sources.Rows):
    """A file of which this rank cannot read some samples."""

    def read(self, rows: Any) -> Any:
        if here and told["when"] == "read" and watching.epoch == told["epoch"]:
            happen()
        return x[rows]


trainer.fit(Failing(x.shape, x.dtype), y, epochs=EPOCHS, resume=True, callbacks=[watching])
if RANK == 0:
    np.savez(folder / "weights.npz", **trainer.network.state_dict())
