"""How close do square matrix products come to the peak of the machine, from small to large, odd sizes and all transposes?"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from cases import created
from harness import TOLERANCE, Ceilings, Settings, difference
from matmul import product_filter
from openbnns import capi
from timing import BLAS_SETTLE, QUIET, SETTLE, SLICE, Step, alternate, repeat

GROUP = "sweep"
SIZES = (
    64, 65, 96, 127, 128, 129, 192, 255, 256, 257, 384, 511, 512, 513, 768, 1000, 1024, 1025, 1536, 2048, 2049, 4096,
)  # fmt: skip
FORMS: dict[str, tuple[bool, bool]] = {
    "A B": (False, False),
    "A Bt": (False, True),
    "At B": (True, False),
    "At Bt": (True, True),
}
"""Which operands are stored transposed."""

ROUNDS = (3, 10)  # of a size: few where a product takes long
ROUND_SECONDS = 0.8  # that all rounds of a size should take, about


@dataclass
class Point:
    """A product of two square matrices, forward only.

    Times are those of the fastest round, in seconds: the peak, too, is the most that was seen, and what others do to the
    caches and the clock of a shared machine hits some rounds only.
    """

    name: str
    threads: int
    size: int
    form: str
    ours: float
    peers: dict[str, float]
    rate: float  # GFLOP/s of ours
    ceiling: float  # of the machine, the most that was seen so far
    disturbance: float  # share of the cores that other processes took meanwhile, at most

    @property
    def share(self) -> float:
        return self.rate / self.ceiling

    @property
    def disturbed(self) -> bool:
        return self.disturbance > QUIET

    def record(self) -> dict[str, Any]:
        return asdict(self) | {"share": self.share}


def points() -> dict[str, Callable[[Settings, Ceilings], Point]]:
    """Measurements by name."""
    measurements: dict[str, Callable[[Settings, Ceilings], Point]] = {}
    for size in SIZES:
        for form in FORMS:
            name = f"{GROUP}/{size} {form}"
            measurements[name] = partial(_measure, name, size, form)
    return measurements


def _measure(name: str, size: int, form: str, settings: Settings, ceilings: Ceilings) -> Point:
    steps = _steps(size, FORMS[form])
    samplers, round_seconds = [], 0.0
    for side, step in steps.items():
        seconds = repeat(step, 1)  # has been warmed up by the comparison
        count = max(1, round(SLICE / seconds))
        rest = BLAS_SETTLE if side == "numpy" else SETTLE
        samplers.append(partial(_sample, step, count, rest))
        round_seconds += rest + (count + count // 20) * seconds
    rounds = min(max(round(ROUND_SECONDS / round_seconds), ROUNDS[0]), ROUNDS[1])
    measured, disturbance = alternate([*samplers, ceilings.gflops], rounds * round_seconds, (rounds, rounds))
    times = {side: min(values) for side, values in zip(steps, measured, strict=False)}
    ours = times.pop("ours")
    return Point(
        name, settings.threads, size, form, ours, times, 2.0 * size**3 / ours / 1e9, max(measured[-1]), disturbance
    )


def _sample(step: Step, count: int, rest: float) -> float:
    """Seconds per step; afterwards its threads get the time they need to fall asleep."""
    if count > 1:
        repeat(step, 1 + count // 20)
    seconds = repeat(step, count)
    time.sleep(rest)
    return seconds


def _steps(size: int, transposes: tuple[bool, bool]) -> dict[str, Step]:
    """The step of each side; raises an error unless all results are the same."""
    random, shape = np.random.default_rng(size), (size, size)
    a, b = (random.standard_normal(shape, dtype=np.float32) for _ in "ab")
    results = {side: np.full(shape, np.nan, np.float32) for side in ("ours", "torch", "numpy")}
    f = created(product_filter(shape, shape, shape, transposes))
    steps: dict[str, Step] = {"ours": partial(capi.BNNSFilterApplyTwoInputBatch, f, 1, a, 0, b, 0, results["ours"], 0)}
    operands = [x.T if transpose else x for x, transpose in zip((a, b), transposes, strict=True)]
    try:
        import torch

        steps["torch"] = partial(torch.mm, *map(torch.from_numpy, operands), out=torch.from_numpy(results["torch"]))
    except ImportError:
        pass
    steps["numpy"] = partial(np.matmul, *operands, out=results["numpy"])
    for step in steps.values():
        step()
    time.sleep(BLAS_SETTLE)
    for side in steps:
        error = difference(results[side], results["numpy"])
        if error > TOLERANCE:
            raise RuntimeError(f"{GROUP}: {side} is off by {error:.1e} at {size}, transposes {transposes}")
    return steps
