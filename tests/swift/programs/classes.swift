// Every class and function of the overlay on random numbers, printed for tests/swift/classes_in_swift.py.
import Accelerate

let training = BNNSFilterParameters(options: .useClientPointer, threadCount: 1, allocator: nil, deallocator: nil)

func activations() throws {
    let (x, dy) = (BNNSNDArrayDescriptor.random(.vector(7), 1, batchSize: 3), BNNSNDArrayDescriptor.random(.vector(7), 2, batchSize: 3))
    let functions: [(String, BNNS.ActivationFunction)] = [
        ("identity", .identity), ("rectified_linear", .rectifiedLinear), ("leaky_rectified_linear", .leakyRectifiedLinear(alpha: 0.3)),
        ("sigmoid", .sigmoid), ("log_sigmoid", .logSigmoid), ("tanh", .tanh), ("scaled_tanh", .scaledTanh(alpha: 1.5, beta: 0.5)),
        ("abs", .abs), ("linear", .linear(alpha: 2.5)), ("clamp", .clamp(bounds: -0.25...0.5)), ("softmax", .softmax),
        ("gelu_approximation", .geluApproximation(alpha: 0.8, beta: 0.04)), ("gelu_approximation2", .geluApproximation2(alpha: 1.7, beta: 0.1)),
        ("hard_sigmoid", .hardSigmoid(alpha: 0.2, beta: 0.5)), ("softplus", .softplus(alpha: 1.2, beta: 0.7)), ("softsign", .softsign),
        ("elu", .elu(alpha: 0.9)), ("selu", .selu), ("celu", .celu(alpha: 1.1)),
        ("clamped_leaky_rectified_linear", .clampedLeakyRectifiedLinear(alpha: 0.1, beta: 0.6)),
        ("linear_with_bias", .linearWithBias(alpha: 2, beta: 0.3)), ("log_softmax", .logSoftmax), ("hard_shrink", .hardShrink(alpha: 0.4)),
        ("soft_shrink", .softShrink(alpha: 0.2)), ("tanh_shrink", .tanhShrink), ("threshold", .threshold(alpha: 0.1, beta: 0.2)),
        ("hard_swish", .hardSwish(alpha: 0.15, beta: 0.5)), ("silu", .silu),
    ]
    for (name, function) in functions {
        let layer = BNNS.ActivationLayer(function: function, input: x, output: x)!
        let (y, dx) = (BNNSNDArrayDescriptor.empty(.vector(7), batchSize: 3), BNNSNDArrayDescriptor.empty(.vector(7), batchSize: 3))
        try layer.apply(batchSize: 3, input: x, output: y)
        try layer.applyBackward(batchSize: 3, input: x, output: y, outputGradient: dy, generatingInputGradient: dx)
        report("activation.\(name).dx", dx, batchSize: 3)
        let direct = BNNSNDArrayDescriptor.empty(.vector(7), batchSize: 3)
        try BNNS.applyActivation(activation: function, input: x, output: direct, batchSize: 3)
        precondition(direct.makeArray(of: Float.self, batchSize: 3)! == y.makeArray(of: Float.self, batchSize: 3)!, name)
        report("activation.\(name)", y, batchSize: 3)
        direct.deallocate()
    }
    // Random numbers of their own: only that they run.
    for function in [BNNS.ActivationFunction.gumbel(alpha: 1, beta: 1), .gumbelMax(alpha: 1, beta: 1)] {
        precondition(function.bnnsActivation.alpha == 1)
    }
    let image = BNNSNDArrayDescriptor.random(.imageCHW(5, 4, 3), 3)
    let y = BNNSNDArrayDescriptor.empty(.imageCHW(5, 4, 3))
    let layer = BNNS.ActivationLayer(function: .softmax, axes: [1], input: image, output: image)!
    try layer.apply(batchSize: 1, input: image, output: y)
    report("activation.axes", y)
    let direct = BNNSNDArrayDescriptor.empty(.imageCHW(5, 4, 3))
    try BNNS.applyActivation(activation: .softmax, axes: [2], input: image, output: direct, batchSize: 1)
    report("activation.direct_axes", direct)
    precondition(BNNS.ActivationLayer(function: .softmax, axes: [77], input: image, output: image) == nil)
}

func arithmetic() throws {
    let shape = BNNS.Shape.tensor3DFirstMajor(2, 3, 4)
    let a = BNNSNDArrayDescriptor.random(shape, 4, batchSize: 2), b = BNNSNDArrayDescriptor.random(shape, 5, batchSize: 2)
    let c = BNNSNDArrayDescriptor.random(shape, 6, batchSize: 2), dy = BNNSNDArrayDescriptor.random(shape, 7, batchSize: 2)
    func empty() -> BNNSNDArrayDescriptor { .empty(shape, batchSize: 2) }
    for function in [BNNS.ArithmeticUnaryFunction.sin, .square, .exp, .erf] {
        let layer = BNNS.UnaryArithmeticLayer(
            input: a, inputDescriptorType: .sample, output: a, outputDescriptorType: .sample, function: function, activation: .tanh)!
        let (y, da) = (empty(), empty())
        try layer.apply(batchSize: 2, input: a, output: y)
        try layer.applyBackward(batchSize: 2, input: a, output: y, outputGradient: dy, generatingInputGradient: da)
        report("unary.\(function)", y, batchSize: 2)
        report("unary.\(function).da", da, batchSize: 2)
    }
    for function in [BNNS.ArithmeticBinaryFunction.add, .subtract, .multiply, .max, .min, .multiplyNoNaN, .divideNoNaN] {
        let layer = BNNS.BinaryArithmeticLayer(
            inputA: a, inputADescriptorType: .sample, inputB: b, inputBDescriptorType: .sample, output: a,
            outputDescriptorType: .sample, function: function)!
        let (y, da, db) = (empty(), empty(), empty())
        try layer.apply(batchSize: 2, inputA: a, inputB: b, output: y)
        try layer.applyBackward(
            batchSize: 2, inputA: a, inputB: b, output: y, outputGradient: dy, generatingInputAGradient: da, generatingInputBGradient: db)
        report("binary.\(function)", y, batchSize: 2)
        report("binary.\(function).da", da, batchSize: 2)
        report("binary.\(function).db", db, batchSize: 2)
    }
    let layer = BNNS.TernaryArithmeticLayer(
        inputA: a, inputADescriptorType: .sample, inputB: b, inputBDescriptorType: .sample, inputC: c, inputCDescriptorType: .sample,
        output: a, outputDescriptorType: .sample, function: .multiplyAdd)!
    let (y, da, db, dc) = (empty(), empty(), empty(), empty())
    try layer.apply(batchSize: 2, inputA: a, inputB: b, inputC: c, output: y)
    try layer.applyBackward(
        batchSize: 2, inputA: a, inputB: b, inputC: c, output: y, outputGradient: dy, generatingInputAGradient: da,
        generatingInputBGradient: db, generatingInputCGradient: dc)
    report("ternary", y, batchSize: 2)
    report("ternary.da", da, batchSize: 2)
    report("ternary.db", db, batchSize: 2)
    report("ternary.dc", dc, batchSize: 2)
}

