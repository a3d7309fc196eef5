"""The most arithmetic that this machine does in a second, measured: what shares of the peak are shares of."""

from __future__ import annotations

import time

from .. import engines

HOW = "float32 multiply-adds on registers, one loop per thread"
"""How the peak is measured, for those who print shares of it."""

_SECONDS = 0.005  # of a try
_TRIES = 3
_FIRST_TRIES = 30  # of a new peak: the first share is one of the same peak as the last


class Peak:
    """Measures in a few milliseconds at a time, so that it can take turns with what it is compared with.

    >>> Peak(1).gflops() > 0
    True
    """

    def __init__(self, threads: int) -> None:
        if engines._core is None:
            raise RuntimeError("there is no peak to measure: the native engine is not in this installation.")
        self._count, self._iterations, self._threads, self._most = engines._core.peak_gflop, 1000, threads, 0.0
        while self._try() < _SECONDS:
            self._iterations *= 2
        self._most = 0.0  # the loops before were too short to count
        for _ in range(_FIRST_TRIES):
            self._try()

    def gflops(self) -> float:
        """GFLOP/s of all threads together, the most that this peak has ever seen, after a few more tries.

        A thread that had to share its core for a moment makes a try slower, and nothing makes one faster than the machine is.
        """
        for _ in range(_TRIES):
            self._try()
        return self._most

    def _try(self) -> float:
        """Seconds of one, on the threads that run the kernels."""
        began = time.perf_counter()
        done = self._count(self._iterations, self._threads)
        seconds = time.perf_counter() - began
        self._most = max(self._most, done / seconds)
        return seconds
