"""Operations of a network as operations of an ML program (MIL), one after the other."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np

from ....graph.graph import Graph, recording
from ....graph.operation import Operation as GraphOperation
from ....graph.parameter import Parameter
from ....graph.polynomials import Factor, Polynomial
from ....graph.sizes import AnySize, FreeSizes, Size, expression_of, sized
from ....graph.tensor import FLOAT32, Array, Tensor
from ...converted.recorded import Choice
from ...converted.tensors import ForeignTensor
from ..lowering import RECORDED, Call
from ..lowering.arguments import listed_results, settings
from ..operation_table import OPERATIONS
from ..operations import Reference, Scope, bind
from ..program import (
    Argument,
    Block,
    Constant,
    DictionaryType,
    Function,
    ListType,
    NamedType,
    Operation,
    Program,
    TensorType,
    ValueType,
    constant,
)  # fmt: skip

OPSET = "ios16"

_WRITERS: dict[type[GraphOperation], Callable[[ProgramBuilder, Any], None]] = {}
_KINDS = {"i": "int32", "b": "bool"}
_SHAPED_LIKE = {
    "scatter": "data",
    "scatter_along_axis": "data",
}  # operations that cannot be recorded: the input that has the shape of the result
_FLOAT32 = {"lstm"}  # operations that take no half precision before iOS 17
_HALF = float(np.finfo(np.float16).max), 2.0**-24  # the largest and the smallest number above 0

_Writer = TypeVar("_Writer", bound=Callable[..., None])


class Refused(Exception):
    """The reason why an operation cannot be part of an ML program."""


def writes(kind: type[GraphOperation]) -> Callable[[_Writer], _Writer]:
    """A decorator that registers a function as the writer of operations of this kind."""

    def decorate(function: _Writer) -> _Writer:
        _WRITERS[kind] = function
        return function

    return decorate


class Var:
    """A value of the program. Its type follows from ``tensor``, which is recorded as the reader of programs records it."""

    def __init__(self, name: str, tensor: ForeignTensor, array: Array | None = None) -> None:
        self.name, self.tensor = name, tensor
        self.array = array  # of a weight

    @property
    def rank(self) -> int:
        return self.tensor.rank

    @property
    def shape(self) -> tuple[int | None, ...]:
        return tuple(None if isinstance(n, Size) else int(n) for n in self.tensor.shape)


Value = Any
"""A value of the program (:class:`Var`), or an array, number, text or list, which becomes a constant."""


class ProgramBuilder:
    """An ML program in the making. Calling it adds an operation: ``build("relu", x=x)``.

    ``free`` says what the program has in place of the free sizes of a network: names, or numbers; ``numbers`` are examples of
    those with names. Floats are of the type ``element``. ``weights`` are the names of parameters, by identity.
    """

    def __init__(
        self, free: Mapping[str, str | int], numbers: Mapping[str, int], element: str, weights: Mapping[int, str]
    ) -> None:
        self._free, self.element, self._weights = free, element, weights
        self._graph = Graph(np.random.RandomState(0), sizes=FreeSizes(numbers))
        self.made: list[str] = []  # kinds of operations that the present step has become
        self._axes: dict[str, tuple[Var, int]] = {}  # the input and the axis that have a free size
        self._vars: dict[int, Value] = {}
        self._held_weights: dict[tuple[int, tuple[int, ...]], Var] = {}
        self._held: list[Any] = []  # whose identities must stay theirs
        self._name = "layer"
        self._taken: set[str] = set()
        self._scope = Scope(OPSET)
        self._inputs: list[NamedType] = []
        self._operations: list[Operation] = []
        self._outermost = self._operations  # where constants stand, for all blocks to see
        self._tensors: dict[str, ForeignTensor] = {}

    # Inputs, operations and constants.

    def input(self, name: str, value: Tensor) -> Var:
        """An input of the program, which stands for one of the network."""
        free = self._graph.sizes
        shape = [sized(free, expression_of(n).replaced(self._free)) for n in value.shape]
        with recording(self._graph):
            tensor = ForeignTensor(self._graph.input(shape, value.dtype), "f" if value.dtype == FLOAT32 else "i")
        var = self._defined(self.unique(name), tensor, "fp32")
        self._inputs.append(NamedType(var.name, self._scope.types[var.name]))
        return var

    def name_next(self, wish: str) -> None:
        """Set the prefix of the names of the next operations."""
        plain = "_".join(re.findall(r"\w+", wish, flags=re.ASCII)).strip("_") or "layer"
        self._name = f"layer_{plain}" if plain[0].isdigit() else plain
        self.made = []

    def __call__(self, kind: str, *, called: str | None = None, outputs: int = 1, **arguments: Value) -> Any:
        """Add an operation and give its result, or a tuple of them; unless ``called``, it has the name of the present step."""
        if kind in _FLOAT32 and self.element != "fp32":
            return self._in_float32(kind, arguments)
        return self._added(kind, called, outputs, arguments, self.element)

    def _in_float32(self, kind: str, arguments: dict[str, Value]) -> Any:
        """Add an operation that takes and gives float32 only, between casts."""
        wide = {
            key: self._added("cast", None, 1, {"x": held, "dtype": "fp32"}, "fp32") if isinstance(held, Var) else held
            for key, held in arguments.items()
        }
        made = self._added(kind, None, 1, wide, "fp32")
        results = made if isinstance(made, tuple) else (made,)
        narrow = tuple(self.floats(var) for var in results)
        return narrow if isinstance(made, tuple) else narrow[0]

    def _added(self, kind: str, called: str | None, outputs: int, arguments: dict[str, Value], element: str) -> Any:
        self.made.append(kind)
        name = self.unique(called or f"{self._name}_{kind}")
        rules = {rule.name: rule for rule in OPERATIONS[kind].inputs(OPSET)}
        inputs = {
            key: tuple(
                self._argument(one, f"{name}_{key}", element if element in rules[key].types else "fp32")
                for one in (held if rules[key].several else [held])
            )
            for key, held in arguments.items()
        }
        operation = Operation(kind, inputs, [], attributes={"name": constant(name)})
        bound = bind(operation, self._scope)
        if kind in _SHAPED_LIKE:
            held = arguments[_SHAPED_LIKE[kind]]
            results = [held.tensor if isinstance(held, Var) else ForeignTensor(held)]
        else:
            tensors = {key: self._recorded(held) for key, held in bound.items()}
            with recording(self._graph):
                results = listed_results(RECORDED[kind](Call(kind, OPSET, outputs), **settings(rules, tensors)))
        element = str(arguments["dtype"]) if kind == "cast" else element
        names = [name] if len(results) == 1 else [self.unique(f"{name}_{i}") for i in range(len(results))]
        made = [self._defined(each, tensor, element) for each, tensor in zip(names, results, strict=True)]
        operation.outputs = [NamedType(var.name, self._scope.types[var.name]) for var in made]
        self._operations.append(operation)
        return made[0] if len(made) == 1 else tuple(made)

    def _recorded(self, held: Any) -> Any:
        if isinstance(held, tuple):
            return [self._recorded(one) for one in held]
        return self._tensors[held.name] if isinstance(held, Reference) else held

    def _defined(self, name: str, tensor: ForeignTensor, element: str) -> Var:
        """A value that the program computes from here on; ``element`` is its type if it is one of floats."""
        var = Var(name, tensor)
        self._tensors[name] = tensor
        self._scope.define([NamedType(name, TensorType(_KINDS.get(tensor.kind, element), var.shape))])
        return var

    def _argument(self, value: Value, name: str, element: str) -> Argument:
        return value.name if isinstance(value, Var) else self._constant(value, self.unique(name), element)

    def _constant(self, value: Value, name: str, element: str) -> str:
        """Add a constant; ``element`` is its type if it is one of floats."""
        held = _as_constant(value, element)
        operation = Operation(
            "const", {}, [NamedType(name, held.type)], attributes={"name": constant(name), "val": held}
        )
        self._outermost.append(operation)
        self._scope.add(operation)
        return name

    def weight(self, parameter: Parameter | Tensor | None, shape: Sequence[int] | None = None) -> Any:
        """A parameter as a constant of its name; None stays None."""
        if isinstance(parameter, Tensor):
            raise Refused(
                "its weights are computed, but Core ML takes numbers that stay as they are. Compute them before"
            )
        if parameter is None:
            return None
        array = parameter.data if shape is None else parameter.data.reshape(tuple(shape))
        key = id(parameter), array.shape
        if key not in self._held_weights:
            self._held.append(parameter)
            name = self._constant(
                array, self.unique(self._weights.get(id(parameter), f"{self._name}_weight")), self.element
            )
            self._held_weights[key] = Var(name, ForeignTensor(array), array)
        return self._held_weights[key]

    def loop(
        self, unfinished: Callable[..., Var], step: Callable[..., Sequence[Var]], variables: Sequence[Value]
    ) -> tuple[Var, ...]:
        """Repeat a step on variables for as long as ``unfinished`` of them is true; gives the last ones."""
        name = self.unique(f"{self._name}_while_loop")
        given = [v if isinstance(v, Var) else self("identity", x=v) for v in variables]
        types: list[ValueType] = [self._scope.types[var.name] for var in given]
        blocks = []
        for function in (unfinished, step):
            inside = [self._variable(var, f"{name}_{i}") for i, var in enumerate(given)]
            ports = [NamedType(var.name, type) for var, type in zip(inside, types, strict=True)]
            blocks.append(self._block(ports, partial(function, *inside))[0])
        made = [self._variable(var, f"{name}_result_{i}") for i, var in enumerate(given)]
        outputs = [NamedType(var.name, type) for var, type in zip(made, types, strict=True)]
        inputs: dict[str, tuple[Argument, ...]] = {"loop_vars": tuple(var.name for var in given)}
        self._operations.append(Operation("while_loop", inputs, outputs, blocks, {"name": constant(name)}))
        return tuple(made)

    def branch(
        self, chosen: Value, first: Callable[[], Sequence[Var]], second: Callable[[], Sequence[Var]]
    ) -> tuple[Var, ...]:
        """The results of the first function where a boolean is true, else those of the second."""
        name = self.unique(f"{self._name}_cond")
        blocks, results = zip(*(self._block([], function) for function in (first, second)), strict=True)
        made = [self._variable(var, f"{name}_result_{i}") for i, var in enumerate(results[0])]
        outputs = [NamedType(var.name, self._scope.types[var.name]) for var in made]
        self._operations.append(
            Operation("cond", {"pred": (chosen.name,)}, outputs, list(blocks), {"name": constant(name)})
        )
        self.made.append("cond")
        return tuple(made)

    def _block(
        self, ports: list[NamedType], function: Callable[[], Var | Sequence[Var]]
    ) -> tuple[Block, Sequence[Var]]:
        """The operations that a function adds as a block, and its results. Later operations cannot use what it computes."""
        around, known, self._operations = self._operations, dict(self._vars), []
        results = function()
        results = [results] if isinstance(results, Var) else results
        block = Block(ports, self._operations, [var.name for var in results])
        self._operations, self._vars = around, known
        return block, results

    def _variable(self, like: Var, name: str) -> Var:
        """A new value of the type of another one."""
        dtype = np.dtype(np.float32) if like.tensor.kind == "f" else np.dtype(np.int64)
        with recording(self._graph):
            tensor = ForeignTensor(self._graph.input(like.tensor.shape, dtype), like.tensor.kind)
        return self._defined(self.unique(name), tensor, self.element)

    def reserve(self, *names: str) -> None:
        """Keep names of outputs from being given to anything else."""
        self._taken.update(names)

    def classify(self, probabilities: Var, choice: Choice) -> list[str]:
        """The label and the probabilities by label as the last operation; gives the names of both."""
        is_text = all(isinstance(entry, str) for entry in choice.classes)
        key = TensorType("string" if is_text else "int64", ())
        ports = [
            NamedType(choice.label, key),
            NamedType(choice.probabilities, DictionaryType(key, TensorType("fp64", ()))),
        ]
        listed = tuple(Constant(key, entry if is_text else np.asarray(entry, np.int64)) for entry in choice.classes)
        inputs: dict[str, tuple[Argument, ...]] = {
            "probabilities": (probabilities.name,),
            "classes": (Constant(ListType(key, len(listed)), listed),),
        }
        self._operations.append(Operation("classify", inputs, ports, attributes={"name": constant("classify")}))
        return [port.name for port in ports]

    def program(self, outputs: list[str]) -> Program:
        """The program that gives values of these names."""
        return Program({"main": Function("main", self._inputs, OPSET, Block([], self._operations, outputs))}, "1.0")

    def unique(self, wish: str) -> str:
        """A new name."""
        plain = wish if _NAME.fullmatch(wish) else "_".join(re.findall(r"\w+", wish, flags=re.ASCII)) or "value"
        plain = plain if _NAME.fullmatch(plain) else f"_{plain}"
        name, number = plain, 2
        while name in self._taken:
            name, number = f"{plain}_{number}", number + 1
        self._taken.add(name)
        return name

    # Values of the network.

    def set(self, value: Tensor, var: Value) -> None:
        """Let something stand for a value of the network."""
        self._vars[id(value)] = var
        self._held.append(value)

    def begin(self, value: Tensor, given: Var, prepared: Var) -> None:
        """Let an input of the program, prepared, stand for an input of the network."""
        self.set(value, prepared)
        for axis, size in enumerate(value.shape):
            known = self.size(size)
            if not isinstance(known, int):
                self._axes.setdefault(str(known), (given, axis))

    def get(self, value: Tensor) -> Value:
        """The counterpart of a value, in its shape."""
        if id(value) not in self._vars:
            leaf = value.leaf
            if isinstance(leaf, Size):
                number = self.size(leaf)
                scalar = np.float32(number) if isinstance(number, int) else self.floats(self._count(number))
                self.set(value, scalar)
            elif isinstance(leaf, Parameter):
                self.set(value, self.weight(leaf))
            elif leaf is not None:
                self.set(value, np.ascontiguousarray(leaf).astype(np.float32 if value.dtype == FLOAT32 else np.int32))
            elif value.source is not None:
                self.set(value, self.reshaped(self.get(value.storage), value.shape))
            else:
                raise Refused("it reads a value that nothing computes")
        return self._vars[id(value)]

    def computed(self, value: Tensor) -> Any:
        """The counterpart of a value as one that is computed: operations do not begin with constants."""
        var = self.get(value)
        return var if array_of(var) is None else self("identity", x=var)

    def floats(self, x: Value) -> Value:
        """Whole numbers or booleans as floats."""
        return self("cast", x=x, dtype=self.element)

    # Sizes.

    def size(self, size: AnySize) -> int | Polynomial:
        """A size as the program has it: a number, or an expression in flexible sizes."""
        expression = expression_of(size).replaced(self._free)
        number = expression.constant
        return expression if number is None else number

    def numbers(self, shape: Sequence[AnySize], why: str) -> tuple[int, ...]:
        """Sizes that have to be numbers."""
        known = [self.size(n) for n in shape]
        if not all(isinstance(n, int) for n in known):
            raise Refused(f"{why}, but here they are flexible. Pass batch_size, or build the network for one size")
        return tuple(known)  # type: ignore[arg-type]

    def sizes(self, shape: Sequence[AnySize]) -> Any:
        """Sizes as a list of numbers, or as a value of the program."""
        known = [self.size(n) for n in shape]
        if all(isinstance(n, int) for n in known):
            return known
        parts = [np.array([n], np.int32) if isinstance(n, int) else self._vector(n) for n in known]
        return self("concat", values=parts, axis=0, interleave=False)

    def _vector(self, expression: Polynomial) -> Value:
        return self("expand_dims", x=self._count(expression), axes=[0])

    def reshaped(self, x: Value, shape: Sequence[AnySize]) -> Value:
        known = [self.size(n) for n in shape]
        plain = [n if isinstance(n, int) else -1 for n in known]
        if isinstance(x, np.ndarray):
            return x.reshape(plain)
        if isinstance(x, Var) and -1 not in plain and x.shape == tuple(plain):
            return x
        if not plain:
            return self("squeeze", x=x)
        return self("reshape", x=x, shape=plain if plain.count(-1) < 2 and 0 not in plain else self.sizes(shape))

    def _count(self, expression: Polynomial) -> Value:
        """An expression in flexible sizes as a number of the program."""
        total: Any = None
        for factors, number in expression.terms:
            term: Any = np.int32(number)
            for factor in factors:
                variable = self._factor(factor)
                term = variable if isinstance(term, np.int32) and term == 1 else self("mul", x=variable, y=term)
            total = term if total is None else self("add", x=term if factors else total, y=total if factors else term)
        return total

    def _factor(self, factor: Factor) -> Value:
        if isinstance(factor, str):
            x, axis = self._axes[factor]
            sizes = self("shape", x=x)
            return self("slice_by_index", x=sizes, begin=[axis], end=[axis + 1], squeeze_mask=[True])
        dividend, divisor = (
            np.int32(part.constant) if part.constant is not None else self._count(part)
            for part in (factor.dividend, factor.divisor)
        )
        return self("floor_div", x=dividend, y=divisor)

    def write(self, operation: GraphOperation) -> None:
        """Append an operation of a network."""
        parts = operation.taken_apart()
        if parts != [operation]:
            for part in parts:
                self.write(part)
            return
        writer = next((_WRITERS[kind] for kind in type(operation).__mro__ if kind in _WRITERS), None)
        if writer is None:
            kind = type(operation).__name__
            raise Refused(f"there is no such operation in Core ML, or none that this package writes ({kind})")
        writer(self, operation)


def rank_of(x: Value) -> int:
    """The number of axes of a value."""
    return x.rank if isinstance(x, Var) else int(np.ndim(x))


def array_of(x: Value) -> Array | None:
    """The numbers of a constant; None for a value that is computed."""
    return x.array if isinstance(x, Var) else np.asarray(x)


def _as_constant(value: Any, element: str) -> Constant:
    if isinstance(value, str):
        return constant(value)
    array = np.asarray(value, np.int32) if isinstance(value, list) and not value else np.asarray(value)
    if array.dtype.kind == "f":
        return constant(_as_half(array) if element == "fp16" else array.astype(np.float32), element)
    return constant(array.astype(np.int32) if array.dtype.kind in "iu" and array.dtype != np.uint32 else array)


def _as_half(array: Array) -> Array:
    """Numbers in half precision. Finite ones stay finite; a single one, such as an epsilon, becomes 0 only if it is 0."""
    most, least = _HALF
    finite = np.where(np.isfinite(array), np.clip(array, -most, most), array)
    half = finite.astype(np.float16)
    if not half.ndim and half == 0 and array != 0:
        half = np.copysign(np.float16(least), array).astype(np.float16)
    return half


_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
