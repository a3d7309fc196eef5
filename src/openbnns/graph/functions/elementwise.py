"""Elementwise functions with broadcasting: arithmetic, comparisons, logic, and conversions of element types.

Results of comparisons and logic are masks: 1 where something holds, else 0, through which no gradient goes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import ActivationFunction, ArithmeticBinaryFunction, ArithmeticTernaryFunction, ArithmeticUnaryFunction
from .. import operations
from ..sizes import Size, is_same_shape
from ..tensor import FUNCTIONS, Array, Tensor
from .base import TensorLike, function, numbers, value

__all__ = [
    "abs", "acos", "acosh", "add", "addcmul", "asin", "asinh", "atan", "atan2", "atanh", "ceil", "clamp", "clamp_max",
    "clamp_min", "clip", "cos", "cosh", "detach", "div", "eq", "erf", "erfc", "exp", "exp2", "expm1", "floor",
    "floor_divide", "fmod", "frac", "ge", "gt", "hypot", "isfinite", "isinf", "isnan", "le", "lerp", "log", "log10",
    "log1p", "log2", "logaddexp", "logical_and", "logical_not", "logical_or", "logical_xor", "lt", "masked_fill",
    "maximum", "minimum", "mul", "nan_to_num", "ne", "neg", "pow", "reciprocal", "remainder", "round", "rsqrt", "sign",
    "sin", "sinc", "sinh", "sqrt", "square", "sub", "tan", "trunc", "where",
]  # fmt: skip

_ONE, _TWO = ArithmeticUnaryFunction, ArithmeticBinaryFunction
_POWERS = {2: _ONE.SQUARE, 0.5: _ONE.SQUARE_ROOT, -1: _ONE.RECIPROCAL, -0.5: _ONE.RECIPROCAL_SQUARE_ROOT}


def _unary(function_: ArithmeticUnaryFunction, x: TensorLike, who: str) -> Tensor:
    operand = numbers(x, who)
    return operand.graph.append(operations.Arithmetic(function_, [operand]))


def _binary(function_: ArithmeticBinaryFunction, a: TensorLike, b: TensorLike, who: str) -> Tensor:
    return _arithmetic(function_, [numbers(a, who), numbers(b, who)])


def _arithmetic(function_: ArithmeticBinaryFunction | ArithmeticTernaryFunction, operands: list[Tensor]) -> Tensor:
    """A function of several values; a layer takes the same memory once, or in one shape."""
    graph = operands[0].graph
    for i, x in enumerate(operands):
        if any(x.storage is y.storage and not is_same_shape(x.shape, y.shape) for y in operands[:i]):
            operands[i] = graph.append(operations.Expand(x, Tensor(graph, x.shape)))
    return graph.append(operations.Arithmetic(function_, operands))


def _elementwise(name: str, *given: TensorLike) -> Tensor:
    operands = [numbers(x, name) for x in given]
    return operands[0].graph.append(operations.Elementwise(name, operands))


def _line(input: TensorLike, slope: float, start: float, who: str) -> Tensor:
    """``slope * input + start``: an activation, which may be fused into the layer before it."""
    x = numbers(input, who)
    if start == 0:
        line = ActivationFunction.linear(alpha=float(slope))
    else:
        line = ActivationFunction.linear_with_bias(alpha=float(slope), beta=float(start))
    return x.graph.append(operations.Activation(x.graph, x, line))


def _is_number(given: TensorLike) -> bool:
    return isinstance(given, (int, float, np.floating, np.integer)) and not isinstance(given, Size)


@function
def add(input: TensorLike, other: TensorLike, *, alpha: float = 1) -> Any:
    """``input + alpha * other``."""
    if _is_number(other):
        return _line(input, 1, alpha * other, "add")
    if _is_number(input) and alpha == 1:
        return _line(other, 1, input, "add")
    return _binary(_TWO.ADD, input, other if alpha == 1 else mul(other, alpha), "add")


@function
def sub(input: TensorLike, other: TensorLike, *, alpha: float = 1) -> Any:
    """``input - alpha * other``."""
    if _is_number(other):
        return _line(input, 1, -alpha * other, "sub")
    if _is_number(input):
        return _line(other, -alpha, input, "sub")
    return _binary(_TWO.SUBTRACT, input, other if alpha == 1 else mul(other, alpha), "sub")


@function
def mul(input: TensorLike, other: TensorLike) -> Any:
    """``input * other``."""
    if _is_number(other):
        return _line(input, other, 0, "mul")
    if _is_number(input):
        return _line(other, input, 0, "mul")
    return _binary(_TWO.MULTIPLY, input, other, "mul")


@function
def div(input: TensorLike, other: TensorLike) -> Any:
    """``input / other``."""
    if _is_number(other) and other:
        return _line(input, 1 / other, 0, "div")
    return _binary(_TWO.DIVIDE, input, other, "div")


@function
def pow(input: TensorLike, exponent: TensorLike) -> Any:
    """``input ** exponent``."""
    if _is_number(exponent):
        if exponent in _POWERS:
            return _unary(_POWERS[exponent], input, "pow")
        if exponent == 1:
            return numbers(input, "pow")
        if exponent == 3:
            return mul(input, square(input))
    return _binary(_TWO.POW, input, exponent, "pow")


@function
def maximum(input: TensorLike, other: TensorLike) -> Any:
    """The larger of two, element by element."""
    return _binary(_TWO.MAX, input, other, "maximum")


@function
def minimum(input: TensorLike, other: TensorLike) -> Any:
    """The smaller of two, element by element."""
    return _binary(_TWO.MIN, input, other, "minimum")


@function
def neg(input: TensorLike) -> Any:
    """``-input``."""
    return _line(input, -1, 0, "neg")


@function
def abs(input: TensorLike) -> Any:
    """The absolute value; its gradient at 0 is 0."""
    return _unary(_ONE.ABS, input, "abs")


@function
def exp(input: TensorLike) -> Any:
    """e to the power of the input."""
    return _unary(_ONE.EXP, input, "exp")


@function
def exp2(input: TensorLike) -> Any:
    """2 to the power of the input."""
    return _unary(_ONE.EXP2, input, "exp2")


@function
def log(input: TensorLike) -> Any:
    """The natural logarithm."""
    return _unary(_ONE.LOG, input, "log")


@function
def log2(input: TensorLike) -> Any:
    """The logarithm to base 2."""
    return _unary(_ONE.LOG2, input, "log2")


@function
def sqrt(input: TensorLike) -> Any:
    """The square root."""
    return _unary(_ONE.SQUARE_ROOT, input, "sqrt")


@function
def rsqrt(input: TensorLike) -> Any:
    """One over the square root."""
    return _unary(_ONE.RECIPROCAL_SQUARE_ROOT, input, "rsqrt")


@function
def square(input: TensorLike) -> Any:
    """The square."""
    return _unary(_ONE.SQUARE, input, "square")


@function
def reciprocal(input: TensorLike) -> Any:
    """One over the input."""
    return _unary(_ONE.RECIPROCAL, input, "reciprocal")


@function
def sin(input: TensorLike) -> Any:
    """The sine."""
    return _unary(_ONE.SIN, input, "sin")


@function
def cos(input: TensorLike) -> Any:
    """The cosine."""
    return _unary(_ONE.COS, input, "cos")


@function
def tan(input: TensorLike) -> Any:
    """The tangent."""
    return _unary(_ONE.TAN, input, "tan")


@function
def asin(input: TensorLike) -> Any:
    """The inverse sine."""
    return _unary(_ONE.ASIN, input, "asin")


@function
def acos(input: TensorLike) -> Any:
    """The inverse cosine."""
    return _unary(_ONE.ACOS, input, "acos")


@function
def atan(input: TensorLike) -> Any:
    """The inverse tangent."""
    return _unary(_ONE.ATAN, input, "atan")


@function
def sinh(input: TensorLike) -> Any:
    """The hyperbolic sine."""
    return _unary(_ONE.SINH, input, "sinh")


@function
def cosh(input: TensorLike) -> Any:
    """The hyperbolic cosine."""
    return _unary(_ONE.COSH, input, "cosh")


@function
def asinh(input: TensorLike) -> Any:
    """The inverse hyperbolic sine."""
    return _unary(_ONE.ASINH, input, "asinh")


@function
def acosh(input: TensorLike) -> Any:
    """The inverse hyperbolic cosine."""
    return _unary(_ONE.ACOSH, input, "acosh")


@function
def atanh(input: TensorLike) -> Any:
    """The inverse hyperbolic tangent."""
    return _unary(_ONE.ATANH, input, "atanh")


@function
def erf(input: TensorLike) -> Any:
    """The error function."""
    return _unary(_ONE.ERF, input, "erf")


@function
def erfc(input: TensorLike) -> Any:
    """One minus the error function, accurate where that is nearly one."""
    return _elementwise("erfc", input)


@function
def log1p(input: TensorLike) -> Any:
    """log(1 + x), accurate near 0."""
    return _elementwise("log1p", input)


@function
def log10(input: TensorLike) -> Any:
    """The logarithm to base 10."""
    return _elementwise("log10", input)


@function
def expm1(input: TensorLike) -> Any:
    """exp(x) - 1, accurate near 0."""
    return _elementwise("expm1", input)


@function
def sinc(input: TensorLike) -> Any:
    """sin(πx) / (πx), and 1 at 0."""
    return _elementwise("sinc", input)


@function
def atan2(input: TensorLike, other: TensorLike) -> Any:
    """The angle of the point with y = ``input`` and x = ``other``."""
    return _elementwise("atan2", input, other)


@function
def hypot(input: TensorLike, other: TensorLike) -> Any:
    """The length of the hypotenuse: sqrt(input² + other²)."""
    return _elementwise("hypot", input, other)


@function
def logaddexp(input: TensorLike, other: TensorLike) -> Any:
    """log(exp(input) + exp(other)), without overflow."""
    return _elementwise("logaddexp", input, other)


@function
def remainder(input: TensorLike, other: TensorLike) -> Any:
    """``input % other``: the remainder of a division, with the sign of ``other``.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.functional.remainder(np.float32([-3, 5.5]), 2).tolist(), nn.functional.fmod(np.float32([-3, 5.5]), 2).tolist()
    ([1.0, 1.5], [-1.0, 1.5])
    """
    return _elementwise("remainder", input, other)


@function
def fmod(input: TensorLike, other: TensorLike) -> Any:
    """The remainder of a division, with the sign of ``input``."""
    return _elementwise("fmod", input, other)


@function
def floor_divide(input: TensorLike, other: TensorLike) -> Any:
    """``input // other``: the quotient rounded down, through which no gradient goes."""
    return _elementwise("floor_divide", input, other)


