"""Forward results of the native engine against the reference, for every case and at the edges of number ranges."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import openbnns
from bad_calls import refused
from cases import ALL, activation, arithmetic, convolution, fully_connected, transposed_convolution
from cases._base import Act, UnaryCase, assert_trustworthy, created, native, parameters, reference, succeed
from helpers import (
    EPSILON,
    FLOAT32,
    IMAGE,
    INT8,
    INT16,
    INT32,
    IOHRWR,
    OIHW,
    ROW_MAJOR,
    UINT8,
    Storage,
    Tensor,
    assert_bitwise,
    assert_within,
    image,
    packed,
    vector,
)  # fmt: skip
from openbnns import capi


def test_the_engines_differ() -> None:
    """The comparison is between two engines, not of one with itself."""
    assert openbnns.current_engine() == "native"
    case = fully_connected.case("compared", 113, 17, 5)
    ours, theirs = native(case), reference(case)
    assert np.any(ours.y != theirs.y) or any(np.any(ours.gradients[k] != theirs.gradients[k]) for k in ours.gradients)


def test_ids_are_unique() -> None:
    ids = [case.id for case in ALL]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("case", parameters(ALL, "forward_rows"))
def test_forward(case: Any) -> None:
    ours, theirs = native(case), reference(case)
    y, expected = case.y.decode(ours.y), case.y.decode(theirs.y)
    assert_trustworthy(case, "y", expected)
    assert_within(y, expected, case.forward_bound(ours.values, expected), f"{case.id}: y")
    if case.y.data_type != FLOAT32:  # one step of a coarse type is for values near a tie, which are few
        assert np.mean(ours.y != theirs.y) <= 0.03


# Layouts and strides say where numbers lie, not what is computed: the same numbers packed give the same bits.


def straight(case: Any) -> tuple[Any, Any]:
    """The same problem packed and with straight weights, and how its weights follow from the case's."""
    w = case.w
    order = (0, *range(1, 1 + len(w.size)))
    if w.layout.name.startswith("BNNSDataLayoutConvolutionWeights"):
        order = (0, 1, 2, 4, 3) if w.layout == IOHRWR else order
        w = Tensor(OIHW, tuple(w.size[k - 1] for k in order[1:]), data_type=w.data_type, scale=w.scale, bias=w.bias)
    elif w.layout != ROW_MAJOR:
        order = (0, 2, 1)
        w = Tensor(ROW_MAJOR, w.size[::-1], data_type=w.data_type)
    b = packed(case.b) if case.b else None
    plain = replace(case, x=packed(case.x), y=packed(case.y), w=packed(w), b=b, gap=0, packed_deltas=False)
    return plain, order


PLACED = [
    *fully_connected.LAYOUTS, *fully_connected.MEMORY, *convolution.LAYOUTS, *convolution.MEMORY,
    *transposed_convolution.LAYOUTS, *transposed_convolution.MEMORY,
]  # fmt: skip


@pytest.mark.parametrize("case", parameters(PLACED))
def test_layouts_place_the_same_numbers(case: Any) -> None:
    plain, order = straight(case)
    values = case.values()
    ours = native(case)
    run = plain.run({**values, "w": values["w"].transpose(order)})
    assert_bitwise(run.forward(), ours.y, f"{case.id}: y")
    for name, storage in run.backward().items():
        gradient = storage.read().transpose(np.argsort(order)) if name == "dw" else storage.read()
        assert_bitwise(np.ascontiguousarray(gradient), np.ascontiguousarray(ours.gradients[name]), f"{case.id}: {name}")


# Numbers at the edges: NaN, infinities, signed zeros, large, tiny and denormal values.

