"""Files from untrusted sources: only regular files are opened, and they are expanded only up to a limit."""

from __future__ import annotations

import gzip
import io
import os
import stat
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from . import memory_limit
from .memory_limit import enough, size_text

DAMAGED_ARCHIVE: tuple[type[Exception], ...] = (
    ValueError, OSError, EOFError, KeyError, RuntimeError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
"""Errors of zipfile for damaged files; RuntimeError: encrypted members, compression that Python does not know."""
try:
    from lzma import LZMAError
except ImportError:  # Python was compiled without it, and zipfile refuses members that need it
    pass
else:
    DAMAGED_ARCHIVE += (LZMAError,)

_PIECE = 2**18  # bytes at a time, so that a file that expands without end is found out early


class DataError(ValueError):
    """Data that cannot be trained on; the message says what and where.

    >>> from openbnns import nn
    >>> try:
    ...     nn.data.load("nowhere.npz")
    ... except nn.data.DataError as error:
    ...     print(error)
    nowhere.npz: there is no such file or folder. Use 'digits' or the path of your data.
    """


@contextmanager
def open_regular(path: str | os.PathLike[str], error: type[ValueError] = DataError) -> Iterator[tuple[BinaryIO, int]]:
    """A file and its size; a pipe or a device, which may have no end, is refused."""
    # Without O_NONBLOCK opening a pipe would wait for a writer.
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        os.close(handle)
        if stat.S_ISDIR(status.st_mode):
            raise error(f"{path}: is a folder. Give the path of a file.")
        raise error(f"{path}: is not a regular file but a pipe, a device or the like. Copy it into a file first.")
    with os.fdopen(handle, "rb") as file:
        yield file, status.st_size


NO_WEIGHTS = "Weights do not shrink that much, so the file may be damaged."
"""The advice for a file of weights that expands beyond its budget."""


class Budget:
    """A limit on the total bytes of a file's contents."""

    def __init__(self, path: Path, file_size: int, limit: int | None, advice: str | None = None) -> None:
        """``advice`` goes before the environment variable in the message where no limit can be given."""
        self.path, self.file_size, self.advice = path, file_size, advice
        self.given = memory_limit.limit_from_environment() if limit is None else limit
        self.limit = self.given or memory_limit.limit(file_size)
        self.used = 0

    def take(self, count: int, *, at_least: bool = False) -> None:
        """Count bytes that are about to be needed; ``at_least`` says that there may be more."""
        self.used += count
        if self.used > self.limit:
            rule = (
                "the limit that was given"
                if self.given is not None
                else f"the limit for a file of {size_text(self.file_size)}"
            )
            advice = (
                f"{self.advice} {memory_limit.cure(self.used)}"
                if self.advice
                else (
                    f"If you trust the file, raise the limit: --memory-limit {enough(self.used)} (in Python "
                    f'nn.data.load(..., memory_limit="{enough(self.used)}")).'
                )
            )
            raise DataError(
                f"{self.path}: expands to {'at least ' if at_least else ''}{size_text(self.used)}, more than "
                f"{size_text(self.limit)}, {rule}. {advice}"
            )


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
