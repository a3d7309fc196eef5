"""The learning rate finder: the loss while the rate rises from step to step (Smith 2015, "Cyclical learning rates")."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..graph.tensor import Array
from .batches import Batch, BatchStream

if TYPE_CHECKING:
    from .trainer import Trainer

_KEPT = 0.9  # share of the moving mean of the losses that each step keeps
_TOO_HIGH = 4.0  # times the lowest loss: from there on it only gets worse


@dataclass
class LearningRates:
    """Losses by learning rate, and the rate at which the loss falls fastest: ``suggestion``.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> x = np.random.RandomState(0).standard_normal((128, 3)).astype(np.float32)
    >>> found = nn.Trainer(nn.Linear(1), "mse", "sgd", quiet=True).find_learning_rate(x, x[:, :1], steps=50)
    >>> len(found.rates) == len(found.losses), 1e-6 < found.suggestion < 1
    (True, True)
    """

    rates: Array
    losses: Array
    smooth: Array
    """The losses as a moving mean, which the suggestion is read from."""

    @property
    def suggestion(self) -> float:
        """The rate at which the loss falls fastest over the logarithm of the rate, before it is lowest.

        The slope is that of a line through a tenth of all steps on either side, because losses of single batches scatter.
        """
        reach = max(len(self.rates) // 10, 1)
        logs, lowest = np.log(self.rates), int(np.argmin(self.smooth))
        middles = range(reach, max(lowest, reach + 1))
        around = [slice(i - reach, i + reach + 1) for i in middles]
        slopes = [np.polyfit(logs[part], self.smooth[part], 1)[0] for part in around]
        return float(self.rates[middles[int(np.argmin(slopes))]])

    def __str__(self) -> str:
        """The suggestion and a curve of the loss, a line for every few rates."""
        low, high = float(self.smooth.min()), float(self.smooth.max())
        span = high - low or 1.0
        chosen = int(np.argmin(np.abs(self.rates - self.suggestion)))
        shown = sorted({*np.linspace(0, len(self.rates) - 1, min(len(self.rates), 20)).astype(int).tolist(), chosen})
        lines = [f"learning rate {self.suggestion:.2g} (where the loss falls fastest)", "      rate       loss"]
        for i in shown:
            width = round(40 * (float(self.smooth[i]) - low) / span)
            note = "  <- suggestion" if i == chosen else ""
            lines.append(f"  {self.rates[i]:8.2e}  {self.smooth[i]:9.4g}  {'#' * width}{note}")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """The curve as a figure, for notebooks."""
        low, high = float(self.smooth.min()), float(self.smooth.max())
        span, logs = high - low or 1.0, np.log10(self.rates)
        width = float(logs[-1] - logs[0]) or 1.0
        points = [
            (40 + 520 * float(log - logs[0]) / width, 20 + 200 * (1 - (float(loss) - low) / span))
            for log, loss in zip(logs, self.smooth, strict=True)
        ]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        chosen = points[int(np.argmin(np.abs(self.rates - self.suggestion)))]
        ticks = "".join(
            f'<text x="{40 + 520 * (decade - float(logs[0])) / width:.1f}" y="250" text-anchor="middle">1e{decade}</text>'
            for decade in range(math.ceil(float(logs[0])), math.floor(float(logs[-1])) + 1)
        )
        title = html.escape(f"Suggested learning rate: {self.suggestion:.2g}")
        return (
            f'<figure><figcaption>{title}</figcaption><svg viewBox="0 0 600 260" width="600" font-size="12" fill="#64748b">'
            f'<polyline points="{line}" fill="none" stroke="#2563eb" stroke-width="2"/>'
            f'<circle cx="{chosen[0]:.1f}" cy="{chosen[1]:.1f}" r="5" fill="#ea580c"/>'
            f'<text x="4" y="24">{high:.3g}</text><text x="4" y="224">{low:.3g}</text>{ticks}</svg></figure>'
        )


def find(trainer: Trainer, feed: BatchStream, lowest: float, highest: float, steps: int) -> LearningRates:
    """Raise the learning rate from step to step until the loss is far above its lowest; everything is put back."""
    who = "Trainer.find_learning_rate"
    if not 0 < lowest < highest < math.inf:
        raise ValueError(
            f"{who}: lowest is {lowest} and highest {highest}. Both must be above 0, and highest the larger one."
        )
    network, optimizer, objective = trainer.network, trainer.optimizer, trainer.objective
    weights = {name: array.copy() for name, array in network.state_dict().items()}
    state = {name: array.copy() for name, array in optimizer.state_dict().items()}
    rate = optimizer.learning_rate
    rates: list[float] = []
    losses: list[float] = []
    smooth: list[float] = []
    mean = 0.0
    try:
        with closing(_endless(feed)) as batches:  # type: ignore[type-var]
            for step in range(steps):
                optimizer.learning_rate = lowest * (highest / lowest) ** (step / (steps - 1))
                program, loss = objective.forward(next(batches), training=True, seed=(trainer.seed, step))
                mean = _KEPT * mean + (1 - _KEPT) * loss
                corrected = mean / (1 - _KEPT ** (step + 1))
                if not math.isfinite(loss) or (smooth and corrected > _TOO_HIGH * min(smooth)):
                    break
                rates.append(optimizer.learning_rate)
                losses.append(loss)
                smooth.append(corrected)
                objective.backward(program)
                optimizer.step()
    finally:
        network.load_state_dict(weights)
        optimizer.load_state_dict(state)
        optimizer.learning_rate = rate
    if len(rates) < 3:
        raise ValueError(
            f"{who}: the loss is NaN or far too high after {len(rates)} steps. Use a lowest of less than {lowest:g}, or "
            "look at the data."
        )
    return LearningRates(np.array(rates), np.array(losses), np.array(smooth))


def _endless(feed: BatchStream) -> Iterator[Batch]:
    """The batches of one epoch after another, endlessly."""
    epoch = 0
    while True:
        with closing(feed.epoch(epoch)) as batches:  # type: ignore[type-var]
            yield from batches
        epoch += 1
