"""Schedules with PyTorch's names: a learning rate for every step, and steps that set it."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from ..._flags import optional_flag, with_flags
from ..._spelling import spelled
from ...graph.checks import whole_number
from ..optimizer_base import Optimizer

Schedule = Callable[[int, int], float]
"""(step, total steps) -> factor of the learning rate; steps count from 0."""


class LRScheduler:
    """Base of the schedules with PyTorch's names. A subclass gives the learning rate of a step in ``_rate``.

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
            cls.__init__ = with_flags(cls.__init__, spelled(cls.__init__))  # type: ignore[method-assign]

    @spelled
    def __init__(self, optimizer: Optimizer | None, last_epoch: int = -1) -> None:
        who = type(self).__name__
        if optimizer is not None and not isinstance(optimizer, Optimizer):
            raise TypeError(
                f"{who}: the optimizer is {optimizer!r}. Pass an optimizer first, or for a trainer none at all and everything "
                f"else by name: {who}({self._example})."
            )
        self.optimizer = optimizer
        self.last_epoch: float = whole_number(last_epoch, f"{who}: last_epoch", -1)
        self.base_lrs = [1.0]
        self._set_numbers: list[float] = []
        if optimizer is None:
            if last_epoch != -1:
                raise ValueError(
                    f"{who}: last_epoch needs an optimizer, whose learning rates it belongs to. Leave it out."
                )
            return
        for group in optimizer.param_groups:
            if last_epoch == -1 and group.initial_rate is None:
                group.initial_rate = group["lr"]
            elif group.initial_rate is None:
                raise ValueError(
                    f"{who}: last_epoch is {last_epoch}, but the optimizer has never had a schedule, so that its first "
                    "learning rate is not known. Load a state instead: schedule.load_state_dict(...)."
                )
        self.base_lrs = [float(group["initial_lr"]) for group in optimizer.param_groups]

    _example = "..."  # arguments of the class, for messages

    def _start(self) -> None:
        """Set the first learning rates; the end of every ``__init__``."""
        if self.optimizer is not None:
            self.last_epoch += 1
            self._set()

    # The learning rate of a step.

    def _rate(self, base: float, step: float, total: int | None, group: int) -> float:
        """The learning rate of group number ``group`` at a step, for a first one of ``base``.

        ``total`` is the number of steps of a trainer's run; by hand it is not known.
        """
        raise NotImplementedError

    def __call__(self, step: int, total: int) -> float:
        """The factor of the learning rate at this step of a trainer's run."""
        who = type(self).__name__
        if self.optimizer is None:
            return self._rate(1.0, step, total, 0)
        if self.last_epoch != 0:
            raise RuntimeError(
                f"{who}: step() was called by hand, so a trainer cannot tell where it begins. Make a new one for the trainer."
            )
        factors = []
        for i, base in enumerate(self.base_lrs):
            first = self._rate(base, 0, total, i)
            if not first:
                raise ValueError(
                    f"{who}: the first learning rate is 0, from which a trainer cannot continue. Make it without an optimizer: "
                    f"{who}({self._example})."
                )
            factors.append(self._rate(base, step, total, i) / first)
        if not all(math.isclose(factor, factors[0], rel_tol=1e-9) for factor in factors):
            raise ValueError(
                f"{who}: groups of parameters get different factors, but a trainer has one for all of them. Write a loop that "
                "calls step()."
            )
        return factors[0]

    # By hand.

    def step(self, epoch: float | None = None) -> None:
        """Go to the next step, or to ``epoch``, and set the learning rates of the optimizer."""
        if self.optimizer is None:
            raise RuntimeError(
                f"{type(self).__name__}.step: it was made without an optimizer, for a trainer. Pass the optimizer first."
            )
        before = self.last_epoch
        self.last_epoch = before + 1 if epoch is None else epoch
        try:
            self._set()
        except ValueError:
            self.last_epoch = before
            raise

    def _set(self) -> None:
        assert self.optimizer is not None
        groups = self.optimizer.param_groups
        if len(groups) != len(self.base_lrs):
            raise ValueError(
                f"{type(self).__name__}: the optimizer has {len(groups)} groups, but had {len(self.base_lrs)} when the schedule "
                "was made. Make the schedule after the last group was added."
            )
        rates = [self._rate(base, self.last_epoch, None, i) for i, base in enumerate(self.base_lrs)]
        for group, rate in zip(groups, rates, strict=True):
            group["lr"] = rate
        self._set_numbers = rates

    def get_last_lr(self) -> list[float]:
        """The learning rates that it has set last, group by group."""
        return list(self._set_numbers)

    def state_dict(self) -> dict[str, Any]:
        """The state in plain numbers."""
        return {"last_epoch": self.last_epoch, "base_lrs": list(self.base_lrs)}

    @spelled
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue from such a state; the learning rates of the optimizer are set."""
        self._check_state(state_dict)
        self.last_epoch, self.base_lrs = state_dict["last_epoch"], [float(rate) for rate in state_dict["base_lrs"]]
        if self.optimizer is not None:
            self._set()

    def _check_state(self, state: Mapping[str, Any]) -> None:
        own = self.state_dict()
        if set(state) != set(own):
            raise ValueError(
                f"{type(self).__name__}: the state holds {', '.join(sorted(state)) or 'nothing'}, but "
                f"{', '.join(sorted(own))} are needed. It belongs to another schedule."
            )
        if len(state["base_lrs"]) != len(self.base_lrs):
            raise ValueError(
                f"{type(self).__name__}: the state is of {len(state['base_lrs'])} groups of parameters, not "
                f"{len(self.base_lrs)}."
            )


def positive_number(value: Any, who: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{who} must be a number, not {value!r}.")
    if not 0 < value < math.inf:
        raise ValueError(f"{who} is {value}. It must be above 0.")
    return float(value)


def number_from(value: Any, who: str, low: float, high: float = math.inf) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{who} must be a number, not {value!r}.")
    if not low <= value <= high or not math.isfinite(value):
        limits = f"at least {low:g}" if high == math.inf else f"between {low:g} and {high:g}"
        raise ValueError(f"{who} is {value}. It must be {limits}.")
    return float(value)


def required(value: Any, who: str) -> Any:
    """An argument that has no default, although those before it may be left out."""
    if value is None:
        raise TypeError(f"{who} is missing.")
    return value


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
    """Multiply the rate by ``gamma`` after every ``step_size`` steps; for a trainer, after every third of its run if left out.

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
        self.step_size = _steps(self, step_size, "step_size")
        self.gamma = positive_number(gamma, "StepLR: gamma")
        self._start()

    def _rate(self, base: float, step: float, total: int | None, group: int) -> float:
        length = self.step_size or max(_of_run(self, total, "step_size") * (1 / 3), 1)
        return float(base * self.gamma ** int(step / length))


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

    For a trainer, ``T_max`` may be left out: it is then the number of steps of the run.

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
        self.T_max = _steps(self, T_max, "T_max")
        self.eta_min = _lowest(self, eta_min)
        self._multiplies = not self.eta_min
        self._start()

    def _rate(self, base: float, step: float, total: int | None, group: int) -> float:
        return _along_cosine(base, self.eta_min, step / (self.T_max or max(_of_run(self, total, "T_max"), 1)))


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
            f"{who}: eta_min is a learning rate, so it needs the optimizer that others belong to. Pass the optimizer first."
        )
    return value


