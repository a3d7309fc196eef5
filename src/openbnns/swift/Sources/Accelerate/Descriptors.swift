/// A number that arrays of BNNS can hold.
public protocol BNNSScalar {
    /// The element type of such arrays.
    static var bnnsDataType: BNNSDataType { get }
}

extension BNNSNDArrayDescriptor {
    /// An array without data, as layers take it.
    public init(dataType: BNNSDataType, shape: BNNS.Shape) {
        let fields = shape.fields
        self.init(
            flags: BNNSNDArrayFlagBackpropSet, layout: fields.layout, size: fields.size, stride: fields.stride, data: nil,
            data_type: dataType, table_data: nil, table_data_type: dataType, data_scale: 1, data_bias: 0)
    }

    /// An array in memory that somebody else owns; nil if the buffer is empty or too small.
    public init?(data: UnsafeMutableRawBufferPointer, scalarType: any BNNSScalar.Type, shape: BNNS.Shape) {
        self.init(data: data, scalarType: scalarType, shape: shape, batchSize: 1)
    }

    /// An array in memory that somebody else owns; nil if the buffer is empty or too small.
    public init?<T>(data: UnsafeMutableBufferPointer<T>, shape: BNNS.Shape) where T: BNNSScalar {
        self.init(data: UnsafeMutableRawBufferPointer(data), scalarType: T.self, shape: shape, batchSize: 1)
    }

    /// Arrays in memory that somebody else owns, one after the other; nil if the buffer is empty or too small.
    public init?(data: UnsafeMutableRawBufferPointer, scalarType: any BNNSScalar.Type, shape: BNNS.Shape, batchSize: Int) {
        self.init(dataType: scalarType.bnnsDataType, shape: shape)
        guard let address = data.baseAddress, batchSize > 0 else { return nil }
        let last = (batchSize - 1) * batchStride + elementSpan
        guard data.count >= last * scalarType.bnnsDataType.byteCount else { return nil }
        self.data = address
    }

    /// Arrays in memory that somebody else owns, one after the other; nil if the buffer is empty or too small.
    public init?<T>(data: UnsafeMutableBufferPointer<T>, shape: BNNS.Shape, batchSize: Int) where T: BNNSScalar {
        self.init(data: UnsafeMutableRawBufferPointer(data), scalarType: T.self, shape: shape, batchSize: batchSize)
    }

    /// Bytes from the first to the last element of one sample; 0 without data.
    public var dataSize: Int { passed { BNNSNDArrayGetDataSize($0) } }

    /// Sizes, strides and layout.
    public var shape: BNNS.Shape { BNNS.Shape(layout: layout, size: size, stride: stride) }

    /// Allocate an array and leave its elements as they are.
    public static func allocateUninitialized(
        scalarType: any BNNSScalar.Type, shape: BNNS.Shape, batchSize: Int = 1
    ) -> BNNSNDArrayDescriptor {
        var made = BNNSNDArrayDescriptor(dataType: scalarType.bnnsDataType, shape: shape)
        let count = max(made.batchStride * batchSize, made.elementSpan)
        made.data = .allocate(byteCount: max(count, 1) * scalarType.bnnsDataType.byteCount, alignment: 64)
        return made
    }

    /// Allocate an array with the elements of a collection, in the order of memory. There must be enough for all samples.
    public static func allocate<C>(
        initializingFrom source: C, shape: BNNS.Shape, batchSize: Int = 1
    ) -> BNNSNDArrayDescriptor where C: Collection, C.Element: BNNSScalar {
        let elements = shape.batchStride * batchSize
        require(
            source.count >= elements,
            "BNNSNDArrayDescriptor.allocate(initializingFrom:shape:batchSize:): the collection has \(source.count) elements, "
                + "but \(batchSize) of this shape have \(elements)")
        return filled(of: C.Element.self, shape, batchSize) { _ = $0.initialize(from: source.prefix(elements)) }
    }

    /// Allocate an array of random integers.
    public static func allocate<Scalar>(
        randomIn range: ClosedRange<Scalar>, shape: BNNS.Shape, batchSize: Int = 1
    ) -> BNNSNDArrayDescriptor where Scalar: BNNSScalar, Scalar: FixedWidthInteger {
        var generator = SystemRandomNumberGenerator()
        return allocate(randomIn: range, using: &generator, shape: shape, batchSize: batchSize)
    }

    /// Allocate an array of random numbers.
    public static func allocate<Scalar>(
        randomIn range: ClosedRange<Scalar>, shape: BNNS.Shape, batchSize: Int = 1
    ) -> BNNSNDArrayDescriptor where Scalar: BNNSScalar, Scalar: BinaryFloatingPoint, Scalar.RawSignificand: FixedWidthInteger {
        var generator = SystemRandomNumberGenerator()
        return allocate(randomIn: range, using: &generator, shape: shape, batchSize: batchSize)
    }

    /// Allocate an array of random integers from a generator of Swift.
    public static func allocate<Scalar, Generator>(
        randomIn range: ClosedRange<Scalar>, using generator: inout Generator, shape: BNNS.Shape, batchSize: Int = 1
    ) -> BNNSNDArrayDescriptor where Scalar: BNNSScalar, Scalar: FixedWidthInteger, Generator: RandomNumberGenerator {
        filled(of: Scalar.self, shape, batchSize) { cells in
            for place in cells.indices { cells.initializeElement(at: place, to: .random(in: range, using: &generator)) }
        }
    }

