"""Fused chains beyond what the tables of all families test: random chains, the state between calls, classes, bad inputs."""

# ruff: noqa: E501 - one line per case keeps the tables readable

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import openbnns as ob
from cases import arithmetic, convolution, fully_connected, transposed_convolution
from cases._base import Act, native, reference, succeed
from cases.fused import CASES, FusedCase, FusedRun, Norm, case, random_case
from helpers import FLOAT16, INT8, Array, Storage, Tensor, assert_bitwise, assert_within, image, vector
from openbnns import capi, compat, engines
from openbnns.layers.normalization import NormalizationLayer

F32 = np.float32


@pytest.fixture(params=["native", "reference"])
def engine(request: pytest.FixtureRequest) -> Iterator[str]:
    with ob.engine(request.param):
        yield request.param


CONV = case("own", convolution.case("own", 3, 6, (6, 5), (3, 3), batch=4, symmetric=(1, 1)), Norm("Batch", moving="mv"),
            activation=Act("RectifiedLinear"))  # fmt: skip
ADD = case("own", arithmetic.case("own", "Add", image(6, 4, 5), image(6, 4, 5), batch=4), Norm("Batch"),
           activation=Act("RectifiedLinear"))  # fmt: skip
FC = case("own", fully_connected.case("own", 7, 6, 5), Norm("Batch"))


# ---------------------------------------------------------------------------------------------------------------------
# Statistics gathered by the convolution


def _measured() -> Iterator[FusedCase]:
    """Images that convolutions complete one by one, and those (batches of 1 and 3) that threads share."""
    firsts = {
        "few": lambda n: convolution.case("few", 1, 6, (20, 20), (5, 5), batch=n, symmetric=(2, 2)),
        "direct": lambda n: convolution.case("direct", 16, 20, (13, 14), (5, 5), batch=n, symmetric=(2, 2)),
        "steps": lambda n: convolution.case("steps", 18, 33, (25, 24), (3, 3), batch=n, step=(2, 2), gap=5),
        "groups": lambda n: convolution.case("groups", 40, 60, (12, 12), (3, 3), batch=n, groups=2),
        "transposed": lambda n: transposed_convolution.case("transposed", 17, 18, (9, 9), (3, 3), batch=n, step=(2, 2)),
    }
    norms = (Norm("Batch", moving="mv"), Norm("Instance"), Norm("Group", groups=3))
    for k, (name, first) in enumerate(firsts.items()):
        for i, batch in enumerate((1, 3, 18)):
            norm = norms[0] if batch > 1 and k % 2 else norms[(k + i) % 3]
            yield case(f"{name}-{batch}", first(batch), norm, activation=Act("RectifiedLinear") if i else Act())


@pytest.mark.parametrize("chain", list(_measured()), ids=lambda c: c.id)
def test_statistics_from_the_convolution(chain: FusedCase) -> None:
    """The same bits, whether planes were measured on the way or afterwards; the reference agrees."""
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
    for run, found in zip(runs[1:], gradients[1:], strict=True):
        assert_bitwise(run.y.read(), runs[0].y.read(), "y")
        for name in chain.gradients:
            assert_bitwise(found[name].read(), gradients[0][name].read(), name)


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
    found = ours.backward(wanted, old)
    theirs.y.elements[...] = ours.y.elements
    with ob.engine("reference"):
        expected = theirs.backward(wanted, old)
    bounds = chain.backward_bounds(values, y)
    for name in wanted:
        room = bounds[name] + 2**-22 * (np.abs(expected[name].read()) + np.abs(old.get(name, np.zeros(1))))
        assert_within(found[name].read(), expected[name].read(), room, name)
        found[name].assert_guards_intact(name)


@pytest.mark.parametrize("k", range(0, 160, 4))
def test_reference_gradients_by_finite_differences(k: int) -> None:
    """<v, f(t + hu) - f(t - hu)> / 2h against <backward(v), u> for every tensor t, in float64."""
    from openbnns.engines.reference import fused as formulas
    from openbnns.engines.reference import normalization
    from openbnns.engines.reference.activation import FROM_OUTPUT

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


def test_an_empty_batch(engine: str) -> None:
    for chain in (CONV, ADD, FC):
        run = chain.run()
        run.forward(batch=0)
        run.y.assert_unchanged("y")
        for name, storage in run.backward(batch=0).items():
            if name[1] in "xa":
                storage.assert_unchanged(name)
            else:
                assert not storage.read().any(), name


def test_the_same_filter_with_other_batches(engine: str) -> None:
    """What is kept grows and shrinks with the batch."""
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
# Classes


def parameters_of(layer: str, **more: Any) -> Any:
    return getattr(ob, f"Fused{layer}Parameters")(**more)


def arrays(*shapes: tuple[int, ...], seed: int = 0) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape).astype(F32) for shape in shapes]


