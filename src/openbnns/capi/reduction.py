"""Reduction under its C names."""

from __future__ import annotations

from typing import Any

from .. import compat, engines
from ..descriptors import resolve
from ..errors import Problem, record
from ..filters._tensors import Caller
from ..filters.reduction import Reduction
from ._calls import BNNSFilter, check_filter_params, create, out_of_memory
from .structs import BNNSFilterParameters, BNNSLayerParametersReduction


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
    if layer_params is None:
        return record(Problem(f"{who}: layer_params is NULL. Pass a BNNSLayerParametersReduction."))
    if not isinstance(layer_params, BNNSLayerParametersReduction):
        raise TypeError(
            f"{who}: layer_params must be a BNNSLayerParametersReduction, not {type(layer_params).__name__}."
        )
    check_filter_params(filter_params, who)
    try:
        kept = filter_params is None and layer_params.w_desc.data is None
        made = _kept(layer_params, who) if kept else Reduction(layer_params, filter_params, who)
        caller = Caller(who, {"in": "i_desc.data", "out": "o_desc.data"})
        made.apply_batch(caller, 1, layer_params.i_desc.data, 0, layer_params.o_desc.data, 0)
        if not kept:
            made.destroy()
    except Problem as problem:
        return record(problem)
    except MemoryError:
        return record(out_of_memory(who))
    return 0


_known: dict[tuple[Any, ...], Reduction] = {}
_MOST_KNOWN = 64


def _kept(p: BNNSLayerParametersReduction, who: str) -> Reduction:
    """The filter of a call without weights and filter parameters: it holds nothing of the caller's, so calls share it."""
    x, y = resolve(p.i_desc, f"{who}: i_desc"), resolve(p.o_desc, f"{who}: o_desc")
    key = (int(p.reduce_func), p.epsilon, x, y, compat.switches.argmax_last_axis, engines.is_native())
    made = _known.get(key)
    if made is None:
        made = Reduction(p, None, who)
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        _known[key] = made
    return made
