"""Elements added around values."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from ... import PaddingLayer, PaddingMode, Shape
from .._graph import Call, Operation
from .._value import Array, Value
from .moves import Pick

Widths = Sequence[tuple[int, int]]

PADDINGS = ("reflect", "replicate", "circular")
"""What may be added besides constants: the value mirrored, its edge, its other side."""


def pad(x: Value, widths: Widths, mode: str, who: str, value: float = 0.0) -> Value:
    """Add (before, after) elements along every axis of the sample; negative numbers take elements away."""
    grown = [(max(before, 0), max(after, 0)) for before, after in widths]
    kept = [n + min(before, 0) + min(after, 0) for n, (before, after) in zip(x.sample, widths, strict=True)]
    if min(kept) < 1 and any(map(any, widths)):
        raise ValueError(f"{who} {tuple(widths)} takes more away than samples {x.sample} have. Take less.")
    for axis, (before, after) in enumerate(widths):
        if min(before, after) < 0:
            start = max(-before, 0)
            x = _picked(x, axis, np.arange(start, start + kept[axis]))
    if not any(map(any, grown)):
        return x
    limit = {"reflect": 1, "circular": 0}.get(mode)
    for n, pair in zip(x.sample, grown, strict=True):
        if limit is not None and any(pair) and max(pair) > n - limit:
            raise ValueError(
                f"{who}: {pair} elements cannot be added to an axis of {n} by {mode!r}, which takes at most {n - limit} from it. "
                "Add less, or use 'replicate' or zeros."
            )
    if mode in ("constant", "reflect"):
        return x.graph.append(Padding(x, grown, mode, value))
    for axis, (before, after) in enumerate(grown):
        if before or after:
            n = x.sample[axis]
            places = np.arange(-before, n + after)
            x = _picked(x, axis, places % n if mode == "circular" else places.clip(0, n - 1))
    return x


def _picked(x: Value, axis: int, places: Array) -> Value:
    """Entries of an axis of the sample, by number."""
    sample = [*x.sample[:axis], len(places), *x.sample[axis + 1 :]]
    return x.graph.append(Pick(x, axis + bool(x.rows), places, sample))


class Padding(Operation):
    """Constants or the mirrored sample around it; a gradient is the sum of those of all copies."""

    keeps_inputs = False

    def __init__(self, x: Value, widths: Widths, mode: str, value: float) -> None:
        self.widths = list(widths)
        self.mode = PaddingMode.reflect() if mode == "reflect" else PaddingMode.constant_scalar(value)
        super().__init__([x], x.like([n + sum(pair) for n, pair in zip(x.sample, widths, strict=True)]))

    def prepare(self) -> None:
        self.layer = PaddingLayer(input=Shape(self.inputs[0].sample), mode=self.mode, size=self.widths)

    def forward(self, x: list[Array], y: Array, training: bool) -> Call:
        return partial(self.layer.apply, x[0], y)

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Call:
        return partial(self.layer.apply_backward, None, None, dy, dx[0])
