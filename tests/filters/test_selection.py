"""Gather, scatter and top-k: any layout, size, stride and type, against NumPy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import openbnns as bn
from cases._base import succeed
from cases.moves import any_layout, best, check, numbered, random_storage, random_tensor, strided, tensor_of
from helpers import (
    BOOLEAN,
    FLOAT32,
    INT8,
    INT32,
    INT64,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
    VECTOR,
    Storage,
    Tensor,
    vector,
)  # fmt: skip
from openbnns import Shape, capi

SUM, NONE = capi.BNNSReduceFunctionSum, capi.BNNSReduceFunctionNone


@pytest.mark.covers("direct.gather", "fn.BNNSGather")
@pytest.mark.parametrize("seed", range(60))
def test_gather(engine: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    t = random_tensor(rng)
    axis, per_element = int(rng.integers(len(t.size))), bool(rng.integers(2))
    count = int(rng.integers(1, 9))
    whole = numbered(t, np.empty(t.size)).shape
    shape = tuple(count if a == axis else n for a, n in enumerate(whole))
    integer = [INT8, UINT8, INT32, UINT32, INT64, UINT64][rng.integers(6)]
    index_type = (
        strided(rng, tensor_of(any_layout(rng, len(shape)), shape, integer))
        if per_element
        else strided(rng, vector(count, data_type=integer))
    )
    indices = rng.integers(0, whole[axis], shape if per_element else count)
    x, i = random_storage(t, rng), Storage(index_type, values=numbered(index_type, indices)[None].astype(np.float64))
    y = Storage(strided(rng, tensor_of(any_layout(rng, len(shape)), shape, t.data_type)))
    succeed(capi.BNNSGather(axis, x.descriptor(), i.descriptor(), y.descriptor()))
    values = numbered(t, x.read()[0])
    expected = np.take_along_axis(values, indices, axis) if per_element else np.take(values, indices, axis)
    check(y, numbered(y.tensor, expected)[None], x, i)


@pytest.mark.covers("direct.scatter", "fn.BNNSScatter")
@pytest.mark.parametrize("op", [NONE, SUM])
@pytest.mark.parametrize("seed", range(40))
def test_scatter(engine: str, seed: int, op: int) -> None:
    rng = np.random.default_rng(seed)
    t = random_tensor(rng)
    axis, per_element = int(rng.integers(len(t.size))), bool(rng.integers(2))
    count = int(rng.integers(1, 9))
    whole = numbered(t, np.empty(t.size)).shape
    shape = tuple(count if a == axis else n for a, n in enumerate(whole))
    indices = rng.integers(0, whole[axis], shape if per_element else (count,))
    i = described(rng, indices.astype(np.float64), INT32)
    x = described(rng, rng.integers(0, 5, shape).astype(np.float64), t.data_type)
    y = Storage(t, values=rng.integers(0, 5, (1, *t.size)).astype(np.float64))
    expected, part = numbered(t, y.read()[0]), numbered(x.tensor, x.read()[0])
    for place in np.ndindex(shape):  # in the order in which the indices count
        to = list(place)
        to[axis] = int(indices[place] if per_element else indices[place[axis]])
        expected[tuple(to)] = part[place] + (expected[tuple(to)] if op == SUM else 0)
    succeed(capi.BNNSScatter(axis, op, x.descriptor(), i.descriptor(), y.descriptor()))
    check(y, numbered(t, expected)[None], x, i)


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
        actual = np.zeros(where.shape, index_type)
        bn.apply_top_k(k, whole, values, actual, axis=axis)
        np.testing.assert_array_equal(actual, where)
        np.testing.assert_array_equal(values, np.take_along_axis(whole, where, axis))
        values.fill(0)
        actual.fill(0)
        succeed(capi.BNNSDirectApplyTopK(k, axis, 1, described(whole, code), 0, described(values, code), 0,
                described(actual, index_code), 0))  # fmt: skip
        np.testing.assert_array_equal(actual, where)
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
    shape = numbered(t, np.empty(t.size)).shape
    length = int(rng.integers(1, len(shape) + 1))
    lead = tuple(int(n) for n in rng.integers(1, 5, int(rng.integers(0, 3))))
    vectors = np.stack([rng.integers(0, n, lead) for n in shape[:length]], axis=-1)
    return t, vectors, (*lead, *shape[length:]) or (1,), length


def described(rng: np.random.Generator, values: Any, data_type: Any) -> Storage:
    """Storage of values that are in the order of axis numbers."""
    t = strided(rng, tensor_of(any_layout(rng, values.ndim), values.shape, data_type))
    return Storage(t, values=numbered(t, values)[None])


@pytest.mark.covers("direct.gathernd", "fn.BNNSGatherND", "direct.scatternd", "fn.BNNSScatterND")
@pytest.mark.parametrize("seed", range(60))
def test_gather_and_scatter_nd(engine: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    t, vectors, shape, length = nd_tensors(rng)
    x, i = random_storage(t, rng), described(rng, vectors.astype(np.float64), INT64)
    places = tuple(vectors[..., k] for k in range(length))
    values = numbered(t, x.read()[0])
    picked = values[places].reshape(shape)
    y = described(rng, np.zeros(shape), t.data_type)
    succeed(capi.BNNSGatherND(x.descriptor(), i.descriptor(), y.descriptor()))
    check(y, numbered(y.tensor, picked)[None], x, i)

    part = described(rng, rng.integers(0, 5, shape).astype(np.float64), t.data_type)
    source = numbered(part.tensor, part.read()[0]).reshape(values[places].shape)
    for op in (NONE, SUM):
        out = Storage(t, values=x.read())
        expected = values.copy()
        if op == SUM:
            np.add.at(expected, places, source)
        else:
            for place in np.ndindex(vectors.shape[:-1]):
                expected[tuple(vectors[place])] = source[place]
        succeed(capi.BNNSScatterND(op, part.descriptor(), i.descriptor(), out.descriptor()))
        check(out, numbered(t, expected)[None], part, i)


@pytest.mark.covers("direct.topk", "fn.BNNSDirectApplyTopK", "direct.intopk", "fn.BNNSDirectApplyInTopK")
@pytest.mark.parametrize("seed", range(60))
def test_top_k(engine: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    t = random_tensor(rng, most=9)
    axis, batch, gap = int(rng.integers(len(t.size))), int(rng.integers(1, 4)), int(rng.integers(0, 3))
    whole = numbered(t, np.empty(t.size)).shape
    k = int(rng.integers(1, whole[axis] + 1))
    values = rng.integers(0, 4, (batch, *whole)).astype(np.float64)  # many ties
    if t.data_type == FLOAT32:
        values[rng.random(values.shape) < 0.1] = np.nan
        values[rng.random(values.shape) < 0.1] = -0.0
        values[rng.random(values.shape) < 0.1] = -np.inf
    x = Storage(t, batch, gap, values=numbered(t, values))
    shape = tuple(k if a == axis else n for a, n in enumerate(whole))
    v = Storage(strided(rng, tensor_of(any_layout(rng, len(shape)), shape, t.data_type)), batch, gap)
    integer = [INT8, UINT16, INT32, INT64, UINT64][rng.integers(5)]
    i = Storage(strided(rng, tensor_of(any_layout(rng, len(shape)), shape, integer)), batch, gap)
    where = best(values, k, axis + 1)
    for with_indices in (True, False):
        succeed(
            capi.BNNSDirectApplyTopK(
                k, axis, batch, x.descriptor(), x.stride, v.descriptor(), v.stride,
                i.descriptor() if with_indices else None, i.stride,
            )
        )  # fmt: skip
        check(v, numbered(v.tensor, np.take_along_axis(values, where, axis + 1)), x)
        check(i, numbered(i.tensor, where.astype(np.float64)))
        v.write(np.zeros((batch, *v.tensor.size)))

    kept = tuple(n for a, n in enumerate(whole) if a != axis) or (1,)
    tests = strided(rng, tensor_of(any_layout(rng, len(kept)), kept, integer))
    index = rng.integers(0, whole[axis], (batch, *kept))
    tested_at = Storage(tests, batch, gap, values=numbered(tests, index).astype(np.float64))
    y = Storage(strided(rng, tensor_of(any_layout(rng, len(kept)), kept, BOOLEAN)), batch, gap)
    succeed(
        capi.BNNSDirectApplyInTopK(
            k, axis, batch, x.descriptor(), x.stride, tested_at.descriptor(), tested_at.stride, y.descriptor(), y.stride
        )
    )
    index = index.reshape([1 if a == axis + 1 else n for a, n in enumerate(values.shape)])
    tested = np.take_along_axis(values, index, axis + 1)
    larger = (values > tested) | (np.isnan(values) & ~np.isnan(tested))
    among = (larger.sum(axis + 1) < k).reshape(batch, *kept).astype(np.float64)
    check(y, numbered(y.tensor, among), x, tested_at)


@pytest.mark.parametrize(
    ("rows", "length", "k"),
    [
        (40, 5000, 8),
        (3, 100_000, 1),
        (5, 3000, 2999),
        (7, 999, 300),
        (300, 64, 2),
        (200, 7, 7),
        (9, 4096, 16),
        (9, 1000, 100),
        (20, 40, 17),
        (4, 4096, 256),
    ],
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
        top = bn.apply_top_k(k, x)
        np.testing.assert_array_equal(top.indices, where)
        np.testing.assert_array_equal(top.values, np.take_along_axis(x, where, 1))
        columns = bn.apply_top_k(k, np.ascontiguousarray(x.T), axis=0)
        np.testing.assert_array_equal(columns.indices.T, where)
        chosen = where[:, -1]
        assert bn.apply_in_top_k(k, x, chosen).all()


def test_top_k_of_integers_is_exact(engine: str) -> None:
    x = np.array([2**62, 2**62 + 1, 2**62 + 2, -5], np.int64)
    assert bn.apply_top_k(2, x).indices.tolist() == [2, 1]
    x = np.array([2**63, 2**63 + 1, 5, 2**64 - 1], np.uint64)
    top = bn.apply_top_k(3, x)
    assert top.indices.tolist() == [3, 1, 0] and top.values.tolist() == [2**64 - 1, 2**63 + 1, 2**63]
    assert bn.apply_in_top_k(1, x, np.array([3])).tolist() == [True]
    falling = vector(3, data_type=INT8, scale=-2.0)  # values -2, -4, 6
    y, i = np.zeros(1, np.int8), np.zeros(1, np.int32)
    succeed(capi.BNNSDirectApplyTopK(1, 0, 1, falling.descriptor(np.array([1, 2, -3], np.int8)), 0,
            replace(falling, size=(1,)).descriptor(y), 0, vector(1, data_type=INT32).descriptor(i), 0))  # fmt: skip
    assert (y.tolist(), i.tolist()) == ([-3], [2])


def test_indices_that_nobody_wants_on_the_best_values(engine: str) -> None:
    """The call runs, what is not shared is right, and strict mode warns."""
    x, memory = np.array([3, 9, 1, 7], np.float32), np.zeros(4, np.int32)
    values = Shape.vector(3).descriptor(data=memory[:3].view(np.float32))
    indices = capi.BNNSNDArrayDescriptor(
        layout=capi.BNNSDataLayoutVector, size=(3,), data_type=capi.BNNSDataTypeInt32, data=memory[1:]
    )
    given = (3, 0, 1, Shape.vector(4).descriptor(data=x), 4, values, 3, indices, 3)
    with bn.strict(), pytest.warns(bn.StrictWarning, match="TopK: best_values and best_indices share memory"):
        succeed(capi.BNNSDirectApplyTopK(*given))
    assert memory[:1].view(np.float32).tolist() == [9] and memory[3] == 0
    memory[:] = 5
    succeed(capi.BNNSDirectApplyTopK(*given))
    assert memory[:1].view(np.float32).tolist() == [9] and memory[3] == 0
