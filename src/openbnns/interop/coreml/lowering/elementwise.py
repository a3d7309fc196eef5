"""Elementwise operations: arithmetic, activations, comparisons, conversions of types."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....graph import functions as F
from ....graph.functions.elementwise import as_integers
from ...converted.elementwise import folded as in_numpy
from ...converted.elementwise import recorded
from ...converted.tensors import ForeignTensor, kind_of
from ..activation_rows import ROWS
from ..elements import ELEMENTS
from ..names import ARITHMETIC, COMPARISONS, LOGIC, UNARY
from .table import Call, operation

# Functions of one tensor.

_WHOLE = {"abs", "sign"}  # functions that keep whole numbers
_UNARY = set(UNARY) - _WHOLE


def _unary(function: Any) -> Any:
    def handler(call: Call, x: ForeignTensor) -> ForeignTensor:
        return ForeignTensor(function(x.numbers))

    return handler


for _name in _UNARY:
    operation(_name)(_unary(getattr(F, _name)))


def _row(name: str) -> Any:
    def handler(call: Call, x: ForeignTensor, y: ForeignTensor | None = None) -> ForeignTensor:
        given = [x] if y is None else [x, y]
        if all(one.constant for one in given):
            return folded(in_numpy(name, *(one.held for one in given)))
        return recorded(name, *given)

    return handler


_ROWS = {core_ml: name for name, core_ml in (COMPARISONS | LOGIC | ARITHMETIC).items() if name != "div"}
for _core_ml, _name in (_ROWS | {"abs": "abs", "sign": "sign", "logical_not": "logical_not"}).items():
    operation(_core_ml)(_row(_name))


@operation("identity")
def identity(call: Call, x: ForeignTensor) -> ForeignTensor:
    return x


def _activation(call: Call, x: ForeignTensor, **given: Any) -> ForeignTensor:
    one = next(
        one for one in ROWS if one.name == call.kind and all(given[name] == word for name, word in one.words.items())
    )
    return ForeignTensor(one.read(x.numbers, lambda name, _: given[name]))


for _name in dict.fromkeys(one.name for one in ROWS if one.name != "gelu"):
    operation(_name)(_activation)


@operation("log")
def log(call: Call, x: ForeignTensor, epsilon: float) -> ForeignTensor:
    return ForeignTensor(F.log(F.add(x.numbers, epsilon)))


@operation("rsqrt")
def rsqrt(call: Call, x: ForeignTensor, epsilon: float) -> ForeignTensor:
    return ForeignTensor(F.rsqrt(F.add(x.numbers, epsilon)))


@operation("inverse")
def inverse(call: Call, x: ForeignTensor, epsilon: float) -> ForeignTensor:
    return ForeignTensor(F.reciprocal(F.add(x.numbers, epsilon)))


@operation("threshold")
def threshold(call: Call, x: ForeignTensor, alpha: float) -> ForeignTensor:
    return ForeignTensor(F.clamp_min(x.numbers, float(alpha)))


@operation("clip")
def clip(call: Call, x: ForeignTensor, alpha: float, beta: float) -> ForeignTensor:
    return ForeignTensor(
        F.minimum(F.maximum(x.numbers, alpha), beta) if alpha > beta else F.clamp(x.numbers, alpha, beta)
    )


@operation("prelu")
def prelu(call: Call, x: ForeignTensor, alpha: ForeignTensor | float) -> ForeignTensor:
    slope = alpha if isinstance(alpha, ForeignTensor) else ForeignTensor(np.array([alpha], np.float32))
    return ForeignTensor(F.prelu(x.numbers, slope.held))


@operation("clamped_relu")
def clamped_relu(call: Call, x: ForeignTensor, alpha: float, beta: float) -> ForeignTensor:
    return ForeignTensor(F.minimum(F.leaky_relu(x.numbers, alpha), beta))


@operation("thresholded_relu")
def thresholded_relu(call: Call, x: ForeignTensor, alpha: float) -> ForeignTensor:
    value = x.numbers
    return ForeignTensor(F.where(F.ge(value, alpha), value, 0.0))


@operation("softplus_parametric")
def softplus_parametric(call: Call, x: ForeignTensor, alpha: ForeignTensor, beta: ForeignTensor) -> ForeignTensor:
    slopes = [by_channel(given, x.rank) for given in (alpha, beta)]
    return ForeignTensor(F.mul(F.softplus(F.mul(x.numbers, slopes[1])), slopes[0]))


def by_channel(given: ForeignTensor | float, rank: int) -> Any:
    """One number per channel, to meet the elements of a tensor with channels on axis 1."""
    if not isinstance(given, ForeignTensor):
        return given
    return given.numbers.reshape((given.shape[0], *[1] * (rank - 2)))


@operation("gelu")
def gelu(call: Call, x: ForeignTensor, mode: str) -> ForeignTensor:
    if mode == "SIGMOID_APPROXIMATION":
        return ForeignTensor(F.mul(x.numbers, F.sigmoid(F.mul(x.numbers, 1.702))))
    return _activation(call, x, mode=mode)


@operation("softmax")
def softmax(call: Call, x: ForeignTensor, axis: int) -> ForeignTensor:
    return ForeignTensor(F.softmax(x.numbers, axis))


# Functions of two.


@operation("real_div")
def real_div(call: Call, x: ForeignTensor, y: ForeignTensor) -> Any:
    if x.constant and y.constant:
        return folded(in_numpy("div", x.held, y.held))
    return recorded("div", *(given if given.kind == "f" else ForeignTensor(given.numbers) for given in (x, y)))


def folded(result: Any) -> ForeignTensor:
    """A constant that was computed; of free sizes, if they are among its numbers."""
    array = result if isinstance(result, np.ndarray) else np.array(result, object)
    if array.dtype == object and all(isinstance(n, (int, np.integer)) for n in array.ravel().tolist()):
        array = array.astype(np.int64)
    return ForeignTensor(array)


@operation("select")
def select(call: Call, cond: ForeignTensor, a: ForeignTensor, b: ForeignTensor) -> Any:
    return call.onnx("Where", cond, a, b)


# Types.


@operation("cast")
def cast(call: Call, x: ForeignTensor, dtype: str) -> ForeignTensor:
    return in_kind(x, kind_of(ELEMENTS[dtype].numpy))


def in_kind(x: ForeignTensor, kind: str) -> ForeignTensor:
    """The same numbers as numbers ("f"), whole numbers ("i") or booleans ("b")."""
    if x.kind == kind:
        return x
    if x.constant and (x.held.dtype != object or kind == "b"):
        numbers = np.trunc(x.held) if kind == "i" and x.kind == "f" else x.held
        return ForeignTensor(numbers.astype({"f": np.float32, "i": np.int64, "b": np.bool_}[kind]))
    if kind == "f":
        return ForeignTensor(x.numbers)
    return ForeignTensor(as_integers(x.value) if kind == "i" else F.ne(x.value, 0), kind)


# Quantized numbers are numbers here, which are whole; a program that gives them out says their type.


@operation("quantize")
def quantize(
    call: Call, input: ForeignTensor, zero_point: Any, scale: Any, axis: int | None, output_dtype: str
) -> ForeignTensor:
    shifted = F.round(F.div(input.numbers, by_entry(scale, input, axis)))
    if zero_point is not None:
        shifted = F.add(shifted, by_entry(zero_point, input, axis))
    least, most = (0.0, 255.0) if output_dtype == "uint8" else (-128.0, 127.0)
    return ForeignTensor(F.clamp(shifted, least, most))


@operation("dequantize")
def dequantize(call: Call, input: ForeignTensor, zero_point: Any, scale: Any, axis: int | None) -> ForeignTensor:
    value = input.numbers
    if zero_point is not None:
        value = F.sub(value, by_entry(zero_point, input, axis))
    return ForeignTensor(F.mul(value, by_entry(scale, input, axis)))


def by_entry(given: Any, x: ForeignTensor, axis: int | None) -> Any:
    """A number, or one for every entry along an axis, to meet the elements of a tensor."""
    array = np.asarray(given.array if isinstance(given, ForeignTensor) else given, np.float32)
    if array.ndim == 0:
        return array
    shape = [1] * x.rank
    shape[0 if axis is None else axis] = array.size
    return array.reshape(shape)
