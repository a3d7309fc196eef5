"""Custom metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._parts import Key
from .._parts import part as part_of
from ..losses import Loss
from ._base import Counts, Gathered, Metric, Running


class _Mean(Counts):
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
            return Gathered(lambda outputs, targets: float(self.function(outputs, targets)))
        return _Mean(self.function)

    def __repr__(self) -> str:
        name = getattr(self.function, "__qualname__", type(self.function).__name__)
        return f"Custom({name}{', whole_epoch=True' if self.whole_epoch else ''})"
