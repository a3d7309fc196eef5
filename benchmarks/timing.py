"""Timing that holds on a busy machine: in turns, round by round."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Step = Callable[[], Any]

SETTLE = 0.02  # seconds until the other side's threads sleep,
BLAS_SETTLE = 0.12  # or those of OpenBLAS, under NumPy
SLICE = 0.03  # seconds that each side works per round,
LEAST_STEPS = 2  # or this many steps, after one or more to warm up
ROUNDS = (5, 25)  # fewest and most
QUIET = 0.1  # share of the machine that others may take in a round that counts
PATIENCE = 3  # times the allotted time is spent to find quiet rounds
STATISTICS = Path("/proc/stat")


def repeat(step: Step, count: int) -> float:
    """Seconds per step over ``count`` steps in a row."""
    start = time.perf_counter()
    for _ in range(count):
        step()
    return (time.perf_counter() - start) / count


def estimate(step: Step) -> int:
    """How many steps fill a slice, after warming up."""
    step()
    count, seconds = 1, repeat(step, 1)
    while count * seconds < 0.1 * SLICE:
        count *= 4
        seconds = repeat(step, count)
    return max(LEAST_STEPS, round(SLICE / seconds))


def sampler(step: Step) -> Callable[[], float]:
    """Measures seconds per step, once the other side's threads sleep and ours are awake."""
    count = estimate(step)

    def sample() -> float:
        time.sleep(SETTLE)
        repeat(step, 1 + count // 20)
        return repeat(step, count)

    return sample


class Load:
    """How much of the machine other processes take from now on."""

    def __init__(self) -> None:
        self._busy, self._own, self._start = self._busy_seconds(), time.process_time(), time.perf_counter()

    def others(self) -> float:
        """Their share of all cores since the start; 0 where the system does not tell."""
        own, elapsed = time.process_time() - self._own, time.perf_counter() - self._start
        return max(0.0, (self._busy_seconds() - self._busy - own) / elapsed / (os.cpu_count() or 1))

    @staticmethod
    def _busy_seconds() -> float:
        if not STATISTICS.exists():
            return 0.0
        user, nice, system, _, _, interrupt, soft, stolen = STATISTICS.read_text().split()[1:9]
        return sum(map(int, (user, nice, system, interrupt, soft, stolen))) / os.sysconf("SC_CLK_TCK")


def alternate(
    samplers: list[Callable[[], float]], seconds: float, counts: tuple[int, int] = ROUNDS
) -> tuple[list[list[float]], float]:
    """One value per sampler and round, and how much other processes disturbed.

    The order reverses from round to round. Rounds in which other processes took a noticeable share of the machine are
    repeated for a while; if quiet ones remain too few, the quietest are used. ``counts`` are the fewest and the most rounds.
    """
    rounds: list[tuple[float, list[float]]] = []
    order = list(range(len(samplers)))
    gc.collect()
    gc.disable()
    try:
        start = time.perf_counter()
        while _wants_more(rounds, counts, (time.perf_counter() - start) / seconds):
            load, values = Load(), [0.0] * len(samplers)
            for i in order:
                values[i] = samplers[i]()
            order.reverse()
            rounds.append((load.others(), values))
    finally:
        gc.enable()
    rounds.sort(key=lambda r: r[0])
    quiet = sum(share <= QUIET for share, _ in rounds)
    kept = rounds[: max(quiet, counts[0])]
    return [list(column) for column in zip(*(values for _, values in kept), strict=True)], kept[-1][0]


def _wants_more(rounds: list[tuple[float, list[float]]], counts: tuple[int, int], spent: float) -> bool:
    """True if more rounds are needed; ``spent`` is the share of the time allotted, which may triple on a busy machine."""
    quiet, (least, most) = sum(share <= QUIET for share, _ in rounds), counts
    if len(rounds) < least:
        return True
    return quiet < most and spent < (1 if quiet >= least else PATIENCE)
