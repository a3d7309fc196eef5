"""The layers that :class:`openbnns.FusedParametersLayer` chains, each by its parameters alone.

Inputs and outputs belong to the fused layer; what lies between the layers follows from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .._spelling import CasesMeta
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

__all__ = [
    "FusableLayerParameters",
    "FusedBinaryArithmeticParameters",
    "FusedConvolutionParameters",
    "FusedDequantizationParameters",
    "FusedFullyConnectedParameters",
    "FusedNormalizationParameters",
    "FusedQuantizationParameters",
    "FusedTernaryArithmeticParameters",
    "FusedUnaryArithmeticParameters",
]


class FusableLayerParameters(metaclass=CasesMeta):
    """Base of everything that ``fused_layer_parameters`` may hold.

    >>> from openbnns import *
    >>> chain = [
    ...     FusedUnaryArithmeticParameters(function=ArithmeticUnaryFunction.ABS),
    ...     FusedNormalizationParameters(type=NormalizationType.layer(normalization_axis=0), epsilon=1e-5),
    ... ]
    >>> all(isinstance(part, FusableLayerParameters) for part in chain)
    True
    """


@dataclass(kw_only=True, eq=False)
class FusedConvolutionParameters(FusableLayerParameters):
    """A convolution, first in a chain. ``group_size`` is the number of groups, ``groups`` in C; arrays as in
    :class:`openbnns.ConvolutionLayer`.

    >>> import numpy as np
    >>> from openbnns import *
    >>> layer = FusedParametersLayer(
    ...     input=Shape.image_chw(3, 1, 1),
    ...     fused_layer_parameters=[
    ...         FusedConvolutionParameters(weights=np.float32([[[[1, 1]]]])),
    ...         FusedNormalizationParameters(type=NormalizationType.instance(), epsilon=0),
    ...     ],
    ... )
    >>> layer.apply(np.float32([[[[1, 2, 5]]]]), phase=LearningPhase.TRAINING).tolist()  # of 3 and 7
    [[[[-1.0, 1.0]]]]
    """

    type: ConvolutionType = ConvolutionType.STANDARD
    weights: Any
    bias: Any = None
    stride: Sequence[int] | int = (1, 1)
    dilation_stride: Sequence[int] | int = (1, 1)
    group_size: int = 1
    padding: ConvolutionPadding = field(default_factory=ConvolutionPadding.zero)


@dataclass(kw_only=True, eq=False)
class FusedFullyConnectedParameters(FusableLayerParameters):
    """A fully connected layer, first in a chain; arrays as in :class:`openbnns.FullyConnectedLayer`.

    >>> import numpy as np
    >>> from openbnns import *
    >>> layer = FusedParametersLayer(
    ...     input=Shape.vector(2),
    ...     fused_layer_parameters=[
    ...         FusedFullyConnectedParameters(weights=np.float32([[1, 1]])),
    ...         FusedNormalizationParameters(type=NormalizationType.batch(), epsilon=0),
    ...     ],
    ... )
    >>> layer.apply(np.float32([[1, 2], [3, 4]]), phase=LearningPhase.TRAINING).tolist()  # of 3 and 7
    [[-1.0], [1.0]]
    """

    weights: Any
    bias: Any = None


@dataclass(kw_only=True, eq=False)
class FusedNormalizationParameters(FusableLayerParameters):
    """A normalization with its activation, last in a chain; arrays as in :class:`openbnns.NormalizationLayer`.

    >>> import numpy as np
    >>> from openbnns import *
    >>> layer = FusedParametersLayer(
    ...     input=Shape.vector(1),
    ...     fused_layer_parameters=[
    ...         FusedFullyConnectedParameters(weights=np.float32([[2]])),
    ...         FusedNormalizationParameters(
    ...             type=NormalizationType.batch(), gamma=np.float32([3]), beta=np.float32([1]), epsilon=0,
    ...             activation=ActivationFunction.rectified_linear(),
    ...         ),
    ...     ],
    ... )
    >>> layer.apply(np.float32([[1], [2]]), phase=LearningPhase.TRAINING).tolist()
    [[0.0], [4.0]]
    """

    type: NormalizationType
    beta: Any = None
    gamma: Any = None
    momentum: float = 0.0
    epsilon: float
    activation: ActivationFunction = field(default_factory=ActivationFunction.identity)


@dataclass(kw_only=True, eq=False)
class FusedQuantizationParameters(FusableLayerParameters):
    """y = saturate(round(scale*h + bias)), last in a chain. ``axis`` is the axis of ``size[]`` that scale and bias vary
    along (2 for the channels of an image), ``None`` for one value each.

    >>> import numpy as np
    >>> from openbnns import *
    >>> layer = FusedParametersLayer(
    ...     input=Shape.vector(2),
    ...     output=np.empty((1, 2), np.int8),
    ...     fused_layer_parameters=[
    ...         FusedFullyConnectedParameters(weights=np.eye(2, dtype=np.float32)),
    ...         FusedQuantizationParameters(scale=np.float32([2]), bias=np.float32([1])),
    ...     ],
    ... )
    >>> layer.apply(np.float32([[1, 100]])).tolist()
    [[3, 127]]
    """

    axis: int | None = None
    scale: Any = None
    bias: Any = None


@dataclass(kw_only=True, eq=False)
class FusedDequantizationParameters(FusableLayerParameters):
    """y = (h - bias) / scale, last in a chain; the layer before it gives Int32.

    >>> from openbnns import *
    >>> FusedDequantizationParameters(axis=0, scale=[2.0, 4.0], bias=None)
    FusedDequantizationParameters(axis=0, scale=[2.0, 4.0], bias=None)
    """

    axis: int | None = None
    scale: Any = None
    bias: Any = None


@dataclass(kw_only=True, eq=False)
class FusedUnaryArithmeticParameters(FusableLayerParameters):
    """Arithmetic of one operand, first in a chain.

    >>> import numpy as np
    >>> from openbnns import *
    >>> layer = FusedParametersLayer(
    ...     input=Shape.vector(1),
    ...     fused_layer_parameters=[
    ...         FusedUnaryArithmeticParameters(function=ArithmeticUnaryFunction.SQUARE),
    ...         FusedNormalizationParameters(type=NormalizationType.batch(), epsilon=0),
    ...     ],
    ... )
    >>> layer.apply(np.float32([[1], [-3]]), phase=LearningPhase.TRAINING).tolist()  # of 1 and 9
    [[-1.0], [1.0]]
    """

    input_descriptor_type: DescriptorType = DescriptorType.SAMPLE
    output_descriptor_type: DescriptorType = DescriptorType.SAMPLE
    function: ArithmeticUnaryFunction


@dataclass(kw_only=True, eq=False)
class FusedBinaryArithmeticParameters(FusableLayerParameters):
    """Arithmetic of two operands, first in a chain.

    >>> import numpy as np
    >>> from openbnns import *
    >>> layer = FusedParametersLayer(
    ...     input_a=Shape.vector(1),
    ...     input_b=Shape.vector(1),
    ...     fused_layer_parameters=[
    ...         FusedBinaryArithmeticParameters(function=ArithmeticBinaryFunction.MULTIPLY),
    ...         FusedNormalizationParameters(type=NormalizationType.batch(), epsilon=0),
    ...     ],
    ... )
    >>> layer.apply(np.float32([[1], [3]]), np.float32([[2], [4]]), phase=LearningPhase.TRAINING).tolist()
    [[-1.0], [1.0]]
    """

    input_a_descriptor_type: DescriptorType = DescriptorType.SAMPLE
    input_b_descriptor_type: DescriptorType = DescriptorType.SAMPLE
    output_descriptor_type: DescriptorType = DescriptorType.SAMPLE
    function: ArithmeticBinaryFunction


@dataclass(kw_only=True, eq=False)
class FusedTernaryArithmeticParameters(FusableLayerParameters):
    """Arithmetic of three operands, first in a chain.

    >>> import numpy as np
    >>> from openbnns import *
    >>> layer = FusedParametersLayer(
    ...     input_a=Shape.vector(1),
    ...     input_b=Shape.vector(1),
    ...     input_c=Shape.vector(1),
    ...     fused_layer_parameters=[
    ...         FusedTernaryArithmeticParameters(function=ArithmeticTernaryFunction.MULTIPLY_ADD),
    ...         FusedNormalizationParameters(type=NormalizationType.batch(), epsilon=0),
    ...     ],
    ... )
    >>> a, b, c = np.float32([[1], [3]]), np.float32([[2], [4]]), np.float32([[0], [1]])
    >>> layer.apply(a, b, c, phase=LearningPhase.TRAINING).tolist()  # of 2 and 13
    [[-1.0], [1.0]]
    """

    input_a_descriptor_type: DescriptorType = DescriptorType.SAMPLE
    input_b_descriptor_type: DescriptorType = DescriptorType.SAMPLE
    input_c_descriptor_type: DescriptorType = DescriptorType.SAMPLE
    output_descriptor_type: DescriptorType = DescriptorType.SAMPLE
    function: ArithmeticTernaryFunction
