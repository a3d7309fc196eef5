"""Pooling beyond its case table: indices, ties, NaN, padding, shared memory, the layer, switches and bad input."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import openbnns as ob
from cases import pooling as cases
from cases._base import TRAINABLE, Act, created, native, succeed
from cases.pooling import INDEX_TYPES, NO_CELL, PoolingCase, case
from helpers import FLOAT16, Array, Storage, Tensor, assert_bitwise, assert_within, image, vector
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
    assert_within(np.float64(y), expected, 1e-6, c.id)
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
    found = [run.indices.read() for run in runs if run.indices is not None]
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


def simple(function: str = "Max", index: str = "size_t", **options: Any) -> PoolingCase:
    options = {"step": (2, 2), "batch": 1} | options
    return case("simple", function, options.pop("channels", 1), options.pop("size", (4, 4)),
                options.pop("kernel", (2, 2)), index=index, **options)  # fmt: skip


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
    with ob.engine("reference"), ob.engine("native"):
        monkeypatch.setattr(type(slow.filter), "fast_pooling", lambda *_: lambda *_: 1)
        expected = slow.forward(), {name: s.raw() for name, s in slow.backward().items()}
        monkeypatch.undo()
    run = c.run(values)

    def refuse(*_: Any) -> None:
        raise AssertionError("the fast call was not taken")

    monkeypatch.setattr(type(run.filter), "apply_pooling_batch", refuse)
    monkeypatch.setattr(type(run.filter), "apply_backward_pooling_batch", refuse)
    assert_bitwise(run.forward(), expected[0], "y")
    for name, storage in run.backward().items():
        assert_bitwise(storage.raw(), expected[1][name], name)


def test_fast_calls_end_with_the_filter() -> None:
    c = simple()
    run = c.run()
    run.forward()
    capi.BNNSFilterDestroy(run.filter)
    assert run.filter.fast_pooling(False)(1, run.x.elements, 0, run.y.elements, 0, None, 0) == 1
    assert capi.BNNSPoolingFilterApplyBatch(run.filter, 1, run.x.elements, 0, run.y.elements, 0, None, 0) == -1
    assert "has been destroyed" in str(ob.last_error())


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
    assert call(run.filter, 2, run.x.elements, 0, run.y.elements, 0, *first, wrong, 0) == -1
    assert re.search(r"indices holds float64 items", str(ob.last_error()))


@pytest.mark.covers("pool.Max.bwd", "pool.AverageCountIncludePadding.bwd")
@pytest.mark.parametrize("function", ["Max", "AverageCountIncludePadding", "L2Norm"])
def test_shared_memory(function: str, engine: str) -> None:
    """out over in, and in_delta over out_delta, in, out or the indices, give the numbers of separate memory."""
    index = "size_t" if function == "Max" else ""
    c = simple(function, index, channels=3, batch=2, activation=Act("Tanh"))
    values = c.values()
    run = c.run(values)
    y = run.forward()
    dx = run.backward()["dx"].raw()
    places = run.indices.elements.copy() if run.indices is not None else None
    block = np.zeros(400, np.float32)
    big = block[: 2 * c.x.count]
    big[:] = run.x.elements
    succeed(capi.BNNSPoolingFilterApplyBatch(run.filter, 2, big, 0, block, 0, places, 0))
    assert_bitwise(block[: y.size], run.y.elements, "out over in")
    for name in ("dy", "x", "y", "indices"):
        block[:] = 0
        source = {"dy": run.dy.elements, "x": run.x.elements, "y": run.y.elements, "indices": places}[name]
        if source is None:
            continue
        view = block.view(source.dtype)[: source.size]
        view[:] = source
        given = {"dy": run.dy.elements, "x": run.x.elements, "y": run.y.elements, "indices": places, name: view}
        succeed(
            capi.BNNSPoolingFilterApplyBackwardBatch(
                run.filter,
                2,
                given["x"],
                0,
                c.x.descriptor(block),
                0,
                given["y"],
                0,
                c.y.descriptor(given["dy"]),
                0,
                None,
                given["indices"],
                0,
            )
        )
        assert_bitwise(block[: dx.size], dx.transpose(0, 3, 2, 1).reshape(-1), f"in_delta over {name}")


def test_out_delta_is_left_alone(engine: str) -> None:
    c = simple(activation=Act("Sigmoid"), batch=3, channels=2, bias=True)
    run = c.run()
    run.forward()
    run.backward()
    run.dy.assert_unchanged("out_delta")


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
    """compat.max_pool_padding_is_zero: zeros of the padding compete, and where one wins nobody gets the gradient."""
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
    assert call(back, 2, run.y.elements, 0, out, 0, *places) == -1
    assert re.search(
        r"indices holds 0 at sample 0, channel 1, .* channel 1 has positions 24 to 47", str(ob.last_error())
    )


# ---------------------------------------------------------------------------------------------------------------------
# The layer

P = ob.PoolingType


def layer_type(c: PoolingCase, places: Array | None) -> ob.PoolingType:
    """The type of a case as Python has it."""
    dilation = {"x_dilation_stride": c.dilation[1], "y_dilation_stride": c.dilation[0]}
    if c.function in ("Max", "UnMax"):
        name = "max" if c.function == "Max" else "un_max"
        return getattr(P, f"{name}_ex" if c.index in ("u32", "u64") else name)(places, **dilation)
    if c.function == "L2Norm":
        return P.l2_norm()
    return P.average(count_includes_padding=c.function != "AverageCountExcludePadding")


def layer_of(c: PoolingCase, values: dict[str, Array], places: Array | None) -> ob.PoolingLayer:
    from test_faces import function

    left, right, up, down = c.pad
    padding = ob.ConvolutionPadding.asymmetric(left, right, up, down)
    if c.symmetric != (0, 0):
        padding = ob.ConvolutionPadding.symmetric(x=c.symmetric[1], y=c.symmetric[0])
    return ob.PoolingLayer(
        type=layer_type(c, places), input=ob.Shape.image_chw(*c.x.size), output=ob.Shape.image_chw(*c.y.size),
        bias=np.float32(values["b"][0]) if c.b else None, activation=function(c.activation),
        kernel_size=c.kernel[::-1], stride=c.step[::-1], padding=padding,
    )  # fmt: skip


def c_order(values: Array) -> Array:
    return np.ascontiguousarray(values.transpose(0, 3, 2, 1), np.float32)


IN_LAYERS = [
    c for c in [*cases.SHAPES, *cases.UNMAX, *cases.NO_INDICES, *cases.FUSED, *cases.INDEXED]
    if c.trains and (c.dilation == (1, 1) or c.function in ("Max", "UnMax"))
]  # fmt: skip


@pytest.mark.covers("swift.PoolingLayer")
@pytest.mark.parametrize("c", IN_LAYERS, ids=lambda c: c.id)
def test_layer_is_the_filter(c: PoolingCase) -> None:
    expected = native(c)
    values = dict(expected.values)
    width, height, channels = c.small.size
    dtype = np.uint32 if c.index == "u32" else np.uint64
    places = np.full((c.batch, channels, height, width), 77, dtype) if c.index else None
    if c.unpools:
        assert places is not None
        places[:] = values["indices"].transpose(0, 3, 2, 1)
    x, dy = c_order(values["x"]), c_order(values["dy"])
    with layer_of(c, values, places) as layer:
        y = layer.apply(x)
        assert_bitwise(y, c_order(expected.y), "y")
        gradients = layer.apply_backward(x, y, dy)
        assert_bitwise(gradients.input, c_order(expected.gradients["dx"]), "dx")
        if c.b:
            assert_bitwise(gradients.bias, np.float32(expected.gradients["db"][0]), "db")
        else:
            assert gradients.bias is None
        old = np.ones_like(x)
        again = layer.apply_backward(x, y, dy, old, ob.skip, accumulate=True)
        assert again.input is old and again.bias is None
        np.testing.assert_allclose(old, gradients.input + 1, rtol=1e-5, atol=1e-5)
        assert layer.apply_backward(x, y, dy, ob.skip).input is None
        target = np.empty_like(y)
        assert layer.apply(x, target, batch_size=c.batch) is target
    with pytest.raises(ob.LayerApplyError, match="has been destroyed"):
        layer.apply(x)


@pytest.mark.covers("swift.PoolingLayer")
def test_layer_infers_its_output(engine: str) -> None:
    """The floor rule of PyTorch, and back."""
    for size, kernel, step, pad, out in [
        (7, 3, 2, 1, 4),
        (8, 3, 2, 1, 4),
        (8, 2, 2, 0, 4),
        (9, 2, 3, 0, 3),
        (5, 5, 1, 0, 1),
    ]:
        padding = ob.ConvolutionPadding.symmetric(x=pad, y=pad)
        layer = ob.PoolingLayer(
            type=P.average(), input=ob.Shape.image_chw(size, size, 2), kernel_size=kernel, stride=step, padding=padding
        )
        assert layer.apply(np.ones((2, size, size), np.float32)).shape == (2, out, out)
    back = ob.PoolingLayer(
        type=P.un_max(np.zeros((1, 2, 4, 4), np.uint64)),
        input=ob.Shape.image_chw(4, 4, 2),
        kernel_size=(3, 2),
        stride=2,
    )
    assert back.apply(np.ones((1, 2, 4, 4), np.float32)).shape == (1, 2, 8, 9)


@pytest.mark.covers("swift.PoolingLayer")
def test_layer_forms_of_arguments(engine: str) -> None:
    x = np.random.default_rng(1).standard_normal((3, 2, 4, 6)).astype(np.float32)
    signed, narrow = np.full((4, 2, 2, 3), -5, np.int64), np.zeros(3 * 12, np.uint32)
    described = capi.BNNSNDArrayDescriptor(
        layout=capi.BNNSDataLayoutImageCHW,
        size=(3, 2, 2),
        data=np.zeros(36, np.uint32),
        data_type=capi.BNNSDataTypeUInt32,
    )
    types = [
        P.max(),
        P.max(signed),
        P.max(np.zeros(36, np.uint64)),
        P.max_ex(narrow),
        P.max_ex(described),
        P.max_ex(None),
    ]
    layers = [ob.PoolingLayer(type=t, input=x, kernel_size=(2, 2), stride=(2, 2)) for t in types]
    ys = [layer.apply(x) for layer in layers]
    dy = np.random.default_rng(2).standard_normal(ys[0].shape).astype(np.float32)
    gradients = [layer.apply_backward(x, None, dy).input for layer in layers]
    for y, dx in zip(ys, gradients, strict=True):
        assert_bitwise(y, ys[0], "y")
        assert_bitwise(dx, gradients[0], "dx")
    np.testing.assert_array_equal(signed[:3].reshape(-1), narrow)
    np.testing.assert_array_equal(described.data, narrow)
    assert np.all(signed[3] == -5)  # room for more samples than were applied
    single = layers[1].apply(x[1])
    assert_bitwise(single, ys[0][1], "one sample")
    assert_bitwise(layers[1].apply_backward(output_gradient=dy[1]).input, gradients[0][1], "one sample backward")
    spaced = np.repeat(x, 2, axis=3)[..., ::2]
    assert_bitwise(layers[3].apply(spaced), ys[0], "a strided input")
    memory = np.zeros((3, 2, 4, 6), np.float32)
    into = ob.Shape.image_chw(6, 4, 2).descriptor(data=memory)
    layers[0].apply_backward(ob.Shape.image_chw(6, 4, 2).descriptor(data=x), None, dy, into)
    assert_bitwise(memory, gradients[0], "descriptors")
    assert repr(layers[1]).startswith("PoolingLayer(type=PoolingType.max(indices=<int64 array (4, 2, 2, 3)>")
    assert ob.gradcheck(layers[1], verbose=False)


def test_layer_errors(engine: str) -> None:
    def make(**changes: Any) -> ob.PoolingLayer:
        fields: dict[str, Any] = {"type": P.max(), "input": ob.Shape.image_chw(6, 4, 2), "kernel_size": 2, "stride": 2}
        return ob.PoolingLayer(**{**fields, **changes})

    wrong = ob.Shape.image_chw(6, 4, 3)
    image_2x3 = {"layout": capi.BNNSDataLayoutImageCHW, "data_type": capi.BNNSDataTypeUInt32}
    bad: list[tuple[dict[str, Any], str]] = [
        ({"type": "max"}, r"type must be a PoolingType such as PoolingType.max\(\), not str"),
        ({"type": P.un_max()}, r"indices of un_max is None, but un_max needs"),
        ({"type": P.max(np.zeros((1, 2, 2, 3)))}, r"indices of max is float64, but indices are uint64"),
        ({"type": P.max(np.zeros((1, 2, 2, 3), np.uint32))}, r"is uint32, but indices are uint64"),
        ({"type": P.max_ex(np.zeros((1, 2, 2, 3), np.uint16))}, r"is uint16, but indices are uint32 or uint64"),
        ({"type": P.max(np.zeros((1, 2, 3, 2), np.uint64))}, r"has shape \(1, 2, 3, 2\), .* pass \(N, 2, 2, 3\)"),
        ({"type": P.max(np.zeros(13, np.uint64))}, r"has shape \(13,\)"),
        ({"type": P.max(np.zeros((1, 2, 2, 6), np.uint64)[..., ::2])}, r"must be C-contiguous"),
        ({"type": P.max(capi.BNNSNDArrayDescriptor())}, r"indices of max is a descriptor.*max_ex"),
        ({"type": P.max_ex(capi.BNNSNDArrayDescriptor(size=(3, 2, 2), **image_2x3))}, r"max_ex.data is None"),
        ({"type": P.max_ex(capi.BNNSNDArrayDescriptor(size=(2, 3, 2), data=np.zeros(12, np.uint32), **image_2x3))},
         r"indices have the dimensions and strides of the smaller"),
        ({"type": P.max(x_dilation_stride=0)}, r"dilation stride of type is 0"),
        ({"output": wrong}, r"input has 2 channels and output 3"),
        ({"output": ob.Shape.image_chw(4, 2, 2)}, r"output width is 4, but input width 6 .* room for the start of 3 windows"),
        ({"kernel_size": 0}, r"kernel_size is 0. It must be at least 1"),
        ({"kernel_size": (2, 2, 2)}, r"kernel_size is \(2, 2, 2\)"),
        ({"kernel_size": 9}, r"leaves no output with windows of 9 x 9"),
        ({"stride": 0}, r"stride is 0"),
        ({"bias": np.zeros(3, np.float32)}, r"bias is Vector size \(3,\)"),
        ({"activation": "relu"}, r"activation must be an ActivationFunction"),
        ({"input": np.zeros((2, 2), np.float32)}, r"input has shape \(2, 2\), but one sample has 3 axes"),
    ]  # fmt: skip
    for changes, message in bad:
        with pytest.raises(ob.BNNSError, match=message):
            make(**changes)
    x = np.zeros((3, 2, 4, 6), np.float32)
    small = make(type=P.max(np.zeros((2, 2, 2, 3), np.uint64)))
    plain, fused = make(), make(activation=ob.ActivationFunction.tanh())
    dy = np.ones((3, 2, 2, 3), np.float32)
    calls: list[tuple[Any, str]] = [
        (lambda: small.apply(x), r"indices holds 192 bytes, but the call touches 288"),
        (lambda: plain.apply(x[:, :1]), r"input has shape \(3, 1, 4, 6\)"),
        (lambda: plain.apply(x.astype(np.float64)), r"input is float64"),
        (lambda: plain.apply_backward(None, None, dy), r"input is None, but the input gradient of Max pooling needs the forward"),
        (lambda: fused.apply_backward(x, None, dy), r"output is None, but the fused activation"),
        (lambda: plain.apply_backward(x, None, None), r"output_gradient is None"),
        (lambda: plain.apply_backward(x, None, dy, None, np.zeros(2, np.float32)), r"no gradient of bias"),
    ]  # fmt: skip
    for call, message in calls:
        with pytest.raises(ob.LayerApplyError, match=message):
            call()


# ---------------------------------------------------------------------------------------------------------------------
# Bad input: a message, -1, nothing written


def changed(c: PoolingCase, **changes: Any) -> Any:
    return c.struct(**changes)


BASE = simple(channels=2, size=(4, 6))
UN = simple("UnMax", channels=2, size=(4, 6))
BAD_CREATIONS: list[tuple[Any, str]] = [
    (None, r"layer_params is NULL"),
    (changed(BASE, pooling_function=5), r"pooling_function is 5, which is no BNNSPoolingFunction \(0 to 4\)"),
    (changed(BASE, k_width=0), r"the window is 0 x 2 \(k_width x k_height\)"),
    (changed(BASE, k_height=0), r"the window is 2 x 0"),
    (changed(BASE, k_width=1 << 40), r"k_width is 1099511627776, which is more than any image has"),
    (changed(BASE, x_stride=1 << 63), r"x_stride is 9223372036854775808, which is more"),
    (changed(BASE, k_width=1 << 20, k_height=1 << 20), r"the window has 1099511627776 cells, more than"),
    (changed(BASE, x_dilation_stride=1 << 20, y_dilation_stride=1 << 20), r"reach over \d+ cells, more than"),
    (changed(BASE, pad=(1 << 20,) * 4, x_stride=1 << 19, y_stride=1 << 19), r"x_stride \* y_stride is 274877906944, more than"),
    (changed(BASE, o_desc=image(3, 2, 3).descriptor()), r"i_desc has 2 channels and o_desc 3"),
    (changed(BASE, o_desc=image(2, 2, 4).descriptor()), r"o_desc width is 4, .* start of 3 windows.*o_desc.size\[0\]"),
    (changed(BASE, o_desc=image(2, 3, 3).descriptor()), r"o_desc height is 3, .* start of 2 windows.*o_desc.size\[1\]"),
    (changed(UN, i_desc=image(2, 3, 3).descriptor()), r"i_desc height is 3, but o_desc height 4"),
    (changed(BASE, i_desc=vector(6).descriptor()), r"i_desc.layout is Vector. Images are ImageCHW"),
    (changed(BASE, o_desc=Tensor(capi.BNNSDataLayout3DFirstMajor, (2, 2, 3)).descriptor()), r"o_desc.layout is 3DFirstMajor"),
    (changed(BASE, i_desc=image(0, 4, 6).descriptor()), r"i_desc.size\[2\] is 0"),
    (changed(BASE, bias=vector(3).descriptor(np.zeros(3, np.float32))), r"bias is .*3"),
    (changed(BASE, activation=capi.BNNSActivation(function=99)), r"99"),
]  # fmt: skip


@pytest.mark.parametrize(("struct", "message"), BAD_CREATIONS, ids=[m for _, m in BAD_CREATIONS])
@pytest.mark.covers("fn.BNNSFilterCreateLayerPooling")
def test_bad_creation(struct: Any, message: str) -> None:
    assert capi.BNNSFilterCreateLayerPooling(struct) is None
    assert re.search(message, ob.last_error() or ""), ob.last_error()


def test_far_strides_of_a_single_window(engine: str) -> None:
    """Where there is one window only, a stride does nothing."""
    made = created(capi.BNNSFilterCreateLayerPooling(changed(
        BASE, o_desc=image(2, 1, 1).descriptor(), x_stride=1 << 20, y_stride=1 << 20, k_width=6, k_height=4
    )))  # fmt: skip
    out = np.zeros(2, np.float32)
    succeed(capi.BNNSFilterApply(made, np.arange(48, dtype=np.float32), out))
    np.testing.assert_array_equal(out, [23, 47])


U32, U64 = capi.BNNSDataTypeUInt32, capi.BNNSDataTypeUInt64


def _forward_arguments(c: PoolingCase) -> dict[str, Any]:
    return {
        "batch_size": 2, "in_": np.ones(2 * c.x.count, np.float32), "in_stride": 0,
        "out": np.full(2 * c.y.count, 7, np.float32), "out_stride": 0,
        "indices": np.full(2 * c.small.count, 7, np.uint64), "idx_stride": 0,
    }  # fmt: skip


BAD_FORWARDS: list[tuple[dict[str, Any], str]] = [
    ({"in_": None}, r"in is NULL"),
    ({"out": None}, r"out is NULL"),
    ({"in_": np.ones(95, np.float32)}, r"in holds 380 bytes, but the call touches 384"),
    ({"out": np.full(23, 7, np.float32)}, r"out holds 92 bytes, but the call touches 96"),
    ({"indices": np.zeros(23, np.uint64)}, r"indices holds 184 bytes, but the call touches 192"),
    ({"indices": np.zeros(24, np.uint32)}, r"indices holds uint32 items, but its descriptor says UInt64"),
    ({"indices": np.zeros(24, np.int64)}, r"indices holds int64 items"),
    ({"indices": bytes(192)}, r"indices is read-only"),
    ({"idx_stride": 5}, r"idx_stride is 5, but one sample spans 12"),
    ({"idx_stride": -1}, r"idx_stride is -1"),
    ({"idx_stride": 13}, r"indices holds 192 bytes, but the call touches 200"),
    ({"in_stride": -2}, r"in_stride is -2"),
    ({"out_stride": 11}, r"out_stride is 11, but one sample spans 12"),
    ({"batch_size": -1}, r"batch_size is -1"),
]


@pytest.mark.parametrize(("changes", "message"), BAD_FORWARDS, ids=[m for _, m in BAD_FORWARDS])
@pytest.mark.parametrize("typed", [False, True], ids=["", "Ex"])
@pytest.mark.covers("fn.BNNSPoolingFilterApplyBatch", "fn.BNNSPoolingFilterApplyBatchEx")
def test_bad_forward(changes: dict[str, Any], message: str, typed: bool, engine: str) -> None:
    made, arguments = created(BASE.create(None, None, 0)), _forward_arguments(BASE)
    out, indices = arguments["out"], arguments["indices"]
    given = arguments | changes | ({"indices_data_type": U64} if typed else {})
    call = capi.BNNSPoolingFilterApplyBatchEx if typed else capi.BNNSPoolingFilterApplyBatch
    assert call(made, **given) == -1
    assert re.search(message, ob.last_error() or ""), ob.last_error()
    assert np.all(out == 7) and np.all(indices == 7)


def test_bad_index_types(engine: str) -> None:
    made, arguments = created(BASE.create(None, None, 0)), _forward_arguments(BASE)
    for kind in (0, capi.BNNSDataTypeInt32, capi.BNNSDataTypeUInt16, capi.BNNSDataTypeFloat32):
        assert capi.BNNSPoolingFilterApplyBatchEx(made, **arguments, indices_data_type=kind) == -1
        assert re.search(r"indices_data_type is 0x[0-9a-f]+. Indices are BNNSDataTypeUInt32 or", str(ob.last_error()))
    for wrong in ("UInt32", [1], 1.5):
        with pytest.raises(TypeError, match="indices_data_type must be a BNNSDataType"):
            capi.BNNSPoolingFilterApplyBatchEx(made, **arguments, indices_data_type=wrong)  # type: ignore[arg-type]
    assert np.all(arguments["out"] == 7) and np.all(arguments["indices"] == 7)


def test_out_and_indices_may_not_overlap(engine: str) -> None:
    made, arguments = created(BASE.create(None, None, 0)), _forward_arguments(BASE)
    memory = arguments["indices"]
    arguments["out"] = memory.view(np.float32)[4:]
    assert capi.BNNSPoolingFilterApplyBatch(made, **arguments) == -1
    assert re.search(r"out and indices share memory", str(ob.last_error()))
    assert np.all(memory == 7)


@pytest.mark.covers("pool.UnMax.fwd", "pool.UnMax.bwd")
@pytest.mark.parametrize("kind", INDEX_TYPES)
@pytest.mark.parametrize("function", ["Max", "UnMax"])
@pytest.mark.parametrize("wrong", [16, 1 << 31, NO_CELL])
def test_indices_outside_their_plane(function: str, kind: str, wrong: int, engine: str) -> None:
    """The first cell that is wrong is named; nothing is written. All bits set means "none" to Max, but not to UnMax."""
    c = simple(function, kind, channels=2, batch=2)
    run = c.run()
    run.forward()
    assert run.indices is not None
    places = run.indices.read()
    places[1, 0, 1, 1] = wrong
    run.indices.write(places)
    run.y.write(np.zeros((2, *c.y.size)))
    given, suffix = run._index_arguments()
    dx = Storage(c.x, 2, 0, np.full((2, *c.x.size), 7.0))
    statuses = [
        getattr(capi, f"BNNSPoolingFilterApplyBackwardBatch{suffix}")(
            run.filter, 2, None, 0, dx.descriptor(), 0, None, 0, run.dy.descriptor(), 0, None, *given
        )
    ]
    if wrong == NO_CELL and not c.unpools:
        assert statuses == [0]
        return
    if c.unpools:
        forward = getattr(capi, f"BNNSPoolingFilterApplyBatch{suffix}")
        statuses.append(forward(run.filter, 2, run.x.elements, 0, run.y.elements, 0, *given))
    assert set(statuses) == {-1}
    value = wrong if wrong >= 0 else (1 << (32 if kind == "u32" else 64)) - 1
    message = f"indices holds {value} at sample 1, channel 1, row 1, column 0, but a plane has positions 0 to 15"
    assert message in str(ob.last_error())
    dx.assert_unchanged("in_delta")
    run.y.assert_unchanged("out")


@pytest.mark.parametrize("call", ["pooling", "Ex", "generic"])
def test_unmax_without_indices(call: str, engine: str) -> None:
    c = UN
    run = c.run()
    memory = np.full(c.x.count, 7, np.float32)
    dx, dy, out = c.x.descriptor(memory), run.dy.descriptor(), np.full(c.y.count, 7, np.float32)
    x, f = run.x.elements, run.filter
    forward, backward = {
        "pooling": (
            lambda: capi.BNNSPoolingFilterApplyBatch(f, 1, x, 0, out, 0, None, 0),
            lambda: capi.BNNSPoolingFilterApplyBackwardBatch(f, 1, x, 0, dx, 0, None, 0, dy, 0, None, None, 0),
        ),
        "Ex": (
            lambda: capi.BNNSPoolingFilterApplyBatchEx(f, 1, x, 0, out, 0, U32, None, 0),
            lambda: capi.BNNSPoolingFilterApplyBackwardBatchEx(f, 1, x, 0, dx, 0, None, 0, dy, 0, None, U32, None, 0),
        ),
        "generic": (
            lambda: capi.BNNSFilterApplyBatch(f, 1, x, 0, out, 0),
            lambda: capi.BNNSFilterApplyBackwardBatch(f, 1, x, 0, dx, 0, None, 0, dy, 0, None, None),
        ),
    }[call]
    for each in (forward, backward):
        assert each() == -1
        assert re.search(r"indices is NULL, but UnMax needs the indices that Max recorded", str(ob.last_error()))
    assert np.all(out == 7) and np.all(memory == 7)


def _backward_arguments(c: PoolingCase) -> dict[str, Any]:
    return {
        "batch_size": 2, "in_": np.ones(2 * c.x.count, np.float32), "in_stride": 0,
        "in_delta": c.x.descriptor(np.full(2 * c.x.count, 7, np.float32)), "in_delta_stride": 0,
        "out": np.zeros(2 * c.y.count, np.float32), "out_stride": 0,
        "out_delta": c.y.descriptor(np.ones(2 * c.y.count, np.float32)), "out_delta_stride": 0,
        "bias_delta": vector(2).descriptor(np.full(2, 7, np.float32)),
        "indices": np.zeros(2 * c.small.count, np.uint64), "idx_stride": 0,
    }  # fmt: skip


FUSED = simple(channels=2, size=(4, 6), bias=True, activation=Act("Tanh"))
SEVENS = np.full(96, 7, np.float32)
BAD_BACKWARDS: list[tuple[dict[str, Any], str]] = [
    ({"out": None}, r"out is NULL, but the fused activation is differentiated from the forward output"),
    ({"out_delta": None}, r"out_delta is NULL"),
    ({"out_delta": FUSED.y.descriptor()}, r"out_delta.data is NULL"),
    ({"out_delta": FUSED.x.descriptor(SEVENS)}, r"out_delta is ImageCHW size \(6, 4, 2\), but this filter's tensor is"),
    ({"in_": None, "indices": None}, r"in is NULL, but the input gradient of Max pooling needs .* or the indices"),
    ({"in_delta": FUSED.x.descriptor()}, r"in_delta.data is NULL"),
    ({"in_delta": FUSED.y.descriptor(SEVENS)}, r"in_delta is ImageCHW size \(3, 2, 2\)"),
    ({"in_delta": FUSED.x.descriptor(SEVENS, flags=9)}, r"in_delta.flags is 9"),
    ({"in_delta": replace(FUSED.x, data_type=FLOAT16).descriptor(SEVENS)}, r"in_delta.data_type is Float16"),
    ({"bias_delta": vector(3).descriptor(SEVENS)}, r"bias_delta is Vector size \(3,\)"),
    ({"in_delta": FUSED.x.descriptor(SEVENS), "bias_delta": vector(2).descriptor(SEVENS)}, r"in_delta and bias_delta share"),
    ({"idx_stride": -3}, r"idx_stride is -3"),
    ({"indices": np.zeros(23, np.uint64)}, r"indices holds 184 bytes"),
    ({"indices": np.full(24, 24, np.uint64)}, r"indices holds 24 at sample 0, channel 0, row 0, column 0"),
    ({"in_delta_stride": 47}, r"in_delta_stride is 47"),
    ({"batch_size": -1}, r"batch_size is -1"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "message"), BAD_BACKWARDS, ids=[m for _, m in BAD_BACKWARDS])
@pytest.mark.parametrize("typed", [False, True], ids=["", "Ex"])
@pytest.mark.covers("fn.BNNSPoolingFilterApplyBackwardBatch", "fn.BNNSPoolingFilterApplyBackwardBatchEx")
def test_bad_backward(changes: dict[str, Any], message: str, typed: bool, engine: str) -> None:
    made, arguments = created(FUSED.create(None, np.zeros(2, np.float32), 0)), _backward_arguments(FUSED)
    dx, db = arguments["in_delta"].data, arguments["bias_delta"].data
    call = capi.BNNSPoolingFilterApplyBackwardBatchEx if typed else capi.BNNSPoolingFilterApplyBackwardBatch
    assert call(made, **arguments | changes | ({"indices_data_type": U64} if typed else {})) == -1
    assert re.search(message, ob.last_error() or ""), ob.last_error()
    assert np.all(dx == 7) and np.all(db == 7) and np.all(SEVENS == 7)


def test_norm_needs_the_input(engine: str) -> None:
    c = simple("L2Norm", "", channels=2, size=(4, 6))
    made, arguments = created(c.create(None, None, 0)), _backward_arguments(c)
    assert capi.BNNSPoolingFilterApplyBackwardBatch(made, **arguments | {"in_": None}) == -1
    assert re.search(
        r"in is NULL, but the input gradient of L2Norm pooling needs the forward input", str(ob.last_error())
    )


def test_training_is_float32(engine: str) -> None:
    c = simple(channels=2, size=(4, 6), in_options={"data_type": FLOAT16})
    arguments = _backward_arguments(c) | {"in_": None, "in_delta": BASE.x.descriptor(np.zeros(96, np.float32))}
    assert capi.BNNSPoolingFilterApplyBackwardBatch(created(c.create(None, None, 0)), **arguments) == -1
    assert re.search(r"the filter's input is Float16, but training works on Float32", str(ob.last_error()))


@pytest.mark.parametrize("act", [Act("Abs"), Act("SiLU"), Act("ScaledTanh", 1.0, 1.0)], ids=lambda a: a.name)
def test_activations_without_training(act: Act, engine: str) -> None:
    c = simple(channels=2, size=(4, 6), activation=act)
    assert capi.BNNSPoolingFilterApplyBackwardBatch(created(c.create(None, None, 0)), **_backward_arguments(c)) == -1
    assert re.search(act.name, str(ob.last_error()))


def test_calls_of_other_families(engine: str) -> None:
    """The pooling calls drive pooling filters only."""
    activation = created(capi.BNNSFilterCreateLayerActivation(capi.BNNSLayerParametersActivation(
        i_desc=vector(7).descriptor(), o_desc=vector(7).descriptor(), activation=TRAINABLE[0].struct
    )))  # fmt: skip
    x = np.ones(7, np.float32)
    assert capi.BNNSPoolingFilterApplyBatch(activation, 1, x, 0, x.copy(), 0, None, 0) == -1
    assert re.search(r"BNNSPoolingFilterApplyBatch does not drive a filter of family activation", str(ob.last_error()))
    delta = vector(7).descriptor(x.copy())
    assert (
        capi.BNNSPoolingFilterApplyBackwardBatchEx(activation, 1, x, 0, delta, 0, x, 0, delta, 0, None, U32, None, 0)
        == -1
    )
    assert re.search(r"does not drive a filter of family activation", str(ob.last_error()))
    made = created(BASE.create(None, None, 0))
    assert capi.BNNSLossFilterApplyBatch(made, 1, x, 0, x, 0, None, 0, x.copy(), None, 0) == -1
    assert re.search(r"Use BNNSPoolingFilterApplyBatch or BNNSFilterApplyBatch", str(ob.last_error()))


def test_impossible_python_types(engine: str) -> None:
    made, arguments = created(BASE.create(None, None, 0)), _forward_arguments(BASE)
    with pytest.raises(TypeError, match="layer_params must be a BNNSLayerParametersPooling"):
        capi.BNNSFilterCreateLayerPooling(capi.BNNSLayerParametersConvolution())
    for changes in ({"batch_size": 1.5}, {"idx_stride": "0"}, {"indices": object()}, {"in_": object()}):
        with pytest.raises(TypeError):
            capi.BNNSPoolingFilterApplyBatch(made, **(arguments | changes))
    with pytest.raises(TypeError, match="in_delta must be a BNNSNDArrayDescriptor"):
        capi.BNNSPoolingFilterApplyBackwardBatch(
            made, **_backward_arguments(BASE) | {"in_delta": np.zeros(96, np.float32)}
        )


# ---------------------------------------------------------------------------------------------------------------------
# PyTorch


PEERS = [
    c for c in [*cases.SHAPES, *cases.NO_INDICES]
    if c.function != "L2Norm" and c.pad == (0, 0, 0, 0) and not c.overhangs and c.b is None
    and all(2 * p <= k for p, k in zip(c.symmetric, c.kernel, strict=True))
    and (c.dilation == (1, 1) or c.function == "Max")
]  # fmt: skip


@pytest.mark.peers
@pytest.mark.parametrize("c", PEERS, ids=lambda c: c.id)
@pytest.mark.parametrize("special", [False, True], ids=["", "special"])
def test_against_pytorch(c: PoolingCase, special: bool, engine: str) -> None:
    """Values, indices and gradients; also with ties, NaN and all-negative data."""
    import torch
    import torch.nn.functional as f

    values = dict(c.values())
    if special:
        rng = c.generator(5)
        values["x"] = rng.integers(-3, 0, values["x"].shape).astype(np.float64)
        values["x"][rng.random(values["x"].shape) < 0.05] = np.nan
    x = torch.from_numpy(c_order(values["x"])).requires_grad_()
    if c.function == "Max":
        y, indices = f.max_pool2d(x, c.kernel, c.step, c.symmetric, c.dilation, return_indices=True)
    else:
        include = c.function != "AverageCountExcludePadding"
        y, indices = f.avg_pool2d(x, c.kernel, c.step, c.symmetric, count_include_pad=include), None
    y.backward(torch.from_numpy(c_order(values["dy"])))
    run = c.run(values)
    run.forward()
    np.testing.assert_allclose(c_order(run.y.read()), y.detach().numpy(), rtol=1e-5, atol=1e-6)
    if run.indices is not None and indices is not None:
        np.testing.assert_array_equal(run.indices.read().transpose(0, 3, 2, 1), indices.numpy())
    assert x.grad is not None
    np.testing.assert_allclose(c_order(run.backward()["dx"].read()), x.grad.numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.peers
@pytest.mark.parametrize(
    "c", [c for c in cases.UNMAX if c.b is None and c.dilation == (1, 1) and not any(c.pad)], ids=lambda c: c.id
)
def test_unmax_against_pytorch(c: PoolingCase, engine: str) -> None:
    import torch
    import torch.nn.functional as f

    values = c.values()
    x = torch.from_numpy(c_order(values["x"])).requires_grad_()
    indices = torch.from_numpy(np.ascontiguousarray(values["indices"].transpose(0, 3, 2, 1)))
    y = f.max_unpool2d(x, indices, c.kernel, c.step, c.symmetric, output_size=c.y.size[1::-1])
    y.backward(torch.from_numpy(c_order(values["dy"])))
    run = c.run(values)
    run.forward()
    np.testing.assert_array_equal(c_order(run.y.read()), y.detach().numpy())
    assert x.grad is not None
    np.testing.assert_array_equal(c_order(run.backward()["dx"].read()), x.grad.numpy())


@pytest.mark.peers
def test_norm_against_pytorch(engine: str) -> None:
    import torch
    import torch.nn.functional as f

    c = simple("L2Norm", "", size=(8, 10), kernel=(3, 2), step=(2, 2), channels=3, batch=2)
    values = c.values()
    x = torch.from_numpy(c_order(values["x"])).requires_grad_()
    y = f.lp_pool2d(x, 2, c.kernel, c.step)
    y.backward(torch.from_numpy(c_order(values["dy"])))
    run = c.run(values)
    run.forward()
    np.testing.assert_allclose(c_order(run.y.read()), y.detach().numpy(), rtol=1e-5)
    assert x.grad is not None
    np.testing.assert_allclose(c_order(run.backward()["dx"].read()), x.grad.numpy(), rtol=1e-4, atol=1e-6)
