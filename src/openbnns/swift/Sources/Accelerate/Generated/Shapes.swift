// Written by tools/generate_swift.py: edit its facts, not this file.

extension BNNS {
    public enum Shape: ExpressibleByArrayLiteral, Sendable {
        /// In C: BNNSDataLayoutVector.
        case vector(Int, stride: Int = 0)
        /// In C: BNNSDataLayoutColumnMajorMatrix.
        case matrixColumnMajor(Int, Int, stride: (Int, Int) = (0, 0))
        /// In C: BNNSDataLayoutRowMajorMatrix.
        case matrixRowMajor(Int, Int, stride: (Int, Int) = (0, 0))
        /// In C: BNNSDataLayout2DFirstMajor.
        case matrixFirstMajor(Int, Int, stride: (Int, Int) = (0, 0))
        /// In C: BNNSDataLayout2DLastMajor.
        case matrixLastMajor(Int, Int, stride: (Int, Int) = (0, 0))
        /// In C: BNNSDataLayoutImageCHW.
        case imageCHW(Int, Int, Int, stride: (Int, Int, Int) = (0, 0, 0))
        /// In C: BNNSDataLayout3DFirstMajor.
        case tensor3DFirstMajor(Int, Int, Int, stride: (Int, Int, Int) = (0, 0, 0))
        /// In C: BNNSDataLayout3DLastMajor.
        case tensor3DLastMajor(Int, Int, Int, stride: (Int, Int, Int) = (0, 0, 0))
        /// In C: BNNSDataLayoutSNE.
        case tensor3DSNE(Int, Int, Int, stride: (Int, Int, Int) = (0, 0, 0))
        /// In C: BNNSDataLayoutNSE.
        case tensor3DNSE(Int, Int, Int, stride: (Int, Int, Int) = (0, 0, 0))
        /// In C: BNNSDataLayoutConvolutionWeightsOIHW.
        case convolutionWeightsOIHW(Int, Int, Int, Int, stride: (Int, Int, Int, Int) = (0, 0, 0, 0))
        /// In C: BNNSDataLayout4DFirstMajor.
        case tensor4DFirstMajor(Int, Int, Int, Int, stride: (Int, Int, Int, Int) = (0, 0, 0, 0))
        /// In C: BNNSDataLayout4DLastMajor.
        case tensor4DLastMajor(Int, Int, Int, Int, stride: (Int, Int, Int, Int) = (0, 0, 0, 0))
        /// In C: BNNSDataLayout5DFirstMajor.
        case tensor5DFirstMajor(Int, Int, Int, Int, Int, stride: (Int, Int, Int, Int, Int) = (0, 0, 0, 0, 0))
        /// In C: BNNSDataLayout5DLastMajor.
        case tensor5DLastMajor(Int, Int, Int, Int, Int, stride: (Int, Int, Int, Int, Int) = (0, 0, 0, 0, 0))
        /// In C: BNNSDataLayout6DFirstMajor.
        case tensor6DFirstMajor(Int, Int, Int, Int, Int, Int, stride: (Int, Int, Int, Int, Int, Int) = (0, 0, 0, 0, 0, 0))
        /// In C: BNNSDataLayout6DLastMajor.
        case tensor6DLastMajor(Int, Int, Int, Int, Int, Int, stride: (Int, Int, Int, Int, Int, Int) = (0, 0, 0, 0, 0, 0))
        /// In C: BNNSDataLayout7DFirstMajor.
        case tensor7DFirstMajor(Int, Int, Int, Int, Int, Int, Int, stride: (Int, Int, Int, Int, Int, Int, Int) = (0, 0, 0, 0, 0, 0, 0))
        /// In C: BNNSDataLayout7DLastMajor.
        case tensor7DLastMajor(Int, Int, Int, Int, Int, Int, Int, stride: (Int, Int, Int, Int, Int, Int, Int) = (0, 0, 0, 0, 0, 0, 0))
        /// In C: BNNSDataLayout8DFirstMajor.
        case tensor8DFirstMajor(Int, Int, Int, Int, Int, Int, Int, Int, stride: (Int, Int, Int, Int, Int, Int, Int, Int) = (0, 0, 0, 0, 0, 0, 0, 0))
        /// In C: BNNSDataLayout8DLastMajor.
        case tensor8DLastMajor(Int, Int, Int, Int, Int, Int, Int, Int, stride: (Int, Int, Int, Int, Int, Int, Int, Int) = (0, 0, 0, 0, 0, 0, 0, 0))

