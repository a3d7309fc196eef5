"""Gradients where a function has a kink or an infinite slope: those that are finite in PyTorch are finite here."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from function_checks import gradients
from openbnns import nn

F = nn.functional


ROWS = np.float32([[3, 3, 3], [1, 2, 4], [0, 0, 0]])
FACTORS = np.float32([0.7, -1.3, 0.4])


@pytest.mark.parametrize("correction", [0, 1])
def test_equal_elements_have_no_slope_of_their_deviation(engine: str, correction: int) -> None:
    (actual,) = gradients(lambda x: F.std(x, 1, correction=correction), ROWS, cotangent=FACTORS)
    (whole,) = gradients(F.std, np.full((2, 2), 5.0), cotangent=FACTORS[0])
    centred = ROWS[1] - ROWS[1].mean()
    expected = np.zeros_like(ROWS)
    expected[1] = FACTORS[1] * centred / np.linalg.norm(centred) / np.sqrt(3 - correction)
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-7)
    assert not whole.any()


def test_equal_samples_have_no_slope_of_their_deviation(engine: str) -> None:
    class Spread(nn.Module):
        def forward(self, x: Any) -> Any:
            return x.sum(dim=1, keepdim=True) * 0 + (x.std(0, correction=0) * np.float32([0.7, -1.3])).sum()

    x = np.float32([[2, 1], [2, 2], [2, 6]])
    net = Spread().build((2,), seed=0).train()
    np.testing.assert_allclose(net(x), np.full((3, 1), -1.3 * x[:, 1].std()), rtol=1e-6)
    gradient = net.backward(np.float32([[1], [0], [0]]))
    centred = x[:, 1] - 3
    np.testing.assert_allclose(gradient[:, 1], -1.3 * centred / np.sqrt(np.mean(centred**2)) / 3, rtol=1e-5)
    assert not gradient[:, 0].any()


def test_deviation_is_the_root_of_the_variance() -> None:
    x = np.random.default_rng(0).standard_normal((3, 5, 7)).astype(np.float32)
    for dim, correction in ((1, 1), ((0, 2), 0), (None, 1), (-1, 3)):
        actual = F.std(x, dim, correction=correction, keepdim=True)
        np.testing.assert_allclose(actual, np.sqrt(F.var(x, dim, correction=correction, keepdim=True)), rtol=1e-6)
        np.testing.assert_allclose(actual, x.std(dim, ddof=correction, keepdims=True), rtol=1e-5)
    assert np.isnan(F.std(x[:, :, :1], 2)).all()  # one element less one leaves none to divide by


def test_certain_probabilities_have_a_finite_slope(engine: str) -> None:
    y, t = np.float32([[0, 1, 0, 1, 0.25]]), np.float32([[1, 0, 0, 1, 0.5]])
    factors = np.float32([[0.7, -1.3, 0.4, 0.9, -0.6]])
    actual, _ = gradients(lambda a, b: F.binary_cross_entropy(a, b, reduction="none"), y, t, cotangent=factors)
    np.testing.assert_allclose(actual, factors * (y - t) / np.maximum(y * (1 - y), 1e-12), rtol=1e-5)
    losses = F.binary_cross_entropy(y, t, reduction="none")
    np.testing.assert_allclose(losses, [[100, 100, 0, 0, 0.83698824]], rtol=1e-5)


def test_zero_vectors_have_a_finite_cosine() -> None:
    a, b = np.float32([[0, 0, 0], [1, -2, 4], [0, 1, 0]]), np.float32([[3, 3, 3], [1, 2, 4], [0, 0, 0]])
    t = np.float32([1, -1, 1])
    _, expected = nn.CosineEmbeddingLoss()(a, b, t)
    actual = gradients(lambda x, y: F.cosine_embedding_loss(x, y, t), a, b, cotangent=1.0)
    for mine, layer in zip(actual, expected, strict=True):
        np.testing.assert_allclose(mine, layer, rtol=1e-4, atol=1e-6)
