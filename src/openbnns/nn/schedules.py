"""Learning rates over time.

A schedule is a function (step, total steps) -> factor of the learning rate, which a trainer calls before every step: one of
the classes with PyTorch's names, or any other function. The classes can be stepped by hand, too: ``schedule.step()`` sets
the learning rates of the optimizer that it was made with.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any, Literal

from .._flags import optional_flag, with_flags
from .._listing import of_module as _of_module
from .._plural import plural
from .._spelling import elsewhere, nearest, spelled
from ..graph.checks import whole_number
from .optimizer_base import Optimizer

__all__ = [
    "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "ExponentialLR", "LRScheduler",
    "LambdaLR", "LinearLR", "MultiStepLR", "NAMED", "OneCycleLR", "PolynomialLR", "ReduceLROnPlateau", "Schedule",
    "ScheduleName", "SequentialLR", "StepLR",
]  # fmt: skip

Schedule = Callable[[int, int], float]
"""(step, total steps) -> factor of the learning rate; steps count from 0."""

ScheduleName = Literal["constant", "step", "cosine", "warmup", "warmup_cosine"]


class LRScheduler:
    """Base of the schedules with PyTorch's names. A subclass gives the learning rate of a step in ``rate``.

    Made with an optimizer, it sets the learning rate of every group at once, and again at every ``step()``, as in
    PyTorch. ``nn.Trainer(schedule=...)`` takes it with the trainer's own optimizer, or made without one, by names:
    ``nn.StepLR(step_size=30)``; then it multiplies the learning rate of the trainer's optimizer. A trainer's steps are
    batches.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> sgd = nn.SGD([nn.Parameter(np.zeros(3))], lr=1.0)
    >>> schedule = nn.StepLR(sgd, step_size=2, gamma=0.5)
    >>> rates = []
    >>> for epoch in range(5):
    ...     rates.append(sgd.lr)
    ...     schedule.step()
    >>> rates
    [1.0, 1.0, 0.5, 0.5, 0.25]
    """

    _multiplies = True  # whether rates are the first one times a factor that does not depend on it

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "__init__" in cls.__dict__:
            init: Any = elsewhere(last_epoch="Load the state of the schedule before: load_state_dict.")(cls.__init__)
            cls.__init__ = with_flags(init, spelled(init))  # type: ignore[method-assign]

    def __init__(self, optimizer: Optimizer | None) -> None:
        _check_optimizer(self, optimizer)
        self.optimizer, self.steps, self.base_lrs = optimizer, 0.0, [1.0]
        if optimizer is not None:
            for group in optimizer.param_groups:  # an earlier schedule may have changed what it began with
                group.initial_rate = group["lr"] if group.initial_rate is None else group.initial_rate
            self.base_lrs = [float(group.initial_rate or 0.0) for group in optimizer.param_groups]

    def rate(self, base: float, step: float, total: int | None, group: int) -> float:
        """The learning rate of group number ``group`` at a step, for a first one of ``base``.

        ``total`` is the number of steps of a trainer's run; by hand it is not known.
        """
        raise NotImplementedError

    def __call__(self, step: int, total: int) -> float:
        """The factor of the learning rate at this step of a trainer's run."""
        who = type(self).__name__
        if self.optimizer is None:
            return self.rate(1.0, step, total, 0)
        if self.steps:
            raise RuntimeError(f"{who}: step() was called by hand. Make a new schedule for the trainer.")
        first = [self.rate(base, 0, total, i) for i, base in enumerate(self.base_lrs)]
        if not all(first):
            raise ValueError(f"{who}: the first learning rate is 0. For a trainer, make it without the optimizer.")
        factors = [self.rate(base, step, total, i) / first[i] for i, base in enumerate(self.base_lrs)]
        if not all(math.isclose(factor, factors[0], rel_tol=1e-9) for factor in factors):
            raise ValueError(f"{who}: groups of parameters get different factors. Write a loop that calls step().")
        return factors[0]

    def step(self, epoch: float | None = None) -> None:
        """Go to the next step, or to ``epoch``, and set the learning rates of the optimizer."""
        if self.optimizer is None:
            raise RuntimeError(
                f"{type(self).__name__}.step: it was made without an optimizer, for a trainer. Pass one."
            )
        before, self.steps = self.steps, self.steps + 1 if epoch is None else epoch
        try:
            self._set()
        except ValueError:
            self.steps = before
            raise

    def _set(self) -> None:
        """Set the learning rates of the present step; the end of every ``__init__``."""
        if self.optimizer is None:
            return
        groups = self.optimizer.param_groups
        if len(groups) != len(self.base_lrs):
            raise ValueError(
                f"{type(self).__name__}: the optimizer has {len(groups)} groups, but had {len(self.base_lrs)} when the schedule "
                "was made. Make the schedule after the last group was added."
            )
        rates = [self.rate(base, self.steps, None, i) for i, base in enumerate(self.base_lrs)]
        for group, rate in zip(groups, rates, strict=True):
            group["lr"] = rate
        self._rates = rates

    def get_last_lr(self) -> list[float]:
        """The learning rates that it has set last, group by group."""
        return list(self._rates)

    def state_dict(self) -> dict[str, Any]:
        """The state in plain numbers."""
        return {"steps": self.steps, "base_lrs": list(self.base_lrs)}

    @spelled
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue from such a state; the learning rates of the optimizer are set."""
        who = type(self).__name__
        _check_state(who, state_dict, self.state_dict())
        if len(state_dict["base_lrs"]) != len(self.base_lrs):
            raise ValueError(f"{who}: the state is of {len(state_dict['base_lrs'])} groups, not {len(self.base_lrs)}.")
        self.steps, self.base_lrs = state_dict["steps"], [float(rate) for rate in state_dict["base_lrs"]]
        self._set()


# Checks of arguments.


def _check_optimizer(schedule: object, optimizer: Any) -> None:
    if optimizer is not None and not isinstance(optimizer, Optimizer):
        who = type(schedule).__name__
        named = [f"{name}=..." for name in signature(type(schedule)).parameters if name != "optimizer"]
        raise TypeError(
            f"{who}: the optimizer is {optimizer!r}. Pass an optimizer first, or for a trainer none at all and everything else "
            f"by name: {who}({', '.join(named[:1])})."
        )


def _for_groups(value: Any, who: str, optimizer: Optimizer | None) -> list[Any]:
    """A value for each group of parameters, from a list of them or from one for all."""
    count = 1 if optimizer is None else len(optimizer.param_groups)
    listed = list(value) if isinstance(value, (list, tuple)) else [value] * count
    if len(listed) != count:
        raise ValueError(
            f"{who} is a list of {len(listed)}, but the optimizer has {plural(count, 'group')}. Pass one for all, or one each."
        )
    return listed


def _check_state(who: str, state: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    if set(state) != set(own):
        raise ValueError(
            f"{who}: the state holds {', '.join(sorted(state)) or 'nothing'}, but {', '.join(sorted(own))} are needed. It "
            "belongs to another schedule."
        )


def _number(value: Any, who: str, low: float = 0.0, high: float = math.inf, *, above: bool = False) -> float:
    """A number from low to high, or above low."""
    if value is None:
        raise TypeError(f"{who} is missing.")
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{who} must be a number, not {value!r}.")
    if not low <= value <= high or not math.isfinite(value) or (above and value == low):
        limits = f"above {low:g}" if above else f"at least {low:g}"
        raise ValueError(
            f"{who} is {value}. It must be {limits}{'' if high == math.inf else f' and at most {high:g}'}."
        )
    return float(value)


def _count(value: Any, who: str, least: int = 1) -> int:
    if value is None:
        raise TypeError(f"{who} is missing.")
    return whole_number(value, who, least)


def _lowest(schedule: LRScheduler, eta_min: Any) -> float:
    who = f"{type(schedule).__name__}: eta_min"
    value = _number(eta_min, who)
    if value and schedule.optimizer is None:
        raise ValueError(f"{who} is a learning rate, so it needs the optimizer that others belong to. Pass it first.")
    return value


def _of_run(schedule: LRScheduler, total: int | None, name: str) -> int:
    """The number of steps of a trainer's run."""
    if total is None:
        raise ValueError(
            f"{type(schedule).__name__}: {name} is missing, and may be left out only for a trainer. Give it."
        )
    return max(total, 1)


