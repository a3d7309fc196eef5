"""Pooling of signals (channels, length) and images (channels, height, width). Pairs are (vertical, horizontal)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from .. import PoolingType
from . import operations
from ._checks import Pair, check_rank, per_axis, positive
from ._value import Array, Value
from .module import Module

_AXES = {1: "(channels, length)", 2: "(channels, height, width)"}


class _Windows(Module):
    """Windows of ``kernel_size`` that move by ``stride``, which is the window unless given."""

    axes: ClassVar[int] = 2

    def __init__(self, kernel_size: Pair, stride: Pair | None, padding: Pair, dilation: Pair, ceil_mode: bool) -> None:
        super().__init__()
        who = type(self).__name__
        self.kernel_size = per_axis(kernel_size, self.axes, f"{who}: kernel_size", 1)
        self.stride = self.kernel_size if stride is None else per_axis(stride, self.axes, f"{who}: stride", 1)
        self.padding = per_axis(padding, self.axes, f"{who}: padding", 0)
        self.dilation = per_axis(dilation, self.axes, f"{who}: dilation", 1)
        self.ceil_mode = bool(ceil_mode)
        if any(2 * p > extent for p, extent in zip(self.padding, self._extents(), strict=True)):
            raise ValueError(
                f"{who}: padding {self.padding} is more than half of the window {self.kernel_size}. Use less."
            )

    def _extents(self) -> list[int]:
        """What a window covers along each axis."""
        return [d * (k - 1) + 1 for k, d in zip(self.kernel_size, self.dilation, strict=True)]

    def _window(self) -> operations.Window:
        edges = tuple((p, p) for p in self.padding)
        return operations.Window(self.kernel_size, self.stride, self.dilation, edges)

    def _output_shape(self, x: Value) -> tuple[int, ...]:
        who = type(self).__name__
        check_rank(who, x, self.axes + 1, _AXES[self.axes])
        sizes = []
        for n, extent, s, p in zip(x.sample[1:], self._extents(), self.stride, self.padding, strict=True):
            room = n + 2 * p - extent
            count = (room + (s - 1 if self.ceil_mode else 0)) // s + 1
            if self.ceil_mode and (count - 1) * s >= n + p:
                count -= 1  # a window that starts in the padding behind the image
            sizes.append(count if room >= 0 or self.ceil_mode else 0)
        if min(sizes) < 1:
            kind = "an image of {} x {}" if self.axes == 2 else "a signal of length {}"
            raise ValueError(
                f"{who}: {kind.format(*x.sample[1:])} is smaller than the window {self.kernel_size}. Use larger inputs or "
                "smaller windows."
            )
        return (x.sample[0], *sizes)

    def extra_repr(self) -> str:
        parts = [f"kernel_size={self.kernel_size}"]
        for name, default in (
            ("stride", self.kernel_size), ("padding", (0,) * self.axes), ("dilation", (1,) * self.axes), ("ceil_mode", False),
        ):  # fmt: skip
            if getattr(self, name) != default:
                parts.append(f"{name}={getattr(self, name)}")
        return ", ".join(parts)


class _MaxPool(_Windows):
    def __init__(
        self, kernel_size: Pair, stride: Pair | None = None, padding: Pair = 0, dilation: Pair = 1,
        return_indices: bool = False, ceil_mode: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(kernel_size, stride, padding, dilation, ceil_mode)
        self.return_indices = bool(return_indices)

    def forward(self, *inputs: Value) -> Any:
        (x,) = inputs
        shape, window = self._output_shape(x), self._window()
        if self.return_indices:
            operation = operations.MaxPoolingWithIndices(x, shape, window)
            x.graph.append(operation)
            return tuple(operation.outputs)
        across, down = window.dilations
        kind = PoolingType.max(x_dilation_stride=across, y_dilation_stride=down)
        return x.graph.append(operations.Pooling(x, kind, shape, window))


class MaxPool2d(_MaxPool):
    """The largest value of every window; ``stride`` is the window unless given.

    With ``ceil_mode`` windows may hang over the end of the image. With ``return_indices`` the result is the values and
    where they stand, row * width + column, which MaxUnpool2d takes.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> x = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    >>> nn.MaxPool2d(2)(x).tolist()
    [[[[5.0, 7.0], [13.0, 15.0]]]]
    >>> values, indices = nn.MaxPool2d(2, return_indices=True)(x)
    >>> indices.tolist()
    [[[[5, 7], [13, 15]]]]
    """


class MaxPool1d(_MaxPool):
    """The largest value of every window of a signal; options as of MaxPool2d.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.MaxPool1d(3, stride=2)(np.float32([[[3, 1, 4, 1, 5]]])).tolist()
    [[[4.0, 5.0]]]
    """

    axes = 1


class _AvgPool(_Windows):
    count_include_pad = True
    divisor_override: int | None = None

    def forward(self, *inputs: Value) -> Value:
        (x,) = inputs
        shape, window = self._output_shape(x), self._window()
        divided = self.count_include_pad or self.divisor_override is not None
        kind = PoolingType.average(count_includes_padding=divided)
        factors = self._factors(x, shape) if divided else None
        return x.graph.append(operations.Pooling(x, kind, shape, window, factors))

    def _factors(self, x: Value, shape: tuple[int, ...]) -> Array | float | None:
        """What multiplies a sum over the whole window, divided by its size: PyTorch divides by less at the end."""
        if self.divisor_override is not None:
            return math.prod(self.kernel_size) / self.divisor_override
        return overhang(x.sample, shape, self.kernel_size, self.stride, self.padding)


def overhang(
    sample: Sequence[int], shape: Sequence[int], kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int]
) -> Array | None:
    """The size of a window over that of its part on the padded image, for every window; None if all are whole."""
    factors: Array = np.ones((), np.float32)
    for n, count, k, s, p in zip(sample[1:], shape[1:], kernel, stride, padding, strict=True):
        starts = np.arange(count) * s - p
        inside = np.minimum(starts + k, n + p) - starts
        factors = factors[..., None] * (k / inside).astype(np.float32)
    return None if (factors == 1).all() else factors


class AvgPool2d(_AvgPool):
    """The mean of every window; zeros of the padding count unless ``count_include_pad`` is False.

    ``divisor_override`` is what the sum is divided by in place of the number of elements.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.AvgPool2d(2)(np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)).tolist()
    [[[[2.5, 4.5], [10.5, 12.5]]]]
    """

    def __init__(
        self, kernel_size: Pair, stride: Pair | None = None, padding: Pair = 0, ceil_mode: bool = False,
        count_include_pad: bool = True, divisor_override: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(kernel_size, stride, padding, 1, ceil_mode)
        self.count_include_pad = bool(count_include_pad)
        self.divisor_override = (
            None if divisor_override is None else positive(divisor_override, "AvgPool2d: divisor_override")
        )


class AvgPool1d(_AvgPool):
    """The mean of every window of a signal; zeros of the padding count unless ``count_include_pad`` is False.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.AvgPool1d(3, stride=2)(np.float32([[[3, 0, 6, 1, 5]]])).tolist()
    [[[3.0, 4.0]]]
    """

    axes = 1

    def __init__(
        self, kernel_size: Pair, stride: Pair | None = None, padding: Pair = 0, ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(kernel_size, stride, padding, 1, ceil_mode)
        self.count_include_pad = bool(count_include_pad)


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
