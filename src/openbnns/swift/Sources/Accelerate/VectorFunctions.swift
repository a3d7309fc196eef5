// The corner of vDSP that programs for BNNS use: sums, means, extremes, simple arithmetic, small matrices, and clearing memory.
// Everything else of vDSP is not here. Functions are generic and inlinable, so that programs get code for Float and Double.

public typealias vDSP_Length = UInt
public typealias vDSP_Stride = Int

/// Functions on vectors of Float or Double.
public enum vDSP {}

extension vDSP {
    /// The sum of all elements, in eight partial sums, so that it is accurate also for long vectors.
    @inlinable
    public static func sum<U>(_ vector: U) -> U.Element where U: AccelerateBuffer, U.Element: BinaryFloatingPoint {
        reduced(vector) { $0 }
    }

    /// The sum of the squares of all elements.
    @inlinable
    public static func sumOfSquares<U>(_ vector: U) -> U.Element where U: AccelerateBuffer, U.Element: BinaryFloatingPoint {
        reduced(vector) { $0 * $0 }
    }

    /// The sum of the absolute values of all elements.
    @inlinable
    public static func sumOfMagnitudes<U>(_ vector: U) -> U.Element where U: AccelerateBuffer, U.Element: BinaryFloatingPoint {
        reduced(vector) { abs($0) }
    }

    /// The mean of all elements; NaN of none.
    @inlinable
    public static func mean<U>(_ vector: U) -> U.Element where U: AccelerateBuffer, U.Element: BinaryFloatingPoint {
        sum(vector) / U.Element(vector.count)
    }

    /// The mean of the absolute values of all elements.
    @inlinable
    public static func meanMagnitude<U>(_ vector: U) -> U.Element where U: AccelerateBuffer, U.Element: BinaryFloatingPoint {
        sumOfMagnitudes(vector) / U.Element(vector.count)
    }

    /// The mean of the squares of all elements.
    @inlinable
    public static func meanSquare<U>(_ vector: U) -> U.Element where U: AccelerateBuffer, U.Element: BinaryFloatingPoint {
        sumOfSquares(vector) / U.Element(vector.count)
    }

    /// The square root of the mean of the squares of all elements.
    @inlinable
    public static func rootMeanSquare<U>(_ vector: U) -> U.Element where U: AccelerateBuffer, U.Element: BinaryFloatingPoint {
        meanSquare(vector).squareRoot()
    }

    /// The largest element; minus infinity of none.
    @inlinable
    public static func maximum<U>(_ vector: U) -> U.Element where U: AccelerateBuffer, U.Element: BinaryFloatingPoint {
        vector.withUnsafeBufferPointer { $0.reduce(-.infinity) { $1 > $0 ? $1 : $0 } }
    }

    /// The smallest element; infinity of none.
    @inlinable
    public static func minimum<U>(_ vector: U) -> U.Element where U: AccelerateBuffer, U.Element: BinaryFloatingPoint {
        vector.withUnsafeBufferPointer { $0.reduce(.infinity) { $1 < $0 ? $1 : $0 } }
    }

    /// The place of the largest element, the first of several, and the element. Places of a slice count from its beginning.
    @inlinable
    public static func indexOfMaximum<U>(_ vector: U) -> (UInt, U.Element)
    where U: AccelerateBuffer, U.Element: BinaryFloatingPoint {
        vector.withUnsafeBufferPointer { cells in
            var best = (place: 0, value: -U.Element.infinity)
            for (place, value) in cells.enumerated() where value > best.value { best = (place, value) }
            return (UInt(best.place), best.value)
        }
    }

    /// The place of the smallest element, the first of several, and the element. Places of a slice count from its beginning.
    @inlinable
    public static func indexOfMinimum<U>(_ vector: U) -> (UInt, U.Element)
    where U: AccelerateBuffer, U.Element: BinaryFloatingPoint {
        vector.withUnsafeBufferPointer { cells in
            var best = (place: 0, value: U.Element.infinity)
            for (place, value) in cells.enumerated() where value < best.value { best = (place, value) }
            return (UInt(best.place), best.value)
        }
    }

