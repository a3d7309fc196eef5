"""Comparisons and logic. Results are masks: 1 where something holds, else 0, through which no gradient goes."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import operations
from ..tensor import Tensor
from .base import TensorLike, function, value
from .reductions import amax, amin


def elementwise(name: str, *given: TensorLike) -> Tensor:
    """A function of elements that takes whole numbers as they are."""
    operands = [value(np.int64(x) if _is_whole(x) else x, name) for x in given]
    return operands[0].graph.append(operations.Elementwise(name, operands))


def _is_whole(given: TensorLike) -> bool:
    return isinstance(given, (int, np.integer)) and not isinstance(given, bool)


@function
def gt(input: TensorLike, other: TensorLike) -> Any:
    """``input > other``.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.functional.gt(np.float32([1, 2, 3]), 2).tolist()
    [0.0, 0.0, 1.0]
    """
    return elementwise("gt", input, other)


@function
def ge(input: TensorLike, other: TensorLike) -> Any:
    """``input >= other``."""
    return elementwise("ge", input, other)


@function
def lt(input: TensorLike, other: TensorLike) -> Any:
    """``input < other``."""
    return elementwise("lt", input, other)


@function
def le(input: TensorLike, other: TensorLike) -> Any:
    """``input <= other``."""
    return elementwise("le", input, other)


@function
def eq(input: TensorLike, other: TensorLike) -> Any:
    """``input == other``."""
    return elementwise("eq", input, other)


@function
def ne(input: TensorLike, other: TensorLike) -> Any:
    """``input != other``."""
    return elementwise("ne", input, other)


@function
def logical_and(input: TensorLike, other: TensorLike) -> Any:
    """1 where neither is 0; ``a & b`` for masks."""
    return elementwise("logical_and", input, other)


@function
def logical_or(input: TensorLike, other: TensorLike) -> Any:
    """1 where one of them is not 0; ``a | b`` for masks."""
    return elementwise("logical_or", input, other)


@function
def logical_xor(input: TensorLike, other: TensorLike) -> Any:
    """1 where exactly one of them is not 0; ``a ^ b`` for masks."""
    return elementwise("logical_xor", input, other)


@function
def logical_not(input: TensorLike) -> Any:
    """1 where the input is 0; ``~a`` for masks."""
    return elementwise("logical_not", input)


def of_masks(name: str, *given: TensorLike) -> Tensor:
    """An operator of masks, which Python writes like one of bits."""
    operands = [value(x, name) for x in given]
    for x in operands:
        if x.dtype.kind == "i" and x.leaf is None:
            sign = {"logical_and": "&", "logical_or": "|", "logical_xor": "^", "logical_not": "~"}[name]
            raise TypeError(
                f"{sign}: acts on masks, such as x > 0, but {x!r} holds integers. There are no operations on single bits; use "
                f"nn.functional.{name} for what is not 0."
            )
    result: Tensor = _LOGIC[name](*operands)
    return result


_LOGIC: dict[str, Any] = {
    "logical_and": logical_and, "logical_or": logical_or, "logical_xor": logical_xor, "logical_not": logical_not,
}  # fmt: skip


@function
def isnan(input: TensorLike) -> Any:
    """1 where the input is NaN."""
    return elementwise("isnan", input)


@function
def isinf(input: TensorLike) -> Any:
    """1 where the input is infinite."""
    return elementwise("isinf", input)


@function
def isfinite(input: TensorLike) -> Any:
    """1 where the input is neither infinite nor NaN."""
    return elementwise("isfinite", input)


@function
def any(input: TensorLike, dim: Any = None, keepdim: bool = False) -> Any:
    """1 where any element along ``dim`` is not 0; of all elements if left out."""
    return ne(amax(ne(input, 0), dim, keepdim), 0)


@function
def all(input: TensorLike, dim: Any = None, keepdim: bool = False) -> Any:
    """1 where no element along ``dim`` is 0; of all elements if left out."""
    return ne(amin(ne(input, 0), dim, keepdim), 0)
