"""Files of others: opened only if they are regular ones, and expanded only as far as a limit allows."""

from __future__ import annotations

import gzip
import io
import os
import re
import stat
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

ALWAYS = 2**30
"""Bytes that any file may expand to without a limit given."""
RATIO = 20
"""A larger file may expand to this multiple of its own size; real data compresses by less."""

DAMAGED_ARCHIVE: tuple[type[Exception], ...] = (
    ValueError, OSError, EOFError, KeyError, RuntimeError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
"""What zipfile raises for damaged files; RuntimeError: encrypted members, kinds of compression that Python does not know."""
try:
    from lzma import LZMAError
except ImportError:  # Python was compiled without it, and zipfile refuses members that need it
    pass
else:
    DAMAGED_ARCHIVE += (LZMAError,)

_PIECE = 2**18  # bytes at a time, so that a file that expands without end is found out early
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_SIZE = re.compile(r"(\d{1,15})([KMGT]?)(?:i?B)?", re.IGNORECASE | re.ASCII)


class DataError(ValueError):
    """Data that cannot be trained on; the message says what and where.

    >>> from openbnns import nn
    >>> try:
    ...     nn.data.load("nowhere.npz")
    ... except nn.data.DataError as error:
    ...     print(error)
    nowhere.npz: there is no such file or folder. Use 'digits' or the path of your data.
    """


def byte_count(value: int | str, who: str) -> int:
    """A number of bytes: ``8 * 2**30`` or ``"8G"``."""
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    found = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None or not int(found[1]):
        raise ValueError(f"{who} is {value!r}. Give a number of bytes such as 500M or 8G.")
    return int(found[1]) * _UNITS[found[2].upper()]


def shown(count: int) -> str:
    """A number of bytes for people."""
    for unit, size in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= size:
            return f"{count / size:.4g} {unit}"
    return f"{count} bytes"


@contextmanager
def open_regular(path: str | os.PathLike[str], error: type[ValueError] = DataError) -> Iterator[tuple[BinaryIO, int]]:
    """A file and its size; a pipe or a device, which may have no end, is refused."""
    # Without O_NONBLOCK the opening of a pipe would wait for somebody to write to it.
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        os.close(handle)
        if stat.S_ISDIR(status.st_mode):
            raise error(f"{path}: is a folder. Give the path of a file.")
        raise error(f"{path}: is no regular file but a pipe, a device or the like. Copy it into a file first.")
    with os.fdopen(handle, "rb") as file:
        yield file, status.st_size


NO_WEIGHTS = "Weights do not shrink that much: the file is damaged."
"""What to say of a file of weights that expands beyond its budget."""


class Budget:
    """How many bytes the contents of a file may take, in all."""

    def __init__(self, path: Path, file_size: int, limit: int | None, advice: str | None = None) -> None:
        """``advice`` is what to do if they take more, where no limit can be given."""
        self.path, self.file_size, self.given, self.advice = path, file_size, limit, advice
        self.limit = max(ALWAYS, RATIO * file_size) if limit is None else limit
        self.used = 0

    def take(self, count: int, *, at_least: bool = False) -> None:
        """Count bytes that are about to be needed; ``at_least`` says that there may be more."""
        self.used += count
        if self.used > self.limit:
            rule = (
                "the limit that was given"
                if self.given is not None
                else f"the limit for a file of {shown(self.file_size)}"
            )
            advice = self.advice or (
                f"If you trust the file, raise the limit: --memory-limit {_next_size(self.used)} (in Python "
                f'nn.data.load(..., memory_limit="{_next_size(self.used)}")).'
            )
            raise DataError(
                f"{self.path}: expands to {'at least ' if at_least else ''}{shown(self.used)}, more than {shown(self.limit)}, "
                f"{rule}. {advice}"
            )


def _next_size(count: int) -> str:
    """A round limit that this many bytes fit under."""
    size = 1
    while size * 2**30 < count:
        size *= 2
    return f"{size}G"


class _Expanding(io.RawIOBase):
    """The contents of a file, decompressed if it is a .gz; stops with an error when the budget is spent."""

    def __init__(self, source: Any, budget: Budget) -> None:
        self._source, self._budget = source, budget

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count: int = self._source.readinto(memoryview(buffer)[:_PIECE])
        self._budget.take(count, at_least=True)
        return count


@contextmanager
def open_expanded(path: Path, limit: int | None) -> Iterator[tuple[BinaryIO, Budget]]:
    """The contents of a file, decompressed if it ends in .gz, and the budget that reading them spends."""
    try:
        with open_regular(path) as (file, size):
            budget = Budget(path, size, limit)
            source: Any = gzip.GzipFile(fileobj=file) if path.suffix.lower() == ".gz" else file
            yield io.BufferedReader(_Expanding(source, budget), 2**18), budget
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error}).") from None
