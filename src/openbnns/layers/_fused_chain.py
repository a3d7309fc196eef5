"""From the parameters of fused layers to the descriptions that the filter takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .._words import Caller
from ..abi.enums import BNNSFilterType
from ..abi.structs import (
    BNNSFilterParameters,
    BNNSLayerParametersArithmetic,
    BNNSLayerParametersQuantization,
    BNNSNDArrayDescriptor,
)
from ..errors import Problem
from ._fused_parameters import (
    FusableLayerParameters,
    FusedBinaryArithmeticParameters,
    FusedConvolutionParameters,
    FusedDequantizationParameters,
    FusedFullyConnectedParameters,
    FusedNormalizationParameters,
    FusedQuantizationParameters,
    FusedTernaryArithmeticParameters,
    FusedUnaryArithmeticParameters,
)
from ._ports import Port, describe_vector
from .arithmetic import describe_arithmetic
from .base import client_pointer
from .convolution import describe_convolution
from .fully_connected import describe_fully_connected
from .normalization import describe_normalization, shapes_of_arrays
from .types import (
    ArithmeticBinaryFunction,
    ArithmeticTernaryFunction,
    ArithmeticUnaryFunction,
    ConvolutionType,
    DataType,
)

_Descriptor = BNNSNDArrayDescriptor
_ARITHMETIC = (FusedUnaryArithmeticParameters, FusedBinaryArithmeticParameters, FusedTernaryArithmeticParameters)
_FUNCTIONS = (ArithmeticUnaryFunction, ArithmeticBinaryFunction, ArithmeticTernaryFunction)
_SUPPORTED = (
    "FusedConvolutionParameters or FusedFullyConnectedParameters followed by FusedNormalizationParameters, "
    "FusedQuantizationParameters or FusedDequantizationParameters, and Fused(Unary, Binary, Ternary)ArithmeticParameters "
    "followed by FusedNormalizationParameters"
)


@dataclass
class Chain:
    """The filter's arguments, and the shapes of arrays that are not those of its tensors."""

    kinds: list[int]
    layers: list[Any]
    shapes: dict[str, tuple[int, ...]]


@dataclass
class _First:
    """The first layer without its output, and what follows from it."""

    kind: int
    layer: Any
    output: _Descriptor
    shapes: dict[str, tuple[int, ...]]


def describe_chain(
    inputs: list[Any], names: Sequence[str], output: Any, layers: Any,
    filter_parameters: BNNSFilterParameters | None, who: Caller,
) -> Chain:  # fmt: skip
    """Describe a chain of two layers between ``inputs`` and ``output``."""
    first, last = _check_chain(inputs, layers, who)
    head, tail = (who.part(f"layer_params[{i}]") for i in range(2))
    in_place = client_pointer(filter_parameters)
    quantizes = not isinstance(last, FusedNormalizationParameters)
    if quantizes and output is None:
        raise Problem(f"{who}: output is left out, but its type is that of the quantized values. Pass a descriptor.")
    if isinstance(first, FusedConvolutionParameters):
        made = _convolution(first, inputs[0], output, in_place, who, head)
    elif isinstance(first, FusedFullyConnectedParameters):
        layer = describe_fully_connected(who, head, in_place, inputs[0], output, first.weights, first.bias)
        made = _First(int(BNNSFilterType.BNNSFullyConnected), layer, layer.o_desc, {})
    else:
        made = _arithmetic(first, inputs, names, output, who, head)
    y = made.output.copy()
    y.data = None
    boundary = y.copy()
    if quantizes:  # what lies between the layers
        boundary.data_type = (
            DataType.INT32 if isinstance(last, FusedDequantizationParameters) else DataType.FLOAT32
        ).value
        boundary.data_scale, boundary.data_bias = 1.0, 0.0
    if isinstance(made.layer, BNNSLayerParametersArithmetic):
        made.layer.arithmetic_function_fields.out = boundary
    else:
        made.layer.o_desc = boundary
    if isinstance(last, FusedNormalizationParameters):
        kind, described = _normalization(last, boundary, y, in_place, tail)
        made.shapes |= shapes_of_arrays(beta=last.beta, gamma=last.gamma)
    else:
        kind, described = _quantization(last, boundary, y, in_place, tail)
    return Chain([made.kind, kind], [made.layer, described], made.shapes)


