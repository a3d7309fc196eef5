"""The graph of programs for inference: what needs no gradients can be computed with fewer passes over memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeVar

from .chains import join_elementwise
from .folding import fold_channel_factors, pad_in_windows
from .graph import Graph
from .integer_products import integer_products
from .operation import Operation
from .operations.activation import Activation
from .operations.fused import NormalizedOperation
from .tensor import Tensor

_LEAST_PLANE = 64  # pixels
_SomeGraph = TypeVar("_SomeGraph", bound=Graph)


def for_inference(graph: _SomeGraph) -> _SomeGraph:
    """A graph with the same results after the passes for inference; the given one if they change nothing."""
    operations = graph.operations
    for run in PASSES:
        operations = run(operations, graph.outputs)
    return graph if operations == graph.operations else graph.part(graph.inputs, operations, graph.outputs)


def end_in_activations(operations: Sequence[Operation], outputs: Sequence[Tensor]) -> list[Operation]:
    """Join a layer with weights and the elementwise function that alone reads its result.

    In training this is done for functions only whose derivative follows from their result.
    """
    readers: dict[Tensor, int] = {}
    for value in [*outputs, *(x for operation in operations for x in operation.inputs)]:
        readers[value.storage] = readers.get(value.storage, 0) + 1
    places: dict[Tensor, int] = {}
    done: list[Operation] = []
    for operation in operations:
        if isinstance(operation, Activation):
            place = places.get(operation.inputs[0].storage)
            producer = None if place is None else done[place]
            if (
                isinstance(producer, NormalizedOperation)
                and readers[producer.output] == 1
                and not producer.pooling
                and _has_planes(producer.output)
            ):
                made = producer.ending_in(operation)
                if made is not None:
                    assert place is not None
                    done[place] = made
                    places[made.output] = place
                    continue
        places[operation.outputs[0]] = len(done)
        done.append(operation)
    return done


def _has_planes(value: Tensor) -> bool:
    """True if convolutions end planes of this size, one at a time, with less effort than one pass over all of them."""
    return value.ndim < 3 or math.prod(value.concrete(value.graph.sizes.numbers)[2:]) >= _LEAST_PLANE


PASSES = [integer_products, pad_in_windows, fold_channel_factors, end_in_activations, join_elementwise]
"""The passes for inference, in the order in which they run."""
