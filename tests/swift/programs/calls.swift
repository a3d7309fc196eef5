// Backward calls with shapes from a file of cases, printed for tests/swift/calls_in_swift.py.
import Accelerate
import Foundation

let training = BNNSFilterParameters(options: .useClientPointer, threadCount: 1, allocator: nil, deallocator: nil)

func convolution(_ name: String, _ seed: UInt32, _ n: [Int]) throws {
    let (batch, channels, height, width, outputs, kh, kw) = (n[0], n[1], n[2], n[3], n[4], n[5], n[6])
    let (sx, sy, px, py) = (n[7], n[8], n[9], n[10])
    let (ow, oh) = ((width + 2 * px - kw) / sx + 1, (height + 2 * py - kh) / sy + 1)
    let x = BNNSNDArrayDescriptor.random(.imageCHW(width, height, channels), seed, batchSize: batch)
    let w = BNNSNDArrayDescriptor.random(.convolutionWeightsOIHW(kw, kh, channels, outputs), seed + 1)
    let b = BNNSNDArrayDescriptor.random(.vector(outputs), seed + 2)
    let y = BNNSNDArrayDescriptor.empty(.imageCHW(ow, oh, outputs), batchSize: batch)
    let dy = BNNSNDArrayDescriptor.random(y.shape, seed + 3, batchSize: batch)
    let layer = BNNS.ConvolutionLayer(
        type: .standard, input: x, weights: w, output: y, bias: b, padding: .symmetric(x: px, y: py), activation: .tanh,
        groupCount: 1, stride: (x: sx, y: sy), dilationStride: (x: 1, y: 1), filterParameters: training)!
    try layer.apply(batchSize: batch, input: x, output: y)
    let (dx, dw, db) = (BNNSNDArrayDescriptor.empty(x.shape, batchSize: batch), BNNSNDArrayDescriptor.empty(w.shape), BNNSNDArrayDescriptor.empty(b.shape))
    try layer.applyBackward(
        batchSize: batch, input: x, output: y, outputGradient: dy, generatingInputGradient: dx, generatingWeightsGradient: dw,
        generatingBiasGradient: db)
    report("\(name).dx", dx, batchSize: batch)
    report("\(name).dw", dw)
    report("\(name).db", db)
}

func pooling(_ name: String, _ seed: UInt32, _ n: [Int]) throws {
    let (batch, channels, height, width, k, stride, kind) = (n[0], n[1], n[2], n[3], n[4], n[5], n[6])
    let (ow, oh) = ((width - k) / stride + 1, (height - k) / stride + 1)
    let x = BNNSNDArrayDescriptor.random(.imageCHW(width, height, channels), seed, batchSize: batch)
    let y = BNNSNDArrayDescriptor.empty(.imageCHW(ow, oh, channels), batchSize: batch)
    let indices = UnsafeMutableBufferPointer<Int>.allocate(capacity: batch * channels * oh * ow)
    defer { indices.deallocate() }
    let types: [BNNS.PoolingType] = [.max(indices: indices), .average(countIncludesPadding: true), .l2Norm, .max()]
    let layer = BNNS.PoolingLayer(
        type: types[kind], input: x, output: y, bias: nil, activation: .sigmoid, kernelSize: (width: k, height: k),
        stride: (x: stride, y: stride), padding: .zero)!
    try layer.apply(batchSize: batch, input: x, output: y)
    let dx = BNNSNDArrayDescriptor.empty(x.shape, batchSize: batch)
    try layer.applyBackward(
        batchSize: batch, input: x, output: y, outputGradient: .random(y.shape, seed + 1, batchSize: batch), generatingInputGradient: dx)
    report("\(name).dx", dx, batchSize: batch)
}

func loss(_ name: String, _ seed: UInt32, _ n: [Int]) throws {
    let (batch, classes, kind) = (n[0], n[1], n[2])
    let x = BNNSNDArrayDescriptor.random(.vector(classes), seed, batchSize: batch)
    let labels = BNNSNDArrayDescriptor.random(.vector(classes), seed + 1, batchSize: batch)
    let functions: [BNNS.LossFunction] = [.softmaxCrossEntropy(labelSmoothing: 0.1), .huber(huberDelta: 0.3), .meanSquareError, .hinge]
    let y = BNNSNDArrayDescriptor.empty(.vector(1)), layer = BNNS.LossLayer(input: x, output: y, lossFunction: functions[kind], lossReduction: .reductionMean)!
    let dx = BNNSNDArrayDescriptor.empty(.vector(classes), batchSize: batch)
    try layer.apply(batchSize: batch, input: x, labels: labels, output: y, generatingInputGradient: dx)
    report("\(name).dx", dx, batchSize: batch)
    // The C function, with the gradient of the loss.
    var again = BNNSNDArrayDescriptor.empty(.vector(classes), batchSize: batch)
    var dy = BNNSNDArrayDescriptor.random(.vector(1), seed + 2)
    let status = BNNSLossFilterApplyBackwardBatch(
        layer.bnnsFilter, batch, x.data!, classes, &again, classes, labels.data!, classes, nil, 0, &dy, 1)
    precondition(status == 0)
    report("\(name).backward", again, batchSize: batch)
}

