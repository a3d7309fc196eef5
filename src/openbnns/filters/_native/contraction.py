"""Native plan of every contraction: matrix products, tensor contractions, Gram matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...engines import _core as core

if TYPE_CHECKING:
    from ... import _core


def plan(
    left: Sequence[tuple[Sequence[int], Sequence[int], bool]],
    output: tuple[Sequence[int], Sequence[int]],
    alpha: float,
    *,
    self_contraction: bool,
    adds_to_output: bool,
) -> _core.Plan:
    """``left``: for x and, if there is one, w (or x again) its indices, sizes and whether it has a batch axis."""
    numbers: dict[int, int] = {}

    def numbered(indices: Sequence[int]) -> list[int]:
        return [numbers.setdefault(index, len(numbers)) for index in indices]

    return core.contraction(
        [(numbered(indices), list(sizes), batched) for indices, sizes, batched in left],
        (numbered(output[0]), list(output[1]), True),
        self_contraction,
        alpha,
        adds_to_output,
    )
