"""Metrics of training and evaluation: by name, as objects with options, or as functions.

A metric is computed over all samples of an epoch. The F1 score or the area under the curve of an epoch is not the mean of
those of its batches, so every metric collects what it needs batch by batch (:class:`Running`) and gives its value at the end.

=================================  ==========================================================================
``accuracy``                       share of right classes, or of right yes/no decisions
``top1`` ... ``top100``            share of samples whose class is among those k with the highest scores
``precision``, ``recall``, ``f1``  of class 1 if there are two classes, else the mean over the classes or labels
``auc``                            area under the ROC curve; with more than two classes, the mean of each against the rest
``mae``, ``mse``, ``rmse``         mean absolute and mean squared error, and the root of the latter
``r2``                             1 - squared error / variance of the targets, the mean over the outputs
=================================  ==========================================================================

They mean what they mean in scikit-learn, and the report and ``openbnns evaluate`` use the same formulas (``formulas.py``).

Classes are compared by the scores that the loss takes, and positions with its ``ignore_index`` are left out. Without a class
axis, as with ``BCEWithLogitsLoss``, every output is a decision: yes above ``threshold``, which the loss knows. Weights of samples
and classes do not enter metrics.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from ..._listing import of_module as _of_module
from ..._spelling import nearest
from ._base import Custom, Metric, Running
from .classes import AUC, F1, Accuracy, Precision, Recall, TopK
from .errors import MAE, MSE, R2, RMSE

NAMED: dict[str, Callable[[], Metric]] = {
    kind.name: kind for kind in (Accuracy, Precision, Recall, F1, AUC, MAE, MSE, RMSE, R2)
}
_TOP = {f"top{k}": k for k in range(1, 101)}

MetricName = Literal[
    "accuracy", "precision", "recall", "f1", "auc", "mae", "mse", "rmse", "r2", "top1", "top2", "top3", "top4", "top5",
    "top10", "top20", "top50", "top100",
]  # fmt: skip
"""The names of :data:`NAMED`, and of the ``topK`` those that are used; any other is there as ``TopK(k)``."""


def by_name(given: Any) -> dict[str, Metric]:
    """Metrics by the name that the history has for them, from what ``Trainer(metrics=...)`` takes."""
    if given is None:
        return {}
    if isinstance(given, (str, Metric)):
        given = [given]
    if isinstance(given, Mapping):
        pairs: list[tuple[Any, Any]] = list(given.items())
    elif isinstance(given, Sequence):
        pairs = [(entry if isinstance(entry, str) else getattr(entry, "name", None), entry) for entry in given]
    else:
        pairs = [(None, given)]
    listed: dict[str, Metric] = {}
    for name, entry in pairs:
        if not isinstance(name, str):
            raise TypeError(
                "Trainer: metrics must be names such as ['accuracy', 'f1'], objects of nn.metrics, or a dictionary of functions "
                "(outputs, targets) -> number by name, such as {'worst': lambda outputs, targets: abs(outputs - targets).max()}, "
                f"not {given!r}."
            )
        if name in listed:
            raise ValueError(f"Trainer: there are two metrics {name!r}. Pass a dictionary to give each its own name.")
        listed[name] = _metric(name, entry)
    return listed


def _metric(name: str, entry: Any) -> Metric:
    if isinstance(entry, Metric):
        return entry
    if isinstance(entry, str):
        if entry in _TOP:
            return TopK(_TOP[entry])
        if entry not in NAMED:
            raise ValueError(
                f"Trainer: the metric {entry!r} is not known.{nearest(entry, [*NAMED, *_TOP])} Use one of {', '.join(NAMED)}, "
                "top1 to top100, or a function."
            )
        return NAMED[entry]()
    if isinstance(entry, type) and issubclass(entry, Metric):
        raise TypeError(
            f"Trainer: metrics[{name!r}] is the class {entry.__name__}. Call it: nn.metrics.{entry.__name__}()."
        )
    if not callable(entry):
        raise TypeError(
            f"Trainer: metrics[{name!r}] is {entry!r}, but it is called with (outputs, targets). Pass a function by name."
        )
    return Custom(entry)


__all__ = [
    "AUC", "F1", "MAE", "MSE", "R2", "RMSE", "Accuracy", "Custom", "Metric", "MetricName", "Precision", "Recall", "Running",
    "TopK",
]  # fmt: skip

__dir__ = _of_module(__name__)
