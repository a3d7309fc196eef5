extension BNNS {
    /// An activation function, applied to each element or, as softmax, along axes.
    public class ActivationLayer: UnaryLayer {
        /// Create the layer.
        public convenience init?(
            function activationFunction: BNNS.ActivationFunction, input: BNNSNDArrayDescriptor, output: BNNSNDArrayDescriptor,
            filterParameters: BNNSFilterParameters? = nil
        ) {
            self.init(
                function: activationFunction, axes: [], input: input, output: output, filterParameters: filterParameters)
        }

        /// Create the layer for a function along axes, which count as `size` of the input does.
        public convenience init?(
            function activationFunction: BNNS.ActivationFunction, axes: [Int], input: BNNSNDArrayDescriptor,
            output: BNNSNDArrayDescriptor, filterParameters: BNNSFilterParameters? = nil
        ) {
            var parameters = BNNS.activationParameters(activationFunction, axes, input, output)
            guard let filter = filterParameters.passed({ BNNSFilterCreateLayerActivation(&parameters, $0) }) else { return nil }
            self.init(filter)
        }
    }

    /// Apply an activation function without creating a layer.
    public static func applyActivation(
        activation: BNNS.ActivationFunction, input: BNNSNDArrayDescriptor, output: BNNSNDArrayDescriptor, batchSize: Int,
        filterParameters: BNNSFilterParameters? = nil
    ) throws {
        try applyActivation(
            activation: activation, axes: [], input: input, output: output, batchSize: batchSize,
            filterParameters: filterParameters)
    }

    /// Apply an activation function along axes without creating a layer.
    public static func applyActivation(
        activation: BNNS.ActivationFunction, axes: [Int], input: BNNSNDArrayDescriptor, output: BNNSNDArrayDescriptor,
        batchSize: Int, filterParameters: BNNSFilterParameters? = nil
    ) throws {
        var parameters = activationParameters(activation, axes, input, output)
        try check(
            filterParameters.passed {
                BNNSDirectApplyActivationBatch(&parameters, $0, batchSize, input.batchStride, output.batchStride)
            })
    }

    private static func activationParameters(
        _ function: BNNS.ActivationFunction, _ axes: [Int], _ input: BNNSNDArrayDescriptor, _ output: BNNSNDArrayDescriptor
    ) -> BNNSLayerParametersActivation {
        BNNSLayerParametersActivation(
            i_desc: input, o_desc: output, activation: function.bnnsActivation, axis_flags: mask(of: axes))
    }
}

extension BNNSActivation {
    /// An activation; functions without parameters ignore `alpha` and `beta`.
    public init(function: BNNSActivationFunction, alpha: Float = .nan, beta: Float = .nan) {
        self.init()
        self.function = function
        self.alpha = alpha
        self.beta = beta
    }

    /// No activation.
    public static var identity: BNNSActivation { BNNSActivation(function: .identity) }

    /// Integers, scaled, shifted and clamped to the type of the output.
    public static func integerLinearSaturate(scale: Int32 = 1, offset: Int32 = 0, shift: Int32 = 0) -> BNNSActivation {
        var activation = BNNSActivation(function: .integerLinearSaturate)
        activation.iscale = scale
        activation.ioffset = offset
        activation.ishift = shift
        return activation
    }

    /// The same with numbers for each channel. The arrays must live until the filter is created.
    public static func integerLinearSaturatePerChannel(
        scale: UnsafePointer<Int32>, offset: UnsafePointer<Int32>, shift: UnsafePointer<Int32>
    ) -> BNNSActivation {
        var activation = BNNSActivation(function: .integerLinearSaturatePerChannel)
        activation.iscale_per_channel = scale
        activation.ioffset_per_channel = offset
        activation.ishift_per_channel = shift
        return activation
    }
}
