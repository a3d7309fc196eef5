"""The random generator: same bits from both engines and any number of threads, distributions, states, mistakes."""

from __future__ import annotations

import ctypes
import math
import re
from typing import Any

import numpy as np
import pytest

import openbnns as bn
from bad_calls import refused
from helpers import (
    BFLOAT16,
    FLOAT16,
    FLOAT32,
    IMAGE,
    INT8,
    INT16,
    INT32,
    ROW_MAJOR,
    UINT8,
    VECTOR,
    Storage,
    Tensor,
    vector,
)
from openbnns import capi

AES = capi.BNNSRandomGeneratorMethodAES_CTR
ENGINES = ["native", "reference"]


def seeded(seed: int = 1, threads: int = 0) -> Any:
    made = capi.BNNSCreateRandomGeneratorWithSeed(AES, seed, capi.BNNSFilterParameters(n_threads=threads))
    assert made is not None, bn.last_error()
    return made


FLOATS = [
    vector(1), vector(7), Tensor(VECTOR, (50_001,)), Tensor(ROW_MAJOR, (5, 3), (2, 16)), Tensor(IMAGE, (9, 4, 3)),
    Tensor(VECTOR, (101,), (), FLOAT16), Tensor(VECTOR, (101,), (), BFLOAT16),
]  # fmt: skip
INTEGERS = [Tensor(VECTOR, (999,), (), k) for k in (INT8, UINT8, INT16, INT32)] + [
    Tensor(IMAGE, (5, 4, 3), (2, 12, 60), INT8)
]
KINDS = {"uniform_float": FLOATS, "normal": FLOATS, "uniform_int": INTEGERS, "categorical": FLOATS}
COVERED = {
    "uniform_float": "BNNSRandomFillUniformFloat", "normal": "BNNSRandomFillNormalFloat",
    "uniform_int": "BNNSRandomFillUniformInt", "categorical": "BNNSRandomFillCategoricalFloat",
}  # fmt: skip


def fill(kind: str, generator: Any, s: Storage) -> int:
    if kind == "uniform_float":
        return capi.BNNSRandomFillUniformFloat(generator, s.descriptor(), -2.5, 3.0)
    if kind == "normal":
        return capi.BNNSRandomFillNormalFloat(generator, s.descriptor(), 0.3, 1.7)
    if kind == "uniform_int":
        return capi.BNNSRandomFillUniformInt(generator, s.descriptor(), 3, 11)
    p = Storage(Tensor(VECTOR, (5,), (), s.tensor.data_type), values=np.array([[0.5, 0.0, 2.0, 0.25, 1.0]]))
    return capi.BNNSRandomFillCategoricalFloat(generator, s.descriptor(), p.descriptor(), False)


KIND_ROWS = [pytest.param(k, marks=pytest.mark.covers(f"random.{k}", f"fn.{COVERED[k]}")) for k in KINDS]


@pytest.mark.parametrize("kind", KIND_ROWS)
def test_same_bits_everywhere(kind: str) -> None:
    """Both engines and any number of threads, three fills in a row; nothing beside the elements is written."""
    for t in KINDS[kind]:
        results = []
        for engine, threads in [("reference", 0), ("native", 1), ("native", 2), ("native", 5)]:
            generator = seeded(12345678901234567890, threads)
            parts = []
            with bn.engine(engine):
                for _ in range(3):
                    s = Storage(t)
                    assert fill(kind, generator, s) == 0, bn.last_error()
                    s.assert_guards_intact("desc")
                    parts.append(s.raw())
            results.append(np.stack(parts))
        for other in results[1:]:
            np.testing.assert_array_equal(other, results[0])
        if t.count > 20:
            assert not np.array_equal(results[0][0], results[0][1])


