"""Data for a trained model, read and prepared like its training data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._plural import plural
from ...graph.tensor import Array
from ..files.untrusted import DataError
from . import splitting, targets
from .image_folders import SUFFIXES, left_out, list_folder
from .loading import has_idx, read_parts
from .preprocessing import ArrayPreparation, ImagePreparation, TablePreparation
from .preprocessing.tables import TableRows
from .sample_origin import cells
from .sources import Rows, open_npy
from .sources.rows import ChosenRows
from .tables import delimited, number_formats, row_store
from .tables.dates import order_of as dates_order
from .tables.number_formats import NumberFormat
from .tables.table import Table

if TYPE_CHECKING:
    from ..files.model_file import ModelCard


@dataclass
class Samples:
    """Samples as the network takes them, with their true targets if these are known and requested."""

    x: Any
    y: Array | None
    """Class numbers of the model, labels, or numbers as in the data."""
    names: list[str]
    """Names of the samples: their rows, or their files."""
    notes: list[str] = field(default_factory=list)
    kept: dict[str, list[str]] = field(default_factory=dict)
    """The requested columns' cells, as they are in the file."""
    table: Table | None = None
    """The table that the samples are rows of."""
    rows: Array | None = None
    """Their numbers in it, if they are not all of its rows."""


def read(
    card: ModelCard,
    source: str,
    *,
    with_targets: bool,
    target: Sequence[str] | None = None,
    part: str = "all",
    separator: str | None = None,
    header: bool | None = None,
    missing: Sequence[str] = (),
    decimal: str | None = None,
    thousands: str | None = None,
    dates: str | None = None,
    memory_limit: int | None = None,
    skip_bad: bool = False,
    keep: Sequence[str] = (),
) -> Samples:
    """Samples from a source of any kind that fits the model; ``part`` takes those of one part of the training data.

    Cells of the columns of a table that ``keep`` names come with them.
    """
    prepare, path = card.preparation, Path(source)
    if prepare is None:
        raise DataError(
            "the model does not say how data are prepared for it. Use openbnns predict with arrays, or Python."
        )
    if source != "digits" and not path.exists():
        raise DataError(f"{path}: there is no such file or folder.")
    if isinstance(prepare, TablePreparation):
        form = {
            "separator": separator,
            "header": header,
            "limit": memory_limit,
            "missing": (*prepare.missing, *missing),
        }
        signs = number_formats.signs(decimal, thousands)
        prepare = prepare.with_dates(dates_order(dates))
        samples = _table(card, prepare, path, with_targets, target, form, signs)
        samples.kept = cells(path, samples.table, keep)
    elif keep:
        raise DataError(f"{path}: --keep names columns, but the model was trained on {prepare.kind}s. Leave it out.")
    elif isinstance(prepare, ImagePreparation):
        samples = _images(card, prepare, path, with_targets, skip_bad)
    else:
        assert isinstance(prepare, ArrayPreparation)
        return _arrays(card, prepare, source, with_targets, part, memory_limit)
    return samples if part == "all" else _part(card, samples, part)


