"""Messages about arguments of a wrong Python type, by name.

Layers and functions do not check the type of every argument before they use it: that would cost time at each call. When
something deep inside fails on one, the arguments of the public call are compared with its annotations, and the
first that does not fit is what the message is about.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from types import FrameType
from typing import Any, TypeVar

import numpy as np

from .._spelling import misfit
from .._strict import strict
from ..abi.structs import BNNSNDArrayDescriptor
from ..errors import BNNSError, LayerApplyError, Problem, as_exception, problem_of

MISUSE_ERRORS = (TypeError, ValueError, AttributeError, LookupError, OverflowError, MemoryError)
"""Errors that code raises for an object it was not made for."""

_Callable = TypeVar("_Callable", bound=Callable[..., Any])


def reports_misuse(family: type[BNNSError] = LayerApplyError) -> Callable[[_Callable], _Callable]:
    """A decorator: an argument of a wrong type becomes an exception of ``family`` that names it.

    If a constructor refuses its arguments, it is tried with likely corrections.
    """

    def decorate(function: _Callable) -> _Callable:
        @functools.wraps(function)
        def checked(*arguments: Any, **named: Any) -> Any:
            try:
                return function(*arguments, **named)
            except BNNSError as error:
                meant = _meant_by_creation(error, function, arguments, named) if creates(arguments) else None
                if meant is None:
                    raise
                raise as_exception(meant, family) from None
            except MISUSE_ERRORS as error:
                inside = error.__traceback__ and error.__traceback__.tb_next
                if inside is None:  # the call itself does not fit the signature
                    if isinstance(error, TypeError):
                        raise misfit(error, function, arguments, named) from None
                    raise
                raise as_exception(misuse_in(inside.tb_frame, error), family) from error

        def creates(arguments: tuple[Any, ...]) -> bool:
            """True for the constructor that was called, as opposed to that of a base class."""
            return function.__name__ == "__init__" and getattr(type(arguments[0]), "__init__", None) is checked

        return checked  # type: ignore[return-value]

    return decorate


def _meant_by_creation(
    error: BNNSError, function: Callable[..., Any], arguments: tuple[Any, ...], named: Mapping[str, Any]
) -> Problem | None:
    """The problem with a likely correction of a constructor call; ``None`` if no small change makes it valid."""
    from .. import diagnosis

    kind: Any = type(arguments[0])
    problem = problem_of(error)
    if problem is None:
        return None
    kept = {name: value for name, value in named.items() if name != "filter_parameters"}  # calls no allocator

    def valid(changed: Mapping[str, Any]) -> bool:
        try:
            with strict(False):
                function(kind.__new__(kind), *arguments[1:], **{**kept, **changed})
        except (BNNSError, *MISUSE_ERRORS):
            return False
        return True

    meant = diagnosis.of_creation(problem, kept, valid)
    return None if meant is problem else meant


def flag(value: Any) -> bool:
    """As ``bool``, but an empty array is an error with every NumPy; before 2.2 it is ``False``, with a warning."""
    if isinstance(value, np.ndarray) and value.size == 0:
        raise ValueError("an empty array is neither true nor false")
    return bool(value)


def misuse_in(frame: FrameType | None, error: Exception) -> Problem:
    """The problem to report for ``error``; ``frame`` is the public call, by default the outermost one of this package."""
    frame = _public_frame() if frame is None else frame
    return misuse(error, _who(frame), _annotations(frame), frame.f_locals)


def misuse(error: Exception, who: str, annotations: Mapping[str, Any], given: Mapping[str, Any]) -> Problem:
    """The problem to report for ``error`` in a call of ``who`` with the arguments ``given``."""
    if str(error).startswith(who) and isinstance(error, (TypeError, ValueError)):
        return Problem(str(error), kind=type(error))
    for name, annotation in annotations.items():
        if name != "return" and name in given and not _fits(given[name], annotation):
            value = given[name]
            return Problem(
                f"{who}: {name} must be {_spelled(annotation)}, not {type(value).__name__}{_inside(value)}.",
                kind=TypeError,
            )
    kind = TypeError if isinstance(error, (TypeError, AttributeError)) else ValueError
    if isinstance(error, MemoryError):
        return Problem(f"{who}: there is not enough memory for this. Use smaller sizes or batches.")
    return Problem(
        f"{who}: an argument cannot be used: {error}. Check the types and sizes of the arguments.", kind=kind
    )


def _public_frame() -> FrameType:
    """The outermost frame of this package among those that lead to the caller of :func:`misuse` without a break."""
    frame = sys._getframe(2)
    while frame.f_back is not None:
        module = frame.f_back.f_globals.get("__name__", "")
        if module == __name__ or not module.startswith(__package__):
            break
        frame = frame.f_back
    return frame


def _who(frame: FrameType) -> str:
    name, owner = frame.f_code.co_name, frame.f_locals.get("self")
    if owner is None:
        return name
    return type(owner).__name__ if name == "__init__" else f"{type(owner).__name__}.{name}"


def _annotations(frame: FrameType) -> dict[str, Any]:
    owner, name = frame.f_locals.get("self"), frame.f_code.co_name
    function = frame.f_globals.get(name) if owner is None else getattr(type(owner), name, None)
    return dict(getattr(function, "__annotations__", {}))


def _fits(value: Any, annotation: Any) -> bool:
    """True if a value is of the kind that an annotation, written as text, names."""
    return any(_fits_one(value, part.strip()) for part in str(annotation).split("|"))


def _fits_one(value: Any, kind: str) -> bool:
    outer, _, inner = kind.partition("[")
    if outer == "Sequence":
        if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, (Sequence, np.ndarray)):
            return False
        if isinstance(value, np.ndarray) and value.ndim == 0:
            return False
        return all(_fits(item, inner.rstrip("]")) for item in value) if "[" not in inner else True
    simple = {"None": type(None), "int": Integral, "float": Real, "bool": (bool, np.bool_), "str": str}
    if outer in simple:
        return isinstance(value, simple[outer])  # type: ignore[arg-type]
    if outer == "TensorLike":
        return isinstance(value, (np.ndarray, BNNSNDArrayDescriptor))
    return outer in ("Any", "NoReturn") or outer in {base.__name__ for base in type(value).__mro__}


_SPELLED = {
    "int": "an integer", "float": "a number", "bool": "True or False", "TensorLike": "an array or descriptor",
    "Sequence[int]": "a sequence of integers", "Sequence[float]": "a sequence of numbers",
}  # fmt: skip


def _spelled(annotation: Any) -> str:
    return " or ".join(_SPELLED.get(part.strip(), part.strip()) for part in str(annotation).split("|"))


def _inside(value: Any) -> str:
    """The contents of an array or a list as text, which may explain why it does not fit."""
    if isinstance(value, np.ndarray):
        return f" of shape {value.shape} and type {value.dtype}"
    if isinstance(value, (list, tuple)) and value:
        return f" of {type(value[0]).__name__}"
    return ""
