"""Programs whose native calls run in one go: bitwise what the calls give one by one, whatever comes in between."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import openbnns as bn
from helpers import assert_bitwise
from openbnns import engines, nn
from openbnns.nn._program import Program


def network(kind: str) -> Any:
    if kind == "dense":
        layers = [nn.Linear(9), nn.ReLU(), nn.Dropout(0.3), nn.LayerNorm(), nn.Linear(7), nn.Tanh(), nn.Linear(3)]
    elif kind == "images":
        layers = [
            nn.Conv2d(4, 3, padding=1), nn.BatchNorm2d(), nn.ReLU(), nn.Conv2d(3, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
            nn.Linear(3),
        ]  # fmt: skip
    else:
        layers = [nn.Residual(nn.Linear(6), nn.Sigmoid()), nn.Linear(3)]
    return nn.Sequential(*layers)


SHAPES = {"dense": (6,), "images": (2, 7, 8), "residual": (6,)}


def twins(kind: str, batch: int) -> tuple[Program, Program, Any]:
    """Two programs of networks with the same weights: as they are, and with every call made by Python."""
    x = np.random.default_rng(5).normal(size=(batch, *SHAPES[kind])).astype(np.float32)
    nets = [network(kind), network(kind)]
    programs = []
    for net in nets:
        net.build(SHAPES[kind]) if hasattr(net, "build") else net(x)
        programs.append(net.program(batch, training=True))
    for mine, other in zip(nets[0].parameters(), nets[1].parameters(), strict=True):
        other.data[...] = mine.data
    for steps in (programs[1]._forward, programs[1]._backward, programs[1]._backward_of_parameters):
        steps._run_first = lambda calls=steps.calls: [call() for call in calls]  # type: ignore[method-assign]
    return programs[0], programs[1], x


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
    replayed, single, x = twins(kind, 5)
    rng = np.random.default_rng(1)
    for number in range(5):
        dy = rng.normal(size=replayed.output.shape).astype(np.float32)
        inputs = rng.normal(size=x.shape).astype(np.float32)
        found, expected = (step(program, inputs, dy, number) for program in (replayed, single))
        for name, values in expected.items():
            assert_bitwise(found[name], values, f"{kind}, step {number}: {name}")
    assert sum(replays(replayed)) > 0 and not replays(single)


def test_other_engines_and_strict_mode_take_over() -> None:
    replayed, single, x = twins("dense", 4)
    dy = np.random.default_rng(2).normal(size=replayed.output.shape).astype(np.float32)
    step(replayed, x, dy, 0), step(single, x, dy, 0)
    for number, context in enumerate((bn.engine("reference"), bn.strict(), bn.engine("native")), 1):
        with context:
            found, expected = (step(program, x, dy, number) for program in (replayed, single))
        for name, values in expected.items():
            assert_bitwise(found[name], values, name)


def test_a_program_that_first_runs_on_the_reference_engine_is_recorded_later() -> None:
    replayed, _, x = twins("dense", 4)
    dy = np.ones(replayed.output.shape, np.float32)
    with bn.engine("reference"):
        step(replayed, x, dy, 0)
    assert not replayed._forward._parts
    step(replayed, x, dy, 1)
    assert replays(replayed)


def test_a_call_that_declines_is_named_and_the_rest_follows() -> None:
    """The filter of the second of three calls ends: Python makes that call, native code the others."""
    rng = np.random.default_rng(4)
    arrays = [rng.normal(size=(3, 4)).astype(np.float32) for _ in range(4)]
    layers = [bn.FullyConnectedLayer(weights=rng.normal(size=(4, 4)).astype(np.float32)) for _ in range(3)]
    replay = engines._core.Replay(arrays)
    for layer, x, y in zip(layers, arrays, arrays[1:], strict=False):
        assert replay.add(lambda layer=layer, x=x, y=y: layer.apply(x, y))
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
    replay = engines._core.Replay([x, y])
    assert not replay.add(lambda: layer.apply(x)), "a new array every time"
    assert not replay.add(lambda: (layer.apply(x, y), layer.apply(y, x))), "two calls"
    assert not replay.add(lambda: None), "nothing native"
    assert not replay.add(lambda: layer.apply(x.astype(np.float16).astype(np.float32), y)), "a copy of the input"
    with pytest.raises(ZeroDivisionError):
        replay.add(lambda: 1 // 0)
    assert replay.run() == 0
    assert replay.add(lambda: layer.apply(x, y)) and replay.run() == 1
