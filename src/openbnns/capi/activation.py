"""Activations under their C names."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._words import Caller
from ..abi.enums import BNNSPointerSpecifier
from ..abi.structs import BNNSFilterParameters, BNNSLayerParametersActivation, BNNSNDArrayDescriptor
from ..calls.form import form
from ..errors import FAILURE, Problem, record, succeeded
from ..filters.activation import ActivationFilter
from ._calls import BNNSFilter, Known, check_filter_params, create, is_given

__all__ = ["BNNSDirectApplyActivationBatch", "BNNSFilterCreateLayerActivation", "BNNSGetPointer"]


def BNNSFilterCreateLayerActivation(
    layer_params: BNNSLayerParametersActivation | Any, filter_params: BNNSFilterParameters | None = None
) -> BNNSFilter | None:
    """Build a standalone activation or type-conversion filter.

    y = f(x) and dx = f'(x) dy for any tensor, input and output of the same sizes; softmax runs along the axes of
    ``axis_flags`` (bit d: size[d]).

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> v = Shape.vector(2).descriptor
    >>> tanh = BNNSActivation(function=BNNSActivationFunctionTanh)
    >>> f = BNNSFilterCreateLayerActivation(BNNSLayerParametersActivation(i_desc=v(), o_desc=v(), activation=tanh))
    >>> x, y, dy = np.float32([0, 1]), np.zeros(2, np.float32), np.float32([1, 1])
    >>> BNNSFilterApply(f, x, y)
    0
    >>> BNNSFilterApplyBackwardBatch(f, 1, x, 2, v(data=x), 2, y, 2, v(data=dy), 2)  # the gradient may replace x
    0
    >>> print(y.round(4), x.round(4))
    [0.     0.7616] [1.   0.42]
    """
    return create(
        ActivationFilter, "BNNSFilterCreateLayerActivation", layer_params, BNNSLayerParametersActivation, filter_params
    )


def BNNSDirectApplyActivationBatch(
    layer_params: BNNSLayerParametersActivation | Any,
    filter_params: BNNSFilterParameters | None,
    batch_size: int,
    in_stride: int,
    out_stride: int,
) -> int:
    """Apply an activation, or convert element types, in one call; data pointers come from the descriptors.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> x, y = np.float32([1.5, -2.5, 300]), np.zeros(3, np.int8)
    >>> p = BNNSLayerParametersActivation(
    ...     i_desc=Shape.vector(3).descriptor(data=x), o_desc=Shape.vector(3).descriptor(BNNSDataTypeInt8, y)
    ... )
    >>> BNNSDirectApplyActivationBatch(p, None, 1, 3, 3), y.tolist()  # Identity between two types converts
    (0, [2, -2, 127])
    """
    who = "BNNSDirectApplyActivationBatch"
    if not is_given(layer_params, BNNSLayerParametersActivation, who):
        return FAILURE
    call = (filter_params, batch_size, in_stride, out_stride)
    if _ACTIVATE.calls.run(*_key(layer_params), *call) is not None:
        return 0
    check_filter_params(filter_params, who)
    p = layer_params.copy()
    made: list[Any] = []  # what the native call uses besides the memory of its arguments

    def work(*_: Any) -> None:
        f = ActivationFilter(p, filter_params, Caller(who))
        if f.repeatable:
            made.append(f)
        x, y = p.i_desc.data, p.o_desc.data
        if not made or f.native(_APPLY)(batch_size, x, in_stride, y, out_stride) != 0:
            caller = Caller(who, {"in": "i_desc.data", "out": "o_desc.data"})
            f.perform("apply", caller, batch_size, {"in": (x, in_stride), "out": (y, out_stride)})

    return _ACTIVATE.attempt((*_key(p), *call), work, made)


def _key(p: BNNSLayerParametersActivation) -> tuple[Any, ...]:
    """The values that a call depends on, for functions without integer parameters."""
    a = p.activation
    return p.i_desc, p.o_desc, a.function, a.alpha, a.beta, p.axis_flags


_APPLY = form("apply", "batch_size in in_stride out out_stride")
_ACTIVATE = Known("BNNSDirectApplyActivationBatch", 1, batch=7, strides=[(0, 8), (1, 9)])


def BNNSGetPointer(filter: BNNSFilter | None, target: BNNSPointerSpecifier | int) -> BNNSNDArrayDescriptor:
    """A Float32 descriptor that aliases the alpha or beta values inside an activation filter; its data is NULL on failure.

    Writes through it take effect on the next apply. Do not use it after the filter has been destroyed.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> v = Shape.vector(2).descriptor()
    >>> leaky = BNNSActivation(function=BNNSActivationFunctionLeakyRectifiedLinear, alpha=0.5)
    >>> f = BNNSFilterCreateLayerActivation(BNNSLayerParametersActivation(i_desc=v, o_desc=v, activation=leaky))
    >>> BNNSGetPointer(f, BNNSPointerSpecifierAlpha).data[0] = 0.25
    >>> y = np.zeros(2, np.float32)
    >>> BNNSFilterApply(f, np.float32([-4, 4]), y), y.tolist()
    (0, [-1.0, 4.0])
    """
    who = "BNNSGetPointer"
    if filter is not None and not isinstance(filter, BNNSFilter):
        raise TypeError(f"{who}: filter must be a BNNSFilter, not {type(filter).__name__}.")
    if isinstance(target, bool) or not isinstance(target, (int, np.integer)):
        raise TypeError(f"{who}: target must be a BNNSPointerSpecifier, not {type(target).__name__}.")
    try:
        if filter is None:
            raise Problem(
                f"{who}: filter is NULL. Its creation failed or was skipped: check the creation call and its message."
            )
        filter.require_alive(Caller(who))
        if int(target) not in set(BNNSPointerSpecifier):
            raise Problem(
                f"{who}: target is {int(target)}. Use BNNSPointerSpecifierAlpha (0) or BNNSPointerSpecifierBeta (1)."
            )
        if not isinstance(filter, ActivationFilter):
            raise Problem(
                f"{who}: a filter of family {filter.family} has no alpha or beta to point to. Pass an activation filter."
            )
        descriptor = filter.pointer(int(target))
        if descriptor.data is None:
            raise Problem(f"{who}: PReLUPerChannel has no beta. Ask for BNNSPointerSpecifierAlpha.")
        return succeeded(descriptor)
    except Problem as problem:
        record(problem)
        return BNNSNDArrayDescriptor()
