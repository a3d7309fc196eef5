"""Functions without a filter by number: Python makes the first call, and its number repeats it on other memory."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import openbnns as bn
import raw
from helpers import assert_bitwise
from openbnns import capi, engines
from openbnns.capi import numbers
from raw import described, floats


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(11)


def index(rng: np.random.Generator, size: int, limit: int) -> Any:
    return rng.permutation(limit)[:size].astype(np.int32)


# Name, what makes the arguments (arrays stand for descriptors), and the place of the result among them.
FUNCTIONS: list[tuple[str, Callable[..., list[Any]], int]] = [
    ("BNNSCopy", lambda r: [floats(r, 3, 5), floats(r, 3, 5), None], 0),
    ("BNNSTranspose", lambda r: [floats(r, 5, 3), floats(r, 3, 5), 0, 1, None], 0),
    (
        "BNNSCompareTensor",
        lambda r: [floats(r, 7), floats(r, 7), int(capi.BNNSRelationalOperatorLess), np.zeros(7, np.bool_)],
        3,
    ),
    ("BNNSTile", lambda r: [floats(r, 2, 3), floats(r, 4, 9), None], 1),
    ("BNNSTileBackward", lambda r: [floats(r, 2, 3), floats(r, 4, 9), None], 0),
    ("BNNSBandPart", lambda r: [1, -1, floats(r, 4, 6), floats(r, 4, 6), None], 3),
    ("BNNSGather", lambda r: [1, floats(r, 4, 6), index(r, 3, 6), floats(r, 4, 3), None], 3),
    ("BNNSClipByValue", lambda r: [floats(r, 9), floats(r, 9), -0.5, 0.25], 0),
    ("BNNSClipByNorm", lambda r: [floats(r, 9), floats(r, 9), 0.5, 0], 0),
    ("BNNSComputeNorm", lambda r: [floats(r, 1), floats(r, 9), int(capi.BNNSL2Norm), 1], 0),
    ("BNNSMatMul", lambda r: [False, True, 0.5, floats(r, 4, 3), floats(r, 5, 3), floats(r, 4, 5), None, None], 5),
    (
        "BNNSDirectApplyBroadcastMatMul",
        lambda r: [False, False, 2.0, floats(r, 4, 3), floats(r, 3, 5), floats(r, 4, 5), None],
        5,
    ),
]  # fmt: skip


def given(arguments: list[Any], address: bool) -> list[Any]:
    return [described(a, address) if isinstance(a, np.ndarray) else a for a in arguments]


@pytest.mark.parametrize(("function", "make", "result"), FUNCTIONS, ids=[name for name, *_ in FUNCTIONS])
def test_functions_without_a_filter(function: str, make: Any, result: int, rng: np.random.Generator) -> None:
    engines._core.forget_calls()
    call = getattr(capi, function)
    first = make(rng)
    assert raw.call(numbers.of_function(function), *given(first, True)) == 1, "nothing is known yet"
    assert call(*given(first, True)) in (0, None), bn.last_error()
    number = numbers.of_function(function)
    assert number != 0
    for _ in range(3):
        arguments = make(rng)
        expected = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
        assert call(*given(expected, False)) in (0, None), bn.last_error()
        assert raw.call(number, *given(arguments, False)) == 0
        for place, (found, wanted) in enumerate(zip(arguments, expected, strict=True)):
            if isinstance(found, np.ndarray):
                assert_bitwise(found, wanted, f"{function}: argument {place}, the result is {result}")


def test_known_calls_decline_what_is_described_in_another_way(rng: np.random.Generator) -> None:
    engines._core.forget_calls()
    x, y = floats(rng, 4, 6), floats(rng, 4, 6)
    capi.BNNSCopy(described(y, True), described(x, True))
    number, before = numbers.of_function("BNNSCopy"), y.copy()
    x += 1
    wide = floats(rng, 8, 6)
    for dest, src, params in (
        (described(floats(rng, 6, 4)), described(floats(rng, 6, 4)), None),  # other sizes
        (described(y), described(x, stride=[1, 12, 0, 0, 0, 0, 0, 0]), None),
        (described(y, flags=1), described(x), None),
        (described(y, data_type=capi.BNNSDataTypeInt32), described(x), None),
        (described(y), described(x), x),  # filter_params
        (None, described(x), None),
        (described(y), None, None),
        (described(y, data=None), described(x), None),
        (described(y, data=y.ctypes.data + 2), described(x), None),  # not aligned
        (described(wide[2:6]), described(wide[:4]), None),  # overlaps
        (described(y, table_data=x), described(x), None),
    ):
        assert raw.call(number, dest, src, params) == 1
    assert raw.call(number, described(y), described(x)) == 1, "one word is missing"
    assert_bitwise(y, before, "y")
    with bn.engine("reference"):
        assert raw.call(number, described(y), described(x), None) == 1
    assert raw.call(number, described(y), described(x), None) == 0
    assert_bitwise(y, x, "y")
    engines._core.forget_calls()
    assert raw.call(number, described(y), described(x), None) == 1


def test_an_index_outside_is_declined_and_nothing_is_written(rng: np.random.Generator) -> None:
    engines._core.forget_calls()
    x, i, y = floats(rng, 4, 6), index(rng, 3, 6), floats(rng, 4, 3)
    assert capi.BNNSGather(1, described(x, True), described(i, True), described(y, True)) == 0
    number, before = numbers.of_function("BNNSGather"), y.copy()
    i[1] = 6
    assert raw.call(number, 1, described(x), described(i), described(y), None) == 1
    assert_bitwise(y, before, "y")
    i[1] = 5
    assert raw.call(number, 1, described(x), described(i), described(y), None) == 0


def test_numbers_of_known_calls_in_threads_while_calls_are_dropped(rng: np.random.Generator) -> None:
    """Calls are dropped when there are many, and when a switch is set: threads see a refusal, or a right result."""
    engines._core.forget_calls()
    x, y = floats(rng, 5, 7), floats(rng, 5, 7)
    stop, wrong, done = threading.Event(), [], []
    capi.BNNSCopy(described(y, True), described(x, True))
    current = [numbers.of_function("BNNSCopy")]

    def work() -> None:
        y = np.zeros_like(x)
        words = raw.Words(described(y), described(x), None)
        count = 0
        while not stop.is_set():
            y[:] = 0
            if raw.run(current[0], words.words, words.count) == 0:
                count += 1
                if not np.array_equal(x, y):
                    wrong.append(y.copy())
        done.append(count)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for size in range(1, 300):
        for n in (5, size):
            source, target = np.zeros((n, 7), np.float32), np.zeros((n, 7), np.float32)  # addresses keep nothing alive
            capi.BNNSCopy(described(target, True), described(source, True))
        current[0] = numbers.of_function("BNNSCopy")
        if size % 50 == 0:
            engines._core.forget_calls()
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong and sum(done) > 0
