"""Weights in ``.safetensors`` files: a header in JSON, then the arrays, without any code in the file.

A file is the length of the header (8 bytes, little endian), the header ``{name: {dtype, shape, data_offsets}}`` with an
optional ``__metadata__`` of strings, and the bytes of all arrays, packed. Files are written to a temporary name beside
the target, flushed to the disk, and renamed, so a reader never meets half a file.
"""

from __future__ import annotations

import io
import json
import math
import os
import struct
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from .._listing import of_module as _of_module
from .untrusted import open_regular

Array = np.ndarray[Any, Any]

_TYPES: dict[str, str] = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "|i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "|u1", "BOOL": "|b1", "BF16": "<u2",
}  # fmt: skip
_NAMES = {np.dtype(numpy_name): name for name, numpy_name in _TYPES.items() if name != "BF16"}
_LARGEST_HEADER = 100_000_000
_DEEPEST = 127  # as in the format's own implementation
_MOST_AXES = 64 if int(np.__version__.split(".")[0]) >= 2 else 32


class DamagedFile(ValueError):
    """A file that is damaged or of another kind; the message says where."""


def encode(arrays: Mapping[str, Any], metadata: Mapping[str, str] | None = None) -> bytes:
    """The bytes of a file with these arrays."""
    header: dict[str, Any] = {} if metadata is None else {"__metadata__": dict(metadata)}
    pieces, offset = [], 0
    for name, value in arrays.items():
        array = np.ascontiguousarray(value)
        if array.dtype not in _NAMES:
            raise TypeError(f"{name} is {array.dtype}, which a safetensors file cannot hold.")
        piece = array.tobytes()
        header[name] = {
            "dtype": _NAMES[array.dtype],
            "shape": list(np.shape(value)),
            "data_offsets": [offset, offset + len(piece)],
        }
        pieces.append(piece)
        offset += len(piece)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return b"".join([struct.pack("<Q", len(text)), text, *pieces])


def decode(data: bytes, who: str = "safetensors") -> tuple[dict[str, Array], dict[str, str]]:
    """The arrays and the metadata of a file, every number in its header checked before it is used."""
    return _read(io.BytesIO(data), len(data), who)


def _read(file: BinaryIO, size: int, who: str) -> tuple[dict[str, Array], dict[str, str]]:
    """Check the rules of the format: offsets without holes and overlaps, and a file that ends with its last array. They
    keep a small file from taking much memory: arrays together are as large as the file.
    """
    header, start = _header(file, size, who)
    metadata = _metadata(header.pop("__metadata__", None), who)
    entries = {name: _Entry(entry, f"{who}: {name}") for name, entry in header.items()}
    offset = 0
    for entry in sorted(entries.values(), key=lambda e: (e.start, e.end)):
        if entry.start != offset:
            kind = "overlaps the array before it" if entry.start < offset else "leaves a hole in front of it"
            raise DamagedFile(f"{entry.who}: begins at byte {entry.start} instead of {offset}, which {kind}.")
        offset = entry.end
    if offset != size - start:
        raise DamagedFile(
            f"{who}: the arrays take {offset} bytes, but {size - start} follow the header. The file is truncated or damaged."
        )
    arrays: dict[str, Array] = {}
    for name, entry in entries.items():
        file.seek(start + entry.start)
        arrays[name] = entry.read(file)
    return arrays, metadata


def _header(file: BinaryIO, size: int, who: str) -> tuple[dict[str, Any], int]:
    """The header, and where it ends."""
    if size < 8:
        raise DamagedFile(f"{who}: the file has {size} bytes, too few for a safetensors file.")
    (length,) = struct.unpack("<Q", file.read(8))
    if length > size - 8:
        if file.read(1) != b"{":
            raise DamagedFile(f"{who}: is not a safetensors file: its first nine bytes are not the beginning of one.")
        raise DamagedFile(
            f"{who}: the header should have {length} bytes, but the file ends before. The file is truncated."
        )
    if length > _LARGEST_HEADER:
        raise DamagedFile(f"{who}: the header has {length} bytes, but {_LARGEST_HEADER} are the most that is allowed.")
    try:
        text = file.read(length).decode()
        if not text.startswith("{"):
            raise ValueError("it does not begin with a brace")
        header = json.loads(
            text, object_pairs_hook=_table, parse_constant=_refuse, parse_float=_finite, parse_int=_integer
        )
        json.dumps(header, ensure_ascii=False).encode()  # fails for half of a surrogate pair, which is not text
        if _depth(header) > _DEEPEST:
            raise ValueError(f"it is nested more than {_DEEPEST} deep")
    except RecursionError:
        raise DamagedFile(f"{who}: the header is nested too deeply to be one of a safetensors file.") from None
    except ValueError as error:
        raise DamagedFile(
            f"{who}: the header cannot be read ({error}). It is damaged or not a safetensors file."
        ) from None
    return header, 8 + length


def _table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ValueError("it has the same name twice")
    return table


