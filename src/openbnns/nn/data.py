"""Data from arrays, .npz, IDX (MNIST) and CSV files, checked before training starts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from .._listing import of_module as _of_module
from ._labels import is_one_hot, number_classes
from ._parts import called, keys_of, parts_of
from ._readers import read_csv, read_idx, read_npz
from ._value import Array
from .choose import seed_number, whole_number
from .files import DataError, byte_count
from .sources import Rows


@dataclass
class Data:
    """Samples ``x`` with the batch axis in front, and targets ``y``, in three parts; the last two may be empty.

    The network learns from ``train``. ``validation`` tells how well it does while it learns, and early stopping selects
    by it. ``test`` is looked at once, at the end.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> data = nn.data.Data(np.zeros((4, 3)), np.array([0, 1, 2, 1]), np.zeros((0, 3)), np.array([], int))
    >>> data.sample_shape, data.classes, len(data.validation_x)
    ((3,), 3, 0)
    """

    train_x: Array
    train_y: Array
    test_x: Array
    test_y: Array
    name: str = "arrays"
    class_names: tuple[str, ...] = ()
    """What class 0, 1, ... is called, if it is not its number."""
    validation_x: Array = field(default_factory=lambda: np.empty(0))
    validation_y: Array = field(default_factory=lambda: np.empty(0))

    def __post_init__(self) -> None:
        if not len(self.validation_x):
            self.validation_x, self.validation_y = self.train_x[:0], self.train_y[:0]

    @property
    def sample_shape(self) -> tuple[int, ...]:
        return self.train_x.shape[1:]

    @property
    def parts(self) -> dict[str, tuple[Array, Array]]:
        """Samples and targets by the name of their part, without empty parts."""
        every = {
            "training": (self.train_x, self.train_y),
            "validation": (self.validation_x, self.validation_y),
            "test": (self.test_x, self.test_y),
        }
        return {name: part for name, part in every.items() if len(part[0])}

    @property
    def classes(self) -> int:
        """Number of classes if the targets are class numbers, else 0."""
        if self.train_y.dtype.kind not in "iu":
            return 0
        highest = max(int(y.max()) for _, y in self.parts.values() if y.size)
        return max(1 + highest, len(self.class_names))

    def call(self, number: int) -> str:
        """What a class is called."""
        return self.class_names[number] if number < len(self.class_names) else str(number)


class Batches:
    """A number of batches for every epoch, from a function that gives an iterator of them, which may never end.

    The function is called for every epoch, with its number from 0 if it takes one: what it draws at random should follow from
    that number, so that a run can be resumed.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> def endless(epoch):
    ...     random = np.random.RandomState(epoch)
    ...     while True:
    ...         x = random.standard_normal((16, 2)).astype(np.float32)
    ...         yield x, x[:, :1]
    >>> trainer = nn.Trainer(nn.Linear(1), "mse", nn.Adam(0.1), quiet=True)
    >>> history = trainer.fit(nn.data.Batches(endless, 20), epochs=5)
    >>> history[-1]["step"], history[-1]["loss"] < 0.01
    (100, True)
    """

    def __init__(self, function: Callable[..., Iterable[Any]], count: int) -> None:
        if not callable(function):
            raise TypeError(
                f"data.Batches: {function!r} is no function. Pass one that gives an iterator of batches (x, y)."
            )
        self.function, self.count = function, whole_number(count, "data.Batches: count", 1)

    def __len__(self) -> int:
        return self.count


def check(x: Any, y: Any, who: str, *, labels: bool = False) -> tuple[Array, Array]:
    """Samples and targets as arrays, refused if empty, ragged, of different length or not finite.

    With ``labels`` targets may be names of classes, and numbers keep their type: a float32 would make one class of two.
    """
    samples = _array(x, f"{who}: x")
    targets = _array(y, f"{who}: y", "fiubU" if labels else "fiub", narrow=not labels)
    _require_agreement({"x": samples, "y": targets}, who)
    return samples, targets


def check_parts(x: Any, y: Any, who: str) -> tuple[list[Array], list[Array]]:
    """The same for samples and targets that may be tuples or dictionaries of arrays; gives the parts of both.

    What is read as it is used stays on the disk: it is neither converted nor looked through, which would read all of it.
    """
    found: dict[str, Array] = {}
    for name, value in (("x", x), ("y", y)):
        if isinstance(value, Mapping) and not value:
            raise DataError(f"{who}: {name} is an empty dictionary. Pass arrays by name.")
        for key, member in zip(keys_of(value), parts_of(value), strict=True):
            found[called(name, key)] = _array(member, f"{who}: {called(name, key)}")
    _require_agreement(found, who)
    arrays, count = list(found.values()), len(keys_of(x))
    return arrays[:count], arrays[count:]


def _require_agreement(arrays: dict[str, Array], who: str) -> None:
    """As many of everything, at least one, and nothing that is not finite."""
    (first, samples), *others = arrays.items()
    if len(samples) == 0:
        raise DataError(f"{who}: there are no samples ({first} has shape {samples.shape}).")
    for name, array in others:
        if len(samples) != len(array):
            cure = "Pass one target per sample." if name.startswith("y") else "Pass as many of each."
            raise DataError(f"{who}: {first} has {len(samples)} samples, but {name} has shape {array.shape}. {cure}")
    for name, array in arrays.items():
        if not is_mapped(array):
            require_finite(array, f"{who}: {name}")


def require_finite(array: Array, who: str) -> None:
    """Refuse NaN and infinity, by their place."""
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise DataError(f"{who} contains {array[where]} at {where}. Remove or fill such values first.")


def is_mapped(array: Any) -> bool:
    """Whether it is read as it is used: ``nn.sources``, ``np.memmap``, ``np.load(..., mmap_mode="r")``."""
    if isinstance(array, Rows):
        return True
    while array is not None:
        if isinstance(array, np.memmap):
            return True
        array = getattr(array, "base", None)
    return False


def _array(value: Any, who: str, kinds: str = "fiub", *, narrow: bool = True) -> Array:
    try:
        array: Any = value if isinstance(value, Rows) else np.asarray(value)
    except ValueError:
        raise DataError(f"{who} is ragged: its rows have different lengths. Pad or cut them to one shape.") from None
    if array.dtype.kind not in kinds:
        cure = " For names of classes pass np.unique(y, return_inverse=True)[1]." if array.dtype.kind in "UOS" else ""
        raise DataError(f"{who} is {array.dtype}, but numbers are needed.{cure}")
    if array.ndim == 0:
        raise DataError(f"{who} is the single number {array}, but an array with one entry per sample is needed.")
    if is_mapped(array):
        found: Array = array
        return found
    if array.dtype.kind == "f" and narrow:
        with np.errstate(over="ignore"):  # what becomes infinite is refused with its place
            return np.ascontiguousarray(array, np.float32)
    return np.ascontiguousarray(array)


def load(
    source: str | Path,
    *,
    test_share: float = 0.2,
    validation_share: float = 0.1,
    seed: int = 0,
    memory_limit: int | str | None = None,
) -> Data:
    """Data from ``"digits"``, an .npz file, a CSV file, or a folder of IDX files, in three parts.

    * ``.npz``: arrays ``x_train, y_train`` and, if there are any, ``x_validation, y_validation`` (also ``x_val, y_val``)
      and ``x_test, y_test``; or just ``x, y``. Nothing else in the file is read.
    * ``.csv`` (also ``.csv.gz``): numbers, one sample per line, the class last, as a number or a word; a first line of names
      is passed over.
    * a folder with ``train-images-idx3-ubyte`` and the like, as MNIST comes (also ``.gz``).

    A part that the source does not have is taken from the training samples: ``test_share`` and ``validation_share`` of
    them, chosen by ``seed``, with about the same share of every class in all parts. Pixels of 8 bits become 0 to 1.

    What a file expands to is limited to 1 GiB, or to 20 times its size if that is more; ``memory_limit``, such as
    ``"8G"``, is used instead if given.

    >>> from openbnns import nn
    >>> data = nn.data.load("digits")
    >>> data.train_x.shape, data.train_y.dtype.kind, data.classes
    ((1293, 1, 8, 8), 'i', 10)
    >>> len(data.validation_x), len(data.test_x)
    (144, 360)
    """
    seed = seed_number(seed, "data.load: seed")
    for share, what in ((test_share, "test_share"), (validation_share, "validation_share")):
        if not 0 <= share < 1:
            raise ValueError(f"data.load: {what} is {share}. It must be at least 0 and below 1.")
    if test_share + validation_share >= 1:
        raise ValueError(
            f"data.load: test_share is {test_share} and validation_share {validation_share}, which leaves nothing to train on."
        )
    limit = None if memory_limit is None else byte_count(memory_limit, "data.load: memory_limit")
    given = _read(source, limit)
    return _fill_parts(given, test_share, validation_share, seed)


def _read(source: str | Path, limit: int | None) -> Data:
    """The parts that the source has."""
    if str(source) == "digits":
        from ..datasets import load_digits

        train_x, train_y, test_x, test_y = load_digits()
        return Data(train_x.reshape(-1, 1, 8, 8), train_y, test_x.reshape(-1, 1, 8, 8), test_y, "digits")
    path = Path(source)
    if not path.exists():
        raise DataError(f"{path}: there is no such file or folder. Use 'digits' or the path of your data.")
    if path.is_dir():
        return _load_idx(path, limit)
    name = path.name.lower()
    if name.endswith(".npz"):
        return _load_npz(path, limit)
    if name.endswith((".csv", ".csv.gz")):
        x, y, names = read_csv(path, limit)
        return Data(*check(x, y, str(path)), x[:0], y[:0], path.name, names)
    raise DataError(f"{path}: the kind of file is not known. Use .npz, .csv, .csv.gz or a folder of IDX files.")


# Parts.


def _fill_parts(data: Data, test_share: float, validation_share: float, seed: int) -> Data:
    """The data with the parts that it lacks taken from the training samples."""
    x, y = data.train_x, data.train_y
    counts = [
        0 if len(data.test_x) else round(test_share * len(x)),
        0 if len(data.validation_x) else round(validation_share * len(x)),
    ]
    if sum(counts) >= len(x):
        raise DataError(
            f"{data.name}: {len(x)} sample(s) leave none to train on. Give more, or x_test and y_test of their own."
        )
    if not any(counts):
        return data
    test, validation, train = map(np.sort, np.split(_stratified(y, seed), np.cumsum(counts)))
    if counts[0]:
        data = replace(data, test_x=x[test], test_y=y[test])
    if counts[1]:
        data = replace(data, validation_x=x[validation], validation_y=y[validation])
    return replace(data, train_x=x[train], train_y=y[train])


def split_rows(y: Array, share: Any, seed: int, who: str) -> tuple[Array, Array]:
    """The numbers of the samples of a share of them, with about that share of every class, and of the rest; both in order."""
    if isinstance(share, bool) or not isinstance(share, (int, float, np.number)) or not 0 < share < 1:
        raise ValueError(f"{who} is {share!r}. It must be a share of the samples, above 0 and below 1.")
    count = round(float(share) * len(y))
    if not 0 < count < len(y):
        raise DataError(
            f"{who} is {share}, which is {count} of {len(y)} samples. Leave some for training and for validation."
        )
    chosen, rest = map(np.sort, np.split(_stratified(np.asarray(y), seed), [count]))
    return chosen, rest


def _stratified(y: Array, seed: int) -> Array:
    """The samples in an order of which every stretch has about the same share of each class.

    The last sample of a class comes at the very end, so that a rare class is trained on before it is tested.
    """
    order = np.random.RandomState(seed).permutation(len(y))
    if is_one_hot(y):
        y = y.argmax(axis=1)
    elif y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1 or (y.dtype.kind == "f" and (y != np.round(y)).any()):
        return order  # no classes
    _, codes, sizes = np.unique(y[order], return_inverse=True, return_counts=True)
    codes = codes.reshape(-1)
    grouped = np.argsort(codes, kind="stable")
    rank = np.empty(len(y))
    rank[grouped] = np.concatenate([np.arange(n) for n in sizes])
    size = sizes[codes]
    place = np.where(rank == size - 1, 1.0, (rank + 0.5) / size)
    return order[np.argsort(place, kind="stable")]


def notes(data: Data) -> list[str]:
    """What one should know about classified data before one believes its results."""
    found = []
    for part, (_, y) in data.parts.items():
        present = {data.call(int(number)) for number in np.unique(y)}
        missing = [data.call(number) for number in range(data.classes) if data.call(number) not in present]
        if missing and part == "training":
            found.append(
                f"No training sample has class {_some(missing)}: the network has an output for every class from 0 to "
                f"{data.classes - 1} and cannot learn that one."
                if not data.class_names
                else f"No training sample has class {_some(missing)}, which the network therefore cannot learn."
            )
    for part in ("validation", "test"):
        if part not in data.parts:
            found.append(f"There are no {part} samples.")
    seen: set[int] = set()
    before = ""
    for part, (x, _) in data.parts.items():
        rows = [hash(row.tobytes()) for row in x]  # 64 bits each: no need to keep the samples themselves
        again = sum(row in seen for row in rows)
        if again:
            found.append(f"{again} of the {len(rows)} {part} samples are also {before} samples.")
        seen.update(rows)
        before = f"{before} or {part}" if before else part
    return found


def _some(names: list[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


# Kinds of files.


def _pixels(array: Array) -> Array:
    return (array / np.float32(255)).astype(np.float32) if array.dtype == np.uint8 else array


_NPZ_PARTS = {"train": ("train",), "validation": ("validation", "val"), "test": ("test",)}


def _load_npz(path: Path, limit: int | None) -> Data:
    wanted = [f"{axis}_{name}" for names in _NPZ_PARTS.values() for name in names for axis in "xy"]
    arrays, present = read_npz(path, [*wanted, "x", "y"], limit)
    parts: dict[str, tuple[Array, Array]] = {}
    for part, names in _NPZ_PARTS.items():
        for name in names:
            if {f"x_{name}", f"y_{name}"} <= set(arrays):
                x, y = arrays[f"x_{name}"], arrays[f"y_{name}"]
                parts[part] = check(_pixels(x), y, f"{path} ({name})", labels=True)
    if "train" not in parts:
        if not {"x", "y"} <= set(arrays):
            raise DataError(
                f"{path}: has arrays {', '.join(present) or '(none)'}, but x and y, or x_train and y_train, are needed."
            )
        parts = {"train": check(_pixels(arrays["x"]), arrays["y"], str(path), labels=True)}
    train_x, train_y = parts["train"]
    none = train_x[:0], train_y[:0]
    validation, test = parts.get("validation", none), parts.get("test", none)
    return Data(train_x, train_y, *test, path.name, (), *validation)


def _load_idx(folder: Path, limit: int | None) -> Data:
    parts = []
    for part in ("train", "t10k"):
        for kind, ranks in (("images-idx3", (3, 4)), ("labels-idx1", (1,))):
            found = sorted(p for p in folder.iterdir() if p.name.replace(".", "-").startswith(f"{part}-{kind}-ubyte"))
            if not found:
                raise DataError(
                    f"{folder}: has no {part}-{kind}-ubyte (or .gz). Put the four files of MNIST's form there."
                )
            array = read_idx(found[0], limit)
            if array.ndim not in ranks:
                raise DataError(
                    f"{found[0]}: has rank {array.ndim}, but rank {' or '.join(map(str, ranks))} is needed."
                )
            parts.append(array)
    images = [p if p.ndim == 4 else p[:, None] for p in parts[::2]]
    train_x, train_y = check(_pixels(images[0]), parts[1], f"{folder} (train)", labels=True)
    test_x, test_y = check(_pixels(images[1]), parts[3], f"{folder} (test)", labels=True)
    return Data(train_x, train_y, test_x, test_y, folder.name)


def classification(data: Data) -> Data:
    """The same data with class numbers 0, 1, ... as targets.

    Words, booleans and numbers that are negative or larger than the number of samples are numbered in their order, and
    ``class_names`` lists them. A column is as good as a vector, and a row with a single 1 stands for its position.
    Labels are compared exactly: 9007199254740992 and 9007199254740993 are two classes.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> x = np.zeros((3, 2))
    >>> data = nn.data.classification(nn.data.Data(x, np.array(["cat", "ant", "cat"]), x[:0], np.array([], str)))
    >>> data.train_y, data.class_names
    (array([1, 0, 1]), ('ant', 'cat'))
    """
    _require_one_shape(data.parts.items(), data.name)
    parts = {name: y for name, (_, y) in data.parts.items()}
    if data.class_names:
        numbers, names = list(parts.values()), data.class_names
    else:
        numbers, names = number_classes(list(parts.values()), data.name)
    numbered = dict(zip(parts, numbers, strict=True))
    empty = np.zeros(0, np.int64)
    data = replace(
        data, train_y=numbered["training"], validation_y=numbered.get("validation", empty),
        test_y=numbered.get("test", empty), class_names=names,
    )  # fmt: skip
    if (data.train_y == data.train_y[0]).all():
        raise DataError(
            f"{data.name}: all {len(data.train_y)} training samples have class {data.call(int(data.train_y[0]))}, so there is "
            "nothing to tell apart. Check which column or array holds the classes."
        )
    return data


def _require_one_shape(parts: Iterable[tuple[str, tuple[Array, Array]]], who: str) -> None:
    (_, (first_x, first_y)), *others = parts
    for name, (x, y) in others:
        for what, one, other in (("samples", first_x, x), ("targets", first_y, y)):
            if one.shape[1:] != other.shape[1:]:
                raise DataError(
                    f"{who}: {what} have shape {one.shape} to train on, but {other.shape} in the {name} part."
                )


__all__ = ["Batches", "Data", "DataError", "check", "classification", "load", "notes", "read_idx"]

__dir__ = _of_module(__name__)
