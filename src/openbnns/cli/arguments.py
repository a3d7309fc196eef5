"""What the commands share: exit codes, the parser, and the kinds of numbers that options take."""

from __future__ import annotations

import argparse
import sys
from typing import NoReturn, TypeAlias

from .launcher import speaks

OK, FAILED, UNUSABLE, STOPPED = 0, 1, 2, 130
UNUSABLE_ERRORS = (ValueError, TypeError, RuntimeError, OSError, OverflowError, MemoryError)
"""What a command raises that could not start, or not go on."""


class Parser(argparse.ArgumentParser):
    """Exits with our code for unusable arguments, after one line of usage and one of explanation.

    All ranks of an MPI job have the same arguments; the first one says what is wrong with them.
    """

    def error(self, message: str) -> NoReturn:
        if not speaks():
            self.exit(UNUSABLE)
        self.print_usage(sys.stderr)
        self.exit(UNUSABLE, f"{self.prog}: {message}\n")


Commands: TypeAlias = "argparse._SubParsersAction[Parser]"


def count(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not at least 1")
    return value


def seed(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) >= 2**32:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number from 0 to {2**32 - 1}")
    return int(text)


def rate(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return value


def share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not at least 0 and below 1")
    return value


def byte_limit(text: str) -> int:
    from ..nn.files import byte_count

    try:
        return byte_count(text, "it")
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of bytes such as 500M or 8G") from None
