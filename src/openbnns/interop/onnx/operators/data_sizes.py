"""Operators whose results have sizes that depend on numbers: NumPy finds the positions, and lookups take the elements."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....graph import functions as F
from ....graph.sizes import product
from ....graph.tensor import Array
from ...converted.tensors import ForeignTensor, Misfit
from .._call import Call
from .._numpy import limited
from .._operator import operator
from ..tensor import by_data
from .shapes import in_shape

DATA_SIZES = "sizes that depend on numbers"


def _non_zero(call: Call, x: Array) -> Any:
    places = np.nonzero(np.atleast_1d(x))
    return np.stack(places)[: x.ndim].astype(np.int64)


@operator(DATA_SIZES, "NonZero", compute=_non_zero, records_whole=True, whole_type="int64")
def non_zero(call: Call, x: ForeignTensor) -> Any:
    return by_data(call, [x], [(x.rank, "found")])


def holding(call: Call, condition: Array) -> Any:
    """The positions where a condition holds."""
    return np.nonzero(condition.reshape(-1))[0]


@operator(DATA_SIZES, "Compress")
def compress(call: Call, x: ForeignTensor, condition: ForeignTensor) -> ForeignTensor:
    """The entries along an axis, or of all elements, where a condition holds."""
    axis = call.integer("axis", 0) if call.has("axis") else None
    whole = in_shape(x, [product(x.shape)]) if axis is None else x
    axis = 0 if axis is None else x.axis(axis)
    if condition.constant:
        return _taken(whole, axis, ForeignTensor(np.flatnonzero(condition.held).astype(np.int64)))
    (places,) = by_data(call, [condition], [("found",)], body=holding)
    return _taken(whole, axis, places)


def _taken(x: ForeignTensor, axis: int, places: ForeignTensor) -> ForeignTensor:
    if x.constant and places.constant:
        return ForeignTensor(np.take(x.held, places.held, axis), x.kind)
    chosen = F.index_select(x.numbers if x.kind == "f" else x.value, axis, places.value)
    return ForeignTensor(chosen, x.kind)


def entries(call: Call, x: Array) -> Any:
    """The first place of every entry, the number of the entry at every place, and how often each is there."""
    axis = call.integer("axis", 0) if call.has("axis") else None
    _, first, inverse, counts = np.unique(x, True, True, True, axis=axis)
    inverse = inverse.reshape(-1)
    if not call.integer("sorted", 1):  # in the order in which they are met
        order = np.argsort(first)
        numbers = np.empty_like(order)
        numbers[order] = np.arange(len(order))
        first, inverse, counts = first[order], numbers[inverse], counts[order]
    return first, inverse, counts


@operator(DATA_SIZES, "Unique", ignores=("sorted",))
def unique(call: Call, x: ForeignTensor) -> Any:
    """Which entries are there, where each is first, which one every entry is, and how often each is there."""
    axis = call.integer("axis", 0) if call.has("axis") else None
    whole = in_shape(x, [product(x.shape)]) if axis is None else x
    axis = 0 if axis is None else x.axis(axis)
    first, inverse, counts = by_data(call, [x], [("found",), (whole.shape[axis],), ("found",)], body=entries)
    return (_taken(whole, axis, first), first, inverse, counts)[: max(1, call.outputs)]


def _suppressed(
    call: Call, boxes: Array, scores: Array, most: Array | None = None, overlap: Array | None = None,
    least: Array | None = None,
) -> Any:  # fmt: skip
    limit = 0 if most is None else int(most.reshape(-1)[0])
    threshold = 0.0 if overlap is None else float(overlap.reshape(-1)[0])
    samples, classes, count = scores.shape
    if boxes.shape != (samples, count, 4):
        raise Misfit(f"boxes {boxes.shape} and scores {scores.shape} do not fit")
    if call.integer("center_point_box", 0):
        x, y, w, h = np.moveaxis(boxes, -1, 0)
        low, high = np.stack([x - w / 2, y - h / 2], -1), np.stack([x + w / 2, y + h / 2], -1)
    else:
        low, high = np.minimum(boxes[..., :2], boxes[..., 2:]), np.maximum(boxes[..., :2], boxes[..., 2:])
    areas = np.prod(high - low, -1)
    kept = []
    for sample in range(samples):
        for number in range(classes):
            own = scores[sample, number]
            left = np.argsort(-own, kind="stable")
            if least is not None:
                left = left[own[left] > float(least.reshape(-1)[0])]
            taken = 0
            while len(left) and taken < limit:
                best, left = left[0], left[1:]
                kept.append((sample, number, best))
                taken += 1
                sides = np.minimum(high[sample, best], high[sample, left]) - np.maximum(
                    low[sample, best], low[sample, left]
                )
                shared = np.prod(np.maximum(sides, 0), -1)
                union = areas[sample, best] + areas[sample, left] - shared
                with np.errstate(all="ignore"):
                    left = left[~(shared / union > threshold)]
    return np.array(kept, np.int64).reshape(-1, 3)


@operator(
    DATA_SIZES,
    "NonMaxSuppression",
    compute=_suppressed,
    records_whole=True,
    whole_type="int64",
    ignores=("center_point_box",),
)
def suppress(
    call: Call, boxes: ForeignTensor, scores: ForeignTensor, most: ForeignTensor | None = None, overlap: ForeignTensor | None =
    None, least: ForeignTensor | None = None,
) -> Any:  # fmt: skip
    if boxes.rank != 3 or scores.rank != 3:
        raise Misfit(f"boxes {boxes.shape} and scores {scores.shape} must have three axes each")
    return by_data(call, [boxes, scores, most, overlap, least], [("found", 3)])


def _counted(call: Call, start: Array, limit: Array, delta: Array) -> Any:
    first, last, step = start.item(), limit.item(), delta.item()
    limited([max(0, math.ceil((last - first) / step))])
    return np.arange(first, last, step, dtype=start.dtype)


@operator(DATA_SIZES, "Range", compute=_counted, folds_sizes=False, records_whole=True, settings=(0, 1, 2))
def count_up(call: Call, start: ForeignTensor, limit: ForeignTensor, delta: ForeignTensor) -> Any:
    """A range: a constant if its ends are constants; with a size as an end, it grows with that size."""
    given = [start, limit, delta]
    if all(x.constant for x in given):
        first, last, step = (x.held.reshape(-1)[0] for x in given)
        return ForeignTensor(F.arange(first, last, step), "i")
    return by_data(call, given, [("found",)], start.kind)
