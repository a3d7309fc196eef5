"""Element by element: arithmetic, activations, masks, types."""

from __future__ import annotations

from typing import Any

import numpy as np

from .... import ActivationFunction
from ... import functional as F
from ... import operations
from ..._value import Value
from ...converted.tensors import Misfit
from ...parameter import Parameter
from .. import _numpy
from .._call import Call
from .._file import kind_of_type
from .._tensor import Tensor, broadcast_shape, by_numpy, constant_of
from ._registry import add, operator

ARITHMETIC = "arithmetic"
ACTIVATIONS = "activations"
MASKS = "masks and types"


def like(x: Tensor, value: Any) -> Tensor:
    """The result of a function element by element."""
    return Tensor(value, x.shape)


def operand(x: Tensor, shape: tuple[Any, ...]) -> Any:
    """A tensor so that it meets the others; a single number of a constant is a number."""
    if x.constant and x.held.size == 1 and x.kind == "f" and len(x.shape) <= len(shape):
        return float(x.held.item())
    return x.aligned(shape)


# Functions of one tensor.

_UNARY: dict[str, Any] = {
    "Abs": F.abs, "Neg": F.neg, "Exp": F.exp, "Log": F.log, "Sqrt": F.sqrt, "Reciprocal": F.reciprocal, "Sin": F.sin,
    "Cos": F.cos, "Tan": F.tan, "Asin": F.asin, "Acos": F.acos, "Atan": F.atan, "Sinh": F.sinh, "Cosh": F.cosh,
    "Asinh": F.asinh, "Acosh": F.acosh, "Atanh": F.atanh, "Erf": F.erf, "Floor": F.floor, "Ceil": F.ceil,
    "Round": F.round, "Sign": F.sign,
}  # fmt: skip
_PLAIN: dict[str, Any] = {
    "Relu": F.relu, "Sigmoid": F.sigmoid, "Tanh": F.tanh, "Softplus": F.softplus, "Softsign": F.softsign,
    "HardSwish": F.hardswish, "Mish": F.mish,
}  # fmt: skip


def _unary(function: Any) -> Any:
    def handler(call: Call, x: Tensor) -> Tensor:
        return like(x, function(x.numbers))

    return handler


for _name, _function in _UNARY.items():
    add(ARITHMETIC, _name, _unary(_function))
for _name, _function in _PLAIN.items():
    add(ACTIVATIONS, _name, _unary(_function))


@operator(ACTIVATIONS, "LeakyRelu")
def leaky_relu(call: Call, x: Tensor) -> Tensor:
    return like(x, F.leaky_relu(x.numbers, call.number("alpha", 0.01)))


@operator(ACTIVATIONS, "Elu")
def elu(call: Call, x: Tensor) -> Tensor:
    return like(x, F.elu(x.numbers, call.number("alpha", 1.0)))


@operator(ACTIVATIONS, "Celu")
def celu(call: Call, x: Tensor) -> Tensor:
    return like(x, F.celu(x.numbers, call.number("alpha", 1.0)))


SELU = (1.6732632423543772, 1.0507009873554805)


@operator(ACTIVATIONS, "Selu")
def selu(call: Call, x: Tensor) -> Tensor:
    alpha, gamma = call.number("alpha", SELU[0]), call.number("gamma", SELU[1])
    if np.float32(alpha) == np.float32(SELU[0]) and np.float32(gamma) == np.float32(SELU[1]):
        return like(x, F.selu(x.numbers))
    return like(x, F.mul(F.elu(x.numbers, alpha), gamma))


@operator(ACTIVATIONS, "HardSigmoid")
def hard_sigmoid(call: Call, x: Tensor) -> Tensor:
    f = ActivationFunction.hard_sigmoid(alpha=call.number("alpha", 0.2), beta=call.number("beta", 0.5))
    value = x.numbers
    return like(x, value.graph.append(operations.Activation(value.graph, value, f)))


@operator(ACTIVATIONS, "ThresholdedRelu")
def thresholded_relu(call: Call, x: Tensor) -> Tensor:
    return like(x, F.threshold(x.numbers, call.number("alpha", 1.0), 0.0))