# Schedules that multiply the first rate.


class LambdaLR(LRScheduler):
    """The first learning rate times ``lr_lambda(step)``; a list holds a function for every group.

    >>> from openbnns import nn
    >>> schedule = nn.LambdaLR(lr_lambda=lambda step: 1 / (1 + step))
    >>> [schedule(step, 100) for step in (0, 1, 3)]
    [1.0, 0.5, 0.25]
    """

    def __init__(
        self,
        optimizer: Optimizer | None = None,
        lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]] | None = None,
    ) -> None:
        super().__init__(optimizer)
        self.lr_lambdas = _for_groups(lr_lambda, "LambdaLR: lr_lambda", optimizer)
        if not all(map(callable, self.lr_lambdas)):
            raise TypeError(f"LambdaLR: lr_lambda is {lr_lambda!r}. Pass a function of the step, or a list of them.")
        self._set()

    def rate(self, base: float, step: float, total: int | None, group: int) -> float:
        return base * float(self.lr_lambdas[group](step))


class StepLR(LRScheduler):
    """Multiply the rate by ``gamma`` after every ``step_size`` steps; for a trainer, after every third of its run if left out.

    >>> from openbnns import nn
    >>> [nn.StepLR(step_size=3, gamma=0.5)(step, 100) for step in (0, 2, 3, 6)]
    [1.0, 1.0, 0.5, 0.25]
    """

    def __init__(self, optimizer: Optimizer | None = None, step_size: int | None = None, gamma: float = 0.1) -> None:
        super().__init__(optimizer)
        self.step_size = None if step_size is None and optimizer is None else _count(step_size, "StepLR: step_size")
        self.gamma = _number(gamma, "StepLR: gamma", above=True)
        self._set()

    def rate(self, base: float, step: float, total: int | None, group: int) -> float:
        length = self.step_size or max(_of_run(self, total, "step_size") * (1 / 3), 1)
        return float(base * self.gamma ** int(step / length))


