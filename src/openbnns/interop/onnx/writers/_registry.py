"""The one table of writers of operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Writer = Callable[[Any, Any], Any]

WRITERS: dict[Any, Writer] = {}
"""By the class of the operation; for one that is computed in NumPy by a body of its own, by that. A writer takes the file and the
operation, and gives the name of the result, or several."""


class NoForm(ValueError):
    """An operation without a form in ONNX; the message of an export adds the layer."""


def writes(*kinds: Any) -> Callable[[Writer], Writer]:
    def register(writer: Writer) -> Writer:
        for kind in kinds:
            WRITERS[kind] = writer
        return writer

    return register
