"""Programs whose native calls run in one go: bitwise what the calls give one by one, whatever comes in between."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import openbnns as bn
from helpers import assert_bitwise
from openbnns import capi, engines, nn
from openbnns.graph.calls import CallList
from openbnns.graph.operations import Linear
from openbnns.graph.program import Program


class Moves(nn.Module):
    """Values taken apart, put together, repeated and used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(6), nn.Linear(3)

    def forward(self, x: Any) -> Any:
        y = self.first(x)
        y = nn.Concatenate()(y[:, ::2], x, y) + nn.Concatenate()(y, y[:, 3:], x)
        return self.last(y) + y[:, :1]


class Masked(nn.Module):
    """Attention with every kind of mask that stays the same, and dropout, once as a layer and once taken apart."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        self.layer = nn.MultiheadAttention(6, 2, dropout, causal=True)
        self.other = nn.MultiheadAttention(6, 2, dropout)
        self.flags, self.numbers = np.eye(4, k=1, dtype=np.bool_), np.ones((2, 4, 4), np.float32)
        self.heads, self.last = nn.Linear(18), nn.Linear(3)

    def forward(self, x: Any) -> Any:
        y = self.other(self.layer(x), attn_mask=self.flags)
        y = y + self.other(y, attn_mask=self.numbers)
        parts = [part.reshape(x.shape[0], 4, 2, 3).transpose(1, 2) for part in self.heads(y).chunk(3, -1)]
        z = nn.functional.scaled_dot_product_attention(*parts, dropout_p=self.dropout, is_causal=True)
        return self.last(z.transpose(1, 2).reshape(x.shape[0], 24))


class Cells(nn.Module):
    """Recurrent layers that begin with states of others."""

    def __init__(self) -> None:
        super().__init__()
        self.gru, self.rnn, self.lstm = nn.GRU(4), nn.RNN(4), nn.LSTM(4)

    def forward(self, x: Any) -> Any:
        y, h = self.gru(x)
        y, last = self.rnn(y, h)
        y, _ = self.lstm(y, (last, h))
        return y[:, -1, :3]


def network(kind: str) -> Any:
    if kind == "dense":
        layers = [nn.Linear(9), nn.ReLU(), nn.Dropout(0.3), nn.LayerNorm(), nn.Linear(7), nn.Tanh(), nn.Linear(3)]
    elif kind == "images":
        layers = [
            nn.Conv2d(4, 3, padding=1), nn.BatchNorm2d(), nn.ReLU(), nn.Conv2d(3, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
            nn.Linear(3),
        ]  # fmt: skip
    elif kind == "pooled":
        layers = [nn.Conv2d(4, 3, padding=1), nn.BatchNorm2d(), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(3)]
    elif kind == "residual":
        layers = [nn.Residual(nn.Linear(6), nn.Sigmoid()), nn.Linear(3)]
    elif kind == "encoder":
        layers = [nn.TransformerEncoderLayer(6, 2, 9, dropout=0.0) for _ in range(2)]
        layers += [nn.Flatten(), nn.Linear(3)]
    elif kind in ("masked", "dropped"):
        layers = [Masked(0.4 if kind == "dropped" else 0.0)]
    elif kind == "lstm":
        layers = [nn.LSTM(5, num_layers=2, bidirectional=True), nn.Flatten(), nn.Linear(3)]
    elif kind == "cells":
        layers = [Cells()]
    elif kind == "words":
        layers = [nn.Embedding(11, 4), nn.Flatten(), nn.Linear(3)]
    else:
        layers = [Moves()]
    return nn.Sequential(*layers)


SHAPES = {
    "dense": (6,), "images": (2, 7, 8), "pooled": (2, 13, 14), "residual": (6,), "encoder": (4, 6), "lstm": (4, 3),
    "words": (5,), "moves": (6,), "cells": (4, 3), "masked": (4, 6), "dropped": (4, 6),
}  # fmt: skip


def samples(kind: str, batch: int, rng: np.random.Generator) -> Any:
    shape = (batch, *SHAPES[kind])
    return rng.integers(0, 11, shape) if kind == "words" else rng.normal(size=shape).astype(np.float32)


def made(kind: str) -> Any:
    net = network(kind)
    net(samples(kind, 2, np.random.default_rng(5)))
    return net


def all_steps(program: Program) -> tuple[CallList, CallList, CallList]:
    return program._forward, program._backward, program._backward_of_parameters


def one_by_one(program: Program) -> Program:
    """The program with every call made by Python."""
    for steps in all_steps(program):
        steps._left = 0
    return program


def twins(kind: str, batch: int) -> tuple[Program, Program, Any]:
    """Two programs of networks with the same weights: as they are, and with every call made by Python."""
    nets = [made(kind), made(kind)]
    for mine, other in zip(nets[0].parameters(), nets[1].parameters(), strict=True):
        other.data[...] = mine.data
    programs = [net.train().program(batch, training=True) for net in nets]
    return programs[0], one_by_one(programs[1]), samples(kind, batch, np.random.default_rng(5))


def step(program: Program, x: Any, dy: Any, number: int) -> dict[str, Any]:
    program.fill(0, x)
    program.seed(3, number)
    results = {"y": program.forward().copy()}
    if program.output_gradient is not None:
        program.output_gradient[...] = dy
    program.backward(input_gradients=False)
    return results | {f"gradient {i}": p.grad.copy() for i, p in enumerate(program.trained)}


def replays(program: Program) -> list[int]:
    return [len(calls) for replay, calls in program._forward._parts if replay is not None]


@pytest.mark.parametrize("kind", SHAPES)
def test_steps_are_bitwise_the_same(kind: str) -> None:
    replayed, single, _ = twins(kind, 5)
    rng = np.random.default_rng(1)
    for number in range(5):
        dy = rng.normal(size=replayed.output.shape).astype(np.float32)
        inputs = samples(kind, 5, rng)
        actual, expected = (step(program, inputs, dy, number) for program in (replayed, single))
        for name, values in expected.items():
            assert_bitwise(actual[name], values, f"{kind}, step {number}: {name}")
    assert not replays(single)
    for steps in (replayed._forward, replayed._backward_of_parameters):
        assert [calls for replay, calls in steps._parts if replay is None] == [], "a call that takes Python"
        assert len(steps._parts) == 1, "one crossing for each pass"


@pytest.mark.parametrize("kind", ["images", "pooled", "encoder", "lstm", "cells", "masked", "dropped"])
def test_programs_of_one_network_take_turns(kind: str) -> None:
    """Values kept for the backward pass belong to their program, even if others run the layers in between."""
    nets = [made(kind), made(kind)]
    for mine, other in zip(nets[0].parameters(), nets[1].parameters(), strict=True):
        other.data[...] = mine.data
    rng = np.random.default_rng(2)
    programs = [[net.train().program(batch, training=True) for batch in (5, 3)] for net in nets]
    for program in programs[1]:
        one_by_one(program)
    for number in range(6):
        which = number % 2 if number < 4 else 0
        x, dy = samples(kind, (5, 3)[which], rng), rng.normal(size=programs[0][which].output.shape).astype(np.float32)
        actual, expected = (step(programs[i][which], x, dy, number) for i in range(2))
        for name, values in expected.items():
            assert_bitwise(actual[name], values, f"{kind}, step {number}: {name}")


@pytest.mark.parametrize("shape", [(5,), (3, 7), (2, 33, 9)])
def test_places_of_extremes_are_found_natively(shape: tuple[int, ...]) -> None:
    class Extremes(nn.Module):
        def forward(self, x: Any) -> Any:
            return nn.functional.argmax(x, 1), nn.functional.argmin(x, len(shape))

    net, rng = Extremes().eval(), np.random.default_rng(4)
    for _ in range(5):
        x = rng.integers(-4, 4, (3, *shape)).astype(np.float32)  # some are equal: the first of them counts
        for y, expected in zip(net(x), (x.argmax(1), x.argmin(-1)), strict=True):
            assert y.dtype == np.int64
            np.testing.assert_array_equal(y, expected)
    program = net.program(3, training=False)
    program.fill(0, x)
    assert "0 of them by Python" in str(program.describe())


def test_an_index_outside_is_refused_in_every_step() -> None:
    """A replay reads what the indices are now, as the call itself does."""
    program, _, x = twins("words", 4)
    dy = np.ones(program.output.shape, np.float32)
    for number in range(3):
        step(program, x, dy, number)
    assert replays(program)
    x[2, 1] = 11
    with pytest.raises(Exception, match="11"):
        step(program, x, dy, 3)
    x[2, 1] = 10
    step(program, x, dy, 4)


def test_calls_that_decline_are_recorded_again() -> None:
    replayed, single, x = twins("residual", 4)
    dy = np.ones(replayed.output.shape, np.float32)
    for number in range(6):
        if number == 2:
            for operation in replayed.graph.operations:
                if isinstance(operation, Linear):
                    for made in operation.all_made():
                        made.layer.bnns_filter.redeclare()
        actual, expected = (step(program, x, dy, number) for program in (replayed, single))
        for name, values in expected.items():
            assert_bitwise(actual[name], values, f"step {number}: {name}")
    assert all(steps._repeat() for steps in (replayed._forward, replayed._backward_of_parameters)), "nothing declines"


@pytest.fixture
def interrupts() -> Iterator[None]:
    """SIGINT raises KeyboardInterrupt, also in processes that were started with it ignored, as in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interrupts")
