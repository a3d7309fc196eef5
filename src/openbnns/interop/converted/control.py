"""Control flow and sizes that depend on numbers, for networks from files of any format.

Handlers of operations call these while ``forward`` is recorded:

* :func:`read_numbers` gives whole numbers that a run computes, to build shapes with, or to decide with;
* :func:`sized_by_data` records a function in NumPy whose results have sizes that depend on numbers;
* :func:`branch` records both ways in which a condition may come out;
* :class:`Steps` counts the steps of loops that are unrolled.

``graph/segments.py`` says how such networks run. In a graph for a file, branches and loops stay what they are (``every_way.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...graph import operations
from ...graph.graph import InBranch, recording
from ...graph.numpy_function import Function
from ...graph.sizes import AnySize, Size, is_same_shape, product
from ...graph.tensor import FLOAT32, INT64, Tensor
from .every_way import Way, either, is_for_file, recorded_now
from .tensors import NODE_ERRORS, ForeignTensor, Misfit

MOST_STEPS = 1_000
"""Steps of all loops of a network that are unrolled while it is recorded."""

_MOST_READ = 64  # numbers at a time: shapes, conditions, bounds
_EXAMPLE = 7  # of a size, to record with while the number is not known: one that other sizes rarely have


class Numbers(Function):
    """Whole numbers as they are."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        numbers = np.asarray(x)
        return (np.rint(numbers) if numbers.dtype.kind == "f" else numbers).astype(np.int64).reshape(-1)


def read_numbers(x: ForeignTensor, what: str, example: int = _EXAMPLE) -> list[AnySize]:
    """The elements of a tensor of whole numbers or booleans: numbers, or sizes that a run computes.

    Each number decides which recording a run takes as soon as something depends on it as a number; as a size of a shape it
    stays free.
    """
    if x.kind == "f" or x.rank > 1:
        raise Misfit(
            f"{what} is computed from the inputs, or trained, but must be a constant, or whole numbers in a row"
        )
    if x.constant:
        return [n if isinstance(n, Size) else int(n) for n in x.held.ravel()]
    graph, value = recorded_now(), x.value
    count = int(product(x.shape))
    if count > _MOST_READ:
        raise Misfit(f"{what} is computed from the inputs and has {count} elements; {_MOST_READ} are the most")
    first = len(graph.sizes.computed)
    sizes = [graph.computed_size(example) for _ in range(count)]
    names = graph.sizes.computed[first:]
    output = Tensor(graph, (count,), INT64)
    places = {name: (0, None, i) for i, name in enumerate(names)}
    graph.append(operations.SizedByData(Numbers, [value], [value], [output], places))
    return sizes


def sized_by_data(
    function: type[Function], *arguments: Any, shapes: Sequence[Sequence[AnySize | str]], kinds: str
) -> tuple[ForeignTensor, ...]:
    """Record a function in NumPy; text in a shape names a size that its results tell. ``kinds`` are those of the results."""
    graph = recorded_now()
    given = [x.value if isinstance(x, ForeignTensor) else x for x in arguments]
    sizes: dict[str, AnySize] = {}
    places: dict[str, tuple[int, int | None, int]] = {}
    outputs = []
    for number, (shape, kind) in enumerate(zip(shapes, kinds, strict=True)):
        known: list[AnySize] = []
        for axis, n in enumerate(shape):
            if isinstance(n, str) and n not in sizes:
                sizes[n] = graph.computed_size(_EXAMPLE)
                places[graph.sizes.computed[-1]] = number, axis, 0
            known.append(sizes[n] if isinstance(n, str) else n)
        outputs.append(Tensor(graph, known, FLOAT32 if kind == "f" else INT64))
    inputs = [x for x in given if isinstance(x, Tensor)]
    graph.append(operations.SizedByData(function, given, inputs, outputs, places))
    return tuple(ForeignTensor(y, kind) for y, kind in zip(outputs, kinds, strict=True))


