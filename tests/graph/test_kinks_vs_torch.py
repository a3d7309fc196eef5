"""Gradients at kinks and infinite slopes against PyTorch: the same number wherever PyTorch's is finite, but for ties."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from function_checks import gradients
from openbnns import nn

pytestmark = pytest.mark.peers
torch = pytest.importorskip("torch")

INF = float("inf")
EQUAL = [[3.0, 3, 3], [1, 2, 4], [0, 0, 0]]
ZEROS = [[0.0, 0, 0], [1, -2, 4], [0, 1, 0]]
MANY = [[0.0, -3, 3], [6, -1, 1], [0.25, -30, 30], [200, -200, -6]]
LABELS = [[1.0, 0, 1], [0, 1, 0.5]]

# By name: a function of (functions, functional, tensors), and its arguments.
CASES: dict[str, tuple[Any, ...]] = {
    "std": (lambda f, _, x: f.std(x, 1), EQUAL),
    "std without correction": (lambda f, _, x: f.std(x, 1, correction=0), EQUAL),
    "std of all": (lambda f, _, x: f.std(x), [[2.0, 2], [2, 2]]),
    "var": (lambda f, _, x: f.var(x, 1), EQUAL),
    "norm": (lambda f, _, x: f.norm(x, 2, 1), ZEROS),
    "norm 1": (lambda f, _, x: f.norm(x, 1, 1), ZEROS),
    "normalize": (lambda _, f, x: f.normalize(x, 2.0, 1), ZEROS),
    "normalize 1": (lambda _, f, x: f.normalize(x, 1.0, 1), ZEROS),
    "cosine_similarity": (lambda _, f, x, y: f.cosine_similarity(x, y, 1), ZEROS, EQUAL),
    "cosine_similarity of zeros": (lambda _, f, x, y: f.cosine_similarity(x, y, 1), ZEROS, ZEROS),
    "pairwise_distance": (lambda _, f, x, y: f.pairwise_distance(x, y), ZEROS, ZEROS),
    "pairwise_distance without eps": (lambda _, f, x, y: f.pairwise_distance(x, y, 2.0, 0.0), ZEROS, ZEROS),
    "logsumexp": (lambda f, _, x: f.logsumexp(x, 1), [[-INF, -INF, -INF], [1, -INF, 2], [INF, 0, 1]]),
    "softmax": (lambda _, f, x: f.softmax(x, 1), [[-INF, -INF, 1], [1, -INF, 2], [0, 0, 0]]),
    "log_softmax": (lambda _, f, x: f.log_softmax(x, 1), [[-INF, -3, 1], [1, -INF, 2], [0, 0, 0]]),
    "pow of tensors": (lambda f, _, x, y: f.pow(x, y), ZEROS, [[0.0, 1, 2], [3, 2, 0.5], [0.5, 0, -1]]),
    "prod": (lambda f, _, x: f.prod(x, 1), [[0.0, 2, 3], [0, 0, 2], [1, 2, 3]]),
    "max": (lambda f, _, x: f.max(x, 1)[0], EQUAL),
    "clamp from below": (lambda f, _, x: f.clamp(x, min=1), ZEROS),
    "clamp from above": (lambda f, _, x: f.clamp(x, max=1), ZEROS),
    "asin": (lambda f, _, x: f.asin(x), [[1.0, -1, 0]]),
    "div": (lambda f, _, x, y: f.div(x, y), ZEROS, [[1.0, 0, 2], [1, 2, 0], [3, 0, 0]]),
    "layer_norm": (lambda _, f, x: f.layer_norm(x, (3,)), EQUAL),
    "rms_norm": (lambda _, f, x: f.rms_norm(x, (3,)), ZEROS),
    "huber_loss": (lambda _, f, x, y: f.huber_loss(x, y), ZEROS, EQUAL),
    "l1_loss": (lambda _, f, x, y: f.l1_loss(x, y), ZEROS, EQUAL),
    "binary_cross_entropy": (lambda _, f, x, y: f.binary_cross_entropy(x, y), [[0.0, 1, 0.5], [0, 1, 0.3]], LABELS),
    "kl_div": (lambda _, f, x, y: f.kl_div(x, y, reduction="sum"), [[-1.0, -2, -3]], [[0.0, 0.5, 0.5]]),
    **{
        f"norm {p:g}": (lambda f, _, x, p=p: f.norm(x, p, 1), ZEROS) for p in (0.5, 1.5, 3, -1, -2.5, -INF)
    },
    **{
        f"pow {exponent:g}": (lambda f, _, x, exponent=exponent: f.pow(x, exponent), ZEROS)
        for exponent in (0, 0.5, 1, 1.5, 2, 3, 4, -0.5, -1, -2, 1 / 3)
    },
    **{
        name: (lambda f, _, x, name=name: getattr(f, name)(x), ZEROS)
        for name in ("sqrt", "rsqrt", "abs", "sign", "reciprocal", "log")
    },
    **{
        name: (lambda _, f, x, name=name: getattr(f, name)(x), MANY)
        for name in (
            "relu", "relu6", "elu", "celu", "hardtanh", "hardsigmoid", "hardswish", "softplus", "softsign", "logsigmoid",
            "gelu", "silu", "mish", "softshrink", "tanhshrink",
        )
    },
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_finite_slopes(name: str, engine: str) -> None:
    body, *arrays = CASES[name]
    tensors = [torch.tensor(np.float32(array), requires_grad=True) for array in arrays]
    y = body(torch, torch.nn.functional, *tensors)
    cotangent = np.random.default_rng(1).standard_normal(tuple(y.shape)).astype(np.float32)
    y.backward(torch.tensor(cotangent))
    actual = gradients(lambda *x: body(nn.functional, nn.functional, *x), *arrays, cotangent=cotangent)
    for ours, theirs in zip(actual, tensors, strict=True):
        expected = theirs.grad.numpy()
        finite = np.isfinite(expected)
        np.testing.assert_allclose(ours[finite], expected[finite], rtol=1e-4, atol=1e-6)
