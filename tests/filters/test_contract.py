"""Promises of every filter: purity, linearity, repeatability, flags, missing arguments, memory that it may touch.

It runs on every family from its declared calls (trials.py): a new family needs a row in cases/contract.py. The same
promises for shapes that reach every kernel are in test_contract_cases.py.

Scratch memory is filled with NaN for the whole module, so that relying on what it held shows.
"""

from __future__ import annotations

import array
import ctypes
import importlib
import inspect
import os
import pkgutil
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

import openbnns
from cases import lstm
from cases._base import Row, succeed
from cases.contract import ROWS
from helpers import EPSILON, Array, Storage, assert_bitwise, assert_within
from openbnns import filters
from openbnns.calls.signature import Argument
from openbnns.capi._declared import DRIVERS
from openbnns.filters.base import Filter
from openbnns.filters.lstm import LSTM
from trials import Face, LstmTrial, Trial

pytestmark = pytest.mark.usefixtures("poisoned_scratch")

ENGINES = ["native", "reference"]
if os.environ.get("OPENBNNS_ISA"):  # the formulas do not depend on it
    ENGINES.remove("reference")
DECLARED = [row for row in ROWS if not row.id.startswith(("lstm", "crop_resize"))]

rows = pytest.mark.parametrize("row", [pytest.param(row, id=row.id) for row in ROWS])
declared = pytest.mark.parametrize("row", [pytest.param(row, id=row.id) for row in DECLARED])


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Iterator[str]:
    with openbnns.engine(request.param):
        yield request.param


def refused(status: int, results: Mapping[str, Storage], *names: str) -> str:
    """A call has failed, says whose fault it is, and has written nothing."""
    message = str(openbnns.last_error())
    assert status == -1, f"accepted: {names}"
    for name in names:
        assert name in message, f"{name!r} is not in: {message}"
    for name, storage in results.items():
        storage.assert_unchanged(name)
    return message


def same(results: Mapping[Any, Storage], expected: Mapping[Any, Array], what: str) -> None:
    for name, storage in results.items():
        assert_bitwise(storage.raw(), expected[name], f"{what}: {name}")
        storage.assert_guards_intact(f"{what}: {name}")


def stored(results: Mapping[Any, Storage]) -> dict[Any, Array]:
    return {name: storage.raw() for name, storage in results.items()}


# Every family has a contract.


def below(kind: type[Filter]) -> set[type[Filter]]:
    return {kind}.union(*(below(child) for child in kind.__subclasses__()))


def test_every_family_has_a_row() -> None:
    """A filter without a row here would promise nothing."""
    for module in pkgutil.iter_modules(filters.__path__):
        importlib.import_module(f"{filters.__name__}.{module.name}")
    ours = {kind for kind in below(Filter) if kind.__module__.startswith("openbnns.")}
    made = {kind for kind in ours if not kind.__subclasses__()}
    tried = {type(row.trial().filter) for row in DECLARED}
    assert any(isinstance(row.make(), LstmTrial) for row in ROWS)
    assert made == tried | {LSTM}


def test_every_declared_call_has_a_row() -> None:
    """Each function of C that drives filters is called on one at least."""
    called = {name for row in DECLARED for name, _ in filter(None, row.calls or row.trial().filter.driving_calls())}
    assert called >= set(DRIVERS)


# Purity: nothing but the results is written, and these are.


@rows
def test_only_results_are_written(row: Row, engine: str) -> None:
    """With gaps between the samples, and with gradients that are set and accumulated."""
    trial = row.trial(gap=5)
    trial.forward()
    for name, storage in trial.outputs.items():
        storage.assert_guards_intact(name)
        assert name == "backprop_cache" or np.isfinite(storage.read()).all(), f"{name} is not finite"
        storage.before = storage.memory.copy()
    for old in (
        None,
        {name: np.ones_like(g) for name, g in (stored(trial.backward()) if trial.gradients else {}).items()},
    ):
        results = trial.backward(old=old) if trial.gradients else {}
        for name, storage in (trial.inputs | trial.outputs | trial.arriving).items():
            storage.assert_unchanged(name)
        for name, storage in results.items():
            storage.assert_guards_intact(name)
            assert np.isfinite(storage.read()).all(), f"{name}: uninitialised memory, or a gap that was read"


