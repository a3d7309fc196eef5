"""The Python face: arrays in, arrays out, exceptions that say what to do."""

import array
import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import openbnns as ob
from openbnns import skip
from openbnns.capi import (
    BNNSDataLayoutConvolutionWeightsIOHrWr,
    BNNSDataLayoutConvolutionWeightsOIHW,
    BNNSDataTypeFloat32,
    BNNSFilterApplyBatch,
    BNNSFilterDestroy,
    BNNSFilterParameters,
    BNNSFlagsUseClientPtr,
    BNNSNDArrayDescriptor,
    BNNSNDArrayFlagBackpropAccumulate,
)
from openbnns.filters._base import Filter
from openbnns.layers._base import BinaryLayer
from openbnns.layers._ports import Port

Array = np.ndarray[Any, Any]
CLIENT = BNNSFilterParameters(flags=BNNSFlagsUseClientPtr)


pytestmark = pytest.mark.usefixtures("engine")


def numbers(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


def close(got: Any, wanted: Any, tolerance: float = 1e-5) -> None:
    assert got.shape == np.shape(wanted)
    np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance)


def dense(inputs: int = 6, outputs: int = 4, **options: Any) -> tuple[ob.FullyConnectedLayer, Array, Array]:
    w, b = numbers(outputs, inputs), numbers(outputs, seed=1)
    return ob.FullyConnectedLayer(weights=w, bias=b, **options), w, b


# ---------------------------------------------------------------------------------------------------------------------
# Fully connected


def test_fully_connected_forward_of_a_batch_and_of_one_sample() -> None:
    layer, w, b = dense()
    x = numbers(5, 6)
    close(layer.apply(x), x @ w.T + b)
    close(layer.apply(x[0]), w @ x[0] + b)
    close(layer.apply(input=x, batch_size=5), x @ w.T + b)
    close(layer.apply(x[:1]), x[:1] @ w.T + b)
    assert layer.apply(x[:0]).shape == (0, 4)


def test_fully_connected_backward_gives_all_gradients() -> None:
    layer, w, _ = dense(activation=ob.ActivationFunction.tanh())
    x, dy = numbers(5, 6), numbers(5, 4, seed=2)
    y = layer.apply(x)
    dz = dy * (1 - y * y)
    gradients = layer.apply_backward(input=x, output=y, output_gradient=dy)
    close(gradients.input, dz @ w)
    close(gradients.weights, dz.T @ x)
    close(gradients.bias, dz.sum(0))
    dx, dw, db = layer.apply_backward(x[0], y[0], dy[0])
    close(dx, dz[0] @ w)
    close(dw, np.outer(dz[0], x[0]))
    close(db, dz[0])


def test_given_arrays_are_written_in_place_and_returned() -> None:
    layer, w, b = dense()
    x, dy = numbers(3, 6), numbers(3, 4)
    y = np.full((3, 4), np.nan, np.float32)
    assert layer.apply(x, y) is y
    close(y, x @ w.T + b)
    dx, dw, db = np.full((3, 6), 7, np.float32), np.full((4, 6), 7, np.float32), np.full(4, 7, np.float32)
    result = layer.apply_backward(x, y, dy, dx, dw, db)
    assert result.input is dx
    assert result.weights is dw
    assert result.bias is db
    close(dx, dy @ w)
    close(dw, dy.T @ x)
    close(db, dy.sum(0))


def test_accumulate_adds_to_given_arrays_only() -> None:
    layer, w, _ = dense()
    x, dy = numbers(3, 6), numbers(3, 4)
    y = layer.apply(x)
    dw = np.full((4, 6), 2, np.float32)
    result = layer.apply_backward(x, y, dy, generating_weights_gradient=dw, accumulate=True)
    close(dw, dy.T @ x + 2)
    close(result.input, dy @ w)
    close(result.bias, dy.sum(0))


def test_skip_means_not_computed() -> None:
    layer, w, _ = dense()
    x, dy = numbers(3, 6), numbers(3, 4)
    result = layer.apply_backward(x, None, dy, skip, skip)
    assert result.input is None
    assert result.weights is None
    close(result.bias, dy.sum(0))
    assert layer.apply_backward(x, None, dy, skip, skip, skip) == (None, None, None)
    close(layer.apply_backward(None, None, dy, generating_weights_gradient=skip).input, dy @ w)
    assert repr(skip) == "openbnns.skip"


def test_a_layer_without_bias_has_no_bias_gradient() -> None:
    layer = ob.FullyConnectedLayer(weights=numbers(4, 6))
    x = numbers(2, 6)
    assert layer.apply_backward(x, layer.apply(x), numbers(2, 4)).bias is None
    with pytest.raises(
        ob.LayerApplyError, match=r"generating_bias_gradient is given, but this layer has no gradient of bias"
    ):
        layer.apply_backward(x, None, numbers(2, 4), generating_bias_gradient=np.zeros(4, np.float32))


def test_parameters_are_copied_unless_the_client_pointer_flag_is_set() -> None:
    w, x = numbers(4, 6), numbers(2, 6)
    copying = ob.FullyConnectedLayer(weights=w)
    pointing = ob.FullyConnectedLayer(weights=w, filter_parameters=CLIENT)
    before = x @ w.T
    w *= 2
    close(copying.apply(x), before)
    close(pointing.apply(x), 2 * before)


