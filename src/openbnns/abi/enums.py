"""Enums of the BNNS C interface; every member is also a name of this module.

Written by tools/generate_abi.py from tools/facts; edit those, not this file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .values import CEnum, CFlag

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


(
    BNNSDataTypeFloatBit,
    BNNSDataTypeFloat16,
    BNNSDataTypeFloat32,
    BNNSDataTypeBFloat16,
    BNNSDataTypeIntBit,
    BNNSDataTypeInt1,
    BNNSDataTypeInt2,
    BNNSDataTypeInt4,
    BNNSDataTypeInt8,
    BNNSDataTypeInt16,
    BNNSDataTypeInt32,
    BNNSDataTypeInt64,
    BNNSDataTypeUIntBit,
    BNNSDataTypeUInt1,
    BNNSDataTypeUInt2,
    BNNSDataTypeUInt3,
    BNNSDataTypeUInt4,
    BNNSDataTypeUInt6,
    BNNSDataTypeUInt8,
    BNNSDataTypeUInt16,
    BNNSDataTypeUInt32,
    BNNSDataTypeUInt64,
    BNNSDataTypeIndexedBit,
    BNNSDataTypeIndexed1,
    BNNSDataTypeIndexed2,
    BNNSDataTypeIndexed4,
    BNNSDataTypeIndexed8,
    BNNSDataTypeMiscellaneousBit,
    BNNSDataTypeBoolean,
) = BNNSDataType.__members__.values()


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


(
    BNNSDataLayoutVector,
    BNNSDataLayout1DLastMajor,
    BNNSDataLayout1DFirstMajor,
    BNNSDataLayoutRowMajorMatrix,
    BNNSDataLayoutColumnMajorMatrix,
    BNNSDataLayout2DLastMajor,
    BNNSDataLayout2DFirstMajor,
    BNNSDataLayoutFullyConnectedSparse,
    BNNSDataLayoutImageCHW,
    BNNSDataLayoutSNE,
    BNNSDataLayoutNSE,
    BNNSDataLayoutMHA_DHK,
    BNNSDataLayout3DLastMajor,
    BNNSDataLayout3DFirstMajor,
    BNNSDataLayoutConvolutionWeightsOIHW,
    BNNSDataLayoutConvolutionWeightsOIHrWr,
    BNNSDataLayoutConvolutionWeightsIOHrWr,
    BNNSDataLayoutConvolutionWeightsOIHW_Pack32,
    BNNSDataLayout4DLastMajor,
    BNNSDataLayout4DFirstMajor,
    BNNSDataLayout5DLastMajor,
    BNNSDataLayout5DFirstMajor,
    BNNSDataLayout6DLastMajor,
    BNNSDataLayout6DFirstMajor,
    BNNSDataLayout7DLastMajor,
    BNNSDataLayout7DFirstMajor,
    BNNSDataLayout8DLastMajor,
    BNNSDataLayout8DFirstMajor,
) = BNNSDataLayout.__members__.values()


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


(
    BNNSActivationFunctionIdentity,
    BNNSActivationFunctionRectifiedLinear,
    BNNSActivationFunctionLeakyRectifiedLinear,
    BNNSActivationFunctionSigmoid,
    BNNSActivationFunctionTanh,
    BNNSActivationFunctionScaledTanh,
    BNNSActivationFunctionAbs,
    BNNSActivationFunctionLinear,
    BNNSActivationFunctionClamp,
    BNNSActivationFunctionIntegerLinearSaturate,
    BNNSActivationFunctionIntegerLinearSaturatePerChannel,
    BNNSActivationFunctionSoftmax,
    BNNSActivationFunctionGELUApproximation,
    BNNSActivationFunctionGumbel,
    BNNSActivationFunctionGumbelMax,
    BNNSActivationFunctionHardSigmoid,
    BNNSActivationFunctionSoftplus,
    BNNSActivationFunctionSoftsign,
    BNNSActivationFunctionELU,
    BNNSActivationFunctionClampedLeakyRectifiedLinear,
    BNNSActivationFunctionLinearWithBias,
    BNNSActivationFunctionLogSoftmax,
    BNNSActivationFunctionLogSigmoid,
    BNNSActivationFunctionSELU,
    BNNSActivationFunctionCELU,
    BNNSActivationFunctionHardShrink,
    BNNSActivationFunctionSoftShrink,
    BNNSActivationFunctionTanhShrink,
    BNNSActivationFunctionThreshold,
    BNNSActivationFunctionPReLUPerChannel,
    BNNSActivationFunctionGELUApproximation2,
    BNNSActivationFunctionSiLU,
    BNNSActivationFunctionReLU6,
    BNNSActivationFunctionErf,
    BNNSActivationFunctionGELU,
    BNNSActivationFunctionGELUApproximationSigmoid,
    BNNSActivationFunctionHardSwish,
) = BNNSActivationFunction.__members__.values()


class BNNSPoolingFunction(CEnum):
    """Function that reduces the cells of a pooling window to one value.

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


