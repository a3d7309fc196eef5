"""Rows of a table while it is read: in memory if they fit, else in a temporary file."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import numpy as np

from ....graph.tensor import Array
from ...files import memory_limit
from ...files.memory_limit import size_text
from ...files.untrusted import DataError
from ..sources.array_files import StoredRows
from .table import Table

_SHARE_OF_FREE_MEMORY = (
    0.4  # of the free memory that a table may take: its parts are copied out of it, and the network needs some too
)
_GROUPS = Path("/sys/fs/cgroup")


def memory_for_data(stream: bool | None, limit: int | None) -> int | None:
    """The bytes that a table may take in memory: 0 if it is to be streamed, any number (None) if it is not to be.

    Otherwise what is free decides, or the ``limit`` for data in memory, if one is given.
    """
    if stream is not None:
        return 0 if stream else None
    free = free_memory()
    room = None if free is None else int(_SHARE_OF_FREE_MEMORY * free)
    return max(1, min((size for size in (room, limit) if size is not None), default=2**62))


def memory_for_table(path: Path, stream: bool | None, limit: int | None) -> int | None:
    """The same for the table in a file; a compressed one takes a share of what files may ask for, however much is free."""
    room = memory_for_data(stream, limit)
    if stream is None and limit is None and room is not None and path.suffix.lower() == ".gz":
        room = min(room, int(_SHARE_OF_FREE_MEMORY * memory_limit.limit(path.stat().st_size)))
    return room


def free_memory() -> int | None:
    """The bytes that this process can still take, None if the system does not say."""
    return min((max(0, size) for size in (*_of_system(), *_of_groups(), *_of_process())), default=None)


def _of_system() -> Iterator[int]:
    for line in _text_of(Path("/proc/meminfo")).splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            yield 1024 * int(value.split()[0])


def _of_groups() -> Iterator[int]:
    """Bytes that the limits of containers and services leave: cgroups of the second and the first version."""
    for line in _text_of(Path("/proc/self/cgroup")).splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            folder, names = _GROUPS / path.lstrip("/"), ("memory.max", "memory.current")
        elif "memory" in controllers.split(","):
            folder, names = _GROUPS / "memory" / path.lstrip("/"), ("memory.limit_in_bytes", "memory.usage_in_bytes")
        else:
            continue
        for level in (folder, *folder.parents):
            most, used = (_text_of(level / name).strip() for name in names)
            if most.isdigit() and used.isdigit():
                yield int(most) - int(used)


def _of_process() -> Iterator[int]:
    """Bytes that ``ulimit`` leaves."""
    pages = _text_of(Path("/proc/self/statm")).split()
    if len(pages) < 6:
        return
    resource = import_module("resource")
    for what, used in ((resource.RLIMIT_AS, pages[0]), (resource.RLIMIT_DATA, pages[5])):
        most = resource.getrlimit(what)[0]
        if most != resource.RLIM_INFINITY:
            yield most - int(used) * resource.getpagesize()


def _text_of(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def temporary_folder() -> str:
    """The folder for temporary files that may be large: TMPDIR, else /var/tmp, because /tmp is memory on many systems."""
    return tempfile.gettempdir() if os.environ.get("TMPDIR") or not os.path.isdir("/var/tmp") else "/var/tmp"


_BUFFER = 2**22  # bytes of rows that are written at a time


class RowStore:
    """A store for rows of numbers, of numbers to predict, and of words, until a table gets all of them.

    Numbers to predict stay in memory, as the order of the samples does. The others lie in the file side by side, so that a row
    is read at once; the file has no name and is gone with the process, however that ends.
    """

    def __init__(self, source: str, widths: tuple[int, int, int], rows: int, room: int | None) -> None:
        """For about so many ``rows``, of which ``room`` bytes may be in memory: any number if it is None."""
        self._source, self._widths, self._room = source, widths, room
        self._row_bytes = 4 * widths[0] + 8 * widths[1] + 4 * widths[2]
        self._file: int | None = None
        self._written = self._used = 0
        self._exact: list[Array] = []
        if not self._fits(rows):
            self._open()
            rows = min(rows, self._buffer_rows)
        numbers, exact, codes = widths
        self._arrays = np.empty((rows, numbers), np.float32), np.empty((rows, exact)), np.empty((rows, codes), np.int32)

    def __del__(self) -> None:
        if getattr(self, "_file", None) is not None:
            os.close(self._file)  # type: ignore[arg-type]

    @property
    def rows(self) -> int:
        """The number of rows so far."""
        return self._written + self._used

    @property
    def _buffer_rows(self) -> int:
        return max(16, _BUFFER // max(1, self._row_bytes))

    def _fits(self, rows: int) -> bool:
        return self._room is None or rows * self._row_bytes <= self._room

    def free(self) -> tuple[Array, Array, Array]:
        """Memory for the next rows, at least one: numbers, numbers to predict, codes of words."""
        if self._used == len(self._arrays[0]):
            self._make_room()
        numbers, exact, codes = self._arrays
        return numbers[self._used :], exact[self._used :], codes[self._used :]

    def take(self, count: int) -> None:
        """Note that so many rows of the memory from :meth:`free` are filled."""
        self._used += count

    def _make_room(self) -> None:
        if self._file is None:
            wanted = self._used + self._used // 2 + 2**14
            if self._fits(wanted):
                self._resize(wanted)
                return
            self._open()
        self._write()
        self._resize(self._buffer_rows)

    def _resize(self, rows: int) -> None:
        """Have room for so many rows; pages of memory move, nothing is copied."""
        for array in self._arrays:
            array.resize((rows, array.shape[1]), refcheck=False)

    def _open(self) -> None:
        try:
            self._file, name = tempfile.mkstemp(prefix="openbnns-", dir=temporary_folder())
            os.unlink(name)
        except OSError as error:
            raise self._no_file(error) from None

    def _write(self) -> None:
        assert self._file is not None
        numbers, exact, codes = (array[: self._used] for array in self._arrays)
        step = self._buffer_rows
        try:
            for start in range(0, self._used, step):
                part = slice(start, start + step)
                data = (
                    np.concatenate([numbers[part].view(np.int32), codes[part]], axis=1).reshape(-1).view(np.uint8).data
                )
                while data:
                    data = data[os.write(self._file, data) :]
        except OSError as error:
            raise self._no_file(error) from None
        self._exact.append(exact.copy())
        self._written += self._used
        self._used = 0

    def _no_file(self, error: OSError) -> DataError:
        folder = temporary_folder()
        return DataError(
            f"{self._source}: is larger than the memory for it, and a temporary file in {folder} cannot be written "
            f"({error.strerror}, {size_text(shutil.disk_usage(folder).free) if os.path.isdir(folder) else 'nothing'} free). Set "
            "TMPDIR to a folder on a disk with more room."
        )

    def give_to(self, table: Table) -> None:
        """Put all rows into a table."""
        if self._file is None:
            self._resize(self.rows)
            table.numbers, table.exact, table.codes = self._arrays
            return
        self._write()
        table.exact = np.concatenate(self._exact)
        table.numbers, table.codes = (array[:0] for array in self._arrays[::2])
        width = self._widths[0] + self._widths[2]
        with os.fdopen(self._file, "rb") as file:
            self._file = None
            file.seek(0)
            table.stored = StoredRows(file, (self._written, width), np.dtype(np.int32), f"{self._source}, stored")
        table.notes.append(
            f"Its rows stay in a temporary file of {size_text(4 * width * self._written)} in {temporary_folder()}, from which "
            f"they are read as they are needed: {self._reason()}."
        )

    def _reason(self) -> str:
        if not self._room:
            return "--stream was given"
        return (
            f"the table takes {size_text(self._row_bytes * self._written)}, more than the {size_text(self._room)} that there is "
            "for it (--no-stream reads it into memory)"
        )
