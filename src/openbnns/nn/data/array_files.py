"""Arrays from .npz and IDX files. Whatever a file says about sizes is checked before memory is taken for it."""

from __future__ import annotations

import math
import struct
import zipfile
from collections.abc import Collection
from pathlib import Path
from tokenize import TokenError
from typing import Any, BinaryIO

import numpy as np

from ...graph.tensor import Array
from ..files.untrusted import DAMAGED_ARCHIVE, Budget, DataError, open_expanded, open_regular

_PIECE = 2**24


def _read(file: Any, count: int) -> bytearray:
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
            found = {}
            for name in chosen:
                with archive.open(members[name]) as member:
                    found[name] = _read_npy(member, members[name].file_size, f"{path}: {name}")
            return found, list(members)
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
    data = _read(file, count * dtype.itemsize)
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
    data = _read(file, wanted) if there == wanted else b""
    there = len(data) if there == wanted else there
    if there != wanted or file.read(1):
        has = f"{there} bytes" if there != wanted else "more"
        raise DataError(
            f"{path}: should hold {shape} elements, that is {wanted} bytes, but has {has}. Fetch the file again."
        )
    return np.frombuffer(data, dtype).reshape(shape).astype(dtype.newbyteorder("="))
