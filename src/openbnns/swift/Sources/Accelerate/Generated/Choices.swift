// Written by tools/generate_swift.py: edit its facts, not this file.

extension BNNS {
    public enum ActivationFunction {
        /// In C: BNNSActivationFunctionIdentity.
        case identity
        /// In C: BNNSActivationFunctionRectifiedLinear.
        case rectifiedLinear
        /// In C: BNNSActivationFunctionLeakyRectifiedLinear.
        case leakyRectifiedLinear(alpha: Float)
        /// In C: BNNSActivationFunctionSigmoid.
        case sigmoid
        /// In C: BNNSActivationFunctionLogSigmoid.
        case logSigmoid
        /// In C: BNNSActivationFunctionTanh.
        case tanh
        /// In C: BNNSActivationFunctionScaledTanh.
        case scaledTanh(alpha: Float, beta: Float)
        /// In C: BNNSActivationFunctionAbs.
        case abs
        /// In C: BNNSActivationFunctionLinear.
        case linear(alpha: Float)
        /// In C: BNNSActivationFunctionClamp (alpha lower, beta upper).
        case clamp(bounds: ClosedRange<Float>)
        /// In C: BNNSActivationFunctionSoftmax.
        case softmax
        /// In C: BNNSActivationFunctionGELUApproximation.
        case geluApproximation(alpha: Float, beta: Float)
        /// In C: BNNSActivationFunctionGELUApproximation2.
        case geluApproximation2(alpha: Float, beta: Float)
        /// In C: BNNSActivationFunctionGumbel.
        case gumbel(alpha: Float, beta: Float)
        /// In C: BNNSActivationFunctionGumbelMax.
        case gumbelMax(alpha: Float, beta: Float)
        /// In C: BNNSActivationFunctionHardSigmoid.
        case hardSigmoid(alpha: Float, beta: Float)
        /// In C: BNNSActivationFunctionSoftplus.
        case softplus(alpha: Float, beta: Float)
        /// In C: BNNSActivationFunctionSoftsign.
        case softsign
        /// In C: BNNSActivationFunctionELU.
        case elu(alpha: Float)
        /// In C: BNNSActivationFunctionSELU.
        case selu
        /// In C: BNNSActivationFunctionCELU.
        case celu(alpha: Float)
        /// In C: BNNSActivationFunctionClampedLeakyRectifiedLinear.
        case clampedLeakyRectifiedLinear(alpha: Float, beta: Float)
        /// In C: BNNSActivationFunctionLinearWithBias.
        case linearWithBias(alpha: Float, beta: Float)
        /// In C: BNNSActivationFunctionLogSoftmax.
        case logSoftmax
        /// In C: BNNSActivationFunctionHardShrink.
        case hardShrink(alpha: Float)
        /// In C: BNNSActivationFunctionSoftShrink.
        case softShrink(alpha: Float)
        /// In C: BNNSActivationFunctionTanhShrink.
        case tanhShrink
        /// In C: BNNSActivationFunctionThreshold.
        case threshold(alpha: Float, beta: Float)
        /// In C: BNNSActivationFunctionHardSwish.
        case hardSwish(alpha: Float, beta: Float)
        /// In C: BNNSActivationFunctionSiLU.
        case silu

