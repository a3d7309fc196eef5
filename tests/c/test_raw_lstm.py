"""LSTMs by number, without the interpreter: what Python has found simple once is repeated from C structs."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import openbnns as bn
import raw
from cases import lstm
from helpers import assert_bitwise
from openbnns import capi, engines
from openbnns._words import Caller
from openbnns.capi import numbers
from openbnns.filters.lstm import LSTM as LSTMFilter
from openbnns.filters.lstm import next_draw
from openbnns.parameters.random_numbers import Stream


def lstm_results(case: Any, values: Any) -> dict[str, Any]:
    run = lstm.LstmRun(case, values)
    results = {f"output {i}": array for i, array in run.forward().items()}
    results |= {f"gradient {i}": m.storage.raw() for i, m in run.backward().items()}
    ones = {i: np.ones(case.shape(i)) for i in lstm.RESULTS}
    results |= {f"1 + gradient {i}": m.storage.raw() for i, m in run.backward(old=ones, cached=False).items()}
    return results


LSTM = ("BNNSDirectApplyLSTMBatchTrainingCaching", "BNNSDirectApplyLSTMBatchBackward")


@pytest.mark.parametrize("case", [c for c in lstm.CASES if not c.dropout], ids=lambda case: case.id)
def test_lstm(case: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls that were simple once run without Python; everything else is declined, as it is from Python."""
    engines._core.forget_lstm()
    values = case.values()
    expected = lstm_results(case, values)
    expected_codes: list[int] = []
    codes: list[int] = []
    native = engines._core.fast_lstm

    def by_python(*arguments: Any) -> int:
        expected_codes.append(native(*arguments))
        return expected_codes[-1]

    def by_number(name: str, checked: Any) -> Callable[..., int]:
        def call(*arguments: Any) -> int:
            codes.append(raw.call(numbers.of_function(name), *arguments))
            return 0 if codes[-1] == 0 else int(checked(*arguments))

        return call

    with monkeypatch.context() as patch:
        patch.setattr(engines._core, "fast_lstm", by_python)
        lstm_results(case, values)
    with monkeypatch.context() as patch:
        for name in LSTM:
            patch.setattr(capi, name, by_number(name, getattr(capi, name)))
        actual = lstm_results(case, values)
    for name, numbers_ in expected.items():
        assert_bitwise(actual[name], numbers_, f"{case.id}: {name}")
    assert codes == expected_codes and len(codes) == 3


def test_lstm_declines() -> None:
    case = next(c for c in lstm.CASES if c.id.endswith("sequence"))
    run = lstm.LstmRun(case, case.values())
    expected = run.forward()
    number = numbers.of_function("BNNSDirectApplyLSTMBatchTrainingCaching")
    assert run.cache is not None

    def call(**changes: Any) -> int:
        arguments: dict[str, Any] = {"p": run.params, "f": None, "cache": run.cache, "capacity": run.cache.nbytes}
        return raw.call(number, *(arguments | changes).values())

    assert call() == 0 and call(f=capi.BNNSFilterParameters(n_threads=2)) == 0
    for index, array in expected.items():
        assert_bitwise(run.outputs[index].read(), array, f"output {index}")
    other = run.params.copy()
    other.seq_len -= 1
    shared = run.params.copy()
    shared.output_descriptor.hidden_desc.data = shared.input_descriptor.data_desc.data
    dropped = run.params.copy()
    dropped.dropout = 0.5  # another description
    for changes in (
        {"p": None}, {"p": other}, {"p": shared}, {"p": dropped}, {"capacity": run.cache.nbytes - 1},
        {"cache": run.cache.ctypes.data + 1}, {"f": capi.BNNSFilterParameters(alloc_memory=lambda *_: 0)},
    ):  # fmt: skip
        assert call(**changes) == 1, changes
    bn.compat.kink_derivative_from_right = True
    try:
        assert call() == 1
    finally:
        bn.compat.kink_derivative_from_right = False
    assert call() == 1, "forgotten"


DROPPING = [c for c in lstm.CASES if c.dropout and c.layers > 1 and c.batch_sizes is None and c.layout == "first"]


@pytest.mark.parametrize("case", DROPPING, ids=lambda case: case.id)
def test_dropout(case: Any) -> None:
    """Every training call draws another mask, whichever way it takes; the cache says which, and backward goes by it."""
    engines._core.forget_lstm()
    run = lstm.LstmRun(case, case.values())
    run.forward()
    run.backward()
    assert run.cache is not None
    forward, backward = (numbers.of_function(name) for name in LSTM)
    capacity, seen = run.cache.nbytes, set()
    for _ in range(3):
        cache = np.zeros_like(run.cache)
        before = next_draw()
        assert raw.call(forward, run.params, None, cache, capacity) == 0
        outputs = {i: m.read() for i, m in run.outputs.items()}
        _, _, seed, draw = struct.unpack_from("<4Q", cache.tobytes())
        assert draw == before + 1 and next_draw() == draw + 1
        seen.add(outputs[lstm.Y].tobytes())
        again = np.zeros_like(cache)
        caller = Caller(LSTM[0])
        LSTMFilter(run.params, None, caller).forward(caller, run.params, again, capacity, Stream(seed, draw))
        for i, array in outputs.items():
            assert_bitwise(array, run.outputs[i].read(), f"output {i}")
        assert_bitwise(cache, again, "cache")
        gradients = []
        for by_number in (True, False):
            results = {i: lstm.Memory(case, i) for i in lstm.RESULTS if 0 not in case.shape(i)}
            coming = {i: lstm.Memory(case, i, run.values[100 + i]) for i in lstm.OUTPUTS}
            delta = lstm.params(case, {i: m.descriptor() for i, m in (results | coming).items()})
            if by_number:
                assert raw.call(backward, run.params, delta, None, cache, capacity) == 0
            else:
                engines._core.forget_lstm()
                assert capi.BNNSDirectApplyLSTMBatchBackward(run.params, delta, None, cache, capacity) == 0
            gradients.append({i: m.storage.raw() for i, m in results.items()})
        for i, array in gradients[0].items():
            assert_bitwise(array, gradients[1][i], f"gradient {i}")
        run.forward()  # what was forgotten
        forward, backward = (numbers.of_function(name) for name in LSTM)
    assert len(seen) == 3, "three masks"
    assert DROPPING
