"""Memory for tests, independent of the library's own staging: tensors placed by the layout formulas, with guard bytes.

A :class:`Tensor` says what a descriptor says. A :class:`Storage` is memory for a batch of it: guards on both sides, and
whatever the descriptor or the batch stride skips is filled with NaN or a byte pattern, so that reading a gap poisons a
result and writing one is noticed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openbnns import capi
from openbnns.capi import BNNSDataLayout, BNNSDataType

Array = NDArray[Any]

EPSILON = float(np.finfo(np.float32).eps)
GUARD_BYTES = 68  # four more than a cache line: buffers are aligned for float32 and for nothing wider
GUARD_BYTE = 0xA5

VECTOR = BNNSDataLayout.BNNSDataLayoutVector
IMAGE = BNNSDataLayout.BNNSDataLayoutImageCHW
ROW_MAJOR = BNNSDataLayout.BNNSDataLayoutRowMajorMatrix
COLUMN_MAJOR = BNNSDataLayout.BNNSDataLayoutColumnMajorMatrix
FIRST_MAJOR_2D = BNNSDataLayout.BNNSDataLayout2DFirstMajor
LAST_MAJOR_2D = BNNSDataLayout.BNNSDataLayout2DLastMajor
OIHW = BNNSDataLayout.BNNSDataLayoutConvolutionWeightsOIHW
OIHRWR = BNNSDataLayout.BNNSDataLayoutConvolutionWeightsOIHrWr
IOHRWR = BNNSDataLayout.BNNSDataLayoutConvolutionWeightsIOHrWr
PACK32 = BNNSDataLayout.BNNSDataLayoutConvolutionWeightsOIHW_Pack32

FIRST_MAJOR_3D = BNNSDataLayout.BNNSDataLayout3DFirstMajor
LAST_MAJOR_3D = BNNSDataLayout.BNNSDataLayout3DLastMajor
MHA_DHK = BNNSDataLayout.BNNSDataLayoutMHA_DHK
FIRST_MAJOR_4D = BNNSDataLayout.BNNSDataLayout4DFirstMajor
LAST_MAJOR_4D = BNNSDataLayout.BNNSDataLayout4DLastMajor

FLOAT32 = BNNSDataType.BNNSDataTypeFloat32
FLOAT16 = BNNSDataType.BNNSDataTypeFloat16
BFLOAT16 = BNNSDataType.BNNSDataTypeBFloat16
INT8 = BNNSDataType.BNNSDataTypeInt8
UINT8 = BNNSDataType.BNNSDataTypeUInt8
INT16 = BNNSDataType.BNNSDataTypeInt16
INT32 = BNNSDataType.BNNSDataTypeInt32
INT64 = BNNSDataType.BNNSDataTypeInt64
UINT16 = BNNSDataType.BNNSDataTypeUInt16
UINT32 = BNNSDataType.BNNSDataTypeUInt32
UINT64 = BNNSDataType.BNNSDataTypeUInt64
BOOLEAN = BNNSDataType.BNNSDataTypeBoolean

_STORED_AS = {
    FLOAT32: "f4", FLOAT16: "f2", BFLOAT16: "u2", INT8: "i1", UINT8: "u1", INT16: "i2", INT32: "i4", INT64: "i8",
    UINT16: "u2", UINT32: "u4", UINT64: "u8", BOOLEAN: "u1",
}  # fmt: skip


@dataclass(frozen=True)
class Tensor:
    """The facts of a descriptor. Arrays that belong to it have the shape ``size``, in the order of ``size[]``."""

    layout: BNNSDataLayout
    size: tuple[int, ...]
    stride: tuple[int, ...] = ()
    data_type: BNNSDataType = FLOAT32
    scale: float = 0.0
    bias: float = 0.0

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(_STORED_AS[self.data_type])

    @property
    def is_integer(self) -> bool:
        return self.dtype.kind in "iu" and self.data_type != BFLOAT16

    @cached_property
    def strides(self) -> tuple[int, ...]:
        """``stride[]`` with the zeros filled in; ``stride[k]`` steps axis ``stepped[k]``."""
        given = self.stride + (0,) * (len(self.size) - len(self.stride))
        steps: list[int] = []
        for k, step in enumerate(given):
            packed = 1 if k == 0 else steps[k - 1] * self.size[self.stepped[k - 1]]
            steps.append(step or packed)
        return tuple(steps)

    @cached_property
    def stepped(self) -> tuple[int, ...]:
        """Axis of ``size[]`` that each entry of ``stride[]`` steps: FirstMajor layouts run backwards."""
        axes = tuple(range(len(self.size)))
        if self.layout == MHA_DHK:
            return (0, 2, 1)
        return axes[::-1] if self.layout.name.endswith("FirstMajor") else axes

    @cached_property
    def places(self) -> NDArray[np.int64]:
        """Memory position of every element, by the formulas of the layouts."""
        index = np.indices(self.size)
        if self.layout == PACK32:
            kx, ky, i, o = index
            kw, kh, inputs, _ = self.size
            return np.asarray(o % 32 + 32 * (kx + kw * (ky + kh * (i + inputs * (o // 32)))), np.int64)
        if self.layout in (OIHRWR, IOHRWR):
            index[0], index[1] = self.size[0] - 1 - index[0], self.size[1] - 1 - index[1]
        return np.asarray(
            sum(step * index[axis] for step, axis in zip(self.strides, self.stepped, strict=True)), np.int64
        )

    @property
    def count(self) -> int:
        return int(np.prod(self.size))

    @cached_property
    def span(self) -> int:
        """Elements that one sample takes up, gaps included."""
        if self.layout == PACK32:
            return 32 * int(np.prod(self.size[:3])) * -(-self.size[3] // 32)
        return int(self.places.max()) + 1

    @cached_property
    def extent(self) -> int:
        """Distance of packed samples: the largest stride times the extent that it steps."""
        return self.span if self.layout == PACK32 else self.strides[-1] * self.size[self.stepped[-1]]

    @property
    def is_plain(self) -> bool:
        """Packed float32."""
        return self.data_type == FLOAT32 and self.span == self.count

    def descriptor(self, data: Any = None, flags: int = 0) -> capi.BNNSNDArrayDescriptor:
        return capi.BNNSNDArrayDescriptor(
            flags=flags, layout=self.layout, size=self.size, stride=self.stride, data=data, data_type=self.data_type,
            data_scale=self.scale, data_bias=self.bias,
        )  # fmt: skip

    def encode(self, values: Array) -> Array:
        """Numbers as stored elements."""
        if self.data_type == BFLOAT16:
            bits = values.astype(np.float32).view(np.uint32).astype(np.uint64)
            return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
        if self.is_integer:
            limits = np.iinfo(self.dtype)
            return np.clip(np.rint((values - self.bias) / (self.scale or 1.0)), limits.min, limits.max).astype(
                self.dtype
            )
        return values.astype(self.dtype)

    def decode(self, stored: Array) -> Array:
        """Stored elements as float64 numbers."""
        if self.data_type == BFLOAT16:
            return (stored.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
        numbers = stored.astype(np.float64)
        return numbers * (np.float32(self.scale) or 1.0) + np.float32(self.bias) if self.is_integer else numbers

    def rounded(self, values: Array) -> Array:
        """Numbers that were stored and read back."""
        return self.decode(self.encode(np.asarray(values)))

    def unit(self, values: Array) -> Array:
        """One step of the element type at these values, beyond float32's own."""
        if self.is_integer:
            return np.full_like(values, self.scale or 1.0)
        steps = {FLOAT32: 0.0, FLOAT16: 2.0**-10, BFLOAT16: 2.0**-7}
        return np.abs(values) * steps[self.data_type] + (2.0**-24 if self.data_type == FLOAT16 else 0.0)


