"""Arithmetic under its C names."""

from __future__ import annotations

from typing import Any

from ..filters.arithmetic import Arithmetic
from ._calls import BNNSFilter, attempt, create
from .structs import BNNSFilterParameters, BNNSLayerParametersArithmetic


def BNNSFilterCreateLayerArithmetic(
    layer_params: BNNSLayerParametersArithmetic | Any, filter_params: BNNSFilterParameters | None = None
) -> BNNSFilter | None:
    """Build an elementwise arithmetic filter."""
    return create(
        Arithmetic, "BNNSFilterCreateLayerArithmetic", layer_params, BNNSLayerParametersArithmetic, filter_params
    )


def BNNSArithmeticFilterApplyBatch(
    filter: BNNSFilter | None,
    batch_size: int,
    number_of_inputs: int,
    in_: Any,
    in_stride: Any,
    out: Any,
    out_stride: int,
) -> int:
    """Run an arithmetic filter on a batch; ``in_`` and ``in_stride`` hold one entry per operand."""
    if (
        isinstance(filter, Arithmetic)
        and _is_count(number_of_inputs, filter)
        and filter.fast_forward(batch_size, in_, in_stride, out, out_stride) == 0
    ):
        return 0
    return attempt(
        "BNNSArithmeticFilterApplyBatch", filter, "apply_arithmetic_batch",
        batch_size, number_of_inputs, in_, in_stride, out, out_stride,
    )  # fmt: skip


def BNNSArithmeticFilterApplyBackwardBatch(
    filter: BNNSFilter | None, batch_size: int, number_of_inputs: int, in_: Any, in_stride: Any, in_delta: Any,
    in_delta_stride: Any, out: Any, out_stride: int, out_delta: Any, out_delta_stride: int,
) -> int:  # fmt: skip
    """Gradients of an arithmetic filter with respect to every operand.

    ``in_`` may be ``None``, whole or in part, where the derivative does not need the operands; ``out`` is needed with an
    activation. An entry of ``in_delta`` whose data is ``None`` is skipped.
    """
    if isinstance(filter, Arithmetic) and _is_count(number_of_inputs, filter):
        operands, strides = (in_, in_stride) if in_ is not None else (filter.no_operands, filter.no_strides)
        if filter.fast_backward(
            batch_size, operands, strides, in_delta, in_delta_stride, out, out_stride, out_delta, out_delta_stride
        ) == 0:  # fmt: skip
            return 0
    return attempt(
        "BNNSArithmeticFilterApplyBackwardBatch", filter, "apply_backward_arithmetic_batch", batch_size, number_of_inputs,
        in_, in_stride, in_delta, in_delta_stride, out, out_stride, out_delta, out_delta_stride,
    )  # fmt: skip


def _is_count(number: Any, filter: Arithmetic) -> bool:
    """The filter's number of operands, as a plain int."""
    return type(number) is int and number == filter.count
