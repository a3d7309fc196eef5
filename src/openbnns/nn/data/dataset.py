"""Data from arrays, tables of numbers and images, in three parts, checked and prepared before training starts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..._plural import plural
from ...files.memory_limit import byte_count
from ...files.untrusted import DataError
from ...graph.checks import whole_number
from ...graph.seeds import seed_number
from ...graph.tensor import Array
from ..nested_arrays import called, keys_of, parts_of
from .sources import Rows
from .targets import number_classes

if TYPE_CHECKING:
    from .preprocessing import SamplePreparation
    from .sample_origin import Origin

TASKS = ("classification", "multilabel", "regression")


@dataclass(repr=False)
class Data:
    """Samples ``x`` with the batch axis in front, and targets ``y``, in three parts; the last two may be empty.

    The network learns from ``train``. ``validation`` measures it during training, and early stopping selects by it.
    ``test`` is used once, at the end.

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
    """The names of classes 0, 1, ..., if they are not their numbers."""
    validation_x: Array = field(default_factory=lambda: np.empty(0))
    validation_y: Array = field(default_factory=lambda: np.empty(0))
    task: str | None = None
    """classification, multilabel or regression, once that is known; see :func:`with_task`."""
    preparation: SamplePreparation | None = None
    """The preprocessing of the samples, which later samples need, too."""
    target_names: tuple[str, ...] = ()
    """The columns of a table that are predicted."""
    target_mean: tuple[float, ...] | None = None
    target_std: tuple[float, ...] | None = None
    """The mean and deviation of the numbers to predict, which are standardized."""
    remarks: tuple[str, ...] = ()
    """Remarks for people on how the source was read and what was done to the samples."""
    split: dict[str, Any] = field(default_factory=dict)
    """The description of how the parts were chosen."""
    origin: Origin | None = None
    """The rows or files that the test samples are made from."""

    def __repr__(self) -> str:
        sizes = ", ".join(f"{len(x):,} {part}" for part, (x, _) in self.parts.items())
        task = f", {self.task}" if self.task else ""
        return f"<Data {self.name}: {sizes} samples of shape {self.sample_shape}{task}>"

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
    def outputs(self) -> int:
        """The number of outputs of a network for these data: classes, labels, or numbers to predict."""
        return self.classes if self.train_y.ndim == 1 else int(self.train_y.shape[1])

    def in_units(self, y: Array) -> Array:
        """Targets in the units of the data, undoing the standardization of a regression."""
        if self.target_mean is None or self.target_std is None:
            return y
        values: Array = y.astype(np.float64) * np.array(self.target_std) + np.array(self.target_mean)
        return values

    @property
    def classes(self) -> int:
        """Number of classes if the targets are class numbers, else 0."""
        if self.train_y.dtype.kind not in "iu":
            return 0
        highest = max(int(y.max()) for _, y in self.parts.values() if y.size)
        return max(1 + highest, len(self.class_names))

    def call(self, number: int) -> str:
        """The name of a class."""
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
                f"data.Batches: {function!r} is not a function. Pass one that gives an iterator of batches (x, y)."
            )
        self.function, self.count = function, whole_number(count, "data.Batches: count", 1)

    def __len__(self) -> int:
        return self.count


def check(x: Any, y: Any, who: str, *, labels: bool = False) -> tuple[Array, Array]:
    """Samples and targets as arrays; raises an error if they are empty, ragged, of different length or not finite.

    With ``labels`` targets may be names of classes, and numbers keep their type: a float32 would make one class of two.
    """
    samples = _array(x, f"{who}: x")
    targets = _array(y, f"{who}: y", "fiubU" if labels else "fiub", narrow=not labels)
    _require_agreement({"x": samples, "y": targets}, who)
    return samples, targets


def check_parts(x: Any, y: Any, who: str) -> tuple[list[Array], list[Array]]:
    """The same for samples and targets that may be tuples or dictionaries of arrays; gives the parts of both.

    Samples that are read on demand stay on the disk: checking or converting them would read all of them.
    """
    samples: dict[str, Array] = {}
    for name, value in (("x", x), ("y", y)):
        if isinstance(value, Mapping) and not value:
            raise DataError(f"{who}: {name} is an empty dictionary. Pass arrays by name.")
        for key, member in zip(keys_of(value), parts_of(value), strict=True):
            samples[called(name, key)] = _array(member, f"{who}: {called(name, key)}")
    _require_agreement(samples, who)
    arrays, count = list(samples.values()), len(keys_of(x))
    return arrays[:count], arrays[count:]


