// Graphs that closures describe, in the manner of Apple's samples and with the results that Apple prints.
import Accelerate
import Foundation

typealias Precision = Float16
typealias SliceRange = BNNSGraph.Builder.SliceRange

@main
struct Program {
    static func main() async throws {
        try products()
        try exchangedTensors()
        try openSizes()
        try masks()
        try effect()
        try crops()
        try constants()
        try cells()
        try states()
        try layers()
        try await waiting()
        mistakes()
        print("passed")
    }

    /// Two results of one closure; tensors without memory at first.
    static func products() throws {
        let context = try BNNSGraph.makeContext {
            builder in

            let x = builder.argument(name: "x", dataType: Float.self, shape: [8])
            let y = builder.argument(name: "y", dataType: Float.self, shape: [8])
            let product = x * y
            let mean = product.mean(axes: [0], keepDimensions: true)
            check(mean.description == "shape: [1] | stride: [1]", "\(mean)")
            check(mean.rank == 1 && mean.shape == [1] && mean.stride == [1] && mean.dataType == .float, "properties")
            return [product, mean]
        }
        check(context.argumentNames().suffix(2) == ["x", "y"], "outputs come first")
        var arguments = context.argumentNames().map {
            name in
            return context.tensor(argument: name, fillKnownDynamicShapes: false)!
        }
        arguments[0].allocate(as: Float.self, count: 8)
        arguments[1].allocate(as: Float.self, count: 1)
        arguments[2].allocate(initializingFrom: [1, 2, 3, 4, 5, 6, 7, 8] as [Float])
        arguments[3].allocate(initializingFrom: [8, 7, 6, 5, 4, 3, 2, 1] as [Float])
        try context.executeFunction(arguments: &arguments)
        check(arguments[0].makeArray(of: Float.self) == [8, 14, 18, 20, 20, 18, 14, 8], "product")
        check(arguments[1].makeArray(of: Float.self) == [15], "mean")
        arguments.forEach {
            $0.deallocate()
        }
    }

    /// Tensors for numbers and for places, each in the other's position: only the memory counts, as in Apple's post-processing.
    static func exchangedTensors() throws {
        let context = try BNNSGraph.makeContext {
            builder in

            let x = builder.argument(name: "x", dataType: Float.self, shape: [-1])
            let best = x.topK(2, axis: 0, findLargest: true)
            return [best.values, best.indices]
        }
        let names = context.argumentNames()
        let places = context.allocateTensor(argument: names[0], fillKnownDynamicShapes: false)!
        let values = context.allocateTensor(argument: names[1], fillKnownDynamicShapes: false)!
        check(places.data_type == .float && values.data_type == .int32, "types of the first and the second output")
        let x = BNNSTensor.allocate(initializingFrom: [1, 5, 3] as [Float], shape: [3], stride: [1])
        var arguments = [values, places, x]
        defer { arguments.forEach { $0.deallocate() } }
        try context.executeFunction(arguments: &arguments)
        check(values.makeArray(of: Float.self) == [5, 3], "values")
        check(places.makeArray(of: Int32.self) == [1, 2], "places")
    }

    /// Sizes that are set after the tensors were made, and a closure in parentheses.
    static func openSizes() throws {
        let context = try BNNSGraph.makeContext({
            builder in

            let x = builder.argument(name: "x", dataType: Float.self, shape: [-1])
            let y = builder.argument(name: "y", dataType: Float.self, shape: [-1])
            let z = x + y
            check(z.shape == [-1], "an open size")
            return [z]
        })
        var arguments = context.argumentNames().map { context.tensor(argument: $0, fillKnownDynamicShapes: false)! }
        defer { arguments.forEach { $0.deallocate() } }
        let n = 8
        context.setBatchSize(n)
        arguments[context.argumentPosition(argument: "x")].allocate(initializingFrom: [1, 2, 3, 4, 5, 6, 7, 8] as [Float])
        arguments[context.argumentPosition(argument: "y")]
            .allocate(initializingFrom: [10, 20, 30, 40, 50, 60, 70, 80] as [Float])
        arguments[0].allocate(as: Float.self, count: n)
        try context.executeFunction(arguments: &arguments)
        check(arguments[0].makeArray(of: Float.self) == [11, 22, 33, 44, 55, 66, 77, 88], "sum")
    }

