"""Fused chains in training."""

from __future__ import annotations

import numpy as np

from ..filters.arithmetic import Arithmetic
from ..filters.fused import Fused
from ..layers import (
    FusedBinaryArithmeticParameters,
    FusedConvolutionParameters,
    FusedFullyConnectedParameters,
    FusedNormalizationParameters,
)
from ..layers.base import Layer
from ..layers.fused import FusedParametersLayer
from ..layers.types import (
    ArithmeticBinaryFunction,
    ConvolutionPadding,
    ConvolutionType,
    DescriptorType,
    NormalizationType,
    Shape,
)
from ._base import Array, Subject
from ._random import Random
from .arithmetic import operand


class FusedSubject(Subject):
    """Fused chains in training: statistics of the batch, so that samples depend on each other."""

    filter: Fused

    def numbers(self, tensor: str, shape: tuple[int, ...], random: np.random.Generator) -> Array:
        first = self.filter.first
        if isinstance(first, Arithmetic):
            return operand(first.function, shape, random)
        return super().numbers(tensor, shape, random)

    def cancelled(self, name: str, gradients: dict[str, Array]) -> float:
        """A normalization removes what a bias before it adds: the terms of that gradient cancel."""
        return float(np.linalg.norm(gradients["weights"])) if name == "bias" else 0.0


SUBJECT = FusedSubject


def random_layer(random: Random) -> Layer:
    """A convolution, a fully connected layer or an addition, then a normalization."""
    which, inputs = random.size(0, 2), random.size(2, 9)
    if which == 0:
        fc = FusedFullyConnectedParameters(weights=random.numbers(4, inputs), bias=random.numbers(4))
        norm = FusedNormalizationParameters(**random.affine(NormalizationType.batch(), (4,)))
        return FusedParametersLayer(
            input=Shape.vector(inputs), output=Shape.vector(4), fused_layer_parameters=[fc, norm]
        )
    shape = random.image(4)
    norm = FusedNormalizationParameters(**random.normalization(shape))
    if which == 1:
        sample = DescriptorType.SAMPLE
        add = FusedBinaryArithmeticParameters(
            input_a_descriptor_type=sample, input_b_descriptor_type=sample, output_descriptor_type=sample,
            function=ArithmeticBinaryFunction.ADD,
        )  # fmt: skip
        chain = [add, norm]
        return FusedParametersLayer(input_a=shape, input_b=shape, output=shape, fused_layer_parameters=chain)
    first = FusedConvolutionParameters(
        type=ConvolutionType.STANDARD, weights=random.numbers(4, 3, 3, 3), bias=random.numbers(4), stride=(1, 1),
        dilation_stride=(1, 1), group_size=1, padding=ConvolutionPadding.symmetric(x=1, y=1),
    )  # fmt: skip
    source = Shape.image_chw(shape.size[0], shape.size[1], 3)
    return FusedParametersLayer(input=source, output=shape, fused_layer_parameters=[first, norm])
