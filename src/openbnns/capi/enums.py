"""Enums of the classic BNNS C interface; every member is also a name of this module.

Written by tools/generate_capi.py from tests/data; edit those, not this file.
"""

from __future__ import annotations

from ._values import CEnum, CFlag

__all__ = [
    "BNNSActivationFunction",
    "BNNSActivationFunctionAbs",
    "BNNSActivationFunctionCELU",
    "BNNSActivationFunctionClamp",
    "BNNSActivationFunctionClampedLeakyRectifiedLinear",
    "BNNSActivationFunctionELU",
    "BNNSActivationFunctionErf",
    "BNNSActivationFunctionGELU",
    "BNNSActivationFunctionGELUApproximation",
    "BNNSActivationFunctionGELUApproximation2",
    "BNNSActivationFunctionGELUApproximationSigmoid",
    "BNNSActivationFunctionGumbel",
    "BNNSActivationFunctionGumbelMax",
    "BNNSActivationFunctionHardShrink",
    "BNNSActivationFunctionHardSigmoid",
    "BNNSActivationFunctionHardSwish",
    "BNNSActivationFunctionIdentity",
    "BNNSActivationFunctionIntegerLinearSaturate",
    "BNNSActivationFunctionIntegerLinearSaturatePerChannel",
    "BNNSActivationFunctionLeakyRectifiedLinear",
    "BNNSActivationFunctionLinear",
    "BNNSActivationFunctionLinearWithBias",
    "BNNSActivationFunctionLogSigmoid",
    "BNNSActivationFunctionLogSoftmax",
    "BNNSActivationFunctionPReLUPerChannel",
    "BNNSActivationFunctionReLU6",
    "BNNSActivationFunctionRectifiedLinear",
    "BNNSActivationFunctionSELU",
    "BNNSActivationFunctionScaledTanh",
    "BNNSActivationFunctionSiLU",
    "BNNSActivationFunctionSigmoid",
    "BNNSActivationFunctionSoftShrink",
    "BNNSActivationFunctionSoftmax",
    "BNNSActivationFunctionSoftplus",
    "BNNSActivationFunctionSoftsign",
    "BNNSActivationFunctionTanh",
    "BNNSActivationFunctionTanhShrink",
    "BNNSActivationFunctionThreshold",
    "BNNSArithmetic",
    "BNNSArithmeticAbs",
    "BNNSArithmeticAcos",
    "BNNSArithmeticAcosh",
    "BNNSArithmeticAdd",
    "BNNSArithmeticAsin",
    "BNNSArithmeticAsinh",
    "BNNSArithmeticAtan",
    "BNNSArithmeticAtanh",
    "BNNSArithmeticCeil",
    "BNNSArithmeticCos",
    "BNNSArithmeticCosh",
    "BNNSArithmeticDivide",
    "BNNSArithmeticDivideNoNaN",
    "BNNSArithmeticErf",
    "BNNSArithmeticExp",
    "BNNSArithmeticExp2",
    "BNNSArithmeticFloor",
    "BNNSArithmeticFloorDivide",
    "BNNSArithmeticFunction",
    "BNNSArithmeticLog",
    "BNNSArithmeticLog2",
    "BNNSArithmeticMaximum",
    "BNNSArithmeticMinimum",
    "BNNSArithmeticMultiply",
    "BNNSArithmeticMultiplyAdd",
    "BNNSArithmeticMultiplyNoNaN",
    "BNNSArithmeticNegate",
    "BNNSArithmeticPow",
    "BNNSArithmeticReciprocal",
    "BNNSArithmeticReciprocalSquareRoot",
    "BNNSArithmeticRound",
    "BNNSArithmeticSelect",
    "BNNSArithmeticSign",
    "BNNSArithmeticSin",
    "BNNSArithmeticSinh",
    "BNNSArithmeticSquare",
    "BNNSArithmeticSquareRoot",
    "BNNSArithmeticSubtract",
    "BNNSArithmeticTan",
    "BNNSArithmeticTanh",
    "BNNSArithmeticTruncDivide",
    "BNNSArithmeticTruncRemainder",
    "BNNSBatchNorm",
    "BNNSBoxCoordinateMode",
    "BNNSCenterSizeHeightFirst",
    "BNNSCenterSizeWidthFirst",
    "BNNSConstant",
    "BNNSConvolution",
    "BNNSCornersHeightFirst",
    "BNNSCornersWidthFirst",
    "BNNSDataLayout",
    "BNNSDataLayout1DFirstMajor",
    "BNNSDataLayout1DLastMajor",
    "BNNSDataLayout2DFirstMajor",
    "BNNSDataLayout2DLastMajor",
    "BNNSDataLayout3DFirstMajor",
    "BNNSDataLayout3DLastMajor",
    "BNNSDataLayout4DFirstMajor",
    "BNNSDataLayout4DLastMajor",
    "BNNSDataLayout5DFirstMajor",
    "BNNSDataLayout5DLastMajor",
    "BNNSDataLayout6DFirstMajor",
    "BNNSDataLayout6DLastMajor",
    "BNNSDataLayout7DFirstMajor",
    "BNNSDataLayout7DLastMajor",
    "BNNSDataLayout8DFirstMajor",
    "BNNSDataLayout8DLastMajor",
    "BNNSDataLayoutColumnMajorMatrix",
    "BNNSDataLayoutConvolutionWeightsIOHrWr",
    "BNNSDataLayoutConvolutionWeightsOIHW",
    "BNNSDataLayoutConvolutionWeightsOIHW_Pack32",
    "BNNSDataLayoutConvolutionWeightsOIHrWr",
    "BNNSDataLayoutFullyConnectedSparse",
    "BNNSDataLayoutImageCHW",
    "BNNSDataLayoutMHA_DHK",
    "BNNSDataLayoutNSE",
    "BNNSDataLayoutRowMajorMatrix",
    "BNNSDataLayoutSNE",
    "BNNSDataLayoutVector",
    "BNNSDataType",
    "BNNSDataTypeBFloat16",
    "BNNSDataTypeBoolean",
    "BNNSDataTypeFloat16",
    "BNNSDataTypeFloat32",
    "BNNSDataTypeFloatBit",
    "BNNSDataTypeIndexed1",
    "BNNSDataTypeIndexed2",
    "BNNSDataTypeIndexed4",
    "BNNSDataTypeIndexed8",
    "BNNSDataTypeIndexedBit",
    "BNNSDataTypeInt1",
    "BNNSDataTypeInt16",
    "BNNSDataTypeInt2",
    "BNNSDataTypeInt32",
    "BNNSDataTypeInt4",
    "BNNSDataTypeInt64",
    "BNNSDataTypeInt8",
    "BNNSDataTypeIntBit",
    "BNNSDataTypeMiscellaneousBit",
    "BNNSDataTypeUInt1",
    "BNNSDataTypeUInt16",
    "BNNSDataTypeUInt2",
    "BNNSDataTypeUInt3",
    "BNNSDataTypeUInt32",
    "BNNSDataTypeUInt4",
    "BNNSDataTypeUInt6",
    "BNNSDataTypeUInt64",
    "BNNSDataTypeUInt8",
    "BNNSDataTypeUIntBit",
    "BNNSDescriptorType",
    "BNNSEmbeddingFlagScaleGradientByFrequency",
    "BNNSEmbeddingFlags",
    "BNNSFilterType",
    "BNNSFlags",
    "BNNSFlagsUseClientPtr",
    "BNNSFullyConnected",
    "BNNSGroupNorm",
    "BNNSInstanceNorm",
    "BNNSInterpolationMethod",
    "BNNSInterpolationMethodLinear",
    "BNNSInterpolationMethodNearest",
    "BNNSL2Norm",
    "BNNSLayerFlags",
    "BNNSLayerFlagsLSTMBidirectional",
    "BNNSLayerFlagsLSTMDefaultActivations",
    "BNNSLayerNorm",
    "BNNSLinearSamplingAlignCorners",
    "BNNSLinearSamplingDefault",
    "BNNSLinearSamplingMode",
    "BNNSLinearSamplingOffsetCorners",
    "BNNSLinearSamplingStrictAlignCorners",
    "BNNSLinearSamplingUnalignCorners",
    "BNNSLossFunction",
    "BNNSLossFunctionCategoricalCrossEntropy",
    "BNNSLossFunctionCosineDistance",
    "BNNSLossFunctionHinge",
    "BNNSLossFunctionHuber",
    "BNNSLossFunctionLog",
    "BNNSLossFunctionMeanAbsoluteError",
    "BNNSLossFunctionMeanSquareError",
    "BNNSLossFunctionSigmoidCrossEntropy",
    "BNNSLossFunctionSoftmaxCrossEntropy",
    "BNNSLossFunctionYolo",
    "BNNSLossReductionFunction",
    "BNNSLossReductionMean",
    "BNNSLossReductionNonZeroWeightMean",
    "BNNSLossReductionNone",
    "BNNSLossReductionSum",
    "BNNSLossReductionWeightedMean",
    "BNNSNDArrayFlagBackpropAccumulate",
    "BNNSNDArrayFlagBackpropSet",
    "BNNSNDArrayFlags",
    "BNNSNormType",
    "BNNSOptimizerClippingByGlobalNorm",
    "BNNSOptimizerClippingByNorm",
    "BNNSOptimizerClippingByValue",
    "BNNSOptimizerClippingFunction",
    "BNNSOptimizerClippingNone",
    "BNNSOptimizerFunction",
    "BNNSOptimizerFunctionAdam",
    "BNNSOptimizerFunctionAdamAMSGrad",
    "BNNSOptimizerFunctionAdamAMSGradWithClipping",
    "BNNSOptimizerFunctionAdamW",
    "BNNSOptimizerFunctionAdamWAMSGrad",
    "BNNSOptimizerFunctionAdamWAMSGradWithClipping",
    "BNNSOptimizerFunctionAdamWWithClipping",
    "BNNSOptimizerFunctionAdamWithClipping",
    "BNNSOptimizerFunctionRMSProp",
    "BNNSOptimizerFunctionRMSPropWithClipping",
    "BNNSOptimizerFunctionSGDMomentum",
    "BNNSOptimizerFunctionSGDMomentumWithClipping",
    "BNNSOptimizerRegularizationFunction",
    "BNNSOptimizerRegularizationL1",
    "BNNSOptimizerRegularizationL2",
    "BNNSOptimizerRegularizationNone",
    "BNNSOptimizerSGDMomentumVariant",
    "BNNSPaddingMode",
    "BNNSPaddingModeConstant",
    "BNNSPaddingModeReflect",
    "BNNSPaddingModeSymmetric",
    "BNNSParameter",
    "BNNSPointerSpecifier",
    "BNNSPointerSpecifierAlpha",
    "BNNSPointerSpecifierBeta",
    "BNNSPoolingFunction",
    "BNNSPoolingFunctionAverage",
    "BNNSPoolingFunctionAverageCountExcludePadding",
    "BNNSPoolingFunctionAverageCountIncludePadding",
    "BNNSPoolingFunctionL2Norm",
    "BNNSPoolingFunctionMax",
    "BNNSPoolingFunctionUnMax",
    "BNNSQuantization",
    "BNNSQuantizerFunction",
    "BNNSQuantizerFunctionDequantize",
    "BNNSQuantizerFunctionQuantize",
    "BNNSRandomGeneratorMethod",
    "BNNSRandomGeneratorMethodAES_CTR",
    "BNNSReduceFunction",
    "BNNSReduceFunctionAll",
    "BNNSReduceFunctionAny",
    "BNNSReduceFunctionArgMax",
    "BNNSReduceFunctionArgMin",
    "BNNSReduceFunctionL1Norm",
    "BNNSReduceFunctionL2Norm",
    "BNNSReduceFunctionLogSum",
    "BNNSReduceFunctionLogSumExp",
    "BNNSReduceFunctionLogicalAnd",
    "BNNSReduceFunctionLogicalOr",
    "BNNSReduceFunctionMax",
    "BNNSReduceFunctionMean",
    "BNNSReduceFunctionMeanNonZero",
    "BNNSReduceFunctionMin",
    "BNNSReduceFunctionNone",
    "BNNSReduceFunctionProduct",
    "BNNSReduceFunctionSum",
    "BNNSReduceFunctionSumLog",
    "BNNSReduceFunctionSumSquare",
    "BNNSRelationalOperator",
    "BNNSRelationalOperatorEqual",
    "BNNSRelationalOperatorGreater",
    "BNNSRelationalOperatorGreaterEqual",
    "BNNSRelationalOperatorLess",
    "BNNSRelationalOperatorLessEqual",
    "BNNSRelationalOperatorLogicalAND",
    "BNNSRelationalOperatorLogicalNAND",
    "BNNSRelationalOperatorLogicalNOR",
    "BNNSRelationalOperatorLogicalNOT",
    "BNNSRelationalOperatorLogicalOR",
    "BNNSRelationalOperatorLogicalXOR",
    "BNNSRelationalOperatorNotEqual",
    "BNNSSGDMomentumVariant0",
    "BNNSSGDMomentumVariant1",
    "BNNSSGDMomentumVariant2",
    "BNNSSample",
    "BNNSShuffleType",
    "BNNSShuffleTypeDepthToSpaceNCHW",
    "BNNSShuffleTypePixelShuffleNCHW",
    "BNNSShuffleTypePixelUnshuffleNCHW",
    "BNNSShuffleTypeSpaceToDepthNCHW",
    "BNNSSparsityType",
    "BNNSSparsityTypeUnstructured",
    "BNNSTargetSystem",
    "BNNSTargetSystemGeneric",
    "BNNSTransposedConvolution",
    "BNNS_MAX_TENSOR_DIMENSION",
]

