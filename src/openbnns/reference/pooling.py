"""Pooling: p = pool over the cells of a window, z = p + bias, y = f(z).

Windows lie on the image as in convolution. A window need only start inside the padded image; every cell outside the
image, in the padding or beyond it, is a padded cell.

    Max                         largest cell of the image, the first in row-major window order on a tie; a NaN wins,
                                the last one if there are several
    AverageCountIncludePadding  sum of cells / (kernel height * kernel width)
    AverageCountExcludePadding  sum of cells / number of cells of the image
    L2Norm                      sqrt(sum of squares)
    UnMax                       zeros, except out(index(position)) = in(position)

A window without any cell of the image pools to 0 in every kind; its Max index is NO_CELL and it has no gradient.

Indices are row * width + column in the plane of one channel: of the input image for Max (one per output pixel), of the
output image for UnMax (one per input pixel).
"""

from __future__ import annotations

from collections.abc import Set
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from ..parameters.activation import Activation
from ..parameters.pooling import NO_CELL, Geometry, PoolingKind
from . import activation, convolution
from .activation import Array

Indices = npt.NDArray[np.int64]
_Number = TypeVar("_Number", np.float64, np.int64)


@np.errstate(all="ignore")
def forward(
    kind: int, x: Array, bias: Array | None, f: Activation, geometry: Geometry, indices: Indices | None = None
) -> tuple[Array, Indices | None]:
    """y = f(pool(x) + bias) and, for Max, the indices of the winners.

    x (N, C, H, W), bias (C,) or None, y (N, C, *out_size). `indices` is an input of UnMax, of the shape of x, and
    returned for it unchanged; an index that occurs twice keeps the later value.
    """
    if kind == PoolingKind.MAX:
        pooled, indices = _max_forward(x, geometry)
    elif kind == PoolingKind.UN_MAX:
        pooled = _un_max_forward(x, _given(indices), geometry.out_size)
    else:
        pooled, indices = _sum_forward(kind, x, geometry), None
    z = pooled if bias is None else pooled + bias[:, np.newaxis, np.newaxis]
    return activation.forward(f, z), indices


@np.errstate(all="ignore")
def backward(
    kind: int,
    x: Array | None,
    indices: Indices | None,
    y: Array | None,
    dy: Array,
    f: Activation,
    geometry: Geometry,
    in_shape: tuple[int, int, int, int],
    wanted: Set[str],
    z: Array | None = None,
) -> dict[str, Array]:
    """The wanted gradients among {"dx", "db"}; in_shape is (N, C, H, W) of x.

    dz = dy f'(z)                              from y, or from z where y does not determine the derivative
    db(c) = sum_n sum_{y,x} dz(c,y,x)
    Max:      dx(winner(y,x)) += dz(y,x)       winners from `indices`, or found again in x
    Average:  dx(cell) += dz / divisor
    L2Norm:   dx(cell) += dz x(cell) / p       0 where p = 0; needs x
    UnMax:    dx(position) = dz(index(position))
    """
    dz = activation.fused_backward(f, dy, y, z)
    gradients: dict[str, Array] = {}
    if "dx" in wanted:
        if kind == PoolingKind.MAX:
            winners = indices if indices is not None else _max_forward(_needed(kind, x), geometry)[1]
            gradients["dx"] = _max_backward(dz, winners, in_shape)
        elif kind == PoolingKind.UN_MAX:
            gradients["dx"] = _un_max_backward(dz, _given(indices))
        else:
            gradients["dx"] = _sum_backward(kind, x, dz, geometry, in_shape)
    if "db" in wanted:
        gradients["db"] = np.sum(dz, axis=(0, 2, 3))
    return gradients


# ---------------------------------------------------------------------------------------------------------------------
# Max and UnMax. A plane of H*W cells gets one cell more at its end: index NO_CELL = -1 falls there and is cut off.


def _max_forward(x: Array, geometry: Geometry) -> tuple[Array, Indices]:
    """Values and indices of the winners, found tap by tap in window order."""
    shape = x.shape[:2] + geometry.out_size
    best, winner, started = np.zeros(shape), np.full(shape, NO_CELL, dtype=np.int64), np.zeros(shape, dtype=np.bool_)
    for cell, position in zip(_taps(x, geometry), _taps(_positions(x), geometry, fill=NO_CELL), strict=True):
        competes = (position != NO_CELL) | geometry.padding_wins
        takes = competes & (~started | (cell > best) | np.isnan(cell))
        best, winner = np.where(takes, cell, best), np.where(takes, position.astype(np.int64), winner)
        started |= competes
    return best, winner


def _max_backward(dz: Array, winners: Indices, in_shape: tuple[int, int, int, int]) -> Array:
    samples, channels, height, width = in_shape
    planes = np.zeros((samples * channels, height * width + 1))
    np.add.at(planes, _plane_indices(winners, height * width), _planes(dz))
    return planes[:, :-1].reshape(in_shape)


