"""Dropout: y = x * mask / (1 - rate), where the mask is 1 with probability 1 - rate and else 0.

The random numbers are the caller's, one uniform number in [0, 1) per decision. Along a shared axis one decision holds
for all elements, so the mask has size 1 there and broadcasts against x.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from .activation import Array

Mask = npt.NDArray[np.bool_]

BATCH_BIT = 3


def shared_axes(control: int, size_axes: Sequence[int], from_slowest: bool = False) -> tuple[int, ...]:
    """The axes of x (N, ...) along which the bits of `control` share one decision, in ascending order.

    size_axes[d] is the axis of x that size[d] describes: (3, 2, 1) for an image (N, C, H, W). Bit d = 0, 1, 2 names
    size[d] and bit 3 the batch. With from_slowest (off by default) the bits count from the slowest axis instead: bit 0
    names the batch, bit d axis d of x. Higher bits, and bits that name an axis which x does not have, do nothing.
    """
    if from_slowest:
        axis_of_bit = dict(enumerate(range(min(1 + len(size_axes), BATCH_BIT + 1))))
    else:
        axis_of_bit = dict(enumerate(size_axes[:BATCH_BIT])) | {BATCH_BIT: 0}
    return tuple(sorted(axis for bit, axis in axis_of_bit.items() if control >> bit & 1))


def mask_shape(shape: tuple[int, ...], shared: Sequence[int]) -> tuple[int, ...]:
    """The shape of the decisions for x of this shape: 1 along shared axes."""
    return tuple(1 if axis in shared else size for axis, size in enumerate(shape))


def mask_from_uniform(uniform: Array, rate: float) -> Mask:
    """True, meaning keep, where uniform >= rate."""
    if not 0.0 <= rate < 1.0:
        raise ValueError(f"dropout: rate is a probability in [0, 1); got {rate}.")
    return np.asarray(uniform >= rate)


@np.errstate(all="ignore")
def forward(x: Array, mask: Mask, rate: float) -> Array:
    """y = x * mask / (1 - rate), in the shape of x; a dropped NaN or infinity gives NaN, as the product does."""
    return x * mask / (1.0 - rate)


@np.errstate(all="ignore")
def backward(dy: Array, mask: Mask, rate: float) -> Array:
    """dx = dy * mask / (1 - rate) with the mask of the forward."""
    return dy * mask / (1.0 - rate)
