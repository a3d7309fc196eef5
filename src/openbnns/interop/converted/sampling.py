"""Samples of images between pixels."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from ...graph import functions as F
from ...graph.sizes import AnySize, product
from ...graph.tensor import Tensor
from .tensors import ForeignTensor, Misfit

Taps = list[tuple[Tensor, Any]]
"""Positions along an axis, and what their pixels are multiplied with."""


def sampled_at(x: ForeignTensor, grid: ForeignTensor, mode: str, edges: str, corners: bool) -> Tensor:
    """Pixels of images (N, C, ...) at places (N, ..., axes) from -1 to 1, the last axis first.

    ``mode`` is "nearest", "linear" or "cubic"; ``edges`` says what lies outside: "zeros", "border" or "reflection".
    """
    axes = x.rank - 2
    if mode not in ("linear", "nearest", "cubic") or edges not in ("zeros", "border", "reflection"):
        raise Misfit(f"mode={mode!r} with padding_mode={edges!r} has no counterpart here")
    if not 1 <= axes <= 3 or grid.rank != x.rank or grid.shape[-1] != axes or (mode == "cubic" and axes > 2):
        raise Misfit(f"a grid {grid.shape} does not fit {x.shape}")
    samples, channels, *image = x.shape
    sizes, places = [int(n) for n in image], grid.shape[1:-1]
    along = []
    for axis, n in enumerate(sizes):
        numbers = F.select(grid.numbers, grid.rank - 1, axes - 1 - axis).reshape((samples, product(places)))
        if corners:
            numbers = F.mul(F.add(numbers, 1.0), (n - 1) / 2)
        else:
            numbers = F.sub(F.mul(F.add(numbers, 1.0), n / 2), 0.5)
        along.append(_taps(numbers, n, mode, edges, corners))
    flat = x.numbers.reshape((samples, channels, product(image)))
    total: Any = None
    for taps in itertools.product(*along):
        index: Any = None
        factor: Any = None
        for (position, part), n in zip(taps, sizes, strict=True):
            index = position if index is None else F.add(F.mul(index, float(n)), position)
            factor = part if factor is None else factor if part is None else F.mul(factor, part)
        pixels = _pixels(flat, index, channels)
        part = pixels if factor is None else F.mul(pixels, F.unsqueeze(factor, 1))
        total = part if total is None else F.add(total, part)
    result: Tensor = total.reshape((samples, channels, *places))
    return result


def _pixels(flat: Tensor, index: Tensor, channels: AnySize) -> Tensor:
    samples, count = index.shape
    places = F.expand(F.detach(index).long().reshape((samples, 1, count)), samples, channels, count)
    pixels: Tensor = F.gather(flat, 2, places)
    return pixels


def _taps(numbers: Tensor, n: int, mode: str, edges: str, corners: bool) -> Taps:
    """The pixels along an axis that a place is between."""
    if mode != "cubic":
        numbers = _inside(numbers, n, edges, corners)
    if mode == "nearest":
        return [_tap(F.round(numbers), n, edges, corners, None)]
    first = F.detach(F.floor(numbers))
    rest = F.sub(numbers, first)
    if mode == "linear":
        parts: list[tuple[int, Any]] = [(0, F.sub(1.0, rest)), (1, rest)]
    else:
        parts = [(i - 1, _cubic(rest, i)) for i in range(4)]
    return [_tap(F.add(first, float(i)) if i else first, n, edges, corners, part) for i, part in parts]


def _cubic(t: Tensor, number: int) -> Tensor:
    """The weight of one of four pixels around a place, with a = -0.75."""
    a = -0.75
    distance = [F.add(t, 1.0), t, F.sub(1.0, t), F.sub(2.0, t)][number]
    square = F.square(distance)
    cube = F.mul(square, distance)
    if number in (1, 2):
        near: Tensor = F.add(F.sub(F.mul(cube, a + 2), F.mul(square, a + 3)), 1.0)
        return near
    far: Tensor = F.sub(F.add(F.sub(F.mul(cube, a), F.mul(square, 5 * a)), F.mul(distance, 8 * a)), 4 * a)
    return far


def _tap(position: Tensor, n: int, edges: str, corners: bool, factor: Any) -> tuple[Tensor, Any]:
    position = F.detach(position)
    if edges == "zeros":
        there = F.mul(
            F.ge(position, np.float32(0)),
            F.le(position, np.float32(n - 1)),
        )
        factor = there if factor is None else F.mul(factor, there)
    else:
        position = _inside(position, n, edges, corners)
    return F.clamp(position, 0.0, float(n - 1)), factor


def _inside(numbers: Tensor, n: int, edges: str, corners: bool) -> Tensor:
    """Places outside of an axis, moved into it."""
    if edges == "zeros":
        return numbers
    if edges == "reflection":
        low, high = (0.0, n - 1.0) if corners else (-0.5, n - 0.5)
        span = high - low
        if not span:
            return F.mul(numbers, 0.0)  # type: ignore[no-any-return]
        away = F.abs(F.sub(numbers, low))
        turns = F.detach(F.floor(F.div(away, span)))
        rest = F.sub(away, F.mul(turns, span))
        odd = F.detach(F.sub(turns, F.mul(F.floor(F.div(turns, 2.0)), 2.0)))
        numbers = F.add(F.add(rest, low), F.mul(odd, F.sub(high - low, F.mul(rest, 2.0))))
    clamped: Tensor = F.clamp(numbers, 0.0, float(n - 1))
    return clamped
