"""Quantization under its C name."""

from __future__ import annotations

from typing import Any

from .._words import Caller
from ..abi.structs import BNNSFilterParameters, BNNSLayerParametersQuantization
from ..errors import FAILURE
from ..filters.quantization import Quantization
from ._calls import Known, check_filter_params, is_given

__all__ = ["BNNSDirectApplyQuantizer"]


def BNNSDirectApplyQuantizer(
    layer_params: BNNSLayerParametersQuantization | Any,
    filter_params: BNNSFilterParameters | None,
    batch_size: int,
    input_stride: int,
    output_stride: int,
) -> int:
    """Quantize or dequantize a batch in one call; data pointers come from the descriptors.

    Quantize is y = saturate(round(scale * x + bias)), Dequantize y = (x - bias) / scale.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> x, y, scale = np.float32([0, 2, 600]), np.zeros(3, np.int8), np.float32([0.5])
    >>> p = BNNSLayerParametersQuantization(
    ...     function=BNNSQuantizerFunctionQuantize, i_desc=Shape.vector(3).descriptor(data=x),
    ...     o_desc=Shape.vector(3).descriptor(BNNSDataTypeInt8, y), scale=Shape.vector(1).descriptor(data=scale),
    ... )
    >>> BNNSDirectApplyQuantizer(p, None, 1, 3, 3), y.tolist()
    (0, [0, 1, 127])
    """
    who = "BNNSDirectApplyQuantizer"
    if not is_given(layer_params, BNNSLayerParametersQuantization, who):
        return FAILURE
    call = (filter_params, batch_size, input_stride, output_stride)
    if _QUANTIZE.calls.run(*_key(layer_params), *call) is not None:
        return 0
    check_filter_params(filter_params, who)
    p = layer_params.copy()
    return _QUANTIZE.attempt(
        (*_key(p), *call), lambda *_: _quantize(p, filter_params, who, batch_size, input_stride, output_stride)
    )


def _key(p: BNNSLayerParametersQuantization) -> tuple[Any, ...]:
    return p.axis_mask, p.function, p.i_desc, p.o_desc, p.scale, p.bias


def _quantize(
    p: BNNSLayerParametersQuantization, filter_params: BNNSFilterParameters | None, who: str, batch_size: int,
    input_stride: int, output_stride: int,
) -> None:  # fmt: skip
    caller = Caller(who, _NAMES)
    made = Quantization(p, filter_params, caller, direct=True)
    tensors = {"in": (p.i_desc.data, input_stride), "out": (p.o_desc.data, output_stride)}
    made.perform("apply", caller, batch_size, tensors)


_NAMES = {
    "in": "i_desc.data", "out": "o_desc.data", "in_stride": "input_stride", "out_stride": "output_stride",
}  # fmt: skip
_QUANTIZE = Known("BNNSDirectApplyQuantizer", 3, batch=7, strides=[(2, 8), (3, 9)])
