"""Losses and metrics of an epoch, counted batch by batch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..graph.tensor import Array
from .batches import Batch, BatchStream
from .losses import Loss
from .metrics import NAMED, Accuracy, Custom, Metric, Running
from .metrics.classes import threshold_of
from .nested_arrays import Key, called, joined, label
from .objective import Objective


def default_metrics(losses: Sequence[Loss], keys: Sequence[Key]) -> dict[str, Metric]:
    """Accuracy of every output that has classes."""
    if keys == [None]:
        return {"accuracy": Accuracy()} if losses[0].classes else {}
    having = [key for loss, key in zip(losses, keys, strict=True) if loss.classes]
    return {f"accuracy_{label(key)}": Accuracy(output=key) for key in having}


def check_metrics(
    metrics: Mapping[str, Metric], losses: Sequence[Loss] | None, keys: Sequence[Key], targets: Sequence[Key]
) -> None:
    """Raise an error for metrics that do not fit the outputs and their losses; a loss is None for one function of all
    outputs."""
    for name, metric in metrics.items():
        if metric.output is not None and metric.output not in keys:
            known = "a single output" if keys == [None] else f"outputs {', '.join(map(repr, keys))}"
            raise ValueError(f"Trainer: the metric {name!r} is of output {metric.output!r}, but there is {known}.")
        if isinstance(metric, Custom):
            continue
        if metric.output is None and len(keys) > 1:
            raise ValueError(
                f"Trainer: the metric {name!r} could be of any of {len(keys)} outputs. Say which: "
                f"{{{name!r}: nn.metrics.{type(metric).__name__}(output={keys[0]!r})}}."
            )
        if losses is None:
            if metric.output not in targets and len(targets) != 1:
                raise ValueError(
                    f"Trainer: the metric {name!r} compares {called('outputs', metric.output)} with the target of the same key, "
                    f"but the targets are {', '.join(called('y', key) for key in targets) or 'missing'}. Use a function "
                    "(outputs, targets) -> number."
                )
            continue
        loss = losses[0 if metric.output is None else list(keys).index(metric.output)]
        decides = loss.classes or threshold_of(loss) is not None or metric.threshold is not None
        if metric.of_classes and not decides:
            raise ValueError(
                f"Trainer: the metric {name!r} is for classes, but {type(loss).__name__} compares numbers. Use 'mae', 'rmse', "
                "'r2' or a function, or say which outputs mean yes: nn.metrics.Accuracy(threshold=0.5)."
            )


def describe(metrics: Mapping[str, Metric]) -> list[str]:
    """The metrics as a checkpoint records them: names, and options that differ from the defaults."""
    usual = {name: repr(made()) for name, made in NAMED.items()}
    return [
        name if usual.get(name) == repr(m) or isinstance(m, Custom) else f"{name}: {m!r}" for name, m in metrics.items()
    ]


class LossSums:
    """The losses of an epoch: the mean over its samples, or over their weights, however they are cut into batches.

    A loss that is a sum over the samples of a batch is divided by their number.
    """

    def __init__(self, objective: Objective) -> None:
        self._shares, self._are_sums = objective.shares, [loss.is_sum for loss in objective.losses]
        self._names = [] if objective.keys == [None] else [f"loss_{label(key)}" for key in objective.keys]
        self.sums, self.weights = [0.0] * len(objective.shares), [0.0] * len(objective.shares)

    def add(self, objective: Objective) -> None:
        for i, weight in enumerate(objective.divisors):
            self.sums[i] += objective.values[i] * (1.0 if self._are_sums[i] else weight)
            self.weights[i] += weight

    def values(self) -> dict[str, float]:
        """The loss, and if there are several those of the outputs."""
        means = [total / weight if weight else math.nan for total, weight in zip(self.sums, self.weights, strict=True)]
        whole = sum(share * mean for share, mean in zip(self._shares, means, strict=True))
        return {"loss": whole, **dict(zip(self._names, means, strict=False))}


class EpochMetrics:
    """All metrics of an epoch while it runs, and its losses."""

    def __init__(self, metrics: Mapping[str, Metric], objective: Objective) -> None:
        self._outputs, self._targets = objective.output_keys, objective.target_keys
        self.losses = LossSums(objective)
        self.running: dict[str, Running] = {}
        # Metrics of one output, with its number and that of its target.
        self._of_one: list[tuple[Running, int, int]] = []
        self._of_all: list[Running] = []
        for name, metric in metrics.items():
            whole = metric.output is None and max(len(self._outputs), len(self._targets)) > 1
            if whole or (not self._targets and metric.output is None):  # a function of all outputs
                self.running[name] = metric.start(None)
                self._of_all.append(self.running[name])
                continue
            index = 0 if metric.output is None else self._outputs.index(metric.output)
            target = self._targets.index(metric.output) if metric.output in self._targets else 0
            running = self.running[name] = metric.start(None if objective.joint else objective.losses[index])
            self._of_one.append((running, index, target))

    def add(self, objective: Objective, batch: Batch) -> None:
        """Count the batch whose forward pass was just made."""
        self.losses.add(objective)
        self.count(objective, batch)

    def count(self, objective: Objective, batch: Batch) -> None:
        """The same for the metrics alone."""
        for running, index, target in self._of_one:
            running.add(objective.outputs[index], batch.y[target] if batch.y else None)
        for running in self._of_all:
            running.add(joined(self._outputs, objective.outputs), joined(self._targets, batch.y))

    def values(self) -> dict[str, float]:
        return {**self.losses.values(), **{name: running.value() for name, running in self.running.items()}}

    def so_far(self) -> dict[str, float]:
        """The same in the middle of an epoch, to be shown."""
        return self.values()

    # For checkpoints in the middle of an epoch.

    def sums(self) -> dict[str, list[float]]:
        return {"losses": list(self.losses.sums), "weights": list(self.losses.weights)}

    def arrays(self) -> dict[str, Array]:
        return {f"{name}.{part}": a for name, running in self.running.items() for part, a in running.arrays().items()}

    def restore(self, sums: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
        if any(len(sums[name]) != len(self.losses.sums) for name in ("losses", "weights")):
            raise ValueError("the sums of the losses are those of another number of outputs")
        self.losses.sums, self.losses.weights = list(sums["losses"]), list(sums["weights"])
        for name, running in self.running.items():
            places = [place for place in arrays if place.rpartition(".")[0] == name]
            running.restore({place.rpartition(".")[2]: arrays[place] for place in places})


def measure(objective: Objective, metrics: Mapping[str, Metric], feed: BatchStream) -> dict[str, float]:
    """Loss and metrics in inference mode over all batches of a feed."""
    measures = EpochMetrics(metrics, objective)
    with objective.evaluating() as own:
        for batch in feed.epoch(0):
            own.forward(batch, training=False)
            measures.add(own, batch)
    return measures.values()
