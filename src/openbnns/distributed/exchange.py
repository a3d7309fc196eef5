"""Sums of vectors over all ranks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..graph.tensor import Array
from ..nn.batches import cut
from .communicator import Communicator
from .shards import Shards
from .tree_sums import sum_in_tree


class Exchange:
    """Each rank gets a chunk of the vectors of all ranks, sums it in the order of the tree, and passes the sum on to all.

    Messages are faster here than the collectives of MPI libraries, which also copy what stays on a rank.
    """

    def __init__(self, comm: Communicator, shards: Shards, size: int) -> None:
        """Vectors have so many elements, and every rank has one for each of its subtrees."""
        self._comm, self._joins = comm, shards.joins
        self._chunks = [slice(*span) for span in cut(size, comm.size)]  # by rank
        self._own = self._chunks[comm.rank]
        length = self._own.stop - self._own.start
        self._received = [
            np.empty((0 if rank == comm.rank else len(trees), length), np.float32)
            for rank, trees in enumerate(shards.subtrees)
        ]

    def sum(self, parts: Sequence[Array]) -> None:
        """Sum the subtrees of this rank, and those of all others, into the last of ``parts``. Collective."""
        rank, messages, total = self._comm.rank, self._comm.messages, parts[-1]
        others = [other for other in range(self._comm.size) if other != rank]
        requests = [
            messages.Irecv(chunk, other, tag) for other in others for tag, chunk in enumerate(self._received[other])
        ]
        requests += [
            messages.Isend(part[self._chunks[other]], other, tag) for other in others for tag, part in enumerate(parts)
        ]
        self._comm.mpi.Request.Waitall(requests)
        own = [part[self._own] for part in parts]
        chunks = [chunk for other, more in enumerate(self._received) for chunk in (own if other == rank else more)]
        sum_in_tree(total[self._own], chunks, self._joins)
        requests = [messages.Irecv(total[self._chunks[other]], other) for other in others]
        requests += [messages.Isend(total[self._own], other) for other in others]
        self._comm.mpi.Request.Waitall(requests)
