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

__all__ = [
    "attention", "cells", "control", "data_sizes", "elementwise", "fused", "normalizations", "products", "quantized",
    "reductions", "resize", "sampling", "shapes", "signals", "windows",
]  # fmt: skip
