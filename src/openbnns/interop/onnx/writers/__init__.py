"""What operations of networks are in ONNX, one module per kind."""

from . import elementwise, layers, moves, positions, sequences
from ._registry import WRITERS, NoForm

__all__ = ["WRITERS", "NoForm", "elementwise", "layers", "moves", "positions", "sequences"]
