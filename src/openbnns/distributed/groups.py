"""Ranks that sum vectors together: all of a job, those of one host, and those with one number on each host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .shards import Span, cut
from .sums import BLOCK


class Group:
    """Ranks of a communicator of mpi4py. Making one is collective."""

    def __init__(self, mpi: Any, comm: Any, per_host: int = 1) -> None:
        """``per_host`` is how many consecutive ranks are on each host, if their chunks shall lie together."""
        self.mpi = mpi
        self.rank, self.size = int(comm.Get_rank()), int(comm.Get_size())
        self._per_host = per_host
        # Collectives on one communicator must begin in the same order on all ranks; those of buckets begin when they can.
        self.chunks, self.gathers = comm.Dup(), comm.Dup()
        self.closed: list[Any] = []  # windows that are only kept because there are views of them

    def chunks_of(self, size: int) -> list[Span]:
        """The parts of a bucket of this size, by rank; sizes are multiples of ``BLOCK``."""
        return [(BLOCK * start, BLOCK * stop) for start, stop in cut_for(self.size, self._per_host, size // BLOCK)]


def cut_for(ranks: int, per_host: int, count: int) -> list[Span]:
    """Spans of ``count`` things for ranks on hosts: first for the numbers of ranks on their hosts, and then for the hosts.

    >>> cut_for(4, 2, 100)
    [(0, 25), (50, 75), (25, 50), (75, 100)]
    """
    found = [(0, 0)] * ranks
    for number, (start, stop) in enumerate(cut(count, per_host)):
        for host, (first, last) in enumerate(cut(stop - start, ranks // per_host)):
            found[host * per_host + number] = start + first, start + last
    return found


def ranks_per_host(places: Sequence[Span]) -> int:
    """From (first rank of its host, number of ranks there) of every rank: how many all hosts have; 1 if they are not alike.

    Ranks that share a host count only if they are consecutive.

    >>> ranks_per_host([(0, 2), (0, 2), (2, 2), (2, 2)])
    2
    >>> ranks_per_host([(0, 2), (1, 2), (0, 2), (1, 2)])
    1
    >>> ranks_per_host([(0, 2), (0, 2), (2, 1)])
    1
    """
    count = places[0][1]
    alike = all(place == (rank // count * count, count) for rank, place in enumerate(places))
    return count if alike else 1
