"""Pooling: values, gradients, memory and switches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import openbnns as ob
from bad_calls import refused
from cases import pooling as cases
from cases._base import Act, created, native, succeed
from cases.pooling import INDEX_TYPES, NO_CELL, PoolingCase, case, simple
from helpers import Array, assert_bitwise, assert_within
from openbnns import capi, compat, engines


def by_definition(c: PoolingCase, x: Array) -> tuple[Array, Array]:
    """Values (without bias) and Max indices: plain loops over the windows. x is (N, W, H, C) in the order of size[]."""
    up, _, left, _ = c.edges
    width, height, _ = c.x.size
    y, winners = np.zeros((len(x), *c.y.size)), np.full((len(x), *c.y.size), NO_CELL, np.int64)
    for n, ox, oy, ch in np.ndindex(y.shape):
        cells = []
        for ky, kx in np.ndindex(c.kernel):
            row, column = oy * c.step[0] + ky * c.dilation[0] - up, ox * c.step[1] + kx * c.dilation[1] - left
            if 0 <= row < height and 0 <= column < width:
                cells.append((x[n, column, row, ch], row * width + column))
        numbers = [value for value, _ in cells]
        if c.function == "Max" and cells:
            best = cells[0]
            for cell in cells[1:]:
                best = cell if cell[0] > best[0] or np.isnan(cell[0]) else best
            y[n, ox, oy, ch], winners[n, ox, oy, ch] = best
        elif c.function == "L2Norm":
            y[n, ox, oy, ch] = np.sqrt(sum(v * v for v in numbers))
        elif c.function == "AverageCountExcludePadding":
            y[n, ox, oy, ch] = sum(numbers) / max(len(numbers), 1)
        elif c.function != "Max":
            y[n, ox, oy, ch] = sum(numbers) / (c.kernel[0] * c.kernel[1])
    return y, winners


# ---------------------------------------------------------------------------------------------------------------------
# Values


@pytest.mark.parametrize("c", [c for c in cases.SHAPES if c.y.count * c.batch < 2000], ids=lambda c: c.id)
def test_forward_by_definition(c: PoolingCase, engine: str) -> None:
    """Values and indices against loops over the windows."""
    values = c.values()
    expected, winners = by_definition(c, values["x"])
    expected = expected + (values["b"].reshape(1, 1, 1, -1) if c.b else 0.0)
    run = c.run(values)
    run.forward()
    assert_within(run.y.read(), expected, c.forward_bound(values, expected), c.id)
    if run.indices is not None:
        np.testing.assert_array_equal(run.indices.read(), winners)


@pytest.mark.parametrize("c", cases.UNMAX, ids=lambda c: c.id)
def test_unmax_by_definition(c: PoolingCase, engine: str) -> None:
    values = c.values()
    width, height, channels = c.y.size
    expected = np.zeros((c.batch, channels, height * width))
    places, x = (values[name].transpose(0, 3, 2, 1).reshape(c.batch, channels, -1) for name in ("indices", "x"))
    np.put_along_axis(expected, places, x, axis=2)
    expected = expected.reshape(c.batch, channels, height, width).transpose(0, 3, 2, 1)
    run = c.run(values)
    y = run.forward() - (np.float32(values["b"]).reshape(1, 1, 1, -1) if c.b else np.float32(0))
    assert_within(y.astype(np.float64), expected, 1e-6, c.id)
    dy = values["dy"].transpose(0, 3, 2, 1).reshape(c.batch, channels, -1)
    wanted = np.take_along_axis(dy, places, axis=2).reshape(c.batch, channels, c.x.size[1], c.x.size[0])
    np.testing.assert_array_equal(run.backward(["dx"])["dx"].read(), wanted.transpose(0, 3, 2, 1))


@pytest.mark.parametrize("c", cases.NO_INDICES, ids=lambda c: c.id)
@pytest.mark.covers("pool.no_indices", "pool.idx_size_t", "pool.idx_u32", "pool.idx_u64")
def test_indices_do_not_change_values(c: PoolingCase) -> None:
    """With indices of any type, or without: the same bits forward; recomputed winners give the same gradients."""
    values = c.values()
    runs = [replace(c, index=kind).run(values) for kind in ("", *INDEX_TYPES)]
    ys = [run.forward() for run in runs]
    gradients = [run.backward()["dx"].raw() for run in runs]
    for y, dx in zip(ys[1:], gradients[1:], strict=True):
        assert_bitwise(y, ys[0], "y")
        np.testing.assert_allclose(dx, gradients[0], rtol=1e-5, atol=1e-6)  # sums in another order
    indices = [run.indices.read() for run in runs if run.indices is not None]
    for other in indices[1:]:
        np.testing.assert_array_equal(other, indices[0])


def pooled(c: PoolingCase, plane: Array) -> tuple[Array, Array, Array]:
    """Output, indices and input gradient (of ones) of one plane, as (H, W)."""
    run = c.run({"x": np.asarray(plane, float).T[None, :, :, None], "dy": np.ones((1, *c.y.size))})
    run.forward()
    assert run.indices is not None
    dx = run.backward()["dx"].read()
    return run.y.read()[0, :, :, 0].T, run.indices.read()[0, :, :, 0].T, dx[0, :, :, 0].T


@pytest.mark.covers("pool.Max.fwd", "pool.Max.bwd", "pool.idx_size_t")
@pytest.mark.parametrize("width", [4, 40])
@pytest.mark.parametrize("step", [1, 2])
def test_ties_go_to_the_first_cell(width: int, step: int, engine: str) -> None:
    c = simple(size=(4, width), step=(step, step))
    y, indices, dx = pooled(c, np.zeros((4, width)))
    assert not y.any()
    rows, columns = np.indices(indices.shape) * step
    np.testing.assert_array_equal(indices, rows * width + columns)
    expected = np.zeros((4, width))
    expected[rows, columns] = 1
    np.testing.assert_array_equal(dx, expected)
    again = replace(c, index="").run({"x": np.zeros((1, width, 4, 1)), "dy": np.ones((1, *c.y.size))})
    again.forward()
    np.testing.assert_array_equal(again.backward()["dx"].read()[0, :, :, 0].T, expected)


@pytest.mark.parametrize("kernel", [2, 3])
def test_nan_wins(kernel: int, engine: str) -> None:
    """A NaN is the largest, the last one if there are several, as in PyTorch; other windows are not touched by it."""
    plane = np.arange(36.0).reshape(6, 6)
    plane[0, 1] = plane[0, 0] = plane[4, 5] = np.nan
    c = simple(size=(6, 6), kernel=(kernel, kernel), step=(kernel, kernel))
    y, indices, _ = pooled(c, plane)
    assert np.isnan(y[0, 0]) and indices[0, 0] == 1
    assert np.isnan(y[-1, -1]) and indices[-1, -1] == 4 * 6 + 5
    assert np.isnan(y).sum() == 2
    plain = replace(c, index="").run({"x": plane.T[None, :, :, None], "dy": np.ones((1, *c.y.size))})
    plain.forward()
    np.testing.assert_array_equal(plain.y.read()[0, :, :, 0].T, y)
    dx = plain.backward()["dx"].read()[0, :, :, 0].T
    assert dx[0, 1] == dx[4, 5] == 1 and dx[0, 0] == 0


@pytest.mark.parametrize("step", [1, 2, 3])
def test_infinities(step: int, engine: str) -> None:
    """Minus infinity is a value like others: where nothing is larger, the first cell inside wins."""
    c = simple(size=(5, 7), kernel=(3, 3), step=(step, step), symmetric=(1, 1))
    plane = np.full((5, 7), -np.inf)
    y, indices, dx = pooled(c, plane)
    assert np.all(y == -np.inf)
    np.testing.assert_array_equal(indices, by_definition(c, plane.T[None, :, :, None])[1][0, :, :, 0].T)
    assert dx.sum() == indices.size
    plane[2, 3] = np.inf
    y, indices, _ = pooled(c, plane)
    assert np.any(y == np.inf) and set(indices[y == np.inf].flat) == {2 * 7 + 3}


@pytest.mark.covers("pool.padding")
@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("index", ["", "size_t"])
def test_padding_never_wins(step: int, index: str, engine: str) -> None:
    c = simple(index=index, size=(6, 7), kernel=(3, 3), step=(step, step), symmetric=(1, 1), channels=3, batch=2)
    values = c.values()
    values["x"] = -1.0 - np.abs(values["x"])
    run = c.run(values)
    run.forward()
    assert np.all(run.y.read() <= -1.0)
    assert np.sum(run.backward()["dx"].read()) == pytest.approx(np.sum(values["dy"]), rel=1e-5)


@pytest.mark.covers("pool.padding", "pool.overhang")
@pytest.mark.parametrize(
    ("function", "index"), [*((f, "") for f in cases.WINDOWED), *(("Max", kind) for kind in INDEX_TYPES)]
)
def test_windows_without_a_cell(function: str, index: str, engine: str) -> None:
    """Value 0 (plus bias), index all ones, no gradient."""
    c = simple(function, index, size=(3, 3), symmetric=(2, 3), step=(1, 1), bias=True, channels=2)
    values = c.values()
    run = c.run(values)
    y = np.float64(run.forward()) - np.float32(values["b"]).astype(np.float64).reshape(1, 1, 1, -1)
    empty = by_definition(replace(c, function="Max"), values["x"])[1] == NO_CELL
    assert 0 < empty.sum() < empty.size and np.all(np.abs(y[empty]) < 1e-6)
    if run.indices is not None:
        raw = run.indices.elements[run.indices.places]
        np.testing.assert_array_equal(raw == np.iinfo(raw.dtype).max, empty)
    run.dy.write(np.where(empty, 1e6, 0.0))
    assert not run.backward(["dx"])["dx"].read().any()


def _wide_windows(rng: np.random.Generator, function: str, index: str) -> PoolingCase | None:
    """Windows of which most taps meet no cell of the image; ``None`` if no windows fit."""
    kernel, size = tuple(rng.integers(1, 5, 2)), tuple(rng.integers(1, 10, 2))
    dilation, step = tuple(rng.integers(1, 60, 2)), tuple(rng.integers(1, 4, 2))
    padding, channels = tuple(rng.integers(0, 90, 2)), int(rng.choice([1, 3, 20]))
    room = [s + 2 * p - (k - 1) * d for s, p, k, d in zip(size, padding, kernel, dilation, strict=True)]
    if min(room) < 1 or max(room) > 40:
        return None
    return simple(function, index, size=size, kernel=kernel, dilation=dilation, step=step, symmetric=padding,
                  channels=channels)  # fmt: skip


@pytest.mark.parametrize(
    ("function", "index"), [*((f, "") for f in cases.WINDOWED), *(("Max", kind) for kind in INDEX_TYPES)]
)
def test_taps_that_meet_no_cell(function: str, index: str) -> None:
    """They change nothing, and cost nothing: a dilation of thousands is no more work than one of ten."""
    rng = np.random.default_rng(len(function) + len(index))
    tried = 0
    while tried < 60:
        c = _wide_windows(rng, function, index)
        if c is None:
            continue
        tried += 1
        values = c.values()
        expected, winners = by_definition(c, values["x"])
        actual, run = native(c), c.run(values)
        assert_within(actual.y, expected, c.forward_bound(values, expected), str(c))
        run.forward()
        if run.indices is not None:
            np.testing.assert_array_equal(run.indices.read(), winners)
        with ob.engine("reference"):
            wanted = c.run(values)
            wanted.forward()
            gradients = {name: storage.read() for name, storage in wanted.backward().items()}
        bounds = c.backward_bounds(values, expected)
        for name, gradient in gradients.items():
            assert_within(actual.gradients[name], gradient, bounds[name], f"{name} of {c}")
    huge = simple(
        function, index, size=(8, 8), kernel=(3, 3), dilation=(4000, 4000), step=(1, 1), symmetric=(4000, 4000)
    )
    plain = simple(function, index, size=(8, 8), kernel=(3, 3), dilation=(50, 50), step=(1, 1), symmetric=(50, 50))
    results = [native(c) for c in (huge, plain)]
    assert_bitwise(results[0].y, results[1].y, "y")
    assert_bitwise(results[0].gradients["dx"], results[1].gradients["dx"], "dx")


@pytest.mark.parametrize("function", ["L2Norm", "AverageCountExcludePadding"])
def test_zeros(function: str, engine: str) -> None:
    """The norm of zeros has no slope; none is given."""
    c = simple(function, "", size=(5, 5), kernel=(3, 3), symmetric=(1, 1))
    run = c.run({"x": np.zeros((1, 5, 5, 1)), "dy": np.ones((1, *c.y.size))})
    assert not run.forward().any()
    dx = run.backward()["dx"].read()
    assert np.isfinite(dx).all() and dx.any() == (function != "L2Norm")


# ---------------------------------------------------------------------------------------------------------------------
# Gradients by finite differences


DIFFERENTIABLE = [
    c for c in [*cases.SHAPES, *cases.UNMAX, *cases.GENERIC, *cases.FUSED, *cases.MEMORY]
    if c.trains and c.x.count <= 400 and c.y.count <= 400
]  # fmt: skip


@pytest.mark.parametrize("c", DIFFERENTIABLE, ids=lambda c: c.id)
@pytest.mark.covers("pool.bias_grad", "pool.act_bwd")
def test_gradcheck(c: PoolingCase, engine: str) -> None:
    report = ob.gradcheck(c.run().filter, verbose=False, directions=1, tolerance=1e-3)
    assert {row.name for row in report.rows} == {"input", *(["bias"] if c.b else [])}
    shifts_nothing = "oftmax" in c.activation.name  # a bias is the same along a row, and its gradient 0
    rows = [row for row in report.rows if row.name == "input" or not shifts_nothing]
    assert all(row.passed for row in rows), str(report)


def test_gradcheck_tells_when_unmax_overwrites() -> None:
    c = simple("UnMax", size=(2, 2), kernel=(2, 2), step=(1, 1), symmetric=(2, 2))
    with pytest.raises(ob.LayerApplyError, match="more inputs than positions"):
        ob.gradcheck(created(c.create(None, None, 0)))


# ---------------------------------------------------------------------------------------------------------------------
# Threads, scratch, fast calls, memory


@pytest.mark.parametrize("function", [*cases.WINDOWED, "UnMax"])
@pytest.mark.parametrize("kernel", [2, 3])
def test_thread_counts_agree_bitwise(function: str, kernel: int) -> None:
    index = "u32" if function in ("Max", "UnMax") else ""
    c = case("threads", function, 13, (30, 41), (kernel, kernel), step=(2, 2), batch=9, index=index, bias=True,
             activation=Act("Tanh"))  # fmt: skip
    values = c.values()
    first: dict[str, Array] = {}
    for threads in (1, 2, 3, 7):
        run = c.run(values, threads)
        results = {"y": run.forward(), **{name: s.raw() for name, s in run.backward().items()}}
        if run.indices is not None:
            results["indices"] = run.indices.read()
        for name, array in results.items():
            assert_bitwise(array, first.setdefault(name, array), f"{name} with {threads} threads")


def test_scratch_content_does_not_matter() -> None:
    for c in [*cases.SHAPES, *cases.UNMAX[:4], *cases.NO_INDICES]:
        expected = native(c)
        engines._core.set_scratch_poison(True)
        try:
            run = c.run(expected.values)
            assert_bitwise(run.forward(), expected.y, c.id)
            for name, storage in run.backward().items():
                assert_bitwise(storage.read(), expected.gradients[name], c.id)
        finally:
            engines._core.set_scratch_poison(False)


FAST = [
    simple(function, index, size=(6, 8), channels=3, batch=4, bias=True, activation=act)
    for function in ("Max", "UnMax", "L2Norm", "AverageCountIncludePadding")
    for index in (*INDEX_TYPES, *(() if function == "UnMax" else ("",)))
    for act in (Act(), Act("Tanh"))
]


@pytest.mark.parametrize("c", FAST, ids=lambda c: f"{c.function}-{c.index}-{c.activation.name}")
def test_packed_float32_goes_straight_to_native_code(c: PoolingCase, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fast call takes both directions; without it the results are the same bits."""
    values = c.values()
    slow = c.run(values)
    engines._core.set_fast_calls(False)
    expected = slow.forward(), {name: s.raw() for name, s in slow.backward().items()}
    engines._core.set_fast_calls(True)
    run = c.run(values)

    def refuse(*_: Any) -> None:
        raise AssertionError("the fast call was not taken")

    monkeypatch.setattr(type(run.filter), "perform", refuse)
    assert_bitwise(run.forward(), expected[0], "y")
    for name, storage in run.backward().items():
        assert_bitwise(storage.raw(), expected[1][name], name)


