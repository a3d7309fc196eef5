"""Multihead attention: every option and gradient against the formulas, both engines; memory, masks, bad input."""

from __future__ import annotations

import ctypes
import itertools
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openbnns as ob
from cases._base import created, succeed
from cases.attention import CASES, PARAMETERS, TARGETS, AttentionCase, AttentionRun, random_case
from helpers import FIRST_MAJOR_2D, FIRST_MAJOR_3D, FLOAT16, VECTOR, Array, Tensor, assert_bitwise, assert_within
from openbnns import capi, compat, engines

OBSERVED = json.loads((Path(__file__).parent / "data" / "observed_cases.json").read_text(encoding="utf-8"))["cases"]


# ---------------------------------------------------------------------------------------------------------------------
# Values and gradients


def check(case: AttentionCase, wanted: list[str] | None = None) -> None:
    """Output and gradients against float64; nothing else is read or written."""
    values = case.values()
    y, gradients = case.expected(values)
    run = AttentionRun(case, values)
    cache = run.new_cache() if case.cached else None
    workspace = None
    if case.workspace:
        workspace = forward_workspace(run, case.cached)
    out = run.forward(cache, workspace)
    assert_within(case.logical("o", out.read()), y, case.bound("y", y, gradients), "output")
    out.assert_guards_intact("output")
    names = case.gradients if wanted is None else wanted
    storages = run.results(names)
    kept = None if cache is None else cache.copy()
    run.backward(storages, cache, run.backward_workspace(case.cached) if case.workspace else None)
    for name in names:
        actual = run.read(name, storages[name])
        assert_within(actual, gradients[name], case.bound(name, gradients[name], gradients), name)
        storages[name].assert_guards_intact(name)
    for name, storage in (run.inputs | run.parameters).items():
        storage.assert_unchanged(name)
    if cache is not None and kept is not None:
        assert_bitwise(cache, kept, "the cache after backward")


def forward_workspace(run: AttentionRun, cached: bool) -> Array:
    """A workspace of exactly the size that the forward call asks for."""
    size = ctypes.c_size_t(0)
    cache = np.empty(1, np.float32) if cached else None
    nothing = (None, 0)
    succeed(
        capi.BNNSApplyMultiheadAttention(
            run.filter, run.case.batch, *nothing, *nothing, *nothing, *nothing, *nothing, None, None, cache, size, None
        )
    )
    assert size.value > 0
    return np.full(size.value, 0xFF, np.uint8)


GRADIENT_ROWS = ("dQ", "dK", "dV", "dWq", "dWk", "dWv", "dpq", "dpk", "dpv", "dWo", "dpo", "cache")
ROWS: dict[str, tuple[str, ...]] = {
    "plain": ("mha.fwd", "mha.cross", "mha.dkdv", "mha.pbias", *(f"mha.bwd.{name}" for name in GRADIENT_ROWS)),
    "no bias": ("mha.fwd",),
    "attention bias": ("mha.attnbias", "mha.bwd.dbk", "mha.bwd.dbv"),
    "zero row": ("mha.zero",),
    "key mask": ("mha.mask", "mha.batch"),
    "added 2": ("mha.add2d",),
    "added 3": ("mha.add3d",),
    "added 4": ("mha.add4d",),
    "boolean 2": ("mha.addbool",),
    "boolean 3": ("mha.addbool",),
    "boolean 4": ("mha.addbool",),
    "dropout": ("mha.dropout",),
    "dhk": ("layout.MHA_DHK",),
    "everything": ("mha.batch", "mha.bwd.stride2"),
}


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.covers(*ROWS.get(n, ("mha.fwd",)))) for n in CASES])
def test_cases(name: str, engine: str) -> None:
    check(CASES[name])


@pytest.mark.covers("mha.bwd.nocache")
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.dropout])
def test_without_a_cache(name: str, engine: str) -> None:
    check(replace(CASES[name], cached=False))


@pytest.mark.covers("mha.fwd", "mha.cross", "mha.dkdv", "mha.batch", "mha.bwd.stride2", "mha.bwd.ws")
@pytest.mark.parametrize("seed", range(150))
def test_random_configurations(seed: int, engine: str) -> None:
    check(random_case(seed))


@pytest.mark.covers("mha.bwd.nullskip")
@pytest.mark.parametrize("seed", range(60))
def test_any_choice_of_gradients(seed: int, engine: str) -> None:
    """Gradients that are not asked for change nothing about the others."""
    case = random_case(1000 + seed)
    random = np.random.default_rng(seed)
    names = [name for name in case.gradients if random.random() < 0.35]
    check(case, names or ["dpo"] if "o" in case.biases else names or ["dwo"])


