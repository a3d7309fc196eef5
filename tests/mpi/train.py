"""One rank of a job: trains the problems that it is told to, and leaves their results in a file.

mpiexec -n 3 python train.py results.npz '{"problems": ["mlp"], "trainer": {}, "fit": {}}'
"""

from __future__ import annotations

import hashlib
import json
import sys
from typing import Any

import numpy as np
from mpi4py import MPI
from problems import PROBLEMS

from openbnns import nn


class Stop(nn.Callback):
    """Ends the run after a step, at the wish of the last rank alone."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step(self, trainer: Any, step: Any) -> None:
        if step["step"] == self.step and MPI.COMM_WORLD.Get_rank() == MPI.COMM_WORLD.Get_size() - 1:
            trainer.stop("it is time")


def run(name: str, told: dict[str, Any]) -> dict[str, Any]:
    """The weights after training, the state of the optimizer, and the numbers of the history."""
    options = dict(told.get("trainer", {}))
    if "out" in told:
        options["out"] = f"{told['out']}/{name}"
    comm = None if told.get("plain") else True
    trainer, given = PROBLEMS[name](distributed=comm, **options)
    given |= told.get("fit", {})
    if told.get("without_dropout"):
        for module in trainer.network.modules():
            for option in {"dropout", "p"} & set(vars(module)):
                if isinstance(getattr(module, option), float):
                    setattr(module, option, 0.0)
    x, y = given.pop("x"), given.pop("y")
    if "stop_at" in told:
        given["callbacks"] = [Stop(told["stop_at"])]
    history = trainer.fit(x, y, **given)
    arrays = {f"{name}/network/{key}": array.copy() for key, array in trainer.network.state_dict().items()}
    arrays[f"{name}/steps"] = trainer.optimizer.state_dict()["steps"]
    measured = [{k: v for k, v in record.items() if isinstance(v, float) and k != "seconds"} for record in history]
    arrays[f"{name}/history"] = np.array([value for record in measured for value in record.values()])
    digest = hashlib.sha256(b"".join(array.tobytes() for array in arrays.values())).hexdigest()
    everyone = MPI.COMM_WORLD.allgather(digest)
    assert len(set(everyone)) == 1, f"{name}: the ranks end with different weights: {everyone}"
    return arrays


def main() -> None:
    path, told = sys.argv[1], json.loads(sys.argv[2])
    arrays: dict[str, Any] = {}
    for name in told.get("problems", PROBLEMS):
        arrays |= run(name, told)
    if MPI.COMM_WORLD.Get_rank() == 0:
        np.savez(path, **arrays)


if __name__ == "__main__":
    main()
