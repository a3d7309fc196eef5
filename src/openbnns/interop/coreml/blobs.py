"""Weight files (``weight.bin``, version 2): mapped when they are read, so that only what is used takes memory.

A file is a header of 64 bytes (number of blobs, version 2), then for each blob a header of 64 bytes (0xDEADBEEF, type of the
elements, bytes, place of the data, unused bits at the end) and the data, everything little-endian at multiples of 64.
"""

from __future__ import annotations

import hashlib
import math
import mmap
import os
import struct
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import BinaryIO

import numpy as np

from ...files.untrusted import open_regular
from .elements import BY_BLOB, ELEMENTS, Array
from .errors import CoreMLError
from .program import Constant, TensorType

_SENTINEL = 0xDEADBEEF
_ALIGNMENT = 64
_FOLDER = "@model_path/"
FILE_NAME = "@model_path/weights/weight.bin"
"""The name of the file of a package's weights, as programs write it."""


def path_inside(folder: Path, name: str) -> Path | None:
    """The file of this name in a folder; None if the name leads out of it, by itself or through links."""
    parts = PurePosixPath(name).parts
    if not parts or os.path.isabs(name) or ".." in parts or "\\" in name or "\0" in name:
        return None
    try:
        root = folder.resolve()
        path = root.joinpath(*parts).resolve()
    except (OSError, RuntimeError):  # links in a circle
        return None
    return path if path.is_relative_to(root) else None


class Weights:
    """The weight files of a model, each mapped when a constant first asks for it.

    ``folder`` is that of the model; ``files`` are in memory already.
    """

    def __init__(self, folder: Path, files: Mapping[str, memoryview] | None = None) -> None:
        self.folder = folder
        self._files: dict[str, memoryview] = dict(files or {})

    def constant(self, type: TensorType, name: str, offset: int, who: str) -> Constant:
        """The constant of this type at a place of a file. ``who`` says in errors who asks for it."""
        data = self._file(name, who)
        where = f"{who}: the weights at {offset} of {name}"
        if offset + 64 > len(data):
            raise CoreMLError(f"{where} lie outside of the file, which has {len(data)} bytes.")
        sentinel, code, size, place = struct.unpack_from("<IIQQ", data, offset)
        if sentinel != _SENTINEL:
            raise CoreMLError(
                f"{where} begin with {sentinel:#010x} instead of {_SENTINEL:#010x}. The offset or file is wrong."
            )
        element, shape = ELEMENTS[type.element], type.shape
        if code != element.blob:
            stored = BY_BLOB[code].name if code in BY_BLOB else f"elements of the unknown type {code}"
            raise CoreMLError(f"{where} are {stored}, but the program says {type}.")
        sizes = [n for n in shape or () if n is not None]
        if shape is None or len(sizes) < len(shape):
            raise CoreMLError(f"{where} have the type {type}, but constants need a whole shape.")
        count = math.prod(sizes)
        if size != element.byte_count(count):
            raise CoreMLError(f"{where} have {size} bytes, but {type} takes {element.byte_count(count)}.")
        if place > len(data) or size > len(data) - place:
            raise CoreMLError(f"{where} go to byte {place + size}, but the file has {len(data)}. It is cut or damaged.")
        array: Array = np.frombuffer(data[place : place + size], element.stored)
        return Constant(type, array if element.packed else array.reshape(sizes))

    def _file(self, name: str, who: str) -> memoryview:
        if name not in self._files:
            self._files[name] = self._mapped(name, who)
        return self._files[name]

    def _mapped(self, name: str, who: str) -> memoryview:
        path = path_inside(self.folder, name.removeprefix(_FOLDER))
        if path is None:
            raise CoreMLError(f"{who}: its weights lie in {name!r}, which is outside of the model. It is not read.")
        try:
            with open_regular(path, CoreMLError) as (file, size):
                if size < 64:
                    raise CoreMLError(f"{who}: the weight file {path} has {size} bytes, too few for one.")
                data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        except OSError as error:
            raise CoreMLError(f"{who}: the weight file {path} cannot be read ({error.strerror or error}).") from None
        _, version = struct.unpack_from("<II", data)
        if version != 2:
            raise CoreMLError(
                f"{who}: the weight file {path} has version {version}; version 2 is read, that of ML programs."
            )
        return data


class BlobWriter:
    """A weight file in the making. Constants with the same bits are stored once."""

    def __init__(self, file: BinaryIO) -> None:
        self.file, self.count = file, 0
        self._places: dict[tuple[str, int, bytes], int] = {}
        file.write(bytes(_ALIGNMENT))
        self._end = _ALIGNMENT

    def add(self, constant: Constant) -> int:
        """Store a tensor and give its offset."""
        assert isinstance(constant.type, TensorType)
        element = ELEMENTS[constant.type.element]
        assert element.blob is not None
        data = memoryview(np.ascontiguousarray(constant.value).reshape(-1).view(np.uint8))  # type: ignore[arg-type]
        count = math.prod(constant.shape)  # of packed elements, as the same bytes can be three or four of them
        key = element.name, count, hashlib.sha256(data).digest()
        if key in self._places:
            return self._places[key]
        offset, start = self._end, self._end + _ALIGNMENT
        unused = 8 * len(data) - element.bits * count
        self.file.write(struct.pack("<IIQQQ32x", _SENTINEL, element.blob, len(data), start, unused))
        self.file.write(data)
        self.file.write(bytes(-len(data) % _ALIGNMENT))
        self._end = start + len(data) + -len(data) % _ALIGNMENT
        self.count += 1
        self._places[key] = offset
        return offset

    def close(self) -> None:
        """Write the header, which counts the blobs."""
        self.file.seek(0)
        self.file.write(struct.pack("<II56x", self.count, 2))
