"""Samples that are read when they are asked for: from memory, from files and from images."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...._listing import Listed
from ....files.untrusted import DataError
from ....graph.tensor import Array

_HASHED = 64  # samples that tell data from others, unless something better is known


def spans(size: int, whole: int = 2**28, parts: int = 2**12, block: int = 2**14) -> Iterator[tuple[int, int]]:
    """The spans of so many bytes that are hashed to identify data.

    All of them up to ``whole``, in pieces. Of more, the first and the last ``block`` of each of so many parts.
    """
    if size <= whole:
        yield from ((start, min(start + 2**24, size)) for start in range(0, size, 2**24))
        return
    stride = size / parts
    for i in range(parts):
        start, end = int(i * stride), int((i + 1) * stride)
        yield start, min(start + block, end)
        yield max(end - block, start), end


class Rows(ABC, Listed):
    """Samples that are read when they are asked for, by number: what :meth:`Trainer.fit` takes in place of an array.

    A subclass calls ``super().__init__(shape, dtype)`` and has a method ``read(rows)`` that gives the samples with these
    numbers, in this order. It is called in a thread, and always gives the same for the same numbers.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> class Squares(nn.sources.Rows):
    ...     def read(self, rows):
    ...         return np.stack([rows, rows**2], axis=1).astype(np.float32)
    >>> x = Squares((1_000_000, 2), np.float32)
    >>> x[[3, 999_999]].tolist(), x[10:12].shape
    ([[3.0, 9.0], [999999.0, 999998029824.0]], (2, 2))
    """

    def __init__(self, shape: Sequence[int], dtype: Any) -> None:
        self.shape, self.dtype = tuple(map(int, shape)), np.dtype(dtype)

    @abstractmethod
    def read(self, rows: Array) -> Array:
        """The samples with these numbers, in this order."""

    def pieces(self) -> Iterator[Any]:
        """Bytes that identify these samples; they are hashed for checkpoints, and compared between ranks."""
        yield self[np.linspace(0, len(self) - 1, min(len(self), _HASHED)).astype(np.int64)].tobytes()

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, chosen: Any) -> Array:
        if isinstance(chosen, (int, np.integer)):
            row: Array = self[np.array([chosen])][0]
            return row
        rows = np.arange(*chosen.indices(len(self))) if isinstance(chosen, slice) else self._numbers(chosen)
        shape = (len(rows), *self.shape[1:])
        if not len(rows):
            return np.empty(shape, self.dtype)
        samples = self.read(rows)
        if not isinstance(samples, np.ndarray) or samples.shape != shape or samples.dtype != self.dtype:
            got = (
                f"{samples.dtype} of shape {samples.shape}"
                if isinstance(samples, np.ndarray)
                else type(samples).__name__
            )
            raise DataError(f"{type(self).__name__}.read gave {got} instead of {self.dtype} of shape {shape}.")
        return samples

    def _numbers(self, chosen: Any) -> Array:
        rows = np.asarray(chosen)
        if rows.dtype == bool and rows.shape == (len(self),):
            return np.flatnonzero(rows)
        if rows.ndim != 1 or (rows.dtype.kind not in "iu" and rows.size):
            raise IndexError(
                f"{type(self).__name__}: samples are chosen by their numbers, not by {rows.dtype} of shape {rows.shape}. Index "
                "the samples after reading them: rows[numbers][:, columns]."
            )
        rows = rows.astype(np.int64)
        outside = (rows < -len(self)) | (rows >= len(self))
        if outside.any():
            raise IndexError(f"{type(self).__name__}: there is no sample {rows[outside][0]} among {len(self)}.")
        return np.where(rows < 0, rows + len(self), rows)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """All samples, in memory."""
        return self[:].astype(self.dtype if dtype is None else dtype, copy=False)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.dtype} of shape {self.shape}>"


class BlockRows(Rows):
    """Samples that can only be read in blocks of many, such as the groups of a compressed file.

    A subclass has a method ``read_block(number)``. The latest blocks stay in memory until all of their samples were taken.
    Training mixes the samples of ``window`` blocks at a time, so that no block has to be read twice in an epoch.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> class Tens(nn.sources.BlockRows):
    ...     def read_block(self, number):
    ...         print(f"reading block {number}")
    ...         return np.arange(10 * number, 10 * number + 10)
    >>> Tens((30,), np.int64, sizes=[10, 10, 10])[[3, 25, 4]].tolist()
    reading block 0
    reading block 2
    [3, 25, 4]
    """

    def __init__(self, shape: Sequence[int], dtype: Any, sizes: Sequence[int], window: int = 16) -> None:
        super().__init__(shape, dtype)
        self.window = window
        self.ends = np.cumsum(np.asarray(sizes, np.int64))
        if len(self) != (self.ends[-1] if len(self.ends) else 0):
            raise ValueError(f"{type(self).__name__}: blocks of {sum(sizes)} samples, but the shape is {self.shape}.")
        self._kept = 1 + window
        self._blocks: OrderedDict[int, tuple[Array, int]] = (
            OrderedDict()
        )  # with how many of its samples were not taken yet
        self._lock = threading.Lock()

    @abstractmethod
    def read_block(self, number: int) -> Array:
        """All samples of a block."""

    def keep(self, count: int) -> None:
        """Have room for at least so many blocks: samples of so many are taken in turns."""
        self._kept = max(self._kept, 1 + count)

    def read(self, rows: Array) -> Array:
        result = np.empty((len(rows), *self.shape[1:]), self.dtype)
        blocks = np.searchsorted(self.ends, rows, side="right")
        with self._lock:
            for number in dict.fromkeys(blocks.tolist()):
                places = np.flatnonzero(blocks == number)
                block, left = self._blocks.pop(number, (None, 0))
                if block is None:
                    block = self.read_block(number)
                    left = len(block)
                result[places] = block[rows[places] - (self.ends[number] - len(block))]
                if left > len(places):
                    self._blocks[number] = block, left - len(places)
                while len(self._blocks) > self._kept:
                    self._blocks.popitem(last=False)
        return result


class ChosenRows(Rows):
    """Some of the samples of a source, in their order."""

    def __init__(self, source: Rows, chosen: Array) -> None:
        super().__init__((len(chosen), *source.shape[1:]), source.dtype)
        self._source, self._chosen = source, chosen

    @property
    def files(self) -> list[Path] | None:
        """The files of the samples, if each has one."""
        every = getattr(self._source, "files", None)
        return None if every is None else [every[i] for i in self._chosen]

    def read(self, rows: Array) -> Array:
        return self._source[self._chosen[rows]]

    def pieces(self) -> Iterator[Any]:
        yield self._chosen.tobytes()
        yield from self._source.pieces()
