"""Optimizers of networks: those of BNNS, together with the accumulators that they need."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any, TypeVar, cast

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
from ._graph import Array
from .parameter import Parameter


def _check(who: str, **limits: tuple[float, float, float]) -> None:
    """Refuse numbers outside [low, high]; ``limits`` is name=(value, low, high)."""
    for name, (value, low, high) in limits.items():
        if not low <= value <= high:
            raise ValueError(f"{who}: {name} is {value}. It must be between {low:g} and {high:g}.")


_STATE = ("bnns", "parameters", "accumulators", "steps")
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
        init(self, *arguments, **options)

    return cast(_Init, wrapper)


def _rate(who: str, first: Any, lr: float | None, default: float) -> tuple[float, list[Parameter] | None]:
    """Learning rate and parameters of ``Adam(0.001)``, and of ``Adam(parameters, lr=0.001)`` as PyTorch has it."""
    parameters = None
    if first is not None and not isinstance(first, (int, float, np.number)):
        try:
            parameters = list(first)
        except TypeError:
            parameters = [first]
        wrong = [type(p).__name__ for p in parameters if not isinstance(p, Parameter)]
        if wrong:
            raise TypeError(
                f"{who}: the first argument is the learning rate, or the parameters of a network: {who}(0.001), or "
                f"{who}(network.parameters(), lr=0.001). It holds a {wrong[0]}."
            )
        first = None
    if first is not None and lr is not None:
        raise TypeError(f"{who}: learning_rate and lr are the same thing. Give one of them.")
    rate = default if first is None and lr is None else first if lr is None else lr
    return float(rate), parameters


class Optimizer:
    """Base of the optimizers: changes parameters in place, from their ``grad``.

    ``learning_rate`` may be changed between steps. :meth:`attach` makes the accumulators, one set per parameter; a
    trainer calls it. PyTorch's ``SGD(network.parameters(), lr=0.1)`` does it at once, for a network whose sizes are known.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> net = nn.Linear(1, 1, bias=False).build((1,), seed=0)
    >>> optimizer = nn.SGD(net.parameters(), lr=0.1)
    >>> x, t = np.float32([[1], [2]]), np.float32([[3], [6]])
    >>> for step in range(100):
    ...     loss, gradient = nn.MSELoss()(net(x), t)
    ...     _ = net.backward(gradient)
    ...     optimizer.step()
    >>> print(net.weight.data.round(3))
    [[3.]]
    """

    bnns: Any

    def __init__(self, bnns: Any, parameters: list[Parameter] | None = None) -> None:
        self.bnns = bnns
        self.parameters: list[Parameter] = []
        self.accumulators: list[Array] = []
        self._data: list[Array] = []
        self._gradients: list[Array] = []
        self.steps = 0
        if parameters is not None:
            self.attach(parameters)

    def __setattr__(self, name: str, value: Any) -> None:
        ours = type(self).__module__ == __name__
        if ours and not name.startswith("_") and name not in _STATE and not hasattr(type(self), name):
            raise AttributeError(
                f"{type(self).__name__}: {name!r} cannot be set. learning_rate, or lr, may change between steps; everything "
                "else is given at creation."
            )
        super().__setattr__(name, value)

    def __repr__(self) -> str:
        return type(self).__name__ + repr(self.bnns).removeprefix(type(self.bnns).__name__)

    @property
    def lr(self) -> float:
        """The learning rate, as PyTorch calls it."""
        return self.learning_rate

    @lr.setter
    def lr(self, value: float) -> None:
        self.learning_rate = value

    @property
    def learning_rate(self) -> float:
        return float(self.bnns.learning_rate)

    @learning_rate.setter
    def learning_rate(self, value: float) -> None:
        self.bnns.learning_rate = float(value)

    def attach(self, parameters: Iterable[Parameter]) -> None:
        """Take charge of these parameters; accumulators start at zero."""
        self.parameters = list(parameters)
        if not self.parameters:
            raise ValueError(f"{type(self).__name__}: there are no parameters to train. Build the network first.")
        self.steps = 0
        self._data = [p.data for p in self.parameters]
        self._gradients = [p.grad for p in self.parameters]
        roles = int(self.bnns.accumulator_count_multiplier)
        self.accumulators = [np.zeros_like(data) for _ in range(roles) for data in self._data]

    def step(self) -> None:
        """Change every parameter by one step along its gradient, all in one call."""
        if not self.parameters:
            raise RuntimeError(f"{type(self).__name__}.step: call attach(network.parameters()) first.")
        self.steps += 1
        if hasattr(self.bnns, "time_step"):
            self.bnns.time_step = self.steps
        self.bnns.step(parameters=self._data, gradients=self._gradients, accumulators=self.accumulators)

    def zero_grad(self) -> None:
        """Set every gradient to zero. Not needed before ``backward``, which overwrites."""
        for gradient in self._gradients:
            gradient[...] = 0

    def clip(self, clipping: GradientClipping) -> None:
        """Clip gradients from the next step on."""
        self.bnns.gradient_clipping = clipping

    def state_dict(self) -> dict[str, Array]:
        """Accumulators and step count, to go on later as if nothing had happened."""
        state = {f"accumulator.{i}": array for i, array in enumerate(self.accumulators)}
        state["steps"] = np.array(self.steps, np.int64)
        return state

    def load_state_dict(self, state: dict[str, Array]) -> None:
        """Take over a state of the same optimizer on the same parameters; nothing is changed if it does not fit."""
        names = [f"accumulator.{i}" for i in range(len(self.accumulators))]
        if {*names, "steps"} != set(state):
            raise ValueError(
                f"{type(self).__name__}: the state has {len(state) - 1} accumulators, but {len(names)} are needed. It belongs "
                "to another optimizer or another network."
            )
        for name, array in zip(names, self.accumulators, strict=True):
            if state[name].shape != array.shape:
                raise ValueError(f"{type(self).__name__}: {name} has shape {state[name].shape}, not {array.shape}.")
        for name, array in zip(names, self.accumulators, strict=True):
            array[...] = state[name]
        self.steps = int(state["steps"])

    def describe(self) -> dict[str, Any]:
        """Name and numbers, for reports and checkpoints."""
        return {"optimizer": type(self).__name__, "learning_rate": self.learning_rate}


class SGD(Optimizer):
    """v = momentum v + g;  W -= learning_rate v, or learning_rate (g + momentum v) with ``nesterov``.

    g is the gradient plus weight_decay W. The learning rate is 0.01 unless given.

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
        learning_rate: float | Iterable[Parameter] | None = None,
        momentum: float = 0.0,
        *,
        nesterov: bool = False,
        weight_decay: float = 0.0,
        clipping: GradientClipping | None = None,
        lr: float | None = None,
    ) -> None:
        rate, parameters = _rate("SGD", learning_rate, lr, 0.01)
        _check(
            "SGD",
            learning_rate=(rate, 0, np.inf),
            momentum=(momentum, 0, 1),
            weight_decay=(weight_decay, 0, np.inf),
        )
        super().__init__(
            SGDMomentumOptimizer(
                learning_rate=rate,
                momentum=momentum,
                uses_nesterov_momentum=nesterov,
                regularization_scale=weight_decay,
                regularization_function=_decay(weight_decay),
                sgd_momentum_variant=SGDMomentumVariant.VARIANT_1,
                gradient_clipping=clipping,
            ),
            parameters,
        )


