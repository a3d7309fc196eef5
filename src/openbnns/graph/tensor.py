"""Symbolic tensors of a network that is being recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .._listing import public
from .._spelling import nearest
from .expression import Expression, function_names, numpy_function
from .sizes import AnySize, Shape, Size, agree, bound, is_same, number_of, product

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

    @property
    def storage(self) -> Tensor:
        """The value that owns the memory."""
        return self if self.source is None else self.source.storage

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32, or int64 for whole numbers that are looked up."""
        return self.storage._dtype

    @property
    def is_mask(self) -> bool:
        """True if its 1 and 0 say where something holds, and are not numbers to compute with."""
        producer = self.storage.producer
        if producer is None:
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
        """The value as whole numbers that look something up; an input of the network becomes one of integers thereby.

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
    "as_indices", "concrete", "count", "graph", "is_mask", "leaf", "producer", "source", "storage",
)  # fmt: skip


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
    return number_of(left) == number_of(right) and agree(left, right)
