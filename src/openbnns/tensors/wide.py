"""Float32 tensors in float64 memory, for runs of the reference engine that round nothing.

Descriptors still say Float32. Calls on the reference engine take float64 arrays, inputs and outputs, wherever they take
float32 ones; filters keep float32 copies of their parameters, because they may run on the native engine later. In a
:func:`float64_memory` block these copies are float64, too. Networks are gradient-checked in this way.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import numpy as np

from .. import engines
from .descriptors import FLOAT32, ElementType

_FLOAT64 = replace(FLOAT32, bits=64, numpy=np.dtype(np.float64))
_active: ContextVar[bool] = ContextVar("float64_memory", default=False)


@contextmanager
def float64_memory() -> Iterator[None]:
    """Run the filters of a ``with`` block on the reference engine, with parameters in float64 as well.

    It holds for this thread or asynchronous task only. Filters that are created in the block, with parameters, refuse to run
    on the native engine afterwards.

    >>> import numpy as np
    >>> from openbnns import *
    >>> from openbnns.tensors.wide import float64_memory
    >>> layer = ActivationLayer(function=ActivationFunction.abs(), input=Shape.vector(1))
    >>> with float64_memory():
    ...     layer.apply(np.array([-1e-60]), np.empty(1)).tolist()
    [1e-60]
    """
    token = _active.set(True)
    try:
        with engines.using_engine(engines.REFERENCE):
            yield
    finally:
        _active.reset(token)


def active() -> bool:
    return _active.get()


def number_type() -> np.dtype[Any]:
    """The element type of numbers that a filter copies."""
    return np.dtype(np.float64 if active() else np.float32)


def is_wide(dtype: np.dtype[Any] | None) -> bool:
    """True if arrays of this type currently stand for float32 ones."""
    return dtype == np.float64 and (active() or engines.current() == engines.REFERENCE)


def stored_as(element: ElementType, data: Any) -> ElementType:
    """The element type of memory given for a tensor."""
    return _FLOAT64 if element is FLOAT32 and is_wide(getattr(data, "dtype", None)) else element
