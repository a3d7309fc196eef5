"""Recurrent layers by their formulas, sample by sample and step by step, in float64."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

Array = Any


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def cell(kind: str, x: Array, states: list[Array], p: Mapping[str, Array], end: str) -> list[Array]:
    """The states after one step of one sample."""
    h = states[0]
    zero = np.zeros(len(p[f"weight_hh{end}"]))
    a = p[f"weight_ih{end}"] @ x + p.get(f"bias_ih{end}", zero)
    b = p[f"weight_hh{end}"] @ h + p.get(f"bias_hh{end}", zero)
    n = len(h)
    if kind == "LSTM":
        i, f, g, o = (a + b)[:n], (a + b)[n : 2 * n], (a + b)[2 * n : 3 * n], (a + b)[3 * n :]
        c = sigmoid(f) * states[1] + sigmoid(i) * np.tanh(g)
        return [sigmoid(o) * np.tanh(c), c]
    if kind == "GRU":
        r, z = sigmoid(a[:n] + b[:n]), sigmoid(a[n : 2 * n] + b[n : 2 * n])
        return [(1 - z) * np.tanh(a[2 * n :] + r * b[2 * n :]) + z * h]
    return [np.tanh(a + b) if kind == "tanh" else np.maximum(a + b, 0)]


def layers(
    kind: str, x: Array, p: Mapping[str, Array], lengths: Array, states: list[Array], directions: int
) -> tuple[Array, list[Array]]:
    """Outputs (N, T, R H), and final states (L R, N, H) each; ``states`` are initial ones of the same shape."""
    final = [np.zeros_like(state) for state in states]
    width = states[0].shape[2]
    for layer in range(len(states[0]) // directions):
        y = np.zeros((*x.shape[:2], directions * width))
        for r in range(directions):
            end, at = f"_l{layer}" + ("_reverse" if r else ""), layer * directions + r
            for n in range(len(x)):
                here = [state[at, n] for state in states]
                times = range(lengths[n])
                for t in reversed(times) if r else times:
                    here = cell(kind, x[n, t], here, p, end)
                    y[n, t, r * width : (r + 1) * width] = here[0]
                for state, value in zip(final, here, strict=True):
                    state[at, n] = value
        x = y
    return x, final
