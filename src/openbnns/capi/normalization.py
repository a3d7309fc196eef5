"""Normalization filters."""

from __future__ import annotations

from typing import Any

from ..filters.normalization import Normalization
from ._calls import BNNSFilter, attempt, create
from .enums import BNNSFilterType
from .structs import BNNSFilterParameters, BNNSLayerParametersNormalization


def BNNSFilterCreateLayerNormalization(
    normType: BNNSFilterType | int,
    layer_params: BNNSLayerParametersNormalization | Any,
    filter_params: BNNSFilterParameters | None = None,
) -> BNNSFilter | None:
    """Build a normalization filter; ``normType`` is BNNSBatchNorm, BNNSInstanceNorm, BNNSLayerNorm or BNNSGroupNorm."""
    who = "BNNSFilterCreateLayerNormalization"
    if isinstance(normType, bool) or not isinstance(normType, int):
        raise TypeError(f"{who}: normType must be a BNNSFilterType, not {type(normType).__name__}.")
    return create(Normalization, who, layer_params, BNNSLayerParametersNormalization, filter_params, normType)


def BNNSNormalizationFilterApplyBatch(
    filter: BNNSFilter | None, batch_size: int, in_: Any, in_stride: int, out: Any, out_stride: int, training: bool
) -> int:
    """Run a normalization filter; with ``training`` it keeps what the backward call needs. ``out`` may be ``in_``."""
    if isinstance(filter, Normalization):
        if training is True:
            if filter.fast_training(batch_size, in_, in_stride, out, out_stride) == 0:
                return 0
        elif training is False and filter.fast_inference(batch_size, in_, in_stride, out, out_stride) == 0:
            return 0
    return attempt(
        "BNNSNormalizationFilterApplyBatch", filter, "apply_normalization_batch",
        batch_size, in_, in_stride, out, out_stride, training,
    )  # fmt: skip


def BNNSNormalizationFilterApplyBackwardBatch(
    filter: BNNSFilter | None, batch_size: int, in_delta: Any, in_delta_stride: int, out: Any, out_stride: int,
    out_delta: Any, out_delta_stride: int, beta_delta: Any = None, gamma_delta: Any = None,
) -> int:  # fmt: skip
    """Gradients with respect to input, beta and gamma (in this order) of the latest training forward.

    ``batch_size`` is that of the training forward; ``out`` is needed with an activation. ``None`` skips a gradient.
    """
    if (
        isinstance(filter, Normalization)
        and filter.fast_backward(
            batch_size, in_delta, in_delta_stride, out, out_stride, out_delta, out_delta_stride, beta_delta, gamma_delta
        ) == 0
    ):  # fmt: skip
        return 0
    return attempt(
        "BNNSNormalizationFilterApplyBackwardBatch", filter, "apply_backward_normalization_batch", batch_size, in_delta,
        in_delta_stride, out, out_stride, out_delta, out_delta_stride, beta_delta, gamma_delta,
    )  # fmt: skip
