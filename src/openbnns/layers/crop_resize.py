"""Crop-resize: boxes cut out of images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._words import Caller
from ..abi.structs import BNNSFilterParameters, BNNSLayerParametersCropResize, BNNSNDArrayDescriptor
from ..errors import LayerCreationError, Problem, as_exception
from ..filters.crop_resize import CropResize
from ._functions import call
from ._misuse import flag, reports_misuse
from ._ports import TensorLike, as_array, data_type, descriptor_for, require, require_contiguous, struct_of
from .types import BoxCoordinateMode, DataLayout, LinearSamplingMode

__all__ = ["CropResizeLayer"]

_NAMES = {
    "roi": "region_of_interest",
    "in_delta": "generating_input_gradient",
    "out_delta": "output_gradient",
    "filter_params": "filter_parameters",
}
_LAYOUTS = {4: DataLayout.TENSOR_4D_LAST_MAJOR, 5: DataLayout.TENSOR_5D_LAST_MAJOR, 2: DataLayout.MATRIX_LAST_MAJOR}
_AXES = {4: "(images, channels, height, width)", 5: "(boxes, images, channels, height, width)", 2: "(boxes, 4)"}


class CropResizeLayer:
    """Every box cut out of every image and sampled bilinearly to the size of the output.

    Arrays: ``input`` (images, channels, height, width), ``region_of_interest`` (boxes, 4), ``output`` (boxes, images,
    channels, h, w). A box is two corners, or centre and size, as ``box_coordinate_mode`` says; its numbers are pixels, or
    shares of the image if ``coordinates_are_normalized``, times ``spatial_scale``. Positions outside the image give
    ``extrapolation_value``. Backward gives the gradient of the images; there is none of the boxes.

    >>> import numpy as np
    >>> from openbnns import *
    >>> image = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    >>> layer = CropResizeLayer(sampling_mode=LinearSamplingMode.ALIGN_CORNERS)
    >>> layer.apply(image, np.array([[1, 1, 2, 2]], np.float32), output_size=(2, 2))[0, 0, 0]
    array([[ 5.,  6.],
           [ 9., 10.]], dtype=float32)
    >>> dy = np.ones((1, 1, 1, 2, 2), np.float32)
    >>> layer.apply_backward(np.float32([[1, 1, 2, 2]]), dy, input_size=(4, 4))[0, 0, 1].tolist()
    [0.0, 1.0, 1.0, 0.0]
    """

    @reports_misuse(LayerCreationError)
    def __init__(
        self,
        *,
        coordinates_are_normalized: bool = False,
        spatial_scale: float = 1.0,
        extrapolation_value: float = 0.0,
        sampling_mode: LinearSamplingMode = LinearSamplingMode.DEFAULT,
        box_coordinate_mode: BoxCoordinateMode = BoxCoordinateMode.CORNERS_HEIGHT_FIRST,
    ) -> None:
        who = Caller(type(self).__name__, _NAMES, null="None")
        try:
            for name, value, kind in (
                ("sampling_mode", sampling_mode, LinearSamplingMode),
                ("box_coordinate_mode", box_coordinate_mode, BoxCoordinateMode),
            ):
                require(value, kind, f"{who}: {name}", str(next(iter(kind))))
            self._parameters = struct_of(
                BNNSLayerParametersCropResize, who, normalized_coordinates=bool(coordinates_are_normalized),
                spatial_scale=spatial_scale, extrapolation_value=extrapolation_value, sampling_mode=sampling_mode.value,
                box_coordinate_mode=box_coordinate_mode.value, method=1,
            )  # fmt: skip
            CropResize(self._parameters, None, who)
        except Problem as problem:
            raise as_exception(problem, LayerCreationError) from None

    @call(_NAMES)
    def apply(
        self,
        caller: Caller,
        input: TensorLike,
        region_of_interest: TensorLike,
        output: TensorLike | None = None,
        *,
        output_size: Sequence[int] | None = None,
        filter_parameters: BNNSFilterParameters | None = None,
    ) -> TensorLike:
        """Cut out the boxes. Give ``output``, or its ``output_size`` (height, width) to have it made."""
        x, boxes = (
            _describe(input, caller("input"), 4),
            _describe(region_of_interest, caller("region_of_interest"), 2),
        )
        if output is None:
            shapes = [_shape(d, caller(n), r) for d, n, r in ((x, "input", 4), (boxes, "region_of_interest", 2))]
            height, width = _pair(output_size, caller("output_size"), "output")
            output = np.empty((shapes[1][0], *shapes[0][:2], height, width), np.float32)
        y = _describe(output, caller("output"), 5, written=True)
        CropResize(self._parameters, filter_parameters, caller).apply(x, boxes, y)
        return output

    @call(_NAMES)
    def apply_backward(
        self,
        caller: Caller,
        region_of_interest: TensorLike,
        output_gradient: TensorLike,
        generating_input_gradient: TensorLike | None = None,
        *,
        input_size: Sequence[int] | None = None,
        accumulate: bool = False,
        filter_parameters: BNNSFilterParameters | None = None,
    ) -> TensorLike:
        """The gradient of the images. Give memory for it, or the ``input_size`` (height, width) of the images.

        With ``accumulate`` it is added to what the given array holds; a descriptor's own flags say so for its memory.
        """
        boxes = _describe(region_of_interest, caller("region_of_interest"), 2)
        dy = _describe(output_gradient, caller("output_gradient"), 5)
        dx = generating_input_gradient
        made = dx is None
        if made:
            shape = _shape(dy, caller("output_gradient"), 5)
            dx = np.empty(
                (*shape[1:3], *_pair(input_size, caller("input_size"), "generating_input_gradient")), np.float32
            )
        d = _describe(dx, caller("generating_input_gradient"), 4, written=True)
        if d is not dx:
            d.flags = int(flag(accumulate) and not made)
        CropResize(self._parameters, filter_parameters, caller).apply_backward(d, boxes, dy)
        return dx

    def __repr__(self) -> str:
        p = self._parameters
        return (
            f"{type(self).__name__}(sampling_mode={p.sampling_mode!r}, box_coordinate_mode={p.box_coordinate_mode!r})"
        )


for _choice in (LinearSamplingMode, BoxCoordinateMode):  # where Swift has them
    setattr(CropResizeLayer, _choice.__name__, _choice)


def _describe(value: Any, who: str, rank: int, *, written: bool = False) -> BNNSNDArrayDescriptor:
    if isinstance(value, BNNSNDArrayDescriptor):
        return value
    array: NDArray[Any] = as_array(value, who)
    if array.ndim != rank or array.size == 0:
        raise Problem(f"{who} has shape {array.shape}, but an array {_AXES[rank]} is expected, none of them 0.")
    if not array.flags.c_contiguous:
        if written:
            require_contiguous(array, who)
        array = np.ascontiguousarray(array)
    return descriptor_for(array.shape, _LAYOUTS[rank], data_type(array, who), array)


def _shape(descriptor: BNNSNDArrayDescriptor, who: str, rank: int) -> tuple[int, ...]:
    from ..tensors import descriptors

    shape = descriptors.resolve(descriptor, who).shape
    if len(shape) != rank:
        raise Problem(f"{who} has {len(shape)} axes, but {rank} are expected: {_AXES[rank]}.")
    return shape


def _pair(value: Any, who: str, instead: str) -> tuple[int, int]:
    if value is None:
        raise Problem(f"{who} is None and so is {instead}. Give one of them: the size is not known otherwise.")
    try:
        height, width = (int(n.__index__()) for n in value)
    except (TypeError, ValueError, AttributeError):
        raise Problem(f"{who} must be (height, width), not {value!r}.", kind=TypeError) from None
    if height < 1 or width < 1:
        raise Problem(f"{who} is {(height, width)}. Both must be at least 1.")
    return height, width
