"""What a run is measured by: metrics by name, as objects with options, or as functions.

A metric is computed over all samples of an epoch. The F1 score or the area under the curve of an epoch is not the mean of
those of its batches, so every metric collects what it needs batch by batch (:class:`Running`) and gives its value at the end.

=================================  ==========================================================================
``accuracy``                       share of right classes, or of right yes/no decisions
``top1`` ... ``top100``            share of samples whose class is among those k with the highest scores
``precision``, ``recall``, ``f1``  of class 1 if there are two classes, else the mean over the classes
``auc``                            area under the ROC curve; with more than two classes, the mean of each against the rest
``mae``, ``mse``, ``rmse``         mean absolute and mean squared error, and the root of the latter
``r2``                             1 - squared error / variance of the targets, the mean over the outputs
=================================  ==========================================================================

Classes are compared by the scores that the loss takes, and positions with its ``ignore_index`` are left out. Without a class
axis, as with ``BCEWithLogitsLoss``, every output is a decision: yes above ``threshold``, which the loss knows. Weights of samples
and classes do not enter metrics.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from .._spelling import spelled
from ._parts import Key
from ._parts import part as part_of
from ._value import Array
from .choose import nearest, whole_number
from .losses import BCELoss, BCEWithLogitsLoss, HingeLoss, LogLoss, Loss, SigmoidCrossEntropyLoss

Average = Literal["binary", "macro", "micro", "weighted"]

# Losses of decisions, and the output from which on it is a yes: scores around 0, or probabilities.
_DECISIONS: dict[type[Loss], float] = {
    BCEWithLogitsLoss: 0.0, SigmoidCrossEntropyLoss: 0.0, HingeLoss: 0.0, BCELoss: 0.5, LogLoss: 0.5,
}  # fmt: skip


def threshold_of(loss: Loss | None) -> float | None:
    """The output from which on a loss takes it for a yes; None if it knows no yes and no."""
    return next((threshold for kind, threshold in _DECISIONS.items() if isinstance(loss, kind)), None)


class Running(ABC):
    """A metric while an epoch runs. ``arrays`` is all that it has collected, for checkpoints."""

    @abstractmethod
    def add(self, outputs: Any, targets: Any) -> None:
        """Count a batch. The arrays are overwritten afterwards, so what is kept of them is copied."""

    @abstractmethod
    def value(self) -> float: ...

    @abstractmethod
    def arrays(self) -> dict[str, Array]: ...

    @abstractmethod
    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Take over what ``arrays`` gave in another process."""


class Metric(ABC):
    """Base of the metrics. ``metric(outputs, targets)`` is its value for these arrays.

    ``output`` selects one of several outputs of a network, and the target of the same key. ``higher_is_better`` is ``None``
    if the metric does not say so itself.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.metrics.MAE()(np.float32([1, 2]), np.float32([1, 4]))
    1.0
    """

    name = ""
    higher_is_better: bool | None = True
    of_classes = False
    """Whether it is about right and wrong, not about numbers."""
    threshold: float | None = None

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "__init__" in cls.__dict__:
            cls.__init__ = spelled(cls.__init__)  # type: ignore[method-assign]

    def __init__(self, *, output: Key = None) -> None:
        self.output = output

    @abstractmethod
    def start(self, loss: Loss | None = None) -> Running:
        """Begin an epoch; the loss tells which axis lists classes (without one it is axis 1)."""

    def __call__(self, outputs: Any, targets: Any, loss: Loss | None = None) -> float:
        running = self.start(loss)
        running.add(np.asarray(outputs), np.asarray(targets))
        return running.value()

    def __repr__(self) -> str:
        """All options, so that a run that is resumed with others is found out."""
        shown = ", ".join(f"{name}={value!r}" for name, value in vars(self).items() if value is not None)
        return f"{type(self).__name__}({shown})"


# Classes.


class _Classes:
    """Predicted and wanted classes of a batch as flat arrays, by what a loss says about its scores."""

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
        """Predicted and wanted class of everything there is to decide, as numbers."""
        axis = self.axis(outputs)
        if axis is None:
            return (outputs > self.threshold).reshape(-1).astype(np.int64), (targets > 0.5).reshape(-1).astype(np.int64)
        wanted = targets.argmax(axis) if targets.ndim == outputs.ndim else targets
        return self._kept(outputs.argmax(axis).reshape(-1), wanted)

    def _kept(self, found: Array, wanted: Array) -> tuple[Array, Array]:
        wanted = wanted.reshape(-1)
        if self._ignored is None:
            return found, wanted
        kept = wanted != self._ignored
        return (found, wanted) if kept.all() else (found[kept], wanted[kept])

    def count(self, outputs: Array) -> int:
        axis = self.axis(outputs)
        return 2 if axis is None else outputs.shape[axis]


