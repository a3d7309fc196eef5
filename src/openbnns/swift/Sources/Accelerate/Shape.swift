extension BNNS.DataLayout {
    /// Number of axes.
    public var rank: Int { Int(bnnsDataLayout.rawValue >> 16) }
}

extension BNNS.Shape {
    /// A shape of sizes in the order of its layout. Without a layout, the last size is that of the fastest axis, as in C.
    public init(_ size: [Int], dataLayout: BNNS.DataLayout? = nil, stride: [Int]? = nil) {
        require(1...8 ~= size.count, "BNNS.Shape: takes 1 to 8 sizes, got \(size.count)")
        require(
            dataLayout == nil || dataLayout!.rank == size.count,
            "BNNS.Shape: \(dataLayout!) has \(dataLayout!.rank) axes, got \(size.count) sizes")
        require(
            stride == nil || stride!.count <= size.count,
            "BNNS.Shape: got \(stride!.count) strides for \(size.count) axes")
        let firstMajor: [BNNS.DataLayout] = [
            .vector, .matrixFirstMajor, .tensor3DFirstMajor, .tensor4DFirstMajor, .tensor5DFirstMajor, .tensor6DFirstMajor,
            .tensor7DFirstMajor, .tensor8DFirstMajor,
        ]
        var sizes = (0, 0, 0, 0, 0, 0, 0, 0)
        var strides = sizes
        fill(&sizes, with: size)
        fill(&strides, with: stride ?? [])
        self.init(layout: (dataLayout ?? firstMajor[size.count - 1]).bnnsDataLayout, size: sizes, stride: strides)
    }

    public typealias ArrayLiteralElement = Int

    /// A shape of sizes, the last of which is that of the fastest axis.
    public init(arrayLiteral: BNNS.Shape.ArrayLiteralElement...) { self.init(arrayLiteral) }

    /// Number of axes.
    public var rank: Int { fields.rank }

    /// Sizes in the order of the layout; 0 beyond the number of axes.
    public var size: (Int, Int, Int, Int, Int, Int, Int, Int) { fields.size }

    /// Elements between neighbours, fastest axis first; 0 for a packed axis.
    public var stride: (Int, Int, Int, Int, Int, Int, Int, Int) { fields.stride }

    /// Elements from one sample to the next.
    public var batchStride: Int { BNNSNDArrayDescriptor(dataType: .float, shape: self).batchStride }

    /// The layout, as C has it.
    public var layout: BNNSDataLayout { fields.layout }
}