# Linearity in what arrives.


def close(actual: Array, expected: Array, size: Any, what: str) -> None:
    """Rounding of float32 relative to the largest terms."""
    bound = 64 * EPSILON * float(np.abs(size).max(initial=0.0))
    assert_within(actual.astype(np.float64), expected.astype(np.float64), bound, what)


@pytest.mark.parametrize("row", [pytest.param(row, id=row.id) for row in ROWS if row.trial().gradients])
@pytest.mark.covers("core.grad.accumulate", "core.grad.set")
def test_backward_is_linear_and_accumulates(row: Row, engine: str) -> None:
    trial = row.trial()
    trial.forward()
    first, given = stored(trial.backward()), {name: s.raw() for name, s in trial.arriving.items()}
    random = np.random.default_rng(3)
    other = {name: random.standard_normal(v.shape).astype(np.float32) for name, v in given.items()}

    def backward_of(arriving: Mapping[Any, Array], old: Mapping[Any, Array] | None = None) -> dict[Any, Array]:
        for name, numbers in arriving.items():
            storage = trial.arriving[name]
            storage.elements[storage.places] = numbers
            storage.before = storage.memory.copy()
        return stored(trial.backward(old=old))

    for name, gradient in backward_of({n: 0 * v for n, v in given.items()}).items():
        assert not gradient.any(), f"{name} of zero"
    for name, gradient in backward_of({n: 2 * v for n, v in given.items()}).items():
        expected = np.float32(2.0) * first[name]
        normal = np.abs(expected) >= 2.0**-120  # products of smaller ones are rounded twice
        assert_bitwise(gradient[normal], expected[normal], f"{name} of twice as much")
    second, total = backward_of(other), backward_of({n: given[n] + other[n] for n in given})
    largest = max(float(np.abs(g).max()) for g in (*first.values(), *second.values()))  # one may be rounding alone
    for name, gradient in total.items():
        close(gradient, first[name] + second[name], largest, f"{name} of a sum")
    old = {name: random.standard_normal(g.shape).astype(np.float32) for name, g in first.items()}
    for name, gradient in backward_of(given, old).items():
        close(gradient, first[name] + old[name], largest + np.abs(old[name]), f"{name} accumulated")


# Repeatability.


@rows
@pytest.mark.covers("core.params.threads")
def test_repeats_and_threads_give_the_same_bits(row: Row) -> None:
    trial = row.trial()
    expected: dict[Any, Array] | None = None
    for threads in (0, 0, 1, 2, 3, 64):
        trial.set_threads(threads)
        if row.draws:
            trial.filter.draws = 0
        results = trial.forward()
        results.pop("backprop_cache", None)
        if trial.gradients:
            results |= {("gradient", name): g for name, g in stored(trial.backward()).items()}
        expected = results if expected is None else expected
        for name, numbers in results.items():
            assert_bitwise(numbers, expected[name], f"{name} with {threads} threads")


@pytest.mark.parametrize("row", [pytest.param(row, id=row.id) for row in DECLARED if not row.couples_samples])
@pytest.mark.covers("core.grad.batch_sum")
def test_a_batch_is_its_samples(row: Row, engine: str) -> None:
    """Samples one at a time give the batch; gradients of parameters add up."""
    whole, single = row.trial(), row.trial(batch=1)
    whole.forward()
    gradients, sums = whole.backward() if whole.gradients else {}, dict[str, Array]()
    for n in range(whole.batch):
        for name, storage in (single.inputs | single.arriving).items():
            source = (whole.inputs | whole.arriving)[name]
            sample = slice(n, n + 1) if source.batch > 1 else slice(None)
            storage.elements[storage.places] = source.elements[source.places[sample]]
        single.forward()
        for name, storage in single.outputs.items():
            if name != "backprop_cache":
                expected = whole.outputs[name].read()[n : n + 1]
                close(storage.read(), expected, whole.outputs[name].read(), f"{name}[{n}]")
        for name, storage in (single.backward() if gradients else {}).items():
            if gradients[name].batch > 1:
                expected = gradients[name].read()
                close(storage.read(), expected[n : n + 1], expected, f"{name}[{n}]")
            else:
                sums[name] = sums.get(name, 0.0) + storage.read()
    for name, total in sums.items():
        close(total, gradients[name].read(), np.abs(total).max() + 1.0, f"sum of {name}")


