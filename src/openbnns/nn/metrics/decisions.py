"""The classes or decisions that outputs and targets stand for, according to the loss."""

from __future__ import annotations

import numpy as np

from ...graph.tensor import Array
from ..losses import BCELoss, BCEWithLogitsLoss, HingeLoss, LogLoss, Loss, SigmoidCrossEntropyLoss

# Losses of decisions, and the output from which on it is a yes: scores around 0, or probabilities.
_DECISIONS: dict[type[Loss], float] = {
    BCEWithLogitsLoss: 0.0, SigmoidCrossEntropyLoss: 0.0, HingeLoss: 0.0, BCELoss: 0.5, LogLoss: 0.5,
}  # fmt: skip


def threshold_of(loss: Loss | None) -> float | None:
    """The output from which on a loss takes it for a yes; None if it knows no yes and no."""
    return next((threshold for kind, threshold in _DECISIONS.items() if isinstance(loss, kind)), None)


class Decisions:
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
        ignored = wanted == self._ignored
        return (found[~ignored], wanted[~ignored]) if np.count_nonzero(ignored) else (found, wanted)

    def labels(self, outputs: Array) -> int:
        """The number of labels, each of which is a decision of its own: the columns of (samples, labels) without classes."""
        return outputs.shape[1] if self.axis(outputs) is None and outputs.ndim == 2 else 1

    def count(self, outputs: Array) -> int:
        """The number of classes; a decision has two, no and yes."""
        axis = self.axis(outputs)
        return 2 if axis is None else outputs.shape[axis]
