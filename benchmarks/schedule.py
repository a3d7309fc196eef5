"""How evenly would calls spread over 4 to 64 workers? Their schedule is recorded on one, and replayed for the others.

python benchmarks/schedule.py                        every shape of the benchmarks
python benchmarks/schedule.py --only attention/ --workers 8,64
python benchmarks/schedule.py --check                fails if a shape spreads less evenly than it should

While it is recorded, work that workers would share runs piece by piece on one of them, cut as it would be for so many. A balance
is the largest share of a worker over the mean of all workers: 1 is perfect, and with 2 the work takes twice as long as it could.
Work that is too little for all workers, who would cost more to wake than they gain, counts for those that it is worth, less those
who would shorten nothing (``engaged_workers`` in core/runtime/thread_pool.h). Pieces count alike, or by the time that they take
here (--time), which shows uneven pieces, but also how busy the machine is. A call has several such parts, which count by their
time.
"""

from __future__ import annotations

import argparse
import heapq
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

import openbnns
from cases import Case
from openbnns import engines
from timing import Step

WORKERS = (4, 8, 16, 32, 64)
LIMIT = 1.1
"""The largest share by which the slowest worker may exceed the mean, but for these."""

UNEVEN: dict[str, dict[str, tuple[int, float]]] = {
    "any": {
        # The gradients: 16 samples for the 6 workers that the work is worth.
        "contraction/16 x (a_ij, b_ij -> c_i)": (8, 1.13),
        # Samples times blocks of 16 groups, which lie side by side in vectors: 48 and 32 pieces.
        "convolution in 32 groups/24x64x9x9 -> 64, 3x3": (64, 1.35),
        "convolution in 32 groups/16x128x14x14 -> 128, 3x3": (64, 2.1),
        # The gradients: 11 parts of the batch times 14 blocks of 16 channels. More parts would have more sums to add up.
        "depthwise convolution/40x209x7x7 -> 209, 3x3 stride 2": (64, 1.3),
    },
    "avx512": {
        # 32 groups of 16 planes, which lie side by side in vectors.
        "pooling/max 3x3 stride 3 with indices 8x64x48x48": (64, 1.55),
        # The gradient of the weights: 7 parts of the batch times 4 tiles of channels, for 53 workers that the work is worth.
        # To share the taps as well, dy would be copied again for each share, which takes as long as is gained.
        "convolution/64x1x28x28 -> 16, 5x5": (64, 1.35),
    },
    "avx2": {
        "convolution/64x1x28x28 -> 16, 5x5": (64, 1.15),
        # Steps of 6 tiles of 6 rows times 16 blocks of units.
        "lstm/32 x 64 steps, 128 -> 256": (64, 1.25),
        # 25 panels of the gradient of the input: parts of the rows would pack the weights again.
        "fully connected/128x784 -> 1024": (32, 1.13),
        "fully connected/129x785 -> 1001": (32, 1.13),
    },
    "base": {
        # The gradient of the weights: 2 parts of the batch times 8 blocks of 16 channels, which lie side by side in vectors.
        "depthwise convolution/32x128x28x28 -> 128, 3x3": (32, 3.3),
        "depthwise convolution/40x209x7x7 -> 209, 3x3 stride 2": (16, 1.9),
    },
}
"""By instruction set, shapes of the benchmarks that so many workers, or more, share less evenly, and their balance at most."""


