/// Core ML programs, compiled and executed.
public enum BNNSGraph {
    /// A reason for which a graph could not be made or executed. The log, and `description`, say more.
    public enum Error: Swift.Error, CustomStringConvertible {
        case unableToCreateContext
        case unableToCreateGraph
        case unableToExecute
        case unableToSetDynamicShapes

        public var description: String {
            let cause = String(cString: openbnns_last_error())
            switch self {
            case .unableToCreateContext: return "The context could not be made. \(cause)"
            case .unableToCreateGraph: return "The graph could not be compiled. \(cause)"
            case .unableToExecute: return "The graph could not be executed. \(cause)"
            case .unableToSetDynamicShapes: return "The shapes could not be set. \(cause)"
            }
        }
    }

    /// Options of a compilation.
    public struct CompileOptions {
        /// What the compiler prefers.
        public enum OptimizationPreference {
            case performance
            case internalRepresentationSize
        }

        public var useSingleThread: Bool
        public var generateDebugInfo: Bool
        public var optimizationPreference: OptimizationPreference

        public init() { self.init(useSingleThread: false) }

        public init(
            useSingleThread: Bool = false, generateDebugInfo: Bool = false,
            optimizationPreference: OptimizationPreference = .performance
        ) {
            self.useSingleThread = useSingleThread
            self.generateDebugInfo = generateDebugInfo
            self.optimizationPreference = optimizationPreference
        }

        /// Call with the options as C has them.
        func passed<R>(_ body: (bnns_graph_compile_options_t) -> R) -> R {
            let options = BNNSGraphCompileOptionsMakeDefault()
            defer { BNNSGraphCompileOptionsDestroy(options) }
            BNNSGraphCompileOptionsSetTargetSingleThread(options, useSingleThread)
            BNNSGraphCompileOptionsSetGenerateDebugInfo(options, generateDebugInfo)
            let preference =
                optimizationPreference == .performance
                ? BNNSGraphOptimizationPreferencePerformance : BNNSGraphOptimizationPreferenceIRSize
            BNNSGraphCompileOptionsSetOptimizationPreference(options, preference)
            return body(options)
        }
    }

    /// Sizes of an argument. In those of inputs 0 stands for the default of the program, and no sizes at all for all defaults.
    public struct Shape: Equatable, ExpressibleByArrayLiteral, Sendable {
        public var dimensions: [Int]

        public init(_ dimensions: [Int]) { self.dimensions = dimensions }

        public init(arrayLiteral elements: Int...) { self.init(elements) }
    }

    /// Memory of an argument that has no gaps.
    public protocol PointerArgument {
        associatedtype Element
        var baseAddress: UnsafeMutablePointer<Element>? { get }
        var count: Int { get }
    }

    /// A compiled graph that can be executed, by one thread at a time.
    public final class Context {
        private let graph: bnns_graph_t
        private var context: bnns_graph_context_t
        private var argumentType = BNNSGraphArgumentTypePointer  // as it was set last

        /// Compile an `.mlmodelc` folder, its `model.mil` or an `.mlpackage`: one function of it, or all.
        public convenience init(
            compileFromPath path: String, functionName: String? = nil, options: CompileOptions = CompileOptions()
        ) throws {
            try self.init(compiling: { BNNSGraphCompileFromFile(path, functionName, $0) }, options)
        }

        /// The same for programs that wait for it.
        public convenience init(
            compileFromPath path: String, functionName: String? = nil, options: CompileOptions = CompileOptions()
        ) async throws {
            try self.init(compiling: { BNNSGraphCompileFromFile(path, functionName, $0) }, options)
        }

        init(compiling compile: (bnns_graph_compile_options_t) -> bnns_graph_t, _ options: CompileOptions) throws {
            graph = options.passed(compile)
            guard graph.data != nil else { throw Error.unableToCreateGraph }
            context = BNNSGraphContextMake(graph)
            guard context.data != nil else {
                openbnns_free(graph.data)
                throw Error.unableToCreateContext
            }
        }

        deinit {
            BNNSGraphContextDestroy(context)
            openbnns_free(graph.data)
        }

        // Functions and arguments.

        /// The number of functions.
        public var functionCount: Int { BNNSGraphGetFunctionCount(graph) }

        /// The names of the functions.
        public var functionNames: [String] {
            names(functionCount) { BNNSGraphGetFunctionNames(graph, $0, $1) }
        }

        /// The number of outputs and inputs of a function; 0 if there is no such function.
        public func argumentCount(forFunction function: String? = nil) -> Int {
            let count = BNNSGraphGetArgumentCount(graph, function)
            return count == .max || count < 0 ? 0 : Int(count)
        }

        /// The names of the outputs of a function, and then those of its inputs.
        public func argumentNames(forFunction function: String? = nil) -> [String] {
            names(argumentCount(forFunction: function)) { BNNSGraphGetArgumentNames(graph, function, $0, $1) }
        }

        /// Where an argument stands among those of a function; `Int.max` if there is no such argument.
        public func argumentPosition(forFunction function: String? = nil, argument: String) -> Int {
            Int(truncatingIfNeeded: BNNSGraphGetArgumentPosition(graph, function, argument))
        }

        private func names(
            _ count: Int, _ write: (Int, UnsafeMutablePointer<UnsafePointer<CChar>?>) -> Int32
        ) -> [String] {
            var found = [UnsafePointer<CChar>?](repeating: nil, count: max(count, 1))
            guard count > 0, write(count, &found) == 0 else { return [] }
            return found.prefix(count).map { $0.map { String(cString: $0) } ?? "" }
        }

