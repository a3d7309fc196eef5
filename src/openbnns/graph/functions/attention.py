"""Attention without projections."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import operations
from ..checks import probability
from ..sizes import is_same, is_same_shape
from ..tensor import Array, Tensor
from .activations import softmax
from .base import TensorLike, function, numbers
from .elementwise import add, where
from .products import matmul, product
from .random_numbers import dropout
from .shapes import permute, transpose

__all__ = ["scaled_dot_product_attention"]

_WHO = "scaled_dot_product_attention"


@function
def scaled_dot_product_attention(
    query: TensorLike,
    key: TensorLike,
    value: TensorLike,
    attn_mask: TensorLike = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
) -> Any:
    """softmax(query keyᵀ scale + mask) value over the last two axes, (..., T, D) with (..., S, D).

    ``attn_mask`` is added to the scores; one of booleans says which of them take part. Of a mask that is an input of the
    network, write ``mask.bool()``: the network is recorded before it is known whether there are booleans. ``is_causal``
    lets every position see those before it and itself. ``scale`` is 1 / sqrt(D) if left out.

    Where query, key and value have the same axes in front, and the mask is an array, all of it is one operation, which
    neither keeps the scores nor computes those that are masked at the end of their row. Heads that were split and
    transposed, ``x.reshape(n, t, h, d).transpose(1, 2)``, are read where they lie.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> x = np.ones((2, 4, 5, 8), np.float32)
    >>> nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True).shape
    (2, 4, 5, 8)
    """
    q, k, v = numbers(query, _WHO), numbers(key, _WHO), numbers(value, _WHO)
    if min(q.ndim, k.ndim) < 2:
        raise ValueError(f"{_WHO}: query {q.shape} and key {k.shape} must end in (positions, features).")
    rate = probability(dropout_p, f"{_WHO}: dropout_p")
    if is_causal and attn_mask is not None:
        raise ValueError(f"{_WHO}: is_causal is a mask of its own. Leave attn_mask out, or put both into it.")
    rate = 0.0 if q.graph.own_mode is False else float(dropout_p)
    factor = 1.0 / math.sqrt(q.shape[-1]) if scale is None else float(scale)
    if rate < 1 and _fit(q, k, v) and factor > 0 and (attn_mask is None or isinstance(attn_mask, np.ndarray)):
        forbidden = None if attn_mask is None else _mask(attn_mask, q, k)
        if attn_mask is None or forbidden is not None:
            return _heads(q, k, v, factor, forbidden, bool(is_causal), rate)
    scores: Any = product(q, transpose(k, -1, -2), factor)
    if is_causal:
        attn_mask = np.tril(np.ones((int(q.shape[-2]), int(k.shape[-2])), np.bool_))
    if attn_mask is not None:
        if isinstance(attn_mask, np.ndarray) and attn_mask.dtype == np.bool_:
            attn_mask = np.where(attn_mask, np.float32(0), np.float32(-np.inf))
        elif isinstance(attn_mask, Tensor) and attn_mask.is_mask:
            attn_mask = where(attn_mask, 0.0, -np.inf)
        elif isinstance(attn_mask, Tensor):
            q.graph.adds_to_scores(attn_mask)
        scores = add(scores, attn_mask)
    weights = softmax(scores, -1)
    return matmul(dropout(weights, rate) if rate else weights, v)


def _fit(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """True if the operation supports these inputs: matching heads and sizes, and contiguous arrays."""
    if min(q.ndim, k.ndim, v.ndim) < 3 or any(is_same(n, 0) for x in (q, k, v) for n in x.shape):
        return False
    leaves = [x.storage.leaf for x in (q, k, v)]
    plain = all(leaf.flags.c_contiguous for leaf in leaves if isinstance(leaf, np.ndarray))
    heads = is_same_shape(q.shape[:-2], k.shape[:-2]) and is_same_shape(k.shape[:-1], v.shape[:-1])
    return plain and heads and is_same(q.shape[-1], k.shape[-1])


def _mask(mask: Array, q: Tensor, k: Tensor) -> Array | None:
    """A mask of all samples as the operation takes it; None if it is not one."""
    whole = (int(q.shape[-2]), int(k.shape[-2]))
    leading = tuple(map(int, q.shape[1:-2]))
    while mask.ndim > 2 and mask.shape[0] == 1:
        mask = mask[0]
    if mask.dtype != np.bool_ and mask.dtype != np.float32:
        return None
    forbidden = np.logical_not(mask) if mask.dtype == np.bool_ else mask
    if forbidden.ndim <= 2:
        small = np.broadcast_shapes(forbidden.shape, whole) == whole
        return np.ascontiguousarray(np.broadcast_to(forbidden, whole)) if small else None
    if forbidden.ndim - 2 > len(leading) or np.broadcast_shapes(forbidden.shape, (*leading, *whole)) != (
        *leading,
        *whole,
    ):
        return None
    return np.ascontiguousarray(np.broadcast_to(forbidden, (*leading, *whole))).reshape(-1, *whole)


def _heads(q: Tensor, k: Tensor, v: Tensor, scale: float, added: Array | None, causal: bool, rate: float) -> Tensor:
    operation = operations.AttentionHeads(q.graph, operations.parts_of([q, k, v]), scale, added, causal, rate)
    y = q.graph.append(operation)
    if operation.by_position and q.ndim == 4:
        result: Tensor = permute(y, 0, 2, 1, 3)
        return result
    return y.reshape((*q.shape[:-1], v.shape[-1]))
