"""Calls without the interpreter, as C programs make them: same results and same refusals as native calls from Python."""

from __future__ import annotations

import os
import signal
import struct
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import MethodType
from typing import Any

import numpy as np
import pytest

import openbnns as bn
import raw
from cases import ALL, FAMILIES, loss, lstm, normalization
from cases._base import parameters, succeed
from cases.attention import AttentionCase, AttentionRun
from helpers import assert_bitwise
from openbnns import capi, engines
from openbnns.capi import numbers

DRIVES = [name for name in dir(capi) if isinstance(getattr(getattr(capi, name), "number", None), MethodType)]


@contextmanager
def replaced(attempt: Callable[[str, Any, tuple[Any, ...]], int]) -> Iterator[list[int]]:
    """Lets ``attempt`` make the calls that drive filters; those that it declines take the checked way."""
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
        found = run()
    assert codes == expected_codes, f"{what}: 0 where the call is done, 1 where it is declined"
    for name, numbers_ in expected.items():
        assert_bitwise(found[name], numbers_, f"{what}: {name}")
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


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(11)


def test_random_batches_and_strides(rng: np.random.Generator) -> None:
    for _ in range(60):
        inputs, outputs, batch = (int(n) for n in rng.integers(1, 20, 3))
        filter = layer(inputs, outputs, rng)
        strides = [int(size + rng.integers(0, 4)) for size in (inputs, outputs)]
        x = rng.normal(size=(batch, strides[0])).astype(np.float32)
        found, expected = (np.full((batch, strides[1]), 7, np.float32) for _ in range(2))
        succeed(capi.BNNSFilterApplyBatch(filter, batch, x, strides[0], expected, strides[1]))
        assert raw.drive("BNNSFilterApplyBatch", filter, batch, x, strides[0], found, strides[1]) == 0
        assert_bitwise(found, expected, f"{inputs} -> {outputs}, batch {batch}, strides {strides}")


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
        done = 0
        while not stop.is_set():
            y[:] = 0
            if raw.run(number, words.words, words.count) != 0 or not np.array_equal(y, expected):
                wrong.append("the shared filter")
            if short_lived:
                done += raw.run(short_lived[-1], other.words, other.count) == 0
        counts.append(done)

    counts: list[int] = []
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(150):
        filter = layer(40, 30, rng)
        short_lived.append(numbers.of_filter("BNNSFilterApplyBatch", filter))
        for _ in range(3):
            succeed(capi.BNNSFilterApplyBatch(filter, 8, x, 0, np.zeros((8, 30), np.float32), 0))
        filter.destroy()
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong and sum(counts) > 0, (wrong, counts)


def test_the_table_has_a_version() -> None:
    assert raw.table().version == 1
    assert type(engines._core.raw_calls).__name__ == "PyCapsule"


# Functions without a filter: Python makes the first call, and its number repeats it on other memory.

CODES = {"float32": capi.BNNSDataTypeFloat32, "int32": capi.BNNSDataTypeInt32, "bool": capi.BNNSDataTypeBoolean}


def described(array: Any, address: bool = False, **fields: Any) -> Any:
    descriptor = bn.Shape(array.shape).descriptor(CODES[array.dtype.name], array)
    if address:
        descriptor.data = array.ctypes.data
    for name, value in fields.items():
        setattr(descriptor, name, value)
    return descriptor


def floats(rng: np.random.Generator, *size: int) -> Any:
    return rng.normal(size=size).astype(np.float32)


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


# LSTM.


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


def test_lstm_declines(rng: np.random.Generator) -> None:
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


# Optimizers.


def optimizer_arrays(rng: np.random.Generator, roles: int) -> list[list[Any]]:
    sizes = [(3, 4), (5,), (1,), (2, 3, 2)]
    groups = [[floats(rng, *size) for size in sizes] for _ in range(2)]
    return [*groups, [np.abs(floats(rng, *size)) for _ in range(roles) for size in sizes]]


