"""GRU and plain recurrent cells along a sequence, one layer in one direction, from the input part of their gates on.

With z = W x + b of every step, p = U h + b_h of the state before it, and * elementwise:

* tanh, ReLU:  h' = f(z + p)
* GRU, gates in the order r, u, c:  r, u = sigmoid(z + p),  c = tanh(z + r * p),  h' = (1 - u) * c + u * h

Arrays: z (N, T, G * H), U (G * H, H), b (G * H,), h0 (N, H), y (N, T, H). Sample n has ``lengths[n]`` steps; what lies
behind them is 0 in y and in gradients. ``reverse`` runs from the last of them to the first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass
class Cells:
    """``kind`` is tanh, relu or gru."""

    kind: str
    u: Array
    b: Array
    lengths: Array
    reverse: bool

    def _places(self, k: int) -> tuple[Array, Array]:
        """The samples that have a step k, and where it lies."""
        samples = np.flatnonzero(self.lengths > k)
        return samples, self.lengths[samples] - 1 - k if self.reverse else np.full(len(samples), k)

    def forward(self, z: Array, h0: Array) -> tuple[Array, Array]:
        """Outputs and final states."""
        h, y = h0.copy(), np.zeros((*z.shape[:2], h0.shape[1]), z.dtype)
        for k in range(z.shape[1]):
            samples, times = self._places(k)
            h[samples] = y[samples, times] = self._step(z[samples, times], h[samples])[0]
        return y, h

    def _step(self, z: Array, h: Array) -> tuple[Array, ...]:
        """h' and what its gradient takes."""
        p = h @ self.u.T + self.b
        if self.kind != "gru":
            after = np.tanh(z + p) if self.kind == "tanh" else np.maximum(z + p, 0)
            return (after,)
        width = h.shape[1]
        r, u = (_sigmoid(z[:, i : i + width] + p[:, i : i + width]) for i in (0, width))
        q = p[:, 2 * width :]
        c = np.tanh(z[:, 2 * width :] + r * q)
        return (1 - u) * c + u * h, r, u, c, q

    def backward(self, z: Array, h0: Array, dy: Array, dhn: Array) -> tuple[Array, Array, Array, Array]:
        """Gradients of z, U, b and h0."""
        states, h = [h0], h0.copy()
        for k in range(z.shape[1]):
            samples, times = self._places(k)
            h[samples] = self._step(z[samples, times], h[samples])[0]
            states.append(h.copy())
        dz, du, db, dh = np.zeros_like(z), np.zeros_like(self.u), np.zeros_like(self.b), dhn.copy()
        for k in reversed(range(z.shape[1])):
            samples, times = self._places(k)
            before, d = states[k][samples], dh[samples] + dy[samples, times]
            dz_here, dp, direct = self._step_back(z[samples, times], before, d)
            dz[samples, times] = dz_here
            du += dp.T @ before
            db += dp.sum(0)
            dh[samples] = dp @ self.u + direct
        return dz, du, db, dh

    def _step_back(self, z: Array, h: Array, d: Array) -> tuple[Array, Array, Array]:
        """Gradients of z, of p, and that part of the gradient of h which does not go through p."""
        after, *parts = self._step(z, h)
        if self.kind != "gru":
            dz = d * (1 - after**2 if self.kind == "tanh" else after > 0)
            return dz, dz, np.zeros_like(h)
        r, u, c, q = parts
        dc = d * (1 - u) * (1 - c**2)
        du = d * (h - c) * u * (1 - u)
        dr = dc * q * r * (1 - r)
        return np.concatenate([dr, du, dc], 1), np.concatenate([dr, du, dc * r], 1), d * u


def _sigmoid(x: Array) -> Array:
    result: Array = 0.5 * (1 + np.tanh(0.5 * x))
    return result
