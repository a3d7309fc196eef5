"""Layouts, strides, element types and the rules that every filter shares, against formulas written here anew.

Sub-byte types are one stream of bits, element 0 in the lowest bits of byte 0.
"""

from __future__ import annotations

import ctypes
import itertools
import logging
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import openbnns
from openbnns import buffers, capi, compat, descriptors, staging
from openbnns.capi import BNNSDataLayout, BNNSDataType
from openbnns.errors import Problem

Array = NDArray[Any]
FLOAT32 = BNNSDataType.BNNSDataTypeFloat32
VECTOR = BNNSDataLayout.BNNSDataLayoutVector
ENGINES = ("native", "reference")

# ---------------------------------------------------------------------------------------------------------------------
# Layouts: where element (index in the order of size[]) lies, from size and stride, one function per layout.

Offset = Callable[[tuple[int, ...], tuple[int, ...], tuple[int, ...]], int]


def ascending(i: tuple[int, ...], n: tuple[int, ...], s: tuple[int, ...]) -> int:
    return sum(i[k] * s[k] for k in range(len(n)))


def descending(i: tuple[int, ...], n: tuple[int, ...], s: tuple[int, ...]) -> int:
    rank = len(n)
    return sum(i[rank - 1 - k] * s[k] for k in range(rank))


def heads(i: tuple[int, ...], n: tuple[int, ...], s: tuple[int, ...]) -> int:
    d, k, h = i
    return d * s[0] + h * s[1] + k * s[2]


def rotated(i: tuple[int, ...], n: tuple[int, ...], s: tuple[int, ...]) -> int:
    return (n[0] - 1 - i[0]) * s[0] + (n[1] - 1 - i[1]) * s[1] + i[2] * s[2] + i[3] * s[3]