@pytest.mark.parametrize("kind", ["encoder", "lstm", "pooled", "dropped"])
def test_interrupts_leave_a_program_that_works(kind: str) -> None:
    replayed, single, x = twins(kind, 64)
    dy = np.random.default_rng(3).normal(size=replayed.output.shape).astype(np.float32)
    for number in range(3):
        step(replayed, x, dy, number), step(single, x, dy, number)
    for delay in (0.02, 0.031, 0.043):
        timer = threading.Timer(delay, os.kill, (os.getpid(), signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            timer.start()
            while True:
                step(replayed, x, dy, 3)
        timer.join()
    actual, expected = step(replayed, x, dy, 4), step(single, x, dy, 4)
    for name, values in expected.items():
        assert_bitwise(actual[name], values, f"{kind}: {name}")


def test_programs_in_threads() -> None:
    kinds = ["encoder", "lstm", "pooled", "moves"]

    def train(kind: str) -> None:
        replayed, single, x = twins(kind, 3)
        dy = np.random.default_rng(3).normal(size=replayed.output.shape).astype(np.float32)
        for number in range(30):
            actual, expected = (step(program, x, dy, number) for program in (replayed, single))
            for name, values in expected.items():
                assert_bitwise(actual[name], values, f"{kind}, step {number}: {name}")

    with ThreadPoolExecutor(len(kinds)) as pool:
        list(pool.map(train, kinds))


@pytest.mark.parametrize("kind", ["dense", "pooled", "encoder", "lstm", "moves", "masked", "dropped"])
def test_other_engines_and_strict_mode_take_over(kind: str) -> None:
    replayed, single, x = twins(kind, 4)
    dy = np.random.default_rng(2).normal(size=replayed.output.shape).astype(np.float32)
    step(replayed, x, dy, 0), step(single, x, dy, 0)
    for number, context in enumerate((bn.engine("reference"), bn.strict(), bn.engine("native")), 1):
        with context:
            actual, expected = (step(program, x, dy, number) for program in (replayed, single))
        for name, values in expected.items():
            assert_bitwise(actual[name], values, name)


def test_a_program_that_first_runs_on_the_reference_engine_is_recorded_later() -> None:
    replayed, _, x = twins("dense", 4)
    dy = np.ones(replayed.output.shape, np.float32)
    with bn.engine("reference"):
        step(replayed, x, dy, 0)
    for number in (1, 2):
        assert not replayed._forward._parts
        step(replayed, x, dy, number)
    assert replays(replayed)


def test_a_call_that_declines_is_named_and_the_rest_follows() -> None:
    """The filter of the second of three calls ends: Python makes that call, native code the others."""
    rng = np.random.default_rng(4)
    arrays = [rng.normal(size=(3, 4)).astype(np.float32) for _ in range(4)]
    layers = [bn.FullyConnectedLayer(weights=rng.normal(size=(4, 4)).astype(np.float32)) for _ in range(3)]
    replay = engines._core.CallList(arrays)
    for layer, x, y in zip(layers, arrays, arrays[1:], strict=False):
        assert replay.place(lambda layer=layer, x=x, y=y: layer.apply(x, y))
    for layer, x, y in zip(layers, arrays, arrays[1:], strict=False):
        layer.apply(x, y)
    expected = arrays[3].copy()
    arrays[3][:] = 0
    assert replay.run() == 3
    assert_bitwise(arrays[3], expected, "y")
    layers[1]._filter.redeclare()
    arrays[3][:] = 0
    assert replay.run() == 1 and not arrays[3].any()
    assert replay.run(2) == 3
    assert_bitwise(arrays[3], expected, "y")


def test_only_one_native_call_on_lasting_memory_is_kept() -> None:
    rng = np.random.default_rng(4)
    x, y = (rng.normal(size=(3, 4)).astype(np.float32) for _ in range(2))
    layer = bn.FullyConnectedLayer(weights=rng.normal(size=(4, 4)).astype(np.float32))
    replay = engines._core.CallList([x, y])
    assert not replay.place(lambda: layer.apply(x)), "a new array every time"
    assert not replay.place(lambda: (layer.apply(x, y), layer.apply(y, x))), "two calls"
    assert not replay.place(lambda: None), "nothing native"
    assert not replay.place(lambda: layer.apply(x.astype(np.float16).astype(np.float32), y)), "a copy of the input"
    assert not replay.place(lambda: 1 // 0), "an error"
    assert replay.run() == 0
    assert replay.place(lambda: layer.apply(x, y)) and replay.run() == 1


def test_functions_without_a_filter_are_kept_once_they_are_known() -> None:
    rng = np.random.default_rng(6)
    x, y = (rng.normal(size=(3, 4)).astype(np.float32) for _ in range(2))
    given = [bn.Shape([4, 3]).descriptor(data=array) for array in (y, x)]
    replay = engines._core.CallList([x, y])
    engines._core.forget_calls()

    def call() -> None:
        assert capi.BNNSTranspose(given[0], bn.Shape([4, 3]).descriptor(data=x), 0, 0, None) == 0

    assert not replay.place(call), "the Python path"
    call()
    assert replay.place(call), "what the Python path has left"
    x[...] = rng.normal(size=(3, 4))
    assert replay.run() == 1
    assert_bitwise(y, x, "a copy")
    engines._core.forget_calls()
    assert replay.run() == 0, "what decides about calls has changed"


def test_steps_of_optimizers_are_kept_with_their_numbers() -> None:
    rng = np.random.default_rng(7)
    w, g, v = (rng.normal(size=(3, 4)).astype(np.float32) for _ in range(3))
    sgd = bn.SGDMomentumOptimizer(learning_rate=0.1, momentum=0.9)
    replay = engines._core.CallList([w, g, v])

    def call() -> None:
        sgd.step(parameters=[w], gradients=[g], accumulators=[v])

    before = w.copy(), v.copy()
    assert replay.place(call)
    assert_bitwise(w, before[0], "nothing is done yet")
    call(), call()
    expected = w.copy()
    w[...], v[...] = before
    assert replay.run() == 1 and replay.run() == 1
    assert_bitwise(w, expected, "w after two steps")
    with bn.engine("reference"):
        assert replay.run() == 0


def test_copies_of_arrays() -> None:
    """Any strides, also backwards and repeated; what does not fit is an error."""
    rng = np.random.default_rng(8)
    copy = engines._core.copy_array
    x = rng.normal(size=(4, 5, 6)).astype(np.float32)
    y = np.zeros((6, 3, 9), np.float32)
    target, source = y[::2, :, 1:7:3], x[3:0:-1, ::2, ::4][:, :3]
    copy(target, source[..., :2])
    expected = np.zeros_like(y)
    expected[::2, :, 1:7:3] = source[..., :2]
    assert_bitwise(y, expected, "strided")
    copy(y, np.broadcast_to(np.float32([2]), y.shape))
    assert (y == 2).all()
    copy(y[:0], x[:0, :3, :].repeat(2, 2)[..., :9])
    for wrong in (x[0], y.astype(np.float64), y.astype(np.int32)):
        with pytest.raises(ValueError, match="copy_array"):
            copy(y, wrong)
    y.flags.writeable = False
    with pytest.raises(TypeError, match="copy_array"):
        copy(y, y.copy())
