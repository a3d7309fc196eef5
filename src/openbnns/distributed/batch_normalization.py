"""Batch normalization by the statistics of a whole batch, of which every program has a shard.

Forward and backward pass each have two halves. The first computes sums over the shard, which are then summed over all shards;
the second goes on with the sums over the batch.

    mean = Σ x / n,  variance = Σ x² / n - mean²,  z = (x - mean) / √(variance + ε),  y = γ z + β
    dβ = Σ dy,  dγ = Σ dy z,  dx = γ / √(variance + ε) (dy - dβ / n - z dγ / n)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from time import perf_counter

import numpy as np

from .. import NormalizationType, engines
from ..graph.calls import CallList, Calls, NumpyCall
from ..graph.graph import Graph
from ..graph.operation import Operation
from ..graph.operations import Normalization, NormalizedOperation
from ..graph.parameter import Parameter
from ..graph.program import Program
from ..graph.sizes import AnySize
from ..graph.tensor import Array, Tensor
from ..nn.batches import Batch, BatchParts
from ..nn.module import Module
from ..nn.objective import Objective
from ..nn.recording import input_shapes, recording_of, separate_graph
from .communicator import Communicator
from .gradient_vector import Gradients, vector
from .shard_metrics import ShardMetrics
from .shards import Shards
from .tree_sums import sum_in_tree, sum_of_rows


class Meeting:
    """A call in two halves, between which ``sums`` is summed over all programs that make it."""

    def __init__(self, first: Callable[[], object], sums: Array, second: Callable[[], object]) -> None:
        self.first, self.sums, self.second = first, sums, second

    def __call__(self) -> None:
        raise AssertionError("a meeting needs others")


class SynchronizedNormalization(Operation):
    """The replacement of a batch normalization while a network is recorded for shards."""

    keeps_inputs = True

    def __init__(
        self, graph: Graph, x: Tensor, type: NormalizationType, sample: Sequence[AnySize], gamma: Parameter | None,
        beta: Parameter | None, momentum: float, epsilon: float,
    ) -> None:  # fmt: skip
        self.gamma, self.beta, self.keep, self.epsilon = gamma, beta, momentum, epsilon
        self.running = type.moving_mean, type.moving_variance
        self.channels = int(sample[0])
        super().__init__([x], Tensor(graph, x.shape), [p for p in (beta, gamma) if p is not None])

    def forward(self, x: list[Array], y: Array, training: bool) -> Calls:
        assert training, "inference has no need of others"
        batch, channels = len(y), self.channels
        sums = np.zeros(2 * channels + 1)
        factors = np.zeros((4, channels), np.float32)
        # Belong to the program being made, whose backward comes next.
        self._mean, self._scale = np.zeros(channels), np.zeros(channels)
        mean, scale = self._mean, self._scale

        def first() -> None:
            channel_sums(x[0], x[0], sums[:-1], batch, channels)
            sums[-1] = x[0].size // channels

        def second() -> None:
            mean[...], variance = self._statistics(sums)
            np.divide(1.0, np.sqrt(variance + self.epsilon), out=scale)
            factors[1] = scale if self.gamma is None else scale * self.gamma.data.reshape(-1)
            factors[2] = mean
            factors[3] = 0 if self.beta is None else self.beta.data.reshape(-1)
            channel_combination(y, None, x[0], factors, batch, channels)

        return [Meeting(first, sums, second)]

    def _statistics(self, sums: Array) -> tuple[Array, Array]:
        mean = sums[: self.channels] / sums[-1]
        return mean, np.maximum(sums[self.channels : -1] / sums[-1] - mean * mean, 0.0)

    def note(self, sums: Array) -> None:
        """Let the running statistics follow those of a batch."""
        for running, current in zip(self.running, self._statistics(sums), strict=True):
            if running is not None:
                running[...] = self.keep * running.astype(np.float64) + (1.0 - self.keep) * current

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Calls:
        batch, channels, target = len(y), self.channels, dx[0]
        mean, scale = self._mean, self._scale
        sums = np.zeros(2 * channels + 1)
        factors = np.zeros((4, channels), np.float32)
        given = iter(dp)
        of_beta, of_gamma = (None if p is None else next(given) for p in (self.beta, self.gamma))

        def first() -> None:
            channel_sums(dy, x[0], sums[:-1], batch, channels)
            sums[-1] = x[0].size // channels
            sums[channels:-1] -= mean * sums[:channels]
            sums[channels:-1] *= scale  # Σ dy z
            if of_beta is not None:
                of_beta.reshape(-1)[...] = sums[:channels]
            if of_gamma is not None:
                of_gamma.reshape(-1)[...] = sums[channels:-1]

        if target is None:
            return NumpyCall(first)

        def second() -> None:
            factor = scale if self.gamma is None else scale * self.gamma.data.reshape(-1)
            factors[0] = factor
            factors[1] = -factor * scale * sums[channels:-1] / sums[-1]
            factors[2] = mean
            factors[3] = -factor * sums[:channels] / sums[-1]
            channel_combination(target, dy, x[0], factors, batch, channels)

        return [Meeting(first, sums, second)]


def channel_sums(a: Array, b: Array, sums: Array, batch: int, channels: int) -> None:
    """Sums of a and of a b over each channel of (batch, channels, ...), in double precision, one behind the other."""
    if engines._core is not None:
        engines._core.channel_sums(a, b, sums, batch, channels)
        return
    left, right = (array.reshape(batch, channels, -1).astype(np.float64) for array in (a, b))
    sums[:channels], sums[channels:] = left.sum((0, 2)), (left * right).sum((0, 2))


def channel_combination(y: Array, a: Array | None, x: Array, factors: Array, batch: int, channels: int) -> None:
    """y = f0 a + f1 (x - f2) + f3, with a row of ``factors`` for each f: a number for every channel."""
    if engines._core is not None:
        engines._core.channel_combination(y, a, x, factors, batch, channels)
        return
    f0, f1, f2, f3 = (row.reshape(1, channels, 1) for row in factors)
    shape = batch, channels, -1
    sums = f1 * (x.reshape(shape) - f2) + f3
    if a is not None:
        sums += f0 * a.reshape(shape)
    y.reshape(shape)[...] = sums


class RunningStatistics:
    """The running statistics of all normalizations of a graph that have any."""

    def __init__(self, graph: Graph) -> None:
        self._arrays: list[Array] = []
        self._keep: list[float] = []  # in one forward pass
        places: dict[int, int] = {}
        for operation in graph.operations:
            normalization = operation.normalization if isinstance(operation, NormalizedOperation) else operation
            if not isinstance(normalization, Normalization):
                continue
            for array in (normalization.type.moving_mean, normalization.type.moving_variance):
                if array is None:
                    continue
                place = places.setdefault(id(array), len(self._arrays))
                if place == len(self._arrays):
                    self._arrays.append(array)
                    self._keep.append(1.0)
                self._keep[place] *= normalization.momentum  # once for every call of a module
        self.size = sum(array.size for array in self._arrays)
        self._before: list[Array] = []

    def begin(self) -> None:
        """Begin a step."""
        self._before = [array.copy() for array in self._arrays]

    def clear(self) -> None:
        """Begin a forward pass."""
        for array in self._arrays:
            array.fill(0)

    def write(self, target: Array, share: float, batches_left: int) -> None:
        """Store the statistics of a forward pass, weighted by its share of the batch; later batches of the step follow."""
        start = 0
        for array, keep in zip(self._arrays, self._keep, strict=True):
            end = start + array.size
            np.multiply(array.reshape(-1), np.float32(share * keep**batches_left), out=target[start:end])
            start = end

    def finish(self, total: Array, batches: int) -> None:
        """Set the statistics to the sum over all shards of a step of this many batches."""
        start = 0
        for array, before, keep in zip(self._arrays, self._before, self._keep, strict=True):
            end = start + array.size
            array[...] = (keep**batches * before.astype(np.float64)).astype(np.float32) + total[start:end].reshape(
                array.shape
            )
            start = end


class _Way:
    """A forward or backward pass: its parts, and the meetings between them."""

    def __init__(self, calls: Sequence[Callable[[], object]], lasting: list[object]) -> None:
        self.parts, self.meetings = [CallList(lasting)], list[Meeting]()
        for call in calls:
            if isinstance(call, Meeting):
                self.parts[-1].calls.append(NumpyCall(call.first))
                self.meetings.append(call)
                self.parts.append(CallList(lasting))
                self.parts[-1].calls.append(NumpyCall(call.second))
            else:
                self.parts[-1].calls.append(call)


class _Shard:
    """The network with memory for one shard of so many samples, cut where its normalizations meet."""

    def __init__(self, graph: Graph, samples: int, objective: Objective) -> None:
        self.program = Program(graph, graph.sizes_for(samples), training=True)
        self.bound = objective.bind(self.program, recording_of(objective.network, True).structure)
        self.forward = _Way(self.program.calls_forward, self.program.lasting)
        self.backward = _Way(self.program.calls_of_parameters, self.program.lasting)


class Lockstep:
    """All shards of this rank, together."""

    def __init__(self, objective: Objective, gradients: Gradients, comm: Communicator, shards: Shards) -> None:
        self._objective, self._gradients, self._comm, self._shards = objective, gradients, comm, shards
        self._graphs = [_record(objective.network) for _ in shards.own]
        self._normalizations = [o for o in self._graphs[0].operations if isinstance(o, SynchronizedNormalization)]
        self._joins = Shards(shards.count).own_joins  # of all shards
        self._vectors = [vector(len(gradients.vector)) for _ in shards.own]  # of gradients
        self._sums: list[Array] = []  # over the batches of a step
        self._made: dict[tuple[int, int], _Shard] = {}

    def weigh(self, position: int, batch: Batch) -> list[float]:
        """The divisor of the mean of each loss over this shard."""
        return self._objective.weigh_bound(self._shard(position, batch.size).bound, batch)

    def _shard(self, position: int, samples: int) -> _Shard:
        key = position, samples
        if key not in self._made:
            with self._gradients.at(self._vectors[position]):
                self._made[key] = _Shard(self._graphs[position], samples, self._objective)
        return self._made[key]

    def run(
        self, batches: Sequence[BatchParts], totals: list[float], seed: int, number: int, measures: ShardMetrics
    ) -> Array:
        """Compute the gradients of all shards of this rank; returns their contributions to the losses, a row for each."""
        contributions = np.zeros((len(self._shards.own), len(totals)))
        forward, backward = self._meetings()
        seconds = self._objective.seconds
        for i, parts in enumerate(batches):
            there = [(p, self._shard(p, b.size), b) for p, b in enumerate(parts.batches) if b is not None]
            for position, shard, batch in there:
                shard.program.seed(seed, (number + i) * self._shards.count + self._shards.own[position])
                shard.program.graph.read_arrays()
                self._objective.fill(shard.program, batch)
            began = perf_counter()
            summed = self._through({p: shard.forward for p, shard, _ in there}, forward)
            for normalization, total in zip(self._normalizations, summed, strict=True):
                normalization.note(total)
            for position, shard, batch in there:
                self._objective.evaluate(shard.bound, batch, totals)
                contributions[position] += self._objective.values
                measures.count_shard(self._shards.own[position], self._objective, batch)
            seconds["forward"] += perf_counter() - began
            began = perf_counter()
            for position in set(range(len(self._vectors))) - {p for p, _, _ in there}:
                self._vectors[position].fill(0)
            list(self._through({p: shard.backward for p, shard, _ in there}, backward))
            self._add(first=i == 0, last=i == len(batches) - 1)
            seconds["backward"] += perf_counter() - began
        return contributions

    def _meetings(self) -> tuple[list[int], list[int]]:
        """The sizes of what is summed at each meeting, which a rank without samples has to know as well."""
        example = next(iter(self._made.values()), None) or self._shard(0, 1)
        return [len(m.sums) for m in example.forward.meetings], [len(m.sums) for m in example.backward.meetings]

    def _through(self, ways: Mapping[int, _Way], sizes: Sequence[int]) -> Iterator[Array]:
        """Run all parts of a pass of the shards at these positions, and meet between them; gives what was summed."""
        for number, size in enumerate([*sizes, 0]):
            for way in ways.values():
                way.parts[number].run()
            if number < len(sizes):
                own = np.zeros((len(self._vectors), size))
                for position, way in ways.items():
                    own[position] = way.meetings[number].sums
                total = sum_of_rows(self._comm.gather_rows(own, [b - a for a, b in self._shards.runs]), self._joins)
                for way in ways.values():
                    way.meetings[number].sums[...] = total
                yield total

    def _add(self, *, first: bool, last: bool) -> None:
        """Add the gradients of a batch to those of the batches before it."""
        if first:
            self._sums = self._vectors if last else [v.copy() for v in self._vectors]
            return
        for total, more in zip(self._sums, self._vectors, strict=True):
            sum_in_tree(total, [total, more], [0, 1])

    def sum_subtrees(self, parts: Sequence[Array]) -> None:
        """Sum the gradients of a step over the subtrees of this rank."""
        own, joins = self._shards.own.start, self._shards.own_joins
        for (low, high), part in zip(self._shards.subtrees[self._shards.rank], parts, strict=True):
            tree = slice(low - own, high - own)
            sum_in_tree(part, self._sums[tree], joins[tree])


def _record(network: Module) -> Graph:
    """The network once more, with layers of its own and normalizations that meet."""
    graph, _ = separate_graph(
        network, input_shapes(network), training=True, batch_normalization=SynchronizedNormalization
    )
    if RunningStatistics(graph).size:
        raise ValueError(
            "Trainer: sync_batch_norm is for batch normalization, but the network has an instance normalization with running "
            "statistics, which belong to one shard at a time. Use track_running_stats=False."
        )
    return graph
