"""Padding under its C name."""

from __future__ import annotations

from typing import Any

from ..abi.structs import BNNSFilterParameters, BNNSLayerParametersPadding
from ..filters.padding import Padding
from ._calls import BNNSFilter, create

__all__ = ["BNNSFilterCreateLayerPadding"]


def BNNSFilterCreateLayerPadding(
    layer_params: BNNSLayerParametersPadding | Any, filter_params: BNNSFilterParameters | None = None
) -> BNNSFilter | None:
    """Build a padding filter: constant, reflect or symmetric.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> p = BNNSLayerParametersPadding(
    ...     i_desc=Shape.vector(3).descriptor(), o_desc=Shape.vector(6).descriptor(), padding_size=[[2, 1]],
    ...     padding_mode=BNNSPaddingModeReflect,
    ... )
    >>> f, y = BNNSFilterCreateLayerPadding(p), np.zeros(6, np.float32)
    >>> BNNSFilterApply(f, np.float32([1, 2, 3]), y), y.tolist()
    (0, [3.0, 2.0, 1.0, 2.0, 3.0, 2.0])
    """
    return create(Padding, "BNNSFilterCreateLayerPadding", layer_params, BNNSLayerParametersPadding, filter_params)
