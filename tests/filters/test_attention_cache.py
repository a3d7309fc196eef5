"""Multihead attention: cache and workspace, interpretations of masks and layouts, dropout."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import openbnns as ob
from attention_checks import backward, check, forward, forward_workspace
from bad_calls import refused
from cases._base import created, succeed
from cases.attention import AttentionCase, AttentionRun
from helpers import assert_within
from openbnns import capi, compat

# ---------------------------------------------------------------------------------------------------------------------
# Cache and workspace


@pytest.mark.covers("mha.cacheq", "mha.wsq")
def test_size_queries_compute_nothing(engine: str) -> None:
    case = AttentionCase()
    run = AttentionRun(case, case.values())
    y = run.storage("o")
    for asks_cache, asks_work in ((True, False), (False, True), (True, True)):
        cache = ctypes.c_size_t(0) if asks_cache else None
        work = ctypes.c_size_t(0) if asks_work else None
        status = forward(run, output=y.elements, backprop_cache_size=cache, workspace_size=work)
        assert status == 0
        assert (cache is None or cache.value > 0) and (work is None or work.value > 0)
    y.assert_unchanged("output")
    single = replace(case, batch=1)
    assert AttentionRun(single, single.values()).sizes()[0] < run.sizes()[0]


@pytest.mark.parametrize("wrap", [ctypes.byref, ctypes.pointer], ids=["byref", "pointer"])
def test_size_pointers_as_c_programs_pass_them(wrap: Callable[[Any], Any]) -> None:
    case = AttentionCase()
    run, size = AttentionRun(case, case.values()), ctypes.c_size_t(0)
    assert forward(run, backprop_cache_size=wrap(size)) == 0
    assert size.value == run.sizes()[0]


@pytest.mark.covers("mha.bwd.ws")
@pytest.mark.parametrize("cached", [True, False])
def test_backward_workspace_query_computes_nothing(cached: bool, engine: str) -> None:
    case = AttentionCase()
    run = AttentionRun(case, case.values())
    cache = run.new_cache() if cached else None
    run.forward(cache)
    storages, size = run.results(case.gradients), ctypes.c_size_t(0)
    arguments = run.structs(storages) | {"workspace_size": size}
    arguments |= {"backprop_cache": cache, "backprop_cache_size": 0 if cache is None else cache.nbytes}
    succeed(backward(run, **arguments))
    assert size.value > 0
    for name, storage in storages.items():
        storage.assert_unchanged(name)
    for wrong in (size.value - 1, 0):
        refused(
            backward(
                run,
                **(arguments | {"workspace_size": ctypes.c_size_t(wrong), "workspace": np.zeros(1 << 20, np.uint8)}),
            ),
            f"needs {size.value}",
        )
    exact = np.full(size.value, 0xFF, np.uint8)
    succeed(backward(run, **(arguments | {"workspace": exact})))


def test_the_workspace_is_used() -> None:
    case = AttentionCase(batch=3, target=40, source=50)
    run = AttentionRun(case, case.values())
    workspace = forward_workspace(run, False)
    run.forward(None, workspace)
    assert np.mean(workspace != 0xFF) > 0.5
    workspace = run.backward_workspace(False)
    run.backward(run.results(case.gradients), None, workspace)
    assert np.mean(workspace != 0xFF) > 0.5


def test_workspace_and_cache_at_odd_addresses(engine: str) -> None:
    case = AttentionCase(attention_bias=True)
    values = case.values()
    y, gradients = case.expected(values)
    run = AttentionRun(case, values)
    cache = np.zeros(run.sizes()[0] + 1, np.uint8)[1:]
    work = np.zeros(forward_workspace(run, True).size + 3, np.uint8)[3:]
    out = run.forward(cache, work)
    assert_within(case.logical("o", out.read()), y, 1e-4, "output")
    storages = run.results(case.gradients)
    run.backward(storages, cache, np.zeros(run.backward_workspace(True).size + 5, np.uint8)[5:])
    for name in case.gradients:
        assert_within(run.read(name, storages[name]), gradients[name], 1e-4, name)


@pytest.mark.covers("mha.bwd.cache")
def test_the_cache_stands_in_for_the_inputs() -> None:
    """With a cache only the weight gradients need the inputs."""
    case = AttentionCase(attention_bias=True)
    values = case.values()
    _, gradients = case.expected(values)
    run = AttentionRun(case, values)
    cache = run.new_cache()
    run.forward(cache)
    names = [name for name in case.gradients if name not in ("dwq", "dwk", "dwv")]
    storages = run.results(names)
    run.backward(storages, cache, without="qkv")
    for name in names:
        assert_within(run.read(name, storages[name]), gradients[name], 1e-4, name)


@pytest.mark.parametrize("first,second", list(itertools.permutations(["native", "reference"])))
def test_a_cache_of_the_other_engine(first: str, second: str) -> None:
    for case in (AttentionCase(dropout=0.3, attention_bias=True), AttentionCase(batch=1, key=1, value=1, model=9)):
        values = case.values()
        _, gradients = case.expected(values)
        run = AttentionRun(case, values)
        cache, storages = run.new_cache(), run.results(case.gradients)
        with ob.engine(first):
            run.forward(cache)
        with ob.engine(second):
            run.backward(storages, cache, run.backward_workspace(True))
        for name in case.gradients:
            assert_within(run.read(name, storages[name]), gradients[name], 1e-4, name)


def test_strict_mode_fails_as_seen(engine: str) -> None:
    case = AttentionCase()
    with compat.using(attention_strict_cache=True):
        run = AttentionRun(case, case.values())
    storages = run.results(["dq"])
    arguments = run.structs(storages)
    refused(backward(run, **arguments), "attention_strict_cache")
    cache = run.new_cache()
    run.forward(cache)
    cached = {"backprop_cache": cache, "backprop_cache_size": cache.nbytes}
    work = run.backward_workspace(True)
    assert backward(run, **arguments, **cached, workspace=work, workspace_size=ctypes.c_size_t(work.nbytes)) == -1
    storages["dq"].assert_unchanged("dq")
    assert backward(run, **arguments, **cached) == 0


# ---------------------------------------------------------------------------------------------------------------------
# Readings


def test_dhk_in_the_order_of_keras(engine: str) -> None:
    case = AttentionCase(weights_layout=2)
    values = case.values()
    y, gradients = case.expected(values)
    run = AttentionRun(case, values)
    struct = run.struct()
    for name, holder in (("wq", struct.query), ("wk", struct.key), ("wv", struct.value)):
        holder.weights.data = np.ascontiguousarray(values[name].transpose(0, 2, 1), np.float32)  # [D][H][K]
    with compat.using(mha_dhk_keras_order=True):
        run.filter = created(capi.BNNSFilterCreateLayerMultiheadAttention(struct))
    out = run.forward()
    assert_within(case.logical("o", out.read()), y, 1e-4, "output")
    storages = run.results(case.gradients)
    run.backward(storages)
    actual = storages["dwq"].elements.reshape(case.model, case.heads, case.key).transpose(0, 2, 1)
    assert_within(actual.astype(np.float64), gradients["dwq"], 1e-4, "dwq")


def test_value_size_from_the_output() -> None:
    """With the switch d_value is d_model, and anything else contradicts it."""
    with compat.using(attention_value_size_from_output=True):
        case = AttentionCase(model=6, value=6)
        check(case)
        other = AttentionCase(model=6, value=2)
        run = AttentionRun.__new__(AttentionRun)
        with pytest.raises(AssertionError, match=r"d_value 6.*value\.weights"):
            run.__init__(other, other.values())  # type: ignore[misc]


@pytest.mark.parametrize("boolean", [False, True])
@pytest.mark.parametrize("by_key", [False, True])
def test_a_fully_masked_row_is_nan(boolean: bool, by_key: bool, engine: str) -> None:
    """Its output is NaN, and so are the gradients that it takes part in; or 0 with the switch."""
    case = AttentionCase(batch=2, key_mask=by_key, added=0 if by_key else 4, boolean=boolean)
    values = case.values()
    if by_key:
        values["mask"][1] = True
    else:
        values["added"][1, :, 2] = True if boolean else -np.inf
    y, gradients = case.expected(values)
    masked = np.isnan(y)
    assert masked[1].any() and not masked[0].any()
    run = AttentionRun(case, values)
    cache = run.new_cache()
    out = case.logical("o", run.forward(cache).read())
    assert_within(out, y, 1e-4, "output")
    storages = run.results(case.gradients)
    run.backward(storages, cache)
    for name in case.gradients:
        assert_within(run.read(name, storages[name]), gradients[name], 1e-4, name)

    with compat.using(attention_masked_rows_are_zero=True):
        run = AttentionRun(case, values)
    for cache in (run.new_cache(), None):
        out = case.logical("o", run.forward(cache).read())
        bias = np.broadcast_to(values["po"], y.shape)
        assert_within(out, np.where(masked, bias, y), 1e-4, "output with the switch")
        storages = run.results(case.gradients)
        run.backward(storages, cache)
        finite = {name: run.read(name, storages[name]) for name in case.gradients}
        assert all(np.isfinite(g).all() for g in finite.values())
        assert np.all(finite["dq"][masked] == 0.0)
        assert_within(finite["dq"][0], gradients["dq"][0], 1e-4, "dq of the other sample")


def test_appended_rows_are_never_masked(engine: str) -> None:
    """With everything masked, the attention bias row and the zero row share the weight."""
    case = AttentionCase(key_mask=True, attention_bias=True, zero_row=True)
    values = case.values()
    values["mask"][:] = True
    y, gradients = case.expected(values)
    assert np.isfinite(y).all()
    run = AttentionRun(case, values)
    assert_within(case.logical("o", run.forward().read()), y, 1e-4, "output")
    storages = run.results(case.gradients)
    run.backward(storages)
    for name in case.gradients:
        assert_within(run.read(name, storages[name]), gradients[name], 1e-4, name)


@pytest.mark.parametrize("scale", [1e4, 1e-30])
def test_extreme_scores(scale: float, engine: str) -> None:
    case = AttentionCase(target=20, source=300, model=16)
    values = case.values()
    values["wq"] = values["wq"] * np.float32(scale)
    values["wq"] = values["wq"].astype(np.float32).astype(np.float64)
    y, _ = case.expected(values)
    run = AttentionRun(case, values)
    assert_within(case.logical("o", run.forward().read()), y, 2e-2 if scale > 1 else 1e-4, "output")


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nan_and_infinity_spread_as_in_the_formula(bad: float) -> None:
    case = AttentionCase(batch=2, target=20, source=21)
    values = case.values()
    values["q"][1, 3, 0] = bad
    with np.errstate(all="ignore"):
        y, _ = case.expected(values)
    run = AttentionRun(case, values)
    out = case.logical("o", run.forward().read())
    assert np.array_equal(np.isnan(out), np.isnan(y)) and np.isnan(out[1, 3]).all() and not np.isnan(out[0]).any()


# ---------------------------------------------------------------------------------------------------------------------
# Dropout


@pytest.mark.covers("mha.dropout")
def test_dropout_keeps_the_mean_and_repeats_with_the_seed(engine: str) -> None:
    case = AttentionCase(1, 64, 64, 4, 2, 2, 2, biases="", dropout=0.25, seed=3)
    values = case.values()
    values["wq"] = np.zeros_like(values["wq"])  # uniform probabilities
    values["v"] = np.ones_like(values["v"])
    plain, _ = replace(case, dropout=0.0).expected(values)
    run = AttentionRun(case, values)
    first, second = (case.logical("o", run.forward().read()) for _ in range(2))
    assert abs((first / plain).mean() - 1.0) < 0.05
    assert not np.array_equal(first, second), "every forward call draws anew"
    assert np.array_equal(case.logical("o", AttentionRun(case, values).forward().read()), first)
    other = replace(case, seed=4)
    assert not np.array_equal(case.logical("o", AttentionRun(other, values).forward().read()), first)


@pytest.mark.parametrize("rate", [-0.5, 0.0, 1.0, 1.5, float("nan")])
def test_dropout_outside_its_range_is_none(rate: float, engine: str) -> None:
    case = AttentionCase(dropout=rate)
    plain = AttentionCase()
    values = plain.values()
    y, _ = plain.expected(values)
    assert_within(AttentionRun(case, values).forward().read(), y, 1e-4, "output")


def test_backward_uses_the_dropout_of_its_cache(engine: str) -> None:
    case = AttentionCase(dropout=0.5)
    values = case.values()
    run = AttentionRun(case, values)
    caches = [run.new_cache() for _ in range(3)]
    for cache in caches:
        run.forward(cache)
    for draw in (2, 0, 1):
        _, gradients = case.expected(values, draw)
        storages = run.results(case.gradients)
        run.backward(storages, caches[draw])
        for name in case.gradients:
            assert_within(run.read(name, storages[name]), gradients[name], 1e-4, f"{name} of call {draw}")
