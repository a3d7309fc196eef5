"""Along axes: reductions, positions, sums, products."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....graph.sizes import Size
from ....graph.tensor import Array
from ...converted.tensors import Misfit
from .._call import Call
from ._table import TABLE, Body, limited, register
from .shapes import listed


def axes_of(call: Call, rank: int, axes: list[int] | None) -> tuple[int, ...] | None:
    """The axes that a reduction is over; none of them means that it does nothing."""
    given = call.integers("axes", ()) if axes is None else tuple(axes)
    if not given:
        return () if call.integer("noop_with_empty_axes", 0) else None
    return tuple(sorted(_one_axis(axis, rank) for axis in given))


def _one_axis(axis: int, rank: int) -> int:
    if not -rank <= axis < rank:
        raise Misfit(f"axis {axis} is not one of {rank}")
    return axis % rank


def _reduction(function: Any) -> Body:
    def body(call: Call, x: Array, axes: Array | None = None) -> Any:
        chosen = axes_of(call, x.ndim, listed(axes))
        call.ignored("noop_with_empty_axes")
        if chosen == () and x.ndim and call.op in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"):
            return x
        result = function(x, axis=chosen, keepdims=bool(call.integer("keepdims", 1)))
        return result if isinstance(result, Size) else np.asarray(result).astype(x.dtype)

    return body


def _extreme(function: Any, end: int) -> Any:
    """The largest or smallest number; of none, the first or last that there is."""

    def reduce(x: Any, **options: Any) -> Any:
        if x.size or x.dtype == object:
            return function(x, **options)
        whole = np.iinfo(x.dtype) if x.dtype.kind in "iu" else None
        ends = (whole.min, whole.max) if whole else (False, True) if x.dtype == np.bool_ else (-np.inf, np.inf)
        return function(x, initial=ends[end], **options)

    return reduce


_REDUCTIONS: dict[str, Any] = {
    "ReduceSum": np.sum, "ReduceMean": np.mean, "ReduceMax": _extreme(np.max, 0), "ReduceMin": _extreme(np.min, 1),
    "ReduceProd": np.prod,
    "ReduceL1": lambda x, **o: np.sum(np.abs(x), **o), "ReduceL2": lambda x, **o: np.sqrt(np.sum(np.square(x), **o)),
    "ReduceSumSquare": lambda x, **o: np.sum(np.square(x), **o), "ReduceLogSum": lambda x, **o: np.log(np.sum(x, **o)),
    "ReduceLogSumExp": lambda x, **o: np.log(np.sum(np.exp(x), **o)),
}  # fmt: skip
for _name, _function in _REDUCTIONS.items():
    TABLE[_name] = _reduction(_function)


@register("ArgMax", "ArgMin")
def _position(call: Call, x: Array) -> Any:
    axis, find = call.integer("axis", 0), np.argmax if call.op == "ArgMax" else np.argmin
    if call.integer("select_last_index", 0):
        places = x.shape[axis] - 1 - find(np.flip(x, axis), axis)
    else:
        places = find(x, axis)
    return np.expand_dims(places, axis) if call.integer("keepdims", 1) else places


@register("Hardmax")
def _hardmax(call: Call, x: Array) -> Any:
    axis = call.integer("axis", -1 if call.opset >= 13 else 1)
    if call.opset < 13:  # over all axes from this one on
        rows = x.reshape(int(np.prod(x.shape[: axis % x.ndim])), -1)
        return (np.arange(rows.shape[1]) == np.argmax(rows, 1)[:, None]).astype(x.dtype).reshape(x.shape)
    result = np.zeros_like(x)
    np.put_along_axis(result, np.expand_dims(np.argmax(x, axis), axis), 1, axis)
    return result


@register("CumSum")
def _cumulated(call: Call, x: Array, axis: Array) -> Any:
    place = int(axis.item())
    turned = np.flip(x, place) if call.integer("reverse", 0) else x
    total = np.cumsum(turned, place, dtype=x.dtype)
    if call.integer("exclusive", 0):
        total = total - turned
    return np.flip(total, place) if call.integer("reverse", 0) else total


_WINDOWS = {
    "HannWindow": (0.5, 0.5, 0.0),
    "HammingWindow": (25 / 46, 21 / 46, 0.0),
    "BlackmanWindow": (0.42, 0.5, 0.08),
}


@register(*_WINDOWS)
def _window(call: Call, size: Array) -> Any:
    """a - b cos(t) + c cos(2 t) for t around a circle."""
    call.ignored("output_datatype")
    (count,) = limited([int(size.item())])
    turn = 2 * np.pi * np.arange(count) / max(1, count if call.integer("periodic", 1) else count - 1)
    a, b, c = _WINDOWS[call.op]
    return (a - b * np.cos(turn) + c * np.cos(2 * turn)).astype(np.float32)


@register("MelWeightMatrix")
def _mel_weights(call: Call, bands: Array, length: Array, rate: Array, low: Array, high: Array) -> Any:
    """Triangles over the bins of a Fourier transform, whose corners are evenly spaced in mel."""
    call.ignored("output_datatype")
    count, bins = int(bands.item()), int(length.item()) // 2 + 1
    limited((bins, count))
    ends = 2595 * np.log10(1 + np.array([low.item(), high.item()], np.float64) / 700)
    mels = ends[0] + np.arange(count + 2) * ((ends[1] - ends[0]) / (count + 2))
    corners = ((length.item() + 1) * (700 * (10 ** (mels / 2595) - 1)) / rate.item()).astype(np.int64)
    result = np.zeros((bins, count), np.float32)
    for band, (left, middle, right) in enumerate(zip(corners, corners[1:], corners[2:], strict=False)):
        if middle == left:
            result[middle, band] = 1
        else:
            result[left : middle + 1, band] = np.arange(middle - left + 1) / (middle - left)
        if right > middle:
            result[middle:right, band] = (right - np.arange(middle, right)) / (right - middle)
    return result


@register("MatMul")
def _matmul(call: Call, a: Array, b: Array) -> Any:
    limited(np.broadcast_shapes(a.shape[:-2], b.shape[:-2]) + a.shape[-2:-1] + b.shape[-1:])
    return np.matmul(a, b)


# Where maxima are: here in their plane, in ONNX in the whole tensor.


@register("MaxPool")
def _whole_places(call: Call, places: Array, shape: Array) -> Any:
    plane = int(np.prod(shape[2:]))
    numbers = np.arange(math.prod(places.shape[:2])).reshape(places.shape[:2])
    offsets = numbers[(...,) + (None,) * (places.ndim - 2)] * plane
    if call.integer("storage_order", 0) and len(shape) == 4:
        height, width = int(shape[2]), int(shape[3])
        places = places % width * height + places // width
    return places + offsets


@register("MaxUnpool")
def _plane_places(call: Call, indices: Array, sizes: Array) -> Any:
    own, larger = np.split(sizes, 2)
    places = indices % int(np.prod(own))
    if len(own) == 1:
        return places
    return places // own[1] * larger[1] + places % own[1]
