"""Gradient checks of networks, Functions and functions of values, behind :func:`openbnns.gradcheck`.

With one random cotangent of all outputs, two comparisons are made for every tensor that has a gradient: finite differences
with the gradient, both in float64 throughout, and the gradient of the engine in use with that in float64.
In networks so large that this would take long, parameters are varied within their layers, and all of them together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from inspect import Parameter as Argument
from inspect import signature
from typing import Any

import numpy as np

from .. import engines
from ..gradients.check import GradientReport, GradientRow
from ..graph.calls import in_turn, listed
from ..graph.numpy_function import Function
from ..graph.operation import Operation
from ..graph.operations import CustomFunction
from ..graph.parameter import Parameter
from ..graph.program import Program
from ..graph.tensor import FLOAT32, Array, Tensor
from ..tensors.wide import float64_memory
from .bound_module import bind_arguments
from .losses import Loss
from .module import Module, shared_names
from .nested_arrays import is_structure
from .recording import input_shapes, recorded_graph, same_statistics, separate_graph, untouched
from .work import count_work

_SHRINK = (1.0, 1 / 32, 1 / 1024)  # the steps that are tried
_NOISE = 64 * float(np.finfo(np.float64).eps)  # rounding errors of a network, relative to its outputs


@dataclass(frozen=True)
class Slope:
    """A slope by both methods. The error is relative to the gradient, or to the least slope that rounding errors leave
    visible."""

    analytic: float
    numeric: float
    error: float
    kink: bool = False
    index: tuple[int, ...] | None = None  # the index of the entry; None: along a direction

    @property
    def rank(self) -> float:
        """The error for comparisons; at a kink, where a slope proves nothing, it is below all others."""
        return -1.0 if self.kink else np.inf if np.isnan(self.error) else self.error


@dataclass(frozen=True)
class Finding:
    """The summary of all slopes of a tensor: the worst, how many are at kinks, and the number of entries among them."""

    worst: Slope
    kinks: int
    entries: int

    def or_worse(self, other: Finding | None) -> Finding:
        if other is None:
            return self
        worst = max(self.worst, other.worst, key=lambda slope: slope.rank)
        return Finding(worst, self.kinks + other.kinks, self.entries + other.entries)


class Slopes:
    """A comparison of slopes of <v, f> at a point where f is y."""

    def __init__(self, cotangent: Array, y: Array, tolerance: float, step: float, random: np.random.Generator) -> None:
        self.cotangent, self.y, self.tolerance, self.step, self.random = cotangent, y, tolerance, step, random
        self._noise = _NOISE * float(np.abs(cotangent) @ np.abs(y))

    def compare(self, analytic: float, scale: float, step: float, outputs_at: Callable[[float], Array]) -> Slope:
        """``outputs_at`` gives f at a distance from the point; ``scale`` is the size of such slopes."""
        bends = True
        for i, factor in enumerate(_SHRINK):
            if i > 1 and not bends:  # a smaller step would not come closer, only add noise
                break
            h = step * factor
            after, before = outputs_at(h), outputs_at(-h)
            numeric = float(self.cotangent @ (after - before)) / (2 * h)
            largest = max(scale, abs(analytic), abs(numeric))
            difference, seen = abs(analytic - numeric), max(largest, self._noise / h / self.tolerance)
            if difference <= self.tolerance * seen:
                return Slope(analytic, numeric, difference / seen if seen else 0.0)
            bend = abs(float(self.cotangent @ (after - self.y)) - float(self.cotangent @ (self.y - before))) / h
            bends = bend > 0.25 * difference
        return Slope(analytic, numeric, difference / largest, kink=bool(bends))

    def examine(self, memory: Array, gradient: Array, samples: int, run: Callable[[], Array]) -> Finding:
        """Some entries of the tensor in ``memory``, and if these are not all, a direction; ``run`` computes f."""
        numbers, slopes = memory.reshape(-1), gradient.reshape(-1)
        scale, step = root_mean_square(slopes), self.step * max(1.0, root_mean_square(numbers))
        measured = []
        chosen = self._chosen(slopes, samples)
        for place in chosen:

            def outputs_at(distance: float, place: int = place) -> Array:
                before = numbers[place]
                numbers[place] += distance
                try:
                    return run()
                finally:
                    numbers[place] = before

            slope = self.compare(float(slopes[place]), scale, step, outputs_at)
            index = tuple(int(i) for i in np.unravel_index(place, memory.shape))
            measured.append(Slope(slope.analytic, slope.numeric, slope.error, slope.kink, index))
        if len(chosen) < numbers.size:
            measured.append(self.along_direction([(memory, gradient)], run))
        worst = max(measured, key=lambda slope: slope.rank)
        return Finding(worst, sum(slope.kink for slope in measured), len(chosen))

    def _chosen(self, gradient: Array, samples: int) -> list[int]:
        """The entry with the largest gradient, and others at random; all if there are no more."""
        if gradient.size <= samples:
            return list(range(gradient.size))
        largest = int(np.argmax(np.abs(gradient)))
        others = self.random.choice(gradient.size, samples, replace=False).tolist()
        return [largest, *(place for place in others if place != largest)][:samples]

    def along_direction(self, tensors: Sequence[tuple[Array, Array]], run: Callable[[], Array]) -> Slope:
        """A random direction through all entries of tensors, each given by its memory and its gradient.

        The step is smaller than that of an entry, because it takes all of them together.
        """
        before = [memory.copy() for memory, _ in tensors]
        moves = [self.random.standard_normal(memory.shape) * (root_mean_square(memory) or 1.0) for memory, _ in tensors]
        terms = [gradient.reshape(move.shape) * move for (_, gradient), move in zip(tensors, moves, strict=True)]

        def outputs_at(distance: float) -> Array:
            try:
                for (memory, _), start, move in zip(tensors, before, moves, strict=True):
                    np.add(start, distance * move, out=memory)
                return run()
            finally:
                for (memory, _), start in zip(tensors, before, strict=True):
                    memory[...] = start

        size = float(np.sqrt(sum(np.sum(np.square(term)) for term in terms)))
        return self.compare(sum(float(term.sum()) for term in terms), size, 0.1 * self.step, outputs_at)


class Point:
    """A float64 program at a point, and near it."""

    def __init__(self, program: Program, seed: int) -> None:
        self.program, self.seed = program, seed
        self._steps = program.forward_calls

    def base(self) -> Array:
        """Run everything at the point itself."""
        self.program.seed(self.seed, 0)
        for _, calls in self._steps:
            in_turn(calls)
        return self._outputs()

    def run(self, first: int = 0) -> Array:
        """The outputs when a tensor that operation ``first`` is the first to read has changed.

        What is detached from the gradient stays as it is at the point.
        """
        self.program.seed(self.seed, 0)
        for operation, calls in self._steps[first:]:
            if not operation.stops_gradient:
                in_turn(calls)
        return self._outputs()

    def _outputs(self) -> Array:
        arrays = [array.ravel() for array in self.program.outputs if array.dtype.kind == "f"]
        return np.concatenate(arrays)

    def first_reader(self, leaf: Parameter | Tensor) -> int:
        """The first operation that reads an input or a parameter."""
        for i, (operation, _) in enumerate(self._steps):
            read = [v.storage for v in operation.inputs]
            if any(p is leaf for p in operation.parameters) or any(v is leaf or v.leaf is leaf for v in read):
                return i
        return len(self._steps)


class Alone:
    """One operation of a program on the values that it has there, with outputs and a random cotangent of its own."""

    def __init__(self, operation: Operation, point: Point, drawing: int, random: np.random.Generator) -> None:
        self.operation, self._seed, self._drawing = operation, point.seed, drawing
        program = point.program
        read = {v.storage for op in program.graph.operations for v in op.inputs}
        read |= {v.storage for v in program.graph.outputs}
        self._x = program.arrays(operation.inputs)
        self._y = [np.empty_like(array) for array in program.arrays(operation.outputs)]
        self._dy = [
            random.standard_normal(array.shape) if array.dtype.kind == "f" and value in read else None
            for value, array in zip(operation.outputs, self._y, strict=True)
        ]
        self._forward = listed(operation.forward_all(self._x, self._y, True))
        self.cotangent = np.concatenate([v.ravel() for v in self._dy if v is not None] or [np.empty(0)])
        self.base = self.outputs()

    def outputs(self) -> Array:
        """Run it; gives the outputs that are read."""
        self.operation.reseed(self._seed, 0, self._drawing)
        in_turn(self._forward)
        pairs = zip(self._y, self._dy, strict=True)
        return np.concatenate([y.ravel() for y, dy in pairs if dy is not None] or [np.empty(0)])

    def gradients(self) -> list[tuple[Array, Array]]:
        """The memory that it reads, of inputs and parameters, and the gradients there."""
        operation = self.operation
        if operation.stops_gradient or not self.cotangent.size:
            return []
        constants = [isinstance(v.storage.leaf, np.ndarray) for v in operation.inputs]
        places = [None if constant else x for constant, x in zip(constants, self._x, strict=True)]
        places += [p.data if p.requires_grad else None for p in operation.parameters]
        given = [None if x is None or x.dtype.kind != "f" else np.zeros(x.shape) for x in places]
        if all(gradient is None for gradient in given):  # of a table of constants, read at whole numbers
            return []
        count = len(self._x)
        in_turn(listed(operation.backward_all(self._x, self._y, self._dy, given[:count], given[count:])))
        sums: dict[int, tuple[Array, Array]] = {}  # an operation may read one value twice
        for memory, gradient in zip(places, given, strict=True):
            if memory is not None and gradient is not None:
                address = int(memory.ctypes.data)
                if address in sums:
                    gradient += sums[address][1].reshape(gradient.shape)
                sums[address] = memory, gradient
        return list(sums.values())


def root_mean_square(numbers: Array) -> float:
    return float(np.sqrt(np.mean(np.square(numbers)))) if numbers.size else 0.0


STEP = 1e-5
TOLERANCE = 1e-5
ENGINE_TOLERANCE = 1e-2  # a ReLU that rounding flips among a million units changes a gradient by a thousandth
# With products in bfloat16: so many times what rounding of inputs and parameters changes, but never what a gradient
# would be away if it were lost.
ROUNDING, LARGEST_ROUNDING = 4.0, 0.5
SAMPLES = 16
_BUDGET = 2e10  # operations that finite differences may take, more or less
_DIRECTIONS = 3  # through all parameters of a large network
_BATCH = 3


# What is checked.


class _Application(Module):
    """A function as a network: its arguments are inputs, parameters, or passed on as they are."""

    def __init__(self, function: Any, arguments: Sequence[Any], names: Sequence[str], parameters: bool) -> None:
        super().__init__()
        self._function, self._names = function, list(names)
        self._given: list[Any] = []
        self.inputs: list[Any] = []
        for name, argument in zip(names, arguments, strict=True):
            if isinstance(argument, np.ndarray) and argument.dtype.kind == "f" and parameters:
                argument = Parameter(argument)
            if isinstance(argument, Parameter):
                self._parameters[name] = argument
            elif isinstance(argument, np.ndarray) and not parameters:
                self.inputs.append(argument)
                argument = _INPUT
            self._given.append(argument)

    def forward(self, *values: Any) -> Any:
        given = iter(values)
        return self._function(*(next(given) if argument is _INPUT else argument for argument in self._given))

    @property
    def input_names(self) -> list[str]:
        return [name for name, argument in zip(self._names, self._given, strict=True) if argument is _INPUT]


_INPUT = object()


def _function_class(subject: Any) -> type[Function] | None:
    """The class of an operation written in NumPy, given as it is or by its ``apply``."""
    owner = getattr(subject, "__self__", subject)
    if owner is not subject and getattr(subject, "__name__", "") != "apply":
        return None
    return owner if isinstance(owner, type) and issubclass(owner, Function) else None


def _argument_names(function: Any, count: int, skipped: int = 0) -> list[str]:
    """The names that a function has for its arguments, and numbers where it has none."""
    try:
        named = list(signature(function).parameters.values())[skipped:]
    except (TypeError, ValueError):
        named = []
    plain = [p.name for p in named if p.kind in (Argument.POSITIONAL_ONLY, Argument.POSITIONAL_OR_KEYWORD)]
    return [plain[i] if i < len(plain) else f"input {i}" if count > 1 else "input" for i in range(count)]


@dataclass
class _Subject:
    """The subject of a check: a network and its inputs. ``owner`` has the parameters under the names that users know."""

    network: Module
    inputs: list[Any]
    names: list[str]
    owner: Module
    title: str


def _subject(given_subject: Any, given: Any) -> _Subject:
    """The network behind what :func:`openbnns.gradcheck` was given, and its inputs."""
    if isinstance(given_subject, Module):
        return _network(given_subject, given)
    function = _function_class(given_subject)
    if function is None and (isinstance(given_subject, type) or not callable(given_subject)):
        what = (
            f"the class {given_subject.__name__}" if isinstance(given_subject, type) else type(given_subject).__name__
        )
        raise TypeError(
            "gradcheck: a layer, a filter of openbnns.capi, a network, an nn.Function or a function of values is needed, not "
            f"{what}." + (" Its creation failed: see openbnns.last_error()." if given_subject is None else "")
        )
    if isinstance(given_subject, Loss):
        raise TypeError(
            f"gradcheck: {type(given_subject).__name__} is a loss on arrays, which gives its own gradient. Check the "
            "equivalent function of values, such as nn.functional.cross_entropy."
        )
    if given is None or isinstance(given, Mapping):
        raise ValueError("gradcheck: pass the arguments of the function behind it: gradcheck(function, x, ...).")
    arguments = [np.asarray(x) if hasattr(x, "__array__") and not isinstance(x, Parameter) else x for x in given]
    called, skipped = (given_subject, 0) if function is None else (function.forward, 1)
    names = _argument_names(called, len(arguments), skipped)
    made = _Application(given_subject if function is None else function.apply, arguments, names, function is not None)
    if not made.inputs and not made._parameters:
        raise ValueError("gradcheck: there is no array of floats among the arguments, so there is nothing to check.")
    made._who = getattr(function or given_subject, "__name__", type(given_subject).__name__)
    return _Subject(made, made.inputs, made.input_names, made, made._who)


def _network(network: Module, given: Any) -> _Subject:
    """A network with arguments as for a call: arrays in a row, or of any other form."""
    inputs, named = ((), given) if isinstance(given, Mapping) else (() if given is None else tuple(given), {})
    title = type(network).__name__
    if given is None:
        arrays = _drawn(network)
        return _Subject(network, arrays, _argument_names(network.forward, len(arrays)), network, title)
    if network._in_a_row(inputs, named):
        arrays = network._in_order(inputs, named) if named else list(inputs)
        return _Subject(network, arrays, _argument_names(network.forward, len(arrays)), network, title)
    arrays, call = bind_arguments(network, inputs, named)
    labels = [*zip(_argument_names(network.forward, len(inputs)), inputs, strict=True), *named.items()]
    names = [label for name, value in labels for label in _labels(name, value)]
    return _Subject(call, arrays, names, network, title)


def _labels(name: str, value: Any) -> Iterator[str]:
    """Names of the arrays in an argument."""
    if is_structure(value):
        for key, part in value.items() if isinstance(value, Mapping) else enumerate(value):
            yield from _labels(f"{name}[{key!r}]", part)
    elif value is not None and not isinstance(value, (bool, str, int, float)):
        yield name


def _drawn(network: Module) -> list[Array]:
    """Random inputs for a network that knows its sizes."""
    if not network.built or any(value.dtype != FLOAT32 for value in recorded_graph(network).inputs):
        raise ValueError(
            f"gradcheck: {type(network).__name__} needs inputs: pass arrays as for a call, gradcheck(network, x). Only for a "
            "network that is built, and takes no integers, can they be drawn."
        )
    random = np.random.default_rng(0)
    return [random.standard_normal(shape) for shape in input_shapes(network, _BATCH)]


# Runs.


def _backward(program: Program, cotangents: Sequence[Array | None]) -> tuple[dict[int, Array], list[Array | None]]:
    """Gradients of parameters, by identity, and of inputs."""
    program.fill_gradients(cotangents)
    program.backward()
    parameter_gradients = {id(p): p.grad.astype(np.float64) for p in program.trained}
    return parameter_gradients, [None if g is None else g.astype(np.float64) for g in program.input_gradients]


@dataclass
class _CheckedTensor:
    """An input or a parameter, where a program reads it, and its gradient."""

    name: str
    leaf: Tensor | Parameter
    memory: Array
    gradient: Array


# The check.


def check(
    subject: Any, given: Any, *, seed: int, samples: int | None, step: float | None, tolerance: float | None
) -> GradientReport:
    """The report on a network or function; the gradients of the engine in use are among what is compared.

    ``given`` are its inputs: a sequence, a mapping by name, or None for random ones.
    """
    point = _subject(subject, given)
    if not point.network.training:
        raise RuntimeError(
            f"gradcheck: {point.title} is in inference mode, in which networks have no backward pass. Call train() first."
        )
    given_arrays = point.network._inputs(point.inputs) if point.inputs else []
    arrays = [x.astype(np.float32) if x.dtype.kind == "f" else x for x in given_arrays]
    return _Check(point, arrays, seed, step or STEP, tolerance or TOLERANCE).run(samples)


class _Check:
    """One check of a network."""

    def __init__(self, subject: _Subject, arrays: list[Array], seed: int, step: float, tolerance: float) -> None:
        self.network, self.owner, self.arrays = subject.network, subject.owner, arrays
        self.names, self.title = subject.names, subject.title
        self.seed, self.step, self.tolerance = seed, step, tolerance
        self.random = np.random.default_rng(seed)
        self.engine = engines.current()
        self.rounds = self.engine == engines.NATIVE and self.network._precision == engines.BFLOAT16

    def run(self, samples: int | None) -> GradientReport:
        cotangents, on_engine = self._on_engine()
        flat = [v.ravel() for v in cotangents if v is not None]
        if not flat:
            raise ValueError(f"gradcheck: {self.title} gives integers only, which have no gradient.")
        with float64_memory(), untouched(self.network, np.float64), np.errstate(over="ignore", invalid="ignore"):
            program = self._program()
            with same_statistics(program.graph):
                point = Point(program, self.seed)
                y = point.base()
                if not np.isfinite(y).all():
                    raise ValueError(
                        f"gradcheck: the output of {self.title} is not finite at this point. Choose other inputs."
                    )
                if not np.array_equal(y, point.base()):
                    raise ValueError(
                        f"gradcheck: {self.title} gives different results for the same inputs. A Function that draws random "
                        "numbers must draw the same in every run: make its generator anew from a seed."
                    )
                tensors = self._tensors(program, _backward(program, cotangents))
                rounding = self._rounding(point, tensors, cotangents) if self.rounds else {}
                slopes = self._slopes(np.concatenate(flat), y)
                rows, notes = self._rows(point, tensors, slopes, samples, on_engine, rounding)
        return GradientReport(
            f"{self.title} in float64 and on the {self.engine} engine",
            self.tolerance,
            tuple(rows),
            tuple(notes),
            self.engine,
        )

    def _slopes(self, cotangent: Array, y: Array) -> Slopes:
        return Slopes(cotangent, y, self.tolerance, self.step, self.random)

    def _on_engine(self) -> tuple[list[Array | None], dict[str, Array]]:
        """Random cotangents of the outputs, and the gradients that the engine in use gives for them."""
        with untouched(self.network):
            program = self._program()
            with same_statistics(program.graph):
                program.seed(self.seed, 0)
                program.forward()
                cotangents = [self._cotangent(array) for array in program.outputs]
                tensors = self._tensors(program, _backward(program, cotangents))
        return cotangents, {tensor.name: tensor.gradient for tensor in tensors}

    def _rounding(
        self, point: Point, tensors: list[_CheckedTensor], cotangents: Sequence[Array | None]
    ) -> dict[str, Array]:
        """The gradients in float64 where all inputs and parameters are rounded to bfloat16."""
        before = [tensor.memory.copy() for tensor in tensors]
        try:
            for tensor in tensors:
                tensor.memory[...] = _rounded(tensor.memory)
            point.base()
            near = self._tensors(point.program, _backward(point.program, cotangents))
        finally:
            for tensor, numbers in zip(tensors, before, strict=True):
                tensor.memory[...] = numbers
        point.base()
        return {tensor.name: tensor.gradient for tensor in near}

    def _program(self) -> Program:
        """A program with layers of its own, filled with the inputs."""
        graph, _ = separate_graph(self.network, tuple(x.shape for x in self.arrays), training=True)
        program = Program(graph, graph.sizes.numbers, training=True, input_gradients=True)
        for i, x in enumerate(self.arrays):
            program.fill(i, x)
        return program

    def _cotangent(self, output: Array) -> Array | None:
        """Numbers that float32 holds exactly, so that both engines go back from the same."""
        if output.dtype.kind != "f":
            return None
        return self.random.standard_normal(output.shape).astype(np.float32).astype(np.float64)

    def _names(self) -> dict[int, str]:
        """All names of every parameter, by identity."""
        paths = shared_names({path: one for path, one in self.owner.named_state() if isinstance(one, Parameter)})
        return {identity: " = ".join(names) for identity, names in paths.items()}

    def _tensors(
        self, program: Program, gradients: tuple[dict[int, Array], list[Array | None]]
    ) -> list[_CheckedTensor]:
        """The tensors that have a gradient, which is zero where the result does not depend on them."""
        of_parameters, of_inputs = gradients
        tensors = []
        for i, value in enumerate(program.graph.inputs):
            if value.dtype == FLOAT32:
                memory, gradient = program.inputs[i], of_inputs[i]
                tensors.append(
                    _CheckedTensor(
                        self.names[i], value, memory, np.zeros(memory.shape) if gradient is None else gradient
                    )
                )
        names = self._names()
        for parameter in program.graph.parameters:
            if id(parameter) in names and parameter.requires_grad:
                gradient = of_parameters.get(id(parameter))
                gradient = np.zeros(parameter.shape) if gradient is None else gradient
                tensors.append(_CheckedTensor(names[id(parameter)], parameter, parameter.data, gradient))
        return tensors

    # Rows.

    def _rows(
        self,
        point: Point,
        tensors: list[_CheckedTensor],
        slopes: Slopes,
        samples: int | None,
        on_engine: Mapping[str, Array],
        rounding: Mapping[str, Array],
    ) -> tuple[list[GradientRow], list[str]]:
        forward = sum(
            count_work(operation, point.program.sizes).forward for operation in point.program.graph.operations
        )
        affordable = _BUDGET / (2 * len(tensors) * forward + 1)
        notes, findings, together = [], {}, []
        if affordable >= 2:
            count = min(SAMPLES, int(affordable) - 1) if samples is None else samples
            findings = self._through_network(point, tensors, slopes, count)
        else:
            count = int(np.clip(_BUDGET / (6 * forward), 1, SAMPLES)) if samples is None else samples
            parameters = [t for t in tensors if isinstance(t.leaf, Parameter)]
            findings = self._within_layers(point, parameters, count)
            findings |= self._through_network(point, [t for t in tensors if t not in parameters], slopes, count)
            pairs = [(t.memory, t.gradient) for t in parameters]
            every = [slopes.along_direction(pairs, point.run) for _ in range(_DIRECTIONS)]
            together = [max(every, key=lambda slope: slope.rank)]
            notes.append(
                "a large network: parameters were checked within their layers, and together through the network"
            )
        floor = 1e-3 * max((root_mean_square(t.gradient) for t in tensors), default=0.0)
        allowed = ENGINE_TOLERANCE
        if rounding:
            changed = max(_distance(rounding[t.name], t.gradient, floor) for t in tensors)
            allowed = float(np.clip(ROUNDING * changed, ENGINE_TOLERANCE, LARGEST_ROUNDING))
            notes.append(f"products in bfloat16: the {self.engine} error may be {allowed:.2f}")
        rows = {}
        for tensor in tensors:
            error = _distance(on_engine[tensor.name], tensor.gradient, floor)
            rows[tensor.name] = self._row(tensor.name, tensor.memory.shape, findings[tensor.name], error, allowed)
        shown = list(self._in_order(rows))
        total = sum(t.memory.size for t in tensors)
        shown += [self._row("all parameters", (total,), Finding(slope, slope.kink, total), None) for slope in together]
        if any(not row.passed and not row.relative_error <= self.tolerance for row in shown):
            point.base()
            notes += [f"wrong backward pass: {described}" for described in self._wrong_operations(point)]
        if any(operation.random for operation in point.program.graph.operations):
            notes.append("dropout: every run dropped the same elements")
        return shown, notes

    def _through_network(
        self, point: Point, tensors: list[_CheckedTensor], slopes: Slopes, samples: int
    ) -> dict[str, Finding]:
        findings = {}
        # From the last operation to the first, so that what lies before is always that of the point itself.
        for tensor in sorted(tensors, key=lambda t: -point.first_reader(t.leaf)):
            run = partial(point.run, point.first_reader(tensor.leaf))
            findings[tensor.name] = slopes.examine(tensor.memory, tensor.gradient, samples, run)
        return findings

    def _within_layers(self, point: Point, tensors: list[_CheckedTensor], samples: int) -> dict[str, Finding]:
        """Every parameter in the operations that use it, each between the values that it has at the point."""
        names = {int(tensor.memory.ctypes.data): tensor.name for tensor in tensors}
        findings: dict[str, Finding] = {}
        for alone in self._operations(point):
            for memory, gradient in alone.gradients():
                name = names.get(int(memory.ctypes.data))
                if name is not None:
                    slopes = self._slopes(alone.cotangent, alone.base)
                    finding = slopes.examine(memory, gradient, samples, alone.outputs)
                    findings[name] = finding.or_worse(findings.get(name))
        return findings

    def _row(
        self,
        name: str,
        shape: tuple[int, ...],
        finding: Finding,
        engine_error: float | None,
        allowed: float = ENGINE_TOLERANCE,
    ) -> GradientRow:
        worst, note = finding.worst, f"{finding.kinks} at kinks" if finding.kinks else ""
        passed, verdict = worst.kink or worst.error <= self.tolerance, "kink" if worst.kink else ""
        if passed and engine_error is not None and not engine_error <= allowed:
            passed, verdict, note = False, "", f"the {self.engine} gradient differs"
        return GradientRow(
            name, worst.analytic, worst.numeric, worst.error, passed, note, shape, finding.entries, worst.index, engine_error,
            verdict,
        )  # fmt: skip

    def _in_order(self, rows: Mapping[str, GradientRow]) -> Iterator[GradientRow]:
        """The rows as the network has its inputs and parameters, and those without a gradient among them."""
        for name, array in zip(self.names, self.arrays, strict=True):
            yield rows.get(name) or _without_gradient(name, array.shape, "integers")
        names = self._names()
        for parameter in self.owner.parameters():
            name = names[id(parameter)]
            why = "unused" if parameter.requires_grad else "frozen"
            yield rows.get(name) or _without_gradient(name, parameter.shape, why)

    # Single operations.

    def _operations(self, point: Point) -> Iterator[Alone]:
        drawing = 0
        for operation, _ in point.program.forward_calls:
            yield Alone(operation, point, drawing, self.random)
            drawing += operation.random

    def _wrong_operations(self, point: Point) -> Iterator[str]:
        """The operations whose own gradients disagree."""
        paths = {id(module): path for path, module in self.network.named_modules()}
        for alone in self._operations(point):
            operation = alone.operation
            if any(not self._agrees(alone, memory, gradient) for memory, gradient in alone.gradients()):
                name = operation.name if isinstance(operation, CustomFunction) else type(operation).__name__
                places = [
                    (paths.get(id(m)), type(m).__name__) for m in operation.modules if type(m) is not _Application
                ]
                where = ", ".join(f"{path} ({kind})" if path else kind for path, kind in places)
                yield f"{name}, in {where}" if where else name

    def _agrees(self, alone: Alone, memory: Array, gradient: Array) -> bool:
        slope = self._slopes(alone.cotangent, alone.base).along_direction([(memory, gradient)], alone.outputs)
        return slope.kink or slope.error <= self.tolerance


def _without_gradient(name: str, shape: tuple[int, ...], why: str) -> GradientRow:
    return GradientRow(name, 0.0, 0.0, 0.0, True, shape=shape, verdict=why)


def _rounded(numbers: Array) -> Array:
    """To bfloat16, ties to even."""
    bits = numbers.astype(np.float32).view(np.uint32)
    rounded: Array = ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).view(np.float32)
    return rounded


def _distance(actual: Array, exact: Array, floor: float) -> float:
    """The relative error of a gradient; ``floor`` is the size of entries that count as zero."""
    norm = max(float(np.linalg.norm(exact)), floor * float(np.sqrt(exact.size)))
    difference = float(np.linalg.norm(actual - exact))
    return difference / norm if norm else difference