@declared
def test_an_empty_batch(row: Row, engine: str) -> None:
    """Results with a batch axis stay as they are; sums over no samples are zero, or what they were if accumulated."""
    trial = row.trial()
    held = [p.read(np.float64).copy() for p in trial.filter.parameters()]
    trial.forward(batch=0)
    nothing = {
        n: s.elements[:0] for n, s in (trial.inputs | trial.outputs).items() if s.batch > 1 and n != "backprop_cache"
    }
    succeed(trial.try_forward(batch=0, **nothing))
    for before, parameter in zip(held, trial.filter.parameters(), strict=True):
        assert_bitwise(parameter.read(np.float64), before, "a parameter")
    for name, storage in trial.outputs.items():
        if storage.batch > 1 and name != "backprop_cache":
            storage.assert_unchanged(name)
    for old in (None, {name: np.ones_like(s.raw()) for name, s in trial.new_gradients().items()}):
        for name, storage in (trial.backward(old=old, batch=0) if trial.gradients else {}).items():
            if storage.batch > 1:
                storage.assert_unchanged(name)
            else:
                assert np.all(storage.read() == (0 if old is None else 1)), name


@declared
def test_functions_for_one_sample(row: Row) -> None:
    """Functions without a batch size do what a batch of one does."""
    trial = row.trial(batch=1)
    name, _ = (row.calls or trial.filter.driving_calls())[0]
    expected = trial.forward()
    for function, chooses in DRIVERS.get(name, []):
        parameters = [p.rstrip("_") for p in inspect.signature(function).parameters]
        if "batch_size" in parameters or chooses:
            continue
        trial.outputs = {n: Storage(s.tensor) for n, s in trial.outputs.items()}
        succeed(function(trial.filter, *((trial.inputs | trial.outputs)[p].elements for p in parameters[1:])))
        if not row.draws:
            same(trial.outputs, expected, function.__name__)


# Gradients that are not wanted.


@pytest.mark.parametrize("row", [pytest.param(row, id=row.id) for row in ROWS if row.trial().gradients])
@pytest.mark.covers("core.grad.null_skip")
def test_gradients_that_are_left_out(row: Row, engine: str) -> None:
    """Each alone, each left out and none at all: the others have the same bits."""
    trial = row.trial()
    trial.forward()
    expected, every = stored(trial.backward()), list(trial.gradients)
    required = [a.name for a in trial.backward_arguments if a.writes and a.required] if isinstance(trial, Trial) else []
    for wanted in ([], *([name] for name in every), *([o for o in every if o != name] for name in every)):
        missing = set(required) - set(wanted)
        if missing:
            results = trial.new_gradients(wanted)
            refused(trial.try_backward(results), results, *missing, "NULL")
        else:
            same(trial.backward(wanted), expected, f"of {wanted}")


# Inputs that are not there.


def expected_refusal(a: Argument, given: set[str], wanted: set[str]) -> str | None:
    """Why a call without an input must fail, by its record; empty if the family decides, ``None`` if it must work."""
    if a.required:
        return a.purpose or "needs it"
    reasons = [n.because for n in a.needs if n.results & wanted and not n.unless & given]
    return next(iter(sorted(reasons, reverse=True)), None)


