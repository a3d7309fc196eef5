"""Dropout."""

from __future__ import annotations

import zlib
from functools import partial

import numpy as np

from ... import DropoutLayer, Shape
from .._graph import Array, Call, Graph, Operation, Value
from ._base import rows


class Dropout(Operation):
    """Drops elements in training; at inference it is the identity."""

    keeps_inputs = False
    random = True

    def __init__(self, graph: Graph, x: Value, rate: float) -> None:
        self.rate = rate
        self._start = int(graph.generator.randint(2**31))
        super().__init__([x], Value(graph, x.shape))

    def prepare(self) -> None:
        self.layer = DropoutLayer(input=Shape.vector(self.output.count), rate=self.rate, seed=1)
        self.layer.bnns_filter.state[0] = self._start

    def reseed(self, seed: int, step: int, index: int) -> None:
        # The number of the draw is what the mask depends on.
        mixed = zlib.crc32(f"{seed} {index}".encode()) << 31
        self.layer.bnns_filter.state[0] = mixed + step

    def forward(self, x: list[Array], y: Array, training: bool) -> Call:
        if not training:
            return lambda: np.copyto(y, x[0])
        return partial(self.layer.apply, rows(x[0], self.output.count), rows(y, self.output.count))

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Call:
        width = self.output.count
        return partial(self.layer.apply_backward, None, None, rows(dy, width), rows(dx[0], width))
