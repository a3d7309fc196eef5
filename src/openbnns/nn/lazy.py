"""PyTorch's names for layers whose input sizes are left out. The layers themselves allow that, too."""

from __future__ import annotations

from typing import Literal

from ..graph.checks import Pair
from .convolution import Conv1d, Conv2d, ConvTranspose1d, ConvTranspose2d, PaddingModeName
from .layers import Linear
from .normalization import BatchNorm1d, BatchNorm2d, InstanceNorm1d, InstanceNorm2d


class LazyLinear(Linear):
    """``Linear(out_features)``.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.LazyLinear(2)(np.ones((5, 3), np.float32)).shape
    (5, 2)
    """

    def __init__(self, out_features: int, bias: bool = True) -> None:
        super().__init__(None, out_features, bias)


class LazyConv1d(Conv1d):
    """``Conv1d(out_channels, kernel_size, ...)``.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.LazyConv1d(2, 3, 2)(np.ones((5, 3, 9), np.float32)).shape
    (5, 2, 4)
    """

    def __init__(
        self, out_channels: int, kernel_size: Pair, stride: Pair = 1, padding: Pair | Literal["same", "valid"] = 0,
        dilation: Pair = 1, groups: int = 1, bias: bool = True, padding_mode: PaddingModeName = "zeros",
    ) -> None:  # fmt: skip
        super().__init__(None, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode)


class LazyConv2d(Conv2d):
    """``Conv2d(out_channels, kernel_size, ...)``.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.LazyConv2d(2, 3, 2)(np.ones((5, 3, 9, 7), np.float32)).shape
    (5, 2, 4, 3)
    """

    def __init__(
        self, out_channels: int, kernel_size: Pair, stride: Pair = 1, padding: Pair | Literal["same", "valid"] = 0,
        dilation: Pair = 1, groups: int = 1, bias: bool = True, padding_mode: PaddingModeName = "zeros",
    ) -> None:  # fmt: skip
        super().__init__(None, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode)


class LazyConvTranspose1d(ConvTranspose1d):
    """``ConvTranspose1d(out_channels, kernel_size, ...)``.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.LazyConvTranspose1d(2, 2, 2)(np.ones((5, 3, 9), np.float32)).shape
    (5, 2, 18)
    """

    def __init__(
        self, out_channels: int, kernel_size: Pair, stride: Pair = 1, padding: Pair = 0, output_padding: Pair = 0,
        groups: int = 1, bias: bool = True, dilation: Pair = 1, padding_mode: Literal["zeros"] = "zeros",
    ) -> None:  # fmt: skip
        super().__init__(
            None, out_channels, kernel_size, stride, padding, output_padding, groups, bias, dilation, padding_mode
        )


class LazyConvTranspose2d(ConvTranspose2d):
    """``ConvTranspose2d(out_channels, kernel_size, ...)``.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.LazyConvTranspose2d(2, 2, 2)(np.ones((5, 3, 9, 7), np.float32)).shape
    (5, 2, 18, 14)
    """

    def __init__(
        self, out_channels: int, kernel_size: Pair, stride: Pair = 1, padding: Pair = 0, output_padding: Pair = 0,
        groups: int = 1, bias: bool = True, dilation: Pair = 1, padding_mode: Literal["zeros"] = "zeros",
    ) -> None:  # fmt: skip
        super().__init__(
            None, out_channels, kernel_size, stride, padding, output_padding, groups, bias, dilation, padding_mode
        )


class LazyBatchNorm1d(BatchNorm1d):
    """``BatchNorm1d()``.

    >>> from openbnns import nn
    >>> nn.LazyBatchNorm1d().build((3,)).weight.shape
    (3,)
    """

    def __init__(
        self, eps: float = 1e-5, momentum: float = 0.1, affine: bool = True, track_running_stats: bool = True
    ) -> None:
        super().__init__(None, eps, momentum, affine, track_running_stats)


class LazyBatchNorm2d(BatchNorm2d):
    """``BatchNorm2d()``.

    >>> from openbnns import nn
    >>> nn.LazyBatchNorm2d().build((3, 8, 8)).weight.shape
    (3,)
    """

    def __init__(
        self, eps: float = 1e-5, momentum: float = 0.1, affine: bool = True, track_running_stats: bool = True
    ) -> None:
        super().__init__(None, eps, momentum, affine, track_running_stats)


class LazyInstanceNorm1d(InstanceNorm1d):
    """``InstanceNorm1d()``.

    >>> from openbnns import nn
    >>> nn.LazyInstanceNorm1d(affine=True).build((3, 8)).weight.shape
    (3,)
    """

    def __init__(
        self, eps: float = 1e-5, momentum: float = 0.1, affine: bool = False, track_running_stats: bool = False
    ) -> None:
        super().__init__(None, eps, momentum, affine, track_running_stats)


class LazyInstanceNorm2d(InstanceNorm2d):
    """``InstanceNorm2d()``.

    >>> from openbnns import nn
    >>> nn.LazyInstanceNorm2d(affine=True).build((3, 8, 8)).weight.shape
    (3,)
    """

    def __init__(
        self, eps: float = 1e-5, momentum: float = 0.1, affine: bool = False, track_running_stats: bool = False
    ) -> None:
        super().__init__(None, eps, momentum, affine, track_running_stats)
