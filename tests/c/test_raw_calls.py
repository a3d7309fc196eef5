"""Calls of filters without the interpreter, as C programs make them: same results and same refusals as from Python."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import MethodType
from typing import Any

import numpy as np
import pytest

import openbnns as bn
import raw
from cases import ALL, FAMILIES, loss, normalization
from cases._base import parameters, succeed
from cases.attention import AttentionCase, AttentionRun
from helpers import assert_bitwise
from openbnns import capi, engines
from openbnns.capi import numbers
from raw import floats

DRIVES = [name for name in dir(capi) if isinstance(getattr(getattr(capi, name), "number", None), MethodType)]


@contextmanager
def replaced(attempt: Callable[[str, Any, tuple[Any, ...]], int]) -> Iterator[list[int]]:
    """Let ``attempt`` make the calls that drive filters; those that it declines take the checked way."""
    codes: list[int] = []

    def replacement(name: str, entry: Any) -> Callable[..., int]:
        def call(filter: Any, *arguments: Any, **named: Any) -> int:
            arguments = arguments if not named else entry.in_order(arguments, named)
            codes.append(attempt(name, filter, arguments))
            return 0 if codes[-1] == 0 else int(entry.checked(filter, arguments, {}))

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in DRIVES:
            patch.setattr(capi, name, replacement(name, getattr(capi, name).number.__self__))
        yield codes


def by_python(name: str, filter: Any, arguments: tuple[Any, ...]) -> int:
    """The native call as Python makes it."""
    return int(filter.native(ORIGINALS[name].number.__self__.arguments)(*arguments))


def by_number(name: str, filter: Any, arguments: tuple[Any, ...]) -> int:
    return raw.call(ORIGINALS[name].number(filter), *arguments)


ORIGINALS = {name: getattr(capi, name) for name in DRIVES}


def same(run: Callable[[], dict[str, Any]], what: str) -> list[int]:
    """The codes of a run's calls, which are the same in both ways, as are its results."""
    with replaced(by_python) as expected_codes:
        expected = run()
    with replaced(by_number) as codes:
        actual = run()
    assert codes == expected_codes, f"{what}: 0 where the call is done, 1 where it is declined"
    for name, numbers_ in expected.items():
        assert_bitwise(actual[name], numbers_, f"{what}: {name}")
    return codes


def forward_and_backward(case: Any) -> list[int]:
    """All gradients, all added to others, one alone; with guards around everything."""
    values = case.values()

    def run() -> dict[str, Any]:
        run = case.run(values)
        results = {"y": run.forward()}
        if case.trains:
            gradients = run.backward()
            results |= {name: storage.raw() for name, storage in gradients.items()}
            ones = {name: np.ones_like(storage.read()) for name, storage in gradients.items()}
            added = run.backward(old=ones)
            results |= {f"1 + {name}": storage.raw() for name, storage in added.items()}
            some = list(gradients)[:1]
            results |= {f"{name} alone": storage.raw() for name, storage in run.backward(wanted=some).items()}
            for name, storage in (gradients | added | run.inputs).items():
                storage.assert_guards_intact(name)
        run.y.assert_guards_intact("y")
        return results

    return same(run, case.id)


@pytest.mark.parametrize("case", parameters(ALL))
def test_every_filter(case: Any) -> None:
    forward_and_backward(case)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__.rpartition(".")[2])
def test_every_family_is_called_without_python(family: Any) -> None:
    assert any(0 in forward_and_backward(case) for case in family.CASES)


def test_the_way_from_python_is_one_function_long() -> None:
    """Nothing is chosen, copied or unpacked in Python: of a native call, Python runs the function itself and no more."""
    frames: dict[str, list[str]] = {}

    def counted(name: str, filter: Any, arguments: tuple[Any, ...]) -> int:
        seen: list[str] = []
        if by_python(name, filter, arguments) != 0:
            return 1
        sys.setprofile(lambda frame, event, _: seen.append(frame.f_code.co_name) if event == "call" else None)
        try:
            ORIGINALS[name](filter, *arguments)
        finally:
            sys.setprofile(None)
        frames[name] = seen
        return 0

    with replaced(counted):
        for family in FAMILIES:
            for case in family.CASES[:40:3]:
                run = case.run(case.values())
                run.forward()
                if case.trains:
                    run.backward()
        normalization.NormalizationRun(normalization.CASES[0], normalization.CASES[0].values()).forward(True)
        case = AttentionCase()
        attention = AttentionRun(case, case.values())
        cache = attention.new_cache()
        attention.forward(cache)
        attention.backward(attention.results(case.gradients), cache)
    assert {
        "BNNSArithmeticFilterApplyBatch", "BNNSNormalizationFilterApplyBatch", "BNNSPoolingFilterApplyBatch",
        "BNNSFusedFilterApplyMultiInputBatch", "BNNSApplyMultiheadAttention", "BNNSApplyMultiheadAttentionBackward",
    } <= set(frames)  # fmt: skip
    assert {name: seen for name, seen in frames.items() if seen != ["call"]} == {}


