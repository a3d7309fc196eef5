"""Random networks beside an autograd of the tests' own: outputs, all gradients, training steps, every way to run them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import openbnns as bn
import random_networks
import tape_layers
from bfloat16_formulas import bfloat16
from helpers import python
from network_checks import Network, failure_of, listed, narrow, outcome_on_tape, report, structured
from openbnns import engines
from openbnns.graph import program as _program
from random_networks import FUNCTIONS, RUN, draw

NETWORKS = 300
PORTIONS = 30


@pytest.mark.parametrize("portion", range(PORTIONS))
def test_networks(portion: int) -> None:
    for seed in range(portion, NETWORKS, PORTIONS):
        plan = draw(seed)
        if failure_of(plan) is not None:
            pytest.fail(f"{report(plan)}\nReproduce: python tests/fuzz.py --family networks --seed 0 --case {seed}")


@pytest.mark.parametrize("portion", range(10))
def test_networks_in_bfloat16(portion: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same bits on any number of threads, and nearly the same outputs."""
    if not engines._core.multiplies_bfloat16():
        monkeypatch.setattr(engines, "check_precision", lambda name, who, *choices: name)
    for seed in range(portion, 150, 10):
        plan = draw(seed)
        expected = outcome_on_tape(plan)
        net = bfloat16(Network(plan))
        before = {name: array.copy() for name, array in net.state_dict().items()}
        runs = []
        for threads in (1, 2, 3, 1):
            bn.set_num_threads(threads)
            net.load_state_dict(before)
            outputs = [y.copy() for y in listed(net(*narrow(plan.input_arrays())))]
            net.zero_grad()
            gradients = listed(net.backward(structured(plan.cotangents(expected.outputs))))
            arrays = [*outputs, *gradients, *(p.grad for p in net.parameters() if p.used)]
            runs.append([None if array is None else array.tobytes() for array in arrays])
        bn.set_num_threads(0)
        assert runs.count(runs[0]) == len(runs), f"seed {seed}"
        for y, z in zip(outputs, expected.outputs if expected.kinks[0] > 0.01 else (), strict=False):
            assert np.abs(y - z).max(initial=0) <= 0.03 * max(1, np.abs(z).max(initial=0)), f"seed {seed}"


def test_everything_is_drawn() -> None:
    """Every kind of step, layer, loss and optimizer is drawn often enough to be tested."""
    plans = [draw(seed) for seed in range(NETWORKS)]
    steps = Counter(step.kind for plan in plans for step in plan.steps)
    assert not RUN.keys() - steps.keys()
    functions = Counter(step.options[0] for plan in plans for step in plan.steps if step.kind == "function")
    assert not set(FUNCTIONS) - functions.keys()
    layers = Counter(plan.layers[i].kind for plan in plans for step in plan.steps for i in step.layers)
    assert not tape_layers.LAYERS.keys() - layers.keys()
    losses = Counter(kind for plan in plans for kind, _ in plan.losses)
    assert not tape_layers.LOSSES.keys() - losses.keys()
    optimizers = Counter(plan.optimizer[0] for plan in plans)
    assert not tape_layers.OPTIMIZERS.keys() - optimizers.keys()
    assert sum(bool(plan.frozen) for plan in plans) > 50
    assert sum(len(plan.outputs) > 1 for plan in plans) > 50
    assert sum(len(plan.inputs) > 1 for plan in plans) > 50
    assert sum(len(plan.steps) > 6 for plan in plans) > 100
    tested = [outcome_on_tape(plan) for plan in plans[:100]]
    assert sum(outcome.kinks[2] > random_networks.SMALLEST_KINK for outcome in tested) > 60


def test_a_failure_shows_the_smallest_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a backward pass that forgets to add, values that are read twice have wrong gradients."""
    monkeypatch.setattr(_program, "adding", lambda *_, **__: lambda: None)
    failing = next(plan for plan in map(draw, range(NETWORKS)) if len(plan.steps) > 8 and failure_of(plan))
    told = report(failing)
    assert "gradient of" in told and "The smallest network that fails" in told
    shown = told.split("The smallest network that fails")[1].splitlines()
    steps = [line for line in shown if " = " in line and line.strip().startswith("v")]
    assert 1 <= len(steps) <= 3, told


def test_networks_are_the_same_everywhere() -> None:
    program = "from random_networks import draw; print(*(draw(seed) for seed in range(5)), sep='\\n')"
    folder = str(Path(__file__).parents[1])
    shown = [python("-c", program, PYTHONHASHSEED=seed, PYTHONPATH=folder).stdout for seed in ("1", "2")]
    assert shown[0] == shown[1] and "return v" in shown[0]
