"""Operations of networks as nodes of ONNX, one module per kind."""

from . import branches, elementwise, layers, moves, positions, sequences
from ._registry import WRITERS, NoForm

__all__ = ["WRITERS", "NoForm", "branches", "elementwise", "layers", "moves", "positions", "sequences"]
