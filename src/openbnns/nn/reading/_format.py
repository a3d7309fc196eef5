"""What a table in a text file looks like: separator, decimal sign, names; found from its first lines."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from ..files import DataError

SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
MISSING = ("NA", "N/A", "n/a", "na", "NaN", "nan", "NULL", "null", "None", "?", "-", "missing")
"""What stands for a value that is not there, besides an empty cell."""
_LINES = 200  # that are looked at
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+", re.ASCII)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


@dataclass(frozen=True)
class Format:
    """Of a table in a text file."""

    separator: str
    decimal: str
    names: list[str]
    headed: bool
    """Whether the first line holds the names."""

    @property
    def said(self) -> str:
        """For people."""
        named = {**SEPARATORS, " ": "space"}
        parts = [f"{named.get(self.separator, repr(self.separator))} as separator"]
        if self.decimal != ".":
            parts.append("comma as decimal sign")
        parts.append("names in the first line" if self.headed else "no line of names")
        return ", ".join(parts)


def find(
    text: str, path: Path, *, separator: str | None, header: bool | None, missing: tuple[str, ...], whole: bool
) -> Format:
    """The format of a table that begins with this text; ``whole`` says that it is all of it."""
    lines = text.splitlines(keepends=True)
    if not whole and len(lines) > 1:
        lines.pop()  # which may be cut
    lines = lines[: _LINES * 4]
    if not any(line.strip() for line in lines):
        raise DataError(f"{path}: there are no samples: the file is empty.")
    separator = _separator(lines, path) if separator is None else _given(separator)
    rows = _rows(lines, separator)[:_LINES]
    decimal = "," if separator != "," and _has_decimal_commas(rows) else "."
    headed = _is_headed(rows, decimal, missing) if header is None else header
    names = [name.strip() for name in rows[0]] if headed else [str(i + 1) for i in range(len(rows[0]))]
    names = [name or str(i + 1) for i, name in enumerate(names)]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise DataError(
            f"{path}, line 1: the name {twice[0]!r} stands there twice. Give every column a name of its own."
        )
    return Format(separator, decimal, names, headed)


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


def _has_decimal_commas(rows: list[list[str]]) -> bool:
    cells = [cell.strip() for row in rows for cell in row]
    return any(map(_DECIMAL_COMMA.fullmatch, cells)) and not any(
        "." in cell and _is_number(cell, ".") for cell in cells
    )


def _is_number(cell: str, decimal: str) -> bool:
    return _NUMBER.fullmatch(cell.strip().replace(decimal, ".")) is not None


def _is_headed(rows: list[list[str]], decimal: str, missing: tuple[str, ...]) -> bool:
    """Whether the first line holds names: no numbers, unlike what is below, or at least nothing that comes again."""
    first, below = rows[0], rows[1:]
    none = {"", *missing}
    if any(_is_number(cell, decimal) for cell in first) or any(cell.strip() in none - {""} for cell in first):
        return False
    columns = [
        [row[i].strip() for row in below if i < len(row) and row[i].strip() not in none] for i in range(len(first))
    ]
    if any(column and all(_is_number(cell, decimal) for cell in column) for column in columns):
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
    return DataError(
        f"{path}, line {line}: is not UTF-8. Convert the file, for instance: "
        f"iconv -f {'UTF-16' if wide else 'WINDOWS-1252'} -t UTF-8 {path} > utf8.csv"
    )
