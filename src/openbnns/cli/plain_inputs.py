"""Data for models without a description of their preprocessing: arrays, tables of numbers and images, used as they are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..files.untrusted import DataError
from ..nn.data import csv_files
from ..nn.data.image_folders import SUFFIXES


def read(network: Any, source: str, memory_limit: int | None) -> list[Any]:
    """An array for every input of a network, from a file of any kind that fits it."""
    from ..nn.names import inputs_of

    path, inputs = Path(source), inputs_of(network)
    names = [port.name for port in inputs]
    if not path.exists():
        raise DataError(f"{path}: there is no such file.")
    if path.suffix == ".npz":
        arrays = _archive(path, names)
    elif len(names) > 1:
        raise DataError(f"{path}: the model has {len(names)} inputs. Give a .npz file with arrays {', '.join(names)}.")
    elif path.suffix == ".npy":
        arrays = [np.load(path, allow_pickle=False)]
    elif path.suffix.lower() in SUFFIXES or path.is_dir():
        arrays = [_images(path, inputs[0].shape)]
    elif path.name.lower().endswith(csv_files.SUFFIXES):
        arrays = [csv_files.read(path, (), limit=memory_limit).x]
    else:
        raise DataError(f"{path}: give a .npz, .npy, .csv or .tsv file, an image, or a folder of images.")
    return [
        np.asarray(array, np.int64 if port.is_whole else np.float32) for array, port in zip(arrays, inputs, strict=True)
    ]


def _archive(path: Path, names: Sequence[str]) -> list[Any]:
    with np.load(path, allow_pickle=False) as archive:
        if len(names) == len(archive.files) == 1:
            return [archive[archive.files[0]]]
        missing = [name for name in names if name not in archive.files]
        if missing:
            raise DataError(
                f"{path}: has no array {missing[0]!r}, but {', '.join(archive.files) or 'none'}. The inputs of the model are "
                f"{', '.join(names)}."
            )
        return [archive[name] for name in names]


def _images(path: Path, shape: Sequence[Any]) -> Any:
    """Images as numbers from 0 to 1, with channels where the model has them; a side of a free size is that of the first one."""
    from ..nn.data.preprocessing.images import MODES, ImagePreparation
    from ..nn.data.sources.images import pillow

    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.suffix.lower() in SUFFIXES)
    if not files:
        raise DataError(f"{path}: has no images.")
    modes = {count: mode for mode, count in MODES.items()}
    places = [axis for axis in (1, 3) if len(shape) == 4 and isinstance(shape[axis], int) and shape[axis] in modes]
    if not places:
        sizes = ", ".join(map(str, shape))
        raise DataError(f"{path}: is an image, but the input of the model has shape ({sizes}). Give a .npy file.")
    last = places[0] == 3
    with pillow().open(files[0]) as first:
        own = (first.height, first.width)
    wanted = shape[1:3] if last else shape[2:4]
    height, width = (n if isinstance(n, int) else m for n, m in zip(wanted, own, strict=True))
    pixels = ImagePreparation((height, width), modes[int(shape[places[0]])]).apply(files)
    return pixels.transpose(0, 2, 3, 1) if last else pixels


def call(network: Any, inputs: Sequence[Any], batch_size: int) -> dict[str, Any]:
    """The outputs by name; many samples are run in several batches, if all inputs and outputs have one entry for each."""
    from ..nn.names import output_names

    counts = {array.shape[:1] for array in inputs}
    count = inputs[0].shape[0] if inputs[0].ndim else 1
    step = batch_size if len(counts) == 1 and count > batch_size else max(count, 1)
    parts = []
    for first in range(0, max(count, 1), step):
        results = network(*(inputs if step >= count else (array[first : first + step] for array in inputs)))
        parts.append(results if isinstance(results, (tuple, list)) else [results])
    joined = [part[0] if len(parts) == 1 else np.concatenate(part) for part in zip(*parts, strict=True)]
    return dict(zip(output_names(network), joined, strict=True))
