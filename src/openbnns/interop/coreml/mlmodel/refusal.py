"""Layers of files that cannot be converted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class Refused(Exception):
    """The reason why a layer cannot be converted."""


class Unsupported(ValueError):
    """An error for a file with layers that cannot be converted. ``layers`` lists each with its type and the reason."""

    def __init__(self, path: Any, layers: Sequence[tuple[str, str, str]]) -> None:
        self.layers = list(layers)
        listed = "".join(f"\n  {name} ({kind}): {reason}" for name, kind, reason in layers)
        super().__init__(f"from_mlmodel: {path} has layers that cannot be converted:{listed}")
