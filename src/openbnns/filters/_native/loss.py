"""Native plan of a loss."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...engines import _core as core
from ...reference.loss import Loss

if TYPE_CHECKING:
    from ... import _core


def plan(loss: Loss, width: int) -> _core.Plan:
    """x, labels and dx are (N, width); see LossSlot in core/kernels/kernels.h."""
    numbers = [loss.label_smooth, loss.huber_delta, loss.log_epsilon]
    readings = [loss.divide_by_classes, loss.plain_cosine_gradient]
    p = loss.yolo
    if p is None:
        return core.loss(int(loss.function), int(loss.reduction), width, numbers, readings, [], [], [])
    sizes = [p.grid_rows * p.grid_columns, len(p.anchors), 5 + p.classes]
    scales = [
        p.scale_xy, p.scale_wh, p.scale_object, p.scale_no_object, p.scale_classification, p.object_minimum_iou,
        p.no_object_maximum_iou,
    ]  # fmt: skip
    return core.loss(
        int(loss.function), int(loss.reduction), width, numbers, readings, sizes, scales, [p.rescore, p.raw_centres]
    )
