"""Multihead attention: every target position reads a weighted mean of the source positions, once per head.

Sizes: N batch, T target length, S source length, D model, K key, V value, H heads; S' = S plus the appended rows.
Per sample and head h, with rows as vectors:

    Qh = Q Wq[:,:,h] + pq[:,h]                                                    (T, K)
    Kh = K Wk[:,:,h] + pk[:,h],   Kt = [Kh; bk[:,h]; 0]                           (S, K), (S', K)
    Vh = V Wv[:,:,h] + pv[:,h],   Vt = [Vh; bv[:,h]; 0]                           (S, V), (S', V)
    R  = Qh Kt^T / sqrt(K),       then R[:, :S] += X, and -inf where the key is masked       (T, S')
    P  = softmax of the rows of R,   Pd = P * keep / (1 - dropout)
    Oh = Pd Vt,   output = concat_h(Oh) Wo + po                                   (T, V), (T, D)

The attention bias rows bk, bv and the zero row are optional; they are never masked and receive no X.

A row in which every key is masked has no softmax: its P is NaN, and with it the outputs and all gradients that it takes
part in; or 0, on request, so that the row reads nothing and passes no gradient. An empty source is read as 0.
"""

from __future__ import annotations

import math
from collections.abc import Set
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from ..parameters.attention import Options
from .activation import Array

Mask = npt.NDArray[np.bool_]

GRADIENTS: Final = frozenset({"dq", "dk", "dv", "dwq", "dwk", "dwv", "dwo", "dpq", "dpk", "dpv", "dpo", "dbk", "dbv"})
"""The thirteen gradients, each named after its tensor: inputs, projections, their biases, attention biases."""

_FROM_VALUES = frozenset({"dv", "dwv", "dpv", "dbv"})
_FROM_QUERIES = frozenset({"dq", "dwq", "dpq"})
_FROM_KEYS = frozenset({"dk", "dwk", "dpk", "dbk"})


@dataclass(frozen=True)
class Parameters:
    """Projections w with their biases p (None: no bias), and the attention bias rows bk, bv (both or neither).

    wq, wk (D, K, H), wv (D, V, H), wo (H*V, D), whose row h*V + v is component v of head h; pq, pk, bk (K, H),
    pv, bv (V, H), po (D,).
    """

    wq: Array
    wk: Array
    wv: Array
    wo: Array
    pq: Array | None = None
    pk: Array | None = None
    pv: Array | None = None
    po: Array | None = None
    bk: Array | None = None
    bv: Array | None = None


@dataclass(frozen=True)
class Cache:
    """The inputs of the backward: S, Qh, Kt, Vt, P, concat_h(Oh) and keep / (1 - dropout), which is None without dropout."""

    source: int
    queries: Array  # (N, H, T, K)
    keys: Array  # (N, H, S', K)
    values: Array  # (N, H, S', V)
    probabilities: Array  # (N, H, T, S')
    concatenated: Array  # (N, T, H*V)
    dropout_factor: Array | None  # (N, H, T, S')


# ---------------------------------------------------------------------------------------------------------------------
# Forward and backward


@np.errstate(all="ignore")
def forward(
    q: Array,
    k: Array,
    v: Array,
    parameters: Parameters,
    options: Options,
    key_mask: Mask | None = None,
    add_to_attention: Array | Mask | None = None,
    keep: Mask | None = None,
) -> tuple[Array, Cache]:
    """The output (N, T, D) and the cache for `backward`.

    q (N, T, D), k and v (N, S, D). key_mask (N, S) is true where a key is ignored. add_to_attention, X above, is
    (T, S), (H, T, S) or (N, H, T, S): numbers, or booleans that add -infinity where they are true. keep (N, H, T, S') is
    true where a probability survives dropout.
    """
    _check_rows(parameters)
    queries = _project(q, parameters.wq, parameters.pq)
    keys = _append_rows(_project(k, parameters.wk, parameters.pk), parameters.bk, options)
    values = _append_rows(_project(v, parameters.wv, parameters.pv), parameters.bv, options)

    scores = queries @ keys.swapaxes(2, 3) / math.sqrt(queries.shape[-1])
    _add_and_mask(scores[..., : k.shape[1]], add_to_attention, key_mask)
    probabilities = _softmax(scores, options.masked_rows_are_zero)
    factor = _dropout_factor(options, keep)

    concatenated = _concatenate(_dropped(probabilities, factor) @ values)
    output = concatenated @ parameters.wo
    if parameters.po is not None:
        output = output + parameters.po
    return output, Cache(k.shape[1], queries, keys, values, probabilities, concatenated, factor)


