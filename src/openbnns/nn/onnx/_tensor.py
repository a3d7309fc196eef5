"""Tensors of an ONNX graph as values here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import functional as F
from .. import memory_limit
from .._graph import current_graph
from .._value import BatchSize, Value
from ..converted.sizes import Size, batch_axis
from ..converted.tensors import Misfit
from ..converted.tensors import Tensor as AnyTensor
from ..function import Function
from ..parameter import Parameter
from . import _numpy
from ._call import Call


class Tensor(AnyTensor):
    """A tensor of ONNX; ``shape`` is ONNX's, with a ``Size`` for the batch.

    Where a model describes one sample, its tensors have no batch, and those that depend on the inputs are held with one in
    front: what the model does is done for every sample.
    """

    def __init__(self, held: Any, shape: Sequence[Any] | None = None, kind: str = "f") -> None:
        if shape is None:
            first = (Size(held.rows),) if isinstance(held, Value) and held.rows else ()
            shape = (*first, *(held.sample if isinstance(held, Value) else held.shape))
        self.held, self.shape, self.kind = held, tuple(shape), kind
        self.batch = batch_axis(self.shape)
        found = tuple(held.sample if isinstance(held, Value) else held.shape)
        if found != self.rest or (self.batch is not None and self.held_rows not in (0, self.rows)):
            raise Misfit(f"its result is {getattr(held, 'shape', found)} here, but {self.shape} in ONNX")
        if isinstance(held, Value):
            memory_limit.check(4 * held.count, f"a tensor of shape {self.shape}", Misfit)

    @property
    def held_rows(self) -> int:
        """Rows of the batch that the value has, whether the tensor has one in ONNX or not."""
        return self.held.rows if isinstance(self.held, Value) else 0

    @property
    def constant(self) -> bool:
        """Whether all its numbers are known."""
        return isinstance(self.held, np.ndarray) and self.batch is None

    @property
    def sampled(self) -> bool:
        """Whether it is one sample of many, without a batch in ONNX."""
        return self.batch is None and self.held_rows > 0

    def axis(self, dim: int) -> int:
        if self.batch is not None:
            return super().axis(dim)
        if not -self.rank <= dim < self.rank:
            raise Misfit(f"there is no axis {dim} in {self.shape}")
        return dim % self.rank + bool(self.held_rows)

    def aligned(self, shape: tuple[Any, ...]) -> Value:
        if self.sampled:
            missing = len(shape) - self.rank
            value = self.numbers
            return value.reshape((value.shape[0], *[1] * missing, *value.sample)) if missing > 0 else value
        return super().aligned(shape)

    def by_axis_first(self) -> tuple[Value, Callable[[Value], Tensor]]:
        """A value whose batch is the first axis of ONNX's tensor, and how a result of that kind becomes a tensor."""
        if not self.rank:
            raise Misfit("a single number has no samples")
        if self.batch == 0:
            first = self.shape[0]
            return self.batched, lambda y: Tensor(y, (first, *y.sample))
        if not self.sampled:
            where = "has no batch" if self.batch is None else f"has its batch at axis {self.batch}"
            raise Misfit(f"its input {self.shape} {where}, but must have it in front")
        value, count, rows = self.numbers, self.shape[0], self.held_rows
        merged = value.reshape((BatchSize(rows * count), *value.sample[1:]))
        return merged, lambda y: Tensor(y.reshape((BatchSize(rows), count, *y.sample)), (count, *y.sample))

    def free(self, axes: Sequence[int], what: str) -> None:
        """Refuse to mix the samples of a batch along these axes."""
        if self.batch is not None and any(axis % self.rank == self.batch for axis in axes):
            raise Misfit(
                f"{what} runs over axis {self.batch} of {self.shape}, which is the batch, and would mix its samples. If the "
                "model describes one sample, pass batch_axis=None"
            )


def constant_of(x: Tensor | None, what: str) -> Any:
    """The numbers of an input that must be a constant; None if it is left out."""
    if x is None:
        return None
    if not x.constant:
        raise Misfit(f"{what} is computed from the inputs, or trained, but must be a constant")
    return x.held


def numbers_of(x: Tensor | None, what: str) -> list[Any] | None:
    """Whole numbers, some of which may be the size of the batch."""
    array = constant_of(x, what)
    if array is None:
        return None
    if array.dtype.kind not in "iuO":
        raise Misfit(f"{what} must be whole numbers, not {array.dtype}")
    return [n if isinstance(n, Size) else int(n) for n in array.ravel()]


def plain_numbers(x: Tensor | None, what: str) -> list[int] | None:
    found = numbers_of(x, what)
    if found is not None and any(isinstance(n, Size) for n in found):
        raise Misfit(f"{what} is the size of the batch, which is no number here")
    return found


