"""Functions of PyTorch that are recorded as the functions that they can be made of, written in PyTorch's own words.

Each takes PyTorch and then the arguments of its namesake. ``hstack`` stands for torch.hstack and Tensor.hstack, ``F.rrelu``
for torch.nn.functional.rrelu. Arguments that are missing here are not supported.
"""

from . import elementwise, layers, order, parts, products, signals
from ._table import COMPOSED, COMPOSITIONS

__all__ = ["COMPOSED", "COMPOSITIONS", "elementwise", "layers", "order", "parts", "products", "signals"]
