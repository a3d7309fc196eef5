"""Native plans of norms and of clipping by norm; see NormShape in core/kernels/kernels.h."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...engines import _core as core

if TYPE_CHECKING:
    from ... import _core


def norm_plan(shape: Sequence[int], inside: Sequence[bool]) -> _core.Plan:
    """x of C-order `shape` to its norms over the axes `inside`, and backward."""
    return core.norm(list(shape), list(inside))


def clip_plan(shape: Sequence[int], inside: Sequence[bool], max_norm: float) -> _core.Plan:
    """x to x scaled, slice by slice, to norms of at most max_norm."""
    return core.clip_by_norm(list(shape), list(inside), max_norm)
