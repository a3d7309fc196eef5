"""From a source of data to samples and targets in three parts, prepared for a network."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..._elsewhere import refuse_file
from ..._plural import plural
from ...files.untrusted import DataError
from ...graph.tensor import Array
from . import csv_files, image_folders, splitting, targets
from .dataset import Data, check, require_one_shape, with_task
from .preprocessing import ArrayPreparation, ImagePreparation
from .preprocessing.arrays import PreparedRows
from .preprocessing.images import ImageCache
from .sample_origin import Origin
from .sources import Rows, open_npy, open_npz
from .sources.array_files import read_idx, read_npz
from .sources.rows import ChosenRows

_LARGE = 2**30  # bytes of samples in a file: more of them stay there
_PARTS = {"train": ("train",), "validation": ("validation", "val"), "test": ("test",)}
_ARRAYS = [*(f"{axis}_{name}" for names in _PARTS.values() for name in names for axis in "xy"), "x", "y"]


@dataclass(frozen=True)
class Options:
    """Options for reading data: the arguments of ``nn.data.load``."""

    target: str | int | Sequence[str | int] | None = None
    task: str | None = None
    test_share: float = 0.2
    validation_share: float = 0.1
    seed: int = 0
    limit: int | None = None
    standardize: bool | None = None
    size: tuple[int, int] | None = None
    skip_bad: bool = False

    def split(self, rows: dict[str, Array], samples: int) -> dict[str, Any]:
        """The split into training, validation and test samples, as a model file records it."""
        return {
            "samples": samples, "seed": self.seed, "test_share": self.test_share,
            "validation_share": self.validation_share, **{name: len(part) for name, part in rows.items()},
            "sha256": splitting.fingerprint(rows),
        }  # fmt: skip


def load(source: str | Path, options: Options) -> Data:
    """See ``nn.data.load``."""
    if str(source) == "digits":
        return _from_arrays(_digits(), "digits", options)
    path = Path(source)
    if not path.exists():
        raise DataError(f"{path}: there is no such file or folder. Use 'digits' or the path of your data.")
    name = path.name.lower()
    if path.is_dir():
        return _from_folder(path, options)
    if name.endswith(csv_files.SUFFIXES):
        return _from_table(path, options)
    if name.endswith(".npz"):
        return _from_arrays(_read_npz(path, options.limit), path.name, options)
    if name.endswith(".npy"):
        return _from_arrays(_read_npy(path, options), path.name, options)
    refuse_file(path)
    raise DataError(f"{path}: unknown kind of file. Use {KNOWN}.")


def read_parts(source: str, limit: int | None) -> dict[str, tuple[Array, Array | None]]:
    """Samples and, if there are any, targets of every part of digits, of a folder of IDX files, or of an .npz file."""
    if source == "digits":
        return {**_digits()}
    path = Path(source)
    if path.is_dir():
        return {**_read_idx(path, limit)}
    arrays, present = read_npz(path, _ARRAYS, limit)
    if "x" in arrays:
        return {"train": (arrays["x"], arrays.get("y"))}
    named = [(part, name) for part, names in _PARTS.items() for name in names if f"x_{name}" in arrays]
    if not named:
        raise DataError(f"{source}: has arrays {', '.join(present) or '(none)'}, but x, or x_test, is needed.")
    return {part: (arrays[f"x_{name}"], arrays.get(f"y_{name}")) for part, name in named}


def _digits() -> Parts:
    from ...datasets import load_digits

    train_x, train_y, test_x, test_y = load_digits()
    return {"train": (train_x.reshape(-1, 1, 8, 8), train_y), "test": (test_x.reshape(-1, 1, 8, 8), test_y)}


def has_idx(folder: Path) -> bool:
    """True for a folder of IDX files."""
    return any("-idx" in path.name for path in folder.iterdir())


KNOWN = ".csv, .tsv, .npz, .npy, a folder of images by class, or one of IDX files"


def _from_folder(folder: Path, options: Options) -> Data:
    if has_idx(folder):
        return _from_arrays(_read_idx(folder, options.limit), folder.name, options)
    return _from_images(folder, options)


def _read_npy(path: Path, options: Options) -> Parts:
    """Samples in one file, targets in another."""
    target = options.target
    other = target[0] if isinstance(target, list) and len(target) == 1 else target
    if not str(other).endswith(".npy"):
        raise DataError(
            f"{path}: has samples but no targets. Pass their file: --target y.npy, one entry for each sample."
        )
    x: Any = open_npy(path)
    large = math.prod(x.shape) * x.dtype.itemsize > (options.limit or _LARGE)
    return {"train": (x if large else x[:], open_npy(str(other))[:])}


# Tables.


def _from_table(path: Path, options: Options) -> Data:
    wanted = options.target
    table = csv_files.read(
        path, (-1,) if wanted is None else [wanted] if isinstance(wanted, (str, int)) else wanted, limit=options.limit
    )
    assert table.y is not None
    task, why = targets.guess_array(table.y)
    if options.task is not None:
        task, why = options.task, "--task says so"
    names = ", ".join(map(repr, table.targets))
    rows = np.arange(len(table.x))
    prepared, split = _filled({"train": (rows, table.y)}, path.name, options)
    trained, validated, tested = (prepared.get(part, (rows[:0],))[0] for part in _PARTS)
    prepare = ArrayPreparation.fit(
        table.x, trained, standardize=options.standardize is not False, columns=table.columns
    )
    x = prepare.apply(table.x, path.name)
    data = with_task(
        Data(
            x[trained], table.y[trained], x[tested], table.y[tested], path.name, (), x[validated], table.y[validated],
            preparation=prepare, target_names=tuple(table.targets), split=split,
            remarks=(f"Task: {task} of {names}, because {why}.", *prepare.sentences()),
            origin=Origin(path.name, tested + table.first_line),
        ),
        task,
    )  # fmt: skip
    return data if data.task == "classification" else replace(data, class_names=data.target_names)


# Images.


def _from_images(folder: Path, options: Options) -> Data:
    listing = image_folders.list_folder(folder, options.size, skip_bad=options.skip_bad)
    prepare = ImagePreparation(listing.size, listing.mode)
    parts: dict[str, Any] = {}
    for part, (paths, y) in listing.parts.items():
        parts[part] = ImageCache(paths, prepare, options.limit or _LARGE), y
    filled, split = _filled(parts, folder.name, options)
    none: Any = np.empty((0, *prepare.shape), np.float32), np.zeros(0, np.int64)
    (x, y), tested, validated = filled["train"], filled.get("test", none), filled.get("validation", none)
    return Data(
        x, y, tested[0], tested[1], folder.name, listing.classes, validated[0], validated[1], task="classification",
        preparation=prepare, remarks=(*listing.notes, *prepare.sentences()), split=split,
        origin=Origin(folder.name, files=getattr(tested[0], "files", None)),
    )  # fmt: skip


# Arrays.

Parts = dict[str, tuple[Array, Array]]
"""Samples and targets of the parts that a source has: train, validation, test."""


def _from_arrays(parts: Parts, name: str, options: Options) -> Data:
    several = len(parts) > 1
    for part, (x, y) in list(parts.items()):
        if isinstance(x, np.ndarray):
            parts[part] = check(x, y, f"{name} ({part})" if several else name, labels=True)
        elif len(x) != len(y):
            raise DataError(
                f"{name}: x has {plural(len(x), 'sample')}, but y {plural(len(y), 'target')}. Give one target for each sample."
            )
    _require_one_form(parts, name)
    prepared, split = _filled(parts, name, options)
    x, _ = prepared["train"]
    prepare = ArrayPreparation.fit(x, standardize=bool(options.standardize))
    none: Any = prepare.apply(x[:0]), prepared["train"][1][:0]
    done: Any = {part: (_prepared(prepare, x), y) for part, (x, y) in prepared.items()}
    (x, y), tested, validated = done["train"], done.get("test", none), done.get("validation", none)
    return Data(
        x, y, tested[0], tested[1], name, (), validated[0], validated[1], preparation=prepare,
        remarks=tuple(prepare.sentences()), split=split,
    )  # fmt: skip


def _prepared(prepare: ArrayPreparation, samples: Any) -> Any:
    return PreparedRows(samples, prepare) if isinstance(samples, Rows) else prepare.apply(samples)


def _require_one_form(parts: Parts, who: str) -> None:
    require_one_shape(parts.items(), who)
    first_x, _ = parts["train"]
    for name, (x, _) in parts.items():
        if (x.dtype == np.uint8) != (first_x.dtype == np.uint8):
            raise DataError(
                f"{who}: samples are {first_x.dtype} to train on, but {x.dtype} in the {name} part. Store all parts alike: "
                "pixels of 8 bits are divided by 255, other numbers are not."
            )


def _filled(parts: Parts, name: str, options: Options) -> tuple[Parts, dict[str, Any]]:
    """The parts that the source has, and those that it lacks, taken from the training samples."""
    x, y = parts["train"]
    test = 0 if "test" in parts and len(parts["test"][0]) else round(options.test_share * len(x))
    validation = (
        0 if "validation" in parts and len(parts["validation"][0]) else round(options.validation_share * len(x))
    )
    if test + validation >= len(x):
        few = f"{plural(len(x), 'sample')} {'leaves' if len(x) == 1 else 'leave'} none to train on"
        raise DataError(f"{name}: {few}. Give more, or separate x_test and y_test.")
    trained, validated, tested = splitting.three_parts(y, test, validation, options.seed)
    filled = dict(parts)
    if validation:
        filled["validation"] = _rows(x, validated), y[validated]
    if test:
        filled["test"] = _rows(x, tested), y[tested]
    if test or validation:
        filled["train"] = _rows(x, trained), y[trained]
    return filled, options.split({"training": trained, "validation": validated, "test": tested}, len(x))


def _rows(samples: Any, chosen: Array) -> Any:
    """Some of the samples; those that are read from files stay there."""
    return ChosenRows(samples, chosen) if isinstance(samples, Rows) else samples[chosen]


def _read_npz(path: Path, limit: int | None) -> Parts:
    if path.stat().st_size > (limit or _LARGE):
        archive = open_npz(path)  # whose rows are read as they are needed
        if {"x", "y"} <= set(archive):
            samples: Any = archive["x"]
            return {"train": (samples, archive["y"][:])}
    arrays, present = read_npz(path, _ARRAYS, limit)
    parts: Parts = {}
    for part, names in _PARTS.items():
        for name in names:
            if {f"x_{name}", f"y_{name}"} <= set(arrays):
                parts[part] = arrays[f"x_{name}"], arrays[f"y_{name}"]
    if "train" in parts:
        return parts
    if not {"x", "y"} <= set(arrays):
        raise DataError(
            f"{path}: has arrays {', '.join(present) or '(none)'}, but x and y, or x_train and y_train, are needed."
        )
    return {"train": (arrays["x"], arrays["y"])}


def _read_idx(folder: Path, limit: int | None) -> Parts:
    arrays: list[Array] = []
    for part in ("train", "t10k"):
        for kind, ranks in (("images-idx3", (3, 4)), ("labels-idx1", (1,))):
            files = sorted(p for p in folder.iterdir() if p.name.replace(".", "-").startswith(f"{part}-{kind}-ubyte"))
            if not files:
                raise DataError(
                    f"{folder}: has no {part}-{kind}-ubyte (or .gz). Put the four files of MNIST's form there."
                )
            array = read_idx(files[0], limit)
            if array.ndim not in ranks:
                raise DataError(
                    f"{files[0]}: has rank {array.ndim}, but rank {' or '.join(map(str, ranks))} is needed."
                )
            arrays.append(array)
    images = [array if array.ndim == 4 else array[:, None] for array in arrays[::2]]
    return {"train": (images[0], arrays[1]), "test": (images[1], arrays[3])}


def with_regression(data: Data, task: str) -> Data:
    """Data whose targets are numbers or labels, as rows of float32."""
    parts = {name: targets.numbers(y, task, data.name) for name, (_, y) in data.parts.items()}
    width = parts["training"].shape[1]
    mean = std = None
    if task == "regression":
        _, mean, std = targets.standardized(parts["training"], slice(None))
        parts = {name: (y - np.array(mean)) / np.array(std) for name, y in parts.items()}
    y = {name: part.astype(np.float32) for name, part in parts.items()}
    none = np.zeros((0, width), np.float32)
    return replace(
        data, train_y=y["training"], validation_y=y.get("validation", none), test_y=y.get("test", none), task=task,
        target_mean=mean, target_std=std,
    )  # fmt: skip
