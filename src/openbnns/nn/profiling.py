"""Time and memory of a network, layer by layer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import engines
from .._plural import plural
from .._table import Table
from ..graph.operation import Operation
from ..graph.parameter import Parameter
from ..graph.program import Program
from ..graph.tensor import Array
from ..runtime import get_num_threads
from ._work import count, work
from .gradient_check import same_statistics, untouched
from .step_names import Place, places

if TYPE_CHECKING:
    from .module import Module

_WARM_UP = 2
_SECONDS = 1.0  # time for repeated runs unless their number is given
_RUNS = (5, 100)  # and how many there are


@dataclass(frozen=True)
class ProfileRow:
    """One step of a network: a layer, or several that are fused. Times are medians of all runs, in milliseconds."""

    layer: str
    computes: str
    output: tuple[int, ...]
    """The shape of its output, of the whole batch."""
    parameters: int
    forward_ms: float
    backward_ms: float
    forward_min_ms: float
    backward_min_ms: float
    share: float
    """The share of the time of all steps, forward and backward, from 0 to 1."""
    forward_flop: int
    backward_flop: int
    output_bytes: int
    parameter_bytes: int
    """Parameters, and their gradients if they are trained."""

    @property
    def gflops(self) -> float:
        """Billions of arithmetic operations in a second; 0 where nothing is computed."""
        seconds = (self.forward_ms + self.backward_ms) / 1e3
        return (self.forward_flop + self.backward_flop) / 1e9 / seconds if seconds else 0.0


@dataclass(frozen=True, repr=False)
class Profile:
    """The result of :meth:`Module.profile <openbnns.nn.Module.profile>`; shows as a table.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> net = nn.Sequential(nn.Linear(64), nn.ReLU(), nn.Linear(10))
    >>> profile = net.profile(np.zeros((32, 20), np.float32))
    >>> [(row.layer, row.computes, row.forward_flop) for row in profile.rows]
    [('0, 1', 'Linear + ReLU', 86016), ('2', 'Linear', 41280)]
    >>> profile.backward_ms > 0, sorted(profile.to_dict())[:3]
    (True, ['backward_min_ms', 'backward_ms', 'batch'])
    """

    network: str
    batch: int
    training: bool
    engine: str
    threads: int
    runs: int
    rows: tuple[ProfileRow, ...]
    forward_ms: float
    """A whole pass as the network runs it, which takes less than its steps one by one if these are small."""
    backward_ms: float
    forward_min_ms: float
    backward_min_ms: float
    planned_bytes: int
    """Memory of values and gradients, where those that are not needed at the same time share it."""
    parameter_bytes: int

    def to_dict(self) -> dict[str, Any]:
        """All numbers, for JSON."""
        return {**asdict(self), "rows": [{**asdict(row), "gflops": row.gflops} for row in self.rows]}

    def __repr__(self) -> str:
        return str(self._table())

    __str__ = __repr__

    def _repr_html_(self) -> str:
        return self._table().html()

    def _title(self) -> str:
        mode = "a training step" if self.training else "inference"
        return (
            f"{self.network}: {mode} of {plural(self.batch, 'sample')}, {self.engine} engine, "
            f"{plural(self.threads, 'thread')}, medians of {plural(self.runs, 'run')}"
        )

    def _table(self) -> Table:
        header = [
            "layer",
            "computes",
            "output",
            "forward ms",
            "backward ms",
            "share",
            "GFLOP/s",
            "output kB",
            "param. kB",
        ]
        rows = [self._cells(row) for row in self.rows]
        forward, backward = sum(row.forward_ms for row in self.rows), sum(row.backward_ms for row in self.rows)
        flop = sum(row.forward_flop + row.backward_flop for row in self.rows)
        total = [_ms(forward), _ms(backward), "100 %", _rate(flop, forward + backward)]
        memory = [_kilobytes(sum(row.output_bytes for row in self.rows)), _kilobytes(self.parameter_bytes)]
        rows.append(["total", "", "", *total, *memory])
        if not self.training:  # there is no backward pass
            header, *rows = ([*row[:4], *row[5:]] for row in (header, *rows))
        return Table(header, rows, self._title(), "\n".join(self._notes()), words=3)

    def _cells(self, row: ProfileRow) -> list[str]:
        times = [_ms(row.forward_ms), _ms(row.backward_ms), f"{100 * row.share:.1f} %"]
        rate = _rate(row.forward_flop + row.backward_flop, row.forward_ms + row.backward_ms)
        memory = [_kilobytes(row.output_bytes), _kilobytes(row.parameter_bytes)]
        return [row.layer, row.computes, str(row.output), *times, rate, *memory]

    def _notes(self) -> list[str]:
        whole = f"whole passes: forward {self.forward_ms:.3f} ms (fastest {self.forward_min_ms:.3f})"
        if self.training:
            whole += f", backward {self.backward_ms:.3f} ms (fastest {self.backward_min_ms:.3f})"
        held = f"{_kilobytes(self.planned_bytes)} kB for values{' and gradients' if self.training else ''}"
        return [whole, f"memory: {held}, which share it, and {_kilobytes(self.parameter_bytes)} kB for parameters"]


def profile(network: Module, arrays: Sequence[Array], repeats: int | None) -> Profile:
    """Measure a network on inputs that it is built for. Its own layers, gradients and statistics are not touched."""
    with untouched(network):
        graph, _ = network._traced(tuple(x.shape for x in arrays), training=network.training)
        program = Program(graph, graph.sizes.numbers, training=network.training)
        for i, x in enumerate(arrays):
            program.fill(i, x)
        random = np.random.default_rng(0)
        with same_statistics(graph):
            return _Measured(network, program, random).profile(repeats)


class _Measured:
    """Times of a program: of every step alone, and of whole passes."""

    def __init__(self, network: Module, program: Program, random: np.random.Generator) -> None:
        self.network, self.program = network, program
        self.cotangents = [
            random.standard_normal(y.shape).astype(np.float32) if y.dtype.kind == "f" else None for y in program.outputs
        ]
        operations = program.graph.operations
        self.forward: dict[Operation, list[float]] = {operation: [] for operation in operations}
        self.backward: dict[Operation, list[float]] = {operation: [] for operation in operations}
        self.passes: tuple[list[float], list[float]] = [], []

    def profile(self, repeats: int | None) -> Profile:
        began = perf_counter()
        for _ in range(_WARM_UP):
            self._run()
        each = (perf_counter() - began) / _WARM_UP
        runs = int(np.clip(_SECONDS / max(each, 1e-9), *_RUNS)) if repeats is None else repeats
        for times in (*self.forward.values(), *self.backward.values(), *self.passes):
            times.clear()
        for _ in range(runs):
            self._run()
        return self._summed(runs)

    def _run(self) -> None:
        """Whole passes, then the same steps one by one."""
        program = self.program
        program.seed(0, 0)
        self.passes[0].append(_seconds(program.forward))
        if program.training:
            program.fill_gradients(self.cotangents)
            self.passes[1].append(_seconds(lambda: program.backward(input_gradients=False)))
        program.seed(0, 0)
        sums: dict[tuple[Operation, bool], float] = {}
        for row in program.timed(self.cotangents):
            key = row.operation, row.backward
            sums[key] = sums.get(key, 0.0) + row.seconds
        for (operation, backward), seconds in sums.items():
            (self.backward if backward else self.forward)[operation].append(seconds)

    def _summed(self, runs: int) -> Profile:
        program, training = self.program, self.program.training
        operations = program.graph.operations
        total = sum(_median_ms(times) for times in (*self.forward.values(), *self.backward.values()))
        rows = [
            self._row(operation, place, total)
            for operation, place in zip(operations, places(self.network, operations), strict=True)
        ]
        forward, backward = self.passes
        return Profile(
            type(self.network).__name__, len(program.inputs[0]), training, engines.current(), get_num_threads(), runs,
            tuple(rows), _median_ms(forward), _median_ms(backward), _min_ms(forward), _min_ms(backward),
            program.arena_bytes, sum(_bytes(p, training) for p in self.network.parameters()),
        )  # fmt: skip

    def _row(self, operation: Operation, place: Place, total_ms: float) -> ProfileRow:
        program, sizes = self.program, self.program.sizes
        forward, backward = self.forward[operation], self.backward[operation]
        done = work(operation, sizes)
        took = _median_ms(forward) + _median_ms(backward)
        return ProfileRow(
            place.path,
            place.kind,
            operation.output.concrete(sizes),
            sum(p.size for p in operation.parameters),
            _median_ms(forward),
            _median_ms(backward),
            _min_ms(forward),
            _min_ms(backward),
            took / total_ms if total_ms else 0.0,
            done.forward,
            done.backward(operation, program.wanted_gradients(operation)) if backward else 0,
            sum(count(value, sizes) * value.dtype.itemsize for value in operation.outputs),
            sum(_bytes(p, program.training) for p in operation.parameters),
        )


def _seconds(call: Callable[[], object]) -> float:
    began = perf_counter()
    call()
    return perf_counter() - began


def _median_ms(times: Sequence[float]) -> float:
    return 1e3 * median(times) if times else 0.0


def _min_ms(times: Sequence[float]) -> float:
    return 1e3 * min(times, default=0.0)


def _bytes(parameter: Parameter, training: bool) -> int:
    """The size of a parameter, with its gradient if it has one."""
    return parameter.size * 4 * (2 if training and parameter.requires_grad else 1)


# Texts.


def _ms(milliseconds: float) -> str:
    return f"{milliseconds:.3f}" if milliseconds else "-"


def _rate(flop: int, milliseconds: float) -> str:
    return f"{flop / 1e6 / milliseconds:.1f}" if flop and milliseconds else "-"


def _kilobytes(number: int) -> str:
    return f"{number / 1e3:,.1f}" if number else "-"
