"""Helpers of the tests of bad calls: calls that work, a way to change one thing, and what every failure promises."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import openbnns
from helpers import descriptor, numbers
from openbnns import capi

Array = NDArray[Any]
FILL = 7.25


def refused(result: Any, pattern: str) -> None:
    """A call that gave -1 or NULL, with a message that says this."""
    message = str(openbnns.last_error())
    assert result is None or (isinstance(result, int) and result == -1), (result, message)
    assert re.search(pattern, message), f"{pattern!r} not in: {message}"


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
        assert re.match(r"BNNS\w+(: | does not drive | is for )", message), f"says who: {message}"
        assert message.endswith(".") and ". " in message, f"a finding and a cure: {message}"
        assert re.search(pattern, message), f"{pattern!r} not in: {message}"
        for memory in self.outputs:
            assert (memory == FILL).all(), f"written to, although: {message}"
        self.log.clear()
        return message


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
        i_desc=descriptor("ImageCHW", (4, 4, 6)),
        w_desc=descriptor("ConvolutionWeightsIOHrWr", (3, 2, 4, 6), numbers(6, 4, 2, 3)),
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


def assign(struct: Any, changes: dict[str, Any]) -> None:
    """Set fields of a struct by their paths: ``a.b.c`` or ``a.b[2].c``."""
    for path, value in changes.items():
        *parents, last = (part for name in path.split(".") for part in name.rstrip("]").split("["))
        target = struct
        for part in parents:
            target = target[int(part)] if part.isdecimal() else getattr(target, part)
        if last.isdecimal():
            target[int(last)] = value
        else:
            setattr(target, last, value)
