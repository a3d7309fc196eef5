"""Resized signals (channels, length), images (channels, height, width) and volumes (channels, depth, height, width); images
as columns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from .._flags import optional_flag
from ..graph import functions, operations
from ..graph.checks import Pair, per_axis
from ..graph.tensor import Array, Tensor
from .arguments import check_rank, options, positive
from .module import Layer

_MODES = {
    "nearest": (1, 2, 3), "nearest-exact": (1, 2, 3), "linear": (1,), "bilinear": (2,), "bicubic": (2,), "trilinear": (3,),
}  # fmt: skip
_AXES = {1: "(channels, length)", 2: "(channels, height, width)", 3: "(channels, depth, height, width)"}


class Upsample(Layer):
    """Signals, images or volumes resampled to ``size``, or ``scale_factor`` times as large: (C, H, W) -> (C, H', W').

    ``mode`` is "nearest", "nearest-exact", "linear" for signals, "bilinear" or "bicubic" for images, "trilinear" for
    volumes. Sizes and factors of several axes are in the order of the axes. ``align_corners`` puts
    the outermost samples onto the outermost pixels; otherwise positions are those of the centres of pixels. Where a factor
    does not give a whole size, positions follow from the factor, or with ``recompute_scale_factor`` from the sizes.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> x = np.float32([[[[0, 4]]]])
    >>> nn.Upsample(scale_factor=2)(x).tolist()
    [[[[0.0, 0.0, 4.0, 4.0], [0.0, 0.0, 4.0, 4.0]]]]
    >>> nn.Upsample((1, 4), mode="bilinear")(x).tolist()
    [[[[0.0, 1.0, 3.0, 4.0]]]]
    """

    def __init__(
        self,
        size: int | Sequence[int] | None = None,
        scale_factor: float | Sequence[float] | None = None,
        mode: Literal["nearest", "nearest-exact", "linear", "bilinear", "bicubic", "trilinear"] = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        who = type(self).__name__
        if (size is None) == (scale_factor is None):
            raise ValueError(
                f"{who}: give either size or scale_factor, not {'both' if size is not None else 'neither'}."
            )
        aligned = optional_flag(align_corners, f"{who}: align_corners")
        recomputed = optional_flag(recompute_scale_factor, f"{who}: recompute_scale_factor")
        if mode not in _MODES:
            raise ValueError(f"{who}: mode is {mode!r}. Use one of {', '.join(map(repr, _MODES))}.")
        if aligned is not None and mode.startswith("nearest"):
            raise ValueError(f"{who}: align_corners is for linear modes and 'bicubic', not for {mode!r}. Leave it out.")
        if recomputed and size is not None:
            raise ValueError(f"{who}: recompute_scale_factor goes with scale_factor, but size is given. Leave it out.")
        self.size: Any = size if size is None or isinstance(size, int) else tuple(size)
        self.scale_factor: Any = (
            tuple(map(float, scale_factor)) if isinstance(scale_factor, Sequence) else _number(scale_factor, who)
        )
        self.mode, self.align_corners = mode, bool(aligned)
        self.recompute_scale_factor = bool(recomputed)

    def forward(self, input: Tensor) -> Tensor:
        x = input
        who, axes = type(self).__name__, x.ndim - 2
        possible = _MODES[self.mode]
        if axes not in possible:
            usual = possible[0] if len(possible) == 1 else 2
            check_rank(who, x, usual + 1, _AXES[usual])
        image = x.shape[2:]
        ratios: list[float | None] = [None] * axes  # pixels of the input per pixel of the output, if not the sizes tell
        if self.size is not None:
            sizes = per_axis(self.size, axes, f"{who}: size", 1)
        else:
            factors = self.scale_factor if isinstance(self.scale_factor, tuple) else (self.scale_factor,) * axes
            if len(factors) != axes or min(factors) <= 0:
                raise ValueError(
                    f"{who}: scale_factor is {self.scale_factor}. Pass one positive number, or one per axis."
                )
            sizes = tuple(math.floor(n * f) for n, f in zip(image, factors, strict=True))
            if min(sizes) < 1:
                raise ValueError(
                    f"{who}: scale_factor {self.scale_factor} leaves nothing of {image}. Use a larger one."
                )
            if not self.recompute_scale_factor and not self.align_corners:
                exact = [n * f == m for n, m, f in zip(image, sizes, factors, strict=True)]
                ratios = [None if e else 1 / f for e, f in zip(exact, factors, strict=True)]
        if self.mode in ("nearest", "linear", "bilinear") and axes < 3 and not any(ratios):
            linear = self.mode != "nearest"
            return x.graph.append(operations.Resize(x, (*x.shape[:2], *sizes), linear, self.align_corners))
        if self.mode.startswith("nearest"):
            places = [self._nearest(*each) for each in zip(map(int, image), sizes, ratios, strict=True)]
            for axis, numbers in enumerate(places):
                x = functions.index_select(x, axis + 2, numbers)
            return x
        return resampled(x, [self._weights(*each) for each in zip(map(int, image), sizes, ratios, strict=True)])

    def _nearest(self, n: int, m: int, ratio: float | None) -> Array:
        """The pixel of the input for every one of the output, in PyTorch's float32 numbers."""
        step = np.float32(n / m if ratio is None else ratio)
        shift = np.float32(0.5 if self.mode == "nearest-exact" else 0.0)
        places: Array = np.floor((np.arange(m, dtype=np.float32) + shift) * step).astype(np.int64)
        return places.clip(0, n - 1)

    def _weights(self, n: int, m: int, ratio: float | None) -> Array:
        """The weight of every input pixel in every output pixel, (m, n)."""
        if self.align_corners:
            positions = np.arange(m) * ((n - 1) / (m - 1) if m > 1 else 0.0)
        else:
            positions = (np.arange(m) + 0.5) * (n / m if ratio is None else ratio) - 0.5
            if self.mode != "bicubic":
                positions = positions.clip(0)
        low = np.floor(positions).astype(np.int64)
        t = positions - low
        parts = _cubic(t) if self.mode == "bicubic" else [(0, 1 - t), (1, t)]
        weights = np.zeros((m, n))
        for offset, part in parts:
            np.add.at(weights, (np.arange(m), (low + offset).clip(0, n - 1)), part)
        return weights.astype(np.float32)

    def extra_repr(self) -> str:
        size = f"size={self.size}" if self.size is not None else f"scale_factor={self.scale_factor}"
        return f"{size}, mode={self.mode!r}" + options(self, align_corners=False, recompute_scale_factor=False)


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


