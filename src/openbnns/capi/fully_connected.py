"""Fully connected layers under their C names."""

from __future__ import annotations

from typing import Any

from ..filters.fully_connected import FullyConnected
from ._calls import BNNSFilter, create
from .structs import BNNSFilterParameters, BNNSLayerParametersFullyConnected


def BNNSFilterCreateLayerFullyConnected(
    layer_params: BNNSLayerParametersFullyConnected | Any, filter_params: BNNSFilterParameters | None = None
) -> BNNSFilter | None:
    """Build a matrix-vector filter: y = f(W x + b)."""
    return create(
        FullyConnected,
        "BNNSFilterCreateLayerFullyConnected",
        layer_params,
        BNNSLayerParametersFullyConnected,
        filter_params,
    )
