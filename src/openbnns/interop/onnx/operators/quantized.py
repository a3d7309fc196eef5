"""Whole numbers of 8 bits that stand for numbers; they are computed with in float32, which holds them exactly."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ....graph import functions as F
from ....graph.parameter import Parameter
from ....graph.sizes import product
from ....graph.tensor import Array, Tensor
from ...converted.registry import Handler
from ...converted.tensors import ForeignTensor, Misfit
from .._call import Call
from .._operator import operator
from .._small_types import SMALL_FLOATS, SMALL_INTEGERS, limits_of
from ..tensor import by_numpy, constant_of
from .cells import CELLS, IGNORED, Cells, lstm
from .elementwise import in_small_float
from .fused import self_attention
from .windows import average_pool, convolution

QUANTIZED = "quantized numbers"
_SCALES_OF_TWO = (1, 2, 4, 5, 6, 7)
_LIMITS_BY_TYPE = {
    2: (0, 255), 3: (-128, 127), 4: (0, 65535), 5: (-32768, 32767), **{kind: limits_of(kind) for kind in SMALL_INTEGERS},
}  # fmt: skip
"""By ONNX's numbers of types."""
_LIMITS = {"uint8": (0, 255), "int8": (-128, 127), "uint16": (0, 65535), "int16": (-32768, 32767)}


def _per_axis(call: Call, x: ForeignTensor, given: ForeignTensor) -> Any:
    """One number, one for every entry along an axis, or one for every block of entries, to meet the elements of ``x``."""
    if given.rank == 0 or given.shape == (1,):
        call.ignored("axis", "block_size")
        return _number(_single(given))
    axis, size = x.axis(call.integer("axis", 1)), call.integer("block_size", 0)
    if size:
        wide = F.repeat_interleave(given.numbers, size, axis)
        return F.narrow(wide, axis, 0, x.shape[axis])
    if given.rank != 1 or given.shape[0] != x.shape[axis]:
        raise Misfit(f"scales of shape {given.shape} do not fit axis {axis} of {x.shape}")
    return given.numbers.reshape((given.shape[0], *[1] * (x.rank - 1 - axis)))


def _is_zero(point: Any) -> bool:
    return isinstance(point, float) and point == 0


@operator(QUANTIZED, "DequantizeLinear", "com.microsoft.DequantizeLinear", ignores=("output_dtype",))
def dequantize(call: Call, x: ForeignTensor, scale: ForeignTensor, zero: ForeignTensor | None = None) -> ForeignTensor:
    point = 0.0 if zero is None else _per_axis(call, x, zero)
    return ForeignTensor(F.mul(x.numbers if _is_zero(point) else F.sub(x.numbers, point), _per_axis(call, x, scale)))


@operator(QUANTIZED, "QuantizeLinear", "com.microsoft.QuantizeLinear", ignores=("saturate", "precision"))
def quantize(call: Call, x: ForeignTensor, scale: ForeignTensor, zero: ForeignTensor | None = None) -> ForeignTensor:
    wanted = call.integer("output_dtype", 0)
    if wanted in SMALL_FLOATS:
        return by_numpy(call, [_over_scale(call, x, scale)], in_small_float)[0]
    if wanted and wanted not in _LIMITS_BY_TYPE:
        raise Misfit(f"output_dtype={wanted} is a type that networks do not compute with")
    low, high = _LIMITS_BY_TYPE[wanted] if wanted else _limits(zero)
    steps = F.round(_over_scale(call, x, scale).numbers)
    point = 0.0 if zero is None else _per_axis(call, x, zero)
    return ForeignTensor(F.clamp(steps if _is_zero(point) else F.add(steps, point), low, high))


def _over_scale(call: Call, x: ForeignTensor, scale: ForeignTensor) -> ForeignTensor:
    factor = _per_axis(call, x, scale)
    return ForeignTensor(F.div(x.numbers, scale.numbers.reshape(()) if isinstance(factor, float) else factor))


