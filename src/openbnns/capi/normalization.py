"""Normalization filters."""

from __future__ import annotations

from typing import Any

from ..abi.enums import BNNSFilterType
from ..abi.structs import BNNSFilterParameters, BNNSLayerParametersNormalization
from ..filters.normalization import Normalization
from ._calls import BNNSFilter, create
from ._declared import DECLARED, drives

__all__ = [
    "BNNSFilterCreateLayerNormalization",
    "BNNSNormalizationFilterApplyBackwardBatch",
    "BNNSNormalizationFilterApplyBatch",
]


def BNNSFilterCreateLayerNormalization(
    normType: BNNSFilterType | int,
    layer_params: BNNSLayerParametersNormalization | Any,
    filter_params: BNNSFilterParameters | None = None,
) -> BNNSFilter | None:
    """Build a normalization filter; ``normType`` is BNNSBatchNorm, BNNSInstanceNorm, BNNSLayerNorm or BNNSGroupNorm.

    y = f(gamma (x - mean) / sqrt(variance + epsilon) + beta), mean and variance per channel over the batch, per channel
    and sample, per sample, or per group of channels and sample.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> v = Shape.vector(2).descriptor
    >>> p = BNNSLayerParametersNormalization(
    ...     i_desc=v(), o_desc=v(), gamma_desc=v(data=np.float32([1, 8])), beta_desc=v(data=np.float32([0, 5]))
    ... )
    >>> f, y = BNNSFilterCreateLayerNormalization(BNNSBatchNorm, p), np.zeros((2, 2), np.float32)
    >>> BNNSNormalizationFilterApplyBatch(f, 2, np.float32([[1, 2], [3, 4]]), 2, y, 2, True), y.tolist()
    (0, [[-1.0, -3.0], [1.0, 13.0]])
    """
    who = "BNNSFilterCreateLayerNormalization"
    if isinstance(normType, bool) or not isinstance(normType, int):
        raise TypeError(f"{who}: normType must be a BNNSFilterType, not {type(normType).__name__}.")
    return create(Normalization, who, layer_params, BNNSLayerParametersNormalization, filter_params, normType)


@drives("apply_normalization", chooses="training", among=(False, True))
def BNNSNormalizationFilterApplyBatch(
    filter: BNNSFilter | None, batch_size: int, in_: Any, in_stride: int, out: Any, out_stride: int, training: bool
) -> int:
    """Run a normalization filter; with ``training`` it keeps what the backward call needs. ``out`` may be ``in_``.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> v = Shape.vector(4).descriptor()
    >>> f = BNNSFilterCreateLayerNormalization(BNNSLayerNorm, BNNSLayerParametersNormalization(i_desc=v, o_desc=v))
    >>> x = np.float32([1, 3, 3, 1])
    >>> BNNSNormalizationFilterApplyBatch(f, 1, x, 4, x, 4, False), x.tolist()
    (0, [-1.0, 1.0, 1.0, -1.0])
    """
    return DECLARED


@drives("apply_backward_normalization")
def BNNSNormalizationFilterApplyBackwardBatch(
    filter: BNNSFilter | None, batch_size: int, in_delta: Any, in_delta_stride: int, out: Any, out_stride: int,
    out_delta: Any, out_delta_stride: int, beta_delta: Any = None, gamma_delta: Any = None,
) -> int:  # fmt: skip
    """Gradients with respect to input, beta and gamma (in this order) of the latest training forward.

    ``batch_size`` is that of the training forward; ``out`` is needed with an activation. ``None`` skips a gradient.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> v = Shape.vector(1).descriptor
    >>> p = BNNSLayerParametersNormalization(i_desc=v(), o_desc=v(), gamma_desc=v(data=np.float32([1])))
    >>> f, x, y = BNNSFilterCreateLayerNormalization(BNNSBatchNorm, p), np.float32([1, 3]), np.zeros(2, np.float32)
    >>> BNNSNormalizationFilterApplyBatch(f, 2, x, 1, y, 1, True), y.tolist()
    (0, [-1.0, 1.0])
    >>> dy, dgamma = np.float32([5, 7]), np.zeros(1, np.float32)
    >>> BNNSNormalizationFilterApplyBackwardBatch(f, 2, None, 0, y, 1, v(data=dy), 1, None, v(data=dgamma))
    0
    >>> dgamma.tolist()  # sum of dy times the normalized input
    [2.0]
    """
    return DECLARED
