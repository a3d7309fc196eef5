"""Elementwise operators: arithmetic, activations, masks, conversions of types."""

from __future__ import annotations

import math
from functools import partial, reduce
from typing import Any

import numpy as np

from ....graph import functions as F
from ....graph.functions.base import applied
from ....graph.graph import not_recording
from ....graph.parameter import Parameter
from ....graph.sizes import is_same_shape
from ....graph.tensor import Array, Tensor
from ...converted.elementwise import folded, is_whole, operand, recorded
from ...converted.registry import Handler
from ...converted.tensors import ForeignTensor, Misfit, reshaped
from .. import rows
from .._call import Call
from .._file import kind_of_type, numpy_type
from .._numpy import limited
from .._operator import add, operator
from .._small_types import POWERS_OF_TWO, SMALL_FLOATS, SMALL_INTEGERS, limits_of
from ..tensor import broadcast_shape, by_numpy, constant_of

ARITHMETIC = "arithmetic"
ACTIVATIONS = "activations"
MASKS = "masks and types"


# Rows: recorded, and applied to constants.


def _row(name: str) -> Handler:
    def record(call: Call, *given: ForeignTensor) -> ForeignTensor:
        return recorded(name, given[0], *(_aligned(call, given[0], x) for x in given[1:]))

    return record


def _several(name: str, mean: bool = False) -> Handler:
    def record(call: Call, *given: ForeignTensor) -> ForeignTensor:
        broadcast_shape([x.shape for x in given])
        whole = is_whole(given) and not mean
        y = reduce(partial(applied, name), [x.whole if whole else x.numbers for x in given])
        return ForeignTensor(F.div(y, len(given)) if mean and len(given) > 1 else y)

    return record


def _in_numpy(name: str) -> Handler:
    def compute(call: Call, *arrays: Array) -> Any:
        limited(np.broadcast_shapes(*(a.shape for a in arrays)))
        return folded(name, *arrays)

    return compute


_LARGER = {"abs", "neg", "add", "sub", "mul", "div"}  # functions whose results their type may not hold
for _group, _rows, _handler in (
    (ARITHMETIC, rows.ARITHMETIC | {"Div": "div"}, _row), (ARITHMETIC, rows.SEVERAL, _several),
    (MASKS, rows.MASKS | rows.BITS, _row),
):  # fmt: skip
    for _op, _name in _rows.items():
        add(
            _group,
            _op,
            _handler(_name),
            compute=_in_numpy(_name),
            by_element=True,
            records_whole=True,
            wraps=_name in _LARGER,
        )
add(ARITHMETIC, "Mean", _several("add", mean=True))


def _activation(call: Call, x: ForeignTensor) -> ForeignTensor:
    for one in rows.ACTIVATIONS:
        if one.name == call.op and all(call.text(name, "none") == word for name, word in one.words.items()):
            return ForeignTensor(one.read(x.numbers, call.number))
    raise Misfit("it has no such form here")


def _activated(call: Call, x: Array) -> Any:
    with not_recording():
        return getattr(F, call.op.lower())(np.asarray(x, np.float32)).astype(x.dtype)


for _name in dict.fromkeys(one.name for one in rows.ACTIVATIONS):
    _facts = {"compute": _activated, "by_element": True} if _name in ("Relu", "Sigmoid", "Tanh") else {}
    add(ACTIVATIONS, _name, _activation, **_facts)


@operator(ACTIVATIONS, "Mish")
def mish(call: Call, x: ForeignTensor) -> ForeignTensor:
    return ForeignTensor(F.mish(x.numbers))


SELU = (1.6732632423543772, 1.0507009873554805)


@operator(ACTIVATIONS, "Selu")
def selu(call: Call, x: ForeignTensor) -> ForeignTensor:
    alpha, gamma = call.number("alpha", SELU[0]), call.number("gamma", SELU[1])
    if np.float32(alpha) == np.float32(SELU[0]) and np.float32(gamma) == np.float32(SELU[1]):
        return ForeignTensor(F.selu(x.numbers))
    return ForeignTensor(F.mul(F.elu(x.numbers, alpha), gamma))


@operator(ACTIVATIONS, "Swish")
def swish(call: Call, x: ForeignTensor) -> ForeignTensor:
    alpha, value = call.number("alpha", 1.0), x.numbers
    return ForeignTensor(F.silu(value) if alpha == 1 else F.mul(value, F.sigmoid(F.mul(value, alpha))))


@operator(ACTIVATIONS, "Shrink")
def shrink(call: Call, x: ForeignTensor) -> ForeignTensor:
    edge, bias, value = call.number("lambd", 0.5), call.number("bias", 0.0), x.numbers
    if bias == edge and edge >= 0:
        return ForeignTensor(F.softshrink(value, edge))
    kept = F.hardshrink(value, edge)
    return ForeignTensor(kept if not bias else F.sub(kept, F.mul(F.sign(kept), bias)))