def test_samples_may_have_any_shape_with_the_right_number_of_elements() -> None:
    w = numbers(5, 24)
    by_shape = ob.FullyConnectedLayer(input=ob.Shape.image_chw(4, 3, 2), output=ob.Shape.vector(5), weights=w)
    images = numbers(7, 2, 3, 4)
    close(by_shape.apply(images), images.reshape(7, 24) @ w.T)
    by_array = ob.FullyConnectedLayer(input=images, weights=w)
    close(by_array.apply(images), images.reshape(7, 24) @ w.T)
    by_sample = ob.FullyConnectedLayer(input=images[0], weights=w)
    close(by_sample.apply(images[0]), w @ images[0].ravel())


@pytest.mark.parametrize("shape", [(6,), (5, 6), (1, 6)])
def test_arrays_at_creation_are_one_sample_or_a_batch(shape: tuple[int, ...]) -> None:
    layer = ob.FullyConnectedLayer(
        input=numbers(*shape), output=np.zeros((*shape[:-1], 4), np.float32), weights=numbers(4, 6)
    )
    assert layer.apply(numbers(9, 6)).shape == (9, 4)


def test_strided_and_foreign_inputs() -> None:
    layer, w, b = dense()
    wide = numbers(3, 12)
    close(layer.apply(wide[:, ::2]), wide[:, ::2] @ w.T + b)
    frozen = numbers(3, 6)
    frozen.flags.writeable = False
    close(layer.apply(frozen), frozen @ w.T + b)
    close(layer.apply(array.array("f", range(6))), w @ np.arange(6) + b)
    close(layer.apply(memoryview(numbers(3, 6))), numbers(3, 6) @ w.T + b)
    out = memoryview(np.zeros((3, 4), np.float32))
    assert layer.apply(frozen, out) is out
    close(np.asarray(out), frozen @ w.T + b)


# ---------------------------------------------------------------------------------------------------------------------
# Descriptors


def described(shape: ob.Shape, data: Any, **options: Any) -> BNNSNDArrayDescriptor:
    descriptor = shape.descriptor(data=data)
    for name, value in options.items():
        setattr(descriptor, name, value)
    return descriptor


def test_descriptors_instead_of_arrays() -> None:
    w, b, x = numbers(4, 6), numbers(4), numbers(3, 6)
    y, dx, dw = np.zeros((3, 4), np.float32), np.zeros((3, 6), np.float32), np.ones((4, 6), np.float32)
    inputs, outputs, matrix = ob.Shape.vector(6), ob.Shape.vector(4), ob.Shape.matrix_row_major(6, 4)
    layer = ob.FullyConnectedLayer(
        input=inputs, output=outputs, weights=described(matrix, w), bias=described(outputs, b)
    )
    target = described(outputs, y)
    assert layer.apply(described(inputs, x), target, batch_size=3) is target
    close(y, x @ w.T + b)

    accumulate = BNNSNDArrayFlagBackpropAccumulate
    result = layer.apply_backward(
        batch_size=3,
        input=described(inputs, x),
        output=target,
        output_gradient=described(outputs, y),
        generating_input_gradient=described(inputs, dx),
        generating_weights_gradient=described(matrix, dw, flags=accumulate),
    )
    close(dx, y @ w)
    close(dw, y.T @ x + 1)
    close(result.bias, y.sum(0))


def test_batch_size_follows_from_the_memory_of_descriptors() -> None:
    layer, w, b = dense()
    x, y = numbers(3, 6), np.zeros((3, 4), np.float32)
    shape = ob.Shape.vector(6)
    close(layer.apply(described(shape, x)), x @ w.T + b)
    layer.apply(described(shape, x), described(ob.Shape.vector(4), y))
    close(y, x @ w.T + b)
    close(layer.apply(described(shape, x.ctypes.data), batch_size=2), (x @ w.T + b)[:2])
    with pytest.raises(ob.LayerApplyError, match=r"apply: batch_size cannot be told from input .*Pass batch_size"):
        layer.apply(described(shape, x.ctypes.data))
    with pytest.raises(ob.LayerApplyError, match=r"batch_size cannot be told"):
        layer.apply(described(shape, x.ravel()[:15].copy()))


def test_descriptors_with_gaps() -> None:
    rows = ob.Shape.vector(6, stride=2)
    w = numbers(4, 6)
    layer = ob.FullyConnectedLayer(
        input=rows, weights=described(ob.Shape.matrix_row_major(6, 4), w), output=ob.Shape.vector(4)
    )
    memory = numbers(2, 12)
    close(layer.apply(described(rows, memory), batch_size=2), memory[:, ::2] @ w.T)
    with pytest.raises(
        ob.LayerApplyError, match=r"input: this tensor was described as Vector .* which no plain array holds"
    ):
        layer.apply(memory)


def test_bad_descriptors() -> None:
    layer, *_ = dense()
    with pytest.raises(ob.InvalidDescriptorError, match=r"FullyConnectedLayer.apply: input.data is None"):
        layer.apply(ob.Shape.vector(6).descriptor())
    with pytest.raises(ob.InvalidDescriptorError, match=r"input is a Shape, which has no data"):
        layer.apply(ob.Shape.vector(6))
    with pytest.raises(ob.LayerApplyError, match=r"input is Vector size \(7,\).*created with Vector size \(6,\)"):
        layer.apply(described(ob.Shape.vector(7), numbers(7)))
    integers = described(ob.Shape.vector(6), np.zeros(6, np.int32), data_type=ob.DataType.INT32.value)
    with pytest.raises(ob.LayerApplyError, match=r"input.data_type is Int32, but the layer was created with Float32"):
        layer.apply(integers)
    with pytest.raises(ob.InvalidDescriptorError, match=r"weights.data is None. A parameter needs values"):
        ob.FullyConnectedLayer(
            input=ob.Shape.vector(6), output=ob.Shape.vector(4), weights=ob.Shape.matrix_row_major(6, 4).descriptor()
        )