@operator(ACTIVATIONS, "Gelu")
def gelu(call: Call, x: Tensor) -> Tensor:
    return like(x, F.gelu(x.numbers, call.text("approximate", "none")))  # type: ignore[arg-type]


@operator(ACTIVATIONS, "Swish")
def swish(call: Call, x: Tensor) -> Tensor:
    alpha, value = call.number("alpha", 1.0), x.numbers
    return like(x, F.silu(value) if alpha == 1 else F.mul(value, F.sigmoid(F.mul(value, alpha))))


@operator(ACTIVATIONS, "Shrink")
def shrink(call: Call, x: Tensor) -> Tensor:
    edge, bias, value = call.number("lambd", 0.5), call.number("bias", 0.0), x.numbers
    if bias == edge and edge >= 0:
        return like(x, F.softshrink(value, edge))
    kept = F.hardshrink(value, edge)
    return like(x, kept if not bias else F.sub(kept, F.mul(F.sign(kept), bias)))


@operator(ACTIVATIONS, "PRelu")
def prelu(call: Call, x: Tensor, slope: Tensor) -> Tensor:
    value, held = x.numbers, slope.held.storage.leaf if isinstance(slope.held, Value) else slope.held
    if isinstance(held, Parameter) and len(held.shape) == 1 and x.batch == 0 and slope.shape in ((1,), _per_channel(x)):
        return like(x, F.prelu(x.batched, held))
    shape = broadcast_shape([x.shape, slope.shape])
    if shape != x.shape:
        raise Misfit(f"a slope of {slope.shape} does not fit {x.shape}")
    return like(x, F.sub(F.relu(value), F.mul(slope.aligned(shape), F.relu(F.mul(value, -1.0)))))


def _per_channel(x: Tensor) -> tuple[Any, ...]:
    return (x.shape[1], *[1] * (x.rank - 2)) if x.rank > 1 else (1,)


# Functions of several.


def _binary(function: Any) -> Any:
    def handler(call: Call, a: Tensor, b: Tensor) -> Tensor:
        shape = broadcast_shape([a.shape, b.shape])
        exact = call.op == "Div"  # a division, not a product with the reciprocal, which is rounded
        left, right = operand(a, shape), b.aligned(shape) if exact else operand(b, shape)
        if not isinstance(left, Value) and not isinstance(right, Value):
            left = a.numbers
        return Tensor(_filled(function(left, right), shape), shape)

    return handler


def _filled(value: Any, shape: tuple[Any, ...]) -> Any:
    """A result in its shape, where a number has met axes of size 1."""
    rest = tuple(n for n in shape if not hasattr(n, "rows"))
    return value if value.sample == rest else value.reshape((*value.shape[: int(bool(value.rows))], *rest))


for _name, _function in (("Add", F.add), ("Sub", F.sub), ("Mul", F.mul), ("Div", F.div), ("Pow", F.pow)):
    add(ARITHMETIC, _name, _binary(_function))


def _several(function: Any, mean: bool = False) -> Any:
    def handler(call: Call, *given: Tensor) -> Tensor:
        shape = broadcast_shape([x.shape for x in given])
        value: Any = given[0].aligned(shape)
        for x in given[1:]:
            value = function(value, x.aligned(shape))
        return Tensor(F.div(value, len(given)) if mean and len(given) > 1 else value, shape)

    return handler


add(ARITHMETIC, "Max", _several(F.maximum))
add(ARITHMETIC, "Min", _several(F.minimum))
add(ARITHMETIC, "Sum", _several(F.add))
add(ARITHMETIC, "Mean", _several(F.add, mean=True))


@operator(ARITHMETIC, "Mod")
def mod(call: Call, a: Tensor, b: Tensor) -> Tensor:
    shape = broadcast_shape([a.shape, b.shape])
    left, right = a.aligned(shape), b.aligned(shape)
    quotient = F.div(left, right)
    whole = F.mul(F.sign(quotient), F.floor(F.abs(quotient)))
    rest = F.sub(left, F.where(whole, F.mul(right, whole), 0.0))  # all of it if the divisor is infinite
    if not call.integer("fmod", 0):  # with the sign of the divisor
        opposed = F.relu(F.mul(F.mul(F.sign(rest), F.sign(right)), -1.0))
        rest = F.where(opposed, F.add(rest, right), rest)
    return Tensor(rest, shape)