FIELDS: list[tuple[int, Any, int]] = [
    (1, capi.BNNSOptimizerSGDMomentumFields(learning_rate=0.1, momentum=0.9, gradient_scale=0.5, nesterov=True), 1),
    (1, capi.BNNSOptimizerSGDMomentumFields(learning_rate=0.1, gradient_scale=1), 0),
    (
        2,
        capi.BNNSOptimizerAdamFields(
            learning_rate=0.01, beta1=0.9, beta2=0.99, time_step=3, epsilon=1e-8, gradient_scale=1,
            clip_gradients=True, clip_gradients_min=-0.5, clip_gradients_max=0.75,
        ),
        2,
    ),
    (
        3,
        capi.BNNSOptimizerRMSPropFields(
            learning_rate=0.01, alpha=0.9, epsilon=1e-6, centered=True, momentum=0.5, gradient_scale=1,
            regularization_scale=0.1, regularization_func=capi.BNNSOptimizerRegularizationL2,
        ),
        3,
    ),
    (
        11,
        capi.BNNSOptimizerAdamWithClippingFields(
            learning_rate=0.01, beta1=0.9, beta2=0.99, time_step=1, epsilon=1e-8, gradient_scale=1,
            clipping_func=capi.BNNSOptimizerClippingByNorm, clip_gradients_max_norm=0.5,
        ),
        3,
    ),
]  # fmt: skip


def c_fields(fields: Any) -> bytes:
    """The struct as C lays it out: each field aligned for its type."""
    kinds = {bool: ("?", 1), float: ("f", 4)}
    packed = b""
    for name in fields._kinds:
        value = getattr(fields, name)
        letter, size = kinds.get(type(value), ("I", 4))
        packed += bytes(-len(packed) % size) + struct.pack(letter, value if letter != "I" else int(value))
    return packed + bytes(-len(packed) % 4)


@pytest.mark.parametrize(("function", "fields", "roles"), FIELDS)
def test_optimizers(function: int, fields: Any, roles: int, rng: np.random.Generator) -> None:
    engines._core.forget_optimizers()
    bn.compat.adam_epsilon_torch = False  # which drops the rules that Python keeps
    fields = fields.copy()
    step = capi.BNNSOptimizerStep
    arrays = optimizer_arrays(rng, roles)
    twins = [[array.copy() for array in group] for group in arrays]

    def given(groups: list[list[Any]]) -> list[Any]:
        return [len(groups[0]), *([described(array) for array in group] or None for group in groups), None]

    packed = np.frombuffer(c_fields(fields), np.uint8)
    assert raw.call(numbers.of_function("BNNSOptimizerStep"), function, packed, *given(arrays)) == 1, "not known"
    assert step(function, fields, *given(arrays)) == 0, bn.last_error()
    assert step(function, fields, *given(twins)) == 0
    number = numbers.of_function("BNNSOptimizerStep")
    for turn in range(3):
        if hasattr(fields, "time_step"):
            fields.time_step += 1
        packed = np.frombuffer(c_fields(fields), np.uint8)
        assert raw.call(number, function, packed, *given(arrays)) == 0
        assert step(function, fields, *given(twins)) == 0
        for group, twin in zip(arrays, twins, strict=True):
            for array, expected in zip(group, twin, strict=True):
                assert_bitwise(array, expected, f"{fields}, step {turn}")
    before = [array.copy() for group in arrays for array in group]
    w, g = arrays[0], arrays[1]
    descriptors = given(arrays)
    short = [described(array) for array in w[:1]]
    wrong: list[list[Any]] = [
        [4, None, *descriptors[2:]],
        [4, descriptors[1], None, *descriptors[3:]],
        [1, short, short, descriptors[3], None],  # shared memory
        [1, short, [described(g[1])], descriptors[3], None],  # another shape
        [1, [described(w[0], stride=[1, 8, 0, 0, 0, 0, 0, 0])], [described(g[0])], descriptors[3], None],
        [1, [None], [described(g[0])], descriptors[3], None],
        [2**40, *descriptors[1:]],
    ]
    if roles:
        wrong.append([4, *descriptors[1:3], None, None])
    for arguments in wrong:
        assert raw.call(number, function, packed, *arguments) == 1
    if hasattr(fields, "time_step"):
        fields.time_step = 0
        assert raw.call(number, function, np.frombuffer(c_fields(fields), np.uint8), *descriptors) == 1
    for array, old in zip((array for group in arrays for array in group), before, strict=True):
        assert_bitwise(array, old, "what a declined step leaves")
    with bn.engine("reference"):
        assert raw.call(number, function, packed, *descriptors) == 1


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
