"""The one table of operators in NumPy, and what calls them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ... import memory_limit
from ..._value import Array
from ...converted.sizes import Size
from ...converted.tensors import Misfit
from .._call import Call

Body = Callable[..., Any]

TABLE: dict[str, Body] = {}

WITHOUT_GRADIENT = {
    "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "And", "Or", "Xor", "Not", "IsNaN", "IsInf", "Hardmax",
    "BitwiseAnd", "BitwiseOr", "BitwiseXor",
}  # fmt: skip
"""What has no gradient even for tensors of numbers."""

MOVES = {
    "Identity", "Cast", "Transpose", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Concat", "Slice", "Gather", "Split",
}  # fmt: skip
"""What puts elements in other places and leaves them as they are."""


def compute(call: Call, arrays: Sequence[Array | None]) -> tuple[Array, ...]:
    """The results of an operator on arrays."""
    try:
        with np.errstate(all="ignore"):
            results = TABLE[call.op](call, *arrays)
    except Misfit:
        raise
    except (TypeError, ValueError, IndexError, OverflowError, ZeroDivisionError, AttributeError) as error:
        if any(array is not None and array.dtype == object for array in arrays):
            raise Misfit("it computes with the size of the batch, which is no number here") from None
        raise Misfit(f"it cannot be computed ({error})") from None
    listed = results if isinstance(results, tuple) else (results,)
    return tuple(_settled(result) for result in listed)


def _settled(result: Any) -> Array:
    """Whole numbers as such, where no size of a batch is left among them."""
    array = np.asarray(result)
    if array.dtype == object and not any(isinstance(n, Size) for n in array.ravel()):
        array = array.astype(np.int64)
    return array


def limited(shape: Iterable[Any]) -> tuple[int, ...]:
    """A shape to be filled, if that is possible."""
    sizes = tuple(shape)
    if any(isinstance(n, Size) for n in sizes):
        raise Misfit("a constant has the size of the batch")
    numbers = tuple(int(n) for n in sizes)
    if any(n < 0 for n in numbers):
        raise Misfit(f"no constant has shape {numbers}")
    memory_limit.check(8 * math.prod(numbers), f"a constant of shape {numbers}", Misfit)
    return numbers


def register(*names: str) -> Callable[[Body], Body]:
    def decorate(body: Body) -> Body:
        for name in names:
            TABLE[name] = body
        return body

    return decorate
