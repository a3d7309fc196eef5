/// A layer of a fused one, by its parameters: `BNNS.FusedConvolutionParameters`, `BNNS.FusedNormalizationParameters` and others.
public protocol FusableLayerParameters {}

/// A layer of a fused one that can describe itself to C.
private protocol FusedPart: FusableLayerParameters {
    /// Call with the kind of filter and the struct of C for this layer between its inputs and its output.
    func describe<Result>(
        _ inputs: [BNNSNDArrayDescriptor], _ output: BNNSNDArrayDescriptor, _ body: (BNNSFilterType, UnsafeRawPointer) -> Result
    ) -> Result

    /// How the tensor before this layer differs from the output of the chain.
    func boundary(from output: BNNSNDArrayDescriptor) -> BNNSNDArrayDescriptor
}

extension FusedPart {
    func boundary(from output: BNNSNDArrayDescriptor) -> BNNSNDArrayDescriptor { output }
}

extension BNNS.FusedConvolutionParameters: FusedPart {
    fileprivate func describe<Result>(
        _ inputs: [BNNSNDArrayDescriptor], _ output: BNNSNDArrayDescriptor, _ body: (BNNSFilterType, UnsafeRawPointer) -> Result
    ) -> Result {
        var parameters = BNNS.convolutionParameters(
            input: inputs[0], weights: weights, output: output, bias: bias, padding: padding, activation: .identity,
            groupCount: groupSize, stride: stride, dilationStride: dilationStride)
        return body(type == .standard ? BNNSConvolution : BNNSTransposedConvolution, &parameters)
    }
}

extension BNNS.FusedFullyConnectedParameters: FusedPart {
    fileprivate func describe<Result>(
        _ inputs: [BNNSNDArrayDescriptor], _ output: BNNSNDArrayDescriptor, _ body: (BNNSFilterType, UnsafeRawPointer) -> Result
    ) -> Result {
        var parameters = BNNSLayerParametersFullyConnected(
            i_desc: inputs[0], w_desc: weights, o_desc: output, bias: bias ?? BNNSNDArrayDescriptor(),
            activation: BNNS.ActivationFunction.identity.bnnsActivation)
        return body(BNNSFullyConnected, &parameters)
    }
}

extension BNNS.FusedNormalizationParameters: FusedPart {
    fileprivate func describe<Result>(
        _ inputs: [BNNSNDArrayDescriptor], _ output: BNNSNDArrayDescriptor, _ body: (BNNSFilterType, UnsafeRawPointer) -> Result
    ) -> Result {
        var parameters = type.parameters(
            input: inputs[0], output: output, beta: beta, gamma: gamma, momentum: momentum, epsilon: epsilon,
            activation: activation)
        return body(type.bnnsFilterType, &parameters)
    }
}

extension BNNS.FusedQuantizationParameters: FusedPart {
    fileprivate func describe<Result>(
        _ inputs: [BNNSNDArrayDescriptor], _ output: BNNSNDArrayDescriptor, _ body: (BNNSFilterType, UnsafeRawPointer) -> Result
    ) -> Result {
        var parameters = BNNS.quantizerParameters(BNNSQuantizerFunctionQuantize, inputs[0], output, axis, scale, bias)
        return body(BNNSQuantization, &parameters)
    }

    fileprivate func boundary(from output: BNNSNDArrayDescriptor) -> BNNSNDArrayDescriptor { output.plain(.float) }
}

extension BNNS.FusedDequantizationParameters: FusedPart {
    fileprivate func describe<Result>(
        _ inputs: [BNNSNDArrayDescriptor], _ output: BNNSNDArrayDescriptor, _ body: (BNNSFilterType, UnsafeRawPointer) -> Result
    ) -> Result {
        var parameters = BNNS.quantizerParameters(BNNSQuantizerFunctionDequantize, inputs[0], output, axis, scale, bias)
        return body(BNNSQuantization, &parameters)
    }

    fileprivate func boundary(from output: BNNSNDArrayDescriptor) -> BNNSNDArrayDescriptor { output.plain(.int32) }
}

extension BNNS.FusedUnaryArithmeticParameters: FusedPart {
    fileprivate func describe<Result>(
        _ inputs: [BNNSNDArrayDescriptor], _ output: BNNSNDArrayDescriptor, _ body: (BNNSFilterType, UnsafeRawPointer) -> Result
    ) -> Result {
        describeArithmetic(
            inputs, [inputDescriptorType], output, outputDescriptorType, function.bnnsArithmeticFunction, body)
    }
}

