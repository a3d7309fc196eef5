extension BNNS {
    /// Boxes of images, each resized to the size of the output.
    public class CropResizeLayer {
        let parameters: BNNSLayerParametersCropResize

        /// Create the layer.
        public init(
            coordinatesAreNormalized: Bool, spatialScale: Float, extrapolationValue: Float = 0,
            samplingMode: BNNS.CropResizeLayer.LinearSamplingMode = .default,
            boxCoordinateMode: BNNS.CropResizeLayer.BoxCoordinateMode
        ) {
            parameters = BNNSLayerParametersCropResize(
                normalized_coordinates: coordinatesAreNormalized, spatial_scale: spatialScale,
                extrapolation_value: extrapolationValue, sampling_mode: samplingMode.bnnsLinearSamplingMode,
                box_coordinate_mode: boxCoordinateMode.bnnsBoxCoordinateMode, method: BNNSInterpolationMethodLinear)
        }

        /// Run the layer forward.
        public func apply(
            input: BNNSNDArrayDescriptor, regionOfInterest: BNNSNDArrayDescriptor, output: BNNSNDArrayDescriptor,
            filterParameters: BNNSFilterParameters? = nil
        ) throws {
            var parameters = parameters
            let status = input.passed { x in
                regionOfInterest.passed { boxes in
                    output.passed { y in filterParameters.passed { BNNSCropResize(&parameters, x, boxes, y, $0) } }
                }
            }
            try BNNS.check(status)
        }

        /// Run the layer backward: the gradient of its input.
        public func applyBackward(
            regionOfInterest: BNNSNDArrayDescriptor, outputGradient: BNNSNDArrayDescriptor,
            generatingInputGradient inputGradient: BNNSNDArrayDescriptor, filterParameters: BNNSFilterParameters? = nil
        ) throws {
            var parameters = parameters
            let status = inputGradient.passed { dx in
                regionOfInterest.passed { boxes in
                    outputGradient.passed { dy in
                        filterParameters.passed { BNNSCropResizeBackward(&parameters, dx, boxes, dy, $0) }
                    }
                }
            }
            try BNNS.check(status)
        }
    }
}
