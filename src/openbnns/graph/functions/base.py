"""The decorators and conversions that let functions act on values, and on arrays outside a network."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

from ..._flags import with_flags
from ..._spelling import spelled
from .. import operations
from ..graph import current_graph
from ..parameter import Parameter
from ..sizes import Size
from ..tensor import FLOAT32, Array, Tensor

TensorLike = Any
"""An argument of a function: a Tensor, a Parameter, an array or a number."""

_P = ParamSpec("_P")
_T = TypeVar("_T")


def function(body: Callable[_P, _T]) -> Callable[_P, _T]:
    """A function of values that also runs on arrays, at once, where no network is being recorded."""

    checked = with_flags(body, spelled(body))

    @wraps(body)
    def call(*given: _P.args, **named: _P.kwargs) -> _T:
        graph = current_graph()
        if graph is None:
            from .eager import run_at_once

            result: _T = run_at_once(checked, given, named)
            return result
        with graph.calling(function=body.__name__):
            return checked(*given, **named)

    return call


def creating(body: Callable[_P, _T]) -> Callable[_P, _T]:
    """The same for functions that make values out of sizes alone, which need no arrays and may draw random numbers."""
    call = function(body)

    @wraps(body)
    def alone(*given: _P.args, **named: _P.kwargs) -> _T:
        if current_graph() is not None:
            return call(*given, **named)
        from .eager import created

        result: _T = created(with_flags(body, spelled(body)), given, named)
        return result

    return alone


def value(given: TensorLike, who: str) -> Tensor:
    """A value for what a function was given."""
    if isinstance(given, Tensor):
        return given
    graph = current_graph()
    assert graph is not None
    if isinstance(given, Parameter):
        return graph.parameter(given)
    if isinstance(given, Size):
        return graph.size(given)
    if isinstance(given, (bool, int, float, np.number, np.bool_)):
        return graph.own_constant(np.array(given, np.int64 if isinstance(given, np.int64) else np.float32))
    if isinstance(given, np.ndarray):
        return graph.constant(given)
    raise TypeError(
        f"{who}: a {type(given).__name__} is not a tensor. Pass a value, an nn.Parameter, an array or a number."
    )


def _as_float32(array: Array) -> Array:
    return array.astype(np.float32)


def numbers(given: TensorLike, who: str) -> Tensor:
    """A value to compute with: whole numbers become float32."""
    found = value(given, who)
    if found.dtype == FLOAT32:
        return found
    if isinstance(found.leaf, np.ndarray):
        return found.graph.constant(found.graph.following(found.leaf, _as_float32))
    return found.graph.append(operations.Convert(found, whole=False))


def indices(given: TensorLike, who: str) -> Tensor:
    """A value of whole numbers that name entries."""
    return value(given, who).as_indices(who)


def axis_of(x: Tensor, dim: Any, who: str, *, extra: int = 0) -> int:
    """The axis that ``dim`` means, counted from 0; ``extra`` for one that is to be made."""
    rank = x.ndim + extra
    if isinstance(dim, bool) or not hasattr(dim, "__index__") or not -rank <= int(dim) < rank:
        raise ValueError(f"{who}: dim is {dim!r}, but {x.shape} has the axes 0 to {rank - 1}.")
    return int(dim) % rank


def axes_of(x: Tensor, dim: Any, who: str) -> tuple[int, ...]:
    """Several axes, each once; None stands for all."""
    if dim is None:
        return tuple(range(x.ndim))
    found = [axis_of(x, d, who) for d in (dim if isinstance(dim, (tuple, list)) else (dim,))]
    if len(set(found)) != len(found):
        raise ValueError(f"{who}: dim {dim} names an axis twice.")
    return tuple(sorted(found))
