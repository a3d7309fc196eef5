"""Bad calls of arithmetic filters."""

# ruff: noqa: E501 - one line per case keeps the tables readable

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import openbnns
from bad_calls import Observed, good_arithmetic, numbers
from helpers import descriptor
from openbnns import capi
from openbnns.capi import BNNSDataType

HALF, INT8 = BNNSDataType.BNNSDataTypeFloat16, BNNSDataType.BNNSDataTypeInt8


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
    ("forward", lambda c: {"number_of_inputs": 1}, r"number_of_inputs is 1, but Multiply has 2 operands\. Pass 2"),
    ("forward", lambda c: {"number_of_inputs": 2**63}, "number_of_inputs is 9223372036854775808"),
    ("forward", lambda c: {"in_": [numbers(24)]}, r"in has 1 entry, but Multiply has 2 operands\. Pass 2"),
    ("forward", lambda c: {"in_stride": [0, 0, 0]}, "in_stride has 3 entries"),
    ("forward", lambda c: {"in_": [numbers(24), None]}, r"in\[1\] is NULL, but this call needs it"),
    ("forward", lambda c: {"in_": None}, r"in\[0\] is NULL, but this call needs it"),
    ("forward", lambda c: {"in_": [numbers(23), numbers(4)]}, r"in\[0\] holds 92 bytes, but the call touches 96"),
    ("forward", lambda c: {"in_": [numbers(24), numbers(3)]}, r"in\[1\] holds 12 bytes"),
    ("forward", lambda c: {"in_": [np.zeros(24, np.float16), numbers(4)]}, r"in\[0\] holds float16 items"),
    ("forward", lambda c: {"in_stride": [-2, 0]}, r"in_stride\[0\] is -2"),
    ("forward", lambda c: {"in_stride": [13, 0]}, r"in\[0\] holds"),
    ("forward", lambda c: {"out": np.zeros(23, "f4")}, "out holds 92 bytes"),
    ("forward", lambda c: {"out": bytes(96)}, "out is read-only"),
    ("forward", lambda c: {"out_stride": 5}, "out_stride is 5, but one sample spans 12"),
    ("forward", lambda c: {"filter": None}, "filter is NULL"),
    ("backward", lambda c: {"out_delta": None}, "out_delta is NULL"),
    ("backward", lambda c: {"in_delta": None}, "in_delta is NULL. Pass 2 descriptors; one without data is skipped"),
    ("backward", lambda c: {"in_delta": [matrix(12, c.da)]}, "in_delta has 1 entry"),
    ("backward", lambda c: {"in_delta_stride": [0]}, "in_delta_stride has 1 entry"),
    ("backward", lambda c: {"in_delta": [matrix(12, np.zeros(23, "f4")), None]}, r"in_delta\[0\]\.data holds 92 bytes"),
    ("backward", lambda c: {"in_delta": [matrix(4, c.da), None]}, r"in_delta\[0\] is RowMajorMatrix size \(4, 1\), but this filter's"),
    ("backward", lambda c: {"in_delta": [matrix(12, c.da, flags=5), None]}, r"in_delta\[0\]\.flags is 5"),
    ("backward", lambda c: {"in_delta": [matrix(12, c.da, data_type=HALF), None]}, r"in_delta\[0\]\.data_type is Float16"),
    ("backward", lambda c: {"in_delta_stride": [3, 0]}, r"in_delta_stride\[0\] is 3, but one sample spans 12"),
    ("backward", lambda c: {"in_": None}, r"in\[0\] is NULL, but the derivative of Multiply needs its operands\. Pass the forward inputs"),
    ("backward", lambda c: {"in_": [numbers(24), None]}, r"in\[1\] is NULL, but the derivative of Multiply needs its operands"),
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
    with pytest.raises(TypeError, match=r"in_delta\[0\] must be a BNNSNDArrayDescriptor or None, not"):
        call.apply_backward(in_delta=[numbers(24), None])
