"""How training scales over ranks: a cost model, its constants measured here, a check by simulation, and predictions.

python benchmarks/scaling.py                  all of it: constants, model against measured, predictions
python benchmarks/scaling.py --quick          fewer steps and links
python benchmarks/scaling.py --json FILE      every number
python benchmarks/scaling.py --exclusive      while steps are measured, others hardly run (highest priority, needs root)

The check trains on hosts that are network namespaces of this machine, joined by slow links (slow_link.py, needs root).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import slow_link
from mpi import mpiexec
from slow_link import Link

CLASSES = 10
LINKS = (Link(125e6, 0.0002), Link(125e6, 0.002), Link(500e6, 0.0005))
NODES, CORES = (8, 64, 512), 32
FABRICS = {
    "25 Gbit/s Ethernet, TCP": (3.1e9, 25e-6, 3e-6),
    "200 Gbit/s InfiniBand": (25e9, 2e-6, 0.5e-6),
}  # bytes per second, seconds from end to end, seconds per message of a processor
_EXCLUSIVE = "OPENBNNS_BENCHMARK_EXCLUSIVE"
_ITEM = 4  # bytes of a gradient


# The model.


@dataclass(frozen=True)
class Costs:
    """The costs of one network on one rank with one thread: seconds of a step = step + shards * shard + samples * sample."""

    parameters: int
    buckets: int
    sample: float
    shard: float
    step: float
    backward: float  # share of the passes
    serial: float  # share of the passes that a second thread does not speed up

    def compute(self, samples: int, shards: int, threads: int = 1, crowd: float = 1.0) -> float:
        """Seconds of a step without messages. ``crowd`` is how many ranks share a core."""
        passes = samples * self.sample + shards * self.shard
        return crowd * (passes * (self.serial + (1 - self.serial) / threads) + self.step)


@dataclass(frozen=True)
class Fabric:
    """The connection between ranks."""

    rate: float  # bytes per second, each way
    latency: float  # seconds from one rank to another
    message: float  # seconds of the processor for a message


@dataclass(frozen=True)
class Prediction:
    """Seconds of a step."""

    compute: float
    summing: float
    transfer: float
    latency: float
    hidden: float

    @property
    def step(self) -> float:
        return self.compute + self.summing + self.transfer + self.latency - self.hidden


def predict(
    costs: Costs, ranks: int, samples: int, shards: int, fabric: Fabric, sum_rate: float, *, threads: int = 1,
    crowd: float = 1.0, overlap: float = 1.0,
) -> Prediction:  # fmt: skip
    """A step in which every rank has so many samples in so many shards; ranks and shards are powers of two.

    Gradients are cut into buckets. Each is sent twice, by (R - 1) / R of its size: chunks to their ranks, and sums to all.
    Buckets are on their way while the backward pass of the last shard runs, of which ``overlap`` counts; the last bucket leaves
    too late for that.
    """
    compute = costs.compute(samples, shards, threads, crowd)
    if ranks == 1:
        return Prediction(compute, 0.0, 0.0, 0.0, 0.0)
    size = _ITEM * costs.parameters
    summing = crowd * size * (1 + 1 / ranks) / sum_rate
    transfer = 2 * (ranks - 1) / ranks * size / fabric.rate
    doubling = math.ceil(math.log2(ranks))
    messages = costs.buckets * 2 * (ranks - 1) + 2 * doubling
    latency = (2 + 2 * doubling) * fabric.latency + crowd * messages * fabric.message
    passes = crowd * (samples * costs.sample / shards + costs.shard) * (costs.serial + (1 - costs.serial) / threads)
    hidden = overlap * min(passes * costs.backward, (transfer + summing) * (1 - 1 / costs.buckets))
    return Prediction(compute, summing, transfer, latency, hidden)


# What is measured, in jobs of MPI: ``mpiexec -n 2 python benchmarks/scaling.py --rank steps '{...}'``.


def _networks() -> dict[str, tuple[Callable[[], Any], tuple[int, ...], int]]:
    """Makers of networks, shapes of samples, and the usual batch of a core."""
    from openbnns import nn

    def vgg() -> Any:
        return nn.Sequential(
            nn.Conv2d(64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(128, 3, padding=1), nn.ReLU(), nn.Conv2d(128, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(CLASSES),
        )  # fmt: skip

    def transformer() -> Any:
        layers = [nn.TransformerEncoderLayer(256, 8, dim_feedforward=1024, dropout=0.0) for _ in range(2)]
        return nn.Sequential(*layers, nn.Flatten(), nn.Linear(CLASSES))

    def mlp() -> Any:
        return nn.Sequential(nn.Linear(1024), nn.ReLU(), nn.Linear(1024), nn.ReLU(), nn.Linear(CLASSES))

    return {
        "VGG-like CNN, 32x32": (vgg, (3, 32, 32), 16),
        "transformer, 2 layers, d256, T64": (transformer, (64, 256), 8),
        "MLP 784-1024-1024-10": (mlp, (784,), 64),
    }


@contextmanager
def _undisturbed(alone: bool = True) -> Iterator[None]:
    """Keep others off the cores, if that was asked for; threads that begin meanwhile have the same right.

    Ranks that are not alone get high priority only: with real-time scheduling, those that wait for messages would keep the
    kernel from delivering them.
    """
    if not os.environ.get(_EXCLUSIVE):
        yield
    elif alone:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
        try:
            yield
        finally:
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    else:
        _set_priority(-20)
        try:
            yield
        finally:
            _set_priority(0)


def _set_priority(nice: int) -> None:
    """Set the priority of this process with all its threads: by session, where the system schedules by sessions."""
    group = Path("/proc/self/autogroup")
    if group.exists():
        group.write_text(str(nice))
    else:
        os.setpriority(os.PRIO_PROCESS, 0, nice)


def steps(name: str, batch: int, shards: int, rounds: int) -> dict[str, Any]:
    """Steps of one network; seconds of each, of the rank that took longest."""
    from mpi4py import MPI

    from openbnns import nn

    make, sample, _ = _networks()[name]
    times: list[float] = []

    class Clock(nn.Callback):
        def on_step(self, trainer: Any, step: Any) -> None:
            times.append(perf_counter())

    random = np.random.RandomState(0)
    count = batch * (rounds + 3)
    x = np.broadcast_to(random.standard_normal((1, *sample)).astype(np.float32), (count, *sample))
    y = random.randint(0, CLASSES, count)
    trainer = nn.Trainer(make(), "cross_entropy", "adam", batch_size=batch, quiet=True, distributed=True, shards=shards)
    trainer.network.build(sample, seed=0)
    with _undisturbed(alone=MPI.COMM_WORLD.Get_size() == 1):
        history = trainer.fit(x, y, epochs=1, callbacks=[Clock()])
    slowest = np.max(MPI.COMM_WORLD.allgather(np.diff(times)[2:]), axis=0)
    phases = history[-1]["phase_seconds"]
    comm = trainer.distributed
    assert comm is not None
    parameters = sum(p.size for p in trainer.network.parameters())
    return {
        "times": slowest.tolist(), "parameters": parameters, "ranks": history[-1]["ranks"],
        "buckets": max(1, len(comm.buckets_of(-(-parameters // 1024) * 1024))),
        "backward": phases["backward"] / (phases["forward"] + phases["backward"]), "update": phases["step"] / (rounds + 3),
    }  # fmt: skip


def link(rounds: int) -> dict[str, float]:
    """The link between ranks 0 and 1: latency and rate from messages to and fro, cost of a message from many at once."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    rank, other = comm.Get_rank(), 1 - comm.Get_rank()
    small, large, burst = np.zeros(1), np.zeros(1 << 20, np.float32), 64

    def to_and_fro(data: Any) -> float:
        comm.Barrier()
        if rank > 1:
            return 0.0
        began = perf_counter()
        if rank == 0:
            comm.Send(data, other)
            comm.Recv(data, other)
        else:
            comm.Recv(data, other)
            comm.Send(data, other)
        return (perf_counter() - began) / 2

    def both_ways() -> float:
        """As the exchange does: data go both ways at the same time."""
        back = np.empty_like(large)
        comm.Barrier()
        if rank > 1:
            return 0.0
        began = perf_counter()
        comm.Sendrecv(large, other, 0, back, other, 0)
        return perf_counter() - began

    def many() -> float:
        comm.Barrier()
        if rank > 1:
            return 0.0
        data = np.zeros((2, burst))
        began = perf_counter()
        requests = [comm.Irecv(data[1, i : i + 1], other, i) for i in range(burst)]
        requests += [comm.Isend(data[0, i : i + 1], other, i) for i in range(burst)]
        MPI.Request.Waitall(requests)
        return perf_counter() - began

    with _undisturbed(alone=False):
        for call in (lambda: to_and_fro(small), both_ways, many):
            call()
        latency = min(to_and_fro(small) for _ in range(10 * rounds))
        whole = statistics.median(both_ways() for _ in range(rounds))
        message = max(min(many() for _ in range(rounds)) - latency, 0.0) / (2 * burst)
    return {"latency": latency, "rate": large.nbytes / max(whole - latency, 1e-9), "message": message}


