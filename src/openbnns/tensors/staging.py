"""Staging: any layout, stride and element type to canonical arrays and back.

Canonical means C order, batch first, float32 for the native engine and float64 for the reference engine. What already
is canonical is passed through as a view; everything else is decoded into a new array, and results are encoded back.

Types narrower than a byte form one stream of bits, element 0 in the lowest bits of byte 0; a UInt3 or UInt6 may begin
in one byte and end in the next. Batch strides count elements there too, so a sample may begin inside a byte.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .. import engines
from . import buffers
from .buffers import Buffer
from .descriptors import FLOAT32, ElementType, View


def _unpack_bits(buffer: Buffer, elements: int, bits: int) -> NDArray[np.uint8]:
    """Values of a sub-byte type, element 0 in the lowest bits of byte 0."""
    nbytes = (elements * bits + 7) // 8
    raw = buffers.array_at(buffer, 0, np.dtype("u1"), (nbytes,), (1,))
    stream = np.unpackbits(raw, count=elements * bits, bitorder="little").reshape(elements, bits)
    return np.asarray((stream << np.arange(bits, dtype=np.uint8)).sum(axis=1, dtype=np.uint8))


def _pack_bits(buffer: Buffer, values: NDArray[np.uint8], bits: int) -> None:
    """Store sub-byte values; bits past the last element keep what they held."""
    elements = values.size
    nbytes = (elements * bits + 7) // 8
    raw = buffers.array_at(buffer, 0, np.dtype("u1"), (nbytes,), (1,), writable=True)
    stream = np.unpackbits(raw, bitorder="little")
    stream[: elements * bits] = ((values[:, None] >> np.arange(bits, dtype=np.uint8)) & 1).reshape(-1)
    raw[...] = np.packbits(stream, bitorder="little")


def decode(raw: NDArray[Any], view: View, dtype: DTypeLike) -> NDArray[Any]:
    """Stored elements to numbers; float32 passes through uncopied when float32 is wanted."""
    return raw if view.element is FLOAT32 and dtype is np.float32 else _decode(raw, view, dtype)


@np.errstate(over="ignore", invalid="ignore")
def _decode(raw: NDArray[Any], view: View, dtype: DTypeLike) -> NDArray[Any]:
    element = view.element
    if element.kind == "float":
        return raw.astype(dtype, copy=False)
    if element.kind == "bfloat":
        return np.asarray((raw.astype(np.uint32) << 16).view(np.float32).astype(dtype, copy=False))
    if element.kind == "indexed":
        assert view.table is not None
        return np.asarray(view.table.astype(dtype)[raw])
    if element.kind == "boolean":
        return np.asarray((raw != 0).astype(dtype))
    if element.kind == "int" and element.numpy is None:  # sign of a sub-byte integer
        sign = 1 << (element.bits - 1)
        raw = (raw.astype(np.int16) ^ sign) - sign
    if view.scale == 1.0 and view.bias == 0.0:
        return raw.astype(dtype)
    return (view.scale * raw.astype(np.float64) + view.bias).astype(dtype)


def integer_range(element: ElementType) -> tuple[int, int]:
    """Smallest and largest value of an integer type."""
    if element.kind == "int":
        return -(1 << (element.bits - 1)), (1 << (element.bits - 1)) - 1
    return 0, (1 << element.bits) - 1


@np.errstate(all="ignore")
def encode(values: NDArray[Any], view: View) -> NDArray[Any]:
    """Numbers to stored elements; for integer types rounded to nearest (ties to even), saturated, and NaN to 0."""
    element = view.element
    if element.kind == "float":
        return values.astype(element.numpy, copy=False)
    if element.kind == "bfloat":
        return _to_bfloat16(values)
    if element.kind == "boolean":
        return np.asarray((values != 0).astype(np.uint8))
    if element.kind == "indexed":
        return _to_indices(values, view)
    if values.dtype.kind in "iu" and view.scale == 1.0 and view.bias == 0.0:
        return _low_bits(_saturated(values, element), element)
    v = values.astype(np.float64)
    v = v / view.scale - view.bias if view.bias_before_scale else (v - view.bias) / view.scale
    return _low_bits(_rounded(v, element), element)


def _to_indices(values: NDArray[Any], view: View) -> NDArray[np.uint8]:
    """Index of the nearest table entry: of the smaller one halfway between two, of the first among equals."""
    assert view.table is not None
    entries, first = np.unique(view.table[~np.isnan(view.table)].astype(np.float64), return_index=True)
    if entries.size == 0:
        return np.zeros(values.shape, np.uint8)
    first = np.flatnonzero(~np.isnan(view.table))[first]
    v = np.clip(values.astype(np.float64), entries[0], entries[-1])
    upper = np.searchsorted(entries, v).clip(0, entries.size - 1)
    lower = (upper - 1).clip(0)
    nearest = np.where(v - entries[lower] <= entries[upper] - v, lower, upper)
    return first[nearest].astype(np.uint8)


def _storage(element: ElementType) -> np.dtype[Any]:
    """The NumPy type that holds one integer while it is being converted."""
    return element.numpy if element.numpy is not None else np.dtype("i2")


def _saturated(values: NDArray[Any], element: ElementType) -> NDArray[Any]:
    """Integers forced into the range of an integer type."""
    low, high = integer_range(element)
    bounds = np.iinfo(values.dtype)
    return np.asarray(np.clip(values, max(low, int(bounds.min)), min(high, int(bounds.max))).astype(_storage(element)))


def _rounded(v: NDArray[np.float64], element: ElementType) -> NDArray[Any]:
    """Real numbers rounded to nearest and forced into the range of an integer type."""
    low, high = integer_range(element)
    rounded = np.where(np.isnan(v), 0.0, np.rint(v))
    largest = np.nextafter(float(high), 0.0) if high >= 1 << 53 else float(high)  # the largest float64 that still fits
    stored = np.clip(rounded, float(low), largest).astype(_storage(element))
    stored[rounded >= float(high)] = high
    return stored


def _low_bits(stored: NDArray[Any], element: ElementType) -> NDArray[Any]:
    """Sub-byte integers in two's complement, one per byte, ready to be packed."""
    if element.numpy is None:
        return (stored & ((1 << element.bits) - 1)).astype(np.uint8)
    return stored


