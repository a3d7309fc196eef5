"""Functions of tensors: their registration, recording, or immediate run on arrays; and conversions of their arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

from ..._flags import with_flags
from ..._spelling import spelled
from .. import operations
from ..graph import Graph, current_graph, recording
from ..parameter import Parameter
from ..program import Program
from ..seeds import next_seed
from ..sizes import AnySize, Size, is_same_shape
from ..structure import flatten
from ..tensor import FLOAT32, FUNCTIONS, Array, Tensor

TensorLike = Any
"""An argument of a function: a Tensor, a Parameter, an array or a number."""

_P = ParamSpec("_P")
_T = TypeVar("_T")


def function(body: Callable[_P, _T]) -> Callable[_P, _T]:
    """A function of tensors that also runs on arrays, at once, where no network is being recorded."""
    return _entered(body, run_at_once)


def creating(body: Callable[_P, _T]) -> Callable[_P, _T]:
    """The same for functions that make tensors out of sizes alone, which need no arrays and may draw random numbers."""
    return _entered(body, _run_without_arrays)


def _entered(body: Callable[_P, _T], run: Callable[..., Any]) -> Callable[_P, _T]:
    """The function as users call it, registered in the table of functions; ``run`` runs it outside of a network."""
    checked = with_flags(body, spelled(body))

    @wraps(body)
    def call(*given: _P.args, **named: _P.kwargs) -> _T:
        graph = current_graph()
        if graph is None:
            result: _T = run(checked, given, named)
            return result
        with graph.calling(function=body.__name__):
            return checked(*given, **named)

    FUNCTIONS[body.__name__] = call
    return call


def run_at_once(body: Callable[..., Any], given: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """The result of a function on arrays."""
    if not any(map(_is_array, flatten([list(given), dict(named)])[0])):
        raise TypeError(
            f"{body.__name__}: there is no array among its arguments, and no network is being recorded. Pass arrays, or call it "
            "in forward() of a module."
        )
    return _run(body, given, named, 0)


def _run_without_arrays(body: Callable[..., Any], given: Sequence[Any], named: Mapping[str, Any]) -> Any:
    return _run(body, given, named, next_seed())


def _run(body: Callable[..., Any], given: Sequence[Any], named: Mapping[str, Any], seed: int) -> Any:
    everything, form = flatten([list(given), dict(named)])
    arrays = iter(form.fill(x.data if isinstance(x, Parameter) else x for x in everything))
    graph = Graph(np.random.RandomState(seed))
    with recording(graph):
        outputs, structure = flatten(body(*next(arrays), **next(arrays)))
    graph.finish(outputs)
    program = Program(graph, {}, training=False)
    program.forward()
    return structure.fill(array.copy() for array in program.outputs)


def _is_array(x: Any) -> bool:
    return isinstance(x, (np.ndarray, Parameter))


def open_graph() -> Graph:
    """The graph that is being recorded; there is one while a function runs."""
    graph = current_graph()
    assert graph is not None
    return graph


def value(given: TensorLike, who: str) -> Tensor:
    """The argument of a function as a value."""
    if isinstance(given, Tensor):
        return given
    graph = open_graph()
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
    x = value(given, who)
    if x.dtype == FLOAT32:
        return x
    if isinstance(x.leaf, np.ndarray):
        return x.graph.constant(x.graph.following(x.leaf, _as_float32))
    return x.graph.append(operations.Convert(x, whole=False))


def indices(given: TensorLike, who: str) -> Tensor:
    """A value of whole numbers that name entries."""
    return value(given, who).as_indices(who)


def with_shape(x: Tensor, shape: Sequence[AnySize]) -> Tensor:
    """The same elements with exactly these sizes, unlike ``reshape``, which may take them for those of a sample."""
    if is_same_shape(shape, x.shape):
        return x
    return x.reshape(shape) if isinstance(x.leaf, np.ndarray) else Tensor(x.graph, shape, source=x)


def axis_of(x: Tensor, dim: Any, who: str, *, extra: int = 0) -> int:
    """The axis that ``dim`` names, counted from 0; ``extra`` allows one behind the last, for new axes."""
    rank = x.ndim + extra
    if isinstance(dim, bool) or not hasattr(dim, "__index__") or not -rank <= int(dim) < rank:
        axes = "no axes" if rank == 0 else "only axis 0" if rank == 1 else f"the axes 0 to {rank - 1}"
        raise ValueError(f"{who}: dim is {dim!r}, but {x.shape} has {axes}.")
    return int(dim) % rank


def axes_of(x: Tensor, dim: Any, who: str) -> tuple[int, ...]:
    """Several axes, each once; None stands for all. Of a single number, 0 and -1 stand for it, as in PyTorch."""
    if dim is None:
        return tuple(range(x.ndim))
    given = dim if isinstance(dim, (tuple, list)) else (dim,)
    if x.ndim == 0 and len(given) == 1 and given[0] in (0, -1) and not isinstance(given[0], bool):
        return ()
    axes = [axis_of(x, d, who) for d in given]
    if len(set(axes)) != len(axes):
        raise ValueError(f"{who}: dim {dim} names an axis twice.")
    return tuple(sorted(axes))