BNNS_MAX_TENSOR_DIMENSION = 8


class BNNSDataType(CEnum):
    """Element type of an array: class bit plus width in bits.

    >>> from openbnns.capi import *
    >>> int(BNNSDataTypeBoolean), BNNSDataType(1048584)
    (1048584, BNNSDataTypeBoolean)
    """

    BNNSDataTypeFloatBit = 65536
    BNNSDataTypeFloat16 = 65552
    BNNSDataTypeFloat32 = 65568
    BNNSDataTypeBFloat16 = 98320
    BNNSDataTypeIntBit = 131072
    BNNSDataTypeInt1 = 131073
    BNNSDataTypeInt2 = 131074
    BNNSDataTypeInt4 = 131076
    BNNSDataTypeInt8 = 131080
    BNNSDataTypeInt16 = 131088
    BNNSDataTypeInt32 = 131104
    BNNSDataTypeInt64 = 131136
    BNNSDataTypeUIntBit = 262144
    BNNSDataTypeUInt1 = 262145
    BNNSDataTypeUInt2 = 262146
    BNNSDataTypeUInt3 = 262147
    BNNSDataTypeUInt4 = 262148
    BNNSDataTypeUInt6 = 262150
    BNNSDataTypeUInt8 = 262152
    BNNSDataTypeUInt16 = 262160
    BNNSDataTypeUInt32 = 262176
    BNNSDataTypeUInt64 = 262208
    BNNSDataTypeIndexedBit = 524288
    BNNSDataTypeIndexed1 = 524289
    BNNSDataTypeIndexed2 = 524290
    BNNSDataTypeIndexed4 = 524292
    BNNSDataTypeIndexed8 = 524296
    BNNSDataTypeMiscellaneousBit = 1048576
    BNNSDataTypeBoolean = 1048584