(
    BNNSPoolingFunctionMax,
    BNNSPoolingFunctionAverageCountIncludePadding,
    BNNSPoolingFunctionAverageCountExcludePadding,
    BNNSPoolingFunctionUnMax,
    BNNSPoolingFunctionL2Norm,
    BNNSPoolingFunctionAverage,
) = BNNSPoolingFunction.__members__.values()


class BNNSFlags(CFlag):
    """Options of a filter, for `BNNSFilterParameters.flags`.

    >>> from openbnns.capi import *
    >>> int(BNNSFlagsUseClientPtr), BNNSFlags(1)
    (1, BNNSFlagsUseClientPtr)
    """

    BNNSFlagsUseClientPtr = 1


(BNNSFlagsUseClientPtr,) = BNNSFlags.__members__.values()


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


(
    BNNSLossFunctionSoftmaxCrossEntropy,
    BNNSLossFunctionSigmoidCrossEntropy,
    BNNSLossFunctionMeanSquareError,
    BNNSLossFunctionHuber,
    BNNSLossFunctionYolo,
    BNNSLossFunctionLog,
    BNNSLossFunctionCosineDistance,
    BNNSLossFunctionHinge,
    BNNSLossFunctionMeanAbsoluteError,
    BNNSLossFunctionCategoricalCrossEntropy,
) = BNNSLossFunction.__members__.values()


class BNNSLossReductionFunction(CEnum):
    """Reduction of the losses of a batch to the output of a loss layer.

    >>> from openbnns.capi import *
    >>> int(BNNSLossReductionNonZeroWeightMean), BNNSLossReductionFunction(4)
    (4, BNNSLossReductionNonZeroWeightMean)
    """

    BNNSLossReductionNone = 0
    BNNSLossReductionSum = 1
    BNNSLossReductionWeightedMean = 2
    BNNSLossReductionMean = 3
    BNNSLossReductionNonZeroWeightMean = 4


(
    BNNSLossReductionNone,
    BNNSLossReductionSum,
    BNNSLossReductionWeightedMean,
    BNNSLossReductionMean,
    BNNSLossReductionNonZeroWeightMean,
) = BNNSLossReductionFunction.__members__.values()


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


(
    BNNSArithmeticAdd,
    BNNSArithmeticSubtract,
    BNNSArithmeticMultiply,
    BNNSArithmeticDivide,
    BNNSArithmeticSquareRoot,
    BNNSArithmeticReciprocalSquareRoot,
    BNNSArithmeticCeil,
    BNNSArithmeticFloor,
    BNNSArithmeticRound,
    BNNSArithmeticSin,
    BNNSArithmeticCos,
    BNNSArithmeticTan,
    BNNSArithmeticAsin,
    BNNSArithmeticAcos,
    BNNSArithmeticAtan,
    BNNSArithmeticSinh,
    BNNSArithmeticCosh,
    BNNSArithmeticTanh,
    BNNSArithmeticAsinh,
    BNNSArithmeticAcosh,
    BNNSArithmeticAtanh,
    BNNSArithmeticPow,
    BNNSArithmeticExp,
    BNNSArithmeticExp2,
    BNNSArithmeticLog,
    BNNSArithmeticLog2,
    BNNSArithmeticMultiplyNoNaN,
    BNNSArithmeticDivideNoNaN,
    BNNSArithmeticMultiplyAdd,
    BNNSArithmeticMinimum,
    BNNSArithmeticMaximum,
    BNNSArithmeticSelect,
    BNNSArithmeticAbs,
    BNNSArithmeticSign,
    BNNSArithmeticNegate,
    BNNSArithmeticReciprocal,
    BNNSArithmeticSquare,
    BNNSArithmeticFloorDivide,
    BNNSArithmeticTruncDivide,
    BNNSArithmeticTruncRemainder,
    BNNSArithmeticErf,
) = BNNSArithmeticFunction.__members__.values()


