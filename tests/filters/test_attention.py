"""Multihead attention: every option and gradient against the formulas on both engines; threads, fast calls, gradcheck."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import openbnns as ob
from attention_checks import backward, check, forward, forward_workspace
from bad_calls import refused
from cases._base import created, succeed
from cases.attention import CASES, PARAMETERS, TARGETS, AttentionCase, AttentionRun, random_case
from cases.observed import OBSERVED
from helpers import FLOAT16, assert_bitwise, assert_within
from openbnns import capi, engines

# ---------------------------------------------------------------------------------------------------------------------
# Values and gradients


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
    """Values observed on hardware."""
    seen, seen_backward = OBSERVED["mha_scalar"], OBSERVED["mha_scalar_backward"]
    given, expected = seen["inputs"], seen_backward["expected"]
    case = AttentionCase(1, 1, 1, 1, 1, 1, 1, biases="")
    values = {name: np.full((1, 1, 1), given[name]) for name in "qkv"}
    values |= {name: np.full((1, 1, 1), given[name]) for name in ("wq", "wk", "wv")}
    values |= {"wo": np.full((1, 1), given["wo"])}
    values["do"] = np.full((1, 1, 1), seen_backward["inputs"]["dO"])
    run = AttentionRun(case, values)
    cache = run.new_cache()
    assert run.forward(cache).read().item() == pytest.approx(seen["expected"]["y"], abs=1e-5)
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
    refused(backward(run), "training works on Float32 only")


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
        for threads in (1, 2, 3, 7, 64):
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
    monkeypatch.setattr(type(run.filter), "perform", _forbidden)
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


def test_other_calls_name_the_right_one() -> None:
    case = AttentionCase()
    run = AttentionRun(case, case.values())
    refused(capi.BNNSFilterApply(run.filter, None, None), "BNNSApplyMultiheadAttention")
    dense = ob.FullyConnectedLayer(weights=np.ones((2, 3), np.float32)).bnns_filter
    refused(forward(run, F=dense), "does not drive a filter of family")
    capi.BNNSFilterDestroy(run.filter)
    for call in (forward, backward):
        refused(call(run), "destroyed")
    assert forward(run, F=None) == -1 and backward(run, F=None) == -1


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
    from openbnns.filters.attention_shapes import PARAMETERS as OURS

    assert OURS == PARAMETERS
