"""Reductions: both engines against NumPy in float64, gradients by differences, layouts, types, weights, mistakes."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import openbnns as bn
from bad_calls import refused
from cases.moves import FIRST_MAJOR, any_layout, strided
from helpers import BOOLEAN, FLOAT16, FLOAT32, INT8, INT32, INT64, Storage, Tensor, vector
from openbnns import capi, compat

EPSILON = 0.25
GRADED = (
    "Max", "Min", "Mean", "MeanNonZero", "Sum", "SumSquare", "SumLog", "L1Norm", "L2Norm", "LogSumExp", "Product",
    "LogSum",
)  # fmt: skip
WEIGHTED = ("Mean", "MeanNonZero", "Sum", "SumSquare", "SumLog", "L1Norm", "L2Norm", "LogSumExp", "LogSum")
OTHERS = ("ArgMax", "ArgMin", "LogicalOr", "LogicalAnd", "Any", "All")
F = {name: int(getattr(capi, f"BNNSReduceFunction{name}")) for name in (*GRADED, *OTHERS)}


def value(name: str, x: Any, axes: tuple[int, ...], w: Any = None) -> Any:
    """The definitions in NumPy; axes keep size 1."""
    k: dict[str, Any] = {"axis": axes, "keepdims": True}
    one = np.ones_like(x) if w is None else w + np.zeros_like(x)
    n = np.prod([x.shape[a] for a in axes], initial=1.0)
    match name:
        case "Max":
            return x.max(**k)
        case "Min":
            return x.min(**k)
        case "Mean":
            return (one * x).sum(**k) / n
        case "MeanNonZero":
            count = (one != 0).sum(**k)
            return np.where(count == 0, 0.0, (one * x).sum(**k) / np.maximum(count, 1))
        case "Sum":
            return (one * x).sum(**k)
        case "SumSquare":
            return (one * x * x).sum(**k)
        case "SumLog":
            return (one * np.log(x + EPSILON)).sum(**k)
        case "L1Norm":
            return (one * np.abs(x)).sum(**k)
        case "L2Norm":
            return np.sqrt((one * x * x).sum(**k))
        case "LogSumExp":
            return np.log((one * np.exp(x)).sum(**k))
        case "Product":
            return x.prod(**k)
        case "LogSum":
            return np.log((one * x).sum(**k))
        case "LogicalOr" | "Any":
            return (x != 0).any(**k).astype(np.float64)
        case "LogicalAnd" | "All":
            return (x != 0).all(**k).astype(np.float64)
        case "ArgMax" | "ArgMin":
            kept = [a for a in range(x.ndim) if a not in axes]
            rows = np.moveaxis(x, kept, range(len(kept))).reshape(*(x.shape[a] for a in kept), -1)
            places = rows.argmax(-1) if name == "ArgMax" else rows.argmin(-1)
            return places.reshape([1 if a in axes else s for a, s in enumerate(x.shape)]).astype(np.float64)
    raise AssertionError(name)


def numbers(name: str, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    """Values in the domain of a function, without ties."""
    x = rng.uniform(0.3, 1.7, shape)
    if name in ("L1Norm", "L2Norm", "Sum", "Mean", "MeanNonZero", "SumSquare", "LogSumExp", "Max", "Min", "Product"):
        x *= rng.choice([-1.0, 1.0], shape)
    if name in OTHERS:
        x = rng.integers(0, 3, shape).astype(np.float64)
    return np.float64(np.float32(x))


class Case:
    """A random reduction: layouts, sizes, strides, batch, weights."""

    def __init__(self, name: str, seed: int, weighted: bool = False, most: int = 6) -> None:
        rng = self.rng = np.random.default_rng([seed, F[name]])
        self.name, rank = name, int(rng.integers(1, 6))
        size = tuple(int(n) for n in rng.integers(1, most, rank))
        self.x = strided(rng, Tensor(any_layout(rng, rank), size))
        inside = rng.integers(0, 2, rank).astype(bool)
        self.y = strided(
            rng, Tensor(any_layout(rng, rank), tuple(1 if r else n for r, n in zip(inside, size, strict=True)))
        )
        self.axes = tuple(1 + a for a, n in enumerate(self.y.size) if n == 1)
        self.batch, self.gap = int(rng.integers(1, 4)), int(rng.integers(0, 3))
        self.xs = self.storage(self.x, numbers(name, (self.batch, *size), rng))
        self.ws = None
        if weighted:
            w = np.where(rng.random(size) < 0.3, 0.0, rng.uniform(0.2, 1.5, size))
            w.flat[0] = 0.7
            if name in ("L2Norm", "LogSumExp", "LogSum"):  # keeps sums away from 0, where they have no slope
                w = np.maximum(w, 0.2)
            self.ws = Storage(strided(rng, Tensor(any_layout(rng, rank), size)), values=w[None])

    def storage(self, t: Tensor, values: Any = None) -> Storage:
        return Storage(t, self.batch, self.gap, values=values)

    def filter(self, **more: Any) -> Any:
        p = capi.BNNSLayerParametersReduction(
            i_desc=self.x.descriptor(), o_desc=self.y.descriptor(), reduce_func=F[self.name], epsilon=EPSILON,
            w_desc=None if self.ws is None else self.ws.descriptor(), **more,
        )  # fmt: skip
        f = capi.BNNSFilterCreateLayerReduction(p)
        assert f is not None, bn.last_error()
        return f

    @property
    def weights(self) -> Any:
        return None if self.ws is None else self.ws.read()

    def expected(self, x: Any = None, w: Any = None) -> Any:
        x, w = self.xs.read() if x is None else x, self.weights if w is None else w
        if "Arg" not in self.name:
            return value(self.name, x, self.axes, w)
        order = (0, *(1 + a for a in self.x.stepped[::-1]))  # positions count in the order of memory
        axes = tuple(order.index(a) for a in self.axes)
        return value(self.name, x.transpose(order), axes).transpose(np.argsort(order))


def succeed(status: int) -> None:
    assert status == 0, bn.last_error()


def claims(name: str, *directions: str) -> Any:
    rows = [f"reduce.{name}.{d}" for d in directions]
    return pytest.param(name, marks=pytest.mark.covers(*rows, "fn.BNNSFilterCreateLayerReduction", "reduce.multi"))


@pytest.mark.parametrize("name", [claims(n, "fwd") for n in F])
def test_forward(engine: str, name: str) -> None:
    for seed in range(25):
        c = Case(name, seed)
        y = c.storage(c.y)
        succeed(capi.BNNSFilterApplyBatch(c.filter(), c.batch, c.xs.elements, c.xs.stride, y.elements, y.stride))
        np.testing.assert_allclose(y.read(), c.expected(), rtol=3e-6, atol=2e-6, err_msg=f"{seed}")
        y.assert_guards_intact("out")
        c.xs.assert_unchanged("in")


@pytest.mark.parametrize("name", WEIGHTED)
@pytest.mark.covers("reduce.weights")
def test_weighted_forward(engine: str, name: str) -> None:
    for seed in range(25):
        c = Case(name, seed, weighted=True)
        y = c.storage(c.y)
        with np.errstate(all="ignore"):
            expected = c.expected()
        succeed(capi.BNNSFilterApplyBatch(c.filter(), c.batch, c.xs.elements, c.xs.stride, y.elements, y.stride))
        np.testing.assert_allclose(y.read(), expected, rtol=3e-6, atol=2e-6, err_msg=f"{seed}")


def slopes(c: Case, dy: Any) -> tuple[Any, Any]:
    """dL/dx and dL/dw by central differences in float64, L = sum(dy * y)."""
    x, w, h = c.xs.read(), c.weights, 1e-6
    dx = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        moved = [x.copy(), x.copy()]
        moved[0][place] += h
        moved[1][place] -= h
        dx[place] = ((c.expected(moved[0]) - c.expected(moved[1])) * dy).sum() / (2 * h)
    if w is None:
        return dx, None
    dw = np.zeros_like(w)
    for place in np.ndindex(w.shape):
        if c.name == "MeanNonZero" and w[place] == 0:  # a step away from 0 changes the count
            continue
        moved = [w.copy(), w.copy()]
        moved[0][place] += h
        moved[1][place] -= h
        dw[place] = ((c.expected(w=moved[0]) - c.expected(w=moved[1])) * dy).sum() / (2 * h)
    return dx, dw


def backward(c: Case, f: Any, dy: Storage, dx: Any, dw: Any, with_input: bool = True) -> None:
    succeed(
        capi.BNNSFilterApplyBackwardBatch(
            f, c.batch, c.xs.elements if with_input else None, c.xs.stride, dx and dx[0].descriptor(dx[1]),
            dx[0].stride if dx else 0, None, 0, dy.descriptor(), dy.stride, dw and dw[0].descriptor(dw[1]), None,
        )
    )  # fmt: skip


@pytest.mark.parametrize("name", [claims(n, "bwd") for n in GRADED])
def test_backward(engine: str, name: str) -> None:
    for seed in range(8):
        c = Case(name, seed, most=4)
        dy = c.storage(c.y, c.rng.standard_normal((c.batch, *c.y.size)))
        expected, _ = slopes(c, dy.read())
        for flags in (0, 1):
            dx = c.storage(c.x, c.rng.standard_normal((c.batch, *c.x.size)))
            before = dx.read()
            backward(c, c.filter(), dy, (dx, flags), None)
            np.testing.assert_allclose(dx.read(), expected + flags * before, rtol=2e-5, atol=2e-5, err_msg=f"{seed}")
            dx.assert_guards_intact("in_delta")
            dy.assert_unchanged("out_delta")


@pytest.mark.parametrize("name", WEIGHTED)
@pytest.mark.covers("reduce.weights_bwd")
def test_weighted_backward(engine: str, name: str) -> None:
    for seed in range(8):
        c = Case(name, seed, weighted=True, most=4)
        assert c.ws is not None
        if name == "LogSum":
            c.xs.write(np.abs(c.xs.read()))
        dy = c.storage(c.y, c.rng.standard_normal((c.batch, *c.y.size)))
        dx_expected, dw_expected = slopes(c, dy.read())
        for x_flags, w_flags in itertools.product((None, 0, 1), (None, 0, 1)):
            dx = c.storage(c.x, c.rng.standard_normal((c.batch, *c.x.size)))
            dw = Storage(c.ws.tensor, values=c.rng.standard_normal((1, *c.x.size)))
            before = dx.read(), dw.read()
            backward(
                c,
                c.filter(),
                dy,
                None if x_flags is None else (dx, x_flags),
                None if w_flags is None else (dw, w_flags),
            )
            for storage, flags, old, wanted in (
                (dx, x_flags, before[0], dx_expected),
                (dw, w_flags, before[1], dw_expected),
            ):
                if flags is None:
                    storage.assert_unchanged("gradient")
                else:
                    np.testing.assert_allclose(storage.read(), wanted + flags * old, rtol=3e-5, atol=3e-5)
                    storage.assert_guards_intact("gradient")


@pytest.mark.parametrize("name", ["Sum", "Mean", "MeanNonZero"])
def test_linear_functions_need_no_input(engine: str, name: str) -> None:
    c = Case(name, 3, weighted=True)
    dy = c.storage(c.y, c.rng.standard_normal((c.batch, *c.y.size)))
    results = []
    for with_input in (True, False):
        dx = c.storage(c.x)
        backward(c, c.filter(), dy, (dx, 0), None, with_input)
        results.append(dx.read())
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize(
    "shape", [(70_000,), (3, 50_000), (50_000, 3), (999, 31), (300, 400), (5, 3000, 7), (40, 5, 300), (2, 2, 30_000)]
)
def test_large(shape: tuple[int, ...]) -> None:
    """Every way in which the native kernels split work."""
    rng = np.random.default_rng(0)
    rank = len(shape)
    for name in ("Sum", "Max", "ArgMin", "LogSumExp", "L2Norm"):
        x = rng.standard_normal(shape).astype(np.float32)
        for axes in itertools.chain.from_iterable(itertools.combinations(range(rank), r) for r in range(1, rank + 1)):
            function = bn.ReductionFunction(name, capi.BNNSReduceFunction(F[name]), labels=())
            y = bn.apply_reduction(function, x, axes=axes)
            expected = value(name, x.astype(np.float64), axes)
            np.testing.assert_allclose(y, expected, rtol=3e-6, atol=1e-5 * np.sqrt(x.size / expected.size))
            if name == "ArgMin":
                continue
            layer = bn.ReductionLayer(function=function, input=bn.Shape(list(shape)), axes=axes)
            dy = rng.standard_normal((1, *y.shape)).astype(np.float32)
            with bn.engine("reference"):
                wanted = layer.apply_backward(x[None], None, dy).input
            np.testing.assert_allclose(layer.apply_backward(x[None], None, dy).input, wanted, rtol=2e-5, atol=1e-6)


def test_special_values(engine: str) -> None:
    rf = bn.ReductionFunction
    x = np.array([[1, np.nan, 3], [-np.inf, 2, np.inf], [-np.inf, -np.inf, -np.inf], [0, -0.0, 0]], np.float32)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(bn.apply_reduction(rf.max(), x, axes=1).ravel(), [np.nan, np.inf, -np.inf, 0])
        np.testing.assert_array_equal(bn.apply_reduction(rf.arg_max(), x, axes=1).ravel(), [1, 2, 0, 0])
        np.testing.assert_array_equal(bn.apply_reduction(rf.arg_min(), x, axes=1).ravel(), [1, 0, 0, 0])
        lse = bn.ReductionFunction("x", capi.BNNSReduceFunctionLogSumExp, labels=())
        actual = bn.apply_reduction(lse, x, axes=1).ravel()
        np.testing.assert_allclose(actual, [np.nan, np.inf, -np.inf, np.log(3)], rtol=1e-6)
    big = np.array([1000, 1000.5, 999], np.float32)
    assert bn.apply_reduction(lse, big)[0] == pytest.approx(1000.5 + np.log(np.exp(-0.5) + 1 + np.exp(-1.5)), rel=1e-6)
    zero = bn.ReductionFunction("x", capi.BNNSReduceFunctionL2Norm, labels=())
    layer = bn.ReductionLayer(function=zero, input=bn.Shape.vector(3))
    dx = layer.apply_backward(np.zeros((1, 3), np.float32), None, np.ones((1, 1), np.float32)).input
    assert dx.tolist() == [[0, 0, 0]]
    product = bn.ReductionLayer(
        function=bn.ReductionFunction("x", capi.BNNSReduceFunctionProduct, labels=()), input=bn.Shape.vector(3)
    )
    x = np.array([[2, 0, 3], [0, 0, 3], [2, 4, 3]], np.float32)
    dx = product.apply_backward(x, None, np.ones((3, 1), np.float32)).input
    assert dx.tolist() == [[0, 6, 0], [0, 0, 0], [12, 6, 8]]
    ties = np.array([[1, 5, 5, 2]], np.float32)
    largest = bn.ReductionLayer(function=rf.max(), input=bn.Shape.vector(4))
    assert largest.apply_backward(ties, None, np.array([[7]], np.float32)).input.tolist() == [[0, 7, 0, 0]]


@pytest.mark.parametrize("length", [1, 2, 7, 15, 16, 17, 33, 100, 127, 129, 300])
def test_extremes_meet_nan_anywhere(length: int) -> None:
    """Every place of a row or column may hold the NaN; infinities are not NaN."""
    rf = bn.ReductionFunction
    plain = np.random.default_rng(0).standard_normal((length + 1, length), dtype=np.float32)
    plain[:, -1] = -np.inf
    plain[0, 0] = np.inf
    holed = plain.copy()
    np.fill_diagonal(holed, np.nan)  # the last row has none
    for x in (plain, holed):
        for matrix, axis in ((x, 1), (np.ascontiguousarray(x.T), 0)):
            for name in ("max", "min"):
                actual = bn.apply_reduction(getattr(rf, name)(), matrix, axes=axis).ravel()
                np.testing.assert_array_equal(actual, getattr(np, name)(x, axis=1))
                place = bn.apply_reduction(getattr(rf, f"arg_{name}")(), matrix, axes=axis).ravel()
                np.testing.assert_array_equal(place, getattr(np, f"arg{name}")(x, axis=1))


def test_sums_are_accurate() -> None:
    x = np.random.default_rng(0).uniform(0, 1, (4, 1_000_003)).astype(np.float32)
    rf = bn.ReductionFunction
    exact = x.astype(np.float64).sum(1, keepdims=True)
    np.testing.assert_allclose(bn.apply_reduction(rf.sum(), x, axes=1), exact, rtol=1e-7)
    np.testing.assert_allclose(bn.apply_reduction(rf.sum(), np.ascontiguousarray(x.T), axes=0).T, exact, rtol=1e-7)


def test_same_bits_for_any_number_of_threads() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((60, 50, 301)).astype(np.float32)
    results = []
    before = bn.get_num_threads()
    for threads in (1, 2, 3):
        bn.set_num_threads(threads)
        arrays = []
        for axes in ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)):
            layer = bn.ReductionLayer(
                function=bn.ReductionFunction.sum(), input=bn.Shape(list(x.shape)), axes=axes, weights=x
            )
            y = layer.apply(x[None])
            arrays += [y, *layer.apply_backward(x[None], None, y)[:2]]
        results.append(np.concatenate([a.ravel() for a in arrays]))
    bn.set_num_threads(before)
    for other in results[1:]:
        np.testing.assert_array_equal(other, results[0])


def test_element_types(engine: str) -> None:
    rng = np.random.default_rng(0)
    for x_type, y_type in itertools.product((FLOAT16, INT8, INT32), (FLOAT32, FLOAT16, INT32)):
        x = Storage(Tensor(FIRST_MAJOR[2], (4, 6), data_type=x_type), values=rng.integers(-9, 9, (1, 4, 6)) * 1.0)
        y = Storage(Tensor(FIRST_MAJOR[2], (4, 1), data_type=y_type))
        for name in ("Sum", "Max", "ArgMax"):
            p = capi.BNNSLayerParametersReduction(i_desc=x.descriptor(), o_desc=y.descriptor(), reduce_func=F[name])
            succeed(capi.BNNSDirectApplyReduction(p))
            np.testing.assert_array_equal(y.read(), value(name, x.read(), (2,)))
    many = np.zeros(20_000_000 if engine == "native" else 10, np.float32)
    many[-1] = 1
    out = np.zeros(1, np.int64)
    p = capi.BNNSLayerParametersReduction(
        i_desc=vector(many.size).descriptor(many),
        o_desc=vector(1, data_type=INT64).descriptor(out),
        reduce_func=F["ArgMax"],
    )
    succeed(capi.BNNSDirectApplyReduction(p))
    assert out[0] == many.size - 1  # float32 does not hold it
    truth = np.zeros((1, 3), np.uint8)
    p = capi.BNNSLayerParametersReduction(
        i_desc=Tensor(FIRST_MAJOR[2], (2, 3)).descriptor(np.array([[0, 1, 1], [0, 0, 1]], np.float32)),
        o_desc=Tensor(FIRST_MAJOR[2], (1, 3), data_type=BOOLEAN).descriptor(truth), reduce_func=F["All"],
    )  # fmt: skip
    succeed(capi.BNNSDirectApplyReduction(p))
    assert truth.tolist() == [[0, 0, 1]]


@pytest.mark.covers("direct.reduction", "fn.BNNSDirectApplyReduction")
def test_direct(engine: str) -> None:
    for name in F:
        c = Case(name, 7)
        c.batch = 1
        x = Storage(c.x, values=numbers(name, (1, *c.x.size), c.rng))
        y = Storage(c.y)
        p = capi.BNNSLayerParametersReduction(
            i_desc=x.descriptor(), o_desc=y.descriptor(), reduce_func=F[name], epsilon=EPSILON
        )
        succeed(capi.BNNSDirectApplyReduction(p))
        np.testing.assert_allclose(y.read(), c.expected(x.read()), rtol=3e-6, atol=2e-6)


def test_argmax_last_axis(engine: str) -> None:
    x = np.array([[1, 2, 3], [9, 5, 6]], np.float32)
    assert bn.apply_reduction(bn.ReductionFunction.arg_max(), x).tolist() == [[3]]
    with compat.using(argmax_last_axis=True):
        assert bn.apply_reduction(bn.ReductionFunction.arg_max(), x).tolist() == [[0]]


@pytest.mark.covers("swift.ReductionLayer")
def test_layer(engine: str) -> None:
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((5, 2, 3, 4)).astype(np.float32), rng.random((2, 3, 4)).astype(np.float32)
    keep = capi.BNNSFilterParameters(flags=capi.BNNSFlagsUseClientPtr)
    layer = bn.ReductionLayer(
        function=bn.ReductionFunction.sum_of_squares(), input=x, axes=(-1, 0), weights=w, filter_parameters=keep
    )
    y = layer.apply(x)
    np.testing.assert_allclose(y, (w * x * x).sum((1, 3), keepdims=True), rtol=1e-5)
    w *= 2
    np.testing.assert_allclose(layer.apply(x), 2 * y, rtol=1e-6)
    dy = rng.standard_normal(y.shape).astype(np.float32)
    gradients = layer.apply_backward(x, y, dy)
    np.testing.assert_allclose(gradients.input, 2 * w * x * dy, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(gradients.weights, (x * x * dy).sum(0), rtol=1e-5, atol=1e-5)
    assert gradients.bias is None
    assert layer.apply_backward(x, y, dy, bn.skip).input is None
    one = bn.ReductionLayer(function=bn.ReductionFunction.max(), input=bn.Shape.image_chw(4, 3, 2),
                            output=bn.Shape.image_chw(1, 1, 2))  # fmt: skip
    np.testing.assert_array_equal(one.apply(x), x.max((2, 3), keepdims=True))
    np.testing.assert_array_equal(one.apply(x[0]), x[0].max((1, 2), keepdims=True))
    assert "ReductionFunction.max()" in repr(one)
    d = Tensor(FIRST_MAJOR[2], (2, 3)).descriptor(np.arange(6, dtype=np.float32))
    assert bn.apply_reduction(bn.ReductionFunction.sum(), d, axes=[0]).tolist() == [[3, 5, 7]]
    last = replace(Tensor(FIRST_MAJOR[2], (3, 2)), layout=capi.BNNSDataLayout2DLastMajor)
    actual = bn.apply_reduction(bn.ReductionFunction.sum(), last.descriptor(np.arange(6, dtype=np.float32)), axes=0)
    assert actual.tolist() == [[3], [12]]  # size[0] is the fastest axis
    for report in (bn.gradcheck(layer, verbose=False), bn.gradcheck(one, verbose=False)):
        assert report.passed, str(report)


def params(name: str = "Sum", i: Any = (4,), o: Any = (1,), **more: Any) -> Any:
    return capi.BNNSLayerParametersReduction(
        i_desc=Tensor(FIRST_MAJOR[len(i)], i).descriptor(np.ones(int(np.prod(i)), np.float32)),
        o_desc=Tensor(FIRST_MAJOR[len(o)], o).descriptor(np.zeros(int(np.prod(o)), np.float32)),
        reduce_func=F.get(name, 15), **more,
    )  # fmt: skip


W3 = vector(3).descriptor(np.ones(3, np.float32))
W4 = vector(4).descriptor(np.ones(4, np.float32))
BAD = [
    (params(o=(2,)), "o_desc is 1DFirstMajor size"),
    (params(i=(4, 3), o=(1,)), "Sizes of the output are 1"),
    (params("None"), "reduce_func is None"),
    (capi.BNNSLayerParametersReduction(
        i_desc=W4, o_desc=vector(1).descriptor(np.zeros(1, np.float32)), reduce_func=17), "not a BNNSReduceFunction"),
    (params(w_desc=W3), "weights have the size of the input"),
    (params("Max", w_desc=W4), "Max has no summands to weigh"),
    (params("SumLog", epsilon=float("nan")), "epsilon is nan"),
]  # fmt: skip


@pytest.mark.parametrize(("p", "message"), BAD, ids=lambda v: v if isinstance(v, str) else "")
def test_bad_descriptions(engine: str, p: Any, message: str) -> None:
    refused(capi.BNNSFilterCreateLayerReduction(p), f"^BNNSFilterCreateLayerReduction: .*{message}")
    refused(capi.BNNSDirectApplyReduction(p), f"^BNNSDirectApplyReduction: .*{message}")


@pytest.mark.parametrize(
    ("element", "positions"),
    [(INT8, 128), (FLOAT16, 2049), (FLOAT32, (1 << 24) + 1), (INT32, 1 << 31), (INT64, 1 << 40)],
    ids=["int8", "float16", "float32", "int32", "int64"],
)
def test_positions_are_exact_or_refused(element: Any, positions: int, engine: str) -> None:
    """A saturated or rounded position is that of another element. Creation needs no memory for the tensors."""
    for name, count, good in itertools.product(("ArgMax", "ArgMin"), (positions, positions + 1), (True, False)):
        sizes = (count, 5) if good else (3, count)
        p = capi.BNNSLayerParametersReduction(
            i_desc=Tensor(FIRST_MAJOR[2], sizes).descriptor(),
            o_desc=Tensor(
                FIRST_MAJOR[2], tuple(1 if n == count else n for n in sizes), data_type=element
            ).descriptor(), reduce_func=F[name],
        )  # fmt: skip
        f = capi.BNNSFilterCreateLayerReduction(p)
        if count == positions or element is INT64:
            assert f is not None, bn.last_error()
        else:
            refused(f, r"o_desc.data_type is \w+, which counts to \d+ exactly, but positions go up to")


def test_positions_along_the_last_axis(engine: str) -> None:
    """Only as many as that axis has."""
    p = capi.BNNSLayerParametersReduction(
        i_desc=Tensor(FIRST_MAJOR[2], (300, 100)).descriptor(),
        o_desc=Tensor(FIRST_MAJOR[2], (1, 1), data_type=INT8).descriptor(), reduce_func=F["ArgMax"],
    )  # fmt: skip
    assert capi.BNNSFilterCreateLayerReduction(p) is None
    with compat.using(argmax_last_axis=True):
        assert capi.BNNSFilterCreateLayerReduction(p) is not None


def test_bad_calls(engine: str) -> None:
    no_data = params()
    no_data.i_desc.data = None
    assert capi.BNNSDirectApplyReduction(no_data) == -1 and "i_desc.data is NULL" in str(bn.last_error())
    f = capi.BNNSFilterCreateLayerReduction(params("ArgMax"))
    x, dx = np.ones(4, np.float32), np.full(4, 5, np.float32)
    d, dy = vector(4).descriptor(dx), vector(1).descriptor(np.ones(1, np.float32))
    d.layout = dy.layout = FIRST_MAJOR[1]
    refused(capi.BNNSFilterApplyBackwardBatch(f, 1, x, 0, d, 0, None, 0, dy, 0), "ArgMax has no gradient")
    f = capi.BNNSFilterCreateLayerReduction(params("L2Norm"))
    refused(
        capi.BNNSFilterApplyBackwardBatch(f, 1, None, 0, d, 0, None, 0, dy, 0),
        "gradient of L2Norm needs the forward input",
    )
    assert capi.BNNSFilterApplyBackwardBatch(f, 1, x, 0, d, 0, None, 0, None, 0) == -1
    assert dx.tolist() == [5] * 4
    for call, kind, message in (
        (lambda: bn.ReductionLayer(function="sum", input=x), TypeError, "must be a ReductionFunction"),  # type: ignore[arg-type]
        (lambda: bn.ReductionLayer(function=bn.ReductionFunction.sum(), input=x, axes=3), ValueError, "axes has 3"),
        (lambda: bn.ReductionLayer(function=bn.ReductionFunction.none(), input=x), ValueError, "function is None"),
        (
            lambda: bn.apply_reduction(bn.ReductionFunction.sum(), x, weights=x[:2]),
            ValueError,
            r"weights has shape \(2,\)",
        ),
        (
            lambda: bn.apply_reduction(bn.ReductionFunction.sum(), np.ones(3, np.complex64)),
            TypeError,
            "input is complex64",
        ),
        (lambda: bn.apply_reduction(bn.ReductionFunction.sum(), x, axes=0.5), TypeError, "axes"),  # type: ignore[arg-type]
    ):
        with pytest.raises(kind, match=message):
            call()