BNNSDataTypeFloatBit = BNNSDataType.BNNSDataTypeFloatBit
BNNSDataTypeFloat16 = BNNSDataType.BNNSDataTypeFloat16
BNNSDataTypeFloat32 = BNNSDataType.BNNSDataTypeFloat32
BNNSDataTypeBFloat16 = BNNSDataType.BNNSDataTypeBFloat16
BNNSDataTypeIntBit = BNNSDataType.BNNSDataTypeIntBit
BNNSDataTypeInt1 = BNNSDataType.BNNSDataTypeInt1
BNNSDataTypeInt2 = BNNSDataType.BNNSDataTypeInt2
BNNSDataTypeInt4 = BNNSDataType.BNNSDataTypeInt4
BNNSDataTypeInt8 = BNNSDataType.BNNSDataTypeInt8
BNNSDataTypeInt16 = BNNSDataType.BNNSDataTypeInt16
BNNSDataTypeInt32 = BNNSDataType.BNNSDataTypeInt32
BNNSDataTypeInt64 = BNNSDataType.BNNSDataTypeInt64
BNNSDataTypeUIntBit = BNNSDataType.BNNSDataTypeUIntBit
BNNSDataTypeUInt1 = BNNSDataType.BNNSDataTypeUInt1
BNNSDataTypeUInt2 = BNNSDataType.BNNSDataTypeUInt2
BNNSDataTypeUInt3 = BNNSDataType.BNNSDataTypeUInt3
BNNSDataTypeUInt4 = BNNSDataType.BNNSDataTypeUInt4
BNNSDataTypeUInt6 = BNNSDataType.BNNSDataTypeUInt6
BNNSDataTypeUInt8 = BNNSDataType.BNNSDataTypeUInt8
BNNSDataTypeUInt16 = BNNSDataType.BNNSDataTypeUInt16
BNNSDataTypeUInt32 = BNNSDataType.BNNSDataTypeUInt32
BNNSDataTypeUInt64 = BNNSDataType.BNNSDataTypeUInt64
BNNSDataTypeIndexedBit = BNNSDataType.BNNSDataTypeIndexedBit
BNNSDataTypeIndexed1 = BNNSDataType.BNNSDataTypeIndexed1
BNNSDataTypeIndexed2 = BNNSDataType.BNNSDataTypeIndexed2
BNNSDataTypeIndexed4 = BNNSDataType.BNNSDataTypeIndexed4
BNNSDataTypeIndexed8 = BNNSDataType.BNNSDataTypeIndexed8
BNNSDataTypeMiscellaneousBit = BNNSDataType.BNNSDataTypeMiscellaneousBit
BNNSDataTypeBoolean = BNNSDataType.BNNSDataTypeBoolean


class BNNSDataLayout(CEnum):
    """Rank of an array and the meaning of its axes; the rank is `layout >> 16`.

    >>> from openbnns.capi import *
    >>> int(BNNSDataLayout8DFirstMajor), BNNSDataLayout(557057)
    (557057, BNNSDataLayout8DFirstMajor)
    """

    BNNSDataLayoutVector = 65536
    BNNSDataLayout1DLastMajor = 98304
    BNNSDataLayout1DFirstMajor = 98305
    BNNSDataLayoutRowMajorMatrix = 131072
    BNNSDataLayoutColumnMajorMatrix = 131073
    BNNSDataLayout2DLastMajor = 163840
    BNNSDataLayout2DFirstMajor = 163841
    BNNSDataLayoutFullyConnectedSparse = 135169
    BNNSDataLayoutImageCHW = 196608
    BNNSDataLayoutSNE = 196609
    BNNSDataLayoutNSE = 196610
    BNNSDataLayoutMHA_DHK = 196611
    BNNSDataLayout3DLastMajor = 229376
    BNNSDataLayout3DFirstMajor = 229377
    BNNSDataLayoutConvolutionWeightsOIHW = 262144
    BNNSDataLayoutConvolutionWeightsOIHrWr = 262145
    BNNSDataLayoutConvolutionWeightsIOHrWr = 262146
    BNNSDataLayoutConvolutionWeightsOIHW_Pack32 = 262160
    BNNSDataLayout4DLastMajor = 294912
    BNNSDataLayout4DFirstMajor = 294913
    BNNSDataLayout5DLastMajor = 360448
    BNNSDataLayout5DFirstMajor = 360449
    BNNSDataLayout6DLastMajor = 425984
    BNNSDataLayout6DFirstMajor = 425985
    BNNSDataLayout7DLastMajor = 491520
    BNNSDataLayout7DFirstMajor = 491521
    BNNSDataLayout8DLastMajor = 557056
    BNNSDataLayout8DFirstMajor = 557057


BNNSDataLayoutVector = BNNSDataLayout.BNNSDataLayoutVector
BNNSDataLayout1DLastMajor = BNNSDataLayout.BNNSDataLayout1DLastMajor
BNNSDataLayout1DFirstMajor = BNNSDataLayout.BNNSDataLayout1DFirstMajor
BNNSDataLayoutRowMajorMatrix = BNNSDataLayout.BNNSDataLayoutRowMajorMatrix
BNNSDataLayoutColumnMajorMatrix = BNNSDataLayout.BNNSDataLayoutColumnMajorMatrix
BNNSDataLayout2DLastMajor = BNNSDataLayout.BNNSDataLayout2DLastMajor
BNNSDataLayout2DFirstMajor = BNNSDataLayout.BNNSDataLayout2DFirstMajor
BNNSDataLayoutFullyConnectedSparse = BNNSDataLayout.BNNSDataLayoutFullyConnectedSparse
BNNSDataLayoutImageCHW = BNNSDataLayout.BNNSDataLayoutImageCHW
BNNSDataLayoutSNE = BNNSDataLayout.BNNSDataLayoutSNE
BNNSDataLayoutNSE = BNNSDataLayout.BNNSDataLayoutNSE
BNNSDataLayoutMHA_DHK = BNNSDataLayout.BNNSDataLayoutMHA_DHK
BNNSDataLayout3DLastMajor = BNNSDataLayout.BNNSDataLayout3DLastMajor
BNNSDataLayout3DFirstMajor = BNNSDataLayout.BNNSDataLayout3DFirstMajor
BNNSDataLayoutConvolutionWeightsOIHW = BNNSDataLayout.BNNSDataLayoutConvolutionWeightsOIHW
BNNSDataLayoutConvolutionWeightsOIHrWr = BNNSDataLayout.BNNSDataLayoutConvolutionWeightsOIHrWr
BNNSDataLayoutConvolutionWeightsIOHrWr = BNNSDataLayout.BNNSDataLayoutConvolutionWeightsIOHrWr
BNNSDataLayoutConvolutionWeightsOIHW_Pack32 = BNNSDataLayout.BNNSDataLayoutConvolutionWeightsOIHW_Pack32
BNNSDataLayout4DLastMajor = BNNSDataLayout.BNNSDataLayout4DLastMajor
BNNSDataLayout4DFirstMajor = BNNSDataLayout.BNNSDataLayout4DFirstMajor
BNNSDataLayout5DLastMajor = BNNSDataLayout.BNNSDataLayout5DLastMajor
BNNSDataLayout5DFirstMajor = BNNSDataLayout.BNNSDataLayout5DFirstMajor
BNNSDataLayout6DLastMajor = BNNSDataLayout.BNNSDataLayout6DLastMajor
BNNSDataLayout6DFirstMajor = BNNSDataLayout.BNNSDataLayout6DFirstMajor
BNNSDataLayout7DLastMajor = BNNSDataLayout.BNNSDataLayout7DLastMajor
BNNSDataLayout7DFirstMajor = BNNSDataLayout.BNNSDataLayout7DFirstMajor
BNNSDataLayout8DLastMajor = BNNSDataLayout.BNNSDataLayout8DLastMajor
BNNSDataLayout8DFirstMajor = BNNSDataLayout.BNNSDataLayout8DFirstMajor


