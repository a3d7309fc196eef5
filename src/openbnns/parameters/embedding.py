"""How an embedding reads its entries and forms their gradient."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Embedding:
    """How entries are read and how their gradient is formed.

    padding_index names an entry that reads as zeros and has no gradient; outside the dictionary, or None, it names none.
    An entry whose p-norm exceeds max_norm is scaled down to it; 0 sets no limit. norm_type is p, 0 meaning 2 and
    math.inf the largest magnitude. scale_by_frequency divides the gradient of an entry by the number of its lookups.
    renormalize_in_place scales the entries in the dictionary itself, instead of in what is read.
    """

    padding_index: int | None = None
    max_norm: float = 0.0
    norm_type: float = 2.0
    scale_by_frequency: bool = False
    renormalize_in_place: bool = False