def test_known_numbers() -> None:
    """The stream of a seed never changes."""
    generator = bn.RandomGenerator(seed=42)
    uniform = generator.fill_uniform(np.empty(4, np.float32))
    normal = generator.fill_normal(np.empty(4, np.float32))
    integers = generator.fill_uniform_integers(np.empty(4, np.int64), (-100, 101))
    assert [float(v).hex() for v in uniform] == KNOWN_UNIFORM
    assert [float(v).hex() for v in normal] == KNOWN_NORMAL
    assert integers.tolist() == KNOWN_INTEGERS


@pytest.mark.parametrize(
    ("low", "high", "bits"),
    [
        (0, 1, "3f4f16c1 3f178337 3ef18cae 3f714573 3f73349f 3f24dd54 3cdb6bcf 3d7ceb6a"),
        (-2, 3, "4002dc71 3f759013 3eb7bf66 402d96d0 403001c7 3f9c2952 bfeedb94 bfd87b37"),
    ],
)
def test_numbers_captured_on_macos(low: float, high: float, bits: str, engine: str) -> None:
    """Numbers of BNNSRandomFillUniformFloat for the seed 42, by a public capture."""
    numbers = bn.RandomGenerator(seed=42).fill_uniform(np.empty(8, np.float32), (low, high))
    parts, generator = np.empty(8, np.float32), bn.RandomGenerator(seed=42)
    for part in (parts[:1], parts[1:4], parts[4:]):  # the next fill goes on where the last one ended
        generator.fill_uniform(part, (low, high))
    assert [f"{number:08x}" for number in numbers.view(np.uint32)] == bits.split()
    np.testing.assert_array_equal(parts, numbers)


@pytest.mark.covers("random.uniform_float")
def test_uniform_distribution() -> None:
    x = bn.RandomGenerator(seed=3).fill_uniform(np.empty(200_000, np.float32), (-1.0, 3.0))
    assert -1.0 <= x.min() < -0.999
    assert 2.999 < x.max() <= 3.0
    counts = np.histogram(x, bins=20, range=(-1, 3))[0]
    assert np.abs(counts - 10_000).max() < 5 * math.sqrt(10_000)
    assert abs(np.corrcoef(x[:-1], x[1:])[0, 1]) < 0.01


@pytest.mark.covers("random.normal")
def test_normal_distribution() -> None:
    x = bn.RandomGenerator(seed=4).fill_normal(np.empty(200_001, np.float32), mean=2.0, standard_deviation=0.5)
    z = (x.astype(np.float64) - 2.0) / 0.5
    assert abs(z.mean()) < 5 / math.sqrt(z.size)
    assert abs(z.std() - 1.0) < 0.01
    assert abs((z**3).mean()) < 0.05
    assert abs((z**4).mean() - 3.0) < 0.1
    for limit in (-1.0, 0.5, 2.0):
        assert abs((z < limit).mean() - 0.5 * (1 + math.erf(limit / math.sqrt(2)))) < 0.006
    assert np.all(bn.RandomGenerator(seed=4).fill_normal(np.empty(9, np.float32), 2.0, 0.0) == 2.0)


@pytest.mark.covers("random.uniform_int")
def test_integer_distribution_and_ranges() -> None:
    generator = bn.RandomGenerator(seed=5)
    x = generator.fill_uniform_integers(np.empty(100_000, np.int16), (-3, 7))
    values, counts = np.unique(x, return_counts=True)
    assert values.tolist() == list(range(-3, 7))
    assert np.abs(counts - 10_000).max() < 5 * math.sqrt(10_000)
    for dtype in (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64):
        info = np.iinfo(dtype)
        x = generator.fill_uniform_integers(np.empty(4000, dtype), (int(info.min), int(info.max) + 1))
        assert x.max() > info.max - (int(info.max) - int(info.min)) // 100
        assert x.min() < info.min + (int(info.max) - int(info.min)) // 100 + 1
    assert np.all(generator.fill_uniform_integers(np.empty(5, np.int32), (7, 8)) == 7)
    unsigned = generator.fill_uniform_integers(np.empty(4000, np.uint64), (0, 2**63))
    assert 2**63 - 2**57 < unsigned.max() < 2**63


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [
        (np.int64, -(2**63), -(2**63) + 2), (np.int64, 2**63 - 2, 2**63), (np.uint64, 2**63 - 2, 2**63),
        (np.uint64, 0, 2), (np.int64, 2**63 - 3, 2**63 - 1), (np.int8, 126, 128), (np.uint8, 254, 256), (np.int8, -128, -126),
        (np.int32, 2**31 - 2, 2**31), (np.uint32, 2**32 - 2, 2**32),
    ],
)  # fmt: skip
def test_the_upper_bound_is_never_drawn(engine: str, dtype: Any, low: int, high: int) -> None:
    """Both values below it are, also at the limits of the type."""
    drawn = bn.RandomGenerator(seed=8).fill_uniform_integers(np.empty(256, dtype), (low, high))
    values, counts = np.unique(drawn, return_counts=True)
    assert [int(v) for v in values] == [low, low + 1]
    assert np.abs(counts - 128).max() < 5 * 8


