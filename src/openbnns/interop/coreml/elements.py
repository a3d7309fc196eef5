"""Element types of ML programs: their names and numbers in each kind of file, and their bits as NumPy arrays."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Element:
    """An element type.

    ``name`` is that of texts, ``number`` that of protocol buffers, ``blob`` that of weight files (None: they cannot hold
    it), ``stored`` the NumPy type of its bits (bytes, for types of less than eight bits) and ``numpy`` that of its values.
    """

    name: str
    number: int
    blob: int | None
    bits: int
    stored: np.dtype[Any]
    numpy: np.dtype[Any]

    @property
    def packed(self) -> bool:
        """Several elements share a byte, lowest bits first."""
        return self.bits < 8

    @property
    def whole(self) -> bool:
        """Whole numbers, not floats, booleans or text."""
        return self.numpy.kind in "iu"

    def byte_count(self, count: int) -> int:
        """The bytes that so many elements take in a file."""
        return (count * self.bits + 7) // 8


def _element(name: str, number: int, blob: int | None, bits: int, stored: str, numpy: str = "") -> Element:
    return Element(name, number, blob, bits, np.dtype(stored), np.dtype(numpy or stored))


ELEMENTS = {
    element.name: element
    for element in (
        _element("bool", 1, None, 8, "?"),
        _element("string", 2, None, 0, "O"),
        _element("fp16", 10, 1, 16, "<f2"),
        _element("fp32", 11, 2, 32, "<f4"),
        _element("fp64", 12, None, 64, "<f8"),
        _element("bf16", 13, 5, 16, "<u2", "<f4"),
        _element("int4", 25, 8, 4, "u1", "i1"),
        _element("int8", 21, 4, 8, "i1"),
        _element("int16", 22, 6, 16, "<i2"),
        _element("int32", 23, 14, 32, "<i4"),
        _element("int64", 24, None, 64, "<i8"),
        _element("uint1", 37, 9, 1, "u1"),
        _element("uint2", 36, 10, 2, "u1"),
        _element("uint3", 39, 12, 3, "u1"),
        _element("uint4", 35, 11, 4, "u1"),
        _element("uint6", 38, 13, 6, "u1"),
        _element("uint8", 31, 3, 8, "u1"),
        _element("uint16", 32, 7, 16, "<u2"),
        _element("uint32", 33, 15, 32, "<u4"),
        _element("uint64", 34, None, 64, "<u8"),
        _element("fp8e4m3fn", 40, 16, 8, "u1", "<f4"),
        _element("fp8e5m2", 41, 17, 8, "u1", "<f4"),
    )
}
BY_NUMBER = {element.number: element for element in ELEMENTS.values()}
BY_BLOB = {element.blob: element for element in ELEMENTS.values() if element.blob is not None}
_BY_NUMPY = {
    element.numpy: element.name
    for element in ELEMENTS.values()
    if element.stored == element.numpy and not element.packed
}


def name_of(dtype: Any) -> str:
    """The element type of a NumPy type: ``"fp32"`` for float32."""
    kind = np.dtype(dtype)
    name = "string" if kind.kind in "US" else _BY_NUMPY.get(kind.newbyteorder("<") if kind.itemsize > 1 else kind)
    if name is None:
        raise TypeError(f"ML programs have no element type for {kind}. They have {', '.join(ELEMENTS)}.")
    return name


def packed(values: Array, bits: int) -> Array:
    """Whole numbers of 1 to 7 bits as bytes, lowest bits first, without gaps."""
    flat = np.ascontiguousarray(values).reshape(-1).astype(np.uint8)
    planes = (flat[:, None] >> np.arange(bits, dtype=np.uint8)) & 1
    return np.packbits(planes.reshape(-1).astype(np.uint8), bitorder="little")


def unpacked(data: Array, bits: int, count: int, *, signed: bool = False) -> Array:
    """The first numbers of 1 to 7 bits out of bytes, as uint8, or int8 if ``signed``."""
    planes = np.unpackbits(data[: (count * bits + 7) // 8], count=count * bits, bitorder="little").reshape(count, bits)
    values = np.zeros(count, np.uint8)
    for bit in range(bits):
        values |= planes[:, bit] << bit
    if not signed:
        return values
    shift = 8 - bits
    return (values << shift).view(np.int8) >> shift


def decoded(element: Element, stored: Array, shape: tuple[int, ...]) -> Array:
    """The values of elements that are stored in a form that NumPy cannot compute with."""
    if element.packed:
        return unpacked(stored, element.bits, math.prod(shape), signed=element.name == "int4").reshape(shape)
    if element.name == "bf16":
        return (stored.astype(np.uint32) << 16).view(np.float32)
    if element.name.startswith("fp8"):
        return _FLOAT8[element.name][stored]
    return stored


def _float8(exponent_bits: int) -> Array:
    """The values of all 256 floats of eight bits with so many bits of exponent."""
    bits = np.arange(256)
    fraction_bits = 7 - exponent_bits
    exponent, fraction = bits >> fraction_bits & (2**exponent_bits - 1), bits & (2**fraction_bits - 1)
    bias = 2 ** (exponent_bits - 1) - 1
    normal = (1 + fraction / 2**fraction_bits) * 2.0 ** (exponent - bias)
    values = np.where(exponent == 0, fraction / 2**fraction_bits * 2.0 ** (1 - bias), normal)
    top = exponent == 2**exponent_bits - 1
    if exponent_bits == 5:  # as in IEEE 754
        values = np.where(top, np.where(fraction == 0, np.inf, np.nan), values)
    else:  # e4m3fn: no infinities, one NaN
        values = np.where(top & (fraction == 7), np.nan, values)
    return (values * np.where(bits >> 7, -1.0, 1.0)).astype(np.float32)


_FLOAT8 = {"fp8e4m3fn": _float8(4), "fp8e5m2": _float8(5)}
