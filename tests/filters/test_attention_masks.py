"""Masks of attention: what lies behind the last score that counts is left out, and results do not show it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import openbnns as ob
from attention_checks import parameters_of
from helpers import Array, assert_bitwise, assert_within, numbers
from openbnns import compat
from openbnns.parameters.attention import Options
from openbnns.reference import attention as reference

LENGTHS = [(1, 1), (1, 3), (5, 7), (7, 5), (16, 16), (33, 33), (61, 130), (130, 61), (70, 70), (300, 290), (61, 700)]
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "rows": {"add_bias_kv": True, "add_zero_attn": True},
    "widths": {"key_dim": 17, "value_dim": 5},
}


def key_mask(kind: str, batch: int, source: int) -> Array | None:
    if kind == "none":
        return None
    mask = np.random.default_rng(3).random((batch, source)) < 0.4
    if kind == "end":
        mask[:] = np.arange(source) >= np.arange(1, batch + 1)[:, None] * source // (batch + 1)
    mask[:, 0] = False
    return mask


def score_mask(kind: str, heads: int, target: int, source: int) -> Array | None:
    """Numbers, numbers with -infinity behind a place that differs from row to row, or flags in front of and behind it."""
    random = np.random.default_rng(4)
    ends = random.integers(1, source + 1, (heads, target, 1))
    if kind == "none":
        return None
    if kind == "numbers":
        return random.standard_normal((target, source)).astype(np.float32)
    behind = np.arange(source) >= ends
    if kind == "ends":
        return np.where(behind, np.float32(-np.inf), random.standard_normal((heads, target, source), np.float32))
    flags = behind[0] | (random.random((target, source)) < 0.3)
    flags[:, 0] = False
    return flags


def everything(
    layer: ob.MultiheadAttentionLayer, q: Array, k: Array, dy: Array, keys: Any, added: Any, causal: bool
) -> dict[str, Array]:
    """Output and gradients by the formulas."""
    target, source = q.shape[1], k.shape[1]
    x = np.zeros((target, source))
    if added is not None:
        x = x + (np.where(added, -np.inf, 0.0) if added.dtype == np.bool_ else added.astype(np.float64))
    if causal:
        x = x + np.where(np.triu(np.ones((target, source)), 1), -np.inf, 0.0)
    options = Options(zero_row=layer.add_zero_attn, masked_rows_are_zero=compat.switches.attention_masked_rows_are_zero)
    parameters, inputs = parameters_of(layer), [a.astype(np.float64) for a in (q, k, k)]
    y, cache = reference.forward(*inputs, parameters, options, keys, x)
    wanted = {"dq", "dk", "dv", "dwq", "dwk", "dwv"}
    gradients = reference.backward(*inputs, parameters, cache, dy.astype(np.float64), wanted)
    values = {"y": y, "query": gradients["dq"], "key": gradients["dk"] + gradients["dv"]}
    for name in ("query", "key", "value"):
        shape = layer.parameters[f"{name}_weights"].shape
        values[f"{name}_weights"] = gradients[f"dw{name[0]}"].transpose(2, 1, 0).reshape(shape)
    return values


def run(layer: ob.MultiheadAttentionLayer, q: Array, k: Array, dy: Array, **masks: Any) -> dict[str, Array]:
    y = layer.apply(q, k, **masks)
    gradients = layer.apply_backward(dy)
    names = ("query_weights", "key_weights", "value_weights")
    return {"y": y, "query": gradients.query, "key": gradients.key} | {n: gradients.parameters[n] for n in names}


@pytest.mark.covers("mha.mask", "mha.add2d", "mha.add3d", "mha.addbool")
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("scores", ["none", "numbers", "ends", "flags"])
@pytest.mark.parametrize("keys", ["none", "end", "gaps"])
@pytest.mark.parametrize("options", OPTIONS)
def test_all_masks_together(options: str, keys: str, scores: str, causal: bool) -> None:
    layer = ob.MultiheadAttentionLayer(8, 2, seed=4, **OPTIONS[options])
    for target, source in LENGTHS:
        q, k, dy = numbers(3, target, 8), numbers(3, source, 8, seed=1), numbers(3, target, 8, seed=2)
        padding, added = key_mask(keys, 3, source), score_mask(scores, 2, target, source)
        actual = run(layer, q, k, dy, key_padding_mask=padding, attn_mask=added, is_causal=causal)
        for name, values in everything(layer, q, k, dy, padding, added, causal).items():
            bound = 2e-5 * max(1.0, float(np.abs(values).max()))
            assert_within(actual[name].astype(np.float64), values, bound, f"{name} of {target} over {source}")


@pytest.mark.parametrize("causal", [False, True])
def test_the_reference_engine(causal: bool) -> None:
    layer = ob.MultiheadAttentionLayer(8, 2, seed=4)
    q, k, dy = numbers(3, 9, 8), numbers(3, 7, 8, seed=1), numbers(3, 9, 8, seed=2)
    padding, added = key_mask("end", 3, 7), score_mask("ends", 2, 9, 7)
    with ob.engine("reference"):
        actual = run(layer, q, k, dy, key_padding_mask=padding, attn_mask=added, is_causal=causal)
    for name, values in everything(layer, q, k, dy, padding, added, causal).items():
        assert_within(actual[name].astype(np.float64), values, 1e-5, name)


@pytest.mark.parametrize("zero", [False, True])
@pytest.mark.parametrize("masks", ["keys", "flags", "numbers", "both"])
def test_rows_that_see_nothing(masks: str, zero: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """NaN reaches all that it reaches in the formulas, or such a row reads nothing."""
    monkeypatch.setattr(compat.switches, "attention_masked_rows_are_zero", zero)
    layer = ob.MultiheadAttentionLayer(8, 2, seed=4)
    target, source = 70, 53
    q, k, dy = numbers(3, target, 8), numbers(3, source, 8, seed=1), numbers(3, target, 8, seed=2)
    padding = np.zeros((3, source), bool)
    padding[1, 20:] = True
    if masks in ("keys", "both"):
        padding[1] = True
    added: Any = None
    if masks in ("flags", "both"):
        added = np.triu(np.ones((target, source), bool), 1)
        added[41] = True
    if masks == "numbers":
        added = np.where(np.triu(np.ones((target, source)), 1), -np.inf, 0).astype(np.float32)
        added[[0, 69]] = -np.inf
    actual = run(layer, q, k, dy, key_padding_mask=padding, attn_mask=added, is_causal=masks == "keys")
    expected = everything(layer, q, k, dy, padding, added, masks == "keys")
    assert np.isnan(expected["y"]).any() != zero
    for name, values in expected.items():
        assert np.array_equal(np.isnan(actual[name]), np.isnan(values)), name
        bound = 2e-5 * max(1.0, float(np.nanmax(np.abs(values), initial=0.0)))
        assert_within(np.nan_to_num(actual[name].astype(np.float64)), np.nan_to_num(values), bound, name)


@pytest.mark.parametrize("lengths", [(70, 70), (600, 600)], ids=str)
@pytest.mark.parametrize("masks", ["causal", "end", "ends"])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_any_number_of_threads(masks: str, dropout: float, lengths: tuple[int, int]) -> None:
    target, source = lengths
    given: dict[str, Any] = {"is_causal": masks == "causal"}
    given["key_padding_mask"] = key_mask(masks if masks == "end" else "none", 1, source)
    given["attn_mask"] = score_mask(masks if masks == "ends" else "none", 2, target, source)
    q, k, dy = numbers(1, target, 8), numbers(1, source, 8, seed=1), numbers(1, target, 8, seed=2)
    before, results = ob.get_num_threads(), []
    try:
        for threads in (1, 2, 3, 64):
            ob.set_num_threads(threads)
            layer = ob.MultiheadAttentionLayer(8, 2, seed=4, dropout=dropout)
            results.append(run(layer, q, k, dy, **given))
    finally:
        ob.set_num_threads(before)
    for other in results[1:]:
        for name, values in results[0].items():
            assert_bitwise(other[name], values, name)


@pytest.mark.covers("mha.dropout")
@pytest.mark.parametrize("causal", [False, True])
def test_dropout_is_that_of_the_reference_engine(causal: bool) -> None:
    layers = [ob.MultiheadAttentionLayer(8, 2, seed=4, dropout=0.4) for _ in range(2)]
    for target, source in ((9, 7), (33, 33), (61, 130)):
        q, k, dy = numbers(3, target, 8), numbers(3, source, 8, seed=1), numbers(3, target, 8, seed=2)
        masks = {"key_padding_mask": key_mask("end", 3, source), "is_causal": causal}
        for _ in range(2):  # every call draws anew
            actual = run(layers[0], q, k, dy, **masks)
            with ob.engine("reference"):
                expected = run(layers[1], q, k, dy, **masks)
            assert layers[0].draws == layers[1].draws > 0
            for name, values in expected.items():
                bound = 3e-5 * max(1.0, float(np.abs(values).max()))
                assert_within(actual[name].astype(np.float64), values.astype(np.float64), bound, name)


def test_what_is_left_out_may_hold_anything() -> None:
    """Keys that no position sees are not looked at where they end the source."""
    layer = ob.MultiheadAttentionLayer(8, 2, seed=4)
    q, k, dy = numbers(1, 5, 8), numbers(1, 64, 8, seed=1), numbers(1, 5, 8, seed=2)
    expected = run(layer, q, k[:, :5].copy(), dy, is_causal=True)
    k[:, 16:] = np.nan
    actual = layer.apply(q, k, is_causal=True)
    assert_within(actual.astype(np.float64), expected["y"].astype(np.float64), 1e-6, "output")
