"""The Python face: arrays in, arrays out; fully connected layers, convolutions, descriptors, the life of a layer."""

import array
import gc
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import openbnns as ob
from helpers import numbers
from layer_problems import Array, close, dense, described, image_layer
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
from openbnns.gradients import family_module, subject_of
from openbnns.gradients._random import Random

CLIENT = BNNSFilterParameters(flags=BNNSFlagsUseClientPtr)

pytestmark = pytest.mark.usefixtures("engine")


# ---------------------------------------------------------------------------------------------------------------------
# Arrays of float64


@pytest.mark.parametrize("family", ["activation", "contraction", "convolution", "fully_connected", "fused", "gram"])
def test_the_reference_engine_takes_float64_arrays(family: str) -> None:
    """Results in float64 arrays are not rounded; those that a layer makes are float32, as on the native engine."""
    layer: Any = family_module(family).random_layer(Random(3, family))
    inputs = [argument.tensor for argument in subject_of(layer).inputs.values()]
    narrow = [numbers(2, *tensor.shape, seed=i) for i, tensor in enumerate(inputs)]
    wide = [x.astype(np.float64) for x in narrow]
    with ob.engine("reference"):
        rounded = layer.apply(*narrow)
        made = layer.apply(*wide)
        exact = layer.apply(*wide, output=np.empty(rounded.shape))
    assert made.dtype == np.float32 and exact.dtype == np.float64
    np.testing.assert_array_equal(made, rounded)
    np.testing.assert_array_equal(exact.astype(np.float32), rounded)
    assert (exact != rounded).any()


def test_training_on_float64_arrays() -> None:
    w, x, dy = (numbers(*shape).astype(np.float64) for shape in ((4, 6), (5, 6), (5, 4)))
    with ob.engine("reference"):
        layer = ob.FullyConnectedLayer(weights=w)
        y = layer.apply(x, np.empty((5, 4)))
        dx, dw = np.empty((5, 6)), np.empty((4, 6))
        layer.apply_backward(x, y, dy, dx, dw)
    np.testing.assert_allclose(y, x @ w.T, rtol=1e-13)
    np.testing.assert_allclose(dx, dy @ w, rtol=1e-13)
    np.testing.assert_allclose(dw, dy.T @ x, rtol=1e-13)
    close(layer.apply(x.astype(np.float32)), (x @ w.T).astype(np.float32))  # on the other engine, too


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
    with pytest.raises(ob.LayerApplyError, match=r"apply: batch_size cannot be inferred from input .*Pass batch_size"):
        layer.apply(described(shape, x.ctypes.data))
    with pytest.raises(ob.LayerApplyError, match=r"batch_size cannot be inferred"):
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


