"""Losses of the reference engine against their definitions and against finite differences."""

import itertools
import math
import warnings
from typing import Any

import numpy as np
import pytest

from differences import assert_gradient, away_from, generator
from openbnns.parameters.loss import Loss, Reduction, Yolo
from openbnns.parameters.loss import LossKind as L
from openbnns.reference import activation, loss

Array = activation.Array

REDUCTIONS = [Reduction.SUM, Reduction.WEIGHTED_MEAN, Reduction.MEAN, Reduction.NON_ZERO_WEIGHT_MEAN, Reduction.NONE]
reductions = pytest.mark.parametrize("reduction", REDUCTIONS, ids=lambda reduction: reduction.name.lower())
# Losses whose printed gradient is the derivative of the printed loss, whatever the weights.
EXACT = [
    L.SOFTMAX_CROSS_ENTROPY,
    L.SIGMOID_CROSS_ENTROPY,
    L.MEAN_SQUARE_ERROR,
    L.HUBER,
    L.LOG,
    L.HINGE,
    L.MEAN_ABSOLUTE_ERROR,
]


def loss_problem(function: L) -> tuple[Array, Array]:
    """Predictions and labels (3, 5) away from the kinks of the loss."""
    rng = generator(50, function)
    x, labels = rng.uniform(-2, 2, (3, 5)), rng.uniform(0, 1, (3, 5))
    if function == L.LOG:
        x = rng.uniform(0.2, 0.8, (3, 5))
    if function == L.HUBER:
        error = x - labels
        x = np.where(np.abs(np.abs(error) - 0.8) < 0.02, x + 0.1, x)
    if function == L.HINGE:
        labels = rng.integers(0, 2, (3, 5)).astype(np.float64)
        x = away_from(x, -1.0, 1.0)
    if function == L.MEAN_ABSOLUTE_ERROR:
        x = labels + away_from(x - labels, 0.0)
    return x, labels


def loss_weights(function: L, how: str) -> Array | None:
    count = 3 if function == L.SOFTMAX_CROSS_ENTROPY else 15
    weights = generator(51).uniform(0.2, 2.0, count)
    weights[1] = 0.0
    return {"no weights": None, "one weight": np.array([0.7]), "all weights": weights}[how]


@reductions
@pytest.mark.parametrize("how", ["no weights", "one weight", "all weights"])
@pytest.mark.parametrize("function", EXACT, ids=lambda function: function.name.lower())
def test_loss_gradient(function: L, how: str, reduction: Reduction) -> None:
    # A tiny epsilon makes the printed derivative of Log, which neglects it, the true one.
    settings = Loss(function, reduction, label_smooth=0.1, huber_delta=0.8, log_epsilon=1e-12)
    (x, labels), weights = loss_problem(function), loss_weights(function, how)
    assert_gradient(
        lambda x: loss.forward(settings, x, labels, weights),
        lambda v: loss.backward(settings, x, labels, v, weights),
        x,
    )
    in_forward = loss.gradient(settings, x, labels, weights)
    upstream = np.ones_like(loss.forward(settings, x, labels, weights))
    np.testing.assert_array_equal(in_forward, loss.backward(settings, x, labels, upstream, weights))


@reductions
def test_cosine_distance_gradient_is_tangent_to_the_sphere(reduction: Reduction) -> None:
    """Printed form: the derivative of l(x / |x|) at a unit vector x."""
    rng = generator(52)
    settings = Loss(L.COSINE_DISTANCE, reduction)
    x, labels, weights = rng.standard_normal((3, 5)), rng.standard_normal((3, 5)), rng.uniform(0.5, 1.5, 15)

    def unit(v: Array) -> Array:
        length: Array = np.sqrt(np.sum(v * v, axis=1, keepdims=True))
        return v / length

    x, labels = unit(x), unit(labels)
    for given in (None, np.array([0.7]), weights):
        assert_gradient(
            lambda x, given=given: loss.forward(settings, unit(x), labels, given),  # type: ignore[misc]
            lambda v, given=given: loss.backward(settings, x, labels, v, given),  # type: ignore[misc]
            x,
        )


