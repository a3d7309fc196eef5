"""Fully connected layers under their C names."""

from __future__ import annotations

from typing import Any

from ..abi.structs import BNNSFilterParameters, BNNSLayerParametersFullyConnected
from ..filters.fully_connected import FullyConnected
from ._calls import BNNSFilter, create

__all__ = ["BNNSFilterCreateLayerFullyConnected"]


def BNNSFilterCreateLayerFullyConnected(
    layer_params: BNNSLayerParametersFullyConnected | Any, filter_params: BNNSFilterParameters | None = None
) -> BNNSFilter | None:
    """Build a matrix-vector filter: y = f(W x + b).

    x is a vector of I, y of O, W a RowMajorMatrix with size (I, O): O rows of I. Gradients, g = f'(y) dy: dx = W^T g,
    dW = sum of g x^T, db = sum of g over the batch.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> w, b = np.float32([[1, 2], [3, 4]]), np.float32([10, 20])
    >>> v = Shape.vector(2).descriptor
    >>> p = BNNSLayerParametersFullyConnected(
    ...     i_desc=v(), w_desc=Shape.matrix_row_major(2, 2).descriptor(data=w), o_desc=v(), bias=v(data=b)
    ... )
    >>> f, y = BNNSFilterCreateLayerFullyConnected(p), np.zeros((2, 2), np.float32)
    >>> BNNSFilterApplyBatch(f, 2, np.float32([1, 0, 0, 1]), 2, y, 2), y.tolist()
    (0, [[11.0, 23.0], [12.0, 24.0]])
    >>> BNNSFilterDestroy(f)
    """
    return create(
        FullyConnected,
        "BNNSFilterCreateLayerFullyConnected",
        layer_params,
        BNNSLayerParametersFullyConnected,
        filter_params,
    )
