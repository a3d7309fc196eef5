"""Tensors of a filter: operands bound to memory at each call, and parameters held from creation on."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .. import _strict
from .._words import Caller, Named
from ..abi.structs import BNNSNDArrayDescriptor
from ..errors import Problem, record
from . import buffers, descriptors, staging, stored, wide
from .buffers import Buffer
from .descriptors import FLOAT32, ElementType, View, describe


def integer(value: Any, who: str) -> int:
    """An integer or enum argument."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{who} must be an integer, not {type(value).__name__}.")
    return int(value)


def check_count(value: Any, who: str, cure: str = "Pass a number that fits the tensors.") -> int:
    """A size_t argument as an int; a wrong Python type raises ``TypeError``, a negative number is a problem."""
    number = integer(value, who)
    if not 0 <= number <= descriptors.MAX_ELEMENTS:
        raise Problem(f"{who} is {number}, but it must be 0 to {descriptors.MAX_ELEMENTS}. {cure}")
    return number


def check_batch(value: Any, caller: Caller) -> int:
    """The number of samples of a call."""
    return check_count(value, caller("batch_size"), "Pass the number of samples.")


def check_stride(value: Any, who: str) -> int:
    """A batch stride; 0 stands for packed samples."""
    return check_count(value, who, "Pass the elements from one sample to the next, or 0 for packed samples.")


def entries(values: Any, who: str, what: str) -> Any:
    """An argument that C takes as an array of pointers or numbers: a sequence."""
    if isinstance(values, (str, bytes, bytearray, memoryview)) or not isinstance(values, (Sequence, np.ndarray)):
        raise TypeError(f"{who} must be a list of {what}, not {type(values).__name__}.")
    if isinstance(values, np.ndarray) and values.ndim == 0:
        raise TypeError(f"{who} must be a list of {what}, not an array without axes.")
    return values