    /// The sum of the products of elements.
    @inlinable
    public static func dot<U, V>(_ vectorA: U, _ vectorB: V) -> U.Element
    where U: AccelerateBuffer, V: AccelerateBuffer, U.Element: BinaryFloatingPoint, U.Element == V.Element {
        require(vectorA.count == vectorB.count, "vDSP.dot: the vectors have different numbers of elements")
        return vectorA.withUnsafeBufferPointer { a in
            vectorB.withUnsafeBufferPointer { b in
                partialSums(a.count) { a[$0] * b[$0] }
            }
        }
    }

    /// The square of the distance between two points.
    @inlinable
    public static func distanceSquared<U, V>(_ pointA: U, _ pointB: V) -> U.Element
    where U: AccelerateBuffer, V: AccelerateBuffer, U.Element: BinaryFloatingPoint, U.Element == V.Element {
        require(pointA.count == pointB.count, "vDSP.distanceSquared: the points have different numbers of elements")
        return pointA.withUnsafeBufferPointer { a in
            pointB.withUnsafeBufferPointer { b in
                partialSums(a.count) { (a[$0] - b[$0]) * (a[$0] - b[$0]) }
            }
        }
    }

    @inlinable
    static func reduced<U>(_ vector: U, _ term: (U.Element) -> U.Element) -> U.Element
    where U: AccelerateBuffer, U.Element: BinaryFloatingPoint {
        vector.withUnsafeBufferPointer { cells in partialSums(cells.count) { term(cells[$0]) } }
    }

    @inlinable
    static func partialSums<T: BinaryFloatingPoint>(_ count: Int, _ term: (Int) -> T) -> T {
        var (a, b, c, d, e, f, g, h) = (T(0), T(0), T(0), T(0), T(0), T(0), T(0), T(0))
        var place = 0
        while place + 8 <= count {
            a += term(place)
            b += term(place + 1)
            c += term(place + 2)
            d += term(place + 3)
            e += term(place + 4)
            f += term(place + 5)
            g += term(place + 6)
            h += term(place + 7)
            place += 8
        }
        var rest = T(0)
        while place < count {
            rest += term(place)
            place += 1
        }
        return ((a + b) + (c + d)) + ((e + f) + (g + h)) + rest
    }
}

extension vDSP {
    /// Sums of elements.
    @inlinable
    public static func add<U, V>(_ vectorA: U, _ vectorB: V) -> [U.Element]
    where U: AccelerateBuffer, V: AccelerateBuffer, U.Element: BinaryFloatingPoint, U.Element == V.Element {
        combined(vectorA, vectorB) { $0 + $1 }
    }

    /// Sums of elements, written to a vector.
    @inlinable
    public static func add<T, U, V>(_ vectorA: T, _ vectorB: U, result: inout V)
    where
        T: AccelerateBuffer, U: AccelerateBuffer, V: AccelerateMutableBuffer, T.Element: BinaryFloatingPoint,
        T.Element == U.Element, T.Element == V.Element
    {
        combine(vectorA, vectorB, &result) { $0 + $1 }
    }

    /// A number added to each element.
    @inlinable
    public static func add<U>(_ scalar: U.Element, _ vector: U) -> [U.Element]
    where U: AccelerateBuffer, U.Element: BinaryFloatingPoint {
        mapped(vector) { scalar + $0 }
    }

    /// A number added to each element, written to a vector.
    @inlinable
    public static func add<U, V>(_ scalar: U.Element, _ vector: U, result: inout V)
    where U: AccelerateBuffer, V: AccelerateMutableBuffer, U.Element: BinaryFloatingPoint, U.Element == V.Element {
        map(vector, &result) { scalar + $0 }
    }

    /// Differences of elements, the first vector minus the second.
    @inlinable
    public static func subtract<U, V>(_ vectorA: U, _ vectorB: V) -> [U.Element]
    where U: AccelerateBuffer, V: AccelerateBuffer, U.Element: BinaryFloatingPoint, U.Element == V.Element {
        combined(vectorA, vectorB) { $0 - $1 }
    }

