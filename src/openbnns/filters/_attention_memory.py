"""Cache and workspace of multihead attention: size pointers, capacity, and which filter filled a cache."""

from __future__ import annotations

import ctypes
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._words import Named
from ..abi.enums import BNNSDataType
from ..errors import Problem
from ..parameters.attention import Sizes
from ..tensors import buffers, descriptors
from ..tensors.buffers import Buffer
from ..tensors.operands import check_count

HEADER_FLOATS = 16  # AttentionCacheHeader::kFloats in core/kernels/attention/shape.h
NATIVE, REFERENCE = 1, 2
NO_DRAW = 2**63 - 1  # noted in a cache: this forward call dropped nothing
_HEADER = struct.Struct("=QQQQQ")
_MARK = 0x6E6F69746E657474

_BYTES = descriptors.ELEMENT_TYPES[int(BNNSDataType.BNNSDataTypeUInt8)]
_UNSIGNED = (ctypes.c_size_t, ctypes.c_uint64, ctypes.c_ulong, ctypes.c_ulonglong)


def cache_floats(sizes: Sizes) -> int:
    """Floats of the cache per sample: what the native engine keeps, or the reference engine's copies of the inputs."""
    inputs = (sizes.target + 2 * sizes.source) * sizes.model
    return HEADER_FLOATS + max(sizes.linear_cache_elements(1), inputs)


def size_pointer(value: Any, who: str) -> Any:
    """The integer behind a ``size_t *``: a ``ctypes.c_size_t``, or what points to one; ``None`` for NULL."""
    if value is None or isinstance(value, _UNSIGNED):
        return value
    for attribute in ("_obj", "contents"):  # of byref(...) and pointer(...)
        target = getattr(value, attribute, None)
        if isinstance(target, _UNSIGNED):
            return target
    raise TypeError(f"{who} must be a ctypes.c_size_t or None, not {type(value).__name__}.")


def checked_block(data: Any, nbytes: int | None, needed: int, who: Named, size_name: str, *, written: bool) -> Buffer:
    """Check a block of the caller's memory: ``nbytes`` is the size that the call states, if it states one."""
    if not isinstance(data, (int, np.integer)):  # an address
        data = _as_bytes(data, who)
    buffer = buffers.resolve(data, _BYTES, who)
    if nbytes is not None and nbytes < needed:
        raise Problem(
            f"{who} has {nbytes} bytes according to {size_name}, but this call needs {needed}. First ask for the size with "
            f"the same batch, by passing {who.null} for the memory."
        )
    if buffer.nbytes is not None and buffer.nbytes < needed:
        raise Problem(f"{who} holds {buffer.nbytes} bytes, but this call needs {needed}. Pass a larger buffer.")
    if written:
        buffers.require_writable(buffer, who)
    return buffer


def _as_bytes(data: Any, who: str) -> NDArray[np.uint8]:
    """Memory of any element type as bytes."""
    array = buffers.as_array(data, who)
    if array.dtype.hasobject:
        raise Problem(
            f"{who} holds {array.dtype} items, which are not plain memory. Pass an array of uint8.", kind=TypeError
        )
    if not array.flags.c_contiguous:
        raise Problem(
            f"{who} of shape {array.shape} is not C-contiguous (strides {array.strides}), so it is not one block of "
            "memory. Pass a contiguous array."
        )
    return array.reshape(-1).view(np.uint8) if array.size else np.empty(0, np.uint8)


@dataclass(frozen=True)
class Cache:
    """A cache that an earlier forward call filled, or that this one will."""

    buffer: Buffer
    batch: int
    floats: int  # per sample
    engine: int = NATIVE
    draw: int = 0

    @property
    def nbytes(self) -> int:
        return max(1, self.batch) * self.floats * 4

    @property
    def memory(self) -> tuple[int, int]:
        return self.buffer.address, self.nbytes

    def floats_at(self, count: int, *, writable: bool = False) -> NDArray[np.float32]:
        """``count`` floats behind the headers, wherever the cache lies in memory."""
        offset = max(1, self.batch) * HEADER_FLOATS * 4
        return buffers.array_at(self.buffer, offset, np.dtype("f4"), (count,), (4,), writable=writable)

    def bytes(self, *, writable: bool = False) -> NDArray[np.uint8]:
        return buffers.array_at(self.buffer, 0, np.dtype("u1"), (self.nbytes,), (1,), writable=writable)

    def write_header(self, token: int) -> None:
        header = _HEADER.pack(_MARK, token, self.batch, self.draw, self.engine)
        self.bytes(writable=True)[: _HEADER.size] = np.frombuffer(header, np.uint8)


def opened_cache(buffer: Buffer, token: int, batch: int, floats: int, who: Named) -> Cache:
    """The cache of a backward call, which must come from a forward call of the same filter with the same batch."""
    head = buffers.array_at(buffer, 0, np.dtype("u1"), (_HEADER.size,), (1,)).tobytes()
    mark, owner, samples, draw, engine = _HEADER.unpack(head)
    if mark != _MARK or engine not in (NATIVE, REFERENCE):
        raise Problem(
            f"{who} holds no cache. Pass the memory that BNNSApplyMultiheadAttention filled, unchanged, or {who.null} to "
            "compute everything again."
        )
    if owner != token:
        raise Problem(
            f"{who} was filled by another filter. Pass the cache of this filter's own forward call, or {who.null} to compute "
            "everything again."
        )
    if samples != batch:
        raise Problem(
            f"{who} was filled by a forward call with batch_size {samples}, but this call has {batch}. Use the cache of "
            f"the same batch, or {who.null} to compute everything again."
        )
    return Cache(buffer, batch, floats, engine, draw)


def stated_size(value: Any, who: str) -> int:
    """``backprop_cache_size`` of the backward call: a number there, not a pointer; a ``c_size_t`` is accepted too."""
    return check_count(value.value if isinstance(value, _UNSIGNED) else value, who)
