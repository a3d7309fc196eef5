extension BNNS {
    /// Copy an array, with other strides, another layout or another element type.
    public static func copy(
        _ source: BNNSNDArrayDescriptor, to destination: BNNSNDArrayDescriptor, filterParameters: BNNSFilterParameters? = nil
    ) throws {
        try check(destination.passed { y in source.passed { x in filterParameters.passed { BNNSCopy(y, x, $0) } } })
    }

    /// Exchange two axes.
    public static func transpose(
        input: BNNSNDArrayDescriptor, output: BNNSNDArrayDescriptor, firstTransposeAxis: Int, secondTransposeAxis: Int,
        filterParameters: BNNSFilterParameters? = nil
    ) throws {
        let status = output.passed { y in
            input.passed { x in
                filterParameters.passed { BNNSTranspose(y, x, firstTransposeAxis, secondTransposeAxis, $0) }
            }
        }
        try check(status)
    }

    /// Repeat an array until it fills the output.
    public static func tile(
        input: BNNSNDArrayDescriptor, output: BNNSNDArrayDescriptor, filterParameters: BNNSFilterParameters? = nil
    ) throws {
        try check(input.passed { x in output.passed { y in filterParameters.passed { BNNSTile(x, y, $0) } } })
    }

    /// The gradient of what `tile` read.
    public static func tileBackward(
        outputGradient: BNNSNDArrayDescriptor, generatingInputGradient inputGradient: BNNSNDArrayDescriptor,
        filterParameters: BNNSFilterParameters? = nil
    ) throws {
        let status = inputGradient.passed { dx in
            outputGradient.passed { dy in filterParameters.passed { BNNSTileBackward(dx, dy, $0) } }
        }
        try check(status)
    }

    /// Copy the diagonal and the bands beside it, and set everything else to 0; nil keeps all bands of a side.
    public static func copyBandPart(
        _ source: BNNSNDArrayDescriptor, to destination: BNNSNDArrayDescriptor, lowerBandCount: Int?, upperBandCount: Int?,
        filterParameters: BNNSFilterParameters? = nil
    ) throws {
        let (lower, upper) = (Int32(clamping: lowerBandCount ?? -1), Int32(clamping: upperBandCount ?? -1))
        let status = source.passed { x in
            destination.passed { y in filterParameters.passed { BNNSBandPart(lower, upper, x, y, $0) } }
        }
        try check(status)
    }

    /// Move elements between the channels and the plane of an image.
    public static func shuffle(
        _ shuffleType: BNNS.ShuffleType, input: BNNSNDArrayDescriptor, output: BNNSNDArrayDescriptor,
        filterParameters: BNNSFilterParameters? = nil
    ) throws {
        let status = input.passed { x in
            output.passed { y in filterParameters.passed { BNNSShuffle(shuffleType.bnnsShuffleType, x, y, $0) } }
        }
        try check(status)
    }

    /// Compare two arrays element by element.
    public static func compare(
        _ inputA: BNNSNDArrayDescriptor, _ inputB: BNNSNDArrayDescriptor, using relationalOperator: BNNS.RelationalOperator,
        output: BNNSNDArrayDescriptor
    ) throws {
        let status = inputA.passed { a in
            inputB.passed { b in output.passed { BNNSCompareTensor(a, b, relationalOperator.bnnsRelationalOperator, $0) } }
        }
        try check(status)
    }
}