def test_ten_thousand_draws_below_the_bound(engine: str) -> None:
    """As third parties tested it on macOS: [0, 10) of 10,000 draws, every value about equally often."""
    x = np.zeros(10_000, np.int32)
    d = capi.BNNSNDArrayDescriptor(layout=VECTOR, size=[10_000], data=x, data_type=INT32)
    generator = capi.BNNSCreateRandomGeneratorWithSeed(capi.BNNSRandomGeneratorMethodAES_CTR, 42)
    assert capi.BNNSRandomFillUniformInt(generator, d, 0, 10) == 0
    counts = np.bincount(x)
    assert len(counts) == 10
    assert np.abs(counts - 1000).max() < 5 * math.sqrt(1000)


@pytest.mark.covers("random.categorical")
def test_categorical_distribution() -> None:
    p = np.array([[1, 0, 3], [5, 5, 0]], np.float32)
    for engine in ENGINES:
        for logarithms in (False, True):
            with np.errstate(divide="ignore"):
                weights = np.log(p) + 4.0 if logarithms else p
            with bn.engine(engine):
                x = bn.RandomGenerator(seed=6).fill_categorical(
                    np.empty((2, 20_000), np.float32), weights.astype(np.float32), logarithms
                )
            shares = np.stack([[(row == k).mean() for k in range(3)] for row in x])
            np.testing.assert_allclose(shares, p / p.sum(axis=1, keepdims=True), atol=0.02)
            assert shares[0][1] == 0.0
            assert shares[1][2] == 0.0
    one = bn.RandomGenerator(seed=6).fill_categorical(np.empty((2,), np.float32), p)
    assert one.shape == (2,)


def test_categorical_engines_agree_on_logarithms() -> None:
    rng = np.random.default_rng(0)
    p = rng.normal(0, 200, (7, 33)).astype(np.float32)
    p[2, :5] = -np.inf
    results = []
    for engine in ENGINES:
        with bn.engine(engine):
            results.append(bn.RandomGenerator(seed=6).fill_categorical(np.empty((7, 300), np.float32), p, True))
            results[-1] = np.append(
                results[-1], bn.RandomGenerator(seed=6).fill_categorical(np.empty((7, 300), np.float32), p / 200, True)
            )
    np.testing.assert_array_equal(*results)


