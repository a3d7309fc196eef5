"""Kinds of operations: the inputs that each takes in each opset, and the rules for those that a program leaves out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class PerAxis:
    """A number for every axis of ``x`` behind the first two, ``count`` times."""

    value: int
    count: int = 1


@dataclass(frozen=True)
class AllAxes:
    """All axes of an input."""

    of: str


@dataclass(frozen=True)
class Counted:
    """0, 1, 2 ... for every entry on the first axis of an input."""

    of: str


@dataclass(frozen=True)
class Zeros:
    """A zero for every entry on the first axis of an input, of its type."""

    like: str


class Input:
    """An input of a kind of operation.

    ``types`` are the element types that it may have (empty: any value); ``constant``: it must be known before the program
    runs; ``several``: it takes any number of values; ``default``: a number, text, rule, or None if it then stays out.
    """

    __slots__ = ("constant", "default", "name", "optional", "several", "types")

    def __init__(
        self, name: str, types: str, *, constant: bool = False, optional: bool = False, several: bool = False,
        default: Any = None,
    ) -> None:  # fmt: skip
        self.name, self.types = name, tuple(types.split())
        self.constant, self.optional, self.several, self.default = constant, optional, several, default


class OperationKind:
    """A kind of operation: its inputs by the opset from which on they hold, and its blocks."""

    __slots__ = ("blocks", "family", "forms", "name")

    def __init__(
        self, name: str, family: str, forms: dict[str, tuple[Input, ...]], *, blocks: tuple[str, ...] = ()
    ) -> None:
        self.name, self.family, self.forms, self.blocks = name, family, forms, blocks

    def inputs(self, opset: str) -> tuple[Input, ...]:
        """The inputs in an opset: those of the newest form that is not newer."""
        number = opset_number(opset)
        best: tuple[Input, ...] = next(iter(self.forms.values()))
        for first, inputs in self.forms.items():
            if opset_number(first) <= number:
                best = inputs
        return best


def opset_number(opset: str) -> int:
    """17 for "ios17"."""
    digits = opset.removeprefix("ios")
    return int(digits) if digits.isdigit() and len(digits) < 4 else 0
