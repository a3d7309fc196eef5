"""Warnings before training about columns that make results too good to be true, or add nothing."""

from __future__ import annotations

import shlex
from collections.abc import Collection

import numpy as np

from ...graph.tensor import Array
from .tables.table import Table
from .targets import Targets

_CELLS = 2**18  # that are looked at
_FEWEST = 30  # rows that show anything
_COLUMNS = 300  # of numbers that are compared with each other
_SAME = 1 - 1e-6  # correlation of columns that say the same


def suspicions(table: Table, columns: Collection[str], targets: Targets) -> list[str]:
    """Sentences about columns, of those that are used, that look like an id, like the target, or like another column."""
    count = len(table)
    if count < _FEWEST:
        return []
    most = max(_FEWEST, min(20_000, _CELLS // len(table.names)))
    rows = np.unique(np.linspace(0, count - 1, min(count, most)).astype(np.int64))
    read, codes = table.read(rows)
    names = [name for name in table.number_columns if name in columns]
    numbers = read[:, [table.number_columns.index(name) for name in names]].astype(np.float64)
    remarks = _ids(names, numbers + table.centre[[table.number_columns.index(name) for name in names]])
    y = targets.y[rows]
    for name, values in zip(names, numbers.T, strict=True):
        remarks += _leak(name, values, y, targets)
    for name in table.word_columns:
        if name in columns:
            chosen = codes[:, table.word_columns.index(name)]
            remarks += _determining(name, chosen, y, targets)
    return remarks + _twins(names, numbers)


def _ids(names: list[str], numbers: Array) -> list[str]:
    """Whole numbers of which no two are the same."""
    remarks = []
    for name, values in zip(names, numbers.T, strict=True):
        near = np.round(values)  # numbers have lost some digits
        whole = np.isfinite(values).all() and (np.abs(values - near) < 0.01).all() and np.ptp(near) < 100 * len(near)
        if whole and len(np.unique(near)) == len(near):
            remarks.append(
                f"Column {name!r} has a different whole number in every row. If it is an id, leave it out: "
                f"--drop {shlex.quote(name)}."
            )
    return remarks


def _leak(name: str, values: Array, y: Array, targets: Targets) -> list[str]:
    """A column of numbers from which the target follows."""
    there = np.isfinite(values)
    values, y = values[there], y[there]
    if len(values) < _FEWEST or np.ptp(values) == 0:
        return []
    if targets.task == "regression":
        for i, target in enumerate(targets.names):
            if np.ptp(y[:, i]) and abs(np.corrcoef(values, y[:, i])[0, 1]) > _SAME:
                return [_leaking(f"Column {name!r} says the same as the target {target!r}", name)]
        return []
    if targets.task != "classification":
        return []
    order = np.argsort(values, kind="stable")
    changes = int((np.diff(y[order]) != 0).sum())
    tied = (np.diff(values[order]) == 0) & (np.diff(y[order]) != 0)
    classes = len(np.unique(y))
    if classes > 1 and changes == classes - 1 and not tied.any():
        return [_leaking(f"The class follows from column {name!r} alone", name)]
    return []


def _determining(name: str, codes: Array, y: Array, targets: Targets) -> list[str]:
    """A column of words each of which, no word included, has one class."""
    if targets.task != "classification":
        return []
    pairs = np.unique(np.stack([codes, y]), axis=1)
    words, classes = len(np.unique(pairs[0])), len(np.unique(pairs[1]))
    if classes > 1 and pairs.shape[1] == words <= len(y) // 10:
        return [_leaking(f"The class follows from column {name!r} alone", name)]
    return []


def _leaking(what: str, name: str) -> str:
    cure = f"leave it out with --drop {shlex.quote(name)}"
    return f"{what}. If it is not known before the target is, the results mean nothing: {cure}."


def _twins(names: list[str], numbers: Array) -> list[str]:
    """Columns of numbers that say the same as another one."""
    usable = [i for i in range(len(names)) if np.isfinite(numbers[:, i]).all() and np.ptp(numbers[:, i])][:_COLUMNS]
    if len(usable) < 2:
        return []
    alike = np.abs(np.corrcoef(numbers[:, usable], rowvar=False)) > _SAME
    remarks = []
    for j in range(1, len(usable)):
        if (twins := np.flatnonzero(alike[j, :j])).size:
            one, other = names[usable[int(twins[0])]], names[usable[j]]
            remarks.append(
                f"Columns {one!r} and {other!r} say the same: one of them is enough, such as with --drop {shlex.quote(other)}."
            )
    return remarks
