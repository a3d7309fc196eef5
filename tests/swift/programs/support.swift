import Accelerate

/// Numbers in [-1, 1) that a test in Python makes as well.
func numbers(_ count: Int, _ seed: UInt32) -> [Float] {
    var state = seed
    return (0..<count).map { _ in
        state = state &* 1_664_525 &+ 1_013_904_223
        return Float(state >> 8) / 8_388_608 - 1
    }
}

extension BNNSNDArrayDescriptor {
    /// An array of such numbers.
    static func random(_ shape: BNNS.Shape, _ seed: UInt32, batchSize: Int = 1) -> BNNSNDArrayDescriptor {
        .allocate(initializingFrom: numbers(shape.batchStride * batchSize, seed), shape: shape, batchSize: batchSize)
    }

    /// An array to be written.
    static func empty(_ shape: BNNS.Shape, batchSize: Int = 1) -> BNNSNDArrayDescriptor {
        .allocate(repeating: Float(0), shape: shape, batchSize: batchSize)
    }

    /// The same memory as a gradient that is to be added.
    var accumulating: BNNSNDArrayDescriptor {
        var other = self
        other.flags = BNNSNDArrayFlagBackpropAccumulate
        return other
    }
}

/// Print the bits of all numbers of an array, for a test in Python.
func report(_ name: String, _ array: BNNSNDArrayDescriptor, batchSize: Int = 1) {
    report(name, array.makeArray(of: Float.self, batchSize: batchSize)!)
    array.deallocate()
}

func report(_ name: String, _ values: [Float]) {
    print(name, values.map { String($0.bitPattern) }.joined(separator: " "))
}