class MultiStepLR(LRScheduler):
    """Multiply the rate by ``gamma`` at each of the ``milestones``.

    >>> from openbnns import nn
    >>> [nn.MultiStepLR(milestones=[30, 80], gamma=0.5)(step, 100) for step in (0, 29, 30, 80)]
    [1.0, 1.0, 0.5, 0.25]
    """

    def __init__(
        self, optimizer: Optimizer | None = None, milestones: Sequence[int] | None = None, gamma: float = 0.1
    ) -> None:
        super().__init__(optimizer)
        given: Any = [None] if milestones is None else milestones
        self.milestones = sorted(_count(step, "MultiStepLR: a milestone", 0) for step in given)
        self.gamma = _number(gamma, "MultiStepLR: gamma", above=True)
        self._set()

    def rate(self, base: float, step: float, total: int | None, group: int) -> float:
        return float(base * self.gamma ** bisect_right(self.milestones, step))


class ConstantLR(LRScheduler):
    """Multiply the rate by ``factor`` for the first ``total_iters`` steps.

    >>> from openbnns import nn
    >>> [nn.ConstantLR(factor=0.5, total_iters=4)(step, 100) for step in (0, 3, 4)]
    [0.5, 0.5, 1.0]
    """

    def __init__(self, optimizer: Optimizer | None = None, factor: float = 1 / 3, total_iters: int = 5) -> None:
        super().__init__(optimizer)
        self.factor = _number(factor, "ConstantLR: factor", 0, 1)
        self.total_iters = _count(total_iters, "ConstantLR: total_iters", 0)
        self._set()

    def rate(self, base: float, step: float, total: int | None, group: int) -> float:
        return base * (self.factor if step < self.total_iters else 1.0)


