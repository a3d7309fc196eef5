"""Tables in files, read by pyarrow in batches of rows: columns become the numbers and words of a :class:`Table`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol

import numpy as np

from ....graph.tensor import Array
from .dates import is_date
from .number_formats import NumberFormat, is_number, plain_number
from .row_store import RowStore
from .table import Table

MOST_WORDS = 20_000  # different ones in a column
MOST_NUMBERS = 2**20  # the same for words that are numbers or dates
_CENTRED = 2**18  # cells of the first rows, whose means are the centres of columns


def module(name: str) -> Any:
    """A module of pyarrow, which reads every kind of table."""
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(f'Tables need pyarrow: pip install "openbnns[data]". ({error})') from None


class Batches(Protocol):
    """The rows of a file."""

    source: str
    """The name that messages call it by."""
    rows: int
    """About how many there are."""

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Arrays of pyarrow by column, some rows at a time; numbers as float64, words as strings."""


@dataclass
class Column:
    """A column that is kept: as numbers, as words, or, to be predicted, as both."""

    name: str
    as_number: bool
    """True if it is a column of numbers to learn from."""
    target: bool
    missing: Collection[str]
    """Words that stand for a missing value."""
    decimal: str = "."
    words: dict[str, int] = field(default_factory=dict)
    overflowed: bool = False
    doubtful: bool = False
    """True if a cell looks as if a quote were missing, or as if the file were not text."""
    odd: int = 0
    """Cells of a target that are not numbers."""
    first_odd: tuple[int, str] = (0, "")
    """The row, from 0 on, and the text of the first of them."""
    _most: int = 0

    def __post_init__(self) -> None:
        self._most = MOST_WORDS
        marks = (NumberFormat().value(word) for word in self.missing)
        self._marks = [value for value in marks if value is not None]

    def numbers(self, column: Any) -> Array:
        """The numbers of these rows as float64, NaN for those that are missing."""
        wide = column if str(column.type) == "double" else column.cast("float64")
        result: Array = wide.to_numpy(zero_copy_only=False)
        if self._marks:
            result = np.where(np.isin(result, self._marks), np.nan, result)
        return result

    def codes(self, column: Any, row: int) -> tuple[Array, Array]:
        """Places in ``words``, which grow by the words of these rows; and, for a target, the numbers that the words are."""
        encoded = column.cast("string").dictionary_encode()
        raw = encoded.dictionary.to_pylist()
        self.doubtful |= any("\0" in cell or ("\n" in cell and ('"' in cell or cell[-1] == "\n")) for cell in raw)
        cells = list(map(_stripped, raw))
        indices = encoded.indices.fill_null(len(cells)) if encoded.indices.null_count else encoded.indices
        chosen = np.asarray(indices, np.int64)
        places = np.array([*map(self._place, cells), -1], np.int32)
        if not self.target:
            return places[chosen], np.empty(0)
        values = [
            np.nan if place == -1 else plain_number(cell, self.decimal)
            for cell, place in zip(cells, places, strict=False)
        ]
        is_odd = np.array([*(value is None for value in values), False])
        if is_odd.any():
            where = is_odd[chosen]
            if not self.odd:
                first = int(np.argmax(where))
                self.first_odd = row + first, cells[chosen[first]]
            self.odd += int(where.sum())
        return places[chosen], np.array([*values, None], np.float64)[chosen]

    def _place(self, word: str) -> int:
        if not word or word in self.missing:
            return -1
        place = self.words.get(word)
        if place is None and len(self.words) == self._most == MOST_WORDS and (self.odd or not self.target):
            valued = all(is_number(known) or is_date(known) for known in list(self.words)[::20])
            self._most = MOST_NUMBERS if valued else MOST_WORDS
        if place is None and len(self.words) < self._most:
            place = self.words[word] = len(self.words)
        if place is None:
            self.overflowed = True
        return -2 if place is None else place


