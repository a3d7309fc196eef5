"""Native plan of multihead attention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...engines import _core as core
from ...reference.attention import Options, Sizes

if TYPE_CHECKING:
    from ... import _core

# Slots of a plan: AttentionSlot in core/kernels/kernels.h. The ten parameters follow each other, and so do their
# gradients.
QUERY, KEY, VALUE, FIRST_PARAMETER = range(4)
OUTPUT, OUTPUT_GRADIENT, QUERY_GRADIENT, KEY_GRADIENT, VALUE_GRADIENT, FIRST_PARAMETER_GRADIENT = range(13, 19)
KEY_MASK, ADDED, CACHE, WORKSPACE = range(28, 32)

# Bits of the first extra number.
CANONICAL_PARAMETERS, ADDED_IS_BOOLEAN, NO_DROPOUT = 1, 2, 4

Steps = Sequence[tuple[int, int, int]]


def plan(sizes: Sizes, options: Options, seed: int, token: int, stored: Steps, gradient: Steps) -> _core.Plan:
    """``stored`` and ``gradient``: steps along (head, component, feature) of each parameter and of its gradient."""
    return core.attention(
        [sizes.target, sizes.source, sizes.model, sizes.key, sizes.value, sizes.heads],
        [sizes.attention_bias, sizes.zero_row, options.masked_rows_are_zero],
        options.dropout, seed, token, stored, gradient,
    )  # fmt: skip
