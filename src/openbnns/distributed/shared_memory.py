"""The memory of the vectors that ranks sum: private, or in a window that all ranks of a host see."""

from __future__ import annotations

import os
import weakref
from collections.abc import Sequence

import numpy as np

from ..graph.memory import ALIGNMENT
from ..graph.tensor import Array
from .communicator import Group

_FLOATS = ALIGNMENT // 4
_SHARED_MEMORY = "/dev/shm"  # where MPI libraries on Linux keep windows; writing beyond its end kills a process


def vector(size: int) -> Array:
    """Zeros that begin with a cache line."""
    memory = np.zeros(size + _FLOATS, np.float32)
    start = -memory.ctypes.data % ALIGNMENT // 4
    return memory[start : start + size]


class OwnVectors:
    """Vectors of this rank, which no other rank sees."""

    def __init__(self, count: int, size: int) -> None:
        self.own = [vector(size) for _ in range(count)]

    def close(self) -> None:
        """Release the memory; views of it stay valid."""
        self.own.clear()


class SharedVectors:
    """Vectors of the ranks of a host, in a shared window of MPI: ``everyone[rank]`` are those of a rank, ``own`` of this one.

    Making and closing them is collective.
    """

    def __init__(self, group: Group, counts: Sequence[int], size: int) -> None:
        mpi, self._group = group.mpi, group
        info = mpi.Info.Create()
        info.Set("alloc_shared_noncontig", "true")  # pages of each rank by themselves, near its core
        self._window = mpi.Win.Allocate_shared(4 * counts[group.rank] * size + ALIGNMENT, 1, info, group.chunks)
        info.Free()
        self._window.Lock_all(mpi.MODE_NOCHECK)
        self.everyone: list[list[Array]] = []
        self._memories: list[weakref.ref[Array]] = []
        for rank, count in enumerate(counts):
            memory: Array = np.frombuffer(self._window.Shared_query(rank)[0], np.uint8)
            start = -memory.ctypes.data % ALIGNMENT  # the same on all ranks, as windows begin with a page
            whole = memory[start : start + 4 * count * size].view(np.float32)
            self.everyone.append([whole[i * size : (i + 1) * size] for i in range(count)])
            self._memories.append(weakref.ref(memory))
        self.own = self.everyone[group.rank]
        for one in self.own:
            one.fill(0)

    def sync(self) -> None:
        """Let others see what this rank has written before it meets them, and this rank what they have."""
        self._window.Sync()

    def close(self) -> None:
        """Free the window, or leave it until later if there is still a view of it on any rank."""
        self.own.clear()
        self.everyone.clear()
        self._group.closed = [vectors for vectors in [*self._group.closed, self] if not vectors._free()]

    def _free(self) -> bool:
        unused = all(memory() is None for memory in self._memories)
        if not all(self._group.chunks.allgather(unused)):
            return False
        self._window.Unlock_all()
        self._window.Free()
        return True


def room_for(bytes_: int) -> bool:
    """True if this host has so many bytes of shared memory, or if that cannot be determined."""
    try:
        disk = os.statvfs(_SHARED_MEMORY)
    except (AttributeError, OSError):
        return True
    return bytes_ <= disk.f_bavail * disk.f_frsize