# ---------------------------------------------------------------------------------------------------------------------
# Convolution


def correlate(
    x: Array,
    w: Array,
    *,
    stride: tuple[int, int] = (1, 1),
    edges: tuple[int, int, int, int] = (0, 0, 0, 0),
    groups: int = 1,
) -> Array:
    """Naive convolution; stride is (x, y), edges are left, right, up, down."""
    left, right, up, down = edges
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (up, down), (left, right)))
    outputs, per_group, kh, kw = w.shape
    height, width = (padded.shape[2] - kh) // stride[1] + 1, (padded.shape[3] - kw) // stride[0] + 1
    y = np.zeros((len(x), outputs, height, width))
    for o in range(outputs):
        first = o // (outputs // groups) * per_group
        for row in range(height):
            for column in range(width):
                top, side = row * stride[1], column * stride[0]
                window = padded[:, first : first + per_group, top : top + kh, side : side + kw]
                y[:, o, row, column] = (window * w[o]).sum((1, 2, 3))
    return y


def test_convolution_stride_is_horizontal_first_and_output_is_inferred() -> None:
    w, b, x = numbers(4, 3, 3, 2), numbers(4), numbers(2, 3, 7, 9)
    layer = ob.ConvolutionLayer(
        type=ob.ConvolutionType.STANDARD,
        input=ob.Shape.image_chw(9, 7, 3),
        weights=w,
        bias=b,
        padding=ob.ConvolutionPadding.asymmetric(left=1, right=0, up=2, down=1),
        stride=(2, 1),
    )
    expected = correlate(x, w, stride=(2, 1), edges=(1, 0, 2, 1)) + b[:, None, None]
    close(layer.apply(x), expected)
    close(layer.apply(x[0]), expected[0])
    assert layer.apply(x).dtype == np.float32


def test_convolution_backward_agrees_with_its_adjoint() -> None:
    w, x = numbers(4, 2, 3, 3), numbers(2, 4, 6, 5)
    layer = ob.ConvolutionLayer(
        input=x,
        weights=w,
        bias=np.zeros(4, np.float32),
        group_count=2,
        padding=ob.ConvolutionPadding.symmetric(x=1, y=1),
    )
    y = layer.apply(x)
    close(y, correlate(x, w, edges=(1, 1, 1, 1), groups=2))
    dy = numbers(*y.shape, seed=3)
    dx, dw, db = layer.apply_backward(x, y, dy)
    assert dx.shape == x.shape
    assert dw.shape == w.shape
    # The map is linear in x and in w: <dy, f(x)> = <dx, x> = <dw, w>.
    assert np.vdot(dx, x) == pytest.approx(np.vdot(dy, y), rel=1e-4)
    assert np.vdot(dw, w) == pytest.approx(np.vdot(dy, y), rel=1e-4)
    close(db, dy.sum((0, 2, 3)), 1e-4)


def test_transposed_convolution_takes_weights_in_out_first() -> None:
    v, x = numbers(3, 2, 3, 3), numbers(2, 3, 4, 5)  # (in, out, kh, kw)
    layer = ob.ConvolutionLayer(
        type=ob.ConvolutionType.TRANSPOSED,
        input=x,
        weights=v,
        stride=2,
        padding=ob.ConvolutionPadding.symmetric(x=1, y=1),
    )
    scattered = np.zeros((2, 2, 9, 11))
    for row in range(4):
        for column in range(5):
            scattered[:, :, 2 * row : 2 * row + 3, 2 * column : 2 * column + 3] += np.einsum(
                "ni,iohw->nohw", x[:, :, row, column].astype(np.float64), v
            )
    y = layer.apply(x)
    close(y, scattered[:, :, 1:-1, 1:-1])
    dy = numbers(*y.shape, seed=3)
    dx, dw, _ = layer.apply_backward(x, y, dy)
    assert dw.shape == v.shape
    assert np.vdot(dx, x) == pytest.approx(np.vdot(dy, y), rel=1e-4)
    assert np.vdot(dw, v) == pytest.approx(np.vdot(dy, y), rel=1e-4)
    given = np.empty_like(v)
    assert layer.apply_backward(x, y, dy, skip, given).weights is given
    close(given, dw)


def test_kernels_in_a_descriptor() -> None:
    w, x = numbers(4, 3, 2, 2), numbers(1, 3, 5, 5)
    straight = BNNSNDArrayDescriptor(
        layout=BNNSDataLayoutConvolutionWeightsOIHW, size=[2, 2, 3, 4], data=w, data_type=BNNSDataTypeFloat32
    )
    turned = np.ascontiguousarray(w.transpose(1, 0, 2, 3)[:, :, ::-1, ::-1])
    rotated = BNNSNDArrayDescriptor(
        layout=BNNSDataLayoutConvolutionWeightsIOHrWr, size=[2, 2, 4, 3], data=turned, data_type=BNNSDataTypeFloat32
    )
    for weights in (straight, rotated):
        layer = ob.ConvolutionLayer(input=ob.Shape.image_chw(5, 5, 3), weights=weights)
        close(layer.apply(x), correlate(x, w))


