"""Native plan of dropout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...engines import _core as core

if TYPE_CHECKING:
    from ... import _core


def plan(rate: float, seed: int, shape: Sequence[int], shared: Sequence[int]) -> _core.Plan:
    """One sample has this shape; ``shared`` lists axes of (N, *shape) along which one decision holds."""
    return core.dropout(rate, seed, list(shape), [axis + 1 in shared for axis in range(len(shape))], 0 in shared)
