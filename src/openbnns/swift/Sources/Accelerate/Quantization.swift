extension BNNS {
    /// Numbers to integers: round(scale x + bias), with one scale and bias, or one for each place along an axis.
    public static func quantize(
        batchSize: Int, input: BNNSNDArrayDescriptor, output: BNNSNDArrayDescriptor, axis: Int? = nil,
        scale: BNNSNDArrayDescriptor?, bias: BNNSNDArrayDescriptor?, filterParameters: BNNSFilterParameters? = nil
    ) throws {
        try quantizer(BNNSQuantizerFunctionQuantize, batchSize, input, output, axis, scale, bias, filterParameters)
    }

    /// Integers to numbers: (x - bias) / scale, with one scale and bias, or one for each place along an axis.
    public static func dequantize(
        batchSize: Int, input: BNNSNDArrayDescriptor, output: BNNSNDArrayDescriptor, axis: Int? = nil,
        scale: BNNSNDArrayDescriptor?, bias: BNNSNDArrayDescriptor?, filterParameters: BNNSFilterParameters? = nil
    ) throws {
        try quantizer(BNNSQuantizerFunctionDequantize, batchSize, input, output, axis, scale, bias, filterParameters)
    }

    private static func quantizer(
        _ function: BNNSQuantizerFunction, _ batchSize: Int, _ input: BNNSNDArrayDescriptor, _ output: BNNSNDArrayDescriptor,
        _ axis: Int?, _ scale: BNNSNDArrayDescriptor?, _ bias: BNNSNDArrayDescriptor?,
        _ filterParameters: BNNSFilterParameters?
    ) throws {
        var parameters = quantizerParameters(function, input, output, axis, scale, bias)
        try check(
            filterParameters.passed {
                BNNSDirectApplyQuantizer(&parameters, $0, batchSize, input.batchStride, output.batchStride)
            })
    }

    static func quantizerParameters(
        _ function: BNNSQuantizerFunction, _ input: BNNSNDArrayDescriptor, _ output: BNNSNDArrayDescriptor, _ axis: Int?,
        _ scale: BNNSNDArrayDescriptor?, _ bias: BNNSNDArrayDescriptor?
    ) -> BNNSLayerParametersQuantization {
        let none = BNNSNDArrayDescriptor()
        return BNNSLayerParametersQuantization(
            axis_mask: axis.map { Int(mask(of: [$0])) } ?? 0, function: function, i_desc: input, o_desc: output,
            scale: scale ?? none, bias: bias ?? none)
    }
}
