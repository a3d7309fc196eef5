"""Folders of images: one folder for each class, in folders for training, validation and test if there are such."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..._plural import plural
from ...files.untrusted import DataError
from ...graph.tensor import Array
from .preprocessing.images import ImagePreparation
from .sources.images import pillow

SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"}
_PARTS = {
    "train": "train", "training": "train", "validation": "validation", "val": "validation", "valid": "validation",
    "test": "test",
}  # fmt: skip


@dataclass
class Listing:
    """The contents of a folder of images."""

    parts: dict[str, tuple[list[Path], Array]]
    """Files and class numbers of the parts that there are: train, validation, test."""
    classes: tuple[str, ...]
    size: tuple[int, int]
    mode: str
    notes: list[str] = field(default_factory=list)


def list_folder(folder: Path, size: tuple[int, int] | None, *, skip_bad: bool) -> Listing:
    """The images of a folder, checked by their headers, or decoded completely if unreadable ones are to be left out."""
    inside = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    parts = {_PARTS[path.name.lower()]: path for path in inside if path.name.lower() in _PARTS}
    if "train" not in parts:
        parts = {"train": folder}
    files = {part: _by_class(path) for part, path in parts.items()}
    classes = tuple(sorted({name for by_class in files.values() for name in by_class}))
    if len(classes) < 2:
        what = f"one class, {classes[0]!r}" if classes else "no images"
        raise DataError(
            f"{folder}: has {what}. Put images (.png, .jpg and the like) of each class into a folder of its own: "
            f"{folder.name}/cat/1.png, {folder.name}/dog/2.png."
        )
    return _checked_listing(folder, files, classes, size, skip_bad)


def _by_class(folder: Path) -> dict[str, list[Path]]:
    by_class = {}
    for path in sorted(folder.iterdir()):
        if path.is_dir() and not path.name.startswith("."):
            files = sorted(p for p in path.rglob("*") if p.suffix.lower() in SUFFIXES and p.is_file())
            if files:
                by_class[path.name] = files
    return by_class


def _checked_listing(
    folder: Path, files_of_parts: dict[str, dict[str, list[Path]]], classes: tuple[str, ...], size: Any, skip_bad: bool
) -> Listing:

    images = pillow()
    sizes: Counter[tuple[int, int]] = Counter()
    first: dict[tuple[int, int], Path] = {}
    gray, bad = True, []
    parts: dict[str, tuple[list[Path], Array]] = {}
    for part, by_class in files_of_parts.items():
        paths, numbers = [], []
        for name, files in by_class.items():
            for path in files:
                try:
                    with images.open(path) as image:
                        shape, mode = (image.height, image.width), image.mode
                    if skip_bad:
                        ImagePreparation(size or shape, "RGB").decode(path)
                except (DataError, OSError, SyntaxError, ValueError, EOFError, images.DecompressionBombError) as error:
                    if not skip_bad:
                        raise DataError(
                            f"{path}: cannot be read as an image ({error}). Replace it, or leave such out: --skip-bad."
                        ) from None
                    bad.append(path)
                    continue
                sizes[shape] += 1
                first.setdefault(shape, path)
                gray = gray and mode in ("1", "L", "LA")
                paths.append(path)
                numbers.append(classes.index(name))
        parts[part] = paths, np.array(numbers, np.int64)
    if not sizes:
        raise DataError(f"{folder}: none of the {len(bad)} images can be read.")
    if size is None and len(sizes) > 1:
        (one, _), (other, _) = sizes.most_common(2)
        raise DataError(
            f"{folder}: images have {len(sizes)} different sizes: {first[one]} is {one[0]} x {one[1]} pixels, {first[other]} "
            f"{other[0]} x {other[1]}. Say what to bring them to: --size 64, or --size HEIGHTxWIDTH."
        )
    notes = [f"Read a folder of {plural(sum(sizes.values()), 'image')} in {plural(len(classes), 'class')}."]
    if bad:
        notes.append(left_out(bad))
    if size is not None and (len(sizes) > 1 or size not in sizes):
        notes.append(f"Images of {len(sizes)} sizes are brought to {size[0]} x {size[1]} pixels.")
    return Listing(parts, classes, size or next(iter(sizes)), "L" if gray else "RGB", notes)


def left_out(bad: Sequence[object]) -> str:
    """A remark on images that cannot be read."""
    listed = ", ".join(map(str, bad[:5])) + (f" and {len(bad) - 5} more" if len(bad) > 5 else "")
    what = "1 image that cannot be read is" if len(bad) == 1 else f"{len(bad):,} images that cannot be read are"
    return f"{what} left out: {listed}."
