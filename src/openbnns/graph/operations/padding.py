"""Padding around values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import PaddingLayer, PaddingMode
from ..calls import Calls, PlanCall, computing
from ..sizes import are_at_least
from ..tensor import INT64, Array, Tensor
from .base import ShapedOperation, Sizes, shape
from .moves import Pick, Slice

Widths = Sequence[tuple[int, int]]

PADDINGS = ("reflect", "replicate", "circular")
"""Padding modes other than constants: mirrored values, the edge value, and values from the opposite side."""


def pad(x: Tensor, widths: Widths, mode: str, who: str, value: float = 0.0) -> Tensor:
    """Add (before, after) elements along every axis; negative numbers remove elements."""
    grown = [(max(before, 0), max(after, 0)) for before, after in widths]
    kept = [n + min(before, 0) + min(after, 0) for n, (before, after) in zip(x.shape, widths, strict=True)]
    if any(map(any, widths)) and not are_at_least(1, kept):
        raise ValueError(f"{who} {tuple(widths)} removes more than {x.shape} has. Remove less.")
    if any(min(pair) < 0 for pair in widths):
        cut = tuple(slice(max(-before, 0), max(-before, 0) + n) for n, (before, _) in zip(kept, widths, strict=True))
        x = x.graph.append(Slice(x, cut, kept))
    if not any(map(any, grown)):
        return x
    limit = {"reflect": 1, "circular": 0}.get(mode)
    for n, pair in zip(x.shape, grown, strict=True):
        if limit is not None and any(pair) and not are_at_least(max(pair), [n - limit]):
            raise ValueError(
                f"{who}: {pair} elements cannot be added to an axis of {n} by {mode!r}, which takes at most {n - limit} from it. "
                "Add less, or use 'replicate' or zeros."
            )
    if mode in ("constant", "reflect"):
        return x.graph.append(Padding(x, grown, mode, value))
    for axis, (before, after) in enumerate(grown):
        if before or after:
            n = int(x.shape[axis])
            places = np.arange(-before, n + after)
            x = x.graph.append(Pick(x, axis, places % n if mode == "circular" else places.clip(0, n - 1)))
    return x


class Padding(ShapedOperation):
    """Constants or the mirrored elements around a value; a gradient is the sum of those of all copies."""

    is_pure = True
    keeps_inputs = False

    def __init__(self, x: Tensor, widths: Widths, mode: str, value: float) -> None:
        self.widths = list(widths)
        self.mode = PaddingMode.reflect() if mode == "reflect" else PaddingMode.constant_scalar(value)
        self.takes_integers = x.dtype == INT64
        if self.takes_integers and int(value) != value:
            raise ValueError(f"pad: value is {value}, but the input holds integers. Pass an integer.")
        self._options = {"constant_values": int(value)} if self.takes_integers and mode != "reflect" else {}
        shape = [n + sum(pair) for n, pair in zip(x.shape, widths, strict=True)]
        super().__init__([x], Tensor(x.graph, shape, x.dtype))

    @property
    def is_zero(self) -> bool:
        """True if all elements that it adds are 0."""
        return self.mode.case == "constant_scalar" and self.mode.value == 0

    def _samples(self, shape: Sizes) -> Sizes:
        """A shape without the first axis, which counts samples, unless elements are added to it."""
        return shape if any(self.widths[0]) else shape[1:]

    def make(self, x: list[Sizes], y: Sizes) -> Any:
        size = self.widths if any(self.widths[0]) else self.widths[1:]
        return PaddingLayer(input=shape(self._samples(x[0])), mode=self.mode, size=size)

    def forward(self, x: list[Array], y: Array, training: bool) -> Calls:
        if y.dtype == INT64:
            mode: Any = self.mode.case if self.mode.case == "reflect" else "constant"
            return computing(y, lambda: np.pad(x[0], self.widths, mode, **self._options))
        return PlanCall(self.layer(x, y).apply, *(a.reshape(-1, *self._samples(a.shape)) for a in (x[0], y)))

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Calls:
        assert dx[0] is not None
        gradients = (a.reshape(-1, *self._samples(a.shape)) for a in (dy, dx[0]))
        return PlanCall(self.layer(x, dy).apply_backward, None, None, *gradients)
