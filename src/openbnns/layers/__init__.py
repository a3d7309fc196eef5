"""The Python face: layers after the classes of the Swift overlay, on NumPy arrays or descriptors.

See :mod:`openbnns.layers._base` for the rules that all layers share.
"""

from ._base import BinaryLayer, Gradients, InputGradient, InputGradients, Layer, UnaryLayer
from ._ports import skip
from .activation import ActivationGradients, ActivationLayer, apply_activation
from .arithmetic import BinaryArithmeticLayer, InputGradients3, TernaryArithmeticLayer, UnaryArithmeticLayer
from .convolution import ConvolutionLayer
from .dropout import DropoutLayer
from .embedding import EmbeddingLayer
from .fully_connected import FullyConnectedLayer
from .loss import LossLayer, LossResult
from .pooling import PoolingGradients, PoolingLayer
from .quantization import dequantize, quantize

__all__ = [
    "ActivationGradients",
    "ActivationLayer",
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
    "PoolingGradients",
    "PoolingLayer",
    "TernaryArithmeticLayer",
    "UnaryArithmeticLayer",
    "UnaryLayer",
    "apply_activation",
    "dequantize",
    "quantize",
    "skip",
]
