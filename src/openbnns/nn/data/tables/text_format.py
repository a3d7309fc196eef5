"""The format of a table in a text file: separator, decimal sign, names; found from its first lines."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ...files.untrusted import DataError
from . import number_formats

SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
_LINES = 200  # that are looked at
_CELLS = 10_000  # the same for tables with many columns
_POINTED = re.compile(r"[+-]?\d+(\.\d+)?", re.ASCII)
_CODE = re.compile(r"0\d+", re.ASCII)


@dataclass(frozen=True)
class Format:
    """How a table is written."""

    separator: str
    decimal: str
    """The decimal sign of cells that are read as numbers; "" if only whole numbers are, because signs are in doubt."""
    certain: str
    """The decimal sign if it was given, or cells leave no doubt about it, else ""."""
    names: list[str]
    headed: bool
    """Whether the first line holds the names."""
    blank: int
    """Empty lines before the first that is not."""
    sample: list[list[str]]
    """Cells of the first rows, by column, without those that are missing."""
    notes: tuple[str, ...] = ()

    @property
    def said(self) -> str:
        """For people."""
        named = {**SEPARATORS, " ": "space"}
        parts = [f"{named.get(self.separator, repr(self.separator))} as separator"]
        if self.decimal == ",":
            parts.append("comma as decimal sign")
        parts.append("names in the first line" if self.headed else "no line of names")
        return ", ".join(parts)


def find(
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
    lines = lines[: _LINES * 4]
    if not any(line.strip() for line in lines):
        raise DataError(f"{path}: there are no samples: the file is empty.")
    separator = _separator(lines, path) if separator is None else _given(separator)
    rows = _rows(lines, separator)[:_LINES]
    headed = _is_headed(rows, missing) if header is None else header
    below = rows[1:] if headed else rows
    columns = _columns(below[: max(5, _CELLS // len(rows[0]))], len(rows[0]), missing)
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
    found = number_formats.decimals_of({cell for column in columns for cell in column})
    certain = given or (found.pop() if len(found) == 1 else "")
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


def _given(separator: str) -> str:
    named = {name: sign for sign, name in SEPARATORS.items()} | {"\\t": "\t", "space": " "}
    sign = named.get(separator, separator)
    if len(sign.encode()) != 1 or sign in '"\r\n':
        raise ValueError(f"--separator is {separator!r}. Give one character, or comma, semicolon, tab, bar or space.")
    return sign


def _rows(lines: list[str], separator: str) -> list[list[str]]:
    try:
        found = csv.reader(lines, delimiter=separator, skipinitialspace=separator != " ")
        return [row for row in found if any(cell.strip() for cell in row)]
    except csv.Error:
        return [line.split(separator) for line in lines if line.strip()]


def _separator(lines: list[str], path: Path) -> str:
    """The sign that cuts most lines into the same number of cells, more than one."""
    best, score = "", 0.0
    for sign in SEPARATORS:
        counts = Counter(len(row) for row in _rows(lines, sign)[:_LINES])
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


def _columns(rows: list[list[str]], count: int, missing: tuple[str, ...]) -> list[list[str]]:
    """The cells of every column, without those that stand for nothing."""
    none = {"", *missing}
    return [[row[i].strip() for row in rows if i < len(row) and row[i].strip() not in none] for i in range(count)]


def _is_headed(rows: list[list[str]], missing: tuple[str, ...]) -> bool:
    """Whether the first line holds names: no numbers, unlike what is below, or at least nothing that comes again."""
    first = rows[0]
    if any(number_formats.is_number(cell) or cell.strip() in missing for cell in first):
        return False
    columns = _columns(rows[1:], len(first), missing)
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
