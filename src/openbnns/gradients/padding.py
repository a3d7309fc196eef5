"""Padding."""

from __future__ import annotations

from ..layers.base import Layer
from ..layers.padding import PaddingLayer
from ..layers.types import PaddingMode, Shape
from ._random import Random


def random_layer(random: Random) -> Layer:
    m, shape, size = PaddingMode, random.sizes(3, 6), [random.sizes(0, 2), random.sizes(0, 2)]
    padded = [n + before + after for n, (before, after) in zip(shape, size, strict=True)]
    mode = random.one_of(m.constant_scalar(value=0.5), m.reflect(), m.symmetric())
    return PaddingLayer(input=Shape(shape), output=Shape(padded), mode=mode, size=size)
