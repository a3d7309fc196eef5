"""Padding, and signals, images and volumes sampled anew."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np

from ..._flags import optional_flag
from .. import operations
from ..checks import check_rank, per_axis, positive
from ..tensor import Array, Tensor
from .base import TensorLike, function, numbers
from .base import value as value_of
from .indexing import index_select
from .poolings import resampled
from .shapes import transpose
from .windows import AXES

__all__ = ["channel_shuffle", "interpolate", "pad", "pixel_shuffle", "pixel_unshuffle"]

ResizeMode = Literal["nearest", "nearest-exact", "linear", "bilinear", "bicubic", "trilinear"]
PadMode = Literal["constant", "reflect", "replicate", "circular"]


@function
def pad(input: TensorLike, pad: Sequence[int], mode: PadMode = "constant", value: float | None = None) -> Any:
    """Elements added around the last axes: pairs (before, after), those of the last axis first; negative ones take away.

    ``mode`` is "constant" with ``value``, or "reflect", "replicate" or "circular".

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.functional.pad(np.float32([[1, 2]]), (1, 2), value=7).tolist()
    [[7.0, 1.0, 2.0, 7.0, 7.0]]
    """
    x = value_of(input, "pad")
    numbers_given = list(pad)
    if mode not in get_args(PadMode):
        raise ValueError(f"pad: mode is {mode!r}. Use one of {', '.join(map(repr, get_args(PadMode)))}.")
    if len(numbers_given) % 2 or len(numbers_given) > 2 * x.ndim or not all(isinstance(n, int) for n in numbers_given):
        raise ValueError(f"pad: {tuple(pad)} must be pairs of integers, at most one for each axis of {x.shape}.")
    pairs = [(numbers_given[i], numbers_given[i + 1]) for i in range(0, len(numbers_given), 2)][::-1]
    widths = [(0, 0)] * (x.ndim - len(pairs)) + pairs
    return operations.pad(x, widths, mode, "pad", 0.0 if value is None else value)


_MODES = {
    "nearest": (1, 2, 3), "nearest-exact": (1, 2, 3), "linear": (1,), "bilinear": (2,), "bicubic": (2,), "trilinear": (3,),
}  # fmt: skip


@function
def interpolate(
    input: TensorLike, size: Any = None, scale_factor: Any = None, mode: ResizeMode = "nearest", align_corners: bool | None =
    None, recompute_scale_factor: bool | None = None,
) -> Any:  # fmt: skip
    """Signals, images or volumes sampled anew; see Upsample.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.functional.interpolate(np.float32([[[0, 4]]]), scale_factor=2, mode="linear").tolist()
    [[[0.0, 1.0, 3.0, 4.0]]]
    """
    options = checked_options("interpolate", size, scale_factor, mode, align_corners, recompute_scale_factor)
    return resized("interpolate", numbers(input, "interpolate"), *options)


def checked_options(
    who: str, size: Any, scale_factor: Any, mode: Any, align_corners: bool | None, recompute_scale_factor: bool | None
) -> tuple[Any, Any, Any, bool, bool]:
    if (size is None) == (scale_factor is None):
        raise ValueError(f"{who}: give either size or scale_factor, not {'both' if size is not None else 'neither'}.")
    aligned = optional_flag(align_corners, f"{who}: align_corners")
    recomputed = optional_flag(recompute_scale_factor, f"{who}: recompute_scale_factor")
    if mode not in _MODES:
        raise ValueError(f"{who}: mode is {mode!r}. Use one of {', '.join(map(repr, _MODES))}.")
    if aligned is not None and mode.startswith("nearest"):
        raise ValueError(f"{who}: align_corners is for linear modes and 'bicubic', not for {mode!r}. Leave it out.")
    if recomputed and size is not None:
        raise ValueError(f"{who}: recompute_scale_factor goes with scale_factor, but size is given. Leave it out.")
    factors = tuple(map(float, scale_factor)) if isinstance(scale_factor, Sequence) else _number(scale_factor, who)
    return (
        size if size is None or isinstance(size, int) else tuple(size),
        factors,
        mode,
        bool(aligned),
        bool(recomputed),
    )


def resized(
    who: str, x: Tensor, size: Any, scale_factor: Any, mode: str, align_corners: bool, recompute_scale_factor: bool
) -> Tensor:
    axes = x.ndim - 2
    possible = _MODES[mode]
    if axes not in possible:
        usual = possible[0] if len(possible) == 1 else 2
        check_rank(who, x, usual + 1, AXES[usual])
    image = x.shape[2:]
    ratios: list[float | None] = [None] * axes  # pixels of the input per pixel of the output, if not the sizes tell
    if size is not None:
        sizes = per_axis(size, axes, f"{who}: size", 1)
    else:
        factors = scale_factor if isinstance(scale_factor, tuple) else (scale_factor,) * axes
        if len(factors) != axes or min(factors) <= 0:
            raise ValueError(f"{who}: scale_factor is {scale_factor}. Pass one positive number, or one per axis.")
        sizes = tuple(math.floor(n * f) for n, f in zip(image, factors, strict=True))
        if min(sizes) < 1:
            raise ValueError(f"{who}: scale_factor {scale_factor} leaves nothing of {image}. Use a larger one.")
        if not recompute_scale_factor and not align_corners:
            exact = [n * f == m for n, m, f in zip(image, sizes, factors, strict=True)]
            ratios = [None if e else 1 / f for e, f in zip(exact, factors, strict=True)]
    if mode in ("nearest", "linear", "bilinear") and axes < 3 and not any(ratios):
        linear = mode != "nearest"
        return x.graph.append(operations.Resize(x, (*x.shape[:2], *sizes), linear, align_corners))
    if mode.startswith("nearest"):
        places = [_nearest(mode, *each) for each in zip(map(int, image), sizes, ratios, strict=True)]
        for axis, numbers in enumerate(places):
            x = index_select(x, axis + 2, numbers)
        return x
    return resampled(
        x, [_weights(mode, align_corners, *each) for each in zip(map(int, image), sizes, ratios, strict=True)]
    )


def _nearest(mode: str, n: int, m: int, ratio: float | None) -> Array:
    """The pixel of the input for every one of the output, in PyTorch's float32 numbers."""
    step = np.float32(n / m if ratio is None else ratio)
    shift = np.float32(0.5 if mode == "nearest-exact" else 0.0)
    places: Array = np.floor((np.arange(m, dtype=np.float32) + shift) * step).astype(np.int64)
    return places.clip(0, n - 1)


