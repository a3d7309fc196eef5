"""Verifies, then times: ours and PyTorch alternate in one process, and their ratio is reported.

Each round times one side, then the other (in turn), then a ceiling of the machine, so that a disturbance hits all
three. The ratio of a round is formed within that round; its median counts. Between sides there is a short sleep:
PyTorch's threads keep spinning for a while after their work and would take a core from the side that comes next. Then the
side works unmeasured for a step or more before its time is taken, as in a training loop, which is never cold: without
this the first steps would measure how fast the system wakes threads and fills caches.
"""

from __future__ import annotations

import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import openbnns
from cases import Arrays, Calls, Case
from openbnns.cli.bench import Peak
from timing import QUIET, SETTLE, Step, alternate, estimate, repeat, sampler

TOLERANCE = 5e-5  # largest difference, as a fraction of the largest value
COPY_BYTES = 64 << 20  # of the array copied to find the bandwidth, at most
LEAST_COPY = 16 << 20  # buffers smaller than this are not bound by memory


@dataclass(frozen=True)
class Settings:
    threads: int = 2
    seconds: float = 1.5  # per case, about

    @property
    def judged(self) -> bool:
        """Targets are set for two threads."""
        return self.threads == 2


def use_threads(count: int) -> None:
    """Set the number of threads of our side, and of PyTorch if it is installed; others get it when they are set up."""
    openbnns.set_num_threads(count)
    try:
        import torch
    except ImportError:
        return
    torch.set_num_threads(count)


@dataclass
class Figure:
    """One number with the target it has to meet."""

    name: str
    value: float
    unit: str
    target: float | None = None
    at_most: bool = False  # the target is an upper limit
    note: str = ""
    ours: float | None = None  # seconds, where times are compared,
    peers: dict[str, float] = field(default_factory=dict)  # and those of others, by name
    share: float | None = None  # of the peak
    copy_share: float | None = None  # of the copy bandwidth in the same rounds, where memory is the limit

    @property
    def passed(self) -> bool | None:
        if self.target is None:
            return None
        return self.value <= self.target if self.at_most else self.value >= self.target

    def record(self) -> dict[str, Any]:
        return asdict(self) | {"passed": self.passed}


@dataclass
class Result:
    """One case. Times are medians in seconds; ratios are torch / ours, so above 1 ours is faster."""

    name: str
    threads: int
    error: float  # largest difference from PyTorch
    ours: float = 0.0
    ours_best: float = 0.0
    ours_forward: float = 0.0
    ours_backward: float = 0.0
    torch: float = 0.0
    torch_best: float = 0.0
    layout: str = ""  # the layout in which PyTorch was fastest
    ratio: float = 0.0
    ratio_low: float = 0.0
    ratio_high: float = 0.0
    ratio_of_best: float = 0.0
    rounds: int = 0
    rate: float = 0.0  # GFLOP/s or GB/s of ours
    rate_unit: str = ""
    ceiling: float = 0.0  # the machine's, in the same unit: of arithmetic the most so far, of copies in the same rounds
    target: float | None = None
    share_target: float | None = None
    disturbance: float = 0.0  # share of the cores that other processes took meanwhile, at most
    wrong: str = ""  # why verification failed

    @property
    def share(self) -> float:
        return self.rate / self.ceiling if self.ceiling else 0.0

    @property
    def copy_share(self) -> float | None:
        """The share of the copy bandwidth, where memory is the limit."""
        return self.share if self.ceiling and self.rate_unit == "GB/s" else None

    @property
    def disturbed(self) -> bool:
        return self.disturbance > QUIET

    @property
    def passed(self) -> bool | None:
        """True if the targets are met; undecided without targets and on a busy machine."""
        if self.wrong:
            return False
        if self.target is None or self.disturbed:
            return None
        return self.ratio >= self.target and (self.share_target is None or self.share >= self.share_target)

    def record(self) -> dict[str, Any]:
        return asdict(self) | {"share": self.share, "passed": self.passed}


# Ceilings of the machine.


_peak = cache(Peak)
"""One for a number of threads in the whole run: all shares are shares of the most that was seen."""