@pytest.mark.covers("mha.bwd.nullskip")
@pytest.mark.parametrize("cached", [True, False])
def test_each_gradient_alone_is_bitwise_the_same(cached: bool) -> None:
    case = AttentionCase(attention_bias=True, zero_row=True, key_mask=True, target=20, source=33)
    run = AttentionRun(case, case.values())
    cache = run.new_cache()
    run.forward(cache)
    given = cache if cached else None
    together = run.results(case.gradients)
    run.backward(together, given)
    for name in case.gradients:
        alone = run.results([name])
        run.backward(alone, given)
        assert_bitwise(alone[name].raw(), together[name].raw(), name)


def test_absent_biases_have_gradients_too(engine: str) -> None:
    """A bias of zero and no bias give the same gradient."""
    case = AttentionCase(biases="qkvo")
    values = case.values()
    for name in ("pq", "pk", "pv", "po"):
        values[name] = np.zeros_like(values[name])
    _, gradients = case.expected(values)
    without = replace(case, biases="")
    run = AttentionRun(without, {name: v for name, v in values.items() if not name.startswith("p")})
    names = ["dpq", "dpk", "dpv", "dpo"]
    storages = run.results(names)
    run.backward(storages)
    for name in names:
        assert_within(run.read(name, storages[name]), gradients[name], 1e-4, name)


@pytest.mark.covers("mha.bwd.accum")
@pytest.mark.parametrize("seed", range(40))
def test_accumulate_adds_to_what_was_there(seed: int, engine: str) -> None:
    case = random_case(2000 + seed)
    values = case.values()
    _, gradients = case.expected(values)
    run = AttentionRun(case, values)
    cache = run.new_cache() if case.cached else None
    run.forward(cache)
    random = np.random.default_rng(seed)
    old = {name: random.standard_normal(g.shape).astype(np.float32).astype(np.float64) for name, g in gradients.items()}
    storages = run.results(case.gradients, old)
    run.backward(storages, cache, flags=1)
    for name in case.gradients:
        expected = old[name] + gradients[name]
        assert_within(run.read(name, storages[name]), expected, case.bound(name, expected, gradients), name)
        storages[name].assert_guards_intact(name)


@pytest.mark.covers("mha.bwd.shared")
@pytest.mark.parametrize("shared", [("dq", "dk", "dv"), ("dk", "dv"), ("dq", "dv"), ("dq", "dk")])
@pytest.mark.parametrize("flags", [0, 1])
@pytest.mark.parametrize("layout", [0, 1])
@pytest.mark.parametrize("gap", [0, 3])
def test_shared_targets_receive_the_sum(
    shared: tuple[str, ...], flags: int, layout: int, gap: int, engine: str
) -> None:
    case = AttentionCase(target=6, source=6, target_layout=layout, gap=gap)
    values = case.values()
    _, gradients = case.expected(values)
    run = AttentionRun(case, values)
    old = {name: np.full(g.shape, 0.5) for name, g in gradients.items()}
    storages = run.results(case.gradients, old)
    for name in shared[1:]:
        storages[name] = storages[shared[0]]
    run.backward(storages, flags=flags)
    expected = sum(gradients[name] for name in shared) + 0.5 * flags
    assert_within(run.read(shared[0], storages[shared[0]]), expected, 1e-4, "sum")
    for name in set(case.gradients) - set(shared):
        assert_within(run.read(name, storages[name]), gradients[name] + 0.5 * flags, 1e-4, name)


def test_the_first_of_shared_targets_decides_about_the_old_content(engine: str) -> None:
    """Set for the query and Accumulate for key and value: overwritten with the sum, as three calls would."""
    case = AttentionCase(target=4, source=4)
    values = case.values()
    _, gradients = case.expected(values)
    run = AttentionRun(case, values)
    storages = run.results(TARGETS)
    storages["dk"] = storages["dv"] = storages["dq"]
    arguments = run.structs(storages)
    arguments["key_param_delta"].target_desc.flags = 1
    arguments["value_param_delta"].target_desc.flags = 1
    succeed(backward(run, **arguments))
    expected = gradients["dq"] + gradients["dk"] + gradients["dv"]
    assert_within(run.read("dq", storages["dq"]), expected, 1e-4, "sum")


