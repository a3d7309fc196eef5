"""Multihead attention and transformers by their formulas, head by head, in float64."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

Array = Any


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attention(
    q: Array,
    k: Array,
    v: Array,
    p: Mapping[str, Array],
    heads: int,
    added: Array,
    *,
    zero: bool = False,
    start: str = "",
) -> tuple[Array, Array]:
    """Output (N, T, D) and weights (N, heads, T, S'); ``added`` (N, heads, T, S) is added to the scores of the keys."""
    d = q.shape[-1]
    if f"{start}in_proj_weight" in p:
        w = np.split(p[f"{start}in_proj_weight"], 3)
    else:
        w = [p[f"{start}{name}_proj_weight"] for name in "qkv"]
    b = np.split(p.get(f"{start}in_proj_bias", np.zeros(3 * d)), 3)
    q, k, v = (x @ m.T + c for x, m, c in zip((q, k, v), w, b, strict=True))
    if f"{start}bias_k" in p:
        k, v = (
            np.concatenate([x, np.tile(p[f"{start}bias_{name}"], (len(x), 1, 1))], 1)
            for x, name in ((k, "k"), (v, "v"))
        )
    if zero:
        k, v = (np.concatenate([x, np.zeros((len(x), 1, d))], 1) for x in (k, v))
    outputs, weights = [], []
    for h in range(heads):
        part = slice(h * d // heads, (h + 1) * d // heads)
        scores = q[..., part] @ k[..., part].swapaxes(1, 2) / math.sqrt(d // heads)
        scores[..., : added.shape[-1]] += added[:, h]
        weights.append(softmax(scores))
        outputs.append(weights[-1] @ v[..., part])
    y = np.concatenate(outputs, -1) @ p[f"{start}out_proj.weight"].T + p.get(f"{start}out_proj.bias", 0)
    return y, np.stack(weights, 1)
