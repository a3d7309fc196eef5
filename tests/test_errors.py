"""Bad inputs, family by family: a failure value, one log line of the right level, a message that helps, nothing written.

Each entry of the tables changes one thing about a call that works, and gives a pattern for what the message must say.
"""

# ruff: noqa: E501 - one line per case keeps the tables readable

from __future__ import annotations

import logging
import math
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import openbnns
from openbnns import capi
from openbnns.capi import BNNSDataLayout, BNNSDataType

Array = NDArray[Any]
FLOAT32 = BNNSDataType.BNNSDataTypeFloat32
HUGE = (2**46 + 1, 2**63, 2**64 - 1)
FILL = 7.25


def descriptor(layout: str, size: Any, data: Any = None, **more: Any) -> capi.BNNSNDArrayDescriptor:
    more.setdefault("data_type", FLOAT32)
    return capi.BNNSNDArrayDescriptor(layout=BNNSDataLayout[f"BNNSDataLayout{layout}"], size=size, data=data, **more)


def numbers(*shape: int) -> Array:
    return np.random.default_rng(math.prod(shape)).standard_normal(shape).astype(np.float32)


# ---------------------------------------------------------------------------------------------------------------------
# What every failure has in common


class Observed:
    """A call under watch: its log records, and outputs that must stay as they are."""

    def __init__(self, log: pytest.LogCaptureFixture) -> None:
        self.log = log
        self.outputs: list[Array] = []

    def output(self, *shape: int) -> Array:
        memory = np.full(shape, FILL, np.float32)
        self.outputs.append(memory)
        return memory

    def failed(self, result: Any, pattern: str, unsupported: bool = False) -> str:
        """Check all that a failed call promises; gives its message."""
        assert result is None or (isinstance(result, int) and result == -1), result
        records = [r for r in self.log.records if r.name == "openbnns"]
        assert len(records) == 1, [r.getMessage() for r in records]
        message = str(openbnns.last_error())
        assert records[0].getMessage() == message
        assert records[0].levelno == (logging.INFO if unsupported else logging.ERROR), message
        assert re.match(r"BNNS\w+(: | does not drive )", message), f"says who: {message}"
        assert message.endswith(".") and ". " in message, f"a finding and a cure: {message}"
        assert re.search(pattern, message), f"{pattern!r} not in: {message}"
        for memory in self.outputs:
            assert (memory == FILL).all(), f"written to, although: {message}"
        return message


@pytest.fixture
def observed(caplog: pytest.LogCaptureFixture) -> Iterator[Observed]:
    with caplog.at_level(logging.DEBUG, "openbnns"):
        yield Observed(caplog)


# ---------------------------------------------------------------------------------------------------------------------
# Creation


def good_fully_connected() -> capi.BNNSLayerParametersFullyConnected:
    return capi.BNNSLayerParametersFullyConnected(
        i_desc=descriptor("Vector", (4,)), w_desc=descriptor("RowMajorMatrix", (4, 3), numbers(3, 4)),
        o_desc=descriptor("Vector", (3,)), bias=descriptor("Vector", (3,), numbers(3)),
    )  # fmt: skip


def good_convolution() -> capi.BNNSLayerParametersConvolution:
    return capi.BNNSLayerParametersConvolution(
        i_desc=descriptor("ImageCHW", (6, 5, 4)), w_desc=descriptor("ConvolutionWeightsOIHW", (3, 2, 4, 6), numbers(6, 4, 2, 3)),
        o_desc=descriptor("ImageCHW", (4, 4, 6)), bias=descriptor("Vector", (6,), numbers(6)), x_stride=1, y_stride=1,
    )  # fmt: skip


def good_transposed() -> capi.BNNSLayerParametersConvolution:
    return capi.BNNSLayerParametersConvolution(
        i_desc=descriptor("ImageCHW", (4, 4, 6)), w_desc=descriptor("ConvolutionWeightsIOHrWr", (3, 2, 4, 6), numbers(6, 4, 2, 3)),
        o_desc=descriptor("ImageCHW", (6, 5, 4)), bias=descriptor("Vector", (4,), numbers(4)),
    )  # fmt: skip


def good_activation() -> capi.BNNSLayerParametersActivation:
    return capi.BNNSLayerParametersActivation(
        i_desc=descriptor("Vector", (5,)), o_desc=descriptor("Vector", (5,)),
        activation=capi.BNNSActivation(function=capi.BNNSActivationFunctionTanh),
    )  # fmt: skip


def good_arithmetic() -> capi.BNNSLayerParametersArithmetic:
    return capi.BNNSLayerParametersArithmetic(
        arithmetic_function=capi.BNNSArithmeticMultiply,
        arithmetic_function_fields=capi.BNNSArithmeticBinary(
            in1=descriptor("RowMajorMatrix", (4, 3)), in1_type=capi.BNNSSample,
            in2=descriptor("RowMajorMatrix", (4, 1)), in2_type=capi.BNNSParameter,
            out=descriptor("RowMajorMatrix", (4, 3)), out_type=capi.BNNSSample,
        ),
    )  # fmt: skip


GOOD: dict[str, tuple[Callable[[], Any], Callable[..., Any]]] = {
    "fully connected": (good_fully_connected, capi.BNNSFilterCreateLayerFullyConnected),
    "convolution": (good_convolution, capi.BNNSFilterCreateLayerConvolution),
    "transposed": (good_transposed, capi.BNNSFilterCreateLayerTransposedConvolution),
    "activation": (good_activation, capi.BNNSFilterCreateLayerActivation),
    "arithmetic": (good_arithmetic, capi.BNNSFilterCreateLayerArithmetic),
}


def assign(path: str, value: Any) -> Callable[[Any], None]:
    """Sets ``a.b.c`` or ``a.b[2]`` of a struct."""

    def change(p: Any) -> None:
        *parents, last = path.split(".")
        for name in parents:
            p = getattr(p, name)
        name, bracket, position = last.partition("[")
        if bracket:
            getattr(p, name)[int(position[:-1])] = value
        else:
            setattr(p, name, value)

    return change


def code(name: str) -> int:
    return int(BNNSDataLayout[f"BNNSDataLayout{name}"])


HALF, INT8 = BNNSDataType.BNNSDataTypeFloat16, BNNSDataType.BNNSDataTypeInt8
FIELDS = "arithmetic_function_fields"

