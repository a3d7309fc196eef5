"""The table of compositions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...converted.registry import Registry

_TABLE = Registry()

COMPOSITIONS, COMPOSED = _TABLE.handlers, _TABLE.groups
"""The functions by name, and the names by kind."""

composition = _TABLE.register


def compose(group: str, **functions: Callable[..., Any]) -> None:
    """Add functions by name."""
    for name, function in functions.items():
        _TABLE.add(group, name, function)