def dequantized(call: Call, x: Array, scale: Array, zero: Array | None = None) -> Array:
    """The numbers that constants stand for."""

    def wide(given: Array) -> Array:
        if given.size == 1:
            return given.reshape(()).astype(np.float32)
        axis, size = call.integer("axis", 1) % x.ndim, call.integer("block_size", 0)
        if size:
            return np.repeat(given, size, axis).take(range(x.shape[axis]), axis).astype(np.float32)
        return given.reshape([-1 if i == axis else 1 for i in range(x.ndim)]).astype(np.float32)

    return np.asarray((x.astype(np.float32) - (0 if zero is None else wide(zero))) * wide(scale), np.float32)


@operator(QUANTIZED, "DynamicQuantizeLinear")
def quantize_by_range(call: Call, x: ForeignTensor) -> Any:
    value = F.detach(x.numbers)
    low, high = F.minimum(F.amin(value), 0.0), F.maximum(F.amax(value), 0.0)
    scale = F.div(F.sub(high, low), 255.0)
    zero = F.clamp(F.round(F.div(F.neg(low), scale)), 0.0, 255.0)
    y = F.clamp(F.add(F.round(F.div(value, scale)), zero), 0.0, 255.0)
    return tuple(map(ForeignTensor, (y, scale, zero)))


def _shifted(x: ForeignTensor, zero: ForeignTensor | None, axis: int) -> ForeignTensor:
    """A value minus its zero point."""
    if zero is None:
        return x
    if x.constant and zero.constant:
        wide = zero.held.astype(np.float32)
        wide = wide.reshape([-1 if i == axis else 1 for i in range(x.rank)]) if wide.size > 1 else wide.reshape(())
        shifted = x.held.astype(np.float32) - wide
        shifted.flags.writeable = False
        return ForeignTensor(shifted)
    if zero.rank and zero.shape != (1,):
        raise Misfit("zero points along an axis must belong to constants")
    return ForeignTensor(F.sub(x.numbers, zero.numbers.reshape(())))


@operator(QUANTIZED, "ConvInteger")
def convolve(
    call: Call,
    x: ForeignTensor,
    weight: ForeignTensor,
    zero: ForeignTensor | None = None,
    weight_zero: ForeignTensor | None = None,
) -> ForeignTensor:
    return convolution(call, _shifted(x, zero, 1), _shifted(weight, weight_zero, 0), None)


@operator(QUANTIZED, "MatMulInteger")
def multiply(
    call: Call,
    a: ForeignTensor,
    b: ForeignTensor,
    zero: ForeignTensor | None = None,
    other_zero: ForeignTensor | None = None,
) -> ForeignTensor:
    return ForeignTensor(_product(a, zero, b, other_zero))


def _product(
    a: ForeignTensor, zero: ForeignTensor | None, b: ForeignTensor, other_zero: ForeignTensor | None
) -> Tensor:
    left, right = _shifted(a, zero, max(0, a.rank - 2)), _shifted(b, other_zero, b.rank - 1)
    product: Tensor = F.matmul(left.numbers, right.numbers)
    return product


# Quantized numbers in, quantized numbers out. Sums of products are whole numbers, which one factor scales.


def _limits(zero: ForeignTensor | None) -> tuple[float, float]:
    name = "uint8" if zero is None else str(zero.held.dtype) if zero.constant else ""
    if name not in _LIMITS:
        raise Misfit("the zero point must be a constant of 8 or 16 bits")
    low, high = _LIMITS[name]
    return float(low), float(high)


def _single(x: ForeignTensor) -> Any:
    """One number, as it is if it is known."""
    if x.constant and x.held.size == 1:
        return np.float32(x.held.reshape(-1)[0])
    return x.numbers.reshape(())


def _in_steps(value: Any, factor: Any, zero: ForeignTensor | None) -> ForeignTensor:
    """Numbers times a factor as whole numbers around a zero point."""
    low, high = _limits(zero)
    steps = F.round(F.mul(value, _number(factor)))
    return ForeignTensor(F.clamp(steps if zero is None else F.add(steps, _number(_single(zero))), low, high))


def _number(x: Any) -> Any:
    return float(x) if isinstance(x, np.floating) else x


def _real(x: ForeignTensor, scale: ForeignTensor, zero: ForeignTensor | None) -> Any:
    """The numbers that quantized ones stand for."""
    shifted = x.numbers if zero is None else F.sub(x.numbers, _number(_single(zero)))
    return F.mul(shifted, _number(_single(scale)))


