"""Clipping and norms: both engines against NumPy, every set of axes, layouts, types, gradients, mistakes."""

from __future__ import annotations

import itertools
import math
import re
from typing import Any

import numpy as np
import pytest

import openbnns as bn
from helpers import (
    BFLOAT16,
    COLUMN_MAJOR,
    FIRST_MAJOR_2D,
    FLOAT16,
    FLOAT32,
    IMAGE,
    INT8,
    LAST_MAJOR_2D,
    ROW_MAJOR,
    VECTOR,
    Storage,
    Tensor,
    vector,
)  # fmt: skip
from openbnns import capi

ENGINES = ["native", "reference"]
L2 = capi.BNNSL2Norm
FIRST_MAJOR = {r: getattr(capi, f"BNNSDataLayout{r}DFirstMajor") for r in range(1, 9)}
LAST_MAJOR = {r: getattr(capi, f"BNNSDataLayout{r}DLastMajor") for r in range(1, 9)}


def both(test: Any) -> Any:
    return pytest.mark.parametrize("engine", ENGINES)(test)


def norms(x: Any, flags: int) -> Any:
    """Norms with axes of size 1 inside; bit d is axis d of x."""
    axes = tuple(d for d in range(x.ndim) if flags >> d & 1) or tuple(range(x.ndim))
    return np.sqrt((x * x).sum(axis=axes, keepdims=True))


TENSORS = [
    vector(1), vector(7), vector(1000), Tensor(VECTOR, (6,), (3,)),
    Tensor(ROW_MAJOR, (5, 3)), Tensor(COLUMN_MAJOR, (5, 3)), Tensor(ROW_MAJOR, (5, 3), (1, 9)),
    Tensor(FIRST_MAJOR_2D, (33, 40)), Tensor(LAST_MAJOR_2D, (33, 40)), Tensor(IMAGE, (6, 5, 4)),
    Tensor(IMAGE, (6, 5, 4), (2, 14, 90)), Tensor(FIRST_MAJOR[3], (3, 1, 17)), Tensor(LAST_MAJOR[4], (2, 3, 4, 5)),
    Tensor(FIRST_MAJOR[5], (2, 3, 2, 3, 5)), Tensor(ROW_MAJOR, (7, 4), (), FLOAT16), Tensor(ROW_MAJOR, (7, 4), (), BFLOAT16),
]  # fmt: skip
LARGE = [
    Tensor(FIRST_MAJOR_2D, (3, 40_000)),
    Tensor(FIRST_MAJOR_2D, (40_000, 3)),
    Tensor(FIRST_MAJOR[3], (20, 30, 101)),
]
MANY = Tensor(FIRST_MAJOR[3], (4, 6000, 3))


def kept_tensor(t: Tensor, flags: int) -> Tensor:
    flags = in_size_order(t, flags)
    sizes = tuple(n for d, n in enumerate(t.size) if not flags >> d & 1) if flags else ()
    if not sizes:
        return Tensor(VECTOR, (1,), (), t.data_type)
    layouts = FIRST_MAJOR if t.stepped[0] != 0 else LAST_MAJOR
    return Tensor(VECTOR if len(sizes) == 1 else layouts[len(sizes)], sizes, (), t.data_type)


def in_size_order(t: Tensor, flags: int) -> int:
    """Bits of axis numbers as bits of size[]: rows are axis 0 of a RowMajorMatrix."""
    return (0, 2, 1, 3)[flags] if t.layout == ROW_MAJOR else flags


def tolerance(t: Tensor) -> dict[str, float]:
    return {FLOAT32: {"rtol": 2e-6, "atol": 1e-7}, FLOAT16: {"rtol": 2e-3, "atol": 1e-6}}.get(
        t.data_type, {"rtol": 1e-2, "atol": 1e-6}
    )


def all_flags(t: Tensor) -> range:
    return range(1 << len(t.size))


def storage(t: Tensor, seed: int, scale: float = 1.0) -> Storage:
    values = t.rounded(scale * np.random.default_rng(seed).standard_normal((1, *t.size)))
    return Storage(t, values=values)


