"""Quantization: the direct call and the functions, against the formula, for every type, axis and way to be wrong."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

import openbnns as ob
from bad_calls import refused
from helpers import (
    BFLOAT16,
    FIRST_MAJOR_2D,
    FLOAT16,
    FLOAT32,
    IMAGE,
    INT8,
    INT16,
    INT32,
    LAST_MAJOR_2D,
    ROW_MAJOR,
    UINT8,
    VECTOR,
    Array,
    Storage,
    Tensor,
    assert_bitwise,
    image,
    vector,
)
from openbnns import capi, engines

QUANTIZE, DEQUANTIZE = capi.BNNSQuantizerFunctionQuantize, capi.BNNSQuantizerFunctionDequantize
INTEGERS = {
    kind: np.dtype(kind.lower()) for kind in ("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64")
}


def data_type(name: str) -> capi.BNNSDataType:
    return capi.BNNSDataType[f"BNNSDataType{name}"]


def run(
    function: int, x: Storage, y: Storage, /, scale: Any = None, bias: Any = None, mask: int = 0, batch: int | None = None,
    threads: int = 0, **changes: Any,
) -> int:  # fmt: skip
    """The direct call on storages; scale and bias are float32 vectors."""

    def values(numbers: Any) -> capi.BNNSNDArrayDescriptor:
        if numbers is None or isinstance(numbers, capi.BNNSNDArrayDescriptor):
            return numbers or capi.BNNSNDArrayDescriptor()
        return vector(len(numbers)).descriptor(np.array(numbers, np.float32))

    p = capi.BNNSLayerParametersQuantization(
        axis_mask=mask, function=function, i_desc=x.descriptor(), o_desc=y.descriptor(), scale=values(scale),
        bias=values(bias),
    )  # fmt: skip
    for name, value in changes.items():
        setattr(p, name, value)
    count = x.batch if batch is None else batch
    return capi.BNNSDirectApplyQuantizer(p, capi.BNNSFilterParameters(n_threads=threads), count, x.stride, y.stride)


def rounded(v: Array, dtype: np.dtype[Any]) -> list[int]:
    """saturate(round(v)), number by number in Python integers."""
    limits = np.iinfo(dtype)
    result = []
    for number in v.ravel().tolist():
        if math.isnan(number):
            result.append(0)
        elif math.isinf(number):
            result.append(int(limits.max) if number > 0 else int(limits.min))
        else:
            result.append(min(max(round(number), int(limits.min)), int(limits.max)))
    return result


# ---------------------------------------------------------------------------------------------------------------------
# Values


@pytest.mark.covers("quant.Quantize", "fn.BNNSDirectApplyQuantizer")
@pytest.mark.parametrize("name", INTEGERS)
def test_quantize_every_integer_type(name: str, engine: str) -> None:
    """Halves, both ends of the range, beyond them, infinities and NaN."""
    dtype = INTEGERS[name]
    limits = np.iinfo(dtype)
    ends = [float(limits.min), float(limits.max), 2.0 * limits.max, -2.0 * limits.max - 3]
    special = [0.5, 1.5, 2.5, -0.5, -1.5, 0.49999997, 126.5, 127.5, -128.5, np.inf, -np.inf, np.nan, -0.0, 1e30, -1e30]
    rng = np.random.default_rng(5)
    x = np.concatenate([np.float32([*ends, *special]), (rng.standard_normal(997) * limits.max).astype(np.float32)])
    y = np.full(x.size, 77, dtype)
    scale, bias = np.float32([0.75]), np.float32([3.25])
    p = capi.BNNSLayerParametersQuantization(
        function=QUANTIZE,
        i_desc=vector(x.size).descriptor(x),
        o_desc=capi.BNNSNDArrayDescriptor(layout=VECTOR, size=[x.size], data=y, data_type=data_type(name)),
        scale=vector(1).descriptor(scale),
        bias=vector(1).descriptor(bias),
    )
    assert capi.BNNSDirectApplyQuantizer(p, None, 1, 0, 0) == 0, ob.last_error()
    assert y.tolist() == rounded(0.75 * x.astype(np.float64) + 3.25, dtype)


@pytest.mark.covers("quant.Dequantize", "fn.BNNSDirectApplyQuantizer")
@pytest.mark.parametrize("name", INTEGERS)
def test_dequantize_every_integer_type(name: str, engine: str) -> None:
    dtype = INTEGERS[name]
    limits = np.iinfo(dtype)
    x = np.random.default_rng(3).integers(limits.min, limits.max, 999, dtype, endpoint=True)
    y = np.full(x.size, np.nan, np.float32)
    p = capi.BNNSLayerParametersQuantization(
        function=DEQUANTIZE,
        i_desc=capi.BNNSNDArrayDescriptor(
            layout=VECTOR,
            size=[x.size],
            data=x,
            data_type=data_type(name),
            data_scale=3.0,
            data_bias=9.0,  # ignored
        ),
        o_desc=vector(x.size).descriptor(y),
        scale=vector(1).descriptor(np.float32([0.375])),
        bias=vector(1).descriptor(np.float32([-7.5])),
    )
    assert capi.BNNSDirectApplyQuantizer(p, None, 1, 0, 0) == 0, ob.last_error()
    np.testing.assert_array_equal(y, np.float32((x.astype(np.float64) + 7.5) / 0.375))


@pytest.mark.covers("quant.Quantize", "quant.Dequantize")
@pytest.mark.parametrize("name", ["Int4", "Int2", "Int1", "UInt1", "UInt2", "UInt3", "UInt4", "UInt6"])
def test_types_narrower_than_a_byte(name: str, engine: str) -> None:
    kind = data_type(name)
    bits = int(kind) & 0xFF
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if name.startswith("I") else (0, (1 << bits) - 1)
    x = np.float32([-100, -3.5, -1, -0.5, 0, 0.5, 1.5, 2.5, 5, 100, 7])
    packed = np.zeros((x.size * bits + 7) // 8, np.uint8)
    narrow = capi.BNNSNDArrayDescriptor(layout=VECTOR, size=[x.size], data=packed, data_type=kind)
    p = capi.BNNSLayerParametersQuantization(function=QUANTIZE, i_desc=vector(x.size).descriptor(x), o_desc=narrow)
    assert capi.BNNSDirectApplyQuantizer(p, None, 1, 0, 0) == 0, ob.last_error()
    y = np.full(x.size, np.nan, np.float32)
    q = capi.BNNSLayerParametersQuantization(
        function=DEQUANTIZE,
        i_desc=narrow,
        o_desc=vector(x.size).descriptor(y),
        scale=vector(1).descriptor(np.float32([2])),
    )
    assert capi.BNNSDirectApplyQuantizer(q, None, 1, 0, 0) == 0, ob.last_error()
    np.testing.assert_array_equal(2 * y, np.clip(np.rint(x), low, high))


LAYOUTS = [
    image(3, 5, 7), vector(13), Tensor(ROW_MAJOR, (7, 4)), Tensor(FIRST_MAJOR_2D, (7, 4)), Tensor(LAST_MAJOR_2D, (7, 4)),
    Tensor(IMAGE, (5, 3, 2), (1, 7, 30)), Tensor(capi.BNNSDataLayout.BNNSDataLayout4DFirstMajor, (2, 3, 4, 5)),
]  # fmt: skip


@pytest.mark.covers("quant.axis", "quant.batch_axis", "quant.Quantize", "quant.Dequantize")
@pytest.mark.parametrize("function", [QUANTIZE, DEQUANTIZE], ids=["quantize", "dequantize"])
@pytest.mark.parametrize("given", ["both", "scale", "bias", "none"])
@pytest.mark.parametrize("tensor", LAYOUTS, ids=lambda t: t.layout.name[14:] + ("-padded" if t.stride else ""))
def test_every_axis_of_every_layout(tensor: Tensor, given: str, function: int, engine: str) -> None:
    """Bit d varies along size[d], bit rank along the batch; gaps between samples and rows stay as they are."""
    batch, rank = 3, len(tensor.size)
    rng = np.random.default_rng(rank)
    for axis in [None, *range(rank + 1)]:
        length = 1 if axis is None else batch if axis == rank else tensor.size[axis]
        scale = rng.uniform(0.5, 9, length).astype(np.float32) if given in ("both", "scale") else None
        bias = rng.uniform(-9, 9, length).astype(np.float32) if given in ("both", "bias") else None
        shape = [1] * (rank + 1)
        if axis is not None:
            shape[0 if axis == rank else 1 + axis] = length
        s = np.ones(1) if scale is None else scale.astype(np.float64).reshape(shape)
        b = np.zeros(1) if bias is None else bias.astype(np.float64).reshape(shape)
        kinds = (FLOAT32, INT16) if function == QUANTIZE else (INT16, FLOAT32)
        x, y = (Tensor(tensor.layout, tensor.size, tensor.stride, k) for k in kinds)
        values = rng.standard_normal((batch, *tensor.size)) * 40
        source, target = Storage(x, batch, 4, values), Storage(y, batch, 2)
        mask = 0 if axis is None else 1 << axis
        assert run(function, source, target, scale, bias, mask) == 0, ob.last_error()
        numbers = source.read()
        expected = np.rint(s * numbers + b) if function == QUANTIZE else np.float32((numbers - b) / s)
        np.testing.assert_array_equal(target.read(), np.broadcast_to(expected, numbers.shape))
        source.assert_unchanged("x")
        target.assert_guards_intact("y")


@pytest.mark.parametrize("kind", [FLOAT16, BFLOAT16], ids=["half", "bfloat"])
def test_other_float_types(kind: capi.BNNSDataType, engine: str) -> None:
    x = Storage(vector(57, data_type=kind), 3, 5, np.random.default_rng(1).standard_normal((3, 57)) * 50)
    y = Storage(vector(57, data_type=UINT8), 3, 1)
    assert run(QUANTIZE, x, y, [0.5], [9]) == 0, ob.last_error()
    np.testing.assert_array_equal(y.read(), np.clip(np.rint(0.5 * x.read() + 9), 0, 255))
    back = Storage(vector(57, data_type=kind), 3)
    assert run(DEQUANTIZE, y, back, [0.5], [9]) == 0, ob.last_error()
    np.testing.assert_array_equal(back.raw(), back.tensor.encode((y.read() - 9) / 0.5))


def test_integers_to_integers(engine: str) -> None:
    """Requantization, exact beyond the digits of float32, with data_scale and data_bias ignored."""
    x = Storage(vector(5, data_type=INT32, scale=2.0, bias=1.0), 1)
    x.elements[:] = [2**31 - 1, 16777217, -16777219, 3, -(2**31)]
    y = Storage(vector(5, data_type=INT32, scale=0.5), 1)
    assert run(QUANTIZE, x, y) == 0, ob.last_error()
    assert y.raw().tolist() == x.raw().tolist()


@pytest.mark.covers("quant.Quantize")
def test_in_place_and_overlapping_memory(engine: str) -> None:
    """The result is that of separate memory, even where y covers x or the scale."""
    numbers = np.random.default_rng(2).standard_normal(4000).astype(np.float32) * 30
    expected = np.clip(np.rint(2.0 * numbers.astype(np.float64)), -128, 127)
    for offset in (0, 3, 900):
        memory = np.zeros(16000 + offset, np.uint8)
        memory[:16000] = numbers.view(np.uint8)
        p = capi.BNNSLayerParametersQuantization(
            function=QUANTIZE, i_desc=vector(4000).descriptor(memory[:16000]),
            o_desc=vector(4000, data_type=INT8).descriptor(memory[offset : offset + 4000]),
            scale=vector(1).descriptor(np.float32([2])),
        )  # fmt: skip
        assert capi.BNNSDirectApplyQuantizer(p, None, 1, 0, 0) == 0, ob.last_error()
        np.testing.assert_array_equal(memory[offset : offset + 4000].view(np.int8), expected)
    memory = np.float32([4.0, 0, 0, 0])
    x = np.float32([1, 2, 3, 4])
    p = capi.BNNSLayerParametersQuantization(
        function=QUANTIZE, i_desc=vector(4).descriptor(x), o_desc=vector(4, data_type=INT32).descriptor(memory.view("u1")),
        scale=vector(1).descriptor(memory[:1]),
    )  # fmt: skip
    use = capi.BNNSFilterParameters(flags=capi.BNNSFlagsUseClientPtr)
    assert capi.BNNSDirectApplyQuantizer(p, use, 1, 0, 0) == 0, ob.last_error()
    assert memory.view(np.int32).tolist() == [4, 8, 12, 16]


def test_threads_and_instruction_sets_give_the_same_bits() -> None:
    x = Storage(image(5, 60, 211), 3, 7, np.random.default_rng(8).standard_normal((3, 211, 60, 5)) * 60)
    results = []
    for threads in (1, 2, 3):
        y = Storage(image(5, 60, 211, data_type=INT8), 3)
        assert run(QUANTIZE, x, y, np.arange(1, 6) / 3, np.arange(5), 0b100, threads=threads) == 0
        results.append(y.raw())
    wanted = np.clip(np.rint((np.arange(1, 6) / 3).astype(np.float32) * x.read() + np.arange(5)), -128, 127)
    np.testing.assert_array_equal(results[0], wanted)
    for other in results[1:]:
        assert_bitwise(other, results[0], "y")


@pytest.mark.parametrize("seed", range(40))
def test_random_configurations(seed: int) -> None:
    """Any layout, stride, types, axis and batch: both engines give the same integers."""
    rng = np.random.default_rng(seed)
    layout, rank = [(VECTOR, 1), (ROW_MAJOR, 2), (FIRST_MAJOR_2D, 2), (IMAGE, 3)][rng.integers(4)]
    size = tuple(int(n) for n in rng.integers(1, 9, rank))
    stride = (int(rng.integers(1, 3)),) if rng.random() < 0.4 else ()
    batch, axis = int(rng.integers(1, 5)), [None, *range(rank + 1)][rng.integers(rank + 2)]
    length = 1 if axis is None else batch if axis == rank else size[axis]
    scale = rng.uniform(-9, 9, length) if rng.random() < 0.8 else None
    bias = rng.uniform(-9, 9, length) if rng.random() < 0.8 else None
    function = int(rng.integers(2))
    wide = [FLOAT32, FLOAT16, BFLOAT16][rng.integers(3)]
    narrow = [INT8, UINT8, INT16, INT32][rng.integers(4)]
    kinds = (wide, narrow) if function == QUANTIZE else (narrow, wide)
    x, y = (Tensor(layout, size, stride, k) for k in kinds)
    source = Storage(x, batch, int(rng.integers(0, 4)), rng.standard_normal((batch, *size)) * 60)
    gap = int(rng.integers(0, 4))
    results = []
    for name in ("native", "reference"):
        with ob.engine(name):
            target = Storage(y, batch, gap)
            assert run(function, source, target, scale, bias, 0 if axis is None else 1 << axis) == 0, ob.last_error()
            target.assert_guards_intact("y")
            results.append(target.raw())
    if function == QUANTIZE or wide == FLOAT32:
        assert_bitwise(results[0], results[1], "y")
    else:
        a, b = (y.decode(r) for r in results)
        np.testing.assert_allclose(a, b, rtol=2.0**-7 if wide == BFLOAT16 else 2.0**-10)


def test_an_empty_batch_writes_nothing(engine: str) -> None:
    x, y = Storage(vector(4), 1, 0, np.ones((1, 4))), Storage(vector(4, data_type=INT8))
    assert run(QUANTIZE, x, y, batch=0) == 0
    y.assert_unchanged("y")


# ---------------------------------------------------------------------------------------------------------------------
# Bad input


BAD: list[tuple[dict[str, Any], str]] = [
    ({"function": 2}, r"function is 2, which is not a BNNSQuantizerFunction"),
    ({"axis_mask": 0b11}, r"axis_mask is 0x3\. Set one bit: 0 to 0 for an axis of Vector, 1 for the batch"),
    ({"axis_mask": 0b100}, r"axis_mask is 0x4\. Set one bit"),
    ({"axis_mask": 2**64 - 1}, r"axis_mask is 0xf+\. Set one bit"),
    ({"axis_mask": 1}, r"scale has 1 values, but they vary along an axis: 4 expected\. Set its size to 4"),
    ({"axis_mask": 2}, r"scale has 1 values, but they vary along the batch: 2 expected"),
    ({"scale": vector(3).descriptor(np.ones(3, "f4"))}, r"scale has 3 values, but no axis is named: 1 expected"),
    ({"bias": vector(2).descriptor(np.ones(2, "f4"))}, r"bias has 2 values, but no axis is named: 1 expected"),
    ({"bias": vector(1).descriptor(np.ones(1, np.float16))}, r"bias\.data holds float16 items"),
    ({"scale": vector(1).descriptor(b"abc")}, r"scale\.data holds 3 bytes"),
    ({"scale": Tensor(ROW_MAJOR, (1, 1)).descriptor(np.ones(1, "f4"))}, r"scale is RowMajorMatrix .* Describe a Vector"),
    ({"o_desc": vector(4).descriptor(np.ones(8, "f4"))}, r"o_desc\.data_type is Float32, but Quantize gives integers"),
    ({"o_desc": vector(5, data_type=INT8).descriptor(np.ones(10, "i1"))}, r"Both sides need the same number of elements"),
    ({"o_desc": vector(4, data_type=INT8).descriptor(None)}, r"o_desc\.data is NULL"),
    ({"o_desc": vector(4, data_type=INT8).descriptor(bytes(8))}, r"o_desc\.data is read-only"),
    ({"o_desc": vector(4, data_type=INT8).descriptor(np.zeros(7, "i1"))}, r"o_desc\.data holds 7 bytes"),
    ({"i_desc": vector(4).descriptor(None)}, r"i_desc\.data is NULL"),
    ({"i_desc": vector(4).descriptor(np.zeros(7, "f4"))}, r"i_desc\.data holds 28 bytes"),
    ({"i_desc": vector(4).descriptor(np.zeros(8, np.float16))}, r"i_desc\.data holds float16"),
    ({"i_desc": capi.BNNSNDArrayDescriptor()}, r"i_desc\.layout is 0x0"),
    ({"i_desc": Tensor(IMAGE, (4, 1, 1)).descriptor(np.zeros(8, "f4")), "axis_mask": 1,
      "scale": capi.BNNSNDArrayDescriptor(), "bias": capi.BNNSNDArrayDescriptor()}, r"Both sides need the same layout and size"),
]  # fmt: skip


@pytest.mark.parametrize("changes, pattern", BAD, ids=lambda v: v[:30] if isinstance(v, str) else "")
def test_bad_input(changes: dict[str, Any], pattern: str, engine: str) -> None:
    x, y = Storage(vector(4), 2, 0, np.ones((2, 4))), Storage(vector(4, data_type=INT8), 2)
    changes = {"scale": vector(1).descriptor(np.ones(1, "f4"))} | changes
    assert run(QUANTIZE, x, y, **changes) == -1
    assert ob.last_error() is not None
    np.testing.assert_string_equal(str(ob.last_error())[:25], "BNNSDirectApplyQuantizer:")
    assert re.search(pattern, str(ob.last_error())), ob.last_error()
    y.assert_unchanged("y")


def test_bad_calls(engine: str) -> None:
    assert capi.BNNSDirectApplyQuantizer(None, None, 1, 0, 0) == -1
    with pytest.raises(TypeError, match="layer_params must be a BNNSLayerParametersQuantization"):
        capi.BNNSDirectApplyQuantizer(capi.BNNSLayerParametersActivation(), None, 1, 0, 0)
    x, y = Storage(vector(4), 1, 0, np.ones((1, 4))), Storage(vector(4, data_type=INT8))
    p = capi.BNNSLayerParametersQuantization(function=QUANTIZE, i_desc=x.descriptor(), o_desc=y.descriptor())
    for arguments, pattern in [
        ((-1, 0, 0), "batch_size is -1"), ((2, 0, 0), "i_desc.data holds"), ((2**64, 0, 0), "batch_size is"),
        ((1, -1, 0), "input_stride is -1"), ((1, 0, 2**63), "output_stride is"),
    ]:  # fmt: skip
        refused(capi.BNNSDirectApplyQuantizer(p, None, *arguments), re.escape(pattern))
    with pytest.raises(TypeError):
        capi.BNNSDirectApplyQuantizer(p, None, "1", 0, 0)
    y.assert_unchanged("y")
    q = capi.BNNSLayerParametersQuantization(function=DEQUANTIZE, i_desc=y.descriptor(), o_desc=y.descriptor())
    refused(capi.BNNSDirectApplyQuantizer(q, None, 1, 0, 0), "Dequantize gives real numbers")


# ---------------------------------------------------------------------------------------------------------------------
# The functions


@pytest.mark.covers("quant.Quantize", "quant.Dequantize", "quant.axis", "quant.batch_axis")
def test_functions_on_arrays(engine: str) -> None:
    rng = np.random.default_rng(4)
    x = rng.standard_normal((2, 3, 4, 5)).astype(np.float32) * 20
    for axis in (None, 0, 1, 3, -1, -4):
        length = 1 if axis is None else x.shape[axis]
        scale, bias = rng.uniform(1, 3, length).astype("f4"), rng.uniform(-3, 3, length).astype("f4")
        shape = [1] * 4
        shape[0 if axis is None else axis] = length
        s, b = scale.astype(float).reshape(shape), bias.astype(float).reshape(shape)
        y = ob.quantize(x, axis=axis, scale=scale, bias=bias)
        assert y.dtype == np.int8
        np.testing.assert_array_equal(y, np.clip(np.rint(s * x + b), -128, 127))
        given = np.empty(x.shape, np.uint16)
        assert ob.quantize(x, given, axis=axis, scale=scale, bias=bias) is given
        np.testing.assert_array_equal(given, np.clip(np.rint(s * x + b), 0, 65535))
        back = ob.dequantize(y, axis=axis, scale=scale, bias=bias)
        np.testing.assert_array_equal(back, np.float32((y - b) / s))
    strided = ob.quantize(x.transpose(3, 2, 1, 0)[::2], scale=2)
    np.testing.assert_array_equal(strided, np.clip(np.rint(2.0 * x.transpose(3, 2, 1, 0)[::2]), -128, 127))
    assert ob.quantize(np.zeros((0, 3), np.float32)).shape == (0, 3)


def test_functions_on_descriptors(engine: str) -> None:
    """Swift's axes: positions in size[], then the batch."""
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    d = Tensor(ROW_MAJOR, (4, 3)).descriptor(x)
    for axis, shape in ((0, (1, 1, 4)), (1, (1, 3, 1)), (2, (2, 1, 1))):
        scale = np.arange(1, 1 + max(shape), dtype=np.float32)
        y = ob.quantize(d, axis=axis, scale=scale, batch_size=2)
        np.testing.assert_array_equal(y, np.clip(x * scale.reshape(shape), -128, 127))
    target = Tensor(ROW_MAJOR, (4, 3), data_type=INT16).descriptor(np.zeros((2, 3, 4), np.int16))
    assert ob.quantize(d, target, scale=3.0) is target
    np.testing.assert_array_equal(target.data, 3 * x)