    /// Differences of elements, the first vector minus the second, written to a vector.
    @inlinable
    public static func subtract<T, U, V>(_ vectorA: T, _ vectorB: U, result: inout V)
    where
        T: AccelerateBuffer, U: AccelerateBuffer, V: AccelerateMutableBuffer, T.Element: BinaryFloatingPoint,
        T.Element == U.Element, T.Element == V.Element
    {
        combine(vectorA, vectorB, &result) { $0 - $1 }
    }

    /// Products of elements.
    @inlinable
    public static func multiply<U, V>(_ vectorA: U, _ vectorB: V) -> [U.Element]
    where U: AccelerateBuffer, V: AccelerateBuffer, U.Element: BinaryFloatingPoint, U.Element == V.Element {
        combined(vectorA, vectorB) { $0 * $1 }
    }

    /// Products of elements, written to a vector.
    @inlinable
    public static func multiply<T, U, V>(_ vectorA: T, _ vectorB: U, result: inout V)
    where
        T: AccelerateBuffer, U: AccelerateBuffer, V: AccelerateMutableBuffer, T.Element: BinaryFloatingPoint,
        T.Element == U.Element, T.Element == V.Element
    {
        combine(vectorA, vectorB, &result) { $0 * $1 }
    }

    /// Each element times a number.
    @inlinable
    public static func multiply<U>(_ scalar: U.Element, _ vector: U) -> [U.Element]
    where U: AccelerateBuffer, U.Element: BinaryFloatingPoint {
        mapped(vector) { scalar * $0 }
    }

    /// Each element times a number, written to a vector.
    @inlinable
    public static func multiply<U, V>(_ scalar: U.Element, _ vector: U, result: inout V)
    where U: AccelerateBuffer, V: AccelerateMutableBuffer, U.Element: BinaryFloatingPoint, U.Element == V.Element {
        map(vector, &result) { scalar * $0 }
    }

    /// Quotients of elements.
    @inlinable
    public static func divide<U, V>(_ vectorA: U, _ vectorB: V) -> [U.Element]
    where U: AccelerateBuffer, V: AccelerateBuffer, U.Element: BinaryFloatingPoint, U.Element == V.Element {
        combined(vectorA, vectorB) { $0 / $1 }
    }

    /// Quotients of elements, written to a vector.
    @inlinable
    public static func divide<T, U, V>(_ vectorA: T, _ vectorB: U, result: inout V)
    where
        T: AccelerateBuffer, U: AccelerateBuffer, V: AccelerateMutableBuffer, T.Element: BinaryFloatingPoint,
        T.Element == U.Element, T.Element == V.Element
    {
        combine(vectorA, vectorB, &result) { $0 / $1 }
    }

    /// A number divided by each element.
    @inlinable
    public static func divide<U>(_ scalar: U.Element, _ vector: U) -> [U.Element]
    where U: AccelerateBuffer, U.Element: BinaryFloatingPoint {
        mapped(vector) { scalar / $0 }
    }

    /// A number divided by each element, written to a vector.
    @inlinable
    public static func divide<U, V>(_ scalar: U.Element, _ vector: U, result: inout V)
    where U: AccelerateBuffer, V: AccelerateMutableBuffer, U.Element: BinaryFloatingPoint, U.Element == V.Element {
        map(vector, &result) { scalar / $0 }
    }

    /// Each element divided by a number.
    @inlinable
    public static func divide<U>(_ vector: U, _ scalar: U.Element) -> [U.Element]
    where U: AccelerateBuffer, U.Element: BinaryFloatingPoint {
        mapped(vector) { $0 / scalar }
    }

    /// Each element divided by a number, written to a vector.
    @inlinable
    public static func divide<U, V>(_ vector: U, _ scalar: U.Element, result: inout V)
    where U: AccelerateBuffer, V: AccelerateMutableBuffer, U.Element: BinaryFloatingPoint, U.Element == V.Element {
        map(vector, &result) { $0 / scalar }
    }

