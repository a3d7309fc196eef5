"""Numbers as people write them: ``1,234``, ``1 234,5``, ``81.3%``, ``$3,823.92``, ``(12)``.

A column is looked at as a whole: every cell must fit one format, and a format that leaves a choice, as ``27,385`` does, is never
chosen without a reason. All work is done on the different words of a column, however many rows there are.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ....graph.tensor import Array
from ...files.untrusted import DataError

if TYPE_CHECKING:
    from .table import Table

FEW = 0.1
"""A column in which a smaller share of the cells does not fit is one of numbers, with mistakes."""
SIGNS = {"comma": ",", "point": ".", "space": " ", "apostrophe": "'"}

_ALIKE = str.maketrans(
    {"\u00a0": " ", "\u2007": " ", "\u2009": " ", "\u202f": " ", "\u2212": "-", "\u2013": "-", "\u2019": "'"}
)
_CURRENCY = (
    "[$\u20ac\u00a3\u00a5\u20b9\u20bd\u20a9\u20ba\u20b4\u20ab\u20aa\u20b1\u0e3f]|"
    "(?:USD|EUR|GBP|JPY|CHF|CNY|INR|CAD|AUD|NZD|SEK|NOK|DKK|PLN|CZK|HUF|BRL|MXN|ZAR|KRW)"
)
_CELL = re.compile(
    rf"(?P<before>{_CURRENCY})? ?(?P<open>\()? ?(?P<sign>[+-]?) ?(?P<inside>{_CURRENCY})? ?(?P<second>[+-]?)"
    rf"(?P<digits>(?:\d[\d., ']*)?\d[.,]?|[.,]\d+)(?P<power>[eE][+-]?\d{{1,4}})? ?(?P<behind>%|{_CURRENCY})? ?(?P<close>\))?",
    re.ASCII,
)


def _body(decimal: str, thousands: str) -> re.Pattern[str]:
    """The digits of a number with these signs."""
    whole = r"\d*"
    if thousands:
        sign = re.escape(thousands)
        indian = r"|[1-9]\d?(?:,\d\d)+,\d{3}" if thousands == "," else ""
        whole = rf"(?:\d*|[1-9]\d{{0,2}}(?:{sign}\d{{3}})+{indian})"
    return re.compile(rf"{whole}(?:{re.escape(decimal)}\d*)?", re.ASCII)


_BODIES = {(d, t): _body(d, t) for d in ".," for t in ("", ",", ".", " ", "'") if d != t}


@dataclass(frozen=True)
class NumberFormat:
    """The signs of the numbers of a column: the form in which a model file keeps what training has found.

    >>> from openbnns.nn.data.tables.number_formats import NumberFormat
    >>> dollars = NumberFormat(thousands=",", unit="$")
    >>> dollars.value("$3,823.92"), dollars.value("3.823,92 $")
    (3823.92, None)
    """

    decimal: str = "."
    thousands: str = ""
    unit: str = ""
    """A percent sign or a currency."""
    parentheses: bool = False
    """True if ``(12)`` is -12."""

    def value(self, word: str) -> float | None:
        """A cell as a number; None if it does not fit."""
        cell = _split(word)
        if cell is None or not _BODIES[self.decimal, self.thousands].fullmatch(cell.digits):
            return None
        if cell.unit not in ("", self.unit) or (cell.parentheses and not self.parentheses):
            return None
        value = _value(cell, self.decimal, self.thousands)
        return None if self.unit == "%" and not cell.unit and value else value

    @property
    def description(self) -> str:
        """The treatment of the cells, in words."""
        parts = [f"thousands separators {self.thousands!r} removed"] if self.thousands else []
        parts += [f"{self.unit!r} removed"] if self.unit else []
        parts += ["comma read as the decimal sign"] if self.decimal == "," else []
        parts += ["numbers in parentheses read as negative"] if self.parentheses else []
        return ", ".join(parts)

    @property
    def example(self) -> str:
        """A number in this format."""
        number = f"1{self.thousands}234{self.decimal}5"
        return f"{number}%" if self.unit == "%" else f"{self.unit}{number}"

    def written_as(self, decimal: str, thousands: str) -> NumberFormat:
        """The same with other signs, where any are given."""
        point, between = decimal or self.decimal, thousands or self.thousands
        if between == point:
            between = "." if point == "," else ","
        return NumberFormat(point, between, self.unit, self.parentheses)


def signs(decimal: str | None, thousands: str | None) -> tuple[str, str]:
    """The two signs that were given, by themselves or by name; "" for one that was not and does not follow from the other."""
    chosen = []
    for name, sign, usable in (("decimal", decimal, ".,"), ("thousands", thousands, ",. '")):
        text = "" if sign is None else SIGNS.get(sign, sign)
        if text and (text not in usable or len(text) != 1):
            raise ValueError(f"--{name} is {sign!r}. Use {' or '.join(n for n, s in SIGNS.items() if s in usable)}.")
        chosen.append(text)
    if chosen[0] and chosen[0] == chosen[1]:
        raise ValueError(f"--decimal and --thousands are both {chosen[0]!r}. Give two different signs.")
    return chosen[0] or {",": ".", ".": ","}.get(chosen[1], ""), chosen[1]


def is_number(word: str) -> bool:
    """True if a cell is a number in any format."""
    cell = _split(word)
    return cell is not None and any(body.fullmatch(cell.digits) for body in _BODIES.values())


_PLAIN = {
    sign: re.compile(
        rf"[+-]?(?:\d+(?:{re.escape(sign)}\d*)?|{re.escape(sign)}\d+)(?:[eE][+-]?\d+)?|[+-]?(?:inf|infinity)",
        re.ASCII | re.IGNORECASE,
    )
    for sign in ".,"
}
_WHOLE = re.compile(r"[+-]?\d+(?:[eE][+-]?\d+)?", re.ASCII)


def plain_number(word: str, decimal: str) -> float | None:
    """A cell of digits and a decimal sign as a number; None if there is anything else. Without a sign, whole numbers alone."""
    if _PLAIN.get(decimal, _WHOLE).fullmatch(word) is None:
        return None
    return float(word.replace(decimal, ".") if decimal else word)


def decimals_of(words: Iterable[str]) -> set[str]:
    """The decimal signs that these cells leave no doubt about."""
    decimals: set[str] = set()
    for word in words:
        if "," not in word and word.count(".") == 1 and "." in decimals:
            continue  # which says nothing new
        cell = _split(word) if "," in word or "." in word else None
        if cell is not None:
            possible = {d for (d, _), body in _BODIES.items() if body.fullmatch(cell.digits)}
            decimals |= possible if len(possible) == 1 else set()
    return decimals


def may_be_thousands(words: Collection[str]) -> bool:
    """True if every point may separate thousands: three digits behind each, none before 1 to 999, at least one without."""
    whole = [word for word in words if "." not in word]
    pointed = [word for word in words if "." in word]
    return (
        bool(whole and pointed)
        and all(len(word.lstrip("+-")) <= 3 for word in whole)
        and all(_BODIES[",", "."].fullmatch(word.lstrip("+-")) for word in pointed)
    )


@dataclass(frozen=True)
class _Cell:
    digits: str
    power: str
    negative: bool
    unit: str
    parentheses: bool


def _split(word: str) -> _Cell | None:
    match = _CELL.fullmatch(word.translate(_ALIKE).strip())
    if match is None:
        return None
    units = [unit for unit in match.group("before", "inside", "behind") if unit]
    enclosed, sign = match["open"] is not None, match["sign"] + match["second"]
    if len(units) > 1 or enclosed != (match["close"] is not None) or len(sign) + enclosed > 1:
        return None
    return _Cell(match["digits"], match["power"] or "", sign == "-" or enclosed, units[0] if units else "", enclosed)


def _value(cell: _Cell, decimal: str, thousands: str) -> float:
    digits = cell.digits.replace(thousands, "") if thousands else cell.digits
    value = float(digits.replace(decimal, ".") + cell.power)
    return -value if cell.negative else value


# Columns.


@dataclass
class _Study:
    """The readings that the words of a column allow."""

    name: str
    words: Sequence[str]
    codes: Array
    cells: list[_Cell | None]
    choices: list[tuple[str, str]] = field(default_factory=list)
    """Signs that fit the cells equally well, at most one pair for each decimal sign."""

    def row(self, place: int) -> int:
        """The row in which a word stands first, from 1 on."""
        return int(np.argmax(self.codes == place)) + 1

    def fitting(self, choice: tuple[str, str]) -> list[int]:
        body = _BODIES[choice]
        return [i for i, cell in enumerate(self.cells) if cell is not None and body.fullmatch(cell.digits)]

    @property
    def shown(self) -> int:
        """A word that shows what the choice means: one with the sign in doubt."""
        places = self.fitting(self.choices[0])
        return next((i for mark in ",." for i in places if mark in self.cells[i].digits), places[0])  # type: ignore[union-attr]


def convert(
    table: Table,
    *,
    decimal: str = "",
    thousands: str = "",
    words: Collection[str] = (),
    formats: Mapping[str, NumberFormat] | None = None,
) -> None:
    """Make numbers of the columns of words that hold them.

    ``words`` are columns that stay as they are. A model knows the ``formats`` of its columns; others are found, with
    ``decimal`` and ``thousands`` as the signs to use, if they are given.
    """
    names = [name for name in table.word_columns if name not in words]
    if formats is not None:
        for name in names:
            if name in formats and (name not in table.exact_columns or name in table.odd):
                _apply(table, name, formats[name], known=True)
        return
    studies = [study for name in names if (study := _study(table, name, decimal, thousands)) is not None]
    evidence = {s.choices[0][0] for s in studies if len(s.choices) == 1 and set(",.") & set("".join(_digits(s)))}
    evidence |= {table.decimal} - {""}
    for study in studies:
        _apply(table, study.name, _chosen(table, study, evidence), known=False)


def _study(table: Table, name: str, decimal: str, thousands: str) -> _Study | None:
    """The readings that a column allows; None if it does not hold numbers."""
    codes, words = table.texts(name)
    if (name in table.exact_columns and name not in table.odd) or not words:
        return None
    if not any(map(is_number, words[:200])):
        return None
    cells = [_split(word) for word in words]
    study = _Study(name, words, codes, cells)
    counts = np.bincount(codes[codes >= 0], minlength=len(words))
    total = int(counts.sum())
    fits = {choice: int(counts[study.fitting(choice)].sum()) for choice in _BODIES}
    usable = {
        choice: count for choice, count in fits.items()
        if decimal in ("", choice[0]) and (not thousands or (choice[1] in ("", thousands) and choice[0] != thousands))
    }  # fmt: skip
    best = max(usable.values())
    places = {place for choice in _BODIES for place in study.fitting(choice)}
    if int(counts[sorted(places)].sum()) <= (1 - FEW) * total:
        return None
    equal = [choice for choice, count in usable.items() if count == best]
    for sign in ".,":
        study.choices += sorted(choice for choice in equal if choice[0] == sign)[:1]  # without thousands if that fits
    bad = sorted(set(range(len(words))) - set(study.fitting(study.choices[0])), key=study.row)
    if bad:
        raise _unfit(table, study, bad[0], int(counts[bad].sum()) - 1, NumberFormat().written_as(decimal, thousands))
    if name in table.overflowed:
        raise DataError(
            f"{table.source}: column {name!r} has more than {len(words):,} different numbers such as {words[0]!r}. Write them as "
            f"plain numbers, or leave the column out: --drop {name}."
        )
    return study


def _unfit(table: Table, study: _Study, place: int, others: int, asked: NumberFormat) -> DataError:
    """A cell that is not a number like the others of its column."""
    name, word = study.name, study.words[place]
    more = f", as {others:,} more cells are" if others else ""
    where = f"{table.source}, row {study.row(place)}: column {name!r} is {word!r}{more}"
    if asked != NumberFormat() and is_number(word):
        return DataError(
            f"{where}, but --decimal and --thousands ask for numbers such as {asked.example}. Correct one or the other."
        )
    good = study.words[study.shown]
    if name in table.exact_columns:
        cure = "Correct it, or remove the row; if the target holds classes: --task classification"
    else:
        cure = (
            f"Correct it; or say that it stands for a missing value: --missing {word!r}; or that the column holds words: "
            f"--categorical {name}"
        )
    return DataError(f"{where}, but others are numbers such as {good!r}. {cure}.")


def _digits(study: _Study) -> list[str]:
    return [cell.digits for cell in study.cells if cell is not None]


def _chosen(table: Table, study: _Study, evidence: set[str]) -> NumberFormat:
    """The format of a column, refused if there is no reason to prefer one of two."""
    choice: tuple[str, str] | None = study.choices[0]
    digits = _digits(study)
    units = {cell.unit: i for i, cell in reversed(list(enumerate(study.cells))) if cell is not None}
    named = [unit for unit in units if unit]
    if len(study.choices) > 1 and any("," in text or "." in text for text in digits):
        by_sign = {pair[0]: pair for pair in study.choices}
        if len(evidence) == 1:
            choice = by_sign[next(iter(evidence))]
        elif any("," in text for text in digits):
            choice = by_sign["."] if table.comma_separated and not evidence else None
        elif named not in ([], ["%"]) or (not table.comma_separated and may_be_thousands(digits)):
            choice = None
    if choice is None:
        raise _ambiguous(table, study)
    plain = units.get("")
    if len(named) > 1 or (named == ["%"] and plain is not None and _value(study.cells[plain], *choice)):  # type: ignore[arg-type]
        one, other = sorted((units[unit] for unit in units if unit or named == ["%"]), key=study.row)[:2]
        raise DataError(
            f"{table.source}: column {study.name!r} is {study.words[one]!r} in row {study.row(one)}, but {study.words[other]!r} "
            f"in row {study.row(other)}: numbers of two units cannot be compared. Bring them to one; or leave the column out: "
            f"--drop {study.name}; or take the cells for words: --categorical {study.name}."
        )
    return NumberFormat(*choice, "".join(named), any(cell is not None and cell.parentheses for cell in study.cells))


def _ambiguous(table: Table, study: _Study) -> DataError:
    place = study.shown
    cell: Any = study.cells[place]
    mark = "," if "," in cell.digits else "."
    name = "comma" if mark == "," else "point"
    readings = {d: _value(cell, d, t) for d, t in study.choices}
    large, small = readings["," if mark == "." else "."], readings[mark]
    return DataError(
        f"{table.source}: column {study.name!r} is {study.words[place]!r} in row {study.row(place)}, which is {large:.12g} if "
        f"the {name} separates thousands, and {small:.12g} if it is the decimal sign; nothing in the table tells which. Say so: "
        f'--thousands {name} or --decimal {name} (in Python thousands="{mark}" or decimal="{mark}").'
    )


def _apply(table: Table, name: str, form: NumberFormat, *, known: bool) -> None:
    """Give a column of words the numbers that they stand for."""
    codes, words = table.texts(name)
    values = np.full(len(words) + 2, np.nan)  # the last two are for words too many and for none
    for i, word in enumerate(words):
        value = form.value(word)
        if value is None or not abs(value) < 1e38:
            row = int(np.argmax(codes == i)) + 1
            trained = f" the model was trained on numbers such as {form.example}" if known else " it is too large"
            raise DataError(f"{table.source}, row {row}: column {name!r} is {word!r}, but{trained}. Correct it.")
        values[i] = value
    if known and name in table.overflowed:
        raise DataError(
            f"{table.source}: column {name!r} has more than {len(words):,} different numbers. Split the file."
        )
    table.take_numbers(name, values)
    table.formats[name] = form
