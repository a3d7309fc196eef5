"""Pooling of signals (channels, length), images (channels, height, width) and volumes (channels, depth, height, width).

Pairs are (vertical, horizontal).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ..graph import functions
from ..graph.checks import Pair, check_rank, positive
from ..graph.functions import poolings
from ..graph.operations import Window
from ..graph.tensor import Tensor
from .arguments import options
from .module import Layer


class _Windows(Layer):
    """Windows of ``kernel_size`` that move by ``stride``, which is the window unless given."""

    axes: ClassVar[int] = 2
    _further: ClassVar[dict[str, Any]] = {}  # options of a kind of windows, with their defaults

    def __init__(self, kernel_size: Pair, stride: Pair | None, padding: Pair, dilation: Pair, ceil_mode: bool) -> None:
        super().__init__()
        who = type(self).__name__
        window = poolings.plain_window(who, self.axes, kernel_size, stride, padding, dilation, ceil_mode)
        self.kernel_size, self.stride, self.dilation, self.ceil_mode = (
            window.kernel,
            window.stride,
            window.dilation,
            window.ceil,
        )
        self.padding = tuple(front for front, _ in window.edges)

    @property
    def _window(self) -> Window:
        return Window.symmetric(self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}" + options(
            self, stride=self.kernel_size, padding=0, dilation=1, ceil_mode=False, **self._further
        )


class _MaxPool(_Windows):
    _further: ClassVar[dict[str, Any]] = {"return_indices": False}

    def __init__(
        self, kernel_size: Pair, stride: Pair | None = None, padding: Pair = 0, dilation: Pair = 1,
        return_indices: bool = False, ceil_mode: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(kernel_size, stride, padding, dilation, ceil_mode)
        poolings.require_no_indices(type(self).__name__, self.axes, return_indices)
        self.return_indices = bool(return_indices)

    def forward(self, input: Tensor) -> Any:
        return poolings.max_pooled(type(self).__name__, input, self._window, self.return_indices)


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


class MaxPool3d(_MaxPool):
    """The largest value of every window of a volume (C, D, H, W); options as of MaxPool2d, without ``return_indices``.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.MaxPool3d(2)(np.arange(8, dtype=np.float32).reshape(1, 1, 2, 2, 2)).tolist()
    [[[[[7.0]]]]]
    """

    axes = 3


class _AvgPool(_Windows):
    _further: ClassVar[dict[str, Any]] = {"count_include_pad": True, "divisor_override": None}
    count_include_pad = True
    divisor_override: int | None = None

    def __init__(
        self, kernel_size: Pair, stride: Pair | None = None, padding: Pair = 0, ceil_mode: bool = False,
        count_include_pad: bool = True, divisor_override: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(kernel_size, stride, padding, 1, ceil_mode)
        self.count_include_pad = bool(count_include_pad)
        who = f"{type(self).__name__}: divisor_override"
        self.divisor_override = None if divisor_override is None else positive(divisor_override, who)

    def forward(self, input: Tensor) -> Any:
        divided = (self.count_include_pad, self.divisor_override)
        return poolings.avg_pooled(type(self).__name__, input, self._window, *divided)


class AvgPool2d(_AvgPool):
    """The mean of every window; zeros of the padding count unless ``count_include_pad`` is False.

    ``divisor_override`` divides the sum in place of the number of elements.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.AvgPool2d(2)(np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)).tolist()
    [[[[2.5, 4.5], [10.5, 12.5]]]]
    """


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
        super().__init__(kernel_size, stride, padding, ceil_mode, count_include_pad)


class AvgPool3d(_AvgPool):
    """The mean of every window of a volume (C, D, H, W); options as of AvgPool2d.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.AvgPool3d((1, 2, 2))(np.arange(8, dtype=np.float32).reshape(1, 1, 2, 2, 2)).tolist()
    [[[[[1.5]], [[5.5]]]]]
    """

    axes = 3


class GlobalAvgPool2d(Layer):
    """The mean of every channel: (C, H, W) -> (C,).

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.GlobalAvgPool2d()(np.arange(8, dtype=np.float32).reshape(1, 2, 2, 2)).tolist()
    [[1.5, 5.5]]
    """

    def forward(self, input: Tensor) -> Tensor:
        x = input
        check_rank("GlobalAvgPool2d", x, 3, "(channels, height, width)")
        means: Tensor = functions.mean(x, (2, 3))
        return means


class _Adaptive(Layer):
    """Windows that divide every axis into as many parts as ``output_size`` says; None keeps the size of an axis.

    Part i of m begins at floor(i n / m) and ends before ceil((i + 1) n / m).
    """

    axes: ClassVar[int] = 2
    _further: ClassVar[dict[str, Any]] = {}

    def __init__(self, output_size: int | Sequence[int | None] | None) -> None:
        super().__init__()
        self.output_size = poolings.output_sizes(type(self).__name__, self.axes, output_size)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}" + options(self, **self._further)


class _AdaptiveAvg(_Adaptive):
    def forward(self, input: Tensor) -> Any:
        return poolings.adaptive_avg_pool(type(self).__name__, self.axes, input, self.output_size)


class AdaptiveAvgPool2d(_AdaptiveAvg):
    """The means of parts of an image, as many as ``output_size`` says: (C, H, W) -> (C, H', W'), whatever H and W are.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> x = np.arange(12, dtype=np.float32).reshape(1, 1, 3, 4)
    >>> nn.AdaptiveAvgPool2d(1)(x).tolist(), nn.AdaptiveAvgPool2d((2, None))(x).shape
    ([[[[5.5]]]], (1, 1, 2, 4))
    """


class AdaptiveAvgPool1d(_AdaptiveAvg):
    """The means of parts of a signal: (C, L) -> (C, output_size).

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.AdaptiveAvgPool1d(2)(np.float32([[[1, 3, 8]]])).tolist()
    [[[2.0, 5.5]]]
    """

    axes = 1


class AdaptiveAvgPool3d(_AdaptiveAvg):
    """The means of parts of a volume: (C, D, H, W) -> (C, D', H', W').

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.AdaptiveAvgPool3d((1, None, 2))(np.zeros((1, 3, 5, 6, 7), np.float32)).shape
    (1, 3, 1, 6, 2)
    """

    axes = 3


class _AdaptiveMax(_Adaptive):
    _further: ClassVar[dict[str, Any]] = {"return_indices": False}

    def __init__(self, output_size: int | Sequence[int | None] | None, return_indices: bool = False) -> None:
        super().__init__(output_size)
        poolings.require_no_indices(type(self).__name__, self.axes, return_indices)
        self.return_indices = bool(return_indices)

    def forward(self, input: Tensor) -> Any:
        return poolings.adaptive_max_pool(type(self).__name__, self.axes, input, self.output_size, self.return_indices)


class AdaptiveMaxPool2d(_AdaptiveMax):
    """The largest values of parts of an image, as many as ``output_size`` says: (C, H, W) -> (C, H', W').

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.AdaptiveMaxPool2d((1, 2))(np.arange(12, dtype=np.float32).reshape(1, 1, 3, 4)).tolist()
    [[[[9.0, 11.0]]]]
    """


class AdaptiveMaxPool1d(_AdaptiveMax):
    """The largest values of parts of a signal: (C, L) -> (C, output_size).

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.AdaptiveMaxPool1d(2)(np.float32([[[1, 3, 8]]])).tolist()
    [[[3.0, 8.0]]]
    """

    axes = 1


class AdaptiveMaxPool3d(_AdaptiveMax):
    """The largest values of parts of a volume: (C, D, H, W) -> (C, D', H', W').

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.AdaptiveMaxPool3d(1)(np.arange(8, dtype=np.float32).reshape(1, 1, 2, 2, 2)).tolist()
    [[[[[7.0]]]]]
    """

    axes = 3


class _LPPool(_Windows):
    def __init__(
        self, norm_type: float, kernel_size: Pair, stride: Pair | None = None, ceil_mode: bool = False
    ) -> None:
        super().__init__(kernel_size, stride, 0, 1, ceil_mode)
        self.norm_type = poolings.checked_norm(type(self).__name__, norm_type)

    def forward(self, input: Tensor) -> Any:
        window = (self.kernel_size, self.stride, self.ceil_mode)
        return poolings.lp_pool(type(self).__name__, self.axes, input, self.norm_type, *window)

    def extra_repr(self) -> str:
        return f"norm_type={self.norm_type:g}, {super().extra_repr()}"


class LPPool2d(_LPPool):
    """The p-norm of every window, (Σ xᵖ)^(1/p) with p = ``norm_type``; p = 1 is the sum.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.LPPool2d(2, (1, 2))(np.float32([[[[3, 4]]]])).tolist()
    [[[[5.0]]]]
    """


class LPPool1d(_LPPool):
    """The p-norm of every window of a signal, (Σ xᵖ)^(1/p) with p = ``norm_type``; p = 1 is the sum.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.LPPool1d(2, 2)(np.float32([[[3, 4, 6, 8]]])).tolist()
    [[[5.0, 10.0]]]
    """

    axes = 1


class _MaxUnpool(_Windows):
    def __init__(self, kernel_size: Pair, stride: Pair | None = None, padding: Pair = 0) -> None:
        super().__init__(kernel_size, stride, padding, 1, False)

    def forward(self, *inputs: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        who = type(self).__name__
        if len(inputs) != 2:
            raise TypeError(f"{who} takes two inputs: values, and the indices of a pooling with return_indices=True.")
        window = (self.kernel_size, self.stride, self.padding)
        result: Tensor = poolings.max_unpool(who, self.axes, *inputs, *window, output_size)
        return result


class MaxUnpool2d(_MaxUnpool):
    """The way back from MaxPool2d: values where its indices say, zeros elsewhere.

    Takes the values and the indices of ``MaxPool2d(return_indices=True)``; ``output_size`` tells the size of the image where
    several would give the same pooled one.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> class Peaks(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.pool, self.back = nn.MaxPool2d(2, return_indices=True), nn.MaxUnpool2d(2)
    ...     def forward(self, x):
    ...         values, indices = self.pool(x)
    ...         return self.back(values, indices)
    >>> Peaks()(np.float32([[[[1, 2], [4, 3]]]])).tolist()
    [[[[0.0, 0.0], [4.0, 0.0]]]]
    """


class MaxUnpool1d(_MaxUnpool):
    """The way back from MaxPool1d: values where its indices say, zeros elsewhere.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> values, indices = nn.MaxPool1d(2, return_indices=True)(np.float32([[[3, 1, 4, 5]]]))
    >>> nn.MaxUnpool1d(2)(values, indices).tolist()
    [[[3.0, 0.0, 0.0, 5.0]]]
    """

    axes = 1
