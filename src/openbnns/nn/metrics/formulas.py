"""The formulas behind every score, written once: metrics, reports, ``openbnns evaluate`` and estimators use these.

They mean what scikit-learn's functions of the same names mean. A ratio with nothing to divide by is 0, which is scikit-learn's
default for ``zero_division``, without its warning.

Counts of classes are an array (3, classes), and those of labels an array (3, labels): how many were predicted rightly, how
many were predicted, and how many there are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from ...graph.tensor import Array

Average = Literal["binary", "macro", "micro", "weighted"]


def confusion(predicted: Array, wanted: Array, classes: int) -> tuple[Array, Array, Array]:
    """The entries of the confusion matrix that are not 0: true classes, predicted classes, and how often they meet.

    >>> [cells.tolist() for cells in confusion(np.array([0, 1, 1]), np.array([0, 1, 2]), 3)]
    [[0, 1, 2], [0, 1, 1], [1, 1, 1]]
    """
    codes, counts = np.unique(wanted.astype(np.int64) * classes + predicted, return_counts=True)
    return codes // classes, codes % classes, counts


def class_counts(predicted: Array, wanted: Array, classes: int) -> Array:
    """Counts of class numbers, (3, classes)."""
    rows = wanted[predicted == wanted], predicted, wanted
    return np.stack([np.bincount(row, minlength=classes) for row in rows])


def label_counts(predicted: Array, wanted: Array) -> Array:
    """Counts of labels from two arrays of booleans (samples, labels), (3, labels)."""
    return np.stack([row.sum(axis=0, dtype=np.int64) for row in (predicted & wanted, predicted, wanted)])


def ratio(part: Array, whole: Array) -> Array:
    """part / whole, and 0 where there is no whole."""
    shares: Array = np.divide(part, whole, out=np.zeros(whole.shape), where=whole > 0)
    return shares


def precision(counts: Array) -> Array:
    """Share of what was predicted as a class that is of it, for every class."""
    return ratio(counts[0], counts[1])


def recall(counts: Array) -> Array:
    """Share of a class that was found, for every class."""
    return ratio(counts[0], counts[2])


def f1(counts: Array) -> Array:
    """Harmonic mean of precision and recall, for every class."""
    return ratio(2 * counts[0], counts[1] + counts[2])


def usual_average(classes: int) -> Average:
    """The default average: "binary" for two classes, of which one is positive, and "macro" for more."""
    return "binary" if classes == 2 else "macro"


def averaged(formula: Callable[[Array], Array], counts: Array, average: Average, *, positive: int = 1) -> float:
    """Precision, recall or F1 of all classes together.

    "binary" is that of the class ``positive``; "macro" the mean over all classes that occur in predictions or targets;
    "weighted" the same by their numbers of samples; "micro" takes all decisions together.
    """
    if average == "micro":
        return float(formula(counts.sum(axis=1, keepdims=True))[0])
    each = formula(counts)
    if average == "binary":
        return float(each[positive])
    if average == "weighted":
        return float(each @ counts[2] / max(counts[2].sum(), 1))
    occurs = counts[1] + counts[2] > 0
    return float(each[occurs].mean()) if occurs.any() else 0.0


def label_average(formula: Callable[[Array], Array], counts: Array, average: Average) -> float:
    """The same of all labels together. Labels that do not occur count as 0 in the mean, because every label was asked for."""
    return float(formula(counts).mean()) if average == "macro" else averaged(formula, counts, average)


def r2(squared_error: Array, spread: Array, samples: int) -> float:
    """Share of the variance that is explained, the mean over the outputs, from sums over the samples for every output.

    Targets that are all the same have no variance: predictions are then worth 1 if they are exact, and 0 otherwise. A
    single sample has no variance: NaN.
    """
    if samples < 2:
        return float("nan")
    exact = np.where(squared_error == 0, 1.0, 0.0)
    return float((1 - np.divide(squared_error, spread, out=1 - exact, where=spread > 0)).mean())


def roc_auc(scores: Array, positive: Array) -> float:
    """Area under the ROC curve of one decision: how often a positive sample has the higher score; half of ties count.

    It is NaN if all samples are positive, or none is.
    """
    count = int(positive.sum())
    others = len(positive) - count
    if not count or not others:
        return float("nan")
    _, inverse, sizes = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = np.cumsum(sizes) - (sizes - 1) / 2  # equal scores share the mean of their ranks
    return float((ranks[inverse.reshape(-1)][positive].sum() - count * (count + 1) / 2) / (count * others))
