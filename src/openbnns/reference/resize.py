"""Resize: every axis whose size changes is resampled, one after the other.

For output index i of an axis of n_in cells that becomes n_out cells, the position in the input is

    Nearest                          floor(i n_in / n_out)
    Linear, align corners            i (n_in - 1) / (n_out - 1)           0 if n_out = 1
    Linear                           (i + 1/2) n_in / n_out - 1/2         limited to 0 .. n_in - 1
    Linear, asymmetric               i n_in / n_out                       limited to 0 .. n_in - 1

and Linear mixes the cells on either side of it: y(i) = (1-t) x(low) + t x(high), where t is the fraction of the
position. The backward is the exact adjoint: dx(low) += (1-t) dy(i), dx(high) += t dy(i).

Products follow IEEE arithmetic: an infinite cell of weight 0 gives NaN.
"""

from __future__ import annotations

import numpy as np

from ..parameters.reduction import ReductionKind
from ..parameters.resize import Method
from . import selection
from .activation import Array
from .selection import Indices


@np.errstate(all="ignore")
def forward(
    method: int, x: Array, out_shape: tuple[int, ...], align_corners: bool = False, asymmetric: bool = False
) -> Array:
    """y of shape out_shape, which has the rank of x; axes of equal size (the batch) are not resampled.

    align_corners and asymmetric choose among the positions of Linear; Nearest has one form.
    """
    _check(method, x.shape, out_shape)
    y = x
    for axis, size in enumerate(out_shape):
        if x.shape[axis] != size:
            mixed = taps(method, x.shape[axis], size, align_corners, asymmetric)
            y = np.add.reduce(
                [_along(weight, axis, x.ndim) * selection.gather(y, cell, axis) for cell, weight in mixed]
            )
    return y


@np.errstate(all="ignore")
def backward(
    method: int, dy: Array, in_shape: tuple[int, ...], align_corners: bool = False, asymmetric: bool = False
) -> Array:
    """dx of shape in_shape: dy spread with the weights of the forward."""
    _check(method, in_shape, dy.shape)
    dx = dy
    for axis, size in enumerate(in_shape):
        if dy.shape[axis] != size:
            spread = np.zeros((*dx.shape[:axis], size, *dx.shape[axis + 1 :]))
            for cell, weight in taps(method, size, dy.shape[axis], align_corners, asymmetric):
                spread = selection.scatter(ReductionKind.SUM, _along(weight, axis, dy.ndim) * dx, cell, spread, axis)
            dx = spread
    return dx


def cells_around(position: Array, size: int) -> tuple[Indices, Indices, Array]:
    """(low, high, t) of positions in 0 .. size - 1: low = floor, high = the next cell if there is one, t = fraction."""
    low = np.clip(np.floor(position).astype(np.int64), 0, size - 1)
    return low, np.minimum(low + 1, size - 1), position - low


def taps(
    method: int, in_size: int, out_size: int, align_corners: bool, asymmetric: bool
) -> list[tuple[Indices, Array]]:
    """The cells that make up every output index of one axis, as (input indices, weights) of out_size elements each."""
    i = np.arange(out_size)
    if method == Method.NEAREST:
        return [(i * in_size // out_size, np.ones(out_size))]
    if align_corners:
        position = i * (in_size - 1) / max(out_size - 1, 1)
    elif asymmetric:
        position = i * in_size / out_size
    else:
        position = (i + 0.5) * in_size / out_size - 0.5
    low, high, t = cells_around(np.clip(position, 0.0, in_size - 1.0), in_size)
    return [(low, 1.0 - t), (high, t)]


def _along(values: Array, axis: int, rank: int) -> Array:
    """A vector shaped to multiply axis `axis` of an array of this rank."""
    return values.reshape((-1,) + (1,) * (rank - 1 - axis))


def _check(method: int, in_shape: tuple[int, ...], out_shape: tuple[int, ...]) -> None:
    if method not in list(Method):
        raise ValueError(f"resize: there is no method {method}; the methods are 0 and 1.")
    if len(in_shape) != len(out_shape):
        raise ValueError(f"resize: input and output must have one rank; got shapes {in_shape} and {out_shape}.")
    for axis, (before, after) in enumerate(zip(in_shape, out_shape, strict=True)):
        if before != after and min(before, after) < 1:
            raise ValueError(f"resize: axis {axis} cannot go from size {before} to size {after}.")