        /// The function with its parameters, as C has them.
        public var bnnsActivation: BNNSActivation {
            switch self {
            case .identity:
                return BNNSActivation(function: BNNSActivationFunctionIdentity, alpha: 0, beta: 0)
            case .rectifiedLinear:
                return BNNSActivation(function: BNNSActivationFunctionRectifiedLinear, alpha: 0, beta: 0)
            case .leakyRectifiedLinear(let alpha):
                return BNNSActivation(function: BNNSActivationFunctionLeakyRectifiedLinear, alpha: alpha, beta: 0)
            case .sigmoid:
                return BNNSActivation(function: BNNSActivationFunctionSigmoid, alpha: 0, beta: 0)
            case .logSigmoid:
                return BNNSActivation(function: BNNSActivationFunctionLogSigmoid, alpha: 0, beta: 0)
            case .tanh:
                return BNNSActivation(function: BNNSActivationFunctionTanh, alpha: 0, beta: 0)
            case .scaledTanh(let alpha, let beta):
                return BNNSActivation(function: BNNSActivationFunctionScaledTanh, alpha: alpha, beta: beta)
            case .abs:
                return BNNSActivation(function: BNNSActivationFunctionAbs, alpha: 0, beta: 0)
            case .linear(let alpha):
                return BNNSActivation(function: BNNSActivationFunctionLinear, alpha: alpha, beta: 0)
            case .clamp(let bounds):
                return BNNSActivation(function: BNNSActivationFunctionClamp, alpha: bounds.lowerBound, beta: bounds.upperBound)
            case .softmax:
                return BNNSActivation(function: BNNSActivationFunctionSoftmax, alpha: 0, beta: 0)
            case .geluApproximation(let alpha, let beta):
                return BNNSActivation(function: BNNSActivationFunctionGELUApproximation, alpha: alpha, beta: beta)
            case .geluApproximation2(let alpha, let beta):
                return BNNSActivation(function: BNNSActivationFunctionGELUApproximation2, alpha: alpha, beta: beta)
            case .gumbel(let alpha, let beta):
                return BNNSActivation(function: BNNSActivationFunctionGumbel, alpha: alpha, beta: beta)
            case .gumbelMax(let alpha, let beta):
                return BNNSActivation(function: BNNSActivationFunctionGumbelMax, alpha: alpha, beta: beta)
            case .hardSigmoid(let alpha, let beta):
                return BNNSActivation(function: BNNSActivationFunctionHardSigmoid, alpha: alpha, beta: beta)
            case .softplus(let alpha, let beta):
                return BNNSActivation(function: BNNSActivationFunctionSoftplus, alpha: alpha, beta: beta)
            case .softsign:
                return BNNSActivation(function: BNNSActivationFunctionSoftsign, alpha: 0, beta: 0)
            case .elu(let alpha):
                return BNNSActivation(function: BNNSActivationFunctionELU, alpha: alpha, beta: 0)
            case .selu:
                return BNNSActivation(function: BNNSActivationFunctionSELU, alpha: 0, beta: 0)
            case .celu(let alpha):
                return BNNSActivation(function: BNNSActivationFunctionCELU, alpha: alpha, beta: 0)
            case .clampedLeakyRectifiedLinear(let alpha, let beta):
                return BNNSActivation(function: BNNSActivationFunctionClampedLeakyRectifiedLinear, alpha: alpha, beta: beta)
            case .linearWithBias(let alpha, let beta):
                return BNNSActivation(function: BNNSActivationFunctionLinearWithBias, alpha: alpha, beta: beta)
            case .logSoftmax:
                return BNNSActivation(function: BNNSActivationFunctionLogSoftmax, alpha: 0, beta: 0)
            case .hardShrink(let alpha):
                return BNNSActivation(function: BNNSActivationFunctionHardShrink, alpha: alpha, beta: 0)
            case .softShrink(let alpha):
                return BNNSActivation(function: BNNSActivationFunctionSoftShrink, alpha: alpha, beta: 0)
            case .tanhShrink:
                return BNNSActivation(function: BNNSActivationFunctionTanhShrink, alpha: 0, beta: 0)
            case .threshold(let alpha, let beta):
                return BNNSActivation(function: BNNSActivationFunctionThreshold, alpha: alpha, beta: beta)
            case .hardSwish(let alpha, let beta):
                return BNNSActivation(function: BNNSActivationFunctionHardSwish, alpha: alpha, beta: beta)
            case .silu:
                return BNNSActivation(function: BNNSActivationFunctionSiLU, alpha: 0, beta: 0)
            }
        }
    }
}

extension BNNS {
    public enum ArithmeticBinaryFunction: CaseIterable, Sendable {
        /// In C: BNNSArithmeticAdd.
        case add
        /// In C: BNNSArithmeticSubtract.
        case subtract
        /// In C: BNNSArithmeticMultiply.
        case multiply
        /// In C: BNNSArithmeticMultiplyNoNaN.
        case multiplyNoNaN
        /// In C: BNNSArithmeticDivide.
        case divide
        /// In C: BNNSArithmeticDivideNoNaN.
        case divideNoNaN
        /// In C: BNNSArithmeticPow.
        case pow
        /// In C: BNNSArithmeticMaximum.
        case max
        /// In C: BNNSArithmeticMinimum.
        case min
        /// In C: BNNSArithmeticFloorDivide.
        case flooringDivide
        /// In C: BNNSArithmeticTruncDivide.
        case truncatingDivide
        /// In C: BNNSArithmeticTruncRemainder.
        case truncatingRemainder

