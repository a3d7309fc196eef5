extension BNNS {
    /// The nearest among stored points. Copies share the points. As on macOS nothing here throws: mistakes end the program, with
    /// the reason.
    public struct NearestNeighbors {
        private final class Store {
            let handle: BNNSNearestNeighbors

            init(_ handle: BNNSNearestNeighbors) { self.handle = handle }

            deinit { BNNSDestroyNearestNeighbors(handle) }
        }

        private let store: Store
        private let dimensionCount: Int

        /// Create a store of at most `capacity` points.
        public init(capacity: Int, dimensionCount: Int, neighborCount: Int, dataType: BNNSDataType) {
            let numbers = [capacity, dimensionCount, neighborCount].map { UInt32(clamping: $0) }
            guard let handle = BNNSCreateNearestNeighbors(numbers[0], numbers[1], numbers[2], dataType, nil) else {
                fatalError("BNNS.NearestNeighbors: \(BNNS.latestProblem ?? "cannot be created")")
            }
            store = Store(handle)
            self.dimensionCount = dimensionCount
        }

        /// Add points.
        public func append(samples: BNNSNDArrayDescriptor) {
            guard let data = samples.data else {
                fatalError("BNNS.NearestNeighbors.append: samples have no data")
            }
            let count = UInt32(clamping: samples.elementCount / dimensionCount)
            check(BNNSNearestNeighborsLoad(store.handle, count, data), "append")
        }

        /// The neighbours of the point `index`, or of all points: their numbers (Int32), and how far they are.
        public func apply(index: Int?, outputIndices: BNNSNDArrayDescriptor, outputDistances: BNNSNDArrayDescriptor) {
            let indices = outputIndices.data?.assumingMemoryBound(to: Int32.self)
            check(
                BNNSNearestNeighborsGetInfo(store.handle, Int32(clamping: index ?? -1), indices, outputDistances.data), "apply")
        }

        private func check(_ status: Int32, _ method: String) {
            require(status == 0, "BNNS.NearestNeighbors.\(method): \(BNNS.latestProblem ?? "failed")")
        }
    }
}
