"""The LSTM layer: what the C calls give, gradients, options, and many calls of one layer."""

from __future__ import annotations

import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import openbnns as ob
from cases.lstm import (
    C0,
    CN,
    H0,
    HN,
    OUTPUTS,
    SHAPES,
    W0,
    W1,
    LstmCase,
    P,
    U,
    X,
    Y,
    compare_outputs,
    gate_tensor,
    tolerance,
)
from helpers import Array, assert_bitwise, assert_within
from openbnns import capi
from openbnns.parameters.random_numbers import Stream
from openbnns.reference.random_numbers import uniform


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
    backward = layer.apply_backward(
        x, h, c, output_gradient=dy, final_hidden_gradient=dh, final_cell_gradient=dc, cache=result.cache,
        batch_sizes=case.batch_sizes,
    )  # fmt: skip
    expected = case.expected_gradients(values, keep=keep)
    named = {"input_weights": W0, "deep_input_weights": W1, "hidden_weights": U, "peephole_weights": P, "bias": 4}
    pairs = [
        (backward.input, expected[X]),
        (backward.initial_hidden, expected[H0]),
        (backward.initial_cell, expected[C0]),
    ]
    for name, tensor in named.items():
        gradient = getattr(backward, name)
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
    """State that a layer keeps between calls does not affect results."""
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
        actual = list(pool.map(lambda seed: _random_call(np.random.default_rng(seed), layer), range(40)))
    for one, other in zip(actual, expected, strict=True):
        for a, b in zip(one, other, strict=True):
            assert (a is None and b is None) or np.array_equal(a, b)  # type: ignore[arg-type]


def test_a_layer_lets_go_of_its_arguments() -> None:
    layer, x = _small_layer(3), np.ones((2, 1, 3), np.float32)
    made = layer.apply(x, phase=ob.LearningPhase.TRAINING)
    gradients = layer.apply_backward(x, output_gradient=np.ones_like(made.output), cache=made.cache)
    alive = [weakref.ref(array) for array in (x, made.output, made.cache, gradients.input, gradients.bias)]
    del x, made, gradients
    assert [ref() for ref in alive] == [None] * len(alive)


def test_descriptions_of_other_batch_sizes_are_not_mixed_up() -> None:
    """Each list of sizes has a filter of its own, which is used again."""
    rng = np.random.default_rng(3)
    weights, recurrent, x = (
        rng.standard_normal(n).astype(np.float32) for n in ((4, 1, 5, 2), (4, 1, 1, 5, 5), (4, 3, 2))
    )
    layer = ob.LSTMLayer(input_weights=weights, hidden_weights=recurrent)
    lists = [[3, 3, 2, 1], None, [3, 1, 1, 1], [3, 3, 2, 1]]
    first = [layer.apply(x, batch_sizes=sizes) for sizes in lists]
    again = [layer.apply(x, batch_sizes=sizes) for sizes in reversed(lists)][::-1]
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a.output, b.output)
        np.testing.assert_array_equal(a.hidden, b.hidden)
    np.testing.assert_array_equal(first[0].output, first[3].output)
    for i, j in ((0, 1), (0, 2), (1, 2)):
        assert not np.array_equal(first[i].hidden, first[j].hidden)