@declared
def test_inputs_that_are_left_out(row: Row, engine: str) -> None:
    """Both faces ask by name for inputs that the record needs; the rest may be NULL."""
    trial = row.trial()
    face = Face(trial) if Face.known(row) and trial.gradients else None
    for a in trial.forward_call.record.arguments:
        if a.name in trial.inputs | trial.outputs and (a.required or a.needs):
            refused(trial.try_forward(**{a.name: None}), trial.outputs, a.name, "NULL")
    trial.forward()
    if not trial.gradients:
        return
    expected = stored(trial.backward())
    given = trial.inputs.keys() | trial.outputs.keys() | trial.arriving.keys()
    for a in [a for a in trial.backward_arguments if a.name in given]:
        for wanted in [[name] for name in trial.gradients]:
            why = expected_refusal(a, given - {a.name} | set(wanted), set(wanted))
            results = trial.new_gradients(wanted)
            status = trial.try_backward(results, without=[a.name])
            if why:
                assert why.partition(".")[0] in refused(status, results, a.name, "NULL")
            elif status:
                assert why == "", f"{a.name}: {openbnns.last_error()}"
                refused(status, results)
            for name, storage in results.items() if status == 0 else ():  # found in another way, with other roundings
                close(storage.raw(), expected[name], expected[name], f"{name} without {a.name}")
            if face is not None and (why or status):
                with pytest.raises((openbnns.LayerApplyError, TypeError)) as failure:
                    face.apply_backward(results, without=[a.name])
                assert face.name(a) in str(failure.value) and "NULL" not in str(failure.value)
                for name, storage in results.items():
                    storage.assert_unchanged(name)


@pytest.mark.parametrize("row", [pytest.param(row, id=row.id) for row in DECLARED if Face.known(row)])
def test_both_faces_give_the_same_bits(row: Row, engine: str) -> None:
    trial = row.trial()
    face = Face(trial)
    expected, gradients = trial.forward(), stored(trial.backward())
    if row.draws:
        trial.filter.draws = 0
    trial.outputs = {name: Storage(s.tensor, s.batch) for name, s in trial.outputs.items()}
    face.apply()
    same(trial.outputs, expected, "output")
    results = trial.new_gradients()
    face.apply_backward(results)
    same(results, gradients, "gradients")


# Memory in any form, and memory that is refused.


def forms(storage: Storage) -> dict[str, Any]:
    """The elements of a tensor as every kind of buffer that a caller may hold; an address comes with its memory."""
    flat, code = storage.elements, storage.elements.dtype.char
    kinds = {"f": ctypes.c_float, "b": ctypes.c_int8, "l": ctypes.c_int64, "L": ctypes.c_uint64, "I": ctypes.c_uint32}
    keep = flat.copy()
    return {
        "address": (keep.ctypes.data, keep),
        "shaped numpy": flat.copy().reshape(1, -1),
        "bytearray": bytearray(flat.tobytes()),
        "memoryview": memoryview(bytearray(flat.tobytes())),
        "typed memoryview": memoryview(flat.copy()),
        "array": array.array(code, flat.tobytes()),
        "ctypes": (kinds[code] * flat.size).from_buffer_copy(flat.tobytes()),
        "uint8 numpy": flat.copy().view(np.uint8),
    }


@pytest.mark.parametrize(
    "form", ["address", "shaped numpy", "bytearray", "memoryview", "typed memoryview", "array", "ctypes", "uint8 numpy"]
)
@declared
def test_any_buffer_will_do(row: Row, form: str) -> None:
    """Inputs, outputs and gradients as any object with memory, or as plain addresses."""
    trial = row.trial()
    expected = trial.forward()
    gradients = trial.backward() if trial.gradients else {}
    if row.draws:
        trial.filter.draws = 0
    held = {name: forms(storage)[form] for name, storage in (trial.all_tensors() | trial.new_gradients()).items()}
    keep = {name: memory[1] if form == "address" else memory for name, memory in held.items()}
    given = {name: memory[0] if form == "address" else memory for name, memory in held.items()}
    if "backprop_cache" in given and form == "address":
        given["backprop_cache"] = keep["backprop_cache"]  # its size is read off it here
    succeed(trial.try_forward(**{name: given[name] for name in (*trial.inputs, *trial.outputs)}))
    if gradients:
        for a in trial.backward_arguments:
            if a.described and a.name in given:
                given[a.name] = tensor_descriptor(trial, a, given[a.name])
        succeed(trial.try_backward({}, instead=given))
    for name, storage in (trial.outputs | gradients).items():
        if name != "backprop_cache":
            assert_bitwise(np.frombuffer(keep[name], storage.elements.dtype), storage.elements, f"{name} in {form}")
    assert expected