        /// Layout, number of axes, sizes and strides, as a descriptor has them.
        var fields: (layout: BNNSDataLayout, rank: Int, size: (Int, Int, Int, Int, Int, Int, Int, Int), stride: (Int, Int, Int, Int, Int, Int, Int, Int)) {
            switch self {
            case .vector(let size0, let stride):
                return (BNNSDataLayoutVector, 1,
                        (size0, 0, 0, 0, 0, 0, 0, 0),
                        (stride, 0, 0, 0, 0, 0, 0, 0))
            case .matrixColumnMajor(let size0, let size1, let stride):
                return (BNNSDataLayoutColumnMajorMatrix, 2,
                        (size0, size1, 0, 0, 0, 0, 0, 0),
                        (stride.0, stride.1, 0, 0, 0, 0, 0, 0))
            case .matrixRowMajor(let size0, let size1, let stride):
                return (BNNSDataLayoutRowMajorMatrix, 2,
                        (size0, size1, 0, 0, 0, 0, 0, 0),
                        (stride.0, stride.1, 0, 0, 0, 0, 0, 0))
            case .matrixFirstMajor(let size0, let size1, let stride):
                return (BNNSDataLayout2DFirstMajor, 2,
                        (size0, size1, 0, 0, 0, 0, 0, 0),
                        (stride.0, stride.1, 0, 0, 0, 0, 0, 0))
            case .matrixLastMajor(let size0, let size1, let stride):
                return (BNNSDataLayout2DLastMajor, 2,
                        (size0, size1, 0, 0, 0, 0, 0, 0),
                        (stride.0, stride.1, 0, 0, 0, 0, 0, 0))
            case .imageCHW(let size0, let size1, let size2, let stride):
                return (BNNSDataLayoutImageCHW, 3,
                        (size0, size1, size2, 0, 0, 0, 0, 0),
                        (stride.0, stride.1, stride.2, 0, 0, 0, 0, 0))
            case .tensor3DFirstMajor(let size0, let size1, let size2, let stride):
                return (BNNSDataLayout3DFirstMajor, 3,
                        (size0, size1, size2, 0, 0, 0, 0, 0),
                        (stride.0, stride.1, stride.2, 0, 0, 0, 0, 0))
            case .tensor3DLastMajor(let size0, let size1, let size2, let stride):
                return (BNNSDataLayout3DLastMajor, 3,
                        (size0, size1, size2, 0, 0, 0, 0, 0),
                        (stride.0, stride.1, stride.2, 0, 0, 0, 0, 0))
            case .tensor3DSNE(let size0, let size1, let size2, let stride):
                return (BNNSDataLayoutSNE, 3,
                        (size0, size1, size2, 0, 0, 0, 0, 0),
                        (stride.0, stride.1, stride.2, 0, 0, 0, 0, 0))
            case .tensor3DNSE(let size0, let size1, let size2, let stride):
                return (BNNSDataLayoutNSE, 3,
                        (size0, size1, size2, 0, 0, 0, 0, 0),
                        (stride.0, stride.1, stride.2, 0, 0, 0, 0, 0))
            case .convolutionWeightsOIHW(let size0, let size1, let size2, let size3, let stride):
                return (BNNSDataLayoutConvolutionWeightsOIHW, 4,
                        (size0, size1, size2, size3, 0, 0, 0, 0),
                        (stride.0, stride.1, stride.2, stride.3, 0, 0, 0, 0))
            case .tensor4DFirstMajor(let size0, let size1, let size2, let size3, let stride):
                return (BNNSDataLayout4DFirstMajor, 4,
                        (size0, size1, size2, size3, 0, 0, 0, 0),
                        (stride.0, stride.1, stride.2, stride.3, 0, 0, 0, 0))
            case .tensor4DLastMajor(let size0, let size1, let size2, let size3, let stride):
                return (BNNSDataLayout4DLastMajor, 4,
                        (size0, size1, size2, size3, 0, 0, 0, 0),
                        (stride.0, stride.1, stride.2, stride.3, 0, 0, 0, 0))
            case .tensor5DFirstMajor(let size0, let size1, let size2, let size3, let size4, let stride):
                return (BNNSDataLayout5DFirstMajor, 5,
                        (size0, size1, size2, size3, size4, 0, 0, 0),
                        (stride.0, stride.1, stride.2, stride.3, stride.4, 0, 0, 0))
            case .tensor5DLastMajor(let size0, let size1, let size2, let size3, let size4, let stride):
                return (BNNSDataLayout5DLastMajor, 5,
                        (size0, size1, size2, size3, size4, 0, 0, 0),
                        (stride.0, stride.1, stride.2, stride.3, stride.4, 0, 0, 0))
            case .tensor6DFirstMajor(let size0, let size1, let size2, let size3, let size4, let size5, let stride):
                return (BNNSDataLayout6DFirstMajor, 6,
                        (size0, size1, size2, size3, size4, size5, 0, 0),
                        (stride.0, stride.1, stride.2, stride.3, stride.4, stride.5, 0, 0))
            case .tensor6DLastMajor(let size0, let size1, let size2, let size3, let size4, let size5, let stride):
                return (BNNSDataLayout6DLastMajor, 6,
                        (size0, size1, size2, size3, size4, size5, 0, 0),
                        (stride.0, stride.1, stride.2, stride.3, stride.4, stride.5, 0, 0))
            case .tensor7DFirstMajor(let size0, let size1, let size2, let size3, let size4, let size5, let size6, let stride):
                return (BNNSDataLayout7DFirstMajor, 7,
                        (size0, size1, size2, size3, size4, size5, size6, 0),
                        (stride.0, stride.1, stride.2, stride.3, stride.4, stride.5, stride.6, 0))
            case .tensor7DLastMajor(let size0, let size1, let size2, let size3, let size4, let size5, let size6, let stride):
                return (BNNSDataLayout7DLastMajor, 7,
                        (size0, size1, size2, size3, size4, size5, size6, 0),
                        (stride.0, stride.1, stride.2, stride.3, stride.4, stride.5, stride.6, 0))
            case .tensor8DFirstMajor(let size0, let size1, let size2, let size3, let size4, let size5, let size6, let size7, let stride):
                return (BNNSDataLayout8DFirstMajor, 8,
                        (size0, size1, size2, size3, size4, size5, size6, size7),
                        (stride.0, stride.1, stride.2, stride.3, stride.4, stride.5, stride.6, stride.7))
            case .tensor8DLastMajor(let size0, let size1, let size2, let size3, let size4, let size5, let size6, let size7, let stride):
                return (BNNSDataLayout8DLastMajor, 8,
                        (size0, size1, size2, size3, size4, size5, size6, size7),
                        (stride.0, stride.1, stride.2, stride.3, stride.4, stride.5, stride.6, stride.7))
            }
        }

