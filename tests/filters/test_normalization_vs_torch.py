"""Normalization against PyTorch in float64: values, gradients, moving statistics, and a short training curve."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import openbnns as ob
from openbnns import LearningPhase, NormalizationType, compat

pytestmark = pytest.mark.peers

F = torch.nn.functional
TRAINING, INFERENCE = LearningPhase.TRAINING, LearningPhase.INFERENCE
EPSILON = float(np.float32(1e-4))


def forward(kind: str, x: Any, gamma: Any, beta: Any, groups: int, axis: int) -> Any:
    if kind == "batch":
        return F.batch_norm(x, None, None, gamma, beta, training=True, eps=EPSILON)
    if kind == "instance":
        return F.instance_norm(x, None, None, gamma, beta, eps=EPSILON)
    if kind == "group":
        return F.group_norm(x, groups, gamma, beta, eps=EPSILON)
    xhat = F.layer_norm(x, x.shape[1 + axis :], eps=EPSILON)
    return xhat * gamma + beta


@pytest.mark.covers(
    *(f"norm.{k}.{g}" for k in ("batch", "instance", "layer", "group") for g in ("train", "dx", "dbeta", "dgamma")),
    "norm.act",
)
@pytest.mark.parametrize("activation", ["identity", "relu", "tanh"])
@pytest.mark.parametrize("shape", [(5, 6, 4, 5), (7, 12), (4, 8, 17, 19), (3, 6, 2, 2)], ids=str)
@pytest.mark.parametrize(
    ("kind", "axis"), [("batch", 0), ("instance", 0), ("group", 0), ("layer", 0), ("layer", 1), ("layer", 2)]
)
def test_normalization(kind: str, axis: int, shape: tuple[int, ...], activation: str) -> None:
    vector = len(shape) == 2
    if vector and (kind == "instance" or axis):
        return  # PyTorch has no instance normalization of vectors, and a vector has one axis
    rng = np.random.default_rng(len(shape) + axis)
    x, dy = (rng.standard_normal(shape).astype(np.float32) for _ in range(2))
    parameter = shape[1:] if kind == "layer" else shape[1:2]
    gamma, beta = (rng.standard_normal(parameter).astype(np.float32) for _ in range(2))
    types = {
        "batch": NormalizationType.batch(), "instance": NormalizationType.instance(),
        "group": NormalizationType.group(group_count=2), "layer": NormalizationType.layer(normalization_axis=axis),
    }  # fmt: skip
    functions = {
        "identity": ob.ActivationFunction.identity(), "relu": ob.ActivationFunction.rectified_linear(),
        "tanh": ob.ActivationFunction.tanh(),
    }  # fmt: skip
    layer = ob.NormalizationLayer(
        type=types[kind], input=x, gamma=gamma, beta=beta, epsilon=EPSILON, activation=functions[activation]
    )
    y = layer.apply(x, phase=TRAINING)
    ours = layer.apply_backward(None, y, dy)
    tx, tg, tb = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (x, gamma, beta))
    z = forward(kind, tx, tg, tb, 2, axis)
    out = {"identity": z, "relu": torch.relu(z), "tanh": torch.tanh(z)}[activation]
    out.backward(torch.tensor(dy, dtype=torch.float64))
    np.testing.assert_allclose(y, out.detach().numpy(), rtol=1e-5, atol=5e-6)
    for mine, theirs in zip(ours, (tx, tb, tg), strict=True):
        want = theirs.grad.numpy()
        np.testing.assert_allclose(mine, want, rtol=1e-4, atol=2e-5 * (1 + np.abs(want).max()))


@pytest.mark.covers("norm.batch.moving", "norm.batch.infer", "norm.instance.moving", "norm.instance.infer")
@pytest.mark.parametrize("kind", ["batch", "instance"])
def test_moving_statistics(kind: str) -> None:
    rng = np.random.default_rng(0)
    mean, variance = np.zeros(3, np.float32), np.ones(3, np.float32)
    make = NormalizationType.batch if kind == "batch" else NormalizationType.instance
    with compat.using(moving_statistics_torch=True):
        layer = ob.NormalizationLayer(
            type=make(moving_mean=mean, moving_variance=variance), input=ob.Shape.image_chw(5, 4, 3), momentum=0.125
        )
    module = torch.nn.BatchNorm2d if kind == "batch" else torch.nn.InstanceNorm2d
    peer = module(3, momentum=0.125, affine=False, track_running_stats=True).double()
    for _ in range(4):
        x = rng.standard_normal((6, 3, 4, 5)).astype(np.float32) * 2 + 1
        layer.apply(x, phase=TRAINING)
        peer(torch.tensor(x, dtype=torch.float64))
    np.testing.assert_allclose(mean, peer.running_mean.numpy(), rtol=1e-5)
    np.testing.assert_allclose(variance, peer.running_var.numpy(), rtol=1e-5)
    peer.eval()
    want = peer(torch.tensor(x, dtype=torch.float64)).numpy()
    np.testing.assert_allclose(layer.apply(x, phase=INFERENCE), want, rtol=1e-5, atol=1e-5)


def test_training_curve() -> None:
    """Ten steps of gradient descent on gamma, beta and the input end where PyTorch's do."""
    rng = np.random.default_rng(0)
    x, target = (
        rng.standard_normal((16, 4, 5, 5)).astype(np.float32),
        rng.standard_normal((16, 4, 5, 5)).astype(np.float32),
    )
    gamma, beta = np.ones(4, np.float32), np.zeros(4, np.float32)
    flags = ob.capi.BNNSFilterParameters(flags=ob.capi.BNNSFlags.BNNSFlagsUseClientPtr)
    tx, tg, tb = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (x, gamma, beta))
    layer = ob.NormalizationLayer(
        type=NormalizationType.batch(), input=x, gamma=gamma, beta=beta, epsilon=EPSILON, filter_parameters=flags
    )
    for _ in range(10):
        y = layer.apply(x, phase=TRAINING)
        dx, dbeta, dgamma = layer.apply_backward(output_gradient=(y - target) / 100)
        for parameter, gradient in ((x, dx), (beta, dbeta), (gamma, dgamma)):
            parameter -= 0.5 * gradient
        loss = ((forward("batch", tx, tg, tb, 1, 0) - torch.tensor(target)) ** 2).sum() / 200
        gradients = torch.autograd.grad(loss, (tx, tb, tg))
        with torch.no_grad():
            for parameter, gradient in zip((tx, tb, tg), gradients, strict=True):
                parameter -= 0.5 * gradient
    np.testing.assert_allclose(x, tx.detach().numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(gamma, tg.detach().numpy(), rtol=1e-5)
    np.testing.assert_allclose(beta, tb.detach().numpy(), rtol=1e-4, atol=1e-6)
