"""Losses of BNNS with BNNS's meaning; the formulas are on the docs page of losses."""

from __future__ import annotations

import numpy as np

from ... import LossFunction, LossReduction
from ...graph.tensor import Array
from ._base import BNNSReduction, NativeLoss, rows_of

_OF_CLASSES = {
    "softmax_cross_entropy": "SoftmaxCrossEntropyLoss",
    "categorical_cross_entropy": "CategoricalCrossEntropyLoss",
}


class BNNSLoss(NativeLoss):
    """A loss function of BNNS, with BNNS's reductions.

    "mean" divides by the number of losses whatever the sample weights, "weighted_mean" by their sum, and
    "non_zero_weight_mean" by the number of those that are not 0. Losses of ``LossFunction.cosine_distance()`` are of vectors
    on the last axis. Those of ``LossFunction.yolo(parameters)`` are of samples with rows x columns x anchors x (5 + classes)
    numbers each. Softmax has losses of its own, which take class numbers as well:
    :class:`SoftmaxCrossEntropyLoss` and :class:`CategoricalCrossEntropyLoss`.

    >>> import numpy as np
    >>> import openbnns
    >>> from openbnns import nn
    >>> loss = nn.BNNSLoss(openbnns.LossFunction.hinge())
    >>> value, gradient = loss(np.float32([[0.5], [3]]), np.float32([[1], [0]]))
    >>> value, gradient.tolist()
    (2.25, [[-0.5], [0.5]])
    >>> y, t = np.float32([[1], [5]]), np.float32([[0], [7]])
    >>> squares = openbnns.LossFunction.mean_square_error()
    >>> nn.BNNSLoss(squares)(y, t, sample_weights=[1, 0.5])[0]  # divided by 2
    1.5
    >>> nn.BNNSLoss(squares, reduction="weighted_mean")(y, t, sample_weights=[1, 0.5])[0]  # divided by 1.5
    2.0
    """

    _reductions: tuple[str, ...] = ("none", "sum", "mean", "weighted_mean", "non_zero_weight_mean")
    _mean_counts_all = True

    def __init__(self, function: LossFunction, *, reduction: BNNSReduction = "mean") -> None:
        if not isinstance(function, LossFunction):
            raise TypeError(
                f"BNNSLoss: takes an openbnns.LossFunction, such as LossFunction.hinge(), not {function!r:.100}."
            )
        if function.case in _OF_CLASSES:
            raise ValueError(f"BNNSLoss: {function!r} needs classes. Use nn.{_OF_CLASSES[function.case]}.")
        if not 0.0 <= function.label_smoothing < 1.0:
            raise ValueError(
                f"BNNSLoss: label_smoothing is {function.label_smoothing}. It must be at least 0 and below 1."
            )
        self.loss_function = function
        if function.case == "yolo":  # which BNNS sums over each sample
            self.is_reduced_by, self._reductions = LossReduction.SUM, ("none", "sum", "mean")
        super().__init__(reduction, function=function)

    def class_axis(self, rank: int) -> int | None:
        if self.loss_function.case != "cosine_distance":
            return None
        if rank < 2:
            raise ValueError("BNNSLoss: the output has one axis, but cosine_distance needs one of features as well.")
        return rank - 1

    def function(self) -> LossFunction:
        return self.loss_function

    def check(self, output_shape: tuple[int, ...], targets: Array) -> None:
        p = self.loss_function.parameters
        if p is not None:
            sizes = (p.grid_rows_count, p.grid_column_count, p.anchor_box_count, p.anchor_box_size)
            if rows_of(output_shape) != int(np.prod(sizes)):
                raise ValueError(
                    f"BNNSLoss: the network gives {output_shape}, {rows_of(output_shape)} numbers per sample, but the grid "
                    f"has {' x '.join(map(str, sizes))} = {np.prod(sizes)}."
                )
        super().check(output_shape, targets)
