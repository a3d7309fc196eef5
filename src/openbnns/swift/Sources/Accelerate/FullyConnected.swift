extension BNNS {
    /// A fully connected layer.
    public class FullyConnectedLayer: ConvolutionLayer {
        /// Create the layer.
        public convenience init?(
            input: BNNSNDArrayDescriptor, output: BNNSNDArrayDescriptor, weights: BNNSNDArrayDescriptor,
            bias: BNNSNDArrayDescriptor?, activation: BNNS.ActivationFunction, filterParameters: BNNSFilterParameters? = nil
        ) {
            var parameters = BNNSLayerParametersFullyConnected(
                i_desc: input, w_desc: weights, o_desc: output, bias: bias ?? BNNSNDArrayDescriptor(),
                activation: activation.bnnsActivation)
            guard let filter = filterParameters.passed({ BNNSFilterCreateLayerFullyConnected(&parameters, $0) }) else {
                return nil
            }
            self.init(filter)
        }

        /// Convert weights in coordinate or compressed row form to the packed form of sparse layers.
        public static func sparsify(
            batchSize: Int = 1, inputLayout layout: BNNS.SparseLayout, inputDenseShape: BNNSNDArrayDescriptor,
            inputValues: BNNSNDArrayDescriptor, output: inout BNNSNDArrayDescriptor,
            sparseParameters: BNNS.SparseParameters? = nil, workspace: UnsafeMutableRawBufferPointer? = nil,
            filterParameters: BNNSFilterParameters? = nil
        ) throws {
            let described = sparseParameters.map {
                BNNSSparsityParameters(
                    flags: 0, sparsity_ratio: ($0.ratio.numerator, $0.ratio.denominator),
                    sparsity_type: $0.type.bnnsSparsityType, target_system: $0.targetSystem)
            }
            let (memory, size) = (workspace?.baseAddress, workspace?.count ?? 0)
            let status = inputDenseShape.passed { shape in
                inputValues.passed { values in
                    described.passed { sparsity in
                        filterParameters.passed { filter in
                            switch layout {
                            case .coo(let indices):
                                return indices.passed {
                                    BNNSNDArrayFullyConnectedSparsifySparseCOO(
                                        shape, $0, values, &output, sparsity, batchSize, memory, size, filter)
                                }
                            case .csr(let columnIndices, let rowStarts):
                                return columnIndices.passed { columns in
                                    rowStarts.passed {
                                        BNNSNDArrayFullyConnectedSparsifySparseCSR(
                                            shape, columns, $0, values, &output, sparsity, batchSize, memory, size, filter)
                                    }
                                }
                            }
                        }
                    }
                }
            }
            try BNNS.check(status)
        }
    }
}
