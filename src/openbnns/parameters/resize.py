"""Methods of resizing."""

from __future__ import annotations

from enum import IntEnum


class Method(IntEnum):
    """The numbers of BNNSInterpolationMethod."""

    NEAREST = 0
    LINEAR = 1
