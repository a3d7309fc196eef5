"""Resize under its C name."""

from __future__ import annotations

from typing import Any

from ..abi.structs import BNNSFilterParameters, BNNSLayerParametersResize
from ..filters.resize import Resize
from ._calls import BNNSFilter, create

__all__ = ["BNNSFilterCreateLayerResize"]


def BNNSFilterCreateLayerResize(
    layer_params: BNNSLayerParametersResize | Any, filter_params: BNNSFilterParameters | None = None
) -> BNNSFilter | None:
    """Build a filter that resamples the axes whose sizes differ: nearest or linear.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> p = BNNSLayerParametersResize(
    ...     i_desc=Shape.image_chw(2, 1, 1).descriptor(), o_desc=Shape.image_chw(3, 1, 1).descriptor(),
    ...     method=BNNSInterpolationMethodLinear, align_corners=True,
    ... )
    >>> f, y = BNNSFilterCreateLayerResize(p), np.zeros(3, np.float32)
    >>> BNNSFilterApply(f, np.float32([1, 3]), y), y.tolist()
    (0, [1.0, 2.0, 3.0])
    """
    return create(Resize, "BNNSFilterCreateLayerResize", layer_params, BNNSLayerParametersResize, filter_params)
