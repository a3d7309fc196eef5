"""Crop-resize: boxes cut out of images and sampled bilinearly to one size, in one call.

Shapes in C order: images x (N, C, H, W), boxes (B, 4), y (B, N, C, h, w): every box is cut out of every image.
reference/crop_resize.py defines how boxes are read and where they are sampled. Backward spreads dy over the pixels with
the weights of the forward pass; nothing flows back from positions outside the image, nor to the boxes.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import compat, engines
from .._words import Caller
from ..abi.structs import BNNSFilterParameters, BNNSLayerParametersCropResize, BNNSNDArrayDescriptor
from ..errors import Problem
from ..parameters.crop_resize import Box, Sampling, Settings
from ..reference import crop_resize as reference
from ..reference.resize import cells_around
from ..tensors import descriptors
from ..tensors.descriptors import View, describe
from ..tensors.operands import Bound, OwnedMemory, bind, resolve_delta
from ._activation_rules import as_float32
from ._rules import chosen
from .base import DX, DY, X, Y

_LAYOUTS = {
    4: ("4DLastMajor", "4DFirstMajor"),
    5: ("5DLastMajor", "5DFirstMajor"),
    2: ("2DLastMajor", "2DFirstMajor", "RowMajorMatrix", "ColumnMajorMatrix"),
}
_MEANING = {4: "(width, height, channels, images)", 5: "(width, height, channels, images, boxes)", 2: "(4, boxes)"}


class CropResize:
    """A checked description of the boxes and their sampling."""

    def __init__(
        self, p: BNNSLayerParametersCropResize, filter_params: BNNSFilterParameters | None, caller: Caller
    ) -> None:
        f = filter_params if filter_params is not None else BNNSFilterParameters()
        OwnedMemory(f.alloc_memory, f.free_memory, caller).release()  # checks that both functions are given, or neither
        self.threads, self.caller = min(int(f.n_threads), 256), caller
        sampling = chosen(p.sampling_mode, Sampling, "BNNSLinearSamplingMode", caller, "sampling_mode")
        box = chosen(p.box_coordinate_mode, Box, "BNNSBoxCoordinateMode", caller, "box_coordinate_mode")
        scale, outside = as_float32(p.spatial_scale), as_float32(p.extrapolation_value)
        if not math.isfinite(scale):
            raise Problem(
                f"{caller('spatial_scale')} is {scale:g}. It multiplies the boxes: use a finite number, 1 for no scaling."
            )
        self.settings = Settings(
            sampling, box, bool(p.normalized_coordinates), scale, outside, compat.switches.crop_resize_plain_extent
        )

    def apply(self, input: Any, roi: Any, output: Any) -> None:
        """y from x and the boxes; all three are descriptors with data."""
        x = self._bind("input", input, 4)
        boxes = self._boxes(roi)
        y = self._bind("output", output, 5, output=True)
        self._check(x.view, y.view, len(boxes), "input", "output")
        if not engines.is_native():
            crops = reference.forward(self.settings, x.read(np.float64)[0], boxes, (y.shape[3], y.shape[4]))
            y.write(crops[None])
            return
        numbers = x.read(np.float32)[0]
        target = None if y.overlaps(x) or y.touches(self._place(roi)) else y.direct()
        result = np.empty((1, *y.shape), np.float32) if target is None else target
        self._run(numbers, boxes, result[0], backward=False)
        if target is None:
            y.write(result)

    def apply_backward(self, in_delta: Any, roi: Any, out_delta: Any) -> None:
        """dx from dy and the boxes, written as the flags of ``in_delta`` say."""
        dx = self._bind("in_delta", in_delta, 4, output=True, delta=True)
        boxes = self._boxes(roi)
        dy = self._bind("out_delta", out_delta, 5, delta=True)
        self._check(dx.view, dy.view, len(boxes), "in_delta", "out_delta")
        if not engines.is_native():
            images, channels, height, width = dx.shape
            gradient = reference.backward(
                self.settings, dy.read(np.float64)[0], boxes, (images, channels, height, width)
            )
            dx.write(gradient[None])
            return
        output_gradient = dy.read(np.float32)[0]
        target = None if dx.overlaps(dy) or dx.touches(self._place(roi)) else dx.direct()
        result = np.empty((1, *dx.shape), np.float32) if target is None else target
        self._run(result[0], boxes, output_gradient, backward=True, accumulate=dx.accumulate and target is not None)
        if target is None:
            dx.write(result)

    def _run(
        self,
        images: NDArray[Any],
        boxes: NDArray[Any],
        crops: NDArray[Any],
        *,
        backward: bool,
        accumulate: bool = False,
    ) -> None:
        """images (N, C, H, W) to crops (B, N, C, h, w), or the gradient of the crops to that of the images."""
        image, size = (images.shape[2], images.shape[3]), (crops.shape[3], crops.shape[4])
        rows, columns = reference.positions(self.settings, boxes, image, size)
        (top, down, row_inside), (left, across, column_inside) = _cells(rows, image[0]), _cells(columns, image[1])
        plan = engines._core.crop_resize(
            boxes=len(boxes), planes=images.shape[0] * images.shape[1], height=image[0], width=image[1], rows=size[0],
            columns=size[1], extrapolation=self.settings.extrapolation_value, top=top, down=down, row_inside=row_inside,
            left=left, across=across, column_inside=column_inside,
        )  # fmt: skip
        slots = (DX, DY) if backward else (X, Y)
        places = [(slots[0], images.ctypes.data, 0), (slots[1], crops.ctypes.data, 0)]
        engines._core.run(plan, backward, 1, places, (1 << DX) if accumulate else 0, self.threads)

    # Arguments.

    def _bind(self, name: str, descriptor: Any, rank: int, *, output: bool = False, delta: bool = False) -> Bound:
        who = self.caller(name)
        if descriptor is None:
            raise Problem(f"{who} is {self.caller.null}, but this call needs it. Pass a descriptor with data.")
        if not isinstance(descriptor, BNNSNDArrayDescriptor):
            raise TypeError(f"{who} must be a BNNSNDArrayDescriptor or None, not {type(descriptor).__name__}.")
        view = descriptors.resolve(descriptor, who)
        if view.layout.name not in _LAYOUTS[rank]:
            raise Problem(
                f"{who} is {describe(view)}. Use BNNSDataLayout{_LAYOUTS[rank][0]} with size {_MEANING[rank]}."
            )
        if delta:
            resolve_delta(descriptor, who, view, output=output)
        flags = int(descriptor.flags) if delta and output else 0
        return bind(
            view, view.memory_axes, view.shape, who.field("data"), descriptor.data, 1, 0, output=output, flags=flags
        )

    def _boxes(self, roi: Any) -> NDArray[np.float64]:
        bound = self._bind("roi", roi, 2)
        if bound.shape[1] != 4:
            raise Problem(
                f"{self.caller('roi')} is {describe(bound.view)}. A box is four numbers: use size {_MEANING[2]} in "
                "BNNSDataLayout2DLastMajor."
            )
        boxes: NDArray[np.float64] = bound.read(np.float64)[0]
        if not np.isfinite(boxes).all():
            raise Problem(f"{self.caller('roi')} holds a box with NaN or infinity. Boxes are finite numbers.")
        return boxes

    def _place(self, roi: BNNSNDArrayDescriptor) -> tuple[int, int]:
        bound = self._bind("roi", roi, 2)
        return bound.buffer.address, bound.nbytes

    def _check(self, x: View, y: View, boxes: int, input: str, output: str) -> None:
        if y.shape[:3] != (boxes, *x.shape[:2]):
            expected = f"channels {x.shape[1]}, images {x.shape[0]} and boxes {boxes}"
            raise Problem(
                f"{self.caller(output)} is {describe(y)}, but {self.caller.name(input)} is {describe(x)} and there are "
                f"{boxes} boxes. Its last three sizes must be {expected}."
            )


def _cells(position: NDArray[Any], extent: int) -> tuple[bytes, bytes, bytes]:
    """For positions along an axis: the cell below each, the weight of the cell above, and whether it is in the image."""
    inside = (position >= 0.0) & (position <= extent - 1.0)
    low, _, fraction = cells_around(np.where(inside, position, 0.0), extent)
    return low.astype(np.int64).tobytes(), fraction.astype(np.float32).tobytes(), inside.tobytes()
