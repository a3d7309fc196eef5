"""The choices that layers take: shapes, functions, types and modes, after the enums of the Swift overlay.

Enums without parameters are `enum.Enum` classes with upper-case members whose `value` is the C constant. Those with
parameters are classes with one factory per case: `PoolingType.max(indices=None)`, `LossFunction.huber(huber_delta=1)`.
"""

from __future__ import annotations

import enum
import math
from typing import Any

import numpy as np

from ..capi import enums as c
from ..descriptors import ELEMENT_TYPES
from ._activation_function import ActivationFunction
from ._payloads import (
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
from ._shape import DataLayout, Shape

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


class DataType(enum.Enum):
    """Element type of an array.

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
        wanted = np.dtype(dtype)
        name = "BOOLEAN" if wanted == np.bool_ else wanted.name.upper()
        if name not in cls.__members__ or wanted.byteorder == ">":
            choices = "float16, float32, bool, int8 to int64, uint8 to uint64"
            raise TypeError(f"DataType.from_dtype: BNNS has no element type for {wanted}. Use one of {choices}.")
        return cls[name]


class LearningPhase(enum.Enum):
    """Whether a layer is being trained or used."""

    INFERENCE = False
    TRAINING = True

    @property
    def is_training(self) -> bool:
        """The `training` argument of the C functions."""
        return bool(self.value)


class ConvolutionType(enum.Enum):
    """Direction of a convolution."""

    STANDARD = c.BNNSConvolution
    TRANSPOSED = c.BNNSTransposedConvolution


class DescriptorType(enum.Enum):
    """Role of an arithmetic operand: fixed, one per sample, or one parameter shared by the batch."""

    CONSTANT = c.BNNSConstant
    SAMPLE = c.BNNSSample
    PARAMETER = c.BNNSParameter


class ArithmeticUnaryFunction(enum.Enum):
    """Elementwise function of one operand."""

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


class ArithmeticBinaryFunction(enum.Enum):
    """Elementwise function of two operands."""

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


class ArithmeticTernaryFunction(enum.Enum):
    """Elementwise function of three operands; `SELECT` (a ? b : c) is not in Swift."""

    MULTIPLY_ADD = c.BNNSArithmeticMultiplyAdd
    SELECT = c.BNNSArithmeticSelect


class LossReduction(enum.Enum):
    """How the losses of a batch become the output; `MEAN` and `NON_ZERO_WEIGHT_MEAN` are the C names."""

    NONE = c.BNNSLossReductionNone
    SUM = c.BNNSLossReductionSum
    WEIGHTED_MEAN = c.BNNSLossReductionWeightedMean
    REDUCTION_MEAN = c.BNNSLossReductionMean
    ZERO_WEIGHT_MEAN = c.BNNSLossReductionNonZeroWeightMean
    MEAN = REDUCTION_MEAN
    NON_ZERO_WEIGHT_MEAN = ZERO_WEIGHT_MEAN


class InterpolationMethod(enum.Enum):
    """How resizing finds values between samples."""

    NEAREST_NEIGHBOR = c.BNNSInterpolationMethodNearest
    LINEAR = c.BNNSInterpolationMethodLinear


class LinearSamplingMode(enum.Enum):
    """Where `CropResizeLayer` places its sample points."""

    DEFAULT = c.BNNSLinearSamplingDefault
    ALIGN_CORNERS = c.BNNSLinearSamplingAlignCorners
    UNALIGN_CORNERS = c.BNNSLinearSamplingUnalignCorners
    STRICT_ALIGN_CORNERS = c.BNNSLinearSamplingStrictAlignCorners
    OFFSET_CORNERS = c.BNNSLinearSamplingOffsetCorners


class BoxCoordinateMode(enum.Enum):
    """Meaning of the four numbers of a region of interest of `CropResizeLayer`."""

    CORNERS_HEIGHT_FIRST = c.BNNSCornersHeightFirst
    CORNERS_WIDTH_FIRST = c.BNNSCornersWidthFirst
    CENTER_SIZE_HEIGHT_FIRST = c.BNNSCenterSizeHeightFirst
    CENTER_SIZE_WIDTH_FIRST = c.BNNSCenterSizeWidthFirst


class Norm(enum.Enum):
    """A vector norm; the value is the exponent p that `BNNSLayerParametersEmbedding.norm_type` takes.

    >>> Norm.EUCLIDEAN is Norm.L2, Norm.L2.value
    (True, 2.0)
    """

    L1 = 1.0
    L2 = 2.0
    MAXIMUM = math.inf
    TAXICAB = L1
    EUCLIDEAN = L2
    L_INFINITY = MAXIMUM


class RelationalOperator(enum.Enum):
    """Comparison of numbers, or logical operation on booleans."""

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


class ShuffleType(enum.Enum):
    """Rearrangement between channels and space."""

    PIXEL_SHUFFLE_NCHW = c.BNNSShuffleTypePixelShuffleNCHW
    PIXEL_UNSHUFFLE_NCHW = c.BNNSShuffleTypePixelUnshuffleNCHW
    DEPTH_TO_SPACE_NCHW = c.BNNSShuffleTypeDepthToSpaceNCHW
    SPACE_TO_DEPTH_NCHW = c.BNNSShuffleTypeSpaceToDepthNCHW


class SparsityType(enum.Enum):
    """Pattern of the zeros in sparse weights."""

    UNSTRUCTURED = c.BNNSSparsityTypeUnstructured


class TargetSystem(enum.Enum):
    """Machine that sparse weights are packed for."""

    GENERIC = c.BNNSTargetSystemGeneric


class RandomGeneratorMethod(enum.Enum):
    """Algorithm of a random generator."""

    AES_CTR = c.BNNSRandomGeneratorMethodAES_CTR


class RegularizationFunction(enum.Enum):
    """Penalty on the weights that an optimizer adds to the gradient."""

    NONE = c.BNNSOptimizerRegularizationNone
    L1 = c.BNNSOptimizerRegularizationL1
    L2 = c.BNNSOptimizerRegularizationL2


class SGDMomentumVariant(enum.Enum):
    """Which of three forms of momentum stochastic gradient descent uses."""

    VARIANT_0 = c.BNNSSGDMomentumVariant0
    VARIANT_1 = c.BNNSSGDMomentumVariant1
    VARIANT_2 = c.BNNSSGDMomentumVariant2
