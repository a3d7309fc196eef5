"""Losses under their C names."""

from __future__ import annotations

from typing import Any

from ..abi.structs import BNNSFilterParameters
from ..errors import Problem, record
from ..filters.loss import STRUCTS, Loss, LossStruct
from ._calls import BNNSFilter, create
from ._declared import DECLARED, drives

__all__ = ["BNNSFilterCreateLayerLoss", "BNNSLossFilterApplyBackwardBatch", "BNNSLossFilterApplyBatch"]


def BNNSFilterCreateLayerLoss(
    layer_params: LossStruct | Any, filter_params: BNNSFilterParameters | None = None
) -> BNNSFilter | None:
    """Build a loss filter; ``layer_params`` is the BNNSLayerParametersLoss... struct that belongs to its function.

    ``i_desc`` is one sample of the input; ``o_desc`` the result: one value, or with reduction None the losses of a sample.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> f = BNNSFilterCreateLayerLoss(
    ...     BNNSLayerParametersLossSoftmaxCrossEntropy(
    ...         function=BNNSLossFunctionSoftmaxCrossEntropy, reduction=BNNSLossReductionMean,
    ...         i_desc=Shape.vector(4).descriptor(), o_desc=Shape.vector(1).descriptor(),
    ...     )
    ... )
    >>> logits, labels, loss = np.zeros((1, 4), np.float32), np.float32([[0, 1, 0, 0]]), np.zeros(1, np.float32)
    >>> BNNSLossFilterApplyBatch(f, 1, logits, 4, labels, 4, None, 0, loss, None, 0)
    0
    >>> print(loss)  # log 4
    [1.3862944]
    """
    who = "BNNSFilterCreateLayerLoss"
    if layer_params is None:
        record(
            Problem(
                f"{who}: layer_params is NULL. Pass the BNNSLayerParametersLoss struct that belongs to the function."
            )
        )
        return None
    if not isinstance(layer_params, STRUCTS):
        names = ", ".join(struct.__name__ for struct in STRUCTS)
        raise TypeError(f"{who}: layer_params must be one of {names}, not {type(layer_params).__name__}.")
    return create(Loss, who, layer_params, type(layer_params), filter_params)


@drives("apply_loss")
def BNNSLossFilterApplyBatch(
    filter: BNNSFilter | None, batch_size: int, in_: Any, in_stride: int, labels: Any, labels_stride: int, weights: Any,
    weights_size: int, out: Any, in_delta: Any, in_delta_stride: int,
) -> int:  # fmt: skip
    """Compute a loss and, if ``in_delta`` is given, its gradient as if the loss were the last layer.

    ``weights_size`` counts the weights: 0 for none, 1 for one factor, or one per loss.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> v = Shape.vector(2).descriptor
    >>> f = BNNSFilterCreateLayerLoss(
    ...     BNNSLayerParametersLossBase(
    ...         function=BNNSLossFunctionMeanSquareError, reduction=BNNSLossReductionSum, i_desc=v(),
    ...         o_desc=Shape.vector(1).descriptor(),
    ...     )
    ... )
    >>> x, t, loss, dx = np.float32([3, 5]), np.float32([1, 1]), np.zeros(1, np.float32), np.zeros(2, np.float32)
    >>> BNNSLossFilterApplyBatch(f, 1, x, 2, t, 2, None, 0, loss, v(data=dx), 2), loss.tolist(), dx.tolist()
    (0, [20.0], [4.0, 8.0])
    """
    return DECLARED


@drives("apply_backward_loss")
def BNNSLossFilterApplyBackwardBatch(
    filter: BNNSFilter | None, batch_size: int, in_: Any, in_stride: int, in_delta: Any, in_delta_stride: int,
    labels: Any, labels_stride: int, weights: Any, weights_size: int, out_delta: Any, out_delta_stride: int,
) -> int:  # fmt: skip
    """The gradient of a loss, chained with its output gradient ``out_delta``.

    ``out_delta`` holds one value, or with reduction None the values of one sample, ``out_delta_stride`` apart.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> v = Shape.vector(2).descriptor
    >>> one = Shape.vector(1).descriptor
    >>> f = BNNSFilterCreateLayerLoss(
    ...     BNNSLayerParametersLossBase(
    ...         function=BNNSLossFunctionMeanSquareError, reduction=BNNSLossReductionSum, i_desc=v(), o_desc=one()
    ...     )
    ... )
    >>> x, t, dx, dy = np.float32([3, 5]), np.float32([1, 1]), np.zeros(2, np.float32), np.float32([10])
    >>> BNNSLossFilterApplyBackwardBatch(f, 1, x, 2, v(data=dx), 2, t, 2, None, 0, one(data=dy), 1), dx.tolist()
    (0, [40.0, 80.0])
    """
    return DECLARED
