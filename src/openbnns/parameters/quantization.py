"""The numbers of the quantizer functions."""

from __future__ import annotations

from enum import IntEnum


class QuantizerKind(IntEnum):
    """The numbers of BNNSQuantizerFunction."""

    QUANTIZE = 0
    DEQUANTIZE = 1
