"""Gram matrices."""

from __future__ import annotations

from ..layers.base import Layer
from ..layers.gram import GramLayer
from ..layers.types import Shape
from ._random import Random


def random_layer(random: Random) -> Layer:
    channels = random.size(1, 5)
    output = Shape.matrix_row_major(channels, channels)
    return GramLayer(input=random.image(channels), output=output, alpha=0.5)
