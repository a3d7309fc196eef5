"""Data from arrays, .npz, IDX (MNIST) and CSV files, checked before training starts."""

from __future__ import annotations

import gzip
import struct
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ._choose import seed_number
from ._graph import Array


class DataError(ValueError):
    """Data that cannot be trained on; the message says what and where.

    >>> from openbnns import nn
    >>> try:
    ...     nn.data.load("nowhere.npz")
    ... except nn.data.DataError as error:
    ...     print(error)
    nowhere.npz: there is no such file or folder. Use 'digits' or the path of your data.
    """


@dataclass
class Data:
    """Samples ``x`` with the batch axis in front, and targets ``y``; the test part may be empty.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> data = nn.data.Data(np.zeros((4, 3)), np.array([0, 1, 2, 1]), np.zeros((0, 3)), np.array([], int))
    >>> data.sample_shape, data.classes
    ((3,), 3)
    """

    train_x: Array
    train_y: Array
    test_x: Array
    test_y: Array
    name: str = "arrays"
    class_names: tuple[str, ...] = ()
    """What class 0, 1, ... was called, if :func:`classification` numbered the classes."""

    @property
    def sample_shape(self) -> tuple[int, ...]:
        return self.train_x.shape[1:]

    @property
    def classes(self) -> int:
        """Number of classes if the targets are class numbers, else 0."""
        if self.train_y.dtype.kind not in "iu":
            return 0
        return 1 + int(max(part.max() for part in (self.train_y, self.test_y) if part.size))


def check(x: Any, y: Any, who: str, *, words: bool = False) -> tuple[Array, Array]:
    """Samples and targets as arrays, refused if empty, ragged, of different length or not finite.

    With ``words`` targets may be names of classes.
    """
    samples, targets = _array(x, f"{who}: x"), _array(y, f"{who}: y", "fiubU" if words else "fiub")
    if len(samples) == 0:
        raise DataError(f"{who}: there are no samples (x has shape {samples.shape}).")
    if len(samples) != len(targets):
        raise DataError(
            f"{who}: x has {len(samples)} samples, but y has shape {targets.shape}. Pass one target per sample."
        )
    for name, array in (("x", samples), ("y", targets)):
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
            raise DataError(f"{who}: {name} contains {array[where]} at {where}. Remove or fill such values first.")
    return samples, targets


def _array(value: Any, who: str, kinds: str = "fiub") -> Array:
    try:
        array = np.asarray(value)
    except ValueError:
        raise DataError(f"{who} is ragged: its rows have different lengths. Pad or cut them to one shape.") from None
    if array.dtype.kind not in kinds:
        raise DataError(f"{who} is {array.dtype}, but numbers are needed.")
    if array.ndim == 0:
        raise DataError(f"{who} is the single number {array}, but an array with one entry per sample is needed.")
    if array.dtype.kind == "f":
        return np.ascontiguousarray(array, np.float32)
    return np.ascontiguousarray(array)


def load(source: str | Path, *, test_share: float = 0.2, seed: int = 0) -> Data:
    """Data from ``"digits"``, an .npz file, a CSV file, or a folder of IDX files.

    * ``.npz``: arrays ``x_train, y_train, x_test, y_test``, or ``x, y``, of which ``test_share`` is set apart.
    * ``.csv`` (also ``.csv.gz``): numbers, one sample per line, the class last, as a number or a word; a first line of names
      is passed over.
    * a folder with ``train-images-idx3-ubyte`` and the like, as MNIST comes (also ``.gz``).

    Pixels of 8 bits become 0 to 1.

    >>> from openbnns import nn
    >>> data = nn.data.load("digits")
    >>> data.train_x.shape, data.train_y.dtype.kind, data.classes
    ((1437, 1, 8, 8), 'i', 10)
    """
    seed = seed_number(seed, "data.load: seed")
    if str(source) == "digits":
        from ..datasets import load_digits

        train_x, train_y, test_x, test_y = load_digits()
        return Data(train_x.reshape(-1, 1, 8, 8), train_y, test_x.reshape(-1, 1, 8, 8), test_y, "digits")
    path = Path(source)
    if not path.exists():
        raise DataError(f"{path}: there is no such file or folder. Use 'digits' or the path of your data.")
    if path.is_dir():
        return _load_idx(path)
    name = path.name.lower()
    if name.endswith(".npz"):
        return _load_npz(path, test_share, seed)
    if name.endswith((".csv", ".csv.gz")):
        x, y = _read_csv(path)
        return _split(x, y, test_share, seed, path.name)
    raise DataError(f"{path}: the kind of file is not known. Use .npz, .csv, .csv.gz or a folder of IDX files.")


