"""Inputs, outputs and operations of a model, and those that could not run here or under BNNSGraph."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ..interop import coreml
from ..interop.coreml import Constant, Function, TensorType
from ..interop.coreml.elements import ELEMENTS
from ..interop.coreml.lowering import AT_ONCE, RECORDED
from .stages import ProgramStage, stages_of


@dataclass
class FunctionFacts:
    """A function of a program: its arguments as text, operations with counts, and problems."""

    name: str
    opset: str
    inputs: list[tuple[str, str]]
    outputs: list[tuple[str, str]]
    states: list[tuple[str, str]]
    operations: dict[str, int]
    parameters: int
    parameter_bytes: int
    compression: dict[str, int]
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


@dataclass
class Inspection:
    """The result of :func:`inspect`; ``problems`` are what keeps a model from running."""

    path: str
    kind: str
    specification_version: int
    functions: list[FunctionFacts] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def runs(self) -> bool:
        """True if nothing keeps it from running."""
        return not self.problems and not any(function.problems for function in self.functions)

    def lines(self) -> Iterator[str]:
        """The same as text."""
        yield f"{self.path}: {self.kind}, specification version {self.specification_version}"
        for function in self.functions:
            yield f"function {function.name} ({function.opset})"
            for title, ports in (("input", function.inputs), ("state", function.states), ("output", function.outputs)):
                for name, type in ports:
                    yield f"  {title:<7} {name}: {type}"
            counts = sorted(function.operations.items(), key=lambda item: (-item[1], item[0]))
            yield f"  operations ({sum(function.operations.values())}): " + ", ".join(f"{k} {n}" for k, n in counts)
            yield f"  parameters: {function.parameters:,} ({function.parameter_bytes / 1e6:,.2f} MB in the file)"
            for kind, count in sorted(function.compression.items()):
                yield f"  compressed: {kind} {count}"
            for text in function.warnings:
                yield f"  warning: {text}"
            for text in function.problems:
                yield f"  cannot run: {text}"
        for text in self.warnings:
            yield f"warning: {text}"
        for text in self.problems:
            yield f"cannot run: {text}"


def inspect(path: str | os.PathLike[str]) -> Inspection:
    """The facts about a model, without running it. Files that cannot be read raise :class:`CoreMLError`."""
    return _inspected(coreml.read(path), str(path))


def _inspected(model: coreml.Model, path: str) -> Inspection:
    inspection = Inspection(path, model.kind, model.specification_version)
    if model.program is not None:
        inspection.functions = [_function(function) for function in model.program.functions.values()]
        return inspection
    for i, part in enumerate(model.parts):
        inner = _inspected(part, f"{path}: part {i}")
        for function in inner.functions:
            function.name = f"{function.name} of part {i}"
        inspection.functions += inner.functions
        inspection.problems += inner.problems
    if not model.parts:
        try:
            for stage in stages_of(model, None, None, path):
                stage.prepare()
                if isinstance(stage, ProgramStage):
                    inspection.functions.append(_function(stage.function))
        except ValueError as error:
            inspection.problems.append(str(error))
        inspection.warnings.append("it is not an ML program, which is all that BNNSGraph takes")
    return inspection


def _function(function: Function) -> FunctionFacts:
    arguments = [(port.name, str(port.type)) for port in function.inputs]
    states = [pair for pair in arguments if pair[1].startswith("state<")]
    counts: Counter[str] = Counter()
    parameters = size = 0
    compression: Counter[str] = Counter()
    for operation in function.walk():
        constants = [*operation.attributes.values(), *(a for given in operation.inputs.values() for a in given)]
        for constant in constants:
            if isinstance(constant, Constant) and isinstance(constant.type, TensorType) and constant.type.shape:
                count, stored = _weight_of(constant)
                parameters, size = parameters + count, size + stored
        if operation.type.startswith("constexpr_"):
            compression[operation.type] += 1
        elif operation.type != "const":
            counts[operation.type] += 1
    facts = FunctionFacts(
        function.name, function.opset, [pair for pair in arguments if pair not in states],
        [(port.name, str(port.type)) for port in function.output_types()], states, dict(counts), parameters, size,
        dict(compression),
    )  # fmt: skip
    try:
        coreml.Executable(function)
    except (coreml.CoreMLError, ValueError) as error:
        facts.problems.append(str(error))
    unknown = sorted(k for k in counts if k not in RECORDED and k not in AT_ONCE and k not in _CONTROL)
    facts.problems += [
        f"there is no operation {name} here" for name in unknown if not any(name in p for p in facts.problems)
    ]
    taken = {port.name for port in function.inputs}
    facts.warnings += [
        f"{name!r} is an input and an output at once; BNNSGraph needs an identity between them"
        for name in function.block.outputs
        if name in taken
    ]
    facts.warnings += [
        f"the output {port.name!r} is {port.type}; BNNSGraph gives nothing but tensors"
        for port in function.output_types()
        if not isinstance(port.type, TensorType) or port.type.element == "string"
    ]
    facts.warnings += [
        f"{operation}: the state is reset before its product with the weights. coremltools' tests expect this of Macs, "
        "Apple's page on the operation has it the other way round; with reset_after there is no doubt"
        for operation in function.walk()
        if operation.type == "gru" and "reset_after" not in operation.inputs
    ]
    return facts


_CONTROL = {"cond", "while_loop", "read_state", "write_state"}


def _weight_of(constant: Constant) -> tuple[int, int]:
    """The number of elements of a constant and their bytes; 0 for settings of whole numbers."""
    type: Any = constant.type
    element = ELEMENTS[type.element]
    count = math.prod(constant.shape)
    if element.name in ("string", "bool", "int32", "uint32", "int64", "uint64"):
        return 0, 0
    return count, element.byte_count(count)
