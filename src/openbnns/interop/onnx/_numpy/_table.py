"""The one table of operators in NumPy, and what calls them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ....graph.sizes import Size
from ....graph.tensor import Array
from ....nn.files import memory_limit
from ...converted.tensors import Misfit
from .._call import Call

Body = Callable[..., Any]

TABLE: dict[str, Body] = {}

BY_ELEMENT = {
    "Hardmax", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot", "BitShift", "Add", "Sub",
    "Mul", "Div", "Neg", "Abs", "Sign", "Max", "Min", "Sum", "Pow", "Mod",
    "Where", "Identity", "Cast", "CastLike", "Clip", "CumSum", "Relu", "Trilu",
}  # fmt: skip
"""Operators whose results have the broadcast shape of the operands."""

MOVES = {
    "Identity", "Cast", "Transpose", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Concat", "Slice", "Gather", "Split",
}  # fmt: skip
"""Operators that put elements in other places and leave them as they are."""


def compute(call: Call, arrays: Sequence[Array | None]) -> tuple[Array, ...]:
    """The results of an operator on arrays."""
    try:
        with np.errstate(all="ignore"):
            results = TABLE[call.op](call, *arrays)
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


def register(*names: str) -> Callable[[Body], Body]:
    def decorate(body: Body) -> Body:
        for name in names:
            TABLE[name] = body
        return body

    return decorate
