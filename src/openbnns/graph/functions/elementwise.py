"""Elementwise functions with broadcasting: arithmetic, comparisons, logic, and conversions of element types.

Results of comparisons and logic are masks: 1 where something holds, else 0, through which no gradient goes.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import ActivationFunction, ArithmeticBinaryFunction, ArithmeticTernaryFunction, ArithmeticUnaryFunction
from .. import operations
from ..declared import AnyType, Declaration, Floats, Joined, Mask, declare, is_number
from ..tensor import FUNCTIONS, Tensor
from .base import TensorLike, elementwise, function, integers_of, numbers, record, value

__all__ = [
    "abs", "acos", "acosh", "add", "addcmul", "asin", "asinh", "atan", "atan2", "atanh", "ceil", "clamp", "clamp_max",
    "clamp_min", "clip", "cos", "cosh", "detach", "div", "eq", "erf", "erfc", "exp", "exp2", "expm1", "floor",
    "floor_divide", "fmod", "frac", "ge", "gt", "hypot", "isfinite", "isinf", "isnan", "le", "lerp", "log", "log10",
    "log1p", "log2", "logaddexp", "logical_and", "logical_not", "logical_or", "logical_xor", "lt", "masked_fill",
    "maximum", "minimum", "mul", "nan_to_num", "ne", "neg", "pow", "reciprocal", "remainder", "round", "rsqrt", "sign",
    "sin", "sinc", "sinh", "sqrt", "square", "sub", "tan", "trunc", "where",
]  # fmt: skip

_ONE, _TWO = ArithmeticUnaryFunction, ArithmeticBinaryFunction
_POWERS = {2: "square", 0.5: "sqrt", -1: "reciprocal", -0.5: "rsqrt"}


def _line(input: TensorLike, slope: float, start: float, who: str) -> Tensor:
    """``slope * input + start``: an activation, which may be fused into the layer before it."""
    x = numbers(input, who, rounded=True)
    if start == 0:
        line = ActivationFunction.linear(alpha=float(slope))
    else:
        line = ActivationFunction.linear_with_bias(alpha=float(slope), beta=float(start))
    return x.graph.append(operations.Activation(x.graph, x, line))


# Arithmetic.


def _sum_with_number(a: TensorLike, b: TensorLike) -> Tensor | None:
    return _line(a, 1, b, "add") if is_number(b) else _line(b, 1, a, "add") if is_number(a) else None


def _difference_with_number(a: TensorLike, b: TensorLike) -> Tensor | None:
    return _line(a, 1, -b, "sub") if is_number(b) else _line(b, -1, a, "sub") if is_number(a) else None


def _product_with_number(a: TensorLike, b: TensorLike) -> Tensor | None:
    return _line(a, b, 0, "mul") if is_number(b) else _line(b, a, 0, "mul") if is_number(a) else None


def _quotient_by_number(a: TensorLike, b: TensorLike) -> Tensor | None:
    return _line(a, 1 / b, 0, "div") if is_number(b) and b else None


def _plain_power(x: TensorLike, exponent: TensorLike) -> Tensor | None:
    if not is_number(exponent) or exponent not in (*_POWERS, 1, 3):
        return None
    if exponent == 3:
        result: Tensor = mul(x, square(x))
        return result
    return numbers(x, "pow", rounded=True) if exponent == 1 else FUNCTIONS[_POWERS[exponent]](x)


_JOINED, _INTEGERS = ("Joined", "Joined"), ("Integers", "Integers")
_ADD = declare(Declaration("add", _JOINED, np.add, _TWO.ADD, native="add", in_floats=_sum_with_number))
_SUB = declare(Declaration("sub", _JOINED, np.subtract, _TWO.SUBTRACT, native="sub", in_floats=_difference_with_number))


@function
def add(input: TensorLike, other: TensorLike, *, alpha: float = 1) -> Any:
    """``input + alpha * other``."""
    if alpha != 1:
        other = alpha * other if is_number(other) else mul(other, alpha)
    return record(_ADD, input, other)


@function
def sub(input: TensorLike, other: TensorLike, *, alpha: float = 1) -> Any:
    """``input - alpha * other``."""
    if alpha != 1:
        if is_number(input) and not is_number(other):
            return add(mul(other, -alpha), input)
        other = alpha * other if is_number(other) else mul(other, alpha)
    return record(_SUB, input, other)


@elementwise(_TWO.MULTIPLY, native="mul", in_floats=_product_with_number)
def mul(input: Joined, other: Joined) -> Any:
    """``input * other``."""
    return np.multiply(input, other)


@elementwise(_TWO.DIVIDE, in_floats=_quotient_by_number)
def div(input: Floats, other: Floats) -> Any:
    """``input / other``."""
    return np.true_divide(input, other)


@elementwise(_TWO.POW, in_floats=_plain_power)
def pow(input: Joined, exponent: Joined) -> Any:
    """``input ** exponent``."""
    return np.power(input, exponent)


@elementwise(_TWO.MAX, native="maximum")
def maximum(input: Joined, other: Joined) -> Any:
    """The larger of two, element by element."""
    return np.maximum(input, other)


@elementwise(_TWO.MIN, native="minimum")
def minimum(input: Joined, other: Joined) -> Any:
    """The smaller of two, element by element."""
    return np.minimum(input, other)


@elementwise(in_floats=lambda x: _line(x, -1, 0, "neg"))
def neg(input: Joined) -> Any:
    """``-input``."""
    return np.negative(input)


@elementwise(_ONE.ABS)
def abs(input: Joined) -> Any:
    """The absolute value; its gradient at 0 is 0."""
    return np.absolute(input)


@elementwise(_ONE.EXP)
def exp(input: Floats) -> Any:
    """e to the power of the input."""
    return np.exp(input)


@elementwise(_ONE.EXP2)
def exp2(input: Floats) -> Any:
    """2 to the power of the input."""
    return np.exp2(input)


@elementwise(_ONE.LOG)
def log(input: Floats) -> Any:
    """The natural logarithm."""
    return np.log(input)


@elementwise(_ONE.LOG2)
def log2(input: Floats) -> Any:
    """The logarithm to base 2."""
    return np.log2(input)


@elementwise(_ONE.SQUARE_ROOT)
def sqrt(input: Floats) -> Any:
    """The square root."""
    return np.sqrt(input)


@elementwise(_ONE.RECIPROCAL_SQUARE_ROOT)
def rsqrt(input: Floats) -> Any:
    """One over the square root."""
    return 1 / np.sqrt(input)


@elementwise(_ONE.SQUARE)
def square(input: Joined) -> Any:
    """The square."""
    return np.square(input)


@elementwise(_ONE.RECIPROCAL)
def reciprocal(input: Floats) -> Any:
    """One over the input."""
    return 1 / input


@elementwise(_ONE.SIN)
def sin(input: Floats) -> Any:
    """The sine."""
    return np.sin(input)


@elementwise(_ONE.COS)
def cos(input: Floats) -> Any:
    """The cosine."""
    return np.cos(input)


@elementwise(_ONE.TAN)
def tan(input: Floats) -> Any:
    """The tangent."""
    return np.tan(input)


@elementwise(_ONE.ASIN)
def asin(input: Floats) -> Any:
    """The inverse sine."""
    return np.arcsin(input)


@elementwise(_ONE.ACOS)
def acos(input: Floats) -> Any:
    """The inverse cosine."""
    return np.arccos(input)


@elementwise(_ONE.ATAN)
def atan(input: Floats) -> Any:
    """The inverse tangent."""
    return np.arctan(input)


@elementwise(_ONE.SINH)
def sinh(input: Floats) -> Any:
    """The hyperbolic sine."""
    return np.sinh(input)


@elementwise(_ONE.COSH)
def cosh(input: Floats) -> Any:
    """The hyperbolic cosine."""
    return np.cosh(input)


@elementwise(_ONE.ASINH)
def asinh(input: Floats) -> Any:
    """The inverse hyperbolic sine."""
    return np.arcsinh(input)


@elementwise(_ONE.ACOSH)
def acosh(input: Floats) -> Any:
    """The inverse hyperbolic cosine."""
    return np.arccosh(input)


@elementwise(_ONE.ATANH)
def atanh(input: Floats) -> Any:
    """The inverse hyperbolic tangent."""
    return np.arctanh(input)


@elementwise(_ONE.ERF)
def erf(input: Floats) -> Any:
    """The error function."""
    return _erf(input).astype(input.dtype)


def _rounded(function: Any, x: Any) -> Any:
    return x if getattr(x, "dtype", None) == np.int64 else function(x)  # which NumPy before 2.1 converts to float64


@elementwise(_ONE.FLOOR)
def floor(input: Joined) -> Any:
    """The largest whole number that is not above the input; its gradient is 0, as that of all rounding."""
    return _rounded(np.floor, input)


@elementwise(_ONE.CEIL)
def ceil(input: Joined) -> Any:
    """The smallest whole number that is not below the input."""
    return _rounded(np.ceil, input)


@elementwise(_ONE.ROUND)
def round(input: Joined) -> Any:
    """The nearest whole number."""
    return _rounded(np.round, input)


@elementwise(_ONE.SIGN)
def sign(input: Joined) -> Any:
    """-1, 0 or 1."""
    return np.sign(input)


_erf: Any = np.frompyfunc(math.erf, 1, 1)
_erfc: Any = np.frompyfunc(math.erfc, 1, 1)


def _one(*_: Any) -> float:
    return 1.0


@elementwise(slopes=(lambda y, x: -2 / math.sqrt(math.pi) * np.exp(-x * x),))
def erfc(input: Floats) -> Any:
    """One minus the error function, accurate where that is nearly one."""
    return _erfc(input).astype(input.dtype)


@elementwise(slopes=(lambda y, x: 1 / (1 + x),))
def log1p(input: Floats) -> Any:
    """log(1 + x), accurate near 0."""
    return np.log1p(input)


@elementwise(slopes=(lambda y, x: 1 / (x * math.log(10)),))
def log10(input: Floats) -> Any:
    """The logarithm to base 10."""
    return np.log10(input)


@elementwise(slopes=(lambda y, x: y + 1,))
def expm1(input: Floats) -> Any:
    """exp(x) - 1, accurate near 0."""
    return np.expm1(input)


@elementwise(slopes=(lambda y, x: np.where(x == 0, 0, (np.cos(np.pi * x) - y) / np.where(x == 0, 1, x)),))
def sinc(input: Floats) -> Any:
    """sin(πx) / (πx), and 1 at 0."""
    return np.sinc(input)


@elementwise()
def trunc(input: Joined) -> Any:
    """The input rounded towards 0; no gradient goes through."""
    return _rounded(np.trunc, input)


@elementwise(slopes=(_one,))
def frac(input: Floats) -> Any:
    """The fraction behind the point: x - trunc(x)."""
    return input - np.trunc(input)


@elementwise(slopes=(lambda y, a, b: b / (a * a + b * b), lambda y, a, b: -a / (a * a + b * b)))
def atan2(input: Floats, other: Floats) -> Any:
    """The angle of the point with y = ``input`` and x = ``other``."""
    return np.arctan2(input, other)


@elementwise(slopes=(lambda y, a, b: a / y, lambda y, a, b: b / y))
def hypot(input: Floats, other: Floats) -> Any:
    """The length of the hypotenuse: sqrt(input² + other²)."""
    return np.hypot(input, other)


@elementwise(slopes=(lambda y, a, b: np.exp(a - y), lambda y, a, b: np.exp(b - y)))
def logaddexp(input: Floats, other: Floats) -> Any:
    """log(exp(input) + exp(other)), without overflow."""
    return np.logaddexp(input, other)


@elementwise(native="remainder", slopes=(_one, lambda y, a, b: -np.floor(a / b)))
def remainder(input: Joined, other: Joined) -> Any:
    """``input % other``: the remainder of a division, with the sign of ``other``.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.functional.remainder(np.float32([-3, 5.5]), 2).tolist(), nn.functional.fmod(np.float32([-3, 5.5]), 2).tolist()
    ([1.0, 1.5], [-1.0, 1.5])
    """
    return np.remainder(input, other)


@elementwise(native="fmod", slopes=(_one, lambda y, a, b: -np.trunc(a / b)))
def fmod(input: Joined, other: Joined) -> Any:
    """The remainder of a division, with the sign of ``input``."""
    return np.fmod(input, other)


@elementwise(native="floor_divide")
def floor_divide(input: Joined, other: Joined) -> Any:
    """``input // other``: the quotient rounded down, through which no gradient goes."""
    return np.floor_divide(input, other)


