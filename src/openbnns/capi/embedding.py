"""Embeddings under their C names."""

from __future__ import annotations

from typing import Any

from ..filters.embedding import Embedding
from ._calls import BNNSFilter, create
from .structs import BNNSFilterParameters, BNNSLayerParametersEmbedding


def BNNSFilterCreateLayerEmbedding(
    layer_params: BNNSLayerParametersEmbedding | Any, filter_params: BNNSFilterParameters | None = None
) -> BNNSFilter | None:
    """Build a dictionary-lookup filter: out(item, pos) = dictionary(item, in(pos))."""
    return create(
        Embedding, "BNNSFilterCreateLayerEmbedding", layer_params, BNNSLayerParametersEmbedding, filter_params
    )
