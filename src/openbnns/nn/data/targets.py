"""Targets: classes, several labels, or numbers, found from the data unless the task is given; classes become numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np

from ..._plural import plural
from ...graph.tensor import Array
from ..files.untrusted import DataError
from .tables.number_formats import is_number
from .tables.table import Table

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,9})?", re.ASCII)
_NOT_FINITE = {"nan", "inf", "infinity"}
_PLAIN_DIGITS = 18  # whole numbers of more digits are shown as they were written


def number_texts(texts: Sequence[str], samples: Array, who: str, name: str) -> tuple[Array, tuple[str, ...]]:
    """Class numbers from the classes in a column of a table, and the names of the classes if they are not numbers.

    ``samples`` are numbers into ``texts``. If all are whole numbers, they are compared by value, exactly: ``1``, ``01`` and
    ``1.0`` are one class, 9007199254740992 and 9007199254740993 are two. Otherwise they are words, compared as they are written.
    """
    numeric = [_NUMBER.fullmatch(t) is not None or t.lstrip("+-").lower() in _NOT_FINITE for t in texts]
    values: list[Any]
    if not any(numeric):
        values = list(texts)
    elif not all(numeric):
        word, number = numeric.index(False), numeric.index(True)
        raise DataError(
            f"{who}: the target {name!r} is {texts[word]!r} in row {_first(samples, word)}, but the number {texts[number]} in "
            f"row {_first(samples, number)}. Correct the cell, or remove the row; if both are classes, write all as words."
        )
    else:
        values = [Decimal(text) for text in texts]
        for i, value in enumerate(values):
            if not value.is_finite() or value != value.to_integral_value():
                raise DataError(
                    f"{who}: the target {name!r} holds class numbers, but row {_first(samples, i)} has {texts[i]}. To predict "
                    "numbers use --task regression."
                )
        values = [int(v) if v.adjusted() < _PLAIN_DIGITS else v for v in values]
    names: dict[Any, str] = {}
    for value, text in zip(values, texts, strict=True):
        names.setdefault(value, str(value) if isinstance(value, int) else text)
    numbers, called = _number(names, len(samples))
    return np.array([numbers[value] for value in values], np.int64)[samples], called


def _first(samples: Array, code: int) -> int:
    return int(np.argmax(samples == code)) + 1


def _number(names: dict[Any, str], samples: int) -> tuple[dict[Any, int], tuple[str, ...]]:
    """A class number for every label: the label itself if all are small whole numbers, else its place in their order."""
    if all(isinstance(v, int) and not isinstance(v, bool) and 0 <= v < samples for v in names):
        return {value: value for value in names}, ()
    ordered = sorted(names)
    return {value: i for i, value in enumerate(ordered)}, tuple(names[value] for value in ordered)


def number_classes(parts: Sequence[Array], who: str) -> tuple[list[Array], tuple[str, ...]]:
    """The class numbers of targets in several parts, and what the classes are called if the numbers do not say it."""
    parts = [_one_per_sample(part, who) for part in parts]
    uniques = [np.unique(part, return_inverse=True) for part in parts]
    names: dict[Any, str] = {}
    for (distinct, _), part in zip(uniques, parts, strict=True):
        for value in map(_exact, distinct.tolist()):
            if value is None:
                where = int(np.argmax(part != np.round(part)))
                raise DataError(
                    f"{who}: sample {where + 1} has the target {part[where]:g}, which is not a class. To predict numbers, write "
                    'a few lines with nn.Trainer(net, "mse").'
                )
            names.setdefault(value, str(value))
    if len({isinstance(value, str) for value in names}) > 1:
        raise DataError(f"{who}: some targets are words, others numbers. Give the classes of all parts in one form.")
    numbers, called = _number(names, sum(map(len, parts)))
    coded = [np.array([numbers[_exact(value)] for value in distinct.tolist()], np.int64) for distinct, _ in uniques]
    return [code[inverse.reshape(-1)] for code, (_, inverse) in zip(coded, uniques, strict=True)], called


def _exact(value: Any) -> Any:
    """A label as a word, a boolean or a whole number of exactly its value; ``None`` if it is a fraction."""
    if isinstance(value, (bool, int, str)):
        return value
    if value != int(value):
        return None
    return value if isinstance(value, float) and abs(value) >= 10**_PLAIN_DIGITS else int(value)


def _one_per_sample(y: Array, who: str) -> Array:
    """A vector of labels: columns are flattened, one-hot rows stand for the position of their 1."""
    if y.ndim == 2 and y.shape[1] == 1:
        return y[:, 0]
    if is_one_hot(y):
        positions: Array = y.argmax(axis=1)
        return positions
    if y.ndim != 1:
        raise DataError(
            f"{who}: targets have shape {y.shape}, but one class per sample is needed: numbers, words or one-hot rows."
        )
    return y


def is_one_hot(y: Array) -> bool:
    """True if every row has a single 1 and zeros otherwise."""
    return bool(y.ndim == 2 and y.dtype.kind != "U" and ((y == 0) | (y == 1)).all() and (y.sum(axis=1) == 1).all())


TASKS = ("classification", "multilabel", "regression")
_MANY = 100  # different whole numbers: more of them, in more than a tenth of the rows, are quantities
_FEWEST = 20  # rows; if nearly every one has another value, the values are not classes


@dataclass
class Targets:
    """One target per sample: class numbers (N,), or labels and numbers (N, outputs)."""

    task: str
    y: Array
    names: tuple[str, ...] = ()
    """Names of the classes, unless they are their numbers; of the labels; or of the numbers."""
    notes: list[str] = field(default_factory=list)


def of_table(table: Table, names: Sequence[str], task: str | None) -> Targets:
    """The targets in some columns of a table."""
    places = [table.exact_columns.index(name) for name in names]
    for name in names:
        codes, _ = table.texts(name)
        if (codes == -1).any():
            where = np.flatnonzero(codes == -1)
            raise DataError(
                f"{table.source}: the target {name!r} is missing in {len(where):,} of {plural(len(table), 'sample')}, the first "
                f"of them sample {where[0] + 1}. Remove those lines, or choose another target: --target NAME."
            )
    values = table.exact[:, places]
    if len(names) > 1:
        _require_numbers(table, names)
        if task == "classification":
            raise DataError(f"{table.source}: a class is in one column, but there are {len(names)} targets. Give one.")
        guessed, why = guess_array(values)
        notes = [] if task else [f"Task: {guessed}, because {why}."]
        return Targets(task or guessed, numbers(values, task or guessed, table.source), tuple(names), notes)
    (name,) = names
    codes, words = table.texts(name)
    notes = []
    if task is None:
        numeric = name not in table.odd
        task, why = _guess(values[:, 0] if numeric else None, len(words), name in table.overflowed)
        other = "regression" if task == "classification" else "classification"
        notes = [f"Task: {task} of {name!r}, because {why}" + (f" (--task {other} for the other)." if numeric else ".")]
    if task == "regression":
        _require_numbers(table, names)
        return Targets(task, values, (name,), notes)
    if task == "multilabel":
        raise DataError(
            f"{table.source}: there is one target, {name!r}, but several labels need a column each: --target a,b,c."
        )
    if name in table.overflowed:
        raise DataError(
            f"{table.source}: the target {name!r} has more than {len(words):,} different classes. {_identifier(words)}"
        )
    y, classes = number_texts(words, codes, table.source, name)
    return Targets(task, y, classes, notes)


def require_rows_of_classes(table: Table, name: str) -> None:
    """Refuse to learn classes most of which have a single row."""
    _, words = table.texts(name)
    if len(table) >= _FEWEST and 2 * len(words) > len(table):
        raise DataError(
            f"{table.source}: the target {name!r} has {len(words):,} classes in {len(table):,} rows, too few rows of each to "
            f"learn from. {_identifier(words)}"
        )


def _identifier(words: Sequence[str]) -> str:
    quantity = "If it is a quantity, use --task regression; if" if all(map(is_number, words)) else "If"
    return f"{quantity} it is an identifier, choose another target: --target NAME."


def _require_numbers(table: Table, names: Sequence[str]) -> None:
    for name in names:
        if name in table.odd:
            _, row, cell = table.odd[name]
            raise DataError(
                f"{table.place(row)}: the target {name!r} is {cell!r}, but numbers are to be predicted. Correct it, or "
                "remove the row; for classes use --task classification."
            )
        values = table.exact[:, table.exact_columns.index(name)]
        if not np.isfinite(values).all():
            where = int(np.flatnonzero(~np.isfinite(values))[0])
            raise DataError(
                f"{table.source}: the target {name!r} is {values[where]} in sample {where + 1}. Correct it."
            )


def _guess(values: Array | None, different: int, overflowed: bool) -> tuple[str, str]:
    """The task, and the reason for it."""
    if values is None:
        return "classification", "there are words"
    if (values != np.round(values)).any():
        return "regression", "there are fractions"
    if overflowed or (different > _MANY and different > 0.1 * len(values)):
        return "regression", f"there are {'more than ' if overflowed else ''}{different:,} different values"
    return "classification", f"there are {different:,} different whole numbers"


def guess_array(y: Array) -> tuple[str, str]:
    """The task of targets in an array, one entry or one row per sample, and the reason for it."""
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.dtype.kind in "Ub" or is_one_hot(y):
        return "classification", "there are words" if y.dtype.kind == "U" else "there is one class for each sample"
    if y.ndim > 1:
        if ((y == 0) | (y == 1)).all():
            return "multilabel", f"there are {y.shape[1]} targets of 0 and 1 for each sample"
        return "regression", f"there are {int(np.prod(y.shape[1:]))} numbers to predict for each sample"
    return _guess(y.astype(np.float64), len(np.unique(y)), False)


def numbers(y: Array, task: str, source: str) -> Array:
    """Targets of a regression or labels as rows of float64; raises an error for anything else."""
    if y.dtype.kind not in "fiub":
        raise DataError(
            f"{source}: targets are words, which cannot be the numbers of a {task}. Use --task classification."
        )
    rows = y[:, None] if y.ndim == 1 else y.reshape(len(y), -1)
    if task == "multilabel" and not ((rows == 0) | (rows == 1)).all():
        where = tuple(int(i) for i in np.argwhere((rows != 0) & (rows != 1))[0])
        raise DataError(
            f"{source}: labels are 0 and 1, one for each that a sample may have, but sample {where[0] + 1} has "
            f"{rows[where]:g}. Use --task regression for numbers."
        )
    return rows.astype(np.float64)


def standardized(y: Array, rows: Any) -> tuple[Array, tuple[float, ...], tuple[float, ...]]:
    """Numbers to predict with mean 0 and deviation 1 in the training samples; and both."""
    mean, std = y[rows].mean(axis=0), y[rows].std(axis=0)
    std = np.where(std > 0, std, 1.0)
    return ((y - mean) / std).astype(np.float32), tuple(map(float, mean)), tuple(map(float, std))
