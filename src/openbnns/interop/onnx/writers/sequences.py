"""Recurrent cells and attention."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....graph import operations
from ....graph.operations import InitialState, Part
from ....graph.parameter import Parameter
from ....graph.sizes import AnySize, is_same
from .._graph_file import GraphFile
from ..operators.cells import CELLS
from ._registry import writes


def _gates(file: GraphFile, parameter: Parameter, op: str) -> str:
    """A weight with its gates in ONNX's order."""
    order = np.argsort(CELLS[op].order)
    if len(order) == 1:
        return file.leaf(parameter)
    hidden = parameter.shape[0] // len(order)
    rows = np.concatenate([np.arange(g * hidden, (g + 1) * hidden) for g in order])
    return file.node("Gather", file.leaf(parameter), file.constant(rows.astype(np.int64)), axis=0)


def _first_axis(file: GraphFile, name: str) -> str:
    return file.node("Unsqueeze", name, file.integers([0]))


def _cells(file: GraphFile, operation: Any, op: str, states: int, **options: Any) -> list[str]:
    x = operation.inputs[0]
    weights = [_first_axis(file, _gates(file, w, op)) for w in operation.weights]
    bias = ""
    if operation.biases:
        bias = _first_axis(file, file.node("Concat", *(_gates(file, b, op) for b in operation.biases), axis=0))
    lengths = ""
    if operation.lengths is not None:
        lengths = file.node("Cast", file.use(operation.lengths), to=file.onnx.TensorProto.INT32)
    begin = [_state(file, state, (x.shape[0], operation.hidden)) for state in operation.initial]
    given = [file.node("Transpose", file.use(x), perm=[1, 0, 2]), *weights, bias, lengths, *begin]
    direction = "reverse" if operation.reverse else "forward"
    y, *ends = file.several(op, given, 1 + states, hidden_size=operation.hidden, direction=direction, **options)
    steps = file.node("Transpose", file.node("Squeeze", y, file.integers([1])), perm=[1, 0, 2])
    return [steps, *(file.node("Squeeze", end, file.integers([0])) for end in ends)]


def _state(file: GraphFile, state: InitialState, shape: Sequence[AnySize]) -> str:
    """(1, N, H)."""
    value = state.value
    name = file.use(value)
    if state.index is not None:
        name = file.node("Gather", name, file.constant(np.int64(state.index)), axis=value.ndim - 2)
    if value.ndim - (state.index is not None) < 2:  # one for all samples
        name = file.node("Expand", name, file.sizes(shape))
    return _first_axis(file, name)


@writes(operations.Lstm)
def lstm(file: GraphFile, operation: operations.Lstm) -> list[str]:
    return _cells(file, operation, "LSTM", 2)


@writes(operations.Recurrent)
def recurrent(file: GraphFile, operation: operations.Recurrent) -> list[str]:
    if operation.kind == "gru":
        return _cells(file, operation, "GRU", 1, linear_before_reset=1)
    return _cells(file, operation, "RNN", 1, activations=[operation.kind.capitalize()])


# Attention.


def _heads(file: GraphFile, part: Part) -> str:
    """(N, heads, length, width) from where the rows of all heads lie."""
    name, samples, inner = file.use(part.value), part.value.shape[0], part.heads * part.width
    if is_same(part.head, part.length * part.width) and not is_same(part.heads, 1):  # one head behind the other
        return file.reshaped(name, (samples, part.heads, part.length, part.width))
    if not is_same(part.row, inner):  # a part of wider rows
        rows = file.reshaped(name, (samples, part.length, part.row))
        ends = file.sizes([part.first]), file.sizes([part.first + inner])
        name = file.node("Slice", rows, *ends, file.integers([2]), file.integers([1]))
    apart = file.reshaped(name, (samples, part.length, part.heads, part.width))
    return file.node("Transpose", apart, perm=[0, 2, 1, 3])


def _attended(file: GraphFile, q: str, k: str, v: str, scale: float, added: Sequence[str], dropout: float) -> str:
    turned = file.node("Transpose", k, perm=[0, 1, 3, 2])
    scores = file.node("Mul", file.node("MatMul", q, turned), file.number(scale))
    for mask in added:
        scores = file.node("Add", scores, mask)
    weights = file.node("Softmax", scores, axis=-1)
    if dropout:
        weights = file.node("Dropout", weights, file.number(dropout))
    return file.node("MatMul", weights, v)


def _causal(file: GraphFile, target: AnySize, source: AnySize) -> str:
    lengths = file.size(target), file.size(source)
    if isinstance(lengths[0], int) and isinstance(lengths[1], int):
        hidden = np.triu(np.ones((lengths[0], lengths[1])), 1)
        return file.constant(np.where(hidden, np.float32(-np.inf), np.float32(0)))
    shape = file.sizes((target, source))
    infinities = file.node("Expand", file.number(-np.inf), shape)
    return file.node("Trilu", infinities, file.constant(np.int64(1)), upper=1)


