"""Functions and methods of PyTorch as operations of a graph; ``FUNCTIONS`` holds all of them by name."""

from . import complex_numbers, elementwise, layers, positions, products, reductions, shapes
from ._registry import FUNCTIONS, GROUPS, Call
from .complex_numbers import OF_COMPLEX

__all__ = [
    "FUNCTIONS", "GROUPS", "OF_COMPLEX", "Call", "complex_numbers", "elementwise", "layers", "positions", "products",
    "reductions", "shapes",
]  # fmt: skip