def resampled(x: Tensor, weights: Sequence[Array]) -> Tensor:
    """Every axis behind the channels as sums of its entries: ``weights`` holds a matrix (new, old) per axis."""
    if len(weights) == 3:
        *leading, depth, height, width = x.shape
        frames = functions.matmul(weights[0], x.reshape((*leading, depth, height * width)))
        x = frames.reshape((*leading, len(weights[0]), height, width))
    if len(weights) > 1:
        x = functions.matmul(weights[-2], x)
    y: Tensor = functions.matmul(x, np.ascontiguousarray(weights[-1].T))
    return y


class UpsamplingNearest2d(Upsample):
    """``Upsample`` with mode "nearest", for images.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.UpsamplingNearest2d(scale_factor=3)(np.zeros((1, 2, 4, 5), np.float32)).shape
    (1, 2, 12, 15)
    """

    def __init__(
        self, size: int | Sequence[int] | None = None, scale_factor: float | Sequence[float] | None = None
    ) -> None:
        super().__init__(size, scale_factor, "nearest")


class UpsamplingBilinear2d(Upsample):
    """``Upsample`` with mode "bilinear" and ``align_corners=True``.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.UpsamplingBilinear2d((1, 3))(np.float32([[[[0, 4]]]])).tolist()
    [[[[0.0, 2.0, 4.0]]]]
    """

    def __init__(
        self, size: int | Sequence[int] | None = None, scale_factor: float | Sequence[float] | None = None
    ) -> None:
        super().__init__(size, scale_factor, "bilinear", align_corners=True)