class _Counts(Running):
    """Numbers that are added up, in one array of float64 or int64."""

    def __init__(self, counts: Array) -> None:
        self.counts = counts

    def arrays(self) -> dict[str, Array]:
        return {"counts": self.counts}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        self.counts = np.array(arrays["counts"])


class _Share(_Counts):
    """Right ones among all."""

    def __init__(self, right: Callable[[Array, Array], Array]) -> None:
        super().__init__(np.zeros(2, np.int64))
        self._right = right

    def add(self, outputs: Any, targets: Any) -> None:
        right = self._right(outputs, targets)
        self.counts += (np.count_nonzero(right), right.size)

    def value(self) -> float:
        return float(self.counts[0] / self.counts[1]) if self.counts[1] else float("nan")


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
        classes = _Classes(loss, self.threshold)

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
        classes = _Classes(loss, None)

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


class _Confusion(_Counts):
    """Per class: right ones, predicted ones, true ones."""

    def __init__(self, classes: _Classes, value: Callable[[Array], float]) -> None:
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
        return _Confusion(_Classes(loss, self.threshold), self._over_classes)

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


class _Gathered(Running):
    """Outputs and targets of all samples of the epoch."""

    def __init__(
        self,
        value: Callable[[Array, Array], float],
        prepare: Callable[[Array, Array], tuple[Array, Array]] | None = None,
    ) -> None:
        self._value, self._prepare = value, prepare
        self._outputs: list[Array] = []
        self._targets: list[Array] = []

    def add(self, outputs: Any, targets: Any) -> None:
        if self._prepare is not None:
            outputs, targets = self._prepare(outputs, targets)
        self._outputs.append(np.array(outputs))
        self._targets.append(np.array(targets))

    def value(self) -> float:
        arrays = self.arrays()
        return self._value(arrays["outputs"], arrays["targets"])

    def arrays(self) -> dict[str, Array]:
        self._outputs = [np.concatenate(self._outputs)] if self._outputs else [np.zeros(0, np.float32)]
        self._targets = [np.concatenate(self._targets)] if self._targets else [np.zeros(0, np.float32)]
        return {"outputs": self._outputs[0], "targets": self._targets[0]}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        kept = len(arrays["outputs"]) > 0
        self._outputs = [np.array(arrays["outputs"])] if kept else []
        self._targets = [np.array(arrays["targets"])] if kept else []


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
        classes = _Classes(loss, None)

        def prepare(outputs: Array, targets: Array) -> tuple[Array, Array]:
            if classes.axis(outputs) is None:
                return outputs.reshape(len(outputs), -1), targets.reshape(len(outputs), -1) > 0.5
            scores, wanted = classes.scores(outputs, targets)
            scores = scores.astype(np.float64)
            if scores.shape[1] == 2:
                return scores[:, 1:] - scores[:, :1], (wanted == 1)[:, None]
            powers = np.exp(scores - scores.max(1, keepdims=True))
            return powers / powers.sum(1, keepdims=True), wanted[:, None] == np.arange(scores.shape[1])

        return _Gathered(_mean_area, prepare)


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


# Numbers.


class _Error(_Counts):
    """The mean of some error over all outputs of all samples."""

    def __init__(self, error: Callable[[Array], Array], finish: Callable[[float], float]) -> None:
        super().__init__(np.zeros(2))
        self._error, self._finish = error, finish

    def add(self, outputs: Any, targets: Any) -> None:
        difference = _difference(outputs, targets)
        self.counts += (self._error(difference).sum(), difference.size)

    def value(self) -> float:
        return self._finish(float(self.counts[0] / self.counts[1])) if self.counts[1] else float("nan")


def _difference(outputs: Array, targets: Array) -> Array:
    if outputs.shape != targets.shape:
        raise ValueError(
            f"metrics: outputs have shape {outputs.shape} and targets {targets.shape}, so they cannot be subtracted. Metrics of "
            "errors need both in one shape."
        )
    found: Array = outputs.astype(np.float64) - targets
    return found


class MAE(Metric):
    """mean |y - t|.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.metrics.MAE()(np.float32([[1], [2]]), np.float32([[0], [4]]))
    1.5
    """

    name = "mae"
    higher_is_better = False

    def start(self, loss: Loss | None = None) -> Running:
        return _Error(np.abs, lambda mean: mean)


class MSE(Metric):
    """mean (y - t)².

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.metrics.MSE()(np.float32([[1], [2]]), np.float32([[0], [4]]))
    2.5
    """

    name = "mse"
    higher_is_better = False

    def start(self, loss: Loss | None = None) -> Running:
        return _Error(np.square, lambda mean: mean)


