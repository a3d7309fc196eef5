"""Single configurations that random search found wrong once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import openbnns as ob
from helpers import numbers
from openbnns import capi
from openbnns.capi import BNNSDataLayout

Array = NDArray[Any]
FIRST_MAJOR = BNNSDataLayout.BNNSDataLayout2DFirstMajor
LAST_MAJOR = BNNSDataLayout.BNNSDataLayout2DLastMajor


def softmax(x: Array, axis: int) -> Array:
    e = np.exp(x.astype(np.float64))
    return np.asarray(e / e.sum(axis, keepdims=True))


def descriptor(size: tuple[int, ...], layout: int, data: Array | None = None, flags: int = 0) -> Any:
    return capi.BNNSNDArrayDescriptor(
        flags=flags, layout=layout, size=size, data=data, data_type=capi.BNNSDataTypeFloat32
    )


@pytest.mark.parametrize(("layout", "memory_axis"), [(FIRST_MAJOR, 1), (LAST_MAJOR, 2)])
def test_softmax_after_arithmetic_runs_along_size_0(layout: int, memory_axis: int, engine: str) -> None:
    """size[0] is the slowest axis of a FirstMajor layout and the fastest of a LastMajor one."""
    size, shape = ((3, 5), (2, 3, 5)) if layout == FIRST_MAJOR else ((5, 3), (2, 3, 5))
    x, dy, y, dx = numbers(*shape), numbers(*shape) + 1, np.empty(shape, np.float32), np.empty(shape, np.float32)
    block = capi.BNNSArithmeticUnary(
        in_=descriptor(size, layout), in_type=capi.BNNSSample, out=descriptor(size, layout), out_type=capi.BNNSSample
    )
    filter = capi.BNNSFilterCreateLayerArithmetic(
        capi.BNNSLayerParametersArithmetic(
            arithmetic_function=capi.BNNSArithmeticNegate,
            arithmetic_function_fields=block,
            activation=capi.BNNSActivation(function=capi.BNNSActivationFunctionSoftmax),
        )
    )
    assert capi.BNNSArithmeticFilterApplyBatch(filter, 2, 1, [x], [0], y, 0) == 0
    delta = descriptor(size, layout, dx)
    assert (
        capi.BNNSArithmeticFilterApplyBackwardBatch(
            filter, 2, 1, [x], [0], [delta], [0], y, 0, descriptor(size, layout, dy), 0
        )
        == 0
    ), ob.last_error()
    expected = softmax(-x, memory_axis)
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)
    gradient = -expected * (dy - (dy * expected).sum(memory_axis, keepdims=True))
    np.testing.assert_allclose(dx, gradient, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(4, 6), (2, 3, 4), (2, 5, 3, 4), (2, 3, 2, 4, 3)])
def test_softmax_after_arithmetic_runs_along_the_last_axis_of_arrays(shape: tuple[int, ...]) -> None:
    x = numbers(*shape)
    layer = ob.BinaryArithmeticLayer(
        input_a=x,
        input_a_descriptor_type=ob.DescriptorType.SAMPLE,
        input_b=x,
        input_b_descriptor_type=ob.DescriptorType.SAMPLE,
        output=None,
        output_descriptor_type=ob.DescriptorType.SAMPLE,
        function=ob.ArithmeticBinaryFunction.ADD,
        activation=ob.ActivationFunction.softmax(),
    )
    np.testing.assert_allclose(layer.apply(input_a=x, input_b=x), softmax(2 * x, -1), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["Vector", "1DFirstMajor", "1DLastMajor"])
def test_a_gradient_may_use_another_name_of_the_same_layout(name: str) -> None:
    """The three layouts of rank 1 are one; only the name of the constant differs."""
    x, w, b, dy = numbers(2, 3), numbers(4, 3), numbers(4), numbers(2, 4)
    layer = capi.BNNSLayerParametersFullyConnected(
        i_desc=descriptor((3,), BNNSDataLayout.BNNSDataLayoutVector),
        w_desc=descriptor((3, 4), BNNSDataLayout.BNNSDataLayoutRowMajorMatrix, w),
        o_desc=descriptor((4,), BNNSDataLayout.BNNSDataLayoutVector),
        bias=descriptor((4,), BNNSDataLayout.BNNSDataLayoutVector, b),
    )
    filter = capi.BNNSFilterCreateLayerFullyConnected(layer)
    code, db, dx = BNNSDataLayout[f"BNNSDataLayout{name}"], np.ones(4, np.float32), np.empty((2, 3), np.float32)
    status = capi.BNNSFilterApplyBackwardBatch(
        filter, 2, x, 0, descriptor((3,), code, dx), 0, None, 0, descriptor((4,), code, dy), 0, None,
        descriptor((4,), code, db, flags=1),
    )  # fmt: skip
    assert status == 0, ob.last_error()
    np.testing.assert_allclose(db, 1 + dy.sum(0), rtol=1e-5)
    np.testing.assert_allclose(dx, dy @ w, rtol=1e-5, atol=1e-6)