@pytest.mark.parametrize("described", [False, True])
def test_transposed_convolution(described: bool) -> None:
    """Weights (out, in, kh, kw) correlate; those of PyTorch, (in, out, kh, kw), are described by the layout IOHrWr."""
    v, x = numbers(3, 2, 3, 3), numbers(2, 3, 4, 5)
    w: Any = np.ascontiguousarray(v.transpose(1, 0, 2, 3)[:, :, ::-1, ::-1])
    if described:
        w = ob.Shape([3, 3, 2, 3], ob.capi.BNNSDataLayoutConvolutionWeightsIOHrWr).descriptor(data=v)
    layer = ob.ConvolutionLayer(
        type=ob.ConvolutionType.TRANSPOSED,
        input=x,
        weights=w,
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
    array = v if described else w
    assert dw.shape == array.shape
    assert np.vdot(dx, x) == pytest.approx(np.vdot(dy, y), rel=1e-4)
    assert np.vdot(dw, array) == pytest.approx(np.vdot(dy, y), rel=1e-4)
    given = np.empty_like(array)
    assert layer.apply_backward(x, y, dy, skip, given).weights is given
    close(given, dw)


def test_transposed_convolution_tells_weights_of_pytorch() -> None:
    with pytest.raises(
        ob.LayerCreationError, match=r"need \(out, in .*Weights \(in, out, kh, kw\) as in PyTorch .*IOHrWr"
    ):
        ob.ConvolutionLayer(
            type=ob.ConvolutionType.TRANSPOSED, input=numbers(2, 3, 4, 5), weights=numbers(3, 2, 3, 3),
            output=ob.Shape.image_chw(7, 6, 2),
        )  # fmt: skip


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


IMAGE = ob.Shape.image_chw(6, 5, 3)


@pytest.mark.parametrize(
    "make",
    [
        lambda: dense(activation=ob.ActivationFunction.tanh())[0],
        lambda: ob.ConvolutionLayer(input=IMAGE, weights=numbers(4, 3, 2, 3), bias=numbers(4)),
        lambda: ob.PoolingLayer(type=ob.PoolingType.max(), input=IMAGE, kernel_size=2, stride=2),
        lambda: ob.ActivationLayer(function=ob.ActivationFunction.gelu(), input=IMAGE),
        lambda: ob.PermuteLayer(input=IMAGE, permutation=[1, 2, 0]),
        lambda: ob.PaddingLayer(input=IMAGE, mode=ob.PaddingMode.reflect(), size=[(0, 0), (1, 2), (2, 1)]),
        lambda: ob.ReductionLayer(function=ob.ReductionFunction.sum(), input=numbers(1, 3, 5, 6), axes=(1, 2)),
    ],
    ids=["dense", "convolution", "pooling", "activation", "permute", "padding", "reduction"],
)
def test_a_sample_alone_is_a_batch_of_one(make: Any) -> None:
    layer = make()
    shape = (6,) if isinstance(layer, ob.FullyConnectedLayer) else (3, 5, 6)
    x = numbers(*shape)
    batch = layer.apply(x[None])
    y = layer.apply(x)
    np.testing.assert_array_equal(y, batch[0], strict=True)
    assert layer.apply(x, y) is y
    dy = numbers(*y.shape, seed=1)
    gradients = layer.apply_backward(input=x, output=y, output_gradient=dy)
    expected = layer.apply_backward(input=x[None], output=batch, output_gradient=dy[None])
    np.testing.assert_array_equal(gradients.input, expected.input[0], strict=True)
    for one, other in zip(gradients[1:], expected[1:], strict=True):
        np.testing.assert_array_equal(one, other)
    assert layer.apply(x, batch) is batch  # one is one
    with pytest.raises(ob.LayerApplyError):
        layer.apply(x, np.empty((2, *y.shape), np.float32))
    with pytest.raises(ob.LayerApplyError):
        layer.apply_backward(input=np.stack([x, x]), output=y, output_gradient=dy)


PAIR = ob.Shape([3, 4]), ob.Shape([4, 3])


@pytest.mark.parametrize(
    ("make", "shapes"),
    [
        (lambda: ob.BroadcastMatrixMultiplyLayer(input_a=PAIR[0], input_b=PAIR[1]), ((3, 4), (4, 3))),
        (
            lambda: ob.TensorContractionLayer(operation="a_ij, b_jk -> c_ki", input_a=PAIR[0], input_b=PAIR[1]),
            ((3, 4), (4, 3)),
        ),
        (
            lambda: ob.BinaryArithmeticLayer(
                input_a=PAIR[0], input_b=PAIR[0], function=ob.ArithmeticBinaryFunction.MULTIPLY
            ),
            ((3, 4), (3, 4)),
        ),
    ],
    ids=["product", "contraction", "arithmetic"],
)
def test_a_pair_of_samples_alone_is_a_batch_of_one(make: Any, shapes: Any) -> None:
    layer = make()
    a, b = (numbers(*shape, seed=seed) for seed, shape in enumerate(shapes))
    batch = layer.apply(a[None], b[None])
    y = layer.apply(a, b)
    np.testing.assert_array_equal(y, batch[0], strict=True)
    dy = numbers(*y.shape, seed=2)
    gradients = layer.apply_backward(input_a=a, input_b=b, output_gradient=dy)
    expected = layer.apply_backward(input_a=a[None], input_b=b[None], output_gradient=dy[None])
    for one, other in zip(gradients, expected, strict=True):
        np.testing.assert_array_equal(one, other[0], strict=True)
    assert layer.apply(np.stack([a, a]), np.stack([b, b])).shape == (2, *y.shape)
    with pytest.raises(ob.LayerApplyError):
        layer.apply(np.stack([a, a]), b)
