"""The limit for memory that a file or a description asks for, checked before any is allocated.

A few bytes can ask for gigabytes: a compressed file, a tensor that repeats one number, a layer of 30,000 by 30,000. All of
them are held to one limit: ``OPENBNNS_MEMORY_LIMIT``, such as ``8G``, or else 1 GiB, or 20 times the size of the file if that
is more.
"""

from __future__ import annotations

import os
import re

VARIABLE = "OPENBNNS_MEMORY_LIMIT"
ALWAYS = 2**30
"""Bytes that may be asked for if no limit is set."""
RATIO = 20
"""The multiple of its own size that a larger file may ask for; real data compresses by less."""

_IMPOSSIBLE = 2**47
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_SIZE = re.compile(r"(\d{1,15})([KMGT]?)(?:i?B)?", re.IGNORECASE | re.ASCII)


def byte_count(value: int | str, who: str) -> int:
    """A number of bytes: ``8 * 2**30`` or ``"8G"``."""
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    match = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None or not int(match[1]):
        raise ValueError(f"{who} is {value!r}. Give a number of bytes such as 500M or 8G.")
    return int(match[1]) * _UNITS[match[2].upper()]


def size_text(count: int) -> str:
    """A number of bytes for people."""
    for unit, size in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= size:
            return f"{count / size:.4g} {unit}"
    return f"{count} bytes"


def limit_from_environment() -> int | None:
    """The limit that the environment sets, read at each call."""
    text = os.environ.get(VARIABLE, "")
    return byte_count(text, VARIABLE) if text else None


def limit(file_size: int = 0) -> int:
    """The bytes that may be asked for, by a file of this size."""
    return limit_from_environment() or max(ALWAYS, RATIO * file_size)


def check(count: int, who: str, error: type[ValueError] = ValueError, file_size: int = 0) -> None:
    """Raise an error for a number of bytes beyond the limit; ``who`` names what asks for them: ``"net.toml: layer 2 of
    30000 x 30000"``."""
    most = limit(file_size)
    if count > most:
        raise error(f"{who} takes {size_text(count)}, more than the limit of {size_text(most)}. {cure(count)}")


def cure(count: int) -> str:
    """The setting under which this many bytes are taken, if there can be one."""
    if count > _IMPOSSIBLE:
        return "No machine has that much: its source is damaged, or hostile."
    return (
        f"If you trust its source and have the memory, set the environment variable {VARIABLE}={enough(count)} "
        f'(in Python: os.environ["{VARIABLE}"] = "{enough(count)}").'
    )


def enough(count: int) -> str:
    """A round limit that this many bytes fit under."""
    size = 1
    while size * 2**30 < count:
        size *= 2
    return f"{size}G"