# family, field, value, pattern; a fifth entry marks what is legal but not supported
CREATION: list[tuple[Any, ...]] = [
    ("fully connected", "i_desc.layout", 0, r": i_desc\.layout is 0x0, which is no BNNSDataLayout\. Set it"),
    ("fully connected", "i_desc.layout", 0xFFFFFFFF, "which is no BNNSDataLayout"),
    ("fully connected", "i_desc.data_type", 0, r": i_desc\.data_type is 0x0, which is no BNNSDataType\. Use one of"),
    ("fully connected", "i_desc.data_type", 0x10000, "which is no BNNSDataType"),
    ("fully connected", "i_desc.size[0]", 0, r": i_desc\.size\[0\] is 0\. Vector has 1 sizes"),
    *[("fully connected", "i_desc.size[0]", n, "more than any memory holds|but i_desc has") for n in HUGE],
    ("fully connected", "i_desc.size[0]", 5, r"4 inputs, but i_desc has 5 elements.*Set w_desc\.size to \(5, 3\)"),
    ("fully connected", "o_desc.size[0]", 2, r"3 outputs x 4 inputs, but .* o_desc 2\. Set w_desc\.size to \(4, 2\)"),
    ("fully connected", "o_desc.layout", code("FullyConnectedSparse"), "packed form of sparse weights"),
    ("fully connected", "w_desc.layout", code("Vector"), r"w_desc\.layout is Vector\. Fully connected weights are RowMajor"),
    ("fully connected", "w_desc.layout", code("ImageCHW"), r"size\[2\] is 0|Fully connected weights are"),
    ("fully connected", "w_desc.layout", code("ColumnMajorMatrix"), r"Set w_desc\.size to \(3, 4\) for ColumnMajorMatrix"),
    ("fully connected", "w_desc.data", None, r"w_desc\.data is NULL, but this call needs it\. Pass the memory of RowMajor"),
    ("fully connected", "w_desc.data", np.zeros(11, np.float32), r"w_desc\.data holds 44 bytes, but the call touches 48"),
    ("fully connected", "w_desc.data", np.zeros(12), r"w_desc\.data holds float64 items, but its descriptor says Float32"),
    ("fully connected", "w_desc.data", np.zeros((3, 8), "f4")[:, ::2], r"w_desc\.data of shape \(3, 4\) is not C-contiguous"),
    ("fully connected", "w_desc.data_type", int(HALF), r"w_desc\.data holds float32 items, but its descriptor says Float16"),
    ("fully connected", "w_desc.stride[0]", 9, r"w_desc\.data holds 48 bytes, but the call touches"),
    *[("fully connected", "w_desc.stride[0]", n, "further than any memory") for n in HUGE],
    ("fully connected", "w_desc.data_type", int(BNNSDataType.BNNSDataTypeIndexed8), "Indexed8, but table_data is NULL"),
    ("fully connected", "bias.size[0]", 4, r"bias is Vector size \(4,\) Float32.*Describe a Vector of size 3"),
    ("fully connected", "bias.layout", code("RowMajorMatrix"), r"bias\.size\[1\] is 0"),
    ("fully connected", "bias.data", np.zeros(2, np.float32), r"bias\.data holds 8 bytes, but the call touches 12"),
    ("fully connected", "bias.data", 2**63, r"bias\.data is the address 0x8000000000000000, which cannot be valid"),
    ("fully connected", "activation.function", 36, r"activation\.function is 36, which is no BNNSActivationFunction\. Use one"),
    ("fully connected", "activation.function", 2**32 - 1, "which is no BNNSActivationFunction"),
    ("fully connected", "activation.function", 14, r"GumbelMax, which cannot be fused.*BNNSFilterCreateLayerActivation", True),
    ("convolution", "i_desc.layout", code("3DFirstMajor"), r"i_desc\.layout is 3DFirstMajor\. Images are ImageCHW with size ="),
    ("convolution", "i_desc.size[2]", 5, r"6 output and 4 input channels, but o_desc has 6 and i_desc 5\. Set w_desc\.size"),
    ("convolution", "o_desc.size[2]", 5, r"but o_desc has 5 and i_desc 4"),
    ("convolution", "o_desc.size[0]", 5, r"o_desc width is 5, but i_desc width 6 with padding 0 \+ 0.*Set o_desc\.size\[0\] to 4"),
    ("convolution", "o_desc.size[1]", 2**40, r"o_desc height is \d+, but .* gives at most 4\. Set o_desc\.size\[1\] to 4"),
    ("convolution", "i_desc.size[0]", 2, "leaves no room for a single window. Use a larger image"),
    ("convolution", "x_dilation_stride", 3, "leaves no room for a single window"),
    ("convolution", "w_desc.layout", code("4DFirstMajor"), r"w_desc\.layout is 4DFirstMajor\. Kernels are ConvolutionWeightsOIHW"),
    ("convolution", "w_desc.layout", code("ConvolutionWeightsIOHrWr"), r"4 output and 6 input channels"),
    ("convolution", "w_desc.data", np.zeros(143, np.float32), r"w_desc\.data holds 572 bytes, but the call touches 576"),
    ("convolution", "groups", 3, "groups is 3, which does not divide the 4 input channels"),
    ("convolution", "groups", 2**64 - 1, "which does not divide"),
    ("convolution", "groups", 2, r"but o_desc has 6 and i_desc 4 / 2 groups\. Set w_desc\.size\[3\] to 6 and w_desc\.size\[2\] to 2"),
    ("convolution", "bias.size[0]", 5, "Describe a Vector of size 6"),
    *[("convolution", f, 2**64 - 1, rf": {f} is \d+, which is more than any image has\. Use")
      for f in ("x_stride", "y_stride", "x_dilation_stride", "y_dilation_stride", "x_padding", "y_padding")],
    ("convolution", "pad[2]", 2**63, r"pad\[2\] is 9223372036854775808, which is more than any image"),
    ("transposed", "groups", 2, "transposed convolution has no groups. Set groups to 0 or 1", True),
    ("transposed", "i_desc.data_type", int(HALF), r"i_desc\.data_type is Float16, but .* works on Float32 only\. Use", True),
    ("transposed", "w_desc.layout", code("ConvolutionWeightsOIHW"), r"that is 6 output and 4 input channels, but o_desc has 4"),
    ("transposed", "i_desc.size[0]", 5, r"i_desc width is 5, but o_desc width 6 .* gives at most 4"),
    ("transposed", "y_stride", 2**64 - 1, "more than any image has"),
    ("activation", "o_desc.size[0]", 4, r"o_desc is Vector size \(4,\) Float32\. Tanh needs the same number of elements"),
    ("activation", "activation.function", 77, r"activation\.function is 77"),
    ("activation", "activation.function", 29, "PReLUPerChannel works on ImageCHW, but i_desc.layout is Vector. Use"),
    ("activation", "activation.function", 9, r"IntegerLinearSaturate maps integers to integers.*Use Int or UInt types"),
    ("activation", "axis_flags", 4, r"axis_flags is 0x4, but Vector has 1 axes \(bits 0 to 0\) and the batch \(bit 1\)\. Clear"),
    ("activation", "axis_flags", 2**32 - 1, "Clear the other bits"),
    ("arithmetic", "arithmetic_function", 41, "arithmetic_function is 41, which is no BNNSArithmeticFunction. Use one of 0 to 40"),
    ("arithmetic", "arithmetic_function", 4, "is a BNNSArithmeticBinary, but SquareRoot has 1 operand.* Pass a BNNSArithmeticUnary"),
    ("arithmetic", FIELDS, None, "arithmetic_function_fields is NULL. Multiply takes a BNNSArithmeticBinary"),
    ("arithmetic", f"{FIELDS}.in1_type", 3, r"in1_type is 3\. Use BNNSConstant"),
    ("arithmetic", f"{FIELDS}.out_type", 2, "out_type is not BNNSSample, but an operand is"),
    ("arithmetic", f"{FIELDS}.in2.layout", code("ColumnMajorMatrix"), "in2.layout is ColumnMajorMatrix and out.layout is RowMajor"),
    ("arithmetic", f"{FIELDS}.in2.size[1]", 2, r"in2\.size\[1\] is 2, but out\.size\[1\] is 3\. An operand's size equals"),
    ("arithmetic", f"{FIELDS}.in2.data_type", 5, "which is no BNNSDataType"),
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
    assign(field, value)(p)
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
        assign(field, value)(p)
        observed.failed(capi.BNNSFilterCreateLayerActivation(p), "Both must be finite")


# ---------------------------------------------------------------------------------------------------------------------
# First-generation structs


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
    (legacy_fully_connected, {"weights_type": INDEXED8, "data": bytes(12)}, "table_data is NULL. Give a table of 256"),
    (legacy_fully_connected, {"type": 3}, "which is no BNNSDataType"),
    (legacy_activation, {"out_size": 5}, r"out_desc\.size is 5, but in_desc\.size is 4"),
    (legacy_activation, {"function": 50}, "which is no BNNSActivationFunction"),
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


# ---------------------------------------------------------------------------------------------------------------------
# Forward and backward calls with one input

UNARY = {
    # family: shape and descriptor of input, output, weights, bias
    "fully connected": (("Vector", (4,)), ("Vector", (3,)), ("RowMajorMatrix", (4, 3)), ("Vector", (3,))),
    "convolution": (("ImageCHW", (6, 5, 4)), ("ImageCHW", (4, 4, 6)), ("ConvolutionWeightsOIHW", (3, 2, 4, 6)), ("Vector", (6,))),
    "transposed": (("ImageCHW", (4, 4, 6)), ("ImageCHW", (6, 5, 4)), ("ConvolutionWeightsIOHrWr", (3, 2, 4, 6)), ("Vector", (4,))),
    "activation": (("Vector", (5,)), ("Vector", (5,)), None, None),
}  # fmt: skip


class Unary:
    """A working call of a filter with one input, on a batch of 2, whose arguments can be replaced one by one."""

    def __init__(self, family: str, observed: Observed, activation: int | None = None, **parameters: Any) -> None:
        good, create = GOOD[family]
        p = good()
        if activation is not None:
            p.activation = capi.BNNSActivation(function=activation, **parameters)
        self.filter = create(p)
        assert self.filter is not None, openbnns.last_error()
        (_, n), (_, m), w, b = UNARY[family]
        self.inputs, self.outputs = math.prod(n), math.prod(m)
        self.forward = {
            "filter": self.filter, "batch_size": 2, "in_": numbers(2, self.inputs), "in_stride": 0,
            "out": observed.output(2, self.outputs), "out_stride": 0,
        }  # fmt: skip
        self.backward = {
            **self.forward, "out": numbers(2, self.outputs),
            "in_delta": descriptor(*UNARY[family][0], observed.output(2, self.inputs)), "in_delta_stride": 0,
            "out_delta": descriptor(*UNARY[family][1], numbers(2, self.outputs)), "out_delta_stride": 0,
            "weights_delta": w and descriptor(*w, observed.output(math.prod(w[1]))),
            "bias_delta": b and descriptor(*b, observed.output(math.prod(b[1]))),
        }  # fmt: skip

    def apply(self, **changes: Any) -> int:
        return capi.BNNSFilterApplyBatch(**{**self.forward, **changes})

    def apply_backward(self, **changes: Any) -> int:
        return capi.BNNSFilterApplyBackwardBatch(**{**self.backward, **changes})


@pytest.mark.parametrize("family", UNARY)
def test_the_unchanged_calls_work(family: str, engine: str, observed: Observed) -> None:
    call = Unary(family, observed)
    assert call.apply() == 0 and call.apply_backward() == 0, openbnns.last_error()
    assert not observed.log.records
    for memory in observed.outputs:
        assert not (memory == FILL).all()


FORWARD: list[tuple[str, Callable[[Unary], Any], str]] = [
    ("in_", lambda c: None, r": in is NULL, but this call needs it\. Pass the memory of"),
    ("out", lambda c: None, r": out is NULL, but this call needs it"),
    ("in_", lambda c: numbers(2 * c.inputs - 1), r": in holds \d+ bytes, but the call touches \d+ \(2 samples of .* apart\)\. Pass"),
    ("out", lambda c: np.zeros(2 * c.outputs - 1, np.float32), r": out holds \d+ bytes, but the call touches \d+"),
    ("in_", lambda c: bytearray(8 * c.inputs - 1), r": in holds \d+ bytes"),
    ("in_", lambda c: np.zeros((2, c.inputs)), r": in holds float64 items, but its descriptor says Float32\. Pass an array of float32"),
    ("in_", lambda c: np.zeros((2, 2 * c.inputs), "f4")[:, ::2], r": in of shape .* is not C-contiguous \(strides"),
    ("in_", lambda c: np.zeros((2, c.inputs), ">f4"), r": in holds >f4 items, whose bytes are in the order of another machine\. Convert"),
    ("out", lambda c: bytes(8 * c.outputs), r": out is read-only, but the call writes to it\. Pass a writable buffer"),
    ("in_", lambda c: 0, r": in is the address 0x0, which cannot be valid\. Pass None for NULL"),
    ("out", lambda c: -4, r": out is the address -0x4"),
    ("batch_size", lambda c: -1, r": batch_size is -1, but a size is between 0 and"),
    ("batch_size", lambda c: 3, r": in holds \d+ bytes, but the call touches \d+ \(3 samples"),
    ("batch_size", lambda c: 2**46, "in holds"),
    ("batch_size", lambda c: 2**63, ": batch_size is 9223372036854775808, but a size is between"),
    ("batch_size", lambda c: 2**64 - 1, ": batch_size is"),
    ("in_stride", lambda c: -1, r": in_stride is -1, but a size is between"),
    ("in_stride", lambda c: 10**6, r": in holds \d+ bytes, but the call touches .*1000000 elements apart"),
    ("in_stride", lambda c: 2**63, r": in_stride is 9223372036854775808"),
    ("out_stride", lambda c: 2**64 - 1, r": out_stride is \d+"),
    ("out_stride", lambda c: c.outputs - 1, r": out_stride is \d+, but one sample spans .* would overwrite each other\. Use a stride of at least"),
    ("out_stride", lambda c: c.outputs + 1, r": out holds \d+ bytes, but the call touches"),
    ("filter", lambda c: None, ": filter is NULL. Its creation failed or was skipped: check the creation call"),
]  # fmt: skip


@pytest.mark.covers("core.status.int")
@pytest.mark.parametrize("family", UNARY)
@pytest.mark.parametrize("case", FORWARD, ids=lambda c: f"{c[0]}-{c[2][:24]}")
def test_forward(family: str, case: tuple[str, Callable[[Unary], Any], str], engine: str, observed: Observed) -> None:
    argument, value, pattern = case
    call = Unary(family, observed)
    message = observed.failed(call.apply(**{argument: value(call)}), pattern)
    assert message.startswith("BNNSFilterApplyBatch: ")


def delta(argument: str, **changes: Any) -> Callable[[Unary], Any]:
    """The descriptor of a working call with some fields changed."""

    def change(call: Unary) -> Any:
        d = call.backward[argument].copy()
        for name, value in changes.items():
            setattr(d, name, value(call) if callable(value) else value)
        return d

    return change


BACKWARD: list[tuple[str, Callable[[Unary], Any], str]] = [
    ("out_delta", lambda c: None, r": out_delta is NULL\. It is the gradient arriving at the output and always needed"),
    ("out_delta", delta("out_delta", data=None), r": out_delta\.data is NULL\. Point it to the memory of sample 0\.$"),
    ("out_delta", delta("out_delta", data=lambda c: numbers(2 * c.outputs - 1)), r": out_delta\.data holds"),
    ("out_delta", delta("out_delta", size=(1,) * 3), r": out_delta is .* but this filter's tensor is .*A gradient has the shape"),
    ("out_delta", delta("out_delta", size=()), r": out_delta\.size\[0\] is 0"),
    ("out_delta", delta("out_delta", data_type=HALF), r": out_delta\.data_type is Float16, but training works on Float32\. Use"),
    ("out_delta", delta("out_delta", layout=0), r": out_delta\.layout is 0x0"),
    ("out_delta", delta("out_delta", layout=code("8DFirstMajor"), size=(2,) * 8), r": out_delta is 8DFirstMajor"),
    ("out_delta", delta("out_delta", stride=(2**64 - 1,)), r"out_delta\.stride is .*reaches further|stride\[1\]"),
    ("in_delta", delta("in_delta", data=None), r": in_delta\.data is NULL\. Point .* or pass NULL for the descriptor to skip it"),
    ("in_delta", delta("in_delta", data=lambda c: np.zeros(2 * c.inputs - 1, "f4")), r": in_delta\.data holds"),
    ("in_delta", delta("in_delta", data=lambda c: bytes(8 * c.inputs)), r": in_delta\.data is read-only"),
    ("in_delta", delta("in_delta", data=lambda c: np.zeros((2, c.inputs))), r": in_delta\.data holds float64 items"),
    ("in_delta", delta("in_delta", flags=2), r": in_delta\.flags is 2\. Use BNNSNDArrayFlagBackpropSet \(0\)"),
    ("in_delta", delta("in_delta", size=(9, 9, 9)), r": in_delta is .*describe"),
    ("in_delta", delta("in_delta", data_type=INT8), r": in_delta\.data_type is Int8, but training works on Float32"),
    ("in_delta_stride", lambda c: 1, r": in_delta_stride is 1, but one sample spans \d+ elements"),
    ("in_delta_stride", lambda c: 2**63, r": in_delta_stride is 9223372036854775808"),
    ("out_delta_stride", lambda c: -3, r": out_delta_stride is -3"),
    ("out_delta_stride", lambda c: 10**6, r": out_delta\.data holds"),
    ("in_", lambda c: numbers(2 * c.inputs - 1), r": in holds"),
    ("in_stride", lambda c: 10**6, r": in holds"),
    ("out", lambda c: numbers(2 * c.outputs - 1), r": out holds"),
    ("out", lambda c: np.zeros((2, c.outputs)), r": out holds float64"),
    ("batch_size", lambda c: 3, r"holds \d+ bytes, but the call touches \d+ \(3 samples"),
    ("batch_size", lambda c: 2**64 - 1, ": batch_size is"),
    ("filter", lambda c: None, ": filter is NULL"),
]  # fmt: skip


@pytest.mark.parametrize("family", UNARY)
@pytest.mark.parametrize("case", BACKWARD, ids=lambda c: f"{c[0]}-{c[2][:24]}")
def test_backward(family: str, case: tuple[str, Callable[[Unary], Any], str], engine: str, observed: Observed) -> None:
    argument, value, pattern = case
    call = Unary(family, observed)
    message = observed.failed(call.apply_backward(**{argument: value(call)}), pattern)
    assert message.startswith("BNNSFilterApplyBackwardBatch: ")


PARAMETERS: list[tuple[str, Callable[[Unary], Any], str]] = [
    ("in_", lambda c: None, r": in is NULL, but the weights gradient needs the forward input\. Pass it, or no weights_delta"),
    ("weights_delta", delta("weights_delta", data=None), r": weights_delta\.data is NULL"),
    ("weights_delta", delta("weights_delta", data=np.zeros(11, "f4")), r": weights_delta\.data holds 44 bytes"),
    ("weights_delta", delta("weights_delta", layout=code("2DFirstMajor")), r": weights_delta is 2DFirstMajor .*same layout and size"),
    ("weights_delta", delta("weights_delta", size=(1, 1, 1, 1)), r": weights_delta is .* but the parameter was created as"),
    ("weights_delta", delta("weights_delta", flags=9), r": weights_delta\.flags is 9"),
    ("weights_delta", delta("weights_delta", data=bytes(999)), r": weights_delta\.data is read-only"),
    ("weights_delta", delta("weights_delta", data_type=HALF), r": weights_delta\.data_type is Float16"),
    ("bias_delta", delta("bias_delta", size=(2,)), r": bias_delta is Vector size \(2,\)"),
    ("bias_delta", delta("bias_delta", data=np.zeros(2, "f4")), r": bias_delta\.data holds 8 bytes"),
    ("bias_delta", lambda c: delta("bias_delta", data=c.backward["weights_delta"].data)(c), r"weights_delta and bias_delta share memory.*Give each"),
    ("weights_delta", lambda c: delta("weights_delta", data=c.backward["in_delta"].data)(c), r"weights_delta\.data holds|share memory"),
]  # fmt: skip


@pytest.mark.parametrize("family", ["fully connected", "convolution", "transposed"])
@pytest.mark.parametrize("case", PARAMETERS, ids=lambda c: f"{c[0]}-{c[2][:24]}")
def test_backward_parameters(family: str, case: tuple[str, Any, str], engine: str, observed: Observed) -> None:
    argument, value, pattern = case
    call = Unary(family, observed)
    observed.failed(call.apply_backward(**{argument: value(call)}), pattern)


@pytest.mark.parametrize("family", ["fully connected", "convolution", "transposed"])
def test_backward_through_an_activation(family: str, engine: str, observed: Observed) -> None:
    call = Unary(family, observed, int(capi.BNNSActivationFunctionTanh))
    observed.failed(
        call.apply_backward(out=None), r": out is NULL, but the fused activation is differentiated from the forward"
    )
    observed.log.clear()
    call = Unary(family, observed, int(capi.BNNSActivationFunctionSiLU))
    observed.failed(
        call.apply_backward(), "the fused activation SiLU cannot be trained.*Make it a separate activation", True
    )
    observed.log.clear()
    call = Unary(family, observed, int(capi.BNNSActivationFunctionLeakyRectifiedLinear), alpha=0.0)
    observed.failed(call.apply_backward(), "LeakyRectifiedLinear has alpha 0; in training alpha must be above 0", True)
    observed.log.clear()
    call = Unary(family, observed, int(capi.BNNSActivationFunctionELU), alpha=-1.0)
    changes = {"in_": None, "weights_delta": None}
    observed.failed(
        call.apply_backward(**changes), "the derivative of ELU with alpha -1 cannot be taken from the output"
    )


def test_activation_without_what_its_derivative_needs(engine: str, observed: Observed) -> None:
    call = Unary("activation", observed, int(capi.BNNSActivationFunctionTanh))
    observed.failed(
        call.apply_backward(in_=None, out=None), "in and out are both NULL, but the derivative of Tanh needs one"
    )
    observed.log.clear()
    call = Unary("activation", observed, int(capi.BNNSActivationFunctionAbs))
    observed.failed(
        call.apply_backward(in_=None), "in is NULL, but the derivative of Abs cannot be taken from the output. Pass"
    )
    observed.log.clear()
    call = Unary("activation", observed, int(capi.BNNSActivationFunctionLeakyRectifiedLinear), alpha=0.5)
    alpha = descriptor("Vector", (1,), observed.output(1))
    observed.failed(call.apply_backward(in_=None, weights_delta=alpha), "the gradient of alpha needs the forward input")
    observed.log.clear()
    call = Unary("activation", observed, int(capi.BNNSActivationFunctionGumbelMax), alpha=0.5)
    observed.failed(call.apply_backward(), "GumbelMax has no gradient. It works in inference only", True)


def test_alpha_that_turns_negative_later(engine: str, observed: Observed) -> None:
    """The fast path may not go on deciding by the alpha of creation."""
    call = Unary("activation", observed, int(capi.BNNSActivationFunctionLeakyRectifiedLinear), alpha=0.5)
    capi.BNNSGetPointer(call.filter, capi.BNNSPointerSpecifierAlpha).data[0] = -0.5
    observed.failed(
        call.apply_backward(in_=None), "the derivative of LeakyRectifiedLinear cannot be taken from the output"
    )


@pytest.mark.parametrize("tensor", ["i_desc", "o_desc", "w_desc", "bias"])
def test_training_needs_float32(tensor: str, engine: str, observed: Observed) -> None:
    p = good_fully_connected()
    d = getattr(p, tensor)
    d.data_type = HALF
    if d.data is not None:
        d.data = d.data.astype(np.float16)
    call = Unary("fully connected", observed)
    f = capi.BNNSFilterCreateLayerFullyConnected(p)
    name = {"i_desc": "input", "o_desc": "output", "w_desc": "weights", "bias": "bias"}[tensor]
    observed.failed(
        call.apply_backward(filter=f), f"the filter's {name} is Float16, but training works on Float32 only. Create"
    )


@pytest.mark.parametrize("family", UNARY)
def test_destroyed(family: str, engine: str, observed: Observed) -> None:
    call = Unary(family, observed)
    capi.BNNSFilterDestroy(call.filter)
    observed.failed(call.apply(), "BNNSFilterApplyBatch: the filter has been destroyed. Create a new one")
    observed.log.clear()
    observed.failed(call.apply_backward(), "BNNSFilterApplyBackwardBatch: the filter has been destroyed")
    observed.log.clear()
    got = capi.BNNSFilterApply(call.filter, numbers(call.inputs), observed.output(call.outputs))
    observed.failed(got, "BNNSFilterApply: the filter has been destroyed")


@pytest.mark.parametrize("family", UNARY)
def test_wrong_calls_for_a_filter_of_one_input(family: str, engine: str, observed: Observed) -> None:
    call = Unary(family, observed)
    x, y = numbers(2, call.inputs), observed.output(2, call.outputs)
    use = "Use BNNSFilterApply or BNNSFilterApplyBatch"
    observed.failed(capi.BNNSFilterApplyTwoInput(call.filter, x, x, y), use)
    observed.log.clear()
    observed.failed(capi.BNNSFilterApplyTwoInputBatch(call.filter, 1, x, 0, x, 0, y, 0), use)
    observed.log.clear()
    observed.failed(capi.BNNSArithmeticFilterApplyBatch(call.filter, 1, 1, [x], [0], y, 0), use)
    observed.log.clear()
    d = descriptor("Vector", (call.inputs,), observed.output(call.inputs))
    got = capi.BNNSArithmeticFilterApplyBackwardBatch(call.filter, 1, 1, [x], [0], [d], [0], y, 0, d, 0)
    observed.failed(got, "Use BNNSFilterApplyBackwardBatch")
    observed.log.clear()
    got = capi.BNNSFilterApplyBackwardTwoInputBatch(call.filter, 1, x, 0, d, 0, x, 0, d, 0, y, 0, d, 0)
    observed.failed(got, "Use BNNSFilterApplyBackwardBatch")


def test_wrong_python_types_in_calls(engine: str, observed: Observed) -> None:
    call = Unary("fully connected", observed)
    for changes in ({"in_": "text"}, {"out": 1.5}, {"batch_size": 2.0}, {"batch_size": None}, {"in_stride": "0"},
                    {"filter": object()}, {"filter": 7}):  # fmt: skip
        with pytest.raises(TypeError, match="BNNSFilterApplyBatch: "):
            call.apply(**changes)
    for changes in ({"in_delta": numbers(8)}, {"out_delta": "d"}, {"weights_delta": {}}, {"bias_delta": 3}):
        with pytest.raises(
            TypeError, match=r"BNNSFilterApplyBackwardBatch: .* must be a BNNSNDArrayDescriptor or None, not"
        ):
            call.apply_backward(**changes)
    with pytest.raises(TypeError, match="filter must be a BNNSFilter, not str"):
        capi.BNNSFilterDestroy("filter")
    with pytest.raises(TypeError, match="filter must be a BNNSFilter"):
        capi.BNNSGetPointer("filter", 0)
    with pytest.raises(TypeError, match="target must be a BNNSPointerSpecifier, not str"):
        capi.BNNSGetPointer(call.filter, "Alpha")
    for memory in observed.outputs:
        assert (memory == FILL).all()


def test_overlapping_strides_of_an_output(engine: str, observed: Observed) -> None:
    """Descriptors may let inputs overlap, but an element written twice has no value."""
    p = good_activation()
    p.i_desc = descriptor("RowMajorMatrix", (4, 3), stride=(1, 2))
    p.o_desc = descriptor("RowMajorMatrix", (4, 3))
    f = capi.BNNSFilterCreateLayerActivation(p)
    y = np.zeros(12, np.float32)
    x = numbers(8)
    assert capi.BNNSFilterApply(f, x, y) == 0
    np.testing.assert_allclose(y.reshape(3, 4), np.tanh(np.stack([x[0:4], x[2:6], x[4:8]])), rtol=1e-5)
    p.i_desc, p.o_desc = p.o_desc, p.i_desc
    f = capi.BNNSFilterCreateLayerActivation(p)
    observed.failed(
        capi.BNNSFilterApply(f, y, observed.output(12)), r"out: strides .* share memory, so it cannot be written\. Use"
    )


@pytest.mark.parametrize("shift", range(1, 8))
def test_unaligned_memory_works(shift: int, engine: str) -> None:
    """A uint8 view at an odd offset: copied to aligned memory and back, for every argument."""

    def unaligned(a: Array) -> Array:
        memory = np.zeros(a.nbytes + 8, np.uint8)[shift : shift + a.nbytes]
        memory[:] = a.reshape(-1).view(np.uint8)
        return memory

    rng = np.random.default_rng(shift)
    n, m, batch = 37, 19, 3
    w, x, dy = (rng.standard_normal(s).astype(np.float32) for s in ((m, n), (batch, n), (batch, m)))
    p = capi.BNNSLayerParametersFullyConnected(
        i_desc=descriptor("Vector", (n,)), w_desc=descriptor("RowMajorMatrix", (n, m), unaligned(w)), o_desc=descriptor("Vector", (m,))
    )  # fmt: skip
    for flags in (0, 1):
        f = capi.BNNSFilterCreateLayerFullyConnected(p, capi.BNNSFilterParameters(flags=flags))
        y, dx, dw = (
            unaligned(np.zeros((batch, m), "f4")),
            unaligned(np.zeros((batch, n), "f4")),
            unaligned(np.ones((m, n), "f4")),
        )
        assert capi.BNNSFilterApplyBatch(f, batch, unaligned(x), 0, y, 0) == 0, openbnns.last_error()
        np.testing.assert_allclose(np.frombuffer(y.tobytes(), "f4").reshape(batch, m), x @ w.T, rtol=1e-4, atol=1e-5)
        assert capi.BNNSFilterApplyBackwardBatch(
            f, batch, unaligned(x), 0, descriptor("Vector", (n,), dx), 0, None, 0, descriptor("Vector", (m,), unaligned(dy)), 0,
            descriptor("RowMajorMatrix", (n, m), dw, flags=1),
        ) == 0, openbnns.last_error()  # fmt: skip
        np.testing.assert_allclose(np.frombuffer(dx.tobytes(), "f4").reshape(batch, n), dy @ w, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(np.frombuffer(dw.tobytes(), "f4").reshape(m, n), 1 + dy.T @ x, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["Float16", "BFloat16", "Int16", "Int32", "Int64", "UInt64"])
def test_unaligned_memory_of_other_types(name: str, engine: str) -> None:
    kind = BNNSDataType[f"BNNSDataType{name}"]
    width = (int(kind) & 0xFF) // 8
    p = capi.BNNSLayerParametersActivation(
        i_desc=descriptor("Vector", (5,)), o_desc=descriptor("Vector", (5,), data_type=kind)
    )
    f = capi.BNNSFilterCreateLayerActivation(p)
    memory = np.zeros(5 * width + 1, np.uint8)
    assert capi.BNNSFilterApply(f, np.arange(5, dtype=np.float32), memory[1:]) == 0, openbnns.last_error()
    p.i_desc, p.o_desc = p.o_desc, p.i_desc
    back = np.zeros(5, np.float32)
    assert capi.BNNSFilterApply(capi.BNNSFilterCreateLayerActivation(p), memory[1:], back) == 0
    np.testing.assert_array_equal(back, np.arange(5))


# ---------------------------------------------------------------------------------------------------------------------
# Arithmetic calls


class Arithmetic:
    """A working a*b with a Sample and a broadcast Parameter, on a batch of 2."""

    def __init__(self, observed: Observed, function: int | None = None, activation: int = 0) -> None:
        p = good_arithmetic()
        if function is not None:
            p.arithmetic_function = function
        p.activation = capi.BNNSActivation(function=activation)
        self.filter = capi.BNNSFilterCreateLayerArithmetic(p)
        assert self.filter is not None
        self.forward = {
            "filter": self.filter, "batch_size": 2, "number_of_inputs": 2, "in_": [numbers(2, 12), numbers(4)],
            "in_stride": [0, 0], "out": observed.output(2, 12), "out_stride": 0,
        }  # fmt: skip
        self.da, self.db = observed.output(2, 12), observed.output(4)
        self.backward = {
            **self.forward, "out": numbers(2, 12), "in_delta": [matrix(12, self.da), matrix(4, self.db)], "in_delta_stride": [0, 0],
            "out_delta": matrix(12, numbers(2, 12)), "out_delta_stride": 0,
        }  # fmt: skip

    def apply(self, **changes: Any) -> int:
        return capi.BNNSArithmeticFilterApplyBatch(**{**self.forward, **changes})

    def apply_backward(self, **changes: Any) -> int:
        return capi.BNNSArithmeticFilterApplyBackwardBatch(**{**self.backward, **changes})


def matrix(count: int, data: Any, **more: Any) -> capi.BNNSNDArrayDescriptor:
    return descriptor("RowMajorMatrix", (4, count // 4), data, **more)


ARITHMETIC: list[tuple[str, Callable[[Arithmetic], dict[str, Any]], str]] = [
    ("forward", lambda c: {"number_of_inputs": 1}, r"number_of_inputs is 1, but Multiply has 2 operand\(s\)\. Pass 2"),
    ("forward", lambda c: {"number_of_inputs": 2**63}, "number_of_inputs is 9223372036854775808"),
    ("forward", lambda c: {"in_": [numbers(24)]}, r"in has 1 entries, but Multiply has 2 operand\(s\)\. Pass 2"),
    ("forward", lambda c: {"in_stride": [0, 0, 0]}, "in_stride has 3 entries"),
    ("forward", lambda c: {"in_": [numbers(24), None]}, r"in\[1\] is NULL, but this call needs it"),
    ("forward", lambda c: {"in_": None}, r"in\[0\] is NULL, but this call needs it"),
    ("forward", lambda c: {"in_": [numbers(23), numbers(4)]}, r"in\[0\] holds 92 bytes, but the call touches 96"),
    ("forward", lambda c: {"in_": [numbers(24), numbers(3)]}, r"in\[1\] holds 12 bytes"),
    ("forward", lambda c: {"in_": [np.zeros(24), numbers(4)]}, r"in\[0\] holds float64 items"),
    ("forward", lambda c: {"in_stride": [-2, 0]}, r"in_stride\[0\] is -2"),
    ("forward", lambda c: {"in_stride": [13, 0]}, r"in\[0\] holds"),
    ("forward", lambda c: {"out": np.zeros(23, "f4")}, "out holds 92 bytes"),
    ("forward", lambda c: {"out": bytes(96)}, "out is read-only"),
    ("forward", lambda c: {"out_stride": 5}, "out_stride is 5, but one sample spans 12"),
    ("forward", lambda c: {"in_": [c.forward["out"].reshape(-1)[:24], numbers(4)], "in_stride": [12, 0], "out": c.forward["out"].reshape(-1)[4:],
                           "batch_size": 1}, "out overlaps operand 1, but in-place use needs the same address.*separate memory"),
    ("forward", lambda c: {"filter": None}, "filter is NULL"),
    ("backward", lambda c: {"out_delta": None}, "out_delta is NULL"),
    ("backward", lambda c: {"in_delta": None}, "in_delta is NULL. Pass 2 descriptors; one with NULL data is skipped"),
    ("backward", lambda c: {"in_delta": [matrix(12, c.da)]}, "in_delta has 1 entries"),
    ("backward", lambda c: {"in_delta_stride": [0]}, "in_delta_stride has 1 entries"),
    ("backward", lambda c: {"in_delta": [matrix(12, np.zeros(23, "f4")), None]}, r"in_delta\[0\]\.data holds 92 bytes"),
    ("backward", lambda c: {"in_delta": [matrix(4, c.da), None]}, r"in_delta\[0\] is RowMajorMatrix size \(4, 1\), but this filter's"),
    ("backward", lambda c: {"in_delta": [matrix(12, c.da, flags=5), None]}, r"in_delta\[0\]\.flags is 5"),
    ("backward", lambda c: {"in_delta": [matrix(12, c.da, data_type=HALF), None]}, r"in_delta\[0\]\.data_type is Float16"),
    ("backward", lambda c: {"in_delta": [matrix(12, c.da), matrix(4, c.da.reshape(-1)[2:])]}, r"in_delta\[0\] and in_delta\[1\] share memory"),
    ("backward", lambda c: {"in_delta_stride": [3, 0]}, r"in_delta_stride\[0\] is 3, but one sample spans 12"),
    ("backward", lambda c: {"in_": None}, r"in\[0\] is NULL, but the derivative of Multiply needs its operands\. Pass the forward inputs"),
    ("backward", lambda c: {"in_": [numbers(24), None]}, r"in\[1\] is NULL, but the derivative of Multiply needs its operands"),
    ("backward", lambda c: {"out_delta": matrix(12, c.da)}, r"in_delta\[0\] overlaps out_delta, but Multiply cannot run backward in place"),
    ("backward", lambda c: {"out_delta": matrix(12, numbers(23))}, r"out_delta\.data holds 92 bytes"),
    ("backward", lambda c: {"out": numbers(23)}, "out holds 92 bytes"),
]  # fmt: skip


@pytest.mark.parametrize("case", ARITHMETIC, ids=lambda c: f"{c[0]}-{c[2][:24]}")
def test_arithmetic(
    case: tuple[str, Callable[[Arithmetic], dict[str, Any]], str], engine: str, observed: Observed
) -> None:
    direction, changes, pattern = case
    call = Arithmetic(observed)
    run = call.apply if direction == "forward" else call.apply_backward
    message = observed.failed(run(**changes(call)), pattern)
    assert message.startswith("BNNSArithmeticFilterApply")


def test_arithmetic_works_unchanged(engine: str, observed: Observed) -> None:
    call = Arithmetic(observed)
    assert call.apply() == 0 and call.apply_backward() == 0, openbnns.last_error()


def test_arithmetic_through_an_activation(engine: str, observed: Observed) -> None:
    call = Arithmetic(observed, activation=int(capi.BNNSActivationFunctionTanh))
    observed.failed(call.apply_backward(out=None), "out is NULL, but the fused activation")
    observed.log.clear()
    call = Arithmetic(observed, activation=int(capi.BNNSActivationFunctionAbs))
    observed.failed(call.apply_backward(), "the fused activation Abs cannot be trained", True)


@pytest.mark.parametrize("function", [capi.BNNSArithmeticAbs, capi.BNNSArithmeticAdd])
def test_the_generic_calls_do_not_drive_arithmetic(function: int, engine: str, observed: Observed) -> None:
    """Also not a filter of one operand, whose arguments look like those of BNNSFilterApply."""
    vector = descriptor("Vector", (4,))
    unary = function == capi.BNNSArithmeticAbs
    block: Any = (
        capi.BNNSArithmeticUnary(in_=vector, in_type=1, out=vector, out_type=1) if unary
        else capi.BNNSArithmeticBinary(in1=vector, in1_type=1, in2=vector, in2_type=1, out=vector, out_type=1)
    )  # fmt: skip
    p = capi.BNNSLayerParametersArithmetic(arithmetic_function=function, arithmetic_function_fields=block)
    f = capi.BNNSFilterCreateLayerArithmetic(p)
    x, y = numbers(4), observed.output(4)
    observed.failed(
        capi.BNNSFilterApply(f, x, y),
        "does not drive a filter of family arithmetic. Use BNNSArithmeticFilterApplyBatch",
    )
    observed.log.clear()
    observed.failed(capi.BNNSFilterApplyBatch(f, 1, x, 0, y, 0), "Use BNNSArithmeticFilterApplyBatch")
    observed.log.clear()
    d = descriptor("Vector", (4,), observed.output(4))
    got = capi.BNNSFilterApplyBackwardBatch(f, 1, x, 0, d, 0, y, 0, d, 0)
    observed.failed(got, "Use BNNSArithmeticFilterApplyBackwardBatch")


def test_arithmetic_wrong_python_types(engine: str, observed: Observed) -> None:
    call = Arithmetic(observed)
    for changes in ({"in_": 5}, {"in_": object()}, {"in_": ["a", "b"]}, {"in_stride": 3}, {"number_of_inputs": 2.0},
                    {"number_of_inputs": True}):  # fmt: skip
        with pytest.raises(TypeError, match="BNNSArithmeticFilterApplyBatch: "):
            call.apply(**changes)
    with pytest.raises(TypeError, match=r"in_delta\[0\] must be a BNNSNDArrayDescriptor, not"):
        call.apply_backward(in_delta=[numbers(24), None])


# ---------------------------------------------------------------------------------------------------------------------
# Direct calls, pointers and the message itself


def test_direct_activation(engine: str, observed: Observed) -> None:
    def run(batch: int = 2, in_stride: int = 0, **fields: Any) -> int:
        p = good_activation()
        p.i_desc.data, p.o_desc.data = numbers(2, 5), observed.output(2, 5)
        for name, value in fields.items():
            assign(name.replace("__", "."), value)(p)
        return capi.BNNSDirectApplyActivationBatch(p, None, batch, in_stride, 0)

    who = "BNNSDirectApplyActivationBatch: "
    for changes, pattern in (
        ({"i_desc__data": None}, r"i_desc\.data is NULL"),
        ({"o_desc__data": None}, r"o_desc\.data is NULL"),
        ({"i_desc__data": numbers(9)}, r"i_desc\.data holds 36 bytes"),
        ({"o_desc__data": bytes(40)}, r"o_desc\.data is read-only"),
        ({"batch": 3}, r"i_desc\.data holds"),
        ({"in_stride": -1}, r"in_stride is -1"),
        ({"activation__function": 99}, "which is no BNNSActivationFunction"),
    ):
        observed.log.clear()
        assert observed.failed(run(**changes), pattern).startswith(who)
    observed.log.clear()
    observed.failed(capi.BNNSDirectApplyActivationBatch(None, None, 1, 0, 0), "layer_params is NULL")
    with pytest.raises(TypeError, match="layer_params must be a BNNSLayerParametersActivation"):
        capi.BNNSDirectApplyActivationBatch(good_convolution(), None, 1, 0, 0)
    observed.outputs.clear()
    assert run() == 0


def test_get_pointer(observed: Observed) -> None:
    fc = capi.BNNSFilterCreateLayerFullyConnected(good_fully_connected())
    act = capi.BNNSFilterCreateLayerActivation(good_activation())
    p = good_activation()
    p.i_desc = p.o_desc = descriptor("ImageCHW", (2, 2, 3))
    p.activation = capi.BNNSActivation(function=capi.BNNSActivationFunctionPReLUPerChannel, alpha=0.5)
    prelu = capi.BNNSFilterCreateLayerActivation(p)
    for arguments, pattern in (
        ((None, 0), "filter is NULL"),
        ((fc, 0), "a filter of family fully connected has no alpha or beta to point to. Pass an activation filter"),
        ((act, 2), r"target is 2\. Use BNNSPointerSpecifierAlpha"),
        ((prelu, 1), "PReLUPerChannel has no beta. Ask for BNNSPointerSpecifierAlpha"),
    ):
        observed.log.clear()
        result = capi.BNNSGetPointer(*arguments)
        observed.failed(result.data, pattern)
    capi.BNNSFilterDestroy(act)
    observed.log.clear()
    observed.failed(capi.BNNSGetPointer(act, 0).data, "the filter has been destroyed")


def test_last_error_belongs_to_its_thread() -> None:
    capi.BNNSFilterApply(None, None, None)
    mine = openbnns.last_error()
    seen: list[str | None] = []

    def other() -> None:
        seen.append(openbnns.last_error())
        capi.BNNSFilterApplyBatch(None, 1, None, 0, None, 0)
        seen.append(openbnns.last_error())

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert seen[0] is None and str(seen[1]).startswith("BNNSFilterApplyBatch: ")
    assert openbnns.last_error() == mine


def test_a_success_keeps_the_last_error() -> None:
    capi.BNNSFilterApply(None, None, None)
    before = openbnns.last_error()
    assert capi.BNNSFilterCreateLayerActivation(good_activation()) is not None
    assert openbnns.last_error() == before


def test_an_allocation_that_is_too_large_fails_cleanly(
    engine: str, observed: Observed, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = Unary("fully connected", observed)

    def no_memory(*_: Any, **__: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(type(call.filter), "run_forward", no_memory)
    odd = np.zeros(8 * call.inputs + 1, np.uint8)[1:]  # unaligned, so that the general path runs
    observed.failed(call.apply(in_=odd), "there is not enough memory for this call. Use smaller sizes")


def test_a_result_of_parameters_alone_is_written_once(engine: str) -> None:
    """No operand has a batch axis, so neither has the result, whatever batch_size says: nothing behind it is touched."""
    vector = descriptor("Vector", (4,))
    p = capi.BNNSLayerParametersArithmetic(
        arithmetic_function=capi.BNNSArithmeticNegate,
        arithmetic_function_fields=capi.BNNSArithmeticUnary(
            in_=vector, in_type=capi.BNNSParameter, out=vector, out_type=capi.BNNSParameter
        ),
    )
    f = capi.BNNSFilterCreateLayerArithmetic(p)
    x, memory = numbers(4), np.full(40, FILL, np.float32)
    assert capi.BNNSArithmeticFilterApplyBatch(f, 5, 1, [x], [0], memory[:4], 0) == 0, openbnns.last_error()
    np.testing.assert_array_equal(memory[:4], -x)
    assert (memory[4:] == FILL).all()


@pytest.mark.parametrize("field", ["pad[0]", "x_padding", "x_dilation_stride", "y_stride"])
def test_the_largest_steps_do_no_harm(field: str, engine: str) -> None:
    """As far as the checks let it go: a result or a clean failure."""
    p = good_convolution()
    assign(field, 1 << 20)(p)
    p.o_desc.size[0] = p.o_desc.size[1] = 1
    f = capi.BNNSFilterCreateLayerConvolution(p)
    if f is not None:
        assert capi.BNNSFilterApply(f, numbers(4, 5, 6), np.zeros(6, np.float32)) in (0, -1)
