"""The general calls: apply a filter forward and backward, destroy it."""

from __future__ import annotations

from typing import Any

from .. import _strict
from ._calls import BNNSFilter
from ._declared import DECLARED, drives

__all__ = [
    "BNNSFilterApply",
    "BNNSFilterApplyBackwardBatch",
    "BNNSFilterApplyBackwardTwoInputBatch",
    "BNNSFilterApplyBatch",
    "BNNSFilterApplyTwoInput",
    "BNNSFilterApplyTwoInputBatch",
    "BNNSFilterDestroy",
]


@drives("apply")
def BNNSFilterApply(filter: BNNSFilter | None, in_: Any, out: Any) -> int:
    """Run a single-input filter on one sample. Returns 0, or -1 on failure.

    ``in_`` and ``out`` hold one sample as ``i_desc`` and ``o_desc`` of the layer describe it.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> v = Shape.vector(3).descriptor
    >>> relu = BNNSActivation(function=BNNSActivationFunctionRectifiedLinear)
    >>> f = BNNSFilterCreateLayerActivation(BNNSLayerParametersActivation(i_desc=v(), o_desc=v(), activation=relu))
    >>> y = np.zeros(3, np.float32)
    >>> BNNSFilterApply(f, np.float32([-1, 0, 2]), y), y.tolist()
    (0, [0.0, 0.0, 2.0])
    >>> BNNSFilterDestroy(f)
    """
    return DECLARED


@drives("apply")
def BNNSFilterApplyBatch(
    filter: BNNSFilter | None, batch_size: int, in_: Any, in_stride: int, out: Any, out_stride: int
) -> int:
    """Run a single-input filter on a batch; strides count elements between samples, 0 meaning packed.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> v = Shape.vector(2).descriptor
    >>> triple = BNNSActivation(function=BNNSActivationFunctionLinear, alpha=3)
    >>> f = BNNSFilterCreateLayerActivation(BNNSLayerParametersActivation(i_desc=v(), o_desc=v(), activation=triple))
    >>> x, y = np.float32([1, 2, 9, 3, 4, 9]), np.zeros(4, np.float32)
    >>> BNNSFilterApplyBatch(f, 2, x, 3, y, 2), y.tolist()  # samples start 3 floats apart in x, 2 in y
    (0, [3.0, 6.0, 9.0, 12.0])
    """
    return DECLARED


@drives("apply_two_input")
def BNNSFilterApplyTwoInput(filter: BNNSFilter | None, inA: Any, inB: Any, out: Any) -> int:
    """Run a two-input filter (matrix product, contraction) on one pair.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> row, one = Shape.matrix_row_major(2, 1).descriptor(), Shape.matrix_row_major(1, 1).descriptor()
    >>> column = Shape.matrix_row_major(1, 2).descriptor()
    >>> f = BNNSFilterCreateLayerBroadcastMatMul(
    ...     BNNSLayerParametersBroadcastMatMul(alpha=1, iA_desc=row, iB_desc=column, o_desc=one)
    ... )
    >>> c = np.zeros(1, np.float32)
    >>> BNNSFilterApplyTwoInput(f, np.float32([1, 2]), np.float32([3, 4]), c), c.tolist()
    (0, [11.0])
    """
    return DECLARED


@drives("apply_two_input")
def BNNSFilterApplyTwoInputBatch(
    filter: BNNSFilter | None, batch_size: int, inA: Any, inA_stride: int, inB: Any, inB_stride: int, out: Any,
    out_stride: int,
) -> int:  # fmt: skip
    """Run a two-input filter on a batch of pairs.

    Strides count elements between samples, 0 meaning packed.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> m = Shape.matrix_row_major
    >>> f = BNNSFilterCreateLayerBroadcastMatMul(
    ...     BNNSLayerParametersBroadcastMatMul(
    ...         alpha=1, iA_desc=m(2, 1).descriptor(), iB_desc=m(1, 2).descriptor(), o_desc=m(1, 1).descriptor()
    ...     )
    ... )
    >>> a, b, c = np.float32([[1, 2], [3, 4]]), np.float32([[1, 1], [0, 5]]), np.zeros(2, np.float32)
    >>> BNNSFilterApplyTwoInputBatch(f, 2, a, 2, b, 2, c, 1), c.tolist()
    (0, [3.0, 20.0])
    """
    return DECLARED