@operator(ACTIVATIONS, "PRelu")
def prelu(call: Call, x: ForeignTensor, slope: ForeignTensor) -> ForeignTensor:
    if call.opset < 7 and slope.rank == 1 and x.rank > 1:
        slope = ForeignTensor(reshaped(slope, (slope.shape[0], *[1] * (x.rank - 2))), slope.kind)
    value, held = x.numbers, slope.held.storage.leaf if isinstance(slope.held, Tensor) else slope.held
    if isinstance(held, Parameter) and len(held.shape) == 1 and slope.shape in ((1,), _per_channel(x)):
        return ForeignTensor(F.prelu(value, held))
    if not is_same_shape(broadcast_shape([x.shape, slope.shape]), x.shape):
        raise Misfit(f"a slope of {slope.shape} does not fit {x.shape}")
    return ForeignTensor(F.sub(F.relu(value), F.mul(slope.numbers, F.relu(F.mul(value, -1.0)))))


def _per_channel(x: ForeignTensor) -> tuple[Any, ...]:
    return (x.shape[1], *[1] * (x.rank - 2)) if x.rank > 1 else (1,)


# Functions of several.


def _aligned(call: Call, a: ForeignTensor, b: ForeignTensor) -> ForeignTensor:
    """The second operand, whose axes version 6 of the operators matches from an axis of the first on."""
    if call.opset >= 7 or not call.integer("broadcast", 0) or not call.has("axis"):
        return b
    behind = a.rank - a.axis(call.integer("axis")) - b.rank
    if behind < 0:
        raise Misfit(f"{b.shape} does not fit {a.shape} from axis {call.integer('axis')} on")
    return ForeignTensor(reshaped(b, (*b.shape, *[1] * behind)), b.kind)


def _raised(call: Call, a: Array, b: Array) -> Any:
    limited(np.broadcast_shapes(a.shape, b.shape))
    if a.dtype.kind in "iu" and b.dtype.kind in "iu":
        below = b < 0
        whole = np.power(a, np.where(below, b & 1, b), dtype=a.dtype, casting="unsafe")
        return np.where(below & (np.abs(a) != 1), 0, whole).astype(a.dtype)  # one over what is larger is nearly nothing
    wide = a.astype(np.float64) if a.dtype.kind in "iu" else a
    return np.power(wide, b).astype(a.dtype)


@operator(ARITHMETIC, "Pow", compute=_raised, by_element=True, settings=(1,))
def power(call: Call, a: ForeignTensor, b: ForeignTensor) -> Any:
    return _row("pow")(call, a, b) if a.kind == "f" else by_numpy(call, [a, b])


def _rest(call: Call, a: Array, b: Array) -> Any:
    return np.fmod(a, b) if call.integer("fmod", 0) else np.mod(a, b)


@operator(ARITHMETIC, "Mod", compute=_rest, by_element=True, records_whole=True)
def mod(call: Call, a: ForeignTensor, b: ForeignTensor) -> ForeignTensor:
    broadcast_shape([a.shape, b.shape])
    if is_whole((a, b)):
        return ForeignTensor(applied("fmod" if call.integer("fmod", 0) else "remainder", a.whole, b.whole))
    left, right = a.numbers, b.numbers
    quotient = F.div(left, right)
    whole = F.mul(F.sign(quotient), F.floor(F.abs(quotient)))
    rest = F.sub(left, F.where(whole, F.mul(right, whole), 0.0))  # all of it if the divisor is infinite
    if not call.integer("fmod", 0):  # with the sign of the divisor
        opposed = F.relu(F.mul(F.mul(F.sign(rest), F.sign(right)), -1.0))
        rest = F.where(opposed, F.add(rest, right), rest)
    return ForeignTensor(rest)


def _clipped(call: Call, x: Array, low: Array | None = None, high: Array | None = None) -> Any:
    least: Any = call.number("min", 0.0) if call.has("min") else low
    most: Any = call.number("max", 0.0) if call.has("max") else high
    x = x if least is None else np.maximum(x, least)
    return x if most is None else np.minimum(x, most)


@operator(ARITHMETIC, "Clip", compute=_clipped, by_element=True, settings=(1, 2), records_whole=True)
def clip(
    call: Call, x: ForeignTensor, low: ForeignTensor | None = None, high: ForeignTensor | None = None
) -> ForeignTensor:
    whole = x.kind == "i"
    ends: list[Any] = [None if end is None else end.whole if whole else operand(end, x.rank) for end in (low, high)]
    for i, name in enumerate(("min", "max")):
        if call.has(name):
            ends[i] = call.number(name, 0.0)
    if ends == [None, None]:
        return x
    if all(isinstance(end, float) for end in ends) and ends[0] <= ends[1]:
        return ForeignTensor(F.clamp(x.numbers, *ends))
    value = x.whole if whole else x.numbers
    value = value if ends[0] is None else F.maximum(value, ends[0])
    return ForeignTensor(value if ends[1] is None else F.minimum(value, ends[1]))


