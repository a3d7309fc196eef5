"""Native steps of the optimizers; see core/kernels/optimizer/shape.h."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .. import engines
from ..parameters.optimizer import (
    Adagrad,
    Adam,
    Adamax,
    ClippingFunction,
    Optimizer,
    Preparation,
    Regularization,
    RMSProp,
    SGDMomentum,
)
from ..tensors.descriptors import LAYOUTS

if TYPE_CHECKING:
    from .. import _core

# OptimizerKind and MomentumForm.
_DESCENT, _MOMENTUM, _ADAM, _RMSPROP, _ADAMAX = range(5)
_VELOCITY, _LOOK_AHEAD, _DIFFERENCE = range(3)

_SIMPLE_LAYOUTS = [code for code, layout in LAYOUTS.items() if not (layout.blocked32 or layout.opaque)]


def native_step(optimizer: Optimizer) -> _core.OptimizerStep:
    """The step of an optimizer; what changes from step to step comes from `step_size`."""
    kind, form, numbers, states = _numbers(optimizer)
    p = optimizer.preparation
    prepared = _prepared(p, penalize=not (isinstance(optimizer, Adam) and optimizer.decoupled_decay))
    return engines._core.OptimizerStep(
        kind, form, int(p.clipping.function), [*prepared, *numbers], states, _SIMPLE_LAYOUTS
    )


def step_size(optimizer: Optimizer, time_step: float) -> tuple[float, float]:
    """(factor of m / (root + epsilon), epsilon) of this step."""
    if isinstance(optimizer, Adam):
        first, second = 1.0 - optimizer.beta1**time_step, math.sqrt(1.0 - optimizer.beta2**time_step)
        epsilon = optimizer.epsilon * (second if optimizer.corrected_epsilon else 1.0)
        return optimizer.learning_rate * second / first, epsilon
    if isinstance(optimizer, Adamax):
        return optimizer.learning_rate / (1.0 - optimizer.beta1**time_step), optimizer.epsilon
    return 0.0, 0.0 if isinstance(optimizer, SGDMomentum) else optimizer.epsilon


def _prepared(p: Preparation, *, penalize: bool) -> list[float]:
    """before, after, low, high, l1, l2, max_norm, use_norm, norm_scale."""
    clip, scale = p.clipping, p.gradient_scale
    scales_first = p.scale_before_clip and clip.function == ClippingFunction.BY_VALUE
    before, after = (scale, 1.0) if scales_first else (1.0, scale)
    regularization = p.regularization if penalize else Regularization.NONE
    l1 = p.regularization_scale if regularization == Regularization.L1 else 0.0
    l2 = p.regularization_scale if regularization == Regularization.L2 else 0.0
    norm_scale = abs(scale) if p.scale_before_clip else 1.0
    return [before, after, clip.minimum, clip.maximum, l1, l2, clip.max_norm, clip.use_norm, norm_scale]


def _numbers(o: Optimizer) -> tuple[int, int, list[float], list[int]]:
    """Kind, form, then learning_rate, momentum, gradient_weight, velocity_step, gradient_step, keep1, add1, keep2,
    add2, decay, then the place of each accumulator."""
    if isinstance(o, Adam):
        decay = o.learning_rate * o.preparation.regularization_scale if o.decoupled_decay else 0.0
        numbers = [0.0, 0.0, 0.0, 0.0, 0.0, o.beta1, 1.0 - o.beta1, o.beta2, 1.0 - o.beta2, decay]
        return _ADAM, 0, numbers, [0, 1, 2] if o.amsgrad else [0, 1]
    if isinstance(o, RMSProp):
        numbers = [o.learning_rate, o.momentum, 0.0, 0.0, 0.0, 0.0, 0.0, o.alpha, 1.0 - o.alpha, 0.0]
        return _RMSPROP, 0, numbers, [0] + [1] * o.centered + [2] * (o.momentum != 0.0)
    if isinstance(o, Adagrad):  # whose mean is a sum
        return _RMSPROP, 0, [o.learning_rate, *[0.0] * 6, 1.0, 1.0, 0.0], [0]
    if isinstance(o, Adamax):
        return _ADAMAX, 0, [*[0.0] * 5, o.beta1, 1.0 - o.beta1, o.beta2, 0.0, 0.0], [0, 1]
    if o.momentum == 0.0:
        return _DESCENT, 0, [o.learning_rate, *[0.0] * 9], []
    form, *weights = _momentum_form(o)
    return _MOMENTUM, int(form), [0.0, o.momentum, *weights, *[0.0] * 5], [0]


def _momentum_form(o: SGDMomentum) -> tuple[float, ...]:
    """Form, gradient_weight, velocity_step, gradient_step."""
    lr, m = o.learning_rate, o.momentum
    if o.variant == 0:
        return (_DIFFERENCE if o.nesterov else _VELOCITY), -lr, 1.0, 0.0
    if o.nesterov:
        return _LOOK_AHEAD, 1.0, -lr * m, -lr
    return (_VELOCITY, 1.0, -lr, 0.0) if o.variant == 1 else (_VELOCITY, lr, -1.0, 0.0)
