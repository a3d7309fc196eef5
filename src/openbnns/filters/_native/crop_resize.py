"""Native crop-resize: one run on images, boxes and their crops."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...engines import _core as core
from ...reference import crop_resize as reference
from ...reference.resize import cells_around

X, Y, DX, DY = 0, 3, 4, 5  # slots, as in core/runtime/plan.h


def run(
    settings: reference.Settings,
    images: NDArray[np.float32],
    boxes: NDArray[np.float64],
    crops: NDArray[np.float32],
    backward: bool,
    accumulate: bool,
    threads: int,
) -> None:
    """images (N, C, H, W) to crops (B, N, C, h, w), or backward from the gradient of the crops to that of the images."""
    image, size = (images.shape[2], images.shape[3]), (crops.shape[3], crops.shape[4])
    rows, columns = reference.positions(settings, boxes, image, size)
    axes: list[Any] = []
    for position, extent in ((rows, image[0]), (columns, image[1])):
        inside = (position >= 0.0) & (position <= extent - 1.0)
        low, _, fraction = cells_around(np.where(inside, position, 0.0), extent)
        axes += [low.ravel().tolist(), fraction.ravel().tolist(), inside.ravel().tolist()]
    planes = images.shape[0] * images.shape[1]
    plan = core.crop_resize([len(boxes), planes, *image, *size], settings.extrapolation_value, *axes)
    slots = (DX, DY) if backward else (X, Y)
    places = [(slots[0], images.ctypes.data, 0), (slots[1], crops.ctypes.data, 0)]
    core.run(plan, backward, 1, places, (1 << DX) if accumulate else 0, threads)