extension BNNS.FusedBinaryArithmeticParameters: FusedPart {
    fileprivate func describe<Result>(
        _ inputs: [BNNSNDArrayDescriptor], _ output: BNNSNDArrayDescriptor, _ body: (BNNSFilterType, UnsafeRawPointer) -> Result
    ) -> Result {
        describeArithmetic(
            inputs, [inputADescriptorType, inputBDescriptorType], output, outputDescriptorType,
            function.bnnsArithmeticFunction, body)
    }
}

extension BNNS.FusedTernaryArithmeticParameters: FusedPart {
    fileprivate func describe<Result>(
        _ inputs: [BNNSNDArrayDescriptor], _ output: BNNSNDArrayDescriptor, _ body: (BNNSFilterType, UnsafeRawPointer) -> Result
    ) -> Result {
        describeArithmetic(
            inputs, [inputADescriptorType, inputBDescriptorType, inputCDescriptorType], output, outputDescriptorType,
            function.bnnsArithmeticFunction, body)
    }
}

/// Operands that are missing are empty descriptors, which C functions refuse with a reason.
private func describeArithmetic<Result>(
    _ inputs: [BNNSNDArrayDescriptor], _ roles: [BNNS.DescriptorType], _ output: BNNSNDArrayDescriptor,
    _ outputRole: BNNS.DescriptorType, _ function: BNNSArithmeticFunction, _ body: (BNNSFilterType, UnsafeRawPointer) -> Result
) -> Result {
    let given = roles.indices.map { $0 < inputs.count ? inputs[$0] : BNNSNDArrayDescriptor() }
    let operands = ArithmeticOperands(
        inputs: Array(zip(given, roles)), output: (output, outputRole), function: function, activation: .identity)
    return operands.passed { body(BNNSArithmetic, UnsafeRawPointer($0)) }
}

extension BNNS {
    /// Base of layers that are several in one.
    public class FusedLayer: Layer {
        /// Run the layer forward. In training it keeps what `applyBackward` needs.
        public func apply(
            batchSize: Int, input: BNNSNDArrayDescriptor, output: BNNSNDArrayDescriptor, for learningPhase: BNNS.LearningPhase
        ) throws {
            try BNNS.check(
                BNNSFusedFilterApplyBatch(
                    bnnsFilter, batchSize, input.requireData(), input.batchStride, output.requireData(), output.batchStride,
                    learningPhase == .training))
        }

        /// Run the layer backward, after `apply` in training on the same batch. Gradients of parameters are those of weights,
        /// bias, beta and gamma, in this order; one without data is left out.
        public func applyBackward(
            batchSize: Int, input: BNNSNDArrayDescriptor, output: BNNSNDArrayDescriptor,
            outputGradient: BNNSNDArrayDescriptor, generatingInputGradient inputGradient: BNNSNDArrayDescriptor,
            generatingParameterGradients parameterGradients: [BNNSNDArrayDescriptor]
        ) throws {
            let status = outputGradient.passed { dy in
                Optional(inputGradient).passedIfWanted { dx in
                    parameterGradients.passedIfWanted(count: BNNS.fusedParameterCount) {
                        BNNSFusedFilterApplyBackwardBatch(
                            bnnsFilter, batchSize, input.data, input.batchStride, dx, inputGradient.batchStride, output.data,
                            output.batchStride, dy, outputGradient.batchStride, $0)
                    }
                }
            }
            try BNNS.check(status)
        }
    }

    /// A convolution and a normalization in one.
    public class FusedConvolutionNormalizationLayer: FusedLayer {
        /// Create the layer.
        public convenience init?(
            input: BNNSNDArrayDescriptor, output: BNNSNDArrayDescriptor, convolutionWeights: BNNSNDArrayDescriptor,
            convolutionBias: BNNSNDArrayDescriptor?, convolutionStride: (x: Int, y: Int),
            convolutionDilationStride: (x: Int, y: Int), convolutionPadding: BNNS.ConvolutionPadding,
            normalization: BNNS.NormalizationType, normalizationBeta: BNNSNDArrayDescriptor,
            normalizationGamma: BNNSNDArrayDescriptor, normalizationMomentum: Float, normalizationEpsilon: Float,
            normalizationActivation: BNNS.ActivationFunction, filterParameters: BNNSFilterParameters? = nil
        ) {
            let convolution = BNNS.FusedConvolutionParameters(
                type: .standard, weights: convolutionWeights, bias: convolutionBias, stride: convolutionStride,
                dilationStride: convolutionDilationStride, groupSize: 1, padding: convolutionPadding)
            let normalization = BNNS.FusedNormalizationParameters(
                type: normalization, beta: normalizationBeta, gamma: normalizationGamma, momentum: normalizationMomentum,
                epsilon: normalizationEpsilon, activation: normalizationActivation)
            guard let filter = BNNS.fuse([input], output, [convolution, normalization], filterParameters) else { return nil }
            self.init(filter)
        }
    }