func convolutions() throws {
    let x = BNNSNDArrayDescriptor.random(.imageCHW(7, 6, 4), 8, batchSize: 3)
    let w = BNNSNDArrayDescriptor.random(.convolutionWeightsOIHW(3, 2, 2, 6), 9), b = BNNSNDArrayDescriptor.random(.vector(6), 10)
    let y = BNNSNDArrayDescriptor.empty(.imageCHW(3, 6, 6), batchSize: 3), dy = BNNSNDArrayDescriptor.random(.imageCHW(3, 6, 6), 11, batchSize: 3)
    let layer = BNNS.ConvolutionLayer(
        type: .standard, input: x, weights: w, output: y, bias: b, padding: .asymmetric(left: 0, right: 1, up: 1, down: 0),
        activation: .sigmoid, groupCount: 2, stride: (x: 2, y: 1), dilationStride: (x: 1, y: 1), filterParameters: training)!
    try layer.apply(batchSize: 3, input: x, output: y)
    let (dx, dw, db) = (BNNSNDArrayDescriptor.empty(x.shape, batchSize: 3), BNNSNDArrayDescriptor.empty(w.shape), BNNSNDArrayDescriptor.empty(b.shape))
    try layer.applyBackward(
        batchSize: 3, input: x, output: y, outputGradient: dy, generatingInputGradient: dx, generatingWeightsGradient: dw,
        generatingBiasGradient: db)
    // Twice into one array that adds, and once with a gradient left out.
    let sum = BNNSNDArrayDescriptor.empty(w.shape)
    for _ in 0..<2 {
        try layer.applyBackward(
            batchSize: 3, input: x, output: y, outputGradient: dy,
            generatingInputGradient: BNNSNDArrayDescriptor(dataType: .float, shape: x.shape), generatingWeightsGradient: sum.accumulating)
    }
    report("convolution.dx", dx, batchSize: 3)
    report("convolution.dw", dw)
    report("convolution.db", db)
    report("convolution.sum", sum)
    report("convolution", y, batchSize: 3)
    let z = BNNSNDArrayDescriptor.empty(.imageCHW(15, 13, 6), batchSize: 2)
    let tw = BNNSNDArrayDescriptor.random(.convolutionWeightsOIHW(3, 3, 4, 6), 12)
    let transposed = BNNS.ConvolutionLayer(
        type: .transposed, input: x, weights: tw, output: z, bias: nil, padding: .zero, activation: .identity, groupCount: 1,
        stride: (x: 2, y: 2), dilationStride: (x: 1, y: 1))!
    try transposed.apply(batchSize: 2, input: x, output: z)
    report("convolution.transposed", z, batchSize: 2)
}

func fullyConnected() throws {
    let x = BNNSNDArrayDescriptor.random(.vector(6), 13, batchSize: 4), w = BNNSNDArrayDescriptor.random(.matrixRowMajor(6, 5), 14)
    let b = BNNSNDArrayDescriptor.random(.vector(5), 15), y = BNNSNDArrayDescriptor.empty(.vector(5), batchSize: 4)
    let dy = BNNSNDArrayDescriptor.random(.vector(5), 16, batchSize: 4)
    let layer = BNNS.FullyConnectedLayer(input: x, output: y, weights: w, bias: b, activation: .tanh, filterParameters: training)!
    try layer.apply(batchSize: 4, input: x, output: y)
    let (dx, dw, db) = (BNNSNDArrayDescriptor.empty(.vector(6), batchSize: 4), BNNSNDArrayDescriptor.empty(w.shape), BNNSNDArrayDescriptor.empty(b.shape))
    try layer.applyBackward(
        batchSize: 4, input: x, output: y, outputGradient: dy, generatingInputGradient: dx, generatingWeightsGradient: dw,
        generatingBiasGradient: db)
    report("fully_connected", y, batchSize: 4)
    report("fully_connected.dx", dx, batchSize: 4)
    report("fully_connected.dw", dw)
    report("fully_connected.db", db)
    // Sparse weights: three elements of a matrix of 2 rows and 4 columns, and all of it.
    let values = BNNSNDArrayDescriptor.allocate(initializingFrom: [2, 3, 5] as [Float], shape: .vector(3))
    let dense = BNNSNDArrayDescriptor(dataType: .float, shape: .matrixRowMajor(4, 2))
    let coordinates = BNNSNDArrayDescriptor.allocate(initializingFrom: [1, 0, 3, 0, 0, 1] as [UInt32], shape: .matrixFirstMajor(3, 2))
    let columns = BNNSNDArrayDescriptor.allocate(initializingFrom: [1, 3, 0] as [UInt32], shape: .vector(3))
    let starts = BNNSNDArrayDescriptor.allocate(initializingFrom: [0, 2, 3] as [UInt32], shape: .vector(3))
    for (name, layout) in [("coo", BNNS.SparseLayout.coo(indices: coordinates)), ("csr", .csr(columnIndices: columns, rowStarts: starts))] {
        var packed = BNNSNDArrayDescriptor(dataType: .float, shape: .matrixRowMajor(4, 2))
        packed.layout = BNNSDataLayoutFullyConnectedSparse
        packed.data = .allocate(byteCount: 4096, alignment: 64)
        packed.table_data = .allocate(byteCount: 4096, alignment: 64)
        defer { packed.table_data!.deallocate(); packed.deallocate() }
        let workspace = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 16, alignment: 64)
        defer { workspace.deallocate() }
        try BNNS.FullyConnectedLayer.sparsify(
            inputLayout: layout, inputDenseShape: dense, inputValues: values, output: &packed,
            sparseParameters: BNNS.SparseParameters(ratio: (numerator: 1, denominator: 2), targetSystem: BNNSTargetSystemGeneric),
            workspace: workspace)
        let v = BNNSNDArrayDescriptor.allocate(initializingFrom: [1, 10, 100, 1000] as [Float], shape: .vector(4))
        let result = BNNSNDArrayDescriptor.empty(.vector(2))
        let sparse = BNNS.FullyConnectedLayer(input: v, output: result, weights: packed, bias: nil, activation: .identity)!
        try sparse.apply(batchSize: 1, input: v, output: result)
        report("fully_connected.\(name)", result)
    }
}

