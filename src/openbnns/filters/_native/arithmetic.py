"""Native plan of elementwise arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...engines import _core as core
from ...reference.activation import Activation
from ._activation import spec

if TYPE_CHECKING:
    from ... import _core


def plan(
    function: int, size: Sequence[int], operands: Sequence[Sequence[int]], batched: Sequence[bool], f: Activation
) -> _core.Plan:
    """One sample of the output has shape ``size``; operand sizes equal it or are 1, per axis."""
    return core.arithmetic(function, list(size), [list(o) for o in operands], list(batched), spec(f))