    /// Squares of elements.
    @inlinable
    public static func square<U>(_ vector: U) -> [U.Element] where U: AccelerateBuffer, U.Element: BinaryFloatingPoint {
        mapped(vector) { $0 * $0 }
    }

    /// Squares of elements, written to a vector.
    @inlinable
    public static func square<U, V>(_ vector: U, result: inout V)
    where U: AccelerateBuffer, V: AccelerateMutableBuffer, U.Element: BinaryFloatingPoint, U.Element == V.Element {
        map(vector, &result) { $0 * $0 }
    }

    /// Absolute values of elements.
    @inlinable
    public static func absolute<U>(_ vector: U) -> [U.Element] where U: AccelerateBuffer, U.Element: BinaryFloatingPoint {
        mapped(vector) { abs($0) }
    }

    /// Absolute values of elements, written to a vector.
    @inlinable
    public static func absolute<U, V>(_ vector: U, result: inout V)
    where U: AccelerateBuffer, V: AccelerateMutableBuffer, U.Element: BinaryFloatingPoint, U.Element == V.Element {
        map(vector, &result) { abs($0) }
    }

    /// Negatives of elements.
    @inlinable
    public static func negative<U>(_ vector: U) -> [U.Element] where U: AccelerateBuffer, U.Element: BinaryFloatingPoint {
        mapped(vector) { -$0 }
    }

    /// Negatives of elements, written to a vector.
    @inlinable
    public static func negative<U, V>(_ vector: U, result: inout V)
    where U: AccelerateBuffer, V: AccelerateMutableBuffer, U.Element: BinaryFloatingPoint, U.Element == V.Element {
        map(vector, &result) { -$0 }
    }

    /// Set all elements to 0.
    @inlinable
    public static func clear<V>(_ vector: inout V) where V: AccelerateMutableBuffer, V.Element: BinaryFloatingPoint {
        fill(&vector, with: 0)
    }

    /// Set all elements to a number.
    @inlinable
    public static func fill<V>(_ vector: inout V, with value: V.Element)
    where V: AccelerateMutableBuffer, V.Element: BinaryFloatingPoint {
        vector.withUnsafeMutableBufferPointer { $0.update(repeating: value) }
    }

    /// Numbers at equal distances, from the first to the last of a range.
    public static func ramp(in range: ClosedRange<Float>, count: Int) -> [Float] {
        ramp(withInitialValue: range.lowerBound, increment: step(range, count), count: count)
    }

    /// Numbers at equal distances, from the first to the last of a range.
    public static func ramp(in range: ClosedRange<Double>, count: Int) -> [Double] {
        ramp(withInitialValue: range.lowerBound, increment: step(range, count), count: count)
    }

    /// Numbers at equal distances.
    public static func ramp(withInitialValue initialValue: Float, increment: Float, count: Int) -> [Float] {
        (0..<count).map { initialValue + Float($0) * increment }
    }

    /// Numbers at equal distances.
    public static func ramp(withInitialValue initialValue: Double, increment: Double, count: Int) -> [Double] {
        (0..<count).map { initialValue + Double($0) * increment }
    }

    private static func step<T: BinaryFloatingPoint>(_ range: ClosedRange<T>, _ count: Int) -> T {
        count < 2 ? 0 : (range.upperBound - range.lowerBound) / T(count - 1)
    }

    @inlinable
    static func mapped<U>(_ vector: U, _ function: (U.Element) -> U.Element) -> [U.Element]
    where U: AccelerateBuffer, U.Element: BinaryFloatingPoint {
        vector.withUnsafeBufferPointer { $0.map(function) }
    }