        /// What C has for this case.
        var bnnsArithmeticFunction: BNNSArithmeticFunction {
            switch self {
            case .add: return BNNSArithmeticAdd
            case .subtract: return BNNSArithmeticSubtract
            case .multiply: return BNNSArithmeticMultiply
            case .multiplyNoNaN: return BNNSArithmeticMultiplyNoNaN
            case .divide: return BNNSArithmeticDivide
            case .divideNoNaN: return BNNSArithmeticDivideNoNaN
            case .pow: return BNNSArithmeticPow
            case .max: return BNNSArithmeticMaximum
            case .min: return BNNSArithmeticMinimum
            case .flooringDivide: return BNNSArithmeticFloorDivide
            case .truncatingDivide: return BNNSArithmeticTruncDivide
            case .truncatingRemainder: return BNNSArithmeticTruncRemainder
            }
        }
    }
}

extension BNNS {
    public enum ArithmeticTernaryFunction: Sendable {
        /// In C: BNNSArithmeticMultiplyAdd.
        case multiplyAdd

        /// What C has for this case.
        public var bnnsArithmeticFunction: BNNSArithmeticFunction {
            switch self {
            case .multiplyAdd: return BNNSArithmeticMultiplyAdd
            }
        }
    }
}

extension BNNS {
    public enum ArithmeticUnaryFunction: CaseIterable, Sendable {
        /// In C: BNNSArithmeticSquareRoot.
        case squareRoot
        /// In C: BNNSArithmeticReciprocalSquareRoot.
        case reciprocalSquareRoot
        /// In C: BNNSArithmeticFloor.
        case floor
        /// In C: BNNSArithmeticCeil.
        case ceil
        /// In C: BNNSArithmeticRound.
        case round
        /// In C: BNNSArithmeticSin.
        case sin
        /// In C: BNNSArithmeticCos.
        case cos
        /// In C: BNNSArithmeticTan.
        case tan
        /// In C: BNNSArithmeticAsin.
        case asin
        /// In C: BNNSArithmeticAcos.
        case acos
        /// In C: BNNSArithmeticAtan.
        case atan
        /// In C: BNNSArithmeticSinh.
        case sinh
        /// In C: BNNSArithmeticCosh.
        case cosh
        /// In C: BNNSArithmeticTanh.
        case tanh
        /// In C: BNNSArithmeticAsinh.
        case asinh
        /// In C: BNNSArithmeticAcosh.
        case acosh
        /// In C: BNNSArithmeticAtanh.
        case atanh
        /// In C: BNNSArithmeticExp.
        case exp
        /// In C: BNNSArithmeticExp2.
        case exp2
        /// In C: BNNSArithmeticLog.
        case log
        /// In C: BNNSArithmeticLog2.
        case log2
        /// In C: BNNSArithmeticAbs.
        case abs
        /// In C: BNNSArithmeticSign.
        case sign
        /// In C: BNNSArithmeticNegate.
        case negate
        /// In C: BNNSArithmeticReciprocal.
        case reciprocal
        /// In C: BNNSArithmeticSquare.
        case square
        /// In C: BNNSArithmeticErf.
        case erf

