"""Branches and loops: nodes with graphs of their own."""

from __future__ import annotations

from typing import Any

from ....graph.operation import Operation
from ....graph.operations import Composite
from ....graph.sizes import AnySize
from ....graph.tensor import INT64, Tensor
from ...converted.every_way import Either, InnerGraph, Repeat
from .._graph_file import GraphFile
from ..errors import NoForm
from ..rows import COMPOSITES
from ._registry import WRITERS, writes
from .elementwise import with_type


def write_operation(file: GraphFile, operation: Operation) -> None:
    """Write the nodes of an operation, and bind its results to their names; raises NoForm for one that has none."""
    if isinstance(operation, Composite) and operation.name not in _COMPOSITES:
        for part in operation.taken_apart():
            write_operation(file, part)
        return
    writer = WRITERS.get(type(operation))
    if writer is None:
        raise NoForm("it has no form in ONNX")
    made = writer(file, operation)
    for value, name in zip(operation.outputs, [made] if isinstance(made, str) else made, strict=False):
        file.bind(value, name)


_COMPOSITES = {name: op for op, name in COMPOSITES.items()}


@writes(Composite)
def composite(file: GraphFile, operation: Composite) -> str:
    return file.node(_COMPOSITES[operation.name], *map(file.use, operation.inputs))


@writes(Either)
def either(file: GraphFile, operation: Either) -> list[str]:
    holds = _flag(file, operation.inputs[0])
    graphs = [_graph(file, way, "branch") for way in operation.ways]
    made = file.several("If", [holds], len(operation.outputs), then_branch=graphs[0], else_branch=graphs[1])
    return _measured(file, operation, made)


@writes(Repeat)
def repeat(file: GraphFile, operation: Repeat) -> list[str]:
    most = "" if operation.most is None else _number(file, operation.most)
    condition = "" if operation.condition is None else _flag(file, operation.condition)
    body = operation.body
    pairs = zip(operation.states, body.inputs[1:], strict=True)
    states = [with_type(file, state, inside.dtype) for state, inside in pairs]
    made = file.several("Loop", [most, condition, *states], len(operation.outputs), body=_body(file, body))
    return _measured(file, operation, made)


def _measured(file: GraphFile, operation: Either | Repeat, made: list[str]) -> list[str]:
    for name, (result, axis) in operation.sizes.items():
        file.find(name, made[result], axis)
    return made


def _graph(file: GraphFile, inner: InnerGraph, title: str) -> Any:
    with file.inner() as nodes:
        _write(file, inner, [])
        results = [(file.named("result", file.use(value)), value) for value in inner.graph.outputs]
        return file.graph(title, nodes, results)


def _body(file: GraphFile, inner: InnerGraph) -> Any:
    """The graph of a loop, which takes and gives a condition beside the states."""
    with file.inner() as nodes:
        states = inner.inputs[1:]
        kind = file.onnx.TensorProto.BOOL
        ports: list[Any] = []
        _write(file, inner, ports)
        ports.insert(1, file.declare("goes_on", kind, [])[1])
        flag, *values = inner.graph.outputs
        goes_on = file.named("goes_on", _flag(file, flag))
        given = [with_type(file, y, x.dtype) for x, y in zip(states, values, strict=False)]
        given += [file.use(y) for y in values[len(states) :]]
        results = [(file.named("result", name), value) for name, value in zip(given, values, strict=True)]
        made = file.graph("body", nodes, results, ports)
        made.output.insert(0, file.onnx.helper.make_tensor_value_info(goes_on, kind, []))
        return made


def _write(file: GraphFile, inner: InnerGraph, ports: list[Any]) -> None:
    """The nodes of a graph inside of an operation; adds its own inputs to the ports."""
    pairs, conditions = list(inner.taken()), file.conditions(inner.graph.sizes)
    if conditions and not pairs:
        raise NoForm(
            "sizes decide something in a graph inside of it that reads no value around it, so that none can be checked"
        )
    names = [file.checked(with_type(file, around, value.dtype), around.shape, conditions) for value, around in pairs]
    file.fix(inner.graph.sizes)
    for (value, _), name in zip(pairs, names, strict=True):
        file.bind(value, name)
    ports += [file.input(value, "state" if number else "step") for number, value in enumerate(inner.inputs)]
    for operation in inner.graph.operations:
        try:
            write_operation(file, operation)
        except NoForm as error:
            raise NoForm(f"{operation.title}: {error}") from None


def _flag(file: GraphFile, condition: Tensor) -> str:
    return file.node("Cast", file.use(condition), to=file.onnx.TensorProto.BOOL)


def _number(file: GraphFile, number: Tensor | AnySize) -> str:
    if isinstance(number, Tensor):
        return with_type(file, number, INT64)
    return file.node("Squeeze", file.sizes([number]), file.integers([0]))
