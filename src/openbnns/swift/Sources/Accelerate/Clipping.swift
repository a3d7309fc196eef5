extension BNNS {
    /// Clip every element to bounds.
    public static func clip(to bounds: ClosedRange<Float>, input: BNNSNDArrayDescriptor, output: BNNSNDArrayDescriptor) throws {
        try check(output.passed { y in input.passed { BNNSClipByValue(y, $0, bounds.lowerBound, bounds.upperBound) } })
    }

    /// Scale an array, or its parts along axes, so that no Euclidean norm is above a threshold.
    public static func clipByNorm(
        threshold: Float, input: BNNSNDArrayDescriptor, output: BNNSNDArrayDescriptor, axes: [Int]? = nil
    ) throws {
        try check(output.passed { y in input.passed { BNNSClipByNorm(y, $0, threshold, mask(of: axes ?? [])) } })
    }

    /// Scale arrays together, so that the Euclidean norm of all their elements is at most a threshold. `globalNorm` is that
    /// norm, if it is known; 0 has it computed.
    public static func clipByGlobalNorm(
        threshold: Float, inputs: [BNNSNDArrayDescriptor], outputs: [BNNSNDArrayDescriptor], globalNorm: Float = 0
    ) throws {
        guard inputs.count == outputs.count, !inputs.isEmpty else { throw Error.layerApplyFail }
        let status = outputs.passed { y in
            inputs.passed { x in
                var sources = x.map { UnsafePointer($0) }
                return BNNSClipByGlobalNorm(y.baseAddress!, &sources, inputs.count, threshold, globalNorm)
            }
        }
        try check(status)
    }

    /// Euclidean norms of an array, or of its parts along axes.
    public static func computeNorm(input: BNNSNDArrayDescriptor, output: BNNSNDArrayDescriptor, axes: [Int]? = nil) throws {
        try check(output.passed { y in input.passed { BNNSComputeNorm(y, $0, BNNSL2Norm, mask(of: axes ?? [])) } })
    }

    /// The gradient of what `computeNorm` read.
    public static func computeNormBackward(
        input: BNNSNDArrayDescriptor, output: BNNSNDArrayDescriptor, axes: [Int]? = nil,
        outputGradient: BNNSNDArrayDescriptor, generatingInputGradient inputGradient: BNNSNDArrayDescriptor
    ) throws {
        let (x, y) = (try input.requireData(), try output.requireData())
        let status = inputGradient.passed { dx in
            outputGradient.passed { dy in BNNSComputeNormBackward(x, dx, y, dy, BNNSL2Norm, mask(of: axes ?? [])) }
        }
        try check(status)
    }
}
