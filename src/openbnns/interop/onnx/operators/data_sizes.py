"""Operators whose results have sizes that depend on numbers: positions are found in NumPy, elements are looked up as usual."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....graph.sizes import product
from ....nn import functional as F
from ...converted.tensors import ForeignTensor, Misfit
from .._call import Call
from ..tensor import by_data
from ._registry import operator
from .shapes import in_shape

DATA_SIZES = "sizes that depend on numbers"


@operator(DATA_SIZES, "NonZero")
def non_zero(call: Call, x: ForeignTensor) -> Any:
    return by_data(call, [x], [(x.rank, "found")])


@operator(DATA_SIZES, "Compress")
def compress(call: Call, x: ForeignTensor, condition: ForeignTensor) -> ForeignTensor:
    """The entries along an axis, or of all elements, where a condition holds."""
    axis = call.integer("axis", 0) if call.has("axis") else None
    whole = in_shape(x, [product(x.shape)]) if axis is None else x
    axis = 0 if axis is None else x.axis(axis)
    if condition.constant:
        return _taken(whole, axis, ForeignTensor(np.flatnonzero(condition.held).astype(np.int64)))
    (places,) = by_data(call, [condition], [("found",)])
    return _taken(whole, axis, places)


def _taken(x: ForeignTensor, axis: int, places: ForeignTensor) -> ForeignTensor:
    if x.constant and places.constant:
        return ForeignTensor(np.take(x.held, places.held, axis), x.kind)
    chosen = F.index_select(x.numbers if x.kind == "f" else x.value, axis, places.value)
    return ForeignTensor(chosen, x.kind)


@operator(DATA_SIZES, "Unique")
def unique(call: Call, x: ForeignTensor) -> Any:
    """Which entries are there, where each is first, which one every entry is, and how often each is there."""
    axis = call.integer("axis", 0) if call.has("axis") else None
    call.ignored("sorted")
    whole = in_shape(x, [product(x.shape)]) if axis is None else x
    axis = 0 if axis is None else x.axis(axis)
    first, inverse, counts = by_data(call, [x], [("found",), (whole.shape[axis],), ("found",)])
    return (_taken(whole, axis, first), first, inverse, counts)[: max(1, call.outputs)]


@operator(DATA_SIZES, "NonMaxSuppression")
def suppress(
    call: Call, boxes: ForeignTensor, scores: ForeignTensor, most: ForeignTensor | None = None, overlap: ForeignTensor | None =
    None, least: ForeignTensor | None = None,
) -> Any:  # fmt: skip
    if boxes.rank != 3 or scores.rank != 3:
        raise Misfit(f"boxes {boxes.shape} and scores {scores.shape} must have three axes each")
    return by_data(call, [boxes, scores, most, overlap, least], [("found", 3)])


@operator(DATA_SIZES, "Range")
def count_up(call: Call, start: ForeignTensor, limit: ForeignTensor, delta: ForeignTensor) -> Any:
    """A range: a constant if its ends are constants; with a size as an end, it grows with that size."""
    given = [start, limit, delta]
    if all(x.constant for x in given):
        first, last, step = (x.held.reshape(-1)[0] for x in given)
        return ForeignTensor(F.arange(first, last, step), "i")
    return by_data(call, given, [("found",)], start.kind)
