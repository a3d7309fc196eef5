"""Bad descriptions of filters: NULL, one log line of the right level, a message that helps.

Each entry of the tables changes one thing about a description that works, and gives a pattern for the message.
"""

# ruff: noqa: E501 - one line per case keeps the tables readable

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import openbnns
from bad_calls import GOOD, Observed, assign, good_activation, good_arithmetic, numbers, refused
from helpers import descriptor, layout
from openbnns import capi
from openbnns.capi import BNNSDataType

FLOAT32 = BNNSDataType.BNNSDataTypeFloat32
HUGE = (2**46 + 1, 2**63, 2**64 - 1)

HALF, INT8 = BNNSDataType.BNNSDataTypeFloat16, BNNSDataType.BNNSDataTypeInt8
FIELDS = "arithmetic_function_fields"

# family, field, value, pattern; a fifth entry marks what is legal but not supported
CREATION: list[tuple[Any, ...]] = [
    ("fully connected", "i_desc.layout", 0, r": i_desc\.layout is 0x0, which is not a BNNSDataLayout\. Set it"),
    ("fully connected", "i_desc.layout", 0xFFFFFFFF, "which is not a BNNSDataLayout"),
    ("fully connected", "i_desc.data_type", 0, r": i_desc\.data_type is 0x0, which is not a BNNSDataType\. Use one of"),
    ("fully connected", "i_desc.data_type", 0x10000, "which is not a BNNSDataType"),
    ("fully connected", "i_desc.size[0]", 0, r": i_desc\.size\[0\] is 0\. Vector has 1 sizes"),
    *[("fully connected", "i_desc.size[0]", n, "more than any memory holds|but i_desc has") for n in HUGE],
    ("fully connected", "i_desc.size[0]", 5, r"4 inputs, but i_desc has 5 elements.*All but i_desc .* i_desc\.size \(4,\)"),
    ("fully connected", "o_desc.size[0]", 2, r"3 outputs x 4 inputs, but .* o_desc 2\..* valid with o_desc\.size \(3,\)"),
    ("fully connected", "o_desc.layout", layout("FullyConnectedSparse"), "packed form of sparse weights"),
    ("fully connected", "w_desc.layout", layout("Vector"), r"w_desc\.layout is Vector\. Fully connected weights are RowMajor"),
    ("fully connected", "w_desc.layout", layout("ImageCHW"), r"size\[2\] is 0|Fully connected weights are"),
    ("fully connected", "w_desc.layout", layout("ColumnMajorMatrix"), r"sizes of w_desc look reversed .* valid with w_desc\.size \(3, 4\)"),
    ("fully connected", "w_desc.data", None, r"w_desc\.data is NULL, but this call needs it\. Pass the memory of RowMajor"),
    ("fully connected", "w_desc.data", np.zeros(11, np.float32), r"w_desc\.data holds 44 bytes, but the call touches 48"),
    ("fully connected", "w_desc.data", np.zeros(12), r"w_desc\.data holds float64 items, but its descriptor says Float32"),
    ("fully connected", "w_desc.data", np.zeros((3, 8), "f4")[:, ::2], r"w_desc\.data of shape \(3, 4\) is not C-contiguous"),
    ("fully connected", "w_desc.data_type", int(HALF), r"w_desc\.data holds float32 items, but its descriptor says Float16"),
    ("fully connected", "w_desc.stride[0]", 9, r"w_desc\.data holds 48 bytes, but the call touches"),
    *[("fully connected", "w_desc.stride[0]", n, "further than any memory") for n in HUGE],
    ("fully connected", "w_desc.data_type", int(BNNSDataType.BNNSDataTypeIndexed8), "Indexed8, but it has no table_data"),
    ("fully connected", "bias.size[0]", 4, r"bias is Vector size \(4,\) Float32.*Describe a Vector of size 3"),
    ("fully connected", "bias.layout", layout("RowMajorMatrix"), r"bias\.size\[1\] is 0"),
    ("fully connected", "bias.data", np.zeros(2, np.float32), r"bias\.data holds 8 bytes, but the call touches 12"),
    ("fully connected", "bias.data", 2**63, r"bias\.data is the address 0x8000000000000000, which cannot be valid"),
    ("fully connected", "activation.function", 36, r"activation\.function is 36, which is not a BNNSActivationFunction\. Use one"),
    ("fully connected", "activation.function", 2**32 - 1, "which is not a BNNSActivationFunction"),
    ("fully connected", "activation.function", 14, r"GumbelMax, which cannot be fused.*BNNSFilterCreateLayerActivation", True),
    ("convolution", "i_desc.layout", layout("3DFirstMajor"), r"i_desc\.layout is 3DFirstMajor\. Images are ImageCHW with size ="),
    ("convolution", "i_desc.size[2]", 5, r"6 output and 4 input channels, but o_desc has 6 and i_desc 5\. All but i_desc fit"),
    ("convolution", "o_desc.size[2]", 5, r"but o_desc has 5 and i_desc 4"),
    ("convolution", "o_desc.size[0]", 5, r"o_desc width is 5, but i_desc width 6 with padding 0 \+ 0.*Set o_desc\.size\[0\] to 4"),
    ("convolution", "o_desc.size[1]", 2**40, r"o_desc height is \d+, but .* gives at most 4\. Set o_desc\.size\[1\] to 4"),
    ("convolution", "i_desc.size[0]", 2, "leaves no room for a single window. Use a larger image"),
    ("convolution", "x_dilation_stride", 3, "leaves no room for a single window"),
    ("convolution", "w_desc.layout", layout("4DFirstMajor"), r"w_desc\.layout is 4DFirstMajor\. Kernels are ConvolutionWeightsOIHW"),
    ("convolution", "w_desc.layout", layout("ConvolutionWeightsIOHrWr"), r"4 output and 6 input channels"),
    ("convolution", "w_desc.data", np.zeros(143, np.float32), r"w_desc\.data holds 572 bytes, but the call touches 576"),
    ("convolution", "groups", 3, "groups is 3, which does not divide the 4 input channels"),
    ("convolution", "groups", 2**64 - 1, "which does not divide"),
    ("convolution", "groups", 2, r"but o_desc has 6 and i_desc 4 / 2 groups\. Set w_desc\.size\[3\] to 6 and w_desc\.size\[2\] to 2"),
    ("convolution", "bias.size[0]", 5, "Describe a Vector of size 6"),
    *[("convolution", f, 2**64 - 1, rf": {f} is \d+, which is more than any image has\. Use")
      for f in ("x_stride", "y_stride", "x_dilation_stride", "y_dilation_stride", "x_padding", "y_padding")],
    ("convolution", "pad[2]", 2**63, r"pad\[2\] is 9223372036854775808, which is more than any image"),
    ("transposed", "groups", 2, "transposed convolution has no groups. Set groups to 1, and make one layer for each group", True),
    ("transposed", "i_desc.data_type", int(HALF), r"i_desc\.data_type is Float16, but .* works on Float32 only\. Use", True),
    ("transposed", "w_desc.layout", layout("ConvolutionWeightsOIHW"), r"that is 6 output and 4 input channels, but o_desc has 4"),
    ("transposed", "i_desc.size[0]", 5, r"i_desc width is 5, but o_desc width 6 .* gives at most 4"),
    ("transposed", "y_stride", 2**64 - 1, "more than any image has"),
    ("activation", "o_desc.size[0]", 4, r"o_desc is Vector size \(4,\) Float32\. Tanh needs the same number of elements"),
    ("activation", "activation.function", 77, r"activation\.function is 77"),
    ("activation", "activation.function", 29, "PReLUPerChannel works on ImageCHW, but i_desc.layout is Vector. Use"),
    ("activation", "activation.function", 9, r"IntegerLinearSaturate maps integers to integers.*Use Int or UInt types"),
    ("activation", "axis_flags", 4, r"axis_flags is 0x4, but Vector has 1 axes \(bits 0 to 0\) and the batch \(bit 1\)\. Clear"),
    ("activation", "axis_flags", 2**32 - 1, "Clear the other bits"),
    ("arithmetic", "arithmetic_function", 41, "arithmetic_function is 41, which is not a BNNSArithmeticFunction. Use one of 0 to 40"),
    ("arithmetic", "arithmetic_function", 4, "is a BNNSArithmeticBinary, but SquareRoot has 1 operand.* Pass a BNNSArithmeticUnary"),
    ("arithmetic", FIELDS, None, "arithmetic_function_fields is NULL. Multiply takes a BNNSArithmeticBinary"),
    ("arithmetic", f"{FIELDS}.in1_type", 3, r"in1_type is 3\. Use BNNSConstant"),
    ("arithmetic", f"{FIELDS}.out_type", 2, "out_type is not BNNSSample, but an operand is"),
    ("arithmetic", f"{FIELDS}.in2.layout", layout("ColumnMajorMatrix"), "in2.layout is ColumnMajorMatrix and out.layout is RowMajor"),
    ("arithmetic", f"{FIELDS}.in2.size[1]", 2, r"in2\.size\[1\] is 2, but out\.size\[1\] is 3\. An operand's size equals"),
    ("arithmetic", f"{FIELDS}.in2.data_type", 5, "which is not a BNNSDataType"),
    ("arithmetic", "activation.function", 13, "which cannot be fused", True),
]  # fmt: skip