def _un_max_forward(x: Array, indices: Indices, out_size: tuple[int, int]) -> Array:
    samples, channels = x.shape[:2]
    cells = out_size[0] * out_size[1]
    planes = np.zeros((samples * channels, cells + 1))
    planes[_plane_indices(indices, cells)] = _planes(x)
    return planes[:, :-1].reshape(samples, channels, *out_size)


def _un_max_backward(dz: Array, indices: Indices) -> Array:
    samples, channels, height, width = dz.shape
    planes = np.zeros((samples * channels, height * width + 1))
    planes[:, :-1] = _planes(dz)
    gathered: Array = planes[_plane_indices(indices, height * width)]
    return gathered.reshape(indices.shape)


def _planes(images: npt.NDArray[_Number]) -> npt.NDArray[_Number]:
    """(N * C, H * W) from (N, C, H, W)."""
    samples, channels, height, width = images.shape
    return images.reshape(samples * channels, height * width)


def _plane_indices(indices: Indices, cells: int) -> tuple[Indices, Indices]:
    """(plane, cell) index arrays for all positions of `indices` (N, C, h, w)."""
    flat = _planes(indices.astype(np.int64))
    if np.any((flat < NO_CELL) | (flat >= cells)):
        raise ValueError(f"pooling: an index lies outside the plane of {cells} cells it points into.")
    return np.arange(len(flat))[:, np.newaxis], flat


# ---------------------------------------------------------------------------------------------------------------------
# Average and L2Norm


def _sum_forward(kind: int, x: Array, geometry: Geometry) -> Array:
    zeros = np.zeros(x.shape[:2] + geometry.out_size)
    if kind == PoolingKind.L2_NORM:
        return np.sqrt(sum((cell * cell for cell in _taps(x, geometry)), start=zeros))
    return sum(_taps(x, geometry), start=zeros) / _divisor(kind, x.shape[2:], geometry)


def _sum_backward(
    kind: int, x: Array | None, dz: Array, geometry: Geometry, in_shape: tuple[int, int, int, int]
) -> Array:
    """Every cell of a window gets `share`, times its own value for L2Norm."""
    if kind == PoolingKind.L2_NORM:
        x = _needed(kind, x)
        norm = _sum_forward(kind, x, geometry)
        return x * _spread(np.where(norm == 0.0, 0.0, dz / norm), geometry, in_shape)
    return _spread(dz / _divisor(kind, in_shape[2:], geometry), geometry, in_shape)


def _spread(share: Array, geometry: Geometry, in_shape: tuple[int, int, int, int]) -> Array:
    """dx(cell) = sum of share(window) over the windows that hold the cell: the adjoint of summing all taps."""
    framed = np.zeros_like(convolution.frame(np.zeros(in_shape), geometry.out_size, geometry.kernel, geometry.windows))
    for _, _, cells in convolution.taps(framed, geometry.out_size, geometry.kernel, geometry.windows):
        cells += share
    return convolution.unframe(framed, (in_shape[2], in_shape[3]), geometry.windows)


def _divisor(kind: int, plane: tuple[int, ...], geometry: Geometry) -> Array:
    """How many cells an average divides by, (1, 1, *out_size) or a scalar; never 0."""
    match kind:
        case PoolingKind.AVERAGE_COUNT_INCLUDE_PADDING:
            return np.asarray(float(geometry.kernel[0] * geometry.kernel[1]))
        case PoolingKind.AVERAGE_COUNT_EXCLUDE_PADDING:
            inside = sum(_taps(np.ones((1, 1, *plane)), geometry), start=np.zeros((1, 1, *geometry.out_size)))
            return np.maximum(inside, 1.0)
        case _:
            raise ValueError(f"pooling: there is no function {kind}; the functions are 0 to {max(PoolingKind)}.")


# ---------------------------------------------------------------------------------------------------------------------
# Shared


def _taps(image: Array, geometry: Geometry, fill: float = 0.0) -> list[Array]:
    """The cells that each kernel position meets, (N, C, *out_size) each, padded cells reading `fill`."""
    framed = convolution.frame(image, geometry.out_size, geometry.kernel, geometry.windows, fill)
    return [cells for _, _, cells in convolution.taps(framed, geometry.out_size, geometry.kernel, geometry.windows)]


def _positions(x: Array) -> Array:
    """(1, 1, H, W): row * width + column of every cell."""
    height, width = x.shape[2:]
    return np.arange(height * width, dtype=np.float64).reshape(1, 1, height, width)


def _given(indices: Indices | None) -> Indices:
    if indices is None:
        raise ValueError("pooling: UnMax needs indices; got None.")
    return indices


def _needed(kind: int, x: Array | None) -> Array:
    if x is None:
        needs = "the input x or the indices" if kind == PoolingKind.MAX else "the input x"
        raise ValueError(f"pooling.backward: {PoolingKind(kind).name} needs {needs}; got None.")
    return x
