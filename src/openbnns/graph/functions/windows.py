"""Sliding windows as columns, and the way back; normalization over windows of channels."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import operations
from ..checks import Pair, per_axis, whole_number
from ..operations import Window
from ..sizes import AnySize, product
from ..tensor import Tensor
from .base import TensorLike, axis_of, function, numbers, value, with_shape
from .elementwise import add, mul, pow, square
from .indexing import index_select
from .products import matmul
from .shapes import movedim, permute

__all__ = ["fold", "local_response_norm", "unfold"]

AXES = {1: "(channels, length)", 2: "(channels, height, width)", 3: "(channels, depth, height, width)"}
IMAGES = {1: "a signal of length {}", 2: "an image of {} x {}", 3: "a volume of {} x {} x {}"}


def windows_along(x: Tensor, axis: int, size: int, stride: int, dilation: int = 1) -> Tensor:
    """An axis as two: the entries of a window, and the windows."""
    (count,) = Window.of("", (size,), stride, 0, dilation).counts([int(x.shape[axis])])
    entries = dilation * np.arange(size)[:, None] + stride * np.arange(int(count))
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
) -> list[Any]:  # fmt: skip
    """The number of windows along each axis."""
    counts = Window.of(who, kernel, stride, padding, dilation).counts(list(map(int, sizes)))
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
def local_response_norm(input: TensorLike, size: int, alpha: float = 0.0001, beta: float = 0.75, k: float = 1.0) -> Any:
    """x / (k + alpha / size Σ x²)^beta, with the sum over a window of ``size`` channels around each, which are axis 1.

    Windows end at the first and the last channel, but are divided by ``size`` there, too. Where it is even, one more channel
    before the middle belongs to the window than behind it.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> x = np.float32([[[3], [4], [5]]])
    >>> print(nn.functional.local_response_norm(x, 3, alpha=3, beta=0.5, k=0).ravel().round(3))
    [0.6   0.566 0.781]
    """
    x, width = numbers(input, "local_response_norm"), whole_number(size, "local_response_norm: size", 1)
    if x.ndim < 3:
        raise ValueError(
            f"local_response_norm: {x.shape} must be (N, channels, ...), with at least one axis behind channels."
        )
    channels = int(x.shape[1])
    distance = np.arange(channels)[:, None] - np.arange(channels)
    window = (distance <= width // 2) & (distance >= -((width - 1) // 2))
    squares = with_shape(square(x), (x.shape[0], channels, product(x.shape[2:])))
    sums = with_shape(matmul(window.astype(np.float32) * np.float32(alpha / width), squares), x.shape)
    return mul(x, pow(add(sums, float(k)), -float(beta)))


@function
def windows(input: TensorLike, dimension: int, size: int, step: int) -> Any:
    """``x.unfold(dimension, size, step)``: windows along an axis, whose entries are a new last axis."""
    x = value(input, "unfold")
    axis, length, stride = axis_of(x, dimension, "unfold"), operator.index(size), operator.index(step)
    if length < 1 or stride < 1 or length > x.shape[axis]:
        raise ValueError(f"unfold: windows of {size} with step {step} do not fit into axis {axis} of {x.shape}.")
    return movedim(windows_along(x, axis, length, stride), axis, -1)