def _weights(mode: str, align_corners: bool, n: int, m: int, ratio: float | None) -> Array:
    """The weight of every input pixel in every output pixel, (m, n)."""
    if align_corners:
        positions = np.arange(m) * ((n - 1) / (m - 1) if m > 1 else 0.0)
    else:
        positions = (np.arange(m) + 0.5) * (n / m if ratio is None else ratio) - 0.5
        if mode != "bicubic":
            positions = positions.clip(0)
    low = np.floor(positions).astype(np.int64)
    t = positions - low
    parts = _cubic(t) if mode == "bicubic" else [(0, 1 - t), (1, t)]
    weights = np.zeros((m, n))
    for offset, part in parts:
        np.add.at(weights, (np.arange(m), (low + offset).clip(0, n - 1)), part)
    return weights.astype(np.float32)


def _number(value: Any, who: str) -> float | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float, np.number))):
        raise TypeError(f"{who}: scale_factor must be a number, or one per axis, not {value!r}.")
    return None if value is None else float(value)


def _cubic(t: Array, a: float = -0.75) -> list[tuple[int, Array]]:
    """Keys' cubic convolution with PyTorch's factor: (offset of the pixel, its part) for a place t behind a pixel."""

    def near(d: Array) -> Array:
        return ((a + 2) * d - (a + 3)) * d * d + 1

    def far(d: Array) -> Array:
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a

    return [(-1, far(t + 1)), (0, near(t)), (1, near(1 - t)), (2, far(2 - t))]


@function
def pixel_shuffle(input: TensorLike, upscale_factor: int) -> Any:
    """Channels as pixels: (C r², H, W) -> (C, H r, W r); see PixelShuffle."""
    return shuffled(
        "pixel_shuffle",
        numbers(input, "pixel_shuffle"),
        positive(upscale_factor, "pixel_shuffle: upscale_factor"),
        back=False,
    )


@function
def pixel_unshuffle(input: TensorLike, downscale_factor: int) -> Any:
    """Pixels as channels: (C, H r, W r) -> (C r², H, W); see PixelUnshuffle."""
    factor = positive(downscale_factor, "pixel_unshuffle: downscale_factor")
    return shuffled("pixel_unshuffle", numbers(input, "pixel_unshuffle"), factor, back=True)


def shuffled(who: str, x: Tensor, r: int, *, back: bool) -> Tensor:
    check_rank(who, x, 3, AXES[2])
    count, c, h, w = x.shape
    if back and (h % r or w % r):
        raise ValueError(
            f"{who}: images of {h} x {w} pixels are not made of blocks of {r} x {r}. Use multiples of {r}."
        )
    if not back and c % (r * r):
        raise ValueError(
            f"{who}: {c} channels do not make blocks of {r} x {r} pixels. Use a multiple of {r * r} channels."
        )
    shape = (count, c * r * r, h // r, w // r) if back else (count, c // (r * r), h * r, w * r)
    return x.graph.append(operations.PixelShuffle(x, shape, back=back))


@function
def channel_shuffle(input: TensorLike, groups: int) -> Any:
    """Channels of all groups in turn; see ChannelShuffle."""
    return in_turn("channel_shuffle", value_of(input, "channel_shuffle"), positive(groups, "channel_shuffle: groups"))


def in_turn(who: str, x: Tensor, groups: int) -> Tensor:
    if x.ndim < 2 or x.shape[1] % groups:
        raise ValueError(f"{who}: {groups} groups do not divide the channels of {x.shape}. Choose another number.")
    apart = x.reshape(x.shape[0], groups, -1, *x.shape[2:])
    mixed: Tensor = transpose(apart, 1, 2)
    return mixed.reshape(x.shape)
