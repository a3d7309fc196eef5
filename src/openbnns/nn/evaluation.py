"""How good predictions are, beside the best that one could do without looking at the samples."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._listing import of_module as _of_module
from ._value import Array
from .predictions import Predictions


def scores(predictions: Predictions, targets: Array, reference: Array | None = None) -> dict[str, float]:
    """Measures of predictions by their task. ``targets`` are class numbers, labels of 0 and 1, or numbers as in the data.

    The baseline always says the most common class, or the mean, of the ``reference`` targets: those that were trained on, if
    they are known.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> from openbnns.nn.evaluation import scores
    >>> found = nn.Predictions.of(np.float32([[2, 0], [0, 3], [1, 0]]), "classification")
    >>> {name: round(value, 2) for name, value in scores(found, np.array([0, 1, 1])).items()}
    {'loss': 0.5, 'accuracy': 0.67, 'f1': 0.67, 'baseline_accuracy': 0.67}
    """
    known = targets if reference is None else reference
    if predictions.task == "classification":
        return _classification(predictions, targets, known)
    if predictions.task == "multilabel":
        return _multilabel(predictions, targets, known)
    return _regression(predictions, targets, known)


def _classification(predictions: Predictions, targets: Array, known: Array) -> dict[str, float]:
    assert predictions.probabilities is not None
    chances = np.asarray(predictions.probabilities, np.float64)
    chosen, classes = chances.argmax(axis=1), chances.shape[1]
    counts = np.zeros((classes, classes))
    np.add.at(counts, (targets, chosen), 1)
    right, there, said = np.diag(counts), counts.sum(axis=1), counts.sum(axis=0)
    f1 = 2 * right / np.maximum(there + said, 1)
    common = np.bincount(known, minlength=classes).argmax()
    return {
        "loss": float(-np.log(np.maximum(chances[np.arange(len(targets)), targets], 1e-12)).mean()),
        "accuracy": float((chosen == targets).mean()),
        "f1": float(f1[there + said > 0].mean()),
        "baseline_accuracy": float((targets == common).mean()),
    }


def _multilabel(predictions: Predictions, targets: Array, known: Array) -> dict[str, float]:
    assert predictions.probabilities is not None and predictions.labels is not None
    chances, wanted = np.clip(predictions.probabilities.astype(np.float64), 1e-12, 1 - 1e-12), targets > 0.5
    right = (predictions.labels & wanted).sum(axis=0)
    f1 = 2 * right / np.maximum(predictions.labels.sum(axis=0) + wanted.sum(axis=0), 1)
    usual = (known > 0.5).mean(axis=0) >= 0.5
    return {
        "loss": float(-np.where(wanted, np.log(chances), np.log(1 - chances)).mean()),
        "accuracy": float((predictions.labels == wanted).mean()),
        "exact": float((predictions.labels == wanted).all(axis=1).mean()),
        "f1": float(f1.mean()),
        "baseline_accuracy": float((wanted == usual).mean()),
    }


def _regression(predictions: Predictions, targets: Array, known: Array) -> dict[str, float]:
    values = np.asarray(predictions.values, np.float64).reshape(len(targets), -1)
    wanted = np.asarray(targets, np.float64).reshape(len(targets), -1)
    mean = np.asarray(known, np.float64).reshape(len(known), -1).mean(axis=0)
    squares, spread = ((values - wanted) ** 2).mean(axis=0), ((wanted - wanted.mean(axis=0)) ** 2).mean(axis=0)
    return {
        "rmse": float(np.sqrt(squares.mean())),
        "mae": float(np.abs(values - wanted).mean()),
        "r2": float(np.mean(1 - squares / np.where(spread > 0, spread, 1.0))),
        "baseline_rmse": float(np.sqrt(((wanted - mean) ** 2).mean())),
    }


def in_words(found: dict[str, float], task: str | None, count: int, *, test: bool = False) -> str:
    """The measures as a line for people; of the ``test`` samples at the end of a training, or of any others."""
    many = f"{count:,} samples" if count != 1 else "1 sample"
    samples = f"{many} that were used for nothing else" if test else many
    if task == "regression":
        return (
            f"{'Test error' if test else 'Error'}: RMSE {found['rmse']:.4g}, MAE {found['mae']:.4g}, R² {found['r2']:.3f} on "
            f"{samples} (always saying the mean: RMSE {found['baseline_rmse']:.4g})."
        )
    usual = "the most common class" if task == "classification" else "the usual for every label"
    return (
        f"{'Test accuracy' if test else 'Accuracy'}: {found['accuracy']:.2%} of {samples} (always saying {usual}: "
        f"{found['baseline_accuracy']:.2%}); F1 {found['f1']:.3f}, loss {found['loss']:.4f}."
    )


def balance(y: Array, names: Any, task: str | None, most: int = 12) -> str:
    """How often each class or label occurs, as a line for people."""
    if task == "classification":
        counts = np.bincount(y, minlength=max(len(names), int(y.max(initial=0)) + 1))
    elif task == "multilabel":
        counts = (y > 0.5).sum(axis=0)
    else:
        return ""
    order = np.argsort(-counts, kind="stable")[:most]
    shown = [f"{names[i] if i < len(names) else i} {counts[i]:,} ({counts[i] / max(1, len(y)):.1%})" for i in order]
    more = f" and {len(counts) - most} more" if len(counts) > most else ""
    return f"{'Classes' if task == 'classification' else 'Labels'}: {', '.join(shown)}{more}."


__all__ = ["balance", "in_words", "scores"]

__dir__ = _of_module(__name__)
