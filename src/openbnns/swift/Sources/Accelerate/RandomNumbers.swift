extension BNNS {
    /// The state of a random generator, to continue from.
    public class RandomGeneratorState {
        var bytes: [UInt8]

        init(_ bytes: [UInt8]) { self.bytes = bytes }
    }

    /// A generator of random numbers, for `BNNSNDArrayDescriptor.allocate(randomUniformUsing:...)` and its siblings.
    public class RandomGenerator {
        let handle: BNNSRandomGenerator

        /// Create a generator; without a seed, its numbers differ from run to run.
        public init?(
            method: BNNS.RandomGeneratorMethod, seed: UInt64? = nil, filterParameters: BNNSFilterParameters? = nil
        ) {
            let made = filterParameters.passed { parameters in
                seed.map { BNNSCreateRandomGeneratorWithSeed(method.bnnsRandomGeneratorMethod, $0, parameters) }
                    ?? BNNSCreateRandomGenerator(method.bnnsRandomGeneratorMethod, parameters)
            }
            guard let made else { return nil }
            handle = made
        }

        deinit { BNNSDestroyRandomGenerator(handle) }

        /// The state: assign one that was read earlier to repeat the numbers that followed it. A state of another kind of
        /// generator ends the program.
        public var state: BNNS.RandomGeneratorState {
            get {
                var bytes = [UInt8](repeating: 0, count: BNNSRandomGeneratorStateSize(handle))
                check(BNNSRandomGeneratorGetState(handle, bytes.count, &bytes))
                return RandomGeneratorState(bytes)
            }
            set { check(BNNSRandomGeneratorSetState(handle, newValue.bytes.count, &newValue.bytes)) }
        }

        private func check(_ status: Int32) {
            require(status == 0, "BNNS.RandomGenerator.state: \(BNNS.latestProblem ?? "failed")")
        }
    }
}

extension BNNSNDArrayDescriptor {
    /// Allocate an array of normally distributed numbers; nil if the generator has none of this type.
    public static func allocate<Scalar>(
        randomNormalUsing: BNNS.RandomGenerator, mean: Scalar, standardDeviation: Scalar, shape: BNNS.Shape, batchSize: Int = 1
    ) -> BNNSNDArrayDescriptor? where Scalar: BNNSScalar, Scalar: BinaryFloatingPoint {
        allocate(of: Scalar.self, shape, batchSize) {
            BNNSRandomFillNormalFloat(randomNormalUsing.handle, $0, Float(mean), Float(standardDeviation))
        }
    }

    /// Allocate an array of uniformly distributed numbers; nil if the generator has none of this type.
    public static func allocate<Scalar>(
        randomUniformUsing: BNNS.RandomGenerator, range: ClosedRange<Scalar>, shape: BNNS.Shape, batchSize: Int = 1
    ) -> BNNSNDArrayDescriptor? where Scalar: BNNSScalar, Scalar: BinaryFloatingPoint {
        allocate(of: Scalar.self, shape, batchSize) {
            BNNSRandomFillUniformFloat(randomUniformUsing.handle, $0, Float(range.lowerBound), Float(range.upperBound))
        }
    }

    /// Allocate an array of uniformly distributed integers; nil if the generator has none of this type.
    public static func allocate<Scalar>(
        randomUniformUsing: BNNS.RandomGenerator, range: ClosedRange<Scalar>, shape: BNNS.Shape, batchSize: Int = 1
    ) -> BNNSNDArrayDescriptor? where Scalar: BNNSScalar, Scalar: FixedWidthInteger {
        guard let low = Int64(exactly: range.lowerBound), let high = Int64(exactly: range.upperBound) else { return nil }
        return allocate(of: Scalar.self, shape, batchSize) {
            BNNSRandomFillUniformInt(randomUniformUsing.handle, $0, low, high)
        }
    }

    /// Allocate an array and have a C function fill all samples, as one vector.
    private static func allocate<Scalar: BNNSScalar>(
        of type: Scalar.Type, _ shape: BNNS.Shape, _ batchSize: Int,
        _ fill: (UnsafeMutablePointer<BNNSNDArrayDescriptor>) -> Int32
    ) -> BNNSNDArrayDescriptor? {
        let made = allocateUninitialized(scalarType: type, shape: shape, batchSize: batchSize)
        var all = BNNSNDArrayDescriptor(dataType: type.bnnsDataType, shape: .vector(shape.batchStride * batchSize))
        all.data = made.data
        if fill(&all) == 0 { return made }
        made.deallocate()
        return nil
    }
}
