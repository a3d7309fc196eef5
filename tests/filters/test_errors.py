"""Bad calls of filters with one input: a failure value, one log line of the right level, a message that helps, nothing written.

Each entry of the tables changes one thing about a call that works, and gives a pattern for what the message must say.
"""

# ruff: noqa: E501 - one line per case keeps the tables readable

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import openbnns
from bad_calls import (
    GOOD,
    Observed,
    assign,
    good_activation,
    good_convolution,
    good_fully_connected,
    numbers,
)
from helpers import descriptor, layout
from openbnns import capi
from openbnns.capi import BNNSDataType

Array = NDArray[Any]

FILL = 7.25

HALF, INT8 = BNNSDataType.BNNSDataTypeFloat16, BNNSDataType.BNNSDataTypeInt8


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
    ("in_", lambda c: np.zeros((2, c.inputs), np.float16), r": in holds float16 items, but its descriptor says Float32\. Pass an array of float32"),
    ("in_", lambda c: np.zeros((2, 2 * c.inputs), "f4")[:, ::2], r": in of shape .* is not C-contiguous \(strides"),
    ("in_", lambda c: np.zeros((2, c.inputs), ">f4"), r": in holds >f4 items, whose byte order is not that of this machine\. Convert"),
    ("out", lambda c: bytes(8 * c.outputs), r": out is read-only, but the call writes to it\. Pass a writable buffer"),
    ("in_", lambda c: 0, r": in is the address 0x0, which cannot be valid\. Pass the address of memory, or None"),
    ("in_", lambda c: 4095, r": in is the address 0xfff, which cannot be valid"),
    ("out", lambda c: -4, r": out is the address -0x4"),
    ("batch_size", lambda c: -1, r": batch_size is -1, but it must be 0 to .*Pass the number of samples"),
    ("batch_size", lambda c: 3, r": in holds \d+ bytes, but the call touches \d+ \(3 samples"),
    ("batch_size", lambda c: 2**46, "in holds"),
    ("batch_size", lambda c: 2**63, ": batch_size is 9223372036854775808, but it must be 0 to"),
    ("batch_size", lambda c: 2**64 - 1, ": batch_size is"),
    ("in_stride", lambda c: -1, r": in_stride is -1, but it must be 0 to .*from one sample to the next, or 0 for packed"),
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
    ("out_delta", lambda c: None, r": out_delta is NULL, but it is the gradient of the output, which is always needed"),
    ("out_delta", delta("out_delta", data=None), r": out_delta\.data is NULL\. Point it to the memory of sample 0\.$"),
    ("out_delta", delta("out_delta", data=lambda c: numbers(2 * c.outputs - 1)), r": out_delta\.data holds"),
    ("out_delta", delta("out_delta", size=(1,) * 3), r": out_delta is .* but this filter's tensor is .*A gradient has the shape"),
    ("out_delta", delta("out_delta", size=()), r": out_delta\.size\[0\] is 0"),
    ("out_delta", delta("out_delta", data_type=HALF), r": out_delta\.data_type is Float16, but training works on Float32\. Use"),
    ("out_delta", delta("out_delta", layout=0), r": out_delta\.layout is 0x0"),
    ("out_delta", delta("out_delta", layout=layout("8DFirstMajor"), size=(2,) * 8), r": out_delta is 8DFirstMajor"),
    ("out_delta", delta("out_delta", stride=(2**64 - 1,)), r"out_delta\.stride is .*reaches further|stride\[1\]"),
    ("in_delta", delta("in_delta", data=None), r": in_delta\.data is NULL\. Point .* or pass NULL for the descriptor to skip it"),
    ("in_delta", delta("in_delta", data=lambda c: np.zeros(2 * c.inputs - 1, "f4")), r": in_delta\.data holds"),
    ("in_delta", delta("in_delta", data=lambda c: bytes(8 * c.inputs)), r": in_delta\.data is read-only"),
    ("in_delta", delta("in_delta", data=lambda c: np.zeros((2, c.inputs), np.float16)), r": in_delta\.data holds float16 items"),
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
    ("out", lambda c: np.zeros((2, c.outputs), np.float16), r": out holds float16"),
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
    ("weights_delta", delta("weights_delta", layout=layout("2DFirstMajor")), r": weights_delta is 2DFirstMajor .*same layout and size"),
    ("weights_delta", delta("weights_delta", size=(1, 1, 1, 1)), r": weights_delta is .* but the parameter was created as"),
    ("weights_delta", delta("weights_delta", flags=9), r": weights_delta\.flags is 9"),
    ("weights_delta", delta("weights_delta", data=bytes(999)), r": weights_delta\.data is read-only"),
    ("weights_delta", delta("weights_delta", data_type=HALF), r": weights_delta\.data_type is Float16"),
    ("bias_delta", delta("bias_delta", size=(2,)), r": bias_delta is Vector size \(2,\)"),
    ("bias_delta", delta("bias_delta", data=np.zeros(2, "f4")), r": bias_delta\.data holds 8 bytes"),
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
# Direct calls, pointers and the message itself


def test_direct_activation(engine: str, observed: Observed) -> None:
    def run(batch: int = 2, in_stride: int = 0, **fields: Any) -> int:
        p = good_activation()
        p.i_desc.data, p.o_desc.data = numbers(2, 5), observed.output(2, 5)
        assign(p, {name.replace("__", "."): value for name, value in fields.items()})
        return capi.BNNSDirectApplyActivationBatch(p, None, batch, in_stride, 0)

    who = "BNNSDirectApplyActivationBatch: "
    for changes, pattern in (
        ({"i_desc__data": None}, r"i_desc\.data is NULL"),
        ({"o_desc__data": None}, r"o_desc\.data is NULL"),
        ({"i_desc__data": numbers(9)}, r"i_desc\.data holds 36 bytes"),
        ({"o_desc__data": bytes(40)}, r"o_desc\.data is read-only"),
        ({"batch": 3}, r"i_desc\.data holds"),
        ({"in_stride": -1}, r"in_stride is -1"),
        ({"activation__function": 99}, "which is not a BNNSActivationFunction"),
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


def test_a_success_clears_the_last_error() -> None:
    capi.BNNSFilterApply(None, None, None)
    assert "filter is NULL" in str(openbnns.last_error())
    assert capi.BNNSFilterCreateLayerActivation(good_activation()) is not None
    assert openbnns.last_error() is None


def test_an_allocation_that_is_too_large_fails_cleanly(
    engine: str, observed: Observed, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = Unary("fully connected", observed)

    def no_memory(*_: Any, **__: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(type(call.filter), "run", no_memory)
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
    assign(p, {field: 1 << 20})
    p.o_desc.size[0] = p.o_desc.size[1] = 1
    f = capi.BNNSFilterCreateLayerConvolution(p)
    if f is not None:
        assert capi.BNNSFilterApply(f, numbers(4, 5, 6), np.zeros(6, np.float32)) in (0, -1)
