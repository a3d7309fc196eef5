// Functions of vDSP that choose elements, or limit them, and those that combine a product with a sum.

extension vDSP {
    /// Elements at places that count from 1.
    @inlinable
    public static func gather<T, U>(_ vector: T, indices: U) -> [T.Element]
    where T: AccelerateBuffer, U: AccelerateBuffer, T.Element: BinaryFloatingPoint, U.Element == UInt {
        vector.withUnsafeBufferPointer { cells in
            indices.withUnsafeBufferPointer { places in places.map { element(cells, $0) } }
        }
    }

    /// Elements at places that count from 1, written to a vector.
    @inlinable
    public static func gather<T, U, V>(_ vector: T, indices: U, result: inout V)
    where
        T: AccelerateBuffer, U: AccelerateBuffer, V: AccelerateMutableBuffer, T.Element: BinaryFloatingPoint,
        U.Element == UInt, T.Element == V.Element
    {
        require(indices.count == result.count, "vDSP.gather: the result has another number of elements than the indices")
        vector.withUnsafeBufferPointer { cells in
            indices.withUnsafeBufferPointer { places in
                result.withUnsafeMutableBufferPointer { y in
                    for place in places.indices { y[place] = element(cells, places[place]) }
                }
            }
        }
    }

    @inlinable
    static func element<T>(_ cells: UnsafeBufferPointer<T>, _ place: UInt) -> T {
        require(
            1...UInt(max(cells.count, 1)) ~= place && !cells.isEmpty,
            "vDSP.gather: got the place \(place), but places are 1 to \(cells.count)")
        return cells[Int(place) - 1]
    }

    /// What becomes of elements at a threshold.
    @frozen
    public enum ThresholdRule<T: BinaryFloatingPoint> {
        /// The threshold stands for elements below it.
        case clampToThreshold
        /// 0 stands for elements below the threshold.
        case zeroFill
        /// A number stands for elements that are not below the threshold, and its negative for those that are.
        case signedConstant(T)

        @inlinable
        func applied(to value: T, _ lowerBound: T) -> T {
            switch self {
            case .clampToThreshold: return value >= lowerBound ? value : lowerBound
            case .zeroFill: return value >= lowerBound ? value : 0
            case .signedConstant(let constant): return value >= lowerBound ? constant : -constant
            }
        }
    }

    /// Elements at a threshold.
    @inlinable
    public static func threshold<U>(_ vector: U, to lowerBound: U.Element, with rule: ThresholdRule<U.Element>) -> [U.Element]
    where U: AccelerateBuffer, U.Element: BinaryFloatingPoint {
        mapped(vector) { rule.applied(to: $0, lowerBound) }
    }

    /// Elements at a threshold, written to a vector.
    @inlinable
    public static func threshold<U, V>(
        _ vector: U, to lowerBound: U.Element, with rule: ThresholdRule<U.Element>, result: inout V
    ) where U: AccelerateBuffer, V: AccelerateMutableBuffer, U.Element: BinaryFloatingPoint, U.Element == V.Element {
        map(vector, &result) { rule.applied(to: $0, lowerBound) }
    }
}

extension vDSP {
    /// Products of elements, plus those of a third vector.
    @inlinable
    public static func add<S, T, U>(multiplication: (a: S, b: T), _ vector: U) -> [S.Element]
    where
        S: AccelerateBuffer, T: AccelerateBuffer, U: AccelerateBuffer, S.Element: BinaryFloatingPoint,
        S.Element == T.Element, S.Element == U.Element
    {
        combined(multiply(multiplication.a, multiplication.b), vector) { $0 + $1 }
    }

    /// Products of elements, plus those of a third vector, written to a vector.
    @inlinable
    public static func add<S, T, U, V>(multiplication: (a: S, b: T), _ vector: U, result: inout V)
    where
        S: AccelerateBuffer, T: AccelerateBuffer, U: AccelerateBuffer, V: AccelerateMutableBuffer,
        S.Element: BinaryFloatingPoint, S.Element == T.Element, S.Element == U.Element, S.Element == V.Element
    {
        combine(multiply(multiplication.a, multiplication.b), vector, &result) { $0 + $1 }
    }

    /// Each element times a number, plus that of another vector.
    @inlinable
    public static func add<T, U>(multiplication: (a: T, b: T.Element), _ vector: U) -> [T.Element]
    where T: AccelerateBuffer, U: AccelerateBuffer, T.Element: BinaryFloatingPoint, T.Element == U.Element {
        combined(multiplication.a, vector) { $0 * multiplication.b + $1 }
    }

    /// Each element times a number, plus that of another vector, written to a vector.
    @inlinable
    public static func add<T, U, V>(multiplication: (a: T, b: T.Element), _ vector: U, result: inout V)
    where
        T: AccelerateBuffer, U: AccelerateBuffer, V: AccelerateMutableBuffer, T.Element: BinaryFloatingPoint,
        T.Element == U.Element, T.Element == V.Element
    {
        combine(multiplication.a, vector, &result) { $0 * multiplication.b + $1 }
    }

    /// Each element times a number, plus a number.
    @inlinable
    public static func add<T>(multiplication: (a: T, b: T.Element), _ scalar: T.Element) -> [T.Element]
    where T: AccelerateBuffer, T.Element: BinaryFloatingPoint {
        mapped(multiplication.a) { $0 * multiplication.b + scalar }
    }

    /// Each element times a number, plus a number, written to a vector.
    @inlinable
    public static func add<T, V>(multiplication: (a: T, b: T.Element), _ scalar: T.Element, result: inout V)
    where T: AccelerateBuffer, V: AccelerateMutableBuffer, T.Element: BinaryFloatingPoint, T.Element == V.Element {
        map(multiplication.a, &result) { $0 * multiplication.b + scalar }
    }
}
