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

import openbnns
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


def other_version() -> None:
    before, openbnns.__version__ = openbnns.__version__, "0.0" if RANK == 1 else openbnns.__version__
    try:
        trainer().fit(numbers(40, 5), classes(3, 40))
    finally:
        openbnns.__version__ = before


def other_resume() -> None:
    with tempfile.TemporaryDirectory() as folder:
        trainer(out=folder).fit(numbers(40, 5), classes(3, 40), resume=RANK != 1)


def other_out() -> None:
    with tempfile.TemporaryDirectory() as folder:
        trainer(out=folder if RANK == 0 else None).fit(numbers(40, 5), classes(3, 40))


def other_validation() -> None:
    trainer().fit(numbers(40, 5), classes(3, 40), validation=(numbers(9, 5), classes(3, 9)) if RANK else None)


def copy_of_data(count: int = 40, seed: int = 0) -> Any:
    """Every rank has a copy of its own, as nodes have."""
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "x.npy", numbers(count, 5, seed=seed))
        return nn.sources.open_npy(Path(folder) / "x.npy")


def other_file() -> None:
    trainer().fit(copy_of_data(seed=RANK == 1), classes(3, 40))


def shorter_file() -> None:
    trainer().fit(copy_of_data(40 - (RANK == 1)), classes(3, 40))


def shorter_data() -> None:
    count = 40 - (RANK == 1)
    trainer().fit(copy_of_data(count), classes(3, 40)[:count])


def drifting_weights() -> None:
    """Something makes the weights of rank 1 others than those of rank 0."""

    class Drift(nn.Callback):
        def on_epoch(self, trainer: Any, record: Any) -> None:
            if record["epoch"] == 2 and RANK == 1:
                trainer.network.state_dict()["0.bias"][0] += 1e-6

    folder = MPI.COMM_WORLD.bcast(tempfile.mkdtemp() if RANK == 0 else None)
    try:
        trainer(out=folder).fit(numbers(64, 5), classes(3, 64), epochs=3, callbacks=[Drift()])
    finally:
        assert [path.name for path in Path(folder).glob("checkpoint-*")] == ["checkpoint-000000002.safetensors"]


def lonely_callback() -> str:
    """Which only rank 0 has; it is asked for at every step, and stops all ranks."""

    class Stop(nn.Callback):
        def on_step(self, trainer: Any, step: Any) -> None:
            if step["step"] == 2:
                trainer.stop("it is time")

    history = trainer().fit(numbers(96, 5), classes(3, 96), epochs=2, callbacks=[Stop()] if RANK == 0 else [])
    return f"stopped after {len(history)} epochs"


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


def another_transport() -> None:
    nn.distributed.Communicator(transport="bfloat16")  # type: ignore[call-arg]


if __name__ == "__main__":
    for name in sys.argv[1:]:
        told = "nothing"
        try:
            told = globals()[name]() or told
        except Exception as error:
            told = f"{type(error).__name__}: {error}"
        everyone = MPI.COMM_WORLD.gather(told)
        if everyone is not None:
            print(json.dumps([name, everyone]), flush=True)