class BNNSActivationFunction(CEnum):
    """Activation applied to a result, alone or fused into another layer.

    >>> from openbnns.capi import *
    >>> int(BNNSActivationFunctionGELUApproximationSigmoid), BNNSActivationFunction(35)
    (35, BNNSActivationFunctionGELUApproximationSigmoid)
    """

    BNNSActivationFunctionIdentity = 0
    BNNSActivationFunctionRectifiedLinear = 1
    BNNSActivationFunctionLeakyRectifiedLinear = 2
    BNNSActivationFunctionSigmoid = 3
    BNNSActivationFunctionTanh = 4
    BNNSActivationFunctionScaledTanh = 5
    BNNSActivationFunctionAbs = 6
    BNNSActivationFunctionLinear = 7
    BNNSActivationFunctionClamp = 8
    BNNSActivationFunctionIntegerLinearSaturate = 9
    BNNSActivationFunctionIntegerLinearSaturatePerChannel = 10
    BNNSActivationFunctionSoftmax = 11
    BNNSActivationFunctionGELUApproximation = 12
    BNNSActivationFunctionGumbel = 13
    BNNSActivationFunctionGumbelMax = 14
    BNNSActivationFunctionHardSigmoid = 15
    BNNSActivationFunctionSoftplus = 16
    BNNSActivationFunctionSoftsign = 17
    BNNSActivationFunctionELU = 18
    BNNSActivationFunctionClampedLeakyRectifiedLinear = 19
    BNNSActivationFunctionLinearWithBias = 20
    BNNSActivationFunctionLogSoftmax = 21
    BNNSActivationFunctionLogSigmoid = 22
    BNNSActivationFunctionSELU = 23
    BNNSActivationFunctionCELU = 24
    BNNSActivationFunctionHardShrink = 25
    BNNSActivationFunctionSoftShrink = 26
    BNNSActivationFunctionTanhShrink = 27
    BNNSActivationFunctionThreshold = 28
    BNNSActivationFunctionPReLUPerChannel = 29
    BNNSActivationFunctionGELUApproximation2 = 30
    BNNSActivationFunctionSiLU = 31
    BNNSActivationFunctionReLU6 = 32
    BNNSActivationFunctionErf = 33
    BNNSActivationFunctionGELU = 34
    BNNSActivationFunctionGELUApproximationSigmoid = 35
    BNNSActivationFunctionHardSwish = 30


BNNSActivationFunctionIdentity = BNNSActivationFunction.BNNSActivationFunctionIdentity
BNNSActivationFunctionRectifiedLinear = BNNSActivationFunction.BNNSActivationFunctionRectifiedLinear
BNNSActivationFunctionLeakyRectifiedLinear = BNNSActivationFunction.BNNSActivationFunctionLeakyRectifiedLinear
BNNSActivationFunctionSigmoid = BNNSActivationFunction.BNNSActivationFunctionSigmoid
BNNSActivationFunctionTanh = BNNSActivationFunction.BNNSActivationFunctionTanh
BNNSActivationFunctionScaledTanh = BNNSActivationFunction.BNNSActivationFunctionScaledTanh
BNNSActivationFunctionAbs = BNNSActivationFunction.BNNSActivationFunctionAbs
BNNSActivationFunctionLinear = BNNSActivationFunction.BNNSActivationFunctionLinear
BNNSActivationFunctionClamp = BNNSActivationFunction.BNNSActivationFunctionClamp
BNNSActivationFunctionIntegerLinearSaturate = BNNSActivationFunction.BNNSActivationFunctionIntegerLinearSaturate
BNNSActivationFunctionIntegerLinearSaturatePerChannel = (
    BNNSActivationFunction.BNNSActivationFunctionIntegerLinearSaturatePerChannel
)
BNNSActivationFunctionSoftmax = BNNSActivationFunction.BNNSActivationFunctionSoftmax
BNNSActivationFunctionGELUApproximation = BNNSActivationFunction.BNNSActivationFunctionGELUApproximation
BNNSActivationFunctionGumbel = BNNSActivationFunction.BNNSActivationFunctionGumbel
BNNSActivationFunctionGumbelMax = BNNSActivationFunction.BNNSActivationFunctionGumbelMax
BNNSActivationFunctionHardSigmoid = BNNSActivationFunction.BNNSActivationFunctionHardSigmoid
BNNSActivationFunctionSoftplus = BNNSActivationFunction.BNNSActivationFunctionSoftplus
BNNSActivationFunctionSoftsign = BNNSActivationFunction.BNNSActivationFunctionSoftsign
BNNSActivationFunctionELU = BNNSActivationFunction.BNNSActivationFunctionELU
BNNSActivationFunctionClampedLeakyRectifiedLinear = (
    BNNSActivationFunction.BNNSActivationFunctionClampedLeakyRectifiedLinear
)
BNNSActivationFunctionLinearWithBias = BNNSActivationFunction.BNNSActivationFunctionLinearWithBias
BNNSActivationFunctionLogSoftmax = BNNSActivationFunction.BNNSActivationFunctionLogSoftmax
BNNSActivationFunctionLogSigmoid = BNNSActivationFunction.BNNSActivationFunctionLogSigmoid
BNNSActivationFunctionSELU = BNNSActivationFunction.BNNSActivationFunctionSELU
BNNSActivationFunctionCELU = BNNSActivationFunction.BNNSActivationFunctionCELU
BNNSActivationFunctionHardShrink = BNNSActivationFunction.BNNSActivationFunctionHardShrink
BNNSActivationFunctionSoftShrink = BNNSActivationFunction.BNNSActivationFunctionSoftShrink
BNNSActivationFunctionTanhShrink = BNNSActivationFunction.BNNSActivationFunctionTanhShrink
BNNSActivationFunctionThreshold = BNNSActivationFunction.BNNSActivationFunctionThreshold
BNNSActivationFunctionPReLUPerChannel = BNNSActivationFunction.BNNSActivationFunctionPReLUPerChannel
BNNSActivationFunctionGELUApproximation2 = BNNSActivationFunction.BNNSActivationFunctionGELUApproximation2
BNNSActivationFunctionSiLU = BNNSActivationFunction.BNNSActivationFunctionSiLU
BNNSActivationFunctionReLU6 = BNNSActivationFunction.BNNSActivationFunctionReLU6
BNNSActivationFunctionErf = BNNSActivationFunction.BNNSActivationFunctionErf
BNNSActivationFunctionGELU = BNNSActivationFunction.BNNSActivationFunctionGELU
BNNSActivationFunctionGELUApproximationSigmoid = BNNSActivationFunction.BNNSActivationFunctionGELUApproximationSigmoid
BNNSActivationFunctionHardSwish = BNNSActivationFunction.BNNSActivationFunctionHardSwish


class BNNSPoolingFunction(CEnum):
    """How the cells of a pooling window become one value.

    >>> from openbnns.capi import *
    >>> int(BNNSPoolingFunctionL2Norm), BNNSPoolingFunction(4)
    (4, BNNSPoolingFunctionL2Norm)
    """

    BNNSPoolingFunctionMax = 0
    BNNSPoolingFunctionAverageCountIncludePadding = 1
    BNNSPoolingFunctionAverageCountExcludePadding = 2
    BNNSPoolingFunctionUnMax = 3
    BNNSPoolingFunctionL2Norm = 4
    BNNSPoolingFunctionAverage = 1


BNNSPoolingFunctionMax = BNNSPoolingFunction.BNNSPoolingFunctionMax
BNNSPoolingFunctionAverageCountIncludePadding = BNNSPoolingFunction.BNNSPoolingFunctionAverageCountIncludePadding
BNNSPoolingFunctionAverageCountExcludePadding = BNNSPoolingFunction.BNNSPoolingFunctionAverageCountExcludePadding
BNNSPoolingFunctionUnMax = BNNSPoolingFunction.BNNSPoolingFunctionUnMax
BNNSPoolingFunctionL2Norm = BNNSPoolingFunction.BNNSPoolingFunctionL2Norm
BNNSPoolingFunctionAverage = BNNSPoolingFunction.BNNSPoolingFunctionAverage


class BNNSFlags(CFlag):
    """Options of a filter, for `BNNSFilterParameters.flags`.

    >>> from openbnns.capi import *
    >>> int(BNNSFlagsUseClientPtr), BNNSFlags(1)
    (1, BNNSFlagsUseClientPtr)
    """

    BNNSFlagsUseClientPtr = 1


BNNSFlagsUseClientPtr = BNNSFlags.BNNSFlagsUseClientPtr


