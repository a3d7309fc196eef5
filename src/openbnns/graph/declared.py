"""Operations that are declared once, as a typed function: operands and their element types, and what it computes, in NumPy.

The annotation of an operand says how its numbers are taken:

* ``Joined``: whole numbers stay what they are if all are whole, otherwise all become float32, as in PyTorch;
* ``Floats``: whole numbers become float32;
* ``AnyType``: as they are, and compared exactly;
* ``Mask``: not zero where something holds.

``Axes`` and ``Axis`` are attributes that count the axes of the first operand; they are checked and counted from the front.

Functions, methods of tensors, the form in files, folding of constants, whole numbers and gradients follow from that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from inspect import signature
from typing import Any, ParamSpec, TypeAlias, TypeVar

import numpy as np

from .._flags import with_flags
from .._spelling import spelled
from .parameter import Parameter
from .sizes import Size
from .tensor import FLOAT32, FUNCTIONS, Array, Expression, Tensor, recorded_graph

Joined: TypeAlias = Any
Floats: TypeAlias = Any
AnyType: TypeAlias = Any
Mask: TypeAlias = Any
Axes: TypeAlias = Any
Axis: TypeAlias = Any

_P = ParamSpec("_P")
_T = TypeVar("_T")


@dataclass(frozen=True, eq=False)
class Declaration:
    """All facts about an elementwise operation; ``slopes`` are the derivatives by its operands, from ``(y, *operands)``."""

    name: str
    kinds: tuple[str, ...]
    """Of its operands: the names of their annotations."""
    eval: Callable[..., Any]
    """What it computes, in NumPy; also of arrays of objects, which hold free sizes."""
    kernel: Any = None
    """The function of a layer that computes it in float32."""
    native: str = ""
    """The native function of whole numbers and masks that it is."""
    slopes: tuple[Callable[..., Any], ...] = ()
    is_mask: bool = False
    """True if its result is 1 where something holds, else 0."""
    attributes: tuple[str, ...] = ()
    """The annotations of what follows the operands."""
    infer: Callable[..., Any] | None = None
    """The shape of its result, from that of the only operand and its attributes; that of the operands together if left out."""
    in_floats: Callable[..., Tensor | None] | None = None
    """Records it in float32 where something is better than a node, such as a line beside a plain number; else gives None."""

    def is_whole(self, given: Sequence[Any]) -> bool:
        """True if the result for these operands is whole numbers: all that are joined are, and not all are numbers of Python."""
        found = False
        for x, kind in zip(given, self.kinds, strict=False):
            if kind == "Joined":
                one = _kind(x)
                if one == "f":
                    return False
                found = found or one == "i"
        return found


OPERATIONS: dict[str, Declaration] = {}
_KINDS = {"Joined", "Floats", "AnyType", "Mask"}


def _kind(x: Any) -> str:
    """ "i" for whole numbers, "w" for a number that may join them, "f" for all else."""
    if isinstance(x, Tensor):
        if x.dtype is FLOAT32 or x.dtype == FLOAT32:
            return "w" if isinstance(x.leaf, Size) else "f"
        return "i"
    if isinstance(x, (np.ndarray, np.generic)):
        return "i" if x.dtype.kind in "iu" else "f"
    return "w" if isinstance(x, (int, Size)) and not isinstance(x, bool) else "f"


def is_number(given: Any) -> bool:
    return isinstance(given, (int, float, np.floating, np.integer)) and not isinstance(given, Size)


def elementwise(kernel: Any = None, *, name: str = "", method: bool = True, **facts: Any) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]:
    """Declare an elementwise function: its body computes arrays, the facts are fields of :class:`Declaration`."""

    def declare(body: Callable[_P, _T]) -> Callable[_P, _T]:
        code, hints = body.__code__, [hint for key, hint in body.__annotations__.items() if key != "return"]
        kinds, others = tuple(h for h in hints if h in _KINDS), tuple(h for h in hints if h not in _KINDS)
        operation = Declaration(name or body.__name__, kinds, body, kernel, attributes=others, **facts)
        count, defaults, bind = code.co_argcount, body.__defaults__ or (), None

        from .functions import base  # what functions share

        @wraps(body)
        def call(*given: Any, **named: Any) -> Any:
            nonlocal bind
            if not named and count - len(defaults) <= len(given) < count:
                given = (*given, *defaults[len(given) - count :])
            elif named or len(given) != count:
                bind = bind or signature(body).bind
                try:
                    bound = bind(*given, **named)
                    bound.apply_defaults()
                    given = bound.args
                except TypeError:
                    spelled(body)(*given, **named)  # which says what is wrong with the arguments
                    raise
            graph = recorded_graph.get()
            return base.run_kept(call, given, {}) if graph is None else base.entered(graph, operation, given)

        call.__name__ = operation.name
        call = with_flags(body, call)
        call.operation = operation  # type: ignore[attr-defined]
        OPERATIONS[operation.name] = operation
        FUNCTIONS[operation.name] = call
        if method:
            setattr(Expression, operation.name, call)
        return call

    return declare


COMPOSITES: dict[str, Callable[..., Any]] = {}
"""What functions mean that are made of others, by name."""


def composite(body: Callable[_P, _T]) -> Callable[_P, _T]:
    """Declare a function by its meaning in other functions; it keeps its name in the graph."""
    from .functions import base

    taken, named_kinds = spelled(body), {key: kind for key, kind in body.__annotations__.items() if key != "return"}
    bind = signature(body).bind

    @wraps(body)
    def call(*given: Any, **named: Any) -> Any:
        graph = recorded_graph.get()
        if graph is None:
            return base.run_kept(call, given, named)
        try:
            bound = bind(*given, **named)
        except TypeError:
            taken(*given, **named)  # which says what is wrong with the arguments
            raise
        bound.apply_defaults()
        with graph.calling(function=body.__name__):
            return base.record_composite(body.__name__, bound.arguments, named_kinds)

    call = with_flags(body, call)
    COMPOSITES[body.__name__] = body
    FUNCTIONS[body.__name__] = call
    return call


def folded(operation: Declaration, *given: Array) -> Any:
    """An operation applied to constants, in their element types."""
    with np.errstate(all="ignore"):
        return operation.eval(*(x.data if isinstance(x, Parameter) else x for x in given))