        /// What C has for this case.
        public var bnnsArithmeticFunction: BNNSArithmeticFunction {
            switch self {
            case .squareRoot: return BNNSArithmeticSquareRoot
            case .reciprocalSquareRoot: return BNNSArithmeticReciprocalSquareRoot
            case .floor: return BNNSArithmeticFloor
            case .ceil: return BNNSArithmeticCeil
            case .round: return BNNSArithmeticRound
            case .sin: return BNNSArithmeticSin
            case .cos: return BNNSArithmeticCos
            case .tan: return BNNSArithmeticTan
            case .asin: return BNNSArithmeticAsin
            case .acos: return BNNSArithmeticAcos
            case .atan: return BNNSArithmeticAtan
            case .sinh: return BNNSArithmeticSinh
            case .cosh: return BNNSArithmeticCosh
            case .tanh: return BNNSArithmeticTanh
            case .asinh: return BNNSArithmeticAsinh
            case .acosh: return BNNSArithmeticAcosh
            case .atanh: return BNNSArithmeticAtanh
            case .exp: return BNNSArithmeticExp
            case .exp2: return BNNSArithmeticExp2
            case .log: return BNNSArithmeticLog
            case .log2: return BNNSArithmeticLog2
            case .abs: return BNNSArithmeticAbs
            case .sign: return BNNSArithmeticSign
            case .negate: return BNNSArithmeticNegate
            case .reciprocal: return BNNSArithmeticReciprocal
            case .square: return BNNSArithmeticSquare
            case .erf: return BNNSArithmeticErf
            }
        }
    }
}

extension BNNS.CropResizeLayer {
    public enum BoxCoordinateMode: Sendable {
        /// In C: BNNSCornersHeightFirst.
        case cornersHeightFirst
        /// In C: BNNSCornersWidthFirst.
        case cornersWidthFirst
        /// In C: BNNSCenterSizeHeightFirst.
        case centerSizeHeightFirst
        /// In C: BNNSCenterSizeWidthFirst.
        case centerSizeWidthFirst

        /// What C has for this case.
        var bnnsBoxCoordinateMode: BNNSBoxCoordinateMode {
            switch self {
            case .cornersHeightFirst: return BNNSCornersHeightFirst
            case .cornersWidthFirst: return BNNSCornersWidthFirst
            case .centerSizeHeightFirst: return BNNSCenterSizeHeightFirst
            case .centerSizeWidthFirst: return BNNSCenterSizeWidthFirst
            }
        }
    }
}

extension BNNS.CropResizeLayer {
    public enum LinearSamplingMode: Sendable {
        /// In C: BNNSLinearSamplingDefault.
        case `default`
        /// In C: BNNSLinearSamplingAlignCorners.
        case alignCorners
        /// In C: BNNSLinearSamplingUnalignCorners.
        case unalignCorners
        /// In C: BNNSLinearSamplingStrictAlignCorners.
        case strictAlignCorners
        /// In C: BNNSLinearSamplingOffsetCorners.
        case offsetCorners

        /// What C has for this case.
        var bnnsLinearSamplingMode: BNNSLinearSamplingMode {
            switch self {
            case .`default`: return BNNSLinearSamplingDefault
            case .alignCorners: return BNNSLinearSamplingAlignCorners
            case .unalignCorners: return BNNSLinearSamplingUnalignCorners
            case .strictAlignCorners: return BNNSLinearSamplingStrictAlignCorners
            case .offsetCorners: return BNNSLinearSamplingOffsetCorners
            }
        }
    }
}

extension BNNS {
    public enum DataLayout: CaseIterable, Sendable {
        /// In C: BNNSDataLayoutVector.
        case vector
        /// In C: BNNSDataLayoutRowMajorMatrix.
        case matrixRowMajor
        /// In C: BNNSDataLayoutColumnMajorMatrix.
        case matrixColumnMajor
        /// In C: BNNSDataLayout2DFirstMajor.
        case matrixFirstMajor
        /// In C: BNNSDataLayout2DLastMajor.
        case matrixLastMajor
        /// In C: BNNSDataLayoutImageCHW.
        case imageCHW
        /// In C: BNNSDataLayout3DFirstMajor.
        case tensor3DFirstMajor
        /// In C: BNNSDataLayout3DLastMajor.
        case tensor3DLastMajor
        /// In C: BNNSDataLayoutConvolutionWeightsOIHW.
        case convolutionWeightsOIHW
        /// In C: BNNSDataLayout4DFirstMajor.
        case tensor4DFirstMajor
        /// In C: BNNSDataLayout4DLastMajor.
        case tensor4DLastMajor
        /// In C: BNNSDataLayout5DFirstMajor.
        case tensor5DFirstMajor
        /// In C: BNNSDataLayout5DLastMajor.
        case tensor5DLastMajor
        /// In C: BNNSDataLayout6DFirstMajor.
        case tensor6DFirstMajor
        /// In C: BNNSDataLayout6DLastMajor.
        case tensor6DLastMajor
        /// In C: BNNSDataLayout7DFirstMajor.
        case tensor7DFirstMajor
        /// In C: BNNSDataLayout7DLastMajor.
        case tensor7DLastMajor
        /// In C: BNNSDataLayout8DFirstMajor.
        case tensor8DFirstMajor
        /// In C: BNNSDataLayout8DLastMajor.
        case tensor8DLastMajor
        /// In C: BNNSDataLayoutSNE.
        case tensor3DSNE
        /// In C: BNNSDataLayoutNSE.
        case tensor3DNSE