class BNNSDescriptorType(CEnum):
    """Role of an arithmetic operand: constant, one per sample, or a trained parameter.

    >>> from openbnns.capi import *
    >>> int(BNNSParameter), BNNSDescriptorType(2)
    (2, BNNSParameter)
    """

    BNNSConstant = 0
    BNNSSample = 1
    BNNSParameter = 2


BNNSConstant, BNNSSample, BNNSParameter = BNNSDescriptorType.__members__.values()


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


(
    BNNSOptimizerFunctionSGDMomentum,
    BNNSOptimizerFunctionAdam,
    BNNSOptimizerFunctionRMSProp,
    BNNSOptimizerFunctionAdamW,
    BNNSOptimizerFunctionAdamAMSGrad,
    BNNSOptimizerFunctionAdamWAMSGrad,
    BNNSOptimizerFunctionSGDMomentumWithClipping,
    BNNSOptimizerFunctionAdamWithClipping,
    BNNSOptimizerFunctionRMSPropWithClipping,
    BNNSOptimizerFunctionAdamWWithClipping,
    BNNSOptimizerFunctionAdamAMSGradWithClipping,
    BNNSOptimizerFunctionAdamWAMSGradWithClipping,
) = BNNSOptimizerFunction.__members__.values()


class BNNSOptimizerRegularizationFunction(CEnum):
    """Penalty on the weights that an optimizer adds to the gradient.

    >>> from openbnns.capi import *
    >>> int(BNNSOptimizerRegularizationL2), BNNSOptimizerRegularizationFunction(2)
    (2, BNNSOptimizerRegularizationL2)
    """

    BNNSOptimizerRegularizationNone = 0
    BNNSOptimizerRegularizationL1 = 1
    BNNSOptimizerRegularizationL2 = 2


(
    BNNSOptimizerRegularizationNone,
    BNNSOptimizerRegularizationL1,
    BNNSOptimizerRegularizationL2,
) = BNNSOptimizerRegularizationFunction.__members__.values()


class BNNSOptimizerSGDMomentumVariant(CEnum):
    """Form of momentum of stochastic gradient descent.

    >>> from openbnns.capi import *
    >>> int(BNNSSGDMomentumVariant2), BNNSOptimizerSGDMomentumVariant(2)
    (2, BNNSSGDMomentumVariant2)
    """

    BNNSSGDMomentumVariant0 = 0
    BNNSSGDMomentumVariant1 = 1
    BNNSSGDMomentumVariant2 = 2


(
    BNNSSGDMomentumVariant0,
    BNNSSGDMomentumVariant1,
    BNNSSGDMomentumVariant2,
) = BNNSOptimizerSGDMomentumVariant.__members__.values()


class BNNSOptimizerClippingFunction(CEnum):
    """Limit that an optimizer puts on gradients.

    >>> from openbnns.capi import *
    >>> int(BNNSOptimizerClippingByGlobalNorm), BNNSOptimizerClippingFunction(3)
    (3, BNNSOptimizerClippingByGlobalNorm)
    """

    BNNSOptimizerClippingNone = 0
    BNNSOptimizerClippingByValue = 1
    BNNSOptimizerClippingByNorm = 2
    BNNSOptimizerClippingByGlobalNorm = 3