def test_plain_cosine_gradient() -> None:
    rng = generator(56)
    x, labels, weights = rng.standard_normal((3, 5)), rng.standard_normal((3, 5)), rng.uniform(0.5, 1.5, 15)
    settings = Loss(L.COSINE_DISTANCE, Reduction.MEAN, plain_cosine_gradient=True)
    assert_gradient(
        lambda x: loss.forward(settings, x, labels, weights),
        lambda v: loss.backward(settings, x, labels, v, weights),
        x,
    )


@reductions
def test_categorical_cross_entropy(reduction: Reduction) -> None:
    """Without weights and with labels 0 and 1 the printed gradient is the derivative of the loss."""
    settings, x = Loss(L.CATEGORICAL_CROSS_ENTROPY, reduction), generator(53).standard_normal((3, 4))
    labels = np.array([[0, 1, 0, 1], [1, 0, 0, 0], [0, 0, 0, 0]], dtype=np.float64)
    assert_gradient(lambda x: loss.forward(settings, x, labels), lambda v: loss.backward(settings, x, labels, v), x)


def test_categorical_cross_entropy_weights_as_printed() -> None:
    x, labels = np.log([[0.5, 0.25, 0.25]]), np.array([[2.0, 0.0, 1.0]])
    weights = np.array([3.0, 5.0, 7.0])
    settings = Loss(L.CATEGORICAL_CROSS_ENTROPY, Reduction.SUM)
    expected = -np.log(0.5) * 2 * 3 / 2 - np.log(0.25) * 1 * 7 / 2
    np.testing.assert_allclose(loss.forward(settings, x, labels, weights), [expected])
    np.testing.assert_allclose(loss.gradient(settings, x, labels, weights), [[0.0, 0.25, 7 * (0.25 - 0.5)]], atol=1e-15)


@pytest.mark.parametrize(
    ("settings", "x", "labels", "expected", "slope"),
    [
        (Loss(L.MEAN_SQUARE_ERROR, Reduction.NONE), [1, 2, 3], [0, 0, 0], [1, 4, 9], [2, 4, 6]),
        (Loss(L.MEAN_SQUARE_ERROR, Reduction.MEAN), [2, 3, 4], [1, 1, 1], [14 / 3], [2 / 3, 4 / 3, 2]),
        (Loss(L.HUBER, Reduction.NONE, huber_delta=1.0), [2.5, 3, -1], [2, 2, 2], [0.125, 0.5, 2.5], [0.5, 1, -1]),
        (Loss(L.HINGE, Reduction.NONE), [1, 2, -1], [1, 1, 1], [0, 0, 2], [-1, 0, -1]),
        (Loss(L.HINGE, Reduction.NONE), [1, -1, -2], [0, 0, 0], [2, 0, 0], [1, 1, 0]),
        (Loss(L.MEAN_ABSOLUTE_ERROR, Reduction.NONE), [1, 2, 0], [1, 0, 3], [0, 2, 3], [1, 1, -1]),
        (
            Loss(L.SIGMOID_CROSS_ENTROPY, Reduction.NONE, label_smooth=0.2),
            [math.log(3)] * 2,  # q = 3/4, labels 0.9 and 0.1 when smoothed
            [1, 0],
            [-0.9 * math.log(0.75) - 0.1 * math.log(0.25), -0.1 * math.log(0.75) - 0.9 * math.log(0.25)],
            [0.75 - 0.9, 0.75 - 0.1],
        ),
        (
            Loss(L.LOG, Reduction.NONE),
            [0.0, 1.0, 0.25],
            [0.0, 1.0, 0.5],
            [-math.log(1 + 1e-7)] * 2 + [-0.5 * math.log(0.2500001) - 0.5 * math.log(0.7500001)],
            [1 / (1 + 1e-7), 1e-7 / (1 + 1e-7) / 1e-7, (0.2500001 - 0.5) / (0.2500001 * 0.7500001)],
        ),
        (Loss(L.COSINE_DISTANCE, Reduction.NONE), [0.6, 0.8, 0], [1, 0, 0], [0.4], [-0.64, 0.48, 0]),
    ],
)
def test_loss_values(settings: Loss, x: list[float], labels: list[float], expected: Any, slope: Any) -> None:
    values = loss.forward(settings, np.array([x], float), np.array([labels], float))
    np.testing.assert_allclose(values.ravel(), expected)
    np.testing.assert_allclose(loss.gradient(settings, np.array([x], float), np.array([labels], float))[0], slope)


