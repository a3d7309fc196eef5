"""Reshape, transpose, index, split and concatenate."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import operations
from ..sizes import AnySize, Size, agree, are_at_least, broadcast, is_same, is_same_shape, product
from ..tensor import DEPENDS_ON_NUMBERS, INT64, Tensor
from .base import TensorLike, axes_of, axis_of, function, numbers, value


@function
def reshape(input: TensorLike, *shape: Any) -> Any:
    """The same elements in another shape; one size may be -1."""
    return value(input, "reshape").reshape(*shape)


@function
def flatten(input: TensorLike, start_dim: int = 0, end_dim: int = -1) -> Any:
    """The axes from ``start_dim`` to ``end_dim`` as one."""
    x = value(input, "flatten")
    first, last = axis_of(x, start_dim, "flatten"), axis_of(x, end_dim, "flatten")
    if first > last:
        raise ValueError(f"flatten: start_dim {start_dim} is behind end_dim {end_dim}.")
    size = product(x.shape[first : last + 1])
    return x.reshape((*x.shape[:first], size, *x.shape[last + 1 :]))


@function
def unflatten(input: TensorLike, dim: int, sizes: Sequence[int]) -> Any:
    """An axis as several; one of ``sizes`` may be -1."""
    x = value(input, "unflatten")
    axis = axis_of(x, dim, "unflatten")
    return x.reshape((*x.shape[:axis], *sizes, *x.shape[axis + 1 :]))


@function
def squeeze(input: TensorLike, dim: Any = None) -> Any:
    """Remove the axes of size 1, or those of ``dim`` that have size 1."""
    x = value(input, "squeeze")
    axes = axes_of(x, dim, "squeeze")
    kept = [n for axis, n in enumerate(x.shape) if axis not in axes or n != 1]
    return x.reshape(tuple(kept))


@function
def unsqueeze(input: TensorLike, dim: int) -> Any:
    """Add an axis of size 1 at ``dim``."""
    x = value(input, "unsqueeze")
    axis = axis_of(x, dim, "unsqueeze", extra=1)
    return x.reshape((*x.shape[:axis], 1, *x.shape[axis:]))


@function
def permute(input: TensorLike, *dims: Any) -> Any:
    """The axes in another order: axis k of the result is axis ``dims[k]`` of the input."""
    x = value(input, "permute")
    given = dims[0] if len(dims) == 1 and isinstance(dims[0], (tuple, list)) else dims
    order = tuple(axis_of(x, d, "permute") for d in given)
    if sorted(order) != list(range(x.ndim)):
        raise ValueError(f"permute: {tuple(given)} must name each axis of {x.shape} once.")
    if isinstance(x.producer, operations.Permute):  # two in a row are one, or none
        order, x = tuple(x.producer.order[axis] for axis in order), x.producer.inputs[0]
    if order == tuple(range(x.ndim)):
        return x
    moved = [axis for axis in order if not is_same(x.shape[axis], 1)]
    if moved == sorted(moved):  # only axes of size 1 change places
        return x.reshape(tuple(x.shape[axis] for axis in order))
    return x.graph.append(operations.Permute(x, order))


@function
def transpose(input: TensorLike, dim0: int, dim1: int) -> Any:
    """Exchange two axes."""
    x = value(input, "transpose")
    order = list(range(x.ndim))
    first, second = axis_of(x, dim0, "transpose"), axis_of(x, dim1, "transpose")
    order[first], order[second] = second, first
    return permute(x, order)


@function
def expand(input: TensorLike, *sizes: Any) -> Any:
    """Repeat along axes of size 1 up to these sizes, and along further axes in front; -1 keeps a size.

    ``token.expand(x.shape[0], -1, -1)`` gives a parameter (1, 1, D) to every sample of a batch.
    """
    x = value(input, "expand")
    given = list(sizes[0] if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes)
    own = [1] * (len(given) - x.ndim) + list(x.shape)
    wanted = [n if not isinstance(s, Size) and s == -1 else s for n, s in zip(own, given, strict=False)]
    if x.ndim > len(given) or any(not is_same(n, 1) and n != s for n, s in zip(own, wanted, strict=True)):
        raise ValueError(f"expand: {x.shape} cannot be repeated to {tuple(given)}. Only axes of size 1 can.")
    if is_same_shape(wanted, x.shape):
        return x
    return x.graph.append(operations.Expand(x, Tensor(x.graph, wanted, x.dtype)))


@function
def repeat(input: TensorLike, *sizes: Any) -> Any:
    """Copies side by side, so many along each axis: PyTorch's ``repeat``, NumPy's ``tile``."""
    x = value(input, "repeat")
    given = list(sizes[0] if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes)
    if len(given) < x.ndim:
        raise ValueError(f"repeat: {tuple(given)} must give a number of copies for each axis of {x.shape}.")
    x = x.reshape((*[1] * (len(given) - x.ndim), *x.shape))
    for axis, copies in enumerate(given):
        if is_same(copies, 1):
            continue
        if is_same(x.shape[axis], 1):
            x = expand(x, *[copies if i == axis else -1 for i in range(x.ndim)])
        else:
            apart = x.reshape((*x.shape[:axis], 1, *x.shape[axis:]))
            apart = expand(apart, *[copies if i == axis else -1 for i in range(apart.ndim)])
            x = apart.reshape((*x.shape[:axis], copies * x.shape[axis], *x.shape[axis + 1 :]))
    return x


@function
def cat(tensors: Sequence[TensorLike], dim: int = 0) -> Any:
    """Join tensors along ``dim``.

    Where the size of the first axis is free, a part that has 1 there, or lacks it, is given to every sample: a class token
    (1, 1, D) in front of (N, T, D).

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.functional.cat([np.zeros((4, 2), np.float32), np.ones((4, 3), np.float32)], dim=1).shape
    (4, 5)
    """
    parts = _of_one_kind(tensors, "cat")
    if not parts:
        raise ValueError("cat: there are no tensors to join. Pass at least one.")
    parts = _for_all_samples(parts, dim)
    axis = axis_of(parts[0], dim, "cat")
    first = parts[0].shape
    if any(
        p.ndim != len(first) or any(i != axis and not agree(n, first[i]) for i, n in enumerate(p.shape)) for p in parts
    ):
        shapes = ", ".join(str(p.shape) for p in parts)
        raise ValueError(f"cat: {shapes} differ in more than axis {axis}.")
    return parts[0] if len(parts) == 1 else parts[0].graph.append(operations.Concatenate(parts, axis))


concat = cat


def _of_one_kind(tensors: Sequence[TensorLike], who: str) -> list[Tensor]:
    """Values of whole numbers if all are, else of numbers to compute with."""
    parts = [value(x, who) for x in tensors]
    return parts if all(part.dtype.kind == "i" for part in parts) else [numbers(part, who) for part in parts]


def _for_all_samples(parts: list[Tensor], dim: Any = None) -> list[Tensor]:
    """Values of which those that are alike for all samples are repeated; ``dim`` is the axis along which sizes may differ."""
    many = next((p for p in parts if p.shape and isinstance(p.shape[0], Size)), None)
    if many is None or dim in (0, -many.ndim):
        return parts
    rest = [-1] * (many.ndim - 1)
    return [
        expand(p, many.shape[0], *rest)
        if p.ndim == many.ndim - 1 or (p.ndim == many.ndim and is_same(p.shape[0], 1))
        else p
        for p in parts
    ]


@function
def stack(tensors: Sequence[TensorLike], dim: int = 0) -> Any:
    """Join tensors along a new axis at ``dim``."""
    parts = _for_all_samples(_of_one_kind(tensors, "stack"))
    return cat([unsqueeze(p, axis_of(p, dim, "stack", extra=1)) for p in parts], dim)


@function
def split(input: TensorLike, split_size_or_sections: Any, dim: int = 0) -> Any:
    """Parts along ``dim``: all of one size but perhaps the last, or of the sizes in a list."""
    x = value(input, "split")
    axis = axis_of(x, dim, "split")
    total = x.shape[axis]
    if isinstance(split_size_or_sections, (tuple, list)):
        sizes = [operator.index(n) for n in split_size_or_sections]
    elif isinstance(total, Size) and is_same(total, split_size_or_sections):
        return (x,)
    else:
        size = operator.index(split_size_or_sections)
        if size < 1:
            raise ValueError(f"split: the size of a part is {size}. It must be at least 1.")
        sizes = [min(size, total - start) for start in range(0, total, size)]
    if min(sizes, default=0) < 1 or sum(sizes) != total:
        raise ValueError(f"split: parts of {sizes} do not make up axis {axis} of {x.shape}.")
    if len(sizes) == 1:
        return (x,)
    operation = operations.Split(x, axis, sizes)
    x.graph.append(operation)
    return tuple(operation.outputs)


@function
def chunk(input: TensorLike, chunks: int, dim: int = 0) -> Any:
    """``chunks`` parts of one size along ``dim``, but perhaps the last."""
    x = value(input, "chunk")
    total = x.shape[axis_of(x, dim, "chunk")]
    return split(x, -(-total // operator.index(chunks)), dim)


@function
def unbind(input: TensorLike, dim: int = 0) -> Any:
    """The entries along ``dim``, without that axis."""
    x = value(input, "unbind")
    axis = axis_of(x, dim, "unbind")
    return tuple(part.reshape((*x.shape[:axis], *x.shape[axis + 1 :])) for part in split(x, 1, dim))


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
def flip(input: TensorLike, dims: Any) -> Any:
    """Reverse the order along ``dims``."""
    x = value(input, "flip")
    axes = axes_of(x, dims, "flip")
    return x.graph.append(
        operations.Slice(
            x, tuple(slice(None, None, -1) if axis in axes else slice(None) for axis in range(x.ndim)), x.shape
        )
    )


@function
def roll(input: TensorLike, shifts: Any, dims: Any = None) -> Any:
    """Shift along axes by ``shifts`` places; elements that leave at one end enter at the other.

    One number and one axis, or as many of both; without ``dims`` the elements are moved as if they were one row.
    """
    x = value(input, "roll")
    if dims is None:
        return roll(x.reshape((product(x.shape),)), shifts, 0).reshape(x.shape)
    steps, axes = ([n] if hasattr(n, "__index__") else list(n) for n in (shifts, dims))
    if len(steps) != len(axes):
        raise ValueError(f"roll: shifts {shifts} and dims {dims} must have the same length.")
    for step, dim in zip(steps, axes, strict=True):
        axis = axis_of(x, dim, "roll")
        size = x.shape[axis]
        if step and -size < step < size:
            by = step if step > 0 else size + step
        else:
            by = step % size
            if not by:
                continue
        x = cat([narrow(x, axis, size - by, by), narrow(x, axis, 0, size - by)], axis)
    return x


@function
def tril(input: TensorLike, diagonal: int = 0) -> Any:
    """Zeros above the diagonal of the last two axes."""
    return _band(input, diagonal, np.tril, "tril")


@function
def triu(input: TensorLike, diagonal: int = 0) -> Any:
    """Zeros below the diagonal of the last two axes."""
    return _band(input, diagonal, np.triu, "triu")


def _band(input: TensorLike, diagonal: int, part: Any, who: str) -> Tensor:
    from .arithmetic import mul
    from .comparisons import ge, le
    from .creation import arange

    x = numbers(input, who)
    if x.ndim < 2:
        raise ValueError(f"{who}: {x.shape} has no matrices.")
    rows, columns = x.shape[-2:]
    if isinstance(rows, Size) or isinstance(columns, Size):
        last = unsqueeze(arange(diagonal, rows + diagonal), 1)  # the column on the diagonal, for each row
        mask: Any = (ge if part is np.tril else le)(last, arange(columns))
    else:
        mask = part(np.ones((rows, columns), np.float32), diagonal)
    result: Tensor = mul(x, mask)
    return result


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