@pytest.mark.covers(
    "random.create", "random.seed", "random.destroy", "fn.BNNSCreateRandomGenerator", "fn.BNNSCreateRandomGeneratorWithSeed",
    "fn.BNNSDestroyRandomGenerator",
)  # fmt: skip
def test_creation_and_destruction() -> None:
    def first(generator: Any) -> list[float]:
        x = np.empty(8, np.float32)
        assert capi.BNNSRandomFillUniformFloat(generator, vector(8).descriptor(x), 0.0, 1.0) == 0
        return list(x)

    assert first(seeded(3)) == first(seeded(3))
    assert first(seeded(3)) != first(seeded(4))
    one, other = capi.BNNSCreateRandomGenerator(AES), capi.BNNSCreateRandomGenerator(AES, None)
    assert first(one) != first(other)
    capi.BNNSDestroyRandomGenerator(one)
    capi.BNNSDestroyRandomGenerator(one)
    capi.BNNSDestroyRandomGenerator(None)
    x = np.zeros(8, np.float32)
    refused(capi.BNNSRandomFillUniformFloat(one, vector(8).descriptor(x), 0.0, 1.0), "has been destroyed")
    assert not x.any()
    assert capi.BNNSRandomGeneratorStateSize(one) == 0
    refused(capi.BNNSCreateRandomGenerator(3), "BNNSRandomGeneratorMethodAES_CTR .0. is the only method")
    assert capi.BNNSCreateRandomGeneratorWithSeed(AES, -1) is None
    refused(capi.BNNSCreateRandomGeneratorWithSeed(AES, 2**64), "seed is 18446744073709551616")
    for call in (
        lambda: capi.BNNSCreateRandomGenerator(None),  # type: ignore[arg-type]
        lambda: capi.BNNSCreateRandomGeneratorWithSeed(AES, 1.5),  # type: ignore[arg-type]
        lambda: capi.BNNSCreateRandomGeneratorWithSeed(AES, None),  # type: ignore[arg-type]
        lambda: capi.BNNSCreateRandomGenerator(AES, 3),  # type: ignore[arg-type]
        lambda: capi.BNNSDestroyRandomGenerator(3),  # type: ignore[arg-type]
        lambda: capi.BNNSRandomGeneratorStateSize("x"),  # type: ignore[arg-type]
    ):
        with pytest.raises(TypeError):
            call()


@pytest.mark.covers(
    "random.state",
    "fn.BNNSRandomGeneratorStateSize",
    "fn.BNNSRandomGeneratorGetState",
    "fn.BNNSRandomGeneratorSetState",
)
def test_state() -> None:
    generator = seeded(9)
    size = capi.BNNSRandomGeneratorStateSize(generator)
    assert size > 0
    x, y = np.empty(33, np.float32), np.empty(33, np.float32)
    capi.BNNSRandomFillNormalFloat(generator, vector(33).descriptor(x), 0.0, 1.0)
    for state in (bytearray(size), np.zeros(size + 5, np.uint8), (ctypes.c_char * size)()):
        assert capi.BNNSRandomGeneratorGetState(generator, len(state), state) == 0, bn.last_error()
        capi.BNNSRandomFillNormalFloat(generator, vector(33).descriptor(x), 0.0, 1.0)
        capi.BNNSRandomFillNormalFloat(generator, vector(33).descriptor(y), 0.0, 1.0)
        assert not np.array_equal(x, y)
        for target in (generator, seeded(77)):
            assert capi.BNNSRandomGeneratorSetState(target, len(state), state) == 0
            capi.BNNSRandomFillNormalFloat(target, vector(33).descriptor(y), 0.0, 1.0)
            np.testing.assert_array_equal(x, y)
    good = bytearray(size)
    capi.BNNSRandomGeneratorGetState(generator, size, good)
    for arguments, message in [
        ((None, size, good), "generator is NULL"),
        ((generator, size - 1, good), f"state_size is {size - 1}"),
        ((generator, size, None), "state is NULL"),
        ((generator, size, bytearray(size - 1)), "holds"),
    ]:
        for function in (capi.BNNSRandomGeneratorGetState, capi.BNNSRandomGeneratorSetState):
            refused(function(*arguments), re.escape(message))
    assert capi.BNNSRandomGeneratorGetState(generator, size, bytes(size)) == -1
    refused(capi.BNNSRandomGeneratorSetState(generator, size, bytes(size)), "does not hold the state")
    after = bytearray(size)
    capi.BNNSRandomGeneratorGetState(generator, size, after)
    assert after == good


def half(value: float) -> Any:
    return Tensor(VECTOR, (4,), (), FLOAT16).descriptor(np.full(4, value, np.float16))


def ones(kind: Any = FLOAT32, size: tuple[int, ...] = (4,), layout: Any = VECTOR) -> Any:
    t = Tensor(layout, size, (), kind)
    return t.descriptor(np.ones(t.count, t.dtype))