        /// What C has for this case.
        var bnnsDataLayout: BNNSDataLayout {
            switch self {
            case .vector: return BNNSDataLayoutVector
            case .matrixRowMajor: return BNNSDataLayoutRowMajorMatrix
            case .matrixColumnMajor: return BNNSDataLayoutColumnMajorMatrix
            case .matrixFirstMajor: return BNNSDataLayout2DFirstMajor
            case .matrixLastMajor: return BNNSDataLayout2DLastMajor
            case .imageCHW: return BNNSDataLayoutImageCHW
            case .tensor3DFirstMajor: return BNNSDataLayout3DFirstMajor
            case .tensor3DLastMajor: return BNNSDataLayout3DLastMajor
            case .convolutionWeightsOIHW: return BNNSDataLayoutConvolutionWeightsOIHW
            case .tensor4DFirstMajor: return BNNSDataLayout4DFirstMajor
            case .tensor4DLastMajor: return BNNSDataLayout4DLastMajor
            case .tensor5DFirstMajor: return BNNSDataLayout5DFirstMajor
            case .tensor5DLastMajor: return BNNSDataLayout5DLastMajor
            case .tensor6DFirstMajor: return BNNSDataLayout6DFirstMajor
            case .tensor6DLastMajor: return BNNSDataLayout6DLastMajor
            case .tensor7DFirstMajor: return BNNSDataLayout7DFirstMajor
            case .tensor7DLastMajor: return BNNSDataLayout7DLastMajor
            case .tensor8DFirstMajor: return BNNSDataLayout8DFirstMajor
            case .tensor8DLastMajor: return BNNSDataLayout8DLastMajor
            case .tensor3DSNE: return BNNSDataLayoutSNE
            case .tensor3DNSE: return BNNSDataLayoutNSE
            }
        }
    }
}

extension BNNS {
    public enum DescriptorType: Sendable {
        /// In C: BNNSConstant.
        case constant
        /// In C: BNNSSample.
        case sample
        /// In C: BNNSParameter.
        case parameter

        /// What C has for this case.
        var bnnsDescriptorType: BNNSDescriptorType {
            switch self {
            case .constant: return BNNSConstant
            case .sample: return BNNSSample
            case .parameter: return BNNSParameter
            }
        }
    }
}

extension BNNS {
    public enum InterpolationMethod: Sendable {
        /// In C: BNNSInterpolationMethodLinear.
        case linear
        /// In C: BNNSInterpolationMethodNearest.
        case nearestNeighbor

        /// What C has for this case.
        var bnnsInterpolationMethod: BNNSInterpolationMethod {
            switch self {
            case .linear: return BNNSInterpolationMethodLinear
            case .nearestNeighbor: return BNNSInterpolationMethodNearest
            }
        }
    }
}

extension BNNS {
    public enum LossFunction {
        /// In C: BNNSLossFunctionSoftmaxCrossEntropy.
        case softmaxCrossEntropy(labelSmoothing: Float)
        /// In C: BNNSLossFunctionSigmoidCrossEntropy.
        case sigmoidCrossEntropy(labelSmoothing: Float)
        /// In C: BNNSLossFunctionHuber.
        case huber(huberDelta: Float)
        /// In C: BNNSLossFunctionYolo.
        case yolo(parameters: BNNS.LossFunction.YoloParameters)
        /// In C: BNNSLossFunctionMeanSquareError.
        case meanSquareError
        /// In C: BNNSLossFunctionLog.
        case log
        /// In C: BNNSLossFunctionCosineDistance.
        case cosineDistance
        /// In C: BNNSLossFunctionHinge.
        case hinge
        /// In C: BNNSLossFunctionMeanAbsoluteError.
        case meanAbsoluteError
        /// In C: BNNSLossFunctionCategoricalCrossEntropy.
        case categoricalCrossEntropy

