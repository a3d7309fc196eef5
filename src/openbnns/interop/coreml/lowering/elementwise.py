"""Elementwise operations: arithmetic, activations, comparisons, conversions of types."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....graph.functions.elementwise import as_integers
from ....nn import functional as F
from ...converted.tensors import ForeignTensor, kind_of
from ..elements import ELEMENTS
from ..names import ACTIVATIONS, ARITHMETIC, COMPARISONS, LOGIC, UNARY
from .table import RECORDED, Call, operation

# Functions of one tensor.

_WHOLE = {"abs", "sign"}  # functions that keep whole numbers
_UNARY = {*UNARY.values(), *ACTIVATIONS.values(), "softplus"} - _WHOLE


def _unary(function: Any) -> Any:
    def handler(call: Call, x: ForeignTensor) -> ForeignTensor:
        return ForeignTensor(function(x.numbers))

    return handler


for _name in _UNARY:
    operation(_name)(_unary(getattr(F, _name)))

_ONNX = {names.core_ml: names.onnx for names in ARITHMETIC.values() if names.onnx}
_ONNX |= {"abs": "Abs", "sign": "Sign", "identity": "Identity", "pow": "Pow"}


def _onnx(op: str) -> Any:
    def handler(call: Call, x: ForeignTensor, y: ForeignTensor | None = None) -> Any:
        return call.onnx(op, *([x] if y is None else [x, y]))

    return handler


for _name, _op in _ONNX.items():
    operation(_name)(_onnx(_op))


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


@operation("elu")
def elu(call: Call, x: ForeignTensor, alpha: float) -> ForeignTensor:
    return ForeignTensor(F.elu(x.numbers, alpha))


@operation("leaky_relu")
def leaky_relu(call: Call, x: ForeignTensor, alpha: float) -> ForeignTensor:
    return ForeignTensor(F.leaky_relu(x.numbers, alpha))


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


@operation("linear_activation")
def linear_activation(call: Call, x: ForeignTensor, alpha: float, beta: float) -> ForeignTensor:
    return ForeignTensor(F.add(F.mul(x.numbers, alpha), beta))


@operation("scaled_tanh")
def scaled_tanh(call: Call, x: ForeignTensor, alpha: float, beta: float) -> ForeignTensor:
    return ForeignTensor(F.mul(F.tanh(F.mul(x.numbers, beta)), alpha))


@operation("sigmoid_hard")
def sigmoid_hard(call: Call, x: ForeignTensor, alpha: float, beta: float) -> Any:
    return call.onnx("HardSigmoid", x, alpha=float(alpha), beta=float(beta))


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
    value = x.numbers
    if mode == "SIGMOID_APPROXIMATION":
        return ForeignTensor(F.mul(value, F.sigmoid(F.mul(value, 1.702))))
    return ForeignTensor(F.gelu(value, "none" if mode == "EXACT" else "tanh"))


@operation("softmax")
def softmax(call: Call, x: ForeignTensor, axis: int) -> ForeignTensor:
    return ForeignTensor(F.softmax(x.numbers, axis))


# Functions of two.


@operation("real_div")
def real_div(call: Call, x: ForeignTensor, y: ForeignTensor) -> Any:
    if x.constant and y.constant and "f" not in (x.kind, y.kind):
        return call.onnx("Div", x, y)
    return call.onnx("Div", *(given if given.kind == "f" else ForeignTensor(given.numbers) for given in (x, y)))


def _by_elements(numpy_function: Any, function: Any) -> Any:
    """A function that neither ONNX nor its table of NumPy has for whole numbers."""

    def handler(call: Call, x: ForeignTensor, y: ForeignTensor) -> ForeignTensor:
        if x.constant and y.constant:
            return folded(numpy_function(x.held, y.held))
        made = function(x.value, y.value)
        return ForeignTensor(made, kind_of(made.dtype))

    return handler


def folded(result: Any) -> ForeignTensor:
    """A constant that was computed; of free sizes, if they are among its numbers."""
    array = result if isinstance(result, np.ndarray) else np.array(result, object)
    if array.dtype == object and all(isinstance(n, (int, np.integer)) for n in array.ravel().tolist()):
        array = array.astype(np.int64)
    return ForeignTensor(array)


operation("floor_div")(_by_elements(np.floor_divide, F.floor_divide))
operation("mod")(_by_elements(np.mod, F.remainder))


def _comparison(op: str, function: Any) -> Any:
    def handler(call: Call, x: ForeignTensor, y: ForeignTensor) -> Any:
        if x.constant and y.constant:
            return call.onnx(op, x, y)
        return ForeignTensor(function(x.value, y.value), "b")

    return handler


for _function, _names in (COMPARISONS | LOGIC).items():
    if _names.onnx:
        operation(_names.core_ml)(_comparison(_names.onnx, getattr(F, _function)))


@operation("logical_not")
def logical_not(call: Call, x: ForeignTensor) -> Any:
    return call.onnx("Not", x) if x.constant else ForeignTensor(F.logical_not(x.value), "b")


@operation("not_equal")
def not_equal(call: Call, x: ForeignTensor, y: ForeignTensor) -> Any:
    return logical_not(call, RECORDED["equal"](call, x, y))


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
