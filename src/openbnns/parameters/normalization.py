"""Kinds of normalization and their parameters."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Kind(IntEnum):
    """The numbers of the normalizations in BNNSFilterType."""

    BATCH = 2
    INSTANCE = 3
    LAYER = 4
    GROUP = 5


@dataclass(frozen=True)
class Normalization:
    """One kind of normalization with its parameters; axis belongs to layer, groups to group normalization.

    torch_moving updates moving statistics as PyTorch does (off by default): momentum weighs the current statistics, and
    the current variance is the unbiased one, divided by the count minus one (by 1 if that is 0).
    """

    kind: int
    epsilon: float
    momentum: float = 0.0
    axis: int = 0
    groups: int = 1
    torch_moving: bool = False
