"""Small networks and data for them, and the arrays that a step changes."""

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


class Branches(nn.Module):
    """Every way in which values can be joined and used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.left, self.right, self.last = nn.Linear(6), nn.Linear(6), nn.Linear(6), nn.Linear(4)
        self.join = nn.Concatenate(axis=-1)

    def forward(self, x: nn.Value) -> nn.Value:
        stem = nn.Tanh()(self.stem(x))
        twice = self.left(stem) + self.left(nn.Sigmoid()(stem))  # one layer used two times
        return self.last(self.join(twice + stem, self.right(stem), stem))


class Cross(nn.Module):
    """Attention with shared and separate inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.three = (nn.MultiheadAttention(6, 2) for _ in range(3))
        self.left, self.right = nn.Linear(6), nn.Linear(6)

    def forward(self, x: nn.Value) -> nn.Value:
        a, b = self.left(x), self.right(x)
        return self.one(a, b, b) + self.two(a, a, b) + self.three(a, b, a)


NETWORKS = {
    "mlp": lambda: (nn.Sequential(nn.Linear(7), nn.Tanh(), nn.Linear(5), nn.GELU(), nn.Linear(3)), (4,)),
    "images": lambda: (
        nn.Sequential(
            nn.Conv2d(4, 3, padding=1, stride=2), nn.SiLU(), nn.AvgPool2d(2), nn.ConvTranspose2d(3, 2, stride=2),
            nn.Softplus(), nn.GlobalAvgPool2d(), nn.Linear(3), nn.LogSoftmax(),
        ),
        (2, 9, 8),
    ),
    "residual": lambda: (
        nn.Sequential(
            nn.Linear(6), nn.Residual(nn.Linear(6), nn.Tanh(), nn.Linear(6)), nn.Residual(nn.Linear(6)),
            nn.Residual(nn.Tanh(), nn.Linear(3), shortcut=nn.Linear(3)), nn.Add(nn.Linear(2), nn.Linear(2)),
        ),
        (5,),
    ),
    "normalized": lambda: (
        nn.Sequential(
            nn.Conv2d(4, 3, padding=1), nn.BatchNorm2d(), nn.Tanh(), nn.Conv2d(4, 1), nn.GroupNorm(2), nn.InstanceNorm2d(),
            nn.Flatten(), nn.Linear(5), nn.BatchNorm1d(), nn.Sigmoid(), nn.LayerNorm(), nn.Linear(2),
        ),
        (2, 5, 4),
    ),
    "lstm": lambda: (nn.Sequential(nn.LSTM(4, num_layers=2), nn.LSTM(3, last_only=True), nn.Linear(2)), (5, 3)),
    "lstm, both directions": lambda: (
        nn.Sequential(nn.LSTM(4, num_layers=2, bidirectional=True), nn.LSTM(3, bidirectional=True, last_only=True), nn.Linear(2)),
        (5, 3),
    ),
    "transformer": lambda: (
        nn.Sequential(nn.Linear(8), nn.TransformerEncoderLayer(8, 2, 12, 0.0, "gelu", causal=True), nn.Flatten(), nn.Linear(2)),
        (4, 3),
    ),
    "cross attention": lambda: (Cross(), (4, 6)),
    "branches": lambda: (Branches(), (5,)),
    "sequence": lambda: (nn.Sequential(nn.Linear(6), nn.Tanh(), nn.Softmax(), nn.Reshape(2, -1), nn.Linear(3)), (4, 5)),
}  # fmt: skip
