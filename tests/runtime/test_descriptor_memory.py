"""Descriptors with memory of their own, as in Swift."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import openbnns as bn
from openbnns import BNNSNDArrayDescriptor, DataType, InvalidDescriptorError, RandomGenerator, Shape, capi

VECTOR = Shape.vector(3)


def test_it_is_the_struct_of_the_c_face() -> None:
    assert BNNSNDArrayDescriptor is capi.BNNSNDArrayDescriptor
    d = BNNSNDArrayDescriptor.allocate(repeating=2.5, shape=VECTOR)
    assert d == capi.BNNSNDArrayDescriptor(
        layout=capi.BNNSDataLayoutVector, size=[3], data=d.data, data_type=capi.BNNSDataTypeFloat32
    )
    assert (d.copy().data is d.data) and (d.data == 2.5).all()


@pytest.mark.parametrize(
    ("values", "given", "stored"),
    [
        ([1, 2, 3, 4, 5, 6], None, np.float32), (np.arange(6.0), None, np.float32), (range(6), np.int8, np.int8),
        (np.arange(6, dtype=np.uint16), None, np.uint16), (np.arange(6).reshape(2, 3), DataType.FLOAT16, np.float16),
    ],
)  # fmt: skip
def test_initial_values(values: Any, given: Any, stored: Any) -> None:
    d = BNNSNDArrayDescriptor.allocate(initializing_from=values, shape=VECTOR, batch_size=2, scalar_type=given)
    assert d.data.dtype == stored and d.data_type == DataType.from_dtype(stored).value
    np.testing.assert_array_equal(d.data, np.asarray(values).reshape(-1))
    one, both = d.make_array(), d.make_array(np.float32, batch_size=2)
    assert one is not None and one.shape == (3,) and one.dtype == stored
    assert both is not None and both.shape == (6,) and both.dtype == np.float32
    both[:] = 0
    assert d.data[1] != 0  # a copy
    assert d.data_size == 3 * np.dtype(stored).itemsize


def test_shapes_with_gaps() -> None:
    shape = Shape.image_chw(3, 2, 2, stride=(1, 4, 10))
    d = BNNSNDArrayDescriptor.allocate_uninitialized(np.float32, shape, batch_size=3)
    assert d.data.size == 3 * 20 and list(d.stride)[:3] == [1, 4, 10] and d.shape == shape
    assert Shape.matrix_row_major(4, 5).descriptor().shape == Shape.matrix_row_major(4, 5)
    assert BNNSNDArrayDescriptor.allocate(repeating=0, shape=Shape.tensor_3d_first_major(2, 3, 4)).shape.is_packed


def test_random_values() -> None:
    shape = Shape.vector(4000)
    allocate = BNNSNDArrayDescriptor.allocate
    normal, again = (
        allocate(random_normal_using=RandomGenerator(seed=5), mean=3, standard_deviation=0.5, shape=shape).data
        for _ in range(2)
    )
    np.testing.assert_array_equal(normal, again)
    assert abs(normal.mean() - 3) < 0.05 and abs(normal.std() - 0.5) < 0.05
    uniform = allocate(random_uniform_using=RandomGenerator(seed=5), range=(2, 4), shape=shape).data
    assert uniform.min() >= 2 and uniform.max() <= 4 and abs(uniform.mean() - 3) < 0.1
    drawn = allocate(random_in=(-1, 0), using=np.random.default_rng(1), shape=shape).data
    assert drawn.min() >= -1 and drawn.max() <= 0 and drawn.dtype == np.float32


def test_a_layer_trains_on_them() -> None:
    x, dy = (
        BNNSNDArrayDescriptor.allocate(random_in=(-1, 1), shape=s, batch_size=4) for s in (VECTOR, Shape.vector(2))
    )
    w = BNNSNDArrayDescriptor.allocate(initializing_from=np.arange(6.0), shape=Shape.matrix_row_major(3, 2))
    y = BNNSNDArrayDescriptor.allocate_uninitialized(np.float32, Shape.vector(2), 4)
    dx, dw = (BNNSNDArrayDescriptor.allocate(repeating=9, shape=t.shape, batch_size=n) for t, n in ((x, 4), (w, 1)))
    layer = bn.FullyConnectedLayer(input=x, output=y, weights=w)
    layer.apply(batch_size=4, input=x, output=y)
    layer.apply_backward(
        batch_size=4, input=x, output=y, output_gradient=dy, generating_input_gradient=dx,
        generating_weights_gradient=dw, generating_bias_gradient=bn.skip,
    )  # fmt: skip
    a, b = x.data.reshape(4, 3), dy.data.reshape(4, 2)
    matrix = np.arange(6.0).reshape(2, 3)
    np.testing.assert_allclose(y.data.reshape(4, 2), a @ matrix.T, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(dx.data.reshape(4, 3), b @ matrix, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(dw.data.reshape(2, 3), b.T @ a, rtol=1e-5, atol=1e-5)
    dx.deallocate()
    assert dx.data is None and dx.make_array() is None and dx.data_size == 0


BAD: list[tuple[Callable[[], Any], str]] = [
    (lambda: BNNSNDArrayDescriptor.allocate(shape=VECTOR), r"give one of initializing_from, .*not 0 of them"),
    (lambda: BNNSNDArrayDescriptor.allocate(repeating=1, random_in=(0, 1), shape=VECTOR), "not 2 of them"),
    (lambda: BNNSNDArrayDescriptor.allocate(initializing_from=[1], shape=VECTOR), "has 1 elements, but the memory holds 3"),
    (lambda: BNNSNDArrayDescriptor.allocate(initializing_from="abc", shape=VECTOR), "numbers are needed"),
    (lambda: BNNSNDArrayDescriptor.allocate(repeating=1, shape=3), "shape must be a Shape"),  # type: ignore[arg-type]
    (lambda: BNNSNDArrayDescriptor.allocate(repeating=1, shape=VECTOR, batch_size=0), "batch_size is 0"),
    (lambda: BNNSNDArrayDescriptor.allocate(repeating=1, shape=VECTOR, scalar_type="x"), "scalar_type is 'x'"),
    (lambda: BNNSNDArrayDescriptor.allocate(random_in=3, shape=VECTOR), "must be a pair"),
    (lambda: BNNSNDArrayDescriptor.allocate(random_normal_using=3, shape=VECTOR), "takes a RandomGenerator, not int"),
    (lambda: BNNSNDArrayDescriptor.allocate_uninitialized(DataType.INT4, VECTOR), "several share a byte"),
    (lambda: BNNSNDArrayDescriptor.allocate_uninitialized(np.float32, Shape.vector(2**55)), r"no memory for \d+ elements"),
    (lambda: BNNSNDArrayDescriptor.allocate(repeating=1, shape=Shape.vector(2**62), batch_size=9), "no memory for"),
    (lambda: BNNSNDArrayDescriptor().shape, "layout is 0x0, which is not a BNNSDataLayout"),
    (lambda: VECTOR.descriptor(data=np.zeros(3)).make_array(), "holds float64 items"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), BAD)
def test_bad_arguments(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(InvalidDescriptorError, match=message) as caught:
        call()
    assert isinstance(caught.value, ValueError) and "BNNSNDArrayDescriptor." in str(caught.value)
