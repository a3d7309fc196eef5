"""Functions on arrays by programs that are kept for the next call, beside the same functions recorded for each call."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from comparison.functions import Drawing, signatures, turned
from openbnns import nn
from openbnns.graph.functions import on_arrays
from openbnns.graph.structure import flatten
from openbnns.nn import functional as F

LISTS = 5  # of arguments for each function
DRAWN = {"bernoulli", "dropout", "rand", "rand_like", "randn", "randn_like", "randperm"}
"""Functions that draw from the seeds of the process."""


def outcome(function: Callable[..., Any], given: list[Any], named: dict[str, Any]) -> Any:
    """Arrays, or the exception as text."""
    nn.manual_seed(1)
    try:
        return [np.asarray(y) for y in flatten(function(*given, **named))[0]]
    except Exception as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize("portion", range(10))
def test_kept_programs_give_what_a_recording_for_each_call_gives(portion: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also from the second call on, with other numbers, and the same messages for arguments that do not fit."""
    monkeypatch.setattr(on_arrays, "_kept", on_arrays._Kept())
    for name, signature in list(signatures().items())[portion::10]:
        for number in range(LISTS):
            given, named = Drawing(name, number).arguments(signature)
            for arguments in ((given, named), (turned(given), {key: turned(x) for key, x in named.items()})):
                with warnings.catch_warnings(), monkeypatch.context() as once:
                    warnings.simplefilter("ignore")
                    kept = outcome(getattr(F, name), *arguments)
                    once.setattr(on_arrays, "_kept", on_arrays._Kept())
                    once.setattr(on_arrays, "_program_for", lambda *_: None)
                    expected = outcome(getattr(F, name), *arguments)
                if isinstance(kept, str) or isinstance(expected, str):
                    assert isinstance(expected, str) and kept == expected, (name, number)
                    continue
                for y, z in zip(kept, expected, strict=True):
                    assert (y.dtype, y.shape) == (z.dtype, z.shape), (name, number)
                    np.testing.assert_allclose(y, z, rtol=2e-6, atol=1e-7, err_msg=f"{name} {number}")


@pytest.mark.filterwarnings("ignore")
def test_random_calls_in_two_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """All functions in turns, each several times with each list of its arguments."""
    calls = []
    for name, signature in signatures().items():
        for number in range(LISTS - 2, LISTS) if name not in DRAWN else ():
            given, named = Drawing(name, number).arguments(signature)
            calls.append((name, given, named))
    with monkeypatch.context() as once:
        once.setattr(on_arrays, "_kept", on_arrays._Kept())
        once.setattr(on_arrays, "_program_for", lambda *_: None)
        expected = [outcome(getattr(F, name), given, named) for name, given, named in calls]
    monkeypatch.setattr(on_arrays, "_kept", on_arrays._Kept())

    def work(seed: int) -> None:
        for i in np.random.RandomState(seed).permutation(3 * len(calls)) % len(calls):
            name, given, named = calls[i]
            actual = outcome(getattr(F, name), given, named)
            assert isinstance(actual, str) == isinstance(expected[i], str), (name, actual, expected[i])
            if isinstance(actual, str):
                assert actual == expected[i]
                continue
            for y, z in zip(actual, expected[i], strict=True):
                np.testing.assert_allclose(y, z, rtol=2e-6, atol=1e-7, err_msg=name)

    with ThreadPoolExecutor(2) as pool:
        for future in [pool.submit(work, seed) for seed in range(2)]:
            future.result()


def test_a_single_number_has_no_axis_to_reverse() -> None:
    for number in (0.5, 2.0):
        assert F.flip(np.array(number, np.float32), None) == number


def test_rows_of_an_array_are_taken_as_they_are() -> None:
    """The padding row, too, which only gradients leave out; integers stay integers."""
    rows = np.float32([[1, 2], [3, 4]])
    np.testing.assert_array_equal(F.embedding(np.array([1, 0]), rows, padding_idx=1), rows[::-1])
    assert F.embedding(np.array([1, 0]), np.array([[1, 2], [3, 4]])).dtype == np.int64


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: F.where(np.array([1j]), np.float32([1]), 2), "an array of complex128 stands in an expression"),
        (lambda: F.addcmul(np.ones(3, np.float32), None, 2.0), "addcmul: a NoneType is not a tensor"),
        (lambda: F.chunk(np.arange(3), 0), "chunk: chunks is 0. Pass an integer of at least 1"),
        (lambda: F.repeat(np.arange(3), -1), "repeat: -1 is not a number of copies. Pass integers of at least 0"),
        (lambda: F.index_select(np.float32([1, 2]), 0, np.array([5])), "indexing: numbers from 5 to 5 for axis 0"),
        (lambda: F.irfft(np.zeros((1, 0, 2), np.float32), 1), "irfft: axis 1 of .* is empty"),
    ],
)
def test_arguments_are_refused_at_every_call(call: Callable[[], Any], message: str) -> None:
    for _ in range(2):
        with pytest.raises((ValueError, TypeError, IndexError), match=message):
            call()


@pytest.mark.parametrize("stride", [1.0, True, (1, True), (1.0, 1.0), np.array([1, 1]), [1, "1"]])
def test_windows_that_are_remembered_do_not_hide_a_check(stride: Any) -> None:
    """1.0 and True are equal to 1, but no numbers of elements."""
    x = np.ones((1, 1, 4, 4), np.float32)
    F.max_pool2d(x, 2, stride=1), F.max_pool2d(x, 2, stride=(1, 1))
    with pytest.raises(ValueError, match=r"max_pool2d: stride is .*\. Pass one integer or \(vertical, horizontal\)"):
        F.max_pool2d(x, 2, stride=stride)
    with pytest.raises(ValueError, match=r"conv2d: dilation is .*\. Pass one integer or \(vertical, horizontal\)"):
        F.conv2d(x, x[:, :, :2, :2], dilation=stride)
