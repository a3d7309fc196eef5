"""Convolution and transposed convolution under their C names."""

from __future__ import annotations

from typing import Any

from ..abi.structs import BNNSFilterParameters, BNNSLayerParametersConvolution
from ..filters.convolution import Convolution
from ..filters.transposed_convolution import TransposedConvolution
from ._calls import BNNSFilter, create

__all__ = ["BNNSFilterCreateLayerConvolution", "BNNSFilterCreateLayerTransposedConvolution"]


def BNNSFilterCreateLayerConvolution(
    layer_params: BNNSLayerParametersConvolution | Any, filter_params: BNNSFilterParameters | None = None
) -> BNNSFilter | None:
    """Build a 2-D convolution filter.

    y[o, p, q] = f(b[o] + sum over c, i, j of w[o, c, i, j] x[c, p sy + i dy - py, q sx + j dx - px]), zero outside x.
    x is ImageCHW (C, H, W), w OIHW (O, C / groups, KH, KW), y ImageCHW (O, OH, OW).

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> w = np.float32([[1, 2, 1]])
    >>> p = BNNSLayerParametersConvolution(
    ...     i_desc=Shape.image_chw(4, 1, 1).descriptor(), o_desc=Shape.image_chw(4, 1, 1).descriptor(),
    ...     w_desc=Shape.convolution_weights_oihw(3, 1, 1, 1).descriptor(data=w), x_stride=1, y_stride=1, x_padding=1,
    ... )
    >>> f, y = BNNSFilterCreateLayerConvolution(p), np.zeros(4, np.float32)
    >>> BNNSFilterApply(f, np.float32([1, 0, 0, 2]), y), y.tolist()  # backward: BNNSFilterApplyBackwardBatch
    (0, [2.0, 1.0, 2.0, 4.0])
    """
    return create(
        Convolution, "BNNSFilterCreateLayerConvolution", layer_params, BNNSLayerParametersConvolution, filter_params
    )


def BNNSFilterCreateLayerTransposedConvolution(
    layer_params: BNNSLayerParametersConvolution | Any, filter_params: BNNSFilterParameters | None = None
) -> BNNSFilter | None:
    """Build a 2-D transposed convolution filter (Float32, no groups).

    The convolution of x with sx - 1, sy - 1 zeros between its pixels: x (C, H, W), y (O, OH, OW), OW about sx W.
    Weights are (O, C, KH, KW) as OIHW; PyTorch's have the layout IOHrWr.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> w = np.float32([1, 10])
    >>> p = BNNSLayerParametersConvolution(
    ...     i_desc=Shape.image_chw(2, 1, 1).descriptor(), o_desc=Shape.image_chw(4, 1, 1).descriptor(),
    ...     w_desc=Shape.convolution_weights_oihw(2, 1, 1, 1).descriptor(data=w), x_stride=2, y_stride=1,
    ... )
    >>> f, y = BNNSFilterCreateLayerTransposedConvolution(p), np.zeros(4, np.float32)
    >>> BNNSFilterApply(f, np.float32([3, 4]), y), y.tolist()
    (0, [30.0, 3.0, 40.0, 4.0])
    >>> p.w_desc.layout = BNNSDataLayoutConvolutionWeightsIOHrWr
    >>> BNNSFilterApply(BNNSFilterCreateLayerTransposedConvolution(p), np.float32([3, 4]), y), y.tolist()
    (0, [3.0, 30.0, 4.0, 40.0])
    """
    return create(
        TransposedConvolution, "BNNSFilterCreateLayerTransposedConvolution", layer_params,
        BNNSLayerParametersConvolution, filter_params,
    )  # fmt: skip