func fused(_ name: String, _ seed: UInt32, _ n: [Int]) throws {
    let (batch, channels, height, width, kind) = (n[0], n[1], n[2], n[3], n[4])
    let shape = BNNS.Shape.imageCHW(width, height, channels)
    let a = BNNSNDArrayDescriptor.random(shape, seed, batchSize: batch), b = BNNSNDArrayDescriptor.random(shape, seed + 1, batchSize: batch)
    let (beta, gamma) = (BNNSNDArrayDescriptor.random(.vector(channels), seed + 2), BNNSNDArrayDescriptor.random(.vector(channels), seed + 3))
    let functions: [BNNS.ArithmeticBinaryFunction] = [.add, .subtract, .multiply]
    let layer = BNNS.FusedParametersLayer(
        inputA: a, inputB: b, output: BNNSNDArrayDescriptor(dataType: .float, shape: shape),
        fusedLayerParameters: [
            BNNS.FusedBinaryArithmeticParameters(
                inputADescriptorType: .sample, inputBDescriptorType: .sample, outputDescriptorType: .sample, function: functions[kind]),
            BNNS.FusedNormalizationParameters(
                type: .batch(movingMean: nil, movingVariance: nil), beta: beta, gamma: gamma, epsilon: 1e-2, activation: .tanh),
        ], filterParameters: training)!
    func empty() -> BNNSNDArrayDescriptor { .empty(shape, batchSize: batch) }
    let (y, da, db) = (empty(), empty(), empty())
    let gradients = [BNNSNDArrayDescriptor.empty(.vector(channels)), .empty(.vector(channels))]
    try layer.apply(batchSize: batch, inputA: a, inputB: b, output: y, for: .training)
    try layer.applyBackward(
        batchSize: batch, inputA: a, inputB: b, output: y, outputGradient: .random(shape, seed + 4, batchSize: batch),
        generatingInputAGradient: da, generatingInputBGradient: db, generatingParameterGradients: gradients)
    report("\(name).da", da, batchSize: batch)
    report("\(name).db", db, batchSize: batch)
    report("\(name).dbeta", gradients[0])
    report("\(name).dgamma", gradients[1])
}

func attention(_ name: String, _ seed: UInt32, _ n: [Int]) throws {
    let (batch, t, s, d, k, h) = (n[0], n[1], n[2], n[3], n[4], n[5])
    typealias Projection = BNNSMHAProjectionParameters
    func descriptor(_ shape: BNNS.Shape, _ seed: UInt32?) -> BNNSNDArrayDescriptor { seed.map { .random(shape, $0) } ?? .empty(shape) }
    func projection(_ rows: Int, _ seed: UInt32?, output: Bool = false) -> Projection {
        var p = Projection()
        p.target_desc = BNNSNDArrayDescriptor(dataType: .float, shape: [rows, d])
        p.weights = descriptor(output ? [h * k, d] : [d, k, h], seed)
        p.bias = descriptor(output ? .vector(d) : [k, h], seed.map { $0 + 1 })
        return p
    }
    var layer = BNNSLayerParametersMultiheadAttention()
    (layer.query, layer.key) = (projection(t, seed), projection(s, seed + 2))
    (layer.value, layer.output) = (projection(s, seed + 4), projection(t, seed + 6, output: true))
    let filter = BNNSFilterCreateLayerMultiheadAttention(&layer, nil)
    defer { BNNSFilterDestroy(filter) }
    let (q, key, v) = (numbers(batch * t * d, seed + 8), numbers(batch * s * d, seed + 9), numbers(batch * s * d, seed + 10))
    var (y, bytes) = ([Float](repeating: 0, count: batch * t * d), 0)
    precondition(BNNSApplyMultiheadAttention(filter, batch, q, t * d, key, s * d, nil, 0, v, s * d, &y, t * d, nil, &bytes, nil, nil, nil) == 0)
    var cache = [UInt8](repeating: 0, count: bytes)
    precondition(BNNSApplyMultiheadAttention(filter, batch, q, t * d, key, s * d, nil, 0, v, s * d, &y, t * d, nil, &bytes, &cache, nil, nil) == 0)
    func gradient(_ rows: Int, _ seed: UInt32? = nil, output: Bool = false) -> Projection {
        var p = projection(rows, nil, output: output)
        p.target_desc = seed.map { .random([rows, d], $0, batchSize: batch) } ?? .empty([rows, d], batchSize: batch)
        p.target_desc.stride.2 = rows * d
        return p
    }
    var (dq, dk, dv, dout) = (gradient(t), gradient(s), gradient(s), gradient(t, seed + 11, output: true))
    let status = BNNSApplyMultiheadAttentionBackward(
        filter, batch, q, t * d, &dq, key, s * d, nil, 0, &dk, v, s * d, &dv, nil, nil, nil, y, t * d, &dout, bytes, &cache, nil, nil)
    precondition(status == 0)
    for (part, p) in [("q", dq), ("k", dk), ("v", dv)] {
        report("\(name).\(part)", p.target_desc, batchSize: batch)
        report("\(name).\(part).w", p.weights)
        report("\(name).\(part).b", p.bias)
    }
    report("\(name).o.w", dout.weights)
    report("\(name).o.b", dout.bias)
}

@main
enum Program {
    static func main() throws {
        let kinds = ["convolution": convolution, "pooling": pooling, "loss": loss, "fused": fused, "attention": attention]
        for line in try String(contentsOfFile: CommandLine.arguments[1], encoding: .utf8).split(separator: "\n") {
            let words = line.split(separator: " ")
            try kinds[String(words[0])]!(String(words[1]), UInt32(words[2])!, words[3...].map { Int($0)! })
        }
    }
}