def backward(run: AttentionRun, **changes: Any) -> int:
    """The backward call with some arguments replaced."""
    arguments: dict[str, Any] = {
        "F": run.filter, "batch_size": run.case.batch, "output": None, "output_stride": 0, "backprop_cache_size": 0,
        "backprop_cache": None, "workspace_size": None, "workspace": None, "query_param_delta": None,
        "key_param_delta": None, "value_param_delta": None, "key_attn_bias_delta": None, "value_attn_bias_delta": None,
    }  # fmt: skip
    for name, argument in (("q", "query"), ("k", "key"), ("v", "value")):
        arguments[argument], arguments[f"{argument}_stride"] = run.inputs[name].elements, run.inputs[name].stride
    arguments |= run.masks | {"output_param_delta": run.structs({})["output_param_delta"]} | changes
    return capi.BNNSApplyMultiheadAttentionBackward(**arguments)


def forward(run: AttentionRun, **changes: Any) -> int:
    """The forward call with some arguments replaced."""
    y = run.storage("o")
    arguments: dict[str, Any] = {
        "F": run.filter, "batch_size": run.case.batch, "output": y.elements, "output_stride": y.stride,
        "backprop_cache_size": None, "backprop_cache": None, "workspace_size": None, "workspace": None,
    }  # fmt: skip
    for name, argument in (("q", "query"), ("k", "key"), ("v", "value")):
        arguments[argument], arguments[f"{argument}_stride"] = run.inputs[name].elements, run.inputs[name].stride
    return capi.BNNSApplyMultiheadAttention(**(arguments | run.masks | changes))


def test_gradients_in_another_layout(engine: str) -> None:
    """A gradient descriptor may have any layout that its parameter could have."""
    case = AttentionCase(weights_layout=0, bias_layout=0, target_layout=0)
    other = replace(case, weights_layout=1, bias_layout=1, target_layout=2, pad=2)
    values = case.values()
    _, gradients = case.expected(values)
    run, form = AttentionRun(case, values), AttentionRun(other, values)
    storages = form.results(case.gradients)
    arguments = form.structs(storages)
    arguments["output_param_delta"].target_desc = run.structs({})["output_param_delta"].target_desc
    succeed(backward(run, **arguments))
    for name in case.gradients:
        assert_within(form.read(name, storages[name]), gradients[name], 1e-4, name)


@pytest.mark.covers(
    "fn.BNNSFilterCreateLayerMultiheadAttention",
    "fn.BNNSApplyMultiheadAttention",
    "fn.BNNSApplyMultiheadAttentionBackward",
)
def test_observed(engine: str) -> None:
    """The values seen on hardware."""
    found = {case["id"]: case for case in OBSERVED if case["id"].startswith("mha")}
    given, expected = found["mha_scalar"]["inputs"], found["mha_scalar_backward"]["expected"]
    case = AttentionCase(1, 1, 1, 1, 1, 1, 1, biases="")
    values = {name: np.full((1, 1, 1), given[name]) for name in "qkv"}
    values |= {name: np.full((1, 1, 1), given[name]) for name in ("wq", "wk", "wv")}
    values |= {"wo": np.full((1, 1), given["wo"])}
    values["do"] = np.full((1, 1, 1), found["mha_scalar_backward"]["inputs"]["dO"])
    run = AttentionRun(case, values)
    cache = run.new_cache()
    assert run.forward(cache).read().item() == pytest.approx(found["mha_scalar"]["expected"]["y"], abs=1e-5)
    storages = run.results(case.gradients)
    run.backward(storages, cache)
    for name, number in expected.items():
        assert storages[name].read().item() == pytest.approx(number, abs=1e-5), name


def test_staged_element_types(engine: str) -> None:
    """Forward on float16; training is for float32."""
    case = AttentionCase(client=False)
    values = case.values()
    y, _ = case.expected({name: v.astype(np.float16).astype(np.float64) for name, v in values.items()})
    run = AttentionRun(case, values)
    struct = run.struct()
    arrays = {name: values[name].astype(np.float16) for name in case.names}
    for name in case.names:
        holder = {"q": struct.query, "k": struct.key, "v": struct.value, "o": struct.output}[name[1]]
        member = holder.weights if name.startswith("w") else holder.bias
        member.data, member.data_type = arrays[name], FLOAT16
    for holder in (struct.query, struct.key, struct.value, struct.output):
        holder.target_desc.data_type = FLOAT16
    run.filter = created(capi.BNNSFilterCreateLayerMultiheadAttention(struct))
    out = np.zeros((case.batch, case.target, case.model), np.float16)
    inputs = {n: values[k].astype(np.float16) for n, k in (("query", "q"), ("key", "k"), ("value", "v"))}
    succeed(forward(run, output=out, output_stride=0, **inputs))
    assert_within(out.astype(np.float64), y, 2e-2, "output")
    assert backward(run) == -1
    assert "training works on Float32 only" in (ob.last_error() or "")


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
        assert (
            backward(
                run,
                **(arguments | {"workspace_size": ctypes.c_size_t(wrong), "workspace": np.zeros(1 << 20, np.uint8)}),
            )
            == -1
        )
        assert f"needs {size.value}" in (ob.last_error() or "")
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
    assert backward(run, **arguments) == -1
    assert "attention_strict_cache" in (ob.last_error() or "")
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
    found = storages["dwq"].elements.reshape(case.model, case.heads, case.key).transpose(0, 2, 1)
    assert_within(found.astype(np.float64), gradients["dwq"], 1e-4, "dwq")


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


