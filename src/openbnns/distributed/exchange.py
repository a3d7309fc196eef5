"""The sum of vectors over all ranks, bucket by bucket, while they are still being computed.

Every rank has some parts of the sum: the subtrees of its shards. Of every bucket, each rank sums a chunk of all parts in the
order of the tree, and passes the result on. How parts and sums get there is the matter of ``buckets.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

from ..graph.tensor import Array
from . import buckets as ways
from .communicator import Communicator
from .memory import OwnVectors, SharedVectors, room_for
from .shards import Shards, Span


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
        self._buckets: list[ways.Bucket] = []
        counts = [len(parts) for parts in shards.subtrees]
        first = comm.rank - comm.host.rank
        here = counts[first : first + comm.host.size]
        if _shares_memory(comm, 4 * size * sum(here)):
            self._memory = shared = SharedVectors(comm.host, here, size)
            if comm.host.size == comm.size:
                self._buckets += [ways.Window(comm.host, shards, shared, span, gathers=gathers) for span in buckets]
            else:
                self._buckets += [ways.Hosts(comm, shards, shared, span, gathers=gathers) for span in buckets]
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
        """Do what can be done without waiting; messages of some MPI libraries move only when they are asked about.

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
) -> Sequence[ways.Bucket]:
    if comm.size == 1:
        return [ways.Bucket(comm.everyone, memory, span) for span in buckets]
    if not comm.deterministic:
        return [ways.Reduced(comm.everyone, memory, span) for span in buckets]
    kind = ways.NarrowMessages if comm.transport == "bfloat16" else ways.Messages
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
