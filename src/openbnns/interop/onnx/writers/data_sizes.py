"""Sizes that depend on numbers: nodes that find them, whose results the file measures."""

from __future__ import annotations

from ....graph import operations
from ....graph.tensor import INT64
from ...converted.control import Numbers
from .._graph_file import GraphFile
from ..errors import NoForm
from ..operators.data_sizes import entries, holding
from ..tensor import ByNumpy
from ._registry import WRITERS, writes
from .elementwise import node_again


@writes(operations.SizedByData)
def sized_by_data(file: GraphFile, operation: operations.SizedByData) -> list[str]:
    made = _results(file, operation)
    for name, (result, axis, element) in operation.sizes.items():
        file.find(name, made[result], axis, element)
    return made


def _results(file: GraphFile, operation: operations.SizedByData) -> list[str]:
    if operation.function is Numbers:
        numbers = file.use(operation.inputs[0])
        if operation.inputs[0].dtype != INT64:
            numbers = file.node("Cast", file.node("Round", numbers), to=file.onnx.TensorProto.INT64)
        return [file.node("Reshape", numbers, file.integers([-1]))]
    if operation.function is not ByNumpy:
        raise NoForm("a function that is written in NumPy has no form in ONNX")
    recipe = operation.arguments[-1]
    writer = WRITERS.get(recipe.body)
    return node_again(file, operation, recipe) if writer is None else writer(file, operation)


@writes(holding)
def places_that_hold(file: GraphFile, operation: operations.SizedByData) -> list[str]:
    flat = file.node("Reshape", file.use(operation.inputs[0]), file.integers([-1]))
    return [file.node("Squeeze", file.node("NonZero", flat), file.integers([0]))]


@writes(entries)
def different_entries(file: GraphFile, operation: operations.SizedByData) -> list[str]:
    call = operation.arguments[-1].call
    options = {"axis": call.integer("axis") if call.has("axis") else None, "sorted": call.integer("sorted", 1)}
    return file.several("Unique", [file.use(operation.inputs[0])], 4, **options)[1:]
