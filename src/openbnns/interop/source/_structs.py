"""Structs of the C interface as values in source code."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

import numpy as np

from ...abi.enums import BNNSDataLayout, BNNSDataType
from ...abi.structs import BNNSNDArrayDescriptor, FixedList, Struct
from ...graph.tensor import Array
from ._program_text import Address, Constant, Place, StructValue, Text
from .errors import Refused

# Fields that name a layer's function, which are written even if their number is 0.
_ALWAYS_SAID = {"arithmetic_function", "pooling_function", "reduce_func", "reduction", "padding_mode", "method"}

Find = Callable[[Array], Place]


def struct_value(struct: Struct, find: Find) -> StructValue:
    """The fields of a struct that are not zero; ``find`` says where the memory lies that it points to."""
    zero = type(struct)()
    fields = []
    for name, kind in struct._kinds.items():
        value = getattr(struct, name)
        if kind.is_pointer:
            if value is not None:
                fields.append((name, _pointer(value, find)))
        elif value != getattr(zero, name) or (isinstance(value, enum.IntEnum) and name in _ALWAYS_SAID):
            fields.append((name, _value(value, find)))
    return StructValue(type(struct).__name__, tuple(fields))


def _value(value: Any, find: Find) -> Any:
    if isinstance(value, Struct):
        return struct_value(value, find)
    if isinstance(value, FixedList):
        return tuple(_value(entry, find) for entry in value)
    if isinstance(value, enum.IntFlag):
        return Constant(tuple(bit.name for bit in type(value) if bit.name and bit & value), type(value).__name__)
    if isinstance(value, enum.IntEnum):
        return Constant((value.name,), type(value).__name__)
    if isinstance(value, (bool, int, float)):
        return value
    raise Refused(f"a value of type {type(value).__name__} has no place in source code")


def _pointer(value: Any, find: Find) -> Any:
    if isinstance(value, Struct):
        return Address(struct_value(value, find))
    if isinstance(value, np.ndarray):
        return find(value)
    if isinstance(value, (str, bytes)):
        return Text(value if isinstance(value, str) else value.decode())
    raise Refused(f"a pointer to {type(value).__name__} has no place in source code")


def vector(place: Place, count: int) -> StructValue:
    """A descriptor of elements side by side."""
    layout, kind = BNNSDataLayout.BNNSDataLayoutVector, BNNSDataType.BNNSDataTypeFloat32
    return StructValue(
        BNNSNDArrayDescriptor.__name__,
        (
            ("layout", Constant((layout.name,), "BNNSDataLayout")),
            ("size", (count, 0, 0, 0, 0, 0, 0, 0)),
            ("data", place),
            ("data_type", Constant((kind.name,), "BNNSDataType")),
        ),
    )
