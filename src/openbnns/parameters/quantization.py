"""The numbers of the quantizer functions."""

from __future__ import annotations

from enum import IntEnum


class Function(IntEnum):
    """The numbers of BNNSQuantizerFunction."""

    QUANTIZE = 0
    DEQUANTIZE = 1
