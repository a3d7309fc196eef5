extension BNNS {
    /// A Gram matrix: scaled products of the channels of an image.
    public class GramLayer: UnaryLayer {
        /// Create the layer.
        public convenience init?(
            input: BNNSNDArrayDescriptor, output: BNNSNDArrayDescriptor, alpha: Float,
            filterParameters: BNNSFilterParameters? = nil
        ) {
            var parameters = BNNSLayerParametersGram(alpha: alpha, i_desc: input, o_desc: output)
            guard let filter = filterParameters.passed({ BNNSFilterCreateLayerGram(&parameters, $0) }) else { return nil }
            self.init(filter)
        }
    }
}
