"""How good predictions are: from outputs and targets to the numbers that the report shows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .._value import Array

_ROWS = 4096  # at a time, so that probabilities of many classes take little memory
_BINS = 10


@dataclass(frozen=True)
class Baseline:
    """What one gets without a network."""

    words: str
    """Such as "always the most frequent class, 3"."""
    value: float


@dataclass(frozen=True)
class Answers:
    """What a classifier says about each sample: the class, how sure it is, and the probability of the true one."""

    predicted: Array
    confidence: Array
    of_truth: Array


@dataclass(frozen=True)
class ClassScores:
    """A classifier on test samples. The confusion is sparse: ``cells`` are true classes, predicted classes, and counts."""

    names: tuple[str, ...]
    samples: int
    right: int
    interval: tuple[float, float]
    """Within which the accuracy on other samples of the kind is, 19 times of 20 (Wilson's interval)."""
    baseline: Baseline
    support: Array
    precision: Array
    """Of each class; NaN if it was never predicted."""
    recall: Array
    """Of each class; NaN if it has no samples."""
    f1: Array
    cells: tuple[Array, Array, Array]
    calibration: Calibration

    @property
    def accuracy(self) -> float:
        return self.right / self.samples

    @property
    def macro_f1(self) -> float:
        """The mean over the classes that have samples."""
        return float(self.f1[self.support > 0].mean())

    def confused(self, most: int) -> list[tuple[int, int, int]]:
        """True class, predicted class and how often, the most frequent errors first."""
        true, predicted, counts = self.cells
        wrong = np.flatnonzero(true != predicted)
        order = wrong[np.lexsort((predicted[wrong], true[wrong], -counts[wrong]))][:most]
        return [(int(true[i]), int(predicted[i]), int(counts[i])) for i in order]


@dataclass(frozen=True)
class Calibration:
    """Whether a network is right as often as it is sure. Bins without samples are left out."""

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
    support: Array
    precision: Array
    recall: Array
    f1: Array

    @property
    def macro_f1(self) -> float:
        return float(np.nan_to_num(self.f1).mean())


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
        """Share of the variance that is explained; NaN if all targets are the same."""
        spread = float(np.square(self.truth - self.truth.mean()).sum())
        return 1 - float(np.square(self.residuals).sum()) / spread if spread else math.nan


def names_of(names: Sequence[str], count: int) -> tuple[str, ...]:
    """One name for each, numbers where there is none."""
    return tuple(str(names[i]) if i < len(names) else str(i) for i in range(count))


def answers(outputs: Array, targets: Array) -> Answers:
    """From scores (N, classes), or (N,) and (N, 1) for yes or no.

    Rows that are probabilities already stay as they are; of others the softmax is taken, or the sigmoid.
    """
    scores = outputs.reshape(len(outputs), -1)
    predicted = np.empty(len(scores), np.int64)
    confidence, of_truth = np.empty(len(scores)), np.empty(len(scores))
    ready = _are_probabilities(scores)
    for start in range(0, len(scores), _ROWS):
        part = slice(start, start + _ROWS)
        p = _probabilities(scores[part].astype(np.float64), ready)
        predicted[part] = p.argmax(axis=1)
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


def classes(found: Answers, targets: Array, names: Sequence[str], count: int, training: Array | None) -> ClassScores:
    """``training`` are the targets of the training samples, of which the baseline is the most frequent."""
    truth, predicted = targets.astype(np.int64).ravel(), found.predicted
    called = names_of(names, count)
    codes, counts = np.unique(truth * count + predicted, return_counts=True)
    cells = codes // count, codes % count, counts
    hits = np.zeros(count, np.int64)
    diagonal = cells[0] == cells[1]
    hits[cells[0][diagonal]] = counts[diagonal]
    support, said = np.bincount(truth, minlength=count), np.bincount(predicted, minlength=count)
    right = int(hits.sum())
    precision, recall, f1 = _rates(hits, said, support)
    known = truth if training is None or not len(training) else training.astype(np.int64).ravel()
    usual = int(np.bincount(known, minlength=count).argmax())
    baseline = Baseline(
        f"always the most frequent class, {called[usual]}", float(support[usual]) / len(truth) if usual < count else 0.0
    )
    return ClassScores(
        called, len(truth), right, wilson(right, len(truth)), baseline, support, precision, recall, f1, cells,
        calibration(found.confidence, predicted == truth),
    )  # fmt: skip


def _rates(hits: Array, said: Array, support: Array) -> tuple[Array, Array, Array]:
    """Precision, recall and F1; the latter is 0 where a class has samples but none was found."""
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = np.where(said > 0, hits / np.maximum(said, 1), math.nan)
        recall = np.where(support > 0, hits / np.maximum(support, 1), math.nan)
        f1 = np.where(said + support > 0, 2 * hits / np.maximum(said + support, 1), math.nan)
    return precision, recall, f1


def wilson(right: int, samples: int) -> tuple[float, float]:
    """
    >>> [round(limit, 3) for limit in wilson(98, 100)]
    [0.93, 0.994]
    """
    z = 1.959964
    share = right / samples
    centre, room = (
        share + z * z / (2 * samples),
        z * math.sqrt(share * (1 - share) / samples + (z / (2 * samples)) ** 2),
    )
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


def labels(outputs: Array, targets: Array, names: Sequence[str], training: Array | None) -> LabelScores:
    """Of scores (N, labels), above 0 for yes, or probabilities, and targets that are 0 or 1."""
    count = targets.shape[1]
    scores = outputs.reshape(len(outputs), count)
    ready = bool(scores.min() >= 0 and scores.max() <= 1)
    said, truth = scores > (0.5 if ready else 0.0), targets > 0.5
    precision, recall, f1 = _rates((said & truth).sum(axis=0), said.sum(axis=0), truth.sum(axis=0))
    known = truth if training is None or not len(training) else training.reshape(len(training), count) > 0.5
    usual = known.mean(axis=0) > 0.5
    return LabelScores(
        names_of(names, count), len(truth), float((said == truth).all(axis=1).mean()),
        Baseline("always the more frequent answer", float((truth == usual).all(axis=1).mean())), truth.sum(axis=0),
        precision, recall, f1,
    )  # fmt: skip


def regressions(outputs: Array, targets: Array, names: Sequence[str], training: Array | None) -> tuple[Regression, ...]:
    """One for each number that the network gives for a sample."""
    truth = targets.reshape(len(targets), -1).astype(np.float64)
    predicted = outputs.reshape(len(outputs), -1).astype(np.float64)
    known = truth if training is None or not len(training) else training.reshape(len(training), -1).astype(np.float64)
    called = names_of(names, truth.shape[1]) if names else tuple(f"output {i}" for i in range(truth.shape[1]))
    found = []
    for i, name in enumerate(called):
        mean = float(known[:, i].mean())
        baseline = Baseline(
            "always the mean of the training targets", math.sqrt(float(np.square(truth[:, i] - mean).mean()))
        )
        found.append(Regression(name, truth[:, i], predicted[:, i], baseline))
    return tuple(found)