# ---------------------------------------------------------------------------------------------------------------------
# Activation


def softmax(x: Array, axes: tuple[int, ...]) -> Array:
    e = np.exp(x.astype(np.float64) - x.max(axes, keepdims=True))
    return e / e.sum(axes, keepdims=True)


@pytest.mark.parametrize(
    ("axes", "numpy_axes"), [(None, (-1,)), ([-1], (-1,)), ([0], (1,)), ([0, 1, 2], (1, 2, 3)), ([0, 2], (1, 3))]
)
def test_axes_of_arrays_are_numpy_axes_of_one_sample(axes: list[int] | None, numpy_axes: tuple[int, ...]) -> None:
    x = numbers(2, 3, 4, 5)
    layer = ob.ActivationLayer(function=ob.ActivationFunction.softmax(), input=x, axes=axes)
    y = layer.apply(x)
    close(y, softmax(x, numpy_axes))
    dy = numbers(*x.shape, seed=2)
    close(layer.apply_backward(x, y, dy).input, y * (dy - (dy * y).sum(numpy_axes, keepdims=True)))


@pytest.mark.parametrize(
    ("axes", "numpy_axes"), [(None, (3,)), ([0], (3,)), ([2], (1,)), ([3], (0,)), ([0, 1], (2, 3))]
)
def test_axes_of_shapes_are_those_of_size(axes: list[int] | None, numpy_axes: tuple[int, ...]) -> None:
    x = numbers(2, 3, 4, 5)
    layer = ob.ActivationLayer(function=ob.ActivationFunction.softmax(), input=ob.Shape.image_chw(5, 4, 3), axes=axes)
    close(layer.apply(x), softmax(x, numpy_axes))


def test_default_axis_of_arrays_with_many_axes_is_the_last() -> None:
    x = numbers(2, 3, 2, 2, 4)
    layer = ob.ActivationLayer(function=ob.ActivationFunction.softmax(), input=x)
    close(layer.apply(x), softmax(x, (-1,)))


def test_alpha_is_trained_and_can_be_edited() -> None:
    x, dy = numbers(4, 5), numbers(4, 5, seed=2)
    layer = ob.ActivationLayer(
        function=ob.ActivationFunction.leaky_rectified_linear(alpha=0.25), input=ob.Shape.vector(5)
    )
    y = layer.apply(x)
    dx, alpha = layer.apply_backward(x, y, dy)
    close(dx, np.where(x >= 0, dy, 0.25 * dy))
    close(alpha, [(dy * x)[x < 0].sum()], 1e-4)
    assert layer.apply_backward(x, y, dy, generating_alpha_gradient=skip).alpha is None
    assert layer.alpha is not None
    layer.alpha[...] = 0.5
    close(layer.apply(x), np.where(x >= 0, x, 0.5 * x))

    per_channel = ob.ActivationLayer(
        function=ob.ActivationFunction.prelu_per_channel(), input=ob.Shape.image_chw(4, 4, 3)
    )
    assert per_channel.alpha is not None
    assert per_channel.alpha.shape == (3,)
    assert per_channel.beta is None
    images = numbers(2, 3, 4, 4)
    gradient = per_channel.apply_backward(images, None, images, skip).alpha
    close(gradient, np.where(images < 0, images * images, 0).sum((0, 2, 3)), 1e-4)


def test_functions_without_alpha_refuse_its_gradient() -> None:
    layer = ob.ActivationLayer(function=ob.ActivationFunction.tanh(), input=ob.Shape.vector(3))
    x = numbers(2, 3)
    with pytest.raises(ob.LayerApplyError, match=r"generating_alpha_gradient is given, but .* no gradient of alpha"):
        layer.apply_backward(x, None, x, skip, np.zeros(1, np.float32))
    with pytest.raises(ValueError, match=r"ActivationLayer.apply_backward: input and output are both None"):
        layer.apply_backward(None, None, x)


def test_activation_works_in_place() -> None:
    x = numbers(4, 5)
    expected = np.tanh(x)
    layer = ob.ActivationLayer(function=ob.ActivationFunction.tanh(), input=ob.Shape.vector(5))
    assert layer.apply(x, x) is x
    close(x, expected)


def test_apply_activation_and_conversion() -> None:
    x = numbers(2, 6)
    close(ob.apply_activation(ob.ActivationFunction.sigmoid(), x), 1 / (1 + np.exp(-x)))
    close(ob.apply_activation(ob.ActivationFunction.softmax(), x, axes=[0]), softmax(x, (1,)))
    half = np.empty((2, 6), np.float16)
    assert ob.apply_activation(ob.ActivationFunction.identity(), x, half) is half
    np.testing.assert_array_equal(half, x.astype(np.float16))
    close(ob.apply_activation(ob.ActivationFunction.identity(), half, np.empty((2, 6), np.float32)), half)
    descriptor = described(ob.Shape.vector(6), x)
    close(ob.apply_activation(ob.ActivationFunction.abs(), descriptor, batch_size=2), np.abs(x))
    with pytest.raises(ob.LayerApplyError, match=r"apply_activation: input is Vector size \(6,\)"):
        ob.apply_activation(ob.ActivationFunction.abs(), x, np.empty((2, 5), np.float32))


# ---------------------------------------------------------------------------------------------------------------------
# Arithmetic

