// A network of a fused convolution and batch normalization, pooling and a fully connected layer learns to read digits of 5 x 7 dots
// that lie anywhere in a picture, with some dots wrong. The last line is the accuracy on pictures that it has not seen.
//
//     swiftc -O -parse-as-library digits.swift $(openbnns swift-flags) && ./digits
import Accelerate

/// Dots of the digits, row by row, the leftmost in the highest bit.
let glyphs: [[UInt8]] = [
    [14, 17, 19, 21, 25, 17, 14], [4, 12, 4, 4, 4, 4, 14], [14, 17, 1, 2, 4, 8, 31], [31, 2, 4, 2, 1, 17, 14], [2, 6, 10, 18, 31, 2, 2],
    [31, 16, 30, 1, 1, 17, 14], [6, 8, 16, 30, 17, 17, 14], [31, 1, 2, 4, 8, 8, 8], [14, 17, 17, 14, 17, 17, 14], [14, 17, 17, 15, 1, 2, 12],
]

/// Pictures with their labels.
struct Pictures {
    static let (size, classes) = (12, 10)
    var random = Numbers(state: 7)

    /// A generator whose numbers are the same on every run.
    struct Numbers: RandomNumberGenerator {
        var state: UInt64

        mutating func next() -> UInt64 {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return (state >> 33) ^ (state << 20)
        }
    }

    mutating func draw(_ count: Int, into images: BNNSNDArrayDescriptor, _ labels: BNNSNDArrayDescriptor) -> [Int] {
        let (pixels, area) = (images.data!.assumingMemoryBound(to: Float.self), Self.size * Self.size)
        let hot = labels.data!.assumingMemoryBound(to: Float.self)
        vDSP_vclr(pixels, 1, vDSP_Length(count * area))
        vDSP_vclr(hot, 1, vDSP_Length(count * Self.classes))
        return (0..<count).map { sample in
            let digit = Int.random(in: 0..<Self.classes, using: &random)
            let (left, top) = (Int.random(in: 0...Self.size - 5, using: &random), Int.random(in: 0...Self.size - 7, using: &random))
            for row in 0..<7 {
                for column in 0..<5 where glyphs[digit][row] >> (4 - column) & 1 == 1 {
                    pixels[sample * area + (top + row) * Self.size + left + column] = 1
                }
            }
            for _ in 0..<2 { pixels[sample * area + Int.random(in: 0..<area, using: &random)] = 0.5 }
            hot[sample * Self.classes + digit] = 1
            return digit
        }
    }
}

