"""Loss functions, their reductions and parameters."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np
import numpy.typing as npt


class LossKind(IntEnum):
    """The numbers of BNNSLossFunction."""

    SOFTMAX_CROSS_ENTROPY = 1
    SIGMOID_CROSS_ENTROPY = 2
    MEAN_SQUARE_ERROR = 3
    HUBER = 4
    YOLO = 5
    LOG = 6
    COSINE_DISTANCE = 7
    HINGE = 8
    MEAN_ABSOLUTE_ERROR = 9
    CATEGORICAL_CROSS_ENTROPY = 10


class Reduction(IntEnum):
    """The numbers of BNNSLossReductionFunction."""

    NONE = 0
    SUM = 1
    WEIGHTED_MEAN = 2
    MEAN = 3
    NON_ZERO_WEIGHT_MEAN = 4


@dataclass(frozen=True)
class Yolo:
    """Parameters of the Yolo loss; anchors is (anchors, 2) with the width and height of each, in grid cells.

    raw_centres uses px, py themselves as the predicted centre, instead of their sigmoids (off by default).
    """

    grid_rows: int
    grid_columns: int
    anchors: npt.NDArray[np.float64]
    classes: int
    scale_xy: float = 1.0
    scale_wh: float = 1.0
    scale_object: float = 1.0
    scale_no_object: float = 1.0
    scale_classification: float = 1.0
    object_minimum_iou: float = 0.5
    no_object_maximum_iou: float = 0.5
    rescore: bool = False
    raw_centres: bool = False


@dataclass(frozen=True)
class Loss:
    """A loss function with its reduction and parameters.

    Two options that are off by default: divide_by_classes multiplies softmax cross entropy by 1/width, and
    plain_cosine_gradient makes the gradient of cosine distance -w t.
    """

    function: int
    reduction: int
    label_smooth: float = 0.0
    huber_delta: float = 1.0
    log_epsilon: float = 1e-7
    divide_by_classes: bool = False
    plain_cosine_gradient: bool = False
    yolo: Yolo | None = None


PER_SAMPLE: Final[frozenset[int]] = frozenset(
    {LossKind.SOFTMAX_CROSS_ENTROPY, LossKind.COSINE_DISTANCE, LossKind.CATEGORICAL_CROSS_ENTROPY}
)
"""Losses with one value per sample instead of one per element."""
