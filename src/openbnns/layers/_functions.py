"""Functions without a layer, and methods that no record declares, made from their signatures.

    @function(NAMES, writes="output")
    def transpose(caller: Caller, input: TensorLike, output: TensorLike | None = None, ...) -> TensorLike:
        '''y = x with two axes swapped.'''
        ...

Users call it without the first argument, which words its messages. A call that has been made before on arguments of the
same kind is repeated at once (:func:`openbnns.filters.direct.known_calls`); ``writes`` names the argument that says
where its result goes. The body runs for any other call; its problems become exceptions. The body of a method takes the
caller after ``self``::

    @call(NAMES)
    def append(self, caller: Caller, samples: Any) -> None:
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Concatenate, NoReturn, ParamSpec, TypeVar

from .._spelling import unexpected
from .._words import Caller
from ..errors import BNNSError, LayerApplyError, Problem
from ..filters.direct import known_calls, recorded
from ._misuse import MISUSE_ERRORS, misuse
from ._ports import raised

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")
_Self = TypeVar("_Self")


_Decides = Mapping[str, tuple[Any, ...]]


def function(
    names: Mapping[str, str], *, writes: str = "", decides: _Decides | None = None
) -> Callable[[Callable[Concatenate[Caller, _Parameters], _Result]], Callable[_Parameters, _Result]]:
    """Make a function of the Python face from one that takes a caller first.

    ``names`` says what it calls the arguments of the C function. ``decides`` maps arguments that are neither tensors nor
    plain numbers to their type and the attributes that decide what the call does. Without ``writes`` no call is kept.
    """

    def decorate(body: Callable[Concatenate[Caller, _Parameters], _Result]) -> Callable[_Parameters, _Result]:
        return _FastFunction(body, names, writes, decides or {}).made

    return decorate


def function_with_constants(
    names: Mapping[str, str], *, writes: str, decides: _Decides | None = None
) -> Callable[[Callable[Concatenate[Caller, list[Any], _Parameters], _Result]], Callable[_Parameters, _Result]]:
    """The same for a body whose second argument is a list, to which it adds what native code used besides the memory of
    its arguments: arrays that are the same for every such call, or the objects that hold them."""

    def decorate(
        body: Callable[Concatenate[Caller, list[Any], _Parameters], _Result],
    ) -> Callable[_Parameters, _Result]:
        return _FastFunction(body, names, writes, decides or {}, has_constants=True).made

    return decorate


def call(
    names: Mapping[str, str],
) -> Callable[
    [Callable[Concatenate[_Self, Caller, _Parameters], _Result]], Callable[Concatenate[_Self, _Parameters], _Result]
]:
    """Make a method from one that takes a caller after ``self``."""

    def decorate(
        body: Callable[Concatenate[_Self, Caller, _Parameters], _Result],
    ) -> Callable[Concatenate[_Self, _Parameters], _Result]:
        return _FastFunction(body, names, "", {}, of_class=True).made

    return decorate


class _FastFunction:
    def __init__(
        self, body: Callable[..., Any], names: Mapping[str, str], writes: str, decides: _Decides, *,
        of_class: bool = False, has_constants: bool = False,
    ) -> None:  # fmt: skip
        code, self.has_constants = body.__code__, has_constants
        self.first = 2 if of_class or has_constants else 1  # where the user's arguments begin
        self.owner = ["self"] if of_class else []
        count = code.co_argcount + code.co_kwonlyargcount
        self.body, self.names, self.decides = body, names, decides
        self.arguments = code.co_varnames[self.first : count]
        self.positional = code.co_argcount - self.first
        self.caller = Caller(body.__name__, names, null="None")
        self.callers: dict[type[Any], Caller] = {}  # of a method, by class
        before = self.arguments[: self.arguments.index(writes)] if writes else ()
        self.calls = known_calls(sum(map(self._width, before))) if writes else None
        self.made = self._compiled()

    def _compiled(self) -> Callable[..., Any]:
        body, keyword_only = self.body, self.arguments[self.positional :]
        given = "".join(f"{name}, " for name in self.arguments)
        owner = self.owner
        parameters = [*owner, *self.arguments[: self.positional], *(["*", *keyword_only] if keyword_only else [])]
        passed = [*owner, "caller", *self.arguments[: self.positional], *(f"{name}={name}" for name in keyword_only)]
        key = "".join(f"{self._key(name)}, " for name in self.arguments)
        known = f"""
    if not misspelled:
        result = RUN({key})
        if result is not None:
            return result
    return FUNCTION.checked(misspelled, ({key}), ({given}))
