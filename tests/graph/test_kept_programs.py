"""Programs that functions on arrays keep: what they are kept by, how many there are, and whom their memory belongs to."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import openbnns
from openbnns import compat, nn
from openbnns.graph.functions import on_arrays
from openbnns.graph.program import Program
from openbnns.nn import functional as F
from openbnns.tensors.wide import float64_memory

X: Any = np.array([[1, -2, 3], [0.5, 0, -1]], np.float32)


@pytest.fixture(autouse=True)
def kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The programs of this test alone."""
    programs = on_arrays._Kept()
    monkeypatch.setattr(on_arrays, "_kept", programs)
    yield programs


def served(kept: Any) -> list[Any]:
    return [program for program in kept.programs.values() if program is not None]


def bits(x: Any) -> Any:
    return np.asarray(x, np.float32).view(np.int32).tolist()


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        (lambda z: F.atan2(X * 0, z), [0.0, -0.0, 0, False]),
        (lambda z: F.full_like(X, z), [1, True, 1.0, float("nan"), -0.0, 0.0]),
        (lambda z: F.pow(X, z), [2, 2.0, 3, 0.5]),
        (lambda z: F.mul(np.arange(3), z), [2, 2.0, True, np.float32(2), np.int64(2)]),
        (lambda z: F.sum(X, z), [0, 1, None, (0,), (0, 1), [1], -1]),
        (lambda z: F.nan_to_num(np.array([np.nan], np.float32), z), [0.0, -0.0, float("nan"), float("inf")]),
        (lambda z: F.clamp(np.arange(-2, 3), 0, z), [1, 1.0, True]),
    ],
)
def test_arguments_that_are_equal_are_not_the_same(call: Callable[..., Any], arguments: list[Any]) -> None:
    """Zeros of both signs, booleans, integers, and numbers of NumPy: each gives what it gives alone, in every order."""
    alone = []
    for z in arguments:
        on_arrays._kept.programs.clear()
        alone.append(call(z))
    for order in (arguments, arguments[::-1], arguments):
        for z in order:
            y, expected = call(z), alone[next(i for i, one in enumerate(arguments) if one is z)]
            assert y.dtype == expected.dtype and bits(y) == bits(expected), repr(z)


def test_settings(kept: Any) -> None:
    """Each engine, accuracy and switch has programs of its own; wide memory and strict mode have none."""

    def call() -> Any:
        return F.minimum(X, X[::-1])

    first = call()
    assert len(served(kept)) == 1
    call()
    assert len(served(kept)) == 1
    with openbnns.engine("reference"):
        np.testing.assert_array_equal(call(), first)
    assert len(served(kept)) == 2
    before: Any = openbnns.get_accuracy()
    try:
        openbnns.set_accuracy("exact" if before == "fast" else "fast")
        np.testing.assert_array_equal(call(), first)
    finally:
        openbnns.set_accuracy(before)
    assert len(served(kept)) == 3
    with compat.using(minmax_tie_split=True):
        call()
    assert len(served(kept)) == 4
    number = len(served(kept))
    with openbnns.strict():
        call()
    with float64_memory():
        assert F.exp(np.array([1e-20])).dtype == np.float64
    assert len(served(kept)) == number
    np.testing.assert_array_equal(call(), first)


def test_a_switch_holds_from_the_next_call_on() -> None:
    x: Any = np.array([[[[-1, -2], [-3, -4]]]], np.float32)
    for zeros, largest in ((False, -4), (True, 0), (False, -4)):
        with compat.using(max_pool_padding_is_zero=zeros):
            assert F.max_pool2d(x, 2, 2, 1)[0, 0, 1, 1] == largest


def test_random_numbers_and_statistics_are_never_kept(kept: Any) -> None:
    mean, variance = np.zeros(3, np.float32), np.ones(3, np.float32)
    for _ in range(2):
        F.batch_norm(X, mean, variance, training=True)
        F.rand_like(X)
        F.bernoulli(np.full((2, 2), 0.5, np.float32))
    assert not served(kept)
    assert not np.array_equal(F.rand_like(X), F.rand_like(X))


def test_arrays_that_functions_read_as_numbers_are_read_at_every_call() -> None:
    for counts in ([1, 2, 3], [3, 1, 1]):
        y = F.repeat_interleave(X, np.array(counts), 1)
        np.testing.assert_array_equal(y, np.repeat(X, counts, 1))
    mean, variance = np.zeros(3, np.float32), np.ones(3, np.float32)
    for shift in (0, 5):
        mean[:] = shift
        np.testing.assert_allclose(F.batch_norm(X, mean, variance, eps=0), X - shift)


