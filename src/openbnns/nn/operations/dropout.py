"""Dropout."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ... import DropoutLayer, Shape
from .._graph import Call, Graph, Operation
from .._value import Array, Value
from ._base import draw_number, rows


class Dropout(Operation):
    """Drops elements in training; at inference it is the identity."""

    keeps_inputs = False
    random = True

    def __init__(self, graph: Graph, x: Value, rate: float) -> None:
        self.rate = rate
        self._start = int(graph.generator.randint(2**31))
        super().__init__([x], x.like(x.sample))

    layer: Any

    def prepare(self) -> None:
        self.layer = DropoutLayer(input=Shape.vector(self.output.count), rate=self.rate, seed=1)
        self.layer.draws = self._start

    def reseed(self, seed: int, step: int, index: int) -> None:
        self.layer.draws = draw_number(seed, step, index)

    def forward(self, x: list[Array], y: Array, training: bool) -> Call:
        if not training:
            return lambda: np.copyto(y, x[0])
        return partial(self.layer.apply, rows(x[0], self.output.count), rows(y, self.output.count))

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Call:
        width = self.output.count
        return partial(self.layer.apply_backward, None, None, rows(dy, width), rows(dx[0], width))
