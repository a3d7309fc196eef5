"""Native plan of a standalone activation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ...engines import _core as core
from ...reference.activation import Activation
from ._activation import spec

if TYPE_CHECKING:
    from ... import _core


def plan(outer: int, length: int, inner: int, channels: int, f: Activation, seed: int) -> _core.Plan:
    """One sample is [outer][length][inner], and [channels][...] for PReLU; ``seed`` feeds the Gumbel functions."""
    return core.activation(outer, length, inner, channels, spec(f), seed)


def integer_linear_saturate(
    x: NDArray[np.int64],
    scale: NDArray[np.int64],
    offset: NDArray[np.int64],
    shift: NDArray[np.int64],
    low: int,
    high: int,
) -> NDArray[np.int64]:
    """saturate((scale*x + offset) >> shift), with one triple for all or one per channel of x (N, C, H, W)."""
    x = np.ascontiguousarray(x)
    y = np.empty_like(x)
    limits = max(low, -(1 << 63)), min(high, (1 << 63) - 1)
    if len(scale) == 1:
        core.integer_linear_saturate(
            x.ctypes.data, y.ctypes.data, x.size, int(scale[0]), int(offset[0]), int(shift[0]), *limits
        )
        return y
    for n in range(x.shape[0]):
        for c in range(x.shape[1]):
            core.integer_linear_saturate(
                x[n, c].ctypes.data,
                y[n, c].ctypes.data,
                x[n, c].size,
                int(scale[c]),
                int(offset[c]),
                int(shift[c]),
                *limits,
            )
    return y
