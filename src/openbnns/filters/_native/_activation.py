"""How an activation crosses into native code."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...engines import _core as core
from ...reference.activation import Activation, Function


def spec(f: Activation) -> tuple[int, float, float]:
    """Function number, alpha and beta."""
    return int(f.function), f.alpha, f.beta


def gradient_from_input(f: Activation, z: NDArray[Any], dy: NDArray[Any], threads: int) -> NDArray[Any]:
    """dz = dy * f'(z), computed from z (N, ...) by the activation kernel along the last axis."""
    length = z.shape[-1]
    if f.right_slope:  # slope 1 at 0: that of LeakyRectifiedLinear with alpha 0
        f = Activation(Function.LEAKY_RECTIFIED_LINEAR)
    plan = core.activation(1, length, 1, 0, spec(f), 0)
    z = np.ascontiguousarray(z)
    dy = np.ascontiguousarray(dy)
    dz = np.empty_like(dy)
    x_slot, dx_slot, dy_slot = 0, 4, 5
    places = [(x_slot, z.ctypes.data, length), (dx_slot, dz.ctypes.data, length), (dy_slot, dy.ctypes.data, length)]
    core.run(plan, True, z.size // length, places, 0, threads)
    return dz
