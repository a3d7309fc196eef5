"""Weights in ``.safetensors`` files: a header in JSON, then the arrays, without any code in the file.

A file is the length of the header (8 bytes, little endian), the header ``{name: {dtype, shape, data_offsets}}`` with an
optional ``__metadata__`` of strings, and the bytes of all arrays, packed. Files are written to a temporary name beside
the target, flushed to the disk, and renamed, so a reader never meets half a file.
"""

from __future__ import annotations

import json
import os
import struct
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ._graph import Array

_TYPES: dict[str, str] = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "|i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "|u1", "BOOL": "|b1", "BF16": "<u2",
}  # fmt: skip
_NAMES = {np.dtype(numpy_name): name for name, numpy_name in _TYPES.items() if name != "BF16"}
_LARGEST_HEADER = 100_000_000


class DamagedFile(ValueError):
    """A file that is not what it should be; the message says where."""


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
    header, body = _split(data, who)
    metadata = header.pop("__metadata__", {})
    arrays: dict[str, Array] = {}
    for name, entry in header.items():
        arrays[name] = _array(entry, body, f"{who}: {name}")
    return arrays, {str(key): str(value) for key, value in dict(metadata).items()}


def _split(data: bytes, who: str) -> tuple[dict[str, Any], memoryview]:
    if len(data) < 8:
        raise DamagedFile(f"{who}: the file has {len(data)} bytes, too few for a safetensors file.")
    (length,) = struct.unpack("<Q", data[:8])
    if length > min(len(data) - 8, _LARGEST_HEADER):
        raise DamagedFile(
            f"{who}: the header should have {length} bytes, but the file ends before. It is cut or no safetensors file."
        )
    try:
        header = json.loads(bytes(data[8 : 8 + length]))
    except ValueError as error:
        raise DamagedFile(
            f"{who}: the header cannot be read ({error}). It is damaged or no safetensors file."
        ) from None
    if not isinstance(header, dict):
        raise DamagedFile(f"{who}: the header is no table of arrays.")
    return header, memoryview(data)[8 + length :]


def _array(entry: Any, body: memoryview, who: str) -> Array:
    try:
        kind, shape, (start, end) = str(entry["dtype"]), [int(n) for n in entry["shape"]], entry["data_offsets"]
        start, end = int(start), int(end)
    except (KeyError, TypeError, ValueError):
        raise DamagedFile(f"{who}: its entry in the header is incomplete.") from None
    if kind not in _TYPES:
        raise DamagedFile(f"{who}: element type {kind!r} is not known. Known are {', '.join(_TYPES)}.")
    dtype = np.dtype(_TYPES[kind])
    count = int(np.prod(shape, dtype=object)) if shape else 1
    if min(shape, default=0) < 0 or not 0 <= start <= end <= len(body) or end - start != count * dtype.itemsize:
        raise DamagedFile(f"{who}: {end - start} bytes from {start} on do not hold {kind} of shape {tuple(shape)}.")
    array: Array = np.frombuffer(body, dtype, count, start).reshape(shape)
    if kind == "BF16":
        widened: Array = (array.astype(np.uint32) << 16).view(np.float32)
        return widened
    copied: Array = array.copy()
    return copied


def write_atomically(path: Any, data: bytes) -> None:
    """Write a file so that at any moment, even after a crash, it is either the old one or the new one, whole."""
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
    except BaseException:
        if os.path.exists(temporary):
            os.unlink(temporary)
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
    >>> from openbnns.nn.weights import load, save
    >>> path = os.path.join(tempfile.mkdtemp(), "weights.safetensors")
    >>> save(path, {"w": np.arange(3, dtype=np.float32)})
    >>> load(path)
    {'w': array([0., 1., 2.], dtype=float32)}
    """
    write_atomically(path, encode(arrays, metadata))


def load(path: Any) -> dict[str, Array]:
    """Read the arrays of a ``.safetensors`` file; bfloat16 becomes float32."""
    return decode(Path(path).read_bytes(), str(path))[0]