def test_softmax_cross_entropy_value_smoothing_and_class_factor() -> None:
    x, labels = np.log([[0.2, 0.3, 0.5]]), np.array([[0.0, 0.0, 1.0]])
    plain = loss.forward(Loss(L.SOFTMAX_CROSS_ENTROPY, Reduction.SUM), x, labels)
    np.testing.assert_allclose(plain, [-np.log(0.5)])
    smooth = loss.forward(Loss(L.SOFTMAX_CROSS_ENTROPY, Reduction.SUM, label_smooth=0.3), x, labels)
    np.testing.assert_allclose(smooth, [-(0.1 * np.log(0.2) + 0.1 * np.log(0.3) + 0.8 * np.log(0.5))])
    divided = Loss(L.SOFTMAX_CROSS_ENTROPY, Reduction.SUM, divide_by_classes=True)
    np.testing.assert_allclose(loss.forward(divided, x, labels), plain / 3)
    np.testing.assert_allclose(loss.gradient(divided, x, labels), [[0.2 / 3, 0.3 / 3, -0.5 / 3]])


def test_loss_reductions_and_weights() -> None:
    x, labels, weights = np.array([[1.0, 2.0], [3.0, 4.0]]), np.zeros((2, 2)), np.array([2.0, 0.0, 1.0, 1.0])
    weighted = np.array([2.0, 0.0, 9.0, 16.0])
    for reduction, expected in [
        (Reduction.SUM, 27.0),
        (Reduction.MEAN, 27.0 / 4),
        (Reduction.WEIGHTED_MEAN, 27.0 / 4),
        (Reduction.NON_ZERO_WEIGHT_MEAN, 9.0),
    ]:
        value = loss.forward(Loss(L.MEAN_SQUARE_ERROR, reduction), x, labels, weights)
        np.testing.assert_allclose(value, [expected])
    unreduced = Loss(L.MEAN_SQUARE_ERROR, Reduction.NONE)
    np.testing.assert_array_equal(loss.forward(unreduced, x, labels, weights), weighted.reshape(2, 2))
    for reduction in (Reduction.WEIGHTED_MEAN, Reduction.NON_ZERO_WEIGHT_MEAN):
        nothing = Loss(L.MEAN_SQUARE_ERROR, reduction)
        np.testing.assert_array_equal(loss.forward(nothing, x, labels, np.zeros(4)), [0])
        np.testing.assert_array_equal(loss.gradient(nothing, x, labels, np.zeros(4)), np.zeros((2, 2)))
    with pytest.raises(ValueError, match="3 weights given; pass none, 1 or 4"):
        loss.forward(unreduced, x, labels, np.ones(3))
    with pytest.raises(ValueError, match="no reduction 9"):
        loss.forward(Loss(L.HINGE, 9), x, labels)