func fused() throws {
    let x = BNNSNDArrayDescriptor.random(.imageCHW(6, 5, 3), 17, batchSize: 4), w = BNNSNDArrayDescriptor.random(.convolutionWeightsOIHW(3, 3, 3, 4), 18)
    let (b, beta, gamma) = (BNNSNDArrayDescriptor.random(.vector(4), 19), BNNSNDArrayDescriptor.random(.vector(4), 20), BNNSNDArrayDescriptor.random(.vector(4), 21))
    let shape = BNNS.Shape.imageCHW(6, 5, 4), dy = BNNSNDArrayDescriptor.random(.imageCHW(6, 5, 4), 22, batchSize: 4)
    func moving() -> BNNS.NormalizationType {
        .batch(movingMean: .allocate(repeating: Float(0), shape: .vector(4)), movingVariance: .allocate(repeating: Float(1), shape: .vector(4)))
    }
    let pair = BNNS.FusedConvolutionNormalizationLayer(
        input: x, output: BNNSNDArrayDescriptor(dataType: .float, shape: shape), convolutionWeights: w, convolutionBias: b,
        convolutionStride: (x: 1, y: 1), convolutionDilationStride: (x: 1, y: 1), convolutionPadding: .symmetric(x: 1, y: 1),
        normalization: moving(), normalizationBeta: beta, normalizationGamma: gamma, normalizationMomentum: 0.9,
        normalizationEpsilon: 1e-4, normalizationActivation: .rectifiedLinear, filterParameters: training)!
    let chain = BNNS.FusedParametersLayer(
        input: x, output: BNNSNDArrayDescriptor(dataType: .float, shape: shape),
        fusedLayerParameters: [
            BNNS.FusedConvolutionParameters(
                type: .standard, weights: w, bias: b, stride: (x: 1, y: 1), dilationStride: (x: 1, y: 1), groupSize: 1,
                padding: .symmetric(x: 1, y: 1)),
            BNNS.FusedNormalizationParameters(
                type: moving(), beta: beta, gamma: gamma, momentum: 0.9, epsilon: 1e-4, activation: .rectifiedLinear),
        ], filterParameters: training)!
    for (name, layer) in [("fused.convolution", pair as BNNS.FusedLayer), ("fused.chain", chain)] {
        let (y, dx) = (BNNSNDArrayDescriptor.empty(shape, batchSize: 4), BNNSNDArrayDescriptor.empty(x.shape, batchSize: 4))
        let gradients = [BNNSNDArrayDescriptor.empty(w.shape), .empty(.vector(4)), .empty(.vector(4)), .empty(.vector(4))]
        try layer.apply(batchSize: 4, input: x, output: y, for: .training)
        try layer.applyBackward(
            batchSize: 4, input: x, output: y, outputGradient: dy, generatingInputGradient: dx, generatingParameterGradients: gradients)
        report("\(name).dx", dx, batchSize: 4)
        for (gradient, parameter) in zip(gradients, ["dw", "db", "dbeta", "dgamma"]) { report("\(name).\(parameter)", gradient) }
        try layer.apply(batchSize: 4, input: x, output: y, for: .inference)
        report(name, y, batchSize: 4)
    }
    let v = BNNSNDArrayDescriptor.random(.vector(6), 23, batchSize: 5), fw = BNNSNDArrayDescriptor.random(.matrixRowMajor(6, 4), 24)
    let dense = BNNS.FusedFullyConnectedNormalizationLayer(
        input: v, output: BNNSNDArrayDescriptor(dataType: .float, shape: .vector(4)), fullyConnectedWeights: fw, fullyConnectedBias: nil,
        normalization: .batch(movingMean: nil, movingVariance: nil), normalizationBeta: beta, normalizationGamma: gamma,
        normalizationMomentum: 0, normalizationEpsilon: 1e-3, normalizationActivation: .tanh, filterParameters: training)!
    let (y, dx, dwy) = (BNNSNDArrayDescriptor.empty(.vector(4), batchSize: 5), BNNSNDArrayDescriptor.empty(.vector(6), batchSize: 5), BNNSNDArrayDescriptor.empty(fw.shape))
    try dense.apply(batchSize: 5, input: v, output: y, for: .training)
    // Fewer gradients than parameters: the others are left out.
    try dense.applyBackward(
        batchSize: 5, input: v, output: y, outputGradient: BNNSNDArrayDescriptor.random(.vector(4), 25, batchSize: 5),
        generatingInputGradient: dx, generatingParameterGradients: [dwy])
    report("fused.fully_connected", y, batchSize: 5)
    report("fused.fully_connected.dx", dx, batchSize: 5)
    report("fused.fully_connected.dw", dwy)
    // Integers at the end of a chain.
    var quantization = BNNS.FusedQuantizationParameters(
        scale: .allocate(initializingFrom: [40, 50, 60, 70] as [Float], shape: .vector(4)), bias: .allocate(repeating: Float(3), shape: .vector(4)))
    quantization.axis = 0
    let bytes = BNNSNDArrayDescriptor.allocate(repeating: Int8(0), shape: .vector(4), batchSize: 5)
    let quantizing = BNNS.FusedParametersLayer(
        input: v, output: BNNSNDArrayDescriptor(dataType: .int8, shape: .vector(4)),
        fusedLayerParameters: [BNNS.FusedFullyConnectedParameters(weights: fw, bias: nil), quantization])!
    try quantizing.apply(batchSize: 5, input: v, output: bytes, for: .inference)
    report("fused.quantization", bytes.makeArray(of: Int8.self, batchSize: 5)!.map { Float($0) })
    let (iv, iw) = (
        BNNSNDArrayDescriptor.allocate(initializingFrom: numbers(30, 26).map { Int8($0 * 50) }, shape: .vector(6), batchSize: 5),
        BNNSNDArrayDescriptor.allocate(initializingFrom: numbers(24, 27).map { Int8($0 * 50) }, shape: .matrixRowMajor(6, 4))
    )
    let numbersAgain = BNNSNDArrayDescriptor.empty(.vector(4), batchSize: 5)
    let dequantizing = BNNS.FusedParametersLayer(
        input: iv, output: BNNSNDArrayDescriptor(dataType: .float, shape: .vector(4)),
        fusedLayerParameters: [
            BNNS.FusedFullyConnectedParameters(weights: iw, bias: nil),
            BNNS.FusedDequantizationParameters(scale: .allocate(repeating: Float(20), shape: .vector(1)), bias: nil),
        ])!
    try dequantizing.apply(batchSize: 5, input: iv, output: numbersAgain, for: .inference)
    report("fused.dequantization", numbersAgain, batchSize: 5)
    // Arithmetic first, of one, two and three operands.
    let a = BNNSNDArrayDescriptor.random(shape, 28, batchSize: 3), c = BNNSNDArrayDescriptor.random(shape, 29, batchSize: 3)
    let d = BNNSNDArrayDescriptor.random(shape, 30, batchSize: 3), dz = BNNSNDArrayDescriptor.random(shape, 31, batchSize: 3)
    let out = BNNSNDArrayDescriptor(dataType: .float, shape: shape)
    func last() -> BNNS.FusedNormalizationParameters {
        BNNS.FusedNormalizationParameters(type: .instance(movingMean: nil, movingVariance: nil), beta: beta, gamma: gamma, epsilon: 1e-3, activation: .identity)
    }
    func empty() -> BNNSNDArrayDescriptor { .empty(shape, batchSize: 3) }
    func vectors() -> [BNNSNDArrayDescriptor] { [.empty(.vector(4)), .empty(.vector(4))] }
    let one = BNNS.FusedParametersLayer(
        input: a, output: out,
        fusedLayerParameters: [BNNS.FusedUnaryArithmeticParameters(inputDescriptorType: .sample, outputDescriptorType: .sample, function: .square), last()])!
    var (z, gradients, da, dc, dd) = (empty(), vectors(), empty(), empty(), empty())
    try one.apply(batchSize: 3, input: a, output: z, for: .training)
    try one.applyBackward(batchSize: 3, input: a, output: z, outputGradient: dz, generatingInputGradient: da, generatingParameterGradients: gradients)
    report("fused.unary", z, batchSize: 3)
    report("fused.unary.da", da, batchSize: 3)
    report("fused.unary.dbeta", gradients[0])
    report("fused.unary.dgamma", gradients[1])
    let two = BNNS.FusedParametersLayer(
        inputA: a, inputB: c, output: out,
        fusedLayerParameters: [
            BNNS.FusedBinaryArithmeticParameters(
                inputADescriptorType: .sample, inputBDescriptorType: .sample, outputDescriptorType: .sample, function: .multiply), last(),
        ])!
    (z, gradients, da) = (empty(), vectors(), empty())
    try two.apply(batchSize: 3, inputA: a, inputB: c, output: z, for: .training)
    try two.applyBackward(
        batchSize: 3, inputA: a, inputB: c, output: z, outputGradient: dz, generatingInputAGradient: da, generatingInputBGradient: dc,
        generatingParameterGradients: gradients)
    report("fused.binary", z, batchSize: 3)
    report("fused.binary.da", da, batchSize: 3)
    report("fused.binary.db", dc, batchSize: 3)
    report("fused.binary.dbeta", gradients[0])
    report("fused.binary.dgamma", gradients[1])
    let three = BNNS.FusedParametersLayer(
        inputA: a, inputB: c, inputC: d, output: out,
        fusedLayerParameters: [
            BNNS.FusedTernaryArithmeticParameters(
                inputADescriptorType: .sample, inputBDescriptorType: .sample, inputCDescriptorType: .sample,
                outputDescriptorType: .sample, function: .multiplyAdd), last(),
        ])!
    (z, gradients, da, dc) = (empty(), vectors(), empty(), empty())
    try three.apply(batchSize: 3, inputA: a, inputB: c, inputC: d, output: z, for: .training)
    try three.applyBackward(
        batchSize: 3, inputA: a, inputB: c, inputC: d, output: z, outputGradient: dz, generatingInputAGradient: da,
        generatingInputBGradient: dc, generatingInputCGradient: dd, generatingParameterGradients: gradients)
    report("fused.ternary", z, batchSize: 3)
    report("fused.ternary.da", da, batchSize: 3)
    report("fused.ternary.db", dc, batchSize: 3)
    report("fused.ternary.dc", dd, batchSize: 3)
    report("fused.ternary.dbeta", gradients[0])
    report("fused.ternary.dgamma", gradients[1])
    struct Stranger: FusableLayerParameters {}
    precondition(BNNS.FusedParametersLayer(input: x, output: out, fusedLayerParameters: [Stranger()]) == nil)
    precondition(BNNS.FusedParametersLayer(input: x, output: out, fusedLayerParameters: []) == nil)
}

