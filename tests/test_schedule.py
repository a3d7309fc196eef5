"""How work would spread over more workers than this machine has cores: recorded on one, replayed for the others."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import openbnns
from cases import activation, convolution, fully_connected
from cases._base import Act, native, parameters
from helpers import vector
from openbnns import engines
from pages import ROOT

LARGE = [
    fully_connected.case("rows", 300, 96, 700, activation=Act("Tanh")),
    fully_connected.case("columns", 300, 700, 96),
    convolution.case(
        "products", 32, 48, (20, 20), (3, 3), symmetric=(1, 1), batch=4, activation=Act("RectifiedLinear")
    ),
    convolution.case("depthwise", 64, 64, (20, 20), (3, 3), symmetric=(1, 1), groups=64, batch=8),
    activation.case("elements", Act("Sigmoid"), vector(20000), batch=4),
]


SHAPES: dict[str, int] = {
    "convolution/32x3x32x32 -> 32, 3x3": 16,
    "convolution/64x1x28x28 -> 16, 5x5": 16,
    "fully connected/256x512 -> 512": 64,
    "fully connected/129x785 -> 1001": 4,
    "matmul/64 x (128x64 @ 64x128)": 16,
    "gram/8x64x28x28": 64,
    "lstm/8 x 32 steps, 64 -> 100": 4,
    "attention/layer causal 4x256x256 8 heads": 16,
    "attention/heads numbers 2x1024x64 4 heads": 4,
    "normalization/layer 2048x256": 16,
    "normalization/batch 128x256": 64,
    "normalization/group 16x128x28x28 in 32 groups": 4,
}
"""Shapes of the benchmarks, and the most workers of 4, 16 and 64 that have at most a tenth more than the mean to do."""


@pytest.fixture(autouse=True)
def _usual_threads() -> Iterator[None]:
    yield
    engines._core.record_schedule(False)
    engines._core.take_schedule()
    openbnns.set_num_threads(0)


@pytest.mark.parametrize("case", parameters(LARGE))
def test_more_workers_than_cores_give_the_same_bits(case: Any) -> None:
    """In the pool, whose threads then do several shares each, and one share after the other as they are recorded."""
    openbnns.set_num_threads(1)
    expected = native(case)
    for workers in (4, 8, 16, 32, 64, 256):
        openbnns.set_num_threads(workers)
        for recorded in (False, True):
            engines._core.record_schedule(recorded)
            run = case.run(expected.values)
            np.testing.assert_array_equal(run.forward(), expected.y, str(workers))
            for name, storage in run.backward().items():
                np.testing.assert_array_equal(storage.read(), expected.gradients[name], f"{name}, {workers}")
            assert bool(engines._core.take_schedule()) is recorded


def test_shared_work_is_recorded_whole() -> None:
    """Every item or range with its time; nothing from calls that one thread makes."""
    case = LARGE[0]
    run = case.run(case.values())
    for workers in (1, 4, 64):
        openbnns.set_num_threads(workers)
        engines._core.record_schedule(True)
        run.forward()
        taken = engines._core.take_schedule()
        assert bool(taken) is (workers > 1)
        for asked, items, ranges, seconds in taken:
            assert 1 < asked <= workers
            assert len(seconds) == (max(1, min(asked, items)) if ranges else items)
            assert all(s >= 0 for s in seconds)
        assert engines._core.take_schedule() == []


def test_other_threads_compute_while_a_schedule_is_recorded() -> None:
    case = LARGE[2]
    expected = native(case)
    openbnns.set_num_threads(8)
    engines._core.record_schedule(True)
    failures: list[str] = []

    def work() -> None:
        run = case.run(expected.values)
        for _ in range(5):
            if not np.array_equal(run.forward(), expected.y):
                failures.append("other numbers")

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert engines._core.take_schedule()


def test_the_shapes_of_the_benchmarks_spread_evenly() -> None:
    """Largest share over mean; the program also compares the bits of one thread with those of all these numbers."""
    wanted = [word for name in SHAPES for word in ("--only", name)]
    command = [sys.executable, str(ROOT / "benchmarks" / "schedule.py"), "--json", "--workers", "4,16,64", *wanted]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    found: dict[str, dict[str, float]] = json.loads(run.stdout)
    assert list(found) and set(found) == set(SHAPES)
    for name, most in SHAPES.items():
        for workers, balance in found[name].items():
            assert int(workers) > most or balance <= 1.1, f"{name} on {workers} workers"
