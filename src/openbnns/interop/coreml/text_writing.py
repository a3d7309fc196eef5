"""The text of ML programs (``model.mil``), as Apple's compiler writes it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from .blobs import FILE_NAME, BlobWriter
from .elements import ELEMENTS, decoded
from .errors import CoreMLError
from .messages import stored_outside
from .program import (
    Argument,
    Block,
    Constant,
    DictionaryType,
    Function,
    ListType,
    NamedType,
    Operation,
    Program,
    StateType,
    TensorType,
    TupleType,
    ValueType,
)
from .text import NAME

_INDENT = "    "


def render(program: Program, blobs: BlobWriter | None = None) -> str:
    """The text of a program. Large constants go to the weight file ``blobs``, or without one into the text."""
    return "".join(_Writer(blobs, program.dialect).program(program))


class _Writer:
    def __init__(self, blobs: BlobWriter | None, dialect: str) -> None:
        self.blobs, self.dialect = blobs, dialect
        self.plain_scalars = dialect != "1.0"

    def program(self, program: Program) -> Iterator[str]:
        yield f"program({self.dialect})\n"
        if program.attributes:
            yield f"{self._attributes(program.attributes)}\n"
        yield "{\n"
        for function in program.functions.values():
            yield from self._function(function)
        yield "}\n"

    def _function(self, function: Function) -> Iterator[str]:
        attributes = f" {self._attributes(function.attributes)}" if function.attributes else ""
        name, inputs = self._name(function.name), self._ports(function.inputs)
        yield f"{_INDENT}func {name}<{function.opset}>({inputs}){attributes} "
        yield from self._block(function.block, 2)
        yield ";\n"

    def _block(self, block: Block, depth: int) -> Iterator[str]:
        if block.attributes:
            raise CoreMLError("a block has attributes, which texts cannot say.")
        yield "{\n"
        for operation in block.operations:
            yield _INDENT * (depth + 1)
            yield from self._operation(operation, depth)
        yield f"{_INDENT * depth}}} -> ({', '.join(map(self._name, block.outputs))})"

    def _operation(self, operation: Operation, depth: int) -> Iterator[str]:
        outputs = f"{self._ports(operation.outputs)} = " if operation.outputs else ""
        opset = f"<{operation.opset}>" if operation.opset else ""
        inputs = ", ".join(
            f"{self._name(name)} = {self._arguments(operation.inputs[name])}" for name in sorted(operation.inputs)
        )
        attributes = self._attributes(operation.attributes) if operation.attributes else ""
        yield f"{outputs}{self._name(operation.type)}{opset}({inputs}){attributes}"
        for block in operation.blocks:
            yield f" ({self._ports(block.inputs)}) " if block.inputs else " "
            yield from self._block(block, depth + 1)
        yield ";\n"

    def _name(self, name: str) -> str:
        if not NAME.fullmatch(name):
            raise CoreMLError(f"the name {name!r} cannot be part of a text. Use letters, digits and underscores.")
        return name

    def _ports(self, ports: list[NamedType]) -> str:
        return ", ".join(f"{self._type(port.type)} {self._name(port.name)}" for port in ports)

    def _arguments(self, arguments: tuple[Argument, ...]) -> str:
        shown = [self._name(a) if isinstance(a, str) else self._typed(a) for a in arguments]
        return shown[0] if len(shown) == 1 else f"({', '.join(shown)})"

    def _attributes(self, attributes: Mapping[str, Constant]) -> str:
        return f"[{', '.join(f'{self._name(name)} = {self._typed(attributes[name])}' for name in sorted(attributes))}]"

    def _type(self, type: ValueType) -> str:
        if isinstance(type, TensorType) and type.shape == () and self.plain_scalars:
            return type.element
        if isinstance(type, ListType):
            return f"list<{self._type(type.entry)}, {'?' if type.length is None else type.length}>"
        if isinstance(type, TupleType):
            return f"tuple<{', '.join(map(self._type, type.entries))}>"
        if isinstance(type, DictionaryType):
            return f"dict<{self._type(type.key)}, {self._type(type.entry)}>"
        if isinstance(type, StateType):
            return f"state<{self._type(type.wrapped)}>"
        return str(type)

    def _typed(self, constant: Constant) -> str:
        kind = self._type(constant.type)
        if self.blobs is not None and stored_outside(constant, self.dialect):
            scalar = "{0}({1})" if self.plain_scalars else "tensor<{0}, []>({1})"
            path = scalar.format("string", _quoted(FILE_NAME))
            offset = scalar.format("uint64", self.blobs.add(constant))
            return f"{kind}(BLOBFILE(path = {path}, offset = {offset}))"
        return f"{kind}({self._literal(constant)})"

    def _literal(self, constant: Constant) -> str:
        if isinstance(constant.type, TensorType):
            return _tensor(constant)
        if isinstance(constant.type, DictionaryType):
            pairs = [f"{{{self._literal(key)}, {self._literal(entry)}}}" for key, entry in constant.value]
            return f"{{{', '.join(pairs)}}}"
        entries = ", ".join(map(self._literal, constant.value))
        return f"({entries})" if isinstance(constant.type, TupleType) else f"[{entries}]"


def _tensor(constant: Constant) -> str:
    assert isinstance(constant.type, TensorType)
    element = ELEMENTS[constant.type.element]
    if element.name == "string":
        values: Any = np.array(constant.value, object).reshape(-1).tolist()
        show: Callable[[Any], str] = _quoted
    else:
        if element.name.startswith("fp8"):
            raise CoreMLError(f"constants of {element.name} can only be in a weight file. Write one.")
        values = decoded(element, constant.value, constant.shape).reshape(-1).tolist()
        show = {"f": hexadecimal, "b": lambda flag: "true" if flag else "false"}.get(element.numpy.kind, str)
    return _nested([show(value) for value in values], constant.shape)


def _nested(words: list[str], shape: tuple[int, ...]) -> str:
    if not shape:
        return words[0]
    for axis in range(len(shape) - 1, -1, -1):  # from the innermost brackets out
        size, count = shape[axis], math.prod(shape[:axis])
        words = [f"[{', '.join(words[i * size : (i + 1) * size])}]" for i in range(count)]
    return words[0]


def hexadecimal(value: float) -> str:
    """A float in C's hexadecimal notation, without trailing zeros: 0x1.8p-3.

    >>> from openbnns.interop.coreml.text_writing import hexadecimal
    >>> print(hexadecimal(0.1875), hexadecimal(-0.0), hexadecimal(1.0))
    0x1.8p-3 -0x0p+0 0x1p+0
    """
    if not math.isfinite(value):
        return str(value)
    mantissa, exponent = value.hex().split("p")
    return f"{mantissa.rstrip('0').rstrip('.') if '.' in mantissa else mantissa}p{exponent}"


def _quoted(text: str) -> str:
    """Text in quotes, on one line."""
    escaped = (
        text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    )
    return f'"{escaped}"'
