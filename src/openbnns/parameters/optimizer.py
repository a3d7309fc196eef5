"""Parameters of optimizers: the rule of a step, and how it prepares gradients."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum


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

    use_norm, if not 0, is used as the global norm.
    """

    function: int = ClippingFunction.NONE
    minimum: float = 0.0
    maximum: float = 0.0
    max_norm: float = 0.0
    use_norm: float = 0.0


@dataclass(frozen=True)
class Preparation:
    """The steps from dL/dW and W to g."""

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


@dataclass(frozen=True)
class RMSProp:
    """RMSProp with smoothing a = alpha and momentum q.

        n = a n + (1 - a) g^2        centered: u = a u + (1 - a) g, s = n - u^2        else s = n
        d = q d - lr g / (sqrt(s) + epsilon)        W += d

    s is never negative, except by rounding, which counts as 0. Accumulators: n [, u if centered] [, d if q != 0].
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


# Optimizers that BNNS does not have; only networks use them.


@dataclass(frozen=True)
class Adagrad:
    """n += g^2,  W -= lr g / (sqrt(n) + epsilon). Accumulators: n."""

    learning_rate: float
    epsilon: float = 1e-10
    preparation: Preparation = field(default_factory=Preparation)

    @property
    def roles(self) -> int:
        """Accumulators of each parameter."""
        return 1


@dataclass(frozen=True)
class Adamax:
    """Adam with the largest gradient in place of the root; t = time_step is 1 in the first step.

        m = beta1 m + (1 - beta1) g        u = max(beta2 u, |g| + epsilon)        W -= lr / (1 - beta1^t) * m / u

    Accumulators: m, u.
    """

    learning_rate: float
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    time_step: float = 1.0
    preparation: Preparation = field(default_factory=Preparation)

    @property
    def roles(self) -> int:
        """Accumulators of each parameter."""
        return 2


Optimizer = SGDMomentum | Adam | RMSProp | Adagrad | Adamax
