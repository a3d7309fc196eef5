"""Tensor contractions under their C name."""

from __future__ import annotations

from typing import Any

from ..abi.structs import BNNSFilterParameters, BNNSLayerParametersTensorContraction
from ..filters.contraction import TensorContraction
from ._calls import BNNSFilter, create

__all__ = ["BNNSFilterCreateLayerTensorContraction"]


def BNNSFilterCreateLayerTensorContraction(
    layer_params: BNNSLayerParametersTensorContraction | Any, filter_params: BNNSFilterParameters | None = None
) -> BNNSFilter | None:
    """Build an Einstein-summation filter from an expression such as ``"a_*ik, b_*kj -> c_*ij"``.

    Two inputs are applied with the two-input calls. With an operand named ``w``, one operand, or one name twice there is
    one input, and the single-input calls are used; the gradient of ``w`` is ``weights_delta``.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> f = BNNSFilterCreateLayerTensorContraction(
    ...     BNNSLayerParametersTensorContraction(
    ...         operation="a_ik, b_kj -> c_ij", alpha=1, iA_desc=Shape([1, 2]).descriptor(),
    ...         iB_desc=Shape([2, 3]).descriptor(), o_desc=Shape([1, 3]).descriptor(),
    ...     )
    ... )
    >>> c = np.zeros((1, 3), np.float32)
    >>> BNNSFilterApplyTwoInput(f, np.float32([1, 10]), np.float32([1, 2, 3, 4, 5, 6]), c), c.tolist()
    (0, [[41.0, 52.0, 63.0]])
    """
    return create(
        TensorContraction, "BNNSFilterCreateLayerTensorContraction", layer_params, BNNSLayerParametersTensorContraction,
        filter_params,
    )  # fmt: skip
