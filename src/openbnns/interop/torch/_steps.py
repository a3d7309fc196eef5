"""Steps that hold for all sizes and both modes, from records that each hold for one.

A module is recorded on batches of three sizes, in training and in evaluation. Numbers that change with the batch become
expressions in its size, N; options that differ between the modes follow the mode. With other free sizes there is a record more
for each of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import Any

import numpy as np

from ...graph.polynomials import Polynomial
from ._recording import Recipe, Record, Ref, Trace
from .errors import Place, Unsupported, refusal

BY_MODE = "a choice by the mode"
"""The name of a step that no function of PyTorch is: one tensor in training, another one in evaluation."""

BATCH = "N"
"""The name of the size of the batch."""

SAMPLE_NUMBERS = "numbers of samples"
"""In place of the array of a constant: 0 for the first sample, 1 for the second, and so on."""


_ARITHMETIC = {"mul", "rmul", "imul", "add", "radd", "iadd", "sub", "rsub", "isub", "div", "truediv", "itruediv", "pow"}


@dataclass(frozen=True)
class Trials:
    """The free sizes of the runs that a module is recorded in: in the second one the first size is larger by one than in the
    first run, in the third one the second size, and so on; in the last run all are larger.

    >>> [run["N"] for run in Trials.of({"N": 2}).sizes]
    [2, 3, 5]
    >>> print(Trials.of({"N": 4, "E": 9}).expression([35, 36 + 7, 35 + 3, 35 + 24 + 12]))
    3*E + 8*N - 24
    """

    sizes: tuple[dict[str, int], ...]

    @staticmethod
    def of(least: Mapping[str, int]) -> Trials:
        """The trials that begin with these sizes."""
        single = [{**least, name: number + 1} for name, number in least.items()]
        return Trials((dict(least), *single, {name: n + 3 + i for i, (name, n) in enumerate(least.items())}))

    @property
    def _of_batch(self) -> bool:
        return list(self.sizes[0]) == [BATCH]

    @property
    def subject(self) -> str:
        """The size or sizes in messages."""
        return "the size of the batch" if self._of_batch else "free sizes"

    def together(self) -> str:
        """The sizes of all runs in messages."""
        if self._of_batch:
            sizes = [str(run[BATCH]) for run in self.sizes]
            return f"batches of {', '.join(sizes[:-1])} and {sizes[-1]} samples"
        return f"sizes of {' and '.join(f'({told(run)})' for run in self.sizes)}"

    def resolver(self, place: Place | None) -> Callable[..., Any]:
        """A function that makes the numbers of all runs an expression, or raises an error that names the place."""

        def resolve(*given: Any) -> Any:
            whole = all(isinstance(n, int) and not isinstance(n, bool) for n in given)
            expression = self.expression(given) if whole else None
            if expression is None:
                ends = [str(run[BATCH]) if self._of_batch else f"({told(run)})" for run in self.sizes]
                shown = ", ".join(f"{n!r} for {end}" for n, end in zip(given, ends, strict=True))
                raise refusal(
                    f"a number depends on {self.subject} ({shown}{' samples' if self._of_batch else ''}) in a way that cannot be "
                    "told", place,
                    "Sums and products of sizes can be; with others use mean() in place of sum() / N, and the like.",
                )  # fmt: skip
            return expression

        return resolve

    def expression(self, numbers: Sequence[int]) -> Polynomial | None:
        """The expression in free sizes that has these numbers in the runs, if fewer of them would determine it."""
        first = self.sizes[0]
        names = {name: Polynomial.of(name) for name in first}
        linear = Polynomial.of(numbers[0])
        for (name, n), number in zip(first.items(), numbers[1:], strict=False):
            linear += (names[name] - Polynomial.of(n)) * Polynomial.of(number - numbers[0])
        squares = [a * b for a, b in itertools.combinations_with_replacement(names.values(), 2)]
        squares += [n * n - n for n in names.values()]
        tried = [linear, *(square * Polynomial.of(numbers[0] // square.value(first)) for square in squares)]
        fits = (one for one in tried if [one.value(run) for run in self.sizes] == list(numbers))
        return next(fits, None)


def told(sizes: Mapping[str, int]) -> str:
    """The free sizes of a run in messages."""
    return f"{sizes[BATCH]} samples" if [*sizes] == [BATCH] else ", ".join(f"{name}={n}" for name, n in sizes.items())


@dataclass(frozen=True)
class ByMode:
    """An option with one value in evaluation and another one in training."""

    evaluation: Any
    training: Any


def for_all_sizes(traces: Sequence[Trace], trials: Trials, functions: Container[str]) -> Trace:
    """One trace from those of all runs. ``functions`` can make constants that change with free sizes."""
    made = 1 + max((index for record in traces[0].records for index in record.shapes), default=-1)
    constants = _Constants(functions, itertools.count(made), trials)
    records = [record for same in _matched(traces, trials) for record in _of_all_sizes(same, constants)]
    result = _joined([trace.result for trace in traces], trials.resolver(None))
    return Trace(records, result, traces[0].left_out, traces[-1].changed, traces[0].spacing)


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
    left_out = training.left_out | evaluation.left_out
    results = _in_both(training.result, evaluation.result, "", left_out)
    changed = tuple(dict.fromkeys((*training.changed, *evaluation.changed)))
    spacing = max(training.spacing, evaluation.spacing)
    return Trace(merged.records, merged.chosen(*results, None), left_out, changed, spacing)


def _in_both(training: Any, evaluation: Any, name: str, left_out: dict[str, str]) -> tuple[Any, Any]:
    """Two results without the parts that only one of them has."""
    if isinstance(training, dict) and isinstance(evaluation, dict):
        names = {**training, **evaluation}
        pairs = {key: _in_both(training.get(key), evaluation.get(key), f"{name}[{key!r}]", left_out) for key in names}
        return {key: a for key, (a, _) in pairs.items()}, {key: b for key, (_, b) in pairs.items()}
    for mode, given, other in (("training", training, evaluation), ("evaluation", evaluation, training)):
        if other is None and name and next(refs(given), None) is not None:
            left_out[name] = f"result of {mode} alone"
            return None, None
    return training, evaluation


def _keys(trace: Trace) -> list[tuple[Any, ...]]:
    return [(record.kind, record.target, *_numbers(record)) for record in trace.records]


def _numbers(record: Record) -> list[Any]:
    """The plain numbers among a step's arguments, in which steps of the two modes may differ."""
    if record.target.strip("_") not in _ARITHMETIC:
        return []
    return [x for x in record.args if isinstance(x, (int, float)) and not isinstance(x, bool)]