    @inlinable
    static func map<U, V>(_ vector: U, _ result: inout V, _ function: (U.Element) -> U.Element)
    where U: AccelerateBuffer, V: AccelerateMutableBuffer, U.Element: BinaryFloatingPoint, U.Element == V.Element {
        require(vector.count == result.count, "vDSP: the vectors have different numbers of elements")
        vector.withUnsafeBufferPointer { x in
            result.withUnsafeMutableBufferPointer { y in
                for place in x.indices { y[place] = function(x[place]) }
            }
        }
    }

    @inlinable
    static func combined<U, V>(_ vectorA: U, _ vectorB: V, _ function: (U.Element, U.Element) -> U.Element) -> [U.Element]
    where U: AccelerateBuffer, V: AccelerateBuffer, U.Element: BinaryFloatingPoint, U.Element == V.Element {
        require(vectorA.count == vectorB.count, "vDSP: the vectors have different numbers of elements")
        return vectorA.withUnsafeBufferPointer { a in
            vectorB.withUnsafeBufferPointer { b in a.indices.map { function(a[$0], b[$0]) } }
        }
    }

    @inlinable
    static func combine<T, U, V>(
        _ vectorA: T, _ vectorB: U, _ result: inout V, _ function: (T.Element, T.Element) -> T.Element
    )
    where
        T: AccelerateBuffer, U: AccelerateBuffer, V: AccelerateMutableBuffer, T.Element: BinaryFloatingPoint,
        T.Element == U.Element, T.Element == V.Element
    {
        require(
            vectorA.count == vectorB.count && vectorA.count == result.count,
            "vDSP: the vectors have different numbers of elements")
        vectorA.withUnsafeBufferPointer { a in
            vectorB.withUnsafeBufferPointer { b in
                result.withUnsafeMutableBufferPointer { y in
                    for place in a.indices { y[place] = function(a[place], b[place]) }
                }
            }
        }
    }
}

// The same in the names of C, with strides between elements. A name with D at its end is for Double.

/// Set elements to 0.
public func vDSP_vclr(_ __C: UnsafeMutablePointer<Float>, _ __IC: vDSP_Stride, _ __N: vDSP_Length) {
    for place in 0..<Int(__N) { __C[place * __IC] = 0 }
}

/// Set elements to 0.
public func vDSP_vclrD(_ __C: UnsafeMutablePointer<Double>, _ __IC: vDSP_Stride, _ __N: vDSP_Length) {
    for place in 0..<Int(__N) { __C[place * __IC] = 0 }
}

/// Set elements to a number.
public func vDSP_vfill(
    _ __A: UnsafePointer<Float>, _ __C: UnsafeMutablePointer<Float>, _ __IC: vDSP_Stride, _ __N: vDSP_Length
) {
    for place in 0..<Int(__N) { __C[place * __IC] = __A.pointee }
}

/// The sum of elements.
public func vDSP_sve(
    _ __A: UnsafePointer<Float>, _ __I: vDSP_Stride, _ __C: UnsafeMutablePointer<Float>, _ __N: vDSP_Length
) {
    __C.pointee = vDSP.partialSums(Int(__N)) { __A[$0 * __I] }
}

/// The mean of elements.
public func vDSP_meanv(
    _ __A: UnsafePointer<Float>, _ __IA: vDSP_Stride, _ __C: UnsafeMutablePointer<Float>, _ __N: vDSP_Length
) {
    __C.pointee = vDSP.partialSums(Int(__N)) { __A[$0 * __IA] } / Float(__N)
}

/// The largest element.
public func vDSP_maxv(
    _ __A: UnsafePointer<Float>, _ __IA: vDSP_Stride, _ __C: UnsafeMutablePointer<Float>, _ __N: vDSP_Length
) {
    __C.pointee = (0..<Int(__N)).reduce(-.infinity) { max($0, __A[$1 * __IA]) }
}

/// The largest element and its place in memory, which counts strides.
public func vDSP_maxvi(
    _ __A: UnsafePointer<Float>, _ __IA: vDSP_Stride, _ __C: UnsafeMutablePointer<Float>,
    _ __I: UnsafeMutablePointer<vDSP_Length>, _ __N: vDSP_Length
) {
    (__C.pointee, __I.pointee) = (-.infinity, 0)
    for place in 0..<Int(__N) where __A[place * __IA] > __C.pointee {
        (__C.pointee, __I.pointee) = (__A[place * __IA], vDSP_Length(place * __IA))
    }
}

