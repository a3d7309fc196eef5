"""Steps that hold for all batch sizes and both modes, from records that each hold for one.

A module is recorded on batches of two sizes, in training and in evaluation. Sizes that grow with the batch are those of the
batch; options that differ between the modes follow the mode.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import Any

import numpy as np

from ..converted.sizes import SampleNumbers, Size, batch_axis
from ._recording import Record, Ref, Trace
from .errors import Place, Unsupported, refusal

BY_MODE = "a choice by the mode"
"""The name of a step that no function of PyTorch is: one tensor in training, another one in evaluation."""

SIZES = (2, 3)
"""Batch sizes that a module is recorded with."""


@dataclass(frozen=True)
class ByMode:
    """An option with one value in evaluation and another one in training."""

    evaluation: Any
    training: Any


def for_all_batches(first: Trace, second: Trace) -> Trace:
    """One trace from two, on batches of ``SIZES``."""
    records = [_of_all_sizes(a, b) for a, b in _pairs(first, second, "batches of 2 and of 3 samples")]
    return Trace(records, _joined(first.result, second.result, _by_size(None)))


def for_both_modes(training: Trace, evaluation: Trace, keeps_statistics: Callable[[str], bool]) -> Trace:
    """One trace from those of the two modes, which hold for all batch sizes.

    Steps that only one of them has are all taken; where a later step reads another tensor in training than in evaluation, a
    choice by the mode comes in front of it. ``keeps_statistics`` says which modules learn in training by being called.

    Steps of both belong together if they do the same on tensors of the same shapes: of two products in training, one with a
    scale and one with a mask, the right one is that of evaluation. Where this does not lead to one network, shapes are left out.
    """
    try:
        return _merged(training, evaluation, keeps_statistics, _keys_with_shapes)
    except Unsupported:
        return _merged(training, evaluation, keeps_statistics, _keys)


def _merged(
    training: Trace, evaluation: Trace, keeps_statistics: Callable[[str], bool], keys: Callable[[Trace], list[Any]]
) -> Trace:
    merged = _Modes(training)
    pairs = SequenceMatcher(None, keys(training), keys(evaluation), autojunk=False)
    for kind, t0, t1, e0, e1 in pairs.get_opcodes():
        if kind == "equal":
            for a, b in zip(training.records[t0:t1], evaluation.records[e0:e1], strict=True):
                merged.both(a, b)
            continue
        for record in training.records[t0:t1]:
            merged.records.append(_following_mode(record))
        for record in evaluation.records[e0:e1]:
            if record.kind == "module" and keeps_statistics(record.target):
                raise refusal(f"{_told(record)} keeps statistics, but is called in evaluation alone", record.place)
            merged.evaluation_only(record)
    return Trace(merged.records, merged.chosen(training.result, evaluation.result, None))


def _keys(trace: Trace) -> list[tuple[str, str]]:
    return [(record.kind, record.target) for record in trace.records]


def _keys_with_shapes(trace: Trace) -> list[tuple[Any, ...]]:
    shapes = {index: shape for record in trace.records for index, shape in record.shapes.items()}
    return [
        (record.kind, record.target, *(shapes[ref.index] for ref in refs((record.args, record.kwargs, record.outputs))))
        for record in trace.records
    ]


def refs(given: Any) -> Iterator[Ref]:
    """The tensors in arguments or results."""
    if isinstance(given, Ref):
        yield given
    elif isinstance(given, (tuple, list, dict)):
        for part in given.values() if isinstance(given, dict) else given:
            yield from refs(part)


def _following_mode(record: Record) -> Record:
    """A step of training alone; a dropout in it is one that follows the mode."""
    if "dropout" in record.target and record.kwargs.get("training") is True:
        return replace(record, kwargs=record.kwargs | {"training": ByMode(False, True)})
    return record


class _Modes:
    """Steps of both modes; tensors have the numbers that they have in training."""

    def __init__(self, training: Trace) -> None:
        self.records: list[Record] = []
        self._numbers: dict[int, int] = {}  # of tensors in evaluation
        self._next = 1 + max((index for record in training.records for index in record.shapes), default=-1)
        self._choices: dict[tuple[int, int], Ref] = {}
        self._shapes = {index: shape for record in training.records for index, shape in record.shapes.items()}
        self._dtypes = {index: letter for record in training.records for index, letter in record.dtypes.items()}

    def both(self, a: Record, b: Record) -> None:
        if list(a.shapes.values()) != list(b.shapes.values()):
            raise refusal(f"{_told(a)} gives other shapes in training than in evaluation", a.place)
        if a.array is not None and not _same_constant(a.array, b.array):
            raise refusal("a constant differs between training and evaluation", a.place)
        args, kwargs = self.chosen(a.args, b.args, a), self.chosen(a.kwargs, b.kwargs, a)
        self._numbers |= dict(zip(b.shapes, a.shapes, strict=True))
        self.records.append(replace(a, args=args, kwargs=kwargs))

    def evaluation_only(self, record: Record) -> None:
        args, kwargs = self._renumbered(record.args), self._renumbered(record.kwargs)
        for index in record.shapes:
            self._numbers[index] = self._next
            self._shapes[self._next], self._dtypes[self._next] = record.shapes[index], record.dtypes[index]
            self._next += 1
        shapes = {self._numbers[index]: shape for index, shape in record.shapes.items()}
        dtypes = {self._numbers[index]: letter for index, letter in record.dtypes.items()}
        outputs = self._renumbered(record.outputs)
        self.records.append(replace(record, args=args, kwargs=kwargs, outputs=outputs, shapes=shapes, dtypes=dtypes))

    def chosen(self, a: Any, b: Any, record: Record | None) -> Any:
        """Arguments or results of both modes as one."""

        def resolve(training: Any, evaluation: Any) -> Any:
            if isinstance(training, Ref) and isinstance(evaluation, Ref):
                return self._choice(training, evaluation, record)
            if record is None:
                raise refusal("forward gives results of another kind in training than in evaluation", None)
            return ByMode(evaluation, training)

        return _joined(a, self._renumbered(b), resolve)

    def _choice(self, training: Ref, evaluation: Ref, record: Record | None) -> Ref:
        key = training.index, evaluation.index
        if key not in self._choices:
            shape, place = self._shapes[training.index], None if record is None else record.place
            if shape != self._shapes[evaluation.index]:
                raise refusal(
                    f"{shape} in training is {self._shapes[evaluation.index]} in evaluation",
                    place,
                    "Make both of one shape.",
                )
            made = self._choices[key] = Ref(self._next)
            self._next += 1
            self._shapes[made.index], self._dtypes[made.index] = shape, self._dtypes[training.index]
            self.records.append(
                Record(
                    "function", BY_MODE, place, (training, evaluation), {}, made, {made.index: shape},
                    {made.index: self._dtypes[training.index]},
                )
            )  # fmt: skip
        return self._choices[key]

    def _renumbered(self, given: Any) -> Any:
        if isinstance(given, Ref):
            return Ref(self._numbers[given.index])
        if isinstance(given, (tuple, list)):
            parts = [self._renumbered(part) for part in given]
            return parts if isinstance(given, list) else tuple(parts)
        if isinstance(given, dict):
            return {name: self._renumbered(part) for name, part in given.items()}
        if isinstance(given, slice):
            return slice(*(self._renumbered(end) for end in (given.start, given.stop, given.step)))
        return given


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
        if all(np.array_equal(array.ravel(), np.arange(array.shape[axis])) for array in (one, other)):
            return SampleNumbers(tuple(n for n in shape if not isinstance(n, Size)))
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


def _same_constant(a: Any, b: Any) -> bool:
    if isinstance(a, SampleNumbers) or isinstance(b, SampleNumbers):
        return bool(a == b)
    return np.array_equal(a, b, equal_nan=_floats(a))


def _floats(array: Any) -> bool:
    return bool(array.dtype.kind == "f")


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