class WarmUp(LRScheduler):
    """A factor from 0 to 1 in the first twentieth of a trainer's run, then that of another schedule over the rest.

    It stands behind the names "warmup" and "warmup_cosine"; for other numbers there are LinearLR and SequentialLR.
    """

    def __init__(self, then: LRScheduler) -> None:
        super().__init__(None)
        self._then = then

    def _rate(self, base: float, step: float, total: int | None, group: int) -> float:
        steps = _of_run(self, total, "the number of steps")
        length = max(int(0.05 * steps), 1)
        if step < length:
            return base * (step + 1) / length
        return self._then._rate(base, step - length, max(steps - length, 1), group)


class SequentialLR(LRScheduler):
    """One schedule after the other: the next begins at each of the ``milestones``, with its own first step.

    >>> from openbnns import nn
    >>> schedule = nn.SequentialLR(
    ...     schedulers=[nn.LinearLR(start_factor=0.5, total_iters=2), nn.ExponentialLR(gamma=0.5)], milestones=[2]
    ... )
    >>> [schedule(step, 100) for step in range(5)]
    [0.5, 0.75, 1.0, 0.5, 0.25]
    """

    _example = "schedulers=[...], milestones=[...]"

    def __init__(
        self,
        optimizer: Optimizer | None = None,
        schedulers: Sequence[LRScheduler] | None = None,
        milestones: Sequence[int] | None = None,
        last_epoch: int = -1,
    ) -> None:
        super().__init__(optimizer, last_epoch)
        self.schedulers = _parts(self, required(schedulers, "SequentialLR: schedulers"))
        given = required(milestones, "SequentialLR: milestones")
        self.milestones = [whole_number(step, "SequentialLR: a milestone", 1) for step in given]
        if len(self.milestones) != len(self.schedulers) - 1 or self.milestones != sorted(set(self.milestones)):
            raise ValueError(
                f"SequentialLR: milestones are {list(given)}. {len(self.schedulers)} schedules need "
                f"{len(self.schedulers) - 1}, each later than the one before."
            )
        self._multiplies = all(part._multiplies for part in self.schedulers)
        self._start()

    def _rate(self, base: float, step: float, total: int | None, group: int) -> float:
        number = bisect_right(self.milestones, step)
        begin = self.milestones[number - 1] if number else 0
        return self.schedulers[number]._rate(base, step - begin, None if total is None else total - begin, group)


