// Written by tools/generate_swift.py: edit its facts, not this file.

extension BNNSGraph.Builder {
    public enum Intent: Sendable, GraphArgument {
        case input
        case inputOutput

        var json: String {
            switch self {
            case .input: return "\"input\""
            case .inputOutput: return "\"input_output\""
            }
        }
    }
}

extension BNNSGraph.Builder {
    public enum CeilingMode: Sendable, GraphArgument {
        case ceiling
        case floor

        var json: String {
            switch self {
            case .ceiling: return "\"ceiling\""
            case .floor: return "\"floor\""
            }
        }
    }
}

extension BNNSGraph.Builder {
    public enum ScatterMode: Sendable, GraphArgument {
        case add
        case divide
        case maximum
        case minimum
        case multiply
        case subtract
        case update

        var json: String {
            switch self {
            case .add: return "\"add\""
            case .divide: return "\"divide\""
            case .maximum: return "\"maximum\""
            case .minimum: return "\"minimum\""
            case .multiply: return "\"multiply\""
            case .subtract: return "\"subtract\""
            case .update: return "\"update\""
            }
        }
    }
}

extension BNNSGraph.Builder {
    public enum SortOrder: Sendable, GraphArgument {
        case ascending
        case descending

        var json: String {
            switch self {
            case .ascending: return "\"ascending\""
            case .descending: return "\"descending\""
            }
        }
    }
}

extension BNNSGraph.Builder {
    public enum Direction: Sendable, GraphArgument {
        case forward
        case reverse

        var json: String {
            switch self {
            case .forward: return "\"forward\""
            case .reverse: return "\"reverse\""
            }
        }
    }
}

extension BNNSGraph.Builder {
    public enum Activation: Sendable, GraphArgument {
        case hardSigmoid
        case linear
        case relu
        case scaledTanh
        case sigmoid
        case tanh

        var json: String {
            switch self {
            case .hardSigmoid: return "\"hard_sigmoid\""
            case .linear: return "\"linear\""
            case .relu: return "\"relu\""
            case .scaledTanh: return "\"scaled_tanh\""
            case .sigmoid: return "\"sigmoid\""
            case .tanh: return "\"tanh\""
            }
        }
    }
}
