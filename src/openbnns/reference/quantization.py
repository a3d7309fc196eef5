"""Quantization: y = saturate(round(scale*x + bias)), and back: y = (x - bias) / scale.

The scale multiplies on the way to integers. scale and bias are one value each, or one per index of `axis`, an axis of
x (N, ...), 0 being the batch; None is scale 1 or bias 0. Rounding is not differentiable: there is no backward.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .activation import Array

Integers = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True)
class Quantizer:
    """scale and bias of one element, or with an axis of x.shape[axis] elements each."""

    scale: Array | None = None
    bias: Array | None = None
    axis: int | None = None


@np.errstate(all="ignore")
def quantize(q: Quantizer, x: Array, low: int, high: int) -> Integers:
    """saturate(round(scale*x + bias)) to the integers [low, high], in the shape of x.

    Rounds to nearest, ties to even; infinities saturate, NaN gives 0. The result is int64, or uint64 if `high`
    needs it.
    """
    scale, bias = _along(q, q.scale, 1.0, x.shape, "scale"), _along(q, q.bias, 0.0, x.shape, "bias")
    return _saturate(np.rint(scale * x + bias), low, high)


@np.errstate(all="ignore")
def dequantize(q: Quantizer, x: npt.NDArray[Any]) -> Array:
    """(x - bias) / scale in the shape of x; a scale of 0 divides as IEEE arithmetic does."""
    scale, bias = _along(q, q.scale, 1.0, x.shape, "scale"), _along(q, q.bias, 0.0, x.shape, "bias")
    return (x.astype(np.float64) - bias) / scale


def _along(q: Quantizer, values: Array | None, absent: float, shape: tuple[int, ...], name: str) -> Array:
    """scale or bias in a shape that broadcasts against x of this shape."""
    if values is None:
        return np.asarray(absent)
    count = 1 if q.axis is None else shape[q.axis]
    if values.size != count:
        where = "one value" if q.axis is None else f"{count} values along axis {q.axis}"
        raise ValueError(f"quantization: {name} has {values.size} values; x of shape {shape} needs {where}.")
    if q.axis is None:
        return values.reshape(())
    return values.reshape([count if axis == q.axis % len(shape) else 1 for axis in range(len(shape))])


def _saturate(rounded: Array, low: int, high: int) -> Integers:
    """Whole numbers forced into [low, high].

    float(high) of a 64-bit type is the next power of two, one more than `high`, so both bounds are set as integers.
    """
    inside = (rounded > float(low)) & (rounded < float(high))
    whole = np.where(inside, rounded, 0.0).astype(np.uint64 if high > np.iinfo(np.int64).max else np.int64)
    whole[rounded >= float(high)] = high
    whole[rounded <= float(low)] = low
    return whole