@dataclass(frozen=True)
class Bound:
    """A tensor of one call: where its samples lie, and how to reach them in canonical order."""

    view: View
    buffer: Buffer
    batch: int
    stride: int
    order: tuple[int, ...]
    shape: tuple[int, ...]  # canonical shape of one sample
    accumulate: bool = False
    stored: bool = field(default=False, kw_only=True)  # kernels take the elements as they are in memory

    @property
    def staged_type(self) -> np.dtype[Any]:
        """The element type of the array that holds results until they are written."""
        element = self.view.element.numpy
        return element if self.stored and element is not None else np.dtype(np.float32)

    def for_kernels(self) -> NDArray[Any]:
        """The batch as native plans take it: ``(batch, *shape)``, float32 or as it is stored."""
        return self.read_raw() if self.stored else self.read(np.float32)

    def place_for_kernels(self) -> NDArray[Any] | None:
        """The output memory as an array that native plans may write, or ``None`` if results must be staged."""
        return self.direct_raw() if self.stored else self.direct()

    def write_from_kernels(self, results: NDArray[Any]) -> None:
        """Store results of :attr:`staged_type`."""
        if self.stored:
            self.write_raw(results)
        else:
            self.write(results.reshape(self.batch, *self.shape) if results.size else results)

    @property
    def nbytes(self) -> int:
        """Bytes from the first to the last element touched."""
        return self.view.bytes_of((self.batch - 1) * self.stride + self.view.span) if self.batch else 0

    def overlaps(self, other: Bound) -> bool:
        return self.buffer.overlaps(other.buffer, self.nbytes, other.nbytes)

    def touches(self, memory: tuple[int, int]) -> bool:
        """True if this shares memory with a range given as (address, bytes)."""
        address, nbytes = memory
        return self.buffer.address < address + nbytes and address < self.buffer.address + self.nbytes

    def same_memory(self, other: Bound) -> bool:
        return self.buffer.address == other.buffer.address and self.stride == other.stride and self.view == other.view

    def read(self, dtype: DTypeLike) -> NDArray[Any]:
        """The batch as ``(batch, *shape)``."""
        if self.batch == 0:
            return np.empty((0, *self.shape), dtype)
        numbers = staging.read(self.view, self.buffer, self.batch, self.stride, self.order, dtype)
        return numbers if numbers.shape[1:] == self.shape else numbers.reshape(self.batch, *self.shape)

    def read_integers(self) -> NDArray[Any]:
        """The stored integers themselves, without scale and bias: int64, or uint64 for UInt64."""
        plain = replace(self.view, scale=1.0, bias=0.0)
        dtype = np.uint64 if self.view.element.name == "UInt64" else np.int64
        return staging.read(plain, self.buffer, self.batch, self.stride, self.order, dtype)

    def write_integers(self, numbers: NDArray[Any]) -> None:
        """Store integers as they are, saturated to the element type."""
        plain = replace(self.view, scale=1.0, bias=0.0)
        shape = (self.batch, *(self.view.size[a] for a in self.order))
        staging.write(plain, self.buffer, self.batch, self.stride, self.order, numbers.reshape(shape))

    def write_unsigned(self, numbers: NDArray[np.uint64]) -> None:
        """Store unsigned integers that fit the element type, up to its largest value."""
        plain = replace(self.view, scale=1.0, bias=0.0)
        staging.write_raw(
            plain, self.buffer, self.batch, self.stride, self.order, numbers.astype(self.view.element.numpy)
        )

    def read_raw(self) -> NDArray[Any]:
        """The stored elements as ``(batch, *shape)``, whatever they mean; those narrower than a byte one per byte."""
        raw = staging.read_raw(self.view, self.buffer, self.batch, self.stride, self.order)
        return raw if raw.shape[1:] == self.shape else raw.reshape(self.batch, *self.shape)

    def direct_raw(self) -> NDArray[Any] | None:
        """The output memory as a canonical array of stored elements that kernels may write, or ``None``."""
        array = staging.direct_raw(self.view, self.buffer, self.batch, self.stride, self.order)
        return array if array is not None and array.shape[1:] == self.shape else None

    def write_raw(self, stored: NDArray[Any]) -> None:
        """Store elements as they are."""
        shape = (self.batch, *(self.view.size[a] for a in self.order))
        staging.write_raw(self.view, self.buffer, self.batch, self.stride, self.order, stored.reshape(shape))

    def direct(self) -> NDArray[Any] | None:
        """The output memory as a canonical array that kernels may write, or ``None``."""
        array = staging.direct(self.view, self.buffer, self.batch, self.stride, self.order)
        if array is None or array.shape[1:] == self.shape:
            return array
        return None

    def write(self, numbers: NDArray[Any]) -> None:
        """Store results (added to what is there if the descriptor asks for it)."""
        shape = (self.batch, *(self.view.size[a] for a in self.order))
        staging.write(
            self.view,
            self.buffer,
            self.batch,
            self.stride,
            self.order,
            numbers.reshape(shape),
            accumulate=self.accumulate,
        )


