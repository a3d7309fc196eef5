"""Convolutions."""

from __future__ import annotations

from ..layers.base import Layer
from ..layers.convolution import ConvolutionLayer
from ..layers.types import ConvolutionPadding, Shape
from ._random import Random


def random_layer(random: Random) -> Layer:
    groups = random.size(1, 2)
    channels, outputs = (groups * n for n in random.sizes(1, 3))
    return ConvolutionLayer(
        input=Shape.image_chw(*random.sizes(5, 9), channels),
        weights=random.numbers(outputs, channels // groups, *random.sizes(1, 3)),
        bias=random.numbers(outputs) if random.coin() else None,
        padding=ConvolutionPadding.symmetric(*random.sizes(0, 2)),
        stride=random.sizes(1, 2),
        dilation_stride=random.sizes(1, 2),
        group_count=groups,
        activation=random.activation(),
    )
