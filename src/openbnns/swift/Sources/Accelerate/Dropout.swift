extension BNNS {
    /// Dropout: in training, each element is 0 with the probability `rate`, and the others are scaled up.
    public class DropoutLayer: UnaryLayer {
        /// Create the layer.
        public convenience init?(
            input: BNNSNDArrayDescriptor, output: BNNSNDArrayDescriptor, rate: Float, seed: UInt32, control: UInt8,
            filterParameters: BNNSFilterParameters? = nil
        ) {
            var parameters = BNNSLayerParametersDropout(
                i_desc: input, o_desc: output, rate: rate, seed: seed, control: control)
            guard let filter = filterParameters.passed({ BNNSFilterCreateLayerDropout(&parameters, $0) }) else { return nil }
            self.init(filter)
        }
    }
}
