"""Declared operations on tensors of other libraries: recorded in their element types, or applied to constants."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from ...graph.declared import OPERATIONS
from ...graph.functions.base import applied
from ...graph.sizes import broadcast
from ...graph.tensor import Array, Tensor
from .tensors import ForeignTensor, Misfit


def operand(x: ForeignTensor, rank: int) -> Any:
    """A value, or a number if it is a constant of a single one."""
    if x.constant and x.held.size == 1 and x.kind == "f" and x.rank <= rank:
        return float(x.held.item())
    return x.numbers


def is_whole(given: Sequence[ForeignTensor]) -> bool:
    return {x.kind for x in given} <= {"i", "b"}


def _named(name: str, whole: bool) -> str:
    return "trunc_divide" if name == "div" and whole else name


def recorded(name: str, *given: ForeignTensor) -> ForeignTensor:
    """An operation on tensors: on whole numbers if all are, in float32 otherwise."""
    shape = broadcast(*(x.shape for x in given))
    if shape is None:
        raise Misfit(f"{' and '.join(str(x.shape) for x in given)} do not fit together")
    if OPERATIONS[name].is_mask:
        return ForeignTensor(applied(name, *(x.elements for x in given)), "b")
    if is_whole(given):
        return ForeignTensor(applied(_named(name, whole=True), *(x.whole for x in given)))
    taken = [x.numbers for x in given]
    if len(given) == 2:
        a, b = given
        taken[1] = (
            taken[1] if name == "div" else operand(b, a.rank)
        )  # since a product with the reciprocal has other bits
        left = operand(a, b.rank)
        taken[0] = left if isinstance(left, Tensor) or isinstance(taken[1], Tensor) else taken[0]
    y = applied(name, *taken)
    return ForeignTensor(y if y.ndim == len(shape) else y.reshape((*[1] * (len(shape) - y.ndim), *y.shape)))


def folded(name: str, *arrays: Array) -> Any:
    """An operation applied to constants, which may be free sizes; the result has the type of the first unless it is a mask."""
    operation = OPERATIONS[_named(name, whole=arrays[0].dtype.kind != "f")]
    several = len(arrays) > len(operation.kinds)
    result = reduce(operation.eval, arrays) if several else operation.eval(*arrays)
    kind = np.dtype(np.bool_) if operation.is_mask else arrays[0].dtype
    cast = operation.is_mask or (kind.kind in "fiu" and getattr(result, "dtype", kind).kind in "fiu")
    return np.asarray(result).astype(kind, copy=False) if cast else result
