"""The Python face: layers after the classes of the Swift overlay, on NumPy arrays or descriptors.

See :mod:`openbnns.layers.base` for the rules that all layers share.
"""

from .._lazy import attach as _attach

__getattr__, __dir__ = _attach(
    __name__,
    {
        "base": ["Gradients", "InputGradient", "InputGradients", "Layer", "UnaryLayer"],
        "_binary": ["BinaryLayer"],
        "_fused_parameters": [
            "FusableLayerParameters",
            "FusedBinaryArithmeticParameters",
            "FusedConvolutionParameters",
            "FusedDequantizationParameters",
            "FusedFullyConnectedParameters",
            "FusedNormalizationParameters",
            "FusedQuantizationParameters",
            "FusedTernaryArithmeticParameters",
            "FusedUnaryArithmeticParameters",
        ],
        "_ports": ["skip"],
        "activation": ["ActivationGradients", "ActivationLayer", "apply_activation"],
        "arithmetic": ["BinaryArithmeticLayer", "InputGradients3", "TernaryArithmeticLayer", "UnaryArithmeticLayer"],
        "attention": ["AttentionGradients", "MultiheadAttentionLayer"],
        "clipping": ["clip", "clip_by_global_norm", "clip_by_norm", "compute_norm", "compute_norm_backward"],
        "contraction": ["TensorContractionLayer"],
        "convolution": ["ConvolutionLayer"],
        "crop_resize": ["CropResizeLayer"],
        "dropout": ["DropoutLayer"],
        "embedding": ["EmbeddingLayer"],
        "fully_connected": ["FullyConnectedLayer"],
        "fused": [
            "FusedConvolutionNormalizationLayer",
            "FusedFullyConnectedNormalizationLayer",
            "FusedGradients",
            "FusedGradients2",
            "FusedGradients3",
            "FusedLayer",
            "FusedParametersLayer",
        ],
        "gram": ["GramLayer"],
        "loss": ["LossLayer", "LossResult"],
        "lstm": ["LSTMGradients", "LSTMLayer", "LSTMResult"],
        "matmul": [
            "BroadcastMatrixMultiplyLayer",
            "apply_matrix_multiplication",
            "matrix_multiplication_workspace_size",
        ],
        "moves": ["compare", "copy", "copy_band_part", "shuffle", "tile", "tile_backward", "transpose"],
        "nearest_neighbors": ["NearestNeighbors", "Neighbors"],
        "normalization": ["NormalizationGradients", "NormalizationLayer"],
        "optimizer": ["AdamOptimizer", "AdamWOptimizer", "Optimizer", "RMSPropOptimizer", "SGDMomentumOptimizer"],
        "padding": ["PaddingLayer"],
        "permute": ["PermuteLayer"],
        "pooling": ["PoolingGradients", "PoolingLayer"],
        "quantization": ["dequantize", "quantize"],
        "random_numbers": ["RandomGenerator", "RandomGeneratorState"],
        "reduction": ["ReductionLayer", "apply_reduction"],
        "resize": ["ResizeLayer"],
        "selection": ["TopK", "apply_in_top_k", "apply_top_k", "gather", "gather_nd", "scatter", "scatter_nd"],
    },
)
