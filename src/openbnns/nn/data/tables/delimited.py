"""The format of a table in a text file: separator, decimal sign, names; found from its first lines."""

from __future__ import annotations

import csv
import io
import re
import time
import weakref
from collections import Counter
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from ...._plural import plural
from ...files.memory_limit import size_text
from ...files.untrusted import DataError, open_expanded
from . import number_formats
from .arrow import Column, fill, module
from .number_formats import FEW, NumberFormat, plain_number
from .table import MISSING, MISSING_TO_LEARN_FROM, Table, find_column, require_columns

SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
_LINES_STUDIED = 200  # that are looked at
_CELLS_STUDIED = 10_000  # the same for tables with many columns
_POINTED = re.compile(r"[+-]?\d+(\.\d+)?", re.ASCII)
_CODE = re.compile(r"0\d+", re.ASCII)


@dataclass(frozen=True)
class Format:
    """The format of a table in a text file."""

    separator: str
    decimal: str
    """The decimal sign of cells that are read as numbers; "" if only whole numbers are, because signs are in doubt."""
    certain: str
    """The decimal sign if it was given, or cells leave no doubt about it, else ""."""
    names: list[str]
    headed: bool
    """True if the first line holds the names."""
    blank: int
    """Empty lines before the first that is not."""
    sample: list[list[str]]
    """Cells of the first rows, by column, without those that are missing."""
    notes: tuple[str, ...] = ()

    @property
    def description(self) -> str:
        """For people."""
        named = {**SEPARATORS, " ": "space"}
        parts = [f"{named.get(self.separator, repr(self.separator))} as separator"]
        if self.decimal == ",":
            parts.append("comma as decimal sign")
        parts.append("names in the first line" if self.headed else "no line of names")
        return ", ".join(parts)


