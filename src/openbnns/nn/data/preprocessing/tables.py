"""Tables: numbers are standardized, words become columns of 0 and 1, what is missing is filled and marked."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from ...._plural import plural
from ....graph.tensor import Array
from ...files.checked_json import CheckedTable, ModelError
from ...files.memory_limit import size_text
from ...files.untrusted import DataError
from ..sources.rows import Rows, spans
from ..tables import dates
from ..tables.number_formats import NumberFormat, is_number
from ..tables.table import MISSING, MISSING_TO_LEARN_FROM, Table, from_samples
from .arrays import ArrayPreparation, SamplePreparation, mean_and_deviation, standardizing

_MOST_CATEGORIES = 100  # that each have a feature, however rare they are
_MOST_COMMON = 1000  # the same in columns with more of them,
_OFTEN = 5  # where they occur in so many training rows,
_COVERED = 0.5  # and make up this share of them
_VOCABULARY = 1000
_LONGEST = 60  # characters of a word in a message
_SHOWN = 5  # sentences about columns in a message
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
    """True if a missing value is a category as well."""
    joined: tuple[str, ...] = ()
    """Words of the training rows that differ from a category in case or blanks alone, and count as it."""
    rare: tuple[str, ...] = ()
    """Words of the training rows that share one feature, because there are too many of them. New words count as rare, too."""


@dataclass(frozen=True)
class TextColumn:
    """One feature for each word of the vocabulary: log(1 + how often it occurs)."""

    name: str
    vocabulary: tuple[str, ...]


@dataclass(frozen=True)
class DateColumn:
    """Dates or times in one order: (x - mean) / std of day count, year, and sines and cosines of month, day of week and hour.

    A missing one is 0, and ``missing`` adds a feature that marks it.
    """

    name: str
    order: str
    features: tuple[str, ...]
    """Names out of :data:`dates.FEATURES`."""
    mean: tuple[float, ...]
    std: tuple[float, ...]
    missing: bool = False


Column = NumberColumn | CategoryColumn | TextColumn | DateColumn


class TablePreparation(SamplePreparation):
    """The conversion of rows of a table into features, by column.

    >>> from openbnns.nn.data.preprocessing import TablePreparation
    >>> from openbnns.nn.data.preprocessing.tables import CategoryColumn, NumberColumn
    >>> prepare = TablePreparation([NumberColumn("size", 10.0, 5.0), CategoryColumn("color", ("blue", "red"))])
    >>> prepare.apply([{"size": 20, "color": "red"}, {"size": None, "color": "green"}]).tolist()
    [[2.0, 0.0, 1.0], [0.0, 0.0, 0.0]]
    """

    kind = "table"

    def __init__(
        self,
        columns: Sequence[Column],
        *,
        standardized: bool = True,
        formats: Mapping[str, NumberFormat] | None = None,
        missing: Sequence[str] = (),
        left_out: Mapping[str, str] | None = None,
    ) -> None:
        self.columns, self.standardized, self.missing = tuple(columns), standardized, tuple(missing)
        self.formats = None if formats is None else dict(formats)
        """Columns of numbers, targets included, that are not written with a decimal point and digits alone. None: they are not
        known, and found in every file."""
        self.left_out = dict(left_out or {})
        """Columns of the training data that are not used, and why."""
        self.unseen: dict[str, list[str]] = {}
        """Words of the latest samples that training has not seen, by column."""

    @classmethod
    def fit(
        cls, table: Table, rows: Array, *, targets: Collection[str], categorical: Collection[str], standardize: bool,
        missing: Sequence[str] = (),
    ) -> tuple[TablePreparation, list[str]]:  # fmt: skip
        """The preparation for tables like this one, fitted to these training rows, and remarks for people."""
        notes: list[str] = []
        count = len(table.number_columns)
        mean, std = mean_and_deviation(lambda chosen: table.read(chosen)[0], (len(table), count), rows)
        gaps, counting = _look_through(table)
        words = _count_words(table, rows)
        columns: list[Column] = []
        left_out = dict(table.left_out)
        for name in table.names:
            if name in targets:
                continue
            if name in table.number_columns:
                i = table.number_columns.index(name)
                if not std[i] > np.finfo(np.float32).tiny:  # what is less cannot be divided by
                    left_out[name] = "it has the same value in all training rows"
                elif counting[i]:
                    left_out[name] = "it only counts the rows"
                else:
                    centre, scale = (mean[i] + table.centre[i], std[i]) if standardize else (0.0, 1.0)
                    columns.append(NumberColumn(name, float(centre), float(scale), bool(gaps[i])))
            elif name in table.word_columns:
                if name in table.dates:
                    prepared: Column | str = _date_column(table, name, words[name], standardize)
                else:
                    prepared = _word_column(table, name, words[name], len(rows), name in categorical)
                if isinstance(prepared, str):
                    left_out[name] = prepared
                else:
                    columns.append(prepared)
        left_out = {name: left_out[name] for name in table.names if name in left_out}
        if not columns:
            said = _said_left_out(left_out)
            more = [f"So are {len(said) - _SHOWN:,} more."] if len(said) > _SHOWN else []
            raise DataError(" ".join([f"{table.source}: no column is left to learn from.", *said[:_SHOWN], *more]))
        made = cls(columns, standardized=standardize, formats=table.formats, missing=missing, left_out=left_out)
        return made, notes

    @property
    def width(self) -> int:
        """The number of features."""
        return sum(map(_width, self.columns))

    @property
    def feature_names(self) -> list[str]:
        """The names of the features."""
        names = [c.name for c in self.columns if isinstance(c, NumberColumn)]
        names += [f"{c.name} is missing" for c in self.columns if isinstance(c, NumberColumn) and c.missing]
        for c in self.columns:
            if isinstance(c, CategoryColumn):
                names += [f"{c.name} = {category}" for category in c.categories]
                names += [f"{c.name} is missing"] * c.missing + [f"{c.name} is rare"] * bool(c.rare)
            elif isinstance(c, TextColumn):
                names += [f"{c.name}: {word}" for word in c.vocabulary]
            elif isinstance(c, DateColumn):
                names += [f"{c.name}: {part}" for part in c.features] + [f"{c.name} is missing"] * c.missing
        return names

    def features_by_column(self) -> dict[str, list[int]]:
        """The places of the features that each column becomes."""
        numbers = [c for c in self.columns if isinstance(c, NumberColumn)]
        features = {c.name: [i] for i, c in enumerate(numbers)}
        place = len(numbers)
        for number in numbers:
            if number.missing:
                features[number.name].append(place)
                place += 1
        for c in self.columns:
            if not isinstance(c, NumberColumn):
                features[c.name] = list(range(place, place + _width(c)))
                place += _width(c)
        return features

    def formulas(self) -> list[str]:
        numbers = [c for c in self.columns if isinstance(c, NumberColumn)]
        texts = [f"{standardizing(c.mean, c.std)}, or 0 if it is missing" for c in numbers]
        texts += ["1 or 0" for c in numbers if c.missing]
        for c in self.columns:
            if isinstance(c, CategoryColumn):
                texts += ["1 or 0"] * _width(c)
            elif isinstance(c, TextColumn):
                texts += ["log(1 + how often the word occurs)"] * _width(c)
            elif isinstance(c, DateColumn):
                texts += [f"{standardizing(m, d)}, or 0 if it is missing" for m, d in zip(c.mean, c.std, strict=True)]
                texts += ["1 or 0"] * c.missing
        return [f"{name}: {formula}" for name, formula in zip(self.feature_names, texts, strict=True)]

    def as_arrays(self) -> ArrayPreparation | None:
        """The same for arrays (N, columns), if there are neither words nor marks of gaps."""
        numbers = [c for c in self.columns if isinstance(c, NumberColumn) and not c.missing]
        if len(numbers) < len(self.columns):
            return None
        return ArrayPreparation((len(numbers),), mean=[c.mean for c in numbers], std=[c.std for c in numbers])

    def kinds(self) -> dict[str, str]:
        """The columns that a reader of files should read."""
        return {c.name: "number" if isinstance(c, NumberColumn) else "word" for c in self.columns}

    def with_dates(self, order: str) -> TablePreparation:
        """The same for files with dates in another order of day and month, if one is given."""
        if not order:
            return self
        turned = [
            replace(c, order=order) if isinstance(c, DateColumn) and c.order in ("mdy", "dmy") else c
            for c in self.columns
        ]
        return TablePreparation(
            turned, standardized=self.standardized, formats=self.formats, missing=self.missing, left_out=self.left_out
        )

    def centres(self) -> dict[str, float]:
        return {c.name: c.mean for c in self.columns if isinstance(c, NumberColumn)}

    def apply(self, samples: Any, who: str = "predict") -> Array:
        if not isinstance(samples, Table):
            words = [c.name for c in self.columns if not isinstance(c, NumberColumn)]
            names, missing = [c.name for c in self.columns], {*MISSING, *MISSING_TO_LEARN_FROM, *self.missing}
            samples = from_samples(samples, names, words, who, self.formats or {}, missing)
        return self.features(samples)

    def features_if_room(self, table: Table, room: int | None, *, in_place: bool = False) -> Array | Encoder:
        """The features of a table; if they take more than ``room`` bytes, what makes those of some rows."""
        encoder = self.encoder(table)
        size = 4 * len(table) * self.width
        fits = room is None or (in_place and encoder.only_scales) or size + table.nbytes // 2 <= room
        if table.stored is None and fits:
            return self.features(table, in_place=in_place)
        if table.stored is None:
            table.notes.append(
                f"Its {self.width:,} features would take {size_text(size)}: they are made as they are needed."
            )
        return encoder

    def features(self, table: Table, *, in_place: bool = False) -> Array:
        """The features of a table; with ``in_place`` in the memory of its numbers, if there is nothing else."""
        encoder = self.encoder(table)
        reused = in_place and table.stored is None and encoder.only_scales
        result = table.numbers if reused else np.zeros((len(table), self.width), np.float32)
        start = 0
        for numbers, codes in table.pieces():
            encoder.fill(numbers, codes, result[start : start + len(numbers)])
            start += len(numbers)
        return result

    def encoder(self, table: Table) -> Encoder:
        """The encoder that turns rows of this table into features."""
        made = Encoder(self.columns, table)
        self.unseen = made.unseen
        return made

    def state(self) -> dict[str, Any]:
        columns: list[dict[str, Any]] = []
        for c in self.columns:
            if isinstance(c, NumberColumn):
                columns.append({"name": c.name, "kind": "number", "mean": c.mean, "std": c.std, "missing": c.missing})
            elif isinstance(c, CategoryColumn):
                said = {"name": c.name, "kind": "category", "categories": list(c.categories), "missing": c.missing}
                more = {name: list(words) for name in ("joined", "rare") if (words := getattr(c, name))}
                columns.append({**said, **more})
            elif isinstance(c, TextColumn):
                columns.append({"name": c.name, "kind": "text", "vocabulary": list(c.vocabulary)})
            else:
                said = {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(c).items()}
                columns.append({"kind": "date", **said})
        result = {
            "kind": self.kind,
            "columns": columns,
            "standardized": self.standardized,
            "missing": list(self.missing),
        }
        if self.formats is not None:
            result["formats"] = {name: asdict(form) for name, form in self.formats.items()}
        return {**result, "left_out": self.left_out}

    @classmethod
    def from_state(cls, said: CheckedTable) -> TablePreparation:
        columns: list[Column] = []
        for part in said.tables("columns"):
            name, kind = part.text("name"), part.text("kind", ("number", "category", "text", "date"))
            if kind == "number":
                std = part.number("std", positive=True)
                columns.append(NumberColumn(name, part.number("mean"), std, part.flag("missing")))
            elif kind == "category":
                joined, rare = (tuple(part.texts(of)) if part.get(of) is not None else () for of in ("joined", "rare"))
                categories = tuple(part.texts("categories"))
                columns.append(CategoryColumn(name, categories, part.flag("missing"), joined, rare))
            elif kind == "text":
                columns.append(TextColumn(name, tuple(part.texts("vocabulary"))))
            else:
                columns.append(_date_from(part, name))
        formats = None
        if said.get("formats") is not None:
            formats = {
                name: _format(CheckedTable(part, f"{said.where}.formats"))
                for name, part in said.table("formats").items()
            }
        return cls(
            columns, standardized=said.flag("standardized"), formats=formats,
            missing=[] if said.get("missing") is None else said.texts("missing"),
            left_out={name: str(why) for name, why in said.table("left_out").items()},
        )  # fmt: skip

    def sentences(self) -> list[str]:
        numbers = [c for c in self.columns if isinstance(c, NumberColumn)]
        sentences = _said_left_out(self.left_out)
        for form, names in self._by_format().items():
            sentences.append(
                f"Column{'s' * (len(names) > 1)} {_some([repr(name) for name in names])}: {form.description}."
            )
        if numbers and self.standardized:
            sentences.append(
                f"{_columns(len(numbers))} standardized: mean 0 and deviation 1 in the training rows "
                "(--no-standardize leaves them as they are)."
            )
        gaps = [c.name for c in numbers if c.missing]
        if gaps:
            named = _some([repr(name) for name in gaps])
            sentences.append(
                f"Missing numbers in {named} count as the mean, and a feature of their own says that they are missing."
            )
        for c in self.columns:
            if isinstance(c, CategoryColumn):
                sentences.append(f"Column {c.name!r} holds {_of_categories(c)}.")
            elif isinstance(c, TextColumn):
                sentences.append(
                    f"Column {c.name!r} holds text; its {len(c.vocabulary)} most common words are counted."
                )
            elif isinstance(c, DateColumn):
                sentences.append(f"Column {c.name!r} holds {_of_dates(c)}.")
        return sentences

    def _by_format(self) -> dict[NumberFormat, list[str]]:
        names: dict[NumberFormat, list[str]] = {}
        for name, form in (self.formats or {}).items():
            if name not in self.left_out:
                names.setdefault(form, []).append(name)
        return names

    def by_column(self, targets: Sequence[str] = (), task: str | None = None) -> list[tuple[str, str]]:
        """The use of every column, those that are left out included; ``targets`` of a task come first."""
        formats = self.formats or {}
        of_task = f"target of the {task}" if task else "target"
        uses = [(name, f"{of_task}; {formats[name].description}" if name in formats else of_task) for name in targets]
        for c in self.columns:
            if isinstance(c, NumberColumn):
                text = "numbers, standardized" if self.standardized else "numbers"
                text += ", those that are missing marked" if c.missing else ""
            elif isinstance(c, CategoryColumn):
                text = _of_categories(c)
            elif isinstance(c, DateColumn):
                text = _of_dates(c)
            else:
                text = f"text, of which the {len(c.vocabulary)} most common words are counted"
            form = formats.get(c.name)
            uses.append((c.name, f"{text}; {form.description}" if form else text))
        return uses + [(name, f"left out: {why}") for name, why in self.left_out.items()]


class Encoder:
    """The conversion of rows of one table into features; what is the same for all rows is computed once."""

    def __init__(self, columns: Sequence[Column], table: Table) -> None:
        numbers = [c for c in columns if isinstance(c, NumberColumn)]
        self._places = [table.number_columns.index(c.name) for c in numbers]
        self._straight = self._places == list(range(len(table.number_columns)))
        self._shift = (np.array([c.mean for c in numbers]) - table.centre[self._places]).astype(np.float32)
        self._scale = np.array([1 / c.std for c in numbers]).astype(np.float32)
        self._gaps = [i for i, c in enumerate(numbers) if c.missing]
        self.width = sum(map(_width, columns))
        self.only_scales = self._straight and self.width == len(numbers) and not table.lookups
        """True if features take the place of the numbers of the table."""
        self.unseen: dict[str, list[str]] = {}
        """Words of the table that training has not seen, by column."""
        self._words: list[tuple[int, int, Array]] = []  # column in the table, width, and what to look codes up in
        for c in columns:
            if not isinstance(c, NumberColumn):
                self._words.append((table.word_columns.index(c.name), _width(c), self._lookup(c, table)))

    def _lookup(self, column: CategoryColumn | TextColumn | DateColumn, table: Table) -> Array:
        """The feature that is 1, or the features, for every code; the last entries are for -2, a word too many, and -1, none."""
        words = table.words[table.word_columns.index(column.name)]
        if isinstance(column, DateColumn):
            return _date_features(column, table)
        if isinstance(column, TextColumn):
            return _word_counts([*words, "", ""], column.vocabulary)
        known = {word: i for i, word in enumerate(column.categories)}
        folded = Counter(map(_folded, column.categories))
        alike = {_folded(word): i for word, i in known.items() if folded[_folded(word)] == 1}
        known |= {word: alike[_folded(word)] for word in words if word not in known and _folded(word) in alike}
        rare = set(map(_folded, column.rare))
        if new := [word for word in words if word not in known and _folded(word) not in rare]:
            self.unseen[column.name] = new
        none = len(column.categories) if column.missing else -1
        other = len(column.categories) + column.missing if column.rare else -1
        return np.array([*(known.get(word, other) for word in words), other, none], np.int64)

    def fill(self, numbers: Array, codes: Array, out: Array) -> None:
        """The features of some rows, into memory of float32 that may be that of their numbers."""
        count, gaps = len(self._places), self._gaps
        values = numbers if self._straight else numbers[:, self._places]
        if gaps:
            out[:, count : count + len(gaps)] = np.isnan(values[:, gaps])
        scaled = out[:, :count]
        np.subtract(values, self._shift, out=scaled)
        scaled *= self._scale
        if not np.isfinite(scaled.sum()):
            np.nan_to_num(scaled, copy=False, nan=0.0, posinf=np.inf, neginf=-np.inf)
        place = count + len(gaps)
        for column, width, lookup in self._words:
            part, chosen = out[:, place : place + width], lookup[codes[:, column]]
            if chosen.ndim == 2:
                part[...] = chosen
            else:
                part[...] = 0
                there = np.flatnonzero(chosen >= 0)
                part[there, chosen[there]] = 1
            place += width


def _width(column: Column) -> int:
    if isinstance(column, NumberColumn):
        return 1 + column.missing
    if isinstance(column, CategoryColumn):
        return len(column.categories) + column.missing + bool(column.rare)
    return len(column.features) + column.missing if isinstance(column, DateColumn) else len(column.vocabulary)


def _look_through(table: Table) -> tuple[Array, Array]:
    """For every column of numbers whether some are missing, and whether it only counts the rows from 0 or 1 on.

    Others that count, such as years, say something about a row.
    """
    gaps = np.zeros(len(table.number_columns), bool)
    counting = np.full(len(table.number_columns), len(table) >= 20)
    before: Array | None = None
    for numbers, _ in table.pieces():
        if before is None:
            first = numbers[0] + table.centre
            counting &= (np.abs(first - 0.5) < 0.51) & (np.diff(numbers[:20], axis=0) == 1).all(axis=0)
        if gaps.size and not np.isfinite(numbers.sum()):
            gaps |= np.isnan(numbers).any(axis=0)
        if counting.any():
            chosen = np.flatnonzero(counting)
            joined = (
                numbers[:, chosen] if before is None else np.concatenate([before[chosen][None], numbers[:, chosen]])
            )
            counting[chosen] = (np.diff(joined, axis=0) == 1).all(axis=0)
        before = numbers[-1].copy()
    return gaps, counting


@dataclass
class _Words:
    """The counts of the words of a column in the training rows."""

    counts: Array
    missing: bool = False
    """True if there are rows without a word."""


def _count_words(table: Table, rows: Array) -> dict[str, _Words]:
    counted = {
        name: _Words(np.zeros(len(words), np.int64))
        for name, words in zip(table.word_columns, table.words, strict=True)
    }
    for _, codes in table.pieces(rows) if counted else ():
        for i, words in enumerate(counted.values()):
            there = codes[:, i] >= 0
            words.counts += np.bincount(codes[there, i], minlength=len(words.counts))
            words.missing |= not there.all()
    return counted


def _word_column(
    table: Table, name: str, counted: _Words, rows: int, forced: bool
) -> CategoryColumn | TextColumn | str:
    """The use of a column of words, or the reason why it is left out."""
    words, counts = table.words[table.word_columns.index(name)], counted.counts
    if name in table.overflowed:
        return f"it has more than {len(words):,} different words"
    known = dict(zip(words, counts.tolist(), strict=True))
    there = [word for word, count in known.items() if count]
    if not there or (len(there) < 2 and not counted.missing):
        return "it has the same value in all training rows"
    spelled: dict[str, str] = {}
    for word in sorted(there, key=lambda word: -known[word]):  # the most common spelling first
        spelled.setdefault(_folded(word), word)
    if len(spelled) < 2 and not counted.missing:
        return "it has the same value in all training rows"
    if len(spelled) <= _MOST_CATEGORIES or forced:
        joined = sorted(set(there) - set(spelled.values()))
        return CategoryColumn(name, tuple(sorted(spelled.values())), counted.missing, tuple(joined))
    if np.mean([len(_WORD.findall(word)) for word in there[:1000]]) >= 3:
        common: Counter[str] = Counter()
        for word, count in zip(words, counts, strict=True):
            if count:
                common.update(dict.fromkeys(_tokens(word), int(count)))
        vocabulary = [word for word, count in common.most_common(_VOCABULARY) if count >= 2]
        if vocabulary:
            return TextColumn(name, tuple(sorted(vocabulary)))
    some = _common_categories(name, known, spelled, counted.missing)
    if some is not None:
        return some
    mixed = ""
    if 0 < sum(map(is_number, there)) < len(there):
        word = next(word for word in there if not is_number(word))
        mixed = f", some of them numbers, others words such as {word!r}"
    return (
        f"it has {len(there):,} different words in {rows:,} rows{mixed}, too many for categories "
        f"(--categorical {name} uses them all the same)"
    )


def _common_categories(
    name: str, counts: Mapping[str, int], spelled: Mapping[str, str], missing: bool
) -> CategoryColumn | None:
    """The common ones of many categories, and all others as one; None if most rows have one of the others."""
    total: Counter[str] = Counter()
    for word, count in counts.items():
        total[_folded(word)] += count
    often = [folded for folded, count in total.most_common(_MOST_COMMON) if count >= _OFTEN]
    if sum(total[folded] for folded in often) < _COVERED * total.total():
        return None
    chosen = {folded: spelled[folded] for folded in often}
    joined = sorted(w for w, n in counts.items() if n and _folded(w) in chosen and w != chosen[_folded(w)])
    rare = sorted(word for folded, word in spelled.items() if folded not in chosen)
    return CategoryColumn(name, tuple(sorted(chosen.values())), missing, tuple(joined), tuple(rare))


def _date_column(table: Table, name: str, counted: _Words, standardize: bool) -> DateColumn | str:
    """The use of a column of dates, or the reason why it is left out."""
    order, words = table.dates[name], table.words[table.word_columns.index(name)]
    if name in table.overflowed:
        return f"it has more than {len(words):,} different dates"
    known = counted.counts > 0
    values = dates.features([dates.moment(word, order) for word, there in zip(words, known, strict=True) if there])
    if not len(values):
        return "it has no value in the training rows"
    shares = counted.counts[known] / counted.counts.sum()
    mean = shares @ values
    std = np.sqrt(shares @ (values - mean) ** 2)
    used = [i for i in range(len(dates.FEATURES)) if std[i] > 1e-9]
    if not used:
        return "it has the same value in all training rows"
    if not standardize:
        mean, std = np.zeros_like(mean), np.ones_like(std)
    names = tuple(dates.FEATURES[i] for i in used)
    return DateColumn(name, order, names, tuple(mean[used].tolist()), tuple(std[used].tolist()), counted.missing)


def _date_features(column: DateColumn, table: Table) -> Array:
    """The features of every word of a column; the last two are for a word too many and for none."""
    codes, words = table.texts(column.name)
    moments = [dates.moment(word, column.order) for word in words]
    if None in moments or column.name in table.overflowed:
        place = moments.index(None) if None in moments else 0
        row = int(np.argmax(codes == place)) if None in moments else int(np.argmax(codes == -2))
        cell = words[place] if None in moments else "one of too many different dates"
        raise DataError(
            f"{table.place(row)}: column {column.name!r} is {cell!r}, but the model was trained on dates such as "
            f"{dates.ORDERS[column.order]} there. Correct it."
        )
    chosen = [dates.FEATURES.index(name) for name in column.features]
    values = (dates.features([*moments, None, None])[:, chosen] - np.array(column.mean)) / np.array(column.std)
    marks = np.isnan(values[:, :1]) if column.missing else values[:, :0]
    return np.concatenate([np.nan_to_num(values), marks], axis=1).astype(np.float32)


def _date_from(said: CheckedTable, name: str) -> DateColumn:
    parts = said.texts("features")
    if not parts or len(set(parts)) < len(parts) or not set(parts) <= set(dates.FEATURES):
        raise ModelError(f"{said.where}: features are {parts}, but must be some of {', '.join(dates.FEATURES)}.")
    mean, std = said.numbers("mean", len(parts)), said.numbers("std", len(parts), positive=True)
    order = said.text("order", tuple(dates.ORDERS))
    return DateColumn(name, order, tuple(parts), tuple(mean), tuple(std), said.flag("missing"))


def _of_dates(column: DateColumn) -> str:
    """The use of a column of dates, in words."""
    parts = dict.fromkeys(name.removesuffix(" (sine)").removesuffix(" (cosine)") for name in column.features)
    what = "times" if column.order == "time" else f"dates such as {dates.ORDERS[column.order]}"
    return f"{what}; used are {', '.join(parts)}{', those that are missing marked' if column.missing else ''}"


def _folded(word: str) -> str:
    """A word as people compare it: without regard to case and to the number of blanks."""
    return " ".join(word.casefold().split())


def _of_categories(column: CategoryColumn) -> str:
    """The use of a column of categories, in words."""
    joined = f"; {_some([repr(word) for word in column.joined])} counted as the same" if column.joined else ""
    none = ", or none" if column.missing else ""
    rare = f"; {len(column.rare):,} rare ones share a feature" if column.rare else ""
    return f"{plural(len(column.categories), 'category')}: {_some(column.categories)}{none}{joined}{rare}"


def _said_left_out(left_out: Mapping[str, str]) -> list[str]:
    asked = [repr(name) for name, why in left_out.items() if why == "--drop"]
    sentences = [f"Left out with --drop: {_some(asked)}."] if asked else []
    return sentences + [f"Column {name!r} is left out: {why}." for name, why in left_out.items() if why != "--drop"]


def _format(said: CheckedTable) -> NumberFormat:
    signs = said.text("decimal", (".", ",")), said.text("thousands", ("", ",", ".", " ", "'"))
    if signs[0] == signs[1]:
        raise ModelError(f"{said.where}: decimal and thousands are both {signs[0]!r}.")
    return NumberFormat(*signs, said.text("unit"), said.flag("parentheses"))


def _tokens(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _word_counts(texts: Sequence[str], vocabulary: Sequence[str]) -> Array:
    places = {word: i for i, word in enumerate(vocabulary)}
    counts = np.zeros((len(texts), len(vocabulary)), np.float32)
    for row, text in enumerate(texts):
        for token in _tokens(text):
            place = places.get(token)
            if place is not None:
                counts[row, place] += 1
    return np.log1p(counts)


def _columns(count: int) -> str:
    return f"{plural(count, 'column')} of numbers {'is' if count == 1 else 'are'}"


def _some(names: Sequence[str]) -> str:
    """The first few names, each shortened if it is long."""
    shortened = (name if len(name) <= _LONGEST else f"{name[:_LONGEST]}…" for name in names[:8])
    return ", ".join(shortened) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


class TableRows(Rows):
    """Some rows of a table as a network takes them: features are computed when a batch needs them."""

    def __init__(self, table: Table, encoder: Encoder, chosen: Array) -> None:
        super().__init__((len(chosen), encoder.width), np.float32)
        self._table, self._encoder, self._chosen = table, encoder, chosen

    def read(self, rows: Array) -> Array:
        result = np.empty((len(rows), self.shape[1]), np.float32)
        self._encoder.fill(*self._table.read(self._chosen[rows]), result)
        return result

    def pieces(self) -> Iterator[Any]:
        """The same bytes as those of an array of all samples, so that a run goes on wherever they are."""
        row = 4 * self.shape[1]
        for start, end in spans(len(self) * row):
            first, last = start // row, -(-end // row)
            yield self[first:last].reshape(-1).view(np.uint8).data[start - first * row : end - first * row]
