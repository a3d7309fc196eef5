"""Functions that move, select and compare the elements of whole tensors. They have no batch: axes are NumPy axes.

An index that points outside its axis is an error, negative ones too; nothing is clamped or counted from the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..parameters.reduction import Function as Reduction
from ..parameters.tensor import Operator, Shuffle

Tensor = npt.NDArray[Any]
"""An array whose type does not matter: it is kept."""

Indices = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]


# ---------------------------------------------------------------------------------------------------------------------
# Transpose, tile, band part


def transpose(x: Tensor, axis0: int, axis1: int) -> Tensor:
    """y = x with two axes swapped; the gradient is the same function of dy."""
    return np.ascontiguousarray(np.swapaxes(x, axis0, axis1))


def tile(x: Tensor, out_shape: tuple[int, ...], reversed_axes: bool = False) -> Tensor:
    """y(i_0, i_1, ...) = x(i_0 mod x.shape[0], i_1 mod x.shape[1], ...) of shape out_shape.

    With reversed_axes both tensors are read as if their sizes were listed in the opposite order: the same memory with
    shapes x.shape[::-1] and out_shape[::-1].
    """
    if reversed_axes:
        return tile(x.reshape(x.shape[::-1]), out_shape[::-1]).reshape(out_shape)
    return np.tile(x, _repeats(x.shape, out_shape))


def tile_backward(dy: Tensor, in_shape: tuple[int, ...]) -> Tensor:
    """dx(j) = sum of dy over the copies of x(j), in the shape in_shape."""
    repeats = _repeats(in_shape, dy.shape)
    copies = dy.reshape([size for pair in zip(repeats, in_shape, strict=True) for size in pair])
    return np.asarray(copies.sum(axis=tuple(range(0, copies.ndim, 2))))


def _repeats(in_shape: tuple[int, ...], out_shape: tuple[int, ...]) -> list[int]:
    fits = len(in_shape) == len(out_shape)
    if not fits or any(small < 1 or large % small for small, large in zip(in_shape, out_shape, strict=True)):
        raise ValueError(f"tensor.tile: {out_shape} is not a multiple of {in_shape} in every axis.")
    return [large // small for small, large in zip(in_shape, out_shape, strict=True)]


def band_part(x: Tensor, lower: int, upper: int) -> Tensor:
    """x(..., i, j) if i - j <= lower and j - i <= upper, else 0; a negative bound keeps that whole triangle."""
    i, j = np.arange(x.shape[-2])[:, np.newaxis], np.arange(x.shape[-1])
    keep = ((lower < 0) | (i - j <= lower)) & ((upper < 0) | (j - i <= upper))
    return np.where(keep, x, np.zeros_like(x))


# ---------------------------------------------------------------------------------------------------------------------
# Compare


_OPERATORS: Final[dict[int, Callable[[Tensor, Tensor], Booleans]]] = {
    Operator.EQUAL: lambda a, b: a == b,
    Operator.LESS: lambda a, b: a < b,
    Operator.LESS_EQUAL: lambda a, b: a <= b,
    Operator.GREATER: lambda a, b: a > b,
    Operator.GREATER_EQUAL: lambda a, b: a >= b,
    Operator.NOT_EQUAL: lambda a, b: a != b,
    Operator.LOGICAL_AND: lambda a, b: (a != 0) & (b != 0),
    Operator.LOGICAL_OR: lambda a, b: (a != 0) | (b != 0),
    Operator.LOGICAL_NOT: lambda a, b: a == 0,
    Operator.LOGICAL_NAND: lambda a, b: (a == 0) | (b == 0),
    Operator.LOGICAL_NOR: lambda a, b: (a == 0) & (b == 0),
    Operator.LOGICAL_XOR: lambda a, b: (a != 0) ^ (b != 0),
}


def compare(operator: int, a: Tensor, b: Tensor | None = None) -> Booleans:
    """a operator b for every pair of elements of two tensors of one shape; LogicalNOT looks at a only.

    The logical operators take every number but 0 for true. A comparison with NaN is false, but for NotEqual.
    """
    if operator not in _OPERATORS:
        raise ValueError(f"tensor.compare: there is no operator {operator}; the operators are 0 to {max(Operator)}.")
    if operator == Operator.LOGICAL_NOT:
        b = a
    if b is None or a.shape != b.shape:
        raise ValueError(
            f"tensor.compare: the operands must have one shape; got {a.shape} and {None if b is None else b.shape}."
        )
    return _OPERATORS[operator](a, b)


# ---------------------------------------------------------------------------------------------------------------------
# The largest values along an axis


def top_k(x: Tensor, k: int, axis: int) -> tuple[Tensor, Indices]:
    """The k largest values along an axis in descending order, and their indices; the axis has size k in both.

    Of equal values the one with the lower index comes first. NaN is larger than every number.
    """
    _check_k(x, k, axis)
    # Stable, NaN first, then descending; ~x reverses the order of integers without an overflow.
    descending = ~x if x.dtype.kind in "iu" else -np.asarray(x, dtype=np.float64)
    rank = np.lexsort((descending, ~np.isnan(x)), axis=axis)
    best = np.take(rank, np.arange(k), axis=axis)
    return np.take_along_axis(x, best, axis=axis), best.astype(np.int64)


def in_top_k(x: Tensor, test_indices: Indices, k: int, axis: int) -> Booleans:
    """Whether x at test_indices is one of the k largest values along the axis: fewer than k are larger.

    test_indices and the result have the shape of x without the axis. Ties at the boundary all count; NaN is larger
    than every number.
    """
    _check_k(x, k, axis)
    indices = np.expand_dims(test_indices, axis)
    _check_indices("in_top_k", indices, x.shape[axis])
    tested = np.take_along_axis(x, indices.astype(np.int64), axis=axis)
    larger = (x > tested) | (np.isnan(x) & ~np.isnan(tested))
    return np.asarray(np.sum(larger, axis=axis) < k)


def _check_k(x: Tensor, k: int, axis: int) -> None:
    if not 1 <= k <= x.shape[axis]:
        raise ValueError(f"tensor: K is {k}, but axis {axis} has {x.shape[axis]} elements; choose 1 to that many.")


# ---------------------------------------------------------------------------------------------------------------------
# Gather and scatter


def gather(x: Tensor, indices: Indices, axis: int) -> Tensor:
    """Entries picked along one axis.

    indices (J,):                     y[.., j, ..] = x[.., indices[j], ..]
    indices in the shape of y:        y[.., j, ..] = x[.., indices[.., j, ..], ..]
    """
    _check_indices("gather", indices, x.shape[axis])
    if indices.ndim == 1:
        return np.take(x, indices, axis=axis)
    _check_same_beside_axis("gather", x.shape, indices.shape, axis)
    return np.take_along_axis(x, indices.astype(np.int64), axis=axis)


def scatter(function: int, x: Tensor, indices: Indices, out: Tensor, axis: int) -> Tensor:
    """`out` with the entries of x written (Reduction.NONE) or added (Reduction.SUM) at some places along one axis.

    indices (J,):                     y[.., indices[j], ..] = op(out[..], x[.., j, ..])
    indices in the shape of x:        y[.., indices[.., j, ..], ..] = op(out[..], x[.., j, ..])

    Other places keep what `out` holds. Where several entries meet, Sum adds them all and None keeps the last.
    """
    axis %= out.ndim
    _check_indices("scatter", indices, out.shape[axis])
    _check_same_beside_axis("scatter", out.shape, x.shape, axis)
    if indices.shape not in ((x.shape[axis],), x.shape):
        raise ValueError(f"tensor.scatter: indices of shape {indices.shape} do not fit an input of shape {x.shape}.")
    places: list[Any] = [slice(None)] * out.ndim if indices.ndim == 1 else list(np.indices(x.shape, sparse=True))
    places[axis] = indices
    return _combine("scatter", function, x, tuple(places), out)


def gather_nd(x: Tensor, indices: Indices) -> Tensor:
    """Elements or slices picked by index vectors: y[i...] = x[indices[i..., 0], ..., indices[i..., L-1]].

    indices (..., L) with 1 <= L <= rank of x; y has shape indices.shape[:-1] + x.shape[L:].
    """
    return np.array(x[_vectors("gather_nd", indices, x.shape)])


def scatter_nd(function: int, x: Tensor, indices: Indices, out: Tensor) -> Tensor:
    """`out` with elements or slices of x written or added at index vectors: y[indices[i..., 0], ...] = op(.., x[i...]).

    indices (..., L), x of shape indices.shape[:-1] + out.shape[L:]; the rules of scatter hold.
    """
    places = _vectors("scatter_nd", indices, out.shape)
    expected = indices.shape[:-1] + out.shape[indices.shape[-1] :]
    if x.shape != expected:
        raise ValueError(f"tensor.scatter_nd: the input must have shape {expected}; got {x.shape}.")
    return _combine("scatter_nd", function, x, places, out)


def _combine(name: str, function: int, x: Tensor, places: tuple[Any, ...], out: Tensor) -> Tensor:
    y: Tensor = np.array(out)
    match function:
        case Reduction.NONE:
            y[places] = x
        case Reduction.SUM:
            np.add.at(y, places, x)
        case _:
            raise ValueError(f"tensor.{name}: function {function} cannot scatter; Sum (6) and None (15) can.")
    return y


def _vectors(name: str, indices: Indices, shape: tuple[int, ...]) -> tuple[Indices, ...]:
    """The columns of indices (..., L), one index array for each of the first L axes."""
    length = indices.shape[-1]
    if not 1 <= length <= len(shape):
        raise ValueError(f"tensor.{name}: index vectors of length {length} into {len(shape)} axes; use 1 to that many.")
    for axis in range(length):
        _check_indices(name, indices[..., axis], shape[axis])
    return tuple(indices[..., axis] for axis in range(length))


def _check_indices(name: str, indices: Indices, size: int) -> None:
    if np.any((indices < 0) | (indices >= size)):
        worst = indices[(indices < 0) | (indices >= size)].flat[0]
        raise ValueError(f"tensor.{name}: index {worst} lies outside an axis of {size} elements, 0 to {size - 1}.")


def _check_same_beside_axis(name: str, a: tuple[int, ...], b: tuple[int, ...], axis: int) -> None:
    if len(a) != len(b) or any(p != q for d, (p, q) in enumerate(zip(a, b, strict=True)) if d != axis % len(a)):
        raise ValueError(f"tensor.{name}: shapes {a} and {b} may differ along axis {axis} only.")


# ---------------------------------------------------------------------------------------------------------------------
# Shuffle


def shuffle(kind: int, x: Tensor, block: int) -> Tensor:
    """Channels to blocks of block * block pixels, or back; images (N, C, H, W), large image (N, C, H*block, W*block).

        PixelShuffle   large[n, c, h*block + i, w*block + j] = small[n, (c*block + i)*block + j, h, w]
        DepthToSpace   large[n, c, h*block + i, w*block + j] = small[n, (i*block + j)*C + c, h, w]

    PixelUnshuffle and SpaceToDepth are their inverses, which are also their gradients.
    """
    samples, channels, height, width = x.shape
    match kind:
        case Shuffle.PIXEL_SHUFFLE | Shuffle.DEPTH_TO_SPACE:
            _check_block(channels % (block * block) == 0, block, x.shape)
            channels //= block * block
            if kind == Shuffle.PIXEL_SHUFFLE:
                parts = x.reshape(samples, channels, block, block, height, width).transpose(0, 1, 4, 2, 5, 3)
            else:
                parts = x.reshape(samples, block, block, channels, height, width).transpose(0, 3, 4, 1, 5, 2)
            return np.asarray(parts.reshape(samples, channels, height * block, width * block))
        case Shuffle.PIXEL_UNSHUFFLE | Shuffle.SPACE_TO_DEPTH:
            _check_block(height % block == 0 and width % block == 0, block, x.shape)
            height, width = height // block, width // block
            parts = x.reshape(samples, channels, height, block, width, block)
            order = (0, 1, 3, 5, 2, 4) if kind == Shuffle.PIXEL_UNSHUFFLE else (0, 3, 5, 1, 2, 4)
            return np.asarray(parts.transpose(order).reshape(samples, channels * block * block, height, width))
        case _:
            raise ValueError(f"tensor.shuffle: there is no kind {kind}; the kinds are 0 to {max(Shuffle)}.")


def _check_block(fits: bool, block: int, shape: tuple[int, ...]) -> None:
    if not fits:
        raise ValueError(f"tensor.shuffle: images of shape {shape} do not divide into blocks of {block} x {block}.")
