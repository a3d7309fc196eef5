"""ML programs as plain data: functions, blocks, operations, values. Every reader makes these, and every writer takes them.

A name stands for one value. What is defined in a block is known to the operations behind it and to the blocks inside of them.
Constants keep the form in which a file stores them, mapped where it can be, until :attr:`Constant.array` is asked for.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .elements import ELEMENTS, Array, Element, decoded, name_of, packed
from .errors import CoreMLError

OPSETS = {
    "CoreML4": "ios14",
    "CoreML5": "ios15",
    "CoreML6": "ios16",
    "CoreML7": "ios17",
    "CoreML8": "ios18",
    "CoreML9": "ios26",
}
"""Names of sets of operations, in protocol buffers and in text. Programs here have the second ones."""

MOST_AXES = 32


# Types.


@dataclass(frozen=True)
class TensorType:
    """Elements in a shape; None is a size that is not known before the program runs, or a rank that is not."""

    element: str
    shape: tuple[int | None, ...] | None

    def __str__(self) -> str:
        if self.shape is None:
            return f"tensor<{self.element}, [...]>"
        return f"tensor<{self.element}, [{', '.join('?' if n is None else str(n) for n in self.shape)}]>"


@dataclass(frozen=True)
class BufferType:
    """A tensor in memory with strides of its own, which only texts can have."""

    element: str
    shape: tuple[int | None, ...]
    strides: tuple[int | None, ...]
    interleave_factors: tuple[int | None, ...]

    def __str__(self) -> str:
        lists = ("shape", self.shape), ("strides", self.strides), ("interleave_factors", self.interleave_factors)
        shown = "".join(
            f", {name} = [{', '.join('?' if n is None else str(n) for n in sizes)}]" for name, sizes in lists
        )
        return f"tensor_buffer<{self.element}{shown}>"


@dataclass(frozen=True)
class ListType:
    """Values of one type; ``length`` is None if it can change."""

    entry: ValueType
    length: int | None

    def __str__(self) -> str:
        return f"list<{self.entry}, {'?' if self.length is None else self.length}>"


@dataclass(frozen=True)
class TupleType:
    """Values of several types."""

    entries: tuple[ValueType, ...]

    def __str__(self) -> str:
        return f"tuple<{', '.join(map(str, self.entries))}>"


@dataclass(frozen=True)
class DictionaryType:
    """Values by key."""

    key: ValueType
    entry: ValueType

    def __str__(self) -> str:
        return f"dict<{self.key}, {self.entry}>"


@dataclass(frozen=True)
class StateType:
    """A value that stays from one run to the next."""

    wrapped: ValueType

    def __str__(self) -> str:
        return f"state<{self.wrapped}>"


ValueType = TensorType | BufferType | ListType | TupleType | DictionaryType | StateType


# Values.


@dataclass(frozen=True, eq=False)
class Constant:
    """A value that is known: ``value`` is

    * of a tensor of numbers, the array that a file stores: of its shape, but one axis of bytes for elements below eight bits;
    * of a tensor of text, an array of ``str``, or the ``str`` itself if it has no axes;
    * of a list or tuple, a tuple of constants; of a dictionary, a tuple of pairs of constants.
    """

    type: ValueType
    value: Any

    @property
    def array(self) -> Array:
        """The numbers of a tensor (or its text), of the type and shape to compute with. It may be mapped and read-only."""
        element, shape = self._tensor()
        if element.name == "string":
            return np.array(self.value, object).reshape(shape)
        return decoded(element, self.value, shape)

    @property
    def python(self) -> Any:
        """The value in Python's own terms: numbers, ``str``, lists and dictionaries; arrays for tensors with axes."""
        if isinstance(self.type, TensorType):
            return self.array if self.type.shape else self.array.item()
        if isinstance(self.type, DictionaryType):
            return {_key(key.python): entry.python for key, entry in self.value}
        return [entry.python for entry in self.value]

    @property
    def shape(self) -> tuple[int, ...]:
        return self._tensor()[1]

    def _tensor(self) -> tuple[Element, tuple[int, ...]]:
        if not isinstance(self.type, TensorType):
            raise TypeError(f"a constant of type {self.type} is not a tensor.")
        shape = self.type.shape or ()
        known = tuple(n for n in shape if n is not None)
        if len(known) < len(shape):  # only text can leave it open, and then it has its array's
            known = tuple(np.shape(self.value))
        return ELEMENTS[self.type.element], known

    def __eq__(self, other: object) -> bool:
        """Bit for bit, so that NaN equals itself and zeros have signs."""
        if not isinstance(other, Constant):
            return NotImplemented
        if self.type != other.type:
            return False
        if isinstance(self.value, np.ndarray) and isinstance(other.value, np.ndarray):
            a, b = self.value, other.value
            if a.dtype.kind == "O":
                return bool(a.tolist() == b.tolist())
            return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
        return bool(self.value == other.value)

    __hash__ = None  # type: ignore[assignment]


