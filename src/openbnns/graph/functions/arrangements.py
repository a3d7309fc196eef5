"""Moved axes, diagonals, rotations, grids, repeats, differences, and sliding windows as columns."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from .. import operations
from ..checks import Pair, per_axis
from ..sizes import AnySize, Size, is_same, product
from ..tensor import Tensor
from .arithmetic import mul, sub, where
from .base import TensorLike, axis_of, function, numbers, value
from .comparisons import eq
from .creation import arange
from .reductions import norm, sum
from .shapes import cat, expand, flip, index_select, narrow, permute, split, transpose, unsqueeze


@function
def movedim(input: TensorLike, source: Any, destination: Any) -> Any:
    """Move axes to other positions; the others keep their order."""
    x = value(input, "movedim")
    sources, targets = ([d] if hasattr(d, "__index__") else list(d) for d in (source, destination))
    if len(sources) != len(targets):
        raise ValueError(f"movedim: {source} and {destination} must name the same number of axes.")
    moved = {axis_of(x, t, "movedim"): axis_of(x, s, "movedim") for s, t in zip(sources, targets, strict=True)}
    if len(moved) != len(targets) or len(set(moved.values())) != len(sources):
        raise ValueError(f"movedim: {source} to {destination} names an axis twice.")
    others = iter(axis for axis in range(x.ndim) if axis not in moved.values())
    return permute(x, [moved[axis] if axis in moved else next(others) for axis in range(x.ndim)])


moveaxis = movedim


@function
def swapdims(input: TensorLike, dim0: int, dim1: int) -> Any:
    """Exchange two axes; the same as ``transpose``."""
    return transpose(input, dim0, dim1)


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
    x = numbers(input, "diag_embed")
    if x.ndim < 1:
        raise ValueError("diag_embed: a single number has no axis to be a diagonal.")
    places = arange(x.shape[-1])
    matrices = where(eq(unsqueeze(places, 1), places), unsqueeze(x, -1), 0.0)
    if offset:
        widths = [(0, 0)] * (x.ndim - 1) + [(0, offset), (offset, 0)] if offset > 0 else (
            [(0, 0)] * (x.ndim - 1) + [(-offset, 0), (0, -offset)]
        )  # fmt: skip
        matrices = operations.pad(matrices, widths, "constant", "diag_embed: offset")
    return movedim(matrices, (-2, -1), (dim1, dim2))


@function
def trace(input: TensorLike) -> Any:
    """The sum of the diagonal of a matrix."""
    x = numbers(input, "trace")
    if x.ndim != 2:
        raise ValueError(f"trace: {x.shape} is not a matrix.")
    return sum(diagonal(x))


@function
def meshgrid(*tensors: TensorLike, indexing: Literal["ij", "xy"] = "ij") -> Any:
    """The coordinates of a grid, one value for each of several vectors; with "xy" the first two axes are exchanged."""
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else tensors
    vectors = [value(x, "meshgrid") for x in given]
    if any(v.ndim > 1 for v in vectors):
        raise ValueError(f"meshgrid: {', '.join(str(v.shape) for v in vectors)} are not all vectors.")
    if indexing not in ("ij", "xy"):
        raise ValueError(f"meshgrid: indexing is {indexing!r}. Use 'ij' or 'xy'.")
    vectors = [v.reshape((product(v.shape),)) for v in vectors]
    sizes = [v.shape[0] for v in vectors]
    found = tuple(
        expand(v.reshape(tuple(sizes[i] if i == axis else 1 for i in range(len(sizes)))), *sizes)
        for axis, v in enumerate(vectors)
    )
    return tuple(transpose(v, 0, 1) for v in found) if indexing == "xy" and len(sizes) > 1 else found


@function
def diff(input: TensorLike, n: int = 1, dim: int = -1, prepend: TensorLike = None, append: TensorLike = None) -> Any:
    """The differences of neighbours along ``dim``, ``n`` times over."""
    x = numbers(input, "diff")
    axis = axis_of(x, dim, "diff")
    if prepend is not None or append is not None:
        x = cat([part for part in (prepend, x, append) if part is not None], axis)
    for _ in range(operator.index(n)):
        size = x.shape[axis]
        if size < 2:
            raise ValueError(f"diff: axis {axis} of {x.shape} has no neighbours.")
        x = sub(narrow(x, axis, 1, size - 1), narrow(x, axis, 0, size - 1))
    return x


@function
def cross(input: TensorLike, other: TensorLike, dim: int | None = None) -> Any:
    """The cross product of vectors of three along ``dim``, the first axis of size 3 if left out."""
    a, b = numbers(input, "cross"), numbers(other, "cross")
    axis = next((i for i, n in enumerate(a.shape) if is_same(n, 3)), None) if dim is None else axis_of(a, dim, "cross")
    if axis is None or a.ndim != b.ndim or a.shape[axis] != 3 or b.shape[axis] != 3:
        raise ValueError(
            f"cross: {a.shape} and {b.shape} have no axis {'' if dim is None else dim} of size 3 in common."
        )
    (a1, a2), (b1, b2) = ([index_select(v, axis, order) for order in ([1, 2, 0], [2, 0, 1])] for v in (a, b))
    return sub(mul(a1, b2), mul(a2, b1))


@function
def cdist(x1: TensorLike, x2: TensorLike, p: float = 2.0) -> Any:
    """The p-norm of the difference of each row of one with each row of the other: (..., P, M), (..., R, M) -> (..., P, R)."""
    a, b = numbers(x1, "cdist"), numbers(x2, "cdist")
    if a.ndim < 2 or b.ndim < 2 or a.shape[-1] != b.shape[-1]:
        raise ValueError(f"cdist: {a.shape} and {b.shape} must be matrices with rows of one length.")
    return norm(sub(unsqueeze(a, -2), unsqueeze(b, -3)), p, -1)


def windows_along(x: Tensor, axis: int, size: int, stride: int, dilation: int = 1) -> Tensor:
    """An axis as two: the entries of a window, and the windows."""
    count = (int(x.shape[axis]) - dilation * (size - 1) - 1) // stride + 1
    entries = dilation * np.arange(size)[:, None] + stride * np.arange(count)
    picked: Tensor = index_select(x, axis, entries.ravel())
    return picked.reshape((*x.shape[:axis], size, count, *x.shape[axis + 1 :]))


def unwindowed(x: Tensor, axis: int, length: AnySize, stride: int, dilation: int = 1) -> Tensor:
    """The way back: the axes of entries and windows as one of a length, with windows that overlap added up."""
    size, count = int(x.shape[axis]), int(x.shape[axis + 1])
    entries = dilation * np.arange(size)[:, None] + stride * np.arange(count)
    merged = x.reshape((*x.shape[:axis], size * count, *x.shape[axis + 2 :]))
    places = x.graph.own_constant(entries.ravel().astype(np.int64))
    return x.graph.append(operations.AddEntries(merged, axis, places, length))


def _fitting(
    sizes: Sequence[AnySize], kernel: Sequence[int], dilation: Sequence[int], padding: Sequence[int], stride: Sequence[int],
    who: str,
) -> list[int]:  # fmt: skip
    """The number of windows along each axis."""
    counts = [
        (int(n) + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, d, p, s in zip(sizes, kernel, dilation, padding, stride, strict=True)
    ]
    if min(counts) < 1:
        raise ValueError(
            f"{who}: {tuple(sizes)} is smaller than windows of {tuple(kernel)}. Use larger images or less."
        )
    return counts


@function
def unfold(input: TensorLike, kernel_size: Pair, dilation: Pair = 1, padding: Pair = 0, stride: Pair = 1) -> Any:
    """Windows of images as columns: (N, C, H, W) -> (N, C KH KW, L), where L is the number of windows.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.functional.unfold(np.zeros((2, 3, 5, 6), np.float32), (2, 3)).shape
    (2, 18, 16)
    """
    x = numbers(input, "unfold")
    if x.ndim != 4:
        raise ValueError(f"unfold: {x.shape} must be images (N, channels, height, width).")
    kernel, spread, edge, step = (
        per_axis(given, 2, f"unfold: {name}", least)
        for given, name, least in (
            (kernel_size, "kernel_size", 1), (dilation, "dilation", 1), (padding, "padding", 0), (stride, "stride", 1),
        )
    )  # fmt: skip
    counts = _fitting(x.shape[2:], kernel, spread, edge, step, "unfold")
    channels, area = x.shape[1] * kernel[0] * kernel[1], counts[0] * counts[1]
    y = operations.pad(x, [(0, 0), (0, 0), *((p, p) for p in edge)], "constant", "unfold: padding")
    y = windows_along(y, 3, kernel[1], step[1], spread[1])
    y = windows_along(y, 2, kernel[0], step[0], spread[0])
    return permute(y, 0, 1, 2, 4, 3, 5).reshape((x.shape[0], channels, area))


@function
def fold(
    input: TensorLike, output_size: Pair, kernel_size: Pair, dilation: Pair = 1, padding: Pair = 0, stride: Pair = 1
) -> Any:
    """Columns as windows of images, which are added up where they overlap: (N, C KH KW, L) -> (N, C, H, W)."""
    x = numbers(input, "fold")
    size, kernel, spread, edge, step = (
        per_axis(given, 2, f"fold: {name}", least)
        for given, name, least in (
            (output_size, "output_size", 1), (kernel_size, "kernel_size", 1), (dilation, "dilation", 1),
            (padding, "padding", 0), (stride, "stride", 1),
        )
    )  # fmt: skip
    counts = _fitting(size, kernel, spread, edge, step, "fold")
    area = kernel[0] * kernel[1]
    if x.ndim != 3 or x.shape[1] % area or x.shape[2] != counts[0] * counts[1]:
        raise ValueError(
            f"fold: {x.shape} must be (N, channels * {area}, {counts[0] * counts[1]}) for images of {size} and windows of "
            f"{kernel}."
        )
    y = x.reshape((x.shape[0], x.shape[1] // area, *kernel, *counts))
    y = permute(y, 0, 1, 2, 4, 3, 5)
    y = unwindowed(y, 2, size[0] + 2 * edge[0], step[0], spread[0])
    y = unwindowed(y, 3, size[1] + 2 * edge[1], step[1], spread[1])
    return operations.pad(y, [(0, 0), (0, 0), *((-p, -p) for p in edge)], "constant", "fold: padding")


@function
def windows(input: TensorLike, dimension: int, size: int, step: int) -> Any:
    """``x.unfold(dimension, size, step)``: windows along an axis, whose entries are a new last axis."""
    x = value(input, "unfold")
    axis, length, stride = axis_of(x, dimension, "unfold"), operator.index(size), operator.index(step)
    if length < 1 or stride < 1 or length > x.shape[axis]:
        raise ValueError(f"unfold: windows of {size} with step {step} do not fit into axis {axis} of {x.shape}.")
    return movedim(windows_along(x, axis, length, stride), axis, -1)
