"""One rank of a job of which rank 1 fails in its third step, while all others wait for it."""

from __future__ import annotations

from typing import Any

from mpi4py import MPI
from problems import classes, numbers

from openbnns import nn


class Failing(nn.Callback):
    def on_step(self, trainer: Any, step: Any) -> None:
        if step["step"] == 3 and MPI.COMM_WORLD.Get_rank() == 1:
            raise OSError("the disk is full")


net = nn.Sequential(nn.Linear(4), nn.Linear(3))
trainer = nn.Trainer(net, batch_size=32, quiet=True, distributed=True)
trainer.fit(numbers(400, 5), classes(3, 400), callbacks=[Failing()])
print("went on")