def _require_agreement(arrays: dict[str, Array], who: str) -> None:
    """Require equal numbers of everything, at least one, and finite values."""
    (first, samples), *others = arrays.items()
    if len(samples) == 0:
        raise DataError(f"{who}: there are no samples ({first} has shape {samples.shape}).")
    for name, array in others:
        if len(samples) != len(array):
            cure = "Pass one target per sample." if name.startswith("y") else "Pass the same number of each."
            raise DataError(
                f"{who}: {first} has {plural(len(samples), 'sample')}, but {name} has shape {array.shape}. {cure}"
            )
    for name, array in arrays.items():
        if not is_mapped(array):
            require_finite(array, f"{who}: {name}")


def require_finite(array: Array, who: str) -> None:
    """Refuse NaN and infinity, and name their position."""
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise DataError(f"{who} contains {array[where]} at {where}. Remove or fill such values first.")


def is_mapped(array: Any) -> bool:
    """True for data that are read when they are used: ``nn.sources``, ``np.memmap``, ``np.load(..., mmap_mode="r")``."""
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
        checked: Array = array
        return checked
    if array.dtype.kind == "f" and narrow:
        with np.errstate(over="ignore"):  # what becomes infinite is refused with its place
            return np.ascontiguousarray(array, np.float32)
    return np.ascontiguousarray(array)


def load(
    source: str | Path,
    *,
    target: str | int | Sequence[str | int] | None = None,
    task: Literal["classification", "multilabel", "regression"] | None = None,
    test_share: float = 0.2,
    validation_share: float = 0.1,
    seed: int = 0,
    memory_limit: int | str | None = None,
    standardize: bool | None = None,
    size: int | tuple[int, int] | None = None,
    skip_bad: bool = False,
) -> Data:
    """Data from ``"digits"``, a table of numbers, an .npz file, or a folder, in three parts.

    * ``.csv``, ``.tsv`` (also ``.gz``): one sample per line, plain numbers with a decimal point, and names of columns in the
      first line, if any. ``target`` is the column to predict, by name or position, or several; by default the last. Its
      labels may be words. Columns are standardized.
    * ``.npz``: arrays ``x_train, y_train`` and, if there are any, ``x_validation, y_validation`` (also ``x_val, y_val``)
      and ``x_test, y_test``; or just ``x, y``. Nothing else in the file is read.
    * a folder with ``train-images-idx3-ubyte`` and the like, as MNIST comes (also ``.gz``).
    * a folder of images (Pillow) with a folder inside it for each class; ``size`` scales them to one size, and ``skip_bad``
      leaves out those that cannot be read.

    A part that the source does not have is taken from the training samples: ``test_share`` and ``validation_share`` of
    them, chosen by ``seed``, with about the same share of every class in all parts. Pixels of 8 bits become 0 to 1.
    ``standardize=True`` standardizes features in arrays, too, False leaves columns as they are.

    What a file expands to is limited to 1 GiB, or to 20 times its size if that is more; ``memory_limit``, such as
    ``"8G"``, is used instead if given.

    >>> from openbnns import nn
    >>> data = nn.data.load("digits")
    >>> data.train_x.shape, data.train_y.dtype.kind, data.classes
    ((1293, 1, 8, 8), 'i', 10)
    >>> len(data.validation_x), len(data.test_x)
    (144, 360)
    """
    from .loading import Options
    from .loading import load as read

    seed = seed_number(seed, "data.load: seed")
    for share, what in ((test_share, "test_share"), (validation_share, "validation_share")):
        if not 0 <= share < 1:
            raise ValueError(f"data.load: {what} is {share}. It must be at least 0 and below 1.")
    if test_share + validation_share >= 1:
        raise ValueError(
            f"data.load: test_share is {test_share} and validation_share {validation_share}, which leaves nothing to train on."
        )
    if task is not None and task not in TASKS:
        raise ValueError(f"data.load: task is {task!r}. Use one of {', '.join(TASKS)}.")
    limit = None if memory_limit is None else byte_count(memory_limit, "data.load: memory_limit")
    both = (size, size) if isinstance(size, int) else size
    return read(
        source,
        Options(
            target, task, test_share, validation_share, seed, limit, standardize, both, skip_bad,
        ),
    )  # fmt: skip


