"""Arithmetic, in the domain of each function."""

from __future__ import annotations

import numpy as np

from ..filters.arithmetic import Arithmetic
from ..layers.arithmetic import BinaryArithmeticLayer
from ..layers.base import Layer
from ..layers.types import ArithmeticBinaryFunction, DescriptorType, Shape
from ..parameters.arithmetic import ArithmeticKind
from ._base import Array, Subject
from ._random import Random

# Magnitudes of the operands of functions that are not smooth everywhere, and whether they may be negative.
_DOMAINS: dict[int, tuple[float, float, bool]] = {
    ArithmeticKind.SQUARE_ROOT: (0.3, 2.0, False),
    ArithmeticKind.RECIPROCAL_SQUARE_ROOT: (0.3, 2.0, False),
    ArithmeticKind.LOG: (0.3, 2.0, False),
    ArithmeticKind.LOG2: (0.3, 2.0, False),
    ArithmeticKind.POW: (0.3, 2.0, False),
    ArithmeticKind.ACOSH: (1.2, 3.0, False),
    ArithmeticKind.ASIN: (0.05, 0.8, True),
    ArithmeticKind.ACOS: (0.05, 0.8, True),
    ArithmeticKind.ATANH: (0.05, 0.8, True),
    ArithmeticKind.TAN: (0.05, 1.0, True),
}


def operand(function: int, shape: tuple[int, ...], random: np.random.Generator) -> Array:
    """Random numbers for which a function is smooth."""
    low, high, both_signs = _DOMAINS.get(function, (0.3, 2.0, True))
    magnitude = random.uniform(low, high, shape)
    return magnitude * random.choice([-1.0, 1.0], shape) if both_signs else magnitude


class ArithmeticSubject(Subject):
    """Elementwise arithmetic: operands with a batch axis, or one copy for all samples."""

    filter: Arithmetic

    def numbers(self, tensor: str, shape: tuple[int, ...], random: np.random.Generator) -> Array:
        return operand(self.filter.function, shape, random)


SUBJECT = ArithmeticSubject


def random_layer(random: Random) -> Layer:
    f, shape, sample = ArithmeticBinaryFunction, Shape.vector(random.size(1, 33)), DescriptorType.SAMPLE
    return BinaryArithmeticLayer(
        input_a=shape, input_a_descriptor_type=sample, input_b=shape, input_b_descriptor_type=sample, output=shape,
        output_descriptor_type=sample, function=random.one_of(f.ADD, f.SUBTRACT, f.MULTIPLY, f.MAX),
    )  # fmt: skip