def tensor_descriptor(trial: Trial, a: Argument, memory: Any) -> Any:
    return trial.storage(a).tensor.descriptor(memory)


@declared
def test_memory_that_will_not_do(row: Row, engine: str) -> None:
    """Too short, with gaps of its own, or read-only: refused before anything is written, never copied in secret."""
    trial = row.trial()
    trial.forward()
    for storage in trial.outputs.values():
        storage.before = storage.memory.copy()
    backward = {a.name: a for a in trial.backward_arguments}
    for name in trial.inputs | trial.outputs:
        for wrong in unusable((trial.inputs | trial.outputs)[name], name in trial.outputs):
            refused(trial.try_forward(**{name: wrong}), trial.outputs, name)
    for name, a in backward.items():
        results = trial.new_gradients()
        storage = (trial.all_tensors() | results).get(name)
        for wrong in [] if storage is None else unusable(storage, a.writes):
            given = tensor_descriptor(trial, a, wrong) if a.described else wrong
            refused(trial.try_backward(results, instead={name: given}), results, name)


def unusable(storage: Storage, written: bool) -> list[Any]:
    whole = storage.elements
    frozen = whole.copy()
    frozen.flags.writeable = False
    spread = np.repeat(whole, 2)[::2]
    return [whole[:-1], *([] if spread.flags.c_contiguous else [spread]), *([frozen] if written else [])]


# Memory that is shared.


@declared
@pytest.mark.covers("norm.inplace")
def test_results_on_inputs(row: Row, engine: str) -> None:
    """A result in the very memory of an input, or some bytes later, has the same bits. A cache shares with nothing."""
    trial = row.trial()
    expected = trial.forward()
    for result in trial.outputs:
        for source, shared in overlaps(trial.outputs[result], trial.inputs):
            if row.draws:
                trial.filter.draws = 0
            status = trial.try_forward(**{source: shared.read, result: shared.written})
            if result == "backprop_cache":
                refused(status, {}, "share memory")
                continue
            succeed(status)
            assert_bitwise(shared.written[shared.places], expected[result], f"{result} on {source}")
    if not trial.gradients:
        return
    if row.draws:
        trial.filter.draws = 0
    trial.forward()
    gradients = trial.backward()
    record = {a.name: a for a in trial.backward_arguments}
    readable = {name: s for name, s in trial.all_tensors().items() if name in record}
    for result in gradients:
        for source, shared in overlaps(gradients[result], readable):
            given = {source: shared.read, result: shared.written}
            for name, memory in given.items():
                given[name] = tensor_descriptor(trial, record[name], memory) if record[name].described else memory
            status = trial.try_backward({}, instead=given)
            if source == "backprop_cache":
                refused(status, {}, "share memory")
                continue
            succeed(status)
            assert_bitwise(shared.written[shared.places], gradients[result].raw(), f"{result} on {source}")


class Overlap:
    """One block of memory with an input at its start and a result at some distance."""

    def __init__(self, written: Storage, read: Storage, distance: int) -> None:
        self.block = np.zeros(max(written.elements.nbytes + distance, read.elements.nbytes), np.uint8)
        self.read = self.block[: read.elements.nbytes].view(read.elements.dtype)
        self.written = self.block[distance : distance + written.elements.nbytes].view(written.elements.dtype)
        self.read[:] = read.elements
        self.places = written.places