@drives("apply_backward")
def BNNSFilterApplyBackwardBatch(
    filter: BNNSFilter | None, batch_size: int, in_: Any, in_stride: int, in_delta: Any, in_delta_stride: int, out: Any,
    out_stride: int, out_delta: Any, out_delta_stride: int, weights_delta: Any = None, bias_delta: Any = None,
) -> int:  # fmt: skip
    """Gradients of a single-input filter with respect to input, weights and bias.

    ``in_delta``, ``weights_delta`` and ``bias_delta`` describe one sample (or the parameter) and are written as their
    flags say; ``None`` skips one. ``in_`` is needed for the weights gradient, ``out`` whenever an activation is fused.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> v = Shape.vector(2).descriptor
    >>> m = Shape.matrix_row_major(2, 2).descriptor  # W (out, in)
    >>> f = BNNSFilterCreateLayerFullyConnected(
    ...     BNNSLayerParametersFullyConnected(i_desc=v(), w_desc=m(data=np.float32([1, 2, 3, 4])), o_desc=v())
    ... )
    >>> x, dy = np.float32([5, 6]), np.float32([1, 10])
    >>> dx, dw = np.zeros(2, np.float32), np.zeros((2, 2), np.float32)
    >>> BNNSFilterApplyBackwardBatch(f, 1, x, 2, v(data=dx), 2, None, 0, v(data=dy), 2, m(data=dw), None)
    0
    >>> dx.tolist(), dw.tolist()  # W^T dy, dy x^T
    ([31.0, 42.0], [[5.0, 6.0], [50.0, 60.0]])
    """
    return DECLARED


@drives("apply_backward_two_input")
def BNNSFilterApplyBackwardTwoInputBatch(
    filter: BNNSFilter | None, batch_size: int, inA: Any, inA_stride: int, inA_delta: Any, inA_delta_stride: int, inB: Any,
    inB_stride: int, inB_delta: Any, inB_delta_stride: int, out: Any, out_stride: int, out_delta: Any,
    out_delta_stride: int, weights_delta: Any = None, bias_delta: Any = None,
) -> int:  # fmt: skip
    """Gradients of a two-input filter.

    ``inA_delta`` and ``inB_delta`` describe one sample and are written as their flags say; ``None`` skips one. ``inA`` is
    needed for the gradient of B, and vice versa; ``out``, ``weights_delta`` and ``bias_delta`` have no effect.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> m = lambda *size, data=None: Shape.matrix_row_major(*size).descriptor(data=data)
    >>> f = BNNSFilterCreateLayerBroadcastMatMul(
    ...     BNNSLayerParametersBroadcastMatMul(alpha=1, iA_desc=m(2, 1), iB_desc=m(1, 2), o_desc=m(1, 1))
    ... )
    >>> a, b, da, db = np.float32([1, 2]), np.float32([3, 4]), np.zeros(2, np.float32), np.zeros(2, np.float32)
    >>> dc = m(1, 1, data=np.float32([10]))
    >>> BNNSFilterApplyBackwardTwoInputBatch(f, 1, a, 0, m(2, 1, data=da), 0, b, 0, m(1, 2, data=db), 0, None, 0, dc, 0)
    0
    >>> da.tolist(), db.tolist()  # dC B^T, A^T dC
    ([30.0, 40.0], [10.0, 20.0])
    """
    return DECLARED


def BNNSFilterDestroy(filter: BNNSFilter | None = None) -> None:
    """Release a filter and everything it owns; ``None`` and destroyed filters are ignored.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> v = Shape.vector(3).descriptor()
    >>> f = BNNSFilterCreateLayerActivation(BNNSLayerParametersActivation(i_desc=v, o_desc=v))
    >>> BNNSFilterDestroy(f)
    >>> BNNSFilterApply(f, np.ones(3, np.float32), np.ones(3, np.float32))  # openbnns.last_error() says why
    -1
    """
    if filter is None:
        return
    if not isinstance(filter, BNNSFilter):
        raise TypeError(f"BNNSFilterDestroy: filter must be a BNNSFilter, not {type(filter).__name__}.")
    if not filter.alive:
        _strict.destroyed_again("BNNSFilterDestroy")
    filter.destroy()
