"""Classes as people write them, and the class numbers that training needs; no label ever passes through a float."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from ...graph.tensor import Array
from ..files.untrusted import DataError

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
    found = [np.unique(part, return_inverse=True) for part in parts]
    names: dict[Any, str] = {}
    for (distinct, _), part in zip(found, parts, strict=True):
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
    coded = [np.array([numbers[_exact(value)] for value in distinct.tolist()], np.int64) for distinct, _ in found]
    return [code[inverse.reshape(-1)] for code, (_, inverse) in zip(coded, found, strict=True)], called


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