(
    BNNSOptimizerClippingNone,
    BNNSOptimizerClippingByValue,
    BNNSOptimizerClippingByNorm,
    BNNSOptimizerClippingByGlobalNorm,
) = BNNSOptimizerClippingFunction.__members__.values()


class BNNSNormType(CEnum):
    """Norm of the norm and clipping functions.

    >>> from openbnns.capi import *
    >>> int(BNNSL2Norm), BNNSNormType(1)
    (1, BNNSL2Norm)
    """

    BNNSL2Norm = 1


(BNNSL2Norm,) = BNNSNormType.__members__.values()


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


(
    BNNSConvolution,
    BNNSFullyConnected,
    BNNSBatchNorm,
    BNNSInstanceNorm,
    BNNSLayerNorm,
    BNNSGroupNorm,
    BNNSTransposedConvolution,
    BNNSQuantization,
    BNNSArithmetic,
) = BNNSFilterType.__members__.values()


class BNNSReduceFunction(CEnum):
    """Function that reduces the values along axes to one.

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


(
    BNNSReduceFunctionMax,
    BNNSReduceFunctionMin,
    BNNSReduceFunctionArgMax,
    BNNSReduceFunctionArgMin,
    BNNSReduceFunctionMean,
    BNNSReduceFunctionMeanNonZero,
    BNNSReduceFunctionSum,
    BNNSReduceFunctionSumSquare,
    BNNSReduceFunctionSumLog,
    BNNSReduceFunctionL1Norm,
    BNNSReduceFunctionLogicalOr,
    BNNSReduceFunctionLogicalAnd,
    BNNSReduceFunctionL2Norm,
    BNNSReduceFunctionLogSumExp,
    BNNSReduceFunctionProduct,
    BNNSReduceFunctionNone,
    BNNSReduceFunctionLogSum,
    BNNSReduceFunctionAny,
    BNNSReduceFunctionAll,
) = BNNSReduceFunction.__members__.values()


class BNNSLayerFlags(CFlag):
    """Options of an LSTM, for `BNNSLayerParametersLSTM.lstm_flags`.

    >>> from openbnns.capi import *
    >>> int(BNNSLayerFlagsLSTMDefaultActivations), BNNSLayerFlags(2)
    (2, BNNSLayerFlagsLSTMDefaultActivations)
    """

    BNNSLayerFlagsLSTMBidirectional = 1
    BNNSLayerFlagsLSTMDefaultActivations = 2


BNNSLayerFlagsLSTMBidirectional, BNNSLayerFlagsLSTMDefaultActivations = BNNSLayerFlags.__members__.values()


class BNNSInterpolationMethod(CEnum):
    """Method by which resizing interpolates between samples.

    >>> from openbnns.capi import *
    >>> int(BNNSInterpolationMethodLinear), BNNSInterpolationMethod(1)
    (1, BNNSInterpolationMethodLinear)
    """

    BNNSInterpolationMethodNearest = 0
    BNNSInterpolationMethodLinear = 1


BNNSInterpolationMethodNearest, BNNSInterpolationMethodLinear = BNNSInterpolationMethod.__members__.values()


class BNNSLinearSamplingMode(CEnum):
    """Placement of the sample points of crop-and-resize.

    >>> from openbnns.capi import *
    >>> int(BNNSLinearSamplingOffsetCorners), BNNSLinearSamplingMode(4)
    (4, BNNSLinearSamplingOffsetCorners)
    """

    BNNSLinearSamplingDefault = 0
    BNNSLinearSamplingAlignCorners = 1
    BNNSLinearSamplingUnalignCorners = 2
    BNNSLinearSamplingStrictAlignCorners = 3
    BNNSLinearSamplingOffsetCorners = 4


(
    BNNSLinearSamplingDefault,
    BNNSLinearSamplingAlignCorners,
    BNNSLinearSamplingUnalignCorners,
    BNNSLinearSamplingStrictAlignCorners,
    BNNSLinearSamplingOffsetCorners,
) = BNNSLinearSamplingMode.__members__.values()


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


(
    BNNSCornersHeightFirst,
    BNNSCornersWidthFirst,
    BNNSCenterSizeHeightFirst,
    BNNSCenterSizeWidthFirst,
) = BNNSBoxCoordinateMode.__members__.values()


class BNNSPaddingMode(CEnum):
    """Values that a padding layer writes outside the input.

    >>> from openbnns.capi import *
    >>> int(BNNSPaddingModeSymmetric), BNNSPaddingMode(2)
    (2, BNNSPaddingModeSymmetric)
    """

    BNNSPaddingModeConstant = 0
    BNNSPaddingModeReflect = 1
    BNNSPaddingModeSymmetric = 2


BNNSPaddingModeConstant, BNNSPaddingModeReflect, BNNSPaddingModeSymmetric = BNNSPaddingMode.__members__.values()


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


(
    BNNSRelationalOperatorEqual,
    BNNSRelationalOperatorLess,
    BNNSRelationalOperatorLessEqual,
    BNNSRelationalOperatorGreater,
    BNNSRelationalOperatorGreaterEqual,
    BNNSRelationalOperatorNotEqual,
    BNNSRelationalOperatorLogicalAND,
    BNNSRelationalOperatorLogicalOR,
    BNNSRelationalOperatorLogicalNOT,
    BNNSRelationalOperatorLogicalNAND,
    BNNSRelationalOperatorLogicalNOR,
    BNNSRelationalOperatorLogicalXOR,
) = BNNSRelationalOperator.__members__.values()


class BNNSPointerSpecifier(CEnum):
    """Internal array of a filter that `BNNSGetPointer` gives access to.

    >>> from openbnns.capi import *
    >>> int(BNNSPointerSpecifierBeta), BNNSPointerSpecifier(1)
    (1, BNNSPointerSpecifierBeta)
    """

    BNNSPointerSpecifierAlpha = 0
    BNNSPointerSpecifierBeta = 1


BNNSPointerSpecifierAlpha, BNNSPointerSpecifierBeta = BNNSPointerSpecifier.__members__.values()


class BNNSNDArrayFlags(CEnum):
    """Treatment of a gradient's buffer: overwritten or added to.

    >>> from openbnns.capi import *
    >>> int(BNNSNDArrayFlagBackpropAccumulate), BNNSNDArrayFlags(1)
    (1, BNNSNDArrayFlagBackpropAccumulate)
    """

    BNNSNDArrayFlagBackpropSet = 0
    BNNSNDArrayFlagBackpropAccumulate = 1


BNNSNDArrayFlagBackpropSet, BNNSNDArrayFlagBackpropAccumulate = BNNSNDArrayFlags.__members__.values()


class BNNSEmbeddingFlags(CFlag):
    """Options of an embedding layer.

    >>> from openbnns.capi import *
    >>> int(BNNSEmbeddingFlagScaleGradientByFrequency), BNNSEmbeddingFlags(1)
    (1, BNNSEmbeddingFlagScaleGradientByFrequency)
    """

    BNNSEmbeddingFlagScaleGradientByFrequency = 1


(BNNSEmbeddingFlagScaleGradientByFrequency,) = BNNSEmbeddingFlags.__members__.values()


class BNNSQuantizerFunction(CEnum):
    """Direction of a quantization layer.

    >>> from openbnns.capi import *
    >>> int(BNNSQuantizerFunctionDequantize), BNNSQuantizerFunction(1)
    (1, BNNSQuantizerFunctionDequantize)
    """

    BNNSQuantizerFunctionQuantize = 0
    BNNSQuantizerFunctionDequantize = 1


BNNSQuantizerFunctionQuantize, BNNSQuantizerFunctionDequantize = BNNSQuantizerFunction.__members__.values()


class BNNSRandomGeneratorMethod(CEnum):
    """Algorithm of a random generator.

    >>> from openbnns.capi import *
    >>> int(BNNSRandomGeneratorMethodAES_CTR), BNNSRandomGeneratorMethod(0)
    (0, BNNSRandomGeneratorMethodAES_CTR)
    """

    BNNSRandomGeneratorMethodAES_CTR = 0


(BNNSRandomGeneratorMethodAES_CTR,) = BNNSRandomGeneratorMethod.__members__.values()


class BNNSSparsityType(CEnum):
    """Pattern of the zeros in sparse weights.

    >>> from openbnns.capi import *
    >>> int(BNNSSparsityTypeUnstructured), BNNSSparsityType(0)
    (0, BNNSSparsityTypeUnstructured)
    """

    BNNSSparsityTypeUnstructured = 0


(BNNSSparsityTypeUnstructured,) = BNNSSparsityType.__members__.values()


class BNNSTargetSystem(CEnum):
    """Machine that sparse weights are packed for.

    >>> from openbnns.capi import *
    >>> int(BNNSTargetSystemGeneric), BNNSTargetSystem(0)
    (0, BNNSTargetSystemGeneric)
    """

    BNNSTargetSystemGeneric = 0


(BNNSTargetSystemGeneric,) = BNNSTargetSystem.__members__.values()


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


(
    BNNSShuffleTypePixelShuffleNCHW,
    BNNSShuffleTypePixelUnshuffleNCHW,
    BNNSShuffleTypeDepthToSpaceNCHW,
    BNNSShuffleTypeSpaceToDepthNCHW,
) = BNNSShuffleType.__members__.values()


class BNNSGraphMessageLevel(CFlag):
    """Kind of a message of a graph; masks choose kinds, and are 14 unless set.

    >>> from openbnns.capi import *
    >>> int(BNNSGraphMessageLevelError), BNNSGraphMessageLevel(8)
    (8, BNNSGraphMessageLevelError)
    """

    BNNSGraphMessageLevelInfo = 1
    BNNSGraphMessageLevelUnsupported = 2
    BNNSGraphMessageLevelWarning = 4
    BNNSGraphMessageLevelError = 8


(
    BNNSGraphMessageLevelInfo,
    BNNSGraphMessageLevelUnsupported,
    BNNSGraphMessageLevelWarning,
    BNNSGraphMessageLevelError,
) = BNNSGraphMessageLevel.__members__.values()


class BNNSGraphOptimizationPreference(CEnum):
    """The aim of a compilation: speed, or a small graph.

    >>> from openbnns.capi import *
    >>> int(BNNSGraphOptimizationPreferenceIRSize), BNNSGraphOptimizationPreference(1)
    (1, BNNSGraphOptimizationPreferenceIRSize)
    """

    BNNSGraphOptimizationPreferencePerformance = 0
    BNNSGraphOptimizationPreferenceIRSize = 1


(
    BNNSGraphOptimizationPreferencePerformance,
    BNNSGraphOptimizationPreferenceIRSize,
) = BNNSGraphOptimizationPreference.__members__.values()


class BNNSGraphArgumentIntent(CEnum):
    """The use of an argument by a function of a graph: read, written, or both, as for a state.

    >>> from openbnns.capi import *
    >>> int(BNNSGraphArgumentIntentInOut), BNNSGraphArgumentIntent(3)
    (3, BNNSGraphArgumentIntentInOut)
    """

    BNNSGraphArgumentIntentIn = 1
    BNNSGraphArgumentIntentOut = 2
    BNNSGraphArgumentIntentInOut = 3


(
    BNNSGraphArgumentIntentIn,
    BNNSGraphArgumentIntentOut,
    BNNSGraphArgumentIntentInOut,
) = BNNSGraphArgumentIntent.__members__.values()


class BNNSGraphArgumentType(CEnum):
    """Form of the arguments of an execution.

    >>> from openbnns.capi import *
    >>> int(BNNSGraphArgumentTypeTensor), BNNSGraphArgumentType(2)
    (2, BNNSGraphArgumentTypeTensor)
    """

    BNNSGraphArgumentTypePointer = 0
    BNNSGraphArgumentTypeTensor = 2


BNNSGraphArgumentTypePointer, BNNSGraphArgumentTypeTensor = BNNSGraphArgumentType.__members__.values()

if not TYPE_CHECKING:
    __all__ = sorted(name for name in globals() if name.startswith("BNNS"))
