extension BNNS.PaddingMode {
    /// The bits of the value around a constant padding; 0 for the other modes.
    public var paddingBitPattern: UInt32 {
        switch self {
        case .constantBitPattern(let bits): return bits
        case .constantScalar(let value): return value.bitPattern
        case .reflect, .symmetric: return 0
        }
    }
}

extension BNNS {
    /// Elements added around an array.
    public class PaddingLayer: UnaryLayer {
        /// Create the layer. `size` has, for each axis, the number of elements before and after.
        public convenience init?(
            input: BNNSNDArrayDescriptor, output: BNNSNDArrayDescriptor, mode: BNNS.PaddingMode, size: [(x: Int, y: Int)],
            filterParameters: BNNSFilterParameters? = nil
        ) {
            var parameters = BNNSLayerParametersPadding()
            parameters.i_desc = input
            parameters.o_desc = output
            fill(&parameters.padding_size, with: size.flatMap { [$0.x, $0.y] })
            parameters.padding_mode = mode.bnnsPaddingMode
            parameters.padding_value = mode.paddingBitPattern
            guard let filter = filterParameters.passed({ BNNSFilterCreateLayerPadding(&parameters, $0) }) else { return nil }
            self.init(filter)
        }
    }
}