def pack32(i: tuple[int, ...], n: tuple[int, ...], s: tuple[int, ...]) -> int:
    kx, ky, c, o = i
    return o % 32 + 32 * (kx + n[0] * (ky + n[1] * (c + n[2] * (o // 32))))


def packed_ascending(n: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(math.prod(n[:k]) for k in range(len(n)))


def packed_descending(n: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(math.prod(n[len(n) - k :]) for k in range(len(n)))


SIZES = (3, 2, 4, 2, 3, 2, 2, 3)
SIMPLE: dict[str, tuple[tuple[int, ...], Offset, Callable[[tuple[int, ...]], tuple[int, ...]]]] = {
    "Vector": ((5,), ascending, packed_ascending),
    "RowMajorMatrix": ((4, 3), ascending, packed_ascending),
    "ColumnMajorMatrix": ((4, 3), ascending, packed_ascending),
    "ImageCHW": ((4, 3, 2), ascending, packed_ascending),
    "SNE": ((4, 3, 2), ascending, packed_ascending),
    "NSE": ((4, 3, 2), ascending, packed_ascending),
    "MHA_DHK": ((4, 3, 2), heads, lambda n: (1, n[0], n[0] * n[2])),
    "ConvolutionWeightsOIHW": ((3, 2, 4, 5), ascending, packed_ascending),
    "ConvolutionWeightsOIHrWr": ((3, 2, 4, 5), rotated, packed_ascending),
    "ConvolutionWeightsIOHrWr": ((3, 2, 4, 5), rotated, packed_ascending),
}
for _rank in range(1, 9):
    SIMPLE[f"{_rank}DLastMajor"] = (SIZES[:_rank], ascending, packed_ascending)
    SIMPLE[f"{_rank}DFirstMajor"] = (SIZES[:_rank], descending, packed_descending)


def covered(names: Any) -> list[Any]:
    return [pytest.param(name, marks=pytest.mark.covers(f"layout.{name}"), id=name) for name in names]


def layout(name: str) -> BNNSDataLayout:
    return BNNSDataLayout[f"BNNSDataLayout{name}"]


def descriptor(name: str, size: Any, data: Any = None, stride: Any = (), **fields: Any) -> capi.BNNSNDArrayDescriptor:
    fields.setdefault("data_type", FLOAT32)
    return capi.BNNSNDArrayDescriptor(layout=layout(name), size=size, stride=stride, data=data, **fields)


def indices(size: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    return itertools.product(*(range(n) for n in size))


def read_all(d: capi.BNNSNDArrayDescriptor, memory: Array, batch: int = 1, stride: int = 0) -> Array:
    """Elements in the order of size[], batch first, through the library."""
    view = descriptors.resolve(d, "test")
    order = tuple(range(view.layout.rank))
    buffer = buffers.resolve(memory, view.element, "test")
    return staging.read(view, buffer, batch, stride or view.extent, order, np.float64)


def write_all(d: capi.BNNSNDArrayDescriptor, memory: Array, numbers: Array, stride: int = 0, **options: Any) -> None:
    view = descriptors.resolve(d, "test")
    order = tuple(range(view.layout.rank))
    buffer = buffers.resolve(memory, view.element, "test")
    staging.write(view, buffer, len(numbers), stride or view.extent, order, numbers, **options)


def spread(packed: tuple[int, ...], first: int, gap: int) -> tuple[int, ...]:
    """Strides with ``first`` between neighbours and ``gap`` elements behind every row, plane and so on."""
    strides = [first]
    for smaller, larger in itertools.pairwise(packed):
        strides.append(strides[-1] * (larger // smaller) + gap)
    return tuple(strides)


def test_the_28_layouts_are_all_here() -> None:
    names = {member.name.removeprefix("BNNSDataLayout") for member in BNNSDataLayout}
    assert names == {*SIMPLE, "ConvolutionWeightsOIHW_Pack32", "FullyConnectedSparse"}
    assert len(names) == 28


@pytest.mark.covers("direct.datasize")
@pytest.mark.parametrize("name", covered(SIMPLE))
@pytest.mark.parametrize("first", [0, 1, 2, 3])
def test_element_offsets(name: str, first: int) -> None:
    """``first`` is stride[0]; 0 stands for a descriptor without strides."""
    size, offset, packed = SIMPLE[name]
    strides = packed(size) if first == 0 else spread(packed(size), first, 7)
    given = () if first == 0 else strides
    places = {i: offset(i, size, strides) for i in indices(size)}
    span = max(places.values()) + 1
    rng = np.random.default_rng(1)
    memory = rng.standard_normal(span + 3).astype(np.float32)
    d = descriptor(name, size, memory, given)

    assert capi.BNNSNDArrayGetDataSize(d) == 4 * span
    got = read_all(d, memory)
    for i, place in places.items():
        assert got[(0, *i)] == memory[place]

    numbers = rng.standard_normal((1, *size))
    expected = memory.copy()
    for i, place in places.items():
        expected[place] = numbers[(0, *i)]
    write_all(d, memory, numbers)
    np.testing.assert_array_equal(memory, expected)


@pytest.mark.covers("core.stride.desc_zero")
@pytest.mark.parametrize("name", covered(SIMPLE))
def test_default_strides_one_by_one(name: str) -> None:
    """A zero in any place of stride[] takes its packed value from the stride before it."""
    size, _, packed = SIMPLE[name]
    resolved = descriptors.resolve(descriptor(name, size), "test")
    steps = [resolved.steps[axis] for axis in resolved.layout.stepped]
    assert tuple(steps) == packed(size)
    assert resolved.count == resolved.span == resolved.extent == math.prod(size)
    doubled = descriptors.resolve(descriptor(name, size, stride=[2] + [0] * (len(size) - 1)), "test")
    assert [doubled.steps[axis] for axis in doubled.layout.stepped] == [2 * p for p in packed(size)]
    assert doubled.extent == 2 * math.prod(size)


def test_default_strides_spelled_out() -> None:
    """The example of the reference: 3DFirstMajor size (2,3,4) has strides (1,4,12), which run opposite to the sizes."""
    view = descriptors.resolve(descriptor("3DFirstMajor", (2, 3, 4)), "test")
    assert view.steps == (12, 4, 1)
    view = descriptors.resolve(descriptor("MHA_DHK", (4, 3, 2)), "test")  # D, K, H
    assert view.steps == (1, 8, 4)


@pytest.mark.parametrize("name", covered(SIMPLE))
def test_layouts_through_a_filter(name: str) -> None:
    """y = 2x, padded in, packed out: the public path reads and writes by the same offsets, on both engines."""
    size, offset, packed = SIMPLE[name]
    padded = spread(packed(size), 2, 5)
    span = 1 + max(offset(i, size, padded) for i in indices(size))
    rng = np.random.default_rng(2)
    for engine in ENGINES:
        source = rng.standard_normal(2 * span + 9).astype(np.float32)
        target = np.full(2 * math.prod(size) + 4, 99, np.float32)
        stride_in, stride_out = span + 4, math.prod(size) + 2
        p = capi.BNNSLayerParametersActivation(
            i_desc=descriptor(name, size, stride=padded),
            o_desc=descriptor(name, size),
            activation=capi.BNNSActivation(function=capi.BNNSActivationFunctionLinear, alpha=2.0),
        )
        with openbnns.engine(engine):
            f = capi.BNNSFilterCreateLayerActivation(p)
            assert capi.BNNSFilterApplyBatch(f, 2, source, stride_in, target, stride_out) == 0
        expected = np.full_like(target, 99)
        for n, i in itertools.product(range(2), indices(size)):
            expected[n * stride_out + offset(i, size, packed(size))] = (
                2 * source[n * stride_in + offset(i, size, padded)]
            )
        np.testing.assert_array_equal(target, expected)


@pytest.mark.covers("layout.ConvolutionWeightsOIHW_Pack32")
@pytest.mark.parametrize("outputs", [1, 31, 32, 33, 70])
def test_pack32(outputs: int) -> None:
    size = (3, 2, 4, outputs)
    length = 32 * 3 * 2 * 4 * -(-outputs // 32)
    rng = np.random.default_rng(3)
    memory = rng.standard_normal(length).astype(np.float32)
    d = descriptor("ConvolutionWeightsOIHW_Pack32", size, memory)
    assert capi.BNNSNDArrayGetDataSize(d) == 4 * length
    got = read_all(d, memory)
    for i in indices(size):
        assert got[(0, *i)] == memory[pack32(i, size, ())]
    numbers = rng.standard_normal((1, *size))
    expected = memory.copy()
    for i in indices(size):
        expected[pack32(i, size, ())] = numbers[(0, *i)]
    write_all(d, memory, numbers)
    np.testing.assert_array_equal(memory, expected)  # lanes beyond the outputs stay as they were

    d.stride[0] = 1
    with pytest.raises(Problem, match="packed only"):
        descriptors.resolve(d, "test")


@pytest.mark.covers("layout.FullyConnectedSparse")
def test_fully_connected_sparse_is_refused_where_it_cannot_be_used() -> None:
    sparse = layout("FullyConnectedSparse")
    assert sparse == 0x21001 and capi.BNNSDataLayoutGetRank(sparse) == 2
    assert repr(sparse) == "BNNSDataLayoutFullyConnectedSparse"
    d = descriptor("FullyConnectedSparse", (3, 2), np.zeros(6, np.float32))
    assert capi.BNNSNDArrayGetDataSize(d) == 0
    assert "known to the library only" in str(openbnns.last_error())
    p = capi.BNNSLayerParametersActivation(i_desc=d, o_desc=d)
    assert capi.BNNSFilterCreateLayerActivation(p) is None
    assert "FullyConnectedSparse, the packed form of sparse weights" in str(openbnns.last_error())


@pytest.mark.covers("direct.rank")
@pytest.mark.parametrize("member", list(BNNSDataLayout))
def test_rank(member: BNNSDataLayout) -> None:
    assert capi.BNNSDataLayoutGetRank(member) == int(member) >> 16
    assert capi.BNNSDataLayoutGetRank(np.int64(member)) == int(member) >> 16


@pytest.mark.parametrize("code", [0, 1, 0x10001, 0x90000, -1, 2**40])
def test_rank_of_an_unknown_layout(code: int) -> None:
    assert capi.BNNSDataLayoutGetRank(code) == 2**64 - 1
    assert "is no BNNSDataLayout" in str(openbnns.last_error())


def test_data_size_without_data() -> None:
    assert capi.BNNSNDArrayGetDataSize(descriptor("Vector", (5,))) == 0
    assert capi.BNNSNDArrayGetDataSize(descriptor("Vector", (0,), bytearray(4))) == 0
    assert capi.BNNSNDArrayGetDataSize(descriptor("Vector", (2**63,), bytearray(4))) == 0
    assert capi.BNNSNDArrayGetDataSize(descriptor("Vector", (5,), 4096)) == 20
    three_bits = descriptor("Vector", (5,), bytearray(2), data_type=BNNSDataType.BNNSDataTypeUInt3)
    assert capi.BNNSNDArrayGetDataSize(three_bits) == 2


@pytest.mark.parametrize("name", ["RowMajorMatrix", "2DFirstMajor"])
def test_strides_may_not_decrease(name: str) -> None:
    with pytest.raises(Problem, match=r"stride\[1\] = 2 is smaller than stride\[0\] = 3"):
        descriptors.resolve(descriptor(name, (2, 2), stride=(3, 2)), "test")


# ---------------------------------------------------------------------------------------------------------------------
# Element types

FLOATS = ("Float16", "Float32", "BFloat16")
INTEGERS = {
    f"{'U' * unsigned}Int{bits}": (bits, bool(unsigned))
    for unsigned, widths in ((0, (1, 2, 4, 8, 16, 32, 64)), (1, (1, 2, 3, 4, 6, 8, 16, 32, 64)))
    for bits in widths
}
INDEXED = {"Indexed1": 1, "Indexed2": 2, "Indexed4": 4, "Indexed8": 8}


def types(names: Any) -> list[Any]:
    return [pytest.param(name, marks=pytest.mark.covers(f"dtype.{name}"), id=name) for name in names]


def data_type(name: str) -> BNNSDataType:
    return BNNSDataType[f"BNNSDataType{name}"]


def limits(name: str) -> tuple[int, int]:
    bits, unsigned = INTEGERS[name]
    return (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def pack(values: list[int], bits: int) -> bytearray:
    """Integers as a stream of bits, element 0 lowest, two's complement."""
    number = 0
    for k, value in enumerate(values):
        number |= (value & ((1 << bits) - 1)) << (k * bits)
    return bytearray(number.to_bytes((len(values) * bits + 7) // 8, "little"))


def unpack(memory: bytearray, count: int, bits: int, unsigned: bool) -> list[int]:
    number = int.from_bytes(memory, "little")
    values = [number >> (k * bits) & ((1 << bits) - 1) for k in range(count)]
    return values if unsigned else [v - (1 << bits) if v >> (bits - 1) else v for v in values]


def convert(
    source: Any,
    source_type: str,
    target_type: str,
    count: int,
    *,
    room: int | None = None,
    engine: str = "native",
    input_fields: dict[str, Any] | None = None,
    output_fields: dict[str, Any] | None = None,
    bits: int | None = None,
) -> bytearray:
    """The Identity activation as a converter; gives the bytes written."""
    width = bits if bits is not None else int(data_type(target_type)) & 0xFF
    target = bytearray(room if room is not None else (count * width + 7) // 8)
    p = capi.BNNSLayerParametersActivation(
        i_desc=descriptor("Vector", (count,), data_type=data_type(source_type), **(input_fields or {})),
        o_desc=descriptor("Vector", (count,), data_type=data_type(target_type), **(output_fields or {})),
    )
    with openbnns.engine(engine):
        f = capi.BNNSFilterCreateLayerActivation(p)
        assert f is not None, openbnns.last_error()
        assert capi.BNNSFilterApply(f, source, target) == 0, openbnns.last_error()
    return target


def floats(memory: bytearray) -> Array:
    return np.frombuffer(memory, np.float32)


def test_the_24_types_are_all_here() -> None:
    names = {t.name for t in descriptors.ELEMENT_TYPES.values()}
    assert names == {*FLOATS, *INTEGERS, *INDEXED, "Boolean"}
    assert len(names) == 24


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", types(INTEGERS))
def test_integers_to_float_and_back(name: str, engine: str) -> None:
    bits, _ = INTEGERS[name]
    low, high = limits(name)
    values = sorted({low, high, 0, low // 2, high // 2, min(1, high), max(low, -1), high // 3})
    stored = pack(values, bits)
    got = floats(convert(stored, name, "Float32", len(values), engine=engine))
    np.testing.assert_array_equal(got, np.array(values, np.float64).astype(np.float32))
    small = [v for v in values if abs(v) < 2**24]
    stored = pack(small, bits)
    back = convert(np.array(small, np.float32), "Float32", name, len(small), engine=engine)
    assert back == stored


@pytest.mark.covers("core.type.int_convert")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", types(INTEGERS))
def test_saturation_and_special_values(name: str, engine: str) -> None:
    bits, unsigned = INTEGERS[name]
    low, high = limits(name)
    values = np.array([np.inf, -np.inf, np.nan, 3e38, -3e38, float(high), float(low), -0.0], np.float32)
    got = unpack(convert(values, "Float32", name, len(values), engine=engine), len(values), bits, unsigned)
    exact = [min(max(int(v), low), high) for v in (float(np.float32(high)), float(np.float32(low)))]
    assert got == [high, low, 0, high, low, *exact, 0]


@pytest.mark.covers("core.type.round_even")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", types(INTEGERS))
def test_ties_round_to_even(name: str, engine: str) -> None:
    bits, unsigned = INTEGERS[name]
    low, high = limits(name)
    values = [-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.5, 0.49999997, 2.5000002]
    whole = [-2, -2, 0, 0, 2, 2, 4, 0, 3]
    got = convert(np.array(values, np.float32), "Float32", name, len(values), engine=engine)
    assert unpack(got, len(values), bits, unsigned) == [min(max(v, low), high) for v in whole]


@pytest.mark.covers("core.type.int_convert")
@pytest.mark.parametrize("name", types(INTEGERS))
def test_scale_and_bias(name: str) -> None:
    """v = scale*i + bias one way; i = (v - bias)/scale the other; a stored scale of 0 acts as 1."""
    bits, _ = INTEGERS[name]
    low, high = limits(name)
    values = list(range(max(low, -9), min(high, 9) + 1))
    stored = pack(values, bits)
    fields = {"data_scale": 0.25, "data_bias": -3.0}
    got = floats(convert(stored, name, "Float32", len(values), input_fields=fields))
    np.testing.assert_array_equal(got, [0.25 * v - 3.0 for v in values])
    assert convert(np.array(got), "Float32", name, len(values), output_fields=fields) == stored
    zero = {"data_scale": 0.0, "data_bias": 0.0}
    assert convert(stored, name, "Float32", len(values), input_fields=zero) == bytearray(
        np.array(values, "f4").tobytes()
    )


@pytest.mark.parametrize("name", types(["Int64", "UInt64"]))
def test_64_bit_integers_stay_exact(name: str) -> None:
    low, high = limits(name)
    values = [low, high, high - 1, 2**53 + 1, low + 1 if low else 1]
    stored = pack(values, 64)
    assert convert(stored, name, name, len(values)) == stored
    other = {"Int64": "UInt64", "UInt64": "Int64"}[name]
    other_low, other_high = limits(other)
    got = unpack(convert(stored, name, other, len(values)), len(values), 64, other == "UInt64")
    assert got == [min(max(v, other_low), other_high) for v in values]
    assert unpack(convert(stored, name, "Int8", len(values)), len(values), 8, False) == [
        min(max(v, -128), 127) for v in values
    ]


def half_bits(value: float, exponent_bits: int, mantissa_bits: int) -> int:
    """The nearest small float, ties to even, from the definition of the format, for finite values >= 0."""
    bias = 2 ** (exponent_bits - 1) - 1
    exponent = max(math.frexp(value)[1] - 1, 1 - bias) if value else 1 - bias
    units = value / 2.0 ** (exponent - mantissa_bits)  # exact: a power of two
    whole = math.floor(units)
    rest = units - whole
    if rest > 0.5 or (rest == 0.5 and whole % 2):
        whole += 1
    field = exponent + bias - 1 if whole >= 0 and exponent + bias >= 1 else 0
    code = (field << mantissa_bits) + whole
    return min(code, (2**exponent_bits - 1) << mantissa_bits)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("name", "exponent", "mantissa"),
    [
        pytest.param("Float16", 5, 10, marks=pytest.mark.covers("dtype.Float16")),
        pytest.param("BFloat16", 8, 7, marks=pytest.mark.covers("dtype.BFloat16")),
    ],
)
def test_small_floats_round_to_nearest_even(name: str, exponent: int, mantissa: int, engine: str) -> None:
    rng = np.random.default_rng(4)
    smallest = 2.0 ** (2 - 2 ** (exponent - 1) - mantissa)  # of the denormals
    one = 2.0**-mantissa
    special = [
        0.0,
        1.0,
        1 + one / 2,
        1 + 1.5 * one,
        1 + one / 2 + 2.0**-20,
        smallest,
        2.5 * smallest,
        3.5 * smallest,
        65504.0,
        65519.9,
        65520.0,
        7e4,
        3e38,
        float(np.finfo(np.float32).max),
    ]
    values = np.concatenate([special, 10.0 ** rng.uniform(-9, 6, 200), rng.uniform(0, 8 * smallest, 50)]).astype(
        np.float32
    )
    expected = np.array([half_bits(float(v), exponent, mantissa) for v in values], np.uint16)
    sign = np.uint16(0x8000)
    got = np.frombuffer(convert(values, "Float32", name, len(values), engine=engine), np.uint16)
    np.testing.assert_array_equal(got, expected)
    got = np.frombuffer(convert(-values, "Float32", name, len(values), engine=engine), np.uint16)
    np.testing.assert_array_equal(got, expected | sign)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", types(["Float16", "BFloat16"]))
def test_every_small_float_becomes_its_value_and_returns(name: str, engine: str) -> None:
    codes = np.arange(65536, dtype=np.uint16)
    wide = floats(convert(codes.view(np.uint8), name, "Float32", codes.size, engine=engine))
    exact = (
        codes.view(np.float16).astype(np.float32) if name == "Float16" else (codes.astype(np.uint32) << 16).view("f4")
    )
    np.testing.assert_array_equal(wide, exact)
    back = np.frombuffer(convert(np.array(wide), "Float32", name, codes.size, engine=engine), np.uint16)
    ordinary = ~np.isnan(exact)
    np.testing.assert_array_equal(back[ordinary], codes[ordinary])
    again = floats(convert(back.view(np.uint8), name, "Float32", codes.size, engine=engine))
    assert np.isnan(again[~ordinary]).all()
    assert convert(codes.view(np.uint8), name, name, codes.size, engine=engine)[:200] == codes.tobytes()[:200]


@pytest.mark.covers("dtype.Float32")
@pytest.mark.parametrize("engine", ENGINES)
def test_float32_is_copied_as_it_is(engine: str) -> None:
    values = np.array([0.0, -0.0, 1e-45, np.inf, -np.inf, np.nan, 3e38], np.float32)
    assert convert(values, "Float32", "Float32", 7, engine=engine)[:20] == values.tobytes()[:20]
    assert np.isnan(floats(convert(values, "Float32", "Float32", 7, engine=engine))[5])


@pytest.mark.covers("dtype.Boolean")
@pytest.mark.parametrize("engine", ENGINES)
def test_boolean(engine: str) -> None:
    width = int(data_type("Boolean")) & 0xFF
    assert width == 8
    values = np.array([0.0, -0.0, 1.0, -2.5, 1e-45, np.inf, np.nan], np.float32)
    assert list(convert(values, "Float32", "Boolean", 7, engine=engine)) == [0, 0, 1, 1, 1, 1, 1]
    flags = np.array([True, False, True])
    np.testing.assert_array_equal(floats(convert(flags, "Boolean", "Float32", 3, engine=engine)), [1, 0, 1])
    raw = bytes([0, 1, 255])
    np.testing.assert_array_equal(floats(convert(raw, "Boolean", "Float32", 3, engine=engine)), [0, 1, 1])


@pytest.mark.covers("core.type.indexed")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", types(INDEXED))
def test_indexed(name: str, engine: str) -> None:
    bits = INDEXED[name]
    rng = np.random.default_rng(5)
    table = rng.permutation(np.linspace(-2, 2, 2**bits)).astype(np.float32)
    picks = rng.integers(0, 2**bits, 37).tolist()
    stored = pack(picks, bits)
    fields = {"table_data": table, "table_data_type": FLOAT32}
    got = floats(convert(stored, name, "Float32", 37, engine=engine, input_fields=fields))
    np.testing.assert_array_equal(got, table[picks])
    # and the other way: the nearest entry; infinities to the outermost ones
    noisy = table[picks] + rng.uniform(-0.005, 0.005, 37).astype(np.float32)
    noisy[:2] = np.inf, -np.inf
    expected = [int(table.argmax()), int(table.argmin()), *picks[2:]]
    back = convert(noisy.astype(np.float32), "Float32", name, 37, engine=engine, output_fields=fields)
    assert unpack(back, 37, bits, True) == expected


@pytest.mark.covers("core.type.indexed")
@pytest.mark.parametrize("entries", ["Float16", "BFloat16", "Int8", "UInt8", "Int32"])
def test_table_of_another_type(entries: str) -> None:
    stored = {
        "Float16": np.array([1.5, -2, 0.25, 8], np.float16),
        "BFloat16": np.array([0x3FC0, 0xC000, 0x3E80, 0x4100], "u2"),
        "Int8": np.array([-1, 2, 3, -4], "i1"),
        "UInt8": np.array([1, 200, 3, 4], "u1"),
        "Int32": np.array([1, -200, 3, 4], "i4"),
    }[entries]
    values = [1.5, -2, 0.25, 8] if "Float" in entries else stored.tolist()
    fields = {"table_data": stored, "table_data_type": data_type(entries)}
    got = floats(convert(pack([3, 0, 1, 2], 2), "Indexed2", "Float32", 4, input_fields=fields))
    np.testing.assert_array_equal(got, [values[k] for k in (3, 0, 1, 2)])


@pytest.mark.parametrize(
    "name", types(["Int1", "Int2", "Int4", "UInt1", "UInt2", "UInt3", "UInt4", "UInt6", "Indexed1"])
)
def test_narrow_types_keep_their_neighbours(name: str) -> None:
    """A write leaves every bit alone that belongs to no element: the rest of the last byte, and gaps of the strides."""
    bits = INTEGERS[name][0] if name in INTEGERS else INDEXED[name]
    fields = {"table_data": np.array([0, 1], np.float32), "table_data_type": FLOAT32} if name == "Indexed1" else {}
    memory = bytearray(b"\xff" * 9)
    p = capi.BNNSLayerParametersActivation(
        i_desc=descriptor("Vector", (3,)),
        o_desc=descriptor("Vector", (3,), stride=(2,), data_type=data_type(name), **fields),
    )
    f = capi.BNNSFilterCreateLayerActivation(p)
    assert capi.BNNSFilterApplyBatch(f, 2, np.zeros(6, np.float32), 0, memory, 0) == 0
    every = (1 << 72) - 1
    for element in (0, 2, 4, 6, 8, 10):  # stride 2, samples 6 elements apart
        every &= ~(((1 << bits) - 1) << (element * bits))
    assert int.from_bytes(memory, "little") == every


READABLE = [*FLOATS, *INTEGERS, *INDEXED, "Boolean"]


def sample_of(name: str, count: int, rng: np.random.Generator) -> tuple[Any, Array, dict[str, Any]]:
    """Stored elements of a type, their values, and the descriptor fields that go with them."""
    if name == "Float32":
        values = rng.standard_normal(count).astype(np.float32)
        return values, values.astype(np.float64), {}
    if name == "Float16":
        half = rng.standard_normal(count).astype(np.float16)
        return half, half.astype(np.float64), {}
    if name == "BFloat16":
        codes = (rng.standard_normal(count).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
        return codes, (codes.astype(np.uint32) << 16).view(np.float32).astype(np.float64), {}
    if name == "Boolean":
        flags = rng.integers(0, 2, count).astype(np.uint8)
        return flags, flags.astype(np.float64), {}
    if name in INDEXED:
        table = rng.standard_normal(2 ** INDEXED[name]).astype(np.float32)
        picks = rng.integers(0, len(table), count)
        return (
            pack(picks.tolist(), INDEXED[name]),
            table[picks].astype(np.float64),
            {
                "table_data": table,
                "table_data_type": FLOAT32,
            },
        )
    bits, _ = INTEGERS[name]
    low, high = limits(name)
    picks = rng.integers(max(low, -100), min(high, 100) + 1, count)
    return pack(picks.tolist(), bits), 0.125 * picks + 0.5, {"data_scale": 0.125, "data_bias": 0.5}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("client_pointer", [False, True])
@pytest.mark.parametrize("name", types(READABLE))
def test_every_type_as_input_weights_and_bias(name: str, client_pointer: bool, engine: str) -> None:
    inputs, outputs, batch = 5, 3, 2
    rng = np.random.default_rng(6)
    x, x_values, x_fields = sample_of(name, batch * inputs, rng)
    w, w_values, w_fields = sample_of(name, outputs * inputs, rng)
    b, b_values, b_fields = sample_of(name, outputs, rng)
    code = data_type(name)
    p = capi.BNNSLayerParametersFullyConnected(
        i_desc=descriptor("Vector", (inputs,), data_type=code, **x_fields),
        w_desc=descriptor("RowMajorMatrix", (inputs, outputs), w, data_type=code, **w_fields),
        o_desc=descriptor("Vector", (outputs,)),
        bias=descriptor("Vector", (outputs,), b, data_type=code, **b_fields),
    )
    flags = capi.BNNSFilterParameters(flags=int(client_pointer))
    y = np.zeros((batch, outputs), np.float32)
    with openbnns.engine(engine):
        f = capi.BNNSFilterCreateLayerFullyConnected(p, flags)
        assert capi.BNNSFilterApplyBatch(f, batch, x, 0, y, 0) == 0, openbnns.last_error()
    expected = x_values.reshape(batch, inputs) @ w_values.reshape(outputs, inputs).T + b_values
    np.testing.assert_allclose(y, expected, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", types(READABLE))
def test_every_type_as_input_and_output_of_an_activation(name: str, engine: str) -> None:
    count = 11
    x, values, fields = sample_of(name, count, np.random.default_rng(7))
    p = capi.BNNSLayerParametersActivation(
        i_desc=descriptor("Vector", (count,), data_type=data_type(name), **fields),
        o_desc=descriptor("Vector", (count,)),
        activation=capi.BNNSActivation(function=capi.BNNSActivationFunctionAbs),
    )
    y = np.zeros(count, np.float32)
    with openbnns.engine(engine):
        assert capi.BNNSFilterApply(capi.BNNSFilterCreateLayerActivation(p), x, y) == 0, openbnns.last_error()
        np.testing.assert_array_equal(y, np.abs(values.astype(np.float32)))
        p.i_desc, p.o_desc = p.o_desc, p.i_desc
        p.activation.function = capi.BNNSActivationFunctionLinear
        p.activation.alpha = 1.0
        back = bytearray(memoryview(x).nbytes)
        source = values.astype(np.float32)
        assert capi.BNNSFilterApply(capi.BNNSFilterCreateLayerActivation(p), source, back) == 0, openbnns.last_error()
    if name in INDEXED:  # equal entries of a table cannot be told apart; compare what they stand for
        table = fields["table_data"]
        assert table[unpack(back, count, INDEXED[name], True)].tolist() == source.tolist()
    else:
        assert back == bytearray(memoryview(x).cast("B"))


@pytest.mark.covers("core.type.int_convert")
def test_integer_bias_before_scale_is_read_at_creation() -> None:
    fields = {"data_scale": 0.5, "data_bias": 3.0}
    values = np.array([4.0, 10.0], np.float32)
    assert list(convert(values, "Float32", "UInt8", 2, output_fields=fields)) == [2, 14]  # (v - 3) / 0.5
    with compat.using(integer_bias_before_scale=True):
        assert list(convert(values, "Float32", "UInt8", 2, output_fields=fields)) == [5, 17]  # v / 0.5 - 3


# ---------------------------------------------------------------------------------------------------------------------
# What every filter shares: handles, status, flags, allocators, threads, strides, gradients


def fully_connected(
    w: Any,
    b: Any = None,
    function: int = 0,
    alpha: float = 0.0,
    *,
    flags: int = 0,
    inputs: int = 4,
    outputs: int = 3,
    **parameters: Any,
) -> Any:
    p = capi.BNNSLayerParametersFullyConnected(
        i_desc=descriptor("Vector", (inputs,)),
        w_desc=descriptor("RowMajorMatrix", (inputs, outputs), w),
        o_desc=descriptor("Vector", (outputs,)),
        bias=descriptor("Vector", (outputs,), b),
        activation=capi.BNNSActivation(function=function, alpha=alpha),
    )
    return capi.BNNSFilterCreateLayerFullyConnected(p, capi.BNNSFilterParameters(flags=flags, **parameters))


def random(*shape: int, seed: int = 8) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.covers("core.handle.create_null", "core.status.int")
@pytest.mark.parametrize("engine", ENGINES)
def test_handles_and_status(engine: str) -> None:
    x, y = random(4), np.full(3, 7, np.float32)
    with openbnns.engine(engine):
        f = fully_connected(random(3, 4))
        assert isinstance(f, capi.BNNSFilter)
        assert capi.BNNSFilterApply(f, x, y) == 0
        np.testing.assert_allclose(y, random(3, 4) @ x, rtol=1e-5, atol=1e-6)
        y[:] = 7
        assert capi.BNNSFilterApply(f, x[:2], y) == -1 and (y == 7).all()
        capi.BNNSFilterDestroy(f)
        assert capi.BNNSFilterApply(f, x, y) == -1 and (y == 7).all()
        assert "destroyed" in str(openbnns.last_error())
        capi.BNNSFilterDestroy(f)
        capi.BNNSFilterDestroy(None)
        assert fully_connected(random(2, 4)) is None
        assert capi.BNNSFilterApply(None, x, y) == -1


@pytest.mark.covers("core.log.error_info")
def test_invalid_is_an_error_and_unsupported_is_information(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "openbnns"):
        assert capi.BNNSFilterApply(None, None, None) == -1
        assert [(r.name, r.levelno) for r in caplog.records] == [("openbnns", logging.ERROR)]
        assert caplog.records[0].getMessage() == openbnns.last_error()
        caplog.clear()
        assert fully_connected(random(3, 4), function=capi.BNNSActivationFunctionGumbel) is None
        assert [(r.name, r.levelno) for r in caplog.records] == [("openbnns", logging.INFO)]
        assert caplog.records[0].getMessage() == openbnns.last_error()
        caplog.clear()
        f = fully_connected(random(3, 4))
        assert capi.BNNSFilterApply(f, random(4), np.zeros(3, np.float32)) == 0
        assert not caplog.records


def gradients(f: Any, x: Array, y: Array | None, dy: Array, flags: int = 0, **start: Array) -> dict[str, Array]:
    """All gradients of a fully connected filter, written over (or added to) ``start``."""
    batch = len(dy)
    sizes = {"dx": (batch, x.shape[1]), "dw": (dy.shape[1], x.shape[1]), "db": (dy.shape[1],)}
    memory = {name: start[name].copy() if name in start else np.zeros(size, np.float32) for name, size in sizes.items()}
    status = capi.BNNSFilterApplyBackwardBatch(
        f,
        batch,
        x,
        0,
        descriptor("Vector", (x.shape[1],), memory["dx"], flags=flags),
        0,
        y,
        0,
        descriptor("Vector", (dy.shape[1],), dy),
        0,
        descriptor("RowMajorMatrix", (x.shape[1], dy.shape[1]), memory["dw"], flags=flags),
        descriptor("Vector", (dy.shape[1],), memory["db"], flags=flags),
    )
    assert status == 0, openbnns.last_error()
    return memory


@pytest.mark.covers("core.flag.client_ptr_on")
@pytest.mark.parametrize("engine", ENGINES)
def test_client_pointer_sees_every_edit(engine: str) -> None:
    """Steps of gradient descent on the caller's arrays take effect at the next apply, also in staged layouts."""
    w, b, x, dy = random(3, 4), random(3, seed=9), random(2, 4, seed=10), random(2, 3, seed=11)
    y = np.zeros((2, 3), np.float32)
    with openbnns.engine(engine):
        f = fully_connected(w, b, flags=1)
        for _ in range(3):
            assert capi.BNNSFilterApplyBatch(f, 2, x, 0, y, 0) == 0
            np.testing.assert_allclose(y, x @ w.T + b, rtol=1e-5, atol=1e-6)
            g = gradients(f, x, None, dy)
            np.testing.assert_allclose(g["dx"], dy @ w, rtol=1e-5, atol=1e-6)
            w -= 0.1 * g["dw"]
            b -= 0.1 * g["db"]
        columns = np.asfortranarray(w)  # the same matrix by columns: must be staged at each call
        p = capi.BNNSLayerParametersFullyConnected(
            i_desc=descriptor("Vector", (4,)),
            w_desc=descriptor("ColumnMajorMatrix", (3, 4), columns.T),
            o_desc=descriptor("Vector", (3,)),
        )
        f = capi.BNNSFilterCreateLayerFullyConnected(p, capi.BNNSFilterParameters(flags=1))
        columns[1, 2] = 5.0
        assert capi.BNNSFilterApplyBatch(f, 2, x, 0, y, 0) == 0
        np.testing.assert_allclose(y, x @ columns.T, rtol=1e-5, atol=1e-6)


@pytest.mark.covers("core.flag.client_ptr_off")
@pytest.mark.parametrize("engine", ENGINES)
def test_without_client_pointer_weights_are_copied(engine: str) -> None:
    w, b, x, dy = random(3, 4), random(3, seed=9), random(2, 4, seed=10), random(2, 3, seed=11)
    y = np.zeros((2, 3), np.float32)
    with openbnns.engine(engine):
        f = fully_connected(w, b)
        kept_w, kept_b = w.copy(), b.copy()
        w[:], b[:] = np.nan, np.nan
        assert capi.BNNSFilterApplyBatch(f, 2, x, 0, y, 0) == 0
        np.testing.assert_allclose(y, x @ kept_w.T + kept_b, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(gradients(f, x, None, dy)["dx"], dy @ kept_w, rtol=1e-5, atol=1e-6)


@pytest.mark.covers("core.params.null")
@pytest.mark.parametrize("engine", ENGINES)
def test_filter_parameters_may_be_null(engine: str) -> None:
    w, x = random(3, 4), random(1, 4, seed=10)
    p = capi.BNNSLayerParametersFullyConnected(
        i_desc=descriptor("Vector", (4,)),
        w_desc=descriptor("RowMajorMatrix", (4, 3), w),
        o_desc=descriptor("Vector", (3,)),
    )
    results = []
    with openbnns.engine(engine):
        for parameters in ((), (None,), (capi.BNNSFilterParameters(),)):
            f = capi.BNNSFilterCreateLayerFullyConnected(p, *parameters)
            y = np.zeros(3, np.float32)
            assert capi.BNNSFilterApply(f, x, y) == 0
            results.append(y)
    assert results[0].tobytes() == results[1].tobytes() == results[2].tobytes()
    np.testing.assert_allclose(results[0], (x @ w.T)[0], rtol=1e-5, atol=1e-6)


@pytest.mark.covers("core.params.threads")
def test_results_do_not_depend_on_threads() -> None:
    inputs, outputs, batch = 150, 90, 33
    w, b, x, dy = random(outputs, inputs), random(outputs), random(batch, inputs), random(batch, outputs)
    seen = set()
    for threads in (0, 1, 2, 1000, 2**64 - 1):
        f = fully_connected(w, b, n_threads=threads, inputs=inputs, outputs=outputs)
        y = np.zeros((batch, outputs), np.float32)
        assert capi.BNNSFilterApplyBatch(f, batch, x, 0, y, 0) == 0
        g = gradients(f, x, None, dy)
        seen.add(y.tobytes() + g["dx"].tobytes() + g["dw"].tobytes() + g["db"].tobytes())
    assert len(seen) == 1
    np.testing.assert_allclose(y, x @ w.T + b, rtol=1e-4, atol=1e-4)


ALLOCATE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_void_p), ctypes.c_size_t, ctypes.c_size_t)
FREE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Heap:
    """An allocator of the posix_memalign kind that counts, in C callbacks or as plain Python."""

    def __init__(self, fail_after: int = 1000) -> None:
        self.blocks: dict[int, Any] = {}
        self.calls, self.freed, self.fail_after = 0, 0, fail_after

    def allocate(self, place: Any, alignment: int, size: int) -> int:
        self.calls += 1
        if self.calls > self.fail_after:
            return 12
        assert alignment & (alignment - 1) == 0 and alignment >= 4
        memory = np.full(size + alignment, 0xAB, np.uint8)
        address = -(-memory.ctypes.data // alignment) * alignment
        self.blocks[address] = memory
        place[0] = address
        return 0

    def free(self, address: int) -> None:
        assert address in self.blocks
        self.blocks[address][:] = 0xCD
        del self.blocks[address]
        self.freed += 1


@pytest.mark.covers("core.params.alloc")
@pytest.mark.parametrize("in_c", [True, False])
@pytest.mark.parametrize("engine", ENGINES)
def test_allocator_pair(engine: str, in_c: bool) -> None:
    heap = Heap()
    pair = (ALLOCATE(heap.allocate), FREE(heap.free)) if in_c else (heap.allocate, heap.free)
    w, b, x = random(3, 4), random(3), random(4)
    y = np.zeros(3, np.float32)
    with openbnns.engine(engine):
        for _ in range(3):
            f = fully_connected(w, b, alloc_memory=pair[0], free_memory=pair[1])
            assert f is not None, openbnns.last_error()
            assert heap.blocks, "the copies of weights and bias live in the caller's memory"
            assert sum(m.size for m in heap.blocks.values()) >= 4 * 15
            assert capi.BNNSFilterApply(f, x, y) == 0
            np.testing.assert_allclose(y, w @ x + b, rtol=1e-5, atol=1e-6)
            capi.BNNSFilterDestroy(f)
            assert not heap.blocks
            capi.BNNSFilterDestroy(f)
        f = fully_connected(w, b, alloc_memory=pair[0], free_memory=pair[1])
        del f  # collected instead of destroyed
        assert not heap.blocks and heap.freed == heap.calls


@pytest.mark.covers("core.params.alloc")
@pytest.mark.parametrize("fail_after", [0, 1, 2])
@pytest.mark.parametrize("in_c", [True, False])
def test_failing_allocator(fail_after: int, in_c: bool) -> None:
    heap = Heap(fail_after)
    pair = (ALLOCATE(heap.allocate), FREE(heap.free)) if in_c else (heap.allocate, heap.free)
    assert fully_connected(random(3, 4), random(3), alloc_memory=pair[0], free_memory=pair[1]) is None
    assert "alloc_memory returned 12" in str(openbnns.last_error())
    assert not heap.blocks, "what was allocated before the failure has been given back"
    assert heap.freed == fail_after


@pytest.mark.covers("core.params.alloc")
def test_allocators_come_in_pairs() -> None:
    heap = Heap()
    assert fully_connected(random(3, 4), alloc_memory=heap.allocate) is None
    assert "alloc_memory is set but free_memory is NULL" in str(openbnns.last_error())
    assert fully_connected(random(3, 4), free_memory=heap.free) is None
    assert "free_memory is set but alloc_memory is NULL" in str(openbnns.last_error())

    def explode(*_: Any) -> int:
        raise OSError("no pages left")

    assert fully_connected(random(3, 4), alloc_memory=explode, free_memory=heap.free) is None
    assert "raised OSError" in str(openbnns.last_error()) and "no pages left" in str(openbnns.last_error())
    assert heap.calls == 0


@pytest.mark.covers("core.stride.batch_elements")
@pytest.mark.parametrize("engine", ENGINES)
def test_batch_strides_count_elements(engine: str) -> None:
    w, dy = random(3, 4), random(2, 3, seed=11)
    x = random(20)
    y = np.full(20, 9, np.float32)
    dx = np.full(20, 9, np.float32)
    samples = np.stack([x[0:4], x[7:11]])
    with openbnns.engine(engine):
        f = fully_connected(w)
        assert capi.BNNSFilterApplyBatch(f, 2, x, 7, y, 5) == 0
        np.testing.assert_allclose(y[0:3], w @ x[0:4], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(y[5:8], w @ x[7:11], rtol=1e-5, atol=1e-6)
        assert (y[3:5] == 9).all() and (y[8:] == 9).all()
        spaced = np.zeros(9, np.float32)
        spaced[0:3], spaced[6:9] = dy
        dw = np.zeros((3, 4), np.float32)
        assert (
            capi.BNNSFilterApplyBackwardBatch(
                f,
                2,
                x,
                7,
                descriptor("Vector", (4,), dx),
                8,
                None,
                0,
                descriptor("Vector", (3,), spaced),
                6,
                descriptor("RowMajorMatrix", (4, 3), dw),
                None,
            )
            == 0
        )
    np.testing.assert_allclose(dx[0:4], dy[0] @ w, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(dx[8:12], dy[1] @ w, rtol=1e-5, atol=1e-6)
    assert (dx[4:8] == 9).all() and (dx[12:] == 9).all()
    np.testing.assert_allclose(dw, dy.T @ samples, rtol=1e-5, atol=1e-6)


@pytest.mark.covers("core.stride.batch_zero", "core.stride.padded")
@pytest.mark.parametrize("engine", ENGINES)
def test_batch_stride_zero_means_one_object_after_the_other(engine: str) -> None:
    """Packed samples for a packed descriptor; for a padded one the largest stride times the extent that it steps."""
    w = random(6, 6)
    x = random(40)
    y = np.full(40, 9, np.float32)
    with openbnns.engine(engine):
        f = fully_connected(w, inputs=6, outputs=6)
        assert capi.BNNSFilterApplyBatch(f, 3, x, 0, y, 0) == 0
        np.testing.assert_allclose(y[:18].reshape(3, 6), x[:18].reshape(3, 6) @ w.T, rtol=1e-5, atol=1e-6)
        assert (y[18:] == 9).all()
        image = descriptor("ImageCHW", (3, 2, 1), stride=(1, 4, 10))  # rows of 4, one plane of 10
        p = capi.BNNSLayerParametersFullyConnected(
            i_desc=image, w_desc=descriptor("RowMajorMatrix", (6, 6), w), o_desc=descriptor("Vector", (6,), stride=(2,))
        )
        f = capi.BNNSFilterCreateLayerFullyConnected(p)
        y[:] = 9
        assert capi.BNNSFilterApplyBatch(f, 2, x, 0, y, 0) == 0, openbnns.last_error()
    for n in range(2):
        sample = np.concatenate([x[10 * n : 10 * n + 3], x[10 * n + 4 : 10 * n + 7]])
        np.testing.assert_allclose(y[12 * n : 12 * n + 12 : 2], w @ sample, rtol=1e-5, atol=1e-6)
    assert (y[1:24:2] == 9).all() and (y[24:] == 9).all()


@pytest.mark.covers("core.grad.set", "core.grad.accumulate", "core.grad.batch_sum")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("function", [0, int(capi.BNNSActivationFunctionTanh)])
def test_set_overwrites_and_accumulate_adds(engine: str, function: int) -> None:
    w, b, x, dy = random(3, 4), random(3, seed=9), random(5, 4, seed=10), random(5, 3, seed=11)
    y = np.zeros((5, 3), np.float32)
    start = {"dx": random(5, 4, seed=1), "dw": random(3, 4, seed=2), "db": random(3, seed=3)}
    with openbnns.engine(engine):
        f = fully_connected(w, b, function)
        assert capi.BNNSFilterApplyBatch(f, 5, x, 0, y, 0) == 0
        written = gradients(f, x, y, dy, 0, **start)
        added = gradients(f, x, y, dy, 1, **start)
        twice = gradients(f, x, y, dy, 1, **added)
    dz = dy * (1 - np.tanh(x @ w.T + b) ** 2) if function else dy
    expected = {"dx": dz @ w, "dw": dz.T @ x, "db": dz.sum(0)}  # parameters: summed over the batch, not averaged
    for name, value in expected.items():
        np.testing.assert_allclose(written[name], value, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(added[name], start[name] + value, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(twice[name], start[name] + 2 * value, rtol=1e-4, atol=1e-5)


@pytest.mark.covers("core.grad.null_skip")
@pytest.mark.parametrize("engine", ENGINES)
def test_each_gradient_can_be_left_out(engine: str) -> None:
    w, b, x, dy = random(3, 4), random(3, seed=9), random(5, 4, seed=10), random(5, 3, seed=11)
    with openbnns.engine(engine):
        f = fully_connected(w, b)
        full = gradients(f, x, None, dy)
        names = ("dx", "dw", "db")
        for wanted in itertools.product([False, True], repeat=3):
            memory = {"dx": np.full((5, 4), 7, "f4"), "dw": np.full((3, 4), 7, "f4"), "db": np.full(3, 7, "f4")}
            shapes = {"dx": ("Vector", (4,)), "dw": ("RowMajorMatrix", (4, 3)), "db": ("Vector", (3,))}
            d = {n: descriptor(*shapes[n], memory[n]) if want else None for n, want in zip(names, wanted, strict=True)}
            needs_input = wanted[1]
            assert (
                capi.BNNSFilterApplyBackwardBatch(
                    f,
                    5,
                    x if needs_input else None,
                    0,
                    d["dx"],
                    0,
                    None,
                    0,
                    descriptor("Vector", (3,), dy),
                    0,
                    d["dw"],
                    d["db"],
                )
                == 0
            ), openbnns.last_error()
            for name, want in zip(names, wanted, strict=True):
                if want:
                    assert memory[name].tobytes() == full[name].tobytes(), (name, wanted)
                else:
                    assert (memory[name] == 7).all(), (name, wanted)


@pytest.mark.covers("core.grad.batch_sum")
@pytest.mark.parametrize("engine", ENGINES)
def test_empty_batch(engine: str) -> None:
    """Sums over no samples: Set gives zero, Accumulate leaves everything; outputs of no samples are not touched."""
    y = np.full(3, 7, np.float32)
    dw = np.full((3, 4), 7, np.float32)
    db = np.full(3, 7, np.float32)
    nothing = np.empty(0, np.float32)
    with openbnns.engine(engine):
        f = fully_connected(random(3, 4), random(3))
        assert capi.BNNSFilterApplyBatch(f, 0, nothing, 0, y, 0) == 0 and (y == 7).all()
        arguments = (
            f,
            0,
            nothing,
            0,
            descriptor("Vector", (4,), nothing),
            0,
            None,
            0,
            descriptor("Vector", (3,), nothing),
            0,
        )
        assert (
            capi.BNNSFilterApplyBackwardBatch(
                *arguments, descriptor("RowMajorMatrix", (4, 3), dw), descriptor("Vector", (3,), db, flags=1)
            )
            == 0
        ), openbnns.last_error()
    assert (dw == 0).all() and (db == 7).all()


@pytest.mark.covers("core.act.fused_from_output")
@pytest.mark.parametrize("engine", ENGINES)
def test_fused_activation_is_differentiated_from_the_output(engine: str) -> None:
    """An output that the forward never gave still decides: dz = dy * (1 - out^2) for Tanh."""
    w, x, dy = random(3, 4), random(2, 4, seed=10), random(2, 3, seed=11)
    out = np.linspace(-0.9, 0.9, 6, dtype=np.float32).reshape(2, 3)
    with openbnns.engine(engine):
        f = fully_connected(w, function=capi.BNNSActivationFunctionTanh)
        g = gradients(f, x, out, dy)
        np.testing.assert_allclose(g["dx"], (dy * (1 - out**2)) @ w, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(g["dw"], (dy * (1 - out**2)).T @ x, rtol=1e-4, atol=1e-5)
        dx = np.full(8, 7, np.float32)
        arguments = (f, 2, x, 0, descriptor("Vector", (4,), dx), 0, None, 0, descriptor("Vector", (3,), dy), 0)
        assert capi.BNNSFilterApplyBackwardBatch(*arguments) == -1 and (dx == 7).all()
        assert "out is NULL" in str(openbnns.last_error())


ALLOWED = {
    "Identity",
    "RectifiedLinear",
    "LeakyRectifiedLinear",
    "Sigmoid",
    "LogSigmoid",
    "Tanh",
    "Linear",
    "Clamp",
    "Softmax",
    "HardSigmoid",
    "Softplus",
    "Softsign",
    "ELU",
    "SELU",
    "CELU",
    "ClampedLeakyRectifiedLinear",
    "LinearWithBias",
    "LogSoftmax",
    "HardShrink",
    "SoftShrink",
    "TanhShrink",
    "Threshold",
    "GELUApproximationSigmoid",
}
INFERENCE_ONLY = {
    "Abs",
    "GELUApproximation",
    "GELUApproximation2",
    "SiLU",
    "ScaledTanh",
    "PReLUPerChannel",
    "ReLU6",
    "Erf",
    "GELU",
}
SEPARATE_ONLY = {"Gumbel", "GumbelMax", "IntegerLinearSaturate", "IntegerLinearSaturatePerChannel"}


@pytest.mark.covers("core.act.fused_restrictions")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("function", list(capi.BNNSActivationFunction))
def test_fused_restrictions(function: capi.BNNSActivationFunction, engine: str) -> None:
    name = function.name.removeprefix("BNNSActivationFunction")
    w, x, dy = random(3, 4), random(2, 4, seed=10), random(2, 3, seed=11)
    y = np.zeros((2, 3), np.float32)
    with openbnns.engine(engine):
        f = fully_connected(w, function=function, alpha=0.5)
        if name in SEPARATE_ONLY:
            assert f is None and "cannot be fused" in str(openbnns.last_error())
            return
        assert name in ALLOWED | INFERENCE_ONLY
        assert f is not None, openbnns.last_error()
        assert capi.BNNSFilterApplyBatch(f, 2, x, 0, y, 0) == 0
        if name in ALLOWED:
            gradients(f, x, y, dy)
            return
        dx = np.full(8, 7, np.float32)
        arguments = (f, 2, x, 0, descriptor("Vector", (4,), dx), 0, y, 0, descriptor("Vector", (3,), dy), 0)
        assert capi.BNNSFilterApplyBackwardBatch(*arguments) == -1 and (dx == 7).all()
        assert "cannot be trained" in str(openbnns.last_error())
        assert capi.BNNSFilterApplyBatch(f, 2, x, 0, y, 0) == 0  # inference goes on


@pytest.mark.covers("core.act.fused_restrictions")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("function", [2, 19])
@pytest.mark.parametrize("alpha", [0.0, -0.5, math.nan])
def test_leaky_activations_train_with_a_positive_alpha_only(function: int, alpha: float, engine: str) -> None:
    x, y, dx, dy = random(2, 4), random(2, 3), np.full(8, 7, np.float32), random(2, 3)
    with openbnns.engine(engine):
        f = fully_connected(random(3, 4), function=function, alpha=alpha)
        arguments = (f, 2, x, 0, descriptor("Vector", (4,), dx), 0, y, 0, descriptor("Vector", (3,), dy), 0)
        assert capi.BNNSFilterApplyBackwardBatch(*arguments) == -1 and (dx == 7).all()
    assert "alpha must be above 0" in str(openbnns.last_error())


@pytest.mark.parametrize("engine", ENGINES)
def test_gradient_written_over_the_weights_it_comes_from(engine: str) -> None:
    """weights_delta in the weights' own memory, adding: w + dw, with dx still from the old weights."""
    w, x, dy = random(3, 4), random(2, 4, seed=10), random(2, 3, seed=11)
    before = w.copy()
    dx = np.zeros((2, 4), np.float32)
    with openbnns.engine(engine):
        f = fully_connected(w, flags=1)
        assert (
            capi.BNNSFilterApplyBackwardBatch(
                f,
                2,
                x,
                0,
                descriptor("Vector", (4,), dx),
                0,
                None,
                0,
                descriptor("Vector", (3,), dy),
                0,
                descriptor("RowMajorMatrix", (4, 3), w, flags=1),
                None,
            )
            == 0
        )
    np.testing.assert_allclose(dx, dy @ before, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(w, before + dy.T @ x, rtol=1e-5, atol=1e-6)
