"""Pooling functions, and how their windows lie on an image."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from . import convolution

NO_CELL: Final = -1
"""Max index of a window whose winner is not a cell of the image; as an unsigned number, the largest index."""


class PoolingKind(IntEnum):
    """The numbers of BNNSPoolingFunction."""

    MAX = 0
    AVERAGE_COUNT_INCLUDE_PADDING = 1
    AVERAGE_COUNT_EXCLUDE_PADDING = 2
    UN_MAX = 3
    L2_NORM = 4


@dataclass(frozen=True)
class Geometry:
    """Windows of size kernel. Pairs are (vertical, horizontal), padding is (up, down, left, right).

    With padding_wins, padded cells take part in Max as zeros; otherwise Max ignores them. UnMax uses out_size only.
    """

    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    padding: tuple[int, int, int, int]
    out_size: tuple[int, int]
    padding_wins: bool = False

    @property
    def windows(self) -> convolution.Geometry:
        """The same windows in the terms of the convolution module."""
        return convolution.Geometry(self.stride, self.dilation, self.padding, 1, self.out_size)