    /// Types that operations check, and selections.
    static func masks() throws {
        let context = try BNNSGraph.makeContext { builder in
            let limit = builder.argument(dataType: Float16.self, shape: [-1])
            let bases = builder.argument(dataType: Float16.self, shape: [-1])
            let exponents = builder.argument(dataType: Int32.self, shape: [-1])
            let mask: BNNSGraph.Builder.Tensor<Bool> = bases .< limit
            var result = bases.pow(y: exponents.cast(to: Float16.self))
            result = result * mask.cast(to: Float16.self)
            let other = (.!mask .| (bases .== bases)).select(bases, 0 as Float16) + (mask .& mask .^ mask).select(1, limit)
            return [result, other]
        }
        context.setBatchSize(4)
        let limit = tensor([2, 1, 4, 3] as [Float16], [4])
        let bases = tensor([1, 2, 3, 4] as [Float16], [4])
        let exponents = tensor([1, 2, 3, 4] as [Int32], [4])
        var arguments = [empty(Float16.self, [4]), empty(Float16.self, [4]), limit, bases, exponents]
        try context.executeFunction(arguments: &arguments)
        check(arguments[0].makeArray(of: Float16.self) == [1, 0, 27, 0], "masked")
        check(arguments[1].makeArray(of: Float16.self) == [3, 3, 7, 7], "selected")
        arguments.forEach { $0.deallocate() }
    }

    /// Sound that is distorted, with numbers as operands on both sides.
    static func effect() throws {
        let sampleCount = 4
        let context = try! BNNSGraph.makeContext(options: BNNSGraph.CompileOptions(useSingleThread: true)) {
            builder in

            var source = builder.argument(name: "source", dataType: Precision.self, shape: [sampleCount, 1, 1])
            let resolution = builder.argument(name: "resolution", dataType: Precision.self, shape: [1, 1, 1])
            let gain = builder.argument(name: "gain", dataType: Precision.self, shape: [1, 1, 1])
            var mix = builder.argument(name: "mix", dataType: Precision.self, shape: [1, 1, 1])
            var destination = source * gain
            destination = destination.tanh()
            destination = destination * resolution
            destination = destination.round()
            destination = destination / resolution
            destination = destination * mix
            mix = Precision(1) - mix
            source = source * mix
            destination = destination + source
            return [destination]
        }
        let source: [Precision] = [0.125, 0.25, -0.5, 1]
        let pointers = [[0, 0, 0, 0], source, [8], [2], [0.75]].map { values -> UnsafeMutableBufferPointer<Precision> in
            let memory = UnsafeMutableBufferPointer<Precision>.allocate(capacity: values.count)
            _ = memory.initialize(from: values)
            return memory
        }
        defer { pointers.forEach { $0.deallocate() } }
        try context.executeFunction(arguments: pointers)
        let wanted = source.map { x -> Float in
            (tanh(Float(x) * 2) * 8).rounded() / 8 * 0.75 + Float(x) * 0.25
        }
        for (found, wanted) in zip(pointers[0], wanted) { check(abs(Float(found) - wanted) < 2e-3, "\(found), not \(wanted)") }
    }

    /// Ranges of every kind, and assignments to slices.
    static func crops() throws {
        let margin = 1
        let context = try BNNSGraph.makeContext { builder in
            let source = builder.argument(name: "source", dataType: Float.self, shape: [-1, -1, 3])
            let cropped = source [
                SliceRange(startIndex: margin, endIndex: -margin),
                BNNSGraph.Builder.SliceRange(startIndex: 2, endIndex: -2),
                SliceRange.fillAll
            ]
            let parts = [source[1...2, 0..<2, 1], source[..<2, 1..., 0][...1, ..<2], source[SliceRange.fillAll, -1][0..<2, 0..<2]]
            check(parts.map { $0.rank } == [2, 2, 2], "numbers drop axes")
            var changed = source
            changed[0..<1, 0..<1, 2] = source[1..<2, 1..<2, 0]
            return [cropped] + parts + [changed, source * Float(1)]
        }
        let source = tensor((0..<72).map(Float.init), [4, 6, 3])
        var arguments = context.argumentNames().dropLast().map { _ in BNNSTensor() } + [source]
        try context.executeFunction(arguments: &arguments)
        let found = arguments.map { $0.makeArray(of: Float.self) }
        check(found[0] == [24, 25, 26, 27, 28, 29, 42, 43, 44, 45, 46, 47], "crop")
        check(found[1] == [19, 22, 37, 40], "ranges")
        check(found[2] == [3, 6, 21, 24], "open ranges")
        check(found[3] == [2, 5, 20, 23], "all axes but the last, of which the end")
        check(found[4] == [0, 1, 21] + found[6].dropFirst(3), "a changed part")
        check(found[5] == found[6], "the tensor as it was")
        source.deallocate()
    }

