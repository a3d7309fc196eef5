"""Reduction under its C names."""

from __future__ import annotations

from typing import Any

from .._words import Caller
from ..abi.structs import BNNSFilterParameters, BNNSLayerParametersReduction
from ..errors import FAILURE
from ..filters.reduction import Reduction
from ._calls import BNNSFilter, Known, check_filter_params, create, is_given

__all__ = ["BNNSDirectApplyReduction", "BNNSFilterCreateLayerReduction"]


def BNNSFilterCreateLayerReduction(
    layer_params: BNNSLayerParametersReduction | Any, filter_params: BNNSFilterParameters | None = None
) -> BNNSFilter | None:
    """Build a reduction filter: axes whose output size is 1 are reduced.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> p = BNNSLayerParametersReduction(
    ...     i_desc=Shape([2, 3]).descriptor(), o_desc=Shape([2, 1]).descriptor(), reduce_func=BNNSReduceFunctionSum
    ... )
    >>> f, y = BNNSFilterCreateLayerReduction(p), np.zeros(2, np.float32)
    >>> BNNSFilterApply(f, np.float32([[1, 2, 3], [4, 5, 6]]), y), y.tolist()
    (0, [6.0, 15.0])
    """
    return create(
        Reduction, "BNNSFilterCreateLayerReduction", layer_params, BNNSLayerParametersReduction, filter_params
    )


def BNNSDirectApplyReduction(
    layer_params: BNNSLayerParametersReduction | Any, filter_params: BNNSFilterParameters | None = None
) -> int:
    """Reduce one tensor in one call; data pointers come from the descriptors.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> x, y = np.float32([3, 9, 5]), np.zeros(1, np.int32)
    >>> p = BNNSLayerParametersReduction(
    ...     i_desc=Shape.vector(3).descriptor(data=x), o_desc=Shape.vector(1).descriptor(BNNSDataTypeInt32, y),
    ...     reduce_func=BNNSReduceFunctionArgMax,
    ... )
    >>> BNNSDirectApplyReduction(p), y.tolist()
    (0, [1])
    """
    who = "BNNSDirectApplyReduction"
    if not is_given(layer_params, BNNSLayerParametersReduction, who):
        return FAILURE
    if _REDUCE.calls.run(*_key(layer_params, filter_params)) is not None:
        return 0
    check_filter_params(filter_params, who)
    p = layer_params.copy()
    return _REDUCE.attempt(_key(p, filter_params), lambda *_: _reduce(p, filter_params, who))


def _key(p: BNNSLayerParametersReduction, filter_params: BNNSFilterParameters | None) -> tuple[Any, ...]:
    return p.i_desc, p.o_desc, p.w_desc, p.reduce_func, p.epsilon, filter_params


def _reduce(p: BNNSLayerParametersReduction, filter_params: BNNSFilterParameters | None, who: str) -> None:
    caller = Caller(who, {"in": "i_desc.data", "out": "o_desc.data"})
    made = Reduction(p, filter_params, caller, direct=True)
    made.perform("apply", caller, 1, {"in": (p.i_desc.data, 0), "out": (p.o_desc.data, 0)})
    made.destroy()


_REDUCE = Known("BNNSDirectApplyReduction", 1)
