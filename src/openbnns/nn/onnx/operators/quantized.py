"""Whole numbers of 8 bits that stand for numbers; they are computed with in float32, which holds them exactly."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import functional as F
from ...converted.tensors import Misfit, Tensor
from .._call import Call
from ._registry import operator
from .windows import convolution

QUANTIZED = "quantized numbers"
_LIMITS = {"uint8": (0, 255), "int8": (-128, 127), "uint16": (0, 65535), "int16": (-32768, 32767)}


def _per_axis(call: Call, x: Tensor, given: Tensor) -> Any:
    """One number, one for every entry along an axis, or one for every block of entries, to meet the elements of ``x``."""
    if given.rank == 0 or given.shape == (1,):
        call.ignored("axis", "block_size")
        return given.numbers.reshape(())
    axis, size = x.axis(call.integer("axis", 1)), call.integer("block_size", 0)
    if size:
        wide = F.repeat_interleave(given.numbers, size, axis)
        return F.narrow(wide, axis, 0, x.shape[axis])
    if given.rank != 1 or given.shape[0] != x.shape[axis]:
        raise Misfit(f"scales of shape {given.shape} do not fit axis {axis} of {x.shape}")
    return given.numbers.reshape((given.shape[0], *[1] * (x.rank - 1 - axis)))


@operator(QUANTIZED, "DequantizeLinear")
def dequantize(call: Call, x: Tensor, scale: Tensor, zero: Tensor | None = None) -> Tensor:
    call.ignored("output_dtype")
    shifted = x.numbers if zero is None else F.sub(x.numbers, _per_axis(call, x, zero))
    return Tensor(F.mul(shifted, _per_axis(call, x, scale)))


@operator(QUANTIZED, "QuantizeLinear")
def quantize(call: Call, x: Tensor, scale: Tensor, zero: Tensor | None = None) -> Tensor:
    call.ignored("saturate", "output_dtype", "precision")
    name = "uint8" if zero is None else str(zero.held.dtype) if zero.constant else ""
    if name not in _LIMITS:
        raise Misfit("the zero point must be a constant of 8 or 16 bits")
    steps = F.round(F.div(x.numbers, _per_axis(call, x, scale)))
    shifted = steps if zero is None else F.add(steps, _per_axis(call, x, zero))
    return Tensor(F.clamp(shifted, *map(float, _LIMITS[name])))


@operator(QUANTIZED, "DynamicQuantizeLinear")
def quantize_by_range(call: Call, x: Tensor) -> Any:
    value = F.detach(x.numbers)
    low, high = F.minimum(F.amin(value), 0.0), F.maximum(F.amax(value), 0.0)
    scale = F.div(F.sub(high, low), 255.0)
    zero = F.clamp(F.round(F.div(F.neg(low), scale)), 0.0, 255.0)
    y = F.clamp(F.add(F.round(F.div(value, scale)), zero), 0.0, 255.0)
    return tuple(map(Tensor, (y, scale, zero)))


def _shifted(x: Tensor, zero: Tensor | None, axis: int) -> Tensor:
    """Without the zero point."""
    if zero is None:
        return x
    if x.constant and zero.constant:
        wide = zero.held.astype(np.float32)
        wide = wide.reshape([-1 if i == axis else 1 for i in range(x.rank)]) if wide.size > 1 else wide.reshape(())
        return Tensor(x.held.astype(np.float32) - wide)
    if zero.rank and zero.shape != (1,):
        raise Misfit("zero points along an axis must belong to constants")
    return Tensor(F.sub(x.numbers, zero.numbers.reshape(())))


@operator(QUANTIZED, "ConvInteger")
def convolve(
    call: Call, x: Tensor, weight: Tensor, zero: Tensor | None = None, weight_zero: Tensor | None = None
) -> Tensor:
    return convolution(call, _shifted(x, zero, 1), _shifted(weight, weight_zero, 0), None)


@operator(QUANTIZED, "MatMulInteger")
def multiply(call: Call, a: Tensor, b: Tensor, zero: Tensor | None = None, other_zero: Tensor | None = None) -> Tensor:
    left, right = _shifted(a, zero, max(0, a.rank - 2)), _shifted(b, other_zero, b.rank - 1)
    return Tensor(F.matmul(left.numbers, right.numbers))
