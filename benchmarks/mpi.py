"""Training on several ranks: the exchange of gradients against MPI's own all-reduce, whole steps, and what overlap hides.

Every measurement is a job of its own: ``mpiexec -n 2 python benchmarks/mpi.py times.json exchange 41`` writes what it found.
Within a job the sides take turns, and the shortest time of each counts: what else runs on the machine only ever adds to it.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, sleep
from typing import Any

import numpy as np

import limited_link
import two_hosts
from harness import Figure, Settings

ELEMENTS = 10_000_000  # 40 MB of gradients
BATCH = 64
Times = dict[str, list[float]]  # seconds, by side


def figures() -> dict[str, Callable[[Settings], Figure]]:
    """Measurements by name; none where there is no MPI, and none with two hosts where they cannot be made."""
    if find_spec("mpi4py") is None:
        return {}
    exchange, steps = "mpi/exchange of 40 MB on", "mpi/VGG-like step, 2 ranks with 1 thread,"
    made: dict[str, Callable[[Settings], Figure]] = {
        f"{exchange} 2 ranks, in local copies": partial(_exchange, 2, "shared", "copy", 2.6),
        f"{exchange} 2 ranks, of MPI's all-reduce": partial(_exchange, 2, "shared", "all-reduce", 0.8),
        f"{exchange} 2 ranks by messages, of MPI's all-reduce": partial(_exchange, 2, "messages", "all-reduce", None),
        f"{exchange} 4 ranks, of MPI's all-reduce": partial(_exchange, 4, "shared", "all-reduce", None),
        f"{steps} of 1 rank with 2": partial(_steps, "one rank", 1.10),
        f"{steps} of training without shards": partial(_steps, "no shards", None),
    }
    hidden = "mpi/VGG-like step, share of the exchange that overlap hides"
    for rate, target in ((1.0, 0.5), (0.1, None)):
        if two_hosts.available():
            made[f"{hidden}, two hosts, {rate} GB/s"] = partial(_overlap, two_hosts.two_hosts, rate, target)
        made[f"{hidden}, limited card, {rate} GB/s"] = partial(_overlap, None, rate, target)
    return {name: partial(_named, name, measure) for name, measure in made.items()}


def _named(name: str, measure: Callable[[Settings], Figure], settings: Settings) -> Figure:
    figure = measure(settings)
    figure.name = name
    return figure


def _job(start: Sequence[str], what: str, rounds: int, *more: str) -> Times:
    """The times come in a file: a launcher may cut long lines of output, or put another rank's between them."""
    environment = {name: value for name, value in os.environ.items() if name != "OPENBNNS_NUM_THREADS"}
    with TemporaryDirectory() as folder:
        answer = Path(folder, "times.json")
        command = [*start, sys.executable, __file__, str(answer), what, str(rounds), *more]
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}\n{done.stderr}")
        times: Times = json.loads(answer.read_text())
    return times


def mpiexec() -> str:
    """The mpiexec of Python's environment, or else of the machine."""
    beside = Path(sys.executable).with_name("mpiexec")
    program = str(beside) if beside.exists() else shutil.which("mpiexec")
    if program is None:
        raise RuntimeError("mpi4py is here, but no mpiexec. Install one: pip install mpich")
    return program


def _here(ranks: int) -> list[str]:
    return [mpiexec(), "-n", str(ranks)]


def _told(times: Times) -> str:
    shown = (f"{k} {1000 * min(v):.1f} ms (median {1000 * statistics.median(v):.1f})" for k, v in times.items())
    return ", ".join(shown)


def _exchange(ranks: int, way: str, other: str, target: float | None, settings: Settings) -> Figure:
    times = _job(_here(ranks), "exchange", 41 if settings.seconds >= 1 else 11)
    return Figure("", min(times[way]) / min(times[other]), "x", target, at_most=True, note=_told(times))


def _steps(other: str, target: float | None, settings: Settings) -> Figure:
    times = _job(_here(2), "steps", 5 if settings.seconds >= 1 else 2)
    note = f"{_told(times)}, batch {BATCH}"
    return Figure("", min(times["two ranks"]) / min(times[other]), "x", target, at_most=True, note=note)


def _overlap(hosts: Any, gigabytes: float, target: float | None, settings: Settings) -> Figure:
    """``hosts`` makes hosts with a limit between them; without, messages of this host are kept waiting."""
    rounds, rate = 60 if settings.seconds >= 1 else 15, round(1e9 * gigabytes)
    with nullcontext(_here(2)) if hosts is None else hosts(rate) as start:
        times = _job(start, "overlap", rounds, *([str(rate)] if hosts is None else []))
    hidden = min(times["without overlap"]) - min(times["with overlap"])
    note = f"{_told(times)}, 2 ranks with 1 thread, last of 16 shards, batch {BATCH}"
    return Figure("", hidden / min(times["exchange"]), "x", target, note=note)


# What a rank does.


def _alternate(comm: Any, calls: dict[str, Callable[[], object]], rounds: int) -> Times:
    """The times of each call, of the rank that took longest."""
    times: Times = {name: [] for name in calls}
    for call in 2 * list(calls.values()):
        call()
    for _ in range(rounds):
        for name, call in calls.items():
            comm.Barrier()
            began = perf_counter()
            call()
            times[name].append(max(comm.allgather(perf_counter() - began)))
    return times


