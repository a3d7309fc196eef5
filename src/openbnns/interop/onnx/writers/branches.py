"""Conditions: one of two graphs."""

from __future__ import annotations

from typing import Any

from ....graph.graph import Graph
from ....graph.operation import Operation
from ....graph.operations.control import Branch
from .._graph_file import GraphFile
from ._registry import WRITERS, NoForm, writes


def write_operation(file: GraphFile, operation: Operation) -> None:
    """Write the nodes of an operation, and bind its results to their names; raises NoForm for one that has none."""
    writer = WRITERS.get(type(operation))
    if writer is None:
        raise NoForm("it has no form in ONNX")
    made = writer(file, operation)
    for value, name in zip(operation.outputs, [made] if isinstance(made, str) else made, strict=False):
        file.bind(value, name)


@writes(Branch)
def branch(file: GraphFile, operation: Branch) -> list[str]:
    condition, *given = operation.inputs
    kinds = file.onnx.TensorProto
    holds = file.node("Cast", file.node("Squeeze", file.use(condition)), to=kinds.BOOL)
    graphs = [_graph(file, graph, given) for graph in operation.graphs]
    return file.several("If", [holds], len(operation.outputs), then_branch=graphs[0], else_branch=graphs[1])


def _graph(file: GraphFile, graph: Graph, given: list[Any]) -> Any:
    with file.inner() as nodes:
        for value, outer in zip(graph.inputs, given, strict=True):
            file.bind(value, file.use(outer))
        for operation in graph.operations:
            write_operation(file, operation)
        results = [(file.named("result", file.use(value)), value) for value in graph.outputs]
        return file.graph("branch", nodes, results)
