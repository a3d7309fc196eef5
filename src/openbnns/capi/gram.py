"""Gram matrices under their C name."""

from __future__ import annotations

from typing import Any

from ..filters.gram import Gram
from ._calls import BNNSFilter, create
from .structs import BNNSFilterParameters, BNNSLayerParametersGram


def BNNSFilterCreateLayerGram(
    layer_params: BNNSLayerParametersGram | Any, filter_params: BNNSFilterParameters | None = None
) -> BNNSFilter | None:
    """Build a Gram-matrix filter: G(f, c) = alpha sum over i, j of x(i, j, f) x(i, j, c)."""
    return create(Gram, "BNNSFilterCreateLayerGram", layer_params, BNNSLayerParametersGram, filter_params)
