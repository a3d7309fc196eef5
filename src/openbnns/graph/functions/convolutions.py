"""Convolutions of signals, images and volumes, and transposed ones.

Volumes are stacks of images: the frames below a window become channels of one image.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import operations
from ..checks import Pair, check_rank, check_size, per_axis, positive
from ..operations import Window
from ..parameter import Parameter
from ..sizes import AnySize, are_at_least, number_of
from ..tensor import Tensor
from .base import TensorLike, for_ranks, held_together, numbers
from .elementwise import add
from .shapes import permute
from .windows import AXES, IMAGES, unwindowed, windows_along

__all__ = [
    "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
]  # fmt: skip

_ORDER = {1: "length", 2: "height, width", 3: "depth, height, width"}


def conv(
    who: str, axes: int, input: TensorLike, weight: TensorLike, bias: TensorLike = None, stride: Pair = 1, padding: Any = 0,
    dilation: Pair = 1, groups: int = 1, padding_mode: str = "zeros",
) -> Any:  # fmt: skip
    """Convolution of {images} with ``weight`` (O, C / groups, {kernel}) and ``bias`` (O,); see Conv{axes}d.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> edges = np.float32([[[[-1, 1]]]])
    >>> nn.functional.conv2d(np.float32([[[[1, 1, 5]]]]), edges).tolist()
    [[[[0.0, 4.0]]]]
    """
    if padding == "same":
        require_stride(who, padding, per_axis(stride, axes, f"{who}: stride", 1))
    kernel = _kernel(weight, axes, f"{who}: weight", "out, in / groups")
    window = Window.of(who, kernel, stride, padding, dilation)
    return convolved(who, input, weight, bias, window, groups, padding_mode)


def conv_transpose(
    who: str, axes: int, input: TensorLike, weight: TensorLike, bias: TensorLike = None, stride: Pair = 1, padding: Pair = 0,
    output_padding: Pair = 0, groups: int = 1, dilation: Pair = 1,
) -> Any:  # fmt: skip
    """Transposed convolution of {images} with ``weight`` (C, O / groups, {kernel}); see ConvTranspose{axes}d."""
    kernel = _kernel(weight, axes, f"{who}: weight", "in, out / groups")
    window = Window.of(who, kernel, stride, padding, dilation)
    extra = per_axis(output_padding, axes, f"{who}: output_padding", 0)
    require_output_padding(who, extra, window.stride, window.dilation)
    return convolved(who, input, weight, bias, window, groups, extra=extra)


conv1d, conv2d, conv3d = for_ranks(conv)
conv_transpose1d, conv_transpose2d, conv_transpose3d = for_ranks(conv_transpose)


def _kernel(weight: Any, axes: int, who: str, channels: str) -> tuple[int, ...]:
    """The sizes of windows: those of weights behind their channels."""
    if not isinstance(weight, (Parameter, Tensor, np.ndarray)):
        raise TypeError(
            f"{who} is a {type(weight).__name__}. Pass an nn.Parameter, a value or an array that is not trained."
        )
    if len(weight.shape) != axes + 2:
        raise ValueError(f"{who} has shape {weight.shape}, but must be ({channels}, {_ORDER[axes]}).")
    return tuple(map(int, weight.shape[2:]))


def convolved(
    who: str, input: TensorLike, weight: TensorLike, bias: TensorLike, window: Window, groups: int = 1,
    padding_mode: str = "zeros", extra: Sequence[int] | None = None,
) -> Tensor:  # fmt: skip
    """Record a convolution; or a transposed one if ``extra`` gives the number of elements behind its last window."""
    x, axes = numbers(input, who), len(window.kernel)
    w, b = held_together(x.graph, weight, bias, who=who)
    check_rank(who, x, axes + 1, AXES[axes])
    channels, image, groups = int(x.shape[1]), x.shape[2:], positive(groups, f"{who}: groups")
    outputs, inputs = (w.shape[0], w.shape[1] * groups) if extra is None else (w.shape[1] * groups, w.shape[0])
    check_size(who, "channels", inputs, channels, last=number_of(x.shape[-1]))
    check_groups(who, groups, channels, outputs)
    if b is not None and (tuple(b.shape) != (outputs,)):
        raise ValueError(f"{who}: bias has shape {b.shape}, but ({outputs},) is needed.")
    outside = ((0, 0), (0, 0))
    if padding_mode != "zeros" and any(map(any, window.edges)):
        x, window = operations.pad(x, [*outside, *window.edges], padding_mode, f"{who}: padding"), window.inside
    if axes == 3:
        _require_results(
            who, window, image, window.counts(image) if extra is None else window.spread(image, extra), extra
        )
        kernels, added = (x.graph.parameter(v, own=False) if isinstance(v, Parameter) else v for v in (w, b))
        return _of_volumes(x, kernels, added, window, groups, extra)
    if extra is None:
        standard = operations.Convolution(x, w, b, window, groups)
        _require_results(who, window, image, standard.output.shape[2:], extra)
        return x.graph.append(standard)
    _require_results(who, window, image, window.spread(image, extra), extra)
    uneven = any(front != behind for front, behind in window.edges)  # BNNS has none: what is too much is cut off
    kind = operations.Convolution if groups == 1 else operations.GroupedTransposedConvolution
    y = x.graph.append(kind(x, w, b, window.inside if uneven else window, groups, tuple(extra)))
    return operations.pad(y, [*outside, *((-a, -b) for a, b in window.edges)], "constant", who) if uneven else y


def require_stride(who: str, padding: Any, stride: tuple[int, ...]) -> None:
    if padding == "same" and max(stride) > 1:
        raise ValueError(
            f"{who}: padding 'same' with stride {stride} is not possible, because a stride makes the output smaller. "
            "Pass numbers, or use stride 1."
        )


def require_output_padding(who: str, extra: Sequence[int], stride: Sequence[int], dilation: Sequence[int]) -> None:
    if any(n >= max(s, d) for n, s, d in zip(extra, stride, dilation, strict=True)):
        raise ValueError(f"{who}: output_padding {extra} must be smaller than stride {stride} or dilation {dilation}.")


def _require_results(
    who: str, window: Window, image: Sequence[AnySize], sizes: Sequence[AnySize], extra: Sequence[int] | None
) -> None:
    if not are_at_least(1, sizes):
        order = {1: "", 2: " (height x width)", 3: " (depth first)"}[len(image)]
        padding = tuple(a if a == b else (a, b) for a, b in window.edges)
        raise ValueError(
            f"{who}: {IMAGES[len(image)].format(*image)}{order} leaves nothing with kernel {window.kernel} and padding "
            f"{padding}. Use larger inputs, {'more' if extra is None else 'less'} padding or smaller kernels."
        )


def check_groups(who: str, groups: int, channels: int, outputs: int) -> None:
    if channels % groups or outputs % groups:
        raise ValueError(
            f"{who}: {groups} groups do not divide {channels} input and {outputs} output channels. Choose a number that divides "
            "both."
        )


def _of_volumes(
    x: Tensor, kernels: Tensor, bias: Tensor | None, window: Window, groups: int, extra: Sequence[int] | None
) -> Tensor:
    """A convolution of images for each depth, whose channels are those of all frames in its window."""
    count, frames, stride, dilation = x.shape[0], window.kernel[0], window.stride[0], window.dilation[0]
    (front, behind), flat = window.edges[0], window.along(slice(1, 3))
    merged = kernels.reshape((kernels.shape[0], kernels.shape[1] * frames, *kernels.shape[3:]))

    def around(y: Tensor, widths: tuple[int, int]) -> Tensor:
        return operations.pad(y, [(0, 0), (0, 0), widths, (0, 0), (0, 0)], "constant", "padding")

    if extra is not None:
        depth, outputs = x.shape[2], kernels.shape[1] * groups
        length = window.inside.spread(x.shape[2:], extra)[0]
        images = permute(x, 0, 2, 1, 3, 4).reshape((count * depth, x.shape[1], *x.shape[3:]))
        y = convolved("", images, merged, None, flat, groups, extra=extra[1:])
        y = permute(y.reshape((count, depth, outputs, frames, *y.shape[2:])), 0, 2, 3, 1, 4, 5)
        y = around(unwindowed(y, 2, length, stride, dilation), (-front, -behind))
        return y if bias is None else add(y, bias.reshape((outputs, 1, 1, 1)))
    x = around(x, (front, behind))
    stacks = permute(windows_along(x, 2, frames, stride, dilation), 0, 3, 1, 2, 4, 5)
    depth = stacks.shape[1]
    images = stacks.reshape((count * depth, x.shape[1] * frames, *x.shape[3:]))
    y = convolved("", images, merged, bias, flat, groups)
    y = y.reshape((count, depth, kernels.shape[0], *y.shape[2:]))
    result: Tensor = permute(y, 0, 2, 1, 3, 4)
    return result