def with_task(data: Data, task: str | None = None) -> Data:
    """The same data with targets for a task, which is detected from them unless it is given.

    Class numbers for a classification (:func:`classification`), rows of 0 and 1 for several labels, rows of standardized
    numbers for a regression.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> x = np.zeros((3, 2))
    >>> data = nn.data.with_task(nn.data.Data(x, np.array([1.5, 2.5, 3.5]), x[:0], np.zeros(0)))
    >>> data.task, [f"{y:.2f}" for y in data.train_y.ravel()], data.target_mean
    ('regression', ['-1.22', '0.00', '1.22'], (2.5,))
    """
    from .loading import with_regression
    from .targets import guess_array

    if data.task is not None:
        return data
    remarks = data.remarks
    if task is None:
        task, why = guess_array(data.train_y)
        if task != "classification":
            remarks = (*remarks, f"Task: {task}, because {why} (--task says otherwise).")
    result = classification(data) if task == "classification" else with_regression(data, task)
    return replace(result, task=task, remarks=remarks)


def notes(data: Data) -> list[str]:
    """Warnings about data that affect how far results can be trusted."""
    remarks = []
    classes = data.classes if data.task in (None, "classification") else 0
    for part, (_, y) in data.parts.items() if classes else ():
        present = {data.call(int(number)) for number in np.unique(y)}
        missing = [data.call(number) for number in range(data.classes) if data.call(number) not in present]
        if missing and part == "training":
            remarks.append(
                f"No training sample has class {_some(missing)}: the network has an output for every class from 0 to "
                f"{data.classes - 1} and cannot learn {'that one' if len(missing) == 1 else 'those'}."
                if not data.class_names
                else f"No training sample has class {_some(missing)}, which the network therefore cannot learn."
            )
    for part in ("validation", "test"):
        if part not in data.parts:
            remarks.append(f"There are no {part} samples.")
    seen, before = np.empty(0, np.uint64), ""
    for part, (x, _) in data.parts.items():
        if not isinstance(x, np.ndarray):
            break  # in files, where they are not looked for
        rows = _hashes(x)
        again = int(np.isin(rows, seen).sum()) if before else 0
        if again:
            remarks.append(
                f"{again:,} of the {plural(len(rows), f'{part} sample')} {'is' if again == 1 else 'are'} also {before} samples."
            )
        seen = np.concatenate([seen, rows])
        before = f"{before} or {part}" if before else part
    return remarks


def _hashes(samples: Array) -> Array:
    """A number of 64 bits for every sample, which tells it from any other."""
    factors: Array | None = None
    hashes = np.empty(len(samples), np.uint64)
    count = max(1, 2**20 // max(1, math.prod(samples.shape[1:])))
    for start in range(0, len(samples), count):
        piece = np.ascontiguousarray(samples[start : start + count]).reshape(min(count, len(samples) - start), -1)
        words = piece.view(np.uint32 if piece.dtype.itemsize % 4 == 0 else np.uint8).astype(np.uint64)
        if factors is None:
            factors = np.random.RandomState(0).randint(0, 2**63, words.shape[1], dtype=np.uint64) * np.uint64(
                2
            ) + np.uint64(1)
        mixed = (words + np.uint64(1)) * factors
        hashes[start : start + len(piece)] = (mixed ^ (mixed >> np.uint64(29))).sum(axis=1, dtype=np.uint64)
    return hashes


def _some(names: list[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


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
    require_one_shape(data.parts.items(), data.name)
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


def require_one_shape(parts: Iterable[tuple[str, tuple[Any, Any]]], who: str) -> None:
    """Raise an error unless samples and targets have the shapes of the first part, in which the network is trained."""
    (_, (first_x, first_y)), *others = parts
    for name, (x, y) in others:
        for what, one, other in (("samples", first_x, x), ("targets", first_y, y)):
            if one.shape[1:] != other.shape[1:]:
                raise DataError(
                    f"{who}: {what} have shape {one.shape} to train on, but {other.shape} in the {name} part."
                )
