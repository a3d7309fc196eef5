"""The Python face: layers after the classes of the Swift overlay, on NumPy arrays or descriptors.

See :mod:`openbnns.layers._base` for the rules that all layers share.
"""

from ._base import BinaryLayer, Gradients, InputGradient, InputGradients, Layer, UnaryLayer
from ._ports import skip
from .activation import ActivationGradients, ActivationLayer, apply_activation
from .arithmetic import BinaryArithmeticLayer, InputGradients3, TernaryArithmeticLayer, UnaryArithmeticLayer
from .contraction import TensorContractionLayer
from .convolution import ConvolutionLayer
from .fully_connected import FullyConnectedLayer
from .gram import GramLayer
from .loss import LossLayer, LossResult
from .matmul import (
    BroadcastMatrixMultiplyLayer,
    apply_matrix_multiplication,
    matrix_multiplication_workspace_size,
)
from .pooling import PoolingGradients, PoolingLayer

__all__ = [
    "ActivationGradients",
    "ActivationLayer",
    "BinaryArithmeticLayer",
    "BinaryLayer",
    "BroadcastMatrixMultiplyLayer",
    "ConvolutionLayer",
    "FullyConnectedLayer",
    "Gradients",
    "GramLayer",
    "InputGradient",
    "InputGradients",
    "InputGradients3",
    "Layer",
    "LossLayer",
    "LossResult",
    "PoolingGradients",
    "PoolingLayer",
    "TensorContractionLayer",
    "TernaryArithmeticLayer",
    "UnaryArithmeticLayer",
    "UnaryLayer",
    "apply_activation",
    "apply_matrix_multiplication",
    "matrix_multiplication_workspace_size",
    "skip",
]
