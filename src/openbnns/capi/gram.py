"""Gram matrices under their C name."""

from __future__ import annotations

from typing import Any

from ..abi.structs import BNNSFilterParameters, BNNSLayerParametersGram
from ..filters.gram import Gram
from ._calls import BNNSFilter, create

__all__ = ["BNNSFilterCreateLayerGram"]


def BNNSFilterCreateLayerGram(
    layer_params: BNNSLayerParametersGram | Any, filter_params: BNNSFilterParameters | None = None
) -> BNNSFilter | None:
    """Build a Gram-matrix filter: G(f, c) = alpha sum over i, j of x(i, j, f) x(i, j, c).

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> x, y = np.float32([[[1, 2]], [[3, 4]]]), np.zeros((2, 2), np.float32)  # (C, H, W)
    >>> f = BNNSFilterCreateLayerGram(
    ...     BNNSLayerParametersGram(
    ...         alpha=1, i_desc=Shape.image_chw(2, 1, 2).descriptor(), o_desc=Shape.matrix_row_major(2, 2).descriptor()
    ...     )
    ... )
    >>> BNNSFilterApply(f, x, y), y.tolist()
    (0, [[5.0, 11.0], [11.0, 25.0]])
    """
    return create(Gram, "BNNSFilterCreateLayerGram", layer_params, BNNSLayerParametersGram, filter_params)
