"""The general calls: apply a filter forward and backward, destroy it."""

from __future__ import annotations

from typing import Any

from ..filters._base import UnaryFilter
from ._calls import BNNSFilter, attempt


def BNNSFilterApply(filter: BNNSFilter | None, in_: Any, out: Any) -> int:
    """Run a single-input filter on one sample. Returns 0, or -1 on failure."""
    if isinstance(filter, UnaryFilter) and filter.fast_forward(1, in_, 0, out, 0) == 0:
        return 0
    return attempt("BNNSFilterApply", filter, "apply_batch", 1, in_, 0, out, 0)


def BNNSFilterApplyBatch(
    filter: BNNSFilter | None, batch_size: int, in_: Any, in_stride: int, out: Any, out_stride: int
) -> int:
    """Run a single-input filter on a batch; strides count elements between samples, 0 meaning packed."""
    if isinstance(filter, UnaryFilter) and filter.fast_forward(batch_size, in_, in_stride, out, out_stride) == 0:
        return 0
    return attempt("BNNSFilterApplyBatch", filter, "apply_batch", batch_size, in_, in_stride, out, out_stride)


def BNNSFilterApplyTwoInput(filter: BNNSFilter | None, inA: Any, inB: Any, out: Any) -> int:
    """Run a two-input filter (matrix product, contraction) on one pair."""
    if isinstance(filter, UnaryFilter) and filter.fast_forward(1, inA, 0, inB, 0, out, 0) == 0:
        return 0
    return attempt("BNNSFilterApplyTwoInput", filter, "apply_two_input_batch", 1, inA, 0, inB, 0, out, 0)


def BNNSFilterApplyTwoInputBatch(
    filter: BNNSFilter | None, batch_size: int, inA: Any, inA_stride: int, inB: Any, inB_stride: int, out: Any,
    out_stride: int,
) -> int:  # fmt: skip
    """Run a two-input filter on a batch of pairs."""
    if (
        isinstance(filter, UnaryFilter)
        and filter.fast_forward(batch_size, inA, inA_stride, inB, inB_stride, out, out_stride) == 0
    ):
        return 0
    return attempt(
        "BNNSFilterApplyTwoInputBatch", filter, "apply_two_input_batch",
        batch_size, inA, inA_stride, inB, inB_stride, out, out_stride,
    )  # fmt: skip


def BNNSFilterApplyBackwardBatch(
    filter: BNNSFilter | None, batch_size: int, in_: Any, in_stride: int, in_delta: Any, in_delta_stride: int, out: Any,
    out_stride: int, out_delta: Any, out_delta_stride: int, weights_delta: Any = None, bias_delta: Any = None,
) -> int:  # fmt: skip
    """Gradients of a single-input filter with respect to input, weights and bias.

    ``in_delta``, ``weights_delta`` and ``bias_delta`` describe one sample (or the parameter) and are written as their
    flags say; ``None`` skips one. ``in_`` is needed for the weights gradient, ``out`` whenever an activation is fused.
    """
    if (
        isinstance(filter, UnaryFilter)
        and filter.fast_backward(
            batch_size, in_, in_stride, in_delta, in_delta_stride, out, out_stride, out_delta, out_delta_stride,
            weights_delta, bias_delta,
        ) == 0
    ):  # fmt: skip
        return 0
    return attempt(
        "BNNSFilterApplyBackwardBatch", filter, "apply_backward_batch", batch_size, in_, in_stride, in_delta,
        in_delta_stride, out, out_stride, out_delta, out_delta_stride, weights_delta, bias_delta,
    )  # fmt: skip


def BNNSFilterApplyBackwardTwoInputBatch(
    filter: BNNSFilter | None, batch_size: int, inA: Any, inA_stride: int, inA_delta: Any, inA_delta_stride: int, inB: Any,
    inB_stride: int, inB_delta: Any, inB_delta_stride: int, out: Any, out_stride: int, out_delta: Any,
    out_delta_stride: int, weights_delta: Any = None, bias_delta: Any = None,
) -> int:  # fmt: skip
    """Gradients of a two-input filter.

    ``inA_delta`` and ``inB_delta`` describe one sample and are written as their flags say; ``None`` skips one. ``inA`` is
    needed for the gradient of B and the other way round; ``out``, ``weights_delta`` and ``bias_delta`` have no effect.
    """
    if (
        isinstance(filter, UnaryFilter)
        and filter.fast_backward(
            batch_size, inA, inA_stride, inA_delta, inA_delta_stride, inB, inB_stride, inB_delta, inB_delta_stride, out,
            out_stride, out_delta, out_delta_stride, weights_delta, bias_delta,
        ) == 0
    ):  # fmt: skip
        return 0
    return attempt(
        "BNNSFilterApplyBackwardTwoInputBatch", filter, "apply_backward_two_input_batch", batch_size, inA, inA_stride,
        inA_delta, inA_delta_stride, inB, inB_stride, inB_delta, inB_delta_stride, out, out_stride, out_delta,
        out_delta_stride, weights_delta, bias_delta,
    )  # fmt: skip


def BNNSFilterDestroy(filter: BNNSFilter | None = None) -> None:
    """Release a filter and everything it owns; ``None`` and a filter already destroyed are left alone."""
    if filter is None:
        return
    if not isinstance(filter, BNNSFilter):
        raise TypeError(f"BNNSFilterDestroy: filter must be a BNNSFilter, not {type(filter).__name__}.")
    filter.destroy()
