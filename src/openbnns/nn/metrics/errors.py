"""Metrics of numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...graph.tensor import Array
from ..losses import Loss
from . import formulas
from ._base import Counts, Metric, Running


class _Error(Counts):
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
    difference: Array = outputs.astype(np.float64) - targets
    return difference


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
    """√ mean (y - t)², the root of the mean over all outputs (scikit-learn averages the roots of several outputs).

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.metrics.RMSE()(np.float32([[3], [1]]), np.float32([[0], [4]]))
    3.0
    """

    name = "rmse"
    higher_is_better = False

    def start(self, loss: Loss | None = None) -> Running:
        return _Error(np.square, lambda mean: float(np.sqrt(mean)))


class _Variance(Counts):
    """Per output: samples, mean of the targets, their squared distance from it, squared error. One batch joins after another."""

    def __init__(self) -> None:
        super().__init__(np.zeros((4, 0)))

    def add(self, outputs: Any, targets: Any) -> None:
        difference = _difference(outputs, targets).reshape(len(outputs), -1)
        wanted = targets.reshape(len(targets), -1).astype(np.float64)
        if not self.counts.size:
            self.counts = np.zeros((4, wanted.shape[1]))
        here = wanted.mean(0)
        self._take(len(wanted), here, np.square(wanted - here).sum(0), np.square(difference).sum(0))

    def _take(self, count: Any, here: Array, spread_here: Array, error_here: Array) -> None:
        """Join so many samples with these means, squared distances from them and squared errors."""
        before, mean, spread, error = self.counts
        after = before + count
        shift = here - mean
        spread += spread_here + shift**2 * before * count / after
        mean += shift * count / after
        before += count
        error += error_here

    def join(self, other: Running) -> None:
        assert isinstance(other, _Variance)
        if not self.counts.size:
            self.counts = np.array(other.counts)
        elif other.counts.size:
            self._take(*other.counts)

    def value(self) -> float:
        samples, _, spread, error = self.counts
        return formulas.r2(error, spread, int(samples[0])) if self.counts.size else float("nan")


class R2(Metric):
    """1 - Σ (y - t)² / Σ (t - mean of t)², the mean over the outputs.

    For targets that are all the same it is 1 if they are predicted exactly, else 0; for a single sample it is NaN.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.metrics.R2()(np.float32([[1], [2], [4]]), np.float32([[1], [2], [3]]))
    0.5
    """

    name = "r2"

    def start(self, loss: Loss | None = None) -> Running:
        return _Variance()
