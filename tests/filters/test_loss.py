"""Losses: values, gradients, extremes, switches, Yolo and memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import openbnns as ob
from cases._base import created, succeed
from cases.loss import CASES, EVERY, FUNCTIONS, NAMES, REDUCTIONS, STRUCTS, LossCase, LossRun, YoloCase
from cases.observed import OBSERVED, setup_of
from helpers import Array, Storage, assert_bitwise, assert_within, vector
from openbnns import capi, compat
from openbnns.reference import loss as reference


def parameters(chosen: list[LossCase], rows: str) -> list[Any]:
    return [pytest.param(case, id=case.id, marks=pytest.mark.covers(*getattr(case, rows))) for case in chosen]


def expected_loss(case: LossCase, values: dict[str, Array]) -> Array:
    return reference.forward(
        case.settings, case.flat(values, "x"), case.flat(values, "t"), case.given_weights(values)
    ).reshape(1 if case.reduces else case.batch, -1)


def expected_gradient(case: LossCase, values: dict[str, Array], upstream: Array) -> Array:
    x, t = case.flat(values, "x"), case.flat(values, "t")
    return case.unflat(reference.backward(case.settings, x, t, upstream, case.given_weights(values)))


# ---------------------------------------------------------------------------------------------------------------------
# Values and gradients


def test_ids_are_unique() -> None:
    ids = [case.id for case in CASES]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("case", parameters(CASES, "forward_rows"))
def test_forward(case: LossCase, engine: str) -> None:
    """Loss and gradient in one call against float64; nothing else is read or written."""
    values = case.values()
    run = LossRun(case, values)
    out, dx = run.forward()
    assert dx is not None
    value_bound, slope_bound = case.bound(values)
    assert_within(out.read(), expected_loss(case, values), value_bound, f"{case.id}: out")
    assert_within(dx.read(), expected_gradient(case, values, np.ones(1)), slope_bound, f"{case.id}: in_delta")
    out.assert_guards_intact("out")
    dx.assert_guards_intact("in_delta")
    for name, storage in run.inputs.items():
        storage.assert_unchanged(name)
    alone, _ = run.forward(gradient=False)
    assert_within(alone.read(), out.read(), value_bound, "out without in_delta")


@pytest.mark.parametrize("case", parameters(CASES, "backward_rows"))
def test_backward(case: LossCase, engine: str) -> None:
    values = case.values()
    run = LossRun(case, values)
    dx = run.backward()
    bound = case.bound(values)[1]
    assert_within(dx.read(), expected_gradient(case, values, values["u"]), bound, f"{case.id}: in_delta")
    dx.assert_guards_intact("in_delta")
    for name, storage in run.inputs.items():
        storage.assert_unchanged(name)


@pytest.mark.parametrize("case", [c for c in EVERY if c.weights != "one"], ids=lambda case: case.id)
def test_accumulate(case: LossCase, engine: str) -> None:
    """Accumulate is the old content plus what Set gives."""
    values = case.values()
    run, old = LossRun(case, values), np.float32(np.random.default_rng(3).standard_normal(values["x"].shape))
    bound = 4 * case.bound(values)[1] + 1e-6
    _, once = run.forward()
    _, added = run.forward(old=old)
    assert once is not None and added is not None
    assert_within(added.read(), once.read() + old, bound, "forward")
    added.assert_guards_intact("in_delta")
    assert_within(run.backward(old=old).read(), run.backward().read() + old, bound, "backward")


# The printed gradient is the derivative of the printed loss, but for: cosine distance (along the unit sphere) and
# weighted categorical cross entropy.
DIFFERENTIABLE = [c for c in EVERY if c.function != "CategoricalCrossEntropy" or c.weights == "none"]


@pytest.mark.parametrize("case", parameters(DIFFERENTIABLE, "backward_rows"))
def test_gradient_by_finite_differences(case: LossCase, engine: str) -> None:
    """<v, f(x + hu) - f(x - hu)> / 2h against <backward(v), u> for a random direction u and cotangent v."""
    values = case.values()
    if case.function == "CosineDistance":  # 1 - sum w t x needs w = 1 for the tangent form to be a derivative
        case = replace(case, weights="none")
    gradient = LossRun(case, values).backward().read()
    weights = case.given_weights(values)

    def loss(x: Array) -> Array:
        if case.function == "CosineDistance":
            x = x / np.linalg.norm(x, axis=1, keepdims=True)
        return reference.forward(case.settings, x, case.flat(values, "t"), weights)

    x, h = case.flat(values, "x"), 1e-6
    u = np.random.default_rng(5).standard_normal(x.shape)
    numeric = np.vdot(values["u"], loss(x + h * u) - loss(x - h * u)) / (2 * h)
    analytic = np.vdot(case.flat({"dx": gradient}, "dx"), u)
    assert abs(numeric - analytic) <= 1e-4 * max(abs(numeric), float(np.linalg.norm(gradient)), 1e-3)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("reduction", ["Mean", "None"])
def test_gradcheck(name: str, reduction: str, engine: str) -> None:
    report = ob.gradcheck(LossCase(name, reduction).create(), verbose=False)
    assert report.passed, str(report)


def test_gradcheck_takes_predictions_and_labels(engine: str) -> None:
    made = LossCase("MeanSquareError", "Sum").create()
    x = np.random.default_rng(0).standard_normal((2, 4, 7))
    assert ob.gradcheck(made, [x[0], x[1]], verbose=False)
    with pytest.raises(ob.LayerApplyError, match=r"1 input is given, but this loss filter takes 2: input, labels"):
        ob.gradcheck(made, x[0])
    with pytest.raises(ob.LayerApplyError, match=r"labels has shape \(3,\), but one sample is \(7,\)"):
        ob.gradcheck(made, [x[0], np.zeros(3)])


@pytest.mark.parametrize("case", [c for name, c in OBSERVED.items() if name.startswith("mse_")], ids=lambda c: c["id"])
@pytest.mark.covers("loss.MeanSquareError.fwd", "loss.MeanSquareError.indelta", "loss.MeanSquareError.bwd")
def test_observed(case: dict[str, Any], engine: str) -> None:
    """Results that were observed on real BNNS."""
    setup = setup_of(case)
    given, expected = case["inputs"], case["expected"]
    x, t = (np.array(given[name], np.float32) for name in ("x", "labels"))
    made = LossCase(setup["function"], setup["reduction"], batch=1, x=vector(len(x))).create()
    if "dy" in given:
        dx = Storage(vector(len(x)))
        dy = vector(len(given["dy"])).descriptor(np.array(given["dy"], np.float32))
        succeed(capi.BNNSLossFilterApplyBackwardBatch(made, 1, x, 0, dx.descriptor(), 0, t, 0, None, 0, dy, 0))
        np.testing.assert_allclose(dx.read()[0], expected["dx"], atol=case["tol"])
        return
    out, dx = Storage(vector(setup["o"]["size"][0])), Storage(vector(len(x)))
    succeed(capi.BNNSLossFilterApplyBatch(made, 1, x, 0, t, 0, None, 0, out.elements, dx.descriptor(), 0))
    np.testing.assert_allclose(out.read()[0], expected["loss"], atol=case["tol"])
    if "dx" in expected:
        np.testing.assert_allclose(dx.read()[0], expected["dx"], atol=case["tol"])


# ---------------------------------------------------------------------------------------------------------------------
# Threads, extremes, kinks


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("reduction", ["Mean", "None"])
@pytest.mark.parametrize("gap", [0, 3])
def test_thread_counts_agree_bitwise(name: str, reduction: str, gap: int) -> None:
    case = LossCase(name, reduction, "each", 150, vector(777), gap)
    values = case.values()
    runs = [LossRun(case, values, threads) for threads in (1, 2, 5)]
    results = [(*run.forward(), run.backward()) for run in runs]
    for others in results[1:]:
        for mine, theirs, what in zip(results[0], others, ("out", "in_delta", "backward"), strict=True):
            assert_bitwise(mine.raw(), theirs.raw(), what)


def test_scratch_content_does_not_matter() -> None:
    from openbnns import engines

    case = LossCase("SoftmaxCrossEntropy", "Mean", batch=9, x=vector(100))
    values = case.values()
    before = LossRun(case, values).forward()
    engines._core.set_scratch_poison(True)
    try:
        after = LossRun(case, values).forward()
    finally:
        engines._core.set_scratch_poison(False)
    for mine, theirs in zip(before, after, strict=True):
        assert_bitwise(mine.raw(), theirs.raw(), "poisoned")


@pytest.mark.parametrize("width", [3, 50])
@pytest.mark.parametrize("name", ["SoftmaxCrossEntropy", "SigmoidCrossEntropy", "CategoricalCrossEntropy"])
@pytest.mark.parametrize("soft", [False, True], ids=["one-hot", "soft"])
def test_logits_of_ten_thousand(name: str, soft: bool, width: int, engine: str) -> None:
    """Far logits give the finite values of the formula, without overflow and without warnings."""
    case = LossCase(name, "None", batch=4, x=vector(width))
    rng = np.random.default_rng(4)
    x = rng.choice([-1e4, 1e4, 0.0, -100.0, 90.0], (4, width))
    t = rng.uniform(0, 1, (4, width)) if soft else np.eye(width)[[0, 1, 2, 0]]
    t = np.float32(t / t.sum(axis=1, keepdims=True)).astype(np.float64)
    values = {"x": x, "t": t, "w": np.ones(1), "u": np.ones((4, *case.y.size))}
    run = LossRun(case, values)
    out, dx = run.forward()
    assert dx is not None
    expected = expected_loss(case, values)
    assert np.all(np.isfinite(expected))
    assert_within(out.read(), expected, 1e-6 * np.abs(expected) + 2e-6, "out")
    assert_within(dx.read(), expected_gradient(case, values, np.ones(1)), 2e-6, "in_delta")


@pytest.mark.parametrize("name", NAMES)
def test_nan_stays_nan(name: str, engine: str) -> None:
    case = LossCase(name, "None", batch=2, x=vector(20))
    values = case.values()
    values["x"][1, 3] = np.nan
    out, dx = LossRun(case, values).forward()
    assert dx is not None
    assert not np.isnan(out.read()[0]).any() and not np.isnan(dx.read()[0]).any()
    assert np.isnan(out.read()[1]).any() and np.isnan(dx.read()[1, 3])


def test_infinite_logits_with_certain_labels(engine: str) -> None:
    case = LossCase("SigmoidCrossEntropy", "None", batch=1, x=vector(4))
    values = {"x": np.array([[np.inf, -np.inf, np.inf, -np.inf]]), "t": np.array([[1.0, 0.0, 0.0, 1.0]]),
              "w": np.ones(1), "u": np.ones((1, 4))}  # fmt: skip
    out, dx = LossRun(case, values).forward()
    assert dx is not None
    np.testing.assert_array_equal(out.read(), [[0, 0, np.inf, np.inf]])
    np.testing.assert_array_equal(dx.read(), [[0, 0, 1, -1]])


@pytest.mark.parametrize(
    ("name", "x", "t", "loss", "slope"),
    [
        ("MeanAbsoluteError", [1, 2, 0], [1, 0, 3], [0, 2, 3], [1, 1, -1]),  # +1 at equality
        ("Hinge", [1, 2, -1], [1, 1, 1], [0, 0, 2], [-1, 0, -1]),  # equality counts as active
        ("Hinge", [1, -1, -2], [0, 0, 0], [2, 0, 0], [1, 1, 0]),
        ("Huber", [2.5, 3, -1], [2, 2, 2], [0.125, 0.5, 2.5], [0.5, 1, -1]),
        ("CosineDistance", [0.6, 0.8, 0], [1, 0, 0], [0.4], [-0.64, 0.48, 0]),
        ("SoftmaxCrossEntropy", [0, 0, 0], [0, 1, 0], [np.log(3)], [1 / 3, -2 / 3, 1 / 3]),
        ("CategoricalCrossEntropy", [0, 0, 0], [0, 1, 1], [np.log(3)], [1 / 3, 1 / 3 - 1 / 2, 1 / 3 - 1 / 2]),
        ("CategoricalCrossEntropy", [0, 1, 2], [0, 0, 0], [0], [0, 0, 0]),  # no label: nothing to learn
    ],
)
def test_by_hand(name: str, x: list[float], t: list[float], loss: list[float], slope: list[float], engine: str) -> None:
    case = LossCase(name, "None", batch=1, x=vector(3), delta=1.0)
    values = {"x": np.array([x], float), "t": np.array([t], float), "w": np.ones(1), "u": np.ones((1, *case.y.size))}
    out, dx = LossRun(case, values).forward()
    assert dx is not None
    np.testing.assert_allclose(out.read()[0], loss, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(dx.read()[0], slope, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("reduction", [r for r in REDUCTIONS if r != "None"])
def test_empty_batch_and_zero_weights(reduction: str, engine: str) -> None:
    """No loss at all, or none with a weight, is 0, and so is its gradient."""
    made, out = LossCase("MeanSquareError", reduction).create(), np.full(1, np.nan, np.float32)
    nothing = np.zeros(0, np.float32)
    succeed(capi.BNNSLossFilterApplyBatch(made, 0, nothing, 0, nothing, 0, None, 0, out, None, 0))
    assert out[0] == 0
    x, weights, dx = np.ones((3, 7), np.float32), np.zeros(21, np.float32), np.full((3, 7), np.nan, np.float32)
    succeed(capi.BNNSLossFilterApplyBatch(made, 3, x, 0, 0 * x, 0, weights, 21, out, vector(7).descriptor(dx), 0))
    assert out[0] == 0 and not dx.any()


# ---------------------------------------------------------------------------------------------------------------------
# Switches


def one_loss(case: LossCase) -> tuple[Array, Array, dict[str, Array]]:
    values = case.values()
    out, dx = LossRun(case, values).forward()
    assert dx is not None
    return out.read(), dx.read(), values


@pytest.mark.parametrize("width", [7, 40])
def test_softmax_loss_class_factor(width: int, engine: str) -> None:
    case = LossCase("SoftmaxCrossEntropy", "Sum", x=vector(width))
    plain, slope, _ = one_loss(case)
    with compat.using(softmax_loss_class_factor=True):
        divided, divided_slope, _ = one_loss(case)
    np.testing.assert_allclose(divided, plain / width, rtol=1e-6)
    np.testing.assert_allclose(divided_slope, slope / width, rtol=1e-5, atol=1e-8)


def test_cosine_gradient_plain(engine: str) -> None:
    case = LossCase("CosineDistance", "Sum", "one")
    loss, slope, values = one_loss(case)
    with compat.using(cosine_gradient_plain=True):
        same, plain, _ = one_loss(case)
    np.testing.assert_array_equal(loss, same)
    np.testing.assert_allclose(plain, -values["w"][0] * values["t"], rtol=1e-6)
    assert not np.allclose(plain, slope)


# ---------------------------------------------------------------------------------------------------------------------
# Yolo


YOLO = [
    YoloCase(), YoloCase(rescore=True), YoloCase(classes=0), YoloCase(delta=0.0), YoloCase(5, 4, 3, 3, (1.0, 1.5)),
    YoloCase(13, 13, 20, 4),
]  # fmt: skip


def yolo_forward(made: Any, x: Array, t: Array, weights: Array | None = None) -> tuple[float, Array]:
    x32, t32, dx = np.float32(x), np.float32(t), np.full(x.shape, np.nan, np.float32)
    out, width = np.empty(1, np.float32), x[0].size
    count = 0 if weights is None else weights.size
    succeed(
        capi.BNNSLossFilterApplyBatch(
            made, len(x), x32, 0, t32, 0, weights, count, out, vector(width).descriptor(dx), 0
        )
    )
    return float(out[0]), dx.astype(np.float64)


@pytest.mark.parametrize("case", YOLO, ids=repr)
@pytest.mark.parametrize("raw", [False, True], ids=["sigmoids", "raw"])
@pytest.mark.covers("loss.Yolo.fwd", "loss.Yolo.indelta", "fn.BNNSFilterCreateLayerLoss")
def test_yolo_forward(case: YoloCase, raw: bool, engine: str) -> None:
    """Against loops over the written formula."""
    x, t = case.values()
    loss, slopes, roles = case.by_definition(x, t, raw)
    assert {1, 2} <= set(roles.flat)
    assert raw or 0 in roles or case.shape[3] == 1
    with compat.using(yolo_raw_coordinates=raw):
        made = created(capi.BNNSFilterCreateLayerLoss(case.struct()))
    value, dx = yolo_forward(made, x, t)
    assert value == pytest.approx(loss, rel=1e-6)
    np.testing.assert_allclose(dx, slopes, rtol=1e-5, atol=1e-6)
    weighted, weighted_dx = yolo_forward(made, x, t, np.array([0.5], np.float32))
    assert weighted == pytest.approx(0.5 * loss, rel=1e-6)
    np.testing.assert_allclose(weighted_dx, 0.5 * slopes, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("case", [c for c in YOLO if not c.rescore], ids=repr)
@pytest.mark.covers("loss.Yolo.bwd", "fn.BNNSLossFilterApplyBackwardBatch")
def test_yolo_backward(case: YoloCase, engine: str) -> None:
    """By finite differences of the loops over the formula, away from the points where an anchor changes its role."""
    x, t = case.values()
    made = created(capi.BNNSFilterCreateLayerLoss(case.struct()))
    u, dx = np.array([-1.7], np.float32), np.full((len(x), case.width), 0.25, np.float32)
    delta = vector(case.width).descriptor(dx, flags=1)
    succeed(
        capi.BNNSLossFilterApplyBackwardBatch(
            made, len(x), np.float32(x), 0, delta, 0, np.float32(t), 0, None, 0, vector(1).descriptor(u), 0
        )
    )
    gradient = (dx.astype(np.float64) - 0.25).reshape(x.shape)
    direction, h = np.random.default_rng(6).standard_normal(x.shape), 1e-6
    (after, _, roles_after), (before, _, roles_before) = (case.by_definition(x + s * h * direction, t) for s in (1, -1))
    np.testing.assert_array_equal(roles_after, roles_before)
    numeric = float(u[0]) * (after - before) / (2 * h)
    assert np.vdot(gradient, direction) == pytest.approx(numeric, rel=1e-4, abs=1e-4)


def test_yolo_threads_strides_and_anchors() -> None:
    case = YoloCase(13, 13, 20, 4)
    x, t = case.values()
    results = []
    for threads in (1, 2, 3):
        p = capi.BNNSFilterParameters(n_threads=threads)
        results.append(yolo_forward(created(capi.BNNSFilterCreateLayerLoss(case.struct(), p)), x, t))
    for value, dx in results[1:]:
        assert value == results[0][0]
        assert_bitwise(dx, results[0][1], "in_delta")
    anchors = np.array(case.anchors, np.float32)
    client = capi.BNNSFilterParameters(flags=capi.BNNSFlagsUseClientPtr)
    follows = created(capi.BNNSFilterCreateLayerLoss(case.struct(anchors_data=anchors), client))
    keeps = created(capi.BNNSFilterCreateLayerLoss(case.struct(anchors_data=anchors)))
    assert yolo_forward(follows, x, t)[0] == yolo_forward(keeps, x, t)[0] == results[0][0]
    anchors *= 2
    assert yolo_forward(keeps, x, t)[0] == results[0][0]
    for name in ("native", "reference"):
        with ob.engine(name):
            other, _, _ = replace(case, anchors=tuple(2 * a for a in case.anchors)).by_definition(x, t)
            assert yolo_forward(follows, x, t)[0] == pytest.approx(other, rel=1e-6)


# ---------------------------------------------------------------------------------------------------------------------
# Memory


@pytest.mark.parametrize("name", ["SoftmaxCrossEntropy", "MeanSquareError", "CosineDistance"])
def test_overlaps_give_the_numbers_of_separate_memory(name: str, engine: str) -> None:
    """in_delta on top of predictions, labels or upstream gradient; out on top of the predictions."""
    case = LossCase(name, "Sum", "one", 5, vector(7))
    values = case.values()
    out, dx = LossRun(case, values).forward()
    assert dx is not None
    for place in ("x", "t"):
        run = LossRun(case, values)
        memory = getattr(run, place).elements
        loss = np.empty(1, np.float32)
        succeed(
            capi.BNNSLossFilterApplyBatch(
                run.filter,
                5,
                run.x.elements,
                0,
                run.t.elements,
                0,
                run.w.elements,
                1,
                loss,
                vector(7).descriptor(memory),
                0,
            )
        )
        assert_bitwise(memory.reshape(5, 7), dx.raw(), f"in_delta on {place}")
        assert loss[0] == out.raw()[0, 0]
    run = LossRun(case, values)
    succeed(
        capi.BNNSLossFilterApplyBatch(
            run.filter, 5, run.x.elements, 0, run.t.elements, 0, run.w.elements, 1, run.x.elements, None, 0
        )
    )
    assert run.x.elements[0] == out.raw()[0, 0]
    expected = LossRun(case, values).backward().raw()
    run = LossRun(case, values)
    big = np.zeros(40, np.float32)
    big[0] = values["u"].flat[0]
    succeed(
        capi.BNNSLossFilterApplyBackwardBatch(
            run.filter,
            5,
            run.x.elements,
            0,
            vector(7).descriptor(big),
            0,
            run.t.elements,
            0,
            run.w.elements,
            1,
            vector(1).descriptor(big),
            0,
        )
    )
    assert_bitwise(big[:35].reshape(5, 7), expected, "in_delta on out_delta")


def test_out_descriptors_of_a_whole_batch(engine: str) -> None:
    """With reduction None, o_desc and out_delta may describe the losses of the whole batch."""
    for name, each in (("SoftmaxCrossEntropy", 1), ("Huber", 7)):
        case = LossCase(name, "None")
        values = case.values()
        run = LossRun(case, values)
        struct = STRUCTS[name](
            function=FUNCTIONS[name], i_desc=vector(7).descriptor(), o_desc=vector(5 * each).descriptor(),
            **({"huber_delta": case.delta} if name == "Huber" else {}),
        )  # fmt: skip
        made = created(capi.BNNSFilterCreateLayerLoss(struct))
        out, dx = np.empty(5 * each, np.float32), np.empty((5, 7), np.float32)
        succeed(capi.BNNSLossFilterApplyBatch(made, 5, run.x.elements, 0, run.t.elements, 0, None, 0, out, None, 0))
        assert_bitwise(out, run.forward()[0].raw().reshape(-1), "out")
        arriving = vector(5 * each).descriptor(run.u.elements)
        succeed(
            capi.BNNSLossFilterApplyBackwardBatch(
                made, 5, run.x.elements, 0, vector(7).descriptor(dx), 0, run.t.elements, 0, None, 0, arriving, 0
            )
        )
        assert_bitwise(dx, run.backward().raw(), "in_delta")
