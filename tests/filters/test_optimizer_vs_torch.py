"""Optimizers, clipping and norms against PyTorch, where the formula is the same; ten steps each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import openbnns as bn
from openbnns import compat

pytestmark = pytest.mark.peers

SHAPES = [(5, 3), (7,), (2, 3, 3, 3), (1000,)]
V1 = bn.SGDMomentumVariant.VARIANT_1
L2 = {"regularization_function": bn.RegularizationFunction.L2, "regularization_scale": 0.1}

# Ours and PyTorch's with the same settings.
PAIRS: list[tuple[Any, Any]] = [
    (lambda: bn.SGDMomentumOptimizer(0.1), lambda p: torch.optim.SGD(p, 0.1)),
    (lambda: bn.SGDMomentumOptimizer(0.1, **L2), lambda p: torch.optim.SGD(p, 0.1, weight_decay=0.1)),
    (
        lambda: bn.SGDMomentumOptimizer(0.1, 0.9, sgd_momentum_variant=V1),
        lambda p: torch.optim.SGD(p, 0.1, momentum=0.9),
    ),
    (
        lambda: bn.SGDMomentumOptimizer(0.1, 0.9, sgd_momentum_variant=V1, uses_nesterov_momentum=True),
        lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True),
    ),
    (
        lambda: bn.SGDMomentumOptimizer(0.1, 0.9, sgd_momentum_variant=V1, gradient_scale=-1.0),
        lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, maximize=True),
    ),
    (lambda: bn.AdamOptimizer(0.01, epsilon=0.1), lambda p: torch.optim.Adam(p, 0.01, eps=0.1)),
    (
        lambda: bn.AdamOptimizer(0.01, 0.8, 0.95, **L2),
        lambda p: torch.optim.Adam(p, 0.01, (0.8, 0.95), weight_decay=0.1),
    ),
    (lambda: bn.AdamWOptimizer(0.01, weight_decay=0.3), lambda p: torch.optim.AdamW(p, 0.01, weight_decay=0.3)),
    (lambda: bn.RMSPropOptimizer(0.01, 0.9, 1e-3), lambda p: torch.optim.RMSprop(p, 0.01, 0.9, 1e-3)),
    (
        lambda: bn.RMSPropOptimizer(0.01, 0.9, 0.1, centered=True),
        lambda p: torch.optim.RMSprop(p, 0.01, 0.9, 0.1, centered=True),
    ),
]


@pytest.mark.parametrize("which", range(len(PAIRS)))
def test_ten_steps(which: int, engine: str) -> None:
    """PyTorch computes in float64."""
    make, make_theirs = PAIRS[which]
    rng = np.random.default_rng(which)
    w = [rng.standard_normal(s).astype(np.float32) for s in SHAPES]
    theirs = [torch.tensor(a.astype(np.float64), requires_grad=True) for a in w]
    ours, peer = make(), make_theirs(theirs)
    states = ours.zero_accumulators(w)
    with bn.engine(engine), compat.using(adam_epsilon_torch=True):
        for _ in range(10):
            g = [rng.standard_normal(s).astype(np.float32) for s in SHAPES]
            ours.step(w, g, states)
            if hasattr(ours, "time_step"):
                ours.time_step += 1
            for p, gradient in zip(theirs, g, strict=True):
                p.grad = torch.tensor(gradient.astype(np.float64))
            peer.step()
    for a, p in zip(w, theirs, strict=True):
        np.testing.assert_allclose(a, p.detach().numpy(), rtol=1e-5, atol=1e-5)


def test_amsgrad_after_equal_corrections() -> None:
    """PyTorch keeps the largest v as we do; both correct it alike."""
    rng = np.random.default_rng(3)
    w = [rng.standard_normal(50).astype(np.float32)]
    theirs = [torch.tensor(w[0].astype(np.float64), requires_grad=True)]
    ours, peer = bn.AdamOptimizer(0.01, uses_ams_grad=True), torch.optim.Adam(theirs, 0.01, amsgrad=True)
    states = ours.zero_accumulators(w)
    with compat.using(adam_epsilon_torch=True):
        for step in range(10):
            g = (rng.standard_normal(50) / (1 + step)).astype(np.float32)
            ours.step(w, [g], states)
            ours.time_step += 1
            theirs[0].grad = torch.tensor(g.astype(np.float64))
            peer.step()
    np.testing.assert_allclose(w[0], theirs[0].detach().numpy(), rtol=1e-5, atol=1e-6)


def test_clipping_by_global_norm(engine: str) -> None:
    rng = np.random.default_rng(4)
    g = [rng.standard_normal(s).astype(np.float32) for s in SHAPES]
    parameters = [torch.zeros(s, requires_grad=True) for s in SHAPES]
    for p, a in zip(parameters, g, strict=True):
        p.grad = torch.from_numpy(a.copy())
    torch.nn.utils.clip_grad_norm_(parameters, 3.0)
    clipped = bn.clip_by_global_norm(3.0, g)
    for p, a in zip(parameters, clipped, strict=True):
        np.testing.assert_allclose(a, p.grad.numpy(), rtol=1e-5, atol=1e-6)  # type: ignore[union-attr]


@pytest.mark.parametrize("axes", [[0], [1], [2], [0, 2], [1, 2], [0, 1, 2]])
def test_norm_and_gradient(axes: list[int], engine: str) -> None:
    rng = np.random.default_rng(5)
    x = rng.standard_normal((4, 5, 6)).astype(np.float32)
    t = torch.tensor(x.astype(np.float64), requires_grad=True)
    norm = torch.linalg.vector_norm(t, dim=axes)
    dy = rng.standard_normal(norm.shape).astype(np.float32)
    (norm * torch.from_numpy(dy)).sum().backward()
    y = bn.compute_norm(x, axes=axes)
    dx = bn.compute_norm_backward(x, y, axes, dy.reshape(y.shape))
    np.testing.assert_allclose(y, np.atleast_1d(norm.detach().numpy()), rtol=1e-6)
    np.testing.assert_allclose(dx, t.grad.numpy(), rtol=1e-5, atol=1e-6)  # type: ignore[union-attr]