        /// What C has for this case.
        public var bnnsLossFunction: BNNSLossFunction {
            switch self {
            case .softmaxCrossEntropy: return BNNSLossFunctionSoftmaxCrossEntropy
            case .sigmoidCrossEntropy: return BNNSLossFunctionSigmoidCrossEntropy
            case .huber: return BNNSLossFunctionHuber
            case .yolo: return BNNSLossFunctionYolo
            case .meanSquareError: return BNNSLossFunctionMeanSquareError
            case .log: return BNNSLossFunctionLog
            case .cosineDistance: return BNNSLossFunctionCosineDistance
            case .hinge: return BNNSLossFunctionHinge
            case .meanAbsoluteError: return BNNSLossFunctionMeanAbsoluteError
            case .categoricalCrossEntropy: return BNNSLossFunctionCategoricalCrossEntropy
            }
        }
    }
}

extension BNNS {
    public enum LossReduction: Sendable {
        /// In C: BNNSLossReductionNone.
        case none
        /// In C: BNNSLossReductionSum.
        case sum
        /// In C: BNNSLossReductionWeightedMean.
        case weightedMean
        /// In C: BNNSLossReductionMean.
        case reductionMean
        /// In C: BNNSLossReductionNonZeroWeightMean.
        case zeroWeightMean

        /// What C has for this case.
        public var bnnsLossReductionFunction: BNNSLossReductionFunction {
            switch self {
            case .none: return BNNSLossReductionNone
            case .sum: return BNNSLossReductionSum
            case .weightedMean: return BNNSLossReductionWeightedMean
            case .reductionMean: return BNNSLossReductionMean
            case .zeroWeightMean: return BNNSLossReductionNonZeroWeightMean
            }
        }
    }
}

extension BNNS {
    public enum NormalizationType {
        /// In C: BNNSBatchNorm.
        case batch(movingMean: BNNSNDArrayDescriptor?, movingVariance: BNNSNDArrayDescriptor?)
        /// In C: BNNSInstanceNorm.
        case instance(movingMean: BNNSNDArrayDescriptor?, movingVariance: BNNSNDArrayDescriptor?)
        /// In C: BNNSLayerNorm, normalization_axis.
        case layer(normalizationAxis: Int)
        /// In C: BNNSGroupNorm, num_groups.
        case group(groupCount: Int)

        /// What C has for this case.
        var bnnsFilterType: BNNSFilterType {
            switch self {
            case .batch: return BNNSBatchNorm
            case .instance: return BNNSInstanceNorm
            case .layer: return BNNSLayerNorm
            case .group: return BNNSGroupNorm
            }
        }
    }
}

extension BNNS {
    public enum PaddingMode {
        /// In C: BNNSPaddingModeConstant, bits as given.
        case constantBitPattern(UInt32)
        /// In C: BNNSPaddingModeConstant, bits of the float.
        case constantScalar(Float)
        /// In C: BNNSPaddingModeReflect.
        case reflect
        /// In C: BNNSPaddingModeSymmetric.
        case symmetric

        /// What C has for this case.
        public var bnnsPaddingMode: BNNSPaddingMode {
            switch self {
            case .constantBitPattern, .constantScalar: return BNNSPaddingModeConstant
            case .reflect: return BNNSPaddingModeReflect
            case .symmetric: return BNNSPaddingModeSymmetric
            }
        }
    }
}

extension BNNS {
    public enum RandomGeneratorMethod: Sendable {
        /// In C: BNNSRandomGeneratorMethodAES_CTR.
        case aesCtr

        /// What C has for this case.
        var bnnsRandomGeneratorMethod: BNNSRandomGeneratorMethod {
            switch self {
            case .aesCtr: return BNNSRandomGeneratorMethodAES_CTR
            }
        }
    }
}