class RMSE(Metric):
    """√ mean (y - t)².

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.metrics.RMSE()(np.float32([[3], [1]]), np.float32([[0], [4]]))
    3.0
    """

    name = "rmse"
    higher_is_better = False

    def start(self, loss: Loss | None = None) -> Running:
        return _Error(np.square, lambda mean: float(np.sqrt(mean)))


class _Variance(_Counts):
    """Per output: samples, mean of the targets, their squared distance from it, squared error. One batch joins after another."""

    def __init__(self) -> None:
        super().__init__(np.zeros((4, 0)))

    def add(self, outputs: Any, targets: Any) -> None:
        difference = _difference(outputs, targets).reshape(len(outputs), -1)
        wanted = targets.reshape(len(targets), -1).astype(np.float64)
        if not self.counts.size:
            self.counts = np.zeros((4, wanted.shape[1]))
        before, mean, spread, error = self.counts
        after = before + len(wanted)
        here = wanted.mean(0)
        shift = here - mean
        spread += np.square(wanted - here).sum(0) + shift**2 * before * len(wanted) / after
        mean += shift * len(wanted) / after
        before += len(wanted)
        error += np.square(difference).sum(0)

    def value(self) -> float:
        _, _, spread, error = self.counts
        if not self.counts.size:
            return float("nan")
        of_constants = np.where(error == 0, 1.0, 0.0)  # nothing to explain
        return float((1 - np.divide(error, spread, out=1 - of_constants, where=spread > 0)).mean())


class R2(Metric):
    """1 - Σ (y - t)² / Σ (t - mean of t)², the mean over the outputs.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.metrics.R2()(np.float32([[1], [2], [4]]), np.float32([[1], [2], [3]]))
    0.5
    """

    name = "r2"

    def start(self, loss: Loss | None = None) -> Running:
        return _Variance()


# Custom ones.


class _Mean(_Counts):
    """The mean of a function over batches, each counted by its samples."""

    def __init__(self, function: Callable[[Any, Any], float]) -> None:
        super().__init__(np.zeros(2))
        self._function = function

    def add(self, outputs: Any, targets: Any) -> None:
        count = len(part_of(outputs, None))
        self.counts += (float(self._function(outputs, targets)) * count, count)

    def value(self) -> float:
        return float(self.counts[0] / self.counts[1]) if self.counts[1] else float("nan")


class Custom(Metric):
    """A function (outputs, targets) -> number.

    It is called for every batch, and its values are averaged; with ``whole_epoch`` it is called once, with the outputs and
    targets of all samples. ``higher_is_better`` is for early stopping.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> worst = nn.metrics.Custom(lambda y, t: abs(y - t).max(), whole_epoch=True, higher_is_better=False)
    >>> worst(np.float32([1, 2]), np.float32([1, 5]))
    3.0
    """

    name = "custom"

    def __init__(
        self,
        function: Callable[[Any, Any], float],
        *,
        whole_epoch: bool = False,
        higher_is_better: bool | None = None,
        output: Key = None,
    ) -> None:
        super().__init__(output=output)
        if not callable(function):
            raise TypeError(f"metrics.Custom: {function!r} is called with (outputs, targets). Pass a function.")
        self.function, self.whole_epoch, self.higher_is_better = function, bool(whole_epoch), higher_is_better

    def start(self, loss: Loss | None = None) -> Running:
        if self.whole_epoch:
            return _Gathered(lambda outputs, targets: float(self.function(outputs, targets)))
        return _Mean(self.function)

    def __repr__(self) -> str:
        name = getattr(self.function, "__qualname__", type(self.function).__name__)
        return f"Custom({name}{', whole_epoch=True' if self.whole_epoch else ''})"


NAMED: dict[str, Callable[[], Metric]] = {
    kind.name: kind for kind in (Accuracy, Precision, Recall, F1, AUC, MAE, MSE, RMSE, R2)
}
_TOP = {f"top{k}": k for k in range(1, 101)}


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
    found: dict[str, Metric] = {}
    for name, entry in pairs:
        if not isinstance(name, str):
            raise TypeError(
                "Trainer: metrics must be names such as ['accuracy', 'f1'], objects of nn.metrics, or a dictionary of functions "
                "(outputs, targets) -> number by name, such as {'worst': lambda outputs, targets: abs(outputs - targets).max()}, "
                f"not {given!r}."
            )
        if name in found:
            raise ValueError(f"Trainer: there are two metrics {name!r}. Pass a dictionary to give each its own name.")
        found[name] = _metric(name, entry)
    return found


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
    "AUC", "F1", "MAE", "MSE", "R2", "RMSE", "Accuracy", "Custom", "Metric", "Precision", "Recall", "Running", "TopK",
]  # fmt: skip
