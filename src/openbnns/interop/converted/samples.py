"""Where samples stand in the tensors of a graph, proven operation by operation.

A file that was written for one number of samples says nothing about others. Its first axis may be free only if every operation
computes each sample by itself: then N samples give the results of N runs. The proof follows the samples through the graph. Of
every tensor they have one axis, whose size is ``outer * N * inner``: entry (o, n, i) of it belongs to sample n. A reshape keeps
all elements in order, so the axis is found again where as many elements stand in front of it and behind it as before. An
operation that computes across the axis, or that has no rule here, ends the proof.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..._plural import plural
from ...graph import operations
from ...graph.graph import Graph
from ...graph.operation import Operation
from ...graph.operations.rounding import RoundToHalf
from ...graph.polynomials import Polynomial
from ...graph.sizes import AnySize, Size, expression_of, is_same, product, sized
from ...graph.tensor import Tensor

_UNKNOWN = "other numbers of samples are not proven to give what their samples give one by one"


class NotProven(ValueError):
    """An error for a network whose number of samples has to stay that of the file, for a ``reason``."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(
            f"{_UNKNOWN}: {reason}. Pass batch_axis=None to keep the number of the file, or export it with dynamic axes."
        )


class Fixed(NamedTuple):
    """The number of samples that a file was made for, where no other is proven, and why."""

    number: int
    reason: str

    def __str__(self) -> str:
        single = ", or run one sample at a time, as net.predict(samples) does" if self.number == 1 else ""
        return (
            f"The file was made for {plural(self.number, 'sample')}, and {_UNKNOWN}: {self.reason}. Export it with dynamic "
            f"axes{single}."
        )


@dataclass(frozen=True)
class SampleAxis:
    """The axis of the samples, whose size is ``outer * N * inner``."""

    axis: int
    outer: AnySize = 1
    inner: AnySize = 1

    def at(self, axis: int) -> SampleAxis:
        """Samples of this structure on another axis."""
        return SampleAxis(axis, self.outer, self.inner)


@dataclass(frozen=True)
class Mixed:
    """A tensor in which samples are not apart, and why."""

    reason: str


Standing = SampleAxis | Mixed | None
"""Where the samples are; None for a tensor that is the same for all of them."""


