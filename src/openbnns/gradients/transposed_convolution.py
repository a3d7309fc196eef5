"""Transposed convolutions."""

from __future__ import annotations

from ..layers.base import Layer
from ..layers.convolution import ConvolutionLayer
from ..layers.types import ConvolutionType, Shape
from ._random import Random


def random_layer(random: Random) -> Layer:
    channels, outputs = random.sizes(1, 3)
    return ConvolutionLayer(
        type=ConvolutionType.TRANSPOSED,
        input=Shape.image_chw(*random.sizes(3, 6), channels),
        weights=random.numbers(outputs, channels, *random.sizes(2, 4)),
        bias=random.numbers(outputs),
        stride=random.sizes(1, 2),
        activation=random.activation(),
    )