@dataclass(frozen=True)
class Operand:
    """An input or output as described at creation. ``order`` lists the axes of ``size[]`` in canonical order.

    ``flat`` operands are lists of elements: a tensor of another layout with the same number of elements will do.
    """

    view: View
    order: tuple[int, ...]
    flat: bool = False
    stored: bool = field(default=False, kw_only=True)  # kernels take its elements as they are, whatever their type
    absent = False  # stands for a parameter that the filter was created without

    @property
    def shape(self) -> tuple[int, ...]:
        if self.flat:
            return (self.view.count,)
        return tuple(self.view.size[a] for a in self.order)

    @property
    def fast(self) -> bool:
        """Packed in canonical order, float32 unless it is stored: kernels use the caller's memory as it is."""
        return (self.view.packed if self.stored else self.view.canonical) and self.order == self.view.memory_axes

    def native_items(self, writes: bool) -> dict[str, Any]:
        """Further settings of the native call, for elements that are not float32."""
        return stored.native_items(self.view) if self.stored else {}

    def bind(self, who: Named, data: Any, batch: int, stride: int, *, output: bool = False) -> Bound:
        """Check the memory given for this operand at an apply call."""
        bound = bind(self.view, self.order, self.shape, who, data, batch, stride, output=output)
        return replace(bound, stored=True) if self.stored else bound

    def bind_counted(self, caller: Caller, name: str, data: Any, batch: int, count: Any) -> Bound | None:
        """Check memory that comes with its number of elements."""
        raise NotImplementedError

    def bind_delta(
        self, who: Named, descriptor: BNNSNDArrayDescriptor, batch: int, stride: int, *, output: bool = False,
        elements: tuple[ElementType, ...] = (FLOAT32,),
    ) -> Bound:  # fmt: skip
        """Check a gradient descriptor against this operand, and its memory; ``elements`` lists the types it may have."""
        view = resolve_delta(descriptor, who, self.view, output=output, elements=elements)
        if not output and self._listed_by(view):
            view = self.view.packed_as(view.element)
        order = self._delta_order(view, who)
        return bind(
            view,
            order,
            self.shape,
            who.field("data"),
            descriptor.data,
            batch,
            stride,
            output=output,
            flags=descriptor.flags,
        )

    def _listed_by(self, view: View) -> bool:
        """True if an output gradient is a packed vector of all elements of this tensor, in memory order.

        That is what a fully connected layer makes for the layer before it.
        """
        return (
            not self.flat
            and len(view.size) == 1 < len(self.view.size)
            and view.packed
            and view.count == self.view.count
        )

    def _delta_order(self, view: View, who: str) -> tuple[int, ...]:
        if view.layout.same_as(self.view.layout) and view.size == self.view.size:
            return self.order
        if self.flat and view.count == self.view.count:
            return view.memory_axes
        expected = f"{self.view.count} elements" if self.flat else f"{self.view.layout.name} size {self.view.size}"
        raise Problem(
            f"{who} is {view.layout.name} size {view.size}, but this filter's tensor is {describe(self.view)}.",
            cure=f"A gradient has the shape of one sample of its tensor: describe {expected}.",
        )


def resolve_delta(
    descriptor: Any, who: Named, like: View, *, output: bool, elements: tuple[ElementType, ...] = (FLOAT32,)
) -> View:
    """A gradient descriptor of the tensor ``like`` as a view: Float32; flags matter on those that are produced."""
    if not isinstance(descriptor, BNNSNDArrayDescriptor):
        raise TypeError(f"{who} must be a BNNSNDArrayDescriptor or None, not {type(descriptor).__name__}.")
    view = descriptors.resolve(descriptor, who, like=like)
    if view.element not in elements:
        names = " or ".join(element.name for element in elements)
        raise Problem(
            f"{who}.data_type is {view.element.name}, but training works on {names}. Use BNNSDataTypeFloat32.",
            kind=TypeError,
        )
    if descriptor.data is None:
        cure = "Point it to the memory of sample 0"
        if output:
            cure += f", or pass {who.null} for the descriptor to skip it"
        raise Problem(f"{who}.data is {who.null}. {cure}.")
    if output and descriptor.flags not in (0, 1):
        raise Problem(
            f"{who}.flags is {int(descriptor.flags)}. Use BNNSNDArrayFlagBackpropSet (0) or "
            "BNNSNDArrayFlagBackpropAccumulate (1)."
        )
    return view


