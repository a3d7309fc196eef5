"""Rotary position embeddings."""

from __future__ import annotations

import numpy as np

from ..calls import Calls, NumpyCall
from ..operation import Operation
from ..tensor import Array, Tensor


class Rotate(Operation):
    """Turns pairs of the first 2 p features of (..., T, D) by angles (T, p); the other features stay as they are.

    Pairs are (i, i + p), or with ``interleaved`` (2 i, 2 i + 1). The gradient is turned back by the same angles.
    """

    keeps_inputs = False

    def __init__(self, x: Tensor, angles: Array, interleaved: bool) -> None:
        pairs = angles.shape[1]
        cosine, sine = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
        self.whole, self.sine = 2 * pairs, sine
        if interleaved:
            self.cosine, self.halves = np.repeat(cosine, 2, 1), (slice(0, self.whole, 2), slice(1, self.whole, 2))
        else:
            self.cosine, self.halves = np.tile(cosine, 2), (slice(0, pairs), slice(pairs, self.whole))
        super().__init__([x], Tensor(x.graph, x.shape))

    def forward(self, x: list[Array], y: Array, training: bool) -> Calls:
        return self._turning(x[0], y, self.sine)

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Calls:
        assert dx[0] is not None
        return self._turning(dy, dx[0], -self.sine)

    def _turning(self, x: Array, y: Array, sine: Array) -> Calls:
        a, b = (x[..., half] for half in self.halves)
        to_a, to_b = (y[..., half] for half in self.halves)
        turned, rest = slice(0, self.whole), slice(self.whole, None)
        part = np.empty(a.shape, x.dtype)

        def call() -> None:
            np.multiply(x[..., turned], self.cosine, out=y[..., turned])
            np.multiply(b, sine, out=part)
            np.subtract(to_a, part, out=to_a)
            np.multiply(a, sine, out=part)
            np.add(to_b, part, out=to_b)
            np.copyto(y[..., rest], x[..., rest])

        return NumpyCall(call)
