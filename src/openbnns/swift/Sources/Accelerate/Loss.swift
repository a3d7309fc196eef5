extension BNNS {
    /// A loss, with the gradient of its input.
    public class LossLayer: Layer {
        /// Weights that each sample has, where there is more than one for everything.
        private var weightsPerSample = 1

        /// Create the layer.
        public convenience init?(
            input: BNNSNDArrayDescriptor, output: BNNSNDArrayDescriptor, lossFunction: BNNS.LossFunction,
            lossReduction: BNNS.LossReduction, filterParameters: BNNSFilterParameters? = nil
        ) {
            let filter = lossFunction.withParameters(input: input, output: output, reduction: lossReduction) { parameters in
                filterParameters.passed { BNNSFilterCreateLayerLoss(parameters, $0) }
            }
            guard let filter else { return nil }
            self.init(filter)
            if case .softmaxCrossEntropy = lossFunction {} else { weightsPerSample = input.elementCount }
        }

        /// The loss and the gradient of its input.
        public func apply(
            batchSize: Int, input: BNNSNDArrayDescriptor, labels: BNNSNDArrayDescriptor, output: BNNSNDArrayDescriptor,
            generatingInputGradient inputGradient: BNNSNDArrayDescriptor
        ) throws {
            try apply(
                batchSize: batchSize, input: input, labels: labels, output: output, weights: nil, broadcastsWeights: false,
                generatingInputGradient: inputGradient)
        }

        /// The loss and the gradient of its input, with a weight for everything (`broadcastsWeights`), or with weights for all
        /// samples of the batch.
        public func apply(
            batchSize: Int, input: BNNSNDArrayDescriptor, labels: BNNSNDArrayDescriptor, output: BNNSNDArrayDescriptor,
            weights: BNNSNDArrayDescriptor?, broadcastsWeights: Bool,
            generatingInputGradient inputGradient: BNNSNDArrayDescriptor
        ) throws {
            let (x, t, y) = (try input.requireData(), try labels.requireData(), try output.requireData())
            let count = weights == nil ? 0 : broadcastsWeights ? 1 : batchSize * weightsPerSample
            let status = Optional(inputGradient).passedIfWanted { dx in
                BNNSLossFilterApplyBatch(
                    bnnsFilter, batchSize, x, input.batchStride, t, labels.batchStride, weights?.data, count, y, dx,
                    inputGradient.batchStride)
            }
            try BNNS.check(status)
        }
    }
}

extension BNNS.LossFunction {
    /// Call with the struct of C that this function has.
    fileprivate func withParameters<Result>(
        input: BNNSNDArrayDescriptor, output: BNNSNDArrayDescriptor, reduction: BNNS.LossReduction,
        _ body: (UnsafeRawPointer) -> Result
    ) -> Result {
        let (function, reduction) = (bnnsLossFunction, reduction.bnnsLossReductionFunction)
        switch self {
        case .softmaxCrossEntropy(let labelSmoothing):
            var parameters = BNNSLayerParametersLossSoftmaxCrossEntropy(
                function: function, i_desc: input, o_desc: output, reduction: reduction, label_smooth: labelSmoothing)
            return body(&parameters)
        case .sigmoidCrossEntropy(let labelSmoothing):
            var parameters = BNNSLayerParametersLossSigmoidCrossEntropy(
                function: function, i_desc: input, o_desc: output, reduction: reduction, label_smooth: labelSmoothing)
            return body(&parameters)
        case .huber(let huberDelta):
            var parameters = BNNSLayerParametersLossHuber(
                function: function, i_desc: input, o_desc: output, reduction: reduction, huber_delta: huberDelta)
            return body(&parameters)
        case .yolo(let yolo):
            var parameters = BNNSLayerParametersLossYolo(
                function: function, i_desc: input, o_desc: output, reduction: reduction, huber_delta: yolo.huberDelta,
                number_of_grid_columns: yolo.gridColumnCount, number_of_grid_rows: yolo.gridRowsCount,
                number_of_anchor_boxes: yolo.anchorBoxCount, anchor_box_size: yolo.anchorBoxSize, rescore: yolo.rescore,
                scale_xy: yolo.xyScale, scale_wh: yolo.whScale, scale_object: yolo.objectScale,
                scale_no_object: yolo.noObjectScale, scale_classification: yolo.classificationScale,
                object_minimum_iou: yolo.objectMinimumIoU, no_object_maximum_iou: yolo.noObjectMaximumIoU,
                anchors_data: yolo.anchorsData)
            return body(&parameters)
        case .meanSquareError, .log, .cosineDistance, .hinge, .meanAbsoluteError, .categoricalCrossEntropy:
            var parameters = BNNSLayerParametersLossBase(
                function: function, i_desc: input, o_desc: output, reduction: reduction)
            return body(&parameters)
        }
    }
}