def test_fast_calls_end_with_the_filter() -> None:
    c = simple()
    run = c.run()
    run.forward()
    capi.BNNSFilterDestroy(run.filter)
    assert not run.filter.fast
    refused(
        capi.BNNSPoolingFilterApplyBatch(run.filter, 1, run.x.elements, 0, run.y.elements, 0, None, 0),
        "has been destroyed",
    )


@pytest.mark.parametrize("kind", INDEX_TYPES)
@pytest.mark.parametrize("function", ["Max", "UnMax"])
def test_misaligned_indices(kind: str, function: str, engine: str) -> None:
    """Indices may lie at any address."""
    c = simple(function, kind, batch=2, channels=2)
    values = c.values()
    run = c.run(values)
    expected = run.forward()
    moved = cases.IndexMemory(c.small, 2, 0, kind, misaligned=3)
    if c.unpools:
        moved.write(values["indices"])
    first = run.indices
    run.indices = moved
    assert_bitwise(run.forward(), expected, "y")
    assert first is not None
    np.testing.assert_array_equal(moved.read(), first.read())
    run.backward()


@pytest.mark.parametrize("kind", INDEX_TYPES)
def test_indices_in_any_buffer(kind: str, engine: str) -> None:
    """An address, bytes, or an array of the unsigned type; signed ones are refused."""
    c = simple("Max", kind, batch=2)
    run = c.run()
    run.forward()
    assert run.indices is not None
    expected = run.indices.elements.copy()
    call, first = (capi.BNNSPoolingFilterApplyBatch, ()) if kind == "size_t" else (
        capi.BNNSPoolingFilterApplyBatchEx, (INDEX_TYPES[kind][0],))  # fmt: skip
    target = np.zeros_like(expected)
    for memory in (target, target.view(np.uint8), memoryview(target), target.ctypes.data, target.reshape(2, 1, 2, 2)):
        target[:] = 0
        succeed(call(run.filter, 2, run.x.elements, 0, run.y.elements, 0, *first, memory, 0))
        np.testing.assert_array_equal(target, expected)
    wrong = target.astype(np.float64)
    refused(call(run.filter, 2, run.x.elements, 0, run.y.elements, 0, *first, wrong, 0), r"indices holds float64 items")