def batch_norm(channels: int, **more: Any) -> Any:
    beta, gamma = arrays((channels,), (channels,), seed=9)
    more = {"type": ob.NormalizationType.batch(), "beta": beta, "gamma": gamma, "momentum": 0.9, "epsilon": 1e-3} | more
    return parameters_of("Normalization", **more)


def normalized(h: Array, beta: Array, gamma: Array, epsilon: float = 1e-3) -> Array:
    h = h.astype(np.float64)
    axes = (0, *range(2, h.ndim))
    shape = (1, -1, *[1] * (h.ndim - 2))
    mean, variance = h.mean(axis=axes, keepdims=True), h.var(axis=axes, keepdims=True)
    return (h - mean) / np.sqrt(variance + epsilon) * gamma.reshape(shape) + beta.reshape(shape)


def central(forward: Callable[..., Array], tensors: list[Array], dy: Array, k: int, u: Array) -> float:
    h = 1e-5
    moved = [[t.astype(np.float64) + (s * h * u if i == k else 0) for i, t in enumerate(tensors)] for s in (1, -1)]
    return float(np.vdot(dy, forward(*moved[0]) - forward(*moved[1]))) / (2 * h)


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.covers("swift.FusedLayer", "swift.FusedParametersLayer")
def test_arithmetic_layers(count: int, engine: str) -> None:
    """One, two and three inputs by name and by position, against the formula and its differences."""
    shape = (5, 6, 4, 3)
    inputs = arrays(*[shape] * count, seed=count)
    (dy,) = arrays(shape, seed=7)
    functions = [
        (ob.ArithmeticUnaryFunction.SQUARE, lambda a: a * a),
        (ob.ArithmeticBinaryFunction.MULTIPLY, lambda a, b: a * b),
        (ob.ArithmeticTernaryFunction.MULTIPLY_ADD, lambda a, b, c: a * b + c),
    ]
    function, op = functions[count - 1]
    norm = batch_norm(6, activation=ob.ActivationFunction.tanh())
    names = ["input"] if count == 1 else [f"input_{'abc'[i]}" for i in range(count)]
    first = parameters_of(("UnaryArithmetic", "BinaryArithmetic", "TernaryArithmetic")[count - 1], function=function)
    layer = ob.FusedParametersLayer(**dict(zip(names, inputs, strict=True)), fused_layer_parameters=[first, norm])

    def forward(*values: Array) -> Array:
        beta, gamma = values[count:] if len(values) > count else (norm.beta, norm.gamma)
        return np.tanh(normalized(op(*values[:count]), beta, gamma))

    named = dict(zip(names, inputs, strict=True))
    y = layer.apply(**named, phase=ob.LearningPhase.TRAINING)
    assert_within(y, forward(*inputs).astype(F32), 1e-5, "y")
    result = layer.apply_backward(**named, output=y, output_gradient=dy)
    assert result._fields == (*names, "parameters") and len(result.parameters) == 2
    tensors = [*inputs, norm.beta, norm.gamma]
    for k, gradient in enumerate([*result[:-1], *result.parameters]):
        u = np.random.default_rng(k).standard_normal(tensors[k].shape)
        numeric = central(forward, tensors, dy, k, u)
        assert abs(np.vdot(gradient, u) - numeric) <= 1e-3 * max(1.0, float(np.linalg.norm(gradient * u))), k

    target = np.empty_like(y)
    assert layer.apply(*inputs, target, phase=ob.LearningPhase.TRAINING) is target
    given = [np.full(t.shape, 2, F32) for t in tensors]
    again = layer.apply_backward(*inputs, target, dy, *given[:count], given[count:], accumulate=True)
    for mine, before in zip((*again[:-1], *again.parameters), (*result[:-1], *result.parameters), strict=True):
        assert_within(mine, before + 2, 1e-5, "accumulated")
    assert all(a is b for a, b in zip((*again[:-1], *again.parameters), given, strict=True))
    skipped = layer.apply_backward(
        *inputs, output=target, output_gradient=dy, generating_parameter_gradients=[ob.skip, None]
    )
    assert skipped.parameters[0] is None
    assert_within(skipped.parameters[1], result.parameters[1], 1e-6, "gamma alone")