@pytest.mark.parametrize("case", normalization.CASES[::7], ids=lambda case: case.id)
def test_normalization_chooses_training(case: Any) -> None:
    values = case.values()

    def run() -> dict[str, Any]:
        run = normalization.NormalizationRun(case, values)
        wanted = tuple(name for name, of in (("dbeta", case.beta), ("dgamma", case.gamma)) if of is not None)
        results = {"inference": run.forward(False), "training": run.forward(True)}
        results |= {name: storage.raw() for name, storage in run.backward(("dx", *wanted)).items()}
        return results | {f"moving {i}": moving for i, moving in enumerate(run.moving())}

    same(run, case.id)


@pytest.mark.parametrize("case", loss.CASES[::5], ids=lambda case: case.id)
def test_losses_with_and_without_weights(case: Any) -> None:
    values = case.values()

    def run() -> dict[str, Any]:
        run = loss.LossRun(case, values)
        out, dx = run.forward()
        assert dx is not None
        return {"loss": out.raw(), "dx": dx.raw(), "loss alone": run.forward(gradient=False)[0].raw()}

    same(run, case.id)


# A filter to make mistakes with.


def layer(inputs: int, outputs: int, rng: np.random.Generator, **options: Any) -> Any:
    w, b = (rng.normal(size=size).astype(np.float32) for size in ((outputs, inputs), (outputs,)))
    vector = bn.Shape.vector
    filter = capi.BNNSFilterCreateLayerFullyConnected(
        capi.BNNSLayerParametersFullyConnected(
            i_desc=vector(inputs).descriptor(), o_desc=vector(outputs).descriptor(), bias=vector(outputs).descriptor(data=b),
            w_desc=bn.Shape([outputs, inputs]).descriptor(data=w), **options,
        )
    )  # fmt: skip
    assert filter is not None, bn.last_error()
    return filter


def flagged(shape: Any, data: Any, flags: int) -> Any:
    descriptor = shape.descriptor(data=data)
    descriptor.flags = flags
    return descriptor


def test_random_batches_and_strides(rng: np.random.Generator) -> None:
    for _ in range(60):
        inputs, outputs, batch = (int(n) for n in rng.integers(1, 20, 3))
        filter = layer(inputs, outputs, rng)
        strides = [int(size + rng.integers(0, 4)) for size in (inputs, outputs)]
        x = rng.normal(size=(batch, strides[0])).astype(np.float32)
        actual, expected = (np.full((batch, strides[1]), 7, np.float32) for _ in range(2))
        succeed(capi.BNNSFilterApplyBatch(filter, batch, x, strides[0], expected, strides[1]))
        assert raw.drive("BNNSFilterApplyBatch", filter, batch, x, strides[0], actual, strides[1]) == 0
        assert_bitwise(actual, expected, f"{inputs} -> {outputs}, batch {batch}, strides {strides}")