def _to_bfloat16(values: NDArray[Any]) -> NDArray[np.uint16]:
    """Round to nearest, ties to even; NaN stays NaN."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    nan = (bits & 0x7FFFFFFF) > 0x7F800000
    rounded = (bits.astype(np.uint64) + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(nan, (bits >> 16) | 0x40, rounded).astype(np.uint16)


def _geometry(view: View, batch: int, stride: int, order: tuple[int, ...]) -> tuple[tuple[int, ...], list[int], int]:
    """Shape, strides in elements and first element of ``(batch, *axes in order)``."""
    shape = (batch, *(view.size[a] for a in order))
    strides = [stride, *(view.strides[a] for a in order)]
    first = 0
    for position, axis in enumerate(order):
        if axis in view.layout.flipped:
            first += (view.size[axis] - 1) * view.strides[axis]
            strides[1 + position] = -view.strides[axis]
    return shape, strides, first


def _strided(
    view: View, buffer: Buffer, batch: int, stride: int, order: tuple[int, ...], writable: bool
) -> NDArray[Any]:
    """The stored elements as ``(batch, *axes in order)``, a view of the memory."""
    assert view.element.numpy is not None
    shape, strides, first = _geometry(view, batch, stride, order)
    width = view.element.numpy.itemsize
    in_bytes = tuple(s * width for s in strides)
    return buffers.array_at(buffer, first * width, view.element.numpy, shape, in_bytes, writable=writable)


def strided(
    view: View, buffer: Buffer, batch: int, stride: int, order: tuple[int, ...], *, writable: bool = False
) -> NDArray[Any] | None:
    """The stored elements in the caller's memory as ``(batch, *axes in order)``; ``None`` when NumPy cannot view them."""
    return _strided(view, buffer, batch, stride, order, writable) if _is_strided(view) else None


def _is_strided(view: View) -> bool:
    """True if NumPy can view the stored elements in place."""
    return view.element.numpy is not None and not view.layout.blocked32


def _elements(view: View, buffer: Buffer, count: int, writable: bool = False) -> NDArray[Any]:
    """``count`` stored elements in memory order: a view, or an unpacked copy for sub-byte types."""
    if view.element.numpy is None:
        return _unpack_bits(buffer, count, view.element.bits)
    return buffers.array_at(buffer, 0, view.element.numpy, (count,), (view.element.numpy.itemsize,), writable=writable)


