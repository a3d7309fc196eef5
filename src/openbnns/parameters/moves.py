"""Operators of comparisons and kinds of shuffles."""

from __future__ import annotations

from enum import IntEnum


class Relation(IntEnum):
    """The numbers of BNNSRelationalOperator."""

    EQUAL = 0
    LESS = 1
    LESS_EQUAL = 2
    GREATER = 3
    GREATER_EQUAL = 4
    NOT_EQUAL = 5
    LOGICAL_AND = 6
    LOGICAL_OR = 7
    LOGICAL_NOT = 8
    LOGICAL_NAND = 9
    LOGICAL_NOR = 10
    LOGICAL_XOR = 11


class Shuffle(IntEnum):
    """The numbers of BNNSShuffleType."""

    PIXEL_SHUFFLE = 0
    PIXEL_UNSHUFFLE = 1
    DEPTH_TO_SPACE = 2
    SPACE_TO_DEPTH = 3
