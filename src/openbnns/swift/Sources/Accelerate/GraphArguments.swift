/// Arguments of an operation; nil is an argument that is left out.
typealias GraphArguments = KeyValuePairs<String, (any GraphArgument)?>

/// A value that an operation of a graph takes, as the library reads it.
protocol GraphArgument {
    var json: String { get }
}

extension Int: GraphArgument {
    var json: String { description }
}

extension Bool: GraphArgument {
    var json: String { description }
}

extension Float: GraphArgument {
    var json: String { isFinite ? description : isNaN ? "NaN" : self < 0 ? "-Infinity" : "Infinity" }
}

extension String: GraphArgument {
    var json: String {
        let text = unicodeScalars.map { scalar -> String in
            switch scalar {
            case "\"", "\\": return "\\\(scalar)"
            case " "...: return String(scalar)
            default:
                let digits = String(scalar.value, radix: 16)
                return "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
            }
        }
        return "\"\(text.joined())\""
    }
}

extension Array: GraphArgument where Element: GraphArgument {
    var json: String { "[\(map(\.json).joined(separator: ", "))]" }
}

extension Optional: GraphArgument where Wrapped: GraphArgument {
    var json: String { map(\.json) ?? "null" }
}

extension BNNSDataType: GraphArgument {
    var json: String { rawValue.description }
}

extension BNNSGraph.Builder {
    /// Zeros around the input of a convolution, or what a pooling does not see: none, as many as give an output as large as the
    /// input, divided by the strides, with the odd one after (`same`) or before (`lower`), or pairs of sizes for each axis.
    public enum ConvolutionPadding: Sendable, GraphArgument {
        case valid
        case same
        case lower
        case custom(padding: [Int])

        var json: String {
            switch self {
            case .valid: return "\"valid\""
            case .same: return "\"same\""
            case .lower: return "\"lower\""
            case .custom(let padding): return padding.json
            }
        }
    }

    public typealias PoolingPadding = ConvolutionPadding

    /// The values that a padding has.
    public enum Padding: Sendable, GraphArgument {
        case constant(value: Float)
        case reflection
        case replication

        var json: String {
            switch self {
            case .constant(let value): return value.json
            case .reflection: return "\"reflection\""
            case .replication: return "\"replication\""
            }
        }
    }

    /// What a pooling makes of a window. Zeros around the input count for averages if they say so.
    public enum PoolingFunction: Sendable, GraphArgument {
        case max
        case average(includePadding: Bool)
        case l2Norm

        var json: String {
            switch self {
            case .max: return "\"max\""
            case .average: return "\"average\""
            case .l2Norm: return "\"l2_norm\""
            }
        }
    }
}

// Slices.

extension BNNSGraph.Builder {
    /// A part of an axis: a number, which drops the axis, a range, or a `SliceRange`.
    public protocol SliceIndex {}

    /// A range whose negative bounds count from the end.
    public struct SliceRange: SliceIndex, Equatable, Sendable, GraphArgument {
        public let startIndex: Int
        public let endIndex: Int

        /// All of an axis; of several axes, if a slice has fewer entries than the tensor has axes.
        public static let fillAll = SliceRange(startIndex: .min, endIndex: .max)

        public init(startIndex: Int, endIndex: Int) {
            self.startIndex = startIndex
            self.endIndex = endIndex
        }

        var json: String { self == .fillAll ? "\"fill\"" : slice(startIndex, endIndex) }
    }
}

private func slice(_ start: Int?, _ stop: Int?) -> String { "{\"start\": \(start.json), \"stop\": \(stop.json)}" }

extension Int: BNNSGraph.Builder.SliceIndex {}

extension Range: BNNSGraph.Builder.SliceIndex, GraphArgument where Bound == Int {
    var json: String { slice(lowerBound, upperBound) }
}

extension ClosedRange: BNNSGraph.Builder.SliceIndex, GraphArgument where Bound == Int {
    var json: String { slice(lowerBound, upperBound + 1) }
}

extension PartialRangeFrom: BNNSGraph.Builder.SliceIndex, GraphArgument where Bound == Int {
    var json: String { slice(lowerBound, nil) }
}

extension PartialRangeUpTo: BNNSGraph.Builder.SliceIndex, GraphArgument where Bound == Int {
    var json: String { slice(nil, upperBound) }
}

extension PartialRangeThrough: BNNSGraph.Builder.SliceIndex, GraphArgument where Bound == Int {
    var json: String { slice(nil, upperBound + 1) }
}