def test_equal_weights_mean_the_same_once_or_for_every_element() -> None:
    rng = generator(54)
    x, labels = rng.standard_normal((3, 4)), np.eye(4)[:3]
    for function, reduction in itertools.product([L.COSINE_DISTANCE, L.CATEGORICAL_CROSS_ENTROPY], REDUCTIONS):
        settings = Loss(function, reduction)
        once, everywhere = np.array([0.7]), np.full(12, 0.7)
        np.testing.assert_allclose(
            loss.forward(settings, x, labels, once), loss.forward(settings, x, labels, everywhere)
        )


@pytest.mark.parametrize("function", set(L) - {L.YOLO}, ids=lambda function: function.name.lower())
def test_loss_of_extreme_predictions(function: L) -> None:
    """Far predictions have finite losses (but for Log, outside its domain), NaN gives NaN, nothing warns."""
    x, labels = np.array([[1e4, -1e4, 800.0], [-1e4, 1e4, 0.0]]), np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    settings = Loss(function, Reduction.NONE)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if function != L.LOG:
            assert np.all(np.isfinite(loss.forward(settings, x, labels)))
            assert np.all(np.isfinite(loss.gradient(settings, x, labels)))
        x[0, 1] = np.nan
        assert np.any(np.isnan(loss.forward(settings, x, labels)))
        assert np.isnan(loss.gradient(settings, x, labels)[0, 1])


def yolo_problem(**changes: Any) -> tuple[Loss, Array, Array]:
    """Two samples of a 2 x 3 grid with 3 anchors and 4 classes; about half of the cells hold an object."""
    rng = generator(55)
    anchors = np.array([[1.0, 1.5], [2.0, 0.8], [0.5, 0.6]])
    parameters = {
        "scale_xy": 1.1,
        "scale_wh": 0.9,
        "scale_object": 2.0,
        "scale_no_object": 0.5,
        "scale_classification": 1.3,
        "object_minimum_iou": 0.6,
        "no_object_maximum_iou": 0.15,
        **changes,
    }
    settings = Loss(L.YOLO, Reduction.SUM, huber_delta=0.6, yolo=Yolo(2, 3, anchors, 4, **parameters))
    x = rng.standard_normal((2, 2, 3, 3, 9))
    labels = np.zeros((2, 2, 3, 9))
    labels[..., :2], labels[..., 2:4] = rng.uniform(0, 1, (2, 2, 3, 2)), rng.uniform(0.5, 2, (2, 2, 3, 2))
    labels[..., 4] = rng.integers(0, 2, (2, 2, 3))
    labels[..., 5:] = np.eye(4)[rng.integers(0, 4, (2, 2, 3))]
    labels *= labels[..., 4:5]
    return settings, x, np.repeat(labels[..., np.newaxis, :], 3, axis=3)


@pytest.mark.parametrize("raw_centres", [False, True])
def test_yolo_gradient(raw_centres: bool) -> None:
    settings, x, labels = yolo_problem(raw_centres=raw_centres)
    for weights in (None, np.array([0.7])):
        assert_gradient(
            lambda x, weights=weights: loss.forward(settings, x, labels, weights),  # type: ignore[misc]
            lambda v, weights=weights: loss.backward(settings, x, labels, v, weights),  # type: ignore[misc]
            x,
        )
    flat = loss.gradient(settings, x.reshape(2, -1), labels.reshape(2, -1))
    np.testing.assert_array_equal(flat.reshape(x.shape), loss.gradient(settings, x, labels))


def test_yolo_rescore_takes_the_iou_for_a_constant() -> None:
    (plain, x, labels), (rescored, _, _) = yolo_problem(), yolo_problem(rescore=True)
    assert loss.forward(plain, x, labels) != loss.forward(rescored, x, labels)
    gradient = loss.gradient(rescored, x, labels)
    np.testing.assert_array_equal(gradient[..., :4], loss.gradient(plain, x, labels)[..., :4])
    still = np.ones(9)
    still[:4] = 0.0  # the boxes stay, so the targets do

    def moved(step: Array) -> Array:
        return loss.forward(rescored, x + step * still, labels)

    assert_gradient(moved, lambda v: v.item() * gradient * still, np.zeros(x.shape))