def broadcast_shape(shapes: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
    """The shape of the result of an operation element by element."""
    rank = max(map(len, shapes))
    result: list[Any] = []
    for axis in range(rank):
        sizes = {shape[axis - rank + len(shape)] for shape in shapes if axis - rank + len(shape) >= 0} - {1}
        batch = [n for n in sizes if isinstance(n, Size)]
        if len(sizes) > 1:
            raise Misfit(f"{' and '.join(map(str, shapes))} do not fit together")
        result.append(batch[0] if batch else sizes.pop() if sizes else 1)
    return tuple(result)


def weights_of(x: Tensor | None) -> Any:
    """What layers take as weights: a parameter, an array or None."""
    if x is None or isinstance(x.held, Parameter) or x.constant:
        return None if x is None else x.held
    raise Misfit("its weights must be initializers or constants of the model, but are computed, or are inputs")


# Whole numbers and masks.


class ByNumpy(Function):
    """An operator in NumPy, through which no gradient goes back."""

    @staticmethod
    def forward(ctx: Any, *given: Any) -> Any:
        *arrays, recipe = given
        return recipe.run(arrays)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return (None,) * len(ctx.needs_input_grad)


class Recipe:
    """How a node acts on arrays that have the batch in front."""

    def __init__(self, call: Call, tensors: Sequence[Tensor | None]) -> None:
        self.call, self.tensors = call, list(tensors)
        self.sampled = any(x is not None and x.sampled for x in tensors)
        self.axes: list[int | None] = []  # of the batch in the results

    @property
    def values(self) -> list[Value]:
        return [x.value for x in self.tensors if x is not None and not isinstance(x.held, np.ndarray)]

    def run(self, arrays: Sequence[Any]) -> Any:
        results = self.results(arrays)
        moved = [np.moveaxis(y, axis, 0) if axis is not None else y for y, axis in zip(results, self.axes, strict=True)]
        return tuple(moved) if len(moved) > 1 else moved[0]

    def results(self, arrays: Sequence[Any]) -> list[Any]:
        """In ONNX's shapes; samples in front if the model describes one."""
        given = iter(arrays)
        held: list[Any] = [
            None if x is None else x.held if isinstance(x.held, np.ndarray) else next(given) for x in self.tensors
        ]
        count = max(
            (len(a) for a, x in zip(held, self.tensors, strict=True) if x is not None and x.held_rows), default=1
        )
        if not self.sampled:
            placed = [self._placed(a, x, count) for a, x in zip(held, self.tensors, strict=True)]
            return list(_numpy.compute(self.call, placed))
        rows = [
            _numpy.compute(
                self.call,
                [
                    None if x is None else _typed(a[i] if x.held_rows else a, x)
                    for a, x in zip(held, self.tensors, strict=True)
                ],
            )
            for i in range(count)
        ]
        return [np.stack(parts) for parts in zip(*rows, strict=True)]

    def _placed(self, array: Any, x: Tensor | None, count: int) -> Any:
        if x is None:
            return None
        array = _typed(array, x)
        if x.batch is None:
            return array
        if x.same_for_all:
            return np.repeat(np.expand_dims(array, x.batch), count, x.batch)
        return np.moveaxis(array, 0, x.batch)


def _typed(array: Any, x: Tensor) -> Any:
    return array != 0 if x.kind == "b" and array.dtype != np.bool_ else array


def by_numpy(call: Call, tensors: Sequence[Tensor | None]) -> tuple[Tensor, ...]:
    """The results of a node that is computed in NumPy."""
    recipe = Recipe(call, tensors)
    for value in recipe.values:
        memory_limit.check(8 * value.count, f"a sample of shape {value.sample} in NumPy", Misfit)
    trials = []
    for batch in (2, 3):
        ones = [np.ones(value.concrete(batch), value.dtype) for value in recipe.values]
        trials.append(recipe.results(ones))
    shapes, kinds = [], []
    for a, b in zip(*trials, strict=True):
        shape = tuple(_joined(m, n) for m, n in zip(a.shape, b.shape, strict=True))
        place = batch_axis(shape)
        recipe.axes.append(0 if recipe.sampled else place)
        shapes.append(shape[1:] if recipe.sampled else shape)
        kinds.append("b" if a.dtype == np.bool_ else "f" if a.dtype.kind == "f" else "i")
    graph = current_graph()
    assert graph is not None
    made = ByNumpy.apply(*recipe.values, recipe)
    outputs = made if isinstance(made, tuple) else (made,)
    return tuple(Tensor(y, shape, kind) for y, shape, kind in zip(outputs, shapes, kinds, strict=True))


def _joined(m: int, n: int) -> Any:
    if m == n:
        return m
    if m % 2 or n % 3 or m // 2 != n // 3:
        raise Misfit("the shape of its result depends on the size of the batch")
    return Size(m // 2)


def one_of_many(array: Any, axis: int) -> Any:
    """A constant without an axis that is the batch, along which all entries are the same."""
    first = np.take(array, 0, axis)
    if not (array == np.expand_dims(first, axis)).all():
        raise Misfit(f"a constant of shape {array.shape} holds samples of its own")
    return first


def expanded(x: Tensor, shape: tuple[Any, ...]) -> Tensor:
    """Repeated to a shape; what becomes the batch is the same for all samples."""
    batch = batch_axis(shape)
    rest = [n for n in shape if not isinstance(n, Size)]
    if isinstance(x.held, np.ndarray) and x.held.dtype != object:
        own = x.held
        if batch is not None and x.batch is None and batch - (len(shape) - x.rank) >= 0:
            own = one_of_many(own, batch - (len(shape) - x.rank))
        _numpy.limited(rest)
        return Tensor(np.array(np.broadcast_to(own, rest), order="C"), shape, x.kind)
    value = x.aligned(shape)
    if tuple(rest) != value.sample:
        value = F.expand(value, *([BatchSize(value.rows)] if value.rows else []), *rest)
    return Tensor(value, shape, "f")
