"""The origin of samples: the line of a table with its cells, or the file of an image."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ...graph.tensor import Array
from .tables.arrow import module
from .tables.table import Table, find_column


class Origin:
    """The rows of a table, or the files, that the samples of one part are made from, in their order."""

    def __init__(
        self, table: Table | None = None, rows: Array | None = None, files: Sequence[str | Path] | None = None
    ) -> None:
        self._table, self._rows, self._files = table, rows, files

    def places(self, samples: Sequence[int]) -> list[str]:
        """The place of a sample, for people to look it up: ``wine.csv, line 17``, or a file."""
        if self._files is not None:
            return [str(self._files[i]) for i in samples]
        if self._table is None:
            return [f"sample {i + 1}" for i in samples]
        name, rows = Path(self._table.source).name, [self._row(i) for i in samples]
        if self._table.lines is None:
            return [f"{name}, row {row + 1}" for row in rows]
        order = sorted(set(rows))
        lines = {row: line for row, (line, _) in zip(order, self._table.lines.find_all(order), strict=True)}
        return [f"{name}, line {lines[row]}" for row in rows]

    def cells(self, samples: Sequence[int]) -> list[dict[str, str]]:
        """The cells of the samples' rows, by column, as they are in the file; empty for samples that are not in a table."""
        table = self._table
        if table is None or not len(samples):
            return [{} for _ in samples]
        rows = [self._row(i) for i in samples]
        order = sorted(set(rows))
        by_column = cells(Path(table.source), table, table.names, order)
        place = {row: i for i, row in enumerate(order)}
        return [{name: column[place[row]] for name, column in by_column.items()} for row in rows]

    def _row(self, sample: int) -> int:
        return int(sample) if self._rows is None else int(np.asarray(self._rows)[sample])


def cells(
    path: Path, table: Table | None, names: Sequence[str], rows: Sequence[int] | None = None
) -> dict[str, list[str]]:
    """The cells of some columns of a file, of all rows of its table or of some, in order, as they are written there."""
    if table is None or not names:
        return {}
    columns = [find_column(name, table.names, table.source, "--keep") for name in names]
    if table.lines is None:
        whole = module("pyarrow.parquet").read_table(path, columns=columns)
        chosen = whole if rows is None else whole.take(list(rows))
        return {
            name: ["" if cell is None else str(cell) for cell in chosen.column(name).to_pylist()] for name in columns
        }
    places = {name: table.names.index(name) for name in columns}
    by_column: dict[str, list[str]] = {name: [] for name in columns}
    for _, row in table.lines.find_all(range(len(table)) if rows is None else rows):
        for name, place in places.items():
            by_column[name].append(row[place].strip())
    return by_column
