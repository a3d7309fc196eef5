"""Columns of Parquet files, read by row groups. pyarrow is imported when the first file is opened."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from ...._spelling import nearest
from ....graph.checks import whole_number
from ....graph.tensor import Array
from ...files.untrusted import DataError, open_regular
from .rows import BlockRows, Rows, spans

_OPEN = 16  # files at a time


def _pyarrow() -> Any:
    try:
        import_module("pyarrow.parquet")
        return import_module("pyarrow")
    except ImportError as error:
        raise ImportError(f'Parquet files need pyarrow: pip install "openbnns[data]". ({error})') from None


class ParquetRows(BlockRows):
    """Columns of the rows of Parquet files, one file after the other; their row groups are the blocks."""

    def __init__(self, paths: list[Path], columns: str | Sequence[str] | None, window: int) -> None:
        self._paths = paths
        self._files: dict[int, Any] = {}
        self._groups: list[tuple[int, int]] = []  # by file and number in it
        self._columns: list[str] = []
        sizes: list[int] = []
        for number, path in enumerate(paths):
            metadata = self._file(number).metadata
            names = self._file(number).schema_arrow.names
            if not number:
                self._columns = names if columns is None else [columns] if isinstance(columns, str) else list(columns)
            for name in self._columns:
                if name not in names:
                    raise DataError(f"{path}: has no column {name!r}.{nearest(name, names)}")
            for group in range(metadata.num_row_groups):
                if rows := metadata.row_group(group).num_rows:
                    self._groups.append((number, group))
                    sizes.append(rows)
        if not sizes or not self._columns:
            raise DataError(f"{paths[0]}: there are no {'columns' if sizes else 'rows'} to read.")
        self._single = isinstance(columns, str)
        first = self._read_group(*self._groups[0])
        super().__init__((sum(sizes), *first.shape[1:]), first.dtype, sizes, window)

    def _file(self, number: int) -> Any:
        file = self._files.pop(number, None)
        if file is None:
            path, pyarrow = self._paths[number], _pyarrow()
            try:
                file = pyarrow.parquet.ParquetFile(path)
            except (OSError, pyarrow.ArrowException) as error:
                raise DataError(f"{path}: cannot be read as Parquet ({error}).") from None
        self._files[number] = file
        while len(self._files) > _OPEN:
            self._files.pop(next(iter(self._files))).close()
        return file

    def read_block(self, number: int) -> Array:
        block = self._read_group(*self._groups[number])
        if block.shape[1:] != self.shape[1:] or (block.dtype != self.dtype and block.dtype.kind != self.dtype.kind):
            file, group = self._groups[number]
            raise DataError(
                f"{self._paths[file]}, row group {group}: {self._column_text} of {block.dtype} and shape {block.shape[1:]} per "
                f"row, but the first row group has {self.dtype} and {self.shape[1:]}."
            )
        return block.astype(self.dtype, copy=False)

    @property
    def _column_text(self) -> str:
        return "columns " + ", ".join(map(repr, self._columns[:8])) + (" ..." if len(self._columns) > 8 else "")

    def _read_group(self, file: int, group: int) -> Array:
        pyarrow = _pyarrow()
        try:
            table = self._file(file).read_row_group(group, columns=self._columns, use_threads=False)
        except (OSError, pyarrow.ArrowException) as error:
            raise DataError(f"{self._paths[file]}, row group {group}: cannot be read ({error}).") from None
        who = f"{self._paths[file]}, row group {group}"
        arrays = [_array(pyarrow, table.column(name), f"{who}, column {name!r}") for name in self._columns]
        if self._single:
            return arrays[0]
        flat = [array.reshape(len(array), -1) for array in arrays]
        return np.concatenate(flat, axis=1, dtype=np.result_type(*flat))

    def pieces(self) -> Iterator[Any]:
        yield repr((self._columns, self.window)).encode()  # which the samples and their order follow from as well
        share = len(self._paths)
        for path in self._paths:
            with open_regular(path) as (file, size):
                yield str(size).encode()
                for start, end in spans(size, 2**28 // share, max(1, 2**12 // share)):
                    file.seek(start)
                    yield file.read(end - start)


def _array(pyarrow: Any, column: Any, who: str) -> Array:
    """A column as numbers; lists of the same length become rows."""
    if column.null_count:
        raise DataError(f"{who}: has {column.null_count} values that are missing. Remove or fill them first.")
    values = column.combine_chunks()
    if isinstance(values, pyarrow.ChunkedArray):  # older versions
        values = pyarrow.concat_arrays(values.chunks)
    rows, types = len(values), pyarrow.types
    shape: tuple[int, ...] = (rows,)
    while types.is_list(values.type) or types.is_large_list(values.type) or types.is_fixed_size_list(values.type):
        count = len(values)
        if not types.is_fixed_size_list(values.type) and len(set(values.value_lengths().to_pylist())) > 1:
            raise DataError(f"{who}: its lists have different lengths. Pad or cut them to one.")
        values = values.flatten()
        shape = (*shape, len(values) // count)
        if values.null_count:
            raise DataError(f"{who}: has {values.null_count} values that are missing. Remove or fill them first.")
    if not (types.is_integer(values.type) or types.is_floating(values.type) or types.is_boolean(values.type)):
        raise DataError(
            f"{who}: is {values.type}, but numbers are needed. Number classes from 0, and store the numbers."
        )
    result: Array = values.to_numpy(zero_copy_only=False).reshape(shape)
    return result


def open_parquet(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    columns: str | Sequence[str] | None = None,
    *,
    window: int = 16,
) -> Rows:
    """Rows of one or several Parquet files, or of all in a folder, each read when its row group is needed.

    ``columns`` is the name of one, for targets of shape (rows,), or a list of names, for samples of shape (rows, columns); all
    columns unless given. A column of lists of one length has shape (rows, length). ``pip install "openbnns[data]"``.

    Row groups are read as a whole. So the order of an epoch is not any permutation: the samples of ``window`` row groups are
    mixed at a time, and these are in memory at that time. Which groups meet, and in which order, follows from seed and epoch.

    >>> import os, tempfile
    >>> import numpy as np
    >>> from openbnns import nn
    >>> import pyarrow, pyarrow.parquet
    >>> path = os.path.join(tempfile.mkdtemp(), "table.parquet")
    >>> a = np.arange(1000.0)
    >>> table = pyarrow.table({"a": a, "b": a**2, "label": (a > 500).astype(int)})
    >>> pyarrow.parquet.write_table(table, path, row_group_size=100)
    >>> x, y = nn.sources.open_parquet(path, ["a", "b"]), nn.sources.open_parquet(path, "label")
    >>> x[[2, 999]].tolist(), y[[2, 999]].tolist()
    ([[2.0, 4.0], [999.0, 998001.0]], [0, 1])
    """
    window = whole_number(window, "open_parquet: window", 1)
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    files = [Path(path) for path in given]
    if len(files) == 1 and files[0].is_dir():
        files = sorted(files[0].glob("*.parquet")) or files
    for path in files:
        if not path.is_file():
            what = "there are no .parquet files in this folder" if path.is_dir() else "there is no such file"
            raise DataError(f"{path}: {what}.")
    if not files:
        raise DataError("open_parquet: the list of files is empty.")
    return ParquetRows(files, columns, window)