def _summing(comm: Any, size: int, buckets: Sequence[tuple[int, int]] = ()) -> Callable[[], None]:
    """The exchange of a vector of so many numbers, all of it at once."""
    from openbnns.distributed.exchange import Exchange
    from openbnns.distributed.shards import Shards

    buckets = buckets or comm.buckets_of(size)
    exchange = Exchange(comm, Shards(16, comm.size, comm.rank), size, buckets)

    def run() -> None:
        for _ in buckets:
            exchange.start()
        exchange.finish()

    return run


def exchange(rounds: int) -> Times:
    from mpi4py import MPI

    from openbnns import nn
    from openbnns.distributed.tree_sums import BLOCK

    size = ELEMENTS // BLOCK * BLOCK
    theirs, source, target = (np.zeros(size, np.float32) for _ in range(3))
    source.fill(1)
    target.fill(0)
    calls = {
        "shared": _summing(nn.distributed.Communicator(shared_memory=True), size),
        "messages": _summing(nn.distributed.Communicator(shared_memory=False), size),
        "all-reduce": lambda: MPI.COMM_WORLD.Allreduce(MPI.IN_PLACE, theirs),
        "copy": lambda: np.copyto(target, source),
    }
    return _alternate(MPI.COMM_WORLD, calls, rounds)


def _network() -> Any:
    from openbnns import nn

    return nn.Sequential(
        nn.Conv2d(64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(128, 3, padding=1), nn.ReLU(), nn.Conv2d(128, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(10),
    )  # fmt: skip


def _data(steps: int) -> tuple[Any, Any]:
    random = np.random.RandomState(0)
    x, y = random.standard_normal((BATCH, 3, 32, 32)).astype(np.float32), random.randint(0, 10, BATCH)
    return np.tile(x, (steps, 1, 1, 1)), np.tile(y, steps)


def steps(rounds: int) -> Times:
    """Steps of two ranks with a thread each, of one rank with two threads, and of a trainer without shards."""
    from mpi4py import MPI

    import openbnns
    from openbnns import nn

    class Clock(nn.Callback):
        def __init__(self) -> None:
            self.times: list[float] = []

        def on_step(self, trainer: Any, step: Any) -> None:
            self.times.append(perf_counter())

    def trainer(comm: Any) -> nn.Trainer:
        return nn.Trainer(_network(), "cross_entropy", "adam", batch_size=BATCH, quiet=True, distributed=comm)

    x, y = _data(8)
    both, alone = nn.distributed.Communicator(), nn.distributed.Communicator(MPI.COMM_SELF)
    sides = {"two ranks": trainer(both), "one rank": trainer(alone), "no shards": trainer(None)}
    times: Times = {name: [] for name in sides}
    for _ in range(rounds):
        for name, side in sides.items():
            if both.rank == 0 or side.distributed is both:
                clock = Clock()
                openbnns.set_num_threads(1 if side.distributed is both else 2)
                side.fit(x, y, epochs=1, callbacks=[clock])
                times[name] += np.diff(clock.times)[2:].tolist()
            waiting = MPI.COMM_WORLD.Ibarrier()
            while not waiting.Test():
                sleep(0.002)  # and leave the cores to the others
    return times


def overlap(rounds: int, rate: str = "") -> Times:
    """Ends of a step that sends gradients while the backward pass runs, or after it, and the exchange alone.

    An end begins, on both ranks at once, with the backward pass of the last shard, which is where overlap makes a difference,
    and is over when the sums are there. It is repeated, in turns, within one step.
    """
    from mpi4py import MPI

    import openbnns
    from openbnns import nn
    from openbnns.distributed import training_run
    from openbnns.distributed.training_step import ShardedPasses

    if rate:
        limited_link.limit(float(rate))
    comm = nn.distributed.Communicator(shared_memory=False)
    openbnns.set_num_threads(1)
    times: Times = {}

    class Repeated(ShardedPasses):
        def _finish(self, *arguments: Any) -> None:
            def end(overlap: bool) -> None:
                comm.overlap = overlap
                super(Repeated, self)._finish(*arguments)
                self._wait()

            sides = {"with overlap": partial(end, True), "without overlap": partial(end, False)}
            alone = {"exchange": _summing(comm, self.gradients.length, self.gradients.buckets)}
            times.update(_alternate(MPI.COMM_WORLD, sides | alone, rounds))
            super()._finish(*arguments)

    training_run.ShardedPasses = Repeated  # type: ignore[misc]
    trainer = nn.Trainer(_network(), "cross_entropy", "adam", batch_size=BATCH, quiet=True, distributed=comm)
    trainer.fit(*_data(1), epochs=1)
    return times


if __name__ == "__main__":
    from mpi4py import MPI

    jobs: dict[str, Callable[..., Times]] = {"exchange": exchange, "steps": steps, "overlap": overlap}
    answer, what, rounds, *more = sys.argv[1:]
    measured = jobs[what](int(rounds), *more)
    if MPI.COMM_WORLD.Get_rank() == 0:
        Path(answer).write_text(json.dumps(measured))
