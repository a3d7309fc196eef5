"""Attention heads in float64: P = softmax of the rows of scale Q Kᵀ + X, O = (P F) V, with F of dropout (None: 1).

Q (N, H, T, K), K (N, H, S, K), V (N, H, S, V), X (T, S) or (H, T, S), F (N, H, T, S). A row of X that is all -infinity
makes a row of NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@np.errstate(all="ignore")
def attend(
    q: Array, k: Array, v: Array, scale: float, added: Array, factor: Array | None
) -> tuple[Array, Array, Array]:
    """O, P, and the logarithm of the sum of exponentials of every row."""
    scores = q @ k.swapaxes(-1, -2) * scale + added
    largest = scores.max(-1, keepdims=True)
    exponentials = np.exp(scores - np.where(np.isneginf(largest), 0, largest))
    total = exponentials.sum(-1, keepdims=True)
    p = exponentials / total
    return (p if factor is None else p * factor) @ v, p, (largest + np.log(total))[..., 0]


@np.errstate(all="ignore")
def attend_backward(
    q: Array, k: Array, v: Array, scale: float, added: Array, factor: Array | None, do: Array
) -> tuple[Array, Array, Array]:
    """Gradients of Q, K and V: dV = (P F)ᵀ dO, dP = F (dO Vᵀ), dS = P (dP - Σ dP P) scale, dQ = dS K, dK = dSᵀ Q."""
    p = attend(q, k, v, scale, added, factor)[1]
    f = 1.0 if factor is None else factor
    dv = (p * f).swapaxes(-1, -2) @ do
    dp = do @ v.swapaxes(-1, -2) * f
    ds = p * (dp - (dp * p).sum(-1, keepdims=True)) * scale
    return ds @ k, ds.swapaxes(-1, -2) @ q, dv
