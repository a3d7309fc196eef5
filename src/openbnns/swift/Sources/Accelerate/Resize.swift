extension BNNS {
    /// Images of another size.
    public class ResizeLayer: UnaryLayer {
        /// Create the layer.
        public convenience init?(
            interpolationMethod: BNNS.InterpolationMethod, input: BNNSNDArrayDescriptor, output: BNNSNDArrayDescriptor,
            alignsCorners: Bool, filterParameters: BNNSFilterParameters? = nil
        ) {
            var parameters = BNNSLayerParametersResize(
                method: interpolationMethod.bnnsInterpolationMethod, i_desc: input, o_desc: output,
                align_corners: alignsCorners)
            guard let filter = filterParameters.passed({ BNNSFilterCreateLayerResize(&parameters, $0) }) else { return nil }
            self.init(filter)
        }
    }
}