func normalization() throws {
    let shape = BNNS.Shape.imageCHW(5, 4, 6)
    let x = BNNSNDArrayDescriptor.random(shape, 32, batchSize: 3), dy = BNNSNDArrayDescriptor.random(shape, 33, batchSize: 3)
    let (beta, gamma) = (BNNSNDArrayDescriptor.random(.vector(6), 34), BNNSNDArrayDescriptor.random(.vector(6), 35))
    let wide = (BNNSNDArrayDescriptor.random(shape, 36), BNNSNDArrayDescriptor.random(shape, 37))
    let (mean, variance) = (BNNSNDArrayDescriptor.allocate(repeating: Float(0), shape: .vector(6)), BNNSNDArrayDescriptor.allocate(repeating: Float(1), shape: .vector(6)))
    let types: [(String, BNNS.NormalizationType, (BNNSNDArrayDescriptor, BNNSNDArrayDescriptor))] = [
        ("batch", .batch(movingMean: mean, movingVariance: variance), (beta, gamma)), ("instance", .instance(movingMean: nil, movingVariance: nil), (beta, gamma)),
        ("layer", .layer(normalizationAxis: 0), wide), ("group", .group(groupCount: 3), (beta, gamma)),
    ]
    for (name, type, parameters) in types {
        let layer = BNNS.NormalizationLayer(
            type: type, input: x, output: x, beta: parameters.0, gamma: parameters.1, momentum: 0.75, epsilon: 1e-3, activation: .tanh,
            filterParameters: training)!
        let (y, dx) = (BNNSNDArrayDescriptor.empty(shape, batchSize: 3), BNNSNDArrayDescriptor.empty(shape, batchSize: 3))
        let (db, dg) = (BNNSNDArrayDescriptor.empty(parameters.0.shape), BNNSNDArrayDescriptor.empty(parameters.1.shape))
        try layer.apply(batchSize: 3, input: x, output: y, for: .training)
        try layer.applyBackward(
            batchSize: 3, input: x, output: y, outputGradient: dy, generatingInputGradient: dx, generatingBetaGradient: db,
            generatingGammaGradient: dg)
        report("normalization.\(name)", y, batchSize: 3)
        report("normalization.\(name).dx", dx, batchSize: 3)
        report("normalization.\(name).dbeta", db)
        report("normalization.\(name).dgamma", dg)
    }
    report("normalization.mean", mean)
    report("normalization.variance", variance)
}

func pooling() throws {
    let x = BNNSNDArrayDescriptor.random(.imageCHW(6, 4, 2), 38, batchSize: 3), small = BNNS.Shape.imageCHW(3, 2, 2)
    let dy = BNNSNDArrayDescriptor.random(small, 39, batchSize: 3)
    let indices = UnsafeMutableBufferPointer<Int>.allocate(capacity: 36)
    let typed = BNNSNDArrayDescriptor.allocate(repeating: UInt32(0), shape: small, batchSize: 3)
    let types: [(String, BNNS.PoolingType)] = [
        ("max", .max()), ("max_indices", .max(indices: indices)), ("max_ex", .maxEx(indicesDescriptor: typed)), ("average", .average(countIncludesPadding: true)),
        ("average_excluding", .average(countIncludesPadding: false)), ("l2_norm", .l2Norm),
    ]
    for (name, type) in types {
        let layer = BNNS.PoolingLayer(
            type: type, input: x, output: BNNSNDArrayDescriptor(dataType: .float, shape: small), bias: nil, activation: .identity,
            kernelSize: (width: 2, height: 2), stride: (x: 2, y: 2), padding: .zero)!
        let (y, dx) = (BNNSNDArrayDescriptor.empty(small, batchSize: 3), BNNSNDArrayDescriptor.empty(x.shape, batchSize: 3))
        try layer.apply(batchSize: 3, input: x, output: y)
        try layer.applyBackward(batchSize: 3, input: x, output: y, outputGradient: dy, generatingInputGradient: dx)
        report("pooling.\(name)", y, batchSize: 3)
        report("pooling.\(name).dx", dx, batchSize: 3)
    }
    report("pooling.indices", indices.map { Float($0) })
    report("pooling.typed", typed.makeArray(of: UInt32.self, batchSize: 3)!.map { Float($0) })
    for (name, type) in [("un_max", BNNS.PoolingType.unMax(indices: indices)), ("un_max_ex", .unMaxEx(indicesDescriptor: typed))] {
        let layer = BNNS.PoolingLayer(
            type: type, input: dy, output: BNNSNDArrayDescriptor(dataType: .float, shape: x.shape), bias: nil, activation: .identity,
            kernelSize: (width: 2, height: 2), stride: (x: 2, y: 2), padding: .zero)!
        let big = BNNSNDArrayDescriptor.empty(x.shape, batchSize: 3)
        try layer.apply(batchSize: 3, input: dy, output: big)
        report("pooling.\(name)", big, batchSize: 3)
    }
    indices.deallocate()
}

