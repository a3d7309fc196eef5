"""Random calls of functions without a filter, each one repeated in native code: the same bits as by the Python path.

The tests are those of the functions themselves. Here every call that they make is recorded, then repeated on the memory as
it was, and on the memory with its elements in reverse.
"""

# ruff: noqa: F401, imported tests are collected here too

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from filters.test_clipping import test_clip_by_norm, test_clip_by_value, test_compute_norm, test_compute_norm_backward
from filters.test_moves import (
    test_band_part,
    test_compare,
    test_copy,
    test_results_on_top_of_inputs,
    test_shuffle,
    test_tile,
    test_transpose,
)
from filters.test_quantization import test_every_axis_of_every_layout, test_in_place_and_overlapping_memory
from filters.test_quantization import test_random_configurations as test_quantizations
from filters.test_reduction import test_direct as test_reductions
from filters.test_selection import (
    test_gather,
    test_gather_and_scatter_nd,
    test_integer_sums_are_exact,
    test_scatter,
    test_top_k,
)
from helpers import VECTOR, Tensor
from openbnns import capi, engines
from openbnns._words import Caller
from openbnns.capi._calls import Direct, Known
from openbnns.errors import Problem
from openbnns.filters import moves
from openbnns.filters.direct import tensor

repeated = 0


@pytest.fixture(autouse=True)
def repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    def attempt(self: Known, key: Any, work: Callable[..., None], constants: list[Any] | None = None) -> int:
        memories = _memories(key)
        before = [memory.copy() for memory in memories]
        status = first(self, key, work, constants)
        if status == 0 and engines.is_native():
            after = [memory.copy() for memory in memories]
            _check(self, key, memories, before, after)
            _check_other_numbers(self, key, work, memories, before)
            _put(memories, after)
        return status

    first = Known.attempt
    monkeypatch.setattr(Known, "attempt", attempt)


def _memories(key: tuple[Any, ...]) -> list[NDArray[Any]]:
    given = [argument.data if isinstance(argument, capi.BNNSNDArrayDescriptor) else argument for argument in key]
    return [memory for memory in given if isinstance(memory, np.ndarray) and memory.flags.writeable]


def _put(memories: list[NDArray[Any]], values: list[NDArray[Any]]) -> None:
    for memory, value in zip(memories, values, strict=True):
        memory[...] = value


def _check(
    direct: Known, key: Any, memories: list[NDArray[Any]], before: list[NDArray[Any]], after: list[NDArray[Any]]
) -> None:
    """A repetition on the memory as it was before gives what it was after."""
    global repeated
    _put(memories, before)
    if direct.calls.run(*key) is not None:
        repeated += 1
        for memory, expected in zip(memories, after, strict=True):
            assert memory.tobytes() == expected.tobytes(), direct.caller.function


def _check_other_numbers(
    direct: Known, key: Any, work: Callable[..., None], memories: list[NDArray[Any]], before: list[NDArray[Any]]
) -> None:
    other = [values.reshape(-1)[::-1].reshape(values.shape) for values in before]
    _put(memories, other)
    held = [memory.copy() for memory in memories]  # not `other` where memories overlap
    try:
        work(*key)
    except Problem:  # indices outside, for instance
        _put(memories, held)
        assert direct.calls.run(*key) is None
        return
    _check(direct, key, memories, held, [memory.copy() for memory in memories])


def test_many_calls_are_repeated() -> None:
    engines._core.forget_calls()
    count = repeated
    for seed in range(20):
        test_gather("native", seed)
        test_copy("native", seed)
    assert repeated >= count + 10  # most have strides or types that are converted in NumPy


def test_calls_that_write_in_python_are_not_repeated() -> None:
    x, y = np.ones(6, np.float32), np.zeros(6, np.float32)
    source, target = (Tensor(VECTOR, (6,)).descriptor(array) for array in (x, y))

    def copy(caller: Caller, dest: Any, src: Any) -> None:
        moves.copy(caller, dest, src, None)
        if writes:
            tensor(caller, "dest", dest, output=True).write_raw(np.full((1, 6), 2, np.float32))

    for writes in (False, True):
        direct = Direct("copy", copy, 0)
        assert direct(target, source) == 0
        assert (direct.calls.run(target, source) is None) == writes