def test_roles_in_classes(engine: str) -> None:
    """A parameter's gradient is summed over the batch, a constant has none."""
    a, b = arrays((5, 6, 4, 3), (6, 4, 3))
    c = np.ones((6, 1, 1), F32)
    first = parameters_of(
        "TernaryArithmetic", input_a_descriptor_type=ob.DescriptorType.SAMPLE,
        input_b_descriptor_type=ob.DescriptorType.PARAMETER, input_c_descriptor_type=ob.DescriptorType.CONSTANT,
        output_descriptor_type=ob.DescriptorType.SAMPLE, function=ob.ArithmeticTernaryFunction.MULTIPLY_ADD,
    )  # fmt: skip
    layer = ob.FusedParametersLayer(
        input_a=ob.Shape.image_chw(3, 4, 6), input_b=ob.Shape.image_chw(3, 4, 6), input_c=ob.Shape.image_chw(1, 1, 6),
        output=ob.Shape.image_chw(3, 4, 6), fused_layer_parameters=[first, batch_norm(6)],
    )  # fmt: skip
    y = layer.apply(input_a=a, input_b=b, input_c=c, phase=ob.LearningPhase.TRAINING)
    (dy,) = arrays(y.shape, seed=3)
    result = layer.apply_backward(input_a=a, input_b=b, input_c=c, output=y, output_gradient=dy)
    assert result.input_a.shape == a.shape and result.input_b.shape == b.shape and result.input_c is None
    assert_within((result.input_b * b).sum(), (result.input_a * a).sum(), 1e-2, "a da and b db are the same sum")


def separate(first: Any, x: Array, norm: Any, dy: Array) -> tuple[Array, list[Array]]:
    """The two layers one after the other, through their own classes."""
    last = NormalizationLayer(
        type=norm.type, input=first.apply(x), output=first.apply(x), beta=norm.beta, gamma=norm.gamma,
        momentum=norm.momentum, epsilon=norm.epsilon, activation=norm.activation,
    )  # fmt: skip
    h = first.apply(x)
    y = last.apply(h, phase=ob.LearningPhase.TRAINING)
    back = last.apply_backward(output=y, output_gradient=dy)
    inner = first.apply_backward(input=x, output=h, output_gradient=back.input)
    return y, [inner.input, inner.weights, inner.bias, back.beta, back.gamma]


TYPES = [
    ob.NormalizationType.batch(), ob.NormalizationType.instance(), ob.NormalizationType.group(group_count=2),
    ob.NormalizationType.layer(normalization_axis=1),
]  # fmt: skip


@pytest.mark.parametrize("kind, type", [
    pytest.param(kind, type, id=f"{kind}-{type.case}")
    for kind in ("conv", "tconv", "fc", "conv class", "fc class")
    for type in TYPES
    if not (kind.startswith("fc") and type.case == "instance")  # of vectors: gives beta, whatever comes in
])  # fmt: skip
@pytest.mark.covers(
    "fused.convnorm_class", "fused.fcnorm_class", "swift.FusedConvolutionNormalizationLayer",
    "swift.FusedFullyConnectedNormalizationLayer",
)  # fmt: skip
def test_a_chain_is_its_layers(kind: str, type: Any, engine: str) -> None:
    """Fused classes give what the layers give one by one."""
    flat = kind.startswith("fc")
    x, w, b = arrays((7, 5), (6, 5), (6,)) if flat else arrays((4, 3, 6, 5), (6, 3, 3, 2), (6,))
    if kind == "tconv":
        w = np.ascontiguousarray(w.transpose(1, 0, 2, 3))
    beta, gamma = arrays((6,), (6,), seed=5)
    if type.case == "layer":
        shape = (6,) if flat else (6, 1, 1)
        beta, gamma = beta.reshape(shape), gamma.reshape(shape)
    norm = batch_norm(6, type=type, beta=beta, gamma=gamma, activation=ob.ActivationFunction.rectified_linear())
    padding = ob.ConvolutionPadding.symmetric(x=1, y=1)
    options = {"stride": (2, 1), "dilation_stride": (1, 2), "padding": padding}
    if flat:
        first: Any = ob.FullyConnectedLayer(weights=w, bias=b)
    else:
        convolution_type = ob.ConvolutionType.TRANSPOSED if kind == "tconv" else ob.ConvolutionType.STANDARD
        first = ob.ConvolutionLayer(type=convolution_type, input=x, weights=w, bias=b, **options)
    affine = {
        "normalization": type, "normalization_beta": beta, "normalization_gamma": gamma, "normalization_momentum": 0.9,
        "normalization_epsilon": 1e-3, "normalization_activation": norm.activation,
    }  # fmt: skip
    if kind == "conv class":
        named = {f"convolution_{name}": value for name, value in {"weights": w, "bias": b, **options}.items()}
        layer: Any = ob.FusedConvolutionNormalizationLayer(input=x, output=first.apply(x), **named, **affine)
    elif kind == "fc class":
        layer = ob.FusedFullyConnectedNormalizationLayer(
            input=ob.Shape.vector(5), output=ob.Shape.vector(6), fully_connected_weights=w, fully_connected_bias=b,
            **affine,
        )  # fmt: skip
    elif flat:
        layer = ob.FusedParametersLayer(
            input=ob.Shape.vector(5), fused_layer_parameters=[parameters_of("FullyConnected", weights=w, bias=b), norm]
        )
    else:
        p = parameters_of("Convolution", type=convolution_type, weights=w, bias=b, group_size=1, **options)
        layer = ob.FusedParametersLayer(input=x, output=first.apply(x), fused_layer_parameters=[p, norm])
    (dy,) = arrays(first.apply(x).shape, seed=8)
    expected_y, expected = separate(first, x, norm, dy)
    y = layer.apply(x, phase=ob.LearningPhase.TRAINING)
    assert_within(y, expected_y, 2e-5, "y")
    result = layer.apply_backward(x, expected_y, dy)
    for name, mine, theirs in zip(
        ("x", "w", "b", "beta", "gamma"), (result.input, *result.parameters), expected, strict=True
    ):
        assert_within(mine, theirs, 2e-4 * max(1.0, float(np.abs(theirs).max())), name)
    inference = layer.apply(x)
    assert inference.shape == y.shape
    assert "fused_layer_parameters=[Fused" in repr(layer)


