"""Crop-resize: boxes cut out of images and sampled bilinearly to one size.

A box is four numbers, times spatial_scale, times the size of the image (H or W) if they are normalized:

    Corners      start, start, end, end                       HeightFirst: each pair is (height, width)
    CenterSize   centre, centre, size, size                   WidthFirst:  each pair is (width, height)

with start = centre - size/2 and end = centre + size/2. Along an axis with L = end - start and n outputs the positions
are start + p(i), each p(i) limited to the range between 0 and L:

    Default               i (L+1) / n                         written i (L+1 - (L+1)/n) / (n-1) elsewhere
    AlignCorners          i L / (n-1)                         L/2 if n = 1
    UnalignCorners        (i + 1/2) (L+1) / n - 1/2
    StrictAlignCorners    i L / (n-1)                         0 if n = 1
    OffsetCorners         (i + 1/2) max(1, L) / n

plain_extent uses L in place of L+1. A position in row y and column x mixes the four pixels around it as in a linear resize; a
position outside 0 .. H-1 or 0 .. W-1 reads extrapolation_value, and no gradient flows back from it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..parameters.crop_resize import Box, Sampling, Settings
from .activation import Array
from .moves import Booleans
from .resize import cells_around
from .selection import Indices


@np.errstate(all="ignore")
def forward(settings: Settings, x: Array, boxes: Array, out_size: tuple[int, int]) -> Array:
    """y (B, N, C, *out_size) from images x (N, C, H, W) and boxes (B, 4): every box is cut out of every image."""
    taps, inside = _taps(settings, (x.shape[2], x.shape[3]), boxes, out_size)
    sampled = np.add.reduce([weight * x[:, :, rows, columns] for rows, columns, weight in taps])  # (N, C, B, h, w)
    return np.moveaxis(np.where(inside, sampled, settings.extrapolation_value), 2, 0)


@np.errstate(all="ignore")
def backward(settings: Settings, dy: Array, boxes: Array, in_shape: tuple[int, int, int, int]) -> Array:
    """dx of shape in_shape (N, C, H, W): dy (B, N, C, h, w) spread over the pixels with the weights of the forward."""
    taps, inside = _taps(settings, in_shape[2:], boxes, (dy.shape[3], dy.shape[4]))
    from_inside = np.where(inside, np.moveaxis(dy, 0, 2), 0.0)  # (N, C, B, h, w)
    dx = np.zeros(in_shape)
    for rows, columns, weight in taps:
        pixels: Any = (slice(None), slice(None), rows, columns)
        np.add.at(dx, pixels, weight * from_inside)
    return dx


Tap = tuple[Indices, Indices, Array]
"""Rows, columns and weights of one pixel for each output: shapes that broadcast to (B, h, w)."""


def _taps(
    settings: Settings, image: tuple[int, int], boxes: Array, out_size: tuple[int, int]
) -> tuple[list[Tap], Booleans]:
    """The four pixels of every output, and which outputs (B, h, w) lie inside the image."""
    rows, columns = positions(settings, boxes, image, out_size)
    y, x = rows[:, :, np.newaxis], columns[:, np.newaxis, :]
    inside = (y >= 0.0) & (y <= image[0] - 1.0) & (x >= 0.0) & (x <= image[1] - 1.0)

    top, bottom, v = cells_around(np.where(inside, y, 0.0), image[0])
    left, right, h = cells_around(np.where(inside, x, 0.0), image[1])
    taps = [
        (top, left, (1.0 - v) * (1.0 - h)),
        (top, right, (1.0 - v) * h),
        (bottom, left, v * (1.0 - h)),
        (bottom, right, v * h),
    ]
    return taps, inside


def positions(
    settings: Settings, boxes: Array, image: tuple[int, int], out_size: tuple[int, int]
) -> tuple[Array, Array]:
    """Where the boxes are sampled: rows (B, h) and columns (B, w), in pixels of an image of this height and width."""
    starts, ends = _corners(settings, boxes, image)
    rows = _positions(settings, starts[:, 0], ends[:, 0], out_size[0])
    return rows, _positions(settings, starts[:, 1], ends[:, 1], out_size[1])


def _corners(settings: Settings, boxes: Array, image: tuple[int, int]) -> tuple[Array, Array]:
    """(starts, ends) of all boxes in pixels, each (B, 2) with the height first."""
    if settings.box not in list(Box):
        raise ValueError(f"crop_resize: there is no box mode {settings.box}; the modes are 0 to {max(Box)}.")
    pairs = np.asarray(boxes, dtype=np.float64).reshape(len(boxes), 2, 2) * settings.spatial_scale
    if settings.box in (Box.CORNERS_WIDTH_FIRST, Box.CENTER_SIZE_WIDTH_FIRST):
        pairs = pairs[:, :, ::-1]
    if settings.normalized:
        pairs = pairs * np.array(image, dtype=np.float64)
    first, second = pairs[:, 0], pairs[:, 1]
    if settings.box in (Box.CORNERS_HEIGHT_FIRST, Box.CORNERS_WIDTH_FIRST):
        return first, second
    return first - second / 2.0, first + second / 2.0


def _positions(settings: Settings, start: Array, end: Array, n: int) -> Array:
    """Sample positions (B, n) along one axis, for starts and ends (B,)."""
    length = (end - start)[:, np.newaxis]
    offset = _offsets(settings, length, n)
    return start[:, np.newaxis] + np.clip(offset, np.minimum(length, 0.0), np.maximum(length, 0.0))


def _offsets(settings: Settings, length: Array, n: int) -> Array:
    """p(i), (B, n), from lengths L (B, 1)."""
    i: npt.NDArray[np.float64] = np.arange(n, dtype=np.float64)
    extent = length if settings.plain_extent else length + 1.0
    match settings.sampling:
        case Sampling.DEFAULT:
            return i * extent / n
        case Sampling.ALIGN_CORNERS:
            return length / 2.0 if n == 1 else i * length / (n - 1.0)
        case Sampling.UNALIGN_CORNERS:
            return (i + 0.5) * extent / n - 0.5
        case Sampling.STRICT_ALIGN_CORNERS:
            return i * length / max(n - 1.0, 1.0)
        case Sampling.OFFSET_CORNERS:
            return (i + 0.5) * np.maximum(1.0, length) / n
        case _:
            raise ValueError(
                f"crop_resize: there is no sampling mode {settings.sampling}; the modes are 0 to {max(Sampling)}."
            )
