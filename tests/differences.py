"""Helpers of the tests of the reference engine: random numbers, comparison, gradients by finite differences.

Gradients are compared with central differences along random directions, contracted with random cotangents, at points
away from kinks. Kinks, ties, padding and special values are tested by definition.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from openbnns.parameters.activation import Activation, ActivationKind
from openbnns.reference.activation import Array


def generator(*seed: int) -> np.random.Generator:
    return np.random.default_rng([2024, *seed])


def normal(seed: int, *shape: int) -> Array:
    return generator(seed).standard_normal(shape)


def assert_close(actual: Any, expected: Any, atol: float = 1e-12) -> None:
    np.testing.assert_allclose(actual, expected, rtol=1e-10, atol=atol)


def assert_gradient(
    function: Callable[[Array], Array], gradient: Callable[[Array], Array], point: Array, seed: int = 0
) -> None:
    """<v, f(x + hu) - f(x - hu)> / 2h == <gradient(v), u> for random v and u."""
    rng, h = generator(seed), 3e-6
    for _ in range(3):
        u = rng.standard_normal(point.shape)
        difference = (function(point + h * u) - function(point - h * u)) / (2 * h)
        v = rng.standard_normal(difference.shape)
        result = gradient(v)
        assert result.shape == point.shape
        numeric, analytic = np.vdot(v, difference), np.vdot(result, u)
        smallest = min(1e-7 * (1 + np.sqrt(point.size)), 1e-8 * (1 + point.size))
        assert analytic == pytest.approx(numeric, rel=1e-6, abs=smallest)


def assert_adjoint(function: Callable[[Array], Array], adjoint: Callable[[Array], Array], shape: Any) -> None:
    """<v, f(u)> == <adjoint(v), u> for a linear f."""
    rng = generator(1)
    u = rng.standard_normal(shape)
    y = function(u)
    v = rng.standard_normal(y.shape)
    result = adjoint(v)
    assert result.shape == u.shape
    assert np.vdot(result, u) == pytest.approx(np.vdot(v, y), rel=1e-12, abs=1e-12)


def away_from(x: Array, *kinks: float) -> Array:
    """x with every value closer than 0.01 to a kink pushed 0.02 above it."""
    for kink in kinks:
        x = np.where(np.abs(x - kink) < 0.01, kink + 0.02, x)
    return x


def activation_name(value: Any) -> str | None:
    """Name of an activation in the id of a test."""
    return ActivationKind(value.function).name.lower() if isinstance(value, Activation) else None


def normalized(h: Array, beta: Array, gamma: Array, epsilon: float = 1e-3) -> Array:
    h = h.astype(np.float64)
    axes = (0, *range(2, h.ndim))
    shape = (1, -1, *[1] * (h.ndim - 2))
    mean, variance = h.mean(axis=axes, keepdims=True), h.var(axis=axes, keepdims=True)
    return (h - mean) / np.sqrt(variance + epsilon) * gamma.reshape(shape) + beta.reshape(shape)