def _split(x: Array, y: Array, test_share: float, seed: int, name: str) -> Data:
    order = np.random.RandomState(seed).permutation(len(x))
    count = round(test_share * len(x))
    test, train = order[:count], order[count:]
    if not len(train):
        raise DataError(
            f"{name}: {len(x)} sample(s) leave none to train on. Give more, or x_test and y_test of their own."
        )
    return Data(x[train], y[train], x[test], y[test], name)


def _pixels(array: Array) -> Array:
    return (array / np.float32(255)).astype(np.float32) if array.dtype == np.uint8 else array


def _load_npz(path: Path, test_share: float, seed: int) -> Data:
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {key: file[key] for key in file.files}
    except (ValueError, OSError, EOFError, KeyError) as error:
        raise DataError(f"{path}: cannot be read as .npz ({error}).") from None
    if {"x_train", "y_train"} <= set(arrays):
        train_x, train_y = check(_pixels(arrays["x_train"]), arrays["y_train"], f"{path} (train)", words=True)
        if not {"x_test", "y_test"} <= set(arrays):
            return _split(train_x, train_y, test_share, seed, path.name)
        test_x, test_y = check(_pixels(arrays["x_test"]), arrays["y_test"], f"{path} (test)", words=True)
        return Data(train_x, train_y, test_x, test_y, path.name)
    if {"x", "y"} <= set(arrays):
        return _split(*check(_pixels(arrays["x"]), arrays["y"], str(path), words=True), test_share, seed, path.name)
    raise DataError(
        f"{path}: has arrays {', '.join(arrays) or '(none)'}, but x and y, or x_train and y_train, are needed."
    )


def _open(path: Path) -> bytes:
    try:
        data = path.read_bytes()
        return gzip.decompress(data) if path.suffix == ".gz" else data
    except (OSError, EOFError) as error:
        raise DataError(f"{path}: cannot be read ({error}).") from None


def _read_csv(path: Path) -> tuple[Array, Array]:
    rows: list[list[float]] = []
    classes: list[str] = []
    headed = False
    for number, line in enumerate(_open(path).decode("utf-8", "replace").splitlines(), 1):
        if not line.strip():
            continue
        *cells, last = line.split(",")
        try:
            row = [float(cell) for cell in cells]
        except ValueError:
            if not rows and not headed:
                headed = True  # a first line of names
                continue
            raise DataError(
                f"{path}, line {number}: {line[:60]!r}: all but the last of a line must be numbers."
            ) from None
        if rows and len(row) != len(rows[0]):
            raise DataError(
                f"{path}, line {number}: {len(row) + 1} values, but the lines before have {len(rows[0]) + 1}."
            )
        if not last.strip():
            raise DataError(f"{path}, line {number}: there is no class after the last comma.")
        rows.append(row)
        classes.append(last.strip().strip('"'))
    if not rows or not rows[0]:
        raise DataError(f"{path}: there are no samples of at least one value and a class.")
    return check(np.array(rows, np.float32), _csv_classes(path, classes), str(path), words=True)


