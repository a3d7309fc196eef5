// Core ML programs as Swift programs on a Mac compile and execute them.
import Accelerate
import Foundation

let text = """
    program(1.3) { func main<ios16>(tensor<fp32, [?, 3]> x) {
      tensor<fp32, [3]> b = const()[val = tensor<fp32, [3]>([1, 0, -1])];
      tensor<fp32, [?, 3]> s = add(x = x, y = b);
      tensor<fp32, [?, 3]> z = relu(x = s); } -> (z); }
    """

@main
struct Program {
    static func main() async throws {
        let path = FileManager.default.temporaryDirectory.appendingPathComponent("\(UUID()).mil").path
        try text.write(toFile: path, atomically: true, encoding: .utf8)
        defer { try? FileManager.default.removeItem(atPath: path) }
        try atOnce(path)
        try await waiting(path)
        print("passed")
    }

    static func atOnce(_ path: String) throws {
        let options = BNNSGraph.CompileOptions(generateDebugInfo: true)
        let context = try BNNSGraph.Context(compileFromPath: path, functionName: nil, options: options)
        check(context.functionCount == 1 && context.functionNames == ["main"], "functions")
        check(context.argumentCount() == 2 && context.argumentNames() == ["z", "x"], "arguments")
        check(context.argumentPosition(argument: "x") == 1, "position")
        check(context.argumentPosition(argument: "y") < 0 || context.argumentPosition(argument: "y") == .max, "no argument")
        check(context.tensor(argument: "y", fillKnownDynamicShapes: true) == nil, "no tensor")
        check(context.tensor(argument: "x", fillKnownDynamicShapes: false)!.shape.0 == -1, "an open size")
        check(context.allocateTensor(argument: "x", fillKnownDynamicShapes: true) == nil, "sizes are not known")

        // Memory.
        context.setBatchSize(2)
        var x: [Float] = [1, 2, 3, -4, 5, -6]
        var z = [Float](repeating: -1, count: 6)
        try z.withUnsafeMutableBufferPointer { z in
            try x.withUnsafeMutableBufferPointer { x in try context.executeFunction(arguments: [z, x]) }
        }
        check(z == [2, 2, 2, 0, 5, 0], "\(z)")

        // Tensors.
        context.setBatchSize(1)
        let own = BNNSTensor.allocate(initializingFrom: [1, 2, 3] as [Float], shape: [1, 3], stride: [3, 1])
        var results = [context.allocateTensor(argument: "z", fillKnownDynamicShapes: true)!, own]
        context.checkForNaNsAndInfinities = true
        try context.executeFunction(arguments: &results)
        check(results[0].makeArray(of: Float.self) == [2, 2, 2], "allocated tensors")
        for place in results.indices { results[place].deallocate() }

        // Mistakes.
        do {
            _ = try BNNSGraph.Context(compileFromPath: path + ".not", functionName: nil, options: .init())
            check(false, "a file that is not there")
        } catch let error as BNNSGraph.Error {
            check("\(error)".contains("could not be compiled"), "\(error)")
            check("\(error)".contains(".not"), "\(error)")
        }
        do {
            try context.executeFunction(arguments: [UnsafeMutableBufferPointer<Float>]())
            check(false, "no arguments")
        } catch BNNSGraph.Error.unableToExecute {
        }
    }

    /// The same for programs that wait, and open sizes that are set one by one.
    static func waiting(_ path: String) async throws {
        let context = try await BNNSGraph.Context(compileFromPath: path, functionName: nil, options: .init())
        await context.setBatchSize(2)
        let shapes = try await context.setDynamicShapes([[], [1, 3]])
        check(shapes.count == 2 && shapes[1].dimensions == [1, 3], "\(shapes)")
        var arguments = context.argumentNames().map { context.tensor(argument: $0, fillKnownDynamicShapes: true)! }
        arguments[0].allocate(as: Float.self, count: 3)
        arguments[1].allocate(initializingFrom: [-1, 5, 7] as [Float])
        try await context.executeFunction(arguments: &arguments)
        check(arguments[0].makeArray(of: Float.self) == [0, 5, 6], "tensors")
        for place in arguments.indices { arguments[place].deallocate() }
        do {
            try await context.setDynamicShapes([[], [2, 4]])
            check(false, "a size that the program fixes")
        } catch BNNSGraph.Error.unableToSetDynamicShapes {
        }
    }

    static func check(_ condition: Bool, _ what: String) {
        guard condition else { fatalError(what) }
    }
}