def bind(
    view: View,
    order: tuple[int, ...],
    shape: tuple[int, ...],
    who: Named,
    data: Any,
    batch: int,
    stride: int,
    *,
    output: bool = False,
    flags: int = 0,
) -> Bound:
    """Resolve memory and check type, room and, for outputs, that it can be written.

    ``stride`` has been checked (:func:`check_stride`); that of an output may still be too small (:func:`keep_apart`).
    """
    if data is None:
        raise Problem(f"{who} is {who.null}, but this call needs it. Pass the memory of {describe(view)}.")
    element = wide.stored_as(view.element, data)
    if element is not view.element:
        view = replace(view, element=element)
    buffer = buffers.resolve(data, element, who)
    stride = stride or view.extent
    bound = Bound(view, buffer, batch, stride, order, shape, accumulate=output and flags == 1)
    if buffer.nbytes is not None and buffer.nbytes < bound.nbytes:
        detail = f"{batch} samples of {describe(view)}, {stride} elements apart" if batch != 1 else describe(view)
        buffers.require_bytes(buffer, bound.nbytes, who, detail)
    if output:
        buffers.require_writable(buffer, who)
        if view.overlapping:
            raise Problem(
                f"{who}: strides {view.strides} make elements of size {view.size} share memory, so it cannot be written. "
                "Use larger strides, or 0 for packed."
            )
    return bound


def keep_apart(bound: Bound, who: str) -> None:
    """Refuse a batch stride ``who`` that lets the samples of an output overwrite each other."""
    if bound.batch > 1 and bound.stride < bound.view.span:
        raise Problem(
            f"{who} is {bound.stride}, but one sample spans {bound.view.span} elements: samples would overwrite each other. "
            f"Use a stride of at least {bound.view.span}, or 0 for packed samples."
        )


