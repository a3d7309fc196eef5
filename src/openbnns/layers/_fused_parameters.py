"""The layers that :class:`openbnns.FusedParametersLayer` chains, each by its parameters alone.

Inputs and outputs belong to the fused layer; what lies between the layers follows from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .types import (
    ActivationFunction,
    ArithmeticBinaryFunction,
    ArithmeticTernaryFunction,
    ArithmeticUnaryFunction,
    ConvolutionPadding,
    ConvolutionType,
    DescriptorType,
    NormalizationType,
)


class FusableLayerParameters:
    """Base of everything that ``fused_layer_parameters`` may hold."""


@dataclass(frozen=True, kw_only=True, eq=False)
class FusedConvolutionParameters(FusableLayerParameters):
    """A convolution, first in a chain. ``group_size`` is the number of groups, ``groups`` in C; arrays as in
    :class:`openbnns.ConvolutionLayer`."""

    type: ConvolutionType = ConvolutionType.STANDARD
    weights: Any
    bias: Any = None
    stride: Sequence[int] | int = (1, 1)
    dilation_stride: Sequence[int] | int = (1, 1)
    group_size: int = 1
    padding: ConvolutionPadding = field(default_factory=ConvolutionPadding.zero)


@dataclass(frozen=True, kw_only=True, eq=False)
class FusedFullyConnectedParameters(FusableLayerParameters):
    """A fully connected layer, first in a chain; arrays as in :class:`openbnns.FullyConnectedLayer`."""

    weights: Any
    bias: Any = None


@dataclass(frozen=True, kw_only=True, eq=False)
class FusedNormalizationParameters(FusableLayerParameters):
    """A normalization with its activation, last in a chain; arrays as in :class:`openbnns.NormalizationLayer`."""

    type: NormalizationType
    beta: Any = None
    gamma: Any = None
    momentum: float = 0.0
    epsilon: float
    activation: ActivationFunction = field(default_factory=ActivationFunction.identity)


@dataclass(frozen=True, kw_only=True, eq=False)
class FusedQuantizationParameters(FusableLayerParameters):
    """y = saturate(round(scale*h + bias)), last in a chain. ``axis`` is the axis of ``size[]`` that scale and bias vary
    along (2 for the channels of an image), ``None`` for one value each."""

    axis: int | None = None
    scale: Any = None
    bias: Any = None


@dataclass(frozen=True, kw_only=True, eq=False)
class FusedDequantizationParameters(FusableLayerParameters):
    """y = (h - bias) / scale, last in a chain; the layer before it gives Int32."""

    axis: int | None = None
    scale: Any = None
    bias: Any = None


@dataclass(frozen=True, kw_only=True, eq=False)
class FusedUnaryArithmeticParameters(FusableLayerParameters):
    """Arithmetic of one operand, first in a chain."""

    input_descriptor_type: DescriptorType = DescriptorType.SAMPLE
    output_descriptor_type: DescriptorType = DescriptorType.SAMPLE
    function: ArithmeticUnaryFunction


@dataclass(frozen=True, kw_only=True, eq=False)
class FusedBinaryArithmeticParameters(FusableLayerParameters):
    """Arithmetic of two operands, first in a chain."""

    input_a_descriptor_type: DescriptorType = DescriptorType.SAMPLE
    input_b_descriptor_type: DescriptorType = DescriptorType.SAMPLE
    output_descriptor_type: DescriptorType = DescriptorType.SAMPLE
    function: ArithmeticBinaryFunction


@dataclass(frozen=True, kw_only=True, eq=False)
class FusedTernaryArithmeticParameters(FusableLayerParameters):
    """Arithmetic of three operands, first in a chain."""

    input_a_descriptor_type: DescriptorType = DescriptorType.SAMPLE
    input_b_descriptor_type: DescriptorType = DescriptorType.SAMPLE
    input_c_descriptor_type: DescriptorType = DescriptorType.SAMPLE
    output_descriptor_type: DescriptorType = DescriptorType.SAMPLE
    function: ArithmeticTernaryFunction