func losses() throws {
    let shape = BNNS.Shape.vector(5)
    let x = BNNSNDArrayDescriptor.random(shape, 40, batchSize: 4)
    let labels = BNNSNDArrayDescriptor.allocate(initializingFrom: numbers(20, 41).map { ($0 + 1) / 2 }, shape: shape, batchSize: 4)
    let positive = BNNSNDArrayDescriptor.allocate(initializingFrom: numbers(20, 40).map { ($0 + 1.25) / 2.5 }, shape: shape, batchSize: 4)
    let functions: [(String, BNNS.LossFunction, BNNSNDArrayDescriptor)] = [
        ("softmax_cross_entropy", .softmaxCrossEntropy(labelSmoothing: 0.1), x), ("sigmoid_cross_entropy", .sigmoidCrossEntropy(labelSmoothing: 0.2), x),
        ("huber", .huber(huberDelta: 0.5), x), ("mean_square_error", .meanSquareError, x), ("log", .log, positive), ("cosine_distance", .cosineDistance, x),
        ("hinge", .hinge, x), ("mean_absolute_error", .meanAbsoluteError, x), ("categorical_cross_entropy", .categoricalCrossEntropy, positive),
    ]
    for (name, function, input) in functions {
        for (reduction, word) in [(BNNS.LossReduction.reductionMean, "mean"), (.sum, "sum")] {
            let (y, dx) = (BNNSNDArrayDescriptor.empty(.vector(1)), BNNSNDArrayDescriptor.empty(shape, batchSize: 4))
            let layer = BNNS.LossLayer(input: input, output: y, lossFunction: function, lossReduction: reduction)!
            try layer.apply(batchSize: 4, input: input, labels: labels, output: y, generatingInputGradient: dx)
            report("loss.\(name).\(word)", y)
            report("loss.\(name).\(word).dx", dx, batchSize: 4)
        }
    }
    let (y, dx) = (BNNSNDArrayDescriptor.empty(.vector(1)), BNNSNDArrayDescriptor.empty(shape, batchSize: 4))
    let each = BNNSNDArrayDescriptor.allocate(initializingFrom: [1, 2, 0.5, 4] as [Float], shape: .vector(4))
    let softmax = BNNS.LossLayer(input: x, output: y, lossFunction: .softmaxCrossEntropy(labelSmoothing: 0), lossReduction: .weightedMean)!
    try softmax.apply(
        batchSize: 4, input: x, labels: labels, output: y, weights: each, broadcastsWeights: false, generatingInputGradient: dx)
    report("loss.weights.samples", y.makeArray(of: Float.self)! + dx.makeArray(of: Float.self, batchSize: 4)!)
    let full = BNNSNDArrayDescriptor.random(shape, 42, batchSize: 4)
    let square = BNNS.LossLayer(input: x, output: y, lossFunction: .meanSquareError, lossReduction: .sum)!
    try square.apply(
        batchSize: 4, input: x, labels: labels, output: y, weights: full, broadcastsWeights: false, generatingInputGradient: dx)
    report("loss.weights.elements", y.makeArray(of: Float.self)! + dx.makeArray(of: Float.self, batchSize: 4)!)
    try square.apply(
        batchSize: 4, input: x, labels: labels, output: y, weights: each, broadcastsWeights: true, generatingInputGradient: dx)
    report("loss.weights.one", y.makeArray(of: Float.self)! + dx.makeArray(of: Float.self, batchSize: 4)!)
    var anchors: [Float] = [0.5, 0.5, 1, 1]
    try anchors.withUnsafeMutableBufferPointer { anchors in
        let parameters = BNNS.LossFunction.YoloParameters(
            huberDelta: 1, gridColumnCount: 2, gridRowsCount: 2, anchorBoxCount: 2, anchorBoxSize: 6, rescore: false, xyScale: 1, whScale: 1,
            objectScale: 1, noObjectScale: 0.5, classificationScale: 1, objectMinimumIoU: 0.5, noObjectMaximumIoU: 0.5,
            anchorsData: anchors.baseAddress!)
        let shape = BNNS.Shape.vector(48)
        let (grid, dg) = (BNNSNDArrayDescriptor.random(shape, 43), BNNSNDArrayDescriptor.empty(shape))
        let truth = BNNSNDArrayDescriptor.allocate(initializingFrom: numbers(48, 44).map { ($0 + 1) / 2 }, shape: shape)
        let layer = BNNS.LossLayer(input: grid, output: y, lossFunction: .yolo(parameters: parameters), lossReduction: .sum)!
        try layer.apply(batchSize: 1, input: grid, labels: truth, output: y, generatingInputGradient: dg)
        report("loss.yolo", y)
        report("loss.yolo.dx", dg)
    }
}

func otherLayers() throws {
    // Embedding
    let words = BNNSNDArrayDescriptor.allocate(initializingFrom: [3, 0, 4, 3, 2, 1] as [Int32], shape: .vector(3), batchSize: 2)
    let dictionary = BNNSNDArrayDescriptor.random(.matrixLastMajor(4, 5), 45), rows = BNNS.Shape.matrixLastMajor(4, 3)
    let embedding = BNNS.EmbeddingLayer(
        input: words, output: BNNSNDArrayDescriptor(dataType: .float, shape: rows), dictionary: dictionary, paddingIndex: 2, maximumNorm: 0.5, normType: .l2,
        scalesGradientByFrequency: true, filterParameters: training)!
    let (found, dd) = (BNNSNDArrayDescriptor.empty(rows, batchSize: 2), BNNSNDArrayDescriptor.empty(dictionary.shape))
    try embedding.apply(batchSize: 2, input: words, output: found)
    try embedding.applyBackward(
        batchSize: 2, input: words, output: found, outputGradient: .random(rows, 46, batchSize: 2), generatingWeightsGradient: dd)
    report("embedding", found, batchSize: 2)
    report("embedding.dw", dd)
    // Dropout
    let v = BNNSNDArrayDescriptor.random(.vector(50), 47, batchSize: 2), dropped = BNNSNDArrayDescriptor.empty(.vector(50), batchSize: 2)
    let dropout = BNNS.DropoutLayer(input: v, output: v, rate: 0.5, seed: 7, control: 0)!
    try dropout.apply(batchSize: 2, input: v, output: dropped)
    report("dropout", dropped, batchSize: 2)
    // Gram
    let image = BNNSNDArrayDescriptor.random(.imageCHW(4, 3, 5), 48, batchSize: 2), matrix = BNNS.Shape.matrixRowMajor(5, 5)
    let gram = BNNS.GramLayer(input: image, output: BNNSNDArrayDescriptor(dataType: .float, shape: matrix), alpha: 0.5)!
    let (g, dgi) = (BNNSNDArrayDescriptor.empty(matrix, batchSize: 2), BNNSNDArrayDescriptor.empty(image.shape, batchSize: 2))
    try gram.apply(batchSize: 2, input: image, output: g)
    try gram.applyBackward(batchSize: 2, input: image, output: g, outputGradient: .random(matrix, 49, batchSize: 2), generatingInputGradient: dgi)
    report("gram", g, batchSize: 2)
    report("gram.dx", dgi, batchSize: 2)
    // Padding, in the order of size
    let plane = BNNSNDArrayDescriptor.random(.tensor3DFirstMajor(2, 3, 4), 50)
    for (name, mode) in [("constant", BNNS.PaddingMode.constantScalar(1.5)), ("bits", .constantBitPattern(Float(-2).bitPattern)), ("reflect", .reflect), ("symmetric", .symmetric)] {
        let out = BNNS.Shape.tensor3DFirstMajor(2, 5, 7)
        let layer = BNNS.PaddingLayer(
            input: plane, output: BNNSNDArrayDescriptor(dataType: .float, shape: out), mode: mode, size: [(x: 0, y: 0), (x: 1, y: 1), (x: 2, y: 1)])!
        let y = BNNSNDArrayDescriptor.empty(out)
        try layer.apply(batchSize: 1, input: plane, output: y)
        report("padding.\(name)", y)
    }
    // Permute
    let turned = BNNS.Shape.tensor3DFirstMajor(4, 2, 3)
    let permute = BNNS.PermuteLayer(input: plane, output: BNNSNDArrayDescriptor(dataType: .float, shape: turned), permutation: [2, 0, 1])!
    let (p, dp) = (BNNSNDArrayDescriptor.empty(turned), BNNSNDArrayDescriptor.empty(plane.shape))
    try permute.apply(batchSize: 1, input: plane, output: p)
    try permute.applyBackward(batchSize: 1, input: plane, output: p, outputGradient: .random(turned, 51), generatingInputGradient: dp)
    report("permute", p)
    report("permute.dx", dp)
    // Resize
    let bigger = BNNS.Shape.imageCHW(7, 5, 5)
    for (name, method, corners) in [("linear", BNNS.InterpolationMethod.linear, true), ("nearest", .nearestNeighbor, false)] {
        let layer = BNNS.ResizeLayer(
            interpolationMethod: method, input: image, output: BNNSNDArrayDescriptor(dataType: .float, shape: bigger), alignsCorners: corners)!
        let y = BNNSNDArrayDescriptor.empty(bigger, batchSize: 2)
        try layer.apply(batchSize: 2, input: image, output: y)
        report("resize.\(name)", y, batchSize: 2)
    }
    // Reduction
    let reduced = BNNS.Shape.tensor3DFirstMajor(2, 1, 4)
    let functions: [(String, BNNS.ReductionFunction)] = [
        ("max", .max), ("min", .min), ("mean", .mean), ("sum", .sum), ("sum_of_squares", .sumOfSquares), ("sum_of_absolutes", .sumOfAbsolutes), ("l2_norm", .l2Norm),
        ("log_sum_exp", .logSumExp), ("product", .product), ("mean_non_zero", .meanNonZero),
    ]
    for (name, function) in functions {
        let layer = BNNS.ReductionLayer(function: function, input: plane, output: BNNSNDArrayDescriptor(dataType: .float, shape: reduced), weights: nil)!
        let (y, dx) = (BNNSNDArrayDescriptor.empty(reduced), BNNSNDArrayDescriptor.empty(plane.shape))
        try layer.apply(batchSize: 1, input: plane, output: y)
        try layer.applyBackward(batchSize: 1, input: plane, output: y, outputGradient: .random(reduced, 52), generatingInputGradient: dx)
        report("reduction.\(name).dx", dx)
        let direct = BNNSNDArrayDescriptor.empty(reduced)
        try BNNS.applyReduction(function, input: plane, output: direct, weights: nil)
        precondition(direct.makeArray(of: Float.self)! == y.makeArray(of: Float.self)!, name)
        report("reduction.\(name)", y)
        direct.deallocate()
    }
    // Products
    let a = BNNSNDArrayDescriptor.random(.tensor3DFirstMajor(2, 3, 4), 53), b = BNNSNDArrayDescriptor.random(.tensor3DFirstMajor(2, 5, 4), 54)
    let product = BNNS.Shape.tensor3DFirstMajor(2, 3, 5)
    let matmul = BNNS.BroadcastMatrixMultiplyLayer(
        inputA: a, transposed: false, isWeights: false, inputB: b, transposed: true, isWeights: false,
        output: BNNSNDArrayDescriptor(dataType: .float, shape: product), alpha: 0.5, accumulatesToOutput: false, isQuadratic: false)!
    let (y, da, db) = (BNNSNDArrayDescriptor.empty(product), BNNSNDArrayDescriptor.empty(a.shape), BNNSNDArrayDescriptor.empty(b.shape))
    try matmul.apply(batchSize: 1, inputA: a, inputB: b, output: y)
    try matmul.applyBackward(
        batchSize: 1, inputA: a, inputB: b, output: y, outputGradient: .random(product, 55), generatingInputAGradient: da, generatingInputBGradient: db)
    let again = BNNSNDArrayDescriptor.empty(product)
    let size = BNNS.matrixMultiplicationWorkspaceSize(inputA: a, transposed: false, inputB: b, transposed: true, output: again, alpha: 0.5)!
    let workspace = UnsafeMutableRawBufferPointer.allocate(byteCount: max(size, 1), alignment: 64)
    try BNNS.applyMatrixMultiplication(inputA: a, transposed: false, inputB: b, transposed: true, output: again, alpha: 0.5, workspace: workspace)
    workspace.deallocate()
    precondition(BNNS.matrixMultiplicationWorkspaceSize(inputA: a, transposed: false, inputB: b, transposed: false, output: again, alpha: 1) == nil)
    report("matmul.direct", again)
    report("matmul", y)
    report("matmul.da", da)
    report("matmul.db", db)
    // Crop and resize
    let boxes = BNNSNDArrayDescriptor.allocate(initializingFrom: [0, 0.1, 0.8, 0.9, 0.2, 0, 1, 0.7] as [Float], shape: .matrixFirstMajor(2, 4))
    let pictures = BNNSNDArrayDescriptor.random(.tensor4DFirstMajor(1, 2, 6, 5), 56)
    let crops = BNNSNDArrayDescriptor.empty(.tensor5DFirstMajor(2, 1, 2, 3, 3)), dp2 = BNNSNDArrayDescriptor.empty(pictures.shape)
    let crop = BNNS.CropResizeLayer(
        coordinatesAreNormalized: true, spatialScale: 0.9, extrapolationValue: 7, samplingMode: .unalignCorners, boxCoordinateMode: .cornersWidthFirst)
    try crop.apply(input: pictures, regionOfInterest: boxes, output: crops)
    try crop.applyBackward(regionOfInterest: boxes, outputGradient: .random(crops.shape, 74), generatingInputGradient: dp2)
    report("crop_resize", crops)
    report("crop_resize.dx", dp2)
}

