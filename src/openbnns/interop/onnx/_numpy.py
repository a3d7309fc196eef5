"""Operators in NumPy: for constants, which are computed once, and for whole numbers and masks, which have no gradient."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ...files import memory_limit
from ...graph.sizes import Size
from ...graph.tensor import Array
from ..converted.registry import Handler
from ..converted.tensors import Misfit
from ._call import Call


def compute(body: Handler | None, call: Call, arrays: Sequence[Array | None]) -> tuple[Array, ...]:
    """The results of an operator on arrays."""
    assert body is not None
    try:
        with np.errstate(all="ignore"):
            results = body(call, *arrays)
    except Misfit:
        raise
    except (TypeError, ValueError, IndexError, OverflowError, ZeroDivisionError, AttributeError) as error:
        raise Misfit(f"it cannot be computed ({error})") from None
    listed = results if isinstance(results, tuple) else (results,)
    return tuple(_settled(result) for result in listed)


def _settled(result: Any) -> Array:
    """Numbers as such, where no free size is left among them."""
    if isinstance(result, Size):
        single = np.empty((), object)
        single[()] = result
        return single
    array = np.asarray(result)
    if array.dtype != object:
        return array
    kinds = {type(n) for n in array.ravel()}
    if any(issubclass(kind, (float, np.floating)) for kind in kinds):
        return array.astype(np.float32)
    if any(issubclass(kind, (bool, np.bool_)) for kind in kinds):
        return array.astype(np.bool_)
    return array if Size in kinds else array.astype(np.int64)


def limited(shape: Iterable[Any]) -> tuple[int, ...]:
    """A shape to be filled, if that is possible."""
    numbers = tuple(int(n) for n in shape)
    if any(n < 0 for n in numbers):
        raise Misfit(f"no constant has shape {numbers}")
    memory_limit.check(8 * math.prod(numbers), f"a constant of shape {numbers}", Misfit)
    return numbers


def listed(array: Array | None) -> list[int] | None:
    return None if array is None else [int(n) for n in array.ravel()]


def frozen(array: Array) -> Array:
    """An array that nothing writes to from now on, so that what follows from it is computed once."""
    array.flags.writeable = False
    return array