# ---------------------------------------------------------------------------------------------------------------------
# Contract


@pytest.mark.parametrize("case", [
    AttentionCase(3, 70, 300, 16, 8, 8, 2, key_mask=True, added=3),
    AttentionCase(1, 900, 70, 8, 4, 4, 1, attention_bias=True),
    AttentionCase(4, 33, 40, 64, 32, 16, 2, gap=3),
], ids=["heads", "groups", "strided"])  # fmt: skip
def test_any_number_of_threads_gives_the_same_bits(case: AttentionCase) -> None:
    run = AttentionRun(case, case.values())
    results = []
    before = ob.get_num_threads()
    try:
        for threads in (1, 2, 3, 7):
            ob.set_num_threads(threads)
            cache, storages = run.new_cache(), run.results(case.gradients)
            out = run.forward(cache)
            run.backward(storages, cache)
            results.append({"y": out.raw()} | {name: storage.raw() for name, storage in storages.items()})
    finally:
        ob.set_num_threads(before)
    for other in results[1:]:
        for name, numbers in other.items():
            assert_bitwise(numbers, results[0][name], name)


def test_scratch_may_hold_anything() -> None:
    core = engines._core
    core.set_scratch_poison(True)
    try:
        for seed in range(25):
            check(replace(random_case(3000 + seed), workspace=False))
    finally:
        core.set_scratch_poison(False)


@pytest.mark.parametrize("order", ["fast", "slow"])
def test_both_ways_into_the_kernel_agree(order: str) -> None:
    """The fast call and the checked one; the second takes over where a workspace is given."""
    case = AttentionCase(target=17, source=23, weights_layout=1, bias_layout=1, attention_bias=True, key_mask=True)
    run = AttentionRun(case, case.values())
    results = []
    for slow in (False, True):
        cache, storages = run.new_cache(), run.results(case.gradients)
        out = run.forward(cache, forward_workspace(run, True) if slow else None)
        run.backward(storages, cache, run.backward_workspace(True) if slow else None)
        results.append({"y": out.raw()} | {name: storage.raw() for name, storage in storages.items()})
    for name, numbers in results[0].items():
        assert_bitwise(results[1][name], numbers, name)


