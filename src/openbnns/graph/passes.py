"""Passes over the operations of a recorded graph; ``Graph.passes`` lists them in order.

Each takes the operations in the order in which they run and the outputs of the graph, and gives the operations that remain.
"""

from __future__ import annotations

from collections.abc import Sequence

from .operation import Operation
from .sizes import is_same_shape
from .tensor import Tensor


def drop_unused(operations: Sequence[Operation], outputs: Sequence[Tensor]) -> list[Operation]:
    """Drop the operations that no output depends on."""
    used = {value.storage for value in outputs}
    kept = []
    for operation in reversed(operations):
        if operation.finds_sizes or any(output in used for output in operation.outputs):
            kept.append(operation)
            used.update(value.storage for value in operation.inputs)
    return kept[::-1]


def fuse(operations: Sequence[Operation], outputs: Sequence[Tensor]) -> list[Operation]:
    """Join an operation and the only reader of its output where one layer does the work of both."""
    done: list[Operation] = []
    producers: dict[Tensor, Operation] = {}
    readers: dict[Tensor, int] = {}
    for value in [*outputs, *(value for operation in operations for value in operation.inputs)]:
        readers[value.storage] = readers.get(value.storage, 0) + 1
    for operation in operations:
        producer = producers.get(_in_memory(operation.inputs[0])) if len(operation.inputs) == 1 else None
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
    return done


def _in_memory(value: Tensor) -> Tensor:
    """The value that owns the memory, if this one shows it in the same shape."""
    return value.storage if is_same_shape(value.shape, value.storage.shape) else value
