"""Sums of vectors over all ranks, bucket by bucket, in stages, while the vectors are still being computed."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

import numpy as np

from ..graph.tensor import Array
from ..nn.batches import Span
from .communicator import Communicator, Group
from .shards import Shards, joins
from .shared_memory import OwnVectors, SharedVectors, room_for
from .tree_sums import narrow, sum_in_tree, sum_into_all, widen


class Swap:
    """Arrays that go to other ranks and come from them, again and again. All ranks start their swaps in the same order.

    These are persistent messages: starting them takes Python next to no time, whatever their number, and what is sent need not
    lie in one piece, as it has to for all-to-all.
    """

    def __init__(self, mpi: Any, comm: Any) -> None:
        self._mpi, self._comm = mpi, comm
        self._requests: list[Any] = []

    def send(self, array: Array, rank: int, tag: int = 0) -> None:
        if len(array):
            self._requests.append(self._comm.Send_init(array, rank, tag))

    def receive(self, array: Array, rank: int, tag: int = 0) -> None:
        if len(array):
            self._requests.append(self._comm.Recv_init(array, rank, tag))

    def start(self) -> Swap:
        self._mpi.Prequest.Startall(self._requests)
        return self

    def Test(self) -> bool:  # as requests of mpi4py have it
        return bool(self._mpi.Request.Testall(self._requests))

    def Wait(self) -> None:
        self._mpi.Request.Waitall(self._requests)

    def free(self) -> None:
        for request in self._requests:
            request.Free()


class Bucket:
    """A span of the vectors of this rank, its subtrees, which are summed over all ranks into the last of them.

    With one rank that is all there is to do. ``own`` is the chunk of the bucket that this rank sums.
    """

    stages = 0

    def __init__(self, group: Group, memory: OwnVectors | SharedVectors, span: Span) -> None:
        start, stop = span
        self._parts = [part[start:stop] for part in memory.own]
        self._sums = self._parts[-1]
        self._chunks = group.chunks_of(stop - start)  # the chunks of the ranks within the bucket
        first, last = self._chunks[group.rank]
        self.own = start + first, start + last
        self._place = slice(first, last)
        self._group = group
        self.request: Any = None

    def start(self) -> None:
        """Note that the parts of this rank are ready."""

    def arrived(self) -> bool:
        """True if there is nothing to wait for."""
        return self.request is None or bool(self.request.Test())

    def wait(self) -> None:
        if self.request is not None:
            self.request.Wait()

    def advance(self, stage: int) -> None:
        """Run a stage whose messages have arrived. Stages count from 1."""
        self.request = None

    def close(self) -> None:
        """Free the resources of MPI."""


class Reduced(Bucket):
    """The sum of MPI itself, in whatever order."""

    stages = 1

    def start(self) -> None:
        if len(self._parts) > 1:
            sum_in_tree(self._sums, self._parts, [0, *[1] * (len(self._parts) - 1)])
        self.request = self._group.chunks.Iallreduce(self._group.mpi.IN_PLACE, self._sums)


class Window(Bucket):
    """Ranks on one host: each sums its chunk straight from the vectors of all, and writes the result into all of them."""

    stages = 2

    def __init__(self, host: Group, shards: Shards, memory: SharedVectors, span: Span, *, gathers: bool) -> None:
        super().__init__(host, memory, span)
        here = slice(*self.own)
        self._memory, self._joins = memory, shards.joins
        self._chunk_parts = [part[here] for parts in memory.everyone for part in parts]
        self._targets = [parts[-1][here] for parts in (memory.everyone if gathers else [memory.own])]

    def start(self) -> None:
        self._memory.sync()
        self.request = self._group.chunks.Ibarrier()

    def advance(self, stage: int) -> None:
        super().advance(stage)
        self._memory.sync()
        if stage == 1:
            sum_into_all(self._targets, self._chunk_parts, self._joins)
            self._memory.sync()
            self.request = self._group.gathers.Ibarrier()  # until which others read and write here


class Messages(Bucket):
    """Ranks anywhere: each gets its chunk from all others, and passes its sum on to them."""

    stages = 2

    def __init__(self, group: Group, shards: Shards, memory: OwnVectors, span: Span, *, gathers: bool) -> None:
        super().__init__(group, memory, span)
        self._gathers, self._joins = gathers, shards.joins
        self._chunk_swap, self._sum_swap = Swap(group.mpi, group.chunks), Swap(group.mpi, group.gathers)
        parts = self._sent_parts()
        self._chunk_parts: list[Array] = []  # of all ranks
        for other, trees in enumerate(shards.subtrees):
            if other == group.rank:
                self._chunk_parts += [part[self._place] for part in parts]
                continue
            for tag in range(len(trees)):
                self._chunk_parts.append(np.empty(self._place.stop - self._place.start, parts[-1].dtype))
                self._chunk_swap.receive(self._chunk_parts[-1], other, tag)
            if gathers:
                self._sum_swap.receive(parts[-1][slice(*self._chunks[other])], other)
        for other, (first, last) in enumerate(self._chunks):
            if other != group.rank:
                for tag, part in enumerate(parts):
                    self._chunk_swap.send(part[first:last], other, tag)
                if gathers:
                    self._sum_swap.send(parts[-1][self._place], other)

    def _sent_parts(self) -> list[Array]:
        """The arrays that parts are sent from. Sums are then in the last of them."""
        return self._parts

    def start(self) -> None:
        self.request = self._chunk_swap.start()

    def advance(self, stage: int) -> None:
        super().advance(stage)
        if stage == 1:
            if self._place.start < self._place.stop:
                sum_in_tree(self._sums[self._place], self._chunk_parts, self._joins)
            if self._gathers:
                self._pass_on()

    def _pass_on(self) -> None:
        self.request = self._sum_swap.start()

    def close(self) -> None:
        self._chunk_swap.free()
        self._sum_swap.free()


class NarrowMessages(Messages):
    """The same in bfloat16. What stays here is rounded as well, so that all ranks have the same sums."""

    def _sent_parts(self) -> list[Array]:
        self._rounded: list[Array] = [np.empty(len(part), np.uint16) for part in self._parts]
        return self._rounded

    def start(self) -> None:
        for part, rounded in zip(self._parts, self._rounded, strict=True):
            narrow(part, rounded)
        super().start()

    def _pass_on(self) -> None:
        narrow(self._sums[self._place], self._rounded[-1][self._place])
        super()._pass_on()

    def advance(self, stage: int) -> None:
        super().advance(stage)
        if stage == 2 and self._gathers:
            widen(self._rounded[-1], self._sums)


class Hosts(Bucket):
    """As many ranks on each of several hosts: those of a host sum as in ``Window``, and between hosts there are ``Messages``.

    A rank sums what its host has of some chunks to the subtrees of the host; then it and the ranks with its number on
    other hosts exchange those. So every host sends and receives as much as one rank would.
    """

    stages = 4

    def __init__(self, comm: Communicator, shards: Shards, memory: SharedVectors, span: Span, *, gathers: bool) -> None:
        super().__init__(comm.everyone, memory, span)
        start, stop = span
        first, last = comm.host.chunks_of(stop - start)[comm.host.rank]
        here = slice(start + first, start + last)
        self._host, self._memory = comm.host, memory
        hosts = Shards(shards.count, comm.across.size, comm.across.rank)
        trees = hosts.subtrees[hosts.rank]
        sums = OwnVectors(len(trees), last - first)
        self._between = Messages(comm.across, hosts, sums, (0, last - first), gathers=gathers)
        ranks = range(comm.rank - comm.host.rank, comm.rank - comm.host.rank + comm.host.size)
        spans = [span for rank in ranks for span in shards.subtrees[rank]]
        parts = [part[here] for vectors in memory.everyone for part in vectors]
        self._sums_of_host: list[tuple[Array, list[Array], list[int]]] = []  # a sum, its parts and their joins
        for tree, total in zip(trees, sums.own, strict=True):
            inside = [i for i, (low, high) in enumerate(spans) if tree[0] <= low and high <= tree[1]]
            order = joins([spans[i] for i in inside], tree)
            self._sums_of_host.append((total, [parts[i] for i in inside], order))
        # Where the sums go: into the vectors of all ranks of the host, or only what is this rank's own.
        own = slice(*self._between.own) if not gathers else slice(0, last - first)
        self._result = sums.own[-1][own]
        place = slice(here.start + own.start, here.start + own.stop)
        self._targets = [vectors[-1][place] for vectors in (memory.everyone if gathers else [memory.own])]

    def start(self) -> None:
        self._memory.sync()
        self.request = self._host.chunks.Ibarrier()

    def advance(self, stage: int) -> None:
        if stage == 1:
            self._memory.sync()
            for total, parts, order in self._sums_of_host:
                if len(total):
                    sum_in_tree(total, parts, order)
            self._between.start()
            self.request = self._between.request
        elif stage == 2:
            self._between.advance(1)
            self.request = self._between.request
        elif stage == 3:
            self._between.advance(2)
            sum_into_all(self._targets, [self._result], [0])
            self._memory.sync()
            self.request = self._host.gathers.Ibarrier()  # until which others read and write here
        else:
            super().advance(stage)
            self._memory.sync()

    def close(self) -> None:
        self._between.close()


class Exchange:
    """Sums ``parts`` over the ranks, into the last of them. ``seconds`` is how long this rank has waited for others.

    There is a part for every subtree of this rank, each a vector of ``size`` zeros at first.
    """

    def __init__(
        self, comm: Communicator, shards: Shards, size: int, buckets: Sequence[Span], *, gathers: bool = True
    ) -> None:
        """Without ``gathers`` a rank has the sum of its own chunks only. Collective."""
        self.seconds = 0.0
        self._memory: OwnVectors | SharedVectors
        self._buckets: list[Bucket] = []
        counts = [len(parts) for parts in shards.subtrees]
        first = comm.rank - comm.host.rank
        here = counts[first : first + comm.host.size]
        if _shares_memory(comm, 4 * size * sum(here)):
            self._memory = shared = SharedVectors(comm.host, here, size)
            if comm.host.size == comm.size:
                self._buckets += [Window(comm.host, shards, shared, span, gathers=gathers) for span in buckets]
            else:
                self._buckets += [Hosts(comm, shards, shared, span, gathers=gathers) for span in buckets]
        else:
            self._memory = own = OwnVectors(counts[comm.rank], size)
            self._buckets += _in_own_memory(comm, shards, own, buckets, gathers)
        self._done = [0] * (1 + self._buckets[0].stages)  # how many have begun, and have done each stage

    @property
    def shares_memory(self) -> bool:
        """True if the parts lie in memory that other ranks see."""
        return isinstance(self._memory, SharedVectors)

    @property
    def parts(self) -> list[Array]:
        """Vectors for what this rank sums by itself."""
        return self._memory.own

    @property
    def own(self) -> list[Span]:
        """The chunks that this rank sums."""
        return [bucket.own for bucket in self._buckets]

    def start(self) -> None:
        """Begin with the next bucket, of which all parts are there."""
        self._buckets[self._done[0]].start()
        self._done[0] += 1
        self.poll()

    def poll(self) -> None:
        """Make progress without waiting; messages of some MPI libraries move only when they are tested.

        In every stage buckets keep their order, which is that of all ranks.
        """
        for stage in range(1, len(self._done)):
            while (number := self._done[stage]) < self._done[stage - 1] and self._buckets[number].arrived():
                self._buckets[number].advance(stage)
                self._done[stage] += 1

    def finish(self) -> None:
        """Wait until the whole vector is summed."""
        while self._done[-1] < len(self._buckets):
            began = perf_counter()
            self._buckets[self._done[-1]].wait()
            self.seconds += perf_counter() - began
            self.poll()
        self._done = [0] * len(self._done)

    def close(self) -> None:
        """Give the memory back. Collective."""
        while self._buckets:
            self._buckets.pop().close()
        self._memory.close()


def _in_own_memory(
    comm: Communicator, shards: Shards, memory: OwnVectors, buckets: Sequence[Span], gathers: bool
) -> Sequence[Bucket]:
    if comm.size == 1:
        return [Bucket(comm.everyone, memory, span) for span in buckets]
    if not comm.deterministic:
        return [Reduced(comm.everyone, memory, span) for span in buckets]
    kind = NarrowMessages if comm.transport == "bfloat16" else Messages
    return [kind(comm.everyone, shards, memory, span, gathers=gathers) for span in buckets]


def _shares_memory(comm: Communicator, bytes_: int) -> bool:
    """True if the ranks of a host sum in shared memory, of which they need so many bytes; the same on all ranks."""
    in_place = comm.deterministic and comm.transport == "float32" and comm.shared_memory is not False
    if comm.host.size == 1 or not in_place:
        return False
    without = [host for host, enough in zip(comm.hosts, comm.gather(room_for(bytes_)), strict=True) if not enough]
    if comm.shared_memory and without:
        raise comm.shared(
            MemoryError(
                f"distributed.Communicator: ranks need {bytes_ / 1e6:.0f} MB of shared memory, and {without[0]} has less. "
                "Give it more (docker run --shm-size=...), or leave shared_memory out."
            )
        )
    return not without