@elementwise(native="divide", method=False)
def trunc_divide(input: Joined, other: Joined) -> Any:
    """The quotient rounded towards 0, through which no gradient goes."""
    if any(x.dtype == object for x in map(np.asarray, (input, other))):
        return _towards_zero(input, other)
    return (
        np.trunc(input / other)
        if np.result_type(input, other).kind == "f"
        else (input - np.fmod(input, other)) // other
    )


_towards_zero: Any = np.frompyfunc(lambda a, b: a // b if (a < 0) is (b < 0) else -(-a // b), 2, 1)  # of sizes


# Operators of files, without a function.

declare(Declaration("bitwise_and", _INTEGERS, np.bitwise_and))
declare(Declaration("bitwise_or", _INTEGERS, np.bitwise_or))
declare(Declaration("bitwise_xor", _INTEGERS, np.bitwise_xor))
declare(Declaration("left_shift", _INTEGERS, np.left_shift))
declare(Declaration("right_shift", _INTEGERS, np.right_shift))
declare(Declaration("gcd", _INTEGERS, np.gcd))
declare(Declaration("lcm", _INTEGERS, np.lcm))


# Comparisons, logic and choices.


@elementwise(native="gt", is_mask=True)
def gt(input: AnyType, other: AnyType) -> Any:
    """``input > other``.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.functional.gt(np.float32([1, 2, 3]), 2).tolist()
    [0.0, 0.0, 1.0]
    """
    return np.greater(input, other)


@elementwise(native="ge", is_mask=True)
def ge(input: AnyType, other: AnyType) -> Any:
    """``input >= other``."""
    return np.greater_equal(input, other)


@elementwise(native="lt", is_mask=True)
def lt(input: AnyType, other: AnyType) -> Any:
    """``input < other``."""
    return np.less(input, other)


@elementwise(native="le", is_mask=True)
def le(input: AnyType, other: AnyType) -> Any:
    """``input <= other``."""
    return np.less_equal(input, other)


@elementwise(native="eq", is_mask=True)
def eq(input: AnyType, other: AnyType) -> Any:
    """``input == other``."""
    return np.equal(input, other)


@elementwise(native="ne", is_mask=True)
def ne(input: AnyType, other: AnyType) -> Any:
    """``input != other``."""
    return np.not_equal(input, other)


@elementwise(native="logical_and", is_mask=True)
def logical_and(input: AnyType, other: AnyType) -> Any:
    """1 where neither is 0; ``a & b`` for masks."""
    return np.logical_and(input, other)


@elementwise(native="logical_or", is_mask=True)
def logical_or(input: AnyType, other: AnyType) -> Any:
    """1 where one of them is not 0; ``a | b`` for masks."""
    return np.logical_or(input, other)


@elementwise(native="logical_xor", is_mask=True)
def logical_xor(input: AnyType, other: AnyType) -> Any:
    """1 where exactly one of them is not 0; ``a ^ b`` for masks."""
    return np.logical_xor(input, other)


@elementwise(native="logical_not", is_mask=True)
def logical_not(input: AnyType) -> Any:
    """1 where the input is 0; ``~a`` for masks."""
    return np.logical_not(input)


@elementwise(native="isnan", is_mask=True)
def isnan(input: AnyType) -> Any:
    """1 where the input is NaN."""
    return np.isnan(input)


@elementwise(is_mask=True)
def isinf(input: AnyType) -> Any:
    """1 where the input is infinite."""
    return np.isinf(input)


@elementwise(is_mask=True)
def isfinite(input: AnyType) -> Any:
    """1 where the input is neither infinite nor NaN."""
    return np.isfinite(input)


@elementwise(ArithmeticTernaryFunction.SELECT, method=False)
def where(condition: Mask, input: Joined, other: Joined) -> Any:
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
    return np.where(condition, input, other)


@elementwise(ArithmeticTernaryFunction.MULTIPLY_ADD, method=False)
def multiply_add(input: Joined, other: Joined, added: Joined) -> Any:
    """``input * other + added``."""
    return input * other + added


@function
def nan_to_num(input: TensorLike, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Any:
    """The input with NaN and infinities replaced, the latter by the largest and the smallest number of float32 if left out."""
    x, largest = value(input, "nan_to_num"), float(np.finfo(np.float32).max)
    if x.dtype.kind == "i":
        return x
    replaced = where(isnan(x), float(nan), x)
    replaced = where(eq(x, np.inf), largest if posinf is None else float(posinf), replaced)
    return where(eq(x, -np.inf), -largest if neginf is None else float(neginf), replaced)


@function
def clamp(input: TensorLike, min: TensorLike = None, max: TensorLike = None) -> Any:
    """The input with what lies below ``min`` or above ``max`` set to these.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.functional.clamp(np.float32([[-2, 0.5, 3]]), -1, 1).tolist()
    [[-1.0, 0.5, 1.0]]
    """
    if min is None and max is None:
        raise ValueError("clamp: neither min nor max is given. Pass at least one of them.")
    x = value(input, "clamp")
    plain = isinstance(min, (int, float)) and isinstance(max, (int, float))
    if plain and (x.dtype.kind == "f" or float in (type(min), type(max))):
        x = numbers(x, "clamp")
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
def masked_fill(input: TensorLike, mask: TensorLike, value: float) -> Any:
    """The input with ``value`` where the mask is not zero."""
    return where(mask, value, input)


def _operand(given: TensorLike, who: str) -> Any:
    """A plain number as it is, and anything else as a value, refused in the name of the function that the user called."""
    return given if is_number(given) else value(given, who)


@function
def addcmul(input: TensorLike, tensor1: TensorLike, tensor2: TensorLike, *, value: float = 1) -> Any:
    """``input + value * tensor1 * tensor2``."""
    input, tensor1, tensor2 = (_operand(x, "addcmul") for x in (input, tensor1, tensor2))
    if value != 1:
        return add(input, mul(mul(tensor1, tensor2), value))
    return multiply_add(tensor1, tensor2, input)


@function
def lerp(input: TensorLike, end: TensorLike, weight: TensorLike) -> Any:
    """``input + weight * (end - input)``."""
    return add(input, mul(weight, sub(end, input)))


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
def detach(input: TensorLike) -> Any:
    """The same numbers, through which no gradient goes back."""
    x = value(input, "detach")
    return x if x.dtype.kind == "i" else x.graph.append(operations.Detach(x))


@function
def as_numbers(input: TensorLike) -> Any:
    """The input as numbers to compute with: whole numbers are rounded to float32, and a mask is no longer one."""
    x = numbers(input, "float", rounded=True)
    if not x.is_mask and (x.storage.producer is not None or x.storage.leaf is not None):
        return x
    y = Tensor(x.graph, x.shape, source=x)
    y.is_number = True
    return y


@function
def as_integers(input: TensorLike) -> Any:
    """The input as whole numbers for lookups; fractions are dropped."""
    return integers_of(value(input, "long"))
