"""Normalizations."""

from __future__ import annotations

from ..layers.base import Layer
from ..layers.normalization import NormalizationLayer
from ._random import Random


def random_layer(random: Random) -> Layer:
    shape = random.image(4)
    return NormalizationLayer(input=shape, output=shape, **random.normalization(shape))
