"""The loss layers: the filter in Python, its arguments and its messages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import openbnns as ob
from cases import loss as cases
from cases.loss import NAMES, LossCase, LossRun, YoloCase
from helpers import assert_bitwise

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
        (lambda: layer.apply(x, x[:3]), r"labels holds 3 samples, but input holds 4"),
        (lambda: layer.apply(x, x[:, :5]), r"labels has shape \(4, 5\), but this layer expects \(6,\)"),
        (lambda: layer.apply(x, x.astype(np.float16)), r"labels is float16, but this layer takes float32"),
        (
            lambda: layer.apply(x, x, weights=np.ones(4, np.float32)),
            r"weights has 4 values. Pass one per "
            r"element, 24",
        ),
        (
            lambda: layer.apply(x, x, weights=np.ones(24, np.float32), broadcasts_weights=True),
            r"24 values, but "
            r"broadcasts",
        ),
        (lambda: layer.apply(x, x, weights=np.ones(24, np.float16)), r"weights is float16"),
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
    for call in (
        lambda: layer.apply(x, np.arange(4)),
        lambda: layer.apply_backward(x, np.arange(4), np.ones(1, np.float32)),
    ):
        with pytest.raises(
            ob.LayerApplyError, match=r"If they are class numbers, pass np\.eye\(6, dtype=np\.float32\)\[labels"
        ):
            call()
    layer.destroy()
    with pytest.raises(ob.LayerApplyError, match="has been destroyed"):
        layer.apply(x, x)
