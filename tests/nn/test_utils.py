"""Clipping of gradients by hand, and moving averages of weights."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from networks import Net, copies, numbers, problem
from openbnns import nn


def given(seed: int = 0) -> list[nn.Parameter]:
    parameters = [nn.Parameter(np.zeros((5, 3))), nn.Parameter(np.zeros(7)), nn.Parameter(np.zeros(4))]
    for i, p in enumerate(parameters):
        p.grad = numbers(*p.shape, seed=seed + i)
    parameters[2].requires_grad = False
    return parameters


@pytest.mark.parametrize("kind", [2.0, 1.0, 3.0, math.inf])
@pytest.mark.parametrize("limit", [0.5, 1e3, 0.0])
def test_clip_grad_norm(kind: float, limit: float) -> None:
    parameters = given()
    before = [p.grad.copy() for p in parameters]
    flat = np.concatenate([before[0].ravel(), before[1]]).astype(np.float64)
    norm = np.linalg.norm(flat, kind)
    assert nn.utils.clip_grad_norm_(parameters, limit, norm_type=kind) == pytest.approx(norm, rel=1e-7)
    factor = min(1.0, limit / (norm + 1e-6))
    for p, g in zip(parameters[:2], before, strict=False):
        np.testing.assert_allclose(p.grad, factor * g, rtol=1e-6)
    np.testing.assert_array_equal(parameters[2].grad, before[2])  # frozen


def test_the_norm_of_a_large_gradient() -> None:
    p = nn.Parameter(np.zeros(200_003))
    p.grad = numbers(200_003)
    norm = np.linalg.norm(np.float64(p.grad))
    assert nn.utils.clip_grad_norm_(p, 1.0) == pytest.approx(norm, rel=1e-6)
    assert np.linalg.norm(np.float64(p.grad)) == pytest.approx(1.0, rel=1e-5)


def test_norms_that_are_not_finite() -> None:
    p = nn.Parameter(np.zeros(2))
    p.grad = [np.inf, 1.0]
    with pytest.raises(RuntimeError, match="the norm of the gradients is inf, so they cannot be clipped"):
        nn.utils.clip_grad_norm_([p], 1.0, error_if_nonfinite=True)
    assert p.grad.tolist() == [np.inf, 1.0]
    assert nn.utils.clip_grad_norm_(p, 1.0) == np.inf
    assert np.isnan(p.grad[0]) and p.grad[1] == 0.0
    assert nn.utils.clip_grad_norm_([], 1.0) == 0.0


def test_clip_grad_value() -> None:
    parameters = given()
    before = [p.grad.copy() for p in parameters]
    assert nn.utils.clip_grad_value_(parameters, 0.3) is None  # type: ignore[func-returns-value]
    for p, g in zip(parameters[:2], before, strict=False):
        np.testing.assert_array_equal(p.grad, np.clip(g, -np.float32(0.3), np.float32(0.3)))
    np.testing.assert_array_equal(parameters[2].grad, before[2])


def test_bad_clipping() -> None:
    clip = nn.utils
    for call, error, message in [
        (lambda: clip.clip_grad_norm_(given(), -1), ValueError, "max_norm is -1"),
        (lambda: clip.clip_grad_norm_(given(), 1, norm_type=0), ValueError, "norm_type is 0"),
        (lambda: clip.clip_grad_norm_([np.zeros(3)], 1), TypeError, "ndarray given. Pass network.parameters()"),
        (lambda: clip.clip_grad_value_(given(), "1"), TypeError, "clip_value must be a number, not '1'"),
        (lambda: clip.clip_grad_value_(given(), -1), ValueError, "clip_value is -1"),
    ]:
        with pytest.raises(error, match=message):
            call()


def test_clipping_by_hand_is_clipping_in_the_step() -> None:
    from openbnns import GradientClipping

    ours, others = given(), given()
    nn.utils.clip_grad_norm_(ours, 0.5)
    nn.SGD(ours, lr=1.0).step()
    nn.SGD(others, lr=1.0, clipping=GradientClipping.by_global_norm(0.5)).step()
    for p, q in zip(ours, others, strict=True):
        np.testing.assert_allclose(p.data, q.data, rtol=1e-5)


# Averages.


def train(net: nn.Module, optimizer: nn.Optimizer, ema: nn.EMA, begin: int, end: int) -> None:
    x, y = problem()
    for i in range(begin, end):
        _, gradient = nn.CrossEntropyLoss()(net(x[i : i + 8]), y[i : i + 8])
        net.backward(gradient)
        optimizer.step()
        ema.update()


def test_averages_are_those_of_the_definition() -> None:
    net = Net().build((4,), seed=0)
    optimizer, ema = nn.SGD(net.parameters(), lr=0.5), nn.EMA(net, decay=0.8)
    expected = {name: np.float64(p.data) for name, p in net.named_parameters()}
    x, y = problem()
    for _ in range(10):
        _, gradient = nn.CrossEntropyLoss()(net(x), y)
        net.backward(gradient)
        optimizer.step()
        ema.update()
        expected = {name: 0.8 * expected[name] + 0.2 * np.float64(p.data) for name, p in net.named_parameters()}
    weights = copies(net)
    with ema.applied() as same:
        assert same is net
        for name, p in net.named_parameters():
            np.testing.assert_allclose(p.data, expected[name], rtol=1e-5, atol=1e-6)
            assert not np.array_equal(p.data, weights[name])
        statistics = net.body[1].running_mean.copy()
    for name, array in copies(net).items():
        np.testing.assert_array_equal(array, weights[name])
    np.testing.assert_array_equal(net.body[1].running_mean, statistics)
    assert ema.updates == 10


def test_averages_go_on_from_a_state(tmp_path: Path) -> None:
    whole = Net().build((4,), seed=0)
    average = nn.EMA(whole, 0.9)
    train(whole, nn.Adam(whole.parameters(), lr=0.05), average, 0, 12)
    first = Net().build((4,), seed=0)
    optimizer, ema = nn.Adam(first.parameters(), lr=0.05), nn.EMA(first, 0.9)
    train(first, optimizer, ema, 0, 5)
    nn.weights.save(tmp_path / "ema.safetensors", ema.state_dict())
    later = Net().build((4,), seed=1)
    later.load_state_dict(copies(first))
    again, resumed = nn.Adam(later.parameters(), lr=0.05), nn.EMA(later, 0.9)
    again.load_state_dict(optimizer.state_dict())
    resumed.load_state_dict(nn.weights.load(tmp_path / "ema.safetensors"))
    train(later, again, resumed, 5, 12)
    for name, array in average.state_dict().items():
        np.testing.assert_array_equal(resumed.state_dict()[name], array)
    assert resumed.updates == 12


def test_averages_of_a_network_that_is_not_built_yet() -> None:
    net = nn.Linear(2)
    ema = nn.EMA(net)
    with pytest.raises(RuntimeError, match=r"EMA\.update: the network has no weights yet"):
        ema.update()
    net.build((3,), seed=0)
    ema.update()
    np.testing.assert_array_equal(ema.state_dict()["average.weight"], net.weight.data)


def test_misuse_of_averages() -> None:
    net = Net().build((4,), seed=0)
    ema = nn.EMA(net)
    weights = copies(net)
    with pytest.raises(KeyError), ema.applied():
        for call in (ema.applied().__enter__, ema.update):
            with pytest.raises(RuntimeError, match=r"the averages are in the network (already|now)"):
                call()
        raise KeyError
    assert all(np.array_equal(array, weights[name]) for name, array in copies(net).items())
    wrong: Any
    for wrong, message in [
        ({}, "average.body.0.bias, average.body.0.weight"),
        ({**ema.state_dict(), "average.head.bias": np.zeros(2)}, "fit the network: average.head.bias"),
    ]:
        with pytest.raises(ValueError, match=message):
            ema.load_state_dict(wrong)
    net.head = nn.Linear(5, 3).build((5,))
    with pytest.raises(RuntimeError, match=r"EMA\.update: parameters of the network have been added or replaced"):
        ema.update()
    for decay, error in [(1.0, ValueError), (-0.1, ValueError), ("a", TypeError)]:
        with pytest.raises(error, match="EMA: decay"):
            nn.EMA(net, decay)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="network must be an openbnns"):
        nn.EMA(3)  # type: ignore[arg-type]