def test_quantization_in_classes(engine: str) -> None:
    x, w, b = arrays((3, 5), (6, 5), (6,))
    y = np.empty((3, 6), np.int8)
    layer = ob.FusedParametersLayer(
        input=ob.Shape.vector(5), output=y,
        fused_layer_parameters=[
            parameters_of("FullyConnected", weights=w, bias=b),
            parameters_of("Quantization", axis=0, scale=np.arange(10, 16, dtype=F32), bias=np.ones(6, F32)),
        ],
    )  # fmt: skip
    assert layer.apply(x, y) is y
    h = ob.FullyConnectedLayer(weights=w, bias=b).apply(x)
    assert np.array_equal(y, np.clip(np.rint(h.astype(np.float64) * np.arange(10, 16) + 1), -128, 127))
    with pytest.raises(ob.LayerApplyError, match="has no gradient"):
        layer.apply_backward(x, output_gradient=y)
    whole = np.rint(3 * arrays((3, 5))[0])
    layer = ob.FusedParametersLayer(
        input=ob.Shape.vector(5), output=ob.Shape.vector(6),
        fused_layer_parameters=[
            parameters_of("FullyConnected", weights=np.rint(4 * w)), parameters_of("Dequantization", scale=np.full(1, 8, F32)),
        ],
    )  # fmt: skip
    assert_bitwise(layer.apply(whole), whole @ np.rint(4 * w).T / 8, "dequantized")


# ---------------------------------------------------------------------------------------------------------------------
# Gradcheck


@pytest.mark.parametrize("k", [0, 3, 5, 9, 12, 17, 22, 31])
def test_gradcheck(k: int, engine: str) -> None:
    chain = replace(random_case(k), activation=Act("Tanh"))
    report = ob.gradcheck(chain.run().filter, verbose=False)
    assert report.passed, str(report)
    names = {row.name for row in report.rows}
    assert names >= {"gamma"} if chain.norm.gamma else True


# ---------------------------------------------------------------------------------------------------------------------
# Bad inputs


class Watched:
    """A call under watch: one log line, a message that helps."""

    def __init__(self, log: pytest.LogCaptureFixture) -> None:
        self.log = log

    def failed(self, result: Any, pattern: str, unsupported: bool = False) -> None:
        assert result is None or result == -1, result
        records = [r for r in self.log.records if r.name == "openbnns"]
        message = str(ob.last_error())
        assert [r.getMessage() for r in records] == [message]
        assert records[0].levelno == (logging.INFO if unsupported else logging.ERROR), message
        assert re.match(r"BNNS\w+(: | does not drive | is for )", message) and message.endswith("."), message
        assert re.search(pattern, message), f"{pattern!r} not in: {message}"
        self.log.clear()


@pytest.fixture
def watched(caplog: pytest.LogCaptureFixture) -> Iterator[Watched]:
    with caplog.at_level(logging.DEBUG, "openbnns"):
        yield Watched(caplog)


def _pieces(chain: FusedCase) -> tuple[list[Any], list[Any]]:
    run = chain.run()
    first = (
        chain.first.parameters(run.x)
        if chain.is_arithmetic
        else chain.first.parameters(run.w and run.w.elements, run.b and run.b.elements)
    )
    kinds = {"conv": capi.BNNSConvolution, "fc": capi.BNNSFullyConnected, "arith": capi.BNNSArithmetic}
    return [kinds[chain.chain], chain.norm.filter_type], [first, run.normalization()]


def _edit(chain: FusedCase, change: Callable[[list[Any], list[Any]], None]) -> Any:
    kinds, layers = _pieces(chain)
    change(kinds, layers)
    return capi.BNNSFilterCreateFusedLayer(len(kinds), kinds, layers, None)


def _set(index: int, **fields: Any) -> Callable[[list[Any], list[Any]], None]:
    def change(kinds: list[Any], layers: list[Any]) -> None:
        for name, value in fields.items():
            setattr(layers[index], name, value)

    return change


