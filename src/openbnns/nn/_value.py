"""Tensors of a network while it is put together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from .._listing import public
from ._expression import Expression, numpy_function
from .choose import nearest

if TYPE_CHECKING:
    from ._graph import Graph, Operation

Array = NDArray[Any]
FLOAT32: np.dtype[Any] = np.dtype(np.float32)
INT64: np.dtype[Any] = np.dtype(np.int64)


class BatchSize:
    """The first size of a value: not known while ``forward`` is recorded, because one recording serves all batches.

    It may be passed on as a size (``x.reshape(x.shape[0], -1)``) and multiplied (``x.reshape(n * t, c)``).
    """

    __slots__ = ("rows",)

    def __init__(self, rows: int = 1) -> None:
        self.rows = rows

    def __mul__(self, factor: int) -> BatchSize:
        return BatchSize(self.rows * factor) if isinstance(factor, int) else NotImplemented

    __rmul__ = __mul__

    def __floordiv__(self, divisor: int) -> BatchSize:
        if not isinstance(divisor, int):
            return NotImplemented
        if divisor < 1 or self.rows % divisor:
            raise ValueError(f"the first size is {self}, which cannot be divided by {divisor} for every batch size N.")
        return BatchSize(self.rows // divisor)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (int, float)):
            self._refuse()
        return isinstance(other, BatchSize) and other.rows == self.rows

    def __hash__(self) -> int:
        return hash(("batch", self.rows))

    def _refuse(self, *_: Any) -> NoReturn:
        raise TypeError(
            "forward() is recorded once for all batch sizes, so the size of the batch is no number there. Pass it on as a size, "
            "x.reshape(x.shape[0], -1), use mean() in place of sum() / N, and make what depends on N outside the network."
        )

    __index__ = __int__ = __float__ = __bool__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __truediv__ = __rtruediv__ = __mod__ = __pow__ = _refuse

    def __repr__(self) -> str:
        return "N" if self.rows == 1 else f"N*{self.rows}"


class Value(Expression):
    """A tensor of a network while it is put together. Its first axis is the batch, whose size ``shape`` shows as N.

    Modules take values and give values. Operators and methods are those of PyTorch's tensors, NumPy's functions of elements
    act on values too, and :mod:`openbnns.nn.functional` holds everything else.

    >>> from openbnns import nn
    >>> class Show(nn.Module):
    ...     def forward(self, x):
    ...         print(type(x).__name__, x.shape)
    ...         return x.mean(dim=(2, 3)) * 2
    >>> net = Show().build((3, 8, 8))
    Value (N, 3, 8, 8)
    """

    def __init__(
        self,
        graph: Graph,
        sample: Sequence[int],
        dtype: np.dtype[Any] = FLOAT32,
        *,
        rows: int = 1,
        source: Value | None = None,
        leaf: Any = None,
    ) -> None:
        self.graph = graph
        self.sample = tuple(int(n) for n in sample)  # the shape without the batch axis
        self._dtype = dtype
        self.rows = rows  # how long the first axis is per sample of the batch; 0: there is no batch axis
        self.source = source  # the value whose memory this one shows in another shape
        self.leaf = leaf  # the parameter or the constant array that it stands for
        self.producer: Operation | None = None  # what computes it

    def like(self, sample: Sequence[int], dtype: np.dtype[Any] | None = None) -> Value:
        """A new value with the same batch axis."""
        return Value(self.graph, sample, self.dtype if dtype is None else dtype, rows=self.rows)

    @property
    def storage(self) -> Value:
        """The value that owns the memory."""
        return self if self.source is None else self.source.storage

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32, or int64 for whole numbers that are looked up."""
        return self.storage._dtype

    @property
    def shape(self) -> tuple[Any, ...]:
        """All sizes; that of the batch is N, which stands for whatever number of samples arrives."""
        return (BatchSize(self.rows), *self.sample) if self.rows else self.sample

    @property
    def ndim(self) -> int:
        """The number of axes, with that of the batch."""
        return len(self.sample) + bool(self.rows)

    @property
    def count(self) -> int:
        """Elements of one row of the first axis, or of all there are without a batch axis."""
        return math.prod(self.sample)

    def concrete(self, batch: int) -> tuple[int, ...]:
        """The shape with this many samples in the batch."""
        return (batch * self.rows, *self.sample) if self.rows else self.sample

    def as_indices(self, who: str) -> Value:
        """The value as whole numbers that look something up; an input of the network becomes one of integers thereby."""
        owner = self.storage
        if owner.dtype.kind != "i" and owner.graph.is_fresh_input(owner):
            owner._dtype = INT64
        if owner.dtype.kind != "i":
            raise ValueError(
                f"{who}: looks up integers, but {self!r} is computed with. Call it on an input of the network, or on a constant, "
                "that nothing else computes with."
            )
        return self

    def reshape(self, *shape: Any) -> Value:
        """The same elements in another shape; one size may be -1.

        Sizes are PyTorch's if the first is that of the batch (``x.shape[0]``, or -1); without it they are those of a sample.
        """
        sizes = list(shape[0] if len(shape) == 1 and not isinstance(shape[0], (int, BatchSize)) else shape)
        if self.rows and sizes and not isinstance(sizes[0], BatchSize):
            behind = math.prod(sizes[1:])
            if sizes[0] == -1 and behind > 0 and self.rows * self.count % behind == 0:
                sizes[0] = BatchSize(self.rows * self.count // behind)
            else:
                sizes.insert(0, BatchSize(self.rows))
        rows = sizes.pop(0).rows if self.rows and sizes else 0
        sample = _filled(sizes, self.rows * self.count // rows if rows else self.count)
        if sample is None or (rows or 1) * math.prod(sample) != (self.rows or 1) * self.count:
            raise ValueError(
                f"reshape: a sample of {self.shape} has {self.count} elements, which do not fill {_plain_tuple(shape)}. Sizes "
                "must multiply to that number, at most one may be -1, and the batch stays the first axis."
            )
        if isinstance(self.leaf, np.ndarray):
            return self.graph.constant(self.leaf.reshape(sample))
        return Value(self.graph, sample, rows=rows, source=self)

    def size(self, dim: int | None = None) -> Any:
        """The shape, or one size of it."""
        return self.shape if dim is None else self.shape[dim]

    def dim(self) -> int:
        """The number of axes, with that of the batch."""
        return self.ndim

    def __len__(self) -> int:
        first = self.shape[0] if self.shape else 0
        return first.__index__()

    def __array_ufunc__(self, ufunc: Any, method: str, *given: Any, **named: Any) -> Any:
        return numpy_function(ufunc, method)(*given, **named)

    def __array__(self, *_: Any, **__: Any) -> Any:
        self._refuse()

    def __array_function__(self, function: Any, *_: Any) -> Any:
        name = _OF_NUMPY.get(function.__name__, function.__name__)
        cure = f"nn.functional.{name}(...)" if hasattr(_functional(), name) else "a function of nn.functional"
        raise TypeError(f"forward: np.{function.__name__} does not act on a value. Use {cure}.")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in ("item", "tolist", "numpy", "cpu", "data", "grad", "backward"):
            self._refuse()
        hint = f" Write nn.functional.{name}(x, ...)." if name in _functional().__all__ else nearest(name, dir(self))
        if name in ("to", "cpu", "cuda", "float", "double", "half", "type"):
            hint = " Leave it out: everything computes in float32 on the CPU."
        raise AttributeError(f"A Value has no {name!r}.{hint or ' See dir(x) and nn.functional for what there is.'}")

    __lt__ = __le__ = __gt__ = __ge__ = Expression._refuse_comparison
    __bool__ = __float__ = __int__ = __index__ = Expression._refuse
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (int, float, np.generic, np.ndarray)):
            self._refuse_comparison(other)
        return self is other

    def __dir__(self) -> list[str]:
        return public(super().__dir__(), _UNLISTED)

    def __repr__(self) -> str:
        return f"Value(shape={self.shape})"


# What functions of NumPy are called here.
_OF_NUMPY = {
    "concatenate": "cat", "hstack": "cat", "vstack": "cat", "absolute": "abs", "linalg.norm": "norm", "take": "index_select",
    "expand_dims": "unsqueeze", "swapaxes": "transpose", "moveaxis": "permute", "broadcast_to": "expand", "tile": "repeat",
}  # fmt: skip

# What modules of this package use of a value, and others need not know.
_UNLISTED = (
    "as_indices", "concrete", "count", "graph", "leaf", "like", "producer", "rows", "sample", "source", "storage",
)  # fmt: skip


def _functional() -> Any:
    from . import functional

    return functional


def _filled(sizes: list[Any], count: int) -> list[int] | None:
    """The sizes with -1 replaced, or None if that cannot be."""
    if any(not isinstance(n, (int, np.integer)) or n < -1 for n in sizes) or sizes.count(-1) > 1:
        return None
    if -1 in sizes:
        known = math.prod(n for n in sizes if n != -1)
        if not known or count % known:
            return None
        sizes = [count // known if n == -1 else n for n in sizes]
    return [int(n) for n in sizes]


def _plain_tuple(shape: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