class BNNSLossFunction(CEnum):
    """Loss of a loss layer.

    >>> from openbnns.capi import *
    >>> int(BNNSLossFunctionCategoricalCrossEntropy), BNNSLossFunction(10)
    (10, BNNSLossFunctionCategoricalCrossEntropy)
    """

    BNNSLossFunctionSoftmaxCrossEntropy = 1
    BNNSLossFunctionSigmoidCrossEntropy = 2
    BNNSLossFunctionMeanSquareError = 3
    BNNSLossFunctionHuber = 4
    BNNSLossFunctionYolo = 5
    BNNSLossFunctionLog = 6
    BNNSLossFunctionCosineDistance = 7
    BNNSLossFunctionHinge = 8
    BNNSLossFunctionMeanAbsoluteError = 9
    BNNSLossFunctionCategoricalCrossEntropy = 10


BNNSLossFunctionSoftmaxCrossEntropy = BNNSLossFunction.BNNSLossFunctionSoftmaxCrossEntropy
BNNSLossFunctionSigmoidCrossEntropy = BNNSLossFunction.BNNSLossFunctionSigmoidCrossEntropy
BNNSLossFunctionMeanSquareError = BNNSLossFunction.BNNSLossFunctionMeanSquareError
BNNSLossFunctionHuber = BNNSLossFunction.BNNSLossFunctionHuber
BNNSLossFunctionYolo = BNNSLossFunction.BNNSLossFunctionYolo
BNNSLossFunctionLog = BNNSLossFunction.BNNSLossFunctionLog
BNNSLossFunctionCosineDistance = BNNSLossFunction.BNNSLossFunctionCosineDistance
BNNSLossFunctionHinge = BNNSLossFunction.BNNSLossFunctionHinge
BNNSLossFunctionMeanAbsoluteError = BNNSLossFunction.BNNSLossFunctionMeanAbsoluteError
BNNSLossFunctionCategoricalCrossEntropy = BNNSLossFunction.BNNSLossFunctionCategoricalCrossEntropy


class BNNSLossReductionFunction(CEnum):
    """How the losses of a batch become the output of a loss layer.

    >>> from openbnns.capi import *
    >>> int(BNNSLossReductionNonZeroWeightMean), BNNSLossReductionFunction(4)
    (4, BNNSLossReductionNonZeroWeightMean)
    """

    BNNSLossReductionNone = 0
    BNNSLossReductionSum = 1
    BNNSLossReductionWeightedMean = 2
    BNNSLossReductionMean = 3
    BNNSLossReductionNonZeroWeightMean = 4


BNNSLossReductionNone = BNNSLossReductionFunction.BNNSLossReductionNone
BNNSLossReductionSum = BNNSLossReductionFunction.BNNSLossReductionSum
BNNSLossReductionWeightedMean = BNNSLossReductionFunction.BNNSLossReductionWeightedMean
BNNSLossReductionMean = BNNSLossReductionFunction.BNNSLossReductionMean
BNNSLossReductionNonZeroWeightMean = BNNSLossReductionFunction.BNNSLossReductionNonZeroWeightMean


class BNNSArithmeticFunction(CEnum):
    """Elementwise operation of an arithmetic layer.

    >>> from openbnns.capi import *
    >>> int(BNNSArithmeticErf), BNNSArithmeticFunction(40)
    (40, BNNSArithmeticErf)
    """

    BNNSArithmeticAdd = 0
    BNNSArithmeticSubtract = 1
    BNNSArithmeticMultiply = 2
    BNNSArithmeticDivide = 3
    BNNSArithmeticSquareRoot = 4
    BNNSArithmeticReciprocalSquareRoot = 5
    BNNSArithmeticCeil = 6
    BNNSArithmeticFloor = 7
    BNNSArithmeticRound = 8
    BNNSArithmeticSin = 9
    BNNSArithmeticCos = 10
    BNNSArithmeticTan = 11
    BNNSArithmeticAsin = 12
    BNNSArithmeticAcos = 13
    BNNSArithmeticAtan = 14
    BNNSArithmeticSinh = 15
    BNNSArithmeticCosh = 16
    BNNSArithmeticTanh = 17
    BNNSArithmeticAsinh = 18
    BNNSArithmeticAcosh = 19
    BNNSArithmeticAtanh = 20
    BNNSArithmeticPow = 21
    BNNSArithmeticExp = 22
    BNNSArithmeticExp2 = 23
    BNNSArithmeticLog = 24
    BNNSArithmeticLog2 = 25
    BNNSArithmeticMultiplyNoNaN = 26
    BNNSArithmeticDivideNoNaN = 27
    BNNSArithmeticMultiplyAdd = 28
    BNNSArithmeticMinimum = 29
    BNNSArithmeticMaximum = 30
    BNNSArithmeticSelect = 31
    BNNSArithmeticAbs = 32
    BNNSArithmeticSign = 33
    BNNSArithmeticNegate = 34
    BNNSArithmeticReciprocal = 35
    BNNSArithmeticSquare = 36
    BNNSArithmeticFloorDivide = 37
    BNNSArithmeticTruncDivide = 38
    BNNSArithmeticTruncRemainder = 39
    BNNSArithmeticErf = 40


BNNSArithmeticAdd = BNNSArithmeticFunction.BNNSArithmeticAdd
BNNSArithmeticSubtract = BNNSArithmeticFunction.BNNSArithmeticSubtract
BNNSArithmeticMultiply = BNNSArithmeticFunction.BNNSArithmeticMultiply
BNNSArithmeticDivide = BNNSArithmeticFunction.BNNSArithmeticDivide
BNNSArithmeticSquareRoot = BNNSArithmeticFunction.BNNSArithmeticSquareRoot
BNNSArithmeticReciprocalSquareRoot = BNNSArithmeticFunction.BNNSArithmeticReciprocalSquareRoot
BNNSArithmeticCeil = BNNSArithmeticFunction.BNNSArithmeticCeil
BNNSArithmeticFloor = BNNSArithmeticFunction.BNNSArithmeticFloor
BNNSArithmeticRound = BNNSArithmeticFunction.BNNSArithmeticRound
BNNSArithmeticSin = BNNSArithmeticFunction.BNNSArithmeticSin
BNNSArithmeticCos = BNNSArithmeticFunction.BNNSArithmeticCos
BNNSArithmeticTan = BNNSArithmeticFunction.BNNSArithmeticTan
BNNSArithmeticAsin = BNNSArithmeticFunction.BNNSArithmeticAsin
BNNSArithmeticAcos = BNNSArithmeticFunction.BNNSArithmeticAcos
BNNSArithmeticAtan = BNNSArithmeticFunction.BNNSArithmeticAtan
BNNSArithmeticSinh = BNNSArithmeticFunction.BNNSArithmeticSinh
BNNSArithmeticCosh = BNNSArithmeticFunction.BNNSArithmeticCosh
BNNSArithmeticTanh = BNNSArithmeticFunction.BNNSArithmeticTanh
BNNSArithmeticAsinh = BNNSArithmeticFunction.BNNSArithmeticAsinh
BNNSArithmeticAcosh = BNNSArithmeticFunction.BNNSArithmeticAcosh
BNNSArithmeticAtanh = BNNSArithmeticFunction.BNNSArithmeticAtanh
BNNSArithmeticPow = BNNSArithmeticFunction.BNNSArithmeticPow
BNNSArithmeticExp = BNNSArithmeticFunction.BNNSArithmeticExp
BNNSArithmeticExp2 = BNNSArithmeticFunction.BNNSArithmeticExp2
BNNSArithmeticLog = BNNSArithmeticFunction.BNNSArithmeticLog
BNNSArithmeticLog2 = BNNSArithmeticFunction.BNNSArithmeticLog2
BNNSArithmeticMultiplyNoNaN = BNNSArithmeticFunction.BNNSArithmeticMultiplyNoNaN
BNNSArithmeticDivideNoNaN = BNNSArithmeticFunction.BNNSArithmeticDivideNoNaN
BNNSArithmeticMultiplyAdd = BNNSArithmeticFunction.BNNSArithmeticMultiplyAdd
BNNSArithmeticMinimum = BNNSArithmeticFunction.BNNSArithmeticMinimum
BNNSArithmeticMaximum = BNNSArithmeticFunction.BNNSArithmeticMaximum
BNNSArithmeticSelect = BNNSArithmeticFunction.BNNSArithmeticSelect
BNNSArithmeticAbs = BNNSArithmeticFunction.BNNSArithmeticAbs
BNNSArithmeticSign = BNNSArithmeticFunction.BNNSArithmeticSign
BNNSArithmeticNegate = BNNSArithmeticFunction.BNNSArithmeticNegate
BNNSArithmeticReciprocal = BNNSArithmeticFunction.BNNSArithmeticReciprocal
BNNSArithmeticSquare = BNNSArithmeticFunction.BNNSArithmeticSquare
BNNSArithmeticFloorDivide = BNNSArithmeticFunction.BNNSArithmeticFloorDivide
BNNSArithmeticTruncDivide = BNNSArithmeticFunction.BNNSArithmeticTruncDivide
BNNSArithmeticTruncRemainder = BNNSArithmeticFunction.BNNSArithmeticTruncRemainder
BNNSArithmeticErf = BNNSArithmeticFunction.BNNSArithmeticErf