class Parameter:
    """Weights or bias: copied at creation, or read from the caller's memory at each call (BNNSFlagsUseClientPtr)."""

    _who, _trained = "", False
    absent = False  # the same as for an operand
    _source: Bound | None = None  # what was copied, in strict mode

    def __init__(
        self,
        view: View,
        order: tuple[int, ...],
        who: Named,
        data: Any,
        *,
        client_pointer: bool,
        memory: OwnedMemory,
        reading: Callable[[View], View] = lambda view: view,
        stored: bool = False,
    ) -> None:
        """``reading`` turns what a descriptor says into what the filter reads (a rotated kernel, for instance).

        ``stored``: kernels take the elements as they are stored, and so a copy is of their type.
        """
        self.reading, self.stored = reading, stored
        view = reading(view)
        self.view, self.order = view, order
        self.shape = tuple(view.size[a] for a in order)
        self.bound: Bound | None = bind(view, order, self.shape, who, data, 1, 0)
        if client_pointer and self.bound.view.element is not view.element and not wide.active():
            raise Problem(
                f"{who} is float64, but the filter uses this memory in place, also on the native engine. Pass the "
                "array's .astype(np.float32).",
                kind=TypeError,
            )
        self._pins = buffers.pin(self.bound.buffer) if client_pointer else []
        memory.in_float64 |= client_pointer and self.bound.view.element is not view.element
        self.fixed: NDArray[Any] | None = None  # numbers
        self._raw: NDArray[Any] | None = None  # or elements
        if _strict.active():
            _strict.transposed_array(who, self.shape, data)
            if not client_pointer and self.bound.buffer.nbytes is not None:
                self._who, self._source = who, self.bound
        if not client_pointer:
            address = None if wide.active() else self.address
            if stored:
                self._raw = memory.copy(self.bound.read_raw()[0], view.element.numpy)
            elif address is None:
                self.fixed = memory.copy(self.read(wide.number_type()))
            else:
                self.fixed = memory.copy_of(address, self.shape)
            self.bound = None

    def native_items(self, writes: bool) -> dict[str, Any]:
        """The same as for an operand."""
        return {}

    @property
    def address(self) -> int | None:
        """Where kernels find the canonical values at every call, or ``None`` if they must be staged each time."""
        if self._copy is not None:
            return int(self._copy.ctypes.data)
        bound, width = self._bound, self.view.element.bits // 8
        usable = bound.view.packed if self.stored else bound.view.canonical
        if usable and self.order == self.view.memory_axes and bound.buffer.address % width == 0:
            return bound.buffer.address
        return None

    @property
    def _copy(self) -> NDArray[Any] | None:
        return self.fixed if self.fixed is not None else self._raw

    @property
    def memory(self) -> tuple[int, int]:
        """Address and bytes of what the values are read from."""
        if self._copy is not None:
            return int(self._copy.ctypes.data), self._copy.nbytes
        return self._bound.buffer.address, self._bound.nbytes

    @property
    def _bound(self) -> Bound:
        assert self.bound is not None, "the parameter has been released"
        return self.bound

    def release(self) -> None:
        """Release the caller's memory."""
        self.bound = self._source = None
        self._pins = []

    def check_copy(self) -> None:
        """In strict mode: say so if training changes the memory that these values were copied from."""
        if self._source is not None and self._trained:
            now = self._source.read(np.float32)[0]
            if not np.array_equal(now, self.read(np.float32).reshape(now.shape), equal_nan=True):
                _strict.changed_copy(self._who)

    def read(self, dtype: DTypeLike) -> NDArray[Any]:
        """The current values in canonical order."""
        if self.fixed is not None:
            return self.fixed.astype(dtype, copy=False)
        if self._raw is not None:
            return staging.decode(self._raw, self.view, dtype)
        return np.asarray(self._bound.read(dtype)[0])

    def for_kernels(self) -> NDArray[Any]:
        """The current values as native plans take them: float32, or as they are stored."""
        if not self.stored or self.fixed is not None:
            return self.read(np.float32)
        return self._raw if self._raw is not None else np.asarray(self._bound.read_raw()[0])

    @contextmanager
    def holding(self, values: NDArray[Any]) -> Iterator[None]:
        """In the block, :meth:`read` gives these values to the formulas, as precise as they are."""
        before, self.fixed = self.fixed, values
        try:
            yield
        finally:
            self.fixed = before

    def write(self, values: NDArray[Any]) -> None:
        """Replace the values, in the filter's copy or in the caller's memory, which must be writable."""
        if self.fixed is not None:
            self.fixed[...] = values
        elif self._raw is not None:
            self._raw[...] = staging.encode(values, self.view)
        else:
            self._bound.write(values[None])

    def bind_delta(self, who: Named, descriptor: Any, elements: tuple[ElementType, ...] = (FLOAT32,)) -> Bound:
        """Check the descriptor of this parameter's gradient."""
        self._trained = True
        view = resolve_delta(descriptor, who, self.view, output=True, elements=elements)
        if not view.layout.same_as(self.view.layout) or view.size != self.view.size:
            raise Problem(
                f"{who} is {view.layout.name} size {view.size}, but the parameter was created as "
                f"{self.view.layout.name} size {self.view.size}. Its gradient has the same layout and size."
            )
        # The layout came from self.view, so it already is as the filter reads it.
        return bind(
            view, self.order, self.shape, who.field("data"), descriptor.data, 1, 0, output=True, flags=descriptor.flags
        )


def check_training_types(
    caller: Caller, tensors: Mapping[str, Operand | Parameter | None], elements: tuple[ElementType, ...] = (FLOAT32,)
) -> None:
    """Refuse to train a filter that was created with other element types."""
    for name, tensor in tensors.items():
        if tensor is not None and tensor.view.element not in elements:
            known = " or ".join(e.name for e in elements)
            raise Problem(
                f"{caller.function}: the filter's {caller.name(name)} is {tensor.view.element.name}, but training works on "
                f"{known} only. Create the filter with Float32 descriptors.",
                kind=TypeError,
            )


_ALLOCATE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_void_p), ctypes.c_size_t, ctypes.c_size_t)
_FREE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_ALIGNMENT = 64  # a cache line: no vector that kernels read crosses one


