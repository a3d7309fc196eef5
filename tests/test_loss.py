"""Losses: both engines, every reduction and form of weights, gradients, extremes, memory, layers and bad inputs."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openbnns as ob
from cases import loss as cases
from cases._base import created, succeed
from cases.loss import CASES, EVERY, FUNCTIONS, NAMES, REDUCTIONS, STRUCTS, LossCase, LossRun, YoloCase
from helpers import FLOAT16, Array, Storage, assert_bitwise, assert_within, vector
from openbnns import capi, compat
from openbnns.engines.reference import loss as reference

OBSERVED = json.loads((Path(__file__).parent / "data" / "observed_cases.json").read_text(encoding="utf-8"))["cases"]


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
    with pytest.raises(ob.LayerApplyError, match=r"1 inputs are given, but a loss takes two"):
        ob.gradcheck(made, x[0])
    with pytest.raises(ob.LayerApplyError, match=r"shapes \(4, 7\) and \(3,\), but one sample has 7"):
        ob.gradcheck(made, [x[0], np.zeros(3)])


@pytest.mark.parametrize("case", [c for c in OBSERVED if c["id"].startswith("mse_")], ids=lambda c: c["id"])
@pytest.mark.covers("loss.MeanSquareError.fwd", "loss.MeanSquareError.indelta", "loss.MeanSquareError.bwd")
def test_observed(case: dict[str, Any], engine: str) -> None:
    """What real BNNS was seen to compute."""
    setup = case["setup"]
    if "same_as" in setup:
        setup = next(c["setup"] for c in OBSERVED if c["id"] == setup["same_as"])
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


# ---------------------------------------------------------------------------------------------------------------------
# The layer

LF = ob.LossFunction
LAYER_FUNCTIONS = {
    "SoftmaxCrossEntropy": LF.softmax_cross_entropy(label_smoothing=0.1),
    "SigmoidCrossEntropy": LF.sigmoid_cross_entropy(label_smoothing=0.1),
    "MeanSquareError": LF.mean_square_error(),
    "Huber": LF.huber(huber_delta=0.8),
    "Log": LF.log(),
    "CosineDistance": LF.cosine_distance(),
    "Hinge": LF.hinge(),
    "MeanAbsoluteError": LF.mean_absolute_error(),
    "CategoricalCrossEntropy": LF.categorical_cross_entropy(),
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("reduction", list(ob.LossReduction), ids=lambda r: r.name)
@pytest.mark.parametrize("weights", cases.WEIGHTS)
@pytest.mark.covers("swift.LossLayer")
def test_layer_is_the_filter(name: str, reduction: ob.LossReduction, weights: str, engine: str) -> None:
    c_name = reduction.value.name.removeprefix("BNNSLossReduction")
    smooth = 0.1 if name in cases.SMOOTHED else 0.0
    case = LossCase(name, c_name, weights, smooth=smooth)
    values = case.values()
    run = LossRun(case, values)
    out, dx = run.forward()
    assert dx is not None
    layer = ob.LossLayer(
        input=ob.Shape.vector(7), output=ob.Shape.vector(case.y.count), loss_function=LAYER_FUNCTIONS[name],
        loss_reduction=reduction,
    )  # fmt: skip
    x, t, w = np.float32(values["x"]), np.float32(values["t"]), np.float32(values["w"])
    given = {"weights": None if weights == "none" else w, "broadcasts_weights": weights == "one"}
    loss, gradient = layer.apply(x, t, **given)
    assert loss.shape == ((1,) if case.reduces else (5, case.y.count)) and gradient.shape == (5, 7)
    assert_bitwise(loss.reshape(-1), out.raw().reshape(-1), "loss")
    assert_bitwise(gradient, dx.raw(), "gradient")
    u = np.float32(values["u"]).reshape(loss.shape)
    assert_bitwise(layer.apply_backward(x, t, u, **given).input, run.backward().raw(), "backward")
    target, into = np.empty_like(loss), np.ones_like(x)
    result = layer.apply(
        batch_size=5, input=x, labels=t, output=target, generating_input_gradient=into, accumulate=True, **given
    )
    assert result.output is target and result.input_gradient is into
    np.testing.assert_allclose(into, gradient + 1, rtol=1e-5, atol=1e-5)
    assert layer.apply(x, t, generating_input_gradient=ob.skip, **given).input_gradient is None
    assert layer.apply_backward(x, t, u, generating_input_gradient=ob.skip, **given).input is None


def test_layer_forms_of_arguments(engine: str) -> None:
    x, t = np.random.default_rng(1).standard_normal((2, 4, 6)).astype(np.float32)
    layer = ob.LossLayer(
        input=x,
        loss_function=LF.mean_square_error(),
        loss_reduction=ob.LossReduction.MEAN,
        output=np.zeros(1, np.float32),
    )
    loss, gradient = layer.apply(x, t)
    single_loss, single = layer.apply(x[0], t[0])
    assert single.shape == (6,) and single_loss.shape == (1,)
    np.testing.assert_allclose(single, 4 * gradient[0], rtol=1e-6)
    strided, _ = layer.apply(np.repeat(x, 2, axis=1)[:, ::2], t)
    assert strided == loss
    for one in (2.0, np.float32(2), np.array(2, np.float32), np.array([2], np.float32)):
        np.testing.assert_allclose(layer.apply_backward(x, t, one).input, 2 * gradient, rtol=1e-6)
    described = [ob.Shape.vector(6).descriptor(data=a) for a in (x, t)]
    by_descriptor = layer.apply(*described, batch_size=4)
    assert by_descriptor.output == loss
    per_sample = ob.LossLayer(
        input=ob.Shape.vector(6), loss_function=LF.softmax_cross_entropy(), loss_reduction=ob.LossReduction.NONE
    )
    flat = np.empty(4, np.float32)
    result = per_sample.apply(x, t, flat)
    assert result.output is flat
    assert_bitwise(flat, per_sample.apply(x, t).output[:, 0], "(N,)")
    slope = per_sample.apply_backward(x, t, np.arange(4, dtype=np.float32)).input
    np.testing.assert_allclose(slope, result.input_gradient * np.arange(4)[:, None], rtol=1e-6)
    images = ob.LossLayer(
        input=ob.Shape.image_chw(3, 2, 1), loss_function=LF.log(), loss_reduction=ob.LossReduction.NONE
    )
    p = np.full((4, 1, 2, 3), 0.5, np.float32)
    assert images.apply(p, p).output.shape == (4, 1, 2, 3)
    assert repr(layer).startswith(
        "LossLayer(input=Shape.vector(6), output=Shape.vector(1), loss_function=LossFunction.mean"
    )


@pytest.mark.covers("loss.Yolo.fwd", "loss.Yolo.indelta", "swift.LossLayer")
def test_yolo_layer(engine: str) -> None:
    case = YoloCase()
    x, t = case.values()
    p = ob.YoloParameters(
        grid_column_count=3, grid_rows_count=2, anchor_box_count=3, anchor_box_size=9, huber_delta=0.6, rescore=False,
        anchors_data=np.array(case.anchors, np.float32), xy_scale=1.1, wh_scale=0.9, object_scale=2.0,
        no_object_scale=0.5,
        classification_scale=1.3, object_minimum_iou=0.6, no_object_maximum_iou=0.15,
    )  # fmt: skip
    layer = ob.LossLayer(
        input=ob.Shape.vector(case.width), loss_function=LF.yolo(p), loss_reduction=ob.LossReduction.SUM
    )
    loss, slope = layer.apply(np.float32(x).reshape(2, -1), np.float32(t).reshape(2, -1))
    expected, slopes, _ = case.by_definition(x, t)
    assert loss[0] == pytest.approx(expected, rel=1e-6)
    np.testing.assert_allclose(slope.reshape(x.shape), slopes, rtol=1e-5, atol=1e-6)
    assert ob.gradcheck(layer, verbose=False)


def test_layer_errors(engine: str) -> None:
    def make(**changes: Any) -> ob.LossLayer:
        fields: dict[str, Any] = {
            "input": ob.Shape.vector(6), "loss_function": LF.mean_square_error(),
            "loss_reduction": ob.LossReduction.MEAN,
        }  # fmt: skip
        return ob.LossLayer(**{**fields, **changes})

    bad: list[tuple[dict[str, Any], str]] = [
        ({"loss_function": "mse"}, r"loss_function must be a LossFunction"),
        ({"loss_reduction": 3}, r"loss_reduction must be a LossReduction"),
        ({"output": ob.Shape.vector(6)}, r"output is Vector size \(6,\).* gives one value"),
        ({"output": np.zeros(6, np.float32)}, r"output has shape \(6,\), but .*MEAN gives one value"),
        (
            {"loss_function": LF.softmax_cross_entropy(label_smoothing=2)},
            r"label_smoothing is 2. Smoothing lies "
            r"between",
        ),
        ({"loss_function": LF.huber(huber_delta=-1)}, r"huber_delta is -1"),
    ]
    for changes, message in bad:
        with pytest.raises(ob.LayerCreationError, match=message):
            make(**changes)
    x = np.zeros((4, 6), np.float32)
    layer = make()
    calls: list[tuple[Any, str]] = [
        (lambda: layer.apply(x, x[:3]), r"labels holds 3 sample\(s\), but input holds 4"),
        (lambda: layer.apply(x, x[:, :5]), r"labels has shape \(4, 5\), but this layer expects \(6,\)"),
        (lambda: layer.apply(x, x.astype(np.float64)), r"labels is float64, but this layer takes float32"),
        (
            lambda: layer.apply(x, x, weights=np.ones(4, np.float32)),
            r"weights has 4 value\(s\). Pass one per "
            r"element, 24",
        ),
        (
            lambda: layer.apply(x, x, weights=np.ones(24, np.float32), broadcasts_weights=True),
            r"24 values, but "
            r"broadcasts",
        ),
        (lambda: layer.apply(x, x, weights=np.ones(24)), r"weights is float64"),
        (
            lambda: layer.apply(x, x, np.zeros((4, 6), np.float32)),
            r"output has shape \(4, 6\), but this layer "
            r"expects \(1,\)",
        ),
        (lambda: layer.apply_backward(x, x, np.ones(4, np.float32)), r"output_gradient has shape \(4,\)"),
        (lambda: layer.apply_backward(x, x, None), r"output_gradient is None, but it is needed"),
    ]
    for call, message in calls:
        with pytest.raises(ob.LayerApplyError, match=message):
            call()
    layer.destroy()
    with pytest.raises(ob.LayerApplyError, match="has been destroyed"):
        layer.apply(x, x)


# ---------------------------------------------------------------------------------------------------------------------
# Bad input: a message, -1, nothing written


def describe(count: int, data: Any = None, **fields: Any) -> capi.BNNSNDArrayDescriptor:
    return capi.BNNSNDArrayDescriptor(
        **{"layout": capi.BNNSDataLayoutVector, "size": [count], "data": data, "data_type": capi.BNNSDataTypeFloat32}
        | fields
    )


Base, Soft, Huber = (
    capi.BNNSLayerParametersLossBase, STRUCTS["SoftmaxCrossEntropy"], STRUCTS["Huber"],
)  # fmt: skip
MSE = capi.BNNSLossFunctionMeanSquareError
SOFTMAX = capi.BNNSLossFunctionSoftmaxCrossEntropy
IO: dict[str, Any] = {"i_desc": describe(3), "o_desc": describe(1)}
BAD_CREATIONS: list[tuple[Any, str]] = [
    (None, r"layer_params is NULL"),
    (Base(function=0, **IO), r"function is 0, which is no BNNSLossFunction"),
    (Base(function=99, **IO), r"function is 99"),
    (Base(function=SOFTMAX, **IO),
     r"is a BNNSLayerParametersLossBase, but function SoftmaxCrossEntropy is described by a "
     r"BNNSLayerParametersLossSoftmax"),
    (Soft(function=capi.BNNSLossFunctionYolo, **IO), r"Yolo is described by a "
        r".*LossYolo"),
    (Huber(function=MSE, **IO), r"MeanSquareError is described by a .*LossBase"),
    (Base(function=MSE, **IO, reduction=7), r"reduction is 7, which is no "
        r"BNNSLossRed"),
    (Base(function=MSE, i_desc=describe(3), o_desc=describe(3), reduction=1), r"o_desc is .*reduction Sum gives "
        r"one value"),
    (Base(function=MSE, i_desc=describe(3), o_desc=describe(2)), r"one loss for each of the 3 elements.*Vector "
        r"of size 3"),
    (Base(function=MSE, i_desc=describe(0), o_desc=describe(1), reduction=1), r"i_desc.size\[0\] is 0"),
    (Base(function=MSE, i_desc=describe(3, data_type=FLOAT16), o_desc=describe(1), reduction=1), r"Float16, but "
        r"losses work on"),
    (Base(function=MSE, i_desc=describe(3), o_desc=describe(1, data_type=FLOAT16), reduction=1),
     r"o_desc.data_type is Float16"),
    (Soft(function=SOFTMAX, **IO, reduction=1, label_smooth=1.5), r"label_smooth is 1.5"),
    (Soft(function=SOFTMAX, **IO, reduction=1, label_smooth=np.nan), r"label_smooth is nan"),
    (Huber(function=capi.BNNSLossFunctionHuber, **IO, reduction=1), r"huber_delta is 0"),
    (YoloCase().struct(reduction=capi.BNNSLossReductionMean), r"reduction is Mean, but Yolo "
        r"sums.*BNNSLossReductionSum"),
    (YoloCase().struct(number_of_grid_rows=0), r"number_of_grid_rows is 0"),
    (YoloCase().struct(anchor_box_size=4), r"anchor_box_size is 4.*at least 5"),
    (YoloCase().struct(number_of_grid_columns=4), r"i_desc has 162 elements, but the grid has 2 rows x "
        r"4.*Describe 216"),
    (YoloCase().struct(anchors_data=None), r"anchors_data is NULL. Give 6 floats"),
    (YoloCase().struct(anchors_data=np.ones(5, np.float32)), r"anchors_data holds 20 bytes, but the call touches 24"),
    (YoloCase().struct(anchors_data=-np.ones(6, np.float32)), r"anchor boxes are positive"),
    (YoloCase().struct(scale_xy=np.inf), r"scale_xy is inf"),
    (YoloCase().struct(huber_delta=-1.0), r"huber_delta is -1"),
]  # fmt: skip


@pytest.mark.parametrize(("struct", "message"), BAD_CREATIONS, ids=[m for _, m in BAD_CREATIONS])
@pytest.mark.covers("fn.BNNSFilterCreateLayerLoss")
def test_bad_creation(struct: Any, message: str) -> None:
    assert capi.BNNSFilterCreateLayerLoss(struct) is None
    assert re.search(message, ob.last_error() or ""), ob.last_error()


def test_impossible_python_types() -> None:
    with pytest.raises(TypeError, match="layer_params must be one of BNNSLayerParametersLossBase"):
        capi.BNNSFilterCreateLayerLoss(capi.BNNSLayerParametersPooling())
    made, x = LossCase("MeanSquareError").create(), np.zeros(35, np.float32)
    with pytest.raises(TypeError, match="in_delta must be a BNNSNDArrayDescriptor"):
        capi.BNNSLossFilterApplyBatch(made, 5, x, 0, x, 0, None, 0, x.copy(), x.copy(), 0)
    with pytest.raises(TypeError, match="weights_size must be an integer"):
        capi.BNNSLossFilterApplyBatch(made, 5, x, 0, x, 0, x, None, x.copy(), None, 0)  # type: ignore[arg-type]


def _forward_arguments() -> dict[str, Any]:
    x = np.ones(35, np.float32)
    return {
        "batch_size": 5, "in_": x, "in_stride": 0, "labels": x.copy(), "labels_stride": 0, "weights": None,
        "weights_size": 0, "out": np.full(1, 7, np.float32), "in_delta": describe(7, np.full(35, 7, np.float32)),
        "in_delta_stride": 0,
    }  # fmt: skip


BAD_FORWARDS: list[tuple[dict[str, Any], str]] = [
    ({"in_": None}, r"in is NULL"),
    ({"labels": None}, r"labels is NULL"),
    ({"out": None}, r"out is NULL"),
    ({"in_": np.ones(34, np.float32)}, r"in holds 136 bytes, but the call touches 140"),
    ({"labels": np.ones(7, np.float32)}, r"labels holds 28 bytes, but the call touches 140"),
    ({"labels": np.ones(35)}, r"labels holds float64 items"),
    ({"labels_stride": 8}, r"labels holds 140 bytes, but the call touches 156 .*8 elements apart"),
    ({"in_stride": -1}, r"in_stride is -1"),
    ({"weights_size": 5, "weights": np.ones(5, np.float32)}, r"weights_size is 5.*takes 0 \(none\), 1 .* or 35 "
        r"\(one per elem"),
    ({"weights_size": 35}, r"weights is NULL"),
    ({"weights_size": 35, "weights": np.ones(34, np.float32)}, r"weights holds 136 bytes, but the call touches 140"),
    ({"in_delta": describe(6, np.ones(35, np.float32))}, r"in_delta is Vector size \(6,\).* describe 7 elements"),
    ({"in_delta": describe(7)}, r"in_delta.data is NULL"),
    ({"in_delta": describe(7, np.ones(35, np.float32), flags=5)}, r"in_delta.flags is 5"),
    ({"in_delta": describe(7, np.ones(35, np.float32), data_type=FLOAT16)}, r"Float16, but training works on Float32"),
    ({"in_delta_stride": 6}, r"in_delta_stride is 6, but one sample spans 7"),
    ({"in_delta_stride": 8}, r"in_delta.data holds 140 bytes, but the call touches 156"),
    ({"batch_size": -1}, r"batch_size is -1"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "message"), BAD_FORWARDS, ids=[m for _, m in BAD_FORWARDS])
@pytest.mark.covers("fn.BNNSLossFilterApplyBatch")
def test_bad_forward(changes: dict[str, Any], message: str, engine: str) -> None:
    made, arguments = LossCase("MeanSquareError").create(), _forward_arguments()
    out, dx = arguments["out"], arguments["in_delta"].data
    assert capi.BNNSLossFilterApplyBatch(made, **(arguments | changes)) == -1
    assert re.search(message, ob.last_error() or ""), ob.last_error()
    assert np.all(out == 7) and np.all(dx == 7)


def test_out_and_in_delta_may_not_overlap(engine: str) -> None:
    made, arguments = LossCase("MeanSquareError").create(), _forward_arguments()
    arguments["out"] = arguments["in_delta"].data[3:4]
    assert capi.BNNSLossFilterApplyBatch(made, **arguments) == -1
    assert re.search(r"in_delta.data and out share memory", ob.last_error() or "")
    assert np.all(arguments["in_delta"].data == 7)


@pytest.mark.parametrize(
    ("name", "count", "message"),
    [
        ("SoftmaxCrossEntropy", 35, r"takes 0 \(none\), 1 \(one for everything\) or 5 \(one per sample\)"),
        ("CosineDistance", 5, r"or 35 \(one per element\)"),
        ("MeanSquareError", 7, r"weights_size is 7"),
    ],
)
def test_weights_that_fit_nothing(name: str, count: int, message: str, engine: str) -> None:
    made, arguments = LossCase(name).create(), _forward_arguments()
    arguments |= {"weights": np.ones(count, np.float32), "weights_size": count}
    assert capi.BNNSLossFilterApplyBatch(made, **arguments) == -1
    assert re.search(message, ob.last_error() or ""), ob.last_error()


def test_yolo_takes_one_weight_at_most(engine: str) -> None:
    case = YoloCase()
    x, t = (np.float32(v) for v in case.values())
    made, out = created(capi.BNNSFilterCreateLayerLoss(case.struct())), np.full(1, 7, np.float32)
    assert capi.BNNSLossFilterApplyBatch(made, 2, x, 0, t, 0, x, x.size, out, None, 0) == -1
    assert re.search(
        r"weights_size is 324, but Yolo .*takes 0 \(none\), 1 \(one for everything\)\.", ob.last_error() or ""
    )
    assert out[0] == 7


BAD_BACKWARDS: list[tuple[dict[str, Any], str]] = [
    ({"out_delta": None}, r"out_delta is NULL.*take the gradient from in_delta of BNNSLossFilterApplyBatch"),
    ({"in_delta": None}, r"in_delta is NULL, but it is all that this call computes"),
    ({"in_": None}, r"in is NULL"),
    ({"labels": None}, r"labels is NULL"),
    ({"out_delta": describe(1)}, r"out_delta.data is NULL"),
    ({"out_delta": describe(3, np.ones(3, np.float32))}, r"out_delta is Vector size \(3,\).*one value, as the "
        r"loss is reduced"),
    ({"out_delta": describe(1, np.ones(1), data_type=FLOAT16)}, r"out_delta.data_type is Float16"),
    ({"weights_size": 2, "weights": np.ones(2, np.float32)}, r"weights_size is 2"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "message"), BAD_BACKWARDS, ids=[m for _, m in BAD_BACKWARDS])
@pytest.mark.covers("fn.BNNSLossFilterApplyBackwardBatch")
def test_bad_backward(changes: dict[str, Any], message: str, engine: str) -> None:
    made, arguments = LossCase("MeanSquareError").create(), _forward_arguments()
    del arguments["out"]
    arguments |= {"out_delta": describe(1, np.ones(1, np.float32)), "out_delta_stride": 0}
    dx = arguments["in_delta"].data
    assert capi.BNNSLossFilterApplyBackwardBatch(made, **arguments | changes) == -1
    assert re.search(message, ob.last_error() or ""), ob.last_error()
    assert np.all(dx == 7)


def test_upstream_gradients_of_the_wrong_form(engine: str) -> None:
    made, arguments = LossCase("MeanSquareError", "None").create(), _forward_arguments()
    del arguments["out"]
    for delta, message in [
        (describe(1, np.ones(35, np.float32)), r"the gradient of out is 7 value\(s\) for one sample"),
        (describe(7, np.ones(34, np.float32)), r"out_delta.data holds 136 bytes, but the call touches 140"),
        (describe(7, np.ones(35, np.float32)), r"out_delta_stride is -1"),
    ]:
        stride = -1 if message.endswith("-1") else 0
        assert capi.BNNSLossFilterApplyBackwardBatch(made, **arguments, out_delta=delta, out_delta_stride=stride) == -1
        assert re.search(message, ob.last_error() or ""), ob.last_error()


def test_calls_of_other_families(engine: str) -> None:
    """The generic calls do not drive a loss, nor the loss calls another filter."""
    made, x, out = LossCase("MeanSquareError").create(), np.ones(35, np.float32), np.full(35, 7, np.float32)
    assert capi.BNNSFilterApplyBatch(made, 5, x, 0, out, 0) == -1
    assert re.search(r"does not drive a filter of family loss. Use BNNSLossFilterApplyBatch", ob.last_error() or "")
    delta = describe(7, out)
    assert capi.BNNSFilterApplyBackwardBatch(made, 5, x, 0, delta, 0, None, 0, delta, 0, None, None) == -1
    assert re.search(r"Use BNNSLossFilterApplyBackwardBatch", ob.last_error() or "")
    activation = created(
        capi.BNNSFilterCreateLayerActivation(
            capi.BNNSLayerParametersActivation(
                i_desc=describe(7), o_desc=describe(7),
                activation=capi.BNNSActivation(function=capi.BNNSActivationFunctionTanh),
            )
        )
    )  # fmt: skip
    assert capi.BNNSLossFilterApplyBatch(activation, 5, x, 0, x, 0, None, 0, out, None, 0) == -1
    assert re.search(r"BNNSLossFilterApplyBatch does not drive a filter of family activation", ob.last_error() or "")
    assert capi.BNNSLossFilterApplyBatch(None, 5, x, 0, x, 0, None, 0, out, None, 0) == -1
    capi.BNNSFilterDestroy(made)
    assert capi.BNNSLossFilterApplyBatch(made, 5, x, 0, x, 0, None, 0, out, None, 0) == -1
    assert "has been destroyed" in (ob.last_error() or "")
    assert np.all(out == 7)


# ---------------------------------------------------------------------------------------------------------------------
# PyTorch


@pytest.mark.peers
@pytest.mark.parametrize("reduction", ["Mean", "Sum", "None"])
@pytest.mark.parametrize(
    "name", ["SoftmaxCrossEntropy", "SigmoidCrossEntropy", "MeanSquareError", "Huber", "MeanAbsoluteError", "Log"]
)
def test_against_pytorch(name: str, reduction: str, engine: str) -> None:
    import torch
    import torch.nn.functional as f

    case = LossCase(name, reduction, batch=9, x=vector(21), smooth=0.1 if name == "SoftmaxCrossEntropy" else 0.0)
    values = case.values()
    if name == "SoftmaxCrossEntropy":
        values["t"] = np.float32(values["t"] / values["t"].sum(axis=1, keepdims=True)).astype(np.float64)
    x, t = torch.from_numpy(values["x"]).requires_grad_(), torch.from_numpy(values["t"])
    how = {"Mean": "mean", "Sum": "sum", "None": "none"}[reduction]
    compute: dict[str, Any] = {
        "SoftmaxCrossEntropy": lambda: f.cross_entropy(x, t, reduction=how, label_smoothing=0.1),
        "SigmoidCrossEntropy": lambda: f.binary_cross_entropy_with_logits(x, t, reduction=how),
        "MeanSquareError": lambda: f.mse_loss(x, t, reduction=how),
        "Huber": lambda: f.huber_loss(x, t, reduction=how, delta=case.settings.huber_delta),
        "MeanAbsoluteError": lambda: f.l1_loss(x, t, reduction=how),
        "Log": lambda: f.binary_cross_entropy(x, t, reduction=how),
    }
    loss = compute[name]()
    run = LossRun(case, values)
    out, _ = run.forward()
    value_bound, slope_bound = case.bound(values)
    if name in ("Log", "SoftmaxCrossEntropy"):  # epsilon; labels that sum to 1 only up to rounding
        value_bound, slope_bound = value_bound + 4e-6 * (189 if how == "sum" else 1), slope_bound + 1e-4
    assert_within(out.read().reshape(-1), loss.detach().numpy().reshape(-1), value_bound, name)
    loss.backward(torch.from_numpy(values["u"]).reshape(loss.shape))
    assert_within(run.backward().read(), x.grad.numpy(), slope_bound, name)
