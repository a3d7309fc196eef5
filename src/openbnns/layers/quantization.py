"""Quantization and its inverse, in one call."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._plural import plural
from .._words import Caller
from ..abi.enums import BNNSQuantizerFunction
from ..abi.structs import BNNSFilterParameters, BNNSLayerParametersQuantization, BNNSNDArrayDescriptor
from ..errors import Problem
from ..filters.quantization import Quantization
from ._functions import function_with_constants
from ._ports import (
    Arguments,
    Port,
    TensorLike,
    as_array,
    check_filter_parameters,
    data_type,
    descriptor_for,
    first_major,
    memory,
    require_contiguous,
)
from .types import DataLayout, DataType

__all__ = ["dequantize", "quantize"]

# The names of arguments and fields in C, and in these functions.
_NAMES = {
    "in": "input",
    "out": "output",
    "i_desc": "input",
    "o_desc": "output",
    "axis_mask": "axis",
    "filter_params": "filter_parameters",
}


@function_with_constants(_NAMES, writes="output")
def quantize(
    caller: Caller,
    constants: list[Any],
    input: TensorLike,
    output: TensorLike | None = None,
    *,
    axis: int | None = None,
    scale: Any = None,
    bias: Any = None,
    batch_size: int | None = None,
    filter_parameters: BNNSFilterParameters | None = None,
) -> TensorLike:
    """y = saturate(round(scale · x + bias)) in the integer type of ``output``; ties go to the even number, NaN to 0.

    ``input`` and ``output`` are arrays of one shape, or descriptors with data; left out, ``output`` is a new int8 array.
    ``scale`` and ``bias`` are numbers, or vectors along ``axis``; left out they are 1 and 0. With arrays ``axis`` is a
    NumPy axis, possibly negative; with descriptors it is Swift's: a position in ``size[]``, where ``rank`` means the
    batch. There is no gradient.

    >>> import numpy as np
    >>> from openbnns import *
    >>> quantize(np.array([0.0, 2.0, 4.0, 600.0], np.float32), scale=0.5, bias=1.0)
    array([  1,   2,   3, 127], dtype=int8)
    """
    return _convert(caller, constants, input, output, axis, scale, bias, batch_size, filter_parameters)


@function_with_constants(_NAMES, writes="output")
def dequantize(
    caller: Caller,
    constants: list[Any],
    input: TensorLike,
    output: TensorLike | None = None,
    *,
    axis: int | None = None,
    scale: Any = None,
    bias: Any = None,
    batch_size: int | None = None,
    filter_parameters: BNNSFilterParameters | None = None,
) -> TensorLike:
    """y = (x - bias) / scale, the inverse of :func:`quantize`, with the same arguments.

    Left out, ``output`` is a new float32 array.

    >>> import numpy as np
    >>> from openbnns import *
    >>> dequantize(np.array([1, 2, 3], np.int8), scale=0.5, bias=1.0)
    array([0., 2., 4.], dtype=float32)
    """
    return _convert(caller, constants, input, output, axis, scale, bias, batch_size, filter_parameters)


def _convert(
    caller: Caller, constants: list[Any], input: Any, output: Any, axis: Any, scale: Any, bias: Any, batch_size: Any,
    filter_parameters: Any,
) -> TensorLike:  # fmt: skip
    check_filter_parameters(filter_parameters, caller)
    convert = _convert_described if isinstance(input, BNNSNDArrayDescriptor) else _convert_array
    return convert(caller, constants, input, output, axis, scale, bias, batch_size, filter_parameters)


def _convert_array(
    who: Caller, constants: list[Any], input: Any, output: Any, axis: Any, scale: Any, bias: Any, batch_size: Any,
    filter_parameters: Any,
) -> TensorLike:  # fmt: skip
    """An array is one tensor; its first axis is the batch only in so far as ``batch_size`` must agree with it."""
    x = as_array(input, f"{who}: input")
    if not 1 <= x.ndim <= 8:
        raise Problem(f"{who}: input has shape {x.shape}, but a tensor has 1 to 8 axes. Reshape it.")
    if batch_size is not None and batch_size != x.shape[0]:
        raise Problem(
            f"{who}: batch_size is {batch_size}, but input holds {plural(x.shape[0], 'sample')}. Leave it out."
        )
    if output is None:
        output = np.empty(x.shape, np.int8 if who.function == "quantize" else np.float32)
    y = output if isinstance(output, BNNSNDArrayDescriptor) else as_array(output, f"{who}: output")
    if isinstance(y, np.ndarray):
        if y.shape != x.shape:
            raise Problem(f"{who}: output has shape {y.shape}, but input {x.shape}. Both need the same.")
        require_contiguous(y, f"{who}: output")
    if x.size == 0:
        return output
    y_desc = y if isinstance(y, BNNSNDArrayDescriptor) else _describe(y, f"{who}: output")
    chosen = None if axis is None else _axis(axis, -x.ndim, x.ndim - 1, f"{who}: axis") % x.ndim
    x_desc = _describe(np.ascontiguousarray(x), f"{who}: input")
    _apply(who, constants, x_desc, y_desc, chosen, scale, bias, 1, filter_parameters)
    return output


def _convert_described(
    who: Caller, constants: list[Any], x: Any, output: Any, axis: Any, scale: Any, bias: Any, batch_size: Any,
    filter_parameters: Any,
) -> TensorLike:  # fmt: skip
    port = Port(x)
    arguments = Arguments(who.function, batch_size)
    arguments.take("input", port, x)
    if isinstance(output, BNNSNDArrayDescriptor):
        arguments.take("output", Port(output), output, output=True)
    arguments.settle()
    if output is None:
        kind = np.int8 if who.function == "quantize" else np.float32
        output = np.empty(port.full_shape(arguments.axis), kind)
    y = output
    if not isinstance(output, BNNSNDArrayDescriptor):
        array = as_array(output, f"{who}: output")
        element = data_type(array, f"{who}: output")
        y = descriptor_for(port.shape, port.layout, element, array)
        Port(y).check_array(array, f"{who}: output", output=True)
    rank = len(port.size)
    chosen = None if axis is None else _axis(axis, 0, rank, f"{who}: axis")
    _apply(who, constants, x, y, chosen, scale, bias, arguments.batch, filter_parameters)
    return output


def _axis(axis: Any, low: int, high: int, who: str) -> int:
    if isinstance(axis, bool) or not hasattr(axis, "__index__"):
        raise Problem(f"{who} must be an integer, not {type(axis).__name__}.", kind=TypeError)
    if not low <= axis <= high:
        raise Problem(f"{who} is {axis}, but there are {low} to {high}.")
    return int(axis)


def _describe(array: NDArray[Any], who: str) -> BNNSNDArrayDescriptor:
    return descriptor_for(array.shape, first_major(array.shape), data_type(array, who), array)


def _values(value: Any, who: str) -> BNNSNDArrayDescriptor:
    """scale or bias: a number, a vector, a descriptor, or ``None``."""
    if value is None:
        return BNNSNDArrayDescriptor()
    if isinstance(value, BNNSNDArrayDescriptor):
        return value
    try:
        numbers = np.atleast_1d(np.ascontiguousarray(value, np.float32))
    except (TypeError, ValueError):
        raise Problem(f"{who} must be a number or a vector, not {type(value).__name__}.", kind=TypeError) from None
    if numbers.ndim != 1:
        raise Problem(f"{who} has shape {numbers.shape}. Pass a number, or a vector along the axis.")
    if numbers.size == 0:
        raise Problem(f"{who} is empty. Pass a number, or a vector along the axis.")
    return descriptor_for(numbers.shape, DataLayout.VECTOR, DataType.FLOAT32, numbers)


def _apply(
    who: Caller, constants: list[Any], x: BNNSNDArrayDescriptor, y: BNNSNDArrayDescriptor, axis: int | None, scale: Any,
    bias: Any, batch: int, filter_parameters: BNNSFilterParameters | None,
) -> None:  # fmt: skip
    function = BNNSQuantizerFunction[f"BNNSQuantizerFunction{who.function.capitalize()}"]
    parameters = BNNSLayerParametersQuantization(
        axis_mask=0 if axis is None else 1 << axis,
        function=function,
        i_desc=x,
        o_desc=y,
        scale=_values(scale, f"{who}: scale"),
        bias=_values(bias, f"{who}: bias"),
    )
    for given, described in ((scale, parameters.scale), (bias, parameters.bias)):
        if isinstance(given, (int, float)):
            constants.append(described.data)
    made = Quantization(parameters, filter_parameters, who, direct=True)
    made.perform("apply", who, batch, {"in": (memory(x), 0), "out": (memory(y), 0)})