def _table(
    card: ModelCard, prepare: TablePreparation, path: Path, with_targets: bool, target: Sequence[str] | None, form: Any,
    signs: tuple[str, str],
) -> Samples:  # fmt: skip
    wanted = list(target or card.targets) if with_targets else []
    numeric = [name for name in wanted if card.task != "classification" or name in (prepare.formats or {})]
    formats = _formats(prepare, numeric, *signs)
    free = row_store.memory_for_table(path, None, form["limit"])
    if path.name.lower().endswith(".parquet"):
        from .tables import parquet

        table = parquet.read(
            path, targets=wanted, kinds=prepare.kinds(), formats=formats, missing=form["missing"], room=free
        )
    elif path.is_file() and path.name.lower().endswith((".csv", ".tsv", ".txt", ".gz")):
        decimals = {form.decimal for form in formats.values()}
        table = delimited.read(
            path, targets=wanted, kinds=prepare.kinds(), centre=prepare.centres(), formats=formats, room=free,
            decimal=decimals.pop() if len(decimals) == 1 else "." if decimals else "", **form,
        )  # fmt: skip
    else:
        raise DataError(f"{path}: the model was trained on a table. Give a .csv, .tsv or .parquet file.")
    number_formats.convert(table, formats=formats)
    made = prepare.features_if_room(table, free)
    x: Any = made if isinstance(made, np.ndarray) else TableRows(table, made, np.arange(len(table)))
    notes = list(table.notes)
    for name, words in prepare.unseen.items():
        shown = ", ".join(words[:5]) + (f" and {len(words) - 5} more" if len(words) > 5 else "")
        codes, known = table.texts(name)
        new = [i for i, word in enumerate(known) if word in set(words)]
        count = int(np.isin(codes, new).sum())
        (column,) = (c for c in prepare.columns if c.name == name)
        treated = "rare ones" if getattr(column, "rare", ()) else "no category"
        notes.append(
            f"Column {name!r} has words that training has not seen in {count:,} of {plural(len(table), 'row')}, which count as "
            f"{treated}: {shown}."
        )
    y = _table_targets(card, table, wanted) if with_targets else None
    return Samples(x, y, [str(i + 1) for i in range(len(table))], notes, table=table)


def _formats(
    prepare: TablePreparation, targets: Sequence[str], decimal: str, thousands: str
) -> dict[str, NumberFormat]:
    """The formats of all numbers, as training has found them unless other signs are given; none if they are unknown."""
    if prepare.formats is None and not decimal + thousands:
        return {}
    known = prepare.formats or {}
    names = [*(name for name, kind in prepare.kinds().items() if kind == "number"), *targets]
    return {name: known.get(name, NumberFormat()).written_as(decimal, thousands) for name in names}


def _table_targets(card: ModelCard, table: Table, wanted: Sequence[str]) -> Array:
    if card.task != "classification":
        return targets.of_table(table, wanted, card.task).y
    read_targets = targets.of_table(table, wanted, "classification")
    names = read_targets.names or tuple(str(i) for i in range(int(read_targets.y.max()) + 1))
    return _known_classes(card, read_targets.y, names, table.source)


def _known_classes(card: ModelCard, y: Array, names: Sequence[str], source: str) -> Array:
    """The model's class numbers for the classes in the data; raises an error for one that the model does not know."""
    numbers = {name: i for i, name in enumerate(card.classes)}
    if not card.classes:
        return y
    known = np.array([numbers.get(name, -1) for name in names], np.int64)
    present = np.unique(y)
    unknown = [names[i] for i in present if known[i] < 0]
    if unknown:
        count = int(np.isin(y, [i for i in present if known[i] < 0]).sum())
        raise DataError(
            f"{source}: {plural(count, 'sample')} of classes that the model was not trained on: {', '.join(unknown[:8])}. "
            f"It knows {', '.join(card.classes[:12])}."
        )
    return known[y]


def _images(card: ModelCard, prepare: ImagePreparation, path: Path, with_targets: bool, skip_bad: bool) -> Samples:
    if with_targets:
        listing = list_folder(path, prepare.size, skip_bad=skip_bad)
        files = [file for paths, _ in listing.parts.values() for file in paths]
        y = _known_classes(
            card, np.concatenate([part for _, part in listing.parts.values()]), listing.classes, str(path)
        )
        return Samples(prepare.apply(files), y, [str(file) for file in files], listing.notes)
    files = [path] if path.is_file() else sorted(path.rglob("*"))
    files = [file for file in files if file.suffix.lower() in SUFFIXES]
    if not files:
        raise DataError(
            f"{path}: {'is not an image' if path.is_file() else 'has no images'}. The model was trained on images: give a file "
            "(.png, .jpg and the like), or a folder of them."
        )
    kept, pixels, bad = [], [], []
    for file in files:
        try:
            pixels.append(prepare.decode(file))
            kept.append(str(file))
        except DataError:
            if not skip_bad:
                raise
            bad.append(str(file))
    notes = [left_out(bad)] if bad else []
    if not kept:
        raise DataError(f"{path}: none of the {len(bad)} images can be read.")
    return Samples(np.stack(pixels) / np.float32(255), None, kept, notes)


