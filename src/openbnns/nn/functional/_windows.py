"""Convolutions and pooling, with PyTorch's names and arguments. Weights are parameters, values that
are computed, or arrays that stay as they are."""

from __future__ import annotations

from typing import Any

from ...graph.checks import Pair
from ...graph.functions.base import TensorLike, function, numbers
from ._given import convolved, given_shape


@function
def max_pool1d(
    input: TensorLike, kernel_size: Pair, stride: Pair | None = None, padding: Pair = 0, dilation: Pair = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """The largest value of every window of a signal; see MaxPool1d."""
    from ..pooling import MaxPool1d

    layer = MaxPool1d(kernel_size, stride, padding, dilation, return_indices, ceil_mode)
    return layer(numbers(input, "max_pool1d"))


@function
def max_pool2d(
    input: TensorLike, kernel_size: Pair, stride: Pair | None = None, padding: Pair = 0, dilation: Pair = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """The largest value of every window of an image; see MaxPool2d.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.functional.max_pool2d(np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4), 2).tolist()
    [[[[5.0, 7.0], [13.0, 15.0]]]]
    """
    from ..pooling import MaxPool2d

    layer = MaxPool2d(kernel_size, stride, padding, dilation, return_indices, ceil_mode)
    return layer(numbers(input, "max_pool2d"))


@function
def max_pool3d(
    input: TensorLike, kernel_size: Pair, stride: Pair | None = None, padding: Pair = 0, dilation: Pair = 1,
    ceil_mode: bool = False,
) -> Any:  # fmt: skip
    """The largest value of every window of a volume; see MaxPool3d."""
    from ..pooling import MaxPool3d

    return MaxPool3d(kernel_size, stride, padding, dilation, False, ceil_mode)(numbers(input, "max_pool3d"))


@function
def avg_pool1d(
    input: TensorLike, kernel_size: Pair, stride: Pair | None = None, padding: Pair = 0, ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Any:  # fmt: skip
    """The mean of every window of a signal; see AvgPool1d."""
    from ..pooling import AvgPool1d

    return AvgPool1d(kernel_size, stride, padding, ceil_mode, count_include_pad)(numbers(input, "avg_pool1d"))


@function
def avg_pool2d(
    input: TensorLike, kernel_size: Pair, stride: Pair | None = None, padding: Pair = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None,
) -> Any:  # fmt: skip
    """The mean of every window of an image; see AvgPool2d."""
    from ..pooling import AvgPool2d

    layer = AvgPool2d(kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
    return layer(numbers(input, "avg_pool2d"))


@function
def avg_pool3d(
    input: TensorLike, kernel_size: Pair, stride: Pair | None = None, padding: Pair = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None,
) -> Any:  # fmt: skip
    """The mean of every window of a volume; see AvgPool3d."""
    from ..pooling import AvgPool3d

    layer = AvgPool3d(kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
    return layer(numbers(input, "avg_pool3d"))


@function
def lp_pool1d(
    input: TensorLike, norm_type: float, kernel_size: Pair, stride: Pair | None = None, ceil_mode: bool = False
) -> Any:
    """The p-norm of every window of a signal; see LPPool1d."""
    from ..pooling import LPPool1d

    return LPPool1d(norm_type, kernel_size, stride, ceil_mode)(numbers(input, "lp_pool1d"))


@function
def lp_pool2d(
    input: TensorLike, norm_type: float, kernel_size: Pair, stride: Pair | None = None, ceil_mode: bool = False
) -> Any:
    """The p-norm of every window of an image; see LPPool2d."""
    from ..pooling import LPPool2d

    return LPPool2d(norm_type, kernel_size, stride, ceil_mode)(numbers(input, "lp_pool2d"))


@function
def adaptive_avg_pool1d(input: TensorLike, output_size: Any) -> Any:
    """The means of so many parts of a signal; see AdaptiveAvgPool1d."""
    from ..pooling import AdaptiveAvgPool1d

    return AdaptiveAvgPool1d(output_size)(numbers(input, "adaptive_avg_pool1d"))


@function
def adaptive_avg_pool2d(input: TensorLike, output_size: Any) -> Any:
    """The means of so many parts of an image; see AdaptiveAvgPool2d."""
    from ..pooling import AdaptiveAvgPool2d

    return AdaptiveAvgPool2d(output_size)(numbers(input, "adaptive_avg_pool2d"))


@function
def adaptive_avg_pool3d(input: TensorLike, output_size: Any) -> Any:
    """The means of so many parts of a volume; see AdaptiveAvgPool3d."""
    from ..pooling import AdaptiveAvgPool3d

    return AdaptiveAvgPool3d(output_size)(numbers(input, "adaptive_avg_pool3d"))


@function
def adaptive_max_pool1d(input: TensorLike, output_size: Any, return_indices: bool = False) -> Any:
    """The largest values of so many parts of a signal; see AdaptiveMaxPool1d."""
    from ..pooling import AdaptiveMaxPool1d

    return AdaptiveMaxPool1d(output_size, return_indices)(numbers(input, "adaptive_max_pool1d"))


@function
def adaptive_max_pool2d(input: TensorLike, output_size: Any, return_indices: bool = False) -> Any:
    """The largest values of so many parts of an image; see AdaptiveMaxPool2d."""
    from ..pooling import AdaptiveMaxPool2d

    return AdaptiveMaxPool2d(output_size, return_indices)(numbers(input, "adaptive_max_pool2d"))


@function
def adaptive_max_pool3d(input: TensorLike, output_size: Any) -> Any:
    """The largest values of so many parts of a volume; see AdaptiveMaxPool3d."""
    from ..pooling import AdaptiveMaxPool3d

    return AdaptiveMaxPool3d(output_size)(numbers(input, "adaptive_max_pool3d"))


@function
def max_unpool1d(
    input: TensorLike, indices: TensorLike, kernel_size: Pair, stride: Pair | None = None, padding: Pair = 0,
    output_size: Any = None,
) -> Any:  # fmt: skip
    """Values where the indices of a maximum pooling say, zeros elsewhere; see MaxUnpool1d."""
    from ..pooling import MaxUnpool1d

    return MaxUnpool1d(kernel_size, stride, padding)(numbers(input, "max_unpool1d"), indices, output_size=output_size)


@function
def max_unpool2d(
    input: TensorLike, indices: TensorLike, kernel_size: Pair, stride: Pair | None = None, padding: Pair = 0,
    output_size: Any = None,
) -> Any:  # fmt: skip
    """Values where the indices of a maximum pooling say, zeros elsewhere; see MaxUnpool2d."""
    from ..pooling import MaxUnpool2d

    return MaxUnpool2d(kernel_size, stride, padding)(numbers(input, "max_unpool2d"), indices, output_size=output_size)


def conv1d(
    input: TensorLike, weight: Any, bias: Any = None, stride: Pair = 1, padding: Any = 0, dilation: Pair = 1,
    groups: int = 1,
) -> Any:  # fmt: skip
    """Convolution of signals with ``weight`` (O, C / groups, K) and ``bias`` (O,); see Conv1d."""
    from ..convolution import Conv1d

    outputs, inputs, *kernel = given_shape(weight, 3, "conv1d: weight", "(out, in / groups, length)")
    has_bias = bias is not None
    layer = Conv1d(inputs * groups, outputs, kernel, stride, padding, dilation, groups, has_bias)
    return convolved(input, layer, "conv1d", weight, bias)


def conv2d(
    input: TensorLike, weight: Any, bias: Any = None, stride: Pair = 1, padding: Any = 0, dilation: Pair = 1,
    groups: int = 1,
) -> Any:  # fmt: skip
    """Convolution of images with ``weight`` (O, C / groups, KH, KW) and ``bias`` (O,); see Conv2d.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> edges = np.float32([[[[-1, 1]]]])
    >>> nn.functional.conv2d(np.float32([[[[1, 1, 5]]]]), edges).tolist()
    [[[[0.0, 4.0]]]]
    """
    from ..convolution import Conv2d

    outputs, inputs, *kernel = given_shape(weight, 4, "conv2d: weight", "(out, in / groups, height, width)")
    has_bias = bias is not None
    layer = Conv2d(inputs * groups, outputs, kernel, stride, padding, dilation, groups, has_bias)
    return convolved(input, layer, "conv2d", weight, bias)


def conv3d(
    input: TensorLike, weight: Any, bias: Any = None, stride: Pair = 1, padding: Any = 0, dilation: Pair = 1,
    groups: int = 1,
) -> Any:  # fmt: skip
    """Convolution of volumes with ``weight`` (O, C / groups, KD, KH, KW) and ``bias`` (O,); see Conv3d."""
    from ..convolution import Conv3d

    outputs, inputs, *kernel = given_shape(weight, 5, "conv3d: weight", "(out, in / groups, depth, height, width)")
    has_bias = bias is not None
    layer = Conv3d(inputs * groups, outputs, kernel, stride, padding, dilation, groups, has_bias)
    return convolved(input, layer, "conv3d", weight, bias)


def conv_transpose1d(
    input: TensorLike, weight: Any, bias: Any = None, stride: Pair = 1, padding: Pair = 0, output_padding: Pair = 0,
    groups: int = 1, dilation: Pair = 1,
) -> Any:  # fmt: skip
    """Transposed convolution of signals with ``weight`` (C, O / groups, K); see ConvTranspose1d."""
    from ..convolution import ConvTranspose1d

    inputs, outputs, *kernel = given_shape(weight, 3, "conv_transpose1d: weight", "(in, out / groups, length)")
    layer = ConvTranspose1d(
        inputs, outputs * groups, kernel, stride, padding, output_padding, groups, bias is not None, dilation
    )
    return convolved(input, layer, "conv_transpose1d", weight, bias)


def conv_transpose2d(
    input: TensorLike, weight: Any, bias: Any = None, stride: Pair = 1, padding: Pair = 0, output_padding: Pair = 0,
    groups: int = 1, dilation: Pair = 1,
) -> Any:  # fmt: skip
    """Transposed convolution of images with ``weight`` (C, O / groups, KH, KW); see ConvTranspose2d."""
    from ..convolution import ConvTranspose2d

    inputs, outputs, *kernel = given_shape(weight, 4, "conv_transpose2d: weight", "(in, out / groups, height, width)")
    layer = ConvTranspose2d(
        inputs, outputs * groups, kernel, stride, padding, output_padding, groups, bias is not None, dilation
    )
    return convolved(input, layer, "conv_transpose2d", weight, bias)


def conv_transpose3d(
    input: TensorLike, weight: Any, bias: Any = None, stride: Pair = 1, padding: Pair = 0, output_padding: Pair = 0,
    groups: int = 1, dilation: Pair = 1,
) -> Any:  # fmt: skip
    """Transposed convolution of volumes with ``weight`` (C, O / groups, KD, KH, KW); see ConvTranspose3d."""
    from ..convolution import ConvTranspose3d

    axes = "(in, out / groups, depth, height, width)"
    inputs, outputs, *kernel = given_shape(weight, 5, "conv_transpose3d: weight", axes)
    layer = ConvTranspose3d(
        inputs, outputs * groups, kernel, stride, padding, output_padding, groups, bias is not None, dilation
    )
    return convolved(input, layer, "conv_transpose3d", weight, bias)
