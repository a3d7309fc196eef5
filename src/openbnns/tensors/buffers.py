"""Memory that callers pass: NumPy arrays, anything with a buffer, or trusted addresses."""

from __future__ import annotations

import operator
import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import Problem
from .descriptors import ElementType


@dataclass(frozen=True)
class Buffer:
    """A stretch of the caller's memory. ``nbytes`` is ``None`` for a plain address, which is trusted.

    ``owner`` holds the memory open: while it lives, a ``bytearray`` cannot be resized nor an ``mmap`` closed.
    """

    address: int
    nbytes: int | None
    writable: bool
    owner: Any

    def overlaps(self, other: Buffer, own_bytes: int, other_bytes: int) -> bool:
        """True if the first ``own_bytes`` here and the first ``other_bytes`` there share memory."""
        return self.address < other.address + other_bytes and other.address < self.address + own_bytes


def pin(buffer: Buffer) -> list[Any]:
    """An object that keeps memory in place for as long as it is held.

    A reference to the array is not enough: NumPy counts neither those (``refcheck=False``) nor exported buffers when it
    resizes. But it never resizes an array that is referred to weakly.
    """
    pins, owner = [], buffer.owner
    while isinstance(owner, np.ndarray):
        pins.append(weakref.ref(owner))
        owner = owner.base
    return pins


class _Memory:
    """Presents a strided stretch of memory to NumPy without copying."""

    def __init__(
        self,
        address: int,
        dtype: np.dtype[Any],
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        writable: bool,
        owner: Any,
    ) -> None:
        self.owner = owner
        self.__array_interface__ = {
            "data": (address, not writable), "shape": shape, "strides": strides, "typestr": dtype.str, "version": 3,
        }  # fmt: skip


def array_at(
    buffer: Buffer,
    offset: int,
    dtype: np.dtype[Any],
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    *,
    writable: bool = False,
) -> NDArray[Any]:
    """A NumPy view of the buffer from byte ``offset``; ``strides`` in bytes. Keeps the owner alive."""
    return np.asarray(_Memory(buffer.address + offset, dtype, shape, strides, writable, buffer.owner))


def _matches(kind: str, itemsize: int, element: ElementType) -> bool:
    """True if items of this NumPy kind and size may hold elements of this type."""
    if itemsize == 1 and kind in "uSVc":
        return True  # raw bytes
    if element.numpy is None:
        return itemsize == 1 and kind in "uib"
    if itemsize != element.numpy.itemsize:
        return False
    if element.kind == "bfloat":
        return kind in "uV"
    if element.kind == "boolean":
        return kind in "bui"
    return kind == element.numpy.kind


def _impossible(obj: Any, who: str) -> TypeError:
    return TypeError(
        f"{who} is of type {type(obj).__name__}. Pass an object with a buffer (NumPy array, bytearray, memoryview, ctypes "
        "array, DLPack on the CPU), an int address, or None."
    )


def as_array(obj: Any, who: str) -> NDArray[Any]:
    """A NumPy view of any object that exposes memory, never a copy."""
    if isinstance(obj, (bool, np.bool_)):  # NumPy's exposes a temporary byte
        raise _impossible(obj, who)
    if isinstance(obj, np.ndarray):
        return obj
    try:
        return np.asarray(memoryview(obj))
    except (TypeError, ValueError, BufferError):
        pass
    interface = getattr(obj, "__array_interface__", None)
    if interface is not None:
        try:
            return np.asarray(_Holder(interface, obj))
        except (TypeError, ValueError, AttributeError) as error:
            raise Problem(f"{who}: its __array_interface__ cannot be used ({error}). Pass a NumPy array.") from None
    if hasattr(obj, "__dlpack__"):
        return _from_dlpack(obj, who)
    raise _impossible(obj, who)


class _Holder:
    """The memory that an object's ``__array_interface__`` describes; keeps the object alive."""

    def __init__(self, interface: Any, owner: Any) -> None:
        self.__array_interface__ = interface
        self.owner = owner


