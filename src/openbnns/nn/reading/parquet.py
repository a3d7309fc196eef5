"""Tables from Parquet files, with pyarrow: read in batches of rows, whatever the size of the file."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from ..._plural import plural
from .._value import Array
from ..files import DataError
from .number_formats import NumberFormat
from .store import RowStore
from .table import MISSING, Table, find_column, require_columns, without_marks

_MOST_WORDS = 20_000
_CENTRED = 10_000  # numbers of a column whose mean is its centre
_CELLS = 2**20  # that are read at a time


@dataclass
class _Column:
    """A column that is kept: as numbers, as words, or, to be predicted, as both."""

    name: str
    numeric: bool
    as_number: bool
    """Whether it is a column of numbers to learn from."""
    target: bool
    missing: Collection[str]
    """Words that stand for nothing."""
    words: dict[str, int] = field(default_factory=dict)
    overflowed: bool = False

    def codes(self, column: Any, arrow: Any) -> Array:
        """Numbers into ``words``, which grow by the words of these rows."""
        encoded = column.cast("string").dictionary_encode()
        places = [self._place(str(word)) for word in encoded.dictionary.to_pylist()]
        found: Array = np.array([*places, -1], np.int32)[np.asarray(arrow.fill_null(encoded.indices, -1), np.int64)]
        return found

    def floats(self, column: Any, arrow: Any) -> Array:
        """The numbers of these rows, NaN for those that are missing."""
        found = np.array(arrow.fill_null(column.cast("float64"), float("nan")), np.float64)
        return without_marks(found, self.missing)

    def _place(self, word: str) -> int:
        if not word.strip() or word.strip() in self.missing:
            return -1
        found = self.words.get(word)
        if found is None and len(self.words) < _MOST_WORDS:
            found = self.words[word] = len(self.words)
        if found is None:
            self.overflowed = True
        return -2 if found is None else found


def read(
    path: Path,
    *,
    targets: Sequence[str | int] | None = (),
    ignored: Collection[str | int] = (),
    categorical: Collection[str | int] = (),
    kinds: Mapping[str, str] | None = None,
    missing: Sequence[str] = (),
    formats: Mapping[str, NumberFormat] | None = None,
    room: int | None = None,
) -> Table:
    """The table in a file; arguments are those of the reader of CSV files."""
    try:
        reader, arrow = import_module("pyarrow.parquet"), import_module("pyarrow.compute")
        types = import_module("pyarrow.types")
    except ImportError as error:
        raise ImportError(f'Parquet files need pyarrow: pip install "openbnns[parquet]". ({error})') from None
    try:
        file = reader.ParquetFile(path)
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read as Parquet ({error}).") from None
    schema, source = file.schema_arrow, str(path)
    names = [str(name) for name in schema.names]
    wanted = [names[-1]] if targets is None else list(targets)
    chosen = [find_column(name, names, source, "the target") for name in wanted]
    left_out = {find_column(name, names, source, "--drop") for name in ignored}
    as_words = {find_column(name, names, source, "--categorical") for name in categorical}
    require_columns(kinds or (), names, source)
    table = Table(source, names, left_out=dict.fromkeys(left_out, "--drop"))
    columns: list[_Column] = []
    for name in names:
        if name in left_out or (kinds is not None and name not in kinds and name not in chosen):
            continue
        kind = schema.field(name).type
        kind = kind.value_type if types.is_dictionary(kind) else kind
        numeric = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind)
        if not numeric and not types.is_string(kind) and not types.is_large_string(kind):
            table.left_out[name] = f"it holds {kind}, neither numbers nor words"
            continue
        forced = None if kinds is None else kinds.get(name)
        if forced == "number" and not numeric and name not in (formats or {}):
            raise DataError(f"{path}: column {name!r} holds {kind}, but the model was trained on numbers there.")
        target = name in chosen
        as_number = not target and numeric and name not in as_words and forced != "word"
        columns.append(_Column(name, numeric, as_number, target, {*MISSING, *missing}))
    if not file.metadata.num_rows:
        raise DataError(f"{path}: there are no samples.")
    _fill(table, _Batches(file, source, [column.name for column in columns]), columns, chosen, arrow, room)
    table.notes.insert(0, f"Read {plural(len(table), 'row')} of {plural(len(names), 'column')} from a Parquet file.")
    return table


class _Batches:
    """The rows of a file, some at a time."""

    def __init__(self, file: Any, source: str, columns: list[str]) -> None:
        self._file, self._source, self._columns = file, source, columns
        self.rows = int(file.metadata.num_rows)

    def __iter__(self) -> Iterator[Any]:
        size = max(2**10, _CELLS // max(1, len(self._columns)))
        try:
            yield from self._file.iter_batches(size, columns=self._columns, use_threads=False)
        except (OSError, ValueError) as error:
            raise DataError(f"{self._source}: cannot be read as Parquet ({error}).") from None


def _fill(
    table: Table, batches: _Batches, columns: list[_Column], chosen: list[str], arrow: Any, room: int | None
) -> None:
    numbers = [column for column in columns if column.as_number]
    words = [column for column in columns if not column.as_number]
    by_name = {column.name: column for column in columns}
    exact = [by_name[name] for name in chosen if name in by_name]
    table.number_columns, table.word_columns = [c.name for c in numbers], [c.name for c in words]
    table.exact_columns = [c.name for c in exact]
    table.centre = _centres(batches, numbers, arrow)
    store = RowStore(table.source, (len(numbers), len(exact), len(words)), batches.rows, room)
    for batch in batches:
        values = [c.floats(batch.column(c.name), arrow) - m for c, m in zip(numbers, table.centre, strict=True)]
        targets = [c.floats(batch.column(c.name), arrow) if c.numeric else _NOT_A_NUMBER for c in exact]
        codes = [c.codes(batch.column(c.name), arrow) for c in words]
        done, count = 0, batch.num_rows
        while done < count:
            free = store.free()
            end = min(count, done + len(free[0]))
            for columns_of, out in zip((values, targets, codes), free, strict=True):
                for i, column in enumerate(columns_of):
                    out[: end - done, i] = column[done:end] if column is not _NOT_A_NUMBER else np.nan
            store.take(end - done)
            done = end
    for column in words:
        table.words.append(list(column.words))
        if column.overflowed:
            table.overflowed.add(column.name)
    table.odd = {column.name: (batches.rows, 1, "a word") for column in exact if not column.numeric}
    store.give_to(table)


_NOT_A_NUMBER = np.empty(0)
"""Stands for a column of words in the place of numbers."""


def _centres(batches: _Batches, columns: list[_Column], arrow: Any) -> Array:
    """The mean of the first numbers that are there, of every column."""
    found: list[list[Array]] = [[] for _ in columns]
    missing = dict.fromkeys(range(len(columns)), _CENTRED)
    for batch in batches if columns else ():
        for i, left in list(missing.items()):
            values = columns[i].floats(batch.column(columns[i].name), arrow)
            found[i].append(values[np.isfinite(values)][:left])
            missing[i] -= len(found[i][-1])
            if not missing[i]:
                del missing[i]
        if not missing:
            break
    joined = [np.concatenate(parts) for parts in found]
    return np.array([float(values.mean()) if len(values) else 0.0 for values in joined])