@pytest.mark.covers("direct.clip.value", "fn.BNNSClipByValue")
@both
def test_clip_by_value(engine: str) -> None:
    for seed, t in enumerate(TENSORS + LARGE):
        x, y = storage(t, seed), Storage(t)
        for low, high in ((-0.5, 0.25), (-math.inf, 0.0), (0.0, 0.0)):
            with bn.engine(engine):
                assert capi.BNNSClipByValue(y.descriptor(), x.descriptor(), low, high) == 0, bn.last_error()
            np.testing.assert_allclose(y.read(), t.rounded(np.clip(x.read(), low, high)), rtol=0, atol=1e-7)
            y.assert_guards_intact("dest")
            x.assert_unchanged("src")
            y.write(np.zeros((1, *t.size)))
    special = np.array([np.nan, np.inf, -np.inf, -0.0], np.float32)
    d = vector(4).descriptor(special)
    with bn.engine(engine):
        assert capi.BNNSClipByValue(d, d, -1.0, 1.0) == 0
    np.testing.assert_array_equal(special, [np.nan, 1, -1, 0])


@pytest.mark.covers("direct.clip.norm", "fn.BNNSClipByNorm")
@both
def test_clip_by_norm(engine: str) -> None:
    for seed, t in enumerate([*TENSORS, *LARGE, MANY]):
        x = storage(t, seed)
        values = x.read()[0]
        for flags in all_flags(t):
            inside = norms(values, in_size_order(t, flags))
            limit = float(np.median(inside))
            expected = values * np.minimum(1.0, limit / inside)
            y = Storage(t)
            with bn.engine(engine):
                assert capi.BNNSClipByNorm(y.descriptor(), x.descriptor(), limit, flags) == 0, bn.last_error()
            np.testing.assert_allclose(y.read()[0], expected, **tolerance(t), err_msg=f"{t} {flags}")
            y.assert_guards_intact("dest")
            x.assert_unchanged("src")
        copy = Storage(t, values=x.read())
        with bn.engine(engine):
            assert capi.BNNSClipByNorm(copy.descriptor(), copy.descriptor(), 0.5, 0) == 0
        np.testing.assert_allclose(copy.read()[0], values * min(1.0, 0.5 / norms(values, 0).item()), **tolerance(t))


@both
def test_clipping_between_layouts(engine: str) -> None:
    """Axes belong together by their number: (rows, columns) of every matrix."""
    values = np.random.default_rng(0).standard_normal((1, 5, 3))
    x = Storage(Tensor(ROW_MAJOR, (5, 3)), values=values)
    matrix = x.read()[0].T
    for t in (
        Tensor(COLUMN_MAJOR, (3, 5)),
        Tensor(FIRST_MAJOR_2D, (3, 5), (2, 12)),
        Tensor(LAST_MAJOR_2D, (3, 5), (), FLOAT16),
    ):
        y = Storage(t)
        with bn.engine(engine):
            assert capi.BNNSClipByNorm(y.descriptor(), x.descriptor(), 1.0, 2) == 0
        np.testing.assert_allclose(y.read()[0], matrix * np.minimum(1, 1 / norms(matrix, 2)), **tolerance(t))
        wrong = Storage(Tensor(t.layout, (5, 3), (), t.data_type))
        with bn.engine(engine):
            assert capi.BNNSClipByNorm(wrong.descriptor(), x.descriptor(), 1.0, 2) == -1


@pytest.mark.covers("direct.clip.global", "fn.BNNSClipByGlobalNorm")
@both
def test_clip_by_global_norm(engine: str) -> None:
    tensors = [*TENSORS, LARGE[0]]
    for limit, use_norm in itertools.product((0.0, 3.0, 1e6), (0.0, 2.0, 50.0)):
        xs = [storage(t, seed) for seed, t in enumerate(tensors)]
        norm = use_norm or math.sqrt(sum(float((x.read() ** 2).sum()) for x in xs))
        expected = [x.read() * min(1.0, limit / norm) for x in xs]
        ys = [Storage(t) for t in tensors]
        with bn.engine(engine):
            status = capi.BNNSClipByGlobalNorm(
                [y.descriptor() for y in ys], [x.descriptor() for x in xs], len(xs), limit, use_norm
            )
            assert status == 0, bn.last_error()
            inplace = [x.descriptor() for x in xs]
            assert capi.BNNSClipByGlobalNorm(inplace, inplace, len(xs), limit, use_norm) == 0
        for t, x, y, e in zip(tensors, xs, ys, expected, strict=True):
            np.testing.assert_allclose(y.read(), e, **tolerance(t))
            np.testing.assert_array_equal(x.read(), y.read())
            y.assert_guards_intact("dest")
            x.assert_guards_intact("src")


