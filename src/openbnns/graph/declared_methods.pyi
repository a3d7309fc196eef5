# Written by tools/generate_stubs.py from the functions that are declared as elementwise.
from typing import Any

from .tensor import Tensor

class DeclaredMethods:
    def abs(self) -> Tensor:
        """The absolute value; its gradient at 0 is 0."""

    def acos(self) -> Tensor:
        """The inverse cosine."""

    def acosh(self) -> Tensor:
        """The inverse hyperbolic cosine."""

    def amax(self, dim: Any = None, keepdim: bool = False) -> Tensor:
        """The largest element along ``dim``; the gradient goes to the first of equal ones."""

    def amin(self, dim: Any = None, keepdim: bool = False) -> Tensor:
        """The smallest element along ``dim``."""

    def asin(self) -> Tensor:
        """The inverse sine."""

    def asinh(self) -> Tensor:
        """The inverse hyperbolic sine."""

    def atan(self) -> Tensor:
        """The inverse tangent."""

    def atan2(self, other: Any) -> Tensor:
        """The angle of the point with y = ``input`` and x = ``other``."""

    def atanh(self) -> Tensor:
        """The inverse hyperbolic tangent."""

    def ceil(self) -> Tensor:
        """The smallest whole number that is not below the input."""

    def cos(self) -> Tensor:
        """The cosine."""

    def cosh(self) -> Tensor:
        """The hyperbolic cosine."""

    def cumprod(self, dim: Any) -> Tensor:
        """The products of all elements up to each along ``dim``."""

    def cumsum(self, dim: Any) -> Tensor:
        """The sums of all elements up to each along ``dim``."""

    def div(self, other: Any) -> Tensor:
        """``input / other``."""

    def eq(self, other: Any) -> Tensor:
        """``input == other``."""

    def erf(self) -> Tensor:
        """The error function."""

    def erfc(self) -> Tensor:
        """One minus the error function, accurate where that is nearly one."""

    def exp(self) -> Tensor:
        """e to the power of the input."""

    def exp2(self) -> Tensor:
        """2 to the power of the input."""

    def expm1(self) -> Tensor:
        """exp(x) - 1, accurate near 0."""

    def floor(self) -> Tensor:
        """The largest whole number that is not above the input; its gradient is 0, as that of all rounding."""

    def floor_divide(self, other: Any) -> Tensor:
        """``input // other``: the quotient rounded down, through which no gradient goes."""

    def fmod(self, other: Any) -> Tensor:
        """The remainder of a division, with the sign of ``input``."""

    def frac(self) -> Tensor:
        """The fraction behind the point: x - trunc(x)."""

    def ge(self, other: Any) -> Tensor:
        """``input >= other``."""

    def gt(self, other: Any) -> Tensor:
        """``input > other``."""

    def hypot(self, other: Any) -> Tensor:
        """The length of the hypotenuse: sqrt(input² + other²)."""

    def isfinite(self) -> Tensor:
        """1 where the input is neither infinite nor NaN."""

    def isinf(self) -> Tensor:
        """1 where the input is infinite."""

    def isnan(self) -> Tensor:
        """1 where the input is NaN."""

    def le(self, other: Any) -> Tensor:
        """``input <= other``."""

    def log(self) -> Tensor:
        """The natural logarithm."""

    def log10(self) -> Tensor:
        """The logarithm to base 10."""

    def log1p(self) -> Tensor:
        """log(1 + x), accurate near 0."""

    def log2(self) -> Tensor:
        """The logarithm to base 2."""

    def logaddexp(self, other: Any) -> Tensor:
        """log(exp(input) + exp(other)), without overflow."""

    def logical_and(self, other: Any) -> Tensor:
        """1 where neither is 0; ``a & b`` for masks."""

    def logical_not(self) -> Tensor:
        """1 where the input is 0; ``~a`` for masks."""

    def logical_or(self, other: Any) -> Tensor:
        """1 where one of them is not 0; ``a | b`` for masks."""

    def logical_xor(self, other: Any) -> Tensor:
        """1 where exactly one of them is not 0; ``a ^ b`` for masks."""

    def lt(self, other: Any) -> Tensor:
        """``input < other``."""

    def maximum(self, other: Any) -> Tensor:
        """The larger of two, element by element."""

    def minimum(self, other: Any) -> Tensor:
        """The smaller of two, element by element."""

    def mul(self, other: Any) -> Tensor:
        """``input * other``."""

    def ne(self, other: Any) -> Tensor:
        """``input != other``."""

    def neg(self) -> Tensor:
        """``-input``."""

    def pow(self, exponent: Any) -> Tensor:
        """``input ** exponent``."""

    def prod(self, dim: Any = None, keepdim: bool = False) -> Tensor:
        """The product along ``dim``."""

    def reciprocal(self) -> Tensor:
        """One over the input."""

    def remainder(self, other: Any) -> Tensor:
        """``input % other``: the remainder of a division, with the sign of ``other``."""

    def round(self) -> Tensor:
        """The nearest whole number."""

    def rsqrt(self) -> Tensor:
        """One over the square root."""

    def sign(self) -> Tensor:
        """-1, 0 or 1."""

    def sin(self) -> Tensor:
        """The sine."""

    def sinc(self) -> Tensor:
        """sin(πx) / (πx), and 1 at 0."""

    def sinh(self) -> Tensor:
        """The hyperbolic sine."""

    def sqrt(self) -> Tensor:
        """The square root."""

    def square(self) -> Tensor:
        """The square."""

    def sum(self, dim: Any = None, keepdim: bool = False) -> Tensor:
        """The sum along ``dim``, an axis or several; of all elements if left out."""

    def tan(self) -> Tensor:
        """The tangent."""

    def trunc(self) -> Tensor:
        """The input rounded towards 0; no gradient goes through."""
