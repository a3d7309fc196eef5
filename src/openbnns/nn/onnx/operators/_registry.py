"""The one table of operators; documentation and error messages are made from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Handler = Callable[..., Any]

OPERATORS: dict[str, Handler] = {}
"""By the name of the operator. A handler takes the call and its tensors, None for those left out, and gives one or several."""

GROUPS: dict[str, list[str]] = {}
"""The names by kind, in the order of the documentation."""


def operator(group: str, *names: str) -> Callable[[Handler], Handler]:
    """Register a handler."""

    def register(handler: Handler) -> Handler:
        for name in names:
            add(group, name, handler)
        return handler

    return register


def add(group: str, name: str, handler: Handler) -> None:
    assert name not in OPERATORS, name
    OPERATORS[name] = handler
    GROUPS.setdefault(group, []).append(name)