# kDLCPU and the two kinds of pinned memory, which the CPU reads as its own.
_HOST_DEVICES = (1, 3, 11)


def _from_dlpack(obj: Any, who: str) -> NDArray[Any]:
    """A view of a tensor on the CPU; writable if its producer is older than DLPack 1.0, which cannot say read-only."""
    try:
        device = int(obj.__dlpack_device__()[0])
        if device not in _HOST_DEVICES:
            raise Problem(
                f"{who}: its DLPack memory is on a device of kind {device}, not on the CPU. Copy it to the CPU first."
            )
        array = np.from_dlpack(obj)
    except (AttributeError, TypeError, ValueError, RuntimeError, BufferError) as error:
        raise Problem(f"{who}: its DLPack memory cannot be used ({error}). Pass a tensor on the CPU.") from None
    if array.flags.writeable or not _lacks_read_only_flag(obj):
        return array
    place = {"data": (array.ctypes.data, False), "shape": array.shape, "strides": array.strides,
             "typestr": array.dtype.str, "version": 3}  # fmt: skip
    return np.asarray(_Holder(place, array))


def _lacks_read_only_flag(obj: Any) -> bool:
    """True if a DLPack producer gives the old capsule, which has no read-only flag."""
    try:
        return '"dltensor"' in repr(obj.__dlpack__(max_version=(1, 0)))
    except TypeError:  # a producer that predates versions
        return True
    except (ValueError, RuntimeError, BufferError):
        return False


_FIRST_ADDRESS = 4096
"""No program has memory in the first page."""


def resolve(obj: Any, element: ElementType, who: str) -> Buffer:
    """The memory behind ``obj``, checked for item type and contiguity but not yet for size."""
    if isinstance(obj, (int, np.integer)) and not isinstance(obj, bool):
        address = operator.index(obj)
        if not _FIRST_ADDRESS <= address < 1 << 63:
            raise Problem(
                f"{who} is the address {address:#x}, which cannot be valid. Pass the address of memory, or None."
            )
        return Buffer(address, None, True, None)
    array = as_array(obj, who)
    if not array.dtype.isnative:
        raise Problem(
            f"{who} holds {array.dtype.str} items, whose byte order is not that of this machine. "
            "Convert it with array.astype(array.dtype.newbyteorder('=')).",
            kind=TypeError,
        )
    if not _matches(array.dtype.kind, array.dtype.itemsize, element):
        raise Problem(
            f"{who} holds {array.dtype} items, but its descriptor says {element.name}. "
            f"Pass an array of {storage_name(element)}, or a flat uint8 view of the bytes.",
            kind=TypeError,
        )
    if not array.flags.c_contiguous:
        raise Problem(
            f"{who} of shape {array.shape} is not C-contiguous (strides {array.strides}), so its memory is not the "
            "flat list of elements that BNNS expects. Pass np.ascontiguousarray(...) of an input or a contiguous "
            "output; describe gaps by the descriptor's stride."
        )
    return Buffer(int(array.ctypes.data), array.nbytes, bool(array.flags.writeable), array)


def storage_name(element: ElementType) -> str:
    """NumPy type that stores an element type, for messages."""
    return element.numpy.name if element.numpy is not None else "uint8"


def require_bytes(buffer: Buffer, needed: int, who: str, detail: str) -> None:
    """Refuse a buffer that the call would run past."""
    if buffer.nbytes is not None and buffer.nbytes < needed:
        raise Problem(
            f"{who} holds {buffer.nbytes} bytes, but the call touches {needed} ({detail}).",
            cure="Pass a larger buffer.",
        )


def require_writable(buffer: Buffer, who: str) -> None:
    """Refuse a read-only output."""
    if not buffer.writable:
        raise Problem(
            f"{who} is read-only, but the call writes to it. Pass a writable buffer, e.g. a copy of the array."
        )