extension BNNS {
    public enum ReductionFunction {
        /// In C: BNNSReduceFunctionMax.
        case max
        /// In C: BNNSReduceFunctionMin.
        case min
        /// In C: BNNSReduceFunctionArgMax.
        case maxIndex
        /// In C: BNNSReduceFunctionArgMax.
        case argMax
        /// In C: BNNSReduceFunctionArgMin.
        case minIndex
        /// In C: BNNSReduceFunctionArgMin.
        case argMin
        /// In C: BNNSReduceFunctionMean.
        case mean
        /// In C: BNNSReduceFunctionMeanNonZero.
        case meanNonZero
        /// In C: BNNSReduceFunctionSum.
        case sum
        /// In C: BNNSReduceFunctionSumSquare.
        case sumOfSquares
        /// In C: BNNSReduceFunctionSumLog, epsilon.
        case sumOfLogs(epsilon: Float)
        /// In C: BNNSReduceFunctionL1Norm.
        case sumOfAbsolutes
        /// In C: BNNSReduceFunctionLogicalOr.
        case logicalOr
        /// In C: BNNSReduceFunctionAny.
        case any
        /// In C: BNNSReduceFunctionLogicalAnd.
        case logicalAnd
        /// In C: BNNSReduceFunctionAll.
        case all
        /// In C: BNNSReduceFunctionL2Norm.
        case l2Norm
        /// In C: BNNSReduceFunctionLogSumExp.
        case logSumExp
        /// In C: BNNSReduceFunctionProduct.
        case product

        /// What C has for this case.
        public var bnnsReduceFunction: BNNSReduceFunction {
            switch self {
            case .max: return BNNSReduceFunctionMax
            case .min: return BNNSReduceFunctionMin
            case .maxIndex, .argMax: return BNNSReduceFunctionArgMax
            case .minIndex, .argMin: return BNNSReduceFunctionArgMin
            case .mean: return BNNSReduceFunctionMean
            case .meanNonZero: return BNNSReduceFunctionMeanNonZero
            case .sum: return BNNSReduceFunctionSum
            case .sumOfSquares: return BNNSReduceFunctionSumSquare
            case .sumOfLogs: return BNNSReduceFunctionSumLog
            case .sumOfAbsolutes: return BNNSReduceFunctionL1Norm
            case .logicalOr: return BNNSReduceFunctionLogicalOr
            case .any: return BNNSReduceFunctionAny
            case .logicalAnd: return BNNSReduceFunctionLogicalAnd
            case .all: return BNNSReduceFunctionAll
            case .l2Norm: return BNNSReduceFunctionL2Norm
            case .logSumExp: return BNNSReduceFunctionLogSumExp
            case .product: return BNNSReduceFunctionProduct
            }
        }
    }
}

extension BNNS {
    public enum ShuffleType: Sendable {
        /// In C: BNNSShuffleTypeDepthToSpaceNCHW.
        case depthToSpaceNCHW
        /// In C: BNNSShuffleTypeSpaceToDepthNCHW.
        case spaceToDepthNCHW

        /// What C has for this case.
        var bnnsShuffleType: BNNSShuffleType {
            switch self {
            case .depthToSpaceNCHW: return BNNSShuffleTypeDepthToSpaceNCHW
            case .spaceToDepthNCHW: return BNNSShuffleTypeSpaceToDepthNCHW
            }
        }
    }
}

extension BNNS {
    public enum SparsityType: Sendable {
        /// In C: BNNSSparsityTypeUnstructured.
        case unstructured

        /// What C has for this case.
        var bnnsSparsityType: BNNSSparsityType {
            switch self {
            case .unstructured: return BNNSSparsityTypeUnstructured
            }
        }
    }
}

extension BNNS {
    public enum ConvolutionType: Sendable {
        /// In C: BNNSFilterCreateLayerConvolution / BNNSConvolution.
        case standard
        /// In C: BNNSFilterCreateLayerTransposedConvolution / BNNSTransposedConvolution.
        case transposed
    }
}

extension BNNS {
    @frozen public enum LearningPhase: Sendable {
        case training
        case inference
    }
}

