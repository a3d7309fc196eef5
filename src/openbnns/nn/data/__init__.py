"""Data from tables, arrays and images, in three parts, checked and prepared before training starts."""

from ..._listing import of_module as _of_module
from .dataset import (
    Batches,
    Data,
    DataError,
    check,
    classification,
    load,
    notes,
    read_idx,
    split_rows,
    with_task,
)

__all__ = [
    "Batches",
    "Data",
    "DataError",
    "check",
    "classification",
    "load",
    "notes",
    "read_idx",
    "split_rows",
    "with_task",
]

__dir__ = _of_module(__name__)
