"""Functions without a filter repeat known calls in native code: the results, and every refusal, stay the same."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import openbnns as bn
from bad_calls import refused
from openbnns import Shape, capi, compat
from openbnns.capi import *  # noqa: F403
from openbnns.layers import types

Arrays = dict[str, NDArray[Any]]
CODES = {
    "float32": capi.BNNSDataTypeFloat32, "float16": capi.BNNSDataTypeFloat16, "int8": capi.BNNSDataTypeInt8,
    "int32": capi.BNNSDataTypeInt32, "int64": capi.BNNSDataTypeInt64, "bool": capi.BNNSDataTypeBoolean,
}  # fmt: skip


def d(array: NDArray[Any], shape: Any = None, **named: Any) -> capi.BNNSNDArrayDescriptor:
    descriptor = (shape or Shape(array.shape)).descriptor(CODES[array.dtype.name], array)
    for name, value in named.items():
        setattr(descriptor, name, value)
    return descriptor


def floats(rng: np.random.Generator, *shape: int) -> NDArray[np.float32]:
    return rng.standard_normal(shape, dtype=np.float32)


class Case:
    """A call: makes its arguments from a generator, and runs on them; ``outputs`` are the names of what it writes."""

    def __init__(self, name: str, make: Callable[..., Arrays], run: Callable[[Arrays], Any], *outputs: str) -> None:
        self.name, self.make, self.run, self.outputs = name, make, run, outputs


def direct(name: str, make: Callable[..., Arrays], run: Callable[[Arrays], Any], *outputs: str) -> Case:
    def checked(a: Arrays) -> None:
        assert run(a) in (0, None), bn.last_error()

    return Case(name, make, checked, *outputs)


def reduction(a: Arrays, function: int) -> int:
    return capi.BNNSDirectApplyReduction(
        capi.BNNSLayerParametersReduction(i_desc=d(a["x"]), o_desc=d(a["y"]), reduce_func=function)
    )


def activation(a: Arrays, function: int, *numbers: int, alpha: float = 0.0) -> int:
    p = capi.BNNSLayerParametersActivation(
        i_desc=d(a["x"], Shape.vector(6)), o_desc=d(a["y"], Shape.vector(6)),
        activation=capi.BNNSActivation(function=function, alpha=alpha, beta=1.0),
    )  # fmt: skip
    return capi.BNNSDirectApplyActivationBatch(p, None, *numbers)


def quantizer(a: Arrays, function: int) -> int:
    p = capi.BNNSLayerParametersQuantization(
        function=function, i_desc=d(a["x"]), o_desc=d(a["y"]), scale=d(a["scale"]), bias=d(a["bias"]), axis_mask=1
    )
    return capi.BNNSDirectApplyQuantizer(p, None, 1, 0, 0)


def x_y(x: tuple[int, ...], y: tuple[int, ...], dtype: Any = np.float32) -> Callable[..., Arrays]:
    return lambda r: {"x": floats(r, *x), "y": floats(r, *y).astype(dtype)}


def picked(index: Any, x: tuple[int, ...], i: tuple[int, ...], y: tuple[int, ...], limit: int) -> Callable[..., Arrays]:
    return lambda r: {"x": floats(r, *x), "i": r.integers(0, limit, i).astype(index), "y": floats(r, *y)}


def gather_rows(a: Arrays) -> int:
    return capi.BNNSGather(0, d(a["x"], ROWS(3, 6)), d(a["i"]), d(a["y"], ROWS(3, 4)))


def leaky(a: Arrays) -> int:
    return activation(a, capi.BNNSActivationFunctionLeakyRectifiedLinear, 4, 0, 0, alpha=0.5)


LESS, SUM = capi.BNNSRelationalOperatorLess, capi.BNNSReduceFunctionSum
ROWS = Shape.matrix_row_major
MEAN, ELU = types.ReductionFunction.mean(), bn.ActivationFunction.elu(0.5)
CASES = [
    direct("copy", x_y((3, 5), (3, 5)), lambda a: capi.BNNSCopy(d(a["y"]), d(a["x"])), "y"),
    direct(
        "copy layouts", x_y((3, 5), (5, 3)),
        lambda a: capi.BNNSCopy(d(a["y"], Shape.matrix_column_major(3, 5)), d(a["x"], ROWS(5, 3))), "y",
    ),
    direct("copy types", x_y((4, 4), (4, 4), np.float16), lambda a: capi.BNNSCopy(d(a["y"]), d(a["x"])), "y"),
    direct(
        "copy strides", x_y((3, 8), (3, 5)),
        lambda a: capi.BNNSCopy(d(a["y"]), d(a["x"], Shape([3, 5]), stride=[1, 8])), "y",
    ),
    direct("transpose", x_y((3, 5), (5, 3)), lambda a: capi.BNNSTranspose(d(a["y"]), d(a["x"]), 0, 1), "y"),
    direct("tile", x_y((2, 3), (4, 9)), lambda a: capi.BNNSTile(d(a["x"]), d(a["y"])), "y"),
    direct("tile backward", x_y((4, 9), (2, 3)), lambda a: capi.BNNSTileBackward(d(a["y"]), d(a["x"])), "y"),
    direct(
        "tile backward, added", x_y((4, 9), (2, 3)),
        lambda a: capi.BNNSTileBackward(d(a["y"], flags=1), d(a["x"])), "y",
    ),
    direct(
        "compare", lambda r: {"x": floats(r, 7), "b": floats(r, 7), "y": np.zeros(7, bool)},
        lambda a: capi.BNNSCompareTensor(d(a["x"]), d(a["b"]), LESS, d(a["y"])), "y",
    ),
    direct(
        "shuffle", x_y((1, 8, 2, 3), (1, 2, 4, 6)),
        lambda a: capi.BNNSShuffle(capi.BNNSShuffleTypePixelShuffleNCHW, d(a["x"]), d(a["y"])), "y",
    ),
    direct("band", x_y((2, 4, 4), (2, 4, 4)), lambda a: capi.BNNSBandPart(1, 0, d(a["x"]), d(a["y"])), "y"),
    direct("band in place", lambda r: {"y": floats(r, 4, 4)}, lambda a: capi.BNNSBandPart(0, 1, d(a["y"]), d(a["y"])), "y"),
    *(
        direct(
            f"{name} {index.__name__}", picked(index, *shapes, 6), run, "y"
        )
        for index in (np.int32, np.int64)
        for name, shapes, run in (
            ("gather", ((6, 3), (4,), (4, 3)), lambda a: capi.BNNSGather(0, d(a["x"]), d(a["i"]), d(a["y"]))),
            ("gather elements", ((6, 3), (4, 3), (4, 3)), lambda a: capi.BNNSGather(0, d(a["x"]), d(a["i"]), d(a["y"]))),
            ("gather rows", ((6, 3), (4,), (4, 3)), gather_rows),
            ("scatter", ((4, 3), (4,), (6, 3)), lambda a: capi.BNNSScatter(0, SUM, d(a["x"]), d(a["i"]), d(a["y"]))),
            ("scatter writes", ((4, 3), (4,), (6, 3)), lambda a: capi.BNNSScatter(0, 15, d(a["x"]), d(a["i"]), d(a["y"]))),
            ("gather nd", ((6, 6, 2), (4, 2), (4, 2)), lambda a: capi.BNNSGatherND(d(a["x"]), d(a["i"]), d(a["y"]))),
            ("scatter nd", ((4, 2), (4, 2), (6, 6, 2)), lambda a: capi.BNNSScatterND(SUM, d(a["x"]), d(a["i"]), d(a["y"]))),
        )
    ),
    *(
        direct(
            f"top k {index.__name__}",
            lambda r, index=index: {"x": floats(r, 5, 9), "y": floats(r, 5, 3), "i": np.zeros((5, 3), index)},
            lambda a: capi.BNNSDirectApplyTopK(3, 1, 1, d(a["x"]), 0, d(a["y"]), 0, d(a["i"]), 0), "y", "i",
        )
        for index in (np.int32, np.int64)
    ),
    direct(
        "top k of a batch", lambda r: {"x": floats(r, 5, 9), "y": floats(r, 5, 3), "i": np.zeros((5, 3), np.int32)},
        lambda a: capi.BNNSDirectApplyTopK(
            3, 0, 5, d(a["x"], Shape.vector(9)), 9, d(a["y"], Shape.vector(3)), 3, d(a["i"], Shape.vector(3)), 0
        ), "y", "i",
    ),
    *(
        direct(
            f"in top k {index.__name__}",
            lambda r, index=index: {"x": floats(r, 5, 9), "i": r.integers(0, 9, 5).astype(index), "y": np.zeros(5, bool)},
            lambda a: capi.BNNSDirectApplyInTopK(3, 1, 1, d(a["x"]), 0, d(a["i"]), 0, d(a["y"]), 0), "y",
        )
        for index in (np.int32, np.int64)
    ),
    direct("sum", x_y((4, 6), (4, 1)), lambda a: reduction(a, SUM), "y"),
    direct("argmax", x_y((4, 6), (1, 6), np.int32), lambda a: reduction(a, capi.BNNSReduceFunctionArgMax), "y"),
    direct("tanh", x_y((4, 6), (4, 6)), lambda a: activation(a, capi.BNNSActivationFunctionTanh, 4, 6, 6), "y"),
    direct("leaky", x_y((4, 6), (4, 6)), leaky, "y"),
    direct("softmax", x_y((4, 6), (4, 6)), lambda a: activation(a, capi.BNNSActivationFunctionSoftmax, 4, 6, 6), "y"),
    *(
        direct(
            f"quantizer {f}",
            lambda r, f=f: {
                "x": floats(r, 4, 3) * 9 if f == 0 else r.integers(-99, 99, (4, 3)).astype(np.int8),
                "y": np.zeros((4, 3), np.int8 if f == 0 else np.float32), "scale": floats(r, 4), "bias": floats(r, 4),
            },
            lambda a, f=f: quantizer(a, f), "y",
        )
        for f in (0, 1)
    ),
    direct("clip", x_y((3, 4), (3, 4)), lambda a: capi.BNNSClipByValue(d(a["y"]), d(a["x"]), -0.5, 0.25), "y"),
    direct("clip in place", lambda r: {"y": floats(r, 9)}, lambda a: capi.BNNSClipByValue(d(a["y"]), d(a["y"]), -0.5, 1), "y"),
    direct("clip by norm", x_y((3, 4), (3, 4)), lambda a: capi.BNNSClipByNorm(d(a["y"]), d(a["x"]), 0.5, 2), "y"),
    direct("norm", x_y((3, 4), (3,)), lambda a: capi.BNNSComputeNorm(d(a["y"]), d(a["x"]), 1, 2), "y"),
    direct(
        "norm backward", lambda r: {"x": floats(r, 3, 4), "n": floats(r, 3), "dn": floats(r, 3), "y": floats(r, 3, 4)},
        lambda a: capi.BNNSComputeNormBackward(a["x"], d(a["y"], flags=1), a["n"], d(a["dn"]), 1, 2), "y",
    ),
    direct(
        "product", lambda r: {"x": floats(r, 3, 5), "b": floats(r, 4, 5), "y": floats(r, 3, 4)},
        lambda a: capi.BNNSMatMul(False, True, 2.0, d(a["x"]), d(a["b"]), d(a["y"])), "y",
    ),
    # The Python face
    Case("bn.copy", x_y((3, 5), (3, 5)), lambda a: bn.copy(a["x"], a["y"]), "y"),
    Case("bn.transpose", x_y((3, 5), (5, 3)), lambda a: bn.transpose(a["x"], a["y"], 0, -1), "y"),
    Case("bn.copy_band_part", x_y((4, 4), (4, 4)), lambda a: bn.copy_band_part(a["x"], a["y"], 0, None), "y"),
    Case("bn.tile", x_y((2, 3), (4, 3)), lambda a: bn.tile(a["x"], a["y"]), "y"),
    Case("bn.tile_backward", x_y((4, 3), (2, 3)), lambda a: bn.tile_backward(a["x"], a["y"]), "y"),
    Case("bn.gather_nd", picked(np.int64, (5, 4), (3, 2), (3,), 4), lambda a: bn.gather_nd(a["x"], a["i"], a["y"]), "y"),
    Case(
        "bn.scatter_nd", picked(np.int64, (3,), (3, 2), (4, 4), 4),
        lambda a: bn.scatter_nd(a["x"], a["i"], a["y"], types.ReductionFunction.sum()), "y",
    ),
    Case(
        "bn.compare", lambda r: {"x": floats(r, 7), "b": floats(r, 7), "y": np.zeros(7, bool)},
        lambda a: bn.compare(a["x"], a["b"], bn.RelationalOperator.NOT_EQUAL, a["y"]), "y",
    ),
    Case(
        "bn.shuffle", x_y((1, 2, 4, 6), (1, 8, 2, 3)),
        lambda a: bn.shuffle(bn.ShuffleType.PIXEL_UNSHUFFLE_NCHW, a["x"], a["y"]), "y",
    ),
    Case(
        "bn.apply_in_top_k", lambda r: {"x": floats(r, 5, 9), "i": r.integers(0, 9, 5), "y": np.zeros(5, bool)},
        lambda a: bn.apply_in_top_k(2, a["x"], a["i"], a["y"]), "y",
    ),
    Case("bn.apply_reduction", x_y((5, 4), (1, 4)), lambda a: bn.apply_reduction(MEAN, a["x"], a["y"]), "y"),
    Case("bn.apply_activation", x_y((5, 4), (5, 4)), lambda a: bn.apply_activation(ELU, a["x"], a["y"]), "y"),
    Case(
        "bn.apply_matrix_multiplication", lambda r: {"x": floats(r, 2, 5, 3), "b": floats(r, 5, 4), "y": floats(r, 2, 3, 4)},
        lambda a: bn.apply_matrix_multiplication(a["x"], a["b"], a["y"], input_a_transposed=True, alpha=0.5), "y",
    ),
    Case("bn.clip", x_y((5, 4), (5, 4)), lambda a: bn.clip((-1, 0.5), a["x"], a["y"]), "y"),
    Case("bn.compute_norm", x_y((5, 4), (4,)), lambda a: bn.compute_norm(a["x"], a["y"], axes=[0]), "y"),
    Case("bn.quantize", x_y((5, 4), (5, 4), np.int8), lambda a: bn.quantize(a["x"], a["y"], scale=30, bias=2.5), "y"),
    Case(
        "bn.dequantize", lambda r: {"x": r.integers(-9, 9, 6).astype(np.int8), "y": floats(r, 6)},
        lambda a: bn.dequantize(a["x"], a["y"], scale=3.0), "y",
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_repeated_call_reads_and_writes_the_memory_of_this_call(case: Case) -> None:
    rng = np.random.default_rng(5)
    for _ in range(4):
        arrays = case.make(rng)
        expected = {name: array.copy() for name, array in arrays.items()}
        with bn.engine("reference"):
            case.run(expected)
        before = {name: array.copy() for name, array in arrays.items()}
        case.run(arrays)
        for name, array in arrays.items():
            if name in case.outputs:
                np.testing.assert_allclose(array, expected[name], rtol=2e-6, atol=1e-6)
            else:
                np.testing.assert_array_equal(array, before[name])


THIRD = np.float32([[0], [0], [1]])
CREATED: list[tuple[str, Callable[[NDArray[Any]], Any], Callable[[NDArray[Any]], NDArray[Any]]]] = [
    ("copy", lambda x: bn.copy(x), lambda x: x),
    ("transpose", lambda x: bn.transpose(x), lambda x: x.T),
    ("tile", lambda x: bn.tile(x, repeats=(2, 1)), lambda x: np.tile(x, (2, 1))),
    ("tile_backward", lambda x: bn.tile_backward(x, input_shape=(2, 3)), lambda x: x[:2] + x[2:]),
    ("compare", lambda x: bn.compare(x, x, bn.RelationalOperator.LESS_EQUAL), lambda x: x <= x),
    (
        "max",
        lambda x: bn.apply_reduction(types.ReductionFunction.max(), x, axes=(0,)),
        lambda x: x.max(0, keepdims=True),
    ),
    ("relu", lambda x: bn.apply_activation(bn.ActivationFunction.rectified_linear(), x), lambda x: np.maximum(x, 0)),
    ("product", lambda x: bn.apply_matrix_multiplication(x, THIRD), lambda x: x[:, 2:]),
    ("clip", lambda x: bn.clip((-0.1, 0.3), x), lambda x: x.clip(np.float32(-0.1), np.float32(0.3))),
]


@pytest.mark.parametrize(("call", "expected"), [c[1:] for c in CREATED], ids=[c[0] for c in CREATED])
def test_an_output_that_is_left_out_is_a_new_array_every_time(call: Any, expected: Any) -> None:
    rng = np.random.default_rng(6)
    inputs = [floats(rng, 4, 3) for _ in range(3)]
    results = [call(x) for x in inputs]
    for x, y in zip(inputs, results, strict=True):
        assert y.dtype == expected(x).dtype
        np.testing.assert_array_equal(y, expected(x))


def test_known_calls_do_not_take_the_long_way(monkeypatch: pytest.MonkeyPatch) -> None:
    for case in CASES:  # known from here on
        case.run(case.make(np.random.default_rng(1)))
        case.run(case.make(np.random.default_rng(2)))

    def refuse(*_: Any) -> None:
        raise AssertionError("the long way was taken")

    with monkeypatch.context() as patch:
        patch.setattr("openbnns.capi._calls.recorded", refuse)
        patch.setattr("openbnns.layers._functions.recorded", refuse)
        for case in CASES:
            if case.name != "copy types" and "argmax" not in case.name:  # these are converted in NumPy
                case.run(case.make(np.random.default_rng(3)))


@pytest.fixture
def known() -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    x, y = np.ones((3, 4), np.float32), np.zeros((3, 4), np.float32)
    for _ in range(3):
        assert capi.BNNSCopy(d(y), d(x)) == 0
    return x, y


def test_a_smaller_buffer_is_refused(known: Any) -> None:
    y = np.zeros(11, np.float32)
    assert capi.BNNSCopy(d(y, Shape([3, 4])), d(known[0])) == -1
    assert "holds 44 bytes" in str(bn.last_error()) and not y.any()


def test_a_read_only_output_is_refused(known: Any) -> None:
    y = np.zeros((3, 4), np.float32)
    y.flags.writeable = False
    refused(capi.BNNSCopy(d(y), d(known[0])), "read-only")


def test_overlapping_memory(known: Any) -> None:
    """It is copied as if it were separate."""
    memory = np.arange(20, dtype=np.float32)
    for _ in range(3):
        memory[:12] = np.arange(12)
        assert capi.BNNSCopy(d(memory[4:16], Shape([3, 4])), d(memory[:12], Shape([3, 4]))) == 0
        assert memory[4:16].tolist() == list(range(12))


def test_another_element_type_is_refused(known: Any) -> None:
    descriptor = Shape([3, 4]).descriptor(capi.BNNSDataTypeFloat32, np.zeros((3, 4), np.int32))
    refused(capi.BNNSCopy(descriptor, d(known[0])), "int32 items")


def test_memory_that_is_not_aligned_is_copied_all_the_same(known: Any) -> None:
    raw = np.zeros(49, np.uint8)
    assert capi.BNNSCopy(d(raw[1:].view(np.float32).reshape(3, 4)), d(known[0])) == 0
    assert (raw[1:].view(np.float32) == 1).all()


def test_a_larger_buffer_and_an_address_will_do(known: Any) -> None:
    y = np.zeros(20, np.float32)
    assert capi.BNNSCopy(d(y, Shape([3, 4])), d(known[0])) == 0
    assert y.sum() == 12
    y[:] = 0
    target = Shape([3, 4]).descriptor(capi.BNNSDataTypeFloat32, y.ctypes.data)
    for _ in range(2):
        assert capi.BNNSCopy(target, d(known[0])) == 0
    assert y.sum() == 12


def test_a_bool_is_still_no_number() -> None:
    x, y = np.ones((2, 2), np.float32), np.zeros((2, 2), np.float32)
    for _ in range(2):
        assert capi.BNNSTranspose(d(y), d(x), 0, 1) == 0
    with pytest.raises(TypeError, match="axis1 must be an integer, not bool"):
        capi.BNNSTranspose(d(y), d(x), 0, True)


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_an_index_outside_is_refused_and_nothing_written(index: Any) -> None:
    x, y = np.ones((5, 2), np.float32), np.zeros((3, 2), np.float32)
    places = np.array([0, 4, 2], index)
    for _ in range(3):
        assert capi.BNNSGather(0, d(x), d(places), d(y)) == 0
    y[:] = 7
    for bad in (5, -1):
        places[1] = bad
        assert capi.BNNSGather(0, d(x), d(places), d(y)) == -1005
        assert (y == 7).all()
    vectors = np.array([[0, 1], [4, 0], [2, 1]], index)
    z = np.zeros(3, np.float32)
    for _ in range(3):
        assert capi.BNNSGatherND(d(x), d(vectors), d(z)) == 0
    z[:] = 7
    vectors[2, 1] = 2
    assert capi.BNNSGatherND(d(x), d(vectors), d(z)) == -1005
    assert (z == 7).all()


def test_switches_and_engines_hold_for_known_calls() -> None:
    x, y = np.arange(6, dtype=np.float32).reshape(2, 3), np.zeros((4, 6), np.float32)
    for _ in range(2):
        assert capi.BNNSTile(d(x), d(y)) == 0
    plain = y.copy()
    with compat.using(tile_reversed_axes=True):
        for _ in range(2):
            assert capi.BNNSTile(d(x), d(y)) == 0
        assert not np.array_equal(y, plain)
    assert capi.BNNSTile(d(x), d(y)) == 0
    np.testing.assert_array_equal(y, plain)
    with bn.engine("reference"):
        y[:] = 0
        assert capi.BNNSTile(d(x), d(y)) == 0
    np.testing.assert_array_equal(y, plain)


def test_quantizer_reads_scale_and_bias_anew() -> None:
    x, y, scale = np.array([1, 2, 3], np.float32), np.zeros(3, np.int8), np.array([2], np.float32)
    p = capi.BNNSLayerParametersQuantization(i_desc=d(x), o_desc=d(y), scale=d(scale))
    for factor in (2, 3, 4):
        scale[:] = factor
        assert capi.BNNSDirectApplyQuantizer(p, None, 1, 0, 0) == 0
        np.testing.assert_array_equal(y, factor * x)


def test_random_activations_draw_anew() -> None:
    x, y = np.zeros((1, 64), np.float32), np.zeros((4, 64), np.float32)
    for row in y:
        p = capi.BNNSLayerParametersActivation(
            i_desc=d(x, Shape.vector(64)), o_desc=d(row, Shape.vector(64)),
            activation=capi.BNNSActivation(function=capi.BNNSActivationFunctionGumbel, alpha=1.0, beta=1.0),
        )  # fmt: skip
        assert capi.BNNSDirectApplyActivationBatch(p, None, 1, 0, 0) == 0
    assert np.isfinite(y).all()


def test_threads_share_known_calls() -> None:
    x = np.arange(64 * 64, dtype=np.float32).reshape(64, 64)
    failures: list[str] = []

    def work(factor: int) -> None:
        mine, y = factor * x, np.zeros((64, 64), np.float32)
        sums = np.zeros((64, 1), np.float32)
        for _ in range(200):
            y[:] = 0
            bn.transpose(mine, y)
            bn.apply_reduction(types.ReductionFunction.max(), mine, sums)
            if not np.array_equal(y, mine.T) or not np.array_equal(sums[:, 0], mine.max(1)):
                failures.append(str(factor))

    threads = [threading.Thread(target=work, args=(k,)) for k in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