def numbers(*shape: int, seed: int = 0) -> NDArray[np.float32]:
    """Random numbers, the same for the same shape and seed."""
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


def ones(*shape: int) -> NDArray[np.float32]:
    return np.ones(shape, np.float32)


def vector(count: int, **options: Any) -> Tensor:
    return Tensor(VECTOR, (count,), **options)


def image(channels: int, height: int, width: int, **options: Any) -> Tensor:
    return Tensor(IMAGE, (width, height, channels), **options)


def python(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A fresh interpreter that knows no variable of ours but these."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OPENBNNS_")}
    return subprocess.run(
        [sys.executable, *arguments], env=kept | variables, capture_output=True, text=True, timeout=300, check=False
    )


def layout(name: str) -> BNNSDataLayout:
    return BNNSDataLayout[f"BNNSDataLayout{name}"]


def descriptor(name: str, size: Any, data: Any = None, stride: Any = (), **fields: Any) -> capi.BNNSNDArrayDescriptor:
    """A descriptor by the name of its layout, float32 unless told otherwise."""
    fields.setdefault("data_type", FLOAT32)
    return capi.BNNSNDArrayDescriptor(layout=layout(name), size=size, stride=stride, data=data, **fields)


def packed(tensor: Tensor) -> Tensor:
    """The same tensor without gaps."""
    return replace(tensor, stride=())


