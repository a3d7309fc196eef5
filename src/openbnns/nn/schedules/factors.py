"""Schedules as plain functions: the factor of the learning rate at a step of a training run."""

from __future__ import annotations

import math
from collections.abc import Callable

Schedule = Callable[[int, int], float]
"""(step, total steps) -> factor; steps count from 0."""


def constant() -> Schedule:
    """A factor of 1 throughout.

    >>> from openbnns import nn
    >>> nn.schedules.constant()(7, 100)
    1.0
    """
    return lambda step, total: 1.0


def step_decay(factor: float = 0.1, every: float = 1 / 3) -> Schedule:
    """Multiply by ``factor`` after every ``every`` of the run (a share below 1) or ``every`` steps (1 or more).

    >>> from openbnns import nn
    >>> schedule = nn.schedules.step_decay(0.5, every=10)
    >>> [schedule(step, 100) for step in (0, 9, 10, 20)]
    [1.0, 1.0, 0.5, 0.25]
    """
    if not (factor > 0 and every > 0):
        raise ValueError(f"step_decay: factor is {factor} and every is {every}. Both must be above 0.")

    def schedule(step: int, total: int) -> float:
        length = every if every >= 1 else every * total
        return float(factor ** int(step / max(length, 1)))

    return schedule


def cosine(end: float = 0.0) -> Schedule:
    """A factor from 1 to ``end`` along half a cosine.

    >>> from openbnns import nn
    >>> schedule = nn.schedules.cosine(end=0.1)
    >>> [round(schedule(step, 100), 3) for step in (0, 50, 100)]
    [1.0, 0.55, 0.1]
    """

    def schedule(step: int, total: int) -> float:
        return end + (1 - end) * 0.5 * (1 + math.cos(math.pi * min(step / max(total, 1), 1.0)))

    return schedule


def warm_up(steps: float, then: Schedule | None = None) -> Schedule:
    """A factor from 0 to 1 over ``steps`` steps (or that share of the run, below 1), then that of ``then``.

    >>> from openbnns import nn
    >>> schedule = nn.schedules.warm_up(4, nn.schedules.cosine())
    >>> [schedule(step, 100) for step in (0, 1, 3, 4)]
    [0.25, 0.5, 1.0, 1.0]
    """
    if not steps > 0:
        raise ValueError(f"warm_up: steps is {steps}. It must be above 0.")
    following = constant() if then is None else then

    def schedule(step: int, total: int) -> float:
        length = max(int(steps if steps >= 1 else steps * total), 1)
        if step < length:
            return (step + 1) / length
        return following(step - length, max(total - length, 1))

    return schedule


def per_epoch(schedule: Schedule, batches: int) -> Schedule:
    """A schedule that counts epochs, for a run of ``batches`` steps per epoch.

    >>> from openbnns import nn
    >>> schedule = nn.schedules.per_epoch(nn.StepLR(step_size=2, gamma=0.5), batches=10)
    >>> [schedule(step, 60) for step in (0, 19, 20, 40)]
    [1.0, 1.0, 0.5, 0.25]
    """
    if isinstance(batches, bool) or not isinstance(batches, int) or batches < 1:
        raise ValueError(f"per_epoch: batches is {batches!r}. It must be a whole number of at least 1.")
    return lambda step, total: schedule(step // batches, -(-total // batches))