def _csv_classes(path: Path, classes: list[str]) -> Array:
    """The last column: class numbers, or names of classes if none is a number."""
    numbers = [_number(text) for text in classes]
    words = [i for i, number in enumerate(numbers) if number is None]
    if len(words) == len(classes):
        return np.array(classes)
    if words:
        raise DataError(
            f"{path}: the last column holds classes: sample {words[0] + 1} has {classes[words[0]]!r}, but others have numbers."
        )
    labels = np.array(numbers, np.float64)
    odd = (labels != np.round(labels)) | ~np.isfinite(labels)
    if odd.any():
        where = int(np.argmax(odd))
        raise DataError(f"{path}: the last column holds class numbers, but sample {where + 1} has {labels[where]}.")
    return labels.astype(np.int64)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def classification(data: Data) -> Data:
    """The same data with class numbers 0, 1, ... as targets.

    Words, booleans and numbers that are negative or larger than the number of samples are numbered in their order, and
    ``class_names`` lists them. A column is as good as a vector, and a row with a single 1 stands for its position.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> x = np.zeros((3, 2))
    >>> data = nn.data.classification(nn.data.Data(x, np.array(["cat", "ant", "cat"]), x[:0], np.array([], str)))
    >>> data.train_y, data.class_names
    (array([1, 0, 1]), ('ant', 'cat'))
    """
    train, test = data.train_y, data.test_y
    if test.size and test.shape[1:] != train.shape[1:]:
        raise DataError(f"{data.name}: targets have shape {train.shape} to train on, but {test.shape} to test.")
    y = np.concatenate([train, test]) if test.size else train
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim == 2 and y.dtype.kind != "U" and ((y == 0) | (y == 1)).all() and (y.sum(axis=1) == 1).all():
        y = y.argmax(axis=1)
    if y.ndim != 1:
        raise DataError(
            f"{data.name}: targets have shape {train.shape}, but one class per sample is needed: numbers, words or one-hot rows."
        )
    if y.dtype.kind == "f":
        odd = y != np.round(y)
        if odd.any():
            where = int(np.argmax(odd))
            raise DataError(
                f"{data.name}: sample {where + 1} has the target {y[where]:g}, which is no class. To predict numbers, write a "
                'few lines with nn.Trainer(net, "mse").'
            )
        y = y.astype(np.int64)
    names: tuple[str, ...] = ()
    if y.dtype.kind not in "iu" or y.min() < 0 or y.max() >= len(y):
        values, y = np.unique(y, return_inverse=True)
        names = tuple(str(value) for value in values)
    y = y.astype(np.int64)
    return replace(data, train_y=y[: len(train)], test_y=y[len(train) :], class_names=names)


_IDX_TYPES = {8: ">u1", 9: ">i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}


def read_idx(path: Path) -> Array:
    """An array from an IDX file."""
    data = _open(path)
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] not in _IDX_TYPES:
        raise DataError(f"{path}: is no IDX file. Those begin with two zero bytes, as MNIST's do.")
    dtype, rank = np.dtype(_IDX_TYPES[data[2]]), data[3]
    if len(data) < 4 + 4 * rank:
        raise DataError(f"{path}: ends inside its header. Fetch the file again.")
    shape = struct.unpack(f">{rank}I", data[4 : 4 + 4 * rank])
    count = int(np.prod(shape, dtype=object)) if shape else 1
    if len(data) - 4 - 4 * rank != count * dtype.itemsize:
        raise DataError(
            f"{path}: should hold {shape} elements, but has {len(data) - 4 - 4 * rank} bytes of them. Fetch the file again."
        )
    array = np.frombuffer(data, dtype, count, 4 + 4 * rank).reshape(shape)
    return array.astype(dtype.newbyteorder("="))


def _load_idx(folder: Path) -> Data:
    parts = []
    for part in ("train", "t10k"):
        for kind in ("images-idx3", "labels-idx1"):
            found = sorted(p for p in folder.iterdir() if p.name.replace(".", "-").startswith(f"{part}-{kind}-ubyte"))
            if not found:
                raise DataError(
                    f"{folder}: has no {part}-{kind}-ubyte (or .gz). Put the four files of MNIST's form there."
                )
            parts.append(read_idx(found[0]))
    images = [p if p.ndim == 4 else p[:, None] for p in parts[::2]]
    train_x, train_y = check(_pixels(images[0]), parts[1].astype(np.int64), f"{folder} (train)")
    test_x, test_y = check(_pixels(images[1]), parts[3].astype(np.int64), f"{folder} (test)")
    return Data(train_x, train_y, test_x, test_y, folder.name)
