"""Normalizations that are not fused with a layer before them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from ... import LearningPhase, NormalizationLayer, NormalizationType, Shape
from ...filters.base import DB, DW, DX, DY, X, Y
from ...filters.normalization import KEPT_INPUT
from ..calls import Call, Calls, PlanCall
from ..checks import positive
from ..graph import Graph
from ..operation import Operation
from ..parameter import Parameter
from ..sizes import AnySize, Size, bound, is_same, is_same_shape, product
from ..tensor import FLOAT32, Array, Tensor
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


def _flat(array: Array | None) -> Array | None:
    return None if array is None else array.reshape(-1)


class Normalization(ActivatedOperation):
    """``sample`` is the shape that the layer sees: (C, H, W), or (n,) with the axes before it counted as samples.

    gamma is PyTorch's weight, beta its bias: parameters, or values that the network computes.
    """

    repeatable = True

    def __init__(
        self, graph: Graph, x: Tensor, type: NormalizationType, sample: Sequence[AnySize], gamma: Parameter | Tensor | None,
        beta: Parameter | Tensor | None, momentum: float, epsilon: float,
    ) -> None:  # fmt: skip
        self.type, self.sample, self.gamma, self.beta = type, tuple(sample), gamma, beta
        self.momentum, self.epsilon = momentum, epsilon
        inputs = [x, *(value for value in (beta, gamma) if isinstance(value, Tensor))]
        if not all(given is None or isinstance(given, (Parameter, Tensor)) for given in (gamma, beta)):
            raise TypeError(f"a normalization has weights {gamma!r:.40} and {beta!r:.40}")
        super().__init__(inputs, Tensor(graph, x.shape), [p for p in (beta, gamma) if isinstance(p, Parameter)])

    def check(self) -> None:
        x, kind, sample = self.inputs[0], self.type, self.sample
        of_layer = kind.case == "layer"
        ends = range(1, x.ndim) if of_layer else (x.ndim - 1,)  # how many of the last axes a sample has
        statistics = [kind.moving_mean, kind.moving_variance] if kind.case in ("batch", "instance") else []
        given = [one for one in (self.gamma, self.beta, *statistics) if one is not None]
        fits = (
            len(sample) in ((1,) if of_layer else (1, 3))
            and not (of_layer and kind.normalization_axis != 0)
            and all(isinstance(n, (int, Size)) for n in sample)
            and any(is_same(product(sample), product(x.shape[x.ndim - count :])) for count in ends)
            and all(is_same(product(getattr(one, "shape", ())), sample[0]) for one in given)
            and len({one is None for one in statistics}) < 2
            and all(v.dtype == FLOAT32 for v in self.inputs)
            and isinstance(self.momentum, (int, float)) and isinstance(self.epsilon, (int, float)) and self.epsilon >= 0
        )  # fmt: skip
        if not fits or (kind.case == "group" and int(sample[0]) % positive(kind.group_count, "normalization: groups")):
            raise ValueError(
                f"normalization ({kind.case}): {x.shape}, samples {sample} and {given!r:.100} do not fit together"
            )

    @property
    def takes_whole_samples(self) -> bool:
        """True if a sample of the layer consists of all axes but the first."""
        whole = self.output.shape[1:]
        return is_same_shape(self.sample, image_shape(whole) if len(whole) == 2 else whole)

    @property
    def computed(self) -> bool:
        """True if the network computes its weight or bias."""
        return len(self.inputs) > 1

    def _bound_layer(self, x: list[Array]) -> tuple[NormalizationLayer, KeepingPlan, Sizes]:
        """The layer for the sizes of the program being made, its plan, and the shape of a sample."""
        sample, values = bound(self.sample, self.bound_sizes), iter(x[1:])
        own = [
            None if given is None else given.array if isinstance(given, Parameter) else next(values)
            for given in (self.beta, self.gamma)
        ]
        key = (sample, *(array.ctypes.data for array in x[1:]))  # the forward and the backward pass have one
        return (*self.made(key, lambda: self._make(sample, *map(_flat, own))), sample)

    def _make(self, sample: Sizes, beta: Array | None, gamma: Array | None) -> tuple[NormalizationLayer, KeepingPlan]:
        shape = Shape.vector(*sample) if len(sample) == 1 else Shape.image_chw(*sample[::-1])
        layer = NormalizationLayer(
            type=self.type,
            input=shape,
            output=shape,
            beta=beta,
            gamma=gamma,
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
        layer, plan, sample = self._bound_layer(x)
        given, result = x[0].reshape(-1, *sample), y.reshape(-1, *sample)
        by_layer = PlanCall(layer.apply, given, result, phase=phase(training))
        if not training:
            return by_layer
        return plan.forward({X: given, Y: result, KEPT_INPUT: given}, lambda: by_layer, training)

    def repeat(self, x: list[Array], y: Array) -> Calls:
        _, plan, sample = self._bound_layer(x)
        return plan.repeat({Y: y.reshape(-1, *sample), KEPT_INPUT: x[0].reshape(-1, *sample)})

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Calls:
        layer, plan, sample = self._bound_layer(x)
        given, arriving = iter([*dx[1:], *dp]), dy.reshape(-1, *sample)
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
