"""Random numbers and dropout."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from typing import Any

from ... import ActivationFunction, ActivationLayer, DropoutLayer, RandomGenerator, Shape, compat
from ...layers import skip
from ..calls import Calls, NumpyCall, PlanCall, copying
from ..graph import Graph
from ..operation import Operation
from ..sizes import AnySize
from ..tensor import Array, Tensor
from .base import Sizes


def draw_number(seed: int, step: int, index: int) -> int:
    """The number of the random draw that operation ``index`` of a network makes at a step."""
    return (zlib.crc32(f"{seed} {index}".encode()) << 31) + step


class RandomNumbers(Operation):
    """Numbers that every forward pass draws anew, in training and at inference: normal ones, or uniform on [0, 1)."""

    keeps_inputs = False
    random = True

    def __init__(self, graph: Graph, shape: Sequence[AnySize], *, normal: bool) -> None:
        self.normal = normal
        self._generator = RandomGenerator(seed=int(graph.generator.randint(2**31)))
        super().__init__([], Tensor(graph, shape))

    def reseed(self, seed: int, step: int, index: int) -> None:
        self._generator = RandomGenerator(seed=draw_number(seed, step, index))

    def forward(self, x: list[Array], y: Array, training: bool) -> Calls:
        flat = y.reshape(-1)

        def call() -> None:
            if self.normal:
                self._generator.fill_normal(flat)
            else:
                self._generator.fill_uniform(flat)

        return NumpyCall(call)


class Dropout(Operation):
    """Dropout of elements, or with ``channels`` of whole channels, in training; at inference it is the identity.

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
