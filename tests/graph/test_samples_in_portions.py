"""Backward steps that run in portions of the samples, against programs that run them for all samples at once."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import openbnns
from openbnns import engines, nn
from openbnns.graph import portions, waiting
from openbnns.nn import functional as F

Array = NDArray[Any]
SAMPLES = 6


@pytest.fixture(autouse=True)
def _always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Portions wherever they can be, of values that lose nothing while they wait; on any CPU."""
    monkeypatch.setattr(engines, "check_precision", lambda name, who, *choices: name)
    monkeypatch.setattr(waiting, "STORED", np.dtype(np.float32))
    monkeypatch.setattr(waiting, "WORTH", math.inf)
    monkeypatch.setattr(waiting, "_FEWEST_BYTES", 1)
    monkeypatch.setattr(waiting, "GOAL", 0.0)
    monkeypatch.setattr(portions, "_LEAST_BYTES", 1)
    monkeypatch.setattr(portions, "_LEAST_OF_WEIGHTS", 0.0)
    monkeypatch.setattr(portions, "_ALIKE", math.inf)


class Random(nn.Module):
    """Random layers one after the other, some with a connection around them; one layer is used twice."""

    def __init__(self, seed: int, *, images: bool) -> None:
        super().__init__()
        rng = np.random.default_rng(seed)
        width = int(rng.integers(13, 24))  # products of few rows or columns are not rounded
        makers = [lambda: nn.Linear(width), nn.GELU, nn.Tanh, nn.ReLU, lambda: nn.LayerNorm(width), nn.Softmax]
        if images:
            makers = [
                lambda: nn.Conv2d(width, 3, padding=1), lambda: nn.Conv2d(width, 1), nn.GELU, nn.ReLU, nn.BatchNorm2d,
                lambda: nn.MaxPool2d(3, 1, 1), lambda: nn.AvgPool2d(3, 1, 1), lambda: nn.Conv2d(width, 3, padding=1),
            ]  # fmt: skip
        self.first, self.twice = makers[0](), makers[0]()
        self.steps = nn.ModuleList([makers[i]() for i in rng.integers(0, len(makers), 7)])
        self.around = rng.random(7) < 0.25

    def forward(self, x: Any) -> Any:
        y = self.twice(F.relu(self.first(x)))
        for step, around in zip(self.steps, self.around, strict=True):
            y = y + step(y) if around else step(y)
        return self.twice(y)


def gradients(seed: int, *, images: bool) -> tuple[list[Array], int]:
    """The output, all gradients and the most portions of a program."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((SAMPLES, 14, 5, 7) if images else (SAMPLES, 13, 15), dtype=np.float32)
    network = Random(seed, images=images).build(x.shape[1:], seed=seed).train()
    network._precision = engines.BFLOAT16
    program = network.program(SAMPLES, training=True, input_gradients=bool(seed % 2))
    cotangents = [np.random.default_rng(1).standard_normal(y.shape, dtype=np.float32) for y in program.outputs]
    results: list[Array] = []
    for _ in range(2):
        program.fill(0, x)
        program.forward()
        program.fill_gradients(cotangents)
        program.backward()
        results = [program.output.copy(), *(p.grad.copy() for p in network.parameters())]
        results += [g.copy() for g in program.input_gradients if g is not None]
    return results, max((stretch.parts for stretch in program._stretches.values()), default=1)


@pytest.mark.parametrize("images", [False, True], ids=["rows", "images"])
def test_gradients_are_the_same(images: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    divided = 0
    for seed in range(40):
        ours, parts = gradients(seed, images=images)
        with monkeypatch.context() as patch:
            patch.setattr(waiting, "GOAL", math.inf)
            whole, _ = gradients(seed, images=images)
        divided += parts > 1
        for number, (mine, other) in enumerate(zip(ours, whole, strict=True)):
            scale = float(np.abs(other).max()) + 1e-6
            assert np.abs(mine - other).max() < 1e-4 * scale, (seed, number, parts)
    assert divided > 30


def test_steps_are_the_same_on_any_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    x, y = rng.standard_normal((SAMPLES, 14, 24, 24), dtype=np.float32), rng.integers(0, 14, SAMPLES)

    def losses(threads: int) -> tuple[list[float], Array]:
        before = openbnns.get_num_threads()
        openbnns.set_num_threads(threads)
        try:
            layers = (
                nn.Conv2d(16, 3, padding=1),
                nn.ReLU(),
                nn.MaxPool2d(2),
                nn.Conv2d(14, 3),
                nn.ReLU(),
                nn.AvgPool2d(10),
            )
            network = nn.Sequential(*layers, nn.Flatten()).build(x.shape[1:], seed=2)
            network._precision = engines.BFLOAT16
            step = network.compile_step("cross_entropy", nn.SGD(network.parameters(), lr=0.1), SAMPLES)
            program = network.program(SAMPLES, training=True)
            assert waiting.GOAL or program._stretches
            return [step(x, y) for _ in range(5)], program.graph.parameters[0].array.copy()
        finally:
            openbnns.set_num_threads(before)

    one, two = losses(1), losses(2)
    assert one[0] == two[0] and np.array_equal(one[1], two[1])
    assert one[0][-1] < one[0][0]
    monkeypatch.setattr(waiting, "GOAL", math.inf)
    np.testing.assert_allclose(one[0], losses(1)[0], rtol=1e-3)
