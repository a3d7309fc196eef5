"""The Python face: layers after the classes of the Swift overlay, on NumPy arrays or descriptors.

See :mod:`openbnns.layers._base` for the rules that all layers share.
"""

from ._base import BinaryLayer, Gradients, InputGradient, InputGradients, Layer, UnaryLayer
from ._fused_parameters import (
    FusableLayerParameters,
    FusedBinaryArithmeticParameters,
    FusedConvolutionParameters,
    FusedDequantizationParameters,
    FusedFullyConnectedParameters,
    FusedNormalizationParameters,
    FusedQuantizationParameters,
    FusedTernaryArithmeticParameters,
    FusedUnaryArithmeticParameters,
)
from ._ports import skip
from .activation import ActivationGradients, ActivationLayer, apply_activation
from .arithmetic import BinaryArithmeticLayer, InputGradients3, TernaryArithmeticLayer, UnaryArithmeticLayer
from .attention import AttentionGradients, MultiheadAttentionLayer
from .clipping import clip, clip_by_global_norm, clip_by_norm, compute_norm, compute_norm_backward
from .contraction import TensorContractionLayer
from .convolution import ConvolutionLayer
from .crop_resize import CropResizeLayer
from .dropout import DropoutLayer
from .embedding import EmbeddingLayer
from .fully_connected import FullyConnectedLayer
from .fused import (
    FusedConvolutionNormalizationLayer,
    FusedFullyConnectedNormalizationLayer,
    FusedGradients,
    FusedGradients2,
    FusedGradients3,
    FusedLayer,
    FusedParametersLayer,
)
from .gram import GramLayer
from .loss import LossLayer, LossResult
from .lstm import LSTMGradients, LSTMLayer, LSTMResult
from .matmul import (
    BroadcastMatrixMultiplyLayer,
    apply_matrix_multiplication,
    matrix_multiplication_workspace_size,
)
from .nearest_neighbors import NearestNeighbors, Neighbors
from .normalization import NormalizationGradients, NormalizationLayer
from .optimizer import AdamOptimizer, AdamWOptimizer, Optimizer, RMSPropOptimizer, SGDMomentumOptimizer
from .padding import PaddingLayer
from .permute import PermuteLayer
from .pooling import PoolingGradients, PoolingLayer
from .quantization import dequantize, quantize
from .random_numbers import RandomGenerator, RandomGeneratorState
from .reduction import ReductionLayer, apply_reduction
from .resize import ResizeLayer
from .tensor import (
    TopK,
    apply_in_top_k,
    apply_top_k,
    compare,
    copy,
    copy_band_part,
    gather,
    gather_nd,
    scatter,
    scatter_nd,
    shuffle,
    tile,
    tile_backward,
    transpose,
)

__all__ = [
    "NearestNeighbors",
    "Neighbors",
    "ActivationGradients",
    "ActivationLayer",
    "AdamOptimizer",
    "AdamWOptimizer",
    "AttentionGradients",
    "BinaryArithmeticLayer",
    "BinaryLayer",
    "BroadcastMatrixMultiplyLayer",
    "ConvolutionLayer",
    "DropoutLayer",
    "EmbeddingLayer",
    "PermuteLayer",
    "PaddingLayer",
    "ResizeLayer",
    "CropResizeLayer",
    "FullyConnectedLayer",
    "FusableLayerParameters",
    "FusedBinaryArithmeticParameters",
    "FusedConvolutionNormalizationLayer",
    "FusedConvolutionParameters",
    "FusedDequantizationParameters",
    "FusedFullyConnectedNormalizationLayer",
    "FusedFullyConnectedParameters",
    "FusedGradients",
    "FusedGradients2",
    "FusedGradients3",
    "FusedLayer",
    "FusedNormalizationParameters",
    "FusedParametersLayer",
    "FusedQuantizationParameters",
    "FusedTernaryArithmeticParameters",
    "FusedUnaryArithmeticParameters",
    "Gradients",
    "GramLayer",
    "InputGradient",
    "InputGradients",
    "InputGradients3",
    "LSTMGradients",
    "LSTMLayer",
    "LSTMResult",
    "Layer",
    "LossLayer",
    "LossResult",
    "Optimizer",
    "NormalizationGradients",
    "NormalizationLayer",
    "MultiheadAttentionLayer",
    "PoolingGradients",
    "PoolingLayer",
    "RMSPropOptimizer",
    "RandomGenerator",
    "RandomGeneratorState",
    "SGDMomentumOptimizer",
    "TensorContractionLayer",
    "TernaryArithmeticLayer",
    "UnaryArithmeticLayer",
    "UnaryLayer",
    "apply_activation",
    "clip",
    "clip_by_global_norm",
    "clip_by_norm",
    "compute_norm",
    "compute_norm_backward",
    "dequantize",
    "quantize",
    "apply_matrix_multiplication",
    "matrix_multiplication_workspace_size",
    "skip",
    "ReductionLayer",
    "apply_reduction",
    "TopK",
    "apply_in_top_k",
    "apply_top_k",
    "compare",
    "copy",
    "copy_band_part",
    "gather",
    "gather_nd",
    "scatter",
    "scatter_nd",
    "shuffle",
    "tile",
    "tile_backward",
    "transpose",
]