class LinearLR(LRScheduler):
    """Multiply the rate by a factor that goes from ``start_factor`` to ``end_factor`` in ``total_iters`` steps: a warm-up.

    >>> from openbnns import nn
    >>> [nn.LinearLR(start_factor=0.5, total_iters=4)(step, 100) for step in (0, 1, 2, 4, 9)]
    [0.5, 0.625, 0.75, 1.0, 1.0]
    """

    def __init__(
        self,
        optimizer: Optimizer | None = None,
        start_factor: float = 1 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
    ) -> None:
        super().__init__(optimizer)
        self.start_factor = _number(start_factor, "LinearLR: start_factor", 0, 1, above=True)
        self.end_factor = _number(end_factor, "LinearLR: end_factor", 0, 1)
        self.total_iters = _count(total_iters, "LinearLR: total_iters")
        self._set()

    def rate(self, base: float, step: float, total: int | None, group: int) -> float:
        done = min(step, self.total_iters) / self.total_iters
        return base * (self.start_factor + (self.end_factor - self.start_factor) * done)


class ExponentialLR(LRScheduler):
    """Multiply the rate by ``gamma`` after every step.

    >>> from openbnns import nn
    >>> [nn.ExponentialLR(gamma=0.5)(step, 100) for step in (0, 1, 2)]
    [1.0, 0.5, 0.25]
    """

    def __init__(self, optimizer: Optimizer | None = None, gamma: float | None = None) -> None:
        super().__init__(optimizer)
        self.gamma = _number(gamma, "ExponentialLR: gamma", above=True)
        self._set()

    def rate(self, base: float, step: float, total: int | None, group: int) -> float:
        return float(base * self.gamma**step)


class PolynomialLR(LRScheduler):
    """Lower the rate to 0 in ``total_iters`` steps, as (1 - step / total_iters) to the ``power``.

    >>> from openbnns import nn
    >>> [nn.PolynomialLR(total_iters=4, power=2.0)(step, 100) for step in (0, 1, 2, 4, 9)]
    [1.0, 0.5625, 0.25, 0.0, 0.0]
    """

    def __init__(self, optimizer: Optimizer | None = None, total_iters: int = 5, power: float = 1.0) -> None:
        super().__init__(optimizer)
        self.total_iters = _count(total_iters, "PolynomialLR: total_iters")
        self.power = _number(power, "PolynomialLR: power", above=True)
        self._set()

    def rate(self, base: float, step: float, total: int | None, group: int) -> float:
        return float(base * (1.0 - min(step, self.total_iters) / self.total_iters) ** self.power)


# Cosines.


class CosineAnnealingLR(LRScheduler):
    """Lower the rate to ``eta_min`` along half a cosine of ``T_max`` steps, and raise it again in the next ``T_max``.

    For a trainer, ``T_max`` may be left out: it is then the number of steps of the run.

    >>> from openbnns import nn
    >>> [round(nn.CosineAnnealingLR(T_max=100)(step, 100), 6) for step in (0, 25, 50, 100)]
    [1.0, 0.853553, 0.5, 0.0]
    """

    def __init__(self, optimizer: Optimizer | None = None, T_max: int | None = None, eta_min: float = 0.0) -> None:
        super().__init__(optimizer)
        self.T_max = None if T_max is None else _count(T_max, "CosineAnnealingLR: T_max")
        self.eta_min = _lowest(self, eta_min)
        self._multiplies = not self.eta_min
        self._set()

    def rate(self, base: float, step: float, total: int | None, group: int) -> float:
        return _along_cosine(base, self.eta_min, step / (self.T_max or _of_run(self, total, "T_max")))


