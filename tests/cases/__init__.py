"""Sample problems: one record list per family, and the means to run them through openbnns.capi."""

from . import (
    activation,
    arithmetic,
    contraction,
    convolution,
    fully_connected,
    fused,
    legacy,
    padding,
    permute,
    pooling,
    resize,
    transposed_convolution,
)

FAMILIES = (
    fully_connected,
    convolution,
    transposed_convolution,
    activation,
    arithmetic,
    pooling,
    fused,
    legacy,
    contraction,
    permute,
    padding,
    resize,
)
ALL = [case for family in FAMILIES for case in family.CASES]
"""Every case of every family."""
