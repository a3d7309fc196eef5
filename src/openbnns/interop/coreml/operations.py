"""Operations with all their inputs: constants in place of their names, defaults for what is left out, types checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ..._spelling import did_you_mean
from .elements import ELEMENTS
from .errors import CoreMLError
from .operation_rules import AllAxes, Counted, Input, OperationKind, PerAxis, Zeros
from .operation_table import OPERATIONS
from .program import (
    Argument,
    Block,
    Constant,
    Function,
    NamedType,
    Operation,
    StateType,
    TensorType,
    ValueType,
    constant,
)


@dataclass(frozen=True)
class Reference:
    """A value that is computed; ``from_constants``: by a constexpr operation, so that it is the same in every run."""

    name: str
    type: ValueType
    from_constants: bool = False


Bound = Constant | Reference | None
"""The value of an input; None if it is left out and has no default."""


@dataclass
class Scope:
    """The values that operations can read: types by name, and those that are constants."""

    opset: str
    types: dict[str, ValueType] = field(default_factory=dict)
    constants: dict[str, Constant] = field(default_factory=dict)
    from_constants: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, function: Function) -> Scope:
        """The scope at the beginning of a function."""
        scope = cls(function.opset)
        scope.define(function.inputs)
        return scope

    def define(self, ports: list[NamedType]) -> None:
        self.types.update((port.name, port.type) for port in ports)

    def add(self, operation: Operation) -> None:
        """Make the outputs of an operation known."""
        self.define(operation.outputs)
        if operation.type == "const":
            self.constants[operation.outputs[0].name] = operation.attributes["val"]
        elif operation.type.startswith("constexpr_"):
            self.from_constants.update(port.name for port in operation.outputs)

    def inside(self, block: Block) -> Scope:
        """The scope at the beginning of a block of an operation."""
        inner = Scope(self.opset, dict(self.types), dict(self.constants), set(self.from_constants))
        inner.define(block.inputs)
        return inner

    def value(self, argument: Argument) -> Constant | Reference:
        """The value that an argument stands for."""
        if isinstance(argument, Constant):
            return argument
        if argument in self.constants:
            return self.constants[argument]
        return Reference(argument, self.types[argument], argument in self.from_constants)


def kind_of(operation: Operation) -> OperationKind:
    """The kind of an operation."""
    kind = OPERATIONS.get(operation.type)
    if kind is None:
        where = f"{operation.place}: " if operation.place else ""
        hint = did_you_mean(operation.type, OPERATIONS)
        raise CoreMLError(f"{where}{operation}: there is no operation {operation.type!r}.{hint}")
    return kind


def bind(operation: Operation, scope: Scope) -> dict[str, Bound | tuple[Constant | Reference, ...]]:
    """All inputs of an operation by name, in the order of its definition: a tuple for those that take several values.

    >>> from openbnns.interop import coreml
    >>> text = '''program(1.3) { func main<ios17>(tensor<fp16, [2, 3]> x) {
    ...     tensor<fp16, [2, 3]> y = log(x = x); } -> (y); }'''
    >>> main = coreml.parse(text).functions["main"]
    >>> inputs = coreml.bind(main.block.operations[0], coreml.Scope.of(main))
    >>> print(inputs["x"].name, inputs["epsilon"].type)
    x tensor<fp16, []>
    """
    kind = kind_of(operation)
    who = f"{operation.place}: {operation}" if operation.place else str(operation)
    inputs = kind.inputs(operation.opset or scope.opset)
    known = {given.name: given for given in inputs}
    # Until iOS 17 the inputs of constexpr operations are written as attributes; the value of a const always is.
    arguments: dict[str, tuple[Argument, ...]] = {
        name: (held,) for name, held in operation.attributes.items() if name in known
    } | operation.inputs
    for name in arguments:
        if name not in known:
            raise CoreMLError(f"{who} has an input {name!r}, but {kind.name} takes {', '.join(known) or 'none'}.")
    if len(operation.blocks) != len(kind.blocks):
        raise CoreMLError(f"{who} has {len(operation.blocks)} blocks, but {kind.name} takes {len(kind.blocks)}.")
    bound: dict[str, Bound | tuple[Constant | Reference, ...]] = {}
    for given in inputs:
        values = tuple(scope.value(argument) for argument in arguments.get(given.name, ()))
        for value in values:
            _check(value, given, who)
        if given.several:
            bound[given.name] = values
        elif len(values) > 1:
            raise CoreMLError(f"{who}: the input {given.name} has {len(values)} values, but takes one.")
        elif values:
            bound[given.name] = values[0]
        elif given.optional:
            bound[given.name] = None
        else:
            raise CoreMLError(f"{who} needs the input {given.name!r}.")
    for given in inputs:
        if bound[given.name] is None and given.default is not None:
            bound[given.name] = _default(given, bound, who)
    return bound


def _check(value: Constant | Reference, given: Input, who: str) -> None:
    if given.constant and isinstance(value, Reference) and not value.from_constants:
        raise CoreMLError(f"{who}: the input {given.name} must be a constant, but {value.name!r} is computed.")
    type = value.type.wrapped if isinstance(value.type, StateType) else value.type
    if given.types and (not isinstance(type, TensorType) or type.element not in given.types):
        raise CoreMLError(f"{who}: the input {given.name} is {type}, but must be one of {', '.join(given.types)}.")


def _default(given: Input, bound: Mapping[str, Bound | tuple[Constant | Reference, ...]], who: str) -> Constant:
    rule = given.default
    if isinstance(rule, PerAxis):
        shape = _shape("x", bound, who)
        return constant(np.full(rule.count * max(len(shape) - 2, 0), rule.value, np.int32))
    if isinstance(rule, AllAxes):
        return constant(np.arange(len(_shape(rule.of, bound, who)), dtype=np.int32))
    if isinstance(rule, (Counted, Zeros)):
        of = rule.of if isinstance(rule, Counted) else rule.like
        shape = _shape(of, bound, who)
        if not shape or shape[0] is None:
            raise CoreMLError(
                f"{who} leaves out {given.name}, whose default depends on the size of {of}, which is not known."
            )
        if isinstance(rule, Counted):
            return constant(np.arange(shape[0], dtype=np.int32))
        return constant(np.zeros(shape[0], ELEMENTS[_element(of, bound) or "fp32"].numpy))
    if isinstance(rule, str):
        return constant(rule)
    element = "bool" if isinstance(rule, bool) else None
    if isinstance(rule, float):
        element = _element("x", bound)  # numbers have the type of what they are computed with
        element = element if element in given.types else "fp32"
    return constant(rule, element)


def _type(name: str, bound: Mapping[str, Bound | tuple[Constant | Reference, ...]]) -> TensorType | None:
    value = bound.get(name)
    held = value.type if isinstance(value, (Constant, Reference)) else None
    return held if isinstance(held, TensorType) else None


def _element(name: str, bound: Mapping[str, Bound | tuple[Constant | Reference, ...]]) -> str | None:
    held = _type(name, bound)
    return held.element if held else None


def _shape(
    name: str, bound: Mapping[str, Bound | tuple[Constant | Reference, ...]], who: str
) -> tuple[int | None, ...]:
    held = _type(name, bound)
    if held is None or held.shape is None:
        raise CoreMLError(f"{who} leaves out inputs whose defaults depend on the shape of {name}, which is not known.")
    return held.shape
