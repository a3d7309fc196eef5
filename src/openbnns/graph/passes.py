"""Passes over a recorded graph; ``Graph.passes`` lists them in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .graph import Graph
    from .operation import Operation
    from .tensor import Tensor


def drop_unused(graph: Graph) -> None:
    """Drop the operations that no output depends on."""
    used = {value.storage for value in graph.outputs}
    kept = []
    for operation in reversed(graph.operations):
        if operation.finds_sizes or any(output in used for output in operation.outputs):
            kept.append(operation)
            used.update(value.storage for value in operation.inputs)
    graph.operations = kept[::-1]


def fuse(graph: Graph) -> None:
    """Join an operation and the only reader of its output where one layer does the work of both."""
    done: list[Operation] = []
    producers: dict[Tensor, Operation] = {}
    readers: dict[Tensor, int] = {}
    for value in [*graph.outputs, *(value for operation in graph.operations for value in operation.inputs)]:
        readers[value.storage] = readers.get(value.storage, 0) + 1
    for operation in graph.operations:
        producer = producers.get(operation.inputs[0]) if len(operation.inputs) == 1 else None
        if (
            producer is not None
            and len(producer.outputs) == len(operation.outputs) == 1
            and readers[producer.output] == 1
            and producer.fuse(operation)
        ):
            producer.outputs = operation.outputs
            producer.modules += operation.modules
            producer.functions += operation.functions
            producers[operation.output] = producer
            continue
        producers |= dict.fromkeys(operation.outputs, operation)
        done.append(operation)
    graph.operations = done