def _key(value: Any) -> Any:
    return tuple(value.reshape(-1).tolist()) if isinstance(value, np.ndarray) else value


def constant(value: Any, element: str | None = None) -> Constant:
    """A constant from Python: an array, number, ``str``, a list of ``str`` (a list) or a dictionary from ``str``.

    >>> from openbnns.interop import coreml
    >>> print(coreml.constant([1, 2]).type, coreml.constant(0.5, "fp16").type, coreml.constant(["a"]).type)
    tensor<int32, [2]> tensor<fp16, []> list<tensor<string, []>, 1>
    """
    text = TensorType("string", ())
    if isinstance(value, str):
        return Constant(text, value)
    if isinstance(value, Mapping):
        pairs = tuple((constant(str(key)), constant(entry)) for key, entry in value.items())
        return Constant(DictionaryType(text, pairs[0][1].type if pairs else text), pairs)
    if isinstance(value, (list, tuple)) and value and all(isinstance(entry, str) for entry in value):
        return Constant(ListType(text, len(value)), tuple(map(constant, value)))
    array = np.asarray(value)
    if element is None and not isinstance(value, (np.ndarray, np.generic)):
        array = array.astype({"i": np.int32, "f": np.float32}.get(array.dtype.kind, array.dtype))
    kind = ELEMENTS[element or name_of(array.dtype)]
    if array.dtype.kind in "US":
        return Constant(TensorType("string", array.shape), array.astype(object))
    if kind.packed:
        low = -(2 ** (kind.bits - 1)) if kind.name == "int4" else 0
        high = low + 2**kind.bits - 1
        if array.size and (array.min() < low or array.max() > high):
            extent = f"{array.min()} to {array.max()}"
            raise ValueError(f"{kind.name} holds numbers from {low} to {high}, got {extent}.")
        return Constant(TensorType(kind.name, array.shape), packed(array.astype(np.int16) & 255, kind.bits))
    if kind.stored != kind.numpy:
        raise TypeError(f"constants of type {kind.name} can be read, but not made. Use fp16 or fp32.")
    return Constant(TensorType(kind.name, array.shape), np.ascontiguousarray(array, kind.stored).reshape(array.shape))


# Programs.


