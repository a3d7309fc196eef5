extension BNNSTensor {
    /// A tensor without memory. Strides are in elements.
    public init(dataType: BNNSDataType, shape: [Int], stride: [Int]) {
        self.init()
        data_type = dataType
        rank = UInt8(shape.count)
        fill(&self.shape, with: shape)
        fill(&self.stride, with: stride)
    }

    /// A tensor in memory that somebody else owns.
    public init(data: UnsafeMutableRawBufferPointer, shape: [Int], stride: [Int], dataType: BNNSDataType) {
        self.init(dataType: dataType, shape: shape, stride: stride)
        self.data = data.baseAddress
        data_size_in_bytes = data.count
    }

    /// A tensor in memory that somebody else owns.
    public init<T>(data: UnsafeMutableBufferPointer<T>, shape: [Int], stride: [Int]) where T: BNNSScalar {
        self.init(
            data: UnsafeMutableRawBufferPointer(data), shape: shape, stride: stride, dataType: T.bnnsDataType)
    }

    /// Allocate a tensor with the elements of a buffer, in the order of memory.
    public static func allocate<C>(initializingFrom source: C, shape: [Int], stride: [Int]) -> BNNSTensor
    where C: AccelerateBuffer, C.Element: BNNSScalar {
        var made = BNNSTensor(dataType: C.Element.bnnsDataType, shape: shape, stride: stride)
        made.allocate(initializingFrom: source)
        return made
    }

    /// Allocate a tensor and leave its elements as they are.
    public static func allocateUninitialized(scalarType: any BNNSScalar.Type, shape: [Int], stride: [Int]) -> BNNSTensor {
        var made = BNNSTensor(dataType: scalarType.bnnsDataType, shape: shape, stride: stride)
        let last = zip(shape, stride).reduce(0) { $0 + ($1.0 - 1) * $1.1 }
        made.allocate(bytes: max(last + 1, 1) * scalarType.bnnsDataType.byteCount)
        return made
    }

    /// Give a tensor memory for so many elements.
    public mutating func allocate<T>(as scalarType: T.Type, count: Int) where T: BNNSScalar {
        allocate(bytes: count * MemoryLayout<T>.stride)
    }

    /// Give a tensor memory with the elements of a buffer, in the order of memory.
    public mutating func allocate<C>(initializingFrom source: C) where C: AccelerateBuffer, C.Element: BNNSScalar {
        allocate(as: C.Element.self, count: source.count)
        let target = data!
        source.withUnsafeBufferPointer { cells in
            if let first = cells.baseAddress {
                target.copyMemory(from: first, byteCount: cells.count * MemoryLayout<C.Element>.stride)
            }
        }
    }

    /// Free the memory that an `allocate` function allocated, also for copies of this tensor.
    public mutating func deallocate() {
        data?.deallocate()
        data = nil
        data_size_in_bytes = 0
    }

    /// The elements in the order of memory, gaps included; nil without memory, or if they are of another type.
    public func makeArray<T>(of scalarType: T.Type) -> [T]? where T: BNNSScalar {
        guard let data, T.bnnsDataType == data_type else { return nil }
        let count = data_size_in_bytes / MemoryLayout<T>.stride
        return Array(UnsafeBufferPointer(start: data.assumingMemoryBound(to: T.self), count: count))
    }

    /// The sizes as an array.
    var sizes: [Int] { withUnsafeBytes(of: shape) { Array($0.bindMemory(to: Int.self).prefix(Int(rank))) } }

    /// Give it so many bytes.
    mutating func allocate(bytes: Int) {
        data = .allocate(byteCount: max(bytes, 1), alignment: 64)
        data_size_in_bytes = bytes
    }
}
