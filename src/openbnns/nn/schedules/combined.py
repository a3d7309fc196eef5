"""Schedules that combine schedules."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from ...graph.checks import whole_number
from ..optimizer_base import Optimizer
from .scheduler import LRScheduler, required
from .schedulers import OneCycleLR


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
