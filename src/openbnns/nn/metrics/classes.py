"""Metrics of classes, and of decisions between yes and no."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np

from .._parts import Key
from .._value import Array
from ..choose import whole_number
from ..losses import Loss
from ._base import Counts, Gathered, Metric, Running, counts_of
from .decisions import Decisions

Average = Literal["binary", "macro", "micro", "weighted"]


class _Share(Running):
    """Right ones among all. Plain numbers, because small batches are counted often."""

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
            found: Array = predicted == wanted
            return found

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
            found: Array = ahead.sum(1) < self.k
            return found

        return _Share(right)


class _Confusion(Counts):
    """Per class: right ones, predicted ones, true ones."""

    def __init__(self, classes: Decisions, value: Callable[[Array], float]) -> None:
        super().__init__(np.zeros((3, 0), np.int64))
        self._classes, self._value = classes, value

    def add(self, outputs: Any, targets: Any) -> None:
        predicted, wanted = self._classes.decisions(outputs, targets)
        count = self._classes.count(outputs)
        if not self.counts.size:
            self.counts = np.zeros((3, count), np.int64)
        for row, chosen in enumerate((wanted[predicted == wanted], predicted, wanted)):
            self.counts[row] += np.bincount(chosen, minlength=count)

    def value(self) -> float:
        return self._value(self.counts)


class _ByClass(Metric):
    """Precision, recall and F1, which differ in what they divide."""

    of_classes = True

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
        return _Confusion(Decisions(loss, self.threshold), self._over_classes)

    def _over_classes(self, counts: Array) -> float:
        average = self.average or ("binary" if counts.shape[1] == 2 else "macro")
        if average == "micro":
            return float(self._shares(counts.sum(1, keepdims=True))[0])
        shares = self._shares(counts)
        if average == "binary":
            if not 0 <= self.positive < counts.shape[1]:
                raise ValueError(
                    f"metrics.{type(self).__name__}: positive is {self.positive}, but there are classes 0 to "
                    f"{counts.shape[1] - 1}."
                )
            return float(shares[self.positive])
        if average == "weighted":
            return float(shares @ counts[2] / max(counts[2].sum(), 1))
        present = counts[1] + counts[2] > 0
        return float(shares[present].mean()) if present.any() else 0.0

    @abstractmethod
    def _shares(self, counts: Array) -> Array:
        """Of every class; 0 where there is nothing to divide by."""


def _ratio(part: Array, whole: Array) -> Array:
    """part / whole, and 0 where there is no whole."""
    found: Array = np.divide(part, whole, out=np.zeros(whole.shape), where=whole > 0)
    return found


class Precision(_ByClass):
    """Share of the samples said to be of a class that are.

    ``average`` is "binary" (the class ``positive``; usual for two classes), "macro" (the mean over all classes that occur;
    usual otherwise), "weighted" (the same, by the number of samples), or "micro" (all decisions together). A class that is
    never predicted counts as 0.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.metrics.Precision()(np.float32([[0, 1], [0, 1], [1, 0]]), np.array([1, 0, 1]))
    0.5
    """

    name = "precision"

    def _shares(self, counts: Array) -> Array:
        return _ratio(counts[0], counts[1])


class Recall(_ByClass):
    """Share of the samples of a class that are found; ``average`` as for :class:`Precision`.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.metrics.Recall()(np.float32([[0, 1], [1, 0], [1, 0]]), np.array([1, 0, 1]))
    0.5
    """

    name = "recall"

    def _shares(self, counts: Array) -> Array:
        return _ratio(counts[0], counts[2])


class F1(_ByClass):
    """Harmonic mean of precision and recall; ``average`` as for :class:`Precision`.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.metrics.F1()(np.float32([[0, 1], [0, 1], [1, 0]]), np.array([1, 0, 1]))
    0.5
    """

    name = "f1"

    def _shares(self, counts: Array) -> Array:
        return _ratio(2 * counts[0], counts[1] + counts[2])


class AUC(Metric):
    """Area under the ROC curve: how often a sample of the class has a higher score than one that is not; half of ties count.

    With more than two classes it is the mean, over the classes, of each against the rest by its probability (softmax); with
    several decisions per sample, the mean over them. NaN if a class and its opposite do not both occur.

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
                return outputs.reshape(len(outputs), -1), targets.reshape(len(outputs), -1) > 0.5
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
    areas = [_area(scores[:, i], positive[:, i]) for i in range(scores.shape[1])]
    known = [area for area in areas if area is not None]
    return float(np.mean(known)) if known else float("nan")


def _area(scores: Array, positive: Array) -> float | None:
    """From the sum of the ranks of the positive ones; equal scores share the mean of their ranks."""
    count = int(positive.sum())
    others = len(positive) - count
    if not count or not others:
        return None
    _, inverse, sizes = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = np.cumsum(sizes) - (sizes - 1) / 2
    return float((ranks[inverse.reshape(-1)][positive].sum() - count * (count + 1) / 2) / (count * others))