class Ceilings:
    """Arithmetic and copy speed of the machine with a number of threads, each measurement a few milliseconds."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._peak = _peak(threads)
        self._pool = ThreadPoolExecutor(threads)
        self._source, self._target = (np.full(COPY_BYTES // 4, v, np.float32) for v in (1, 0))
        self._copied = 0  # elements

    def gflops(self) -> float:
        """GFLOP/s of multiply-adds on registers."""
        time.sleep(SETTLE)
        return self._peak.gflops()

    def gigabytes(self, footprint: int) -> float:
        """GB/s (read and written) of numpy.copyto on float32, one part per thread.

        Source and target together are as large as ``footprint``, so that they lie in the same level of the memory as
        the buffers of the case.
        """
        time.sleep(SETTLE)
        self._copied = min(footprint // 8, len(self._source))
        return max(8 * self._copied / self._seconds_of_copy() / 1e9 for _ in range(3))

    def _copy(self, thread: int) -> None:
        part = slice(thread * self._copied // self.threads, (thread + 1) * self._copied // self.threads)
        np.copyto(self._target[part], self._source[part])

    def _seconds_of_copy(self) -> float:
        start = time.perf_counter()
        list(self._pool.map(self._copy, range(self.threads)))
        return time.perf_counter() - start


# One case.


def peer_step(case: Case, arrays: Arrays, layout: str) -> Step:
    """PyTorch's step in a layout, on copies of the same numbers; returns y and the gradients."""
    import torch

    def tensor(name: str) -> Any:
        t = torch.from_numpy(arrays[name]).clone()
        return t.contiguous(memory_format=torch.channels_last) if layout == "channels last" and t.dim() == 4 else t

    forward = case.peer(torch)
    leaves = [tensor(name).requires_grad_() for name in case.inputs]
    dy = tensor("dy")

    def gradients() -> tuple[Any, ...]:
        y = forward(*leaves)
        return (y, *torch.autograd.grad(y, leaves, dy))

    def own_gradients() -> tuple[Any, ...]:
        for leaf in leaves:
            leaf.grad = None
        y = forward(*leaves)
        y.backward(dy)
        return (y, *(leaf.grad for leaf in leaves))

    return own_gradients if case.own_gradients else gradients


def our_step(calls: Calls) -> Step:
    forward, backward = calls.forward, calls.backward

    def step() -> None:
        forward()
        backward()

    return step


def difference(ours: NDArray[np.float32], theirs: NDArray[np.float32]) -> float:
    """Largest difference as a fraction of the largest value; infinite if anything is NaN."""
    scale = float(np.abs(theirs).max()) or 1.0
    worst = float(np.abs(ours - theirs).max()) / scale
    return worst if np.isfinite(worst) else float("inf")


def verify(case: Case, arrays: Arrays, calls: Calls, theirs: Step) -> tuple[float, str]:
    """(largest difference, what is wrong): every result against PyTorch's; ours start out as NaN."""
    for name in case.results:
        arrays[name].fill(np.nan)
    for name, call in (("forward", calls.forward), ("backward", calls.backward)):
        if call() != 0:
            return float("inf"), f"{name} failed: {openbnns.last_error()}"
    expected = [t.detach().numpy() for t in theirs()]
    errors = {n: difference(arrays[n], e) for n, e in zip(case.results, expected, strict=True)}
    wrong = [f"{name} is off by {error:.1e}" for name, error in errors.items() if error > TOLERANCE]
    return max(errors.values()), ", ".join(wrong)


def fastest_layout(case: Case, arrays: Arrays) -> tuple[str, Step]:
    """The layout in which PyTorch is fastest, by the best of a few slices each."""
    steps = {layout: peer_step(case, arrays, layout) for layout in case.layouts}
    if len(steps) > 1:
        counts = {layout: estimate(step) for layout, step in steps.items()}
        best = {layout: min(repeat(steps[layout], counts[layout]) for _ in range(3)) for layout in steps}
        layout = min(best, key=lambda name: best[name])
    else:
        layout = case.layouts[0]
    return layout, steps[layout]


def run_case(case: Case, settings: Settings, ceilings: Ceilings) -> Result:
    """Verify a case and time it."""
    arrays = case.arrays()
    calls = case.calls(arrays)
    layout, theirs = fastest_layout(case, arrays)
    error, wrong = verify(case, arrays, calls, theirs)
    result = Result(case.name, settings.threads, error, layout=layout, wrong=wrong)
    if settings.judged:
        result.target, result.share_target = case.target, case.share_target
    if wrong:
        return result

    footprint = sum(a.nbytes for a in arrays.values())
    measure = ceilings.gflops if case.flops else partial(ceilings.gigabytes, footprint)
    samplers = [sampler(our_step(calls)), sampler(theirs), measure]
    (ours, torch, limits), result.disturbance = alternate(samplers, settings.seconds)
    ratios = [t / o for o, t in zip(ours, torch, strict=True)]
    result.ours, result.ours_best = statistics.median(ours), min(ours)
    result.torch, result.torch_best = statistics.median(torch), min(torch)
    result.ratio, result.ratio_low, result.ratio_high = statistics.median(ratios), min(ratios), max(ratios)
    result.ratio_of_best = result.torch_best / result.ours_best
    result.rounds = len(ratios)
    result.rate = (case.flops or case.bytes) / result.ours / 1e9
    result.rate_unit = "GFLOP/s" if case.flops else "GB/s"
    if case.flops or footprint >= LEAST_COPY:
        result.ceiling = max(limits)
    (forward, backward), _ = alternate([sampler(calls.forward), sampler(calls.backward)], settings.seconds / 5)
    result.ours_forward, result.ours_backward = statistics.median(forward), statistics.median(backward)
    return result