def _requantized(real: Any, scale: ForeignTensor, zero: ForeignTensor | None) -> ForeignTensor:
    low, high = _limits(zero)
    steps = F.round(F.div(real, _number(_single(scale))))
    return ForeignTensor(F.clamp(steps if zero is None else F.add(steps, _number(_single(zero))), low, high))


def _factor(scale: ForeignTensor, other: ForeignTensor, result: ForeignTensor | None, tail: int = 0) -> Any:
    """The factors of sums of products; an operand may have a scale for each output."""
    parts: list[Any] = [x.held.astype(np.float32) if x.constant else x.numbers for x in (scale, other)]
    wide = [x for x in parts if math.prod(map(int, x.shape)) > 1]
    if len(wide) > 1:
        raise Misfit(f"scales {scale.shape} and {other.shape} cannot both be one for each output")
    shaped = [x.reshape((-1, *[1] * tail)) if any(x is w for w in wide) else x.reshape(()) for x in parts]
    if result is not None:
        shaped.append(_single(result))
    if not all(isinstance(x, (np.ndarray, np.generic)) for x in shaped):
        made = F.mul(shaped[0], shaped[1])
        return made if result is None else F.div(made, shaped[2])
    factor = shaped[0] * shaped[1] / (1 if result is None else shaped[2])
    return np.float32(factor) if factor.ndim == 0 else factor.astype(np.float32)


@operator(QUANTIZED, "QLinearConv", "com.microsoft.QLinearConv", settings=_SCALES_OF_TWO)
def linear_convolution(
    call: Call, x: ForeignTensor, x_scale: ForeignTensor, x_zero: ForeignTensor, weight: ForeignTensor, w_scale: ForeignTensor,
    w_zero: ForeignTensor, y_scale: ForeignTensor, y_zero: ForeignTensor, bias: ForeignTensor | None = None,
) -> ForeignTensor:  # fmt: skip
    last = bool(call.integer("channels_last", 0))
    image = ForeignTensor(F.movedim(x.numbers, -1, 1), "f") if last else x
    left, right = _shifted(image, x_zero, 1), _shifted(weight, w_zero, 0)
    sums = convolution(call, left, right, None if bias is None else ForeignTensor(bias.numbers)).numbers
    y = _in_steps(sums, _factor(x_scale, w_scale, y_scale, x.rank - 2), y_zero)
    return ForeignTensor(F.movedim(y.numbers, 1, -1)) if last else y


@operator(QUANTIZED, "QLinearMatMul", settings=_SCALES_OF_TWO)
def linear_product(
    call: Call, a: ForeignTensor, a_scale: ForeignTensor, a_zero: ForeignTensor, b: ForeignTensor, b_scale: ForeignTensor, b_zero:
    ForeignTensor, y_scale: ForeignTensor, y_zero: ForeignTensor,
) -> ForeignTensor:  # fmt: skip
    return _in_steps(_product(a, a_zero, b, b_zero), _factor(a_scale, b_scale, y_scale), y_zero)


def microsoft(*names: str, **facts: Any) -> Callable[[Handler], Handler]:
    """A decorator of functions that record a quantized operator of onnxruntime."""
    return operator(QUANTIZED, *(f"com.microsoft.{name}" for name in names), **facts)


@microsoft("MatMulIntegerToFloat", settings=(2, 3, 4, 5))
def product_to_numbers(
    call: Call, a: ForeignTensor, b: ForeignTensor, a_scale: ForeignTensor, b_scale: ForeignTensor, a_zero: ForeignTensor | None =
    None, b_zero: ForeignTensor | None = None, bias: ForeignTensor | None = None,
) -> ForeignTensor:  # fmt: skip
    y = F.mul(_product(a, a_zero, b, b_zero), _number(_factor(a_scale, b_scale, None)))
    return ForeignTensor(y if bias is None else F.add(y, bias.numbers))


