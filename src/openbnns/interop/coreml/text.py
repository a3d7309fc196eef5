"""ML programs as text (``model.mil``), in both dialects: ``program(1.0)`` writes scalars as ``tensor<string, []>("x")``,
``program(1.3)`` as ``string("x")``. Every error names line and column.

::

    program   = "program" "(" version ")" [attributes] "{" { function } "}"
    attributes= "[" [ name "=" typed { "," name "=" typed } ] "]"
    function  = "func" name "<" opset ">" "(" ports ")" [attributes] block ";"
    block     = "{" { operation } "}" "->" "(" [ name { "," name } ] ")"
    operation = [ ports "=" ] type ["<" opset ">"] "(" [ name "=" argument { "," ... } ] ")" [attributes] { inner } ";"
    inner     = [ "(" ports ")" ] block
    argument  = name | typed | "(" [ argument { "," argument } ] ")"
    typed     = type "(" literal ")"

Texts with inner blocks (of cond and while_loop) that Apple's tools wrote have not been seen; the form above is our own.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from ..._plural import plural
from .blobs import Weights
from .elements import ELEMENTS, Array, Element, packed
from .errors import CoreMLError
from .program import (
    Argument,
    Block,
    BufferType,
    Constant,
    DictionaryType,
    Function,
    ListType,
    NamedType,
    Operation,
    Place,
    Program,
    StateType,
    TensorType,
    TupleType,
    ValueType,
    checked_tensor,
)

_DEEPEST = 32
_NAME = r"[^\W\d]\w*"
_TOKEN = re.compile(
    rf'(?:\s|//[^\n]*)*(?:(?P<name>{_NAME})|(?P<text>"(?:[^"\\\n]|\\.)*")|'
    r"(?P<number>[-+]?(?:0[xX][0-9a-fA-F]*\.?[0-9a-fA-F]*(?:[pP][-+]?\d+)?|\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|inf\b|nan\b))|"
    r"(?P<mark>->|\.\.\.|[()\[\]{}<>,;=?])|(?P<end>\Z)|(?P<other>.))",
    re.DOTALL,
)
NAME = re.compile(_NAME)
_WHOLE = re.compile(r"[-+]?\d+")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}
_UNUSUAL = {"inf", "nan", "infinity"}

_T = TypeVar("_T")


def parse(text: str, weights: Weights | None = None, name: str = "model.mil") -> Program:
    """The program of a text. ``name`` is the file in messages; ``weights`` are needed if it refers to weight files."""
    program = _Parser(text, weights, name).program()
    program.check(name)
    return program


class _Parser:
    def __init__(self, text: str, weights: Weights | None, name: str) -> None:
        self.source, self.weights, self.file = text, weights, name
        self._match = _TOKEN.match
        self._lines = (0, 1)  # a place of the text, and its line
        self.kind, self.word, self.start, self.end = "", "", 0, 0
        self._advance()

    # Tokens.

    def _advance(self) -> None:
        match = self._match(self.source, self.end)
        assert match is not None and match.lastgroup is not None
        self.kind = match.lastgroup
        self.word = match[self.kind]
        self.start, self.end = match.start(self.kind), match.end()

    def place(self, start: int | None = None) -> Place:
        at = self.start if start is None else start
        before, line = self._lines
        if at < before:
            before, line = 0, 1
        line += self.source.count("\n", before, at)
        self._lines = (at, line)
        return Place(self.file, line, at - self.source.rfind("\n", 0, at))

    def error(self, what: str, start: int | None = None) -> CoreMLError:
        place = self.place(start)
        return CoreMLError(f"{place}: {what}.", place)

    def _shown(self) -> str:
        if self.kind == "end":
            return "the end of the text"
        return repr(self.word if len(self.word) < 40 else f"{self.word[:36]}...")

    def _expect(self, mark: str) -> None:
        if self.word != mark or self.kind not in ("mark", "name"):
            raise self.error(f"expected {mark!r}, got {self._shown()}")
        self._advance()

    def _accept(self, mark: str) -> bool:
        if self.kind == "mark" and self.word == mark:
            self._advance()
            return True
        return False

    def _name(self, what: str) -> str:
        if self.kind != "name":
            raise self.error(f"expected {what}, got {self._shown()}")
        word = self.word
        self._advance()
        return word

    def _list(self, entry: Callable[[], _T], close: str) -> list[_T]:
        """Entries with commas between them, up to and with a closing mark."""
        entries: list[_T] = []
        if self._accept(close):
            return entries
        while True:
            entries.append(entry())
            if self._accept(close):
                return entries
            if not self._accept(","):
                raise self.error(f"expected ',' or {close!r}, got {self._shown()}")

    # Programs.

    def program(self) -> Program:
        if self.kind != "name" or self.word != "program":
            raise self.error(f"expected 'program', got {self._shown()}. The file is not an ML program in text form")
        self._advance()
        self._expect("(")
        version = self.word
        if self.kind != "number" or not re.fullmatch(r"\d+(\.\d+)?", version):
            raise self.error(f"expected a version such as 1.3, got {self._shown()}")
        self._advance()
        self._expect(")")
        attributes = self._attributes()
        self._expect("{")
        functions: dict[str, Function] = {}
        while not self._accept("}"):
            start = self.start
            function = self._function()
            if function.name in functions:
                raise self.error(f"two functions have the name {function.name!r}", start)
            functions[function.name] = function
        if self.kind != "end":
            raise self.error(f"expected the end of the text, got {self._shown()}")
        return Program(functions, version, attributes)

    def _function(self) -> Function:
        place = self.place()
        self._expect("func")
        name = self._name("the name of a function")
        self._expect("<")
        opset = self._name("an opset")
        self._expect(">")
        self._expect("(")
        inputs = self._list(self._port, ")")
        attributes = self._attributes()
        block = self._block([], 0)
        self._expect(";")
        return Function(name, inputs, opset, block, attributes, place)

    def _port(self) -> NamedType:
        return NamedType(type=self._type(0), name=self._name("a name"))

    def _attributes(self) -> dict[str, Constant]:
        attributes: dict[str, Constant] = {}
        if not self._accept("["):
            return attributes
        for name, start, constant in self._list(self._attribute, "]"):
            if name in attributes:
                raise self.error(f"there are two attributes {name!r}", start)
            attributes[name] = constant
        return attributes

    def _attribute(self) -> tuple[str, int, Constant]:
        start = self.start
        name = self._name("the name of an attribute")
        self._expect("=")
        return name, start, self._typed()

    def _block(self, inputs: list[NamedType], depth: int) -> Block:
        if depth > _DEEPEST:
            raise self.error(f"blocks are nested more than {_DEEPEST} deep")
        self._expect("{")
        operations = []
        while not self._accept("}"):
            operations.append(self._operation(depth))
        self._expect("->")
        place = self.place()
        self._expect("(")
        outputs = self._list(lambda: self._name("the name of an output"), ")")
        return Block(inputs, operations, outputs, place=place)

    def _operation(self, depth: int) -> Operation:
        place = self.place()
        outputs: list[NamedType] = []
        if self.kind == "end":
            raise self.error("the text ends inside of a block")
        kind = self._name("an operation") if self._is_operation() else ""
        if not kind:
            outputs.append(self._port())
            while self._accept(","):
                outputs.append(self._port())
            self._expect("=")
            kind = self._name("an operation")
        opset = None
        if self._accept("<"):
            opset = self._name("an opset")
            self._expect(">")
        self._expect("(")
        inputs: dict[str, tuple[Argument, ...]] = {}
        for name, start, arguments in self._list(self._input, ")"):
            if name in inputs:
                raise self.error(f"there are two inputs {name!r}", start)
            inputs[name] = arguments
        attributes = self._attributes()
        blocks: list[Block] = []
        while not self._accept(";"):
            if self.kind != "mark" or self.word not in "({":
                raise self.error(f"expected ';', got {self._shown()}")
            ports = self._list(self._port, ")") if self._accept("(") else []
            blocks.append(self._block(ports, depth + 1))
        return Operation(kind, inputs, outputs, blocks, attributes, opset, place)

    def _is_operation(self) -> bool:
        """True if an operation without outputs comes: a name and a parenthesis."""
        if self.kind != "name":
            return False
        following = self._match(self.source, self.end)
        if following is None or following["mark"] is None:
            return False
        return following["mark"] == "(" or (following["mark"] == "<" and self.word not in _GENERIC)

    def _input(self) -> tuple[str, int, tuple[Argument, ...]]:
        start = self.start
        name = self._name("the name of an input")
        self._expect("=")
        if self._accept("("):
            return name, start, tuple(self._list(self._argument, ")"))
        return name, start, (self._argument(),)

    def _argument(self) -> Argument:
        following = self._match(self.source, self.end)
        if self.kind == "name" and following is not None and following["mark"] in ("<", "("):
            return self._typed()
        return self._name("a name or a constant")

    # Types.

    def _type(self, depth: int) -> ValueType:
        if depth > _DEEPEST:
            raise self.error(f"types are nested more than {_DEEPEST} deep")
        start = self.start
        word = self._name("a type")
        if word in ELEMENTS:
            return TensorType(word, ())
        if word not in _GENERIC:
            raise self.error(f"{word!r} is not a type", start)
        self._expect("<")
        type: ValueType
        if word == "tensor":
            element = self._element()
            self._expect(",")
            self._expect("[")
            if self._accept("..."):
                self._expect("]")
                type = TensorType(element, None)
            else:
                type = checked_tensor(element, tuple(self._list(self._size, "]")), str(self.place(start)))
        elif word == "tensor_buffer":
            element, lists = self._element(), []
            for key in ("shape", "strides", "interleave_factors"):
                self._expect(",")
                self._expect(key)
                self._expect("=")
                self._expect("[")
                lists.append(tuple(self._list(self._size, "]")))
            type = BufferType(element, *lists)
        elif word == "list":
            entry = self._type(depth + 1)
            self._expect(",")
            type = ListType(entry, self._size())
        elif word == "tuple":
            return TupleType(tuple(self._list(lambda: self._type(depth + 1), ">")))
        elif word == "dict":
            key_type = self._type(depth + 1)
            self._expect(",")
            type = DictionaryType(key_type, self._type(depth + 1))
        else:
            type = StateType(self._type(depth + 1))
        self._expect(">")
        return type

    def _element(self) -> str:
        start = self.start
        word = self._name("an element type")
        if word not in ELEMENTS:
            raise self.error(f"{word!r} is not an element type. Known are {', '.join(ELEMENTS)}", start)
        return word

    def _size(self) -> int | None:
        if self._accept("?"):
            return None
        word = self.word
        if self.kind != "number" or not word.isascii() or not word.isdigit() or len(word) > 18:
            raise self.error(f"expected a size, got {self._shown()}")
        self._advance()
        return int(word)

    # Values.

    def _typed(self) -> Constant:
        type = self._type(0)
        self._expect("(")
        start = self.start
        if self.kind == "name" and self.word == "BLOBFILE":
            self._advance()
            constant = self._blob(type, start)
        else:
            constant = self._literal(type, 0)
            if isinstance(type, TensorType) and None in (type.shape or ()):  # the value says what the type leaves open
                constant = Constant(TensorType(type.element, constant.shape), constant.value)
        self._expect(")")
        return constant

    def _blob(self, type: ValueType, start: int) -> Constant:
        self._expect("(")
        held = {name: constant for name, _, constant in self._list(self._attribute, ")")}
        path, offset = held.get("path"), held.get("offset")
        if (
            path is None
            or offset is None
            or not isinstance(path.value, str)
            or not isinstance(offset.value, np.ndarray)
        ):
            raise self.error("BLOBFILE needs path = string(...) and offset = uint64(...)", start)
        if (
            not isinstance(type, TensorType)
            or offset.value.shape
            or offset.value.dtype.kind not in "iu"
            or int(offset.value) < 0
        ):
            raise self.error("BLOBFILE needs the type of a tensor and a whole number as offset", start)
        if self.weights is None:
            raise self.error(f"the weights are in {path.value!r}. Read the file, or give parse its Weights", start)
        return self.weights.constant(type, path.value, int(offset.value), str(self.place(start)))

    def _literal(self, type: ValueType, depth: int) -> Constant:
        if depth > _DEEPEST:
            raise self.error(f"values are nested more than {_DEEPEST} deep")
        if isinstance(type, TensorType):
            return self._tensor(type)
        start = self.start
        if isinstance(type, DictionaryType):
            self._expect("{")
            return Constant(type, tuple(self._list(lambda: self._pair(type, depth), "}")))
        if isinstance(type, ListType):
            close = self._opened("[", "(")
            entries = self._list(lambda: self._literal(type.entry, depth + 1), close)
            if type.length is not None and type.length != len(entries):
                raise self.error(f"{type} has {len(entries)} entries", start)
            return Constant(type, tuple(entries))
        if isinstance(type, TupleType):
            self._expect("(")
            literals: list[Constant] = []
            for i, entry in enumerate(type.entries):
                if i:
                    self._expect(",")
                literals.append(self._literal(entry, depth + 1))
            self._expect(")")
            return Constant(type, tuple(literals))
        raise self.error(f"no constant can have the type {type}")

    def _opened(self, *marks: str) -> str:
        """The closing mark that belongs to the opening one that stands here."""
        if self.kind != "mark" or self.word not in marks:
            raise self.error(f"expected {' or '.join(map(repr, marks))}, got {self._shown()}")
        close = {"[": "]", "(": ")"}[self.word]
        self._advance()
        return close

    def _pair(self, type: DictionaryType, depth: int) -> tuple[Constant, Constant]:
        self._expect("{")
        key = self._literal(type.key, depth + 1)
        self._expect(",")
        entry = self._literal(type.entry, depth + 1)
        self._expect("}")
        return key, entry

    def _tensor(self, type: TensorType) -> Constant:
        start, element = self.start, ELEMENTS[type.element]
        if type.shape is None:
            raise self.error(f"no constant can have the type {type}")
        if type.shape == ():
            values = [self._number(element)]
            shape: tuple[int, ...] = ()
        else:
            values, sizes = [], list(type.shape)
            self._nested(element, sizes, 0, values)
            shape = tuple(0 if n is None else n for n in sizes)
        if element.name == "string":
            return Constant(type, values[0] if not shape and type.shape == () else _objects(values, shape))
        array = self._array(element, values, start).reshape(-1 if element.packed else shape)
        return Constant(TensorType(type.element, shape) if element.packed else type, array)

    def _nested(self, element: Element, sizes: list[int | None], axis: int, values: list[Any]) -> None:
        """Brackets inside of brackets; a size that the type leaves open is that of the first of them."""
        start, count = self.start, 0
        self._expect("[")
        wanted = sizes[axis]
        if not self._accept("]"):
            while True:
                if wanted is not None and count == wanted:
                    raise self.error(f"axis {axis} has more than {plural(wanted, 'entry')}")
                if axis + 1 < len(sizes):
                    self._nested(element, sizes, axis + 1, values)
                else:
                    values.append(self._number(element))
                count += 1
                if self._accept("]"):
                    break
                self._expect(",")
        if wanted is None:
            sizes[axis] = count
        elif count != wanted:
            raise self.error(f"axis {axis} has {plural(count, 'entry')} instead of {wanted}", start)

    def _number(self, element: Element) -> Any:
        word, kind = self.word, self.kind
        name = element.name
        if name == "string":
            if kind != "text":
                raise self.error(f"expected text in quotes, got {self._shown()}")
            self._advance()
            return _ESCAPED.sub(_unescaped, word[1:-1]) if "\\" in word else word[1:-1]
        if name == "bool":
            if word not in ("true", "false"):
                raise self.error(f"expected true or false, got {self._shown()}")
            self._advance()
            return word == "true"
        if element.whole:
            if kind != "number" or not _WHOLE.fullmatch(word) or len(word) > 20:
                raise self.error(f"expected a whole number, got {self._shown()}")
            value = int(word)
            low, high = _limits(element)
            if not low <= value <= high:
                raise self.error(f"{value} is outside of {name}, which goes from {low} to {high}")
            self._advance()
            return value
        if kind not in ("number", "name") or (kind == "name" and word.lower() not in _UNUSUAL):
            raise self.error(f"expected a number, got {self._shown()}")
        try:
            number = float.fromhex(word) if "x" in word or "X" in word else float(word)
        except (ValueError, OverflowError):
            raise self.error(f"expected a number, got {self._shown()}") from None
        self._advance()
        return number

    def _array(self, element: Element, values: list[Any], start: int) -> Array:
        if element.packed:
            return packed(np.array(values, np.int16) & 255, element.bits)
        if element.stored == element.numpy:
            if element.numpy.kind != "f":
                return np.array(values, element.stored)
            wide = np.array(values, np.float64)
            with np.errstate(over="ignore"):
                array = wide.astype(element.stored)
            if bool((np.isinf(array) & np.isfinite(wide)).any()):
                raise self.error(f"a number is outside of {element.name}", start)
            return array
        if element.name == "bf16":
            bits = np.array(values, np.float32).view(np.uint32)
            return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(element.stored)
        raise self.error(f"constants of {element.name} are read from weight files only", start)


_GENERIC = ("tensor", "tensor_buffer", "list", "tuple", "dict", "state")


_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def _unescaped(match: re.Match[str]) -> str:
    return _ESCAPES.get(match[1], match[1])


def _limits(element: Element) -> tuple[int, int]:
    if element.name == "int4":
        return -8, 7
    if element.packed:
        return 0, 2**element.bits - 1
    return int(np.iinfo(element.stored).min), int(np.iinfo(element.stored).max)


def _objects(values: list[Any], shape: tuple[int, ...]) -> Array:
    objects = np.empty(math.prod(shape), object)
    objects[:] = values
    return objects.reshape(shape)
