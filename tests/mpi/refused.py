"""One rank of a job that is refused: rank 0 prints what is said about it on all ranks."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI
from problems import classes, numbers

from openbnns import nn

RANK = MPI.COMM_WORLD.Get_rank()


def trainer(loss: str = "cross_entropy", batch_size: int = 32, **options: Any) -> nn.Trainer:
    net = options.pop("net", None) or nn.Sequential(nn.Linear(4), nn.Linear(3))
    return nn.Trainer(net, loss, batch_size=batch_size, quiet=True, distributed=True, **options)


def few_samples() -> None:
    trainer().fit(numbers(2, 5), classes(3, 2))


def small_batches() -> None:
    trainer(batch_size=1).fit(numbers(40, 5), classes(3, 40))


def few_shards() -> None:
    trainer(shards=2).fit(numbers(40, 5), classes(3, 40))


def other_seed() -> None:
    trainer(seed=RANK).fit(numbers(40, 5), classes(3, 40))


def other_data() -> None:
    trainer().fit(numbers(40, 5, seed=RANK == 2), classes(3, 40))


def lonely_samples() -> None:
    trainer(net=nn.Sequential(nn.Linear(4), nn.BatchNorm1d(), nn.Linear(3))).fit(numbers(40, 5), classes(3, 40))


def diverging() -> None:
    nn.Trainer(nn.Linear(1), "mse", nn.SGD(1e25), batch_size=32, quiet=True, distributed=True).fit(
        numbers(40, 5), numbers(40, 1), epochs=9
    )


def missing_file() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.npy"
        if RANK != 1:
            np.save(path, numbers(40, 5))

        def batches() -> Iterator[Any]:
            yield np.load(path), classes(3, 40)

        trainer().fit(nn.data.Batches(batches, 1))


def other_settings_than_the_checkpoint() -> None:
    folder = MPI.COMM_WORLD.bcast(tempfile.mkdtemp() if RANK == 0 else None)
    trainer(out=folder).fit(numbers(40, 5), classes(3, 40), epochs=1)
    trainer(out=folder, shards=8).fit(numbers(40, 5), classes(3, 40), epochs=2, resume=True)


def no_communicator() -> None:
    nn.distributed.Communicator("all of them")


def other_way_to_sum() -> None:
    nn.distributed.Communicator(deterministic=False, transport="bfloat16")


def two_ways_to_sum() -> None:
    nn.distributed.Communicator(shared_memory=True, transport="bfloat16")


class Lonely(nn.distributed.Communicator):
    """Every rank has a host of its own."""

    def _neighbours(self) -> Any:
        return self._control.Split(self.rank)


def no_shared_memory() -> None:
    Lonely(shared_memory=True)


def clipped_parameters() -> None:
    from openbnns import GradientClipping

    optimizer = nn.Adam(0.01)
    optimizer.clip(GradientClipping.by_norm(threshold=1.0))
    comm = nn.distributed.Communicator(shard_optimizer=True)
    nn.Trainer(nn.Linear(1), "mse", optimizer, quiet=True, distributed=comm).fit(numbers(40, 5), numbers(40, 1))


if __name__ == "__main__":
    for name in sys.argv[1:]:
        told = "nothing"
        try:
            globals()[name]()
        except Exception as error:
            told = f"{type(error).__name__}: {error}"
        everyone = MPI.COMM_WORLD.gather(told)
        if everyone is not None:
            print(json.dumps([name, everyone]), flush=True)
