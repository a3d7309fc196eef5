"""Pooling under its C names."""

from __future__ import annotations

from typing import Any

from ..filters.pooling import Pooling
from ._calls import BNNSFilter, attempt, create
from .enums import BNNSDataType
from .structs import BNNSFilterParameters, BNNSLayerParametersPooling


def BNNSFilterCreateLayerPooling(
    layer_params: BNNSLayerParametersPooling | Any, filter_params: BNNSFilterParameters | None = None
) -> BNNSFilter | None:
    """Build a 2-D pooling filter."""
    return create(Pooling, "BNNSFilterCreateLayerPooling", layer_params, BNNSLayerParametersPooling, filter_params)


def BNNSPoolingFilterApplyBatch(
    filter: BNNSFilter | None, batch_size: int, in_: Any, in_stride: int, out: Any, out_stride: int, indices: Any,
    idx_stride: int,
) -> int:  # fmt: skip
    """Run a pooling filter on a batch, recording (Max) or consuming (UnMax) winner positions as ``size_t``."""
    if (
        isinstance(filter, Pooling)
        and filter.fast_pooling(False)(batch_size, in_, in_stride, out, out_stride, indices, idx_stride) == 0
    ):
        return 0
    return attempt(
        "BNNSPoolingFilterApplyBatch", filter, "apply_pooling_batch",
        batch_size, in_, in_stride, out, out_stride, None, indices, idx_stride,
    )  # fmt: skip


def BNNSPoolingFilterApplyBatchEx(
    filter: BNNSFilter | None, batch_size: int, in_: Any, in_stride: int, out: Any, out_stride: int,
    indices_data_type: BNNSDataType | int, indices: Any, idx_stride: int,
) -> int:  # fmt: skip
    """As :func:`BNNSPoolingFilterApplyBatch`, with indices of type UInt32 or UInt64."""
    if (
        isinstance(filter, Pooling)
        and filter.fast_pooling(False, indices_data_type)(
            batch_size, in_, in_stride, out, out_stride, indices, idx_stride
        ) == 0
    ):  # fmt: skip
        return 0
    return attempt(
        "BNNSPoolingFilterApplyBatchEx", filter, "apply_pooling_batch",
        batch_size, in_, in_stride, out, out_stride, indices_data_type, indices, idx_stride,
    )  # fmt: skip


def BNNSPoolingFilterApplyBackwardBatch(
    filter: BNNSFilter | None, batch_size: int, in_: Any, in_stride: int, in_delta: Any, in_delta_stride: int, out: Any,
    out_stride: int, out_delta: Any, out_delta_stride: int, bias_delta: Any, indices: Any, idx_stride: int,
) -> int:  # fmt: skip
    """Gradients of a pooling filter with respect to input and bias.

    For Max the winners come from ``indices`` if given, else they are found again in ``in_``; UnMax needs ``indices``.
    """
    if (
        isinstance(filter, Pooling)
        and filter.fast_pooling(True)(
            batch_size, in_, in_stride, in_delta, in_delta_stride, out, out_stride, out_delta, out_delta_stride, bias_delta,
            indices, idx_stride,
        ) == 0
    ):  # fmt: skip
        return 0
    return attempt(
        "BNNSPoolingFilterApplyBackwardBatch", filter, "apply_backward_pooling_batch", batch_size, in_, in_stride, in_delta,
        in_delta_stride, out, out_stride, out_delta, out_delta_stride, bias_delta, None, indices, idx_stride,
    )  # fmt: skip


def BNNSPoolingFilterApplyBackwardBatchEx(
    filter: BNNSFilter | None, batch_size: int, in_: Any, in_stride: int, in_delta: Any, in_delta_stride: int, out: Any,
    out_stride: int, out_delta: Any, out_delta_stride: int, bias_delta: Any, indices_data_type: BNNSDataType | int,
    indices: Any, idx_stride: int,
) -> int:  # fmt: skip
    """As :func:`BNNSPoolingFilterApplyBackwardBatch`, with indices of type UInt32 or UInt64."""
    if (
        isinstance(filter, Pooling)
        and filter.fast_pooling(True, indices_data_type)(
            batch_size, in_, in_stride, in_delta, in_delta_stride, out, out_stride, out_delta, out_delta_stride, bias_delta,
            indices, idx_stride,
        ) == 0
    ):  # fmt: skip
        return 0
    return attempt(
        "BNNSPoolingFilterApplyBackwardBatchEx", filter, "apply_backward_pooling_batch", batch_size, in_, in_stride,
        in_delta, in_delta_stride, out, out_stride, out_delta, out_delta_stride, bias_delta, indices_data_type, indices,
        idx_stride,
    )  # fmt: skip
