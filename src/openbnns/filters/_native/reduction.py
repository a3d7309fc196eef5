"""Native plans of reductions; see ReductionShape in core/kernels/direct.h."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...engines import _core as core

if TYPE_CHECKING:
    from ... import _core


def plan(
    function: int,
    shape: Sequence[int],
    inside: Sequence[bool],
    epsilon: float = 0.0,
    *,
    wide_positions: bool = False,
    position_modulus: int = 0,
) -> _core.Plan:
    """x of C-order `shape` reduced over the axes `inside`, and backward."""
    return core.reduction(function, list(shape), list(inside), epsilon, wide_positions, position_modulus)
