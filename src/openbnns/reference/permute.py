"""Permute: axis k of the output is axis permutation[k] of the input.

    y[i_0, i_1, ...] = x[j_0, j_1, ...]        with j_{permutation[k]} = i_k

Axes are NumPy axes of the whole array; the batch is one of them and normally stays in front.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .activation import Array


def forward(x: Array, permutation: Sequence[int]) -> Array:
    """y, of shape (x.shape[permutation[0]], x.shape[permutation[1]], ...)."""
    _check(permutation, x.ndim)
    return np.ascontiguousarray(np.transpose(x, permutation))


def backward(dy: Array, permutation: Sequence[int]) -> Array:
    """dx: axis permutation[k] of dx runs over axis k of dy, which is the inverse permutation."""
    _check(permutation, dy.ndim)
    return np.ascontiguousarray(np.transpose(dy, np.argsort(permutation)))


def _check(permutation: Sequence[int], rank: int) -> None:
    if sorted(permutation) != list(range(rank)):
        raise ValueError(
            f"permute: {tuple(permutation)} is not a permutation of the {rank} axes 0 to {rank - 1}; "
            "name every axis exactly once."
        )
