"""Gather, scatter, sort and cumulative sums."""

from __future__ import annotations

from typing import Any, NamedTuple

from .. import operations
from ..sizes import Size, is_same
from ..tensor import Tensor
from .arithmetic import add, mul
from .base import TensorLike, axis_of, function, indices, numbers, value
from .shapes import expand


class Ordered(NamedTuple):
    """Elements in order along an axis, and their positions before."""

    values: Any
    indices: Any


@function
def cumsum(input: TensorLike, dim: int) -> Any:
    """The sums of all elements up to each along ``dim``.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.functional.cumsum(np.float32([[1, 2, 3]]), dim=1).tolist()
    [[1.0, 3.0, 6.0]]
    """
    x = numbers(input, "cumsum")
    return x.graph.append(operations.Cumulative(x, axis_of(x, dim, "cumsum"), product=False))


@function
def cumprod(input: TensorLike, dim: int) -> Any:
    """The products of all elements up to each along ``dim``."""
    x = numbers(input, "cumprod")
    return x.graph.append(operations.Cumulative(x, axis_of(x, dim, "cumprod"), product=True))


def _along(x: Tensor, places: Tensor, axis: int, who: str) -> None:
    """Refuse whole numbers that do not name elements of the value, each at its own place along the other axes."""
    if places.ndim != x.ndim:
        raise ValueError(f"{who}: index {places.shape} must have as many axes as {x.shape}.")
    for other, (n, limit) in enumerate(zip(places.shape, x.shape, strict=True)):
        if other != axis and not is_same(n, limit) and n > limit:
            raise ValueError(
                f"{who}: index {places.shape} is larger than {x.shape} along axis {other}. It may be only along dim {axis}."
            )


@function
def gather(input: TensorLike, dim: int, index: TensorLike) -> Any:
    """Elements by their numbers along ``dim``: ``y[i][j] = x[i][index[i][j]]`` for ``dim=1``. Shaped like ``index``.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.functional.gather(np.float32([[1, 2], [3, 4]]), 1, np.array([[1], [0]])).tolist()
    [[2.0], [3.0]]
    """
    x, places = value(input, "gather"), indices(index, "gather: index")
    axis = axis_of(x, dim, "gather")
    _along(x, places, axis, "gather")
    return x.graph.append(operations.TakeAlong(x, axis, places))


@function
def take_along_dim(input: TensorLike, indices: TensorLike, dim: int) -> Any:
    """:func:`gather` with the axes other than ``dim`` repeated where one of both has size 1."""
    from ..sizes import broadcast

    x = value(input, "take_along_dim")
    places = value(indices, "take_along_dim: indices").as_indices("take_along_dim: indices")
    axis = axis_of(x, dim, "take_along_dim")
    shape = None if x.ndim != places.ndim else broadcast(*(
        [1 if i == axis else n for i, n in enumerate(v.shape)] for v in (x, places)
    ))  # fmt: skip
    if shape is None:
        raise ValueError(
            f"take_along_dim: {x.shape} and indices {places.shape} must broadcast along all axes but {axis}."
        )
    x, places = (expand(v, *[-1 if i == axis else n for i, n in enumerate(shape)]) for v in (x, places))
    return gather(x, dim, places)


def _put(input: TensorLike, dim: int, index: TensorLike, source: TensorLike, adds: bool, who: str) -> Tensor:
    x, places = numbers(input, who), indices(index, f"{who}: index")
    axis = axis_of(x, dim, who)
    _along(x, places, axis, who)
    given = numbers(source, who)
    if not given.ndim:
        given = expand(given, *places.shape)
    if given.ndim != x.ndim or any(
        not is_same(n, limit) and n < limit for n, limit in zip(given.shape, places.shape, strict=True)
    ):
        raise ValueError(f"{who}: src {given.shape} must have an element for each of index {places.shape}.")
    return x.graph.append(operations.PutAlong(x, axis, places, given, adds=adds))


@function
def scatter(input: TensorLike, dim: int, index: TensorLike, src: TensorLike) -> Any:
    """The input with elements of ``src``, or one number, in the places that ``index`` names along ``dim``.

    Of several elements for one place, the last stays.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.functional.scatter(np.zeros((2, 3), np.float32), 1, np.array([[2], [0]]), 1.0).tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """
    return _put(input, dim, index, src, False, "scatter")


@function
def scatter_add(input: TensorLike, dim: int, index: TensorLike, src: TensorLike) -> Any:
    """The input with elements of ``src`` added in the places that ``index`` names along ``dim``."""
    return _put(input, dim, index, src, True, "scatter_add")


@function
def index_add(input: TensorLike, dim: int, index: TensorLike, source: TensorLike, *, alpha: float = 1) -> Any:
    """The input with entries of ``source`` along ``dim``, times ``alpha``, added to those that ``index`` names.

    In a graph network, ``F.index_add(zeros, 0, targets, messages)`` sums the messages that arrive at each node.
    """
    x, places, given = numbers(input, "index_add"), indices(index, "index_add: index"), numbers(source, "index_add")
    axis = axis_of(x, dim, "index_add")
    fits = places.ndim == 1 and given.ndim == x.ndim
    if not fits or any(n != (places.shape[0] if i == axis else x.shape[i]) for i, n in enumerate(given.shape)):
        raise ValueError(
            f"index_add: source {given.shape} must have the shape of {x.shape}, with an entry along axis {axis} for each number "
            f"of index {places.shape}."
        )
    sums = x.graph.append(operations.AddEntries(given, axis, places, x.shape[axis]))
    return add(x, sums if alpha == 1 else mul(sums, alpha))


def _ordered(input: TensorLike, dim: int, descending: bool, who: str, count: Any = None) -> Ordered:
    x = numbers(input, who)
    operation = operations.Sort(x, axis_of(x, dim, who), descending=descending, count=count)
    x.graph.append(operation)
    return Ordered(*operation.outputs)


@function
def sort(input: TensorLike, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    """The elements along ``dim`` in order, and where they stood: (values, indices). Equal ones always keep their order.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> values, places = nn.functional.sort(np.float32([3, 1, 2]))
    >>> values.tolist(), places.tolist()
    ([1.0, 2.0, 3.0], [1, 2, 0])
    """
    return _ordered(input, dim, descending, "sort")


@function
def argsort(input: TensorLike, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    """The positions of the elements along ``dim`` in sorted order."""
    return _ordered(input, dim, descending, "argsort").indices


@function
def topk(input: TensorLike, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """The ``k`` largest elements along ``dim``, or the smallest, and where they stand: (values, indices), always in order."""
    x = value(input, "topk")
    size = x.shape[axis_of(x, dim, "topk")]
    if isinstance(k, bool) or not hasattr(k, "__index__") or isinstance(k, Tensor):
        raise TypeError(f"topk: k is {k!r}. Pass an integer.")
    if k < 1 or (not is_same(k, size) and k > size):
        raise ValueError(f"topk: k is {k}, but axis {dim} of {x.shape} has {size} elements. Choose from 1 to {size}.")
    return _ordered(x, dim, largest, "topk", k if isinstance(k, Size) else int(k))