def _kinds(*wanted: int) -> Callable[[list[Any], list[Any]], None]:
    def change(kinds: list[Any], layers: list[Any]) -> None:
        kinds[:] = wanted
        layers[:] = layers + layers[: max(0, len(wanted) - 2)]

    return change


D = capi.BNNSNDArrayDescriptor


@pytest.mark.parametrize("chain, change, pattern, unsupported", [
    (CONV, _kinds(capi.BNNSConvolution), "chain BNNSConvolution is not supported. Supported are BNNSConvolution, .* BNNSGroupNorm", True),
    (CONV, _kinds(), "chain of no layers", True),
    (CONV, _kinds(capi.BNNSBatchNorm, capi.BNNSConvolution), "BNNSBatchNorm -> BNNSConvolution is not supported", True),
    (CONV, _kinds(capi.BNNSConvolution, capi.BNNSConvolution), "BNNSConvolution -> BNNSConvolution is not", True),
    (CONV, _kinds(capi.BNNSConvolution, capi.BNNSBatchNorm, capi.BNNSBatchNorm), "-> BNNSBatchNorm is not supported", True),
    (ADD, _kinds(capi.BNNSArithmetic, capi.BNNSQuantization), "BNNSArithmetic -> BNNSQuantization is not supported", True),
    (CONV, _kinds(capi.BNNSConvolution, 99), r"filter_type\[1\] is 99, which is no BNNSFilterType", False),
    (CONV, lambda k, v: v.__setitem__(0, None), r"layer_params\[0\] is NULL. Pass the BNNSLayerParametersConvolution", False),
    (CONV, lambda k, v: v.__setitem__(1, None), r"layer_params\[1\] is NULL", False),
    (CONV, _set(1, i_desc=image(6, 6, 4).descriptor(), o_desc=image(6, 6, 4).descriptor()),
     r"layer_params\[0\].o_desc is .* but layer_params\[1\].i_desc is", False),
    (CONV, _set(1, i_desc=image(6, 6, 5, stride=(1, 6, 40)).descriptor()), "equal in size, stride and data_type", False),
    (CONV, _set(1, i_desc=image(6, 6, 5, data_type=FLOAT16).descriptor()), "equal in size, stride and data_type", False),
    (FC, _set(1, i_desc=vector(5).descriptor(), o_desc=vector(5).descriptor()), "What one layer writes is what the next reads|beta", False),
    (ADD, _set(1, i_desc=image(6, 5, 4).descriptor(), o_desc=image(6, 5, 4).descriptor()), "arithmetic_function_fields.out is", False),
    (replace(CONV, norm=Norm("Group", groups=4)), lambda k, v: None, "4|group", False),
    (CONV, _set(1, activation=Act("Softmax").struct), "[Ss]oftmax", True),
    (CONV, _set(0, groups=4), "groups is 4", False),
    (CONV, _set(1, beta_desc=vector(5).descriptor(np.zeros(5, F32))), "beta_desc", False),
], ids=range(18))  # fmt: skip
def test_creation_is_refused(
    chain: FusedCase, change: Any, pattern: str, unsupported: bool, engine: str, watched: Watched
) -> None:
    if chain.norm.groups == 4:
        kinds, layers = _pieces(replace(chain, norm=Norm("Group", groups=1)))
        layers[1].num_groups = 4
        watched.failed(capi.BNNSFilterCreateFusedLayer(2, kinds, layers, None), "4")
        return
    watched.failed(_edit(chain, change), pattern, unsupported)


def test_arguments_of_creation(watched: Watched) -> None:
    kinds, layers = _pieces(CONV)
    create = capi.BNNSFilterCreateFusedLayer
    watched.failed(create(2, kinds[:1], layers), "filter_type has 1 entries, but number_of_fused_filters is 2")
    watched.failed(create(2, kinds, layers[:1]), "layer_params has 1 entries")
    watched.failed(create(2, None, layers), "filter_type is NULL")
    watched.failed(create(2, kinds, None), "layer_params is NULL")
    assert create(2, [*kinds, 99], [*layers, None]) is not None
    for call in (
        lambda: create(2, kinds, [layers[1], layers[0]]),
        lambda: create("2", kinds, layers),
        lambda: create(2, 5, layers),
        lambda: create(2, ["a", "b"], layers),
        lambda: create(2, kinds, layers, 5),
    ):
        with pytest.raises(TypeError):
            call()


