"""Lookups by integers: rows of a table, entries and elements along axes, ranges and flat indices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import EmbeddingLayer, ReductionFunction, Shape, scatter
from ..calls import Call, Calls, NumpyCall, PlanCall, clearing, computing, copying, gathering, scattering
from ..graph import Graph
from ..operation import Operation
from ..parameter import Parameter
from ..sizes import AnySize, bound
from ..tensor import FLOAT32, INT64, Array, Tensor
from .base import IN_PLACE, wanted


class Range(Operation):
    """``start``, ``start + step`` and so on: as many numbers as free sizes say."""

    is_pure = True

    def __init__(
        self, graph: Graph, start: AnySize | float, step: AnySize | float, count: AnySize, *, whole: bool
    ) -> None:
        self.start, self.step = start, step
        super().__init__([], Tensor(graph, (count,), INT64 if whole else FLOAT32))

    def forward(self, x: list[Array], y: Array, training: bool) -> Calls:
        start, step = (n if isinstance(n, float) else bound((n,), self.bound_sizes)[0] for n in (self.start, self.step))
        numbers: Array = start + step * np.arange(len(y))
        return copying(y, numbers.astype(y.dtype))


class FlatIndex(Operation):
    """One whole number for several axes: where the element is that has these numbers along them, if the axes are one.

    A negative number counts from the end of its axis.
    """

    is_pure = True
    keeps_inputs = False

    def __init__(self, numbers: Sequence[Tensor], sizes: Sequence[AnySize], output: Tensor) -> None:
        self.sizes = tuple(sizes)
        super().__init__(numbers, output)

    def forward(self, x: list[Array], y: Array, training: bool) -> Calls:
        sizes = bound(self.sizes, self.bound_sizes)

        def formula() -> Array:
            flat: Array = np.zeros((), np.int64)
            for axis, (numbers, n) in enumerate(zip(x, sizes, strict=True)):
                require_range(numbers, -n, n, f"indexing: axis {axis} of those indexed")
                flat = flat * n + numbers % max(n, 1)
            return flat

        return computing(y, formula)


def require_range(numbers: Array, least: int, end: int, who: str) -> None:
    """Refuse whole numbers that name no entry."""
    if numbers.size and (numbers.min() < least or numbers.max() >= end):
        wrong = numbers[(numbers < least) | (numbers >= end)].flat[0]
        raise IndexError(
            f"{who} has {end} entries, so {wrong} is out of range. Pass numbers from {least} to {end - 1}."
        )


class Embedding(Operation):
    """Rows of a table by number; row ``padding_index`` gets no gradient."""

    def __init__(self, graph: Graph, x: Tensor, weight: Parameter, padding_index: int | None) -> None:
        self.weight, self.padding_index = weight, padding_index
        super().__init__([x], Tensor(graph, (*x.shape, weight.shape[1]), FLOAT32), [weight])

    def _layer(self, count: int) -> Any:
        """The layer that looks up ``count`` rows at a time."""
        return self.made(
            count,
            lambda: EmbeddingLayer(
                input=Shape.vector(count),
                dictionary=self.weight.array,
                padding_index=self.padding_index,
                filter_parameters=IN_PLACE,
            ),
        )

    def forward(self, x: list[Array], y: Array, training: bool) -> Calls:
        count = math.prod(x[0].shape[1:])
        return PlanCall(self._layer(count).apply, x[0].reshape(-1, count), y.reshape(-1, count, self.weight.shape[1]))

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Calls:
        count = math.prod(x[0].shape[1:])
        gradient = dy.reshape(-1, count, self.weight.shape[1])
        return PlanCall(
            self._layer(count).apply_backward,
            x[0].reshape(-1, count),
            output_gradient=gradient,
            generating_weights_gradient=wanted(dp[0]),
        )


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

        in_a_row = (*whole.shape[: self.axis], indices.size, *whole.shape[self.axis + 1 :])
        return gathering(y.reshape(in_a_row), whole, indices.reshape(-1), self.axis, computing(y, formula))

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
        in_numpy = computing(y, lambda: whole[_places(indices, self.axis, whole, "gather")])
        covers = all(n == m for i, (n, m) in enumerate(zip(indices.shape, whole.shape, strict=True)) if i != self.axis)
        return gathering(y, whole, indices, self.axis, in_numpy) if covers else in_numpy

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
        self.takes_integers = x.dtype == INT64
        if source.dtype != x.dtype:
            raise ValueError(f"{self._who}: {source.dtype} cannot be put among {x.dtype}.")
        super().__init__([x, indices, source], Tensor(x.graph, x.shape, x.dtype))

    @property
    def _who(self) -> str:
        return "scatter_add" if self.adds else "scatter"

    def passed_on(self) -> list[int]:
        return [0] if self.adds else []

    def forward(self, x: list[Array], y: Array, training: bool) -> Calls:
        base, indices, source = x
        source = source[tuple(map(slice, indices.shape))]
        if self.adds:
            in_numpy: Call = _adding(source, indices, y, self.axis, self._who)
        else:
            in_numpy = NumpyCall(lambda: y.__setitem__(_places(indices, self.axis, y, self._who), source))
        return [copying(y, base), scattering(y, source, indices, self.axis, in_numpy, adds=self.adds)]

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
        self.takes_integers = source.dtype == INT64
        super().__init__([source, indices], Tensor(source.graph, shape, source.dtype))

    def forward(self, x: list[Array], y: Array, training: bool) -> Calls:
        source, indices = x
        n = y.shape[self.axis]
        check = NumpyCall(lambda: require_range(indices, 0, n, f"index_add: axis {self.axis}"))
        return [check, clearing(y), _adding_entries(source, indices, y, self.axis)]

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Calls:
        assert dx[0] is not None
        return computing(dx[0], np.take, dy, x[1], self.axis)


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
        if source.dtype == INT64:
            np.add.at(np.moveaxis(target, axis, 0), indices.reshape(-1), np.moveaxis(source, axis, 0))
            return
        scatter(source, np.ascontiguousarray(indices.reshape(-1) % max(n, 1)), target, axis, ReductionFunction.sum())

    return NumpyCall(call)


def _drop_replaced(gradient: Array, places: tuple[Any, ...], shape: tuple[int, ...]) -> None:
    """Set to zero the gradients of elements in whose place a later one was put."""
    flat = np.ravel_multi_index(np.broadcast_arrays(*places), shape)
    latest = np.empty(int(np.prod(shape)), np.int64)
    numbers = np.arange(flat.size)
    latest[flat.reshape(-1)] = numbers
    gradient[(latest[flat.reshape(-1)] != numbers).reshape(gradient.shape)] = 0
