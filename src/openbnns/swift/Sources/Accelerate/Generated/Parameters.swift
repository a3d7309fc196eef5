// Written by tools/generate_swift.py: edit its facts, not this file.

extension BNNS {
    public struct FusedBinaryArithmeticParameters: FusableLayerParameters {
        public var inputADescriptorType: BNNS.DescriptorType
        public var inputBDescriptorType: BNNS.DescriptorType
        public var outputDescriptorType: BNNS.DescriptorType
        public var function: BNNS.ArithmeticBinaryFunction

        public init(inputADescriptorType: BNNS.DescriptorType, inputBDescriptorType: BNNS.DescriptorType, outputDescriptorType: BNNS.DescriptorType, function: BNNS.ArithmeticBinaryFunction) {
            self.inputADescriptorType = inputADescriptorType
            self.inputBDescriptorType = inputBDescriptorType
            self.outputDescriptorType = outputDescriptorType
            self.function = function
        }
    }
}

extension BNNS {
    public struct FusedConvolutionParameters: FusableLayerParameters {
        public var type: BNNS.ConvolutionType
        public var weights: BNNSNDArrayDescriptor
        public var bias: BNNSNDArrayDescriptor?
        public var stride: (x: Int, y: Int)
        public var dilationStride: (x: Int, y: Int)
        public var groupSize: Int
        public var padding: BNNS.ConvolutionPadding

        public init(type: BNNS.ConvolutionType, weights: BNNSNDArrayDescriptor, bias: BNNSNDArrayDescriptor?, stride: (x: Int, y: Int), dilationStride: (x: Int, y: Int), groupSize: Int, padding: BNNS.ConvolutionPadding) {
            self.type = type
            self.weights = weights
            self.bias = bias
            self.stride = stride
            self.dilationStride = dilationStride
            self.groupSize = groupSize
            self.padding = padding
        }
    }
}

extension BNNS {
    public struct FusedDequantizationParameters: FusableLayerParameters {
        public var axis: Int?
        public var scale: BNNSNDArrayDescriptor?
        public var bias: BNNSNDArrayDescriptor?

        public init(scale: BNNSNDArrayDescriptor?, bias: BNNSNDArrayDescriptor?) {
            self.scale = scale
            self.bias = bias
        }
    }
}

extension BNNS {
    public struct FusedFullyConnectedParameters: FusableLayerParameters {
        public var weights: BNNSNDArrayDescriptor
        public var bias: BNNSNDArrayDescriptor?

        public init(weights: BNNSNDArrayDescriptor, bias: BNNSNDArrayDescriptor?) {
            self.weights = weights
            self.bias = bias
        }
    }
}

extension BNNS {
    public struct FusedNormalizationParameters: FusableLayerParameters {
        public var type: BNNS.NormalizationType
        public var beta: BNNSNDArrayDescriptor?
        public var gamma: BNNSNDArrayDescriptor?
        public var momentum: Float
        public var epsilon: Float
        public var activation: BNNS.ActivationFunction

        public init(type: BNNS.NormalizationType, beta: BNNSNDArrayDescriptor? = nil, gamma: BNNSNDArrayDescriptor? = nil, momentum: Float = 0, epsilon: Float, activation: BNNS.ActivationFunction) {
            self.type = type
            self.beta = beta
            self.gamma = gamma
            self.momentum = momentum
            self.epsilon = epsilon
            self.activation = activation
        }
    }
}

extension BNNS {
    public struct FusedQuantizationParameters: FusableLayerParameters {
        public var axis: Int?
        public var scale: BNNSNDArrayDescriptor?
        public var bias: BNNSNDArrayDescriptor?

        public init(scale: BNNSNDArrayDescriptor?, bias: BNNSNDArrayDescriptor?) {
            self.scale = scale
            self.bias = bias
        }
    }
}

extension BNNS {
    public struct FusedTernaryArithmeticParameters: FusableLayerParameters {
        public var inputADescriptorType: BNNS.DescriptorType
        public var inputBDescriptorType: BNNS.DescriptorType
        public var inputCDescriptorType: BNNS.DescriptorType
        public var outputDescriptorType: BNNS.DescriptorType
        public var function: BNNS.ArithmeticTernaryFunction

        public init(inputADescriptorType: BNNS.DescriptorType, inputBDescriptorType: BNNS.DescriptorType, inputCDescriptorType: BNNS.DescriptorType, outputDescriptorType: BNNS.DescriptorType, function: BNNS.ArithmeticTernaryFunction) {
            self.inputADescriptorType = inputADescriptorType
            self.inputBDescriptorType = inputBDescriptorType
            self.inputCDescriptorType = inputCDescriptorType
            self.outputDescriptorType = outputDescriptorType
            self.function = function
        }
    }
}

extension BNNS {
    public struct FusedUnaryArithmeticParameters: FusableLayerParameters {
        public var inputDescriptorType: BNNS.DescriptorType
        public var outputDescriptorType: BNNS.DescriptorType
        public var function: BNNS.ArithmeticUnaryFunction

        public init(inputDescriptorType: BNNS.DescriptorType, outputDescriptorType: BNNS.DescriptorType, function: BNNS.ArithmeticUnaryFunction) {
            self.inputDescriptorType = inputDescriptorType
            self.outputDescriptorType = outputDescriptorType
            self.function = function
        }
    }
}

extension BNNS.LossFunction {
    public struct YoloParameters {
        public let huberDelta: Float
        public let gridColumnCount: Int
        public let gridRowsCount: Int
        public let anchorBoxCount: Int
        public let anchorBoxSize: Int
        public let rescore: Bool
        public let xyScale: Float
        public let whScale: Float
        public let objectScale: Float
        public let noObjectScale: Float
        public let classificationScale: Float
        public let objectMinimumIoU: Float
        public let noObjectMaximumIoU: Float
        public let anchorsData: UnsafeMutablePointer<Float>

        public init(huberDelta: Float, gridColumnCount: Int, gridRowsCount: Int, anchorBoxCount: Int, anchorBoxSize: Int, rescore: Bool, xyScale: Float, whScale: Float, objectScale: Float, noObjectScale: Float, classificationScale: Float, objectMinimumIoU: Float, noObjectMaximumIoU: Float, anchorsData: UnsafeMutablePointer<Float>) {
            self.huberDelta = huberDelta
            self.gridColumnCount = gridColumnCount
            self.gridRowsCount = gridRowsCount
            self.anchorBoxCount = anchorBoxCount
            self.anchorBoxSize = anchorBoxSize
            self.rescore = rescore
            self.xyScale = xyScale
            self.whScale = whScale
            self.objectScale = objectScale
            self.noObjectScale = noObjectScale
            self.classificationScale = classificationScale
            self.objectMinimumIoU = objectMinimumIoU
            self.noObjectMaximumIoU = noObjectMaximumIoU
            self.anchorsData = anchorsData
        }
    }
}

extension BNNS {
    public struct SparseParameters {
        public let type: BNNS.SparsityType
        public let ratio: (numerator: UInt32, denominator: UInt32)
        public let targetSystem: BNNSTargetSystem

        public init(type: BNNS.SparsityType = .unstructured, ratio: (numerator: UInt32, denominator: UInt32), targetSystem: BNNSTargetSystem) {
            self.type = type
            self.ratio = ratio
            self.targetSystem = targetSystem
        }
    }
}
