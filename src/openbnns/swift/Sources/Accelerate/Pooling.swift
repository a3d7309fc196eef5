extension BNNS.PoolingType {
    /// The function, as C has it.
    public var bnnsPoolingFunction: BNNSPoolingFunction {
        switch self {
        case .max, .maxEx: return BNNSPoolingFunctionMax
        case .unMax, .unMaxEx: return BNNSPoolingFunctionUnMax
        case .average(let countIncludesPadding):
            return countIncludesPadding
                ? BNNSPoolingFunctionAverageCountIncludePadding : BNNSPoolingFunctionAverageCountExcludePadding
        case .l2Norm: return BNNSPoolingFunctionL2Norm
        }
    }

    fileprivate var dilation: (x: Int, y: Int) {
        switch self {
        case .max(_, let x, let y), .unMax(_, let x, let y), .maxEx(_, let x, let y), .unMaxEx(_, let x, let y): return (x, y)
        case .average, .l2Norm: return (0, 0)
        }
    }
}

extension BNNS {
    /// Pooling: one value for each window of an image, and the reverse.
    public class PoolingLayer: Layer {
        /// Where the positions of maxima are: none, numbers of the size of a pointer, or numbers of a type.
        private enum Indices {
            case none
            case plain(UnsafeMutablePointer<Int>?)
            case typed(BNNSNDArrayDescriptor)
        }

        private var indices = Indices.none
        /// Positions that each sample has: one for each element of the smaller image.
        private var indicesPerSample = 0

        /// Create the layer.
        public convenience init?(
            type poolingType: BNNS.PoolingType, input: BNNSNDArrayDescriptor, output: BNNSNDArrayDescriptor,
            bias: BNNSNDArrayDescriptor?, activation: BNNS.ActivationFunction, kernelSize: (width: Int, height: Int),
            stride: (x: Int, y: Int), padding: BNNS.ConvolutionPadding, filterParameters: BNNSFilterParameters? = nil
        ) {
            let (around, dilation) = (padding.fields, poolingType.dilation)
            var parameters = BNNSLayerParametersPooling(
                i_desc: input, o_desc: output, bias: bias ?? BNNSNDArrayDescriptor(), activation: activation.bnnsActivation,
                pooling_function: poolingType.bnnsPoolingFunction, k_width: kernelSize.width, k_height: kernelSize.height,
                x_stride: stride.x, y_stride: stride.y, x_dilation_stride: dilation.x, y_dilation_stride: dilation.y,
                x_padding: around.x, y_padding: around.y, pad: around.pad)
            guard let filter = filterParameters.passed({ BNNSFilterCreateLayerPooling(&parameters, $0) }) else { return nil }
            self.init(filter)
            switch poolingType {
            case .max(let buffer, _, _): (indices, indicesPerSample) = (.plain(buffer?.baseAddress), output.elementCount)
            case .unMax(let buffer, _, _): (indices, indicesPerSample) = (.plain(buffer?.baseAddress), input.elementCount)
            case .maxEx(let descriptor?, _, _): indices = .typed(descriptor)
            case .unMaxEx(let descriptor, _, _): indices = .typed(descriptor)
            case .average, .l2Norm, .maxEx(nil, _, _): break
            }
        }

        /// Run the layer forward.
        public func apply(batchSize: Int, input: BNNSNDArrayDescriptor, output: BNNSNDArrayDescriptor) throws {
            let (x, y) = (try input.requireData(), try output.requireData())
            let status: Int32
            switch indices {
            case .none:
                status = BNNSPoolingFilterApplyBatch(
                    bnnsFilter, batchSize, x, input.batchStride, y, output.batchStride, nil, 0)
            case .plain(let pointer):
                status = BNNSPoolingFilterApplyBatch(
                    bnnsFilter, batchSize, x, input.batchStride, y, output.batchStride, pointer, indicesPerSample)
            case .typed(let descriptor):
                status = BNNSPoolingFilterApplyBatchEx(
                    bnnsFilter, batchSize, x, input.batchStride, y, output.batchStride, descriptor.data_type, descriptor.data,
                    descriptor.batchStride)
            }
            try BNNS.check(status)
        }

        /// Run the layer backward: gradients of its input and bias.
        public func applyBackward(
            batchSize: Int, input: BNNSNDArrayDescriptor, output: BNNSNDArrayDescriptor,
            outputGradient: BNNSNDArrayDescriptor, generatingInputGradient inputGradient: BNNSNDArrayDescriptor,
            generatingBiasGradient biasGradient: BNNSNDArrayDescriptor? = nil
        ) throws {
            let status = outputGradient.passed { dy in
                Optional(inputGradient).passedIfWanted { dx in
                    biasGradient.passedIfWanted { db in
                        switch indices {
                        case .none:
                            return BNNSPoolingFilterApplyBackwardBatch(
                                bnnsFilter, batchSize, input.data, input.batchStride, dx, inputGradient.batchStride,
                                output.data, output.batchStride, dy, outputGradient.batchStride, db, nil, 0)
                        case .plain(let pointer):
                            return BNNSPoolingFilterApplyBackwardBatch(
                                bnnsFilter, batchSize, input.data, input.batchStride, dx, inputGradient.batchStride,
                                output.data, output.batchStride, dy, outputGradient.batchStride, db, pointer,
                                indicesPerSample)
                        case .typed(let descriptor):
                            return BNNSPoolingFilterApplyBackwardBatchEx(
                                bnnsFilter, batchSize, input.data, input.batchStride, dx, inputGradient.batchStride,
                                output.data, output.batchStride, dy, outputGradient.batchStride, db, descriptor.data_type,
                                descriptor.data, descriptor.batchStride)
                        }
                    }
                }
            }
            try BNNS.check(status)
        }
    }
}