def _backward(run: FusedRun, **changes: Any) -> int:
    """The backward call of a run with all gradients, and some arguments changed."""
    chain, g = run.case, {name: s.descriptor() for name, s in run.new_gradients().items()}
    slots = [g.get(name) for name in chain.slots]
    if chain.is_arithmetic:
        arguments: dict[str, Any] = {
            "filter": run.filter, "batch_size": chain.batch, "number_of_inputs": chain.first.count,
            "in_": [s.elements for s in run.x], "in_stride": [0] * len(run.x),
            "in_delta": [g[f"da{i}"] for i in range(chain.first.count)], "in_delta_stride": [0] * len(run.x),
        }  # fmt: skip
    else:
        arguments = {
            "filter": run.filter, "batch_size": chain.batch, "in_": run.x[0].elements, "in_stride": 0, "in_delta": g["dx"],
            "in_delta_stride": 0,
        }  # fmt: skip
    arguments |= {
        "out": run.y.elements, "out_stride": 0, "out_delta": run.dy.descriptor(), "out_delta_stride": 0,
        "delta_parameters": slots,
    } | changes  # fmt: skip
    call = "BNNSFusedFilterApplyBackwardMultiInputBatch" if chain.is_arithmetic else "BNNSFusedFilterApplyBackwardBatch"
    return int(getattr(capi, call)(**arguments))


def _guarded(run: FusedRun) -> dict[str, Storage]:
    return run.new_gradients()


@pytest.mark.parametrize("chain, changes, pattern", [
    (CONV, lambda r, g: {"delta_parameters": [g["dw"], g["db"], g["dbeta"]]},
     "delta_parameters has 3 entries, but this chain has 4 parameter gradients, in the order weights, bias, beta, gamma"),
    (CONV, lambda r, g: {"delta_parameters": [g["dbeta"], g["dgamma"], g["dw"], g["db"]]},
     r"delta_parameters\[0\] .*This is the gradient of weights; the order is weights, bias, beta, gamma"),
    (CONV, lambda r, g: {"delta_parameters": [g["dw"], g["dbeta"], g["db"], g["dw"]]}, r"delta_parameters\[3\] .*gamma"),
    (ADD, lambda r, g: {"delta_parameters": [None, None, g["dbeta"], g["dgamma"]]}, "has 4 entries.* 2 .*beta, gamma"),
    (CONV, lambda r, g: {"delta_parameters": []}, "has 0 entries"),
    (CONV, lambda r, g: {"in_": None}, "in is NULL, but the weights gradient needs"),
    (CONV, lambda r, g: {"out": None}, "out is NULL, but the fused activation"),
    (CONV, lambda r, g: {"out_delta": None}, "out_delta is NULL"),
    (CONV, lambda r, g: {"in_delta": g["dw"]}, "in_delta is ConvolutionWeightsOIHW"),
    (CONV, lambda r, g: {"batch_size": 3}, "batch_size is 3, but the latest training forward had 4"),
    (CONV, lambda r, g: {"delta_parameters": [g["dw"], g["db"], g["db"], None]}, "share memory"),
    (ADD, lambda r, g: {"in_delta": [g["da0"], g["da0"]]}, "share memory"),
    (ADD, lambda r, g: {"in_delta": None}, "in_delta is NULL"),
    (ADD, lambda r, g: {"in_delta": [g["da0"]]}, "in_delta has 1 entries"),
    (ADD, lambda r, g: {"number_of_inputs": 3}, "number_of_inputs is 3"),
    (ADD, lambda r, g: {"out_delta": None}, "out_delta is NULL"),
], ids=range(16))  # fmt: skip
def test_backward_is_refused(chain: FusedCase, changes: Any, pattern: str, engine: str, watched: Watched) -> None:
    run = chain.run()
    run.forward()
    memory = _guarded(run)
    described = {name: storage.descriptor() for name, storage in memory.items()}
    edit = changes(run, described)
    slots = [described.get(name) for name in chain.slots]
    base: dict[str, Any] = {"delta_parameters": slots}
    base["in_delta"] = (
        [described[f"da{i}"] for i in range(chain.first.count)] if chain.is_arithmetic else described["dx"]
    )
    watched.failed(_backward(run, **(base | edit)), pattern)
    for name, storage in memory.items():
        storage.assert_unchanged(name)


def test_calls_that_do_not_fit(engine: str, watched: Watched) -> None:
    conv, add = CONV.run(), ADD.run()
    y = conv.y.elements
    watched.failed(
        capi.BNNSFilterApplyBatch(conv.filter, 4, conv.x[0].elements, 0, y, 0), "Use BNNSFusedFilterApplyBatch"
    )
    watched.failed(capi.BNNSFusedFilterApplyBatch(add.filter, 4, add.x[0].elements, 0, add.y.elements, 0, True),
                   "arithmetic of 2 operands.* Use BNNSFusedFilterApplyMultiInputBatch")  # fmt: skip
    watched.failed(
        capi.BNNSFusedFilterApplyMultiInputBatch(conv.filter, 4, 1, [conv.x[0].elements], [0], y, 0, True),
        "starts with a convolution layer.* Use BNNSFusedFilterApplyBatch",
    )
    single = fully_connected.case("single", 3, 2).run()
    watched.failed(
        capi.BNNSFusedFilterApplyBatch(single.filter, 1, single.x.elements, 0, single.y.elements, 0, True),
        "does not drive a filter of family fully connected",
    )
    watched.failed(capi.BNNSFusedFilterApplyBatch(None, 1, y, 0, y, 0, True), "filter is NULL")
    watched.failed(capi.BNNSFusedFilterApplyBatch(conv.filter, 4, None, 0, y, 0, True), "in is NULL")
    watched.failed(capi.BNNSFusedFilterApplyBatch(conv.filter, 4, conv.x[0].elements, 0, None, 0, True), "out is NULL")
    watched.failed(
        capi.BNNSFusedFilterApplyBatch(conv.filter, 9, conv.x[0].elements, 0, y, 0, True), "Pass a larger buffer"
    )
    with pytest.raises(TypeError, match="training must be a bool"):
        capi.BNNSFusedFilterApplyBatch(conv.filter, 4, conv.x[0].elements, 0, y, 0, None)
    capi.BNNSFilterDestroy(conv.filter)
    watched.failed(capi.BNNSFusedFilterApplyBatch(conv.filter, 4, conv.x[0].elements, 0, y, 0, True), "destroyed")
    assert np.isnan(y).all()