@pytest.mark.parametrize("family", GOOD)
def test_the_unchanged_descriptions_work(family: str, engine: str, observed: Observed) -> None:
    good, create = GOOD[family]
    assert create(good()) is not None, openbnns.last_error()
    assert not observed.log.records


@pytest.mark.covers("core.handle.create_null", "core.log.error_info")
@pytest.mark.parametrize("case", CREATION, ids=lambda c: f"{c[0]}-{c[1]}-{c[2]!r:.20}")
def test_creation(case: tuple[Any, ...], observed: Observed) -> None:
    family, field, value, pattern, *unsupported = case
    good, create = GOOD[family]
    p = good()
    assign(p, {field: value})
    message = observed.failed(create(p), pattern, bool(unsupported))
    assert message.startswith(f"{create.__name__}: ")


@pytest.mark.parametrize("family", GOOD)
def test_null_and_wrong_structs(family: str, observed: Observed) -> None:
    good, create = GOOD[family]
    observed.failed(create(None), rf"{create.__name__}: layer_params is NULL\. Pass a BNNSLayerParameters")
    other = capi.BNNSLayerParametersPadding()
    with pytest.raises(
        TypeError, match=rf"{create.__name__}: layer_params must be a BNNSLayer\w+, not BNNSLayerParametersPadding"
    ):
        create(other)
    with pytest.raises(TypeError, match="filter_params must be a BNNSFilterParameters or None, not dict"):
        create(good(), {"flags": 1})
    with pytest.raises(TypeError):
        create()


