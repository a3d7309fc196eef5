"""Norms of gradients, the same for any number of threads."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .. import compute_norm
from ..graph.tensor import Array

_BLOCK = 1 << 16
_FEW = 1 << 12  # numbers, for which a native call is not worth it


def total_norm(arrays: Sequence[Array], norm_type: float = 2.0) -> float:
    """The norm of all numbers of these arrays together, summed in double precision."""
    if norm_type == math.inf:
        return max((float(np.abs(a).max()) for a in arrays if a.size), default=0.0)
    total = 0.0
    for array in arrays:
        flat = array.reshape(-1)
        if norm_type == 2.0 and flat.size > _FEW:
            total += float(compute_norm(flat)[0]) ** 2  # native, on all threads
            continue
        for start in range(0, flat.size, _BLOCK):  # in pieces, so that little memory is needed
            piece = flat[start : start + _BLOCK].astype(np.float64)
            if norm_type == 2.0:
                np.square(piece, out=piece)
            else:
                np.power(np.abs(piece, out=piece), norm_type, out=piece)
            total += float(piece.sum())
    return math.sqrt(total) if norm_type == 2.0 else total ** (1.0 / norm_type)