class BNNSDescriptorType(CEnum):
    """Role of an arithmetic operand: constant, one per sample, or a trained parameter.

    >>> from openbnns.capi import *
    >>> int(BNNSParameter), BNNSDescriptorType(2)
    (2, BNNSParameter)
    """

    BNNSConstant = 0
    BNNSSample = 1
    BNNSParameter = 2


BNNSConstant = BNNSDescriptorType.BNNSConstant
BNNSSample = BNNSDescriptorType.BNNSSample
BNNSParameter = BNNSDescriptorType.BNNSParameter


class BNNSOptimizerFunction(CEnum):
    """Update rule of an optimizer step; decides which struct of hyperparameters it takes.

    >>> from openbnns.capi import *
    >>> int(BNNSOptimizerFunctionAdamWAMSGradWithClipping), BNNSOptimizerFunction(12)
    (12, BNNSOptimizerFunctionAdamWAMSGradWithClipping)
    """

    BNNSOptimizerFunctionSGDMomentum = 1
    BNNSOptimizerFunctionAdam = 2
    BNNSOptimizerFunctionRMSProp = 3
    BNNSOptimizerFunctionAdamW = 4
    BNNSOptimizerFunctionAdamAMSGrad = 5
    BNNSOptimizerFunctionAdamWAMSGrad = 6
    BNNSOptimizerFunctionSGDMomentumWithClipping = 7
    BNNSOptimizerFunctionAdamWithClipping = 8
    BNNSOptimizerFunctionRMSPropWithClipping = 9
    BNNSOptimizerFunctionAdamWWithClipping = 10
    BNNSOptimizerFunctionAdamAMSGradWithClipping = 11
    BNNSOptimizerFunctionAdamWAMSGradWithClipping = 12


BNNSOptimizerFunctionSGDMomentum = BNNSOptimizerFunction.BNNSOptimizerFunctionSGDMomentum
BNNSOptimizerFunctionAdam = BNNSOptimizerFunction.BNNSOptimizerFunctionAdam
BNNSOptimizerFunctionRMSProp = BNNSOptimizerFunction.BNNSOptimizerFunctionRMSProp
BNNSOptimizerFunctionAdamW = BNNSOptimizerFunction.BNNSOptimizerFunctionAdamW
BNNSOptimizerFunctionAdamAMSGrad = BNNSOptimizerFunction.BNNSOptimizerFunctionAdamAMSGrad
BNNSOptimizerFunctionAdamWAMSGrad = BNNSOptimizerFunction.BNNSOptimizerFunctionAdamWAMSGrad
BNNSOptimizerFunctionSGDMomentumWithClipping = BNNSOptimizerFunction.BNNSOptimizerFunctionSGDMomentumWithClipping
BNNSOptimizerFunctionAdamWithClipping = BNNSOptimizerFunction.BNNSOptimizerFunctionAdamWithClipping
BNNSOptimizerFunctionRMSPropWithClipping = BNNSOptimizerFunction.BNNSOptimizerFunctionRMSPropWithClipping
BNNSOptimizerFunctionAdamWWithClipping = BNNSOptimizerFunction.BNNSOptimizerFunctionAdamWWithClipping
BNNSOptimizerFunctionAdamAMSGradWithClipping = BNNSOptimizerFunction.BNNSOptimizerFunctionAdamAMSGradWithClipping
BNNSOptimizerFunctionAdamWAMSGradWithClipping = BNNSOptimizerFunction.BNNSOptimizerFunctionAdamWAMSGradWithClipping


class BNNSOptimizerRegularizationFunction(CEnum):
    """Penalty on the weights that an optimizer adds to the gradient.

    >>> from openbnns.capi import *
    >>> int(BNNSOptimizerRegularizationL2), BNNSOptimizerRegularizationFunction(2)
    (2, BNNSOptimizerRegularizationL2)
    """

    BNNSOptimizerRegularizationNone = 0
    BNNSOptimizerRegularizationL1 = 1
    BNNSOptimizerRegularizationL2 = 2


BNNSOptimizerRegularizationNone = BNNSOptimizerRegularizationFunction.BNNSOptimizerRegularizationNone
BNNSOptimizerRegularizationL1 = BNNSOptimizerRegularizationFunction.BNNSOptimizerRegularizationL1
BNNSOptimizerRegularizationL2 = BNNSOptimizerRegularizationFunction.BNNSOptimizerRegularizationL2


class BNNSOptimizerSGDMomentumVariant(CEnum):
    """Which of three forms of momentum stochastic gradient descent uses.

    >>> from openbnns.capi import *
    >>> int(BNNSSGDMomentumVariant2), BNNSOptimizerSGDMomentumVariant(2)
    (2, BNNSSGDMomentumVariant2)
    """

    BNNSSGDMomentumVariant0 = 0
    BNNSSGDMomentumVariant1 = 1
    BNNSSGDMomentumVariant2 = 2


BNNSSGDMomentumVariant0 = BNNSOptimizerSGDMomentumVariant.BNNSSGDMomentumVariant0
BNNSSGDMomentumVariant1 = BNNSOptimizerSGDMomentumVariant.BNNSSGDMomentumVariant1
BNNSSGDMomentumVariant2 = BNNSOptimizerSGDMomentumVariant.BNNSSGDMomentumVariant2


class BNNSOptimizerClippingFunction(CEnum):
    """How an optimizer limits gradients.

    >>> from openbnns.capi import *
    >>> int(BNNSOptimizerClippingByGlobalNorm), BNNSOptimizerClippingFunction(3)
    (3, BNNSOptimizerClippingByGlobalNorm)
    """

    BNNSOptimizerClippingNone = 0
    BNNSOptimizerClippingByValue = 1
    BNNSOptimizerClippingByNorm = 2
    BNNSOptimizerClippingByGlobalNorm = 3


BNNSOptimizerClippingNone = BNNSOptimizerClippingFunction.BNNSOptimizerClippingNone
BNNSOptimizerClippingByValue = BNNSOptimizerClippingFunction.BNNSOptimizerClippingByValue
BNNSOptimizerClippingByNorm = BNNSOptimizerClippingFunction.BNNSOptimizerClippingByNorm
BNNSOptimizerClippingByGlobalNorm = BNNSOptimizerClippingFunction.BNNSOptimizerClippingByGlobalNorm


class BNNSNormType(CEnum):
    """Norm of the norm and clipping functions.

    >>> from openbnns.capi import *
    >>> int(BNNSL2Norm), BNNSNormType(1)
    (1, BNNSL2Norm)
    """

    BNNSL2Norm = 1


BNNSL2Norm = BNNSNormType.BNNSL2Norm


