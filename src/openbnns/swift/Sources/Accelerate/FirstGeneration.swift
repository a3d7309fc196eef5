// Initializers of the structs that the first generation of BNNS has, with what they leave out.

extension BNNSDataType {
    fileprivate var isIndexed8: Bool { rawValue == BNNSDataTypeIndexed8.rawValue }
}

extension BNNSImageStackDescriptor {
    public init(width: Int, height: Int, channels: Int, row_stride: Int, image_stride: Int, data_type: BNNSDataType) {
        require(!data_type.isIndexed8, "BNNSImageStackDescriptor: images have no table, so they cannot be of indexed8")
        self.init(
            width: width, height: height, channels: channels, row_stride: row_stride, image_stride: image_stride,
            data_type: data_type, data_scale: 1, data_bias: 0)
    }
}

extension BNNSVectorDescriptor {
    public init(size: Int, data_type: BNNSDataType) {
        require(!data_type.isIndexed8, "BNNSVectorDescriptor: vectors have no table, so they cannot be of indexed8")
        self.init(size: size, data_type: data_type, data_scale: 1, data_bias: 0)
    }
}

extension BNNSLayerData {
    public init(data: UnsafeRawPointer?, data_type: BNNSDataType, data_scale: Float = 1, data_bias: Float = 0) {
        require(!data_type.isIndexed8, "BNNSLayerData: indexed8 needs a table. Use BNNSLayerData.indexed8(data:data_table:).")
        self.init(data: data, data_type: data_type, data_scale: data_scale, data_bias: data_bias, data_table: nil)
    }

    /// No data.
    public static var zero: BNNSLayerData { BNNSLayerData() }

    /// Bytes that stand for entries of a table.
    public static func indexed8(data: UnsafePointer<Int8>?, data_table: UnsafePointer<Float>) -> BNNSLayerData {
        BNNSLayerData(data: data, data_type: .indexed8, data_scale: 1, data_bias: 0, data_table: data_table)
    }
}

extension BNNSConvolutionLayerParameters {
    public init(
        x_stride: Int, y_stride: Int, x_padding: Int, y_padding: Int, k_width: Int, k_height: Int, in_channels: Int,
        out_channels: Int, weights: BNNSLayerData
    ) {
        self.init(
            x_stride: x_stride, y_stride: y_stride, x_padding: x_padding, y_padding: y_padding, k_width: k_width,
            k_height: k_height, in_channels: in_channels, out_channels: out_channels, weights: weights, bias: .zero,
            activation: .identity)
    }
}

extension BNNSFullyConnectedLayerParameters {
    public init(in_size: Int, out_size: Int, weights: BNNSLayerData) {
        self.init(in_size: in_size, out_size: out_size, weights: weights, bias: .zero, activation: .identity)
    }
}

extension BNNSPoolingLayerParameters {
    public init(
        x_stride: Int, y_stride: Int, x_padding: Int, y_padding: Int, k_width: Int, k_height: Int, in_channels: Int,
        out_channels: Int, pooling_function: BNNSPoolingFunction
    ) {
        self.init(
            x_stride: x_stride, y_stride: y_stride, x_padding: x_padding, y_padding: y_padding, k_width: k_width,
            k_height: k_height, in_channels: in_channels, out_channels: out_channels, pooling_function: pooling_function,
            bias: .zero, activation: .identity)
    }
}
