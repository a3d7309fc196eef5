"""Optimizers: one step for a list of parameters W with gradients dL/dW and accumulators.

Every optimizer first prepares the gradients,

    g = gradient_scale * clip(dL/dW) + regularization_scale * R'(W)        R' = sign(W) for L1, W for L2, 0 for None
    g = clip(gradient_scale * dL/dW) + ...                                 with scale_before_clip

and then updates each parameter by itself with a rule written at its class. Only clipping by global norm couples the
parameters of a step. Accumulators start at zero, have the shapes of the parameters, and are listed by role, then by
parameter: all of the first role, then all of the second, and so on. Nothing is changed in place: `step` returns the
new parameters and accumulators.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..parameters.optimizer import (
    Adagrad,
    Adam,
    Adamax,
    Clipping,
    ClippingFunction,
    Optimizer,
    Preparation,
    Regularization,
    RMSProp,
    SGDMomentum,
)
from . import clipping
from .activation import Array


@np.errstate(all="ignore")
def step(
    optimizer: Optimizer, parameters: Sequence[Array], gradients: Sequence[Array], accumulators: Sequence[Array] = ()
) -> tuple[list[Array], list[Array]]:
    """(parameters, accumulators) after one step; all lists keep their order, and arrays their shapes."""
    count = len(parameters)
    if len(gradients) != count or len(accumulators) != optimizer.roles * count:
        raise ValueError(
            f"optimizer.step: {count} parameters need {count} gradients and {optimizer.roles * count} accumulators "
            f"({optimizer.roles} for each); got {len(gradients)} and {len(accumulators)}."
        )
    decays = isinstance(optimizer, Adam) and optimizer.decoupled_decay
    prepared = prepare(optimizer.preparation, parameters, gradients, penalize=not decays)
    updated = [
        _update(optimizer, w, g, *accumulators[index::count])
        for index, (w, g) in enumerate(zip(parameters, prepared, strict=True))
    ]
    by_role = [[arrays[role] for arrays in updated] for role in range(1 + optimizer.roles)]
    return by_role[0], [accumulator for role in by_role[1:] for accumulator in role]


def _update(optimizer: Optimizer, w: Array, g: Array, *accumulators: Array) -> tuple[Array, ...]:
    """W and the accumulators after the step."""
    if isinstance(optimizer, Adam):
        return _adam(optimizer, w, g, *accumulators)
    if isinstance(optimizer, RMSProp):
        return _rmsprop(optimizer, w, g, *accumulators)
    if isinstance(optimizer, Adagrad):
        n = accumulators[0] + g * g
        return w - optimizer.learning_rate * g / (np.sqrt(n) + optimizer.epsilon), n
    if isinstance(optimizer, Adamax):
        return _adamax(optimizer, w, g, *accumulators)
    return _descend(optimizer, w, g, *accumulators)


def _descend(o: SGDMomentum, w: Array, g: Array, *accumulators: Array) -> tuple[Array, ...]:
    """W and V after the step."""
    lr, m = o.learning_rate, o.momentum
    if not accumulators:
        return (w - lr * g,)
    (v,) = accumulators
    match o.variant, o.nesterov:
        case 0, False:
            new = m * v - lr * g
            return w + new, new
        case 0, True:
            new = m * v - lr * g
            return w + new + m * (new - v), new
        case 1, False:
            new = m * v + g
            return w - lr * new, new
        case 2, False:
            new = m * v + lr * g
            return w - new, new
        case ((1 | 2), True):
            new = m * v + g
            return w - lr * (g + m * new), new
        case _:
            raise ValueError(f"optimizer: there is no SGD momentum variant {o.variant}; choose 0, 1 or 2.")


def _adam(o: Adam, w: Array, g: Array, m: Array, v: Array, *largest: Array) -> tuple[Array, ...]:
    """W, m, v and, with AMSGrad, v_max after the step."""
    m = o.beta1 * m + (1.0 - o.beta1) * g
    v = o.beta2 * v + (1.0 - o.beta2) * g * g
    largest = tuple(np.maximum(past, v) for past in largest)
    root = np.sqrt(largest[0] if largest else v)

    first, second = 1.0 - o.beta1**o.time_step, math.sqrt(1.0 - o.beta2**o.time_step)
    epsilon = o.epsilon * (second if o.corrected_epsilon else 1.0)
    decay = o.preparation.regularization_scale if o.decoupled_decay else 0.0
    w = w - o.learning_rate * decay * w - o.learning_rate * second / first * m / (root + epsilon)
    return w, m, v, *largest


def _adamax(o: Adamax, w: Array, g: Array, m: Array, u: Array) -> tuple[Array, ...]:
    """W, m and u after the step."""
    m = o.beta1 * m + (1.0 - o.beta1) * g
    u = np.maximum(o.beta2 * u, np.abs(g) + o.epsilon)
    return w - o.learning_rate / (1.0 - o.beta1**o.time_step) * m / u, m, u


def _rmsprop(o: RMSProp, w: Array, g: Array, n: Array, *others: Array) -> tuple[Array, ...]:
    """W, n, and u and d if they are kept, after the step."""
    means, steps = (others[:1], others[1:]) if o.centered else ((), others)
    n = o.alpha * n + (1.0 - o.alpha) * g * g
    means = tuple(o.alpha * u + (1.0 - o.alpha) * g for u in means)
    s = np.maximum(n - means[0] ** 2, 0.0) if means else n

    past = steps[0] if steps else np.zeros_like(w)
    d = o.momentum * past - o.learning_rate * g / (np.sqrt(s) + o.epsilon)
    return (w + d, n, *means, d) if steps else (w + d, n, *means)


@np.errstate(all="ignore")
def prepare(
    preparation: Preparation, parameters: Sequence[Array], gradients: Sequence[Array], penalize: bool = True
) -> list[Array]:
    """g for every parameter, without the penalty if not `penalize`."""
    scale = preparation.gradient_scale
    if preparation.scale_before_clip:
        clipped = _clip(preparation.clipping, [scale * gradient for gradient in gradients])
    else:
        clipped = [scale * gradient for gradient in _clip(preparation.clipping, gradients)]
    if not penalize:
        return clipped
    return [g + _penalty(preparation, w) for g, w in zip(clipped, parameters, strict=True)]


def _clip(rule: Clipping, gradients: Sequence[Array]) -> list[Array]:
    match rule.function:
        case ClippingFunction.NONE:
            return list(gradients)
        case ClippingFunction.BY_VALUE:
            return [clipping.clip_by_value(gradient, rule.minimum, rule.maximum) for gradient in gradients]
        case ClippingFunction.BY_NORM:
            return [clipping.clip_by_norm(gradient, rule.max_norm) for gradient in gradients]
        case ClippingFunction.BY_GLOBAL_NORM:
            return clipping.clip_by_global_norm(gradients, rule.max_norm, rule.use_norm)
        case _:
            raise ValueError(f"optimizer: there is no clipping {rule.function}; the kinds are 0 to 3.")


def _penalty(preparation: Preparation, w: Array) -> Array:
    """regularization_scale * R'(W)."""
    match preparation.regularization:
        case Regularization.NONE:
            return np.zeros_like(w)
        case Regularization.L1:
            return preparation.regularization_scale * np.sign(w)
        case Regularization.L2:
            return preparation.regularization_scale * w
        case _:
            raise ValueError(f"optimizer: there is no regularization {preparation.regularization}; choose 0, 1 or 2.")
