"""Leaky ReLU with trained slopes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import ActivationFunction, ActivationLayer, Shape
from ..calls import Calls, NumpyCall, PlanCall
from ..operation import Operation
from ..parameter import Parameter
from ..tensor import Array, Tensor
from ._base import wanted
from ._shaped import Sizes


class Prelu(Operation):
    """x where x > 0, slope x elsewhere; one slope, or one for each entry of axis 1."""

    def __init__(self, x: Tensor, weight: Parameter) -> None:
        self.weight = weight
        super().__init__([x], Tensor(x.graph, x.shape), [weight])

    def _layer(self, shape: Sizes) -> tuple[Any, Sizes]:
        """The layer, and the channels and pixels that it sees; if all share one slope, everything is one channel."""
        channels = self.weight.size
        image = (channels, 1, math.prod(shape[1:]) // channels)
        function, form = ActivationFunction.prelu_per_channel(), Shape.image_chw(*image[::-1])
        return self.made(image, lambda: ActivationLayer(function=function, input=form)), image

    def forward(self, x: list[Array], y: Array, training: bool) -> Calls:
        (layer, image), slopes = self._layer(y.shape), self.weight.array
        read, written = x[0].reshape(-1, *image), y.reshape(-1, *image)
        # The layer has slopes of its own.
        return [NumpyCall(np.copyto, layer.alpha, slopes), PlanCall(layer.apply, read, written)]

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Calls:
        (layer, image), slopes = self._layer(dy.shape), self.weight.array
        read, arriving = x[0].reshape(-1, *image), dy.reshape(-1, *image)
        target = wanted(None if dx[0] is None else dx[0].reshape(-1, *image))
        backward = PlanCall(layer.apply_backward, read, None, arriving, target, wanted(dp[0]))
        return [NumpyCall(np.copyto, layer.alpha, slopes), backward]
