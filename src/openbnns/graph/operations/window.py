"""Windows on signals and images, converted to arguments of the layers of ``openbnns``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from ... import ConvolutionPadding
from ..sizes import AnySize
from ..tensor import Array
from .base import Sizes

_Size = TypeVar("_Size", int, AnySize)


@dataclass(frozen=True)
class Window:
    """One number per axis of a signal or an image, vertical first; ``edges`` are (in front, behind)."""

    kernel: Sizes
    stride: Sizes
    dilation: Sizes
    edges: tuple[tuple[int, int], ...]

    @property
    def kernel_size(self) -> tuple[int, int]:
        """(x, y), as all that follow."""
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


def _across(sizes: Sizes) -> tuple[int, int]:
    """(x, y); a signal is an image of one row."""
    return (sizes[1], sizes[0]) if len(sizes) == 2 else (sizes[0], 1)


def image_shape(sample: tuple[_Size, ...]) -> tuple[_Size, ...]:
    """Channels, height and width; signals (channels, length) are images of one row."""
    return sample if len(sample) == 3 else (sample[0], 1, sample[1])


def as_images(array: Array) -> Array:
    """(N, channels, height, width) on the same memory."""
    return array if array.ndim == 4 else array[:, :, None, :]