class PixelShuffle(Layer):
    """Channels as pixels: (C r², H, W) -> (C, H r, W r).

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.PixelShuffle(2)(np.arange(4, dtype=np.float32).reshape(1, 4, 1, 1)).tolist()
    [[[[0.0, 1.0], [2.0, 3.0]]]]
    """

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = positive(upscale_factor, "PixelShuffle: upscale_factor")

    def forward(self, input: Tensor) -> Tensor:
        x = input
        check_rank("PixelShuffle", x, 3, _AXES[2])
        (c, h, w), r = x.shape[1:], self.upscale_factor
        if c % (r * r):
            raise ValueError(
                f"PixelShuffle: {c} channels do not make blocks of {r} x {r} pixels. Use a multiple of {r * r} channels."
            )
        return x.graph.append(operations.PixelShuffle(x, (x.shape[0], c // (r * r), h * r, w * r), back=False))

    def extra_repr(self) -> str:
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Layer):
    """Pixels as channels: (C, H r, W r) -> (C r², H, W).

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.PixelUnshuffle(2)(np.arange(4, dtype=np.float32).reshape(1, 1, 2, 2)).ravel().tolist()
    [0.0, 1.0, 2.0, 3.0]
    """

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = positive(downscale_factor, "PixelUnshuffle: downscale_factor")

    def forward(self, input: Tensor) -> Tensor:
        x = input
        check_rank("PixelUnshuffle", x, 3, _AXES[2])
        (c, h, w), r = x.shape[1:], self.downscale_factor
        if h % r or w % r:
            raise ValueError(
                f"PixelUnshuffle: images of {h} x {w} pixels are not made of blocks of {r} x {r}. Use multiples of {r}."
            )
        return x.graph.append(operations.PixelShuffle(x, (x.shape[0], c * r * r, h // r, w // r), back=True))

    def extra_repr(self) -> str:
        return f"downscale_factor={self.downscale_factor}"


class ChannelShuffle(Layer):
    """Channels of all groups in turn: the first of every group, then the second of every group, and so on.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.ChannelShuffle(2)(np.arange(4, dtype=np.float32).reshape(1, 4, 1, 1)).ravel().tolist()
    [0.0, 2.0, 1.0, 3.0]
    """

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = positive(groups, "ChannelShuffle: groups")

    def forward(self, input: Tensor) -> Tensor:
        x = input
        if x.ndim < 2 or x.shape[1] % self.groups:
            raise ValueError(
                f"ChannelShuffle: {self.groups} groups do not divide the channels of {x.shape}. Choose another number."
            )
        apart = x.reshape(x.shape[0], self.groups, -1, *x.shape[2:])
        mixed: Tensor = functions.transpose(apart, 1, 2)
        return mixed.reshape(x.shape)

    def extra_repr(self) -> str:
        return f"groups={self.groups}"


class Unfold(Layer):
    """Windows of images as columns: (C, H, W) -> (C KH KW, L), where L is the number of windows.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.Unfold((1, 2))(np.float32([[[[1, 2, 3]]]])).tolist()
    [[[1.0, 2.0], [2.0, 3.0]]]
    """

    def __init__(self, kernel_size: Pair, dilation: Pair = 1, padding: Pair = 0, stride: Pair = 1) -> None:
        super().__init__()
        self.kernel_size = per_axis(kernel_size, 2, "Unfold: kernel_size", 1)
        self.dilation = per_axis(dilation, 2, "Unfold: dilation", 1)
        self.padding = per_axis(padding, 2, "Unfold: padding", 0)
        self.stride = per_axis(stride, 2, "Unfold: stride", 1)

    def forward(self, input: Tensor) -> Tensor:
        check_rank("Unfold", input, 3, _AXES[2])
        y: Tensor = functions.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)
        return y

    def extra_repr(self) -> str:
        return f"{self.kernel_size}" + options(self, dilation=(1, 1), padding=(0, 0), stride=(1, 1))


class Fold(Layer):
    """Columns as windows of images, which are added up where they overlap: (C KH KW, L) -> (C, H, W).

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.Fold((1, 3), (1, 2))(np.float32([[[1, 2], [2, 3]]])).tolist()
    [[[[1.0, 4.0, 3.0]]]]
    """

    def __init__(
        self, output_size: Pair, kernel_size: Pair, dilation: Pair = 1, padding: Pair = 0, stride: Pair = 1
    ) -> None:
        super().__init__()
        self.output_size = per_axis(output_size, 2, "Fold: output_size", 1)
        self.kernel_size = per_axis(kernel_size, 2, "Fold: kernel_size", 1)
        self.dilation = per_axis(dilation, 2, "Fold: dilation", 1)
        self.padding = per_axis(padding, 2, "Fold: padding", 0)
        self.stride = per_axis(stride, 2, "Fold: stride", 1)

    def forward(self, input: Tensor) -> Tensor:
        check_rank("Fold", input, 2, "(channels times the pixels of a window, windows)")
        windows = (self.kernel_size, self.dilation, self.padding, self.stride)
        y: Tensor = functions.fold(input, self.output_size, *windows)
        return y

    def extra_repr(self) -> str:
        usual = options(self, dilation=(1, 1), padding=(0, 0), stride=(1, 1))
        return f"{self.output_size}, {self.kernel_size}" + usual
