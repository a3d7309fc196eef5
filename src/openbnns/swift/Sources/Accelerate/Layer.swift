@_exported import COpenBNNS

/// Basic neural network subroutines: layers, functions on arrays, and what describes them.
public enum BNNS {}

extension BNNS {
    /// What can go wrong in a call. `description` adds the reason that the library gives for the latest call of this thread.
    public enum Error: Swift.Error, CustomStringConvertible {
        /// A layer or a function could not be applied.
        case layerApplyFail
        /// A layer could not be created.
        case unableToCreateLayer
        /// A descriptor has no data, but the call reads or writes it.
        case arrayDescriptorInvalidData
        /// The step of an optimizer failed.
        case optimizerStepFail

        public var description: String {
            let name: String
            switch self {
            case .layerApplyFail: name = "layerApplyFail"
            case .unableToCreateLayer: name = "unableToCreateLayer"
            case .arrayDescriptorInvalidData: name = "arrayDescriptorInvalidData"
            case .optimizerStepFail: name = "optimizerStepFail"
            }
            return BNNS.latestProblem.map { "BNNS.Error.\(name): \($0)" } ?? "BNNS.Error.\(name)"
        }
    }

    /// Why the latest call of this thread failed.
    static var latestProblem: String? { openbnns_last_error().map { String(cString: $0) } }

    /// Throw if a C function has failed.
    @inline(__always)
    static func check(_ status: Int32, _ error: BNNS.Error = .layerApplyFail) throws {
        if status != 0 { throw error }
    }

    /// Base of all layers: owns a filter of the C interface, and destroys it.
    public class Layer {
        /// The filter, for calls of C functions.
        public let bnnsFilter: BNNSFilter

        init(_ filter: BNNSFilter) { bnnsFilter = filter }

        deinit { BNNSFilterDestroy(bnnsFilter) }
    }

    /// Base of layers with one input.
    public class UnaryLayer: Layer {
        /// Run the layer forward.
        public func apply(batchSize: Int, input: BNNSNDArrayDescriptor, output: BNNSNDArrayDescriptor) throws {
            try BNNS.check(
                BNNSFilterApplyBatch(
                    bnnsFilter, batchSize, input.requireData(), input.batchStride, output.requireData(), output.batchStride))
        }

        /// Run the layer backward: the gradient of its input. Pass a descriptor without data to leave a gradient out.
        public func applyBackward(
            batchSize: Int, input: BNNSNDArrayDescriptor, output: BNNSNDArrayDescriptor,
            outputGradient: BNNSNDArrayDescriptor, generatingInputGradient inputGradient: BNNSNDArrayDescriptor
        ) throws {
            try backward(batchSize, input, output, outputGradient, inputGradient, nil, nil)
        }

        /// The backward call of a layer with weights and a bias.
        func backward(
            _ batchSize: Int, _ input: BNNSNDArrayDescriptor, _ output: BNNSNDArrayDescriptor,
            _ outputGradient: BNNSNDArrayDescriptor, _ inputGradient: BNNSNDArrayDescriptor?,
            _ weightsGradient: BNNSNDArrayDescriptor?, _ biasGradient: BNNSNDArrayDescriptor?
        ) throws {
            try filterBackward(batchSize, input, output, outputGradient, inputGradient, weightsGradient, biasGradient)
        }
    }

    /// Base of layers with two inputs.
    public class BinaryLayer: Layer {
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
}

extension BNNS.Layer {
    /// `BNNSFilterApplyBackwardBatch`.
    func filterBackward(
        _ batchSize: Int, _ input: BNNSNDArrayDescriptor, _ output: BNNSNDArrayDescriptor,
        _ outputGradient: BNNSNDArrayDescriptor, _ inputGradient: BNNSNDArrayDescriptor?,
        _ weightsGradient: BNNSNDArrayDescriptor?, _ biasGradient: BNNSNDArrayDescriptor?
    ) throws {
        let status = outputGradient.passed { dy in
            inputGradient.passedIfWanted { dx in
                weightsGradient.passedIfWanted { dw in
                    biasGradient.passedIfWanted { db in
                        BNNSFilterApplyBackwardBatch(
                            bnnsFilter, batchSize, input.data, input.batchStride, dx, inputGradient?.batchStride ?? 0,
                            output.data, output.batchStride, dy, outputGradient.batchStride, dw, db)
                    }
                }
            }
        }
        try BNNS.check(status)
    }

    /// `BNNSFilterApplyTwoInputBatch`.
    func applyTwoInputs(
        _ batchSize: Int, _ inputA: BNNSNDArrayDescriptor, _ inputB: BNNSNDArrayDescriptor, _ output: BNNSNDArrayDescriptor
    ) throws {
        try BNNS.check(
            BNNSFilterApplyTwoInputBatch(
                bnnsFilter, batchSize, inputA.requireData(), inputA.batchStride, inputB.requireData(), inputB.batchStride,
                output.requireData(), output.batchStride))
    }

    /// `BNNSFilterApplyBackwardTwoInputBatch`.
    func backwardTwoInputs(
        _ batchSize: Int, _ inputA: BNNSNDArrayDescriptor, _ inputB: BNNSNDArrayDescriptor, _ output: BNNSNDArrayDescriptor,
        _ outputGradient: BNNSNDArrayDescriptor, _ inputAGradient: BNNSNDArrayDescriptor?,
        _ inputBGradient: BNNSNDArrayDescriptor?
    ) throws {
        let status = outputGradient.passed { dy in
            inputAGradient.passedIfWanted { da in
                inputBGradient.passedIfWanted { db in
                    BNNSFilterApplyBackwardTwoInputBatch(
                        bnnsFilter, batchSize, inputA.data, inputA.batchStride, da, inputAGradient?.batchStride ?? 0,
                        inputB.data, inputB.batchStride, db, inputBGradient?.batchStride ?? 0, output.data,
                        output.batchStride, dy, outputGradient.batchStride, nil, nil)
                }
            }
        }
        try BNNS.check(status)
    }
}