def _places(view: View, batch: int, stride: int, order: tuple[int, ...]) -> NDArray[np.int64]:
    """Memory position of every element of ``(batch, *axes in order)``, for what cannot be viewed in place."""
    if view.layout.blocked32:  # memory is [O/32][I][KH][KW][32]
        kw, kh, inputs, outputs = view.size
        blocks = np.arange(view.span, dtype=np.int64).reshape(-1, inputs, kh, kw, 32)
        sample = blocks.transpose(3, 2, 1, 0, 4).reshape(kw, kh, inputs, -1)[..., :outputs]
        sample = np.flip(sample, view.layout.flipped).transpose(order)
        return np.asarray(sample[None] + stride * np.arange(batch).reshape(-1, *[1] * len(order)))
    shape, strides, first = _geometry(view, batch, stride, order)
    place = np.full(shape, first, np.int64)
    for axis, (n, distance) in enumerate(zip(shape, strides, strict=True)):
        place += (distance * np.arange(n)).reshape([n if a == axis else 1 for a in range(len(shape))])
    return place


def read(
    view: View, buffer: Buffer, batch: int, stride: int, order: tuple[int, ...], dtype: DTypeLike = np.float32
) -> NDArray[Any]:
    """Numbers of a batch as ``(batch, *axes in order)``, aligned and each sample C-contiguous.

    A view of the caller's memory when nothing needs converting.
    """
    if _is_strided(view):
        raw = _strided(view, buffer, batch, stride, order, writable=False)
    else:
        raw = _elements(view, buffer, (batch - 1) * stride + view.span)[_places(view, batch, stride, order)]
    numbers = decode(raw, view, dtype)
    if numbers.ndim == 1 or numbers.shape[0] == 0 or (numbers[0].flags.c_contiguous and numbers.flags.aligned):
        return numbers
    return np.array(numbers, order="C")


def read_raw(view: View, buffer: Buffer, batch: int, stride: int, order: tuple[int, ...]) -> NDArray[Any]:
    """The stored elements themselves as ``(batch, *axes in order)``, each sample C-contiguous; sub-byte ones in bytes.

    A view of the caller's memory when nothing needs moving.
    """
    if _is_strided(view):
        raw = _strided(view, buffer, batch, stride, order, writable=False)
    else:
        raw = _elements(view, buffer, (batch - 1) * stride + view.span)[_places(view, batch, stride, order)]
    return raw if raw[0].flags.c_contiguous and raw.flags.aligned else np.array(raw, order="C")


def direct(view: View, buffer: Buffer, batch: int, stride: int, order: tuple[int, ...]) -> NDArray[Any] | None:
    """The output memory itself as a canonical array, or ``None`` when results must be staged."""
    return direct_raw(view, buffer, batch, stride, order) if view.element is FLOAT32 else None


def direct_raw(view: View, buffer: Buffer, batch: int, stride: int, order: tuple[int, ...]) -> NDArray[Any] | None:
    """The same for stored elements of any type; ``None`` as well when they share bytes."""
    if not _is_strided(view) or batch == 0:
        return None
    array = _strided(view, buffer, batch, stride, order, writable=True)
    return array if array[0].flags.c_contiguous and array.flags.aligned else None


def write(
    view: View,
    buffer: Buffer,
    batch: int,
    stride: int,
    order: tuple[int, ...],
    numbers: NDArray[Any],
    *,
    accumulate: bool = False,
) -> None:
    """Store a batch of results ``(batch, *axes in order)``, or add them to what the memory holds."""
    if batch == 0:
        return
    if accumulate:
        numbers = read(view, buffer, batch, stride, order, numbers.dtype) + numbers
    write_raw(view, buffer, batch, stride, order, encode(numbers, view))


def write_raw(
    view: View, buffer: Buffer, batch: int, stride: int, order: tuple[int, ...], stored: NDArray[Any]
) -> None:
    """Store elements as they are."""
    if engines._core is not None:
        engines._core.spoil_recording()  # a replay of the recorded native operations would miss this
    if _is_strided(view):
        _strided(view, buffer, batch, stride, order, writable=True)[...] = stored
        return
    elements = _elements(view, buffer, (batch - 1) * stride + view.span, writable=True)
    elements[_places(view, batch, stride, order)] = stored
    if view.element.numpy is None:
        _pack_bits(buffer, elements, view.element.bits)


def read_vector(obj: Any, element: ElementType, count: int, who: str) -> NDArray[np.float32]:
    """A float32 copy of ``count`` consecutive numbers."""
    from ..abi.enums import BNNSDataLayout
    from .descriptors import LAYOUTS

    view = View(LAYOUTS[int(BNNSDataLayout.BNNSDataLayoutVector)], element, (count,), (1,))
    buffer = buffers.resolve(obj, element, who)
    buffers.require_bytes(buffer, view.bytes_of(count), who, f"{count} values of {element.name}")
    return np.array(read(view, buffer, 1, count, (0,))[0], dtype=np.float32)