@microsoft("DynamicQuantizeMatMul", settings=(2, 3))
def product_by_range(
    call: Call,
    a: ForeignTensor,
    b: ForeignTensor,
    b_scale: ForeignTensor,
    b_zero: ForeignTensor | None = None,
    bias: ForeignTensor | None = None,
) -> ForeignTensor:
    steps, scale, zero = quantize_by_range(call, a)
    return product_to_numbers(call, steps, b, scale, b_scale, zero, b_zero, bias)  # type: ignore[no-any-return]


@microsoft("QGemm", settings=(1, 2, 4, 5, 7, 8))
def linear_gemm(
    call: Call, a: ForeignTensor, a_scale: ForeignTensor, a_zero: ForeignTensor | None, b: ForeignTensor, b_scale: ForeignTensor,
    b_zero: ForeignTensor | None, c: ForeignTensor | None = None, y_scale: ForeignTensor | None = None, y_zero: ForeignTensor |
    None = None,
) -> ForeignTensor:  # fmt: skip
    turn_a, turn_b = call.integer("transA", 0), call.integer("transB", 0)
    left, right = _shifted(a, a_zero, 0).numbers, _shifted(b, b_zero, 0 if turn_b else 1).numbers
    sums = F.matmul(F.transpose(left, 0, 1) if turn_a else left, F.transpose(right, 0, 1) if turn_b else right)
    sums = sums if c is None else F.add(sums, c.numbers)
    alpha = call.number("alpha", 1.0)
    factor = _factor(a_scale, b_scale, y_scale)
    factor = factor if alpha == 1 else factor * np.float32(alpha)
    return ForeignTensor(F.mul(sums, _number(factor))) if y_scale is None else _in_steps(sums, factor, y_zero)


def _of_two(function: Any) -> Any:
    def handler(
        call: Call, a: ForeignTensor, a_scale: ForeignTensor, a_zero: ForeignTensor | None, b: ForeignTensor, b_scale:
        ForeignTensor, b_zero: ForeignTensor | None, y_scale: ForeignTensor, y_zero: ForeignTensor | None = None,
    ) -> ForeignTensor:  # fmt: skip
        return _requantized(function(_real(a, a_scale, a_zero), _real(b, b_scale, b_zero)), y_scale, y_zero)

    return handler


def _of_one(function: Any) -> Any:
    def handler(
        call: Call,
        x: ForeignTensor,
        x_scale: ForeignTensor,
        x_zero: ForeignTensor | None,
        y_scale: ForeignTensor,
        y_zero: ForeignTensor | None = None,
    ) -> ForeignTensor:
        return _requantized(function(call, _real(x, x_scale, x_zero)), y_scale, y_zero)

    return handler


def _channels_in_front(function: Any) -> Any:
    """A function of images whose channels may be last."""

    def moved(call: Call, value: Any) -> Any:
        last = bool(call.integer("channels_last", 0))
        y = function(call, F.movedim(value, -1, 1) if last else value)
        return F.movedim(y, 1, -1) if last else y

    return moved


def _softmax(call: Call, value: Any) -> Any:
    axis = ForeignTensor(value).axis(call.integer("axis", -1))
    if call.integer("opset") >= 13:
        return F.softmax(value, axis)
    rows = value.reshape((product(value.shape[:axis]), product(value.shape[axis:])))
    return F.softmax(rows, 1).reshape(value.shape)


for _name, _function in (("Add", F.add), ("Mul", F.mul)):
    microsoft(f"QLinear{_name}", settings=_SCALES_OF_TWO)(_of_two(_function))
_OF_ONE: dict[str, Any] = {
    "Sigmoid": lambda call, x: F.sigmoid(x), "LeakyRelu": lambda call, x: F.leaky_relu(x, call.number("alpha", 0.01)),
    "GlobalAveragePool": _channels_in_front(lambda call, x: F.mean(x, list(range(2, x.ndim)), True)),
    "AveragePool": _channels_in_front(lambda call, x: average_pool(call, ForeignTensor(x)).numbers), "Softmax": _softmax,
}  # fmt: skip
for _name, _function in _OF_ONE.items():
    microsoft(f"QLinear{_name}", settings=(1, 2, 3, 4))(_of_one(_function))


