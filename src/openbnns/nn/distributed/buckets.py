"""Ways to sum a bucket over the ranks, in stages. Before each of them a bucket waits for others.

The order of the sum is always that of the tree, so that all but ``Reduced`` and ``NarrowMessages`` give the same bits.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import numpy as np

from .._value import Array
from .communicator import Communicator
from .groups import Group
from .memory import OwnVectors, SharedVectors
from .shards import Shards, Span, joins
from .sums import narrow, sum_in_tree, sum_into_all, widen


class Bucket:
    """A span of the vectors of this rank, its subtrees, which are summed over all ranks into the last of them.

    With one rank that is all there is to do. ``own`` is the chunk of the bucket that this rank sums.
    """

    stages = 0
    sends = False  # messages

    def __init__(self, group: Group, memory: OwnVectors | SharedVectors, span: Span) -> None:
        start, stop = span
        self._parts = [part[start:stop] for part in memory.own]
        self._sums = self._parts[-1]
        self._chunks = group.chunks_of(stop - start)  # of the ranks, within the bucket
        first, last = self._chunks[group.rank]
        self.own = start + first, start + last
        self._place = slice(first, last)
        self._group = group
        self.request: Any = None

    def start(self) -> None:
        """This rank has its parts."""

    def arrived(self) -> bool:
        """Whether there is nothing to wait for."""
        return self.request is None or bool(self.request.Test())

    def wait(self) -> None:
        if self.request is not None:
            self.request.Wait()

    def advance(self, stage: int) -> None:
        """Do what has been waited for. Stages count from 1."""
        self.request = None


class Reduced(Bucket):
    """The sum of MPI itself, in whatever order."""

    stages = 1
    sends = True

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
    """Ranks anywhere: each gets its chunk from all others (all-to-all), and passes its sum on to them (all-gather)."""

    stages = 2
    sends = True
    _type: np.dtype[Any] = np.dtype(np.float32)
    _name = "FLOAT"

    def __init__(self, group: Group, shards: Shards, memory: OwnVectors, span: Span, *, gathers: bool) -> None:
        super().__init__(group, memory, span)
        self._gathers, self._joins, self._kind = gathers, shards.joins, getattr(group.mpi, self._name)
        rank, part_counts = group.rank, [len(parts) for parts in shards.subtrees]
        self._sizes = [last - first for first, last in self._chunks]
        self._places = [first for first, _ in self._chunks]
        size = self._sizes[rank]
        # Every rank sends all of its parts of a chunk, one after the other; what stays here is not sent.
        incoming = [0 if other == rank else count * size for other, count in enumerate(part_counts)]
        starts = _starts(incoming)
        self._received = np.empty(sum(incoming), self._type)
        self._incoming = [self._received, incoming, starts, self._kind]
        kept = self._kept_parts()
        self._chunk_parts = [
            kept[i] if other == rank else self._received[starts[other] + i * size : starts[other] + (i + 1) * size]
            for other, count in enumerate(part_counts)
            for i in range(count)
        ]
        outgoing = [0 if other == rank else len(self._parts) * n for other, n in enumerate(self._sizes)]
        self._staged: Array | None = None
        self._outgoing = [self._sums, outgoing, self._places, self._kind]
        if self._stages_parts():
            self._staged = np.empty(sum(outgoing), self._type)
            self._outgoing = [self._staged, outgoing, _starts(outgoing), self._kind]

    def _kept_parts(self) -> list[Array]:
        """What this rank adds to its own chunk."""
        return [part[self._place] for part in self._parts]

    def _stages_parts(self) -> bool:
        """Whether what is sent has to be copied first: several parts lie apart."""
        return len(self._parts) > 1

    def _put(self, source: Array, target: Array) -> None:
        np.copyto(target, source)

    def start(self) -> None:
        if self._staged is not None:
            place = 0
            for other, (first, last) in enumerate(self._chunks):
                for part in self._parts if other != self._group.rank else ():
                    self._put(part[first:last], self._staged[place : place + last - first])
                    place += last - first
        self.request = self._group.chunks.Ialltoallv(self._outgoing, self._incoming)

    def advance(self, stage: int) -> None:
        super().advance(stage)
        if stage == 1:
            if self._sizes[self._group.rank]:
                sum_in_tree(self._sums[self._place], self._chunk_parts, self._joins)
            if self._gathers:
                self._pass_on()
        elif self._gathers:
            self._take()

    def _pass_on(self) -> None:
        self._send(self._sums)

    def _send(self, sums: Array) -> None:
        target = [sums, self._sizes, self._places, self._kind]
        self.request = self._group.gathers.Iallgatherv(self._group.mpi.IN_PLACE, target)

    def _take(self) -> None:
        """The sums of all ranks are here."""


class NarrowMessages(Messages):
    """The same in bfloat16. What stays here is rounded as well, so that all ranks have the same sums."""

    _type = np.dtype(np.uint16)
    _name = "UINT16_T"

    def _kept_parts(self) -> list[Array]:
        self._rounded = np.empty(len(self._sums), np.uint16)
        self._kept: list[Array] = [np.empty(self._sizes[self._group.rank], np.uint16) for _ in self._parts]
        return self._kept

    def _stages_parts(self) -> bool:
        return True

    def _put(self, source: Array, target: Array) -> None:
        narrow(source, target)

    def start(self) -> None:
        for part, kept in zip(self._parts, self._kept, strict=True):
            narrow(part[self._place], kept)
        super().start()

    def _pass_on(self) -> None:
        narrow(self._sums[self._place], self._rounded[self._place])
        self._send(self._rounded)

    def _take(self) -> None:
        widen(self._rounded, self._sums)


class Hosts(Bucket):
    """As many ranks on each of several hosts: those of a host sum as in ``Window``, and between hosts there are ``Messages``.

    A rank sums what its host has of some chunks to the subtrees of the host; then it and the ranks with its number on
    other hosts exchange those. So every host sends and receives as much as one rank would.
    """

    stages = 4
    sends = True

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
        found = slice(*self._between.own) if not gathers else slice(0, last - first)
        self._result = sums.own[-1][found]
        place = slice(here.start + found.start, here.start + found.stop)
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


def _starts(counts: list[int]) -> list[int]:
    return [0, *accumulate(counts)][:-1]
