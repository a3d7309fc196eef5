"""Descriptors and structs that another thread changes during a call: what is remembered is what was done.

The other thread is played by the code under test itself, patched to change the caller's objects at the worst moment.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import openbnns as bn
from cases import lstm
from openbnns import Shape, capi, compat, engines
from openbnns.capi import _calls
from openbnns.capi import moves as c_moves
from openbnns.filters import moves, pooling, reduction
from openbnns.filters.lstm import LSTM
from openbnns.tensors import descriptors


class Flickering:
    """A descriptor whose size is 8 when it is read first, then 4."""

    def __init__(self) -> None:
        self._honest = Shape.vector(8).descriptor()
        self._reads = 0

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._honest, name)
        if name == "size":
            self._reads += 1
            return value if self._reads == 1 else [4] + [0] * 7
        return value


def test_a_view_is_that_of_its_key() -> None:
    descriptors._views.clear()
    assert descriptors.resolve(Flickering(), "d").size == (8,)
    assert descriptors.resolve(Shape.vector(8).descriptor(), "d").size == (8,)


def test_a_switch_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A switch that another thread sets while a view is made does not change it halfway."""
    first = descriptors.element_type

    def meanwhile(code: int, who: str) -> Any:
        compat.switches.integer_bias_before_scale = True
        return first(code, who)

    descriptors._views.clear()
    described = Shape.vector(3).descriptor(capi.BNNSDataTypeInt8)
    with compat.using(integer_bias_before_scale=False):
        monkeypatch.setattr(descriptors, "element_type", meanwhile)
        assert not descriptors.resolve(described, "d").bias_before_scale
        monkeypatch.undo()
        assert descriptors.resolve(described, "d").bias_before_scale


def floats(count: int) -> NDArray[np.float32]:
    return np.arange(1, count + 1, dtype=np.float32)


