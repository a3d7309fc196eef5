"""Symbolic tensors of a network that is being recorded; operators and methods that they share with parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from inspect import isfunction
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from .._listing import public
from .._spelling import nearest, spelled
from .declared_methods import DeclaredMethods
from .sizes import AnySize, Shape, Size, agree, bound, is_same, number_of, product, wish_equal

if TYPE_CHECKING:
    from .graph import Graph
    from .operation import Operation

Array = NDArray[Any]
FLOAT32: np.dtype[Any] = np.dtype(np.float32)
INT64: np.dtype[Any] = np.dtype(np.int64)


DEPENDS_ON_NUMBERS = (
    "The shape of the result would depend on numbers, but a network is recorded before there are any. Keep the shape and choose "
    "with nn.functional.where(mask, a, b) or multiply by the mask; or do it in NumPy before the network."
)


_NOT_YET = (
    "forward() is recorded once, before there are numbers, and then run for every batch, so it cannot branch on numbers, print "
    "them or turn them into NumPy's. Choose with nn.functional.where(x > 0, a, b), keep or drop parts by options of __init__, "
    "and put code that needs numbers into an nn.Function."
)


recorded_graph: ContextVar[Graph | None] = ContextVar("recorded_graph", default=None)
"""The graph that is being recorded, if any."""

FUNCTIONS: dict[str, Callable[..., Any]] = {}
"""The functions of tensors by name. They register themselves; operators and methods look them up."""


class _Conversions:
    """Methods that are called like types of Python, apart from the annotations that mean those."""

    __slots__ = ()

    def bool(self) -> Tensor:
        """A mask: 1 where the value is not 0."""
        return _operated("ne", self, 0)

    def float(self) -> Tensor:
        """The value as numbers to compute with; whole numbers become float32."""
        return _operated("as_numbers", self)

    def long(self) -> Tensor:
        """The value as whole numbers for lookups; fractions are dropped."""
        return _operated("as_integers", self)

    int = long


class Expression(DeclaredMethods, _Conversions):
    """Operators and methods that tensors and parameters share. ``dim`` counts the batch axis."""

    __slots__ = ()

    # Operators.

    def __add__(self, other: Any) -> Tensor:
        return _operated("add", self, other)

    def __radd__(self, other: Any) -> Tensor:
        return _operated("add", other, self)

    def __sub__(self, other: Any) -> Tensor:
        return _operated("sub", self, other)

    def __rsub__(self, other: Any) -> Tensor:
        return _operated("sub", other, self)

    def __mul__(self, other: Any) -> Tensor:
        return _operated("mul", self, other)

    def __rmul__(self, other: Any) -> Tensor:
        return _operated("mul", other, self)

    def __truediv__(self, other: Any) -> Tensor:
        return _operated("div", self, other)

    def __rtruediv__(self, other: Any) -> Tensor:
        return _operated("div", other, self)

    def __mod__(self, other: Any) -> Tensor:
        return _operated("remainder", self, other)

    def __rmod__(self, other: Any) -> Tensor:
        return _operated("remainder", other, self)

    def __floordiv__(self, other: Any) -> Tensor:
        return _operated("floor_divide", self, other)

    def __rfloordiv__(self, other: Any) -> Tensor:
        return _operated("floor_divide", other, self)

    def __pow__(self, other: Any) -> Tensor:
        return _operated("pow", self, other)

    def __rpow__(self, other: Any) -> Tensor:
        return _operated("pow", other, self)

    def __matmul__(self, other: Any) -> Tensor:
        return _operated("matmul", self, other)

    def __rmatmul__(self, other: Any) -> Tensor:
        return _operated("matmul", other, self)

    def __neg__(self) -> Tensor:
        return _operated("neg", self)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Tensor:
        return _operated("abs", self)

    def __getitem__(self, key: Any) -> Tensor:
        return _operated("index", self, key)

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError(_NOT_YET)

    # Masks.

    def _compared(self, name: str, other: Any) -> Any:
        """A mask, if the other one is a tensor or a number."""
        if not isinstance(other, (Expression, Size, bool, int, float, np.number, np.bool_, np.ndarray)):
            return NotImplemented
        return _operated(name, self, other)

    def __lt__(self, other: Any) -> Any:
        return self._compared("lt", other)

    def __le__(self, other: Any) -> Any:
        return self._compared("le", other)

    def __gt__(self, other: Any) -> Any:
        return self._compared("gt", other)

    def __ge__(self, other: Any) -> Any:
        return self._compared("ge", other)

    def __and__(self, other: Any) -> Tensor:
        return _operated("of_masks", "logical_and", self, other)

    def __rand__(self, other: Any) -> Tensor:
        return _operated("of_masks", "logical_and", other, self)

    def __or__(self, other: Any) -> Tensor:
        return _operated("of_masks", "logical_or", self, other)

    def __ror__(self, other: Any) -> Tensor:
        return _operated("of_masks", "logical_or", other, self)

    def __xor__(self, other: Any) -> Tensor:
        return _operated("of_masks", "logical_xor", self, other)

    def __rxor__(self, other: Any) -> Tensor:
        return _operated("of_masks", "logical_xor", other, self)

    def __invert__(self) -> Tensor:
        return _operated("of_masks", "logical_not", self)

    def any(self, dim: Any = None, keepdim: bool = False) -> Tensor:
        return _operated("any", self, dim, keepdim)

    def all(self, dim: Any = None, keepdim: bool = False) -> Tensor:
        return _operated("all", self, dim, keepdim)

    # Shapes.

    def view(self, *shape: Any) -> Tensor:
        """The same as ``reshape``."""
        return _operated("reshape", self, *shape)

    @spelled
    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Tensor:
        return _operated("flatten", self, start_dim, end_dim)

    def unflatten(self, dim: int, sizes: Any) -> Tensor:
        return _operated("unflatten", self, dim, sizes)

    def squeeze(self, dim: Any = None) -> Tensor:
        return _operated("squeeze", self, dim)

    def unsqueeze(self, dim: int) -> Tensor:
        return _operated("unsqueeze", self, dim)

    def permute(self, *dims: Any) -> Tensor:
        return _operated("permute", self, *dims)

    def transpose(self, dim0: int, dim1: int) -> Tensor:
        return _operated("transpose", self, dim0, dim1)

    swapaxes = swapdims = transpose

    def movedim(self, source: Any, destination: Any) -> Tensor:
        return _operated("movedim", self, source, destination)

    moveaxis = movedim

    def t(self) -> Tensor:
        """The last two axes exchanged."""
        return self.T

    @property
    def T(self) -> Tensor:
        """The last two axes exchanged, for matrices and stacks of them."""
        return _operated("transpose", self, -2, -1)

    @property
    def mT(self) -> Tensor:
        """The last two axes exchanged."""
        return self.T

    def expand(self, *sizes: Any) -> Tensor:
        return _operated("expand", self, *sizes)

    def expand_as(self, other: Any) -> Tensor:
        """Repeated to the shape of another value."""
        return _operated("expand", self, *other.shape)

    def repeat(self, *sizes: Any) -> Tensor:
        return _operated("repeat", self, *sizes)

    @spelled
    def split(self, split_size: Any, dim: int = 0) -> tuple[Tensor, ...]:
        parts: tuple[Tensor, ...] = FUNCTIONS["split"](self, split_size, dim)
        return parts

    def chunk(self, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
        parts: tuple[Tensor, ...] = FUNCTIONS["chunk"](self, chunks, dim)
        return parts

    def unbind(self, dim: int = 0) -> tuple[Tensor, ...]:
        parts: tuple[Tensor, ...] = FUNCTIONS["unbind"](self, dim)
        return parts

    def narrow(self, dim: int, start: int, length: int) -> Tensor:
        return _operated("narrow", self, dim, start, length)

    def select(self, dim: int, index: int) -> Tensor:
        return _operated("select", self, dim, index)

    def flip(self, *dims: Any) -> Tensor:
        return _operated("flip", self, dims[0] if len(dims) == 1 else dims)

    def roll(self, shifts: Any, dims: Any = None) -> Tensor:
        return _operated("roll", self, shifts, dims)

    def rot90(self, k: int = 1, dims: Any = (0, 1)) -> Tensor:
        return _operated("rot90", self, k, dims)

    def repeat_interleave(self, repeats: Any, dim: int | None = None) -> Tensor:
        return _operated("repeat_interleave", self, repeats, dim)

    def tensor_split(self, indices_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
        parts: tuple[Tensor, ...] = FUNCTIONS["tensor_split"](self, indices_or_sections, dim)
        return parts

    def diagonal(self, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
        return _operated("diagonal", self, offset, dim1, dim2)

    def diag_embed(self, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
        return _operated("diag_embed", self, offset, dim1, dim2)

    def trace(self) -> Tensor:
        return _operated("trace", self)

    def tril(self, diagonal: int = 0) -> Tensor:
        return _operated("tril", self, diagonal)

    def triu(self, diagonal: int = 0) -> Tensor:
        return _operated("triu", self, diagonal)

    def unfold(self, dimension: int, size: int, step: int) -> Tensor:
        """Windows of ``size`` along an axis, each ``step`` behind the one before; their entries are a new last axis."""
        return _operated("windows", self, dimension, size, step)

    # Elements by position.

    def index_select(self, dim: int, index: Any) -> Tensor:
        return _operated("index_select", self, dim, index)

    def gather(self, dim: int, index: Any) -> Tensor:
        return _operated("gather", self, dim, index)

    def take_along_dim(self, indices: Any, dim: int) -> Tensor:
        return _operated("take_along_dim", self, indices, dim)

    def scatter(self, dim: int, index: Any, src: Any) -> Tensor:
        return _operated("scatter", self, dim, index, src)

    def scatter_add(self, dim: int, index: Any, src: Any) -> Tensor:
        return _operated("scatter_add", self, dim, index, src)

    def index_add(self, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> Tensor:
        result: Tensor = FUNCTIONS["index_add"](self, dim, index, source, alpha=alpha)
        return result

    def sort(self, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
        return FUNCTIONS["sort"](self, dim, descending, stable)

    def argsort(self, dim: int = -1, descending: bool = False, stable: bool = False) -> Tensor:
        return _operated("argsort", self, dim, descending, stable)

    def topk(self, k: Any, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
        return FUNCTIONS["topk"](self, k, dim, largest, sorted)

    def diff(self, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Tensor:
        return _operated("diff", self, n, dim, prepend, append)

    def cross(self, other: Any, dim: int | None = None) -> Tensor:
        return _operated("cross", self, other, dim)

    # New values.

    def new_zeros(self, *size: Any) -> Tensor:
        """Zeros of these sizes."""
        return _operated("zeros", *size)

    def new_ones(self, *size: Any) -> Tensor:
        """Ones of these sizes."""
        return _operated("ones", *size)

    def new_full(self, size: Any, fill_value: Any) -> Tensor:
        """One number in these sizes."""
        return _operated("full", size, fill_value)

    def bernoulli(self) -> Tensor:
        return _operated("bernoulli", self)

    def contiguous(self) -> Any:
        """The value itself: memory is planned for the network as a whole."""
        return self

    # Reductions.

    def mean(self, dim: Any = None, keepdim: bool = False) -> Tensor:
        return _operated("mean", self, dim, keepdim)

    def max(self, dim: int | None = None, keepdim: bool = False) -> Any:
        return FUNCTIONS["max"](self, dim, keepdim)

    def min(self, dim: int | None = None, keepdim: bool = False) -> Any:
        return FUNCTIONS["min"](self, dim, keepdim)

    def argmax(self, dim: int | None = None, keepdim: bool = False) -> Tensor:
        return _operated("argmax", self, dim, keepdim)

    def norm(self, p: float = 2, dim: Any = None, keepdim: bool = False) -> Tensor:
        return _operated("norm", self, p, dim, keepdim)

    def logsumexp(self, dim: Any = None, keepdim: bool = False) -> Tensor:
        return _operated("logsumexp", self, dim, keepdim)

    def var(self, dim: Any = None, *, correction: int = 1, keepdim: bool = False) -> Tensor:
        result: Tensor = FUNCTIONS["var"](self, dim, correction=correction, keepdim=keepdim)
        return result

    def std(self, dim: Any = None, *, correction: int = 1, keepdim: bool = False) -> Tensor:
        result: Tensor = FUNCTIONS["std"](self, dim, correction=correction, keepdim=keepdim)
        return result

    # Element by element.

    def add(self, other: Any, *, alpha: Any = 1) -> Tensor:
        result: Tensor = FUNCTIONS["add"](self, other, alpha=alpha)
        return result

    def sub(self, other: Any, *, alpha: Any = 1) -> Tensor:
        result: Tensor = FUNCTIONS["sub"](self, other, alpha=alpha)
        return result

    def nan_to_num(self, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Tensor:
        return _operated("nan_to_num", self, nan, posinf, neginf)

    def clamp_min(self, min: Any) -> Tensor:
        return _operated("clamp_min", self, min)

    def clamp_max(self, max: Any) -> Tensor:
        return _operated("clamp_max", self, max)

    def where(self, condition: Any, other: Any) -> Tensor:
        """The value where the condition holds, and ``other`` elsewhere."""
        return _operated("where", condition, self, other)

    def clamp(self, min: Any = None, max: Any = None) -> Tensor:
        return _operated("clamp", self, min, max)

    clip = clamp

    def masked_fill(self, mask: Any, value: float) -> Tensor:
        return _operated("masked_fill", self, mask, value)

    def relu(self) -> Tensor:
        return _operated("relu", self)

    def sigmoid(self) -> Tensor:
        return _operated("sigmoid", self)

    def tanh(self) -> Tensor:
        return _operated("tanh", self)

    def softmax(self, dim: int | None = None) -> Tensor:
        return _operated("softmax", self, dim)

    def log_softmax(self, dim: int | None = None) -> Tensor:
        return _operated("log_softmax", self, dim)

    # Products.

    def matmul(self, other: Any) -> Tensor:
        return _operated("matmul", self, other)

    bmm = matmul

    def detach(self) -> Tensor:
        """The same numbers, through which no gradient goes back."""
        return _operated("detach", self)

    def __iter__(self) -> Iterator[Tensor]:
        return iter(FUNCTIONS["unbind"](self, 0))


for _name, _method in list(vars(Expression).items()):
    if isfunction(_method) and not _name.startswith("_"):
        setattr(Expression, _name, spelled(_method))


function_names: set[str] = set()
"""The functions that messages may name: all of ``nn.functional`` once it is loaded."""


def document(described: Mapping[str, Any], names: Iterable[str]) -> None:
    """Give methods the docstrings of the functions behind them, and let messages name these functions."""
    function_names.update(names)
    for name, member in vars(Expression).items():
        if callable(member) and not name.startswith("_") and not member.__doc__:
            member.__doc__ = described[member.__name__].__doc__  # which of two names is that of the function


def _operated(name: str, *given: Any) -> Tensor:
    result: Tensor = FUNCTIONS[name](*given)
    return result


_UFUNCS: dict[Any, str] = {
    np.add: "add", np.subtract: "sub", np.multiply: "mul", np.true_divide: "div", np.power: "pow", np.matmul: "matmul",
    np.negative: "neg", np.absolute: "abs", np.exp: "exp", np.exp2: "exp2", np.log: "log", np.log2: "log2",
    np.sqrt: "sqrt", np.square: "square", np.reciprocal: "reciprocal", np.sin: "sin", np.cos: "cos", np.tan: "tan",
    np.arcsin: "asin", np.arccos: "acos", np.arctan: "atan", np.sinh: "sinh", np.cosh: "cosh", np.tanh: "tanh",
    np.arcsinh: "asinh", np.arccosh: "acosh", np.arctanh: "atanh", np.floor: "floor", np.ceil: "ceil", np.rint: "round",
    np.sign: "sign", np.maximum: "maximum", np.minimum: "minimum", np.greater: "gt", np.greater_equal: "ge", np.less: "lt",
    np.less_equal: "le", np.equal: "eq", np.not_equal: "ne", np.logical_and: "logical_and", np.logical_or: "logical_or",
    np.logical_xor: "logical_xor", np.logical_not: "logical_not", np.isnan: "isnan", np.isinf: "isinf",
    np.isfinite: "isfinite", np.remainder: "remainder", np.fmod: "fmod", np.floor_divide: "floor_divide",
    np.trunc: "trunc", np.log1p: "log1p", np.expm1: "expm1", np.log10: "log10", np.arctan2: "atan2",
    np.hypot: "hypot", np.logaddexp: "logaddexp",
}  # fmt: skip


def numpy_function(ufunc: Any, method: str) -> Callable[..., Tensor]:
    """The function of values that replaces one of NumPy in ``forward``."""
    name = _UFUNCS.get(ufunc)
    if name is None or method != "__call__":
        raise TypeError(
            f"forward: np.{ufunc.__name__} does not act on a value. Use a function of nn.functional. {_NOT_YET}"
        )
    return FUNCTIONS[name]


class Tensor(Expression):
    """A tensor of a network while it is put together. Sizes that differ from call to call, such as that of a batch, have names.

    Modules take values and give values. Operators and methods are those of PyTorch's tensors, NumPy's functions of elements
    act on values too, and :mod:`openbnns.nn.functional` holds everything else.

    >>> from openbnns import nn
    >>> class Show(nn.Module):
    ...     def forward(self, x):
    ...         print(type(x).__name__, x.shape)
    ...         return x.mean(dim=(2, 3)) * 2
    >>> net = Show().build((3, 8, 8))
    Tensor (N, 3, 8, 8)
    """

    def __init__(
        self,
        graph: Graph,
        shape: Sequence[AnySize],
        dtype: np.dtype[Any] = FLOAT32,
        *,
        source: Tensor | None = None,
        leaf: Any = None,
    ) -> None:
        self.graph = graph
        self.shape: Shape = tuple(n if isinstance(n, Size) else int(n) for n in shape)
        self._dtype = dtype
        self.source = source  # the value whose memory this one shows in another shape
        self.leaf = leaf  # the parameter, the constant array or the size that it stands for
        self.producer: Operation | None = None  # what computes it
        self.is_number: bool = (
            source is not None and source.is_number
        )  # whether float() made it out of a mask or an input

    @property
    def storage(self) -> Tensor:
        """The value that owns the memory."""
        return self if self.source is None else self.source.storage

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32, or int64 for whole numbers that are looked up."""
        return self._dtype if self.source is None else self.storage._dtype

    @property
    def is_mask(self) -> bool:
        """True if its 1 and 0 say where something holds, and are not numbers to compute with."""
        producer = self.storage.producer
        if producer is None or self.is_number:
            return False
        return producer.is_mask or (producer.moves and all(value.is_mask for value in producer.inputs))

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def count(self) -> AnySize:
        """The number of elements."""
        return product(self.shape)

    def concrete(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """The shape for these free sizes."""
        return bound(self.shape, sizes)

    def as_indices(self, who: str) -> Tensor:
        """The tensor as integers for lookups; an input of the network that is read in this way becomes an input of integers.

        So does what was only moved out of inputs, such as ``ids[:, 1:]``.
        """
        if self.dtype.kind != "i" and not self.graph.make_whole(self):
            raise ValueError(
                f"{who}: looks up integers, but {self!r} is computed. Pass an input of the network, a constant of integers or "
                "what argmax, sort and their like give; or make it whole numbers with x.long()."
            )
        return self

    def reshape(self, *shape: Any) -> Tensor:
        """The same elements in another shape; one size may be -1.

        Where the size of the first axis is free, sizes that leave it out are those of a sample: ``x.reshape(4, 8)`` of
        (N, 32) is (N, 4, 8).
        """
        given = list(shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape)
        # What holds for all free sizes comes first: N samples of 32 elements do not become (4, 8) just because N is 1 now.
        sizes = filled(given, self.count, is_same)
        if sizes is None and self.shape and isinstance(self.shape[0], Size):
            sample = filled(given, product(self.shape[1:]), is_same)
            sizes = None if sample is None else [self.shape[0], *sample]
        if sizes is None:
            sizes = filled(given, self.count, equal_here)
        if sizes is None:
            raise ValueError(
                f"reshape: {self.shape} has {self.count} elements, which do not fill {tuple(given)}. Sizes must multiply to that "
                "number, and at most one may be -1."
            )
        if isinstance(self.leaf, np.ndarray):
            return self.graph.constant(self.leaf.reshape(tuple(map(int, sizes))))
        return Tensor(self.graph, sizes, source=self)

    def size(self, dim: int | None = None) -> Any:
        """The shape, or one size of it."""
        return self.shape if dim is None else self.shape[dim]

    def dim(self) -> int:
        """The number of axes."""
        return self.ndim

    def numel(self) -> AnySize:
        """The number of elements."""
        return self.count

    def clone(self) -> Tensor:
        """The value itself, which nothing changes."""
        return self

    def view_as(self, other: Any) -> Tensor:
        """The same elements in the shape of another value."""
        return _operated("reshape", self, *other.shape)

    def __setitem__(self, key: Any, value: Any) -> NoReturn:
        raise TypeError(
            "A Tensor does not change, so that x[...] = y is not possible in forward(). Make a new one: "
            "x = nn.functional.where(mask, y, x), x.masked_fill(mask, number), x.scatter(dim, index, y), or nn.functional.cat "
            "of what stays and what is new."
        )

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a value without axes.")
        return int(self.shape[0])

    def __array_ufunc__(self, ufunc: Any, method: str, *given: Any, **named: Any) -> Any:
        return numpy_function(ufunc, method)(*given, **named)

    def __array__(self, *_: Any, **__: Any) -> Any:
        self._refuse()

    def __array_function__(self, function: Any, *_: Any) -> Any:
        name = _OF_NUMPY.get(function.__name__, function.__name__)
        cure = f"nn.functional.{name}(...)" if name in function_names else "a function of nn.functional"
        raise TypeError(f"forward: np.{function.__name__} does not act on a value. Use {cure}.")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in ("item", "tolist", "numpy", "cpu", "data", "grad", "backward"):
            self._refuse()
        if name in ("nonzero", "masked_select", "unique", "argwhere"):
            raise TypeError(f"{name}: is not possible in forward(). {DEPENDS_ON_NUMBERS}")
        hint = f" Write nn.functional.{name}(x, ...)." if name in function_names else nearest(name, dir(self))
        if name.endswith("_"):  # PyTorch's functions that write to their first argument
            plain = name.rstrip("_")
            new = f"x.{plain}(...)" if hasattr(type(self), plain) else f"nn.functional.{plain}(x, ...)"
            hint = " A Tensor does not change." + (f" Write x = {new}." if plain in function_names else "")
        if name in ("to", "cpu", "cuda", "double", "half", "type"):
            hint = " Leave it out: everything computes in float32 on the CPU."
        raise AttributeError(f"A Tensor has no {name!r}.{hint or ' See dir(x) and nn.functional for what there is.'}")

    __bool__ = __float__ = __int__ = __index__ = Expression._refuse
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> Any:
        """A mask if the other one is a tensor or a number; values are told apart by ``is``, also in ``in`` of sets."""
        return self._compared("eq", other)

    def __ne__(self, other: object) -> Any:
        return self._compared("ne", other)

    def __dir__(self) -> list[str]:
        return public(super().__dir__(), _UNLISTED)

    def __repr__(self) -> str:
        return f"Tensor(shape={self.shape})"


# The names here of functions of NumPy.
_OF_NUMPY = {
    "concatenate": "cat", "hstack": "cat", "vstack": "cat", "absolute": "abs", "linalg.norm": "norm", "take": "index_select",
    "expand_dims": "unsqueeze", "swapaxes": "transpose", "moveaxis": "permute", "broadcast_to": "expand", "tile": "repeat",
}  # fmt: skip

# Attributes that are for modules of this package only, left out of listings for users.
_UNLISTED = (
    "as_indices", "concrete", "count", "graph", "is_mask", "is_number", "leaf", "producer", "source", "storage",
)  # fmt: skip


def inexact(integers: Array, dtype: np.dtype[Any]) -> int | None:
    """The first of some integers that float32 or int64 does not hold; None if the type holds all."""
    largest = 1 << 24 if dtype == FLOAT32 else int(np.iinfo(np.int64).max)
    if not integers.size or max(-int(integers.min()), int(integers.max())) <= largest:
        return None
    if dtype == FLOAT32:
        size = np.abs(integers).astype(np.uint64)
        lowest_bit = np.maximum(size & (~size + np.uint64(1)), np.uint64(1))
        lost = size // lowest_bit > largest
    else:
        lost = integers > np.uint64(largest)
    return int(integers[lost][0]) if lost.any() else None


def filled(sizes: Sequence[Any], count: AnySize, equal: Callable[[AnySize, AnySize], bool]) -> list[AnySize] | None:
    """The sizes with -1 replaced so that they multiply to ``count``; None if that cannot be."""
    given = [n if isinstance(n, Size) else int(n) for n in sizes if hasattr(n, "__index__")]
    plain = [n for n in given if not isinstance(n, Size)]
    if len(given) != len(sizes) or min(plain, default=0) < -1 or plain.count(-1) > 1:
        return None
    if -1 in plain:
        known = product(n for n in given if isinstance(n, Size) or n != -1)
        if number_of(known) == 0:
            return None
        missing = count // known
        given = [missing if not isinstance(n, Size) and n == -1 else n for n in given]
    return given if equal(product(given), count) else None


def equal_here(left: AnySize, right: AnySize) -> bool:
    """True if two sizes are equal in this recording, which is a guard then."""
    if number_of(left) != number_of(right):
        wish_equal(left, right)
        return False
    return agree(left, right)
