"""Leaky ReLU with trained slopes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import ActivationFunction, ActivationLayer, Shape
from .._graph import Call, Operation
from .._value import Array, Value
from ..parameter import Parameter
from ._base import wanted


class Prelu(Operation):
    """x where x > 0, slope x elsewhere; one slope, or one for each entry of the first axis of the sample."""

    def __init__(self, x: Value, weight: Parameter) -> None:
        self.weight = weight
        super().__init__([x], x.like(x.sample), [weight])

    layer: Any

    def prepare(self) -> None:
        # Channels and their pixels; if all share one slope, everything is one channel.
        channels = self.weight.size
        self.image = (channels, 1, math.prod(self.output.sample) // channels)
        function = ActivationFunction.prelu_per_channel()
        self.layer = ActivationLayer(function=function, input=Shape.image_chw(*self.image[::-1]))

    def forward(self, x: list[Array], y: Array, training: bool) -> Call:
        layer, slopes = self.layer, self.weight._array
        read, written = x[0].reshape(-1, *self.image), y.reshape(-1, *self.image)

        def call() -> None:
            np.copyto(layer.alpha, slopes)  # the layer has slopes of its own
            layer.apply(read, written)

        return call

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Call:
        layer, slopes = self.layer, self.weight._array
        read, arriving = x[0].reshape(-1, *self.image), dy.reshape(-1, *self.image)
        target = wanted(None if dx[0] is None else dx[0].reshape(-1, *self.image))

        def call() -> None:
            np.copyto(layer.alpha, slopes)
            layer.apply_backward(read, None, arriving, target, wanted(dp[0]))

        return call