    /// A fully connected layer and a normalization in one.
    public class FusedFullyConnectedNormalizationLayer: FusedLayer {
        /// Create the layer.
        public convenience init?(
            input: BNNSNDArrayDescriptor, output: BNNSNDArrayDescriptor, fullyConnectedWeights: BNNSNDArrayDescriptor,
            fullyConnectedBias: BNNSNDArrayDescriptor?, normalization: BNNS.NormalizationType,
            normalizationBeta: BNNSNDArrayDescriptor, normalizationGamma: BNNSNDArrayDescriptor, normalizationMomentum: Float,
            normalizationEpsilon: Float, normalizationActivation: BNNS.ActivationFunction,
            filterParameters: BNNSFilterParameters? = nil
        ) {
            let fullyConnected = BNNS.FusedFullyConnectedParameters(weights: fullyConnectedWeights, bias: fullyConnectedBias)
            let normalization = BNNS.FusedNormalizationParameters(
                type: normalization, beta: normalizationBeta, gamma: normalizationGamma, momentum: normalizationMomentum,
                epsilon: normalizationEpsilon, activation: normalizationActivation)
            guard let filter = BNNS.fuse([input], output, [fullyConnected, normalization], filterParameters) else { return nil }
            self.init(filter)
        }
    }

    /// A chain of layers, given by their parameters.
    public class FusedParametersLayer: FusedLayer {
        /// Create a layer with three inputs.
        public convenience init?(
            inputA: BNNSNDArrayDescriptor, inputB: BNNSNDArrayDescriptor, inputC: BNNSNDArrayDescriptor,
            output: BNNSNDArrayDescriptor, fusedLayerParameters: [any FusableLayerParameters],
            filterParameters: BNNSFilterParameters? = nil
        ) {
            guard let filter = BNNS.fuse([inputA, inputB, inputC], output, fusedLayerParameters, filterParameters) else {
                return nil
            }
            self.init(filter)
        }

        /// Create a layer with two inputs.
        public convenience init?(
            inputA: BNNSNDArrayDescriptor, inputB: BNNSNDArrayDescriptor, output: BNNSNDArrayDescriptor,
            fusedLayerParameters: [any FusableLayerParameters], filterParameters: BNNSFilterParameters? = nil
        ) {
            guard let filter = BNNS.fuse([inputA, inputB], output, fusedLayerParameters, filterParameters) else { return nil }
            self.init(filter)
        }

        /// Create a layer with one input.
        public convenience init?(
            input: BNNSNDArrayDescriptor, output: BNNSNDArrayDescriptor, fusedLayerParameters: [any FusableLayerParameters],
            filterParameters: BNNSFilterParameters? = nil
        ) {
            guard let filter = BNNS.fuse([input], output, fusedLayerParameters, filterParameters) else { return nil }
            self.init(filter)
        }

        /// Run a layer with three inputs forward.
        public func apply(
            batchSize: Int, inputA: BNNSNDArrayDescriptor, inputB: BNNSNDArrayDescriptor, inputC: BNNSNDArrayDescriptor,
            output: BNNSNDArrayDescriptor, for learningPhase: BNNS.LearningPhase
        ) throws {
            try apply(batchSize, [inputA, inputB, inputC], output, learningPhase)
        }

        /// Run a layer with two inputs forward.
        public func apply(
            batchSize: Int, inputA: BNNSNDArrayDescriptor, inputB: BNNSNDArrayDescriptor, output: BNNSNDArrayDescriptor,
            for learningPhase: BNNS.LearningPhase
        ) throws {
            try apply(batchSize, [inputA, inputB], output, learningPhase)
        }

