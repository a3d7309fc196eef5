"""Results of exports of a network: the files that were written, and which layer became what."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..graph.tensor import Array


class Exported:
    """The files that an export wrote (``paths``), and which layer became what in them (``rows``)."""

    def __init__(self, paths: Sequence[Path], rows: Sequence[tuple[str, str]]) -> None:
        self.paths, self.rows = list(paths), list(rows)

    def table(self) -> str:
        """Layers, and what became of them."""
        width = max((len(layer) for layer, _ in self.rows), default=0)
        return "\n".join(f"{layer.ljust(width)}  {became}" for layer, became in self.rows)

    def __iter__(self) -> Iterator[Path]:
        return iter(self.paths)

    def __repr__(self) -> str:
        return "\n".join([self.table(), *(f"written: {path}" for path in self.paths)])


class Package(Exported):
    """A package with an ML program, at ``path``."""

    def __init__(self, path: Path, rows: Sequence[tuple[str, str]]) -> None:
        super().__init__([path], rows)
        self.path = path


class StoredArray(NamedTuple):
    """The place of a parameter or buffer in a file of weights."""

    name: str
    dtype: Any
    offset: int
    shape: tuple[int, ...]


class Written(Exported):
    """Source code with its file of weights."""

    def __init__(
        self, paths: Sequence[Path], rows: Sequence[tuple[str, str]], arrays: Sequence[StoredArray], weight_bytes: int
    ) -> None:
        super().__init__(paths, rows)
        self._arrays, self._bytes = list(arrays), weight_bytes

    def read(self, path: Any) -> dict[str, Array]:
        """The parameters and buffers in a file of weights that the code has saved, for ``load_state_dict``."""
        data = Path(path).read_bytes()
        if len(data) != self._bytes:
            raise ValueError(f"{path} has {len(data)} bytes, but the weights of this network have {self._bytes}.")
        return {
            stored.name: np.frombuffer(data, stored.dtype, math.prod(stored.shape), stored.offset)
            .reshape(stored.shape)
            .copy()
            for stored in self._arrays
        }
