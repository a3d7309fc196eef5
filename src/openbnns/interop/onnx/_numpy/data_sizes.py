"""Positions whose number depends on numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....graph.tensor import Array
from ...converted.tensors import Misfit
from .._call import Call
from ._table import register


@register("NonZero")
def _non_zero(call: Call, x: Array) -> Any:
    places = np.nonzero(np.atleast_1d(x))
    return np.stack(places)[: x.ndim].astype(np.int64)


@register("Compress")
def _compress(call: Call, condition: Array) -> Any:
    """Where it holds."""
    return np.nonzero(condition.reshape(-1))[0]


@register("Unique")
def _unique(call: Call, x: Array) -> Any:
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


@register("NonMaxSuppression")
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
