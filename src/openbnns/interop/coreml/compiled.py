"""Compiled graphs: an ML program with its weights as one block of memory, which files can hold and contexts map.

A block begins with a header of 64 bytes: a magic number, a checksum of everything but the weights (so that these are not read
before they are needed), the size of the block, and where three parts lie. These are a table
in JSON (functions with their arguments, and where the text of each name is, ended by a zero byte), the program as text or as a
protocol buffer, and a weight file. Nothing in a block is ever changed, so that threads and processes can share it.
"""

from __future__ import annotations

import io
import json
import os
import struct
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..protobuf import Message
from .blobs import FILE_NAME, BlobWriter, Weights
from .description import ArrayFeature, Description, flexible_shapes
from .errors import CoreMLError
from .execution import Executable
from .messages import read_program, write_program
from .models import compiled_program, read
from .operations import Scope, bind
from .program import Block, Function, Program, StateType, TensorType, ValueType
from .text import parse
from .text_writing import render

_MAGIC = b"OBG1"
_HEADER = struct.Struct("<4sIQ6Q")
_ALIGNMENT = 64

Allocate = Callable[[int], memoryview]
"""A function that returns writable memory of a size."""


@dataclass(frozen=True)
class Argument:
    """An argument of a function. None in a shape is an open size; ``default`` is the shape that the model gives it, if any."""

    name: str
    intent: str
    """``"in"``, ``"out"`` or, of a state, ``"inout"``."""
    element: str
    shape: tuple[int | None, ...]
    default: tuple[int, ...] | None = None
    ranges: tuple[tuple[int, int | None], ...] = ()
    at: int = 0
    """Where its name begins in the block."""


@dataclass(frozen=True)
class Signature:
    """A function with its arguments, outputs first."""

    name: str
    arguments: tuple[Argument, ...]
    streaming: bool = False
    places: dict[str, str] = field(default_factory=dict)
    """Where operations stand in the text, by the names of their outputs; only with debug information."""
    at: int = 0


class GraphProgram:
    """A program that can be executed: its functions with their arguments, and the one that calls without a name mean."""

    def __init__(self, functions: dict[str, Signature], default: str, program: Program) -> None:
        self.functions, self.default, self._program = functions, default, program

    def function(self, name: str | None) -> Signature:
        """The function of a name; without one the only function, or the default of the model."""
        return self.functions[name or self.default]

    def program(self) -> Program:
        """The program."""
        return self._program


# Checking and compiling.


def checked_file(path: str | os.PathLike[str], function: str | None, debug: bool) -> GraphProgram:
    """The program of an ``.mlmodelc``, ``model.mil`` or ``.mlpackage``: one function, or all if none is named."""
    place = Path(path)
    if place.suffix == ".mil" or (place / "model.mil").exists():
        program, description = compiled_program(place)
    else:
        model = read(place)
        if model.program is None:
            raise CoreMLError(
                f"{place}: is a model of the kind {model.kind}. Only ML programs can be compiled; convert it with "
                "coremltools, convert_to='mlprogram'."
            )
        program, description = _sorted(model.program), model.description
    return checked_program(program, function, description, debug=debug, who=str(place))


def checked_program(
    program: Program,
    function: str | None = None,
    description: Description | None = None,
    *,
    debug: bool = False,
    who: str = "the program",
) -> GraphProgram:
    """A program whose operations can be run. ``description`` gives default shapes where no attribute does.

    With ``debug`` it knows where operations stand in the text.
    """
    if function and function not in program.functions:
        names = ", ".join(program.functions)
        raise CoreMLError(f"{who}: has no function {function!r}. It has {names}.")
    if function:
        program = replace(program, functions={function: program.functions[function]})
    program.check(who)
    signatures = {name: _signature(each, description, debug, who) for name, each in program.functions.items()}
    default = description.default_function if description is not None else ""
    if default not in program.functions:
        default = "main" if "main" in program.functions else next(iter(program.functions))
    return GraphProgram(signatures, default, program)