def _keys_with_shapes(trace: Trace) -> list[tuple[Any, ...]]:
    shapes = {index: shape for record in trace.records for index, shape in record.shapes.items()}
    return [
        (
            record.kind,
            record.target,
            *_numbers(record),
            *(shapes[ref.index] for ref in refs((record.args, record.kwargs, record.outputs))),
        )
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
        if a.array is not None and not _is_equal(a.array, b.array):
            self.records.append(a)
            self.evaluation_only(b)
            return
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

        return _joined([a, self._renumbered(b)], resolve)

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


def _matched(traces: Sequence[Trace], trials: Trials) -> list[tuple[Record, ...]]:
    """Records that belong together, if all runs did the same."""
    what = trials.together()
    together = list(zip(*(trace.records for trace in traces), strict=False))
    for same in together:
        other = next(
            (record for record in same if (record.kind, record.target) != (same[0].kind, same[0].target)), None
        )
        if other is not None:
            raise refusal(
                f"forward does different things for {what}: {_told(same[0])} and {_told(other)}",
                same[0].place or other.place,
                "Convert a module that does the same, with the part that differs left out.",
            )
        if any(len(record.shapes) != len(same[0].shapes) for record in same):
            numbers = ", ".join(str(len(record.shapes)) for record in same)
            raise refusal(
                f"{_told(same[0])} gives {numbers} tensors for {what}", same[0].place,
                "Keep samples together in one tensor, or convert for the sizes of the example alone: batch_axis=None.",
            )  # fmt: skip
    longest = max((trace.records for trace in traces), key=len)
    if any(len(trace.records) != len(longest) for trace in traces):
        record = longest[len(together)]
        raise refusal(f"forward does different things for {what}: not all of them have {_told(record)}", record.place)
    return together


def _told(record: Record) -> str:
    return record.kind if record.kind in ("input", "constant") else f"{record.kind} {record.target}"


def _of_all_sizes(same: Sequence[Record], constants: _Constants) -> list[Record]:
    first = same[0]
    if first.kind == "constant":
        letter = next(iter(first.dtypes.values()))
        given = [
            Recipe("", (), {}, record.array, letter) if record.recipe is None else record.recipe for record in same
        ]
        records: list[Record] = []
        constants.make(given, first.place, first.outputs, records)
        return records
    resolve = constants.trials.resolver(first.place)
    shapes = {index: _joined([record.shapes[index] for record in same], resolve) for index in first.shapes}
    args, kwargs = (_joined([getattr(record, name) for record in same], resolve) for name in ("args", "kwargs"))
    return [replace(first, shapes=shapes, args=args, kwargs=kwargs)]


@dataclass(frozen=True)
class _Constants:
    """The constants of a trace: arrays, or calls of the functions that made them if they change with free sizes."""

    functions: Container[str]
    numbers: Iterator[int]
    trials: Trials

    def make(self, recipes: Sequence[Recipe], place: Place | None, ref: Ref, records: list[Record]) -> None:
        """Add the records of the constant that has these recipes in the runs."""
        first, resolve = recipes[0], self.trials.resolver(place)
        pairs = first.letter == "c"  # of numbers, which are one in PyTorch
        shape = _joined([recipe.array.shape[:-1] if pairs else recipe.array.shape for recipe in recipes], resolve)
        record = Record("constant", "", place, outputs=ref, shapes={ref.index: shape}, dtypes={ref.index: first.letter})
        try:
            record.array = _constant([recipe.array for recipe in recipes], shape, place, self.trials)
        except Unsupported:
            if any(recipe.function != first.function for recipe in recipes) or first.function not in self.functions:
                raise

            def made(*given: Any) -> Any:
                if not all(isinstance(x, Recipe) for x in given):
                    return resolve(*given)
                part = Ref(next(self.numbers))
                self.make(given, place, part, records)
                return part

            record.kind, record.target = "function", first.function
            record.args = _joined([recipe.args for recipe in recipes], made)
            record.kwargs = _joined([recipe.kwargs for recipe in recipes], made)
        records.append(record)


def _constant(arrays: Sequence[Any], shape: tuple[Any, ...], place: Place | None, trials: Trials) -> Any:
    """The numbers of a constant, with one entry along axes whose size is free and along which all are the same."""
    free = [axis for axis, n in enumerate(shape) if isinstance(n, Polynomial)]
    if free and all(array.size and np.array_equal(array.ravel(), np.arange(array.size)) for array in arrays):
        return SAMPLE_NUMBERS
    parts = [
        array[tuple(slice(0, 1) if axis in free else slice(None) for axis in range(array.ndim))] for array in arrays
    ]
    if not all(_is_equal(array, np.broadcast_to(part, array.shape)) for array, part in zip(arrays, parts, strict=True)):
        raise refusal(
            f"a constant changes with {trials.subject}", place,
            "Constants may be the same for all samples, or made by functions that nn.pytorch.supported() lists.",
        )  # fmt: skip
    if not all(_is_equal(part, parts[0]) for part in parts):
        raise refusal(
            "a tensor that does not depend on the inputs differs from run to run",
            place,
            "Make it once, in __init__, or draw random numbers with torch.randn_like and the like.",
        )
    return np.array(parts[0], order="C")


def _is_equal(a: Any, b: Any) -> bool:
    if isinstance(a, str) or isinstance(b, str):
        return isinstance(a, str) and isinstance(b, str)
    return np.array_equal(a, b, equal_nan=bool(a.dtype.kind == "f"))


def _joined(given: Sequence[Any], resolve: Callable[..., Any]) -> Any:
    """Several structures as one; ``resolve`` combines the entries that differ."""
    first = given[0]
    if all(isinstance(x, (tuple, list)) and isinstance(first, (tuple, list)) and len(x) == len(first) for x in given):
        parts = [_joined(each, resolve) for each in zip(*given, strict=True)]
        return parts if isinstance(first, list) else tuple(parts)
    if all(isinstance(x, dict) and isinstance(first, dict) and x.keys() == first.keys() for x in given):
        return {name: _joined([x[name] for x in given], resolve) for name in first}
    if all(isinstance(x, slice) for x in given):
        ends = [[getattr(x, end) for x in given] for end in ("start", "stop", "step")]
        return slice(*(_joined(end, resolve) for end in ends))
    if all(type(x) is type(first) and (x == first or x != x) for x in given):
        return first
    return resolve(*given)
