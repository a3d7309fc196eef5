"""Element types: every stored form to numbers and back, against formulas written here anew.

Sub-byte types are one stream of bits, element 0 in the lowest bits of byte 0.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import openbnns
from helpers import FLOAT32, descriptor
from openbnns import capi, compat
from openbnns.capi import BNNSDataType
from openbnns.tensors import descriptors

Array = NDArray[Any]


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
@pytest.mark.parametrize("name", types(INTEGERS))
def test_saturation_and_special_values(name: str, engine: str) -> None:
    bits, unsigned = INTEGERS[name]
    low, high = limits(name)
    values = np.array([np.inf, -np.inf, np.nan, 3e38, -3e38, float(high), float(low), -0.0], np.float32)
    got = unpack(convert(values, "Float32", name, len(values), engine=engine), len(values), bits, unsigned)
    exact = [min(max(int(v), low), high) for v in (float(np.float32(high)), float(np.float32(low)))]
    assert got == [high, low, 0, high, low, *exact, 0]


@pytest.mark.covers("core.type.round_even")
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
def test_float32_is_copied_as_it_is(engine: str) -> None:
    values = np.array([0.0, -0.0, 1e-45, np.inf, -np.inf, np.nan, 3e38], np.float32)
    assert convert(values, "Float32", "Float32", 7, engine=engine)[:20] == values.tobytes()[:20]
    assert np.isnan(floats(convert(values, "Float32", "Float32", 7, engine=engine))[5])


@pytest.mark.covers("dtype.Boolean")
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
    f = capi.BNNSFilterCreateLayerFullyConnected(p, flags)
    assert capi.BNNSFilterApplyBatch(f, batch, x, 0, y, 0) == 0, openbnns.last_error()
    expected = x_values.reshape(batch, inputs) @ w_values.reshape(outputs, inputs).T + b_values
    np.testing.assert_allclose(y, expected, rtol=2e-6, atol=1e-6)


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
