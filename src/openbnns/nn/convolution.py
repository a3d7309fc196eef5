"""Convolutions of signals (channels, length), images (channels, height, width) and volumes (channels, depth, height, width).

Pairs are (vertical, horizontal). Volumes are stacks of images: the frames below a window become channels of one image.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, overload

import numpy as np

from ..graph import functions, operations
from ..graph.checks import Pair, per_axis
from ..graph.functions.windows import unwindowed, windows_along
from ..graph.parameter import Parameter
from ..graph.sizes import AnySize, are_at_least, number_of
from ..graph.tensor import Array, Tensor
from . import initialisers
from .arguments import check_rank, check_size, first_may_be_omitted, optional, options, positive
from .initialisers import Initial
from .module import Layer

PaddingName = Literal["same", "valid"]
PaddingModeName = Literal["zeros", "reflect", "replicate", "circular"]
AXES = {1: "(channels, length)", 2: "(channels, height, width)", 3: "(channels, depth, height, width)"}
_KINDS = {
    1: "a signal of length {}",
    2: "an image of {} x {} (height x width)",
    3: "a volume of {} x {} x {} (depth first)",
}


class _AnyConvolution(Layer):
    """The base of convolutions and transposed convolutions, over one to three axes."""

    axes: ClassVar[int] = 2
    transposed: ClassVar[bool] = False

    def _set_up(
        self,
        in_channels: int | None,
        out_channels: int,
        kernel_size: Pair,
        stride: Pair,
        padding: Pair | PaddingName,
        dilation: Pair,
        groups: int,
        bias: bool,
        padding_mode: PaddingModeName,
        weight_init: Initial | None,
        bias_init: Initial | None,
    ) -> None:
        super().__init__()
        who = type(self).__name__
        self.in_channels = optional(in_channels, f"{who}: in_channels")
        self.out_channels = positive(out_channels, f"{who}: out_channels")
        self.kernel_size = per_axis(kernel_size, self.axes, f"{who}: kernel_size", 1)
        self.stride = per_axis(stride, self.axes, f"{who}: stride", 1)
        self.dilation = per_axis(dilation, self.axes, f"{who}: dilation", 1)
        self.groups = positive(groups, f"{who}: groups")
        self.padding = self._checked_padding(padding, who)
        modes = ("zeros",) if self.transposed else ("zeros", *operations.PADDINGS)
        if padding_mode not in modes:
            raise ValueError(f"{who}: padding_mode is {padding_mode!r}. Use {' or '.join(map(repr, modes))}.")
        self.padding_mode = padding_mode
        self.use_bias, self.weight_init, self.bias_init = bool(bias), weight_init, bias_init
        if self.in_channels is not None:
            self._check_groups(self.in_channels)
        self.weight = Parameter.of(self, "weight")
        self.bias = Parameter.of(self, "bias") if self.use_bias else None

    def _checked_padding(self, padding: Pair | PaddingName, who: str) -> tuple[int, ...] | str:
        if not isinstance(padding, str):
            return per_axis(padding, self.axes, f"{who}: padding", 0)
        if self.transposed or padding not in ("same", "valid"):
            words = "" if self.transposed else ", 'same' or 'valid'"
            raise ValueError(f"{who}: padding is {padding!r}. Pass numbers{words}.")
        if padding == "same" and max(self.stride) > 1:
            raise ValueError(
                f"{who}: padding 'same' with stride {self.stride} is not possible, because a stride makes the output smaller. "
                "Pass numbers, or use stride 1."
            )
        return padding

    def _edges(self) -> list[tuple[int, int]]:
        """The padding before and after every axis; if 'same' needs an odd number, the extra one goes behind."""
        if self.padding == "valid":
            return [(0, 0)] * self.axes
        if self.padding == "same":
            totals = [d * (k - 1) for k, d in zip(self.kernel_size, self.dilation, strict=True)]
            return [(n // 2, n - n // 2) for n in totals]
        return [(int(n), int(n)) for n in self.padding]

    def _check_groups(self, channels: int) -> None:
        if channels % self.groups or self.out_channels % self.groups:
            raise ValueError(
                f"{type(self).__name__}: {self.groups} groups do not divide {channels} input and {self.out_channels} output "
                "channels. Choose a number that divides both."
            )

    def _initial(self, name: str, shape: tuple[int, ...], generator: np.random.RandomState) -> Array:
        choice = self.weight_init if name == "weight" else self.bias_init
        window = shape if self.in_channels is None else self._weights_shape(self.in_channels)
        return initialisers.find(choice, initialisers.fan_in_uniform(math.prod(window[1:])))(shape, generator)

    def _shape_of(self, name: str) -> tuple[int, ...] | None:
        if self.in_channels is None:
            return None
        return self._weights_shape(self.in_channels) if name == "weight" else (self.out_channels,)

    def _weights_shape(self, channels: int) -> tuple[int, ...]:
        return (self.out_channels, channels // self.groups, *self.kernel_size)

    def _output_size(self, size: AnySize, axis: int) -> AnySize:
        extent = self.dilation[axis] * (self.kernel_size[axis] - 1) + 1
        return (size + sum(self._edges()[axis]) - extent) // self.stride[axis] + 1

    def forward(self, input: Tensor) -> Tensor:
        x = self.checked(input)
        channels = int(x.shape[1])
        weight = self._fit("weight", self._weights_shape(channels), x.graph.generator)
        bias = self._fit_optional("bias", (self.out_channels,), x.graph.generator)
        return self.applied(x, weight, bias)

    def checked(self, x: Tensor) -> Tensor:
        """The input, if it has the axes and channels that this layer takes."""
        who = type(self).__name__
        check_rank(who, x, self.axes + 1, AXES[self.axes])
        channels, image = int(x.shape[1]), x.shape[2:]
        check_size(who, "channels", self.in_channels, channels, last=number_of(x.shape[-1]))
        self._check_groups(channels)
        sizes = [self._output_size(n, axis) for axis, n in enumerate(image)]
        if not are_at_least(1, sizes):
            change = "less" if self.transposed else "more"
            raise ValueError(
                f"{who}: {_KINDS[self.axes].format(*image)} leaves nothing with kernel {self.kernel_size} and padding "
                f"{self.padding}. Use larger inputs, {change} padding or smaller kernels."
            )
        self.in_channels = channels
        return x

    def applied(self, x: Tensor, weight: Parameter | Tensor, bias: Parameter | Tensor | None) -> Tensor:
        """The convolution of a value with this weight and bias: both parameters, or both values."""
        who = type(self).__name__
        edges, sizes = self._edges(), [self._output_size(n, axis) for axis, n in enumerate(x.shape[2:])]
        if self.padding_mode != "zeros" and any(map(any, edges)):
            x = operations.pad(x, [(0, 0), (0, 0), *edges], self.padding_mode, f"{who}: padding")
            edges = [(0, 0)] * self.axes
        if self.axes == 3:
            result: Tensor = self._of_volumes(x, weight, bias, edges, sizes)
            return result
        window = operations.Window(self.kernel_size, self.stride, self.dilation, tuple(edges))
        return self._recorded(x, weight, bias, (x.shape[0], self.out_channels, *sizes), window)

    def _recorded(
        self,
        x: Tensor,
        weight: Parameter | Tensor,
        bias: Parameter | Tensor | None,
        shape: tuple[AnySize, ...],
        window: operations.Window,
    ) -> Tensor:
        if self.transposed and self.groups > 1:
            return x.graph.append(operations.GroupedTransposedConvolution(x, weight, bias, shape, window, self.groups))
        return x.graph.append(operations.Convolution(x, weight, bias, shape, window, self.groups, self.transposed))

    def _of_volumes(
        self,
        x: Tensor,
        weight: Parameter | Tensor,
        bias: Parameter | Tensor | None,
        edges: list[tuple[int, int]],
        sizes: Sequence[AnySize],
    ) -> Any:
        """A convolution of images for each depth, whose channels are those of all frames in its window."""
        kernels, added = (x.graph.value(given) for given in (weight, bias))
        count, frames = x.shape[0], self.kernel_size[0]
        kernels = kernels.reshape((kernels.shape[0], kernels.shape[1] * frames, *kernels.shape[3:]))
        stride, dilation = self.stride[0], self.dilation[0]
        window = operations.Window(self.kernel_size[1:], self.stride[1:], self.dilation[1:], tuple(edges[1:]))
        if self.transposed:
            depth = x.shape[2]
            images = functions.permute(x, 0, 2, 1, 3, 4).reshape((count * depth, x.shape[1], *x.shape[3:]))
            channels = self.out_channels * frames
            y = self._recorded(images, kernels, None, (count * depth, channels, *sizes[1:]), window)
            y = functions.permute(y.reshape((count, depth, self.out_channels, frames, *sizes[1:])), 0, 2, 3, 1, 4, 5)
            y = unwindowed(y, 2, sizes[0] + sum(edges[0]), stride, dilation)
            y = operations.pad(y, [(0, 0), (0, 0), (-edges[0][0], -edges[0][1]), (0, 0), (0, 0)], "constant", "padding")
            return y if added is None else functions.add(y, added.reshape((self.out_channels, 1, 1, 1)))
        x = operations.pad(x, [(0, 0), (0, 0), edges[0], (0, 0), (0, 0)], "constant", "padding")
        stacks = functions.permute(windows_along(x, 2, frames, stride, dilation), 0, 3, 1, 2, 4, 5)
        images = stacks.reshape((count * sizes[0], x.shape[1] * frames, *x.shape[3:]))
        y = self._recorded(images, kernels, added, (count * sizes[0], self.out_channels, *sizes[1:]), window)
        return functions.permute(y.reshape((count, sizes[0], self.out_channels, *sizes[1:])), 0, 2, 1, 3, 4)

    def extra_repr(self) -> str:
        sizes = f"{self.in_channels or '?'}, {self.out_channels}, kernel_size={self.kernel_size}"
        return sizes + options(
            self, stride=1, padding=0, dilation=1, groups=1, padding_mode="zeros", bias=True, weight_init=None,
            bias_init=None,
        )  # fmt: skip


class _Convolution(_AnyConvolution):
    """The constructor of Conv1d, Conv2d and Conv3d."""

    @overload
    def __init__(
        self, out_channels: int, kernel_size: Pair, *, stride: Pair = 1,
        padding: Pair | PaddingName = 0, dilation: Pair = 1, groups: int = 1, bias: bool = True,
        padding_mode: PaddingModeName = "zeros", weight_init: Initial | None = None,
        bias_init: Initial | None = None,
    ) -> None: ...  # fmt: skip

    @overload
    def __init__(
        self, in_channels: int | None, out_channels: int, kernel_size: Pair, stride: Pair = 1,
        padding: Pair | PaddingName = 0, dilation: Pair = 1, groups: int = 1, bias: bool = True,
        padding_mode: PaddingModeName = "zeros", *, weight_init: Initial | None = None,
        bias_init: Initial | None = None,
    ) -> None: ...  # fmt: skip

    @first_may_be_omitted
    def __init__(
        self, in_channels: int | None, out_channels: int, kernel_size: Pair, stride: Pair = 1,
        padding: Pair | PaddingName = 0, dilation: Pair = 1, groups: int = 1, bias: bool = True,
        padding_mode: PaddingModeName = "zeros",
        *, weight_init: Initial | None = None, bias_init: Initial | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self._set_up(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, weight_init,
            bias_init,
        )  # fmt: skip


class Conv2d(_Convolution):
    """Convolution of images (C, H, W) -> (O, H', W'); ``weight`` is (O, C / groups, KH, KW), ``bias`` (O,).

    H' = floor((H + 2 padding - dilation (KH - 1) - 1) / stride) + 1, and W' likewise. ``padding`` may be "same" or "valid",
    ``padding_mode`` says what is added: zeros, or the image mirrored ("reflect"), its edge ("replicate") or its other side
    ("circular").

    >>> import numpy as np
    >>> from openbnns import nn
    >>> layer = nn.Conv2d(3, 8, 5, stride=2, padding=2)  # or Conv2d(8, 5): the input tells its channels
    >>> layer(np.zeros((4, 3, 28, 28), np.float32)).shape, layer.weight.shape
    ((4, 8, 14, 14), (8, 3, 5, 5))
    """


class Conv1d(_Convolution):
    """Convolution of signals (C, L) -> (O, L'); ``weight`` is (O, C / groups, K), ``bias`` (O,). Options as of Conv2d.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> layer = nn.Conv1d(3, 8, 5, stride=2, padding=2)  # or Conv1d(8, 5): the input tells its channels
    >>> layer(np.zeros((4, 3, 28), np.float32)).shape, layer.weight.shape
    ((4, 8, 14), (8, 3, 5))
    """

    axes = 1


class Conv3d(_Convolution):
    """Convolution of volumes (C, D, H, W) -> (O, D', H', W'); ``weight`` is (O, C / groups, KD, KH, KW). Options as of Conv2d.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> layer = nn.Conv3d(3, 8, (1, 3, 3), padding=(0, 1, 1))  # or Conv3d(8, (1, 3, 3)): the input tells its channels
    >>> layer(np.zeros((2, 3, 5, 7, 9), np.float32)).shape, layer.weight.shape
    ((2, 8, 5, 7, 9), (8, 3, 1, 3, 3))
    """

    axes = 3


class _TransposedConvolution(_AnyConvolution):
    """The constructor and the sizes of ConvTranspose1d, ConvTranspose2d and ConvTranspose3d."""

    transposed = True

    @overload
    def __init__(
        self, out_channels: int, kernel_size: Pair, *, stride: Pair = 1, padding: Pair = 0, output_padding: Pair = 0,
        groups: int = 1, bias: bool = True, dilation: Pair = 1, padding_mode: Literal["zeros"] = "zeros",
        weight_init: Initial | None = None, bias_init: Initial | None = None,
    ) -> None: ...  # fmt: skip

    @overload
    def __init__(
        self, in_channels: int | None, out_channels: int, kernel_size: Pair, stride: Pair = 1, padding: Pair = 0,
        output_padding: Pair = 0, groups: int = 1, bias: bool = True, dilation: Pair = 1,
        padding_mode: Literal["zeros"] = "zeros", *, weight_init: Initial | None = None,
        bias_init: Initial | None = None,
    ) -> None: ...  # fmt: skip

    @first_may_be_omitted
    def __init__(
        self, in_channels: int | None, out_channels: int, kernel_size: Pair, stride: Pair = 1, padding: Pair = 0,
        output_padding: Pair = 0, groups: int = 1, bias: bool = True, dilation: Pair = 1,
        padding_mode: Literal["zeros"] = "zeros",
        *, weight_init: Initial | None = None, bias_init: Initial | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self._set_up(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, weight_init,
            bias_init,
        )  # fmt: skip
        who = type(self).__name__
        self.output_padding = per_axis(output_padding, self.axes, f"{who}: output_padding", 0)
        for extra, step, spread in zip(self.output_padding, self.stride, self.dilation, strict=True):
            if extra >= max(step, spread):
                raise ValueError(
                    f"{who}: output_padding {self.output_padding} must be smaller than stride {self.stride} or dilation "
                    f"{self.dilation}."
                )

    def _output_size(self, size: AnySize, axis: int) -> AnySize:
        extent = self.dilation[axis] * (self.kernel_size[axis] - 1) + 1
        return self.stride[axis] * (size - 1) + extent - sum(self._edges()[axis]) + self.output_padding[axis]

    def _weights_shape(self, channels: int) -> tuple[int, ...]:
        return (channels, self.out_channels // self.groups, *self.kernel_size)

    def extra_repr(self) -> str:
        return super().extra_repr() + options(self, output_padding=0)


class ConvTranspose2d(_TransposedConvolution):
    """Transposed convolution, which enlarges images (C, H, W) -> (O, H', W'); ``weight`` is (C, O / groups, KH, KW).

    H' = stride (H - 1) + dilation (KH - 1) + 1 - 2 padding + output_padding.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.ConvTranspose2d(3, 2, stride=2)(np.zeros((4, 8, 14, 14), np.float32)).shape
    (4, 3, 28, 28)
    """


class ConvTranspose1d(_TransposedConvolution):
    """Transposed convolution, which enlarges signals (C, L) -> (O, L'); ``weight`` is (C, O / groups, K).

    L' = stride (L - 1) + dilation (K - 1) + 1 - 2 padding + output_padding.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.ConvTranspose1d(3, 2, stride=2)(np.zeros((4, 8, 14), np.float32)).shape
    (4, 3, 28)
    """

    axes = 1


class ConvTranspose3d(_TransposedConvolution):
    """Transposed convolution, which enlarges volumes (C, D, H, W) -> (O, D', H', W').

    ``weight`` is (C, O / groups, KD, KH, KW); D' = stride (D - 1) + dilation (KD - 1) + 1 - 2 padding + output_padding.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.ConvTranspose3d(3, 2, stride=2)(np.zeros((1, 8, 3, 4, 5), np.float32)).shape
    (1, 3, 6, 8, 10)
    """

    axes = 3
