"""Reductions."""

from __future__ import annotations

from ..layers.base import Layer
from ..layers.reduction import ReductionLayer
from ..layers.types import ReductionFunction, Shape
from ._random import Random


def random_layer(random: Random) -> Layer:
    f = ReductionFunction
    weighted = [f.sum(), f.mean(), f.sum_of_squares(), f.sum_of_absolutes()]
    function = random.one_of(*weighted, f.max(), f.min(), f.l2_norm(), f.log_sum_exp(), f.product())
    shape = [random.size(2, 5) for _ in range(3)]
    reduced = [1 if axis == 0 or random.coin() else n for axis, n in enumerate(shape)]
    weights = random.numbers(*shape) if function in weighted and random.coin() else None
    return ReductionLayer(function=function, input=Shape(shape), output=Shape(reduced), weights=weights)
