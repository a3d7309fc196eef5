"""Signals and images in other sizes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import functional as F
from ... import memory_limit, operations
from ..._value import Array
from ...converted.sizes import Size
from ...converted.tensors import Misfit
from .. import _numpy
from .._call import Call
from .._tensor import Tensor, constant_of, numbers_of
from ._registry import operator
from .elementwise import along
from .shapes import PARTS


@dataclass(frozen=True)
class _Axis:
    """One axis that is sampled anew: how long it is and becomes, and how much larger ONNX calls that."""

    place: int
    old: int
    new: int
    scale: float
    start: float = 0.0  # of the part that is cut out, for tf_crop_and_resize
    end: float = 1.0


@operator(PARTS, "Resize")
def resize(
    call: Call, x: Tensor, roi: Tensor | None = None, scales: Tensor | None = None, sizes: Tensor | None = None
) -> Tensor:
    mode = call.text("mode", "nearest")
    if mode not in ("nearest", "linear", "cubic"):
        raise Misfit(f"mode={mode!r} has no counterpart here")
    axes = _axes(call, x, roi, scales, sizes)
    shape: list[Any] = list(x.shape)
    for axis in axes:
        shape[axis.place] = axis.new
    count = math.prod(n for n in shape if not isinstance(n, Size))
    memory_limit.check(4 * count, f"a tensor of shape {tuple(shape)}", Misfit)
    changed = [axis for axis in axes if axis.new != axis.old or axis.scale != 1 or (axis.start, axis.end) != (0.0, 1.0)]
    native = _native(call, x, mode, changed)
    if native is not None:
        return Tensor(native, shape)
    value = x.numbers
    for axis in changed:
        place = x.axis(axis.place)
        if mode == "nearest" and _coordinates(call) != "tf_crop_and_resize":
            value = F.index_select(value, place, _nearest(call, axis))
        else:
            weights, outside = _weights(call, axis, mode)
            value = along(value, place, weights)
            if outside.any():
                number = call.number("extrapolation_value", 0.0)
                kept = (~outside).reshape([-1] + [1] * (value.ndim - 1 - place))
                value = F.where(kept, value, number)
    return Tensor(value, shape)


def _coordinates(call: Call) -> str:
    return call.text("coordinate_transformation_mode", "half_pixel")


def _axes(call: Call, x: Tensor, roi: Tensor | None, scales: Tensor | None, sizes: Tensor | None) -> list[_Axis]:
    chosen = [axis % max(1, x.rank) for axis in call.integers("axes", tuple(range(x.rank)))]
    factors: Any = None if scales is None else constant_of(scales, "scales").ravel()
    wanted = None if sizes is None else numbers_of(sizes, "sizes")
    factors = None if factors is not None and not factors.size else factors
    wanted = None if wanted is not None and not wanted else wanted
    if (factors is None) == (wanted is None):
        raise Misfit("either scales or sizes must be given")
    if len(factors if wanted is None else wanted) != len(chosen):
        raise Misfit(f"scales or sizes are not one for each of the axes {chosen}")
    lengths = [x.shape[axis] for axis in chosen]
    if wanted is None:
        ratios = [float(f) for f in factors]
        if not all(math.isfinite(f) and 0 < f < 2**31 for f in ratios):
            raise Misfit(f"scales {ratios} are not possible")
        wanted = [n if isinstance(n, Size) else math.floor(n * f + 1e-9) for n, f in zip(lengths, ratios, strict=True)]
    else:
        wanted, ratios = _kept_aspect(call, lengths, wanted)
    bounds = _bounds(call, roi, len(chosen))
    found = []
    for place, n, m, f, (start, end) in zip(chosen, lengths, wanted, ratios, bounds, strict=True):
        if isinstance(n, Size) or isinstance(m, Size):
            if (m != n and m != call.batch) or (isinstance(f, float) and f != 1 and m != call.batch):
                raise Misfit("a batch cannot be sampled anew")
            continue
        if m < 1:
            raise Misfit(f"nothing is left of {x.shape}")
        found.append(_Axis(place, n, m, f, start, end))
    return found


def _kept_aspect(call: Call, lengths: list[Any], wanted: list[Any]) -> tuple[list[Any], list[float]]:
    policy = call.text("keep_aspect_ratio_policy", "stretch")
    ratios = [
        1.0 if isinstance(n, Size) or isinstance(m, Size) else m / n for n, m in zip(lengths, wanted, strict=True)
    ]
    if policy == "stretch":
        return wanted, ratios
    if policy not in ("not_larger", "not_smaller"):
        raise Misfit(f"keep_aspect_ratio_policy={policy!r} has no counterpart here")
    ratio = min(ratios) if policy == "not_larger" else max(ratios)
    return [n if isinstance(n, Size) else int(n * ratio + 0.5) for n in lengths], [ratio] * len(ratios)


def _bounds(call: Call, roi: Tensor | None, count: int) -> list[tuple[float, float]]:
    if _coordinates(call) != "tf_crop_and_resize":
        return [(0.0, 1.0)] * count
    given = constant_of(roi, "roi")
    if given is None or given.size != 2 * count:
        raise Misfit("roi must hold the start and the end of each axis")
    flat = [float(n) for n in given.ravel()]
    return list(zip(flat[:count], flat[count:], strict=True))


def _native(call: Call, x: Tensor, mode: str, axes: list[_Axis]) -> Any:
    """What BNNS has itself: images and signals, with positions that follow from the sizes alone; None for all else."""
    value = x.batched
    behind = [axis.place for axis in axes]
    if (
        not axes
        or x.batch != 0
        or x.rank not in (3, 4)
        or min(behind) < 2
        or not value.rows
        or call.integer("antialias", 0)
    ):
        return None
    if any(axis.scale != axis.new / axis.old and axis.new != axis.old * axis.scale for axis in axes):
        return None
    coordinates = _coordinates(call)
    if mode == "nearest":
        if coordinates != "asymmetric" or call.text("nearest_mode", "round_prefer_floor") != "floor":
            return None
        aligned = False
    elif mode == "linear" and coordinates in ("half_pixel", "pytorch_half_pixel", "align_corners"):
        aligned = coordinates == "align_corners"
        if coordinates == "pytorch_half_pixel" and any(axis.new == 1 for axis in axes):
            return None
    else:
        return None
    image = list(value.sample)
    for axis in axes:
        image[axis.place - 1] = axis.new
    return value.graph.append(operations.Resize(value, tuple(image), mode == "linear", aligned))


def _positions(call: Call, axis: _Axis) -> Array:
    """Where the new entries lie among the old ones."""
    numbers, n, m, scale = np.arange(axis.new, dtype=np.float64), axis.old, axis.new, axis.scale
    mode = _coordinates(call)
    if mode == "half_pixel":
        return (numbers + 0.5) / scale - 0.5
    if mode == "pytorch_half_pixel":
        return (numbers + 0.5) / scale - 0.5 if m > 1 else np.zeros(m)
    if mode == "half_pixel_symmetric":
        centre = n / 2 * (1 - m / (scale * n))
        return centre + (numbers + 0.5) / scale - 0.5
    if mode == "align_corners":
        return numbers * ((n - 1) / (scale * n - 1)) if m > 1 else np.zeros(m)
    if mode == "asymmetric":
        return numbers / scale
    if mode == "tf_crop_and_resize":
        if m > 1:
            return axis.start * (n - 1) + numbers * (axis.end - axis.start) * (n - 1) / (m - 1)
        return np.full(m, 0.5 * (axis.start + axis.end) * (n - 1))
    raise Misfit(f"coordinate_transformation_mode={mode!r} has no counterpart here")


_ROUNDING: dict[str, Callable[[Any], Any]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5), "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor, "ceil": np.ceil,
}  # fmt: skip


def _nearest(call: Call, axis: _Axis) -> Array:
    name = call.text("nearest_mode", "round_prefer_floor")
    if name not in _ROUNDING:
        raise Misfit(f"nearest_mode={name!r} has no counterpart here")
    places: Array = _ROUNDING[name](_positions(call, axis)).astype(np.int64)
    return places.clip(0, axis.old - 1)


def _weights(call: Call, axis: _Axis, mode: str) -> tuple[Array, Array]:
    """How much every new entry takes of every old one, (new, old); and which new ones lie outside."""
    n, m = axis.old, axis.new
    _numpy.limited((m, n))
    positions = _positions(call, axis)
    outside = np.zeros(m, np.bool_)
    if _coordinates(call) == "tf_crop_and_resize":
        outside = (positions < 0) | (positions > n - 1)
    matrix = np.zeros((m, n))
    if mode == "nearest":
        places = _ROUNDING[call.text("nearest_mode", "round_prefer_floor")](positions).astype(np.int64).clip(0, n - 1)
        matrix[np.arange(m), places] = 1
        return matrix.astype(np.float32), outside
    wide = max(1.0, 1 / axis.scale) if call.integer("antialias", 0) else 1.0
    reach = math.ceil((2 if mode == "cubic" else 1) * wide)
    low = np.floor(positions).astype(np.int64)
    for offset in range(-reach, reach + 1):
        places = low + offset
        distance = np.abs(places - positions) / wide
        part = _cubic(distance, call.number("cubic_coeff_a", -0.75)) if mode == "cubic" else np.maximum(0, 1 - distance)
        if call.integer("exclude_outside", 0):
            part = np.where((places < 0) | (places >= n), 0, part)
        np.add.at(matrix, (np.arange(m), places.clip(0, n - 1)), part)
    if call.integer("exclude_outside", 0) or wide > 1:
        matrix /= matrix.sum(1, keepdims=True)
    return matrix.astype(np.float32), outside


def _cubic(d: Array, a: float) -> Array:
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    result: Array = np.where(d <= 1, near, np.where(d < 2, far, 0))
    return result