@dataclass(frozen=True)
class Place:
    """A line and column of a text, both from 1 on."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True)
class NamedType:
    """An input of a function or block, or an output of an operation."""

    name: str
    type: ValueType


Argument = str | Constant
"""An argument of an operation: a value by name, or a constant."""


@dataclass
class Operation:
    """One operation. An input may have several arguments (``values`` of concat); ``opset`` is one that only it uses."""

    type: str
    inputs: dict[str, tuple[Argument, ...]]
    outputs: list[NamedType]
    blocks: list[Block] = field(default_factory=list)
    attributes: dict[str, Constant] = field(default_factory=dict)
    opset: str | None = None
    place: Place | None = field(default=None, compare=False)

    def __str__(self) -> str:
        """The name in messages."""
        return f"{self.type} {self.outputs[0].name!r}" if self.outputs else self.type

    @property
    def name(self) -> str:
        """The name that a converter gave it, or else that of its first output."""
        given = self.attributes.get("name")
        if given is not None and isinstance(given.value, str):
            return given.value
        return self.outputs[0].name if self.outputs else ""


@dataclass
class Block:
    """Operations in their order, and the names of what they give; ``place`` is where a text lists those."""

    inputs: list[NamedType]
    operations: list[Operation]
    outputs: list[str]
    attributes: dict[str, Constant] = field(default_factory=dict)
    place: Place | None = field(default=None, compare=False)


@dataclass
class Function:
    """A block that can be called, with the set of operations that it uses: ``"ios17"``."""

    name: str
    inputs: list[NamedType]
    opset: str
    block: Block
    attributes: dict[str, Constant] = field(default_factory=dict)
    place: Place | None = field(default=None, compare=False)

    def walk(self) -> Iterator[Operation]:
        """All operations, each before those of its blocks."""
        waiting = [iter(self.block.operations)]
        while waiting:
            operation = next(waiting[-1], None)
            if operation is None:
                waiting.pop()
                continue
            yield operation
            waiting.extend(iter(block.operations) for block in reversed(operation.blocks))

    def output_types(self) -> list[NamedType]:
        """The outputs with their types."""
        known = {port.name: port.type for port in self.inputs}
        for operation in self.block.operations:
            known.update((port.name, port.type) for port in operation.outputs)
        return [NamedType(name, known[name]) for name in self.block.outputs]


@dataclass
class Program:
    """Functions by name. ``dialect`` is the version that its text has: 1.0 until iOS 17, 1.3 since."""

    functions: dict[str, Function]
    dialect: str = "1.3"
    attributes: dict[str, Constant] = field(default_factory=dict)

    def check(self, who: str) -> None:
        """Raise an error for a program in which a name is not defined, or defined twice. ``who`` is the file."""
        if not self.functions:
            raise CoreMLError(f"{who}: the program has no functions.")
        for function in self.functions.values():
            where = f"{function.place or who}: function {function.name!r}"
            known: set[str] = set()
            _define(function.inputs, known, where)
            _check_block(function.block, known, where)


def _define(ports: list[NamedType], known: set[str], where: str) -> list[str]:
    for port in ports:
        if not port.name:
            raise CoreMLError(f"{where}: a value has no name.")
        if port.name in known:
            raise CoreMLError(f"{where}: two values have the name {port.name!r}.")
        known.add(port.name)
    return [port.name for port in ports]


def _check_block(block: Block, known: set[str], where: str) -> None:
    """Check a block; ``known`` has the names that its operations may read, and is the same afterwards."""
    defined = _define(block.inputs, known, where)
    for operation in block.operations:
        here = f"{operation.place or where}: {operation}"
        for name, arguments in operation.inputs.items():
            for argument in arguments:
                if isinstance(argument, str) and argument not in known:
                    message = f"{here} reads {argument!r} as {name}, which nothing before it computes."
                    raise CoreMLError(message, operation.place)
        if operation.type == "const" and (len(operation.outputs) != 1 or "val" not in operation.attributes):
            raise CoreMLError(f"{here}: a const has one output and an attribute val.", operation.place)
        for inner in operation.blocks:
            _check_block(inner, known, here)
        defined += _define(operation.outputs, known, here)
    for name in block.outputs:
        if name not in known:
            raise CoreMLError(f"{block.place or where}: nothing computes the output {name!r}.", block.place)
    known.difference_update(defined)


def checked_tensor(element: str, shape: tuple[int | None, ...] | None, who: str) -> TensorType:
    """A type of tensor that an array can have."""
    if shape is not None:
        if len(shape) > MOST_AXES:
            raise CoreMLError(f"{who}: a tensor has {len(shape)} axes; {MOST_AXES} are the most.")
        if math.prod(max(n, 1) for n in shape if n is not None) >= 2**60:
            raise CoreMLError(f"{who}: no tensor can have the shape {shape}.")
    return TensorType(element, shape)
