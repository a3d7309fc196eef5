"""Tensor contractions under their C name."""

from __future__ import annotations

from typing import Any

from ..filters.contraction import TensorContraction
from ._calls import BNNSFilter, create
from .structs import BNNSFilterParameters, BNNSLayerParametersTensorContraction


def BNNSFilterCreateLayerTensorContraction(
    layer_params: BNNSLayerParametersTensorContraction | Any, filter_params: BNNSFilterParameters | None = None
) -> BNNSFilter | None:
    """Build an Einstein-summation filter from an expression such as ``"a_*ik, b_*kj -> c_*ij"``.

    Two inputs are applied with the two-input calls. With an operand named ``w``, one operand, or one name twice there is
    one input, and the single-input calls are used; the gradient of ``w`` is ``weights_delta``.
    """
    return create(
        TensorContraction, "BNNSFilterCreateLayerTensorContraction", layer_params, BNNSLayerParametersTensorContraction,
        filter_params,
    )  # fmt: skip