class CosineAnnealingWarmRestarts(LRScheduler):
    """Down to ``eta_min`` along half a cosine of ``T_0`` steps, then again from the top, ``T_mult`` times as long each time.

    ``step(epoch)`` takes fractions of an epoch, as in PyTorch.

    >>> from openbnns import nn
    >>> schedule = nn.CosineAnnealingWarmRestarts(T_0=2, T_mult=2)
    >>> [round(schedule(step, 100), 6) for step in range(7)]
    [1.0, 0.5, 1.0, 0.853553, 0.5, 0.146447, 1.0]
    """

    def __init__(
        self, optimizer: Optimizer | None = None, T_0: int | None = None, T_mult: int = 1, eta_min: float = 0.0
    ) -> None:
        super().__init__(optimizer)
        self.T_0 = _count(T_0, "CosineAnnealingWarmRestarts: T_0")
        self.T_mult = _count(T_mult, "CosineAnnealingWarmRestarts: T_mult")
        self.eta_min = _lowest(self, eta_min)
        self._multiplies = not self.eta_min
        self._set()

    def rate(self, base: float, step: float, total: int | None, group: int) -> float:
        if step < 0:
            raise ValueError(f"CosineAnnealingWarmRestarts: the epoch is {step}. It must be at least 0.")
        length = self.T_0
        if self.T_mult == 1:
            step %= length
        while step >= length:
            step, length = step - length, length * self.T_mult
        return _along_cosine(base, self.eta_min, step / length)


