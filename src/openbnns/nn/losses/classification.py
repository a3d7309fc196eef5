"""Losses of class scores."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ... import LossFunction, engines
from ...graph.tensor import Array
from ._base import BNNSReduction, BoundLoss, Loss, NativeBound, NativeLoss, Reduction, as_weights, require_finite

_MOST_ROWS = 256


class ClassLoss(Loss):
    """The base of losses of classes: the axis of the classes, class numbers as targets, weights and ignored targets."""

    classes = True
    _takes_probabilities = True

    def __init__(
        self, weight: Any, ignore_index: int, reduction: str, label_smoothing: float, dim: int, **shown: Any
    ) -> None:
        who = type(self).__name__
        if isinstance(label_smoothing, bool) or not 0.0 <= label_smoothing < 1.0:
            raise ValueError(f"{who}: label_smoothing is {label_smoothing}. It must be at least 0 and below 1.")
        if dim not in (1, -1):
            raise ValueError(f"{who}: dim is {dim}. Classes stand on axis 1, or with dim=-1 on the last one.")
        if isinstance(ignore_index, bool) or not hasattr(ignore_index, "__index__"):
            raise TypeError(f"{who}: ignore_index must be a class number, not {ignore_index!r}.")
        self.weight: Array | None = None if weight is None else _class_weights(who, weight)
        self.ignore_index, self.dim = int(ignore_index), int(dim)
        self.label_smoothing = float(label_smoothing)
        if self.weight is not None:
            shown["weight"] = self.weight
        if self.ignore_index != -100:
            shown["ignore_index"] = self.ignore_index
        if self.label_smoothing:
            shown["label_smoothing"] = self.label_smoothing
        if self.dim != 1:
            shown["dim"] = self.dim
        super().__init__(reduction, **shown)

    def class_axis(self, rank: int) -> int:
        if rank < 2:
            raise ValueError(
                f"{type(self).__name__}: scores have one axis, but need a batch axis and classes: (N, classes). Pass "
                "scores[None]."
            )
        return self.dim % rank

    def check(self, output_shape: tuple[int, ...], targets: Array) -> None:
        who, axis = type(self).__name__, self.class_axis(len(output_shape))
        classes, needed = output_shape[axis], (*output_shape[:axis], *output_shape[axis + 1 :])
        if self.weight is not None and len(self.weight) != classes:
            raise ValueError(
                f"{who}: weight has {len(self.weight)} numbers, but the network gives scores of {classes} classes. Pass one "
                "per class."
            )
        if self._takes_probabilities and targets.shape == output_shape and (targets.dtype.kind == "f" or classes > 1):
            require_finite(f"{who}: targets", targets, "Leave such samples out.")
            return
        if targets.shape != needed:
            hint = ""
            if len(output_shape) > 2 and targets.shape in (output_shape[:-1], (output_shape[0], *output_shape[2:])):
                hint = f" If classes stand on {'the last axis' if self.dim == 1 else 'axis 1'}, use dim={-self.dim}."
            probabilities = ", or probabilities in their own shape" if self._takes_probabilities else ""
            raise ValueError(
                f"{who}: targets have shape {targets.shape}, but scores {output_shape} with classes on axis {axis} "
                f"need class numbers of shape {needed}{probabilities}.{hint}"
            )
        if targets.dtype.kind not in "iu":
            raise TypeError(f"{who}: targets are {targets.dtype}. Pass class numbers as integers.")
        if _all_below(classes, targets):
            return
        counted = targets[targets != self.ignore_index]
        if counted.size and not (counted.min() >= 0 and counted.max() < classes):
            worst = counted.min() if counted.min() < 0 else counted.max()
            raise ValueError(
                f"{who}: class number {int(worst)} is out of range, because the network gives scores of classes 0 "
                f"to {classes - 1}. ignore_index, {self.ignore_index}, marks what is left out."
            )


class _Tables(NamedTuple):
    """The labels of every class, the same for all batches; the last entry is for ignored targets."""

    weights: Array
    share: Array  # the label that smoothing gives to every class
    own: Array  # the label of the class itself, that share included
    rows: Array | None  # all labels of each class, unless they are many


def _tables(weight: Array, smoothing: float) -> _Tables:
    width, exact = len(weight), weight.astype(np.float64)
    share = exact * (smoothing / width)
    whole = exact * (1.0 - smoothing)
    rows = None
    if width <= _MOST_ROWS:
        table = np.zeros((width + 1, width))
        table[:-1] = np.diag(whole) + share
        rows = table.astype(np.float32)
    weights, of_every_class, own = (np.append(n, 0.0).astype(np.float32) for n in (exact, share, share + whole))
    return _Tables(weights, of_every_class, own, rows)


class _Labels:
    """Class numbers as rows of labels: smoothed, weighted, and zero where a position is left out."""

    def __init__(self, loss: SoftmaxLoss, rows: int, width: int) -> None:
        self._smoothing, self._ignored, self._width = loss.label_smoothing, loss.ignore_index, width
        self._ignores_no_class = not 0 <= self._ignored < width
        self.weights, self._share, self._own, self._table = loss.tables(width)
        self.clean = False  # whether labels are 0 but for the places that were written last
        self._mask, self._index = np.empty(rows, np.bool_), np.empty(rows, np.intp)
        self._first = np.arange(rows) * width  # of each row
        self._written = np.empty(rows, np.intp)
        self.counted = np.empty(rows, np.float32)
        self._unit = loss.weight is None

    def write(self, labels: Array, targets: Array) -> Array | None:
        """Fill the rows; gives what a mean counts each of them as, or None if all count as 1."""
        index = targets.reshape(-1)
        missing = not (self._ignores_no_class and _all_below(self._width, index)) and self._mark_ignored(index)
        if missing or index.dtype == np.uint64:  # which take() refuses
            np.copyto(self._index, index, casting="unsafe")
            if missing:
                self._index[self._mask] = self._width
            index = self._index
        if self._table is not None:  # one call: between layers, little of NumPy is in the caches
            self._table.take(index, 0, labels, "clip")
        else:
            self._write_places(labels, index)
            if missing and self._smoothing:
                labels[self._mask] = 0.0
        if self._unit and not missing:
            return None
        return self.weights.take(index, 0, self.counted, "clip")

    def _mark_ignored(self, index: Array) -> bool:
        """Mark ignored targets in the mask; True if there are any."""
        return bool(np.count_nonzero(np.equal(index, self._ignored, out=self._mask)) > 0)  # faster than any()

    def _write_places(self, labels: Array, index: Array) -> None:
        """The same for many classes: of a row without smoothing, one place is not 0."""
        flat = labels.reshape(-1)
        if self._smoothing:
            labels[...] = self._share[:-1]
        elif self.clean:
            flat[self._written] = 0.0
        else:
            labels.fill(0.0)
            self.clean = True
        np.minimum(index, self._width - 1, out=self._written)  # what is left out writes a 0
        self._written += self._first
        flat[self._written] = self._own.take(index, 0, self.counted, "clip")


class ClassBound(NativeBound):
    """Rows of scores with class numbers or probabilities."""

    loss: SoftmaxLoss

    def __init__(self, loss: SoftmaxLoss, output: Array, gradient: Array | None) -> None:
        super().__init__(loss, output, gradient)
        self.classes: _Labels | None = None  # made for the first class numbers

    def take_numbers(self, targets: Array) -> None:
        if self.classes is None:
            self.classes = _Labels(self.loss, *self._rows.shape)
        counted = self.classes.write(self.labels, targets)
        self._counted = None if counted is None else counted.reshape(self.shape)


class SoftmaxLoss(ClassLoss, NativeLoss):
    """Losses of BNNS of scores and labels."""

    def bind(self, output: Array, gradient: Array | None) -> BoundLoss:
        return ClassBound(self, output, gradient)

    def tables(self, width: int) -> _Tables:
        """The labels of all classes, made again when their number, the weights or the smoothing have changed."""
        key = (width, None if self.weight is None else self.weight.tobytes(), self.label_smoothing)
        made: tuple[Any, _Tables] | None = self._layers.get(_Tables)
        if made is None or made[0] != key:
            weight = np.ones(width, np.float32) if self.weight is None else self.weight
            made = self._layers[_Tables] = key, _tables(weight, self.label_smoothing)
        return made[1]

    def fill(self, bound: NativeBound, targets: Array) -> None:
        assert isinstance(bound, ClassBound)
        labels = bound.labels
        if targets.dtype.kind in "iub" and targets.size == len(labels):
            bound.take_numbers(targets)
            return
        bound._counted = None
        if bound.classes is not None:
            bound.classes.clean = False
        super().fill(bound, targets)
        if self.label_smoothing:
            labels *= 1.0 - self.label_smoothing
            labels += self.label_smoothing / labels.shape[1]
        if self.weight is not None:
            labels *= self.weight


class CrossEntropyLoss(SoftmaxLoss):
    """Softmax cross entropy of scores (N, classes) or (N, classes, ...) against class numbers (N,) or (N, ...).

    l = -w_t log softmax(y)_t for class number t. ``weight`` holds a w for every class, 1 if left out; the mean is
    Σ l / Σ w_t. Positions whose class number is ``ignore_index`` count nowhere; where all are left out the loss is 0.
    ``label_smoothing`` moves that share of every target to all classes alike.

    Classes stand on axis 1, as in PyTorch: scores of images are (N, classes, height, width). ``dim=-1`` takes them from the
    last axis instead: sequences that end in ``nn.Linear`` give (N, length, classes). Targets in the shape of the scores are
    probabilities t of the classes, one-hot for instance: l = -Σ w_c t_c log softmax(y)_c, and the mean divides by their
    number.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> value, gradient = nn.CrossEntropyLoss()(np.zeros((1, 4), np.float32), np.array([2]))
    >>> round(value, 4), gradient.tolist()
    (1.3863, [[0.25, 0.25, -0.75, 0.25]])
    >>> nn.CrossEntropyLoss()(np.zeros((1, 4), np.float32), np.float32([[0, 0.5, 0.5, 0]]))[1].tolist()
    [[0.25, -0.25, -0.25, 0.25]]
    >>> scores, classes = np.zeros((3, 2), np.float32), np.array([0, 1, -100])
    >>> nn.CrossEntropyLoss(weight=[1, 3])(scores, classes)[1].tolist()
    [[-0.125, 0.125], [0.375, -0.375], [0.0, 0.0]]
    """

    def __init__(
        self,
        weight: Any = None,
        *,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
        label_smoothing: float = 0.0,
        dim: int = 1,
    ) -> None:
        super().__init__(weight, ignore_index, reduction, label_smoothing, dim)

    def function(self) -> LossFunction:
        return LossFunction.softmax_cross_entropy()


class SoftmaxCrossEntropyLoss(SoftmaxLoss):
    """BNNS's softmax cross entropy: l = -Σ t_c log softmax(y)_c for labels t of all classes, or class numbers.

    ``reduction`` is one of BNNS's: "mean" divides by the number of losses, "weighted_mean" by the sum of the sample weights,
    "non_zero_weight_mean" by the number of those that are not 0.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> loss = nn.SoftmaxCrossEntropyLoss(reduction="sum")
    >>> value, gradient = loss(np.zeros((1, 4), np.float32), np.float32([[0, 0, 1, 1]]))
    >>> round(value, 4), gradient.tolist()
    (2.7726, [[0.5, 0.5, -0.5, -0.5]])
    """

    _reductions = ("none", "sum", "mean", "weighted_mean", "non_zero_weight_mean")
    _mean_counts_all = True

    def __init__(self, *, label_smoothing: float = 0.0, reduction: BNNSReduction = "mean", dim: int = 1) -> None:
        super().__init__(None, -100, reduction, label_smoothing, dim)

    def function(self) -> LossFunction:
        return LossFunction.softmax_cross_entropy()


class CategoricalCrossEntropyLoss(SoftmaxLoss):
    """BNNS's categorical cross entropy: the mean of -t_c log softmax(y)_c over the classes whose label t_c is not 0.

    Labels are 0 and 1 for each class, any number of them 1; or class numbers. A position without labels has loss 0.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> loss = nn.CategoricalCrossEntropyLoss()
    >>> value, gradient = loss(np.zeros((1, 4), np.float32), np.float32([[0, 0, 1, 1]]))
    >>> round(value, 4), gradient.tolist()
    (1.3863, [[0.25, 0.25, -0.25, -0.25]])
    """

    _reductions = ("none", "sum", "mean", "weighted_mean", "non_zero_weight_mean")
    _mean_counts_all = True

    def __init__(self, *, reduction: BNNSReduction = "mean", dim: int = 1) -> None:
        super().__init__(None, -100, reduction, 0.0, dim)

    def function(self) -> LossFunction:
        return LossFunction.categorical_cross_entropy()


class NLLLoss(ClassLoss):
    """-w_t y_t of log-probabilities y, such as ``nn.LogSoftmax`` gives, against class numbers t.

    ``weight``, ``ignore_index`` and ``dim`` are as for :class:`CrossEntropyLoss`, and so is the mean, Σ l / Σ w_t.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> value, gradient = nn.NLLLoss()(np.log(np.float32([[0.5, 0.5], [0.25, 0.75]])), np.array([0, 0]))
    >>> round(value, 4), gradient.tolist()
    (1.0397, [[-0.5, 0.0], [-0.5, 0.0]])
    """

    _takes_probabilities = False

    def __init__(
        self, weight: Any = None, *, ignore_index: int = -100, reduction: Reduction = "mean", dim: int = 1
    ) -> None:
        super().__init__(weight, ignore_index, reduction, 0.0, dim)

    def bind(self, output: Array, gradient: Array | None) -> BoundLoss:
        return _BoundNLL(self, output, gradient)


class _BoundNLL(BoundLoss):
    """A loss that reads one element of each position, and writes its gradient; those of the others stay 0."""

    loss: NLLLoss

    def __init__(self, loss: NLLLoss, output: Array, gradient: Array | None) -> None:
        axis = loss.class_axis(output.ndim)
        shape = (*output.shape[:axis], *output.shape[axis + 1 :])
        super().__init__(loss, gradient, shape)
        self._scores = output.reshape(-1)
        self._gradient = None if gradient is None else gradient.reshape(-1)
        width = output.shape[axis]
        first = np.arange(output.size).reshape(output.shape)
        self._first = first.take(0, axis) if output.size else np.zeros(shape, np.intp)  # places of class 0
        self._apart = int(np.prod(output.shape[axis + 1 :], dtype=np.int64))  # from one class to the next
        self._place, self._numbers = np.empty(shape, np.intp), np.empty(shape, np.intp)
        self._mask = np.empty(shape, np.bool_)
        self._factors = np.empty(shape, np.float32)
        self._table = np.append(np.ones(width) if loss.weight is None else loss.weight, 0.0).astype(np.float32)
        self._width = width

    def take(self, targets: Array) -> None:
        numbers = self._numbers
        np.copyto(numbers, targets, casting="unsafe")
        missing = np.count_nonzero(np.equal(targets, self.loss.ignore_index, out=self._mask)) > 0
        if missing:
            numbers[self._mask] = self._width
        self._table.take(numbers, 0, self._factors, "clip")
        if missing:
            numbers[self._mask] = 0
        np.multiply(numbers, self._apart, out=self._place)
        self._place += self._first
        self._counted = None if self.loss.weight is None and not missing else self._factors

    def _compute(self, losses: Array) -> None:
        self._scores.take(self._place, 0, losses, "clip")
        if self._counted is not None:
            losses[self._factors == 0.0] = 0.0  # also where the score is infinite
        losses *= self._factors
        np.negative(losses, out=losses)

    def _scale_gradient(self, factor: Any) -> None:
        assert self._gradient is not None
        self._gradient.fill(0.0)
        self._gradient[self._place] = self._factors * np.float32(-1.0) * np.asarray(factor, np.float32)


def _all_below(count: int, numbers: Array) -> bool:
    """True if all numbers are from 0 to count - 1."""
    core = engines._core
    known = None if core is None else core.all_below(count, numbers)
    return not numbers.size or bool(numbers.min() >= 0 and numbers.max() < count) if known is None else known


def _class_weights(who: str, weight: Any) -> Array:
    if isinstance(weight, (int, float, np.number)):
        hint = f" For smoothing write label_smoothing={weight}." if 0 <= weight < 1 else ""
        raise TypeError(f"{who}: weight is {weight}, but it holds one number per class. Pass a list of them.{hint}")
    array = as_weights(f"{who}: weight", weight)
    if array.ndim != 1 or not array.size:
        raise ValueError(f"{who}: weight has shape {array.shape}. Pass one number per class: (classes,).")
    return array
