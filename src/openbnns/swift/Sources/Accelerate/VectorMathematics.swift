// Exponentials, logarithms, square roots and hyperbolic tangents of vectors, as vForce has them.

/// Mathematical functions of each element of a vector.
public enum vForce {}

extension vForce {
    /// e to the power of each element.
    public static func exp<U>(_ vector: U) -> [Float] where U: AccelerateBuffer, U.Element == Float {
        vector.withUnsafeBufferPointer { $0.map(openbnns_expf) }
    }

    /// e to the power of each element, written to a vector.
    public static func exp<U, V>(_ vector: U, result: inout V)
    where U: AccelerateBuffer, V: AccelerateMutableBuffer, U.Element == Float, V.Element == Float {
        vDSP.map(vector, &result, openbnns_expf)
    }

    /// Natural logarithms of elements.
    public static func log<U>(_ vector: U) -> [Float] where U: AccelerateBuffer, U.Element == Float {
        vector.withUnsafeBufferPointer { $0.map(openbnns_logf) }
    }

    /// Natural logarithms of elements, written to a vector.
    public static func log<U, V>(_ vector: U, result: inout V)
    where U: AccelerateBuffer, V: AccelerateMutableBuffer, U.Element == Float, V.Element == Float {
        vDSP.map(vector, &result, openbnns_logf)
    }

    /// Square roots of elements.
    public static func sqrt<U>(_ vector: U) -> [Float] where U: AccelerateBuffer, U.Element == Float {
        vector.withUnsafeBufferPointer { $0.map { $0.squareRoot() } }
    }

    /// Square roots of elements, written to a vector.
    public static func sqrt<U, V>(_ vector: U, result: inout V)
    where U: AccelerateBuffer, V: AccelerateMutableBuffer, U.Element == Float, V.Element == Float {
        vDSP.map(vector, &result) { $0.squareRoot() }
    }

    /// Hyperbolic tangents of elements.
    public static func tanh<U>(_ vector: U) -> [Float] where U: AccelerateBuffer, U.Element == Float {
        vector.withUnsafeBufferPointer { $0.map(openbnns_tanhf) }
    }

    /// Hyperbolic tangents of elements, written to a vector.
    public static func tanh<U, V>(_ vector: U, result: inout V)
    where U: AccelerateBuffer, V: AccelerateMutableBuffer, U.Element == Float, V.Element == Float {
        vDSP.map(vector, &result, openbnns_tanhf)
    }
}

extension vForce {
    /// e to the power of each element.
    public static func exp<U>(_ vector: U) -> [Double] where U: AccelerateBuffer, U.Element == Double {
        vector.withUnsafeBufferPointer { $0.map(openbnns_exp) }
    }

    /// e to the power of each element, written to a vector.
    public static func exp<U, V>(_ vector: U, result: inout V)
    where U: AccelerateBuffer, V: AccelerateMutableBuffer, U.Element == Double, V.Element == Double {
        vDSP.map(vector, &result, openbnns_exp)
    }

    /// Natural logarithms of elements.
    public static func log<U>(_ vector: U) -> [Double] where U: AccelerateBuffer, U.Element == Double {
        vector.withUnsafeBufferPointer { $0.map(openbnns_log) }
    }

    /// Natural logarithms of elements, written to a vector.
    public static func log<U, V>(_ vector: U, result: inout V)
    where U: AccelerateBuffer, V: AccelerateMutableBuffer, U.Element == Double, V.Element == Double {
        vDSP.map(vector, &result, openbnns_log)
    }

    /// Square roots of elements.
    public static func sqrt<U>(_ vector: U) -> [Double] where U: AccelerateBuffer, U.Element == Double {
        vector.withUnsafeBufferPointer { $0.map { $0.squareRoot() } }
    }

    /// Square roots of elements, written to a vector.
    public static func sqrt<U, V>(_ vector: U, result: inout V)
    where U: AccelerateBuffer, V: AccelerateMutableBuffer, U.Element == Double, V.Element == Double {
        vDSP.map(vector, &result) { $0.squareRoot() }
    }

    /// Hyperbolic tangents of elements.
    public static func tanh<U>(_ vector: U) -> [Double] where U: AccelerateBuffer, U.Element == Double {
        vector.withUnsafeBufferPointer { $0.map(openbnns_tanh) }
    }

    /// Hyperbolic tangents of elements, written to a vector.
    public static func tanh<U, V>(_ vector: U, result: inout V)
    where U: AccelerateBuffer, V: AccelerateMutableBuffer, U.Element == Double, V.Element == Double {
        vDSP.map(vector, &result, openbnns_tanh)
    }
}

// The same in the names of C; a name with f at its end is for Float.

/// e to the power of each element.
public func vvexpf(_ y: UnsafeMutablePointer<Float>, _ x: UnsafePointer<Float>, _ n: UnsafePointer<Int32>) {
    for place in 0..<Int(n.pointee) { y[place] = openbnns_expf(x[place]) }
}

/// e to the power of each element.
public func vvexp(_ y: UnsafeMutablePointer<Double>, _ x: UnsafePointer<Double>, _ n: UnsafePointer<Int32>) {
    for place in 0..<Int(n.pointee) { y[place] = openbnns_exp(x[place]) }
}

/// Natural logarithms of elements.
public func vvlogf(_ y: UnsafeMutablePointer<Float>, _ x: UnsafePointer<Float>, _ n: UnsafePointer<Int32>) {
    for place in 0..<Int(n.pointee) { y[place] = openbnns_logf(x[place]) }
}

/// Natural logarithms of elements.
public func vvlog(_ y: UnsafeMutablePointer<Double>, _ x: UnsafePointer<Double>, _ n: UnsafePointer<Int32>) {
    for place in 0..<Int(n.pointee) { y[place] = openbnns_log(x[place]) }
}

/// Square roots of elements.
public func vvsqrtf(_ y: UnsafeMutablePointer<Float>, _ x: UnsafePointer<Float>, _ n: UnsafePointer<Int32>) {
    for place in 0..<Int(n.pointee) { y[place] = x[place].squareRoot() }
}

/// Square roots of elements.
public func vvsqrt(_ y: UnsafeMutablePointer<Double>, _ x: UnsafePointer<Double>, _ n: UnsafePointer<Int32>) {
    for place in 0..<Int(n.pointee) { y[place] = x[place].squareRoot() }
}

/// Hyperbolic tangents of elements.
public func vvtanhf(_ y: UnsafeMutablePointer<Float>, _ x: UnsafePointer<Float>, _ n: UnsafePointer<Int32>) {
    for place in 0..<Int(n.pointee) { y[place] = openbnns_tanhf(x[place]) }
}

/// Hyperbolic tangents of elements.
public func vvtanh(_ y: UnsafeMutablePointer<Double>, _ x: UnsafePointer<Double>, _ n: UnsafePointer<Int32>) {
    for place in 0..<Int(n.pointee) { y[place] = openbnns_tanh(x[place]) }
}
