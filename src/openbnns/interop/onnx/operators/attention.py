"""Attention, as ONNX has it from version 23 on."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....graph import functions as F
from ....graph.tensor import Tensor
from ...converted.functions import Forbid
from ...converted.tensors import ForeignTensor, Misfit
from .._call import Call
from .._operator import operator
from .cells import SEQUENCES


class _Heads:
    """Query, key or value as (N, heads, length, width)."""

    def __init__(self, call: Call, x: ForeignTensor, name: str) -> None:
        value, self.flat = x.numbers, x.rank == 3
        if self.flat:
            heads = call.integer(name)
            samples, length, width = value.shape
            if heads < 1 or width % heads:
                raise Misfit(f"{width} features are not those of {heads} heads")
            value = F.permute(value.reshape((samples, length, heads, width // heads)), 0, 2, 1, 3)
        if value.ndim != 4:
            raise Misfit(f"{x.shape} is not a query, key or value")
        self.value = value


@operator(SEQUENCES, "Attention", ignores=("q_num_heads", "kv_num_heads", "softmax_precision"))
def attention(
    call: Call, query: ForeignTensor, key: ForeignTensor, value: ForeignTensor, mask: ForeignTensor | None = None, past_key:
    ForeignTensor | None = None, past_value: ForeignTensor | None = None, lengths: ForeignTensor | None = None,
) -> Any:  # fmt: skip
    q, k, v = (_Heads(call, x, f"{name}_num_heads") for x, name in ((query, "q"), (key, "kv"), (value, "kv")))
    keys, values, before = k.value, v.value, 0
    if past_key is not None and past_value is not None:
        before = int(past_key.shape[2])
        keys, values = F.cat([past_key.numbers, keys], 2), F.cat([past_value.numbers, values], 2)
    present = keys, values
    groups, left = divmod(int(q.value.shape[1]), int(keys.shape[1]))
    if left or q.value.shape[3] != keys.shape[3] or keys.shape[1:3] != values.shape[1:3]:
        raise Misfit(f"query {query.shape}, key {key.shape} and value {value.shape} do not fit together")
    if groups > 1:
        keys, values = (_repeated(x, groups) for x in (keys, values))
    scale, softcap = call.number("scale", 1 / math.sqrt(q.value.shape[3])), call.number("softcap", 0.0)
    plain_causal = call.integer("is_causal", 0) and not (before or mask or lengths or softcap or call.outputs > 3)
    windows = call.integer("left_window_size", -1), call.integer("right_window_size", -1)
    mode = call.integer("qk_matmul_output_mode", 0)
    added: Any = None
    if not plain_causal or max(windows) >= 0:
        plain_causal = False
        added = _everything_added(call, windows, mask, lengths, q.value, keys, before)
    empty = isinstance(added, np.ndarray) and np.isneginf(added).all(-1).any()
    if call.outputs <= 3 and not softcap and not empty and not isinstance(added, Tensor):
        y = F.scaled_dot_product_attention(q.value, keys, values, added, 0.0, bool(plain_causal), scale)
        return _results(call, q, y, present, None)
    scores = F.mul(F.matmul(q.value, F.transpose(keys, -1, -2)), scale)
    if softcap:
        scores = F.mul(F.tanh(F.div(scores, softcap)), softcap)
    masked = scores if added is None else F.add(scores, added)
    weights = F.softmax(masked, -1)
    if added is not None:
        weights = _without_empty_rows(weights, added)
    shown = [scores, scores, masked, weights][mode % 4]
    return _results(call, q, F.matmul(weights, values), present, shown)


def _without_empty_rows(weights: Any, added: Any) -> Any:
    """Zeros where a position may look at none."""
    if isinstance(added, np.ndarray):
        seen: Any = ~np.isneginf(added).all(-1, keepdims=True)
        return weights if seen.all() else F.where(seen, weights, 0.0)
    largest = F.amax(F.detach(added), -1, True)
    return F.where(F.gt(largest, np.float32(-np.inf)), weights, 0.0)


def _everything_added(
    call: Call, windows: tuple[int, int], mask: ForeignTensor | None, lengths: ForeignTensor | None, q: Tensor, k: Tensor, before:
    int,
) -> Any:  # fmt: skip
    """All masks as numbers to add to the scores (N, heads, T, S): an array, a value, or None."""
    if not call.integer("is_causal", 0) and max(windows) < 0 and lengths is None:
        return None if mask is None else _mask(mask, k)
    i, j = np.arange(int(q.shape[2]))[:, None], np.arange(int(k.shape[2]))[None, :]
    least, most = [], []  # of the position of the first query, for a pair to be allowed
    if call.integer("is_causal", 0):
        least.append(j - i)
    if windows[0] >= 0:
        most.append(windows[0] + j - i)
    if windows[1] >= 0:
        least.append(j - i - windows[1])
    parts: list[Any] = [] if mask is None else [_mask(mask, k)]
    if lengths is None:
        for matrix, allowed in [*((m, before >= m) for m in least), *((m, before <= m) for m in most)]:
            parts.append(np.where(np.broadcast_to(allowed, matrix.shape), np.float32(0), np.float32(-np.inf)))
    else:
        counts = lengths.numbers.reshape((lengths.shape[0], 1, 1, 1))
        rules = [(j + 1 + 0 * i, "ge"), *((m + len(i), "ge") for m in least), *((m + len(i), "le") for m in most)]
        parts += [Forbid.apply(getattr(F, name)(counts, m.astype(np.float32))) for m, name in rules]
    if not parts:
        return None
    total = parts[0]
    for part in parts[1:]:
        plain = isinstance(total, np.ndarray) and isinstance(part, np.ndarray)
        total = total + part if plain else F.add(total, part)
    if isinstance(total, np.ndarray) and total.ndim < 2:
        total = np.broadcast_to(total, (len(i), j.shape[1])).copy()
    return total


def _repeated(x: Tensor, groups: int) -> Tensor:
    """Every head so many times, one after the other."""
    samples, heads, length, width = x.shape
    wide = F.expand(x.reshape((samples, heads, 1, length, width)), samples, heads, groups, length, width)
    return wide.reshape((samples, heads * groups, length, width))  # type: ignore[no-any-return]


def _mask(mask: ForeignTensor, k: Tensor) -> Any:
    """The mask that is added to the scores (N, heads, T, S)."""
    if mask.rank > 4 or mask.rank < 1:
        raise Misfit(f"a mask {mask.shape} has no counterpart here")
    if mask.constant:
        array = mask.held if mask.kind != "b" else np.where(mask.held, np.float32(0), np.float32(-np.inf))
        array = array.astype(np.float32)
        missing = int(k.shape[2] - array.shape[-1])
        if missing > 0:  # what is not there is forbidden
            array = np.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, missing)], constant_values=-np.inf)
        return array[0] if array.ndim == 4 and array.shape[0] == 1 else array
    value = mask.numbers if mask.kind == "f" else Forbid.apply(mask.value)
    missing = int(k.shape[2] - mask.shape[-1])
    return F.pad(value, (0, missing), value=-math.inf) if missing > 0 else value  # what is not there is forbidden


def _results(call: Call, q: _Heads, y: Any, present: tuple[Any, Any], scores: Any) -> Any:
    if q.flat:
        samples, heads, length, width = y.shape
        y = F.permute(y, 0, 2, 1, 3).reshape((samples, length, heads * width))
    parts = [y, *present, *([] if scores is None else [scores])]
    return tuple(map(ForeignTensor, parts[: max(1, call.outputs)]))
