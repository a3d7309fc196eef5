"""``openbnns bench``: how fast a model, or a few usual networks, run here; beside PyTorch and JAX if they are installed."""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from . import bench_jax, bench_torch
from .arguments import OK, Commands, add_output, count, print_json, rate
from .bench_peak import HOW, Peak

CASES: dict[str, tuple[tuple[int, ...], int]] = {
    "mlp": ((784,), 64),
    "cnn": ((3, 32, 32), 64),
    "transformer": ((32, 64), 32),
}
"""The built-in networks, with the shape of a sample and the size of a batch."""

KINDS = ("inference", "training")
PEERS = {"torch": ("PyTorch", bench_torch.convert), "jax": ("JAX", bench_jax.convert)}
"""Packages to compare with, by the names of their modules."""

_TOLERANCE = 1e-3  # of outputs, as a fraction of the largest


def add(commands: Commands) -> None:
    bench = commands.add_parser(
        "bench", help="how fast a model, or a few usual networks, run here",
        description="Time inference and training steps on random samples, beside PyTorch and JAX if they are installed (same "
        "layers and weights, same batch, as many threads, in turns; JAX jitted as a whole). Times are those of the fastest call. "
        "Share of peak: the arithmetic of all layers in a second, of what multiply-adds on registers do, which is measured here; "
        "methods that save multiplications can take it above 100 percent. make bench in the repository compares every operation.",
        examples=(
            "openbnns bench                                  # mlp, cnn and transformer",
            "openbnns bench cnn --batch-size 1",
            "openbnns bench mlp --peers torch --threads 1",
            "openbnns bench out/model.safetensors --json     # machine, versions, peak, and every number",
        ),
    )  # fmt: skip
    bench.add_argument(
        "what", nargs="*", metavar="WHAT", help=f"a model file, or of {', '.join(CASES)} (default: all of these)"
    )
    bench.add_argument("--batch-size", type=count, default=None, help="samples at a time (default: 64, or 32)")
    bench.add_argument("--seconds", type=rate, default=1.0, help="how long to time each of them (default: 1)")
    bench.add_argument("--threads", type=count, default=None, help="worker threads (default: one per core)")
    bench.add_argument(
        "--peers", nargs="*", choices=list(PEERS), default=list(PEERS), metavar="PEER",
        help="compare with these: torch, jax (default: both); without a name, with none",
    )  # fmt: skip
    add_output(bench)
    bench.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from .. import get_num_threads, set_num_threads
    from .._spelling import nearest
    from ..engines import NATIVE, current
    from ..report.machine import describe

    if options.threads is not None:
        set_num_threads(options.threads)
    for name in options.what:
        if name not in CASES and not Path(name).exists():
            raise ValueError(f"there is no case and no file {name!r}.{nearest(name, CASES)} Cases: {', '.join(CASES)}.")
    names = options.what or list(CASES)
    peak = Peak(get_num_threads()).gflops() if current() == NATIVE else None
    shows = not options.quiet and not options.json
    if shows:
        _show_head(names, options.peers, peak)
    results = []
    for name in names:
        results.append(_case(name, options, peak))
        if shows:
            print(_row(results[-1], max(map(len, (*names, "network"))), options.peers), flush=True)
    busy = _busy()
    if options.json:
        print_json({
            "machine": describe(), "threads": get_num_threads(), "peak_gflops": peak,
            "peak_measured_by": None if peak is None else HOW, "notes": [busy] if busy else [], "cases": results,
        })  # fmt: skip
    elif busy and shows:
        print(f"Note: {busy}")
    return OK


def _show_head(names: Sequence[str], peers: Sequence[str], peak: float | None) -> None:
    if peak is not None:
        print(f"peak {peak:.0f} GFLOP/s: {HOW}")
    width = max(map(len, (*names, "network")))
    beside = " and ".join(PEERS[name][0] for name in peers)
    asked = f"  times as fast as {beside}" if beside else ""
    print(
        f"{'network':{width}s} {'batch':>5s}  {'inference':>12s} {'of peak':>8s}  {'training':>12s} {'of peak':>8s}{asked}"
    )


def _row(found: dict[str, Any], width: int, peers: Sequence[str]) -> str:
    parts = [f"{found['name']:{width}s} {found['batch_size']:5d}"]
    for kind in KINDS:
        share = found.get(f"{kind}_share_of_peak")
        parts.append(f"{1e3 * found[f'{kind}_seconds']:9.3f} ms {'' if share is None else f'{share:.1%}':>8s}")
    beside = [
        " and ".join(f"{found[f'{kind}_against_{peer}']:.2f}" for kind in KINDS)
        if f"training_against_{peer}" in found
        else str(found[f"without_{peer}"])
        for peer in peers
    ]
    return "  ".join([*parts, "; ".join(beside)]).rstrip()


