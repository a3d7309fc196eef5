"""Preparations in general, and that of samples that are arrays of numbers already."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...._spelling import nearest
from ....files.checked_json import CheckedTable, ModelError
from ....files.untrusted import DataError
from ....graph.tensor import Array
from ..sources.rows import Rows


class SamplePreparation(ABC):
    """The conversion of samples, as people have them, into the numbers that a network takes.

    It is made from the training samples alone and stored in the model file.
    """

    kind: str

    @abstractmethod
    def apply(self, samples: Any, who: str = "predict") -> Array:
        """The samples as the network takes them: (N, ...) of float32."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """A complete description, as plain JSON."""

    @abstractmethod
    def sentences(self) -> list[str]:
        """A description of what it does, in sentences."""

    def formulas(self) -> list[str]:
        """The formula of each number that the network takes, where they differ, for programs that compute it themselves."""
        return []


_ROWS = 2**16  # at a time
_CELLS = 2**20  # the same for samples with many features


class ArrayPreparation(SamplePreparation):
    """Arrays (N, ...): pixels of 8 bits become 0 to 1, features are standardized if ``mean`` and ``std`` are given.

    ``columns`` are the names of features; those of data frames and dictionaries are found by name.

    >>> import numpy as np
    >>> from openbnns.nn.data.preprocessing import ArrayPreparation
    >>> prepare = ArrayPreparation.fit(np.float32([[1, 10], [3, 30]]))
    >>> prepare.apply(np.float32([[2, 30]])).tolist()
    [[0.0, 1.0]]
    """

    kind = "arrays"

    def __init__(
        self,
        shape: Sequence[int],
        *,
        pixels: bool = False,
        mean: Any = None,
        std: Any = None,
        columns: Sequence[str] = (),
    ) -> None:
        self.shape, self.pixels, self.columns = tuple(shape), pixels, tuple(columns)
        self.mean = None if mean is None else np.asarray(mean, np.float64)
        self.std = None if std is None else np.asarray(std, np.float64)

    @classmethod
    def fit(
        cls, samples: Array, rows: Array | None = None, *, standardize: bool = True, columns: Sequence[str] = ()
    ) -> ArrayPreparation:
        """A preparation for samples like these; means and deviations are those of ``rows``, by default of all."""
        shape = samples.shape[1:]
        if samples.dtype == np.uint8:
            return cls(shape, pixels=True)
        if len(shape) != 1 or not standardize:
            return cls(shape, columns=columns)
        mean, std = mean_and_deviation(samples.__getitem__, samples.shape, rows)
        return cls(shape, mean=mean, std=np.where(std > 0, std, 1.0), columns=columns)

    def apply(self, samples: Any, who: str = "predict") -> Array:
        array = self._in_order(samples, who)
        if array.dtype.kind not in "fiub" or array.ndim < 1:
            raise DataError(f"{who}: samples are {array.dtype} of shape {array.shape}. Pass an array of numbers.")
        if array.shape[1:] != self.shape:
            one = " For one sample pass x[None]." if array.shape == self.shape else ""
            raise DataError(
                f"{who}: samples have shape {array.shape}, but the model was trained on (N, {_sizes(self.shape)}).{one}"
            )
        if self.pixels:
            if array.dtype.kind not in "iu":
                raise DataError(
                    f"{who}: samples are {array.dtype}, but the model was trained on pixels of 8 bits, 0 to 255. Pass those: "
                    "they are divided by 255 here."
                )
            scaled: Array = (array / np.float32(255)).astype(np.float32)
            return scaled
        if self.mean is None or self.std is None:
            return np.ascontiguousarray(array, np.float32)
        prepared = np.empty(array.shape, np.float32)
        for start in range(0, len(array), _ROWS):
            part = slice(start, start + _ROWS)
            prepared[part] = (array[part] - self.mean) / self.std
        return prepared

    def _in_order(self, samples: Any, who: str) -> Array:
        """The columns of a data frame or dictionary, found by name, or an array as it is."""
        if not self.columns or not (isinstance(samples, Mapping) or hasattr(samples, "columns")):
            return np.asarray(samples)
        if absent := [name for name in self.columns if name not in samples]:
            raise DataError(
                f"{who}: there is no column {absent[0]!r}.{nearest(absent[0], [str(name) for name in samples])} The model "
                f"takes {', '.join(self.columns)}."
            )
        return np.stack([np.asarray(samples[name]) for name in self.columns], axis=-1)

    def state(self) -> dict[str, Any]:
        table: dict[str, Any] = {"kind": self.kind, "shape": list(self.shape), "pixels": self.pixels}
        if self.mean is not None and self.std is not None:
            table |= {"mean": self.mean.tolist(), "std": self.std.tolist()}
        if self.columns:
            table["columns"] = list(self.columns)
        return table

    @classmethod
    def from_state(cls, said: CheckedTable) -> ArrayPreparation:
        shape, mean, std = said.sizes("shape"), None, None
        if said.get("mean") is not None:
            count = shape[0] if len(shape) == 1 else -1
            mean, std = said.numbers("mean", count), said.numbers("std", count, positive=True)
        columns = [] if said.get("columns") is None else said.texts("columns")
        if columns and shape != (len(columns),):
            raise ModelError(f"{said.where}: names {len(columns)} columns for samples of shape {shape}.")
        return cls(shape, pixels=said.flag("pixels"), mean=mean, std=std, columns=columns)

    def sentences(self) -> list[str]:
        if self.pixels:
            return ["Pixels of 8 bits are divided by 255."]
        if self.mean is not None:
            return [
                f"Each of the {len(self.mean)} features is standardized: mean 0 and deviation 1 in the training samples."
            ]
        return []

    def formulas(self) -> list[str]:
        if self.mean is None or self.std is None:
            return []
        named = [f"{name}: " for name in self.columns] or [""] * len(self.mean)
        both = zip(named, self.mean, self.std, strict=True)
        return [f"{name}(x - {mean:.9g}) / {std:.9g}" for name, mean, std in both]


def _sizes(shape: Sequence[int]) -> str:
    return ", ".join(map(str, shape))


def mean_and_deviation(
    read: Callable[[Any], Array], shape: Sequence[int], rows: Array | None = None
) -> tuple[Array, Array]:
    """Mean and deviation of every feature over some rows, without missing values (NaN); summed in float64, in pieces.

    ``read`` gives some of the samples, which all together have this shape.
    """
    count, width = shape[0] if rows is None else len(rows), shape[1]
    size = max(1, min(_ROWS, _CELLS // max(1, width)))

    def pieces() -> Any:
        for start in range(0, count, size):
            part = slice(start, start + size)
            yield read(part if rows is None else rows[part]).astype(np.float64)

    def total(of: Any) -> tuple[Array, Array]:
        sums, counts = np.zeros(width), np.zeros(width)
        for piece in pieces():
            values = of(piece)
            result = values.sum(axis=0)
            if np.isfinite(result).all():
                counts += len(values)
                sums += result
            else:
                there = np.isfinite(values)
                counts += there.sum(axis=0)
                sums += np.where(there, values, 0).sum(axis=0)
        return sums, np.maximum(counts, 1)

    sums, counts = total(lambda piece: piece)
    mean: Array = sums / counts
    squares, counts = total(lambda piece: (piece - mean) ** 2)
    deviation: Array = np.sqrt(squares / counts)
    return mean, deviation


class PreparedRows(Rows):
    """Samples of a source as a network takes them."""

    def __init__(self, source: Rows, prepare: ArrayPreparation) -> None:
        super().__init__(source.shape, np.float32)
        self._source, self._prepare = source, prepare

    def read(self, rows: Array) -> Array:
        return self._prepare.apply(self._source[rows], "the data")

    def pieces(self) -> Iterator[Any]:
        yield repr(self._prepare.state()).encode()
        yield from self._source.pieces()
