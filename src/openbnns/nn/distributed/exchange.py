"""The sum of a vector over all ranks, bucket by bucket, while it is still being computed.

Every rank has some parts of the sum: the subtrees of its shards. Of every bucket, each rank gets its chunk of all parts
(all-to-all), sums them in the order of the tree, and passes the result on (all-gather).
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

import numpy as np

from .._value import Array
from .communicator import Communicator
from .shards import Shards, Span
from .sums import narrow, sum_in_tree, widen


class Exchange:
    """Sums ``vector`` over the ranks, in place. ``seconds`` is how long this rank has waited for others."""

    def __init__(
        self, comm: Communicator, shards: Shards, vector: Array, buckets: Sequence[Span], *, gathers: bool = True
    ) -> None:
        """Without ``gathers`` a rank has the sum of its own chunks only."""
        self.seconds = 0.0
        self._comm = comm
        kind: type[_Bucket]
        if comm.size == 1:
            kind = _Alone
        elif not comm.deterministic:
            kind = _Reduced
        else:
            kind = _Narrow if comm.transport == "bfloat16" else _Bucket
        self._buckets = [kind(comm, shards, vector, span, gathers) for span in buckets]
        self._begun = 0
        self._gathering = 0  # of how many the second half has begun

    @property
    def own(self) -> list[Span]:
        """The chunks that this rank sums."""
        return [bucket.own for bucket in self._buckets]

    def start(self, parts: Sequence[Array]) -> None:
        """Begin with the next bucket; ``parts`` are this rank's, the vector itself the last of them."""
        self._buckets[self._begun].start(parts)
        self._begun += 1
        self.poll()

    def poll(self) -> None:
        """Do what can be done without waiting."""
        while self._gathering < self._begun and self._buckets[self._gathering].arrived():
            self._buckets[self._gathering].gather()  # in the order of the buckets, which is that of all ranks
            self._gathering += 1

    def finish(self) -> None:
        """Wait until the whole vector is summed."""
        for bucket in self._buckets[self._gathering :]:
            self._wait(bucket)
            bucket.gather()
        for bucket in self._buckets:
            self._wait(bucket)
            bucket.finish()
        self._begun = self._gathering = 0

    def _wait(self, bucket: _Bucket) -> None:
        began = perf_counter()
        bucket.wait()
        self.seconds += perf_counter() - began