"""
        plain = f"""
    caller = {"CALLERS.get(TYPE(self)) or FUNCTION.caller_of(TYPE(self))" if owner else "CALLER"}
    if misspelled:
        FUNCTION.refuse(caller, misspelled)
    try:
        return BODY({", ".join(passed)})
    except ERRORS as error:
        FUNCTION.fail(caller, error, ({given}))
"""
        scope: dict[str, Any] = {
            "FUNCTION": self, "RUN": self.calls and self.calls.run, "BODY": body, "CALLER": self.caller,
            "CALLERS": self.callers, "ERRORS": (Problem, *MISUSE_ERRORS), "__name__": body.__module__, "TYPE": type,
            **{f"TYPE_{name}": kind for name, (kind, *_) in self.decides.items()},
        }  # fmt: skip
        text = f"def {body.__name__}({', '.join([*parameters, '**misspelled'])}):{known if self.calls is not None else plain}"
        exec(compile(text, f"{body.__code__.co_filename}:{body.__qualname__}", "exec"), scope)
        made: Any = functools.wraps(body)(scope[body.__name__])
        made.__defaults__, made.__kwdefaults__ = body.__defaults__, body.__kwdefaults__
        whole = inspect.signature(body)
        shown = [p for name, p in whole.parameters.items() if name in (*owner, *self.arguments)]
        made.__signature__ = whole.replace(parameters=shown)
        return made  # type: ignore[no-any-return]

    def caller_of(self, kind: type[Any]) -> Caller:
        """The caller that words the messages of a class's method."""
        name = self.body.__name__
        who = kind._call_name(name) if hasattr(kind, "_call_name") else f"{kind.__name__}.{name}"
        self.callers[kind] = caller = Caller(who, self.names, null="None")
        return caller

    def _width(self, name: str) -> int:
        """How many entries an argument has in the key of a call."""
        return len(self.decides[name]) - 1 if name in self.decides else 1

    def _key(self, name: str) -> str:
        if name not in self.decides:
            return name
        _, *attributes = self.decides[name]
        return ", ".join(f"{name}.{attribute} if TYPE({name}) is TYPE_{name} else {name}" for attribute in attributes)

    def refuse(self, caller: Caller, misspelled: Iterable[str]) -> NoReturn:
        raise unexpected(self.made, misspelled, caller.function)

    def checked(self, misspelled: Iterable[str], key: tuple[Any, ...], values: tuple[Any, ...]) -> Any:
        """Make a call that is not known, or refuse it."""
        if misspelled:
            self.refuse(self.caller, misspelled)

        constants: list[Any] = []

        def work(*own: Any) -> Any:
            kept = iter(own)
            taken = []
            for name, value in zip(self.arguments, values, strict=True):
                entries = [next(kept) for _ in range(self._width(name))]
                taken.append(value if name in self.decides else entries[0])
            named = dict(zip(self.arguments[self.positional :], taken[self.positional :], strict=True))
            first = (self.caller, constants) if self.has_constants else (self.caller,)
            return self.body(*first, *taken[: self.positional], **named)

        try:
            return recorded(self.calls, key, work, constants)
        except (Problem, *MISUSE_ERRORS) as error:
            self.fail(self.caller, error, values)

    def fail(self, caller: Caller, error: Exception, values: Sequence[Any]) -> NoReturn:
        """Raise the exception that users see."""
        if isinstance(error, Problem):
            raise raised(error, LayerApplyError) from None
        if isinstance(error, BNNSError):
            raise error
        given = dict(zip(self.arguments, values, strict=True))
        raise raised(misuse(error, caller.function, self.body.__annotations__, given), LayerApplyError) from error
