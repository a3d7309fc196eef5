"""ML programs as protocol buffers: what ``.mlpackage`` and ``.mlmodel`` files hold."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from ..protobuf import Field, Message, encode, varint
from .blobs import FILE_NAME, BlobWriter, Weights
from .elements import BY_NUMBER, ELEMENTS, Array, Element
from .errors import CoreMLError
from .program import (
    OPSETS,
    Argument,
    Block,
    BufferType,
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
    checked_tensor,
)

_DEEPEST = 32  # types and values inside of each other, and blocks
_BYTES, _STRINGS, _FLOATS, _INTS, _BOOLS, _LONG_INTS, _DOUBLES = 7, 4, 1, 2, 3, 5, 6  # fields of a TensorValue


def dialect_of(specification_version: int) -> str:
    """The version that the text of a program has."""
    return "1.3" if specification_version >= 9 else "1.0"


def read_program(message: Message, weights: Weights, specification_version: int) -> Program:
    """The program of a message; weights are mapped, not read."""
    return _Reader(weights).program(message, dialect_of(specification_version))


class _Reader:
    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        self._types: dict[bytes, ValueType] = {}

    def program(self, message: Message, dialect: str) -> Program:
        functions = {}
        for name, entry in self._entries(message, 2):
            functions[name] = self._function(name, entry)
        return Program(functions, dialect, self._attributes(message, 4))

    def _function(self, name: str, message: Message) -> Function:
        message.who = f"{message.who}: function {name!r}"
        opset = message.text(2)
        if opset not in OPSETS:
            raise CoreMLError(f"{message.who} is of the opset {opset!r}. Known are {', '.join(OPSETS)}.")
        blocks = dict(self._entries(message, 3))
        if opset not in blocks:
            raise CoreMLError(f"{message.who} has no block for its opset {opset!r}.")
        inputs = self._ports(message, 1)
        return Function(name, inputs, OPSETS[opset], self._block(blocks[opset], 0), self._attributes(message, 4))

    def _block(self, message: Message, depth: int) -> Block:
        if depth > _DEEPEST:
            raise CoreMLError(f"{message.who}: blocks are nested more than {_DEEPEST} deep.")
        operations = [self._operation(entry, depth) for entry in _each(message, 3)]
        return Block(self._ports(message, 1), operations, message.texts(2), self._attributes(message, 4))

    def _operation(self, message: Message, depth: int) -> Operation:
        kind = message.text(1)
        outputs = self._ports(message, 3)
        message.who = f"{message.who}: {kind} {outputs[0].name!r}" if outputs else f"{message.who}: {kind}"
        if not kind:
            raise message.damage("an operation has no type")
        inputs = {name: self._arguments(entry) for name, entry in self._entries(message, 2)}
        blocks = [self._block(entry, depth + 1) for entry in message.messages(4)]
        return Operation(kind, inputs, outputs, blocks, self._attributes(message, 5))

    def _arguments(self, message: Message) -> tuple[Argument, ...]:
        arguments: list[Argument] = []
        for binding in message.messages(1):
            if binding.has(1) == binding.has(2):
                raise binding.damage("an argument is neither a name nor a value")
            arguments.append(binding.text(1) if binding.has(1) else self.value(binding.message(2), 0))
        return tuple(arguments)

    def _ports(self, message: Message, number: int) -> list[NamedType]:
        return [
            NamedType(entry.text(1), self._type(entry.data_of(2), entry.who, 0)) for entry in message.messages(number)
        ]

    def _attributes(self, message: Message, number: int) -> dict[str, Constant]:
        return {name: self.value(entry, 0) for name, entry in self._entries(message, number)}

    def _entries(self, message: Message, number: int) -> Iterable[tuple[str, Message]]:
        """A map from names to messages."""
        seen = set()
        for entry in _each(message, number):
            name = entry.text(1)
            if name in seen:
                raise entry.damage(f"there are two entries {name!r}")
            seen.add(name)
            yield name, entry.message(2)

    # Types.

    def _type(self, data: memoryview, who: str, depth: int) -> ValueType:
        key = bytes(data) if len(data) <= 256 else b""
        if not key or key not in self._types:
            type = self._new_type(Message(data, who), depth)
            if not key:
                return type
            self._types[key] = type
        return self._types[key]

    def _new_type(self, message: Message, depth: int) -> ValueType:
        who = message.who
        if depth > _DEEPEST:
            raise CoreMLError(f"{who}: types are nested more than {_DEEPEST} deep.")
        if message.has(1):
            tensor = message.message(1)
            sizes = [self._size(entry) for entry in tensor.messages(3)]
            shape = None if any(size == -1 for size in sizes) else tuple(sizes)
            if shape is not None and tensor.signed(2) != len(shape):
                raise tensor.damage(f"a tensor of rank {tensor.signed(2)} has {len(shape)} sizes")
            return checked_tensor(self._element(tensor).name, shape, who)
        if message.has(2):
            inner = message.message(2)
            length = self._size(inner.message(2))
            return ListType(self._type(inner.data_of(1), who, depth + 1), None if length == -1 else length)
        if message.has(3):
            entries = message.message(3).fields.get(1, [])
            return TupleType(tuple(self._type(_bytes(entry, message), who, depth + 1) for entry in entries))
        if message.has(4):
            inner = message.message(4)
            return DictionaryType(
                self._type(inner.data_of(1), who, depth + 1), self._type(inner.data_of(2), who, depth + 1)
            )
        if message.has(5):
            return StateType(self._type(message.message(5).data_of(1), who, depth + 1))
        raise message.damage("a value has no type")

    def _element(self, tensor: Message) -> Element:
        number = tensor.integer(1)
        if number not in BY_NUMBER:
            raise tensor.damage(f"elements are of the unknown type {number}")
        return BY_NUMBER[number]

    def _size(self, message: Message) -> int | None:
        """A number, None if it is open, -1 if even the number of axes is."""
        if message.has(1):
            size = message.message(1).integer(1)
            if size >= 2**60:
                raise message.damage(f"no axis can have the size {size}")
            return size
        if message.has(2):
            return -1 if message.message(2).integer(1) else None
        raise message.damage("a size is neither known nor open")

    # Values.

    def value(self, message: Message, depth: int) -> Constant:
        if depth > _DEEPEST:
            raise CoreMLError(f"{message.who}: values are nested more than {_DEEPEST} deep.")
        type = self._type(message.data_of(2), message.who, depth)
        if message.has(5):
            blob = message.message(5)
            if not isinstance(type, TensorType):
                raise message.damage(f"weights have the type {type}, but can only be tensors")
            return self.weights.constant(type, blob.text(1), blob.integer(2), message.who)
        immediate = message.message(3)
        if isinstance(type, TensorType):
            if not immediate.has(1):
                raise message.damage(f"a constant of type {type} has no value")
            return _tensor(type, immediate.message(1))
        if isinstance(type, TupleType) and immediate.has(2):
            return self._sequence(type, immediate.message(2), len(type.entries), depth)
        if isinstance(type, ListType) and immediate.has(3):
            return self._sequence(type, immediate.message(3), type.length, depth)
        if isinstance(type, DictionaryType) and immediate.has(4):
            pairs = immediate.message(4).messages(1)
            return Constant(
                type,
                tuple((self.value(p.message(1), depth + 1), self.value(p.message(2), depth + 1)) for p in pairs),
            )
        raise message.damage(f"a constant of type {type} has a value of another kind, or none")

    def _sequence(self, type: ValueType, message: Message, length: int | None, depth: int) -> Constant:
        entries = tuple(self.value(entry, depth + 1) for entry in message.messages(1))
        if length is not None and length != len(entries):
            raise message.damage(f"a constant of type {type} has {len(entries)} entries")
        return Constant(type, entries)


def _each(message: Message, number: int) -> Iterator[Message]:
    """The messages of a field, one after the other, so that not all of them are in memory."""
    for value in message.fields.get(number, []):
        yield Message(_bytes(value, message), message.who)


def _bytes(value: int | memoryview, message: Message) -> memoryview:
    if isinstance(value, int):
        raise message.damage("a message is a number")
    return value


def _tensor(type: TensorType, message: Message) -> Constant:
    element, shape = ELEMENTS[type.element], type.shape
    sizes = tuple(n for n in shape or () if n is not None)
    if shape is None or len(sizes) < len(shape):
        raise message.damage(f"a constant has the type {type}, but its shape must be known")
    count = math.prod(sizes)
    fields = [number for number in range(1, 8) if message.has(number)]
    if len(fields) > 1 or (not fields and count):
        raise message.damage(f"a constant of type {type} has {len(fields)} kinds of values instead of one")
    if not fields:
        flat: Array = np.zeros(0, element.stored)
    elif element.name == "string":
        if fields != [_STRINGS]:
            raise message.damage(f"a constant of type {type} does not hold text")
        texts = message.message(_STRINGS).texts(1)
        if len(texts) != count:
            raise message.damage(f"a constant of type {type} has {len(texts)} texts")
        return Constant(type, texts[0] if not sizes else _objects(texts).reshape(sizes))
    elif fields == [_BYTES]:
        data = message.message(_BYTES).data_of(1)
        if len(data) != element.byte_count(count):
            raise message.damage(
                f"a constant of type {type} has {len(data)} bytes instead of {element.byte_count(count)}"
            )
        flat = np.frombuffer(data, element.stored)
        if element.packed:
            return Constant(type, flat)
    else:
        flat = _numbers(fields[0], message.message(fields[0]), element)
    if len(flat) != count:
        raise message.damage(f"a constant of type {type} has {len(flat)} values")
    # Numbers lie in a message as it happens, but native calls take those only that lie where C would put them.
    return Constant(type, np.require(flat, requirements="A").reshape(sizes))


def _objects(texts: list[str]) -> Array:
    objects = np.empty(len(texts), object)
    objects[:] = texts
    return objects


def _numbers(field: int, message: Message, element: Element) -> Array:
    """Repeated numbers of a field, if an element type can take them."""
    if (field, element.name) in ((_FLOATS, "fp32"), (_DOUBLES, "fp64")):
        pieces = [piece for piece in message.fields.get(1, []) if not isinstance(piece, int)]
        if any(len(piece) % (element.bits // 8) for piece in pieces):
            raise message.damage("field 1 does not hold floats")
        return np.frombuffer(pieces[0] if len(pieces) == 1 else b"".join(pieces), element.stored)
    fits = element.name == "bool" if field == _BOOLS else field in (_INTS, _LONG_INTS) and element.whole
    if not fits or element.packed:
        raise message.damage(f"a constant of {element.name} has values of another kind")
    values = message.integers(1) if element.name == "uint64" else message.signed_integers(1)
    limits = np.iinfo(np.uint8 if element.name == "bool" else element.stored)
    if values and (min(values) < limits.min or max(values) > limits.max):
        raise message.damage(f"a number is outside of {element.name}")
    return np.array(values, element.stored)


# Writing.

_OPSET_NUMBERS = {text: name for name, text in OPSETS.items()}
_LEAST_STORED = 10  # elements of what goes into the weight file, as in coremltools
_STORED_BEFORE_9 = ("fp16", "fp32", "int8", "uint8")


def write_program(program: Program, blobs: BlobWriter) -> bytes:
    """The message of a program; large constants go to the weight file."""
    return _Writer(blobs, program.dialect).program(program)


class _Writer:
    def __init__(self, blobs: BlobWriter, dialect: str) -> None:
        self.blobs, self.dialect = blobs, dialect

    def program(self, program: Program) -> bytes:
        functions = {name: self._function(function) for name, function in program.functions.items()}
        return encode([(1, 1), *_map(2, functions), *self._attributes(4, program.attributes)])

    def _function(self, function: Function) -> bytes:
        if function.opset not in _OPSET_NUMBERS:
            raise CoreMLError(
                f"function {function.name!r} is of the opset {function.opset!r}. Packages can have {', '.join(_OPSET_NUMBERS)}."
            )
        opset = _OPSET_NUMBERS[function.opset]
        fields: list[Field] = [*_ports(1, function.inputs), (2, opset), *_map(3, {opset: self._block(function.block)})]
        return encode([*fields, *self._attributes(4, function.attributes)])

    def _block(self, block: Block) -> bytes:
        fields: list[Field] = [*_ports(1, block.inputs), *((2, name) for name in block.outputs)]
        fields += [(3, self._operation(operation)) for operation in block.operations]
        return encode([*fields, *self._attributes(4, block.attributes)])

    def _operation(self, operation: Operation) -> bytes:
        if operation.opset is not None:
            raise CoreMLError(f"{operation} has an opset of its own, {operation.opset!r}, which only texts can say.")
        inputs = {
            name: encode((1, self._binding(a)) for a in arguments) for name, arguments in operation.inputs.items()
        }
        fields: list[Field] = [(1, operation.type), *_map(2, inputs), *_ports(3, operation.outputs)]
        fields += [(4, self._block(block)) for block in operation.blocks]
        return encode([*fields, *self._attributes(5, operation.attributes)])

    def _binding(self, argument: Argument) -> bytes:
        return encode([(1, argument) if isinstance(argument, str) else (2, self.value(argument))])

    def _attributes(self, number: int, attributes: Mapping[str, Constant]) -> list[Field]:
        return _map(number, {name: self.value(constant) for name, constant in attributes.items()})

    def value(self, constant: Constant) -> bytes:
        if stored_outside(constant, self.dialect):
            blob = encode([(1, FILE_NAME), (2, self.blobs.add(constant))])
            return encode([(2, _type(constant.type)), (5, blob)])
        type = constant.type
        if isinstance(type, TensorType):  # texts can leave sizes open, which the value then has
            type = TensorType(type.element, constant.shape)
        return encode([(2, _type(type)), (3, self._immediate(constant))])

    def _immediate(self, constant: Constant) -> bytes:
        if isinstance(constant.type, TensorType):
            return encode([(1, _tensor_value(constant))])
        if isinstance(constant.type, DictionaryType):
            pairs = [encode([(1, self.value(key)), (2, self.value(entry))]) for key, entry in constant.value]
            return encode([(4, encode((1, pair) for pair in pairs))])
        entries = encode((1, self.value(entry)) for entry in constant.value)
        return encode([(2 if isinstance(constant.type, TupleType) else 3, entries)])


def stored_outside(constant: Constant, dialect: str) -> bool:
    """Tensors that packages and compiled models keep in the weight file, by the rules of coremltools."""
    if not isinstance(constant.type, TensorType):
        return False
    element = ELEMENTS[constant.type.element]
    if element.blob is None or math.prod(constant.shape) < _LEAST_STORED:
        return False
    return dialect != "1.0" or element.name in _STORED_BEFORE_9


def _map(number: int, entries: Mapping[str, bytes]) -> list[Field]:
    return [(number, encode([(1, name), (2, entry)])) for name, entry in entries.items()]


def _ports(number: int, ports: list[NamedType]) -> list[Field]:
    return [(number, encode([(1, port.name), (2, _type(port.type))])) for port in ports]


def _type(type: ValueType) -> bytes:
    if isinstance(type, TensorType):
        sizes: list[Field] = [(3, _size(n)) for n in type.shape] if type.shape is not None else [(3, _size(-1))]
        return encode([(1, encode([(1, ELEMENTS[type.element].number), (2, len(sizes)), *sizes]))])
    if isinstance(type, ListType):
        return encode([(2, encode([(1, _type(type.entry)), (2, _size(type.length))]))])
    if isinstance(type, TupleType):
        return encode([(3, encode((1, _type(entry)) for entry in type.entries))])
    if isinstance(type, DictionaryType):
        return encode([(4, encode([(1, _type(type.key)), (2, _type(type.entry))]))])
    if isinstance(type, BufferType):
        raise CoreMLError(f"a value has the type {type}, which only texts can say.")
    return encode([(5, encode([(1, _type(type.wrapped))]))])


def _size(size: int | None) -> bytes:
    if size is None or size < 0:
        return encode([(2, encode([(1, True)]) if size is not None else b"")])
    return encode([(1, encode([(1, size)]))])


def _tensor_value(constant: Constant) -> bytes:
    assert isinstance(constant.type, TensorType)
    element, value = ELEMENTS[constant.type.element], constant.value
    if element.name == "string":
        texts = [value] if isinstance(value, str) else value.reshape(-1).tolist()
        return encode([(_STRINGS, encode((1, text) for text in texts))])
    if element.name in ("fp32", "fp64"):
        field, data = (_FLOATS if element.name == "fp32" else _DOUBLES), value.tobytes()
    elif element.name in ("bool", "int32", "int16", "uint16", "int64", "uint64"):
        field = _BOOLS if element.name == "bool" else _LONG_INTS if "64" in element.name else _INTS
        data = b"".join(varint(int(n)) for n in value.reshape(-1).tolist())
    else:
        field, data = _BYTES, value.tobytes()
    return encode([(field, encode([(1, data)] if data else []))])
