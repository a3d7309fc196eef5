extension BNNS.ReductionFunction {
    fileprivate func parameters(
        _ input: BNNSNDArrayDescriptor, _ output: BNNSNDArrayDescriptor, _ weights: BNNSNDArrayDescriptor?
    ) -> BNNSLayerParametersReduction {
        var parameters = BNNSLayerParametersReduction(
            i_desc: input, o_desc: output, w_desc: weights ?? BNNSNDArrayDescriptor(), reduce_func: bnnsReduceFunction,
            epsilon: 0)
        if case .sumOfLogs(let epsilon) = self { parameters.epsilon = epsilon }
        return parameters
    }
}

extension BNNS {
    /// A reduction over the axes in which the output has the size 1.
    public class ReductionLayer: UnaryLayer {
        /// Create the layer.
        public convenience init?(
            function reductionFunction: BNNS.ReductionFunction, input: BNNSNDArrayDescriptor, output: BNNSNDArrayDescriptor,
            weights: BNNSNDArrayDescriptor?, filterParameters: BNNSFilterParameters? = nil
        ) {
            var parameters = reductionFunction.parameters(input, output, weights)
            guard let filter = filterParameters.passed({ BNNSFilterCreateLayerReduction(&parameters, $0) }) else { return nil }
            self.init(filter)
        }

        /// Run the layer backward: gradients of its input and weights.
        public func applyBackward(
            batchSize: Int, input: BNNSNDArrayDescriptor, output: BNNSNDArrayDescriptor,
            outputGradient: BNNSNDArrayDescriptor, generatingInputGradient inputGradient: BNNSNDArrayDescriptor,
            generatingWeightsGradient weightsGradient: BNNSNDArrayDescriptor? = nil
        ) throws {
            try backward(batchSize, input, output, outputGradient, inputGradient, weightsGradient, nil)
        }
    }

    /// Reduce an array without creating a layer.
    public static func applyReduction(
        _ reductionFunction: BNNS.ReductionFunction, input: BNNSNDArrayDescriptor, output: BNNSNDArrayDescriptor,
        weights: BNNSNDArrayDescriptor?, filterParameters: BNNSFilterParameters? = nil
    ) throws {
        var parameters = reductionFunction.parameters(input, output, weights)
        try check(filterParameters.passed { BNNSDirectApplyReduction(&parameters, $0) })
    }
}
