"""Attention and LSTM, in operations that Core ML has."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..operations import Attention, AttentionHeads, Forbidden, Lstm
from ..operations.heads import Part
from ._builder import Builder, Refused, Var, writes
from ._shapes import product

_LEAST = np.float32(-1e30)  # of a score that does not count: a half-precision program has -inf for it


def _heads(b: Builder, x: Var, length: int, heads: int, width: int) -> Var:
    """(N, length, heads * width) to (N, heads, length, width)."""
    apart = b("reshape", x=x, shape=[-1, length, heads, width])
    return b("transpose", x=apart, perm=[0, 2, 1, 3])


def _attended(b: Builder, q: Var, k: Var, v: Var, mask: Any, scale: float) -> Var:
    scores = product(b, q, k, (False, True), scale)
    if mask is not None:
        scores = b("add", x=scores, y=mask)
    return product(b, b("softmax", x=scores, axis=-1), v)


def _to_add(mask: Any) -> Any:
    """A mask as numbers to add."""
    if mask.dtype == np.float32:
        return np.maximum(mask, _LEAST)
    return np.where(mask != 0, _LEAST, np.float32(0))


def _causal(target: int, source: int) -> Any:
    return np.where(np.triu(np.ones((target, source), np.bool_), 1), _LEAST, np.float32(0))


@writes(Attention)
def _attention(b: Builder, op: Attention) -> None:
    if op.key_mask is not None or op.add_zero_attn:
        raise Refused("attention with masks of keys, or with a row of zeros, is not written")
    weights: dict[str, Any] = {}
    for parameter, names in op.pieces:
        rows = len(parameter.data) // len(names)
        for i, name in enumerate(names):
            weights[name] = parameter.data[i * rows : (i + 1) * rows].astype(np.float32)
    if "key_attention_bias" in weights:
        raise Refused("attention with learned keys and values is not written")
    inputs = [b.get(op.inputs[place]) for place in op.places]
    (target, width), source = op.output.sample, op.source
    each = width // op.heads
    projected = []
    for name, x, length in zip(("query", "key", "value"), inputs, (target, source, source), strict=True):
        bias = weights.get(f"{name}_bias", np.zeros(width, np.float32)).reshape(-1)
        y = b("linear", x=x, weight=weights[f"{name}_weights"], bias=bias)
        projected.append(_heads(b, y, length, op.heads, each))
    mask: Any = None
    if any(not isinstance(value.storage.leaf, np.ndarray) for value in op.added):
        raise Refused("attention with masks that differ from batch to batch is not written")
    for value in op.added:
        mask = _to_add(np.asarray(value.storage.leaf)) + (0 if mask is None else mask)
    if op.causal:
        mask = _causal(target, source) + (0 if mask is None else mask)
    q, k, v = projected
    y = _attended(b, q, k, v, mask, 1 / math.sqrt(each))
    joined = b("reshape", x=b("transpose", x=y, perm=[0, 2, 1, 3]), shape=[-1, target, width])
    bias = weights.get("output_bias", np.zeros(width, np.float32)).reshape(-1)
    b.set(op.output, b("linear", x=joined, weight=weights["output_weights"], bias=bias))


@writes(Forbidden)
def _forbidden(b: Builder, op: Forbidden) -> None:
    hidden = b("cast", x=b("not_equal", x=b.get(op.inputs[0]), y=np.int32(0)), dtype="fp32")
    b.set(op.output, b("mul", x=hidden, y=_LEAST))


@writes(AttentionHeads)
def _attention_heads(b: Builder, op: AttentionHeads) -> None:
    q, k, v = (_part(b, part) for part in op.parts)
    mask = None if op.added is None else _to_add(op.added)
    if op.causal:
        mask = _causal(op.parts[0].length, op.parts[1].length) + (0 if mask is None else mask)
    y = _attended(b, q, k, v, mask, op.scale)
    if op.by_position:
        y = b("transpose", x=y, perm=[0, 2, 1, 3])
    b.set(op.output, b("reshape", x=y, shape=[-1, *op.output.sample]))


def _part(b: Builder, part: Part) -> Var:
    """The heads of query, key or value, (N, heads, length, width)."""
    x = b.get(part.value)
    heads, length, width = part.heads, part.length, part.width
    if part.head == length * width and part.row == width and part.first == 0:
        return b("reshape", x=x, shape=[-1, heads, length, width])
    if heads == 1 and part.row == width and part.first == 0:
        return b("reshape", x=x, shape=[-1, 1, length, width])
    if part.head != width:
        raise Refused("its heads lie in memory as Core ML cannot say")
    rows = b("reshape", x=x, shape=[-1, length, part.row])
    if part.row != heads * width:
        rows = b(
            "slice_by_index", x=rows, begin=[0, 0, part.first], end=[0, 0, part.first + heads * width],
            begin_mask=[True, True, False], end_mask=[True, True, False],
        )  # fmt: skip
    return _heads(b, rows, length, heads, width)


@writes(Lstm)
def _lstm(b: Builder, op: Lstm) -> None:
    if op.initial or op.lengths is not None:
        raise Refused("an LSTM with states to begin with, or with lengths, is not written")
    h = op.hidden
    order = np.concatenate([np.arange(h) + h * gate for gate in (0, 1, 3, 2)])  # Core ML has the output gate third
    inputs, hidden = (w.data.astype(np.float32)[order] for w in op.weights)
    bias = np.zeros(4 * h, np.float32)
    for parameter in op.biases:
        bias += parameter.data[order]
    x = b("transpose", x=b.get(op.inputs[0]), perm=[1, 0, 2])  # steps in front
    count = b("slice_by_index", x=b("shape", x=x), begin=[1], end=[2])
    zeros = b("fill", shape=b("concat", values=[count, np.array([h], np.int32)], axis=0), value=np.float32(0))
    y, last_hidden, last_cell = b(
        "lstm", x=x, initial_h=zeros, initial_c=zeros, weight_ih=inputs, weight_hh=hidden, bias=bias,
        direction="reverse" if op.reverse else "forward", output_sequence=True,
    )  # fmt: skip
    for value, var in zip(op.outputs, (b("transpose", x=y, perm=[1, 0, 2]), last_hidden, last_cell), strict=True):
        b.set(value, var)
