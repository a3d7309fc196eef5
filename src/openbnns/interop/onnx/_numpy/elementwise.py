"""Element by element."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....graph.sizes import Size
from ....graph.tensor import Array
from ...converted.tensors import Misfit
from .._call import Call
from .._file import numpy_type
from ._table import TABLE, Body, limited, register


def _elementwise(function: Any) -> Body:
    def body(call: Call, *arrays: Array) -> Any:
        limited(np.broadcast_shapes(*(a.shape for a in arrays)))
        result, kind = function(*arrays), arrays[0].dtype
        if isinstance(result, (Size, int)):  # of sizes
            return result
        return (
            result.astype(kind)
            if kind.kind in "fiu" and result.dtype.kind in "fiu" and result.dtype != kind
            else result
        )

    return body


def _compared(function: Any) -> Body:
    def body(call: Call, a: Array, b: Array) -> Any:
        limited(np.broadcast_shapes(a.shape, b.shape))
        return np.asarray(function(a, b), np.bool_)

    return body


def _divided(a: Array, b: Array) -> Any:
    if a.dtype == object or b.dtype == object:
        return _quotient(a, b)
    if a.dtype.kind == "f":
        return a / b
    quotient = np.abs(a.astype(np.int64)) // np.abs(b.astype(np.int64))
    return quotient * np.sign(a.astype(np.int64)) * np.sign(b.astype(np.int64))


def _rounded_to_zero(a: Any, b: Any) -> Any:
    return a // b if (a < 0) is (b < 0) else -(-a // b)


_quotient = np.frompyfunc(_rounded_to_zero, 2, 1)  # of sizes


def _folded(function: Any) -> Any:
    def several(*arrays: Array) -> Any:
        result = arrays[0]
        for other in arrays[1:]:
            result = function(result, other)
        return result

    return several


_ELEMENTWISE: dict[str, Any] = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": _divided, "Neg": np.negative, "Abs": np.abs,
    "Exp": np.exp, "Log": np.log, "Sqrt": np.sqrt, "Floor": np.floor, "Ceil": np.ceil, "Round": np.round, "Sign": np.sign,
    "Reciprocal": lambda x: 1 / x, "Sin": np.sin, "Cos": np.cos, "Tan": np.tan, "Tanh": np.tanh,
    "Sigmoid": lambda x: 0.5 * (1 + np.tanh(0.5 * x)), "Relu": lambda x: np.maximum(x, 0),
    "Max": _folded(np.maximum), "Min": _folded(np.minimum), "Sum": _folded(np.add),
    "BitwiseAnd": np.bitwise_and, "BitwiseOr": np.bitwise_or, "BitwiseXor": np.bitwise_xor,
}  # fmt: skip
for _name, _function in _ELEMENTWISE.items():
    TABLE[_name] = _elementwise(_function)
_COMPARED: dict[str, Any] = {
    "Equal": np.equal, "Less": np.less, "LessOrEqual": np.less_equal, "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal, "And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor,
}  # fmt: skip
for _name, _function in _COMPARED.items():
    TABLE[_name] = _compared(_function)


@register("Pow")
def _pow(call: Call, a: Array, b: Array) -> Any:
    limited(np.broadcast_shapes(a.shape, b.shape))
    if a.dtype.kind in "iu":
        return np.power(a.astype(np.float64), b).astype(a.dtype)
    return np.power(a, b).astype(a.dtype)


@register("Mod")
def _mod(call: Call, a: Array, b: Array) -> Any:
    return np.fmod(a, b) if call.integer("fmod", 0) else np.mod(a, b)


@register("BitShift")
def _shifted(call: Call, a: Array, b: Array) -> Any:
    limited(np.broadcast_shapes(a.shape, b.shape))
    direction = call.text("direction", "")
    if direction not in ("LEFT", "RIGHT"):
        raise Misfit(f"direction={direction!r} has no counterpart here")
    return np.left_shift(a, b) if direction == "LEFT" else np.right_shift(a, b)


@register("BitwiseNot")
def _inverted(call: Call, x: Array) -> Any:
    return np.invert(x)


@register("Not")
def _not(call: Call, x: Array) -> Any:
    return np.logical_not(x)


@register("IsNaN")
def _is_nan(call: Call, x: Array) -> Any:
    return np.isnan(x)


@register("IsInf")
def _is_inf(call: Call, x: Array) -> Any:
    up, down = call.integer("detect_positive", 1), call.integer("detect_negative", 1)
    return (np.isposinf(x) & bool(up)) | (np.isneginf(x) & bool(down))


@register("Clip")
def _clip(call: Call, x: Array, low: Array | None = None, high: Array | None = None) -> Any:
    least: Any = call.number("min", 0.0) if call.has("min") else low
    most: Any = call.number("max", 0.0) if call.has("max") else high
    x = x if least is None else np.maximum(x, least)
    return x if most is None else np.minimum(x, most)


@register("Where")
def _where(call: Call, condition: Array, a: Array, b: Array) -> Any:
    limited(np.broadcast_shapes(condition.shape, a.shape, b.shape))
    return np.where(condition, a, b)


@register("Identity", "Dropout")
def _identity(call: Call, x: Array, *rest: Any) -> Any:
    return (x, np.ones(x.shape, np.bool_))[: max(1, call.outputs)]


@register("Cast")
def _cast(call: Call, x: Array) -> Any:
    wanted = numpy_type(call.integer("to"))
    if wanted is None:
        raise Misfit(f"to={call.integer('to')} is a type that networks do not compute with")
    if x.dtype == object and wanted.kind in "iu":
        return x
    return x.astype(wanted)


@register("CastLike")
def _cast_like(call: Call, x: Array, like: Array) -> Any:
    return x if x.dtype == object and like.dtype.kind in "iuO" else x.astype(like.dtype)