        /// Run a layer with three inputs backward, after `apply` in training on the same batch.
        public func applyBackward(
            batchSize: Int, inputA: BNNSNDArrayDescriptor, inputB: BNNSNDArrayDescriptor, inputC: BNNSNDArrayDescriptor,
            output: BNNSNDArrayDescriptor, outputGradient: BNNSNDArrayDescriptor,
            generatingInputAGradient inputAGradient: BNNSNDArrayDescriptor,
            generatingInputBGradient inputBGradient: BNNSNDArrayDescriptor,
            generatingInputCGradient inputCGradient: BNNSNDArrayDescriptor,
            generatingParameterGradients parameterGradients: [BNNSNDArrayDescriptor]
        ) throws {
            try applyBackward(
                batchSize, [inputA, inputB, inputC], output, outputGradient, [inputAGradient, inputBGradient, inputCGradient],
                parameterGradients)
        }

        /// Run a layer with two inputs backward, after `apply` in training on the same batch.
        public func applyBackward(
            batchSize: Int, inputA: BNNSNDArrayDescriptor, inputB: BNNSNDArrayDescriptor, output: BNNSNDArrayDescriptor,
            outputGradient: BNNSNDArrayDescriptor, generatingInputAGradient inputAGradient: BNNSNDArrayDescriptor,
            generatingInputBGradient inputBGradient: BNNSNDArrayDescriptor,
            generatingParameterGradients parameterGradients: [BNNSNDArrayDescriptor]
        ) throws {
            try applyBackward(
                batchSize, [inputA, inputB], output, outputGradient, [inputAGradient, inputBGradient], parameterGradients)
        }

        private func apply(
            _ batchSize: Int, _ inputs: [BNNSNDArrayDescriptor], _ output: BNNSNDArrayDescriptor, _ phase: BNNS.LearningPhase
        ) throws {
            var data = try inputs.map { UnsafeRawPointer(try $0.requireData()) }
            try BNNS.check(
                BNNSFusedFilterApplyMultiInputBatch(
                    bnnsFilter, batchSize, inputs.count, &data, inputs.map(\.batchStride), output.requireData(),
                    output.batchStride, phase == .training))
        }

        private func applyBackward(
            _ batchSize: Int, _ inputs: [BNNSNDArrayDescriptor], _ output: BNNSNDArrayDescriptor,
            _ outputGradient: BNNSNDArrayDescriptor, _ inputGradients: [BNNSNDArrayDescriptor],
            _ parameterGradients: [BNNSNDArrayDescriptor]
        ) throws {
            var data = inputs.map { UnsafeRawPointer($0.data) }
            let status = outputGradient.passed { dy in
                inputGradients.passed { dx in
                    parameterGradients.passedIfWanted(count: BNNS.fusedParameterCount) {
                        BNNSFusedFilterApplyBackwardMultiInputBatch(
                            bnnsFilter, batchSize, inputs.count, &data, inputs.map(\.batchStride), dx.baseAddress!,
                            inputGradients.map(\.batchStride), output.data, output.batchStride, dy,
                            outputGradient.batchStride, $0)
                    }
                }
            }
            try BNNS.check(status)
        }
    }

    /// Gradients of parameters that a fused filter can have: weights, bias, beta, gamma.
    fileprivate static let fusedParameterCount = 4

    /// A filter of a chain of layers. Each struct lives until the filter is created.
    fileprivate static func fuse(
        _ inputs: [BNNSNDArrayDescriptor], _ output: BNNSNDArrayDescriptor, _ layers: [any FusableLayerParameters],
        _ filterParameters: BNNSFilterParameters?
    ) -> BNNSFilter? {
        let parts = layers.compactMap { $0 as? any FusedPart }
        guard parts.count == layers.count else { return nil }
        var types: [BNNSFilterType] = []
        var structs: [UnsafeRawPointer] = []

        func describe(_ index: Int, _ inputs: [BNNSNDArrayDescriptor]) -> BNNSFilter? {
            guard index < parts.count else {
                return filterParameters.passed { BNNSFilterCreateFusedLayer(parts.count, types, &structs, $0) }
            }
            var boundary = parts[(index + 1)...].reduce(output) { $1.boundary(from: $0) }
            if index + 1 < parts.count { boundary.data = nil }
            return parts[index].describe(inputs, boundary) { type, pointer in
                types.append(type)
                structs.append(pointer)
                return describe(index + 1, [boundary])
            }
        }
        return describe(0, inputs)
    }
}

extension BNNSNDArrayDescriptor {
    /// The same with elements of another type that stand for themselves.
    fileprivate func plain(_ type: BNNSDataType) -> BNNSNDArrayDescriptor {
        var other = self
        other.data_type = type
        other.data_scale = 1
        other.data_bias = 0
        return other
    }
}
