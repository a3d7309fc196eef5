"""What ONNX's operators become here, one module per kind."""

from . import attention, cells, elementwise, normalizations, products, quantized, reductions, resize, shapes, windows
from ._registry import GROUPS, OPERATORS

__all__ = [
    "GROUPS", "OPERATORS", "attention", "cells", "elementwise", "normalizations", "products", "quantized", "reductions", "resize",
    "shapes", "windows",
]  # fmt: skip
