"""Dropout."""

from __future__ import annotations

import math
from typing import Any

from ... import ActivationFunction, ActivationLayer, DropoutLayer, Shape, compat
from ...layers import skip
from ..calls import Calls, PlanCall
from ..graph import Graph
from ..operation import Operation
from ..tensor import Array, Tensor
from ._base import copying, draw_number
from ._shaped import Sizes


class Dropout(Operation):
    """Drops elements, or with ``channels`` whole channels, in training; at inference it is the identity.

    A rate of 1 leaves nothing to be drawn: y = 0 x, as in PyTorch.
    """

    keeps_inputs = False
    only_trains = True

    def __init__(self, graph: Graph, x: Tensor, rate: float, channels: bool = False) -> None:
        self.rate, self.random, self.channels = rate, rate != 1, channels
        self._draws = int(graph.generator.randint(2**31))  # the number of the first draw
        super().__init__([x], Tensor(graph, x.shape))

    def _layer(self, shape: Sizes) -> tuple[Any, Sizes]:
        """The layer for a sample of a value of this shape, and the shape that it sees: of channels, each dropped as one."""
        count = math.prod(shape[1:] if len(shape) > 1 else shape)
        sample = (shape[1], 1, count // shape[1]) if self.channels and count != shape[1] else (count,)
        return self.made(sample, lambda: self._make(sample)), sample

    def _make(self, sample: Sizes) -> Any:
        if not self.random:
            return ActivationLayer(function=ActivationFunction.linear(alpha=0.0), input=Shape(sample))
        if len(sample) == 1:
            layer = DropoutLayer(input=Shape(sample), rate=self.rate, seed=1)
        else:
            shared = 0b1100 if compat.switches.dropout_control_reversed else 0b011  # width and height
            layer = DropoutLayer(input=Shape.image_chw(*sample[::-1]), rate=self.rate, seed=1, control=shared)
        layer.draws = self._draws
        return layer

    def reseed(self, seed: int, step: int, index: int) -> None:
        self._draws = draw_number(seed, step, index)
        for layer in self.all_made():
            layer.draws = self._draws

    def forward(self, x: list[Array], y: Array, training: bool) -> Calls:
        if not training:
            return copying(y, x[0])
        layer, sample = self._layer(y.shape)
        return PlanCall(layer.apply, x[0].reshape(-1, *sample), y.reshape(-1, *sample))

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Calls:
        layer, sample = self._layer(dy.shape)
        target = skip if dx[0] is None else dx[0].reshape(-1, *sample)
        return PlanCall(layer.apply_backward, None, None, dy.reshape(-1, *sample), target)
