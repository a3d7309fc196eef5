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
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np

from . import clipping
from .activation import Array


class Regularization(IntEnum):
    """The numbers of BNNSOptimizerRegularizationFunction."""

    NONE = 0
    L1 = 1
    L2 = 2


class ClippingFunction(IntEnum):
    """The numbers of BNNSOptimizerClippingFunction."""

    NONE = 0
    BY_VALUE = 1
    BY_NORM = 2
    BY_GLOBAL_NORM = 3


@dataclass(frozen=True)
class Clipping:
    """ByValue clamps to minimum .. maximum; ByNorm limits the norm of each gradient, ByGlobalNorm that of all together.

    use_norm, if not 0, is taken for the global norm.
    """

    function: int = ClippingFunction.NONE
    minimum: float = 0.0
    maximum: float = 0.0
    max_norm: float = 0.0
    use_norm: float = 0.0


@dataclass(frozen=True)
class Preparation:
    """How g is made from dL/dW and W."""

    gradient_scale: float = 1.0
    clipping: Clipping = field(default_factory=Clipping)
    regularization: int = Regularization.NONE
    regularization_scale: float = 0.0
    scale_before_clip: bool = False


@dataclass(frozen=True)
class SGDMomentum:
    """Gradient descent with momentum m and learning rate lr; the velocity V becomes V'.

        variant    plain                                  Nesterov
        0          V' = m V - lr g;  W += V'              V' = m V - lr g;  W += V' + m (V' - V)
        1          V' = m V + g;     W -= lr V'           V' = m V + g;     W -= lr (g + m V')
        2          V' = m V + lr g;  W -= V'              V' = m V + g;     W -= lr (g + m V')

    Accumulators: V, or with m = 0 none, and then W -= lr g.
    """

    learning_rate: float
    momentum: float = 0.0
    nesterov: bool = False
    variant: int = 0
    preparation: Preparation = field(default_factory=Preparation)

    @property
    def roles(self) -> int:
        """Accumulators of each parameter."""
        return 0 if self.momentum == 0.0 else 1

    def update(self, w: Array, g: Array, *accumulators: Array) -> tuple[Array, ...]:
        """W and V after the step."""
        lr, m = self.learning_rate, self.momentum
        if not accumulators:
            return (w - lr * g,)
        (v,) = accumulators
        match self.variant, self.nesterov:
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
                raise ValueError(f"optimizer: there is no SGD momentum variant {self.variant}; choose 0, 1 or 2.")


@dataclass(frozen=True)
class Adam:
    """Adam, AdamW (decoupled_decay) and their AMSGrad forms; t = time_step is 1 in the first step.

        m = beta1 m + (1 - beta1) g        v = beta2 v + (1 - beta2) g^2        AMSGrad: v_max = max(v_max, v)
        W -= lr sqrt(1 - beta2^t) / (1 - beta1^t) * m / (sqrt(v) + epsilon)     with v_max for v in AMSGrad

    corrected_epsilon adds epsilon to the corrected root instead: epsilon sqrt(1 - beta2^t) stands for epsilon. AdamW
    has no penalty in g; it takes off lr * regularization_scale * W with the old W. Accumulators: m, v [, v_max].
    """

    learning_rate: float
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    time_step: float = 1.0
    amsgrad: bool = False
    decoupled_decay: bool = False
    corrected_epsilon: bool = False
    preparation: Preparation = field(default_factory=Preparation)

    @property
    def roles(self) -> int:
        """Accumulators of each parameter."""
        return 3 if self.amsgrad else 2

    def update(self, w: Array, g: Array, m: Array, v: Array, *largest: Array) -> tuple[Array, ...]:
        """W, m, v and, with AMSGrad, v_max after the step."""
        m = self.beta1 * m + (1.0 - self.beta1) * g
        v = self.beta2 * v + (1.0 - self.beta2) * g * g
        largest = tuple(np.maximum(past, v) for past in largest)
        root = np.sqrt(largest[0] if largest else v)

        first, second = 1.0 - self.beta1**self.time_step, math.sqrt(1.0 - self.beta2**self.time_step)
        epsilon = self.epsilon * (second if self.corrected_epsilon else 1.0)
        decay = self.preparation.regularization_scale if self.decoupled_decay else 0.0
        w = w - self.learning_rate * decay * w - self.learning_rate * second / first * m / (root + epsilon)
        return w, m, v, *largest


@dataclass(frozen=True)
class RMSProp:
    """RMSProp with smoothing a = alpha and momentum q.

        n = a n + (1 - a) g^2        centered: u = a u + (1 - a) g, s = n - u^2        else s = n
        d = q d - lr g / (sqrt(s) + epsilon)        W += d

    s is never negative but for rounding, which counts as 0. Accumulators: n [, u if centered] [, d if q != 0].
    """

    learning_rate: float
    alpha: float = 0.99
    epsilon: float = 1e-8
    centered: bool = False
    momentum: float = 0.0
    preparation: Preparation = field(default_factory=Preparation)

    @property
    def roles(self) -> int:
        """Accumulators of each parameter."""
        return 1 + self.centered + (self.momentum != 0.0)

    def update(self, w: Array, g: Array, n: Array, *others: Array) -> tuple[Array, ...]:
        """W, n, and u and d if they are kept, after the step."""
        means, steps = (others[:1], others[1:]) if self.centered else ((), others)
        n = self.alpha * n + (1.0 - self.alpha) * g * g
        means = tuple(self.alpha * u + (1.0 - self.alpha) * g for u in means)
        s = np.maximum(n - means[0] ** 2, 0.0) if means else n

        past = steps[0] if steps else np.zeros_like(w)
        d = self.momentum * past - self.learning_rate * g / (np.sqrt(s) + self.epsilon)
        return (w + d, n, *means, d) if steps else (w + d, n, *means)


Optimizer = SGDMomentum | Adam | RMSProp


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
        optimizer.update(w, g, *accumulators[index::count])
        for index, (w, g) in enumerate(zip(parameters, prepared, strict=True))
    ]
    by_role = [[arrays[role] for arrays in updated] for role in range(1 + optimizer.roles)]
    return by_role[0], [accumulator for role in by_role[1:] for accumulator in role]


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