@both
def test_targets_on_other_sources(engine: str) -> None:
    memory = np.array([3, 4, 12, 0], np.float32)
    a, b = vector(2).descriptor(memory[:2]), vector(2).descriptor(memory[2:])
    with bn.engine(engine):
        assert capi.BNNSClipByGlobalNorm([b, a], [a, b], 2, 6.5, 0.0) == 0
    np.testing.assert_allclose(memory, [6, 0, 1.5, 2])


@pytest.mark.covers("direct.norm.l2", "fn.BNNSComputeNorm")
@both
def test_compute_norm(engine: str) -> None:
    for seed, t in enumerate([*TENSORS, *LARGE, MANY]):
        x = storage(t, seed)
        values = x.read()[0]
        for flags in all_flags(t):
            target = kept_tensor(t, flags)
            y = Storage(target)
            with bn.engine(engine):
                assert capi.BNNSComputeNorm(y.descriptor(), x.descriptor(), L2, flags) == 0, bn.last_error()
            np.testing.assert_allclose(
                y.read()[0],
                norms(values, in_size_order(t, flags)).reshape(target.size),
                **tolerance(t),
                err_msg=f"{t} {flags}",
            )
            y.assert_guards_intact("dest")
            x.assert_unchanged("src")


@pytest.mark.covers("direct.norm.l2.bwd", "fn.BNNSComputeNormBackward")
@pytest.mark.parametrize("accumulate", [0, 1])
@both
def test_compute_norm_backward(engine: str, accumulate: int) -> None:
    for seed, t in enumerate([*TENSORS, *LARGE, MANY]):
        if t.data_type != FLOAT32:
            continue
        x = storage(t, seed)
        values = x.read()[0]
        for flags in all_flags(t):
            target = kept_tensor(t, flags)
            y = Storage(target, values=norms(values, in_size_order(t, flags)).reshape(1, *target.size))
            dy, dx = storage(target, seed + 1), storage(t, seed + 2)
            before = dx.read()[0]
            with bn.engine(engine):
                status = capi.BNNSComputeNormBackward(
                    x.elements, dx.descriptor(accumulate), y.elements, dy.descriptor(), L2, flags
                )
                assert status == 0, bn.last_error()
            inside = norms(values, in_size_order(t, flags))
            expected = dy.read()[0].reshape(inside.shape) * values / inside + accumulate * before
            np.testing.assert_allclose(dx.read()[0], expected, rtol=1e-5, atol=1e-6, err_msg=f"{t} {flags}")
            dx.assert_guards_intact("in_delta")
            for name, s in (("in", x), ("out", y), ("out_delta", dy)):
                s.assert_unchanged(name)


@both
def test_gradient_by_differences(engine: str) -> None:
    """<v, N(x + hu) - N(x - hu)> / 2h = <backward(v), u>."""
    rng, h = np.random.default_rng(3), 1e-2
    x = rng.standard_normal((3, 4, 5)).astype(np.float32)
    for axes in ([0], [1], [2], [0, 2], [1, 2], None):
        with bn.engine(engine):
            y = bn.compute_norm(x, axes=axes)
            u, v = rng.standard_normal(x.shape).astype(np.float32), rng.standard_normal(y.shape).astype(np.float32)
            moved = bn.compute_norm(x + h * u, axes=axes) - bn.compute_norm(x - h * u, axes=axes)
            dx = bn.compute_norm_backward(x, y, axes=axes, output_gradient=v)
        assert np.vdot(dx, u) == pytest.approx(np.vdot(v, moved) / (2 * h), rel=2e-2, abs=2e-2)