class Storage:
    """Memory for a batch of a tensor, with guards around and poison in the gaps."""

    def __init__(self, tensor: Tensor, batch: int = 1, gap: int = 0, values: Array | None = None) -> None:
        self.tensor, self.batch = tensor, batch
        self.stride = tensor.extent + gap if gap else 0  # the argument of the call: 0 means packed
        step = self.stride or tensor.extent
        starts = step * np.arange(batch, dtype=np.int64)
        self.places = starts.reshape(-1, *[1] * len(tensor.size)) + tensor.places
        self.count = (batch - 1) * step + tensor.span if batch else 0
        self.memory = np.full(2 * GUARD_BYTES + self.count * tensor.dtype.itemsize, GUARD_BYTE, np.uint8)
        self.elements = self.memory[GUARD_BYTES : self.memory.size - GUARD_BYTES].view(tensor.dtype)
        if tensor.data_type == FLOAT32:
            self.elements[:] = np.nan
        if values is not None:
            self.write(values)
        self.before = self.memory.copy()

    def write(self, values: Array) -> None:
        """Store ``(batch, *size)`` numbers."""
        self.elements[self.places] = self.tensor.encode(np.asarray(values))
        self.before = self.memory.copy()

    def read(self) -> Array:
        """The numbers as float64 ``(batch, *size)``."""
        return self.tensor.decode(self.elements[self.places])

    def raw(self) -> Array:
        """The stored elements, for bitwise comparison."""
        return self.elements[self.places].copy()

    def descriptor(self, flags: int = 0) -> capi.BNNSNDArrayDescriptor:
        return self.tensor.descriptor(self.elements, flags)

    def assert_unchanged(self, name: str) -> None:
        assert np.array_equal(self.memory, self.before), f"{name} was changed"

    def assert_guards_intact(self, name: str) -> None:
        """Nothing but the elements of the tensor was written."""
        now, before = self.memory.copy(), self.before.copy()
        inside = slice(GUARD_BYTES, now.size - GUARD_BYTES)
        for copy in (now, before):
            copy[inside].view(self.tensor.dtype)[self.places] = 0
        wrong = np.flatnonzero(now != before)
        assert wrong.size == 0, f"{name}: wrote outside its elements, first at byte {wrong[0] - GUARD_BYTES}"


def assert_within(actual: Array, expected: Array, bound: Array | float, what: str) -> None:
    """|actual - expected| <= bound for every element; the message names the worst one."""
    assert actual.shape == expected.shape, f"{what}: shape {actual.shape}, expected {expected.shape}"
    assert np.array_equal(np.isnan(actual), np.isnan(expected)), f"{what}: NaN in different places"
    with np.errstate(invalid="ignore"):
        error = np.where((actual == expected) | np.isnan(expected), 0.0, np.abs(actual - expected))
    excess = error - bound
    if np.all(excess <= 0):
        return
    worst = np.unravel_index(np.argmax(np.where(np.isnan(excess), np.inf, excess)), excess.shape)
    allowed = float(np.broadcast_to(bound, error.shape)[worst])
    count = int(np.sum(~(excess <= 0)))
    raise AssertionError(
        f"{what}: {count} of {error.size} elements off; at {tuple(int(i) for i in worst)} got {actual[worst]!r}, "
        f"expected {expected[worst]!r}, error {error[worst]:.3g}, allowed {allowed:.3g}"
    )


def assert_bitwise(actual: Array, expected: Array, what: str) -> None:
    """Equal bit for bit, NaN and the sign of zero included."""
    assert actual.shape == expected.shape and actual.dtype == expected.dtype, f"{what}: shape or type differs"
    same = np.ascontiguousarray(actual).view(np.uint8) == np.ascontiguousarray(expected).view(np.uint8)
    assert same.all(), f"{what}: {int(np.sum(actual != expected))} of {actual.size} elements differ"
