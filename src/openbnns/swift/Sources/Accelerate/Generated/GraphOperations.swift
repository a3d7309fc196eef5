// Written by tools/generate_swift.py: edit its facts, not this file.

extension BNNSGraph.Builder.OperationParameter {
    public static func + (lhs: BNNSGraph.Builder.Tensor<Self.Element>, rhs: Self) -> BNNSGraph.Builder.Tensor<Self.Element> {
        lhs.adding("add", ["y": lhs.operand(rhs)])
    }
    public static func + (lhs: Self, rhs: BNNSGraph.Builder.Tensor<Self.Element>) -> BNNSGraph.Builder.Tensor<Self.Element> {
        rhs.operand(lhs).adding("add", ["y": rhs])
    }
    public static func - (lhs: BNNSGraph.Builder.Tensor<Self.Element>, rhs: Self) -> BNNSGraph.Builder.Tensor<Self.Element> {
        lhs.adding("subtract", ["y": lhs.operand(rhs)])
    }
    public static func - (lhs: Self, rhs: BNNSGraph.Builder.Tensor<Self.Element>) -> BNNSGraph.Builder.Tensor<Self.Element> {
        rhs.operand(lhs).adding("subtract", ["y": rhs])
    }
    public static func * (lhs: BNNSGraph.Builder.Tensor<Self.Element>, rhs: Self) -> BNNSGraph.Builder.Tensor<Self.Element> {
        lhs.adding("multiply", ["y": lhs.operand(rhs)])
    }
    public static func * (lhs: Self, rhs: BNNSGraph.Builder.Tensor<Self.Element>) -> BNNSGraph.Builder.Tensor<Self.Element> {
        rhs.operand(lhs).adding("multiply", ["y": rhs])
    }
    public static func / (lhs: BNNSGraph.Builder.Tensor<Self.Element>, rhs: Self) -> BNNSGraph.Builder.Tensor<Self.Element> {
        lhs.adding("divide", ["y": lhs.operand(rhs)])
    }
    public static func / (lhs: Self, rhs: BNNSGraph.Builder.Tensor<Self.Element>) -> BNNSGraph.Builder.Tensor<Self.Element> {
        rhs.operand(lhs).adding("divide", ["y": rhs])
    }
    public static func % (lhs: BNNSGraph.Builder.Tensor<Self.Element>, rhs: Self) -> BNNSGraph.Builder.Tensor<Self.Element> {
        lhs.adding("remainder", ["y": lhs.operand(rhs)])
    }
}

extension BNNSGraph.Builder.Tensor {
    public static func + (lhs: Self, rhs: Self) -> Self {
        lhs.adding("add", ["y": rhs])
    }
    public static func - (lhs: Self, rhs: Self) -> Self {
        lhs.adding("subtract", ["y": rhs])
    }
    public static func * (lhs: Self, rhs: Self) -> Self {
        lhs.adding("multiply", ["y": rhs])
    }
    public static func / (lhs: Self, rhs: Self) -> Self {
        lhs.adding("divide", ["y": rhs])
    }
    public static func % (lhs: Self, rhs: Self) -> Self {
        lhs.adding("remainder", ["y": rhs])
    }
}