@both
def test_zero_and_extreme_norms(engine: str) -> None:
    x = np.array([[0, 0], [0, 2], [3e30, 4e30], [1e-30, 0]], np.float32)
    with bn.engine(engine):
        y = bn.compute_norm(x, axes=[1])
        np.testing.assert_allclose(y, [0, 2, 5e30, 1e-30], rtol=1e-6)
        dx = bn.compute_norm_backward(x, y, axes=[1], output_gradient=np.full(4, 3.0, np.float32))
        np.testing.assert_allclose(dx, [[0, 0], [0, 3], [1.8, 2.4], [3, 0]], rtol=1e-6)
        np.testing.assert_array_equal(bn.clip_by_norm(0.0, x), np.zeros_like(x))
        np.testing.assert_array_equal(bn.clip_by_norm(1.0, np.zeros(3, np.float32)), np.zeros(3))
        assert np.isnan(bn.clip_by_norm(1.0, np.array([np.nan, 1], np.float32))).all()


def test_same_bits_for_any_number_of_threads() -> None:
    x = np.random.default_rng(0).standard_normal((6, 50, 301)).astype(np.float32)
    results = []
    before = bn.get_num_threads()
    for threads in (1, 2, 3, 7):
        bn.set_num_threads(threads)
        arrays = [bn.compute_norm(x, axes=a) for a in ([0], [1], [2], [0, 1], [0, 2], [1, 2], None)]
        arrays += [bn.clip_by_norm(2.0, x, axes=[1]), *bn.clip_by_global_norm(2.0, [x, x[:2]])]
        results.append(np.concatenate([a.ravel() for a in arrays]))
    bn.set_num_threads(before)
    for other in results[1:]:
        np.testing.assert_array_equal(other, results[0])


def desc(size: tuple[int, ...] = (4,), layout: Any = VECTOR, data: Any = "new", kind: Any = FLOAT32) -> Any:
    data = np.ones(int(np.prod(size)), np.float32) if isinstance(data, str) else data
    return capi.BNNSNDArrayDescriptor(layout=layout, size=size, data=data, data_type=kind)


NAN, READ_ONLY = math.nan, np.ones(4, np.float32)
READ_ONLY.flags.writeable = False
BAD: list[tuple[str, tuple[Any, ...], str]] = [
    ("BNNSClipByValue", (None, desc(), 0, 1), "dest is NULL"),
    ("BNNSClipByValue", (desc(), None, 0, 1), "src is NULL"),
    ("BNNSClipByValue", (desc(), desc(), 1, 0), "min_val is 1 and max_val 0"),
    ("BNNSClipByValue", (desc(), desc(), NAN, 0), "min_val is nan"),
    ("BNNSClipByValue", (desc((3,)), desc(), 0, 1), r"dest is Vector size \(3,\)"),
    ("BNNSClipByValue", (desc(data=None), desc(), 0, 1), "dest.data is NULL"),
    ("BNNSClipByValue", (desc(data=READ_ONLY), desc(), 0, 1), "read-only"),
    ("BNNSClipByValue", (desc(), desc(data=np.ones(3, np.float32)), 0, 1), "holds 12 bytes"),
    ("BNNSClipByValue", (desc(), desc(data=np.ones(4, np.int8), kind=INT8), 0, 1), "src.data_type is Int8"),
    ("BNNSClipByNorm", (desc(), desc(), -1, 0), "max_norm is -1"),
    ("BNNSClipByNorm", (desc(), desc(), NAN, 0), "max_norm is nan"),
    ("BNNSClipByNorm", (desc(), desc(), 1, 2), "axis_flags is 0x2, but Vector"),
    ("BNNSClipByNorm", (desc(), desc(), 1, -1), "axis_flags is -0x1"),
    ("BNNSClipByGlobalNorm", ([desc()], [desc()], 2, 1, 0), "src has 1 entry, but count is 2"),
    ("BNNSClipByGlobalNorm", ([desc()], None, 1, 1, 0), "src is NULL"),
    ("BNNSClipByGlobalNorm", ([None], [desc()], 1, 1, 0), r"dest\[0\] is NULL"),
    ("BNNSClipByGlobalNorm", ([desc()], [desc()], 1, 1, -2), "use_norm is -2"),
    ("BNNSComputeNorm", (desc((1,)), desc(), 2, 0), "norm_type is 2, but BNNSL2Norm .1. is the only norm"),
    ("BNNSComputeNorm", (desc((2,)), desc(), L2, 0), "one value: a Vector of size 1"),
    ("BNNSComputeNorm", (desc((3,)), desc((2, 2), ROW_MAJOR), L2, 1), r"has size \(2,\). Axes inside the norm are removed"),
    ("BNNSComputeNormBackward", (None, desc(), np.ones(1, np.float32), desc((1,)), L2, 0), "in is NULL"),
    ("BNNSComputeNormBackward", (READ_ONLY, None, np.ones(1, np.float32), desc((1,)), L2, 0), "in_delta is NULL"),
    ("BNNSComputeNormBackward", (READ_ONLY, desc(), None, desc((1,)), L2, 0), "out is NULL"),
    ("BNNSComputeNormBackward", (READ_ONLY, desc(), np.ones(1, np.float32), None, L2, 0), "out_delta is NULL"),
    ("BNNSComputeNormBackward", (READ_ONLY, desc(), np.ones(1, np.float32), desc((2,)), L2, 0), "one value"),
    ("BNNSComputeNormBackward", (READ_ONLY[:2], desc(), np.ones(1, np.float32), desc((1,)), L2, 0), "in holds 8 bytes"),
]  # fmt: skip