def test_results_and_arguments_are_nobody_elses() -> None:
    x = X.copy()
    y = F.exp(x)
    before = y.copy()
    x[:] = 0
    z = F.exp(x)
    np.testing.assert_array_equal(y, before)
    z[:] = 7
    np.testing.assert_array_equal(F.exp(x), np.ones_like(x))
    values, places = F.max(X, 1)
    F.max(-X, 1)
    np.testing.assert_array_equal(values, X.max(1))
    np.testing.assert_array_equal(places, X.argmax(1))
    for same in (F.flatten(X), F.detach(X), F.permute(X, 0, 1), F.relu(np.abs(X))):
        assert not np.shares_memory(same, X) and same.flags.writeable


def test_a_call_that_fails_leaves_nothing_behind(kept: Any) -> None:
    table, places = np.arange(6, dtype=np.float32).reshape(3, 2), np.array([0, 2])
    expected = F.index_select(table, 0, places)
    for wrong in ([0, 3], [-4, 0]):
        with pytest.raises((IndexError, ValueError)):
            F.index_select(table, 0, np.array(wrong))
        np.testing.assert_array_equal(F.index_select(table, 0, places), expected)
    with pytest.raises(ValueError, match="do not fit together"):
        F.add(X, X[:, :2])
    np.testing.assert_array_equal(F.add(X, X), 2 * X)
    assert kept.bytes == sum(program.kept_bytes for program, _ in served(kept))


def test_bytes_are_limited(kept: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The programs that were used last are kept, without those that are too large."""
    F.exp(np.ones(3, np.float32))
    monkeypatch.setattr(on_arrays, "_MOST_BYTES", 40_000)
    for n in range(100, 200):
        np.testing.assert_array_equal(F.neg(np.ones(n, np.float32)), -np.ones(n))
        np.testing.assert_array_equal(F.exp(np.zeros(3, np.float32)), [1, 1, 1])
        assert kept.bytes == sum(program.kept_bytes for program, _ in served(kept)) <= 40_000
    shapes = [program.shapes[0] for program, _ in served(kept)]
    assert shapes[-2:] == [(199,), (3,)] and (100,) not in shapes
    F.neg(np.ones(1 << 19, np.float32))  # 2 MB
    assert not any(program.shapes[0] == (1 << 19,) for program, _ in served(kept))


def test_the_number_of_programs_is_limited(kept: Any) -> None:
    for n in range(1, 400):
        F.sum(np.ones((2, 2), np.float32), 0)
        F.mul(np.ones(n, np.float32), 2.0)
    assert len(kept.programs) <= on_arrays._MOST_PROGRAMS
    assert any(program.shapes[0] == (2, 2) for program, _ in served(kept))


def test_a_call_within_a_call_has_a_program_of_its_own(kept: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A finalizer or a handler of a signal may call the function that runs."""
    forward = Program.forward
    inner: list[Any] = []

    def interrupted(program: Program) -> None:
        if not inner:
            inner.append(None)
            inner[0] = F.exp(0 * X)
        forward(program)

    expected = F.exp(X)
    monkeypatch.setattr(Program, "forward", interrupted)
    np.testing.assert_array_equal(F.exp(X), expected)
    np.testing.assert_array_equal(inner[0], np.ones_like(X))
    assert kept.bytes == sum(program.kept_bytes for program, _ in served(kept))


def test_threads_have_programs_of_their_own() -> None:
    def work(seed: int) -> None:
        random = np.random.RandomState(seed)
        for _ in range(300):
            a, b = random.standard_normal((2, random.randint(1, 4), 5)).astype(np.float32)
            np.testing.assert_array_equal(F.add(a, b), a + b)
            np.testing.assert_array_equal(F.maximum(a, b), np.maximum(a, b))
            np.testing.assert_array_equal(F.sort(a)[0], np.sort(a))
            np.testing.assert_array_equal(F.mul(np.arange(5), seed), np.arange(5) * seed)

    with ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(work, seed) for seed in range(4)]:
            future.result()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_child_process_may_use_the_programs_of_its_parent() -> None:
    expected = F.softmax(X, 1)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            first = np.array_equal(F.softmax(X, 1), expected)
            code = 0 if first and np.array_equal(F.softmax(-X, 1), F.softmax(-X, 1)) else 2
        finally:
            os._exit(code)
    np.testing.assert_allclose(F.softmax(2 * X, 1).sum(1), 1, rtol=1e-6)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    np.testing.assert_array_equal(F.softmax(X, 1), expected)


def test_parameters_are_read_at_every_call() -> None:
    weight = nn.Parameter(np.array([1, 2, 3], np.float32))
    for factor in (1, 3):
        weight.data[:] = factor
        np.testing.assert_array_equal(F.mul(X, weight), X * factor)
