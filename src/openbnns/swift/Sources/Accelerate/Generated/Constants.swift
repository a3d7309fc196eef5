// Written by tools/generate_swift.py: edit its facts, not this file.

extension BNNSDataType {
    public static var float16: BNNSDataType { BNNSDataTypeFloat16 }
    public static var float: BNNSDataType { BNNSDataTypeFloat32 }
    public static var int8: BNNSDataType { BNNSDataTypeInt8 }
    public static var int16: BNNSDataType { BNNSDataTypeInt16 }
    public static var int32: BNNSDataType { BNNSDataTypeInt32 }
    public static var indexed8: BNNSDataType { BNNSDataTypeIndexed8 }
    public static var uint8: BNNSDataType { BNNSDataTypeUInt8 }
    public static var uint16: BNNSDataType { BNNSDataTypeUInt16 }
    public static var uint32: BNNSDataType { BNNSDataTypeUInt32 }
}

extension BNNSPoolingFunction {
    public static var max: BNNSPoolingFunction { BNNSPoolingFunctionMax }
    public static var average: BNNSPoolingFunction { BNNSPoolingFunctionAverageCountIncludePadding }
}

extension BNNSActivationFunction {
    public static var identity: BNNSActivationFunction { BNNSActivationFunctionIdentity }
    public static var rectifiedLinear: BNNSActivationFunction { BNNSActivationFunctionRectifiedLinear }
    public static var leakyRectifiedLinear: BNNSActivationFunction { BNNSActivationFunctionLeakyRectifiedLinear }
    public static var sigmoid: BNNSActivationFunction { BNNSActivationFunctionSigmoid }
    public static var tanh: BNNSActivationFunction { BNNSActivationFunctionTanh }
    public static var scaledTanh: BNNSActivationFunction { BNNSActivationFunctionScaledTanh }
    public static var abs: BNNSActivationFunction { BNNSActivationFunctionAbs }
    public static var linear: BNNSActivationFunction { BNNSActivationFunctionLinear }
    public static var clamp: BNNSActivationFunction { BNNSActivationFunctionClamp }
    public static var integerLinearSaturate: BNNSActivationFunction { BNNSActivationFunctionIntegerLinearSaturate }
    public static var integerLinearSaturatePerChannel: BNNSActivationFunction { BNNSActivationFunctionIntegerLinearSaturatePerChannel }
    public static var softmax: BNNSActivationFunction { BNNSActivationFunctionSoftmax }
}

extension Float: BNNSScalar {
    public static var bnnsDataType: BNNSDataType { BNNSDataTypeFloat32 }
}

extension Float16: BNNSScalar {
    public static var bnnsDataType: BNNSDataType { BNNSDataTypeFloat16 }
}

extension Bool: BNNSScalar {
    public static var bnnsDataType: BNNSDataType { BNNSDataTypeBoolean }
}

extension Int8: BNNSScalar {
    public static var bnnsDataType: BNNSDataType { BNNSDataTypeInt8 }
}

extension Int16: BNNSScalar {
    public static var bnnsDataType: BNNSDataType { BNNSDataTypeInt16 }
}

extension Int32: BNNSScalar {
    public static var bnnsDataType: BNNSDataType { BNNSDataTypeInt32 }
}

extension Int64: BNNSScalar {
    public static var bnnsDataType: BNNSDataType { BNNSDataTypeInt64 }
}

extension UInt8: BNNSScalar {
    public static var bnnsDataType: BNNSDataType { BNNSDataTypeUInt8 }
}

extension UInt16: BNNSScalar {
    public static var bnnsDataType: BNNSDataType { BNNSDataTypeUInt16 }
}

extension UInt32: BNNSScalar {
    public static var bnnsDataType: BNNSDataType { BNNSDataTypeUInt32 }
}

extension UInt64: BNNSScalar {
    public static var bnnsDataType: BNNSDataType { BNNSDataTypeUInt64 }
}