/// Sums of elements.
public func vDSP_vadd(
    _ __A: UnsafePointer<Float>, _ __IA: vDSP_Stride, _ __B: UnsafePointer<Float>, _ __IB: vDSP_Stride,
    _ __C: UnsafeMutablePointer<Float>, _ __IC: vDSP_Stride, _ __N: vDSP_Length
) {
    for place in 0..<Int(__N) { __C[place * __IC] = __A[place * __IA] + __B[place * __IB] }
}

/// Products of elements.
public func vDSP_vmul(
    _ __A: UnsafePointer<Float>, _ __IA: vDSP_Stride, _ __B: UnsafePointer<Float>, _ __IB: vDSP_Stride,
    _ __C: UnsafeMutablePointer<Float>, _ __IC: vDSP_Stride, _ __N: vDSP_Length
) {
    for place in 0..<Int(__N) { __C[place * __IC] = __A[place * __IA] * __B[place * __IB] }
}

/// Differences of elements: those of the second vector minus those of the first.
public func vDSP_vsub(
    _ __B: UnsafePointer<Float>, _ __IB: vDSP_Stride, _ __A: UnsafePointer<Float>, _ __IA: vDSP_Stride,
    _ __C: UnsafeMutablePointer<Float>, _ __IC: vDSP_Stride, _ __N: vDSP_Length
) {
    for place in 0..<Int(__N) { __C[place * __IC] = __A[place * __IA] - __B[place * __IB] }
}

/// Each element divided by a number.
public func vDSP_vsdiv(
    _ __A: UnsafePointer<Float>, _ __IA: vDSP_Stride, _ __B: UnsafePointer<Float>, _ __C: UnsafeMutablePointer<Float>,
    _ __IC: vDSP_Stride, _ __N: vDSP_Length
) {
    for place in 0..<Int(__N) { __C[place * __IC] = __A[place * __IA] / __B.pointee }
}

/// Each element times a number.
public func vDSP_vsmul(
    _ __A: UnsafePointer<Float>, _ __IA: vDSP_Stride, _ __B: UnsafePointer<Float>, _ __C: UnsafeMutablePointer<Float>,
    _ __IC: vDSP_Stride, _ __N: vDSP_Length
) {
    for place in 0..<Int(__N) { __C[place * __IC] = __A[place * __IA] * __B.pointee }
}

/// A number added to each element.
public func vDSP_vsadd(
    _ __A: UnsafePointer<Float>, _ __IA: vDSP_Stride, _ __B: UnsafePointer<Float>, _ __C: UnsafeMutablePointer<Float>,
    _ __IC: vDSP_Stride, _ __N: vDSP_Length
) {
    for place in 0..<Int(__N) { __C[place * __IC] = __A[place * __IA] + __B.pointee }
}

/// The sum of the products of elements.
public func vDSP_dotpr(
    _ __A: UnsafePointer<Float>, _ __IA: vDSP_Stride, _ __B: UnsafePointer<Float>, _ __IB: vDSP_Stride,
    _ __C: UnsafeMutablePointer<Float>, _ __N: vDSP_Length
) {
    __C.pointee = vDSP.partialSums(Int(__N)) { __A[$0 * __IA] * __B[$0 * __IB] }
}

/// Quotients of elements: those of the second vector divided by those of the first.
public func vDSP_vdiv(
    _ __B: UnsafePointer<Float>, _ __IB: vDSP_Stride, _ __A: UnsafePointer<Float>, _ __IA: vDSP_Stride,
    _ __C: UnsafeMutablePointer<Float>, _ __IC: vDSP_Stride, _ __N: vDSP_Length
) {
    for place in 0..<Int(__N) { __C[place * __IC] = __A[place * __IA] / __B[place * __IB] }
}

