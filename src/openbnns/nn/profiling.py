"""A network as a table: its layers, their time, memory and arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import singledispatch
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import ConvolutionType, InterpolationMethod, engines
from .._plural import plural
from .._table import Table
from ..graph import operations
from ..graph.inference import for_inference
from ..graph.operation import Operation
from ..graph.operations import NormalizedOperation
from ..graph.parameter import Parameter
from ..graph.program import Program
from ..graph.sizes import bound
from ..graph.tensor import Tensor
from ..runtime import get_num_threads
from .module import Module
from .names import StepName, step_names
from .recording import recording_of, same_statistics, separate_graph, untouched

if TYPE_CHECKING:
    from .module import Module

Sizes = Mapping[str, int]
"""Numbers by the names of free sizes."""


@dataclass(frozen=True)
class Work:
    """The arithmetic operations of a forward pass: those of products, and all others.

    ``gradients`` is the arithmetic of a backward pass in multiples of the products, where it does not follow from the
    gradients that are wanted.
    """

    products: int = 0
    others: int = 0
    gradients: int | None = None

    @property
    def forward(self) -> int:
        return self.products + self.others

    def backward(self, operation: Operation, wanted: Sequence[bool]) -> int:
        """The same for a backward pass that gives the gradients of these inputs.

        The gradient of either operand of a product is as much work as the product.
        """
        trained = any(p.requires_grad for p in operation.parameters)
        operands = int(any(wanted)) + int(trained) if operation.parameters else sum(wanted[:2])
        return self.products * (operands if self.gradients is None else self.gradients) + self.others


def element_count(value: Tensor, sizes: Sizes) -> int:
    """Elements of a value."""
    return math.prod(value.concrete(sizes))


@singledispatch
def count_work(operation: Operation, sizes: Sizes) -> Work:
    """The work of a forward pass."""
    return Work()


@count_work.register(operations.Node)
@count_work.register(operations.Dropout)
@count_work.register(operations.Prelu)
@count_work.register(operations.Forbidden)
@count_work.register(operations.Cumulative)
def _elementwise(operation: Operation, sizes: Sizes) -> Work:
    return Work(others=element_count(operation.output, sizes))


@count_work.register
def _activation(operation: operations.Activation, sizes: Sizes) -> Work:
    return Work(others=element_count(operation.output, sizes) * (5 if "softmax" in operation.function.case else 1))


@count_work.register
def _normalization(operation: operations.Normalization, sizes: Sizes) -> Work:
    return Work(others=element_count(operation.output, sizes) * (8 + _activates(operation)))


def _activates(operation: operations.Normalization | NormalizedOperation) -> bool:
    return operation.activation.case != "identity"


def _behind(operation: NormalizedOperation, results: int) -> int:
    """The work that follows the product of a layer with weights: bias, normalization, activation and pooling."""
    parts = int(operation.bias is not None) + 8 * (operation.normalization is not None) + _activates(operation)
    return results * (parts + (operation.pooling is not None))


@count_work.register
def _linear(operation: operations.Linear, sizes: Sizes) -> Work:
    results = element_count(operation.output, sizes)
    return Work(2 * results * operation.weight.shape[1], _behind(operation, results))


@count_work.register
def _convolution(operation: operations.Convolution, sizes: Sizes) -> Work:
    weight, pooling = operation.weight, operation.pooling
    results = math.prod(operation.output.concrete(sizes) if pooling is None else pooling.unpooled_shape(sizes))
    # Every element of the smaller image meets all weights of its channel.
    small = element_count(operation.inputs[0], sizes) if operation.type is ConvolutionType.TRANSPOSED else results
    return Work(2 * small * math.prod(bound(weight.shape[1:], sizes)), _behind(operation, results))


@count_work.register
def _grouped(operation: operations.GroupedTransposedConvolution, sizes: Sizes) -> Work:
    weight = operation.weight
    biased = element_count(operation.output, sizes) if operation.bias is not None else 0
    return Work(2 * element_count(operation.inputs[0], sizes) * math.prod(bound(weight.shape[1:], sizes)), biased)


@count_work.register
def _matrix_product(operation: operations.MatrixProduct, sizes: Sizes) -> Work:
    a = operation.inputs[0].concrete(sizes)
    return Work(2 * element_count(operation.output, sizes) * a[-2 if operation.transposed[0] else -1])


@count_work.register
def _contraction(operation: operations.Contraction, sizes: Sizes) -> Work:
    axes: dict[str, int] = {}
    for value, letters in zip(operation.inputs, operation.letters, strict=True):
        axes |= zip(letters, value.concrete(sizes), strict=True)
    return Work(2 * math.prod(axes.values()))


@count_work.register
def _attention(operation: operations.Attention, sizes: Sizes) -> Work:
    query = operation.output
    samples, targets, width = query.concrete(sizes)
    (source,) = bound((operation.source,), sizes)
    # Projections of queries and results, of keys and values; scores and their sums of values.
    projections = 4 * samples * width * width * (targets + source)
    scores = samples * operation.heads * targets * source
    return Work(projections + 4 * samples * targets * source * width, 5 * scores)


@count_work.register
def _heads(operation: operations.AttentionHeads, sizes: Sizes) -> Work:
    q, k, v = (part.bound(sizes) for part in operation.parts)
    scores = operation.output.concrete(sizes)[0] * q.heads * q.length * k.length
    return Work(2 * scores * (q.width + v.width), 5 * scores, gradients=2)


@count_work.register(operations.Lstm)
@count_work.register(operations.Recurrent)
def _recurrent(operation: operations.Lstm | operations.Recurrent, sizes: Sizes) -> Work:
    steps = element_count(operation.output, sizes) // operation.hidden
    gates = operation.weights[0].shape[0]
    return Work(2 * steps * sum(w.size for w in operation.weights), 3 * steps * gates)


@count_work.register
def _pooling(operation: operations.Pooling, sizes: Sizes) -> Work:
    return Work(others=element_count(operation.output, sizes) * math.prod(operation.window.kernel))


@count_work.register
def _pooling_with_indices(operation: operations.MaxPoolingWithIndices, sizes: Sizes) -> Work:
    return Work(others=element_count(operation.output, sizes) * math.prod(operation.window.kernel))


@count_work.register
def _reduction(operation: operations.Reduction, sizes: Sizes) -> Work:
    return Work(others=element_count(operation.inputs[0], sizes))


@count_work.register
def _rotation(operation: operations.Rotate, sizes: Sizes) -> Work:
    return Work(others=3 * element_count(operation.output, sizes))


@count_work.register
def _resize(operation: operations.Resize, sizes: Sizes) -> Work:
    return Work(
        others=8 * element_count(operation.output, sizes) if operation.method is InterpolationMethod.LINEAR else 0
    )


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
        random = np.random.default_rng(0)
        with same_statistics(graph):
            return _Measured(network, program, random).profile(repeats)


class _Measured:
    """Times of a program: of every step alone, and of whole passes."""

    def __init__(self, network: Module, program: Program, random: np.random.Generator) -> None:
        self.network, self.program = network, program
        self.weights = 0 if program.training else engines.new_weights_version()  # steps of training change them
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
        self.passes[0].append(_seconds(lambda: program.forward(self.weights)))
        if program.training:
            program.fill_gradients(self.cotangents)
            self.passes[1].append(_seconds(lambda: program.backward(input_gradients=False)))
        program.seed(0, 0)
        sums: dict[tuple[Operation, bool], float] = {}
        for row in program.timed(self.cotangents, self.weights):
            key = row.operation, row.backward
            sums[key] = sums.get(key, 0.0) + row.seconds
        for (operation, backward), seconds in sums.items():
            (self.backward if backward else self.forward)[operation].append(seconds)

    def _summed(self, runs: int) -> Profile:
        program, training = self.program, self.program.training
        operations = program.graph.operations
        total = sum(_median_ms(times) for times in (*self.forward.values(), *self.backward.values()))
        rows = [
            self._row(operation, step, total)
            for operation, step in zip(operations, step_names(self.network, operations), strict=True)
        ]
        forward, backward = self.passes
        return Profile(
            type(self.network).__name__, len(program.inputs[0]), training, engines.current(), get_num_threads(), runs,
            tuple(rows), _median_ms(forward), _median_ms(backward), _min_ms(forward), _min_ms(backward),
            program.arena_bytes, sum(_bytes(p, training) for p in self.network.parameters()),
        )  # fmt: skip

    def _row(self, operation: Operation, step: StepName, total_ms: float) -> ProfileRow:
        program, sizes = self.program, self.program.sizes
        forward, backward = self.forward[operation], self.backward[operation]
        done = count_work(operation, sizes)
        took = _median_ms(forward) + _median_ms(backward)
        return ProfileRow(
            step.path,
            step.kind,
            operation.output.concrete(sizes),
            sum(p.size for p in operation.parameters),
            _median_ms(forward),
            _median_ms(backward),
            _min_ms(forward),
            _min_ms(backward),
            took / total_ms if total_ms else 0.0,
            done.forward,
            done.backward(operation, program.wanted_gradients(operation)) if backward else 0,
            sum(element_count(value, sizes) * value.dtype.itemsize for value in operation.outputs),
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
