"""Values and calls in C."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ._language import Ways, in_lines, in_words
from ._program_text import Address, Batch, CacheName, Constant, FilterName, Items, Place, StructValue, Text

_WIDTH = 110
_SIZE_MAX = 2**64 - 1
_TYPES = {
    "float32": "float",
    "int64": "int64_t",
    "uint64": "size_t",
    "bool": "bool",
    "uint8": "uint8_t",
    "int32": "int32_t",
}


def type_of(dtype: np.dtype[Any]) -> str:
    return _TYPES[dtype.name]


def expression(value: Any) -> str:
    """A value as an expression, or in braces."""
    return in_words(value, "NULL", _WAYS)


def number(value: float) -> str:
    if math.isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    return "NAN" if math.isnan(value) else f"{np.float32(value)!s}f"


def _place(place: Place) -> str:
    buffer = place.buffer
    name = buffer.name if buffer.group == "argument" else f"net->{buffer.group}.{buffer.name}"
    return name if not place.offset else f"{name} + {place.offset}"


def _without_zeros(entries: tuple[Any, ...]) -> tuple[Any, ...]:
    """An array without what C fills up by itself."""
    used = max((i + 1 for i, entry in enumerate(entries) if not _is_zero(entry)), default=1)
    return entries[:used]


def _is_zero(entry: Any) -> bool:
    return not entry.fields if isinstance(entry, StructValue) else entry in (0, 0.0, None)


def _cache_name(value: CacheName) -> str:
    ending = "_bytes" if value.size or value.address else ""
    return f"{'&' if value.address else ''}net->caches.{value.name}{ending}"


def _struct(value: StructValue) -> str:
    return f"{{{', '.join(f'.{name} = {_field(name, entry)}' for name, entry in value.fields) or '0'}}}"


def _field(name: str, value: Any) -> str:
    """The value of a field. The memory of a descriptor is not constant in C, even if it is only read."""
    if isinstance(value, Place) and value.buffer.constant:
        return f"(void *)({_place(value)})" if value.offset else f"(void *){_place(value)}"
    return expression(value)


_WAYS: Ways = {
    float: number,
    int: lambda value: "SIZE_MAX" if value == _SIZE_MAX else str(value),
    Constant: lambda value: " | ".join(value.names) or "0",
    Text: lambda value: f'"{value.text}"',
    Place: _place,
    Batch: lambda value: "BATCH" if value.factor == 1 else f"{value.factor} * BATCH",
    FilterName: lambda value: f"net->filters.{value.name}",
    CacheName: _cache_name,
    tuple: lambda value: f"{{{', '.join(map(expression, _without_zeros(value)))}}}",
    StructValue: _struct,
}


def declaration(type_name: str, name: str, value: StructValue) -> str:
    """A local variable, on one line if it is short, else with one field on each."""
    line = f"{type_name} {name} = {expression(value)};"
    if len(line) <= _WIDTH:
        return line
    return "\n".join([f"{type_name} {name} = {{", *_field_lines(value, "    "), "};"])


def _field_lines(value: StructValue, margin: str) -> list[str]:
    lines = []
    for name, entry in value.fields:
        line = f"{margin}.{name} = {_field(name, entry)},"
        if len(line) <= _WIDTH or not isinstance(entry, StructValue):
            lines.append(line)
        else:
            lines += [f"{margin}.{name} = {{", *_field_lines(entry, margin + "    "), f"{margin}}},"]
    return lines


def rendered_call(function: str, arguments: list[tuple[str, Any]], before: str, after: str) -> list[str]:
    """Local variables for the structs that a call takes, and a line with the call, broken where it is too long."""
    lines: list[str] = []
    texts = [_argument(name, value, lines) for name, value in arguments]
    return [*lines, *wrapped(f"{before}{function}(", texts, f"){after}")]


def wrapped(before: str, texts: list[str], after: str) -> list[str]:
    """Texts with commas between them, on as many lines as it takes."""
    return in_lines(before, texts, after, _WIDTH)


def _argument(name: str, value: Any, lines: list[str]) -> str:
    if isinstance(value, Address):
        lines.append(declaration(value.of.type, name, _with_locals(value.of, name, lines)))
        return f"&{name}"
    if isinstance(value, Items):
        entries = [
            _argument(f"{name}_{i}", entry, lines) if isinstance(entry, Address) else expression(entry)
            for i, entry in enumerate(value.entries)
        ]
        space = "" if value.type.endswith("*") else " "
        lines.append(f"{value.type}{space}{name}[] = {{{', '.join(entries)}}};")
        return name
    return expression(value)


def _with_locals(value: StructValue, name: str, lines: list[str]) -> StructValue:
    """The struct with local variables in place of structs that it points to."""
    fields: list[tuple[str, Any]] = []
    for field, entry in value.fields:
        if isinstance(entry, Address):
            local = f"{name}_{field}"
            lines.append(declaration(entry.of.type, local, _with_locals(entry.of, local, lines)))
            fields.append((field, Constant((f"&{local}",), "")))
        else:
            fields.append((field, entry))
    return StructValue(value.type, tuple(fields))