def find_format(
    text: str,
    path: Path,
    *,
    separator: str | None,
    header: bool | None,
    missing: tuple[str, ...],
    whole: bool,
    decimal: str = "",
) -> Format:
    """The format of a table that begins with this text; ``whole`` says that it is all of it."""
    lines = list(io.StringIO(text, newline=""))
    if not whole and len(lines) > 1:
        lines.pop()  # which may be cut
    lines = lines[: _LINES_STUDIED * 4]
    if not any(line.strip() for line in lines):
        raise DataError(f"{path}: there are no samples: the file is empty.")
    separator = _separator(lines, path) if separator is None else _named_separator(separator)
    rows = _cells_of(lines, separator)[:_LINES_STUDIED]
    headed = _is_headed(rows, missing) if header is None else header
    below = rows[1:] if headed else rows
    columns = _columns_of(below[: max(5, _CELLS_STUDIED // len(rows[0]))], len(rows[0]), missing)
    native, certain = _decimal(columns, separator, decimal)
    names = [name.strip() for name in rows[0]] if headed else [str(i + 1) for i in range(len(rows[0]))]
    names = [name or str(i + 1) for i, name in enumerate(names)]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise DataError(
            f"{path}, line 1: the name {twice[0]!r} stands there twice. Give every column a name of its own."
        )
    blank = next(i for i, line in enumerate(lines) if line.strip())
    return Format(separator, native, certain, names, headed, blank, columns, tuple(_notes(names, columns)))


def _decimal(columns: list[list[str]], separator: str, given: str) -> tuple[str, str]:
    """The decimal sign of plain numbers, and the one that is certain."""
    signs = number_formats.decimals_of({cell for column in columns for cell in column})
    certain = given or (signs.pop() if len(signs) == 1 else "")
    if certain == ",":
        return ("" if separator == "," else ","), certain
    pointed = [column for column in columns if column and all(map(_POINTED.fullmatch, column))]
    doubtful = not certain and separator != "," and any(map(number_formats.may_be_thousands, pointed))
    return ("" if doubtful else "."), certain


def _notes(names: list[str], columns: list[list[str]]) -> Iterator[str]:
    """Notes on names and cells."""
    known: dict[str, str] = {}
    for name in names:
        other = known.setdefault(name.casefold(), name)
        if other != name:
            yield f"Columns {other!r} and {name!r} differ only in upper and lower case: they are two columns."
    for name, column in zip(names, columns, strict=True):
        code = next(filter(_CODE.fullmatch, column), None)
        if code is not None and all(map(_POINTED.fullmatch, column)):
            yield (
                f"Column {name!r} has numbers with leading zeros such as {code}, which are read as {code.lstrip('0') or '0'} "
                f"(--categorical {name} if they are codes)."
            )


def _named_separator(separator: str) -> str:
    named = {name: sign for sign, name in SEPARATORS.items()} | {"\\t": "\t", "space": " "}
    sign = named.get(separator, separator)
    if len(sign.encode()) != 1 or sign in '"\r\n':
        raise ValueError(f"--separator is {separator!r}. Give one character, or comma, semicolon, tab, bar or space.")
    return sign


def _cells_of(lines: list[str], separator: str) -> list[list[str]]:
    try:
        reader = csv.reader(lines, delimiter=separator, skipinitialspace=separator != " ")
        return [row for row in reader if any(cell.strip() for cell in row)]
    except csv.Error:
        return [line.split(separator) for line in lines if line.strip()]


def _separator(lines: list[str], path: Path) -> str:
    """The sign that cuts most lines into the same number of cells, more than one."""
    best, score = "", 0.0
    for sign in SEPARATORS:
        counts = Counter(len(row) for row in _cells_of(lines, sign)[:_LINES_STUDIED])
        (cells, times) = counts.most_common(1)[0] if counts else (1, 0)
        share = times / max(1, sum(counts.values()))
        if cells > 1 and share + 1e-3 * min(cells, 100) > score:
            best, score = sign, share + 1e-3 * min(cells, 100)
    if not best:
        first = next(line for line in lines if line.strip()).rstrip()
        raise DataError(
            f"{path}: there is no comma, semicolon, tab or bar between the values of the first line, {first[:60]!r}. Say what "
            'separates them: --separator X (in Python separator="X").'
        )
    return best


def _columns_of(rows: list[list[str]], count: int, missing: tuple[str, ...]) -> list[list[str]]:
    """The cells of every column, without missing ones."""
    none = {"", *missing}
    return [[row[i].strip() for row in rows if i < len(row) and row[i].strip() not in none] for i in range(count)]


def _is_headed(rows: list[list[str]], missing: tuple[str, ...]) -> bool:
    """True if the first line holds names: not numbers, unlike the lines below, or at least cells that do not occur again."""
    first = rows[0]
    if any(number_formats.is_number(cell) or cell.strip() in missing for cell in first):
        return False
    columns = _columns_of(rows[1:], len(first), missing)
    if any(column and all(map(number_formats.is_number, column)) for column in columns):
        return True
    if len(set(map(str.strip, first))) < len(first):
        return False
    return not any(cell.strip() in column for cell, column in zip(first, columns, strict=True))


def decoded(head: bytes, path: Path) -> str:
    """The beginning of a file as text; a character that is cut at its end is left out."""
    for cut in range(4):
        try:
            return io.TextIOWrapper(io.BytesIO(head[: len(head) - cut]), "utf-8-sig", newline="").read()
        except UnicodeDecodeError as error:
            if error.start < len(head) - 4:
                line = head[: error.start].count(b"\n") + 1
                raise not_text(path, line, head) from None
    raise not_text(path, 1, head)


def not_text(path: Path, line: int, head: bytes = b"") -> DataError:
    """An error for a line that is not UTF-8, with the command that most likely helps."""
    wide = head.startswith((b"\xff\xfe", b"\xfe\xff"))
    if b"\0" in head and not wide:
        return DataError(f"{path}, line {line}: is not text: the file has zero bytes. Is this a table?")
    return DataError(
        f"{path}, line {line}: is not UTF-8. Convert the file, for instance: "
        f"iconv -f {'UTF-16' if wide else 'WINDOWS-1252'} -t UTF-8 {path} > utf8.csv"
    )


_IGNORED, _NUMBER, _SPACED, _WORD, _TARGET = range(5)
"""Kinds of columns; numbers are spaced if pyarrow refuses some because of blanks around a word for a missing value."""
_PIECE = 2**20  # bytes that are read at a time; larger pieces take longer, because they leave the cache
_HEAD = 2**18  # that the format is found from
_LONGEST_LINE = 2**24
_LONGEST_WAIT = 10  # seconds, for pyarrow's threads: they need milliseconds
_ROW = 40  # bytes that a row takes in memory in any case: its target and its places in the order of the samples


def read(
    path: Path,
    *,
    targets: Sequence[str | int] | None = (),
    ignored: Collection[str | int] = (),
    categorical: Collection[str | int] = (),
    kinds: Mapping[str, str] | None = None,
    centre: Mapping[str, float] | None = None,
    separator: str | None = None,
    header: bool | None = None,
    missing: Sequence[str] = (),
    decimal: str = "",
    formats: Mapping[str, NumberFormat] | None = None,
    limit: int | None = None,
    room: int | None = None,
) -> Table:
    """The table in a file. ``targets`` are the columns to predict, kept exactly; without any the last one, with () none.

    With ``kinds``, which a model knows, columns are "number" or "word" as they say, and all others are ignored; numbers with a
    format of their own are read as words, which ``number_formats.convert`` makes numbers of. A compressed file may expand to
    ``limit`` bytes. A table of more than ``room`` bytes stays in a temporary file.
    """
    nothing = (*MISSING, *missing)
    if path.suffix.lower() != ".gz":
        limit = None  # the file does not expand: what has no room is streamed
    with open_expanded(path, limit) as (file, _):
        head = file.read(_HEAD)
    text, whole = decoded(head, path), len(head) < _HEAD
    if separator is None and kinds is not None and text.strip().partition("\n")[0].strip().strip('"') in kinds:
        separator = ","  # there is one column, so that nothing separates it from others
    form = find_format(text, path, separator=separator, header=header, missing=nothing, whole=whole, decimal=decimal)
    names, source = form.names, str(path)
    wanted = [find_column(name, names, source, "the target") for name in ([names[-1]] if targets is None else targets)]
    chosen = _chosen(form, source, ignored, categorical, kinds, formats or {})
    chosen |= dict.fromkeys(wanted, _TARGET)
    lines = text.count("\n") + text.count("\r") - text.count("\r\n")
    reading = _Reading(path, form, nothing, chosen, limit, len(head) / max(1, lines), fixed=kinds is not None)
    table = reading.table(wanted, centre or {}, room)
    table.left_out |= {find_column(name, names, source, "--drop"): "--drop" for name in ignored}
    return table


def _chosen(
    form: Format,
    source: str,
    ignored: Collection[str | int],
    categorical: Collection[str | int],
    kinds: Mapping[str, str] | None,
    formats: Mapping[str, NumberFormat],
) -> dict[str, int]:
    """The kind of every column: as it is said, or as it seems to be from the first rows."""
    names = form.names
    if kinds is None:
        guessed = {name: _guess(cells, form.decimal) for name, cells in zip(names, form.sample, strict=True)}
    else:
        require_columns(kinds, names, source)
        plain = NumberFormat(form.decimal or ".")
        guessed = {name: _WORD if name in kinds else _IGNORED for name in names}
        guessed |= {n: _NUMBER for n, kind in kinds.items() if kind == "number" and formats.get(n, plain) == plain}
    for name in categorical:
        guessed[find_column(name, names, source, "--categorical")] = _WORD
    for name in ignored:
        guessed[find_column(name, names, source, "--drop")] = _IGNORED
    return guessed


def _guess(cells: Sequence[str], decimal: str) -> int:
    odd = [cell for cell in cells if plain_number(cell, decimal) is None]
    return _WORD if odd and len(odd) >= FEW * len(cells) else _NUMBER


@dataclass
class _Odd:
    """Cells of a column of numbers that are not numbers."""

    row: int
    cell: str
    """The first of them."""
    count: int = 0
    there: int = 0
    """Cells that are not missing."""


class _Reading:
    """One table on its way from a file into memory."""

    def __init__(
        self, path: Path, form: Format, missing: Sequence[str], kinds: dict[str, int], limit: int | None, row_bytes: float, *,
        fixed: bool,
    ) -> None:  # fmt: skip
        self.path, self.form, self.missing, self.kinds, self.limit = path, form, missing, kinds, limit
        self.fixed = fixed  # whether kinds may not change
        self._row_bytes = max(1.0, row_bytes)
        self._piece = _PIECE

    @cached_property
    def expanded_size(self) -> int:
        """The size of the text in a compressed file, which is refused if that is damaged or has no room.

        pyarrow's threads then decompress it themselves: they would call Python for a file of Python's, even after its rows
        are given up and while the interpreter ends, which aborts the process.
        """
        with open_expanded(self.path, self.limit) as (file, _):
            return sum(map(len, iter(partial(file.read, _PIECE), b"")))

    def table(self, targets: Sequence[str], centre: Mapping[str, float], room: int | None) -> Table:
        csv_reader, arrow = module("pyarrow.csv"), module("pyarrow")
        form = self.form
        while True:
            table = Table(str(self.path), list(form.names), lines=Lines(self.path, form, self.limit))
            columns = self._columns()
            too_large = partial(self._too_large, table.lines)
            try:
                with _Batches(self, csv_reader, arrow, table.lines, self.kinds) as batches:
                    fill(table, batches, columns, targets, room, centre=centre.get, too_large=too_large)
                break
            except arrow.ArrowInvalid as error:
                self._amend(csv_reader, arrow, error)
        if not len(table):
            raise DataError(f"{self.path}: there are no samples{' below the line of names' if form.headed else ''}.")
        if any(column.doubtful for column in columns):
            table.lines.check()
        table.decimal, table.comma_separated = form.certain, form.separator == ","
        if form.decimal == ",":
            plain = [name for name in targets if name not in table.odd]
            table.formats = dict.fromkeys([*table.number_columns, *plain], NumberFormat(","))
        table.notes.insert(
            0, f"Read {plural(len(table), 'row')} of {plural(len(form.names), 'column')}: {form.description}."
        )
        table.notes[1:1] = form.notes
        if skipped := len(table.lines.skipped):
            what = f"{plural(skipped, 'line')} without any value {'is' if skipped == 1 else 'are'} skipped."
            table.notes.insert(1 + len(form.notes), what)
        return table

    def _columns(self) -> list[Column]:
        kinds = {name: kind for name, kind in self.kinds.items() if kind != _IGNORED}
        return [
            Column(name, kind in (_NUMBER, _SPACED), kind == _TARGET, self._nothing(kind), self.form.decimal)
            for name, kind in kinds.items()
        ]

    def _nothing(self, kind: int) -> set[str]:
        """Words that stand for a missing value in a column of this kind."""
        return {*self.missing, *(() if kind == _TARGET else MISSING_TO_LEARN_FROM)}

    def _too_large(self, lines: Lines, name: str, row: int) -> DataError:
        line, cells = lines.find(row)
        return DataError(
            f"{self.path}, line {line}: column {name!r} is {cells[self.form.names.index(name)]}, too large to compute with. "
            f"Correct it, or leave the column out: --drop {name}."
        )

    def _amend(self, csv_reader: Any, arrow: Any, error: Exception) -> None:
        """After pyarrow has refused the file: raise an error that says why, or change what it is to be read as."""
        texts = {name: _WORD if kind in (_NUMBER, _SPACED) else _IGNORED for name, kind in self.kinds.items()}
        lines = Lines(self.path, self.form, self.limit)
        try:
            with _Batches(self, csv_reader, arrow, lines, texts) as batches:
                misfits = self._odd_cells(batches)
        except arrow.ArrowInvalid:
            longest = lines.check()
            if longest < self._piece:
                raise DataError(f"{self.path}: cannot be read as a table ({error}).") from None
            self._piece = 2 * _LONGEST_LINE
            return
        lines.check_bytes()
        before = dict(self.kinds)
        for name, odd in misfits.items():
            if odd is None:
                self.kinds[name] = _SPACED
            else:
                self._refuse(name, odd, lines)
                self.kinds[name] = _WORD
        if self.kinds == before:
            raise DataError(f"{self.path}: cannot be read as a table ({error}).")

    def _odd_cells(self, batches: _Batches) -> dict[str, _Odd | None]:
        """Columns of numbers with cells that are not numbers; None for a column with nothing worse than blanks around its
        cells."""
        by_column: dict[str, _Odd | None] = {}
        there: dict[str, int] = {}
        missing, decimal, row = {"", *self._nothing(_NUMBER)}, self.form.decimal, 0
        for batch in batches:
            for name, column in batch.items():
                if self.kinds[name] not in (_NUMBER, _SPACED):
                    continue
                encoded = column.dictionary_encode()
                cells, places = encoded.dictionary.to_pylist(), np.asarray(encoded.indices)
                gone = [i for i, cell in enumerate(cells) if cell.strip() in missing]
                there[name] = there.get(name, 0) + len(column) - int(np.isin(places, gone).sum())
                if any(cell != cell.strip() for cell in cells):
                    by_column.setdefault(name, None)
                odd = [
                    i for i, cell in enumerate(cells)
                    if cell.strip() not in missing and plain_number(cell.strip(), decimal) is None
                ]  # fmt: skip
                if odd:
                    where = np.isin(places, odd)
                    first = int(np.argmax(where))
                    known = by_column.get(name) or _Odd(row + first, cells[places[first]].strip())
                    known.count += int(where.sum())
                    by_column[name] = known
            row += len(column)
        for name, odd_cells in by_column.items():
            if odd_cells is not None:
                odd_cells.there = there[name]
        return by_column

    def _refuse(self, name: str, odd: _Odd, lines: Lines) -> None:
        """Raise an error for a column of numbers in which a few cells are not."""
        line, _ = lines.find(odd.row)
        where, cell = f"{self.path}, line {line}: column {name!r}", odd.cell
        if self.fixed:
            example = NumberFormat("," if self.form.decimal == "," else ".").example
            cure = (
                " If the file writes all numbers so: --decimal, --thousands." if number_formats.is_number(cell) else ""
            )
            raise DataError(f"{where} is {cell!r}, but the model was trained on numbers such as {example} there.{cure}")
        if odd.count < FEW * odd.there and not number_formats.is_number(cell):
            more = odd.count - 1
            others = f", and {plural(more, 'more line')} {'has' if more == 1 else 'have'} such cells" if more else ""
            unnamed = odd.row == 0 and not self.form.headed
            names = " If the first line holds names: --header." if unnamed else ""
            raise DataError(
                f"{where} is {cell!r}, but other lines have numbers there{others}. Correct it; or say that it stands for a "
                f"missing value: --missing {cell!r}; or that the column holds words: --categorical {name}.{names}"
            )


class _SkipBlankRows:
    """Tell pyarrow to skip rows without any text among those that do not have the right number of cells."""

    def __call__(self, row: Any) -> str:
        return "error" if row.text.strip() else "skip"


class _Batches:
    """The rows of a text file, some at a time, without lines that have no value at all.

    At the end of a ``with`` block, pyarrow's threads have let go of all that belongs to Python, even if the rows were given
    up: a thread that did so while the interpreter ends would abort the process.
    """

    def __init__(self, reading: _Reading, csv_reader: Any, arrow: Any, lines: Lines, kinds: Mapping[str, int]) -> None:
        self.source = str(reading.path)
        self._reading, self._csv, self._arrow, self._lines, self._kinds = reading, csv_reader, arrow, lines, kinds
        self._compressed = reading.path.suffix.lower() == ".gz"
        size = 0 if self._compressed else reading.path.stat().st_size
        self.rows = int(size / reading._row_bytes * 1.02) + 64 if size else 2**14
        self._batches: Generator[dict[str, Any], None, None] | None = None

    def __enter__(self) -> _Batches:
        return self

    def __exit__(self, *_: object) -> None:
        if self._batches is not None:
            self._batches.close()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        self._batches = self._read()
        return self._batches

    def _read(self) -> Generator[dict[str, Any], None, None]:
        reading, form, reader = self._reading, self._reading.form, self._csv
        arrow, row = self._arrow, 0
        types = {name: arrow.float64() if kind == _NUMBER else arrow.string() for name, kind in self._kinds.items()}
        path, size = str(reading.path), reading.expanded_size if self._compressed else 0
        with open_expanded(reading.path, reading.limit) as (_, budget):
            budget.take(size, at_least=True)
            skip_blank_rows: _SkipBlankRows | None = _SkipBlankRows()
            held = weakref.ref(skip_blank_rows)
            batches: Any = None
            try:
                batches = reader.open_csv(
                    arrow.CompressedInputStream(path, "gzip") if self._compressed else path,
                    read_options=reader.ReadOptions(
                        block_size=reading._piece, column_names=form.names, skip_rows=form.blank,
                        skip_rows_after_names=int(form.headed),
                    ),
                    parse_options=reader.ParseOptions(
                        delimiter=form.separator, newlines_in_values=True, invalid_row_handler=skip_blank_rows,
                    ),
                    convert_options=reader.ConvertOptions(
                        column_types=types, null_values=["", *reading._nothing(_NUMBER)],
                        quoted_strings_can_be_null=True, decimal_point=form.decimal or "\x01",
                    ),
                )  # fmt: skip
                for batch in batches:
                    count = batch.num_rows
                    if self._compressed:
                        budget.take(_ROW * count, at_least=True)
                    columns = self._without_empty(batch, row)
                    row += count
                    yield {
                        name: self._numbers(column) if self._kinds[name] == _SPACED else column
                        for name, column in columns.items()
                    }
            finally:
                batches = skip_blank_rows = None  # from here on only pyarrow's threads may have it
                _wait_until_released(held)

    def _without_empty(self, batch: Any, row: int) -> dict[str, Any]:
        """The columns of a batch, without rows that consist of separators alone, as spreadsheets write them."""
        compute, arrow = module("pyarrow.compute"), self._arrow
        columns = dict(zip(self._reading.form.names, batch.columns, strict=True))
        if any(columns[name].null_count == 0 for name, kind in self._kinds.items() if kind == _NUMBER):
            return columns  # as in nearly every batch, at no cost
        nothing = np.ones(batch.num_rows, bool)
        for column in columns.values():
            nothing &= np.asarray(column.is_null() if column.type == arrow.float64() else compute.equal(column, ""))
            if not nothing.any():
                return columns
        empty = [i for i in np.flatnonzero(nothing).tolist() if not any(map(str.strip, self._lines.find_raw(row + i)))]
        if not empty:
            return columns
        self._lines.skipped += [row + i for i in empty]
        kept = arrow.array(~np.isin(np.arange(batch.num_rows), empty))
        return {name: column.filter(kept) for name, column in columns.items()}

    def _numbers(self, column: Any) -> Any:
        """Numbers with blanks around words that stand for missing ones."""
        compute, decimal = module("pyarrow.compute"), self._reading.form.decimal
        cells = compute.utf8_trim_whitespace(column)
        nothing = compute.is_in(cells, value_set=self._arrow.array(["", *self._reading._nothing(_NUMBER)]))
        cells = compute.if_else(nothing, None, cells)
        if decimal == ",":
            cells = compute.replace_substring(cells, ",", ".")
        return cells.cast("float64")


def _wait_until_released(held: weakref.ref[Any]) -> None:
    """Wait until nothing holds an object; threads that read ahead keep it for a few blocks more."""
    end = time.monotonic() + _LONGEST_WAIT
    while held() is not None and time.monotonic() < end:
        time.sleep(1e-4)


class Lines:
    """The lines of a text file that rows begin in; found by reading it with Python's csv, which takes its time."""

    def __init__(self, path: Path, form: Format, limit: int | None) -> None:
        self.path, self.form, self.limit = path, form, limit
        self.skipped: list[int] = []
        """Rows of the file that the table does not have, counted from 0, in order."""
        self._rows: Iterator[tuple[int, list[str]]] = iter(())
        self._next = self._quotes = 0  # the latter in the line that was read last

    def find(self, row: int) -> tuple[int, list[str]]:
        """The line and the cells of a row of the table, counted from 0."""
        return next(self.find_all([row]))

    def find_all(self, rows: Iterable[int]) -> Iterator[tuple[int, list[str]]]:
        """The same for several rows, in order."""
        wanted, skipped, place = iter(rows), set(self.skipped), 0
        row = next(wanted, None)
        for number, numbered in enumerate(self.walk()):
            if row is None:
                return
            if number in skipped:
                continue
            while place == row:
                yield numbered
                row = next(wanted, None)
            place += 1

    def find_raw(self, row: int) -> list[str]:
        """The cells of a row of the file; quick for rows in order."""
        if row < self._next or not self._next:
            self._rows, self._next = self.walk(), 0
        while self._next <= row:
            _, cells = next(self._rows)
            self._next += 1
        return cells

    def check(self) -> int:
        """Refuse a file that is not a table of text, with the line; the length of its longest line."""
        longest = 0
        names, headed = self.form.names, self.form.headed
        for line, cells in self.walk(strict=True):
            longest = max(longest, sum(map(len, cells)) + len(cells))
            if len(cells) != len(names):
                before = "the first line has" if headed else "the lines before have"
                raise DataError(
                    f"{self.path}, line {line}: {plural(len(cells), 'value')}, but {before} {len(names)}. Correct the line; a "
                    f"cell with {self.form.separator!r} in it stands in quotes, without a blank before them."
                )
            if longest > _LONGEST_LINE:
                raise DataError(
                    f"{self.path}, line {line}: is longer than {size_text(_LONGEST_LINE)}. Is this a table?"
                )
        return longest

    def check_bytes(self) -> None:
        """Refuse bytes that are not text."""
        with open_expanded(self.path, self.limit) as (file, _):
            for _ in self._texts(file):
                pass

    def _texts(self, file: Any) -> Iterator[str]:
        text = io.TextIOWrapper(file, "utf-8-sig", errors="surrogateescape", newline="")
        for number, line in enumerate(text, 1):
            if "\0" in line:
                raise DataError(f"{self.path}, line {number}: is not text: it has a zero byte.")
            if not line.isascii() and re.search("[\udc80-\udcff]", line):
                raise not_text(self.path, number)
            self._quotes = line.count('"')
            yield line

    def walk(self, *, strict: bool = False) -> Iterator[tuple[int, list[str]]]:
        """The first line and the cells of every row of the file, but for the names; ``strict`` about quotes."""
        csv.field_size_limit(2 * _LONGEST_LINE)
        with open_expanded(self.path, self.limit) as (file, _):
            reader = csv.reader(self._texts(file), delimiter=self.form.separator, strict=strict)
            headed = self.form.headed
            while True:
                line = reader.line_num + 1
                try:
                    cells = next(reader, None)
                except csv.Error:
                    if (
                        reader.line_num == line and self._quotes % 2 == 0
                    ):  # what stands behind quotes belongs to the cell
                        cells = [""] * len(self.form.names)
                    else:
                        raise DataError(f"{self.path}, line {line}: a quote begins there that never ends.") from None
                if cells is None:
                    return
                if not cells or (len(cells) == 1 and not cells[0].strip()):
                    continue
                if headed:
                    headed = False
                    continue
                yield line, cells
