"""Slopes of networks and operations by finite differences, for gradient checks.

f runs in float64 throughout, v is a cotangent of its outputs and g a gradient of <v, f>. For u, an entry of a tensor t or
a direction through all of them, these two must agree:

    <v, f(t + h u) - f(t - h u)> / 2h  and  <g, u>

Where they do not, the step h is made smaller: differences that come to agree were those of a bend, or of a kink beside the
point. At a kink the slopes on both sides go on to differ.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ..graph.calls import in_turn, listed
from ..graph.operation import Operation
from ..graph.parameter import Parameter
from ..graph.program import Program
from ..graph.tensor import Array, Tensor

_SHRINK = (1.0, 1 / 32, 1 / 1024)  # the steps that are tried
_NOISE = 64 * float(np.finfo(np.float64).eps)  # rounding errors of a network, relative to its outputs


@dataclass(frozen=True)
class Slope:
    """A slope by both methods. The error is relative to the gradient, but not to less than rounding lets be seen."""

    analytic: float
    numeric: float
    error: float
    kink: bool = False
    index: tuple[int, ...] | None = None  # the index of the entry; None: along a direction

    @property
    def rank(self) -> float:
        """The error for comparison; that of a slope at a kink, which proves nothing, is lower than all others."""
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
    """Compares slopes of <v, f> at a point where f is y."""

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
        found = []
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
            found.append(Slope(slope.analytic, slope.numeric, slope.error, slope.kink, index))
        if len(chosen) < numbers.size:
            found.append(self.along_direction([(memory, gradient)], run))
        worst = max(found, key=lambda slope: slope.rank)
        return Finding(worst, sum(slope.kink for slope in found), len(chosen))

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
        """The operation that is the first to read an input or a parameter."""
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