def test_what_is_wrong_is_declined_and_changes_nothing(rng: np.random.Generator) -> None:
    filter = layer(5, 3, rng)
    x, dy = rng.normal(size=(2, 5)).astype(np.float32), rng.normal(size=(2, 3)).astype(np.float32)
    dw, db = np.full((3, 5), 7, np.float32), np.full(3, 7, np.float32)
    y = np.full((2, 3), 7, np.float32)
    shape, vector = bn.Shape, bn.Shape.vector

    def backward(**changes: Any) -> int:
        given: dict[str, Any] = {
            "batch": 2, "x": x, "dy": vector(3).descriptor(data=dy), "dw": shape([3, 5]).descriptor(data=dw),
            "db": vector(3).descriptor(data=db), "y": None, "dx": None,
        }  # fmt: skip
        g = given | changes
        return raw.drive(
            "BNNSFilterApplyBackwardBatch", filter, g["batch"], g["x"], 0, g["dx"], 0, g["y"], 0, g["dy"], 0, g["dw"],
            g["db"],
        )  # fmt: skip

    mistakes: list[dict[str, Any]] = [
        {"x": None},  # dw needs it
        {"dy": None},
        {"dy": vector(3).descriptor()},  # no data
        {"dy": vector(4).descriptor(data=dy)},
        {"dw": shape([5, 3]).descriptor(data=dw)},
        {"dw": flagged(shape([3, 5]), dw, 2)},
        {"db": vector(3).descriptor(data=dw)},  # overlaps dw
        {"dw": shape([3, 5]).descriptor(data=x)},  # written and read
        {"db": vector(3).descriptor(data=dw, data_type=capi.BNNSDataType.BNNSDataTypeFloat16)},
        {"dw": None, "db": None},  # nothing to do
        {"batch": 0},
        {"batch": 2**63},
        {"x": 64},  # no address
        {"x": x.ctypes.data + 1},  # not aligned
    ]
    for mistake in mistakes:
        assert backward(**mistake) == 1, mistake
    apply = "BNNSFilterApplyBatch"
    for wrong in ((2, x, 0, y, 2), (2, x, 0, y), (2, x, 0, y, 0, 0), (2, None, 0, y, 0), (2, x, 0, None, 0), ()):
        assert raw.drive(apply, filter, *wrong) == 1, wrong
    assert raw.drive("BNNSFilterApplyTwoInput", filter, x, x, y) == 1, "a function for other filters"
    assert (dw == 7).all() and (db == 7).all() and (y == 7).all()
    assert backward() == 0
    assert not (dw == 7).any() and not (db == 7).any()


def test_accumulate_flags_are_those_of_each_descriptor(rng: np.random.Generator) -> None:
    filter = layer(4, 3, rng)
    x, dy = rng.normal(size=(3, 4)).astype(np.float32), rng.normal(size=(3, 3)).astype(np.float32)
    old = {"dx": (3, 4), "dw": (3, 4), "db": (3,)}
    for adds in np.ndindex(2, 2, 2):
        results = []
        for drive in (raw.drive, lambda name, *arguments: getattr(capi, name)(*arguments)):
            g = {name: np.full(size, 0.5, np.float32) for name, size in old.items()}
            assert drive(
                "BNNSFilterApplyBackwardBatch", filter, 3, x, 0, flagged(bn.Shape.vector(4), g["dx"], adds[0]), 0,
                None, 0, bn.Shape.vector(3).descriptor(data=dy), 0, flagged(bn.Shape([3, 4]), g["dw"], adds[1]),
                flagged(bn.Shape.vector(3), g["db"], adds[2]),
            ) == 0  # fmt: skip
            results.append(g)
        for name in old:
            assert_bitwise(results[0][name], results[1][name], f"{name}, flags {adds}")


# Lives of filters, and what else decides.


def test_a_destroyed_filter_declines(rng: np.random.Generator) -> None:
    x, y = np.ones(6, np.float32), np.zeros(2, np.float32)
    filters = [layer(6, 2, rng) for _ in range(5)]
    known = [numbers.of_filter("BNNSFilterApply", filter) for filter in filters]
    assert len(set(known)) == 5 and 0 not in known
    for filter, number in zip(filters, known, strict=True):
        assert raw.call(number, x, y) == 0
        capi.BNNSFilterDestroy(filter)
        y[:] = 7
        assert raw.call(number, x, y) == 1 and (y == 7).all()
        assert numbers.of_filter("BNNSFilterApply", filter) == 0
    again = layer(6, 2, rng)
    assert numbers.of_filter("BNNSFilterApply", again) not in known, "a number comes once"
    for number in (*known, 0, 1, 2**64 - 1, 12345 << 24):
        assert raw.call(number, x, y) == 1


