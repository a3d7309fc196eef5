"""Padding: `before` elements in front of and `after` elements behind every axis.

    Constant    the value                                    AB  -> vvABvv
    Reflect     mirror that leaves the edge out              ABC -> CBABCBA      needs padding < size
    Symmetric   mirror that repeats the edge                 ABC -> BAABCCB      needs padding <= size

In the mirrors every output element is a copy of one input element, so the gradient of an input element is the sum over
its copies; nothing flows back from a constant border. Axes are padded one after the other, which defines the corners.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..parameters.padding import Mode
from ..parameters.reduction import ReductionKind
from . import selection
from .activation import Array

Widths = Sequence[tuple[int, int]]
"""(before, after) for every NumPy axis, (0, 0) for the batch."""


def forward(mode: int, x: Array, widths: Widths, value: float = 0.0) -> Array:
    """y of shape x.shape[d] + before[d] + after[d]; `value` fills the border of Constant."""
    _check(mode, x.shape, widths)
    if mode == Mode.CONSTANT:
        return np.pad(x, widths, constant_values=value)
    y = x
    for axis, (before, after) in enumerate(widths):
        y = selection.gather(y, _mirror(mode, x.shape[axis], before, after), axis)
    return y


def backward(mode: int, dy: Array, widths: Widths) -> Array:
    """dx(j) = sum of dy(i) over the outputs i that are copies of input j; Constant: the inner window of dy."""
    shape = tuple(size - before - after for size, (before, after) in zip(dy.shape, widths, strict=True))
    _check(mode, shape, widths)
    if mode == Mode.CONSTANT:
        return np.array(dy[tuple(slice(b, b + size) for size, (b, _) in zip(shape, widths, strict=True))])
    dx = dy
    for axis, (before, after) in enumerate(widths):
        narrow = np.zeros((*dx.shape[:axis], shape[axis], *dx.shape[axis + 1 :]))
        dx = selection.scatter(ReductionKind.SUM, dx, _mirror(mode, shape[axis], before, after), narrow, axis)
    return dx


def _mirror(mode: int, size: int, before: int, after: int) -> selection.Indices:
    """Which input element every output element of an axis is a copy of."""
    position = np.arange(-before, size + after)
    if mode == Mode.REFLECT:
        return np.where(position < size, np.abs(position), 2 * (size - 1) - position)
    return np.where(position < 0, -1 - position, np.where(position < size, position, 2 * size - 1 - position))


def _check(mode: int, shape: tuple[int, ...], widths: Widths) -> None:
    if mode not in list(Mode):
        raise ValueError(f"padding: there is no mode {mode}; the modes are 0 to {max(Mode)}.")
    if len(widths) != len(shape):
        raise ValueError(f"padding: {len(widths)} pairs of widths for {len(shape)} axes; pass one for each axis.")
    for axis, (size, (before, after)) in enumerate(zip(shape, widths, strict=True)):
        widest = max(before, after)
        if min(before, after) < 0 or size < 0:
            raise ValueError(f"padding: axis {axis} of size {size} cannot be padded by ({before}, {after}).")
        if mode != Mode.CONSTANT and widest > 0 and widest > size - (mode == Mode.REFLECT):
            raise ValueError(
                f"padding: {Mode(mode).name} pads axis {axis} by {widest}, but it has only {size} elements; "
                f"at most {max(size - (mode == Mode.REFLECT), 0)} can be mirrored."
            )
