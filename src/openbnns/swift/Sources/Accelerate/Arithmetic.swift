extension BNNS {
    /// Arithmetic of one operand.
    public class UnaryArithmeticLayer: Layer {
        /// Create the layer.
        public convenience init?(
            input: BNNSNDArrayDescriptor, inputDescriptorType: BNNS.DescriptorType, output: BNNSNDArrayDescriptor,
            outputDescriptorType: BNNS.DescriptorType, function: BNNS.ArithmeticUnaryFunction,
            activation: BNNS.ActivationFunction = .identity, filterParameters: BNNSFilterParameters? = nil
        ) {
            let operands = ArithmeticOperands(
                inputs: [(input, inputDescriptorType)], output: (output, outputDescriptorType),
                function: function.bnnsArithmeticFunction, activation: activation)
            guard let filter = operands.makeFilter(filterParameters) else { return nil }
            self.init(filter)
        }

        /// Run the layer forward.
        public func apply(batchSize: Int, input: BNNSNDArrayDescriptor, output: BNNSNDArrayDescriptor) throws {
            try applyArithmetic(batchSize, [input], output)
        }

        /// Run the layer backward: the gradient of its input.
        public func applyBackward(
            batchSize: Int, input: BNNSNDArrayDescriptor, output: BNNSNDArrayDescriptor,
            outputGradient: BNNSNDArrayDescriptor, generatingInputGradient inputGradient: BNNSNDArrayDescriptor
        ) throws {
            try backwardArithmetic(batchSize, [input], output, outputGradient, [inputGradient])
        }
    }

    /// Arithmetic of two operands.
    public class BinaryArithmeticLayer: Layer {
        /// Create the layer.
        public convenience init?(
            inputA: BNNSNDArrayDescriptor, inputADescriptorType: BNNS.DescriptorType, inputB: BNNSNDArrayDescriptor,
            inputBDescriptorType: BNNS.DescriptorType, output: BNNSNDArrayDescriptor,
            outputDescriptorType: BNNS.DescriptorType, function: BNNS.ArithmeticBinaryFunction,
            activation: BNNS.ActivationFunction = .identity, filterParameters: BNNSFilterParameters? = nil
        ) {
            let operands = ArithmeticOperands(
                inputs: [(inputA, inputADescriptorType), (inputB, inputBDescriptorType)],
                output: (output, outputDescriptorType), function: function.bnnsArithmeticFunction, activation: activation)
            guard let filter = operands.makeFilter(filterParameters) else { return nil }
            self.init(filter)
        }

        /// Run the layer forward.
        public func apply(
            batchSize: Int, inputA: BNNSNDArrayDescriptor, inputB: BNNSNDArrayDescriptor, output: BNNSNDArrayDescriptor
        ) throws {
            try applyArithmetic(batchSize, [inputA, inputB], output)
        }

        /// Run the layer backward: the gradients of its inputs.
        public func applyBackward(
            batchSize: Int, inputA: BNNSNDArrayDescriptor, inputB: BNNSNDArrayDescriptor, output: BNNSNDArrayDescriptor,
            outputGradient: BNNSNDArrayDescriptor, generatingInputAGradient inputAGradient: BNNSNDArrayDescriptor,
            generatingInputBGradient inputBGradient: BNNSNDArrayDescriptor
        ) throws {
            try backwardArithmetic(batchSize, [inputA, inputB], output, outputGradient, [inputAGradient, inputBGradient])
        }
    }

    /// Arithmetic of three operands.
    public class TernaryArithmeticLayer: Layer {
        /// Create the layer.
        public convenience init?(
            inputA: BNNSNDArrayDescriptor, inputADescriptorType: BNNS.DescriptorType, inputB: BNNSNDArrayDescriptor,
            inputBDescriptorType: BNNS.DescriptorType, inputC: BNNSNDArrayDescriptor,
            inputCDescriptorType: BNNS.DescriptorType, output: BNNSNDArrayDescriptor,
            outputDescriptorType: BNNS.DescriptorType, function: BNNS.ArithmeticTernaryFunction,
            activation: BNNS.ActivationFunction = .identity, filterParameters: BNNSFilterParameters? = nil
        ) {
            let operands = ArithmeticOperands(
                inputs: [(inputA, inputADescriptorType), (inputB, inputBDescriptorType), (inputC, inputCDescriptorType)],
                output: (output, outputDescriptorType), function: function.bnnsArithmeticFunction, activation: activation)
            guard let filter = operands.makeFilter(filterParameters) else { return nil }
            self.init(filter)
        }

        /// Run the layer forward.
        public func apply(
            batchSize: Int, inputA: BNNSNDArrayDescriptor, inputB: BNNSNDArrayDescriptor, inputC: BNNSNDArrayDescriptor,
            output: BNNSNDArrayDescriptor
        ) throws {
            try applyArithmetic(batchSize, [inputA, inputB, inputC], output)
        }

        /// Run the layer backward: the gradients of its inputs.
        public func applyBackward(
            batchSize: Int, inputA: BNNSNDArrayDescriptor, inputB: BNNSNDArrayDescriptor, inputC: BNNSNDArrayDescriptor,
            output: BNNSNDArrayDescriptor, outputGradient: BNNSNDArrayDescriptor,
            generatingInputAGradient inputAGradient: BNNSNDArrayDescriptor,
            generatingInputBGradient inputBGradient: BNNSNDArrayDescriptor,
            generatingInputCGradient inputCGradient: BNNSNDArrayDescriptor
        ) throws {
            try backwardArithmetic(
                batchSize, [inputA, inputB, inputC], output, outputGradient,
                [inputAGradient, inputBGradient, inputCGradient])
        }
    }
}

