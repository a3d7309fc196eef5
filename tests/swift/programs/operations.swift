// Every operation of a tensor of a graph, by the names of tests/builder_cases.py, which has formulas for them in NumPy.
//
//     operations FOLDER    reads FOLDER/NAME.x and FOLDER/y (Float, 2 x 3 x 5) and prints a line for each operation
import Accelerate
import Foundation

typealias Tensor = BNNSGraph.Builder.Tensor<Float>

let y0: [Float] = read("y")

func read(_ name: String) -> [Float] {
    let data = try! Data(contentsOf: URL(fileURLWithPath: "\(CommandLine.arguments[1])/\(name)"))
    return data.withUnsafeBytes { Array($0.bindMemory(to: Float.self)) }
}

/// An operation of x and y.
typealias Operation = (BNNSGraph.Builder, Tensor, Tensor) -> any BNNSGraph.TensorDescriptor

let elementwise: [(String, Operation)] = [
    ("abs", { b, x, y in x.abs() }), ("acos", { b, x, y in x.acos() }), ("acosh", { b, x, y in x.acosh() }),
    ("asin", { b, x, y in x.asin() }), ("asinh", { b, x, y in x.asinh() }), ("atan", { b, x, y in x.atan() }),
    ("atanh", { b, x, y in x.atanh() }), ("ceil", { b, x, y in x.ceil() }), ("cos", { b, x, y in x.cos() }),
    ("cosh", { b, x, y in x.cosh() }), ("exp", { b, x, y in x.exp() }), ("exp2", { b, x, y in x.exp2() }),
    ("floor", { b, x, y in x.floor() }), ("round", { b, x, y in x.round() }), ("sin", { b, x, y in x.sin() }),
    ("sinh", { b, x, y in x.sinh() }), ("sqrt", { b, x, y in x.sqrt() }), ("tan", { b, x, y in x.tan() }),
    ("tanh", { b, x, y in x.tanh() }), ("erf", { b, x, y in x.erf() }), ("log", { b, x, y in x.log() }),
    ("reciprocal", { b, x, y in x.reciprocal() }), ("rsqrt", { b, x, y in x.rsqrt(epsilon: 0.5) }),
    ("clip", { b, x, y in x.clip(to: -1...0.5) }), ("threshold", { b, x, y in x.threshold(to: 0.25) }),
    ("cast", { b, x, y in x.cast(to: Int32.self) }), ("cumulative_sum", { b, x, y in x.cumulativeSum(axis: 1) }),
    ("relu", { b, x, y in x.relu() }), ("relu6", { b, x, y in (x * Float(5)).relu6() }),
    ("leaky_relu", { b, x, y in x.leakyReLU(alpha: 0.1) }), ("clamped_relu", { b, x, y in x.clampedReLU(alpha: 0.1, beta: 1) }),
    ("thresholded_relu", { b, x, y in x.thresholdedReLU(alpha: 0.5) }), ("elu", { b, x, y in x.elu(alpha: 0.7) }),
    ("prelu", { b, x, y in x.prelu(alpha: [0.1, 0.2, 0.3]) }), ("sigmoid", { b, x, y in x.sigmoid() }),
    ("hard_sigmoid", { b, x, y in x.hardSigmoid(alpha: 0.4, beta: 0.3) }), ("hard_swish", { b, x, y in x.hardSwish() }),
    ("silu", { b, x, y in x.silu() }), ("softplus", { b, x, y in x.softplus(alpha: 2) }), ("softsign", { b, x, y in x.softsign() }),
    ("scaled_tanh", { b, x, y in x.scaledTanh(alpha: 1.5, beta: 0.5) }), ("gelu", { b, x, y in x.gelu() }),
    ("gelu_tanh_approximation", { b, x, y in x.geluTanhApproximation() }),
    ("gelu_sigmoid_approximation", { b, x, y in x.geluSigmoidApproximation() }),
    ("softmax", { b, x, y in x.softmax(axis: -1) }), ("log_softmax", { b, x, y in x.logSoftmax(axis: -1) }),
    ("fma", { b, x, y in x.fma(y: y, z: Float(2)) }), ("max", { b, x, y in x.max(y: Float(0.5)) }), ("min", { b, x, y in x.min(y: y) }),
    ("pow", { b, x, y in x.abs().pow(y: y) }), ("mod", { b, x, y in x.abs() % Float(0.75) }),
    (
        "arithmetic",
        { b, x, y in
            let quotient = (Float(1) + x) * y / (x * x + Float(1))
            return Float(2) - quotient - Float(3) * x
        }
    ),
    ("quotient", { b, x, y in Float(1) / (x * x + Float(1)) - ([1, 2, 3, 4, 5] as [Float]) }),
    (
        "comparisons",
        { b, x, y in
            let bounds = [0, 1, -1, -1.5].map { b.constant(value: Float($0)) }
            let outside = (x .< bounds[0]) .| (x .>= bounds[1])
            return outside .^ ((x .> bounds[2]) .& .!(x .<= bounds[3]))
        }
    ),
    ("equality", { b, x, y in (x.round() .== b.constant(value: 0)) .& (x.ceil() .!= b.constant(value: 1)) }),
]

