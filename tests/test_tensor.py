"""Direct tensor functions: both engines against NumPy, every layout and type, mistakes. Arrays are in size[] order."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import openbnns as bn
from helpers import (
    BFLOAT16,
    BOOLEAN,
    COLUMN_MAJOR,
    FIRST_MAJOR_2D,
    FLOAT16,
    FLOAT32,
    IMAGE,
    INT8,
    INT16,
    INT32,
    INT64,
    LAST_MAJOR_2D,
    OIHRWR,
    PACK32,
    ROW_MAJOR,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
    VECTOR,
    Storage,
    Tensor,
    vector,
)  # fmt: skip
from openbnns import capi, compat

ENGINES = ["native", "reference"]
FIRST_MAJOR = {r: getattr(capi, f"BNNSDataLayout{r}DFirstMajor") for r in range(1, 9)}
LAST_MAJOR = {r: getattr(capi, f"BNNSDataLayout{r}DLastMajor") for r in range(1, 9)}
TYPES = [FLOAT32, FLOAT16, BFLOAT16, INT8, UINT8, INT16, UINT16, INT32, UINT32, INT64, UINT64]
SUM, NONE = capi.BNNSReduceFunctionSum, capi.BNNSReduceFunctionNone


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Any:
    with bn.engine(request.param):
        yield request.param


def random_storage(t: Tensor, rng: np.random.Generator, batch: int = 1, gap: int = 0, low: int = 0) -> Storage:
    """Small integers, which every type holds exactly."""
    return Storage(t, batch, gap, values=rng.integers(low, 100, (batch, *t.size)).astype(np.float64))


def random_tensor(rng: np.random.Generator, rank: int | None = None, most: int = 7, data_type: Any = None) -> Tensor:
    """Any layout, size, stride and type."""
    rank = int(rng.integers(1, 6)) if rank is None else rank
    size = tuple(int(n) for n in rng.integers(1, most + 1, rank))
    kind = TYPES[rng.integers(len(TYPES))] if data_type is None else data_type
    return strided(rng, Tensor(any_layout(rng, rank), size, data_type=kind))


def any_layout(rng: np.random.Generator, rank: int) -> Any:
    special = {1: [VECTOR], 2: [ROW_MAJOR, COLUMN_MAJOR], 3: [IMAGE], 4: [OIHRWR]}.get(rank, [])
    choices = [FIRST_MAJOR[rank], LAST_MAJOR[rank], *special]
    return choices[rng.integers(len(choices))]


def strided(rng: np.random.Generator, t: Tensor) -> Tensor:
    """Half of the time with gaps."""
    if rng.integers(2):
        return t
    stride, reach = [], 1
    for axis in t.stepped:
        stride.append(reach + int(rng.integers(3)))
        reach = stride[-1] * t.size[axis]
    return replace(t, stride=tuple(stride))


def logical(t: Tensor, values: Any) -> Any:
    """size[] order to logical order, and back."""
    return values.T if t.layout == ROW_MAJOR else values


def succeed(status: int) -> None:
    assert status == 0, bn.last_error()


def check(storage: Storage, expected: Any, *inputs: Storage) -> None:
    np.testing.assert_array_equal(storage.read(), storage.tensor.rounded(expected))
    storage.assert_guards_intact("output")
    for s in inputs:
        s.assert_unchanged("input")


# ---------------------------------------------------------------------------------------------------------------------
# Moves


@pytest.mark.covers("direct.copy", "fn.BNNSCopy")
@pytest.mark.parametrize("seed", range(60))
def test_copy(engine: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    t = random_tensor(rng)
    shape = logical(t, np.empty(t.size)).shape
    layout = any_layout(rng, len(shape))
    size = shape[::-1] if layout == ROW_MAJOR else shape
    kind = t.data_type if rng.integers(2) else TYPES[rng.integers(len(TYPES))]
    u = strided(rng, Tensor(layout, size, data_type=kind))
    x, y = random_storage(t, rng), Storage(u)
    succeed(capi.BNNSCopy(y.descriptor(), x.descriptor()))
    check(y, logical(u, logical(t, x.read()[0]))[None], x)


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
    expected = np.swapaxes(x.read()[0], a, b)
    u = strided(rng, Tensor(any_layout(rng, len(t.size)), expected.shape, data_type=t.data_type))
    y = Storage(u)
    succeed(capi.BNNSTranspose(y.descriptor(), x.descriptor(), a, b))
    check(y, expected[None], x)
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


# ---------------------------------------------------------------------------------------------------------------------
# Selections


@pytest.mark.covers("direct.gather", "fn.BNNSGather")
@pytest.mark.parametrize("seed", range(60))
def test_gather(engine: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    t = random_tensor(rng)
    axis, per_element = int(rng.integers(len(t.size))), bool(rng.integers(2))
    count = int(rng.integers(1, 9))
    size = tuple(count if a == axis else n for a, n in enumerate(t.size))
    integer = [INT8, UINT8, INT32, UINT32, INT64, UINT64][rng.integers(6)]
    index_type = (
        strided(rng, Tensor(any_layout(rng, len(size)), size, data_type=integer))
        if per_element
        else strided(rng, vector(count, data_type=integer))
    )
    indices = rng.integers(0, t.size[axis], index_type.size)
    x, i = random_storage(t, rng), Storage(index_type, values=indices[None].astype(np.float64))
    y = Storage(strided(rng, Tensor(any_layout(rng, len(size)), size, data_type=t.data_type)))
    succeed(capi.BNNSGather(axis, x.descriptor(), i.descriptor(), y.descriptor()))
    values = x.read()[0]
    expected = np.take_along_axis(values, indices, axis) if per_element else np.take(values, indices, axis)
    check(y, expected[None], x, i)


@pytest.mark.covers("direct.scatter", "fn.BNNSScatter")
@pytest.mark.parametrize("op", [NONE, SUM])
@pytest.mark.parametrize("seed", range(40))
def test_scatter(engine: str, seed: int, op: int) -> None:
    rng = np.random.default_rng(seed)
    t = random_tensor(rng)
    axis, per_element = int(rng.integers(len(t.size))), bool(rng.integers(2))
    count = int(rng.integers(1, 9))
    size = tuple(count if a == axis else n for a, n in enumerate(t.size))
    index_size = size if per_element else (count,)
    layout = any_layout(rng, len(index_size))
    indices = rng.integers(0, t.size[axis], index_size)
    i = Storage(strided(rng, Tensor(layout, index_size, data_type=INT32)), values=indices[None].astype(np.float64))
    u = strided(rng, Tensor(any_layout(rng, len(size)), size, data_type=t.data_type))
    x = Storage(u, values=rng.integers(0, 5, (1, *size)).astype(np.float64))
    y = Storage(t, values=rng.integers(0, 5, (1, *t.size)).astype(np.float64))
    expected, part = y.read()[0], x.read()[0]
    for place in np.ndindex(size):  # in the order in which the indices count
        to = list(place)
        to[axis] = int(indices[place] if per_element else indices[place[axis]])
        expected[tuple(to)] = part[place] + (expected[tuple(to)] if op == SUM else 0)
    succeed(capi.BNNSScatter(axis, op, x.descriptor(), i.descriptor(), y.descriptor()))
    check(y, expected[None], x, i)


def test_large_selections() -> None:
    rng = np.random.default_rng(0)
    for shape, axis in (((5000, 64), 0), ((3, 4000, 33), 1), ((40, 900), 1), ((100_000,), 0), ((20, 30, 7, 11), 2)):
        x = rng.standard_normal(shape).astype(np.float32)
        indices = rng.integers(0, shape[axis], 3000)
        y = bn.gather(x, indices, axis=axis)
        np.testing.assert_array_equal(y, np.take(x, indices, axis))
        expected = x.astype(np.float64)
        np.add.at(expected, (slice(None),) * axis + (indices,), y.astype(np.float64))
        total = bn.scatter(y, indices, x.copy(), axis=axis, reduction_function=bn.ReductionFunction.sum())
        np.testing.assert_allclose(total, expected, rtol=2e-5, atol=2e-5)
        written = bn.scatter(y, indices, np.zeros(shape, np.float32), axis=axis)
        hit = np.zeros(shape[axis], bool)
        hit[indices] = True
        mask = hit.reshape([-1 if a == axis else 1 for a in range(len(shape))])
        np.testing.assert_array_equal(written, np.where(mask, x, 0))


@pytest.mark.parametrize("seed", range(60))
def test_plain_arrays(seed: int) -> None:
    """Packed arrays of every width of row, in both faces, with indices of both types, along an axis and per element."""
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(1, 40, rng.integers(1, 4)).tolist())
    axis, count = int(rng.integers(len(shape))), int(rng.integers(1, 60))
    part_shape = tuple(count if a == axis else n for a, n in enumerate(shape))
    dtype, code = [(np.float32, FLOAT32), (np.int32, INT32), (np.int64, INT64)][rng.integers(3)]
    index_type, index_code = [(np.int32, INT32), (np.int64, INT64)][rng.integers(2)]
    per_element = len(shape) > 1 and bool(rng.integers(2))
    whole, part = (rng.integers(-99, 99, s).astype(dtype) for s in (shape, part_shape))
    indices = rng.integers(0, shape[axis], part_shape if per_element else count).astype(index_type)
    wide = indices if per_element else np.broadcast_to(
        indices.reshape([-1 if a == axis else 1 for a in range(len(shape))]), part_shape
    )  # fmt: skip
    places = list(np.indices(part_shape))
    places[axis] = wide
    added = whole.copy()
    np.add.at(added, tuple(places), part)
    written = whole.copy()
    for at in np.ndindex(*part_shape):  # in order: the last one stays
        written[tuple(p[at] for p in places)] = part[at]

    def described(array: Any, kind: Any) -> Any:
        layout = VECTOR if array.ndim == 1 else getattr(capi, f"BNNSDataLayout{array.ndim}DFirstMajor")
        return Tensor(layout, array.shape, data_type=kind).descriptor(array)

    idx = described(indices, index_code)
    for face in ("python", "c"):
        y, sums, last = np.zeros_like(part), whole.copy(), whole.copy()
        if face == "python":
            bn.gather(whole, indices, y, axis=axis)
            np.testing.assert_array_equal(bn.gather(whole, indices, axis=axis - len(shape)), y)
            bn.scatter(part, indices, sums, axis=axis, reduction_function=bn.ReductionFunction.sum())
            bn.scatter(part, indices, last, axis=axis)
        else:
            x = described(part, code)
            succeed(capi.BNNSGather(axis, described(whole, code), idx, described(y, code)))
            succeed(capi.BNNSScatter(axis, SUM, x, idx, described(sums, code)))
            succeed(capi.BNNSScatter(axis, NONE, x, idx, described(last, code)))
        np.testing.assert_array_equal(y, np.take_along_axis(whole, wide.astype(np.int64), axis))
        np.testing.assert_array_equal(sums, added)
        np.testing.assert_array_equal(last, written)

    if dtype is np.float32:
        k = int(rng.integers(1, shape[axis] + 1))
        where = best(whole.astype(np.float64), k, axis)
        values = np.zeros(where.shape, np.float32)
        found = np.zeros(where.shape, index_type)
        bn.apply_top_k(k, whole, values, found, axis=axis)
        np.testing.assert_array_equal(found, where)
        np.testing.assert_array_equal(values, np.take_along_axis(whole, where, axis))
        values.fill(0)
        found.fill(0)
        succeed(capi.BNNSDirectApplyTopK(k, axis, 1, described(whole, code), 0, described(values, code), 0,
                described(found, index_code), 0))  # fmt: skip
        np.testing.assert_array_equal(found, where)
        np.testing.assert_array_equal(values, np.take_along_axis(whole, where, axis))


def test_integer_sums_are_exact(engine: str) -> None:
    x, places = np.array([2**60 + 1, 5, 200], np.int64), np.array([0, 0, 1])
    y = bn.scatter(x, places, np.array([1, 2], np.int64), reduction_function=bn.ReductionFunction.sum())
    assert y.tolist() == [2**60 + 7, 202]
    y = bn.scatter(x.astype(np.uint8), places, np.array([250, 100], np.uint8),
                   reduction_function=bn.ReductionFunction.sum())  # fmt: skip
    assert y.tolist() == [255, 255]  # saturated


def nd_tensors(rng: np.random.Generator) -> tuple[Tensor, Any, tuple[int, ...], int]:
    t = random_tensor(rng, rank=int(rng.integers(1, 5)))
    shape = logical(t, np.empty(t.size)).shape
    length = int(rng.integers(1, len(shape) + 1))
    lead = tuple(int(n) for n in rng.integers(1, 5, int(rng.integers(0, 3))))
    vectors = np.stack([rng.integers(0, n, lead) for n in shape[:length]], axis=-1)
    return t, vectors, (*lead, *shape[length:]) or (1,), length


def described(rng: np.random.Generator, values: Any, data_type: Any) -> Storage:
    """Storage of values that are in logical order."""
    layout = any_layout(rng, values.ndim)
    size = values.shape[::-1] if layout == ROW_MAJOR else values.shape
    t = strided(rng, Tensor(layout, size, data_type=data_type))
    return Storage(t, values=logical(t, values)[None])


@pytest.mark.covers("direct.gathernd", "fn.BNNSGatherND", "direct.scatternd", "fn.BNNSScatterND")
@pytest.mark.parametrize("seed", range(60))
def test_gather_and_scatter_nd(engine: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    t, vectors, shape, length = nd_tensors(rng)
    x, i = random_storage(t, rng), described(rng, vectors.astype(np.float64), INT64)
    places = tuple(vectors[..., k] for k in range(length))
    values = logical(t, x.read()[0])
    picked = values[places].reshape(shape)
    y = described(rng, np.zeros(shape), t.data_type)
    succeed(capi.BNNSGatherND(x.descriptor(), i.descriptor(), y.descriptor()))
    check(y, logical(y.tensor, picked)[None], x, i)

    part = described(rng, rng.integers(0, 5, shape).astype(np.float64), t.data_type)
    source = logical(part.tensor, part.read()[0]).reshape(values[places].shape)
    for op in (NONE, SUM):
        out = Storage(t, values=x.read())
        expected = values.copy()
        if op == SUM:
            np.add.at(expected, places, source)
        else:
            for place in np.ndindex(vectors.shape[:-1]):
                expected[tuple(vectors[place])] = source[place]
        succeed(capi.BNNSScatterND(op, part.descriptor(), i.descriptor(), out.descriptor()))
        check(out, logical(t, expected)[None], part, i)


def best(x: Any, k: int, axis: int) -> Any:
    """Indices of the k largest; NaN first, then descending, lower index first."""
    key = np.where(np.isnan(x), np.inf, x)
    order = np.lexsort((-key, ~np.isnan(x)), axis=axis)
    return np.take(order, np.arange(k), axis=axis)


@pytest.mark.covers("direct.topk", "fn.BNNSDirectApplyTopK", "direct.intopk", "fn.BNNSDirectApplyInTopK")
@pytest.mark.parametrize("seed", range(60))
def test_top_k(engine: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    t = random_tensor(rng, most=9)
    axis, batch, gap = int(rng.integers(len(t.size))), int(rng.integers(1, 4)), int(rng.integers(0, 3))
    k = int(rng.integers(1, t.size[axis] + 1))
    values = rng.integers(0, 4, (batch, *t.size)).astype(np.float64)  # many ties
    if t.data_type == FLOAT32:
        values[rng.random(values.shape) < 0.1] = np.nan
        values[rng.random(values.shape) < 0.1] = -0.0
        values[rng.random(values.shape) < 0.1] = -np.inf
    x = Storage(t, batch, gap, values=values)
    size = tuple(k if a == axis else n for a, n in enumerate(t.size))
    v = Storage(strided(rng, Tensor(any_layout(rng, len(size)), size, data_type=t.data_type)), batch, gap)
    integer = [INT8, UINT16, INT32, INT64, UINT64][rng.integers(5)]
    i = Storage(strided(rng, Tensor(any_layout(rng, len(size)), size, data_type=integer)), batch, gap)
    where = best(values, k, axis + 1)
    for with_indices in (True, False):
        succeed(
            capi.BNNSDirectApplyTopK(
                k, axis, batch, x.descriptor(), x.stride, v.descriptor(), v.stride,
                i.descriptor() if with_indices else None, i.stride,
            )
        )  # fmt: skip
        check(v, np.take_along_axis(values, where, axis + 1), x)
        check(i, where.astype(np.float64))
        v.write(np.zeros((batch, *size)))

    kept = tuple(n for a, n in enumerate(t.size) if a != axis) or (1,)
    tests = Storage(
        strided(rng, Tensor(any_layout(rng, len(kept)), kept, data_type=integer)), batch, gap,
        values=rng.integers(0, t.size[axis], (batch, *kept)).astype(np.float64),
    )  # fmt: skip
    y = Storage(strided(rng, Tensor(any_layout(rng, len(kept)), kept, data_type=BOOLEAN)), batch, gap)
    succeed(
        capi.BNNSDirectApplyInTopK(
            k, axis, batch, x.descriptor(), x.stride, tests.descriptor(), tests.stride, y.descriptor(), y.stride
        )
    )
    index = tests.read().astype(np.int64).reshape([1 if a == axis + 1 else n for a, n in enumerate(values.shape)])
    tested = np.take_along_axis(values, index, axis + 1)
    larger = (values > tested) | (np.isnan(values) & ~np.isnan(tested))
    check(y, (larger.sum(axis + 1) < k).reshape(batch, *kept).astype(np.float64), x, tests)


@pytest.mark.parametrize(
    ("rows", "length", "k"),
    [(40, 5000, 8), (3, 100_000, 1), (5, 3000, 2999), (7, 999, 300), (300, 64, 2), (200, 7, 7), (9, 4096, 16)],
)
def test_large_top_k(rows: int, length: int, k: int) -> None:
    rng = np.random.default_rng(0)
    for x in (
        rng.standard_normal((rows, length)),
        np.sort(rng.standard_normal((rows, length)), axis=1),
        np.sort(rng.standard_normal((rows, length)), axis=1)[:, ::-1],
        rng.integers(0, 5, (rows, length)),
        np.where(rng.random((rows, length)) < 0.01, np.nan, rng.standard_normal((rows, length))),
        np.full((rows, length), np.nan),
    ):
        x = np.ascontiguousarray(x, np.float32)
        where = best(x.astype(np.float64), k, 1)
        found = bn.apply_top_k(k, x)
        np.testing.assert_array_equal(found.indices, where)
        np.testing.assert_array_equal(found.values, np.take_along_axis(x, where, 1))
        columns = bn.apply_top_k(k, np.ascontiguousarray(x.T), axis=0)
        np.testing.assert_array_equal(columns.indices.T, where)
        chosen = where[:, -1]
        assert bn.apply_in_top_k(k, x, chosen).all()


def test_top_k_of_integers_is_exact(engine: str) -> None:
    x = np.array([2**62, 2**62 + 1, 2**62 + 2, -5], np.int64)
    assert bn.apply_top_k(2, x).indices.tolist() == [2, 1]
    x = np.array([2**63, 2**63 + 1, 5, 2**64 - 1], np.uint64)
    found = bn.apply_top_k(3, x)
    assert found.indices.tolist() == [3, 1, 0] and found.values.tolist() == [2**64 - 1, 2**63 + 1, 2**63]
    assert bn.apply_in_top_k(1, x, np.array([3])).tolist() == [True]
    falling = vector(3, data_type=INT8, scale=-2.0)  # values -2, -4, 6
    y, i = np.zeros(1, np.int8), np.zeros(1, np.int32)
    succeed(capi.BNNSDirectApplyTopK(1, 0, 1, falling.descriptor(np.array([1, 2, -3], np.int8)), 0,
            replace(falling, size=(1,)).descriptor(y), 0, vector(1, data_type=INT32).descriptor(i), 0))  # fmt: skip
    assert (y.tolist(), i.tolist()) == ([-3], [2])


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
        found = [
            bn.scatter(x, indices, np.zeros((20, 300), np.float32), reduction_function=bn.ReductionFunction.sum()),
            bn.scatter(x, indices, np.zeros((20, 300), np.float32)),
            bn.gather(x, indices), bn.transpose(x), bn.tile(x, repeats=(3, 2)), bn.apply_top_k(5, x).values,
            bn.tile_backward(x, input_shape=(20, 30)),
        ]  # fmt: skip
        results.append(np.concatenate([a.ravel() for a in found]))
    bn.set_num_threads(before)
    for other in results[1:]:
        np.testing.assert_array_equal(other, results[0])


# ---------------------------------------------------------------------------------------------------------------------
# The table of axis rules in docs/filters/tensor.md: which axis of memory does axis 0 name?

LAYOUTS = {
    "RowMajorMatrix": (ROW_MAJOR, 1), "ColumnMajorMatrix": (COLUMN_MAJOR, 1), "ImageCHW": (IMAGE, 2),
    "2DFirstMajor": (FIRST_MAJOR_2D, 0), "2DLastMajor": (LAST_MAJOR_2D, 1), "3DFirstMajor": (FIRST_MAJOR[3], 0),
    "3DLastMajor": (LAST_MAJOR[3], 2),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYOUTS)
def test_axis_rules(engine: str, name: str) -> None:
    """Axis 0 is size[0]: the slowest axis of memory for FirstMajor, the fastest for all others."""
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
    wide = like(*(8 if a == axis else 4 for a in range(rank)))
    succeed(capi.BNNSTile(d(memory), d(wide)))
    np.testing.assert_array_equal(wide, np.tile(memory, [2 if a == axis else 1 for a in range(rank)]))
    banded = like(*memory.shape)
    succeed(capi.BNNSBandPart(0, 1, d(memory), d(banded)))
    np.testing.assert_array_equal(banded, np.triu(memory) * np.tri(4, 4, 1))
    # Index vectors: logical order, which is that of size[], but (row, column) for RowMajorMatrix.
    first = 0 if name in ("RowMajorMatrix", "2DFirstMajor", "3DFirstMajor") else rank - 1
    picked = np.take(memory, [3], first)
    vectors = Tensor(FIRST_MAJOR_2D, (1, 1), data_type=INT32).descriptor(np.array([3], np.int32))
    y = like(*picked.shape)
    succeed(capi.BNNSGatherND(d(memory), vectors, d(y)))
    np.testing.assert_array_equal(y, picked)
    # Copies keep the logical index.
    plain = like(*(4,) * rank)
    succeed(capi.BNNSCopy(Tensor(FIRST_MAJOR[rank], (4,) * rank).descriptor(plain), d(memory)))
    np.testing.assert_array_equal(plain, memory if first == 0 else memory.transpose())


# ---------------------------------------------------------------------------------------------------------------------
# The Python face


def test_numpy_axes() -> None:
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    for axis in range(-3, 3):
        np.testing.assert_array_equal(bn.gather(x, np.array([1, 0]), axis=axis), np.take(x, [1, 0], axis))
        np.testing.assert_array_equal(bn.apply_top_k(2, x, axis=axis).indices, best(x, 2, axis))
        out = np.zeros_like(x)
        assert bn.scatter(np.take(x, [1], axis), np.array([1]), out, axis=axis) is out
        np.testing.assert_array_equal(np.take(out, [1], axis), np.take(x, [1], axis))
    strided_input = x[:, ::2]
    np.testing.assert_array_equal(bn.copy(strided_input), strided_input)
    np.testing.assert_array_equal(bn.gather(x.T, np.array([1])), x.T[[1]])
    assert bn.apply_top_k(1, x, best_indices=bn.skip).indices is None
    np.testing.assert_array_equal(bn.gather_nd(x, np.array([1, 2, 3])), [23])
    np.testing.assert_array_equal(bn.copy_band_part(x, upper_band_count=0), np.tril(x))
    small = bn.shuffle(bn.ShuffleType.SPACE_TO_DEPTH_NCHW, np.zeros((1, 2, 4, 6), np.int8), block_size=2)
    assert small.shape == (1, 8, 2, 3) and small.dtype == np.int8


def test_descriptors_in_the_python_face() -> None:
    x = np.arange(6, dtype=np.float32)
    d = Tensor(LAST_MAJOR_2D, (3, 2)).descriptor(x)  # memory (2, 3)
    np.testing.assert_array_equal(bn.gather(d, np.array([2]), axis=0), [[2], [5]])
    np.testing.assert_array_equal(bn.transpose(d), x.reshape(2, 3).T)
    np.testing.assert_array_equal(bn.compare(d, d, bn.RelationalOperator.EQUAL), np.ones((2, 3), bool))
    np.testing.assert_array_equal(bn.apply_top_k(1, d, axis=1).values, [[3, 4, 5]])
    y = np.zeros((2, 3), np.float32)
    assert bn.copy(d, y) is y
    np.testing.assert_array_equal(y, x.reshape(2, 3))
    batch = vector(2).descriptor(np.array([1, 2, 4, 3], np.float32))
    v = vector(1).descriptor(np.zeros(2, np.float32))
    assert bn.apply_top_k(1, batch, v, bn.skip, axis=0, batch_size=2).values is v
    assert v.data.tolist() == [2, 4]


X = np.ones((2, 3), np.float32)
BAD_FACE: list[tuple[str, Any, type[Exception], str]] = [
    ("gather", lambda: bn.gather(X, np.array([2])), ValueError, "indices holds 2, but axis 0 has 2 entries"),
    ("gather", lambda: bn.gather(X, np.array([-1])), ValueError, "indices holds -1"),
    ("gather", lambda: bn.gather(X, np.array([0]), axis=2), ValueError, "axis is 2, but there are axes -2 to 1"),
    ("gather", lambda: bn.gather(X, np.array([0.0], np.float32)), TypeError, "indices are integers"),
    ("gather", lambda: bn.gather(X, np.array([0]), axis=1.0), TypeError, "axis must be an integer"),  # type: ignore[arg-type]
    ("gather", lambda: bn.gather(None, np.array([0])), ValueError, "input is None"),
    ("gather", lambda: bn.gather(np.ones(2), np.array([0])), TypeError, "input is float64"),
    ("gather", lambda: bn.gather(X, np.array([0]), np.zeros((1, 6), np.float32)[:, ::2]), ValueError, "not C-contiguous"),
    ("scatter", lambda: bn.scatter(X, np.array([0, 1]), None), ValueError, "output is None"),
    ("scatter", lambda: bn.scatter(X, np.array([0, 1]), X.copy(), reduction_function=bn.ReductionFunction.max()),
     ValueError, "reduction_function is 0"),
    ("scatter", lambda: bn.scatter(X, np.array([0, 1]), X.copy(), reduction_function=6),  # type: ignore[arg-type]
     TypeError, "reduction_function must be ReductionFunction"),
    ("copy", lambda: bn.copy(X, np.zeros((3, 2), np.float32)), ValueError, r"to is 2DFirstMajor size \(3, 2\)"),
    ("copy", lambda: bn.copy(X, X), ValueError, "to and input share memory"),
    ("copy", lambda: bn.copy(np.float32(1)), ValueError, r"input has shape \(\)"),
    ("compare", lambda: bn.compare(X, X, bn.RelationalOperator.LESS, X.copy()), TypeError, "output.data_type is Float32"),
    ("compare", lambda: bn.compare(X, None, bn.RelationalOperator.LESS), ValueError, "b is None"),
    ("compare", lambda: bn.compare(X, X, 1), TypeError, "using must be a RelationalOperator"),  # type: ignore[arg-type]
    ("apply_top_k", lambda: bn.apply_top_k(4, X), ValueError, "k is 4, but axis 1 has 3 entries"),
    ("apply_top_k", lambda: bn.apply_top_k(0, X), ValueError, "k is 0"),
    ("apply_top_k", lambda: bn.apply_top_k(True, X), TypeError, "k must be an integer"),
    ("apply_top_k", lambda: bn.apply_top_k(1, X, batch_size=2), ValueError, "batch_size is 2"),
    ("apply_in_top_k", lambda: bn.apply_in_top_k(1, X, np.array([3, 0])), ValueError, "test_indices holds 3"),
    ("tile", lambda: bn.tile(X), ValueError, "repeats must hold 2 numbers"),
    ("tile", lambda: bn.tile(X, np.zeros((3, 3), np.float32)), ValueError, "is a multiple of the other's"),
    ("tile_backward", lambda: bn.tile_backward(X), ValueError, "input_shape must tell"),
    ("shuffle", lambda: bn.shuffle(bn.ShuffleType.PIXEL_SHUFFLE_NCHW, X), ValueError, "block_size must be"),
    ("transpose", lambda: bn.transpose(X, first_transpose_axis=5), ValueError, "first_transpose_axis is 5"),
    ("gather_nd", lambda: bn.gather_nd(X, np.zeros((1, 3), np.int32)), ValueError, "index vectors of 3 entries"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "call", "kind", "message"), BAD_FACE, ids=lambda v: v if isinstance(v, str) else "")
def test_bad_calls_of_the_python_face(name: str, call: Any, kind: Any, message: str) -> None:
    with pytest.raises(kind, match=f"^{name}: .*{message}") as caught:
        call()
    assert isinstance(caught.value, bn.BNNSError)
    assert np.all(X == 1)


# ---------------------------------------------------------------------------------------------------------------------
# Mistakes under the C names


def desc(size: Any = (4,), layout: Any = VECTOR, kind: Any = FLOAT32, data: Any = "new", **more: Any) -> Any:
    t = Tensor(layout, tuple(size), data_type=kind)
    data = np.ones(t.count, t.dtype) if isinstance(data, str) else data
    return capi.BNNSNDArrayDescriptor(layout=layout, size=size, data=data, data_type=kind, **more)


def idx(*values: int) -> Any:
    return desc((len(values),), kind=INT32, data=np.array(values, np.int32))


F2, F4 = FIRST_MAJOR_2D, FIRST_MAJOR[4]
READ_ONLY = np.ones(4, np.float32)
READ_ONLY.flags.writeable = False
ONE_ALLOCATOR = capi.BNNSFilterParameters(alloc_memory=lambda *a: 0)
BAD: list[tuple[str, Any, str, int]] = [
    ("BNNSCopy", lambda: (None, desc()), "dest is NULL", -1),
    ("BNNSCopy", lambda: (desc(), None), "src is NULL", -1),
    ("BNNSCopy", lambda: (desc(data=None), desc()), "dest.data is NULL", -1),
    ("BNNSCopy", lambda: (desc((5,)), desc()), "logical shape", -1),
    ("BNNSCopy", lambda: (desc((3, 2), ROW_MAJOR), desc((3, 2), COLUMN_MAJOR)), r"logically \(2, 3\)", -1),
    ("BNNSCopy", lambda: (desc(data=READ_ONLY), desc()), "read-only", -1),
    ("BNNSCopy", lambda: (desc(), desc(data=np.ones(3, np.float32))), "holds 12 bytes", -1),
    ("BNNSCopy", lambda: (desc(layout=0x999), desc()), "no BNNSDataLayout", -1),
    ("BNNSCopy", lambda: (desc(), desc(), ONE_ALLOCATOR), "free_memory is NULL", -1),
    ("BNNSTranspose", lambda: (desc((3, 2), F2), desc((2, 3), F2), 0, 2), "axis1 is 2", -1),
    ("BNNSTranspose", lambda: (desc((3, 2), F2), desc((2, 3), F2), -1, 1), "axis0 is -1", -1),
    ("BNNSTranspose", lambda: (desc((2, 3), F2), desc((2, 3), F2), 0, 1), r"its size is \(3, 2\)", -1),
    ("BNNSTile", lambda: (desc((2,)), desc((3,))), "a multiple of", -1),
    ("BNNSTile", lambda: (desc((2,)), desc((2, 2), F2)), "a multiple of", -1),
    ("BNNSTileBackward", lambda: (desc((2,)), desc((5,))), "a multiple of", -1),
    ("BNNSTileBackward", lambda: (desc((2,), kind=INT8), desc((4,))), "training works on Float32", -1),
    ("BNNSTileBackward", lambda: (desc((2,), flags=2), desc((4,))), "flags is 2", -1),
    ("BNNSTileBackward", lambda: (None, desc((4,))), "in_delta is NULL", -1),
    ("BNNSCompareTensor", lambda: (desc(), desc(), 12, desc(kind=BOOLEAN)), "op is 12", -1),
    ("BNNSCompareTensor", lambda: (desc(), desc(), 0, desc(kind=INT8)), "out.data_type is Int8", -1),
    ("BNNSCompareTensor", lambda: (desc(), desc((3,)), 0, desc(kind=BOOLEAN)), "same size", -1),
    ("BNNSCompareTensor", lambda: (desc(), desc(), 0, desc((5,), kind=BOOLEAN)), "same size", -1),
    ("BNNSCompareTensor", lambda: (desc(), None, 0, desc(kind=BOOLEAN)), "in1 is NULL", -1),
    ("BNNSGather", lambda: (0, desc(), idx(0, 4), desc((2,))), "indices holds 4", -1005),
    ("BNNSGather", lambda: (0, desc(), idx(0, -1), desc((2,))), "indices holds -1", -1005),
    ("BNNSGather", lambda: (0, desc(), idx(0, 1, 2), desc((2,))), "Pass 2 indices", -1003),
    ("BNNSGather", lambda: (0, desc((2, 3), F2), idx(0), desc((1, 2), F2)), "differ in axis 0", -1003),
    ("BNNSGather", lambda: (1, desc(), idx(0), desc((1,))), "axis is 1, but Vector", -1),
    ("BNNSGather", lambda: (0, desc(), desc((1,)), desc((1,))), "indices are integers", -1),
    ("BNNSScatter", lambda: (0, 0, desc((2,)), idx(0, 1), desc()), "op is 0", -1),
    ("BNNSScatter", lambda: (0, SUM, desc((2,)), idx(0, 4), desc()), "indices holds 4", -1005),
    ("BNNSScatter", lambda: (0, NONE, desc((2,)), idx(0), desc()), "Pass 2 indices", -1003),
    ("BNNSGatherND", lambda: (desc((2, 2), F2), desc((1, 3), F2, INT32), desc((1,))), "vectors of 3 entries", -1003),
    ("BNNSGatherND", lambda: (desc((2, 2), F2), desc((3, 1), F2, INT32), desc((3, 3), F2)), "logical shape", -1003),
    ("BNNSGatherND", lambda: (desc((1, 2), F2), desc((3, 1), F2, INT32), desc((3, 2), F2)), "holds 1", -1005),
    ("BNNSScatterND", lambda: (SUM, desc((3, 2), F2), desc((3, 1), F2, INT32), desc((1, 2), F2)), "holds 1", -1005),
    ("BNNSShuffle", lambda: (4, desc((1, 4, 1, 1), F4), desc((1, 1, 2, 2), F4)), "type is 4", -1),
    ("BNNSShuffle", lambda: (0, desc((1, 4, 1, 1), LAST_MAJOR[4]), desc((1, 1, 2, 2), F4)), "4DFirstMajor", -1),
    ("BNNSShuffle", lambda: (0, desc((1, 3, 1, 1), F4), desc((1, 1, 2, 2), F4)), "blocks of b x b", -1),
    ("BNNSShuffle", lambda: (0, desc((1, 1, 2, 2), F4), desc((1, 4, 1, 1), F4)), "blocks of b x b", -1),
    ("BNNSBandPart", lambda: (0, 0, desc((2, 2), F2), desc((2, 3), F2)), "same layout and size", -1),
    ("BNNSBandPart", lambda: (0, 0, desc(), desc()), "two axes or more", -1),
    ("BNNSBandPart", lambda: (0, 0, desc((2, 2), F2, stride=(1, 3), data=np.ones(6, np.float32)), desc((2, 2), F2)),
     "packed tensors only", -1),
    ("BNNSDirectApplyTopK", lambda: (5, 0, 1, desc(), 0, desc((5,)), 0, None, 0), "K is 5", -1),
    ("BNNSDirectApplyTopK", lambda: (0, 0, 1, desc(), 0, desc((5,)), 0, None, 0), "K is 0", -1),
    ("BNNSDirectApplyTopK", lambda: (2, 1, 1, desc(), 0, desc((2,)), 0, None, 0), "axis is 1", -1),
    ("BNNSDirectApplyTopK", lambda: (2, 0, 1, desc(), 0, desc((3,)), 0, None, 0), r"have size \(2,\)", -1),
    ("BNNSDirectApplyTopK", lambda: (2, 0, 1, desc(), 0, None, 0, None, 0), "best_values is NULL", -1),
    ("BNNSDirectApplyTopK", lambda: (2, 0, 1, desc(), 0, desc((2,)), 0, desc((2,)), 0), "indices are integers", -1),
    ("BNNSDirectApplyTopK", lambda: (1, 0, 1, desc((200,)), 0, desc((1,)), 0, desc((1,), kind=INT8), 0), "wider type", -1),
    ("BNNSDirectApplyTopK", lambda: (2, 0, 2, desc(), 0, desc((2,)), 0, None, 0), "holds 8 bytes|holds 16 bytes", -1),
    ("BNNSDirectApplyTopK", lambda: (2, 0, -1, desc(), 0, desc((2,)), 0, None, 0), "batch_size is -1", -1),
    ("BNNSDirectApplyInTopK", lambda: (2, 0, 1, desc(), 0, idx(4), 0, desc((1,), kind=BOOLEAN), 0), "holds 4", -1005),
    ("BNNSDirectApplyInTopK", lambda: (2, 0, 1, desc(), 0, idx(0, 1), 0, desc((1,), kind=BOOLEAN), 0), "without axis 0", -1),
    ("BNNSDirectApplyInTopK", lambda: (2, 0, 1, desc(), 0, idx(0), 0, desc((1,)), 0), "output.data_type is Float32", -1),
    ("BNNSDirectApplyInTopK", lambda: (9, 0, 1, desc(), 0, idx(0), 0, desc((1,), kind=BOOLEAN), 0), "K is 9", -1),
]  # fmt: skip


@pytest.mark.parametrize(("name", "make", "message", "code"), BAD, ids=lambda v: v if isinstance(v, str) else "")
def test_bad_calls(engine: str, name: str, make: Any, message: str, code: int) -> None:
    arguments = make()
    before = [a.data.copy() if isinstance(getattr(a, "data", None), np.ndarray) else None for a in arguments]
    assert getattr(capi, name)(*arguments) == code, bn.last_error()
    assert re.search(f"^{name}: .*({message})", str(bn.last_error())), bn.last_error()
    for argument, old in zip(arguments, before, strict=True):
        if old is not None:
            np.testing.assert_array_equal(argument.data, old)


@pytest.mark.parametrize("name", ["BNNSCopy", "BNNSTranspose", "BNNSTile"])
def test_overlap_is_refused(engine: str, name: str) -> None:
    memory = np.arange(6, dtype=np.float32)
    x, y = Tensor(F2, (2, 2)).descriptor(memory[:4]), Tensor(F2, (2, 2)).descriptor(memory[2:])
    arguments = (x, y) if name == "BNNSTile" else (y, x, 0, 1) if name == "BNNSTranspose" else (y, x)
    assert getattr(capi, name)(*arguments) == -1
    assert "share memory" in str(bn.last_error())
    assert memory.tolist() == [0, 1, 2, 3, 4, 5]


def test_impossible_types() -> None:
    for call in (
        lambda: capi.BNNSCopy(np.ones(4), desc()),
        lambda: capi.BNNSGather(0.5, desc(), idx(0), desc((1,))),  # type: ignore[arg-type]
        lambda: capi.BNNSCompareTensor(desc(), desc(), "Less", desc(kind=BOOLEAN)),  # type: ignore[arg-type]
        lambda: capi.BNNSCopy(desc(), desc(), 1),  # type: ignore[arg-type]
        lambda: capi.BNNSBandPart(0.0, 0, desc((2, 2), F2), desc((2, 2), F2)),  # type: ignore[arg-type]
    ):
        with pytest.raises(TypeError):
            call()