def compiled(graph: GraphProgram, allocate: Allocate) -> memoryview:
    """The block of a graph, in memory that ``allocate`` gives."""
    program, signatures = graph.program(), list(graph.functions.values())
    weights = io.BytesIO()
    blobs = BlobWriter(weights)
    # Each form can say things that the other cannot, so that a program keeps the one that it came in.
    is_text = any(each.place is not None for each in program.functions.values())
    source = render(program, blobs).encode() if is_text else write_program(program, blobs)
    blobs.close()
    texts = io.BytesIO()
    places: dict[str, int] = {}
    for name in _names(signatures):
        places[name] = texts.tell()
        texts.write(name.encode() + b"\0")
    texts.write(bytes(-texts.tell() % _ALIGNMENT))
    table = {
        "default": graph.default,
        "form": "text" if is_text else program.dialect,
        "functions": [_row(each, places) for each in signatures],
    }
    return _block([json.dumps(table).encode(), source, weights.getbuffer(), texts.getbuffer()], allocate)


def _sorted(program: Program) -> Program:
    """The program as Apple's compiler writes its text: inputs of functions in the order of their names."""
    functions = {
        name: replace(function, inputs=sorted(function.inputs, key=lambda port: port.name))
        for name, function in program.functions.items()
    }
    return replace(program, functions=functions)


def _signature(function: Function, description: Description | None, debug: bool, who: str) -> Signature:
    where = f"{function.place or who}: function {function.name!r}"
    _check_operations(function.block, Scope.of(function))
    Executable(function)  # which refuses operations that cannot be run
    inputs = {port.name for port in function.inputs}
    for name in function.block.outputs:
        if name in inputs:
            at = function.block.place
            raise CoreMLError(
                f"{at or where}: {name!r} is an input and an output of function {function.name!r} at once. Put an identity "
                "between them.",
                at,
            )
    defaults, ranges, _ = flexible_shapes(function, where)
    if description is not None:
        for feature in description.of(function.name).inputs:
            if isinstance(feature.type, ArrayFeature) and (feature.type.ranges or feature.type.enumerated):
                defaults.setdefault(feature.name, feature.type.shape)
                ranges.setdefault(feature.name, feature.type.ranges)
    arguments = [
        _argument(port.name, port.type, "out", f"{where}: output {port.name!r}") for port in function.output_types()
    ]
    for port in function.inputs:
        held = port.type.wrapped if isinstance(port.type, StateType) else port.type
        intent = "inout" if isinstance(port.type, StateType) else "in"
        argument = _argument(port.name, held, intent, f"{where}: input {port.name!r}")
        default = defaults.get(port.name)
        if default is not None and len(default) == len(argument.shape):
            argument = replace(argument, default=default, ranges=ranges.get(port.name, ()))
        arguments.append(argument)
    places = {}
    if debug:
        operations = [each for each in function.walk() if each.place is not None]
        places = {port.name: str(each.place) for each in operations for port in each.outputs}
    return Signature(function.name, tuple(arguments), _is_streaming(function), places)


def _argument(name: str, type: ValueType, intent: str, who: str) -> Argument:
    if not isinstance(type, TensorType) or type.shape is None or type.element == "string":
        raise CoreMLError(f"{who} has the type {type}. Arguments of graphs are tensors of numbers with a known rank.")
    return Argument(name, intent, type.element, type.shape)


def _check_operations(block: Block, scope: Scope) -> None:
    """Refuse operations that do not exist or lack an input, with the place of the first one."""
    for operation in block.operations:
        try:
            bind(operation, scope)
        except CoreMLError as error:
            raise CoreMLError(str(error), operation.place) from None
        for inner in operation.blocks:
            _check_operations(inner, scope.inside(inner))
        scope.add(operation)


