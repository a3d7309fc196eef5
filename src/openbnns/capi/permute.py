"""Permute under its C names."""

from __future__ import annotations

from typing import Any

from ..abi.structs import BNNSFilterParameters, BNNSLayerParametersPermute
from ..filters.permute import Permute
from ._calls import BNNSFilter, create
from ._declared import DECLARED, drives

__all__ = ["BNNSFilterCreateLayerPermute", "BNNSPermuteFilterApplyBackwardBatch"]


def BNNSFilterCreateLayerPermute(
    layer_params: BNNSLayerParametersPermute | Any, filter_params: BNNSFilterParameters | None = None
) -> BNNSFilter | None:
    """Build a filter that permutes axes: axis k of the output is axis permutation[k] of the input.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> p = BNNSLayerParametersPermute(
    ...     i_desc=Shape([2, 3]).descriptor(), o_desc=Shape([3, 2]).descriptor(), permutation=[1, 0]
    ... )
    >>> f, y = BNNSFilterCreateLayerPermute(p), np.zeros((3, 2), np.float32)
    >>> BNNSFilterApply(f, np.float32([[1, 2, 3], [4, 5, 6]]), y), y.tolist()
    (0, [[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]])
    """
    return create(Permute, "BNNSFilterCreateLayerPermute", layer_params, BNNSLayerParametersPermute, filter_params)


@drives("apply_backward_permute")
def BNNSPermuteFilterApplyBackwardBatch(
    filter: BNNSFilter | None,
    batch_size: int,
    in_delta: Any,
    in_delta_stride: int,
    out_delta: Any,
    out_delta_stride: int,
) -> int:
    """The gradient of a permute filter: ``out_delta`` with its axes put back.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> p = BNNSLayerParametersPermute(
    ...     i_desc=Shape([2, 3]).descriptor(), o_desc=Shape([3, 2]).descriptor(), permutation=[1, 0]
    ... )
    >>> dx, dy = np.zeros((2, 3), np.float32), np.float32([[1, 2], [3, 4], [5, 6]])
    >>> f = BNNSFilterCreateLayerPermute(p)
    >>> BNNSPermuteFilterApplyBackwardBatch(
    ...     f, 1, Shape([2, 3]).descriptor(data=dx), 6, Shape([3, 2]).descriptor(data=dy), 6
    ... )
    0
    >>> dx.tolist()
    [[1.0, 3.0, 5.0], [2.0, 4.0, 6.0]]
    """
    return DECLARED
