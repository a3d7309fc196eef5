"""Dropout under its C name."""

from __future__ import annotations

from typing import Any

from ..abi.structs import BNNSFilterParameters, BNNSLayerParametersDropout
from ..filters.dropout import Dropout
from ._calls import BNNSFilter, create

__all__ = ["BNNSFilterCreateLayerDropout"]


def BNNSFilterCreateLayerDropout(
    layer_params: BNNSLayerParametersDropout | Any, filter_params: BNNSFilterParameters | None = None
) -> BNNSFilter | None:
    """Build a dropout filter; each forward call draws a new mask, which the backward call uses.

    y = x mask / (1 - rate), dx = dy mask / (1 - rate), for any tensor; the same ``seed`` repeats the masks.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> v = Shape.vector(4).descriptor
    >>> f = BNNSFilterCreateLayerDropout(BNNSLayerParametersDropout(i_desc=v(), o_desc=v(), rate=0.5, seed=7))
    >>> x, y, dx = np.ones(4, np.float32), np.zeros(4, np.float32), np.zeros(4, np.float32)
    >>> BNNSFilterApply(f, x, y), sorted(set(y.tolist()))
    (0, [0.0, 2.0])
    >>> BNNSFilterApplyBackwardBatch(f, 1, None, 0, v(data=dx), 4, None, 0, v(data=x), 4), (dx == y).tolist()
    (0, [True, True, True, True])
    """
    return create(Dropout, "BNNSFilterCreateLayerDropout", layer_params, BNNSLayerParametersDropout, filter_params)