def test_wrong_python_types_in_structs() -> None:
    with pytest.raises(TypeError, match="expected an integer"):
        descriptor("Vector", ("4",))
    with pytest.raises(ValueError, match="outside the range of size_t"):
        descriptor("Vector", (-1,))
    with pytest.raises(ValueError, match="outside the range of size_t"):
        descriptor("Vector", (2**64,))
    p = good_arithmetic()
    p.arithmetic_function_fields = descriptor("Vector", (4,))
    with pytest.raises(TypeError, match="must be a BNNSArithmeticBinary, not BNNSNDArrayDescriptor"):
        capi.BNNSFilterCreateLayerArithmetic(p)


@pytest.mark.parametrize("alpha", [math.nan, math.inf, -math.inf, 1e300])
@pytest.mark.parametrize("function", range(36))
def test_strange_parameters_of_activations_do_no_harm(function: int, alpha: float, engine: str) -> None:
    """Not numbers, infinite, too large: a result or a clean failure, never an exception or a warning."""
    p = good_activation()
    p.activation = capi.BNNSActivation(function=function, alpha=alpha, beta=alpha)
    f = capi.BNNSFilterCreateLayerActivation(p)
    if f is None:
        return
    x, y = numbers(2, 5), np.zeros((2, 5), np.float32)
    assert capi.BNNSFilterApplyBatch(f, 2, x, 0, y, 0) in (0, -1)
    d = [descriptor("Vector", (5,), np.zeros((2, 5), np.float32)) for _ in range(2)]
    for given in ((x, None), (None, y), (x, y)):
        assert capi.BNNSFilterApplyBackwardBatch(f, 2, given[0], 0, d[0], 0, given[1], 0, d[1], 0) in (0, -1)