ROLE = ob.DescriptorType


def test_unary_arithmetic() -> None:
    x = np.abs(numbers(3, 4)) + 0.5
    layer = ob.UnaryArithmeticLayer(input=x, output=x, function=ob.ArithmeticUnaryFunction.LOG)
    y = layer.apply(x)
    close(y, np.log(x))
    close(layer.apply_backward(x, y, x).input, np.ones((3, 4)))
    close(layer.apply(x[0]), np.log(x[0]))


def test_binary_arithmetic_with_a_parameter() -> None:
    a, b = numbers(5, 3, 4), numbers(4)
    layer = ob.BinaryArithmeticLayer(
        input_a=a,
        input_a_descriptor_type=ROLE.SAMPLE,
        input_b=b,
        input_b_descriptor_type=ROLE.PARAMETER,
        output=a,
        function=ob.ArithmeticBinaryFunction.MULTIPLY,
        activation=ob.ActivationFunction.tanh(),
    )
    y = layer.apply(input_a=a, input_b=b)
    close(y, np.tanh(a * b))
    dy = numbers(5, 3, 4, seed=2)
    dz = dy * (1 - y * y)
    da, db = layer.apply_backward(input_a=a, input_b=b, output=y, output_gradient=dy)
    close(da, dz * b)
    close(db, (dz * a).sum((0, 1)), 1e-4)
    given = np.full(4, 3, np.float32)
    result = layer.apply_backward(a, b, y, dy, skip, given, accumulate=True)
    assert result.input_a is None
    close(given, (dz * a).sum((0, 1)) + 3, 1e-4)


def test_operands_given_at_creation_may_be_left_out_of_calls() -> None:
    b = numbers(4)
    layer = ob.BinaryArithmeticLayer(
        input_a=ob.Shape.vector(4),
        input_b=b,
        input_b_descriptor_type=ROLE.CONSTANT,
        function=ob.ArithmeticBinaryFunction.ADD,
    )
    a = numbers(3, 4)
    close(layer.apply(a), a + b)
    b += 1
    close(layer.apply(a), a + b)
    result = layer.apply_backward(a, b, None, a)
    close(result.input_a, a)
    assert result.input_b is None
    with pytest.raises(
        ob.LayerApplyError, match=r"generating_input_b_gradient is given, but .* no gradient of input b"
    ):
        layer.apply_backward(a, b, None, a, skip, np.zeros(4, np.float32))


def test_broadcast_images_and_inferred_output() -> None:
    a, b = numbers(2, 3, 4, 5), numbers(3, 1, 1)
    layer = ob.BinaryArithmeticLayer(
        input_a=ob.Shape.image_chw(5, 4, 3),
        input_b=ob.Shape.image_chw(1, 1, 3),
        input_b_descriptor_type=ROLE.PARAMETER,
        function=ob.ArithmeticBinaryFunction.SUBTRACT,
    )
    y = layer.apply(a, b)
    close(y, a - b)
    close(layer.apply_backward(a, b, y, a).input_b, -a.sum((0, 2, 3)).reshape(3, 1, 1), 1e-4)


def test_ternary_arithmetic() -> None:
    a, b, c = numbers(3, 4), numbers(3, 4, seed=1), numbers(4)
    layer = ob.TernaryArithmeticLayer(
        input_a=a, input_b=b, input_c=c, input_c_descriptor_type=ROLE.PARAMETER, output=a,
        function=ob.ArithmeticTernaryFunction.MULTIPLY_ADD,
    )  # fmt: skip
    y = layer.apply(a, b, c)
    close(y, a * b + c)
    da, db, dc = layer.apply_backward(a, b, c, y, a)
    close(da, a * b)
    close(db, a * a)
    close(dc, a.sum(0))


def test_arithmetic_of_one_tensor_with_itself() -> None:
    x = numbers(3, 4)
    layer = ob.BinaryArithmeticLayer(input_a=x, input_b=x, output=x, function=ob.ArithmeticBinaryFunction.MULTIPLY)
    close(layer.apply(x, x), x * x)
    da, db = layer.apply_backward(x, x, None, np.ones_like(x))
    close(da + db, 2 * x)


@pytest.mark.parametrize("rank", range(1, 9))
def test_arithmetic_of_every_rank(rank: int) -> None:
    sample = ob.Shape([2] * rank)
    x = numbers(3, *[2] * rank)
    layer = ob.UnaryArithmeticLayer(input=sample, function=ob.ArithmeticUnaryFunction.SQUARE)
    close(layer.apply(x), x * x)


# ---------------------------------------------------------------------------------------------------------------------
# Two-input base


class DotFilter(Filter):
    """y = a b, elementwise, to drive the base class."""

    family = "dot"

    def apply_two_input_batch(self, caller: Any, *arguments: Any) -> None:
        self.require_alive(caller)
        _, a, _, b, _, y, _ = arguments
        np.multiply(a, b, out=y)

    def apply_backward_two_input_batch(self, caller: Any, *arguments: Any) -> None:
        self.require_alive(caller)
        _, a, _, da, _, b, _, db, _, _, _, dy, _, _, _ = arguments
        if da is not None:
            da.data[...] = dy.data * b
        if db is not None:
            db.data[...] = dy.data * a


class DotLayer(BinaryLayer):
    def __init__(self) -> None:
        port = Port(ob.Shape.vector(4).descriptor())
        self._input_a = self._input_b = self._output = port
        self._summary = {"input_a": port}
        self._create(lambda who: DotFilter(None, who), None)


