"""Graphs of operations on whole tensors: recorded once, bound to sizes, run as programs of native calls."""

from .calls import NumpyCall, PlanCall
from .graph import Graph
from .operation import Operation
from .program import Program
from .sizes import Size
from .tensor import Value

__all__ = ["Graph", "NumpyCall", "Operation", "PlanCall", "Program", "Size", "Value"]
