"""Dropout."""

from __future__ import annotations

from ..layers.base import Layer
from ..layers.dropout import DropoutLayer
from ..layers.types import Shape
from ._random import Random


def random_layer(random: Random) -> Layer:
    return DropoutLayer(input=Shape.vector(random.size(3, 33)), rate=0.4, seed=random.size(1, 1000))