def shrunk(work: Callable[..., Any], *changed: Any) -> Callable[..., Any]:
    """The same work while another thread has the vectors ``changed`` at half their size for a moment."""

    def meanwhile(*arguments: Any, **named: Any) -> Any:
        sizes = [descriptor.size.copy() for descriptor in changed]
        for descriptor in changed:
            descriptor.size = (descriptor.size[0] // 2,)
        try:
            return work(*arguments, **named)
        finally:
            for descriptor, size in zip(changed, sizes, strict=True):
                descriptor.size = size

    return meanwhile


@pytest.fixture(autouse=True)
def nothing_known() -> Iterator[None]:
    forget = getattr(engines._core, "forget_calls", lambda: None)
    forget()
    yield
    forget()  # what a failing test has spoilt


def test_a_known_call_is_what_was_done(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = Shape.vector(8).descriptor(data=floats(8)), Shape.vector(8).descriptor(data=np.zeros(8, np.float32))
    monkeypatch.setattr(c_moves._COPY, "work", shrunk(moves.copy, x, y))
    assert capi.BNNSCopy(y, x) == 0
    monkeypatch.undo()
    for _ in range(3):
        honest = np.zeros(8, np.float32)
        assert capi.BNNSCopy(Shape.vector(8).descriptor(data=honest), x) == 0
        assert honest.tolist() == floats(8).tolist()


def test_a_known_function_is_what_was_done(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = Shape.vector(8).descriptor(data=floats(8)), Shape.vector(8).descriptor(data=np.zeros(8, np.float32))
    monkeypatch.setattr(moves, "copy", shrunk(moves.copy, x, y))
    assert bn.copy(x, y) is y
    monkeypatch.undo()
    for _ in range(3):
        honest = np.zeros(8, np.float32)
        bn.copy(x, Shape.vector(8).descriptor(data=honest))
        assert honest.tolist() == floats(8).tolist()


def test_an_array_that_changes_its_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    """The key has the shape that was worked on."""
    x = floats(6).reshape(2, 3).copy()
    first = moves.transpose

    def meanwhile(*arguments: Any) -> None:
        first(*arguments)
        x.resize((3, 2), refcheck=False)

    monkeypatch.setattr(moves, "transpose", meanwhile)
    assert bn.transpose(x).tolist() == [[1, 4], [2, 5], [3, 6]]
    monkeypatch.undo()
    for _ in range(3):
        assert bn.transpose(x).tolist() == [[1, 3, 5], [2, 4, 6]]


def test_a_known_reduction_is_what_was_done(monkeypatch: pytest.MonkeyPatch) -> None:
    def sum_of(data: NDArray[np.float32]) -> tuple[Any, NDArray[np.float32]]:
        total = np.zeros(1, np.float32)
        return capi.BNNSLayerParametersReduction(
            i_desc=Shape.vector(8).descriptor(data=data), o_desc=Shape.vector(1).descriptor(data=total),
            reduce_func=capi.BNNSReduceFunctionSum,
        ), total  # fmt: skip

    p, total = sum_of(floats(8))
    apply = reduction.Reduction.__init__
    monkeypatch.setattr(reduction.Reduction, "__init__", shrunk(apply, p.i_desc))
    assert capi.BNNSDirectApplyReduction(p) == 0
    assert total.tolist() == [36]
    monkeypatch.undo()
    for _ in range(3):
        p, total = sum_of(floats(8))
        assert capi.BNNSDirectApplyReduction(p) == 0
        assert total.tolist() == [36]


def test_a_known_lstm_is_what_was_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A struct that changes after the call and before it is remembered."""
    case = next(case for case in lstm.CASES if case.batch_sizes is None and not case.dropout)
    run = lstm.LstmRun(case)
    p, register = run.params, LSTM.register

    def meanwhile(self: LSTM, *arguments: Any) -> None:
        p.seq_len += 1
        register(self, *arguments)
        p.seq_len -= 1

    expected = run.forward()
    engines._core.forget_lstm()
    monkeypatch.setattr(LSTM, "register", meanwhile)
    run.forward()
    monkeypatch.undo()
    kept = {index: values.copy() for index, values in run.forward().items()}
    for index, values in expected.items():
        np.testing.assert_array_equal(kept[index], values)
    # One more step than there is memory for: were its key known, the call would be done, with a step too few.
    p.seq_len += 1
    try:
        assert capi.BNNSDirectApplyLSTMBatchTrainingCaching(p, None, None, 0) != 0
    finally:
        p.seq_len -= 1


def test_a_filter_is_made_of_what_was_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    p = capi.BNNSLayerParametersPooling(
        i_desc=Shape.image_chw(4, 4, 1).descriptor(), o_desc=Shape.image_chw(2, 2, 1).descriptor(),
        pooling_function=capi.BNNSPoolingFunctionMax, k_width=2, k_height=2, x_stride=2, y_stride=2,
    )  # fmt: skip
    check = pooling.check_window

    def meanwhile(*arguments: Any) -> None:
        check(*arguments)
        p.k_width = p.k_height = 50

    monkeypatch.setattr(pooling, "check_window", meanwhile)
    f, y = capi.BNNSFilterCreateLayerPooling(p), np.zeros(4, np.float32)
    assert capi.BNNSFilterApply(f, floats(16), y) == 0
    assert y.tolist() == [6, 8, 14, 16]


@contextmanager
def toggling(*descriptors: Any) -> Iterator[None]:
    """Another thread that changes the sizes of vectors as often as it can."""
    done = threading.Event()

    def toggle() -> None:
        while not done.is_set():
            for size in (4, 8):
                for descriptor in descriptors:
                    descriptor.size[0] = size

    thread = threading.Thread(target=toggle)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def test_calls_beside_a_changing_descriptor() -> None:
    """Calls with a descriptor of their own are right while two threads change a shared one."""
    x, y = Shape.vector(8).descriptor(data=floats(8)), Shape.vector(8).descriptor(data=np.zeros(8, np.float32))
    forget = getattr(engines._core, "forget_calls", lambda: None)
    with toggling(x, y):
        for _ in range(300):
            forget()
            descriptors._views.clear()
            capi.BNNSCopy(y, x)  # which fails when it finds two sizes
            for size in (8, 4):
                honest = np.zeros(size, np.float32)
                source = Shape.vector(size).descriptor(data=floats(size))
                assert capi.BNNSCopy(Shape.vector(size).descriptor(data=honest), source) == 0
                assert honest.tolist() == floats(size).tolist()


def test_calls_recorded_before_a_switch_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that was under way when a switch was set is not known afterwards."""
    if engines._core is None:
        pytest.skip("needs the compiled core")
    keep = _calls.recorded

    def meanwhile(known: Any, key: Any, work: Any, constants: Any = None) -> Any:
        def changed(*own: Any) -> Any:
            result = work(*own)
            compat.switches.minmax_tie_split = compat.switches.minmax_tie_split
            return result

        return keep(known, key, changed, constants)

    x, y = Shape.vector(8).descriptor(data=floats(8)), Shape.vector(8).descriptor(data=np.zeros(8, np.float32))
    with monkeypatch.context() as patched:
        patched.setattr(_calls, "recorded", meanwhile)
        assert capi.BNNSCopy(y, x) == 0
    assert c_moves._COPY.calls.run(y, x, None) is None
    assert capi.BNNSCopy(y, x) == 0
    assert c_moves._COPY.calls.run(y, x, None) is not None
