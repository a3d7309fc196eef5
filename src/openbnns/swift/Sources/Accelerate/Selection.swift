extension BNNS {
    /// Slices along an axis, chosen by indices.
    public static func gather(
        input: BNNSNDArrayDescriptor, indices: BNNSNDArrayDescriptor, output: BNNSNDArrayDescriptor, axis: Int,
        filterParameters: BNNSFilterParameters? = nil
    ) throws {
        try three(input, indices, output, filterParameters) { BNNSGather(axis, $0, $1, $2, $3) }
    }

    /// Slices chosen by tuples of indices.
    public static func gatherND(
        input: BNNSNDArrayDescriptor, indices: BNNSNDArrayDescriptor, output: BNNSNDArrayDescriptor,
        filterParameters: BNNSFilterParameters? = nil
    ) throws {
        try three(input, indices, output, filterParameters) { BNNSGatherND($0, $1, $2, $3) }
    }

    /// Write slices to places along an axis, combining them with what is there.
    public static func scatter(
        input: BNNSNDArrayDescriptor, indices: BNNSNDArrayDescriptor, output: BNNSNDArrayDescriptor, axis: Int,
        reductionFunction: BNNS.ReductionFunction, filterParameters: BNNSFilterParameters? = nil
    ) throws {
        let function = reductionFunction.bnnsReduceFunction
        try three(input, indices, output, filterParameters) { BNNSScatter(axis, function, $0, $1, $2, $3) }
    }

    /// Write slices to places along an axis.
    public static func scatter(
        input: BNNSNDArrayDescriptor, indices: BNNSNDArrayDescriptor, output: BNNSNDArrayDescriptor, axis: Int,
        filterParameters: BNNSFilterParameters? = nil
    ) throws {
        try three(input, indices, output, filterParameters) { BNNSScatter(axis, BNNSReduceFunctionNone, $0, $1, $2, $3) }
    }

    /// Write slices to places given by tuples of indices, combining them with what is there.
    public static func scatterND(
        input: BNNSNDArrayDescriptor, indices: BNNSNDArrayDescriptor, output: BNNSNDArrayDescriptor,
        reductionFunction: BNNS.ReductionFunction, filterParameters: BNNSFilterParameters? = nil
    ) throws {
        let function = reductionFunction.bnnsReduceFunction
        try three(input, indices, output, filterParameters) { BNNSScatterND(function, $0, $1, $2, $3) }
    }

    /// Write slices to places given by tuples of indices.
    public static func scatterND(
        input: BNNSNDArrayDescriptor, indices: BNNSNDArrayDescriptor, output: BNNSNDArrayDescriptor,
        filterParameters: BNNSFilterParameters? = nil
    ) throws {
        try three(input, indices, output, filterParameters) { BNNSScatterND(BNNSReduceFunctionNone, $0, $1, $2, $3) }
    }

    /// The `k` largest values along an axis, and where they are.
    public static func applyTopK(
        k: Int, input: BNNSNDArrayDescriptor, bestValues: BNNSNDArrayDescriptor, bestIndices: BNNSNDArrayDescriptor, axis: Int,
        batchSize: Int, filterParameters: BNNSFilterParameters? = nil
    ) throws {
        try three(input, bestValues, bestIndices, filterParameters) { x, values, indices, parameters in
            BNNSDirectApplyTopK(
                k, axis, batchSize, x, input.batchStride, values, bestValues.batchStride, indices, bestIndices.batchStride,
                parameters)
        }
    }

    /// Whether the values at given places are among the `k` largest along an axis.
    public static func applyInTopK(
        k: Int, input: BNNSNDArrayDescriptor, testIndices: BNNSNDArrayDescriptor, output: BNNSNDArrayDescriptor, axis: Int,
        batchSize: Int, filterParameters: BNNSFilterParameters? = nil
    ) throws {
        try three(input, testIndices, output, filterParameters) { x, indices, y, parameters in
            BNNSDirectApplyInTopK(
                k, axis, batchSize, x, input.batchStride, indices, testIndices.batchStride, y, output.batchStride, parameters)
        }
    }

    /// A call with three arrays and filter parameters.
    private static func three(
        _ a: BNNSNDArrayDescriptor, _ b: BNNSNDArrayDescriptor, _ c: BNNSNDArrayDescriptor,
        _ filterParameters: BNNSFilterParameters?,
        _ call: (
            UnsafeMutablePointer<BNNSNDArrayDescriptor>, UnsafeMutablePointer<BNNSNDArrayDescriptor>,
            UnsafeMutablePointer<BNNSNDArrayDescriptor>, UnsafePointer<BNNSFilterParameters>?
        ) -> Int32
    ) throws {
        try check(a.passed { a in b.passed { b in c.passed { c in filterParameters.passed { call(a, b, c, $0) } } } })
    }
}