class Samples(Mapping[int, Size]):
    """The free number of samples by the number of the file, and where the samples stand in the tensors of a graph.

    ``starts`` are the axes of the inputs. A graph without a proof, such as that of a branch, has no ``starts``.
    """

    def __init__(self, graph: Graph, number: int, size: Size, starts: Mapping[Tensor, int] | None = None) -> None:
        self._graph, self._number, self._size = graph, number, size
        (self._name,) = size.names()
        self._known: dict[Tensor, Standing] = {x.storage: SampleAxis(axis) for x, axis in (starts or {}).items()}
        self._own_axes = set((starts or {}).values())
        self._proves = starts is not None

    def __getitem__(self, number: int) -> Size:
        if number != self._number:
            raise KeyError(number)
        return self._size

    def __iter__(self) -> Iterator[int]:
        return iter((self._number,))

    def __len__(self) -> int:
        return 1

    def inside(self, graph: Graph) -> Samples:
        """The number of samples in a graph inside of an operation, where nothing is proven."""
        return self if graph is self._graph else Samples(graph, self._number, Size(graph.sizes, self._size.expression))

    # Shapes.

    def depends(self, size: Any) -> bool:
        """True if a size depends on the number of samples."""
        return isinstance(size, Size) and self._name in size.names()

    def as_written(self, size: AnySize) -> AnySize:
        """A size with the number of the file in place of the free one."""
        if not self.depends(size):
            return size
        return sized(self._graph.sizes, expression_of(size).replaced({self._name: self._number}))

    def shape_for(self, x: Tensor, sizes: Sequence[AnySize]) -> list[AnySize] | None:
        """The shape that a reshape has for any number of samples, from the one that the file has; None if there is none.

        ``sizes`` are those of the file, one of which may be -1, or some that depend on the number of samples already.
        """
        place = self.of(x) if self._proves else None
        if not isinstance(place, SampleAxis):
            return None
        given = list(sizes)
        if any(map(self.depends, given)) and isinstance(_moved(place, x.shape, given, self._size), SampleAxis):
            return given
        count = self.as_written(product(x.shape))
        written = [self.as_written(n) for n in given]
        for axis, n in enumerate(written):
            if isinstance(n, int) and n == -1:
                known = product(m for i, m in enumerate(written) if i != axis)
                if is_same(known, 0):
                    return None
                written[axis] = count // known
        if not is_same(product(written), count):
            return None
        front = product(x.shape[: place.axis]) * place.outer
        possible: list[tuple[tuple[bool, ...], list[AnySize]]] = []
        for axis, n in enumerate(written):
            outer = _quotient(front, product(written[:axis]))
            inner = None if outer is None else _quotient(n, outer * self._number)
            if outer is None or inner is None:
                continue
            shape = [*written[:axis], outer * self._size * inner, *written[axis + 1 :]]
            if not isinstance(_moved(place, x.shape, shape, self._size), SampleAxis):
                continue
            # All of these are right. Best is an axis of samples alone, then one in which they come first, as those of heads;
            # worst is one that joins them with all that stands behind.
            alone = is_same(n, self._number)
            joins_all = not is_same(inner, 1) and is_same(product(written[axis + 1 :]), 1)
            possible.append(((not alone, joins_all, not is_same(outer, 1), axis != place.axis), shape))
        return min(possible, key=lambda one: one[0])[1] if possible else None

    # The proof.

    def of(self, x: Tensor) -> Standing:
        """Where the samples stand in a tensor."""
        storage = x.storage
        self._follow(storage)
        place = self._known[storage]
        if x.source is None or not isinstance(place, SampleAxis):
            return place
        return _moved(place, storage.shape, x.shape, self._size)

    def unproven(self, outputs: Iterable[Tensor]) -> str | None:
        """Why the number of samples has to be that of the file; None if it is proven free."""
        sizes = self._graph.sizes
        guard = sizes.failing({**sizes.numbers, self._name: self._number})
        if guard is None and isinstance(sizes.without_guards().get(self._name), int):
            guard = next(guard for guard in sizes.guards if self._name in guard.names())
        if guard is not None:
            return f"the number of samples decides what is computed, {guard}"
        for number, x in enumerate(outputs):
            place = self.of(x)
            if isinstance(place, Mixed):
                return place.reason
            if place is None:
                return f"output {number}, of shape {x.shape}, is the same for all samples"
            if self._own_axes == {0} and place.axis != 0:
                return f"samples are on axis {place.axis} of output {number}, of shape {x.shape}, not on the first"
            if not is_same(x.shape[place.axis], self._size):
                return f"output {number}, of shape {x.shape}, has several entries for each sample"
        return None

    def _follow(self, storage: Tensor) -> None:
        """Find the samples in a tensor that an operation gives, and in all before it, without recursion."""
        left = [storage]
        while left:
            one = left[-1]
            if one in self._known:
                left.pop()
                continue
            producer = one.producer
            if producer is None:
                self._known[one] = self._of_leaf(one)
                continue
            read = [producer.result] if isinstance(producer, operations.Composite) else producer.inputs
            waiting = [v.storage for v in read if v.storage not in self._known]
            if waiting:
                left += waiting
                continue
            for output, place in zip(producer.outputs, self._results(producer), strict=True):
                self._known[output] = place

    def _of_leaf(self, leaf: Tensor) -> Standing:
        if self.depends(leaf.leaf) or any(map(self.depends, leaf.shape)):
            return Mixed("it computes with the number of samples")
        return None

    def _results(self, operation: Operation) -> list[Standing]:
        if isinstance(operation, operations.Composite):
            return [self.of(operation.result)] * len(operation.outputs)
        places = list[SampleAxis | None]()
        for place in map(self.of, operation.inputs):
            if isinstance(place, Mixed):
                return [place] * len(operation.outputs)
            places.append(place)
        if all(place is None for place in places):
            return [self._of_same(operation, y) for y in operation.outputs]
        rule = next((_RULES[kind] for kind in type(operation).__mro__ if kind in _RULES), None)
        made = None if rule is None else rule(operation, places)
        axes = made if isinstance(made, list) else [made] * len(operation.outputs)
        return [self._checked(operation, y, place) for y, place in zip(operation.outputs, axes, strict=True)]

    def _of_same(self, operation: Operation, y: Tensor) -> Standing:
        """Where samples stand in what is computed of nothing that belongs to one."""
        axes = [axis for axis, n in enumerate(y.shape) if self.depends(n)]
        repeats = isinstance(operation, (operations.Expand, operations.RandomNumbers))
        if axes and not (repeats and len(axes) == 1):
            return Mixed(f"{operation.title} computes with the number of samples")
        if isinstance(operation, operations.Range) and any(map(self.depends, (operation.start, operation.step))):
            return Mixed(f"{operation.title} computes with the number of samples")
        if not axes:
            return None
        inner = _quotient(y.shape[axes[0]], self._size)
        return self._checked(operation, y, None if inner is None else SampleAxis(axes[0], 1, inner))

    def _checked(self, operation: Operation, y: Tensor, place: SampleAxis | None) -> Standing:
        """A place whose axis has the size that it should, and no other axis depends on the number of samples."""
        if place is not None:
            axes = [axis for axis, n in enumerate(y.shape) if self.depends(n)]
            if axes == [place.axis] and is_same(y.shape[place.axis], place.outer * self._size * place.inner):
                return place
        return Mixed(f"{operation.title} computes across samples, or may do so")


