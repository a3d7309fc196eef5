"""Data from tables, arrays and images, in three parts, checked and prepared before training starts."""

from ..._listing import of_module as _of_module
from ...files.untrusted import DataError
from .dataset import Batches, Data, check, classification, load, notes, with_task
from .sources.array_files import read_idx
from .splitting import split_rows

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
