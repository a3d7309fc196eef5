"""ONNX's operators as operations of a graph, one module per kind."""

from . import (
    attention,
    cells,
    control,
    data_sizes,
    elementwise,
    fused,
    normalizations,
    products,
    quantized,
    reductions,
    resize,
    sampling,
    shapes,
    signals,
    windows,
)  # fmt: skip
from ._registry import GROUPS, OPERATORS

__all__ = [
    "GROUPS", "OPERATORS", "attention", "cells", "control", "data_sizes", "elementwise", "fused", "normalizations", "products",
    "quantized", "reductions", "resize", "sampling", "shapes", "signals", "windows",
]  # fmt: skip
