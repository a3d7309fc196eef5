"""Running statistics of normalizations, which change once per batch, by the mean over its shards.

A forward pass in training makes ``running = keep running + (1 - keep) current``. Begun with zeros, it leaves
``(1 - keep) current``, which is summed over shards like a gradient; ``keep`` times what was there before is then added.
"""

from __future__ import annotations

import numpy as np

from ..graph.graph import Graph
from ..graph.operations import Normalization, NormalizedOperation
from ..graph.tensor import Array


class RunningStatistics:
    """The running statistics of all normalizations of a graph that have any."""

    def __init__(self, graph: Graph) -> None:
        self._arrays: list[Array] = []
        self._keep: list[float] = []  # in one forward pass
        places: dict[int, int] = {}
        for operation in graph.operations:
            found = operation.normalization if isinstance(operation, NormalizedOperation) else operation
            if not isinstance(found, Normalization):
                continue
            for array in (found.type.moving_mean, found.type.moving_variance):
                if array is None:
                    continue
                place = places.setdefault(id(array), len(self._arrays))
                if place == len(self._arrays):
                    self._arrays.append(array)
                    self._keep.append(1.0)
                self._keep[place] *= found.momentum  # once for every call of a module that is called several times
        self.size = sum(array.size for array in self._arrays)
        self._before: list[Array] = []

    def begin(self) -> None:
        """A step begins."""
        self._before = [array.copy() for array in self._arrays]

    def clear(self) -> None:
        """A forward pass begins."""
        for array in self._arrays:
            array.fill(0)

    def write(self, target: Array, share: float, batches_left: int) -> None:
        """Put down what a forward pass has left, which is so large a share of its batch; later batches of the step follow."""
        start = 0
        for array, keep in zip(self._arrays, self._keep, strict=True):
            end = start + array.size
            np.multiply(array.reshape(-1), np.float32(share * keep**batches_left), out=target[start:end])
            start = end

    def finish(self, total: Array, batches: int) -> None:
        """Take over the sum of all shards of a step of so many batches."""
        start = 0
        for array, before, keep in zip(self._arrays, self._before, self._keep, strict=True):
            end = start + array.size
            array[...] = (keep**batches * before.astype(np.float64)).astype(np.float32) + total[start:end].reshape(
                array.shape
            )
            start = end

    def undo(self) -> None:
        """Put back what was there when the step began."""
        for array, before in zip(self._arrays, self._before, strict=True):
            array[...] = before
