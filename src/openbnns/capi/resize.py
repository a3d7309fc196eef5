"""Resize under its C name."""

from __future__ import annotations

from typing import Any

from ..filters.resize import Resize
from ._calls import BNNSFilter, create
from .structs import BNNSFilterParameters, BNNSLayerParametersResize


def BNNSFilterCreateLayerResize(
    layer_params: BNNSLayerParametersResize | Any, filter_params: BNNSFilterParameters | None = None
) -> BNNSFilter | None:
    """Build a filter that resamples the axes whose sizes differ: nearest or linear."""
    return create(Resize, "BNNSFilterCreateLayerResize", layer_params, BNNSLayerParametersResize, filter_params)
