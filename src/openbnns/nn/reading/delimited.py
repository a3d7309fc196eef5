"""Tables from CSV and TSV files: read in pieces by native code, numbers without a detour through Python."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ... import _core
from ..._plural import plural
from ..files import Budget, DataError, open_expanded
from ..memory_limit import shown
from . import _format, number_formats
from ._format import Format
from .number_formats import FEW, NumberFormat
from .store import RowStore
from .table import MISSING, Table, find_column, require_columns

_IGNORED, _NUMBER, _WORD, _BOTH = range(4)
_PIECE = 2**23  # bytes that are read at a time
_HEAD = 2**18  # that kinds of columns are first guessed from
_LONGEST_LINE = 2**24
_ROW = 40  # bytes that a row takes in memory in any case: its target and its places in the order of the samples
_MOST_WORDS = 20_000  # different ones in a column
_MOST_NUMBERS = 2**20  # the same for words that are numbers


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
    text = _format.decoded(head, path)
    form = _format.find(
        text, path, separator=separator, header=header, missing=nothing, whole=len(head) < _HEAD, decimal=decimal
    )  # fmt: skip
    reading = _Reading(path, form, nothing, limit, room, head)
    chosen = _chosen(form, path, targets, ignored, categorical, kinds, formats or {})
    reading.guess(chosen, centre or {}, fixed=kinds is not None)
    while not reading.run():
        pass  # once more, with columns as words that turned out to hold some, or more of them
    table = reading.table()
    table.left_out |= {find_column(name, form.names, str(path), "--drop"): "--drop" for name in ignored}
    return table


def _chosen(
    form: Format,
    path: Path,
    targets: Sequence[str | int] | None,
    ignored: Collection[str | int],
    categorical: Collection[str | int],
    kinds: Mapping[str, str] | None,
    formats: Mapping[str, NumberFormat],
) -> dict[str, int | None]:
    """The kind of every column, None where it is to be found out."""
    names, source = form.names, str(path)
    found: dict[str, int | None] = dict.fromkeys(names)
    if kinds is not None:
        require_columns(kinds, names, source)
        plain = NumberFormat(form.decimal)
        found = {name: _WORD if name in kinds else _IGNORED for name in names}
        found |= {n: _NUMBER for n, kind in kinds.items() if kind == "number" and formats.get(n, plain) == plain}
    for name in categorical:
        found[find_column(name, names, source, "--categorical")] = _WORD
    for name in ignored:
        found[find_column(name, names, source, "--drop")] = _IGNORED
    for name in [names[-1]] if targets is None else targets:
        found[find_column(name, names, source, "the target")] = _BOTH
    return found


class _Reading:
    """One table on its way from a file into memory."""

    def __init__(
        self, path: Path, form: Format, missing: Sequence[str], limit: int | None, room: int | None, head: bytes
    ) -> None:
        self.path, self.form, self.limit, self._room, self._head = path, form, limit, room, head
        self._missing = list(missing)
        self.kinds: list[int] = []
        self.centre: list[float] = []  # of each column of numbers
        self.fixed = False  # whether kinds may not change
        self._most_words = _MOST_WORDS
        self._left_out: dict[str, str] = {}

    def _reader(self, kinds: Sequence[int], centre: Sequence[float]) -> Any:
        return _core.DelimitedReader(
            separator=self.form.separator, quote='"', decimal=self.form.decimal, missing=self._missing,
            columns=list(kinds), centre=list(centre), most_words=self._most_words,
        )  # fmt: skip

    def guess(self, chosen: Mapping[str, int | None], centre: Mapping[str, float], *, fixed: bool) -> None:
        """Kinds and centres from the beginning of the file."""
        self.fixed = fixed
        names = self.form.names
        whole = len(self._head) < _HEAD
        kinds = [_IGNORED if chosen[name] == _IGNORED else _NUMBER for name in names]
        width = kinds.count(_NUMBER)
        reader = self._reader(kinds, [0.0] * width)
        start = self._start(self._head)
        text = self._head[start:]
        numbers = np.empty((text.count(b"\n") + text.count(b"\r") + 2, width), np.float32)
        reader.read(text, len(text), whole, numbers, np.empty((len(numbers), 0)), np.empty((len(numbers), 0), np.int32))
        seen = reader.rows()
        self._row_bytes = max(1.0, len(text) / max(1, seen))
        self.kinds, self.centre, place = [], [], 0
        for i, name in enumerate(names):
            kind = chosen[name]
            if kind is None:
                count, _, cell = reader.odd(i)
                words = seen and count >= max(1, FEW * (seen - reader.missing(i))) and not self._is_too_large(cell)
                kind = _WORD if words else _NUMBER
            if kinds[i] == _NUMBER:
                if kind == _NUMBER:
                    values = numbers[:seen, place].astype(np.float64)
                    values = values[np.isfinite(values)]
                    self.centre.append(centre.get(name, float(values.mean()) if len(values) else 0.0))
                place += 1
            self.kinds.append(kind)

    def _start(self, head: bytes) -> int:
        """Where the samples begin: behind a byte order mark and the line of names."""
        start = 3 if head.startswith(b"\xef\xbb\xbf") else 0
        if not self.form.headed:
            return start
        reader = self._reader([_IGNORED] * len(self.form.names), [])
        one = np.empty((1, 0), np.float32), np.empty((1, 0)), np.empty((1, 0), np.int32)
        used: int = reader.read(head[start:], len(head) - start, len(head) < _HEAD, *one)
        self._first_line = reader.line()
        return start + used

    def run(self) -> bool:
        """Read the file; False if kinds of columns have changed, so that it has to be read once more."""
        names, kinds = self.form.names, self.kinds
        self._first_line = 1
        with open_expanded(self.path, self.limit) as (file, budget):
            self._read_all(file, budget)
        changed = False
        for i, name in enumerate(names):
            count, line, cell = self.reader.odd(i)
            if not count or kinds[i] != _NUMBER:
                continue
            self._refuse(name, count, line, cell.decode("utf-8", "replace"), self.store.rows - self.reader.missing(i))
            place = sum(kind == _NUMBER for kind in self.kinds[:i])
            del self.centre[place]
            self.kinds[i] = _WORD
            changed = True
        return not (changed or self._make_room_for_numbers())

    def _make_room_for_numbers(self) -> bool:
        """True if there are columns of more words than are kept, all of them numbers, for which there is room in another run."""
        worded = [i for i, kind in enumerate(self.kinds) if kind in (_WORD, _BOTH)]
        full = {i: place for place, i in enumerate(worded) if self.reader.overflowed(place)}
        numbers = [
            i for i, place in full.items()
            if all(number_formats.is_number(word.decode()) for word in self.reader.words(place)[:_MOST_WORDS:20])
            and (self.kinds[i] == _WORD or self.reader.odd(i)[0])
        ]  # fmt: skip
        if not numbers or self._most_words == _MOST_NUMBERS:
            return False
        self._most_words = _MOST_NUMBERS
        for i in full:
            if i not in numbers and self.kinds[i] == _WORD:  # which would take as much memory, for nothing
                self.kinds[i] = _IGNORED
                self._left_out[self.form.names[i]] = f"it has more than {_MOST_WORDS:,} different words"
        return True

    def _is_too_large(self, cell: bytes) -> bool:
        """True if a cell is a number that float32 does not hold."""
        try:
            return abs(float(cell.decode("utf-8", "replace").replace(self.form.decimal, "."))) > 3e38
        except ValueError:
            return False

    def _refuse(self, name: str, count: int, line: int, cell: str, there: int) -> None:
        """Refuse a column of numbers in which a few cells are none."""
        where = f"{self.path}, line {line}: column {name!r}"
        if self._is_too_large(cell.encode()):
            raise DataError(
                f"{where} is {cell}, too large to compute with. Correct it, or leave the column out: --drop {name}."
            )
        if self.fixed:
            example = NumberFormat("," if self.form.decimal == "," else ".").example
            cure = (
                " If the file writes all numbers so: --decimal, --thousands." if number_formats.is_number(cell) else ""
            )
            raise DataError(f"{where} is {cell!r}, but the model was trained on numbers such as {example} there.{cure}")
        if count < FEW * there and not number_formats.is_number(cell):
            others = f", and {count - 1:,} more lines have such cells" if count > 1 else ""
            raise DataError(
                f"{where} is {cell!r}, but other lines have numbers there{others}. Correct it; or say that it stands for a "
                f"missing value: --missing {cell!r}; or that the column holds words: --categorical {name}."
            )

    def _read_all(self, file: Any, budget: Budget) -> None:
        self.reader = self._reader(self.kinds, self.centre)
        size = None if self.path.suffix.lower() == ".gz" else budget.file_size
        expected = int(size / self._row_bytes * 1.02) + 64 if size else 2**14
        self.store = store = RowStore(str(self.path), self._widths(), expected, self._room)
        buffer = bytearray(_PIECE if size is None else min(_PIECE, size + 1))
        kept, first, self._empty = 0, True, 0
        while True:
            view = memoryview(buffer)
            got = _fill(file, view[kept:])
            size_now, last = kept + got, kept + got < len(buffer)
            done = 0
            if first:
                done, first = self._start(bytes(view[: min(size_now, _HEAD)])), False
                self.reader.set_line(self._first_line)
            while done < size_now or last:
                free = store.free()
                used = self.reader.read(view[done:size_now], size_now - done, last, *free)
                count = self.reader.rows()
                store.take(count)
                if size is None:
                    budget.take(_ROW * count, at_least=True)
                done += used
                self._raise(self.reader)
                if done == size_now or (not used and count < len(free[0])):
                    break
            self._empty += self._count_empty(buffer, done)
            if last:
                break
            kept = size_now - done
            if kept >= _LONGEST_LINE:
                raise DataError(
                    f"{self.path}, line {self.reader.line()}: is longer than {shown(_LONGEST_LINE)}. Is this a table?"
                )
            if done:
                buffer[:kept] = view[done:size_now]
            if kept > len(buffer) // 2:
                view.release()
                buffer.extend(bytes(len(buffer)))

    def _count_empty(self, buffer: bytearray, end: int) -> int:
        """Lines in the first bytes that have separators only, as spreadsheets write them: native code skips these."""
        row = self.form.separator.encode() * (len(self.form.names) - 1)
        if not row or (buffer.find(b"\n" + row, 0, end) < 0 and not buffer.startswith(row)):
            return 0
        return len(re.findall(rb"(?m)^" + re.escape(row) + rb"(?=[\r\n]|\Z)", memoryview(buffer)[:end]))

    def _widths(self) -> tuple[int, int, int]:
        """Of numbers, of numbers to predict, and of words."""
        kinds = self.kinds
        return kinds.count(_NUMBER), kinds.count(_BOTH), kinds.count(_WORD) + kinds.count(_BOTH)

    def _raise(self, reader: Any) -> None:
        what, where = reader.error(), f"{self.path}, line {reader.error_line()}:"
        if what == "ragged":
            cells, names = reader.error_cells(), self.form.names
            before = "the first line has" if self.form.headed else "the lines before have"
            raise DataError(
                f"{where} {cells} values, but {before} {len(names)}. Correct the line; a cell with {self.form.separator!r} in it "
                "stands in quotes."
            )
        if what == "quote":
            raise DataError(f"{where} a quote begins there that never ends.")
        if what == "zero":
            raise DataError(f"{where} is no text: it has a zero byte.")
        if what == "encoding":
            raise _format.not_text(self.path, reader.error_line())

    def table(self) -> Table:
        names, kinds = self.form.names, self.kinds
        if not self.store.rows:
            raise DataError(
                f"{self.path}: there are no samples{' below the line of names' if self.form.headed else ''}."
            )

        def those(*wanted: int) -> list[str]:
            return [name for name, kind in zip(names, kinds, strict=True) if kind in wanted]

        table = Table(str(self.path), list(names))
        table.number_columns = those(_NUMBER)
        table.decimal, table.comma_separated = self.form.certain, self.form.separator == ","
        table.left_out = self._left_out
        if self.form.decimal == ",":
            plain = [
                *those(_NUMBER),
                *(name for i, name in enumerate(names) if kinds[i] == _BOTH and not self.reader.odd(i)[0]),
            ]
            table.formats = dict.fromkeys(plain, NumberFormat(","))
        table.centre = np.asarray(self.centre, np.float64)
        table.exact_columns, table.word_columns = those(_BOTH), those(_WORD, _BOTH)
        for i, name in enumerate(table.word_columns):
            table.words.append([word.decode("utf-8") for word in self.reader.words(i)])
            if self.reader.overflowed(i):
                table.overflowed.add(name)
        for i, name in enumerate(names):
            count, line, cell = self.reader.odd(i)
            if kinds[i] == _BOTH and count:
                table.odd[name] = (count, line, cell.decode("utf-8", "replace"))
        table.notes.append(
            f"Read {plural(self.store.rows, 'row')} of {plural(len(names), 'column')}: {self.form.said}."
        )
        table.notes += self.form.notes
        if self._empty:
            table.notes.append(
                f"{plural(self._empty, 'line')} without any value {'is' if self._empty == 1 else 'are'} skipped."
            )
        self.store.give_to(table)
        return table


def _fill(file: Any, view: memoryview) -> int:
    got = 0
    while got < len(view):
        count = file.readinto(view[got:])
        if not count:
            break
        got += count
    return got