def overlaps(written: Storage, sources: Mapping[str, Storage]) -> Iterator[tuple[str, Overlap]]:
    for source, read in sources.items():
        for distance in (0, 16):
            if distance < read.elements.nbytes:
                yield source, Overlap(written, read, distance)


@pytest.mark.parametrize("row", [pytest.param(row, id=row.id) for row in DECLARED if len(row.trial().gradients) > 1])
def test_results_on_results(row: Row, engine: str) -> None:
    """Programs point all gradients that they do not want at one place: the one that they want is right."""
    trial = row.trial()
    trial.forward()
    expected = trial.backward()
    arguments = {a.name: a for a in trial.backward_arguments}
    for wanted, storage in expected.items():
        for step in (0, 1):  # all begin together, or one element after the other
            others = [name for name in expected if name != wanted]
            scratch, places = scratch_for([expected[name] for name in others], step)
            given = {n: tensor_descriptor(trial, arguments[n], p) for n, p in zip(others, places, strict=True)}
            own = trial.new_gradients([wanted])
            succeed(trial.try_backward(own, instead=given))
            same(own, {wanted: storage.raw()}, f"{others} in one place")
            scratch.check()
            if len(others) > 1:
                with openbnns.strict(), warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    succeed(trial.try_backward(trial.new_gradients([wanted]), instead=given))
                assert any("share memory" in str(warning.message) for warning in caught)


@pytest.mark.parametrize("row", [pytest.param(row, id=row.id) for row in ROWS if row.id.startswith("lstm")])
def test_lstm_results_on_results(row: Row, engine: str) -> None:
    trial = row.make()
    assert isinstance(trial, LstmTrial)
    trial.forward()
    expected = trial.backward()
    for wanted in (*trial.gradients, None):
        others = {i: s for i, s in expected.items() if i != wanted}
        scratch, places = scratch_for(list(others.values()), 1)
        got = trial.backward([i for i in expected if i == wanted], elsewhere=dict(zip(others, places, strict=True)))
        same(got, {i: expected[i].raw() for i in got}, "all others in one place")
        scratch.check()
    with openbnns.strict(), pytest.warns(openbnns.StrictWarning, match="Backward: layer_delta_params.* share memory"):
        trial.backward([], elsewhere=dict(zip(others, places, strict=True)))
    before = trial.outputs[lstm.Y].raw()
    described = trial.run.params.output_descriptor
    described.hidden_desc.data = described.cell_state_desc.data
    assert_bitwise(trial.forward()[lstm.Y], before, "the output beside states in one place")


class Scratch:
    """Memory for results that are not wanted, with guards."""

    def __init__(self, nbytes: int) -> None:
        self.memory = np.full(nbytes + 2 * 64, 0x5A, np.uint8)

    def check(self) -> None:
        assert (self.memory[:64] == 0x5A).all() and (self.memory[-64:] == 0x5A).all()


def scratch_for(results: list[Storage], step: int) -> tuple[Scratch, list[Array]]:
    """One place for several results, each so many elements after the one before."""
    begins = [i * step * s.elements.itemsize for i, s in enumerate(results)]
    ends = [begin + s.elements.nbytes for begin, s in zip(begins, results, strict=True)]
    scratch = Scratch(max(ends, default=0))
    places = [
        scratch.memory[64 + begin : 64 + end].view(s.elements.dtype)
        for begin, end, s in zip(begins, ends, results, strict=True)
    ]
    return scratch, places


# The end of a filter.


@declared
def test_a_destroyed_filter(row: Row) -> None:
    trial = row.trial()
    trial.forward()
    results, outputs = trial.new_gradients(), {n: Storage(s.tensor, s.batch) for n, s in trial.outputs.items()}
    record = (trial.forward_call, trial.backward_call)
    trial.filter.destroy()
    given = {n: s.elements for n, s in outputs.items()}
    refused(trial.try_forward(**given), outputs, "has been destroyed")
    if record[1] is not None:
        refused(trial.try_backward(results), results, "has been destroyed")
