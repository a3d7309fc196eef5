"""Crop-resize under its C names."""

from __future__ import annotations

from typing import Any

from .._words import Caller
from ..abi.structs import BNNSFilterParameters, BNNSLayerParametersCropResize
from ..errors import FAILURE, Problem, out_of_memory, record, succeeded
from ..filters.crop_resize import CropResize
from ._calls import check_filter_params, is_given

__all__ = ["BNNSCropResize", "BNNSCropResizeBackward"]


def BNNSCropResize(
    layer_params: BNNSLayerParametersCropResize | Any, input: Any, roi: Any, output: Any,
    filter_params: BNNSFilterParameters | None = None,
) -> int:  # fmt: skip
    """Cut boxes out of images and sample them bilinearly.

    ``input`` is 4DLastMajor (width, height, channels, images), ``roi`` 2DLastMajor (4, boxes), ``output`` 5DLastMajor
    (width, height, channels, images, boxes).

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> x, box, y = np.float32([1, 2, 3, 4]), np.float32([0, 0, 1, 1]), np.zeros(1, np.float32)
    >>> p = BNNSLayerParametersCropResize(
    ...     spatial_scale=1, sampling_mode=BNNSLinearSamplingUnalignCorners,
    ...     box_coordinate_mode=BNNSCornersWidthFirst, method=BNNSInterpolationMethodLinear,
    ... )
    >>> image = Shape.tensor_4d_last_major(2, 2, 1, 1).descriptor(data=x)
    >>> boxes = Shape.matrix_last_major(4, 1).descriptor(data=box)
    >>> BNNSCropResize(p, image, boxes, Shape.tensor_5d_last_major(1, 1, 1, 1, 1).descriptor(data=y)), y.tolist()
    (0, [2.5])
    """
    return _attempt("BNNSCropResize", layer_params, filter_params, "apply", input, roi, output)


def BNNSCropResizeBackward(
    layer_params: BNNSLayerParametersCropResize | Any, in_delta: Any, roi: Any, out_delta: Any,
    filter_params: BNNSFilterParameters | None = None,
) -> int:  # fmt: skip
    """The gradient of crop-resize with respect to the images, written as the flags of ``in_delta`` say.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> dx, box, dy = np.zeros(4, np.float32), np.float32([0, 0, 1, 1]), np.float32([8])
    >>> p = BNNSLayerParametersCropResize(
    ...     spatial_scale=1, sampling_mode=BNNSLinearSamplingUnalignCorners,
    ...     box_coordinate_mode=BNNSCornersWidthFirst, method=BNNSInterpolationMethodLinear,
    ... )
    >>> image = Shape.tensor_4d_last_major(2, 2, 1, 1).descriptor(data=dx)
    >>> boxes = Shape.matrix_last_major(4, 1).descriptor(data=box)
    >>> crop = Shape.tensor_5d_last_major(1, 1, 1, 1, 1).descriptor(data=dy)
    >>> BNNSCropResizeBackward(p, image, boxes, crop), dx.tolist()
    (0, [2.0, 2.0, 2.0, 2.0])
    """
    return _attempt("BNNSCropResizeBackward", layer_params, filter_params, "apply_backward", in_delta, roi, out_delta)


def _attempt(who: str, layer_params: Any, filter_params: Any, method: str, *tensors: Any) -> int:
    if not is_given(layer_params, BNNSLayerParametersCropResize, who):
        return FAILURE
    check_filter_params(filter_params, who)
    try:
        getattr(CropResize(layer_params, filter_params, Caller(who)), method)(*tensors)
    except Problem as problem:
        return record(problem)
    except MemoryError:
        return record(out_of_memory(who))
    return succeeded(0)
