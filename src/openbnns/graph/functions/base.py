"""Functions of tensors: their registration, recording, or immediate run on arrays; and conversions of their arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from inspect import signature
from threading import local
from types import FunctionType
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from ... import engines
from ..._flags import with_flags
from ..._spelling import spelled
from ...tensors import wide
from .. import operations
from ..declared import OPERATIONS, Declaration
from ..graph import Graph, current_graph, recording
from ..operations import Node
from ..parameter import Parameter
from ..program import Program
from ..seeds import next_seed
from ..sizes import AnySize, Size, is_same_shape
from ..structure import Structure, flatten
from ..tensor import FLOAT32, FUNCTIONS, INT64, Array, Tensor

TensorLike = Any
"""An argument of a function: a Tensor, a Parameter, an array or a number."""

_P = ParamSpec("_P")
_T = TypeVar("_T")


def function(body: Callable[_P, _T]) -> Callable[_P, _T]:
    """A function of tensors that also runs on arrays, at once, where no network is being recorded."""
    return _entered(body, run_kept)


def at_once(body: Callable[_P, _T]) -> Callable[_P, _T]:
    """The same for functions that change arrays, such as statistics, which no kept program could."""
    return _entered(body, run_at_once)


def creating(body: Callable[_P, _T]) -> Callable[_P, _T]:
    """The same for functions that make tensors out of sizes alone, which need no arrays and may draw random numbers."""
    return _entered(body, _run_without_arrays)


def for_ranks(body: Callable[Concatenate[str, int, _P], _T], ranks: str = "123") -> list[Callable[_P, _T]]:
    """The functions of signals, images and volumes that are one with the number of axes: "conv2d" and 2 are its first arguments."""
    made = []
    for axes, kind, kernel in ((1, "signals", "K"), (2, "images", "KH, KW"), (3, "volumes", "KD, KH, KW")):
        if str(axes) in ranks:
            name = f"{body.__name__}{axes}d"
            own: Any = FunctionType(body.__code__, body.__globals__, name, body.__defaults__)
            own.__qualname__, own.__module__ = name, body.__module__
            own.__doc__ = (body.__doc__ or "").format(axes=axes, images=kind, kernel=kernel)
            own.__signature__ = signature(body).replace(parameters=list(signature(body).parameters.values())[2:])
            made.append(_entered(own, run_kept, name, axes))
    return made


def _entered(body: Callable[_P, _T], run: Callable[..., Any], *first: Any) -> Callable[_P, _T]:
    """The function as users call it, registered in the table of functions; ``run`` runs it outside of a network."""
    checked: Any = with_flags(body, spelled(body))
    if first:
        checked = partial(checked, *first)
        checked.__name__ = body.__name__

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


# Programs that are kept: those of functions on arrays of these shapes, for each thread.

_MOST_KEPT = 256
_LARGEST_KEPT = 1 << 20  # bytes of the values of a program
_PLAIN = (int, float, bool, str, type(None))


class _Kept(local):
    def __init__(self) -> None:
        self.programs: dict[Any, tuple[Program, Structure] | None] = {}  # None where none can be kept


_kept = _Kept()


def run_kept(body: Callable[..., Any], given: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """The same as ``run_at_once``, by a program that is kept for the next call on arrays of these shapes, if there can be one."""
    arrays: list[Array] = []
    noted: list[Any] = [body, engines.arithmetic(), *named]
    if not all([_note(x, noted, arrays) for x in (*given, *named.values())]) or not arrays or wide.active():
        return run_at_once(body, given, named)
    key = tuple(noted)
    kept = _kept.programs.get(key)
    if kept is None and key not in _kept.programs:
        kept = _kept.programs[key] = _made_for(body, given, named)
        if len(_kept.programs) > _MOST_KEPT:
            del _kept.programs[next(iter(_kept.programs))]
    if kept is None:
        return run_at_once(body, given, named)
    program, structure = kept
    for target, x in zip(program.inputs, arrays, strict=True):
        target[...] = x
    program.forward()
    if structure.kind is None:
        return program.outputs[0].copy()
    return structure.fill(array.copy() for array in program.outputs)


def _note(x: Any, noted: list[Any], arrays: list[Array]) -> bool:
    """Note what a program depends on; False if that cannot be told."""
    kind = type(x)
    if kind is np.ndarray and x.dtype.kind in "fiu":
        arrays.append(x)
        noted += (x.shape, x.dtype.kind)
    elif kind in _PLAIN:
        noted += (kind, x if x or kind is not float else repr(x))  # -0.0 is 0.0, but not the same number
    elif kind in (tuple, list):
        noted += (kind, len(x))
        return all([_note(part, noted, arrays) for part in x])
    else:
        return False
    return True


def _made_for(body: Callable[..., Any], given: Sequence[Any], named: Mapping[str, Any]) -> tuple[Program, Structure] | None:
    """A program with inputs for the arrays; None if there is none, or if it could differ from one that knows their numbers."""
    graph = Graph(np.random.RandomState(0))
    everything, form = flatten([list(given), dict(named)])
    filled = iter(
        form.fill(
            graph.input(x.shape, FLOAT32 if x.dtype.kind == "f" else INT64) if isinstance(x, np.ndarray) else x
            for x in everything
        )
    )
    types = [x.dtype for x in graph.inputs]
    try:
        with recording(graph):
            outputs, structure = flatten(body(*next(filled), **next(filled)))
        graph.finish(outputs)
        if types != [x.dtype for x in graph.inputs] or any(step.random for step in graph.operations):
            return None
        program = Program(graph, {}, training=False)
    except Exception:  # which the run on numbers explains
        return None
    return (program, structure) if program.arena_bytes <= _LARGEST_KEPT else None


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


def held_weight(graph: Graph, given: TensorLike, who: str) -> Parameter | Tensor:
    """A weight as operations take it: a parameter or a constant, which may be fused, or a value that is computed."""
    if isinstance(given, Parameter):
        graph.use(given)
        return given
    x = numbers(given, who)
    if isinstance(x.leaf, np.ndarray):
        kind = Parameter if x.leaf.flags.writeable else Parameter.owning  # others may write to it, unseen
        return kind(x.leaf, requires_grad=False)
    return x.leaf if isinstance(x.leaf, Parameter) else x


def held_together(graph: Graph, *given: TensorLike, who: str) -> list[Any]:
    """Weights for operations that take all as parameters, or all as values."""
    held = [None if x is None else held_weight(graph, x, who) for x in given]
    if not any(isinstance(x, Tensor) for x in held):
        return held
    return [graph.parameter(x, own=False) if isinstance(x, Parameter) else x for x in held]


def entered(graph: Graph, operation: Declaration, given: Sequence[Any]) -> Tensor:
    """Record a declared operation on values, arrays and numbers."""
    with graph.calling(function=operation.name):
        return record(operation, *given)


def applied(name: str, *given: Any) -> Tensor:
    """Record a declared operation by its name."""
    return entered(open_graph(), OPERATIONS[name], given)


def record(operation: Declaration, *given: Any) -> Tensor:
    whole = operation.is_whole(given)
    simpler = None if whole or operation.in_floats is None else operation.in_floats(*given)
    if simpler is not None:
        return simpler
    name = operation.name
    operands = [_operand(x, kind, whole, name) for x, kind in zip(given, operation.kinds, strict=False)]
    graph, first = operands[0].graph, operands[0]
    for i, x in enumerate(operands[1:], 1):  # a layer takes the same memory once, or in one shape
        if any(x.storage is y.storage and not is_same_shape(x.shape, y.shape) for y in operands[:i]):
            operands[i] = graph.append(operations.Expand(x, Tensor(graph, x.shape, x.dtype)))
    if not operation.attributes:
        return graph.append(Node(name, operands))
    attributes = [
        axes_of(first, x, name) if kind == "Axes" else axis_of(first, x, name) if kind == "Axis" else x
        for x, kind in zip(given[len(operands) :], operation.attributes, strict=True)
    ]
    return graph.append(Node(name, operands, attributes))


def record_composite(name: str, arguments: Mapping[str, Any], kinds: Mapping[str, str]) -> Tensor:
    operands = [numbers(x, name) for key, x in arguments.items() if kinds[key] == "Floats"]
    attributes = tuple((key, x) for key, x in arguments.items() if kinds[key] != "Floats")
    return operands[0].graph.append(operations.Composite(name, operands, attributes))


def _operand(given: Any, kind: str, whole: bool, who: str) -> Tensor:
    if kind == "Mask" and isinstance(given, np.ndarray) and given.dtype != np.float32:
        graph = open_graph()
        return graph.constant(graph.following(given, _as_mask))
    if kind == "AnyType" or (kind == "Joined" and whole):
        is_whole = isinstance(given, (int, np.integer)) and not isinstance(given, (bool, Size))
        x = value(np.int64(given) if is_whole else given, who)
        return x if kind == "AnyType" or x.dtype.kind == "i" else x.graph.append(operations.Convert(x, whole=True))
    return numbers(given, who)


def _as_mask(array: Array) -> Array:
    mask: Array = (array != 0).astype(np.float32)
    return mask


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
