"""Pooling under its C names."""

from __future__ import annotations

from typing import Any

from ..abi.enums import BNNSDataType
from ..abi.structs import BNNSFilterParameters, BNNSLayerParametersPooling
from ..filters.pooling import Pooling
from ._calls import BNNSFilter, create
from ._declared import DECLARED, drives

__all__ = [
    "BNNSFilterCreateLayerPooling",
    "BNNSPoolingFilterApplyBackwardBatch",
    "BNNSPoolingFilterApplyBackwardBatchEx",
    "BNNSPoolingFilterApplyBatch",
    "BNNSPoolingFilterApplyBatchEx",
]

_INDEX_TYPES = (BNNSDataType.BNNSDataTypeUInt32, BNNSDataType.BNNSDataTypeUInt64)


def BNNSFilterCreateLayerPooling(
    layer_params: BNNSLayerParametersPooling | Any, filter_params: BNNSFilterParameters | None = None
) -> BNNSFilter | None:
    """Build a 2-D pooling filter.

    y = f(b + the maximum, mean or norm of a window of k_height x k_width pixels); x is ImageCHW (C, H, W), y (C, OH, OW).

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> p = BNNSLayerParametersPooling(
    ...     i_desc=Shape.image_chw(4, 1, 1).descriptor(), o_desc=Shape.image_chw(2, 1, 1).descriptor(),
    ...     pooling_function=BNNSPoolingFunctionAverageCountIncludePadding, k_width=2, k_height=1, x_stride=2, y_stride=1
    ... )
    >>> f, y = BNNSFilterCreateLayerPooling(p), np.zeros(2, np.float32)
    >>> BNNSFilterApply(f, np.float32([1, 3, 5, 9]), y), y.tolist()
    (0, [2.0, 7.0])
    """
    return create(Pooling, "BNNSFilterCreateLayerPooling", layer_params, BNNSLayerParametersPooling, filter_params)


@drives("apply_pooling")
def BNNSPoolingFilterApplyBatch(
    filter: BNNSFilter | None, batch_size: int, in_: Any, in_stride: int, out: Any, out_stride: int, indices: Any,
    idx_stride: int,
) -> int:  # fmt: skip
    """Run a pooling filter on a batch, recording (Max) or consuming (UnMax) winner positions as ``size_t``.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> p = BNNSLayerParametersPooling(
    ...     i_desc=Shape.image_chw(4, 1, 1).descriptor(), o_desc=Shape.image_chw(2, 1, 1).descriptor(),
    ...     pooling_function=BNNSPoolingFunctionMax, k_width=2, k_height=1, x_stride=2, y_stride=1,
    ... )
    >>> f, y, where = BNNSFilterCreateLayerPooling(p), np.zeros(2, np.float32), np.zeros(2, np.uint64)
    >>> BNNSPoolingFilterApplyBatch(f, 1, np.float32([1, 3, 9, 5]), 4, y, 2, where, 2), y.tolist(), where.tolist()
    (0, [3.0, 9.0], [1, 2])
    """
    return DECLARED


@drives("apply_pooling", chooses="indices_data_type", among=_INDEX_TYPES)
def BNNSPoolingFilterApplyBatchEx(
    filter: BNNSFilter | None, batch_size: int, in_: Any, in_stride: int, out: Any, out_stride: int,
    indices_data_type: BNNSDataType | int, indices: Any, idx_stride: int,
) -> int:  # fmt: skip
    """As :func:`BNNSPoolingFilterApplyBatch`, with indices of type UInt32 or UInt64.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> p = BNNSLayerParametersPooling(
    ...     i_desc=Shape.image_chw(4, 1, 1).descriptor(), o_desc=Shape.image_chw(2, 1, 1).descriptor(),
    ...     pooling_function=BNNSPoolingFunctionMax, k_width=2, k_height=1, x_stride=2, y_stride=1,
    ... )
    >>> f, y, where = BNNSFilterCreateLayerPooling(p), np.zeros(2, np.float32), np.zeros(2, np.uint32)
    >>> x = np.float32([1, 3, 9, 5])
    >>> BNNSPoolingFilterApplyBatchEx(f, 1, x, 4, y, 2, BNNSDataTypeUInt32, where, 2), where.tolist()
    (0, [1, 2])
    """
    return DECLARED


@drives("apply_backward_pooling")
def BNNSPoolingFilterApplyBackwardBatch(
    filter: BNNSFilter | None, batch_size: int, in_: Any, in_stride: int, in_delta: Any, in_delta_stride: int, out: Any,
    out_stride: int, out_delta: Any, out_delta_stride: int, bias_delta: Any, indices: Any, idx_stride: int,
) -> int:  # fmt: skip
    """Gradients of a pooling filter with respect to input and bias.

    For Max the winners come from ``indices`` if given, else they are found again in ``in_``; UnMax needs ``indices``.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> i, o = Shape.image_chw(4, 1, 1).descriptor, Shape.image_chw(2, 1, 1).descriptor
    >>> p = BNNSLayerParametersPooling(i_desc=i(), o_desc=o(), k_width=2, k_height=1, x_stride=2, y_stride=1)
    >>> f, x = BNNSFilterCreateLayerPooling(p), np.float32([1, 3, 9, 5])
    >>> dx, dy = np.zeros(4, np.float32), np.float32([10, 20])
    >>> BNNSPoolingFilterApplyBackwardBatch(f, 1, x, 4, i(data=dx), 4, None, 0, o(data=dy), 2, None, None, 0), dx.tolist()
    (0, [0.0, 10.0, 20.0, 0.0])
    """
    return DECLARED


@drives("apply_backward_pooling", chooses="indices_data_type", among=_INDEX_TYPES)
def BNNSPoolingFilterApplyBackwardBatchEx(
    filter: BNNSFilter | None, batch_size: int, in_: Any, in_stride: int, in_delta: Any, in_delta_stride: int, out: Any,
    out_stride: int, out_delta: Any, out_delta_stride: int, bias_delta: Any, indices_data_type: BNNSDataType | int,
    indices: Any, idx_stride: int,
) -> int:  # fmt: skip
    """As :func:`BNNSPoolingFilterApplyBackwardBatch`, with indices of type UInt32 or UInt64.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> i, o = Shape.image_chw(4, 1, 1).descriptor, Shape.image_chw(2, 1, 1).descriptor
    >>> p = BNNSLayerParametersPooling(i_desc=i(), o_desc=o(), k_width=2, k_height=1, x_stride=2, y_stride=1)
    >>> f, where = BNNSFilterCreateLayerPooling(p), np.uint32([1, 2])  # from BNNSPoolingFilterApplyBatchEx
    >>> dx, dy = np.zeros(4, np.float32), np.float32([10, 20])
    >>> BNNSPoolingFilterApplyBackwardBatchEx(
    ...     f, 1, None, 0, i(data=dx), 4, None, 0, o(data=dy), 2, None, BNNSDataTypeUInt32, where, 2
    ... )
    0
    >>> dx.tolist()
    [0.0, 10.0, 20.0, 0.0]
    """
    return DECLARED