def test_chosen_variants_end_with_their_filter(rng: np.random.Generator) -> None:
    case = next(case for case in normalization.CASES if case.batch > 1)
    run = normalization.NormalizationRun(case, case.values())
    number = numbers.of_filter("BNNSNormalizationFilterApplyBatch", run.filter)
    arguments = (case.batch, run.x.elements, run.x.stride, run.y.elements, run.y.stride)
    expected = {
        training: by_python("BNNSNormalizationFilterApplyBatch", run.filter, (*arguments, training))
        for training in (False, True)
    }
    assert 0 in expected.values()
    for training, code in expected.items():
        assert raw.call(number, *arguments, training) == code
    assert raw.call(number, *arguments, 2) == 1, "no such variant"
    run.filter.destroy()
    assert raw.call(number, *arguments, True) == 1


def test_engines_and_strict_mode_decline(rng: np.random.Generator) -> None:
    filter = layer(6, 2, rng)
    x, y = np.ones(6, np.float32), np.zeros(2, np.float32)
    number = numbers.of_filter("BNNSFilterApply", filter)
    with bn.engine("reference"):
        assert raw.call(number, x, y) == 1
    with bn.strict():
        assert raw.call(number, x, y) == 1
    assert raw.call(number, x, y) == 0


def test_success_clears_the_latest_error(rng: np.random.Generator) -> None:
    filter = layer(6, 2, rng)
    x, y = np.ones(6, np.float32), np.zeros(2, np.float32)
    number = numbers.of_filter("BNNSFilterApply", filter)
    assert capi.BNNSFilterApply(filter, None, y) == -1
    assert raw.call(number, None, y) == 1 and bn.last_error() is not None, "declining says nothing about the call"
    assert raw.call(number, x, y) == 0 and bn.last_error() is None


def test_many_threads_at_once(rng: np.random.Generator) -> None:
    """Filters that are shared, and filters that another thread destroys: done with the right numbers, or declined."""
    shared, x = layer(40, 30, rng), rng.normal(size=(8, 40)).astype(np.float32)
    expected = np.zeros((8, 30), np.float32)
    succeed(capi.BNNSFilterApplyBatch(shared, 8, x, 0, expected, 0))
    number = numbers.of_filter("BNNSFilterApplyBatch", shared)
    short_lived: list[int] = []
    wrong: list[str] = []
    stop = threading.Event()

    def work() -> None:
        y = np.zeros((8, 30), np.float32)
        words, other = raw.Words(8, x, 0, y, 0), raw.Words(8, x, 0, np.zeros((8, 30), np.float32), 0)
        while not stop.is_set():
            y[:] = 0
            if raw.run(number, words.words, words.count) != 0 or not np.array_equal(y, expected):
                wrong.append("the shared filter")
            if short_lived and raw.run(short_lived[-1], other.words, other.count) == 0:
                done.set()

    done, start = threading.Event(), time.monotonic()
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    rounds = 0
    while rounds < 150 or not (done.is_set() or time.monotonic() > start + 60):  # a busy machine may need more rounds
        rounds += 1
        filter = layer(40, 30, rng)
        short_lived.append(numbers.of_filter("BNNSFilterApplyBatch", filter))
        for _ in range(3):
            succeed(capi.BNNSFilterApplyBatch(filter, 8, x, 0, np.zeros((8, 30), np.float32), 0))
        filter.destroy()
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong
    assert done.is_set(), f"no thread ran a filter before it was destroyed, in {rounds} rounds"


def test_the_table_has_a_version() -> None:
    assert raw.table().version == 1
    assert type(engines._core.raw_calls).__name__ == "PyCapsule"


# Forks.


def test_a_filter_in_use_ends_in_a_forked_child(rng: np.random.Generator) -> None:
    """The threads that use it, by number and from Python, do not exist in the child."""
    filter = layer(400, 300, rng)
    x, y = floats(rng, 64, 400), np.zeros((64, 300), np.float32)
    number = numbers.of_filter("BNNSFilterApplyBatch", filter)
    words, stop = raw.Words(64, x, 0, y, 0), threading.Event()

    def by_number() -> None:
        while not stop.is_set():
            raw.run(number, words.words, words.count)

    def by_python() -> None:
        out = np.zeros((64, 300), np.float32)
        while not stop.is_set():
            capi.BNNSFilterApplyBatch(filter, 64, x, 0, out, 0)

    threads = [threading.Thread(target=work) for work in (by_number, by_python, by_python)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(10):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of forks beside threads
                child = os.fork()
            if child == 0:
                signal.alarm(60)
                filter.destroy()
                os._exit(0 if raw.run(number, words.words, words.count) == 1 else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()
