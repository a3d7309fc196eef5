"""Operations on arrays, between the recorded parts: results whose shapes depend on numbers, random numbers, lists."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....files import memory_limit
from ...converted.tensors import Misfit
from ..elements import ELEMENTS, Array
from .resizing import positions
from .table import Call, Handler

AT_ONCE: dict[str, Handler] = {}
"""By the name of the operation: functions of arrays that give an array, a list of arrays, or a tuple of outputs."""

MOST_ENTRIES = 2**20
"""Entries that a list may have."""


def at_once(*names: str) -> Callable[[Handler], Handler]:
    """A decorator that registers a function in the table."""

    def decorate(handler: Handler) -> Handler:
        for name in names:
            AT_ONCE[name] = handler
        return handler

    return decorate


# Parts whose places are numbers.


@at_once("non_zero")
def non_zero(call: Call, x: Array) -> Array:
    return np.argwhere(x).astype(np.int32)


@at_once("slice_update")
def slice_update(
    call: Call, x: Array, update: Array, begin: Array, end: Array, stride: Sequence[int] | None,
    begin_mask: Sequence[bool] | None, end_mask: Sequence[bool] | None, squeeze_mask: Sequence[bool] | None,
) -> Array:  # fmt: skip
    keys: list[Any] = []
    for axis in range(x.ndim):
        if squeeze_mask is not None and squeeze_mask[axis]:
            keys.append(int(begin[axis]))
            continue
        first = None if begin_mask is not None and begin_mask[axis] else int(begin[axis])
        last = None if end_mask is not None and end_mask[axis] else int(end[axis])
        keys.append(slice(first, last, 1 if stride is None else stride[axis]))
    updated: Array = x.copy()
    if updated[tuple(keys)].shape != update.shape:
        raise Misfit(f"an update of shape {update.shape} does not fit the part of shape {updated[tuple(keys)].shape}")
    updated[tuple(keys)] = update
    return updated


@at_once("reverse_sequence")
def reverse_sequence(call: Call, x: Array, lengths: Array, seq_axis: int, batch_axis: int) -> Array:
    moved = np.moveaxis(x.copy(), (batch_axis, seq_axis), (0, 1))
    turned = moved.copy()
    for sample, length in enumerate(lengths.ravel()):
        turned[sample, :length] = moved[sample, :length][::-1]
    return np.moveaxis(turned, (0, 1), (batch_axis, seq_axis))


_MODES: dict[str, Any] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "max": np.maximum, "min": np.minimum,
}  # fmt: skip


def _scattered(data: Array, places: tuple[Any, ...], updates: Array, mode: str) -> Array:
    result: Array = data.copy()
    if mode == "update":
        result[places] = updates
    elif mode == "div" and result.dtype.kind == "i":
        wide = result.astype(np.float64)
        np.divide.at(wide, places, updates)
        result = wide.astype(result.dtype)
    else:
        _MODES[mode].at(result, places, updates)
    return result


@at_once("scatter")
def scatter(
    call: Call, data: Array, indices: Array, updates: Array, axis: int, mode: str, validate_indices: bool
) -> Array:
    place = axis % data.ndim
    # Axes of the updates: those before the axis, those of the indices, and those behind.
    return _scattered(data, (*[slice(None)] * place, indices), updates, mode)


@at_once("scatter_along_axis")
def scatter_along_axis(
    call: Call, data: Array, indices: Array, updates: Array, axis: int, mode: str, validate_indices: bool
) -> Array:
    places: list[Any] = list(np.indices(indices.shape, sparse=True))
    places[axis % data.ndim] = indices
    return _scattered(data, tuple(places), updates, mode)


@at_once("scatter_nd")
def scatter_nd(call: Call, data: Array, indices: Array, updates: Array, mode: str, validate_indices: bool) -> Array:
    return _scattered(data, tuple(np.moveaxis(indices, -1, 0)), updates, mode)


# Images at points that are computed.


def _points(image: Array, rows: Array, columns: Array, outside: float | None) -> Array:
    """(C, ...) of an image (C, H, W) at points, linear between pixels; beyond the edges as there, or ``outside``."""
    _, height, width = image.shape
    top, left = np.floor(rows).astype(np.int64), np.floor(columns).astype(np.int64)
    total = np.zeros((len(image), *rows.shape), np.float64)
    for i, down in ((top, 1 - (rows - top)), (top + 1, rows - top)):
        for j, across in ((left, 1 - (columns - left)), (left + 1, columns - left)):
            pixels = image[:, i.clip(0, height - 1), j.clip(0, width - 1)].astype(np.float64)
            if outside is not None:
                inside = (i >= 0) & (i < height) & (j >= 0) & (j < width)
                pixels = np.where(inside, pixels, outside)
            total += pixels * (down * across)
    return total


@at_once("crop_resize")
def crop_resize(
    call: Call, x: Array, target_height: int, target_width: int, normalized_coordinates: bool, spatial_scale: float,
    box_coordinate_mode: str, sampling_mode: str, pad_value: float, roi: Array | None = None,
    boxes: Array | None = None, box_indices: Array | None = None,
) -> Array:  # fmt: skip
    height, width = x.shape[2:]
    if roi is not None:
        flat = roi.reshape(len(roi), -1).astype(np.float64)
        each = flat.shape[1] == 4
        chosen = [range(len(x)) if each else [int(row[0])] for row in flat]
        corners = flat[:, -4:]
    else:
        assert boxes is not None and box_indices is not None
        corners, chosen = boxes.astype(np.float64), [[int(n)] for n in box_indices]
    results = []
    for box, images in zip(corners, chosen, strict=True):
        first, second = (box[:2], box[2:]) if "HEIGHT_FIRST" in box_coordinate_mode else (box[1::-1], box[:1:-1])
        if box_coordinate_mode.startswith("CENTER"):
            first, second = first - second / 2, first + second / 2
        grids = []
        for low, high, size, count in zip(first, second, (height, width), (target_height, target_width), strict=True):
            ends = np.array([low, high]) * spatial_scale * (size - 1 if normalized_coordinates else 1)
            grids.append(_within(ends[0], ends[1], count, sampling_mode))
        rows, columns = np.meshgrid(*grids, indexing="ij")
        outside = (rows < 0) | (rows > height - 1) | (columns < 0) | (columns > width - 1)
        patches = [np.where(outside, pad_value, _points(x[i], rows, columns, None)) for i in images]
        results.append(np.stack(patches))
    crops = np.stack(results)
    return crops if roi is not None else crops[:, 0]


def _within(low: float, high: float, count: int, mode: str) -> Array:
    """Places of samples between two ends, which are those of an axis of ``high - low + 1`` entries."""
    return np.asarray(low + positions(high - low + 1, count, mode))


@at_once("affine")
def affine(
    call: Call, x: Array, transform_matrix: Array, output_height: int, output_width: int, sampling_mode: str,
    padding_mode: str, padding_value: float, coordinates_mode: str, align_corners: bool,
) -> Array:  # fmt: skip
    down = np.linspace(-1, 1, output_height) if output_height > 1 else np.array([-1.0])
    across = np.linspace(-1, 1, output_width) if output_width > 1 else np.array([-1.0])
    rows, columns = np.meshgrid(down, across, indexing="ij")
    images = []
    for image, matrix in zip(x, np.broadcast_to(transform_matrix, (len(x), 6)).astype(np.float64), strict=True):
        at_x = matrix[0] * columns + matrix[1] * rows + matrix[2]
        at_y = matrix[3] * columns + matrix[4] * rows + matrix[5]
        height, width = image.shape[1:]
        images.append(_points(image, (at_y + 1) / 2 * (height - 1), (at_x + 1) / 2 * (width - 1), padding_value))
    return np.stack(images)


@at_once("resample")
def resample(
    call: Call, x: Array, coordinates: Array, sampling_mode: str, padding_mode: str, padding_value: float,
    coordinates_mode: str, align_corners: bool,
) -> Array:  # fmt: skip
    height, width = x.shape[2:]
    images = []
    for image, points in zip(x, coordinates.astype(np.float64), strict=True):
        columns = _unnormalized(points[..., 0], width, coordinates_mode, align_corners)
        rows = _unnormalized(points[..., 1], height, coordinates_mode, align_corners)
        outside = padding_value if padding_mode == "constant" else None
        if padding_mode != "constant":
            rows = _reflected(rows, height, padding_mode, align_corners)
            columns = _reflected(columns, width, padding_mode, align_corners)
        if sampling_mode == "nearest":
            rows, columns = np.rint(rows), np.rint(columns)
        images.append(_points(image, rows, columns, outside))
    return np.stack(images)


def _unnormalized(places: Array, size: int, mode: str, align_corners: bool) -> Array:
    if mode == "unnormalized":
        return places
    unit = (places + 1) / 2 if mode == "normalized_minus_one_to_one" else places
    return np.asarray(unit * (size - 1) if align_corners else unit * size - 0.5)


def _reflected(places: Array, size: int, mode: str, align_corners: bool) -> Array:
    """Positions outside of an axis, moved inside."""
    if mode == "border":
        return places.clip(0, size - 1)
    low, high = (0.0, size - 1.0) if mode == "reflection" and align_corners else (-0.5, size - 0.5)
    if mode == "reflection" and not align_corners:
        low, high = -0.5, size - 0.5
    span = high - low
    if span <= 0:
        return np.zeros_like(places)
    distance = np.abs(places - low) % (2 * span)
    return np.asarray((low + np.where(distance > span, 2 * span - distance, distance)).clip(0, size - 1))


@at_once("non_maximum_suppression")
def non_maximum_suppression(
    call: Call, boxes: Array, scores: Array, iou_threshold: float, max_boxes: int, per_class_suppression: bool,
    score_threshold: float | None = None,
) -> Any:  # fmt: skip
    last = call.version >= 17  # then the boxes stand on the last axis
    if last:
        boxes, scores = boxes.swapaxes(1, 2), scores.swapaxes(1, 2)
    count = len(boxes)
    kept_boxes = np.zeros((count, max_boxes, 4), np.float32)
    kept_scores = np.zeros((count, max_boxes, scores.shape[2]), np.float32)
    indices = np.full((count, max_boxes), -1, np.int32)
    totals = np.zeros(count, np.int32)
    for sample in range(count):
        chosen = _suppressed(
            boxes[sample], scores[sample], iou_threshold, score_threshold, max_boxes, per_class_suppression
        )
        totals[sample] = len(chosen)
        kept_boxes[sample, : len(chosen)] = boxes[sample][chosen]
        kept_scores[sample, : len(chosen)] = scores[sample][chosen]
        indices[sample, : len(chosen)] = chosen
    if last:
        return kept_boxes.swapaxes(1, 2), kept_scores.swapaxes(1, 2), indices
    return kept_boxes, kept_scores, indices, totals


def _suppressed(
    boxes: Array, scores: Array, iou_threshold: float, score_threshold: float | None, most: int, per_class: bool
) -> list[int]:
    """The numbers of boxes to keep, the best first."""
    best, classes = scores.max(1), scores.argmax(1)
    low, high = boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2
    areas = boxes[:, 2] * boxes[:, 3]
    chosen: list[int] = []
    left = np.argsort(-best, kind="stable")
    if score_threshold is not None:
        left = left[best[left] >= score_threshold]
    while len(left) and len(chosen) < most:
        first, left = left[0], left[1:]
        chosen.append(int(first))
        sides = np.minimum(high[first], high[left]) - np.maximum(low[first], low[left])
        common = sides.clip(0).prod(1)
        overlap = common / np.maximum(areas[first] + areas[left] - common, 1e-12)
        keep = overlap <= iou_threshold
        left = left[keep | (classes[left] != classes[first])] if per_class else left[keep]
    return chosen


# Random numbers. A seed below 0 is another one in every run.


def _generator(seed: int | None) -> np.random.Generator:
    return np.random.default_rng(None if seed is None or seed < 0 else seed)


def _shape(shape: Array) -> tuple[int, ...]:
    sizes = tuple(int(n) for n in shape.ravel())
    memory_limit.check(8 * math.prod(max(n, 1) for n in sizes), f"a tensor of shape {sizes}", Misfit)
    return sizes


@at_once("random_normal")
def random_normal(call: Call, shape: Array, mean: float, stddev: float, seed: int) -> Array:
    return _generator(seed).normal(mean, stddev, _shape(shape)).astype(np.float32)


@at_once("random_uniform")
def random_uniform(call: Call, shape: Array, low: float, high: float, seed: int) -> Array:
    return _generator(seed).uniform(low, high, _shape(shape)).astype(np.float32)


@at_once("random_bernoulli")
def random_bernoulli(call: Call, shape: Array, prob: float, seed: int) -> Array:
    return (_generator(seed).random(_shape(shape)) < prob).astype(np.float32)


@at_once("random_categorical")
def random_categorical(call: Call, x: Array, mode: str, size: int, seed: int) -> Array:
    generator = _generator(seed)
    weights = np.exp(x - x.max(-1, keepdims=True)) if mode == "logits" else x
    shares = np.cumsum(weights / weights.sum(-1, keepdims=True), -1).reshape(-1, x.shape[-1])
    drawn = [np.searchsorted(row, generator.random(size)).clip(0, x.shape[-1] - 1) for row in shares]
    return np.stack(drawn).reshape(*x.shape[:-1], size).astype(np.float32)


# Lists.


@at_once("make_list")
def make_list(
    call: Call, init_length: Array, dynamic_length: bool, elem_shape: Sequence[Array], dtype: str
) -> list[Any]:
    shape = [int(n) for given in elem_shape if np.asarray(given).dtype.kind in "iu" for n in np.asarray(given).ravel()]
    entry = None if len(shape) < len(elem_shape) else np.zeros(shape, ELEMENTS[dtype].numpy)
    return [entry] * _length(int(np.asarray(init_length).item()))


def _length(count: int) -> int:
    if not 0 <= count <= MOST_ENTRIES:
        raise Misfit(f"a list of {count} entries is longer than the {MOST_ENTRIES} that are possible here")
    return count


def _with(entries: list[Any], index: int, value: Array) -> list[Any]:
    longer = entries + [np.zeros_like(value)] * (_length(max(len(entries), index + 1)) - len(entries))
    longer[index] = value
    return longer


@at_once("list_write")
def list_write(call: Call, ls: list[Any], index: Array, value: Array) -> list[Any]:
    return _with(ls, int(index.item()), value)


@at_once("list_read")
def list_read(call: Call, ls: list[Any], index: Array) -> Array:
    entry: Any = ls[int(index.item())]
    if entry is None:
        raise Misfit(f"entry {int(index.item())} of a list is read before it is written")
    return np.asarray(entry)


@at_once("list_gather")
def list_gather(call: Call, ls: list[Any], indices: Array) -> Array:
    return np.stack([list_read(call, ls, index) for index in indices.ravel()])


@at_once("list_scatter")
def list_scatter(call: Call, ls: list[Any], indices: Array, value: Array) -> list[Any]:
    for index, entry in zip(indices.ravel(), value, strict=True):
        ls = _with(ls, int(index), entry)
    return ls


@at_once("list_length")
def list_length(call: Call, ls: list[Any]) -> Array:
    return np.array(len(ls), np.int32)


# Results of classifiers.


@at_once("classify")
def classify(call: Call, probabilities: Array, classes: list[Any]) -> Any:
    flat = probabilities.ravel()
    if len(flat) != len(classes):
        raise Misfit(f"there are {len(flat)} probabilities, but {len(classes)} classes")
    return classes[int(flat.argmax())], dict(zip(classes, flat.astype(np.float64).tolist(), strict=True))