func functions() throws {
    let x = BNNSNDArrayDescriptor.random(.matrixFirstMajor(3, 4), 57)
    func empty(_ rows: Int, _ columns: Int) -> BNNSNDArrayDescriptor { .empty(.matrixFirstMajor(rows, columns)) }
    let transposed = empty(4, 3), tiled = empty(6, 4), untiled = empty(3, 4), band = empty(3, 4), copied = empty(3, 4)
    try BNNS.transpose(input: x, output: transposed, firstTransposeAxis: 0, secondTransposeAxis: 1)
    report("transpose", transposed)
    try BNNS.tile(input: x, output: tiled)
    try BNNS.tileBackward(outputGradient: tiled, generatingInputGradient: untiled)
    report("tile", tiled)
    report("tile.dx", untiled)
    try BNNS.copyBandPart(x, to: band, lowerBandCount: 0, upperBandCount: nil)
    report("band", band)
    try BNNS.copy(x, to: copied)
    report("copy", copied)
    let depth = BNNSNDArrayDescriptor.random(.tensor4DFirstMajor(1, 4, 2, 3), 58), space = BNNSNDArrayDescriptor.empty(.tensor4DFirstMajor(1, 1, 4, 6))
    try BNNS.shuffle(.depthToSpaceNCHW, input: depth, output: space)
    report("shuffle", space)
    let rows = BNNSNDArrayDescriptor.allocate(initializingFrom: [2, 0] as [Int32], shape: .vector(2))
    let gathered = empty(2, 4), scattered = BNNSNDArrayDescriptor.allocate(repeating: Float(1), shape: .matrixFirstMajor(3, 4))
    try BNNS.gather(input: x, indices: rows, output: gathered, axis: 0)
    try BNNS.scatter(input: gathered, indices: rows, output: scattered, axis: 0, reductionFunction: .sum)
    report("scatter.sum", scattered)
    let plain = empty(3, 4)
    try BNNS.scatter(input: gathered, indices: rows, output: plain, axis: 0)
    report("scatter", plain)
    report("gather", gathered)
    let pairs = BNNSNDArrayDescriptor.allocate(initializingFrom: [2, 1, 0, 3] as [Int32], shape: .matrixFirstMajor(2, 2))
    let chosen = BNNSNDArrayDescriptor.empty(.vector(2)), spread = empty(3, 4), spreadSum = empty(3, 4)
    try BNNS.gatherND(input: x, indices: pairs, output: chosen)
    try BNNS.scatterND(input: chosen, indices: pairs, output: spread)
    try BNNS.scatterND(input: chosen, indices: pairs, output: spreadSum, reductionFunction: .sum)
    report("scatter_nd", spread)
    report("scatter_nd.sum", spreadSum)
    report("gather_nd", chosen)
    let v = BNNSNDArrayDescriptor.random(.vector(6), 59, batchSize: 3)
    let best = BNNSNDArrayDescriptor.empty(.vector(2), batchSize: 3), places = BNNSNDArrayDescriptor.allocate(repeating: Int32(0), shape: .vector(2), batchSize: 3)
    try BNNS.applyTopK(k: 2, input: v, bestValues: best, bestIndices: places, axis: 0, batchSize: 3)
    let test = BNNSNDArrayDescriptor.allocate(initializingFrom: [0, 1, 2] as [Int32], shape: .vector(1), batchSize: 3)
    let among = BNNSNDArrayDescriptor.allocate(repeating: false, shape: .vector(1), batchSize: 3)
    try BNNS.applyInTopK(k: 3, input: v, testIndices: test, output: among, axis: 0, batchSize: 3)
    report("top_k", best, batchSize: 3)
    report("top_k.indices", places.makeArray(of: Int32.self, batchSize: 3)!.map { Float($0) })
    report("in_top_k", among.makeArray(of: Bool.self, batchSize: 3)!.map { $0 ? 1 : 0 })
    let (scale, bias) = (BNNSNDArrayDescriptor.allocate(repeating: Float(90), shape: .vector(1)), BNNSNDArrayDescriptor.allocate(repeating: Float(5), shape: .vector(1)))
    let bytes = BNNSNDArrayDescriptor.allocate(repeating: Int8(0), shape: .vector(6), batchSize: 3), back = BNNSNDArrayDescriptor.empty(.vector(6), batchSize: 3)
    try BNNS.quantize(batchSize: 3, input: v, output: bytes, scale: scale, bias: bias)
    try BNNS.dequantize(batchSize: 3, input: bytes, output: back, scale: scale, bias: bias)
    report("quantize", bytes.makeArray(of: Int8.self, batchSize: 3)!.map { Float($0) })
    report("dequantize", back, batchSize: 3)
    let scales = BNNSNDArrayDescriptor.allocate(initializingFrom: [10, 20, 30, 40, 50, 60] as [Float], shape: .vector(6))
    try BNNS.quantize(batchSize: 3, input: v, output: bytes, axis: 0, scale: scales, bias: nil)
    report("quantize.axis", bytes.makeArray(of: Int8.self, batchSize: 3)!.map { Float($0) })
    let norm = BNNSNDArrayDescriptor.empty(.vector(3)), dn = BNNSNDArrayDescriptor.random(.vector(3), 60), dx = empty(3, 4)
    try BNNS.computeNorm(input: x, output: norm, axes: [1])
    try BNNS.computeNormBackward(input: x, output: norm, axes: [1], outputGradient: dn, generatingInputGradient: dx)
    report("norm", norm)
    report("norm.dx", dx)
    let other = BNNSNDArrayDescriptor.random(.matrixFirstMajor(3, 4), 61), truth = BNNSNDArrayDescriptor.allocate(repeating: false, shape: .matrixFirstMajor(3, 4))
    try BNNS.compare(x, other, using: .greaterEqual, output: truth)
    report("compare", truth.makeArray(of: Bool.self)!.map { $0 ? 1 : 0 })
    let (clipped, byNorm, first, second) = (empty(3, 4), empty(3, 4), empty(3, 4), empty(3, 4))
    try BNNS.clip(to: -0.25...0.5, input: x, output: clipped)
    try BNNS.clipByNorm(threshold: 0.5, input: x, output: byNorm)
    try BNNS.clipByGlobalNorm(threshold: 1, inputs: [x, other], outputs: [first, second])
    report("clip", clipped)
    report("clip_by_norm", byNorm)
    report("clip_by_global_norm", first.makeArray(of: Float.self)! + second.makeArray(of: Float.self)!)
}

