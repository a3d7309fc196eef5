"""Constant and counting tensors, made from sizes, which may be those of other tensors, such as ``x.shape[0]``."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import operations
from ..sizes import AnySize, Size, is_plain
from ..tensor import FLOAT32, Tensor, inexact
from .base import TensorLike, creating, function, open_graph, value
from .shapes import expand

__all__ = ["arange", "full", "full_like", "ones", "ones_like", "zeros", "zeros_like"]


def sizes_of(given: Sequence[Any], who: str) -> tuple[AnySize, ...]:
    """Sizes that stand one behind the other, or as one tuple."""
    listed = given[0] if len(given) == 1 and isinstance(given[0], (tuple, list)) else given
    sizes = tuple(n if isinstance(n, Size) else _index(n, who) for n in listed)
    if any(not isinstance(n, Size) and n < 0 for n in sizes):
        raise ValueError(f"{who}: sizes are {sizes}. They must not be negative.")
    return sizes


def _index(n: Any, who: str) -> int:
    if isinstance(n, (bool, Tensor)) or not hasattr(n, "__index__"):
        raise TypeError(f"{who}: {n!r} is not a size. Pass integers, or sizes of values such as x.shape[0].")
    return operator.index(n)


def _filled(sizes: tuple[AnySize, ...], number: Any, dtype: Any = np.float32) -> Tensor:
    graph = open_graph()
    if is_plain(sizes):
        return graph.own_constant(np.full([int(n) for n in sizes], number, dtype))
    result: Tensor = expand(graph.own_constant(np.array(number, dtype)), *sizes)
    return result


def _number(given: Any, who: str, *, integers: bool = False) -> Any:
    if isinstance(given, Tensor) or not isinstance(given, (bool, int, float, np.number, np.bool_)):
        raise TypeError(f"{who}: fill_value is {given!r}. Pass a number; a value is repeated with expand.")
    if isinstance(given, (int, np.integer)):
        if integers:
            return int(given)
        if inexact(np.array(given), FLOAT32) is not None:
            raise ValueError(
                f"{who}: fill_value is {given}, which float32 does not hold. Pass a float if it may be rounded."
            )
    return float(given)


@creating
def zeros(*size: Any) -> Any:
    """Zeros of these sizes."""
    return _filled(sizes_of(size, "zeros"), 0)


@creating
def ones(*size: Any) -> Any:
    """Ones of these sizes."""
    return _filled(sizes_of(size, "ones"), 1)


@creating
def full(size: Any, fill_value: float) -> Any:
    """One number in these sizes."""
    return _filled(sizes_of([size], "full"), _number(fill_value, "full"))


@function
def zeros_like(input: TensorLike) -> Any:
    """Zeros in the shape of the input."""
    return _filled(value(input, "zeros_like").shape, 0)


@function
def ones_like(input: TensorLike) -> Any:
    """Ones in the shape of the input."""
    return _filled(value(input, "ones_like").shape, 1)


@function
def full_like(input: TensorLike, fill_value: float) -> Any:
    """One number in the shape of the input."""
    x = value(input, "full_like")
    number = _number(fill_value, "full_like", integers=x.dtype.kind == "i")
    return _filled(x.shape, number, np.int64 if isinstance(number, int) else np.float32)


@creating
def arange(start: Any, end: Any = None, step: Any = 1) -> Any:
    """Numbers from ``start``, 0 if only one is given, up to and without ``end``; whole numbers if all arguments are.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> class Positions(nn.Module):
    ...     def forward(self, x):
    ...         return x + nn.functional.arange(x.shape[1])
    >>> Positions()(np.zeros((1, 3), np.float32)).tolist()
    [[0.0, 1.0, 2.0]]
    """
    first, last = (0, start) if end is None else (start, end)
    wrong = next((n for n in (first, last, step) if isinstance(n, (bool, Tensor)) or not _is_number(n)), None)
    if wrong is not None:
        raise TypeError(f"arange: {wrong!r} is not a number. Pass numbers, or sizes of values such as x.shape[0].")
    if step == 0:
        raise ValueError("arange: step is 0. Pass another one.")
    graph, given = open_graph(), (first, last, step)
    if not any(isinstance(n, Size) for n in given):
        whole = all(isinstance(n, (int, np.integer)) for n in given)
        return graph.own_constant(np.arange(first, last, step, dtype=np.int64 if whole else np.float32))
    if any(isinstance(n, (float, np.floating)) for n in given):
        return graph.own_constant(np.arange(*map(float, given), dtype=np.float32))
    count = (last - first + step - 1) // step if step > 0 else (first - last - step - 1) // -step
    if count < 0:
        count = 0
    return graph.append(operations.Range(graph, first, step, count, whole=True))


def _is_number(given: Any) -> bool:
    return isinstance(given, (int, float, np.number, Size))
