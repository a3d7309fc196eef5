"""Fused filters under their C names."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._plural import plural
from .._words import Caller
from ..abi.structs import BNNSFilterParameters
from ..errors import Problem, out_of_memory, record, succeeded
from ..filters.fused import Fused
from ..tensors.operands import check_count, entries
from ._calls import BNNSFilter, check_filter_params
from ._declared import DECLARED, drives

__all__ = [
    "BNNSFilterCreateFusedLayer",
    "BNNSFusedFilterApplyBackwardBatch",
    "BNNSFusedFilterApplyBackwardMultiInputBatch",
    "BNNSFusedFilterApplyBatch",
    "BNNSFusedFilterApplyMultiInputBatch",
]

_VARIANTS = [(count, training) for count in (1, 2, 3) for training in (False, True)]


def BNNSFilterCreateFusedLayer(
    number_of_fused_filters: int, filter_type: Any, layer_params: Any, filter_params: BNNSFilterParameters | None = None
) -> BNNSFilter | None:
    """Build one filter out of a chain of two layers.

    ``filter_type`` and ``layer_params`` hold one BNNSFilterType and one BNNSLayerParameters... struct per layer.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> v = Shape.vector(2).descriptor
    >>> first = BNNSLayerParametersFullyConnected(
    ...     i_desc=v(), w_desc=Shape.matrix_row_major(2, 2).descriptor(data=np.eye(2, dtype=np.float32)), o_desc=v()
    ... )
    >>> then = BNNSLayerParametersNormalization(i_desc=v(), o_desc=v(), epsilon=1e-5)
    >>> f = BNNSFilterCreateFusedLayer(2, [BNNSFullyConnected, BNNSBatchNorm], [first, then])
    >>> y = np.zeros((2, 2), np.float32)
    >>> BNNSFusedFilterApplyBatch(f, 2, np.float32([1, 2, 3, 8]), 2, y, 2, True), y.round(3).tolist()
    (0, [[-1.0, -1.0], [1.0, 1.0]])
    """
    who = "BNNSFilterCreateFusedLayer"
    check_filter_params(filter_params, who)
    try:
        number = check_count(number_of_fused_filters, f"{who}: number_of_fused_filters")
        kinds = _entries(filter_type, number, f"{who}: filter_type")
        for i, kind in enumerate(kinds):
            if isinstance(kind, (bool, np.bool_)) or not isinstance(kind, (int, np.integer)):
                raise TypeError(f"{who}: filter_type[{i}] must be a BNNSFilterType, not {type(kind).__name__}.")
        layers = _entries(layer_params, number, f"{who}: layer_params")
        return succeeded(Fused([int(kind) for kind in kinds], layers, filter_params, Caller(who)))
    except Problem as problem:
        record(problem)
    except MemoryError:
        record(out_of_memory(who))
    return None


def _entries(values: Any, number: int, who: str) -> list[Any]:
    """The first ``number`` entries of a C array."""
    if values is None:
        raise Problem(f"{who} is NULL. Pass one entry per layer.")
    values = entries(values, who, "one entry per layer")
    if len(values) < number:
        raise Problem(
            f"{who} has {plural(len(values), 'entry')}, but number_of_fused_filters is {number}. Pass one per layer."
        )
    return list(values[:number])


@drives("apply_fused", chooses="training", among=(False, True))
def BNNSFusedFilterApplyBatch(
    filter: BNNSFilter | None, batch_size: int, in_: Any, in_stride: int, out: Any, out_stride: int, training: bool
) -> int:
    """Run a fused filter with one input. ``training`` matters where the chain has a normalization: it then uses the
    statistics of this batch, updates the moving ones, and keeps what the backward call needs.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> v = Shape.vector(1).descriptor
    >>> one, kept = np.float32([1]), (v(data=np.float32([4])), v(data=np.float32([1])))  # moving mean and variance
    >>> f = BNNSFilterCreateFusedLayer(
    ...     2,
    ...     [BNNSFullyConnected, BNNSBatchNorm],
    ...     [
    ...         BNNSLayerParametersFullyConnected(
    ...             i_desc=v(), w_desc=Shape.matrix_row_major(1, 1).descriptor(data=one), o_desc=v()
    ...         ),
    ...         BNNSLayerParametersNormalization(
    ...             i_desc=v(), o_desc=v(), moving_mean_desc=kept[0], moving_variance_desc=kept[1]
    ...         ),
    ...     ],
    ... )
    >>> y = np.zeros(2, np.float32)
    >>> BNNSFusedFilterApplyBatch(f, 2, np.float32([6, 8]), 1, y, 1, False), y.tolist()
    (0, [2.0, 4.0])
    """
    return DECLARED


@drives("apply_fused_multi_input", chooses=("number_of_inputs", "training"), among=_VARIANTS)
def BNNSFusedFilterApplyMultiInputBatch(
    filter: BNNSFilter | None, batch_size: int, number_of_inputs: int, in_: Any, in_stride: Any, out: Any,
    out_stride: int, training: bool,
) -> int:  # fmt: skip
    """Run a fused filter that starts with arithmetic; ``in_`` and ``in_stride`` hold one entry per operand.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> v = Shape.vector(1).descriptor()
    >>> add = BNNSArithmeticBinary(in1=v, in1_type=BNNSSample, in2=v, in2_type=BNNSSample, out=v, out_type=BNNSSample)
    >>> f = BNNSFilterCreateFusedLayer(
    ...     2,
    ...     [BNNSArithmetic, BNNSBatchNorm],
    ...     [
    ...         BNNSLayerParametersArithmetic(arithmetic_function=BNNSArithmeticAdd, arithmetic_function_fields=add),
    ...         BNNSLayerParametersNormalization(i_desc=v, o_desc=v),
    ...     ],
    ... )
    >>> a, b, y = np.float32([1, 2]), np.float32([0, 5]), np.zeros(2, np.float32)
    >>> BNNSFusedFilterApplyMultiInputBatch(f, 2, 2, [a, b], [1, 1], y, 1, True), y.tolist()
    (0, [-1.0, 1.0])
    """
    return DECLARED


@drives("apply_backward_fused")
def BNNSFusedFilterApplyBackwardBatch(
    filter: BNNSFilter | None, batch_size: int, in_: Any, in_stride: int, in_delta: Any, in_delta_stride: int, out: Any,
    out_stride: int, out_delta: Any, out_delta_stride: int, delta_parameters: Any = None,
) -> int:  # fmt: skip
    """Gradients of a fused filter with one input, after a training forward with the same batch.

    ``delta_parameters`` holds descriptors for weights, bias, beta, gamma (beta, gamma after arithmetic), ``None`` where
    a gradient is not wanted. ``in_`` is needed for the weights, ``out`` with an activation.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> v = Shape.vector(1).descriptor
    >>> m = Shape.matrix_row_major(1, 1).descriptor
    >>> f = BNNSFilterCreateFusedLayer(
    ...     2,
    ...     [BNNSFullyConnected, BNNSBatchNorm],
    ...     [
    ...         BNNSLayerParametersFullyConnected(i_desc=v(), w_desc=m(data=np.float32([2])), o_desc=v()),
    ...         BNNSLayerParametersNormalization(i_desc=v(), o_desc=v(), beta_desc=v(data=np.float32([0]))),
    ...     ],
    ... )
    >>> x, y, dy = np.float32([1, 3]), np.zeros(2, np.float32), np.float32([5, 7])
    >>> BNNSFusedFilterApplyBatch(f, 2, x, 1, y, 1, True)
    0
    >>> dbeta = np.zeros(1, np.float32)
    >>> wanted = [None, None, v(data=dbeta), None]  # weights, bias, beta, gamma
    >>> BNNSFusedFilterApplyBackwardBatch(f, 2, x, 1, None, 0, y, 1, v(data=dy), 1, wanted), dbeta.tolist()
    (0, [12.0])
    """
    return DECLARED


@drives("apply_backward_fused_multi_input", chooses="number_of_inputs", among=(1, 2, 3))
def BNNSFusedFilterApplyBackwardMultiInputBatch(
    filter: BNNSFilter | None, batch_size: int, number_of_inputs: int, in_: Any, in_stride: Any, in_delta: Any,
    in_delta_stride: Any, out: Any, out_stride: int, out_delta: Any, out_delta_stride: int, delta_parameters: Any = None,
) -> int:  # fmt: skip
    """Gradients of a fused filter that starts with arithmetic: of every operand, and of beta and gamma.

    ``in_delta`` holds one descriptor per operand, with data ``None`` for one to be skipped; ``in_`` may be ``None``
    where the derivative does not need the operands.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> v = Shape.vector(1).descriptor
    >>> add = BNNSArithmeticBinary(in1=v(), in2=v(), out=v())
    >>> add.in1_type = add.in2_type = add.out_type = BNNSSample
    >>> f = BNNSFilterCreateFusedLayer(
    ...     2,
    ...     [BNNSArithmetic, BNNSBatchNorm],
    ...     [
    ...         BNNSLayerParametersArithmetic(arithmetic_function=BNNSArithmeticAdd, arithmetic_function_fields=add),
    ...         BNNSLayerParametersNormalization(i_desc=v(), o_desc=v(), gamma_desc=v(data=np.float32([1]))),
    ...     ],
    ... )
    >>> x, y, dy = [np.float32([1, 2]), np.float32([0, 5])], np.zeros(2, np.float32), np.float32([5, 7])
    >>> BNNSFusedFilterApplyMultiInputBatch(f, 2, 2, x, [1, 1], y, 1, True)
    0
    >>> dgamma = np.zeros(1, np.float32)
    >>> BNNSFusedFilterApplyBackwardMultiInputBatch(
    ...     f, 2, 2, x, [1, 1], [v(), v()], [1, 1], y, 1, v(data=dy), 1, [None, v(data=dgamma)]
    ... )
    0
    >>> dgamma.tolist()  # sum of dy times the normalized input, here -1 and 1
    [2.0]
    """
    return DECLARED
