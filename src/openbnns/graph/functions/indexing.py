"""Indexing: parts by numbers, slices and integers; gather and scatter; lookups in tables."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import operations
from ..parameter import Parameter
from ..sizes import AnySize, are_at_least, broadcast, is_same, is_same_shape, product
from ..tensor import DEPENDS_ON_NUMBERS, INT64, Tensor
from .base import TensorLike, axis_of, function, indices, joined, value
from .creation import arange
from .elementwise import add, detach, eq, mul, where
from .shapes import expand, unsqueeze

__all__ = [
    "embedding", "gather", "index", "index_add", "index_select", "narrow", "one_hot", "scatter", "scatter_add",
    "select", "take_along_dim",
]  # fmt: skip


@function
def narrow(input: TensorLike, dim: int, start: int, length: int) -> Any:
    """``length`` entries along ``dim`` from ``start`` on."""
    x = value(input, "narrow")
    return _part(x, (slice(None),) * axis_of(x, dim, "narrow") + (slice(start, start + length),))


@function
def select(input: TensorLike, dim: int, index: int) -> Any:
    """The entry ``index`` along ``dim``, without that axis."""
    x = value(input, "select")
    return _part(x, (slice(None),) * axis_of(x, dim, "select") + (operator.index(index),))


@function
def index_select(input: TensorLike, dim: int, index: Any) -> Any:
    """The entries along ``dim`` whose numbers ``index``, a list, an array or a value of integers, holds."""
    x = value(input, "index_select")
    listed = index if isinstance(index, Tensor) else np.asarray(index)
    if listed.ndim != 1:
        raise ValueError(f"index_select: index has shape {listed.shape}, but must be a row of integers.")
    return _part(x, (slice(None),) * axis_of(x, dim, "index_select") + (listed,))


@function
def index(input: TensorLike, key: Any) -> Any:
    """``input[key]``: numbers, slices, ``...``, ``None``, and whole numbers as lists, arrays or values, side by side.

    ``scores[F.arange(n), targets]`` has one element of each row; the gradients of what is named twice add up.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> class Last(nn.Module):
    ...     def forward(self, x):
    ...         return x[:, -1, ::2]
    >>> Last()(np.arange(12, dtype=np.float32).reshape(1, 3, 4)).tolist()
    [[8.0, 10.0]]
    """
    return _part(value(input, "indexing"), key)


def _part(x: Tensor, key: Any) -> Tensor:
    """The part of a value that an index names."""
    keys = list(key) if isinstance(key, tuple) else [key]
    if sum(k is Ellipsis for k in keys) > 1:
        raise IndexError("indexing: ... may be used only once.")
    named = sum(k is not None and k is not Ellipsis for k in keys)
    if named > x.ndim:
        raise IndexError(f"indexing: {named} indices for {x.shape}.")
    place = next((i for i, k in enumerate(keys) if k is Ellipsis), len(keys))
    keys[place : place + 1] = [slice(None)] * (x.ndim - named)
    return _indexed(x, keys)


def _indexed(x: Tensor, keys: list[Any]) -> Tensor:
    """The part that ``keys``, one for every axis and None for new ones, name."""
    cut: list[slice] = []  # what is kept of each axis
    sizes: list[AnySize | None] = []  # sizes of the result; None for each axis that is indexed by integers
    shape: list[AnySize] = []  # the shape after slicing
    picks: list[tuple[int, Any]] = []
    axis = 0
    for key in keys:
        if key is None:
            sizes.append(1)
            continue
        size = x.shape[axis]
        if isinstance(key, slice):
            if any(isinstance(end, Tensor) for end in (key.start, key.stop, key.step)):
                raise TypeError("indexing: the ends of a slice are numbers, not values.")
            part, count = _span(key, size)
            if not are_at_least(1, [count]):
                raise IndexError(f"indexing: {key} of axis {axis} of {x.shape} selects nothing.")
            cut.append(part)
            sizes.append(count)
            shape.append(count)
        elif isinstance(key, (list, np.ndarray, Tensor)):
            picks.append((axis, _chosen(key, axis, x)))
            cut.append(slice(None))
            sizes.append(None)
            shape.append(size)
        else:
            if isinstance(key, bool) or not hasattr(key, "__index__"):
                raise TypeError(
                    f"indexing: {key!r} is not an index. Use numbers, slices, ..., None, lists of numbers or values of integers. "
                    "What depends on other numbers in the network is chosen with where or a mask, not with an index."
                )
            number = key + size if key < 0 else key
            if number < 0 or number >= size:
                raise IndexError(f"indexing: {key} is out of range for axis {axis} of {x.shape}.")
            cut.append(slice(number, number + 1))
            shape.append(1)
        axis += 1
    whole = all(part == slice(None) for part in cut)
    y = x if whole else x.graph.append(operations.Slice(x, tuple(cut), shape))
    if picks:
        place = sizes.index(None)
        if None in sizes[place : place + sizes.count(None)] and any(
            n is not None for n in sizes[place : place + sizes.count(None)]
        ):
            raise IndexError("indexing: axes that are indexed by whole numbers must stand side by side.")
        y, chosen = _picked(y, picks)
        sizes[place : place + len(picks)] = chosen
    result = [n for n in sizes if n is not None]
    return y if is_same_shape(result, y.shape) else Tensor(y.graph, result, source=y)


def _chosen(key: Any, axis: int, x: Tensor) -> Any:
    """Whole numbers that index an axis: those that are known, counted from the front, or a value of integers."""
    if isinstance(key, Tensor):
        if key.is_mask:
            raise TypeError(f"indexing: x[mask] with the mask {key!r}. {DEPENDS_ON_NUMBERS}")
        return key.as_indices("indexing")
    size, chosen = x.shape[axis], np.asarray(key)
    if chosen.dtype == np.bool_ and chosen.ndim == 1:
        if len(chosen) != size:
            raise IndexError(f"indexing: a mask of {len(chosen)} for axis {axis} of {x.shape}.")
        chosen = np.flatnonzero(chosen)
    if chosen.dtype.kind not in "iu" or not chosen.size:
        raise IndexError("indexing: an axis may be indexed with a list of whole numbers.")
    if chosen.min() < 0:
        size = int(size)
    if size <= chosen.max() or (chosen.min() < 0 and chosen.min() < -size):
        raise IndexError(f"indexing: numbers from {chosen.min()} to {chosen.max()} for axis {axis} of {x.shape}.")
    return chosen % size if chosen.min() < 0 else chosen


def _picked(x: Tensor, picks: list[tuple[int, Any]]) -> tuple[Tensor, Sequence[AnySize]]:
    """Entries of axes side by side by whole numbers, which are matched like operands; and the shape of these numbers."""
    (axis, first), *others = picks
    if not others and isinstance(first, np.ndarray) and first.ndim == 1:
        return x.graph.append(operations.Pick(x, axis, first)), (len(first),)
    values = [x.graph.own_constant(n.astype(np.int64)) if isinstance(n, np.ndarray) else n for _, n in picks]
    if not others:
        return x.graph.append(operations.Take(x, axis, values[0])), values[0].shape
    shape = broadcast(*(v.shape for v in values))
    if shape is None:
        raise IndexError(f"indexing: numbers of shapes {', '.join(str(v.shape) for v in values)} do not fit together.")
    behind = axis + len(picks)
    sizes = x.shape[axis:behind]
    flat = operations.FlatIndex(values, sizes, Tensor(x.graph, shape, INT64))
    merged = x.reshape((*x.shape[:axis], product(sizes), *x.shape[behind:]))
    return x.graph.append(operations.Take(merged, axis, x.graph.append(flat))), shape


def _span(key: slice, size: AnySize) -> tuple[slice, AnySize]:
    """A slice of an axis as one without negative ends, and how many entries it has."""
    if key == slice(None) or key == slice(None, None, 1):
        return slice(None), size
    step = 1 if key.step is None else operator.index(key.step)
    if step < 1:
        count = len(range(*key.indices(operator.index(size)))) if key != slice(None, None, -1) else size
        return key, count
    start, stop = (
        (0 if key.start is None else _end(key.start, size)),
        (size if key.stop is None else _end(key.stop, size)),
    )
    return slice(start, stop, step), (stop - start + (step - 1)) // step if start < stop else 0


def _end(end: AnySize, size: AnySize) -> AnySize:
    """An end of a slice, counted from the front and inside the axis."""
    if end < 0:
        end = end + size
        return 0 if end < 0 else end
    return size if size < end else end


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
    (x, given), places = joined([input, source], who), indices(index, f"{who}: index")
    axis = axis_of(x, dim, who)
    _along(x, places, axis, who)
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
    (x, given), places = joined([input, source], "index_add"), indices(index, "index_add: index")
    axis = axis_of(x, dim, "index_add")
    fits = places.ndim == 1 and given.ndim == x.ndim
    if not fits or any(n != (places.shape[0] if i == axis else x.shape[i]) for i, n in enumerate(given.shape)):
        raise ValueError(
            f"index_add: source {given.shape} must have the shape of {x.shape}, with an entry along axis {axis} for each number "
            f"of index {places.shape}."
        )
    sums = x.graph.append(operations.AddEntries(given, axis, places, x.shape[axis]))
    return add(x, sums if alpha == 1 else mul(sums, alpha))


@function
def embedding(input: TensorLike, weight: Any, padding_idx: int | None = None) -> Any:
    """Rows of a parameter, a value or an array that stays as it is, by whole numbers; row ``padding_idx`` gets no gradient."""
    x = value(input, "embedding").as_indices("embedding")
    if isinstance(weight, np.ndarray) and weight.dtype.kind == "f":
        constant = Parameter(weight, requires_grad=False)  # without gradients, no row of which is left out
        return x.graph.append(operations.Embedding(x.graph, x, constant, None))
    if isinstance(weight, Parameter):
        x.graph.parameter(weight)
        return x.graph.append(operations.Embedding(x.graph, x, weight, padding_idx))
    rows = value(weight, "embedding") if isinstance(weight, np.ndarray) else weight
    if not isinstance(rows, Tensor) or rows.ndim != 2:
        raise TypeError(f"embedding: weight is a {type(weight).__name__}. Pass the nn.Parameter that holds the rows.")
    if padding_idx is not None:
        fixed = eq(arange(rows.shape[0]), padding_idx % rows.shape[0])
        rows = where(unsqueeze(fixed, 1), detach(rows), rows)
    return x.graph.append(operations.Take(rows, 0, x))


@function
def one_hot(input: TensorLike, num_classes: int) -> Any:
    """Rows of zeros with a 1 at the place that each whole number names: (...) -> (..., num_classes).

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.functional.one_hot(np.array([2, 0]), 3).tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """
    x = value(input, "one_hot").as_indices("one_hot")
    if isinstance(num_classes, bool) or not isinstance(num_classes, (int, np.integer)) or num_classes < 1:
        raise ValueError(f"one_hot: num_classes is {num_classes!r}. Pass the number of classes, at least 1.")
    rows = Parameter(np.eye(int(num_classes), dtype=np.float32), requires_grad=False)
    return x.graph.append(operations.Embedding(x.graph, x, rows, None))