def _quotient(dividend: AnySize, divisor: AnySize) -> AnySize | None:
    """The quotient of two sizes if it comes out even for all free sizes."""
    if is_same(divisor, 0):
        return None
    free = next((n.free for n in (dividend, divisor) if isinstance(n, Size)), None)
    whole: Polynomial = expression_of(dividend) // expression_of(divisor)
    if whole * expression_of(divisor) != expression_of(dividend):
        return None
    if free is None:
        return whole.constant
    return sized(free, whole)


def _moved(place: SampleAxis, old: Sequence[AnySize], new: Sequence[AnySize], size: Size) -> SampleAxis | Mixed:
    """Where samples are after a reshape: with as many elements in front of them and behind them as before."""
    (name,) = size.names()
    front = product(old[: place.axis]) * place.outer
    behind = product(old[place.axis + 1 :]) * place.inner
    axes = [axis for axis, n in enumerate(new) if isinstance(n, Size) and name in n.names()]
    if len(axes) == 1:
        (axis,) = axes
        outer, inner = _quotient(front, product(new[:axis])), _quotient(behind, product(new[axis + 1 :]))
        if outer is not None and inner is not None and is_same(new[axis], outer * size * inner):
            return SampleAxis(axis, outer, inner)
    return Mixed(f"a reshape from {tuple(old)} to {tuple(new)} does not keep samples apart")


# Rules: from an operation and the places of its inputs to the place in its output, or None if samples are not apart.

SampleAxes = Sequence[SampleAxis | None]
Rule = Callable[[Any, SampleAxes], Any]
_RULES: dict[type, Rule] = {}


def _rule(*kinds: type) -> Callable[[Rule], Rule]:
    def decorate(rule: Rule) -> Rule:
        for kind in kinds:
            _RULES[kind] = rule
        return rule

    return decorate


def _beside(place: SampleAxis | None, axes: Iterable[int]) -> SampleAxis | None:
    """The place, unless it is one of the axes that an operation computes along."""
    return None if place is None or place.axis in set(axes) else place


def _common(places: Iterable[SampleAxis | None]) -> SampleAxis | None:
    """The one place of all operands that have samples."""
    different = {place for place in places if place is not None}
    return different.pop() if len(different) == 1 else None


def _aligned(operation: Operation, places: SampleAxes) -> SampleAxis | None:
    """Where samples are in the broadcast result, whose axes are matched from the last one."""
    rank = operation.output.ndim
    pairs = zip(operation.inputs, places, strict=True)
    return _common(None if place is None else place.at(place.axis + rank - x.ndim) for x, place in pairs)


