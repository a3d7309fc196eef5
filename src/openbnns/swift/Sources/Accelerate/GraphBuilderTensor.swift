extension BNNSGraph.Builder {
    /// A tensor of a graph that is being described. Operators and methods add operations to the graph.
    public struct Tensor<T>: OperationParameter, BNNSGraph.TensorDescriptor, CustomStringConvertible where T: BNNSScalar {
        private let record: GraphRecord
        private let number: Int64

        init(_ record: GraphRecord, _ number: Int64) {
            self.record = record
            self.number = number
        }

        // What is known of it; nil after a mistake in the graph.

        public var dataType: BNNSDataType? { record.describe(number)?.data_type }

        public var rank: Int? { record.describe(number).map { Int($0.rank) } }

        /// The sizes; -1 for one that is open.
        public var shape: [Int]? { record.describe(number)?.sizes }

        /// The strides in elements; -1 for those that an open size decides.
        public var stride: [Int]? { record.describe(number)?.strides }

        public var description: String {
            guard let shape, let stride else { return "not part of a graph, because an operation before it was refused" }
            return "shape: \(shape) | stride: \(stride)"
        }

        public var tensorData: UnsafeMutableRawPointer? { nil }

        // Operations that are not one call each.

        /// The values as another type.
        public func cast<U>(to type: U.Type) -> Tensor<U> where U: BNNSScalar { adding("cast", ["data_type": U.bnnsDataType]) }

        /// Maximum, average or norm of windows along one to three axes behind those of samples and channels.
        public func pooling(
            _ function: PoolingFunction, kernelSize: [Int], strides: [Int], padding: PoolingPadding, ceilingMode: CeilingMode
        ) -> Tensor<T> {
            var includesPadding = true
            if case .average(let includes) = function { includesPadding = includes }
            return adding("pooling", [
                "function": function, "kernel_size": kernelSize, "strides": strides, "padding": padding,
                "ceiling_mode": ceilingMode, "include_padding": includesPadding,
            ])
        }

        /// A part of the tensor. Assigning to a part makes this the changed tensor, and changes a state that it stands for.
        public subscript(ranges: any SliceIndex...) -> Tensor<T> {
            get { adding("slice", ["place": Place(ranges)]) }
            set { self = adding("slice_update", ["place": Place(ranges), "update": newValue]) }
        }

        // For operations.

        var builder: BNNSGraph.Builder { BNNSGraph.Builder(record: record) }

        public func graphBuilderTensor(_ builder: BNNSGraph.Builder) -> Tensor<T> { self }

        /// The first result of an operation of this tensor.
        func adding<U>(_ operation: String, _ arguments: GraphArguments = [:]) -> Tensor<U> {
            for case let other as any RecordedTensor in arguments.map(\.value) { _ = other.number(in: record) }
            return Tensor<U>(record, record.add(operation, number, arguments))
        }

        /// A further result of the operation that made this tensor.
        func following<U>(_ place: Int64) -> Tensor<U> { Tensor<U>(record, number < 0 ? number : number + place) }

        /// What an operation is given, as a tensor of the same graph.
        func operand<P>(_ value: P) -> Tensor<P.Element> where P: OperationParameter {
            value.graphBuilderTensor(builder)
        }
    }

    /// What an operation takes beside its tensor: another one, a number, or an array of numbers.
    public protocol OperationParameter<Element> {
        associatedtype Element: BNNSScalar

        /// A tensor of the builder's graph.
        func graphBuilderTensor(_ builder: BNNSGraph.Builder) -> BNNSGraph.Builder.Tensor<Element>
    }
}

/// A tensor of any type that belongs to a record.
protocol RecordedTensor {
    func number(in record: GraphRecord) -> Int64
}

extension BNNSGraph.Builder.Tensor: RecordedTensor, GraphArgument {
    func number(in record: GraphRecord) -> Int64 {
        precondition(record === self.record, "a tensor belongs to another graph. Use those of one makeContext only.")
        return number
    }

    var json: String { "{\"tensor\": \(number)}" }
}

extension BNNSGraph.Builder.Tensor where T == Bool {
    /// Elements of one tensor or the other; this tensor decides.
    public func select<U>(
        _ valueIfTrue: BNNSGraph.Builder.Tensor<U>, _ valueIfFalse: BNNSGraph.Builder.Tensor<U>
    ) -> BNNSGraph.Builder.Tensor<U> where U: BNNSScalar {
        adding("select", ["value_if_true": valueIfTrue, "value_if_false": valueIfFalse])
    }

    /// Elements of a tensor, or a number where this tensor is false.
    public func select<U>(
        _ valueIfTrue: BNNSGraph.Builder.Tensor<U>, _ valueIfFalse: U
    ) -> BNNSGraph.Builder.Tensor<U> where U: BNNSScalar {
        select(valueIfTrue, builder.constant(value: valueIfFalse))
    }

    /// Elements of a tensor, or a number where this tensor is true.
    public func select<U>(
        _ valueIfTrue: U, _ valueIfFalse: BNNSGraph.Builder.Tensor<U>
    ) -> BNNSGraph.Builder.Tensor<U> where U: BNNSScalar {
        select(builder.constant(value: valueIfTrue), valueIfFalse)
    }
}

/// The place of a slice.
struct Place: GraphArgument {
    let json: String

    init(_ ranges: [any BNNSGraph.Builder.SliceIndex]) {
        let parts = ranges.map { range -> String in
            guard let known = range as? any GraphArgument else {
                preconditionFailure("\(type(of: range)) is no place of a slice. Use Int, a range of Int, or SliceRange.")
            }
            return known.json
        }
        json = "[\(parts.joined(separator: ", "))]"
    }
}

// Numbers and arrays as operands.

extension BNNSGraph.Builder.OperationParameter where Self: BNNSScalar {
    public func graphBuilderTensor(_ builder: BNNSGraph.Builder) -> BNNSGraph.Builder.Tensor<Self> {
        builder.constant(value: self)
    }
}

extension Float: BNNSGraph.Builder.OperationParameter {}
extension Float16: BNNSGraph.Builder.OperationParameter {}
extension Int32: BNNSGraph.Builder.OperationParameter {}
extension Bool: BNNSGraph.Builder.OperationParameter {}
extension Int8: BNNSGraph.Builder.OperationParameter {}
extension Int16: BNNSGraph.Builder.OperationParameter {}
extension UInt8: BNNSGraph.Builder.OperationParameter {}
extension UInt16: BNNSGraph.Builder.OperationParameter {}

extension BNNSGraph.Builder.OperationParameter where Self: AccelerateBuffer, Element: BNNSScalar {
    public func graphBuilderTensor(_ builder: BNNSGraph.Builder) -> BNNSGraph.Builder.Tensor<Element> {
        builder.constant(values: self)
    }
}

extension Array: BNNSGraph.Builder.OperationParameter where Element: BNNSScalar {}
extension ArraySlice: BNNSGraph.Builder.OperationParameter where Element: BNNSScalar {}
extension ContiguousArray: BNNSGraph.Builder.OperationParameter where Element: BNNSScalar {}
extension UnsafeBufferPointer: BNNSGraph.Builder.OperationParameter where Element: BNNSScalar {}
extension UnsafeMutableBufferPointer: BNNSGraph.Builder.OperationParameter where Element: BNNSScalar {}
