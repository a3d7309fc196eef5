"""LSTM called wrongly: a message, -1, nothing written; the layer raises."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import openbnns as ob
from bad_calls import assign, refused
from cases.lstm import H0, HN, LstmCase, LstmRun, Memory, X, Y, compare_gradients, params
from helpers import FLOAT16
from openbnns import capi
from openbnns.filters import lstm as filters

BAD = LstmCase("bad", 4, 3, 5, 6, layers=2, directions=2)


def fails(status: int, *texts: str) -> None:
    for text in texts:
        refused(status, re.escape(text))


def forward(p: Any, cache: Any = None, capacity: int = 0) -> int:
    return capi.BNNSDirectApplyLSTMBatchTrainingCaching(p, None, cache, capacity)


def read_only(count: int) -> Any:
    array = np.zeros(count, np.float32)
    array.flags.writeable = False
    return array


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
    assign(run.params, change[0])
    fails(forward(run.params), "BNNSDirectApplyLSTMBatchTrainingCaching: ", *change[1:])
    for memory in run.outputs.values():
        memory.storage.assert_unchanged("output")


def batch_sizes(values: Any, data_type: int = capi.BNNSDataTypeInt32) -> dict[str, Any]:
    sizes = capi.BNNSNDArrayDescriptor(layout=0x10000, size=(len(values),), data=values, data_type=data_type)
    return {"sequence_descriptor": sizes}


PEEPHOLES = capi.BNNSNDArrayDescriptor(layout=0x40001, data=np.zeros(1, np.float32), data_type=0x10020)
TENSORS: list[tuple[Any, ...]] = [
    ({"input_descriptor.data_desc.data": None}, "input_descriptor.data_desc.data is NULL"),
    ({"candidate_gate.hw_desc.data": None}, "candidate_gate.hw_desc.data is NULL"),
    ({"output_gate.iw_desc[1].data": None},
     "output_gate.iw_desc[1].data is NULL", "layers 1 to 1, which read 12 values", "iw_desc[0] is for 5"),
    ({"forget_gate.b_desc.data": np.zeros(3, np.float32)}, "forget_gate.b_desc.data holds 12 bytes"),
    ({"input_gate.cw_desc": PEEPHOLES}, "input_gate.cw_desc.layout is"),
    ({"output_descriptor.data_desc.data_type": 0}, "output_descriptor.data_desc.data_type is 0x0"),
    ({"output_descriptor.data_desc.data": read_only(4 * 3 * 12)}, "read-only"),
    (batch_sizes(np.int32([3, 3, 1])), "sequence_descriptor", "each of the 4 steps"),
    (batch_sizes(np.int32([3, 4, 1, 1])), "sequence_descriptor", "step 1 a batch of 4"),
    (batch_sizes(np.int32([-1] * 4)), "sequence_descriptor", "-1"),
    (batch_sizes(np.zeros(4, np.float32), capi.BNNSDataTypeFloat32), "batch sizes are integers"),
]  # fmt: skip


@pytest.mark.parametrize("case", TENSORS, ids=lambda case: case[1])
def test_tensors_that_are_missing_short_or_of_another_kind(case: tuple[Any, ...]) -> None:
    changes, *texts = case
    run = LstmRun(BAD)
    assign(run.params, changes)
    fails(forward(run.params), *texts)
    for memory in run.outputs.values():
        memory.storage.assert_unchanged("output")


def test_parameters_of_another_kind() -> None:
    fails(forward(None), "layer_params is NULL")
    with pytest.raises(TypeError):
        forward(capi.BNNSLayerParametersFullyConnected())


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


ONE = LstmCase("bad", 4, 3, 5, 6)


DELTAS: list[tuple[Any, ...]] = [
    ({"hidden_size": 7}, "layer_delta_params.hidden_size is 7, but layer_params.hidden_size is 6"),
    ({"lstm_flags": 3}, "layer_delta_params.lstm_flags is BNNSLayerFlagsLSTMBidirectional"),
    ({"output_descriptor.data_desc.data": None}, "there is no output gradient"),
    ({"input_descriptor.data_desc.flags": 2}, "input_descriptor.data_desc.flags is 2"),
    ({"input_descriptor.data_desc.data": np.zeros(3, np.float32)},
     "layer_delta_params.input_descriptor.data_desc.data holds 12 bytes"),
    ({"input_descriptor.data_desc.size": (4, 3, 6)},
     "layer_delta_params.input_descriptor.data_desc is", "Set size to (4, 3, 5)"),
    ({"output_descriptor.data_desc.data_type": FLOAT16, "output_descriptor.data_desc.data": np.zeros(72, np.float16)},
     "training works on Float32"),
]  # fmt: skip


def test_deltas_that_are_wrong(engine: str) -> None:
    run = LstmRun(ONE)
    dx, dy = Memory(ONE, X), Memory(ONE, Y, run.values[100 + Y])

    def backward(changes: dict[str, Any]) -> int:
        delta = params(ONE, {Y: dy.descriptor(), X: dx.descriptor()})
        assign(delta, changes)
        return capi.BNNSDirectApplyLSTMBatchBackward(run.params, delta, None, None, 0)

    for changes, *texts in DELTAS:
        fails(backward(changes), *texts)
    fails(capi.BNNSDirectApplyLSTMBatchBackward(run.params, None, None, None, 0), "layer_delta_params is NULL")
    dx.storage.assert_unchanged("dx")
    blank = dict.fromkeys(("input_size", "hidden_size", "batch_size", "num_layers", "seq_len", "lstm_flags"), 0)
    assert backward(blank) == 0, ob.last_error()
    compare_gradients(ONE, {X: dx}, ONE.expected_gradients(run.values, [Y]))


W, U = np.zeros((4, 1, 6, 5), np.float32), np.zeros((4, 2, 1, 6, 6), np.float32)
DEEP, INPUT, DY = (
    np.zeros((4, 1, 1, 6, 6), np.float32),
    np.zeros((4, 3, 5), np.float32),
    np.zeros((4, 3, 1, 6), np.float32),
)
LAYERS: list[tuple[dict[str, Any], str]] = [
    ({"deep_input_weights": None}, "deep_input_weights is None, but hidden_weights has 2 layers"),
    ({"hidden_weights": U[..., :5]}, r"hidden_weights has shape \(4, 2, 1, 6, 5\)"),
    ({"input_weights": W.astype(np.float64)}, "float64"),
    ({"dropout": 1.0}, "dropout is 1"),
    ({"activations": [ob.ActivationFunction.tanh()]}, "five ActivationFunctions"),
]
CALLS: list[tuple[Callable[[ob.LSTMLayer], Any], str]] = [
    (lambda layer: layer.apply(np.zeros((4, 3, 6), np.float32)), r"input has shape \(4, 3, 6\), but \(T, N, 5\)"),
    (lambda layer: layer.apply(INPUT, np.zeros((1, 3, 6), np.float32)),
     r"initial_hidden has shape \(1, 3, 6\), but this layer expects \(2, 1, 3, 6\)"),
    (lambda layer: layer.apply_backward(INPUT), "there is no output gradient"),
    (lambda layer: layer.apply(INPUT, phase=ob.LearningPhase.TRAINING, cache=np.zeros(10, np.uint8)),
     r"cache is 10 bytes, but this LSTM needs \d+"),
    (lambda layer: layer.apply_backward(INPUT, output_gradient=DY, cache=np.zeros(layer.cache_bytes(4, 3), np.uint8)),
     "does not hold a training cache"),
    (lambda layer: layer.apply_backward(INPUT, output_gradient=DY, generating_bias_gradient=np.zeros(3, np.float32)),
     "this layer has no bias"),
]  # fmt: skip


def layer(**changes: Any) -> ob.LSTMLayer:
    return ob.LSTMLayer(**{"input_weights": W, "hidden_weights": U, "deep_input_weights": DEEP} | changes)


@pytest.mark.parametrize(("changes", "message"), LAYERS)
def test_layers_that_are_wrong(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ob.LayerCreationError, match=message):
        layer(**changes)


@pytest.mark.parametrize(("call", "message"), CALLS)
def test_calls_of_layers_that_are_wrong(call: Callable[[ob.LSTMLayer], Any], message: str) -> None:
    with pytest.raises(ob.LayerApplyError, match=message):
        call(layer())


def test_a_destroyed_layer() -> None:
    gone = layer()
    gone.destroy()
    with pytest.raises(ob.LayerApplyError, match="destroyed"):
        gone.apply(INPUT)


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
