"""Losses on a LossLayer: a native call gives the reduced loss and the gradient."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import LossFunction, LossLayer, LossReduction, Shape, compat
from ...graph.calls import PlanCall
from ...graph.tensor import Array
from ._base import BoundLoss, Loss, rows_of

_NONE, _SUM, _MEAN = LossReduction.NONE, LossReduction.SUM, LossReduction.REDUCTION_MEAN


class NativeBound(BoundLoss):
    """Rows (samples, or positions with scores of classes) and their labels, in the shape of a LossLayer."""

    _reduces = True
    loss: NativeLoss

    def __init__(self, loss: NativeLoss, output: Array, gradient: Array | None) -> None:
        axis = loss.class_axis(output.ndim)
        shape = output.shape if axis is None else (*output.shape[:axis], *output.shape[axis + 1 :])
        super().__init__(loss, gradient, shape if loss.is_reduced_by is None else output.shape[:1])
        self.output, self._target = output, gradient
        self._axis = None if axis in (None, output.ndim - 1) else axis  # classes that have to be moved to the end
        width = rows_of(output.shape) if axis is None else output.shape[axis]
        if self._axis is None:
            self._rows = output.reshape(-1, width)
            self._gradient: Any = None if gradient is None else gradient.reshape(-1, width)
        else:
            self._rows = np.empty((output.size // width, width), np.float32)
            self._gradient = None if gradient is None else np.empty_like(self._rows)
        self.labels = np.zeros_like(self._rows)
        self._value, self._factor = np.empty(1, np.float32), np.empty(1, np.float32)
        self._one_per_row = axis is not None
        if loss.is_reduced_by is None:
            natural = loss.layer(width, _SUM if loss.reduction == "sum" else _MEAN)
            self._natural = 1.0 if loss.reduction == "sum" else 1.0 / max(self.count, 1)
        else:
            natural, self._natural = loss.layer(width, loss.is_reduced_by), 1.0
        self._apply = natural.apply
        if self._gradient is None:
            from ...layers import skip

            self._gradient = skip

    def take(self, targets: Array) -> None:
        if self._axis is not None and targets.ndim == self.output.ndim:
            targets = np.moveaxis(targets, self._axis, -1)
        self.loss.fill(self, targets)

    def plain_call(self) -> PlanCall | None:
        if self._axis is not None or self.loss.reduction == "none":
            return None
        return PlanCall(self._apply, self._rows, self.labels, self._value, None, self._gradient)

    def is_plain(self) -> bool:
        self.total_weight = total = self._total(None)
        return self._weights is None and total != 0.0 and self.loss._scale / total == self._natural

    def for_batches(self, count: int) -> Any:
        """A loss like this one to take the targets of several batches at once: ``labels`` are theirs, one after the other."""
        batch, *sample = self.output.shape
        return self.loss.bind(np.empty((count * batch, *sample), np.float32), None)

    @property
    def counts_alike(self) -> bool:
        """True if all targets that were taken last have the same weight."""
        return self._weights is None and self._counted is None

    @property
    def value_array(self) -> Array:
        """The array that the plain call writes the loss to."""
        return self._value

    def _reduce(self, factor: float) -> float:
        if self._axis is not None:
            self._move_in()
        if factor == self._natural:
            self._apply(self._rows, self.labels, self._value, None, self._gradient)
        else:
            self._factor[0] = factor
            layer = self.loss.layer(self._rows.shape[1], _SUM)
            layer.apply(self._rows, self.labels, self._value, self._factor, self._gradient, broadcasts_weights=True)
        if self._axis is not None:
            self._move_out()
        return float(self._value[0])

    def _compute(self, losses: Array) -> None:
        if self._axis is not None:
            self._move_in()
        reduction = self.loss.is_reduced_by
        width = self._rows.shape[1]
        if reduction is None:
            out = losses.reshape(-1, 1 if self._one_per_row else width)
            self.loss.layer(width, _NONE).apply(self._rows, self.labels, out, None, self._gradient)
            return
        for i in range(len(self._rows)):  # a loss that is always reduced, sample by sample
            row = slice(i, i + 1)
            gradient = self._gradient[row] if self._has_gradient else self._gradient
            self._apply(self._rows[row], self.labels[row], losses[row], None, gradient)

    def _scale_gradient(self, factor: Any) -> None:
        per_row = self._one_per_row or self.loss.is_reduced_by is not None
        if isinstance(factor, float):
            if factor != 1.0:
                self._gradient *= factor
        else:
            self._gradient *= factor.reshape(-1, 1) if per_row else factor.reshape(self._gradient.shape)
        if self._axis is not None:
            self._move_out()

    def _move_in(self) -> None:
        moved = np.moveaxis(self.output, self._axis or 0, -1)
        self._rows.reshape(moved.shape)[...] = moved

    def _move_out(self) -> None:
        if self._target is not None:
            moved = np.moveaxis(self._target, self._axis or 0, -1)
            moved[...] = self._gradient.reshape(moved.shape)


class NativeLoss(Loss):
    """A loss that BNNS has, or that differs from one by a factor."""

    is_reduced_by: LossReduction | None = None  # the one reduction that BNNS has for it, if there is no choice

    def function(self) -> LossFunction:
        """The loss of BNNS."""
        raise NotImplementedError

    def fill(self, bound: NativeBound, targets: Array) -> None:
        """Write targets into the labels of a bound loss (rows, width)."""
        np.copyto(bound.labels, targets.reshape(bound.labels.shape), casting="unsafe")

    def bind(self, output: Array, gradient: Array | None) -> BoundLoss:
        return NativeBound(self, output, gradient)

    def layer(self, width: int, reduction: LossReduction) -> LossLayer:
        """The layer of this size, made once and shared by all bound losses."""
        switches = compat.switches
        key = (
            width, reduction, switches.softmax_loss_class_factor, switches.cosine_gradient_plain,
            switches.yolo_raw_coordinates,
        )  # fmt: skip
        layer: LossLayer | None = self._layers.get(key)
        if layer is None:
            layer = LossLayer(input=Shape.vector(width), loss_function=self.function(), loss_reduction=reduction)
            self._layers[key] = layer
        return layer