@pytest.mark.parametrize("value", [math.nan, math.inf, 1e300])
def test_scale_and_bias_must_be_finite(value: float, observed: Observed) -> None:
    for field in ("i_desc.data_scale", "i_desc.data_bias"):
        observed.log.clear()
        p = good_activation()
        p.i_desc.data_type = INT8
        assign(p, {field: value})
        observed.failed(capi.BNNSFilterCreateLayerActivation(p), "Both must be finite")


def legacy_convolution(**changes: Any) -> Any:
    given = {"in_channels": 2, "out_channels": 3, "channels": 2, "width": 4, "data": numbers(3, 2, 2, 2), **changes}
    image = capi.BNNSImageStackDescriptor(
        width=5, height=5, channels=given["channels"], data_type=given.get("type", FLOAT32)
    )
    out = capi.BNNSImageStackDescriptor(width=given["width"], height=4, channels=3, data_type=FLOAT32)
    p = capi.BNNSConvolutionLayerParameters(
        x_stride=1, y_stride=1, in_channels=given["in_channels"], k_width=2, k_height=2, out_channels=given["out_channels"],
        weights=capi.BNNSLayerData(data=given["data"], data_type=FLOAT32),
    )  # fmt: skip
    return capi.BNNSFilterCreateConvolutionLayer(image, out, p)


def legacy_fully_connected(**changes: Any) -> Any:
    given = {"in_size": 4, "out_size": 3, "size": 4, "data": numbers(3, 4), "bias": numbers(3), **changes}
    p = capi.BNNSFullyConnectedLayerParameters(
        in_size=given["in_size"], out_size=given["out_size"],
        weights=capi.BNNSLayerData(data=given["data"], data_type=given.get("weights_type", FLOAT32)),
        bias=capi.BNNSLayerData(data=given["bias"], data_type=FLOAT32),
    )  # fmt: skip
    vectors = (capi.BNNSVectorDescriptor(size=n, data_type=given.get("type", FLOAT32)) for n in (given["size"], 3))
    return capi.BNNSFilterCreateFullyConnectedLayer(*vectors, p)


def legacy_activation(**changes: Any) -> Any:
    given = {"in_size": 4, "out_size": 4, "function": 3, **changes}
    return capi.BNNSFilterCreateVectorActivationLayer(
        capi.BNNSVectorDescriptor(size=given["in_size"], data_type=given.get("type", FLOAT32)),
        capi.BNNSVectorDescriptor(size=given["out_size"], data_type=FLOAT32),
        capi.BNNSActivation(function=given["function"]),
    )


