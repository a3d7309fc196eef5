"""Scores of predictions: from outputs and targets to the numbers that the report shows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..graph.tensor import Array
from ..nn.evaluation import f1_name, most_common, most_common_labels
from ..nn.metrics import R2, formulas

_ROWS = 4096  # at a time, so that probabilities of many classes take little memory
_BINS = 10


class Baseline(NamedTuple):
    """The result without a network: that of the best constant answer."""

    words: str
    """A phrase such as "always the most frequent class, 3"."""
    value: float


class Answers(NamedTuple):
    """The answers of a classifier: class, confidence, and probability of the true class, for each sample."""

    predicted: Array
    confidence: Array
    of_truth: Array


@dataclass(frozen=True)
class Rates:
    """Precision, recall and F1 of each class or label; NaN for those that do not count, because they do not occur."""

    support: Array
    precision: Array
    recall: Array
    f1: Array

    @classmethod
    def of(cls, counts: Array, occurs: Array) -> Rates:
        formulated = (formulas.precision, formulas.recall, formulas.f1)
        return cls(counts[2], *(np.where(occurs, formula(counts), math.nan) for formula in formulated))


@dataclass(frozen=True)
class ClassScores:
    """A classifier on test samples. The confusion is sparse: ``cells`` are true classes, predicted classes, and counts."""

    names: tuple[str, ...]
    samples: int
    right: int
    interval: tuple[float, float]
    """The interval that holds the accuracy on other samples of the kind, 19 times of 20 (Wilson's interval)."""
    baseline: Baseline
    counts: Array
    """Counts of each class (3, classes): right, predicted and true ones."""
    cells: tuple[Array, Array, Array]
    calibration: Calibration

    @property
    def accuracy(self) -> float:
        return self.right / self.samples

    @property
    def rates(self) -> Rates:
        return Rates.of(self.counts, self.counts[1] + self.counts[2] > 0)

    @property
    def f1(self) -> tuple[str, float]:
        """The F1 score of all classes together, after its name."""
        count = len(self.names)
        value = formulas.averaged(formulas.f1, self.counts, formulas.usual_average(count))
        return f1_name("classification", self.names, count), value

    def confused(self, most: int) -> list[tuple[int, int, int]]:
        """True class, predicted class and how often, the most frequent errors first."""
        true, predicted, counts = self.cells
        wrong = np.flatnonzero(true != predicted)
        order = wrong[np.lexsort((predicted[wrong], true[wrong], -counts[wrong]))][:most]
        return [(int(true[i]), int(predicted[i]), int(counts[i])) for i in order]


@dataclass(frozen=True)
class Calibration:
    """The accuracy of a network by its confidence. Bins without samples are left out."""

    edges: tuple[float, ...]
    """The lower edges of the bins, which are all of the same width."""
    counts: tuple[int, ...]
    confidence: tuple[float, ...]
    accuracy: tuple[float, ...]
    error: float
    """The mean distance of the two over all samples (expected calibration error)."""

    width = 1 / _BINS


@dataclass(frozen=True)
class LabelScores:
    """Yes or no for each of several labels."""

    names: tuple[str, ...]
    samples: int
    exact: float
    """Share of the samples with all labels right."""
    baseline: Baseline
    counts: Array
    """Counts of each label (3, labels): right, predicted and true ones."""

    @property
    def rates(self) -> Rates:
        return Rates.of(self.counts, np.ones(len(self.names), np.bool_))

    @property
    def f1(self) -> tuple[str, float]:
        """The F1 score of all labels together, after its name."""
        value = formulas.label_average(formulas.f1, self.counts, "macro")
        return f1_name("multilabel", self.names, len(self.names)), value


@dataclass(frozen=True)
class Regression:
    """Numbers that were predicted, one output of the network."""

    name: str
    truth: Array
    predicted: Array
    baseline: Baseline

    @property
    def residuals(self) -> Array:
        """Predicted minus true."""
        return self.predicted - self.truth

    @property
    def rmse(self) -> float:
        return math.sqrt(float(np.square(self.residuals).mean()))

    @property
    def mae(self) -> float:
        return float(np.abs(self.residuals).mean())

    @property
    def r2(self) -> float:
        """Share of the variance that is explained."""
        return R2()(self.predicted[:, None], self.truth[:, None])


def names_of(names: Sequence[str], count: int) -> tuple[str, ...]:
    """One name for each, numbers where there is none."""
    return tuple(str(names[i]) if i < len(names) else str(i) for i in range(count))


def answers(outputs: Array, targets: Array, *, probabilities: bool | None = None) -> Answers:
    """The answers from scores (N, classes), or (N,) and (N, 1) for yes or no.

    Rows that are probabilities already stay as they are; of others the softmax is taken, or the sigmoid. Which they are follows
    from their values if ``probabilities`` does not say so.
    """
    scores = outputs.reshape(len(outputs), -1)
    predicted = np.empty(len(scores), np.int64)
    confidence, of_truth = np.empty(len(scores)), np.empty(len(scores))
    ready = _are_probabilities(scores) if probabilities is None else probabilities
    for start in range(0, len(scores), _ROWS):
        part = slice(start, start + _ROWS)
        p = _probabilities(scores[part].astype(np.float64), ready)
        chosen = scores[part, 0] > (0.5 if ready else 0.0) if scores.shape[1] == 1 else scores[part].argmax(axis=1)
        predicted[part] = chosen
        confidence[part] = p.max(axis=1)
        of_truth[part] = p[np.arange(len(p)), targets[part]]
    return Answers(predicted, confidence, of_truth)


def _are_probabilities(scores: Array) -> bool:
    if scores.shape[1] == 1:
        return bool(scores.min() >= 0 and scores.max() <= 1)
    return bool(scores.min() >= 0 and np.abs(scores.sum(axis=1, dtype=np.float64) - 1).max() < 1e-3)


def _probabilities(scores: Array, ready: bool) -> Array:
    if scores.shape[1] == 1:
        yes = scores[:, 0] if ready else np.exp(-np.logaddexp(0, -scores[:, 0]))
        return np.stack([1 - yes, yes], axis=1)
    if ready:
        return scores
    powers: Array = np.exp(scores - scores.max(axis=1, keepdims=True))
    powers /= powers.sum(axis=1, keepdims=True)
    return powers


def classes(answered: Answers, targets: Array, names: Sequence[str], count: int, training: Array | None) -> ClassScores:
    """``training`` are the targets of the training samples, of which the baseline is the most frequent."""
    truth, predicted = targets.astype(np.int64).ravel(), answered.predicted
    called = names_of(names, count)
    counts = formulas.class_counts(predicted, truth, count)
    right = int(counts[0].sum())
    usual = most_common(truth if training is None or not len(training) else training)
    baseline = Baseline(
        f"always the most frequent class, {called[usual] if usual < count else usual}", float((truth == usual).mean())
    )
    return ClassScores(
        called, len(truth), right, wilson(right, len(truth)), baseline, counts, formulas.confusion(predicted, truth, count),
        calibration(answered.confidence, predicted == truth),
    )  # fmt: skip


def wilson(right: int, samples: int) -> tuple[float, float]:
    """
    >>> [round(limit, 3) for limit in wilson(98, 100)]
    [0.93, 0.994]
    """
    z = 1.959964
    share = right / samples
    centre = share + z * z / (2 * samples)
    room = z * math.sqrt(share * (1 - share) / samples + (z / (2 * samples)) ** 2)
    scale = 1 + z * z / samples
    return max(0.0, (centre - room) / scale), min(1.0, (centre + room) / scale)


def calibration(confidence: Array, right: Array) -> Calibration:
    place = np.minimum((confidence * _BINS).astype(np.int64), _BINS - 1)
    counts = np.bincount(place, minlength=_BINS)
    filled = np.flatnonzero(counts)
    sure = np.bincount(place, confidence, _BINS)[filled] / counts[filled]
    hit = np.bincount(place, right.astype(np.float64), _BINS)[filled] / counts[filled]
    error = float((np.abs(sure - hit) * counts[filled]).sum() / len(confidence))
    return Calibration(
        tuple(float(i) / _BINS for i in filled), tuple(counts[filled].tolist()), tuple(sure.tolist()),
        tuple(hit.tolist()), error,
    )  # fmt: skip


def labels(
    outputs: Array, targets: Array, names: Sequence[str], training: Array | None, *, probabilities: bool | None = None
) -> LabelScores:
    """Scores (N, labels), above 0 for yes, or probabilities, beside targets that are 0 or 1."""
    count = targets.shape[1]
    scores = outputs.reshape(len(outputs), count)
    ready = bool(scores.min() >= 0 and scores.max() <= 1) if probabilities is None else probabilities
    said, truth = scores > (0.5 if ready else 0.0), targets > 0.5
    usual = most_common_labels(truth if training is None or not len(training) else training.reshape(-1, count))
    return LabelScores(
        names_of(names, count), len(truth), float((said == truth).all(axis=1).mean()),
        Baseline("always the more frequent answer", float((truth == usual).all(axis=1).mean())),
        formulas.label_counts(said, truth),
    )  # fmt: skip


def regressions(outputs: Array, targets: Array, names: Sequence[str], training: Array | None) -> tuple[Regression, ...]:
    """The scores of each number that the network gives for a sample."""
    truth = targets.reshape(len(targets), -1).astype(np.float64)
    predicted = outputs.reshape(len(outputs), -1).astype(np.float64)
    known, words = truth, "always the mean of these targets"
    if training is not None and len(training):
        known, words = training.reshape(len(training), -1).astype(np.float64), "always the mean of the training targets"
    called = names_of(names, truth.shape[1]) if names else tuple(f"output {i}" for i in range(truth.shape[1]))
    scored = []
    for i, name in enumerate(called):
        rmse = math.sqrt(float(np.square(truth[:, i] - known[:, i].mean()).mean()))
        scored.append(Regression(name, truth[:, i], predicted[:, i], Baseline(words, rmse)))
    return tuple(scored)
