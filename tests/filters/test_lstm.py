"""LSTM: both engines against the float64 formulas, every gradient, memory, cache and threads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import openbnns as ob
from bad_calls import refused
from cases.lstm import (
    C0,
    CASES,
    CN,
    H0,
    HN,
    RESULTS,
    SHAPES,
    W0,
    B,
    LstmCase,
    LstmRun,
    Memory,
    P,
    U,
    X,
    Y,
    compare_gradients,
    compare_outputs,
    gate_tensor,
    params,
)
from helpers import Array, assert_bitwise, assert_within
from openbnns import capi, engines
from openbnns.filters import lstm as filters
from openbnns.parameters.random_numbers import Stream
from openbnns.reference.random_numbers import uniform

ENGINES = ["native", "reference"]


def parameters(cases: list[LstmCase], rows: str) -> list[Any]:
    return [pytest.param(case, id=case.id, marks=pytest.mark.covers(*getattr(case, rows))) for case in cases]


def mask(case: LstmCase, draw: int = 0) -> Array | None:
    """The mask of a draw; number 0 is that of calls without a cache."""
    if case.dropout == 0.0 or case.layers == 1:
        return None
    shape = (case.layers - 1, case.steps, case.batch, case.directions * case.hidden)
    numbers = uniform(Stream(filters._SEED, draw), int(np.prod(shape))).reshape(shape)
    return np.asarray(numbers >= float(np.float32(case.dropout)))


def draw_of(run: LstmRun) -> int:
    """The number of the mask that the latest forward call has left in the cache."""
    assert run.cache is not None
    return int(filters._HEADER.unpack_from(run.cache.tobytes())[3])


# ---------------------------------------------------------------------------------------------------------------------
# Values and gradients


def test_ids_are_unique() -> None:
    assert len({case.id for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", parameters(CASES, "rows"))
def test_forward(case: LstmCase, engine: str) -> None:
    run = LstmRun(case)
    compare_outputs(case, run.forward(), run.values, mask(case, draw_of(run)))
    compare_outputs(case, run.forward(cached=False), run.values, mask(case))
    for index, memory in run.memory.items():
        memory.storage.assert_unchanged(str(index))
    for index, memory in run.outputs.items():
        memory.storage.assert_guards_intact(str(index))


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("case", parameters(CASES, "backward_rows"))
def test_backward(case: LstmCase, cached: bool, engine: str) -> None:
    run = LstmRun(case)
    run.forward(cached)
    before = None if run.cache is None else run.cache.copy()
    keep = mask(case, draw_of(run) if cached else 0)
    expected = case.expected_gradients(run.values, keep=keep)
    gradients = run.backward(cached=cached)
    compare_gradients(case, gradients, expected)
    for index, memory in run.memory.items():
        memory.storage.assert_unchanged(str(index))
    if before is not None and run.cache is not None:
        assert_bitwise(run.cache, before, "cache")
    rng = np.random.default_rng(1)
    old = {i: np.float32(rng.standard_normal(m.read().shape)).astype(np.float64) for i, m in gradients.items()}
    added = run.backward(cached=cached, old=old)
    for index, memory in added.items():
        once = gradients[index].read()
        assert_within(memory.read(), once + old[index], 2e-6 * (np.abs(once).max() + 4.0), f"accumulated {index}")
        memory.storage.assert_guards_intact(str(index))


def test_gradients_of_many_steps_are_summed_in_parts() -> None:
    """One chain of additions over all steps and samples would be several times as far off."""
    case = LstmCase("many-steps", 2000, 8, 4, 8)
    run = LstmRun(case)
    run.forward()
    expected = case.expected_gradients(run.values, keep=None)
    for index, memory in run.backward().items():
        assert_within(memory.read(), expected[index], 1.5e-6 * np.abs(expected[index]).max(), f"gradient {index}")


@pytest.mark.parametrize("case", [c for c in SHAPES if c.steps * c.batch < 60], ids=lambda c: c.id)
def test_gradients_by_finite_differences(case: LstmCase, engine: str) -> None:
    """<v, f(t + hu) - f(t - hu)> / 2h against <backward(v), u> for every tensor, with a random direction and cotangent."""
    if case.activations is not None and any(a.name in ("HardSigmoid", "ELU") for a in case.activations):
        case = replace(case, activations=tuple(ob_smooth(a) for a in case.activations))
    run = LstmRun(case)
    run.forward()
    keep = mask(case, draw_of(run))
    gradients = run.backward()
    rng = np.random.default_rng(5)
    for index, values in run.values.items():
        if index >= 100:
            continue
        u, h = rng.standard_normal(values.shape), 1e-6
        sides = [case.expected(run.values | {index: values + step * u}, keep) for step in (h, -h)]
        numeric = sum(
            float(np.vdot(run.values[100 + i], (getattr(sides[0], name) - getattr(sides[1], name)))) / (2 * h)
            for i, name in ((Y, "y"), (HN, "h"), (CN, "c"))
        )
        gradient = gradients[index].read()
        analytic = float(np.vdot(gradient, u))
        assert abs(numeric - analytic) <= 1e-4 * max(abs(numeric), float(np.linalg.norm(gradient * u)), 1e-3), index


def ob_smooth(act: Any) -> Any:
    return replace(act, name="Sigmoid") if act.name == "HardSigmoid" else replace(act, name="Tanh", alpha=0.0)


@pytest.mark.covers("core.grad.null_skip")
@pytest.mark.parametrize("case", [c for c in SHAPES if c.layers > 1 or c.peepholes[0]], ids=lambda c: c.id)
def test_any_of_the_gradients_alone(case: LstmCase) -> None:
    """One gradient alone has the bits that it has among all; so do random subsets, and any of those that arrive."""
    run = LstmRun(case)
    run.forward()
    full = {index: memory.storage.raw() for index, memory in run.backward().items()}
    rng = np.random.default_rng(2)
    wanted = [[index] for index in full] + [[i for i in full if rng.random() < 0.5] for _ in range(5)]
    for some in wanted:
        for index, memory in run.backward(some).items():
            assert_bitwise(memory.storage.raw(), full[index], f"{index} of {some}")
    for arriving in ([Y], [HN], [CN], [Y, CN], [HN, CN]):
        expected = case.expected_gradients(run.values, arriving, mask(case, draw_of(run)))
        compare_gradients(case, run.backward(arriving=arriving), expected)


@pytest.mark.parametrize("case", parameters(CASES, "rows"))
def test_threads_scratch_and_calls_give_the_same_bits(case: LstmCase) -> None:
    runs = []
    try:
        for threads, poison in ((1, False), (2, True), (3, False), (5, True)):
            engines._core.set_scratch_poison(poison)
            run = LstmRun(case, threads=threads)
            run.forward(cached=False)
            outputs = {i: m.storage.raw() for i, m in run.outputs.items()}
            runs.append(outputs | {100 + i: m.storage.raw() for i, m in run.backward(cached=False).items()})
    finally:
        engines._core.set_scratch_poison(False)
    for other in runs[1:]:
        for index, raw in other.items():
            assert_bitwise(raw, runs[0][index], f"{case.id}: {index}")


@pytest.mark.parametrize("case", [LstmCase("large", 5, 40, 100, 150, 2, 2), LstmCase("one-sample", 9, 1, 64, 128)])
def test_enough_for_threads(case: LstmCase) -> None:
    """Enough work for several threads: of the large one two or four share the samples, three the units of every step.

    The cache gives the bits that a repeated forward pass gives.
    """
    runs = []
    for threads in (1, 2, 3, 4):
        run = LstmRun(case, threads=threads)
        outputs = run.forward()
        both = [run.backward(cached=cached) for cached in (True, False)]
        for index in both[0]:
            assert_bitwise(both[0][index].storage.raw(), both[1][index].storage.raw(), str(index))
        runs.append([*outputs.values(), *(m.storage.raw() for m in both[0].values())])
    compare_gradients(case, both[0], case.expected_gradients(run.values))
    for other in runs[1:]:
        for a, b in zip(other, runs[0], strict=True):
            assert_bitwise(a, b, "threads")


@pytest.mark.parametrize("as_address", [False, True])
def test_unused_gradients_may_share_memory(engine: str, as_address: bool) -> None:
    """Gradients of absent peepholes and biases may all point to one dummy, or to empty memory."""
    case = LstmCase("unused", 5, 3, 4, 7, layers=2, bias=(True, False, True, False))
    run = LstmRun(case)
    absent = [i for i in RESULTS if 0 not in case.shape(i) and not case.has(i) and i > CN]
    assert len(absent) == 6
    present = [i for i in RESULTS if 0 not in case.shape(i) and i not in absent]
    expected = case.expected_gradients(run.values, [Y])
    biases, peepholes = [i for i in absent if (i - 6) % 5 == B], [i for i in absent if (i - 6) % 5 == P]
    size = max(int(np.prod(case.shape(i))) for i in absent)

    def check(unused: dict[int, Any], dummy: Any) -> None:
        before = dummy.copy()
        for _ in range(3):  # the second call might take the fast way
            results = {i: Memory(case, i) for i in present}
            dy = Memory(case, Y, run.values[100 + Y])
            delta = params(case, {i: m.descriptor() for i, m in results.items()} | unused | {Y: dy.descriptor()})
            assert capi.BNNSDirectApplyLSTMBatchBackward(run.params, delta, None, None, 0) == 0, ob.last_error()
            compare_gradients(case, results, expected)
            assert_bitwise(dummy, before, "what no gradient owns")

    def pointing(data: Any, some: list[int]) -> dict[int, Any]:
        at = data.ctypes.data if as_address else data
        return {i: capi.BNNSNDArrayDescriptor(data=at, data_type=capi.BNNSDataTypeFloat32) for i in some}

    dummy = np.full(size, 3.0, np.float32)
    check(pointing(dummy, absent), dummy)  # all of them in one place
    check(pointing(dummy, peepholes) | pointing(dummy[4:], biases), dummy)  # overlapping
    if not as_address:
        check(pointing(dummy[:0], absent), dummy)  # empty
    # One of them on top of a gradient that is wanted: that one is right.
    wanted = Memory(case, X)
    dy, place = Memory(case, Y, run.values[100 + Y]), wanted.descriptor()
    on_top = capi.BNNSNDArrayDescriptor(data=place.data, data_type=capi.BNNSDataTypeFloat32)
    delta = params(case, {X: place, biases[0]: on_top, Y: dy.descriptor()})
    assert capi.BNNSDirectApplyLSTMBatchBackward(run.params, delta, None, None, 0) == 0, ob.last_error()
    compare_gradients(case, {X: wanted}, expected)


# ---------------------------------------------------------------------------------------------------------------------
# Cache, dropout, types, extremes


@pytest.mark.covers("lstm.cachecap", "fn.BNNSComputeLSTMTrainingCacheCapacity")
def test_capacity() -> None:
    """Enough for gates, cells and outputs of all steps, known without any data, and refused when a byte is missing."""
    for case in SHAPES[:10]:
        run = LstmRun(case)
        bare = params(case, {})
        capacity = capi.BNNSComputeLSTMTrainingCacheCapacity(run.params)
        if not case.one_piece:
            assert capi.BNNSComputeLSTMTrainingCacheCapacity(bare) == capacity
        assert capacity >= 4 * case.steps * case.batch * case.layers * case.directions * case.hidden * 6
        cache = np.zeros(capacity, np.uint8)
        assert capi.BNNSDirectApplyLSTMBatchTrainingCaching(run.params, None, cache, capacity) == 0
        status = capi.BNNSDirectApplyLSTMBatchTrainingCaching(run.params, None, cache, capacity - 1)
        assert status == -1 and f"is {capacity - 1} bytes, but this LSTM needs {capacity}" in str(ob.last_error())
        status = capi.BNNSDirectApplyLSTMBatchTrainingCaching(run.params, None, cache[:-1], capacity)
        assert status == -1 and "training_cache_ptr holds" in str(ob.last_error())
    assert capi.BNNSComputeLSTMTrainingCacheCapacity(None) == 2**64 - 1
    assert capi.BNNSComputeLSTMTrainingCacheCapacity(capi.BNNSLayerParametersLSTM()) == 2**64 - 1


def test_a_cache_works_on_the_other_engine_and_anywhere_in_memory() -> None:
    case = LstmCase("engines", 5, 3, 4, 7, layers=2, dropout=0.5)
    for first, second in ((0, 1), (1, 0)):
        run = LstmRun(case)
        with ob.engine(ENGINES[first]):
            run.forward()
        expected = case.expected_gradients(run.values, keep=mask(case, draw_of(run)))
        with ob.engine(ENGINES[second]):
            compare_gradients(case, run.backward(), expected)
    run = LstmRun(case)
    capacity = capi.BNNSComputeLSTMTrainingCacheCapacity(run.params)
    run.cache = np.zeros(capacity + 1, np.uint8)[1:]  # not aligned
    assert capi.BNNSDirectApplyLSTMBatchTrainingCaching(run.params, None, run.cache, capacity) == 0
    compare_gradients(case, run.backward(), case.expected_gradients(run.values, keep=mask(case, draw_of(run))))
    moved = np.zeros(capacity + 3, np.uint8)[3:]
    moved[:] = run.cache
    run.cache = moved
    compare_gradients(case, run.backward(), case.expected_gradients(run.values, keep=mask(case, draw_of(run))))


@pytest.mark.covers("lstm.dropout")
def test_dropout_draws_anew_for_every_training_call(engine: str) -> None:
    case = LstmCase("drops", 6, 8, 4, 12, layers=2, dropout=0.5)
    run, plain = LstmRun(case), LstmRun(replace(case, dropout=0.0), LstmRun(case).values)
    outputs = [run.forward()[Y] for _ in range(2)]
    assert np.abs(outputs[0] - outputs[1]).max() > 1e-3
    assert np.abs(outputs[0] - plain.forward()[Y]).max() > 1e-3
    fixed = [run.forward(cached=False)[Y] for _ in range(2)]
    np.testing.assert_array_equal(*fixed)
    share = np.mean(mask(LstmCase("share", 50, 40, 4, 30, layers=2, dropout=0.3), 7))
    assert abs(share - 0.7) < 0.01


def test_half_precision_forward(engine: str) -> None:
    case = LstmCase("half", 4, 3, 5, 6, layers=2)
    values = case.values()
    half = [X, gate_tensor(0, W0), gate_tensor(2, U)]
    for index in half:
        values[index] = np.float16(values[index]).astype(np.float64)
    run = LstmRun(case, values, half=half)
    compare_outputs(case, run.forward(), values, None)
    delta = params(case, {Y: Memory(case, Y, values[100 + Y]).descriptor(), X: Memory(case, X).descriptor()})
    refused(capi.BNNSDirectApplyLSTMBatchBackward(run.params, delta, None, None, 0), "training works on Float32")


def test_extreme_inputs(engine: str) -> None:
    """Saturated gates are exact; infinities act like huge numbers, also where hidden units pad a block."""
    case = LstmCase("extreme", 3, 2, 3, 5)
    values = case.values()
    for g in range(4):
        values[gate_tensor(g, W0)] = np.abs(values[gate_tensor(g, W0)]) + 0.1
    for huge in (1e30, np.inf):
        values[X] = np.full((3, 2, 3), huge)
        outputs = LstmRun(case, values).forward()
        cells = [values[C0][0, 0] + k for k in (1, 2, 3)]
        np.testing.assert_allclose(outputs[CN][0, 0], cells[-1], rtol=1e-6)
        np.testing.assert_allclose(outputs[Y][:, :, 0], np.tanh(cells), rtol=2e-6)
    run = LstmRun(case, values)
    run.forward()
    gradients = run.backward()
    assert np.isfinite(gradients[H0].read()).all() and np.isfinite(gradients[gate_tensor(1, U)].read()).all()


def test_absent_samples_are_never_read(engine: str) -> None:
    case = LstmCase("absent", 4, 3, 5, 6, layers=2, directions=2, batch_sizes=(3, 2, 1, 0))
    values = case.values()
    dirty = {index: v.copy() for index, v in values.items()}
    for t, n in enumerate(case.batch_sizes or ()):
        dirty[X][t, n:] = np.nan
        dirty[100 + Y][t, n:] = np.nan
        values[100 + Y][t, n:] = 0.0
    run = LstmRun(case, dirty)
    outputs = run.forward()
    compare_outputs(case, outputs, values, None)
    assert all(not outputs[Y][t, n:].any() for t, n in enumerate(case.batch_sizes or ()))
    compare_gradients(case, run.backward(), case.expected_gradients(values))


def test_states_in_place_and_shared_memory(engine: str) -> None:
    """Final states may replace the initial ones; gradients may lie on what they come from."""
    case = LstmCase("in-place", 4, 3, 5, 6)
    run = LstmRun(case)
    expected = run.forward()
    run.params.output_descriptor.hidden_desc.data = run.memory[H0].storage.elements
    run.params.output_descriptor.cell_state_desc.data = run.memory[C0].storage.elements
    assert capi.BNNSDirectApplyLSTMBatchTrainingCaching(run.params, None, None, 0) == 0
    for index, initial in ((HN, H0), (CN, C0)):
        np.testing.assert_array_equal(run.memory[initial].read(), expected[index])
    run = LstmRun(case)
    run.forward()
    dy = Memory(case, Y, run.values[100 + Y])
    delta = params(case, {Y: dy.descriptor(), H0: Memory(case, H0).descriptor(), gate_tensor(1, U): dy.descriptor()})
    delta.forget_gate.hw_desc = run.memory[gate_tensor(1, U)].descriptor()
    gradient = run.backward([gate_tensor(1, U)], [Y])[gate_tensor(1, U)].read()
    assert run.cache is not None
    assert capi.BNNSDirectApplyLSTMBatchBackward(run.params, delta, None, run.cache, run.cache.nbytes) == 0
    np.testing.assert_array_equal(run.memory[gate_tensor(1, U)].read(), gradient)


def test_first_piece_for_all_layers_or_for_the_first() -> None:
    """As many inputs as hidden units: iw_desc[0] serves all layers unless it says that it has one."""
    one = LstmCase("one", 3, 2, 4, 4, layers=2)
    run = LstmRun(one)  # iw_desc[0] is (1, 1, 4, 4), iw_desc[1] the rest
    compare_outputs(one, run.forward(), run.values, None)
    every = replace(one, one_piece=True)
    run = LstmRun(every)
    for gate in (run.params.input_gate, run.params.output_gate):  # ignored: iw_desc[0] has all layers
        gate.iw_desc[1].data = np.zeros(16, np.float32)
        gate.iw_desc[1].data_type = capi.BNNSDataTypeFloat32
    compare_outputs(every, run.forward(), run.values, None)
