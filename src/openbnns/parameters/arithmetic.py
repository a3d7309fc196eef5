"""Arithmetic functions: their numbers, and what their derivatives need."""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import Final


class ArithmeticKind(IntEnum):
    """The numbers of BNNSArithmeticFunction."""

    ADD = 0
    SUBTRACT = 1
    MULTIPLY = 2
    DIVIDE = 3
    SQUARE_ROOT = 4
    RECIPROCAL_SQUARE_ROOT = 5
    CEIL = 6
    FLOOR = 7
    ROUND = 8
    SIN = 9
    COS = 10
    TAN = 11
    ASIN = 12
    ACOS = 13
    ATAN = 14
    SINH = 15
    COSH = 16
    TANH = 17
    ASINH = 18
    ACOSH = 19
    ATANH = 20
    POW = 21
    EXP = 22
    EXP2 = 23
    LOG = 24
    LOG2 = 25
    MULTIPLY_NO_NAN = 26
    DIVIDE_NO_NAN = 27
    MULTIPLY_ADD = 28
    MINIMUM = 29
    MAXIMUM = 30
    SELECT = 31
    ABS = 32
    SIGN = 33
    NEGATE = 34
    RECIPROCAL = 35
    SQUARE = 36
    FLOOR_DIVIDE = 37
    TRUNC_DIVIDE = 38
    TRUNC_REMAINDER = 39
    ERF = 40


class Needs(Enum):
    """The tensors that a backward call needs besides dy (and y, if there is an activation)."""

    NOTHING = "nothing"
    OUTPUT = "the output, or the operand"
    OPERANDS = "the operands"


_NEED_NOTHING = (
    ArithmeticKind.ADD, ArithmeticKind.SUBTRACT, ArithmeticKind.CEIL, ArithmeticKind.FLOOR, ArithmeticKind.ROUND
)  # fmt: skip
_NEED_OUTPUT = (
    ArithmeticKind.SQUARE_ROOT, ArithmeticKind.RECIPROCAL_SQUARE_ROOT, ArithmeticKind.TANH, ArithmeticKind.EXP,
    ArithmeticKind.EXP2,
)  # fmt: skip
NEEDS_OPERANDS: Final[dict[int, Needs]] = {
    function: Needs.NOTHING
    if function in _NEED_NOTHING
    else Needs.OUTPUT
    if function in _NEED_OUTPUT
    else Needs.OPERANDS
    for function in ArithmeticKind
}
"""The needs of each function's backward pass, and so the operands that BNNS lets the caller leave out."""
