"""last_error() belongs to the latest call of this thread: a failure has its message there, a success has none."""

from __future__ import annotations

import doctest
import importlib
import inspect
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import openbnns as ob
from bad_calls import refused
from openbnns import Shape, capi, engines, errors
from openbnns.calls.form import form
from openbnns.errors import Problem

APPLY = form("apply", "batch_size in in_stride out out_stride")

PLANTED = "planted: an earlier call failed"
FUNCTIONS = sorted(
    name
    for name in capi.__all__
    if name.startswith("BNNS") and type(getattr(capi, name)).__name__ == "function" and not name.endswith("_v2")
)
CLEANING = {
    "BNNSFilterDestroy", "BNNSDestroyNearestNeighbors", "BNNSDestroyRandomGenerator", "BNNSGraphCompileOptionsDestroy",
    "BNNSGraphContextDestroy",
}  # fmt: skip
UNSET = {"BNNSGraphCompileOptionsGetOutputFD", "BNNSGraphCompileOptionsGetOutputPath"}
"""Functions that return -1 or NULL for what has not been set."""
WITHOUT_RESULT = UNSET | {
    name for name in FUNCTIONS if str(inspect.signature(getattr(capi, name)).return_annotation) == "None"
}


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "openbnns")


def plant() -> None:
    errors.record(Problem(PLANTED))
    assert ob.last_error() == PLANTED


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The names of functions that were called, each after an earlier failure whose message must not survive it."""
    names: list[str] = []

    def watched(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            plant()
            result = function(*arguments, **named)
            if name in CLEANING:
                assert ob.last_error() == PLANTED, f"{name} hides why an earlier call failed"
            else:
                assert ob.last_error() != PLANTED, f"{name} is not the latest call"
                failed = result is None or (type(result) is int and (result < 0 or result == 2**64 - 1))
                if failed and name not in WITHOUT_RESULT:
                    assert str(ob.last_error()).startswith(name)
                elif type(result) is int and result > 0:
                    assert ob.last_error() is None, name
            names.append(name)
            return result

        return call

    for name in FUNCTIONS:
        monkeypatch.setitem(vars(capi), name, watched(name, getattr(capi, name)))
    yield names


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function(name: str, engine: str, called: list[str]) -> None:
    """The example of its docstring, three times: later calls may be known ones, which native code repeats."""
    home = importlib.import_module(getattr(capi, name).__closure__[0].cell_contents.__module__)
    test = doctest.DocTestFinder(recurse=False).find(getattr(home, name), name, module=home)[0]
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS, verbose=False)
    for _ in range(3):
        assert runner.run(test, clear_globs=False).failed == 0
    assert called.count(name) >= 3 or name == "BNNSFilterDestroy"


def relu(n: int = 3) -> Any:
    v = Shape.vector(n).descriptor
    function = capi.BNNSActivation(function=capi.BNNSActivationFunctionRectifiedLinear)
    return capi.BNNSFilterCreateLayerActivation(
        capi.BNNSLayerParametersActivation(i_desc=v(), o_desc=v(), activation=function)
    )


def test_one_after_the_other() -> None:
    f, x, y = relu(), np.ones(3, np.float32), np.zeros(3, np.float32)
    for _ in range(3):
        refused(capi.BNNSFilterApply(f, x, y[:2]), "BNNSFilterApply: out")
        assert "BNNSFilterApply: out" in str(ob.last_error())  # reading changes nothing
        assert capi.BNNSFilterApply(f, x, y) == 0
        assert ob.last_error() is None


def test_the_fast_call_clears_it() -> None:
    """Without any Python code in between."""
    f, x, y = relu(), np.ones(3, np.float32), np.zeros(3, np.float32)
    plant()
    assert f.native(APPLY)(1, x, 0, y, 0) == 0
    assert ob.last_error() is None
    plant()
    assert f.native(APPLY)(1, x, 0, y[:2], 0) == 1  # declined
    assert ob.last_error() == PLANTED


def test_threads_have_their_own() -> None:
    f, x = relu(), np.ones(3, np.float32)
    messages: list[Any] = []

    def other() -> None:
        messages.append(ob.last_error())
        capi.BNNSFilterApply(f, x, np.zeros(3, np.float32))
        messages.append(ob.last_error())
        capi.BNNSFilterApply(None, None, None)
        messages.append(ob.last_error())

    plant()
    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert messages[:2] == [None, None]
    assert "filter is NULL" in messages[2]
    assert ob.last_error() == PLANTED


def test_without_a_compiled_core(monkeypatch: pytest.MonkeyPatch) -> None:
    with ob.engine("reference"):
        monkeypatch.setattr(engines, "_core", None)
        plant()
        assert capi.BNNSDataLayoutGetRank(capi.BNNSDataLayoutVector) == 1
        assert ob.last_error() is None
        plant()
        monkeypatch.undo()


@pytest.mark.parametrize("value", [True, False, np.True_, np.False_], ids=repr)
def test_truth_values_are_no_addresses(value: Any) -> None:
    for change in (
        lambda: capi.BNNSNDArrayDescriptor(layout=capi.BNNSDataLayoutVector, size=[1], data=value),
        lambda: setattr(capi.BNNSNDArrayDescriptor(), "data", value),
        lambda: setattr(capi.BNNSNDArrayDescriptor(), "table_data", value),
        lambda: capi.BNNSLayerData(data=value),
    ):
        with pytest.raises(TypeError, match=r"data.*expected memory, an address or None, got \w+ .*(True|False)"):
            change()
    f, x = relu(1), np.ones(1, np.float32)
    for arguments in ((value, x), (x, value)):
        with pytest.raises(TypeError, match=r"is of type (bool|bool_)\. Pass an object with a buffer"):
            capi.BNNSFilterApply(f, *arguments)
    with pytest.raises(TypeError, match="is of type bool"):
        capi.BNNSRandomGeneratorGetState(
            capi.BNNSCreateRandomGenerator(capi.BNNSRandomGeneratorMethodAES_CTR), 24, value
        )
