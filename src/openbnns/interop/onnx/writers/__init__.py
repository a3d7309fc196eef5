"""Operations of networks as nodes of ONNX, one module per kind."""

from . import branches, data_sizes, elementwise, layers, moves, positions, sequences
from ._registry import WRITERS, NoForm

__all__ = ["WRITERS", "NoForm", "branches", "data_sizes", "elementwise", "layers", "moves", "positions", "sequences"]
