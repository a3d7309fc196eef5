"""Tables in memory: named columns of numbers and of words."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ...._spelling import nearest
from ....graph.tensor import Array
from ...files.untrusted import DataError
from .number_formats import NumberFormat

if TYPE_CHECKING:
    from ..sources.array_files import StoredRows

MISSING = (
    "NA", "N/A", "n/a", "na", "N/a", "N.A.", "n.a.", "n.a", "#N/A", "#NA", "<NA>", "#N/A N/A", "NaN", "nan", "NAN", "Nan", "-nan",
    "-NaN", "NaT", "NULL", "null", "Null", "(null)", "<null>", "None", "?", "-", "--", "---", "..", "\u2013", "\u2014", "missing",
    "(missing)", "(blank)", "not available", "\\N", "#VALUE!", "#REF!", "#DIV/0!", "#NUM!", "#NAME?", "#NULL!",
)  # fmt: skip
"""Words that stand for a missing value, besides an empty cell."""
MISSING_TO_LEARN_FROM = ("none", "NONE", "nil", "NIL", "Nil", "Missing", "MISSING", "blank", "(none)", ".")
"""More of them, in columns to learn from: in one to predict they may well be classes."""
_ROWS, _CELLS = 2**14, 2**20  # that are read at a time, at most: their numbers fit into a cache


@dataclass
class Table:
    """Rows of named columns. Numbers are kept as their distance from ``centre``, so that float32 keeps their differences.

    A number that is not there is NaN, a word -1. Numbers and codes of words are in memory, or in a file if there is no room;
    :meth:`read` gives them in both cases.
    """

    source: str
    """The name that messages call it by."""
    names: list[str]
    """Names of all columns, in their order, including those that are not kept."""
    number_columns: list[str] = field(default_factory=list)
    numbers: Array = field(default_factory=lambda: np.empty((0, 0), np.float32))
    """(rows, columns of numbers) of float32."""
    centre: Array = field(default_factory=lambda: np.empty(0))
    word_columns: list[str] = field(default_factory=list)
    codes: Array = field(default_factory=lambda: np.empty((0, 0), np.int32))
    """(rows, columns of words): numbers into ``words``."""
    words: list[list[str]] = field(default_factory=list)
    exact_columns: list[str] = field(default_factory=list)
    exact: Array = field(default_factory=lambda: np.empty((0, 0)))
    """(rows, columns to predict) of float64; such columns are among those of words as well."""
    notes: list[str] = field(default_factory=list)
    """Remarks on how it was read."""
    overflowed: set[str] = field(default_factory=set)
    """Columns of words with too many different ones."""
    odd: dict[str, tuple[int, int, str]] = field(default_factory=dict)
    """Columns to predict with cells that are not numbers: how many, the row of the first, from 0 on, and its text."""
    left_out: dict[str, str] = field(default_factory=dict)
    """Columns that were not read, and why."""
    decimal: str = ""
    """The decimal sign, if the table leaves no doubt about it."""
    comma_separated: bool = False
    formats: dict[str, NumberFormat] = field(default_factory=dict)
    """Columns of numbers, targets included, that are not written with a decimal point and digits alone."""
    lookups: dict[str, Array] = field(default_factory=dict)
    """Columns of words that are numbers, the last of ``number_columns``: the number of every word, as in ``numbers``; the last
    two are for a word too many and for none."""
    dates: dict[str, str] = field(default_factory=dict)
    """Columns of words that are dates or times, with the order of day, month and year."""
    stored: StoredRows | None = None
    """The bits of numbers and, behind them, the codes of every row, if these are not in memory."""
    lines: Any = None
    """The lines of a text file that the rows begin in."""

    def __len__(self) -> int:
        return max(len(self.numbers), len(self.codes), len(self.exact), 0 if self.stored is None else len(self.stored))

    def place(self, row: int) -> str:
        """The place of a row, counted from 0, as messages call it: its line in a text file, else its number from 1 on."""
        return (
            f"{self.source}, row {row + 1}" if self.lines is None else f"{self.source}, line {self.lines.find(row)[0]}"
        )

    @property
    def nbytes(self) -> int:
        """The bytes that it takes in memory."""
        return self.numbers.nbytes + self.exact.nbytes + self.codes.nbytes

    def read(self, chosen: Any) -> tuple[Array, Array]:
        """Numbers and codes of some rows: a slice, or their numbers."""
        if self.stored is None:
            numbers, codes = self.numbers[chosen], self.codes[chosen]
        else:
            both, count = self.stored[chosen], len(self.number_columns) - len(self.lookups)
            numbers, codes = both[:, :count].view(np.float32), both[:, count:]
        if self.lookups:
            columns = [
                values[codes[:, self.word_columns.index(name)]][:, None] for name, values in self.lookups.items()
            ]
            numbers = np.concatenate([numbers, *columns], axis=1)
        return numbers, codes

    def take_numbers(self, name: str, values: Array) -> None:
        """Make a column of words one of numbers: ``values`` are the numbers of its words, of a word too many, and of a
        missing one."""
        if name in self.exact_columns:
            codes, _ = self.texts(name)
            self.exact[:, self.exact_columns.index(name)] = values[codes]
            plain = [str(int(value)) if value == int(value) else repr(value) for value in values[:-2].tolist()]
            self.words[self.word_columns.index(name)] = plain  # which classes go by
            del self.odd[name]
            return
        centre = float(np.nanmean(values))
        self.number_columns.append(name)
        self.centre = np.append(self.centre, centre)
        self.lookups[name] = (values - centre).astype(np.float32)

    def pieces(self, rows: Array | None = None) -> Iterator[tuple[Array, Array]]:
        """Numbers and codes of all rows, or of some, a few thousand at a time."""
        size = max(1, min(_ROWS, _CELLS // max(1, len(self.number_columns) + len(self.word_columns))))
        for start in range(0, len(self) if rows is None else len(rows), size):
            part = slice(start, start + size)
            yield self.read(part if rows is None else rows[part])

    def column(self, name: str) -> Array:
        """Numbers of a column, as float64."""
        i = self.number_columns.index(name)
        values: Array = (
            np.concatenate([numbers[:, i].copy() for numbers, _ in self.pieces()]).astype(np.float64) + self.centre[i]
        )
        return values

    def texts(self, name: str) -> tuple[Array, list[str]]:
        """The codes of a column of words, and what they stand for."""
        i = self.word_columns.index(name)
        if self.stored is None:
            return self.codes[:, i], self.words[i]
        return np.concatenate([codes[:, i].copy() for _, codes in self.pieces()]), self.words[i]


def find_column(name: str | int, names: Sequence[str], source: str, what: str) -> str:
    """A column by its name, or by its position: 1 is the first, -1 the last."""
    if isinstance(name, str) and name in names:
        return name
    try:
        place = int(name)
    except ValueError:
        place = 0
    if 1 <= place <= len(names) or -len(names) <= place <= -1:
        return names[place - 1 if place > 0 else place]
    listed = ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
    raise DataError(f"{source}: there is no column {name!r} for {what}.{nearest(str(name), names)} Columns: {listed}.")


def require_columns(needed: Iterable[str], names: Sequence[str], source: str) -> None:
    """Raise an error for a table without the columns that a model needs; the message names the columns that it has."""
    needed = list(needed)
    absent = [name for name in needed if name not in names]
    if absent:
        others = [name for name in names if name not in needed]
        instead = f" It has {', '.join(map(repr, others[:10]))} besides." if others else ""
        there = "there is no column" if len(absent) == 1 else "there are no columns"
        raise DataError(
            f"{source}: {there} {', '.join(map(repr, absent[:10]))}, which the model was trained with."
            f"{nearest(absent[0], others)}{instead}"
        )


def from_samples(
    samples: Any, names: Sequence[str], words: Sequence[str], who: str, formats: Mapping[str, NumberFormat],
    missing: Collection[str],
) -> Table:  # fmt: skip
    """A table from Python objects: rows as dictionaries, columns by name, a data frame, or an array.

    ``names`` are the columns that are needed, ``words`` those of them that hold words. An array has just these columns. Numbers
    may be texts in the ``formats`` of their columns; texts that are in ``missing`` stand for nothing.
    """
    columns = _columns(samples, names, who)
    absent = [name for name in names if name not in columns]
    if absent:
        raise DataError(
            f"{who}: there is no column {absent[0]!r}{_more(absent)}.{nearest(absent[0], columns)} The model needs "
            f"{', '.join(names)}."
        )
    lengths = {len(columns[name]) for name in names}
    if len(lengths) != 1 or not max(lengths):
        raise DataError(
            f"{who}: columns have {sorted(lengths)} values. Pass at least one row, and as many of each column."
        )
    (count,) = lengths
    table = Table(who, list(columns))
    table.number_columns = [name for name in names if name not in words]
    table.numbers = np.empty((count, len(table.number_columns)), np.float32)
    table.centre = np.zeros(len(table.number_columns))
    for i, name in enumerate(table.number_columns):
        values = _numbers(columns[name], name, who, formats.get(name, NumberFormat()), missing)
        there = values[np.isfinite(values)]
        table.centre[i] = there.mean() if len(there) else 0.0
        table.numbers[:, i] = values - table.centre[i]
    table.word_columns = [name for name in names if name in words]
    table.codes = np.empty((count, len(table.word_columns)), np.int32)
    for i, name in enumerate(table.word_columns):
        known: dict[str, int] = {}
        for row, value in enumerate(columns[name]):
            text = "" if _is_nothing(value, missing) else str(value).strip()
            table.codes[row, i] = known.setdefault(text, len(known)) if text else -1
        table.words.append(list(known))
    return table


def _columns(samples: Any, names: Sequence[str], who: str) -> dict[str, Any]:
    if hasattr(samples, "columns") and hasattr(samples, "__getitem__") and not isinstance(samples, np.ndarray):
        return {str(name): np.asarray(samples[name]) for name in samples.columns}  # a data frame
    if isinstance(samples, Mapping):
        single = [np.ndim(value) == 0 for value in samples.values()]
        return {str(name): [value] if all(single) else value for name, value in samples.items()}
    rows = samples if isinstance(samples, np.ndarray) else list(samples)
    if len(rows) and all(isinstance(row, Mapping) for row in rows):
        every = {str(name): None for row in rows for name in row}
        return {name: [row.get(name) for row in rows] for name in every}
    array = rows if isinstance(rows, np.ndarray) else np.array(rows, dtype=object)
    if array.ndim != 2 or array.shape[1] != len(names):
        raise DataError(
            f"{who}: samples have shape {array.shape}, but the model was trained on {len(names)} columns: {', '.join(names)}. "
            "Pass rows of those, dictionaries, or columns by name."
        )
    return {name: array[:, i] for i, name in enumerate(names)}


def _is_nothing(value: Any, missing: Collection[str]) -> bool:
    if isinstance(value, str):
        return not value.strip() or value.strip() in missing
    return value is None or (isinstance(value, (float, np.floating)) and bool(np.isnan(value))) or value is np.ma.masked


def _numbers(values: Iterable[Any], name: str, who: str, form: NumberFormat, missing: Collection[str]) -> Array:
    array = np.asarray(values)
    if array.dtype.kind in "fiub":
        return without_marks(array.astype(np.float64), missing)
    result = np.empty(len(array))
    for i, value in enumerate(array):
        text = isinstance(value, str)
        try:
            number = np.nan if _is_nothing(value, missing) else form.value(value) if text else float(value)
        except (TypeError, ValueError):
            number = None
        if number is None:
            such = f" such as {form.example}" if text else ""
            raise DataError(
                f"{who}: column {name!r} holds numbers{such} in the model, but row {i + 1} has {str(value)[:60]!r}."
            )
        result[i] = number
    return without_marks(result, missing)


def without_marks(values: Array, missing: Iterable[str]) -> Array:
    """Numbers with NaN for those that stand for a missing value, such as -999."""
    marks = [value for value in map(NumberFormat().value, missing) if value is not None]
    if marks:
        values[np.isin(values, marks)] = np.nan
    return values


def _more(names: Sequence[str]) -> str:
    return f" (nor {', '.join(map(repr, names[1:6]))})" if len(names) > 1 else ""