def weights(*values: float) -> Any:
    return vector(len(values)).descriptor(np.array(values, np.float32))


BAD: list[tuple[str, tuple[Any, ...], str]] = [
    ("UniformFloat", (None, 0.0, 1.0), "desc is NULL"),
    ("UniformFloat", (ones(), 1.0, 0.0), "a is 1, which is above b, 0"),
    ("UniformFloat", (ones(), math.nan, 0.0), "a is NaN"),
    ("UniformFloat", (ones(INT8), 0.0, 1.0), "desc.data_type is Int8, but this call fills Float16"),
    ("UniformFloat", (half(1.0), 0.0, 0.1), "which Float16 cannot hold exactly"),
    ("UniformFloat", (vector(4).descriptor(None), 0.0, 1.0), "desc.data is NULL"),
    ("UniformFloat", (vector(5).descriptor(np.ones(4, np.float32)), 0.0, 1.0), "holds 16 bytes"),
    ("NormalFloat", (ones(), 0.0, -1.0), "stddev is -1"),
    ("NormalFloat", (ones(), math.inf, 1.0), "mean is inf"),
    ("NormalFloat", (ones(), 0.0, math.nan), "stddev is NaN"),
    ("UniformInt", (ones(), 0, 5), "desc.data_type is Float32, but this call fills Int and UInt"),
    ("UniformInt", (ones(INT8), 5, 0), "the lower bound comes first"),
    ("UniformInt", (ones(INT8), 0, 129), "Int8 takes numbers from -128 to 127 here.*at most 128"),
    ("UniformInt", (ones(UINT8), -1, 5), "UInt8 takes numbers from 0 to 255"),
    ("UniformInt", (ones(INT8), 5, 5), "are both 5, but numbers are drawn from .a, b., which is empty.*Pass 6"),
    ("UniformInt", (ones(INT8), 0, 2**64), "Int8 takes numbers"),
    ("CategoricalFloat", (ones(), None, False), "probabilities is NULL"),
    ("CategoricalFloat", (ones(), weights(1, -1), False), "finite, not negative and not all 0"),
    ("CategoricalFloat", (ones(), weights(0, 0), False), "finite, not negative and not all 0"),
    ("CategoricalFloat", (ones(), weights(1, math.inf), False), "finite, not negative and not all 0"),
    ("CategoricalFloat", (ones(), weights(-math.inf, -math.inf), True), "not all -inf"),
    ("CategoricalFloat", (ones(), weights(math.nan, 0), True), "not all -inf"),
    ("CategoricalFloat", (half(1.0), weights(1, 1), False), "probabilities.data_type is Float32, but desc is Float16"),
    ("CategoricalFloat", (ones(), ones(size=(2, 3), layout=ROW_MAJOR), False), "Describe one distribution for each position"),
    ("CategoricalFloat", (ones(INT8), weights(1, 1), False), "desc.data_type is Int8"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "arguments", "message"), BAD)
def test_bad_fills(name: str, arguments: tuple[Any, ...], message: str, engine: str) -> None:
    """Nothing is written, and the stream has not moved."""
    generator, function = seeded(8), f"BNNSRandomFill{name}"
    before = generator.stream
    refused(getattr(capi, function)(generator, *arguments), f"^{function}: .*{message}")
    refused(getattr(capi, function)(None, *arguments), "generator is NULL")
    assert generator.stream == before
    if arguments[0] is not None and arguments[0].data is not None:
        assert np.all(arguments[0].data == 1)


