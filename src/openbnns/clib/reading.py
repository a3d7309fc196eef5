"""C structs and arrays at addresses, as ``openbnns.capi`` takes them. Memory stays the caller's: addresses are passed on."""

from __future__ import annotations

import ctypes
import functools
import struct
from collections.abc import Callable
from typing import Any

from .. import capi, engines
from .._words import Caller
from ..errors import Problem
from ..filters import arithmetic, loss, optimizer
from .layouts import STRUCTS

if engines._core is None:  # there would be nothing to read structs with
    raise ImportError(f"the compiled core cannot be loaded ({engines.reason}). Reinstall openbnns.")

Address = int | None

_ALLOCATE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_void_p), ctypes.c_size_t, ctypes.c_size_t)
_FREE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

_NUMBERS = {
    "float": "f", "bool": "?", "uint8_t": "B", "int32_t": "i", "ssize_t": "q", "size_t": "Q", "uint64_t": "Q",
}  # fmt: skip
MOST_ENTRIES = 1 << 20
"""Entries of the longest C array that is read. A longer array is not read: it is a mistake, which the call reports."""


def _text(address: int) -> str:
    return ctypes.string_at(address).decode("utf-8", "replace")


_CONVERTED: dict[tuple[str, str], Callable[[int], Any]] = {
    ("BNNSLayerParametersTensorContraction", "operation"): _text,
    ("BNNSFilterParameters", "alloc_memory"): functools.lru_cache(maxsize=64)(_ALLOCATE),
    ("BNNSFilterParameters", "free_memory"): functools.lru_cache(maxsize=64)(_FREE),
}
"""Pointers that ``capi`` does not take as plain addresses."""


_LOSSES = {struct_class.__name__ for struct_class in loss.STRUCTS}  # recognized by their exact class


@functools.cache
def reader(name: str) -> Callable[[Address], Any]:
    """A function that reads the struct of this name at an address; NULL gives ``None``."""
    bytes_, fields = STRUCTS[name]
    made: Any = getattr(capi, name)
    rows: list[object] = [
        (made.__dict__[field], *_field(name, field, c_type, made._kinds[field], offset, lengths))
        for field, c_type, offset, lengths in fields
    ]
    if name.startswith("BNNSLayerParameters") and name not in _LOSSES:  # what is read is for one call
        made = type(made)(name, (made,), {"__slots__": (), "__module__": made.__module__, "only_mine": True})
    read: Callable[[Address], Any] = engines._core.StructReader(made, capi.FixedList, bytes_, rows)
    return read


def _field(
    owner: str, field: str, c_type: str, kind: Any, offset: int, lengths: tuple[int, ...]
) -> tuple[str, int, tuple[int, ...], tuple[Any, ...]]:
    """How a field is read; see core/bindings/struct_reader.h."""
    entry, converters = kind, []
    for _ in lengths:
        zero = entry.initial()
        converters.append(zero._element)
        entry = _EntryOf(zero)
    if c_type in STRUCTS:
        return "S", offset, lengths, (*converters, reader(c_type))
    if (owner, field) in _CONVERTED:
        return "C", offset, lengths, (*converters, _CONVERTED[owner, field])
    if c_type.endswith("*"):
        return "P", offset, lengths, tuple(converters)
    if c_type in _NUMBERS:
        return _NUMBERS[c_type], offset, lengths, tuple(converters)
    if lengths:
        return "I", offset, lengths, tuple(converters)
    return "e", offset, lengths, (kind.convert,)  # an enum, or flags that the interface declares as uint32_t


class _EntryOf:
    """The kind of an entry of an array, with the members that readers use."""

    def __init__(self, zero: Any) -> None:
        self._zero = zero

    def initial(self) -> Any:
        return self._zero[0]


# ---------------------------------------------------------------------------------------------------------------------
# Structs whose form depends on another value


def read_loss(address: Address) -> Any:
    """The struct of a loss, which its first field, the function, determines."""
    if address is None:
        return None
    function = ctypes.c_uint32.from_address(address).value
    return reader(loss.struct_of(function).__name__)(address)


def read_arithmetic(address: Address) -> Any:
    """An arithmetic layer with its operands."""
    parameters = reader("BNNSLayerParametersArithmetic")(address)
    if parameters is not None and parameters.arithmetic_function_fields is not None:
        block = arithmetic.block_of(int(parameters.arithmetic_function))
        if block is not None:  # a function that does not exist is refused before the block is read
            fields = reader(block.__name__)(parameters.arithmetic_function_fields)
            parameters.arithmetic_function_fields = fields
    return parameters


def read_layer(kind: int, address: Address) -> Any:
    """A layer of a fused filter."""
    from ..filters.fused_chain import struct_of

    struct_class = struct_of(kind)
    if struct_class is capi.BNNSLayerParametersArithmetic:
        return read_arithmetic(address)
    return None if struct_class is None else reader(struct_class.__name__)(address)


def read_optimizer(function: int, address: Address) -> Any:
    """The hyperparameters of an optimizer."""
    struct_class = optimizer.STRUCTS.get(function)
    return None if struct_class is None else reader(struct_class.__name__)(address)


def roles_of(function: int, fields: Any, who: str) -> int:
    """How many accumulators an optimizer keeps per parameter; 0 if its description is invalid, which the call reports."""
    if fields is None:
        return 0
    try:
        return optimizer.read_rule(function, fields, Caller(who)).optimizer.roles
    except Problem:
        return 0


# ---------------------------------------------------------------------------------------------------------------------
# Arrays


def _numbers(address: Address, count: int, code: str) -> list[int] | None:
    if address is None:
        return None
    form = struct.Struct(f"={count if count <= MOST_ENTRIES else 0}{code}")
    return list(form.unpack(ctypes.string_at(address, form.size)))


def pointers(address: Address, count: int) -> list[Address] | None:
    """An array of pointers."""
    addresses = _numbers(address, count, "Q")
    return None if addresses is None else [word or None for word in addresses]


def sizes(address: Address, count: int) -> list[int] | None:
    """An array of ``size_t``."""
    return _numbers(address, count, "Q")


def numbers32(address: Address, count: int) -> list[int] | None:
    """An array of an enum."""
    return _numbers(address, count, "I")


def descriptors(address: Address, count: int) -> list[Any] | None:
    """An array of pointers to descriptors."""
    read = reader("BNNSNDArrayDescriptor")
    addresses = pointers(address, count)
    return None if addresses is None else [read(each) for each in addresses]


def size_at(address: Address) -> Any:
    """A ``size_t`` that the call may change."""
    return None if address is None else ctypes.c_size_t.from_address(address)


# ---------------------------------------------------------------------------------------------------------------------
# Writing

_DESCRIPTOR = struct.Struct("=II8Q8QQI4xQIff4x")


def write_descriptor(address: int, d: Any, data: int) -> None:
    """Store a descriptor at an address, pointing to ``data``."""
    place = (ctypes.c_char * _DESCRIPTOR.size).from_address(address)
    _DESCRIPTOR.pack_into(
        place, 0, int(d.flags), int(d.layout), *d.size, *d.stride, data, int(d.data_type), d.table_data or 0,
        int(d.table_data_type), d.data_scale, d.data_bias,
    )  # fmt: skip
