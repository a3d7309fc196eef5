"""Convolution and transposed convolution under their C names."""

from __future__ import annotations

from typing import Any

from ..filters.convolution import Convolution
from ..filters.transposed_convolution import TransposedConvolution
from ._calls import BNNSFilter, create
from .structs import BNNSFilterParameters, BNNSLayerParametersConvolution


def BNNSFilterCreateLayerConvolution(
    layer_params: BNNSLayerParametersConvolution | Any, filter_params: BNNSFilterParameters | None = None
) -> BNNSFilter | None:
    """Build a 2-D convolution filter."""
    return create(
        Convolution, "BNNSFilterCreateLayerConvolution", layer_params, BNNSLayerParametersConvolution, filter_params
    )


def BNNSFilterCreateLayerTransposedConvolution(
    layer_params: BNNSLayerParametersConvolution | Any, filter_params: BNNSFilterParameters | None = None
) -> BNNSFilter | None:
    """Build a 2-D transposed convolution filter (Float32, no groups)."""
    return create(
        TransposedConvolution, "BNNSFilterCreateLayerTransposedConvolution", layer_params,
        BNNSLayerParametersConvolution, filter_params,
    )  # fmt: skip
