"""Attention, in operations that Core ML has."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....graph.operations import Attention, AttentionHeads, Forbidden, Part
from ....graph.sizes import AnySize, is_same
from ....graph.tensor import Tensor
from .program_builder import ProgramBuilder, Refused, Value, writes
from .shapes import product

_LEAST = np.float32(-3e4)  # added to a score that does not count; a number in half precision, too


def _heads(b: ProgramBuilder, x: Value, shape: Sequence[AnySize]) -> Value:
    """(N, length, heads * width) to (N, heads, length, width), where ``shape`` is (N, length, heads, width)."""
    return b("transpose", x=b.reshaped(x, shape), perm=[0, 2, 1, 3])


def _attended(b: ProgramBuilder, q: Value, k: Value, v: Value, masks: list[Any], scale: float) -> Value:
    scores = product(b, q, k, (False, True), scale)
    for mask in masks:
        scores = b("add", x=scores, y=mask)
    return product(b, b("softmax", x=scores, axis=-1), v)


def _to_add(mask: Any) -> Any:
    """A mask as numbers to add."""
    if mask.dtype == np.float32:
        return np.maximum(mask, _LEAST)
    return np.where(mask != 0, _LEAST, np.float32(0))


def _mask(b: ProgramBuilder, op: Attention, value: Tensor) -> Any:
    """A mask as numbers to add, in the shape of scores (N, heads, target, source) or of their last axes."""
    samples, target, source = *op.output.shape[:2], op.source
    leaf = value.storage.leaf
    if isinstance(leaf, np.ndarray):
        return _to_add(np.asarray(leaf))
    numbers = b.get(value) if value.dtype == np.float32 else _hiding(b, b.get(value))
    if value.ndim == 3 and op.heads > 1 and is_same(value.shape[0], op.heads * samples):
        return b.reshaped(numbers, (samples, op.heads, target, source))
    if value.ndim == 3 and is_same(value.shape[0], samples):
        return b.reshaped(numbers, (samples, 1, target, source))
    return numbers


def _hiding(b: ProgramBuilder, flags: Value) -> Value:
    """Numbers to add to scores, where a flag other than 0 hides one."""
    hidden = b.floats(b("not_equal", x=flags, y=np.int32(0)))
    return b("mul", x=hidden, y=_LEAST)


def _causal(b: ProgramBuilder, target: AnySize, source: AnySize) -> Any:
    sizes = b.numbers((target, source), "a causal mask is written for known sizes")
    return np.where(np.triu(np.ones(sizes, np.bool_), 1), _LEAST, np.float32(0))


@writes(Attention)
def _attention(b: ProgramBuilder, op: Attention) -> None:
    if op.add_zero_attn:
        raise Refused("attention with a row of zeros is not written. Leave add_zero_attn out")
    weights: dict[str, Any] = {}
    for parameter, names in op.pieces:
        rows = len(parameter.data) // len(names)
        for i, name in enumerate(names):
            weights[name] = parameter.data[i * rows : (i + 1) * rows].astype(np.float32)
    if "key_attention_bias" in weights:
        raise Refused("attention with learned keys and values is not written. Leave add_bias_kv out")
    inputs = [b.get(op.inputs[place]) for place in op.places]
    (samples, target, width), source = op.output.shape, op.source
    assert isinstance(width, int), "weights have this size"
    each = width // op.heads
    projected = []
    for name, x, length in zip(("query", "key", "value"), inputs, (target, source, source), strict=True):
        bias = weights.get(f"{name}_bias", np.zeros(width, np.float32)).reshape(-1)
        y = b("linear", x=x, weight=weights[f"{name}_weights"], bias=bias)
        projected.append(_heads(b, y, (samples, length, op.heads, each)))
    masks = [_mask(b, op, value) for value in op.added]
    if op.causal:
        masks.append(_causal(b, target, source))
    if op.key_mask is not None:
        leaf = op.key_mask.storage.leaf
        flags = _to_add(leaf) if isinstance(leaf, np.ndarray) else _hiding(b, b.get(op.key_mask))
        masks.append(b.reshaped(flags, (op.key_mask.shape[0] if op.key_mask.ndim == 2 else 1, 1, 1, source)))
    q, k, v = projected
    y = _attended(b, q, k, v, masks, 1 / math.sqrt(each))
    joined = b.reshaped(b("transpose", x=y, perm=[0, 2, 1, 3]), op.output.shape)
    bias = weights.get("output_bias", np.zeros(width, np.float32)).reshape(-1)
    b.set(op.output, b("linear", x=joined, weight=weights["output_weights"], bias=bias))


@writes(Forbidden)
def _forbidden(b: ProgramBuilder, op: Forbidden) -> None:
    b.set(op.output, _hiding(b, b.get(op.inputs[0])))


@writes(AttentionHeads)
def _attention_heads(b: ProgramBuilder, op: AttentionHeads) -> None:
    q, k, v = (_part(b, part) for part in op.parts)
    masks = [] if op.added is None else [_to_add(op.added)]
    if op.causal:
        masks.append(_causal(b, op.parts[0].length, op.parts[1].length))
    y = _attended(b, q, k, v, masks, op.scale)
    if op.by_position:
        y = b("transpose", x=y, perm=[0, 2, 1, 3])
    b.set(op.output, b.reshaped(y, op.output.shape))


def _part(b: ProgramBuilder, part: Part) -> Value:
    """The heads of query, key or value, (N, heads, length, width)."""
    x, samples = b.get(part.value), part.value.shape[0]
    heads, length, width = part.heads, part.length, part.width
    if is_same(part.first, 0) and is_same(part.row, width):  # one head behind the other
        return b.reshaped(x, (samples, heads, length, width))
    if not is_same(part.head, width):
        raise Refused("its heads lie in memory as Core ML cannot say. Make them by a reshape and a permute")
    rows = b.reshaped(x, (samples, length, part.row))
    if not is_same(part.row, heads * width):
        rows = b(
            "slice_by_index", x=rows, begin=b.sizes([0, 0, part.first]), end=b.sizes([0, 0, part.first + heads * width]),
            begin_mask=[True, True, False], end_mask=[True, True, False],
        )  # fmt: skip
    return _heads(b, rows, (samples, length, heads, width))
