"""Resize."""

from __future__ import annotations

from ..layers.base import Layer
from ..layers.resize import ResizeLayer
from ..layers.types import InterpolationMethod, Shape
from ._random import Random


def random_layer(random: Random) -> Layer:
    (width, height), channels = random.sizes(2, 5), random.size(1, 3)
    return ResizeLayer(
        interpolation_method=random.one_of(InterpolationMethod.NEAREST_NEIGHBOR, InterpolationMethod.LINEAR),
        input=Shape.image_chw(width, height, channels), output=Shape.image_chw(2 * width, 2 * height, channels),
        aligns_corners=random.coin(),
    )  # fmt: skip