func optimizers() throws {
    func step(_ name: String, _ optimizer: some BNNSOptimizer) throws {
        let parameters = [BNNSNDArrayDescriptor.random(.vector(5), 62), .random(.matrixRowMajor(2, 3), 63)]
        let gradients = [BNNSNDArrayDescriptor.random(.vector(5), 64), .random(.matrixRowMajor(2, 3), 65)]
        let accumulators = (0..<optimizer.accumulatorCountMultiplier).flatMap { _ in parameters.map { BNNSNDArrayDescriptor.empty($0.shape) } }
        for _ in 0..<3 { try optimizer.step(parameters: parameters, gradients: gradients, accumulators: accumulators) }
        report("optimizer.\(name)", parameters.flatMap { $0.makeArray(of: Float.self)! })
    }
    let (none, l2) = (BNNSOptimizerRegularizationNone, BNNSOptimizerRegularizationL2)
    try step("adam.bounds", BNNS.AdamOptimizer(
        learningRate: 0.1, beta1: 0.8, beta2: 0.9, timeStep: 1, epsilon: 1e-6, gradientScale: 2, regularizationScale: 0.1,
        clipsGradientsTo: -0.5...0.25, regularizationFunction: l2))
    try step("adam.norm", BNNS.AdamOptimizer(
        timeStep: 2, gradientScale: 1, regularizationScale: 0, gradientClipping: .byNorm(threshold: 0.5), regularizationFunction: none, usesAMSGrad: true))
    try step("adamw", BNNS.AdamWOptimizer(learningRate: 0.1, gradientScale: 1, weightDecay: 0.2, gradientClipping: .byGlobalNorm(threshold: 0.5)))
    try step("rmsprop", BNNS.RMSPropOptimizer(
        learningRate: 0.1, alpha: 0.9, epsilon: 1e-6, centered: true, momentum: 0.5, gradientScale: 1, regularizationScale: 0, regularizationFunction: none))
    try step("rmsprop.value", BNNS.RMSPropOptimizer(
        centered: false, gradientScale: 1, regularizationScale: 0.1, gradientClipping: .byValue(bounds: -0.1...0.1), regularizationFunction: l2))
    try step("sgd", BNNS.SGDMomentumOptimizer(
        learningRate: 0.1, momentum: 0.9, gradientScale: 1, regularizationScale: 0, usesNesterovMomentum: true, regularizationFunction: none,
        sgdMomentumVariant: BNNSSGDMomentumVariant1))
    try step("sgd.plain", BNNS.SGDMomentumOptimizer(
        learningRate: 0.1, gradientScale: 1, regularizationScale: 0.5, gradientClipping: .none, regularizationFunction: l2,
        sgdMomentumVariant: BNNSSGDMomentumVariant0))
    var adam = BNNS.AdamOptimizer(timeStep: 1, gradientScale: 1, regularizationScale: 0, gradientClipping: .none, regularizationFunction: none)
    precondition(adam.bnnsOptimizerFunction == BNNSOptimizerFunctionAdamWithClipping && adam.gradientBounds == nil)
    adam.gradientBounds = 0...1
    precondition(adam.bnnsOptimizerFunction == BNNSOptimizerFunctionAdam)
    if case .byValue(let bounds) = adam.gradientClipping { precondition(bounds == 0...1) } else { preconditionFailure() }
    do {
        try adam.step(parameters: [.random(.vector(2), 1)], gradients: [], accumulators: [])
        preconditionFailure("lists of different lengths")
    } catch { precondition(error as? BNNS.Error == .optimizerStepFail) }
}

func randomNumbersAndNeighbors() throws {
    let generator = BNNS.RandomGenerator(method: .aesCtr, seed: 11)!
    let state = generator.state
    let uniform = BNNSNDArrayDescriptor.allocate(randomUniformUsing: generator, range: Float(-2)...3, shape: .vector(9), batchSize: 2)!
    let normal = BNNSNDArrayDescriptor.allocate(randomNormalUsing: generator, mean: Float(1), standardDeviation: 0.5, shape: .vector(9))!
    let whole = BNNSNDArrayDescriptor.allocate(randomUniformUsing: generator, range: Int32(-5)...5, shape: .vector(9))!
    generator.state = state
    let again = BNNSNDArrayDescriptor.allocate(randomUniformUsing: generator, range: Float(-2)...3, shape: .vector(9), batchSize: 2)!
    precondition(again.makeArray(of: Float.self, batchSize: 2)! == uniform.makeArray(of: Float.self, batchSize: 2)!)
    report("random.uniform", uniform, batchSize: 2)
    report("random.normal", normal)
    report("random.integers", whole.makeArray(of: Int32.self)!.map { Float($0) })
    var plain = SystemRandomNumberGenerator()
    let swift = BNNSNDArrayDescriptor.allocate(randomIn: Float(0)...1, using: &plain, shape: .vector(50))
    precondition(swift.makeArray(of: Float.self)!.allSatisfy { 0...1 ~= $0 })
    let integers = BNNSNDArrayDescriptor.allocate(randomIn: UInt8(3)...5, shape: .vector(50))
    precondition(Set(integers.makeArray(of: UInt8.self)!) == [3, 4, 5])
    let neighbors = BNNS.NearestNeighbors(capacity: 10, dimensionCount: 2, neighborCount: 3, dataType: .float)
    neighbors.append(samples: .random(.matrixFirstMajor(8, 2), 66))
    let near = BNNSNDArrayDescriptor.allocate(repeating: Int32(0), shape: .vector(3)), far = BNNSNDArrayDescriptor.empty(.vector(3))
    neighbors.apply(index: 5, outputIndices: near, outputDistances: far)
    report("neighbors", near.makeArray(of: Int32.self)!.map { Float($0) })
    report("neighbors.distances", far)
    let (all, distances) = (BNNSNDArrayDescriptor.allocate(repeating: Int32(0), shape: .matrixFirstMajor(8, 3)), BNNSNDArrayDescriptor.empty(.matrixFirstMajor(8, 3)))
    neighbors.apply(index: nil, outputIndices: all, outputDistances: distances)
    report("neighbors.all", all.makeArray(of: Int32.self)!.map { Float($0) })
}

