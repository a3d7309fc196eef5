"""Operators in NumPy: for constants, which are computed once, and for whole numbers and masks, which have no gradient."""

from . import data_sizes, elementwise  # noqa: F401  (each module fills the table)
from ._table import BY_ELEMENT, MOVES, TABLE, compute, limited
from .axes import axes_of
from .shapes import flat_axis, pad_widths, part_of_shape, slices, split_sizes

__all__ = [
    "BY_ELEMENT", "MOVES", "TABLE", "axes_of", "compute", "flat_axis", "limited", "pad_widths",
    "part_of_shape", "slices", "split_sizes",
]  # fmt: skip
