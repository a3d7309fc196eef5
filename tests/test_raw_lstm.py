"""LSTMs by number, without the interpreter: what Python has found simple once is repeated from C structs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import openbnns as bn
import raw
from cases import lstm
from helpers import assert_bitwise
from openbnns import capi, engines
from openbnns.capi import numbers


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
    """What Python has found simple once is done without it; everything else is declined, as it is from Python."""
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
        found = lstm_results(case, values)
    for name, numbers_ in expected.items():
        assert_bitwise(found[name], numbers_, f"{case.id}: {name}")
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
    dropped.dropout = 0.5
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
