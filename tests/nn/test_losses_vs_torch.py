"""Losses with PyTorch's names against PyTorch: every option, reduction and kink."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from helpers import Array
from networks import numbers
from openbnns import nn

pytestmark = pytest.mark.peers
torch = pytest.importorskip("torch")
T = torch.nn

RNG = np.random.RandomState
WEIGHT = [0.5, 2.0, 1.5, 0.0, 3.0]
SHARES = RNG(4).random_sample((4, 5)).astype(np.float32)
P = RNG(5).dirichlet(np.ones(5), (4, 3)).transpose(0, 2, 1).astype(np.float32)
CLASSES = np.array([[0, 1, -100], [4, 2, 2], [3, -100, 1], [0, 4, 3]])
SIGNS = np.where(RNG(6).random_sample((4, 5)) < 0.5, -1.0, 1.0).astype(np.float32)
COUNTS = np.float32(RNG(7).randint(0, 6, (4, 5)))
LISTS = np.array([[0, 2, -1, 1, 3], [4, -1, 0, 0, 0], [-1, 1, 2, 3, 4], [0, 1, 1, 2, -1]])
TIES = np.round(numbers(4, 5) * 2) / 2  # many equal to the targets, and at the kinks

CASES: dict[str, tuple[str, dict[str, Any], Array, Array]] = {
    "cross entropy": ("CrossEntropyLoss", {}, numbers(4, 5, 3), CLASSES),
    "weights": ("CrossEntropyLoss", {"weight": WEIGHT}, numbers(4, 5, 3), CLASSES),
    "smoothing": ("CrossEntropyLoss", {"label_smoothing": 0.3}, numbers(4, 5, 3), CLASSES),
    "both": ("CrossEntropyLoss", {"weight": WEIGHT, "label_smoothing": 0.3}, numbers(4, 5, 3), CLASSES),
    "ignore": ("CrossEntropyLoss", {"weight": WEIGHT, "ignore_index": 2}, numbers(4, 5, 3), np.maximum(CLASSES, 0)),
    "probabilities": ("CrossEntropyLoss", {"weight": WEIGHT, "label_smoothing": 0.2}, numbers(4, 5, 3), P),
    "nll": ("NLLLoss", {"weight": WEIGHT}, numbers(4, 5, 3), CLASSES),
    "nll, ignore": ("NLLLoss", {"ignore_index": 4}, numbers(4, 5, 3), np.maximum(CLASSES, 0)),
    "bce": ("BCELoss", {}, SHARES, SHARES[::-1].copy()),
    "bce at the ends": ("BCELoss", {"weight": WEIGHT}, np.round(SHARES), np.round(SHARES[::-1])),
    "logits": ("BCEWithLogitsLoss", {}, 30 * numbers(4, 5), SHARES),
    "logits, weight": ("BCEWithLogitsLoss", {"weight": WEIGHT, "pos_weight": WEIGHT[::-1]}, numbers(4, 5), SHARES),
    "kl": ("KLDivLoss", {}, -np.abs(numbers(4, 5)), np.where(SHARES < 0.2, 0, SHARES)),
    "kl, logarithms": ("KLDivLoss", {"log_target": True}, -np.abs(numbers(4, 5)), np.log(SHARES)),
    "mse": ("MSELoss", {}, TIES, np.round(numbers(4, 5, seed=1))),
    "l1": ("L1Loss", {}, TIES, np.round(numbers(4, 5, seed=1))),
    "smooth l1": ("SmoothL1Loss", {"beta": 0.5}, TIES, np.round(numbers(4, 5, seed=1))),
    "smooth l1, 0": ("SmoothL1Loss", {"beta": 0.0}, TIES, np.round(numbers(4, 5, seed=1))),
    "huber": ("HuberLoss", {"delta": 0.5}, TIES, np.round(numbers(4, 5, seed=1))),
    "hinge embedding": ("HingeEmbeddingLoss", {"margin": 0.5}, TIES, SIGNS),
    "soft margin": ("SoftMarginLoss", {}, 5 * numbers(4, 5), SIGNS),
    "poisson": ("PoissonNLLLoss", {}, numbers(4, 5), COUNTS),
    "poisson, full": ("PoissonNLLLoss", {"full": True}, numbers(4, 5), COUNTS),
    "poisson of rates": ("PoissonNLLLoss", {"log_input": False, "full": True, "eps": 1e-3}, np.abs(TIES), COUNTS),
    "multi margin": ("MultiMarginLoss", {}, TIES, CLASSES[:, 0]),
    "multi margin, square": ("MultiMarginLoss", {"p": 2, "margin": 0.5, "weight": WEIGHT}, TIES, CLASSES[:, 0]),
    "multi margin, weight": ("MultiMarginLoss", {"weight": WEIGHT}, TIES, CLASSES[:, 0]),
    "multilabel margin": ("MultiLabelMarginLoss", {}, TIES, LISTS),
    "multilabel soft margin": ("MultiLabelSoftMarginLoss", {"weight": WEIGHT}, 5 * numbers(4, 5), SHARES),
}


def check(ours: Any, theirs: Any) -> None:
    np.testing.assert_allclose(ours, theirs.detach().numpy(), rtol=2e-5, atol=2e-6)


@pytest.mark.filterwarnings("ignore:reduction")  # PyTorch on the mean of KLDivLoss
@pytest.mark.parametrize("reduction", ["none", "sum", "mean", "batchmean"])
@pytest.mark.parametrize("name", CASES)
def test_losses(name: str, reduction: str) -> None:
    kind, options, y, t = CASES[name]
    if reduction == "batchmean" and kind != "KLDivLoss":
        return
    value, gradient = getattr(nn, kind)(**options, reduction=reduction)(y, t)
    given = {name: torch.tensor(value) if isinstance(value, list) else value for name, value in options.items()}
    leaf = torch.tensor(y, requires_grad=True)
    loss = getattr(T, kind)(**given, reduction=reduction)(leaf, torch.tensor(t))
    loss.sum().backward()
    check(value, loss)
    check(gradient, leaf.grad)


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("margin", [0.0, 0.4, -0.2])
def test_cosine_embedding(margin: float, reduction: Any) -> None:
    a, b = numbers(4, 5), numbers(4, 5, seed=1)
    a[1] = b[1]
    b[2] = 0.0
    value, gradients = nn.CosineEmbeddingLoss(margin, reduction=reduction)(a, b, SIGNS[:, 0])
    leaves = [torch.tensor(array, requires_grad=True) for array in (a, b)]
    loss = T.CosineEmbeddingLoss(margin, reduction=reduction)(*leaves, torch.tensor(SIGNS[:, 0]))
    loss.sum().backward()
    check(value, loss)
    for ours, leaf in zip(gradients, leaves, strict=True):
        scale = np.abs(leaf.grad.numpy()).max()  # next to a zero vector gradients are huge
        np.testing.assert_allclose(ours / scale, leaf.grad.numpy() / scale, rtol=2e-5, atol=2e-6)


PAIRS: dict[str, tuple[str, dict[str, Any], Array, Array]] = {
    "margin ranking": ("MarginRankingLoss", {}, TIES, np.round(numbers(4, 5, seed=1))),
    "margin ranking, margin": ("MarginRankingLoss", {"margin": 0.5}, TIES, numbers(4, 5, seed=1)),
    "gaussian": ("GaussianNLLLoss", {}, numbers(4, 5), SHARES),
    "gaussian, small": ("GaussianNLLLoss", {"full": True, "eps": 0.5}, numbers(4, 5), SHARES[:, 0].copy()),
    "gaussian, column": ("GaussianNLLLoss", {"eps": 1e-3}, numbers(4, 5), SHARES[:, :1].copy()),
    "gaussian, zero": ("GaussianNLLLoss", {"eps": 1e-2}, numbers(4, 5), np.zeros((4, 5), np.float32)),
}


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("name", PAIRS)
def test_losses_of_two_outputs(name: str, reduction: str) -> None:
    kind, options, a, b = PAIRS[name]
    leaves = [torch.tensor(array, requires_grad=True) for array in (a, b)]
    if kind == "GaussianNLLLoss":
        given, theirs = (a, SIGNS, b), (leaves[0], torch.tensor(SIGNS), leaves[1])
    else:
        given, theirs = (a, b, SIGNS), (*leaves, torch.tensor(SIGNS))
    value, gradients = getattr(nn, kind)(**options, reduction=reduction)(*given)
    loss = getattr(T, kind)(**options, reduction=reduction)(*theirs)
    loss.sum().backward()
    check(value, loss)
    for ours, leaf in zip(gradients, leaves, strict=True):
        check(ours, leaf.grad)


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize(
    "options", [{}, {"margin": 2.0, "p": 1.0, "eps": 0.1}, {"p": 3.5, "swap": True}, {"margin": 0.3, "swap": True}]
)
def test_triplets(options: dict[str, Any], reduction: Any) -> None:
    arrays = [numbers(4, 5, seed=seed) for seed in range(3)]
    arrays[1][2] = arrays[0][2]
    value, gradients = nn.TripletMarginLoss(**options, reduction=reduction)(*arrays)
    leaves = [torch.tensor(array, requires_grad=True) for array in arrays]
    loss = T.TripletMarginLoss(**options, reduction=reduction)(*leaves)
    loss.sum().backward()
    check(value, loss)
    for ours, leaf in zip(gradients, leaves, strict=True):
        check(ours, leaf.grad)


def test_weights_of_samples_are_those_of_a_weighted_mean() -> None:
    y, t, weights = numbers(4, 5), numbers(4, 5, seed=1), np.float32([0, 1, 2, 3])
    leaf = torch.tensor(y, requires_grad=True)
    losses = T.MSELoss(reduction="none")(leaf, torch.tensor(t))
    wide = torch.tensor(weights)[:, None].expand_as(losses)
    loss = (losses * wide).sum() / wide.sum()
    loss.backward()
    value, gradient = nn.MSELoss()(y, t, sample_weights=weights)
    check(value, loss)
    check(gradient, leaf.grad)