def _arrays(
    card: ModelCard, prepare: ArrayPreparation, source: str, with_targets: bool, part: str, limit: int | None
) -> Samples:
    """The arrays of a file, or of one of its parts if it has several: by default the test part."""
    path, notes = Path(source), []
    if source.endswith(".npy"):
        parts: Any = {"train": (open_npy(source)[:], None)}
    elif source == "digits" or source.endswith(".npz") or (path.is_dir() and has_idx(path)):
        parts = read_parts(source, limit)
    else:
        raise DataError(
            f"{source}: the model was trained on arrays {prepare.shape}. Give a .npz or a .npy file, or a folder of IDX files."
        )
    own = {"training": "train"}.get(part, part)
    if len(parts) == 1:
        (chosen,) = parts
    elif part == "all":
        chosen = "test" if "test" in parts else "train"
        notes.append(f"{source}: these are the {chosen} samples of {', '.join(parts)}.")
    else:
        chosen = own if own in parts else "train"
    x, y = parts[chosen]
    if with_targets and y is None:
        raise DataError(f"{source}: has samples, but no targets y to compare with.")
    known = None if y is None or not with_targets else _array_targets(card, y, source)
    samples = Samples(prepare.apply(x, source), known, [str(i + 1) for i in range(len(x))], notes)
    whole = part == "all" or (len(parts) > 1 and chosen == own and (own != "train" or not _was_split(card)))
    return samples if whole else _part(card, samples, part)


def _was_split(card: ModelCard) -> bool:
    """True if parts were taken from the training samples."""
    return any(int(card.split.get(part, 0)) for part in ("test", "validation"))


def _array_targets(card: ModelCard, y: Array, source: str) -> Array:
    if card.task != "classification":
        return targets.numbers(y, card.task or "regression", source)
    if not card.classes:
        if y.dtype.kind not in "iu":
            raise DataError(f"{source}: targets are {y.dtype}, but the model was trained on class numbers.")
        return y.astype(np.int64)
    words, numbers = np.unique(y, return_inverse=True)
    return _known_classes(card, numbers.reshape(-1), [str(word) for word in words.tolist()], source)


def parts_of(card: ModelCard, y: Array | None) -> dict[str, Array] | None:
    """The rows of every part, if these are the targets of the data that the model was trained on."""
    split = card.split
    if y is None or not split or split.get("samples") != len(y):
        return None
    sizes = int(split.get("test", 0)), int(split.get("validation", 0))
    trained, validated, tested = splitting.three_parts(y, *sizes, int(split.get("seed", 0)))
    rows = {"training": trained, "validation": validated, "test": tested}
    return rows if splitting.fingerprint(rows) == split.get("sha256") else None


def _part(card: ModelCard, samples: Samples, part: str) -> Samples:
    """The samples of one part, if these are the data that the model was trained on."""
    split, count = card.split, len(samples.names)
    if samples.y is None or not split or split.get("samples") != count:
        raise DataError(
            f"--part {part} takes a part of the data that the model was trained on, which had {split.get('samples', 'other')} "
            f"samples, but these are {count}. Use --part all."
        )
    rows = parts_of(card, samples.y)
    if rows is None:
        raise DataError(f"--part {part}: these are not the data that the model was trained on: their targets differ.")
    chosen = rows[part]
    x = ChosenRows(samples.x, chosen) if isinstance(samples.x, Rows) else samples.x[chosen]
    kept = {name: [column[i] for i in chosen] for name, column in samples.kept.items()}
    return Samples(x, samples.y[chosen], [samples.names[i] for i in chosen], samples.notes, kept, samples.table, chosen)
