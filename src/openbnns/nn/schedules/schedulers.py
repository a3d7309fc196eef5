"""Schedules with PyTorch's names and values."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any, Literal

from ..._flags import optional_flag
from ...graph.checks import whole_number
from ..optimizer_base import Optimizer
from .scheduler import LRScheduler, number_from, positive_number, required


class LambdaLR(LRScheduler):
    """The first learning rate times ``lr_lambda(step)``; a list holds a function for every group.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> sgd = nn.SGD([nn.Parameter(np.zeros(3))], lr=0.5)
    >>> schedule = nn.LambdaLR(sgd, lambda step: 1 / (1 + step))
    >>> schedule.step()
    >>> sgd.lr
    0.25
    """

    _example = "lr_lambda=..."

    def __init__(
        self,
        optimizer: Optimizer | None = None,
        lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]] | None = None,
        last_epoch: int = -1,
    ) -> None:
        given = required(lr_lambda, "LambdaLR: lr_lambda")
        super().__init__(optimizer, last_epoch)
        self.lr_lambdas: list[Callable[[int], float]] = (
            list(given) if isinstance(given, (list, tuple)) else [given] * len(self.base_lrs)
        )
        if len(self.lr_lambdas) != len(self.base_lrs) or not all(map(callable, self.lr_lambdas)):
            raise ValueError(
                f"LambdaLR: lr_lambda is {lr_lambda!r}. Pass a function of the step, or a list of {len(self.base_lrs)}, one for "
                "each group of parameters."
            )
        self._start()

    def _rate(self, base: float, step: float, total: int | None, group: int) -> float:
        return base * float(self.lr_lambdas[group](step))  # type: ignore[arg-type]


class StepLR(LRScheduler):
    """Multiply the rate by ``gamma`` after every ``step_size`` steps.

    >>> from openbnns import nn
    >>> schedule = nn.StepLR(step_size=3, gamma=0.5)  # for a trainer
    >>> [schedule(step, 100) for step in (0, 2, 3, 6)]
    [1.0, 1.0, 0.5, 0.25]
    """

    _example = "step_size=30"

    def __init__(
        self, optimizer: Optimizer | None = None, step_size: int | None = None, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        super().__init__(optimizer, last_epoch)
        self.step_size = whole_number(required(step_size, "StepLR: step_size"), "StepLR: step_size", 1)
        self.gamma = positive_number(gamma, "StepLR: gamma")
        self._start()

    def _rate(self, base: float, step: float, total: int | None, group: int) -> float:
        return float(base * self.gamma ** (step // self.step_size))


class MultiStepLR(LRScheduler):
    """Multiply the rate by ``gamma`` at each of the ``milestones``.

    >>> from openbnns import nn
    >>> schedule = nn.MultiStepLR(milestones=[30, 80], gamma=0.5)
    >>> [schedule(step, 100) for step in (0, 29, 30, 80)]
    [1.0, 1.0, 0.5, 0.25]
    """

    _example = "milestones=[30, 80]"

    def __init__(
        self,
        optimizer: Optimizer | None = None,
        milestones: Sequence[int] | None = None,
        gamma: float = 0.1,
        last_epoch: int = -1,
    ) -> None:
        super().__init__(optimizer, last_epoch)
        given = required(milestones, "MultiStepLR: milestones")
        self.milestones = sorted(whole_number(step, "MultiStepLR: a milestone", 0) for step in given)
        self.gamma = positive_number(gamma, "MultiStepLR: gamma")
        self._start()

    def _rate(self, base: float, step: float, total: int | None, group: int) -> float:
        return float(base * self.gamma ** bisect_right(self.milestones, step))


class ConstantLR(LRScheduler):
    """Multiply the rate by ``factor`` for the first ``total_iters`` steps.

    >>> from openbnns import nn
    >>> schedule = nn.ConstantLR(factor=0.5, total_iters=4)
    >>> [schedule(step, 100) for step in (0, 3, 4)]
    [0.5, 0.5, 1.0]
    """

    _example = "factor=0.5, total_iters=4"

    def __init__(
        self, optimizer: Optimizer | None = None, factor: float = 1 / 3, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        super().__init__(optimizer, last_epoch)
        self.factor = number_from(factor, "ConstantLR: factor", 0, 1)
        self.total_iters = whole_number(total_iters, "ConstantLR: total_iters", 0)
        self._start()

    def _rate(self, base: float, step: float, total: int | None, group: int) -> float:
        return base * (self.factor if step < self.total_iters else 1.0)


class LinearLR(LRScheduler):
    """Multiply the rate by a factor that goes from ``start_factor`` to ``end_factor`` in ``total_iters`` steps: a warm-up.

    >>> from openbnns import nn
    >>> schedule = nn.LinearLR(start_factor=0.5, total_iters=4)
    >>> [schedule(step, 100) for step in (0, 1, 2, 4, 9)]
    [0.5, 0.625, 0.75, 1.0, 1.0]
    """

    _example = "start_factor=0.1, total_iters=5"

    def __init__(
        self,
        optimizer: Optimizer | None = None,
        start_factor: float = 1 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        super().__init__(optimizer, last_epoch)
        if positive_number(start_factor, "LinearLR: start_factor") > 1:
            raise ValueError(f"LinearLR: start_factor is {start_factor}. It must be above 0 and at most 1.")
        self.start_factor = float(start_factor)
        self.end_factor = number_from(end_factor, "LinearLR: end_factor", 0, 1)
        self.total_iters = whole_number(total_iters, "LinearLR: total_iters", 1)
        self._start()

    def _rate(self, base: float, step: float, total: int | None, group: int) -> float:
        done = min(step, self.total_iters) / self.total_iters
        return base * (self.start_factor + (self.end_factor - self.start_factor) * done)


class ExponentialLR(LRScheduler):
    """Multiply the rate by ``gamma`` after every step.

    >>> from openbnns import nn
    >>> schedule = nn.ExponentialLR(gamma=0.5)
    >>> [schedule(step, 100) for step in (0, 1, 2)]
    [1.0, 0.5, 0.25]
    """

    _example = "gamma=0.99"

    def __init__(self, optimizer: Optimizer | None = None, gamma: float | None = None, last_epoch: int = -1) -> None:
        super().__init__(optimizer, last_epoch)
        self.gamma = positive_number(required(gamma, "ExponentialLR: gamma"), "ExponentialLR: gamma")
        self._start()

    def _rate(self, base: float, step: float, total: int | None, group: int) -> float:
        return float(base * self.gamma**step)


class PolynomialLR(LRScheduler):
    """Lower the rate to 0 in ``total_iters`` steps, as (1 - step / total_iters) to the ``power``.

    >>> from openbnns import nn
    >>> schedule = nn.PolynomialLR(total_iters=4, power=2.0)
    >>> [schedule(step, 100) for step in (0, 1, 2, 4, 9)]
    [1.0, 0.5625, 0.25, 0.0, 0.0]
    """

    _example = "total_iters=100"

    def __init__(
        self, optimizer: Optimizer | None = None, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1
    ) -> None:
        super().__init__(optimizer, last_epoch)
        self.total_iters = whole_number(total_iters, "PolynomialLR: total_iters", 1)
        self.power = positive_number(power, "PolynomialLR: power")
        self._start()

    def _rate(self, base: float, step: float, total: int | None, group: int) -> float:
        return float(base * (1.0 - min(step, self.total_iters) / self.total_iters) ** self.power)


class CosineAnnealingLR(LRScheduler):
    """Lower the rate to ``eta_min`` along half a cosine of ``T_max`` steps, and raise it again in the next ``T_max``.

    >>> from openbnns import nn
    >>> schedule = nn.CosineAnnealingLR(T_max=100)
    >>> [round(schedule(step, 100), 6) for step in (0, 25, 50, 100)]
    [1.0, 0.853553, 0.5, 0.0]
    """

    _example = "T_max=100"

    def __init__(
        self, optimizer: Optimizer | None = None, T_max: int | None = None, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        super().__init__(optimizer, last_epoch)
        self.T_max = whole_number(required(T_max, "CosineAnnealingLR: T_max"), "CosineAnnealingLR: T_max", 1)
        self.eta_min = _lowest(self, eta_min)
        self._multiplies = not self.eta_min
        self._start()

    def _rate(self, base: float, step: float, total: int | None, group: int) -> float:
        return _along_cosine(base, self.eta_min, step / self.T_max)


class CosineAnnealingWarmRestarts(LRScheduler):
    """Down to ``eta_min`` along half a cosine of ``T_0`` steps, then again from the top, ``T_mult`` times as long each time.

    ``step(epoch)`` takes fractions of an epoch, as in PyTorch.

    >>> from openbnns import nn
    >>> schedule = nn.CosineAnnealingWarmRestarts(T_0=2, T_mult=2)
    >>> [round(schedule(step, 100), 6) for step in range(7)]
    [1.0, 0.5, 1.0, 0.853553, 0.5, 0.146447, 1.0]
    """

    _example = "T_0=10"

    def __init__(
        self,
        optimizer: Optimizer | None = None,
        T_0: int | None = None,
        T_mult: int = 1,
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        super().__init__(optimizer, last_epoch)
        who = "CosineAnnealingWarmRestarts"
        self.T_0 = whole_number(required(T_0, f"{who}: T_0"), f"{who}: T_0", 1)
        self.T_mult = whole_number(T_mult, f"{who}: T_mult", 1)
        self.eta_min = _lowest(self, eta_min)
        self._multiplies = not self.eta_min
        self._start()

    def _rate(self, base: float, step: float, total: int | None, group: int) -> float:
        if step < 0:
            raise ValueError(f"CosineAnnealingWarmRestarts: the epoch is {step}. It must be at least 0.")
        if self.T_mult == 1:
            return _along_cosine(base, self.eta_min, step % self.T_0 / self.T_0)
        length = self.T_0
        while step >= length:
            step -= length
            length *= self.T_mult
        return _along_cosine(base, self.eta_min, step / length)


class OneCycleLR(LRScheduler):
    """From ``max_lr`` / ``div_factor`` up to ``max_lr`` in ``pct_start`` of all steps, then far down.

    The end is the first learning rate divided by ``final_div_factor``. With ``three_phase`` the way down is as long as the way
    up, and the rest goes to the end. The number of steps is ``total_steps``, or ``epochs`` times ``steps_per_epoch``.
    ``cycle_momentum`` moves the momentum (or the first beta) the other way, from ``max_momentum`` to ``base_momentum`` and
    back. For a trainer leave the optimizer out: then the maximum is the optimizer's own learning rate, the number of steps
    may be left out, and the momentum stays as it is.

    >>> from openbnns import nn
    >>> schedule = nn.OneCycleLR(div_factor=10, anneal_strategy="linear")
    >>> [round(schedule(step, 101), 4) for step in (0, 15, 29, 100)]
    [0.1, 0.5608, 0.9908, 0.0]
    """

    _example = "total_steps=1000"
    _multiplies = False

    def __init__(
        self,
        optimizer: Optimizer | None = None,
        max_lr: float | Sequence[float] | None = None,
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: Literal["cos", "linear"] = "cos",
        cycle_momentum: bool | None = None,
        base_momentum: float = 0.85,
        max_momentum: float = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        super().__init__(optimizer, last_epoch)
        self.total_steps = self._count(total_steps, epochs, steps_per_epoch)
        self.pct_start = number_from(pct_start, "OneCycleLR: pct_start", 0, 1)
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"OneCycleLR: anneal_strategy is {anneal_strategy!r}. Use 'cos' or 'linear'.")
        self.anneal_strategy, self.three_phase = anneal_strategy, bool(three_phase)
        self.div_factor = positive_number(div_factor, "OneCycleLR: div_factor")
        self.final_div_factor = positive_number(final_div_factor, "OneCycleLR: final_div_factor")
        self.base_momentum = number_from(base_momentum, "OneCycleLR: base_momentum", 0, 1)
        self.max_momentum = number_from(max_momentum, "OneCycleLR: max_momentum", 0, 1)
        self.max_lrs = self._maxima(max_lr)
        cycles = optional_flag(cycle_momentum, "OneCycleLR: cycle_momentum")
        self.cycle_momentum = optimizer is not None if cycles is None else cycles
        self._momentum = self._name_of_momentum() if self.cycle_momentum else ""
        if optimizer is not None:
            if last_epoch == -1:
                for group, top in zip(optimizer.param_groups, self.max_lrs, strict=True):
                    group.initial_rate = top / self.div_factor
            self.base_lrs = [float(group["initial_lr"]) for group in optimizer.param_groups]
        self._start()

    def _count(self, total: int | None, epochs: int | None, each: int | None) -> int | None:
        if total is not None:
            return whole_number(total, "OneCycleLR: total_steps", 2)
        if epochs is not None and each is not None:
            count = whole_number(epochs, "OneCycleLR: epochs", 1) * whole_number(each, "OneCycleLR: steps_per_epoch", 1)
            return whole_number(count, "OneCycleLR: epochs times steps_per_epoch", 2)
        if self.optimizer is None and epochs is None and each is None:
            return None
        raise ValueError("OneCycleLR: the number of steps is missing. Give total_steps, or epochs and steps_per_epoch.")

    def _maxima(self, max_lr: Any) -> list[float]:
        if self.optimizer is None:
            if max_lr is not None:
                raise ValueError(
                    "OneCycleLR: without an optimizer the maximum is the learning rate of the trainer's. Leave max_lr out, or "
                    "pass the optimizer first."
                )
            return [1.0]
        given = required(max_lr, "OneCycleLR: max_lr")
        listed = list(given) if isinstance(given, (list, tuple)) else [given] * len(self.base_lrs)
        if len(listed) != len(self.base_lrs):
            raise ValueError(
                f"OneCycleLR: max_lr has {len(listed)} numbers, but the optimizer has {len(self.base_lrs)} groups of parameters."
            )
        return [positive_number(rate, "OneCycleLR: max_lr") for rate in listed]

    def _name_of_momentum(self) -> str:
        if self.optimizer is None:
            raise ValueError(
                "OneCycleLR: a trainer sets the learning rate alone, so the momentum cannot be cycled. Leave cycle_momentum out."
            )
        for name in ("momentum", "betas"):
            if all(name in group and group[name] for group in self.optimizer.param_groups):
                return name
        raise ValueError(
            f"OneCycleLR: {type(self.optimizer).__name__} has no momentum to cycle. Give it one, or pass cycle_momentum=False."
        )

    def __call__(self, step: int, total: int) -> float:
        if self.cycle_momentum:
            raise ValueError(
                "OneCycleLR: a trainer sets the learning rate alone, so the momentum cannot be cycled. Pass "
                "cycle_momentum=False."
            )
        return super().__call__(step, total)

    def _between(self, step: float, total: int | None, low: float, high: float, rest: float) -> float:
        """The value at a step: from low to high and back, and then, or on the way, to the rest."""
        steps = self.total_steps or total or 2
        if step > steps:
            raise ValueError(
                f"OneCycleLR: this is step {step}, but there are {steps} in all. Make it for more of them."
            )
        last = steps - 1.0
        top = self.pct_start * steps - 1.0
        phases = [(top, low, high), (last, high, rest)]
        if self.three_phase:
            phases = [(top, low, high), (2.0 * self.pct_start * steps - 2.0, high, low), (last, low, rest)]
        begin = 0.0
        for number, (end, start, stop) in enumerate(phases, 1):
            if step <= end or number == len(phases):
                done = min((step - begin) / (end - begin), 1.0) if end != begin else 1.0
                if self.anneal_strategy == "cos":
                    return stop + (start - stop) / 2.0 * (math.cos(math.pi * done) + 1.0)
                return (stop - start) * done + start
            begin = end
        raise AssertionError

    def _rate(self, base: float, step: float, total: int | None, group: int) -> float:
        top = self.max_lrs[group]
        first = top / self.div_factor
        return self._between(step, total, first, top, first / self.final_div_factor)

    def _set(self) -> None:
        super()._set()
        if self._momentum:
            assert self.optimizer is not None
            high = self.max_momentum
            value = self._between(self.last_epoch, None, high, self.base_momentum, high)
            for group in self.optimizer.param_groups:
                group[self._momentum] = value if self._momentum == "momentum" else (value, *group["betas"][1:])


def _along_cosine(base: float, lowest: float, done: float) -> float:
    return lowest + (base - lowest) * (1.0 + math.cos(math.pi * done)) / 2.0


def _lowest(schedule: LRScheduler, eta_min: Any) -> float:
    who = type(schedule).__name__
    value = number_from(eta_min, f"{who}: eta_min", 0)
    if value and schedule.optimizer is None:
        raise ValueError(
            f"{who}: eta_min is a learning rate, so it needs the optimizer that others belong to. Pass the optimizer first, or "
            "use nn.schedules.cosine(end=...), whose end is a share of the learning rate."
        )
    return value
