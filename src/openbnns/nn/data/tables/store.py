"""Rows of a table as they are read: in memory while there is room, else in a temporary file."""

from __future__ import annotations

import os
import shutil
import tempfile

import numpy as np

from ....graph.tensor import Array
from ...files.memory_limit import shown
from ...files.untrusted import DataError
from ..sources.stored import StoredRows
from . import room as memory
from .table import Table

_BUFFER = 2**22  # bytes of rows that are written at a time


class RowStore:
    """Takes rows of numbers, of numbers to predict, and of words, and gives them to a table when all are there.

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
        """That are there."""
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
        """So many rows of what :meth:`free` gave are filled."""
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
            self._file, name = tempfile.mkstemp(prefix="openbnns-", dir=memory.folder())
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
        folder = memory.folder()
        return DataError(
            f"{self._source}: is larger than the memory for it, and a temporary file in {folder} cannot be written "
            f"({error.strerror}, {shown(shutil.disk_usage(folder).free) if os.path.isdir(folder) else 'nothing'} free). Set "
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
            f"Its rows stay in a temporary file of {shown(4 * width * self._written)} in {memory.folder()}, from which they are "
            f"read as they are needed: {self._why()}."
        )

    def _why(self) -> str:
        if not self._room:
            return "--stream was given"
        return (
            f"the table takes {shown(self._row_bytes * self._written)}, more than the {shown(self._room)} that there is for it "
            "(--no-stream reads it into memory)"
        )
