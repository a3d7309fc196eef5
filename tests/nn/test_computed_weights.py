"""Layers whose weights the network computes, and operations on parameters alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from function_checks import Applied, check, some
from openbnns import gradcheck
from openbnns.nn import functional as F


def standardized(w: Any) -> Any:
    flat = w.reshape((w.shape[0], -1))
    flat = (flat - flat.mean(1)[:, None]) / (flat.std(1)[:, None] + 0.1)
    return flat.reshape(w.shape)


CONVOLUTIONS: dict[str, tuple[Callable[..., Any], tuple[int, ...], tuple[int, ...]]] = {
    "conv1d": (F.conv1d, (3, 4, 9), (6, 4, 3)),
    "conv2d": (F.conv2d, (3, 4, 5, 6), (6, 4, 3, 2)),
    "conv2d in groups": (lambda x, w, b: F.conv2d(x, w, b, 2, 1, 1, 2), (3, 4, 5, 6), (6, 2, 3, 2)),
    "conv3d": (F.conv3d, (3, 2, 3, 4, 5), (6, 2, 2, 2, 2)),
    "conv_transpose1d": (lambda x, w, b: F.conv_transpose1d(x, w, b, 2), (3, 4, 5), (4, 6, 3)),
    "conv_transpose2d": (lambda x, w, b: F.conv_transpose2d(x, w, b, 2, 1), (3, 4, 3, 4), (4, 6, 3, 2)),
    "conv_transpose2d in groups": (lambda x, w, b: F.conv_transpose2d(x, w, b, 2, 0, 0, 2), (3, 4, 3, 4), (4, 3, 3, 2)),
    "conv_transpose3d": (F.conv_transpose3d, (3, 2, 2, 3, 2), (2, 6, 2, 2, 2)),
}  # fmt: skip


@pytest.mark.parametrize("name", CONVOLUTIONS)
@pytest.mark.parametrize("activated", [False, True])
def test_convolutions_with_computed_weights(name: str, activated: bool) -> None:
    """As if the weights were parameters that have the computed values, and with gradients of what they come from."""
    convolve, shape, kernel = CONVOLUTIONS[name]
    x, w, b = some(*shape), some(*kernel, seed=1), some(6, seed=2)
    end = F.tanh if activated else (lambda y: y * 1.0)
    body = lambda x, w, b: end(convolve(x, w * 1.5 + 0.1, F.sigmoid(b)))  # noqa: E731
    expected = end(convolve(x, np.float32(w * 1.5 + 0.1), F.sigmoid(b)))
    net = Applied(body, [w, b]).eval()
    for count in (3, 1, 2, 3):
        np.testing.assert_allclose(net(x[:count]), expected[:count], rtol=1e-5, atol=1e-5)
    assert len(net._recordings) == 1
    gradcheck(Applied(body, [w, b]), x)


def test_weights_that_depend_on_the_input() -> None:
    """A hypernetwork: what was made of the weights of one call must not serve another."""

    def body(x: Any, p: Any) -> Any:
        w = F.tanh(F.linear(x.mean(0).mean((1, 2)), p)).reshape((5, 4, 3, 3))
        return F.conv2d(x, w, padding=1)

    x, p = some(3, 4, 8, 8), some(180, 4, seed=1)
    net = Applied(body, [p]).eval()
    for seed in range(4):
        x = some(3, 4, 8, 8, seed=seed)
        w = np.tanh(p.astype(np.float64) @ x.astype(np.float64).mean((0, 2, 3))).reshape(5, 4, 3, 3).astype(np.float32)
        np.testing.assert_allclose(net(x), F.conv2d(x, w, padding=1), rtol=1e-4, atol=1e-4)
    fast = net.compile_inference(3)
    for seed in range(3):
        x = some(3, 4, 8, 8, seed=seed)
        np.testing.assert_allclose(fast(x), net(x), rtol=1e-5, atol=1e-5)
    gradcheck(Applied(body, [p]), some(2, 4, 4, 5))


ON_PARAMETERS: dict[str, tuple[Callable[..., Any], Callable[..., Any] | None, tuple[int, ...], tuple[int, ...]]] = {
    "weight norm": (
        lambda x, v: F.linear(x, 2.0 * v / v.norm(dim=1, keepdim=True)),
        lambda x, v: x @ (2 * v / np.linalg.norm(v, axis=1, keepdims=True)).T, (3, 4), (5, 4),
    ),
    "linear with computed bias": (
        lambda x, v: F.linear(x, v, v.sum(1)), lambda x, v: x @ v.T + v.sum(1), (3, 4), (5, 4)
    ),
    "weight standardization": (
        lambda x, v: F.conv2d(x, standardized(v), padding=1), None, (3, 2, 5, 5), (4, 2, 3, 3)
    ),
    "a part of a table": (lambda x, v: x + v[: x.shape[1]], lambda x, v: x + v[:5], (3, 5, 4), (9, 4)),
    "an interpolated table": (
        lambda x, v: x + F.interpolate(v, size=7, mode="linear").transpose(1, 2), None, (3, 7, 4), (1, 4, 5)
    ),
    "an interpolated plane": (
        lambda x, v: x + F.interpolate(v, size=(4, 6), mode="bilinear", align_corners=True), None, (3, 2, 4, 6), (1, 2, 3, 5)
    ),
    "computed rows": (
        lambda x, v: x + F.embedding(np.array([2, 0, 2, 1]), v.tanh()),
        lambda x, v: x + np.tanh(v)[[2, 0, 2, 1]], (3, 4, 5), (6, 5),
    ),
    "parameters alone": (lambda x, v: (v @ v.T).tanh().sum(), lambda x, v: np.tanh(v @ v.T).sum(), (3, 4), (3, 3)),
    "low rank": (lambda x, v: F.linear(x, v[:, :2] @ v[:, 2:4].T), lambda x, v: x @ (v[:, :2] @ v[:, 2:4].T).T, (3, 4), (4, 4)),
    "orthogonal": (lambda x, v: x @ F.normalize(v, dim=0), lambda x, v: x @ (v / np.linalg.norm(v, axis=0)), (3, 4), (4, 4)),
}  # fmt: skip


@pytest.mark.parametrize("name", ON_PARAMETERS)
def test_operations_on_parameters(name: str) -> None:
    body, oracle, inputs, weights = ON_PARAMETERS[name]
    gradients = name != "parameters alone"
    check(body, oracle, [some(*inputs)], [some(*weights, seed=1, low=0.2)], gradients=gradients)
    net = Applied(body, [some(*weights, seed=1, low=0.2)])
    x = some(8, *inputs[1:])
    target = np.zeros_like(net(x)) + 0.1
    before = net.p0.data.copy()
    y = net(x)
    net.backward((y - target).astype(np.float32))
    assert np.abs(net.p0.grad).max() > 0
    net.p0.data -= 1e-3 * net.p0.grad
    assert float(((net(x) - target) ** 2).sum()) < float(((y - target) ** 2).sum())
    assert not np.array_equal(before, net.p0.data)


def test_rows_of_padding_get_no_gradient() -> None:
    body = lambda i, v: F.embedding(i, v * 2.0, padding_idx=1)  # noqa: E731
    net = Applied(body, [some(4, 3)])
    i = np.array([[0, 1, 3], [1, 1, 0]])
    np.testing.assert_allclose(net(i), 2 * net.p0.data[i], rtol=1e-6)
    net.backward(np.ones((2, 3, 3), np.float32))
    np.testing.assert_array_equal(net.p0.grad, [[4] * 3, [0] * 3, [0] * 3, [2] * 3])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (lambda x, v: F.conv2d(x, v * 1.0), r"conv2d: weight has shape \(5, 4\), but must be"),
        (
            lambda x, v: F.conv2d(x, (v * 1.0)[:, :, None, None], v[0]),
            r"conv2d: bias has shape \(4,\), but \(5,\) is needed",
        ),
        (lambda x, v: F.conv2d(x, (v * 1.0)[:, :3, None, None]), "made for 3 channels, but its input has 4"),
        (lambda x, v: F.conv2d(x, "w"), "conv2d: weight is a str. Pass an nn.Parameter, a value or an array"),
        (lambda x, v: F.embedding(x, v[0]), "looks up|weight is a Tensor"),
    ],
)
def test_what_is_refused(body: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        Applied(body, [some(5, 4)])(some(3, 4, 5, 6))
