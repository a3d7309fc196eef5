"""Shared code of operations that have no kernel and are computed by NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..calls import NumpyCall
from ..tensor import Array


def computing(target: Array, formula: Callable[..., Any], *given: Any) -> NumpyCall:
    """A call that stores the result of a formula; infinities and NaN come out as IEEE 754 says, without a warning."""

    def call() -> None:
        with np.errstate(all="ignore"):
            np.copyto(target, formula(*given), casting="unsafe")

    return NumpyCall(call)


def summed(gradient: Array, shape: Sequence[int]) -> Array:
    """The gradient of an operand of this shape, from that of its copies in a broadcast result."""
    extra = gradient.ndim - len(shape)
    repeated = [extra + axis for axis, n in enumerate(shape) if n == 1 and gradient.shape[extra + axis] != 1]
    total: Array = gradient.sum(axis=(*range(extra), *repeated))
    return total.reshape(shape)
