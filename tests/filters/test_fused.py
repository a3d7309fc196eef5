"""Fused chains: values, gradients, state, memory, quantization, speed paths."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import openbnns as ob
from cases import convolution, fully_connected, transposed_convolution
from cases._base import Act, native, reference, succeed
from cases.fused import ADD, CASES, CONV, FusedCase, FusedRun, Norm, case, random_case
from helpers import INT8, Array, Storage, Tensor, assert_bitwise, assert_within, image, vector
from openbnns import capi, engines
from openbnns.calls.form import form

F32 = np.float32

FC = case("own", fully_connected.case("own", 7, 6, 5), Norm("Batch"))


# ---------------------------------------------------------------------------------------------------------------------
# Statistics gathered by the convolution


def measured(kind: str, batch: int) -> FusedCase:
    """A chain on images that the convolution completes one by one, or (batches of 1 and 3) that threads share."""
    if kind == "few":
        first: Any = convolution.case(kind, 1, 6, (20, 20), (5, 5), batch=batch, symmetric=(2, 2))
    elif kind == "direct":
        first = convolution.case(kind, 16, 21, (13, 14), (5, 5), batch=batch, symmetric=(2, 2))
    elif kind == "steps":
        first = convolution.case(kind, 18, 33, (25, 24), (3, 3), batch=batch, step=(2, 2), gap=5)
    elif kind == "groups":
        first = convolution.case(kind, 40, 60, (12, 12), (3, 3), batch=batch, groups=2)
    else:
        first = transposed_convolution.case(kind, 17, 18, (9, 9), (3, 3), batch=batch, step=(2, 2))
    norm = {1: Norm("Group", groups=3), 3: Norm("Batch", moving="mv"), 18: Norm("Batch"), 19: Norm("Instance")}[batch]
    return case(f"{kind}-{batch}", first, norm, activation=Act("RectifiedLinear") if batch > 1 else Act())


@pytest.mark.parametrize("batch", [1, 3, 18, 19])
@pytest.mark.parametrize("kind", ["few", "direct", "steps", "groups", "transposed"])
def test_statistics_from_the_convolution(kind: str, batch: int) -> None:
    """The same bits, whether planes were measured on the way or afterwards; the reference agrees."""
    chain = measured(kind, batch)
    values = chain.values()
    runs = [chain.run(values, threads) for threads in (1, 2, 3, 5)]
    for run in runs:
        run.forward()
    theirs = chain.run(values)
    with ob.engine("reference"):
        theirs.forward()
    y = theirs.y.read()
    assert_within(runs[0].y.read(), y, chain.forward_bound(values, y), "y")
    gradients = [run.backward(chain.gradients) for run in runs]
    for run, actual in zip(runs[1:], gradients[1:], strict=True):
        assert_bitwise(run.y.read(), runs[0].y.read(), "y")
        for name in chain.gradients:
            assert_bitwise(actual[name].read(), gradients[0][name].read(), name)


# ---------------------------------------------------------------------------------------------------------------------
# Random chains: every parameter at once


@pytest.mark.parametrize("k", range(160))
@pytest.mark.covers("fused.param_order", "fused.last_act")
def test_random_chain(k: int) -> None:
    """Native against reference: output, moving statistics, and a random choice of gradients, some of them accumulated."""
    chain, rng = random_case(k), np.random.default_rng([1, k])
    values = chain.values()
    ours, theirs = chain.run(values), chain.run(values)
    ours.forward()
    with ob.engine("reference"):
        theirs.forward()
    y = theirs.y.read()
    assert_within(ours.y.read(), y, chain.forward_bound(values, y), "y")
    for name in ("moving_mean", "moving_variance"):
        mine, other = getattr(ours, name), getattr(theirs, name)
        if mine is not None:
            np.testing.assert_allclose(mine.read(), other.read(), rtol=3e-5, atol=3e-5, err_msg=name)

    wanted = [name for name in chain.gradients if rng.random() < 0.8]
    old = {
        name: F32(rng.standard_normal(storage.read().shape)).astype(np.float64)
        for name, storage in ours.new_gradients(wanted).items()
        if rng.random() < 0.5
    }
    gradients = ours.backward(wanted, old)
    theirs.y.elements[...] = ours.y.elements
    with ob.engine("reference"):
        expected = theirs.backward(wanted, old)
    bounds = chain.backward_bounds(values, y)
    for name in wanted:
        room = bounds[name] + 2**-22 * (np.abs(expected[name].read()) + np.abs(old.get(name, np.zeros(1))))
        assert_within(gradients[name].read(), expected[name].read(), room, name)
        gradients[name].assert_guards_intact(name)


@pytest.mark.parametrize("k", range(0, 160, 4))
def test_reference_gradients_by_finite_differences(k: int) -> None:
    """<v, f(t + hu) - f(t - hu)> / 2h against <backward(v), u> for every tensor t, in float64."""
    from openbnns.parameters.activation import FROM_OUTPUT
    from openbnns.reference import fused as formulas
    from openbnns.reference import normalization

    chain = random_case(k)
    run = chain.run()
    filter, n = run.filter, run.filter.last
    assert n.activation.function in FROM_OUTPUT
    rng = np.random.default_rng([2, k])
    first = filter.reference_first()
    inputs = [filter.inputs[i].bind("x", s.elements, s.batch, s.stride).read(np.float64) for i, s in enumerate(run.x)]
    tensors: dict[str, Any] = {f"in{i}": x for i, x in enumerate(inputs)}
    tensors |= {name: p.read(np.float64) for name, p in filter.slots.items() if p is not None}

    def forward(t: dict[str, Any]) -> Any:
        layer = first
        if not chain.is_arithmetic:
            layer = replace(first, weights=t["weights"], bias=t.get("bias"))
        operands = [t[f"in{i}"] for i in range(len(inputs))]
        h = formulas.first_forward(layer, operands, chain.batch).reshape(chain.batch, *n.input.shape)
        return normalization.training_forward(n.settings, h, t.get("beta"), t.get("gamma"), n.activation)

    y, state, _ = forward(tensors)
    v = rng.standard_normal(y.shape)
    h = formulas.first_forward(first, inputs, chain.batch)
    of_inputs, of_parameters = formulas.backward(
        first, n.settings, state, inputs, tensors.get("beta"), tensors.get("gamma"), y, v, n.activation,
        [True] * len(inputs), [name in tensors for name in filter.slots], h=h,
    )  # fmt: skip
    gradients = {f"in{i}": g for i, g in enumerate(of_inputs)} | dict(zip(filter.slots, of_parameters, strict=True))
    for name, value in tensors.items():
        if chain.is_arithmetic and chain.first.function == "Select" and name == "in0":
            continue
        u, step = rng.standard_normal(value.shape), 1e-6
        after, before = forward(tensors | {name: value + step * u})[0], forward(tensors | {name: value - step * u})[0]
        slopes = [np.vdot(v, after - y) / step, np.vdot(v, y - before) / step]
        numeric, analytic = np.vdot(v, after - before) / (2 * step), np.vdot(gradients[name], u)
        scale = max(abs(numeric), abs(analytic), float(np.linalg.norm(gradients[name] * u)), 1e-3)
        if abs(slopes[0] - slopes[1]) > 1e-3 * scale:
            continue  # a kink within the step
        assert abs(numeric - analytic) <= 2e-5 * scale, (name, numeric, analytic)


# ---------------------------------------------------------------------------------------------------------------------
# The state between calls


def test_moving_statistics(engine: str) -> None:
    """moving = momentum * moving + (1 - momentum) * current, once per training forward and not in inference."""
    run = CONV.run()
    assert run.moving_mean is not None and run.moving_variance is not None
    bare = {name: v for name, v in CONV.values().items() if name not in ("beta", "gamma")}
    plain = FusedRun(replace(CONV, activation=Act(), norm=Norm("Batch", beta=False, gamma=False)), bare)
    h = CONV._boundary(CONV.values())[0]
    mean, variance = h.mean(axis=(0, 2, 3)), h.var(axis=(0, 2, 3))
    before = run.moving_mean.read()[0], run.moving_variance.read()[0]
    run.forward(training=False)
    assert_bitwise(run.moving_mean.read()[0], before[0], "inference")
    run.forward()
    np.testing.assert_allclose(run.moving_mean.read()[0], 0.9 * before[0] + 0.1 * mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(run.moving_variance.read()[0], 0.9 * before[1] + 0.1 * variance, rtol=1e-5)
    plain.forward()
    np.testing.assert_allclose(plain.y.read().transpose(0, 3, 2, 1).mean(axis=(0, 2, 3)), 0, atol=1e-6)


@pytest.mark.parametrize("chain", [CONV, ADD, FC], ids=lambda c: c.id)
def test_backward_needs_the_training_forward_of_its_batch(chain: FusedCase, engine: str) -> None:
    run = chain.run()

    def refused(pattern: str, batch: int | None = None) -> None:
        gradients = run.new_gradients()
        with pytest.raises(AssertionError, match=pattern):
            run.backward(into=gradients, batch=batch)
        for name, storage in gradients.items():
            storage.assert_unchanged(name)

    refused("no training forward")
    run.forward(training=False)
    refused("no training forward")
    run.forward()
    first = run.backward()
    refused("had 4 samples|had 5 samples", chain.batch - 1)
    y = run.y.elements.copy()
    run.forward(training=False)
    run.y.elements[...] = y
    for name, storage in run.backward().items():
        assert_bitwise(storage.raw(), first[name].raw(), f"{name} after an inference in between")
    run.forward(batch=chain.batch - 1)
    refused("the latest training forward had")


def test_engines_do_not_mix() -> None:
    run = CONV.run()
    run.forward()
    with ob.engine("reference"), pytest.raises(AssertionError, match="ran on the native engine"):
        run.backward()
    with ob.engine("reference"):
        run.forward()
        run.backward()
    with pytest.raises(AssertionError, match="ran on the reference engine"):
        run.backward()


def test_parameters_of_the_moment(engine: str) -> None:
    """With client pointers every parameter is read at each call; without, those of creation count."""
    for client in (True, False):
        chain = replace(CONV, client_pointer=client)
        run = chain.run()
        before = run.forward()
        for storage in (run.w, run.b, run.beta, run.gamma):
            assert storage is not None
            storage.write(2 * storage.read() + 1)
        after = run.forward()
        assert np.array_equal(before, after) != client
        fresh = chain.run(chain.values() | {
            name: 2 * v + 1 for name, v in chain.values().items() if name in ("w", "b", "beta", "gamma")
        })  # fmt: skip
        expected = fresh.forward() if client else before
        assert_bitwise(after, expected, f"client_pointer={client}")


def test_the_same_filter_with_other_batches(engine: str) -> None:
    """Kept memory grows and shrinks with the batch."""
    values = replace(CONV, batch=7).values()

    def part(batch: int) -> dict[str, Array]:
        return {name: v[:batch] if name in ("x", "dy") else v for name, v in values.items()}

    one = replace(CONV, batch=7).run(values).filter
    for batch in (2, 7, 3, 7):
        run = replace(CONV, batch=batch).run(part(batch))
        y, gradients = run.forward(), run.backward()
        run.filter = one
        assert_bitwise(run.forward(), y, f"y with {batch}")
        for name, storage in run.backward().items():
            assert_bitwise(storage.raw(), gradients[name].raw(), f"{name} with {batch}")


@pytest.mark.parametrize("kind", ["Batch", "Layer"])
def test_gradients_of_absent_parameters(kind: str, engine: str) -> None:
    """Without beta and gamma their gradients are those at 0 and 1; without a bias its slot is left alone."""
    first = convolution.case("absent", 3, 6, (6, 5), (3, 3), batch=4, bias=False)
    bare = case("absent", first, Norm(kind, beta=False, gamma=False), activation=Act("Tanh"))
    whole = case("absent", first, Norm(kind), activation=Act("Tanh"))
    values = whole.values() | {"dy": bare.values()["dy"]}
    values |= {"beta": np.zeros_like(values["beta"]), "gamma": np.ones_like(values["gamma"])}
    expected = whole.run(values)
    expected.forward()
    run = bare.run({name: v for name, v in values.items() if name not in ("beta", "gamma")})
    run.forward()
    affine = expected.new_gradients(["dbeta", "dgamma"])
    bias = np.full(6, 7, F32)
    slots = [None, vector(6).descriptor(bias), *(affine[name].descriptor() for name in ("dbeta", "dgamma"))]
    succeed(
        capi.BNNSFusedFilterApplyBackwardBatch(
            run.filter, 4, None, 0, None, 0, run.y.elements, 0, run.dy.descriptor(), 0, slots
        )
    )
    assert (bias == 7).all()
    for name, storage in expected.backward(["dbeta", "dgamma"]).items():
        assert_bitwise(affine[name].raw(), storage.raw(), name)
    if kind == "Layer":  # one value per column
        columns = np.zeros(3, F32)
        slots = [None, None, image(1, 1, 3).descriptor(columns), None]
        code = capi.BNNSFusedFilterApplyBackwardBatch(
            run.filter, 4, None, 0, None, 0, run.y.elements, 0, run.dy.descriptor(), 0, slots
        )
        succeed(code)
        np.testing.assert_allclose(columns, affine["dbeta"].read().sum((0, 2, 3)), rtol=1e-4, atol=1e-5)


# ---------------------------------------------------------------------------------------------------------------------
# Memory that overlaps


def test_results_on_top_of_what_is_read(engine: str) -> None:
    """y onto an operand, gradients onto inputs, y and dy: as if they had memory of their own."""
    expected = ADD.run()
    y = expected.forward()
    gradients = expected.backward()
    for target in ("x0", "x1"):
        run = ADD.run()
        run.y.elements = run.inputs[target].elements
        run.forward()
        assert_bitwise(run.y.elements[run.y.places], y, f"y onto {target}")
    for source in ("x0", "x1", "y", "dy"):
        for name in ("da0", "da1"):
            run = ADD.run()
            run.forward()
            into = run.new_gradients()
            into[name].elements = {"y": run.y, **run.inputs}[source].elements
            run.backward(into=into)
            for other, storage in into.items():
                assert_bitwise(
                    storage.elements[storage.places], gradients[other].raw(), f"{name} onto {source}: {other}"
                )


def test_operands_that_are_one_tensor_share_a_gradient(engine: str) -> None:
    shared = next(c for c in CASES if c.id.endswith("-shared"))
    run = shared.run()
    run.forward()
    ((_, total),) = [(n, s) for n, s in run.backward().items() if n == "da0"]
    apart = replace(shared, first=replace(shared.first, shared=False))
    values = shared.values()
    other = apart.run(values | {"a1": values["a0"]})
    other.forward()
    parts = other.backward()
    np.testing.assert_allclose(total.read(), parts["da0"].read() + parts["da1"].read(), rtol=1e-5, atol=1e-5)


# ---------------------------------------------------------------------------------------------------------------------
# Quantization


@pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=pytest.mark.covers(f"fused.{k}_quant.fwd")) for k in ("conv", "tconv", "fc")]
)
@pytest.mark.parametrize("axis", [None, "channel"])
def test_quantized_chains(kind: str, axis: str | None, engine: str) -> None:
    """y = saturate(round(scale * h + bias)) with h from the first layer alone."""
    first: Any = {
        "conv": convolution.case("quantized", 3, 6, (6, 5), (3, 3), batch=3),
        "tconv": transposed_convolution.case("quantized", 3, 6, (4, 5), (2, 2), step=(2, 2), batch=3),
        "fc": fully_connected.case("quantized", 7, 6, 3),
    }[kind]
    alone = first.run()
    h = first.y.decode(alone.forward())
    sizes = 6 if axis else 1
    rng = np.random.default_rng(4)
    scale, bias = F32(rng.uniform(5, 60, sizes)), F32(rng.uniform(-3, 3, sizes))
    y = Tensor(first.y.layout, first.y.size, data_type=INT8)
    q = capi.BNNSLayerParametersQuantization(
        axis_mask=1 << (len(first.y.size) - 1) if axis else 0, function=capi.BNNSQuantizerFunctionQuantize,
        i_desc=first.y.descriptor(), o_desc=y.descriptor(), scale=vector(sizes).descriptor(scale),
        bias=vector(sizes).descriptor(bias),
    )  # fmt: skip
    kinds = {"conv": capi.BNNSConvolution, "tconv": capi.BNNSTransposedConvolution, "fc": capi.BNNSFullyConnected}
    assert alone.w is not None and alone.b is not None
    layer = first.parameters(alone.w.elements, alone.b.elements)
    filter = capi.BNNSFilterCreateFusedLayer(2, [kinds[kind], capi.BNNSQuantization], [layer, q], None)
    assert filter is not None, ob.last_error()
    out = Storage(y, first.batch)
    succeed(capi.BNNSFusedFilterApplyBatch(filter, first.batch, alone.x.elements, 0, out.elements, 0, True))
    expected = np.clip(np.rint(scale.astype(np.float64) * h + bias), -128, 127)
    assert np.mean(out.read() != expected) <= 0.01 and np.abs(out.read() - expected).max() <= 1
    assert len(np.unique(expected)) > 12
    result = capi.BNNSFusedFilterApplyBackwardBatch(
        filter, first.batch, alone.x.elements, 0, None, 0, None, 0, alone.dy.descriptor(), 0, None
    )
    assert result == -1 and "has no gradient" in str(ob.last_error())


# ---------------------------------------------------------------------------------------------------------------------
# Gradcheck


@pytest.mark.parametrize("k", [0, 3, 5, 9, 12, 17, 22, 31])
def test_gradcheck(k: int, engine: str) -> None:
    chain = replace(random_case(k), activation=Act("Tanh"))
    report = ob.gradcheck(chain.run().filter, verbose=False)
    assert report.passed, str(report)
    names = {row.name for row in report.rows}
    assert names >= {"gamma"} if chain.norm.gamma else True


def test_fast_calls_are_taken() -> None:
    """Packed float32 arguments do not go through the checks in Python."""
    for chain in (CONV, ADD, FC):
        run = chain.run()
        filter = run.filter
        data: Any = [s.elements for s in run.x] if chain.is_arithmetic else run.x[0].elements
        count, suffix = (len(run.x), "_multi_input") if chain.is_arithmetic else (None, "")
        for training in (False, True):
            variant = (count, training) if chain.is_arithmetic else training
            forward = form(f"apply_fused{suffix}", "batch_size in out", variant)
            assert filter.native(forward)(chain.batch, data, run.y.elements) == 0
        gradients = {name: s.descriptor() for name, s in run.new_gradients().items()}
        deltas: Any = [gradients["da0"], gradients["da1"]] if chain.is_arithmetic else gradients["dx"]
        slots = [gradients[name] for name in chain.slots]
        arguments = (data, deltas, run.y.elements, run.dy.descriptor(), slots)
        order = "batch_size in in_delta out out_delta delta_parameters"
        backward = filter.native(form(f"apply_backward_fused{suffix}", order, count))
        assert backward(chain.batch, *arguments) == 0
        assert backward(chain.batch - 1, *arguments) != 0


def test_native_is_not_the_reference() -> None:
    ours, theirs = native(CONV), reference(CONV)
    assert np.any(ours.y != theirs.y)
    assert engines.is_native()


def test_memory_is_kept_not_grown() -> None:
    """A thousand calls with changing batches do not leave memory behind."""
    import resource

    run = CONV.run()
    for k in range(1000):
        run.forward(batch=1 + k % 4)
        if k == 100:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000