INDEXED8 = BNNSDataType.BNNSDataTypeIndexed8
LEGACY: list[tuple[Callable[..., Any], dict[str, Any], str]] = [
    (legacy_convolution, {"in_channels": 3}, r"layer_params\.in_channels is 3, but in_desc\.channels is 2\. Make them equal"),
    (legacy_convolution, {"out_channels": 4}, r"layer_params\.out_channels is 4, but out_desc\.channels is 3"),
    (legacy_convolution, {"width": 5}, "width is 5, but .* gives at most 4"),
    (legacy_convolution, {"channels": 0, "in_channels": 0}, r"size\[2\] is 0"),
    (legacy_convolution, {"type": INDEXED8}, r"in_desc\.data_type is indexed, but only layer data may be\. Use"),
    (legacy_convolution, {"data": None}, r"data is NULL"),
    (legacy_convolution, {"data": numbers(5)}, r"holds 20 bytes, but the call touches 96"),
    (legacy_fully_connected, {"in_size": 5}, r"layer_params\.in_size is 5, but in_desc\.size is 4"),
    (legacy_fully_connected, {"out_size": 2}, r"layer_params\.out_size is 2, but out_desc\.size is 3"),
    (legacy_fully_connected, {"size": 0, "in_size": 0}, r"size\[0\] is 0"),
    (legacy_fully_connected, {"data": numbers(11)}, "holds 44 bytes, but the call touches 48"),
    (legacy_fully_connected, {"bias": numbers(2)}, "holds 8 bytes, but the call touches 12"),
    (legacy_fully_connected, {"weights_type": INDEXED8, "data": bytes(12)}, "it has no table_data. Give a table of 256"),
    (legacy_fully_connected, {"type": 3}, "which is not a BNNSDataType"),
    (legacy_activation, {"out_size": 5}, r"out_desc\.size is 5, but in_desc\.size is 4"),
    (legacy_activation, {"function": 50}, "which is not a BNNSActivationFunction"),
    (legacy_activation, {"in_size": 2**64 - 1, "out_size": 2**64 - 1}, "more than any memory holds"),
]  # fmt: skip


@pytest.mark.parametrize("make", [legacy_convolution, legacy_fully_connected, legacy_activation])
def test_legacy_without_changes(make: Callable[..., Any], observed: Observed) -> None:
    assert make() is not None, openbnns.last_error()


@pytest.mark.parametrize("case", LEGACY, ids=lambda c: f"{c[0].__name__}-{list(c[1])}")
def test_legacy(case: tuple[Callable[..., Any], dict[str, Any], str], observed: Observed) -> None:
    make, changes, pattern = case
    observed.failed(make(**changes), pattern)


def test_legacy_null_and_wrong_structs(observed: Observed) -> None:
    vector = capi.BNNSVectorDescriptor(size=4, data_type=FLOAT32)
    observed.failed(
        capi.BNNSFilterCreateVectorActivationLayer(vector, None, capi.BNNSActivation()), "out_desc is NULL. Pass a"
    )
    with pytest.raises(TypeError, match="in_desc must be a BNNSImageStackDescriptor, not BNNSVectorDescriptor"):
        capi.BNNSFilterCreateConvolutionLayer(vector, vector, capi.BNNSConvolutionLayerParameters())


def test_a_number_that_no_float_holds_is_infinite() -> None:
    """As a C compiler would store it; the warnings of NumPy stay inside."""
    matrix = capi.BNNSNDArrayDescriptor(
        layout=capi.BNNSDataLayout2DFirstMajor, size=(1, 1), data_type=capi.BNNSDataTypeFloat32
    )
    image = capi.BNNSNDArrayDescriptor(
        layout=capi.BNNSDataLayoutImageCHW, size=(1, 1, 1), data_type=capi.BNNSDataTypeFloat32
    )
    x, y = np.ones(1, np.float32), np.zeros(1, np.float32)
    gram = capi.BNNSFilterCreateLayerGram(capi.BNNSLayerParametersGram(alpha=1e300, i_desc=image, o_desc=matrix))
    assert capi.BNNSFilterApply(gram, x, y) == 0 and y[0] == np.inf
    product = capi.BNNSFilterCreateLayerBroadcastMatMul(
        capi.BNNSLayerParametersBroadcastMatMul(alpha=-1e300, iA_desc=matrix, iB_desc=matrix, o_desc=matrix)
    )
    assert capi.BNNSFilterApplyTwoInput(product, x, x, y) == 0 and y[0] == -np.inf
    dropout = capi.BNNSLayerParametersDropout(i_desc=matrix, o_desc=matrix, rate=1e300)
    refused(capi.BNNSFilterCreateLayerDropout(dropout), "rate is inf")
