// Conversions between element types, as pixels need them before and after a network. Numbers that an integer type does not have
// become the nearest that it has, and NaN becomes 0.

/// Integers that floating-point numbers can become.
public protocol vDSP_IntegerConvertable: FixedWidthInteger {}

extension Int8: vDSP_IntegerConvertable {}
extension UInt8: vDSP_IntegerConvertable {}
extension Int16: vDSP_IntegerConvertable {}
extension UInt16: vDSP_IntegerConvertable {}
extension Int32: vDSP_IntegerConvertable {}
extension UInt32: vDSP_IntegerConvertable {}

/// Floating-point numbers that integers can become.
public protocol vDSP_FloatingPointConvertable: BinaryFloatingPoint {}

extension Float: vDSP_FloatingPointConvertable {}
extension Double: vDSP_FloatingPointConvertable {}

extension vDSP {
    /// Integers by cutting digits off, or the nearest, of two the even one.
    public enum RoundingMode {
        case towardZero
        case towardNearestInteger
    }

    /// Elements as integers.
    public static func floatingPointToInteger<T, U>(_ vector: T, integerType: U.Type, rounding: RoundingMode) -> [U]
    where T: AccelerateBuffer, U: vDSP_IntegerConvertable, T.Element: vDSP_FloatingPointConvertable {
        vector.withUnsafeBufferPointer { $0.map { integer($0, rounding) } }
    }

    /// Elements as floating-point numbers.
    public static func integerToFloatingPoint<T, U>(_ vector: T, floatingPointType: U.Type) -> [U]
    where T: AccelerateBuffer, U: vDSP_FloatingPointConvertable, T.Element: vDSP_IntegerConvertable {
        vector.withUnsafeBufferPointer { $0.map { U($0) } }
    }

    /// Elements as integers.
    public static func convertElements<U, V>(of source: U, to destination: inout V, rounding: RoundingMode)
    where
        U: AccelerateBuffer, V: AccelerateMutableBuffer, U.Element: vDSP_FloatingPointConvertable,
        V.Element: vDSP_IntegerConvertable
    {
        convert(source, &destination) { integer($0, rounding) }
    }

    /// Elements as floating-point numbers.
    public static func convertElements<U, V>(of source: U, to destination: inout V)
    where
        U: AccelerateBuffer, V: AccelerateMutableBuffer, U.Element: vDSP_IntegerConvertable,
        V.Element: vDSP_FloatingPointConvertable
    {
        convert(source, &destination) { V.Element($0) }
    }

    /// Elements limited to a range.
    public static func clip<U>(_ vector: U, to bounds: ClosedRange<U.Element>) -> [U.Element]
    where U: AccelerateBuffer, U.Element: vDSP_FloatingPointConvertable {
        mapped(vector) { min(max($0, bounds.lowerBound), bounds.upperBound) }
    }

    /// Elements limited to a range, written to a vector.
    public static func clip<U, V>(_ vector: U, to bounds: ClosedRange<U.Element>, result: inout V)
    where U: AccelerateBuffer, V: AccelerateMutableBuffer, U.Element: vDSP_FloatingPointConvertable, U.Element == V.Element {
        map(vector, &result) { min(max($0, bounds.lowerBound), bounds.upperBound) }
    }

    static func integer<T: BinaryFloatingPoint, U: FixedWidthInteger>(_ value: T, _ rounding: RoundingMode) -> U {
        let whole = value.rounded(rounding == .towardZero ? .towardZero : .toNearestOrEven)
        return whole.isNaN ? 0 : U(exactly: whole) ?? (whole < 0 ? .min : .max)
    }

    private static func convert<U, V>(_ source: U, _ destination: inout V, _ function: (U.Element) -> V.Element)
    where U: AccelerateBuffer, V: AccelerateMutableBuffer {
        require(source.count == destination.count, "vDSP: the vectors have different numbers of elements")
        source.withUnsafeBufferPointer { x in
            destination.withUnsafeMutableBufferPointer { y in
                for place in x.indices { y[place] = function(x[place]) }
            }
        }
    }
}

/// Bytes as floating-point numbers.
public func vDSP_vfltu8(
    _ __A: UnsafePointer<UInt8>, _ __IA: vDSP_Stride, _ __C: UnsafeMutablePointer<Float>, _ __IC: vDSP_Stride,
    _ __N: vDSP_Length
) {
    for place in 0..<Int(__N) { __C[place * __IC] = Float(__A[place * __IA]) }
}

/// Floating-point numbers as bytes, without the digits behind the point.
public func vDSP_vfixu8(
    _ __A: UnsafePointer<Float>, _ __IA: vDSP_Stride, _ __C: UnsafeMutablePointer<UInt8>, _ __IC: vDSP_Stride,
    _ __N: vDSP_Length
) {
    for place in 0..<Int(__N) { __C[place * __IC] = vDSP.integer(__A[place * __IA], .towardZero) }
}

/// Floating-point numbers as the nearest bytes.
public func vDSP_vfixru8(
    _ __A: UnsafePointer<Float>, _ __IA: vDSP_Stride, _ __C: UnsafeMutablePointer<UInt8>, _ __IC: vDSP_Stride,
    _ __N: vDSP_Length
) {
    for place in 0..<Int(__N) { __C[place * __IC] = vDSP.integer(__A[place * __IA], .towardNearestInteger) }
}