        /// The shape with this layout. One without a case, as those of rotated kernels, becomes the one of its rank that has
        /// the same order of memory.
        init(layout: BNNSDataLayout, size: (Int, Int, Int, Int, Int, Int, Int, Int), stride: (Int, Int, Int, Int, Int, Int, Int, Int)) {
            switch layout.rawValue {
            case BNNSDataLayoutVector.rawValue:
                self = .vector(size.0, stride: stride.0)
            case BNNSDataLayoutColumnMajorMatrix.rawValue:
                self = .matrixColumnMajor(size.0, size.1, stride: (stride.0, stride.1))
            case BNNSDataLayoutRowMajorMatrix.rawValue:
                self = .matrixRowMajor(size.0, size.1, stride: (stride.0, stride.1))
            case BNNSDataLayout2DFirstMajor.rawValue:
                self = .matrixFirstMajor(size.0, size.1, stride: (stride.0, stride.1))
            case BNNSDataLayout2DLastMajor.rawValue:
                self = .matrixLastMajor(size.0, size.1, stride: (stride.0, stride.1))
            case BNNSDataLayoutImageCHW.rawValue:
                self = .imageCHW(size.0, size.1, size.2, stride: (stride.0, stride.1, stride.2))
            case BNNSDataLayout3DFirstMajor.rawValue:
                self = .tensor3DFirstMajor(size.0, size.1, size.2, stride: (stride.0, stride.1, stride.2))
            case BNNSDataLayout3DLastMajor.rawValue:
                self = .tensor3DLastMajor(size.0, size.1, size.2, stride: (stride.0, stride.1, stride.2))
            case BNNSDataLayoutSNE.rawValue:
                self = .tensor3DSNE(size.0, size.1, size.2, stride: (stride.0, stride.1, stride.2))
            case BNNSDataLayoutNSE.rawValue:
                self = .tensor3DNSE(size.0, size.1, size.2, stride: (stride.0, stride.1, stride.2))
            case BNNSDataLayoutConvolutionWeightsOIHW.rawValue:
                self = .convolutionWeightsOIHW(size.0, size.1, size.2, size.3, stride: (stride.0, stride.1, stride.2, stride.3))
            case BNNSDataLayout4DFirstMajor.rawValue:
                self = .tensor4DFirstMajor(size.0, size.1, size.2, size.3, stride: (stride.0, stride.1, stride.2, stride.3))
            case BNNSDataLayout4DLastMajor.rawValue:
                self = .tensor4DLastMajor(size.0, size.1, size.2, size.3, stride: (stride.0, stride.1, stride.2, stride.3))
            case BNNSDataLayout5DFirstMajor.rawValue:
                self = .tensor5DFirstMajor(size.0, size.1, size.2, size.3, size.4, stride: (stride.0, stride.1, stride.2, stride.3, stride.4))
            case BNNSDataLayout5DLastMajor.rawValue:
                self = .tensor5DLastMajor(size.0, size.1, size.2, size.3, size.4, stride: (stride.0, stride.1, stride.2, stride.3, stride.4))
            case BNNSDataLayout6DFirstMajor.rawValue:
                self = .tensor6DFirstMajor(size.0, size.1, size.2, size.3, size.4, size.5, stride: (stride.0, stride.1, stride.2, stride.3, stride.4, stride.5))
            case BNNSDataLayout6DLastMajor.rawValue:
                self = .tensor6DLastMajor(size.0, size.1, size.2, size.3, size.4, size.5, stride: (stride.0, stride.1, stride.2, stride.3, stride.4, stride.5))
            case BNNSDataLayout7DFirstMajor.rawValue:
                self = .tensor7DFirstMajor(size.0, size.1, size.2, size.3, size.4, size.5, size.6, stride: (stride.0, stride.1, stride.2, stride.3, stride.4, stride.5, stride.6))
            case BNNSDataLayout7DLastMajor.rawValue:
                self = .tensor7DLastMajor(size.0, size.1, size.2, size.3, size.4, size.5, size.6, stride: (stride.0, stride.1, stride.2, stride.3, stride.4, stride.5, stride.6))
            case BNNSDataLayout8DFirstMajor.rawValue:
                self = .tensor8DFirstMajor(size.0, size.1, size.2, size.3, size.4, size.5, size.6, size.7, stride: (stride.0, stride.1, stride.2, stride.3, stride.4, stride.5, stride.6, stride.7))
            case BNNSDataLayout8DLastMajor.rawValue:
                self = .tensor8DLastMajor(size.0, size.1, size.2, size.3, size.4, size.5, size.6, size.7, stride: (stride.0, stride.1, stride.2, stride.3, stride.4, stride.5, stride.6, stride.7))
            case BNNSDataLayoutFullyConnectedSparse.rawValue:
                self = .matrixRowMajor(size.0, size.1, stride: (stride.0, stride.1))
            case BNNSDataLayoutMHA_DHK.rawValue:
                self = .tensor3DLastMajor(size.0, size.1, size.2, stride: (stride.0, stride.1, stride.2))
            case let other where other >> 16 == 4:
                self = .convolutionWeightsOIHW(size.0, size.1, size.2, size.3, stride: (stride.0, stride.1, stride.2, stride.3))
            default:
                self = .vector(size.0, stride: stride.0)
            }
        }
    }
}