/// Squares of elements.
public func vDSP_vsq(
    _ __A: UnsafePointer<Float>, _ __IA: vDSP_Stride, _ __C: UnsafeMutablePointer<Float>, _ __IC: vDSP_Stride,
    _ __N: vDSP_Length
) {
    for place in 0..<Int(__N) { __C[place * __IC] = __A[place * __IA] * __A[place * __IA] }
}

/// Absolute values of elements.
public func vDSP_vabs(
    _ __A: UnsafePointer<Float>, _ __IA: vDSP_Stride, _ __C: UnsafeMutablePointer<Float>, _ __IC: vDSP_Stride,
    _ __N: vDSP_Length
) {
    for place in 0..<Int(__N) { __C[place * __IC] = abs(__A[place * __IA]) }
}

/// Negatives of elements.
public func vDSP_vneg(
    _ __A: UnsafePointer<Float>, _ __IA: vDSP_Stride, _ __C: UnsafeMutablePointer<Float>, _ __IC: vDSP_Stride,
    _ __N: vDSP_Length
) {
    for place in 0..<Int(__N) { __C[place * __IC] = -__A[place * __IA] }
}

/// Products of elements, plus those of a third vector.
public func vDSP_vma(
    _ __A: UnsafePointer<Float>, _ __IA: vDSP_Stride, _ __B: UnsafePointer<Float>, _ __IB: vDSP_Stride,
    _ __C: UnsafePointer<Float>, _ __IC: vDSP_Stride, _ __D: UnsafeMutablePointer<Float>, _ __ID: vDSP_Stride,
    _ __N: vDSP_Length
) {
    for place in 0..<Int(__N) {
        __D[place * __ID] = __A[place * __IA] * __B[place * __IB] + __C[place * __IC]
    }
}

/// Each element times a number, plus that of another vector.
public func vDSP_vsma(
    _ __A: UnsafePointer<Float>, _ __IA: vDSP_Stride, _ __B: UnsafePointer<Float>, _ __C: UnsafePointer<Float>,
    _ __IC: vDSP_Stride, _ __D: UnsafeMutablePointer<Float>, _ __ID: vDSP_Stride, _ __N: vDSP_Length
) {
    for place in 0..<Int(__N) {
        __D[place * __ID] = __A[place * __IA] * __B.pointee + __C[place * __IC]
    }
}

/// Each element times a number, plus a number.
public func vDSP_vsmsa(
    _ __A: UnsafePointer<Float>, _ __IA: vDSP_Stride, _ __B: UnsafePointer<Float>, _ __C: UnsafePointer<Float>,
    _ __D: UnsafeMutablePointer<Float>, _ __ID: vDSP_Stride, _ __N: vDSP_Length
) {
    for place in 0..<Int(__N) { __D[place * __ID] = __A[place * __IA] * __B.pointee + __C.pointee }
}

/// Elements limited to a range.
public func vDSP_vclip(
    _ __A: UnsafePointer<Float>, _ __IA: vDSP_Stride, _ __B: UnsafePointer<Float>, _ __C: UnsafePointer<Float>,
    _ __D: UnsafeMutablePointer<Float>, _ __ID: vDSP_Stride, _ __N: vDSP_Length
) {
    for place in 0..<Int(__N) {
        __D[place * __ID] = min(max(__A[place * __IA], __B.pointee), __C.pointee)
    }
}

/// Elements that are not below a number, which stands for all others.
public func vDSP_vthr(
    _ __A: UnsafePointer<Float>, _ __IA: vDSP_Stride, _ __B: UnsafePointer<Float>, _ __C: UnsafeMutablePointer<Float>,
    _ __IC: vDSP_Stride, _ __N: vDSP_Length
) {
    for place in 0..<Int(__N) {
        __C[place * __IC] = __A[place * __IA] >= __B.pointee ? __A[place * __IA] : __B.pointee
    }
}

