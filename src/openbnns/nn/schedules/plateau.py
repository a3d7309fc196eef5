"""A learning rate that is reduced when a metric stops improving."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from ..._spelling import nearest, spelled
from ...graph.checks import whole_number
from ..optimizer_base import Optimizer
from .schedulers import number_from

_STATE = ("best", "num_bad_epochs", "cooldown_counter", "last_epoch")


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
        if optimizer is not None and not isinstance(optimizer, Optimizer):
            raise TypeError(
                f"{who}: the optimizer is {optimizer!r}. Pass an optimizer first, or for a trainer none at all and everything "
                f"else by name: {who}(patience=10)."
            )
        if mode not in ("min", "max"):
            raise ValueError(f"{who}: mode is {mode!r}. Use 'min' for a loss or 'max' for an accuracy.")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"{who}: threshold_mode is {threshold_mode!r}. Use 'rel' or 'abs'.")
        if not 0 < factor < 1:
            raise ValueError(f"{who}: factor is {factor}. It must be above 0 and below 1.")
        self.optimizer, self.mode, self.factor, self.threshold_mode = optimizer, mode, float(factor), threshold_mode
        self.metric = metric
        self.patience = whole_number(patience, f"{who}: patience", 0)
        self.cooldown = whole_number(cooldown, f"{who}: cooldown", 0)
        self.threshold = number_from(threshold, f"{who}: threshold", 0)
        self.eps = number_from(eps, f"{who}: eps", 0)
        groups = 1 if optimizer is None else len(optimizer.param_groups)
        listed = list(min_lr) if isinstance(min_lr, (list, tuple)) else [min_lr] * groups
        if len(listed) != groups:
            raise ValueError(f"{who}: min_lr has {len(listed)} numbers, but the optimizer has {groups} groups.")
        self.min_lrs = [number_from(rate, f"{who}: min_lr", 0) for rate in listed]
        if optimizer is None and any(self.min_lrs):
            raise ValueError(
                f"{who}: min_lr is a learning rate, so it needs the optimizer that others belong to. Pass the optimizer first."
            )
        self.reset()

    def reset(self) -> None:
        """Start over; the learning rates of the optimizer stay as they are."""
        self.best = math.inf if self.mode == "min" else -math.inf
        self.num_bad_epochs = self.cooldown_counter = self.last_epoch = 0
        self._share = 1.0  # of the learning rate of a trainer's optimizer

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
        self.last_epoch += 1
        if self.is_better(value):
            self.best, self.num_bad_epochs = value, 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce()
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0

    def _reduce(self) -> None:
        if self.optimizer is None:
            self._share *= self.factor
            return
        for group, lowest in zip(self.optimizer.param_groups, self.min_lrs, strict=True):
            rate = max(group["lr"] * self.factor, lowest)
            if group["lr"] - rate > self.eps:
                group["lr"] = rate

    def get_last_lr(self) -> list[float]:
        """The learning rates as they are, group by group; for a trainer the share of its own."""
        if self.optimizer is None:
            return [self._share]
        return [group["lr"] for group in self.optimizer.param_groups]

    # In a trainer.

    def __call__(self, step: int, total: int) -> float:
        """The factor of the learning rate at present."""
        if self.optimizer is not None:
            raise TypeError(
                "ReduceLROnPlateau: it was made with an optimizer, so it works by hand only. For a trainer leave the optimizer "
                "out."
            )
        return self._share

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
        state = {name: getattr(self, name) for name in _STATE}
        return state if self.optimizer is not None else {**state, "share": self._share}

    @spelled
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue from such a state."""
        needed = sorted(self.state_dict())
        if sorted(state_dict) != needed:
            raise ValueError(
                f"ReduceLROnPlateau: the state holds {', '.join(sorted(state_dict)) or 'nothing'}, but {', '.join(needed)} are "
                "needed. It belongs to another schedule."
            )
        for name in _STATE:
            setattr(self, name, state_dict[name])
        self._share = float(state_dict.get("share", 1.0))
