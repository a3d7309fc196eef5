"""Clipping and norms under their C names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._words import Caller
from ..abi.enums import BNNSNormType
from ..abi.structs import BNNSNDArrayDescriptor
from ..filters import clipping
from ._calls import Direct, attempt_direct

__all__ = ["BNNSClipByGlobalNorm", "BNNSClipByNorm", "BNNSClipByValue", "BNNSComputeNorm", "BNNSComputeNormBackward"]

_BY_VALUE = Direct("BNNSClipByValue", clipping.clip_by_value, 0)
_BY_NORM = Direct("BNNSClipByNorm", clipping.clip_by_norm, 0)
_NORM = Direct("BNNSComputeNorm", clipping.compute_norm, 0)
_NORM_BACKWARD = Direct("BNNSComputeNormBackward", clipping.compute_norm_backward, 1, described=[(0, 1), (2, 3)])


def BNNSClipByValue(
    dest: BNNSNDArrayDescriptor | Any, src: BNNSNDArrayDescriptor | Any, min_val: float, max_val: float
) -> int:
    """Clamp every element; ``dest`` may be ``src``.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> x = np.float32([-3, 0.5, 3])
    >>> d = Shape.vector(3).descriptor(data=x)
    >>> BNNSClipByValue(d, d, -1, 1), x.tolist()
    (0, [-1.0, 0.5, 1.0])
    """
    return _BY_VALUE(dest, src, min_val, max_val)


def BNNSClipByNorm(
    dest: BNNSNDArrayDescriptor | Any, src: BNNSNDArrayDescriptor | Any, max_norm: float, axis_flags: int
) -> int:
    """Scale a tensor, or each of its slices, down to a maximum L2 norm; bit d of ``axis_flags`` puts axis d in the norm.

    y = x max_norm / max(max_norm, |x|). Axes are counted in the order of size[], but rows first in a RowMajorMatrix.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> x = np.float32([3, 4])
    >>> d = Shape.vector(2).descriptor(data=x)
    >>> BNNSClipByNorm(d, d, 2.5, 0), x.tolist()
    (0, [1.5, 2.0])
    """
    return _BY_NORM(dest, src, max_norm, axis_flags)


def BNNSClipByGlobalNorm(
    dest: Sequence[BNNSNDArrayDescriptor] | Any, src: Sequence[BNNSNDArrayDescriptor] | Any, count: int, max_norm: float,
    use_norm: float,
) -> int:  # fmt: skip
    """Scale a list of tensors by one factor so that their joint norm, or ``use_norm`` if not 0, is bounded.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> a, b = np.float32([3]), np.float32([0, 4])
    >>> d = [Shape.vector(1).descriptor(data=a), Shape.vector(2).descriptor(data=b)]
    >>> BNNSClipByGlobalNorm(d, d, 2, 2.5, 0), a.tolist(), b.tolist()
    (0, [1.5], [0.0, 2.0])
    """
    caller = Caller("BNNSClipByGlobalNorm")
    return attempt_direct(clipping.clip_by_global_norm, caller, dest, src, count, max_norm, use_norm)


def BNNSComputeNorm(
    dest: BNNSNDArrayDescriptor | Any, src: BNNSNDArrayDescriptor | Any, norm_type: BNNSNormType | int, axis_flags: int
) -> int:
    """The L2 norm over the axes of ``axis_flags`` (0: all), which are removed from the shape of ``dest``.

    Axes are counted as in :func:`BNNSClipByNorm`.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> x, y = np.float32([[3, 4], [5, 12]]), np.zeros(2, np.float32)
    >>> BNNSComputeNorm(
    ...     Shape.vector(2).descriptor(data=y), Shape.matrix_row_major(2, 2).descriptor(data=x), BNNSL2Norm, 0b10
    ... )
    0
    >>> y.tolist()  # axis 1 of a matrix runs along its rows
    [5.0, 13.0]
    """
    return _NORM(dest, src, norm_type, axis_flags)


def BNNSComputeNormBackward(
    in_: Any, in_delta: BNNSNDArrayDescriptor | Any, out: Any, out_delta: BNNSNDArrayDescriptor | Any,
    norm_type: BNNSNormType | int, axis_flags: int,
) -> int:  # fmt: skip
    """Gradient of the norm: dy x / y, 0 where y = 0. ``in_`` and ``out`` are those of the forward call.

    >>> import numpy as np
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> x, y, dx, dy = np.float32([3, 4]), np.float32([5]), np.zeros(2, np.float32), np.float32([10])
    >>> BNNSComputeNormBackward(
    ...     x, Shape.vector(2).descriptor(data=dx), y, Shape.vector(1).descriptor(data=dy), BNNSL2Norm, 0
    ... )
    0
    >>> dx.tolist()
    [6.0, 8.0]
    """
    return _NORM_BACKWARD(in_, in_delta, out, out_delta, norm_type, axis_flags)
