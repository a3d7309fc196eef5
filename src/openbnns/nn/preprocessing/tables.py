"""Tables: numbers are standardised, words become columns of 0 and 1, what is missing is filled and marked."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._value import Array
from ..files import DataError
from ..reading.table import Table, from_samples
from ._base import Preparation
from .arrays import mean_and_deviation
from .checks import Said

_ROWS = 2**14  # at a time: their numbers fit into a cache
MOST_CATEGORIES = 100
_VOCABULARY = 1000
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class NumberColumn:
    """(x - mean) / std; NaN becomes 0, with ``missing`` marked in a feature of its own."""

    name: str
    mean: float
    std: float
    missing: bool = False


@dataclass(frozen=True)
class CategoryColumn:
    """One feature for each category: 1 for the one that is there. What training has not seen is 0 everywhere."""

    name: str
    categories: tuple[str, ...]
    missing: bool = False
    """Whether no value is a category, too."""


@dataclass(frozen=True)
class TextColumn:
    """One feature for each word of the vocabulary: log(1 + how often it occurs)."""

    name: str
    vocabulary: tuple[str, ...]


Column = NumberColumn | CategoryColumn | TextColumn


class TablePreparation(Preparation):
    """Turns rows of a table into features, by column.

    >>> from openbnns.nn.preprocessing import TablePreparation
    >>> from openbnns.nn.preprocessing.tables import CategoryColumn, NumberColumn
    >>> prepare = TablePreparation([NumberColumn("size", 10.0, 5.0), CategoryColumn("color", ("blue", "red"))])
    >>> prepare.apply([{"size": 20, "color": "red"}, {"size": None, "color": "green"}]).tolist()
    [[2.0, 0.0, 1.0], [0.0, 0.0, 0.0]]
    """

    kind = "table"

    def __init__(self, columns: Sequence[Column], *, standardized: bool = True) -> None:
        self.columns, self.standardized = tuple(columns), standardized
        self.unseen: dict[str, list[str]] = {}
        """Words of the latest samples that training has not seen, by column."""

    @classmethod
    def fit(
        cls, table: Table, rows: Array, *, targets: Collection[str], categorical: Collection[str], standardize: bool
    ) -> tuple[TablePreparation, list[str]]:
        """For a table like this one, whose training rows these are; and what people should know."""
        notes: list[str] = []
        mean, std = mean_and_deviation(table.numbers, rows)
        columns: list[Column] = []
        constant, counted = [], []
        for name in table.names:
            if name in targets:
                continue
            if name in table.number_columns:
                i = table.number_columns.index(name)
                if not std[i] > 0:
                    constant.append(name)
                elif _counts_rows(table, i):
                    counted.append(name)
                else:
                    has_gaps = bool(np.isnan(table.numbers[:, i]).any())
                    centre, scale = (mean[i] + table.centre[i], std[i]) if standardize else (0.0, 1.0)
                    columns.append(NumberColumn(name, float(centre), float(scale), has_gaps))
            elif name in table.word_columns:
                found = _word_column(table, name, rows, name in categorical, notes)
                if found is not None:
                    columns.append(found)
        for names, why in (
            (constant, "has the same value in all training rows"),
            (counted, "only counts the rows"),
        ):
            for name in names:
                notes.append(f"Column {name!r} is left out: it {why}.")
        if not columns:
            raise DataError(f"{table.source}: no column is left to learn from. {' '.join(notes)}".rstrip())
        return cls(columns, standardized=standardize), notes

    @property
    def width(self) -> int:
        """The number of features."""
        return sum(map(_width, self.columns))

    @property
    def feature_names(self) -> list[str]:
        """What the features are called."""
        names = [c.name for c in self.columns if isinstance(c, NumberColumn)]
        names += [f"{c.name} is missing" for c in self.columns if isinstance(c, NumberColumn) and c.missing]
        for c in self.columns:
            if isinstance(c, CategoryColumn):
                names += [f"{c.name} = {category}" for category in c.categories]
                names += [f"{c.name} is missing"] if c.missing else []
            elif isinstance(c, TextColumn):
                names += [f"{c.name}: {word}" for word in c.vocabulary]
        return names

    def kinds(self) -> dict[str, str]:
        """What a reader of files should read."""
        return {c.name: "number" if isinstance(c, NumberColumn) else "word" for c in self.columns}

    def centres(self) -> dict[str, float]:
        return {c.name: c.mean for c in self.columns if isinstance(c, NumberColumn)}

    def apply(self, samples: Any, who: str = "predict") -> Array:
        if not isinstance(samples, Table):
            words = [c.name for c in self.columns if not isinstance(c, NumberColumn)]
            samples = from_samples(samples, [c.name for c in self.columns], words, who)
        return self.features(samples)

    def features(self, table: Table, *, in_place: bool = False) -> Array:
        """The features of a table; with ``in_place`` in the memory of its numbers, if there is nothing else."""
        numbers = [c for c in self.columns if isinstance(c, NumberColumn)]
        places = [table.number_columns.index(c.name) for c in numbers]
        shift = np.array([c.mean for c in numbers]) - table.centre[places]
        scale = np.array([1 / c.std for c in numbers])
        straight = places == list(range(table.numbers.shape[1]))
        found = table.numbers if in_place and straight and self.width == len(numbers) else None
        if found is None:
            found = np.zeros((len(table), self.width), np.float32)
        gaps = [i for i, c in enumerate(numbers) if c.missing]
        count = len(numbers)
        shift32, scale32 = shift.astype(np.float32), scale.astype(np.float32)
        for start in range(0, len(table), _ROWS):
            part = slice(start, start + _ROWS)
            values = table.numbers[part] if straight else table.numbers[part][:, places]
            target = found[part]
            if gaps:
                target[:, count : count + len(gaps)] = np.isnan(values[:, gaps])
            np.subtract(values, shift32, out=target[:, :count])
            target[:, :count] *= scale32
            if not np.isfinite(target[:, :count].sum()):
                np.nan_to_num(target[:, :count], copy=False, nan=0.0, posinf=np.inf, neginf=-np.inf)
        place = count + len(gaps)
        self.unseen = {}
        for c in self.columns:
            if not isinstance(c, NumberColumn):
                self._encode(c, table, found[:, place : place + _width(c)])
                place += _width(c)
        return found

    def _encode(self, column: CategoryColumn | TextColumn, table: Table, out: Array) -> None:
        codes, words = table.texts(column.name)
        if isinstance(column, TextColumn):
            rows = _word_counts(words, column.vocabulary)
            out[...] = np.where(codes[:, None] >= 0, rows[codes], 0) if len(words) else 0
            return
        known = {word: i for i, word in enumerate(column.categories)}
        last = len(column.categories) if column.missing else -1
        places = np.array([known.get(word, -1) for word in words] + [last], np.int64)[codes]  # -1: the last one
        out[...] = 0
        there = np.flatnonzero(places >= 0)
        out[there, places[there]] = 1
        new = [word for word in words if word not in known]
        if new:
            self.unseen[column.name] = new

    def state(self) -> dict[str, Any]:
        columns: list[dict[str, Any]] = []
        for c in self.columns:
            if isinstance(c, NumberColumn):
                columns.append({"name": c.name, "kind": "number", "mean": c.mean, "std": c.std, "missing": c.missing})
            elif isinstance(c, CategoryColumn):
                said = {"name": c.name, "kind": "category", "categories": list(c.categories), "missing": c.missing}
                columns.append(said)
            else:
                columns.append({"name": c.name, "kind": "text", "vocabulary": list(c.vocabulary)})
        return {"kind": self.kind, "columns": columns, "standardized": self.standardized}

    @classmethod
    def from_state(cls, said: Said) -> TablePreparation:
        columns: list[Column] = []
        for part in said.tables("columns"):
            name, kind = part.text("name"), part.text("kind", ("number", "category", "text"))
            if kind == "number":
                std = part.number("std", positive=True)
                columns.append(NumberColumn(name, part.number("mean"), std, part.flag("missing")))
            elif kind == "category":
                columns.append(CategoryColumn(name, tuple(part.texts("categories")), part.flag("missing")))
            else:
                columns.append(TextColumn(name, tuple(part.texts("vocabulary"))))
        return cls(columns, standardized=said.flag("standardized"))

    def said(self) -> list[str]:
        numbers = [c for c in self.columns if isinstance(c, NumberColumn)]
        found = []
        if numbers and self.standardized:
            found.append(
                f"{_columns(len(numbers))} standardised: mean 0 and deviation 1 in the training rows "
                "(--no-standardize leaves them as they are)."
            )
        gaps = [c.name for c in numbers if c.missing]
        if gaps:
            found.append(
                f"Missing numbers in {_some(gaps)} count as the mean, and a feature of their own says that they are missing."
            )
        for c in self.columns:
            if isinstance(c, CategoryColumn):
                also = ", or none" if c.missing else ""
                found.append(f"Column {c.name!r} holds {len(c.categories)} categories: {_some(c.categories)}{also}.")
            elif isinstance(c, TextColumn):
                found.append(f"Column {c.name!r} holds text; its {len(c.vocabulary)} most common words are counted.")
        return found


def _width(column: Column) -> int:
    if isinstance(column, NumberColumn):
        return 1 + column.missing
    if isinstance(column, CategoryColumn):
        return len(column.categories) + column.missing
    return len(column.vocabulary)


def _counts_rows(table: Table, i: int) -> bool:
    """Whether a column is 1, 2, 3, ... or the like, as numbers of rows are."""
    values = table.numbers[:, i]
    if len(values) < 20 or not (np.diff(values[:20]) == 1).all():
        return False
    return bool((np.diff(values) == 1).all())


def _word_column(table: Table, name: str, rows: Array, forced: bool, notes: list[str]) -> Column | None:
    codes, words = table.texts(name)
    if name in table.overflowed:
        notes.append(f"Column {name!r} is left out: it has more than {len(words):,} different words.")
        return None
    seen = codes[rows]
    counts = np.bincount(seen[seen >= 0], minlength=len(words))
    there = [word for word, count in zip(words, counts, strict=True) if count]
    if len(there) < 2 and not (seen < 0).any():
        notes.append(f"Column {name!r} is left out: it has the same value in all training rows.")
        return None
    if len(there) <= MOST_CATEGORIES or forced:
        return CategoryColumn(name, tuple(sorted(there)), bool((seen < 0).any()))
    if np.mean([len(_WORD.findall(word)) for word in there[:1000]]) >= 3:
        common: Counter[str] = Counter()
        for word, count in zip(words, counts, strict=True):
            if count:
                common.update(dict.fromkeys(_tokens(word), int(count)))
        vocabulary = [word for word, count in common.most_common(_VOCABULARY) if count >= 2]
        if vocabulary:
            return TextColumn(name, tuple(sorted(vocabulary)))
    notes.append(
        f"Column {name!r} is left out: it has {len(there):,} different words in {len(rows):,} rows, too many for categories "
        f"(--categorical {name} uses them all the same)."
    )
    return None


def _tokens(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _word_counts(texts: Sequence[str], vocabulary: Sequence[str]) -> Array:
    places = {word: i for i, word in enumerate(vocabulary)}
    found = np.zeros((len(texts), len(vocabulary)), np.float32)
    for row, text in enumerate(texts):
        for token in _tokens(text):
            place = places.get(token)
            if place is not None:
                found[row, place] += 1
    return np.log1p(found)


def _columns(count: int) -> str:
    return "1 column of numbers is" if count == 1 else f"{count} columns of numbers are"


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