@np.errstate(all="ignore")
def backward(
    q: Array | None,
    k: Array | None,
    v: Array | None,
    parameters: Parameters,
    cache: Cache,
    do: Array,
    wanted: Set[str],
) -> dict[str, Array]:
    """The wanted ones among GRADIENTS, each in the shape of its tensor; do (N, T, D) is the gradient of the output.

        dpo = sum dO,   dWo = C^T dO,   dC = dO Wo^T          of output = C Wo + po,  C = concat_h(Oh)
        dVt = Pd^T dOh,   dP = (dOh Vt^T) keep/(1-dropout)    of Oh = Pd Vt
        dR  = P (dP - rowsum(dP P))                           of P = softmax(R)
        dQh = dR Kt / sqrt(K),   dKt = dR^T Qh / sqrt(K)      of R = Qh Kt^T / sqrt(K)
        dbk = row S of dKt,   dbv = row S of dVt,   rows 0 to S-1 are dKh and dVh
        dWq[:,:,h] = Q^T dQh,   dpq[:,h] = sum_t dQh,   dQ = sum_h dQh Wq[:,:,h]^T      the same for K and V

    Gradients of parameters are summed over the batch. q, k and v are read for dwq, dwk and dwv only. Without a cache,
    call `forward` again with the same masks.
    """
    _check_rows(parameters)
    gradients: dict[str, Array] = {}
    if "dpo" in wanted:
        gradients["dpo"] = do.sum(axis=(0, 1))
    if "dwo" in wanted:
        gradients["dwo"] = np.tensordot(cache.concatenated, do, axes=((0, 1), (0, 1)))
    if not wanted & (_FROM_VALUES | _FROM_QUERIES | _FROM_KEYS):
        return gradients

    heads_gradient = _split(do @ parameters.wo.T, heads=cache.queries.shape[1])
    if wanted & _FROM_VALUES:
        rows = _dropped(cache.probabilities, cache.dropout_factor).swapaxes(2, 3) @ heads_gradient
        gradients |= _rows_gradients("v", v, parameters.wv, parameters.bv, rows, cache.source, wanted)
    if wanted & (_FROM_QUERIES | _FROM_KEYS):
        scores_gradient = _scores_gradient(heads_gradient, cache) / math.sqrt(cache.queries.shape[-1])
        if wanted & _FROM_QUERIES:
            gradients |= _projection_gradients("q", q, parameters.wq, scores_gradient @ cache.keys, wanted)
        if wanted & _FROM_KEYS:
            rows = scores_gradient.swapaxes(2, 3) @ cache.queries
            gradients |= _rows_gradients("k", k, parameters.wk, parameters.bk, rows, cache.source, wanted)
    return gradients


# ---------------------------------------------------------------------------------------------------------------------
# Projections


def _project(x: Array, w: Array, p: Array | None) -> Array:
    """(N, H, L, K) from x (N, L, D), w (D, K, H), p (K, H)."""
    heads: Array = x[:, np.newaxis] @ w.transpose(2, 0, 1)
    return heads if p is None else heads + p.T[:, np.newaxis, :]


def _projection_gradients(name: str, x: Array | None, w: Array, dh: Array, wanted: Set[str]) -> dict[str, Array]:
    """The wanted gradients among d<name>, dw<name>, dp<name> from the gradient dh (N, H, L, K) of `_project`."""
    gradients: dict[str, Array] = {}
    if f"d{name}" in wanted:
        gradients[f"d{name}"] = np.einsum("nhlk,dkh->nld", dh, w, optimize=True)
    if f"dw{name}" in wanted:
        if x is None:
            raise ValueError(f"attention.backward: dw{name} needs the input {name}; got None.")
        gradients[f"dw{name}"] = np.einsum("nld,nhlk->dkh", x, dh, optimize=True)
    if f"dp{name}" in wanted:
        gradients[f"dp{name}"] = dh.sum(axis=(0, 2)).T
    return gradients


