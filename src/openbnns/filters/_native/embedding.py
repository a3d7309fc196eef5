"""Native plan of an embedding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...engines import _core as core
from ...reference.embedding import Embedding

if TYPE_CHECKING:
    from ... import _core


def plan(e: Embedding, positions: int, entries: int, item: int, *, index_bytes: int, item_major: bool) -> _core.Plan:
    """Indices (N, positions), dictionary (entries, item), output (N, positions, item); see EmbeddingShape in kernels.h."""
    padding = -1 if e.padding_index is None else e.padding_index
    readings = [item_major, e.scale_by_frequency, e.renormalize_in_place]
    return core.embedding([positions, entries, item], index_bytes, padding, e.max_norm, e.norm_type or 2.0, readings)