class BNNSFilterType(CEnum):
    """Kind of a filter: member of a fused filter, or which normalization to create.

    >>> from openbnns.capi import *
    >>> int(BNNSArithmetic), BNNSFilterType(8)
    (8, BNNSArithmetic)
    """

    BNNSConvolution = 0
    BNNSFullyConnected = 1
    BNNSBatchNorm = 2
    BNNSInstanceNorm = 3
    BNNSLayerNorm = 4
    BNNSGroupNorm = 5
    BNNSTransposedConvolution = 6
    BNNSQuantization = 7
    BNNSArithmetic = 8


BNNSConvolution = BNNSFilterType.BNNSConvolution
BNNSFullyConnected = BNNSFilterType.BNNSFullyConnected
BNNSBatchNorm = BNNSFilterType.BNNSBatchNorm
BNNSInstanceNorm = BNNSFilterType.BNNSInstanceNorm
BNNSLayerNorm = BNNSFilterType.BNNSLayerNorm
BNNSGroupNorm = BNNSFilterType.BNNSGroupNorm
BNNSTransposedConvolution = BNNSFilterType.BNNSTransposedConvolution
BNNSQuantization = BNNSFilterType.BNNSQuantization
BNNSArithmetic = BNNSFilterType.BNNSArithmetic


class BNNSReduceFunction(CEnum):
    """How the values along the reduced axes become one.

    >>> from openbnns.capi import *
    >>> int(BNNSReduceFunctionLogSum), BNNSReduceFunction(16)
    (16, BNNSReduceFunctionLogSum)
    """

    BNNSReduceFunctionMax = 0
    BNNSReduceFunctionMin = 1
    BNNSReduceFunctionArgMax = 2
    BNNSReduceFunctionArgMin = 3
    BNNSReduceFunctionMean = 4
    BNNSReduceFunctionMeanNonZero = 5
    BNNSReduceFunctionSum = 6
    BNNSReduceFunctionSumSquare = 7
    BNNSReduceFunctionSumLog = 8
    BNNSReduceFunctionL1Norm = 9
    BNNSReduceFunctionLogicalOr = 10
    BNNSReduceFunctionLogicalAnd = 11
    BNNSReduceFunctionL2Norm = 12
    BNNSReduceFunctionLogSumExp = 13
    BNNSReduceFunctionProduct = 14
    BNNSReduceFunctionNone = 15
    BNNSReduceFunctionLogSum = 16
    BNNSReduceFunctionAny = 10
    BNNSReduceFunctionAll = 11


BNNSReduceFunctionMax = BNNSReduceFunction.BNNSReduceFunctionMax
BNNSReduceFunctionMin = BNNSReduceFunction.BNNSReduceFunctionMin
BNNSReduceFunctionArgMax = BNNSReduceFunction.BNNSReduceFunctionArgMax
BNNSReduceFunctionArgMin = BNNSReduceFunction.BNNSReduceFunctionArgMin
BNNSReduceFunctionMean = BNNSReduceFunction.BNNSReduceFunctionMean
BNNSReduceFunctionMeanNonZero = BNNSReduceFunction.BNNSReduceFunctionMeanNonZero
BNNSReduceFunctionSum = BNNSReduceFunction.BNNSReduceFunctionSum
BNNSReduceFunctionSumSquare = BNNSReduceFunction.BNNSReduceFunctionSumSquare
BNNSReduceFunctionSumLog = BNNSReduceFunction.BNNSReduceFunctionSumLog
BNNSReduceFunctionL1Norm = BNNSReduceFunction.BNNSReduceFunctionL1Norm
BNNSReduceFunctionLogicalOr = BNNSReduceFunction.BNNSReduceFunctionLogicalOr
BNNSReduceFunctionLogicalAnd = BNNSReduceFunction.BNNSReduceFunctionLogicalAnd
BNNSReduceFunctionL2Norm = BNNSReduceFunction.BNNSReduceFunctionL2Norm
BNNSReduceFunctionLogSumExp = BNNSReduceFunction.BNNSReduceFunctionLogSumExp
BNNSReduceFunctionProduct = BNNSReduceFunction.BNNSReduceFunctionProduct
BNNSReduceFunctionNone = BNNSReduceFunction.BNNSReduceFunctionNone
BNNSReduceFunctionLogSum = BNNSReduceFunction.BNNSReduceFunctionLogSum
BNNSReduceFunctionAny = BNNSReduceFunction.BNNSReduceFunctionAny
BNNSReduceFunctionAll = BNNSReduceFunction.BNNSReduceFunctionAll


class BNNSLayerFlags(CFlag):
    """Options of an LSTM, for `BNNSLayerParametersLSTM.lstm_flags`.

    >>> from openbnns.capi import *
    >>> int(BNNSLayerFlagsLSTMDefaultActivations), BNNSLayerFlags(2)
    (2, BNNSLayerFlagsLSTMDefaultActivations)
    """

    BNNSLayerFlagsLSTMBidirectional = 1
    BNNSLayerFlagsLSTMDefaultActivations = 2


BNNSLayerFlagsLSTMBidirectional = BNNSLayerFlags.BNNSLayerFlagsLSTMBidirectional
BNNSLayerFlagsLSTMDefaultActivations = BNNSLayerFlags.BNNSLayerFlagsLSTMDefaultActivations


class BNNSInterpolationMethod(CEnum):
    """How resizing finds values between samples.

    >>> from openbnns.capi import *
    >>> int(BNNSInterpolationMethodLinear), BNNSInterpolationMethod(1)
    (1, BNNSInterpolationMethodLinear)
    """

    BNNSInterpolationMethodNearest = 0
    BNNSInterpolationMethodLinear = 1


BNNSInterpolationMethodNearest = BNNSInterpolationMethod.BNNSInterpolationMethodNearest
BNNSInterpolationMethodLinear = BNNSInterpolationMethod.BNNSInterpolationMethodLinear


class BNNSLinearSamplingMode(CEnum):
    """Where crop-and-resize places its sample points.

    >>> from openbnns.capi import *
    >>> int(BNNSLinearSamplingOffsetCorners), BNNSLinearSamplingMode(4)
    (4, BNNSLinearSamplingOffsetCorners)
    """

    BNNSLinearSamplingDefault = 0
    BNNSLinearSamplingAlignCorners = 1
    BNNSLinearSamplingUnalignCorners = 2
    BNNSLinearSamplingStrictAlignCorners = 3
    BNNSLinearSamplingOffsetCorners = 4


BNNSLinearSamplingDefault = BNNSLinearSamplingMode.BNNSLinearSamplingDefault
BNNSLinearSamplingAlignCorners = BNNSLinearSamplingMode.BNNSLinearSamplingAlignCorners
BNNSLinearSamplingUnalignCorners = BNNSLinearSamplingMode.BNNSLinearSamplingUnalignCorners
BNNSLinearSamplingStrictAlignCorners = BNNSLinearSamplingMode.BNNSLinearSamplingStrictAlignCorners
BNNSLinearSamplingOffsetCorners = BNNSLinearSamplingMode.BNNSLinearSamplingOffsetCorners


class BNNSBoxCoordinateMode(CEnum):
    """Meaning of the four numbers of a box.

    >>> from openbnns.capi import *
    >>> int(BNNSCenterSizeWidthFirst), BNNSBoxCoordinateMode(3)
    (3, BNNSCenterSizeWidthFirst)
    """

    BNNSCornersHeightFirst = 0
    BNNSCornersWidthFirst = 1
    BNNSCenterSizeHeightFirst = 2
    BNNSCenterSizeWidthFirst = 3


BNNSCornersHeightFirst = BNNSBoxCoordinateMode.BNNSCornersHeightFirst
BNNSCornersWidthFirst = BNNSBoxCoordinateMode.BNNSCornersWidthFirst
BNNSCenterSizeHeightFirst = BNNSBoxCoordinateMode.BNNSCenterSizeHeightFirst
BNNSCenterSizeWidthFirst = BNNSBoxCoordinateMode.BNNSCenterSizeWidthFirst


