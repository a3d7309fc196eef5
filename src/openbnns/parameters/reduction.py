"""The numbers of the reductions."""

from __future__ import annotations

from enum import IntEnum


class ReductionKind(IntEnum):
    """The numbers of BNNSReduceFunction; Any and All are other names for two of them."""

    MAX = 0
    MIN = 1
    ARG_MAX = 2
    ARG_MIN = 3
    MEAN = 4
    MEAN_NON_ZERO = 5
    SUM = 6
    SUM_SQUARE = 7
    SUM_LOG = 8
    L1_NORM = 9
    LOGICAL_OR = 10
    LOGICAL_AND = 11
    L2_NORM = 12
    LOG_SUM_EXP = 13
    PRODUCT = 14
    NONE = 15
    LOG_SUM = 16
    ANY = 10
    ALL = 11
