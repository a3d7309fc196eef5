extension BNNS {
    /// A product of matrices, over axes that broadcast.
    public class BroadcastMatrixMultiplyLayer: Layer {
        /// Create the layer.
        public convenience init?(
            inputA: BNNSNDArrayDescriptor, transposed transposeA: Bool, isWeights aIsWeights: Bool,
            inputB: BNNSNDArrayDescriptor, transposed transposeB: Bool, isWeights bIsWeights: Bool,
            output: BNNSNDArrayDescriptor, alpha: Float, accumulatesToOutput: Bool, isQuadratic: Bool,
            filterParameters: BNNSFilterParameters? = nil
        ) {
            var parameters = BNNSLayerParametersBroadcastMatMul(
                alpha: alpha, beta: accumulatesToOutput ? 1 : 0, transA: transposeA, transB: transposeB,
                quadratic: isQuadratic, a_is_weights: aIsWeights, b_is_weights: bIsWeights, iA_desc: inputA, iB_desc: inputB,
                o_desc: output)
            guard let filter = filterParameters.passed({ BNNSFilterCreateLayerBroadcastMatMul(&parameters, $0) }) else {
                return nil
            }
            self.init(filter)
        }

        /// Run the layer forward.
        public func apply(
            batchSize: Int, inputA: BNNSNDArrayDescriptor, inputB: BNNSNDArrayDescriptor, output: BNNSNDArrayDescriptor
        ) throws {
            try applyTwoInputs(batchSize, inputA, inputB, output)
        }

        /// Run the layer backward: the gradients of its inputs.
        public func applyBackward(
            batchSize: Int, inputA: BNNSNDArrayDescriptor, inputB: BNNSNDArrayDescriptor, output: BNNSNDArrayDescriptor,
            outputGradient: BNNSNDArrayDescriptor, generatingInputAGradient inputAGradient: BNNSNDArrayDescriptor,
            generatingInputBGradient inputBGradient: BNNSNDArrayDescriptor
        ) throws {
            try backwardTwoInputs(batchSize, inputA, inputB, output, outputGradient, inputAGradient, inputBGradient)
        }
    }

    /// Bytes of workspace that a product of matrices needs; nil if it cannot be computed.
    public static func matrixMultiplicationWorkspaceSize(
        inputA: BNNSNDArrayDescriptor, transposed transposeA: Bool, inputB: BNNSNDArrayDescriptor,
        transposed transposeB: Bool, output: BNNSNDArrayDescriptor, alpha: Float, filterParameters: BNNSFilterParameters? = nil
    ) -> Int? {
        let size = inputA.passed { a in
            inputB.passed { b in
                output.passed { y in
                    filterParameters.passed { BNNSMatMulWorkspaceSize(transposeA, transposeB, alpha, a, b, y, $0) }
                }
            }
        }
        return size < 0 ? nil : size
    }

    /// A product of matrices.
    public static func applyMatrixMultiplication(
        inputA: BNNSNDArrayDescriptor, transposed transposeA: Bool, inputB: BNNSNDArrayDescriptor,
        transposed transposeB: Bool, output: BNNSNDArrayDescriptor, alpha: Float, workspace: UnsafeMutableRawBufferPointer?,
        filterParameters: BNNSFilterParameters? = nil
    ) throws {
        let status = inputA.passed { a in
            inputB.passed { b in
                output.passed { y in
                    filterParameters.passed { BNNSMatMul(transposeA, transposeB, alpha, a, b, y, workspace?.baseAddress, $0) }
                }
            }
        }
        try check(status)
    }
}