def sums(rounds: int) -> dict[str, float]:
    """Bytes per second that the sum over two parts reads, one of them from memory."""
    from openbnns.distributed.tree_sums import sum_in_tree

    size = 1 << 22
    parts, out = [np.ones(size, np.float32) for _ in range(2)], np.empty(size, np.float32)
    times = []
    with _undisturbed():
        for _ in range(rounds + 1):
            began = perf_counter()
            sum_in_tree(out, parts, [0, 1])
            times.append(perf_counter() - began)
    return {"rate": 2 * parts[0].nbytes / statistics.median(times[1:])}


WORK = {"steps": steps, "link": link, "sums": sums}


# Starting jobs.


@contextmanager
def _alone(ranks: int) -> Iterator[list[str]]:
    yield [mpiexec(), "-n", str(ranks)]


def _job(launcher: list[str], what: str, threads: int = 1, **arguments: Any) -> dict[str, Any]:
    command = [*launcher, sys.executable, __file__, "--rank", what, json.dumps(arguments)]
    environment = {**os.environ, "OPENBNNS_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stderr}")
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def _best(measured: dict[str, Any]) -> float:
    """Seconds of an undisturbed step: the mean of the fastest quarter."""
    times = sorted(measured["times"])
    return statistics.mean(times[: max(1, len(times) // 4)])


def measure_costs(name: str, rounds: int) -> Costs:
    """Fit the model to steps of one rank with other numbers of samples and shards."""
    batch = _networks()[name][2]
    shapes = [(batch, 1), (batch, 2), (batch // 2, 1), (2 * batch, 2), (2 * batch, 4)]
    with _alone(1) as launcher:
        jobs = [_job(launcher, "steps", name=name, batch=n, shards=s, rounds=rounds) for n, s in shapes]
        # Alternately, and the best of each: half the time of one thread is much to ask for on a machine that others use.
        by_threads = [
            [
                _best(_job(launcher, "steps", threads=t, name=name, batch=2 * batch, shards=2, rounds=rounds))
                for t in (1, 2)
            ]
            for _ in range(2)
        ]
    step = min(one["update"] for one in jobs)
    times = np.array([_best(one) - step for one in jobs])
    # By relative errors, so that small steps count as much as large ones.
    rows = np.array(shapes) / times[:, None]
    sample, shard = (max(float(v), 0.0) for v in np.linalg.lstsq(rows, np.ones(len(rows)), rcond=None)[0])
    one_thread, two_threads = (min(times) - step for times in zip(*by_threads, strict=True))
    serial = min(max(2 * two_threads / one_thread - 1, 0.0), 1.0)
    backward = statistics.median(one["backward"] for one in jobs)
    return Costs(jobs[0]["parameters"], jobs[0]["buckets"], sample, shard, step, backward, serial)


def check(costs: dict[str, Costs], sum_rate: float, quick: bool, rounds: int) -> list[dict[str, Any]]:
    """The model against training on hosts with slow links, on two ranks and on four, and on this machine as it is."""
    cases: list[tuple[int, Link | None]] = [(2, None), *((2, link) for link in LINKS)]
    if not quick:
        cases.append((4, LINKS[0]))
    rows = []
    for ranks, slow in cases:
        with _alone(ranks) if slow is None else slow_link.hosts(ranks, slow) as launcher:
            fabric = Fabric(**_job(launcher, "link", rounds=rounds))
            for name, of in costs.items():
                samples = _networks()[name][2]
                crowd = max(1.0, ranks / len(os.sched_getaffinity(0)))
                shards = 2  # of each rank
                told = _job(launcher, "steps", name=name, batch=ranks * samples, shards=ranks * shards, rounds=rounds)
                most = predict(of, ranks, samples, shards, fabric, sum_rate, crowd=crowd, overlap=0.0)
                least = predict(of, ranks, samples, shards, fabric, sum_rate, crowd=crowd)
                rows.append(
                    {
                        "network": name, "ranks": ranks, "link": "shared memory" if slow is None else str(slow),
                        "measured": _best(told), "without_overlap": most.step, "with_overlap": least.step,
                        "fabric": asdict(fabric), **asdict(least),
                    }
                )  # fmt: skip
    return rows


def foresee(costs: dict[str, Costs], sum_rate: float) -> list[dict[str, Any]]:
    """Clusters of nodes with one rank and 32 threads each: a batch that grows with them, and one that stays."""
    rows = []
    for name, of in costs.items():
        usual = CORES * _networks()[name][2]
        for fabric, numbers in FABRICS.items():
            for nodes in NODES:
                row: dict[str, Any] = {"network": name, "fabric": fabric, "nodes": nodes}
                for kind, samples in (("weak", usual), ("strong", max(1, 8 * usual // nodes))):
                    whole = nodes * samples
                    one = predict(of, 1, whole, nodes, Fabric(*numbers), sum_rate, threads=CORES).step
                    step = predict(of, nodes, samples, 1, Fabric(*numbers), sum_rate, threads=CORES)
                    row[kind] = {
                        "batch": whole, "step": step.step, "compute": step.compute, "efficiency": one / nodes / step.step,
                    }  # fmt: skip
                rows.append(row)
    return rows


# Printing.


def _print_costs(costs: dict[str, Costs], sum_rate: float) -> None:
    print("\nConstants, measured on one rank with one thread")
    print(
        f"{'network':34s} {'parameters':>10s} {'buckets':>7s} {'sample':>9s} {'shard':>9s} {'step':>9s} {'serial':>6s}"
    )
    for name, of in costs.items():
        times = " ".join(f"{1e3 * t:6.3f} ms" for t in (of.sample, of.shard, of.step))
        print(f"{name:34s} {of.parameters:10,d} {of.buckets:7d} {times} {of.serial:6.1%}")
    print(f"sum of two parts: {sum_rate / 1e9:.1f} GB/s read")


def _print_check(rows: list[dict[str, Any]]) -> None:
    print("\nModel against measured: milliseconds of a step, one thread per rank")
    print(
        f"{'network':34s} {'ranks':>5s} {'link':20s} {'as measured':>28s} {'compute':>8s} {'no overlap':>10s} "
        f"{'overlap':>8s} {'measured':>8s} {'error':>6s}"
    )
    for row in rows:
        fabric = row["fabric"]
        told = f"{fabric['rate'] / 1e6:5.0f} MB/s {1e6 * fabric['latency']:5.0f} us {1e6 * fabric['message']:4.1f} us"
        near = min(max(row["measured"], row["with_overlap"]), row["without_overlap"])
        numbers = [1e3 * row[key] for key in ("compute", "without_overlap", "with_overlap", "measured")]
        print(
            f"{row['network']:34s} {row['ranks']:5d} {row['link']:20s} {told:>28s} {numbers[0]:8.1f} {numbers[1]:10.1f} "
            f"{numbers[2]:8.1f} {numbers[3]:8.1f} {row['measured'] / near - 1:+6.0%}"
        )
    print("error: of the nearer end of what the model allows, all of the overlap or none")


def _print_predictions(rows: list[dict[str, Any]]) -> None:
    print(f"\nPredicted, not measured: nodes of {CORES} cores with one rank each")
    print(
        f"{'network':34s} {'fabric':24s} {'nodes':>5s} {'batch':>8s} {'step':>9s} {'efficiency':>10s} {'fixed batch':>11s} "
        f"{'step':>9s} {'efficiency':>10s}"
    )
    for row in rows:
        cells = "".join(
            f" {row[kind]['batch']:{width},d} {1e3 * row[kind]['step']:6.1f} ms {row[kind]['efficiency']:10.0%}"
            for kind, width in (("weak", 8), ("strong", 11))
        )
        print(f"{row['network']:34s} {row['fabric']:24s} {row['nodes']:5d}{cells}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--exclusive", action="store_true")
    parser.add_argument("--rank", nargs=2, metavar=("WORK", "ARGUMENTS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank:
        from mpi4py import MPI

        told = WORK[options.rank[0]](**json.loads(options.rank[1]))
        if MPI.COMM_WORLD.Get_rank() == 0:
            print(json.dumps(told))
        return
    if options.exclusive:
        os.environ[_EXCLUSIVE] = "1"
    rounds = 16 if options.quick else 40
    with _alone(1) as launcher:
        sum_rate = _job(launcher, "sums", rounds=rounds)["rate"]
    costs = {name: measure_costs(name, rounds) for name in _networks()}
    _print_costs(costs, sum_rate)
    checked: list[dict[str, Any]] = []
    if slow_link.available():
        checked = check(costs, sum_rate, options.quick, rounds)
        _print_check(checked)
    else:
        print("\nNo check: slow links between hosts on this machine need root and /dev/net/tun.")
    predictions = foresee(costs, sum_rate)
    _print_predictions(predictions)
    if options.json:
        whole = {
            "costs": {name: asdict(of) for name, of in costs.items()}, "sum_rate": sum_rate, "check": checked,
            "predictions": predictions,
        }  # fmt: skip
        options.json.write_text(json.dumps(whole, indent=1))


if __name__ == "__main__":
    main()
