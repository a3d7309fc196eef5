// How values of Swift reach C functions, which take pointers to them.

extension BNNSNDArrayDescriptor {
    /// The data; throws if there is none.
    @inline(__always)
    func requireData() throws -> UnsafeMutableRawPointer {
        guard let data else { throw BNNS.Error.arrayDescriptorInvalidData }
        return data
    }

    /// Call with a pointer to a copy of this descriptor.
    @inline(__always)
    func passed<Result>(_ body: (UnsafeMutablePointer<BNNSNDArrayDescriptor>) throws -> Result) rethrows -> Result {
        var copy = self
        return try withUnsafeMutablePointer(to: &copy, body)
    }
}

extension Optional where Wrapped == BNNSNDArrayDescriptor {
    /// Call with a pointer to a copy of this gradient; with NULL if it is nil or has no data, which leaves it out.
    @inline(__always)
    func passedIfWanted<Result>(_ body: (UnsafeMutablePointer<BNNSNDArrayDescriptor>?) throws -> Result) rethrows -> Result {
        guard var copy = self, copy.data != nil else { return try body(nil) }
        return try withUnsafeMutablePointer(to: &copy, body)
    }
}

extension Optional {
    /// Call with a pointer to a copy of this value, or with NULL.
    @inline(__always)
    func passed<Result>(_ body: (UnsafePointer<Wrapped>?) throws -> Result) rethrows -> Result {
        guard let value = self else { return try body(nil) }
        return try withUnsafePointer(to: value, body)
    }
}

extension Array where Element == BNNSNDArrayDescriptor {
    /// Call with pointers to copies of these descriptors.
    func passed<Result>(
        _ body: (UnsafeMutableBufferPointer<UnsafeMutablePointer<BNNSNDArrayDescriptor>>) throws -> Result
    ) rethrows -> Result {
        var copies = self
        return try copies.withUnsafeMutableBufferPointer { buffer in
            var pointers = buffer.indices.map { buffer.baseAddress! + $0 }
            return try pointers.withUnsafeMutableBufferPointer { try body($0) }
        }
    }

    /// Call with pointers to copies of these gradients, NULL for those without data, and `count` pointers at least.
    func passedIfWanted<Result>(
        count: Int, _ body: (UnsafeMutablePointer<UnsafeMutablePointer<BNNSNDArrayDescriptor>?>) throws -> Result
    ) rethrows -> Result {
        var copies = self
        return try copies.withUnsafeMutableBufferPointer { buffer in
            var pointers: [UnsafeMutablePointer<BNNSNDArrayDescriptor>?] = buffer.indices.map {
                buffer[$0].data == nil ? nil : buffer.baseAddress! + $0
            }
            while pointers.count < count { pointers.append(nil) }
            return try pointers.withUnsafeMutableBufferPointer { try body($0.baseAddress!) }
        }
    }
}

extension BNNS {
    /// Numbers of axes as bits of a mask; those that no array has become the highest bit, which C functions refuse.
    static func mask(of axes: [Int]) -> UInt32 {
        axes.reduce(0) { $0 | 1 << UInt32(0..<31 ~= $1 ? $1 : 31) }
    }
}

/// Fill an array that Swift imports from C as a tuple.
func fill<Tuple>(_ tuple: inout Tuple, with values: [Int]) {
    withUnsafeMutableBytes(of: &tuple) { bytes in
        let numbers = bytes.bindMemory(to: Int.self)
        for (place, value) in zip(numbers.indices, values) { numbers[place] = value }
    }
}

/// End the program with a message if a condition does not hold; unlike that of `precondition`, it is also in optimized programs.
@inlinable
func require(_ condition: Bool, _ message: @autoclosure () -> String) {
    if !condition { fatalError(message()) }
}
