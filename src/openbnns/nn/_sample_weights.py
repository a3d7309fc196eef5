"""Weights of classes, as weights of the samples that belong to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..graph.tensor import Array
from .batches import ArraySource, Batch, Source
from .losses import Loss


class ClassWeights:
    """A weight for every class of the one output that has classes.

    ``given`` is one number per class, a dictionary from class numbers to weights (those left out are 1), or "balanced": every
    class then counts as much as any other, however many samples it has.
    """

    def __init__(self, given: Any, losses: Sequence[Loss], shapes: Sequence[tuple[int, ...]], source: Source) -> None:
        who = "Trainer.fit: class_weights"
        having = [i for i, loss in enumerate(losses) if loss.classes]
        if len(having) != 1:
            why = "no loss of this trainer has classes" if not having else "several outputs have classes"
            raise ValueError(f"{who}: {why}. Leave class_weights out, or use sample_weights.")
        (self.output,) = having
        loss, shape = losses[self.output], shapes[self.output]
        if getattr(loss, "weight", None) is not None:
            raise ValueError(f"{who}: {loss!r} has class weights already. Give them in one place.")
        axis = loss.class_axis(len(shape))
        assert axis is not None
        self._axis, self._rank = axis, len(shape)
        self._ignored = getattr(loss, "ignore_index", None)
        classes = shape[axis]
        self.table = self._table(given, classes, who, source)

    def _table(self, given: Any, classes: int, who: str, source: Source) -> Array:
        if isinstance(given, str):
            if given != "balanced":
                raise ValueError(f"{who} is {given!r}. Use 'balanced', numbers, or a dictionary of them.")
            return self._balanced(classes, who, source)
        if isinstance(given, Mapping):
            table = np.ones(classes, np.float32)
            for number, weight in given.items():
                if isinstance(number, bool) or not hasattr(number, "__index__") or not 0 <= int(number) < classes:
                    raise ValueError(f"{who} has class {number!r}, but the network has classes 0 to {classes - 1}.")
                table[int(number)] = weight
        else:
            table = np.asarray(given)
            if table.dtype.kind not in "fiub" or table.shape != (classes,):
                raise ValueError(
                    f"{who} has shape {table.shape}, but the network has {classes} classes. Pass one number per class, or a "
                    "dictionary from class numbers to weights."
                )
            table = table.astype(np.float32)
        if not np.isfinite(table).all() or table.min() < 0:
            raise ValueError(f"{who} has the weight {table.min():g}. Weights must be finite and at least 0.")
        return table

    def _balanced(self, classes: int, who: str, source: Source) -> Array:
        if not isinstance(source, ArraySource):
            raise ValueError(
                f"{who}='balanced' counts the samples of all classes, which takes arrays. Pass numbers for an iterable of "
                "batches."
            )
        targets = source.y[self.output]
        targets = np.asarray(targets) if source.rows is None else targets[source.rows]
        if targets.ndim == self._rank:
            counts = np.moveaxis(targets, self._axis, -1).reshape(-1, classes).sum(0, dtype=np.float64)
        else:
            numbers = np.asarray(targets).reshape(-1)
            if self._ignored is not None:
                numbers = numbers[numbers != self._ignored]
            counts = np.bincount(numbers, minlength=classes).astype(np.float64)
        present = counts > 0
        table = np.zeros(classes)
        table[present] = counts.sum() / (np.count_nonzero(present) * counts[present])
        return table.astype(np.float32)

    def combined(self, batch: Batch, output: int) -> Array | None:
        """The weights of the samples of a batch, or of their positions, in the loss of an output."""
        if output != self.output:
            return batch.weights
        targets = batch.y[output]
        if targets.ndim == self._rank:  # probabilities of the classes
            weights = np.moveaxis(targets, self._axis, -1).astype(np.float32) @ self.table
        elif self._ignored is None:
            weights = self.table[targets]
        else:
            weights = self.table[np.where(targets == self._ignored, 0, targets)]
        if batch.weights is not None:
            weights = weights * batch.weights.reshape(-1, *[1] * (weights.ndim - 1))
        found: Array = weights
        return found