extension BNNS {
    public enum PoolingType {
        /// In C: BNNSPoolingFunctionMax, size_t indices.
        case max(indices: UnsafeMutableBufferPointer<Int>? = nil, xDilationStride: Int = 0, yDilationStride: Int = 0)
        /// In C: BNNSPoolingFunctionUnMax.
        case unMax(indices: UnsafeMutableBufferPointer<Int>? = nil, xDilationStride: Int = 0, yDilationStride: Int = 0)
        /// In C: BNNSPoolingFunctionAverageCountInclude/ExcludePadding.
        case average(countIncludesPadding: Bool)
        /// In C: BNNSPoolingFunctionL2Norm.
        case l2Norm
        /// In C: BNNSPoolingFunctionMax, typed indices (Ex calls).
        case maxEx(indicesDescriptor: BNNSNDArrayDescriptor? = nil, xDilationStride: Int = 0, yDilationStride: Int = 0)
        /// In C: BNNSPoolingFunctionUnMax, typed indices (Ex calls).
        case unMaxEx(indicesDescriptor: BNNSNDArrayDescriptor, xDilationStride: Int = 0, yDilationStride: Int = 0)
    }
}

extension BNNS {
    public enum SparseLayout {
        /// In C: BNNSNDArrayFullyConnectedSparsifySparseCOO.
        case coo(indices: BNNSNDArrayDescriptor)
        /// In C: BNNSNDArrayFullyConnectedSparsifySparseCSR.
        case csr(columnIndices: BNNSNDArrayDescriptor, rowStarts: BNNSNDArrayDescriptor)
    }
}

extension BNNS {
    public enum GradientClipping {
        /// In C: BNNSOptimizerClippingNone.
        case none
        /// In C: BNNSOptimizerClippingByValue.
        case byValue(bounds: ClosedRange<Float>)
        /// In C: BNNSOptimizerClippingByNorm.
        case byNorm(threshold: Float)
        /// In C: BNNSOptimizerClippingByGlobalNorm.
        case byGlobalNorm(threshold: Float, globalNorm: Float = 0)
    }
}

extension BNNS {
    public enum ConvolutionPadding {
        case symmetric(x: Int, y: Int)
        case asymmetric(left: Int, right: Int, up: Int, down: Int)
    }
}

extension BNNS {
    @frozen public struct RelationalOperator: Sendable {
        let bnnsRelationalOperator: BNNSRelationalOperator

        public static var equal: BNNS.RelationalOperator {
            Self(bnnsRelationalOperator: BNNSRelationalOperatorEqual)
        }
        public static var less: BNNS.RelationalOperator {
            Self(bnnsRelationalOperator: BNNSRelationalOperatorLess)
        }
        public static var lessEqual: BNNS.RelationalOperator {
            Self(bnnsRelationalOperator: BNNSRelationalOperatorLessEqual)
        }
        public static var greater: BNNS.RelationalOperator {
            Self(bnnsRelationalOperator: BNNSRelationalOperatorGreater)
        }
        public static var greaterEqual: BNNS.RelationalOperator {
            Self(bnnsRelationalOperator: BNNSRelationalOperatorGreaterEqual)
        }
        public static var notEqual: BNNS.RelationalOperator {
            Self(bnnsRelationalOperator: BNNSRelationalOperatorNotEqual)
        }
        public static var and: BNNS.RelationalOperator {
            Self(bnnsRelationalOperator: BNNSRelationalOperatorLogicalAND)
        }
        public static var or: BNNS.RelationalOperator {
            Self(bnnsRelationalOperator: BNNSRelationalOperatorLogicalOR)
        }
        public static var not: BNNS.RelationalOperator {
            Self(bnnsRelationalOperator: BNNSRelationalOperatorLogicalNOT)
        }
        public static var nand: BNNS.RelationalOperator {
            Self(bnnsRelationalOperator: BNNSRelationalOperatorLogicalNAND)
        }
        public static var nor: BNNS.RelationalOperator {
            Self(bnnsRelationalOperator: BNNSRelationalOperatorLogicalNOR)
        }
        public static var xor: BNNS.RelationalOperator {
            Self(bnnsRelationalOperator: BNNSRelationalOperatorLogicalXOR)
        }
    }
}
