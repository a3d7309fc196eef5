"""One step of training over the shards of a rank, and the sum over all ranks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..graph.tensor import Array
from ..nn.batches import BatchParts
from ..nn.recording import recording_of
from .batch_normalization import Lockstep, RunningStatistics
from .communicator import Communicator
from .exchange import Exchange
from .gradient_vector import Gradients, vector
from .shard_metrics import ShardMetrics
from .shards import Shards
from .tree_sums import sum_in_tree

if TYPE_CHECKING:
    from ..nn.trainer import Trainer


class StepLosses(NamedTuple):
    """The losses of the outputs over the whole batch, what their means were divided by, and the number of samples."""

    values: list[float]
    totals: list[float]
    samples: int
    flag: int  # the largest that a rank has given


class ShardedObjective:
    """Forward and backward passes over the shards of this rank; afterwards the gradients are those of the whole batch.

    Subtrees that wait for their sibling lie on a stack of vectors, each as long as all gradients.
    """

    def __init__(self, trainer: Trainer, comm: Communicator, shards: Shards) -> None:
        self._network, self._objective, self._optimizer = trainer.network, trainer.objective, trainer.optimizer
        self._comm, self._shards = comm, shards
        self._synchronized = trainer.sync_batch_norm  # takes all shards of the rank at once
        self._prepare()

    def _prepare(self) -> None:
        self._graph = graph = recording_of(self._network, True).graph
        self.statistics = RunningStatistics(graph)
        extra = 0 if self._synchronized else self.statistics.size
        self._gradients = Gradients(self._network, self._optimizer.parameters, extra)
        self._objective.forget()
        self._optimizer.regroup()
        self._stack: list[Array] = []
        self._lockstep: Lockstep | None = None
        if self._synchronized:
            self._lockstep = Lockstep(self._objective, self._gradients, self._comm, self._shards)
        self._exchange = Exchange(self._comm, self._shards, len(self._gradients.vector))

    def refresh(self) -> None:
        """Follow a network that was recorded anew, or whose parameters were frozen or unfrozen."""
        same = recording_of(self._network, True).graph is self._graph
        if not same or not self._gradients.fits(self._optimizer.parameters):
            self._prepare()

    # The whole batch.

    def run(
        self, batches: Sequence[BatchParts], seed: int, number: int, measures: ShardMetrics, flag: int = 0
    ) -> StepLosses:
        """Compute the gradients of a step over these batches, the first of which has this number; ``flag`` goes to all ranks."""
        totals = self._totals(batches)
        self.statistics.begin()
        parts = self._parts()
        if self._lockstep is not None:
            contributions = self._lockstep.run(batches, totals, seed, number, measures)
            self._lockstep.sum_subtrees(parts)
        else:
            contributions = self._one_by_one(batches, totals, seed, number, measures)
        began, seconds = perf_counter(), self._objective.seconds
        self._exchange.sum(parts)
        seconds["exchange"] = seconds.get("exchange", 0.0) + perf_counter() - began
        if self._lockstep is None:
            self.statistics.finish(self._gradients.extra, len(batches))
        flags = np.full((len(contributions), 1), flag)
        rows = self._comm.gather_rows(np.hstack([contributions, flags]), [b - a for a, b in self._shards.runs])
        values = [math.fsum(column) for column in rows[:, :-1].T]
        return StepLosses(values, totals, sum(parts.size for parts in batches), int(rows[:, -1].max()))

    def _one_by_one(
        self, batches: Sequence[BatchParts], totals: list[float], seed: int, number: int, measures: ShardMetrics
    ) -> Array:
        """Run the passes over the shards of this rank, whose gradients are then summed to its subtrees; returns their
        contributions to the losses, a row for each."""
        own, count, height = self._shards.own, len(batches), 0
        contributions = np.zeros((len(own), len(totals)))
        gradients = self._gradients
        for position, shard in enumerate(own):
            for i, parts in enumerate(batches):
                batch = parts.batches[position]
                if batch is None:
                    gradients.vector.fill(0)
                else:
                    self.statistics.clear()
                    draw = (number + i) * self._shards.count + shard
                    program, _ = self._objective.forward(batch, training=True, seed=(seed, draw), totals=totals)
                    contributions[position] += self._objective.values
                    measures.count_shard(shard, self._objective, batch)
                    self.statistics.write(gradients.extra, batch.size / parts.size, count - 1 - i)
                    self._objective.backward(program)
                joins = (1 if i else 0) + (self._shards.own_joins[position] if i == count - 1 else 0)
                last = shard == own[-1] and i == count - 1
                began = perf_counter()
                height -= joins
                target = gradients.vector if last else self._level(height)
                sum_in_tree(target, [*self._stack[height : height + joins], gradients.vector], [*[0] * joins, joins])
                height += 1
                self._objective.seconds["backward"] += perf_counter() - began
        return contributions

    def _level(self, height: int) -> Array:
        while len(self._stack) <= height:
            self._stack.append(vector(len(self._gradients.vector)))
        return self._stack[height]

    def _parts(self) -> list[Array]:
        """Vectors for the subtrees of this rank; the last of them holds the gradients of a shard before."""
        count = len(self._shards.subtrees[self._comm.rank])
        return [*(self._level(height) for height in range(count - 1)), self._gradients.vector]

    def _totals(self, batches: Sequence[BatchParts]) -> list[float]:
        """The divisors of the means of the losses: sums over all shards of all batches."""
        losses = self._objective.losses
        own = np.zeros((len(self._shards.own), len(losses)))
        for parts in batches:
            for position, batch in enumerate(parts.batches):
                if batch is None:
                    continue
                if self._lockstep is None:
                    own[position] += self._objective.weigh(batch, training=True)
                else:
                    own[position] += self._lockstep.weigh(position, batch)
        rows = self._comm.gather_rows(own, [b - a for a, b in self._shards.runs])
        sums = [math.fsum(column) for column in rows.T]
        return [1.0 if loss.is_sum else total for loss, total in zip(losses, sums, strict=True)]