/// Elements that are not below a number; 0 stands for all others.
public func vDSP_vthres(
    _ __A: UnsafePointer<Float>, _ __IA: vDSP_Stride, _ __B: UnsafePointer<Float>, _ __C: UnsafeMutablePointer<Float>,
    _ __IC: vDSP_Stride, _ __N: vDSP_Length
) {
    for place in 0..<Int(__N) {
        __C[place * __IC] = __A[place * __IA] >= __B.pointee ? __A[place * __IA] : 0
    }
}

/// The smallest element.
public func vDSP_minv(
    _ __A: UnsafePointer<Float>, _ __IA: vDSP_Stride, _ __C: UnsafeMutablePointer<Float>, _ __N: vDSP_Length
) {
    __C.pointee = (0..<Int(__N)).reduce(.infinity) { min($0, __A[$1 * __IA]) }
}

/// The smallest element and its place in memory, which counts strides.
public func vDSP_minvi(
    _ __A: UnsafePointer<Float>, _ __IA: vDSP_Stride, _ __C: UnsafeMutablePointer<Float>,
    _ __I: UnsafeMutablePointer<vDSP_Length>, _ __N: vDSP_Length
) {
    (__C.pointee, __I.pointee) = (.infinity, 0)
    for place in 0..<Int(__N) where __A[place * __IA] < __C.pointee {
        (__C.pointee, __I.pointee) = (__A[place * __IA], vDSP_Length(place * __IA))
    }
}

/// The sum of the squares of elements.
public func vDSP_svesq(
    _ __A: UnsafePointer<Float>, _ __IA: vDSP_Stride, _ __C: UnsafeMutablePointer<Float>, _ __N: vDSP_Length
) {
    __C.pointee = vDSP.partialSums(Int(__N)) { __A[$0 * __IA] * __A[$0 * __IA] }
}

/// The mean of the squares of elements.
public func vDSP_measqv(
    _ __A: UnsafePointer<Float>, _ __IA: vDSP_Stride, _ __C: UnsafeMutablePointer<Float>, _ __N: vDSP_Length
) {
    __C.pointee = vDSP.partialSums(Int(__N)) { __A[$0 * __IA] * __A[$0 * __IA] } / Float(__N)
}

/// Elements at places that count from 1.
public func vDSP_vgathr(
    _ __A: UnsafePointer<Float>, _ __B: UnsafePointer<vDSP_Length>, _ __IB: vDSP_Stride, _ __C: UnsafeMutablePointer<Float>,
    _ __IC: vDSP_Stride, _ __N: vDSP_Length
) {
    for place in 0..<Int(__N) { __C[place * __IC] = __A[Int(__B[place * __IB]) - 1] }
}

/// The product of a matrix of M rows and P columns and one of P rows and N columns.
public func vDSP_mmul(
    _ __A: UnsafePointer<Float>, _ __IA: vDSP_Stride, _ __B: UnsafePointer<Float>, _ __IB: vDSP_Stride,
    _ __C: UnsafeMutablePointer<Float>, _ __IC: vDSP_Stride, _ __M: vDSP_Length, _ __N: vDSP_Length, _ __P: vDSP_Length
) {
    let (rows, columns, inner) = (Int(__M), Int(__N), Int(__P))
    for row in 0..<rows {
        for column in 0..<columns { __C[(row * columns + column) * __IC] = 0 }
        for k in 0..<inner {
            let factor = __A[(row * inner + k) * __IA]
            for column in 0..<columns { __C[(row * columns + column) * __IC] += factor * __B[(k * columns + column) * __IB] }
        }
    }
}

/// The transpose of a matrix; the result has M rows and N columns.
public func vDSP_mtrans(
    _ __A: UnsafePointer<Float>, _ __IA: vDSP_Stride, _ __C: UnsafeMutablePointer<Float>, _ __IC: vDSP_Stride,
    _ __M: vDSP_Length, _ __N: vDSP_Length
) {
    let (rows, columns) = (Int(__M), Int(__N))
    for row in 0..<rows {
        for column in 0..<columns { __C[(row * columns + column) * __IC] = __A[(column * rows + row) * __IA] }
    }
}