SPECIAL = np.array(
    [
        np.nan,
        np.inf,
        -np.inf,
        0.0,
        -0.0,
        1e4,
        -1e4,
        88.7,
        -88.7,
        104.0,
        -104.0,
        1e-20,
        -1e-20,
        1e-41,
        -1e-41,
        1.0,
        -1.0,
        0.5,
        3.0,
        -3.0,
        6.0,
        2.5,
        -2.5,
        1e30,
        -1e30,
        0.1,
        0.4,
        -0.4,
    ],
    np.float32,
).astype(np.float64)


@pytest.mark.parametrize(
    "act", [pytest.param(a, id=a.name) for a in activation.FUNCTIONS if a.name not in activation.AXIS_WISE]
)
def test_special_values_of_activations(act: Act) -> None:
    tensor = image(1, 1, SPECIAL.size) if act.name == "PReLUPerChannel" else vector(SPECIAL.size)
    case = activation.case("special", act, tensor)
    values = {"x": SPECIAL.reshape(1, *tensor.size), "dy": np.full((1, *tensor.size), 0.75)}
    run = case.run(values)
    run.forward()
    y, dx = run.y.read(), run.backward()["dx"].read()
    with openbnns.engine("reference"):
        run.forward()
        expected, slope = run.y.read(), run.backward()["dx"].read()
    x = np.nan_to_num(np.abs(values["x"]), nan=0.0, posinf=0.0)
    size = np.nan_to_num(np.abs(expected), nan=0.0, posinf=0.0)
    room = 4 * EPSILON * x if act.name in activation.CANCELLING else 0.0
    room = room + (1e-11 if act.name == "GELU" else 0.0)  # a tail that is taken as constant
    room = room + EPSILON * size * x  # rounding of beta x in the exponent of Softplus and ScaledTanh
    assert_within(y, expected, 6 * EPSILON * size + room + activation.TINY, f"{act.name}: y")
    assert_within(
        dx, slope, 7 * EPSILON * np.maximum(np.nan_to_num(np.abs(slope), nan=0.0, posinf=0.0), 1.0), f"{act.name}: dx"
    )


@pytest.mark.parametrize("function", arithmetic.FUNCTIONS)
def test_special_values_of_arithmetic(function: str) -> None:
    """Every special value alone, and every pair of them for two operands."""
    count = arithmetic.operand_count(function)
    special = SPECIAL.tolist()
    if function in ("FloorDivide", "TruncDivide", "TruncRemainder"):  # ratios beyond 2^24 have no float32 fraction
        special = [v for v in special if not (1e3 < abs(v) < np.inf) and not 0 < abs(v) < 1e-3]
    elif function == "Pow":  # the reciprocal of a denormal number overflows
        special = [v for v in special if not 0 < abs(v) < 1e-38]
    grid = np.meshgrid(*[np.array(special)] * min(count, 2), indexing="ij")
    operands = [g.ravel() for g in grid] + [np.full(grid[0].size, 0.5)] * (count - len(grid))
    tensor = vector(operands[0].size)
    case = arithmetic.case("special", function, *(tensor,) * count)
    values = {f"a{i}": a[None] for i, a in enumerate(operands)} | {"dy": np.full((1, tensor.size[0]), 0.75)}
    run = case.run(values)
    run.forward()
    results = {"y": run.y.read(), **{name: s.read() for name, s in run.backward().items()}}
    with openbnns.engine("reference"):
        run.forward()
        expected = {"y": run.y.read(), **{name: s.read() for name, s in run.backward().items()}}
    outside = np.isnan(expected["y"]) & ~np.any([np.isnan(values[f"a{i}"]) for i in range(count)], axis=0)
    for name, wanted in expected.items():
        finite = np.nan_to_num(np.abs(wanted), nan=0.0, posinf=0.0)
        factor = 300 if function == "Pow" else 6  # a relative error of ln(a)*b up to 88 in the exponent
        room = factor * EPSILON * finite + activation.TINY
        got = results[name]
        if name != "y":
            got = np.where(outside, wanted, got)  # where there is no value, no slope is defined
            room = (
                room + 1e-30 + (EPSILON if function == "Tanh" else 0.0)
            )  # squares that overflow; 1 - y^2 of a rounded y
        assert_within(got, wanted, room, f"{function}: {name}")


