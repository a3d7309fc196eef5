"""Data for a trained model, read and prepared like its training data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._plural import plural
from ...files.untrusted import DataError
from ...graph.tensor import Array
from . import csv_files, splitting, targets
from .image_folders import SUFFIXES, left_out, list_folder
from .loading import has_idx, read_parts
from .preprocessing import ArrayPreparation, ImagePreparation
from .sample_origin import Origin
from .sources import Rows, open_npy
from .sources.rows import ChosenRows

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
    origin: Origin | None = None
    """The lines of a table, or the files, that the samples are made from."""


def read(
    card: ModelCard,
    source: str,
    *,
    with_targets: bool,
    target: Sequence[str] | None = None,
    part: str = "all",
    memory_limit: int | None = None,
    skip_bad: bool = False,
) -> Samples:
    """Samples from a source of any kind that fits the model; ``part`` takes those of one part of the training data."""
    prepare, path = card.preparation, Path(source)
    if prepare is None:
        raise DataError(
            "the model does not say how data are prepared for it. Use openbnns predict with arrays, or Python."
        )
    if source != "digits" and not path.exists():
        raise DataError(f"{path}: there is no such file or folder.")
    assert isinstance(prepare, (ArrayPreparation, ImagePreparation))
    if isinstance(prepare, ImagePreparation):
        samples = _images(card, prepare, path, with_targets, skip_bad)
    elif prepare.columns and path.name.lower().endswith(csv_files.SUFFIXES):
        samples = _table(card, prepare, path, with_targets, target, memory_limit)
    else:
        return _arrays(card, prepare, source, with_targets, part, memory_limit)
    return samples if part == "all" else _part(card, samples, part)


def _table(
    card: ModelCard, prepare: ArrayPreparation, path: Path, with_targets: bool, target: Sequence[str] | None,
    limit: int | None,
) -> Samples:  # fmt: skip
    """The columns of a file, found by the names that they had in training."""
    wanted = list(target or card.targets) if with_targets else []
    if with_targets and not wanted:
        raise DataError(f"{path}: the model does not say which column it predicts. Name it: --target NAME.")
    table = csv_files.read(path, wanted, prepare.columns, limit)
    x, places = prepare.apply(table.x, str(path)), table.first_line + np.arange(len(table.x))
    y = None if table.y is None else _array_targets(card, table.y, str(path))
    return Samples(x, y, [str(i + 1) for i in range(len(x))], origin=Origin(path.name, places))


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
        names = [str(file) for file in files]
        return Samples(prepare.apply(files), y, names, listing.notes, Origin(path.name, files=files))
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
        kind = (
            "a table. Give a .csv or .tsv file"
            if prepare.columns
            else f"arrays {prepare.shape}. Give a folder of IDX files"
        )
        raise DataError(f"{source}: the model was trained on {kind}, or a .npz or .npy file.")
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
    origin = None if samples.origin is None else samples.origin.some(chosen)
    return Samples(x, samples.y[chosen], [samples.names[i] for i in chosen], samples.notes, origin)