def test_an_activation_inside_the_chain(engine: str, watched: Watched) -> None:
    """Fine in inference, refused in training."""
    inner = replace(CONV, first=replace(CONV.first, activation=Act("Tanh")), training=False, trains=False)
    run = inner.run()
    run.forward()
    h = np.tanh(CONV._boundary(inner.values())[0])
    mean, variance = (inner.values()[f"moving_{k}"].reshape(1, -1, 1, 1) for k in ("mean", "variance"))
    gamma, beta = (inner.values()[k].reshape(1, -1, 1, 1) for k in ("gamma", "beta"))
    expected = np.maximum((h - mean) / np.sqrt(variance + 1e-3) * gamma + beta, 0)
    np.testing.assert_allclose(run.y.read().transpose(0, 3, 2, 1), expected, rtol=1e-4, atol=1e-5)
    run.y.write(np.full_like(run.y.read(), 7))
    watched.failed(
        capi.BNNSFusedFilterApplyBatch(run.filter, 4, run.x[0].elements, 0, run.y.elements, 0, True),
        "activation Tanh, but in training every layer except the last must have the Identity",
    )
    run.y.assert_unchanged("y")


def test_an_activation_that_cannot_be_trained(engine: str, watched: Watched) -> None:
    chain = replace(CONV, activation=Act("SiLU"))
    run = chain.run()
    run.forward()
    watched.failed(_backward(run), "SiLU cannot be trained", unsupported=True)


def test_operands_that_the_derivative_needs(engine: str, watched: Watched) -> None:
    chain = case("needs", arithmetic.case("needs", "Multiply", image(6, 4, 5), image(6, 4, 5), batch=4), Norm("Batch"))
    run = chain.run()
    run.forward()
    watched.failed(_backward(run, in_=None), r"in\[0\] is NULL, but the derivative of Multiply needs its operands")
    watched.failed(_backward(run, in_=[run.x[0].elements, None]), r"in\[1\] is NULL")
    skipped = [chain.first.operands[0].descriptor()] * 2
    assert _backward(run, in_=None, in_delta=skipped) == 0


def test_other_types_run_but_do_not_train(engine: str, watched: Watched) -> None:
    tensor = image(6, 4, 5, data_type=FLOAT16)
    chain = case(
        "half", arithmetic.case("half", "Add", tensor, tensor, batch=4, y=tensor), Norm("Batch"), training=False
    )
    run = chain.run()
    y = chain.y.decode(run.forward())
    a = chain.values()
    h = tensor.rounded(a["a0"] + a["a1"]).transpose(0, 3, 2, 1)
    beta, gamma = a["beta"][0], a["gamma"][0]
    np.testing.assert_allclose(y.transpose(0, 3, 2, 1), normalized(h, beta, gamma), rtol=4e-3, atol=4e-3)
    run.forward(training=True)
    watched.failed(_backward(run), "training works on Float32 only")


