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
    BNNSLayerParametersConvolution,
    BNNSLayerParametersFullyConnected,
    BNNSLayerParametersNormalization,
    BNNSLayerParametersQuantization,
    BNNSNDArrayDescriptor,
)
from ..errors import Problem
from ._base import client_pointer, port_of
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
from ._ports import Port, describe_parameter, describe_sample, require
from ._shape import Shape
from .arithmetic import broadcast_output, common_form, describe_operand, operand_block
from .convolution import ARRAY_KERNELS, check_channels, largest_output, pair, positive
from .fully_connected import check_weights, flat_sample
from .normalization import _parameter, _parameter_port
from .types import (
    ActivationFunction,
    ArithmeticBinaryFunction,
    ArithmeticTernaryFunction,
    ArithmeticUnaryFunction,
    ConvolutionPadding,
    ConvolutionType,
    DataLayout,
    DataType,
    DescriptorType,
    NormalizationType,
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
    """Everything a fused layer needs: the filter's arguments, and the ports of its tensors."""

    kinds: list[int]
    layers: list[Any]
    inputs: list[Port]
    output: Port
    slots: dict[str, Port | None]
    constant: list[bool]


@dataclass
class _First:
    """The first layer without its output, and what follows from it."""

    kind: int
    layer: Any
    inputs: list[Port]
    output: _Descriptor
    slots: dict[str, Port | None]
    constant: list[bool]


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
        made = _fully_connected(first, inputs[0], output, in_place, who, head)
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
        kind, layer, slots = _normalization(last, boundary, y, in_place, tail)
    else:
        kind, layer, slots = _quantization(last, boundary, y, in_place, tail)
    return Chain([made.kind, kind], [made.layer, layer], made.inputs, Port(y), made.slots | slots, made.constant)


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


def _optional_vector(value: Any, who: str, axes: str, in_place: bool) -> _Descriptor | None:
    return None if value is None else describe_parameter(value, who, DataLayout.VECTOR, axes, client_pointer=in_place)


# First layers.


def _convolution(
    p: FusedConvolutionParameters, input: Any, output: Any, in_place: bool, who: Caller, own: Caller
) -> _First:
    require(p.type, ConvolutionType, own("type"))
    require(p.padding, ConvolutionPadding, own("padding"))
    transposed = p.type is ConvolutionType.TRANSPOSED
    x = describe_sample(input, f"{who}: input", rank=3)
    w = describe_parameter(p.weights, own("weights"), *ARRAY_KERNELS, client_pointer=in_place)
    b = _optional_vector(p.bias, own("bias"), "(out,)", in_place)
    x_stride, y_stride = pair(p.stride, own("stride"))
    x_dilation, y_dilation = pair(p.dilation_stride, own("dilation_stride"))
    groups = positive(p.group_size, own("group_size"))
    layer = BNNSLayerParametersConvolution(
        i_desc=x, w_desc=w, bias=b, x_stride=x_stride, y_stride=y_stride, x_dilation_stride=x_dilation,
        y_dilation_stride=y_dilation, groups=groups, **p.padding.bnns_fields,
    )  # fmt: skip
    if output is None:
        y = largest_output(layer, own, transposed).descriptor()
    else:
        y = describe_sample(output, f"{who}: output", rank=3)
    if not isinstance(p.weights, BNNSNDArrayDescriptor):
        check_channels(own, Port(w).shape, Port(x).shape, Port(y).shape, groups, transposed)
    kind = BNNSFilterType.BNNSTransposedConvolution if transposed else BNNSFilterType.BNNSConvolution
    return _First(int(kind), layer, [Port(x)], y, {"weights": port_of(w), "bias": port_of(b)}, [False])


def _fully_connected(
    p: FusedFullyConnectedParameters, input: Any, output: Any, in_place: bool, who: Caller, own: Caller
) -> _First:
    w = describe_parameter(p.weights, own("weights"), DataLayout.MATRIX_ROW_MAJOR, "(out, in)", client_pointer=in_place)
    b = _optional_vector(p.bias, own("bias"), "(out,)", in_place)
    described = isinstance(p.weights, BNNSNDArrayDescriptor)
    outputs, inputs = (0, 0) if described else Port(w, batched=False).shape
    x = flat_sample(input, f"{who}: input", inputs)
    y = flat_sample(output, f"{who}: output", outputs)
    if not described:
        check_weights(own, x, y, outputs, inputs)
    layer = BNNSLayerParametersFullyConnected(i_desc=x, w_desc=w, bias=b)
    kind = int(BNNSFilterType.BNNSFullyConnected)
    return _First(kind, layer, [Port(x)], y, {"weights": port_of(w), "bias": port_of(b)}, [False])


def _arithmetic(p: Any, inputs: list[Any], names: Sequence[str], output: Any, who: Caller, own: Caller) -> _First:
    functions = _FUNCTIONS[len(inputs) - 1]
    require(p.function, functions, own("function"))
    roles = [getattr(p, f"{name}_descriptor_type") for name in names]
    for name, role in zip((*names, "output"), (*roles, p.output_descriptor_type), strict=True):
        require(role, DescriptorType, own(f"{name}_descriptor_type"))
    rank, layout = common_form(inputs, roles, output, tuple(names), who)
    if not any(isinstance(value, (Shape, _Descriptor)) for value in (*inputs, output)) and rank == 3:
        layout = int(DataLayout.IMAGE_CHW.value)  # arrays (C, H, W) in the layout that normalizations take
    described = [
        describe_operand(value, f"{who}: {name}", rank, layout, role)
        for value, name, role in zip(inputs, names, roles, strict=True)
    ]
    if output is None:
        y = broadcast_output([d for d, _ in described], who)
    else:
        y, _ = describe_operand(output, f"{who}: output", rank, layout, DescriptorType.SAMPLE)
    block = operand_block([d for d, _ in described], roles, y, p.output_descriptor_type)
    layer = BNNSLayerParametersArithmetic(arithmetic_function=p.function.value, arithmetic_function_fields=block)
    ports = [
        Port(d, batched=role is DescriptorType.SAMPLE, shape=shape)
        for (d, shape), role in zip(described, roles, strict=True)
    ]
    constant = [role is DescriptorType.CONSTANT for role in roles]
    return _First(int(BNNSFilterType.BNNSArithmetic), layer, ports, y, {}, constant)


# Last layers.


def _normalization(
    p: FusedNormalizationParameters, x: _Descriptor, y: _Descriptor, in_place: bool, who: Caller
) -> tuple[int, Any, dict[str, Port | None]]:
    require(p.type, NormalizationType, who("type"))
    require(p.activation, ActivationFunction, who("activation"))
    beta, gamma = (
        _parameter(value, who(name), p.type, Port(x), in_place)
        for value, name in ((p.beta, "beta"), (p.gamma, "gamma"))
    )
    layer = BNNSLayerParametersNormalization(
        i_desc=x, o_desc=y, beta_desc=beta, gamma_desc=gamma,
        moving_mean_desc=_optional_vector(p.type.moving_mean, who("moving_mean"), "(C,)", True),
        moving_variance_desc=_optional_vector(p.type.moving_variance, who("moving_variance"), "(C,)", True),
        momentum=p.momentum, epsilon=p.epsilon, activation=p.activation.bnns_activation, num_groups=p.type.group_count,
        normalization_axis=p.type.normalization_axis,
    )  # fmt: skip
    return (
        int(p.type.bnns_filter_type),
        layer,
        {"beta": _parameter_port(beta, p.beta), "gamma": _parameter_port(gamma, p.gamma)},
    )


def _quantization(
    p: FusedQuantizationParameters | FusedDequantizationParameters, x: _Descriptor, y: _Descriptor, in_place: bool,
    who: Caller,
) -> tuple[int, Any, dict[str, Port | None]]:  # fmt: skip
    rank = Port(x).view.layout.rank
    if p.axis is not None and (isinstance(p.axis, bool) or not isinstance(p.axis, int) or not 0 <= p.axis <= rank):
        raise Problem(f"{who('axis')} is {p.axis!r}. Use 0 to {rank - 1}, {rank} for the batch, or None.")
    layer = BNNSLayerParametersQuantization(
        axis_mask=0 if p.axis is None else 1 << p.axis,
        function=int(isinstance(p, FusedDequantizationParameters)), i_desc=x, o_desc=y,
        scale=_optional_vector(p.scale, who("scale"), "(n,)", in_place),
        bias=_optional_vector(p.bias, who("bias"), "(n,)", in_place),
    )  # fmt: skip
    return int(BNNSFilterType.BNNSQuantization), layer, {}