let shapes: [(String, Operation)] = [
    ("sum", { b, x, y in x.sum(axes: [1], keepDimensions: true) }), ("mean", { b, x, y in x.mean(axes: [0, 2], keepDimensions: false) }),
    ("product", { b, x, y in x.product(axes: [2], keepDimensions: false) }),
    ("minimum", { b, x, y in x.minimum(axes: [2], keepDimensions: false) }),
    ("maximum", { b, x, y in x.maximum(axes: [2], keepDimensions: false) }),
    ("l1_norm", { b, x, y in x.l1Norm(axes: [1], keepDimensions: false) }),
    ("l2_norm", { b, x, y in x.l2Norm(axes: [1], keepDimensions: false) }),
    ("log_sum", { b, x, y in x.logSum(axes: [1], keepDimensions: false) }),
    ("log_sum_exp", { b, x, y in x.logSumExp(axes: [1], keepDimensions: false) }),
    ("sum_of_squares", { b, x, y in x.sumOfSquares(axes: [1], keepDimensions: false) }),
    ("arg_max", { b, x, y in x.argMax(axis: 2, keepDimension: false) }), ("arg_min", { b, x, y in x.argMin(axis: 2, keepDimension: true) }),
    ("arg_sort", { b, x, y in x.argSort(axis: 2, sortOrder: .ascending) }),
    ("top_k", { b, x, y in x.topK(2, axis: 2, findLargest: true).values }),
    ("gather", { b, x, y in x.gather(indices: [2, 0] as [Int32], axis: 1, batchDimensionCount: 0) }),
    (
        "gather_along_axis",
        { b, x, y in
            x.gatherAlongAxis(indices: b.constant(values: [Int32](repeating: 1, count: 10), shape: [2, 1, 5]), axis: 1)
        }
    ),
    (
        "gather_nd",
        { b, x, y in
            x.gatherND(indices: b.constant(values: [0, 1, 1, 2] as [Int32], shape: [2, 2]), batchDimensionCount: 0)
        }
    ),
    ("scatter", { b, x, y in x.scatter(updates: ones(b, [2, 1, 5]), indices: [1] as [Int32], mode: .update, axis: 1) }),
    (
        "scatter_along_axis",
        { b, x, y in
            let indices = b.constant(values: [Int32](repeating: 1, count: 10), shape: [2, 1, 5])
            return x.scatterAlongAxis(updates: ones(b, [2, 1, 5]), indices: indices, mode: .add, axis: 1)
        }
    ),
    (
        "scatter_nd",
        { b, x, y in
            x.scatterND(updates: ones(b, [1, 3, 5]), indices: b.constant(values: [1] as [Int32], shape: [1, 1]), mode: .multiply)
        }
    ),
    ("reshape", { b, x, y in x.reshape(to: [5, -1]) }), ("transpose", { b, x, y in x.transpose(axes: [2, 0, 1]) }),
    ("squeeze", { b, x, y in x[..<1].squeeze(axis: 0) }), ("unsqueeze", { b, x, y in x.unsqueeze(axis: 1) }),
    ("tensor_shape", { b, x, y in x.tensorShape() }),
    ("pad", { b, x, y in x.pad(.constant(value: 7), padding: [0, 0, 1, 0, 0, 2]) }),
    ("pad reflection", { b, x, y in x.pad(.reflection, padding: [0, 0, 0, 0, 2, 1]) }),
    ("index from the end", { b, x, y in x[BNNSGraph.Builder.SliceRange.fillAll, -1] }),
    ("linear", { b, x, y in x.linear(weight: y[0], bias: [1, 2, 3] as [Float]) }),
    ("matmul", { b, x, y in x.matmul(other: y, transposeOther: true, bias: Float(1)) }),
    (
        "batch_norm",
        { b, x, y in
            let weight = [1, 2, 3] as [Float]
            return x.batchNorm(mean: weight, variance: [4, 5, 6] as [Float], weight: weight, bias: [0, 1, 0] as [Float], epsilon: 1e-3)
        }
    ),
    ("instance_norm", { b, x, y in x.instanceNorm(epsilon: 1e-3) }),
    (
        "layer_norm",
        { b, x, y in
            x.layerNorm(weight: [1, 2, 3, 4, 5] as [Float], bias: [1, 1, 1, 1, 1] as [Float], axes: [2], epsilon: 1e-3)
        }
    ),
    ("channel_norm", { b, x, y in x.channelNorm(weight: [1, 2, 3] as [Float], bias: [1, 0, 1] as [Float], epsilon: 1e-3) }),
    ("rms_norm", { b, x, y in x.rmsNorm(scale: [1, 2, 3, 4, 5] as [Float], epsilon: 1e-3) }),
    ("l2_norm of all", { b, x, y in x.l2Norm(epsilon: 1e-3) }),
    ("pooling", { b, x, y in x.pooling(.max, kernelSize: [3], strides: [2], padding: .valid, ceilingMode: .floor) }),
    (
        "average",
        { b, x, y in
            x.pooling(
                .average(includePadding: false), kernelSize: [2], strides: [2], padding: .custom(padding: [1, 0]), ceilingMode: .floor)
        }
    ),
    (
        "conv",
        { b, x, y in
            let weight = b.constant(values: stride(from: 0, to: 30, by: 5).map { y0[$0] }, shape: [2, 3, 1])
            return x.conv(weight: weight, strides: [2], bias: [1, 2] as [Float], padding: .valid)
        }
    ),
    (
        "conv_transpose",
        { b, x, y in
            let weight = b.constant(values: stride(from: 0, to: 15, by: 5).map { y0[$0] }, shape: [3, 1, 1])
            return x.convTranspose(weight: weight, strides: [1], padding: .valid, outputPaddingValues: [0])
        }
    ),
]

