"""Arrays in .npy and .npz files, read row by row."""

from __future__ import annotations

import math
import os
import struct
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ....graph.tensor import Array
from ...files.untrusted import DataError, open_regular
from ..array_files import read_npy_header
from .rows import Rows, spans

_LOCAL_HEADER = struct.Struct(
    "<4s22xHH"
)  # of a member of a zip archive: signature, and how long its name and the rest are


_GAPS = 2  # rows in order are read with those between them, if that is at most so many times as much


class StoredRows(Rows):
    """Rows of an array that lies in a file as it would in memory.

    They are read, not mapped: a file that is cut short meanwhile, or a disk that is gone, is an error with a message, not the end
    of the process by a signal; and a file may be larger than the address space that a process is allowed.
    """

    def __init__(self, file: BinaryIO, shape: tuple[int, ...], dtype: np.dtype[Any], who: str) -> None:
        """The array begins where the file is now."""
        super().__init__(shape, dtype.newbyteorder("="))
        self._offset, self._stored, self._who = file.tell(), dtype, who
        self._row_bytes = math.prod(shape[1:]) * dtype.itemsize
        self._handle = os.dup(file.fileno())

    def __del__(self) -> None:
        handle = getattr(self, "_handle", None)
        if handle is not None:
            os.close(handle)

    def read(self, rows: Array) -> Array:
        first, span = int(rows[0]), int(rows[-1]) - int(rows[0]) + 1
        if len(rows) < span <= _GAPS * len(rows) and (np.diff(rows) > 0).all():
            between: Array = self.read(np.arange(first, first + span))
            chosen: Array = between[rows - first]
            return chosen
        found = np.empty((len(rows), *self.shape[1:]), self._stored)
        data = found.reshape(-1).view(np.uint8).data
        ends = [*(np.flatnonzero(np.diff(rows) != 1) + 1).tolist(), len(rows)]  # ends of contiguous runs
        start = 0
        for end in ends:
            self._fill(data[start * self._row_bytes : end * self._row_bytes], int(rows[start]) * self._row_bytes)
            start = end
        return found.astype(self.dtype, copy=False)

    def _fill(self, data: memoryview, place: int) -> None:
        """Read bytes of the array from this place on."""
        done = 0
        while done < len(data):
            try:
                count = os.preadv(self._handle, [data[done:]], self._offset + place + done)
            except OSError as error:
                raise DataError(f"{self._who}: cannot be read any more ({error.strerror}).") from None
            if count == 0:
                sample, size = (place + done) // self._row_bytes, os.fstat(self._handle).st_size
                raise DataError(
                    f"{self._who}: ends at byte {size}, before sample {sample} does. The file has changed since it was opened."
                )
            done += count

    def pieces(self) -> Iterator[Any]:
        for start, end in spans(len(self) * self._row_bytes):
            piece = memoryview(bytearray(end - start))
            self._fill(piece, start)
            yield piece


def _open(file: BinaryIO, end: int, who: str) -> StoredRows:
    """The array whose header comes next in the file."""
    shape, fortran, dtype = read_npy_header(file, end, who)
    if not shape:
        raise DataError(f"{who}: is a single number, but an array with one entry per sample is needed.")
    if fortran and len(shape) > 1:
        raise DataError(
            f"{who}: is stored column by column (Fortran order), so that no sample lies in one piece. Store it by np.save(path, "
            'np.ascontiguousarray(array)), or map it by np.load(path, mmap_mode="r").'
        )
    return StoredRows(file, shape, dtype, who)


def open_npy(path: str | os.PathLike[str]) -> Rows:
    """The rows of an array that ``np.save`` has stored, each read when it is needed.

    >>> import os, tempfile
    >>> import numpy as np
    >>> from openbnns import nn
    >>> path = os.path.join(tempfile.mkdtemp(), "x.npy")
    >>> np.save(path, np.arange(6_000_000, dtype=np.float32).reshape(-1, 3))
    >>> x = nn.sources.open_npy(path)
    >>> x
    <StoredRows: float32 of shape (2000000, 3)>
    >>> x[[7, 1_999_999]].tolist()
    [[21.0, 22.0, 23.0], [5999997.0, 5999998.0, 5999999.0]]
    """
    place = Path(path)
    try:
        with open_regular(place) as (file, size):
            return _open(file, size, str(place))
    except DataError:
        raise
    except (ValueError, OSError) as error:
        raise DataError(f"{place}: cannot be read as .npy ({getattr(error, 'strerror', None) or error}).") from None


class StoredArchive(Mapping[str, Rows]):
    """The arrays of an .npz file by name."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with open_regular(path) as (file, _), zipfile.ZipFile(file) as archive:
            self._members = {name.removesuffix(".npy"): archive.getinfo(name) for name in archive.namelist()}

    def __getitem__(self, name: str) -> Rows:
        if name not in self._members:
            raise DataError(f"{self._path}: has arrays {', '.join(self._members) or '(none)'}, but no {name!r}.")
        member, who = self._members[name], f"{self._path}: {name}"
        if member.flag_bits & 1 or member.compress_type != zipfile.ZIP_STORED:
            what = "encrypted" if member.flag_bits & 1 else "compressed"
            raise DataError(
                f"{who} is {what}, so that samples cannot be read one by one. Store it by np.savez, which does not compress, or "
                "load all of it into memory by np.load."
            )
        with open_regular(self._path) as (file, _):
            file.seek(member.header_offset)
            header = file.read(_LOCAL_HEADER.size)
            if len(header) < _LOCAL_HEADER.size or not header.startswith(b"PK\x03\x04"):
                raise DataError(f"{who}: its header is damaged.")
            _, name_size, extra_size = _LOCAL_HEADER.unpack(header)
            start = member.header_offset + len(header) + name_size + extra_size
            file.seek(start)
            try:
                return _open(file, start + member.file_size, who)
            except ValueError as error:
                raise error if isinstance(error, DataError) else DataError(f"{who}: {error}.") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {', '.join(self._members)}>"


def open_npz(path: str | os.PathLike[str]) -> Mapping[str, Rows]:
    """The arrays that ``np.savez`` has stored, by name; rows are read when they are needed. Compressed ones are refused.

    >>> import os, tempfile
    >>> import numpy as np
    >>> from openbnns import nn
    >>> path = os.path.join(tempfile.mkdtemp(), "data.npz")
    >>> x = np.random.RandomState(0).standard_normal((500, 4)).astype(np.float32)
    >>> np.savez(path, x=x, y=(x[:, 0] > 0).astype(np.int64))
    >>> data = nn.sources.open_npz(path)
    >>> history = nn.Trainer(nn.Linear(2), optimizer=nn.Adam(0.1), quiet=True).fit(data["x"], data["y"], epochs=5)
    >>> history[-1]["accuracy"] > 0.9
    True
    """
    place = Path(path)
    try:
        return StoredArchive(place)
    except (zipfile.BadZipFile, OSError) as error:
        raise DataError(f"{place}: cannot be read as .npz ({getattr(error, 'strerror', None) or error}).") from None
