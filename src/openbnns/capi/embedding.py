"""Embeddings under their C names."""

from __future__ import annotations

from typing import Any

from ..abi.structs import BNNSFilterParameters, BNNSLayerParametersEmbedding
from ..filters.embedding import Embedding
from ._calls import BNNSFilter, create

__all__ = ["BNNSFilterCreateLayerEmbedding"]


def BNNSFilterCreateLayerEmbedding(
    layer_params: BNNSLayerParametersEmbedding | Any, filter_params: BNNSFilterParameters | None = None
) -> BNNSFilter | None:
    """Build a dictionary-lookup filter: out(item, pos) = dictionary(item, in(pos)).

    In ``size[]`` the dictionary is (item..., entries), the input (index...) integers, the output (item..., index...).
    Its gradient, ``weights_delta``, is the sum of dy over the positions that looked an entry up.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> table = np.float32([[1, 2], [3, 4], [5, 6]])
    >>> f = BNNSFilterCreateLayerEmbedding(
    ...     BNNSLayerParametersEmbedding(
    ...         i_desc=Shape.vector(2).descriptor(BNNSDataTypeInt32), o_desc=Shape.matrix_last_major(2, 2).descriptor(),
    ...         dictionary=Shape.matrix_last_major(2, 3).descriptor(data=table), padding_idx=3,  # none; 0 would zero entry 0
    ...     )
    ... )
    >>> y = np.zeros((2, 2), np.float32)
    >>> BNNSFilterApply(f, np.int32([2, 0]), y), y.tolist()
    (0, [[5.0, 6.0], [1.0, 2.0]])
    """
    return create(
        Embedding, "BNNSFilterCreateLayerEmbedding", layer_params, BNNSLayerParametersEmbedding, filter_params
    )
