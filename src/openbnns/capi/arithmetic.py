"""Arithmetic under its C names."""

from __future__ import annotations

from typing import Any

from ..abi.structs import BNNSFilterParameters, BNNSLayerParametersArithmetic
from ..filters.arithmetic import Arithmetic
from ._calls import BNNSFilter, create
from ._declared import DECLARED, drives

__all__ = [
    "BNNSArithmeticFilterApplyBackwardBatch",
    "BNNSArithmeticFilterApplyBatch",
    "BNNSFilterCreateLayerArithmetic",
]


def BNNSFilterCreateLayerArithmetic(
    layer_params: BNNSLayerParametersArithmetic | Any, filter_params: BNNSFilterParameters | None = None
) -> BNNSFilter | None:
    """Build an elementwise arithmetic filter.

    y = f(op(in1, in2, ...)), operands broadcast where a size is 1. The ``..._type`` of an operand says whether it is one
    per sample, a constant or a parameter, whose gradient is summed over the batch.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> v = Shape.vector(2).descriptor()
    >>> operands = BNNSArithmeticBinary(in1=v, in2=v, out=v)
    >>> operands.in1_type = operands.in2_type = operands.out_type = BNNSSample
    >>> f = BNNSFilterCreateLayerArithmetic(
    ...     BNNSLayerParametersArithmetic(arithmetic_function=BNNSArithmeticPow, arithmetic_function_fields=operands)
    ... )
    >>> y = np.zeros(2, np.float32)
    >>> BNNSArithmeticFilterApplyBatch(f, 1, 2, [np.float32([2, 3]), np.float32([3, 2])], [2, 2], y, 2), y.tolist()
    (0, [8.0, 9.0])
    """
    return create(
        Arithmetic, "BNNSFilterCreateLayerArithmetic", layer_params, BNNSLayerParametersArithmetic, filter_params
    )


@drives("apply_arithmetic", chooses="number_of_inputs", among=(1, 2, 3))
def BNNSArithmeticFilterApplyBatch(
    filter: BNNSFilter | None,
    batch_size: int,
    number_of_inputs: int,
    in_: Any,
    in_stride: Any,
    out: Any,
    out_stride: int,
) -> int:
    """Run an arithmetic filter on a batch; ``in_`` and ``in_stride`` hold one entry per operand.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> v = Shape.vector(2).descriptor()
    >>> fields = BNNSArithmeticUnary(in_=v, in_type=BNNSSample, out=v, out_type=BNNSSample)
    >>> f = BNNSFilterCreateLayerArithmetic(
    ...     BNNSLayerParametersArithmetic(arithmetic_function=BNNSArithmeticSquare, arithmetic_function_fields=fields)
    ... )
    >>> y = np.zeros((2, 2), np.float32)
    >>> BNNSArithmeticFilterApplyBatch(f, 2, 1, [np.float32([1, 2, 3, 4])], [2], y, 2), y.tolist()
    (0, [[1.0, 4.0], [9.0, 16.0]])
    """
    return DECLARED


@drives("apply_backward_arithmetic", chooses="number_of_inputs", among=(1, 2, 3))
def BNNSArithmeticFilterApplyBackwardBatch(
    filter: BNNSFilter | None, batch_size: int, number_of_inputs: int, in_: Any, in_stride: Any, in_delta: Any,
    in_delta_stride: Any, out: Any, out_stride: int, out_delta: Any, out_delta_stride: int,
) -> int:  # fmt: skip
    """Gradients of an arithmetic filter with respect to every operand.

    ``in_`` may be ``None``, whole or in part, where the derivative does not need the operands; ``out`` is needed with an
    activation. An entry of ``in_delta`` whose data is ``None`` is skipped.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> v = Shape.vector(2).descriptor
    >>> fields = BNNSArithmeticBinary(in1=v(), in2=v(), out=v())
    >>> fields.in1_type = fields.in2_type = fields.out_type = BNNSSample
    >>> f = BNNSFilterCreateLayerArithmetic(
    ...     BNNSLayerParametersArithmetic(arithmetic_function=BNNSArithmeticMultiply, arithmetic_function_fields=fields)
    ... )
    >>> a, b, dy = np.float32([2, 3]), np.float32([5, 7]), np.float32([1, 10])
    >>> da, db = np.zeros(2, np.float32), np.zeros(2, np.float32)
    >>> BNNSArithmeticFilterApplyBackwardBatch(
    ...     f, 1, 2, [a, b], [2, 2], [v(data=da), v(data=db)], [2, 2], None, 0, v(data=dy), 2
    ... )
    0
    >>> da.tolist(), db.tolist()  # b dy, a dy
    ([5.0, 70.0], [2.0, 30.0])
    """
    return DECLARED