def _busy() -> str:
    """A remark if other programs take the processor, which upsets times, those of PyTorch's threads most of all."""
    try:
        load, cores = os.getloadavg()[0], len(os.sched_getaffinity(0))
    except (AttributeError, OSError):  # not on every system
        return ""
    return (
        f"the machine is busy (load {load:.1f} on {cores} cores), so that times say little." if load > cores + 1 else ""
    )


def _case(name: str, options: argparse.Namespace, peak: float | None) -> dict[str, Any]:
    import numpy as np

    from .. import nn
    from ..nn.files.model_file import input_shapes

    if name in CASES:
        shape, usual = CASES[name]
        network: Any = nn.models.NAMED[name](10).build(shape, seed=0)
        task = "classification"
    else:
        network = nn.load_model(name)
        shape, usual, task = input_shapes(network)[0], 64, network.model_card.task or "regression"
    batch = options.batch_size or usual
    random = np.random.RandomState(0)
    x = random.standard_normal((batch, *shape)).astype(np.float32)
    outputs = network.eval()(x)
    y = random.randint(0, outputs.shape[1], batch) if task == "classification" else _some_like(outputs, task, random)
    found: dict[str, Any] = {"name": name, "batch_size": batch, "parameters": sum(p.size for p in network.parameters())}
    rivals: dict[str, Any] = {"": _Ours(network, x)}
    for peer in options.peers:
        rival = _rival(peer, network, x, outputs)
        if isinstance(rival, str):
            found[f"without_{peer}"] = rival
        else:
            rivals[peer] = rival
            found[f"{peer}_version"] = _version(peer)
    makers: dict[str, Callable[[Any], Any]] = {
        "inference": lambda r: r.inference(),
        "training": lambda r: r.training(y, task),
    }
    for kind, make in makers.items():
        times = dict(zip(rivals, _times([make(rival) for rival in rivals.values()], options.seconds), strict=True))
        found[f"{kind}_seconds"] = times[""]
        work = found[f"{kind}_flop"] = _arithmetic(network, x, training=kind == "training")
        if peak is not None:
            found[f"{kind}_share_of_peak"] = work / times[""] / 1e9 / peak
        for peer in list(rivals)[1:]:
            found |= {f"{peer}_{kind}_seconds": times[peer], f"{kind}_against_{peer}": times[peer] / times[""]}
    return found


def _some_like(outputs: Any, task: str, random: Any) -> Any:
    """Targets for outputs: labels of 0 and 1, or numbers."""
    import numpy as np

    drawn = random.standard_normal(outputs.shape).astype(np.float32)
    return (drawn > 0).astype(np.float32) if task == "multilabel" else drawn


def _arithmetic(network: Any, x: Any, *, training: bool) -> int:
    """Floating-point operations of its layers, forward, and backward in training."""
    network.train(training)
    return sum(row.forward_flop + row.backward_flop for row in network.profile(x, repeats=1).rows)


def _rival(peer: str, network: Any, x: Any, outputs: Any) -> Any:
    """The same network of a peer, or why there is none; it has to give the same outputs."""
    import numpy as np

    from .. import get_num_threads

    rival = PEERS[peer][1](network, x, get_num_threads())
    if isinstance(rival, str):
        return rival
    theirs = np.asarray(rival.inference()())
    error = float(np.abs(theirs - outputs).max() / max(1e-6, np.abs(outputs).max()))
    return rival if error <= _TOLERANCE else f"not compared: its outputs differ by {error:.1e}"


def _version(package: str) -> str:
    from importlib.metadata import version

    return version(package)


def _times(functions: Sequence[Callable[[], object]], seconds: float) -> list[float]:
    """The fastest call of each, over about so many seconds each; they take turns, so that all see the same machine."""
    best = [math.inf] * len(functions)
    for function in functions:
        function()
    end, rounds = time.perf_counter() + seconds * len(functions), 0
    while time.perf_counter() < end or rounds < 3:
        rounds += 1
        for i, function in enumerate(functions):
            for _ in range(5):
                began = time.perf_counter()
                function()
                best[i] = min(best[i], time.perf_counter() - began)
    return best


class _Ours:
    """A network of this library, as a trainer and ``predict`` run it."""

    def __init__(self, network: Any, x: Any) -> None:
        self._network, self._x = network, x

    def inference(self) -> Callable[[], object]:
        self._network.eval()
        return lambda: self._network.run(self._x)

    def training(self, y: Any, task: str) -> Callable[[], object]:
        from .. import nn

        self._network.train()
        loss = {"classification": nn.CrossEntropyLoss, "multilabel": nn.BCEWithLogitsLoss}.get(task, nn.MSELoss)()
        step = self._network.compile_step(loss, nn.SGD(list(self._network.parameters()), lr=1e-4), len(self._x))
        return lambda: step(self._x, y)
