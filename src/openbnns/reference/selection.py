"""Functions that select elements of whole tensors by index or by rank. They have no batch: axes are NumPy axes.

An index that points outside its axis is an error, negative ones too; nothing is clamped or counted from the end.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..parameters.reduction import ReductionKind
from .moves import AnyArray, Booleans

Indices = npt.NDArray[np.int64]


def top_k(x: AnyArray, k: int, axis: int) -> tuple[AnyArray, Indices]:
    """The k largest values along an axis in descending order, and their indices; the axis has size k in both.

    Of equal values the one with the lower index comes first. NaN is larger than every number.
    """
    _check_k(x, k, axis)
    # Stable, NaN first, then descending; ~x reverses the order of integers without an overflow.
    descending = ~x if x.dtype.kind in "iu" else -np.asarray(x, dtype=np.float64)
    rank = np.lexsort((descending, ~np.isnan(x)), axis=axis)
    best = np.take(rank, np.arange(k), axis=axis)
    return np.take_along_axis(x, best, axis=axis), best.astype(np.int64)


def in_top_k(x: AnyArray, test_indices: Indices, k: int, axis: int) -> Booleans:
    """True where x at test_indices is one of the k largest values along the axis: fewer than k are larger.

    test_indices and the result have the shape of x without the axis. Ties at the boundary all count; NaN is larger
    than every number.
    """
    _check_k(x, k, axis)
    indices = np.expand_dims(test_indices, axis)
    _check_indices("in_top_k", indices, x.shape[axis])
    tested = np.take_along_axis(x, indices.astype(np.int64), axis=axis)
    larger = (x > tested) | (np.isnan(x) & ~np.isnan(tested))
    return np.asarray(np.sum(larger, axis=axis) < k)


def _check_k(x: AnyArray, k: int, axis: int) -> None:
    if not 1 <= k <= x.shape[axis]:
        raise ValueError(f"selection: K is {k}, but axis {axis} has {x.shape[axis]} elements; choose 1 to that many.")


def gather(x: AnyArray, indices: Indices, axis: int) -> AnyArray:
    """Entries picked along one axis.

    indices (J,):                     y[.., j, ..] = x[.., indices[j], ..]
    indices in the shape of y:        y[.., j, ..] = x[.., indices[.., j, ..], ..]
    """
    _check_indices("gather", indices, x.shape[axis])
    if indices.ndim == 1:
        return np.take(x, indices, axis=axis)
    _check_same_beside_axis("gather", x.shape, indices.shape, axis)
    return np.take_along_axis(x, indices.astype(np.int64), axis=axis)


def scatter(function: int, x: AnyArray, indices: Indices, out: AnyArray, axis: int) -> AnyArray:
    """`out` with the entries of x written (Reduction.NONE) or added (Reduction.SUM) at some indices along one axis.

    indices (J,):                     y[.., indices[j], ..] = op(out[..], x[.., j, ..])
    indices in the shape of x:        y[.., indices[.., j, ..], ..] = op(out[..], x[.., j, ..])

    Other entries keep what `out` holds. Where several entries have the same index, Sum adds them all and None keeps the last.
    """
    axis %= out.ndim
    _check_indices("scatter", indices, out.shape[axis])
    _check_same_beside_axis("scatter", out.shape, x.shape, axis)
    if indices.shape not in ((x.shape[axis],), x.shape):
        raise ValueError(f"selection.scatter: indices of shape {indices.shape} do not fit an input of shape {x.shape}.")
    places: list[Any] = [slice(None)] * out.ndim if indices.ndim == 1 else list(np.indices(x.shape, sparse=True))
    places[axis] = indices
    return _combine("scatter", function, x, tuple(places), out)


def gather_nd(x: AnyArray, indices: Indices) -> AnyArray:
    """Elements or slices picked by index vectors: y[i...] = x[indices[i..., 0], ..., indices[i..., L-1]].

    indices (..., L) with 1 <= L <= rank of x; y has shape indices.shape[:-1] + x.shape[L:].
    """
    return np.array(x[_vectors("gather_nd", indices, x.shape)])


def scatter_nd(function: int, x: AnyArray, indices: Indices, out: AnyArray) -> AnyArray:
    """`out` with elements or slices of x written or added at index vectors: y[indices[i..., 0], ...] = op(.., x[i...]).

    indices (..., L), x of shape indices.shape[:-1] + out.shape[L:]; the rules of scatter hold.
    """
    places = _vectors("scatter_nd", indices, out.shape)
    expected = indices.shape[:-1] + out.shape[indices.shape[-1] :]
    if x.shape != expected:
        raise ValueError(f"selection.scatter_nd: the input must have shape {expected}; got {x.shape}.")
    return _combine("scatter_nd", function, x, places, out)


@np.errstate(all="ignore")
def _combine(name: str, function: int, x: AnyArray, places: tuple[Any, ...], out: AnyArray) -> AnyArray:
    y: AnyArray = np.array(out)
    match function:
        case ReductionKind.NONE:
            y[places] = x
        case ReductionKind.SUM:
            np.add.at(y, places, x)
        case _:
            raise ValueError(f"selection.{name}: function {function} cannot scatter; Sum (6) and None (15) can.")
    return y


def _vectors(name: str, indices: Indices, shape: tuple[int, ...]) -> tuple[Indices, ...]:
    """The columns of indices (..., L), one index array for each of the first L axes."""
    length = indices.shape[-1]
    if not 1 <= length <= len(shape):
        raise ValueError(
            f"selection.{name}: index vectors of length {length} into {len(shape)} axes; use 1 to that many."
        )
    for axis in range(length):
        _check_indices(name, indices[..., axis], shape[axis])
    return tuple(indices[..., axis] for axis in range(length))


def _check_indices(name: str, indices: Indices, size: int) -> None:
    if np.any((indices < 0) | (indices >= size)):
        worst = indices[(indices < 0) | (indices >= size)].flat[0]
        raise ValueError(f"selection.{name}: index {worst} lies outside an axis of {size} elements, 0 to {size - 1}.")


def _check_same_beside_axis(name: str, a: tuple[int, ...], b: tuple[int, ...], axis: int) -> None:
    if len(a) != len(b) or any(p != q for d, (p, q) in enumerate(zip(a, b, strict=True)) if d != axis % len(a)):
        raise ValueError(f"selection.{name}: shapes {a} and {b} may differ along axis {axis} only.")
