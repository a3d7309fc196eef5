"""The units that Core ML can compute on. Here there is one, so that a choice among them changes nothing."""

from __future__ import annotations

from enum import Enum


class ComputeUnit(Enum):
    """The units that a model may use, by the names of coremltools."""

    ALL = 1
    CPU_AND_GPU = 2
    CPU_ONLY = 3
    CPU_AND_NE = 4
