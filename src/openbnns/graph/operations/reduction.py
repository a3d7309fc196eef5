"""Sums, means, norms and extremes along axes; cumulative sums and sorting."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import DataType, ReductionFunction, ReductionLayer
from ..calls import Calls, NumpyCall, PlanCall, clearing, computing, copying
from ..operation import Operation
from ..sizes import AnySize
from ..tensor import FLOAT32, INT64, Array, Tensor
from .base import ShapedOperation, Sizes, merged_axes, shape

_POSITIONS: dict[str, Any] = {"arg_max": np.argmax, "arg_min": np.argmin}


class Reduction(ShapedOperation):
    """A reduction over axes; the result does not have them, or has them with size 1 if ``keep``."""

    is_pure = True

    def __init__(self, x: Tensor, function: ReductionFunction, axes: tuple[int, ...], keep: bool) -> None:
        self.function, self.axes = function, axes
        self.keeps_inputs = function.case not in ("sum", "mean")
        self.takes_integers = x.dtype == INT64
        if self.takes_integers and function.case not in _POSITIONS:
            raise ValueError(f"the reduction {function.case} is not one of integers")
        kept = [1 if axis in axes else n for axis, n in enumerate(x.shape) if keep or axis not in axes]
        dtype = INT64 if function.case in _POSITIONS else FLOAT32
        super().__init__([x], Tensor(x.graph, kept, dtype))

    def _sizes(self, x: Sizes) -> list[Sizes]:
        """The shapes of result and input with their axes merged."""
        return merged_axes([tuple(1 if axis in self.axes else n for axis, n in enumerate(x))], x)

    def make(self, x: list[Sizes], y: Sizes) -> Any:
        small, large = self._sizes(x[0])
        output: Any = shape(small)
        if self.output.dtype == INT64:
            output = output.descriptor(data_type=DataType.INT64)
        return ReductionLayer(function=self.function, input=shape(large), output=output)

    def forward(self, x: list[Array], y: Array, training: bool) -> Calls:
        if x[0].dtype == INT64:
            return computing(y.reshape(-1), lambda: _POSITIONS[self.function.case](x[0], self.axes[0]).reshape(-1))
        small, large = self._sizes(x[0].shape)
        return PlanCall(self.layer(x, y).apply, x[0].reshape(large), y.reshape(small))

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Calls:
        assert dx[0] is not None
        small, large = self._sizes(x[0].shape)
        read = x[0].reshape(large) if self.keeps_inputs else None
        return PlanCall(self.layer(x, y).apply_backward, read, None, dy.reshape(small), dx[0].reshape(large))


class Sort(Operation):
    """The elements along an axis in order, with their former positions; only the first ``count`` of them if that is given.

    Equal ones stay in the order that they have; NaN counts as larger than any number.
    """

    keeps_inputs = False
    keeps_output = True

    def __init__(self, x: Tensor, axis: int, *, descending: bool, count: AnySize | None = None) -> None:
        self.axis, self.descending = axis, descending
        shape = (*x.shape[:axis], x.shape[axis] if count is None else count, *x.shape[axis + 1 :])
        self.takes_integers = x.dtype == INT64
        super().__init__([x], [Tensor(x.graph, shape, x.dtype), Tensor(x.graph, shape, INT64)])

    def forward_all(self, x: list[Array], y: list[Array], training: bool) -> Calls:
        (given,), (values, indices) = x, y
        axis, n, count = self.axis, given.shape[self.axis], values.shape[self.axis]
        if n == count == 1:  # lengths of a batch of one, which models of sequences sort
            return [copying(values, given), clearing(indices)]

        def call() -> None:
            if self.descending:  # sorts the reversed elements, so that equal ones stay in order and NaN comes first
                order = np.flip(n - 1 - np.argsort(np.flip(given, axis), axis, kind="stable"), axis)
            else:
                order = np.argsort(given, axis, kind="stable")
            order = np.take(order, np.arange(count), axis)
            np.copyto(indices, order)
            np.copyto(values, np.take_along_axis(given, order, axis))

        return NumpyCall(call)

    def backward_all(
        self, x: list[Array], y: list[Array], dy: list[Array | None], dx: list[Array | None], dp: list[Array | None]
    ) -> Calls:
        target, arriving = dx[0], dy[0]
        assert target is not None and arriving is not None
        return [clearing(target), NumpyCall(lambda: np.put_along_axis(target, y[1], arriving, self.axis))]


class Cumulative(Operation):
    """Sums, or with ``product`` products, of all elements up to each along an axis."""

    def __init__(self, x: Tensor, axis: int, *, product: bool) -> None:
        self.axis, self.product = axis, product
        self.keeps_inputs = self.keeps_output = product
        super().__init__([x], Tensor(x.graph, x.shape))

    def forward(self, x: list[Array], y: Array, training: bool) -> Calls:
        return computing(y, np.cumprod if self.product else np.cumsum, x[0], self.axis)

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Calls:
        assert dx[0] is not None
        if not self.product:
            return computing(dx[0], lambda: _from_the_end(dy, self.axis))

        def formula() -> Array:
            if (x[0] != 0).all():
                return _from_the_end(dy * y, self.axis) / x[0]
            factors, arriving = (np.moveaxis(a, self.axis, -1) for a in (x[0], dy))
            return _slopes_of_products(factors, arriving, self.axis)

        return computing(dx[0], formula)


def _from_the_end(gradient: Array, axis: int) -> Array:
    """Sums of all elements from each to the last."""
    sums: Array = np.flip(np.cumsum(np.flip(gradient, axis), axis), axis)
    return sums


def _slopes_of_products(x: Array, dy: Array, axis: int) -> Array:
    """Gradients of products along the last axis, some of whose factors are 0; ``axis`` is where that axis belongs."""
    dx = np.empty_like(x)
    before = np.ones_like(x[..., 0])
    for i in range(x.shape[-1]):
        factors = np.concatenate([before[..., None], x[..., i + 1 :]], -1)
        dx[..., i] = (dy[..., i:] * np.cumprod(factors, -1)).sum(-1)
        before = before * x[..., i]
    return np.moveaxis(dx, -1, axis)
