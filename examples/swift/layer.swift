// A fully connected layer with a ReLU, forward and backward.
//
//     swiftc layer.swift $(openbnns swift-flags) && ./layer
//
// It calls the C functions; digits.swift uses the classes of Apple's overlay.

import Accelerate

func vector(_ count: Int, _ data: UnsafeMutableRawPointer? = nil) -> BNNSNDArrayDescriptor {
    var d = BNNSNDArrayDescriptor()
    d.layout = BNNSDataLayoutVector
    d.size.0 = count
    d.data = data
    d.data_type = BNNSDataTypeFloat32
    return d
}

func check(_ status: Int32, _ what: String) {
    if status != 0 {
        fatalError("\(what): \(String(cString: openbnns_last_error()))")
    }
}

let (inputs, outputs) = (3, 2)
var weights: [Float] = [1, 2, 3, -1, 0, 1]  // [outputs][inputs]
var x: [Float] = [1, 1, 1]
var y = [Float](repeating: 0, count: outputs)
var dx = [Float](repeating: 0, count: inputs)
var dw = [Float](repeating: 0, count: inputs * outputs)
var dy: [Float] = [1, 1]

weights.withUnsafeMutableBytes { w in
    var layer = BNNSLayerParametersFullyConnected()
    layer.i_desc = vector(inputs)
    layer.o_desc = vector(outputs)
    layer.w_desc = vector(inputs, w.baseAddress)
    layer.w_desc.layout = BNNSDataLayoutRowMajorMatrix
    layer.w_desc.size.1 = outputs
    layer.activation.function = BNNSActivationFunctionRectifiedLinear
    guard let filter = BNNSFilterCreateLayerFullyConnected(&layer, nil) else {
        fatalError("creation: \(String(cString: openbnns_last_error()))")
    }
    defer { BNNSFilterDestroy(filter) }

    check(BNNSFilterApply(filter, x, &y), "forward")
    dx.withUnsafeMutableBytes { dxBytes in
        dw.withUnsafeMutableBytes { dwBytes in
            dy.withUnsafeMutableBytes { dyBytes in
                var inDelta = vector(inputs, dxBytes.baseAddress)
                var outDelta = vector(outputs, dyBytes.baseAddress)
                var weightsDelta = layer.w_desc
                weightsDelta.data = dwBytes.baseAddress
                check(
                    BNNSFilterApplyBackwardBatch(
                        filter, 1, x, inputs, &inDelta, inputs, y, outputs, &outDelta, outputs, &weightsDelta, nil),
                    "backward")
            }
        }
    }
}

precondition(y == [6, 0] && dx == [1, 2, 3] && dw == [1, 1, 1, 0, 0, 0])
print(y, dx, dw, "all numbers are right")
