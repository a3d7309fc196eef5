// Layers, arrays and graphs made and released many times: the memory of the process does not grow.
import Accelerate
import Foundation

/// Kilobytes of memory that the process uses.
func residentMemory() -> Int {
    let status = (try? String(contentsOfFile: "/proc/self/status", encoding: .utf8)) ?? ""
    let line = status.split(separator: "\n").first { $0.hasPrefix("VmRSS") }
    return line.flatMap { Int($0.filter(\.isNumber)) } ?? 0
}

func once(_ step: Int) throws {
    let shape = BNNS.Shape.imageCHW(8, 8, 4)
    let x = BNNSNDArrayDescriptor.random(shape, UInt32(step), batchSize: 2), y = BNNSNDArrayDescriptor.empty(shape, batchSize: 2)
    let w = BNNSNDArrayDescriptor.random(.convolutionWeightsOIHW(3, 3, 4, 4), 1), v = BNNSNDArrayDescriptor.random(.vector(4), 2)
    defer { for array in [x, y, w, v] { array.deallocate() } }
    let layers: [BNNS.Layer?] = [
        BNNS.ConvolutionLayer(
            type: .standard, input: x, weights: w, output: y, bias: v, padding: .symmetric(x: 1, y: 1), activation: .tanh, groupCount: 1,
            stride: (1, 1), dilationStride: (1, 1)),
        BNNS.FusedParametersLayer(
            input: x, output: y,
            fusedLayerParameters: [
                BNNS.FusedConvolutionParameters(
                    type: .standard, weights: w, bias: v, stride: (1, 1), dilationStride: (1, 1), groupSize: 1, padding: .symmetric(x: 1, y: 1)),
                BNNS.FusedNormalizationParameters(
                    type: .batch(movingMean: nil, movingVariance: nil), beta: v, gamma: v, epsilon: 1e-3, activation: .identity),
            ]),
        BNNS.UnaryArithmeticLayer(
            input: x, inputDescriptorType: .sample, output: y, outputDescriptorType: .sample, function: .sin),
        BNNS.LossLayer(input: v, output: v, lossFunction: .meanSquareError, lossReduction: .none),
        BNNS.ActivationLayer(function: .softmax, axes: [99], input: x, output: y),
    ]
    precondition(layers.dropLast().allSatisfy { $0 != nil } && layers.last! == nil)
    try (layers[0] as! BNNS.ConvolutionLayer).apply(batchSize: 2, input: x, output: y)
    let generator = BNNS.RandomGenerator(method: .aesCtr, seed: 1)!
    generator.state = generator.state
    let points = BNNS.NearestNeighbors(capacity: 4, dimensionCount: 2, neighborCount: 1, dataType: .float)
    points.append(samples: v)
}

/// A graph with a constant of 256 KB, and one that is refused.
func graph(_ step: Int) throws {
    let values = [Float](repeating: Float(step), count: 65_536)
    let context = try BNNSGraph.makeContext { builder in
        let x = builder.argument(name: "x", dataType: Float.self, shape: [-1])
        return [builder.constant(values: values).mean(axes: [0], keepDimensions: true) + x]
    }
    var arguments = [BNNSTensor(), BNNSTensor.allocate(repeating: Float(1), shape: [4], stride: [1])]
    defer { arguments[1].deallocate() }
    try context.executeFunction(arguments: &arguments)
    precondition(arguments[0].makeArray(of: Float.self) == [Float](repeating: Float(step) + 1, count: 4))
    let refused = try? BNNSGraph.makeContext { builder in
        [builder.constant(values: values).matmul(other: builder.constant(values: values, shape: [2, 32_768]))]
    }
    precondition(refused == nil)
}

@main
enum Program {
    static func main() throws {
        let rounds = Int(CommandLine.arguments[1])!
        print("grew", try growth(rounds, once), try growth(rounds / 10, graph))
    }

    /// Kilobytes that rounds of something add, after some to begin with.
    static func growth(_ rounds: Int, _ body: (Int) throws -> Void) rethrows -> Int {
        for step in 0..<rounds / 5 { try body(step) }
        let before = residentMemory()
        for step in 0..<rounds { try body(step) }
        return residentMemory() - before
    }
}
