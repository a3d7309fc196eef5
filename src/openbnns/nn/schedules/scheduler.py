"""The base of schedules with PyTorch's names: a learning rate for every step, and steps that set it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..._flags import with_flags
from ..._spelling import spelled
from ...graph.checks import whole_number
from ..optimizer_base import Optimizer


class LRScheduler:
    """Base of the schedules with PyTorch's names. A subclass gives the learning rate of a step in ``_rate``.

    Made with an optimizer, it sets the learning rate of every group at once, and again at every ``step()``, as in
    PyTorch. ``nn.Trainer(schedule=...)`` takes it with the trainer's own optimizer, or made without one, by names:
    ``nn.StepLR(step_size=30)``; then it multiplies the learning rate of whatever optimizer is used. A trainer's steps are
    batches; :func:`nn.schedules.per_epoch` counts epochs.

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
