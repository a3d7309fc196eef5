"""Values and calls in Swift."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ._language import Ways, in_lines, in_words
from ._program_text import Address, Batch, CacheName, Constant, FilterName, Items, Place, StructValue, Text
from .errors import Refused

_WIDTH = 118
_TYPES = {"float32": "Float", "int64": "Int64", "uint64": "UInt", "bool": "Bool", "uint8": "UInt8", "int32": "Int32"}
# Fields that hold bits of an enum as a plain number.
_PLAIN_FLAGS = {"BNNSFlags": "UInt32", "BNNSLayerFlags": "UInt32"}
_ENTRIES = {
    "const void *": "UnsafeRawPointer",
    "BNNSNDArrayDescriptor *": "UnsafeMutablePointer<BNNSNDArrayDescriptor>",
    "const size_t": "Int",
    "const BNNSFilterType": "BNNSFilterType",
}
# Arguments whose entries may be NULL: Swift imports them with another type than the others.
_MAY_BE_NULL = {
    "BNNSArithmeticFilterApplyBackwardBatch": ("in",),
    "BNNSFusedFilterApplyBackwardBatch": ("delta_parameters",),
    "BNNSFusedFilterApplyBackwardMultiInputBatch": ("in", "delta_parameters"),
}


def type_of(dtype: np.dtype[Any]) -> str:
    return _TYPES[dtype.name]


def expression(value: Any) -> str:
    """A value as an expression."""
    return in_words(value, "nil", _WAYS)


def _number(value: float) -> str:
    if math.isinf(value):
        return "Float.infinity" if value > 0 else "-Float.infinity"
    return "Float.nan" if math.isnan(value) else str(np.float32(value))


def _constant(value: Constant) -> str:
    if value.kind in _PLAIN_FLAGS:
        return " | ".join(f"{_PLAIN_FLAGS[value.kind]}({name}.rawValue)" for name in value.names)
    if len(value.names) == 1:
        return value.names[0]
    return f"{value.kind}({' | '.join(f'{name}.rawValue' for name in value.names)})"


def _text(value: Text) -> str:
    raise Refused("text in structs has no form in Swift here")


def _place(value: Place) -> str:
    buffer = value.buffer
    name = buffer.name if buffer.group == "argument" else f"{buffer.group}_{buffer.name}"
    return name if not value.offset else f"{name} + {value.offset}"


def _cache_name(value: CacheName) -> str:
    ending = "_bytes" if value.size or value.address else ""
    return f"{'&' if value.address else ''}cache_{value.name}{ending}"


_WAYS: Ways = {
    float: _number,
    int: lambda value: "Int.max" if value > 2**63 - 1 else str(value),
    Constant: _constant,
    Text: _text,
    Place: _place,
    Batch: lambda value: "Self.batch" if value.factor == 1 else f"{value.factor} * Self.batch",
    FilterName: lambda value: f"filter_{value.name}",
    CacheName: _cache_name,
    tuple: lambda value: f"({', '.join(map(expression, value))})",
}


def struct_lines(name: str, value: StructValue) -> list[str]:
    """Assignments to the fields of a variable that is zero."""
    lines: list[str] = []
    for field, entry in value.fields:
        path = f"{name}.{field}"
        if isinstance(entry, StructValue):
            lines += struct_lines(path, entry)
        elif isinstance(entry, tuple) and any(isinstance(e, StructValue) for e in entry):
            for i, one in enumerate(entry):
                lines += struct_lines(f"{path}.{i}", one)
        elif isinstance(entry, Place):
            mutable = f"mutating: {expression(entry)}" if entry.buffer.constant else expression(entry)
            lines.append(f"{path} = UnsafeMutableRawPointer({mutable})")
        elif isinstance(entry, Address):
            lines.append(f"{path} = UnsafeMutableRawPointer({_local(path)})")
        else:
            lines.append(f"{path} = {expression(entry)}")
    return lines


def _local(path: str) -> str:
    return "_".join(path.split("."))


def rendered_call(function: str, arguments: list[tuple[str, Any]], before: str, after: str) -> list[str]:
    """Variables for the structs that a call takes, and the call."""
    lines: list[str] = []
    null = _MAY_BE_NULL.get(function, ())
    texts = [_argument(f"{name}_", value, lines, name.rstrip("_") in null) for name, value in arguments]
    return [*lines, *wrapped(f"{before}{function}(", texts, f"){after}")]


def wrapped(before: str, texts: list[str], after: str) -> list[str]:
    """Texts with commas between them, on as many lines as it takes."""
    return in_lines(before, texts, after, _WIDTH)


def _argument(name: str, value: Any, lines: list[str], may_be_null: bool) -> str:
    if isinstance(value, Address):
        _declare(name, value.of, lines)
        return f"&{name}"
    if isinstance(value, Items):
        entries = []
        for i, entry in enumerate(value.entries):
            if isinstance(entry, Address):
                entries.append(_pinned(f"{name}{i}", entry.of, lines))
                if value.type == "const void *":
                    entries[-1] = f"UnsafeRawPointer({entries[-1]})"
            elif isinstance(entry, Place) and value.type == "const void *":
                entries.append(f"UnsafeRawPointer({expression(entry)})")
            else:
                entries.append(expression(entry))
        lines += wrapped(f"var {name}: [{_ENTRIES[value.type]}{'?' if may_be_null else ''}] = [", entries, "]")
        return f"&{name}"
    return expression(value)


def _declare(name: str, value: StructValue, lines: list[str]) -> None:
    for field, entry in value.fields:
        if isinstance(entry, Address):
            _pinned(_local(f"{name}.{field}"), entry.of, lines)
    if value.type == "BNNSLayerParametersArithmetic":  # a pointer that must not be NULL: there is no zero to begin with
        operands = f"UnsafeMutableRawPointer({_local(f'{name}.arithmetic_function_fields')})"
        function = expression(dict(value.fields)["arithmetic_function"])
        texts = [
            f"arithmetic_function: {function}",
            f"arithmetic_function_fields: {operands}",
            "activation: BNNSActivation()",
        ]
        lines += wrapped(f"var {name} = {value.type}(", texts, ")")
        given = ("arithmetic_function", "arithmetic_function_fields")
        value = StructValue(value.type, tuple(field for field in value.fields if field[0] not in given))
    else:
        lines.append(f"var {name} = {value.type}()")
    lines += struct_lines(name, value)


def _pinned(name: str, value: StructValue, lines: list[str]) -> str:
    """A struct at an address that holds until the end of the block."""
    _declare(f"{name}_value", value, lines)
    lines += [f"let {name} = pinned({name}_value)", f"defer {{ {name}.deallocate() }}"]
    return name
