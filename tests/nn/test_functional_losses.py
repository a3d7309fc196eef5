"""Losses as expressions: against the loss objects, whose values and gradients have oracles of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from helpers import numbers
from openbnns import nn
from openbnns.nn import functional as F


def chances(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).uniform(0.05, 0.95, shape).astype(np.float32)


def simplex(*shape: int, axis: int = 1, seed: int = 0) -> Any:
    e = np.exp(numbers(*shape, seed=seed))
    return (e / e.sum(axis, keepdims=True)).astype(np.float32)


Y, T = numbers(6, 4), numbers(6, 4, seed=1)
SIGNS = np.sign(numbers(6, 4, seed=2)).astype(np.float32)
CLASSES = np.array([0, 3, 1, 1, 2, 0])
IMAGE, PIXELS = numbers(3, 4, 5, 2), np.random.default_rng(4).integers(0, 4, (3, 5, 2))
WEIGHT = np.float32([0.5, 2, 1, 0.25])

CASES: dict[str, tuple[Any, Any, Any, Any]] = {
    "mse": (F.mse_loss, nn.MSELoss, Y, T),
    "l1": (F.l1_loss, nn.L1Loss, Y, T),
    "huber": (lambda y, t, **o: F.huber_loss(y, t, delta=0.7, **o), lambda **o: nn.HuberLoss(delta=0.7, **o), Y, T),
    "smooth l1": (
        lambda y, t, **o: F.smooth_l1_loss(y, t, beta=0.4, **o), lambda **o: nn.SmoothL1Loss(beta=0.4, **o), Y, T
    ),
    "bce": (F.binary_cross_entropy, nn.BCELoss, chances(6, 4), chances(6, 4, seed=1)),
    "bce with logits": (F.binary_cross_entropy_with_logits, nn.BCEWithLogitsLoss, Y, chances(6, 4)),
    "bce with weights": (
        lambda y, t, **o: F.binary_cross_entropy_with_logits(y, t, pos_weight=WEIGHT, **o),
        lambda **o: nn.BCEWithLogitsLoss(pos_weight=WEIGHT, **o), Y, chances(6, 4),
    ),
    "kl": (F.kl_div, nn.KLDivLoss, np.log(simplex(6, 4)), simplex(6, 4, seed=1)),
    "hinge embedding": (F.hinge_embedding_loss, nn.HingeEmbeddingLoss, Y, SIGNS),
    "cross entropy": (F.cross_entropy, nn.CrossEntropyLoss, Y, CLASSES),
    "cross entropy of pixels": (F.cross_entropy, nn.CrossEntropyLoss, IMAGE, PIXELS),
    "cross entropy with all": (
        lambda y, t, **o: F.cross_entropy(y, t, WEIGHT, ignore_index=1, label_smoothing=0.2, **o),
        lambda **o: nn.CrossEntropyLoss(WEIGHT, ignore_index=1, label_smoothing=0.2, **o), Y, CLASSES,
    ),
    "cross entropy of classes behind the others": (
        lambda y, t, **o: F.cross_entropy(y, t, WEIGHT, ignore_index=-100, label_smoothing=0.2, **o),
        lambda **o: nn.CrossEntropyLoss(WEIGHT, ignore_index=-100, label_smoothing=0.2, **o),
        IMAGE, np.where(PIXELS == 2, -100, PIXELS),
    ),
    "cross entropy of probabilities": (
        lambda y, t, **o: F.cross_entropy(y, t, WEIGHT, label_smoothing=0.1, **o),
        lambda **o: nn.CrossEntropyLoss(WEIGHT, label_smoothing=0.1, **o), Y, simplex(6, 4),
    ),
    "nll": (
        lambda y, t, **o: F.nll_loss(y, t, WEIGHT, **o), lambda **o: nn.NLLLoss(WEIGHT, **o), np.log(simplex(6, 4)), CLASSES
    ),
}  # fmt: skip


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("name", CASES)
def test_equal_the_loss_objects(name: str, reduction: str) -> None:
    function, kind, y, t = CASES[name]
    value, gradient = nn.FunctionLoss(lambda y, t: function(y, t, reduction=reduction))(y, t)
    expected, by_object = kind(reduction=reduction)(y, t)
    np.testing.assert_allclose(value, expected, rtol=2e-5)
    np.testing.assert_allclose(gradient, by_object, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(function(y, t, reduction=reduction), expected, rtol=2e-5)  # on arrays, at once


def test_none_keeps_the_losses_apart() -> None:
    np.testing.assert_allclose(F.mse_loss(Y, T, reduction="none"), (Y - T) ** 2, rtol=1e-5)
    apart = F.cross_entropy(Y, CLASSES, reduction="none")
    np.testing.assert_allclose(apart.mean(), F.cross_entropy(Y, CLASSES), rtol=1e-5)


def test_cosine_embedding() -> None:
    t = np.float32([1, -1, 1, -1, -1, 1])
    cosine = (Y * T).sum(1) / np.sqrt((Y * Y).sum(1) * (T * T).sum(1))
    expected = np.where(t > 0, 1 - cosine, np.maximum(0, cosine - 0.1)).mean()
    np.testing.assert_allclose(F.cosine_embedding_loss(Y, T, t, margin=0.1), expected, rtol=1e-5)


def test_divergence_per_sample_with_logarithms() -> None:
    x, t = np.log(simplex(6, 4)), np.log(simplex(6, 4, seed=1))
    expected = (np.exp(t) * (t - x)).sum() / 6
    np.testing.assert_allclose(F.kl_div(x, t, reduction="batchmean", log_target=True), expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: F.mse_loss(Y, T, reduction="average"), "Use 'none', 'sum' or 'mean'"),  # type: ignore[arg-type]
        (lambda: F.cross_entropy(Y, CLASSES, WEIGHT[:2]), "there are 4 classes"),
        (lambda: F.cross_entropy(Y, CLASSES, label_smoothing=1.5), "label_smoothing is 1.5"),
        (lambda: F.huber_loss(Y, T, delta=0), "must be above 0"),
        (lambda: F.nll_loss(IMAGE, CLASSES), "do not name a class for each position"),
    ],
)
def test_mistakes(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
