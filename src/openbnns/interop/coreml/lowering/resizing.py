"""Resized images."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....graph import functions as F
from ...converted.tensors import ForeignTensor, Misfit, sizes_array
from ...onnx.operators.elementwise import along
from .table import Call, operation, sizes_of, whole


def _scaled(n: Any, factor: float) -> Any:
    return n * int(factor) if factor == int(factor) else math.floor(int(n) * factor + 1e-6)


@operation("upsample_nearest_neighbor")
def upsample_nearest_neighbor(
    call: Call, x: ForeignTensor, scale_factor_height: float, scale_factor_width: float
) -> Any:
    return _by_lengths(call, x, [scale_factor_height, scale_factor_width], "nearest", "asymmetric")


def _by_lengths(call: Call, x: ForeignTensor, factors: list[float], mode: str, coordinates: str) -> Any:
    """Core ML computes positions from the lengths that a factor leads to, not from the factor."""
    lengths = [_scaled(n, factor) for n, factor in zip(x.shape[-2:], factors, strict=True)]
    sizes = ForeignTensor(sizes_array([*x.shape[:-2], *lengths]))
    options = {"mode": mode, "coordinate_transformation_mode": coordinates, "nearest_mode": "floor"}
    return call.onnx("Resize", x, None, None, sizes, **options)


@operation("upsample_bilinear")
def upsample_bilinear(
    call: Call, x: ForeignTensor, scale_factor_height: float, scale_factor_width: float, align_corners: bool,
    half_pixel_centers: bool | None,
) -> Any:  # fmt: skip
    factors = [scale_factor_height, scale_factor_width]
    centred = half_pixel_centers is None or half_pixel_centers
    return _by_lengths(
        call, x, factors, "linear", "align_corners" if align_corners else "half_pixel" if centred else "asymmetric"
    )


@operation("resize_nearest_neighbor")
def resize_nearest_neighbor(call: Call, x: ForeignTensor, target_size_height: int, target_size_width: int) -> Any:
    return _resized(call, x, [target_size_height, target_size_width], "DEFAULT", np.floor)


@operation("resize_bilinear")
def resize_bilinear(
    call: Call, x: ForeignTensor, target_size_height: int, target_size_width: int, sampling_mode: str
) -> Any:
    return _resized(call, x, [target_size_height, target_size_width], sampling_mode)


@operation("resize")
def resize(
    call: Call, x: ForeignTensor, shape: ForeignTensor, resized_dims: int, interpolation_mode: str, sampling_mode: str
) -> Any:
    sizes = [int(n) for n in sizes_of(shape, "shape")]
    sizes = sizes[len(sizes) - resized_dims :]
    own = x.shape[x.rank - resized_dims :]
    sizes = [int(n) if m == 0 else m for n, m in zip(own, sizes, strict=True)]
    return _resized(call, x, sizes, sampling_mode, np.rint if interpolation_mode == "NEAREST_NEIGHBOR" else None)


def positions(n: float, m: int, mode: str) -> Any:
    """Where ``m`` samples of an axis of ``n`` entries lie, for a sampling mode of Core ML; some may lie outside."""
    numbers = np.arange(m, dtype=np.float64)
    if mode == "UNALIGN_CORNERS":
        places = (numbers + 0.5) * (n / m) - 0.5
    elif mode == "DEFAULT":
        places = numbers * ((n - n / m) / (m - 1) if m > 1 else 0.0)
    elif mode == "OFFSET_CORNERS":
        step = (n - 1) / m
        places = 0.5 * step + numbers * step
    elif m > 1:
        places = numbers * ((n - 1) / (m - 1))
    else:
        places = np.full(m, 0.0 if mode == "STRICT_ALIGN_CORNERS" else (n - 1) / 2)
    return places


def _resized(call: Call, x: ForeignTensor, sizes: list[Any], mode: str, nearest: Any = None) -> Any:
    """The last axes resampled, linearly or to the nearest entry."""
    native = {
        "UNALIGN_CORNERS": "half_pixel",
        "ALIGN_CORNERS": "align_corners",
        "STRICT_ALIGN_CORNERS": "align_corners",
    }
    first = x.rank - len(sizes)
    if nearest is None and mode in native and x.rank == 4 and len(sizes) == 2 and all(m > 1 for m in sizes):
        wanted = whole([int(n) for n in (*x.shape[:first], *sizes)]) if _plain(x, sizes) else None
        if wanted is not None:
            return call.onnx(
                "Resize", x, None, None, wanted, mode="linear", coordinate_transformation_mode=native[mode]
            )
    value: Any = x.numbers
    for axis, m in enumerate(sizes, first):
        n, m = int(x.shape[axis]), int(m)
        if n == m and mode != "OFFSET_CORNERS":
            continue
        places = np.clip(positions(n, m, mode), 0, n - 1)
        if nearest is not None:
            value = F.index_select(value, axis, nearest(places + 1e-9).astype(np.int64))
            continue
        low = np.floor(places).astype(np.int64)
        part = places - low
        matrix = np.zeros((m, n), np.float32)
        np.add.at(matrix, (np.arange(m), low), 1 - part)
        np.add.at(matrix, (np.arange(m), np.minimum(low + 1, n - 1)), part)
        value = along(value, axis, matrix)
    return ForeignTensor(value)


def _plain(x: ForeignTensor, sizes: list[Any]) -> bool:
    return all(isinstance(n, int) for n in (*x.shape, *sizes))


_EDGES = {"constant": "zeros", "border": "border", "reflection": "reflection"}


@operation("resample")
def resample(
    call: Call, x: ForeignTensor, coordinates: ForeignTensor, sampling_mode: str, padding_mode: str, padding_value: float,
    coordinates_mode: str, align_corners: bool,
) -> Any:  # fmt: skip
    outside = padding_mode == "constant" and padding_value != 0
    if outside or padding_mode not in _EDGES or coordinates_mode != "normalized_minus_one_to_one":
        raise Misfit("only places from -1 to 1 are looked up, with zeros outside")
    edges = _EDGES[padding_mode]
    return call.onnx(
        "GridSample", x, coordinates, mode=sampling_mode, padding_mode=edges, align_corners=int(align_corners)
    )
