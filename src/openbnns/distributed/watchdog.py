"""A thread on every rank that notices when another one dies, hangs or cannot be reached, which MPI does not report."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable
from time import monotonic
from typing import Any

import numpy as np

_BEAT = 0.5  # seconds between signs of life
_GRACE = 3.0  # seconds in which ranks leave a run, one after the other
_ALIVE, _FAREWELL = 1, 2  # what messages say, by their tags


class Watch:
    """A thread that tells the next rank, in a ring, that this one lives, and ends the job if the previous rank is silent
    for too long.

    That takes an MPI that several threads may call (``MPI_THREAD_MULTIPLE``, as mpi4py asks for); otherwise there is no watch.
    """

    def __init__(self, comm: Any, mpi: Any, limit: float, end: Callable[[int, str], None]) -> None:
        """``comm`` is used by nothing else. ``end`` is called with a rank and what is wrong with it."""
        rank, size = comm.Get_rank(), comm.Get_size()
        self._comm, self._limit, self._end = comm, limit, end
        self._before, self._next = (rank - 1) % size, (rank + 1) % size
        self._nothing = np.empty(0, np.uint8)
        self._sent: Any = None
        self._ended = threading.Event()
        self._needed_since: float | None = None
        self._thread: threading.Thread | None = None
        if size > 1 and limit and mpi.Query_thread() == mpi.THREAD_MULTIPLE:
            self._thread = threading.Thread(target=self._run, name="openbnns watch", daemon=True)
            self._thread.start()
            # MPI ends after the program, or earlier if it says so.
            atexit.register(self.stop)
            mpi.COMM_SELF.Set_attr(mpi.Comm.Create_keyval(delete_fn=lambda *_: self.stop()), 0)

    def need(self, needed: bool) -> None:
        """Note that this rank waits for others from now on, so that none of them may leave; or that it does not."""
        self._needed_since = monotonic() if needed else None

    def stop(self) -> None:
        """Say farewell: this rank is silent from now on."""
        if self._thread is None or self._ended.is_set():
            return
        self._ended.set()
        self._thread.join(5)
        farewell, began = self._comm.Isend(self._nothing, self._next, _FAREWELL), monotonic()
        while not farewell.Test() and monotonic() - began < 1:
            pass

    def _run(self) -> None:
        now = heard = monotonic()
        left: float | None = None
        while not self._ended.wait(_BEAT):
            before, now = now, monotonic()
            if now - before > 4 * _BEAT:  # this process was held up itself, and cannot tell who else was
                heard = now
            if self._sent is None or self._sent.Test():
                self._sent = self._comm.Isend(self._nothing, self._next, _ALIVE)
            while self._comm.Iprobe(self._before, _ALIVE):
                self._comm.Recv(self._nothing, self._before, _ALIVE)
                heard = now
            if left is None and self._comm.Iprobe(self._before, _FAREWELL):
                left = now
            needed = self._needed_since
            if left is not None and needed is not None and now - max(left, needed) > _GRACE:
                self._end(self._before, "It has ended its program, while others still train and wait for it.")
            if left is None and now - heard > self._limit:
                self._end(
                    self._before,
                    f"Nothing was heard of it for {now - heard:.0f} seconds: it was killed, hangs, or has lost its connection.",
                )
