"""Compressed weights of ML programs, against formulas that look at one element at a time."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from openbnns.interop import coreml
from openbnns.interop.coreml import compression
from openbnns.interop.coreml.elements import packed

RNG = np.random.default_rng(5)


def table(shape: tuple[int, ...], dtype: Any = np.float32) -> Any:
    return RNG.standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("kind", [np.int8, np.uint8])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_affine(dtype: Any, kind: Any, axis: int) -> None:
    q = RNG.integers(np.iinfo(kind).min, np.iinfo(kind).max, (3, 4, 5), endpoint=True).astype(kind)
    scale, zero = table((q.shape[axis],), dtype), RNG.integers(0, 100, q.shape[axis]).astype(kind)
    actual = compression.affine_dequantize(q, zero, scale, axis)
    assert actual.dtype == dtype
    for place in np.ndindex(q.shape):
        i = place[axis]
        assert actual[place] == dtype(float(scale[i]) * (int(q[place]) - int(zero[i])))
    plain = compression.dequantize(q, scale[0].reshape(()))
    assert (plain == (q.astype(np.float32) * np.float32(scale[0])).astype(dtype)).all()


def test_quantize_rounds_halves_to_even_and_cuts() -> None:
    x = np.float32([-1000, -0.75, -0.25, 0.25, 0.75, 1.25, 1000])
    scale = np.float32(0.5)
    assert compression.quantize(x, scale, "int8").tolist() == [-128, -2, 0, 0, 2, 2, 127]
    assert compression.quantize(x, scale, "uint8", np.uint8(3)).tolist() == [0, 1, 3, 3, 5, 5, 255]
    vector = compression.quantize(table((4, 3)), np.float32([0.1, 0.2, 0.3]), "int8", np.int8([1, 2, 3]), axis=1)
    assert vector.shape == (4, 3)
    # Back again, an error is at most half a step.
    y = RNG.uniform(-10, 10, (50, 3)).astype(np.float32)
    steps = np.float32([0.1, 0.2, 0.3])
    q = compression.quantize(y, steps, "int8", np.int8([1, 2, 3]), axis=1)
    assert (np.abs(compression.dequantize(q, steps, np.int8([1, 2, 3]), axis=1) - y) <= steps * 0.5001).all()


@pytest.mark.parametrize(
    ("shape", "groups"), [((4, 6), (2, 3)), ((4, 6), (4, 1)), ((5,), (1,)), ((2, 3, 8), (1, 3, 2))]
)
@pytest.mark.parametrize("offset", [False, True])
def test_blocks(shape: tuple[int, ...], groups: tuple[int, ...], offset: bool) -> None:
    data = RNG.integers(-8, 8, shape).astype(np.int8)
    scale, shift = table(groups), RNG.integers(-8, 8, groups).astype(np.int8) if offset else None
    actual = compression.blockwise_shift_scale(data, scale, shift)
    for place in np.ndindex(shape):
        block = tuple(i // (n // m) for i, n, m in zip(place, shape, groups, strict=True))
        less = int(shift[block]) if shift is not None else 0
        assert actual[place] == np.float32(scale[block]) * np.float32(int(data[place]) - less)


@pytest.mark.parametrize(("shape", "groups"), [((4, 6), (2, 3)), ((4, 6), (1, 1)), ((2, 3, 8), (2, 1, 4))])
@pytest.mark.parametrize("bits", [1, 2, 3, 4, 6, 8])
def test_tables_of_blocks(shape: tuple[int, ...], groups: tuple[int, ...], bits: int) -> None:
    indices = RNG.integers(0, 2**bits, shape).astype(np.uint8)
    lut = table((*groups, 2**bits, 1), np.float16)
    actual = compression.lut_to_dense(indices, lut)
    assert actual.dtype == np.float16
    for place in np.ndindex(shape):
        group = tuple(i * m // n for i, n, m in zip(place, shape, groups, strict=True))
        assert actual[place] == lut[(*group, indices[place], 0)]


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_tables_of_vectors(axis: int) -> None:
    indices, lut = RNG.integers(0, 4, (4, 6)).astype(np.uint8), table((2, 3, 4, 5))
    actual = compression.lut_to_dense(indices, lut, axis)
    along = axis % 2
    assert actual.shape == ((20, 6), (4, 30))[along]
    for i, j, v in itertools.product(range(4), range(6), range(5)):
        place = (i * 5 + v, j) if along == 0 else (i, j * 5 + v)
        assert actual[place] == lut[i * 2 // 4, j * 3 // 6, indices[i, j], v]
    with pytest.raises(coreml.CoreMLError, match="vectors of length 5 need a vector axis"):
        compression.lut_to_dense(indices, lut)


@pytest.mark.parametrize("bits", [1, 2, 4, 6, 8])
def test_packed_tables(bits: int) -> None:
    indices, lut = RNG.integers(0, 2**bits, (3, 5)), table((2**bits,))
    whole = sum(int(index) << (bits * e) for e, index in enumerate(indices.reshape(-1)))
    data = np.frombuffer(whole.to_bytes((15 * bits + 7) // 8, "little"), np.uint8)
    assert (compression.packed_lut_to_dense(data, lut, (3, 5)) == lut[indices]).all()
    with pytest.raises(coreml.CoreMLError, match="bytes of indices do not make"):
        compression.packed_lut_to_dense(data, lut, (300, 5))


def test_sparse() -> None:
    dense = table((3, 5)) * (RNG.random((3, 5)) < 0.5)
    mask = (dense != 0).astype(np.uint8)
    values = dense[dense != 0]
    assert (compression.sparse_to_dense(values, mask) == dense).all()
    assert (compression.packed_sparse_to_dense(values, packed(mask, 1), (3, 5)) == dense).all()
    with pytest.raises(coreml.CoreMLError, match=r"the mask has \d+ ones, but there are \d+ values"):
        compression.sparse_to_dense(values[1:], mask)


def test_sparse_tables_and_blocks_are_the_dense_ones_at_their_places() -> None:
    mask = (RNG.random((4, 6)) < 0.5).astype(np.uint8)
    indices = RNG.integers(0, 4, int(mask.sum())).astype(np.uint8)
    lut = table((2, 1, 4, 3))
    spread = np.zeros((4, 6), np.uint8)
    spread[mask == 1] = indices
    wide, values = compression.lut_to_sparse(mask, indices, lut, 1)
    assert (wide == np.repeat(mask, 3, 1)).all()
    assert (values == compression.lut_to_dense(spread, lut, 1)[wide == 1]).all()
    scale = table((4, 2))
    same, scaled = compression.sparse_blockwise_shift_scale(mask, indices, scale)
    expected = [scale[i, j // 3] * spread[i, j] for i, j in np.ndindex(4, 6) if mask[i, j]]
    assert (same == mask).all() and np.array_equal(scaled, np.float32(expected))


def test_by_the_names_of_operations() -> None:
    """As programs have them: scalars as arrays, and one name for both forms of a table."""
    (actual,) = coreml.decompressed(
        "constexpr_affine_dequantize",
        {"quantized_data": np.int8([-128, -1, 0, 127]), "scale": np.float32(0.5), "zero_point": np.int8(-1), "axis": np.int32(0)},
    )  # fmt: skip
    assert actual.tolist() == [-63.5, 0, 0.5, 64]  # as Core ML computes it on a Mac
    lut = np.float32([1, 2])
    (old,) = coreml.decompressed(
        "constexpr_lut_to_dense", {"indices": np.uint8([6]), "lut": lut, "shape": np.uint32([3]), "vector_axis": None}
    )
    (new,) = coreml.decompressed(
        "constexpr_lut_to_dense", {"indices": np.uint8([0, 1, 1]), "lut": lut.reshape(1, 2, 1)}
    )
    assert old.tolist() == new.tolist() == [1, 2, 2]
    (cast,) = coreml.decompressed("constexpr_cast", {"source_val": np.float16([0.1]), "output_dtype": "fp32"})
    assert cast.dtype == np.float32 and cast[0] == np.float32(np.float16(0.1))


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda: compression.quantize(np.zeros(2, np.float32), np.float32(1), "int4"), "It must be int8 or uint8"),
        (
            lambda: compression.dequantize(np.zeros((2, 3), np.int8), np.ones(2, np.float32), axis=1),
            "does not fit axis 1",
        ),
        (lambda: compression.dequantize(np.zeros((2, 3), np.int8), np.ones(2, np.float32)), "does not fit axis None"),
        (lambda: compression.blockwise_shift_scale(np.zeros((2, 3)), np.ones((2, 2))), "no whole number of blocks"),
        (lambda: compression.blockwise_shift_scale(np.zeros((2, 3)), np.ones((2, 0))), "no whole number of blocks"),
        (lambda: compression.blockwise_shift_scale(np.zeros(4), np.ones(2), np.ones(1)), r"offset has shape \(1,\)"),
        (lambda: compression.lut_to_dense(np.uint8([4]), np.ones((1, 4, 1))), "an index is 4, but the table has 4"),
        (lambda: compression.lut_to_dense(np.uint8([4]), np.ones((4, 1))), "does not fit indices of shape"),
        (
            lambda: compression.packed_lut_to_dense(np.uint8([4]), np.ones(3), (1,)),
            "a table has 2, 4, 8, 16, 64 or 256",
        ),
        (lambda: compression.packed_sparse_to_dense(np.ones(1), np.uint8([1]), (9,)), "1 bytes of mask do not fit"),
        (lambda: compression.cast(np.ones(1), "fp8"), "there is no element type 'fp8'"),
    ],
)
def test_sizes_that_do_not_fit(call: Any, reason: str) -> None:
    with pytest.raises(coreml.CoreMLError, match=reason):
        call()
