"""The choices that layers take: shapes, functions, types and modes, after the enums of the Swift overlay.

Enums without parameters are `enum.Enum` classes with upper-case members whose `value` is the C constant. Those with
parameters are classes with one factory per case: `PoolingType.max(indices=None)`, `LossFunction.huber(huber_delta=1)`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._spelling import Members
from ..abi import enums as c
from ..tensors import wide
from ..tensors.descriptors import ELEMENT_TYPES
from ._activation_function import ActivationFunction
from ._choices import (
    ConvolutionPadding,
    GradientClipping,
    LossFunction,
    NormalizationType,
    PaddingMode,
    PoolingType,
    ReductionFunction,
    SparseLayout,
    SparseParameters,
    YoloParameters,
)
from .shape import DataLayout, Shape

__all__ = [
    "ActivationFunction",
    "ArithmeticBinaryFunction",
    "ArithmeticTernaryFunction",
    "ArithmeticUnaryFunction",
    "BoxCoordinateMode",
    "ConvolutionPadding",
    "ConvolutionType",
    "DataLayout",
    "DataType",
    "DescriptorType",
    "GradientClipping",
    "InterpolationMethod",
    "LearningPhase",
    "LinearSamplingMode",
    "LossFunction",
    "LossReduction",
    "Norm",
    "NormalizationType",
    "PaddingMode",
    "PoolingType",
    "RandomGeneratorMethod",
    "ReductionFunction",
    "RegularizationFunction",
    "RelationalOperator",
    "SGDMomentumVariant",
    "Shape",
    "ShuffleType",
    "SparseLayout",
    "SparseParameters",
    "SparsityType",
    "TargetSystem",
    "YoloParameters",
]


class DataType(Members):
    """Element type of an array.

    >>> from openbnns import *
    >>> DataType.from_dtype("float32")
    <DataType.FLOAT32: BNNSDataTypeFloat32>
    >>> DataType.INT8.dtype
    dtype('int8')
    """

    FLOAT16 = c.BNNSDataTypeFloat16
    FLOAT32 = c.BNNSDataTypeFloat32
    BFLOAT16 = c.BNNSDataTypeBFloat16
    INT1 = c.BNNSDataTypeInt1
    INT2 = c.BNNSDataTypeInt2
    INT4 = c.BNNSDataTypeInt4
    INT8 = c.BNNSDataTypeInt8
    INT16 = c.BNNSDataTypeInt16
    INT32 = c.BNNSDataTypeInt32
    INT64 = c.BNNSDataTypeInt64
    UINT1 = c.BNNSDataTypeUInt1
    UINT2 = c.BNNSDataTypeUInt2
    UINT3 = c.BNNSDataTypeUInt3
    UINT4 = c.BNNSDataTypeUInt4
    UINT6 = c.BNNSDataTypeUInt6
    UINT8 = c.BNNSDataTypeUInt8
    UINT16 = c.BNNSDataTypeUInt16
    UINT32 = c.BNNSDataTypeUInt32
    UINT64 = c.BNNSDataTypeUInt64
    INDEXED1 = c.BNNSDataTypeIndexed1
    INDEXED2 = c.BNNSDataTypeIndexed2
    INDEXED4 = c.BNNSDataTypeIndexed4
    INDEXED8 = c.BNNSDataTypeIndexed8
    BOOLEAN = c.BNNSDataTypeBoolean

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """The NumPy type of the storage (bfloat16 is stored as uint16); `None` where several values share a byte."""
        if self is DataType.BOOLEAN:
            return np.dtype(np.bool_)
        return ELEMENT_TYPES[int(self.value)].numpy

    @classmethod
    def from_dtype(cls, dtype: Any) -> DataType:
        """The element type of a NumPy type."""
        try:
            wanted = np.dtype(dtype)
        except TypeError:
            raise TypeError(f"DataType.from_dtype: dtype must be a NumPy type, not {dtype!r}.") from None
        if wide.is_wide(wanted):
            return cls.FLOAT32
        name = "BOOLEAN" if wanted == np.bool_ else wanted.name.upper()
        if name not in cls.__members__ or wanted.byteorder == ">":
            choices = "float16, float32, bool, int8 to int64, uint8 to uint64"
            raise TypeError(f"DataType.from_dtype: BNNS has no element type for {wanted}. Use one of {choices}.")
        return cls[name]


class LearningPhase(Members):
    """The phase that a layer runs in: training or inference.

    >>> import numpy as np
    >>> from openbnns import *
    >>> layer = NormalizationLayer(
    ...     type=NormalizationType.batch(moving_mean=np.float32([1]), moving_variance=np.float32([4])),
    ...     input=Shape.vector(1), epsilon=0,
    ... )
    >>> x = np.float32([[3], [7]])
    >>> layer.apply(x, phase=LearningPhase.INFERENCE).tolist()  # with the moving statistics
    [[1.0], [3.0]]
    >>> layer.apply(x, phase=LearningPhase.TRAINING).tolist()  # with those of the batch
    [[-1.0], [1.0]]
    """

    INFERENCE = False
    TRAINING = True

    @property
    def is_training(self) -> bool:
        """The `training` argument of the C functions."""
        return bool(self.value)


class ConvolutionType(Members):
    """Direction of a convolution.

    >>> import numpy as np
    >>> from openbnns import *
    >>> layer = ConvolutionLayer(
    ...     type=ConvolutionType.TRANSPOSED, input=Shape.image_chw(2, 1, 1), stride=(2, 1),
    ...     weights=np.float32([[[[1, 10]]]]),  # (out, in, KH, KW), which correlate
    ... )
    >>> layer.apply(np.float32([[[3, 4]]])).tolist()
    [[[30.0, 3.0, 40.0, 4.0]]]
    """

    STANDARD = c.BNNSConvolution
    TRANSPOSED = c.BNNSTransposedConvolution


class DescriptorType(Members):
    """Role of an arithmetic operand: fixed, one per sample, or one parameter shared by the batch.

    >>> import numpy as np
    >>> from openbnns import *
    >>> layer = BinaryArithmeticLayer(
    ...     input_a=Shape.vector(2), input_a_descriptor_type=DescriptorType.SAMPLE, input_b=Shape.vector(2),
    ...     input_b_descriptor_type=DescriptorType.PARAMETER, output=Shape.vector(2),
    ...     output_descriptor_type=DescriptorType.SAMPLE, function=ArithmeticBinaryFunction.ADD,
    ... )
    >>> dy = np.float32([[1, 2], [10, 20]])
    >>> layer.apply_backward(output_gradient=dy).input_b.tolist()  # summed over the batch
    [11.0, 22.0]
    """

    CONSTANT = c.BNNSConstant
    SAMPLE = c.BNNSSample
    PARAMETER = c.BNNSParameter


class ArithmeticUnaryFunction(Members):
    """Elementwise function of one operand.

    >>> import numpy as np
    >>> from openbnns import *
    >>> layer = UnaryArithmeticLayer(input=Shape.vector(2), function=ArithmeticUnaryFunction.SQUARE)
    >>> x = np.float32([3, -4])
    >>> layer.apply(x).tolist(), layer.apply_backward(input=x, output_gradient=np.float32([1, 1])).input.tolist()
    ([9.0, 16.0], [6.0, -8.0])
    """

    ABS = c.BNNSArithmeticAbs
    ACOS = c.BNNSArithmeticAcos
    ACOSH = c.BNNSArithmeticAcosh
    ASIN = c.BNNSArithmeticAsin
    ASINH = c.BNNSArithmeticAsinh
    ATAN = c.BNNSArithmeticAtan
    ATANH = c.BNNSArithmeticAtanh
    CEIL = c.BNNSArithmeticCeil
    COS = c.BNNSArithmeticCos
    COSH = c.BNNSArithmeticCosh
    ERF = c.BNNSArithmeticErf
    EXP = c.BNNSArithmeticExp
    EXP2 = c.BNNSArithmeticExp2
    FLOOR = c.BNNSArithmeticFloor
    LOG = c.BNNSArithmeticLog
    LOG2 = c.BNNSArithmeticLog2
    NEGATE = c.BNNSArithmeticNegate
    RECIPROCAL = c.BNNSArithmeticReciprocal
    RECIPROCAL_SQUARE_ROOT = c.BNNSArithmeticReciprocalSquareRoot
    ROUND = c.BNNSArithmeticRound
    SIGN = c.BNNSArithmeticSign
    SIN = c.BNNSArithmeticSin
    SINH = c.BNNSArithmeticSinh
    SQUARE = c.BNNSArithmeticSquare
    SQUARE_ROOT = c.BNNSArithmeticSquareRoot
    TAN = c.BNNSArithmeticTan
    TANH = c.BNNSArithmeticTanh


class ArithmeticBinaryFunction(Members):
    """Elementwise function of two operands.

    >>> import numpy as np
    >>> from openbnns import *
    >>> layer = BinaryArithmeticLayer(
    ...     input_a=Shape.vector(2), input_b=Shape.vector(2), function=ArithmeticBinaryFunction.DIVIDE_NO_NAN
    ... )
    >>> layer.apply(np.float32([6, 1]), np.float32([2, 0])).tolist()
    [3.0, 0.0]
    """

    ADD = c.BNNSArithmeticAdd
    SUBTRACT = c.BNNSArithmeticSubtract
    MULTIPLY = c.BNNSArithmeticMultiply
    DIVIDE = c.BNNSArithmeticDivide
    POW = c.BNNSArithmeticPow
    MIN = c.BNNSArithmeticMinimum
    MAX = c.BNNSArithmeticMaximum
    MULTIPLY_NO_NAN = c.BNNSArithmeticMultiplyNoNaN
    DIVIDE_NO_NAN = c.BNNSArithmeticDivideNoNaN
    FLOORING_DIVIDE = c.BNNSArithmeticFloorDivide
    TRUNCATING_DIVIDE = c.BNNSArithmeticTruncDivide
    TRUNCATING_REMAINDER = c.BNNSArithmeticTruncRemainder


class ArithmeticTernaryFunction(Members):
    """Elementwise function of three operands; `SELECT` (a ? b : c) is not in Swift.

    >>> import numpy as np
    >>> from openbnns import *
    >>> v = Shape.vector(2)
    >>> layer = TernaryArithmeticLayer(
    ...     input_a=v, input_b=v, input_c=v, output=v, function=ArithmeticTernaryFunction.MULTIPLY_ADD
    ... )
    >>> layer.apply(np.float32([2, 3]), np.float32([4, 5]), np.float32([1, 1])).tolist()
    [9.0, 16.0]
    """

    MULTIPLY_ADD = c.BNNSArithmeticMultiplyAdd
    SELECT = c.BNNSArithmeticSelect


class LossReduction(Members):
    """How the losses of a batch become the output; `MEAN` and `NON_ZERO_WEIGHT_MEAN` are the C names.

    >>> import numpy as np
    >>> from openbnns import *
    >>> layer = LossLayer(
    ...     input=Shape.vector(1), loss_function=LossFunction.mean_square_error(), loss_reduction=LossReduction.SUM
    ... )
    >>> layer.apply(np.float32([[3], [5]]), np.float32([[1], [1]])).output.tolist()
    [20.0]
    """

    NONE = c.BNNSLossReductionNone
    SUM = c.BNNSLossReductionSum
    WEIGHTED_MEAN = c.BNNSLossReductionWeightedMean
    REDUCTION_MEAN = c.BNNSLossReductionMean
    ZERO_WEIGHT_MEAN = c.BNNSLossReductionNonZeroWeightMean
    MEAN = REDUCTION_MEAN
    NON_ZERO_WEIGHT_MEAN = ZERO_WEIGHT_MEAN


class InterpolationMethod(Members):
    """How resizing finds values between samples.

    >>> import numpy as np
    >>> from openbnns import *
    >>> layer = ResizeLayer(
    ...     input=Shape.vector(2), output=Shape.vector(4), interpolation_method=InterpolationMethod.NEAREST_NEIGHBOR
    ... )
    >>> layer.apply(np.float32([1, 5])).tolist()
    [1.0, 1.0, 5.0, 5.0]
    """

    NEAREST_NEIGHBOR = c.BNNSInterpolationMethodNearest
    LINEAR = c.BNNSInterpolationMethodLinear


class LinearSamplingMode(Members):
    """Where `CropResizeLayer` places its sample points.

    >>> import numpy as np
    >>> from openbnns import *
    >>> x, box = np.float32([[[[0, 1, 2, 3]]]]), np.float32([[0, 0, 0, 3]])  # y, x start; y, x end
    >>> layer = CropResizeLayer(sampling_mode=LinearSamplingMode.ALIGN_CORNERS)
    >>> layer.apply(x, box, output_size=(1, 3)).tolist()
    [[[[[0.0, 1.5, 3.0]]]]]
    """

    DEFAULT = c.BNNSLinearSamplingDefault
    ALIGN_CORNERS = c.BNNSLinearSamplingAlignCorners
    UNALIGN_CORNERS = c.BNNSLinearSamplingUnalignCorners
    STRICT_ALIGN_CORNERS = c.BNNSLinearSamplingStrictAlignCorners
    OFFSET_CORNERS = c.BNNSLinearSamplingOffsetCorners


class BoxCoordinateMode(Members):
    """Meaning of the four numbers of a region of interest of `CropResizeLayer`.

    >>> import numpy as np
    >>> from openbnns import *
    >>> x, box = np.arange(9, dtype=np.float32).reshape(1, 1, 3, 3), np.float32([[1, 0, 1, 2]])  # y 1 to 1, x 0 to 2
    >>> layer = CropResizeLayer(box_coordinate_mode=BoxCoordinateMode.CORNERS_HEIGHT_FIRST)
    >>> layer.apply(x, box, output_size=(1, 3)).tolist()
    [[[[[3.0, 4.0, 5.0]]]]]
    """

    CORNERS_HEIGHT_FIRST = c.BNNSCornersHeightFirst
    CORNERS_WIDTH_FIRST = c.BNNSCornersWidthFirst
    CENTER_SIZE_HEIGHT_FIRST = c.BNNSCenterSizeHeightFirst
    CENTER_SIZE_WIDTH_FIRST = c.BNNSCenterSizeWidthFirst


class Norm(Members):
    """A vector norm; the value is the exponent p that `BNNSLayerParametersEmbedding.norm_type` takes.

    >>> from openbnns import *
    >>> Norm.EUCLIDEAN is Norm.L2, Norm.L2.value
    (True, 2.0)
    """

    L1 = 1.0
    L2 = 2.0
    MAXIMUM = math.inf
    TAXICAB = L1
    EUCLIDEAN = L2
    L_INFINITY = MAXIMUM


class RelationalOperator(Members):
    """Comparison of numbers, or logical operation on booleans.

    >>> import numpy as np
    >>> from openbnns import *
    >>> compare(np.float32([1, 2, 3]), np.float32([2, 2, 2]), RelationalOperator.GREATER_EQUAL).tolist()
    [False, True, True]
    """

    EQUAL = c.BNNSRelationalOperatorEqual
    NOT_EQUAL = c.BNNSRelationalOperatorNotEqual
    LESS = c.BNNSRelationalOperatorLess
    LESS_EQUAL = c.BNNSRelationalOperatorLessEqual
    GREATER = c.BNNSRelationalOperatorGreater
    GREATER_EQUAL = c.BNNSRelationalOperatorGreaterEqual
    AND = c.BNNSRelationalOperatorLogicalAND
    OR = c.BNNSRelationalOperatorLogicalOR
    NOT = c.BNNSRelationalOperatorLogicalNOT
    NAND = c.BNNSRelationalOperatorLogicalNAND
    NOR = c.BNNSRelationalOperatorLogicalNOR
    XOR = c.BNNSRelationalOperatorLogicalXOR


class ShuffleType(Members):
    """Rearrangement between channels and space.

    >>> import numpy as np
    >>> from openbnns import *
    >>> shuffle(ShuffleType.PIXEL_SHUFFLE_NCHW, np.float32([[[[1]], [[2]], [[3]], [[4]]]]), block_size=2).tolist()
    [[[[1.0, 2.0], [3.0, 4.0]]]]
    """

    PIXEL_SHUFFLE_NCHW = c.BNNSShuffleTypePixelShuffleNCHW
    PIXEL_UNSHUFFLE_NCHW = c.BNNSShuffleTypePixelUnshuffleNCHW
    DEPTH_TO_SPACE_NCHW = c.BNNSShuffleTypeDepthToSpaceNCHW
    SPACE_TO_DEPTH_NCHW = c.BNNSShuffleTypeSpaceToDepthNCHW


class SparsityType(Members):
    """Pattern of the zeros in sparse weights.

    >>> from openbnns import *
    >>> SparseParameters(type=SparsityType.UNSTRUCTURED).ratio
    (0, 0)
    """

    UNSTRUCTURED = c.BNNSSparsityTypeUnstructured


class TargetSystem(Members):
    """Machine that sparse weights are packed for.

    >>> from openbnns import *
    >>> SparseParameters(target_system=TargetSystem.GENERIC).target_system.name
    'GENERIC'
    """

    GENERIC = c.BNNSTargetSystemGeneric


class RandomGeneratorMethod(Members):
    """Algorithm of a random generator.

    >>> import numpy as np
    >>> from openbnns import *
    >>> generator = RandomGenerator(RandomGeneratorMethod.AES_CTR, seed=7)
    >>> generator.fill_uniform_integers(np.zeros(4, np.int32), range=(1, 7)).tolist()
    [2, 4, 2, 6]
    """

    AES_CTR = c.BNNSRandomGeneratorMethodAES_CTR


class RegularizationFunction(Members):
    """Penalty on the weights that an optimizer adds to the gradient.

    >>> import numpy as np
    >>> from openbnns import *
    >>> w = np.float32([1, -2])
    >>> sgd = SGDMomentumOptimizer(
    ...     learning_rate=0.5, regularization_scale=0.5, regularization_function=RegularizationFunction.L2
    ... )
    >>> sgd.step([w], [np.float32([0, 0])])
    >>> w.tolist()
    [0.75, -1.5]
    """

    NONE = c.BNNSOptimizerRegularizationNone
    L1 = c.BNNSOptimizerRegularizationL1
    L2 = c.BNNSOptimizerRegularizationL2


class SGDMomentumVariant(Members):
    """Which of three forms of momentum stochastic gradient descent uses.

    >>> import numpy as np
    >>> from openbnns import *
    >>> w = np.float32([1])
    >>> sgd = SGDMomentumOptimizer(learning_rate=0.5, momentum=0.5, sgd_momentum_variant=SGDMomentumVariant.VARIANT_0)
    >>> sgd.step([w], [np.float32([1])], sgd.zero_accumulators([w]))
    >>> w.tolist()
    [0.5]
    """

    VARIANT_0 = c.BNNSSGDMomentumVariant0
    VARIANT_1 = c.BNNSSGDMomentumVariant1
    VARIANT_2 = c.BNNSSGDMomentumVariant2
