"""Native plan of a resize."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...engines import _core as core
from ...reference import resize as reference

if TYPE_CHECKING:
    from ... import _core


def plan(
    method: int, in_shape: Sequence[int], out_shape: Sequence[int], align_corners: bool, asymmetric: bool
) -> _core.Plan:
    """A sample from one shape to another, both in C order; the positions are those of the reference engine."""
    low: list[bytes] = []
    fraction: list[bytes] = []
    for n_in, n_out in zip(in_shape, out_shape, strict=True):
        taps = reference.taps(method, n_in, n_out, align_corners, asymmetric) if n_in != n_out else []
        low.append(taps[0][0].astype(np.int64).tobytes() if taps else b"")
        fraction.append(taps[1][1].astype(np.float32).tobytes() if len(taps) > 1 else b"")
    return core.resize(list(in_shape), list(out_shape), low, fraction)
