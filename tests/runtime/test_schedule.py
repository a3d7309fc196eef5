"""Work for more workers than this machine has cores: the same bits, and a record of how it is shared."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import openbnns
from cases import activation, arithmetic, convolution, fully_connected
from cases._base import Act, native, parameters
from helpers import vector
from openbnns import engines

pytestmark = pytest.mark.usefixtures("recorded_schedule")

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
