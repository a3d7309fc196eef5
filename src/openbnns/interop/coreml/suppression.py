"""Suppression of boxes that overlap, as a part of pipelines that detect objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..protobuf import Message
from .elements import Array


@dataclass(frozen=True)
class Suppression:
    """Its options. ``inputs`` are the names of confidences, coordinates and both thresholds, ``outputs`` of the first two."""

    inputs: tuple[str, str, str, str]
    outputs: tuple[str, str]
    overlap: float
    confidence: float
    per_class: bool


def read(model: Message) -> Suppression:
    """The options that a model's message holds."""
    held = model.message(610)
    return Suppression(
        (held.text(200), held.text(201), held.text(202), held.text(203)), (held.text(210), held.text(211)),
        held.number(110), held.number(111), bool(held.message(1).integer(1)),
    )  # fmt: skip


def suppressed(options: Suppression, values: Mapping[str, Any]) -> dict[str, Array]:
    """The boxes that stay, best first: their confidences (boxes, classes), and coordinates (boxes, 4) x, y, width, height.

    A box stays if the confidence in its best class is above one threshold, and if its overlap (intersection over union)
    with each better box that stays, of the same class where these are told apart, is not above the other.
    """
    scores, boxes = (np.asarray(values[name], np.float32) for name in options.inputs[:2])
    scores, boxes = scores.reshape(-1, scores.shape[-1]), boxes.reshape(-1, 4)
    overlap, confidence = (
        float(np.asarray(values.get(name, default)).reshape(-1)[0])
        for name, default in zip(options.inputs[2:], (options.overlap, options.confidence), strict=True)
    )
    best, kind = scores.max(1), scores.argmax(1)
    order = np.argsort(-best, kind="stable")
    kept: list[int] = []
    for i in order[best[order] > confidence].tolist():
        rivals = [j for j in kept if not options.per_class or kind[j] == kind[i]]
        if not rivals or (_overlaps(boxes[i], boxes[rivals]) <= overlap).all():
            kept.append(i)
    return {options.outputs[0]: scores[kept], options.outputs[1]: boxes[kept]}


def _overlaps(box: Array, others: Array) -> Array:
    """Intersection over union of a box with others, given by their centers and sizes."""
    low, high = (np.maximum(box[:2] - box[2:] / 2, others[:, :2] - others[:, 2:] / 2),
                 np.minimum(box[:2] + box[2:] / 2, others[:, :2] + others[:, 2:] / 2))  # fmt: skip
    common = np.clip(high - low, 0, None).prod(1)
    union = box[2:].prod() + others[:, 2:].prod(1) - common
    shares: Array = np.divide(common, union, out=np.zeros_like(common), where=union > 0)
    return shares
