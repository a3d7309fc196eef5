"""What values and parameters do in ``forward``: operators and methods as PyTorch's tensors have them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from inspect import isfunction
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from .._spelling import spelled

if TYPE_CHECKING:
    from ._value import Value

_NOT_YET = (
    "forward() is recorded once, before there are numbers, and then run for every batch, so it cannot branch on numbers, print "
    "them or turn them into NumPy's. Choose with nn.functional.where(mask, a, b), keep or drop parts by options of __init__, and "
    "put code that needs numbers into an nn.Function."
)


_COMPARED = (
    "forward() is recorded once, before there are numbers, so it cannot branch on numbers, and values cannot be compared there. "
    "Often a function of nn.functional does what the comparison is for: relu, clamp, maximum, minimum, sign, hardshrink or "
    "threshold. With a mask that is known before choose by nn.functional.where(mask, a, b); put any other into an nn.Function."
)


def _f() -> Any:
    from . import functional

    return functional


class Expression:
    """Base of values and parameters. ``dim`` counts the batch axis."""

    __slots__ = ()

    # Operators.

    def __add__(self, other: Any) -> Value:
        return _operated("add", self, other)

    def __radd__(self, other: Any) -> Value:
        return _operated("add", other, self)

    def __sub__(self, other: Any) -> Value:
        return _operated("sub", self, other)

    def __rsub__(self, other: Any) -> Value:
        return _operated("sub", other, self)

    def __mul__(self, other: Any) -> Value:
        return _operated("mul", self, other)

    def __rmul__(self, other: Any) -> Value:
        return _operated("mul", other, self)

    def __truediv__(self, other: Any) -> Value:
        return _operated("div", self, other)

    def __rtruediv__(self, other: Any) -> Value:
        return _operated("div", other, self)

    def __pow__(self, other: Any) -> Value:
        return _operated("pow", self, other)

    def __rpow__(self, other: Any) -> Value:
        return _operated("pow", other, self)

    def __matmul__(self, other: Any) -> Value:
        return _operated("matmul", self, other)

    def __rmatmul__(self, other: Any) -> Value:
        return _operated("matmul", other, self)

    def __neg__(self) -> Value:
        return _operated("neg", self)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Value:
        return _operated("abs", self)

    def __getitem__(self, key: Any) -> Value:
        return _operated("index", self, key)

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError(_NOT_YET)

    def _refuse_comparison(self, _: Any) -> NoReturn:
        raise TypeError(_COMPARED)

    # Shapes.

    def view(self, *shape: Any) -> Value:
        """The same as ``reshape``."""
        return _operated("reshape", self, *shape)

    @spelled
    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Value:
        return _operated("flatten", self, start_dim, end_dim)

    def unflatten(self, dim: int, sizes: Any) -> Value:
        return _operated("unflatten", self, dim, sizes)

    def squeeze(self, dim: Any = None) -> Value:
        return _operated("squeeze", self, dim)

    def unsqueeze(self, dim: int) -> Value:
        return _operated("unsqueeze", self, dim)

    def permute(self, *dims: Any) -> Value:
        return _operated("permute", self, *dims)

    def transpose(self, dim0: int, dim1: int) -> Value:
        return _operated("transpose", self, dim0, dim1)

    swapaxes = transpose

    def t(self) -> Value:
        """The last two axes exchanged."""
        return self.T

    @property
    def T(self) -> Value:
        """The last two axes exchanged, for matrices and stacks of them."""
        return _operated("transpose", self, -2, -1)

    @property
    def mT(self) -> Value:
        """The last two axes exchanged."""
        return self.T

    def expand(self, *sizes: Any) -> Value:
        return _operated("expand", self, *sizes)

    def expand_as(self, other: Any) -> Value:
        """Repeated to the shape of another value."""
        return _operated("expand", self, *other.shape)

    def repeat(self, *sizes: Any) -> Value:
        return _operated("repeat", self, *sizes)

    @spelled
    def split(self, split_size: Any, dim: int = 0) -> tuple[Value, ...]:
        parts: tuple[Value, ...] = _f().split(self, split_size, dim)
        return parts

    def chunk(self, chunks: int, dim: int = 0) -> tuple[Value, ...]:
        parts: tuple[Value, ...] = _f().chunk(self, chunks, dim)
        return parts

    def unbind(self, dim: int = 0) -> tuple[Value, ...]:
        parts: tuple[Value, ...] = _f().unbind(self, dim)
        return parts

    def narrow(self, dim: int, start: int, length: int) -> Value:
        return _operated("narrow", self, dim, start, length)

    def select(self, dim: int, index: int) -> Value:
        return _operated("select", self, dim, index)

    def flip(self, *dims: Any) -> Value:
        return _operated("flip", self, dims[0] if len(dims) == 1 else dims)

    def roll(self, shifts: int, dims: int) -> Value:
        return _operated("roll", self, shifts, dims)

    def contiguous(self) -> Any:
        """The value itself: memory is planned for the network as a whole."""
        return self

    # Reductions.

    def sum(self, dim: Any = None, keepdim: bool = False) -> Value:
        return _operated("sum", self, dim, keepdim)

    def mean(self, dim: Any = None, keepdim: bool = False) -> Value:
        return _operated("mean", self, dim, keepdim)

    def amax(self, dim: Any = None, keepdim: bool = False) -> Value:
        return _operated("amax", self, dim, keepdim)

    def amin(self, dim: Any = None, keepdim: bool = False) -> Value:
        return _operated("amin", self, dim, keepdim)

    def max(self, dim: int | None = None, keepdim: bool = False) -> Any:
        return _f().max(self, dim, keepdim)

    def min(self, dim: int | None = None, keepdim: bool = False) -> Any:
        return _f().min(self, dim, keepdim)

    def argmax(self, dim: int | None = None, keepdim: bool = False) -> Value:
        return _operated("argmax", self, dim, keepdim)

    def prod(self, dim: Any = None, keepdim: bool = False) -> Value:
        return _operated("prod", self, dim, keepdim)

    def norm(self, p: float = 2, dim: Any = None, keepdim: bool = False) -> Value:
        return _operated("norm", self, p, dim, keepdim)

    def logsumexp(self, dim: Any = None, keepdim: bool = False) -> Value:
        return _operated("logsumexp", self, dim, keepdim)

    def var(self, dim: Any = None, *, correction: int = 1, keepdim: bool = False) -> Value:
        found: Value = _f().var(self, dim, correction=correction, keepdim=keepdim)
        return found

    def std(self, dim: Any = None, *, correction: int = 1, keepdim: bool = False) -> Value:
        found: Value = _f().std(self, dim, correction=correction, keepdim=keepdim)
        return found

    # Element by element.

    def exp(self) -> Value:
        return _operated("exp", self)

    def log(self) -> Value:
        return _operated("log", self)

    def sqrt(self) -> Value:
        return _operated("sqrt", self)

    def rsqrt(self) -> Value:
        return _operated("rsqrt", self)

    def square(self) -> Value:
        return _operated("square", self)

    def reciprocal(self) -> Value:
        return _operated("reciprocal", self)

    def abs(self) -> Value:
        return _operated("abs", self)

    def pow(self, exponent: Any) -> Value:
        return _operated("pow", self, exponent)

    def sin(self) -> Value:
        return _operated("sin", self)

    def cos(self) -> Value:
        return _operated("cos", self)

    def clamp(self, min: Any = None, max: Any = None) -> Value:
        return _operated("clamp", self, min, max)

    clip = clamp

    def masked_fill(self, mask: Any, value: float) -> Value:
        return _operated("masked_fill", self, mask, value)

    def relu(self) -> Value:
        return _operated("relu", self)

    def sigmoid(self) -> Value:
        return _operated("sigmoid", self)

    def tanh(self) -> Value:
        return _operated("tanh", self)

    def softmax(self, dim: int | None = None) -> Value:
        return _operated("softmax", self, dim)

    def log_softmax(self, dim: int | None = None) -> Value:
        return _operated("log_softmax", self, dim)

    # Products.

    def matmul(self, other: Any) -> Value:
        return _operated("matmul", self, other)

    bmm = matmul

    def add(self, other: Any) -> Value:
        return _operated("add", self, other)

    def sub(self, other: Any) -> Value:
        return _operated("sub", self, other)

    def mul(self, other: Any) -> Value:
        return _operated("mul", self, other)

    def div(self, other: Any) -> Value:
        return _operated("div", self, other)

    def detach(self) -> Value:
        """The same numbers, through which no gradient goes back."""
        return _operated("detach", self)

    def __iter__(self) -> Iterator[Value]:
        return iter(_f().unbind(self, 0))


for _name, _method in list(vars(Expression).items()):
    if isfunction(_method) and not _name.startswith("_"):
        setattr(Expression, _name, spelled(_method))


def document(functions: Mapping[str, Any]) -> None:
    """Let methods say what the functions say that they stand for."""
    for name, member in vars(Expression).items():
        if callable(member) and not name.startswith("_") and not member.__doc__:
            member.__doc__ = functions[member.__name__].__doc__  # which of two names is that of the function


def _operated(name: str, *given: Any) -> Value:
    result: Value = getattr(_f(), name)(*given)
    return result


_UFUNCS: dict[Any, str] = {
    np.add: "add", np.subtract: "sub", np.multiply: "mul", np.true_divide: "div", np.power: "pow", np.matmul: "matmul",
    np.negative: "neg", np.absolute: "abs", np.exp: "exp", np.exp2: "exp2", np.log: "log", np.log2: "log2",
    np.sqrt: "sqrt", np.square: "square", np.reciprocal: "reciprocal", np.sin: "sin", np.cos: "cos", np.tan: "tan",
    np.arcsin: "asin", np.arccos: "acos", np.arctan: "atan", np.sinh: "sinh", np.cosh: "cosh", np.tanh: "tanh",
    np.arcsinh: "asinh", np.arccosh: "acosh", np.arctanh: "atanh", np.floor: "floor", np.ceil: "ceil", np.rint: "round",
    np.sign: "sign", np.maximum: "maximum", np.minimum: "minimum",
}  # fmt: skip


def numpy_function(ufunc: Any, method: str) -> Callable[..., Value]:
    """The function of values that one of NumPy stands for in ``forward``."""
    name = _UFUNCS.get(ufunc)
    if name is None or method != "__call__":
        raise TypeError(
            f"forward: np.{ufunc.__name__} does not act on a value. Use a function of nn.functional. {_NOT_YET}"
        )
    function: Callable[..., Value] = getattr(_f(), name)
    return function