/// What a filter of arithmetic is created from: one to three inputs and an output, each with its role.
struct ArithmeticOperands {
    var inputs: [(BNNSNDArrayDescriptor, BNNS.DescriptorType)]
    var output: (BNNSNDArrayDescriptor, BNNS.DescriptorType)
    var function: BNNSArithmeticFunction
    var activation: BNNS.ActivationFunction

    func makeFilter(_ filterParameters: BNNSFilterParameters?) -> BNNSFilter? {
        passed { parameters in filterParameters.passed { BNNSFilterCreateLayerArithmetic(parameters, $0) } }
    }

    /// Call with the struct of C.
    func passed<Result>(_ body: (UnsafePointer<BNNSLayerParametersArithmetic>) throws -> Result) rethrows -> Result {
        let role = { (type: BNNS.DescriptorType) in type.bnnsDescriptorType }
        let a = inputs[0]
        switch inputs.count {
        case 1:
            return try passed(
                BNNSArithmeticUnary(in: a.0, in_type: role(a.1), out: output.0, out_type: role(output.1)), body)
        case 2:
            let b = inputs[1]
            return try passed(
                BNNSArithmeticBinary(
                    in1: a.0, in1_type: role(a.1), in2: b.0, in2_type: role(b.1), out: output.0, out_type: role(output.1)), body)
        default:
            let (b, c) = (inputs[1], inputs[2])
            return try passed(
                BNNSArithmeticTernary(
                    in1: a.0, in1_type: role(a.1), in2: b.0, in2_type: role(b.1), in3: c.0, in3_type: role(c.1),
                    out: output.0, out_type: role(output.1)), body)
        }
    }

    private func passed<Fields, Result>(
        _ fields: Fields, _ body: (UnsafePointer<BNNSLayerParametersArithmetic>) throws -> Result
    ) rethrows -> Result {
        var fields = fields
        return try withUnsafeMutableBytes(of: &fields) { bytes in
            var parameters = BNNSLayerParametersArithmetic(
                arithmetic_function: function, arithmetic_function_fields: bytes.baseAddress!,
                activation: activation.bnnsActivation)
            return try body(&parameters)
        }
    }
}

extension BNNS.Layer {
    fileprivate func applyArithmetic(
        _ batchSize: Int, _ inputs: [BNNSNDArrayDescriptor], _ output: BNNSNDArrayDescriptor
    ) throws {
        var data = try inputs.map { UnsafeRawPointer(try $0.requireData()) }
        try BNNS.check(
            BNNSArithmeticFilterApplyBatch(
                bnnsFilter, batchSize, inputs.count, &data, inputs.map(\.batchStride), output.requireData(), output.batchStride))
    }

    fileprivate func backwardArithmetic(
        _ batchSize: Int, _ inputs: [BNNSNDArrayDescriptor], _ output: BNNSNDArrayDescriptor,
        _ outputGradient: BNNSNDArrayDescriptor, _ inputGradients: [BNNSNDArrayDescriptor]
    ) throws {
        var data = inputs.map { UnsafeRawPointer($0.data) }
        let status = outputGradient.passed { dy in
            inputGradients.passed { dx in
                BNNSArithmeticFilterApplyBackwardBatch(
                    bnnsFilter, batchSize, inputs.count, &data, inputs.map(\.batchStride), dx.baseAddress!,
                    inputGradients.map(\.batchStride), output.data, output.batchStride, dy, outputGradient.batchStride)
            }
        }
        try BNNS.check(status)
    }
}
