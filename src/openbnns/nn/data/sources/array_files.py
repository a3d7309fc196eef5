"""Arrays in .npz, .npy and IDX files, whole or row by row. Sizes that a file claims are checked before memory is taken for it."""

from __future__ import annotations

import math
import os
import struct
import zipfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from tokenize import TokenError
from typing import Any, BinaryIO

import numpy as np

from ....files.untrusted import DAMAGED_ARCHIVE, Budget, DataError, open_expanded, open_regular
from ....graph.tensor import Array
from .rows import Rows, spans

_PIECE = 2**24


def _read_bytes(file: Any, count: int) -> bytearray:
    """Up to ``count`` bytes, taking memory only for what is there."""
    data = bytearray()
    while len(data) < count:
        piece = file.read(min(count - len(data), _PIECE))
        if not piece:
            break
        data += piece
    return data


# .npz


def read_npz(
    path: Path, wanted: Collection[str] | None, limit: int | None, advice: str | None = None
) -> tuple[dict[str, Array], list[str]]:
    """The ``wanted`` arrays that the file has (None: all), and the names of all; the others are not read."""
    try:
        with open_regular(path) as (file, size), zipfile.ZipFile(file) as archive:
            members = {name.removesuffix(".npy"): archive.getinfo(name) for name in archive.namelist()}
            budget = Budget(path, size, limit, advice)
            chosen = [name for name in (members if wanted is None else wanted) if name in members]
            for name in chosen:
                budget.take(members[name].file_size)
            arrays = {}
            for name in chosen:
                with archive.open(members[name]) as member:
                    arrays[name] = _read_npy(member, members[name].file_size, f"{path}: {name}")
            return arrays, list(members)
    except DataError:
        raise
    except DAMAGED_ARCHIVE as error:
        raise DataError(f"{path}: cannot be read as .npz{_what_it_is(path)} ({error}).") from None


def _what_it_is(path: Path) -> str:
    with open_regular(path) as (file, _):
        start = file.read(8)
    if start.startswith(b"\x93NUMPY"):
        return ", because it is a single array as np.save writes it; store x and y with np.savez"
    if start[:1] == b"\x80":
        return ", because it is a pickle, which is never loaded; store x and y with np.savez"
    return ""


def read_npy_header(file: Any, end: int, who: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, Fortran order and type of an array in NumPy's format whose elements end there; the file is then where they begin."""
    version = np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise DataError(f"{who}: is stored in version {version} of NumPy's format, which is not for plain numbers.")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    try:
        shape, fortran, dtype = read(file)
    except (
        TokenError,
        SyntaxError,
        TypeError,
        ValueError,
        RecursionError,
        MemoryError,
    ) as error:  # NumPy reads it as Python
        raise DataError(f"{who}: its header cannot be read ({str(error)[:200]}). The file is damaged.") from None
    if dtype.hasobject:
        raise DataError(f"{who}: holds Python objects, which are never unpickled. Store numbers or words.")
    there = end - file.tell()
    if min(shape, default=0) < 0 or len(shape) > 32 or there != math.prod(shape) * dtype.itemsize:
        raise DataError(
            f"{who}: its header says {dtype} of shape {_short(shape)}, but {there} bytes follow it. The file is damaged."
        )
    return shape, fortran, dtype


def _read_npy(file: Any, size: int, who: str) -> Array:
    shape, fortran, dtype = read_npy_header(file, size, who)
    count = math.prod(shape)
    data = _read_bytes(file, count * dtype.itemsize)
    if file.read(1) or len(data) != count * dtype.itemsize:  # reading to the end checks the checksum, too
        raise DataError(f"{who}: ends after {len(data)} bytes of {count * dtype.itemsize}. The file is damaged.")
    values: Array = np.frombuffer(data, dtype, count)
    return values.reshape(shape, order="F" if fortran else "C")


def _short(shape: tuple[int, ...]) -> str:
    return str(shape) if len(shape) <= 8 else f"of rank {len(shape)}"


# IDX

_IDX_TYPES = {8: ">u1", 9: ">i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}


def read_idx(path: Path, limit: int | None = None) -> Array:
    """An array from an IDX file, packed with gzip or not."""
    with open_expanded(path, limit) as (file, budget):
        return _read_idx(file, budget, path)


def _read_idx(file: BinaryIO, budget: Budget, path: Path) -> Array:
    head = file.read(4)
    if len(head) < 4 or head[:2] != b"\0\0" or head[2] not in _IDX_TYPES:
        raise DataError(f"{path}: is not an IDX file. IDX files begin with two zero bytes, as MNIST's do.")
    dtype, rank = np.dtype(_IDX_TYPES[head[2]]), head[3]
    if not 1 <= rank <= 8:
        raise DataError(f"{path}: has rank {rank}, but samples have at least one axis and at most 8.")
    sizes = file.read(4 * rank)
    if len(sizes) < 4 * rank:
        raise DataError(f"{path}: ends inside its header. Fetch the file again.")
    shape = struct.unpack(f">{rank}I", sizes)
    wanted = math.prod(shape) * dtype.itemsize
    packed = path.suffix.lower() == ".gz"
    if packed and wanted > budget.limit - budget.used:
        budget.take(wanted)
    there = wanted if packed else budget.file_size - 4 - 4 * rank
    data = _read_bytes(file, wanted) if there == wanted else b""
    there = len(data) if there == wanted else there
    if there != wanted or file.read(1):
        has = f"{there} bytes" if there != wanted else "more"
        raise DataError(
            f"{path}: should hold {shape} elements, that is {wanted} bytes, but has {has}. Fetch the file again."
        )
    return np.frombuffer(data, dtype).reshape(shape).astype(dtype.newbyteorder("="))


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
        result = np.empty((len(rows), *self.shape[1:]), self._stored)
        data = result.reshape(-1).view(np.uint8).data
        ends = [*(np.flatnonzero(np.diff(rows) != 1) + 1).tolist(), len(rows)]  # ends of contiguous runs
        start = 0
        for end in ends:
            self._fill(data[start * self._row_bytes : end * self._row_bytes], int(rows[start]) * self._row_bytes)
            start = end
        return result.astype(self.dtype, copy=False)

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
