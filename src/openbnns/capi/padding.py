"""Padding under its C name."""

from __future__ import annotations

from typing import Any

from ..filters.padding import Padding
from ._calls import BNNSFilter, create
from .structs import BNNSFilterParameters, BNNSLayerParametersPadding


def BNNSFilterCreateLayerPadding(
    layer_params: BNNSLayerParametersPadding | Any, filter_params: BNNSFilterParameters | None = None
) -> BNNSFilter | None:
    """Build a padding filter: constant, reflect or symmetric."""
    return create(Padding, "BNNSFilterCreateLayerPadding", layer_params, BNNSLayerParametersPadding, filter_params)
