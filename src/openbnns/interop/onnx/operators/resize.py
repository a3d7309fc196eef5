"""Resized signals and images."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ....graph import functions as F
from ....graph import operations
from ....graph.sizes import Size, are_at_least, is_same
from ....graph.tensor import Array
from ...converted.control import read_numbers
from ...converted.tensors import ForeignTensor, Misfit
from .._call import Call
from .._numpy import limited
from .._operator import operator
from ..tensor import by_numpy, check_memory, numbers_of
from .elementwise import along
from .shapes import PARTS


@dataclass(frozen=True)
class _Axis:
    """One axis that is sampled anew: how long it is and becomes, and how much larger ONNX calls that.

    ``scale`` is None if it is what the two lengths say.
    """

    place: int
    old: Any
    new: Any
    scale: float | None
    start: float = 0.0  # of the part that is cut out, for tf_crop_and_resize
    end: float = 1.0

    @property
    def unchanged(self) -> bool:
        return is_same(self.old, self.new) and self.scale in (None, 1) and (self.start, self.end) == (0.0, 1.0)

    @property
    def is_multiple(self) -> bool:
        """True if every entry is repeated so many times."""
        times = self.new // self.old
        return isinstance(times, int) and is_same(self.new, self.old * times) and self.scale in (None, times)

    @property
    def by_lengths(self) -> bool:
        """True if positions follow from the lengths alone."""
        if self.scale is None or self.is_multiple:
            return True
        old, new = int(self.old), int(self.new)
        return self.scale == new / old or new == old * self.scale

    def settled(self) -> _Axis:
        """The same with numbers in place of free sizes."""
        old, new = int(self.old), int(self.new)
        return replace(self, old=old, new=new, scale=new / old if self.scale is None else self.scale)


@operator(PARTS, "Upsample", settings=(1,), ignores=("cubic_coeff_a",))
def upsample(call: Call, x: ForeignTensor, scales: ForeignTensor | None = None) -> ForeignTensor:
    """The form of old versions, in which the first version of Resize is as well."""
    if scales is None:
        factors: Any = call.attribute("scales")
        scales = ForeignTensor(np.array(factors if isinstance(factors, tuple) else (), np.float32))
    resized: ForeignTensor = resize(call, x, None, scales)
    return resized


@operator(
    PARTS, "Resize", shaping=(3,), settings=(1, 2), ignores=(
        "extrapolation_value", "cubic_coeff_a", "exclude_outside", "nearest_mode", "antialias", "keep_aspect_ratio_policy",
        "coordinate_transformation_mode",
    ),
)  # fmt: skip
def resize(
    call: Call,
    x: ForeignTensor,
    roi: ForeignTensor | None = None,
    scales: ForeignTensor | None = None,
    sizes: ForeignTensor | None = None,
) -> ForeignTensor:
    if call.op == "Resize" and call.opset < 11 and scales is None:
        roi, scales = None, roi
    mode = call.text("mode", "nearest")
    mode = "linear" if mode == "bilinear" else mode
    if mode not in ("nearest", "linear", "cubic"):
        raise Misfit(f"mode={mode!r} has no counterpart here")
    axes = _axes(call, x, roi, scales, sizes)
    shape: list[Any] = list(x.shape)
    for axis in axes:
        shape[axis.place] = axis.new
    check_memory(tuple(shape))
    native = _native(call, x, mode, axes, shape)
    if native is not None:
        return ForeignTensor(native)
    value = x.numbers
    for axis in (one.settled() for one in axes):
        place = axis.place
        if mode == "nearest" and _coordinates(call) != "tf_crop_and_resize":
            value = F.index_select(value, place, _nearest(call, axis))
        else:
            weights, outside = _weights(call, axis, mode)
            value = along(value, place, weights)
            if outside.any():
                number = call.number("extrapolation_value", 0.0)
                kept = (~outside).reshape([-1] + [1] * (value.ndim - 1 - place))
                value = F.where(kept, value, number)
    return ForeignTensor(value)


def _coordinates(call: Call) -> str:
    return call.text("coordinate_transformation_mode", "half_pixel" if call.opset > 10 else "asymmetric")


def _rounding(call: Call, axes: Sequence[_Axis]) -> str:
    """How positions become entries; the first version of Resize rounds up where fewer are left."""
    smaller = any(axis.scale is not None and axis.scale < 1 for axis in axes)
    return call.text("nearest_mode", "round_prefer_floor" if call.opset > 10 else "ceil" if smaller else "floor")


def _axes(
    call: Call, x: ForeignTensor, roi: ForeignTensor | None, scales: ForeignTensor | None, sizes: ForeignTensor | None
) -> list[_Axis]:
    chosen = [axis % max(1, x.rank) for axis in call.integers("axes", tuple(range(x.rank)))]
    factors: Any = _numbers(call, scales, "scales")
    wanted = None if sizes is None else numbers_of(sizes, "sizes")
    factors = None if factors is not None and not factors.size else factors
    wanted = None if wanted is not None and not wanted else wanted
    if (factors is None) == (wanted is None):
        raise Misfit("either scales or sizes must be given")
    if len(factors if wanted is None else wanted) != len(chosen):
        raise Misfit(f"scales or sizes are not one for each of the axes {chosen}")
    lengths = [x.shape[axis] for axis in chosen]
    ratios: list[float | None]
    if wanted is None:
        ratios = [float(f) for f in factors]
        if not all(f is not None and math.isfinite(f) and 0 < f < 2**31 for f in ratios):
            raise Misfit(f"scales {ratios} are not possible")
        wanted = [_times(n, f) for n, f in zip(lengths, ratios, strict=True)]
    else:
        wanted = [
            call.freed[m] if isinstance(n, Size) and isinstance(m, int) and m in call.freed and place == 0 else m
            for place, n, m in zip(chosen, lengths, wanted, strict=True)
        ]
        wanted, ratios = _kept_aspect(call, lengths, wanted)
    if not are_at_least(1, wanted):
        raise Misfit(f"nothing is left of {x.shape}")
    bounds = _bounds(call, roi, len(chosen))
    axes = [
        _Axis(place, n, m, f, *ends)
        for place, n, m, f, ends in zip(chosen, lengths, wanted, ratios, bounds, strict=True)
    ]
    return [axis for axis in axes if not axis.unchanged]


def _numbers(call: Call, x: ForeignTensor | None, what: str) -> Any:
    """Factors or bounds; those that a run computes are read as whole numbers, by their bits, and decide which recording runs."""
    if x is None or x.constant:
        return None if x is None else np.asarray(x.held, np.float32).ravel()
    (bits,) = by_numpy(call, [x], lambda call, x: np.asarray(x, np.float32).view(np.int32).astype(np.int64))
    one = int(np.float32(1).view(np.int32))
    return np.array([int(n) for n in read_numbers(bits, what, one)], np.int32).view(np.float32)


def _times(n: Any, factor: Any) -> Any:
    """A length times a factor, rounded down; for whole factors, and parts such as a half, it stays free."""
    if isinstance(n, Size) and factor == int(factor):
        return n * int(factor)
    if isinstance(n, Size) and 1 / factor == int(1 / factor):
        return n // int(1 / factor)
    return int(np.float32(int(n)) * np.float32(factor))  # rounded as in onnxruntime: 0.7 of 10 would be 6 otherwise


def _kept_aspect(call: Call, lengths: list[Any], wanted: list[Any]) -> tuple[list[Any], list[float | None]]:
    policy = call.text("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return wanted, [None] * len(wanted)
    if policy not in ("not_larger", "not_smaller"):
        raise Misfit(f"keep_aspect_ratio_policy={policy!r} has no counterpart here")
    ratios = [int(m) / int(n) for n, m in zip(lengths, wanted, strict=True)]
    ratio = min(ratios) if policy == "not_larger" else max(ratios)
    return [int(int(n) * ratio + 0.5) for n in lengths], [ratio] * len(ratios)


def _bounds(call: Call, roi: ForeignTensor | None, count: int) -> list[tuple[float, float]]:
    if _coordinates(call) != "tf_crop_and_resize":
        return [(0.0, 1.0)] * count
    given = _numbers(call, roi, "roi")
    if given is None or given.size != 2 * count:
        raise Misfit("roi must hold the start and the end of each axis")
    flat = [float(n) for n in given]
    return list(zip(flat[:count], flat[count:], strict=True))


def _native(call: Call, x: ForeignTensor, mode: str, axes: list[_Axis], shape: list[Any]) -> Any:
    """A resize that BNNS has: of images and signals, with positions that follow from the sizes alone; else None."""
    if not axes or x.rank not in (3, 4) or min(axis.place for axis in axes) < 2 or call.integer("antialias", 0):
        return None
    coordinates = _coordinates(call)
    if mode == "nearest":
        rounding = _rounding(call, axes)
        centred = (
            coordinates == "half_pixel" and rounding.startswith("round") and all(axis.is_multiple for axis in axes)
        )
        if not centred and (coordinates != "asymmetric" or rounding != "floor"):
            return None
        aligned = False
    elif mode == "linear" and coordinates in ("half_pixel", "pytorch_half_pixel", "align_corners"):
        aligned = coordinates == "align_corners"
        if coordinates == "pytorch_half_pixel" and any(axis.new == 1 for axis in axes):
            return None
    else:
        return None
    if not aligned and not all(axis.by_lengths for axis in axes):
        return None
    value = x.numbers
    return value.graph.append(operations.Resize(value, shape, mode == "linear", aligned))


def _positions(call: Call, axis: _Axis, kind: type = np.float64) -> Array:
    """The positions of the new entries among the old ones.

    Those that are rounded to entries are float32, as in other programs: 3 / 0.6 would be less than 5 otherwise.
    """
    numbers: Array = np.arange(axis.new, dtype=kind)
    assert axis.scale is not None  # of an axis that is settled
    n, m, scale = int(axis.old), int(axis.new), kind(axis.scale)
    mode = _coordinates(call)
    if mode == "half_pixel":
        return np.asarray((numbers + 0.5) / scale - 0.5)
    if mode == "pytorch_half_pixel":
        return np.asarray((numbers + 0.5) / scale - 0.5) if m > 1 else np.zeros(m)
    if mode == "half_pixel_symmetric":
        centre = n / 2 * (1 - m / (scale * n))
        return np.asarray(centre + (numbers + 0.5) / scale - 0.5)
    if mode == "align_corners":
        return numbers * (n - 1) / (m - 1) if m > 1 else np.zeros(m)
    if mode == "asymmetric":
        return np.asarray(numbers / scale)
    if mode == "tf_half_pixel_for_nn":  # of versions 11 and 12
        return np.asarray((numbers + 0.5) / scale)
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
    name = _rounding(call, [axis])
    if name not in _ROUNDING:
        raise Misfit(f"nearest_mode={name!r} has no counterpart here")
    places: Array = _ROUNDING[name](_positions(call, axis, np.float32)).astype(np.int64)
    return places.clip(0, axis.old - 1)


def _weights(call: Call, axis: _Axis, mode: str) -> tuple[Array, Array]:
    """The weight of every old entry in every new one, (new, old); and which new ones lie outside."""
    n, m = axis.old, axis.new
    limited((m, n))
    positions = _positions(call, axis, np.float32 if mode == "nearest" else np.float64)
    outside = np.zeros(m, np.bool_)
    if _coordinates(call) == "tf_crop_and_resize":
        outside = (positions < 0) | (positions > n - 1)
    matrix = np.zeros((m, n))
    if mode == "nearest":
        places = _ROUNDING[_rounding(call, [axis])](positions).astype(np.int64).clip(0, n - 1)
        matrix[np.arange(m), places] = 1
        return matrix.astype(np.float32), outside
    assert axis.scale is not None
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
