"""Values that follow from parameters and constants alone are computed when a parameter has changed, and are never stale."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from openbnns import engines, nn
from openbnns.graph.program import Program
from openbnns.nn import functional as F
from openbnns.nn.recording import recording_of


class Weighted(nn.Module):
    """A product with a weight that a random chain of pure functions makes of a parameter, a buffer and constants."""

    def __init__(self, random: np.random.RandomState, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(random.standard_normal((size, size)))
        self.gain = nn.Parameter(1 + random.random_sample((size, 1)))
        self.register_buffer("shift", random.standard_normal((size, size)).astype(np.float32))
        self.steps = [random.randint(6) for _ in range(random.randint(1, 6))]
        self.constant = random.standard_normal((size,)).astype(np.float32)

    def computed(self) -> Any:
        w: Any = F.mul(self.weight, 1.0)
        for step in self.steps:
            w = (
                lambda w: w * self.gain,
                lambda w: F.transpose(w, 0, 1),
                lambda w: F.tanh(w) + self.shift,
                lambda w: w / F.sqrt(F.sum(w * w, 1, keepdim=True) + 1.0),
                lambda w: F.matmul(w, self.weight) + self.constant,
                lambda w: F.flip(F.cat([w[:1], w[1:] * 2.0], 0), 1),
            )[step](w)
        return w

    def forward(self, x: Any) -> Any:
        return F.matmul(x, self.computed()) + F.sum(self.computed(), 0)


def unsettled(net: nn.Module, x: np.ndarray[Any, Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    """The result of a program that computes everything in every run."""
    with monkeypatch.context() as patch:
        patch.setattr(Program, "_settled_steps", lambda self: set())
        program = Program(recording_of(net, False, (x.shape,)).graph, {"N": len(x)}, training=False)
    program.fill(0, x)
    program.forward()
    return program.output.copy()


@pytest.mark.parametrize("seed", range(40))
def test_results_follow_every_change(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.RandomState(seed)
    size = random.randint(2, 9)
    net = Weighted(random, size).build((size,)).eval()
    held = net.weight.data if seed % 4 == 3 else None  # a view, through which writes cannot be seen
    changes = (
        lambda: None,
        lambda: net.weight.data.__setitem__(0, random.standard_normal(size)),
        lambda: setattr(net.gain, "data", 1 + random.random_sample((size, 1))),
        lambda: net.shift.__iadd__(1),
        lambda: net.load_state_dict({k: v + 1 for k, v in net.state_dict().items()}),
        lambda: net.constant.__imul__(2),
        lambda: None if held is None else held.__imul__(0.5),
        lambda: train(net, size),
    )
    for _ in range(12):
        changes[random.randint(len(changes))]()
        x = random.standard_normal((random.randint(1, 3), size)).astype(np.float32)
        np.testing.assert_array_equal(net(x), unsettled(net, x, monkeypatch))


def train(net: nn.Module, size: int) -> None:
    net.train()
    net(np.ones((2, size), np.float32))
    net.backward(np.ones((2, size), np.float32))
    nn.SGD(net.parameters(), lr=0.01).step()
    net.eval()


def test_settled_steps_run_when_a_parameter_changes() -> None:
    calls = []

    class Counted(nn.Function):
        is_pure = True

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            calls.append(1)
            return 2 * x

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter.owning(np.ones((1, 2), np.float32))

        def forward(self, x: Any) -> Any:
            return x * Counted.apply(self.weight)

    net = Net().build((2,)).eval()
    x = np.float32([[1, 2]])
    net(x)
    calls.clear()
    for _ in range(3):
        net(x)
    assert not calls
    net.weight.data = np.full((1, 2), 3)
    assert net(x).tolist() == [[6, 12]] and len(calls) == 1
    rows = net.program(1, training=False).describe().rows
    assert "settled" in {row[3] for row in rows}


@pytest.mark.parametrize("layer", [lambda: nn.Linear(64), lambda: nn.Conv2d(32, 3, padding=1)])
def test_timed_calls_prepare_weights_no_more_than_runs(layer: Any) -> None:
    """Weights as native code has prepared them in a run still serve: a change that no version tells has no effect."""
    shape = (64, 48) if isinstance(layer(), nn.Linear) else (2, 32, 14, 14)
    net = layer().eval()
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    net(x)
    program = net.program(len(x), training=False)
    program.fill(0, x)
    version = engines.new_weights_version()
    for _ in range(3):
        before = program.forward(version).copy()
    net.weight.array[...] = 0
    program.timed(weights=version)
    np.testing.assert_array_equal(program.outputs[0], before)
    program.timed(weights=engines.new_weights_version())
    assert not np.array_equal(program.outputs[0], before)
