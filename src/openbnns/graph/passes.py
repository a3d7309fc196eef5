"""Passes over the operations of a recorded graph; ``Graph.passes`` lists them in order.

Each takes the operations in the order in which they run and the outputs of the graph, and gives the operations that remain.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

from .operation import Operation
from .sizes import Shape, Size, expression_of, is_same_shape
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


def take_apart(operations: Sequence[Operation], outputs: Sequence[Tensor]) -> list[Operation]:
    """Put their meaning in the place of functions that are made of others."""
    return [part for operation in operations for part in operation.taken_apart()]


def share_equal(operations: Sequence[Operation], outputs: Sequence[Tensor]) -> list[Operation]:
    """Compute once what the steps of loops that are unrolled compute again: equal operations on the same values.

    The outputs of the others show the memory of those of the first.
    """
    if not any(operation.finds_sizes for operation in operations):
        return list(operations)
    first: dict[Any, Operation] = {}
    kept = []
    for operation in operations:
        if not operation.is_pure or operation.parameters or operation.finds_sizes:
            kept.append(operation)
            continue
        given, named = operation.made_with
        key = type(operation), operation.trains, _identity((given, sorted(named.items())), operation.outputs)
        same = first.setdefault(key, operation)
        if same is operation:
            kept.append(operation)
            continue
        for output, source in zip(operation.outputs, same.outputs, strict=True):
            output.source = source
    return kept


def _identity(x: Any, own: Sequence[Tensor]) -> Any:
    """A key that is equal for arguments that mean the same; ``own`` are the outputs of the operation."""
    if isinstance(x, Tensor):
        place: Any = next((i for i, output in enumerate(own) if output is x), None)
        return "value", id(x.storage) if place is None else place, _sizes(x.shape), str(x.dtype)
    if isinstance(x, (list, tuple)):
        return type(x), tuple(_identity(part, own) for part in x)
    if isinstance(x, slice):
        return "slice", _identity((x.start, x.stop, x.step), own)
    if isinstance(x, Size):
        return "size", x.expression
    if isinstance(x, (type(None), bool, int, float, str, enum.Enum, type)):
        return type(x), x
    return "object", id(x)  # which its operation keeps


def _sizes(shape: Shape) -> Any:
    return tuple(expression_of(n) for n in shape)


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
