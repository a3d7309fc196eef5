"""LSTM: both engines against the float64 formulas, every gradient, memory, cache, threads, the layer and bad input."""

from __future__ import annotations

import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import openbnns as ob
from cases.lstm import (
    C0,
    CASES,
    CN,
    H0,
    HN,
    OUTPUTS,
    RESULTS,
    SHAPES,
    W0,
    W1,
    B,
    LstmCase,
    LstmRun,
    Memory,
    P,
    U,
    X,
    Y,
    gate_tensor,
    params,
    tolerance,
)
from helpers import FLOAT16, Array, assert_bitwise, assert_within
from openbnns import capi, engines
from openbnns.filters import lstm as filters
from openbnns.reference.random_numbers import Stream, uniform

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


def last_draw() -> int:
    return filters.draws._last


def compare_outputs(case: LstmCase, outputs: dict[int, Array], values: dict[int, Array], keep: Array | None) -> None:
    expected = case.expected(values, keep)
    for index, numbers in ((Y, expected.y), (HN, expected.h), (CN, expected.c)):
        assert_within(outputs[index], numbers, tolerance(numbers, case.hidden + case.inputs), f"{case.id}: {index}")


def compare_gradients(case: LstmCase, found: dict[int, Memory], expected: dict[int, Array]) -> None:
    for index, memory in found.items():
        bound = tolerance(expected[index], case.steps * (case.batch + case.hidden))
        assert_within(memory.read(), expected[index], bound, f"{case.id}: gradient {index}")
        memory.storage.assert_guards_intact(f"gradient {index}")


# ---------------------------------------------------------------------------------------------------------------------
# Values and gradients