class ChainedScheduler(LRScheduler):
    """Several schedules at once: the product of their factors.

    >>> from openbnns import nn
    >>> schedule = nn.ChainedScheduler([nn.LinearLR(start_factor=0.5, total_iters=2), nn.ExponentialLR(gamma=0.5)])
    >>> [schedule(step, 100) for step in range(4)]
    [0.5, 0.375, 0.25, 0.125]
    """

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        given = list(schedulers)
        if optimizer is None:
            optimizer = next(
                (part.optimizer for part in given if isinstance(part, LRScheduler) and part.optimizer), None
            )
        super().__init__(optimizer)
        self.schedulers = _parts(self, given)
        unfit = [type(part).__name__ for part in self.schedulers if not part._multiplies]
        if unfit:
            raise ValueError(
                f"ChainedScheduler: {unfit[0]} has learning rates of its own instead of a factor, so it cannot be multiplied "
                "with others. Use SequentialLR, or eta_min=0."
            )
        self._start()

    def _rate(self, base: float, step: float, total: int | None, group: int) -> float:
        for part in self.schedulers:
            base = part._rate(base, step, total, group)
        return base


def _parts(whole: LRScheduler, given: Sequence[LRScheduler]) -> list[LRScheduler]:
    """Schedules of the same optimizer, or of none."""
    who, parts = type(whole).__name__, list(given)
    if not parts:
        raise ValueError(f"{who}: there are no schedules. Pass a list of them.")
    for part in parts:
        if not isinstance(part, LRScheduler):
            raise TypeError(
                f"{who}: {part!r} cannot be combined with others, because it does not have a rate for every step."
            )
        if part.optimizer is not None and part.optimizer is not whole.optimizer:
            raise ValueError(
                f"{who}: {type(part).__name__} belongs to another optimizer. Give all of them the same one."
            )
        if isinstance(part, OneCycleLR) and part.cycle_momentum:
            raise ValueError(f"{who}: OneCycleLR would cycle the momentum. Pass it cycle_momentum=False.")
    return parts


def _steps(schedule: LRScheduler, count: Any, name: str) -> int | None:
    """A number of steps, which may be left out if a trainer knows how many there are."""
    who = f"{type(schedule).__name__}: {name}"
    return None if count is None and schedule.optimizer is None else whole_number(required(count, who), who, 1)


def _of_run(schedule: LRScheduler, total: int | None, name: str) -> int:
    """The number of steps of a trainer's run."""
    if total is None:
        raise ValueError(
            f"{type(schedule).__name__}: {name} is missing, and may be left out only for a trainer. Give it."
        )
    return total