def _cumulated(call: Call, x: Array, axis: Array) -> Any:
    place = int(axis.item())
    turned = np.flip(x, place) if call.integer("reverse", 0) else x
    total = np.cumsum(turned, place, dtype=x.dtype)
    if call.integer("exclusive", 0):
        total = total - turned
    return np.flip(total, place) if call.integer("reverse", 0) else total


@operator(ARITHMETIC, "CumSum", compute=_cumulated, by_element=True, shaping=(1,), records_whole=True, wraps=True)
def cumsum(call: Call, x: ForeignTensor, axis: ForeignTensor) -> ForeignTensor:
    place, value = x.axis(int(constant_of(axis, "axis").item())), x.elements
    reverse = call.integer("reverse", 0)
    turned = F.flip(value, place) if reverse else value
    total = F.cumsum(turned, place)
    total = F.sub(total, turned) if call.integer("exclusive", 0) else total
    return ForeignTensor(F.flip(total, place) if reverse else total)


@operator(ARITHMETIC, "CumProd", wraps=True)
def cumprod(call: Call, x: ForeignTensor, axis: ForeignTensor) -> ForeignTensor:
    place, value = x.axis(int(constant_of(axis, "axis").item())), x.elements
    reverse = call.integer("reverse", 0)
    turned = F.flip(value, place) if reverse else value
    if call.integer("exclusive", 0):
        first = F.add(F.mul(F.narrow(turned, place, 0, 1), 0), 1)
        count = x.shape[place] - 1
        turned = F.cat([first, F.narrow(turned, place, 0, count)], place) if count else first
    total = F.cumprod(turned, place)
    return ForeignTensor(F.flip(total, place) if reverse else total)


def along(value: Tensor, axis: int, matrix: Any) -> Tensor:
    """The entries along an axis as sums of those that there are: ``matrix`` is (new, old)."""
    last = value.ndim - 1
    if axis == last:
        result: Tensor = F.matmul(value, np.ascontiguousarray(matrix.T))
        return result
    if axis == last - 1:
        rows: Tensor = F.matmul(matrix, value)
        return rows
    swapped: Tensor = F.transpose(along(F.transpose(value, axis, last), last, matrix), axis, last)
    return swapped


# Masks and types.


def _infinite(call: Call, x: Array) -> Any:
    up, down = call.integer("detect_positive", 1), call.integer("detect_negative", 1)
    return (np.isposinf(x) & bool(up)) | (np.isneginf(x) & bool(down))


@operator(MASKS, "IsInf", compute=_infinite, records_whole=True)
def is_infinite(call: Call, x: ForeignTensor) -> ForeignTensor:
    up, down, value = call.integer("detect_positive", 1), call.integer("detect_negative", 1), x.numbers
    if up and down:
        return ForeignTensor(F.isinf(value), "b")
    return ForeignTensor(F.eq(value, math.inf if up else -math.inf if down else math.nan), "b")


def _without_gradient(call: Call, *given: ForeignTensor) -> Any:
    return by_numpy(call, given)


def _largest(call: Call, x: Array) -> Any:
    axis = call.integer("axis", -1 if call.opset >= 13 else 1)
    if call.opset < 13:  # over all axes from this one on
        rows = x.reshape(int(np.prod(x.shape[: axis % x.ndim])), -1)
        return (np.arange(rows.shape[1]) == np.argmax(rows, 1)[:, None]).astype(x.dtype).reshape(x.shape)
    result = np.zeros_like(x)
    np.put_along_axis(result, np.expand_dims(np.argmax(x, axis), axis), 1, axis)
    return result


add(MASKS, "Hardmax", _without_gradient, compute=_largest, by_element=True)


def _bits(call: Call, a: Array, b: Array | None = None) -> Any:
    if b is None:
        return np.invert(a)
    limited(np.broadcast_shapes(a.shape, b.shape))
    direction = call.text("direction", "")
    if direction not in ("LEFT", "RIGHT"):
        raise Misfit(f"direction={direction!r} has no counterpart here")
    return np.left_shift(a, b) if direction == "LEFT" else np.right_shift(a, b)


add(MASKS, "BitShift", _without_gradient, compute=_bits, by_element=True)
add(MASKS, "BitwiseNot", _without_gradient, compute=_bits, by_element=True)


