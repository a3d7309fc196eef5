// The corner of vDSP, each function on numbers whose results are known.
import Accelerate

func same<T: BinaryFloatingPoint>(_ a: [T], _ b: [T], line: UInt = #line) { precondition(a == b, "\(a) is not \(b)", line: line) }

@main
enum Program {
    static func main() {
        check(Float.self)
        check(Double.self)
        elementsAndThresholds(Float.self)
        elementsAndThresholds(Double.self)
        productsAndSums(Float.self)
        productsAndSums(Double.self)
        namesOfC()
        moreNamesOfC()
        matrices()
        mathematics()
        rampsAndLongSums()
        conversions(Float.self)
        conversions(Double.self)
        print("passed")
    }

    static func check<T: BinaryFloatingPoint>(_ type: T.Type) {
        let a: [T] = [3, -1, 4, 1, -5, 9, 2, -6, 5, 3, 5], b: [T] = [2, 7, 1, 8, 2, 8, 1, 8, 2, 8, 4]
        same([vDSP.sum(a), vDSP.sumOfSquares(a), vDSP.sumOfMagnitudes(a)], [20, 232, 44])
        same([vDSP.mean(a), vDSP.meanMagnitude(a), vDSP.meanSquare(a)], [T(20) / 11, 4, T(232) / 11])
        same([vDSP.rootMeanSquare([3, 5, 4, 5, 5] as [T])], [T(20).squareRoot()])
        same([vDSP.maximum(a), vDSP.minimum(a), vDSP.dot(a, b)], [9, -6, 81])
        precondition(vDSP.mean([] as [T]).isNaN && vDSP.maximum([] as [T]) == -.infinity && vDSP.sum(ArraySlice<T>()) == 0)
        precondition(vDSP.indexOfMaximum(a) == (5, 9) && vDSP.indexOfMinimum(a) == (7, -6))
        precondition(vDSP.indexOfMaximum(a[8...]) == (0, 5), "places of a slice count from its beginning")
        same(vDSP.add(a, b), [5, 6, 5, 9, -3, 17, 3, 2, 7, 11, 9])
        same(vDSP.subtract(a, b), [1, -8, 3, -7, -7, 1, 1, -14, 3, -5, 1])
        same(vDSP.multiply(a, b), [6, -7, 4, 8, -10, 72, 2, -48, 10, 24, 20])
        same(vDSP.divide([6, -7] as [T], [2, 7] as [T]), [3, -1])
        same(vDSP.multiply(2, a[..<3]), [6, -2, 8])
        same(vDSP.add(1, ContiguousArray(a[..<3])), [4, 0, 5])
        same(vDSP.divide(a[..<3], 2), [1.5, -0.5, 2])
        var result = [T](repeating: 0, count: 3)
        let (x, y) = (a[..<3], b[..<3])
        vDSP.add(x, y, result: &result)
        same(result, [5, 6, 5])
        vDSP.subtract(x, y, result: &result)
        same(result, [1, -8, 3])
        vDSP.multiply(x, y, result: &result)
        same(result, [6, -7, 4])
        vDSP.multiply(3, x, result: &result)
        same(result, [9, -3, 12])
        vDSP.add(3, x, result: &result)
        same(result, [6, 2, 7])
        vDSP.divide(x, 4, result: &result)
        same(result, [0.75, -0.25, 1])
        vDSP.fill(&result, with: 7)
        same(result, [7, 7, 7])
        vDSP.clear(&result)
        same(result, [0, 0, 0])
        result.withUnsafeMutableBufferPointer { buffer in
            var buffer = buffer
            vDSP.fill(&buffer, with: 2)
            precondition(vDSP.sum(buffer) == 6 && vDSP.sum(UnsafeBufferPointer(buffer)) == 6 && vDSP.sum(buffer[1...]) == 4)
        }
    }

    static func namesOfC() {
        let a: [Float] = [1, 10, 2, 20, 3, 30], b: [Float] = [4, 5, 6]
        var (one, y, place) = (Float(0), [Float](repeating: 9, count: 6), vDSP_Length(0))
        vDSP_sve(a, 2, &one, 3)
        precondition(one == 6)
        vDSP_meanv(a, 2, &one, 3)
        precondition(one == 2)
        vDSP_maxv(a, 2, &one, 3)
        precondition(one == 3)
        vDSP_maxvi(a, 2, &one, &place, 3)
        precondition(one == 3 && place == 4)
        vDSP_dotpr(a, 2, b, 1, &one, 3)
        precondition(one == 4 + 10 + 18)
        vDSP_vadd(a, 2, b, 1, &y, 2, 3)
        same(y, [5, 9, 7, 9, 9, 9])
        vDSP_vmul(a, 2, b, 1, &y, 2, 3)
        same(y, [4, 9, 10, 9, 18, 9])
        one = 2
        vDSP_vsmul(a, 1, &one, &y, 1, 6)
        same(y, [2, 20, 4, 40, 6, 60])
        vDSP_vsadd(a, 1, &one, &y, 1, 6)
        same(y, [3, 12, 4, 22, 5, 32])
        vDSP_vsub(b, 1, a, 2, &y, 2, 3)
        same(y, [-3, 12, -3, 22, -3, 32])
        vDSP_vsdiv(a, 1, &one, &y, 1, 6)
        same(y, [0.5, 5, 1, 10, 1.5, 15])
        vDSP_vsadd(a, 1, &one, &y, 1, 6)
        vDSP_vfill(&one, &y, 3, 2)
        same(y, [2, 12, 4, 2, 5, 32])
        vDSP_vclr(&y, 2, 3)
        same(y, [0, 12, 0, 2, 0, 32])
        var doubles = [1.0, 2, 3]
        vDSP_vclrD(&doubles, 1, 2)
        same(doubles, [0, 0, 3])
    }

    static func elementsAndThresholds<T: BinaryFloatingPoint>(_ type: T.Type) {
        let a: [T] = [3, -1, 4, 0.5], places: [UInt] = [4, 1, 1]
        var (result, three) = ([T](repeating: 9, count: 4), [T](repeating: 9, count: 3))
        same(vDSP.square(a), [9, 1, 16, 0.25])
        same(vDSP.absolute(a), [3, 1, 4, 0.5])
        same(vDSP.negative(a[..<3]), [-3, 1, -4])
        vDSP.square(a, result: &result)
        vDSP.square(result, result: &result)
        same(result, [81, 1, 256, 0.0625])
        vDSP.absolute(a, result: &result)
        same(result, [3, 1, 4, 0.5])
        vDSP.negative(a, result: &result)
        same(result, [-3, 1, -4, -0.5])
        same(vDSP.divide(2, [4, -1] as [T]), [0.5, -2])
        vDSP.divide(2, a[..<3], result: &three)
        same(three, [T(2) / 3, -2, 0.5])
        vDSP.divide([6, 8, 1] as [T], [2, 4, -1] as [T], result: &three)
        same(three, [3, 2, -1])
        precondition(vDSP.distanceSquared(a, [1, 1, 1, 0] as [T]) == 17.25)
        same(vDSP.gather(a, indices: places), [0.5, 3, 3])
        same(vDSP.gather(a[1...], indices: places[1...]), [-1, -1])
        vDSP.gather(a, indices: places, result: &three)
        same(three, [0.5, 3, 3])
        same(vDSP.threshold(a, to: 0.5, with: .clampToThreshold), [3, 0.5, 4, 0.5])
        same(vDSP.threshold(a, to: 3, with: .zeroFill), [3, 0, 4, 0])
        vDSP.threshold(a, to: 1, with: .signedConstant(7), result: &result)
        same(result, [7, -7, 7, -7])
    }

    static func productsAndSums<T: BinaryFloatingPoint>(_ type: T.Type) {
        let (a, b, c): ([T], [T], [T]) = ([1, 2, 3], [4, -5, 6], [10, 20, 30])
        var result: [T] = [9, 9, 9]
        same(vDSP.add(multiplication: (a: a, b: b), c), [14, 10, 48])
        same(vDSP.add(multiplication: (a, 2), c), [12, 24, 36])
        same(vDSP.add(multiplication: (a[1...], -1), 1), [-1, -2])
        vDSP.add(multiplication: (a, b), c, result: &result)
        same(result, [14, 10, 48])
        vDSP.add(multiplication: (a: a, b: 0.5), c, result: &result)
        same(result, [10.5, 21, 31.5])
        vDSP.add(multiplication: (a, 3), -2, result: &result)
        same(result, [1, 4, 7])
    }

    static func moreNamesOfC() {
        let a: [Float] = [1, 9, -2, 9, 4, 9], b: [Float] = [2, 4, -1], c: [Float] = [10, 20, 30]
        var (one, y, place) = (Float(0), [Float](repeating: 8, count: 6), vDSP_Length(7))
        vDSP_minv(a, 2, &one, 3)
        precondition(one == -2)
        vDSP_minvi(a, 2, &one, &place, 3)
        precondition(one == -2 && place == 2)
        vDSP_svesq(a, 2, &one, 3)
        precondition(one == 21)
        vDSP_measqv(a, 2, &one, 3)
        precondition(one == 7)
        vDSP_vsq(a, 2, &y, 1, 3)
        same(y, [1, 4, 16, 8, 8, 8])
        vDSP_vabs(a, 2, &y, 2, 3)
        same(y, [1, 4, 2, 8, 4, 8])
        vDSP_vneg(a, 2, &y, 2, 3)
        same(y, [-1, 4, 2, 8, -4, 8])
        vDSP_vdiv(b, 1, a, 2, &y, 2, 3)
        same(y, [0.5, 4, -0.5, 8, -4, 8])
        vDSP_vma(a, 2, b, 1, c, 1, &y, 1, 3)
        same(y, [12, 12, 26, 8, -4, 8])
        one = 3
        vDSP_vsma(a, 2, &one, c, 1, &y, 1, 3)
        same(y, [13, 14, 42, 8, -4, 8])
        vDSP_vsmsa(a, 2, &one, c, &y, 1, 3)
        same(y, [13, 4, 22, 8, -4, 8])
        var low: Float = -1
        vDSP_vclip(a, 2, &low, &one, &y, 1, 3)
        same(y, [1, -1, 3, 8, -4, 8])
        vDSP_vthr(a, 2, &one, &y, 1, 3)
        same(y, [3, 3, 4, 8, -4, 8])
        vDSP_vthres(a, 2, &one, &y, 1, 3)
        same(y, [0, 0, 4, 8, -4, 8])
        vDSP_vgathr(a, [6, 0, 3, 0] as [vDSP_Length], 2, &y, 3, 2)
        same(y, [9, 0, 4, -2, -4, 8])
    }

    static func matrices() {
        let a: [Float] = [1, 2, 3, 4, 5, 6]  // 2 rows and 3 columns
        var (product, transposed) = ([Float](repeating: 9, count: 4), [Float](repeating: 9, count: 6))
        vDSP_mtrans(a, 1, &transposed, 1, 3, 2)
        same(transposed, [1, 4, 2, 5, 3, 6])
        vDSP_mmul(a, 1, transposed, 1, &product, 1, 2, 2, 3)
        same(product, [14, 32, 32, 77])
        var spread = [Float](repeating: 9, count: 4)
        vDSP_mmul([1, 0, 2, 0] as [Float], 2, [3, 0, 4, 0] as [Float], 2, &spread, 2, 1, 1, 2)
        same(spread, [11, 9, 9, 9])
    }

    static func mathematics() {
        let (x, y): ([Float], [Double]) = ([0.25, 1, 4], [0.25, 1, 4])
        var (single, double, count) = ([Float](repeating: 0, count: 3), [Double](repeating: 0, count: 3), Int32(3))
        func close<T: BinaryFloatingPoint>(_ values: [T], _ wanted: [Double], line: UInt = #line) {
            let errors = zip(values, wanted).map { abs(Double($0) - $1) - 2 * Double(T.ulpOfOne) * abs($1) }
            precondition(values.count == wanted.count && errors.allSatisfy { $0 <= 0 }, "\(values) is not \(wanted)", line: line)
        }

        let exp = [1.2840254166877414, 2.718281828459045, 54.598150033144236]
        close(vForce.exp(x), exp)
        close(vForce.exp(y), exp)
        vForce.exp(x, result: &single)
        vForce.exp(y, result: &double)
        close(single, exp)
        close(double, exp)
        vDSP.clear(&single)
        vDSP.clear(&double)
        vvexpf(&single, x, &count)
        vvexp(&double, y, &count)
        close(single, exp)
        close(double, exp)

        let log = [-1.3862943611198906, 0, 1.3862943611198906]
        close(vForce.log(x), log)
        close(vForce.log(y), log)
        vForce.log(x, result: &single)
        vForce.log(y, result: &double)
        close(single, log)
        close(double, log)
        vDSP.clear(&single)
        vDSP.clear(&double)
        vvlogf(&single, x, &count)
        vvlog(&double, y, &count)
        close(single, log)
        close(double, log)

        let sqrt = [0.5, 1, 2]
        close(vForce.sqrt(x), sqrt)
        close(vForce.sqrt(y), sqrt)
        vForce.sqrt(x, result: &single)
        vForce.sqrt(y, result: &double)
        close(single, sqrt)
        close(double, sqrt)
        vDSP.clear(&single)
        vDSP.clear(&double)
        vvsqrtf(&single, x, &count)
        vvsqrt(&double, y, &count)
        close(single, sqrt)
        close(double, sqrt)

        let tanh = [0.24491866240370913, 0.7615941559557649, 0.999329299739067]
        close(vForce.tanh(x), tanh)
        close(vForce.tanh(y), tanh)
        vForce.tanh(x, result: &single)
        vForce.tanh(y, result: &double)
        close(single, tanh)
        close(double, tanh)
        vDSP.clear(&single)
        vDSP.clear(&double)
        vvtanhf(&single, x, &count)
        vvtanh(&double, y, &count)
        close(single, tanh)
        close(double, tanh)
    }

    static func conversions<T: vDSP_FloatingPointConvertable>(_ type: T.Type) {
        let x: [T] = [-1.5, -0.5, 0.5, 1.5, 2.75, 300, .infinity, .nan]
        let nearest = vDSP.floatingPointToInteger(x, integerType: Int8.self, rounding: .towardNearestInteger)
        precondition(nearest == [-2, 0, 0, 2, 3, 127, 127, 0], "\(nearest)")
        let bytes = vDSP.floatingPointToInteger(x[..<6], integerType: UInt8.self, rounding: .towardZero)
        precondition(bytes == [0, 0, 0, 1, 2, 255], "\(bytes)")
        same(vDSP.integerToFloatingPoint([-3, 7] as [Int16], floatingPointType: T.self), [-3, 7])
        var whole = [UInt16](repeating: 0, count: 3), numbers = [T](repeating: 0, count: 3)
        vDSP.convertElements(of: x[3..<6], to: &whole, rounding: .towardNearestInteger)
        vDSP.convertElements(of: whole, to: &numbers)
        same(numbers, [2, 3, 300])
        same(vDSP.clip(x[..<7], to: -1...2), [-1, -0.5, 0.5, 1.5, 2, 2, 2])
        vDSP.clip(x[..<3], to: 0...1, result: &numbers)
        same(numbers, [0, 0, 0.5])
        var pixels: [UInt8] = [9, 9, 9, 9], single: [Float] = [0.5, 254.75, -3, 1.5]
        vDSP_vfixu8(single, 1, &pixels, 1, 4)
        precondition(pixels == [0, 254, 0, 1], "\(pixels)")
        vDSP_vfixru8(single, 2, &pixels, 1, 2)
        precondition(pixels == [0, 0, 0, 1], "\(pixels)")
        vDSP_vfixru8(single, 1, &pixels, 1, 4)
        vDSP_vfltu8(pixels, 1, &single, 1, 4)
        same(single, [0, 255, 0, 2])
    }

    static func rampsAndLongSums() {
        let ramp: [Float] = vDSP.ramp(in: -10...10, count: 5)
        same(ramp, [-10, -5, 0, 5, 10])
        let doubles: [Double] = vDSP.ramp(withInitialValue: 1, increment: 0.5, count: 3)
        same(doubles, [1, 1.5, 2])
        let single: [Double] = vDSP.ramp(in: 2...3, count: 1)
        same(single, [2])
        let steps: [Float] = vDSP.ramp(withInitialValue: 0, increment: 2, count: 3)
        same(steps, [0, 2, 4])
        let tenths = [Float](repeating: 0.1, count: 1_000_000)
        precondition(abs(vDSP.sum(tenths) - 100_000) < 100, "\(vDSP.sum(tenths))")
    }
}
