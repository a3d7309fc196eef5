"""The Python face: layers after the classes of the Swift overlay, on NumPy arrays or descriptors.

See :mod:`openbnns.layers._base` for the rules that all layers share.
"""

from ._base import BinaryLayer, Gradients, InputGradient, InputGradients, Layer, UnaryLayer
from ._ports import skip
from .activation import ActivationGradients, ActivationLayer, apply_activation
from .arithmetic import BinaryArithmeticLayer, InputGradients3, TernaryArithmeticLayer, UnaryArithmeticLayer
from .clipping import clip, clip_by_global_norm, clip_by_norm, compute_norm, compute_norm_backward
from .convolution import ConvolutionLayer
from .dropout import DropoutLayer
from .embedding import EmbeddingLayer
from .fully_connected import FullyConnectedLayer
from .loss import LossLayer, LossResult
from .optimizer import AdamOptimizer, AdamWOptimizer, Optimizer, RMSPropOptimizer, SGDMomentumOptimizer
from .pooling import PoolingGradients, PoolingLayer
from .quantization import dequantize, quantize
from .random_numbers import RandomGenerator, RandomGeneratorState
from .reduction import ReductionLayer, apply_reduction
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
    "ActivationGradients",
    "ActivationLayer",
    "AdamOptimizer",
    "AdamWOptimizer",
    "BinaryArithmeticLayer",
    "BinaryLayer",
    "ConvolutionLayer",
    "DropoutLayer",
    "EmbeddingLayer",
    "FullyConnectedLayer",
    "Gradients",
    "InputGradient",
    "InputGradients",
    "InputGradients3",
    "Layer",
    "LossLayer",
    "LossResult",
    "Optimizer",
    "PoolingGradients",
    "PoolingLayer",
    "RMSPropOptimizer",
    "RandomGenerator",
    "RandomGeneratorState",
    "SGDMomentumOptimizer",
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