func descriptors() {
    let rows = BNNSNDArrayDescriptor(dataType: .float, shape: [2, 3])
    precondition(rows.layout == BNNSDataLayout2DFirstMajor && rows.size.0 == 2 && rows.size.1 == 3 && rows.data == nil && rows.data_scale == 1)
    precondition(BNNS.Shape.imageCHW(5, 4, 3, stride: (1, 8, 40)).batchStride == 120 && BNNS.Shape([2, 3, 4]).batchStride == 24)
    precondition(BNNS.Shape.tensor3DFirstMajor(2, 3, 4, stride: (1, 6, 20)).batchStride == 40)
    for layout in BNNS.DataLayout.allCases {
        let sizes = Array(2..<2 + layout.rank)
        let shape = BNNS.Shape(sizes, dataLayout: layout)
        precondition(shape.rank == layout.rank && shape.layout == BNNSNDArrayDescriptor(dataType: .float, shape: shape).shape.layout)
        precondition(shape.batchStride == sizes.reduce(1, *), "\(layout)")
    }
    precondition(BNNS.DataLayout.allCases.count == 21 && BNNS.ArithmeticUnaryFunction.allCases.count == 27)
    var memory = numbers(12, 67)
    memory.withUnsafeMutableBufferPointer { buffer in
        precondition(BNNSNDArrayDescriptor(data: buffer, shape: .vector(12))!.makeArray(of: Float.self)! == numbers(12, 67))
        precondition(BNNSNDArrayDescriptor(data: buffer, shape: .vector(13)) == nil)
        precondition(BNNSNDArrayDescriptor(data: buffer, shape: .vector(4), batchSize: 3) != nil)
        precondition(BNNSNDArrayDescriptor(data: buffer, shape: .vector(4), batchSize: 4) == nil)
        let raw = UnsafeMutableRawBufferPointer(buffer)
        precondition(BNNSNDArrayDescriptor(data: raw, scalarType: Int8.self, shape: .vector(48))!.dataSize == 48)
        precondition(BNNSNDArrayDescriptor(data: raw, scalarType: Float.self, shape: .vector(5), batchSize: 3) == nil)
        precondition(BNNSNDArrayDescriptor(data: raw, scalarType: Float.self, shape: .vector(6), batchSize: 2)!.makeArray(of: Int32.self) == nil)
    }
    let wide = BNNSNDArrayDescriptor.allocate(initializingFrom: [7, 8] as [Int64], shape: .vector(2))
    precondition(wide.makeArray(of: Int.self)! == [7, 8] && rows.makeArray(of: Float.self) == nil)
    let half = BNNSNDArrayDescriptor.allocate(repeating: Float16(0.5), shape: .vector(2))
    precondition(half.data_type == .float16 && half.makeArray(of: Float16.self)! == [0.5, 0.5] && half.dataSize == 4)
    let parameters = BNNSFilterParameters(options: [.useClientPointer], threadCount: 3, allocator: nil, deallocator: nil)
    precondition(parameters.flags == 1 && parameters.threadCount == 3 && parameters.options.contains(.useClientPointer) && parameters.allocator == nil)
    precondition(BNNS.Norm.euclidean == .l2 && BNNS.Norm.maximum.rawValue == .infinity && BNNS.Norm.taxicab.rawValue == 1)
    let saturate = BNNSActivation.integerLinearSaturate(scale: 3, offset: 2, shift: 1)
    precondition(saturate.iscale == 3 && saturate.ioffset == 2 && saturate.ishift == 1 && saturate.alpha.isNaN)
    precondition(BNNSLayerData.zero.data == nil && BNNSActivation.identity.function == BNNSActivationFunctionIdentity)
}

func firstGeneration() {
    let (weights, bias) = (numbers(3 * 3 * 2 * 4, 68), numbers(4, 69))
    let x = numbers(8 * 7 * 2, 70)
    var y = [Float](repeating: 0, count: 6 * 5 * 4)
    weights.withUnsafeBytes { w in
        bias.withUnsafeBytes { b in
            var input = BNNSImageStackDescriptor(width: 8, height: 7, channels: 2, row_stride: 8, image_stride: 56, data_type: .float)
            var output = BNNSImageStackDescriptor(width: 6, height: 5, channels: 4, row_stride: 6, image_stride: 30, data_type: .float)
            var parameters = BNNSConvolutionLayerParameters(
                x_stride: 1, y_stride: 1, x_padding: 0, y_padding: 0, k_width: 3, k_height: 3, in_channels: 2, out_channels: 4,
                weights: BNNSLayerData(data: w.baseAddress!, data_type: .float))
            parameters.bias = BNNSLayerData(data: b.baseAddress!, data_type: .float)
            parameters.activation = BNNSActivation(function: .rectifiedLinear)
            let filter = BNNSFilterCreateConvolutionLayer(&input, &output, &parameters, nil)
            precondition(BNNSFilterApply(filter, x, &y) == 0)
            BNNSFilterDestroy(filter)
        }
    }
    report("first_generation.convolution", y)
    let fw = numbers(24, 71)
    var z = [Float](repeating: 0, count: 4)
    fw.withUnsafeBytes { w in
        var (input, output) = (BNNSVectorDescriptor(size: 6, data_type: .float), BNNSVectorDescriptor(size: 4, data_type: .float))
        var parameters = BNNSFullyConnectedLayerParameters(in_size: 6, out_size: 4, weights: BNNSLayerData(data: w.baseAddress!, data_type: .float))
        let filter = BNNSFilterCreateFullyConnectedLayer(&input, &output, &parameters, nil)
        precondition(BNNSFilterApply(filter, numbers(6, 72), &z) == 0)
        BNNSFilterDestroy(filter)
    }
    report("first_generation.fully_connected", z)
    var input = BNNSImageStackDescriptor(width: 8, height: 6, channels: 2, row_stride: 8, image_stride: 48, data_type: .float)
    var output = BNNSImageStackDescriptor(width: 4, height: 3, channels: 2, row_stride: 4, image_stride: 12, data_type: .float)
    var parameters = BNNSPoolingLayerParameters(
        x_stride: 2, y_stride: 2, x_padding: 0, y_padding: 0, k_width: 2, k_height: 2, in_channels: 2, out_channels: 2, pooling_function: .max)
    let filter = BNNSFilterCreatePoolingLayer(&input, &output, &parameters, nil)
    var pooled = [Float](repeating: 0, count: 24)
    precondition(BNNSFilterApply(filter, numbers(96, 73), &pooled) == 0)
    BNNSFilterDestroy(filter)
    report("first_generation.pooling", pooled)
}

@main
enum Program {
    static func main() throws {
        try activations()
        try arithmetic()
        try convolutions()
        try fullyConnected()
        try fused()
        try normalization()
        try pooling()
        try losses()
        try otherLayers()
        try functions()
        try optimizers()
        try randomNumbersAndNeighbors()
        descriptors()
        firstGeneration()
    }
}