def test_bounds_of_narrow_types() -> None:
    for t, largest in (
        (Tensor(VECTOR, (500,), (), FLOAT16), 65504.0),
        (Tensor(VECTOR, (500,), (), BFLOAT16), 3.3895314e38),
    ):
        s = Storage(t)
        assert capi.BNNSRandomFillUniformFloat(seeded(), s.descriptor(), -math.inf, math.inf) == 0
        assert np.all(np.isfinite(s.read()))
        assert 0.9 * largest < np.abs(s.read()).max() <= largest
    x = np.empty(500, np.float32)
    assert capi.BNNSRandomFillUniformFloat(seeded(), vector(500).descriptor(x), -1e300, 1e300) == 0
    assert np.all(np.isfinite(x))
    assert capi.BNNSRandomFillUniformFloat(seeded(), half(1.0), 2.0**-24, 2.0**-24) == 0


@pytest.mark.covers("swift.RandomGenerator")
def test_class() -> None:
    generator = bn.RandomGenerator(method=bn.RandomGeneratorMethod.AES_CTR, seed=5)
    state = generator.state
    assert isinstance(state, bn.RandomGeneratorState)
    assert len(bytes(state)) == len(state) == capi.BNNSRandomGeneratorStateSize(generator.bnns_generator)
    first = generator.fill_uniform(np.empty((3, 4), np.float32), (2.0, 3.0))
    assert generator.state != state
    generator.state = bn.RandomGeneratorState(bytes(state))
    again = np.empty((3, 4), np.float32)
    assert generator.fill_uniform(again, range=(2.0, 3.0)) is again
    np.testing.assert_array_equal(first, again)
    d = vector(12).descriptor(np.empty(12, np.float32))
    generator.state = state
    assert generator.fill_uniform(d, (2.0, 3.0)) is d
    np.testing.assert_array_equal(d.data, first.ravel())
    assert bn.RandomGenerator().state != bn.RandomGenerator().state
    assert generator.fill_normal(np.empty((0, 3), np.float32)).shape == (0, 3)
    cases: list[tuple[Any, str, type[Exception]]] = [
        (lambda: generator.fill_uniform(np.empty(3, np.int32)), "Int32", TypeError),
        (lambda: generator.fill_uniform(np.empty(3)), "float64", TypeError),
        (lambda: generator.fill_uniform(np.empty((4, 4), np.float32).T[::2]), "not C-contiguous", ValueError),
        (lambda: generator.fill_uniform(np.empty(3, np.float32), (1, 0)), "the lower bound is 1, which is above", ValueError),
        (lambda: generator.fill_uniform(np.empty(3, np.float32), 1), "range must be a pair", TypeError),
        (lambda: generator.fill_normal(np.empty(3, np.float32), 0.0, -1.0), "standard_deviation is -1", ValueError),
        (lambda: generator.fill_uniform_integers(np.empty(3, np.int8), (0, 500)), "Int8 takes numbers", ValueError),
        (lambda: generator.fill_uniform_integers(np.empty(3, np.int8), range(2)), "must be a pair", TypeError),
        (lambda: generator.fill_uniform([1.0]), "has no memory", TypeError),
        (lambda: setattr(generator, "state", b"12"), "must be a RandomGeneratorState", TypeError),
        (lambda: setattr(generator, "state", bn.RandomGeneratorState(b"12")), "does not hold the state", ValueError),
    ]  # fmt: skip
    for call, message, kind in cases:
        with pytest.raises(bn.LayerApplyError, match=message) as caught:
            call()
        assert isinstance(caught.value, kind)
    with pytest.raises(bn.LayerCreationError, match="seed is -1"):
        bn.RandomGenerator(seed=-1)
    with pytest.raises(bn.LayerCreationError, match="method must be"):
        bn.RandomGenerator(method=0)  # type: ignore[arg-type]
    generator.destroy()
    with pytest.raises(bn.LayerApplyError, match="destroyed"):
        _ = generator.state


KNOWN_UNIFORM = ["0x1.9e2d820000000p-1", "0x1.2f066e0000000p-1", "0x1.e3195c0000000p-2", "0x1.e28ae60000000p-1"]
KNOWN_NORMAL = ["-0x1.9531220000000p-3", "-0x1.01d4c00000000p-2", "0x1.3ecfc80000000p+1", "0x1.0496d60000000p+0"]
KNOWN_INTEGERS = [-51, -20, 21, -75]
