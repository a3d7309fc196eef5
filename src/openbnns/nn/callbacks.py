"""Callbacks and early stopping."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from .._spelling import nearest, spelled
from ..graph.checks import whole_number
from .metrics import Metric

if TYPE_CHECKING:
    from .trainer import Trainer

Mode = Literal["min", "max"]
_METHODS = ("on_step", "on_epoch", "on_end")


class Callback:
    """Base class of callbacks: override any of its methods. Any object that has one of them can be used instead.

    A callback may end the run with ``trainer.stop("why")``; it then ends as if all epochs were done, and a later
    ``fit(..., resume=True)`` goes on. A callback that remembers something from step to step gives it from ``state_dict``, as a
    dictionary of numbers, texts, arrays and so on, and takes it back in ``load_state_dict``: it is part of the checkpoints.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> class Enough(nn.Callback):
    ...     def on_epoch(self, trainer, record):
    ...         if record["loss"] < 0.1:
    ...             trainer.stop("the loss is low enough")
    >>> x = np.float32([[0], [1], [2], [3]])
    >>> trainer = nn.Trainer(nn.Linear(1), "mse", nn.Adam(0.1), quiet=True)
    >>> history = trainer.fit(x, 2 * x, epochs=500, callbacks=[Enough()])
    >>> len(history) < 500 and history[-1]["loss"] < 0.1
    True
    """

    def on_step(self, trainer: Trainer, step: dict[str, Any]) -> None:
        """After a step of the optimizer. ``step`` has epoch, step (both from 1), loss, learning_rate and samples."""

    def on_epoch(self, trainer: Trainer, record: dict[str, Any]) -> None:
        """After an epoch, with its record in the history; what is added to it appears there."""

    def on_end(self, trainer: Trainer, history: list[dict[str, Any]]) -> None:
        """At the end of the run, when the network has its final weights."""


def check(given: Any) -> list[Any]:
    """Callbacks from what ``fit(callbacks=...)`` takes: one, or a sequence of them."""
    if given is None:
        return []
    listed = list(given) if isinstance(given, (list, tuple)) else [given]
    for callback in listed:
        if isinstance(callback, type) or not any(callable(getattr(callback, name, None)) for name in _METHODS):
            hint = f" Call it: {callback.__name__}()." if isinstance(callback, type) else ""
            raise TypeError(
                f"Trainer.fit: callbacks has {callback!r}, which has none of on_step(trainer, step), on_epoch(trainer, record) "
                f"and on_end(trainer, history).{hint} Pass an object with one of these methods."
            )
        if isinstance(callback, Callback):
            unknown = [name for name in dir(callback) if name.startswith("on_") and name not in _METHODS]
            if unknown:
                raise TypeError(
                    f"Trainer.fit: {type(callback).__name__}.{unknown[0]} would never be called.{nearest(unknown[0], _METHODS)} "
                    f"Callbacks have {', '.join(_METHODS)}."
                )
    return listed


def having(callbacks: list[Any], method: str) -> list[Any]:
    """The methods of this name of those callbacks that have it, leaving out the empty ones of the base class."""
    methods = [getattr(callback, method, None) for callback in callbacks]
    empty = getattr(Callback, method)
    return [call for call in methods if callable(call) and getattr(call, "__func__", None) is not empty]


class EarlyStopping:
    """End a run when ``metric`` has not improved for ``patience`` epochs; the best weights are kept and put back.

    ``metric`` is any number in the history: "validation_loss", "validation_f1", "loss". ``mode`` says whether a lower ("min") or
    a higher ("max") one is better; it is known for the loss and for the metrics of ``nn.metrics``. A change of less than
    ``min_delta`` does not count. With ``patience=None`` all epochs are trained, and the best weights are put back at the
    end; with
    ``keep="last"`` the network keeps those of the last epoch.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> x = np.linspace(-1, 1, 60, dtype=np.float32)[:, None]
    >>> stop = nn.EarlyStopping(3, "validation_r2", min_delta=0.001)
    >>> trainer = nn.Trainer(nn.Linear(1), "mse", nn.Adam(0.1), metrics=["r2"], early_stopping=stop, quiet=True)
    >>> history = trainer.fit(x, 3 * x, epochs=500, validation_split=0.2)
    >>> len(history) < 500 and history[trainer.chosen_epoch - 1]["validation_r2"] > 0.9
    True
    """

    @spelled
    def __init__(
        self,
        patience: int | None = 5,
        metric: str = "validation_loss",
        *,
        mode: Mode | None = None,
        min_delta: float = 0.0,
        keep: Literal["best", "last"] = "best",
    ) -> None:
        self.patience = None if patience is None else whole_number(patience, "EarlyStopping: patience", 1)
        self.metric = metric
        if mode not in (None, "min", "max"):
            raise ValueError(f"EarlyStopping: mode is {mode!r}. Use 'min' if lower is better, or 'max'.")
        if not min_delta >= 0:
            raise ValueError(f"EarlyStopping: min_delta is {min_delta}. It must be at least 0.")
        if keep not in ("best", "last"):
            raise ValueError(f"EarlyStopping: keep is {keep!r}. Use 'best' or 'last'.")
        self.mode, self.min_delta, self.keep = mode, float(min_delta), keep

    def __repr__(self) -> str:
        shown = [repr(self.patience), repr(self.metric)]
        shown += [f"mode={self.mode!r}"] if self.mode else []
        shown += [f"min_delta={self.min_delta:g}"] if self.min_delta else []
        shown += ["keep='last'"] if self.keep == "last" else []
        return f"EarlyStopping({', '.join(shown)})"

    def setting(self) -> int | str:
        """The patience as a checkpoint records it: a number of epochs, or "never", if there is nothing else to record."""
        plain = (self.metric, self.mode, self.min_delta, self.keep) == ("validation_loss", None, 0.0, "best")
        return ("never" if self.patience is None else self.patience) if plain else repr(self)

    def lower_is_better(self, metrics: Mapping[str, Metric], *, validated: bool, losses: list[str]) -> bool:
        """True if lower is better; raises an error for a metric that is unknown or has no known direction."""
        if self.metric.startswith("validation_") and not validated:
            raise ValueError(
                f"Trainer.fit: early_stopping selects by the validation {self.metric.removeprefix('validation_')}, but there is "
                "no validation data. Pass validation=(x, y) with samples that are not trained on, or leave early_stopping out."
            )
        names = [*losses, *metrics]
        known = {name: name for name in names}
        if validated:
            known |= {f"validation_{name}": name for name in names}
        if self.metric not in known:
            raise ValueError(
                f"Trainer.fit: early_stopping selects by {self.metric!r}, which the history will not have."
                f"{nearest(self.metric, known)} It has {', '.join(known)}."
            )
        if self.mode is not None:
            return self.mode == "min"
        metric = metrics.get(known[self.metric])
        if metric is None:
            return True
        if metric.higher_is_better is None:
            raise ValueError(
                f"Trainer.fit: early_stopping selects by {self.metric!r}, a function of yours. Say whether lower or higher is "
                f"better: EarlyStopping({self.patience!r}, {self.metric!r}, mode='min') or 'max'."
            )
        return not metric.higher_is_better


class Best:
    """The best epoch so far, by early stopping, and how long ago it was."""

    def __init__(self, stopping: EarlyStopping | None, lower: bool) -> None:
        self.stopping, self.lower = stopping, lower
        self.value = math.inf if lower else -math.inf
        self.waited = 0

    def take(self, record: Mapping[str, Any]) -> bool:
        """True if this epoch is the best so far."""
        assert self.stopping is not None
        value = record[self.stopping.metric]
        gain = self.value - value if self.lower else value - self.value
        if gain > self.stopping.min_delta:
            self.value, self.waited = value, 0
            return True
        self.waited += 1
        return False

    @property
    def keeps(self) -> bool:
        """True if the weights of the best epoch are put back at the end."""
        return self.stopping is not None and self.stopping.keep == "best"

    @property
    def has_value(self) -> bool:
        """True if the metric has been a number at least once."""
        return not math.isinf(self.value)

    @property
    def ended(self) -> bool:
        """True if the run is over because nothing has improved for long enough."""
        return (
            self.stopping is not None and self.stopping.patience is not None and self.waited >= self.stopping.patience
        )

    @property
    def words(self) -> str:
        """The metric in words, for sentences."""
        assert self.stopping is not None
        return self.stopping.metric.replace("_", " ")

    def reason(self, epoch: int) -> str:
        """The line that says when and why the run ended."""
        if not self.has_value:
            return f"Stopped after epoch {epoch}: the {self.words} was never a number."
        direction = "fallen below" if self.lower else "risen above"
        epochs = f"{self.waited} epoch{'s' if self.waited != 1 else ''}"
        return (
            f"Stopped after epoch {epoch}: the {self.words} has not {direction} {self.value:.4g}, that of epoch "
            f"{epoch - self.waited}, for {epochs}."
        )


__all__ = ["Callback", "EarlyStopping"]
