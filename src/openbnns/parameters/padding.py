"""Modes of padding."""

from __future__ import annotations

from enum import IntEnum


class Mode(IntEnum):
    """The numbers of BNNSPaddingMode."""

    CONSTANT = 0
    REFLECT = 1
    SYMMETRIC = 2
