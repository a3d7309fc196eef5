"""Functions without a filter by number: Python makes the first call, and its number repeats it on other memory."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import openbnns as bn
import raw
from helpers import assert_bitwise
from openbnns import capi, engines
from openbnns.capi import numbers
from raw import described, floats
from raw_problems import (
    FUNCTIONS,
    LEAKY,
    LENGTH,
    SAMPLES,
    WITH_MEMORY,
    activation,
    batch,
    given,
    held,
    index,
)


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
        for place, (actual, wanted) in enumerate(zip(arguments, expected, strict=True)):
            if isinstance(actual, np.ndarray):
                assert_bitwise(actual, wanted, f"{function}: argument {place}, the result is {result}")


# Functions with structs, with batches, with plain addresses. What makes their arrays, and from these, described by their
# addresses or not, the arguments of a call.


def by_address(array: Any, **fields: Any) -> Any:
    return described(array, True, **fields)


@pytest.mark.parametrize(
    ("function", "make", "arguments"), [(name, make, arguments) for name, _, make, arguments in WITH_MEMORY],
    ids=[f"{name}, {what}" for name, what, *_ in WITH_MEMORY],
)  # fmt: skip
def test_functions_with_structs_batches_and_addresses(
    function: str, make: Any, arguments: Any, rng: np.random.Generator
) -> None:
    engines._core.forget_calls()
    call, first = getattr(capi, function), make(rng)
    assert raw.call(numbers.of_function(function), *arguments(by_address, *first)) == 1, "nothing is known yet"
    assert call(*arguments(by_address, *first)) == 0, bn.last_error()
    number = numbers.of_function(function)
    for _ in range(3):
        arrays = make(rng)
        expected = [array.copy() for array in arrays]
        engines._core.set_fast_calls(False, False)  # as Python does it
        try:
            assert call(*arguments(held, *expected)) == 0, bn.last_error()
        finally:
            engines.update_fast_calls()
        assert raw.call(number, *arguments(held, *arrays)) == 0
        for place, (actual, wanted) in enumerate(zip(arrays, expected, strict=True)):
            assert_bitwise(actual, wanted, f"{function}: array {place}")


def test_samples_that_overlap_other_memory_are_declined(rng: np.random.Generator) -> None:
    """One sample would be apart from the output; the batch is not."""
    engines._core.forget_calls()
    x, y = batch(rng), batch(rng)
    assert capi.BNNSDirectApplyActivationBatch(activation(by_address, x, y), None, SAMPLES, LENGTH, LENGTH) == 0
    number = numbers.of_function("BNNSDirectApplyActivationBatch")
    memory = floats(rng, (SAMPLES + 1) * LENGTH)
    before = memory.copy()
    p = activation(held, memory, memory[LENGTH:])
    assert raw.call(number, p, None, SAMPLES, LENGTH, LENGTH) == 1
    for changed in ((SAMPLES + 1, LENGTH, LENGTH), (SAMPLES, LENGTH + 1, LENGTH), (SAMPLES, 2**62, LENGTH), (0, 0, 0)):
        assert raw.call(number, activation(held, x, y), None, *changed) == 1, changed
    assert raw.call(number, None, None, SAMPLES, LENGTH, LENGTH) == 1
    assert raw.call(number, activation(held, x, y, LEAKY + 1), None, SAMPLES, LENGTH, LENGTH) == 1, "another function"
    assert_bitwise(memory, before, "memory")


def test_plain_addresses_are_declined_where_they_cannot_be(rng: np.random.Generator) -> None:
    engines._core.forget_calls()
    x, dx, y, dy = floats(rng, 4, 6), floats(rng, 4, 6), 2 + floats(rng, 4), floats(rng, 4)
    call = lambda *given: [*given[:1], described(dx, True), given[1], described(dy, True), 1, 2]  # noqa: E731
    assert capi.BNNSComputeNormBackward(*call(x.ctypes.data, y.ctypes.data)) == 0
    number, before = numbers.of_function("BNNSComputeNormBackward"), dx.copy()
    for pair in ((None, y), (x, None), (x, 64), (x.ctypes.data + 2, y), (dx.ctypes.data + 4, y), (x, 2**64 - 1)):
        assert raw.call(number, *call(*pair)) == 1, pair
    assert_bitwise(dx, before, "dx")
    assert raw.call(number, *call(x, y)) == 0


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


# Lists of tensors.

SIZES = [(3, 4), (5,), (1,), (2, 3, 2)]


@pytest.mark.parametrize("in_place", (False, True))
@pytest.mark.parametrize("norms", ((0.5, 0.0), (1e6, 0.0), (0.5, 3.0), (0.0, 0.0)))
def test_clipping_by_global_norm(norms: tuple[float, float], in_place: bool, rng: np.random.Generator) -> None:
    number = numbers.of_function("BNNSClipByGlobalNorm")
    x = [floats(rng, *size) for size in SIZES]
    y = x if in_place else [floats(rng, *size) for size in SIZES]
    expected = [floats(rng, *size) for size in SIZES]
    engines._core.set_fast_calls(False, False)
    try:
        given = [[described(array) for array in group] for group in (expected, x)]
        assert capi.BNNSClipByGlobalNorm(*given, len(SIZES), *norms) == 0, bn.last_error()
        assert raw.call(number, *given, len(SIZES), *norms) == 1
    finally:
        engines.update_fast_calls()
    given = [[described(array) for array in group] for group in (y, x)]
    assert raw.call(number, *given, len(SIZES), *norms) == 0
    for actual, wanted in zip(y, expected, strict=True):
        assert_bitwise(actual, wanted, f"{norms}")


def test_clipping_declines(rng: np.random.Generator) -> None:
    number = numbers.of_function("BNNSClipByGlobalNorm")
    x, y = ([floats(rng, *size) for size in SIZES] for _ in range(2))
    before = [array.copy() for array in y]
    d, s = ([described(array) for array in group] for group in (y, x))
    nan = float("nan")
    for arguments in (
        (None, s, 4, 0.5, 0.0), (d, None, 4, 0.5, 0.0), (d, s, 0, 0.5, 0.0), (d, s, 2**40, 0.5, 0.0),
        (d, s, 4, -1.0, 0.0), (d, s, 4, nan, 0.0), (d, s, 4, 0.5, -1.0), (d, s, 4, 0.5, nan), (d, s, 4, 0.5),
        ([d[0], None], s, 2, 0.5, 0.0), (d, [s[1], s[0]], 2, 0.5, 0.0), ([d[0], d[0]], [s[0], s[0]], 2, 0.5, 0.0),
        ([d[0], d[3]], [s[0], described(y[0].reshape(2, 3, 2))], 2, 0.5, 0.0),
        ([described(y[0], stride=[1, 8, 0, 0, 0, 0, 0, 0])], s, 1, 0.5, 0.0),
        ([described(y[0], data=None)], s, 1, 0.5, 0.0),
        ([described(y[0], data=y[0].ctypes.data + 2)], s, 1, 0.5, 0.0),
    ):  # fmt: skip
        assert raw.call(number, *arguments) == 1
    for array, old in zip(y, before, strict=True):
        assert_bitwise(array, old, "what a declined call leaves")