@microsoft("QLinearConcat", settings=range(1000))
def linear_concat(call: Call, y_scale: ForeignTensor, y_zero: ForeignTensor, *given: ForeignTensor) -> ForeignTensor:
    if len(given) % 3 or not given:
        raise Misfit("each of its tensors has a scale and a zero point")
    parts = [_real(*given[i : i + 3]) for i in range(0, len(given), 3)]
    return _requantized(F.cat(parts, ForeignTensor(parts[0]).axis(call.integer("axis"))), y_scale, y_zero)


@microsoft("QLinearWhere", settings=(2, 3, 5, 6, 7, 8))
def linear_where(
    call: Call, condition: ForeignTensor, a: ForeignTensor, a_scale: ForeignTensor, a_zero: ForeignTensor, b: ForeignTensor,
    b_scale: ForeignTensor, b_zero: ForeignTensor, y_scale: ForeignTensor, y_zero: ForeignTensor,
) -> ForeignTensor:  # fmt: skip
    chosen = F.where(condition.numbers, _real(a, a_scale, a_zero), _real(b, b_scale, b_zero))
    return _requantized(chosen, y_scale, y_zero)


@microsoft("QAttention", settings=(3, 4, 6, 7))
def linear_attention(
    call: Call, x: ForeignTensor, weights: ForeignTensor, bias: ForeignTensor, x_scale: ForeignTensor, w_scale: ForeignTensor,
    mask: ForeignTensor | None = None, x_zero: ForeignTensor | None = None, w_zero: ForeignTensor | None = None, past:
    ForeignTensor | None = None,
) -> Any:  # fmt: skip
    call.only(do_rotary=0, past_present_share_buffer=0)
    projected = F.mul(_product(x, x_zero, weights, w_zero), _number(_factor(x_scale, w_scale, None)))
    return self_attention(call, projected, weights, bias, mask, past, None)


@microsoft("DynamicQuantizeLSTM", settings=(8, 9, 10, 11), ignores=IGNORED)
def quantized_lstm(
    call: Call, x: ForeignTensor, weight: ForeignTensor, recurrent: ForeignTensor, bias: ForeignTensor | None = None, lengths:
    ForeignTensor | None = None, hidden: ForeignTensor | None = None, cell: ForeignTensor | None = None, peepholes: ForeignTensor
    | None = None, w_scale: ForeignTensor | None = None, w_zero: ForeignTensor | None = None, r_scale: ForeignTensor | None =
    None, r_zero: ForeignTensor | None = None,
) -> Any:  # fmt: skip
    """Weights as the numbers that they stand for: inputs and states are not rounded, which onnxruntime does."""
    held = [_dequantized(*parts) for parts in ((weight, w_scale, w_zero), (recurrent, r_scale, r_zero))]
    numbers = None if bias is None else bias.held.data if isinstance(bias.held, Parameter) else bias.held
    cells = []
    for i, (w, r) in enumerate(zip(*held, strict=True)):
        rows = np.concatenate([np.arange(g * len(r), (g + 1) * len(r)) for g in CELLS["LSTM"].order])
        biases = () if numbers is None else tuple(half[rows] for half in np.split(numbers[i], 2))
        arrays = [w.T[rows], r.T[rows], *biases]
        parts = [Parameter.owning(np.array(a, np.float32, order="C"), requires_grad=False) for a in arrays]
        cells.append(Cells(parts[0], parts[1], tuple(parts[2:])))
    node = replace(call.node, op="LSTM")
    inner = replace(call, node=node, cells=cells)
    return lstm(inner, x, weight, recurrent, bias, lengths, hidden, cell, peepholes)


def _dequantized(x: ForeignTensor, scale: ForeignTensor | None, zero: ForeignTensor | None) -> Any:
    """Weights (directions, inputs, gates) whose scales are one for each direction, or for each gate of it."""
    if scale is None or not x.constant or x.rank != 3 or not (zero is None or zero.constant):
        raise Misfit("its weights must be quantized initializers of the model")
    factors = scale.held.data if isinstance(scale.held, Parameter) else constant_of(scale, "scale")
    shape = (x.shape[0], 1, -1)
    shift = 0 if zero is None else zero.held.astype(np.float32).reshape(shape)
    return (x.held.astype(np.float32) - shift) * factors.reshape(shape)
