"""Tables from Parquet files, read in batches of rows, whatever the size of the file."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...._plural import plural
from ...files.untrusted import DataError
from .arrow import Column, fill, module
from .number_formats import NumberFormat
from .table import MISSING, MISSING_TO_LEARN_FROM, Table, find_column, require_columns

_CELLS = 2**20  # that are read at a time


def read(
    path: Path,
    *,
    targets: Sequence[str | int] | None = (),
    ignored: Collection[str | int] = (),
    categorical: Collection[str | int] = (),
    kinds: Mapping[str, str] | None = None,
    missing: Sequence[str] = (),
    formats: Mapping[str, NumberFormat] | None = None,
    room: int | None = None,
) -> Table:
    """The table in a file; arguments are those of the reader of CSV files."""
    types = module("pyarrow.types")
    try:
        file = module("pyarrow.parquet").ParquetFile(path)
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read as Parquet ({error}).") from None
    schema, source = file.schema_arrow, str(path)
    names = [str(name) for name in schema.names]
    wanted = [names[-1]] if targets is None else list(targets)
    chosen = [find_column(name, names, source, "the target") for name in wanted]
    left_out = {find_column(name, names, source, "--drop") for name in ignored}
    as_words = {find_column(name, names, source, "--categorical") for name in categorical}
    require_columns(kinds or (), names, source)
    table = Table(source, names, left_out=dict.fromkeys(left_out, "--drop"))
    columns: list[Column] = []
    for name in names:
        if name in left_out or (kinds is not None and name not in kinds and name not in chosen):
            continue
        kind = schema.field(name).type
        kind = kind.value_type if types.is_dictionary(kind) else kind
        numeric = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind)
        texts = types.is_string(kind) or types.is_large_string(kind) or types.is_temporal(kind)
        if not numeric and (not texts or types.is_duration(kind)):
            if name in chosen:
                raise DataError(f"{path}: the target {name!r} holds {kind}. Choose a column of numbers or words.")
            table.left_out[name] = f"it holds {kind}, neither numbers nor words"
            continue
        forced = None if kinds is None else kinds.get(name)
        if forced == "number" and not numeric and name not in (formats or {}):
            raise DataError(f"{path}: column {name!r} holds {kind}, but the model was trained on numbers there.")
        target = name in chosen
        as_number = not target and numeric and name not in as_words and forced != "word"
        more = () if target else MISSING_TO_LEARN_FROM
        columns.append(Column(name, as_number, target, {*MISSING, *missing, *more}))
    if not file.metadata.num_rows:
        raise DataError(f"{path}: there are no samples.")

    def too_large(name: str, row: int) -> DataError:
        return DataError(
            f"{path}, row {row + 1}: column {name!r} is too large to compute with. Correct it, or leave the column out: --drop "
            f"{name}."
        )

    fill(table, _Batches(file, source, columns), columns, chosen, room, too_large=too_large)
    table.notes.insert(0, f"Read {plural(len(table), 'row')} of {plural(len(names), 'column')} from a Parquet file.")
    return table


class _Batches:
    """The rows of a file, some at a time."""

    def __init__(self, file: Any, source: str, columns: list[Column]) -> None:
        self.source, self._file = source, file
        self._names = [column.name for column in columns]
        self.rows = int(file.metadata.num_rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        size = max(2**10, _CELLS // max(1, len(self._names)))
        try:
            for batch in self._file.iter_batches(size, columns=self._names, use_threads=False):
                yield {name: batch.column(name) for name in self._names}
        except (OSError, ValueError) as error:
            if isinstance(error, DataError):
                raise
            raise DataError(f"{self.source}: cannot be read as Parquet ({error}).") from None
