"""What functions and methods of PyTorch are here; ``FUNCTIONS`` holds all of them by name."""

from . import elementwise, layers, positions, products, reductions, shapes
from ._registry import FUNCTIONS, GROUPS, Call

__all__ = ["FUNCTIONS", "GROUPS", "Call", "elementwise", "layers", "positions", "products", "reductions", "shapes"]
