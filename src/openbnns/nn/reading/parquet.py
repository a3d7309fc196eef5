"""Tables from Parquet files, with pyarrow."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from ..files import DataError
from .table import Table, find_column, require_columns

_MOST_WORDS = 20_000


def read(
    path: Path,
    *,
    targets: Sequence[str | int] | None = (),
    ignored: Collection[str | int] = (),
    categorical: Collection[str | int] = (),
    kinds: Mapping[str, str] | None = None,
) -> Table:
    """The table in a file; arguments are those of the reader of CSV files."""
    try:
        reader = import_module("pyarrow.parquet")
        compute, types = import_module("pyarrow.compute"), import_module("pyarrow.types")
    except ImportError as error:
        raise ImportError(f'Parquet files need pyarrow: pip install "openbnns[parquet]". ({error})') from None
    try:
        file = reader.ParquetFile(path)
        names = [str(name) for name in file.schema_arrow.names]
        read_columns = None if kinds is None else [name for name in names if name in kinds or name in (targets or ())]
        content = file.read(columns=read_columns)
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read as Parquet ({error}).") from None
    source = str(path)
    wanted = [names[-1]] if targets is None else list(targets)
    chosen = [find_column(name, names, source, "the target") for name in wanted]
    left_out = {find_column(name, names, source, "--drop") for name in ignored}
    as_words = {find_column(name, names, source, "--categorical") for name in categorical}
    require_columns(kinds or (), names, source)
    table = Table(source, names)
    numbers, exact, codes = [], [], []
    for name in content.schema.names:
        column = content.column(name)
        kind = column.type.value_type if types.is_dictionary(column.type) else column.type
        numeric = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind)
        wordy = types.is_string(kind) or types.is_large_string(kind)
        if name in left_out or (kinds is not None and name not in kinds and name not in chosen):
            continue
        if not numeric and not wordy:
            table.notes.append(f"Column {name!r} is left out: it holds {kind}, neither numbers nor words.")
            continue
        forced = None if kinds is None else kinds.get(name)
        if forced == "number" and not numeric:
            raise DataError(f"{path}: column {name!r} holds {kind}, but the model was trained on numbers there.")
        if name in chosen or not numeric or name in as_words or forced == "word":
            texts = column.cast("string") if not wordy or types.is_dictionary(column.type) else column
            encoded = texts.combine_chunks().dictionary_encode()
            words = encoded.dictionary.to_pylist()
            code = np.asarray(compute.fill_null(encoded.indices, -1), np.int64)
            if len(words) > _MOST_WORDS:
                table.overflowed.add(name)
                code = np.where(code >= _MOST_WORDS, -2, code)
                words = words[:_MOST_WORDS]
            table.word_columns.append(name)
            table.words.append([str(word) for word in words])
            codes.append(code.astype(np.int32))
        if name in chosen:
            table.exact_columns.append(name)
            exact.append(_floats(column, compute) if numeric else np.full(len(column), np.nan))
            if not numeric:
                table.odd[name] = (len(column), 1, "a word")
        elif numeric and name not in as_words and forced != "word":
            table.number_columns.append(name)
            numbers.append(_floats(column, compute))
    count = content.num_rows
    if not count:
        raise DataError(f"{path}: there are no samples.")
    table.centre = np.array([_centre(values) for values in numbers])
    table.numbers = np.empty((count, len(numbers)), np.float32)
    for i, values in enumerate(numbers):
        table.numbers[:, i] = values - table.centre[i]
    table.exact = np.stack(exact, axis=1) if exact else np.empty((count, 0))
    table.codes = np.stack(codes, axis=1) if codes else np.empty((count, 0), np.int32)
    table.exact = table.exact[:, [table.exact_columns.index(name) for name in chosen]]
    table.exact_columns = chosen
    table.notes.insert(0, f"Read {count:,} rows of {len(names)} columns from a Parquet file.")
    return table


def _floats(column: Any, compute: Any) -> Any:
    return np.asarray(compute.fill_null(column.cast("float64"), float("nan")), np.float64)


def _centre(values: Any) -> float:
    there = values[np.isfinite(values)]
    return float(there[:10_000].mean()) if len(there) else 0.0