class _Bucket:
    """A bucket on its way: first all-to-all, then all-gather. ``request`` is what it waits for."""

    _type: np.dtype[Any] = np.dtype(np.float32)
    _name = "FLOAT"

    def __init__(self, comm: Communicator, shards: Shards, vector: Array, span: Span, gathers: bool) -> None:
        self._comm, self._gathers = comm, gathers
        start, stop = span
        self._sums = vector[start:stop]
        self._chunks = comm.chunks_of(stop - start)  # of the ranks, within the bucket
        first, last = self._chunks[comm.rank]
        self.own = (start + first, start + last)
        self._place = slice(first, last)
        self._span = slice(start, stop)
        self._joins = shards.joins
        self._counts = [len(parts) for parts in shards.subtrees]
        self._sizes = [last - first for first, last in self._chunks]
        self._requests: Any = None
        self._make_buffers()

    def _make_buffers(self) -> None:
        size, rank = self._sizes[self._comm.rank], self._comm.rank
        # Every rank sends all of its parts of a chunk, one after the other; what stays here is not sent.
        counts = [0 if other == rank else count * size for other, count in enumerate(self._counts)]
        self._received = np.empty(sum(counts), self._type)
        places = np.concatenate([[0], np.cumsum(counts)]).tolist()
        self._incoming = (counts, places[:-1])
        self._parts_of_others = [
            [self._received[places[q] + i * size : places[q] + (i + 1) * size] for i in range(self._counts[q])]
            for q in range(self._comm.size)
        ]
        own = self._counts[rank]
        outgoing = [0 if other == rank else own * n for other, n in enumerate(self._sizes)]
        self._staged = np.empty(sum(outgoing), self._type) if self._stages(own) else None
        if self._staged is None:
            self._outgoing = (outgoing, [first for first, _ in self._chunks])
        else:
            self._outgoing = (outgoing, np.concatenate([[0], np.cumsum(outgoing)]).tolist()[:-1])

    def _stages(self, parts: int) -> bool:
        """Whether what is sent has to be copied first: several parts lie apart."""
        return parts > 1

    def _own_parts(self, parts: Sequence[Array]) -> list[Array]:
        """What this rank adds to its own chunk, and the rest to where it is sent from."""
        here = [part[self._span] for part in parts]
        if self._staged is not None:
            place = 0
            for other, (first, last) in enumerate(self._chunks):
                if other == self._comm.rank:
                    continue
                for part in here:
                    self._put(part[first:last], self._staged[place : place + last - first])
                    place += last - first
        return [part[self._place] for part in here]

    def _put(self, source: Array, target: Array) -> None:
        np.copyto(target, source)

    def start(self, parts: Sequence[Array]) -> None:
        mpi, rank = self._comm.mpi, self._comm.rank
        self._parts_of_others[rank] = self._own_parts(parts)
        kind = getattr(mpi, self._name)
        sent = self._sums if self._staged is None else self._staged
        self._requests = self._comm.chunks.Ialltoallv(
            [sent, *self._outgoing, kind], [self._received, *self._incoming, kind]
        )

    def arrived(self) -> bool:
        return bool(self._requests.Test())

    def wait(self) -> None:
        if self._requests is not None:
            self._requests.Wait()

    def gather(self) -> None:
        """The chunks of all others have come: sum them, and pass the result on."""
        self._requests = None
        if self._sizes[self._comm.rank]:
            parts = [part for parts in self._parts_of_others for part in parts]
            sum_in_tree(self._sums[self._place], parts, self._joins)
        if self._gathers:
            self._pass_on()

    def _pass_on(self) -> None:
        mpi = self._comm.mpi
        places = [first for first, _ in self._chunks]
        self._requests = self._comm.gathers.Iallgatherv(mpi.IN_PLACE, [self._sums, self._sizes, places, mpi.FLOAT])

    def finish(self) -> None:
        """The whole bucket is here."""
        self._requests = None


class _Narrow(_Bucket):
    """The same in bfloat16. What stays here is rounded as well, so that all ranks have the same sums."""

    _type = np.dtype(np.uint16)
    _name = "UINT16_T"

    def _make_buffers(self) -> None:
        super()._make_buffers()
        self._rounded = np.empty(len(self._sums), np.uint16)
        self._kept = np.empty((self._counts[self._comm.rank], self._sizes[self._comm.rank]), np.uint16)

    def _stages(self, parts: int) -> bool:
        return True

    def _own_parts(self, parts: Sequence[Array]) -> list[Array]:
        for part, kept in zip(super()._own_parts(parts), self._kept, strict=True):
            narrow(part, kept)
        return list(self._kept)

    def _put(self, source: Array, target: Array) -> None:
        narrow(source, target)

    def _pass_on(self) -> None:
        mpi = self._comm.mpi
        narrow(self._sums[self._place], self._rounded[self._place])
        places = [first for first, _ in self._chunks]
        self._requests = self._comm.gathers.Iallgatherv(
            mpi.IN_PLACE, [self._rounded, self._sizes, places, mpi.UINT16_T]
        )

    def finish(self) -> None:
        super().finish()
        if self._gathers:
            widen(self._rounded, self._sums)


class _Reduced(_Bucket):
    """The sum of MPI itself, in whatever order."""

    def _make_buffers(self) -> None:
        pass

    def start(self, parts: Sequence[Array]) -> None:
        here = [part[self._span] for part in parts]
        if len(here) > 1:
            sum_in_tree(self._sums, here, [0, *[1] * (len(here) - 1)])
        self._requests = self._comm.chunks.Iallreduce(self._comm.mpi.IN_PLACE, self._sums)

    def gather(self) -> None:
        self._requests = None


class _Alone(_Bucket):
    """One rank has the sum already."""

    def _make_buffers(self) -> None:
        pass

    def start(self, parts: Sequence[Array]) -> None:
        pass

    def arrived(self) -> bool:
        return True

    def gather(self) -> None:
        pass
