"""Native steps of the optimizers; see core/kernels/optimizer/shape.h.

The numbers that native code computes with are simple terms in the fields of an optimizer. Native code is given the terms,
not the numbers, so that a C program can change fields from step to step without leaving native code.
"""

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
from ..tensors.descriptors import PACKED_LAYOUTS

if TYPE_CHECKING:
    from .. import _core

# OptimizerKind and MomentumForm.
_DESCENT, _MOMENTUM, _ADAM, _RMSPROP, _ADAMAX = range(5)
_VELOCITY, _LOOK_AHEAD, _DIFFERENCE = range(3)

VALUES = (
    "learning_rate", "momentum", "beta1", "beta2", "alpha", "epsilon", "gradient_scale", "regularization_scale",
    "clip_gradients_min", "clip_gradients_max", "clip_gradients_max_norm", "clip_gradients_use_norm",
)  # fmt: skip
"""Fields that may change from step to step, in the order of OptimizerValue in core/bindings/optimizer_call.cpp."""

Term = tuple[float, float, list[int], bool]
"""offset + factor * product of values, or its magnitude."""


def _term(*names: str, factor: float = 1.0, offset: float = 0.0, magnitude: bool = False) -> Term:
    return offset, factor, [VALUES.index(name) for name in names], magnitude


def _constant(number: float) -> Term:
    return number, 0.0, [], False


_ZERO, _ONE = _constant(0.0), _constant(1.0)


def native_step(optimizer: Optimizer) -> _core.OptimizerStep:
    """The step of an optimizer; what changes from step to step comes from `step_size`."""
    kind, form, terms, states = _terms(optimizer)
    p = optimizer.preparation
    prepared = _prepared(p, penalize=not (isinstance(optimizer, Adam) and optimizer.decoupled_decay))
    return engines._core.OptimizerStep(
        kind, form, int(p.clipping.function), [*prepared, *terms], optimizer_values(optimizer), states, PACKED_LAYOUTS
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


def optimizer_values(o: Optimizer) -> list[float]:
    """The values of an optimizer in the order of ``VALUES``; 0 for what it does not have."""
    p, clip = o.preparation, o.preparation.clipping
    own = (getattr(o, name, 0.0) for name in VALUES[:6])
    return [*own, p.gradient_scale, p.regularization_scale, clip.minimum, clip.maximum, clip.max_norm, clip.use_norm]


def _prepared(p: Preparation, *, penalize: bool) -> list[Term]:
    """before, after, low, high, l1, l2, max_norm, use_norm, norm_scale."""
    clip, scale = p.clipping, _term("gradient_scale")
    scales_first = p.scale_before_clip and clip.function == ClippingFunction.BY_VALUE
    before, after = (scale, _ONE) if scales_first else (_ONE, scale)
    regularization = p.regularization if penalize else Regularization.NONE
    penalty = _term("regularization_scale")
    l1 = penalty if regularization == Regularization.L1 else _ZERO
    l2 = penalty if regularization == Regularization.L2 else _ZERO
    limits = [_term(name) for name in VALUES[8:]]
    return [
        before, after, *limits[:2], l1, l2, *limits[2:],
        _term("gradient_scale", magnitude=True) if p.scale_before_clip else _ONE,
    ]  # fmt: skip


def _terms(o: Optimizer) -> tuple[int, int, list[Term], list[int]]:
    """Kind, form, then learning_rate, momentum, gradient_weight, velocity_step, gradient_step, keep1, add1, keep2,
    add2, decay, then the place of each accumulator."""
    if isinstance(o, Adam):
        decay = _term("learning_rate", "regularization_scale") if o.decoupled_decay else _ZERO
        terms = [*[_ZERO] * 5, *_average("beta1"), *_average("beta2"), decay]
        return _ADAM, 0, terms, [0, 1, 2] if o.amsgrad else [0, 1]
    if isinstance(o, RMSProp):
        terms = [_term("learning_rate"), _term("momentum"), *[_ZERO] * 5, *_average("alpha"), _ZERO]
        return _RMSPROP, 0, terms, [0] + [1] * o.centered + [2] * (o.momentum != 0.0)
    if isinstance(o, Adagrad):  # RMSProp with a sum in place of the mean
        return _RMSPROP, 0, [_term("learning_rate"), *[_ZERO] * 6, _ONE, _ONE, _ZERO], [0]
    if isinstance(o, Adamax):
        return _ADAMAX, 0, [*[_ZERO] * 5, *_average("beta1"), _term("beta2"), _ZERO, _ZERO], [0, 1]
    if o.momentum == 0.0:
        return _DESCENT, 0, [_term("learning_rate"), *[_ZERO] * 9], []
    form, weights = _momentum_form(o)
    return _MOMENTUM, form, [_ZERO, _term("momentum"), *weights, *[_ZERO] * 5], [0]


def _average(name: str) -> list[Term]:
    """The weights of the old and of the new value in a running average."""
    return [_term(name), _term(name, factor=-1.0, offset=1.0)]


def _momentum_form(o: SGDMomentum) -> tuple[int, list[Term]]:
    """Form, gradient_weight, velocity_step, gradient_step."""
    lr, down = _term("learning_rate"), _term("learning_rate", factor=-1.0)
    if o.variant == 0:
        return (_DIFFERENCE if o.nesterov else _VELOCITY), [down, _ONE, _ZERO]
    if o.nesterov:
        return _LOOK_AHEAD, [_ONE, _term("learning_rate", "momentum", factor=-1.0), down]
    return _VELOCITY, [_ONE, down, _ZERO] if o.variant == 1 else [lr, _constant(-1.0), _ZERO]
