"""Permute."""

from __future__ import annotations

from ..layers.base import Layer
from ..layers.permute import PermuteLayer
from ..layers.types import Shape
from ._random import Random


def random_layer(random: Random) -> Layer:
    order, shape = random.permutation(3), [random.size() for _ in range(3)]
    output = Shape([shape[axis] for axis in order])
    return PermuteLayer(input=Shape(shape), output=output, permutation=order)
