"""Recognition of training samples, from a few numbers in the model file.

Features of one row of a table may differ in their last digits from one reading to the next, so samples are not known by a hash,
but by where they fall on two random directions: two samples are the same if both places agree but for rounding. Few samples are
all kept; of many, those that fall into a narrow range on the first direction. Of other samples, those in the same range tell
which share of all was trained on.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ..._listing import of_module as _of_module
from ...graph.tensor import Array

KEPT = 4096
_ROUNDING = 1e-6  # relative to the size of samples
_AT_A_TIME = 2**20  # numbers


class Seen(NamedTuple):
    """The number of samples that were trained on; estimated from some of them unless ``exact``."""

    samples: int
    exact: bool
    which: Array | None
    """True for each of them (N,), if that is known."""


def _places(samples: Any) -> tuple[Array, Array]:
    """The positions of samples on the two directions (N, 2), and their norms (N,); those in files are read once."""
    width = math.prod(samples.shape[1:])
    directions = np.random.RandomState(0).standard_normal((width, 2))
    places, norms = np.empty((len(samples), 2)), np.empty(len(samples))
    count = max(1, _AT_A_TIME // max(1, width))
    for start in range(0, len(samples), count):
        piece = np.asarray(samples[start : start + count]).reshape(-1, width).astype(np.float64)
        places[start : start + count] = piece @ directions
        norms[start : start + count] = np.sqrt((piece**2).sum(axis=1))
    return places, norms


def remember(samples: Any) -> dict[str, Any]:
    """The record of the training samples in a model file, as plain JSON."""
    places, norms = _places(samples)
    known = np.unique(places.astype("<f4"), axis=0)  # in the order of the first direction
    first = max(0, len(known) - KEPT) // 2
    return {
        "different": len(known),
        "size": float(np.sqrt((norms**2).mean())),
        "places": base64.b64encode(known[first : first + KEPT].tobytes()).decode(),
    }


def count_seen(remembered: Any, samples: Any) -> Seen | None:
    """The number of samples among those remembered; None if that is unknown or the record is invalid."""
    if not isinstance(remembered, Mapping):
        return None
    different, size, kept = remembered.get("different"), remembered.get("size"), _read(remembered.get("places"))
    if type(different) is not int or not isinstance(size, (int, float)) or not 0 <= size < math.inf or kept is None:
        return None
    places, norms = _places(samples)
    near = _ROUNDING * (size + norms)
    exact = different <= len(kept)
    if not exact:
        inside = (places[:, 0] >= kept[0, 0]) & (places[:, 0] <= kept[-1, 0])
        places, near = places[inside], near[inside]
        if not len(places):
            return None
    which = _are_near(places, near, kept)
    seen = int(which.sum())
    return Seen(seen, True, which) if exact else Seen(round(seen / len(places) * len(samples)), False, None)


def _are_near(places: Array, near: Array, kept: Array) -> Array:
    """True where one of the kept places is as near as that to each of the others."""
    first = np.searchsorted(kept[:, 0], places[:, 0] - near)
    last = np.searchsorted(kept[:, 0], places[:, 0] + near, "right")
    near_ones = np.zeros(len(places), np.bool_)
    left = np.flatnonzero(first < last)
    while len(left):  # one candidate after the other, most have one at most
        near_ones[left] = np.abs(kept[first[left], 1] - places[left, 1]) <= near[left]
        first[left] += 1
        left = left[~near_ones[left] & (first[left] < last[left])]
    return near_ones


def _read(text: Any) -> Array | None:
    """The kept places (N, 2), in the order of the first direction."""
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, TypeError, ValueError):
        return None
    if not raw or len(raw) % 8 or len(raw) > 8 * KEPT:
        return None
    places = np.frombuffer(raw, "<f4").reshape(-1, 2).astype(np.float64)
    return places[np.argsort(places[:, 0], kind="stable")] if np.isfinite(places).all() else None


__all__ = ["Seen", "count_seen", "remember"]

__dir__ = _of_module(__name__)
