"""How work would spread over more workers than this machine has cores: recorded on one, replayed for the others."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import openbnns
from cases import activation, arithmetic, convolution, fully_connected
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
    convolution.case("odd-channels", 35, 49, (26, 26), (3, 3), symmetric=(1, 1), batch=3),
    convolution.case("strided-tiles", 33, 20, (27, 25), (5, 5), step=(2, 2), symmetric=(2, 2), batch=4),
    convolution.case("kernel-rows", 33, 40, (17, 19), (7, 7), symmetric=(3, 3), batch=2),
    convolution.case("groups", 64, 64, (20, 20), (3, 3), step=(2, 2), groups=2, batch=3),
    convolution.case("few-channels", 3, 20, (40, 33), (5, 5), step=(2, 2), batch=5),
    arithmetic.case("repeated", "Multiply", vector(1000), vector(1000), batch=300, roles=(arithmetic.S, arithmetic.P)),
    activation.case("elements", Act("Sigmoid"), vector(20000), batch=4),
]


LIMIT = 1.1
"""Of the largest share of a worker over the mean."""

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


def balances_of(names: Sequence[str], repeats: int) -> dict[str, dict[str, float]]:
    """By shape and number of workers; of all shapes if there are no names. Bits are compared with those of one thread."""
    command = [sys.executable, str(ROOT / "benchmarks" / "schedule.py"), "--json", "--workers", "4,16,64"]
    command += ["--repeats", str(repeats), *(word for name in names for word in ("--only", name))]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    found: dict[str, dict[str, float]] = json.loads(run.stdout)
    return found


def test_the_shapes_of_the_benchmarks_spread_evenly() -> None:
    """Largest share over mean. Parts of a call count by their time, so that what a busy machine has spoilt is measured again."""
    uneven = UNEVEN["any"] | UNEVEN.get(engines._core.instruction_set(), {})

    def missed(found: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
        def limit(name: str, workers: str) -> float:
            fewest, most = uneven.get(name, (0, LIMIT))
            return most if int(workers) >= fewest else LIMIT

        return {name: each for name, each in found.items() if any(b > limit(name, w) for w, b in each.items())}

    found = balances_of([], repeats=1)
    assert len(found) > 100
    assert set(uneven) <= set(found)
    left = missed(found)
    for repeats in (3, 9, 9):
        if left:
            again = balances_of(list(left), repeats)
            left = missed({name: again[name] for name in left})
    assert not left