class BNNSPaddingMode(CEnum):
    """What a padding layer writes outside the input.

    >>> from openbnns.capi import *
    >>> int(BNNSPaddingModeSymmetric), BNNSPaddingMode(2)
    (2, BNNSPaddingModeSymmetric)
    """

    BNNSPaddingModeConstant = 0
    BNNSPaddingModeReflect = 1
    BNNSPaddingModeSymmetric = 2


BNNSPaddingModeConstant = BNNSPaddingMode.BNNSPaddingModeConstant
BNNSPaddingModeReflect = BNNSPaddingMode.BNNSPaddingModeReflect
BNNSPaddingModeSymmetric = BNNSPaddingMode.BNNSPaddingModeSymmetric


class BNNSRelationalOperator(CEnum):
    """Comparison or logical operation on tensors.

    >>> from openbnns.capi import *
    >>> int(BNNSRelationalOperatorLogicalXOR), BNNSRelationalOperator(11)
    (11, BNNSRelationalOperatorLogicalXOR)
    """

    BNNSRelationalOperatorEqual = 0
    BNNSRelationalOperatorLess = 1
    BNNSRelationalOperatorLessEqual = 2
    BNNSRelationalOperatorGreater = 3
    BNNSRelationalOperatorGreaterEqual = 4
    BNNSRelationalOperatorNotEqual = 5
    BNNSRelationalOperatorLogicalAND = 6
    BNNSRelationalOperatorLogicalOR = 7
    BNNSRelationalOperatorLogicalNOT = 8
    BNNSRelationalOperatorLogicalNAND = 9
    BNNSRelationalOperatorLogicalNOR = 10
    BNNSRelationalOperatorLogicalXOR = 11


BNNSRelationalOperatorEqual = BNNSRelationalOperator.BNNSRelationalOperatorEqual
BNNSRelationalOperatorLess = BNNSRelationalOperator.BNNSRelationalOperatorLess
BNNSRelationalOperatorLessEqual = BNNSRelationalOperator.BNNSRelationalOperatorLessEqual
BNNSRelationalOperatorGreater = BNNSRelationalOperator.BNNSRelationalOperatorGreater
BNNSRelationalOperatorGreaterEqual = BNNSRelationalOperator.BNNSRelationalOperatorGreaterEqual
BNNSRelationalOperatorNotEqual = BNNSRelationalOperator.BNNSRelationalOperatorNotEqual
BNNSRelationalOperatorLogicalAND = BNNSRelationalOperator.BNNSRelationalOperatorLogicalAND
BNNSRelationalOperatorLogicalOR = BNNSRelationalOperator.BNNSRelationalOperatorLogicalOR
BNNSRelationalOperatorLogicalNOT = BNNSRelationalOperator.BNNSRelationalOperatorLogicalNOT
BNNSRelationalOperatorLogicalNAND = BNNSRelationalOperator.BNNSRelationalOperatorLogicalNAND
BNNSRelationalOperatorLogicalNOR = BNNSRelationalOperator.BNNSRelationalOperatorLogicalNOR
BNNSRelationalOperatorLogicalXOR = BNNSRelationalOperator.BNNSRelationalOperatorLogicalXOR


class BNNSPointerSpecifier(CEnum):
    """Which internal array of a filter `BNNSGetPointer` gives access to.

    >>> from openbnns.capi import *
    >>> int(BNNSPointerSpecifierBeta), BNNSPointerSpecifier(1)
    (1, BNNSPointerSpecifierBeta)
    """

    BNNSPointerSpecifierAlpha = 0
    BNNSPointerSpecifierBeta = 1


BNNSPointerSpecifierAlpha = BNNSPointerSpecifier.BNNSPointerSpecifierAlpha
BNNSPointerSpecifierBeta = BNNSPointerSpecifier.BNNSPointerSpecifierBeta


class BNNSNDArrayFlags(CEnum):
    """Whether a gradient overwrites its buffer or is added to it.

    >>> from openbnns.capi import *
    >>> int(BNNSNDArrayFlagBackpropAccumulate), BNNSNDArrayFlags(1)
    (1, BNNSNDArrayFlagBackpropAccumulate)
    """

    BNNSNDArrayFlagBackpropSet = 0
    BNNSNDArrayFlagBackpropAccumulate = 1


BNNSNDArrayFlagBackpropSet = BNNSNDArrayFlags.BNNSNDArrayFlagBackpropSet
BNNSNDArrayFlagBackpropAccumulate = BNNSNDArrayFlags.BNNSNDArrayFlagBackpropAccumulate


class BNNSEmbeddingFlags(CFlag):
    """Options of an embedding layer.

    >>> from openbnns.capi import *
    >>> int(BNNSEmbeddingFlagScaleGradientByFrequency), BNNSEmbeddingFlags(1)
    (1, BNNSEmbeddingFlagScaleGradientByFrequency)
    """

    BNNSEmbeddingFlagScaleGradientByFrequency = 1


BNNSEmbeddingFlagScaleGradientByFrequency = BNNSEmbeddingFlags.BNNSEmbeddingFlagScaleGradientByFrequency


class BNNSQuantizerFunction(CEnum):
    """Direction of a quantization layer.

    >>> from openbnns.capi import *
    >>> int(BNNSQuantizerFunctionDequantize), BNNSQuantizerFunction(1)
    (1, BNNSQuantizerFunctionDequantize)
    """

    BNNSQuantizerFunctionQuantize = 0
    BNNSQuantizerFunctionDequantize = 1


BNNSQuantizerFunctionQuantize = BNNSQuantizerFunction.BNNSQuantizerFunctionQuantize
BNNSQuantizerFunctionDequantize = BNNSQuantizerFunction.BNNSQuantizerFunctionDequantize


class BNNSRandomGeneratorMethod(CEnum):
    """Algorithm of a random generator.

    >>> from openbnns.capi import *
    >>> int(BNNSRandomGeneratorMethodAES_CTR), BNNSRandomGeneratorMethod(0)
    (0, BNNSRandomGeneratorMethodAES_CTR)
    """

    BNNSRandomGeneratorMethodAES_CTR = 0


BNNSRandomGeneratorMethodAES_CTR = BNNSRandomGeneratorMethod.BNNSRandomGeneratorMethodAES_CTR


class BNNSSparsityType(CEnum):
    """Pattern of the zeros in sparse weights.

    >>> from openbnns.capi import *
    >>> int(BNNSSparsityTypeUnstructured), BNNSSparsityType(0)
    (0, BNNSSparsityTypeUnstructured)
    """

    BNNSSparsityTypeUnstructured = 0


BNNSSparsityTypeUnstructured = BNNSSparsityType.BNNSSparsityTypeUnstructured


class BNNSTargetSystem(CEnum):
    """Machine that sparse weights are packed for.

    >>> from openbnns.capi import *
    >>> int(BNNSTargetSystemGeneric), BNNSTargetSystem(0)
    (0, BNNSTargetSystemGeneric)
    """

    BNNSTargetSystemGeneric = 0


BNNSTargetSystemGeneric = BNNSTargetSystem.BNNSTargetSystemGeneric


class BNNSShuffleType(CEnum):
    """Rearrangement between channels and space.

    >>> from openbnns.capi import *
    >>> int(BNNSShuffleTypeSpaceToDepthNCHW), BNNSShuffleType(3)
    (3, BNNSShuffleTypeSpaceToDepthNCHW)
    """

    BNNSShuffleTypePixelShuffleNCHW = 0
    BNNSShuffleTypePixelUnshuffleNCHW = 1
    BNNSShuffleTypeDepthToSpaceNCHW = 2
    BNNSShuffleTypeSpaceToDepthNCHW = 3


BNNSShuffleTypePixelShuffleNCHW = BNNSShuffleType.BNNSShuffleTypePixelShuffleNCHW
BNNSShuffleTypePixelUnshuffleNCHW = BNNSShuffleType.BNNSShuffleTypePixelUnshuffleNCHW
BNNSShuffleTypeDepthToSpaceNCHW = BNNSShuffleType.BNNSShuffleTypeDepthToSpaceNCHW
BNNSShuffleTypeSpaceToDepthNCHW = BNNSShuffleType.BNNSShuffleTypeSpaceToDepthNCHW
