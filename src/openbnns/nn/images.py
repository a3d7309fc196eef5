"""Layers of images (channels, height, width): convolutions and pooling. Pairs are (vertical, horizontal)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import ConvolutionPadding, PoolingType
from . import initialisers, operations
from ._checks import Pair, check_rank, check_size, optional, positive, rows_and_columns
from ._value import Array, Value
from .choose import by_position
from .initialisers import Initialiser
from .module import Module
from .parameter import Parameter


class _Convolution(Module):
    transposed = False
    _order: tuple[str, ...] = ("stride", "padding", "dilation", "groups", "bias")  # PyTorch's, after the sizes

    def __init__(
        self,
        *sizes: Any,
        in_channels: int | None = None,
        out_channels: int | None = None,
        kernel_size: Pair | None = None,
        stride: Pair | None = None,
        padding: Pair | str | None = None,
        dilation: Pair | None = None,
        groups: int | None = None,
        bias: bool | None = None,
        weight_init: str | Initialiser | None = None,
        bias_init: str | Initialiser | None = None,
        output_padding: Pair | None = None,
    ) -> None:
        super().__init__()
        who = type(self).__name__
        if output_padding is not None and not self.transposed:
            raise TypeError(f"{who} has no output_padding, which belongs to ConvTranspose2d.")
        options: dict[str, tuple[Any, Any]] = {
            "stride": (stride, 1), "padding": (padding, 0), "dilation": (dilation, 1), "groups": (groups, 1),
            "bias": (bias, True), "output_padding": (output_padding, 0),
        }  # fmt: skip
        found, chosen = by_position(
            f"{who} takes (out_channels, kernel_size) or (in_channels, out_channels, kernel_size).", sizes,
            {"in_channels": in_channels, "out_channels": out_channels, "kernel_size": kernel_size},
            {name: options[name] for name in self._order},
        )  # fmt: skip
        self.in_channels = optional(found["in_channels"], f"{who}: in_channels")
        self.out_channels = positive(found["out_channels"], f"{who}: out_channels")
        self.kernel_size = rows_and_columns(found["kernel_size"], f"{who}: kernel_size")
        self.stride, self.dilation = (
            rows_and_columns(chosen[name], f"{who}: {name}") for name in ("stride", "dilation")
        )
        self.output_padding = rows_and_columns(chosen.get("output_padding", 0), f"{who}: output_padding")
        self.groups = positive(chosen["groups"], f"{who}: groups")
        self.padding = self._resolve_padding(chosen["padding"], who)
        self.use_bias, self.weight_init, self.bias_init = bool(chosen["bias"]), weight_init, bias_init
        self.weight = Parameter.of(self, "weight")
        self.bias = Parameter.of(self, "bias") if self.use_bias else None

    def _resolve_padding(self, padding: Pair | str, who: str) -> tuple[int, int]:
        if isinstance(padding, str):
            if padding == "valid":
                return 0, 0
            if padding == "same" and self.stride == (1, 1) and all(k % 2 for k in self.kernel_size):
                return tuple(d * (k - 1) // 2 for k, d in zip(self.kernel_size, self.dilation, strict=True))  # type: ignore[return-value]
            raise ValueError(
                f"{who}: padding {padding!r} with kernel {self.kernel_size} and stride {self.stride} is not possible. Pass "
                "numbers; 'same' needs odd kernels and stride 1."
            )
        return rows_and_columns(padding, f"{who}: padding")

    def _initial(self, name: str, shape: tuple[int, ...], generator: np.random.RandomState) -> Array:
        choice = self.weight_init if name == "weight" else self.bias_init
        window = shape if self.in_channels is None else self._weights_shape(self.in_channels)
        return initialisers.find(choice, initialisers.fan_in_uniform(math.prod(window[1:])))(shape, generator)

    def _output_size(self, size: int, axis: int) -> int:
        extent = self.dilation[axis] * (self.kernel_size[axis] - 1) + 1
        return (size + 2 * self.padding[axis] - extent) // self.stride[axis] + 1

    def _weights_shape(self, channels: int) -> tuple[int, ...]:
        return (self.out_channels, channels // self.groups, *self.kernel_size)

    def forward(self, *inputs: Value) -> Value:
        (x,) = inputs
        who = type(self).__name__
        check_rank(who, x, 3, "(channels, height, width)")
        channels, *image = x.sample
        check_size(who, "channels", self.in_channels, channels)
        if channels % self.groups or self.out_channels % self.groups:
            raise ValueError(
                f"{who}: {self.groups} groups do not divide {channels} input and {self.out_channels} output channels. "
                "Choose a number that divides both."
            )
        sizes = [self._output_size(n, axis) for axis, n in enumerate(image)]
        if min(sizes) < 1:
            raise ValueError(
                f"{who}: an image of {image[0]} x {image[1]} (height x width) leaves nothing with kernel {self.kernel_size} "
                f"and padding {self.padding}. Use larger images, more padding or smaller kernels."
            )
        self.in_channels = channels
        weight = self._fit("weight", self._weights_shape(channels), x.graph.generator)
        bias = self._fit_optional("bias", (self.out_channels,), x.graph.generator)
        options = {
            "stride": self.stride[::-1],
            "dilation_stride": self.dilation[::-1],
            "padding": ConvolutionPadding.symmetric(x=self.padding[1], y=self.padding[0]),
            "group_count": self.groups,
        }
        shape = (self.out_channels, *sizes)
        return x.graph.append(operations.Convolution(x.graph, x, weight, bias, shape, self.transposed, options))

    def extra_repr(self) -> str:
        parts = [f"{self.in_channels or '?'}, {self.out_channels}, kernel_size={self.kernel_size}"]
        for name, value, default in (
            ("stride", self.stride, (1, 1)), ("padding", self.padding, (0, 0)), ("dilation", self.dilation, (1, 1)),
            ("groups", self.groups, 1), ("bias", self.use_bias, True),
        ):  # fmt: skip
            if value != default:
                parts.append(f"{name}={value}")
        return ", ".join(parts)


class Conv2d(_Convolution):
    """Convolution of images (C, H, W) -> (O, H', W'); ``weight`` is (O, C / groups, KH, KW), ``bias`` (O,).

    H' = floor((H + 2 padding - dilation (KH - 1) - 1) / stride) + 1, and W' likewise. ``padding`` may be "same" or "valid".

    >>> import numpy as np
    >>> from openbnns import nn
    >>> layer = nn.Conv2d(3, 8, 5, stride=2, padding=2)  # or Conv2d(8, 5): the input tells its channels
    >>> layer(np.zeros((4, 3, 28, 28), np.float32)).shape, layer.weight.data.shape
    ((4, 8, 14, 14), (8, 3, 5, 5))
    """


class ConvTranspose2d(_Convolution):
    """Transposed convolution (C, H, W) -> (O, H', W'); ``weight`` is (C, O, KH, KW), ``bias`` (O,).

    H' = stride (H - 1) + dilation (KH - 1) + 1 - 2 padding + output_padding.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.ConvTranspose2d(8, 3, 2, stride=2)(np.zeros((4, 8, 14, 14), np.float32)).shape
    (4, 3, 28, 28)
    """

    transposed = True
    _order = ("stride", "padding", "output_padding", "groups", "bias", "dilation")

    def __init__(self, *sizes: Any, **options: Any) -> None:
        super().__init__(*sizes, **options)
        if self.groups != 1:
            raise ValueError("ConvTranspose2d: groups must be 1. BNNS has no transposed convolution in groups.")
        for extra, stride, dilation in zip(self.output_padding, self.stride, self.dilation, strict=True):
            if not 0 <= extra < max(stride, dilation):
                raise ValueError("ConvTranspose2d: output_padding must be smaller than stride or dilation.")

    def _output_size(self, size: int, axis: int) -> int:
        extent = self.dilation[axis] * (self.kernel_size[axis] - 1) + 1
        return self.stride[axis] * (size - 1) + extent - 2 * self.padding[axis] + self.output_padding[axis]

    def _weights_shape(self, channels: int) -> tuple[int, ...]:
        return (channels, self.out_channels, *self.kernel_size)


class _Pooling(Module):
    def __init__(self, kernel_size: Pair, stride: Pair | None = None, padding: Pair = 0) -> None:
        super().__init__()
        who = type(self).__name__
        self.kernel_size = rows_and_columns(kernel_size, f"{who}: kernel_size")
        self.stride = self.kernel_size if stride is None else rows_and_columns(stride, f"{who}: stride")
        self.padding = rows_and_columns(padding, f"{who}: padding")
        if any(2 * p > k for p, k in zip(self.padding, self.kernel_size, strict=True)):
            raise ValueError(
                f"{who}: padding {self.padding} is more than half of the window {self.kernel_size}. Use less."
            )

    def _type(self) -> PoolingType:
        raise NotImplementedError

    def forward(self, *inputs: Value) -> Value:
        (x,) = inputs
        who = type(self).__name__
        check_rank(who, x, 3, "(channels, height, width)")
        sizes = [
            (n + 2 * p - k) // s + 1
            for n, k, s, p in zip(x.sample[1:], self.kernel_size, self.stride, self.padding, strict=True)
        ]
        if min(sizes) < 1:
            raise ValueError(
                f"{who}: an image of {x.sample[1]} x {x.sample[2]} is smaller than the window {self.kernel_size}. Use larger "
                "images or smaller windows."
            )
        options = {
            "kernel_size": self.kernel_size[::-1],
            "stride": self.stride[::-1],
            "padding": ConvolutionPadding.symmetric(x=self.padding[1], y=self.padding[0]),
        }
        return x.graph.append(operations.Pooling(x.graph, x, self._type(), (x.sample[0], *sizes), options))

    def extra_repr(self) -> str:
        parts = [f"kernel_size={self.kernel_size}"]
        if self.stride != self.kernel_size:
            parts.append(f"stride={self.stride}")
        if self.padding != (0, 0):
            parts.append(f"padding={self.padding}")
        return ", ".join(parts)


class MaxPool2d(_Pooling):
    """The largest value of every window; ``stride`` is the window unless given.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.MaxPool2d(2)(np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)).tolist()
    [[[[5.0, 7.0], [13.0, 15.0]]]]
    """

    def _type(self) -> PoolingType:
        return PoolingType.max()


class AvgPool2d(_Pooling):
    """The mean of every window; zeros of the padding count unless ``count_include_pad`` is False.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.AvgPool2d(2)(np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)).tolist()
    [[[[2.5, 4.5], [10.5, 12.5]]]]
    """

    def __init__(
        self, kernel_size: Pair, stride: Pair | None = None, padding: Pair = 0, *, count_include_pad: bool = True
    ) -> None:
        super().__init__(kernel_size, stride, padding)
        self.count_include_pad = bool(count_include_pad)

    def _type(self) -> PoolingType:
        return PoolingType.average(count_includes_padding=self.count_include_pad)


class GlobalAvgPool2d(Module):
    """The mean of every channel: (C, H, W) -> (C,).

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.GlobalAvgPool2d()(np.arange(8, dtype=np.float32).reshape(1, 2, 2, 2)).tolist()
    [[1.5, 5.5]]
    """

    def forward(self, *inputs: Value) -> Value:
        (x,) = inputs
        check_rank("GlobalAvgPool2d", x, 3, "(channels, height, width)")
        pooled: Value = AvgPool2d(x.sample[1:])(x)
        return pooled.reshape(x.sample[0])