@_rule(operations.Convert, operations.Detach, operations.Forbidden, operations.Expand, operations.Choice, RoundToHalf)
def _by_element(operation: Any, places: SampleAxes) -> SampleAxis | None:
    return _aligned(operation, places)


@_rule(operations.Dropout)
def _dropped(operation: Any, places: SampleAxes) -> SampleAxis | None:
    return places[0]


@_rule(operations.Prelu)
def _with_slopes(operation: Any, places: SampleAxes) -> SampleAxis | None:
    return _beside(places[0], [1])


@_rule(operations.Activation)
def _activated(operation: Any, places: SampleAxes) -> SampleAxis | None:
    return _beside(places[0], [operation.axis] if operation.along_axis else [])


@_rule(operations.Node)
def _declared(operation: Any, places: SampleAxes) -> SampleAxis | None:
    if operation.declared.infer is None:
        return _aligned(operation, places)
    if operation.name == "matmul":
        return _product(operation, places, (False, False))
    axes: set[int] = set()
    for kind, given in zip(operation.declared.attributes, operation.attributes, strict=True):
        if kind not in ("Axes", "Axis", "bool"):
            return None
        if kind != "bool":
            axes |= {given} if isinstance(given, int) else set(given)
    return _reduced(operation, places[0], axes)


def _reduced(operation: Any, place: SampleAxis | None, axes: Iterable[int]) -> SampleAxis | None:
    axes, (x, *_) = set(axes), operation.inputs
    if place is None or place.axis in axes:
        return None
    return place if operation.output.ndim == x.ndim else place.at(place.axis - sum(axis < place.axis for axis in axes))


@_rule(operations.Reduction)
def _reduction(operation: Any, places: SampleAxes) -> SampleAxis | None:
    return _reduced(operation, places[0], operation.axes)


@_rule(operations.Sort, operations.Cumulative, operations.Pick, operations.Split)
def _along_one_axis(operation: Any, places: SampleAxes) -> SampleAxis | None:
    return _beside(places[0], [operation.axis])


@_rule(operations.Concatenate)
def _joined(operation: Any, places: SampleAxes) -> SampleAxis | None:
    return _beside(_common(places), [operation.axis])


@_rule(operations.Slice)
def _sliced(operation: Any, places: SampleAxes) -> SampleAxis | None:
    (place,) = places
    assert place is not None
    own = operation.index[place.axis]
    whole = own.start in (None, 0) and own.step in (None, 1)
    free = {n for key in operation.index for n in (key.start, key.stop, key.step) if isinstance(n, Size)}
    return place if whole and is_same(operation.output.shape[place.axis], operation.inputs[0].shape[place.axis]) and not (
        free - {own.stop}
    ) else None  # fmt: skip


@_rule(operations.Padding)
def _padded(operation: Any, places: SampleAxes) -> SampleAxis | None:
    return _beside(places[0], [axis for axis, pair in enumerate(operation.widths) if any(pair)])


@_rule(operations.Permute)
def _permuted(operation: Any, places: SampleAxes) -> SampleAxis | None:
    (place,) = places
    assert place is not None
    return place.at(operation.order.index(place.axis))


@_rule(operations.Linear)
def _linear(operation: Any, places: SampleAxes) -> SampleAxis | None:
    return _beside(places[0], [operation.inputs[0].ndim - 1])


@_rule(operations.MatrixProduct)
def _matrix_product(operation: Any, places: SampleAxes) -> SampleAxis | None:
    return _product(operation, places, operation.transposed)


def _product(operation: Any, places: SampleAxes, transposed: tuple[bool, bool]) -> SampleAxis | None:
    rank, ends = operation.output.ndim, list[SampleAxis]()
    if min(x.ndim for x in operation.inputs) < 2:
        return None
    for number, (x, place, swapped) in enumerate(zip(operation.inputs, places, transposed, strict=True)):
        if place is None:
            continue
        inside = place.axis - (x.ndim - 2)  # 0 and 1 are the axes of matrices
        if inside >= 0 and (inside ^ swapped) != number:
            return None  # the sum of the products goes along it
        ends.append(place.at(rank - 2 + number if inside >= 0 else place.axis + rank - x.ndim))
    return ends[0] if len(set(ends)) == 1 and (len(ends) == 1 or ends[0].axis < rank - 2) else None


