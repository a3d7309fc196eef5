"""The origin of samples: the line of a table, or the file of an image."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ...graph.tensor import Array


class Origin:
    """The lines of a file, or the files, that the samples of one part are made from, in their order."""

    def __init__(self, source: str, lines: Array | None = None, files: Sequence[str | Path] | None = None) -> None:
        self._source, self._lines, self._files = source, lines, files

    def place(self, sample: int) -> str:
        """The place of a sample, for people to look it up: ``wine.csv, line 17``, or a file."""
        if self._files is not None:
            return str(self._files[sample])
        return f"sample {sample + 1}" if self._lines is None else f"{self._source}, line {self._lines[sample]}"

    def some(self, chosen: Array) -> Origin:
        """The origin of some of the samples."""
        lines = None if self._lines is None else self._lines[chosen]
        return Origin(self._source, lines, None if self._files is None else [self._files[i] for i in chosen])