    /// Constants of every kind, without any argument.
    static func constants() throws {
        let matrices: ([[Float]], [[Float]]) = ([[1, 2], [3, 4]], [[5, 6], [7, 8]])
        let context = try BNNSGraph.makeContext({ builder in
            let x = builder.constant(name: "x", value: Float(10))
            let y = builder.constant(name: "y", values: [1, 2, 3, 4, 5, 6, 7, 8] as [Float])
            let product = builder.constant(values: matrices.0).matmul(other: builder.constant(values: matrices.1))
            let dot = ([0, 1, 2, 3, 4, 5] as [Float])[1...4].graphBuilderTensor(builder)
                .matmul(transpose: true, other: ([5, 6, 7, 8] as ContiguousArray<Float>))
            let pointer = ([1, 2, 3, 4] as [Float]).withUnsafeBufferPointer { $0.graphBuilderTensor(builder) }
            let both = builder.concatenate([pointer, pointer * pointer], axis: 0)
            let mixed = Float(2) - (Float(1) + y) * Float(3) / (y * y + Float(1)) - ([1, 1, 1, 1, 1, 1, 1, 1] as [Float])
            let top = y.topK(2, axis: 0, findLargest: true)
            let halves = builder.constant(values: [[0.5, 1], [1.5, 2]] as [[Float16]]).cast(to: Float.self)
            return [
                x + y, product, dot, both, mixed, top.values, top.indices.cast(to: Float.self), y % Float(3), y.clip(to: 2...5),
                y.clip(to: 7 ... .infinity), builder.constant(values: [1, 2, 3, 4] as [Float], shape: [2, 2]).transpose(axes: [1, 0]),
                halves, y.max(y: Float(4)), y.fma(y: Float(2), z: y),
            ]
        })
        var results = context.argumentNames().map { context.allocateTensor(argument: $0, fillKnownDynamicShapes: false)! }
        defer { results.forEach { $0.deallocate() } }
        try context.executeFunction(arguments: &results)
        let found = results.map { $0.makeArray(of: Float.self) }
        let mixed: [Float] = [-2, -0.8, -0.2, 0.11764706, 0.30769232, 0.43243244, 0.52, 0.5846154]
        check(found[0] == [11, 12, 13, 14, 15, 16, 17, 18], "sum")
        check(found[1] == [19, 22, 43, 50] && results[1].count == 4, "rows")
        check(found[2] == [70] && found[3] == [1, 2, 3, 4, 1, 4, 9, 16], "slices and pointers")
        check(zip(found[4], mixed).allSatisfy { abs($0 - $1) < 1e-5 }, "\(found[4])")
        check(found[5] == [8, 7] && found[6] == [7, 6], "the largest")
        check(found[7] == [1, 2, 0, 1, 2, 0, 1, 2] && found[8] == [2, 2, 3, 4, 5, 5, 5, 5], "rest and range")
        check(found[9] == [7, 7, 7, 7, 7, 7, 7, 8] && found[10] == [1, 3, 2, 4] && found[11] == [0.5, 1, 1.5, 2], "more")
        check(found[12] == [4, 4, 4, 4, 5, 6, 7, 8] && found[13] == [3, 6, 9, 12, 15, 18, 21, 24], "operands")
    }

