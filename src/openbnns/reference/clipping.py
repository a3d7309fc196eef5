"""Clipping by value, by norm and by global norm; the L2 norm over some axes and its gradient.

    factor(norm) = min(1, max_norm / norm)        1 for norm = 0; NaN for norm = NaN

`axes` are NumPy axes that lie inside the norm; None is all of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .activation import Array


def clip_by_value(x: Array, minimum: float, maximum: float) -> Array:
    """y = min(max(x, minimum), maximum); NaN stays NaN."""
    return np.asarray(np.clip(x, minimum, maximum))


@np.errstate(all="ignore")
def clip_by_norm(x: Array, max_norm: float, axes: Sequence[int] | None = None) -> Array:
    """y = x * factor(|x|), with one norm for every position along the remaining axes."""
    return x * _factor(_norm(x, axes), max_norm)


@np.errstate(all="ignore")
def clip_by_global_norm(xs: Sequence[Array], max_norm: float, use_norm: float = 0.0) -> list[Array]:
    """y_k = x_k * factor(G) for every tensor; G = use_norm, or if that is 0 the norm of all elements of all tensors."""
    norm = np.asarray(use_norm if use_norm != 0.0 else global_norm(xs))
    return [x * _factor(norm, max_norm) for x in xs]


@np.errstate(all="ignore")
def global_norm(xs: Sequence[Array]) -> float:
    """G = sqrt(sum over the tensors of the sum of x^2)."""
    return float(np.sqrt(sum(float(np.sum(x * x)) for x in xs)))


@np.errstate(all="ignore")
def norm(x: Array, axes: Sequence[int] | None = None) -> Array:
    """y = sqrt(sum of x^2 over `axes`), which are removed from the shape; if none is left the shape is (1,)."""
    y = _norm(x, axes)
    removed = range(x.ndim) if axes is None else [axis % x.ndim for axis in axes]
    return y.reshape([size for axis, size in enumerate(x.shape) if axis not in removed] or [1])


@np.errstate(all="ignore")
def norm_backward(x: Array, y: Array, dy: Array, axes: Sequence[int] | None = None) -> Array:
    """dx = dy x / y in the shape of x, 0 where y = 0; y and dy have the shape that norm returns."""
    inside = range(x.ndim) if axes is None else [axis % x.ndim for axis in axes]
    kept = [1 if axis in inside else size for axis, size in enumerate(x.shape)]
    y, dy = y.reshape(kept), dy.reshape(kept)
    return np.where(y == 0.0, 0.0, dy * x / y)


def _norm(x: Array, axes: Sequence[int] | None) -> Array:
    """The norm with size 1 along `axes`."""
    inside = None if axes is None else tuple(axes)
    return np.asarray(np.sqrt(np.sum(x * x, axis=inside, keepdims=True)))


def _factor(norm: Array, max_norm: float) -> Array:
    return np.where(norm <= max_norm, 1.0, max_norm / norm)
