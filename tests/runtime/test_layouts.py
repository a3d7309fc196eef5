"""Layouts: where each element lies by size and stride, against one formula per layout written here anew."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import openbnns
from bad_calls import refused
from helpers import descriptor, layout
from openbnns import capi
from openbnns.capi import BNNSDataLayout, BNNSDataType
from openbnns.errors import Problem
from openbnns.tensors import buffers, descriptors, staging

Array = NDArray[Any]

ENGINES = ("native", "reference")

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
    steps = [resolved.strides[axis] for axis in resolved.layout.stepped]
    assert tuple(steps) == packed(size)
    assert resolved.count == resolved.span == resolved.extent == math.prod(size)
    doubled = descriptors.resolve(descriptor(name, size, stride=[2] + [0] * (len(size) - 1)), "test")
    assert [doubled.strides[axis] for axis in doubled.layout.stepped] == [2 * p for p in packed(size)]
    assert doubled.extent == 2 * math.prod(size)


def test_default_strides_spelled_out() -> None:
    """The example of the reference: 3DFirstMajor size (2,3,4) has strides (1,4,12), which run opposite to the sizes."""
    view = descriptors.resolve(descriptor("3DFirstMajor", (2, 3, 4)), "test")
    assert view.strides == (12, 4, 1)
    view = descriptors.resolve(descriptor("MHA_DHK", (4, 3, 2)), "test")  # D, K, H
    assert view.strides == (1, 8, 4)


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
    with pytest.raises(Problem, match="has no strides"):
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
    refused(capi.BNNSFilterCreateLayerActivation(p), "FullyConnectedSparse, the packed form of sparse weights")


@pytest.mark.covers("direct.rank")
@pytest.mark.parametrize("member", list(BNNSDataLayout))
def test_rank(member: BNNSDataLayout) -> None:
    assert capi.BNNSDataLayoutGetRank(member) == int(member) >> 16
    assert capi.BNNSDataLayoutGetRank(np.int64(member)) == int(member) >> 16


@pytest.mark.parametrize("code", [0, 1, 0x10001, 0x90000, -1, 2**40])
def test_rank_of_an_unknown_layout(code: int) -> None:
    assert capi.BNNSDataLayoutGetRank(code) == 2**64 - 1
    assert "is not a BNNSDataLayout" in str(openbnns.last_error())


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
