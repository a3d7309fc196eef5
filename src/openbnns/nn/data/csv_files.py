"""CSV and TSV files of plain numbers, whose labels may be words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..._plural import plural
from ..._spelling import nearest
from ...files import memory_limit
from ...files.untrusted import DataError, open_expanded
from ...graph.tensor import Array

SUFFIXES = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz")
CURE = (
    "openbnns reads tables of plain numbers. Prepare others with scikit-learn: docs/sklearn.md shows a pipeline that ends "
    "in Core ML."
)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_QUOTED = re.compile(r'(?m)(?:^|(?<=[,;\t|]))"([^",;\t|\n]*)"(?=[,;\t|]|$)')
_LARGEST = float(np.finfo(np.float32).max)


class Table(NamedTuple):
    """The numbers in a file: ``x`` (rows, columns), and ``y`` (rows,) or (rows, targets) if it has targets."""

    columns: list[str]
    x: Array
    targets: list[str]
    y: Array | None
    first_line: int


def read(
    path: Path, targets: Sequence[str | int] = (-1,), columns: Sequence[str] | None = None, limit: int | None = None
) -> Table:
    """The columns of these names, by default all but the targets; the others may hold anything.

    Columns of a file without names are called 1, 2 and so on.
    """
    lines = _lines(path, limit)
    separator = next((sign for sign in "\t;|" if sign in lines[0]), ",")
    cells = [cell.strip() for cell in lines[0].split(separator)]
    labels = [_place(name, cells, path) for name in targets]
    if columns is None:
        features = [i for i in range(len(cells)) if i not in labels]
        headed = _is_headed(path, cells, features)
    else:
        features = [_place(name, cells, path) for name in columns]
        headed = not all(map(str.isdigit, columns))  # as in the file that the model was trained on
    names = cells if headed else [str(i + 1) for i in range(len(cells))]
    for i, name in enumerate(names):
        if not name or name in names[:i]:
            what = f"the name of another, {name!r}" if name else "no name"
            raise DataError(f"{path}, line 1: column {i + 1} has {what}. Give every column a name of its own.")
    rows, first = lines[headed:], 1 + headed
    if not (features and rows):
        what = "samples below the line of names" if features else "columns besides the target"
        raise DataError(f"{path}: there are no {what}. Add some.")
    for number, line in enumerate(lines if len({line.count(separator) for line in lines}) > 1 else (), 1):
        if (count := line.count(separator) + 1) != len(names):
            raise DataError(f"{path}, line {number}: has {plural(count, 'cell')}, line 1 has {len(names)}. Correct it.")
    words = len(labels) == 1 and not _NUMBER.fullmatch(rows[0].split(separator)[labels[0]].strip())
    numeric = {i: names[i] for i in (features if words else features + labels)}
    values, y = _numbers(path, rows, separator, numeric, first), None
    if words:
        y = _words(path, [row.split(separator)[labels[0]].strip() for row in rows], names[labels[0]], first)
    elif labels:
        y = _whole(path, values[:, len(features) :], names[labels[0]])
    return Table([names[i] for i in features], values[:, : len(features)], [names[i] for i in labels], y, first)


def _lines(path: Path, limit: int | None) -> list[str]:
    """The lines of a text file, without empty ones at the end and without quotes around cells."""
    if limit is None:
        memory_limit.check(path.stat().st_size, str(path), DataError)
    with open_expanded(path, limit) as (file, _):
        data = file.read()
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(f"{path}, line {line}: is not UTF-8. Save it as UTF-8, or convert it with iconv.") from None
    text = _QUOTED.sub(r"\1", text) if '"' in text else text
    for sign, what in (("\0", "zero byte"), ('"', "quote that does not enclose a plain cell")):
        if sign in text:
            raise DataError(f"{path}, line {text.count(chr(10), 0, text.index(sign)) + 1}: has a {what}. {CURE}")
    if not text.strip():
        raise DataError(f"{path}: the file is empty. Give a table with at least one row.")
    return text.rstrip("\n ").split("\n")


def _place(name: str | int, cells: Sequence[str], path: Path) -> int:
    """The index of a column that is given by its name, or by its position: 1 is the first, -1 the last."""
    place = int(name) if re.fullmatch(r"-?\d{1,9}", str(name), re.ASCII) else 0
    if place and -len(cells) <= place <= len(cells):
        return (place - (place > 0)) % len(cells)
    if name not in cells:
        known = f"{nearest(str(name), cells)} Columns: {', '.join(cells[:20])}."
        raise DataError(f"{path}: there is no column {name!r}.{known}")
    return cells.index(str(name))


def _is_headed(path: Path, cells: list[str], places: list[int]) -> bool:
    """True if the first line holds names of features; one that may hold names or a sample is refused."""
    features = [cells[i] for i in places]
    words = [cell for cell in features if not _NUMBER.fullmatch(cell)]
    counted = len(features) > 2 and any(features == [str(n + i) for i in range(len(features))] for n in (0, 1))
    if counted or 0 < len(words) < len(features):
        what = "counts its columns" if counted else f"has {words[0]!r} among numbers"
        raise DataError(f"{path}, line 1: {what}: names, or a sample? Name columns with words, or correct it.")
    return bool(words)


def _numbers(path: Path, rows: list[str], separator: str, columns: dict[int, str], first: int) -> Array:
    """The numbers in some columns; raises an error that names the first cell that is none."""
    with suppress(ValueError):
        values = np.loadtxt(rows, comments=None, delimiter=separator, usecols=[*columns], ndmin=2)
        if (np.abs(values) <= _LARGEST).all():  # which NaN is not
            return values
    for number, row in enumerate(rows, first):
        cells = row.split(separator)
        for place, name in columns.items():
            cell = cells[place].strip()
            if not _NUMBER.fullmatch(cell) or abs(float(cell)) > _LARGEST:
                what = f"{cell[:60]!r}, which is {'too large' if _NUMBER.fullmatch(cell) else 'not a number'}"
                raise DataError(f"{path}, line {number}: column {name!r} is {what if cell else 'empty'}. {CURE}")
    raise DataError(f"{path}: its numbers cannot be read. {CURE}")


def _words(path: Path, words: list[str], name: str, first: int) -> Array:
    """Labels that are words."""
    for word in dict.fromkeys(words):
        if _NUMBER.fullmatch(word) or word.lower() in ("", "?", "na", "n/a", "nan", "null") or len(word) > 200:
            place = f"{path}, line {first + words.index(word)}: column {name!r} is {word[:60]!r}"
            raise DataError(f"{place}, but {words[0][:60]!r} in line {first}. Write all as words, or all as numbers.")
    return np.array(words)


def _whole(path: Path, values: Array, name: str) -> Array:
    """Targets that are numbers, as integers if all are whole."""
    if (values == np.round(values)).all():
        if np.abs(values).max() >= 2**53:  # several may have become one
            raise DataError(f"{path}: column {name!r} has whole numbers beyond 2**53. Write classes as words.")
        values = values.astype(np.int64)
    return values[:, 0] if values.shape[1] == 1 else values
