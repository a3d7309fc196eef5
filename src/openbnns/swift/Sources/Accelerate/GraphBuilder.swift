extension BNNSGraph {
    /// A context for the graph that a closure describes. The tensors that it returns are the outputs, and come first among the
    /// arguments; the arguments of the builder follow in the order in which they were made.
    public static func makeContext(
        options: CompileOptions = CompileOptions(), _ block: (inout Builder) -> [any TensorDescriptor]
    ) throws -> Context {
        var builder = Builder()
        let record = builder.record
        let outputs = block(&builder).map { output in
            guard let tensor = output as? any RecordedTensor else {
                preconditionFailure("makeContext: \(type(of: output)) is no output. Return tensors of the builder.")
            }
            return tensor.number(in: record)
        }
        guard !record.hasFailed else { throw Error.unableToCreateGraph }
        return try Context(compiling: { openbnns_graph_builder_compile(record.builder, outputs.count, outputs, $0) }, options)
    }

    /// A tensor of any type, as outputs of a graph are.
    public protocol TensorDescriptor {
        /// Memory of the tensor: none while a graph is built.
        var tensorData: UnsafeMutableRawPointer? { get }
    }

    /// Makes arguments and constants of a graph; everything else is an operation of its tensors.
    ///
    /// A mistake, such as shapes that do not fit, ends in an error of `makeContext`, whose description says which operation it
    /// was; operations after it are not looked at.
    public struct Builder {
        let record: GraphRecord

        init(record: GraphRecord = GraphRecord()) { self.record = record }

        /// An input, or a state, which assignments to slices of it change. A negative size is open.
        public func argument<T>(
            name: String? = nil, dataType: T.Type, shape: [Int], intent: Intent = .input
        ) -> Tensor<T> where T: BNNSScalar {
            Tensor(record, record.add("argument", nil, [
                "name": name, "data_type": T.bnnsDataType, "shape": shape, "intent": intent,
            ]))
        }

        /// A constant number.
        public func constant<T>(name: String? = nil, value: T) -> Tensor<T> where T: BNNSScalar {
            withUnsafeBytes(of: value) { constant(name, $0, []) }
        }

        /// Constant numbers, which are copied; a vector unless there is a shape.
        public func constant<T>(
            name: String? = nil, values: some AccelerateBuffer<T>, shape: [Int]? = nil
        ) -> Tensor<T> where T: BNNSScalar {
            values.withUnsafeBufferPointer { constant(name, UnsafeRawBufferPointer($0), shape ?? [$0.count]) }
        }

        /// A constant matrix. Each array is a row, whatever `rowMajor` says.
        public func constant(values: [[Float]], rowMajor: Bool = false) -> Tensor<Float> {
            constant(values: values.flatMap { $0 }, shape: [values.count, values.first?.count ?? 0])
        }

        /// A constant matrix. Each array is a row, whatever `rowMajor` says.
        public func constant(values: [[Float16]], rowMajor: Bool = false) -> Tensor<Float16> {
            constant(values: values.flatMap { $0 }, shape: [values.count, values.first?.count ?? 0])
        }

        private func constant<T>(_ name: String?, _ data: UnsafeRawBufferPointer, _ shape: [Int]) -> Tensor<T> {
            let arguments: GraphArguments = ["name": name, "data_type": T.bnnsDataType, "shape": shape]
            return Tensor(record, record.add("constant", nil, arguments, data: data))
        }

        /// Tensors joined along an axis.
        public func concatenate<T>(_ tensors: [Tensor<T>], axis: Int) -> Tensor<T> where T: BNNSScalar {
            Tensor(record, record.add("concatenate", nil, ["tensors": tensors, "axis": axis]))
        }
    }
}

/// The operations of a graph that is being described, which the library keeps.
final class GraphRecord {
    let builder = openbnns_graph_builder_make()
    /// An operation was refused; `openbnns_last_error()` has the reason, because no operation after it is tried.
    private(set) var hasFailed = false

    deinit { openbnns_graph_builder_destroy(builder) }

    /// Add an operation, of a tensor or of the builder itself; the number of its first result.
    func add(
        _ operation: String, _ tensor: Int64?, _ arguments: GraphArguments, data: UnsafeRawBufferPointer? = nil
    ) -> Int64 {
        guard !hasFailed else { return -1 }
        let owner = tensor.map { "\"tensor\": \($0), " } ?? ""
        let given = arguments.map { "\($0.key.json): \($0.value.map { $0.json } ?? "null")" }.joined(separator: ", ")
        let text = "{\"operation\": \(operation.json), \(owner)\"arguments\": {\(given)}}"
        let number = openbnns_graph_builder_add(builder, text, data?.baseAddress, data?.count ?? 0)
        hasFailed = number < 0
        return number
    }

    /// What the library knows of a tensor; nil after a mistake.
    func describe(_ number: Int64) -> BNNSTensor? {
        guard !hasFailed else { return nil }
        var tensor = BNNSTensor()
        return openbnns_graph_builder_get_tensor(builder, number, &tensor) == 0 ? tensor : nil
    }
}
