"""Values in tuples, lists and dictionaries, as ``forward`` takes and gives them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Structure:
    """The structure of nested values: ``kind`` is None for a single one. ``named`` is the class of a named tuple."""

    kind: type | None = None
    names: tuple[Any, ...] = ()
    parts: tuple[Structure, ...] = ()
    named: Any = field(default=None, compare=False)

    def fill(self, values: Iterable[Any]) -> Any:
        """The values, in order, in this structure."""
        return self._take(iter(values))

    def _take(self, values: Iterator[Any]) -> Any:
        if self.kind is None:
            return next(values)
        held = [part._take(values) for part in self.parts]
        if self.named is not None:
            return self.named(*held)
        return dict(zip(self.names, held, strict=True)) if self.kind is dict else self.kind(held)

    def describe(self) -> str:
        """The structure in words, for messages."""
        if self.kind is None:
            return "an array"
        if self.kind is dict:
            return f"a dictionary with {', '.join(map(repr, self.names))}"
        return f"a {self.kind.__name__} of {len(self.parts)}"


def flatten(value: Any) -> tuple[list[Any], Structure]:
    """The members of a nested value, in order, and its structure."""
    if isinstance(value, Mapping):
        parts = [flatten(part) for part in value.values()]
        return _joined(parts), Structure(dict, tuple(value), tuple(structure for _, structure in parts))
    if isinstance(value, (tuple, list)):
        parts = [flatten(part) for part in value]
        kind = tuple if isinstance(value, tuple) else list
        named = type(value) if hasattr(value, "_fields") else None
        return _joined(parts), Structure(kind, (), tuple(structure for _, structure in parts), named)
    return [value], Structure()


def _joined(parts: Iterable[tuple[list[Any], Structure]]) -> list[Any]:
    return [value for values, _ in parts for value in values]
