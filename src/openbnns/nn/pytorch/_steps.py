"""Steps that hold for all batch sizes and both modes, from records that each hold for one.

A module is recorded on batches of two sizes in training, and on one in evaluation. Sizes that grow with the batch are those
of the batch; options that differ between the modes follow the mode. All else must be the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ._recording import Record, Ref, Trace
from .errors import Place, refusal

SIZES = (2, 3)
"""Batch sizes that a module is recorded with."""


@dataclass(frozen=True)
class Size:
    """A size that is that of the batch, times ``rows``."""

    rows: int

    def __repr__(self) -> str:
        return "N" if self.rows == 1 else f"N*{self.rows}"


@dataclass(frozen=True)
class ByMode:
    """An option with one value in evaluation and another one in training."""

    evaluation: Any
    training: Any


def batch_axis(shape: tuple[Any, ...]) -> int | None:
    """Which axis is the batch, if any."""
    return next((axis for axis, n in enumerate(shape) if isinstance(n, Size)), None)


def for_all_batches(first: Trace, second: Trace) -> Trace:
    """One trace from two, on batches of ``SIZES``."""
    records = [_of_all_sizes(a, b) for a, b in _pairs(first, second, "batches of 2 and of 3 samples")]
    return Trace(records, _joined(first.result, second.result, _by_size(None)))


def for_both_modes(training: Trace, evaluation: Trace) -> Trace:
    """One trace from those of the two modes; ``training`` holds for all batch sizes."""
    records = []
    for a, b in _pairs(training, evaluation, "training and evaluation"):
        if a.array is not None and not _same_constant(a, b):
            raise refusal("a constant differs between training and evaluation", a.place)
        resolve = _by_mode
        records.append(replace(a, args=_joined(a.args, b.args, resolve), kwargs=_joined(a.kwargs, b.kwargs, resolve)))
    return Trace(records, training.result)


def _pairs(first: Trace, second: Trace, what: str) -> list[tuple[Record, Record]]:
    """Records that belong together, if both runs did the same."""
    pairs = list(zip(first.records, second.records, strict=False))
    for a, b in pairs:
        if (a.kind, a.target) != (b.kind, b.target):
            raise refusal(
                f"forward does different things for {what}: {_told(a)} and {_told(b)}",
                a.place or b.place,
                "Convert a module that does the same, with the part that differs left out.",
            )
    if len(first.records) != len(second.records):
        record = max(first.records, second.records, key=len)[len(pairs)]
        raise refusal(f"forward does different things for {what}: only one of them has {_told(record)}", record.place)
    return pairs


def _told(record: Record) -> str:
    return record.kind if record.kind in ("input", "constant") else f"{record.kind} {record.target}"


def _of_all_sizes(a: Record, b: Record) -> Record:
    shapes = {}
    for index, shape in a.shapes.items():
        joined = _joined(shape, b.shapes[index], _by_size(a.place))
        if sum(isinstance(n, Size) for n in joined) > 1:
            raise refusal(
                f"{_told(a)} gives {joined}, which mixes the samples of a batch", a.place,
                "Samples are computed independently of each other here; only losses may join them.",
            )  # fmt: skip
        shapes[index] = joined
    if a.kind == "constant":
        return replace(a, shapes=shapes, array=_constant(a, b, next(iter(shapes.values()))))
    resolve = _by_size(a.place)
    return replace(a, shapes=shapes, args=_joined(a.args, b.args, resolve), kwargs=_joined(a.kwargs, b.kwargs, resolve))


def _constant(a: Record, b: Record, shape: tuple[Any, ...]) -> Any:
    """The numbers of a constant, without the axis of the batch if it has one: all samples have the same."""
    axis = batch_axis(shape)
    one, other = a.array, b.array
    if axis is not None:
        rows = shape[axis].rows
        one, other = (np.take(array, range(rows), axis) for array in (one, other))
        copies = a.array.shape[axis] // rows
        if rows != 1 or not np.array_equal(np.concatenate([one] * copies, axis), a.array, equal_nan=_floats(one)):
            raise refusal("a constant is not the same for all samples of a batch", a.place)
        one, other = one.squeeze(axis), other.squeeze(axis)
    if not np.array_equal(one, other, equal_nan=_floats(one)):
        raise refusal(
            "a tensor that does not depend on the inputs differs from run to run",
            a.place,
            "Make it once, in __init__, or draw random numbers with torch.randn_like and the like.",
        )
    return one


def _floats(array: Any) -> bool:
    return bool(array.dtype.kind == "f")


def _same_constant(a: Record, b: Record) -> bool:
    (shape,) = a.shapes.values()
    axis = batch_axis(shape)
    other = b.array if axis is None else np.take(b.array, 0, axis)
    return np.array_equal(a.array, other, equal_nan=_floats(a.array))


def _joined(a: Any, b: Any, resolve: Callable[[Any, Any], Any]) -> Any:
    """Two structures as one, where ``resolve`` decides about what differs."""
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)) and len(a) == len(b):
        parts = [_joined(x, y, resolve) for x, y in zip(a, b, strict=True)]
        return parts if isinstance(a, list) else tuple(parts)
    if isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys():
        return {name: _joined(a[name], b[name], resolve) for name in a}
    if isinstance(a, slice) and isinstance(b, slice):
        return slice(*(_joined(getattr(a, end), getattr(b, end), resolve) for end in ("start", "stop", "step")))
    if isinstance(a, Ref) or isinstance(b, Ref):
        return a if a == b else resolve(a, b)
    if type(a) is type(b) and (a == b or a != a):
        return a
    return resolve(a, b)


def _by_size(place: Place | None) -> Callable[[Any, Any], Any]:
    def resolve(a: Any, b: Any) -> Any:
        whole = isinstance(a, int) and isinstance(b, int) and not isinstance(a, bool)
        if whole and a % SIZES[0] == b % SIZES[1] == 0 and a // SIZES[0] == b // SIZES[1]:
            return Size(a // SIZES[0])
        raise refusal(
            f"a number depends on the size of the batch ({a!r} for {SIZES[0]} samples, {b!r} for {SIZES[1]})",
            place,
            "The batch may be passed on as a size, x.reshape(x.shape[0], -1), but not computed with: use mean() in place of "
            "sum() / N.",
        )

    return resolve


def _by_mode(training: Any, evaluation: Any) -> Any:
    if isinstance(training, Size) and evaluation == SIZES[0] * training.rows:
        return training
    return ByMode(evaluation, training)