def _is_streaming(function: Function) -> bool:
    for attribute in ("BNNSOptions", "BNNSOption"):  # documentation and header differ
        held = function.attributes.get(attribute)
        options = held.python if held is not None else None
        if isinstance(options, dict) and options.get("StateMode") == "Streaming":
            return True
    return False


def _names(signatures: Iterable[Signature]) -> list[str]:
    names = [name for each in signatures for name in (each.name, *(argument.name for argument in each.arguments))]
    return list(dict.fromkeys(names))


def _row(signature: Signature, places: dict[str, int]) -> dict[str, Any]:
    rows = [[a.name, a.intent, a.element, a.shape, a.default, a.ranges, places[a.name]] for a in signature.arguments]
    return {
        "name": signature.name,
        "at": places[signature.name],
        "arguments": rows,
        "streaming": signature.streaming,
        "places": signature.places,
    }


def _block(parts: list[Any], allocate: Allocate) -> memoryview:
    starts, end = [], _HEADER.size
    for part in parts:
        starts.append(end)
        end += len(part) + -len(part) % _ALIGNMENT
    block = allocate(end)
    sizes = [number for start, part in zip(starts[:3], parts[:3], strict=True) for number in (start, len(part))]
    _HEADER.pack_into(block, 0, _MAGIC, _checksum(parts[0], parts[1], parts[3]), end, *sizes)
    for start, part in zip(starts, parts, strict=True):
        block[start : start + len(part)] = part
        block[start + len(part) : start + len(part) + -len(part) % _ALIGNMENT] = bytes(-len(part) % _ALIGNMENT)
    return block


def _checksum(*parts: Any) -> int:
    checksum = 0
    for part in parts:
        checksum = zlib.crc32(part, checksum)
    return checksum


# Reading.


class CompiledGraph(GraphProgram):
    """A block of memory that holds a graph. What it gives refers to the memory."""

    def __init__(self, block: memoryview, who: str = "the graph") -> None:
        self.block, self._who = block, who
        if len(block) < _HEADER.size:
            raise self._damaged(f"it has {len(block)} bytes")
        magic, checksum, size, *numbers = _HEADER.unpack_from(block, 0)
        if magic != _MAGIC or size != len(block):
            raise self._damaged(f"it begins with {magic!r} and says that it has {size} bytes, not {len(block)}")
        (start, length), self._source, self._weights = [(numbers[i], numbers[i + 1]) for i in (0, 2, 4)]
        self._names = self._weights[0] + self._weights[1] + -self._weights[1] % _ALIGNMENT
        first, count = self._source
        written = block[start : start + length]
        if _checksum(written, block[first : first + count], block[self._names :]) != checksum:
            raise self._damaged("its contents have changed")
        table = json.loads(bytes(written))
        self.default: str = table["default"]
        self._form: str = table["form"]
        self.functions = {row["name"]: self._signature(row) for row in table["functions"]}

    def _damaged(self, reason: str) -> CoreMLError:
        return CoreMLError(
            f"{self._who} is not one that OpenBNNS has compiled: {reason}. Compile the model again with this library."
        )

    def _signature(self, row: dict[str, Any]) -> Signature:
        arguments = tuple(
            Argument(
                name, intent, element, tuple(shape), None if default is None else tuple(default),
                tuple((low, high) for low, high in ranges), self._names + at,
            )
            for name, intent, element, shape, default, ranges, at in row["arguments"]
        )  # fmt: skip
        return Signature(row["name"], arguments, row["streaming"], row["places"], self._names + row["at"])

    def program(self) -> Program:
        """The program; its weights stay where they are."""
        (start, length), (weights, count) = self._source, self._weights
        source = self.block[start : start + length]
        files = Weights(Path(), {FILE_NAME: self.block[weights : weights + count]})
        if self._form == "text":
            return parse(bytes(source).decode(), files, self._who)
        return read_program(Message(source, self._who), files, 9 if self._form != "1.0" else 6)