def test_bad_arguments_of_classes(engine: str) -> None:
    x, w, b = arrays((4, 5), (6, 5), (6,))
    fc, norm = parameters_of("FullyConnected", weights=w, bias=b), batch_norm(6)
    vector5 = ob.Shape.vector(5)

    def refused(pattern: str, kind: type[Exception] = ob.LayerCreationError, **more: Any) -> None:
        with pytest.raises(kind, match=pattern):
            ob.FusedParametersLayer(**({"input": vector5, "fused_layer_parameters": [fc, norm]} | more))

    refused(
        "FusedNormalizationParameters -> FusedFullyConnectedParameters is not supported",
        fused_layer_parameters=[norm, fc],
    )
    refused("chain of no layers", fused_layer_parameters=[])
    refused("must be a list", TypeError, fused_layer_parameters=fc)
    refused(r"fused_layer_parameters\[1\] is of type int", TypeError, fused_layer_parameters=[fc, 3])
    refused("give input, or input_a and input_b", TypeError, input=None)
    refused("give input", TypeError, input_a=vector5)
    refused(
        "2 inputs are given, but FusedFullyConnectedParameters takes 1", input=None, input_a=vector5, input_b=vector5
    )
    refused("weights has shape", input=ob.Shape.vector(4))
    refused("output is left out", fused_layer_parameters=[fc, parameters_of("Quantization")])
    refused(
        "axis is 5", fused_layer_parameters=[fc, parameters_of("Quantization", axis=5)], output=np.zeros(6, np.int8)
    )
    refused("type must be a NormalizationType", TypeError, fused_layer_parameters=[fc, batch_norm(6, type="batch")])
    refused("beta", fused_layer_parameters=[fc, batch_norm(5)])
    refused("filter_parameters must be", TypeError, filter_parameters=3)

    layer = ob.FusedParametersLayer(input=vector5, fused_layer_parameters=[fc, norm])
    y = np.full((4, 6), 7, F32)
    with pytest.raises(ob.LayerApplyError, match=r"no training forward.*phase=LearningPhase.TRAINING"):
        layer.apply_backward(x, y, y)
    with pytest.raises(TypeError, match="phase must be a LearningPhase"):
        layer.apply(x, phase=True)
    with pytest.raises(TypeError, match="takes input, output, each once"):
        layer.apply(x, y, y)
    with pytest.raises(TypeError, match="got a tensor, input_a"):
        layer.apply(x, input_a=x)
    with pytest.raises(ob.LayerApplyError, match="input has shape"):
        layer.apply(x[:, :4])
    layer.apply(x, phase=ob.LearningPhase.TRAINING)
    with pytest.raises(ob.LayerApplyError, match=r"has 3 entries, but this chain has 4.*weights, bias, beta, gamma"):
        layer.apply_backward(x, y, y, generating_parameter_gradients=[None] * 3)
    with pytest.raises(ob.LayerApplyError, match=r"generating_parameter_gradients\[0\] \(weights\) has shape \(6,\)"):
        layer.apply_backward(x, y, y, generating_parameter_gradients=[b, w, b, b])
    with pytest.raises(ob.LayerApplyError, match="input is None, but the weights gradient"):
        layer.apply_backward(output=y, output_gradient=y)
    with pytest.raises(ob.LayerApplyError, match=r"batch_size is 3|holds 3|had 4 samples"):
        layer.apply_backward(x[:3], y[:3], y[:3])
    assert (y == 7).all()
    layer.destroy()
    with pytest.raises(ob.LayerApplyError, match="destroyed"):
        layer.apply(x)


# ---------------------------------------------------------------------------------------------------------------------
# Readings, threads, speed paths


def test_kinks_and_ties_by_compat(engine: str) -> None:
    """The switches that concern the layers hold inside a chain as well."""
    a = np.array([[1, 2, 3, 0]], F32).repeat(3, axis=0)
    for split, share in ((False, 1.0), (True, 0.5)):
        with compat.using(minmax_tie_split=split):
            first = parameters_of("BinaryArithmetic", function=ob.ArithmeticBinaryFunction.MAX)
            layer = ob.FusedParametersLayer(
                input_a=ob.Shape.vector(4), input_b=ob.Shape.vector(4), fused_layer_parameters=[first, batch_norm(4)]
            )
            x = a + np.arange(3, dtype=F32)[:, None] ** 2
            layer.apply(x, x.copy(), phase=ob.LearningPhase.TRAINING)
            (dy,) = arrays((3, 4), seed=2)
            result = layer.apply_backward(x, x.copy(), output_gradient=dy)
            total = result.input_a + result.input_b
            np.testing.assert_allclose(result.input_a, share * total, atol=1e-6)
            assert np.abs(total).max() > 1e-3


def test_fast_calls_are_taken() -> None:
    """Packed float32 arguments do not go through the checks in Python."""
    for chain in (CONV, ADD, FC):
        run = chain.run()
        filter = run.filter
        data: Any = [s.elements for s in run.x] if chain.is_arithmetic else run.x[0].elements
        strides: Any = [0] * len(run.x) if chain.is_arithmetic else 0
        assert filter.forward_fast(True, chain.batch, data, strides, run.y.elements, 0)
        assert filter.forward_fast(False, chain.batch, data, strides, run.y.elements, 0)
        gradients = {name: s.descriptor() for name, s in run.new_gradients().items()}
        deltas: Any = [gradients["da0"], gradients["da1"]] if chain.is_arithmetic else gradients["dx"]
        slots = [gradients[name] for name in chain.slots]
        arguments = (data, strides, deltas, strides, run.y.elements, 0, run.dy.descriptor(), 0, slots)
        assert filter.backward_fast(chain.batch, *arguments)
        assert not filter.backward_fast(chain.batch - 1, *arguments)


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
