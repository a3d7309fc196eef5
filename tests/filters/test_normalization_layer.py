"""The normalization layer: the filter in Python, its arguments and its messages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import openbnns as ob
from cases._base import Act
from cases.normalization import KINDS, NormalizationCase, NormalizationRun
from openbnns import LearningPhase, NormalizationType

C = NormalizationCase

TRAINING, INFERRING = LearningPhase.TRAINING, LearningPhase.INFERENCE

TYPES = {
    "batch": NormalizationType.batch(), "instance": NormalizationType.instance(),
    "layer": NormalizationType.layer(normalization_axis=1), "group": NormalizationType.group(group_count=3),
}  # fmt: skip


@pytest.mark.covers("swift.NormalizationLayer", "swift.LearningPhase")
@pytest.mark.parametrize("kind", KINDS)
def test_layer_matches_the_c_face(kind: str, engine: str) -> None:
    case = C(kind, (6, 4, 5), groups=3, axis=1, activation=Act("RectifiedLinear"))
    values = case.values()
    run = NormalizationRun(case, values)

    def c_order(v: Any) -> Any:
        return np.ascontiguousarray(np.float32(v).transpose(0, *range(v.ndim - 1, 0, -1)))

    layer = ob.NormalizationLayer(
        type=TYPES[kind], input=ob.Shape.image_chw(5, 4, 6), output=ob.Shape.image_chw(5, 4, 6),
        beta=c_order(values["beta"])[0], gamma=c_order(values["gamma"])[0], momentum=0.8, epsilon=1e-3,
        activation=ob.ActivationFunction.rectified_linear(),
    )  # fmt: skip
    x, dy = c_order(values["x"]), c_order(values["dy"])
    np.testing.assert_array_equal(layer.apply(x, phase=INFERRING), c_order(run.forward(False)))
    y = np.empty_like(x)
    assert layer.apply(batch_size=4, input=x, output=y, phase=TRAINING) is y
    np.testing.assert_array_equal(y, c_order(run.forward()))
    want = {name: c_order(s.read()) for name, s in run.backward().items()}
    dx, dbeta, dgamma = layer.apply_backward(input=x, output=y, output_gradient=dy)
    np.testing.assert_array_equal(dx, want["dx"])
    np.testing.assert_array_equal(dbeta, want["dbeta"][0])
    np.testing.assert_array_equal(dgamma, want["dgamma"][0])
    twice = dx.copy(), dbeta.copy(), dgamma.copy()
    layer.apply_backward(None, y, dy, *twice, accumulate=True)
    np.testing.assert_allclose(twice[0], 2 * dx, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(twice[1], 2 * dbeta, rtol=1e-5)
    np.testing.assert_allclose(twice[2], 2 * dgamma, rtol=1e-5)
    skipped = layer.apply_backward(None, y, dy, ob.skip, None, ob.skip)
    assert skipped.input is None and skipped.gamma is None
    np.testing.assert_array_equal(skipped.beta, dbeta)
    assert repr(layer).startswith("NormalizationLayer(type=NormalizationType.")


def test_layer_parameters_of_the_last_axes(engine: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 3, 4, 5)).astype(np.float32)
    gamma, beta = (rng.standard_normal(5).astype(np.float32) for _ in range(2))
    layer = ob.NormalizationLayer(type=NormalizationType.layer(normalization_axis=2), input=x, gamma=gamma, beta=beta)
    y = layer.apply(x, phase=TRAINING)
    d = x.astype(np.float64)
    xhat = (d - d.mean(-1, keepdims=True)) / np.sqrt(d.var(-1, keepdims=True) + np.float32(1e-5))
    np.testing.assert_allclose(y, xhat * gamma + beta, rtol=1e-5, atol=1e-6)
    gradients = layer.apply_backward(output_gradient=x)
    assert gradients.gamma.shape == gradients.beta.shape == (5,)
    np.testing.assert_allclose(gradients.gamma, (x * xhat).sum(axis=(0, 1, 2)), rtol=1e-5)


@pytest.mark.covers("swift.LearningPhase")
def test_layer_errors(engine: str) -> None:
    x = np.ones((2, 6, 4, 5), np.float32)
    bad: list[tuple[dict[str, Any], str]] = [
        ({"type": "batch"}, "type must be a NormalizationType"),
        ({"type": NormalizationType.group(group_count=4)}, "type.group_count is 4, but the 6 channels"),
        ({"type": NormalizationType.layer(normalization_axis=3)}, "type.normalization_axis is 3"),
        ({"beta": np.ones(5, np.float32)}, "beta is Vector size .5.*one value for each of the 6 channels"),
        ({"type": NormalizationType.batch(moving_mean=np.ones(7, np.float32))}, "type.moving_mean is Vector"),
        (
            {"activation": ob.ActivationFunction.softmax()},
            "Softmax, but the activation of a normalization is elementwise",
        ),
        ({"epsilon": -1.0}, "epsilon is -1"),
        ({"momentum": 1.5}, "momentum is 1.5"),
        ({"output": ob.Shape.image_chw(5, 4, 5)}, "input is .* and output .* keeps the dimensions"),
    ]
    for changes, message in bad:
        with pytest.raises(ob.LayerCreationError, match=message):
            ob.NormalizationLayer(**{"type": NormalizationType.batch(), "input": x, **changes})
    layer = ob.NormalizationLayer(type=NormalizationType.batch(), input=x, activation=ob.ActivationFunction.tanh())
    calls: list[tuple[Any, str]] = [
        (
            lambda: layer.apply(x, phase=True),
            "phase must be LearningPhase.INFERENCE or LearningPhase.TRAINING, not bool",
        ),
        (lambda: layer.apply(x[:, :5], phase=TRAINING), r"input has shape \(2, 5, 4, 5\)"),
        (lambda: layer.apply_backward(None, x, x), "no training forward.*apply with phase=LearningPhase.TRAINING"),
        (lambda: layer.apply_backward(None, None, x), "output is None, but the fused activation"),
        (lambda: layer.apply_backward(None, x, x, generating_beta_gradient=x[0, :, 0, 0]), "no gradient of beta"),
    ]
    for call, message in calls:
        with pytest.raises(ob.LayerApplyError, match=message):
            call()
    layer.destroy()
    with pytest.raises(ob.LayerApplyError, match="has been destroyed"):
        layer.apply(x, phase=TRAINING)


def test_momentum_is_zero_as_in_swift() -> None:
    """Without it the moving statistics are those of the latest batch."""
    mean, variance = np.full(2, 7, np.float32), np.full(2, 7, np.float32)
    moving = NormalizationType.batch(moving_mean=mean, moving_variance=variance)
    layer = ob.NormalizationLayer(type=moving, input=ob.Shape.vector(2))
    layer.apply(np.float32([[1, 2], [3, 6]]), phase=TRAINING)
    assert (mean.tolist(), variance.tolist()) == ([2, 4], [1, 4])