def _typed(function: Any, prototype: Any, who: str) -> Any:
    """A callback that can be called with addresses: ctypes cuts them to 32 bits for C functions of undeclared types."""
    if function is not None and not callable(function):
        raise Problem(
            f"{who} is of type {type(function).__name__}, but it must be a function. Pass a Python function, or a C "
            "function from ctypes."
        )
    if getattr(function, "argtypes", ()) is None:
        return prototype(ctypes.cast(function, ctypes.c_void_p).value)
    return function


class OwnedMemory:
    """Memory that a filter owns, from NumPy or from the caller's allocator pair, freed on destruction."""

    in_float64 = False  # whether parameters are float64, which only the reference engine reads

    def __init__(self, allocate: Callable[..., int] | None, free: Callable[..., Any] | None, who: Caller) -> None:
        if (allocate is None) != (free is None):
            given, missing = ("alloc_memory", "free_memory") if free is None else ("free_memory", "alloc_memory")
            raise Problem(
                f"{who(f'filter_params.{given}')} is set but {missing} is {who.null}. Supply both as a pair, or neither."
            )
        self._given = allocate, free  # keeps a C library loaded as long as it is needed
        self._allocate = self._free = None
        self._who, self._blocks = who, list[int]()
        if allocate is not None:
            self._allocate = _typed(allocate, _ALLOCATE, who("filter_params.alloc_memory"))
            self._free = _typed(free, _FREE, who("filter_params.free_memory"))
            self._block(64)

    def _block(self, nbytes: int) -> int:
        assert self._allocate is not None
        place = ctypes.c_void_p()
        try:
            status = self._allocate(ctypes.pointer(place), _ALIGNMENT, nbytes)
        except Exception as error:
            raise Problem(
                f"{self._who('filter_params.alloc_memory')} raised {type(error).__name__} for {nbytes} bytes ({error}). "
                "It is called as alloc_memory(pointer, alignment, size), stores an address in pointer[0] and returns 0."
            ) from error
        if status != 0 or not place.value or place.value % 4:
            raise Problem(
                f"{self._who('filter_params.alloc_memory')} returned {status} and address {place.value or 0:#x} "
                f"for {nbytes} bytes. Return 0 and an aligned block, as posix_memalign does."
            )
        self._blocks.append(place.value)
        return place.value

    def copy(self, values: NDArray[Any], dtype: np.dtype[Any] | None = None) -> NDArray[Any]:
        """A copy of the values in owned memory, as float32 unless memory is wide or another type is given."""
        owned = self._empty(values.shape, dtype)
        owned[...] = values
        return owned

    def copy_of(self, address: int, shape: tuple[int, ...]) -> NDArray[np.float32]:
        """A copy of the float32 values, in C order, at an address."""
        owned = self._empty(shape)
        ctypes.memmove(owned.ctypes.data, address, owned.nbytes)
        return owned

    def _empty(self, shape: tuple[int, ...], dtype: np.dtype[Any] | None = None) -> NDArray[Any]:
        dtype = np.dtype(wide.number_type()) if dtype is None else dtype
        self.in_float64 |= dtype == np.float64
        nbytes = math.prod(shape) * dtype.itemsize
        if self._allocate is None:
            room = np.empty(nbytes + _ALIGNMENT, np.uint8)
            first = -room.ctypes.data % _ALIGNMENT
            return room[first : first + nbytes].view(dtype).reshape(shape)
        block = Buffer(self._block(max(nbytes, 4)), None, True, None)
        strides = np.empty(shape, dtype).strides
        return buffers.array_at(block, 0, dtype, shape, strides, writable=True)

    def release(self) -> None:
        """Give every block back through the caller's free_memory."""
        blocks, self._blocks = self._blocks, []
        for address in blocks:
            assert self._free is not None
            try:
                self._free(address)
            except Exception as error:  # the other blocks are freed nevertheless
                record(Problem(f"{self._who('filter_params.free_memory')} raised {type(error).__name__} ({error})."))