def test_legacy_average_is_the_average_with_padding() -> None:
    assert capi.BNNSPoolingFunctionAverage == capi.BNNSPoolingFunctionAverageCountIncludePadding


@pytest.mark.covers("pool.generic_apply", "fn.BNNSFilterApply")
def test_single_sample_through_the_generic_call(engine: str) -> None:
    c = simple()
    run = c.run()
    y = run.forward()
    out = np.full(4, np.nan, np.float32)
    succeed(capi.BNNSFilterApply(run.filter, run.x.elements, out))
    assert_bitwise(out, run.y.elements, "y")
    assert y.size == 4


def test_repeated_indices_of_unmax(engine: str) -> None:
    """The later value stays; both positions get its gradient."""
    c = simple("UnMax", size=(4, 4))
    run = c.run({
        "x": np.array([[1.0, 3.0], [2.0, 4.0]])[None, :, :, None], "dy": np.arange(16.0).reshape(1, 4, 4, 1),
        "indices": np.array([[5, 5], [5, 7]])[None, :, :, None],
    })  # fmt: skip
    y = run.forward()[0, :, :, 0].T
    assert y[1, 1] == 3 and y[1, 3] == 4 and np.count_nonzero(y) == 2
    dy = np.arange(16.0).reshape(4, 4).T
    np.testing.assert_array_equal(run.backward()["dx"].read()[0, :, :, 0].T, [[dy[1, 1]] * 2, [dy[1, 1], dy[1, 3]]])


