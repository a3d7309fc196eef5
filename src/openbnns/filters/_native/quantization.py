"""Native quantization: plans made for one form of call."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ...engines import _core as core

if TYPE_CHECKING:
    from typing import Any

X, SCALE, BIAS, Y = range(4)  # slots: X, W, B and Y of core/runtime/plan.h

# NumPy types by the numbers of NumberType in core/kernels/kernels.h.
_NUMBER_TYPES = {
    np.dtype(name): k for k, name in enumerate(("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"))
}


def run(
    x: NDArray[Any],
    y: NDArray[Any],
    scale: NDArray[np.float32] | None,
    bias: NDArray[np.float32] | None,
    axis: int | None,
    bounds: tuple[int, int] | None,
    threads: int,
) -> None:
    """Quantize x to y within ``bounds``, or dequantize without them.

    x and y are (N, *shape), each sample C-contiguous; quantized y is integers, dequantized y float32. scale and
    bias hold one value each, or one per index of ``axis``, 0 being the batch.
    """
    shape = x.shape[1:]
    if axis:
        sizes = [int(np.prod(shape[: axis - 1])), shape[axis - 1], int(np.prod(shape[axis:]))]
    else:
        sizes = [1, 1, int(np.prod(shape))]
    plan = core.quantization(
        bounds is None, _NUMBER_TYPES[x.dtype], _NUMBER_TYPES[y.dtype], sizes, axis == 0,
        [float(b) for b in bounds or (0, 0)],
    )  # fmt: skip
    places = [(X, x.ctypes.data, x.strides[0] // x.itemsize), (Y, y.ctypes.data, y.strides[0] // y.itemsize)]
    places += [(slot, a.ctypes.data, 0) for slot, a in ((SCALE, scale), (BIAS, bias)) if a is not None]
    core.run(plan, False, len(x), places, 0, threads)