@pytest.mark.parametrize("seed", range(20))
def test_fast_calls_are_taken(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Packed float32 arguments never reach the Python path, whatever the layout of the weights."""
    case = replace(
        random_case(4000 + seed), target_layout=0, pad=0, dropout=0.0, added=0, workspace=False, biases="qkvo"
    )
    run = AttentionRun(case, case.values())
    cache = run.new_cache() if case.cached else None
    for method in ("apply_attention", "apply_backward_attention"):
        monkeypatch.setattr(type(run.filter), method, _forbidden)
    run.forward(cache)
    run.backward(run.results(case.gradients), cache)


def _forbidden(*arguments: Any, **options: Any) -> None:
    raise AssertionError("the fast call declined")


def test_client_pointers_are_read_at_each_call(engine: str) -> None:
    for client in (True, False):
        case = AttentionCase(client=client)
        values = case.values()
        before, _ = case.expected(values)
        run = AttentionRun(case, values)
        changed = values | {"wv": values["wv"] * 2.0}
        run.parameters["wv"].write(case.stored("wv", changed["wv"][None]))
        after, _ = case.expected(changed)
        assert_within(run.forward().read(), after if client else before, 1e-4, "output")


def test_results_may_lie_on_top_of_inputs(engine: str) -> None:
    """Output over query, and gradients over what they are computed from, give what separate memory gives."""
    case = AttentionCase(target=6, source=6)
    values = case.values()
    y, gradients = case.expected(values)
    run = AttentionRun(case, values)
    succeed(forward(run, output=run.inputs["q"].elements))
    assert_within(run.inputs["q"].read(), y, 1e-4, "output over query")
    run = AttentionRun(case, values)
    storages = {"dq": run.inputs["q"], "dk": run.inputs["do"], "dwv": run.parameters["wv"]}
    succeed(backward(run, **run.structs(storages)))
    for name, storage in storages.items():
        assert_within(run.read(name, storage), gradients[name], 1e-4, name)


def test_empty_batch(engine: str) -> None:
    case = AttentionCase(batch=1)
    run = AttentionRun(case, case.values())
    cache = run.new_cache()
    succeed(forward(run, batch_size=0, backprop_cache=cache, backprop_cache_size=ctypes.c_size_t(cache.nbytes)))
    storages = run.results(case.gradients)
    succeed(
        backward(run, batch_size=0, backprop_cache=cache, backprop_cache_size=cache.nbytes, **run.structs(storages))
    )
    for name, storage in storages.items():
        if name in TARGETS:
            storage.assert_unchanged(name)
        else:
            assert np.all(storage.read() == 0.0), name


def test_other_calls_name_the_right_one() -> None:
    case = AttentionCase()
    run = AttentionRun(case, case.values())
    assert capi.BNNSFilterApply(run.filter, None, None) == -1
    assert "BNNSApplyMultiheadAttention" in (ob.last_error() or "")
    dense = ob.FullyConnectedLayer(weights=np.ones((2, 3), np.float32)).bnns_filter
    assert forward(run, F=dense) == -1
    assert "does not drive a filter of family" in (ob.last_error() or "")
    capi.BNNSFilterDestroy(run.filter)
    for call in (forward, backward):
        assert call(run) == -1
        assert "destroyed" in (ob.last_error() or "")
    assert forward(run, F=None) == -1 and backward(run, F=None) == -1


# ---------------------------------------------------------------------------------------------------------------------
# Bad input


def _target(rows: int, columns: int) -> Any:
    return Tensor(FIRST_MAJOR_2D, (rows, columns)).descriptor()


def _weights(*size: int) -> Any:
    return Tensor(FIRST_MAJOR_3D, size).descriptor(np.zeros(size, np.float32))


def _matrix(*size: int) -> Any:
    return Tensor(FIRST_MAJOR_2D, size).descriptor(np.zeros(size, np.float32))


# Of AttentionCase(): T 5, S 4, D 7, K 3, V 2, H 2.
BAD_CREATION: dict[str, tuple[Callable[[Any], None], str]] = {
    "model of the key": (
        lambda p: setattr(p.key, "target_desc", _target(4, 8)),
        r"key\.target_desc.*d_model 8.*query\.target_desc.*7",
    ),
    "source of the value": (
        lambda p: setattr(p.value, "target_desc", _target(9, 7)),
        r"value\.target_desc.*source length 9.*key\.target_desc.*4",
    ),
    "target of the output": (
        lambda p: setattr(p.output, "target_desc", _target(6, 7)),
        r"output\.target_desc.*target length 6.*query\.target_desc.*5",
    ),
    "model of query weights": (
        lambda p: setattr(p.query, "weights", _weights(6, 3, 2)),
        r"query\.weights.*d_model 6.*target_desc.*7",
    ),
    "key of key weights": (
        lambda p: setattr(p.key, "weights", _weights(7, 4, 2)),
        r"key\.weights.*d_key 4.*query\.weights.*3",
    ),
    "heads of value weights": (
        lambda p: setattr(p.value, "weights", _weights(7, 2, 3)),
        r"value\.weights.*heads 3.*query\.weights.*2",
    ),
    "rows of output weights": (
        lambda p: setattr(p.output, "weights", _matrix(5, 7)),
        r"output\.weights has 5 rows.*2 heads.*query\.weights.*d_value 2.*value\.weights.*4",
    ),
    "model of output weights": (
        lambda p: setattr(p.output, "weights", _matrix(4, 8)),
        r"output\.weights.*d_model 8.*7",
    ),
    "bias": (lambda p: setattr(p.query, "bias", _matrix(2, 3)), r"query\.bias.*d_key 2.*query\.weights.*3"),
    "no weights": (lambda p: setattr(p.query.weights, "data", None), r"query\.weights\.data is NULL"),
    "layout of weights": (
        lambda p: setattr(p.query.weights, "layout", capi.BNNSDataLayout.BNNSDataLayoutImageCHW),
        r"query\.weights\.layout is ImageCHW.*3DFirstMajor, 3DLastMajor, MHA_DHK",
    ),
    "rank of the target": (
        lambda p: setattr(p.query, "target_desc", Tensor(VECTOR, (35,)).descriptor()),
        r"query\.target_desc\.layout is Vector.*2DFirstMajor",
    ),
    "no target": (lambda p: setattr(p.query, "target_desc", capi.BNNSNDArrayDescriptor()), r"query\.target_desc"),
    "key bias row only": (
        lambda p: setattr(p, "key_attn_bias", _matrix(3, 2)),
        r"key_attn_bias\.data is set but value_attn_bias\.data is NULL",
    ),
    "value bias row only": (
        lambda p: setattr(p, "value_attn_bias", _matrix(2, 2)),
        r"value_attn_bias\.data is set but key_attn_bias\.data is NULL",
    ),
    "short weights": (
        lambda p: setattr(p.query.weights, "data", np.zeros(10, np.float32)),
        r"query\.weights\.data holds 40 bytes, but the call touches 168",
    ),
}


@pytest.mark.parametrize("name", BAD_CREATION)
def test_bad_descriptions(name: str, engine: str) -> None:
    change, message = BAD_CREATION[name]
    case = AttentionCase()
    struct = AttentionRun(case, case.values()).struct()
    change(struct)
    assert capi.BNNSFilterCreateLayerMultiheadAttention(struct) is None
    assert re.search(message, ob.last_error() or ""), ob.last_error()


def _mask(size: int, dtype: Any = np.bool_, kind: Any = capi.BNNSDataTypeBoolean) -> Any:
    return capi.BNNSNDArrayDescriptor(layout=VECTOR, size=(size,), data=np.zeros(size * 2, dtype), data_type=kind)


def _added(layout: str, size: tuple[int, ...], kind: Any = capi.BNNSDataTypeFloat32, dtype: Any = np.float32) -> Any:
    return capi.BNNSNDArrayDescriptor(
        layout=capi.BNNSDataLayout[f"BNNSDataLayout{layout}"], size=size, data=np.zeros(size, dtype), data_type=kind
    )


BAD_MASKS: dict[str, tuple[dict[str, Any], str]] = {
    "mask of floats": (
        {"key_mask": _mask(4, np.float32, capi.BNNSDataTypeFloat32)},
        r"key_mask\.data_type is Float32.*Boolean",
    ),
    "long mask": ({"key_mask": _mask(5)}, r"key_mask is Vector size \(5,\) Boolean.*source length 4.*must be 4, not 5"),
    "mask without data": (
        {"key_mask": capi.BNNSNDArrayDescriptor(layout=VECTOR, size=(4,), data_type=capi.BNNSDataTypeBoolean)},
        r"key_mask\.data is NULL",
    ),
    "short mask": ({"key_mask": _mask(4), "key_mask_stride": 90}, r"key_mask\.data holds 8 bytes.*touches 94"),
    "negative stride": ({"key_mask": _mask(4), "key_mask_stride": -1}, r"key_mask_stride is -1"),
    "added of integers": (
        {"add_to_attention": _added("2DFirstMajor", (5, 4), capi.BNNSDataTypeInt32, np.int32)},
        r"add_to_attention\.data_type is Int32.*Float32, or Boolean",
    ),
    "added transposed": (
        {"add_to_attention": _added("2DFirstMajor", (4, 5))},
        r"add_to_attention is 2DFirstMajor size \(4, 5\).*target length 5, source length 4",
    ),
    "added with wrong heads": (
        {"add_to_attention": _added("3DFirstMajor", (3, 5, 4))},
        r"add_to_attention.*heads 2.*must be 2, not 3",
    ),
    "added with wrong batch": (
        {"add_to_attention": _added("4DFirstMajor", (3, 2, 5, 4))},
        r"add_to_attention.*batch 2.*must be 2, not 3",
    ),
    "added vector": ({"add_to_attention": _added("Vector", (20,))}, r"add_to_attention has 1 axes"),
    "added in another layout": ({"add_to_attention": _added("ImageCHW", (4, 5, 2))}, r"add_to_attention\.layout is"),
    "batch": ({"batch_size": -1}, r"batch_size is -1"),
    "query stride": ({"query_stride": -3}, r"query_stride is -3"),
    "value too short": ({"value": np.zeros(9, np.float32)}, r"value holds 36 bytes"),
    "key of another type": ({"key": np.zeros(56, np.float64)}, r"key holds float64 items"),
}


@pytest.mark.parametrize("name", BAD_MASKS)
def test_bad_arguments_of_both_calls(name: str, engine: str) -> None:
    changes, message = BAD_MASKS[name]
    case = AttentionCase()
    run = AttentionRun(case, case.values())
    y = run.storage("o")
    assert forward(run, output=y.elements, **changes) == -1
    assert re.search(rf"^BNNSApplyMultiheadAttention: .*{message}", ob.last_error() or ""), ob.last_error()
    y.assert_unchanged("output")
    storages = run.results(case.gradients)
    assert backward(run, **(run.structs(storages) | changes)) == -1
    assert re.search(rf"^BNNSApplyMultiheadAttentionBackward: .*{message}", ob.last_error() or ""), ob.last_error()
    for gradient, storage in storages.items():
        storage.assert_unchanged(gradient)


def fails(run: AttentionRun, message: str, **changes: Any) -> None:
    storages = run.results(run.case.gradients)
    arguments = run.structs(storages)
    for name, change in changes.items():
        arguments[name] = change(arguments[name]) if callable(change) else change
    assert backward(run, **arguments) == -1
    assert re.search(message, ob.last_error() or ""), ob.last_error()
    for gradient, storage in storages.items():
        storage.assert_unchanged(gradient)


def _changed(member: str, **fields: Any) -> Callable[[Any], Any]:
    def change(struct: Any) -> Any:
        for name, value in fields.items():
            setattr(getattr(struct, member), name, value)
        return struct

    return change


def test_bad_gradients(engine: str) -> None:
    case = AttentionCase()
    run = AttentionRun(case, case.values())
    fails(run, r"output_param_delta is NULL.*arriving", output_param_delta=None)
    fails(run, r"output_param_delta\.target_desc\.data is NULL", output_param_delta=_changed("target_desc", data=None))
    fails(
        run,
        r"query_param_delta\.target_desc.*size\[0\] must be 5, not 6",
        query_param_delta=_changed("target_desc", size=(6, 7)),
    )
    fails(
        run, r"key_param_delta\.weights.*d_key 3.*must be 3, not 2", key_param_delta=_changed("weights", size=(7, 2, 3))
    )
    fails(run, r"value_param_delta\.bias\.flags is 7", value_param_delta=_changed("bias", flags=7))
    fails(
        run,
        r"query_param_delta\.weights\.data_type is Float16",
        query_param_delta=_changed("weights", data_type=FLOAT16),
    )
    fails(
        run,
        r"query_param_delta\.bias\.data holds 8 bytes",
        query_param_delta=_changed("bias", data=np.zeros(2, np.float32)),
    )
    fails(
        run,
        r"stride\[2\], the batch stride, is 20.*spans 35",
        query_param_delta=_changed("target_desc", stride=(1, 7, 20)),
    )
    fails(run, r"key_attn_bias_delta is given, but the filter was created without", key_attn_bias_delta=_matrix(3, 2))
    fails(run, r"query is NULL, but query_param_delta\.weights needs it", query=None, query_stride=0)
    readonly = np.zeros(70, np.float32)
    readonly.flags.writeable = False
    fails(run, r"target_desc\.data is read-only", query_param_delta=_changed("target_desc", data=readonly))
    for wrong in (3, "x", np.zeros(3)):
        with pytest.raises(TypeError, match="query_param_delta must be a BNNSMHAProjectionParameters"):
            backward(run, query_param_delta=wrong)
        with pytest.raises(TypeError, match="key_attn_bias_delta must be a BNNSNDArrayDescriptor"):
            backward(run, key_attn_bias_delta=wrong)


def test_missing_inputs_without_a_cache(engine: str) -> None:
    case = AttentionCase()
    run = AttentionRun(case, case.values())
    for argument in ("query", "key", "value"):
        storages = run.results(["dwo"])
        assert backward(run, **(run.structs(storages) | {argument: None, f"{argument}_stride": 0})) == -1
        assert f"{argument} is NULL, and without a cache" in (ob.last_error() or "")
    storages = run.results(["dpo"])
    nothing = {
        name: value
        for argument in ("query", "key", "value")
        for name, value in ((argument, None), (f"{argument}_stride", 0))
    }
    succeed(backward(run, **(run.structs(storages) | nothing)))
    assert_within(storages["dpo"].read()[0], run.values["do"].sum(axis=(0, 1)), 1e-5, "dpo")


def test_bad_caches(engine: str) -> None:
    case = AttentionCase()
    run, other = (AttentionRun(case, case.values()) for _ in range(2))
    needed, _ = run.sizes()
    cache = run.new_cache()
    for size, memory in ((needed - 1, cache), (needed, np.zeros(needed - 4, np.uint8))):
        assert forward(run, backprop_cache=memory, backprop_cache_size=ctypes.c_size_t(size)) == -1
        assert f"needs {needed}" in (ob.last_error() or ""), ob.last_error()
    run.forward(cache)
    foreign = other.new_cache()
    other.forward(foreign)
    whole = {"backprop_cache_size": needed}
    fails(
        run,
        f"has {needed - 1} bytes by backprop_cache_size.*needs {needed}",
        backprop_cache=cache,
        backprop_cache_size=needed - 1,
    )
    fails(run, r"backprop_cache was filled by another filter", backprop_cache=foreign, **whole)
    fails(run, r"backprop_cache holds no cache", backprop_cache=np.zeros(needed, np.uint8), **whole)
    storages = run.results(["dpo"])
    assert backward(run, **run.structs(storages), batch_size=1, backprop_cache=cache, **whole) == -1
    assert "filled by a forward call with batch_size 2, but this call has 1" in (ob.last_error() or "")
    dropping = replace(case, dropout=0.5)
    fails(AttentionRun(dropping, dropping.values()), r"backprop_cache is NULL, but the filter has dropout 0\.5")
    for size in (0, needed):  # without a size, or without memory, there is no cache
        given = run.results(["dpo"])
        succeed(backward(run, **run.structs(given), backprop_cache=None if size else foreign, backprop_cache_size=size))
    with pytest.raises(TypeError, match=r"backprop_cache_size must be a ctypes\.c_size_t or None, not int"):
        forward(run, backprop_cache_size=5)
    with pytest.raises(TypeError, match="backprop_cache_size must be an integer"):
        backward(run, backprop_cache_size="x")


def test_shared_memory_is_refused(engine: str) -> None:
    case = AttentionCase()
    run = AttentionRun(case, case.values())
    cache = run.new_cache()
    size = ctypes.c_size_t(cache.nbytes)
    assert forward(run, output=cache[:70], backprop_cache=cache, backprop_cache_size=size) == -1
    assert "backprop_cache and output share memory" in (ob.last_error() or "")
    storages = run.results(case.gradients)
    storages["dk"] = storages["dq"]  # lengths 5 and 4
    arguments = run.structs(storages)
    arguments["key_param_delta"].target_desc.size[0] = 4
    assert backward(run, **arguments) == -1
    assert "share memory" in (ob.last_error() or "")
    storages = run.results(case.gradients)
    storages["dwk"] = storages["dwq"]
    assert backward(run, **run.structs(storages)) == -1
    assert "query_param_delta.weights and key_param_delta.weights share memory" in (ob.last_error() or "")
    work = np.zeros(1 << 20, np.uint8)
    target = work[:280].view(np.float32)
    arguments = run.structs(run.results(["dq"]))
    arguments["query_param_delta"].target_desc.data = target
    assert backward(run, **arguments, workspace=work, workspace_size=ctypes.c_size_t(work.nbytes)) == -1
    assert "workspace and query_param_delta.target_desc share memory" in (ob.last_error() or "")


# ---------------------------------------------------------------------------------------------------------------------
# gradcheck


@pytest.mark.parametrize("options", [
    {}, {"bias": False}, {"add_bias_kv": True, "add_zero_attn": True}, {"key_dim": 3, "value_dim": 5}, {"dropout": 0.3},
], ids=str)  # fmt: skip
def test_gradcheck(options: dict[str, Any], engine: str) -> None:
    layer = ob.MultiheadAttentionLayer(6, 2, seed=1, **options)
    report = ob.gradcheck(layer, verbose=False)
    assert report.passed, str(report)
    assert len({row.name for row in report.rows}) == 3 + len(layer.parameters)
    x = [np.random.default_rng(i).standard_normal((2, n, 6)) for i, n in enumerate((3, 5, 5))]
    layer.filter_for(3, 5)
    assert ob.gradcheck(layer, x, verbose=False).passed


def test_gradcheck_of_a_filter_with_other_layouts() -> None:
    case = AttentionCase(target_layout=1, weights_layout=2, bias_layout=2, pad=2, attention_bias=True)
    assert ob.gradcheck(AttentionRun(case, case.values()).filter, verbose=False).passed


def test_parameters_in_the_order_of_the_slots() -> None:
    from openbnns.filters._attention_shapes import PARAMETERS as OURS

    assert OURS == PARAMETERS
