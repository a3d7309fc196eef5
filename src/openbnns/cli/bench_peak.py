"""The most arithmetic that this machine does in a second, measured: what shares of the peak are shares of."""

from __future__ import annotations

import time

from .. import engines

HOW = "float32 multiply-adds on registers, one loop per thread"
"""How the peak is measured, for those who print shares of it."""

_SECONDS = 0.005  # of a try
_TRIES = 3


class Peak:
    """Measures in a few milliseconds at a time, so that it can take turns with what it is compared with.

    >>> Peak(1).gflops() > 0
    True
    """

    def __init__(self, threads: int) -> None:
        from concurrent.futures import ThreadPoolExecutor

        if engines._core is None:
            raise RuntimeError("there is no peak to measure: the native engine is not in this installation.")
        self._count, self._iterations = engines._core.peak_gflop, 1000
        self._threads, self._pool = threads, ThreadPoolExecutor(threads)
        while self._try()[0] < _SECONDS:
            self._iterations *= 2

    def gflops(self) -> float:
        """GFLOP/s of all threads together, the most of a few tries."""
        return max(done / seconds for seconds, done in (self._try() for _ in range(_TRIES)))

    def _try(self) -> tuple[float, float]:
        began = time.perf_counter()
        done = sum(self._pool.map(self._count, [self._iterations] * self._threads))
        return time.perf_counter() - began, done