@_rule(operations.Contraction)
def _contracted(operation: Any, places: SampleAxes) -> SampleAxis | None:
    letters = {
        (names[place.axis], place.outer, place.inner)
        for names, place in zip(operation.letters, places, strict=True)
        if place is not None
    }
    if len(letters) != 1 or any(len(set(names)) != len(names) for names in operation.letters):
        return None
    letter, outer, inner = letters.pop()
    shared = sum(letter in names for names in operation.letters)
    alone = shared == sum(place is not None for place in places)
    return SampleAxis(operation.result.index(letter), outer, inner) if alone and letter in operation.result else None


@_rule(
    operations.Convolution, operations.GroupedTransposedConvolution, operations.Pooling, operations.MaxPoolingWithIndices,
    operations.Resize, operations.PixelShuffle,
)  # fmt: skip
def _images(operation: Any, places: SampleAxes) -> SampleAxis | None:
    return _first(places[0]) if all(place is None for place in places[1:]) else None


@_rule(operations.MaxUnpooling)
def _unpooled(operation: Any, places: SampleAxes) -> SampleAxis | None:
    return _first(_common(places)) if None not in places else None


def _first(place: SampleAxis | None) -> SampleAxis | None:
    return place if place is not None and place.axis == 0 else None


@_rule(operations.Lstm, operations.Recurrent)
def _cells(operation: Any, places: SampleAxes) -> SampleAxis | None:
    x, *states = places
    own = [0 if state.index is None else 1 for state in operation.initial]
    expected = [*own, 0][: len(states)]
    fits = all(s is None or (x is not None and s == x.at(axis)) for s, axis in zip(states, expected, strict=True))
    return _first(x) if fits else None


@_rule(operations.Normalization)
def _normalized(operation: Any, places: SampleAxes) -> SampleAxis | None:
    x, sample = operation.inputs[0], operation.sample
    if any(place is not None for place in places[1:]):
        return None
    if len(sample) > 1:
        return _beside(places[0], range(1, x.ndim))
    # A vector is that of the last axes, however many.
    first = next((axis for axis in reversed(range(x.ndim)) if is_same(product(x.shape[axis:]), sample[0])), 0)
    return _beside(places[0], range(first, x.ndim))


@_rule(operations.FourierTransform)
def _transformed(operation: Any, places: SampleAxes) -> SampleAxis | None:
    rank = operation.inputs[0].ndim - (operation.kind != "rfft")
    return _beside(places[0], [operation.axis % rank])


@_rule(operations.Embedding)
def _looked_up(operation: Any, places: SampleAxes) -> SampleAxis | None:
    return places[0]


@_rule(operations.Take)
def _taken(operation: Any, places: SampleAxes) -> SampleAxis | None:
    x, indices = places
    axis, more = operation.axis, operation.inputs[1].ndim - 1
    if x is None:
        return None if indices is None else indices.at(axis + indices.axis)
    if indices is not None or x.axis == axis:
        return None
    return x if x.axis < axis else x.at(x.axis + more)


@_rule(operations.TakeAlong, operations.PutAlong)
def _along_places(operation: Any, places: SampleAxes) -> SampleAxis | None:
    return _beside(_common(places), [operation.axis]) if None not in places else None


@_rule(operations.AddEntries)
def _added(operation: Any, places: SampleAxes) -> SampleAxis | None:
    return _beside(places[0], [operation.axis]) if places[1] is None else None


@_rule(operations.AttentionHeads)
def _heads(operation: Any, places: SampleAxes) -> SampleAxis | None:
    return _first(_common(places)) if None not in places else None


@_rule(operations.CustomFunction)
def _custom(operation: Any, places: SampleAxes) -> SampleAxis | None:
    return _aligned(operation, places) if operation.function._acts_by_element(operation.arguments) else None