def _concatenate(heads: Array) -> Array:
    """(N, T, H*V) from (N, H, T, V)."""
    batch, count, target, value = heads.shape
    concatenated: Array = heads.swapaxes(1, 2).reshape(batch, target, count * value)
    return concatenated


def _split(concatenated: Array, heads: int) -> Array:
    """(N, H, T, V) from (N, T, H*V)."""
    batch, target, width = concatenated.shape
    split: Array = concatenated.reshape(batch, target, heads, width // heads).swapaxes(1, 2)
    return split


# ---------------------------------------------------------------------------------------------------------------------
# Appended rows


def _append_rows(heads: Array, bias: Array | None, options: Options) -> Array:
    """(N, H, S', K) from heads (N, H, S, K): first the attention bias (K, H), then zeros."""
    batch, count, _, width = heads.shape
    parts = [heads]
    if bias is not None:
        parts.append(np.broadcast_to(bias.T[:, np.newaxis, :], (batch, count, 1, width)))
    if options.zero_row:
        parts.append(np.zeros((batch, count, 1, width)))
    return np.concatenate(parts, axis=2)


def _rows_gradients(
    name: str, x: Array | None, w: Array, bias: Array | None, rows: Array, source: int, wanted: Set[str]
) -> dict[str, Array]:
    """The gradients of `_project` and of the attention bias, from the gradient of all rows (N, H, S', K)."""
    gradients = _projection_gradients(name, x, w, rows[:, :, :source], wanted)
    if f"db{name}" in wanted:
        if bias is None:
            raise ValueError(f"attention.backward: db{name} is wanted, but there is no attention bias b{name}.")
        gradients[f"db{name}"] = rows[:, :, source].sum(axis=0).T
    return gradients


def _check_rows(parameters: Parameters) -> None:
    if (parameters.bk is None) != (parameters.bv is None):
        given, missing = ("bv", "bk") if parameters.bk is None else ("bk", "bv")
        raise ValueError(
            f"attention: there is an attention bias {given} but no {missing}; a row needs both a key and a value. "
            "Pass both or neither."
        )


# ---------------------------------------------------------------------------------------------------------------------
# Scores and probabilities


def _add_and_mask(scores: Array, added: Array | Mask | None, key_mask: Mask | None) -> None:
    """Changes the scores (N, H, T, S) in place; added broadcasts from the back, key_mask is (N, S)."""
    if added is not None:
        scores += np.where(added, -np.inf, 0.0) if added.dtype == np.bool_ else added
    if key_mask is not None:
        np.copyto(scores, -np.inf, where=key_mask[:, np.newaxis, np.newaxis, :])


def _softmax(scores: Array, masked_rows_are_zero: bool) -> Array:
    """The softmax of every row, shifted by its largest score; a row of nothing but -inf is 0/0, or 0 on request."""
    largest: Array = np.max(scores, axis=-1, keepdims=True, initial=-np.inf)
    masked = largest == -np.inf
    exponentials = np.exp(scores - np.where(masked, 0.0, largest))
    probabilities: Array = exponentials / np.sum(exponentials, axis=-1, keepdims=True)
    return np.where(masked, 0.0, probabilities) if masked_rows_are_zero else probabilities


def _scores_gradient(heads_gradient: Array, cache: Cache) -> Array:
    """dR (N, H, T, S') from dOh (N, H, T, V)."""
    p = cache.probabilities
    dp = _dropped(heads_gradient @ cache.values.swapaxes(2, 3), cache.dropout_factor)
    gradient: Array = p * (dp - np.sum(dp * p, axis=-1, keepdims=True))
    return gradient


def _dropout_factor(options: Options, keep: Mask | None) -> Array | None:
    if not 0.0 < options.dropout < 1.0:
        return None
    if keep is None:
        raise ValueError(f"attention.forward: dropout = {options.dropout} needs the mask keep; got None.")
    return keep / (1.0 - options.dropout)


def _dropped(values: Array, factor: Array | None) -> Array:
    return values if factor is None else values * factor