def test_binary_layer() -> None:
    layer, a, b = DotLayer(), numbers(3, 4), numbers(3, 4, seed=1)
    y = layer.apply(a, b)
    close(y, a * b)
    result = layer.apply_backward(a, b, y, a, generating_input_b_gradient=skip)
    close(result.input_a, a * b)
    assert result.input_b is None
    layer.destroy()
    with pytest.raises(ob.LayerApplyError, match=r"DotLayer.apply: the filter has been destroyed"):
        layer.apply(a, b)


# ---------------------------------------------------------------------------------------------------------------------
# Life of a layer


def test_a_layer_owns_its_filter() -> None:
    layer, w, b = dense()
    x, y = numbers(2, 6), np.zeros((2, 4), np.float32)
    assert BNNSFilterApplyBatch(layer.bnns_filter, 2, x, 6, y, 4) == 0
    close(y, x @ w.T + b)
    with layer as same:
        assert same is layer
    assert not layer.bnns_filter.alive
    with pytest.raises(ob.LayerApplyError, match=r"FullyConnectedLayer.apply: the filter has been destroyed"):
        layer.apply(x)
    with pytest.raises(ob.LayerApplyError, match=r"FullyConnectedLayer.apply_backward: the filter has been destroyed"):
        layer.apply_backward(x, y, y)
    assert repr(layer).endswith("(destroyed)")


def test_a_filter_destroyed_through_the_c_face_is_not_used() -> None:
    layer, *_ = dense()
    BNNSFilterDestroy(layer.bnns_filter)
    with pytest.raises(ob.LayerApplyError, match=r"has been destroyed"):
        layer.apply(numbers(2, 6))


def test_filters_go_with_their_layers() -> None:
    layer, *_ = dense()
    layer.apply(numbers(2, 6))
    gone = weakref.ref(layer.bnns_filter)
    del layer
    gc.collect()
    assert gone() is None


def test_repr_tells_shapes() -> None:
    layer, *_ = dense(activation=ob.ActivationFunction.tanh())
    assert repr(layer) == (
        "FullyConnectedLayer(input=Shape.vector(6), output=Shape.vector(4), weights=Shape.matrix_row_major(6, 4), "
        "bias=Shape.vector(4), activation=ActivationFunction.tanh())"
    )
    assert repr(image_layer(stride=(2, 1))) == (
        "ConvolutionLayer(input=Shape.image_chw(8, 8, 3), output=Shape.image_chw(3, 6, 4), "
        "weights=Shape.convolution_weights_oihw(3, 3, 3, 4), stride=(2, 1))"
    )


def test_one_layer_in_several_threads() -> None:
    layer, w, b = dense()
    failures = []

    def work(seed: int) -> None:
        x, dy = numbers(8, 6, seed=seed), numbers(8, 4, seed=seed)
        dx, dw = np.empty((8, 6), np.float32), np.empty((4, 6), np.float32)
        for _ in range(50):
            y = layer.apply(x)
            layer.apply_backward(x, y, dy, dx, dw)
            if not (np.allclose(y, x @ w.T + b, atol=1e-5) and np.allclose(dx, dy @ w, atol=1e-5)):
                failures.append(seed)
            if not np.allclose(dw, dy.T @ x, atol=1e-4):
                failures.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_inputs_are_left_alone_and_results_repeat() -> None:
    layer, *_ = dense(activation=ob.ActivationFunction.sigmoid())
    x, dy = numbers(4, 6), numbers(4, 4)
    kept = x.copy(), dy.copy()
    y = layer.apply(x)
    first, second = layer.apply_backward(x, y, dy), layer.apply_backward(x, y, dy)
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(x, kept[0])
    np.testing.assert_array_equal(dy, kept[1])


# ---------------------------------------------------------------------------------------------------------------------
# Messages


def image_layer(**options: Any) -> ob.ConvolutionLayer:
    arguments = {"input": ob.Shape.image_chw(8, 8, 3), "weights": numbers(4, 3, 3, 3)} | options
    return ob.ConvolutionLayer(**arguments)


def frozen(shape: tuple[int, ...]) -> Array:
    a = np.zeros(shape, np.float32)
    a.flags.writeable = False
    return a


