extension BNNSTensor {
    /// A tensor without memory. Strides are in elements.
    public init(dataType: BNNSDataType, shape: [Int], stride: [Int]) {
        self.init()
        data_type = dataType
        rank = UInt8(shape.count)
        fill(&self.shape, with: shape)
        fill(&self.stride, with: stride)
    }

    /// A tensor without memory. Strides are in elements.
    public init(shape: [Int], stride: [Int], dataType: BNNSDataType) {
        self.init(dataType: dataType, shape: shape, stride: stride)
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

    /// A tensor with the elements of a buffer, in the order of memory, which `deallocate()` frees.
    public init<T>(initializingFrom source: some AccelerateBuffer<T>, shape: [Int], stride: [Int]) where T: BNNSScalar {
        self.init(dataType: T.bnnsDataType, shape: shape, stride: stride)
        allocate(initializingFrom: source)
    }

    /// Allocate a tensor with the elements of a buffer, in the order of memory.
    public static func allocate<C>(initializingFrom source: C, shape: [Int], stride: [Int]) -> BNNSTensor
    where C: AccelerateBuffer, C.Element: BNNSScalar {
        BNNSTensor(initializingFrom: source, shape: shape, stride: stride)
    }

    /// Allocate a tensor whose elements are all the same.
    public static func allocate<T>(repeating repeatedValue: T, shape: [Int], stride: [Int]) -> BNNSTensor where T: BNNSScalar {
        let made = allocateUninitialized(scalarType: T.self, shape: shape, stride: stride)
        let memory = UnsafeMutableRawBufferPointer(start: made.data, count: made.data_size_in_bytes)
        _ = memory.initializeMemory(as: T.self, repeating: repeatedValue)
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
    public mutating func allocate<T>(initializingFrom source: some AccelerateBuffer<T>) where T: BNNSScalar {
        data_type = T.bnnsDataType
        allocate(as: T.self, count: source.count)
        let target = data!
        source.withUnsafeBufferPointer { cells in
            if let first = cells.baseAddress {
                target.copyMemory(from: first, byteCount: cells.count * MemoryLayout<T>.stride)
            }
        }
    }

    /// Free the memory that an `allocate` function allocated, also for copies of this tensor.
    public func deallocate() { data?.deallocate() }

    /// The elements in the order of memory, gaps included. The tensor must have memory, and elements as large as those of this
    /// type: Apple's example of post-processing reads numbers from a tensor that was allocated for indices.
    public func makeArray<T>(of scalarType: T.Type) -> [T] where T: BNNSScalar {
        guard let data else { fatalError("BNNSTensor.makeArray(of:): the tensor has no memory. Allocate it first.") }
        guard T.bnnsDataType.byteCount == data_type.byteCount else {
            fatalError("BNNSTensor.makeArray(of:): the tensor has elements of type \(data_type), not \(T.bnnsDataType).")
        }
        let count = data_size_in_bytes / MemoryLayout<T>.stride
        return Array(UnsafeBufferPointer(start: data.assumingMemoryBound(to: T.self), count: count))
    }

    /// The number of elements, without gaps.
    public var count: Int { sizes.reduce(1, *) }

    /// The sizes as an array.
    var sizes: [Int] { withUnsafeBytes(of: shape) { Array($0.bindMemory(to: Int.self).prefix(Int(rank))) } }

    /// The strides as an array.
    var strides: [Int] { withUnsafeBytes(of: stride) { Array($0.bindMemory(to: Int.self).prefix(Int(rank))) } }

    /// Give it so many bytes.
    mutating func allocate(bytes: Int) {
        data = .allocate(byteCount: max(bytes, 1), alignment: 64)
        data_size_in_bytes = bytes
    }
}
