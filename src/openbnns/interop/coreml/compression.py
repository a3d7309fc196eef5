"""Compressed weights: the constexpr operations of ML programs, and quantize and dequantize, in NumPy.

Arrays hold one element each (uint4 as uint8); masks and indices of iOS 16 are the packed bytes that a program has. A result has
the type of scale or table; sums are computed in float32 and rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .elements import ELEMENTS, Array, unpacked
from .errors import CoreMLError


def affine_dequantize(quantized_data: Array, zero_point: Array, scale: Array, axis: int) -> Array:
    """scale (data - zero_point); scale and zero_point are numbers, or vectors along ``axis``."""
    return _affine(quantized_data, zero_point, scale, axis, "constexpr_affine_dequantize")


def dequantize(input: Array, scale: Array, zero_point: Array | None = None, axis: int | None = None) -> Array:
    """scale (input - zero_point), with numbers or with vectors along ``axis``."""
    return _affine(input, zero_point, scale, axis, "dequantize")


def quantize(
    input: Array, scale: Array, output_dtype: str, zero_point: Array | None = None, axis: int | None = None
) -> Array:
    """round(input / scale) + zero_point, halves to even, cut to the range of int8 or uint8."""
    if output_dtype not in ("int8", "uint8"):
        raise CoreMLError(f"quantize: output_dtype is {output_dtype!r}. It must be int8 or uint8.")
    limits = np.iinfo(output_dtype)
    scaled = np.rint(input.astype(np.float32) / _along(scale, input, axis, "quantize").astype(np.float32))
    if zero_point is not None:
        scaled = scaled + _along(zero_point, input, axis, "quantize").astype(np.float32)
    return np.clip(scaled, limits.min, limits.max).astype(output_dtype)


def _affine(data: Array, zero_point: Array | None, scale: Array, axis: int | None, who: str) -> Array:
    wide = data.astype(np.float32)
    if zero_point is not None:
        wide -= _along(zero_point, data, axis, who).astype(np.float32)
    wide *= _along(scale, data, axis, who).astype(np.float32)
    return wide.astype(scale.dtype, copy=False)


def _along(value: Array, data: Array, axis: int | None, who: str) -> Array:
    """A number, or a vector in the place of an axis."""
    if value.ndim == 0:
        return value
    if value.ndim != 1 or axis is None or not -data.ndim <= axis < data.ndim or value.size not in (1, data.shape[axis]):
        raise CoreMLError(
            f"{who}: scale or zero point has shape {value.shape}, which does not fit axis {axis} of {data.shape}."
        )
    shape = [1] * data.ndim
    shape[axis] = value.size
    return value.reshape(shape)


def cast(source_val: Array, output_dtype: str) -> Array:
    """Numbers of another type, such as "fp32"."""
    if output_dtype not in ELEMENTS or ELEMENTS[output_dtype].stored != ELEMENTS[output_dtype].numpy:
        raise CoreMLError(f"constexpr_cast: there is no element type {output_dtype!r}.")
    return source_val.astype(ELEMENTS[output_dtype].numpy)


def blockwise_shift_scale(data: Array, scale: Array, offset: Array | None = None) -> Array:
    """scale (data - offset), where each number of scale and offset is that of a block of the data."""
    who = "constexpr_blockwise_shift_scale"
    if offset is not None and offset.shape != scale.shape:
        raise CoreMLError(f"{who}: offset has shape {offset.shape}, but scale has {scale.shape}.")
    _blocks(data.shape, scale.shape, who)
    wide = data.astype(np.float32)
    # Each axis becomes (blocks, size of a block), so that scale and offset broadcast without copies.
    split = [part for n, m in zip(data.shape, scale.shape, strict=True) for part in (m, n // m if m else 0)]
    spread = [part for m in scale.shape for part in (m, 1)]
    wide = wide.reshape(split)
    if offset is not None:
        wide -= offset.astype(np.float32).reshape(spread)
    wide *= scale.astype(np.float32).reshape(spread)
    return wide.reshape(data.shape).astype(scale.dtype, copy=False)


def _blocks(shape: tuple[int, ...], groups: tuple[int, ...], who: str) -> None:
    if len(shape) != len(groups) or any(m < 1 or n % m for n, m in zip(shape, groups, strict=True)):
        raise CoreMLError(f"{who}: data of shape {shape} has no whole number of blocks in each of {groups}.")


def lut_to_dense(indices: Array, lut: Array, vector_axis: int | None = None) -> Array:
    """Entries of tables (iOS 18): ``lut`` has shape (groups ..., entries, V), with groups on every axis of the indices.

    With V > 1 an entry is a vector, and ``vector_axis`` becomes V times as long.
    """
    who = "constexpr_lut_to_dense"
    if lut.ndim != indices.ndim + 2:
        raise CoreMLError(
            f"{who}: the table has shape {lut.shape}, which does not fit indices of shape {indices.shape}."
        )
    groups, (entries, length) = lut.shape[:-2], lut.shape[-2:]
    _blocks(indices.shape, groups, who)
    if length < 1 or (length > 1 and (vector_axis is None or not -indices.ndim <= vector_axis < indices.ndim)):
        raise CoreMLError(f"{who}: vectors of length {length} need a vector axis of the indices, not {vector_axis}.")
    if indices.size and (indices.max() >= entries or indices.min() < 0):
        raise CoreMLError(f"{who}: an index is {indices.max()}, but the table has {entries} entries.")
    table = np.zeros(indices.shape, np.int64)
    for axis, (n, m) in enumerate(zip(indices.shape, groups, strict=True)):
        place = np.arange(n) * m // max(n, 1)
        table = table * m + place.reshape([-1 if a == axis else 1 for a in range(indices.ndim)])
    entry_values = lut.reshape(-1, entries, length)[table, indices.astype(np.int64)]
    if length == 1 or vector_axis is None:
        return entry_values[..., 0]
    axis = vector_axis % indices.ndim
    moved = np.moveaxis(entry_values, -1, axis + 1)
    shape = list(indices.shape)
    shape[axis] *= length
    return np.ascontiguousarray(moved).reshape(shape)


def packed_lut_to_dense(indices: Array, lut: Array, shape: tuple[int, ...]) -> Array:
    """Entries of one table (iOS 16): the indices are bits, lowest first, as many as the size of the table needs."""
    who = "constexpr_lut_to_dense"
    bits = lut.size.bit_length() - 1
    if lut.ndim != 1 or lut.size != 2**bits or bits not in (1, 2, 3, 4, 6, 8):
        raise CoreMLError(f"{who}: a table has 2, 4, 8, 16, 64 or 256 entries, got shape {lut.shape}.")
    count = math.prod(shape)
    if indices.ndim != 1 or indices.size != (count * bits + 7) // 8:
        raise CoreMLError(f"{who}: {indices.size} bytes of indices do not make {shape} with {bits} bits each.")
    places = indices if bits == 8 else unpacked(indices.view(np.uint8), bits, count)
    return lut[places].reshape(shape)


def sparse_to_dense(nonzero_data: Array, mask: Array) -> Array:
    """The values where the mask is 1, and 0 elsewhere."""
    return _spread(nonzero_data, mask.reshape(-1) != 0).reshape(mask.shape)


def packed_sparse_to_dense(nonzero_data: Array, mask: Array, shape: tuple[int, ...]) -> Array:
    """The values where the mask is 1, and 0 elsewhere; the mask is bits, lowest first (iOS 16)."""
    count = math.prod(shape)
    if mask.ndim != 1 or mask.size != (count + 7) // 8:
        raise CoreMLError(f"constexpr_sparse_to_dense: {mask.size} bytes of mask do not fit the shape {shape}.")
    return _spread(nonzero_data, unpacked(mask.view(np.uint8), 1, count) != 0).reshape(shape)


def _spread(values: Array, where: Array) -> Array:
    set_bits = int(np.count_nonzero(where))
    if values.ndim != 1 or values.size != set_bits:
        raise CoreMLError(
            f"constexpr_sparse_to_dense: the mask has {set_bits} ones, but there are {values.size} values."
        )
    dense = np.zeros(where.shape, values.dtype)
    dense[where] = values
    return dense


def lut_to_sparse(
    indices_mask: Array, indices_nonzero_data: Array, lut: Array, vector_axis: int | None = None
) -> tuple[Array, Array]:
    """The mask of the result, and its values where that is 1: entries of tables for sparse indices."""
    dense = lut_to_dense(sparse_to_dense(indices_nonzero_data, indices_mask), lut, vector_axis)
    mask = indices_mask
    if vector_axis is not None and lut.shape[-1] > 1:
        mask = np.repeat(mask, lut.shape[-1], vector_axis)
    return mask, dense[mask != 0]


def sparse_blockwise_shift_scale(
    data_mask: Array, nonzero_data: Array, scale: Array, offset: Array | None = None
) -> tuple[Array, Array]:
    """The mask, and scale (value - offset) where it is 1; blocks are those of the dense places."""
    dense = blockwise_shift_scale(sparse_to_dense(nonzero_data, data_mask), scale, offset)
    return data_mask, dense[data_mask != 0]


def decompressed(kind: str, inputs: Mapping[str, Any]) -> tuple[Array, ...]:
    """The outputs of a constexpr operation, for inputs by name: arrays, or None for what is left out."""
    given = {name: value for name, value in inputs.items() if value is not None}
    for name in ("axis", "vector_axis"):
        if name in given:
            given[name] = int(np.asarray(given[name]).reshape(()))
    if "output_dtype" in given:
        given["output_dtype"] = str(np.asarray(given["output_dtype"]).reshape(()))
    if "shape" in given:
        given["shape"] = tuple(int(n) for n in np.asarray(given["shape"]).reshape(-1))
    function = _FUNCTIONS[f"packed {kind}" if "shape" in given else kind]
    results = function(**given)
    return results if isinstance(results, tuple) else (results,)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "constexpr_affine_dequantize": affine_dequantize,
    "constexpr_blockwise_shift_scale": blockwise_shift_scale,
    "constexpr_cast": cast,
    "constexpr_lut_to_dense": lut_to_dense,
    "packed constexpr_lut_to_dense": packed_lut_to_dense,
    "constexpr_lut_to_sparse": lut_to_sparse,
    "constexpr_sparse_blockwise_shift_scale": sparse_blockwise_shift_scale,
    "constexpr_sparse_to_dense": sparse_to_dense,
    "packed constexpr_sparse_to_dense": packed_sparse_to_dense,
}
