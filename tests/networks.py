"""What tests of networks share: a small network, data for it, and which of its arrays a step changes."""

from __future__ import annotations

import numpy as np

from helpers import Array
from openbnns import nn


def numbers(*shape: int, seed: int = 0) -> Array:
    return np.random.RandomState(seed).standard_normal(shape).astype(np.float32)


class Net(nn.Module):
    """A body with running statistics, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6), nn.BatchNorm1d(), nn.Tanh(), nn.Linear(5), nn.ReLU())
        self.head = nn.Linear(3)

    def forward(self, x: nn.Value) -> nn.Value:
        value: nn.Value = self.head(self.body(x))
        return value


def problem(count: int = 40) -> tuple[Array, Array]:
    return numbers(count, 4), np.random.RandomState(1).randint(0, 3, count)


def copies(net: nn.Module) -> dict[str, Array]:
    return {name: array.copy() for name, array in net.state_dict().items()}


def changed(net: nn.Module, before: dict[str, Array]) -> set[str]:
    return {name for name, array in net.state_dict().items() if not np.array_equal(array, before[name])}