def branch(
    condition: ForeignTensor, captured: Mapping[str, ForeignTensor], named_ways: Mapping[str, Way]
) -> list[ForeignTensor]:
    """The results of the first way if a condition holds, else of the second, which have names for messages.

    ``captured`` are the tensors that they read. A condition that is known decides at once. Otherwise both are recorded, each as
    a program of its own; if their results do not have the same shapes, the condition is read, and a recording follows the way
    that it tells.
    """
    ways = list(named_ways.values())
    if condition.constant:
        return list(ways[0 if _single(condition) else 1](captured))
    if is_for_file():
        return either(condition, captured, named_ways)
    sizes = recorded_now().sizes
    place = sizes.place
    made = _both(condition, captured, ways)
    sizes.place = place  # which operations of the ways have changed
    if made is not None:
        return made
    return list(ways[0 if _decided(condition) else 1](captured))


def holds(condition: ForeignTensor) -> bool:
    """True if a condition holds, which a recording relies on if a run computes it."""
    if condition.constant:
        return _single(condition)
    if is_for_file():
        raise Misfit("steps that are known to be made are followed by others that depend on numbers")
    return _decided(condition)


def _decided(condition: ForeignTensor) -> bool:
    """True if a condition that a run computes holds in this recording, which is one for its number alone."""
    (number,) = read_numbers(_one(condition), "the condition", 1)
    return int(number) != 0


def _single(condition: ForeignTensor) -> bool:
    if condition.held.size != 1:
        raise Misfit(f"a condition has one element, not {condition.shape}")
    return bool(condition.held.reshape(-1)[0])


def _one(condition: ForeignTensor) -> ForeignTensor:
    return ForeignTensor(condition.value.reshape(()), condition.kind if condition.kind != "f" else "b")


def _both(
    condition: ForeignTensor, captured: Mapping[str, ForeignTensor], ways: Sequence[Way]
) -> list[ForeignTensor] | None:
    """Both outcomes as separate graphs; None if their results differ in shape, or sizes in them depend on numbers."""
    outer = recorded_now()
    changing = {name: x for name, x in captured.items() if isinstance(x, ForeignTensor) and isinstance(x.held, Tensor)}
    if any(not isinstance(x, ForeignTensor) for x in captured.values()):
        return None
    graphs, results = [], []
    for way in ways:
        graph = outer.branch()
        own = {name: ForeignTensor(graph.input(x.shape, x.held.dtype), x.kind) for name, x in changing.items()}
        try:
            with recording(graph):
                tensors = list(way({**captured, **own}))
                values = [x.value if x.kind != "f" else x.numbers for x in tensors]
        except (InBranch, *NODE_ERRORS):  # it may be taken for other numbers only: those that a recording knows
            return None
        outer.asked_for_mode |= graph.asked_for_mode
        graph.close(values)
        graphs.append(graph)
        results.append([(v.shape, x.kind, v.dtype) for x, v in zip(tensors, values, strict=True)])
    if len(results[0]) != len(results[1]) or any(map(_differ, *results)):
        return None
    outputs = [Tensor(outer, shape, dtype) for shape, _, dtype in results[0]]
    inputs = [_one(condition).value, *(x.value for x in changing.values())]
    outer.append(operations.Branch(inputs, outputs, graphs))
    return [ForeignTensor(y, kind) for y, (_, kind, _) in zip(outputs, results[0], strict=True)]


def _differ(one: Any, other: Any) -> bool:
    return not is_same_shape(one[0], other[0]) or one[1:] != other[1:]


class Steps:
    """Counts the steps of loops that are unrolled."""

    def __init__(self, most: int = MOST_STEPS) -> None:
        self.most, self.made = most, 0

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Count the steps in the block, of a graph that may be recorded several times, by themselves."""
        before = self.made
        try:
            yield
        finally:
            self.made = before

    def next(self) -> None:
        """Begin one more step, if there may be one."""
        self.made += 1
        if self.made > self.most:
            raise Misfit(
                f"it has not ended after {self.most} steps, which are the most that loops of a network may take"
            )
