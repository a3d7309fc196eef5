"""Samples that stay in their files until a batch needs them."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ....graph.tensor import Array
from ..sources import Rows
from ..sources.rows import spans

if TYPE_CHECKING:
    from ..preprocessing.arrays import ArrayPreparation
    from ..preprocessing.images import ImagePreparation
    from ..preprocessing.tables import Encoder
    from .table import Table

_WORKERS = 2  # threads that decode images: Pillow does not hold Python's lock while it does


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


class TableRows(Rows):
    """Some rows of a table as a network takes them: what is to be learned from is made when a batch needs it."""

    def __init__(self, table: Table, encoder: Encoder, chosen: Array) -> None:
        super().__init__((len(chosen), encoder.width), np.float32)
        self._table, self._encoder, self._chosen = table, encoder, chosen

    def read(self, rows: Array) -> Array:
        found = np.empty((len(rows), self.shape[1]), np.float32)
        self._encoder.fill(*self._table.read(self._chosen[rows]), found)
        return found

    def pieces(self) -> Iterator[Any]:
        """The same bytes as those of an array of all samples, so that a run goes on wherever they are."""
        row = 4 * self.shape[1]
        for start, end in spans(len(self) * row):
            first, last = start // row, -(-end // row)
            yield self[first:last].reshape(-1).view(np.uint8).data[start - first * row : end - first * row]


class ImageCache(Rows):
    """Images in files, decoded when a batch first needs them, several at a time, and kept as bytes if there is room."""

    def __init__(self, paths: Sequence[Path], prepare: ImagePreparation, room: int) -> None:
        super().__init__((len(paths), *prepare.shape), np.float32)
        self.files, self._prepare = list(paths), prepare
        self._bytes = [path.stat().st_size for path in paths]
        kept = int(np.prod(self.shape)) <= room
        self._pixels = np.empty(self.shape, np.uint8) if kept else None
        self._known = np.zeros(len(paths), bool)
        self._lock = threading.Lock()
        self._workers: ThreadPoolExecutor | None = None

    def read(self, rows: Array) -> Array:
        with self._lock:
            if self._pixels is None:
                pixels = np.stack(self._decode(rows))
            else:
                new = np.unique(rows[~self._known[rows]])
                for row, image in zip(new, self._decode(new), strict=True):
                    self._pixels[row] = image
                self._known[new] = True
                pixels = self._pixels[rows]
        found: Array = pixels / np.float32(255)
        return found

    def _decode(self, rows: Array) -> list[Array]:
        paths = [self.files[row] for row in rows.tolist()]
        if len(paths) < 2:
            return [self._prepare.decode(path) for path in paths]
        if self._workers is None:
            self._workers = ThreadPoolExecutor(_WORKERS, "openbnns images")
        return list(self._workers.map(self._prepare.decode, paths))

    def pieces(self) -> Iterator[Any]:
        yield repr(([path.name for path in self.files], self._bytes, self._prepare.state())).encode()