    /// Cells, whose results have names.
    static func cells() throws {
        let (steps, batch, inputs, hidden) = (3, 2, 2, 1)
        let context = try BNNSGraph.makeContext { builder in
            let x = builder.argument(name: "x", dataType: Float.self, shape: [steps, batch, inputs])
            let h = builder.constant(values: [Float](repeating: 0, count: batch * hidden), shape: [batch, hidden])
            let w = builder.constant(values: [0.5, -0.25] as [Float], shape: [hidden, inputs])
            let u = builder.constant(values: [0.75] as [Float], shape: [hidden, hidden])
            let b = builder.constant(values: [0.125] as [Float])
            let cell = x.rnn(
                initialHiddenStates: h, inputHiddenWeight: w, hiddenHiddenWeight: u, bias: b, direction: .forward, activation: .relu,
                outputSequence: true)
            func four(_ values: [Float], _ shape: [Int]) -> BNNSGraph.Builder.Tensor<Float> {
                builder.constant(values: [[Float]](repeating: values, count: 4).flatMap { $0 }, shape: shape)
            }
            let long = x.lstm(
                initialHiddenStates: h, initialCellStates: h, inputHiddenWeight: four([0.5, -0.25], [4, 2]),
                hiddenHiddenWeight: four([0.75], [4, 1]), bias: four([0.125], [4]),
                direction: .forward, activation: .tanh, recurrentActivation: .sigmoid, cellActivation: .tanh, outputSequence: false)
            return [cell.output, cell.hiddenStates, long.output, long.hiddenStates, long.memoryStates]
        }
        let x: [Float] = [1, 2, 3, 4, -1, 2, 0, 1, 2, 2, 1, 0]
        var arguments = (0..<5).map { _ in BNNSTensor() } + [tensor(x, [steps, batch, inputs])]
        try context.executeFunction(arguments: &arguments)
        var states: [Float] = [0, 0], outputs: [Float] = []
        for step in 0..<steps {
            for sample in 0..<batch {
                let at = step * 4 + sample * 2
                states[sample] = max(0, 0.5 * x[at] - 0.25 * x[at + 1] + 0.75 * states[sample] + 0.125)
                outputs.append(states[sample])
            }
        }
        check(arguments[0].makeArray(of: Float.self) == outputs, "\(arguments[0].makeArray(of: Float.self)), not \(outputs)")
        check(arguments[1].makeArray(of: Float.self) == states, "states")
        check(arguments[3].makeArray(of: Float.self).allSatisfy { abs($0) < 1 && $0 != 0 }, "long")
        check(arguments[2].makeArray(of: Float.self) == arguments[3].makeArray(of: Float.self), "the last output")
        arguments[5].deallocate()
    }

    /// A state that assignments to its slices change.
    static func states() throws {
        let context = try BNNSGraph.makeContext { builder in
            var past = builder.argument(name: "past", dataType: Float.self, shape: [3], intent: .inputOutput)
            let x = builder.argument(name: "x", dataType: Float.self, shape: [2])
            let before = past
            past[0..<2] = past[0..<2] + x
            return [past.sum(axes: [0], keepDimensions: true), before.sum(axes: [0], keepDimensions: true)]
        }
        let past = tensor([1, 2, 3] as [Float], [3]), x = tensor([10, 20] as [Float], [2])
        defer { [past, x].forEach { $0.deallocate() } }
        for sums in [[36, 6], [66, 36]] as [[Float]] {
            var arguments = [BNNSTensor(), BNNSTensor(), past, x]
            try context.executeFunction(arguments: &arguments)
            check(arguments.prefix(2).flatMap { $0.makeArray(of: Float.self) } == sums, "sums")
        }
        check(past.makeArray(of: Float.self) == [21, 42, 3], "the state")
    }