def _refuse(text: str) -> float:
    raise ValueError(f"{text} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _refuse(text)


def _integer(text: str) -> float:
    value = _finite(text)  # refuses endless numbers before they are made
    return value if text == "-0" else int(text)


def _depth(value: Any) -> int:
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if children is None else 1 + max(map(_depth, children), default=0)


def _metadata(value: Any, who: str) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise DamagedFile(f"{who}: __metadata__ is not a table of texts.")
    return value


class _Entry:
    """The entry of one array in a header."""

    def __init__(self, entry: Any, who: str) -> None:
        self.who = who
        fields: list[Any] = []
        if isinstance(entry, dict):
            fields = [entry.get(name) for name in ("dtype", "shape", "data_offsets")]
        if not fields or not isinstance(fields[0], str) or not _are_sizes(fields[1]) or not _are_sizes(fields[2], 2):
            raise DamagedFile(f"{who}: its entry in the header is incomplete.")
        self.kind: str = fields[0]
        self.shape: list[int] = fields[1]
        self.start, self.end = fields[2]
        if self.kind not in _TYPES:
            raise DamagedFile(f"{who}: element type {self.kind!r} is not known. Known are {', '.join(_TYPES)}.")
        if len(self.shape) > _MOST_AXES:
            raise DamagedFile(f"{who}: has rank {len(self.shape)}, but an array has at most {_MOST_AXES} axes.")
        self.dtype = np.dtype(_TYPES[self.kind])
        self.count = 1
        for axis in self.shape:
            self.count *= axis
            if self.count * self.dtype.itemsize >= 2**63 or axis >= 2**63:
                raise DamagedFile(f"{who}: no array can have shape {tuple(self.shape)}.")
        if self.start > self.end or self.end - self.start != self.count * self.dtype.itemsize:
            raise DamagedFile(
                f"{who}: {self.end - self.start} bytes from {self.start} on do not hold {self.kind} of shape "
                f"{tuple(self.shape)}."
            )

    def read(self, file: BinaryIO) -> Array:
        values: Array = np.empty(self.count, self.dtype)
        if file.readinto(values.view(np.uint8)) != values.nbytes:  # type: ignore[attr-defined]
            raise DamagedFile(f"{self.who}: the file ends inside the array.")
        if self.kind == "BF16":
            values = (values.astype(np.uint32) << 16).view(np.float32)
        elif self.kind == "BOOL":
            values = values.view(np.uint8) != 0  # any other byte would be a third kind of boolean
        try:
            shaped: Array = values.reshape(self.shape)
            return shaped
        except ValueError:
            raise DamagedFile(f"{self.who}: no array can have shape {tuple(self.shape)}.") from None


def _are_sizes(value: Any, count: int | None = None) -> bool:
    """True for a list of unsigned 64-bit integers."""
    numbers = isinstance(value, list) and all(type(n) is int and 0 <= n < 2**64 for n in value)
    return numbers and (count is None or len(value) == count)


def write_atomically(path: Any, data: bytes) -> None:
    """Write a file so that at any moment, even after a crash, it is the complete old one or the complete new one."""
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{target}: there is no folder {target.parent}. Make it first.")
    try:
        _replace(target, data)
    except OSError as error:  # which names a temporary file, or, on a full disk, none
        reason = f"{error.strerror or error}; {len(data)} bytes are not written, an older file is as it was"
        raise OSError(error.errno, reason, str(target)) from None


def _replace(target: Path, data: bytes) -> None:
    handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, target)
    except BaseException as error:
        if os.path.exists(temporary):
            os.unlink(temporary)
        if isinstance(error, OSError):  # a full disk, for instance, does not say which file it was
            raise OSError(error.errno, error.strerror, str(target)) from None
        raise
    if hasattr(os, "O_DIRECTORY"):
        directory = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)  # makes the new name last
        finally:
            os.close(directory)


def save(path: Any, arrays: Mapping[str, Any], metadata: Mapping[str, str] | None = None) -> None:
    """Write arrays to a ``.safetensors`` file.

    >>> import numpy as np, tempfile, os
    >>> from openbnns import nn
    >>> path = os.path.join(tempfile.mkdtemp(), "weights.safetensors")
    >>> nn.weights.save(path, {"w": np.arange(3, dtype=np.float32)})
    >>> nn.weights.load(path)
    {'w': array([0., 1., 2.], dtype=float32)}
    """
    write_atomically(path, encode(arrays, metadata))


def load(path: Any) -> dict[str, Array]:
    """Read the arrays of a ``.safetensors`` file; bfloat16 becomes float32."""
    return read(path)[0]


def read(path: Any) -> tuple[dict[str, Array], dict[str, str]]:
    """The arrays and the metadata of a ``.safetensors`` file."""
    with open_regular(path, DamagedFile) as (file, size):
        return _read(file, size, str(path))


__all__ = ["DamagedFile", "decode", "encode", "load", "read", "save"]

__dir__ = _of_module(__name__)
