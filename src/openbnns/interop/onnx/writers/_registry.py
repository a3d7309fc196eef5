"""The table of writers of operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Writer = Callable[[Any, Any], Any]

WRITERS: dict[Any, Writer] = {}
"""The writers by class of the operation, or by function for an operation that NumPy computes. A writer is a function of the
file and the operation that returns the name of the result, or several."""


def writes(*kinds: Any) -> Callable[[Writer], Writer]:
    def register(writer: Writer) -> Writer:
        for kind in kinds:
            WRITERS[kind] = writer
        return writer

    return register