def _along_cosine(begin: float, end: float, done: float) -> float:
    return end + (begin - end) * (1.0 + math.cos(math.pi * done)) / 2.0


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
    ) -> None:
        super().__init__(optimizer)
        if epochs is not None and steps_per_epoch is not None and total_steps is None:
            total_steps = _count(epochs, "OneCycleLR: epochs") * _count(steps_per_epoch, "OneCycleLR: steps_per_epoch")
        if total_steps is None and (optimizer, epochs, steps_per_epoch) != (None, None, None):
            raise ValueError(
                "OneCycleLR: the number of steps is missing. Give total_steps, or epochs and steps_per_epoch."
            )
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"OneCycleLR: anneal_strategy is {anneal_strategy!r}. Use 'cos' or 'linear'.")
        if optimizer is None and max_lr is not None:
            raise ValueError(
                "OneCycleLR: without an optimizer the maximum is the learning rate of the trainer's. Leave max_lr out, or pass "
                "the optimizer first."
            )
        self.total_steps = None if total_steps is None else _count(total_steps, "OneCycleLR: total_steps", 2)
        self.pct_start = _number(pct_start, "OneCycleLR: pct_start", 0, 1)
        self.anneal_strategy, self.three_phase = anneal_strategy, bool(three_phase)
        self.div_factor = _number(div_factor, "OneCycleLR: div_factor", above=True)
        self.final_div_factor = _number(final_div_factor, "OneCycleLR: final_div_factor", above=True)
        self.base_momentum = _number(base_momentum, "OneCycleLR: base_momentum", 0, 1)
        self.max_momentum = _number(max_momentum, "OneCycleLR: max_momentum", 0, 1)
        tops = _for_groups(1.0 if optimizer is None else max_lr, "OneCycleLR: max_lr", optimizer)
        self.max_lrs = [_number(rate, "OneCycleLR: max_lr", above=True) for rate in tops]
        cycles = optional_flag(cycle_momentum, "OneCycleLR: cycle_momentum")
        self.cycle_momentum = optimizer is not None if cycles is None else cycles
        self._momentum = self._name_of_momentum() if self.cycle_momentum else ""
        if optimizer is not None:
            self.base_lrs = [top / self.div_factor for top in self.max_lrs]
        self._set()

    def _name_of_momentum(self) -> str:
        if self.optimizer is None:
            raise ValueError("OneCycleLR: a trainer sets the learning rate alone. Leave cycle_momentum out.")
        for name in ("momentum", "betas"):
            if all(name in group and group[name] for group in self.optimizer.param_groups):
                return name
        who = type(self.optimizer).__name__
        raise ValueError(f"OneCycleLR: {who} has no momentum to cycle. Give it one, or pass cycle_momentum=False.")

    def __call__(self, step: int, total: int) -> float:
        if self.cycle_momentum:
            raise ValueError("OneCycleLR: a trainer sets the learning rate alone. Pass cycle_momentum=False.")
        return super().__call__(step, total)

    def _between(self, step: float, total: int | None, low: float, high: float, rest: float) -> float:
        """The value at a step: from low to high and back, and then, or on the way, to the rest."""
        steps = self.total_steps or total or 2
        if step > steps:
            raise ValueError(
                f"OneCycleLR: this is step {step:g}, but there are {steps} in all. Make it for more of them."
            )
        last, top = steps - 1.0, self.pct_start * steps - 1.0
        phases = [(top, low, high), (last, high, rest)]
        if self.three_phase:
            phases = [(top, low, high), (2.0 * self.pct_start * steps - 2.0, high, low), (last, low, rest)]
        begin, (end, start, stop) = 0.0, phases.pop(0)
        while phases and step > end:
            begin, (end, start, stop) = end, phases.pop(0)
        done = min((step - begin) / (end - begin), 1.0) if end != begin else 1.0
        return _along_cosine(start, stop, done) if self.anneal_strategy == "cos" else (stop - start) * done + start

    def rate(self, base: float, step: float, total: int | None, group: int) -> float:
        top = self.max_lrs[group]
        return self._between(step, total, top / self.div_factor, top, top / self.div_factor / self.final_div_factor)

    def _set(self) -> None:
        super()._set()
        if self._momentum and self.optimizer is not None:
            value = self._between(self.steps, None, self.max_momentum, self.base_momentum, self.max_momentum)
            for group in self.optimizer.param_groups:
                group[self._momentum] = value if self._momentum == "momentum" else (value, *group["betas"][1:])


# Schedules of schedules.


class SequentialLR(LRScheduler):
    """One schedule after the other: the next begins at each of the ``milestones``, with its own first step.

    >>> from openbnns import nn
    >>> parts = [nn.LinearLR(start_factor=0.5, total_iters=2), nn.ExponentialLR(gamma=0.5)]
    >>> [nn.SequentialLR(schedulers=parts, milestones=[2])(step, 100) for step in range(5)]
    [0.5, 0.75, 1.0, 0.5, 0.25]
    """

    def __init__(
        self,
        optimizer: Optimizer | None = None,
        schedulers: Sequence[LRScheduler] = (),
        milestones: Sequence[int] = (),
    ) -> None:
        super().__init__(optimizer)
        self.schedulers = _parts(self, schedulers)
        self.milestones = [_count(step, "SequentialLR: a milestone") for step in milestones]
        if len(self.milestones) != len(self.schedulers) - 1 or self.milestones != sorted(set(self.milestones)):
            raise ValueError(
                f"SequentialLR: milestones are {list(milestones)}. {len(self.schedulers)} schedules need "
                f"{len(self.schedulers) - 1}, each later than the one before."
            )
        self._multiplies = all(part._multiplies for part in self.schedulers)
        self._set()

    def rate(self, base: float, step: float, total: int | None, group: int) -> float:
        number = bisect_right(self.milestones, step)
        begin = self.milestones[number - 1] if number else 0
        return self.schedulers[number].rate(base, step - begin, None if total is None else total - begin, group)