def test_yolo_by_definition() -> None:
    """The sum of the parts with plain loops over cells and anchors."""
    for rescore in (False, True):
        settings, x, labels = yolo_problem(rescore=rescore)
        p = settings.yolo
        assert p is not None
        total, roles = 0.0, set()
        for cell in np.ndindex(x.shape[:3]):
            boxes = [box_overlap(x[cell][a], labels[cell][a], p.anchors[a]) for a in range(3)]
            for a in range(3):
                one, truth, size, iou = x[cell][a], labels[cell][a], p.anchors[a], boxes[a]
                role = "ignored"
                if truth[4] == 1 and (iou >= p.object_minimum_iou or a == boxes.index(max(boxes))):
                    role = "object"
                elif iou <= p.no_object_maximum_iou:
                    role = "no object"
                roles.add(role)
                confidence = 1 / (1 + np.exp(-one[4]))
                if role == "no object":
                    total -= p.scale_no_object * np.log(1 - confidence)
                if role == "object":
                    target = iou if rescore else 1.0
                    error = np.abs(one[2:4] - np.log(truth[2:4] / size))
                    huber = np.where(error <= 0.6, error**2 / 2, 0.6 * (error - 0.3))
                    softmax = np.exp(one[5:]) / np.exp(one[5:]).sum()
                    total += p.scale_xy * np.sum((1 / (1 + np.exp(-one[:2])) - truth[:2]) ** 2)
                    total += p.scale_wh * huber.sum() - p.scale_classification * np.log(softmax[truth[5:] == 1].item())
                    total -= p.scale_object * (target * np.log(confidence) + (1 - target) * np.log(1 - confidence))
        assert roles == {"object", "no object", "ignored"}
        np.testing.assert_allclose(loss.forward(settings, x, labels), [total])


def box_overlap(prediction: Array, truth: Array, anchor: Array) -> float:
    """Intersection over union of the predicted and the true box, by intervals."""
    if truth[4] != 1:
        return 0.0
    intersection = union_part = other_part = 1.0
    for axis in (0, 1):
        centre, size = 1 / (1 + np.exp(-prediction[axis])), anchor[axis] * np.exp(prediction[2 + axis])
        low, high = centre - size / 2, centre + size / 2
        true_low, true_high = truth[axis] - truth[2 + axis] / 2, truth[axis] + truth[2 + axis] / 2
        intersection *= max(0.0, min(high, true_high) - max(low, true_low))
        union_part *= size
        other_part *= truth[2 + axis]
    return float(intersection / (union_part + other_part - intersection))


def test_yolo_huber_delta_zero_acts_as_one() -> None:
    settings, x, labels = yolo_problem()
    zero, one = (Loss(L.YOLO, Reduction.SUM, huber_delta=delta, yolo=settings.yolo) for delta in (0.0, 1.0))
    np.testing.assert_array_equal(loss.forward(zero, x, labels), loss.forward(one, x, labels))


def test_yolo_errors() -> None:
    settings, x, labels = yolo_problem()
    with pytest.raises(ValueError, match="must be Sum"):
        loss.forward(Loss(L.YOLO, Reduction.MEAN, yolo=settings.yolo), x, labels)
    with pytest.raises(ValueError, match="needs its parameters"):
        loss.forward(Loss(L.YOLO, Reduction.SUM), x, labels)
    with pytest.raises(ValueError, match="no weights, or one"):
        loss.forward(settings, x, labels, np.ones(2))


def test_loss_of_an_empty_batch() -> None:
    for function in set(L) - {L.YOLO}:
        settings = Loss(function, Reduction.MEAN)
        np.testing.assert_array_equal(loss.forward(settings, np.zeros((0, 4)), np.zeros((0, 4))), [0])
        assert loss.gradient(settings, np.zeros((0, 4)), np.zeros((0, 4))).shape == (0, 4)
