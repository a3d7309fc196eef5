"""Random networks with and without each mechanism that drops, fuses, shares or repeats work."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np
import pytest

from network_checks import NARROW, NN, Network, compare, outcome_on_tape
from openbnns import nn
from openbnns.graph import Graph, Program, inference
from openbnns.graph import program as _program
from openbnns.graph.memory import ALIGNMENT, Block
from random_networks import SMALLEST_KINK, Plan, draw, run_step

NETWORKS = 60
PORTIONS = 6


class Wasteful(Network):
    """A plan as a network that also computes what nothing reads."""

    def forward(self, *inputs: Any) -> Any:
        layers = [part.used() for part in self.parts]
        values = dict(zip(self.plan.inputs, inputs, strict=True))
        for step in self.plan.steps:
            values.update(zip(step.outputs, run_step(step, NN, layers, values), strict=True))
            nn.functional.tanh(values[step.outputs[0]] * 0.5)
        outputs = [values[name] for name in self.plan.outputs]
        return tuple(outputs) if len(outputs) > 1 else outputs[0]


def results(plan: Plan) -> list[Any]:
    """Outputs and gradients, twice each, and outputs at inference with other weights in between."""
    net, arrays = Wasteful(plan), [x.astype(np.float32) if x.dtype.kind == "f" else x for x in plan.input_arrays()]
    gathered: list[Any] = []
    for _ in range(2):
        outputs = net(*arrays)
        listed = outputs if isinstance(outputs, tuple) else (outputs,)
        gathered += [np.array(y) for y in listed]
        cotangents = [v.astype(np.float32) for v in plan.cotangents(listed)]
        given = net.backward(tuple(cotangents) if len(cotangents) > 1 else cotangents[0])
        given = given if isinstance(given, tuple) else (given,)
        gathered += [
            None if g is None else np.array(g) for g in (*given, *(p.grad for p in net.parameters() if p.used))
        ]
    net.set_mode(False)
    for factor in (1.0, 1.0, 1.25):
        for parameter in net.parameters():
            parameter.data[...] *= factor
        outputs = net(*arrays)
        gathered += [np.array(y) for y in (outputs if isinstance(outputs, tuple) else (outputs,))]
    return gathered


def apart(blocks: list[Block]) -> int:
    """A plan of memory in which no two blocks share any."""
    end = 0
    for block in blocks:
        block.offset, end = end, end - -block.size // ALIGNMENT * ALIGNMENT
    return end


def without(name: str) -> Callable[[pytest.MonkeyPatch], None]:
    """Graphs without the pass of this name."""
    return lambda patch: patch.setattr(Graph, "passes", [run for run in Graph.passes if run.__name__ != name])


def inferring_without(name: str) -> Callable[[pytest.MonkeyPatch], None]:
    """The same of the passes for inference."""
    return lambda patch: patch.setattr(inference, "PASSES", [run for run in inference.PASSES if run.__name__ != name])


# How to do without each, and the tolerance; what only moves numbers, or computes them another time, changes no bit.
# Steps that are settled have their random test in test_settled_steps.py: these networks have none.
MECHANISMS: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], float]] = {
    "drop_unused": (without("drop_unused"), NARROW),  # an operation that is read twice is not fused
    "fuse": (without("fuse"), NARROW),
    "join_elementwise": (inferring_without("join_elementwise"), 0.0),
    "shared memory": (lambda patch: patch.setattr(_program, "plan", apart), 0.0),
    "shared gradients": (lambda patch: patch.setattr(_program, "share", lambda *_: None), 0.0),
    "repeated values": (lambda patch: patch.setattr(Program, "_find_repeated", lambda self: None), 0.0),
}


@pytest.mark.parametrize("portion", range(PORTIONS))
def test_results_are_the_same_without(portion: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for plan in (draw(seed) for seed in range(1000 + portion, 1000 + NETWORKS, PORTIONS)):
        smooth = min(outcome_on_tape(plan).kinks[:2]) > SMALLEST_KINK  # rounding does not take it over a kink
        usual = results(plan)
        for name, (do_without, tolerance) in MECHANISMS.items():
            if tolerance and not smooth:
                continue
            with monkeypatch.context() as patch:
                do_without(patch)
                plain = results(plan)
            largest = max([1.0, *(float(np.abs(x).max()) for x in plain if x is not None and x.size)])
            for number, (ours, theirs) in enumerate(zip(usual, plain, strict=True)):
                compare(f"array {number} without {name}, of\n{plan}\n", ours, theirs, tolerance, largest)


def test_every_pass_is_here() -> None:
    # Those that few of these networks use, or none, have tests of their own.
    apart = {
        "share_equal",
        "take_apart",
        "integer_products",
        "end_in_activations",
        "pad_in_windows",
        "fold_channel_factors",
    }
    assert {run.__name__ for run in (*Graph.passes, *inference.PASSES)} <= {*apart, *MECHANISMS}


@pytest.mark.parametrize("name", MECHANISMS)
def test_networks_use(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs differ without a mechanism, or it is not tested here."""

    def shapes(plan: Plan) -> list[Any]:
        seen: list[Any] = []
        made = Program.__init__

        def note(self: Program, *given: Any, **named: Any) -> None:
            made(self, *given, **named)
            blocks = len({id(block) for block in self.gradient_blocks.values()})
            calls = len(self.calls_forward), sum(len(calls) for _, calls in self.backward_calls)
            seen.append((len(self.graph.operations), self.arena_bytes, blocks, calls))

        with monkeypatch.context() as patch:
            patch.setattr(Program, "__init__", note)
            results(plan)
        return seen

    def differs(plan: Plan) -> bool:
        usual = shapes(plan)
        with monkeypatch.context() as patch:
            MECHANISMS[name][0](patch)
            return usual != shapes(plan)

    differing = (seed for seed in range(1000, 1000 + NETWORKS) if differs(draw(seed)))
    assert len(list(islice(differing, 3))) == 3


class Branches(nn.Module):
    """Sums with an activation whose parts are read again, or share the gradient of another sum."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(6, 6) for _ in range(4)])

    def forward(self, x: Any) -> Any:
        f = nn.functional
        a, b, c, d = (f.tanh(layer(x)) for layer in self.layers)
        first = f.relu(a + b)
        second = f.relu(first - d)
        third = (f.relu(b + second) + c) * a  # the gradients of both summands are one, which c still has to read
        return f.relu(third + first)


def test_gradients_under_an_activation_lie_in_one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    x, v = (np.random.default_rng(seed).standard_normal((5, 6), dtype=np.float32) for seed in (1, 2))
    gradients, blocks = [], []
    for share in (_program.share, lambda *_: None):
        monkeypatch.setattr(_program, "share", share)
        net = Branches().build((6,), seed=3)
        net(x)
        gradients.append([np.array(net.backward(v)), *(p.grad.copy() for p in net.parameters())])
        blocks.append(len({id(block) for block in net.program(5, training=True).gradient_blocks.values()}))
    for ours, apart in zip(*gradients, strict=True):
        np.testing.assert_array_equal(ours, apart)
    assert blocks[0] < blocks[1]
