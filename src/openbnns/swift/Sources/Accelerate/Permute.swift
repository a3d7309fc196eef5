extension BNNS {
    /// Axes in another order.
    public class PermuteLayer: UnaryLayer {
        /// Create the layer. Axis `i` of the output is axis `permutation[i]` of the input.
        public convenience init?(
            input: BNNSNDArrayDescriptor, output: BNNSNDArrayDescriptor, permutation: [Int],
            filterParameters: BNNSFilterParameters? = nil
        ) {
            var parameters = BNNSLayerParametersPermute()
            parameters.i_desc = input
            parameters.o_desc = output
            fill(&parameters.permutation, with: permutation)
            guard let filter = filterParameters.passed({ BNNSFilterCreateLayerPermute(&parameters, $0) }) else { return nil }
            self.init(filter)
        }

        override func backward(
            _ batchSize: Int, _ input: BNNSNDArrayDescriptor, _ output: BNNSNDArrayDescriptor,
            _ outputGradient: BNNSNDArrayDescriptor, _ inputGradient: BNNSNDArrayDescriptor?,
            _ weightsGradient: BNNSNDArrayDescriptor?, _ biasGradient: BNNSNDArrayDescriptor?
        ) throws {
            guard let inputGradient else { return }
            let status = inputGradient.passed { dx in
                outputGradient.passed {
                    BNNSPermuteFilterApplyBackwardBatch(
                        bnnsFilter, batchSize, dx, inputGradient.batchStride, $0, outputGradient.batchStride)
                }
            }
            try BNNS.check(status)
        }
    }
}