@writes(operations.AttentionHeads)
def attention_heads(file: GraphFile, operation: operations.AttentionHeads) -> str:
    parts = operation.parts
    q, k, v = (_heads(file, part) for part in parts)
    added = []
    if operation.added is not None:
        mask = operation.added
        numbers = np.where(mask, np.float32(-np.inf), np.float32(0)) if mask.dtype == np.bool_ else mask
        added.append(file.constant(numbers.astype(np.float32)))
    if operation.causal:
        added.append(_causal(file, parts[0].length, parts[1].length))
    y = _attended(file, q, k, v, operation.scale, added, operation.dropout)
    return file.node("Transpose", y, perm=[0, 2, 1, 3]) if operation.by_position else y


@writes(operations.Attention)
def attention(file: GraphFile, operation: operations.Attention) -> str:
    """Projections, heads, and the projection of what they give."""
    weights: dict[str, str] = {}
    for parameter, names in operation.pieces:
        whole = file.leaf(parameter)
        if len(names) == 1:
            weights[names[0]] = whole
            continue
        size = parameter.shape[0] // len(names)
        parts = file.several("Split", [whole, file.integers([size] * len(names))], len(names), axis=0)
        weights |= dict(zip(names, parts, strict=True))
    samples, length, width = operation.output.shape
    heads, source = operation.heads, operation.source
    assert isinstance(width, int), "weights have this size"
    three = []
    for name, place in zip(("query", "key", "value"), operation.places, strict=True):
        y = _projected(file, file.use(operation.inputs[place]), weights, name)
        rows = [y]
        own = weights.get(f"{name}_attention_bias")
        shape = file.sizes((samples, 1, width))
        if own is not None:
            rows.append(file.node("Expand", file.node("Reshape", own, file.integers((1, 1, width))), shape))
        if operation.add_zero_attn and name != "query":
            rows.append(file.node("Expand", file.number(0), shape))
        joined = rows[0] if len(rows) == 1 else file.node("Concat", *rows, axis=1)
        count = length if name == "query" else source + len(rows) - 1
        apart = file.reshaped(joined, (samples, count, heads, width // heads))
        three.append(file.node("Transpose", apart, perm=[0, 2, 1, 3]))
    more = ("key_attention_bias" in weights) + operation.add_zero_attn
    added = _masks(file, operation, length, source, more)
    q, k, v = three
    y = _attended(file, q, k, v, 1 / math.sqrt(width / heads), added, operation.dropout)
    joined = file.reshaped(file.node("Transpose", y, perm=[0, 2, 1, 3]), operation.output.shape)
    return _projected(file, joined, weights, "output")


def _projected(file: GraphFile, x: str, weights: dict[str, str], name: str) -> str:
    y = file.node("MatMul", x, file.node("Transpose", weights[f"{name}_weights"], perm=[1, 0]))
    bias = weights.get(f"{name}_bias")
    return y if bias is None else file.node("Add", y, bias)


def _masks(file: GraphFile, operation: operations.Attention, length: AnySize, source: AnySize, more: int) -> list[str]:
    """Numbers to add to the scores (N, heads, length, source and the rows that are added, which all may look at)."""
    samples, heads = operation.output.shape[0], operation.heads
    added = []
    if operation.causal:
        added.append((_causal(file, length, source), 2))
    if operation.key_mask is not None:
        mask = operation.key_mask
        shape = (mask.shape[0] if mask.ndim == 2 else 1, 1, 1, source)
        added.append((file.reshaped(_as_numbers(file, mask), shape), 4))
    for value in operation.added:
        numbers = _as_numbers(file, value)
        if value.ndim == 3 and heads > 1 and is_same(value.shape[0], heads * samples):
            added.append((file.reshaped(numbers, (samples, heads, length, source)), 4))
        elif value.ndim == 3 and is_same(value.shape[0], samples):
            added.append((file.reshaped(numbers, (samples, 1, length, source)), 4))
        else:
            added.append((numbers, value.ndim))
    if more:
        return [
            file.node("Pad", mask, file.integers([0] * (2 * rank - 1) + [more]), file.number(0)) for mask, rank in added
        ]
    return [mask for mask, _ in added]


def _as_numbers(file: GraphFile, value: Any) -> str:
    """Integers other than 0 forbid; floats are added as they are."""
    if value.dtype == np.float32:
        return file.use(value)
    zero = file.node("Equal", file.use(value), file.constant(np.zeros((), value.dtype)))
    return file.node("Where", zero, file.number(0), file.number(-math.inf))
