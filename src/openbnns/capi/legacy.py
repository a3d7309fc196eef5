"""First-generation creators: the structs from before 2020, translated to current descriptions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._words import Caller
from ..abi.enums import BNNSDataLayout, BNNSDataType
from ..abi.structs import (
    BNNSActivation,
    BNNSConvolutionLayerParameters,
    BNNSFilterParameters,
    BNNSFullyConnectedLayerParameters,
    BNNSImageStackDescriptor,
    BNNSLayerData,
    BNNSLayerParametersActivation,
    BNNSLayerParametersConvolution,
    BNNSLayerParametersFullyConnected,
    BNNSLayerParametersPooling,
    BNNSNDArrayDescriptor,
    BNNSPoolingLayerParameters,
    BNNSVectorDescriptor,
)
from ..errors import Problem, out_of_memory, record, succeeded
from ..filters.activation import ActivationFilter
from ..filters.base import Filter
from ..filters.convolution import Convolution
from ..filters.fully_connected import FullyConnected
from ..filters.pooling import Pooling
from ._calls import BNNSFilter, check_filter_params, is_given

__all__ = [
    "BNNSFilterCreateConvolutionLayer",
    "BNNSFilterCreateFullyConnectedLayer",
    "BNNSFilterCreatePoolingLayer",
    "BNNSFilterCreateVectorActivationLayer",
]

_NAMES = {"i_desc": "in_desc", "o_desc": "out_desc", "w_desc": "layer_params.weights", "bias": "layer_params.bias"}
"""The names that these functions have for the fields of the current structs."""


def _elements(d: BNNSImageStackDescriptor | BNNSVectorDescriptor, who: str) -> dict[str, Any]:
    if int(d.data_type) & BNNSDataType.BNNSDataTypeIndexedBit:
        raise Problem(
            f"{who}.data_type is indexed, but only layer data may be. Use a float or integer type.", kind=TypeError
        )
    return {"data_type": d.data_type, "data_scale": d.data_scale, "data_bias": d.data_bias}


def _image(d: BNNSImageStackDescriptor, who: str) -> BNNSNDArrayDescriptor:
    return BNNSNDArrayDescriptor(
        layout=BNNSDataLayout.BNNSDataLayoutImageCHW,
        size=[d.width, d.height, d.channels],
        stride=[0, d.row_stride, d.image_stride],
        **_elements(d, who),
    )


def _vector(d: BNNSVectorDescriptor, who: str) -> BNNSNDArrayDescriptor:
    return BNNSNDArrayDescriptor(layout=BNNSDataLayout.BNNSDataLayoutVector, size=[d.size], **_elements(d, who))


def _windows(
    p: BNNSConvolutionLayerParameters | BNNSPoolingLayerParameters,
    in_desc: BNNSImageStackDescriptor,
    out_desc: BNNSImageStackDescriptor,
    who: str,
) -> dict[str, Any]:
    """The fields that convolution and pooling share; their parameters repeat the channels of the images."""
    require_equal(who, "layer_params.in_channels", p.in_channels, in_desc.channels, "in_desc.channels")
    require_equal(who, "layer_params.out_channels", p.out_channels, out_desc.channels, "out_desc.channels")
    return {
        "i_desc": _image(in_desc, f"{who}: in_desc"),
        "o_desc": _image(out_desc, f"{who}: out_desc"),
        "bias": layer_data(p.bias, BNNSDataLayout.BNNSDataLayoutVector, [p.out_channels]),
        "activation": p.activation,
        "x_stride": p.x_stride,
        "y_stride": p.y_stride,
        "x_padding": p.x_padding,
        "y_padding": p.y_padding,
    }


def layer_data(d: BNNSLayerData, layout: BNNSDataLayout, size: list[int]) -> BNNSNDArrayDescriptor:
    """Weights or bias of a first-generation layer; indexed types always have a table of 256 floats."""
    return BNNSNDArrayDescriptor(
        layout=layout,
        size=size,
        data=d.data,
        data_type=d.data_type if d.data is not None else BNNSDataType.BNNSDataTypeFloat32,
        data_scale=d.data_scale,
        data_bias=d.data_bias,
        table_data=d.data_table,
        table_data_type=BNNSDataType.BNNSDataTypeFloat32,
    )


def build(who: str, arguments: Mapping[str, tuple[Any, type]], filter_params: Any, make: Any) -> Filter | None:
    """Check the struct arguments, then make the filter or keep the reason why not."""
    for name, (value, struct) in arguments.items():
        if not is_given(value, struct, who, name):
            return None
    check_filter_params(filter_params, who)
    try:
        result: Filter = make()
        return succeeded(result)
    except Problem as problem:
        record(problem)
    except MemoryError:
        record(out_of_memory(who))
    return None


def require_equal(who: str, name: str, got: int, expected: int, source: str) -> None:
    """Two descriptions of the same number must agree."""
    if got != expected:
        raise Problem(f"{who}: {name} is {got}, but {source} is {expected}. Make them equal.")


def BNNSFilterCreateConvolutionLayer(
    in_desc: BNNSImageStackDescriptor | Any,
    out_desc: BNNSImageStackDescriptor | Any,
    layer_params: BNNSConvolutionLayerParameters | Any,
    filter_params: BNNSFilterParameters | None = None,
) -> BNNSFilter | None:
    """First-generation convolution: no dilation, no groups, symmetric padding.

    >>> import numpy as np
    >>> from openbnns.capi import *
    >>> image = BNNSImageStackDescriptor(
    ...     width=3, height=1, channels=1, row_stride=3, image_stride=3, data_type=BNNSDataTypeFloat32
    ... )
    >>> p = BNNSConvolutionLayerParameters(
    ...     x_stride=1, y_stride=1, x_padding=1, k_width=3, k_height=1, in_channels=1, out_channels=1,
    ...     weights=BNNSLayerData(data=np.float32([1, 2, 1]), data_type=BNNSDataTypeFloat32),
    ... )
    >>> f, y = BNNSFilterCreateConvolutionLayer(image, image, p), np.zeros(3, np.float32)
    >>> BNNSFilterApply(f, np.float32([1, 0, 2]), y), y.tolist()
    (0, [2.0, 3.0, 4.0])
    """
    who = "BNNSFilterCreateConvolutionLayer"

    def make() -> Filter:
        p = layer_params
        size = [p.k_width, p.k_height, p.in_channels, p.out_channels]
        w_desc = layer_data(p.weights, BNNSDataLayout.BNNSDataLayoutConvolutionWeightsOIHW, size)
        modern = BNNSLayerParametersConvolution(w_desc=w_desc, **_windows(p, in_desc, out_desc, who))
        return Convolution(modern, filter_params, Caller(who, _NAMES))

    structs = {
        "in_desc": (in_desc, BNNSImageStackDescriptor),
        "out_desc": (out_desc, BNNSImageStackDescriptor),
        "layer_params": (layer_params, BNNSConvolutionLayerParameters),
    }
    return build(who, structs, filter_params, make)


def BNNSFilterCreateFullyConnectedLayer(
    in_desc: BNNSVectorDescriptor | Any,
    out_desc: BNNSVectorDescriptor | Any,
    layer_params: BNNSFullyConnectedLayerParameters | Any,
    filter_params: BNNSFilterParameters | None = None,
) -> BNNSFilter | None:
    """First-generation fully connected layer.

    >>> import numpy as np
    >>> from openbnns.capi import *
    >>> two = BNNSVectorDescriptor(size=2, data_type=BNNSDataTypeFloat32)
    >>> w = BNNSLayerData(data=np.float32([1, 2, 3, 4]), data_type=BNNSDataTypeFloat32)
    >>> p = BNNSFullyConnectedLayerParameters(in_size=2, out_size=2, weights=w)
    >>> f, y = BNNSFilterCreateFullyConnectedLayer(two, two, p), np.zeros(2, np.float32)
    >>> BNNSFilterApply(f, np.float32([1, 10]), y), y.tolist()
    (0, [21.0, 43.0])
    """
    who = "BNNSFilterCreateFullyConnectedLayer"

    def make() -> Filter:
        p = layer_params
        require_equal(who, "layer_params.in_size", p.in_size, in_desc.size, "in_desc.size")
        require_equal(who, "layer_params.out_size", p.out_size, out_desc.size, "out_desc.size")
        modern = BNNSLayerParametersFullyConnected(
            i_desc=_vector(in_desc, f"{who}: in_desc"),
            o_desc=_vector(out_desc, f"{who}: out_desc"),
            w_desc=layer_data(p.weights, BNNSDataLayout.BNNSDataLayoutRowMajorMatrix, [p.in_size, p.out_size]),
            bias=layer_data(p.bias, BNNSDataLayout.BNNSDataLayoutVector, [p.out_size]),
            activation=p.activation,
        )
        return FullyConnected(modern, filter_params, Caller(who, _NAMES))

    structs = {
        "in_desc": (in_desc, BNNSVectorDescriptor),
        "out_desc": (out_desc, BNNSVectorDescriptor),
        "layer_params": (layer_params, BNNSFullyConnectedLayerParameters),
    }
    return build(who, structs, filter_params, make)


def BNNSFilterCreatePoolingLayer(
    in_desc: BNNSImageStackDescriptor | Any,
    out_desc: BNNSImageStackDescriptor | Any,
    layer_params: BNNSPoolingLayerParameters | Any,
    filter_params: BNNSFilterParameters | None = None,
) -> BNNSFilter | None:
    """First-generation pooling.

    >>> import numpy as np
    >>> from openbnns.capi import *
    >>> image = lambda width: BNNSImageStackDescriptor(
    ...     width=width, height=1, channels=1, row_stride=width, image_stride=width, data_type=BNNSDataTypeFloat32
    ... )
    >>> p = BNNSPoolingLayerParameters(
    ...     pooling_function=BNNSPoolingFunctionMax, k_width=2, k_height=1, x_stride=2, y_stride=1, in_channels=1,
    ...     out_channels=1,
    ... )
    >>> f, y = BNNSFilterCreatePoolingLayer(image(4), image(2), p), np.zeros(2, np.float32)
    >>> BNNSFilterApply(f, np.float32([1, 5, 4, 2]), y), y.tolist()
    (0, [5.0, 4.0])
    """
    who = "BNNSFilterCreatePoolingLayer"

    def make() -> Filter:
        p = layer_params
        modern = BNNSLayerParametersPooling(
            pooling_function=p.pooling_function,
            k_width=p.k_width,
            k_height=p.k_height,
            **_windows(p, in_desc, out_desc, who),
        )
        return Pooling(modern, filter_params, Caller(who, _NAMES))

    structs = {
        "in_desc": (in_desc, BNNSImageStackDescriptor),
        "out_desc": (out_desc, BNNSImageStackDescriptor),
        "layer_params": (layer_params, BNNSPoolingLayerParameters),
    }
    return build(who, structs, filter_params, make)


def BNNSFilterCreateVectorActivationLayer(
    in_desc: BNNSVectorDescriptor | Any,
    out_desc: BNNSVectorDescriptor | Any,
    activation: BNNSActivation | Any,
    filter_params: BNNSFilterParameters | None = None,
) -> BNNSFilter | None:
    """First-generation activation or conversion of a vector.

    >>> import numpy as np
    >>> from openbnns.capi import *
    >>> two = BNNSVectorDescriptor(size=2, data_type=BNNSDataTypeFloat32)
    >>> f = BNNSFilterCreateVectorActivationLayer(two, two, BNNSActivation(function=BNNSActivationFunctionAbs))
    >>> y = np.zeros(2, np.float32)
    >>> BNNSFilterApply(f, np.float32([-1, 10]), y), y.tolist()
    (0, [1.0, 10.0])
    """
    who = "BNNSFilterCreateVectorActivationLayer"

    def make() -> Filter:
        require_equal(who, "out_desc.size", out_desc.size, in_desc.size, "in_desc.size")
        modern = BNNSLayerParametersActivation(
            i_desc=_vector(in_desc, f"{who}: in_desc"),
            o_desc=_vector(out_desc, f"{who}: out_desc"),
            activation=activation,
        )
        return ActivationFilter(modern, filter_params, Caller(who, _NAMES))

    structs = {
        "in_desc": (in_desc, BNNSVectorDescriptor),
        "out_desc": (out_desc, BNNSVectorDescriptor),
        "activation": (activation, BNNSActivation),
    }
    return build(who, structs, filter_params, make)
