"""Declaration of functions of tensors, and conversions of their arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from inspect import signature
from types import FunctionType
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from ..._flags import with_flags
from ..._spelling import spelled
from .. import operations
from ..checks import axes_of as axes_of
from ..checks import axis_of as axis_of
from ..declared import COMPOSITES, OPERAND_KINDS, OPERATIONS, Declaration, are_integers, declare
from ..declared_methods import DeclaredMethods
from ..graph import Graph, current_graph
from ..operation import require_exact
from ..operations import Node
from ..parameter import Parameter
from ..sizes import AnySize, Size, is_same_shape
from ..tensor import FLOAT32, FUNCTIONS, Array, Tensor
from .on_arrays import run_at_once, run_kept, run_without_arrays

TensorLike = Any
"""An argument of a function: a Tensor, a Parameter, an array or a number."""

Run = Callable[[Callable[..., Any], Sequence[Any], Mapping[str, Any]], Any]
"""A way to run a function on arrays: of the function, positional and named arguments."""

_P = ParamSpec("_P")
_T = TypeVar("_T")


# Decorators that declare functions.


def function(body: Callable[_P, _T]) -> Callable[_P, _T]:
    """Declare a function that records others; outside of networks it runs on arrays at once."""
    return _entered(body, _checked(body), run_kept)


def at_once(body: Callable[_P, _T]) -> Callable[_P, _T]:
    """Declare a function that changes arrays, such as statistics, which no kept program could."""
    return _entered(body, _checked(body), run_at_once)


def creating(body: Callable[_P, _T]) -> Callable[_P, _T]:
    """Declare a function that makes tensors out of sizes alone: it needs no arrays and may draw random numbers."""
    return _entered(body, _checked(body), run_without_arrays)


def elementwise(
    kernel: Any = None, *, method: bool = True, **facts: Any
) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]:
    """Declare an operation by a function whose body computes arrays; facts are fields of :class:`Declaration`."""

    def declared(body: Callable[_P, _T]) -> Callable[_P, _T]:
        hints, arguments = _annotations(body), _arguments_of(body)
        kinds, attributes = (tuple(h for h in hints if (h in OPERAND_KINDS) is operand) for operand in (True, False))
        operation = declare(Declaration(body.__name__, kinds, body, kernel, attributes=attributes, **facts))

        @wraps(body)
        def recorded(*given: Any, **named: Any) -> Any:
            return record(operation, *arguments(given, named))

        call = _entered(body, with_flags(body, recorded), run_kept)
        if method:
            setattr(DeclaredMethods, operation.name, call)
        return call

    return declared


def composite(body: Callable[_P, _T]) -> Callable[_P, _T]:
    """Declare a function by its meaning in other functions; it keeps its name in the graph."""
    name, hints, arguments = body.__name__, _annotations(body), _arguments_of(body)
    names = body.__code__.co_varnames

    @wraps(body)
    def recorded(*given: Any, **named: Any) -> Any:
        values = arguments(given, named)
        operands = [
            numbers(x, name, rounded=True) for x, hint in zip(values, hints, strict=True) if hint in OPERAND_KINDS
        ]
        attributes = list(zip(names, values, strict=False))[len(operands) :]
        return operands[0].graph.append(operations.Composite(name, operands, attributes))

    COMPOSITES[name] = _checked(body)
    return _entered(body, with_flags(body, recorded), run_kept)


def for_ranks(body: Callable[Concatenate[str, int, _P], _T], ranks: str = "123") -> list[Callable[_P, _T]]:
    """Declare functions of signals, images and volumes by one whose first arguments are their name and the number of axes."""
    made = []
    for axes, kind, kernel in ((1, "signals", "K"), (2, "images", "KH, KW"), (3, "volumes", "KD, KH, KW")):
        if str(axes) in ranks:
            name = f"{body.__name__}{axes}d"
            own: Any = FunctionType(body.__code__, body.__globals__, name, body.__defaults__)
            own.__qualname__, own.__module__ = name, body.__module__
            own.__doc__ = (body.__doc__ or "").format(axes=axes, images=kind, kernel=kernel)
            own.__signature__ = signature(body).replace(parameters=list(signature(body).parameters.values())[2:])
            recorded: Any = partial(_checked(own), name, axes)
            recorded.__name__ = name
            made.append(_entered(own, recorded, run_kept))
    return made


def _entered(body: Callable[_P, _T], recorded: Callable[..., _T], run: Run) -> Callable[_P, _T]:
    """The function as users call it, registered in the table of functions.

    ``recorded`` records a call of ``body`` in the current graph; ``run`` runs it where there is none.
    """

    @wraps(body)
    def call(*given: _P.args, **named: _P.kwargs) -> _T:
        graph = current_graph()
        if graph is None:
            return run(recorded, given, named)  # type: ignore[no-any-return]  # arrays take the place of tensors
        if graph.function is not None:  # of which this call is a part
            return recorded(*given, **named)
        with graph.calling(function=body.__name__):
            return recorded(*given, **named)

    FUNCTIONS[body.__name__] = call
    return call


def _checked(body: Callable[_P, _T]) -> Callable[_P, _T]:
    """``body`` with errors for misspelled keywords and for flags that are not booleans."""
    return with_flags(body, spelled(body))


def _annotations(body: Callable[..., Any]) -> list[str]:
    """The annotations of arguments, as text."""
    return [hint for name, hint in body.__annotations__.items() if name != "return"]


def _arguments_of(body: Callable[..., Any]) -> Callable[[Sequence[Any], Mapping[str, Any]], Sequence[Any]]:
    """A function that gives the arguments of a call of ``body`` in order, defaults included."""
    count, defaults, bind = len(_annotations(body)), getattr(body, "__defaults__", None) or (), None

    def arguments(given: Sequence[Any], named: Mapping[str, Any]) -> Sequence[Any]:
        nonlocal bind
        if not named and count - len(defaults) <= len(given) <= count:
            return given if len(given) == count else (*given, *defaults[len(given) - count :])
        bind = bind or signature(body).bind
        try:
            bound = bind(*given, **named)
        except TypeError:
            spelled(body)(*given, **named)  # explains what is wrong with the arguments
            raise
        bound.apply_defaults()
        return bound.args

    return arguments


# Arguments.


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
    if isinstance(given, np.integer):
        return graph.own_constant(np.array(_int64(given, who)))
    if isinstance(given, (bool, int, float, np.number, np.bool_)):
        return graph.own_constant(np.array(given, np.float32))
    if isinstance(given, np.ndarray):
        return graph.constant(given)
    raise TypeError(
        f"{who}: a {type(given).__name__} is not a tensor. Pass a value, an nn.Parameter, an array or a number."
    )


def _int64(given: Any, who: str) -> Any:
    try:
        return np.int64(int(given))
    except OverflowError:
        raise ValueError(f"{who}: int64 does not hold {given}. Pass an integer below 2^63, or a float.") from None


def numbers(given: TensorLike, who: str, *, rounded: bool = False) -> Tensor:
    """A value to compute with in float32.

    Integers that float32 does not hold are refused, or ``rounded``: by elementwise functions, as in PyTorch.
    """
    x = value(given, who)
    if x.dtype == FLOAT32:
        return x
    if isinstance(x.leaf, np.ndarray):
        return x.graph.constant(x.graph.following(x.leaf, partial(_as_float32, who="" if rounded else who)))
    return x.graph.append(operations.Convert(x, whole=False, who="" if rounded else who))


def _as_float32(array: Array, who: str) -> Array:
    if who:
        require_exact(array, who)
    return array.astype(np.float32)


def integers_of(x: Tensor) -> Tensor:
    """A value as integers; fractions are dropped."""
    return x if x.dtype.kind == "i" else x.graph.append(operations.Convert(x, whole=True))


def joined(given: Sequence[TensorLike], who: str) -> list[Tensor]:
    """Values of one element type: integers if all join as integers, as in PyTorch, otherwise float32."""
    whole = are_integers(given)
    return [_operand(x, "Joined", whole, who) for x in given]


def parameter_or(given: TensorLike) -> Any:
    """The parameter that a tensor stands for, which may be fused; anything else as it is."""
    return given.leaf if isinstance(given, Tensor) and isinstance(given.leaf, Parameter) else given


def held_weight(graph: Graph, given: TensorLike, who: str) -> Parameter | Tensor:
    """A weight as operations take it: a parameter or a constant, which may be fused, or a value that is computed."""
    if isinstance(given, Parameter):
        graph.use(given)
        return given
    x = numbers(given, who)
    if isinstance(x.leaf, np.ndarray):
        kind = Parameter if x.leaf.flags.writeable else Parameter.owning  # others may write to it, unseen
        return kind(x.leaf, requires_grad=False)
    held: Parameter | Tensor = parameter_or(x)
    return held


def held_together(graph: Graph, *given: TensorLike, who: str) -> list[Any]:
    """Weights for operations that take all as parameters, or all as values."""
    held = [None if x is None else held_weight(graph, x, who) for x in given]
    if not any(isinstance(x, Tensor) for x in held):
        return held
    return [graph.parameter(x, own=False) if isinstance(x, Parameter) else x for x in held]


def applied(name: str, *given: Any) -> Tensor:
    """Record a declared operation by its name."""
    with open_graph().calling(function=name):
        return record(OPERATIONS[name], *given)


def record(operation: Declaration, *given: Any) -> Tensor:
    """Record a declared operation on tensors, arrays and numbers."""
    whole = operation.is_whole(given)
    simpler = None if whole or operation.in_floats is None else operation.in_floats(*given)
    if simpler is not None:
        return simpler
    name, count = operation.name, len(operation.kinds)
    operands = [_operand(x, kind, whole, name, rounded=True) for x, kind in zip(given, operation.kinds, strict=False)]
    graph = operands[0].graph
    for i, x in enumerate(operands[1:], 1):  # a layer takes the same memory once, or in one shape
        if any(x.storage is y.storage and not is_same_shape(x.shape, y.shape) for y in operands[:i]):
            operands[i] = graph.append(operations.Expand(x, Tensor(graph, x.shape, x.dtype)))
    return graph.append(Node(name, operands, given[count:]))


def _operand(given: Any, kind: str, whole: bool, who: str, *, rounded: bool = False) -> Tensor:
    if kind == "Mask":
        if isinstance(given, np.ndarray) and given.dtype.kind in "fiub" and given.dtype != np.float32:
            graph = open_graph()
            return graph.constant(graph.following(given, _as_mask))
        x = value(given, who)
        return x if x.dtype == FLOAT32 else record(OPERATIONS["ne"], x, 0)
    if kind == "AnyType" or (whole and kind != "Floats"):
        is_plain = isinstance(given, int) and not isinstance(given, Size)
        x = open_graph().own_constant(np.array(_int64(given, who))) if is_plain else value(given, who)
        return x if kind == "AnyType" else integers_of(x)
    return numbers(given, who, rounded=rounded)


def _as_mask(array: Array) -> Array:
    return np.array(array != 0, np.float32)


def indices(given: TensorLike, who: str) -> Tensor:
    """A value of whole numbers that name entries."""
    return value(given, who).as_indices(who)


def with_shape(x: Tensor, shape: Sequence[AnySize]) -> Tensor:
    """The elements of a value in exactly these sizes, which ``reshape`` may take for those of a sample."""
    if is_same_shape(shape, x.shape):
        return x
    return x.reshape(shape) if isinstance(x.leaf, np.ndarray) else Tensor(x.graph, shape, source=x)
