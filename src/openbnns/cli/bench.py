"""``openbnns bench``: the speed of a model, or of a few usual networks, on this machine, and its share of the peak."""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .. import engines
from . import model_formats
from .arguments import OK, Commands, add_output, count, print_json, rate

CASES: dict[str, tuple[tuple[int, ...], int]] = {
    "mlp": ((784,), 64),
    "cnn": ((3, 32, 32), 64),
    "transformer": ((32, 64), 32),
}
"""The built-in networks, with the shape of a sample and the size of a batch."""
KINDS = ("inference", "training")

HOW = "float32 multiply-adds on registers, one loop per thread"
"""The way the peak is measured, in words, for tables that show shares of it."""

_SECONDS = 0.005  # of a try
_TRIES = 3
_FIRST_TRIES = 30  # of a new peak: the first share is one of the same peak as the last


def add(commands: Commands) -> None:
    bench = commands.add_parser(
        "bench", help="how fast a model, or a few usual networks, run here",
        description="Time inference and training steps on random samples; times are those of the fastest call. Share of peak: "
        "the arithmetic of all layers per second, as a share of what multiply-adds on registers reach, measured as well; "
        "methods that save multiplications can exceed 100 percent. In the repository, benchmarks/model.py times the same beside "
        "PyTorch and JAX, and make bench every operation.",
        examples=(
            "openbnns bench                                  # mlp, cnn and transformer",
            "openbnns bench cnn --batch-size 1",
            "openbnns bench mlp --threads 1",
            "openbnns bench out/model.safetensors --json     # machine, versions, peak, and every number",
        ),
    )  # fmt: skip
    bench.add_argument(
        "what",
        nargs="*",
        metavar="WHAT",
        help=f"a model file, also of ONNX or Core ML, or of {', '.join(CASES)} (default: all of these)",
    )
    bench.add_argument("--batch-size", type=count, default=None, help="samples at a time (default: 64, or 32)")
    bench.add_argument("--seconds", type=rate, default=1.0, help="how long to time each of them (default: %(default)g)")
    model_formats.add_sizes(bench)
    bench.add_argument("--threads", type=count, default=None, help="worker threads (default: one per core)")
    add_output(bench)
    bench.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from .. import get_num_threads, set_num_threads
    from .._machine import describe
    from .._spelling import nearest

    if options.threads is not None:
        set_num_threads(options.threads)
    for name in options.what:
        if name not in CASES and not Path(name).exists():
            raise ValueError(f"there is no case and no file {name!r}.{nearest(name, CASES)} Cases: {', '.join(CASES)}.")
    names = options.what or list(CASES)
    peak = Peak(get_num_threads()).gflops() if engines.current() == engines.NATIVE else None
    shows = not options.quiet and not options.json
    width = max(map(len, (*names, "network")))
    if shows:
        if peak is not None:
            print(f"peak {peak:.0f} GFLOP/s: {HOW}")
        titles = "".join(f"  {kind:>12s} {'of peak':>8s}" for kind in KINDS)
        print(f"{'network':{width}s} {'batch':>5s}{titles}")
    results = []
    for name in names:
        results.append(measure(Case(name, options.batch_size, options.sizes), options.seconds, peak))
        if shows:
            print(_row(results[-1], width), flush=True)
    busy = _busy()
    if options.json:
        print_json({
            "machine": describe(), "threads": get_num_threads(), "peak_gflops": peak,
            "peak_measured_by": None if peak is None else HOW, "notes": [busy] if busy else [], "cases": results,
        })  # fmt: skip
    elif busy and shows:
        print(f"Note: {busy}")
    return OK


def _row(measured: dict[str, Any], width: int) -> str:
    parts = [f"{measured['name']:{width}s} {measured['batch_size']:5d}"]
    for kind in KINDS:
        share = measured.get(f"{kind}_share_of_peak")
        parts.append(f"{1e3 * measured[f'{kind}_seconds']:9.3f} ms {'' if share is None else f'{share:.1%}':>8s}")
    return "  ".join(parts).rstrip()


def _busy() -> str:
    """A warning if other programs keep the processor busy, so that times are unreliable."""
    try:
        load, cores = os.getloadavg()[0], len(os.sched_getaffinity(0))
    except (AttributeError, OSError):  # not on every system
        return ""
    return (
        f"the machine is busy (load {load:.1f} on {cores} cores), so that times say little." if load > cores + 1 else ""
    )


