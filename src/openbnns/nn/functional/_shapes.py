"""Shapes, parts and joints. ``dim`` counts the batch, as in PyTorch; the batch stays the first axis."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import operations
from .._value import BatchSize, Value
from ._base import Tensor, axes_of, axis_of, function, keep_batch, numbers, value, whole_shape


@function
def reshape(input: Tensor, *shape: Any) -> Any:
    """The same elements in another shape; one size may be -1."""
    return value(input, "reshape").reshape(*shape)


@function
def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Any:
    """The axes from ``start_dim`` to ``end_dim`` as one."""
    x = value(input, "flatten")
    first, last = axis_of(x, start_dim, "flatten"), axis_of(x, end_dim, "flatten")
    if first > last:
        raise ValueError(f"flatten: start_dim {start_dim} is behind end_dim {end_dim}.")
    size: Any = 1
    for n in x.shape[first : last + 1]:
        size = n * size
    return x.reshape((*x.shape[:first], size, *x.shape[last + 1 :]))


@function
def unflatten(input: Tensor, dim: int, sizes: Sequence[int]) -> Any:
    """An axis as several; one of ``sizes`` may be -1."""
    x = value(input, "unflatten")
    axis = axis_of(x, dim, "unflatten")
    keep_batch(x, axis, "unflatten")
    return x.reshape((*x.shape[:axis], *sizes, *x.shape[axis + 1 :]))


@function
def squeeze(input: Tensor, dim: Any = None) -> Any:
    """Without the axes of size 1, or without those of ``dim`` that have size 1."""
    x = value(input, "squeeze")
    axes = axes_of(x, dim, "squeeze")
    kept = [n for axis, n in enumerate(x.shape) if isinstance(n, BatchSize) or n != 1 or axis not in axes]
    return x.reshape(tuple(kept))


@function
def unsqueeze(input: Tensor, dim: int) -> Any:
    """With an axis of size 1 at ``dim``."""
    x = value(input, "unsqueeze")
    axis = axis_of(x, dim, "unsqueeze", extra=1)
    keep_batch(x, axis, "unsqueeze")
    return x.reshape((*x.shape[:axis], 1, *x.shape[axis:]))


@function
def permute(input: Tensor, *dims: Any) -> Any:
    """The axes in another order: axis k of the result is axis ``dims[k]`` of the input."""
    x = numbers(input, "permute")
    given = dims[0] if len(dims) == 1 and isinstance(dims[0], (tuple, list)) else dims
    order = tuple(axis_of(x, d, "permute") for d in given)
    if sorted(order) != list(range(x.ndim)):
        raise ValueError(f"permute: {tuple(given)} must name each axis of {x.shape} once.")
    if x.rows and order[0] != 0:
        raise ValueError(f"permute: {tuple(given)} moves the batch of {x.shape}, which stays the first axis.")
    if isinstance(x.producer, operations.Permute):  # two in a row are one, or none
        order, x = tuple(x.producer.order[axis] for axis in order), x.producer.inputs[0]
    if order == tuple(range(x.ndim)):
        return x
    moved = [axis for axis in order if isinstance(x.shape[axis], BatchSize) or x.shape[axis] != 1]
    if moved == sorted(moved):  # only axes of size 1 change places
        return x.reshape(tuple(x.shape[axis] for axis in order))
    return x.graph.append(operations.Permute(x, order))


@function
def transpose(input: Tensor, dim0: int, dim1: int) -> Any:
    """Two axes exchanged."""
    x = numbers(input, "transpose")
    order = list(range(x.ndim))
    first, second = axis_of(x, dim0, "transpose"), axis_of(x, dim1, "transpose")
    order[first], order[second] = second, first
    return permute(x, order)


@function
def expand(input: Tensor, *sizes: Any) -> Any:
    """Repeated along axes of size 1 up to these sizes, and along further axes in front; -1 keeps a size.

    ``token.expand(x.shape[0], -1, -1)`` gives a parameter (1, 1, D) to every sample of a batch.
    """
    x = numbers(input, "expand")
    given = list(sizes[0] if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes)
    rows, sample = whole_shape(given, "expand")
    if x.rows and given and not rows and given[0] == -1:
        rows, sample = x.rows, sample[1:]
    own = list(x.sample) if x.rows or not rows else list(x.sample[max(0, len(x.sample) - len(sample)) :])
    fits = len(own) <= len(sample) and (not x.rows or x.rows == rows)
    own = [1] * (len(sample) - len(own)) + own
    wanted = [n if s == -1 else s for n, s in zip(own, sample, strict=False)]
    if (
        not fits
        or any(n not in (1, s) for n, s in zip(own, wanted, strict=False))
        or (not x.rows and rows and len(x.sample) > len(sample) and x.sample[0] != 1)
    ):
        raise ValueError(f"expand: {x.shape} cannot be repeated to {tuple(given)}. Only axes of size 1 can.")
    if wanted == list(x.sample) and rows == x.rows:
        return x
    return x.graph.append(operations.Expand(x, Value(x.graph, wanted, rows=rows)))


@function
def repeat(input: Tensor, *sizes: Any) -> Any:
    """Copies side by side, so many along each axis: PyTorch's ``repeat``, NumPy's ``tile``."""
    x = numbers(input, "repeat")
    given = list(sizes[0] if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes)
    if len(given) < x.ndim or (x.rows and (len(given) != x.ndim or given[0] != 1)):
        raise ValueError(
            f"repeat: {tuple(given)} must give a number of copies for each axis of {x.shape}, 1 for the batch."
        )
    if not x.rows and isinstance(given[0], BatchSize):
        x = expand(x, given[0], *[-1] * (x.ndim - (len(given) == x.ndim)))
        given[0] = 1
    while x.ndim < len(given):
        x = unsqueeze(x, 0)
    for axis, copies in enumerate(given):
        if copies != 1:
            x = cat([x] * operator.index(copies), axis)
    return x


@function
def cat(tensors: Sequence[Tensor], dim: int = 0) -> Any:
    """Side by side along ``dim``; what has no batch is given to every sample.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.functional.cat([np.zeros((4, 2), np.float32), np.ones((4, 3), np.float32)], dim=1).shape
    (4, 5)
    """
    parts = [numbers(x, "cat") for x in tensors]
    if not parts:
        raise ValueError("cat: there are no tensors to join. Pass at least one.")
    parts = _same_batch(parts, "cat")
    axis = axis_of(parts[0], dim, "cat")
    keep_batch(parts[0], axis, "cat")
    others = {(*p.shape[:axis], *p.shape[axis + 1 :]) for p in parts}
    if len(others) != 1:
        shapes = ", ".join(str(p.shape) for p in parts)
        raise ValueError(f"cat: {shapes} differ in more than axis {axis}.")
    return parts[0] if len(parts) == 1 else parts[0].graph.append(operations.Concatenate(parts, axis))


concat = cat


def _same_batch(parts: list[Value], who: str) -> list[Value]:
    """Values that all have the batch that one of them has."""
    batched = next((p for p in parts if p.rows), None)
    if batched is None:
        return parts
    return [p if p.rows else expand(p, batched.shape[0], *[-1] * (batched.ndim - 1)) for p in parts]


@function
def stack(tensors: Sequence[Tensor], dim: int = 0) -> Any:
    """Side by side along a new axis at ``dim``."""
    parts = _same_batch([numbers(x, "stack") for x in tensors], "stack")
    return cat([unsqueeze(p, axis_of(p, dim, "stack", extra=1)) for p in parts], dim)


@function
def split(input: Tensor, split_size_or_sections: Any, dim: int = 0) -> Any:
    """Parts along ``dim``: all of one size but perhaps the last, or of the sizes in a list."""
    x = numbers(input, "split")
    axis = axis_of(x, dim, "split")
    keep_batch(x, axis, "split")
    total = x.shape[axis]
    if isinstance(split_size_or_sections, (tuple, list)):
        sizes = [operator.index(n) for n in split_size_or_sections]
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
def chunk(input: Tensor, chunks: int, dim: int = 0) -> Any:
    """``chunks`` parts of one size along ``dim``, but perhaps the last."""
    x = numbers(input, "chunk")
    total = x.shape[axis_of(x, dim, "chunk")]
    keep_batch(x, axis_of(x, dim, "chunk"), "chunk")
    return split(x, -(-total // operator.index(chunks)), dim)


@function
def unbind(input: Tensor, dim: int = 0) -> Any:
    """The entries along ``dim``, without that axis."""
    x = numbers(input, "unbind")
    axis = axis_of(x, dim, "unbind")
    return tuple(part.reshape((*x.shape[:axis], *x.shape[axis + 1 :])) for part in split(x, 1, dim))


@function
def narrow(input: Tensor, dim: int, start: int, length: int) -> Any:
    """``length`` entries along ``dim`` from ``start`` on."""
    x = numbers(input, "narrow")
    return _part(x, (slice(None),) * axis_of(x, dim, "narrow") + (slice(start, start + length),))


@function
def select(input: Tensor, dim: int, index: int) -> Any:
    """The entry ``index`` along ``dim``, without that axis."""
    x = numbers(input, "select")
    return _part(x, (slice(None),) * axis_of(x, dim, "select") + (operator.index(index),))


@function
def index_select(input: Tensor, dim: int, index: Any) -> Any:
    """The entries along ``dim`` whose numbers ``index`` lists."""
    x = numbers(input, "index_select")
    return _part(x, (slice(None),) * axis_of(x, dim, "index_select") + (np.asarray(index),))


@function
def flip(input: Tensor, dims: Any) -> Any:
    """With the order along ``dims`` turned round."""
    x = numbers(input, "flip")
    axes = axes_of(x, dims, "flip")
    for axis in axes:
        keep_batch(x, axis, "flip")
    return x.graph.append(
        operations.Slice(
            x, tuple(slice(None, None, -1) if axis in axes else slice(None) for axis in range(x.ndim)), x.sample
        )
    )


@function
def roll(input: Tensor, shifts: int, dims: int) -> Any:
    """Moved along an axis by ``shifts`` places; what falls off comes in again at the other end."""
    x = numbers(input, "roll")
    axis = axis_of(x, dims, "roll")
    keep_batch(x, axis, "roll")
    size = x.shape[axis]
    by = shifts % size
    if not by:
        return x
    front = narrow(x, axis, size - by, by)
    return cat([front, narrow(x, axis, 0, size - by)], axis)


@function
def tril(input: Tensor, diagonal: int = 0) -> Any:
    """Zeros above the diagonal of the last two axes."""
    return _band(input, diagonal, np.tril, "tril")


@function
def triu(input: Tensor, diagonal: int = 0) -> Any:
    """Zeros below the diagonal of the last two axes."""
    return _band(input, diagonal, np.triu, "triu")


def _band(input: Tensor, diagonal: int, part: Any, who: str) -> Value:
    from ._arithmetic import mul

    x = numbers(input, who)
    if len(x.sample) < 2:
        raise ValueError(f"{who}: {x.shape} has no matrices behind the batch.")
    result: Value = mul(x, part(np.ones(x.sample[-2:], np.float32), diagonal))
    return result


@function
def index(input: Tensor, key: Any) -> Any:
    """``input[key]``: numbers, slices, ``...``, ``None`` and one list of whole numbers; the batch is taken whole.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> class Last(nn.Module):
    ...     def forward(self, x):
    ...         return x[:, -1, ::2]
    >>> Last()(np.arange(12, dtype=np.float32).reshape(1, 3, 4)).tolist()
    [[8.0, 10.0]]
    """
    return _part(value(input, "indexing"), key)


def _part(x: Value, key: Any) -> Value:
    """The part of a value that an index names."""
    keys = list(key) if isinstance(key, tuple) else [key]
    if sum(k is Ellipsis for k in keys) > 1:
        raise IndexError("indexing: ... may stand once.")
    named = sum(k is not None and k is not Ellipsis for k in keys)
    if named > x.ndim:
        raise IndexError(f"indexing: {named} indices for {x.shape}.")
    place = next((i for i, k in enumerate(keys) if k is Ellipsis), len(keys))
    keys[place : place + 1] = [slice(None)] * (x.ndim - named)
    if x.rows:
        if not keys or keys[0] != slice(None):
            raise IndexError(
                f"indexing: the first axis of {x.shape} is the batch, which is taken whole. Write x[:, ...] and pick samples "
                "outside the network."
            )
        keys = keys[1:]
    return _indexed(x, keys)


def _indexed(x: Value, keys: list[Any]) -> Value:
    """``keys`` for all axes behind the batch."""
    first = int(bool(x.rows))
    cut: list[Any] = [slice(None)] * first  # what is kept of each axis
    sizes: list[int] = []  # of the axes of the result, behind the batch
    shape: list[int] = []  # of the result of the cut
    picks: list[tuple[int, Any]] = []
    axis = 0
    for key in keys:
        if key is None:
            sizes.append(1)
            continue
        size = x.sample[axis]
        if isinstance(key, slice):
            if any(isinstance(end, Value) for end in (key.start, key.stop, key.step)):
                raise TypeError("indexing: the ends of a slice are numbers, not values.")
            count = len(range(*key.indices(size)))
            if not count:
                raise IndexError(f"indexing: {key} of axis {axis + first} of {x.shape} leaves nothing.")
            cut.append(key)
            sizes.append(count)
            shape.append(count)
        elif isinstance(key, (list, np.ndarray)):
            chosen = np.asarray(key)
            chosen = np.flatnonzero(chosen) if chosen.dtype == np.bool_ else chosen
            if chosen.ndim != 1 or chosen.dtype.kind not in "iu" or not chosen.size or picks:
                raise IndexError("indexing: one axis may be indexed with a list of whole numbers.")
            if chosen.min() < -size or chosen.max() >= size:
                raise IndexError(
                    f"indexing: numbers from {chosen.min()} to {chosen.max()} for axis {axis + first} of {x.shape}."
                )
            picks.append((axis + first, chosen % size))
            cut.append(slice(None))
            sizes.append(len(chosen))
            shape.append(size)
        else:
            if isinstance(key, (bool, Value)) or not hasattr(key, "__index__"):
                raise TypeError(f"indexing: {key!r} is no index. Use numbers, slices, ..., None or a list of numbers.")
            number = operator.index(key)
            if not -size <= number < size:
                raise IndexError(f"indexing: {number} is out of range for axis {axis + first} of {x.shape}.")
            cut.append(slice(number % size, number % size + 1))
            shape.append(1)
        axis += 1
    whole = all(part == slice(None) for part in cut)
    y = x if whole else x.graph.append(operations.Slice(x, tuple(cut), shape))
    for axis, chosen in picks:
        shape[axis - first] = len(chosen)
        y = y.graph.append(operations.Pick(y, axis, chosen, shape))
    if tuple(sizes) == y.sample:
        return y
    return Value(y.graph, sizes, rows=y.rows, source=y)
