"""Optimizers of networks: those of BNNS, together with the accumulators that they need.

Results are PyTorch's: Adam adds epsilon to the corrected root, and every parameter counts its own steps. Adagrad and Adamax,
which BNNS lacks, run on native steps of their own. ``maximize=True`` goes up instead of down in all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from typing import Any, Literal, TypeVar, cast

import numpy as np

from .. import (
    AdamOptimizer,
    AdamWOptimizer,
    GradientClipping,
    RegularizationFunction,
    RMSPropOptimizer,
    SGDMomentumOptimizer,
    SGDMomentumVariant,
)
from .._flags import with_flags
from .._spelling import spelled
from ..graph.parameter import Parameter
from ..graph.tensor import Array
from ..layers.optimizer import AdagradOptimizer, AdamaxOptimizer
from .optimizer_base import Optimizer, ParameterGroup, StepGroup

__all__ = ["SGD", "Adagrad", "Adam", "AdamW", "Adamax", "Optimizer", "OptimizerName", "ParameterGroup", "RMSprop"]


def _check(who: str, **limits: tuple[float, float, float]) -> None:
    """Refuse numbers outside [low, high]; ``limits`` is name=(value, low, high)."""
    for name, (value, low, high) in limits.items():
        if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
            raise TypeError(f"{who}: {name} must be a number, not {type(value).__name__}.")
        if not low <= value <= high:
            raise ValueError(f"{who}: {name} is {value}. It must be between {low:g} and {high:g}.")


_Init = TypeVar("_Init", bound=Callable[..., None])


def _rate_second(init: _Init) -> _Init:
    """Let ``SGD(parameters, 0.1)`` mean what it means in PyTorch: after parameters, the learning rate comes second."""

    @wraps(init)
    def wrapper(self: Any, *arguments: Any, **options: Any) -> None:
        if len(arguments) > 1 and arguments[0] is not None and not isinstance(arguments[0], (int, float, np.number)):
            if "lr" in options:
                raise TypeError(
                    f"{type(self).__name__}: the learning rate is given twice, as {arguments[1]!r} and as lr."
                )
            options["lr"] = arguments[1]
            arguments = (arguments[0], *arguments[2:])
        checked(self, *arguments, **options)

    checked = with_flags(init, spelled(init))
    return cast(_Init, wrapper)


class SGD(Optimizer):
    """v = momentum v + g;  W -= learning_rate v, or learning_rate (g + momentum v) with ``nesterov``.

    g is the gradient plus weight_decay W. The learning rate is 0.01 unless given. ``dampening`` d makes it
    v = momentum v + (1 - d) g after the first step.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> w, sgd = nn.Parameter(np.float32([1, 2])), nn.SGD(0.5, momentum=0.5)
    >>> w.grad = np.float32([1, -1])
    >>> sgd.attach([w])
    >>> for _ in range(2):
    ...     sgd.step()
    >>> w.data.tolist()
    [-0.25, 3.25]
    """

    @_rate_second
    def __init__(
        self,
        learning_rate: float | Iterable[Parameter] | Iterable[Mapping[str, Any]] | None = None,
        momentum: float = 0.0,
        *,
        dampening: float = 0.0,
        nesterov: bool = False,
        weight_decay: float = 0.0,
        maximize: bool = False,
        clipping: GradientClipping | None = None,
        lr: float | None = None,
    ) -> None:
        super().__init__(
            learning_rate, lr, clipping, momentum=momentum, dampening=dampening, nesterov=nesterov,
            weight_decay=weight_decay, maximize=maximize,
        )  # fmt: skip

    def _make(
        self, rate: float, *, momentum: float, dampening: float, nesterov: bool, weight_decay: float, maximize: bool,
        **options: Any,
    ) -> SGDMomentumOptimizer:  # fmt: skip
        _check(
            "SGD",
            learning_rate=(rate, 0, np.inf),
            momentum=(momentum, 0, 1),
            dampening=(dampening, 0, 1),
            weight_decay=(weight_decay, 0, np.inf),
        )
        if nesterov and not momentum:
            raise ValueError("SGD: nesterov needs momentum, which is 0. Give one, such as momentum=0.9.")
        if nesterov and dampening:
            raise ValueError(f"SGD: nesterov needs dampening 0, not {dampening}. Leave one of them out.")
        return SGDMomentumOptimizer(
            learning_rate=rate,
            momentum=momentum,
            uses_nesterov_momentum=nesterov,
            regularization_scale=weight_decay,
            regularization_function=_decay(weight_decay),
            sgd_momentum_variant=SGDMomentumVariant.VARIANT_1,
            gradient_scale=_sign(maximize),
            **options,
        )

    def _run(self, step_group: StepGroup) -> None:
        """Dampening is a factor of g, the penalty included, but for the first step."""
        group, bnns = step_group.states[0].group, step_group.bnns
        kept = 1.0 - group["dampening"]
        if kept == 1.0 or not bnns.momentum or not step_group.steps:
            step_group.step()
            return
        scale, penalty = bnns.gradient_scale, bnns.regularization_scale
        bnns.gradient_scale, bnns.regularization_scale = kept * scale, kept * penalty
        try:
            step_group.step()
        finally:
            bnns.gradient_scale, bnns.regularization_scale = scale, penalty

    def _is_plain(self, step_group: StepGroup) -> bool:
        return not step_group.states[0].group["dampening"]


class Adam(Optimizer):
    """m = β₁ m + (1 - β₁) g;  v = β₂ v + (1 - β₂) g²;  W -= lr / (1 - β₁ᵗ) m / (√(v / (1 - β₂ᵗ)) + eps).

    g is the gradient plus weight_decay W. The learning rate is 0.001 unless given. eps is added to the corrected root, as
    in PyTorch; :class:`openbnns.AdamOptimizer` adds it to √v, as BNNS does.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> w, adam = nn.Parameter(np.float32([1, 2])), nn.Adam(0.1)
    >>> w.grad = np.float32([5, -0.01])
    >>> adam.attach([w])
    >>> adam.step()
    >>> print(w.data.round(4))  # the first step is the learning rate, whatever the gradient's size
    [0.9 2.1]
    """

    _default_rate = 1e-3
    _weight_decay = 0.0

    @_rate_second
    def __init__(
        self,
        learning_rate: float | Iterable[Parameter] | Iterable[Mapping[str, Any]] | None = None,
        betas: Sequence[float] = (0.9, 0.999),
        eps: float = 1e-8,
        *,
        weight_decay: float | None = None,
        amsgrad: bool = False,
        maximize: bool = False,
        clipping: GradientClipping | None = None,
        lr: float | None = None,
    ) -> None:
        decay = self._weight_decay if weight_decay is None else weight_decay
        super().__init__(
            learning_rate, lr, clipping, betas=betas, eps=eps, weight_decay=decay, amsgrad=amsgrad, maximize=maximize
        )

    def _make(
        self, rate: float, *, betas: Sequence[float], eps: float, weight_decay: float, amsgrad: bool, maximize: bool,
        **options: Any,
    ) -> AdamOptimizer | AdamWOptimizer:  # fmt: skip
        who = type(self).__name__
        beta1, beta2 = _betas(who, betas)
        _check(who, learning_rate=(rate, 0, np.inf), eps=(eps, 0, np.inf), weight_decay=(weight_decay, 0, np.inf))
        made = self._moments(
            weight_decay, learning_rate=rate, beta1=beta1, beta2=beta2, epsilon=eps, uses_ams_grad=amsgrad,
            gradient_scale=_sign(maximize), **options,
        )  # fmt: skip
        made._epsilon_after_correction = True
        return made

    def _moments(self, weight_decay: float, **options: Any) -> AdamOptimizer | AdamWOptimizer:
        return AdamOptimizer(regularization_scale=weight_decay, regularization_function=_decay(weight_decay), **options)


class AdamW(Adam):
    """Adam with W -= learning_rate weight_decay W beside it, instead of a penalty in the gradient.

    The learning rate is 0.001 unless given, ``weight_decay`` 0.01.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> w, adamw = nn.Parameter(np.float32([1, 2])), nn.AdamW(0.1, weight_decay=0.5)
    >>> w.grad = np.float32([0, 3])
    >>> adamw.attach([w])
    >>> adamw.step()
    >>> print(w.data.round(4))  # decay alone; decay and a step
    [0.95 1.8 ]
    """

    _weight_decay = 0.01

    def _moments(self, weight_decay: float, **options: Any) -> AdamOptimizer | AdamWOptimizer:
        return AdamWOptimizer(weight_decay=weight_decay, **options)


class RMSprop(Optimizer):
    """n = α n + (1 - α) g²;  d = momentum d + g / (√n + eps);  W -= learning_rate d. ``centered`` subtracts the mean².

    The learning rate is 0.01 unless given.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> w, rmsprop = nn.Parameter(np.float32([1, 2])), nn.RMSprop(0.25, alpha=0.75)
    >>> w.grad = np.float32([3, -3])
    >>> rmsprop.attach([w])
    >>> rmsprop.step()
    >>> print(w.data.round(4))
    [0.5 2.5]
    """

    @_rate_second
    def __init__(
        self,
        learning_rate: float | Iterable[Parameter] | Iterable[Mapping[str, Any]] | None = None,
        alpha: float = 0.99,
        eps: float = 1e-8,
        *,
        momentum: float = 0.0,
        centered: bool = False,
        weight_decay: float = 0.0,
        maximize: bool = False,
        clipping: GradientClipping | None = None,
        lr: float | None = None,
    ) -> None:
        super().__init__(
            learning_rate, lr, clipping, alpha=alpha, eps=eps, momentum=momentum, centered=centered,
            weight_decay=weight_decay, maximize=maximize,
        )  # fmt: skip

    def _make(
        self, rate: float, *, alpha: float, eps: float, momentum: float, centered: bool, weight_decay: float,
        maximize: bool, **options: Any,
    ) -> RMSPropOptimizer:  # fmt: skip
        _check(
            "RMSprop",
            learning_rate=(rate, 0, np.inf),
            alpha=(alpha, 0, 1),
            eps=(eps, 0, np.inf),
            momentum=(momentum, 0, 1),
            weight_decay=(weight_decay, 0, np.inf),
        )
        return RMSPropOptimizer(
            learning_rate=rate,
            alpha=alpha,
            epsilon=eps,
            centered=centered,
            momentum=momentum,
            regularization_scale=weight_decay,
            regularization_function=_decay(weight_decay),
            gradient_scale=_sign(maximize),
            **options,
        )

    def _run(self, step_group: StepGroup) -> None:
        """BNNS accumulates steps, learning rate included, and PyTorch steps without it: a new rate counts for all of them."""
        bnns = step_group.bnns
        rate = bnns.learning_rate
        if not bnns.momentum:
            step_group.step()
            return
        scale = rate or 1.0  # a rate of 0 would lose what is accumulated
        for state in step_group.states:
            if state.rate not in (0.0, scale):
                state.made(0)[-1][...] *= scale / state.rate
            state.rate = scale
        if rate:
            step_group.step()
            return
        before = [data.copy() for data in step_group.data]
        bnns.learning_rate = scale
        step_group.step()
        bnns.learning_rate = rate
        for data, old in zip(step_group.data, before, strict=True):
            data[...] = old

    def _is_plain(self, step_group: StepGroup) -> bool:
        return not step_group.bnns.momentum

    def state_dict(self) -> dict[str, Array]:
        """Accumulators, step counts and the learning rates that accumulated steps contain."""
        return {**super().state_dict(), "rates": np.array([s.rate for s in self._states], np.float64)}


class Adagrad(Optimizer):
    """n += g²;  W -= learning_rate / (1 + (t - 1) lr_decay) g / (√n + eps), t counting the steps from 1.

    g is the gradient plus weight_decay W, n starts at ``initial_accumulator_value``. The learning rate is 0.01 unless
    given. BNNS has no such optimizer; the step is a native one of the same kind.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> w, adagrad = nn.Parameter(np.float32([1, 2])), nn.Adagrad(0.5)
    >>> w.grad = np.float32([3, -4])
    >>> adagrad.attach([w])
    >>> adagrad.step()
    >>> print(w.data.round(4))  # the first step is the learning rate, whatever the gradient's size
    [0.5 2.5]
    """

    @_rate_second
    def __init__(
        self,
        learning_rate: float | Iterable[Parameter] | Iterable[Mapping[str, Any]] | None = None,
        lr_decay: float = 0.0,
        weight_decay: float = 0.0,
        initial_accumulator_value: float = 0.0,
        eps: float = 1e-10,
        *,
        maximize: bool = False,
        clipping: GradientClipping | None = None,
        lr: float | None = None,
    ) -> None:
        super().__init__(
            learning_rate, lr, clipping, lr_decay=lr_decay, weight_decay=weight_decay,
            initial_accumulator_value=initial_accumulator_value, eps=eps, maximize=maximize,
        )  # fmt: skip

    def _make(
        self, rate: float, *, lr_decay: float, weight_decay: float, initial_accumulator_value: float, eps: float,
        maximize: bool, **options: Any,
    ) -> AdagradOptimizer:  # fmt: skip
        _check(
            "Adagrad",
            learning_rate=(rate, 0, np.inf),
            lr_decay=(lr_decay, 0, np.inf),
            weight_decay=(weight_decay, 0, np.inf),
            initial_accumulator_value=(initial_accumulator_value, 0, np.inf),
            eps=(eps, 0, np.inf),
        )
        return AdagradOptimizer(
            learning_rate=rate,
            lr_decay=lr_decay,
            epsilon=eps,
            regularization_scale=weight_decay,
            regularization_function=_decay(weight_decay),
            gradient_scale=_sign(maximize),
            **options,
        )

    def _first_accumulator(self, group: ParameterGroup) -> float:
        return float(group["initial_accumulator_value"])


class Adamax(Optimizer):
    """m = β₁ m + (1 - β₁) g;  u = max(β₂ u, |g| + eps);  W -= learning_rate / (1 - β₁ᵗ) m / u.

    g is the gradient plus weight_decay W. The learning rate is 0.002 unless given. BNNS has no such optimizer; the step is a
    native one of the same kind.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> w, adamax = nn.Parameter(np.float32([1, 2])), nn.Adamax(0.5)
    >>> w.grad = np.float32([3, -4])
    >>> adamax.attach([w])
    >>> adamax.step()
    >>> print(w.data.round(4))
    [0.5 2.5]
    """

    _default_rate = 2e-3

    @_rate_second
    def __init__(
        self,
        learning_rate: float | Iterable[Parameter] | Iterable[Mapping[str, Any]] | None = None,
        betas: Sequence[float] = (0.9, 0.999),
        eps: float = 1e-8,
        *,
        weight_decay: float = 0.0,
        maximize: bool = False,
        clipping: GradientClipping | None = None,
        lr: float | None = None,
    ) -> None:
        super().__init__(
            learning_rate, lr, clipping, betas=betas, eps=eps, weight_decay=weight_decay, maximize=maximize
        )

    def _make(
        self, rate: float, *, betas: Sequence[float], eps: float, weight_decay: float, maximize: bool, **options: Any
    ) -> AdamaxOptimizer:
        beta1, beta2 = _betas("Adamax", betas)
        if beta1 == 1.0:
            raise ValueError("Adamax: beta1 is 1. It must be below 1.")
        _check("Adamax", learning_rate=(rate, 0, np.inf), eps=(eps, 0, np.inf), weight_decay=(weight_decay, 0, np.inf))
        return AdamaxOptimizer(
            learning_rate=rate,
            beta1=beta1,
            beta2=beta2,
            epsilon=eps,
            regularization_scale=weight_decay,
            regularization_function=_decay(weight_decay),
            gradient_scale=_sign(maximize),
            **options,
        )


def _sign(maximize: bool) -> float:
    """The factor that gradients are multiplied by before anything else."""
    if not isinstance(maximize, (bool, np.bool_)):
        raise TypeError(f"maximize must be True or False, not {maximize!r}.")
    return -1.0 if maximize else 1.0


def _decay(weight_decay: float) -> RegularizationFunction:
    return RegularizationFunction.L2 if weight_decay else RegularizationFunction.NONE


def _betas(who: str, betas: Sequence[float]) -> tuple[float, float]:
    try:
        beta1, beta2 = betas
    except (TypeError, ValueError):
        raise TypeError(f"{who}: betas must be two numbers such as (0.9, 0.999), not {betas!r}.") from None
    _check(who, beta1=(beta1, 0, 1), beta2=(beta2, 0, 1))
    return float(beta1), float(beta2)


OptimizerName = Literal["adam", "adamw", "sgd", "rmsprop", "adagrad", "adamax"]

NAMED: dict[str, type[Optimizer]] = {
    "adam": Adam,
    "adamw": AdamW,
    "sgd": SGD,
    "rmsprop": RMSprop,
    "adagrad": Adagrad,
    "adamax": Adamax,
}
