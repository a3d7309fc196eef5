extension BNNS {
    /// A norm, by the number p of its name: 1, 2 or infinity.
    @frozen
    public struct Norm: Equatable, Sendable {
        public var rawValue: Float

        public init(rawValue: Float) { self.rawValue = rawValue }

        public static var l1: BNNS.Norm { Norm(rawValue: 1) }
        public static var taxicab: BNNS.Norm { l1 }
        public static var l2: BNNS.Norm { Norm(rawValue: 2) }
        public static var euclidean: BNNS.Norm { l2 }
        public static var lInfinity: BNNS.Norm { Norm(rawValue: .infinity) }
        public static var maximum: BNNS.Norm { lInfinity }
    }

    /// Rows of a dictionary, looked up by numbers.
    public class EmbeddingLayer: Layer {
        /// Create the layer.
        public convenience init?(
            input: BNNSNDArrayDescriptor, output: BNNSNDArrayDescriptor, dictionary: BNNSNDArrayDescriptor, paddingIndex: Int,
            maximumNorm: Float, normType: BNNS.Norm, scalesGradientByFrequency: Bool,
            filterParameters: BNNSFilterParameters? = nil
        ) {
            let flags = scalesGradientByFrequency ? BNNSEmbeddingFlagScaleGradientByFrequency : BNNSEmbeddingFlags(0)
            var parameters = BNNSLayerParametersEmbedding(
                flags: flags, i_desc: input, o_desc: output, dictionary: dictionary, padding_idx: paddingIndex,
                max_norm: maximumNorm, norm_type: normType.rawValue)
            guard let filter = filterParameters.passed({ BNNSFilterCreateLayerEmbedding(&parameters, $0) }) else { return nil }
            self.init(filter)
        }

        /// Run the layer forward.
        public func apply(batchSize: Int, input: BNNSNDArrayDescriptor, output: BNNSNDArrayDescriptor) throws {
            try BNNS.check(
                BNNSFilterApplyBatch(
                    bnnsFilter, batchSize, input.requireData(), input.batchStride, output.requireData(), output.batchStride))
        }

        /// Run the layer backward: the gradient of the dictionary.
        public func applyBackward(
            batchSize: Int, input: BNNSNDArrayDescriptor, output: BNNSNDArrayDescriptor,
            outputGradient: BNNSNDArrayDescriptor, generatingWeightsGradient weightsGradient: BNNSNDArrayDescriptor
        ) throws {
            try filterBackward(batchSize, input, output, outputGradient, nil, weightsGradient, nil)
        }
    }
}
