"""Integers: conversion to and from floats, ranges and flat indices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..calls import Calls
from ..graph import Graph
from ..operation import Operation
from ..sizes import AnySize, bound
from ..tensor import FLOAT32, INT64, Array, Tensor
from ._base import copying
from ._numpy import computing


class Convert(Operation):
    """Whole numbers as float32, or numbers without what stands behind the point as int64; no gradient goes through."""

    is_pure = True
    keeps_inputs = False
    stops_gradient = True
    takes_integers = True

    def __init__(self, x: Tensor, *, whole: bool) -> None:
        self.whole = whole
        super().__init__([x], Tensor(x.graph, x.shape, INT64 if whole else FLOAT32))

    def forward(self, x: list[Array], y: Array, training: bool) -> Calls:
        return computing(y, np.trunc if self.whole and x[0].dtype.kind == "f" else np.asarray, x[0])


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