@operator(ARITHMETIC, "Clip")
def clip(call: Call, x: Tensor, low: Tensor | None = None, high: Tensor | None = None) -> Tensor:
    ends = [None if end is None else operand(end, x.shape) for end in (low, high)]
    if ends == [None, None]:
        return x
    if all(isinstance(end, float) for end in ends) and ends[0] <= ends[1]:  # type: ignore[operator]
        return like(x, F.clamp(x.numbers, *ends))
    value = x.numbers
    value = value if ends[0] is None else F.maximum(value, ends[0])
    return like(x, value if ends[1] is None else F.minimum(value, ends[1]))


@operator(ARITHMETIC, "CumSum")
def cumsum(call: Call, x: Tensor, axis: Tensor) -> Tensor:
    """A product with a matrix of ones and zeros."""
    place = int(constant_of(axis, "axis").item())
    x.free([place], "the sum")
    n = x.shape[place]
    matrix = np.tril(np.ones(_numpy.limited((n, n)), np.float32), -1 if call.integer("exclusive", 0) else 0)
    matrix = matrix.T if call.integer("reverse", 0) else matrix
    return Tensor(along(x.numbers, x.axis(place), np.ascontiguousarray(matrix)), x.shape)


def along(value: Value, axis: int, matrix: Any) -> Value:
    """The entries along an axis as sums of those that there are: ``matrix`` is (new, old)."""
    last = value.ndim - 1
    if axis == last and last > bool(value.rows):
        result: Value = F.matmul(value, np.ascontiguousarray(matrix.T))
        return result
    if axis == last:  # vectors
        wide: Value = F.matmul(F.unsqueeze(value, -2), np.ascontiguousarray(matrix.T))
        squeezed: Value = F.squeeze(wide, -2)
        return squeezed
    if axis == last - 1:
        rows: Value = F.matmul(matrix, value)
        return rows
    swapped: Value = F.transpose(along(F.transpose(value, axis, last), last, matrix), axis, last)
    return swapped


# Masks and types.


def _masked(call: Call, *given: Tensor) -> Any:
    return by_numpy(call, given)


for _name in sorted(_numpy.WITHOUT_GRADIENT):
    add(MASKS, _name, _masked)


@operator(MASKS, "Where")
def where(call: Call, condition: Tensor, a: Tensor, b: Tensor) -> Tensor:
    shape = broadcast_shape([condition.shape, a.shape, b.shape])
    if condition.constant:
        mask: Any = condition.value.graph.constant((condition.held != 0).astype(np.float32))
        chosen: Any = Tensor(mask, condition.shape).aligned(shape)
    else:
        chosen = condition.aligned(shape)
    return Tensor(F.where(chosen, a.aligned(shape), b.aligned(shape)), shape)


@operator(MASKS, "Cast", "CastLike")
def cast(call: Call, x: Tensor, other: Tensor | None = None) -> Any:
    kind = kind_of_type(call.integer("to")) if other is None else other.kind
    if kind is None:
        raise Misfit(f"to={call.integer('to')} is a type that networks do not compute with")
    if kind == "f":
        return x if x.kind == "f" else Tensor(x.numbers, x.shape)
    return x if kind == x.kind else by_numpy(call, [x] if other is None else [x, other])


@operator(MASKS, "Identity")
def identity(call: Call, x: Tensor) -> Tensor:
    return x


@operator(MASKS, "Dropout")
def dropout(call: Call, x: Tensor, ratio: Tensor | None = None, training: Tensor | None = None) -> Any:
    rate = 0.5 if ratio is None else float(constant_of(ratio, "ratio").item())
    if call.outputs > 1:
        if rate and training is not None and constant_of(training, "training_mode").item():
            raise Misfit("the mask of a dropout in training has no counterpart here")
        return x, by_numpy(call, [x])[1]  # a model that uses the mask is taken at its word: nothing is dropped
    if not rate or (x.batch is None and not x.held_rows):  # weights, which are the same for all samples
        return x
    return like(x, F.dropout(x.batched, rate))