@function
def trunc(input: TensorLike) -> Any:
    """The input rounded towards 0; no gradient goes through."""
    return _elementwise("trunc", input)


@function
def frac(input: TensorLike) -> Any:
    """The fraction behind the point: x - trunc(x)."""
    return _elementwise("frac", input)


@function
def nan_to_num(input: TensorLike, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Any:
    """The input with NaN and infinities replaced, the latter by the largest and the smallest number of float32 if left out."""
    x, largest = numbers(input, "nan_to_num"), float(np.finfo(np.float32).max)
    replaced = where(_elementwise("isnan", x), float(nan), x)
    replaced = where(_elementwise("eq", x, np.inf), largest if posinf is None else float(posinf), replaced)
    return where(_elementwise("eq", x, -np.inf), -largest if neginf is None else float(neginf), replaced)


@function
def floor(input: TensorLike) -> Any:
    """The largest whole number that is not above the input; its gradient is 0, as that of all rounding."""
    return _unary(_ONE.FLOOR, input, "floor")


@function
def ceil(input: TensorLike) -> Any:
    """The smallest whole number that is not below the input."""
    return _unary(_ONE.CEIL, input, "ceil")


@function
def round(input: TensorLike) -> Any:
    """The nearest whole number."""
    return _unary(_ONE.ROUND, input, "round")


@function
def sign(input: TensorLike) -> Any:
    """-1, 0 or 1."""
    return _unary(_ONE.SIGN, input, "sign")


@function
def clamp(input: TensorLike, min: TensorLike = None, max: TensorLike = None) -> Any:
    """The input with what lies below ``min`` or above ``max`` set to these.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.functional.clamp(np.float32([[-2, 0.5, 3]]), -1, 1).tolist()
    [[-1.0, 0.5, 1.0]]
    """
    x = numbers(input, "clamp")
    if min is None and max is None:
        raise ValueError("clamp: neither min nor max is given. Pass at least one of them.")
    if isinstance(min, (int, float)) and isinstance(max, (int, float)):
        return x.graph.append(operations.Activation(x.graph, x, ActivationFunction.clamp((float(min), float(max)))))
    if min is not None:
        x = maximum(x, min)
    return x if max is None else minimum(x, max)


clip = clamp


@function
def clamp_min(input: TensorLike, min: TensorLike) -> Any:
    """The input with what lies below ``min`` set to it."""
    return clamp(input, min=min)


@function
def clamp_max(input: TensorLike, max: TensorLike) -> Any:
    """The input with what lies above ``max`` set to it."""
    return clamp(input, max=max)


@function
def where(condition: TensorLike, input: TensorLike, other: TensorLike) -> Any:
    """``input`` where the condition, a mask of zeros and other numbers, is not zero, and ``other`` elsewhere.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.functional.where(np.array([True, False]), np.float32([[1, 2]]), 0.0).tolist()
    [[1.0, 0.0]]
    >>> class Rectified(nn.Module):
    ...     def forward(self, x):
    ...         return nn.functional.where(x > 0, x, 0.5 * x)
    >>> Rectified()(np.float32([[-1, 2]])).tolist()
    [[-0.5, 2.0]]
    """
    mask = value(condition, "where")
    if isinstance(mask.leaf, np.ndarray) and mask.leaf.dtype != np.float32:
        mask = mask.graph.constant(mask.graph.following(mask.leaf, _as_mask))
    operands = [numbers(mask, "where"), numbers(input, "where"), numbers(other, "where")]
    return _arithmetic(ArithmeticTernaryFunction.SELECT, operands)


def _as_mask(array: Array) -> Array:
    mask: Array = (array != 0).astype(np.float32)
    return mask


@function
def masked_fill(input: TensorLike, mask: TensorLike, value: float) -> Any:
    """The input with ``value`` where the mask is not zero."""
    return where(mask, value, input)


@function
def addcmul(input: TensorLike, tensor1: TensorLike, tensor2: TensorLike, *, value: float = 1) -> Any:
    """``input + value * tensor1 * tensor2``."""
    if value != 1:
        return add(input, mul(mul(tensor1, tensor2), value))
    operands = [numbers(tensor1, "addcmul"), numbers(tensor2, "addcmul"), numbers(input, "addcmul")]
    return _arithmetic(ArithmeticTernaryFunction.MULTIPLY_ADD, operands)


@function
def lerp(input: TensorLike, end: TensorLike, weight: TensorLike) -> Any:
    """``input + weight * (end - input)``."""
    return add(input, mul(weight, sub(end, input)))


def _mask(name: str, *given: TensorLike) -> Tensor:
    """A function of elements that takes whole numbers as they are."""
    operands = [value(np.int64(x) if _is_whole(x) else x, name) for x in given]
    return operands[0].graph.append(operations.Elementwise(name, operands))


def _is_whole(given: TensorLike) -> bool:
    return isinstance(given, (int, np.integer)) and not isinstance(given, bool)


@function
def gt(input: TensorLike, other: TensorLike) -> Any:
    """``input > other``.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.functional.gt(np.float32([1, 2, 3]), 2).tolist()
    [0.0, 0.0, 1.0]
    """
    return _mask("gt", input, other)


@function
def ge(input: TensorLike, other: TensorLike) -> Any:
    """``input >= other``."""
    return _mask("ge", input, other)


@function
def lt(input: TensorLike, other: TensorLike) -> Any:
    """``input < other``."""
    return _mask("lt", input, other)


@function
def le(input: TensorLike, other: TensorLike) -> Any:
    """``input <= other``."""
    return _mask("le", input, other)


@function
def eq(input: TensorLike, other: TensorLike) -> Any:
    """``input == other``."""
    return _mask("eq", input, other)


@function
def ne(input: TensorLike, other: TensorLike) -> Any:
    """``input != other``."""
    return _mask("ne", input, other)


@function
def logical_and(input: TensorLike, other: TensorLike) -> Any:
    """1 where neither is 0; ``a & b`` for masks."""
    return _mask("logical_and", input, other)


@function
def logical_or(input: TensorLike, other: TensorLike) -> Any:
    """1 where one of them is not 0; ``a | b`` for masks."""
    return _mask("logical_or", input, other)


@function
def logical_xor(input: TensorLike, other: TensorLike) -> Any:
    """1 where exactly one of them is not 0; ``a ^ b`` for masks."""
    return _mask("logical_xor", input, other)


@function
def logical_not(input: TensorLike) -> Any:
    """1 where the input is 0; ``~a`` for masks."""
    return _mask("logical_not", input)


def of_masks(name: str, *given: TensorLike) -> Tensor:
    """An operator of masks, which Python writes like one of bits."""
    operands = [value(x, name) for x in given]
    for x in operands:
        if x.dtype.kind == "i" and x.leaf is None:
            sign = {"logical_and": "&", "logical_or": "|", "logical_xor": "^", "logical_not": "~"}[name]
            raise TypeError(
                f"{sign}: acts on masks, such as x > 0, but {x!r} holds integers. There are no operations on single bits; use "
                f"nn.functional.{name} for what is not 0."
            )
    result: Tensor = _LOGIC[name](*operands)
    return result


_LOGIC: dict[str, Any] = {
    "logical_and": logical_and, "logical_or": logical_or, "logical_xor": logical_xor, "logical_not": logical_not,
}  # fmt: skip
FUNCTIONS["of_masks"] = of_masks


@function
def isnan(input: TensorLike) -> Any:
    """1 where the input is NaN."""
    return _mask("isnan", input)


@function
def isinf(input: TensorLike) -> Any:
    """1 where the input is infinite."""
    return _mask("isinf", input)


@function
def isfinite(input: TensorLike) -> Any:
    """1 where the input is neither infinite nor NaN."""
    return _mask("isfinite", input)


@function
def detach(input: TensorLike) -> Any:
    """The same numbers, through which no gradient goes back."""
    x = numbers(input, "detach")
    return x.graph.append(operations.Detach(x))


@function
def as_numbers(input: TensorLike) -> Any:
    """The input as numbers to compute with: whole numbers become float32, and a mask is no longer one."""
    x = numbers(input, "float")
    if not x.is_mask and (x.storage.producer is not None or x.storage.leaf is not None):
        return x
    y = Tensor(x.graph, x.shape, source=x)
    y.is_number = True
    return y


@function
def as_integers(input: TensorLike) -> Any:
    """The input as whole numbers for lookups; fractions are dropped."""
    x = value(input, "long")
    return x if x.dtype.kind == "i" else x.graph.append(operations.Convert(x, whole=True))
