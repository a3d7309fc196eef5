"""The Python face: layers after the classes of the Swift overlay, on NumPy arrays or descriptors.

See :mod:`openbnns.layers._base` for the rules that all layers share.
"""

from ._base import BinaryLayer, Gradients, InputGradient, InputGradients, Layer, UnaryLayer
from ._ports import skip
from .activation import ActivationGradients, ActivationLayer, apply_activation
from .arithmetic import BinaryArithmeticLayer, InputGradients3, TernaryArithmeticLayer, UnaryArithmeticLayer
from .attention import AttentionGradients, MultiheadAttentionLayer
from .convolution import ConvolutionLayer
from .fully_connected import FullyConnectedLayer
from .loss import LossLayer, LossResult
from .pooling import PoolingGradients, PoolingLayer

__all__ = [
    "ActivationGradients",
    "ActivationLayer",
    "AttentionGradients",
    "BinaryArithmeticLayer",
    "BinaryLayer",
    "ConvolutionLayer",
    "FullyConnectedLayer",
    "Gradients",
    "InputGradient",
    "InputGradients",
    "InputGradients3",
    "Layer",
    "LossLayer",
    "LossResult",
    "MultiheadAttentionLayer",
    "PoolingGradients",
    "PoolingLayer",
    "TernaryArithmeticLayer",
    "UnaryArithmeticLayer",
    "UnaryLayer",
    "apply_activation",
    "skip",
]
