"""Permute, slice, concatenate and repeat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import PermuteLayer, ReductionFunction, ReductionLayer, scatter
from ..calls import Calls, NumpyCall, PlanCall, clearing, copying, gathering
from ..operation import Operation
from ..sizes import AnySize, bound
from ..tensor import Array, Tensor
from .base import ShapedOperation, Sizes, merged_axes, shape


class Permute(ShapedOperation):
    """Axis k of the result is axis ``order[k]`` of the input."""

    is_pure = True
    keeps_inputs = False
    moves = True

    def __init__(self, x: Tensor, order: tuple[int, ...]) -> None:
        self.order = order
        super().__init__([x], Tensor(x.graph, [x.shape[axis] for axis in order], x.dtype))

    @property
    def swaps_last_two(self) -> bool:
        """True if the operation transposes matrices and does nothing else."""
        rank = len(self.order)
        return self.order == (*range(rank - 2), rank - 1, rank - 2)

    def make(self, x: list[Sizes], y: Sizes) -> Any:
        return PermuteLayer(input=shape(x[0]), output=shape(y), permutation=self.order)

    def forward(self, x: list[Array], y: Array, training: bool) -> Calls:
        if y.dtype.kind == "i":  # which layers do not permute
            return copying(y, x[0].transpose(self.order))
        return PlanCall(self.layer(x, y).apply, x[0], y)

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Calls:
        return PlanCall(self.layer(x, y).apply_backward, None, None, dy, dx[0])


class Slice(Operation):
    """A part of the elements by ``index``, a slice for every axis; its gradient is dy there and zero elsewhere."""

    is_pure = True
    keeps_inputs = False
    moves = True

    def __init__(self, x: Tensor, index: tuple[slice, ...], shape: Sequence[AnySize]) -> None:
        self.index = index
        super().__init__([x], Tensor(x.graph, shape, x.dtype))

    def _bound_index(self) -> tuple[Any, ...]:
        """The slices for the sizes of the program being made; with ``...`` a view, even of a single number."""
        slices = (
            slice(
                *(end if end is None else bound((end,), self.bound_sizes)[0] for end in (key.start, key.stop, key.step))
            )
            for key in self.index
        )
        return (*slices, ...)

    def forward(self, x: list[Array], y: Array, training: bool) -> Calls:
        return copying(y, x[0][self._bound_index()].reshape(y.shape))

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Calls:
        target = dx[0]
        assert target is not None
        return [clearing(target), copying(target[self._bound_index()], dy)]


class Pick(Operation):
    """Entries along an axis by whole numbers that are known when the network is recorded; gradients of repeats add up."""

    is_pure = True
    keeps_inputs = False
    moves = True

    def __init__(self, x: Tensor, axis: int, numbers: Array) -> None:
        self.axis, self.numbers = axis, numbers
        super().__init__([x], Tensor(x.graph, (*x.shape[:axis], len(numbers), *x.shape[axis + 1 :]), x.dtype))

    def forward(self, x: list[Array], y: Array, training: bool) -> Calls:
        in_numpy = NumpyCall(np.take, x[0], self.numbers, self.axis, y)
        numbers = np.where(self.numbers < 0, self.numbers + x[0].shape[self.axis], self.numbers).astype(np.int64)
        return gathering(y, x[0], numbers, self.axis, in_numpy)

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Calls:
        target = dx[0]
        assert target is not None
        numbers = np.ascontiguousarray(self.numbers, np.int64)

        def call() -> None:
            target.fill(0)
            scatter(dy, numbers, target, self.axis, ReductionFunction.sum())

        return NumpyCall(call)


class Split(Operation):
    """Parts along an axis, one after the other; the gradient of the whole holds those of the parts side by side."""

    is_pure = True
    keeps_inputs = False
    moves = True

    def __init__(self, x: Tensor, axis: int, sizes: Sequence[int]) -> None:
        self.axis, self.sizes = axis, tuple(sizes)
        parts = [Tensor(x.graph, (*x.shape[:axis], size, *x.shape[axis + 1 :]), x.dtype) for size in sizes]
        super().__init__([x], parts)

    def _parts(self, whole: Array) -> list[Array]:
        return np.split(whole, np.cumsum(self.sizes)[:-1], self.axis)

    def forward_all(self, x: list[Array], y: list[Array], training: bool) -> Calls:
        return _copies(list(zip(y, self._parts(x[0]), strict=True)))

    def backward_all(
        self, x: list[Array], y: list[Array], dy: list[Array | None], dx: list[Array | None], dp: list[Array | None]
    ) -> Calls:
        assert dx[0] is not None
        return _copies(list(zip(self._parts(dx[0]), dy, strict=True)))


class Concatenate(Operation):
    """Values side by side along an axis; each gradient is its part of dy."""

    is_pure = True
    keeps_inputs = False
    moves = True

    def __init__(self, parts: Sequence[Tensor], axis: int) -> None:
        self.axis = axis
        first, total = parts[0], sum(part.shape[axis] for part in parts)
        shape = (*first.shape[:axis], total, *first.shape[axis + 1 :])
        super().__init__(parts, Tensor(first.graph, shape, first.dtype))

    def _parts(self, x: list[Array], whole: Array) -> list[Array]:
        return np.split(whole, np.cumsum([part.shape[self.axis] for part in x])[:-1], self.axis)

    def forward(self, x: list[Array], y: Array, training: bool) -> Calls:
        return _copies(list(zip(self._parts(x, y), x, strict=True)))

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Calls:
        return _copies([(g, part) for g, part in zip(dx, self._parts(x, dy), strict=True) if g is not None])


class Expand(ShapedOperation):
    """A value repeated along axes of size 1, and along axes in front; its gradient is the sum over the copies."""

    is_pure = True
    keeps_inputs = False
    moves = True

    def __init__(self, x: Tensor, output: Tensor) -> None:
        super().__init__([x], output)

    def make(self, x: list[Sizes], y: Sizes) -> Any:
        small, large = merged_axes(x, y)
        return ReductionLayer(function=ReductionFunction.sum(), input=shape(large), output=shape(small))

    def forward(self, x: list[Array], y: Array, training: bool) -> Calls:
        return copying(y, np.broadcast_to(x[0], y.shape))

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Calls:
        assert dx[0] is not None
        if x[0].size == y.size:
            return copying(dx[0], dy.reshape(dx[0].shape))
        small, large = merged_axes([x[0].shape], y.shape)
        return PlanCall(self.layer(x, y).apply, dy.reshape(large), dx[0].reshape(small))


class Detach(Operation):
    """The same numbers, through which no gradient goes back."""

    is_pure = True
    keeps_inputs = False
    stops_gradient = True

    def __init__(self, x: Tensor) -> None:
        super().__init__([x], Tensor(x.graph, x.shape))

    def forward(self, x: list[Array], y: Array, training: bool) -> Calls:
        return copying(y, x[0])


def _copies(pairs: list[tuple[Array, Array | None]]) -> Calls:
    """Copies into each first array from each second; None stands for zeros."""
    return [clearing(target) if source is None else copying(target, source) for target, source in pairs]