class ChainedScheduler(LRScheduler):
    """Several schedules at once: the product of their factors.

    >>> from openbnns import nn
    >>> schedule = nn.ChainedScheduler([nn.LinearLR(start_factor=0.5, total_iters=2), nn.ExponentialLR(gamma=0.5)])
    >>> [schedule(step, 100) for step in range(4)]
    [0.5, 0.375, 0.25, 0.125]
    """

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        own = [part.optimizer for part in schedulers if isinstance(part, LRScheduler) and part.optimizer is not None]
        super().__init__(next(iter(own), None) if optimizer is None else optimizer)
        self.schedulers = _parts(self, schedulers)
        unfit = [type(part).__name__ for part in self.schedulers if not part._multiplies]
        if unfit:
            raise ValueError(
                f"ChainedScheduler: {unfit[0]} has learning rates of its own instead of a factor. Use SequentialLR, or eta_min=0."
            )
        self._set()

    def rate(self, base: float, step: float, total: int | None, group: int) -> float:
        for part in self.schedulers:
            base = part.rate(base, step, total, group)
        return base


def _parts(whole: LRScheduler, given: Sequence[LRScheduler]) -> list[LRScheduler]:
    """Schedules of the same optimizer, or of none."""
    who, parts = type(whole).__name__, list(given)
    if not parts:
        raise ValueError(f"{who}: there are no schedules. Pass a list of them.")
    for part in parts:
        if not isinstance(part, LRScheduler):
            raise TypeError(f"{who}: {part!r} cannot be combined with others: it does not have a rate for every step.")
        if part.optimizer is not None and part.optimizer is not whole.optimizer:
            raise ValueError(
                f"{who}: {type(part).__name__} belongs to another optimizer. Give all of them the same one."
            )
        if isinstance(part, OneCycleLR) and part.cycle_momentum:
            raise ValueError(f"{who}: OneCycleLR would cycle the momentum. Pass it cycle_momentum=False.")
    return parts