    /// A convolution network whose weights are arrays, and softmax of an attention.
    static func layers() throws {
        let context = try BNNSGraph.makeContext { builder in
            let image = builder.argument(name: "image", dataType: Float.self, shape: [1, 1, 4, 4])
            let kernel = builder.constant(values: [1, 0, 0, 1] as [Float], shape: [1, 1, 2, 2])
            let features = image.conv(weight: kernel, strides: [1, 1], bias: [0.5] as [Float], padding: .custom(padding: [0, 1, 0, 1]))
                .batchNorm(mean: [0] as [Float], variance: [1] as [Float], epsilon: 0)
                .leakyReLU()
                .pooling(.max, kernelSize: [2, 2], strides: [2, 2], padding: .valid, ceilingMode: .floor)
            let average = image.pooling(
                .average(includePadding: false), kernelSize: [2, 2], strides: [2, 2], padding: .custom(padding: [1, 1, 1, 1]),
                ceilingMode: .floor)
            let flat = features.reshape(to: [1, 4])
            let scores = flat.linear(weight: builder.constant(values: [[1, 0, 0, 0], [0, 0, 0, 1]] as [[Float]]), bias: [1, 1] as [Float])
            let q = image.squeeze(axis: 0).squeeze(axis: 0)
            let attention = (q.matmul(other: q, transposeOther: true) * Float(0.5)).softmax(axis: 1)
            return [
                scores, average, attention.sum(axes: [1], keepDimensions: false),
                image.pad(.constant(value: -1), padding: [0, 0, 0, 0, 1, 0, 0, 0]).minimum(axes: [3], keepDimensions: false),
                scores.layerNorm(axes: [1]), image.gather(indices: [3, 0] as [Int32], axis: 2, batchDimensionCount: 0),
            ]
        }
        let pixels = (0..<16).map(Float.init)
        var arguments = (0..<6).map { _ in BNNSTensor() } + [tensor(pixels, [1, 1, 4, 4])]
        try context.executeFunction(arguments: &arguments)
        let found = arguments.map { $0.makeArray(of: Float.self) }
        check(found[0] == [16.5, 26.5], "\(found[0])")
        check(found[1] == [0, 1.5, 3, 6, 7.5, 9, 12, 13.5, 15], "\(found[1])")
        check(found[2].allSatisfy { abs($0 - 1) < 1e-6 }, "rows of a softmax")
        check(found[3] == [-1, 0, 4, 8, 12], "\(found[3])")
        check(zip(found[4], [-1, 1] as [Float]).allSatisfy { abs($0 - $1) < 1e-3 }, "\(found[4])")
        check(found[5] == [12, 13, 14, 15, 0, 1, 2, 3], "\(found[5])")
        arguments[6].deallocate()
    }

    /// What programs of macOS 15 wait for.
    static func waiting() async throws {
        let context = try BNNSGraph.makeContext { builder in
            [builder.argument(name: "x", dataType: Float.self, shape: [-1, 2]).relu()]
        }
        await context.setBatchSize(2)
        let shapes = try await context.setDynamicShapes([[], [1, 2]])
        check(shapes.map { $0.dimensions } == [[], [1, 2]] || shapes[1].dimensions == [1, 2], "\(shapes)")
        var arguments = [BNNSTensor(), tensor([-1, 1] as [Float], [1, 2])]
        try await context.executeFunction(arguments: &arguments)
        check(arguments[0].makeArray(of: Float.self) == [0, 1], "executed")
        arguments[1].deallocate()
    }

    /// The first operation that is refused is the reason of the error.
    static func mistakes() {
        do {
            _ = try BNNSGraph.makeContext { builder in
                let x = builder.argument(dataType: Float.self, shape: [3])
                let y = x + ([1, 2] as [Float])
                check(y.shape == nil && y.rank == nil && y.description.contains("refused"), "\(y)")
                return [y.relu()[0...9], x.topK(1, axis: 0, findLargest: true).indices]
            }
            check(false, "shapes that do not fit")
        } catch {
            check("\(error)".contains("openbnns_graph_builder_add: add"), "\(error)")
        }
        do {
            _ = try BNNSGraph.makeContext { _ in [] }
            check(false, "no outputs")
        } catch BNNSGraph.Error.unableToCreateGraph {
        } catch {
            check(false, "\(error)")
        }
        do {
            _ = try BNNSGraph.makeContext { builder in
                [builder.argument(name: "a \"name\"\n", dataType: Int64.self, shape: [1]).sqrt()]
            }
            check(false, "roots of whole numbers")
        } catch {
            check("\(error)".contains("sqrt"), "\(error)")
        }
    }

    static func tensor<T: BNNSScalar>(_ values: [T], _ shape: [Int]) -> BNNSTensor {
        .allocate(initializingFrom: values, shape: shape, stride: strides(shape))
    }

    static func empty(_ type: any BNNSScalar.Type, _ shape: [Int]) -> BNNSTensor {
        .allocateUninitialized(scalarType: type, shape: shape, stride: strides(shape))
    }

    static func strides(_ shape: [Int]) -> [Int] { shape.indices.map { shape[($0 + 1)...].reduce(1, *) } }

    static func check(_ condition: Bool, _ what: String) {
        guard condition else { fatalError(what) }
    }
}
