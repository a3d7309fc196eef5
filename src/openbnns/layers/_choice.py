"""Swift enums with associated values, in Python: a class with one factory per case."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from .._spelling import CasesMeta


def _identity(value: object) -> object:
    """Numbers and names compare by value, arrays and descriptors by identity."""
    if value is None or isinstance(value, (bool, int, float, str, tuple, enum.Enum, Choice)):
        return value
    return (type(value), id(value))


def _brief(value: object) -> str:
    """The value, or what kind of array it is."""
    if isinstance(value, np.ndarray):
        return f"<{value.dtype} array {value.shape}>"
    return repr(value)


def number(value: Any, who: str) -> float:
    """A parameter of a case as a float."""
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{who} must be a number, not {type(value).__name__}.") from None


def interval(value: Any, who: str) -> tuple[float, float]:
    """Bounds (low, high) of a case."""
    try:
        low, high = value
    except (TypeError, ValueError):
        raise TypeError(f"{who} must be a pair (low, high), not {type(value).__name__}.") from None
    low, high = number(low, who), number(high, who)
    if low > high:
        raise ValueError(f"{who} {low} to {high} are empty. Give (low, high).")
    return low, high


@dataclass(frozen=True, eq=False, repr=False)
class Choice(metaclass=CasesMeta):
    """One case of such an enum: immutable, comparable, and printed as the call that makes it."""

    case: str
    """Name of the factory that made it."""
    labels: tuple[str, ...] = field(kw_only=True)
    """The arguments of that factory, all of them fields of the same name."""

    def __repr__(self) -> str:
        arguments = ", ".join(f"{label}={_brief(getattr(self, label))}" for label in self.labels)
        return f"{type(self).__name__}.{self.case}({arguments})"

    def _key(self) -> tuple[Any, ...]:
        return tuple(_identity(getattr(self, each.name)) for each in fields(self))

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash((type(self), self._key()))