class ReduceLROnPlateau:
    """Multiply the rate by ``factor`` when a metric has not improved for more than ``patience`` steps: ``step(value)``.

    Better is lower, or with ``mode="max"`` higher, by more than ``threshold``: a share of the best value so far, or with
    ``threshold_mode="abs"`` a number. After a reduction ``cooldown`` steps do not count. No learning rate falls below
    ``min_lr``, nor changes by less than ``eps``.

    ``nn.Trainer(schedule=nn.ReduceLROnPlateau(metric="validation_loss"))``, made without an optimizer, follows that number of
    the history, from epoch to epoch.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> sgd = nn.SGD([nn.Parameter(np.zeros(3))], lr=1.0)
    >>> schedule = nn.ReduceLROnPlateau(sgd, factor=0.5, patience=1)
    >>> rates = []
    >>> for validation_loss in (0.9, 0.8, 0.8, 0.8, 0.8):
    ...     schedule.step(validation_loss)
    ...     rates.append(sgd.lr)
    >>> rates
    [1.0, 1.0, 1.0, 0.5, 0.5]
    """

    @spelled
    def __init__(
        self,
        optimizer: Optimizer | None = None,
        mode: Literal["min", "max"] = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: Literal["rel", "abs"] = "rel",
        cooldown: int = 0,
        min_lr: float | Sequence[float] = 0.0,
        eps: float = 1e-8,
        *,
        metric: str = "validation_loss",
    ) -> None:
        who = "ReduceLROnPlateau"
        _check_optimizer(self, optimizer)
        if mode not in ("min", "max"):
            raise ValueError(f"{who}: mode is {mode!r}. Use 'min' for a loss or 'max' for an accuracy.")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"{who}: threshold_mode is {threshold_mode!r}. Use 'rel' or 'abs'.")
        if not 0 < factor < 1:
            raise ValueError(f"{who}: factor is {factor}. It must be above 0 and below 1.")
        self.optimizer, self.mode, self.factor, self.threshold_mode = optimizer, mode, float(factor), threshold_mode
        self.metric, self.patience = metric, _count(patience, f"{who}: patience", 0)
        self.cooldown = _count(cooldown, f"{who}: cooldown", 0)
        self.threshold, self.eps = _number(threshold, f"{who}: threshold"), _number(eps, f"{who}: eps")
        self.min_lrs = [_number(rate, f"{who}: min_lr") for rate in _for_groups(min_lr, f"{who}: min_lr", optimizer)]
        if optimizer is None and any(self.min_lrs):
            raise ValueError(
                f"{who}: min_lr is a learning rate, so it needs the optimizer that others belong to. Pass it first."
            )
        self.reset()

    def reset(self) -> None:
        """Start over; the learning rates of the optimizer stay as they are."""
        self.best = math.inf if self.mode == "min" else -math.inf
        self.num_bad_epochs = self.cooldown_counter = 0
        self.share = 1.0  # of the learning rate of a trainer's optimizer

    def is_better(self, value: float) -> bool:
        """True if a value is better than the best so far by more than the threshold."""
        sign = 1.0 if self.mode == "max" else -1.0
        if self.threshold_mode == "rel":
            return sign * value > sign * self.best * (1.0 + sign * self.threshold)
        return sign * value > sign * self.best + self.threshold

    @spelled
    def step(self, metrics: Any) -> None:
        """Record a measured value, and reduce the learning rates if it is time."""
        value = float(metrics)
        if self.is_better(value):
            self.best, self.num_bad_epochs = value, 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs <= self.patience:
            return
        self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self.share *= self.factor
        for group, lowest in zip(self.optimizer.param_groups if self.optimizer else (), self.min_lrs, strict=False):
            rate = max(group["lr"] * self.factor, lowest)
            if group["lr"] - rate > self.eps:
                group["lr"] = rate

    def get_last_lr(self) -> list[float]:
        """The learning rates as they are, group by group; for a trainer the share of its own."""
        return [self.share] if self.optimizer is None else [group["lr"] for group in self.optimizer.param_groups]

    def __call__(self, step: int, total: int) -> float:
        """The factor of the learning rate at present, for a trainer."""
        if self.optimizer is not None:
            raise TypeError(
                "ReduceLROnPlateau: with an optimizer it works by hand. For a trainer leave the optimizer out."
            )
        return self.share

    def on_epoch(self, trainer: Any, record: Mapping[str, Any]) -> None:
        """Take the number of an epoch; a trainer calls this."""
        if self.metric not in record:
            raise ValueError(
                f"ReduceLROnPlateau: it follows {self.metric!r}, which the history does not have.{nearest(self.metric, record)} "
                "Pass validation data, or another metric=."
            )
        self.step(record[self.metric])

    def state_dict(self) -> dict[str, Any]:
        """The state in plain numbers; the learning rates are in the state of the optimizer."""
        return {name: getattr(self, name) for name in ("best", "num_bad_epochs", "cooldown_counter", "share")}

    @spelled
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue from such a state."""
        _check_state("ReduceLROnPlateau", state_dict, self.state_dict())
        vars(self).update(state_dict)


def _warm_up(then: Schedule) -> Schedule:
    """A factor from 0 to 1 in the first twentieth of a trainer's run, then that of another schedule over the rest."""

    def factor(step: int, total: int) -> float:
        length = max(int(0.05 * total), 1)
        return (step + 1) / length if step < length else then(step - length, max(total - length, 1))

    return factor


def _constant(step: int, total: int) -> float:
    return 1.0


NAMED: dict[str, Callable[[], Schedule]] = {
    "constant": lambda: _constant,
    "step": StepLR,
    "cosine": CosineAnnealingLR,
    "warmup": lambda: _warm_up(_constant),
    "warmup_cosine": lambda: _warm_up(CosineAnnealingLR()),
}

__dir__ = _of_module(__name__)
