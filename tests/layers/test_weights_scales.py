"""Int8 weights with a scale for each output: exact sums, and results that are the same bits on every instruction set.

The oracle sums integers in NumPy, and does the rest in float64 in the order that the kernels promise.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import openbnns as bn
from openbnns.abi.enums import BNNSDataType
from openbnns.errors import BNNSError

Array = NDArray[Any]

IN_SCALE, OUT_SCALE = 3.0 / 128, 0.375  # of few bits, so that zero points times scales are exact


def described(shape: bn.Shape, scale: float, zero_point: int) -> Any:
    descriptor = shape.descriptor(BNNSDataType.BNNSDataTypeUInt8)
    descriptor.data_scale, descriptor.data_bias = scale, -scale * zero_point
    return descriptor


def factors(scales: Array) -> Array:
    return (np.float64(IN_SCALE) * scales.astype(np.float64)).astype(np.float32).astype(np.float64)


def finished(sums: Array, weight_sums: Array, zero: int, scales: Array, bias: Array | None) -> Array:
    """Float64 results; the axis of outputs is the second one of all arrays."""
    spread = (1, -1, *(1,) * (sums.ndim - 2))
    factor = factors(scales).reshape(spread)
    start = 0.0 if bias is None else bias.astype(np.float64).reshape(spread)
    return factor * sums + (start + factor * (-zero * weight_sums))


def as_bytes(values: Array, zero: int) -> Array:
    return np.clip(np.rint((values + OUT_SCALE * zero) / OUT_SCALE), 0, 255).astype(np.uint8)


def check(make: Any, x: Array, expected: Array, shape: bn.Shape, out_zero: int) -> None:
    """Float32 and bytes, with one thread and several."""
    for result in (None, described(shape, OUT_SCALE, out_zero)):
        wanted = expected.astype(np.float32) if result is None else as_bytes(expected, out_zero)
        layer = make(shape.descriptor() if result is None else result)
        results = []
        for threads in (1, 2, 3):
            bn.set_num_threads(threads)
            y = np.zeros_like(wanted)
            layer.apply(x, y)
            results.append(y)
        bn.set_num_threads(0)
        assert all(np.array_equal(y, wanted) for y in results), np.abs(results[0].astype(float) - wanted).max()
        assert wanted.dtype == np.float32 or len(np.unique(wanted)) > 10


LAYERS = [(1, 37, 11), (3, 64, 33), (7, 130, 257), (64, 129, 63), (129, 785, 101), (300, 65, 1), (1, 1, 5)]


@pytest.mark.parametrize(("zero", "out_zero"), [(0, 0), (131, 77)])
@pytest.mark.parametrize(("rows", "inputs", "outputs"), LAYERS)
def test_fully_connected(rows: int, inputs: int, outputs: int, zero: int, out_zero: int) -> None:
    if inputs == outputs == 1:
        return
    rng = np.random.default_rng(rows)
    x = rng.integers(0, 256, (rows, inputs), np.uint8)
    w = rng.integers(-127, 128, (outputs, inputs)).astype(np.int8)
    scales = rng.uniform(0.001, 0.1, outputs).astype(np.float32) / np.float32(np.sqrt(inputs))
    bias = rng.standard_normal(outputs, dtype=np.float32)
    sums = x.astype(np.int64) @ w.astype(np.int64).T
    expected = finished(sums, w.astype(np.int64).sum(1)[None], zero, scales, bias)

    def make(result: Any) -> bn.FullyConnectedLayer:
        given = described(bn.Shape.vector(inputs), IN_SCALE, zero)
        return bn.FullyConnectedLayer(input=given, output=result, weights=w, weights_scales=scales, bias=bias)

    if rows * outputs > 60:
        check(make, x, expected, bn.Shape.vector(outputs), out_zero)
    else:
        y = np.zeros((rows, outputs), np.float32)
        make(bn.Shape.vector(outputs).descriptor()).apply(x, y)
        assert np.array_equal(y, expected.astype(np.float32))


# channels, height, width, outputs, kernel, stride, padding, groups
CONVOLUTIONS = [
    (16, 9, 11, 24, (1, 1), 1, 0, 1),
    (16, 9, 11, 24, (3, 3), 1, 1, 1),
    (13, 12, 7, 17, (3, 3), 2, 1, 1),
    (3, 15, 17, 20, (7, 7), 2, 3, 1),
    (32, 8, 8, 48, (3, 3), 1, 1, 4),
    (24, 13, 33, 24, (3, 3), 1, 1, 24),
    (8, 6, 7, 16, (3, 3), 2, 1, 8),
    (64, 14, 14, 64, (3, 3), 1, 1, 1),
    (20, 5, 6, 33, (5, 2), 1, 0, 1),
    (40, 4, 4, 32, (4, 4), 1, 0, 1),
]


@pytest.mark.parametrize(("zero", "out_zero"), [(0, 0), (113, 50)])
@pytest.mark.parametrize(("c", "height", "width", "k", "kernel", "stride", "pad", "groups"), CONVOLUTIONS)
def test_convolution(
    c: int, height: int, width: int, k: int, kernel: tuple[int, int], stride: int, pad: int, groups: int, zero: int,
    out_zero: int,
) -> None:  # fmt: skip
    rng = np.random.default_rng(c + k)
    x = rng.integers(0, 256, (3, c, height, width), np.uint8)
    w = rng.integers(-127, 128, (k, c // groups, *kernel)).astype(np.int8)
    scales = rng.uniform(0.02, 0.1, k).astype(np.float32) / np.float32(np.sqrt(w[0].size))
    bias = rng.standard_normal(k, dtype=np.float32)
    padding = ((0, 0), (0, 0), (pad, pad), (pad, pad))
    image, inside = np.pad(x.astype(np.int64), padding), np.pad(np.ones_like(x, np.int64), padding)
    rows, columns = ((n + 2 * pad - m) // stride + 1 for n, m in zip((height, width), kernel, strict=True))
    sums, weight_sums = np.zeros((2, 3, k, rows, columns), np.int64)
    for o in range(k):
        first = o // (k // groups) * (c // groups)
        for y in range(kernel[0]):
            for z in range(kernel[1]):
                window = np.s_[
                    :, first : first + c // groups, y : y + rows * stride : stride, z : z + columns * stride : stride
                ]
                taps = w[o, :, y, z].astype(np.int64)
                sums[:, o] += np.einsum("nchw,c->nhw", image[window][:, :, :rows, :columns], taps)
                weight_sums[:, o] += np.einsum("nchw,c->nhw", inside[window][:, :, :rows, :columns], taps)
    expected = finished(sums, weight_sums, zero, scales, bias)

    def make(result: Any) -> bn.ConvolutionLayer:
        return bn.ConvolutionLayer(
            input=described(bn.Shape.image_chw(width, height, c), IN_SCALE, zero), output=result, weights=w,
            weights_scales=scales, bias=bias, stride=stride, group_count=groups,
            padding=bn.ConvolutionPadding.symmetric(x=pad, y=pad),
        )  # fmt: skip

    check(make, x, expected, bn.Shape.image_chw(columns, rows, k), out_zero)


def test_activation_comes_before_the_scaling_of_the_result() -> None:
    rng = np.random.default_rng(3)
    x = rng.integers(0, 256, (40, 50), np.uint8)
    w = rng.integers(-127, 128, (30, 50)).astype(np.int8)
    scales = rng.uniform(0.001, 0.01, 30).astype(np.float32)
    expected = np.maximum(
        finished(x.astype(np.int64) @ w.T.astype(np.int64), w.astype(np.int64).sum(1)[None], 9, scales, None), 0
    )
    given = described(bn.Shape.vector(50), IN_SCALE, 9)
    for result in (bn.Shape.vector(30).descriptor(), described(bn.Shape.vector(30), OUT_SCALE, 100)):
        layer = bn.FullyConnectedLayer(
            input=given,
            output=result,
            weights=w,
            weights_scales=scales,
            activation=bn.ActivationFunction.rectified_linear(),
        )
        y = np.zeros((40, 30), np.float32 if result.data_type == BNNSDataType.BNNSDataTypeFloat32 else np.uint8)
        layer.apply(x, y)
        wanted = expected.astype(np.float32)
        assert np.array_equal(y, wanted if y.dtype == np.float32 else as_bytes(wanted.astype(np.float64), 100))


def test_reference_engine_gives_the_same() -> None:
    rng = np.random.default_rng(4)
    x = rng.integers(0, 256, (2, 6, 7, 8), np.uint8)
    w = rng.integers(-127, 128, (5, 6, 3, 3)).astype(np.int8)
    layer = bn.ConvolutionLayer(
        input=described(bn.Shape.image_chw(8, 7, 6), IN_SCALE, 20), weights=w, weights_scales=rng.uniform(0.1, 1, 5),
    )  # fmt: skip
    native, exact = np.zeros((2, 5, 5, 6), np.float32), np.zeros((2, 5, 5, 6), np.float32)
    layer.apply(x, native)
    with bn.engine("reference"):
        layer.apply(x, exact)
    np.testing.assert_allclose(native, exact, rtol=1e-6, atol=1e-4)


BYTES = described(bn.Shape.vector(4), 0.5, 3)


@pytest.mark.parametrize(
    ("given", "weights", "scales", "told"),
    [
        (BYTES, np.ones((2, 4), np.int8), [1.0], r"weights_scales has shape \(1,\).*2 outputs.*Pass such a vector"),
        (BYTES, np.ones((2, 4), np.int8), [1.0, -1.0], r"one positive number for each"),
        (BYTES, np.ones((2, 4), np.int8), [1.0, np.nan], r"one positive number for each"),
        (BYTES, np.ones((2, 4), np.float32), [1.0, 1.0], r"weights of Int8.*weights are Float32.*multiply the weights"),
        (None, np.ones((2, 4), np.int8), [1.0, 1.0], r"input of Int8 or UInt8.*input is Float32"),
    ],
)
def test_what_is_refused(given: Any, weights: Array, scales: Any, told: str) -> None:
    with pytest.raises((BNNSError, TypeError, ValueError), match=told):
        bn.FullyConnectedLayer(input=given, weights=weights, weights_scales=scales)


def test_sums_that_could_overflow_are_refused() -> None:
    given = described(bn.Shape.vector(65537), 1.0, 0)
    with pytest.raises(BNNSError, match=r"at most 65536 products, but a sum has 65537"):
        bn.FullyConnectedLayer(input=given, weights=np.ones((1, 65537), np.int8), weights_scales=[1.0])


def test_transposed_convolutions_have_none() -> None:
    with pytest.raises(BNNSError, match=r"weights_scales is for ConvolutionType.STANDARD"):
        bn.ConvolutionLayer(
            type=bn.ConvolutionType.TRANSPOSED, input=bn.Shape.image_chw(4, 4, 1), weights=np.ones((1, 1, 2, 2), np.float32),
            weights_scales=[1.0],
        )  # fmt: skip
