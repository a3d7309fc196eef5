"""Losses under their BNNS names and with BNNS's meaning; the formulas are on the docs page of losses."""

from __future__ import annotations

from typing import Literal

import numpy as np

from ... import LossFunction, LossReduction, YoloParameters
from ...graph.tensor import Array
from ._base import BNNSReduction, NativeLoss, rows_of


class BNNSLoss(NativeLoss):
    """The base of losses with BNNS's reductions. A "mean" divides by the number of losses, whatever the sample weights."""

    _reductions: tuple[str, ...] = ("none", "sum", "mean", "weighted_mean", "non_zero_weight_mean")
    _mean_counts_all = True


class MeanSquareErrorLoss(BNNSLoss):
    """BNNS's MeanSquareError: (y - t)².

    >>> import numpy as np
    >>> from openbnns import nn
    >>> y, t = np.float32([[1], [5]]), np.float32([[0], [7]])
    >>> nn.MeanSquareErrorLoss()(y, t, sample_weights=[1, 0.5])[0]  # divided by 2
    1.5
    >>> nn.MeanSquareErrorLoss(reduction="weighted_mean")(y, t, sample_weights=[1, 0.5])[0]  # divided by 1.5
    2.0
    """

    def __init__(self, *, reduction: BNNSReduction = "mean") -> None:
        super().__init__(reduction)

    def function(self) -> LossFunction:
        return LossFunction.mean_square_error()


class MeanAbsoluteErrorLoss(BNNSLoss):
    """BNNS's MeanAbsoluteError: |y - t|, with gradient 1 at y = t, where PyTorch's :class:`L1Loss` has 0.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> value, gradient = nn.MeanAbsoluteErrorLoss(reduction="sum")(np.float32([[1, 2]]), np.float32([[1, 5]]))
    >>> value, gradient.tolist()
    (3.0, [[1.0, -1.0]])
    """

    def __init__(self, *, reduction: BNNSReduction = "mean") -> None:
        super().__init__(reduction)

    def function(self) -> LossFunction:
        return LossFunction.mean_absolute_error()


class SigmoidCrossEntropyLoss(BNNSLoss):
    """BNNS's SigmoidCrossEntropy: -t log q - (1 - t) log(1 - q), q = sigmoid(y); smoothing moves t towards 1/2.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.SigmoidCrossEntropyLoss(label_smoothing=0.5)(np.float32([[0]]), np.float32([[1]]))[1].tolist()
    [[-0.25]]
    """

    def __init__(self, *, label_smoothing: float = 0.0, reduction: BNNSReduction = "mean") -> None:
        if not 0.0 <= label_smoothing < 1.0:
            raise ValueError(
                f"SigmoidCrossEntropyLoss: label_smoothing is {label_smoothing}. It must be at least 0 and below 1."
            )
        self.label_smoothing = float(label_smoothing)
        super().__init__(reduction, **({"label_smoothing": self.label_smoothing} if label_smoothing else {}))

    def function(self) -> LossFunction:
        return LossFunction.sigmoid_cross_entropy(label_smoothing=self.label_smoothing)


class LogLoss(BNNSLoss):
    """BNNS's Log: -t log(y + ε) - (1 - t) log(1 - y + ε) of probabilities y, ε = 1e-7.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> value, gradient = nn.LogLoss()(np.float32([[0.5], [0.75]]), np.float32([[1], [1]]))
    >>> round(value, 4), gradient.round(4).tolist()
    (0.4904, [[-1.0], [-0.666700005531311]])
    """

    def __init__(self, *, reduction: BNNSReduction = "mean") -> None:
        super().__init__(reduction)

    def function(self) -> LossFunction:
        return LossFunction.log()


class HingeLoss(BNNSLoss):
    """BNNS's Hinge: max(0, 1 - (2 t - 1) y) for labels t of 0 or 1.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> value, gradient = nn.HingeLoss()(np.float32([[0.5], [3]]), np.float32([[1], [0]]))
    >>> value, gradient.tolist()
    (2.25, [[-0.5], [0.5]])
    """

    def __init__(self, *, reduction: BNNSReduction = "mean") -> None:
        super().__init__(reduction)

    def function(self) -> LossFunction:
        return LossFunction.hinge()


class CosineDistanceLoss(BNNSLoss):
    """BNNS's CosineDistance: 1 - Σ t_i y_i of unit vectors on the last axis; the gradient is the part along the sphere.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> value, gradient = nn.CosineDistanceLoss()(np.float32([[0.6, 0.8]]), np.float32([[1, 0]]))
    >>> round(value, 4), gradient.round(4).tolist()
    (0.4, [[-0.6399999856948853, 0.47999998927116394]])
    """

    def __init__(self, *, reduction: BNNSReduction = "mean") -> None:
        super().__init__(reduction)

    def class_axis(self, rank: int) -> int | None:
        if rank < 2:
            raise ValueError("CosineDistanceLoss: the output has one axis, but needs a batch axis and one of features.")
        return rank - 1

    def function(self) -> LossFunction:
        return LossFunction.cosine_distance()


class YoloLoss(BNNSLoss):
    """BNNS's Yolo: the detection loss over a grid of cells with anchor boxes, summed.

    ``parameters`` are the grid, the anchors and the scales of the parts. Output and targets have
    rows x columns x anchors x (5 + classes) numbers per sample. "mean" divides the sum by the number of samples, "none"
    gives a loss for each.

    >>> import numpy as np
    >>> import openbnns as bn
    >>> from openbnns import nn
    >>> grid = bn.YoloParameters(
    ...     grid_column_count=1, grid_rows_count=1, anchor_box_count=1, anchor_box_size=6, anchors_data=np.float32([[1, 1]])
    ... )
    >>> there = np.float32([[0.5, 0.5, 1, 1, 1, 1]])  # a box in the middle of the cell, as large as the anchor
    >>> value, gradient = nn.YoloLoss(grid)(np.zeros((1, 6), np.float32), there)
    >>> round(value, 4), gradient.tolist()  # all but the confidence is right
    (0.6931, [[0.0, 0.0, 0.0, 0.0, -0.5, 0.0]])
    """

    _reductions = ("none", "sum", "mean")
    is_reduced_by = LossReduction.SUM

    def __init__(self, parameters: YoloParameters, *, reduction: Literal["none", "sum", "mean"] = "sum") -> None:
        if not isinstance(parameters, YoloParameters):
            raise TypeError(
                f"YoloLoss: parameters must be an openbnns.YoloParameters, not {type(parameters).__name__}."
            )
        self.parameters = parameters
        anchors = np.asarray(parameters.anchors_data, np.float32)
        shown = {name: value for name, value in vars(parameters).items() if name != "anchors_data"}
        super().__init__(reduction, **shown, anchors_data=anchors)

    def function(self) -> LossFunction:
        return LossFunction.yolo(self.parameters)

    def check(self, output_shape: tuple[int, ...], targets: Array) -> None:
        p = self.parameters
        sizes = (p.grid_rows_count, p.grid_column_count, p.anchor_box_count, p.anchor_box_size)
        needed = int(np.prod(sizes))
        if rows_of(output_shape) != needed:
            raise ValueError(
                f"YoloLoss: the network gives {output_shape}, {rows_of(output_shape)} numbers per sample, but the grid has "
                f"{' x '.join(map(str, sizes))} = {needed}."
            )
        super().check(output_shape, targets)

    @classmethod
    def _default_reduction(cls) -> str:
        return "sum"
