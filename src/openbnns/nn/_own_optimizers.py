"""Steps of optimizers that BNNS has no function for, in the form of those that it has."""

from __future__ import annotations

from typing import Any

from .._words import Caller
from ..filters import optimizer as rules
from ..layers.optimizer import _Hyperparameter, _number, _RegularizedOptimizer
from ..parameters.optimizer import Adagrad, Adamax, Clipping, Optimizer, Preparation


class OwnOptimizer(_RegularizedOptimizer):
    """Base: hyperparameters as attributes, one native call for all tensors of a step."""

    time_step = _Hyperparameter(_number)
    epsilon = _Hyperparameter(_number)

    def __init__(self, **hyperparameters: Any) -> None:
        self._start({"gradient_scale": 1.0, "gradient_clipping": None, "time_step": 1.0, **hyperparameters})

    def _rule(self, who: Caller) -> tuple[rules.Rule, float]:
        given = self.gradient_clipping
        preparation = Preparation(
            gradient_scale=self.gradient_scale,
            clipping=Clipping() if given is None else rules.read_clipping(given.bnns_fields, who),
            regularization=int(self.regularization_function.value),
            regularization_scale=self.regularization_scale,
        )
        return rules.rule_of(self._parameters(preparation)), self.time_step

    def _parameters(self, preparation: Preparation) -> Optimizer:
        raise NotImplementedError


class AdagradOptimizer(OwnOptimizer):
    """n += g²; W -= lr / (1 + (t - 1) lr_decay) g / (√n + ε)."""

    lr_decay = _Hyperparameter(_number)
    accumulator_count_multiplier = 1

    def _parameters(self, preparation: Preparation) -> Optimizer:
        rate = self.learning_rate / (1.0 + (self.time_step - 1.0) * self.lr_decay)
        return Adagrad(rate, self.epsilon, preparation)


class AdamaxOptimizer(OwnOptimizer):
    """m = β1 m + (1 - β1) g; u = max(β2 u, |g| + ε); W -= lr / (1 - β1ᵗ) m / u."""

    beta1 = _Hyperparameter(_number)
    beta2 = _Hyperparameter(_number)
    accumulator_count_multiplier = 2

    def _parameters(self, preparation: Preparation) -> Optimizer:
        return Adamax(self.learning_rate, self.beta1, self.beta2, self.epsilon, 1.0, preparation)