X, DY = numbers(5, 6), numbers(5, 4)
APPLY_MISTAKES: list[tuple[Callable[[ob.FullyConnectedLayer], Any], type[Exception], str]] = [
    (
        lambda layer: layer.apply(X.astype(np.float64)),
        TypeError,
        r"^FullyConnectedLayer\.apply: input is float64, but this layer takes float32 here\. .*\.astype\(np\.float32\)",
    ),
    (lambda layer: layer.apply([1.0] * 6), TypeError, r"apply: input is of type list.*np\.asarray\(x, np\.float32\)"),
    (lambda layer: layer.apply(None), ValueError, r"apply: input is None, but it is needed"),
    (
        lambda layer: layer.apply(numbers(5, 7)),
        ValueError,
        r"apply: input has shape \(5, 7\), but this layer expects \(6,\), or \(N, 6\) with a batch",
    ),
    (lambda layer: layer.apply(numbers(5, 2, 3)), ValueError, r"input has shape \(5, 2, 3\).*\.reshape\(\(5, 6\)\)"),
    (
        lambda layer: layer.apply(X, np.zeros((5, 3), np.float32)),
        ValueError,
        r"output has shape \(5, 3\).*expects \(4,\)",
    ),
    (
        lambda layer: layer.apply(X, np.zeros((5, 4))),
        TypeError,
        r"output is float64, but this layer writes float32 here\. Pass np\.empty\(\(5, 4\), np\.float32\)",
    ),
    (
        lambda layer: layer.apply(X, np.zeros((4, 5), np.float32).T),
        ValueError,
        r"output of shape \(5, 4\) is not C-contiguous \(strides \(4, 20\)\), so results would be lost in a copy",
    ),
    (lambda layer: layer.apply(X, frozen((5, 4))), ValueError, r"output is read-only, but the call writes to it"),
    (
        lambda layer: layer.apply(X, np.zeros((3, 4), np.float32)),
        ValueError,
        r"output holds 3 sample\(s\), but input holds 5",
    ),
    (lambda layer: layer.apply(X, batch_size=4), ValueError, r"input holds 5 sample\(s\), but batch_size is 4"),
    (lambda layer: layer.apply(X, batch_size=-1), ValueError, r"batch_size is -1"),
    (lambda layer: layer.apply(X, batch_size=5.0), TypeError, r"batch_size must be an integer, not float"),
    (lambda layer: layer.apply(X, batch_size=True), TypeError, r"batch_size must be an integer, not bool"),
    (
        lambda layer: layer.apply_backward(X, DY),
        ValueError,
        r"^FullyConnectedLayer\.apply_backward: output_gradient is None",
    ),
    (
        lambda layer: layer.apply_backward(X, None, DY),
        ValueError,
        r"apply_backward: output is None, but the fused activation is differentiated from the forward output",
    ),
    (
        lambda layer: layer.apply_backward(None, DY, DY),
        ValueError,
        r"input is None, but the weights gradient needs the forward input\. Pass it, or no generating_weights_gradient",
    ),
    (
        lambda layer: layer.apply_backward(X, DY, DY, generating_weights_gradient=np.zeros((6, 4), np.float32)),
        ValueError,
        r"generating_weights_gradient has shape \(6, 4\), but this layer expects \(4, 6\)",
    ),
    (
        lambda layer: layer.apply_backward(X, DY, DY, generating_weights_gradient=np.zeros((6, 4), np.float32).T),
        ValueError,
        r"generating_weights_gradient of shape \(4, 6\) is not C-contiguous",
    ),
    (
        lambda layer: layer.apply_backward(X, DY, DY, generating_bias_gradient=frozen((4,))),
        ValueError,
        r"generating_bias_gradient is read-only",
    ),
    (
        lambda layer: layer.apply_backward(X, DY, DY.astype(np.float16)),
        TypeError,
        r"output_gradient is float16, but this layer takes float32",
    ),
]


@pytest.mark.parametrize(("mistake", "kind", "message"), APPLY_MISTAKES, ids=[m[2][:60] for m in APPLY_MISTAKES])
def test_mistakes_in_calls(mistake: Callable[[Any], Any], kind: type[Exception], message: str) -> None:
    layer, *_ = dense(activation=ob.ActivationFunction.tanh())
    with pytest.raises(ob.LayerApplyError, match=message) as caught:
        mistake(layer)
    assert isinstance(caught.value, kind)


def test_outputs_that_collide() -> None:
    layer, *_ = dense(inputs=4, outputs=4)
    x = numbers(4, 4)
    shared = np.zeros((4, 4), np.float32)
    with pytest.raises(
        ob.LayerApplyError, match=r"generating_input_gradient and generating_weights_gradient share memory"
    ):
        layer.apply_backward(x, None, x, shared, shared)


