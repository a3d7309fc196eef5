"""Elementwise functions that no layer computes: comparisons, logic, remainders and more, with broadcasting."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..calls import Calls
from ..operation import Operation
from ..tensor import Array, Tensor
from ._numpy import computing, summed
from .arithmetic import broadcast

_complement: Any = np.frompyfunc(math.erfc, 1, 1)


class Formula(NamedTuple):
    """A function of arrays, and its slope for each of them, from all of them and the result; none if they have no gradient."""

    function: Callable[..., Any]
    slopes: tuple[Callable[..., Any], ...] = ()


def _one(*_: Array) -> float:
    return 1.0


FORMULAS: dict[str, Formula] = {
    "gt": Formula(np.greater),
    "ge": Formula(np.greater_equal),
    "lt": Formula(np.less),
    "le": Formula(np.less_equal),
    "eq": Formula(np.equal),
    "ne": Formula(np.not_equal),
    "logical_and": Formula(np.logical_and),
    "logical_or": Formula(np.logical_or),
    "logical_xor": Formula(np.logical_xor),
    "logical_not": Formula(np.logical_not),
    "isnan": Formula(np.isnan),
    "isinf": Formula(np.isinf),
    "isfinite": Formula(np.isfinite),
    "floor_divide": Formula(np.floor_divide),
    "trunc": Formula(np.trunc),
    "frac": Formula(lambda x: x - np.trunc(x), (_one,)),
    "remainder": Formula(np.remainder, (_one, lambda a, b, y: -np.floor(a / b))),
    "fmod": Formula(np.fmod, (_one, lambda a, b, y: -np.trunc(a / b))),
    "log1p": Formula(np.log1p, (lambda x, y: 1 / (1 + x),)),
    "expm1": Formula(np.expm1, (lambda x, y: y + 1,)),
    "log10": Formula(np.log10, (lambda x, y: 1 / (x * math.log(10)),)),
    "erfc": Formula(lambda x: _complement(x).astype(x.dtype), (lambda x, y: -2 / math.sqrt(math.pi) * np.exp(-x * x),)),
    "sinc": Formula(np.sinc, (lambda x, y: np.where(x == 0, 0, (np.cos(np.pi * x) - y) / np.where(x == 0, 1, x)),)),
    "atan2": Formula(np.arctan2, (lambda a, b, y: b / (a * a + b * b), lambda a, b, y: -a / (a * a + b * b))),
    "hypot": Formula(np.hypot, (lambda a, b, y: a / y, lambda a, b, y: b / y)),
    "logaddexp": Formula(np.logaddexp, (lambda a, b, y: np.exp(a - y), lambda a, b, y: np.exp(b - y))),
}

MASKS = {
    "gt", "ge", "lt", "le", "eq", "ne", "logical_and", "logical_or", "logical_xor", "logical_not", "isnan", "isinf", "isfinite",
}  # fmt: skip
"""Functions whose result is 1 where something holds, and else 0. They take whole numbers as they are."""


class Elementwise(Operation):
    """y = f(a) or f(a, b); ``function`` is one of ``FORMULAS``."""

    is_pure = True

    def __init__(self, function: str, operands: Sequence[Tensor]) -> None:
        self.function = function
        self.stops_gradient = not FORMULAS[function].slopes
        self.keeps_inputs = self.keeps_output = not self.stops_gradient
        self.takes_integers = self.is_mask = function in MASKS
        super().__init__(operands, broadcast(operands, function))

    def forward(self, x: list[Array], y: Array, training: bool) -> Calls:
        return computing(y, FORMULAS[self.function].function, *x)

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Calls:
        def gradient(slope: Callable[..., Any], operand: Array) -> Array:
            return summed(dy * slope(*x, y), operand.shape)

        slopes = FORMULAS[self.function].slopes
        return [
            computing(target, gradient, slope, operand)
            for target, slope, operand in zip(dx, slopes, x, strict=True)
            if target is not None
        ]
