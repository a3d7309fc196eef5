"""Checks of the contents of a model file: plain JSON that is not trusted."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


class ModelError(ValueError):
    """A model file that cannot be understood; the message names the place."""


class CheckedTable:
    """A table of a model file; every field is checked when it is read, and errors name its place."""

    def __init__(self, table: Any, where: str) -> None:
        if not isinstance(table, Mapping):
            raise ModelError(f"{where}: is not a table.")
        self._table, self.where = table, where

    def _wrong(self, name: str, wanted: str) -> ModelError:
        shown = repr(self._table.get(name))
        return ModelError(f"{self.where}: {name} is {shown[:60]}, but must be {wanted}.")

    def get(self, name: str) -> Any:
        return self._table.get(name)

    def text(self, name: str, choices: tuple[str, ...] = ()) -> str:
        value = self._table.get(name)
        if not isinstance(value, str) or (choices and value not in choices):
            raise self._wrong(name, f"one of {', '.join(choices)}" if choices else "a text")
        return value

    def flag(self, name: str) -> bool:
        value = self._table.get(name, False)
        if not isinstance(value, bool):
            raise self._wrong(name, "true or false")
        return value

    def number(self, name: str, *, positive: bool = False) -> float:
        value: Any = self._table.get(name)
        if not _is_number(value) or (positive and not value > 0):
            raise self._wrong(name, "a number above 0" if positive else "a number")
        return float(value)

    def numbers(self, name: str, count: int | None = None, *, positive: bool = False) -> list[float]:
        value = self._table.get(name)
        if (
            not isinstance(value, list)
            or not all(map(_is_number, value))
            or (count is not None and len(value) != count)
            or (positive and not all(number > 0 for number in value))
        ):
            many = "" if count is None else f"{count} "
            raise self._wrong(name, f"a list of {many}numbers{' above 0' if positive else ''}")
        return [float(number) for number in value]

    def texts(self, name: str) -> list[str]:
        value = self._table.get(name)
        if not isinstance(value, list) or not all(isinstance(part, str) for part in value):
            raise self._wrong(name, "a list of texts")
        return list(value)

    def sizes(self, name: str) -> tuple[int, ...]:
        value = self._table.get(name)
        if not isinstance(value, list) or not all(type(n) is int and 0 < n < 2**31 for n in value) or len(value) > 16:
            raise self._wrong(name, "a list of sizes")
        return tuple(value)

    def tables(self, name: str) -> list[CheckedTable]:
        value = self._table.get(name)
        if not isinstance(value, list):
            raise self._wrong(name, "a list of tables")
        return [CheckedTable(part, f"{self.where}.{name}[{i}]") for i, part in enumerate(value)]

    def table(self, name: str) -> dict[str, Any]:
        """A table for people, which no code relies on."""
        value = self._table.get(name, {})
        if not isinstance(value, dict):
            raise self._wrong(name, "a table")
        return value


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)