class Adam(Optimizer):
    """m = β₁ m + (1 - β₁) g;  v = β₂ v + (1 - β₂) g²;  W -= lr √(1 - β₂ᵗ) / (1 - β₁ᵗ) m / (√v + eps).

    g is the gradient plus weight_decay W. The learning rate is 0.001 unless given.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> w, adam = nn.Parameter(np.float32([1, 2])), nn.Adam(0.1)
    >>> w.grad = np.float32([5, -0.01])
    >>> adam.attach([w])
    >>> adam.step()
    >>> print(w.data.round(4))  # the first step is the learning rate, whatever the gradient's size
    [0.9 2.1]
    """

    _weight_decay = 0.0

    @_rate_second
    def __init__(
        self,
        learning_rate: float | Iterable[Parameter] | None = None,
        betas: Sequence[float] = (0.9, 0.999),
        eps: float = 1e-8,
        *,
        weight_decay: float | None = None,
        amsgrad: bool = False,
        clipping: GradientClipping | None = None,
        lr: float | None = None,
    ) -> None:
        who = type(self).__name__
        rate, parameters = _rate(who, learning_rate, lr, 1e-3)
        decay = self._weight_decay if weight_decay is None else weight_decay
        beta1, beta2 = _betas(who, betas)
        _check(who, learning_rate=(rate, 0, np.inf), eps=(eps, 0, np.inf), weight_decay=(decay, 0, np.inf))
        made = self._make(
            rate, beta1=beta1, beta2=beta2, epsilon=eps, weight_decay=decay, gradient_clipping=clipping,
            uses_ams_grad=amsgrad,
        )  # fmt: skip
        super().__init__(made, parameters)

    def _make(self, rate: float, *, weight_decay: float, **options: Any) -> Any:
        return AdamOptimizer(
            learning_rate=rate,
            regularization_scale=weight_decay,
            regularization_function=_decay(weight_decay),
            **options,
        )


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

    def _make(self, rate: float, **options: Any) -> Any:
        return AdamWOptimizer(learning_rate=rate, **options)


class RMSprop(Optimizer):
    """n = α n + (1 - α) g²;  step = momentum step - lr g / (√n + eps);  W += step. ``centered`` subtracts the mean².

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
        learning_rate: float | Iterable[Parameter] | None = None,
        alpha: float = 0.99,
        eps: float = 1e-8,
        *,
        momentum: float = 0.0,
        centered: bool = False,
        weight_decay: float = 0.0,
        clipping: GradientClipping | None = None,
        lr: float | None = None,
    ) -> None:
        rate, parameters = _rate("RMSprop", learning_rate, lr, 0.01)
        _check(
            "RMSprop",
            learning_rate=(rate, 0, np.inf),
            alpha=(alpha, 0, 1),
            eps=(eps, 0, np.inf),
            momentum=(momentum, 0, 1),
            weight_decay=(weight_decay, 0, np.inf),
        )
        super().__init__(
            RMSPropOptimizer(
                learning_rate=rate,
                alpha=alpha,
                epsilon=eps,
                centered=centered,
                momentum=momentum,
                regularization_scale=weight_decay,
                regularization_function=_decay(weight_decay),
                gradient_clipping=clipping,
            ),
            parameters,
        )


def _decay(weight_decay: float) -> RegularizationFunction:
    return RegularizationFunction.L2 if weight_decay else RegularizationFunction.NONE


def _betas(who: str, betas: Sequence[float]) -> tuple[float, float]:
    beta1, beta2 = betas
    _check(who, beta1=(beta1, 0, 1), beta2=(beta2, 0, 1))
    return float(beta1), float(beta2)


NAMED: dict[str, type[Optimizer]] = {"adam": Adam, "adamw": AdamW, "sgd": SGD, "rmsprop": RMSprop}
