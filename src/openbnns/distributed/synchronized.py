"""Batch normalization by the statistics of a whole batch, of which every program has a shard.

Forward and backward pass each have two halves. The first computes sums over the shard, which are then summed over all shards;
the second goes on with the sums over the batch.

    mean = Σ x / n,  variance = Σ x² / n - mean²,  z = (x - mean) / √(variance + ε),  y = γ z + β
    dβ = Σ dy,  dγ = Σ dy z,  dx = γ / √(variance + ε) (dy - dβ / n - z dγ / n)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .. import NormalizationType, engines
from ..graph.calls import Calls, NumpyCall
from ..graph.graph import Graph
from ..graph.operation import Operation
from ..graph.parameter import Parameter
from ..graph.sizes import AnySize
from ..graph.tensor import Array, Tensor


class Meeting:
    """A call in two halves, between which ``sums`` is summed over all programs that make it."""

    def __init__(self, first: Callable[[], object], sums: Array, second: Callable[[], object]) -> None:
        self.first, self.sums, self.second = first, sums, second

    def __call__(self) -> None:
        raise AssertionError("a meeting needs others")


class SynchronizedNormalization(Operation):
    """Takes the place of a batch normalization while a network is recorded for shards."""

    keeps_inputs = True

    def __init__(
        self, graph: Graph, x: Tensor, type: NormalizationType, sample: Sequence[AnySize], gamma: Parameter | None,
        beta: Parameter | None, momentum: float, epsilon: float,
    ) -> None:  # fmt: skip
        self.gamma, self.beta, self.keep, self.epsilon = gamma, beta, momentum, epsilon
        self.running = type.moving_mean, type.moving_variance
        self.channels = int(sample[0])
        super().__init__([x], Tensor(graph, x.shape), [p for p in (beta, gamma) if p is not None])

    def forward(self, x: list[Array], y: Array, training: bool) -> Calls:
        assert training, "inference has no need of others"
        batch, channels = len(y), self.channels
        sums = np.zeros(2 * channels + 1)
        factors = np.zeros((4, channels), np.float32)
        # Belong to the program being made, whose backward comes next.
        self._mean, self._scale = np.zeros(channels), np.zeros(channels)
        mean, scale = self._mean, self._scale

        def first() -> None:
            channel_sums(x[0], x[0], sums[:-1], batch, channels)
            sums[-1] = x[0].size // channels

        def second() -> None:
            mean[...], variance = self._statistics(sums)
            np.divide(1.0, np.sqrt(variance + self.epsilon), out=scale)
            factors[1] = scale if self.gamma is None else scale * self.gamma.data.reshape(-1)
            factors[2] = mean
            factors[3] = 0 if self.beta is None else self.beta.data.reshape(-1)
            channel_combination(y, None, x[0], factors, batch, channels)

        return [Meeting(first, sums, second)]

    def _statistics(self, sums: Array) -> tuple[Array, Array]:
        mean = sums[: self.channels] / sums[-1]
        return mean, np.maximum(sums[self.channels : -1] / sums[-1] - mean * mean, 0.0)

    def note(self, sums: Array) -> None:
        """Let the running statistics follow those of a batch."""
        for running, current in zip(self.running, self._statistics(sums), strict=True):
            if running is not None:
                running[...] = self.keep * running.astype(np.float64) + (1.0 - self.keep) * current

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Calls:
        batch, channels, target = len(y), self.channels, dx[0]
        mean, scale = self._mean, self._scale
        sums = np.zeros(2 * channels + 1)
        factors = np.zeros((4, channels), np.float32)
        given = iter(dp)
        of_beta, of_gamma = (None if p is None else next(given) for p in (self.beta, self.gamma))

        def first() -> None:
            channel_sums(dy, x[0], sums[:-1], batch, channels)
            sums[-1] = x[0].size // channels
            sums[channels:-1] -= mean * sums[:channels]
            sums[channels:-1] *= scale  # Σ dy z
            if of_beta is not None:
                of_beta.reshape(-1)[...] = sums[:channels]
            if of_gamma is not None:
                of_gamma.reshape(-1)[...] = sums[channels:-1]

        if target is None:
            return NumpyCall(first)

        def second() -> None:
            factor = scale if self.gamma is None else scale * self.gamma.data.reshape(-1)
            factors[0] = factor
            factors[1] = -factor * scale * sums[channels:-1] / sums[-1]
            factors[2] = mean
            factors[3] = -factor * sums[:channels] / sums[-1]
            channel_combination(target, dy, x[0], factors, batch, channels)

        return [Meeting(first, sums, second)]


def channel_sums(a: Array, b: Array, sums: Array, batch: int, channels: int) -> None:
    """Sums of a and of a b over each channel of (batch, channels, ...), in double precision, one behind the other."""
    if engines._core is not None:
        engines._core.channel_sums(a, b, sums, batch, channels)
        return
    left, right = (array.reshape(batch, channels, -1).astype(np.float64) for array in (a, b))
    sums[:channels], sums[channels:] = left.sum((0, 2)), (left * right).sum((0, 2))


def channel_combination(y: Array, a: Array | None, x: Array, factors: Array, batch: int, channels: int) -> None:
    """y = f0 a + f1 (x - f2) + f3, with a row of ``factors`` for each f: a number for every channel."""
    if engines._core is not None:
        engines._core.channel_combination(y, a, x, factors, batch, channels)
        return
    f0, f1, f2, f3 = (row.reshape(1, channels, 1) for row in factors)
    shape = batch, channels, -1
    sums = f1 * (x.reshape(shape) - f2) + f3
    if a is not None:
        sums += f0 * a.reshape(shape)
    y.reshape(shape)[...] = sums
