"""Choices between parts of a network that a run computes, as cond."""

from __future__ import annotations

from functools import partial

from ....graph.graph import Graph
from ....graph.operations import SizedByData
from ....graph.operations.control import Branch
from .program_builder import ProgramBuilder, Refused, Value, Var, array_of, writes


@writes(Branch)
def _branch(b: ProgramBuilder, op: Branch) -> None:
    chooses, *given = op.inputs
    held = b.get(chooses)
    if array_of(held) is not None:
        raise Refused("its condition is known. Fold it before")
    number = held if held.rank == 0 else b("squeeze", x=held)
    flag = b("cast", x=number, dtype="bool")
    results = b.branch(flag, *(partial(_body, b, graph, [b.get(value) for value in given]) for graph in op.graphs))
    for value, var in zip(op.outputs, results, strict=True):
        b.set(value, var)


@writes(SizedByData)
def _sized(b: ProgramBuilder, op: SizedByData) -> None:
    raise Refused(
        "which operations run, or how large a result is, depends on numbers that only a run knows; programs are written for one "
        "way. Write an ONNX file, with to_onnx, or read the model with constants in place of the inputs that decide"
    )


def _body(b: ProgramBuilder, graph: Graph, given: list[Value]) -> list[Var]:
    """The results of a branch, written as part of a block."""
    for value, var in zip(graph.inputs, given, strict=True):
        b.set(value, var)
    for operation in graph.operations:
        try:
            b.write(operation)
        except Refused as reason:
            raise Refused(f"inside of it, {type(operation).__name__}: {reason}") from None
    return [b("identity", x=b.get(value)) for value in graph.outputs]