@pytest.mark.parametrize(("function", "arguments", "message"), BAD, ids=lambda v: v if isinstance(v, str) else "")
@both
def test_bad_calls(function: str, arguments: tuple[Any, ...], message: str, engine: str) -> None:
    with bn.engine(engine):
        assert getattr(capi, function)(*arguments) == -1
    assert re.search(f"^{function}: .*{message}", str(bn.last_error())), bn.last_error()
    for argument in arguments:
        if isinstance(argument, capi.BNNSNDArrayDescriptor) and isinstance(argument.data, np.ndarray):
            assert np.all(argument.data == 1)


@both
def test_shared_targets(engine: str) -> None:
    """The call runs, and what they do not share is right, even in place of a source."""
    memory = np.arange(1, 7, dtype=np.float32)
    sources = [vector(4).descriptor(memory[:4]), vector(4).descriptor(np.arange(4, dtype=np.float32))]
    targets = [vector(4).descriptor(memory[:4]), vector(4).descriptor(memory[2:])]
    norm = float(np.sqrt(np.sum(np.arange(1, 5) ** 2) + np.sum(np.arange(4) ** 2)))
    shared = pytest.warns(bn.StrictWarning, match=r"BNNSClipByGlobalNorm: dest\[0\] and dest\[1\] share memory")
    with bn.engine(engine), bn.strict(), shared:
        assert capi.BNNSClipByGlobalNorm(targets, sources, 2, 1, 0) == 0
    np.testing.assert_allclose(memory[[0, 1, 4, 5]], np.array([1, 2, 2, 3]) / norm, rtol=1e-6)


def test_impossible_types() -> None:
    memory = np.ones(6, np.float32)
    for call in (
        lambda: capi.BNNSClipByValue(memory, desc(), 0, 1),
        lambda: capi.BNNSClipByNorm(desc(), desc(), "1", 0),  # type: ignore[arg-type]
        lambda: capi.BNNSClipByNorm(desc(), desc(), 1.0, 0.5),  # type: ignore[arg-type]
        lambda: capi.BNNSClipByGlobalNorm(desc(), [desc()], 1, 1.0, 0.0),
        lambda: capi.BNNSComputeNorm(desc((1,)), desc(), None, 0),  # type: ignore[arg-type]
        lambda: capi.BNNSComputeNormBackward("x", desc(), READ_ONLY, desc((1,)), L2, 0),
    ):
        with pytest.raises(TypeError):
            call()


