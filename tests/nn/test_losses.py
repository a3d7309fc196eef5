"""Losses of networks: values from formulas in float64, gradients from finite differences of these, weights, bad input."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import openbnns as bn
from helpers import Array
from networks import numbers
from openbnns import LossFunction, nn

RNG = np.random.RandomState
TORCH, BNNS = ("none", "sum", "mean"), ("none", "sum", "mean", "weighted_mean", "non_zero_weight_mean")


@dataclass
class Case:
    """A loss, and its definition: (output, targets) -> losses, and the weights that a mean of PyTorch divides by."""

    make: Callable[..., nn.Loss]
    define: Callable[[Array, Array], Array]
    output: Array
    targets: Array
    counted: Callable[[Array], Array] | None = None
    reductions: tuple[str, ...] = TORCH
    counts_all: bool = False


def log_softmax(y: Array, axis: int) -> Array:
    shifted = y - y.max(axis, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis, keepdims=True)))


def sigmoid(y: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-y)))


def class_numbers(shape: tuple[int, ...], classes: int, *, ignored: int | None = None, seed: int = 1) -> Array:
    drawn: Array = RNG(seed).randint(0, classes, shape)
    if ignored is not None:
        drawn.reshape(-1)[::3] = ignored
    return drawn


def cross_entropy(
    axis: int = 1, weight: Array | None = None, smoothing: float = 0.0, ignored: int = -100
) -> Callable[[Array, Array], Array]:
    """-(1 - s) w_t log p_t - s / C Σ w_c log p_c, written class by class."""

    def define(y: Array, t: Array) -> Array:
        log_p = np.moveaxis(log_softmax(y, axis), axis, -1)
        classes = log_p.shape[-1]
        w = np.ones(classes) if weight is None else np.float64(weight)
        losses = np.zeros(t.shape)
        for place in np.ndindex(*t.shape):
            if t[place] != ignored:
                row, label = log_p[place], t[place]
                losses[place] = -(1 - smoothing) * w[label] * row[label] - smoothing / classes * sum(w * row)
        return losses

    return define


def probabilities(weight: Array, smoothing: float) -> Callable[[Array, Array], Array]:
    def define(y: Array, t: Array) -> Array:
        wide = (1, len(weight)) + (1,) * (y.ndim - 2)
        smooth = t * (1 - smoothing) + smooth_share
        return np.asarray(-(weight.reshape(wide) * smooth * log_softmax(y, 1)).sum(1))

    smooth_share = smoothing / len(weight)
    return define


def counted_by_class(weight: Array | None = None, ignored: int = -100) -> Callable[[Array], Array]:
    def counted(t: Array) -> Array:
        kept = np.where(t == ignored, 0, t)
        w = np.ones(int(kept.max()) + 1) if weight is None else np.float64(weight)
        return np.asarray(np.where(t == ignored, 0.0, w[kept]))

    return counted


def huber(delta: float, scale: float = 1.0) -> Callable[[Array, Array], Array]:
    def define(y: Array, t: Array) -> Array:
        e = np.abs(y - t)
        return np.asarray(scale * np.where(e <= delta, e * e / 2, delta * (e - delta / 2)))

    return define


def binary(y: Array, t: Array) -> Array:
    return np.asarray(-t * np.log(y) - (1 - t) * np.log(1 - y))


def unit(*shape: int, seed: int = 0) -> Array:
    x = numbers(*shape, seed=seed)
    return np.asarray(x / np.linalg.norm(x, axis=-1, keepdims=True))


def categorical(y: Array, t: Array) -> Array:
    return np.asarray(-(t * log_softmax(y, 1)).sum(1) / np.maximum((t != 0).sum(1), 1))


def bnns(function: LossFunction) -> Callable[..., nn.Loss]:
    """The loss of a function of BNNS, for any reduction."""
    return lambda **options: nn.BNNSLoss(function, **options)


WEIGHT = np.float32([0.5, 2.0, 1.5, 0.0, 3.0])
P = RNG(5).dirichlet(np.ones(5), (4, 3)).transpose(0, 2, 1).astype(np.float32)
MANY = RNG(3).random_sample(300).astype(np.float32)
SHARES = RNG(4).random_sample((4, 3)).astype(np.float32)
SIGNS = np.where(RNG(6).random_sample((7, 3)) < 0.5, -1, 1)
YES = (RNG(7).random_sample((4, 3)) < 0.4).astype(np.float32)

COUNTS = np.float32([[0, 1, 2], [5, 3, 0], [1, 1, 9], [2, 0, 4]])
LISTS = np.array([[0, 2, -1, 1], [3, -1, 0, 0], [1, 1, -1, 2], [0, 1, 3, -1], [2, 0, -1, -1]])


def poisson_rates(eps: float) -> Any:
    def define(y: Array, t: Array) -> Array:
        count = np.maximum(t, 1.0)
        factorial = count * np.log(count) - count + 0.5 * np.log(2 * np.pi * count)
        return np.asarray(y - t * np.log(y + eps) + np.where(t > 1, factorial, 0.0))

    return define


def multi_margin(p: int, margin: float, weight: Array) -> Any:
    def define(y: Array, t: Array) -> Array:
        rows = [
            weight[own] * sum(max(0.0, margin - scores[own] + s) ** p for i, s in enumerate(scores) if i != own)
            for scores, own in zip(y, t, strict=True)
        ]
        return np.array(rows) / y.shape[1]

    return define


def multilabel_margin(y: Array, t: Array) -> Array:
    rows = []
    for scores, given in zip(y, t.tolist(), strict=True):
        own = given[: given.index(-1)]
        others = [s for i, s in enumerate(scores) if i not in own]
        rows.append(sum(max(0.0, 1 - scores[j] + s) for j in own for s in others) / len(scores))
    return np.array(rows)


CASES = {
    "cross entropy": Case(nn.CrossEntropyLoss, cross_entropy(), numbers(7, 5), class_numbers((7,), 5)),
    "cross entropy, images": Case(
        nn.CrossEntropyLoss, cross_entropy(), numbers(3, 5, 2, 4), class_numbers((3, 2, 4), 5).astype(np.uint64)
    ),
    "cross entropy, weights": Case(
        lambda **o: nn.CrossEntropyLoss(WEIGHT, **o), cross_entropy(1, WEIGHT), numbers(7, 5), class_numbers((7,), 5),
        counted_by_class(WEIGHT),
    ),
    "cross entropy, all": Case(
        lambda **o: nn.CrossEntropyLoss(WEIGHT, label_smoothing=0.3, ignore_index=9, **o),
        cross_entropy(1, WEIGHT, 0.3, 9), numbers(3, 5, 4), class_numbers((3, 4), 5, ignored=9), counted_by_class(WEIGHT, 9),
    ),
    "cross entropy, ignored, last axis": Case(
        lambda **o: nn.CrossEntropyLoss(dim=-1, **o), cross_entropy(-1), numbers(3, 4, 5),
        class_numbers((3, 4), 5, ignored=-100), counted_by_class(),
    ),
    "cross entropy, many classes": Case(
        lambda **o: nn.CrossEntropyLoss(MANY, label_smoothing=0.2, **o), cross_entropy(1, MANY, 0.2), numbers(6, 300),
        class_numbers((6,), 300, ignored=-100), counted_by_class(MANY),
    ),
    "cross entropy, probabilities": Case(
        lambda **o: nn.CrossEntropyLoss(WEIGHT, label_smoothing=0.3, **o), probabilities(WEIGHT, 0.3), numbers(4, 5, 3), P
    ),
    "nll": Case(
        nn.NLLLoss, lambda y, t: -y[np.arange(6), t], -np.abs(numbers(6, 5)), class_numbers((6,), 5)
    ),
    "nll, all": Case(
        lambda **o: nn.NLLLoss(WEIGHT, ignore_index=2, **o),
        lambda y, t: np.where(t == 2, 0, -np.float64(WEIGHT)[t] * np.take_along_axis(y, t[:, None], 1)[:, 0]),
        numbers(3, 5, 4), class_numbers((3, 4), 5), counted_by_class(np.where(np.arange(5) == 2, 0, WEIGHT), 2),
    ),
    "nll, last axis": Case(
        lambda **o: nn.NLLLoss(dim=-1, **o), lambda y, t: -np.take_along_axis(y, t[..., None], -1)[..., 0],
        numbers(3, 4, 5), class_numbers((3, 4), 5),
    ),
    "mse": Case(nn.MSELoss, lambda y, t: (y - t) ** 2, numbers(4, 3), numbers(4, 3, seed=1)),
    "mse, one axis": Case(nn.MSELoss, lambda y, t: (y - t) ** 2, numbers(5), numbers(5, seed=1)),
    "l1": Case(nn.L1Loss, lambda y, t: np.abs(y - t), numbers(4, 3), numbers(4, 3, seed=1)),
    "huber": Case(lambda **o: nn.HuberLoss(delta=0.7, **o), huber(0.7), numbers(4, 3, 2), numbers(4, 3, 2, seed=1)),
    "smooth l1": Case(
        lambda **o: nn.SmoothL1Loss(beta=0.7, **o), huber(0.7, 1 / 0.7), numbers(4, 3), numbers(4, 3, seed=1)
    ),
    "smooth l1, 0": Case(
        lambda **o: nn.SmoothL1Loss(beta=0, **o), lambda y, t: np.abs(y - t), numbers(4, 3), numbers(4, 3, seed=1)
    ),
    "bce": Case(nn.BCELoss, binary, np.clip(SHARES, 0.1, 0.9), SHARES[::-1].copy()),
    "bce, weight": Case(
        lambda **o: nn.BCELoss([1, 2, 0.5], **o), lambda y, t: np.float64([1, 2, 0.5]) * binary(y, t),
        np.clip(SHARES, 0.1, 0.9), SHARES[::-1].copy(),
    ),
    "bce with logits": Case(
        nn.BCEWithLogitsLoss, lambda y, t: binary(sigmoid(y), t), numbers(4, 3), SHARES
    ),
    "bce with logits, all": Case(
        lambda **o: nn.BCEWithLogitsLoss(SHARES, pos_weight=[3, 0, 0.5], **o),
        lambda y, t: np.float64(SHARES) * (
            -np.float64([3, 0, 0.5]) * t * np.log(sigmoid(y)) - (1 - t) * np.log(1 - sigmoid(y))
        ),
        numbers(4, 3), np.where(YES == 1, SHARES, YES),
    ),
    "kl": Case(
        nn.KLDivLoss, lambda y, t: t * (np.log(t) - y), -np.abs(numbers(4, 5, 3)), P, reductions=(*TORCH, "batchmean")
    ),
    "kl, logarithms": Case(
        lambda **o: nn.KLDivLoss(log_target=True, **o), lambda y, t: np.exp(t) * (t - y), -np.abs(numbers(4, 5, 3)), np.log(P),
        reductions=(*TORCH, "batchmean"),
    ),
    "hinge embedding": Case(
        lambda **o: nn.HingeEmbeddingLoss(0.8, **o), lambda y, t: np.where(t == 1, y, np.maximum(0, 0.8 - y)),
        numbers(7, 3), SIGNS,
    ),
    "soft margin": Case(nn.SoftMarginLoss, lambda y, t: np.log1p(np.exp(-t * y)), numbers(7, 3), SIGNS),
    "poisson": Case(nn.PoissonNLLLoss, lambda y, t: np.exp(y) - t * y, numbers(4, 3), COUNTS),
    "poisson of rates": Case(
        lambda **o: nn.PoissonNLLLoss(False, True, eps=0.01, **o), poisson_rates(0.01), np.abs(numbers(4, 3)) + 0.1, COUNTS,
    ),
    "multi margin": Case(nn.MultiMarginLoss, multi_margin(1, 1.0, np.ones(5)), numbers(6, 5), class_numbers((6,), 5)),
    "multi margin, all": Case(
        lambda **o: nn.MultiMarginLoss(2, 0.7, [1, 2, 0.5, 0, 3], **o), multi_margin(2, 0.7, np.float64([1, 2, 0.5, 0, 3])),
        numbers(6, 5), class_numbers((6,), 5),
    ),
    "multilabel margin": Case(nn.MultiLabelMarginLoss, multilabel_margin, numbers(5, 4), LISTS),
    "multilabel soft margin": Case(
        nn.MultiLabelSoftMarginLoss, lambda y, t: binary(sigmoid(y), t).mean(-1), numbers(4, 3), SHARES
    ),
    "multilabel soft margin, weight": Case(
        lambda **o: nn.MultiLabelSoftMarginLoss([3, 0, 0.5], **o),
        lambda y, t: (np.float64([3, 0, 0.5]) * binary(sigmoid(y), t)).mean(-1), numbers(4, 2, 3), SHARES[:, None].repeat(2, 1),
    ),
    "softmax cross entropy": Case(
        lambda **o: nn.SoftmaxCrossEntropyLoss(label_smoothing=0.2, **o), probabilities(np.ones(5), 0.2), numbers(4, 5, 3), P,
        reductions=BNNS, counts_all=True,
    ),
    "sigmoid cross entropy": Case(
        bnns(LossFunction.sigmoid_cross_entropy(label_smoothing=0.2)), lambda y, t: binary(sigmoid(y), 0.8 * t + 0.1),
        numbers(4, 3), SHARES, reductions=BNNS, counts_all=True,
    ),
    "categorical cross entropy": Case(
        nn.CategoricalCrossEntropyLoss, categorical, numbers(4, 3), YES, reductions=BNNS, counts_all=True
    ),
    "mean square error": Case(
        bnns(LossFunction.mean_square_error()), lambda y, t: (y - t) ** 2, numbers(4, 3), numbers(4, 3, seed=1), reductions=BNNS,
        counts_all=True,
    ),
    "mean absolute error": Case(
        bnns(LossFunction.mean_absolute_error()), lambda y, t: np.abs(y - t), numbers(4, 3), numbers(4, 3, seed=1),
        reductions=BNNS, counts_all=True,
    ),
    "log": Case(
        bnns(LossFunction.log()), lambda y, t: -t * np.log(y + 1e-7) - (1 - t) * np.log(1 - y + 1e-7),
        np.clip(SHARES, 0.1, 0.9), YES, reductions=BNNS, counts_all=True,
    ),
    "hinge": Case(
        bnns(LossFunction.hinge()), lambda y, t: np.maximum(0, 1 - (2 * t - 1) * y), numbers(4, 3), YES, reductions=BNNS,
        counts_all=True,
    ),
}  # fmt: skip

WAYS = [(name, reduction) for name, case in CASES.items() for reduction in case.reductions]


def reduced(case: Case, reduction: str, y: Array, weights: Array | None = None) -> Array:
    """The definition of every reduction."""
    losses = case.define(y, case.targets)
    s = np.ones(losses.shape) if weights is None else np.float64(weights)
    s = np.broadcast_to(s.reshape(s.shape + (1,) * (losses.ndim - s.ndim)), losses.shape)
    total = np.asarray((losses * s).sum())
    if reduction == "none":
        return np.asarray(losses * s)
    if reduction == "sum":
        return total
    if reduction == "batchmean":
        return np.asarray(total / s[(slice(None), *[0] * (s.ndim - 1))].sum())
    if reduction == "non_zero_weight_mean":
        return np.asarray(total / np.count_nonzero(s))
    if case.counts_all and reduction == "mean":
        return np.asarray(total / losses.size)
    c = np.ones(losses.shape) if case.counted is None else case.counted(case.targets)
    return np.asarray(total / (c * s).sum())


def check_gradient(case: Case, reduction: str, gradient: Array, weights: Array | None = None) -> None:
    y, h = np.float64(case.output), 1e-6
    for seed in range(4):
        u = RNG(seed).standard_normal(y.shape)
        slope = (reduced(case, reduction, y + h * u, weights) - reduced(case, reduction, y - h * u, weights)).sum() / (
            2 * h
        )
        scale = float(np.abs(gradient).sum()) + 1e-3
        assert np.vdot(np.float64(gradient), u) == pytest.approx(slope, rel=1e-4, abs=2e-6 * scale)


@pytest.mark.parametrize(("name", "reduction"), WAYS)
def test_value_and_gradient(name: str, reduction: str) -> None:
    case = CASES[name]
    before = case.output.copy(), case.targets.copy()
    value, gradient = case.make(reduction=reduction)(case.output, case.targets)
    expected = reduced(case, reduction, np.float64(case.output))
    assert np.abs(expected).sum() > 1e-2 and np.count_nonzero(gradient) > 0.1 * gradient.size
    assert np.shape(value) == expected.shape and gradient.dtype == np.float32
    np.testing.assert_allclose(value, expected, rtol=3e-6, atol=1e-7)
    check_gradient(case, reduction, gradient)
    np.testing.assert_array_equal(case.output, before[0])
    np.testing.assert_array_equal(case.targets, before[1])


@pytest.mark.parametrize(("name", "reduction"), WAYS)
def test_weights_of_samples_and_of_positions(name: str, reduction: str) -> None:
    case = CASES[name]
    shape = case.define(np.float64(case.output), case.targets).shape
    for kind in (shape[:1], shape):
        weights = np.maximum(RNG(9).random_sample(kind) - 0.2, 0).astype(np.float32)
        weights.flat[0] = 0.0
        value, gradient = case.make(reduction=reduction)(case.output, case.targets, sample_weights=weights)
        if reduction == "batchmean" and kind != shape[:1]:
            continue  # samples count, and these have one weight each
        expected = reduced(case, reduction, np.float64(case.output), weights)
        np.testing.assert_allclose(value, expected, rtol=3e-6, atol=1e-7)
        check_gradient(case, reduction, gradient, weights)
        assert not gradient[0].any() or kind != shape[:1]


@pytest.mark.parametrize("name", CASES)
def test_bound_losses_are_used_again_and_without_a_gradient(name: str) -> None:
    """New numbers in the same arrays, with weights and without, in any order, as a trainer gives them."""
    case = CASES[name]
    loss = case.make(reduction="mean")
    y, gradient = case.output.copy(), np.empty_like(case.output)
    bound, blind = loss.bind(y, gradient), loss.bind(y, None)
    weights = np.linspace(0, 2, len(y)).astype(np.float32)
    for turn in range(4):
        order = RNG(turn).permutation(len(y))
        y[...] = case.output[order]
        targets = case.targets[order]
        given = weights if turn % 2 else None
        bound.take(targets)
        blind.take(targets)
        value = bound.run(given)
        if "weight" not in loss._shown or np.shape(loss._shown["weight"]) != y.shape:  # one that belongs to the samples
            alone, wanted = case.make(reduction="mean")(y, targets, sample_weights=given)
            assert value == alone
            np.testing.assert_array_equal(gradient, wanted)
        assert blind.run(given) == value == bound.run(given)


@pytest.mark.parametrize("width", [5, 300])  # one with a table of all labels, and one without
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_class_numbers_and_probabilities_in_turns(width: int, smoothing: float) -> None:
    """Labels of one batch leave nothing behind in those of the next."""
    loss = nn.CrossEntropyLoss(RNG(0).random_sample(width), label_smoothing=smoothing)
    y, gradient = numbers(6, width), np.empty((6, width), np.float32)
    bound = loss.bind(y, gradient)
    for turn in range(6):
        targets = class_numbers((6,), width, ignored=-100 if turn % 2 else None, seed=turn)
        if turn == 3:
            targets = RNG(turn).dirichlet(np.ones(width), 6).astype(np.float32)
        bound.take(targets)
        value, wanted = loss(y, targets)
        assert bound.run() == value
        np.testing.assert_array_equal(gradient, wanted)


@pytest.mark.parametrize("name", ["cross entropy, weights", "huber", "nll", "bce"])
def test_losses_can_be_copied(name: str) -> None:
    case = CASES[name]
    loss = case.make(reduction="sum")
    value, _ = loss(case.output, case.targets)
    assert copy.deepcopy(loss)(case.output, case.targets)[0] == value
    if name != "nll":
        assert repr(pickle.loads(pickle.dumps(loss))) == repr(loss)


def test_the_total_weight_tells_what_a_mean_was_divided_by() -> None:
    y = numbers(4, 5)
    bound = nn.CrossEntropyLoss([1, 2, 3, 4, 5]).bind(y, None)
    bound.take(np.array([0, 1, -100, 4]))
    value = bound.run()
    assert bound.total_weight == 8.0
    assert bound.run(np.float32([2, 1, 1, 0])) != value and bound.total_weight == 4.0


def test_everything_left_out_counts_nothing() -> None:
    for loss in (nn.CrossEntropyLoss(), nn.CrossEntropyLoss([1, 0, 2]), nn.NLLLoss()):
        value, gradient = loss(numbers(2, 3), np.array([-100, -100]))
        assert value == 0.0 and not gradient.any()
    value, gradient = nn.MSELoss()(numbers(2, 3), numbers(2, 3, seed=1), sample_weights=[0, 0])
    assert value == 0.0 and not gradient.any()
    scores = np.float32([[-np.inf, 0.0], [0.0, -np.inf]])
    value, gradient = nn.NLLLoss(ignore_index=0)(scores, np.array([1, 0]))
    assert value == 0.0 and gradient.tolist() == [[0, -1], [0, 0]]


def test_points_where_pytorch_and_bnns_differ() -> None:
    same = np.float32([[1, 2]])
    assert nn.L1Loss(reduction="sum")(same, same)[1].tolist() == [[0, 0]]
    assert nn.SmoothL1Loss(beta=0, reduction="sum")(same, same)[1].tolist() == [[0, 0]]
    assert bnns(LossFunction.mean_absolute_error())(reduction="sum")(same, same)[1].tolist() == [[1, 1]]
    value, gradient = nn.BCELoss(reduction="sum")(np.float32([[0, 1]]), np.float32([[1, 1]]))
    assert value == 100.0 and gradient[0, 1] == 0.0
    log = bnns(LossFunction.log())(reduction="sum")
    assert log(np.float32([[0, 1]]), np.float32([[1, 1]]))[0] == pytest.approx(-np.log(1e-7))
    assert nn.KLDivLoss(reduction="sum")(np.float32([[-np.inf, 0]]), np.float32([[0, 1]]))[0] == 0.0


def test_cosine_distance() -> None:
    y, t = unit(4, 3, 5), unit(4, 3, 5, seed=1)
    losses, cosine = 1 - (np.float64(y) * t).sum(-1), bnns(LossFunction.cosine_distance())
    for reduction in ("none", "mean"):
        value, gradient = cosine(reduction=reduction)(y, t)
        np.testing.assert_allclose(value, losses if reduction == "none" else losses.mean(), rtol=1e-5)
        wanted = -t + (1 - losses)[..., None] * y
        np.testing.assert_allclose(gradient, wanted / (1 if reduction == "none" else 12), rtol=1e-4, atol=1e-6)
    weights = np.float32([0, 1, 2, 3])
    value, gradient = cosine(reduction="weighted_mean")(y, t, sample_weights=weights)
    assert value == pytest.approx((losses * weights[:, None]).sum() / 18, rel=1e-5)
    np.testing.assert_allclose(gradient, wanted * weights[:, None, None] / 18, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("reduction", TORCH)
def test_cosine_embedding(reduction: Any) -> None:
    a, b, t = numbers(7, 4), numbers(7, 4, seed=1), SIGNS[:, 0]
    weights = np.linspace(0, 1, 7).astype(np.float32)

    def define(a: Array, b: Array, s: Array) -> Array:
        cosine = (a * b).sum(1) / np.sqrt((a * a).sum(1) * (b * b).sum(1))
        losses = s * np.where(t == 1, 1 - cosine, np.maximum(0, cosine - 0.1))
        return np.asarray(losses if reduction == "none" else losses.sum() / (s.sum() if reduction == "mean" else 1))

    for given in (None, weights):
        s = np.ones(7) if given is None else np.float64(given)
        value, (da, db) = nn.CosineEmbeddingLoss(0.1, reduction=reduction)(a, b, t, sample_weights=given)
        np.testing.assert_allclose(value, define(np.float64(a), np.float64(b), s), rtol=1e-5, atol=1e-7)
        for seed in range(3):
            u, v, h = np.float64(numbers(7, 4, seed=seed + 2)), np.float64(numbers(7, 4, seed=seed + 9)), 1e-6
            slope = (define(a + h * u, b + h * v, s) - define(a - h * u, b - h * v, s)).sum() / (2 * h)
            assert np.vdot(da, u) + np.vdot(db, v) == pytest.approx(slope, rel=1e-4, abs=1e-5)
    with pytest.raises(ValueError, match=r"CosineEmbeddingLoss: targets contain 0\.0\. Pass 1 for"):
        nn.CosineEmbeddingLoss()(a, b, np.zeros(7))
    with pytest.raises(ValueError, match=r"the outputs have shapes \(7, 4\) and \(7, 3\)"):
        nn.CosineEmbeddingLoss()(a, b[:, :3], t)
    with pytest.raises(ValueError, match="between -1 and 1"):
        nn.CosineEmbeddingLoss(1.5)


class Joint(NamedTuple):
    """A loss of several outputs, and the losses before reduction as the definition has them."""

    make: Callable[..., Any]
    define: Callable[..., Array]
    outputs: list[Array]
    targets: Array | None
    order: Callable[..., tuple[Any, ...]] = lambda outputs, targets: (*outputs, *([] if targets is None else [targets]))


def distance(a: Array, b: Array, p: float, eps: float) -> Array:
    return np.asarray((np.abs(a - b + eps) ** p).sum(-1) ** (1 / p))


def triplet(margin: float, p: float, eps: float, swap: bool) -> Callable[..., Array]:
    def define(a: Array, near: Array, far: Array, t: None) -> Array:
        apart = distance(a, far, p, eps)
        apart = np.minimum(apart, distance(near, far, p, eps)) if swap else apart
        return np.asarray(np.maximum(0, margin + distance(a, near, p, eps) - apart))

    return define


def gaussian(full: bool, eps: float) -> Callable[..., Array]:
    def define(y: Array, v: Array, t: Array) -> Array:
        v = np.maximum(v if v.ndim == y.ndim else v[..., None], eps)
        return np.asarray((np.log(v) + (y - t) ** 2 / v + full * np.log(2 * np.pi)) / 2)

    return define


def around(outputs: list[Array], targets: Array) -> tuple[Any, ...]:
    return outputs[0], targets, outputs[1]


VARIANCE = np.abs(numbers(7, 3, seed=5)) + 0.1
JOINT = {
    "margin ranking": Joint(
        lambda **o: nn.MarginRankingLoss(0.3, **o), lambda a, b, t: np.asarray(np.maximum(0, 0.3 - t * (a - b))),
        [numbers(7, 3), numbers(7, 3, seed=1)], SIGNS,
    ),
    "triplet": Joint(
        nn.TripletMarginLoss, triplet(1.0, 2, 1e-6, False), [numbers(7, 4, seed=seed) for seed in range(3)], None
    ),
    "triplet, all": Joint(
        lambda **o: nn.TripletMarginLoss(2.0, 3, 0.1, True, **o), triplet(2.0, 3, 0.1, True),
        [numbers(7, 2, 4, seed=seed) for seed in range(3)], None,
    ),
    "gaussian": Joint(nn.GaussianNLLLoss, gaussian(False, 1e-6), [numbers(7, 3), VARIANCE], numbers(7, 3, seed=1), around),
    "gaussian, one per row": Joint(
        lambda **o: nn.GaussianNLLLoss(full=True, **o), gaussian(True, 1e-6), [numbers(7, 3), VARIANCE[:, 0].copy()],
        numbers(7, 3, seed=1), around,
    ),
    "gaussian, one column": Joint(
        nn.GaussianNLLLoss, gaussian(False, 1e-6), [numbers(7, 3), VARIANCE[:, :1].copy()], numbers(7, 3, seed=1), around,
    ),
}  # fmt: skip


@pytest.mark.parametrize("reduction", TORCH)
@pytest.mark.parametrize("name", JOINT)
def test_losses_of_several_outputs(name: str, reduction: Any, engine: str) -> None:
    case = JOINT[name]
    loss = case.make(reduction=reduction)
    exact = [np.float64(output) for output in case.outputs]
    shape = case.define(*exact, case.targets).shape

    def define(outputs: list[Array], weights: Array) -> Array:
        losses = case.define(*outputs, case.targets)
        s = np.broadcast_to(weights.reshape(weights.shape + (1,) * (losses.ndim - weights.ndim)), losses.shape)
        return np.asarray(
            losses * s if reduction == "none" else (losses * s).sum() / (s.sum() if reduction == "mean" else 1)
        )

    weights = np.linspace(0, 1, 7).astype(np.float32)
    for given in (None, weights, np.broadcast_to(weights.reshape(-1, *[1] * (len(shape) - 1)), shape), None):
        value, gradients = loss(*case.order(case.outputs, case.targets), sample_weights=given)
        s = np.ones(7) if given is None else np.float64(given)
        np.testing.assert_allclose(value, define(exact, s), rtol=1e-5, atol=1e-6)
        assert [g.shape for g in gradients] == [output.shape for output in case.outputs]
        assert all(np.count_nonzero(g) > 0.3 * g.size for g in gradients)
        for seed in range(3):
            u, h = [np.float64(numbers(*x.shape, seed=10 * i + seed)) for i, x in enumerate(exact)], 1e-6
            ahead, back = ([x + f * v for x, v in zip(exact, u, strict=True)] for f in (h, -h))
            slope = (define(ahead, s) - define(back, s)).sum() / (2 * h)
            assert sum(np.vdot(g, v) for g, v in zip(gradients, u, strict=True)) == pytest.approx(
                slope, rel=1e-4, abs=1e-4
            )


@pytest.mark.parametrize("name", ["soft margin", "poisson of rates", "multi margin, all", "multilabel margin"])
def test_losses_that_are_expressions_on_both_engines(name: str, engine: str) -> None:
    test_value_and_gradient(name, "mean")


def test_a_variance_is_a_number_or_at_least_eps() -> None:
    y, t = numbers(5, 2), numbers(5, 2, seed=1)
    value, (dy, dv) = nn.GaussianNLLLoss(eps=0.5)(y, t, 0.1)
    same, (dy_same, dv_same) = nn.GaussianNLLLoss()(y, t, np.full((5, 2), 0.5, np.float32))
    assert value == same and dv.shape == (5, 2)
    np.testing.assert_array_equal(dy, dy_same)
    np.testing.assert_array_equal(dv, dv_same)


def test_options_of_expressions_count_after_a_change() -> None:
    loss, y, t = nn.MultiMarginLoss(weight=[1, 2, 3]), numbers(5, 3), np.array([0, 2, 1, 1, 0])
    first, _ = loss(y, t)
    loss.margin = 0.5
    assert loss.weight is not None
    loss.weight *= 2
    _same(loss, nn.MultiMarginLoss(margin=0.5, weight=[2, 4, 6]), y, t)
    assert loss(y, t)[0] != first
    _same(pickle.loads(pickle.dumps(loss)), loss, y, t)


def test_functions_train_networks_with_several_outputs() -> None:
    """As the page of losses has it: the losses of several outputs are functions of them for a trainer."""

    class Uncertain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mean, self.spread = nn.Linear(1), nn.Linear(1)

        def forward(self, x: nn.Value) -> Any:
            return self.mean(x), nn.functional.softplus(self.spread(x))

    x = RNG(0).uniform(-1, 1, (512, 1)).astype(np.float32)
    t = (3 * x + np.where(x > 0, 0.1, 1.0) * RNG(1).standard_normal((512, 1))).astype(np.float32)
    net = Uncertain()
    trainer = nn.Trainer(
        net, lambda y, t: nn.functional.gaussian_nll_loss(y[0], t, y[1]), nn.Adam(0.05), quiet=True, metrics={}, seed=1
    )
    history = trainer.fit(x, t, epochs=20)
    assert history[-1]["loss"] < history[0]["loss"] - 0.5
    mean, variance = net.predict(np.float32([[-0.9], [0.9]]))
    assert variance[0] > 2 * variance[1] and mean[1] - mean[0] > 3


@pytest.mark.parametrize(
    ("loss", "cure"),
    [
        (nn.TripletMarginLoss(), r"lambda outputs: nn\.functional\.triplet_margin_loss\(\*outputs\)"),
        (nn.MarginRankingLoss(), r"lambda outputs, targets: nn\.functional\.margin_ranking_loss\(\*outputs, targets\)"),
        (
            nn.CosineEmbeddingLoss(),
            r"lambda outputs, targets: nn\.functional\.cosine_embedding_loss\(\*outputs, targets\)",
        ),
        (nn.GaussianNLLLoss(), r"nn\.functional\.gaussian_nll_loss\(outputs\[0\], targets, outputs\[1\]\)"),
    ],
)
def test_trainers_take_losses_of_several_outputs_as_functions(loss: nn.Loss, cure: str) -> None:
    with pytest.raises(
        ValueError, match=r"Trainer: .*Loss\(\) is of several outputs at once\. Pass a function .*" + cure
    ):
        nn.Trainer(nn.Sequential(nn.Linear(3)), loss, "adam")


GRID = bn.YoloParameters(
    grid_column_count=2,
    grid_rows_count=3,
    anchor_box_count=2,
    anchor_box_size=7,
    anchors_data=np.float32([[1, 2], [2, 1]]),
)


def test_yolo() -> None:
    y, t = numbers(3, 3, 2, 2, 7), np.abs(numbers(3, 3, 2, 2, 7, seed=1)) + 0.1
    t[..., 4] = RNG(2).randint(0, 2, t.shape[:-1])
    layer = bn.LossLayer(
        input=bn.Shape.vector(84), loss_function=LossFunction.yolo(GRID), loss_reduction=bn.LossReduction.SUM
    )
    each = [layer.apply(y[i : i + 1].reshape(1, -1), t[i : i + 1].reshape(1, -1)) for i in range(3)]
    alone = np.array([result.output[0] for result in each])
    slopes = np.stack([result.input_gradient[0] for result in each]).reshape(y.shape)
    assert np.count_nonzero(slopes) > 0.2 * slopes.size
    weights, yolo = np.float32([2, 0, 0.5]), bnns(LossFunction.yolo(GRID))
    for reduction, factor in (("none", 1.0), ("sum", 1.0), ("mean", 1 / 3)):
        value, gradient = yolo(reduction=reduction)(y, t)
        np.testing.assert_allclose(value, alone if reduction == "none" else alone.sum() * factor, rtol=1e-5)
        np.testing.assert_allclose(gradient, slopes * factor, rtol=1e-5, atol=1e-7)
        value, gradient = yolo(reduction=reduction)(y, t, sample_weights=weights)
        weighted = alone * weights
        np.testing.assert_allclose(value, weighted if reduction == "none" else weighted.sum() * factor, rtol=1e-5)
        np.testing.assert_allclose(gradient, slopes * weights[:, None, None, None, None] * factor, rtol=1e-5, atol=1e-7)
    with pytest.raises(ValueError, match=r"6 numbers per sample, but the grid has 3 x 2 x 2 x 7 = 84"):
        yolo()(np.zeros((3, 6)), np.zeros((3, 6)))


BAD: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "no function": (lambda: nn.BNNSLoss("hinge"), TypeError, r"takes an openbnns\.LossFunction, such as .*, not 'hinge'"),  # type: ignore[arg-type]
    "softmax of BNNS": (
        lambda: nn.BNNSLoss(LossFunction.softmax_cross_entropy()), ValueError, r"needs classes\. Use nn\.SoftmaxCrossEntropyLoss",
    ),
    "smoothing of BNNS": (
        lambda: nn.BNNSLoss(LossFunction.sigmoid_cross_entropy(label_smoothing=1.0)), ValueError,
        r"label_smoothing is 1\.0\. It must be at least 0 and below 1",
    ),
    "sums of BNNS": (
        lambda: nn.BNNSLoss(LossFunction.yolo(GRID), reduction="weighted_mean"), ValueError, "Use one of none, sum, mean",
    ),
    "vectors of BNNS": (
        lambda: nn.BNNSLoss(LossFunction.cosine_distance())(numbers(3), numbers(3)), ValueError, "needs one of features as well",
    ),
    "a loss that is one of BNNS's": (
        lambda: nn.HingeLoss, AttributeError, r"Use nn\.BNNSLoss\(openbnns\.LossFunction\.hinge\(\)\)\.$",  # type: ignore[attr-defined]
    ),
    "reduction": (lambda: nn.MSELoss(reduction="men"), ValueError, r"MSELoss: reduction is 'men'\. Did you mean 'mean'\?"),  # type: ignore[arg-type]
    "batchmean": (lambda: nn.MSELoss(reduction="batchmean"), ValueError, "Use one of none, sum, mean"),  # type: ignore[arg-type]
    "delta": (lambda: nn.HuberLoss(delta=0), ValueError, "delta is 0. It must be above 0"),
    "beta": (lambda: nn.SmoothL1Loss(beta=-1), ValueError, "beta is -1. It must be at least 0"),
    "smoothing as weight": (
        lambda: nn.CrossEntropyLoss(0.1), TypeError, r"weight is 0\.1, but it holds one number per class.*label_smoothing=0\.1",
    ),
    "smoothing": (lambda: nn.CrossEntropyLoss(label_smoothing=1.0), ValueError, "at least 0 and below 1"),
    "weight of no class": (lambda: nn.NLLLoss([]), ValueError, r"weight has shape \(0,\)"),
    "negative weight": (lambda: nn.NLLLoss([1, -2]), ValueError, "weight contain -2. Weights are at least 0"),
    "weights of other classes": (
        lambda: nn.CrossEntropyLoss([1, 2])(numbers(4, 3), np.zeros(4, int)), ValueError,
        "weight has 2 numbers, but the network gives scores of 3 classes",
    ),
    "class out of range": (
        lambda: nn.CrossEntropyLoss(ignore_index=7)(numbers(2, 3), np.array([7, -100])), ValueError,
        "class number -100 is out of range.* ignore_index, 7, marks what is left out",
    ),
    "ignore_index": (lambda: nn.CrossEntropyLoss(ignore_index=0.5), TypeError, "must be a class number"),  # type: ignore[arg-type]
    "nll of probabilities": (
        lambda: nn.NLLLoss()(numbers(2, 3), numbers(2, 3)), ValueError, r"need class numbers of shape \(2,\)\.",
    ),
    "weight of another shape": (
        lambda: nn.BCELoss([1, 2])(SHARES, YES), ValueError, r"weight has shape \(2,\), which does not broadcast to .*\(4, 3\)",
    ),
    "pos_weight of another shape": (
        lambda: nn.BCEWithLogitsLoss(pos_weight=[1, 2])(SHARES, YES), ValueError, r"pos_weight has shape \(2,\)",
    ),
    "no probabilities": (lambda: nn.BCELoss()(SHARES + 1, YES), ValueError, "must be probabilities. Put nn.Sigmoid"),
    "signs": (lambda: nn.HingeEmbeddingLoss()(SHARES, YES), ValueError, "Pass 1 for what belongs together"),
    "signs of margins": (lambda: nn.SoftMarginLoss()(SHARES, YES), ValueError, "SoftMarginLoss: targets contain 0"),
    "signs of ranks": (
        lambda: nn.MarginRankingLoss()(SHARES, SHARES, YES), ValueError, "MarginRankingLoss: targets contain 0.*Pass 1 for",
    ),
    "shapes of ranks": (
        lambda: nn.MarginRankingLoss()(SHARES, SHARES[:, :1], YES), ValueError,
        r"outputs have shapes \(4, 3\) and \(4, 1\), the targets \(4, 3\)\. They must agree",
    ),
    "shapes of triplets": (
        lambda: nn.TripletMarginLoss()(SHARES, SHARES, SHARES[:3]), ValueError,
        r"anchor, positive and negative have shapes \(4, 3\), \(4, 3\), \(3, 3\)\. All must be \(N, features\)",
    ),
    "margin of triplets": (lambda: nn.TripletMarginLoss(0), ValueError, r"TripletMarginLoss: margin is 0\. It must be above 0"),
    "margin as text": (lambda: nn.MarginRankingLoss("1"), TypeError, "MarginRankingLoss: margin must be a number"),  # type: ignore[arg-type]
    "p of margins": (lambda: nn.MultiMarginLoss(3), ValueError, r"MultiMarginLoss: p is 3\. Use 1 or 2"),  # type: ignore[arg-type]
    "scores of margins": (
        lambda: nn.MultiMarginLoss()(numbers(4, 3, 2), np.zeros((4, 2), int)), ValueError,
        r"\(4, 3, 2\), but must be \(N, classes\)",
    ),
    "weights of margins": (
        lambda: nn.MultiMarginLoss(weight=[1, 2])(SHARES, np.zeros(4, int)), ValueError,
        r"weight has shape \(2,\), but the network gives scores of 3 classes",
    ),
    "classes of margins": (
        lambda: nn.MultiMarginLoss()(SHARES, np.array([0, 1, 3, 0])), ValueError, "class number 3 is out of range.* 0 to 2",
    ),
    "numbers for classes": (
        lambda: nn.MultiMarginLoss()(SHARES, np.ones(4)), TypeError, "float64. Pass class numbers as integers",
    ),
    "targets of margins": (
        lambda: nn.MultiMarginLoss()(SHARES, np.zeros((4, 3), int)), ValueError, r"need class numbers of shape \(4,\)",
    ),
    "lists of classes": (
        lambda: nn.MultiLabelMarginLoss()(SHARES, np.full((4, 3), -2)), ValueError,
        "class number -2 .* -1 ends the list of a sample",
    ),
    "shapes of lists": (
        lambda: nn.MultiLabelMarginLoss()(SHARES, np.zeros((4, 2), int)), ValueError, r"targets have shape \(4, 2\)",
    ),
    "labels without samples": (
        lambda: nn.MultiLabelSoftMarginLoss()(SHARES[0], YES[0]), ValueError, r"\(3,\), but must be \(N, classes\)",
    ),
    "weight of labels": (
        lambda: nn.MultiLabelSoftMarginLoss([1, 2])(SHARES, YES), ValueError,
        r"weight has shape \(2,\), which does not broadcast",
    ),
    "negative rates": (
        lambda: nn.PoissonNLLLoss(False)(SHARES - 1, YES), ValueError, "must be expected counts, at least 0. Put nn.Softplus",
    ),
    "negative variance": (
        lambda: nn.GaussianNLLLoss()(SHARES, YES, SHARES - 1), ValueError, "the variance contains -.*put nn.Softplus",
    ),
    "shape of variances": (
        lambda: nn.GaussianNLLLoss()(SHARES, YES, SHARES[:, :2]), ValueError,
        r"the variance has shape \(4, 2\), but the output \(4, 3\)\. Pass one for each element",
    ),
    "least variance": (lambda: nn.GaussianNLLLoss(eps=0), ValueError, r"GaussianNLLLoss: eps is 0\. It must be above 0"),
    "sample weights": (
        lambda: nn.MSELoss()(SHARES, YES, sample_weights=[1, 2]), ValueError,
        r"sample_weights have shape \(2,\)\. Pass one per sample, \(4,\), or per position, \(4, 3\)",
    ),
    "negative sample weights": (
        lambda: nn.MSELoss()(SHARES, YES, sample_weights=[1, 2, -1, 0]), ValueError, "contain -1. Weights are at least 0",
    ),
    "infinite sample weights": (
        lambda: nn.MSELoss()(SHARES, YES, sample_weights=[1, 2, np.inf, 0]), ValueError, r"contain inf at \(2,\)",
    ),
    "sample weights as text": (lambda: nn.MSELoss()(SHARES, YES, sample_weights=list("abcd")), TypeError, "Pass numbers"),
    "old name": (lambda: nn.MSELoss(size_average=True), TypeError, "there is no argument 'size_average'"),  # type: ignore[call-arg]
    "kl of NaN": (
        lambda: nn.KLDivLoss(log_target=True)(SHARES, SHARES * np.nan), ValueError, "Pass logarithms of probabilities",
    ),
    "attribute of a pair": (lambda: nn.MSELoss()(SHARES, YES).backward(), AttributeError, "gives the pair"),  # type: ignore[attr-defined]
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_input(name: str) -> None:
    call, kind, message = BAD[name]
    with pytest.raises(kind, match=message):
        call()


def test_reprs_tell_losses_apart() -> None:
    """A trainer compares them when it resumes."""
    assert repr(nn.CrossEntropyLoss()) == "CrossEntropyLoss()"
    assert repr(nn.CrossEntropyLoss([1, 2], ignore_index=3)) == "CrossEntropyLoss(weight=[1.0, 2.0], ignore_index=3)"
    assert repr(nn.KLDivLoss(reduction="batchmean")) == "KLDivLoss(reduction='batchmean')"
    assert repr(nn.SmoothL1Loss(beta=0.5)) == "SmoothL1Loss(beta=0.5)"
    first, second = np.ones(100), np.ones(100)
    second[50] = 2
    assert repr(nn.NLLLoss(first)) != repr(nn.NLLLoss(second))


@pytest.mark.parametrize("name", nn.losses.NAMED)
def test_a_trainer_takes_every_loss_by_name(name: str) -> None:
    x = numbers(12, 4)
    made = nn.losses.NAMED[name]()
    last: nn.Module = nn.Sigmoid() if name == "bce" else nn.LogSoftmax() if name in ("nll", "kl_div") else nn.Identity()
    net = nn.Sequential(nn.Linear(3), last)
    y: Array = np.float32([[1, 0, 0]] * 12)
    if made.classes:
        y = np.zeros(12, np.int64)
    elif name in ("hinge_embedding", "soft_margin"):
        y = -np.ones((12, 3))
    history = nn.Trainer(net, name, nn.SGD(0.05), quiet=True, metrics={}).fit(x, y, epochs=8)
    assert history[-1]["loss"] < history[0]["loss"]


@pytest.mark.parametrize("width", [4, 300])
def test_tables_of_labels_are_made_once(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """And again after every change of what they are made from."""
    from openbnns.nn.losses import classification

    made: list[int] = []
    make = classification._tables
    monkeypatch.setattr(classification, "_tables", lambda *given: made.append(1) or make(*given))

    def options(smoothing: float, factor: float) -> dict[str, Any]:
        return {"label_smoothing": smoothing, "weight": np.linspace(1, 2, width) * factor}

    loss, targets = nn.CrossEntropyLoss(**options(0.1, 1)), class_numbers((6,), width, ignored=-100)
    scores = numbers(6, width)
    for batch in (6, 6, 5):
        loss(scores[:batch], targets[:batch])
    assert len(made) == 1
    loss.label_smoothing = 0.3
    _same(loss, nn.CrossEntropyLoss(**options(0.3, 1)), scores, targets)
    assert loss.weight is not None
    loss.weight *= 3
    _same(loss, nn.CrossEntropyLoss(**options(0.3, 3)), scores, targets)
    plain = nn.CrossEntropyLoss()
    for classes in (width, 3, width):
        _same(plain, nn.CrossEntropyLoss(), scores[:, :classes], targets % 3)
    _same(pickle.loads(pickle.dumps(loss)), loss, scores, targets)


def _same(one: nn.Loss, other: nn.Loss, scores: Array, targets: Array) -> None:
    (value, gradient), (expected, other_gradient) = one(scores, targets), other(scores, targets)
    assert value == pytest.approx(expected, rel=1e-6)
    np.testing.assert_allclose(gradient, other_gradient, rtol=1e-6, atol=1e-9)
