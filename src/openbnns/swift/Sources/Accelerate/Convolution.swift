extension BNNS.ConvolutionPadding {
    /// No padding.
    public static var zero: BNNS.ConvolutionPadding { .symmetric(x: 0, y: 0) }

    /// The fields of C: padding of both sides, and that of each side.
    var fields: (x: Int, y: Int, pad: (Int, Int, Int, Int)) {
        switch self {
        case .symmetric(let x, let y): return (x, y, (0, 0, 0, 0))
        case .asymmetric(let left, let right, let up, let down): return (0, 0, (left, right, up, down))
        }
    }
}

extension BNNS {
    /// A convolution or a transposed convolution.
    public class ConvolutionLayer: UnaryLayer {
        /// Create the layer.
        public convenience init?(
            type convolutionType: BNNS.ConvolutionType, input: BNNSNDArrayDescriptor, weights: BNNSNDArrayDescriptor,
            output: BNNSNDArrayDescriptor, bias: BNNSNDArrayDescriptor?, padding: BNNS.ConvolutionPadding,
            activation: BNNS.ActivationFunction, groupCount: Int, stride: (x: Int, y: Int), dilationStride: (x: Int, y: Int),
            filterParameters: BNNSFilterParameters? = nil
        ) {
            var parameters = BNNS.convolutionParameters(
                input: input, weights: weights, output: output, bias: bias, padding: padding, activation: activation,
                groupCount: groupCount, stride: stride, dilationStride: dilationStride)
            let filter = filterParameters.passed {
                switch convolutionType {
                case .standard: return BNNSFilterCreateLayerConvolution(&parameters, $0)
                case .transposed: return BNNSFilterCreateLayerTransposedConvolution(&parameters, $0)
                }
            }
            guard let filter else { return nil }
            self.init(filter)
        }

        /// Run the layer backward: gradients of its input, weights and bias.
        public func applyBackward(
            batchSize: Int, input: BNNSNDArrayDescriptor, output: BNNSNDArrayDescriptor,
            outputGradient: BNNSNDArrayDescriptor, generatingInputGradient inputGradient: BNNSNDArrayDescriptor,
            generatingWeightsGradient weightsGradient: BNNSNDArrayDescriptor? = nil,
            generatingBiasGradient biasGradient: BNNSNDArrayDescriptor? = nil
        ) throws {
            try backward(batchSize, input, output, outputGradient, inputGradient, weightsGradient, biasGradient)
        }
    }

    static func convolutionParameters(
        input: BNNSNDArrayDescriptor, weights: BNNSNDArrayDescriptor, output: BNNSNDArrayDescriptor,
        bias: BNNSNDArrayDescriptor?, padding: BNNS.ConvolutionPadding, activation: BNNS.ActivationFunction, groupCount: Int,
        stride: (x: Int, y: Int), dilationStride: (x: Int, y: Int)
    ) -> BNNSLayerParametersConvolution {
        let around = padding.fields
        return BNNSLayerParametersConvolution(
            i_desc: input, w_desc: weights, o_desc: output, bias: bias ?? BNNSNDArrayDescriptor(),
            activation: activation.bnnsActivation, x_stride: stride.x, y_stride: stride.y,
            x_dilation_stride: dilationStride.x, y_dilation_stride: dilationStride.y, x_padding: around.x,
            y_padding: around.y, groups: groupCount, pad: around.pad)
    }
}