    /// Allocate an array of random numbers from a generator of Swift.
    public static func allocate<Scalar, Generator>(
        randomIn range: ClosedRange<Scalar>, using generator: inout Generator, shape: BNNS.Shape, batchSize: Int = 1
    ) -> BNNSNDArrayDescriptor
    where
        Scalar: BNNSScalar, Scalar: BinaryFloatingPoint, Generator: RandomNumberGenerator,
        Scalar.RawSignificand: FixedWidthInteger
    {
        filled(of: Scalar.self, shape, batchSize) { cells in
            for place in cells.indices { cells.initializeElement(at: place, to: .random(in: range, using: &generator)) }
        }
    }

    /// Allocate an array of equal elements.
    public static func allocate<T>(
        repeating repeatedValue: T, shape: BNNS.Shape, batchSize: Int = 1
    ) -> BNNSNDArrayDescriptor where T: BNNSScalar {
        filled(of: T.self, shape, batchSize) { $0.initialize(repeating: repeatedValue) }
    }

    /// The elements in the order of memory, gaps included; nil without data, or if they are of another type.
    public func makeArray<T>(of scalarType: T.Type, batchSize: Int = 1) -> [T]? {
        if let scalar = scalarType as? any BNNSScalar.Type, scalar.bnnsDataType.rawValue != data_type.rawValue { return nil }
        guard let data, MemoryLayout<T>.stride == data_type.byteCount, batchSize > 0 else { return nil }
        let first = data.assumingMemoryBound(to: T.self)
        return Array(UnsafeBufferPointer(start: first, count: (batchSize - 1) * batchStride + elementSpan))
    }

    /// Free the memory that an `allocate` function allocated, also for copies of this descriptor.
    public func deallocate() { data?.deallocate() }

    /// Allocate an array, and have every cell of it initialized.
    private static func filled<Scalar: BNNSScalar>(
        of type: Scalar.Type, _ shape: BNNS.Shape, _ batchSize: Int, _ fill: (UnsafeMutableBufferPointer<Scalar>) -> Void
    ) -> BNNSNDArrayDescriptor {
        let made = allocateUninitialized(scalarType: type, shape: shape, batchSize: batchSize)
        let count = made.batchStride * batchSize
        fill(UnsafeMutableBufferPointer(start: made.data!.bindMemory(to: type, capacity: count), count: count))
        return made
    }
}

extension BNNSDataType {
    /// Bytes of an element of the types that Swift has.
    var byteCount: Int { Int(rawValue & 0xFFFF) == 1 ? 1 : Int(rawValue & 0xFFFF) / 8 }
}

extension BNNSNDArrayDescriptor {
    /// Number of axes.
    private var rank: Int { min(Int(layout.rawValue >> 16), 8) }

    /// Whether `size` has the slowest axis first, while `stride` always begins with the fastest.
    private var isFirstMajor: Bool { layout.rawValue & 0x8001 == 0x8001 }

    /// Call with the size and the stride of each axis, from the fastest to the slowest, a packed stride as its number.
    @inline(__always)
    private func forEachAxis(_ body: (_ size: Int, _ stride: Int) -> Void) {
        let (rank, firstMajor) = (rank, isFirstMajor)
        withUnsafeBytes(of: size) { size in
            withUnsafeBytes(of: stride) { stride in
                var packed = 1
                for axis in 0..<rank {
                    let extent = size.load(fromByteOffset: (firstMajor ? rank - 1 - axis : axis) * 8, as: Int.self)
                    let given = stride.load(fromByteOffset: axis * 8, as: Int.self)
                    let step = given == 0 ? packed : given
                    body(extent, step)
                    packed = step * extent
                }
            }
        }
    }

    /// Elements from one sample to the next: the largest stride times the size of its axis.
    var batchStride: Int {
        var result = 0
        forEachAxis { result = $0 * $1 }
        return result
    }

    /// Elements of one sample.
    var elementCount: Int {
        var result = 1
        forEachAxis { size, _ in result *= size }
        return result
    }

    /// Elements from the first to the last of one sample, both included.
    private var elementSpan: Int {
        var result = 1
        forEachAxis { result += ($0 - 1) * $1 }
        return result
    }
}

// All other types of C are compared by their raw values in this module, so that it has no function that compares two values of
// another type. The optimizer would make one function of both; in a program without optimization the linker takes one of them
// from the program, where they are not the same, and the program would crash.
extension BNNSFlags: @retroactive OptionSet {
    /// Weights stay where they are, so that layers see every change of them.
    public static var useClientPointer: BNNSFlags { BNNSFlagsUseClientPtr }
}

extension BNNSFilterParameters {
    /// Options of a filter, its threads (0: the library chooses), and how it allocates memory (nil: as C does).
    public init(options: BNNSFlags, threadCount: Int, allocator: BNNSAlloc?, deallocator: BNNSFree?) {
        self.init(
            flags: options.rawValue, n_threads: threadCount, alloc_memory: allocator, free_memory: deallocator)
    }

    public var options: BNNSFlags {
        get { BNNSFlags(rawValue: flags) }
        set { flags = newValue.rawValue }
    }

    public var threadCount: Int {
        get { n_threads }
        set { n_threads = newValue }
    }

    public var allocator: BNNSAlloc? {
        get { alloc_memory }
        set { alloc_memory = newValue }
    }

    public var deallocator: BNNSFree? {
        get { free_memory }
        set { free_memory = newValue }
    }
}
