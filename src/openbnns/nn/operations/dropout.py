"""Dropout."""

from __future__ import annotations

from functools import partial
from typing import Any

from ... import ActivationFunction, ActivationLayer, DropoutLayer, Shape, compat
from ...layers import skip
from .._graph import Call, Graph, Operation
from .._value import Array, Value
from ._base import copying, draw_number


class Dropout(Operation):
    """Drops elements, or with ``channels`` whole channels, in training; at inference it is the identity.

    A rate of 1 leaves nothing to be drawn: y = 0 x, as in PyTorch.
    """

    keeps_inputs = False
    only_trains = True

    def __init__(self, graph: Graph, x: Value, rate: float, channels: bool = False) -> None:
        self.rate, self.random = rate, rate != 1
        self.channels = x.sample[0] if channels else x.count  # each is kept or dropped as one
        self._start = int(graph.generator.randint(2**31))
        super().__init__([x], x.like(x.sample))

    layer: Any

    def prepare(self) -> None:
        count = self.output.count
        if not self.random:
            self.sample: tuple[int, ...] = (count,)
            self.layer = ActivationLayer(function=ActivationFunction.linear(alpha=0.0), input=Shape.vector(count))
            return
        if self.channels == count:
            self.sample = (count,)
            self.layer = DropoutLayer(input=Shape.vector(count), rate=self.rate, seed=1)
        else:
            self.sample = (self.channels, 1, count // self.channels)
            shared = 0b1100 if compat.switches.dropout_control_reversed else 0b011  # width and height
            shape = Shape.image_chw(*self.sample[::-1])
            self.layer = DropoutLayer(input=shape, rate=self.rate, seed=1, control=shared)
        self.layer.draws = self._start

    def reseed(self, seed: int, step: int, index: int) -> None:
        self.layer.draws = draw_number(seed, step, index)

    def _samples(self, array: Array | None) -> Any:
        return skip if array is None else array.reshape(-1, *self.sample)

    def forward(self, x: list[Array], y: Array, training: bool) -> Call:
        if not training:
            return copying(y, x[0])
        return partial(self.layer.apply, self._samples(x[0]), self._samples(y))

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Call:
        return partial(self.layer.apply_backward, None, None, self._samples(dy), self._samples(dx[0]))
