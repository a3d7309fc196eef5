"""Gram matrix of the channels of an image: G(f,c) = alpha sum_{i,j} x(f,i,j) x(c,i,j)."""

from __future__ import annotations

import numpy as np

from .activation import Array


@np.errstate(all="ignore")
def forward(x: Array, alpha: float = 1.0) -> Array:
    """G (N, ..., C, C) of x (N, ..., C, H, W); axes in front of the channels are kept."""
    channels = _channels(x)
    gram: Array = alpha * (channels @ channels.swapaxes(-1, -2))
    return gram


@np.errstate(all="ignore")
def backward(x: Array, dg: Array, alpha: float = 1.0) -> Array:
    """dx(f,i,j) = alpha sum_c (dG(f,c) + dG(c,f)) x(c,i,j), in the shape of x; dg (N, ..., C, C)."""
    gradient: Array = alpha * ((dg + dg.swapaxes(-1, -2)) @ _channels(x))
    return gradient.reshape(x.shape)


def _channels(x: Array) -> Array:
    """(N, ..., C, H * W)."""
    *leading, height, width = x.shape
    return x.reshape(*leading, height * width)
