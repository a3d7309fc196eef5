"""Resized signals (channels, length), images (channels, height, width) and volumes (channels, depth, height, width); images
as columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from ..graph import functions
from ..graph.checks import Pair, check_rank, per_axis, positive
from ..graph.functions import resizing
from ..graph.functions.windows import AXES as _AXES
from ..graph.tensor import Tensor
from .arguments import options
from .module import Layer


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
        options = resizing.checked_options(who, size, scale_factor, mode, align_corners, recompute_scale_factor)
        self.size, self.scale_factor, self.mode, self.align_corners, self.recompute_scale_factor = options

    def forward(self, input: Tensor) -> Tensor:
        options = (self.size, self.scale_factor, self.mode, self.align_corners, self.recompute_scale_factor)
        return resizing.resized(type(self).__name__, input, *options)

    def extra_repr(self) -> str:
        size = f"size={self.size}" if self.size is not None else f"scale_factor={self.scale_factor}"
        return f"{size}, mode={self.mode!r}" + options(self, align_corners=False, recompute_scale_factor=False)


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
        return resizing.shuffled("PixelShuffle", input, self.upscale_factor, back=False)

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
        return resizing.shuffled("PixelUnshuffle", input, self.downscale_factor, back=True)

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
        return resizing.in_turn("ChannelShuffle", input, self.groups)

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
