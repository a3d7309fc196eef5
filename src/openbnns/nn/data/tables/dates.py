"""Dates and times as people write them: ``2024-03-31 18:05``, ``3/31/2024``, ``31.3.2024``, ``31 March 2024``, ``6:05 pm``.

A column is looked at as a whole, as one of numbers is: every cell must fit one order of day, month and year, and an order that
leaves a choice, as ``3/4/2024`` does, is never chosen without a reason.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from datetime import date
from typing import TYPE_CHECKING

import numpy as np

from ....graph.tensor import Array
from ...files.untrusted import DataError
from .number_formats import FEW

if TYPE_CHECKING:
    from .table import Table

ORDERS = {"ymd": "2024-03-31", "mdy": "3/31/2024", "dmy": "31/3/2024", "name": "31 March 2024", "time": "18:05"}
"""Kinds of cells, by the order of year, month and day, each with an example."""
ASKED = {"month-first": "mdy", "day-first": "dmy"}

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_TIME = r"(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:[.,]\d+)?)? ?(?P<half>[AaPp]\.?[Mm]\.?)?"
_BEHIND = rf"(?:(?:[T ,]| at )+{_TIME} ?(?:Z|UTC|[+-]\d\d:?\d\d)?)?"
_NAME = r"(?P<name>[A-Za-z]{3,9})\.?"
_WEEKDAY = r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*\.?,? )?"
_CELLS = {
    "ymd": re.compile(rf"(?P<year>\d{{4}})([-/.])(?P<month>\d{{1,2}})(?:\2(?P<day>\d{{1,2}}))?{_BEHIND}", re.ASCII),
    "mdy": re.compile(
        rf"(?P<month>\d{{1,2}})([-/.])(?P<day>\d{{1,2}})\2(?P<year>\d{{4}}|\d\d){_BEHIND}", re.ASCII
    ),
    "dmy": re.compile(
        rf"(?P<day>\d{{1,2}})([-/.])(?P<month>\d{{1,2}})\2(?P<year>\d{{4}}|\d\d){_BEHIND}", re.ASCII
    ),
    "name": re.compile(
        rf"{_WEEKDAY}(?:(?P<day>\d{{1,2}})(?:st|nd|rd|th)?[ .-]{{1,2}}{_NAME}[ ,-]{{1,2}}"
        rf"|{_NAME.replace('name', 'name2')} (?P<day2>\d{{1,2}})(?:st|nd|rd|th)?,? )(?P<year>\d{{4}}|\d\d){_BEHIND}",
        re.ASCII,
    ),
    "time": re.compile(_TIME, re.ASCII),
}  # fmt: skip

Moment = tuple[date | None, float]
"""A day, or None if only a time is said, and the hour of the day."""


def moment(word: str, order: str) -> Moment | None:
    """A cell as a date and a time; None if it does not fit. A date with its year in front fits every order but times."""
    match = _CELLS[order].fullmatch(word) or (_CELLS["ymd"].fullmatch(word) if order != "time" else None)
    if match is None:
        return None
    said = match.groupdict()
    hour = int(said["hour"] or 0) + int(said["minute"] or 0) / 60 + int(said["second"] or 0) / 3600
    half = (said["half"] or "").lower()[:1]
    if half:
        hour = hour % 12 + 12 * (half == "p") if hour < 13 else 24.0
    if hour >= 24 or int(said["minute"] or 0) > 59:
        return None
    if "year" not in said:
        return None, hour
    year = int(said["year"])
    if len(said["year"]) == 2:
        year += 1900 if year > 68 else 2000
    name = said.get("name") or said.get("name2")
    try:
        month = _month(name) if name else int(said["month"])
        return date(year, month, int(said.get("day") or said.get("day2") or 1)), hour
    except ValueError:
        return None


def _month(name: str) -> int:
    text = name.lower()
    return _MONTHS.index(text[:3]) + 1  # ValueError for anything else


def is_date(word: str) -> bool:
    """True if a cell is a date or a time in any order."""
    return any(moment(word, order) is not None for order in ORDERS)


def order_of(asked: str | None) -> str:
    """The order that was asked for; "" if none was."""
    if asked is not None and asked not in ASKED:
        raise ValueError(f"--dates is {asked!r}. Use {' or '.join(ASKED)}.")
    return "" if asked is None else ASKED[asked]


def find(table: Table, *, order: str = "", words: Collection[str] = ()) -> None:
    """Note in ``table.dates`` which columns of words hold dates, and in which order.

    ``words`` are columns that stay as they are. ``order``, if given, decides where cells leave a choice.
    """
    chosen: dict[str, list[str]] = {}
    for name in table.word_columns:
        if name not in words and name not in table.exact_columns and name not in table.lookups:
            orders = _orders(table, name)
            if orders:
                chosen[name] = orders
    sure = {orders[0] for orders in chosen.values() if len(orders) == 1} & {"mdy", "dmy"}
    for name, orders in chosen.items():
        if len(orders) > 1 and order in orders:
            table.dates[name] = order
        elif len(orders) > 1 and len(sure) == 1:
            table.dates[name] = next(iter(sure))
        elif len(orders) > 1:
            raise _ambiguous(table, name)
        else:
            table.dates[name] = orders[0]


def _orders(table: Table, name: str) -> list[str]:
    """The orders that fit all cells of a column; none if it does not hold dates."""
    codes, words = table.texts(name)
    if not words or not any(map(is_date, words[:20])):
        return []
    counts = np.bincount(codes[codes >= 0], minlength=len(words))
    fitting = {order: np.array([moment(word, order) is not None for word in words]) for order in ORDERS}
    fits = {order: int(counts[fit].sum()) for order, fit in fitting.items()}
    best = max(fits.values())
    if best <= (1 - FEW) * counts.sum():
        return []
    orders = (
        ["ymd"] if fits["ymd"] == best else [order for order in ORDERS if fits[order] == best]
    )  # ymd fits all of them
    if best < counts.sum():
        bad = np.flatnonzero(~fitting[orders[0]])
        row, cell = min((int(np.argmax(codes == i)), words[i]) for i in bad)
        example = words[int(np.argmax(fitting[orders[0]]))]
        raise DataError(
            f"{table.place(row)}: column {name!r} is {cell!r}, but other rows have dates such as {example!r} there. Correct "
            f"it; or say that it stands for a missing value: --missing {cell!r}; or use --categorical {name}."
        )
    return ["dmy"] if len(orders) > 1 and any("." in word.split(" ")[0] for word in words[:20]) else orders


def _ambiguous(table: Table, name: str) -> DataError:
    _, words = table.texts(name)
    first, second = ([moment(word, order) for word in words] for order in ("mdy", "dmy"))
    place = next((i for i, (one, other) in enumerate(zip(first, second, strict=True)) if one != other), 0)
    readings = [f"{reading[0]:%-d %B %Y}" for reading in (first[place], second[place]) if reading and reading[0]]
    return DataError(
        f"{table.source}: column {name!r} has dates such as {words[place]!r}, which is {readings[0]} if the month comes first, "
        f"and {readings[-1]} if the day does; nothing in the table tells which. Say so: --dates month-first or --dates day-first "
        '(in Python dates="month-first" or dates="day-first").'
    )


FEATURES = ("day count", "year", "month (sine)", "month (cosine)", "day of week (sine)", "day of week (cosine)", "hour (sine)",
            "hour (cosine)")  # fmt: skip
"""The numbers that dates become; those that are the same in all training rows are left out."""


def features(moments: Sequence[Moment | None]) -> Array:
    """The numbers of :data:`FEATURES` for dates (N, 8), NaN for those that are missing."""
    hour = np.array([np.nan if known is None else known[1] for known in moments])
    days = [None if known is None else known[0] for known in moments]
    numbers = [(0, 0, 1, 0) if d is None else (d.toordinal() - _ORIGIN, d.year, d.month, d.weekday()) for d in days]
    count, year, month, weekday = np.array(numbers, np.float64).reshape(-1, 4).T
    turns = 2 * np.pi * np.array([(month - 1) / 12, weekday / 7, hour / 24])
    waves = [wave for turn in turns for wave in (np.sin(turn), np.cos(turn))]
    whole = np.where([d is None for d in days], 0.0, hour / 24)
    columns: Array = np.stack([count + whole, year, *waves], axis=1)
    columns[np.isnan(hour)] = np.nan
    return columns


_ORIGIN = date(1970, 1, 1).toordinal()
