"""Poolings of signals, images and volumes.

Volumes are pooled frame by frame, and then along the depth, which gives the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .. import operations
from ..checks import Pair, check_rank, per_axis, positive
from ..operations import Window
from ..sizes import AnySize, are_at_least, product
from ..tensor import Array, Tensor
from .base import TensorLike, for_ranks, numbers
from .base import indices as indices_of
from .convolutions import convolved
from .elementwise import mul, pow
from .indexing import index_select
from .products import matmul
from .windows import AXES, IMAGES

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d", "adaptive_max_pool2d",
    "adaptive_max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d", "lp_pool1d", "lp_pool2d", "max_pool1d", "max_pool2d",
    "max_pool3d", "max_unpool1d", "max_unpool2d",
]  # fmt: skip


# Any windows.


def pooled(
    who: str, input: TensorLike, case: str, window: Window, counted: Any = "window", scale: float = 1.0
) -> Tensor:
    """A pooling of windows; see :class:`operations.Pooling` for ``case``, ``counted`` and ``scale``."""
    x, axes = numbers(input, who), len(window.kernel)
    check_rank(who, x, axes + 1, AXES[axes])
    if axes == 3:
        require_windows(who, x, window.counts(x.shape[2:]), window)
        count, channels, depth, *image = x.shape
        flat, deep = window.along(slice(1, 3)), window.along(slice(0, 1)).upright
        frames = pooled(who, x.reshape((count, channels * depth, *image)), case, flat, counted)
        columns, small = frames.reshape((count, channels, depth, product(frames.shape[2:]))), frames.shape[2:]
        y = pooled(who, columns, case, deep, counted)
        y = y.reshape((*y.shape[:3], *small))
        return y if scale == 1 else mul(y, scale)
    if case == "max" or max(window.dilation) == 1:
        edges = _reaching(window, x.shape[2:])
        if edges is None:
            operation = operations.Pooling(x, case, window, counted, scale)
            require_windows(who, x, operation.output.shape[2:], window)
            return x.graph.append(operation)
        filling = -math.inf if case == "max" else 0.0
        padded = operations.pad(x, [(0, 0), (0, 0), *edges], "constant", who, filling)
        y = pooled(who, padded, case, window.inside, scale=scale)
    else:  # and no means of windows with gaps: a convolution of every channel with ones
        channels, edges = int(x.shape[1]), window.reaching(x.shape[2:])
        ones = np.full((channels, 1, *window.kernel), 1 / math.prod(window.kernel), np.float32)
        y = convolved(who, x, ones, None, replace(window, edges=edges, ceil=False), channels)
        y = y if scale == 1 else mul(y, scale)
    shares = None if counted == "window" else window.shares(x.shape[2:], padded=counted == "padded")
    return y if shares is None else mul(y, shares)


def _reaching(window: Window, image: Sequence[AnySize]) -> Any:
    """Padding up to the ends of all windows, where there is more than half a window, which BNNS does not have."""
    fits = all(2 * max(pair) <= extent for pair, extent in zip(window.edges, window.extents, strict=True))
    return None if fits else window.reaching(image)


def require_windows(who: str, x: Tensor, counts: Sequence[AnySize], window: Window) -> None:
    if not are_at_least(1, counts):
        raise ValueError(
            f"{who}: {IMAGES[x.ndim - 2].format(*x.shape[2:])} is smaller than the window {window.kernel}. Use larger inputs or "
            "smaller windows."
        )


# Windows with PyTorch's arguments.


def plain_window(
    who: str, axes: int, kernel_size: Pair, stride: Pair | None = None, padding: Pair = 0, dilation: Pair = 1,
    ceil_mode: bool = False,
) -> Window:  # fmt: skip
    """Windows that move by themselves unless a stride is given."""
    kernel, edges = per_axis(kernel_size, axes, f"{who}: kernel_size", 1), per_axis(padding, axes, f"{who}: padding", 0)
    window = Window.of(who, kernel, kernel if stride is None else stride, edges, dilation, ceil_mode)
    if any(2 * p > extent for (p, _), extent in zip(window.edges, window.extents, strict=True)):
        raise ValueError(f"{who}: padding {padding} is more than half of the window {kernel}. Use less.")
    return window


def require_no_indices(who: str, axes: int, return_indices: bool) -> None:
    if return_indices and axes == 3:
        raise ValueError(
            f"{who}: return_indices is not possible, because volumes are pooled frame by frame. Leave it out, or pool images."
        )


def _with_indices(who: str, x: Tensor, window: Window) -> tuple[Tensor, ...]:
    check_rank(who, x, len(window.kernel) + 1, AXES[len(window.kernel)])
    operation = operations.MaxPoolingWithIndices(x, window)
    require_windows(who, x, operation.output.shape[2:], window)
    x.graph.append(operation)
    return tuple(operation.outputs)


def max_pool(
    who: str, axes: int, input: TensorLike, kernel_size: Pair, stride: Pair | None = None, padding: Pair = 0, dilation: Pair = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """The largest value of every window of {images}; see MaxPool{axes}d.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.functional.max_pool2d(np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4), 2).tolist()
    [[[[5.0, 7.0], [13.0, 15.0]]]]
    """
    x, window = numbers(input, who), plain_window(who, axes, kernel_size, stride, padding, dilation, ceil_mode)
    require_no_indices(who, axes, return_indices)
    return max_pooled(who, x, window, return_indices)


def max_pooled(who: str, x: Tensor, window: Window, return_indices: bool) -> Any:
    return _with_indices(who, x, window) if return_indices else pooled(who, x, "max", window)


def avg_pool(
    who: str, axes: int, input: TensorLike, kernel_size: Pair, stride: Pair | None = None, padding: Pair = 0,
    ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None,
) -> Any:  # fmt: skip
    """The mean of every window of {images}; see AvgPool{axes}d."""
    window = plain_window(who, axes, kernel_size, stride, padding, 1, ceil_mode)
    return avg_pooled(who, input, window, count_include_pad, divisor_override)


def avg_pooled(
    who: str, input: TensorLike, window: Window, count_include_pad: bool, divisor_override: int | None
) -> Tensor:
    if divisor_override is not None:
        divisor = positive(divisor_override, f"{who}: divisor_override")
        return pooled(who, input, "average", window, "window", math.prod(window.kernel) / divisor)
    return pooled(who, input, "average", window, "padded" if count_include_pad else "image")


def lp_pool(
    who: str,
    axes: int,
    input: TensorLike,
    norm_type: float,
    kernel_size: Pair,
    stride: Pair | None = None,
    ceil_mode: bool = False,
) -> Any:
    """The p-norm of every window of {images}; see LPPool{axes}d."""
    x, window, p = (
        numbers(input, who),
        plain_window(who, axes, kernel_size, stride, 0, 1, ceil_mode),
        checked_norm(who, norm_type),
    )
    if p == 2:
        y, shares = pooled(who, x, "l2_norm", window), window.shares(x.shape[2:], padded=True)
        return y if shares is None else mul(y, np.sqrt(shares))
    powers = x if p == 1 else pow(x, p)
    total = pooled(who, powers, "average", window, "padded", math.prod(window.kernel))
    return total if p == 1 else pow(total, 1 / p)


def checked_norm(who: str, given: Any) -> float:
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not given > 0:
        raise ValueError(f"{who}: norm_type is {given!r}. Pass a positive number.")
    return float(given)


def max_unpool(
    who: str, axes: int, input: TensorLike, indices: TensorLike, kernel_size: Pair, stride: Pair | None = None, padding: Pair = 0,
    output_size: Any = None,
) -> Any:  # fmt: skip
    """Values where the indices of a maximum pooling say, zeros elsewhere; see MaxUnpool{axes}d."""
    x, places, window = (
        numbers(input, who),
        indices_of(indices, who),
        plain_window(who, axes, kernel_size, stride, padding),
    )
    check_rank(who, x, axes + 1, AXES[axes])
    if x.shape[1:] != places.shape[1:]:
        raise ValueError(f"{who}: values {x.shape} and indices {places.shape} must have the same shape.")
    sizes = window.spread(x.shape[2:], (0,) * axes)
    if output_size is not None:
        wanted = list(output_size)[-axes:]
        if any(abs(n - m) >= s for n, m, s in zip(wanted, sizes, window.stride, strict=True)):
            raise ValueError(
                f"{who}: output_size is {tuple(output_size)}, but the pooled image was about {tuple(sizes)}: less than a stride "
                f"{window.stride} more or less."
            )
        sizes = wanted
    return x.graph.append(operations.MaxUnpooling(x, places, (*x.shape[:2], *sizes)))


# Parts of equal size, as far as possible: part i of m begins at floor(i n / m) and ends before ceil((i + 1) n / m).


def output_sizes(who: str, axes: int, given: Any) -> tuple[int | None, ...]:
    sizes = given if isinstance(given, Sequence) else (given,) * axes
    if len(sizes) != axes:
        raise ValueError(f"{who}: output_size is {given!r}. Pass one number or {axes}.")
    return tuple(None if n is None else positive(n, f"{who}: output_size") for n in sizes)


def _parts(who: str, axes: int, x: Tensor, output_size: Any) -> tuple[list[tuple[Array, Array]], Window | None]:
    """The window if all parts have one size; else the first entry of every part and the one behind its last, for each axis."""
    check_rank(who, x, axes + 1, AXES[axes])
    image, given = [*map(int, x.shape[2:])], output_sizes(who, axes, output_size)
    counts = [n if m is None else m for n, m in zip(image, given, strict=True)]
    if all(n and n % m == 0 for n, m in zip(image, counts, strict=True)):
        kernel = tuple(n // m for n, m in zip(image, counts, strict=True))
        return [], Window.symmetric(kernel, kernel, (0,) * axes, (1,) * axes)
    places = [np.arange(m) for m in counts]
    return [(p * n // m, -(-(p + 1) * n // m)) for p, n, m in zip(places, image, counts, strict=True)], None


def adaptive_avg_pool(who: str, axes: int, input: TensorLike, output_size: Any) -> Any:
    """The means of equal parts of {images}, as many as ``output_size`` says; see AdaptiveAvgPool{axes}d."""
    x = numbers(input, who)
    parts, window = _parts(who, axes, x, output_size)
    if window is not None:
        return pooled(who, x, "average", window)
    return resampled(x, [_shares(int(n), *part) for n, part in zip(x.shape[2:], parts, strict=True)])


def _shares(n: int, starts: Array, ends: Array) -> Array:
    """The contribution of every entry of an axis to the mean of each part, (parts, n)."""
    inside = (np.arange(n) >= starts[:, None]) & (np.arange(n) < ends[:, None])
    shares: Array = inside / (ends - starts)[:, None]
    return shares.astype(np.float32)


def resampled(x: Tensor, weights: Sequence[Array]) -> Tensor:
    """Every axis behind the channels as sums of its entries: ``weights`` holds a matrix (new, old) per axis."""
    if len(weights) == 3:
        *leading, depth, height, width = x.shape
        frames = matmul(weights[0], x.reshape((*leading, depth, height * width)))
        x = frames.reshape((*leading, len(weights[0]), height, width))
    if len(weights) > 1:
        x = matmul(weights[-2], x)
    y: Tensor = matmul(x, np.ascontiguousarray(weights[-1].T))
    return y


def adaptive_max_pool(who: str, axes: int, input: TensorLike, output_size: Any, return_indices: bool = False) -> Any:
    """The largest values of equal parts of {images}, as many as ``output_size`` says; see AdaptiveMaxPool{axes}d."""
    x = numbers(input, who)
    parts, window = _parts(who, axes, x, output_size)
    require_no_indices(who, axes, return_indices)
    if return_indices and window is None:
        raise ValueError(
            f"{who}: return_indices needs parts of one size, but {output_size} does not divide {x.shape[2:]}. Use sizes that "
            "divide, or leave return_indices out."
        )
    if window is None:  # the last entry of a smaller part is repeated, which does not change its maximum
        longest = [int((ends - starts).max()) for starts, ends in parts]
        for axis, (starts, ends) in enumerate(parts):
            entries = np.minimum(starts[:, None] + np.arange(longest[axis]), ends[:, None] - 1)
            x = index_select(x, axis + 2, entries.ravel())
        window = Window.of(who, longest, longest)
    return max_pooled(who, x, window, return_indices)


max_pool1d, max_pool2d, max_pool3d = for_ranks(max_pool)
avg_pool1d, avg_pool2d, avg_pool3d = for_ranks(avg_pool)
lp_pool1d, lp_pool2d = for_ranks(lp_pool, "12")
adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = for_ranks(adaptive_avg_pool)
adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = for_ranks(adaptive_max_pool)
max_unpool1d, max_unpool2d = for_ranks(max_unpool, "12")
