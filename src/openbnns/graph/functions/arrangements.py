"""Join, split, flip, roll and repeat along axes; diagonals and triangles of matrices."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from .. import operations
from ..checks import positive
from ..sizes import Size, agree, is_same, product
from ..tensor import Tensor
from .base import TensorLike, axes_of, axis_of, function, joined, value, with_shape
from .creation import arange
from .elementwise import eq, ge, le, sub, where
from .indexing import index_select, narrow
from .shapes import expand, movedim, permute, transpose, unsqueeze

__all__ = [
    "cat", "chunk", "concat", "diag_embed", "diagonal", "diff", "flip", "repeat_interleave", "roll", "rot90", "split",
    "stack", "tensor_split", "tril", "triu", "unbind",
]  # fmt: skip


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
    parts = joined([value(x, "cat") for x in tensors], "cat")
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
    parts = _for_all_samples(joined([value(x, "stack") for x in tensors], "stack"))
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
    return split(x, -(-total // positive(chunks, "chunk: chunks")), dim)


@function
def unbind(input: TensorLike, dim: int = 0) -> Any:
    """The entries along ``dim``, without that axis."""
    x = value(input, "unbind")
    axis = axis_of(x, dim, "unbind")
    return tuple(with_shape(part, (*x.shape[:axis], *x.shape[axis + 1 :])) for part in split(x, 1, dim))


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
    x = value(input, who)
    if x.ndim < 2:
        raise ValueError(f"{who}: {x.shape} has no matrices.")
    rows, columns = x.shape[-2:]
    if isinstance(rows, Size) or isinstance(columns, Size):
        last = unsqueeze(arange(diagonal, rows + diagonal), 1)  # the column on the diagonal, for each row
        mask: Any = (ge if part is np.tril else le)(last, arange(columns))
    else:
        mask = part(np.ones((rows, columns), np.float32), diagonal)
    result: Tensor = where(mask, x, 0)  # a product with zeros would make NaN of infinities
    return result


@function
def rot90(input: TensorLike, k: int = 1, dims: Sequence[int] = (0, 1)) -> Any:
    """Rotate by 90 degrees ``k`` times, from the first of two axes towards the second."""
    x = value(input, "rot90")
    if len(dims) != 2 or axis_of(x, dims[0], "rot90") == axis_of(x, dims[1], "rot90"):
        raise ValueError(f"rot90: dims is {dims!r}. Name two axes.")
    turns = operator.index(k) % 4
    if turns == 2:
        return flip(x, dims)
    if turns == 1:
        return transpose(flip(x, dims[1]), *dims)
    return flip(transpose(x, *dims), dims[1]) if turns else x


@function
def repeat_interleave(input: TensorLike, repeats: Any, dim: int | None = None) -> Any:
    """Every element repeated so many times, one number or one for each entry; of the flattened input if ``dim`` is left out."""
    x = value(input, "repeat_interleave")
    if dim is None:
        x, dim = x.reshape((product(x.shape),)), 0
    axis = axis_of(x, dim, "repeat_interleave")
    if isinstance(repeats, Tensor):
        raise TypeError(
            "repeat_interleave: repeats is a value, so that the shape of the result would depend on numbers. Pass an integer or "
            "a list of integers."
        )
    if not hasattr(repeats, "__index__") or isinstance(repeats, np.ndarray):
        numbers_given = np.asarray(repeats)
        if numbers_given.shape != (int(x.shape[axis]),) or numbers_given.dtype.kind not in "iu":
            raise ValueError(
                f"repeat_interleave: repeats is {repeats!r}. Pass an integer, or one for each of {x.shape[axis]}."
            )
        return index_select(x, axis, np.repeat(np.arange(len(numbers_given)), numbers_given))
    count = repeats if isinstance(repeats, Size) else operator.index(repeats)
    if count < 1:
        raise ValueError(f"repeat_interleave: repeats is {count}. It must be at least 1.")
    copies = expand(unsqueeze(x, axis + 1), *[count if i == axis + 1 else -1 for i in range(x.ndim + 1)])
    return copies.reshape((*x.shape[:axis], x.shape[axis] * count, *x.shape[axis + 1 :]))


@function
def tensor_split(input: TensorLike, indices_or_sections: Any, dim: int = 0) -> Any:
    """Split along ``dim``: into so many parts, as equal as possible, or before the positions of a list."""
    x = value(input, "tensor_split")
    axis = axis_of(x, dim, "tensor_split")
    size = int(x.shape[axis])
    if isinstance(indices_or_sections, (tuple, list)):
        ends = [operator.index(i) for i in indices_or_sections]
    else:
        count = operator.index(indices_or_sections)
        if not 1 <= count <= size:
            raise ValueError(f"tensor_split: {count} parts of axis {axis} of {x.shape} are not possible.")
        ends = [(i + 1) * (size // count) + min(i + 1, size % count) for i in range(count - 1)]
    places = [0, *(i + size if i < 0 else i for i in ends), size]
    sizes = [end - start for start, end in pairwise(places)]
    if min(sizes) < 1:
        raise ValueError(f"tensor_split: {indices_or_sections} leaves a part of axis {axis} of {x.shape} empty.")
    return split(x, sizes, axis)


@function
def diagonal(input: TensorLike, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """The diagonals of the matrices along two axes, as a last axis; ``offset`` counts to the right of the main one.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.functional.diagonal(np.arange(9, dtype=np.float32).reshape(3, 3), offset=1).tolist()
    [1.0, 5.0]
    """
    x = value(input, "diagonal")
    first, second = axis_of(x, dim1, "diagonal"), axis_of(x, dim2, "diagonal")
    if first == second:
        raise ValueError(f"diagonal: dim1 and dim2 are both axis {first}. Name two.")
    x = permute(x, [*(axis for axis in range(x.ndim) if axis not in (first, second)), first, second])
    *leading, rows, columns = x.shape
    high, wide = (rows, columns - offset) if offset >= 0 else (rows + offset, columns)
    count = wide if wide < high else high
    if count < 1:
        raise ValueError(f"diagonal: there is none with offset {offset} in {rows} x {columns}.")
    start = offset if offset >= 0 else -offset * columns
    flat = x.reshape((*leading, rows * columns))
    part = slice(start, start + (count - 1) * (columns + 1) + 1, columns + 1)
    return x.graph.append(operations.Slice(flat, (*[slice(None)] * len(leading), part), (*leading, count)))


@function
def diag_embed(input: TensorLike, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """Matrices along two new axes, with the last axis of the input as their diagonals and zeros elsewhere."""
    x = value(input, "diag_embed")
    if x.ndim < 1:
        raise ValueError("diag_embed: a single number has no axis to be a diagonal.")
    places = arange(x.shape[-1])
    matrices = where(eq(unsqueeze(places, 1), places), unsqueeze(x, -1), 0)
    if offset:
        widths = [(0, 0)] * (x.ndim - 1) + [(0, offset), (offset, 0)] if offset > 0 else (
            [(0, 0)] * (x.ndim - 1) + [(-offset, 0), (0, -offset)]
        )  # fmt: skip
        matrices = operations.pad(matrices, widths, "constant", "diag_embed: offset")
    return movedim(matrices, (-2, -1), (dim1, dim2))


@function
def diff(input: TensorLike, n: int = 1, dim: int = -1, prepend: TensorLike = None, append: TensorLike = None) -> Any:
    """The differences of neighbours along ``dim``, ``n`` times over."""
    x = value(input, "diff")
    axis = axis_of(x, dim, "diff")
    if prepend is not None or append is not None:
        x = cat([part for part in (prepend, x, append) if part is not None], axis)
    for _ in range(operator.index(n)):
        size = x.shape[axis]
        if size < 2:
            raise ValueError(f"diff: axis {axis} of {x.shape} has no neighbours.")
        x = sub(narrow(x, axis, 1, size - 1), narrow(x, axis, 0, size - 1))
    return x
