"""Native plan of padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...engines import _core as core

if TYPE_CHECKING:
    from ... import _core


def plan(mode: int, shape: Sequence[int], widths: Sequence[tuple[int, int]], item_bytes: int, value: int) -> _core.Plan:
    """A sample of this shape padded by (before, after) along every axis, in C order; ``value`` is a bit pattern."""
    return core.padding(mode, list(shape), [b for b, _ in widths], [a for _, a in widths], item_bytes, value)
