"""Functions that are layers: convolutions, pooling, normalizations and resizing, with PyTorch's names and arguments.

Weights are parameters, values that are computed, or arrays that stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np

from ...graph import operations
from ...graph.checks import Pair
from ...graph.functions.base import TensorLike, function, numbers, run_at_once
from ...graph.graph import current_graph
from ...graph.parameter import Parameter
from ...graph.tensor import Array, Tensor
from ..convolution import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from ..module import Module
from ..normalization import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    GroupNorm,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
    LayerNorm,
    RMSNorm,
)
from ..pooling import (
    AdaptiveAvgPool1d,
    AdaptiveAvgPool2d,
    AdaptiveAvgPool3d,
    AdaptiveMaxPool1d,
    AdaptiveMaxPool2d,
    AdaptiveMaxPool3d,
    AvgPool1d,
    AvgPool2d,
    AvgPool3d,
    LPPool1d,
    LPPool2d,
    MaxPool1d,
    MaxPool2d,
    MaxPool3d,
    MaxUnpool1d,
    MaxUnpool2d,
)
from ..resize import ChannelShuffle, PixelShuffle, PixelUnshuffle, Upsample

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d", "adaptive_max_pool2d",
    "adaptive_max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d", "batch_norm", "channel_shuffle", "conv1d", "conv2d",
    "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "group_norm", "instance_norm", "interpolate",
    "lp_pool1d", "lp_pool2d", "max_pool1d", "max_pool2d", "max_pool3d", "max_unpool1d", "max_unpool2d", "pad",
    "pixel_shuffle", "pixel_unshuffle", "rms_norm",
]  # fmt: skip


_AXES = {1: "length", 2: "height, width", 3: "depth, height, width"}


def _given_shape(weight: Any, axes: int, who: str, channels: str) -> tuple[int, ...]:
    """The shape of weights of a convolution along so many axes."""
    if not isinstance(weight, (Parameter, Tensor, np.ndarray)):
        raise TypeError(
            f"{who} is a {type(weight).__name__}. Pass an nn.Parameter, a value or an array that is not trained."
        )
    if len(weight.shape) != axes + 2:
        raise ValueError(f"{who} has shape {weight.shape}, but must be ({channels}, {_AXES[axes]}).")
    return tuple(map(int, weight.shape))


def _convolution(
    kind: Any, input: TensorLike, weight: Any, bias: Any, stride: Pair, padding: Any, dilation: Pair, groups: int
) -> Any:
    """A convolution whose sizes are those of its weights; ``kind`` is the layer."""
    who = f"conv{kind.axes}d"
    outputs, inputs, *kernel = _given_shape(weight, kind.axes, f"{who}: weight", "out, in / groups")
    layer = kind(inputs * groups, outputs, kernel, stride, padding, dilation, groups, bias is not None)
    return _convolved(input, layer, who, weight, bias)


def _transposed(
    kind: Any, input: TensorLike, weight: Any, bias: Any, stride: Pair, padding: Pair, output_padding: Pair, groups: int,
    dilation: Pair,
) -> Any:  # fmt: skip
    """The same of transposed convolutions."""
    who = f"conv_transpose{kind.axes}d"
    inputs, outputs, *kernel = _given_shape(weight, kind.axes, f"{who}: weight", "in, out / groups")
    has_bias = bias is not None
    layer = kind(inputs, outputs * groups, kernel, stride, padding, output_padding, groups, has_bias, dilation)
    return _convolved(input, layer, who, weight, bias)


def _convolved(input: TensorLike, layer: Any, who: str, weight: Any, bias: Any) -> Any:
    """A convolution on a value with this weight and bias, parameters, arrays or computed values, in place of its own."""
    computed = any(isinstance(given, Tensor) for given in (weight, bias))
    if not computed and layer.axes < 3:
        return _with_parameters(input, layer, who, weight=weight, bias=bias)

    def body(x: TensorLike, weight: TensorLike, bias: TensorLike) -> Any:
        kernels = numbers(weight, f"{who}: weight")
        added = None if bias is None else numbers(bias, f"{who}: bias")
        if added is not None and (added.ndim != 1 or added.shape[0] != layer.out_channels):
            raise ValueError(f"{who}: bias has shape {added.shape}, but ({layer.out_channels},) is needed.")
        return layer.applied(layer.checked(numbers(x, who)), kernels, added)

    graph = current_graph()
    if graph is not None:
        with graph.calling(function=who):
            return body(input, weight, bias)
    return run_at_once(body, (input, weight, bias), {})


def _with_parameters(input: TensorLike, layer: Module, who: str, **parameters: Any) -> Any:
    """The layer on a value with these parameters in place of its own; None for those that it does without."""

    def body(x: TensorLike) -> Any:
        for name, parameter in parameters.items():
            setattr(layer, name, _held(parameter, graph is not None, f"{who}: {name}"))
        return layer.forward(numbers(x, who))

    graph = current_graph()
    if graph is not None:
        with graph.calling(function=who):
            return body(input)
    return run_at_once(body, (input,), {})


def _held(given: Any, recording: bool, who: str) -> Parameter | None:
    """A parameter of the network that is recorded; numbers become one that is not trained."""
    if given is None:
        return None
    if isinstance(given, Parameter) and recording:
        graph = current_graph()
        assert graph is not None
        graph.parameter(given)  # refuses those that the network does not know of
        return given
    if isinstance(given, Tensor):
        raise TypeError(f"{who} is a Tensor. Pass an nn.Parameter, or an array that is not trained.")
    return Parameter(given.data if isinstance(given, Parameter) else given, requires_grad=False)


def rms_norm(input: TensorLike, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    """Each sample divided by its root mean square over its last axes; see RMSNorm."""
    layer = RMSNorm(normalized_shape, eps, elementwise_affine=False)
    return _with_parameters(input, layer, "rms_norm", weight=weight)


def group_norm(input: TensorLike, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    """Each group of channels of a sample normalized; see GroupNorm."""
    layer = GroupNorm(num_groups, None, eps, affine=False)
    return _with_parameters(input, layer, "group_norm", weight=weight, bias=bias)


def batch_norm(
    input: TensorLike, running_mean: Array | None, running_var: Array | None, weight: Any = None, bias: Any = None,
    training: bool = False, momentum: float = 0.1, eps: float = 1e-5,
) -> Any:  # fmt: skip
    """Channels normalized over the batch; see BatchNorm1d and BatchNorm2d.

    ``running_mean`` and ``running_var`` are float32 arrays, such as buffers, that training changes in place. Whether the
    network trains is known by the network itself, so ``training`` makes no difference.
    """
    kind = {4: BatchNorm2d, 5: BatchNorm3d}.get(len(input.shape), BatchNorm1d)
    layer = kind(None, eps, momentum, False, running_mean is not None)
    return _with_statistics(input, layer, running_mean, running_var, "batch_norm", weight=weight, bias=bias)


def instance_norm(
    input: TensorLike, running_mean: Array | None = None, running_var: Array | None = None, weight: Any = None,
    bias: Any = None, use_input_stats: bool = True, momentum: float = 0.1, eps: float = 1e-5,
) -> Any:  # fmt: skip
    """Each channel of a sample normalized; see InstanceNorm1d and InstanceNorm2d."""
    kind = {4: InstanceNorm2d, 5: InstanceNorm3d}.get(len(input.shape), InstanceNorm1d)
    layer = kind(None, eps, momentum, False, running_mean is not None)
    return _with_statistics(input, layer, running_mean, running_var, "instance_norm", weight=weight, bias=bias)


def _with_statistics(input: TensorLike, layer: Any, mean: Any, variance: Any, who: str, **parameters: Any) -> Any:
    if (mean is None) != (variance is None):
        raise ValueError(f"{who}: running_mean and running_var belong together. Give both, or neither.")
    if mean is not None:
        layer.register_buffer("running_mean", mean)
        layer.register_buffer("running_var", variance)
    return _with_parameters(input, layer, who, **parameters)


PadMode = Literal["constant", "reflect", "replicate", "circular"]
ResizeMode = Literal["nearest", "nearest-exact", "linear", "bilinear", "bicubic", "trilinear"]


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
    """Signals, images or volumes sampled anew; see Upsample.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.functional.interpolate(np.float32([[[0, 4]]]), scale_factor=2, mode="linear").tolist()
    [[[0.0, 1.0, 3.0, 4.0]]]
    """
    layer = Upsample(size, scale_factor, mode, align_corners, recompute_scale_factor)
    return layer(numbers(input, "interpolate"))


@function
def pixel_shuffle(input: TensorLike, upscale_factor: int) -> Any:
    """Channels as pixels; see PixelShuffle."""
    return PixelShuffle(upscale_factor)(numbers(input, "pixel_shuffle"))


@function
def pixel_unshuffle(input: TensorLike, downscale_factor: int) -> Any:
    """Pixels as channels; see PixelUnshuffle."""
    return PixelUnshuffle(downscale_factor)(numbers(input, "pixel_unshuffle"))


@function
def channel_shuffle(input: TensorLike, groups: int) -> Any:
    """Channels of all groups in turn; see ChannelShuffle."""
    return ChannelShuffle(groups)(numbers(input, "channel_shuffle"))


@function
def max_pool1d(
    input: TensorLike, kernel_size: Pair, stride: Pair | None = None, padding: Pair = 0, dilation: Pair = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """The largest value of every window of a signal; see MaxPool1d."""
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
    layer = MaxPool2d(kernel_size, stride, padding, dilation, return_indices, ceil_mode)
    return layer(numbers(input, "max_pool2d"))


@function
def max_pool3d(
    input: TensorLike, kernel_size: Pair, stride: Pair | None = None, padding: Pair = 0, dilation: Pair = 1,
    ceil_mode: bool = False,
) -> Any:  # fmt: skip
    """The largest value of every window of a volume; see MaxPool3d."""
    return MaxPool3d(kernel_size, stride, padding, dilation, False, ceil_mode)(numbers(input, "max_pool3d"))


@function
def avg_pool1d(
    input: TensorLike, kernel_size: Pair, stride: Pair | None = None, padding: Pair = 0, ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Any:  # fmt: skip
    """The mean of every window of a signal; see AvgPool1d."""
    return AvgPool1d(kernel_size, stride, padding, ceil_mode, count_include_pad)(numbers(input, "avg_pool1d"))


@function
def avg_pool2d(
    input: TensorLike, kernel_size: Pair, stride: Pair | None = None, padding: Pair = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None,
) -> Any:  # fmt: skip
    """The mean of every window of an image; see AvgPool2d."""
    layer = AvgPool2d(kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
    return layer(numbers(input, "avg_pool2d"))


@function
def avg_pool3d(
    input: TensorLike, kernel_size: Pair, stride: Pair | None = None, padding: Pair = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None,
) -> Any:  # fmt: skip
    """The mean of every window of a volume; see AvgPool3d."""
    layer = AvgPool3d(kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
    return layer(numbers(input, "avg_pool3d"))


@function
def lp_pool1d(
    input: TensorLike, norm_type: float, kernel_size: Pair, stride: Pair | None = None, ceil_mode: bool = False
) -> Any:
    """The p-norm of every window of a signal; see LPPool1d."""
    return LPPool1d(norm_type, kernel_size, stride, ceil_mode)(numbers(input, "lp_pool1d"))


@function
def lp_pool2d(
    input: TensorLike, norm_type: float, kernel_size: Pair, stride: Pair | None = None, ceil_mode: bool = False
) -> Any:
    """The p-norm of every window of an image; see LPPool2d."""
    return LPPool2d(norm_type, kernel_size, stride, ceil_mode)(numbers(input, "lp_pool2d"))


@function
def adaptive_avg_pool1d(input: TensorLike, output_size: Any) -> Any:
    """The means of so many parts of a signal; see AdaptiveAvgPool1d."""
    return AdaptiveAvgPool1d(output_size)(numbers(input, "adaptive_avg_pool1d"))


@function
def adaptive_avg_pool2d(input: TensorLike, output_size: Any) -> Any:
    """The means of so many parts of an image; see AdaptiveAvgPool2d."""
    return AdaptiveAvgPool2d(output_size)(numbers(input, "adaptive_avg_pool2d"))


@function
def adaptive_avg_pool3d(input: TensorLike, output_size: Any) -> Any:
    """The means of so many parts of a volume; see AdaptiveAvgPool3d."""
    return AdaptiveAvgPool3d(output_size)(numbers(input, "adaptive_avg_pool3d"))


@function
def adaptive_max_pool1d(input: TensorLike, output_size: Any, return_indices: bool = False) -> Any:
    """The largest values of so many parts of a signal; see AdaptiveMaxPool1d."""
    return AdaptiveMaxPool1d(output_size, return_indices)(numbers(input, "adaptive_max_pool1d"))


@function
def adaptive_max_pool2d(input: TensorLike, output_size: Any, return_indices: bool = False) -> Any:
    """The largest values of so many parts of an image; see AdaptiveMaxPool2d."""
    return AdaptiveMaxPool2d(output_size, return_indices)(numbers(input, "adaptive_max_pool2d"))


@function
def adaptive_max_pool3d(input: TensorLike, output_size: Any) -> Any:
    """The largest values of so many parts of a volume; see AdaptiveMaxPool3d."""
    return AdaptiveMaxPool3d(output_size)(numbers(input, "adaptive_max_pool3d"))


@function
def max_unpool1d(
    input: TensorLike, indices: TensorLike, kernel_size: Pair, stride: Pair | None = None, padding: Pair = 0,
    output_size: Any = None,
) -> Any:  # fmt: skip
    """Values where the indices of a maximum pooling say, zeros elsewhere; see MaxUnpool1d."""
    return MaxUnpool1d(kernel_size, stride, padding)(numbers(input, "max_unpool1d"), indices, output_size=output_size)


@function
def max_unpool2d(
    input: TensorLike, indices: TensorLike, kernel_size: Pair, stride: Pair | None = None, padding: Pair = 0,
    output_size: Any = None,
) -> Any:  # fmt: skip
    """Values where the indices of a maximum pooling say, zeros elsewhere; see MaxUnpool2d."""
    return MaxUnpool2d(kernel_size, stride, padding)(numbers(input, "max_unpool2d"), indices, output_size=output_size)


def conv1d(
    input: TensorLike, weight: Any, bias: Any = None, stride: Pair = 1, padding: Any = 0, dilation: Pair = 1,
    groups: int = 1,
) -> Any:  # fmt: skip
    """Convolution of signals with ``weight`` (O, C / groups, K) and ``bias`` (O,); see Conv1d."""
    return _convolution(Conv1d, input, weight, bias, stride, padding, dilation, groups)


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
    return _convolution(Conv2d, input, weight, bias, stride, padding, dilation, groups)


def conv3d(
    input: TensorLike, weight: Any, bias: Any = None, stride: Pair = 1, padding: Any = 0, dilation: Pair = 1,
    groups: int = 1,
) -> Any:  # fmt: skip
    """Convolution of volumes with ``weight`` (O, C / groups, KD, KH, KW) and ``bias`` (O,); see Conv3d."""
    return _convolution(Conv3d, input, weight, bias, stride, padding, dilation, groups)


def conv_transpose1d(
    input: TensorLike, weight: Any, bias: Any = None, stride: Pair = 1, padding: Pair = 0, output_padding: Pair = 0,
    groups: int = 1, dilation: Pair = 1,
) -> Any:  # fmt: skip
    """Transposed convolution of signals with ``weight`` (C, O / groups, K); see ConvTranspose1d."""
    return _transposed(ConvTranspose1d, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose2d(
    input: TensorLike, weight: Any, bias: Any = None, stride: Pair = 1, padding: Pair = 0, output_padding: Pair = 0,
    groups: int = 1, dilation: Pair = 1,
) -> Any:  # fmt: skip
    """Transposed convolution of images with ``weight`` (C, O / groups, KH, KW); see ConvTranspose2d."""
    return _transposed(ConvTranspose2d, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose3d(
    input: TensorLike, weight: Any, bias: Any = None, stride: Pair = 1, padding: Pair = 0, output_padding: Pair = 0,
    groups: int = 1, dilation: Pair = 1,
) -> Any:  # fmt: skip
    """Transposed convolution of volumes with ``weight`` (C, O / groups, KD, KH, KW); see ConvTranspose3d."""
    return _transposed(ConvTranspose3d, input, weight, bias, stride, padding, output_padding, groups, dilation)
