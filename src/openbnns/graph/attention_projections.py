"""Attention taken apart: linear layers for its projections, and the heads between them; for passes that replace the former."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .operation import Operation
from .operations.attention import Attention
from .operations.attention_heads import AttentionHeads, Part
from .operations.products import Linear
from .sizes import is_same_shape
from .tensor import FLOAT32, Array, Tensor

_INPUT_WEIGHTS = ("query_weights", "key_weights", "value_weights")
_INPUT_BIASES = ("query_bias", "key_bias", "value_bias")


def projections_apart(operations: Sequence[Operation]) -> list[Operation]:
    """The operations with attention of a value to itself taken apart, in inference mode; other kinds stay as they are."""
    return [part for operation in operations for part in _parts(operation)]


def _parts(operation: Operation) -> Sequence[Operation]:
    if not isinstance(operation, Attention):
        return [operation]
    parameters = {names: parameter for parameter, names in operation.pieces}
    weight, bias = parameters.pop(_INPUT_WEIGHTS, None), parameters.pop(_INPUT_BIASES, None)
    out_weight, out_bias = parameters.pop(("output_weights",), None), parameters.pop(("output_bias",), None)
    mask = _mask(operation)
    plain = operation.places == [0, 0, 0] and operation.key_mask is None and not operation.add_zero_attn
    if weight is None or out_weight is None or parameters or not plain or len(operation.added) > (mask is not None):
        return [operation]
    graph, x = operation.output.graph, operation.inputs[0]
    width, heads = weight.shape[1], operation.heads
    joint = Linear(graph, x, weight, bias)
    each = width // heads
    rows = [Part(joint.output, heads, x.shape[1], each, i * width, each, 3 * width) for i in range(3)]
    attending = AttentionHeads(graph, rows, each**-0.5, mask, operation.causal, 0.0)
    back = Linear(graph, Tensor(graph, x.shape, source=attending.output), out_weight, out_bias)
    back.outputs = [operation.output]
    made: list[Operation] = [joint, attending, back]
    for part in made:
        part.modules, part.functions = operation.modules, operation.functions
        for value in part.outputs:
            value.producer = part
        part.prepare()
    return made


def _mask(operation: Attention) -> Array | None:
    """The only mask of scores, if it is a constant (T, S): true where a score does not count, or numbers to add."""
    x = operation.inputs[0]
    if len(operation.added) != 1:
        return None
    value = operation.added[0]
    leaf = value.storage.leaf
    if not isinstance(leaf, np.ndarray) or not is_same_shape(value.shape, (x.shape[1], x.shape[1])):
        return None
    numbers = leaf.reshape(value.concrete({}))
    return numbers.astype(np.float32) if value.dtype == FLOAT32 else numbers != 0
