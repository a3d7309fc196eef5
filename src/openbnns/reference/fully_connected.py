"""Fully connected layer: z = x W^T + b, y = f(z)."""

from __future__ import annotations

from collections.abc import Set

import numpy as np

from ..parameters.activation import Activation
from . import activation
from .activation import Array


@np.errstate(all="ignore")
def forward(x: Array, w: Array, b: Array | None, f: Activation) -> Array:
    """y = f(x W^T + b) with x (N, in), w (out, in), b (out,) or None, y (N, out)."""
    z = x @ w.T
    return activation.forward(f, z if b is None else z + b)


@np.errstate(all="ignore")
def backward(
    x: Array | None, y: Array | None, dy: Array, w: Array, f: Activation, wanted: Set[str], z: Array | None = None
) -> dict[str, Array]:
    """The wanted gradients among {"dx", "dw", "db"}.

        dz = dy f'(z)         from y, or from z where it is given and y does not determine the derivative
        dx = dz W             of z = x W^T + b
        dw = dz^T x           summed over the batch
        db = sum_n dz

    x is read for dw only; y may be None with Identity.
    """
    dz = activation.fused_backward(f, dy, y, z)
    gradients: dict[str, Array] = {}
    if "dx" in wanted:
        gradients["dx"] = dz @ w
    if "dw" in wanted:
        if x is None:
            raise ValueError("fully_connected.backward: dw needs the input x; got None.")
        gradients["dw"] = dz.T @ x
    if "db" in wanted:
        gradients["db"] = np.sum(dz, axis=0)
    return gradients
