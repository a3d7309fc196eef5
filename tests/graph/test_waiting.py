"""Values that wait for the backward pass in bfloat16, against programs that keep them in float32."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from openbnns import engines, nn
from openbnns.graph import waiting
from openbnns.nn import functional as F

Array = NDArray[Any]

pytestmark = pytest.mark.usefixtures("_anywhere")


@pytest.fixture
def _anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounding what waits does not need a CPU that multiplies bfloat16."""
    monkeypatch.setattr(engines, "check_precision", lambda name, who, *choices: name)


def gradients(
    network: nn.Module, x: Array, monkeypatch: pytest.MonkeyPatch, *, rounded: bool = True
) -> tuple[list[Array], int]:
    """All gradients of a program in bfloat16, with what waits rounded or not, and the memory for values."""
    network._precision = engines.BFLOAT16
    with monkeypatch.context() as patch:
        if not rounded:
            patch.setattr(waiting, "halved", lambda *given: {})
        made = network.train().program(len(x), training=True, input_gradients=True)
    made.fill(0, x)
    made.forward()
    rng = np.random.default_rng(1)
    made.fill_gradients([rng.standard_normal(y.shape, dtype=np.float32) for y in made.outputs])
    made.backward()
    dx = made.input_gradients[0]
    assert dx is not None
    return [dx.copy(), *(p.grad.copy() for p in network.parameters())], made.arena_bytes


def both(make: Callable[[], nn.Module], x: Array, patch: pytest.MonkeyPatch) -> tuple[list[Array], list[Array], float]:
    """The gradients with and without rounding, and the share of memory."""
    networks = [make().build(x.shape[1:], seed=3) for _ in range(2)]
    (ours, small), (kept, large) = (
        gradients(network, x, patch, rounded=rounded) for network, rounded in zip(networks, (True, False), strict=True)
    )
    return ours, kept, small / large


def deep() -> nn.Module:
    widths = (24, 20, 28, 24, 20, 24) * 4
    return nn.Sequential(
        *(layer for c in widths for layer in (nn.Conv2d(c, 3, padding=1), nn.BatchNorm2d(), nn.ReLU()))
    )


def test_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(2).standard_normal((4, 3, 30, 31), dtype=np.float32)
    ours, kept, share = both(deep, x, monkeypatch)
    assert share < 0.7
    # Signs of numbers near 0 that are computed again; the products in bfloat16 alone change these gradients by three quarters.
    lost = sum(np.linalg.norm(mine - other) ** 2 for mine, other in zip(ours, kept, strict=True))
    assert 0 < lost < 0.15**2 * sum(np.linalg.norm(other) ** 2 for other in kept)


def test_operands_of_products_are_rounded_anyway(monkeypatch: pytest.MonkeyPatch) -> None:
    if not engines._core.multiplies_bfloat16():
        return  # products are of float32

    def make() -> nn.Module:
        images = [layer for _ in range(6) for layer in (nn.Conv2d(24, 3, stride=1, padding=2, dilation=2), nn.ReLU())]
        rows = [layer for _ in range(3) for layer in (nn.Linear(70), nn.ReLU())]
        return nn.Sequential(*images, nn.Flatten(), *rows, nn.Linear(9))

    x = np.random.default_rng(4).standard_normal((33, 16, 9, 7), dtype=np.float32)
    ours, kept, share = both(make, x, monkeypatch)
    assert share < 0.95
    for mine, other in zip(ours, kept, strict=True):
        assert np.array_equal(mine, other)


class _Random(nn.Module):
    """A chain of random layers with connections that skip some of them."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        rng = np.random.default_rng(seed)
        self.width = int(rng.integers(9, 40))
        makers = [
            lambda: nn.Sequential(nn.Conv2d(self.width, 3, padding=1), nn.BatchNorm2d(), nn.ReLU()),
            lambda: nn.Sequential(nn.Conv2d(self.width, 3, padding=1), nn.BatchNorm2d()),
            lambda: nn.Sequential(nn.Conv2d(self.width, 1), nn.Tanh()),
            lambda: nn.Sequential(nn.BatchNorm2d(), nn.ReLU()),
            lambda: nn.Conv2d(self.width, 3, padding=1),
            lambda: nn.GELU(),
            lambda: nn.Sigmoid(),
            lambda: nn.MaxPool2d(3, 1, 1),
            lambda: nn.GroupNorm(1),
        ]
        self.first = nn.Conv2d(self.width, 3, padding=1)
        self.steps = nn.ModuleList([makers[i]() for i in rng.integers(0, len(makers), 7)])
        self.skips = [int(rng.integers(-6, i + 1)) for i in range(7)]
        self.ways = rng.integers(0, 3, 7)

    def forward(self, x: Any) -> Any:
        values = [self.first(x)]
        for step, skip, way in zip(self.steps, self.skips, self.ways, strict=True):
            y = step(values[-1])
            if skip >= 0:
                y = (
                    y + values[skip]
                    if way == 0
                    else y * F.sigmoid(values[skip])
                    if way == 1
                    else F.relu(y - values[skip])
                )
            values.append(y)
        return values[-1]


@pytest.mark.parametrize("seed", range(30))
def test_random_networks(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """If nothing is lost by the way that it is stored, waiting changes no bit."""
    monkeypatch.setattr(waiting, "STORED", np.dtype(np.float32))
    monkeypatch.setattr(waiting, "WORTH", math.inf)
    monkeypatch.setattr(waiting, "_FEWEST_BYTES", 1)
    x = np.random.default_rng(seed).standard_normal((5, 4, 9, 11), dtype=np.float32)
    ours, kept, _ = both(lambda: _Random(seed), x, monkeypatch)
    for mine, other in zip(ours, kept, strict=True):
        assert np.array_equal(mine, other)
