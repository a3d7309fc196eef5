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
    "soft margin": (F.soft_margin_loss, nn.SoftMarginLoss, Y, SIGNS),
    "poisson": (F.poisson_nll_loss, nn.PoissonNLLLoss, Y, np.floor(4 * chances(6, 4))),
    "poisson of rates": (
        lambda y, t, **o: F.poisson_nll_loss(y, t, False, True, eps=0.1, **o),
        lambda **o: nn.PoissonNLLLoss(False, True, eps=0.1, **o), chances(6, 4), np.floor(4 * chances(6, 4, seed=1)),
    ),
    "multi margin": (F.multi_margin_loss, nn.MultiMarginLoss, Y, CLASSES),
    "multi margin with all": (
        lambda y, t, **o: F.multi_margin_loss(y, t, 2, 0.6, WEIGHT, **o),
        lambda **o: nn.MultiMarginLoss(2, 0.6, WEIGHT, **o), Y, CLASSES,
    ),
    "multilabel soft margin": (
        lambda y, t, **o: F.multilabel_soft_margin_loss(y, t, WEIGHT, **o),
        lambda **o: nn.MultiLabelSoftMarginLoss(WEIGHT, **o), Y, chances(6, 4),
    ),
    "multilabel margin": (
        F.multilabel_margin_loss, nn.MultiLabelMarginLoss, Y,
        np.array([[0, 2, -1, 1], [3, -1, 0, 0], [-1, 1, 2, 3], [0, 1, 2, 3], [1, 1, -1, -1], [2, 3, 0, -1]]),
    ),
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


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_losses_of_several_values(reduction: Any) -> None:
    """Against the objects, whose values and gradients have oracles of their own."""
    third, variance = numbers(6, 4, seed=3), chances(6, 4)
    o: dict[str, Any] = {"reduction": reduction}
    pairs: list[tuple[Any, Any]] = [
        (F.margin_ranking_loss(Y, T, SIGNS, 0.2, **o), nn.MarginRankingLoss(0.2, **o)(Y, T, SIGNS)),
        (F.triplet_margin_loss(Y, T, third, **o), nn.TripletMarginLoss(**o)(Y, T, third)),
        (F.gaussian_nll_loss(Y, T, variance, True, **o), nn.GaussianNLLLoss(full=True, **o)(Y, T, variance)),
    ]
    for value, (expected, _) in pairs:
        np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-6)
    losses = F.gaussian_nll_loss(Y, T, 0.3, reduction="none")
    np.testing.assert_allclose(losses, (np.log(0.3) + (Y - T) ** 2 / 0.3) / 2, rtol=1e-5)


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
        (lambda: F.triplet_margin_loss(Y, T, Y, margin=0), r"triplet_margin_loss: margin is 0\. It must be above 0"),
        (lambda: F.multi_margin_loss(Y, CLASSES, 3), r"multi_margin_loss: p is 3\. Use 1 or 2"),  # type: ignore[arg-type]
        (
            lambda: F.multi_margin_loss(Y, CLASSES[:3]),
            r"input \(6, 4\) and target \(3,\) must be \(N, classes\) and \(N,\)",
        ),
        (lambda: F.multi_margin_loss(Y, CLASSES, weight=WEIGHT[:2]), "there are 4 classes"),
        (lambda: F.multilabel_margin_loss(Y, CLASSES), r"input \(6, 4\) and target \(6,\) must both be \(N, classes\)"),
        (lambda: F.multilabel_soft_margin_loss(np.array(1.0), 1.0), "needs an axis of classes"),
        (lambda: F.gaussian_nll_loss(Y, T, 1.0, eps=0), r"gaussian_nll_loss: eps is 0\. It must be above 0"),
        (lambda: F.soft_margin_loss(Y, SIGNS, reduction="all"), "soft_margin_loss: reduction is 'all'"),  # type: ignore[arg-type]
        (lambda: F.nll_loss(IMAGE, CLASSES), "do not name a class for each position"),
    ],
)
def test_mistakes(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