func ones(_ builder: BNNSGraph.Builder, _ shape: [Int]) -> Tensor {
    builder.constant(values: [Float](repeating: 1, count: shape.reduce(1, *)), shape: shape)
}

for (name, operation) in elementwise + shapes {
    do {
        let context = try BNNSGraph.makeContext { builder in
            let x = builder.argument(name: "x", dataType: Float.self, shape: [2, 3, 5])
            return [operation(builder, x, builder.constant(values: y0, shape: [2, 3, 5]))]
        }
        let x = BNNSTensor.allocate(initializingFrom: read("\(name).x"), shape: [2, 3, 5], stride: [15, 5, 1])
        var arguments = [BNNSTensor(), x]
        try context.executeFunction(arguments: &arguments)
        let found = arguments[0]
        let numbers: [Float]
        switch found.data_type {
        case BNNSDataTypeInt32: numbers = found.makeArray(of: Int32.self).map(Float.init)
        case BNNSDataTypeBoolean: numbers = found.makeArray(of: Bool.self).map { $0 ? 1 : 0 }
        default: numbers = found.makeArray(of: Float.self)
        }
        print(name, numbers.map { String($0.bitPattern) }.joined(separator: " "), separator: ": ")
        x.deallocate()
    } catch {
        print(name, error, separator: ": ")
    }
}
