"""Metrics of a run on several ranks: counted for every shard by itself, joined in the order of the shards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..graph.tensor import Array
from ..nn.batches import Batch, BatchStream, Span
from ..nn.epoch_metrics import EpochMetrics
from ..nn.metrics import Metric
from ..nn.objective import Objective
from .communicator import Communicator
from .shards import Shards


class ShardMetrics(EpochMetrics):
    """The measures of an epoch. ``values`` and ``arrays`` are collective: all ranks ask for them together."""

    def __init__(self, metrics: Mapping[str, Metric], objective: Objective, comm: Communicator, shards: Shards) -> None:
        super().__init__(metrics, objective)
        self._metrics, self._objective, self._comm, self._shards = metrics, objective, comm, shards
        self._of_shards = {shard: EpochMetrics(metrics, objective) for shard in shards.own}

    def count_shard(self, shard: int, objective: Objective, batch: Batch) -> None:
        """Count the samples of a shard, whose forward pass was just made."""
        self._of_shards[shard].count(objective, batch)

    def _gathered(self) -> dict[int, dict[str, tuple[dict[str, Array], Any]]]:
        """The counts of every metric for every shard, and the keys of its parts if it has some. Collective."""
        own = {
            shard: {name: (running.arrays(), running.keys) for name, running in measures.running.items()}
            for shard, measures in self._of_shards.items()
        }
        everyone = self._comm.gather(own) if self.running else []
        return {shard: counts for parts in everyone for shard, counts in parts.items()}

    def values(self) -> dict[str, float]:
        shards = self._gathered()

        def joined() -> dict[str, float]:
            whole = EpochMetrics(self._metrics, self._objective).running
            for _, counts in sorted(shards.items()):
                parts = EpochMetrics(self._metrics, self._objective).running
                for name, (arrays, keys) in counts.items():
                    part = parts[name]
                    part.restore(arrays)
                    part.keys = keys
                    whole[name].join(part)
            return {name: running.value() for name, running in whole.items()}

        return {**self.losses.values(), **self._comm.once(joined)}

    def so_far(self) -> dict[str, float]:
        """The losses alone: only one rank shows them, and metrics take all ranks."""
        return self.losses.values()

    def arrays(self) -> dict[str, Array]:
        return {
            f"{shard}.{name}.{part}": array
            for shard, counts in self._gathered().items()
            for name, (arrays, _) in counts.items()
            for part, array in arrays.items()
        }

    def restore(self, sums: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
        for shard, measures in self._of_shards.items():
            prefix = f"{shard}."
            measures.restore(sums, {n.removeprefix(prefix): a for n, a in arrays.items() if n.startswith(prefix)})
        self.losses.sums, self.losses.weights = list(sums["losses"]), list(sums["weights"])


def measure(
    objective: Objective, metrics: Mapping[str, Metric], feed: BatchStream, comm: Communicator, shards: Shards
) -> dict[str, float]:
    """Loss and metrics in inference mode. Batch b is measured by the rank that has shard b modulo their number."""
    measures = ShardMetrics(metrics, objective, comm, shards)
    outputs = len(objective.keys)
    rows = np.zeros((feed.source.batches, 2 * outputs))

    def whole(index: int, samples: int) -> list[Span]:
        return [(0, samples)] if index % shards.count in shards.own else []

    with objective.evaluating() as own:
        for index, (_, batches) in enumerate(feed.parts(0, 0, whole)):
            for batch in batches:
                assert batch is not None
                own.forward(batch, training=False)
                measures.count_shard(index % shards.count, own, batch)
                rows[index] = [*own.values, *own.divisors]
    everyone = comm.gather(rows)
    owners = [rank for rank, (first, last) in enumerate(shards.runs) for _ in range(first, last)]
    for index in range(len(rows)):
        row = everyone[owners[index % shards.count]][index].tolist()
        objective.values[:], objective.divisors[:] = row[:outputs], row[outputs:]
        measures.losses.add(objective)
    return measures.values()