def _check_chain(inputs: list[Any], layers: Any, who: Caller) -> tuple[Any, Any]:
    if isinstance(layers, FusableLayerParameters) or not isinstance(layers, Sequence):
        raise Problem(
            f"{who}: fused_layer_parameters must be a list of layers, not {type(layers).__name__}.", kind=TypeError
        )
    for i, layer in enumerate(layers):
        if not isinstance(layer, FusableLayerParameters):
            raise Problem(
                f"{who}: fused_layer_parameters[{i}] is of type {type(layer).__name__}. Supported are {_SUPPORTED}.",
                kind=TypeError,
            )
    lasts: tuple[type[Any], ...] = (FusedNormalizationParameters,)
    if layers and not isinstance(layers[0], _ARITHMETIC):
        lasts += (FusedQuantizationParameters, FusedDequantizationParameters)
    starts = (FusedConvolutionParameters, FusedFullyConnectedParameters, *_ARITHMETIC)
    if len(layers) != 2 or not isinstance(layers[0], starts) or not isinstance(layers[1], lasts):
        chain = " -> ".join(type(layer).__name__ for layer in layers) or "of no layers"
        raise Problem(f"{who}: the chain {chain} is not supported. Supported are {_SUPPORTED}.", unsupported=True)
    first = layers[0]
    count = _ARITHMETIC.index(type(first)) + 1 if isinstance(first, _ARITHMETIC) else 1
    if len(inputs) != count:
        raise Problem(
            f"{who}: {len(inputs)} inputs are given, but {type(first).__name__} takes {count}. Give "
            f"{('input', 'input_a and input_b', 'input_a, input_b and input_c')[count - 1]}."
        )
    return first, layers[1]


# First layers.


def _convolution(
    p: FusedConvolutionParameters, input: Any, output: Any, in_place: bool, who: Caller, own: Caller
) -> _First:
    layer = describe_convolution(
        who, own, in_place, type=p.type, input=input, output=output, weights=p.weights, bias=p.bias, padding=p.padding,
        groups=p.group_size, stride=p.stride, dilation_stride=p.dilation_stride,
    )  # fmt: skip
    transposed = p.type is ConvolutionType.TRANSPOSED
    kind = BNNSFilterType.BNNSTransposedConvolution if transposed else BNNSFilterType.BNNSConvolution
    return _First(int(kind), layer, layer.o_desc, {})


def _arithmetic(p: Any, inputs: list[Any], names: Sequence[str], output: Any, who: Caller, own: Caller) -> _First:
    roles = [getattr(p, f"{name}_descriptor_type") for name in names]
    layer, shapes, y = describe_arithmetic(
        who, own, _FUNCTIONS[len(inputs) - 1], p.function, names, inputs, roles, output, p.output_descriptor_type,
        images=True,
    )  # fmt: skip
    return _First(int(BNNSFilterType.BNNSArithmetic), layer, y, shapes)


# Last layers.


def _normalization(
    p: FusedNormalizationParameters, x: _Descriptor, y: _Descriptor, in_place: bool, who: Caller
) -> tuple[int, Any]:
    layer = describe_normalization(who, in_place, x, y, p.type, p.beta, p.gamma, p.momentum, p.epsilon, p.activation)
    return int(p.type.bnns_filter_type), layer


def _quantization(
    p: FusedQuantizationParameters | FusedDequantizationParameters, x: _Descriptor, y: _Descriptor, in_place: bool,
    who: Caller,
) -> tuple[int, Any]:  # fmt: skip
    rank = Port(x).view.layout.rank
    if p.axis is not None and (isinstance(p.axis, bool) or not isinstance(p.axis, int) or not 0 <= p.axis <= rank):
        raise Problem(f"{who('axis')} is {p.axis!r}. Use 0 to {rank - 1}, {rank} for the batch, or None.")
    layer = BNNSLayerParametersQuantization(
        axis_mask=0 if p.axis is None else 1 << p.axis,
        function=int(isinstance(p, FusedDequantizationParameters)), i_desc=x, o_desc=y,
        scale=describe_vector(p.scale, who("scale"), "(n,)", client_pointer=in_place),
        bias=describe_vector(p.bias, who("bias"), "(n,)", client_pointer=in_place),
    )  # fmt: skip
    return int(BNNSFilterType.BNNSQuantization), layer
