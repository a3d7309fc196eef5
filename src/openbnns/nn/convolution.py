"""Convolutions of signals (channels, length), images (channels, height, width) and volumes (channels, depth, height, width).

Pairs are (vertical, horizontal).
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal, overload

import numpy as np

from ..graph import operations
from ..graph.checks import Pair, check_rank, check_size, per_axis, positive
from ..graph.functions import convolutions
from ..graph.functions.windows import AXES
from ..graph.operations import Window
from ..graph.parameter import Parameter
from ..graph.sizes import number_of
from ..graph.tensor import Array, Tensor
from . import initialisers
from .arguments import first_may_be_omitted, optional, options
from .initialisers import Initial
from .module import Layer

PaddingName = Literal["same", "valid"]
PaddingModeName = Literal["zeros", "reflect", "replicate", "circular"]


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
        convolutions.require_stride(who, padding, self.stride)
        return padding

    def _check_groups(self, channels: int) -> None:
        convolutions.check_groups(type(self).__name__, self.groups, channels, self.out_channels)

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

    def forward(self, input: Tensor) -> Any:
        x, who = input, type(self).__name__
        check_rank(who, x, self.axes + 1, AXES[self.axes])
        channels = int(x.shape[1])
        check_size(who, "channels", self.in_channels, channels, last=number_of(x.shape[-1]))
        self._check_groups(channels)
        before, self.in_channels = self.in_channels, channels  # from which initial values follow
        try:
            weight = self._fit("weight", self._weights_shape(channels), x.graph.generator)
            return self._applied(who, x, weight, self._fit_optional("bias", (self.out_channels,), x.graph.generator))
        except ValueError:
            self.in_channels = before
            raise

    def _applied(self, who: str, x: Tensor, weight: Parameter, bias: Parameter | None) -> Any:
        return convolutions.convolved(who, x, weight, bias, self._window(), self.groups, self.padding_mode)

    def _window(self) -> Window:
        kernel, stride, padding, dilation = self.kernel_size, self.stride, self.padding, self.dilation
        if isinstance(padding, str):
            return Window.of(type(self).__name__, kernel, stride, padding, dilation)
        return Window.symmetric(kernel, stride, padding, dilation)

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
        self.output_padding = per_axis(output_padding, self.axes, f"{type(self).__name__}: output_padding", 0)
        convolutions.require_output_padding(type(self).__name__, self.output_padding, self.stride, self.dilation)

    def _applied(self, who: str, x: Tensor, weight: Parameter, bias: Parameter | None) -> Any:
        return convolutions.convolved(who, x, weight, bias, self._window(), self.groups, extra=self.output_padding)

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
