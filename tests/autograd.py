"""Helpers of comparisons with PyTorch in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")


def leaf(array: Any) -> Any:
    return torch.tensor(array, dtype=torch.float64, requires_grad=True)


def differentiate(function: Callable[..., Any], seed: int, *arrays: Any) -> tuple[Any, Any, list[Any]]:
    """(y, dy, gradients of the arrays) of a PyTorch function for a random dy, as NumPy arrays."""
    leaves = [leaf(array) for array in arrays]
    y = function(*leaves)
    dy = np.random.default_rng(seed).standard_normal(tuple(y.shape))
    y.backward(torch.tensor(dy))
    return y.detach().numpy(), dy, [each.grad.numpy() for each in leaves]


def close(actual: Any, expected: Any, rtol: float = 1e-11, atol: float = 1e-12) -> None:
    expected = expected.detach().numpy() if torch.is_tensor(expected) else expected
    np.testing.assert_allclose(actual, expected, rtol=rtol, atol=atol)
