"""Passes over all shards of a rank at once, step by step, so that normalizations can meet: ``sync_batch_norm=True``.

Every shard has layers and memory of its own, as they keep what the backward pass needs, and a vector for its gradients.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from time import perf_counter

import numpy as np

from .. import engines
from ..graph.calls import CallList, NumpyCall
from ..graph.graph import Graph, recording
from ..graph.parameter import making
from ..graph.program import Program
from ..graph.structure import flatten
from ..graph.tensor import Array
from ..nn.batches import Batch, Parts
from ..nn.module import Module
from ..nn.training_passes import Passes
from .communicator import Communicator
from .exchange import Exchange
from .gradients import Gradients
from .measures import ShardMeasures
from .memory import vector
from .shards import Shards, Span
from .statistics import RunningStatistics
from .sums import sum_in_tree
from .synchronized import Meeting, SynchronizedNormalization


class _Way:
    """A forward or backward pass: its parts, how many calls are done after each, and the meetings between them."""

    def __init__(self, calls: Sequence[Callable[[], object]], lasting: list[object]) -> None:
        self.parts, self.meetings, self.ends = [CallList(lasting)], list[Meeting](), list[int]()
        for number, call in enumerate(calls):
            if isinstance(call, Meeting):
                self.parts[-1].calls.append(NumpyCall(call.first))
                self.ends.append(number)
                self.meetings.append(call)
                self.parts.append(CallList(lasting))
                self.parts[-1].calls.append(NumpyCall(call.second))
            else:
                self.parts[-1].calls.append(call)
        self.ends.append(len(calls))


class _Shard:
    """The network with memory for one shard of so many samples, cut where its normalizations meet."""

    def __init__(self, graph: Graph, samples: int, passes: Passes) -> None:
        self.program = Program(graph, graph.sizes_for(samples), training=True)
        self.bound = passes.bind(self.program, passes.network._recording(True).structure)
        self.forward = _Way(self.program.calls_forward, self.program.lasting)
        self.backward = _Way(self.program.calls_of_parameters, self.program.lasting)


class Lockstep:
    """All shards of this rank, together."""

    def __init__(
        self, network: Module, passes: Passes, gradients: Gradients, comm: Communicator, shards: Shards
    ) -> None:
        self._passes, self._gradients, self._comm, self._shards = passes, gradients, comm, shards
        self._graphs = [_record(network) for _ in shards.own]
        steps = self._graphs[0].operations
        self._normalizations = [step for step in steps if isinstance(step, SynchronizedNormalization)]
        self._joins = Shards(shards.count).own_joins  # of all shards
        self._vectors = [vector(gradients.length) for _ in shards.own]  # of gradients
        self._sums: list[Array] = []  # sums over several batches
        self._made: dict[tuple[int, int], _Shard] = {}
        self.buckets = gradients.buckets

    def weigh(self, position: int, batch: Batch) -> list[float]:
        """The divisor of the mean of each loss over this shard."""
        return self._passes.weigh_bound(self._shard(position, batch.size).bound, batch)

    def _shard(self, position: int, samples: int) -> _Shard:
        key = position, samples
        if key not in self._made:
            with self._gradients.at(self._vectors[position]):
                self._made[key] = _Shard(self._graphs[position], samples, self._passes)
        return self._made[key]

    def run(
        self,
        batches: Sequence[Parts],
        totals: list[float],
        seed: int,
        number: int,
        measures: ShardMeasures,
        exchange: Exchange,
    ) -> Array:
        """Compute the gradients of all shards and begin to exchange them; gives what they contribute to the losses.

        The last backward pass sends every bucket as soon as all shards have its gradients.
        """
        contributions = np.zeros((len(self._shards.own), len(totals)))
        forward, backward = self._meetings()
        seconds = self._passes.seconds
        for i, parts in enumerate(batches):
            shards = [None if b is None else self._shard(p, b.size) for p, b in enumerate(parts.batches)]
            for position, (shard, batch) in enumerate(zip(shards, parts.batches, strict=True)):
                if shard is not None and batch is not None:
                    draw = (number + i) * self._shards.count + self._shards.own[position]
                    shard.program.seed(seed, draw)
                    shard.program.graph.read_arrays()
                    self._passes.fill(shard.program, batch)
            began = perf_counter()
            for meeting, total in enumerate(self._through([None if s is None else s.forward for s in shards], forward)):
                self._normalizations[meeting].note(total)
            for position, (shard, batch) in enumerate(zip(shards, parts.batches, strict=True)):
                if shard is not None and batch is not None:
                    self._passes.evaluate(shard.bound, batch, totals)
                    contributions[position] += self._passes.losses
                    measures.count_shard(self._shards.own[position], self._passes, batch)
            seconds["forward"] += perf_counter() - began
            began = perf_counter()
            for position, shard in enumerate(shards):
                if shard is None:
                    self._vectors[position].fill(0)
            sending = _Sending(self, shards, exchange, first=i == 0) if i == len(batches) - 1 else None
            for _ in self._through([None if s is None else s.backward for s in shards], backward, sending):
                pass
            if sending is None:
                self._keep(first=i == 0)
            seconds["backward"] += perf_counter() - began
        return contributions

    def _meetings(self) -> tuple[list[int], list[int]]:
        """The sizes of what is summed at each meeting, which a rank without samples has to know as well."""
        example = next(iter(self._made.values()), None) or self._shard(0, 1)
        return [len(m.sums) for m in example.forward.meetings], [len(m.sums) for m in example.backward.meetings]

    def _through(
        self, ways: Sequence[_Way | None], sizes: Sequence[int], sending: _Sending | None = None
    ) -> Iterator[Array]:
        """Run all parts of a pass, and meet between them; gives what was summed."""
        there = [way for way in ways if way is not None]
        for number in range(len(sizes) + 1):
            for way in there:
                way.parts[number].run()
            if sending is not None:
                sending.after(number)
            if number < len(sizes):
                own = np.stack([np.zeros(sizes[number]) if way is None else way.meetings[number].sums for way in ways])
                rows = self._comm.gather_rows(own, [b - a for a, b in self._shards.runs])
                total = _sum_rows(rows, self._joins)
                for way in there:
                    way.meetings[number].sums[...] = total
                yield total

    def _keep(self, *, first: bool) -> None:
        """Add the gradients of a batch to those of the batches before it."""
        if first:
            self._sums = [v.copy() for v in self._vectors]
            return
        for total, more in zip(self._sums, self._vectors, strict=True):
            sum_in_tree(total, [total, more], [0, 1])

    def finished(self, shards: Sequence[_Shard | None]) -> list[int]:
        """The part of the backward pass after which each bucket is final for all of these shards."""
        parts = [0] * len(self._gradients.buckets)
        for shard in shards:
            if shard is not None:
                ends = shard.backward.ends
                calls = self._gradients.finished(shard.program)
                parts = [max(part, bisect_left(ends, call)) for part, call in zip(parts, calls, strict=True)]
        return list(accumulate(parts, max)) if self._comm.overlap else [max(parts)] * len(parts)

    def sum_subtrees(self, span: Span, parts: Sequence[Array], *, first: bool) -> None:
        """The sums over the subtrees of this rank, of one bucket; without ``first`` of all batches of the step."""
        start, stop = span
        leaves = [v[start:stop] for v in self._vectors]
        if not first:
            sums = [total[start:stop] for total in self._sums]
            for total, more in zip(sums, leaves, strict=True):
                sum_in_tree(total, [total, more], [0, 1])
            leaves = sums
        own, joins = self._shards.own.start, self._shards.own_joins
        for (low, high), part in zip(self._shards.subtrees[self._shards.rank], parts, strict=True):
            tree = slice(low - own, high - own)
            sum_in_tree(part[start:stop], leaves[tree], joins[tree])


class _Sending:
    """The buckets of a backward pass, each of which is sent once all shards have it."""

    def __init__(self, lockstep: Lockstep, shards: Sequence[_Shard | None], exchange: Exchange, *, first: bool) -> None:
        self._lockstep, self._exchange, self._first = lockstep, exchange, first
        self._waiting = deque(zip(lockstep.finished(shards), lockstep.buckets, strict=True))

    def after(self, part: int) -> None:
        """This part of the pass is done."""
        self._exchange.poll()
        while self._waiting and self._waiting[0][0] <= part:
            _, span = self._waiting.popleft()
            self._lockstep.sum_subtrees(span, self._exchange.parts, first=self._first)
            self._exchange.start()


def _sum_rows(rows: Array, joins: Sequence[int]) -> Array:
    """The sum of all rows in the order of the tree."""
    stack: list[Array] = []
    for row, count in zip(rows, joins, strict=True):
        stack.append(row)
        for _ in range(count):
            right = stack.pop()
            stack[-1] = stack[-1] + right
    return stack[0]


def _record(network: Module) -> Graph:
    """The network once more, with layers of its own and normalizations that meet."""
    assert network._graph is not None
    graph = network._empty_graph(0, training=True)
    graph.batch_normalization = SynchronizedNormalization
    shapes = network._with_free_sizes(network._input_shapes(), graph.sizes)
    values = [graph.input(shape) for shape in shapes]
    with making:
        with recording(graph):
            outputs, _ = flatten(network(*values))
        graph.arithmetic = network._arithmetic()
        with engines.using_arithmetic(graph.arithmetic):
            graph.finish(outputs)
    if RunningStatistics(graph).size:
        raise ValueError(
            "Trainer: sync_batch_norm is for batch normalization, but the network has an instance normalization with running "
            "statistics, which belong to one shard at a time. Use track_running_stats=False."
        )
    return graph