@dataclass(frozen=True)
class SharedWork:
    """Work that a kernel distributes at once: core/runtime/schedule.h."""

    asked: int
    items: int
    ranges: bool
    seconds: list[float]

    def shares(self, *, timed: bool = False) -> list[float]:
        """The share of every worker, in pieces or in seconds."""
        if self.ranges:
            used = max(1, min(self.asked, self.items))
            counts = [float(self.items * (w + 1) // used - self.items * w // used) for w in range(used)]
            amounts = self.seconds if timed else counts
            return [*amounts, *[0.0] * (self.asked - used)]
        return replay(self.seconds if timed else [1.0] * self.items, self.asked)

    def balance(self, *, timed: bool = False) -> float:
        shares = self.shares(timed=timed)
        return max(shares) * len(shares) / sum(shares) if sum(shares) else 1.0


def replay(costs: Sequence[float], workers: int) -> list[float]:
    """The work of each worker if all take items as ``run_items`` in core/runtime/thread_pool.cpp hands them out.

    Every worker begins with its own range and helps the next ones when that is done.

    >>> replay([1.0, 1.0, 1.0, 4.0, 4.0, 4.0], 2)
    [7.0, 8.0]
    """
    items = len(costs)
    used = max(1, min(workers, items))
    following = [items * w // used for w in range(used)]
    ends = [items * (w + 1) // used for w in range(used)]
    done = [0.0] * used
    turns = [(0.0, w, 0) for w in range(used)]  # when a worker is free, which, and whose range it looks at
    while turns:
        now, worker, turn = heapq.heappop(turns)
        while turn < used and following[(worker + turn) % used] >= ends[(worker + turn) % used]:
            turn += 1
        if turn == used:
            continue
        item = following[(worker + turn) % used]
        following[(worker + turn) % used] += 1
        done[worker] += costs[item]
        heapq.heappush(turns, (now + costs[item], worker, turn))
    return [*done, *[0.0] * (workers - used)]


@contextmanager
def recorded(workers: int) -> Iterator[None]:
    """Calls in this block are cut for so many workers, and run on one."""
    core, before = engines._core, openbnns.get_num_threads()
    openbnns.set_num_threads(workers)
    core.take_schedule()
    core.record_schedule(True)
    try:
        yield
    finally:
        core.record_schedule(False)
        openbnns.set_num_threads(before)


def schedule_of(steps: Iterable[Step], workers: int) -> list[SharedWork]:
    """The work that some calls distribute among so many workers."""
    with recorded(workers):
        for step in steps:
            step()
        return [SharedWork(*taken) for taken in engines._core.take_schedule()]


def balance(parts: Sequence[SharedWork], *, timed: bool = False) -> float:
    """The balance of all parts together: their time as a multiple of the time if all workers had equal shares."""
    weights = [sum(part.seconds) / part.asked for part in parts]
    if not sum(weights):
        return 1.0
    return sum(w * part.balance(timed=timed) for w, part in zip(weights, parts, strict=True)) / sum(weights)


def of_case(
    case: Case, counts: Sequence[int], repeats: int, *, timed: bool = False
) -> dict[int, tuple[float, list[SharedWork]]]:
    """The balance of forward and backward for each number of workers, and the parts, with the least times of ``repeats``.

    The results of one thread, of so many (more than there are cores), and of the record have the same bits, or else this raises.
    """
    arrays = case.arrays()
    calls = case.calls(arrays)
    steps = (calls.forward, calls.backward)
    expected: dict[str, bytes] = {}

    def compare(how: str) -> None:
        for name in case.results:
            if expected.setdefault(name, arrays[name].tobytes()) != arrays[name].tobytes():
                raise RuntimeError(f"{case.name}: {name} is not the same {how}")
            arrays[name].fill(np.nan)

    for threads in (1, *counts):
        openbnns.set_num_threads(threads)
        for step in steps:
            step()
        compare(f"with {threads} threads")
    balances: dict[int, tuple[float, list[SharedWork]]] = {}
    for workers in counts:
        records = []
        for _ in range(repeats):
            records.append(schedule_of(steps, workers))
            compare(f"when the schedule of {workers} workers is recorded")
        parts = [fastest(same) for same in zip(*records, strict=True)]
        balances[workers] = balance(parts, timed=timed), parts
    return balances


def fastest(same: Sequence[SharedWork]) -> SharedWork:
    """One part that was recorded several times, with the least time of every piece."""
    return replace(same[0], seconds=[min(times) for times in zip(*(part.seconds for part in same), strict=True)])


def limit_of(name: str, workers: int) -> float:
    """The balance that a shape may have at most."""
    uneven = UNEVEN["any"] | UNEVEN.get(engines._core.instruction_set(), {})
    fewest, most = uneven.get(name, (0, LIMIT))
    return most if workers >= fewest else LIMIT


def check(cases: Sequence[Case], counts: Sequence[int]) -> list[str]:
    """The shapes above their limits; those that a busy machine may have spoilt are measured again, with more repeats."""
    missed: list[str] = []
    for repeats in (1, 3, 9, 9):
        missed = []
        for case in cases:
            balances = of_case(case, counts, repeats)
            missed += [
                f"{case.name}: {value:.2f} with {n} workers, limit {limit_of(case.name, n)}"
                for n, (value, _) in balances.items()
                if value > limit_of(case.name, n)
            ]
        names = {line.partition(": ")[0] for line in missed}
        cases = [case for case in cases if case.name in names]
    return missed


def _cases() -> list[Case]:
    from run import CASES

    return [case for module in CASES for case in module.cases()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only", action="append", metavar="SUBSTRING", help="shapes with this in their name; may be repeated"
    )
    parser.add_argument("--workers", default=",".join(map(str, WORKERS)), help="numbers of workers")
    parser.add_argument(
        "--repeats", type=int, default=3, help="records of each schedule, of which the least times count"
    )
    parser.add_argument("--time", action="store_true", help="pieces count by their time")
    parser.add_argument("--parts", action="store_true", help="show the parts of every call")
    parser.add_argument("--check", action="store_true", help="compare with the limits, and fail above them")
    options = parser.parse_args()
    counts = [int(n) for n in options.workers.split(",")]
    wanted = options.only or [""]
    cases = [c for c in _cases() if any(w in c.name for w in wanted)]
    if options.check:
        if missed := check(cases, counts):
            raise SystemExit("\n".join(missed))
        print(f"{len(cases)} shapes spread as evenly as they should")
        return
    print(f"{'largest share over mean':60s} " + " ".join(f"{n:>6d}" for n in counts))
    above = dict.fromkeys(counts, 0)
    for case in cases:
        balances = of_case(case, counts, options.repeats, timed=options.time)
        print(f"{case.name:60s} " + " ".join(f"{value:6.2f}" for value, _ in balances.values()), flush=True)
        for n, (value, parts) in balances.items():
            above[n] += value > LIMIT
            for part in parts if options.parts else ():
                kind = "ranges" if part.ranges else "items"
                print(f"    {n:3d}: {part.asked:3d} asked, {part.items:5d} {kind}, {1e6 * sum(part.seconds):9.1f} us, "
                      f"{part.balance(timed=options.time):.2f}")  # fmt: skip
    print(f"{f'above {LIMIT}':60s} " + " ".join(f"{n:6d}" for n in above.values()))


if __name__ == "__main__":
    main()
