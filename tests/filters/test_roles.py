"""Arithmetic without a Sample operand: one result, and one sum of gradients, whatever the batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cases._base import created, succeed
from helpers import assert_within
from openbnns import capi

CHANNELS, PLANE = 6, 20


def tensor(channels: int, data: Any = None) -> capi.BNNSNDArrayDescriptor:
    return capi.BNNSNDArrayDescriptor(
        layout=capi.BNNSDataLayoutImageCHW, size=[4, 5, channels], data=data, data_type=capi.BNNSDataTypeFloat32
    )


def among_nan(values: Any) -> Any:
    """The values where nothing but NaN follows, which a call would read if it went on to a second sample."""
    memory = np.full(values.size * 8, np.nan, np.float32)
    memory[: values.size] = values.ravel()
    return memory[: values.size]


@pytest.mark.parametrize("batch", [1, 2, 7])
@pytest.mark.parametrize("other", ["BNNSConstant", "BNNSParameter"])
def test_a_batch_of_parameters_and_constants_is_computed_once(other: str, batch: int, engine: str) -> None:
    rng = np.random.default_rng(batch)
    a, dy = (among_nan(rng.standard_normal((CHANNELS, PLANE)).astype(np.float32)) for _ in range(2))
    b = among_nan((2.0 + rng.random(PLANE)).astype(np.float32))
    y, da = np.zeros_like(a), np.zeros_like(a)
    operands = capi.BNNSArithmeticBinary(
        in1=tensor(CHANNELS), in1_type=capi.BNNSParameter, in2=tensor(1), in2_type=getattr(capi, other),
        out=tensor(CHANNELS), out_type=capi.BNNSParameter,
    )  # fmt: skip
    parameters = capi.BNNSLayerParametersArithmetic(
        arithmetic_function=capi.BNNSArithmeticDivide, arithmetic_function_fields=operands
    )
    f = created(capi.BNNSFilterCreateLayerArithmetic(parameters, None))
    succeed(capi.BNNSArithmeticFilterApplyBatch(f, batch, 2, [a, b], [0, 0], y, 0))
    wanted = [tensor(CHANNELS, da), tensor(1)]
    arriving = tensor(CHANNELS, dy)
    succeed(capi.BNNSArithmeticFilterApplyBackwardBatch(f, batch, 2, [a, b], [0, 0], wanted, [0, 0], y, 0, arriving, 0))
    divisor = b.reshape(1, PLANE).astype(np.float64)
    for actual, numerator in ((y, a), (da, dy)):
        expected = (numerator.reshape(CHANNELS, PLANE) / divisor).ravel()
        assert_within(actual, expected, 1e-6 * (1.0 + np.abs(expected)), "quotient")
