"""Targets: classes, several labels, or numbers, found from the data unless the task is given; classes become numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...files.untrusted import DataError
from ...graph.tensor import Array

_PLAIN_DIGITS = 18  # whole numbers of more digits are shown as they were written


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
    if (y != np.round(y)).any():
        return "regression", "there are fractions"
    different = len(np.unique(y))
    if different > _MANY and different > 0.1 * len(y):
        return "regression", f"there are {different:,} different values"
    return "classification", f"there are {different:,} different whole numbers"


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