FUNCTION_ERRORS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"axis": 2}, ValueError, r"quantize: axis is 2, but there are -2 to 1"),
    ({"axis": 1.5}, TypeError, r"quantize: axis must be an integer, not float"),
    ({"scale": [1.0, 2.0]}, ValueError, r"quantize: scale has 2 values, but no axis is named: 1 expected"),
    ({"scale": "a"}, TypeError, r"quantize: scale must be a number or a vector, not str"),
    ({"scale": np.ones((2, 2))}, ValueError, r"quantize: scale has shape \(2, 2\)"),
    ({"bias": []}, ValueError, r"quantize: bias is empty"),
    ({"output": np.zeros((2, 4), np.int8)}, ValueError, r"output has shape \(2, 4\), but input \(2, 3\)"),
    ({"output": np.zeros((2, 3), np.float32)}, TypeError, r"output.data_type is Float32, but Quantize gives integers"),
    ({"output": np.zeros((3, 2), np.int8).T}, ValueError, r"is not C-contiguous"),
    ({"batch_size": 3}, ValueError, r"batch_size is 3, but input holds 2"),
    ({"input": np.zeros((2, 3), np.complex64)}, TypeError, r"input is complex64"),
    ({"input": np.float32(3)}, ValueError, r"input has shape \(\), but a tensor has 1 to 8 axes"),
    ({"filter_parameters": 3}, TypeError, r"filter_parameters must be a BNNSFilterParameters"),
]


@pytest.mark.parametrize("changes, kind, pattern", FUNCTION_ERRORS, ids=lambda v: v[:30] if isinstance(v, str) else "")
def test_function_errors(changes: dict[str, Any], kind: type[Exception], pattern: str, engine: str) -> None:
    with pytest.raises(kind, match=pattern) as caught:
        ob.quantize(**({"input": np.ones((2, 3), np.float32)} | changes))
    assert isinstance(caught.value, ob.LayerApplyError)


def test_native_is_native() -> None:
    """The kernel, not the reference, does the work."""
    called = []
    kernel = engines._core.quantization
    try:
        engines._core.quantization = lambda **fields: called.append(fields) or kernel(**fields)
        ob.quantize(np.ones(4, np.float32))
    finally:
        engines._core.quantization = kernel
    assert called
