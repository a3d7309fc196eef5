extension BNNS {
    /// Batch, instance, layer or group normalization.
    public class NormalizationLayer: Layer {
        /// Create the layer.
        public convenience init?(
            type normalization: BNNS.NormalizationType, input: BNNSNDArrayDescriptor, output: BNNSNDArrayDescriptor,
            beta: BNNSNDArrayDescriptor, gamma: BNNSNDArrayDescriptor, momentum: Float = 0, epsilon: Float,
            activation: BNNS.ActivationFunction, filterParameters: BNNSFilterParameters? = nil
        ) {
            var parameters = normalization.parameters(
                input: input, output: output, beta: beta, gamma: gamma, momentum: momentum, epsilon: epsilon,
                activation: activation)
            let filter = filterParameters.passed {
                BNNSFilterCreateLayerNormalization(normalization.bnnsFilterType, &parameters, $0)
            }
            guard let filter else { return nil }
            self.init(filter)
        }

        /// Run the layer forward. In training the statistics are those of the batch, and `applyBackward` may follow.
        public func apply(
            batchSize: Int, input: BNNSNDArrayDescriptor, output: BNNSNDArrayDescriptor, for learningPhase: BNNS.LearningPhase
        ) throws {
            try BNNS.check(
                BNNSNormalizationFilterApplyBatch(
                    bnnsFilter, batchSize, input.requireData(), input.batchStride, output.requireData(), output.batchStride,
                    learningPhase == .training))
        }

        /// Run the layer backward, after `apply` in training on the same batch: gradients of its input, beta and gamma.
        public func applyBackward(
            batchSize: Int, input: BNNSNDArrayDescriptor, output: BNNSNDArrayDescriptor,
            outputGradient: BNNSNDArrayDescriptor, generatingInputGradient inputGradient: BNNSNDArrayDescriptor,
            generatingBetaGradient betaGradient: BNNSNDArrayDescriptor? = nil,
            generatingGammaGradient gammaGradient: BNNSNDArrayDescriptor? = nil
        ) throws {
            let status = outputGradient.passed { dy in
                Optional(inputGradient).passedIfWanted { dx in
                    betaGradient.passedIfWanted { db in
                        gammaGradient.passedIfWanted { dg in
                            BNNSNormalizationFilterApplyBackwardBatch(
                                bnnsFilter, batchSize, dx, inputGradient.batchStride, output.data, output.batchStride, dy,
                                outputGradient.batchStride, db, dg)
                        }
                    }
                }
            }
            try BNNS.check(status)
        }
    }
}

extension BNNS.NormalizationType {
    /// The struct of C.
    func parameters(
        input: BNNSNDArrayDescriptor, output: BNNSNDArrayDescriptor, beta: BNNSNDArrayDescriptor?,
        gamma: BNNSNDArrayDescriptor?, momentum: Float, epsilon: Float, activation: BNNS.ActivationFunction
    ) -> BNNSLayerParametersNormalization {
        let none = BNNSNDArrayDescriptor()
        var parameters = BNNSLayerParametersNormalization(
            i_desc: input, o_desc: output, beta_desc: beta ?? none, gamma_desc: gamma ?? none, moving_mean_desc: none,
            moving_variance_desc: none, momentum: momentum, epsilon: epsilon, activation: activation.bnnsActivation,
            num_groups: 0, normalization_axis: 0)
        switch self {
        case .batch(let movingMean, let movingVariance), .instance(let movingMean, let movingVariance):
            parameters.moving_mean_desc = movingMean ?? none
            parameters.moving_variance_desc = movingVariance ?? none
        case .layer(let normalizationAxis): parameters.normalization_axis = normalizationAxis
        case .group(let groupCount): parameters.num_groups = groupCount
        }
        return parameters
    }
}
