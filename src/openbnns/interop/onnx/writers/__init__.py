"""Operations of networks as nodes of ONNX, one module per kind."""

from . import control, data_sizes, elementwise, layers, moves, positions, sequences
from ._registry import WRITERS

__all__ = ["WRITERS", "control", "data_sizes", "elementwise", "layers", "moves", "positions", "sequences"]