# ---------------------------------------------------------------------------------------------------------------------
# Switches


def test_padding_that_takes_part(engine: str) -> None:
    """compat.max_pool_padding_is_zero: zeros of the padding compete, and where one wins the gradient is dropped."""
    c = simple(size=(4, 4), kernel=(3, 3), symmetric=(1, 1))
    plane = -1.0 - np.arange(16.0).reshape(4, 4)
    with compat.using(max_pool_padding_is_zero=True):
        y, indices, dx = pooled(c, plane)
    np.testing.assert_array_equal(y, [[0, 0], [0, -6.0]])
    np.testing.assert_array_equal(indices, [[-1, -1], [-1, 5]])
    assert dx.sum() == 1 and dx[1, 1] == 1


@pytest.mark.parametrize("kind", INDEX_TYPES)
def test_indices_that_count_through_the_channels(kind: str, engine: str) -> None:
    c = simple("Max", kind, size=(4, 6), channels=3, batch=2, symmetric=(2, 0))
    values = c.values()
    plain = c.run(values)
    y = plain.forward()
    with compat.using(max_pool_index_per_sample=True):
        run = c.run(values)
        back = created(replace(c, function="UnMax", x=c.y, y=c.x).create(None, None, 0))
    assert_bitwise(run.forward(), y, "y")
    assert plain.indices is not None and run.indices is not None
    expected = plain.indices.read()
    bases = 24 * np.arange(3)
    np.testing.assert_array_equal(run.indices.read(), np.where(expected == NO_CELL, NO_CELL, expected + bases))
    assert_bitwise(run.backward()["dx"].raw(), plain.backward()["dx"].raw(), "dx")
    run.indices.write(np.where(expected == NO_CELL, 0, expected) + bases)
    out = np.zeros(2 * c.x.count, np.float32)
    places, suffix = run._index_arguments()
    call = getattr(capi, f"BNNSPoolingFilterApplyBatch{suffix}")
    succeed(call(back, 2, run.y.elements, 0, out, 0, *places))
    run.indices.write(expected * 0)
    refused(
        call(back, 2, run.y.elements, 0, out, 0, *places),
        r"indices holds 0 at sample 0, channel 1, .* channel 1 has positions 24 to 47",
    )
