"""Windows on signals, images and volumes: how many there are, what they cover, and the arguments of layers of ``openbnns``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, TypeVar

import numpy as np

from ... import ConvolutionPadding
from ..checks import per_axis
from ..sizes import AnySize, are_at_least, is_same
from ..tensor import Array
from .base import Sizes

_Size = TypeVar("_Size", int, AnySize)
Edges = tuple[tuple[int, int], ...]
_LARGEST = 2**31 - 1


@dataclass(frozen=True)
class Window:
    """One number per axis of a signal, an image or a volume, depth and vertical first; ``edges`` are (in front, behind).

    With ``ceil`` windows may hang over the end, as long as they begin in the image or the padding in front of it.
    """

    kernel: Sizes
    stride: Sizes
    dilation: Sizes
    edges: Edges
    ceil: bool = False

    def __post_init__(self) -> None:
        numbers, edges = (*self.kernel, *self.stride, *self.dilation), [n for pair in self.edges for n in pair]
        axes = {len(self.kernel), len(self.stride), len(self.dilation), len(self.edges), len(edges) / 2}
        whole = all(isinstance(n, (int, np.integer)) and not isinstance(n, bool) for n in (*numbers, *edges))
        if not whole or len(axes) != 1 or type(self.ceil) is not bool or not numbers:
            raise ValueError(f"there are no windows of {self!r:.300}")
        if min(numbers) < 1 or min(edges) < 0 or max(*numbers, *edges) > _LARGEST:
            raise ValueError(f"there are no windows of {self!r:.300}: a number is too small or too large")

    @classmethod
    def of(
        cls, who: str, kernel: Sequence[int], stride: Any = 1, padding: Any = 0, dilation: Any = 1, ceil: bool = False,
        image: Sequence[AnySize] = (),
    ) -> Window:  # fmt: skip
        """Windows by the arguments of a function, which are checked in the name of ``who``.

        ``padding`` is numbers, pairs, "valid", or "same": as many windows as strides; of an odd number of elements one more lies
        behind the image, or with "same_lower" in front of it.
        """
        axes = len(kernel)
        sizes, steps, gaps = (
            per_axis(kernel, axes, f"{who}: kernel_size", 1),
            per_axis(stride, axes, f"{who}: stride", 1),
            per_axis(dilation, axes, f"{who}: dilation", 1),
        )
        if max(*sizes, *steps, *gaps) > _LARGEST:
            raise ValueError(f"{who}: kernel {sizes}, strides {steps} and dilations {gaps} must be below 2^31.")
        if not isinstance(padding, str):
            return _window(sizes, steps, gaps, _edges(who, padding, axes), bool(ceil))
        made = _window(sizes, steps, gaps, ((0, 0),) * axes, bool(ceil))
        if padding == "valid":
            return made
        if padding not in ("same", "same_lower"):
            raise ValueError(f"{who}: padding is {padding!r}. Pass numbers, 'same' or 'valid'.")
        totals = [
            e - 1 if s == 1 else int(max(0, (-(-n // s) - 1) * s + e - n))
            for n, e, s in zip(image or (1,) * axes, made.extents, made.stride, strict=True)
        ]
        return _window(sizes, steps, gaps, tuple([_halves(n, padding == "same") for n in totals]), bool(ceil))

    @staticmethod
    def symmetric(kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, ceil: bool = False) -> Window:
        """Windows by numbers for each axis that are checked already, with equal padding on both sides."""
        return _window(kernel, stride, dilation, tuple([(n, n) for n in padding]), ceil)

    @cached_property
    def extents(self) -> list[int]:
        """The number of elements that a window spans along each axis."""
        return [d * (k - 1) + 1 for k, d in zip(self.kernel, self.dilation, strict=True)]

    def along(self, axes: slice) -> Window:
        """The windows along some of the axes."""
        return _window(self.kernel[axes], self.stride[axes], self.dilation[axes], self.edges[axes], self.ceil)

    @property
    def upright(self) -> Window:
        """A window on a signal, as one on an image that is one element wide."""
        (kernel,), (stride,), (dilation,), (edge,) = self.kernel, self.stride, self.dilation, self.edges
        return _window((kernel, 1), (stride, 1), (dilation, 1), (edge, (0, 0)), self.ceil)

    @cached_property
    def inside(self) -> Window:
        """The windows without padding, none of which hangs over."""
        return replace(self, edges=((0, 0),) * len(self.kernel), ceil=False)

    def counts(self, image: Sequence[AnySize]) -> list[AnySize]:
        """The number of windows along each axis; 0 where none fits."""
        counts: list[AnySize] = []
        for n, extent, s, (front, behind) in zip(image, self.extents, self.stride, self.edges, strict=True):
            room = n + front + behind - extent
            count = (room + (s - 1 if self.ceil else 0)) // s + 1
            if self.ceil and behind + s > extent and (count - 1) * s >= n + front:
                count -= 1  # a window that starts in the padding behind the image, which larger windows never do
            counts.append(count if self.ceil or are_at_least(0, [room]) else 0)
        return counts

    def spread(self, image: Sequence[AnySize], extra: Sequence[int]) -> list[AnySize]:
        """The sizes of what windows, one for each element, are added up to; ``extra`` lies behind it."""
        axes = zip(image, self.stride, self.extents, self.edges, extra, strict=True)
        return [s * (n - 1) + extent - sum(edge) + more for n, s, extent, edge, more in axes]

    def filling(
        self, image: Sequence[AnySize], sizes: Sequence[AnySize], extra: Sequence[int], *, behind: bool
    ) -> tuple[Window, Sizes]:
        """The windows that are added up to these sizes, and the elements behind them: excess is cut off on both sides."""
        whole = self.inside.spread(image, extra)
        cut = [int(n - m) for n, m in zip(whole, sizes, strict=True)]
        edges = tuple(_halves(max(0, n), behind) for n in cut)
        return replace(self, edges=edges), tuple(more + max(0, -n) for more, n in zip(extra, cut, strict=True))

    def reaching(self, image: Sequence[AnySize]) -> Edges:
        """Padding up to the ends of all windows, some of which may hang over."""
        axes = zip(image, self.counts(image), self.extents, self.stride, self.edges, strict=True)
        return tuple(
            (front, behind)
            if not self.ceil or is_same(m, (n + front + behind - extent) // s + 1)
            else (front, int(max(behind, (m - 1) * s + extent - n - front)))
            for n, m, extent, s, (front, behind) in axes
        )

    def shares(self, image: Sequence[AnySize], *, padded: bool) -> Array | None:
        """The size of a window over that of its part on the image, padded or not, for each; None if all are whole."""
        if padded and (not self.ceil or self.reaching(image) == self.edges):
            return None
        factors: Array = np.ones((), np.float32)
        axes = zip(image, self.counts(image), self.kernel, self.stride, self.dilation, self.edges, strict=True)
        for n, m, k, s, d, (front, behind) in axes:
            places = (np.arange(int(m)) * s - front)[:, None] + np.arange(k) * d
            counted = (places >= -front * padded) & (places < int(n) + behind * padded)
            factors = factors[..., None] * (k / np.maximum(1, counted.sum(1))).astype(np.float32)
        return None if (factors == 1).all() else factors

    # For layers, which have (x, y); signals are images of one row.

    @property
    def kernel_size(self) -> tuple[int, int]:
        return _across(self.kernel)

    @property
    def strides(self) -> tuple[int, int]:
        return _across(self.stride)

    @property
    def dilations(self) -> tuple[int, int]:
        return _across(self.dilation)

    @property
    def padding(self) -> ConvolutionPadding:
        (up, down), (left, right) = self.edges if len(self.edges) == 2 else ((0, 0), self.edges[0])
        if (up, left) == (down, right):
            return ConvolutionPadding.symmetric(x=left, y=up)
        return ConvolutionPadding.asymmetric(left=left, right=right, up=up, down=down)


_window = lru_cache(1024)(Window)  # with all that it has computed of its geometry


def _edges(who: str, padding: Any, axes: int) -> Edges:
    if not isinstance(padding, (list, tuple)) or not isinstance(padding[0], tuple):
        return tuple([(n, n) for n in per_axis(padding, axes, f"{who}: padding", 0)])
    if len(padding) != axes or not all(isinstance(n, int) and 0 <= n <= _LARGEST for pair in padding for n in pair):
        raise ValueError(f"{who}: padding {padding} does not fit {axes} axes, or is negative.")
    return tuple(padding)


def _halves(total: int, behind: bool) -> tuple[int, int]:
    """The two halves of a number, the larger one behind or in front."""
    return (total // 2, total - total // 2) if behind else (total - total // 2, total // 2)


def _across(sizes: Sizes) -> tuple[int, int]:
    return (sizes[1], sizes[0]) if len(sizes) == 2 else (sizes[0], 1)


def image_shape(sample: tuple[_Size, ...]) -> tuple[_Size, ...]:
    """Channels, height and width; signals (channels, length) are images of one row."""
    return sample if len(sample) == 3 else (sample[0], 1, sample[1])


def as_images(array: Array) -> Array:
    """(N, channels, height, width) on the same memory."""
    return array if array.ndim == 4 else array[:, :, None, :]
