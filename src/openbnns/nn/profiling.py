"""A network as a table: its layers, their time and memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from .. import engines
from .._plural import plural
from .._table import Table
from ..graph.inference import for_inference
from ..graph.operation import Operation
from ..graph.parameter import Parameter
from ..graph.program import Program
from ..runtime import get_num_threads
from .module import Module
from .names import step_names
from .recording import recording_of, same_statistics, separate_graph, untouched
from .work import count_work, element_count


class Summary(str):
    """The table of a network as text; notebooks show it as a table."""

    _table: Table

    def __new__(cls, table: Table) -> Summary:
        made = super().__new__(cls, str(table))
        made._table = table
        return made

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return self._table.html()


def table(network: Module) -> Table:
    """One line per step as it runs: its layers (several where they are fused), output shape and parameters."""
    operations = recording_of(network, False).graph.operations if network.built else []
    rows = []
    for operation, step in zip(operations, step_names(network, operations), strict=True):
        values = [value.storage.leaf for value in operation.inputs]
        count = sum(p.size for p in (*operation.parameters, *values) if isinstance(p, Parameter))
        rows.append((step.path, step.kind, str(operation.output.shape[1:]), f"{count:,}" if count else "-"))
    total = sum(p.size for p in network.parameters())
    header = ("layer", "computes", "output of a sample", "parameters")
    return Table(header, rows, footer=f"{total:,} parameters, {4 * total / 1e6:.2f} MB", words=3)


def summary(network: Module) -> Summary:
    """The table, to print or to look at."""
    network._require_built("summary")
    return Summary(table(network))


def html_table(network: Module) -> str | None:
    """The table for notebooks; None until the network is built."""
    return table(network).html() if network.built else None


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
        milliseconds = self.forward_ms + self.backward_ms
        return (self.forward_flop + self.backward_flop) / 1e6 / milliseconds if milliseconds else 0.0


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
    (True, ['backward_ms', 'batch', 'engine'])
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
        forward, backward, flop, held = (
            sum(values)
            for values in zip(
                *((r.forward_ms, r.backward_ms, r.forward_flop + r.backward_flop, r.output_bytes) for r in self.rows),
                strict=True,
            )
        )
        times = [_ms(forward), _ms(backward), "100 %", _rate(flop, forward + backward)]
        rows.append(["total", "", "", *times, _kilobytes(held), _kilobytes(self.parameter_bytes)])
        if not self.training:  # there is no backward pass
            header, *rows = ([*row[:4], *row[5:]] for row in (header, *rows))
        whole = f"whole passes: forward {self.forward_ms:.3f} ms"
        if self.training:
            whole += f", backward {self.backward_ms:.3f} ms"
        values = f"{_kilobytes(self.planned_bytes)} kB for values{' and gradients' if self.training else ''}"
        memory = f"memory: {values}, which share it, and {_kilobytes(self.parameter_bytes)} kB for parameters"
        return Table(header, rows, self._title(), f"{whole}\n{memory}", words=3)

    def _cells(self, row: ProfileRow) -> list[str]:
        times = [_ms(row.forward_ms), _ms(row.backward_ms), f"{100 * row.share:.1f} %"]
        rate = _rate(row.forward_flop + row.backward_flop, row.forward_ms + row.backward_ms)
        memory = [_kilobytes(row.output_bytes), _kilobytes(row.parameter_bytes)]
        return [row.layer, row.computes, str(row.output), *times, rate, *memory]


def profile(network: Module, inputs: Sequence[Any], repeats: int | None) -> Profile:
    """Measure a network on the inputs of a call. Its own layers, gradients and statistics are not touched."""
    who = f"{type(network).__name__}.profile"
    if repeats is not None and (isinstance(repeats, bool) or not isinstance(repeats, int) or repeats < 1):
        raise ValueError(f"{who}: repeats is {repeats!r}. Use a whole number, 1 or more.")
    if not inputs:
        raise TypeError(f"{who}: pass the inputs of a call, profile(x).")
    arrays = network._inputs(inputs)
    with untouched(network):
        graph, _ = separate_graph(network, tuple(x.shape for x in arrays), training=network.training)
        graph = graph if network.training else for_inference(graph)
        program = Program(graph, graph.sizes.numbers, training=network.training)
        for i, x in enumerate(arrays):
            program.fill(i, x)
        with same_statistics(graph):
            times, passes, runs = _measured(program, repeats)
        rows = _rows(network, program, times)
    return Profile(
        type(network).__name__, len(program.inputs[0]), program.training, engines.current(), get_num_threads(), runs,
        tuple(rows), forward_ms=passes[0], backward_ms=passes[1], planned_bytes=program.arena_bytes,
        parameter_bytes=sum(_bytes(p, program.training) for p in network.parameters()),
    )  # fmt: skip


Times = dict[tuple[Operation, bool], float]
"""Milliseconds by operation and by whether it is its backward step."""


def _measured(program: Program, repeats: int | None) -> tuple[Times, list[float], int]:
    """Medians of the times of every step alone, and of whole passes forward and backward; and the number of runs."""
    weights = 0 if program.training else engines.new_weights_version()  # steps of training change them
    random = np.random.default_rng(0)
    cotangents = [
        random.standard_normal(y.shape).astype(np.float32) if y.dtype.kind == "f" else None for y in program.outputs
    ]

    def run() -> tuple[dict[tuple[Operation, bool], float], list[float]]:
        """Whole passes, then the same steps one by one."""
        program.seed(0, 0)
        passes = [_seconds(lambda: program.forward(weights)), 0.0]
        if program.training:
            program.fill_gradients(cotangents)
            passes[1] = _seconds(lambda: program.backward(input_gradients=False))
        program.seed(0, 0)
        sums: dict[tuple[Operation, bool], float] = {}
        for row in program.timed(cotangents, weights):
            key = row.operation, row.backward
            sums[key] = sums.get(key, 0.0) + row.seconds
        return sums, passes

    each = _seconds(lambda: [run() for _ in range(_WARM_UP)]) / _WARM_UP
    runs = int(np.clip(_SECONDS / max(each, 1e-9), *_RUNS)) if repeats is None else repeats
    steps, passes = zip(*(run() for _ in range(runs)), strict=True)
    times = {key: 1e3 * median(sums[key] for sums in steps) for key in steps[0]}
    return times, [1e3 * median(column) for column in zip(*passes, strict=True)], runs


def _rows(network: Module, program: Program, times: Times) -> list[ProfileRow]:
    """One row for each step of a program."""
    sizes, total, operations = program.sizes, sum(times.values()), program.graph.operations
    rows = []
    for operation, step in zip(operations, step_names(network, operations), strict=True):
        forward, backward = (times.get((operation, way), 0.0) for way in (False, True))
        done, wanted = count_work(operation, sizes), program.wanted_gradients(operation)
        row = ProfileRow(
            step.path, step.kind, operation.output.concrete(sizes), sum(p.size for p in operation.parameters),
            forward, backward, (forward + backward) / total if total else 0.0,
            done.forward, done.backward(operation, wanted) if (operation, True) in times else 0,
            sum(element_count(value, sizes) * value.dtype.itemsize for value in operation.outputs),
            sum(_bytes(p, program.training) for p in operation.parameters),
        )  # fmt: skip
        rows.append(row)
    return rows


def _seconds(call: Callable[[], object]) -> float:
    began = perf_counter()
    call()
    return perf_counter() - began


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
