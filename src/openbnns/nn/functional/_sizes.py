"""Resizing of signals and images, with PyTorch's names and arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

from ...graph import operations
from ...graph.functions.base import TensorLike, function, numbers

PadMode = Literal["constant", "reflect", "replicate", "circular"]
ResizeMode = Literal["nearest", "nearest-exact", "linear", "bilinear", "bicubic"]


@function
def pad(input: TensorLike, pad: Sequence[int], mode: PadMode = "constant", value: float | None = None) -> Any:
    """Elements added around the last axes: pairs (before, after), those of the last axis first; negative ones take away.

    ``mode`` is "constant" with ``value``, or "reflect", "replicate" or "circular".

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.functional.pad(np.float32([[1, 2]]), (1, 2), value=7).tolist()
    [[7.0, 1.0, 2.0, 7.0, 7.0]]
    """
    x = numbers(input, "pad")
    numbers_given = list(pad)
    if mode not in get_args(PadMode):
        raise ValueError(f"pad: mode is {mode!r}. Use one of {', '.join(map(repr, get_args(PadMode)))}.")
    if len(numbers_given) % 2 or len(numbers_given) > 2 * x.ndim or not all(isinstance(n, int) for n in numbers_given):
        raise ValueError(f"pad: {tuple(pad)} must be pairs of integers, at most one for each axis of {x.shape}.")
    pairs = [(numbers_given[i], numbers_given[i + 1]) for i in range(0, len(numbers_given), 2)][::-1]
    widths = [(0, 0)] * (x.ndim - len(pairs)) + pairs
    return operations.pad(x, widths, mode, "pad", 0.0 if value is None else float(value))


@function
def interpolate(
    input: TensorLike, size: Any = None, scale_factor: Any = None, mode: ResizeMode = "nearest", align_corners: bool | None =
    None, recompute_scale_factor: bool | None = None,
) -> Any:  # fmt: skip
    """Signals or images sampled anew; see Upsample.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.functional.interpolate(np.float32([[[0, 4]]]), scale_factor=2, mode="linear").tolist()
    [[[0.0, 1.0, 3.0, 4.0]]]
    """
    from ..resize import Upsample

    layer = Upsample(size, scale_factor, mode, align_corners, recompute_scale_factor)
    return layer(numbers(input, "interpolate"))


@function
def pixel_shuffle(input: TensorLike, upscale_factor: int) -> Any:
    """Channels as pixels; see PixelShuffle."""
    from ..resize import PixelShuffle

    return PixelShuffle(upscale_factor)(numbers(input, "pixel_shuffle"))


@function
def pixel_unshuffle(input: TensorLike, downscale_factor: int) -> Any:
    """Pixels as channels; see PixelUnshuffle."""
    from ..resize import PixelUnshuffle

    return PixelUnshuffle(downscale_factor)(numbers(input, "pixel_unshuffle"))


@function
def channel_shuffle(input: TensorLike, groups: int) -> Any:
    """Channels of all groups in turn; see ChannelShuffle."""
    from ..resize import ChannelShuffle

    return ChannelShuffle(groups)(numbers(input, "channel_shuffle"))
