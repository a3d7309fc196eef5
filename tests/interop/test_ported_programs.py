"""Habits of programs written for BNNS in C and Swift that go beyond its documents: such code runs here, too."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import openbnns as bn
from bad_calls import refused
from openbnns import capi

Array = NDArray[Any]
FLOAT32 = capi.BNNSDataTypeFloat32


def image(w: int, h: int, c: int, data: Array | None = None, flags: int = 0) -> capi.BNNSNDArrayDescriptor:
    return capi.BNNSNDArrayDescriptor(
        layout=capi.BNNSDataLayoutImageCHW, size=(w, h, c), data=data, data_type=FLOAT32, flags=flags
    )


def vector(n: int, data: Array | None = None, flags: int = 0, stride: int = 0) -> capi.BNNSNDArrayDescriptor:
    return capi.BNNSNDArrayDescriptor(
        layout=capi.BNNSDataLayoutVector, size=(n,), data=data, data_type=FLOAT32, flags=flags, stride=(stride,)
    )


def pooling(function: int) -> Callable[[], Any]:
    def make() -> Any:
        p = capi.BNNSLayerParametersPooling(
            i_desc=image(6, 4, 3), o_desc=image(3, 2, 3), pooling_function=function,
            k_width=2, k_height=2, x_stride=2, y_stride=2,
        )  # fmt: skip
        return capi.BNNSFilterCreateLayerPooling(p)

    return make


def convolution() -> Any:
    weights = np.random.default_rng(5).standard_normal((3, 3, 3, 4), np.float32)
    w = capi.BNNSNDArrayDescriptor(
        layout=capi.BNNSDataLayoutConvolutionWeightsOIHW, size=(4, 3, 3, 3), data=weights, data_type=FLOAT32
    )
    return capi.BNNSFilterCreateLayerConvolution(
        capi.BNNSLayerParametersConvolution(i_desc=image(6, 4, 3), w_desc=w, o_desc=image(3, 2, 3))
    )


def activation() -> Any:
    return capi.BNNSFilterCreateLayerActivation(
        capi.BNNSLayerParametersActivation(
            i_desc=image(3, 2, 3), o_desc=image(3, 2, 3), activation=capi.BNNSActivationFunctionTanh
        )
    )


CASES: dict[str, tuple[Callable[[], Any], tuple[int, int, int]]] = {
    "max pooling": (pooling(capi.BNNSPoolingFunctionMax), (6, 4, 3)),
    "average pooling": (pooling(capi.BNNSPoolingFunctionAverageCountExcludePadding), (6, 4, 3)),
    "L2 pooling": (pooling(capi.BNNSPoolingFunctionL2Norm), (6, 4, 3)),
    "convolution": (convolution, (6, 4, 3)),
    "activation": (activation, (3, 2, 3)),
}


@pytest.mark.parametrize("name", CASES)
def test_a_vector_lists_the_gradient_of_an_image(name: str, engine: str) -> None:
    """A fully connected layer after an image makes its input gradient a vector, which goes on to the layer before it."""
    make, (w, h, c) = CASES[name]
    n, m, batch = w * h * c, 18, 3
    rng = np.random.default_rng(2)
    x = rng.standard_normal((batch, n)).astype(np.float32)
    y = np.zeros((batch, m), np.float32)
    f = make()
    assert capi.BNNSFilterApplyBatch(f, batch, x, 0, y, 0) == 0
    for step in (0, m + 2):  # packed samples, then some with gaps between them
        dy = rng.standard_normal(batch * (step or m)).astype(np.float32)
        start = rng.standard_normal((batch, n)).astype(np.float32)
        for flags in (0, 1):
            results = []
            for described in ("image", "vector"):
                dx = start.copy()
                arriving = image(3, 2, 3, dy) if described == "image" else vector(m, dy)
                wanted = image(w, h, c, dx, flags)
                status = capi.BNNSFilterApplyBackwardBatch(f, batch, x, 0, wanted, 0, y, 0, arriving, step, None, None)
                assert status == 0, bn.last_error()
                results.append(dx)
            assert not np.array_equal(results[0], start)
            assert np.array_equal(results[0], results[1])


def test_a_vector_that_does_not_list_the_image_is_refused() -> None:
    f = pooling(capi.BNNSPoolingFunctionMax)()
    x, dx = np.zeros(72, np.float32), np.full(72, 7, np.float32)
    for n, stride, message in ((17, 0, "out_delta is Vector size (17,)"), (18, 2, "out_delta is Vector size (18,)")):
        dy = vector(n, np.ones(64, np.float32), stride=stride)
        call = (f, 1, x, 0, image(6, 4, 3, dx), 0, None, 0, dy, 0, None, None, 0)
        refused(capi.BNNSPoolingFilterApplyBackwardBatch(*call), re.escape(message))
    assert (dx == 7).all()


def test_a_normalization_takes_vectors_of_gradients() -> None:
    p = capi.BNNSLayerParametersNormalization(i_desc=image(3, 2, 3), o_desc=image(3, 2, 3), epsilon=1e-5)
    f = capi.BNNSFilterCreateLayerNormalization(capi.BNNSBatchNorm, p)
    rng = np.random.default_rng(3)
    x, dy = (rng.standard_normal((4, 18)).astype(np.float32) for _ in range(2))
    results = []
    ways: list[Callable[[Array], capi.BNNSNDArrayDescriptor]] = [lambda a: image(3, 2, 3, a), lambda a: vector(18, a)]
    for described in ways:
        y, dx = np.empty_like(x), np.empty_like(x)
        assert capi.BNNSNormalizationFilterApplyBatch(f, 4, x, 0, y, 0, True) == 0
        arriving, wanted = described(dy.copy()), image(3, 2, 3, dx)
        assert capi.BNNSNormalizationFilterApplyBackwardBatch(f, 4, wanted, 0, y, 0, arriving, 0, None, None) == 0
        results.append(dx)
    assert np.array_equal(*results)


def test_layers_hand_vectors_of_gradients_on() -> None:
    """The backward pass of a network of digits: fully connected, then pooling, with descriptors as in Swift."""
    batch, rng = 2, np.random.default_rng(4)
    allocate = bn.BNNSNDArrayDescriptor.allocate
    features = allocate(
        initializing_from=rng.standard_normal(batch * 72).astype(np.float32),
        shape=bn.Shape.image_chw(6, 4, 3),
        batch_size=batch,
    )
    pooled = allocate(repeating=0.0, shape=bn.Shape.image_chw(3, 2, 3), batch_size=batch)
    scores_gradient = allocate(
        initializing_from=rng.standard_normal(batch * 5).astype(np.float32), shape=bn.Shape.vector(5), batch_size=batch
    )
    weights = rng.standard_normal((5, 18)).astype(np.float32)
    pool = bn.PoolingLayer(
        type=bn.PoolingType.average(count_includes_padding=True), input=features, output=pooled,
        activation=bn.ActivationFunction.identity(), kernel_size=(2, 2), stride=(2, 2),
        padding=bn.ConvolutionPadding.zero(),
    )  # fmt: skip
    dense = bn.FullyConnectedLayer(
        input=bn.Shape.vector(18), output=bn.Shape.vector(5), weights=weights,
        activation=bn.ActivationFunction.identity(),
    )  # fmt: skip
    pool.apply(batch_size=batch, input=features, output=pooled)
    scores = dense.apply(batch_size=batch, input=pooled)
    pooled_gradient = allocate(repeating=0.0, shape=bn.Shape.vector(18), batch_size=batch)
    features_gradient = allocate(repeating=0.0, shape=features.shape, batch_size=batch)
    dense.apply_backward(
        batch_size=batch, input=pooled, output=scores, output_gradient=scores_gradient,
        generating_input_gradient=pooled_gradient,
    )  # fmt: skip
    pool.apply_backward(
        batch_size=batch, input=features, output=pooled, output_gradient=pooled_gradient,
        generating_input_gradient=features_gradient,
    )  # fmt: skip
    dz = (scores_gradient.data.reshape(batch, 5) @ weights).reshape(batch, 3, 2, 3) / 4
    expected = dz.repeat(2, axis=2).repeat(2, axis=3)
    assert np.allclose(features_gradient.data.reshape(batch, 3, 4, 6), expected, atol=1e-6)


def test_optimizers_take_the_constants_of_c() -> None:
    """In Swift, these two arguments are C constants."""
    w = np.float32([2, -4])
    sgd = bn.SGDMomentumOptimizer(
        learning_rate=0.5,
        regularization_scale=0.5,
        regularization_function=capi.BNNSOptimizerRegularizationL2,
        sgd_momentum_variant=capi.BNNSSGDMomentumVariant2,
    )
    assert sgd.regularization_function is bn.RegularizationFunction.L2
    assert sgd.sgd_momentum_variant is bn.SGDMomentumVariant.VARIANT_2
    sgd.regularization_function = capi.BNNSOptimizerRegularizationL1
    sgd.step([w], [np.zeros(2, np.float32)])
    assert w.tolist() == [1.75, -3.75]
    with pytest.raises(bn.OptimizerStepError, match="regularization_function must be a RegularizationFunction such as"):
        bn.AdamOptimizer(learning_rate=0.1, regularization_function=capi.BNNSSGDMomentumVariant2)


def test_optimizers_start_with_the_learning_rates_of_swift() -> None:
    assert (bn.AdamOptimizer().learning_rate, bn.AdamWOptimizer().learning_rate) == (0.001, 0.001)
    assert bn.RMSPropOptimizer().learning_rate == 0.01
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'learning_rate'"):
        bn.SGDMomentumOptimizer()  # type: ignore[call-arg]


def test_descriptors_are_made_from_shapes() -> None:
    make: Any = bn.BNNSNDArrayDescriptor
    shape = bn.Shape.matrix_row_major(3, 2, stride=(1, 4))
    assert make(data_type=bn.DataType.FLOAT16, shape=shape) == shape.descriptor(capi.BNNSDataTypeFloat16)
    assert make(shape=bn.Shape.vector(2)) == bn.Shape.vector(2).descriptor()
    memory = np.zeros(8, np.int32)
    described = make(data=memory, shape=shape, flags=1)
    assert described.data is memory
    assert (described.data_type, described.flags) == (capi.BNNSDataTypeInt32, 1)
    assert list(described.stride) == [1, 4, 0, 0, 0, 0, 0, 0]
    with pytest.raises(TypeError, match=r"shape must be a Shape such as Shape\(\[3, 2\]\), not tuple"):
        make(shape=(3, 2))
    with pytest.raises(TypeError, match="shape says what size is"):
        make(shape=shape, size=(3, 2))
    with pytest.raises(TypeError, match="BNNS has no element type for float64"):
        make(shape=shape, data=np.zeros(8))
    with pytest.raises(TypeError, match=r"there is no field 'sizes'\. Did you mean size"):
        make(shape=shape, sizes=(3, 2))


def test_the_namespace_of_swift_is_the_module() -> None:
    with pytest.raises(AttributeError, match=r"Swift's BNNS.Shape is openbnns.Shape: import openbnns as BNNS$"):
        _ = bn.BNNS  # type: ignore[attr-defined]