def _stripped(cell: str) -> str:
    """A cell without blanks around it, and without quotes behind a blank, which pyarrow takes for a part of the cell."""
    text = cell.strip()
    return (
        text[1:-1].replace('""', '"').strip() if len(text) > 1 and text != cell and text[0] == text[-1] == '"' else text
    )


def fill(
    table: Table,
    batches: Batches,
    columns: Sequence[Column],
    targets: Sequence[str],
    room: int | None,
    *,
    centre: Callable[[str], float | None] = lambda name: None,
    too_large: Callable[[str, int], Exception],
) -> None:
    """Read the columns of all rows into a table; in more than ``room`` bytes they stay in a temporary file.

    ``too_large`` gives the error for a column and a row, from 0 on, with a number that float32 does not hold.
    """
    numbers = [column for column in columns if column.as_number]
    words = [column for column in columns if not column.as_number]
    by_name = {column.name: column for column in columns}
    exact = [by_name[name] for name in targets]
    table.number_columns, table.word_columns = [c.name for c in numbers], [c.name for c in words]
    table.exact_columns = [c.name for c in exact]
    store = RowStore(table.source, (len(numbers), len(exact), len(words)), batches.rows, room)
    centres: list[float] | None = None
    scratch = np.empty((len(numbers), 0))  # kept from batch to batch, because new memory costs more than the sums
    row = 0
    first = max(100, _CENTRED // max(1, len(numbers))) if numbers else 0
    for batch in _first_joined(batches, first):
        count = len(next(iter(batch.values())))
        if centres is None:
            centres = [_centre(centre(c.name), c.numbers(batch[c.name][:first])) for c in numbers]
        if count > scratch.shape[1]:
            scratch = np.empty((len(numbers), count))
        values = scratch[:, :count]
        for column, middle, into in zip(numbers, centres, values, strict=True):
            np.subtract(column.numbers(batch[column.name]), middle, out=into)
        coded = {column.name: column.codes(batch[column.name], row) for column in words}
        done = 0
        while done < count:
            free = store.free()
            end = min(count, done + len(free[0]))
            part, size = slice(done, end), end - done
            with np.errstate(over="ignore", invalid="ignore"):
                free[0][:size] = values[:, part].T
                suspicious = not np.isfinite(free[0][:size].sum())
            if suspicious and np.isinf(free[0][:size]).any():
                place, i = np.argwhere(np.isinf(free[0][:size]))[0]
                raise too_large(numbers[i].name, row + done + int(place))
            for i, target in enumerate(exact):
                free[1][:size, i] = coded[target.name][1][part]
            for i, (places, _) in enumerate(coded.values()):
                free[2][:size, i] = places[part]
            store.take(size)
            done = end
        row += count
    table.centre = np.zeros(len(numbers)) if centres is None else np.array(centres)
    table.words = [list(column.words) for column in words]
    table.overflowed = {column.name for column in words if column.overflowed}
    table.odd = {column.name: (column.odd, *column.first_odd) for column in exact if column.odd}
    store.give_to(table)


def _first_joined(batches: Batches, rows: int) -> Iterator[dict[str, Any]]:
    """Batches whose first has at least this many rows, if there are as many, so that centres do not depend on the sizes of
    batches."""
    arrow = module("pyarrow")
    kept: list[dict[str, Any]] = []
    count = 0
    for batch in batches:
        count += len(next(iter(batch.values())))
        kept.append(batch)
        if count >= rows:
            yield kept[0] if len(kept) == 1 else {n: arrow.concat_arrays([part[n] for part in kept]) for n in batch}
            kept = []
    if kept:
        yield {name: arrow.concat_arrays([part[name] for part in kept]) for name in kept[0]}


def _centre(known: float | None, values: Array) -> float:
    if known is not None:
        return known
    there = values[np.abs(values) <= np.finfo(np.float32).max]  # a larger one is refused, and would hide all others
    return float(there.mean()) if len(there) else 0.0