def test_ids_are_unique() -> None:
    assert len({case.id for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", parameters(CASES, "rows"))
def test_forward(case: LstmCase, engine: str) -> None:
    run = LstmRun(case)
    compare_outputs(case, run.forward(), run.values, mask(case, last_draw()))
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
    keep = mask(case, last_draw() if cached else 0)
    expected = case.expected_gradients(run.values, keep=keep)
    found = run.backward(cached=cached)
    compare_gradients(case, found, expected)
    for index, memory in run.memory.items():
        memory.storage.assert_unchanged(str(index))
    if before is not None and run.cache is not None:
        assert_bitwise(run.cache, before, "cache")
    rng = np.random.default_rng(1)
    old = {i: np.float32(rng.standard_normal(m.read().shape)).astype(np.float64) for i, m in found.items()}
    added = run.backward(cached=cached, old=old)
    for index, memory in added.items():
        once = found[index].read()
        assert_within(memory.read(), once + old[index], 2e-6 * (np.abs(once).max() + 4.0), f"accumulated {index}")
        memory.storage.assert_guards_intact(str(index))


@pytest.mark.parametrize("case", [c for c in SHAPES if c.steps * c.batch < 60], ids=lambda c: c.id)
def test_gradients_by_finite_differences(case: LstmCase, engine: str) -> None:
    """<v, f(t + hu) - f(t - hu)> / 2h against <backward(v), u> for every tensor, with a random direction and cotangent."""
    if case.activations is not None and any(a.name in ("HardSigmoid", "ELU") for a in case.activations):
        case = replace(case, activations=tuple(ob_smooth(a) for a in case.activations))
    run = LstmRun(case)
    run.forward()
    keep = mask(case, last_draw())
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
        expected = case.expected_gradients(run.values, arriving, mask(case, last_draw()))
        compare_gradients(case, run.backward(arriving=arriving), expected)


@pytest.mark.parametrize("case", parameters(CASES, "rows"))
def test_threads_scratch_and_calls_give_the_same_bits(case: LstmCase) -> None:
    runs = []
    try:
        for threads, poison in ((1, False), (2, True), (3, False), (5, True)):
            engines._core.set_scratch_poison(poison)
            run = LstmRun(case, threads=threads)
            run.forward(cached=False)
            found = {i: m.storage.raw() for i, m in run.outputs.items()}
            runs.append(found | {100 + i: m.storage.raw() for i, m in run.backward(cached=False).items()})
    finally:
        engines._core.set_scratch_poison(False)
    for other in runs[1:]:
        for index, raw in other.items():
            assert_bitwise(raw, runs[0][index], f"{case.id}: {index}")


def test_a_large_one_on_threads() -> None:
    """Enough work for several threads; the cache gives the bits that a repeated forward pass gives."""
    case = LstmCase("threads", 5, 40, 100, 150, 2, 2)
    runs = []
    for threads in (1, 2, 4):
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
@pytest.mark.parametrize("engine", ["native", "reference"])
def test_unused_gradients_may_share_memory(engine: str, as_address: bool) -> None:
    """Peepholes and biases that are not there: their gradients may all point to one dummy, or to nothing at all."""
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
            with ob.engine(engine):
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
    with ob.engine(engine):
        assert capi.BNNSDirectApplyLSTMBatchBackward(run.params, delta, None, None, 0) == 0, ob.last_error()
    compare_gradients(case, {X: wanted}, expected)
    # Gradients of parameters that are there still may not share memory.
    both = {i: capi.BNNSNDArrayDescriptor(data=dummy, data_type=capi.BNNSDataTypeFloat32) for i in (H0, C0)}
    delta = params(case, both | {Y: dy.descriptor()})
    with ob.engine(engine):
        fails(capi.BNNSDirectApplyLSTMBatchBackward(run.params, delta, None, None, 0), "share memory")


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
        expected = case.expected_gradients(run.values, keep=mask(case, last_draw()))
        with ob.engine(ENGINES[second]):
            compare_gradients(case, run.backward(), expected)
    run = LstmRun(case)
    capacity = capi.BNNSComputeLSTMTrainingCacheCapacity(run.params)
    run.cache = np.zeros(capacity + 1, np.uint8)[1:]  # not aligned
    assert capi.BNNSDirectApplyLSTMBatchTrainingCaching(run.params, None, run.cache, capacity) == 0
    compare_gradients(case, run.backward(), case.expected_gradients(run.values, keep=mask(case, last_draw())))
    moved = np.zeros(capacity + 3, np.uint8)[3:]
    moved[:] = run.cache
    run.cache = moved
    compare_gradients(case, run.backward(), case.expected_gradients(run.values, keep=mask(case, last_draw())))


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
    assert capi.BNNSDirectApplyLSTMBatchBackward(run.params, delta, None, None, 0) == -1
    assert "training works on Float32" in str(ob.last_error())


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
    found = run.backward()
    assert np.isfinite(found[H0].read()).all() and np.isfinite(found[gate_tensor(1, U)].read()).all()


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


# ---------------------------------------------------------------------------------------------------------------------
# Bad input


def fails(status: int, *messages: str) -> None:
    text = str(ob.last_error())
    assert status == -1 and all(message in text for message in messages), (status, text)


def forward(p: Any, cache: Any = None, capacity: int = 0) -> int:
    return capi.BNNSDirectApplyLSTMBatchTrainingCaching(p, None, cache, capacity)


SCALARS = [
    ({"hidden_size": 0}, "hidden_size is 0"),
    ({"input_size": 0}, "input_size is 0"),
    ({"batch_size": 0}, "batch_size is 0"),
    ({"num_layers": 0}, "num_layers is 0"),
    ({"seq_len": 0}, "seq_len is 0"),
    ({"hidden_size": 2**40}, "more memory than any machine"),
    ({"dropout": 1.0}, "dropout is 1"),
    ({"dropout": -0.1}, "dropout is -0.1"),
    ({"dropout": float("nan")}, "dropout is nan"),
    ({"lstm_flags": 7}, "lstm_flags is 0x7"),
    ({"lstm_flags": 0, "hidden_activation": capi.BNNSActivation(function=14)}, "cannot be fused"),
    ({"hidden_size": 7}, "input_descriptor.hidden_desc is 4DFirstMajor size (2, 1, 3, 6)", "(2, 1, 3, 7)"),
    ({"input_size": 4}, "input_descriptor.data_desc is 3DFirstMajor size (4, 3, 5)", "Set size to (4, 3, 4)"),
    ({"batch_size": 2}, "input_descriptor.data_desc is", "Set size to (4, 2, 5)"),
    ({"seq_len": 3}, "Set size to (3, 3, 5)"),
    ({"num_layers": 3}, "hidden_desc is", "(3, 1, 3, 6)"),
    ({"lstm_flags": 3}, "hidden_desc is", "(2, 2, 3, 6)"),
]


@pytest.mark.parametrize("change", SCALARS, ids=lambda c: "-".join(map(str, c[0])))
def test_scalars_that_are_wrong_or_contradict_descriptors(change: tuple[Any, ...]) -> None:
    run = LstmRun(LstmCase("bad", 4, 3, 5, 6, layers=2))
    for name, value in change[0].items():
        setattr(run.params, name, value)
    fails(forward(run.params), "BNNSDirectApplyLSTMBatchTrainingCaching: ", *change[1:])
    for memory in run.outputs.values():
        memory.storage.assert_unchanged("output")


def test_tensors_that_are_missing_short_or_of_another_kind() -> None:
    case = LstmCase("bad", 4, 3, 5, 6, layers=2, directions=2)
    make = lambda: LstmRun(case).params  # noqa: E731
    p = make()
    p.input_descriptor.data_desc.data = None
    fails(forward(p), "input_descriptor.data_desc.data is NULL")
    p = make()
    p.candidate_gate.hw_desc.data = None
    fails(forward(p), "candidate_gate.hw_desc.data is NULL")
    p = make()
    p.output_gate.iw_desc[1].data = None
    fails(
        forward(p), "output_gate.iw_desc[1].data is NULL", "layers 1 to 1, which read 12 values", "iw_desc[0] is for 5"
    )
    p = make()
    p.forget_gate.b_desc.data = np.zeros(3, np.float32)
    fails(forward(p), "forget_gate.b_desc.data holds 12 bytes")
    p = make()
    p.input_gate.cw_desc = capi.BNNSNDArrayDescriptor(layout=0x40001, data=np.zeros(1, np.float32), data_type=0x10020)
    fails(forward(p), "input_gate.cw_desc.layout is")
    p = make()
    p.output_descriptor.data_desc.data_type = 0
    fails(forward(p), "output_descriptor.data_desc.data_type is 0x0")
    p = make()
    p.output_descriptor.hidden_desc.data = p.output_descriptor.cell_state_desc.data
    fails(forward(p), "share memory")
    read_only = np.zeros(case.steps * case.batch * 12, np.float32)
    read_only.flags.writeable = False
    p = make()
    p.output_descriptor.data_desc.data = read_only
    fails(forward(p), "read-only")
    fails(forward(None), "layer_params is NULL")
    with pytest.raises(TypeError):
        forward(capi.BNNSLayerParametersFullyConnected())
    for sizes, message in (([3, 3, 1], "each of the 4 steps"), ([3, 4, 1, 1], "step 1 a batch of 4"), ([-1] * 4, "-1")):
        p = make()
        p.sequence_descriptor = capi.BNNSNDArrayDescriptor(
            layout=0x10000, size=(len(sizes),), data=np.array(sizes, np.int32), data_type=capi.BNNSDataTypeInt32
        )
        fails(forward(p), "sequence_descriptor", message)
    p.sequence_descriptor.data_type = capi.BNNSDataTypeFloat32
    p.sequence_descriptor.data = np.zeros(4, np.float32)
    fails(forward(p), "batch sizes are integers")


def test_caches_that_are_wrong(engine: str) -> None:
    case = LstmCase("bad", 4, 3, 5, 6, layers=2, dropout=0.25)
    run = LstmRun(case)
    run.forward()
    dx = Memory(case, X)
    delta = params(case, {Y: Memory(case, Y, run.values[100 + Y]).descriptor(), X: dx.descriptor()})

    def backward(cache: Any, capacity: int | None = None, p: Any = run.params, d: Any = delta) -> int:
        return capi.BNNSDirectApplyLSTMBatchBackward(p, d, None, cache, cache.nbytes if capacity is None else capacity)

    assert run.cache is not None
    needed = run.cache.nbytes
    fails(backward(run.cache, needed - 1), f"is {needed - 1} bytes, but this LSTM needs {needed}")
    fails(backward(run.cache[:-1], needed), "holds")
    fails(backward(np.zeros(needed, np.uint8)), "does not hold a training cache")
    for other in (replace(case, dropout=0.5), replace(case, batch_sizes=(3, 3, 3, 3))):
        stranger = LstmRun(other)
        stranger.forward()
        assert stranger.cache is not None
        cache = np.zeros(max(needed, stranger.cache.nbytes), np.uint8)
        cache[: stranger.cache.nbytes] = stranger.cache
        fails(backward(cache), "holds the cache of another LSTM")
    fails(forward(run.params, run.memory[X].storage.elements, needed), "training_cache_ptr holds")
    with pytest.raises(TypeError):
        forward(run.params, run.cache, 1.5)  # type: ignore[arg-type]
    strided = np.zeros(2 * needed, np.uint8)[::2]
    fails(forward(run.params, strided, needed), "not C-contiguous")
    dx.storage.assert_unchanged("dx")


def test_deltas_that_are_wrong(engine: str) -> None:
    case = LstmCase("bad", 4, 3, 5, 6)
    run = LstmRun(case)
    dx, dy = Memory(case, X), Memory(case, Y, run.values[100 + Y])

    def backward(d: Any) -> int:
        return capi.BNNSDirectApplyLSTMBatchBackward(run.params, d, None, None, 0)

    def make(**changes: Any) -> Any:
        d = params(case, {Y: dy.descriptor(), X: dx.descriptor()})
        for name, value in changes.items():
            setattr(d, name, value)
        return d

    fails(backward(make(hidden_size=7)), "layer_delta_params.hidden_size is 7, but layer_params.hidden_size is 6")
    fails(backward(make(lstm_flags=3)), "layer_delta_params.lstm_flags is BNNSLayerFlagsLSTMBidirectional")
    fails(backward(params(case, {X: dx.descriptor()})), "no gradient arrives")
    fails(backward(params(case, {Y: dy.descriptor(), X: dx.descriptor(2)})), "input_descriptor.data_desc.flags is 2")
    short = make()
    short.input_descriptor.data_desc.data = np.zeros(3, np.float32)
    fails(backward(short), "layer_delta_params.input_descriptor.data_desc.data holds 12 bytes")
    wrong = make()
    wrong.input_descriptor.data_desc.size = (4, 3, 6)
    fails(backward(wrong), "layer_delta_params.input_descriptor.data_desc is", "Set size to (4, 3, 5)")
    half = make()
    half.output_descriptor.data_desc.data_type = FLOAT16
    half.output_descriptor.data_desc.data = np.zeros(72, np.float16)
    fails(backward(half), "training works on Float32")
    both = make()
    both.input_descriptor.hidden_desc = Memory(case, H0).descriptor()
    both.input_descriptor.cell_state_desc = both.input_descriptor.hidden_desc
    fails(backward(both), "share memory")
    fails(backward(None), "layer_delta_params is NULL")
    dx.storage.assert_unchanged("dx")
    blank = make(input_size=0, hidden_size=0, batch_size=0, num_layers=0, seq_len=0, lstm_flags=0)
    assert backward(blank) == 0, ob.last_error()
    compare_gradients(case, {X: dx}, case.expected_gradients(run.values, [Y]))


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


# ---------------------------------------------------------------------------------------------------------------------
# The layer


def layer_of(case: LstmCase, values: dict[int, Array], **options: Any) -> ob.LSTMLayer:
    def weights(tensor: int, first: bool = False) -> Array | None:
        if gate_tensor(0, tensor) not in values:
            return None
        joined = np.stack([np.float32(values[gate_tensor(g, tensor)]) for g in range(4)])
        return joined[:, 0] if first else joined

    return ob.LSTMLayer(
        input_weights=weights(W0, True), deep_input_weights=weights(W1), hidden_weights=weights(U),
        peephole_weights=weights(P), bias=weights(4), dropout=case.dropout, **options,
    )  # fmt: skip


LAYERS = [
    c for c in SHAPES if c.activations is None and c.id not in ("some-bias", "peepholes-some") and not c.one_piece
]


@pytest.mark.parametrize("case", LAYERS, ids=lambda c: c.id)
def test_layer(case: LstmCase, engine: str) -> None:
    """The layer gives what the calls give."""
    values = case.values()
    layer = layer_of(case, values)
    x, h, c = (None if values.get(i) is None else np.float32(values[i]) for i in (X, H0, C0))
    result = layer.apply(x, h, c, phase=ob.LearningPhase.TRAINING, seed=7, batch_sizes=case.batch_sizes)
    keep = None
    if case.dropout:
        shape = (case.layers - 1, case.steps, case.batch, case.directions * case.hidden)
        keep = uniform(Stream(7), int(np.prod(shape))).reshape(shape) >= float(np.float32(case.dropout))
    compare_outputs(case, {Y: result.output, HN: result.hidden, CN: result.cell}, values, keep)
    dy, dh, dc = (np.float32(values[100 + i]) for i in OUTPUTS)
    found = layer.apply_backward(
        x, h, c, output_gradient=dy, final_hidden_gradient=dh, final_cell_gradient=dc, cache=result.cache,
        batch_sizes=case.batch_sizes,
    )  # fmt: skip
    expected = case.expected_gradients(values, keep=keep)
    named = {"input_weights": W0, "deep_input_weights": W1, "hidden_weights": U, "peephole_weights": P, "bias": 4}
    pairs = [(found.input, expected[X]), (found.initial_hidden, expected[H0]), (found.initial_cell, expected[C0])]
    for name, tensor in named.items():
        gradient = getattr(found, name)
        if gradient is not None:
            pairs.append((gradient, np.stack([expected[gate_tensor(g, tensor)] for g in range(4)])))
    for ours, theirs in pairs:
        bound = tolerance(theirs, case.steps * (case.batch + case.hidden))
        assert_within(np.float64(ours).reshape(theirs.shape), theirs, bound, case.id)
    plain = layer.apply(x, h, c, batch_sizes=case.batch_sizes)
    compare_outputs(case, {Y: plain.output, HN: plain.hidden, CN: plain.cell}, values, None)
    assert plain.cache is None
    cache = np.zeros(layer.cache_bytes(case.steps, case.batch, case.batch_sizes), np.uint8)
    assert (
        layer.apply(x, h, c, phase=ob.LearningPhase.TRAINING, cache=cache, batch_sizes=case.batch_sizes).cache is cache
    )


@pytest.mark.parametrize("case", [c for c in LAYERS if c.batch_sizes is None and c.hidden < 20], ids=lambda c: c.id)
@pytest.mark.covers("lstm.dropout")
def test_gradcheck(case: LstmCase, engine: str) -> None:
    report = ob.gradcheck(layer_of(case, case.values()), verbose=False, directions=1)
    assert report.passed, str(report)
    assert {"input", "initial_hidden", "initial_cell", "input_weights"} <= {row.name for row in report.rows}


def test_layer_options(engine: str) -> None:
    case = LstmCase("options", 4, 3, 5, 6)
    values = case.values()
    functions = (
        ob.ActivationFunction.hard_sigmoid(alpha=0.2, beta=0.5), ob.ActivationFunction.sigmoid(),
        ob.ActivationFunction.tanh(), ob.ActivationFunction.softmax(), ob.ActivationFunction.softsign(),
    )  # fmt: skip
    layer = layer_of(case, values, activations=functions)
    assert ob.gradcheck(layer, np.float32(values[X]), verbose=False).passed
    x = np.float32(values[X])
    dy = np.float32(values[100 + Y])
    whole = layer.apply_backward(x, output_gradient=dy)
    into = np.ones_like(whole.hidden_weights)
    some = layer.apply_backward(
        x,
        output_gradient=dy,
        accumulate=True,
        generating_hidden_weights_gradient=into,
        generating_bias_gradient=ob.skip,
    )
    assert some.hidden_weights is into and some.bias is None and some.peephole_weights is None
    np.testing.assert_allclose(into, whole.hidden_weights + 1, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(some.input, whole.input, rtol=1e-6)
    out = np.empty((4, 3, 1, 6), np.float32)
    assert layer.apply(x, output=out).output is out
    client = capi.BNNSFilterParameters(flags=capi.BNNSFlags.BNNSFlagsUseClientPtr)
    w, u = np.zeros((4, 1, 2, 3), np.float32), np.zeros((4, 1, 1, 2, 2), np.float32)
    followed, copied = (ob.LSTMLayer(input_weights=w, hidden_weights=u, filter_parameters=f) for f in (client, None))
    w += 1.0
    one = np.ones((1, 1, 3), np.float32)
    assert followed.apply(one).output.any() and not copied.apply(one).output.any()


def _small_layer(seed: int, **options: Any) -> ob.LSTMLayer:
    rng = np.random.default_rng(seed)
    shapes = {"input_weights": (4, 2, 5, 3), "deep_input_weights": (4, 1, 2, 5, 10), "hidden_weights": (4, 2, 2, 5, 5),
              "bias": (4, 2, 2, 5)}  # fmt: skip
    return ob.LSTMLayer(**{name: rng.standard_normal(s, np.float32) for name, s in shapes.items()}, **options)


def _random_call(rng: np.random.Generator, layer: ob.LSTMLayer) -> list[Array | None]:
    """Forward and backward with sizes, states, gradients and flags as they come."""
    steps, batch = (int(n) for n in rng.integers(1, 5, 2))
    x = rng.standard_normal((steps, batch, 3), np.float32)
    states = [rng.standard_normal((2, 2, batch, 5), np.float32) if rng.random() < 0.6 else None for _ in range(2)]
    sizes = sorted(rng.integers(1, batch + 1, steps).tolist(), reverse=True) if rng.random() < 0.3 else None
    if sizes is not None:
        sizes[0] = batch
    phase = ob.LearningPhase.TRAINING if rng.random() < 0.7 else ob.LearningPhase.INFERENCE
    made = layer.apply(x, *states, phase=phase, batch_sizes=sizes, seed=7)
    names = [name for name in ob.LSTMGradients._fields if name not in ("peephole_weights",) and rng.random() < 0.5]
    gradients = layer.apply_backward(
        x, *states, output_gradient=rng.standard_normal((steps, batch, 2, 5), np.float32), cache=made.cache,
        batch_sizes=sizes, accumulate=bool(rng.random() < 0.5), **{f"generating_{name}_gradient": ob.skip for name in names},
    )  # fmt: skip
    return [*made[:3], *gradients]


@pytest.mark.parametrize("dropout", [0.0, 0.25])
def test_one_layer_in_many_calls(dropout: float) -> None:
    """What a layer keeps from call to call shows in no result."""
    layer = _small_layer(3, dropout=dropout)
    for seed in range(60):
        again = _random_call(np.random.default_rng(seed), layer)
        alone = _random_call(np.random.default_rng(seed), _small_layer(3, dropout=dropout))
        for a, b in zip(again, alone, strict=True):
            assert (a is None) == (b is None)
            if a is not None and b is not None:
                assert_bitwise(a, b, f"call {seed}")


def test_one_layer_on_several_threads() -> None:
    layer = _small_layer(3)
    expected = [_random_call(np.random.default_rng(seed), _small_layer(3)) for seed in range(40)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda seed: _random_call(np.random.default_rng(seed), layer), range(40)))
    for one, other in zip(found, expected, strict=True):
        for a, b in zip(one, other, strict=True):
            assert (a is None and b is None) or np.array_equal(a, b)  # type: ignore[arg-type]


def test_a_layer_lets_go_of_its_arguments() -> None:
    layer, x = _small_layer(3), np.ones((2, 1, 3), np.float32)
    made = layer.apply(x, phase=ob.LearningPhase.TRAINING)
    gradients = layer.apply_backward(x, output_gradient=np.ones_like(made.output), cache=made.cache)
    alive = [weakref.ref(array) for array in (x, made.output, made.cache, gradients.input, gradients.bias)]
    del x, made, gradients
    assert [ref() for ref in alive] == [None] * len(alive)


def test_layers_that_are_wrong() -> None:
    w, u = np.zeros((4, 1, 6, 5), np.float32), np.zeros((4, 2, 1, 6, 6), np.float32)
    deep = np.zeros((4, 1, 1, 6, 6), np.float32)
    make = ob.LSTMLayer
    with pytest.raises(ob.LayerCreationError, match="deep_input_weights is None, but hidden_weights has 2 layers"):
        make(input_weights=w, hidden_weights=u)
    with pytest.raises(ob.LayerCreationError, match=r"hidden_weights has shape \(4, 2, 1, 6, 5\)"):
        make(input_weights=w, hidden_weights=u[..., :5], deep_input_weights=deep)
    with pytest.raises(ob.LayerCreationError, match="float64"):
        make(input_weights=w.astype(np.float64), hidden_weights=u, deep_input_weights=deep)
    with pytest.raises(ob.LayerCreationError, match="dropout is 1"):
        make(input_weights=w, hidden_weights=u, deep_input_weights=deep, dropout=1.0)
    with pytest.raises(ob.LayerCreationError, match="five ActivationFunctions"):
        make(input_weights=w, hidden_weights=u, deep_input_weights=deep, activations=[ob.ActivationFunction.tanh()])
    layer = make(input_weights=w, hidden_weights=u, deep_input_weights=deep)
    x = np.zeros((4, 3, 5), np.float32)
    with pytest.raises(ob.LayerApplyError, match=r"input has shape \(4, 3, 6\), but \(T, N, 5\)"):
        layer.apply(np.zeros((4, 3, 6), np.float32))
    with pytest.raises(ob.LayerApplyError, match=r"initial_hidden has shape \(1, 3, 6\), but \(2, 1, 3, 6\)"):
        layer.apply(x, np.zeros((1, 3, 6), np.float32))
    with pytest.raises(ob.LayerApplyError, match="no gradient arrives"):
        layer.apply_backward(x)
    with pytest.raises(ob.LayerApplyError, match=r"cache is 10 bytes, but this LSTM needs \d+"):
        layer.apply(x, phase=ob.LearningPhase.TRAINING, cache=np.zeros(10, np.uint8))
    with pytest.raises(ob.LayerApplyError, match="does not hold a training cache"):
        empty = np.zeros(layer.cache_bytes(4, 3), np.uint8)
        layer.apply_backward(x, output_gradient=np.zeros((4, 3, 1, 6), np.float32), cache=empty)
    with pytest.raises(ob.LayerApplyError, match="this layer has no bias"):
        layer.apply_backward(
            x, output_gradient=np.zeros((4, 3, 1, 6), np.float32), generating_bias_gradient=np.zeros(3, np.float32)
        )
    layer.destroy()
    with pytest.raises(ob.LayerApplyError, match="destroyed"):
        layer.apply(x)


def test_fast_calls_decline_what_is_not_simple() -> None:
    """After a description has been registered: other memory, collisions and short buffers still get their checks."""
    case = LstmCase("fast", 4, 3, 5, 6)
    run = LstmRun(case)
    run.forward()
    expected = run.forward()  # now a fast call
    p = run.params
    assert filters.run_fast(p, None, None, None, 0)
    p.input_descriptor.data_desc.data = run.memory[X].storage.elements[:-1]
    assert not filters.run_fast(p, None, None, None, 0)
    fails(forward(p), "holds 236 bytes")
    p.input_descriptor.data_desc.data = run.memory[X].storage.elements.copy()
    assert forward(p) == 0
    np.testing.assert_array_equal(run.outputs[Y].read(), expected[Y])
    p.output_descriptor.hidden_desc.data = run.memory[H0].storage.elements
    assert not filters.run_fast(p, None, None, None, 0)
    assert forward(p) == 0
    np.testing.assert_array_equal(run.memory[H0].read(), expected[HN])
    p.hidden_size = 7
    assert not filters.run_fast(p, None, None, None, 0)
    with ob.engine("reference"):
        p.hidden_size = 6
        assert not filters.run_fast(p, None, None, None, 0)
