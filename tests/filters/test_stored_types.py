"""Layers on Float16, BFloat16 and bytes: kernels read and write them as they are stored.

Oracles are sums in float64, or in integers, of what the stored numbers stand for; products of bytes have exact sums.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import openbnns
from helpers import (
    BFLOAT16,
    COLUMN_MAJOR,
    EPSILON,
    FIRST_MAJOR_2D,
    FIRST_MAJOR_3D,
    FLOAT16,
    FLOAT32,
    INT8,
    INT16,
    INT32,
    ROW_MAJOR,
    UINT8,
    VECTOR,
    Array,
    Storage,
    Tensor,
    assert_bitwise,
    assert_within,
    vector,
)
from openbnns import capi
from openbnns.capi import BNNSDataType
from stored_tensors import BYTES, FLOATS, HALVES, names, nothing_converted_in_python, stored

# samples, inputs, outputs: products of few rows, of few columns, and packed ones with edges everywhere
SIZES = (
    (1, 8, 8),
    (1, 513, 37),
    (3, 1, 1),
    (5, 129, 77),
    (8, 64, 33),
    (9, 70, 31),
    (31, 256, 10),
    (64, 512, 96),
    (90, 35, 201),
)


class Layer:
    """A fully connected filter with random weights, and what it computes in float64."""

    def __init__(
        self, types: tuple[BNNSDataType, BNNSDataType, BNNSDataType | None, BNNSDataType], size: tuple[int, int, int], *,
        scales: dict[str, tuple[float, float]] | None = None, client: bool = False, activation: Any = None, threads: int = 0,
        weights_layout: Any = ROW_MAJOR, seed: int = 0,
    ) -> None:  # fmt: skip
        x, w, b, y = types
        self.batch, self.inputs, self.outputs = size
        given = {"x": (0.0, 0.0), "w": (0.0, 0.0), "y": (0.0, 0.0)} | (scales or {})

        def options(name: str, data_type: BNNSDataType) -> dict[str, Any]:
            return {"data_type": data_type, "scale": given[name][0], "bias": given[name][1]}

        self.x, self.y = vector(self.inputs, **options("x", x)), vector(self.outputs, **options("y", y))
        shape = (self.outputs, self.inputs) if weights_layout == COLUMN_MAJOR else (self.inputs, self.outputs)
        self.w = Tensor(weights_layout, shape, **options("w", w))
        rng = np.random.default_rng([seed, *size])
        self.rng = rng
        self.weights = Storage(self.w)
        self.weights.elements[self.weights.places] = stored(rng, self.w, 1, *shape)
        self.bias = None
        if b is not None:
            self.bias = Storage(vector(self.outputs, data_type=b))
            self.bias.elements[self.bias.places] = stored(rng, self.bias.tensor, 1, self.outputs)
        empty = vector(self.outputs).descriptor()
        self.parameters = capi.BNNSLayerParametersFullyConnected(
            i_desc=self.x.descriptor(), o_desc=self.y.descriptor(), w_desc=self.weights.descriptor(),
            bias=empty if self.bias is None else self.bias.descriptor(), activation=activation or capi.BNNSActivation(),
        )  # fmt: skip
        self.filter = capi.BNNSFilterCreateLayerFullyConnected(
            self.parameters,
            capi.BNNSFilterParameters(flags=capi.BNNSFlagsUseClientPtr if client else 0, n_threads=threads),
        )
        assert self.filter is not None, openbnns.last_error()

    def input(self, gap: int = 0) -> Storage:
        x = Storage(self.x, self.batch, gap)
        x.elements[x.places] = stored(self.rng, self.x, self.batch, self.inputs)
        x.before = x.memory.copy()
        return x

    def apply(self, x: Storage, gap: int = 0) -> Storage:
        y = Storage(self.y, self.batch, gap)
        status = capi.BNNSFilterApplyBatch(self.filter, self.batch, x.elements, x.stride, y.elements, y.stride)
        assert status == 0, openbnns.last_error()
        x.assert_unchanged("input")
        y.assert_guards_intact("output")
        return y

    def matrix(self, values: Array) -> Array:
        """The weights (outputs, inputs)."""
        return values[0] if self.w.layout == COLUMN_MAJOR else values[0].T

    def sums(self, x: Storage) -> tuple[Array, Array]:
        """W x + b, and the sum of the magnitudes of its terms."""
        w, b = self.matrix(self.weights.read()), 0.0 if self.bias is None else self.bias.read()
        return x.read() @ w.T + b, np.abs(x.read()) @ np.abs(w).T + np.abs(b)


@pytest.mark.parametrize("client", [False, True])
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("types", FLOATS, ids=names)
def test_fully_connected_floats(types: Any, size: Any, client: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    layer = Layer(types, size, client=client, scales={"x": (0.25, -3.0), "w": (0.125, 0.5)})
    x = layer.input()
    with nothing_converted_in_python(monkeypatch):
        y = layer.apply(x)
        again = layer.apply(x)  # with weights that were packed by the first call
    exact, magnitude = layer.sums(x)
    bound = EPSILON / 2 * (size[1] + 4) * magnitude + layer.y.unit(exact) / 2 * 1.01
    assert_within(y.read(), exact, bound, "y")
    assert_bitwise(again.raw(), y.raw(), "the second call")


@pytest.mark.parametrize("client", [False, True])
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("types", BYTES, ids=names)
def test_fully_connected_bytes_are_exact(types: Any, size: Any, client: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    layer = Layer((*types, INT32, INT32), size, client=client)
    x = layer.input()
    with nothing_converted_in_python(monkeypatch):
        y = layer.apply(x)
    assert layer.bias is not None
    w, b = layer.matrix(layer.weights.raw()).astype(np.int64), layer.bias.raw().astype(np.int64)
    assert np.array_equal(y.raw(), x.raw().astype(np.int64) @ w.T + b)
    assert np.array_equal(layer.apply(x).raw(), y.raw())


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("types", BYTES, ids=names)
def test_bytes_with_scale_and_bias(types: Any, size: Any) -> None:
    """Sums are converted once: a float32 result is within its own rounding of the exact one."""
    layer = Layer((*types, FLOAT32, FLOAT32), size, scales={"x": (0.1, 0.3), "w": (0.013, -0.7)})
    x = layer.input()
    exact, magnitude = layer.sums(x)
    assert_within(layer.apply(x).read(), exact, EPSILON / 2 * 1.0001 * np.abs(exact) + 2.0**-44 * magnitude, "y")


@pytest.mark.parametrize("data_type", [INT8, UINT8, INT32])
@pytest.mark.parametrize("size", [(1, 40, 9), (33, 64, 40)], ids=str)
def test_results_of_bytes_round_and_saturate(size: Any, data_type: BNNSDataType) -> None:
    """Powers of 2 as scales: every sum, ties included, is exact in float64."""
    scales = {"x": (0.5, 0.25), "w": (0.125, 0.0), "y": (4.0, -6.0)}
    layer = Layer((INT8, INT8, None, data_type), size, scales=scales)
    x = layer.input()
    exact, _ = layer.sums(x)
    assert np.array_equal(layer.apply(x).raw(), layer.y.encode(exact))


@pytest.mark.parametrize("scale", [3.0, 0.7, 1e-30, 1e30])
def test_quotients_that_are_ties_are_exact(scale: float) -> None:
    """Sums that are 1/2, 3/2, .. times the scale of the result, which is not a power of 2, go to the even neighbour."""
    layer = Layer(
        (INT8, INT8, None, INT8), (64, 9, 70), scales={"x": (scale / 2, 0.0), "w": (1.0, 0.0), "y": (scale, 0.0)}
    )
    x = layer.input()
    sums = x.raw().astype(np.int64) @ layer.matrix(layer.weights.raw()).astype(np.int64).T
    assert (sums % 2).any()
    assert np.array_equal(layer.apply(x).raw(), np.clip(np.rint(sums / 2), -128, 127))


@pytest.mark.parametrize("data_type", [INT8, UINT8, INT32])
def test_results_of_bytes_that_are_not_finite(data_type: BNNSDataType) -> None:
    """Infinite ones saturate, and NaN is 0."""
    layer = Layer((INT8, INT8, FLOAT32, data_type), (5, 8, 70), scales={"y": (0.3, 0.1)}, client=True)
    assert layer.bias is not None
    for value, stored_as in (
        (np.inf, np.iinfo(layer.y.dtype).max),
        (-np.inf, np.iinfo(layer.y.dtype).min),
        (np.nan, 0),
    ):
        layer.bias.elements[:] = value
        assert np.array_equal(np.unique(layer.apply(layer.input()).raw()), [stored_as])


def test_the_largest_sums_of_bytes() -> None:
    layer = Layer((INT8, INT8, None, INT32), (1, 65536, 3))
    layer = Layer((INT8, INT8, None, INT32), (12, 65536, 18), client=True)
    layer.weights.elements[:] = -128
    x = Storage(layer.x, 12)
    x.elements[:] = -128
    x.elements[: 65536 * 6] = 127
    x.before = x.memory.copy()
    y = layer.apply(x).raw()
    assert np.array_equal(np.unique(y[:6]), [-(2**30) + 65536 * 128]) and np.array_equal(np.unique(y[6:]), [2**30])


def test_sums_of_bytes_too_long_for_32_bits() -> None:
    layer = Layer((INT8, INT8, None, FLOAT32), (10, 70000, 20))
    x = layer.input()
    exact, magnitude = layer.sums(x)
    assert_within(layer.apply(x).read(), exact, EPSILON * 300 * magnitude, "y")


@pytest.mark.parametrize("function", ["RectifiedLinear", "Tanh", "Softmax"])
@pytest.mark.parametrize(
    "types", [FLOATS[0], (BFLOAT16, BFLOAT16, None, FLOAT32), (INT8, INT8, None, UINT8)], ids=names
)
@pytest.mark.parametrize("size", [(1, 30, 40), (20, 65, 33)], ids=str)
def test_activations_see_floats(size: Any, types: Any, function: str) -> None:
    activation = capi.BNNSActivation(function=getattr(capi, f"BNNSActivationFunction{function}"))
    scales = {"x": (0.01, 0.0), "w": (0.01, 0.0), "y": (1 / 255, 0.0)}
    layer = Layer(types, size, scales=scales, activation=activation)
    x = layer.input()
    z, magnitude = layer.sums(x)
    if function == "Softmax":
        e = np.exp(z - z.max(1, keepdims=True))
        expected = e / e.sum(1, keepdims=True)
    else:
        expected = np.tanh(z) if function == "Tanh" else np.maximum(z, 0)
    bound = EPSILON * (size[1] + 20) * (magnitude + 1)
    expected_stored = layer.y.rounded(expected) if layer.y.is_integer else expected
    steps = layer.y.unit(expected)  # a result may be rounded to the next step
    assert_within(layer.apply(x).read(), expected_stored, bound + steps * (1.0 if layer.y.is_integer else 0.51), "y")


@pytest.mark.parametrize(
    "types", [FLOATS[0], FLOATS[1], (INT8, INT8, None, INT8), (UINT8, UINT8, None, FLOAT32)], ids=names
)
@pytest.mark.parametrize("size", [(1, 2000, 900), (8, 700, 500), (70, 600, 300), (500, 600, 40)], ids=str)
def test_any_number_of_threads_gives_the_same_bits(types: Any, size: Any) -> None:
    results = []
    for threads in (1, 2, 5):
        layer = Layer(types, size, threads=threads)
        results.append(layer.apply(layer.input()).raw())
    for other in results[1:]:
        assert_bitwise(other, results[0], "y")


@pytest.mark.parametrize("types", [*FLOATS, (FLOAT32,) * 4, (INT8, UINT8, INT32, INT32)], ids=names)
@pytest.mark.parametrize(("inputs", "outputs"), [(3, 5), (40, 29), (107, 15), (512, 8)])
def test_each_of_a_few_rows_has_the_bits_that_it_has_alone(types: Any, inputs: int, outputs: int) -> None:
    """However many of them are multiplied at a time."""
    for batch in range(2, 9):
        layer = Layer(types, (batch, inputs, outputs))
        x = layer.input()
        exact, magnitude = layer.sums(x)
        y = layer.apply(x)
        bound = EPSILON / 2 * (inputs + 4) * magnitude + layer.y.unit(exact) / 2 * 1.01
        assert_within(y.read(), exact, bound * (not layer.y.is_integer), "y")
        for n in range(batch):
            alone = np.zeros_like(y.raw()[n])
            assert capi.BNNSFilterApply(layer.filter, x.raw()[n].copy(), alone) == 0, openbnns.last_error()
            assert_bitwise(alone, y.raw()[n], f"row {n} of {batch}")


@pytest.mark.parametrize("types", [FLOATS[0], (INT8, INT8, None, INT32), (INT16, INT8, None, FLOAT32)], ids=names)
def test_strides_and_layouts(types: Any) -> None:
    """Gaps between samples are native; other layouts are moved, but not converted. Int16 still is."""
    layer = Layer(types, (11, 45, 23), weights_layout=COLUMN_MAJOR, client=True)
    x = layer.input(gap=3)
    exact, magnitude = layer.sums(x)
    y = layer.apply(x, gap=2)
    assert_within(
        y.read(), exact, EPSILON * 50 * magnitude + layer.y.unit(exact) / 2 * 1.01 * (not layer.y.is_integer), "y"
    )
    spread = Layer(types, (11, 45, 23), weights_layout=COLUMN_MAJOR)
    spread.x = replace(spread.x, stride=(2,))
    gaps = capi.BNNSFilterCreateLayerFullyConnected(
        capi.BNNSLayerParametersFullyConnected(
            i_desc=spread.x.descriptor(), o_desc=spread.y.descriptor(), w_desc=spread.weights.descriptor(),
            bias=vector(23).descriptor() if spread.bias is None else spread.bias.descriptor(),
        )
    )  # fmt: skip
    spread.filter = gaps
    wide = Storage(spread.x, 11)
    wide.elements[wide.places] = x.raw()
    wide.before = wide.memory.copy()
    assert_bitwise(spread.apply(wide).raw(), y.raw(), "with gaps between elements")


@pytest.mark.parametrize("samples", [7, 4096])
@pytest.mark.parametrize("name", HALVES)
def test_every_half_is_read(name: str, samples: int) -> None:
    """One input, weight 1: the output is the input, subnormal, infinite and NaN ones included."""
    layer = Layer((HALVES[name], FLOAT16, None, FLOAT32), (samples, 1, 1), client=True)
    layer.weights.elements[:] = 0x3C00 if layer.w.dtype == np.uint16 else 1.0
    for first in range(0, 65536 if samples > 7 else 70, samples):
        x = Storage(layer.x, samples)
        x.elements[:] = np.arange(first, first + samples).astype(np.uint16).view(layer.x.dtype)
        x.before = x.memory.copy()
        with np.errstate(invalid="ignore"):  # signalling NaN
            y, expected = layer.apply(x).read(), x.read()
        assert np.array_equal(np.isnan(y), np.isnan(expected)) and np.array_equal(
            y[~np.isnan(y)], expected[~np.isnan(y)]
        )


@pytest.mark.parametrize("samples", [7, 5000])
@pytest.mark.parametrize("name", HALVES)
def test_floats_are_rounded_to_nearest_even(name: str, samples: int) -> None:
    rng = np.random.default_rng(1)
    layer = Layer((FLOAT32, FLOAT32, None, HALVES[name]), (samples, 1, 1), client=True)
    layer.weights.elements[:] = 1.0
    x = Storage(layer.x, samples)
    random = rng.integers(0, 2**32, samples, dtype=np.uint32).view(np.float32)
    halfway = rng.integers(0, 2**16, samples).astype(np.uint16).view(np.float16).astype(np.float32)
    halfway = (halfway.view(np.uint32) + np.uint32(0x1000)).view(np.float32)
    with np.errstate(invalid="ignore"):
        subnormal = halfway * np.float32(2.0**-12)
    edges = np.array([65519.99, 65520, 6e-8, 2.98e-8, 2.981e-8, 3.39e38, 0.0], np.float32)
    for values in (random, halfway, subnormal, np.resize(edges, samples)):
        x.elements[:] = values
        x.before = x.memory.copy()
        with np.errstate(all="ignore"):
            y, expected = layer.apply(x).read()[:, 0], layer.y.rounded(values)
        is_nan = np.isnan(values)
        assert np.array_equal(np.isnan(y), is_nan) and np.array_equal(y[~is_nan], expected[~is_nan])


@pytest.mark.parametrize("types", [*FLOATS, *((*pair, None, FLOAT32) for pair in BYTES)], ids=names)
def test_both_engines_agree(types: Any) -> None:
    layer = Layer(types, (12, 50, 20), scales={"x": (0.25, 0.0), "w": (0.5, 1.0)})
    x = layer.input()
    native = layer.apply(x).read()
    with openbnns.engine("reference"):
        reference = layer.apply(x).read()
    _, magnitude = layer.sums(x)
    assert_within(native, reference, EPSILON * 54 * magnitude + layer.y.unit(reference) * 1.01, "y")


def test_weights_are_kept_in_their_type() -> None:
    layer = Layer((FLOAT16, INT8, FLOAT16, FLOAT16), (2, 300, 200))
    assert layer.filter.weights.memory[1] == 300 * 200 and layer.filter.bias.memory[1] == 2 * 200


def test_a_chain_with_a_normalization_reads_stored_types(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = Layer((BFLOAT16, BFLOAT16, BFLOAT16, FLOAT32), (12, 50, 20))
    x = layer.input()
    h = layer.apply(x).read()
    norm = capi.BNNSLayerParametersNormalization(i_desc=layer.y.descriptor(), o_desc=layer.y.descriptor(), epsilon=1e-3)
    kinds = [capi.BNNSFullyConnected, capi.BNNSBatchNorm]
    chain = capi.BNNSFilterCreateFusedLayer(2, kinds, [layer.parameters, norm], None)
    assert chain is not None, openbnns.last_error()
    y = Storage(layer.y, 12)
    with nothing_converted_in_python(monkeypatch):
        assert capi.BNNSFusedFilterApplyBatch(chain, 12, x.elements, 0, y.elements, 0, True) == 0
    np.testing.assert_allclose(y.read(), (h - h.mean(0)) / np.sqrt(h.var(0) + 1e-3), rtol=1e-4, atol=1e-5)


class MatrixProducts:
    """A batch of matrix products of random tensors, and what they are in float64."""

    def __init__(
        self, types: Any, size: tuple[int, int, int], *, transposes: tuple[bool, bool] = (False, False), alpha: float = 1.0,
        beta: float = 0.0, batch: int = 1, heads: int = 0, weights: bool = False, threads: int = 0,
        scales: tuple[float, float] = (0.0, 0.0),
    ) -> None:  # fmt: skip
        m, n, k = size
        layout, front = (FIRST_MAJOR_3D, (heads,)) if heads else (FIRST_MAJOR_2D, ())
        shapes = ((k, m) if transposes[0] else (m, k), (n, k) if transposes[1] else (k, n), (m, n))
        a, b, c = (
            Tensor(layout, (*front, *shape), data_type=t, scale=scale)
            for shape, t, scale in zip(shapes, types, (*scales, 0.0), strict=True)
        )
        rng = np.random.default_rng([*size, batch])
        self.batch, self.alpha, self.beta, self.transposes = batch, alpha, beta, transposes
        self.operands = []
        for tensor, copies in ((a, batch), (b, 1 if weights else batch), (c, batch)):
            memory = Storage(tensor, copies)
            memory.elements[memory.places] = stored(rng, tensor, copies, *tensor.size)
            memory.before = memory.memory.copy()
            self.operands.append(memory)
        self.filter = capi.BNNSFilterCreateLayerBroadcastMatMul(
            capi.BNNSLayerParametersBroadcastMatMul(
                alpha=alpha, beta=beta, transA=transposes[0], transB=transposes[1], b_is_weights=weights,
                iA_desc=a.descriptor(), iB_desc=b.descriptor(self.operands[1].elements if weights else None),
                o_desc=c.descriptor(),
            ),
            capi.BNNSFilterParameters(n_threads=threads),
        )  # fmt: skip
        assert self.filter is not None, openbnns.last_error()
        self.weights = weights
        self.previous = self.operands[2].read() if beta else 0.0

    def apply(self) -> Storage:
        a, b, c = self.operands
        if self.weights:
            status = capi.BNNSFilterApplyBatch(self.filter, self.batch, a.elements, 0, c.elements, 0)
        else:
            status = capi.BNNSFilterApplyTwoInputBatch(
                self.filter, self.batch, a.elements, 0, b.elements, 0, c.elements, 0
            )
        assert status == 0, openbnns.last_error()
        a.assert_unchanged("A")
        b.assert_unchanged("B")
        c.assert_guards_intact("C")
        return c

    def expected(self) -> tuple[Array, Array]:
        """The results, and the sums of the magnitudes of their terms."""
        a, b = (
            memory.read().swapaxes(-1, -2) if transpose else memory.read()
            for memory, transpose in zip(self.operands, self.transposes, strict=False)
        )
        return self.alpha * (a @ b) + self.previous, abs(self.alpha) * (np.abs(a) @ np.abs(b)) + np.abs(self.previous)


PRODUCTS = (
    (FLOAT16, FLOAT16, FLOAT16),
    (BFLOAT16, BFLOAT16, BFLOAT16),
    (FLOAT16, FLOAT16, FLOAT32),
    (FLOAT32, INT8, FLOAT16),
)
TRANSPOSES = ((False, False), (False, True), (True, False), (True, True))


@pytest.mark.parametrize(
    "options", [{}, {"alpha": 0.375, "beta": 1.0}, {"weights": True, "batch": 3}, {"heads": 3}], ids=str
)
@pytest.mark.parametrize("size", [(1, 40, 70), (3, 9, 300), (33, 47, 65), (70, 1, 40), (4, 3, 2)], ids=str)
@pytest.mark.parametrize("transposes", TRANSPOSES, ids=str)
@pytest.mark.parametrize("types", PRODUCTS, ids=names)
def test_matrix_products(types: Any, transposes: Any, size: Any, options: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    p = MatrixProducts(types, size, transposes=transposes, **{"batch": 2, "scales": (0.0, 0.125)} | options)
    with nothing_converted_in_python(monkeypatch):
        c = p.apply()
    exact, magnitude = p.expected()
    bound = EPSILON / 2 * (size[2] + 6) * magnitude + c.tensor.unit(exact) / 2 * 1.01
    assert_within(c.read(), exact, bound, "C")


@pytest.mark.parametrize(
    "options", [{}, {"alpha": 2.0, "beta": 1.0}, {"weights": True, "batch": 3}, {"heads": 2}], ids=str
)
@pytest.mark.parametrize("size", [(1, 40, 70), (3, 9, 300), (33, 47, 65), (20, 17, 1000)], ids=str)
@pytest.mark.parametrize("transposes", TRANSPOSES, ids=str)
@pytest.mark.parametrize("types", BYTES, ids=names)
def test_matrix_products_of_bytes_are_exact(types: Any, transposes: Any, size: Any, options: Any) -> None:
    p = MatrixProducts((*types, INT32), size, transposes=transposes, **{"batch": 2} | options)
    exact, _ = p.expected()
    assert np.array_equal(p.apply().raw(), exact)


@pytest.mark.parametrize("types", [PRODUCTS[0], PRODUCTS[1], (INT8, INT8, FLOAT32)], ids=names)
@pytest.mark.parametrize("size", [(2, 3000, 500), (200, 300, 400)], ids=str)
def test_matrix_products_on_any_number_of_threads(types: Any, size: Any) -> None:
    results = [MatrixProducts(types, size, threads=threads, scales=(0.1, 0.3)).apply().raw() for threads in (1, 2, 3)]
    for other in results[1:]:
        assert_bitwise(other, results[0], "C")


@pytest.mark.parametrize("types", [(FLOAT16, FLOAT16, FLOAT16), (INT8, INT8, FLOAT32)], ids=names)
@pytest.mark.parametrize("operation", ["a_ij, b_ij -> c_i", "a_ijk, b_kjl -> c_lij", "a_ij, a_kj -> c_ik"])
def test_contractions(operation: str, types: Any) -> None:
    """Contractions that are not matrix products as they lie are computed on copies."""
    left, result = operation.replace("a_", "").replace("b_", "").replace("c_", "").split(" -> ")
    sizes = dict(zip("ijkl", (5, 9, 11, 7), strict=True))
    if operation == "a_ij, a_kj -> c_ik":
        sizes["k"] = sizes["i"]
    layouts = {1: VECTOR, 2: FIRST_MAJOR_2D, 3: FIRST_MAJOR_3D}
    tensors = [
        Tensor(layouts[len(word)], tuple(sizes[letter] for letter in word), data_type=t, scale=0.25)
        for word, t in zip((*left.split(", "), result), types, strict=True)
    ]
    rng = np.random.default_rng(3)
    memories = [Storage(tensor, 2) for tensor in tensors]
    for memory in memories:
        memory.elements[memory.places] = stored(rng, memory.tensor, 2, *memory.tensor.size)
    a, b, c = memories
    own = operation.count("a_") == 2
    f = capi.BNNSFilterCreateLayerTensorContraction(
        capi.BNNSLayerParametersTensorContraction(
            operation=operation, alpha=0.5, iA_desc=tensors[0].descriptor(),
            iB_desc=capi.BNNSNDArrayDescriptor() if own else tensors[1].descriptor(), o_desc=tensors[2].descriptor(),
        )
    )  # fmt: skip
    assert f is not None, openbnns.last_error()
    if own:
        status = capi.BNNSFilterApplyBatch(f, 2, a.elements, 0, c.elements, 0)
    else:
        status = capi.BNNSFilterApplyTwoInputBatch(f, 2, a.elements, 0, b.elements, 0, c.elements, 0)
    assert status == 0, openbnns.last_error()
    words = [f"n{word}" for word in left.split(", ")]
    exact = 0.5 * np.einsum(f"{','.join(words)}->n{result}", a.read(), a.read() if own else b.read())
    assert_within(c.read(), exact, 1e-5 * np.abs(exact).max() + c.tensor.unit(exact) / 2 * 1.01, "C")
