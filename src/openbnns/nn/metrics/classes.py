"""Metrics of classes, and of decisions between yes and no."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ...graph.checks import whole_number
from ...graph.tensor import Array
from ..losses import BCELoss, BCEWithLogitsLoss, BNNSLoss, Loss, MultiLabelSoftMarginLoss
from ..nested_arrays import Key
from . import formulas
from ._base import Counts, Gathered, Metric, Running, counts_of
from .formulas import Average

# Losses of decisions, and the threshold above which an output means yes: 0 for scores, 0.5 for probabilities.
_DECISIONS: dict[type[Loss], float] = {BCEWithLogitsLoss: 0.0, MultiLabelSoftMarginLoss: 0.0, BCELoss: 0.5}
_DECISIONS_OF_BNNS = {"sigmoid_cross_entropy": 0.0, "hinge": 0.0, "log": 0.5}


def threshold_of(loss: Loss | None) -> float | None:
    """The threshold above which a loss reads an output as yes; None if it does not distinguish yes and no."""
    if isinstance(loss, BNNSLoss):
        return _DECISIONS_OF_BNNS.get(loss.loss_function.case)
    return next((threshold for kind, threshold in _DECISIONS.items() if isinstance(loss, kind)), None)


class Decisions:
    """Predicted and true classes of a batch as flat arrays, read from the scores as the loss reads them."""

    def __init__(self, loss: Loss | None, threshold: float | None) -> None:
        self._loss = loss
        self.threshold = threshold_of(loss) or 0.0 if threshold is None else float(threshold)
        self._ignored = getattr(loss, "ignore_index", None)

    def axis(self, outputs: Array) -> int | None:
        if self._loss is not None:
            return self._loss.class_axis(outputs.ndim)
        return 1 if outputs.ndim > 1 else None

    def scores(self, outputs: Array, targets: Array) -> tuple[Array, Array]:
        """Scores (samples, classes) and class numbers (samples,), without those that the loss ignores."""
        axis = self.axis(outputs)
        assert axis is not None
        scores = np.moveaxis(outputs, axis, -1).reshape(-1, outputs.shape[axis])
        return self._kept(scores, targets.argmax(axis) if targets.ndim == outputs.ndim else targets)

    def decisions(self, outputs: Array, targets: Array) -> tuple[Array, Array]:
        """Predicted and true class of every decision, as numbers."""
        axis = self.axis(outputs)
        if axis is None:
            return (outputs > self.threshold).reshape(-1).astype(np.int64), (targets > 0.5).reshape(-1).astype(np.int64)
        wanted = targets.argmax(axis) if targets.ndim == outputs.ndim else targets
        return self._kept(outputs.argmax(axis).reshape(-1), wanted)

    def _kept(self, predicted: Array, wanted: Array) -> tuple[Array, Array]:
        wanted = wanted.reshape(-1)
        if self._ignored is None:
            return predicted, wanted
        ignored = wanted == self._ignored
        return (predicted[~ignored], wanted[~ignored]) if np.count_nonzero(ignored) else (predicted, wanted)

    def labels(self, outputs: Array) -> int:
        """The number of labels, each of which is a decision of its own: the columns of (samples, labels) without classes."""
        return outputs.shape[1] if self.axis(outputs) is None and outputs.ndim == 2 else 1

    def count(self, outputs: Array) -> int:
        """The number of classes; a decision has two, no and yes."""
        axis = self.axis(outputs)
        return 2 if axis is None else outputs.shape[axis]


class _Share(Running):
    """The counts of right decisions and of all. Plain numbers, because small batches are counted often."""

    def __init__(self, right: Callable[[Array, Array], Array]) -> None:
        self._count, self._total = 0, 0
        self._right = right

    def add(self, outputs: Any, targets: Any) -> None:
        right = self._right(outputs, targets)
        self._count += int(np.count_nonzero(right))
        self._total += right.size

    def value(self) -> float:
        return self._count / self._total if self._total else float("nan")

    def arrays(self) -> dict[str, Array]:
        return {"counts": np.array([self._count, self._total], np.int64)}

    def join(self, other: Running) -> None:
        assert isinstance(other, _Share)
        self._count += other._count
        self._total += other._total

    def restore(self, arrays: Mapping[str, Array]) -> None:
        self._count, self._total = (int(number) for number in counts_of(arrays, (2,)))


class Accuracy(Metric):
    """Share of samples, or positions, whose highest score is that of their class; of decisions that are right.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.metrics.Accuracy()(np.float32([[1, 2], [3, 0], [1, 0], [4, 5]]), np.array([1, 0, 1, 1]))
    0.75
    """

    name = "accuracy"
    of_classes = True

    def __init__(self, *, threshold: float | None = None, output: Key = None) -> None:
        super().__init__(output=output)
        self.threshold = threshold

    def start(self, loss: Loss | None = None) -> Running:
        classes = Decisions(loss, self.threshold)

        def right(outputs: Array, targets: Array) -> Array:
            predicted, wanted = classes.decisions(outputs, targets)
            hits: Array = predicted == wanted
            return hits

        return _Share(right)


class TopK(Metric):
    """Share of samples whose class is among those k with the highest scores; of equal ones the first counts as higher.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.metrics.TopK(2)(np.float32([[3, 2, 1], [3, 2, 1]]), np.array([1, 2]))
    0.5
    """

    of_classes = True

    def __init__(self, k: int = 5, *, output: Key = None) -> None:
        super().__init__(output=output)
        self.k = whole_number(k, "TopK: k", 1)
        self.name = f"top{self.k}"

    def start(self, loss: Loss | None = None) -> Running:
        classes = Decisions(loss, None)

        def right(outputs: Array, targets: Array) -> Array:
            if classes.axis(outputs) is None:
                raise ValueError(
                    f"metrics.TopK: {type(loss).__name__} has no classes to list. Use nn.metrics.Accuracy()."
                )
            scores, wanted = classes.scores(outputs, targets)
            own = scores[np.arange(len(wanted)), wanted][:, None]
            ahead = (scores > own) | ((scores == own) & (np.arange(scores.shape[1]) < wanted[:, None]))
            hits: Array = ahead.sum(1) < self.k
            return hits

        return _Share(right)


class _ClassCounts(Counts):
    """Counts of every class (3, 1, classes), or of no and yes for every label (3, labels, 2): right, predicted and true ones."""

    def __init__(self, classes: Decisions, value: Callable[[Array], float]) -> None:
        super().__init__(np.zeros((3, 0, 0), np.int64))
        self._classes, self._value = classes, value

    def add(self, outputs: Any, targets: Any) -> None:
        predicted, wanted = self._classes.decisions(outputs, targets)
        labels, count = self._classes.labels(outputs), self._classes.count(outputs)
        if labels > 1:  # each has numbers of its own, and stands in its own column
            first = count * (np.arange(len(predicted)) % labels)
            predicted, wanted = predicted + first, wanted + first
        counts = formulas.class_counts(predicted, wanted, labels * count).reshape(3, labels, count)
        self.counts = self.counts + counts if self.counts.size else counts

    def value(self) -> float:
        return self._value(self.counts)


class _ByClass(Metric):
    """Precision, recall and F1, which differ in their formula."""

    of_classes = True
    _formula: staticmethod[[Array], Array]

    def __init__(
        self, *, average: Average | None = None, positive: int = 1, threshold: float | None = None, output: Key = None
    ) -> None:
        super().__init__(output=output)
        if average not in (None, "binary", "macro", "micro", "weighted"):
            raise ValueError(
                f"metrics.{type(self).__name__}: average is {average!r}. Use 'binary', 'macro', 'micro' or 'weighted'; left out, "
                "two classes are binary and more are averaged as 'macro'."
            )
        self.average, self.positive, self.threshold = average, int(positive), threshold

    def start(self, loss: Loss | None = None) -> Running:
        return _ClassCounts(Decisions(loss, self.threshold), self._together)

    def _together(self, counts: Array) -> float:
        _, labels, classes = counts.shape
        if not counts.size:
            return float("nan")
        if not 0 <= self.positive < classes:
            raise ValueError(
                f"metrics.{type(self).__name__}: positive is {self.positive}, but there are classes 0 to {classes - 1}."
            )
        formula = self._formula
        if labels == 1:
            average = self.average or formulas.usual_average(classes)
            return formulas.averaged(formula, counts[:, 0], average, positive=self.positive)
        if self.average == "binary":
            raise ValueError(
                f"metrics.{type(self).__name__}: average is 'binary', but there are {labels} labels. Use 'micro' for all their "
                "decisions together, or 'macro' for the mean over the labels."
            )
        return formulas.label_average(formula, counts[:, :, self.positive], self.average or "macro")


class Precision(_ByClass):
    """Share of the samples predicted as a class that belong to it.

    ``average`` is "binary" (the class ``positive``; usual for two classes), "macro" (the mean over all classes that occur in
    predictions or targets; usual otherwise), "weighted" (the same, by the number of samples), or "micro" (all decisions
    together). A class that is never predicted counts as 0. Several yes/no decisions per sample, (samples, labels), are averaged
    over the labels. All of this is as in scikit-learn.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.metrics.Precision()(np.float32([[0, 1], [0, 1], [1, 0]]), np.array([1, 0, 1]))
    0.5
    """

    name = "precision"
    _formula = staticmethod(formulas.precision)


class Recall(_ByClass):
    """Share of the samples of a class that are found; ``average`` as for :class:`Precision`.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.metrics.Recall()(np.float32([[0, 1], [1, 0], [1, 0]]), np.array([1, 0, 1]))
    0.5
    """

    name = "recall"
    _formula = staticmethod(formulas.recall)


class F1(_ByClass):
    """Harmonic mean of precision and recall; ``average`` as for :class:`Precision`.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.metrics.F1()(np.float32([[0, 1], [0, 1], [1, 0]]), np.array([1, 0, 1]))
    0.5
    """

    name = "f1"
    _formula = staticmethod(formulas.f1)


class AUC(Metric):
    """Area under the ROC curve: how often a sample of the class has a higher score than one that is not; half of ties count.

    With more than two classes it is the mean, over the classes, of each against the rest by its probability (softmax); with
    several labels per sample, (samples, labels), the mean over them. A class or label that all samples have, or none, is left
    out, and if that leaves nothing, it is NaN.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> scores = np.float32([[0, 1], [0, 2], [0, 3], [0, 4]])
    >>> nn.metrics.AUC()(scores, np.array([0, 1, 0, 1]))
    0.75
    """

    name = "auc"

    def start(self, loss: Loss | None = None) -> Running:
        classes = Decisions(loss, None)

        def prepare(outputs: Array, targets: Array) -> tuple[Array, Array]:
            if classes.axis(outputs) is None:
                labels = classes.labels(outputs)
                return outputs.reshape(-1, labels), targets.reshape(-1, labels) > 0.5
            scores, wanted = classes.scores(outputs, targets)
            scores = scores.astype(np.float64)
            if scores.shape[1] == 2:
                return scores[:, 1:] - scores[:, :1], (wanted == 1)[:, None]
            powers = np.exp(scores - scores.max(1, keepdims=True))
            return powers / powers.sum(1, keepdims=True), wanted[:, None] == np.arange(scores.shape[1])

        return Gathered(_mean_area, prepare)


def _mean_area(scores: Array, positive: Array) -> float:
    if scores.ndim < 2:
        return float("nan")
    areas = [formulas.roc_auc(scores[:, i], positive[:, i]) for i in range(scores.shape[1])]
    known = [area for area in areas if not np.isnan(area)]
    return float(np.mean(known)) if known else float("nan")
