"""Operations of ML programs on the graph, one module for each family."""

from . import elementwise, products, recurrent, reductions, resizing, shapes  # noqa: F401  (each fills the table)
from .at_once import AT_ONCE
from .table import RECORDED, Call

__all__ = ["AT_ONCE", "RECORDED", "Call"]