        /// An argument without memory. Sizes that are open are -1, unless they have been set and are to be filled in.
        public func tensor(
            forFunction function: String? = nil, argument: String, fillKnownDynamicShapes: Bool
        ) -> BNNSTensor? {
            var tensor = BNNSTensor()
            return BNNSGraphContextGetTensor(context, function, argument, fillKnownDynamicShapes, &tensor) == 0 ? tensor : nil
        }

        /// An argument with memory of its own, which `deallocate()` frees; nil if its sizes are not all known.
        public func allocateTensor(
            forFunction function: String? = nil, argument: String, fillKnownDynamicShapes: Bool
        ) -> BNNSTensor? {
            let found = tensor(forFunction: function, argument: argument, fillKnownDynamicShapes: fillKnownDynamicShapes)
            guard var tensor = found, tensor.sizes.allSatisfy({ $0 >= 0 }) else { return nil }
            tensor.allocate(bytes: BNNSTensorGetAllocationSize(&tensor))
            return tensor
        }

        // Sizes that the program leaves open.

        /// Set the first size of all arguments where it is open. Negative numbers have no effect.
        public func setBatchSize(_ batchSize: Int, forFunction function: String? = nil) {
            if batchSize >= 0 { _ = BNNSGraphContextSetBatchSize(context, function, UInt64(batchSize)) }
        }

        /// The same for programs that wait for it.
        public func setBatchSize(_ batchSize: Int, forFunction function: String? = nil) async {
            if batchSize >= 0 { _ = BNNSGraphContextSetBatchSize(context, function, UInt64(batchSize)) }
        }

        /// Set open sizes, with one shape for each argument; gives the shapes of all arguments, as far as they are known.
        @discardableResult
        public func setDynamicShapes(_ shapes: [Shape], forFunction function: String? = nil) async throws -> [Shape] {
            let ranks = zip(shapes, argumentNames(forFunction: function)).map { shape, name -> Int in
                let known = tensor(forFunction: function, argument: name, fillKnownDynamicShapes: false)
                return max(shape.dimensions.count, Int(known?.rank ?? 0))
            }
            let starts = ranks.reduce(into: [0]) { $0.append($0.last! + $1) }
            var sizes = [UInt64](repeating: 0, count: max(starts.last!, 1))
            for (shape, start) in zip(shapes, starts) {
                for (place, size) in shape.dimensions.enumerated() { sizes[start + place] = UInt64(max(size, 0)) }
            }
            return try sizes.withUnsafeMutableBufferPointer { sizes in
                var given = zip(shapes, zip(starts, ranks)).map { _, place in
                    bnns_graph_shape_t(rank: place.1, shape: sizes.baseAddress! + place.0)
                }
                guard BNNSGraphContextSetDynamicShapes(context, function, given.count, &given) >= 0 else {
                    throw Error.unableToSetDynamicShapes
                }
                return given.map { shape in Shape((0..<shape.rank).map { Int(shape.shape![$0]) }) }
            }
        }

        // Executing.

        /// Look at all intermediate results for NaN and infinity.
        public var checkForNaNsAndInfinities = false {
            didSet { BNNSGraphContextEnableNanAndInfChecks(context, checkForNaNsAndInfinities) }
        }

        /// How far the buffers of a streaming context move on with every execution.
        public var streamingAdvanceCount = 0 {
            didSet { _ = BNNSGraphContextSetStreamingAdvanceCount(context, streamingAdvanceCount) }
        }

        /// Execute a function on memory: first its outputs, then its inputs, without gaps.
        public func executeFunction<T>(_ function: String? = nil, arguments: [T]) throws where T: PointerArgument {
            var passed = arguments.map { argument in
                var made = bnns_graph_argument_t()
                made.data_ptr = UnsafeMutableRawPointer(argument.baseAddress)
                made.data_ptr_size = argument.count * MemoryLayout<T.Element>.stride
                return made
            }
            try execute(function, BNNSGraphArgumentTypePointer, &passed)
        }

        /// Execute a function on tensors: first its outputs, then its inputs. Shapes of outputs are set.
        public func executeFunction(_ function: String? = nil, arguments: inout [BNNSTensor]) throws {
            try execute(function, &arguments)
        }

        /// The same for programs that wait for it.
        public func executeFunction(_ function: String? = nil, arguments: inout [BNNSTensor]) async throws {
            try execute(function, &arguments)
        }

        private func execute(_ function: String?, _ arguments: inout [BNNSTensor]) throws {
            try arguments.withUnsafeMutableBufferPointer { tensors in
                var passed = tensors.indices.map { place in
                    var made = bnns_graph_argument_t()
                    made.tensor = tensors.baseAddress! + place
                    return made
                }
                try execute(function, BNNSGraphArgumentTypeTensor, &passed)
            }
        }

        private func execute(
            _ function: String?, _ kind: BNNSGraphArgumentType, _ arguments: inout [bnns_graph_argument_t]
        ) throws {
            if kind.rawValue != argumentType.rawValue {
                guard BNNSGraphContextSetArgumentType(context, kind) == 0 else { throw Error.unableToExecute }
                argumentType = kind
            }
            let status = BNNSGraphContextExecute(context, function, arguments.count, &arguments, 0, nil)
            guard status == 0 else { throw Error.unableToExecute }
        }
    }
}

extension UnsafeMutableBufferPointer: BNNSGraph.PointerArgument {}
