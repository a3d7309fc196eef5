"""Numbers by which C programs run native calls without the interpreter: see core/bindings/raw.h."""

from __future__ import annotations

from typing import Any

from .. import capi, engines
from ..filters.base import Filter
from ._calls import Known

_LISTS = {"BNNSOptimizerStep": "optimizer_number", "BNNSClipByGlobalNorm": "clipping_number"}
_LSTM = {"BNNSDirectApplyLSTMBatchTrainingCaching": False, "BNNSDirectApplyLSTMBatchBackward": True}


def of_filter(function: str, filter: Any) -> int:
    """The number of a function that drives this filter; 0 if its calls always go through Python.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> v = Shape.vector(2).descriptor()
    >>> f = BNNSFilterCreateLayerActivation(BNNSLayerParametersActivation(i_desc=v, o_desc=v))
    >>> of_filter("BNNSFilterApply", f) > 0
    True
    """
    number = getattr(getattr(capi, function), "number", None)
    return int(number(filter)) if number is not None and isinstance(filter, Filter) else 0


def of_context(context: Any) -> int:
    """The number that repeats executions of a context of a graph; 0 if they need Python.

    It is for the functions and sizes that Python has executed before. There may be another one after the next execution.
    """
    return int(context.number())


def of_function(function: str) -> int:
    """The number of a function without a filter; 0 if its calls always go through Python.

    Python makes the first call with given descriptors (sizes, types, strides); the number repeats such calls. The number
    changes when recorded calls are dropped, so ask again after a call was declined.

    >>> of_function("BNNSCopy") > 0, of_function("BNNSCreateRandomGenerator")
    (True, 0)
    """
    if function in _LSTM:
        return 0 if engines._core is None else int(engines._core.lstm_number(_LSTM[function]))
    getattr(capi, function)  # which loads its module
    if function in _LISTS:
        return 0 if engines._core is None else int(getattr(engines._core, _LISTS[function])())
    known = Known.by_name.get(function)
    return 0 if known is None else known.number()
