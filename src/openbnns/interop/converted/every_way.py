"""Branches and loops that stay what they are, in graphs that are recorded for files.

A program follows the way that the numbers of a run tell, so that its graph holds no other. A file is to serve all numbers:
:func:`either` records both outcomes of a condition, and :func:`repeated` the body of a loop, each as a graph of its own inside
of an operation. Such a graph has guards of its own. Sizes of results that differ from way to way, or from step to step, are
sizes that only a run knows; a state that steps leave as it is stays known in the body.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

from ...graph.graph import Graph, current_graph, recording
from ...graph.operation import Operation
from ...graph.passes import drop_unused
from ...graph.sizes import AnySize, FreeSizes, Size, expression_of, is_same, is_same_shape, number_of
from ...graph.tensor import FLOAT32, INT64, Tensor
from .tensors import NODE_ERRORS, ForeignTensor, Misfit, TensorList, reshaped

Places = dict[str, tuple[int, int]]
"""Computed sizes by name: the number of a result, and the axis of which each is the size."""

_TRIALS = 8  # sizes that a way is recorded for if it does not take those of the latest run
_EXAMPLE = 7  # of the number of steps: one that other sizes rarely have


class InnerGraph:
    """A graph inside of an operation. ``inputs`` are its own; those that ``reads`` are in the graph around it follow them."""

    def __init__(self, outer: Graph, sizes: FreeSizes) -> None:
        self.graph, self.inputs, self.reads = outer.branch(sizes), list[Tensor](), list[Tensor]()
        self._outer, self._read = outer, dict[Tensor, Tensor]()

    def input(self, shape: Sequence[AnySize], dtype: np.dtype[Any]) -> Tensor:
        made = self.graph.input(shape, dtype)
        self.inputs.append(made)
        return made

    def take(self, x: Any) -> Any:
        """A tensor of the graph around this one, or a list of such, as it is read here."""
        if isinstance(x, TensorList):
            return TensorList(map(self.take, x))
        return x.replaced(self._take, self.graph.sizes.here)

    def _take(self, around: Tensor) -> Tensor:
        if around not in self._read:
            self._read[around] = self.graph.input(list(map(self.graph.sizes.here, around.shape)), around.dtype)
            self.reads.append(around)
        return self._read[around]

    def taken(self) -> Iterator[tuple[Tensor, Tensor]]:
        """The values that are read, here and in the graph around this one, as far as something here needs them."""
        used = {v.storage for operation in self.graph.operations for v in operation.inputs}
        used |= {v.storage for v in self.graph.outputs}
        return ((inside, around) for around, inside in self._read.items() if inside in used)

    def close(self, outputs: Sequence[Tensor], what: str) -> None:
        """End the recording, if the graph serves all runs."""
        graph, outer = self.graph, self._outer
        graph.operations = drop_unused(graph.operations, outputs)
        deciding = graph.sizes.deciding()
        if deciding is not None:
            raise Misfit(f"which operations run in {what} depends on numbers that only a run knows: {deciding}")
        outer.asked_for_mode |= graph.asked_for_mode
        graph.close(outputs)


class Either(Operation):
    """The results of the first graph where a condition holds, else of the second."""

    finds_sizes = True
    takes_integers = True

    def __init__(
        self, condition: Tensor, ways: Sequence[InnerGraph], outputs: Sequence[Tensor], sizes: Places
    ) -> None:  # fmt: skip
        self.ways, self.sizes = list(ways), sizes
        super().__init__([condition, *ways[0].reads, *ways[1].reads], outputs)


class Repeat(Operation):
    """The states after the steps of a loop, and what every step gives beside them, stacked.

    ``body`` takes the number of the step and the states; it gives a condition to go on, the next states, and parts to stack.
    There are at most ``most`` steps, and none if ``condition`` does not hold, as far as these are given.
    """

    finds_sizes = True
    takes_integers = True

    def __init__(
        self, most: Tensor | AnySize | None, condition: Tensor | None, states: Sequence[Tensor], body: InnerGraph,
        outputs: Sequence[Tensor], sizes: Places,
    ) -> None:  # fmt: skip
        self.most, self.condition, self.states, self.body, self.sizes = most, condition, list(states), body, sizes
        bounds = [x for x in (most, condition) if isinstance(x, Tensor)]
        super().__init__([*bounds, *states, *body.reads], outputs)


def is_for_file() -> bool:
    """True if the graph that is being recorded is to hold every way that runs may take."""
    return recorded_now().every_way


@contextmanager
def tried() -> Iterator[Callable[[Any], Any]]:
    """Record in a graph that is thrown away, in the block, which gets a function for tensors from outside, and ends early if it
    fails."""
    outer = recorded_now()
    inner = InnerGraph(outer, outer.sizes.inner())
    with recording(inner.graph), suppress(*NODE_ERRORS):
        yield inner.take


Way = Callable[[Mapping[str, Any]], Sequence[Any]]
"""A function that records one outcome of a condition, on tensors by name, and returns its results."""

Step = Callable[[Mapping[Any, Any], ForeignTensor, Sequence[Any]], tuple[ForeignTensor, Sequence[Any], Sequence[Any]]]
"""A function that records one step of a loop, on tensors by name or another key, the number of the step, and the states; it
returns the condition to go on, the next states, and the parts that are stacked."""


def either(condition: ForeignTensor, captured: Mapping[Any, Any], ways: Mapping[str, Way]) -> list[Any]:
    """The results of the first way if a condition holds, else of the second; ``captured`` are the tensors that they read."""
    outer = recorded_now()
    recorded = [_recorded_way(outer, captured, way, name) for name, way in ways.items()]
    first, second = (list(_flat(results)) for _, results in recorded)
    if list(map(_length, recorded[0][1])) != list(map(_length, recorded[1][1])):
        raise Misfit("the lists that its branches give have other lengths: a file needs lists of a known length")
    for place, (x, y) in enumerate(zip(first, second, strict=True)):
        rank = min(x.rank, y.rank)
        first[place], second[place] = (_of_rank(one, rank, way) for one, (way, _) in zip((x, y), recorded, strict=True))
        if first[place].rank != second[place].rank:
            raise Misfit(f"result {place} has the shape {x.shape} or {y.shape}: a file needs the same number of axes")
    kinds = [_common_kind(x, y) for x, y in zip(first, second, strict=True)]
    for (inner, _), name, tensors in zip(recorded, ways, (first, second), strict=True):
        with recording(inner.graph):
            inner.close([_numbers(x, kind) for x, kind in zip(tensors, kinds, strict=True)], f"its {name}")
    shapes = [
        [n if is_same(n, m) else None for n, m in zip(x.shape, y.shape, strict=True)]
        for x, y in zip(first, second, strict=True)
    ]
    outputs, sizes = _outputs(outer, kinds, shapes, [x.shape for x in first])
    outer.append(Either(_flag(condition), [inner for inner, _ in recorded], outputs, sizes))
    return _filled(recorded[0][1], map(ForeignTensor, outputs, kinds))


def _recorded_way(outer: Graph, captured: Mapping[Any, Any], way: Way, name: str) -> tuple[InnerGraph, Sequence[Any]]:
    """One outcome. If it does not take the free sizes of the latest run, which took another one, then for some that it takes."""
    tried: list[dict[str, int]] = []
    left: list[dict[str, int]] = [{}]
    problem: Exception | None = None
    while left and len(tried) < _TRIALS:
        numbers = left.pop(0)
        tried.append(numbers)
        inner = InnerGraph(outer, outer.sizes.inner(numbers))
        try:
            with recording(inner.graph):
                return inner, way({key: inner.take(x) for key, x in captured.items()})
        except NODE_ERRORS as error:
            problem = problem or error
            sizes = inner.graph.sizes
            others = [numbers | more for more in (sizes.wanted, *sizes.other_numbers())]
            left += [o for o in others if o not in (*tried, *left) and outer.sizes.serve(outer.sizes.numbers | o)]
    raise Misfit(f"its {name} cannot be recorded: {problem}")


def repeated(
    most: ForeignTensor | AnySize | None, condition: ForeignTensor | None, states: Sequence[Any],
    captured: Mapping[Any, Any], step: Step, unread: AbstractSet[int] = frozenset(),
) -> tuple[list[Any], list[ForeignTensor]]:  # fmt: skip
    """The states after a loop, and the parts that its steps give, stacked along a new first axis.

    A state is taken to stay as it is, and then to keep its sizes, until a recording of the body shows that it does not. One that
    is ``unread`` in the body, by its number, begins with anything if a first step is certain.
    """
    outer, before = recorded_now(), list(_flat(states))
    begins = condition is None and (most is None or (isinstance(most, int) and most > 0))
    changing: dict[int, list[AnySize | None]] = {}  # shapes of the states that steps change; None for sizes that change
    while True:
        inner = InnerGraph(outer, outer.sizes.inner())
        number = ForeignTensor(inner.input((), INT64))
        given = [_state(inner, x, changing.get(i)) for i, x in enumerate(before)]
        with recording(inner.graph):
            around = {key: inner.take(x) for key, x in captured.items()}
            goes_on, results, parts = step(around, number, _filled(states, given))
        after = list(_flat(results))
        if list(map(_length, results)) != list(map(_length, states)):
            raise Misfit(
                "lists of tensors get longer or shorter from step to step: a file needs lists of a known length"
            )
        after = [_of_rank(y, x.rank, inner) for x, y in zip(before, after, strict=True)]
        other = {i: after[i] for i in unread if begins and before[i].rank != after[i].rank}
        for i, y in other.items():
            before[i] = ForeignTensor(np.zeros((1,) * y.rank, np.float32 if y.kind == "f" else np.int64), y.kind)
            changing[i] = [None] * y.rank
        if not other and not _note_changes(changing, inner.graph.sizes, before, given, after):
            break
    changing = dict(sorted(changing.items()))  # as the body takes them
    ends = [after[i] for i in changing]
    kinds = [x.kind for x in [*(before[i] for i in changing), *parts]]
    with recording(inner.graph):
        inner.close([_flag(goes_on), *map(_numbers, [*ends, *parts], kinds)], "its body")
    bound = most.value.reshape(()) if isinstance(most, ForeignTensor) else most
    always = condition is None and goes_on.constant and bool(goes_on.held.all())
    count = bound if always and not isinstance(bound, Tensor) else None
    shapes = [after[i].shape if begins and i in unread else shape for i, shape in changing.items()]
    shapes += ([count, *_known(outer, part.shape)] for part in parts)
    examples = [before[i].shape for i in changing] + [(_EXAMPLE, *part.shape) for part in parts]
    outputs, sizes = _outputs(outer, kinds, shapes, examples)
    flag = None if condition is None else _flag(condition)
    begin = [_numbers(before[i], kind) for i, kind in zip(changing, kinds, strict=False)]
    outer.append(Repeat(bound, flag, begin, inner, outputs, sizes))
    made = list(map(ForeignTensor, outputs, kinds))
    last = dict(zip(changing, made, strict=False))
    return _filled(states, [last.get(i, x) for i, x in enumerate(before)]), made[len(changing) :]


def _state(inner: InnerGraph, x: ForeignTensor, shape: Sequence[AnySize | None] | None) -> ForeignTensor:
    """A state in the body: as it is before the loop, or an input of this shape."""
    if shape is None:
        state: ForeignTensor = inner.take(x)
        return state
    sizes = inner.graph.sizes
    known = [
        sizes.computed_size(max(1, number_of(n))) if m is None else sizes.here(m)
        for n, m in zip(x.shape, shape, strict=True)
    ]
    return ForeignTensor(inner.input(known, FLOAT32 if x.kind == "f" else INT64), x.kind)


def _note_changes(
    changing: dict[int, list[AnySize | None]], sizes: FreeSizes, before: Sequence[ForeignTensor],
    given: Sequence[ForeignTensor], after: Sequence[ForeignTensor],
) -> bool:  # fmt: skip
    """Note what a step has changed, beside what is known to; True if there is any."""
    fixed, news = sizes.without_guards(), False
    for i, (x, here, y) in enumerate(zip(before, given, after, strict=True)):
        if i not in changing:
            if _is_unchanged(here, y):
                continue
            changing[i], news = list(x.shape), True
        if _common_kind(x, y) != x.kind or x.rank != y.rank:
            raise Misfit(
                f"state {i} has the shape {x.shape} before the loop and {y.shape} after a step, or other types: a file needs "
                "the same number of axes, and the same type"
            )
        shape = changing[i]
        for axis, (n, m) in enumerate(zip(shape, y.shape, strict=True)):
            if n is not None and expression_of(n).replaced(fixed) != expression_of(m).replaced(fixed):
                shape[axis], news = None, True
    return news


def _is_unchanged(x: ForeignTensor, y: ForeignTensor) -> bool:
    if x.constant and y.constant:
        one, other = (x.held.ravel(), y.held.ravel())
        plain = x.held.dtype != object != y.held.dtype
        equal = np.array_equal(one, other, equal_nan=x.kind == y.kind == "f") if plain else is_same_shape(one, other)
        return x.kind == y.kind and x.shape == y.shape and equal
    return x.held is y.held and is_same_shape(x.shape, y.shape)


def _outputs(
    outer: Graph,
    kinds: Sequence[str],
    shapes: Iterable[Sequence[AnySize | None]],
    examples: Iterable[Sequence[AnySize]],
) -> tuple[list[Tensor], Places]:
    """Results of these shapes, with sizes that only a run knows in place of None, and of those that only an inner graph has."""
    outputs: list[Tensor] = []
    places: Places = {}
    for kind, shape, example in zip(kinds, shapes, examples, strict=True):
        known = _known(outer, shape)
        for axis, n in enumerate(known):
            if n is None:
                known[axis] = outer.sizes.computed_size(max(1, number_of(example[axis])))
                places[outer.sizes.computed[-1]] = len(outputs), axis
        outputs.append(Tensor(outer, known, FLOAT32 if kind == "f" else INT64))
    return outputs, places


def _known(outer: Graph, shape: Sequence[AnySize | None]) -> list[Any]:
    """Sizes of an inner graph in the graph around it, with None for those that are known only inside."""
    return [
        n if not isinstance(n, Size) else outer.sizes.here(n) if n.names() <= outer.sizes.numbers.keys() else None
        for n in shape
    ]


def _common_kind(x: ForeignTensor, y: ForeignTensor) -> str:
    if (x.kind == "f") != (y.kind == "f"):
        raise Misfit("a result is of whole numbers one way and of others the other way: a file needs one type")
    return x.kind if x.kind == y.kind else "i"


def _numbers(x: ForeignTensor, kind: str) -> Tensor:
    if kind == "f":
        return x.numbers
    value = x.value
    return value if value.dtype == INT64 else value.long()


def _flag(condition: ForeignTensor) -> Tensor:
    return condition.value.reshape(())


def _flat(given: Iterable[Any]) -> Iterator[ForeignTensor]:
    """Tensors, and those of lists."""
    for x in given:
        if isinstance(x, TensorList):
            yield from x
        else:
            yield x


def _filled(like: Iterable[Any], tensors: Iterable[ForeignTensor]) -> list[Any]:
    """Tensors in a row where others are, some of them in lists."""
    left = iter(tensors)
    return [TensorList([next(left) for _ in x]) if isinstance(x, TensorList) else next(left) for x in like]


def _length(x: Any) -> int | None:
    return len(x) if isinstance(x, TensorList) else None


def _of_rank(x: ForeignTensor, rank: int, inner: InnerGraph) -> ForeignTensor:
    """A single element with so many axes; anything else as it is.

    Exporters mix up numbers and rows of one number; operators do not, but for the number of axes of their results.
    """
    if x.rank == rank or any(expression_of(n).constant != 1 for n in x.shape):
        return x
    with recording(inner.graph):
        return ForeignTensor(reshaped(x, (1,) * rank), x.kind)


def recorded_now() -> Graph:
    """The graph that is being recorded."""
    graph = current_graph()
    assert graph is not None
    return graph
