"""Pooling of signals (channels, length), images (channels, height, width) and volumes (channels, depth, height, width).

Pairs are (vertical, horizontal). Volumes are pooled frame by frame, and then along the depth.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from .. import PoolingType
from ..graph import functions, operations
from ..graph.checks import Pair, per_axis
from ..graph.sizes import AnySize, are_at_least, product
from ..graph.tensor import Array, Tensor
from .arguments import check_rank, options, positive
from .module import Layer
from .resize import resampled

_AXES = {1: "(channels, length)", 2: "(channels, height, width)", 3: "(channels, depth, height, width)"}
_KINDS = {1: "a signal of length {}", 2: "an image of {} x {}", 3: "a volume of {} x {} x {}"}


def _max(window: operations.Window) -> PoolingType:
    across, down = window.dilations
    return PoolingType.max(x_dilation_stride=across, y_dilation_stride=down)


def _pooled(
    x: Tensor,
    kind: Callable[[operations.Window], PoolingType],
    shape: Sequence[AnySize],
    window: operations.Window,
    factors: Callable[[Tensor, Sequence[AnySize], operations.Window], Array | float | None] = lambda *_: None,
) -> Tensor:
    """The pooling of a value to a shape; ``kind`` and ``factors`` are called for windows of at most two axes."""
    if len(window.kernel) < 3:
        return x.graph.append(operations.Pooling(x, kind(window), shape, window, factors(x, shape, window)))
    count, channels, depth, *image = x.shape
    k, s, d, e = window.kernel, window.stride, window.dilation, window.edges
    flat = operations.Window(k[1:], s[1:], d[1:], e[1:])
    frames = _pooled(
        x.reshape((count, channels * depth, *image)), kind, (count, channels * depth, *shape[3:]), flat, factors
    )
    pixels = product(shape[3:])
    deep = operations.Window((k[0], 1), (s[0], 1), (d[0], 1), (e[0], (0, 0)))
    columns = frames.reshape((count, channels, depth, pixels))
    return _pooled(columns, kind, (count, channels, shape[2], pixels), deep, factors).reshape(tuple(shape))


class _Windows(Layer):
    """Windows of ``kernel_size`` that move by ``stride``, which is the window unless given."""

    axes: ClassVar[int] = 2
    _further: ClassVar[dict[str, Any]] = {}  # options of a kind of windows, with their defaults

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
        """The number of elements that a window spans along each axis."""
        return [d * (k - 1) + 1 for k, d in zip(self.kernel_size, self.dilation, strict=True)]

    def _window(self) -> operations.Window:
        edges = tuple((p, p) for p in self.padding)
        return operations.Window(self.kernel_size, self.stride, self.dilation, edges)

    def _output_shape(self, x: Tensor) -> tuple[AnySize, ...]:
        who = type(self).__name__
        check_rank(who, x, self.axes + 1, _AXES[self.axes])
        sizes = []
        for n, extent, s, p in zip(x.shape[2:], self._extents(), self.stride, self.padding, strict=True):
            room = n + 2 * p - extent
            count = (room + (s - 1 if self.ceil_mode else 0)) // s + 1
            if self.ceil_mode and (count - 1) * s >= n + p:
                count -= 1  # a window that starts in the padding behind the image
            sizes.append(count if self.ceil_mode or are_at_least(0, [room]) else 0)
        if not are_at_least(1, sizes):
            raise ValueError(
                f"{who}: {_KINDS[self.axes].format(*x.shape[2:])} is smaller than the window {self.kernel_size}. Use larger "
                "inputs or smaller windows."
            )
        return (*x.shape[:2], *sizes)

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
        self.return_indices = bool(return_indices)

    def forward(self, input: Tensor) -> Any:
        x = input
        shape, window = self._output_shape(x), self._window()
        if self.return_indices:
            operation = operations.MaxPoolingWithIndices(x, shape, window)
            x.graph.append(operation)
            return tuple(operation.outputs)
        return _pooled(x, _max, shape, window)


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

    def __init__(
        self, kernel_size: Pair, stride: Pair | None = None, padding: Pair = 0, dilation: Pair = 1,
        return_indices: bool = False, ceil_mode: bool = False,
    ) -> None:  # fmt: skip
        _require_no_indices(return_indices, "MaxPool3d")
        super().__init__(kernel_size, stride, padding, dilation, False, ceil_mode)


def _require_no_indices(return_indices: bool, who: str) -> None:
    if return_indices:
        raise ValueError(
            f"{who}: return_indices is not possible, because volumes are pooled frame by frame. Leave it out, or pool images."
        )


class _AvgPool(_Windows):
    _further: ClassVar[dict[str, Any]] = {"count_include_pad": True, "divisor_override": None}
    count_include_pad = True
    divisor_override: int | None = None

    def forward(self, input: Tensor) -> Tensor:
        x = input
        shape, window = self._output_shape(x), self._window()
        divided = self.count_include_pad or self.divisor_override is not None
        kind = PoolingType.average(count_includes_padding=divided)
        if self.divisor_override is not None and self.axes == 3:
            whole = _pooled(x, lambda _: kind, shape, window)
            result: Tensor = whole * (math.prod(self.kernel_size) / self.divisor_override)
            return result
        return _pooled(x, lambda _: kind, shape, window, self._factors if divided else lambda *_: None)

    def _factors(self, x: Tensor, shape: Sequence[AnySize], window: operations.Window) -> Array | float | None:
        """The factors that correct means over whole windows for other divisors: ``divisor_override``, or fewer elements at
        the end."""
        if self.divisor_override is not None:
            return math.prod(self.kernel_size) / self.divisor_override
        padding = [before for before, _ in window.edges]
        return overhang(x.shape, shape, window.kernel, window.stride, padding) if self.ceil_mode else None


def overhang(
    x: Sequence[AnySize], y: Sequence[AnySize], kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int]
) -> Array | None:
    """The size of a window over that of its part on the padded image, for every window; None if all are whole.

    ``x`` and ``y`` are the shapes of the images and of the result.
    """
    factors: Array = np.ones((), np.float32)
    for n, count, k, s, p in zip(x[2:], y[2:], kernel, stride, padding, strict=True):
        starts = np.arange(int(count)) * s - p
        inside = np.minimum(starts + k, int(n) + p) - starts
        factors = factors[..., None] * (k / inside).astype(np.float32)
    return None if (factors == 1).all() else factors


class AvgPool2d(_AvgPool):
    """The mean of every window; zeros of the padding count unless ``count_include_pad`` is False.

    ``divisor_override`` divides the sum in place of the number of elements.

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