extension BNNSGraph.Builder.Tensor {
    public static func .== (lhs: BNNSGraph.Builder.Tensor<T>, rhs: BNNSGraph.Builder.Tensor<T>) -> BNNSGraph.Builder.Tensor<Bool> {
        lhs.adding("equal", ["y": rhs])
    }
    public static func .!= (lhs: BNNSGraph.Builder.Tensor<T>, rhs: BNNSGraph.Builder.Tensor<T>) -> BNNSGraph.Builder.Tensor<Bool> {
        lhs.adding("not_equal", ["y": rhs])
    }
    public static func .< (lhs: BNNSGraph.Builder.Tensor<T>, rhs: BNNSGraph.Builder.Tensor<T>) -> BNNSGraph.Builder.Tensor<Bool> {
        lhs.adding("less", ["y": rhs])
    }
    public static func .<= (lhs: BNNSGraph.Builder.Tensor<T>, rhs: BNNSGraph.Builder.Tensor<T>) -> BNNSGraph.Builder.Tensor<Bool> {
        lhs.adding("less_equal", ["y": rhs])
    }
    public static func .> (lhs: BNNSGraph.Builder.Tensor<T>, rhs: BNNSGraph.Builder.Tensor<T>) -> BNNSGraph.Builder.Tensor<Bool> {
        lhs.adding("greater", ["y": rhs])
    }
    public static func .>= (lhs: BNNSGraph.Builder.Tensor<T>, rhs: BNNSGraph.Builder.Tensor<T>) -> BNNSGraph.Builder.Tensor<Bool> {
        lhs.adding("greater_equal", ["y": rhs])
    }
    public func abs() -> BNNSGraph.Builder.Tensor<T> {
        adding("abs")
    }
    public func acos() -> BNNSGraph.Builder.Tensor<T> {
        adding("acos")
    }
    public func acosh() -> BNNSGraph.Builder.Tensor<T> {
        adding("acosh")
    }
    public func asin() -> BNNSGraph.Builder.Tensor<T> {
        adding("asin")
    }
    public func asinh() -> BNNSGraph.Builder.Tensor<T> {
        adding("asinh")
    }
    public func atan() -> BNNSGraph.Builder.Tensor<T> {
        adding("atan")
    }
    public func atanh() -> BNNSGraph.Builder.Tensor<T> {
        adding("atanh")
    }
    public func ceil() -> BNNSGraph.Builder.Tensor<T> {
        adding("ceil")
    }
    public func cos() -> BNNSGraph.Builder.Tensor<T> {
        adding("cos")
    }
    public func cosh() -> BNNSGraph.Builder.Tensor<T> {
        adding("cosh")
    }
    public func erf() -> BNNSGraph.Builder.Tensor<T> {
        adding("erf")
    }
    public func exp() -> BNNSGraph.Builder.Tensor<T> {
        adding("exp")
    }
    public func exp2() -> BNNSGraph.Builder.Tensor<T> {
        adding("exp2")
    }
    public func floor() -> BNNSGraph.Builder.Tensor<T> {
        adding("floor")
    }
    public func round() -> BNNSGraph.Builder.Tensor<T> {
        adding("round")
    }
    public func sin() -> BNNSGraph.Builder.Tensor<T> {
        adding("sin")
    }
    public func sinh() -> BNNSGraph.Builder.Tensor<T> {
        adding("sinh")
    }
    public func sqrt() -> BNNSGraph.Builder.Tensor<T> {
        adding("sqrt")
    }
    public func tan() -> BNNSGraph.Builder.Tensor<T> {
        adding("tan")
    }
    public func tanh() -> BNNSGraph.Builder.Tensor<T> {
        adding("tanh")
    }
    public func log(epsilon: Float = .ulpOfOne.squareRoot()) -> BNNSGraph.Builder.Tensor<T> {
        adding("log", ["epsilon": epsilon])
    }
    public func reciprocal(epsilon: Float = .ulpOfOne.squareRoot()) -> BNNSGraph.Builder.Tensor<T> {
        adding("reciprocal", ["epsilon": epsilon])
    }
    public func rsqrt(epsilon: Float = .ulpOfOne.squareRoot()) -> BNNSGraph.Builder.Tensor<T> {
        adding("rsqrt", ["epsilon": epsilon])
    }
    public func clip(to range: ClosedRange<Float>) -> BNNSGraph.Builder.Tensor<T> {
        adding("clip", ["to": [range.lowerBound, range.upperBound]])
    }
    public func threshold(to value: Float) -> BNNSGraph.Builder.Tensor<T> {
        adding("threshold", ["to": value])
    }
    public func cumulativeSum(axis: Int) -> BNNSGraph.Builder.Tensor<T> {
        adding("cumulative_sum", ["axis": axis])
    }
    public func max(y: some BNNSGraph.Builder.OperationParameter<T>) -> BNNSGraph.Builder.Tensor<T> {
        adding("max", ["y": operand(y)])
    }
    public func min(y: some BNNSGraph.Builder.OperationParameter<T>) -> BNNSGraph.Builder.Tensor<T> {
        adding("min", ["y": operand(y)])
    }
    public func pow(y: some BNNSGraph.Builder.OperationParameter<T>) -> BNNSGraph.Builder.Tensor<T> {
        adding("pow", ["y": operand(y)])
    }
    public func fma(y: some BNNSGraph.Builder.OperationParameter<T>, z: some BNNSGraph.Builder.OperationParameter<T>) -> BNNSGraph.Builder.Tensor<T> {
        adding("fma", ["y": operand(y), "z": operand(z)])
    }
    public func relu() -> BNNSGraph.Builder.Tensor<T> {
        adding("relu")
    }
    public func relu6() -> BNNSGraph.Builder.Tensor<T> {
        adding("relu6")
    }
    public func sigmoid() -> BNNSGraph.Builder.Tensor<T> {
        adding("sigmoid")
    }
    public func hardSwish() -> BNNSGraph.Builder.Tensor<T> {
        adding("hard_swish")
    }
    public func silu() -> BNNSGraph.Builder.Tensor<T> {
        adding("silu")
    }
    public func softsign() -> BNNSGraph.Builder.Tensor<T> {
        adding("softsign")
    }
    public func gelu() -> BNNSGraph.Builder.Tensor<T> {
        adding("gelu")
    }
    public func geluTanhApproximation() -> BNNSGraph.Builder.Tensor<T> {
        adding("gelu_tanh_approximation")
    }
    public func geluSigmoidApproximation() -> BNNSGraph.Builder.Tensor<T> {
        adding("gelu_sigmoid_approximation")
    }
    public func leakyReLU(alpha: Float = 0.01) -> BNNSGraph.Builder.Tensor<T> {
        adding("leaky_relu", ["alpha": alpha])
    }
    public func clampedReLU(alpha: Float, beta: Float) -> BNNSGraph.Builder.Tensor<T> {
        adding("clamped_relu", ["alpha": alpha, "beta": beta])
    }
    public func thresholdedReLU(alpha: Float) -> BNNSGraph.Builder.Tensor<T> {
        adding("thresholded_relu", ["alpha": alpha])
    }
    public func elu(alpha: Float) -> BNNSGraph.Builder.Tensor<T> {
        adding("elu", ["alpha": alpha])
    }
    public func prelu(alpha: [Float]) -> BNNSGraph.Builder.Tensor<T> {
        adding("prelu", ["alpha": alpha])
    }
    public func hardSigmoid(alpha: Float, beta: Float) -> BNNSGraph.Builder.Tensor<T> {
        adding("hard_sigmoid", ["alpha": alpha, "beta": beta])
    }
    public func softplus(alpha: Float) -> BNNSGraph.Builder.Tensor<T> {
        adding("softplus", ["alpha": alpha])
    }
    public func scaledTanh(alpha: Float, beta: Float) -> BNNSGraph.Builder.Tensor<T> {
        adding("scaled_tanh", ["alpha": alpha, "beta": beta])
    }
    public func softmax(axis: Int) -> BNNSGraph.Builder.Tensor<T> {
        adding("softmax", ["axis": axis])
    }
    public func logSoftmax(axis: Int) -> BNNSGraph.Builder.Tensor<T> {
        adding("log_softmax", ["axis": axis])
    }
    public func sum(axes: [Int], keepDimensions: Bool) -> BNNSGraph.Builder.Tensor<T> {
        adding("sum", ["axes": axes, "keep_dimensions": keepDimensions])
    }
    public func mean(axes: [Int], keepDimensions: Bool) -> BNNSGraph.Builder.Tensor<T> {
        adding("mean", ["axes": axes, "keep_dimensions": keepDimensions])
    }
    public func product(axes: [Int], keepDimensions: Bool) -> BNNSGraph.Builder.Tensor<T> {
        adding("product", ["axes": axes, "keep_dimensions": keepDimensions])
    }
    public func minimum(axes: [Int], keepDimensions: Bool) -> BNNSGraph.Builder.Tensor<T> {
        adding("minimum", ["axes": axes, "keep_dimensions": keepDimensions])
    }
    public func maximum(axes: [Int], keepDimensions: Bool) -> BNNSGraph.Builder.Tensor<T> {
        adding("maximum", ["axes": axes, "keep_dimensions": keepDimensions])
    }
    public func l1Norm(axes: [Int], keepDimensions: Bool) -> BNNSGraph.Builder.Tensor<T> {
        adding("l1_norm", ["axes": axes, "keep_dimensions": keepDimensions])
    }
    public func l2Norm(axes: [Int], keepDimensions: Bool) -> BNNSGraph.Builder.Tensor<T> {
        adding("l2_norm", ["axes": axes, "keep_dimensions": keepDimensions])
    }
    public func logSum(axes: [Int], keepDimensions: Bool) -> BNNSGraph.Builder.Tensor<T> {
        adding("log_sum", ["axes": axes, "keep_dimensions": keepDimensions])
    }
    public func logSumExp(axes: [Int], keepDimensions: Bool) -> BNNSGraph.Builder.Tensor<T> {
        adding("log_sum_exp", ["axes": axes, "keep_dimensions": keepDimensions])
    }
    public func sumOfSquares(axes: [Int], keepDimensions: Bool) -> BNNSGraph.Builder.Tensor<T> {
        adding("sum_of_squares", ["axes": axes, "keep_dimensions": keepDimensions])
    }
    public func argMax(axis: Int, keepDimension: Bool) -> BNNSGraph.Builder.Tensor<Int32> {
        adding("arg_max", ["axis": axis, "keep_dimension": keepDimension])
    }
    public func argMin(axis: Int, keepDimension: Bool) -> BNNSGraph.Builder.Tensor<Int32> {
        adding("arg_min", ["axis": axis, "keep_dimension": keepDimension])
    }
    public func argSort(axis: Int, sortOrder: BNNSGraph.Builder.SortOrder) -> BNNSGraph.Builder.Tensor<Int32> {
        adding("arg_sort", ["axis": axis, "sort_order": sortOrder])
    }
    public func topK(_ k: Int, axis: Int, findLargest: Bool) -> (values: BNNSGraph.Builder.Tensor<T>, indices: BNNSGraph.Builder.Tensor<Int32>) {
        let values: Self = adding("top_k", ["k": k, "axis": axis, "find_largest": findLargest])
        return (values, values.following(1))
    }
    public func gather(indices: some BNNSGraph.Builder.OperationParameter<Int32>, axis: Int, batchDimensionCount: Int) -> BNNSGraph.Builder.Tensor<T> {
        adding("gather", ["indices": operand(indices), "axis": axis, "batch_dimension_count": batchDimensionCount])
    }
    public func gatherAlongAxis(indices: some BNNSGraph.Builder.OperationParameter<Int32>, axis: Int) -> BNNSGraph.Builder.Tensor<T> {
        adding("gather_along_axis", ["indices": operand(indices), "axis": axis])
    }
    public func gatherND(indices: some BNNSGraph.Builder.OperationParameter<Int32>, batchDimensionCount: Int) -> BNNSGraph.Builder.Tensor<T> {
        adding("gather_nd", ["indices": operand(indices), "batch_dimension_count": batchDimensionCount])
    }
    public func scatter(updates: BNNSGraph.Builder.Tensor<T>, indices: some BNNSGraph.Builder.OperationParameter<Int32>, mode: BNNSGraph.Builder.ScatterMode, axis: Int) -> BNNSGraph.Builder.Tensor<T> {
        adding("scatter", ["updates": updates, "indices": operand(indices), "mode": mode, "axis": axis])
    }
    public func scatterAlongAxis(updates: BNNSGraph.Builder.Tensor<T>, indices: some BNNSGraph.Builder.OperationParameter<Int32>, mode: BNNSGraph.Builder.ScatterMode, axis: Int) -> BNNSGraph.Builder.Tensor<T> {
        adding("scatter_along_axis", ["updates": updates, "indices": operand(indices), "mode": mode, "axis": axis])
    }
    public func scatterND(updates: BNNSGraph.Builder.Tensor<T>, indices: some BNNSGraph.Builder.OperationParameter<Int32>, mode: BNNSGraph.Builder.ScatterMode) -> BNNSGraph.Builder.Tensor<T> {
        adding("scatter_nd", ["updates": updates, "indices": operand(indices), "mode": mode])
    }
    public func reshape(to shape: [Int]) -> BNNSGraph.Builder.Tensor<T> {
        adding("reshape", ["to": shape])
    }
    public func reshape(to shape: some BNNSGraph.Builder.OperationParameter<Int32>) -> BNNSGraph.Builder.Tensor<T> {
        adding("reshape", ["to": operand(shape)])
    }
    public func transpose(axes: [Int]) -> BNNSGraph.Builder.Tensor<T> {
        adding("transpose", ["axes": axes])
    }
    public func squeeze(axis: Int) -> BNNSGraph.Builder.Tensor<T> {
        adding("squeeze", ["axis": axis])
    }
    public func unsqueeze(axis: Int) -> BNNSGraph.Builder.Tensor<T> {
        adding("unsqueeze", ["axis": axis])
    }
    public func tensorShape() -> BNNSGraph.Builder.Tensor<Int32> {
        adding("tensor_shape")
    }
    public func pad(_ type: BNNSGraph.Builder.Padding, padding: [Int]) -> BNNSGraph.Builder.Tensor<T> {
        adding("pad", ["type": type, "padding": padding])
    }
    public func linear(weight: some BNNSGraph.Builder.OperationParameter<T>) -> BNNSGraph.Builder.Tensor<T> {
        adding("linear", ["weight": operand(weight)])
    }
    public func linear(weight: some BNNSGraph.Builder.OperationParameter<T>, bias: some BNNSGraph.Builder.OperationParameter<T>) -> BNNSGraph.Builder.Tensor<T> {
        adding("linear", ["weight": operand(weight), "bias": operand(bias)])
    }
    public func matmul(transpose: Bool = false, other: some BNNSGraph.Builder.OperationParameter<T>, transposeOther: Bool = false) -> BNNSGraph.Builder.Tensor<T> {
        adding("matmul", ["transpose": transpose, "other": operand(other), "transpose_other": transposeOther])
    }
    public func matmul(transpose: Bool = false, other: some BNNSGraph.Builder.OperationParameter<T>, transposeOther: Bool = false, bias: some BNNSGraph.Builder.OperationParameter<T>) -> BNNSGraph.Builder.Tensor<T> {
        adding("matmul", ["transpose": transpose, "other": operand(other), "transpose_other": transposeOther, "bias": operand(bias)])
    }
    public func conv(weight: some BNNSGraph.Builder.OperationParameter<T>, strides: [Int], padding: BNNSGraph.Builder.ConvolutionPadding, dilations: [Int]? = nil, groupCount: Int = 1) -> BNNSGraph.Builder.Tensor<T> {
        adding("conv", ["weight": operand(weight), "strides": strides, "padding": padding, "dilations": dilations, "group_count": groupCount])
    }
    public func convTranspose(weight: some BNNSGraph.Builder.OperationParameter<T>, strides: [Int], padding: BNNSGraph.Builder.ConvolutionPadding, outputPaddingValues: [Int]? = nil, dilations: [Int]? = nil, groupCount: Int = 1) -> BNNSGraph.Builder.Tensor<T> {
        adding("conv_transpose", ["weight": operand(weight), "strides": strides, "padding": padding, "output_padding_values": outputPaddingValues, "dilations": dilations, "group_count": groupCount])
    }
    public func conv(weight: some BNNSGraph.Builder.OperationParameter<T>, strides: [Int], bias: some BNNSGraph.Builder.OperationParameter<T>, padding: BNNSGraph.Builder.ConvolutionPadding, dilations: [Int]? = nil, groupCount: Int = 1) -> BNNSGraph.Builder.Tensor<T> {
        adding("conv", ["weight": operand(weight), "strides": strides, "bias": operand(bias), "padding": padding, "dilations": dilations, "group_count": groupCount])
    }
    public func convTranspose(weight: some BNNSGraph.Builder.OperationParameter<T>, strides: [Int], bias: some BNNSGraph.Builder.OperationParameter<T>, padding: BNNSGraph.Builder.ConvolutionPadding, outputPaddingValues: [Int]? = nil, dilations: [Int]? = nil, groupCount: Int = 1) -> BNNSGraph.Builder.Tensor<T> {
        adding("conv_transpose", ["weight": operand(weight), "strides": strides, "bias": operand(bias), "padding": padding, "output_padding_values": outputPaddingValues, "dilations": dilations, "group_count": groupCount])
    }
    public func batchNorm(mean: some BNNSGraph.Builder.OperationParameter<T>, variance: some BNNSGraph.Builder.OperationParameter<T>, epsilon: Float = .ulpOfOne.squareRoot()) -> BNNSGraph.Builder.Tensor<T> {
        adding("batch_norm", ["mean": operand(mean), "variance": operand(variance), "epsilon": epsilon])
    }
    public func batchNorm(mean: some BNNSGraph.Builder.OperationParameter<T>, variance: some BNNSGraph.Builder.OperationParameter<T>, weight: some BNNSGraph.Builder.OperationParameter<T>, bias: some BNNSGraph.Builder.OperationParameter<T>, epsilon: Float = .ulpOfOne.squareRoot()) -> BNNSGraph.Builder.Tensor<T> {
        adding("batch_norm", ["mean": operand(mean), "variance": operand(variance), "weight": operand(weight), "bias": operand(bias), "epsilon": epsilon])
    }
    public func instanceNorm(epsilon: Float = .ulpOfOne.squareRoot()) -> BNNSGraph.Builder.Tensor<T> {
        adding("instance_norm", ["epsilon": epsilon])
    }
    public func instanceNorm(weight: some BNNSGraph.Builder.OperationParameter<T>, bias: some BNNSGraph.Builder.OperationParameter<T>, epsilon: Float = .ulpOfOne.squareRoot()) -> BNNSGraph.Builder.Tensor<T> {
        adding("instance_norm", ["weight": operand(weight), "bias": operand(bias), "epsilon": epsilon])
    }
    public func channelNorm(epsilon: Float = .ulpOfOne.squareRoot()) -> BNNSGraph.Builder.Tensor<T> {
        adding("channel_norm", ["epsilon": epsilon])
    }
    public func channelNorm(weight: some BNNSGraph.Builder.OperationParameter<T>, bias: some BNNSGraph.Builder.OperationParameter<T>, epsilon: Float = .ulpOfOne.squareRoot()) -> BNNSGraph.Builder.Tensor<T> {
        adding("channel_norm", ["weight": operand(weight), "bias": operand(bias), "epsilon": epsilon])
    }
    public func layerNorm(axes: [Int], epsilon: Float = .ulpOfOne.squareRoot()) -> BNNSGraph.Builder.Tensor<T> {
        adding("layer_norm", ["axes": axes, "epsilon": epsilon])
    }
    public func layerNorm(weight: some BNNSGraph.Builder.OperationParameter<T>, bias: some BNNSGraph.Builder.OperationParameter<T>, axes: [Int], epsilon: Float = .ulpOfOne.squareRoot()) -> BNNSGraph.Builder.Tensor<T> {
        adding("layer_norm", ["weight": operand(weight), "bias": operand(bias), "axes": axes, "epsilon": epsilon])
    }
    public func rmsNorm(scale: some BNNSGraph.Builder.OperationParameter<T>, epsilon: Float = .ulpOfOne.squareRoot()) -> BNNSGraph.Builder.Tensor<T> {
        adding("rms_norm", ["scale": operand(scale), "epsilon": epsilon])
    }
    public func l2Norm(epsilon: Float = .ulpOfOne.squareRoot()) -> BNNSGraph.Builder.Tensor<T> {
        adding("l2_norm", ["epsilon": epsilon])
    }
    public func rnn(initialHiddenStates: BNNSGraph.Builder.Tensor<T>, inputHiddenWeight: BNNSGraph.Builder.Tensor<T>, hiddenHiddenWeight: BNNSGraph.Builder.Tensor<T>, bias: BNNSGraph.Builder.Tensor<T>, direction: BNNSGraph.Builder.Direction, activation: BNNSGraph.Builder.Activation, outputSequence: Bool) -> (output: BNNSGraph.Builder.Tensor<T>, hiddenStates: BNNSGraph.Builder.Tensor<T>) {
        let output: Self = adding("rnn", ["initial_hidden_states": initialHiddenStates, "input_hidden_weight": inputHiddenWeight, "hidden_hidden_weight": hiddenHiddenWeight, "bias": bias, "direction": direction, "activation": activation, "output_sequence": outputSequence])
        return (output, output.following(1))
    }
    public func lstm(initialHiddenStates: BNNSGraph.Builder.Tensor<T>, initialCellStates: BNNSGraph.Builder.Tensor<T>, inputHiddenWeight: BNNSGraph.Builder.Tensor<T>, hiddenHiddenWeight: BNNSGraph.Builder.Tensor<T>, bias: BNNSGraph.Builder.Tensor<T>, direction: BNNSGraph.Builder.Direction, activation: BNNSGraph.Builder.Activation, recurrentActivation: BNNSGraph.Builder.Activation, cellActivation: BNNSGraph.Builder.Activation, outputSequence: Bool) -> (output: BNNSGraph.Builder.Tensor<T>, hiddenStates: BNNSGraph.Builder.Tensor<T>, memoryStates: BNNSGraph.Builder.Tensor<T>) {
        let output: Self = adding("lstm", ["initial_hidden_states": initialHiddenStates, "initial_cell_states": initialCellStates, "input_hidden_weight": inputHiddenWeight, "hidden_hidden_weight": hiddenHiddenWeight, "bias": bias, "direction": direction, "activation": activation, "recurrent_activation": recurrentActivation, "cell_activation": cellActivation, "output_sequence": outputSequence])
        return (output, output.following(1), output.following(2))
    }
    public func bidirectionalLSTM(initialHiddenStates: BNNSGraph.Builder.Tensor<T>, initialCellStates: BNNSGraph.Builder.Tensor<T>, inputHiddenWeight: BNNSGraph.Builder.Tensor<T>, hiddenHiddenWeight: BNNSGraph.Builder.Tensor<T>, bias: BNNSGraph.Builder.Tensor<T>, inputHiddenWeightBack: BNNSGraph.Builder.Tensor<T>, hiddenHiddenWeightBack: BNNSGraph.Builder.Tensor<T>, biasBack: BNNSGraph.Builder.Tensor<T>, activation: BNNSGraph.Builder.Activation, recurrentActivation: BNNSGraph.Builder.Activation, cellActivation: BNNSGraph.Builder.Activation, outputSequence: Bool) -> (output: BNNSGraph.Builder.Tensor<T>, hiddenStates: BNNSGraph.Builder.Tensor<T>, memoryStates: BNNSGraph.Builder.Tensor<T>) {
        let output: Self = adding("bidirectional_lstm", ["initial_hidden_states": initialHiddenStates, "initial_cell_states": initialCellStates, "input_hidden_weight": inputHiddenWeight, "hidden_hidden_weight": hiddenHiddenWeight, "bias": bias, "input_hidden_weight_back": inputHiddenWeightBack, "hidden_hidden_weight_back": hiddenHiddenWeightBack, "bias_back": biasBack, "activation": activation, "recurrent_activation": recurrentActivation, "cell_activation": cellActivation, "output_sequence": outputSequence])
        return (output, output.following(1), output.following(2))
    }
    public func gru(initialHiddenStates: BNNSGraph.Builder.Tensor<T>, inputHiddenWeight: BNNSGraph.Builder.Tensor<T>, hiddenHiddenWeight: BNNSGraph.Builder.Tensor<T>, bias: BNNSGraph.Builder.Tensor<T>, inputBias: BNNSGraph.Builder.Tensor<T>, direction: BNNSGraph.Builder.Direction, activation: BNNSGraph.Builder.Activation, recurrentActivation: BNNSGraph.Builder.Activation, applyResetGateAfterMatMul: Bool, outputSequence: Bool) -> (output: BNNSGraph.Builder.Tensor<T>, hiddenStates: BNNSGraph.Builder.Tensor<T>) {
        let output: Self = adding("gru", ["initial_hidden_states": initialHiddenStates, "input_hidden_weight": inputHiddenWeight, "hidden_hidden_weight": hiddenHiddenWeight, "bias": bias, "input_bias": inputBias, "direction": direction, "activation": activation, "recurrent_activation": recurrentActivation, "apply_reset_gate_after_matmul": applyResetGateAfterMatMul, "output_sequence": outputSequence])
        return (output, output.following(1))
    }
}

extension BNNSGraph.Builder.Tensor where T == Bool {
    public static func .& (lhs: BNNSGraph.Builder.Tensor<Bool>, rhs: BNNSGraph.Builder.Tensor<Bool>) -> BNNSGraph.Builder.Tensor<Bool> {
        lhs.adding("and", ["y": rhs])
    }
    public static func .| (lhs: BNNSGraph.Builder.Tensor<Bool>, rhs: BNNSGraph.Builder.Tensor<Bool>) -> BNNSGraph.Builder.Tensor<Bool> {
        lhs.adding("or", ["y": rhs])
    }
    public static func .^ (lhs: BNNSGraph.Builder.Tensor<Bool>, rhs: BNNSGraph.Builder.Tensor<Bool>) -> BNNSGraph.Builder.Tensor<Bool> {
        lhs.adding("xor", ["y": rhs])
    }
    public static prefix func .! (operand: BNNSGraph.Builder.Tensor<Bool>) -> BNNSGraph.Builder.Tensor<Bool> {
        operand.adding("not")
    }
}
