"""The quality of predictions, beside the best baseline that ignores the samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._listing import of_module as _of_module
from .._plural import plural
from ..graph.tensor import Array
from .losses import BCEWithLogitsLoss, CrossEntropyLoss, MSELoss
from .metrics import F1, MAE, R2, RMSE, Accuracy, formulas
from .predictions import Predictions

LOSSES = {"classification": CrossEntropyLoss, "multilabel": BCEWithLogitsLoss, "regression": MSELoss}
"""The loss of each task: ``openbnns train`` trains by it, and it is the ``loss`` among the scores."""


def scores(
    predictions: Predictions,
    targets: Array,
    reference: Array | None = None,
    *,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
) -> dict[str, float]:
    """Measures of predictions by their task. ``targets`` are class numbers, labels of 0 and 1, or numbers as in the data.

    They are those of ``nn.metrics`` and, as ``loss``, that of the task (:data:`LOSSES`): what a trainer gives for the same
    samples. The loss of a regression is that of standardized numbers, by the ``mean`` and ``std`` of the training targets.

    The baseline always predicts the most common class, or the mean, of the ``reference`` targets: the training targets, if
    they are known.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> from openbnns.nn.evaluation import scores
    >>> found = nn.Predictions.of(np.float32([[2, 0], [0, 3], [1, 0]]), "classification")
    >>> {name: round(value, 2) for name, value in scores(found, np.array([0, 1, 1])).items()}
    {'loss': 0.5, 'accuracy': 0.67, 'f1': 0.67, 'baseline_accuracy': 0.67}
    """
    known = targets if reference is None else reference
    outputs = np.asarray(predictions.outputs)
    if predictions.task == "classification":
        loss = CrossEntropyLoss()
        return {
            "loss": float(loss(outputs, targets)[0]),
            "accuracy": Accuracy()(outputs, targets, loss),
            "f1": F1()(outputs, targets, loss),
            "baseline_accuracy": float((targets == most_common(known)).mean()),
        }
    if predictions.task == "multilabel":
        decisions, wanted = BCEWithLogitsLoss(), np.asarray(targets > 0.5)
        return {
            "loss": float(decisions(outputs, wanted.astype(np.float32))[0]),
            "accuracy": Accuracy()(outputs, wanted, decisions),
            "exact": float(((outputs > 0) == wanted).all(axis=1).mean()),
            "f1": F1()(outputs, wanted, decisions),
            "baseline_accuracy": float((wanted == most_common_labels(known)).mean()),
        }
    values = np.asarray(predictions.values, np.float64).reshape(len(targets), -1)
    truth = np.asarray(targets, np.float64).reshape(len(targets), -1)
    usual = np.asarray(known, np.float64).reshape(len(known), -1).mean(axis=0)
    standardized = (truth - (0.0 if mean is None else np.asarray(mean))) / (1.0 if std is None else np.asarray(std))
    return {
        "loss": float(MSELoss()(outputs.reshape(truth.shape), standardized.astype(np.float32))[0]),
        "rmse": RMSE()(values, truth),
        "mae": MAE()(values, truth),
        "r2": R2()(values, truth),
        "baseline_rmse": RMSE()(np.broadcast_to(usual, truth.shape), truth),
    }


def usual_answer(task: str | None, targets: Array) -> int | list[bool] | list[float]:
    """The constant answer of the baseline of these targets, as plain JSON; as an array, a ``reference`` that gives the same."""
    if task == "classification":
        return most_common(targets)
    if task == "multilabel":
        return [bool(yes) for yes in most_common_labels(targets)]
    return [float(mean) for mean in np.asarray(targets, np.float64).reshape(len(targets), -1).mean(axis=0)]


def reference_of(task: str | None, answer: Any, outputs: int) -> Array | None:
    """Reference targets from what :func:`usual_answer` gave for so many outputs; None for anything else."""
    if task == "classification":
        return np.array([answer]) if type(answer) is int and 0 <= answer < outputs else None
    if not isinstance(answer, list) or len(answer) != outputs:
        return None
    kinds = (bool,) if task == "multilabel" else (int, float)
    return np.array([answer], np.float64) if all(type(one) in kinds for one in answer) else None


def most_common(classes: Array) -> int:
    """The class that a baseline always says: the most frequent one, the first of several."""
    return int(np.bincount(classes.astype(np.int64).ravel()).argmax())


def most_common_labels(labels: Array) -> Array:
    """The constant answer of a baseline: yes or no for every label, whichever is more frequent."""
    common: Array = (labels > 0.5).mean(axis=0) > 0.5
    return common


def f1_name(task: str | None, names: Sequence[str], count: int) -> str:
    """The name of the F1 score of so many classes or labels, so that it is not mistaken for another one.

    >>> f1_name("classification", ("no", "yes"), 2), f1_name("classification", (), 3)
    ('F1 of class yes', 'macro F1')
    """
    if task == "classification" and formulas.usual_average(count) == "binary":
        return f"F1 of class {names[1] if len(names) > 1 else 1}"
    return "macro F1"


def in_words(scored: dict[str, float], predictions: Predictions, *, test: bool = False) -> str:
    """The measures as a line of text; of the ``test`` samples at the end of a training, or of any others."""
    count = len(predictions)
    many = plural(count, "sample")
    samples = f"{many} that were used for nothing else" if test else many
    if predictions.task == "regression":
        return (
            f"{'Test error' if test else 'Error'}: RMSE {scored['rmse']:.4g}, MAE {scored['mae']:.4g}, R² {scored['r2']:.3f} on "
            f"{samples} (always saying the mean: RMSE {scored['baseline_rmse']:.4g})."
        )
    outputs = np.shape(predictions.outputs)[1]
    rest = f"{f1_name(predictions.task, predictions.classes, outputs)} {scored['f1']:.3f}, loss {scored['loss']:.4f}."
    if predictions.task == "multilabel":
        return (
            f"{'Test accuracy' if test else 'Accuracy'}: {scored['accuracy']:.2%} of the yes/no decisions about {samples} "
            f"(always saying the usual for every label: {scored['baseline_accuracy']:.2%}); all labels right for "
            f"{scored['exact']:.2%} of the samples; {rest}"
        )
    return (
        f"{'Test accuracy' if test else 'Accuracy'}: {scored['accuracy']:.2%} of {samples} (always saying the most common class: "
        f"{scored['baseline_accuracy']:.2%}); {rest}"
    )


def balance(y: Array, names: Any, task: str | None, most: int = 12) -> str:
    """The counts of each class or label, as a line of text."""
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


__all__ = [
    "balance",
    "f1_name",
    "in_words",
    "most_common",
    "most_common_labels",
    "reference_of",
    "scores",
    "usual_answer",
]

__dir__ = _of_module(__name__)
