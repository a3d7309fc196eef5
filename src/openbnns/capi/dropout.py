"""Dropout under its C name."""

from __future__ import annotations

from typing import Any

from ..filters.dropout import Dropout
from ._calls import BNNSFilter, create
from .structs import BNNSFilterParameters, BNNSLayerParametersDropout


def BNNSFilterCreateLayerDropout(
    layer_params: BNNSLayerParametersDropout | Any, filter_params: BNNSFilterParameters | None = None
) -> BNNSFilter | None:
    """Build a dropout filter; each forward call draws a new mask, which the backward call uses."""
    return create(Dropout, "BNNSFilterCreateLayerDropout", layer_params, BNNSLayerParametersDropout, filter_params)