@both
def test_functions_on_arrays_and_descriptors(engine: str) -> None:
    x = np.random.default_rng(1).standard_normal((4, 3, 5)).astype(np.float32)
    with bn.engine(engine):
        out = np.empty_like(x)
        assert bn.clip((-0.5, 0.5), x, out) is out
        np.testing.assert_array_equal(out, np.clip(x, -0.5, 0.5))
        np.testing.assert_array_equal(bn.clip(to=(-0.5, 0.5), input=x[::2]), out[::2])
        for axes in (None, [1], [-1], [0, 2], 0):
            over = tuple(axes) if isinstance(axes, list) else axes
            expected = np.sqrt((x.astype(np.float64) ** 2).sum(axis=over))
            y = bn.compute_norm(x, axes=axes)
            np.testing.assert_allclose(y, np.atleast_1d(expected), rtol=1e-6)
            given = np.empty_like(y)
            assert bn.compute_norm(x, given, axes=axes) is given
            np.testing.assert_array_equal(given, y)
            clipped = bn.clip_by_norm(1.0, x, axes=axes)
            kept = np.sqrt((x.astype(np.float64) ** 2).sum(axis=over, keepdims=True))
            np.testing.assert_allclose(clipped, x * np.minimum(1, 1 / kept), rtol=1e-5)
        d = capi.BNNSNDArrayDescriptor(layout=IMAGE, size=(5, 3, 4), data=x, data_type=FLOAT32)
        np.testing.assert_allclose(bn.compute_norm(d, axes=[0]), bn.compute_norm(x, axes=[2]), rtol=1e-6)
        np.testing.assert_allclose(bn.clip_by_norm(1.0, d, axes=[2]), bn.clip_by_norm(1.0, x, axes=[0]), rtol=1e-6)
        y = bn.compute_norm(x, axes=[1])
        dx = np.ones_like(x)
        dy = np.full((4, 5), 2.0, np.float32)
        assert bn.compute_norm_backward(x, y, [1], dy, dx) is dx
        np.testing.assert_allclose(dx, 2 * x / y[:, None, :], rtol=1e-5)
        assert bn.compute_norm_backward(x, y, [1], dy, bn.skip) is None
        a, b = bn.clip_by_global_norm(1.0, [x, x[0]], global_norm=4.0)
        np.testing.assert_allclose(a, x / 4, rtol=1e-6)
        np.testing.assert_allclose(b, x[0] / 4, rtol=1e-6)
        assert bn.clip((0, 1), np.zeros((0, 2), np.float32)).shape == (0, 2)
        assert bn.clip_by_global_norm(1.0, []) == []


BAD_FUNCTIONS: list[tuple[Any, str, type[Exception]]] = [
    (lambda x: bn.clip((1, 0), x), "the lower bound of to is 1 and the upper bound 0", ValueError),
    (lambda x: bn.clip(3, x), "to must be a pair", TypeError),
    (lambda x: bn.clip((0, 1), x, np.zeros(3, np.float32)), r"output has shape \(3,\)", ValueError),
    (lambda x: bn.clip((0, 1), x, np.zeros((4, 2), np.float32).T), "not C-contiguous", ValueError),
    (lambda x: bn.clip((0, 1), x.astype(np.float64)), "float64", TypeError),
    (lambda x: bn.clip((0, 1), x.astype(np.int32)), "Int32", TypeError),
    (lambda x: bn.clip_by_norm(-1, x), "threshold is -1", ValueError),
    (lambda x: bn.clip_by_norm(1, x, axes=[2]), "axes has 2, but there are axes -2 to 1", ValueError),
    (lambda x: bn.clip_by_norm(1, x, axes=["a"]), "axes must be integers", TypeError),
    (lambda x: bn.clip_by_global_norm(1, [x], [x, x]), "outputs has 2 entries, but inputs has 1", ValueError),
    (lambda x: bn.compute_norm(x, np.zeros(3, np.float32)), r"output has shape \(3,\), but the norm", ValueError),
    (lambda x: bn.compute_norm_backward(x, np.ones(1, np.float32)), "output_gradient is None", ValueError),
    (lambda x: bn.compute_norm_backward(x, np.ones(1, np.float32), None, np.ones(1)),
     "compute_norm_backward: output_gradient is float64", TypeError),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message", "kind"), BAD_FUNCTIONS)
def test_bad_functions(call: Any, message: str, kind: type[Exception]) -> None:
    with pytest.raises(bn.LayerApplyError, match=message) as caught:
        call(np.ones((2, 4), np.float32))
    assert isinstance(caught.value, kind)
