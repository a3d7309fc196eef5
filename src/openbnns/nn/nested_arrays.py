"""Samples, outputs and targets that consist of several arrays: tuples and dictionaries of them, also inside each other.

Inside, they are lists of arrays next to the list of their keys: ``[None]`` for a single array, positions for a tuple, names
for a dictionary, and tuples of both for what lies deeper. Nothing at all, ``None``, has no keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

Step = int | str
Key = Step | tuple[Step, ...] | None


def keys_of(value: Any) -> list[Key]:
    """The keys of its parts. A tuple is a structure if all its members are arrays; one of numbers or lists is an array."""
    if type(value) is np.ndarray:  # the usual, which costs nothing this way
        return [None]
    return [] if value is None else [as_key(path) for path, _ in _leaves(value, ())]


def parts_of(value: Any) -> list[Any]:
    """Its parts, in the order of its keys."""
    if type(value) is np.ndarray:
        return [value]
    return [] if value is None else [part for _, part in _leaves(value, ())]


def as_key(path: tuple[Step, ...]) -> Key:
    """The key of what lies at the end of a path of positions and names."""
    if len(path) > 1:
        return path
    return path[0] if path else None


def _leaves(value: Any, path: tuple[Step, ...]) -> Iterator[tuple[tuple[Step, ...], Any]]:
    if not is_structure(value):
        yield path, value
        return
    for step, member in value.items() if isinstance(value, Mapping) else enumerate(value):
        yield from _leaves(member, (*path, step))


def is_structure(value: Any) -> bool:
    """True for a dictionary, or a tuple of arrays and structures."""
    if isinstance(value, tuple):
        return bool(value) and all(len(getattr(part, "shape", ())) > 0 or is_structure(part) for part in value)
    return isinstance(value, Mapping)


def is_plain(inputs: Sequence[Any], named: Mapping[str, Any]) -> bool:
    """True if all arguments of a call are arrays."""
    return not any(
        x is None or isinstance(x, (bool, np.bool_, str)) or is_structure(x) for x in (*inputs, *named.values())
    )


def joined(keys: Sequence[Key], parts: Sequence[Any]) -> Any:
    """The structure with these keys and parts."""
    if not keys or keys == [None]:
        return parts[0] if keys else None
    members: dict[Step, tuple[list[Key], list[Any]]] = {}
    for key, part in zip(keys, parts, strict=True):
        first, *rest = key if isinstance(key, tuple) else (key,)
        assert first is not None
        inner = members.setdefault(first, ([], []))
        inner[0].append(as_key(tuple(step for step in rest if step is not None)))
        inner[1].append(part)
    values = {step: joined(*inner) for step, inner in members.items()}
    return values if isinstance(next(iter(values)), str) else tuple(values.values())


def part(value: Any, key: Key) -> Any:
    """One part; without a key the first."""
    if key is None:
        return next(iter(parts_of(value)), None)
    for step in key if isinstance(key, tuple) else (key,):
        value = value[step]
    return value


def called(name: str, key: Key) -> str:
    """The name of a part in messages: x, x[0], x['image'], x['image'][0]."""
    steps = key if isinstance(key, tuple) else () if key is None else (key,)
    return name + "".join(f"[{step!r}]" for step in steps)


def label(key: Key) -> str:
    """The name of a part in records: 0, image, image.0."""
    return ".".join(map(str, key)) if isinstance(key, tuple) else str(key)