@pytest.mark.parametrize("name", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_softmax_properties(name: str, scale: float) -> None:
    """Rows sum to one, a shift changes nothing, and -inf is a masked entry."""
    case = activation.case("properties", Act(name), vector(113), batch=7)
    x = np.float32(scale * case.generator().standard_normal((7, 113))).astype(np.float64)
    x[:, ::5] = -np.inf
    run = case.run({"x": x, "dy": np.zeros((7, 113))})
    run.forward()
    y = run.y.read()
    p = y if name == "Softmax" else np.exp(y)
    assert np.all(p[:, ::5] == 0)
    assert_within(
        p.sum(axis=1),
        np.ones(7),
        8 * EPSILON * (1 if name == "Softmax" else 1 + np.abs(x[np.isfinite(x)]).max()),
        "sums",
    )
    shifted = case.run({"x": x + 64.0, "dy": np.zeros((7, 113))})
    shifted.forward()
    room = (
        4 * EPSILON * (np.abs(x[np.isfinite(x)]).max() + 64.0) * np.maximum(np.abs(np.nan_to_num(y, neginf=0.0)), 1.0)
    )
    assert_within(shifted.y.read(), y, room, "shift")


# Activations that do not map single floats.


def integer_case(source: Any, target: Any, per_channel: bool) -> tuple[Any, Storage, Storage]:
    """An IntegerLinearSaturate filter with inputs over the whole range of its type."""
    size = (7, 5, 3)
    x, y = Tensor(IMAGE, size, data_type=source), Tensor(IMAGE, size, data_type=target)
    name = "IntegerLinearSaturate" + ("PerChannel" if per_channel else "")
    a = Act(name).struct
    a.iscale, a.ioffset, a.ishift = 3, -7, 2
    a.iscale_per_channel, a.ioffset_per_channel, a.ishift_per_channel = (
        np.array(v, np.int32) for v in ([3, -2, 100], [-7, 5, 0], [2, 0, 4])
    )
    made = created(
        capi.BNNSFilterCreateLayerActivation(
            capi.BNNSLayerParametersActivation(i_desc=x.descriptor(), o_desc=y.descriptor(), activation=a)
        )
    )
    limits = np.iinfo(x.dtype)
    numbers = np.random.default_rng(1).integers(
        max(limits.min, -40000), min(limits.max, 40000), (2, *size), endpoint=True
    )
    return made, Storage(x, 2, 3, numbers), Storage(y, 2, 4)


@pytest.mark.covers("act.IntegerLinearSaturate.fwd", "act.IntegerLinearSaturatePerChannel.fwd")
@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize(("source", "target"), [(INT8, INT8), (INT32, INT8), (INT16, UINT8), (UINT8, INT16)])
def test_integer_linear_saturate(engine: str, per_channel: bool, source: Any, target: Any) -> None:
    made, x, y = integer_case(source, target, per_channel)
    succeed(capi.BNNSFilterApplyBatch(made, 2, x.elements, x.stride, y.elements, y.stride))
    scale, offset, shift = ([3, -2, 100], [-7, 5, 0], [2, 0, 4]) if per_channel else ([3], [-7], [2])
    limits = np.iinfo(y.tensor.dtype)
    numbers = x.raw().astype(np.int64)  # channels are the last axis of size[]
    expected = np.clip((np.array(scale) * numbers + np.array(offset)) >> np.array(shift), limits.min, limits.max)
    assert np.array_equal(y.raw(), expected)
    y.assert_guards_intact("y")


@pytest.mark.covers("act.Gumbel.fwd")
def test_gumbel_is_noise_of_its_distribution(engine: str) -> None:
    """With a = 1 and b = 0, -log(-log U) has mean 0.5772 and variance pi^2/6; the input does not matter."""
    case = activation.case("gumbel", Act("Gumbel", 1.0, 0.0), vector(20000), trains=False)
    run = case.run({"x": np.full((1, 20000), np.nan), "dy": np.zeros((1, 20000))})
    first, second = run.forward(), run.forward()
    assert np.all(np.isfinite(first)) and np.mean(first != second) > 0.99
    ordered = np.sort(first.ravel().astype(np.float64))
    distribution = np.exp(-np.exp(-ordered))
    # Kolmogorov's test, with one false alarm in 2e10 runs
    assert np.max(np.abs(distribution - (np.arange(20000) + 0.5) / 20000)) < 3.5 / np.sqrt(20000)


@pytest.mark.covers("act.GumbelMax.fwd")
def test_gumbel_max_samples_a_maximum(engine: str) -> None:
    """max_j(x_j + noise_j) is Gumbel around log sum exp x: rows are constant along the axis."""
    case = activation.case("gumbel-max", Act("GumbelMax", 1.0, 0.0), vector(5), batch=20000, trains=False)
    x = np.tile([0.0, 1.0, -1.0, 0.5, 2.0], (20000, 1))
    run = case.run({"x": x, "dy": np.zeros_like(x)})
    y = run.forward().astype(np.float64)
    assert np.all(y == y[:, :1])
    ordered = np.sort(y[:, 0]) - np.log(np.exp(x[0]).sum())
    assert np.max(np.abs(np.exp(-np.exp(-ordered)) - (np.arange(20000) + 0.5) / 20000)) < 3.5 / np.sqrt(20000)


# Calls beside FilterApplyBatch.

SINGLE = [
    fully_connected.case("single", 17, 13, activation=Act("Tanh")), convolution.case("single", 5, 7, (7, 9), (3, 3)),
    transposed_convolution.case("single", 5, 7, (4, 5), (3, 3)), activation.case("single", Act("Softmax"), vector(17)),
]  # fmt: skip


@pytest.mark.covers("fn.BNNSFilterApply")
@pytest.mark.parametrize("case", parameters(SINGLE))
def test_apply_is_a_batch_of_one(case: UnaryCase) -> None:
    run = case.run()
    expected = run.forward()
    run.y.elements[:] = np.nan
    succeed(capi.BNNSFilterApply(run.filter, run.x.elements, run.y.elements))
    assert_bitwise(run.y.raw(), expected, case.id)


@pytest.mark.covers("act.direct", "fn.BNNSDirectApplyActivationBatch")
@pytest.mark.parametrize(
    "case", parameters(activation.EVERY_FUNCTION + activation.AXES + activation.MEMORY + activation.CONVERSIONS)
)
def test_direct_activation(case: Any) -> None:
    run = case.run()
    expected = run.forward()
    out = Storage(case.y, case.batch, case.gap and case.gap + 1)
    p = case.parameters(run.x.elements, out.elements)
    succeed(capi.BNNSDirectApplyActivationBatch(p, None, case.batch, run.x.stride, out.stride))
    assert_bitwise(out.raw(), expected, case.id)
    out.assert_guards_intact("out")


@pytest.mark.covers("act.getpointer", "fn.BNNSGetPointer")
def test_get_pointer_edits_alpha_and_beta(engine: str) -> None:
    """Edits through the pointer act like a filter created with the new values, forward and backward."""
    alpha, beta = (
        capi.BNNSPointerSpecifier.BNNSPointerSpecifierAlpha,
        capi.BNNSPointerSpecifier.BNNSPointerSpecifierBeta,
    )
    for before, after in [
        (Act("LeakyRectifiedLinear", 0.25), Act("LeakyRectifiedLinear", 0.5)),
        (Act("Clamp", -1, 1), Act("Clamp", -0.25, 0.75)),
        (Act("ELU", 0.5), Act("ELU", 1.25)),
        (Act("Softplus", 1.0, 1.0), Act("Softplus", 0.5, 1.5)),
        (Act("LinearWithBias", 1.0, 0.0), Act("LinearWithBias", -0.5, 2.0)),
    ]:
        edited = activation.case("edited", before, vector(113), batch=2).run()
        expected = activation.case("edited", after, vector(113), batch=2).run()
        edited.forward()
        for which, value in ((alpha, after.alpha), (beta, after.beta)):
            pointer = capi.BNNSGetPointer(edited.filter, which)
            assert (pointer.layout, list(pointer.size)[:1], pointer.data_type) == (
                capi.BNNSDataLayout.BNNSDataLayoutVector,
                [1],
                FLOAT32,
            )
            pointer.data[0] = value
            assert capi.BNNSGetPointer(edited.filter, which).data[0] == value
        assert_bitwise(edited.forward(), expected.forward(), before.name)
        for name, storage in expected.backward().items():
            assert_bitwise(edited.backward()[name].raw(), storage.raw(), f"{before.name}: {name}")


@pytest.mark.covers("act.getpointer", "act.PReLUPerChannel.fwd", "act.PReLUPerChannel.bwd", "act.alpha_grad.prelu")
def test_get_pointer_edits_each_channel(engine: str) -> None:
    case = activation.case("channels", Act("PReLUPerChannel", 0.25), image(3, 5, 7), batch=2)
    run = case.run()
    pointer = capi.BNNSGetPointer(run.filter, capi.BNNSPointerSpecifier.BNNSPointerSpecifierAlpha)
    assert pointer.data.tolist() == [0.25] * 3  # creation replicates alpha
    pointer.data[:] = [0.5, -1.0, 2.0]
    x, dy = run.x.read(), run.dy.read()
    run.forward()
    gradients = {name: storage.read() for name, storage in run.backward().items()}
    slope = np.where(x < 0, pointer.data.astype(np.float64), 1.0)  # channels are the last axis of size[]
    assert_within(run.y.read(), x * slope, EPSILON * np.abs(x * slope), "y")
    assert_within(gradients["dx"], dy * slope, EPSILON * np.abs(dy * slope), "dx")
    terms = np.where(x < 0, x * dy, 0.0)
    assert_within(gradients["dw"], terms.sum(axis=(0, 1, 2))[None], 8 * EPSILON * np.abs(terms).sum(), "d_alpha")


def test_get_pointer_fails_with_a_null_descriptor() -> None:
    case = fully_connected.case("pointer", 3, 2)
    assert capi.BNNSGetPointer(case.run().filter, 0).data is None
    assert capi.BNNSGetPointer(None, 0).data is None
    assert capi.BNNSGetPointer(activation.case("p", Act("ELU", 1.0), vector(3)).run().filter, 7).data is None


# Arithmetic in place and aliased.


@pytest.mark.covers("arith.inplace")
@pytest.mark.parametrize("function", arithmetic.FUNCTIONS)
def test_arithmetic_forward_in_place(function: str, engine: str) -> None:
    """out may be the very buffer of any operand."""
    count = arithmetic.operand_count(function)
    case = arithmetic.case(f"in-place-{function}", function, *(vector(113),) * count, batch=3, gap=2)
    for target in range(count):
        run = case.run()
        storages = [Storage(s.tensor, s.batch, 4, s.read()) for s in run.operands]  # in place needs equal strides
        expected = run.forward()
        succeed(
            capi.BNNSArithmeticFilterApplyBatch(
                run.filter, 3, count, [s.elements for s in storages], [s.stride for s in storages],
                storages[target].elements, storages[target].stride,
            )
        )  # fmt: skip
        assert_bitwise(storages[target].raw(), expected, f"{function} onto operand {target}")
        storages[target].assert_guards_intact("out")


@pytest.mark.covers("arith.inplace")
@pytest.mark.parametrize(
    ("function", "act"),
    [(f, Act()) for f in arithmetic.WITHOUT_OPERANDS + arithmetic.FROM_OUTPUT]
    + [(f, Act("Tanh")) for f in arithmetic.WITHOUT_OPERANDS],
)
def test_arithmetic_backward_in_place(function: str, act: Act, engine: str) -> None:
    """The gradient of an operand may overwrite out_delta."""
    count = arithmetic.operand_count(function)
    case = arithmetic.case(f"in-place-{function}", function, *(vector(113),) * count, batch=3, activation=act)
    for target in range(count):
        run = case.run()
        run.forward()
        expected = run.backward()
        dy = Storage(case.y, 3, 0, run.dy.read())
        others = {i: Storage(case.operands[i], 3) for i in range(count) if i != target}
        deltas = [dy.descriptor() if i == target else others[i].descriptor() for i in range(count)]
        succeed(
            capi.BNNSArithmeticFilterApplyBackwardBatch(
                run.filter, 3, count, [s.elements for s in run.operands], [0] * count, deltas, [0] * count,
                run.y.elements, 0, dy.descriptor(), 0,
            )
        )  # fmt: skip
        assert_bitwise(dy.raw(), expected[f"da{target}"].raw(), f"{function}: da{target} in place of dy")
        for i, storage in others.items():
            assert_bitwise(storage.raw(), expected[f"da{i}"].raw(), f"{function}: da{i} beside")


def test_arithmetic_on_part_of_its_operands(engine: str) -> None:
    """The numbers are those of separate memory."""
    run = arithmetic.case("overlap", "Multiply", vector(8), vector(8), batch=2).run()
    memory = np.arange(40, dtype=np.float32)
    succeed(
        capi.BNNSArithmeticFilterApplyBatch(run.filter, 2, 2, [memory[:16], memory[16:32]], [8, 8], memory[4:20], 8)
    )
    assert_bitwise(memory[4:20], np.arange(16, dtype="f4") * np.arange(16, 32, dtype="f4"), "y")
    a, b = (s.elements.reshape(-1)[:16] for s in run.operands)
    dy = np.arange(40, dtype=np.float32)
    deltas = [vector(8).descriptor(dy[:16]), vector(8).descriptor(dy[16:32])]
    succeed(
        capi.BNNSArithmeticFilterApplyBackwardBatch(
            run.filter, 2, 2, [a, b], [0, 0], deltas, [0, 0], None, 0, vector(8).descriptor(dy[8:24]), 0
        )
    )
    np.testing.assert_allclose(dy[:16], np.arange(8, 24) * b, rtol=1e-6)
    np.testing.assert_allclose(dy[16:32], np.arange(8, 24) * a, rtol=1e-6)


@pytest.mark.covers("arith.generic_reject")
def test_generic_calls_reject_arithmetic(engine: str) -> None:
    run = arithmetic.case("generic", "Add", vector(3), vector(3), batch=2).run()
    a, y = run.operands[0].elements, run.y.elements
    assert capi.BNNSFilterApply(run.filter, a, y) == -1
    refused(capi.BNNSFilterApplyBatch(run.filter, 2, a, 0, y, 0), "BNNSArithmeticFilterApplyBatch")
    assert capi.BNNSFilterApplyTwoInput(run.filter, a, a, y) == -1
    assert capi.BNNSFilterApplyTwoInputBatch(run.filter, 2, a, 0, a, 0, y, 0) == -1
    delta = run.dy.descriptor()
    assert capi.BNNSFilterApplyBackwardBatch(run.filter, 2, a, 0, delta, 0, y, 0, delta, 0, None, None) == -1
    run.y.assert_unchanged("y")


# Who holds the weights.

PARAMETRIC = [
    fully_connected.case("held", 17, 13, 5),
    fully_connected.case("held-column-major", 17, 13, 5, fully_connected.COLUMN_MAJOR),
    convolution.case("held", 5, 7, (7, 9), (3, 3), batch=2),
    convolution.case("held-pack32", 5, 35, (7, 9), (3, 3), layout=convolution.PACK32),
    convolution.case("held-depthwise", 5, 5, (7, 9), (3, 3), groups=5),
    transposed_convolution.case("held", 5, 7, (4, 5), (3, 3)),
]


@pytest.mark.covers("core.flag.client_ptr_on", "core.flag.client_ptr_off")
@pytest.mark.parametrize("case", parameters(PARAMETRIC))
def test_client_pointer(case: Any, engine: str) -> None:
    """With the flag, edits of the caller's weights act on the next call; without it never. Training works both ways."""
    for client in (True, False):
        held = replace(case, client_pointer=client)
        values = held.values()
        run = held.run(values)
        changed = {**values, "w": -2.0 * values["w"], "b": values["b"] + 1.0}
        run.forward()
        run.w.write(changed["w"])
        run.b.write(changed["b"])
        expected = held.run(changed if client else values)
        assert_bitwise(run.forward(), expected.forward(), f"{case.id}: y")
        for name, storage in expected.backward().items():
            assert_bitwise(run.backward()[name].raw(), storage.raw(), f"{case.id}: {name}")


@pytest.mark.covers("fn.BNNSFilterDestroy")
def test_a_destroyed_filter_does_nothing() -> None:
    run = fully_connected.case("destroyed", 3, 2).run()
    capi.BNNSFilterDestroy(run.filter)
    capi.BNNSFilterDestroy(run.filter)
    capi.BNNSFilterDestroy(None)
    assert capi.BNNSFilterApply(run.filter, run.x.elements, run.y.elements) == -1
    run.y.assert_unchanged("y")


# Sizes of what descriptors describe.


@pytest.mark.covers("fn.BNNSNDArrayGetDataSize")
def test_data_size_is_the_span_of_the_array() -> None:
    tensors = {t for case in ALL for t in (case.y, getattr(case, "x", None), getattr(case, "w", None)) if t is not None}
    assert len(tensors) > 100
    for tensor in tensors:
        data = np.zeros(tensor.span, tensor.dtype)
        assert capi.BNNSNDArrayGetDataSize(tensor.descriptor(data)) == tensor.span * tensor.dtype.itemsize, tensor
        assert capi.BNNSNDArrayGetDataSize(tensor.descriptor()) == 0  # no data, no size
    assert capi.BNNSNDArrayGetDataSize(None) == 0


@pytest.mark.covers("fn.BNNSDataLayoutGetRank")
def test_layout_rank_is_the_number_of_sizes() -> None:
    for case in ALL:
        assert capi.BNNSDataLayoutGetRank(case.y.layout) == len(case.y.size)
    for layout in capi.BNNSDataLayout:
        named = [int(c) for c in layout.name.removeprefix("BNNSDataLayout")[:2] if c.isdigit()]
        assert capi.BNNSDataLayoutGetRank(layout) == (named[0] if named else int(layout) >> 16)
    assert capi.BNNSDataLayoutGetRank(0x99999) == (1 << 64) - 1


@pytest.mark.covers("fn.BNNSTensorGetAllocationSize", "direct.tensorsize")
def test_allocation_size_reaches_the_last_element() -> None:
    for shape, stride, elements in [((3, 4), (4, 1), 12), ((3, 4), (10, 2), 27), ((5,), (3,), 13), ((2, 0), (4, 1), 0)]:
        tensor = capi.BNNSTensor(data_type=FLOAT32, rank=len(shape), shape=shape, stride=stride)
        assert capi.BNNSTensorGetAllocationSize(tensor) == 4 * elements
    dynamic = capi.BNNSTensor(data_type=FLOAT32, rank=1, shape=(-1,), stride=(1,))
    assert capi.BNNSTensorGetAllocationSize(dynamic) == (1 << 64) - 1