class AvgPool3d(_AvgPool):
    """The mean of every window of a volume (C, D, H, W); options as of AvgPool2d.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.AvgPool3d((1, 2, 2))(np.arange(8, dtype=np.float32).reshape(1, 1, 2, 2, 2)).tolist()
    [[[[[1.5]], [[5.5]]]]]
    """

    axes = 3

    def __init__(
        self, kernel_size: Pair, stride: Pair | None = None, padding: Pair = 0, ceil_mode: bool = False,
        count_include_pad: bool = True, divisor_override: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(kernel_size, stride, padding, 1, ceil_mode)
        self.count_include_pad = bool(count_include_pad)
        self.divisor_override = (
            None if divisor_override is None else positive(divisor_override, "AvgPool3d: divisor_override")
        )


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
        who = type(self).__name__
        sizes = output_size if isinstance(output_size, Sequence) else (output_size,) * self.axes
        if len(sizes) != self.axes:
            raise ValueError(f"{who}: output_size is {output_size!r}. Pass one number or {self.axes}.")
        self.output_size = tuple(None if n is None else positive(n, f"{who}: output_size") for n in sizes)

    def _parts(self, x: Tensor) -> list[tuple[Array, Array]]:
        """The first entry of every part and the one behind its last, along each axis."""
        check_rank(type(self).__name__, x, self.axes + 1, _AXES[self.axes])
        parts = []
        for n, given in zip(x.shape[2:], self.output_size, strict=True):
            n = int(n)
            m = n if given is None else given
            numbers = np.arange(m)
            parts.append((numbers * n // m, -(-(numbers + 1) * n // m)))
        return parts

    def _even(self, x: Tensor, parts: list[tuple[Array, Array]]) -> operations.Window | None:
        """The window of an equivalent plain pooling, if all parts along an axis have the same size."""
        kernel = []
        for n, (starts, _) in zip(x.shape[2:], parts, strict=True):
            if n % len(starts):
                return None
            kernel.append(n // len(starts))
        return operations.Window(tuple(kernel), tuple(kernel), (1,) * self.axes, ((0, 0),) * self.axes)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}" + options(self, **self._further)


class _AdaptiveAvg(_Adaptive):
    def forward(self, input: Tensor) -> Tensor:
        x = input
        parts = self._parts(x)
        window = self._even(x, parts)
        if window is not None:
            shape = (*x.shape[:2], *(len(starts) for starts, _ in parts))
            return _pooled(x, lambda _: PoolingType.average(), shape, window)
        return resampled(x, [_shares(int(n), *part) for n, part in zip(x.shape[2:], parts, strict=True)])


def _shares(n: int, starts: Array, ends: Array) -> Array:
    """The contribution of every entry of an axis to the mean of each part, (parts, n)."""
    inside = (np.arange(n) >= starts[:, None]) & (np.arange(n) < ends[:, None])
    shares: Array = inside / (ends - starts)[:, None]
    return shares.astype(np.float32)


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
        self.return_indices = bool(return_indices)

    def forward(self, input: Tensor) -> Any:
        x = input
        parts = self._parts(x)
        window = self._even(x, parts)
        shape = (*x.shape[:2], *(len(starts) for starts, _ in parts))
        if self.return_indices:
            if window is None:
                raise ValueError(
                    f"{type(self).__name__}: return_indices needs parts of one size, but {self.output_size} does not divide "
                    f"{x.shape[2:]}. Use sizes that divide, or leave return_indices out."
                )
            operation = operations.MaxPoolingWithIndices(x, shape, window)
            x.graph.append(operation)
            return tuple(operation.outputs)
        if window is None:
            # Parts of one size: the last entry of a smaller one is repeated, which does not change its maximum.
            longest = tuple(int((ends - starts).max()) for starts, ends in parts)
            for axis, (starts, ends) in enumerate(parts):
                entries = np.minimum(starts[:, None] + np.arange(longest[axis]), ends[:, None] - 1)
                x = functions.index_select(x, axis + 2, entries.ravel())
            window = operations.Window(longest, longest, (1,) * self.axes, ((0, 0),) * self.axes)
        return _pooled(x, _max, shape, window)


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

    def __init__(self, output_size: int | Sequence[int | None] | None, return_indices: bool = False) -> None:
        _require_no_indices(return_indices, "AdaptiveMaxPool3d")
        super().__init__(output_size)


class _LPPool(_Windows):
    def __init__(
        self, norm_type: float, kernel_size: Pair, stride: Pair | None = None, ceil_mode: bool = False
    ) -> None:
        super().__init__(kernel_size, stride, 0, 1, ceil_mode)
        if isinstance(norm_type, bool) or not isinstance(norm_type, (int, float)) or not norm_type > 0:
            raise ValueError(f"{type(self).__name__}: norm_type is {norm_type!r}. Pass a positive number.")
        self.norm_type = float(norm_type)

    def forward(self, input: Tensor) -> Tensor:
        x = input
        shape, window, p = self._output_shape(x), self._window(), self.norm_type
        factors = None
        if self.ceil_mode:
            factors = overhang(x.shape, shape, self.kernel_size, self.stride, (0,) * self.axes)
        if p == 2:
            roots = None if factors is None else np.sqrt(factors)
            return x.graph.append(operations.Pooling(x, PoolingType.l2_norm(), shape, window, roots))
        sums = math.prod(self.kernel_size) * (1.0 if factors is None else factors)
        powers = x if p == 1 else functions.pow(x, p)
        total = x.graph.append(operations.Pooling(powers, PoolingType.average(), shape, window, sums))
        result: Tensor = total if p == 1 else functions.pow(total, 1 / p)
        return result

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
        x, indices = inputs[0], inputs[1].as_indices(who)
        check_rank(who, x, self.axes + 1, _AXES[self.axes])
        if x.shape[1:] != indices.shape[1:]:
            raise ValueError(f"{who}: values {x.shape} and indices {indices.shape} must have the same shape.")
        window = zip(x.shape[2:], self.kernel_size, self.stride, self.padding, strict=True)
        sizes = [(n - 1) * s - 2 * p + k for n, k, s, p in window]
        if output_size is not None:
            wanted = list(output_size)[-self.axes :]
            if any(abs(n - m) >= s for n, m, s in zip(wanted, sizes, self.stride, strict=True)):
                raise ValueError(
                    f"{who}: output_size is {tuple(output_size)}, but the pooled image was about {tuple(sizes)}: less than a "
                    f"stride {self.stride} more or less."
                )
            sizes = wanted
        return x.graph.append(operations.MaxUnpooling(x, indices, (*x.shape[:2], *sizes)))


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