class Case:
    """A network with a batch of random samples and targets, as a trainer and ``predict`` run it."""

    def __init__(self, name: str, batch_size: int | None = None, sizes: Sequence[tuple[str, int]] = ()) -> None:
        import numpy as np

        from .. import nn
        from ..nn.files.model_file import input_shapes
        from ..nn.names import inputs_of

        if name in CASES:
            shape, usual = CASES[name]
            self.network: Any = nn.models.NAMED[name](10).build(shape, seed=0)
            self.task = "classification"
        else:
            self.network = model_formats.opened(Path(name), argparse.Namespace(sizes=sizes))
            inputs = inputs_of(self.network)
            if len(inputs) != 1 or inputs[0].is_whole:
                named = ", ".join(f"{port.name} ({'whole numbers' if port.is_whole else 'numbers'})" for port in inputs)
                raise ValueError(
                    f"{name}: takes {named}, but bench times networks that take one array of numbers. In Python, "
                    "net.profile(...) times the layers of any network."
                )
            shape, usual = input_shapes(self.network)[0], 64
            card = self.network.model_card
            self.task = (card and card.task) or "regression"
        self.name, batch = name, batch_size or usual
        random = np.random.RandomState(0)
        self.x = random.standard_normal((batch, *shape)).astype(np.float32)
        self.outputs = self.network.eval()(self.x)
        if self.task == "classification":
            self.y = random.randint(0, self.outputs.shape[1], batch)
        else:
            self.y = _random_targets(self.outputs, self.task, random)

    def inference(self) -> Callable[[], object]:
        self.network.eval()
        return lambda: self.network.run(self.x)

    def training(self) -> Callable[[], object]:
        from .. import nn

        self.network.train()
        loss = {"classification": nn.CrossEntropyLoss, "multilabel": nn.BCEWithLogitsLoss}.get(self.task, nn.MSELoss)()
        step = self.network.compile_step(loss, nn.SGD(list(self.network.parameters()), lr=1e-4), len(self.x))
        return lambda: step(self.x, self.y)


def measure(case: Case, seconds: float, peak: float | None) -> dict[str, Any]:
    """Times of inference and of a training step, with their arithmetic and its share of the peak."""
    network = case.network
    measured: dict[str, Any] = {
        "name": case.name, "batch_size": len(case.x), "parameters": sum(p.size for p in network.parameters())
    }  # fmt: skip
    for kind in KINDS:
        (best,) = times([getattr(case, kind)()], seconds)
        work = _arithmetic(network, case.x, training=kind == "training")
        measured |= {f"{kind}_seconds": best, f"{kind}_flop": work}
        if peak is not None:
            measured[f"{kind}_share_of_peak"] = work / best / 1e9 / peak
    return measured


def _random_targets(outputs: Any, task: str, random: Any) -> Any:
    """Targets for outputs: labels of 0 and 1, or numbers."""
    import numpy as np

    drawn = random.standard_normal(outputs.shape).astype(np.float32)
    return (drawn > 0).astype(np.float32) if task == "multilabel" else drawn


def _arithmetic(network: Any, x: Any, *, training: bool) -> int:
    """Floating-point operations of its layers, forward, and backward in training."""
    network.train(training)
    return sum(row.forward_flop + row.backward_flop for row in network.profile(x, repeats=1).rows)


def times(functions: Sequence[Callable[[], object]], seconds: float) -> list[float]:
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


class Peak:
    """A measurement of the peak in slices of a few milliseconds, which alternate with what it is compared with.

    >>> Peak(1).gflops() > 0
    True
    """

    def __init__(self, threads: int) -> None:
        if engines._core is None:
            raise RuntimeError("there is no peak to measure: the native engine is not in this installation.")
        self._count, self._iterations, self._threads, self._most = engines._core.peak_gflop, 1000, threads, 0.0
        while self._try() < _SECONDS:
            self._iterations *= 2
        self._most = 0.0  # the loops before were too short to count
        for _ in range(_FIRST_TRIES):
            self._try()

    def gflops(self) -> float:
        """GFLOP/s of all threads together: the highest of all tries so far, after a few more. A thread that has to share
        its core makes a try slower; nothing makes one faster than the machine.
        """
        for _ in range(_TRIES):
            self._try()
        return self._most

    def _try(self) -> float:
        """Seconds of one, on the threads that run the kernels."""
        began = time.perf_counter()
        done = self._count(self._iterations, self._threads)
        seconds = time.perf_counter() - began
        self._most = max(self._most, done / seconds)
        return seconds