F = ob.ArithmeticBinaryFunction
CREATION_MISTAKES: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (
        lambda: ob.FullyConnectedLayer(weights=np.zeros((4, 6))),
        TypeError,
        r"^FullyConnectedLayer: weights is float64, but layers compute in float32\. .*\.astype\(np\.float32\)",
    ),
    (lambda: ob.FullyConnectedLayer(weights=numbers(6)), ValueError, r"weights has shape \(6,\).*2 axes \(out, in\)"),
    (
        lambda: ob.FullyConnectedLayer(input=ob.Shape.vector(7), weights=numbers(4, 6)),
        ValueError,
        r"FullyConnectedLayer: weights has shape \(4, 6\), but an input of 7 .* need \(out, in\) = \(4, 7\)",
    ),
    (
        lambda: ob.FullyConnectedLayer(weights=numbers(4, 6), bias=numbers(5)),
        ValueError,
        r"FullyConnectedLayer: bias is Vector size \(5,\).*size 4",
    ),
    (
        lambda: ob.FullyConnectedLayer(weights=numbers(6, 4).T, filter_parameters=CLIENT),
        ValueError,
        r"weights of shape \(4, 6\) is not C-contiguous .* BNNSFlagsUseClientPtr",
    ),
    (
        lambda: ob.FullyConnectedLayer(weights=numbers(4, 6), activation="tanh"),
        TypeError,
        r"must be an ActivationFunction such as ActivationFunction\.tanh\(\), not str",
    ),
    (
        lambda: ob.FullyConnectedLayer(weights=numbers(4, 6), filter_parameters={}),
        TypeError,
        r"filter_parameters must be a BNNSFilterParameters or None, not dict",
    ),
    (
        lambda: ob.FullyConnectedLayer(weights=numbers(4, 6), activation=ob.ActivationFunction.gumbel(1.0, 0.0)),
        ValueError,
        r"Gumbel, which cannot be fused into another layer\. .* with ActivationLayer",
    ),
    (
        lambda: ob.FullyConnectedLayer(
            weights=described(ob.Shape.matrix_row_major(6, 4), numbers(4, 6)), output=ob.Shape.vector(4)
        ),
        ValueError,
        r"input is left out, but only weights in an array tell its size",
    ),
    (lambda: image_layer(input=numbers(8, 8)), ValueError, r"^ConvolutionLayer: input has shape \(8, 8\).*3 axes"),
    (
        lambda: image_layer(weights=numbers(4, 2, 3, 3)),
        ValueError,
        r"weights has shape \(4, 2, 3, 3\).*= \(4, 3, kh, kw\)",
    ),
    (lambda: image_layer(weights=numbers(4, 3, 9, 9)), ValueError, r"8 x 8 pixels .*leaves no output .* 9 x 9"),
    (
        lambda: image_layer(output=ob.Shape.image_chw(9, 6, 4)),
        ValueError,
        r"ConvolutionLayer: output width is 9, but input width 8 .* gives at most 6",
    ),
    (lambda: image_layer(group_count=2), ValueError, r"ConvolutionLayer: group_count is 2, which does not divide"),
    (lambda: image_layer(stride=(1, 1, 1)), ValueError, r"stride is \(1, 1, 1\)\. Pass \(x, y\), horizontal first"),
    (lambda: image_layer(stride=(0, 1)), ValueError, r"stride is 0\. It must be at least 1"),
    (lambda: image_layer(dilation_stride=1.5), TypeError, r"dilation_stride must be an integer, not float"),
    (
        lambda: ob.ActivationLayer(function=ob.ActivationFunction.softmax(), input=numbers(2, 3), axes=[1]),
        ValueError,
        r"axes has 1, but there are -1 to 0 \(axes of one sample, without the batch\)",
    ),
    (
        lambda: ob.ActivationLayer(function=ob.ActivationFunction.softmax(), input=ob.Shape.vector(3), axes=[2]),
        ValueError,
        r"axes has 2, but there are 0 to 1",
    ),
    (
        lambda: ob.ActivationLayer(
            function=ob.ActivationFunction.softmax(), input=ob.Shape.vector(3), output=ob.Shape.vector(4)
        ),
        ValueError,
        r"ActivationLayer: input is Vector size \(3,\) Float32 and output is Vector size \(4,\)",
    ),
    (
        lambda: ob.BinaryArithmeticLayer(input_a=ob.Shape.vector(3), input_b=ob.Shape.vector(4), function=F.ADD),
        ValueError,
        r"BinaryArithmeticLayer: operands of size \(3,\), \(4,\) do not broadcast",
    ),
    (
        lambda: ob.BinaryArithmeticLayer(
            input_a=ob.Shape.vector(3), input_b=ob.Shape.vector(2), output=ob.Shape.vector(3), function=F.ADD
        ),
        ValueError,
        r"BinaryArithmeticLayer: input_b\.size\[0\] is 2, but output\.size\[0\] is 3",
    ),
    (
        lambda: ob.BinaryArithmeticLayer(
            input_a=ob.Shape.vector(3), input_b=ob.Shape.vector(3), function=ob.ArithmeticUnaryFunction.ABS
        ),
        TypeError,
        r"function must be an ArithmeticBinaryFunction, not ArithmeticUnaryFunction",
    ),
    (
        lambda: ob.UnaryArithmeticLayer(
            input=ob.Shape.vector(3), input_descriptor_type=1, function=ob.ArithmeticUnaryFunction.ABS
        ),
        TypeError,
        r"input_descriptor_type must be a DescriptorType, not int",
    ),
    (
        lambda: ob.BinaryArithmeticLayer(
            input_a=ob.Shape.vector(3),
            input_b=ob.Shape.vector(3),
            output_descriptor_type=ROLE.PARAMETER,
            function=F.ADD,
        ),
        ValueError,
        r"output_descriptor_type is not BNNSSample",
    ),
]


@pytest.mark.parametrize(("mistake", "kind", "message"), CREATION_MISTAKES, ids=[m[2][:60] for m in CREATION_MISTAKES])
def test_mistakes_at_creation(mistake: Callable[[], Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(ob.LayerCreationError, match=message) as caught:
        mistake()
    assert isinstance(caught.value, kind)


def test_mistakes_with_operands() -> None:
    layer = ob.BinaryArithmeticLayer(input_a=ob.Shape.vector(3), input_b=ob.Shape.vector(3), function=F.MULTIPLY)
    a = numbers(2, 3)
    with pytest.raises(ob.LayerApplyError, match=r"BinaryArithmeticLayer.apply: input_b is None, but it is needed"):
        layer.apply(a)
    with pytest.raises(
        ob.LayerApplyError, match=r"apply_backward: input_b is None, but the derivative of Multiply needs"
    ):
        layer.apply_backward(a, None, None, a)
    with pytest.raises(ob.LayerApplyError, match=r"apply: input_b holds 1 sample\(s\), but input_a holds 2"):
        layer.apply(a, a[0])
    shared = np.zeros((2, 3), np.float32)
    with pytest.raises(
        ob.LayerApplyError, match=r"generating_input_a_gradient and generating_input_b_gradient share memory"
    ):
        layer.apply_backward(a, a.copy(), None, a, shared, shared)
