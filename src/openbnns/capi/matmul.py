"""Matrix products under their C names."""

from __future__ import annotations

from typing import Any

from .._words import Caller
from ..abi.structs import BNNSFilterParameters, BNNSLayerParametersBroadcastMatMul, BNNSNDArrayDescriptor
from ..errors import Problem, record, succeeded
from ..filters.matmul import BroadcastMatMul, direct_filter, direct_names, multiply
from ._calls import BNNSFilter, Known, check_filter_params, create

__all__ = [
    "BNNSDirectApplyBroadcastMatMul",
    "BNNSFilterCreateLayerBroadcastMatMul",
    "BNNSMatMul",
    "BNNSMatMulWorkspaceSize",
]


def BNNSFilterCreateLayerBroadcastMatMul(
    layer_params: BNNSLayerParametersBroadcastMatMul | Any, filter_params: BNNSFilterParameters | None = None
) -> BNNSFilter | None:
    """Build a broadcasting matrix-product filter: C = alpha op(A) op(B), plus the previous C if beta is 1.

    Two inputs are applied with the two-input calls. With ``a_is_weights``, ``b_is_weights`` or ``quadratic`` there is one
    input, and the single-input calls are used; the gradient of weights is ``weights_delta``.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> a, b = Shape([2, 2]).descriptor(), Shape([3, 2, 2]).descriptor()  # A is used for all three B
    >>> f = BNNSFilterCreateLayerBroadcastMatMul(
    ...     BNNSLayerParametersBroadcastMatMul(alpha=2, transA=True, iA_desc=a, iB_desc=b, o_desc=b)
    ... )
    >>> x, c = np.float32([[0, 1], [0, 0]]), np.zeros((3, 2, 2), np.float32)
    >>> BNNSFilterApplyTwoInput(f, x, np.arange(12, dtype=np.float32), c), c[2].tolist()
    (0, [[0.0, 0.0], [16.0, 18.0]])
    """
    return create(
        BroadcastMatMul, "BNNSFilterCreateLayerBroadcastMatMul", layer_params, BNNSLayerParametersBroadcastMatMul, filter_params
    )  # fmt: skip


def BNNSMatMulWorkspaceSize(
    transA: bool, transB: bool, alpha: float, inputA: BNNSNDArrayDescriptor | None, inputB: BNNSNDArrayDescriptor | None,
    output: BNNSNDArrayDescriptor | None, filter_params: BNNSFilterParameters | None = None,
) -> int:  # fmt: skip
    """Bytes of workspace that ``BNNSMatMul`` needs for these descriptors, whose data is not read.

    That is 0, as products need no memory beyond what each thread keeps; a negative number means an invalid description.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> m = Shape([2, 2]).descriptor()
    >>> BNNSMatMulWorkspaceSize(False, False, 1.0, m, m, m)
    0
    """
    who = "BNNSMatMulWorkspaceSize"
    check_filter_params(filter_params, who)
    _check_numbers(who, transA, transB, alpha)
    try:
        direct_filter(Caller(who, direct_names({})), transA, transB, alpha, (inputA, inputB, output), filter_params)
    except Problem as problem:
        return record(problem)
    return succeeded(0)


def BNNSMatMul(
    transA: bool, transB: bool, alpha: float, inputA: BNNSNDArrayDescriptor | None, inputB: BNNSNDArrayDescriptor | None,
    output: BNNSNDArrayDescriptor | None, workspace: Any = None, filter_params: BNNSFilterParameters | None = None,
) -> int:  # fmt: skip
    """output = alpha op(A) op(B), on the data that the descriptors point to, without a filter.

    Floating-point types only. ``workspace`` may be ``None``; no bytes of it are used.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> a, b, c = np.float32([[1, 2]]), np.float32([[3, 4]]), np.zeros((1, 1), np.float32)
    >>> row = Shape([1, 2]).descriptor
    >>> BNNSMatMul(False, True, 1.0, row(data=a), row(data=b), Shape([1, 1]).descriptor(data=c)), c.tolist()
    (0, [[11.0]])
    """
    return _multiply(_MATMUL, transA, transB, alpha, (inputA, inputB, output), filter_params)


def BNNSDirectApplyBroadcastMatMul(
    transA: bool, transB: bool, alpha: float, inputA: BNNSNDArrayDescriptor | None, inputB: BNNSNDArrayDescriptor | None,
    output: BNNSNDArrayDescriptor | None, filter_params: BNNSFilterParameters | None = None,
) -> None:  # fmt: skip
    """The older form of ``BNNSMatMul``, without a status: a failure shows in ``openbnns.last_error()``.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> a, c = np.float32([[1, 2]]), np.zeros((2, 2), np.float32)
    >>> row = Shape([1, 2]).descriptor(data=a)
    >>> BNNSDirectApplyBroadcastMatMul(True, False, 1.0, row, row, Shape([2, 2]).descriptor(data=c))
    >>> c.tolist()
    [[1.0, 2.0], [2.0, 4.0]]
    """
    _multiply(_BROADCAST_MATMUL, transA, transB, alpha, (inputA, inputB, output), filter_params)


def _multiply(
    known: Known, trans_a: Any, trans_b: Any, alpha: Any, descriptors: tuple[Any, ...], filter_params: Any
) -> int:
    key = (trans_a, trans_b, alpha, *descriptors, filter_params)
    if known.calls.run(*key) is not None:
        return 0
    who = known.caller.function
    check_filter_params(filter_params, who)
    _check_numbers(who, trans_a, trans_b, alpha)
    return known.attempt(
        key, lambda a, b, scale, *own: multiply(Caller(who, direct_names({})), a, b, scale, own[:3], own[3])
    )


_MATMUL = Known("BNNSMatMul", 5)
_BROADCAST_MATMUL = Known("BNNSDirectApplyBroadcastMatMul", 5)


def _check_numbers(who: str, trans_a: Any, trans_b: Any, alpha: Any) -> None:
    """Two booleans and a number, in any Python form."""
    for name, value in (("transA", trans_a), ("transB", trans_b), ("alpha", alpha)):
        try:
            float(value)
        except (TypeError, ValueError, OverflowError):
            expected = "a number" if name == "alpha" else "a bool"
            raise TypeError(f"{who}: {name} must be {expected}, not {type(value).__name__}.") from None