@main
enum Program {
    static func main() throws {
        let (batch, features) = (32, 16)
        let (size, half) = (Pictures.size, Pictures.size / 2)
        var pictures = Pictures()
        let keeping = BNNSFilterParameters(options: .useClientPointer, threadCount: 1, allocator: nil, deallocator: nil)
        let generator = BNNS.RandomGenerator(method: .aesCtr, seed: 5)!
        typealias Array = BNNSNDArrayDescriptor
        func zeros(_ shape: BNNS.Shape, _ count: Int = 1) -> Array { .allocate(repeating: Float(0), shape: shape, batchSize: count) }
        func ones(_ shape: BNNS.Shape) -> Array { .allocate(repeating: Float(1), shape: shape) }
        func random(_ shape: BNNS.Shape, _ bound: Float) -> Array {
            .allocate(randomUniformUsing: generator, range: -bound...bound, shape: shape)!
        }

        let (images, labels) = (zeros(.imageCHW(size, size, 1), batch), zeros(.vector(Pictures.classes), batch))
        let (normalized, pooled) = (zeros(.imageCHW(size, size, features), batch), zeros(.imageCHW(half, half, features), batch))
        let (scores, loss) = (zeros(.vector(Pictures.classes), batch), zeros(.vector(1)))
        let kernels = random(.convolutionWeightsOIHW(5, 5, 1, features), 0.2), bias = zeros(.vector(features))
        let (beta, gamma) = (zeros(.vector(features)), ones(.vector(features)))
        let dense = random(.matrixRowMajor(half * half * features, Pictures.classes), 0.05)

        let convolution = BNNS.FusedParametersLayer(
            input: images, output: normalized,
            fusedLayerParameters: [
                BNNS.FusedConvolutionParameters(
                    type: .standard, weights: kernels, bias: bias, stride: (1, 1), dilationStride: (1, 1), groupSize: 1,
                    padding: .symmetric(x: 2, y: 2)),
                BNNS.FusedNormalizationParameters(
                    type: .batch(movingMean: zeros(.vector(features)), movingVariance: ones(.vector(features))), beta: beta, gamma: gamma,
                    momentum: 0.9, epsilon: 1e-5, activation: .rectifiedLinear),
            ], filterParameters: keeping)!
        let pooling = BNNS.PoolingLayer(
            type: .max(xDilationStride: 1, yDilationStride: 1), input: normalized, output: pooled, bias: nil, activation: .identity,
            kernelSize: (2, 2), stride: (2, 2), padding: .zero, filterParameters: keeping)!
        let classifier = BNNS.FullyConnectedLayer(
            input: Array(dataType: .float, shape: .vector(half * half * features)), output: scores, weights: dense, bias: nil,
            activation: .identity, filterParameters: keeping)!
        let lossLayer = BNNS.LossLayer(
            input: scores, output: loss, lossFunction: .softmaxCrossEntropy(labelSmoothing: 0), lossReduction: .reductionMean,
            filterParameters: keeping)!

        let (dScores, dPooled) = (zeros(scores.shape, batch), zeros(.vector(half * half * features), batch))
        let (dNormalized, dImages) = (zeros(normalized.shape, batch), zeros(images.shape, batch))
        let parameters = [kernels, bias, beta, gamma, dense], gradients = parameters.map { zeros($0.shape) }
        let accumulators = (parameters + parameters).map { zeros($0.shape) }
        var adam = BNNS.AdamOptimizer(
            learningRate: 0.01, timeStep: 1, gradientScale: 1, regularizationScale: 0.0001,
            gradientClipping: .byValue(bounds: -0.5...0.5), regularizationFunction: BNNSOptimizerRegularizationL2)

        func forward(for phase: BNNS.LearningPhase) throws {
            try convolution.apply(batchSize: batch, input: images, output: normalized, for: phase)
            try pooling.apply(batchSize: batch, input: normalized, output: pooled)
            try classifier.apply(batchSize: batch, input: pooled, output: scores)
        }

        for step in 1...300 {
            _ = pictures.draw(batch, into: images, labels)
            try forward(for: .training)
            try lossLayer.apply(batchSize: batch, input: scores, labels: labels, output: loss, generatingInputGradient: dScores)
            try classifier.applyBackward(
                batchSize: batch, input: pooled, output: scores, outputGradient: dScores, generatingInputGradient: dPooled,
                generatingWeightsGradient: gradients[4])
            try pooling.applyBackward(
                batchSize: batch, input: normalized, output: pooled, outputGradient: dPooled, generatingInputGradient: dNormalized)
            try convolution.applyBackward(
                batchSize: batch, input: images, output: normalized, outputGradient: dNormalized, generatingInputGradient: dImages,
                generatingParameterGradients: Swift.Array(gradients[..<4]))
            try adam.step(parameters: parameters, gradients: gradients, accumulators: accumulators, filterParameters: keeping)
            adam.timeStep += 1
            if step % 50 == 0 { print("step \(step): loss \(loss.makeArray(of: Float.self)![0])") }
        }

        var (right, total) = (0, 0)
        for _ in 0..<40 {
            let digits = pictures.draw(batch, into: images, labels)
            try forward(for: .inference)
            let values = scores.makeArray(of: Float.self, batchSize: batch)!
            for (sample, digit) in digits.enumerated() {
                let row = values[sample * Pictures.classes..<(sample + 1) * Pictures.classes]
                right += Int(vDSP.indexOfMaximum(row).0) == digit ? 1 : 0
                total += 1
            }
        }
        for array in [images, labels, normalized, pooled, scores, loss, dScores, dPooled, dNormalized, dImages] { array.deallocate() }
        for array in parameters + gradients + accumulators { array.deallocate() }
        print("accuracy \(Double(right) / Double(total))")
    }
}
