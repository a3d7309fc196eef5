"""Samples, outputs and targets that consist of several arrays: a tuple or a dictionary of them.

Inside, they are lists of arrays next to the list of their keys: ``[None]`` for a single array, positions for a tuple, names
for a dictionary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Key = int | str | None


def keys_of(value: Any) -> list[Key]:
    """The keys of its parts. A tuple is a structure if all its members are arrays; one of numbers or lists is an array."""
    if isinstance(value, Mapping):
        return list(value)
    if isinstance(value, tuple) and value and all(len(getattr(member, "shape", ())) > 0 for member in value):
        return list(range(len(value)))
    return [None]


def parts_of(value: Any) -> list[Any]:
    """Its parts, in the order of its keys."""
    keys = keys_of(value)
    return [value] if keys == [None] else [value[key] for key in keys]


def joined(keys: Sequence[Key], parts: Sequence[Any]) -> Any:
    """The structure with these keys and parts."""
    if keys == [None]:
        return parts[0]
    if isinstance(keys[0], str):
        return dict(zip(keys, parts, strict=True))
    return tuple(parts)


def part(value: Any, key: Key) -> Any:
    """One part; without a key the first."""
    if isinstance(value, (tuple, Mapping)):
        return next(iter(parts_of(value))) if key is None else value[key]  # type: ignore[index]
    return value


def called(name: str, key: Key) -> str:
    """How messages call a part: x, x[0], x['image']."""
    return name if key is None else f"{name}[{key!r}]"
