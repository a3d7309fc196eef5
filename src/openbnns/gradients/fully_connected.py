"""Fully connected layers."""

from __future__ import annotations

from ..layers.base import Layer
from ..layers.fully_connected import FullyConnectedLayer
from ._random import Random


def random_layer(random: Random) -> Layer:
    inputs, outputs = random.sizes(1, 17)
    bias = random.numbers(outputs) if random.coin() else None
    weights = random.numbers(outputs, inputs)
    return FullyConnectedLayer(weights=weights, bias=bias, activation=random.activation())
