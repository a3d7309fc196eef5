"""One step of training over the shards of a rank, and the sum over all ranks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from time import perf_counter
from typing import NamedTuple

import numpy as np

from ..graph.program import Program
from ..graph.tensor import Array
from ..nn.batches import BatchParts
from ..nn.module import Module
from ..nn.objective import Objective
from ..nn.optimizers import Optimizer
from ..nn.recording import recording_of
from .batch_normalization import Lockstep, RunningStatistics
from .communicator import Communicator
from .exchange import Exchange
from .gradient_vector import Gradients
from .shard_metrics import ShardMetrics
from .shards import Shards
from .shared_memory import vector
from .tree_sums import sum_in_tree


class StepLosses(NamedTuple):
    """The losses of the outputs over the whole batch, what their means were divided by, and the number of samples."""

    values: list[float]
    totals: list[float]
    samples: int
    flag: int  # the largest that a rank has given
    blocked: Array  # seconds that each rank could not go on since the step before


class ShardedObjective:
    """Forward and backward passes over the shards of this rank; afterwards the gradients are those of the whole batch.

    Subtrees that wait for their sibling lie on a stack of vectors, each as long as all gradients.
    """

    def __init__(
        self,
        network: Module,
        objective: Objective,
        optimizer: Optimizer,
        comm: Communicator,
        shards: Shards,
        *,
        synchronized: bool = False,
    ) -> None:
        """``synchronized`` batch normalization takes all shards of the rank at once."""
        self.exchange_seconds = 0.0  # spent on sums and messages, not counting what it waits
        self._network, self._objective, self._optimizer = network, objective, optimizer
        self._comm, self._shards, self._synchronized = comm, shards, synchronized
        self.exchange: Exchange
        self._prepare()

    def _prepare(self) -> None:
        self._graph = graph = recording_of(self._network, True).graph
        self.statistics = RunningStatistics(graph)
        extra = 0 if self._synchronized else self.statistics.size
        self.gradients = Gradients(self._network, self._optimizer.parameters, extra, self._comm)
        self._lockstep: Lockstep | None = None
        if self._synchronized:
            self._lockstep = Lockstep(self._network, self._objective, self.gradients, self._comm, self._shards)
        self.exchange = Exchange(
            self._comm,
            self._shards,
            self.gradients.length,
            self.gradients.buckets,
            gathers=not self._comm.shard_optimizer,
        )
        self._reported = self._blocked
        self._place(self.exchange.parts[-1])
        self._stack = self.exchange.parts[:-1]

    def _place(self, vector: Array) -> None:
        """Compute gradients in this vector from now on."""
        self.gradients.lie_in(vector)
        self._objective.forget()
        self._optimizer.regroup()

    def refresh(self) -> bool:
        """Follow a network that was recorded anew, or whose parameters were frozen or unfrozen; True if anything changed."""
        if recording_of(self._network, True).graph is self._graph and self.gradients.fits(self._optimizer.parameters):
            return False
        before = self.exchange
        self._prepare()
        before.close()
        return True

    def close(self) -> None:
        """Free the resources of the exchange; parameters keep their gradients. Collective."""
        if self.exchange.shares_memory:
            kept = vector(self.gradients.length)
            np.copyto(kept, self.gradients.vector)
            self._place(kept)
        self._stack, self._lockstep = [], None
        self.exchange.close()

    # The whole batch.

    def run(
        self, batches: Sequence[BatchParts], seed: int, number: int, measures: ShardMetrics, flag: int = 0
    ) -> StepLosses:
        """Compute the gradients of a step over these batches, the first of which has this number in the run.

        ``flag`` tells all ranks something about this one.
        """
        totals = self._totals(batches)
        self.statistics.begin()
        if self._lockstep is not None:
            contributions = self._lockstep.run(batches, totals, seed, number, measures, self.exchange)
            self._wait()
        else:
            contributions = self._one_by_one(batches, totals, seed, number, measures)
        told = np.full((len(contributions), 2), (flag, self.take_blocked()))
        rows = self._comm.gather_rows(np.hstack([contributions, told]), [b - a for a, b in self._shards.runs])
        values = [math.fsum(column) for column in rows[:, :-2].T]
        blocked = rows[[first for first, _ in self._shards.runs], -1]
        return StepLosses(values, totals, sum(parts.size for parts in batches), int(rows[:, -2].max()), blocked)

    @property
    def _blocked(self) -> float:
        """Seconds that this rank had to wait."""
        return self.exchange.seconds + self._comm.seconds

    def take_blocked(self) -> float:
        """Seconds not reported yet."""
        seconds, self._reported = self._blocked - self._reported, self._blocked
        return seconds

    def _one_by_one(
        self, batches: Sequence[BatchParts], totals: list[float], seed: int, number: int, measures: ShardMetrics
    ) -> Array:
        """Run the passes over the shards of this rank; returns their contributions to the losses, a row for each."""
        own, count, height = self._shards.own, len(batches), 0
        contributions = np.zeros((len(own), len(totals)))
        for position, shard in enumerate(own):
            for i, parts in enumerate(batches):
                batch = parts.batches[position]
                joins = (1 if i else 0) + (self._shards.own_joins[position] if i == count - 1 else 0)
                last = shard == own[-1] and i == count - 1
                program = None
                if batch is not None:
                    self.statistics.clear()
                    draw = (number + i) * self._shards.count + shard
                    program, _ = self._objective.forward(batch, training=True, seed=(seed, draw), totals=totals)
                    contributions[position] += self._objective.values
                    measures.count_shard(shard, self._objective, batch)
                    self.statistics.write(self.gradients.extra, batch.size / parts.size, count - 1 - i)
                if last:
                    self._finish(program, height, joins)
                else:
                    height = self._add(program, height, joins)
        self._wait()
        self.statistics.finish(self.gradients.extra, count)
        return contributions

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

    # The gradients of one shard.

    def _clear(self) -> None:
        """An empty shard: its gradients are zeros."""
        self.gradients.vector.fill(0)

    def _level(self, height: int) -> Array:
        while len(self._stack) <= height:
            self._stack.append(vector(len(self.gradients.vector)))
        return self._stack[height]

    def _add(self, program: Program | None, height: int, joins: int) -> int:
        """Compute the gradients of a shard and sum them with what waits on the stack; gives its new height."""
        if program is None:
            self._clear()
        else:
            self._objective.backward(program)
        began = perf_counter()
        target = self._level(height - joins)
        waiting = self._stack[height - joins : height]
        sum_in_tree(target, [*waiting, self.gradients.vector], [*[0] * joins, joins])
        self._objective.seconds["backward"] += perf_counter() - began
        return height - joins + 1

    def _finish(self, program: Program | None, height: int, joins: int) -> None:
        """The same for the last shard of this rank, bucket by bucket; each is sent as soon as it is summed."""
        began = perf_counter()
        whole, buckets = self.gradients.vector, self.gradients.buckets
        if program is None:
            self._clear()
            ends = [0] * len(buckets)
        else:
            ends = self.gradients.finished(program)
            if not self._comm.overlap:
                ends = ends[-1:] * len(buckets)
        calls = [] if program is None else program.backward_one_by_one()
        done = 0
        for (start, stop), end in zip(buckets, ends, strict=True):
            for call in calls[done:end]:
                call.run()
                self.exchange.poll()
            done = end
            if joins:
                waiting = [level[start:stop] for level in self._stack[height - joins : height]]
                sum_in_tree(whole[start:stop], [*waiting, whole[start:stop]], [*[0] * joins, joins])
            self.exchange.start()
        for call in calls[done:]:
            call.run()
        self._objective.seconds["backward"] += perf_counter() - began

    def _wait(self) -> None:
        began, blocked = perf_counter(), self._blocked
        self.exchange.finish()
        if self._comm.shard_optimizer and len(self.gradients.extra):  # every rank needs all extra numbers
            buckets = [bucket for bucket in self.gradients.buckets if bucket[1] > self.gradients.size]
            self._comm.gather_chunks(self.gradients.vector, buckets)
        spent = perf_counter() - began
        self._objective.seconds["exchange"] = self._objective.seconds.get("exchange", 0.0) + spent
        self.exchange_seconds += spent - (self._blocked - blocked)
