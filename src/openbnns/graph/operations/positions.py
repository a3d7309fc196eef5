"""Gather, scatter and scatter-add by indices that are values of the network; sorting and cumulative sums."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import ReductionFunction, scatter
from ..calls import Calls, NumpyCall
from ..operation import Operation
from ..sizes import AnySize
from ..tensor import INT64, Array, Tensor
from ._base import clearing, copying
from ._numpy import computing
from .integers import require_range


class Take(Operation):
    """Entries along an axis by whole numbers, of any shape, which takes the place of the axis; gradients of repeats add up.

    Negative numbers count from the end.
    """

    is_pure = True
    keeps_inputs = True

    def __init__(self, x: Tensor, axis: int, indices: Tensor) -> None:
        self.axis = axis
        shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
        super().__init__([x, indices], Tensor(x.graph, shape, x.dtype))

    def forward(self, x: list[Array], y: Array, training: bool) -> Calls:
        whole, indices = x
        n = whole.shape[self.axis]

        def formula() -> Array:
            require_range(indices, -n, n, f"indexing: axis {self.axis}")
            taken: Array = np.take(whole, indices, self.axis)
            return taken

        return computing(y, formula)

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Calls:
        target, indices = dx[0], x[1]
        assert target is not None
        arriving = dy.reshape(*dy.shape[: self.axis], indices.size, *dy.shape[self.axis + indices.ndim :])
        return [clearing(target), _adding_entries(arriving, indices, target, self.axis)]


class TakeAlong(Operation):
    """y[i][j][k] = x[i][n[i][j][k]][k] along axis 1, and so along any: PyTorch's ``gather``."""

    is_pure = True
    keeps_inputs = True

    def __init__(self, x: Tensor, axis: int, indices: Tensor) -> None:
        self.axis = axis
        super().__init__([x, indices], Tensor(x.graph, indices.shape, x.dtype))

    def forward(self, x: list[Array], y: Array, training: bool) -> Calls:
        whole, indices = x
        return computing(y, lambda: whole[_places(indices, self.axis, whole, "gather")])

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Calls:
        target, indices = dx[0], x[1]
        assert target is not None
        return [clearing(target), _adding(dy, indices, target, self.axis, "gather")]


class PutAlong(Operation):
    """A copy of x in which elements of ``source`` replace those that ``indices`` name along an axis, or with ``adds`` are added.

    Of several elements for one place, the last in C order stays.
    """

    def __init__(self, x: Tensor, axis: int, indices: Tensor, source: Tensor, *, adds: bool) -> None:
        self.axis, self.adds = axis, adds
        super().__init__([x, indices, source], Tensor(x.graph, x.shape))

    @property
    def _who(self) -> str:
        return "scatter_add" if self.adds else "scatter"

    def passed_on(self) -> list[int]:
        return [0] if self.adds else []

    def forward(self, x: list[Array], y: Array, training: bool) -> Calls:
        base, indices, source = x
        source = source[tuple(map(slice, indices.shape))]
        if self.adds:
            return [copying(y, base), _adding(source, indices, y, self.axis, self._who)]

        def put() -> None:
            y[_places(indices, self.axis, y, self._who)] = source

        return [copying(y, base), put]

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Calls:
        calls: list[Calls] = []
        base, _, source = dx
        indices = x[1]
        if base is not None:
            calls.append(copying(base, dy))
            if not self.adds:
                calls.append(NumpyCall(lambda: base.__setitem__(_places(indices, self.axis, base, self._who), 0)))
        if source is not None:
            part = source[tuple(map(slice, indices.shape))]
            if part.size != source.size:
                calls.append(clearing(source))
            calls.append(computing(part, lambda: dy[_places(indices, self.axis, dy, self._who)]))
            if not self.adds:
                calls.append(
                    NumpyCall(lambda: _drop_replaced(part, _places(indices, self.axis, dy, self._who), dy.shape))
                )
        return calls


class AddEntries(Operation):
    """Zeros, of ``size`` along an axis, to which the entries of ``source`` are added where ``indices``, one for each, say."""

    def __init__(self, source: Tensor, axis: int, indices: Tensor, size: AnySize) -> None:
        self.axis = axis
        shape = (*source.shape[:axis], size, *source.shape[axis + 1 :])
        super().__init__([source, indices], Tensor(source.graph, shape))

    def forward(self, x: list[Array], y: Array, training: bool) -> Calls:
        source, indices = x
        n = y.shape[self.axis]
        check = NumpyCall(lambda: require_range(indices, 0, n, f"index_add: axis {self.axis}"))
        return [check, clearing(y), _adding_entries(source, indices, y, self.axis)]

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Calls:
        assert dx[0] is not None
        return computing(dx[0], np.take, dy, x[1], self.axis)


class Sort(Operation):
    """The elements along an axis in order, and where they stood; only the first ``count`` of them if that is given.

    Equal ones stay in the order that they have; NaN counts as larger than any number.
    """

    keeps_inputs = False
    keeps_output = True

    def __init__(self, x: Tensor, axis: int, *, descending: bool, count: AnySize | None = None) -> None:
        self.axis, self.descending = axis, descending
        shape = (*x.shape[:axis], x.shape[axis] if count is None else count, *x.shape[axis + 1 :])
        super().__init__([x], [Tensor(x.graph, shape), Tensor(x.graph, shape, INT64)])

    def forward_all(self, x: list[Array], y: list[Array], training: bool) -> Calls:
        (given,), (values, indices) = x, y
        axis, n, count = self.axis, given.shape[self.axis], values.shape[self.axis]

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


def _places(indices: Array, axis: int, whole: Array, who: str) -> tuple[Any, ...]:
    """An index of NumPy for the elements that whole numbers name along an axis, each at its own place along all others."""
    require_range(indices, 0, whole.shape[axis], f"{who}: axis {axis}")
    return tuple(indices if i == axis else n for i, n in enumerate(np.ogrid[tuple(map(slice, indices.shape))]))


def _adding(source: Array, indices: Array, target: Array, axis: int, who: str) -> NumpyCall:
    """A call that adds elements to those that whole numbers name along an axis."""

    def call() -> None:
        flat = np.ravel_multi_index(
            np.broadcast_arrays(*_places(indices, axis, target, who)), target.shape
        ) if target.ndim else np.zeros((), np.int64)  # fmt: skip
        np.add.at(target.reshape(-1), flat.reshape(-1), source.reshape(-1))

    return NumpyCall(call)


def _adding_entries(source: Array, indices: Array, target: Array, axis: int) -> NumpyCall:
    """A call that adds entries along an axis to those that whole numbers name."""
    n = target.shape[axis]

    def call() -> None:
        scatter(source, np.ascontiguousarray(indices.reshape(-1) % max(n, 1)), target, axis, ReductionFunction.sum())

    return NumpyCall(call)


def _drop_replaced(gradient: Array, places: tuple[Any, ...], shape: tuple[int, ...]) -> None:
    """Set to zero the gradients of elements in whose place a later one was put."""
    flat = np.ravel_multi_index(np.broadcast_arrays(*places), shape)
    latest = np.empty(int(np.prod(shape)), np.int64)
    numbers = np.arange(flat.size)
    latest[flat.reshape(-1)] = numbers
    gradient[(latest[flat.reshape(-1)] != numbers).reshape(gradient.shape)] = 0
