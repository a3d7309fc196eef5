"""Native plan of a permutation of axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...engines import _core as core

if TYPE_CHECKING:
    from ... import _core


def plan(shape: Sequence[int], permutation: Sequence[int], item_bytes: int) -> _core.Plan:
    """Axis k of the output is axis permutation[k] of a sample of this shape, both in C order."""
    return core.permute(list(shape), list(permutation), item_bytes)