def _chosen(call: Call, condition: Array, a: Array, b: Array) -> Any:
    limited(np.broadcast_shapes(condition.shape, a.shape, b.shape))
    return np.where(condition, a, b)


@operator(MASKS, "Where", compute=_chosen, by_element=True, records_whole=True, whole_type=1)
def where(call: Call, condition: ForeignTensor, a: ForeignTensor, b: ForeignTensor) -> ForeignTensor:
    broadcast_shape([condition.shape, a.shape, b.shape])
    chosen: Any = (condition.held != 0).astype(np.float32) if condition.constant else condition.numbers
    kind = max(a.kind, b.kind, key="bif".index)
    return ForeignTensor(F.where(chosen, *(x.whole if kind == "i" else x.numbers for x in (a, b))), kind)


def in_small_float(call: Call, x: Array) -> Any:
    """Numbers as a type of few bits has them."""
    kind = call.integer("to", 0) or call.integer("output_dtype", 0)
    return SMALL_FLOATS[kind].rounded(x, bool(call.integer("saturate", 1)))


def _of_type(call: Call, x: Array, like: Array | None = None) -> Any:
    if like is None and call.integer("to") in SMALL_FLOATS:
        return in_small_float(call, x)
    if like is None and call.integer("to") in SMALL_INTEGERS and x.dtype != object:
        least, most = limits_of(call.integer("to"))
        x = (
            np.trunc(x).clip(least, most)
            if x.dtype.kind == "f"
            else (x.astype(np.int64) - least) % (most - least + 1) + least
        )
    wanted = numpy_type(call.integer("to")) if like is None else like.dtype
    if wanted is None:
        raise Misfit(f"to={call.integer('to')} is a type that networks do not compute with")
    if x.dtype.kind == "f" and wanted.kind in "iu" and wanted.itemsize < 4:
        x = x.astype(np.int32)  # whose lowest bits are kept, as by programs in C
    return x if x.dtype == object and wanted.kind in "iuO" else x.astype(wanted)


def _conversion(call: Call) -> str:
    return "int32" if numpy_type(call.integer("to")) == np.int32 else ""


def _type_of(call: Call) -> str:
    return str(numpy_type(call.integer("to")))


_CASTS = {
    "compute": _of_type, "records_whole": True, "by_element": True, "wraps": True, "ignores": ("saturate", "round_mode"),
}  # fmt: skip


@operator(MASKS, "CastLike", whole_type=1, **_CASTS)
@operator(MASKS, "Cast", whole_type=_type_of, moves=True, native=_conversion, **_CASTS)
def cast(call: Call, x: ForeignTensor, other: ForeignTensor | None = None) -> Any:
    kind = kind_of_type(call.integer("to")) if other is None else other.kind
    if kind is None:
        raise Misfit(f"to={call.integer('to')} is a type that networks do not compute with")
    if other is None and call.integer("to") in SMALL_FLOATS:
        return by_numpy(call, [ForeignTensor(x.numbers)], in_small_float)
    if other is None and call.integer("to") == POWERS_OF_TWO:
        raise Misfit("networks do not round to FLOAT8E8M0. Store such scales as initializers, which are read")
    if kind == "f":
        return x if x.kind == "f" else ForeignTensor(x.numbers)
    if kind == "i" and other is None and call.integer("to") in SMALL_INTEGERS:
        return by_numpy(call, [x])
    if kind == x.kind:
        return x
    if kind == "b":
        return ForeignTensor(F.ne(x.elements, 0), "b")
    wanted = np.dtype(_type_of(call)) if other is None else other.whole_type
    if x.kind == "b" or wanted == np.int64:
        return ForeignTensor(x.whole, whole_type=wanted)
    return by_numpy(call, [x] if other is None else [x, other])


@operator(MASKS, "Identity", moves=True)
def identity(call: Call, x: ForeignTensor) -> ForeignTensor:
    return x


def _kept(call: Call, x: Array) -> Any:
    return x, np.ones(x.shape, np.bool_)


@operator(MASKS, "Dropout", settings=(1, 2), ignores=("seed", "ratio", "is_test"))
def dropout(
    call: Call, x: ForeignTensor, ratio: ForeignTensor | None = None, training: ForeignTensor | None = None
) -> Any:
    rate = call.number("ratio", 0.5) if ratio is None else float(constant_of(ratio, "ratio").item())
    if call.outputs > 1:
        if rate and training is not None and constant_of(training, "training_mode").item():
            raise Misfit("the mask of a dropout in training has no counterpart here")
        return x, by_numpy(call, [x], _kept)[1]  # a model that uses the mask is taken at its word: nothing is dropped
    return ForeignTensor(F.dropout(x.numbers, rate)) if rate else x
