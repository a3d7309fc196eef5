"""Tensors larger than the caches: results that are streamed to memory of any alignment, for any number of threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import openbnns as bn
from openbnns import capi

N, C, H, W = 3, 17, 145, 151  # 1.1 million elements, no size a multiple of a vector
FULL, PER_CHANNEL, ROW, COLUMN = (C, H, W), (C, 1, 1), (1, 1, W), (C, H, 1)


def placed(shape: tuple[int, ...], offset: int, values: Any = np.nan) -> Any:
    """A float32 array that begins ``offset`` floats behind a cache line, with guards around it."""
    count = int(np.prod(shape))
    room = np.full(count + 64, -77.0, np.float32)
    start = (-room.ctypes.data // 4) % 16 + offset
    array = room[start : start + count].reshape(shape)
    array[...] = values
    return array


def untouched(array: Any) -> bool:
    """True if the memory around a placed array is as it was."""
    room = array.base if array.base.base is None else array.base.base
    start = (array.ctypes.data - room.ctypes.data) // 4
    return bool((room[:start] == -77).all() and (room[start + array.size :] == -77).all())


def described(shape: tuple[int, ...], data: Any = None, *, adds: bool = False) -> capi.BNNSNDArrayDescriptor:
    return capi.BNNSNDArrayDescriptor(
        layout=capi.BNNSDataLayoutImageCHW, size=list(shape[::-1]), data=data, flags=int(adds),
        data_type=capi.BNNSDataTypeFloat32,
    )  # fmt: skip


FORMULAS: dict[str, tuple[Callable[..., Any], tuple[Callable[..., Any], ...]]] = {
    "Add": (lambda a, b: a + b, (lambda a, b, d: d, lambda a, b, d: d)),
    "Subtract": (lambda a, b: a - b, (lambda a, b, d: d, lambda a, b, d: -d)),
    "Multiply": (lambda a, b: a * b, (lambda a, b, d: d * b, lambda a, b, d: d * a)),
}


def with_threads(count: int, run: Callable[[], Any]) -> Any:
    before = bn.get_num_threads()
    bn.set_num_threads(count)
    try:
        return run()
    finally:
        bn.set_num_threads(before)


@pytest.mark.parametrize("adds", [False, True])
@pytest.mark.parametrize("second", [FULL, PER_CHANNEL, ROW, COLUMN], ids=["full", "per-channel", "row", "column"])
@pytest.mark.parametrize("function", list(FORMULAS))
def test_arithmetic(function: str, second: tuple[int, ...], adds: bool) -> None:
    rng = np.random.default_rng(1)
    batched = second == FULL
    a = placed((N, *FULL), 3, rng.standard_normal((N, *FULL)))
    b = placed((N, *second) if batched else second, 5, rng.standard_normal((N, *second) if batched else second))
    dy = placed((N, *FULL), 0, rng.standard_normal((N, *FULL)))
    fields = capi.BNNSArithmeticBinary(
        in1=described(FULL), in1_type=capi.BNNSSample, in2=described(second),
        in2_type=capi.BNNSSample if batched else capi.BNNSParameter, out=described(FULL), out_type=capi.BNNSSample,
    )  # fmt: skip
    layer = capi.BNNSLayerParametersArithmetic(
        arithmetic_function=capi.BNNSArithmeticFunction[f"BNNSArithmetic{function}"], arithmetic_function_fields=fields
    )
    filter = capi.BNNSFilterCreateLayerArithmetic(layer)
    assert filter is not None, bn.last_error()

    def run() -> list[Any]:
        y, da, db = placed((N, *FULL), 7), placed((N, *FULL), 9, 2.0), placed(b.shape, 11, 3.0)
        assert capi.BNNSArithmeticFilterApplyBatch(filter, N, 2, [a, b], [0, 0], y, 0) == 0, bn.last_error()
        status = capi.BNNSArithmeticFilterApplyBackwardBatch(
            filter, N, 2, [a, b], [0, 0], [described(FULL, da, adds=adds), described(second, db, adds=adds)], [0, 0], y,
            0, described(FULL, dy), 0,
        )  # fmt: skip
        assert status == 0, bn.last_error()
        assert all(untouched(t) for t in (y, da, db))
        return [y, da, db]

    value, slopes = FORMULAS[function]
    results = with_threads(2, run)
    np.testing.assert_array_equal(results[0], value(a, b))
    old = (2.0, 3.0) if adds else (0.0, 0.0)
    np.testing.assert_array_equal(results[1], np.float32(old[0]) + slopes[0](a, b, dy) if adds else slopes[0](a, b, dy))
    db = slopes[1](np.float64(a), np.float64(b), np.float64(dy))
    if not batched:
        axes = tuple(i for i, n in enumerate((1, *second)) if n == 1)
        db = np.float32(db).astype(np.float64).sum(axes, keepdims=True)[0]
    np.testing.assert_allclose(results[2], db + old[1], rtol=1e-6, atol=1e-4 if not batched else 1e-6)
    for threads in (1, 3):
        for one, other in zip(results, with_threads(threads, run), strict=True):
            np.testing.assert_array_equal(one, other)
    capi.BNNSFilterDestroy(filter)


@pytest.mark.parametrize("shape", [(1_050_001,), (1031, 1021)])
def test_arithmetic_with_an_activation(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(2)
    batch, size = (1, shape[0]) if len(shape) == 1 else shape
    a, b = (placed((batch, size), offset, rng.standard_normal((batch, size))) for offset in (1, 14))
    dy = placed((batch, size), 6, rng.standard_normal((batch, size)))

    def vector(data: Any = None) -> capi.BNNSNDArrayDescriptor:
        return capi.BNNSNDArrayDescriptor(
            layout=capi.BNNSDataLayoutVector, size=[size], data=data, data_type=capi.BNNSDataTypeFloat32
        )

    fields = capi.BNNSArithmeticBinary(
        in1=vector(), in1_type=capi.BNNSSample, in2=vector(), in2_type=capi.BNNSSample, out=vector(),
        out_type=capi.BNNSSample,
    )  # fmt: skip
    activation = capi.BNNSActivation(function=capi.BNNSActivationFunctionRectifiedLinear)
    layer = capi.BNNSLayerParametersArithmetic(
        arithmetic_function=capi.BNNSArithmeticMultiply, arithmetic_function_fields=fields, activation=activation
    )
    filter = capi.BNNSFilterCreateLayerArithmetic(layer)
    assert filter is not None, bn.last_error()
    y, da, db = (placed((batch, size), offset) for offset in (2, 13, 4))
    assert capi.BNNSArithmeticFilterApplyBatch(filter, batch, 2, [a, b], [0, 0], y, 0) == 0
    np.testing.assert_array_equal(y, np.maximum(a * b, 0))
    assert (
        capi.BNNSArithmeticFilterApplyBackwardBatch(
            filter, batch, 2, [a, b], [0, 0], [vector(da), vector(db)], [0, 0], y, 0, vector(dy), 0
        )
        == 0
    )
    dz = np.where(y > 0, dy, 0)
    np.testing.assert_array_equal(da, dz * b)
    np.testing.assert_array_equal(db, dz * a)
    assert all(untouched(t) for t in (y, da, db))


@pytest.mark.parametrize("offset", [0, 4, 15])
@pytest.mark.parametrize(("width", "count"), [(128, 8200), (1, 1_100_000), (7, 170_003), (1031, 1100)])
def test_gather_and_scatter(width: int, count: int, offset: int) -> None:
    rng = np.random.default_rng(3)
    rows = 300_000 // width + 11
    whole = rng.standard_normal((rows, width), dtype=np.float32)
    indices = rng.integers(0, rows, count)
    part = placed((count, width), offset)
    assert bn.gather(whole, indices, part, axis=0) is part
    np.testing.assert_array_equal(part, whole[indices])
    assert untouched(part)

    def add(threads: int) -> Any:
        y = placed((rows, width), offset, 0.5)
        with_threads(threads, lambda: bn.scatter(part, indices, y, 0, bn.ReductionFunction.sum()))
        assert untouched(y)
        return y

    sums = add(2)
    expected = np.full((rows, width), 0.5, np.float32)
    np.add.at(expected, indices, part)  # in the order of the indices
    np.testing.assert_array_equal(sums, expected)
    for threads in (1, 3):
        np.testing.assert_array_equal(add(threads), sums)
    last = placed((rows, width), offset, 0.0)
    bn.scatter(part, indices, last, 0)
    written = np.zeros((rows, width), np.float32)
    written[indices] = part
    np.testing.assert_array_equal(last, written)


@pytest.mark.parametrize("bad", [-1, 1000, -(2**63), 2**63 - 1])
@pytest.mark.parametrize("where", [0, 1023, 1024, 2999])
def test_an_index_outside_writes_nothing(bad: int, where: int) -> None:
    whole, indices = np.ones((1000, 3), np.float32), np.arange(3000) % 1000
    indices[where] = bad
    y = np.full((3000, 3), 5.0, np.float32)
    with pytest.raises(bn.LayerApplyError, match=rf"indices holds {bad}, but axis 0 has 1000 entries"):
        bn.gather(whole, indices, y)
    with pytest.raises(bn.LayerApplyError, match=f"indices holds {bad}"):
        bn.scatter(np.ones((3000, 3), np.float32), indices, whole, 0, bn.ReductionFunction.sum())
    assert (y == 5).all() and (whole == 1).all()


@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 2), (1, 2), (0, 1)])
def test_reductions(axes: tuple[int, ...]) -> None:
    rng = np.random.default_rng(4)
    x = rng.standard_normal((61, 173, 211)).astype(np.float32)
    x[5, 7, 9] = np.nan
    wide = np.float64(x)
    shape = tuple(1 if a in axes else n for a, n in enumerate(x.shape))
    rf = bn.ReductionFunction
    expected = {
        rf.sum(): wide.sum(axes, keepdims=True),
        rf.mean(): wide.mean(axes, keepdims=True),
        rf.sum_of_squares(): (wide**2).sum(axes, keepdims=True),
        rf.sum_of_absolutes(): abs(wide).sum(axes, keepdims=True),
        rf.l2_norm(): np.sqrt((wide**2).sum(axes, keepdims=True)),
        rf.max(): wide.max(axes, keepdims=True),
        rf.min(): wide.min(axes, keepdims=True),
    }
    for function, values in expected.items():
        y = placed(shape, 3)
        bn.apply_reduction(function, x, y)
        np.testing.assert_allclose(y, values, rtol=2e-6, atol=2e-4)
        assert untouched(y)
        np.testing.assert_array_equal(with_threads(1, lambda f=function: bn.apply_reduction(f, x, axes=axes)), y)
    flat = np.moveaxis(x, axes, range(-len(axes), 0)).reshape(*[n for a, n in enumerate(x.shape) if a not in axes], -1)
    for function, find in ((rf.arg_max(), np.argmax), (rf.arg_min(), np.argmin)):
        actual = bn.apply_reduction(function, x, axes=axes)
        np.testing.assert_array_equal(actual.reshape(flat.shape[:-1]), find(flat, -1))


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
def test_gradients_of_reductions(axes: tuple[int, ...]) -> None:
    rng = np.random.default_rng(5)
    x = rng.standard_normal((1499, 1421)).astype(np.float32)  # beyond the size from which gradients are streamed
    dy = rng.standard_normal([1 if a in axes else n for a, n in enumerate(x.shape)]).astype(np.float32)
    rf = bn.ReductionFunction
    slopes = {rf.sum(): np.ones_like(x), rf.sum_of_squares(): 2 * x, rf.sum_of_absolutes(): np.sign(x)}
    for function, slope in slopes.items():
        layer = bn.ReductionLayer(function=function, input=bn.Shape(list(x.shape)), axes=axes)
        dx = placed((1, *x.shape), 5)
        layer.apply_backward(x[None], None, dy[None], dx)
        np.testing.assert_array_equal(dx[0], dy * slope)
        layer.apply_backward(x[None], None, dy[None], dx, accumulate=True)
        np.testing.assert_allclose(dx[0], 2 * (dy * slope), rtol=1e-6)
        assert untouched(dx)
    layer = bn.ReductionLayer(function=rf.max(), input=bn.Shape(list(x.shape)), axes=axes)
    dx = layer.apply_backward(x[None], None, dy[None]).input[0]
    assert np.count_nonzero(dx) == np.count_nonzero(dy)
    np.testing.assert_array_equal(dx, np.where(x == x.max(axes, keepdims=True), dy, 0))


@pytest.mark.parametrize("size", [(2, 1301, 29, 53), (1500, 2689)], ids=["planes", "columns"])
@pytest.mark.parametrize("offset", [0, 5, 12])
def test_batch_normalization(size: tuple[int, ...], offset: int) -> None:
    """Beyond the size from which results are streamed, in runs that begin anywhere in a line."""
    rng = np.random.default_rng(9)
    x, dy = (rng.standard_normal(size, np.float32) for _ in range(2))
    channels = size[1:2]
    gamma, beta = (rng.standard_normal(channels, np.float32) for _ in range(2))
    axes, spread = (0, *range(2, len(size))), (-1, *[1] * (len(size) - 2))
    wide = np.float64(x)
    inverse = 1 / np.sqrt(wide.var(axes, keepdims=True) + 1e-5)
    xhat, slope = (wide - wide.mean(axes, keepdims=True)) * inverse, gamma.reshape(spread)
    means = dy.mean(axes, np.float64, keepdims=True), (dy * xhat).mean(axes, keepdims=True)

    def vector(size: int, data: Any = None) -> capi.BNNSNDArrayDescriptor:
        return capi.BNNSNDArrayDescriptor(
            layout=capi.BNNSDataLayoutVector, size=[size], data=data, data_type=capi.BNNSDataTypeFloat32
        )

    def sample(data: Any = None) -> capi.BNNSNDArrayDescriptor:
        return vector(size[1], data) if len(size) == 2 else described(size[1:], data)

    def run() -> tuple[Any, Any]:
        y, dx = placed(size, offset), placed(size, offset)
        f = capi.BNNSFilterCreateLayerNormalization(
            capi.BNNSBatchNorm,
            capi.BNNSLayerParametersNormalization(
                i_desc=sample(), o_desc=sample(), beta_desc=vector(*channels, beta), gamma_desc=vector(*channels, gamma),
                momentum=0.9, epsilon=1e-5,
            ),
        )  # fmt: skip
        assert capi.BNNSNormalizationFilterApplyBatch(f, size[0], x, 0, y, 0, True) == 0, bn.last_error()
        status = capi.BNNSNormalizationFilterApplyBackwardBatch(
            f, size[0], sample(dx), 0, None, 0, sample(dy), 0, None, None
        )
        assert status == 0, bn.last_error()
        assert untouched(y) and untouched(dx)
        return y, dx

    y, dx = with_threads(2, run)
    np.testing.assert_allclose(y, xhat * slope + beta.reshape(spread), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(dx, (dy - means[0] - xhat * means[1]) * inverse * slope, rtol=1e-5, atol=1e-5)
    for ours, other in zip((y, dx), with_threads(1, run), strict=True):
        np.testing.assert_array_equal(ours, other)


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.int16, np.int64, np.bool_])
def test_copies_and_transposes(dtype: Any) -> None:
    x = np.random.default_rng(6).integers(0, 2 if dtype == np.bool_ else 100, (7, 65, 83)).astype(dtype)
    for first, second in ((0, 1), (0, 2), (1, 2), (-1, 0)):
        y = np.empty(x.swapaxes(first, second).shape, dtype)
        assert bn.transpose(x, y, first, second) is y
        np.testing.assert_array_equal(y, x.swapaxes(first, second))
        np.testing.assert_array_equal(bn.transpose(x, None, first, second), y)
    y = np.empty_like(x)
    for source in (x, x[::-1], x[:, ::-1], np.asfortranarray(x)):
        bn.copy(source, y)
        np.testing.assert_array_equal(y, source)
    np.testing.assert_array_equal(bn.copy(y, y), np.asfortranarray(x))
    with pytest.raises(bn.LayerApplyError, match="read-only"):
        frozen = np.empty_like(x)
        frozen.flags.writeable = False
        bn.copy(x, frozen)


def test_reduction_into_its_input_or_a_wrong_shape() -> None:
    """Calls that the fast path declines are computed or refused by the general path."""
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    total = bn.ReductionFunction.sum()
    with pytest.raises(bn.LayerApplyError, match="output is"):
        bn.apply_reduction(total, x, np.empty((3, 2), np.float32))
    assert bn.apply_reduction(total, x[:, ::2], np.empty((3, 1), np.float32)).tolist() == [[2], [10], [18]]
    assert bn.apply_reduction(total, x, np.empty((3, 1), np.float16)).tolist() == [[6], [22], [38]]
    assert bn.apply_reduction(bn.ReductionFunction.arg_max(), x, np.empty((1, 4), np.float32)).tolist() == [[2] * 4]


@pytest.mark.parametrize("index_type", [np.int32, np.int64])
def test_scatter_adds_and_nothing_else(index_type: type) -> None:
    """Also where plain arrays go straight to the kernel; the log of a sum is not a sum."""
    x, indices = np.float32([[1, 2], [3, 4]]), np.array([1, 0], index_type)
    for name in ("log_sum", "mean", "max", "product", "sum_of_squares"):
        y = np.ones((3, 2), np.float32)
        with pytest.raises(bn.LayerApplyError, match=r"scatter: reduction_function is .*there are no others"):
            bn.scatter(x, indices, y, axis=0, reduction_function=getattr(bn.ReductionFunction, name)())
        assert (y == 1).all()
    y = np.ones((3, 2), np.float32)
    bn.scatter(x, indices, y, axis=0, reduction_function=bn.ReductionFunction.sum())
    assert y.tolist() == [[4, 5], [2, 3], [1, 1]]


def test_bias_gradient_of_many_samples() -> None:
    """Terms of one sign: a running sum in float32 would lose digits."""
    samples = 200_000
    dy = np.random.default_rng(0).random((samples, 20), np.float32) + np.float32(0.5)
    layer = bn.FullyConnectedLayer(weights=np.ones((20, 1), np.float32), bias=np.zeros(20, np.float32))
    db = layer.apply_backward(
        None, None, dy, generating_input_gradient=bn.skip, generating_weights_gradient=bn.skip
    ).bias
    np.testing.assert_allclose(db, dy.sum(0, np.float64), rtol=3e-6)
