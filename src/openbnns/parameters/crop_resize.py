"""How crop-resize reads boxes and where it samples."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Sampling(IntEnum):
    """The numbers of BNNSLinearSamplingMode."""

    DEFAULT = 0
    ALIGN_CORNERS = 1
    UNALIGN_CORNERS = 2
    STRICT_ALIGN_CORNERS = 3
    OFFSET_CORNERS = 4


class Box(IntEnum):
    """The numbers of BNNSBoxCoordinateMode."""

    CORNERS_HEIGHT_FIRST = 0
    CORNERS_WIDTH_FIRST = 1
    CENTER_SIZE_HEIGHT_FIRST = 2
    CENTER_SIZE_WIDTH_FIRST = 3


@dataclass(frozen=True)
class Settings:
    """How boxes are read and where they are sampled."""

    sampling: int
    box: int
    normalized: bool = False
    spatial_scale: float = 1.0
    extrapolation_value: float = 0.0
    plain_extent: bool = False
