"""Permute under its C names."""

from __future__ import annotations

from typing import Any

from ..filters.permute import Permute
from ._calls import BNNSFilter, attempt, create
from .structs import BNNSFilterParameters, BNNSLayerParametersPermute


def BNNSFilterCreateLayerPermute(
    layer_params: BNNSLayerParametersPermute | Any, filter_params: BNNSFilterParameters | None = None
) -> BNNSFilter | None:
    """Build a filter that permutes axes: axis k of the output is axis permutation[k] of the input."""
    return create(Permute, "BNNSFilterCreateLayerPermute", layer_params, BNNSLayerParametersPermute, filter_params)


def BNNSPermuteFilterApplyBackwardBatch(
    filter: BNNSFilter | None,
    batch_size: int,
    in_delta: Any,
    in_delta_stride: int,
    out_delta: Any,
    out_delta_stride: int,
) -> int:
    """The gradient of a permute filter: ``out_delta`` with its axes put back."""
    if (
        isinstance(filter, Permute)
        and filter.fast_permute_backward(batch_size, in_delta, in_delta_stride, out_delta, out_delta_stride) == 0
    ):
        return 0
    return attempt(
        "BNNSPermuteFilterApplyBackwardBatch", filter, "apply_backward_permute_batch", batch_size, in_delta,
        in_delta_stride, out_delta, out_delta_stride,
    )  # fmt: skip
