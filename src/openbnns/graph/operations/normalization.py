"""Normalizations that are not fused with a layer before them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from ... import LearningPhase, NormalizationLayer, NormalizationType, Shape
from ...filters.base import DB, DW, DX, DY, X, Y
from ...filters.normalization import KEPT_INPUT
from ..calls import Call, Calls, PlanCall
from ..graph import Graph
from ..operation import Operation
from ..parameter import Parameter
from ..sizes import AnySize, bound, is_same_shape
from ..tensor import Array, Tensor
from .activation import ActivatedOperation
from .base import IN_PLACE, Sizes, wanted
from .keeping_plan import CHEAP, KeepingPlan
from .window import image_shape


def phase(training: bool) -> LearningPhase:
    return LearningPhase.TRAINING if training else LearningPhase.INFERENCE


_CURES = {
    "batch": "Use batches of at least two samples, or eval() for inference.",
    "instance": "Use images of more than one pixel.",
    "group": "Use fewer groups, larger images or more samples.",
}


def _flat(gradient: Array | None) -> Array | None:
    return None if gradient is None else gradient.reshape(-1)


class Normalization(ActivatedOperation):
    """``sample`` is the shape that the layer sees: (C, H, W), or (n,) with the axes before it counted as samples.

    gamma is PyTorch's weight, beta its bias.
    """

    repeatable = True

    def __init__(
        self, graph: Graph, x: Tensor, type: NormalizationType, sample: Sequence[AnySize], gamma: Parameter | None,
        beta: Parameter | None, momentum: float, epsilon: float,
    ) -> None:  # fmt: skip
        self.type, self.sample, self.gamma, self.beta = type, tuple(sample), gamma, beta
        self.momentum, self.epsilon = momentum, epsilon
        super().__init__([x], Tensor(graph, x.shape), [p for p in (beta, gamma) if p is not None])

    @property
    def takes_whole_samples(self) -> bool:
        """True if a sample of the layer consists of all axes but the first."""
        whole = self.output.shape[1:]
        return is_same_shape(self.sample, image_shape(whole) if len(whole) == 2 else whole)

    def _bound_layer(self) -> tuple[NormalizationLayer, KeepingPlan, Sizes]:
        """The layer for the sizes of the program being made, its plan, and the shape of a sample."""
        sample = bound(self.sample, self.bound_sizes)
        return (*self.made(sample, lambda: self._make(sample)), sample)

    def _make(self, sample: Sizes) -> tuple[NormalizationLayer, KeepingPlan]:
        shape = Shape.vector(*sample) if len(sample) == 1 else Shape.image_chw(*sample[::-1])
        layer = NormalizationLayer(
            type=self.type,
            input=shape,
            output=shape,
            beta=None if self.beta is None else self.beta.array.reshape(-1),
            gamma=None if self.gamma is None else self.gamma.array.reshape(-1),
            momentum=self.momentum,
            epsilon=self.epsilon,
            activation=self.activation,
            filter_parameters=IN_PLACE,
        )
        own = [*(p.array for p in self.parameters), self.type.moving_mean, self.type.moving_variance]
        return layer, KeepingPlan(f"Normalization ({self.type.case})", layer, own, KEPT_INPUT)

    def fuse(self, following: Operation) -> bool:
        fused = super().fuse(following)
        self.repeatable = self.activation.case in CHEAP
        self.keeps_output = not self.repeatable
        return fused

    def require_spread(self, batch: int, training: bool) -> None:
        """Refuse, as PyTorch does, to normalize one value by its own mean: the result would not depend on the input."""
        sample = bound(self.sample, self.bound_sizes)
        kind, pixels = self.type.case, math.prod(sample[1:])
        if kind == "layer" or (not training and self.type.moving_mean is not None):
            return
        groups = self.type.group_count if kind == "group" else sample[0]
        values = pixels if kind == "instance" else batch * pixels * sample[0] // groups
        if values == 1:
            shape = (batch, *bound(self.output.shape[1:], self.bound_sizes))
            where = ("group" if kind == "group" else "channel") + (" in training" if training else "")
            raise ValueError(
                f"{type(self.modules[0]).__name__}: there is one value per {where}, as the input is of shape {shape}. Its "
                f"variance is 0, so the result would be the bias whatever the input is. {_CURES[kind]}"
            )

    def forward(self, x: list[Array], y: Array, training: bool) -> Calls:
        self.require_spread(len(x[0]), training)
        layer, plan, sample = self._bound_layer()
        given, result = x[0].reshape(-1, *sample), y.reshape(-1, *sample)
        by_layer = PlanCall(layer.apply, given, result, phase=phase(training))
        if not training:
            return by_layer
        return plan.forward({X: given, Y: result, KEPT_INPUT: given}, lambda: by_layer, training)

    def repeat(self, x: list[Array], y: Array) -> Calls:
        _, plan, sample = self._bound_layer()
        return plan.repeat({Y: y.reshape(-1, *sample), KEPT_INPUT: x[0].reshape(-1, *sample)})

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Calls:
        layer, plan, sample = self._bound_layer()
        given, arriving = iter(dp), dy.reshape(-1, *sample)
        beta, gamma = (None if p is None else _flat(next(given)) for p in (self.beta, self.gamma))
        target = None if dx[0] is None else dx[0].reshape(-1, *sample)
        tensors = {
            Y: y.reshape(-1, *sample) if self.keeps_output else None,
            DY: arriving,
            DX: target,
            DB: beta,
            DW: gamma,
            KEPT_INPUT: x[0].reshape(-1, *sample),
        }
        by_layer = partial(_backward_by_layer, layer, arriving, target, beta, gamma)
        return plan.backward(tensors, (DB, DW), by_layer)


def _backward_by_layer(
    layer: NormalizationLayer, dy: Array, dx: Array | None, beta: Array | None, gamma: Array | None, y: Array
) -> Call:
    return PlanCall(
        layer.apply_backward,
        output=y,
        output_gradient=dy,
        generating_input_gradient=wanted(dx),
        generating_beta_gradient=wanted(beta),
        generating_gamma_gradient=wanted(gamma),
    )
