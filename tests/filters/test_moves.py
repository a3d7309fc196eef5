"""Moves of tensors: copy, transpose, tile, shuffle, band part, compare; axis rules, threads, shared memory."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import openbnns as bn
from cases._base import succeed
from cases.moves import (
    FIRST_MAJOR,
    LAST_MAJOR,
    TYPES,
    any_layout,
    best,
    check,
    numbered,
    random_storage,
    random_tensor,
    strided,
    tensor_of,
)
from helpers import (
    BOOLEAN,
    COLUMN_MAJOR,
    FIRST_MAJOR_2D,
    FLOAT16,
    FLOAT32,
    IMAGE,
    INT8,
    INT32,
    INT64,
    LAST_MAJOR_2D,
    PACK32,
    ROW_MAJOR,
    UINT64,
    VECTOR,
    Storage,
    Tensor,
    vector,
)  # fmt: skip
from openbnns import capi, compat

SUM, NONE = capi.BNNSReduceFunctionSum, capi.BNNSReduceFunctionNone


# ---------------------------------------------------------------------------------------------------------------------
# Moves


@pytest.mark.covers("direct.copy", "fn.BNNSCopy")
@pytest.mark.parametrize("seed", range(60))
def test_copy(engine: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    t = random_tensor(rng)
    shape = numbered(t, np.empty(t.size)).shape
    layout = any_layout(rng, len(shape))
    size = shape[::-1] if layout == ROW_MAJOR else shape
    kind = t.data_type if rng.integers(2) else TYPES[rng.integers(len(TYPES))]
    u = strided(rng, Tensor(layout, size, data_type=kind))
    x, y = random_storage(t, rng), Storage(u)
    succeed(capi.BNNSCopy(y.descriptor(), x.descriptor()))
    check(y, numbered(u, numbered(t, x.read()[0]))[None], x)


def test_copy_of_special_storage(engine: str) -> None:
    rng = np.random.default_rng(0)
    x = random_storage(Tensor(PACK32, (3, 2, 2, 40)), rng)
    y = Storage(Tensor(LAST_MAJOR[4], (3, 2, 2, 40)))
    succeed(capi.BNNSCopy(y.descriptor(), x.descriptor()))
    check(y, x.read(), x)
    bits = np.array([0b11100100, 0b00011011], np.uint8)
    four = capi.BNNSNDArrayDescriptor(layout=VECTOR, size=(8,), data=bits, data_type=capi.BNNSDataTypeUInt2)
    out = np.zeros(8, np.float32)
    succeed(capi.BNNSCopy(vector(8).descriptor(out), four))
    assert out.tolist() == [0, 1, 2, 3, 3, 2, 1, 0]
    back = np.zeros(2, np.uint8)
    target = capi.BNNSNDArrayDescriptor(layout=VECTOR, size=(8,), data=back, data_type=capi.BNNSDataTypeUInt2)
    succeed(capi.BNNSCopy(target, four))
    assert back.tolist() == bits.tolist()
    wide = np.array([2**62 + 1, -(2**62) - 1, 300], np.int64)
    narrow = np.zeros(3, np.uint64)
    succeed(capi.BNNSCopy(vector(3, data_type=UINT64).descriptor(narrow), vector(3, data_type=INT64).descriptor(wide)))
    assert narrow.tolist() == [2**62 + 1, 0, 300]
    scaled = Storage(vector(3, data_type=INT8, scale=0.5, bias=1.0), values=np.array([[-1.0, 0.0, 3.5]]))
    plain = Storage(vector(3))
    succeed(capi.BNNSCopy(plain.descriptor(), scaled.descriptor()))
    assert plain.read().tolist() == [[-1.0, 0.0, 3.5]]


@pytest.mark.covers("direct.transpose", "fn.BNNSTranspose")
@pytest.mark.parametrize("seed", range(60))
def test_transpose(engine: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    t = random_tensor(rng)
    a, b = (int(n) for n in rng.integers(0, len(t.size), 2))
    x = random_storage(t, rng)
    expected = np.swapaxes(numbered(t, x.read()[0]), a, b)
    u = strided(rng, tensor_of(any_layout(rng, len(t.size)), expected.shape, t.data_type))
    y = Storage(u)
    succeed(capi.BNNSTranspose(y.descriptor(), x.descriptor(), a, b))
    check(y, numbered(u, expected)[None], x)
    dx = Storage(t)  # the gradient is the same swap
    succeed(capi.BNNSTranspose(dx.descriptor(), y.descriptor(), a, b))
    check(dx, x.read())


@pytest.mark.parametrize("shape", [(300, 500), (3, 700, 130), (64, 33, 5, 9), (1000, 1000), (40_000, 3), (3, 40_000)])
@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32, np.int64])
def test_large_transposes(shape: tuple[int, ...], dtype: Any) -> None:
    x = np.random.default_rng(0).integers(0, 100, shape).astype(dtype)
    for a, b in itertools.combinations(range(len(shape)), 2):
        y = bn.transpose(x, first_transpose_axis=a, second_transpose_axis=b - len(shape))
        np.testing.assert_array_equal(y, np.swapaxes(x, a, b))


@pytest.mark.covers("direct.tile", "fn.BNNSTile", "direct.tile.bwd", "fn.BNNSTileBackward")
@pytest.mark.parametrize("seed", range(60))
def test_tile(engine: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    t = random_tensor(rng, most=4)
    repeats = [int(n) for n in rng.integers(1, 4, len(t.size))]
    x = random_storage(t, rng)
    expected = np.tile(x.read()[0], repeats)
    u = strided(rng, Tensor(any_layout(rng, len(t.size)), expected.shape, data_type=t.data_type))
    y = Storage(u)
    succeed(capi.BNNSTile(x.descriptor(), y.descriptor()))
    check(y, expected[None], x)

    flags = int(rng.integers(2))
    dx, dy = random_storage(replace(t, data_type=FLOAT32), rng), random_storage(replace(u, data_type=FLOAT32), rng)
    before = dx.read()[0]
    pairs = [n for r, s in zip(repeats, t.size, strict=True) for n in (r, s)]
    summed = dy.read()[0].reshape(pairs).sum(axis=tuple(range(0, len(pairs), 2))) + flags * before
    succeed(capi.BNNSTileBackward(dx.descriptor(flags), dy.descriptor()))
    check(dx, summed[None], dy)


def test_tile_of_eight_axes_and_large(engine: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 1, 3, 1, 2, 2, 1, 2)).astype(np.float32)
    y = bn.tile(x, repeats=(1, 2, 2, 1, 3, 1, 2, 2))
    np.testing.assert_array_equal(y, np.tile(x, (1, 2, 2, 1, 3, 1, 2, 2)))
    x = rng.standard_normal((130, 77)).astype(np.float32)
    y = bn.tile(x, repeats=(9, 11))
    np.testing.assert_array_equal(y, np.tile(x, (9, 11)))
    dx = bn.tile_backward(y, input_shape=x.shape)
    np.testing.assert_allclose(dx, 99 * x, rtol=1e-6)


def test_tile_reversed_axes(engine: str) -> None:
    """Seen on macOS 15: factors apply to the axes in reverse; backward does not."""
    x = np.array([[1, 2, 3]], np.float32)
    with compat.using(tile_reversed_axes=True):
        assert bn.tile(x, np.zeros((2, 3), np.float32)).ravel().tolist() == [1, 1, 2, 2, 3, 3]
        assert bn.tile(x.reshape(3, 1), np.zeros((3, 2), np.float32)).ravel().tolist() == [1, 2, 3, 1, 2, 3]
        y = Storage(Tensor(FIRST_MAJOR_2D, (2, 3), (1, 5)))
        succeed(capi.BNNSTile(Tensor(FIRST_MAJOR_2D, (1, 3)).descriptor(x), y.descriptor()))
        assert y.read().ravel().tolist() == [1, 1, 2, 2, 3, 3]
        assert bn.tile_backward(np.array([[1, 2, 3], [10, 20, 30]], np.float32), input_shape=(1, 3)).tolist() == [
            [11, 22, 33]
        ]
    assert bn.tile(x, np.zeros((2, 3), np.float32)).ravel().tolist() == [1, 2, 3, 1, 2, 3]


@pytest.mark.parametrize(
    ("layout", "reversed_too"),
    [(FIRST_MAJOR_2D, True), (ROW_MAJOR, True), (LAST_MAJOR_2D, False), (COLUMN_MAJOR, False)],
)
def test_layouts_that_tile_reversed(engine: str, layout: Any, reversed_too: bool) -> None:
    """LastMajor is the same in both interpretations."""
    x = np.array([1, 2, 3], np.float32)
    last = layout != FIRST_MAJOR_2D  # size[] begins with the fastest axis
    small, large = (Tensor(layout, s[::-1] if last else s) for s in ((1, 3), (2, 3)))
    for on in (False, True):
        y = np.zeros(6, np.float32)
        with compat.using(tile_reversed_axes=on):
            succeed(capi.BNNSTile(small.descriptor(x), large.descriptor(y)))
        assert y.tolist() == ([1, 1, 2, 2, 3, 3] if on and reversed_too else [1, 2, 3, 1, 2, 3])
    # Between layouts there is nothing to reverse: each has its own order.
    with compat.using(tile_reversed_axes=True):
        y = np.zeros(6, np.float32)
        succeed(capi.BNNSTile(Tensor(ROW_MAJOR, (1, 3)).descriptor(x), Tensor(LAST_MAJOR_2D, (2, 3)).descriptor(y)))
        assert y.tolist() == [1, 1, 2, 2, 3, 3]


KINDS = {
    "PixelShuffleNCHW": lambda x, r: x.reshape(*split(x, r, 0)).transpose(0, 1, 4, 2, 5, 3),
    "DepthToSpaceNCHW": lambda x, r: x.reshape(*split(x, r, 1)).transpose(0, 3, 4, 1, 5, 2),
}


def split(x: Any, r: int, kind: int) -> tuple[int, ...]:
    n, c, h, w = x.shape
    return (n, c // (r * r), r, r, h, w) if kind == 0 else (n, r, r, c // (r * r), h, w)


@pytest.mark.parametrize(
    ("forward", "inverse"),
    [
        pytest.param(a, b, marks=pytest.mark.covers(f"shuffle.{a}", f"shuffle.{b}", "fn.BNNSShuffle"))
        for a, b in (("PixelShuffleNCHW", "PixelUnshuffleNCHW"), ("DepthToSpaceNCHW", "SpaceToDepthNCHW"))
    ],
)
def test_shuffle(engine: str, forward: str, inverse: str) -> None:
    rng = np.random.default_rng(1)
    for n, c, r, h, w in ((1, 1, 2, 2, 2), (2, 3, 2, 4, 5), (3, 2, 3, 1, 7), (1, 4, 1, 3, 3), (2, 5, 4, 20, 30)):
        for kind in (FLOAT32, INT8, FLOAT16, INT64):
            small = Tensor(FIRST_MAJOR[4], (n, c * r * r, h, w), data_type=kind)
            large = Tensor(FIRST_MAJOR[4], (n, c, h * r, w * r), data_type=kind)
            x, y = random_storage(strided(rng, small), rng), Storage(strided(rng, large))
            expected = KINDS[forward](x.read()[0], r).reshape(large.size)
            succeed(capi.BNNSShuffle(getattr(capi, f"BNNSShuffleType{forward}"), x.descriptor(), y.descriptor()))
            check(y, expected[None], x)
            back = Storage(strided(rng, small))
            succeed(capi.BNNSShuffle(getattr(capi, f"BNNSShuffleType{inverse}"), y.descriptor(), back.descriptor()))
            check(back, x.read())


@pytest.mark.covers("direct.bandpart", "fn.BNNSBandPart")
@pytest.mark.parametrize("seed", range(40))
def test_band_part(engine: str, seed: int) -> None:
    """i is the second fastest axis, j the fastest."""
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(2, 5))
    layout = [FIRST_MAJOR[rank], LAST_MAJOR[rank], *({2: [ROW_MAJOR, COLUMN_MAJOR], 3: [IMAGE]}.get(rank, []))]
    t = Tensor(layout[rng.integers(len(layout))], tuple(int(n) for n in rng.integers(1, 9, rank)),
               data_type=TYPES[rng.integers(len(TYPES))])  # fmt: skip
    lower, upper = (int(n) for n in rng.integers(-2, 9, 2))
    x, y = random_storage(t, rng, low=1), Storage(t)
    order = t.stepped[::-1]
    memory = x.read()[0].transpose(order)
    i, j = np.indices(memory.shape[-2:])
    keep = ((lower < 0) | (i - j <= lower)) & ((upper < 0) | (j - i <= upper))
    expected = np.where(keep, memory, 0).transpose(np.argsort(order))
    succeed(capi.BNNSBandPart(lower, upper, x.descriptor(), y.descriptor()))
    check(y, expected[None], x)
    succeed(capi.BNNSBandPart(lower, upper, x.descriptor(), x.descriptor()))  # in place
    np.testing.assert_array_equal(x.raw(), y.raw())


def test_bands_wider_than_the_matrix(engine: str) -> None:
    """Any number is a valid width, also one that a C int cannot hold."""
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    for lower, upper, want in ((2**70, 0, np.tril(x)), (0, 2**70, np.triu(x)), (-(2**70), 2**31, x)):
        np.testing.assert_array_equal(bn.copy_band_part(x, None, lower, upper), want)


def test_band_part_refuses_matrices(engine: str) -> None:
    for layout, status in ((ROW_MAJOR, -1), (COLUMN_MAJOR, -1), (FIRST_MAJOR_2D, 0)):
        x, y = Storage(Tensor(layout, (3, 3)), values=np.ones((1, 3, 3))), Storage(Tensor(layout, (3, 3)))
        with compat.using(band_part_refuses_matrices=True):
            assert capi.BNNSBandPart(0, 0, x.descriptor(), y.descriptor()) == status
        succeed(capi.BNNSBandPart(0, 0, x.descriptor(), y.descriptor()))
        check(y, np.eye(3)[None], x)


OPERATORS = {
    "Equal": np.equal, "Less": np.less, "LessEqual": np.less_equal, "Greater": np.greater,
    "GreaterEqual": np.greater_equal, "NotEqual": np.not_equal, "LogicalAND": np.logical_and, "LogicalOR": np.logical_or,
    "LogicalNOT": lambda a, b: np.logical_not(a), "LogicalNAND": lambda a, b: ~np.logical_and(a, b),
    "LogicalNOR": lambda a, b: ~np.logical_or(a, b), "LogicalXOR": np.logical_xor,
}  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.covers(f"compare.{n}", "fn.BNNSCompareTensor")) for n in OPERATORS],
)
def test_compare(engine: str, name: str) -> None:
    rng, op = np.random.default_rng(3), getattr(capi, f"BNNSRelationalOperator{name}")
    for trial in range(40):
        t = random_tensor(rng, data_type=BOOLEAN if trial % 5 == 0 else None)
        kind = t.data_type if rng.integers(3) or t.data_type == BOOLEAN else TYPES[rng.integers(len(TYPES))]
        u = strided(rng, Tensor(any_layout(rng, len(t.size)), t.size, data_type=kind))
        v = strided(rng, Tensor(any_layout(rng, len(t.size)), t.size, data_type=BOOLEAN))
        most = 2 if t.data_type == BOOLEAN else 3
        a, b = (Storage(s, values=rng.integers(0, most, (1, *s.size)).astype(np.float64)) for s in (t, u))
        y = Storage(v)
        succeed(capi.BNNSCompareTensor(a.descriptor(), b.descriptor(), op, y.descriptor()))
        check(y, OPERATORS[name](a.read(), b.read()).astype(np.float64), a, b)
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, 2.0], np.float32)
    a, b = (m.ravel() for m in np.meshgrid(special, special))
    op_name = bn.RelationalOperator(op)
    np.testing.assert_array_equal(bn.compare(a, b, op_name), OPERATORS[name](a, b))
    big = np.array([2**63 - 1, 2**63, 2**64 - 1, 0], np.uint64)
    a, b = (np.ascontiguousarray(m.ravel()) for m in np.meshgrid(big, big))
    np.testing.assert_array_equal(bn.compare(a, b, op_name), OPERATORS[name](a, b))
    a, b = rng.integers(0, 3, (2, 70_000)).astype(np.float32)
    np.testing.assert_array_equal(bn.compare(a, b, op_name), OPERATORS[name](a, b))


def test_results_on_top_of_inputs(engine: str) -> None:
    """Where results may overlap inputs, the numbers are those of separate memory."""
    x = np.array([3, 1, 2], np.float32)
    d = vector(3).descriptor(x)
    succeed(capi.BNNSGather(0, d, vector(3, data_type=INT32).descriptor(np.array([2, 0, 1], np.int32)), d))
    assert x.tolist() == [2, 3, 1]
    succeed(capi.BNNSDirectApplyTopK(3, 0, 1, d, 0, d, 0, None, 0))
    assert x.tolist() == [3, 2, 1]
    memory = np.arange(16, dtype=np.uint8)
    out = Tensor(VECTOR, (4,), (), BOOLEAN).descriptor(memory[:4])
    succeed(capi.BNNSCompareTensor(vector(4).descriptor(memory.view(np.float32)),
            vector(4).descriptor(memory.view(np.float32)), 0, out))  # fmt: skip
    assert memory.tolist() == [1, 1, 1, 1, *range(4, 16)]


def test_same_bits_for_any_number_of_threads() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((400, 300)).astype(np.float32)
    indices = rng.integers(0, 20, 400)
    results = []
    before = bn.get_num_threads()
    for threads in (1, 2, 3):
        bn.set_num_threads(threads)
        arrays = [
            bn.scatter(x, indices, np.zeros((20, 300), np.float32), reduction_function=bn.ReductionFunction.sum()),
            bn.scatter(x, indices, np.zeros((20, 300), np.float32)),
            bn.gather(x, indices), bn.transpose(x), bn.tile(x, repeats=(3, 2)), bn.apply_top_k(5, x).values,
            bn.tile_backward(x, input_shape=(20, 30)),
        ]  # fmt: skip
        results.append(np.concatenate([a.ravel() for a in arrays]))
    bn.set_num_threads(before)
    for other in results[1:]:
        np.testing.assert_array_equal(other, results[0])


# ---------------------------------------------------------------------------------------------------------------------
# The table of axis rules in docs/descriptors.md: which axis of memory does axis 0 name?


LAYOUTS = {
    "RowMajorMatrix": (ROW_MAJOR, 0), "ColumnMajorMatrix": (COLUMN_MAJOR, 1), "ImageCHW": (IMAGE, 2),
    "2DFirstMajor": (FIRST_MAJOR_2D, 0), "2DLastMajor": (LAST_MAJOR_2D, 1), "3DFirstMajor": (FIRST_MAJOR[3], 0),
    "3DLastMajor": (LAST_MAJOR[3], 2),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYOUTS)
def test_axis_rules(engine: str, name: str) -> None:
    """Axis 0 is the slowest axis of memory for FirstMajor and RowMajorMatrix, the fastest for all others."""
    layout, axis = LAYOUTS[name]
    rank = int(layout) >> 16
    memory = np.random.default_rng(0).permutation(4**rank).reshape((4,) * rank).astype(np.float32)

    def d(array: Any, kind: Any = FLOAT32) -> Any:
        first = name.endswith("FirstMajor")
        size = array.shape if first else array.shape[::-1]
        return Tensor(layout, size, data_type=kind).descriptor(array)

    def like(*shape: int, dtype: Any = np.float32) -> Any:
        return np.zeros(shape, dtype)

    some = np.array([2, 0], np.int32)
    index = vector(2, data_type=INT32).descriptor(some)
    expected = np.take(memory, some, axis)
    y = like(*expected.shape)
    succeed(capi.BNNSGather(0, d(memory), index, d(y)))
    np.testing.assert_array_equal(y, expected)
    back = memory.copy()
    succeed(capi.BNNSScatter(0, SUM, d(y), index, d(back)))
    added = memory.copy()
    added[(slice(None),) * axis + (some,)] += expected
    np.testing.assert_array_equal(back, added)
    where = best(memory, 2, axis)
    v, i = like(*expected.shape), like(*expected.shape, dtype=np.int32)
    succeed(capi.BNNSDirectApplyTopK(2, 0, 1, d(memory), 0, d(v), 0, d(i, INT32), 0))
    np.testing.assert_array_equal(i, where)
    swapped = like(*memory.shape)
    succeed(capi.BNNSTranspose(d(swapped), d(memory), 0, rank - 1))
    np.testing.assert_array_equal(swapped, np.swapaxes(memory, 0, rank - 1))
    inside = np.sqrt((memory.astype(np.float64) ** 2).sum(axis, keepdims=True))
    y = like(*memory.shape)
    succeed(capi.BNNSClipByNorm(d(y), d(memory), 1.0, 0b1))
    np.testing.assert_allclose(y, memory * np.minimum(1, 1 / inside), rtol=1e-5)
    banded = like(*memory.shape)
    succeed(capi.BNNSBandPart(0, 1, d(memory), d(banded)))
    np.testing.assert_array_equal(banded, np.triu(memory) * np.tri(4, 4, 1))
    # Entry k of an index vector counts along axis k.
    picked = np.take(memory, [3], axis)
    vectors = Tensor(FIRST_MAJOR_2D, (1, 1), data_type=INT32).descriptor(np.array([3], np.int32))
    y = like(*picked.shape)
    succeed(capi.BNNSGatherND(d(memory), vectors, d(y)))
    np.testing.assert_array_equal(y, picked)
    # Copies keep the numbers of axes.
    plain = like(*(4,) * rank)
    succeed(capi.BNNSCopy(Tensor(FIRST_MAJOR[rank], (4,) * rank).descriptor(plain), d(memory)))
    np.testing.assert_array_equal(plain, memory if axis == 0 else memory.transpose())
